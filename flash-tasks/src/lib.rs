//! Tasks on the worker threads of FLASH.
//!
//! | for | use |
//! |---|---|
//! | two functions at once | [`join`] |
//! | tasks that borrow, with results and errors | [`scope`], [`Scope::spawn`], [`Task::wait`] |
//! | tasks ordered by their data, run again and again | [`TaskGraph`] |
//! | waiting without a thread | [`Task::wait`], [`until`], [`yield_now`], in tasks |
//! | shared values, limits | [`Mutex`], [`Condvar`], [`Semaphore`] |
//! | futures | [`spawn_async`], [`block_on`] |
//! | what has to be looked at again and again | [`service`] |
//! | functions that a scheduler of yours suspends and resumes | [`coroutine`] |
//!
//! Tasks run on the threads that run kernels on the CPU, asynchronous pipelines and functions of the host,
//! and on the thread that waits for them. A task that waits is *suspended*: its thread runs other tasks. It
//! goes on on the same thread, so it may hold what is not `Send`. README.md in this crate's folder has the
//! design.

mod blocks;
#[cfg(doctest)]
mod compile_fail;
pub mod coroutine;
mod done;
mod error;
mod fiber;
mod future;
mod graph;
mod idle;
mod jobs;
mod locks;
mod node;
mod overflow;
mod run;
mod scope;
mod service;
mod sync;
mod task;
mod thread;
mod trace;
mod wait;
mod workers;

pub use error::TaskError;
pub use future::{AsyncTask, block_on, spawn_async};
pub use graph::{Datum, TaskGraph, TaskId};
pub use locks::{Condvar, Mutex, MutexGuard, Permit, Semaphore};
pub use scope::{Scope, Spawn, join, scope};
pub use service::{Service, service};
pub use task::{Priority, State, Task, cancelled, name};
pub use wait::{unsuspended, until, yield_now};
pub use workers::{set_limit, worker_count};
