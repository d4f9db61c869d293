//! Channels against a naive model, and with counts that nothing correct writes.

use crate::over_threads;
use flash_hicr::{Error, Managers, Place, Producers, Shape, Size, channel};
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![3 => (0..12_usize).prop_map(Step::Push), 2 => Just(Step::Pop)];
    prop::collection::vec(step, 0..80)
}

fn sharing() -> impl Strategy<Value = Producers> {
    prop_oneof![Just(Producers::Single), Just(Producers::Locking), Just(Producers::NonLocking)]
}

/// Runs steps on a channel whose only instance has both ends, and on a queue.
fn compare(hicr: &Managers, shape: &Shape, steps: &[Step]) -> Result<(), Error> {
    let ends = channel(hicr, shape)?;
    let (mut producer, mut consumer) =
        (ends.producer.expect("a producer"), ends.consumer.expect("a consumer"));
    let mut model: VecDeque<Vec<u8>> = VecDeque::new();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Push(bytes) => {
                let message = vec![number as u8; *bytes];
                let used: usize = model.iter().map(Vec::len).sum();
                let found = producer.push(&message);
                let has_place = (model.len() as u64) < shape.capacity;
                let expected = match shape.size {
                    Size::Fixed(size) if *bytes as u64 != size => None,
                    Size::Variable(most) if *bytes as u64 > most => None,
                    Size::Fixed(_) => Some(has_place),
                    Size::Variable(most) => Some(has_place && (used + bytes) as u64 <= most),
                };
                match (found, expected) {
                    (Err(_), None) => {}
                    (Ok(None), Some(false)) => {}
                    (Ok(Some(depth)), Some(true)) => {
                        model.push_back(message);
                        assert_eq!(depth, model.len() as u64);
                    }
                    (found, expected) => panic!("step {number}, {step:?}: {found:?}, expected {expected:?}"),
                }
            }
            Step::Pop => {
                let found = consumer.pop()?.map(|message| (message.bytes, message.depth));
                let expected = model.pop_front().map(|bytes| (bytes, model.len() as u64));
                assert_eq!(found, expected, "step {number}");
            }
        }
        assert_eq!((producer.depth()?, consumer.depth()?), (model.len() as u64, model.len() as u64));
    }
    hicr.communication.release(shape.tag);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_channel_does_what_a_queue_does(
        sharing in sharing(),
        capacity in 1..6_u64,
        size in prop_oneof![(1..12_u64).prop_map(Size::Fixed), (1..40_u64).prop_map(Size::Variable)],
        steps in steps(),
    ) {
        let shape = Shape { tag: 1, sharing, producers: vec![0], consumer: 0, capacity, size };
        over_threads(1, move |hicr| compare(&hicr, &shape, &steps));
    }
}

#[test]
fn two_and_four_producers_lose_nothing_and_keep_their_order() {
    const EACH: u32 = 3000;
    for producers in [2, 4] {
        for sharing in [Producers::Locking, Producers::NonLocking] {
            over_threads(producers + 1, move |hicr| {
                let shape = Shape {
                    tag: 5,
                    sharing,
                    producers: (1..=producers as u32).collect(),
                    consumer: 0,
                    capacity: 7,
                    size: Size::Variable(100),
                };
                let ends = channel(&hicr, &shape)?;
                if let Some(mut producer) = ends.producer {
                    let me = hicr.instances.current().number;
                    for number in 0..EACH {
                        let mut message = [me.to_le_bytes(), number.to_le_bytes()].concat();
                        message.resize(8 + number as usize % 50, number as u8);
                        producer.push_wait(&message)?;
                    }
                }
                if let Some(mut consumer) = ends.consumer {
                    let mut next = vec![0; producers + 1];
                    for _ in 0..EACH * producers as u32 {
                        let bytes = consumer.pop_wait()?.bytes;
                        let number =
                            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
                        let (from, number) = (number(0) as usize, number(4));
                        assert_eq!(number, next[from], "of producer {from}");
                        assert_eq!(bytes.len(), 8 + number as usize % 50);
                        assert!(bytes[8..].iter().all(|byte| *byte == number as u8));
                        next[from] += 1;
                    }
                    assert_eq!(next[1..], vec![EACH; producers]);
                    assert!(consumer.depth()? == 0);
                }
                hicr.communication.fence(5)
            });
        }
    }
}

#[test]
fn counts_that_cannot_be_are_errors_of_both_ends() {
    over_threads(1, |hicr| {
        let space = hicr.memory.spaces()?[0].clone();
        // Slots of this channel are the first of the arena, after this one.
        let first = hicr.memory.alloc(&space, 8)?;
        let start = hicr.communication.promote(&first)?.place().start;
        let shape = Shape {
            tag: 1,
            sharing: Producers::Single,
            producers: vec![0],
            consumer: 0,
            capacity: 2,
            size: Size::Variable(64),
        };
        let ends = channel(&hicr, &shape)?;
        let (mut producer, mut consumer) = (ends.producer.expect("one"), ends.consumer.expect("one"));
        producer.push(b"abc")?;
        let all = hicr.communication.attach(Place { owner: 0, tag: 0, key: 0, start, bytes: 4096 })?;
        let spoiled = hicr.memory.alloc(&space, 4096)?;
        hicr.memory.fill(&spoiled, 0x77)?;
        flash_hicr::copy(&*hicr.communication, all.at(64), spoiled.at(0), 1024)?;
        for error in [consumer.pop().map(drop), consumer.depth().map(drop), producer.push(b"x").map(drop)] {
            assert!(matches!(error, Err(Error::Protocol { .. })), "{error:?}");
        }
        Ok(())
    });
}

#[test]
fn random_writes_to_a_channel_s_memory_are_errors_and_never_more() {
    over_threads(1, |hicr| {
        let space = hicr.memory.spaces()?[0].clone();
        let shape =
            |sharing, size| Shape { tag: 1, sharing, producers: vec![0], consumer: 0, capacity: 3, size };
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let garbage = hicr.memory.alloc(&space, 8)?;
        for round in 0..300 {
            let sharing = [Producers::Single, Producers::Locking, Producers::NonLocking][round % 3];
            let size = [Size::Fixed(8), Size::Variable(30)][round % 2];
            let ends = channel(&hicr, &shape(sharing, size))?;
            let (mut producer, mut consumer) = (ends.producer.expect("one"), ends.consumer.expect("one"));
            let start = hicr.communication.promote(&garbage)?.place().start / 4096 * 4096 + 64;
            let all = hicr.communication.attach(Place { owner: 0, tag: 0, key: 0, start, bytes: 4000 })?;
            for _ in 0..20 {
                // Not the locks, which nothing would give back.
                let at = random(3900 / 64) * 64 + 8 * random(2);
                let value = [random(5), u64::MAX - random(5), random(u64::MAX)][random(3) as usize];
                garbage.write(0, &value.to_ne_bytes())?;
                if random(3) == 0 && sharing != Producers::Locking {
                    flash_hicr::copy(&*hicr.communication, all.at(at), garbage.at(0), 8)?;
                }
                let _ = producer.push(&[1; 8]);
                let _ = consumer.pop();
                let _ = (producer.depth(), consumer.depth());
            }
            hicr.communication.release(1);
        }
        Ok(())
    });
}

#[test]
fn shapes_that_make_no_sense_are_refused() {
    over_threads(1, |hicr| {
        let good = Shape {
            tag: 1,
            sharing: Producers::NonLocking,
            producers: vec![0],
            consumer: 0,
            capacity: 1,
            size: Size::Fixed(1),
        };
        let cases = [
            (Shape { producers: vec![0, 0], ..good.clone() }, "expected each producer once"),
            (Shape { producers: vec![1], ..good.clone() }, "expected instances below 1, found 1"),
            (Shape { consumer: 9, ..good.clone() }, "found 9"),
            (Shape { producers: vec![], ..good.clone() }, "a producer or more, found 0"),
            (Shape { producers: vec![], sharing: Producers::Single, ..good.clone() }, "expected 1 producer"),
            (Shape { capacity: 0, ..good.clone() }, "room for a message or more"),
            (Shape { size: Size::Variable(0), ..good.clone() }, "room for a message or more"),
            (Shape { capacity: u64::MAX, size: Size::Fixed(u64::MAX), ..good.clone() }, "room for a message"),
        ];
        for (shape, words) in cases {
            crate::has(&crate::text(channel(&hicr, &shape)), words);
        }
        Ok(())
    });
}
