//! Copies: through all memory spaces, and between instances.

use crate::{Outcome, expect, host_space, of_root, refused};
use flash_hicr::{Managers, copy};
use serde_json::json;

/// Bytes of an array, which is no whole number of words.
const BYTES: u64 = 100_003;

/// A copy goes from space to space, each time to another place in its slot, and comes back.
pub fn spaces(hicr: &Managers) -> Outcome {
    let array: Vec<u8> = (0..BYTES).map(|i| (i * 31 % 251) as u8).collect();
    let communication = &*hicr.communication;
    let spaces = hicr.memory.spaces()?;
    let first = hicr.memory.alloc(&spaces[0], BYTES)?;
    first.write(0, &array)?;
    let (mut last, mut at) = (first.clone(), 0);
    for (i, space) in (1..).zip(&spaces) {
        let slot = hicr.memory.alloc(space, BYTES + i)?;
        hicr.memory.fill(&slot, 0xee)?;
        copy(communication, slot.at(i), last.at(at), BYTES)?;
        communication.fence_slot(&slot, 0, 1)?;
        expect("bytes before the copy", slot.values::<u8>(0, i as usize)?, vec![0xee; i as usize])?;
        (last, at) = (slot, i);
    }
    hicr.memory.fill(&first, 0)?;
    copy(communication, first.at(0), last.at(at), BYTES)?;
    communication.fence_slot(&last, 1, 1)?;
    expect("the array that came back", first.values::<u8>(0, BYTES as usize)? == array, true)?;
    let error = copy(communication, first.at(1), last.at(at), BYTES);
    refused("a copy of one byte too many", error, "a copy to bytes 1 to 1 + 100003")?;
    refused(
        "a copy from behind the end",
        copy(communication, first.at(0), last.at(at + 1), BYTES),
        "a copy from",
    )?;
    let bytes: u64 = (spaces.len() as u64 + 1) * BYTES;
    let names: Vec<String> = spaces.iter().map(|space| space.to_string()).collect();
    of_root(hicr, json!({ "spaces": names, "bytes_copied": bytes }))
}

/// Each instance puts into the slot of the next one, and gets from that of the one before it.
pub fn put_get(hicr: &Managers) -> Outcome {
    const TAG: u64 = 42;
    let communication = &*hicr.communication;
    let (me, count) = (u64::from(hicr.instances.current().number), hicr.instances.instances()?.len() as u64);
    let space = host_space(hicr)?;
    let [inbox, shown, own] = [1000, 1000, 1000].map(|bytes| hicr.memory.alloc(&space, bytes));
    let (inbox, shown, own) = (inbox?, shown?, own?);
    let content = |of: u64| (0..1000).map(|i| (i * 7 + of * 13) as u8).collect::<Vec<u8>>();
    own.write(0, &content(me))?;
    shown.write(0, &content(me))?;
    // Two slots of each instance, by key; some instances may give none.
    let slots = communication.exchange(TAG, &[(2 * me, &inbox), (2 * me + 1, &shown)])?;
    expect("slots of the exchange", slots.slots().len() as u64, 2 * count)?;
    let nothing = communication.exchange(TAG + 1, &[])?;
    refused(
        "a key that is not there",
        nothing.get(7),
        "no global slot with key 7 in the exchange with tag 43",
    )?;

    let (next, before) = ((me + 1) % count, (me + count - 1) % count);
    let target = slots.get(2 * next)?;
    copy(communication, target.at(3), own.at(5), 700)?;
    // Errors of both sides; nothing is copied by them.
    refused(
        "a put behind the end",
        copy(communication, target.at(301), own.at(0), 700),
        "a copy to bytes 301",
    )?;
    refused(
        "a put from behind it",
        copy(communication, target.at(0), own.at(301), 700),
        "a copy from bytes 301",
    )?;
    refused("a get of too much", copy(communication, own.at(0), target.at(0), u64::MAX), "of instance")?;
    communication.fence(TAG)?;
    communication.fence_slot(&inbox, 0, 1)?;
    let mut expected = vec![0; 1000];
    expected[3..703].copy_from_slice(&content(before)[5..705]);
    expect("what the one before has put", inbox.values::<u8>(0, 1000)?, expected)?;

    let got = hicr.memory.alloc(&space, 1000)?;
    copy(communication, got.at(1), slots.get(2 * before + 1)?.at(0), 999)?;
    communication.fence_slot(&got, 0, 1)?;
    expect("what was got", got.values::<u8>(1, 999)?, content(before)[..999].to_vec())?;

    // One of them at a time counts in the root's slot.
    let counter = slots.get(0)?;
    communication.fence(TAG)?;
    for _ in 0..100 {
        communication.wait(&(0..count as u32).collect::<Vec<_>>(), &mut || communication.lock(&counter))?;
        copy(communication, got.at(0), counter.at(992), 8)?;
        got.write(0, &(got.number(0)? + 1).to_ne_bytes())?;
        copy(communication, counter.at(992), got.at(0), 8)?;
        communication.unlock(&counter)?;
    }
    refused("a lock that is not there to give back", communication.unlock(&counter), "lock")?;
    communication.fence(TAG)?;
    copy(communication, got.at(0), counter.at(992), 8)?;
    expect("what all have counted", got.number(0)?, 100 * count)?;
    communication.fence(TAG)?;
    communication.release(TAG);
    of_root(hicr, json!({ "instances": count, "slots": 2 * count, "counted": 100 * count }))
}
