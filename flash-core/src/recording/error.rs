//! Errors in recordings.

use std::fmt;
use std::path::{Path, PathBuf};

/// A recording that cannot be written, read or used.
#[derive(Clone, Debug)]
pub struct RecordingError {
    /// The file, if it is from one.
    pub(crate) path: Option<PathBuf>,
    /// The place in the recording: ``submission 3, argument `pos` ``. Empty: all of it.
    pub(crate) place: String,
    /// What was expected, what was found, what to do.
    pub(crate) text: String,
}

impl RecordingError {
    /// The file, if it is from one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Where in the recording: ``submission 3, argument `pos` ``. Empty: all of it.
    pub fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn new(place: impl Into<String>, text: impl Into<String>) -> RecordingError {
        RecordingError { path: None, place: place.into(), text: text.into() }
    }

    pub(super) fn whole(text: impl Into<String>) -> RecordingError {
        RecordingError::new("", text)
    }

    pub(super) fn of_file(self, path: &Path) -> RecordingError {
        RecordingError { path: Some(path.to_owned()), ..self }
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: ", path.display())?,
            None => f.write_str("recording: ")?,
        }
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for RecordingError {}
