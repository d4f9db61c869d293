//! The HiCR model: programs over each kind of manager, managers and how they refuse, channels against models,
//! and instances that are killed.

mod channels;
mod executions;
mod instances;
mod lost;
mod managers;
mod programs;
mod tasks;

use flash_hicr::Managers;
use flash_hicr::{Error, threads};

/// Runs a test's body over threads.
fn over_threads(count: usize, body: impl Fn(Managers) -> Result<(), Error> + Send + Sync + 'static) {
    threads(count, body).unwrap_or_else(|error| panic!("{error}"));
}

/// The text of an error that has to be there.
#[track_caller]
fn text<T>(outcome: Result<T, Error>) -> String {
    match outcome {
        Ok(_) => panic!("expected an error, found none"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn has(text: &str, words: &str) {
    assert!(text.contains(words), "`{words}` is not in `{text}`");
}
