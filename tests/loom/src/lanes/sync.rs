//! What the lanes take from `std`, from loom. Nobody lingers or spins before it sleeps, and the threads of
//! lanes end with the model.

use super::lane::Changed;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::park;

use loom::thread::Thread;

loom::lazy_static! {
    static ref CHANGED: Changed = Changed {
        epoch: AtomicU32::new(0),
        sleepers: AtomicU32::new(0),
        lock: Mutex::new(()),
        wake: Condvar::new(),
    };
    /// The threads of lanes end.
    pub(super) static ref ENDED: AtomicBool = AtomicBool::new(false);
}

pub(super) fn changed() -> &'static Changed {
    &CHANGED
}

pub(super) struct Server(Mutex<Option<Thread>>);

impl Default for Server {
    fn default() -> Server {
        Server(Mutex::new(None))
    }
}

impl Server {
    pub fn get(&self, _: &str, serve: impl FnOnce() + Send + 'static) -> Option<Thread> {
        let mut thread = self.0.lock().unwrap();
        Some(thread.get_or_insert_with(|| loom::thread::spawn(serve).thread().clone()).clone())
    }
}

pub(super) fn serves() -> bool {
    !ENDED.load(Ordering::Acquire)
}

pub(super) struct Linger;

impl Linger {
    pub fn begin() -> Linger {
        Linger
    }

    pub fn goes_on(&self) -> bool {
        false
    }
}

pub(super) fn spin(_: u32) -> bool {
    false
}
