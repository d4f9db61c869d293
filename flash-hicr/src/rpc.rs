//! Remote calls: functions by name, with bytes as arguments and results, of any size.
//!
//! Each instance has two channels: one for the calls of others, one for the results of its own. Messages are
//! cut into pieces; those of one sender come in order. Calls wait in the channel until the instance listens.

use crate::Error;
use crate::channel::{Consumer, Producer, Producers, Shape, Size, channel};
use crate::error::panic_text;
use crate::managers::Managers;
use crate::slot::Tag;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of a buffer of one sender, and of a piece.
const BUFFER: u64 = 128 << 10;
const PIECE: usize = 32 << 10;
/// Pieces in a buffer.
const PIECES: u64 = 64;
/// The largest message: more is no call.
const MOST: u64 = 1 << 32;

type Function = Box<dyn Fn(u32, &[u8]) -> Result<Vec<u8>, String> + Send>;

/// One instance's calls and functions.
pub struct Rpc {
    me: u32,
    functions: BTreeMap<String, Function>,
    calls: Consumer,
    results: Consumer,
    /// Per instance.
    call: HashMap<u32, Producer>,
    answer: HashMap<u32, Producer>,
    /// Parts of messages that have come, per sender.
    calls_come: HashMap<u32, Assembly>,
    results_come: HashMap<u32, Assembly>,
    number: u64,
}

/// A message that has not come whole.
#[derive(Default)]
struct Assembly {
    expected: Option<u64>,
    bytes: Vec<u8>,
}

impl Assembly {
    /// Adds a piece; gives the message when it is whole.
    fn add(&mut self, from: u32, piece: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let expected = match (self.expected, piece.split_first_chunk()) {
            (Some(expected), _) => {
                self.bytes.extend_from_slice(piece);
                expected
            }
            (None, Some((length, rest))) => {
                let expected = u64::from_le_bytes(*length);
                self.bytes.extend_from_slice(rest);
                expected
            }
            (None, None) => u64::MAX,
        };
        self.expected = Some(expected);
        let have = self.bytes.len() as u64;
        if have > expected || expected > MOST {
            *self = Assembly::default();
            let found = format!("a message of {expected} bytes, of which {have} have come");
            return Err(Error::Protocol { from: format!("instance {from}"), found });
        }
        Ok((have == expected).then(|| std::mem::take(self).bytes))
    }
}

impl Rpc {
    /// Makes calls possible among all instances of a group, with this tag and those of the next
    /// `2 * instances`. Collective.
    ///
    /// # Errors
    /// Those of channels.
    pub fn new(hicr: &Managers, tag: Tag) -> Result<Rpc, Error> {
        let (me, count) = (hicr.instances.current().number, hicr.instances.instances()?.len() as u32);
        if count < 2 {
            return Err(Error::refused("remote calls", "expected two instances or more, found one"));
        }
        let all = |first: Tag| -> Result<(Consumer, HashMap<u32, Producer>), Error> {
            let (mut own, mut others) = (None, HashMap::new());
            for consumer in 0..count {
                let ends = channel(
                    hicr,
                    &Shape {
                        tag: first + Tag::from(consumer),
                        sharing: Producers::NonLocking,
                        producers: (0..count).filter(|one| *one != consumer).collect(),
                        consumer,
                        capacity: PIECES,
                        size: Size::Variable(BUFFER),
                    },
                )?;
                own = own.or(ends.consumer);
                others.extend(ends.producer.map(|producer| (consumer, producer)));
            }
            Ok((
                own.ok_or_else(|| Error::refused("remote calls", "this instance is not in its group"))?,
                others,
            ))
        };
        let (calls, call) = all(tag)?;
        let (results, answer) = all(tag + Tag::from(count))?;
        Ok(Rpc {
            me,
            functions: BTreeMap::new(),
            calls,
            results,
            call,
            answer,
            calls_come: HashMap::new(),
            results_come: HashMap::new(),
            number: 0,
        })
    }

    /// Registers a function for callers. It gets the number of the caller's instance and the argument; what
    /// it returns, and what it panics with, goes to the caller.
    ///
    /// # Errors
    /// [`Error::Refused`] if the name is taken.
    pub fn register(
        &mut self,
        name: &str,
        function: impl Fn(u32, &[u8]) -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<(), Error> {
        if self.functions.contains_key(name) {
            return Err(Error::refused(format!("registering `{name}`"), "there is a function of that name"));
        }
        self.functions.insert(name.to_owned(), Box::new(function));
        Ok(())
    }

    /// Calls a function of another instance, and waits for its result: for as long as that one does not
    /// listen.
    ///
    /// # Errors
    /// [`Error::Call`] with what went wrong there; [`Error::Lost`] if the instance is gone.
    pub fn call(&mut self, instance: u32, name: &str, argument: &[u8]) -> Result<Vec<u8>, Error> {
        let others = self.call.len() + 1;
        let Some(producer) = self.call.get_mut(&instance) else {
            let why = format!("expected another instance than {}, below {others}, found {instance}", self.me);
            return Err(Error::refused(format!("calling `{name}`"), why));
        };
        self.number += 1;
        let length = (name.len() as u32).to_le_bytes();
        send(producer, &[&self.number.to_le_bytes(), &length, name.as_bytes(), argument])?;
        loop {
            let piece = self.results.pop_wait_for(&[instance])?;
            let from = piece.from.unwrap_or(u32::MAX);
            let whole = self.results_come.entry(from).or_default().add(from, &piece.bytes)?;
            let Some(whole) = whole else { continue };
            let wrong =
                || Error::Protocol { from: format!("instance {from}"), found: "no result".to_owned() };
            let (number, rest) = whole.split_first_chunk().ok_or_else(wrong)?;
            let (is_ok, result) = rest.split_first().ok_or_else(wrong)?;
            // The result of a call that was given up.
            if from != instance || u64::from_le_bytes(*number) != self.number {
                continue;
            }
            return match is_ok {
                1 => Ok(result.to_vec()),
                _ => Err(Error::Call {
                    name: name.to_owned(),
                    on: instance,
                    text: String::from_utf8_lossy(result).into_owned(),
                }),
            };
        }
    }

    /// Waits for a call, runs it, and sends its result.
    ///
    /// # Errors
    /// [`Error::Lost`] if all other instances are gone, or the caller is.
    pub fn listen(&mut self) -> Result<(), Error> {
        loop {
            let piece = self.calls.pop_wait()?;
            if self.serve(piece.from.unwrap_or(u32::MAX), &piece.bytes)? {
                return Ok(());
            }
        }
    }

    /// Takes a piece of a call, and runs the call if that is whole; says whether.
    fn serve(&mut self, from: u32, piece: &[u8]) -> Result<bool, Error> {
        let Some(whole) = self.calls_come.entry(from).or_default().add(from, piece)? else {
            return Ok(false);
        };
        let wrong = || Error::Protocol { from: format!("instance {from}"), found: "no call".to_owned() };
        let (number, rest) = whole.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let (name, argument) =
            rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(wrong)?;
        let name = String::from_utf8_lossy(name);
        let outcome = match self.functions.get(&*name) {
            Some(function) => catch_unwind(AssertUnwindSafe(|| function(from, argument)))
                .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic)))),
            None => {
                let known: Vec<&str> = self.functions.keys().map(|name| &**name).collect();
                Err(format!("expected one of {known:?}: there is no function of that name"))
            }
        };
        let producer = self.answer.get_mut(&from).ok_or_else(wrong)?;
        let (is_ok, bytes) = match outcome {
            Ok(bytes) => (1, bytes),
            Err(text) => (0, text.into_bytes()),
        };
        send(producer, &[number, &[is_ok], &bytes])?;
        Ok(true)
    }
}

/// Sends a message of these parts in pieces, the first of which has its length before it.
fn send(producer: &mut Producer, parts: &[&[u8]]) -> Result<(), Error> {
    let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
    if length > MOST {
        let why =
            format!("expected at most {MOST} bytes, found {length}: publish an object, and send its id");
        return Err(Error::refused("a message of a call", why));
    }
    let mut piece = length.to_le_bytes().to_vec();
    for mut part in parts.iter().copied() {
        while !part.is_empty() {
            let (now, later) = part.split_at(part.len().min(PIECE - piece.len()));
            piece.extend_from_slice(now);
            part = later;
            if piece.len() == PIECE {
                producer.push_wait(&piece)?;
                piece.clear();
            }
        }
    }
    if !piece.is_empty() {
        producer.push_wait(&piece)?;
    }
    Ok(())
}
