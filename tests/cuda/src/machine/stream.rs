//! Streams: each has a thread, which does the work in order.

use super::Answer;
use super::context::Context;
use super::handles::lock;
use super::work::Work;
use crate::driver::Capture;
use cudarc::driver::sys::CUresult;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Delay before work begins if nothing waits for it, so that a read without a wait gets old data.
const LATE: Duration = Duration::from_micros(300);

/// One item of a stream's work.
pub(crate) enum Job {
    Work(Work),
    Mark(Arc<Mark>),
    Wait(Arc<Mark>),
    /// Frees memory.
    Free(u64),
}

pub(crate) struct Stream {
    pub context: &'static Context,
    /// It waits for the default stream, and the default stream for it.
    pub blocking: bool,
    state: Mutex<State>,
    /// Wakes the stream's thread: there is work.
    wake: Condvar,
    /// Wakes waiters: an item is done.
    finished: Condvar,
    /// The graph that it is being captured into.
    pub capture: Mutex<Option<Capture>>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    put: u64,
    done: u64,
    /// A thread waits for it.
    hurried: bool,
    closed: bool,
}

/// A point in a stream.
pub(crate) struct Mark {
    reached: Mutex<Option<Instant>>,
    changed: Condvar,
    stream: Arc<Stream>,
}

impl Stream {
    pub fn start(context: &'static Context, blocking: bool) -> Arc<Stream> {
        let stream = Arc::new(Stream {
            context,
            blocking,
            state: Mutex::default(),
            wake: Condvar::new(),
            finished: Condvar::new(),
            capture: Mutex::default(),
        });
        let own = stream.clone();
        std::thread::spawn(move || own.work());
        stream
    }

    /// Adds an item. The work of a blocking stream comes after everything that was put into the default
    /// stream before, and vice versa.
    pub fn put(self: &Arc<Stream>, job: Job) {
        if self.blocking {
            let default = self.context.default_stream();
            let others = match Arc::ptr_eq(self, &default) {
                true => self.context.all_streams(),
                false => vec![default],
            };
            for other in others {
                if other.blocking && !Arc::ptr_eq(self, &other) && !other.is_done() {
                    let mark = Mark::new(&other);
                    other.put_alone(Job::Mark(mark.clone()));
                    self.put_alone(Job::Wait(mark));
                }
            }
        }
        self.put_alone(job);
    }

    fn put_alone(&self, job: Job) {
        let mut state = lock(&self.state);
        state.jobs.push_back(job);
        state.put += 1;
        self.wake.notify_one();
    }

    /// Its thread ends when all is done.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.wake.notify_one();
    }

    /// True if added items become nodes of a graph.
    pub fn is_capturing(&self) -> bool {
        lock(&self.capture).is_some()
    }

    /// True if no work is left.
    pub fn is_done(&self) -> bool {
        let state = lock(&self.state);
        state.done == state.put
    }

    /// Begins without further delay.
    pub fn hurry(&self) {
        lock(&self.state).hurried = true;
        self.wake.notify_one();
    }

    pub fn synchronize(&self) -> Answer {
        let mut state = lock(&self.state);
        let until = state.put;
        state.hurried = true;
        self.wake.notify_one();
        while state.done < until {
            state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.context.check()
    }

    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            if state.jobs.is_empty() {
                state.hurried = false;
                if state.closed {
                    return;
                }
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                let begin = Instant::now();
                while !state.hurried && begin.elapsed() < LATE {
                    let left = LATE.saturating_sub(begin.elapsed());
                    state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                continue;
            }
            let Some(job) = state.jobs.pop_front() else { continue };
            drop(state);
            self.run(job);
            state = lock(&self.state);
            state.done += 1;
            self.finished.notify_all();
        }
    }

    fn run(&self, job: Job) {
        match job {
            Job::Mark(mark) => {
                *lock(&mark.reached) = Some(Instant::now());
                mark.changed.notify_all();
            }
            Job::Wait(mark) => mark.wait(),
            Job::Free(address) => drop(super::space::remove(address)),
            Job::Work(work) => {
                // After a failure nothing runs any more. A panic, which prints its message, must not end this
                // thread: others wait for it.
                if self.context.check().is_ok() {
                    let run = std::panic::AssertUnwindSafe(|| work.run(self.context));
                    let result = std::panic::catch_unwind(run).unwrap_or(Err(CUresult::CUDA_ERROR_UNKNOWN));
                    if let Err(code) = result {
                        self.context.lose(code);
                    }
                }
            }
        }
    }
}

impl Mark {
    pub fn new(stream: &Arc<Stream>) -> Arc<Mark> {
        Arc::new(Mark { reached: Mutex::default(), changed: Condvar::new(), stream: stream.clone() })
    }

    /// The time when it was reached.
    pub fn reached(&self) -> Option<Instant> {
        *lock(&self.reached)
    }

    pub fn context(&self) -> &'static Context {
        self.stream.context
    }

    pub fn hurry(&self) {
        self.stream.hurry();
    }

    pub fn wait(&self) {
        self.hurry();
        let mut reached = lock(&self.reached);
        while reached.is_none() {
            reached = self.changed.wait(reached).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The driver's code for a fault of a kernel.
pub(crate) fn code_of(fault: crate::run::Fault) -> CUresult {
    use crate::run::Fault;
    match fault {
        Fault::Address(_) => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        Fault::Misaligned(_) => CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        Fault::Assert => CUresult::CUDA_ERROR_ASSERT,
        Fault::Stack => CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
        Fault::Time => CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        Fault::Trap | Fault::Waiting | Fault::Mask | Fault::Race { .. } => CUresult::CUDA_ERROR_LAUNCH_FAILED,
    }
}
