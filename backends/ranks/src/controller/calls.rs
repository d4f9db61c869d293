//! Requests that wait for their answers.
//!
//! A fixed number of entries is the credit of all agents together: a thread that finds none free takes
//! answers until there is one. An entry belongs to the thread that sent its request until that thread has
//! taken the outcome, or has left it; its number changes with every request, so that a late answer finds
//! nothing.
//!
//! *Invariant.* The end of a request needs nothing of the host: either a thread waits for its outcome, and
//! takes it, or the outcome goes to an [`Unawaited`] of its own and the entry is free. So the host may keep
//! as many completed launches as it likes.

use crate::wire::{Lent, bad};
use flash_backend::Failure;
use flash_backend::abi::CopyBox;
use flash_backend::host_memory::copy_addresses;
use flash_net::Peer;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Requests in flight at most.
const ENTRIES: usize = 1024;

/// What an agent has answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// When it began and ended, in nanoseconds of the agent's clock.
    Done(u64, u64),
    Devices(Vec<crate::wire::RemoteDevice>),
    Text(String),
    Yes(bool),
}

/// Where the bytes of an answer go: a box of the host's memory.
pub(crate) struct Destination {
    /// The address from which the box counts.
    host: u64,
    /// From bytes without gaps.
    shape: CopyBox,
    bytes: usize,
}

impl Destination {
    /// # Safety
    /// The box lies in memory of the host from this address on, which stays, and which nothing else touches,
    /// until the request is settled.
    pub unsafe fn new(host: u64, shape: CopyBox, bytes: usize) -> Destination {
        Destination { host, shape, bytes }
    }

    fn fill(&self, bytes: &[u8]) -> Result<(), Failure> {
        if bytes.len() != self.bytes {
            return Err(bad(format!("expected {} bytes, found {}", self.bytes, bytes.len())));
        }
        // SAFETY: `new`; the bytes are as many as the box has.
        unsafe { copy_addresses(bytes.as_ptr().expose_provenance() as u64, self.host, &self.shape) };
        Ok(())
    }
}

pub(crate) type Outcome = Result<Reply, Failure>;
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// What is to be done when an answer has come.
#[derive(Default)]
pub(crate) struct Settled {
    /// To be called by a thread that holds nothing.
    pub callbacks: Vec<Callback>,
    pub lent: Option<Lent>,
    /// The request was counted among those for which no thread waits.
    pub was_counted: bool,
}

pub(crate) struct Calls {
    entries: Box<[Entry]>,
    /// Where to look for a free one next.
    next: AtomicUsize,
}

/// The number of a request: its entry, and how often that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(pub u32);

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const ANSWERED: u32 = 2;

struct Entry {
    state: AtomicU32,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    number: u32,
    to: Option<Peer>,
    /// Another agent that it takes to answer.
    needs: Option<Peer>,
    outcome: Option<Outcome>,
    lent: Option<Lent>,
    /// Where the bytes of its answer go, until it is settled.
    destination: Option<Destination>,
    /// Where the outcome goes, if no thread may be waiting for it.
    answer: Option<Arc<Unawaited>>,
    /// No thread wants the outcome.
    is_left: bool,
}

/// The outcome of a request that no thread may be waiting for.
#[derive(Default)]
pub(crate) struct Unawaited {
    outcome: OnceLock<Outcome>,
    then: Mutex<Then>,
}

/// What comes after an outcome.
#[derive(Default)]
struct Then {
    callbacks: Vec<Callback>,
    /// It is counted among those for which no thread waits.
    is_counted: bool,
}

impl Unawaited {
    /// It, if it has come.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// Calls back when it has come, and counts it; the callback comes back if it has come. True: this has
    /// counted it, and nothing had before.
    pub fn on_outcome(&self, callback: Callback) -> (Option<Callback>, bool) {
        let mut then = self.then();
        if self.outcome.get().is_some() {
            return (Some(callback), false);
        }
        then.callbacks.push(callback);
        (None, !std::mem::replace(&mut then.is_counted, true))
    }

    fn come(&self, outcome: Outcome) -> Then {
        let mut then = self.then();
        let _ = self.outcome.set(outcome);
        std::mem::take(&mut *then)
    }

    fn then(&self) -> MutexGuard<'_, Then> {
        self.then.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the request of this number waits for an answer of this agent.
    fn awaits(&self, inner: &Inner, number: Number, from: Peer) -> bool {
        self.state.load(Acquire) == TAKEN
            && inner.to == Some(from)
            && inner.number == number.0 / ENTRIES as u32
    }
}

impl Calls {
    pub fn new() -> Calls {
        let entry = |_| Entry { state: AtomicU32::new(FREE), inner: Mutex::default() };
        Calls { entries: (0..ENTRIES).map(entry).collect(), next: AtomicUsize::new(0) }
    }

    fn entry(&self, number: Number) -> &Entry {
        &self.entries[number.0 as usize % ENTRIES]
    }

    /// A number for a request to an agent, which is not sent yet. `None`: all are in use.
    pub fn take(&self, to: Peer) -> Option<Number> {
        let first = self.next.fetch_add(1, Relaxed);
        let at = (0..ENTRIES)
            .map(|i| (first + i) % ENTRIES)
            .find(|at| self.entries[*at].state.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok())?;
        let mut inner = self.entries[at].lock();
        inner.number = inner.number.wrapping_add(1) % (u32::MAX / ENTRIES as u32);
        inner.to = Some(to);
        Some(Number(inner.number * ENTRIES as u32 + at as u32))
    }

    /// The answer of a request, which is not sent yet, will bring bytes.
    pub fn brings(&self, number: Number, destination: Destination) {
        self.entry(number).lock().destination = Some(destination);
    }

    /// Puts the bytes of an answer where they belong. The request is still to be settled: that is done under
    /// a lock, which is not held for a long copy.
    pub fn bring(&self, number: Number, from: Peer, bytes: &[u8]) -> Result<(), Failure> {
        let entry = self.entry(number);
        let mut inner = entry.lock();
        // None: nothing has asked for them, or it was settled, as its agent is lost.
        let destination = if entry.awaits(&inner, number, from) { inner.destination.take() } else { None };
        let destination = destination.ok_or_else(|| bad(format!("{} bytes, expected none", bytes.len())))?;
        // Held: one that settles it meanwhile waits.
        destination.fill(bytes)
    }

    /// The request was sent with a body in this process's memory.
    pub fn lend(&self, number: Number, lent: Option<Lent>) -> Option<Lent> {
        let lent = lent?;
        let entry = self.entry(number);
        let mut inner = entry.lock();
        // The answer may have come already.
        if entry.state.load(Acquire) == ANSWERED {
            return Some(lent);
        }
        inner.lent = Some(lent);
        None
    }

    /// Another agent is needed for the answer of a request, which was sent.
    pub fn needs(&self, number: Number, agent: Peer) {
        let mut inner = self.entry(number).lock();
        if inner.number == number.0 / ENTRIES as u32 {
            inner.needs = Some(agent);
        }
    }

    /// The requests to others for whose answers this agent is needed, each once.
    pub fn needing(&self, agent: Peer) -> Vec<(Peer, Number)> {
        let numbers = self.entries.iter().enumerate().filter_map(|(at, entry)| {
            if entry.state.load(Acquire) != TAKEN {
                return None;
            }
            let mut inner = entry.lock();
            inner.needs.take_if(|needed| *needed == agent)?;
            Some((inner.to?, Number(inner.number * ENTRIES as u32 + at as u32)))
        });
        numbers.collect()
    }

    /// The request was not sent.
    pub fn give_up(&self, number: Number) {
        let entry = self.entry(number);
        self.free(entry, entry.lock());
    }

    fn free(&self, entry: &Entry, mut inner: MutexGuard<'_, Inner>) {
        let number = inner.number;
        *inner = Inner { number, ..Inner::default() };
        drop(inner);
        entry.state.store(FREE, Release);
    }

    /// An answer has come. A number that no request to that agent has brings nothing about.
    pub fn settle(&self, number: Number, from: Peer, mut outcome: Outcome) -> Settled {
        let entry = self.entry(number);
        let mut inner = entry.lock();
        if !entry.awaits(&inner, number, from) {
            return Settled::default();
        }
        if inner.destination.take().is_some() && outcome.is_ok() {
            outcome = Err(bad("an answer without the bytes that were asked for".into()));
        }
        let (lent, answer) = (inner.lent.take(), inner.answer.take());
        if answer.is_some() || inner.is_left {
            self.free(entry, inner);
        } else {
            inner.outcome = Some(outcome);
            entry.state.store(ANSWERED, Release);
            return Settled { lent, ..Settled::default() };
        }
        let Then { callbacks, is_counted } = answer.map(|answer| answer.come(outcome)).unwrap_or_default();
        Settled { callbacks, lent, was_counted: is_counted }
    }

    /// Where the outcome is to be found, which no thread may be waiting for. False: it is there already, and
    /// nothing will be settled.
    pub fn unawaited(&self, number: Number, is_counted: bool) -> (Arc<Unawaited>, bool) {
        let then = Mutex::new(Then { is_counted, ..Then::default() });
        let (entry, answer) = (self.entry(number), Arc::new(Unawaited { then, ..Unawaited::default() }));
        let mut inner = entry.lock();
        let is_left = entry.state.load(Acquire) != ANSWERED;
        if is_left {
            inner.answer = Some(answer.clone());
        } else {
            inner.outcome.take().into_iter().for_each(|outcome| drop(answer.come(outcome)));
            self.free(entry, inner);
        }
        (answer, is_left)
    }

    /// True if the answer has come.
    pub fn is_answered(&self, number: Number) -> bool {
        self.entry(number).state.load(Acquire) == ANSWERED
    }

    /// The outcome, which has come.
    pub fn take_outcome(&self, number: Number) -> Option<Outcome> {
        let entry = self.entry(number);
        let mut inner = entry.lock();
        let outcome = inner.outcome.take();
        self.free(entry, inner);
        outcome
    }

    /// No thread wants the outcome any more.
    pub fn leave(&self, number: Number) {
        let entry = self.entry(number);
        let mut inner = entry.lock();
        match entry.state.load(Acquire) == ANSWERED {
            true => self.free(entry, inner),
            false => inner.is_left = true,
        }
    }

    /// The requests to an agent that has gone.
    pub fn to(&self, peer: Peer) -> Vec<Number> {
        let numbers = self.entries.iter().enumerate().filter_map(|(at, entry)| {
            if entry.state.load(Acquire) != TAKEN {
                return None;
            }
            let inner = entry.lock();
            (inner.to == Some(peer)).then(|| Number(inner.number * ENTRIES as u32 + at as u32))
        });
        numbers.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn an_answer_is_that_of_its_request_and_a_late_one_of_none() {
        let (calls, agent, other) = (Calls::new(), Peer(1), Peer(2));
        let first = calls.take(agent).unwrap();
        // Another agent's, and one of a number that was not sent.
        calls.settle(first, other, Ok(Reply::Yes(false)));
        calls.settle(Number(first.0 + ENTRIES as u32), agent, Ok(Reply::Yes(false)));
        assert!(!calls.is_answered(first));
        calls.settle(first, agent, Ok(Reply::Yes(true)));
        assert!(calls.is_answered(first));
        assert!(matches!(calls.take_outcome(first), Some(Ok(Reply::Yes(true)))));
        // The entry is used again, the number is not.
        let all: Vec<Number> = std::iter::from_fn(|| calls.take(agent)).collect();
        assert_eq!(all.len(), ENTRIES);
        assert!(!all.contains(&first));
        calls.settle(first, agent, Ok(Reply::Yes(true)));
        assert!(all.iter().all(|number| !calls.is_answered(*number)));
        assert_eq!(calls.to(agent).len(), ENTRIES);
        assert!(calls.to(other).is_empty());
    }

    #[test]
    fn a_request_that_needs_another_agent_is_found_once_when_that_has_gone() {
        let (calls, [to, needed, other]) = (Calls::new(), [1, 2, 3].map(Peer));
        let [first, second] = [0; 2].map(|_| calls.take(to).unwrap());
        calls.needs(first, needed);
        calls.needs(second, needed);
        calls.settle(second, to, Ok(Reply::Yes(true)));
        assert!(calls.needing(other).is_empty());
        assert_eq!(calls.needing(needed), [(to, first)]);
        assert!(calls.needing(needed).is_empty());
        // It is to be answered all the same.
        assert!(!calls.is_answered(first));
        calls.settle(first, to, Ok(Reply::Yes(false)));
        assert!(matches!(calls.take_outcome(first), Some(Ok(Reply::Yes(false)))));
    }

    #[test]
    fn what_is_left_is_free_when_the_answer_has_come_and_callbacks_come_once() {
        let (calls, agent) = (Calls::new(), Peer(1));
        let all: Vec<Number> = std::iter::from_fn(|| calls.take(agent)).collect();
        let called = Arc::new(AtomicBool::new(false));
        let sees = called.clone();
        let (answer, is_left) = calls.unawaited(all[0], true);
        assert!(is_left);
        assert!(matches!(answer.on_outcome(Box::new(move || sees.store(true, Relaxed))), (None, false)));
        calls.leave(all[1]);
        assert!(calls.take(agent).is_none() && answer.outcome().is_none());
        let settled = calls.settle(all[0], agent, Ok(Reply::Yes(true)));
        assert!(settled.was_counted);
        settled.callbacks.into_iter().for_each(|callback| callback());
        assert!(called.load(Relaxed));
        assert!(matches!(answer.on_outcome(Box::new(|| ())), (Some(_), false)));
        // Its entry is free, though the outcome is kept.
        assert!(calls.take(agent).is_some() && calls.take(agent).is_none());
        assert!(matches!(answer.outcome(), Some(Ok(Reply::Yes(true)))));
        calls.settle(all[1], agent, Ok(Reply::Yes(true)));
        assert!(calls.take(agent).is_some() && calls.take(agent).is_none());
        // One that was answered before it was known that no thread waits.
        assert!(!calls.settle(all[2], agent, Ok(Reply::Yes(false))).was_counted);
        assert!(calls.take(agent).is_none());
        let (answer, is_left) = calls.unawaited(all[2], true);
        assert!(matches!(answer.outcome(), Some(Ok(Reply::Yes(false)))) && !is_left);
        assert!(calls.take(agent).is_some() && calls.take(agent).is_none());
        // One that is counted when it gets a callback, once.
        let (answer, _) = calls.unawaited(all[3], false);
        assert!(matches!(answer.on_outcome(Box::new(|| ())), (None, true)));
        assert!(matches!(answer.on_outcome(Box::new(|| ())), (None, false)));
        let settled = calls.settle(all[3], agent, Ok(Reply::Yes(true)));
        assert!(settled.was_counted && settled.callbacks.len() == 2);
        let _answer = calls.unawaited(all[4], false);
        assert!(!calls.settle(all[4], agent, Ok(Reply::Yes(true))).was_counted);
    }

    #[test]
    fn bytes_come_to_the_box_that_asked_for_them_once_and_only_until_its_request_is_settled() {
        let (calls, [agent, other]) = (Calls::new(), [1, 2].map(Peer));
        let mut field = [0u8; 12];
        let host = field.as_mut_ptr().expose_provenance() as u64;
        // Two rows of three bytes in a field of four columns, from its second column on.
        let shape = CopyBox {
            extent: [3, 2, 1],
            source_offset: 0,
            source_stride: [3, 6],
            destination_offset: 1,
            destination_stride: [4, 8],
        };
        let ask = || {
            let number = calls.take(agent).unwrap();
            // SAFETY: the box lies in the field, which nothing touches while a request is under way.
            calls.brings(number, unsafe { Destination::new(host, shape, 6) });
            number
        };
        let number = ask();
        assert!(calls.bring(number, other, &[9; 6]).is_err());
        assert!(calls.bring(number, agent, &[1, 2, 3, 4, 5, 6]).is_ok());
        assert!(calls.bring(number, agent, &[9; 6]).is_err());
        calls.settle(number, agent, Ok(Reply::Done(0, 0)));
        // Others than as many as there are to be, and some of a request that was settled without them.
        let (short, late) = (ask(), ask());
        let why = calls.bring(short, agent, &[9; 5]).expect_err("they are too few").text;
        assert!(why.contains("expected 6 bytes, found 5"), "{why}");
        let why =
            |number| calls.take_outcome(number).unwrap().map(drop).expect_err("no bytes have come").text;
        calls.settle(late, agent, Err(bad("it is lost".into())));
        assert!(why(late).contains("it is lost"));
        let none = ask();
        calls.settle(none, agent, Ok(Reply::Done(0, 0)));
        assert!(why(none).contains("without the bytes"));
        assert!(calls.bring(late, agent, &[9; 6]).is_err());
        assert!(calls.bring(calls.take(agent).unwrap(), agent, &[]).is_err());
        assert_eq!(field, [0, 1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0]);
    }
}
