//! The two forms of a file, and the versions that are read.

use super::{Memory, Recording, RecordingError, Submission, bytes};
use crate::error::Error;
use crate::kernel::present_name;
use flash_types::descriptor::KernelDescriptor;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The name of the JSON form.
const FORMAT: &str = "flash.recording";
/// The version of both forms that is written.
const VERSION: u32 = 2;
/// The oldest version that is read. It has what version 2 has, but for names of kernels.
const OLDEST: u32 = 1;
/// The first bytes of the binary form; JSON cannot begin with them.
const MAGIC: &[u8; 8] = b"FLASHREC";
/// Bytes of magic, version and checksum.
const HEAD: usize = 16;

/// The fields that both forms begin with. The rest of another version may have any form.
#[derive(Deserialize)]
struct FileHead {
    format: String,
    version: u32,
}

#[derive(Serialize)]
struct FileToWrite<'a> {
    format: &'a str,
    version: u32,
    kernels: &'a [KernelDescriptor],
    memories: &'a [Memory],
    submissions: &'a [Submission],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileContent {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    kernels: Vec<KernelDescriptor>,
    memories: Vec<Memory>,
    submissions: Vec<Submission>,
}

/// The binary form after its head.
#[derive(Serialize)]
struct BodyRef<'a> {
    kernels: Vec<TextRef<'a>>,
    memories: &'a [Memory],
    submissions: &'a [Submission],
}

#[derive(Serialize)]
struct TextRef<'a>(#[serde(with = "bytes::text")] &'a KernelDescriptor);

#[derive(Deserialize)]
struct Body {
    kernels: Vec<Text>,
    memories: Vec<Memory>,
    submissions: Vec<Submission>,
}

#[derive(Deserialize)]
struct Text(#[serde(with = "bytes::text")] KernelDescriptor);

/// Refuses versions that cannot be read.
fn check_version(found: u32) -> Result<(), RecordingError> {
    let expected = format!("expected version {OLDEST} to {VERSION} of the format, found {found}");
    match found {
        OLDEST..=VERSION => Ok(()),
        0..OLDEST => Err(damaged(expected)),
        _ => Err(RecordingError::whole(format!(
            "{expected}, which a newer FLASH wrote: read it with that one, or record it again with this one"
        ))),
    }
}

/// The content of a file, with the names that its kernels have now.
fn of_version(version: u32, mut recording: Recording) -> Result<Recording, RecordingError> {
    if version == 1 {
        for kernel in &mut recording.kernels {
            if let Some(name) = present_name(kernel) {
                kernel.name = name;
            }
        }
    }
    recording.check_all()?;
    Ok(recording)
}

fn damaged(what: impl std::fmt::Display) -> RecordingError {
    RecordingError::whole(format!("{what}: the file is damaged or cut off, record it again"))
}

impl Recording {
    /// As JSON.
    ///
    /// # Errors
    /// [`Error::Recording`] if an attribute has a value that JSON does not know.
    pub fn to_json(&self) -> Result<String, Error> {
        let Recording { kernels, memories, submissions } = self;
        let written = FileToWrite { format: FORMAT, version: VERSION, kernels, memories, submissions };
        serde_json::to_string(&written).map_err(|e| RecordingError::whole(format!("not written: {e}")).into())
    }

    /// In the binary form.
    ///
    /// # Errors
    /// As [`to_json`](Self::to_json).
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let body = BodyRef {
            kernels: self.kernels.iter().map(TextRef).collect(),
            memories: &self.memories,
            submissions: &self.submissions,
        };
        let head = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
        let mut file = postcard::to_extend(&body, head)
            .map_err(|e| Error::from(RecordingError::whole(format!("not written: {e}"))))?;
        let sum = crc32fast::hash(&file[HEAD..]).to_le_bytes();
        file[HEAD - 4..HEAD].copy_from_slice(&sum);
        Ok(file)
    }

    /// From JSON.
    ///
    /// # Errors
    /// [`Error::Recording`] with line and column, or with what [`check`](Self::check) found.
    pub fn from_json(text: &str) -> Result<Recording, Error> {
        Ok(from_json(text)?)
    }

    /// From either form: they are told apart by the first bytes.
    ///
    /// # Errors
    /// [`Error::Recording`]: not a recording, of another version, damaged, or what
    /// [`check`](Self::check) found.
    pub fn from_bytes(file: &[u8]) -> Result<Recording, Error> {
        Ok(from_bytes(file)?)
    }

    /// Writes a file: JSON if its name ends in `.json`, else the binary form.
    ///
    /// # Errors
    /// [`Error::Recording`] with the path.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let file = match path.extension().is_some_and(|e| e == "json") {
            true => self.to_json()?.into_bytes(),
            false => self.to_bytes()?,
        };
        std::fs::write(path, file)
            .map_err(|e| RecordingError::whole(format!("cannot be written: {e}")).of_file(path).into())
    }

    /// Reads a file of either form.
    ///
    /// # Errors
    /// [`Error::Recording`] with the path: it cannot be read, or as
    /// [`from_bytes`](Self::from_bytes).
    pub fn load(path: impl AsRef<Path>) -> Result<Recording, Error> {
        let path = path.as_ref();
        let file = File::open(path).map_err(unreadable);
        Ok(file.and_then(read).map_err(|error| error.of_file(path))?)
    }

    /// Reads what a file of either form has, from standard input for example.
    ///
    /// # Errors
    /// [`Error::Recording`]: it cannot be read, or as [`from_bytes`](Self::from_bytes).
    pub fn read(reader: impl Read) -> Result<Recording, Error> {
        Ok(read(reader)?)
    }
}

fn unreadable(error: std::io::Error) -> RecordingError {
    RecordingError::whole(format!("cannot be read: {error}"))
}

fn read(mut file: impl Read) -> Result<Recording, RecordingError> {
    // The limit keeps it from reading an endless file, or a disk image, to its end.
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD as u64).read_to_end(&mut bytes).map_err(unreadable)?;
    if !bytes.starts_with(MAGIC) && !is_json(&bytes) {
        return Err(foreign(&bytes));
    }
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    from_bytes(&bytes)
}

fn is_json(file: &[u8]) -> bool {
    file.trim_ascii_start().first().is_none_or(|first| *first == b'{') && !file.is_empty()
}

fn foreign(file: &[u8]) -> RecordingError {
    RecordingError::whole(match file {
        [] => "expected a recording, found an empty file".to_owned(),
        _ => format!(
            "expected a recording, which begins with `{{` (JSON) or `FLASHREC` (binary), found `{}`",
            file[..file.len().min(8)].escape_ascii()
        ),
    })
}

fn from_bytes(file: &[u8]) -> Result<Recording, RecordingError> {
    if file.starts_with(MAGIC) {
        return from_binary(file);
    }
    if !is_json(file) {
        return Err(foreign(file));
    }
    match std::str::from_utf8(file) {
        Ok(text) => from_json(text),
        Err(error) => Err(damaged(format!("expected JSON, found no text: {error}"))),
    }
}

fn from_json(text: &str) -> Result<Recording, RecordingError> {
    let wrong = |e| RecordingError::whole(format!("expected a recording as JSON: {e}"));
    let head: FileHead = serde_json::from_str(text).map_err(wrong)?;
    if head.format != FORMAT {
        return Err(RecordingError::whole(format!(
            "expected the format `{FORMAT}`, found `{}`",
            head.format.escape_debug()
        )));
    }
    check_version(head.version)?;
    let FileContent { kernels, memories, submissions, .. } = serde_json::from_str(text).map_err(wrong)?;
    of_version(head.version, Recording { kernels, memories, submissions })
}

fn from_binary(file: &[u8]) -> Result<Recording, RecordingError> {
    let Some((head, body)) = file.split_at_checked(HEAD) else {
        return Err(damaged(format!("expected a head of {HEAD} bytes, found {}", file.len())));
    };
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let version = word(8);
    check_version(version)?;
    let (expected, found) = (word(12), crc32fast::hash(body));
    if expected != found {
        return Err(damaged(format!("expected the CRC-32 {expected:08x}, found {found:08x}")));
    }
    let (body, rest) = postcard::take_from_bytes::<Body>(body).map_err(|e| {
        damaged(format!("expected kernels, memories and submissions in the postcard format: {e}"))
    })?;
    if !rest.is_empty() {
        return Err(damaged(format!("expected the end, found {} more bytes", rest.len())));
    }
    let kernels = body.kernels.into_iter().map(|text| text.0).collect();
    of_version(version, Recording { kernels, memories: body.memories, submissions: body.submissions })
}
