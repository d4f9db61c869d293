//! The names that the lanes import from `std`, from loom. No thread lingers or spins before it sleeps, and
//! the threads of lanes end with the model.

use super::lane::Changed;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

use loom::thread::JoinHandle;

loom::lazy_static! {
    static ref CHANGED: Changed = Changed {
        epoch: AtomicU32::new(0),
        sleepers: AtomicU32::new(0),
        lock: Mutex::new(()),
        wake: Condvar::new(),
    };
    /// The threads of lanes end.
    pub(super) static ref ENDED: AtomicBool = AtomicBool::new(false);
    static ref THREADS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());
}

pub(super) fn changed() -> &'static Changed {
    &CHANGED
}

pub(super) struct Server(Mutex<bool>);

impl Default for Server {
    fn default() -> Server {
        Server(Mutex::new(false))
    }
}

impl Server {
    pub fn start(&self, _: &str, serve: impl FnOnce() + Send + 'static) -> bool {
        let mut started = self.0.lock().unwrap();
        if !*started {
            THREADS.lock().unwrap().push(loom::thread::spawn(serve));
            *started = true;
        }
        true
    }
}

/// Waits for the threads of lanes, which have been told to end.
pub(super) fn join() {
    let threads = std::mem::take(&mut *THREADS.lock().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
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
