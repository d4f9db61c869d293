//! Traces of what runs in a process: a row per thread and per device, spans on them, arrows between them, and
//! counters. For [Perfetto](https://ui.perfetto.dev) and Paraver.
//!
//! ```
//! let trace = flash_trace::Trace::start();
//! {
//!     let _span = flash_trace::span("reads the file");
//!     flash_trace::counter("lines", 1.0);
//! }
//! let recording = trace.end();
//! let mut json = Vec::new();
//! recording.perfetto(&mut json)?;
//! assert!(String::from_utf8_lossy(&json).contains("reads the file"));
//! # Ok::<(), std::io::Error>(())
//! ```
//! Graphs (`flash-graph`) and tasks (`flash-tasks`) record themselves while a [`Trace`] is going on; launches
//! do with [`Trace::profile`]. While none is, a span costs one relaxed load.
//!
//! # How it is recorded
//! Each thread writes events of 32 bytes into chunks of its own, without a lock. A reader sees those that the
//! chunk's published length covers. All of it is safe code: the words are atomics, written by one thread.
//! Names are looked up in a table of the thread, and entered once into that of the trace. A thread records
//! [`EVENTS`] events at most, all threads together 16 times as many, and the rest is counted
//! ([`Recording::dropped`]). What a file shows is worked out when it is written (`rows.rs`).

mod event;
mod files;
pub mod hooks;
mod paraver;
mod perfetto;
mod recorder;
mod rows;
mod svg;
mod trace;

pub use hooks::{Span, counter, instant, is_on, span};
pub use trace::{EVENTS, Recording, Trace};
