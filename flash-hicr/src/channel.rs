//! Channels: messages from one producer or several to one consumer, through buffers that were exchanged
//! before. Made of slots and copies alone, so they work over any communication manager.
//!
//! A *lane* is a ring at the consumer: data, sizes of messages where these vary, and how many were pushed. A
//! producer copies a message there, then the new count, in that order. The consumer says there how many it
//! has popped, and copies that to all producers, which wakes those that wait for room. There is one lane,
//! or, for several producers without a lock, one for each.
//!
//! What others have written is not trusted: counts and sizes that cannot be are errors.

use crate::Error;
use crate::managers::{CommunicationManager, Managers, copy};
use crate::slot::{GlobalSlot, Key, LocalAt, LocalSlot, Tag};
use std::sync::Arc;

/// Which producers may push at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producers {
    /// One producer.
    Single,
    /// Several with one buffer, which one of them has at a time.
    Locking,
    /// Several with a buffer each.
    NonLocking,
}

/// How large messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// All of this many bytes.
    Fixed(u64),
    /// Any, as long as those in a buffer have at most this many bytes together.
    Variable(u64),
}

/// A channel, as all instances of its group describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The tag of its exchange.
    pub tag: Tag,
    /// How its producers share it.
    pub sharing: Producers,
    /// The instances that push.
    pub producers: Vec<u32>,
    /// The instance that pops.
    pub consumer: u32,
    /// Messages in a buffer at most.
    pub capacity: u64,
    /// Bytes of a message.
    pub size: Size,
}

/// This instance's ends of a channel.
pub struct Ends {
    /// There is one if it is a producer.
    pub producer: Option<Producer>,
    /// There is one if it is the consumer.
    pub consumer: Option<Consumer>,
}

/// Bytes of a pair of counts: of bytes, then of messages. The counts of a lane are two pairs: what was
/// pushed, as the producers say, and what was popped, as the consumer does.
const COUNTS: u64 = 16;

fn key(lane: usize, what: u64) -> Key {
    lane as u64 * 4 + what
}

fn popped_key(producer: usize) -> Key {
    (1 << 32) + producer as u64
}

/// Makes a channel. Collective: all instances of the group call it with the same shape.
///
/// # Errors
/// [`Error::Refused`] of a shape that makes no sense; those of `alloc` and `exchange`.
///
/// # Examples
/// ```
/// use flash_hicr::{Producers, Shape, Size, channel, threads};
/// threads(2, |hicr| {
///     let (sharing, size) = (Producers::Single, Size::Fixed(3));
///     let shape = Shape { tag: 7, sharing, producers: vec![0], consumer: 1, capacity: 2, size };
///     let ends = channel(&hicr, &shape)?;
///     if let Some(mut producer) = ends.producer {
///         producer.push_wait(b"one")?;
///         producer.push_wait(b"two")?;
///     }
///     if let Some(mut consumer) = ends.consumer {
///         assert_eq!(consumer.pop_wait()?.bytes, b"one");
///         assert_eq!(consumer.pop_wait()?.bytes, b"two");
///     }
///     Ok(())
/// })?;
/// # Ok::<(), flash_hicr::Error>(())
/// ```
pub fn channel(hicr: &Managers, shape: &Shape) -> Result<Ends, Error> {
    let instances = hicr.instances.instances()?.len() as u32;
    check(shape, instances)?;
    let me = hicr.instances.current().number;
    let spaces = hicr.memory.spaces()?;
    let space = spaces.first().ok_or_else(|| Error::refused("a channel", "expected a memory space"))?;
    let alloc = |bytes| hicr.memory.alloc(space, bytes);
    let lanes = if shape.sharing == Producers::NonLocking { shape.producers.len() } else { 1 };
    let (data_bytes, has_sizes) = match shape.size {
        // Checked above.
        Size::Fixed(size) => (size * shape.capacity, false),
        Size::Variable(bytes) => (bytes, true),
    };
    let mut mine: Vec<(Key, LocalSlot)> = Vec::new();
    if me == shape.consumer {
        for lane in 0..lanes {
            mine.push((key(lane, 0), alloc(2 * COUNTS)?));
            mine.push((key(lane, 1), alloc(data_bytes)?));
            if has_sizes {
                mine.push((key(lane, 2), alloc(shape.capacity * 8)?));
            }
        }
    }
    let number = shape.producers.iter().position(|producer| *producer == me);
    if let Some(number) = number {
        mine.push((popped_key(number), alloc(COUNTS)?));
    }
    let given: Vec<(Key, &LocalSlot)> = mine.iter().map(|(key, slot)| (*key, slot)).collect();
    let all = hicr.communication.exchange(shape.tag, &given)?;
    let own = |key: Key| mine.iter().find(|(own, _)| *own == key).map(|(_, slot)| slot.clone());
    let lane = |number: usize| -> Option<Lane> {
        let producers: Vec<usize> = if shape.sharing == Producers::NonLocking {
            vec![number]
        } else {
            (0..shape.producers.len()).collect()
        };
        Some(Lane {
            counts: own(key(number, 0))?,
            data: own(key(number, 1))?,
            sizes: own(key(number, 2)),
            from: producers.iter().map(|producer| shape.producers[*producer]).collect(),
            popped_at: producers
                .iter()
                .map(|producer| all.get(popped_key(*producer)))
                .collect::<Result<_, _>>()
                .ok()?,
            popped: 0,
            popped_bytes: 0,
        })
    };
    let consumer = (me == shape.consumer).then(|| -> Result<Consumer, Error> {
        Ok(Consumer {
            communication: hicr.communication.clone(),
            lanes: (0..lanes).filter_map(lane).collect(),
            scratch: alloc(COUNTS)?,
            shape: shape.clone(),
            next: 0,
        })
    });
    let producer = number.map(|number| -> Result<Producer, Error> {
        let lane = if shape.sharing == Producers::NonLocking { number } else { 0 };
        let get = |what| all.get(key(lane, what));
        Ok(Producer {
            communication: hicr.communication.clone(),
            counts: get(0)?,
            data: get(1)?,
            sizes: if has_sizes { Some(get(2)?) } else { None },
            popped: own(popped_key(number)).ok_or_else(|| Error::refused("a channel", "its slot is gone"))?,
            staged: alloc(match shape.size {
                Size::Fixed(size) => size,
                Size::Variable(bytes) => bytes,
            })?,
            scratch: alloc(COUNTS + 8)?,
            shape: shape.clone(),
            pushed: 0,
            pushed_bytes: 0,
        })
    });
    Ok(Ends { producer: producer.transpose()?, consumer: consumer.transpose()? })
}

fn check(shape: &Shape, instances: u32) -> Result<(), Error> {
    let refuse = |why: String| Err(Error::refused(format!("the channel with tag {}", shape.tag), why));
    let mut sorted = shape.producers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != shape.producers.len() {
        return refuse(format!("expected each producer once, found {:?}", shape.producers));
    }
    if let Some(found) = sorted.iter().chain([&shape.consumer]).find(|number| **number >= instances) {
        return refuse(format!("expected instances below {instances}, found {found}"));
    }
    if sorted.is_empty() || (shape.sharing == Producers::Single && sorted.len() != 1) {
        let expected = if shape.sharing == Producers::Single { "1 producer" } else { "a producer or more" };
        return refuse(format!("expected {expected}, found {}", sorted.len()));
    }
    let (Size::Fixed(bytes) | Size::Variable(bytes)) = shape.size;
    let fits = shape.capacity.checked_mul(bytes.max(8)).is_some_and(|bytes| bytes <= 1 << 46);
    if shape.capacity == 0 || bytes == 0 || !fits {
        return refuse(format!(
            "expected room for a message or more, of a byte or more, found {} messages, {:?}",
            shape.capacity, shape.size
        ));
    }
    Ok(())
}

/// The end of a channel that pushes.
pub struct Producer {
    communication: Arc<dyn CommunicationManager>,
    counts: GlobalSlot,
    data: GlobalSlot,
    sizes: Option<GlobalSlot>,
    /// What the consumer has popped, as it says.
    popped: LocalSlot,
    staged: LocalSlot,
    /// Counts, and a size, on their way: of one call at a time, which is why they take `&mut`.
    scratch: LocalSlot,
    shape: Shape,
    /// Messages and bytes of the lane, by all its producers.
    pushed: u64,
    pushed_bytes: u64,
}

impl Producer {
    /// Pushes a message, and says how many are in the buffer then. `None`: it is full, and nothing was
    /// pushed.
    ///
    /// # Errors
    /// [`Error::Refused`] if the message has not the size that the channel is for; [`Error::Lost`] if the
    /// buffer is full and the consumer is gone.
    pub fn push(&mut self, message: &[u8]) -> Result<Option<u64>, Error> {
        self.fits(message.len() as u64)?;
        let staged = self.staged.clone();
        staged.write(0, message)?;
        self.push_slot(staged.at(0), message.len() as u64)
    }

    /// As [`push`](Self::push), of bytes that are in a slot already.
    ///
    /// # Errors
    /// As [`push`](Self::push), and [`Error::Bounds`].
    pub fn push_slot(&mut self, from: LocalAt<'_>, bytes: u64) -> Result<Option<u64>, Error> {
        self.fits(bytes)?;
        if self.shape.sharing != Producers::Locking {
            return self.put(from, bytes);
        }
        let (communication, counts) = (self.communication.clone(), self.counts);
        let holders = self.shape.producers.clone();
        // A lock is held for a message; that of a producer that is gone is an error of `lock`.
        communication.wait(&holders, &mut || communication.lock(&counts))?;
        let outcome = self.put_locked(from, bytes);
        communication.unlock(&counts)?;
        outcome
    }

    /// Pushes a message when there is room.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_wait(&mut self, message: &[u8]) -> Result<u64, Error> {
        self.fits(message.len() as u64)?;
        let staged = self.staged.clone();
        staged.write(0, message)?;
        self.push_slot_wait(staged.at(0), message.len() as u64)
    }

    /// As [`push_wait`](Self::push_wait), of bytes that are in a slot already.
    ///
    /// # Errors
    /// As [`push_slot`](Self::push_slot).
    pub fn push_slot_wait(&mut self, from: LocalAt<'_>, bytes: u64) -> Result<u64, Error> {
        loop {
            if let Some(depth) = self.push_slot(from, bytes)? {
                return Ok(depth);
            }
            let communication = self.communication.clone();
            communication.wait(&[self.shape.consumer], &mut || Ok(self.has_room(bytes, self.used_now()?)))?;
        }
    }

    /// Messages in the buffer, of all producers that share it.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn depth(&mut self) -> Result<u64, Error> {
        Ok(self.used_now()?.0)
    }

    fn fits(&self, bytes: u64) -> Result<(), Error> {
        let expected = match self.shape.size {
            Size::Fixed(size) if bytes == size => return Ok(()),
            Size::Fixed(size) => format!("{size} bytes"),
            Size::Variable(most) if bytes <= most => return Ok(()),
            Size::Variable(most) => format!("at most {most} bytes"),
        };
        let what = format!("a message for the channel with tag {}", self.shape.tag);
        Err(Error::refused(what, format!("expected {expected}, found {bytes}")))
    }

    /// Messages and bytes that the consumer has popped, as it says. It says so to one producer after the
    /// other; those that share a lane look at what all of them see.
    fn popped(&self) -> Result<(u64, u64), Error> {
        if self.shape.sharing != Producers::Locking {
            return Ok((self.popped.number(8)?, self.popped.number(0)?));
        }
        copy(&*self.communication, self.scratch.at(0), self.counts.at(COUNTS), COUNTS)?;
        Ok((self.scratch.number(8)?, self.scratch.number(0)?))
    }

    /// Messages and bytes in the buffer, of those that were pushed.
    fn used(&self, pushed: u64, pushed_bytes: u64, popped: (u64, u64)) -> Result<(u64, u64), Error> {
        let (messages, bytes) = (pushed.wrapping_sub(popped.0), pushed_bytes.wrapping_sub(popped.1));
        if messages > self.shape.capacity || bytes > self.data.bytes() {
            return Err(Error::Protocol {
                from: format!("an instance of the channel with tag {}", self.shape.tag),
                found: format!(
                    "{} messages and {} bytes popped of {pushed} and {pushed_bytes} pushed, in a buffer of {} and {}",
                    popped.0,
                    popped.1,
                    self.shape.capacity,
                    self.data.bytes()
                ),
            });
        }
        Ok((messages, bytes))
    }

    /// As [`used`](Self::used), at some moment; others may push and pop meanwhile.
    fn used_now(&self) -> Result<(u64, u64), Error> {
        /// Looks at counts that change meanwhile.
        const LOOKS: usize = 1000;
        if self.shape.sharing != Producers::Locking {
            return self.used(self.pushed, self.pushed_bytes, self.popped()?);
        }
        let mut outcome = Ok((0, 0));
        for _ in 0..LOOKS {
            let popped = self.popped()?;
            let (pushed, pushed_bytes) = self.shared_counts()?;
            outcome = self.used(pushed, pushed_bytes, popped);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// The counts of a lane that several producers push to.
    fn shared_counts(&self) -> Result<(u64, u64), Error> {
        copy(&*self.communication, self.scratch.at(0), self.counts.at(0), COUNTS)?;
        Ok((self.scratch.number(8)?, self.scratch.number(0)?))
    }

    fn has_room(&self, bytes: u64, used: (u64, u64)) -> bool {
        used.0 < self.shape.capacity && bytes <= self.data.bytes() - used.1
    }

    fn put_locked(&mut self, from: LocalAt<'_>, bytes: u64) -> Result<Option<u64>, Error> {
        (self.pushed, self.pushed_bytes) = self.shared_counts()?;
        self.put(from, bytes)
    }

    fn put(&mut self, from: LocalAt<'_>, bytes: u64) -> Result<Option<u64>, Error> {
        let used = self.used(self.pushed, self.pushed_bytes, self.popped()?)?;
        if !self.has_room(bytes, used) {
            return match self.communication.lost(self.shape.consumer) {
                Some(lost) => Err(lost),
                None => Ok(None),
            };
        }
        let (to, size) = (&*self.communication, self.data.bytes());
        let start = self.pushed_bytes % size;
        let first = bytes.min(size - start);
        copy(to, self.data.at(start), from, first)?;
        if first < bytes {
            let rest = from.slot.at(from.offset + first);
            copy(to, self.data.at(0), rest, bytes - first)?;
        }
        if let Some(sizes) = &self.sizes {
            self.scratch.write(COUNTS, &bytes.to_ne_bytes())?;
            copy(to, sizes.at(self.pushed % self.shape.capacity * 8), self.scratch.at(COUNTS), 8)?;
        }
        let (pushed, pushed_bytes) = (self.pushed.wrapping_add(1), self.pushed_bytes.wrapping_add(bytes));
        self.scratch.write(0, bytemuck::cast_slice(&[pushed_bytes, pushed]))?;
        copy(to, self.counts.at(0), self.scratch.at(0), COUNTS)?;
        (self.pushed, self.pushed_bytes) = (pushed, pushed_bytes);
        self.used(pushed, pushed_bytes, self.popped()?).map(|used| Some(used.0))
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The instance that pushed it; `None` where producers share a buffer.
    pub from: Option<u32>,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Messages that are left in its buffer.
    pub depth: u64,
}

/// The end of a channel that pops.
pub struct Consumer {
    communication: Arc<dyn CommunicationManager>,
    lanes: Vec<Lane>,
    /// Counts on their way.
    scratch: LocalSlot,
    shape: Shape,
    /// The lane to look at first.
    next: usize,
}

struct Lane {
    counts: LocalSlot,
    data: LocalSlot,
    sizes: Option<LocalSlot>,
    from: Vec<u32>,
    popped_at: Vec<GlobalSlot>,
    popped: u64,
    popped_bytes: u64,
}

impl Lane {
    /// Messages in the buffer.
    fn depth(&self, capacity: u64) -> Result<u64, Error> {
        let pushed = self.counts.number(8)?;
        let depth = pushed.wrapping_sub(self.popped);
        match depth <= capacity {
            true => Ok(depth),
            false => Err(self.wrong(format!(
                "{pushed} messages pushed, of which {} were popped, to a buffer of {capacity}",
                self.popped
            ))),
        }
    }

    fn wrong(&self, found: String) -> Error {
        Error::Protocol { from: format!("a producer, of instances {:?},", self.from), found }
    }

    /// Where the first message starts, and its size.
    fn first(&self, shape: &Shape) -> Result<(u64, u64), Error> {
        let room = self.data.bytes();
        let size = match (shape.size, &self.sizes) {
            (Size::Variable(_), Some(sizes)) => sizes.number(self.popped % shape.capacity * 8)?,
            (Size::Fixed(size) | Size::Variable(size), _) => size,
        };
        match size <= room {
            true => Ok((self.popped_bytes % room, size)),
            false => Err(self.wrong(format!("a message of {size} bytes in a buffer of {room}"))),
        }
    }
}

impl Consumer {
    /// Pops the oldest message of a producer; producers take turns. `None`: there is none.
    ///
    /// # Errors
    /// [`Error::Protocol`]; [`Error::Lost`] if there is none and all producers are gone.
    pub fn pop(&mut self) -> Result<Option<Message>, Error> {
        if let Some(message) = self.take()? {
            return Ok(Some(message));
        }
        let mut lost = self.shape.producers.iter().map(|producer| self.communication.lost(*producer));
        match lost.by_ref().collect::<Option<Vec<Error>>>() {
            None => Ok(None),
            // What the last one had pushed before it ended is there now.
            Some(mut losses) => match (self.take()?, losses.pop()) {
                (None, Some(loss)) => Err(loss),
                (message, _) => Ok(message),
            },
        }
    }

    /// Pops a message when there is one.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_wait(&mut self) -> Result<Message, Error> {
        let producers = self.shape.producers.clone();
        self.pop_wait_for(&producers)
    }

    /// Pops a message of any producer when there is one, as long as one of these instances is there.
    pub(crate) fn pop_wait_for(&mut self, instances: &[u32]) -> Result<Message, Error> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            self.communication.clone().wait(instances, &mut || Ok(self.depth()? > 0))?;
        }
    }

    /// Pops a message into a slot when there is one, without memory of its own; says its size.
    ///
    /// # Errors
    /// As [`pop`](Self::pop); [`Error::Bounds`] if it does not fit, and is still there.
    pub fn pop_slot_wait(&mut self, to: LocalAt<'_>) -> Result<u64, Error> {
        loop {
            if let Some(lane) = self.ready()? {
                let (start, size) = self.lanes[lane].first(&self.shape)?;
                to.slot.check("a pop to", to.offset, size)?;
                let data = &self.lanes[lane].data;
                let first = size.min(data.bytes() - start);
                copy(&*self.communication, to, data.at(start), first)?;
                if first < size {
                    copy(&*self.communication, to.slot.at(to.offset + first), data.at(0), size - first)?;
                }
                self.remove(lane, size)?;
                return Ok(size);
            }
            let producers = self.shape.producers.clone();
            self.communication.clone().wait(&producers, &mut || Ok(self.depth()? > 0))?;
        }
    }

    /// Messages in all buffers.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn depth(&self) -> Result<u64, Error> {
        self.lanes.iter().try_fold(0, |sum, lane| Ok(sum + lane.depth(self.shape.capacity)?))
    }

    /// The lane whose turn it is among those with messages.
    fn ready(&self) -> Result<Option<usize>, Error> {
        for turn in 0..self.lanes.len() {
            let lane = (self.next + turn) % self.lanes.len();
            if self.lanes[lane].depth(self.shape.capacity)? > 0 {
                return Ok(Some(lane));
            }
        }
        Ok(None)
    }

    fn take(&mut self) -> Result<Option<Message>, Error> {
        let Some(lane) = self.ready()? else { return Ok(None) };
        let (start, size) = self.lanes[lane].first(&self.shape)?;
        let mut bytes = vec![0; size as usize];
        let data = &self.lanes[lane].data;
        let (first, rest) = bytes.split_at_mut(size.min(data.bytes() - start) as usize);
        data.read(start, first)?;
        data.read(0, rest)?;
        let depth = self.remove(lane, size)?;
        let from = match &self.lanes[lane].from[..] {
            [one] => Some(*one),
            _ => None,
        };
        Ok(Some(Message { from, bytes, depth }))
    }

    /// Gives a message's room back to the producers; says how many messages are left.
    fn remove(&mut self, number: usize, size: u64) -> Result<u64, Error> {
        let lane = &mut self.lanes[number];
        lane.popped = lane.popped.wrapping_add(1);
        lane.popped_bytes = lane.popped_bytes.wrapping_add(size);
        self.next = (number + 1) % self.lanes.len();
        let lane = &self.lanes[number];
        self.scratch.write(0, bytemuck::cast_slice(&[lane.popped_bytes, lane.popped]))?;
        copy(&*self.communication, lane.counts.at(COUNTS), self.scratch.at(0), COUNTS)?;
        for slot in &lane.popped_at {
            copy(&*self.communication, slot.at(0), self.scratch.at(0), COUNTS)?;
        }
        lane.depth(self.shape.capacity)
    }
}
