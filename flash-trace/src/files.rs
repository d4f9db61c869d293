//! Files that take their place as a whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Writes a file that takes its place when it is whole: whatever stops it, the old file is still there, or
/// none.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("flash-trace-doc-{}", std::process::id()));
/// use std::io::Write;
/// flash_trace::hooks::replace(&path, |file| writeln!(file, "new"))?;
/// assert_eq!(std::fs::read_to_string(&path)?, "new\n");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The file beside it cannot be written, or cannot take its place.
pub fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().ok_or_else(|| io::Error::other("expected the name of a file"))?;
    let part = format!(".{}.{}.{number}.part", name.to_string_lossy(), std::process::id());
    let part = path.with_file_name(part);
    let written = (|| {
        let mut file = BufWriter::new(File::create(&part)?);
        write(&mut file)?;
        file.flush()?;
        drop(file);
        fs::rename(&part, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
