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
//!
//! A result borrows what its task owns:
//! ```compile_fail,E0515
//! flash_tasks::scope(|s| {
//!     let task = s.spawn(|| {
//!         let numbers = vec![1, 2];
//!         numbers.as_slice()
//!     });
//!     task.wait().map(|numbers| numbers[0])
//! });
//! ```
//!
//! A result is taken twice:
//! ```compile_fail,E0382
//! flash_tasks::scope(|s| {
//!     let task = s.spawn(|| String::new());
//!     (task.wait(), task.wait())
//! });
//! ```
//!
//! The halves of a join write the same:
//! ```compile_fail,E0499
//! let mut x = 0;
//! flash_tasks::join(|| x += 1, || x += 2);
//! ```
//!
//! Tasks of a graph write the same; an order of theirs is not known to the compiler:
//! ```compile_fail,E0499
//! let mut x = 0;
//! let mut graph = flash_tasks::TaskGraph::new();
//! graph.task(&[], &[], || x += 1);
//! graph.task(&[], &[], || x += 2);
//! graph.run();
//! ```
//!
//! A task of a graph, which may run again, gives away what it owns:
//! ```compile_fail,E0507
//! let text = String::new();
//! let mut graph = flash_tasks::TaskGraph::new();
//! graph.task(&[], &[], move || drop(text));
//! ```
//!
//! A future must stay on its thread:
//! ```compile_fail
//! let shared = std::rc::Rc::new(1);
//! flash_tasks::spawn_async(async move { *shared });
//! ```
//!
//! A future borrows, though nothing waits for it:
//! ```compile_fail,E0597
//! let x = 1;
//! let borrowed = &x;
//! flash_tasks::spawn_async(async move { *borrowed });
//! ```
//!
//! What a mutex guards is kept without its guard:
//! ```compile_fail,E0505
//! let mutex = flash_tasks::Mutex::new(1);
//! let guard = mutex.lock();
//! let inner: &i32 = &guard;
//! drop(guard);
//! assert_eq!(*inner, 1);
//! ```
