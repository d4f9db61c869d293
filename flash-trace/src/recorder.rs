//! The recorder: the trace that is going on, and what each thread writes.
//!
//! *Invariants.* A chunk is written by its thread alone, and read up to its published length. A thread keeps
//! one chunk at most of a trace that has ended; all others belong to the trace.

use crate::event::{Event, NameId, What};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// Events of a chunk.
const CHUNK: usize = 1024;
/// Names of a trace; further ones are all recorded as [`OTHER`].
const NAMES: usize = 1 << 16;
/// Bytes of a name that are kept.
const NAME_BYTES: usize = 256;
const OTHER: &str = "(one of too many names)";

/// The number of the trace that is going on; 0: none.
static GOING_ON: AtomicU32 = AtomicU32::new(0);

/// The trace that is going on, and how many are interested in it.
static CURRENT: Mutex<Option<Current>> = Mutex::new(None);

struct Current {
    session: Arc<Session>,
    users: usize,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is recorded from the first start to the last end of traces that overlap.
pub(crate) struct Session {
    number: u32,
    epoch: Instant,
    /// Events of a thread at most.
    limit: usize,
    /// Chunks that may yet be made, by all threads together.
    chunks: AtomicUsize,
    pub(crate) threads: Mutex<Vec<Arc<Thread>>>,
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    numbers: FxHashMap<Arc<str>, NameId>,
    names: Vec<Arc<str>>,
}

/// What one thread has recorded.
pub(crate) struct Thread {
    pub(crate) name: String,
    chunks: Mutex<Vec<Arc<Chunk>>>,
    /// Events that there was no room for.
    dropped: AtomicU64,
}

struct Chunk {
    /// Events that are there to be read.
    len: AtomicUsize,
    words: Box<[[AtomicU64; 4]]>,
}

/// What a thread writes with.
struct Local {
    number: u32,
    epoch: Instant,
    session: Weak<Session>,
    thread: Weak<Thread>,
    /// Where it writes now; `None`: there is no more room.
    chunk: Option<Arc<Chunk>>,
    /// Events in `chunk`.
    len: usize,
    /// The capacity of all its chunks, in events.
    all: usize,
    names: FxHashMap<Box<str>, NameId>,
}

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

/// True while a trace is going on.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    GOING_ON.load(Ordering::Relaxed) != 0
}

impl Session {
    /// Joins the session that is going on, or begins one in which a thread records `limit` events at most.
    pub(crate) fn join(limit: usize) -> Arc<Session> {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let mut current = lock(&CURRENT);
        if let Some(Current { session, users }) = &mut *current {
            *users += 1;
            return session.clone();
        }
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        let session = Arc::new(Session {
            number,
            epoch: Instant::now(),
            limit,
            chunks: AtomicUsize::new(limit.div_ceil(CHUNK).saturating_mul(16)),
            threads: Mutex::default(),
            names: Mutex::default(),
        });
        *current = Some(Current { session: session.clone(), users: 1 });
        GOING_ON.store(number, Ordering::Release);
        session
    }

    /// One of those that joined has ended.
    pub(crate) fn leave(&self) {
        let mut current = lock(&CURRENT);
        let Some(Current { session, users }) = &mut *current else { return };
        debug_assert_eq!(session.number, self.number);
        *users -= 1;
        if *users == 0 {
            GOING_ON.store(0, Ordering::Release);
            *current = None;
        }
    }

    /// Nanoseconds since its beginning.
    pub(crate) fn now(&self) -> u64 {
        nanoseconds(self.epoch, Instant::now())
    }

    /// The names so far, by their numbers.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        lock(&self.names).names.clone()
    }

    fn intern(&self, name: &str) -> NameId {
        let mut end = name.len().min(NAME_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let mut names = lock(&self.names);
        let name = if names.names.len() < NAMES { &name[..end] } else { OTHER };
        if let Some(&number) = names.numbers.get(name) {
            return number;
        }
        let (number, name) = (names.names.len() as NameId, Arc::<str>::from(name));
        names.names.push(name.clone());
        names.numbers.insert(name, number);
        number
    }

    fn thread(self: &Arc<Session>) -> Local {
        let mut threads = lock(&self.threads);
        let here = std::thread::current();
        let name = here.name().map_or_else(|| format!("thread {}", threads.len() + 1), str::to_owned);
        let thread = Arc::new(Thread { name, chunks: Mutex::default(), dropped: AtomicU64::new(0) });
        threads.push(thread.clone());
        Local {
            number: self.number,
            epoch: self.epoch,
            session: Arc::downgrade(self),
            thread: Arc::downgrade(&thread),
            chunk: None,
            len: 0,
            all: 0,
            names: FxHashMap::default(),
        }
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos().try_into().unwrap_or(u64::MAX)
}

impl Thread {
    /// Reads what it has recorded so far.
    pub(crate) fn events(&self, mut each: impl FnMut(Event)) {
        let chunks = lock(&self.chunks).clone();
        for chunk in chunks {
            // What was published before the length is read with it.
            for words in &chunk.words[..chunk.len.load(Ordering::Acquire)] {
                if let Some(event) = Event::of(words.each_ref().map(|word| word.load(Ordering::Relaxed))) {
                    each(event);
                }
            }
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Names and times of the event that is being recorded.
pub(crate) struct Recorder<'a>(&'a mut Local);

impl Recorder<'_> {
    /// The number of a name.
    #[inline]
    pub(crate) fn name(&mut self, name: &str) -> NameId {
        match self.0.names.get(name) {
            Some(&number) => number,
            None => self.new_name(name),
        }
    }

    #[cold]
    fn new_name(&mut self, name: &str) -> NameId {
        let session = self.0.session.upgrade().filter(|_| !flash_core::fork::is_child());
        let Some(session) = session else { return 0 };
        let number = session.intern(name);
        // As many as the trace has: this table is bounded like that one.
        if self.0.names.len() < NAMES {
            self.0.names.insert(name.into(), number);
        }
        number
    }

    /// A moment, in nanoseconds since the beginning.
    pub(crate) fn at(&self, moment: Instant) -> u64 {
        nanoseconds(self.0.epoch, moment)
    }

    #[inline]
    fn push(&mut self, event: Event) {
        let local = &mut *self.0;
        if local.chunk.as_ref().is_none_or(|chunk| local.len == chunk.words.len()) {
            local.next_chunk();
        }
        let Some(chunk) = &local.chunk else {
            if let Some(thread) = local.thread.upgrade() {
                thread.dropped.fetch_add(1, Ordering::Relaxed);
            }
            return;
        };
        for (to, word) in chunk.words[local.len].iter().zip(event.words()) {
            to.store(word, Ordering::Relaxed);
        }
        local.len += 1;
        chunk.len.store(local.len, Ordering::Release);
    }
}

impl Local {
    /// Goes on with another chunk, if there is room for one.
    #[cold]
    fn next_chunk(&mut self) {
        self.chunk = None;
        // What a thread of the parent has locked stays locked in a child.
        if flash_core::fork::is_child() {
            return;
        }
        let (Some(session), Some(thread)) = (self.session.upgrade(), self.thread.upgrade()) else { return };
        let one_less = |left: usize| left.checked_sub(1);
        if self.all >= session.limit
            || session.chunks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
        {
            return;
        }
        let size = CHUNK.min(session.limit - self.all);
        let words = (0..size).map(|_| [const { AtomicU64::new(0) }; 4]).collect();
        let chunk = Arc::new(Chunk { len: AtomicUsize::new(0), words });
        lock(&thread.chunks).push(chunk.clone());
        // The last chunk may be a short one.
        (self.chunk, self.len, self.all) = (Some(chunk), 0, self.all + size);
    }
}

/// Records an event of this thread, now. Nothing is recorded where a thread-local is gone or in use.
#[cold]
#[inline(never)]
pub(crate) fn record(what: impl FnOnce(&mut Recorder<'_>) -> What) {
    record_at(|recorder| {
        let what = what(recorder);
        (recorder.at(Instant::now()), what)
    });
}

/// As [`record`], of an event that gives its own time.
#[cold]
#[inline(never)]
pub(crate) fn record_at(what: impl FnOnce(&mut Recorder<'_>) -> (u64, What)) {
    let number = GOING_ON.load(Ordering::Relaxed);
    let _ = LOCAL.try_with(|local| {
        let Ok(mut local) = local.try_borrow_mut() else { return };
        if local.as_ref().is_none_or(|local| local.number != number) {
            *local = here(number);
        }
        let Some(local) = &mut *local else { return };
        let mut recorder = Recorder(local);
        let (time, what) = what(&mut recorder);
        recorder.push(Event { time, what });
    });
}

/// Enters this thread into the trace of this number, if that goes on.
#[cold]
fn here(number: u32) -> Option<Local> {
    if flash_core::fork::is_child() {
        return None;
    }
    let current = lock(&CURRENT);
    let session = &current.as_ref()?.session;
    (number == session.number).then(|| session.thread())
}
