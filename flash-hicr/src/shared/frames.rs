//! Frames of exchanges and fences, and what has come of them.

use crate::Error;
use crate::slot::{Key, Place, Tag};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// Slots in one frame: each takes at most 30 bytes of the 4 KiB.
const SLOTS: usize = 100;
/// What is kept of one instance at most, before this one waits for it.
const KEPT: usize = 1 << 16;

/// A slot in a frame: its key, where it starts, its bytes.
type Entry = (Key, u64, u64);

/// A frame.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// A part of an instance's slots.
    Exchange { tag: Tag, slots: Vec<Entry>, last: bool, failed: bool },
    /// An instance has come to a fence.
    Fence { tag: Tag },
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_else(|error| panic!("a frame is plain data: {error}"))
    }
}

/// The frames of an instance's part of an exchange.
pub(super) fn exchange(tag: Tag, places: &[Place], failed: bool) -> Vec<Message> {
    let entry = |place: &Place| (place.key, place.start, place.bytes);
    let mut parts: Vec<Vec<Entry>> =
        places.chunks(SLOTS).map(|part| part.iter().map(entry).collect()).collect();
    if parts.is_empty() {
        parts.push(Vec::new());
    }
    let count = parts.len();
    let message = |(i, slots)| Message::Exchange { tag, slots, last: i + 1 == count, failed };
    parts.into_iter().enumerate().map(message).collect()
}

/// What has come of an exchange: parts of one that is not complete, and lists, `None` of one that failed.
#[derive(Default)]
struct Lists {
    part: Vec<Entry>,
    whole: VecDeque<Option<Vec<Entry>>>,
}

/// What has come and was not taken.
#[derive(Default)]
pub(super) struct Frames {
    exchanges: HashMap<(Tag, u32), Lists>,
    fences: HashMap<(Tag, u32), u64>,
    /// Entries of each instance that are kept.
    kept: HashMap<u32, usize>,
    wrong: Option<(u32, String)>,
}

impl Frames {
    pub(super) fn take(&mut self, from: u32, frame: &[u8]) {
        let kept = self.kept.entry(from).or_default();
        *kept += 1;
        match postcard::from_bytes(frame) {
            Ok(Message::Fence { tag }) => *self.fences.entry((tag, from)).or_default() += 1,
            Ok(Message::Exchange { tag, slots, last, failed }) => {
                *kept += slots.len();
                let lists = self.exchanges.entry((tag, from)).or_default();
                lists.part.extend(slots);
                if last {
                    let whole = std::mem::take(&mut lists.part);
                    lists.whole.push_back((!failed).then_some(whole));
                }
            }
            Err(error) => self.wrong = Some((from, format!("a frame of {} bytes: {error}", frame.len()))),
        }
        if self.kept[&from] > KEPT {
            let found = format!("more than {KEPT} slots and fences that this instance has not asked for");
            self.wrong = Some((from, found));
            // They are not kept any more.
            self.exchanges.retain(|(_, peer), _| *peer != from);
            self.fences.retain(|(_, peer), _| *peer != from);
            self.kept.remove(&from);
        }
    }

    /// # Errors
    /// If an instance sent what no correct one sends.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.wrong {
            None => Ok(()),
            Some((from, found)) => {
                Err(Error::Protocol { from: format!("instance {from}"), found: found.clone() })
            }
        }
    }

    pub(super) fn has_fence(&self, tag: Tag, from: u32) -> bool {
        self.fences.contains_key(&(tag, from))
    }

    pub(super) fn take_fence(&mut self, tag: Tag, from: u32) {
        if let Some(count) = self.fences.get_mut(&(tag, from)) {
            *count -= 1;
            if *count == 0 {
                self.fences.remove(&(tag, from));
            }
            self.forget(from, 1);
        }
    }

    pub(super) fn has_exchange(&self, tag: Tag, from: u32) -> bool {
        self.exchanges.get(&(tag, from)).is_some_and(|lists| !lists.whole.is_empty())
    }

    /// The slots of an instance; `None` if it could not make them global.
    pub(super) fn take_exchange(&mut self, tag: Tag, from: u32) -> Option<Vec<Entry>> {
        let lists = self.exchanges.get_mut(&(tag, from))?;
        let list = lists.whole.pop_front()?;
        if lists.whole.is_empty() && lists.part.is_empty() {
            self.exchanges.remove(&(tag, from));
        }
        let slots = list.as_ref().map_or(0, Vec::len);
        self.forget(from, slots + slots.div_ceil(SLOTS).max(1));
        list
    }

    fn forget(&mut self, from: u32, count: usize) {
        if let Some(kept) = self.kept.get_mut(&from) {
            *kept = kept.saturating_sub(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_of_many_slots_comes_in_frames_that_fit() {
        let place =
            |key| Place { owner: 1, tag: u64::MAX, key: u64::MAX - key, start: u64::MAX, bytes: u64::MAX };
        for count in [0, 1, SLOTS, SLOTS + 1, 10 * SLOTS] {
            let places: Vec<Place> = (0..count as u64).map(place).collect();
            let mut frames = Frames::default();
            for message in exchange(7, &places, false) {
                assert!(!frames.has_exchange(7, 1));
                let frame = message.encode();
                assert!(frame.len() <= flash_net::MAX_FRAME, "{}", frame.len());
                frames.take(1, &frame);
            }
            let found = frames.take_exchange(7, 1).unwrap();
            assert_eq!(found, places.iter().map(|p| (p.key, p.start, p.bytes)).collect::<Vec<_>>());
            assert!(frames.exchanges.is_empty() && frames.kept[&1] == 0);
        }
    }

    #[test]
    fn what_no_instance_sends_is_an_error_and_takes_no_memory() {
        let mut frames = Frames::default();
        frames.take(2, &[9, 9]);
        assert!(frames.check().unwrap_err().to_string().starts_with("instance 2 sent what no correct"));
        let mut frames = Frames::default();
        for tag in 0..KEPT as u64 {
            frames.take(3, &Message::Fence { tag }.encode());
        }
        frames.check().unwrap();
        frames.take(3, &Message::Fence { tag: u64::MAX }.encode());
        assert!(frames.check().is_err() && frames.fences.is_empty());
    }
}
