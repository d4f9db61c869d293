//! The core of a woken worker: not the core of the thread that wakes it.
//!
//! A woken thread goes where it ran last, or to the core of the waking thread, if the system finds no better
//! place in the short time that it searches. The caller does not sleep then, it runs the launch. So a worker
//! that was put on its core waits for milliseconds, and launch after launch runs on one core beside an idle
//! one.

#[cfg(target_os = "linux")]
pub(super) use linux::Place;

/// Systems without this facility.
#[cfg(not(target_os = "linux"))]
#[derive(Default)]
pub(super) struct Place;

#[cfg(not(target_os = "linux"))]
impl Place {
    pub(super) fn here() -> i32 {
        0
    }

    pub(super) fn keep_off(&self, _: i32) {}

    pub(super) fn arrived(&self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use libc::{CPU_CLR, CPU_COUNT, CPU_ISSET, cpu_set_t, sched_getaffinity, sched_setaffinity};
    use std::sync::{Mutex, PoisonError};

    /// The place of one worker.
    #[derive(Default)]
    pub(in super::super) struct Place(Mutex<AllowedCpus>);

    #[derive(Default)]
    struct AllowedCpus {
        /// The thread; none before it has run.
        thread: Option<i32>,
        /// The cores that it may use, while it is kept off one.
        allowed: Option<cpu_set_t>,
    }

    impl Place {
        /// The core of the calling thread; negative if it is unknown.
        pub(in super::super) fn here() -> i32 {
            // SAFETY: it takes nothing and returns a number.
            unsafe { libc::sched_getcpu() }
        }

        /// Called before the worker is woken, from the core `here`. Takes some 0.5 us.
        pub(in super::super) fn keep_off(&self, here: i32) {
            let mut known = self.known();
            let (Some(thread), None) = (known.thread, known.allowed) else {
                return;
            };
            if !(0..libc::CPU_SETSIZE).contains(&here) {
                return;
            }
            let size = size_of::<cpu_set_t>();
            // SAFETY: a set of cores is plain numbers, of which the system writes and reads as many bytes as
            // it is told; the core lies in it, as just checked. The thread is one of this pool, which lives.
            unsafe {
                let mut allowed: cpu_set_t = std::mem::zeroed();
                if sched_getaffinity(thread, size, &mut allowed) != 0 || !CPU_ISSET(here as usize, &allowed) {
                    return;
                }
                let mut others = allowed;
                CPU_CLR(here as usize, &mut others);
                // All threads on one core were asked for.
                if CPU_COUNT(&others) > 0 && sched_setaffinity(thread, size, &others) == 0 {
                    known.allowed = Some(allowed);
                }
            }
        }

        /// Called on the worker, as soon as it runs.
        pub(in super::super) fn arrived(&self) {
            let mut known = self.known();
            // SAFETY: it takes nothing and returns a number.
            known.thread.get_or_insert_with(|| unsafe { libc::gettid() });
            if let Some(allowed) = known.allowed.take() {
                // SAFETY: the set that this thread had. On failure the thread stays on the cores that it has
                // now.
                unsafe { sched_setaffinity(0, size_of::<cpu_set_t>(), &allowed) };
            }
        }

        fn known(&self) -> std::sync::MutexGuard<'_, AllowedCpus> {
            // The state is consistent at any time.
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::sync::mpsc::channel;

        /// The cores that a thread may use, 0: the calling one.
        fn cores(thread: i32) -> Vec<usize> {
            // SAFETY: as above.
            let set = unsafe {
                let mut set: cpu_set_t = std::mem::zeroed();
                assert_eq!(sched_getaffinity(thread, size_of::<cpu_set_t>(), &mut set), 0);
                set
            };
            // SAFETY: these are in it.
            (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { CPU_ISSET(core, &set) }).collect()
        }

        /// Puts the calling thread on one core.
        fn stay_on(core: usize) {
            // SAFETY: as above.
            unsafe {
                let mut set: cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(core, &mut set);
                assert_eq!(sched_setaffinity(0, size_of::<cpu_set_t>(), &set), 0);
            }
        }

        #[test]
        fn a_worker_is_kept_off_its_callers_core_until_it_runs() {
            let all = cores(0);
            let (here, others) = (all[0] as i32, if all.len() > 1 { &all[1..] } else { &all });
            let place = Place::default();
            // The thread is not known yet.
            place.keep_off(here);
            let (to_worker, orders) = channel::<()>();
            let (to_test, answers) = channel();
            std::thread::scope(|scope| {
                let place = &place;
                scope.spawn(move || {
                    for () in orders {
                        place.arrived();
                        to_test.send(place.known().thread.unwrap()).unwrap();
                    }
                });
                let wake = || {
                    to_worker.send(()).unwrap();
                    answers.recv().unwrap()
                };
                let thread = wake();
                for no_core in [-1, libc::CPU_SETSIZE] {
                    place.keep_off(no_core);
                    assert_eq!(cores(thread), all);
                }
                for _ in 0..2 {
                    place.keep_off(here);
                    // Two wakes before it runs.
                    place.keep_off(here);
                    assert_eq!(cores(thread), others);
                    wake();
                    assert_eq!(cores(thread), all);
                }
                drop(to_worker);
            });
        }

        #[test]
        fn a_worker_that_may_use_one_core_stays_there() {
            let core = cores(0)[0];
            std::thread::spawn(move || {
                stay_on(core);
                let place = Place::default();
                for _ in 0..2 {
                    place.arrived();
                    assert_eq!(cores(0), [core]);
                    place.keep_off(core as i32);
                    assert_eq!(cores(0), [core]);
                }
            })
            .join()
            .unwrap();
        }
    }
}
