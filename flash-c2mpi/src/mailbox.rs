//! The messages of a parent rank: what child ranks have for it, in the order in which it was sent.
//!
//! A message goes to the earliest waiting receive that it fits, and else into the queue, from which a receive
//! takes the first that fits. So messages of one child rank with one tag are received in the order in which
//! they were sent, also with wildcards. Of several child ranks or tags a wildcard takes one that has finished
//! before those that have not. One short lock; a thread sleeps only when there is nothing for it.

use crate::child::Child;
use crate::collective::TAG;
use crate::error::{Code, Error, Result};
use crate::message::{Message, Outcome};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Any child rank.
pub const ANY_SOURCE: i32 = -1;
/// Any tag, but for that of collective messages.
pub const ANY_TAG: i32 = -1;

/// What a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// A child rank, or [`ANY_SOURCE`].
    pub child: i32,
    /// A tag, or [`ANY_TAG`].
    pub tag: i32,
}

/// A message with its address.
pub(crate) struct Envelope {
    pub tag: i32,
    pub from: Arc<Child>,
    pub message: Option<Box<Message>>,
}

/// The messages of one parent rank.
#[derive(Default)]
pub(crate) struct Mailbox {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Envelope>,
    tickets: VecDeque<(Wanted, Arc<Ticket>)>,
    sleepers: usize,
}

/// A receive that was posted before its message came.
#[derive(Default)]
pub(crate) struct Ticket {
    delivered: Mutex<Delivered>,
    arrived: Condvar,
}

#[derive(Default)]
enum Delivered {
    #[default]
    Nothing,
    Message(Envelope),
    Gone,
}

impl Wanted {
    #[inline]
    fn takes(&self, envelope: &Envelope) -> bool {
        (self.child == ANY_SOURCE || self.child == envelope.from.id())
            && (self.tag == envelope.tag || self.tag == ANY_TAG && envelope.tag != TAG)
    }

    /// True if it may take one of several.
    pub fn is_wild(&self) -> bool {
        self.child == ANY_SOURCE || self.tag == ANY_TAG
    }
}

impl Envelope {
    /// True if receiving it waits for nothing.
    pub fn is_finished(&self) -> bool {
        self.message.as_ref().is_none_or(|message| message.is_finished())
    }
}

impl Envelope {
    /// True if its receiver is to run it.
    pub fn is_deferred(&self) -> bool {
        self.message.as_ref().is_some_and(|message| matches!(message.outcome, Outcome::Deferred(_)))
    }
}

impl Drop for Envelope {
    fn drop(&mut self) {
        if let Some(message) = self.message.take() {
            self.from.release(message);
        }
    }
}

impl Queue {
    #[inline]
    fn find(&self, wanted: Wanted) -> Option<usize> {
        let mut first = None;
        // Child ranks and tags whose earliest message has not finished: their later ones wait for it.
        let mut unfinished: SmallVec<[(i32, i32); 8]> = SmallVec::new();
        for (at, envelope) in self.messages.iter().enumerate() {
            if !wanted.takes(envelope) {
                continue;
            }
            let of = (envelope.from.id(), envelope.tag);
            if !wanted.is_wild() || !unfinished.contains(&of) && envelope.is_finished() {
                return Some(at);
            }
            first = first.or(Some(at));
            if !unfinished.contains(&of) {
                unfinished.push(of);
            }
        }
        first
    }
}

pub(crate) fn gone(wanted: Wanted) -> Error {
    let text = format!(
        "expected a message of child rank {:#x}, which was freed, or the program was finalised, before one came",
        wanted.child
    );
    Error::new(Code::Gone, text)
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message in.
    pub fn put(&self, envelope: Envelope) {
        let mut queue = self.lock();
        if let Some(at) = queue.tickets.iter().position(|(wanted, _)| wanted.takes(&envelope)) {
            let ticket = queue.tickets.remove(at);
            drop(queue);
            if let Some((_, ticket)) = ticket {
                ticket.set(Delivered::Message(envelope));
            }
            return;
        }
        queue.messages.push_back(envelope);
        let wake = queue.sleepers > 0;
        drop(queue);
        if wake {
            self.arrived.notify_all();
        }
    }

    /// Takes a message out, if there is one.
    pub fn take(&self, wanted: Wanted) -> Option<Envelope> {
        let mut queue = self.lock();
        let at = queue.find(wanted)?;
        queue.messages.remove(at)
    }

    /// Takes a message out that has finished, if there is one.
    pub fn take_finished(&self, wanted: Wanted) -> Option<Envelope> {
        let mut queue = self.lock();
        let at = queue.find(wanted)?;
        if queue.messages[at].is_finished() { queue.messages.remove(at) } else { None }
    }

    /// Waits for a message, and takes it out. `alive` says whether one may still come.
    pub fn wait(&self, wanted: Wanted, alive: impl Fn() -> bool) -> Result<Envelope> {
        self.until(wanted, alive, |queue, at| queue.messages.remove(at))
    }

    /// Waits for a message, and looks at it.
    pub fn probe<R>(
        &self,
        wanted: Wanted,
        alive: impl Fn() -> bool,
        look: impl Fn(&Envelope) -> R,
    ) -> Result<R> {
        self.until(wanted, alive, |queue, at| queue.messages.get(at).map(&look))
    }

    /// Looks at a message, if there is one.
    pub fn look<R>(&self, wanted: Wanted, look: impl Fn(&Envelope) -> R) -> Option<R> {
        let queue = self.lock();
        queue.messages.get(queue.find(wanted)?).map(look)
    }

    fn until<R>(
        &self,
        wanted: Wanted,
        alive: impl Fn() -> bool,
        mut found: impl FnMut(&mut Queue, usize) -> Option<R>,
    ) -> Result<R> {
        let mut queue = self.lock();
        loop {
            if let Some(at) = queue.find(wanted)
                && let Some(found) = found(&mut queue, at)
            {
                return Ok(found);
            }
            if !alive() {
                return Err(gone(wanted));
            }
            queue.sleepers += 1;
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.sleepers -= 1;
        }
    }

    /// Takes a message out, or leaves a ticket for one that is to come.
    pub fn post(&self, wanted: Wanted) -> Result<Envelope, Arc<Ticket>> {
        let mut queue = self.lock();
        if let Some(at) = queue.find(wanted)
            && let Some(envelope) = queue.messages.remove(at)
        {
            return Ok(envelope);
        }
        let ticket = Arc::new(Ticket::default());
        queue.tickets.push_back((wanted, ticket.clone()));
        Err(ticket)
    }

    /// Drops the messages of a child rank that was freed, and wakes what waits for one.
    pub fn forget(&self, child: i32) {
        let mut queue = self.lock();
        let is_of = |envelope: &Envelope| envelope.from.id() == child;
        let (dropped, kept) = std::mem::take(&mut queue.messages).into_iter().partition(is_of);
        queue.messages = kept;
        let (ended, kept) =
            std::mem::take(&mut queue.tickets).into_iter().partition(|(wanted, _)| wanted.child == child);
        queue.tickets = kept;
        drop(queue);
        let (dropped, ended): (VecDeque<Envelope>, VecDeque<(Wanted, Arc<Ticket>)>) = (dropped, ended);
        drop(dropped);
        ended.into_iter().for_each(|(_, ticket)| ticket.set(Delivered::Gone));
        self.arrived.notify_all();
    }

    /// Ends all that waits, when the program is finalised.
    pub fn close(&self) {
        let mut queue = self.lock();
        let (messages, tickets) = (std::mem::take(&mut queue.messages), std::mem::take(&mut queue.tickets));
        drop(queue);
        drop(messages);
        tickets.into_iter().for_each(|(_, ticket)| ticket.set(Delivered::Gone));
        self.arrived.notify_all();
    }

    /// Takes a ticket back.
    pub fn withdraw(&self, ticket: &Arc<Ticket>) {
        self.lock().tickets.retain(|(_, other)| !Arc::ptr_eq(other, ticket));
    }
}

impl Ticket {
    fn lock(&self) -> MutexGuard<'_, Delivered> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, delivered: Delivered) {
        *self.lock() = delivered;
        self.arrived.notify_all();
    }

    /// Its message, if it has come.
    pub fn take(&self) -> Result<Option<Envelope>> {
        Ticket::taken(&mut self.lock())
    }

    fn taken(delivered: &mut Delivered) -> Result<Option<Envelope>> {
        match std::mem::take(delivered) {
            Delivered::Nothing => Ok(None),
            Delivered::Message(envelope) => Ok(Some(envelope)),
            Delivered::Gone => {
                *delivered = Delivered::Gone;
                Err(gone(Wanted { child: ANY_SOURCE, tag: ANY_TAG }))
            }
        }
    }

    /// Waits for its message.
    pub fn wait(&self) -> Result<Envelope> {
        let mut delivered = self.lock();
        loop {
            if let Some(envelope) = Ticket::taken(&mut delivered)? {
                return Ok(envelope);
            }
            delivered = self.arrived.wait(delivered).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
