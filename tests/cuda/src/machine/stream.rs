//! Streams: a thread each, which does in order what was put in.

use super::Answer;
use super::context::Context;
use super::handles::lock;
use super::work::Work;
use crate::driver::Capture;
use cudarc::driver::sys::CUresult;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Work begins so late if nobody waits for it: who reads results without waiting reads old ones.
const LATE: Duration = Duration::from_micros(300);

/// What goes through a stream.
pub(crate) enum Job {
    Work(Work),
    Mark(Arc<Mark>),
    Wait(Arc<Mark>),
    /// Memory goes.
    Free(u64),
}

pub(crate) struct Stream {
    pub context: &'static Context,
    /// It waits for the default stream, and the default stream for it.
    pub blocking: bool,
    state: Mutex<State>,
    /// To the stream's thread: there is something to do.
    wake: Condvar,
    /// To those who wait: something was done.
    finished: Condvar,
    /// The graph that it is being captured into.
    pub capture: Mutex<Option<Capture>>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    put: u64,
    done: u64,
    /// Somebody waits.
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

    /// Puts something in. What a stream that blocks does comes after all that was put into the default stream before,
    /// and the other way round.
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

    /// True if what is put in becomes nodes of a graph.
    pub fn is_capturing(&self) -> bool {
        lock(&self.capture).is_some()
    }

    /// True if nothing is left to do.
    pub fn is_done(&self) -> bool {
        let state = lock(&self.state);
        state.done == state.put
    }

    /// It does not wait any longer before it begins.
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
                // After a failure nothing happens any more. A panic, which says what it is, must not end this thread:
                // others wait for it.
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

    /// When it was reached.
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

/// What a fault of a kernel is called.
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
