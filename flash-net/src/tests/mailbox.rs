//! A mailbox against a queue.

use crate::mailbox::{Kind, LINE, MAX_FRAME, Refusal, Ring, Sender, lines_of};
use crate::sync::AtomicU64;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    /// A frame of this many bytes, cut at this place.
    Post(usize, usize),
    Ping,
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![0..200_usize, 0..=MAX_FRAME];
    prop_oneof![
        4 => (length, 0..=MAX_FRAME).prop_map(|(length, cut)| Step::Post(length, cut.min(length))),
        1 => Just(Step::Ping),
        3 => Just(Step::Take),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn a_mailbox_is_a_queue_with_a_limit(
        size in 7..10_u32,
        steps in prop::collection::vec(step(), if cfg!(miri) { 1..60 } else { 1..600 }),
    ) {
        let words: Vec<AtomicU64> = (0..LINE << size).map(|_| AtomicU64::new(0)).collect();
        let (released, wanted) = (AtomicU64::new(0), AtomicU64::new(0));
        let ring = Ring::new(&words, &released, &wanted);
        let (mut sender, mut at, mut number, mut refused) = (Sender::default(), 0, 0_u8, false);
        let mut model: VecDeque<(Kind, Vec<u8>)> = VecDeque::new();
        let mut buffer = [[0; 8]; _];
        for step in steps {
            let (kind, frame, cut) = match step {
                Step::Post(length, cut) => {
                    number = number.wrapping_add(1);
                    (Kind::Data, (0..length).map(|i| number.wrapping_mul(31) ^ i as u8).collect(), cut)
                }
                Step::Ping => (Kind::Ping, vec![], 0),
                Step::Take => {
                    let found = ring.look(at).unwrap();
                    prop_assert_eq!(found, model.front().map(|(kind, frame)| (*kind, frame.len())));
                    if let Some((_, length)) = found {
                        ring.copy(at, length, &mut buffer);
                        prop_assert_eq!(&buffer.as_flattened()[..length], &model.pop_front().unwrap().1);
                        at += lines_of(length);
                        // Those that were refused, and those only, are told.
                        prop_assert_eq!(ring.release(at), std::mem::take(&mut refused));
                    }
                    continue;
                }
            };
            let used: u64 = model.iter().map(|(_, frame)| lines_of(frame.len())).sum();
            let has_room = used + lines_of(frame.len()) <= 1 << size;
            let posted = sender.post(ring, kind, &[&frame[..cut], &frame[cut..]]);
            prop_assert_eq!(posted, if has_room { Ok(()) } else { Err(Refusal::Full) });
            refused |= !has_room;
            if has_room {
                model.push_back((kind, frame));
            }
        }
    }

    /// Whatever is in the memory of a mailbox, there is a frame of a valid length, none, or an error.
    #[test]
    fn spoilt_memory_gives_valid_frames_or_errors(
        writes in prop::collection::vec((0..128_usize, word()), 1..200),
        released in word(),
    ) {
        let words: Vec<AtomicU64> = (0..16 * LINE).map(|_| AtomicU64::new(0)).collect();
        let (read, wanted) = (AtomicU64::new(0), AtomicU64::new(0));
        let ring = Ring::new(&words, &read, &wanted);
        let (mut sender, mut at) = (Sender::default(), 0);
        let mut buffer = [[0; 8]; _];
        for (place, word) in writes {
            words[place].store(word, std::sync::atomic::Ordering::Relaxed);
            if let Ok(Some((kind, length))) = ring.look(at) {
                prop_assert!(length <= MAX_FRAME && (kind == Kind::Data || length == 0));
                ring.copy(at, length, &mut buffer);
                at += lines_of(length);
                let _ = ring.release(at);
            }
        }
        read.store(released, std::sync::atomic::Ordering::Relaxed);
        let mut written = 0;
        let refusal = loop {
            match sender.post(ring, Kind::Data, &[&[0; 100]]) {
                Ok(()) => written += 2,
                Err(refusal) => break refusal,
            }
            prop_assert!(written <= 32);
        };
        let expected = if released > 16 { Refusal::Corrupt(released) } else { Refusal::Full };
        prop_assert_eq!(refusal, expected);
    }
}

/// Words of all kinds, among them those that begin frames of the first laps.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0..4_u64, 0..8_u64, 0..8192_u64).prop_map(|(lap, kind, length)| lap << 16 | kind << 13 | length),
        0..40_u64,
    ]
}
