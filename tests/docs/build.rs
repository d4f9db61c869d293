//! Copies the pages, and beside them the files that their programs name: a block of C that begins with the
//! file's name in a comment, `/* saxpy.cl */`, is that file.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("cargo runs this"));
    for page in [
        "README.md",
        "docs/start.md",
        "docs/devices.md",
        "docs/kernels-once.md",
        "docs/opencl.md",
        "docs/cuda.md",
        "docs/tasks.md",
        "docs/graphs.md",
        "docs/ranks.md",
        "docs/hicr.md",
    ] {
        let page = root.join(page);
        println!("cargo::rerun-if-changed={}", page.display());
        let text = fs::read_to_string(&page)?;
        for block in text.split("```c\n").skip(1) {
            let code = block.split("```").next().unwrap_or_default();
            let name = code.strip_prefix("/* ").and_then(|code| code.split_once(" */")).map(|(name, _)| name);
            if let Some(name) = name.filter(|name| !name.contains([' ', '/'])) {
                fs::write(to.join(name), code)?;
            }
        }
        fs::write(to.join(page.file_name().expect("a page has a name")), text)?;
    }
    Ok(())
}
