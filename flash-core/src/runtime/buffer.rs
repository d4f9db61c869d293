//! The pools of recording buffers. Each live pipeline has one, taken from its thread's pool and returned to
//! it, so that a warm submission allocates nothing. What a thread has too many of goes to a pool of all
//! threads: asynchronous pipelines are recorded by one thread and dropped by others.

use super::distributed::kept::KeptRuns;
use super::footprint::pipeline::PipelineFootprint;
use super::launch;
use super::launch_cache::LaunchCache;
use super::state::Runtime;
use super::submission::Submission;
use super::submissions::SubmissionList;
use crate::error::Error;
use flash_types::index::IntoDims;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::{Arc, Mutex};

/// Buffers that a thread keeps.
const KEPT: usize = 8;

/// Buffers that all threads together keep beside these: as many as there may well be asynchronous pipelines
/// in flight.
const SHARED: usize = 256;

/// The parts of a recording.
pub(super) struct Buffer {
    runtime: Arc<Runtime>,
    list: SubmissionList,
    launch_cache: LaunchCache,
    /// Of the recording that was last entered into the order, and the number of its submissions.
    footprint: Option<(usize, Arc<PipelineFootprint>)>,
    /// Of the recording that was last run over several devices.
    kept: KeptRuns,
    /// Taken by executions of pipelines that write slices of the host.
    alone: Mutex<()>,
}

/// The buffers that a thread keeps.
struct Pool {
    /// The buffer returned last: almost every launch takes this one.
    last: Cell<Option<Box<Buffer>>>,
    // Boxed, because a buffer moves between pipelines and the pool, and is large.
    #[allow(clippy::vec_box)]
    others: RefCell<Vec<Box<Buffer>>>,
}

impl Pool {
    #[cold]
    fn take_other(&self) -> Option<Box<Buffer>> {
        self.others.try_borrow_mut().ok()?.pop().or_else(|| Some(POOL_OF_ALL.try_lock().ok()?.pop()?.0))
    }

    /// Keeps a buffer, or frees it. It may own memories, so it is freed outside the borrow.
    #[cold]
    fn keep_other(&self, buffer: Box<Buffer>) -> Option<Box<Buffer>> {
        let Ok(mut others) = self.others.try_borrow_mut() else {
            return Some(buffer);
        };
        if others.len() < KEPT {
            others.push(buffer);
            return None;
        }
        match POOL_OF_ALL.try_lock() {
            Ok(mut all) if all.len() < SHARED && !buffer.list.is_long() => {
                all.push(Idle(buffer));
                None
            }
            _ => Some(buffer),
        }
    }
}

/// Only tried to be locked: a thread that does not get it makes a buffer, or frees it.
static POOL_OF_ALL: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// A buffer that no pipeline has.
struct Idle(Box<Buffer>);

// SAFETY: what is left of its recording is never dereferenced, but for the plans, which any thread may use,
// and which live as long as the runtime that the buffer has.
unsafe impl Send for Idle {}

thread_local! {
    static POOL: Pool = const { Pool { last: Cell::new(None), others: RefCell::new(Vec::new()) } };
}

/// A buffer that returns to the pool of the thread that drops it.
pub(super) struct Pooled(Option<Box<Buffer>>);

impl Pooled {
    /// An empty buffer of a runtime. One that was used for the same runtime changes no reference count.
    #[inline]
    pub fn take(runtime: &Arc<Runtime>) -> Pooled {
        match POOL.try_with(|pool| pool.last.take()).ok().flatten() {
            Some(buffer) if Arc::ptr_eq(&buffer.runtime, runtime) => Pooled(Some(buffer)),
            last => Pooled::take_other(last, runtime),
        }
    }

    /// `last` is another runtime's, if there is one.
    #[cold]
    fn take_other(last: Option<Box<Buffer>>, runtime: &Arc<Runtime>) -> Pooled {
        let buffer = match last.or_else(|| POOL.try_with(Pool::take_other).ok().flatten()) {
            Some(mut buffer) => {
                if !Arc::ptr_eq(&buffer.runtime, runtime) {
                    buffer.list.forget();
                    buffer.clear_caches();
                    buffer.runtime = runtime.clone();
                }
                buffer
            }
            None => Box::new(Buffer {
                runtime: runtime.clone(),
                list: SubmissionList::default(),
                launch_cache: LaunchCache::default(),
                footprint: None,
                kept: KeptRuns::default(),
                alone: Mutex::new(()),
            }),
        };
        Pooled(Some(buffer))
    }

    #[inline]
    fn get_mut(&mut self) -> &mut Buffer {
        // SAFETY: only `drop` takes the buffer out.
        unsafe { self.0.as_mut().unwrap_unchecked() }
    }

    #[inline]
    pub fn list(&mut self) -> &mut SubmissionList {
        &mut self.get_mut().list
    }

    #[inline(always)]
    pub fn record<'a>(&mut self, submission: &mut impl Submission<'a>) {
        let Buffer { runtime, list, .. } = self.get_mut();
        submission.record(list, runtime);
    }

    /// Records something by hand.
    pub fn record_with(&mut self, record: impl FnOnce(&mut SubmissionList, &Runtime)) {
        let buffer = self.get_mut();
        buffer.clear_caches();
        record(&mut buffer.list, &buffer.runtime);
    }

    #[inline]
    pub fn finish(&mut self, dims: impl IntoDims) {
        let buffer = self.get_mut();
        if !buffer.list.finish(dims, &buffer.runtime) {
            buffer.clear_caches();
        }
    }

    /// The footprint of all of it. A recording that repeats the one before has that one's.
    pub fn footprint(&mut self) -> Arc<PipelineFootprint> {
        let Buffer { runtime, list, footprint, .. } = self.get_mut();
        let count = list.nodes().len();
        if let Some((of, known)) = footprint
            && *of == count
        {
            return known.clone();
        }
        let made = Arc::new(PipelineFootprint::of(list, runtime));
        // A map function may look at scalars, which change.
        let stays = list.nodes().iter().all(|node| node.plan().part.function().is_none());
        *footprint = stays.then(|| (count, made.clone()));
        made
    }
}

impl Pooled {
    /// Ends the last submission, runs everything, and returns the buffer.
    #[inline(always)]
    pub fn finish_and_exec(mut self, dims: impl IntoDims) -> Result<(), Error> {
        let buffer = self.get_mut();
        if !buffer.list.finish(dims, &buffer.runtime) {
            buffer.clear_caches();
        } else if buffer.launch_cache.fits(&buffer.list) && buffer.launch_cache.run(&buffer.list)? {
            self.give_back();
            // Nothing is left to drop; this saves a call.
            std::mem::forget(self);
            return Ok(());
        }
        self.exec_and_keep()
    }

    #[inline(never)]
    fn exec_and_keep(mut self) -> Result<(), Error> {
        self.exec()?;
        let Buffer { runtime, list, launch_cache, .. } = self.get_mut();
        launch_cache.set(list, runtime);
        Ok(())
    }
}

impl Deref for Pooled {
    type Target = Buffer;

    #[inline]
    fn deref(&self) -> &Buffer {
        // SAFETY: only `drop` takes the buffer out.
        unsafe { self.0.as_ref().unwrap_unchecked() }
    }
}

impl Buffer {
    /// The recording is not the one before.
    #[inline]
    fn clear_caches(&mut self) {
        self.launch_cache.clear();
        self.footprint = None;
        self.kept.clear();
    }

    /// The recording, and the runtime that it runs on.
    pub fn parts(&self) -> (&SubmissionList, &Runtime) {
        (&self.list, &self.runtime)
    }

    pub fn len(&self) -> usize {
        self.list.nodes().len()
    }

    #[cfg(test)]
    /// How often runs of this recording were repeated without a walk.
    pub fn repeats(&self) -> u32 {
        self.kept.repeats()
    }

    #[cfg(feature = "recordings")]
    /// Reads the recording while it is not executed, if it writes slices of the host.
    pub fn while_idle<R>(&self, look: impl FnOnce(&SubmissionList, &Runtime) -> R) -> R {
        let _alone = self.list.slices_written.then(|| self.alone.lock().unwrap_or_else(|e| e.into_inner()));
        look(&self.list, &self.runtime)
    }

    #[inline]
    pub fn exec(&self) -> Result<(), Error> {
        let _alone = self.list.slices_written.then(|| self.alone.lock().unwrap_or_else(|e| e.into_inner()));
        launch::run(&self.list, &self.runtime, &self.kept)
    }
}

impl Drop for Pooled {
    #[inline]
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Pooled {
    /// Returns it to the pool of this thread.
    #[inline(always)]
    fn give_back(&mut self) {
        let Some(mut buffer) = self.0.take() else {
            return;
        };
        if !buffer.list.clear() {
            buffer.clear_caches();
        }
        match POOL.try_with(|pool| pool.last.replace(Some(buffer))) {
            Ok(None) => {}
            Ok(Some(before)) => keep_other(before),
            Err(_) => {}
        }
    }
}

#[cold]
fn keep_other(buffer: Box<Buffer>) {
    drop(POOL.try_with(|pool| pool.keep_other(buffer)));
}
