//! What the compiler refuses.
//!
//! A task borrows what the scope's body owns, which ends before the scope:
//! ```compile_fail,E0373
//! flash_tasks::scope(|s| {
//!     let x = 1;
//!     drop(s.spawn(|| x + 1));
//! });
//! ```
//!
//! A task has what must stay on its thread:
//! ```compile_fail,E0277
//! let shared = std::rc::Rc::new(1);
//! flash_tasks::scope(|s| drop(s.spawn(move || *shared)));
//! ```
//!
//! A task's result must stay on its thread:
//! ```compile_fail,E0277
//! flash_tasks::scope(|s| drop(s.spawn(|| std::rc::Rc::new(1))));
//! ```
//!
//! A handle leaves its scope:
//! ```compile_fail,E0521
//! let mut kept = None;
//! flash_tasks::scope(|s| kept = Some(s.spawn(|| 1)));
//! ```
//!
//! Two tasks write the same:
//! ```compile_fail,E0499
//! let mut x = 0;
//! flash_tasks::scope(|s| {
//!     drop(s.spawn(|| x += 1));
//!     drop(s.spawn(|| x += 1));
//! });
//! ```
//!
//! A guard goes to another thread:
//! ```compile_fail,E0277
//! let mutex = flash_tasks::Mutex::new(1);
//! let guard = mutex.lock();
//! flash_tasks::scope(|s| drop(s.spawn(move || *guard)));
//! ```
//!
//! A graph outlives what its tasks borrow:
//! ```compile_fail,E0597
//! let mut graph = flash_tasks::TaskGraph::new();
//! {
//!     let x = std::sync::atomic::AtomicU32::new(0);
//!     graph.task(&[], &[], || x.store(1, std::sync::atomic::Ordering::Relaxed));
//! }
//! graph.run();
//! ```
