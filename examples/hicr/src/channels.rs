//! The six kinds of channel, and ping-pong.

use crate::{Outcome, expect, host_space, of_root, refused, wrong};
use flash_hicr::{Consumer, Error, Managers, Producer, Producers, Shape, Size, channel};
use serde_json::{Value, json};
use std::time::Instant;

const CAPACITY: u64 = 4;
/// Messages of each producer.
const MESSAGES: u64 = 500;
const FIXED: u64 = 24;
/// Round trips of a size at most: a machine that is busy takes milliseconds for each.
const ROUNDS: u64 = 100;
const VARIABLE: u64 = 100;

/// Each kind in turn: first what one message after the other does, then many at once.
pub fn channels(hicr: &Managers) -> Outcome {
    let count = hicr.instances.instances()?.len() as u32;
    let mut report = Vec::new();
    let mut tag = 1000;
    for sharing in [Producers::Single, Producers::Locking, Producers::NonLocking] {
        for size in [Size::Fixed(FIXED), Size::Variable(VARIABLE)] {
            let producers = if sharing == Producers::Single { vec![1] } else { (1..count).collect() };
            let messages = producers.len() as u64 * MESSAGES;
            tag += 1;
            let shape = Shape { tag, sharing, producers, consumer: 0, capacity: CAPACITY, size };
            let ends = channel(hicr, &shape)?;
            let mut producer = ends.producer;
            let mut consumer = ends.consumer;
            if let Some(producer) = producer.as_mut().filter(|_| hicr.instances.current().number == 1) {
                fill(producer, size)?;
            }
            hicr.communication.fence(tag)?;
            if let Some(consumer) = &mut consumer {
                empty(consumer, size)?;
            }
            hicr.communication.fence(tag)?;
            if let Some(producer) = &mut producer {
                expect("messages in an empty buffer", producer.depth()?, 0)?;
            }
            hicr.communication.fence(tag)?;
            if let Some(producer) = &mut producer {
                send(producer, hicr.instances.current().number, size)?;
            }
            if let Some(consumer) = &mut consumer {
                receive(consumer, &shape.producers, size)?;
            }
            hicr.communication.fence(tag)?;
            hicr.communication.release(tag);
            report.push(json!({ "sharing": format!("{sharing:?}"), "size": format!("{size:?}"), "messages": messages }));
        }
    }
    of_root(hicr, json!({ "channels": report }))
}

/// A message: a producer, a number, and bytes that follow from both.
fn message(of: u32, number: u64, size: Size) -> Vec<u8> {
    let bytes = match size {
        Size::Fixed(bytes) => bytes,
        // Also none, and as many as there is room for.
        Size::Variable(most) => {
            if number % 7 == 3 {
                most
            } else {
                12 + number * 5 % 29
            }
        }
    };
    let mut message = of.to_le_bytes().to_vec();
    message.extend(number.to_le_bytes());
    message.extend((12..bytes).map(|i| (i * 3 + number + u64::from(of)) as u8));
    message
}

/// Fills an empty buffer, and one message more.
fn fill(producer: &mut Producer, size: Size) -> Result<(), Error> {
    let short = |i| match size {
        Size::Fixed(bytes) => vec![i as u8; bytes as usize],
        Size::Variable(_) => vec![i as u8; i as usize],
    };
    for i in 0..CAPACITY {
        expect("messages after a push", producer.push(&short(i))?, Some(i + 1))?;
    }
    expect("a push to a full buffer", producer.push(&short(0))?, None)?;
    expect("messages in a full buffer", producer.depth()?, CAPACITY)?;
    match size {
        Size::Fixed(bytes) => {
            for wrong in [bytes - 1, bytes + 1, 0] {
                let words = format!("expected {bytes} bytes, found {wrong}");
                refused("a message of another size", producer.push(&vec![0; wrong as usize]), &words)?;
            }
        }
        Size::Variable(most) => {
            let words = format!("expected at most {most} bytes, found {}", most + 1);
            refused("a message of one byte too many", producer.push(&vec![0; most as usize + 1]), &words)?;
        }
    }
    Ok(())
}

/// Empties it, and looks once more.
fn empty(consumer: &mut Consumer, size: Size) -> Result<(), Error> {
    for i in 0..CAPACITY {
        expect("messages before a pop", consumer.depth()?, CAPACITY - i)?;
        let message = consumer.pop()?.ok_or_else(|| wrong("a pop", "expected a message, found none"))?;
        let bytes = if let Size::Fixed(bytes) = size { bytes } else { i };
        expect(
            "a message",
            (message.bytes, message.depth),
            (vec![i as u8; bytes as usize], CAPACITY - i - 1),
        )?;
    }
    expect("a pop from an empty buffer", consumer.pop()?, None)
}

fn send(producer: &mut Producer, me: u32, size: Size) -> Result<(), Error> {
    for number in 0..MESSAGES {
        let depth = producer.push_wait(&message(me, number, size))?;
        if depth == 0 || depth > CAPACITY {
            // The consumer may have popped it already.
            expect("messages after a push", depth, 0)?;
        }
    }
    Ok(())
}

/// All messages once, those of each producer in order.
fn receive(consumer: &mut Consumer, producers: &[u32], size: Size) -> Result<(), Error> {
    let mut next = vec![0; producers.len()];
    for _ in 0..MESSAGES * producers.len() as u64 {
        let found = consumer.pop_wait()?;
        let of = found.bytes.first_chunk().map(|of| u32::from_le_bytes(*of));
        let at = producers.iter().position(|producer| Some(*producer) == of);
        let at = at.ok_or_else(|| wrong("a message", format!("it is of no producer: {found:?}")))?;
        expect("a message", &found.bytes, &message(producers[at], next[at], size))?;
        next[at] += 1;
    }
    expect("messages of each producer", next, vec![MESSAGES; producers.len()])?;
    expect("messages afterwards", consumer.depth()?, 0)
}

/// Messages of sizes from a byte on go from the root to instance 1 and back, through two channels with room
/// for one each.
pub fn ping_pong(hicr: &Managers) -> Outcome {
    let space = host_space(hicr)?;
    let me = hicr.instances.current().number;
    let mut report = Vec::new();
    for (step, bytes) in (0..).zip((0..=26).step_by(2).map(|power| 1_u64 << power)) {
        let shape = |tag, producer, consumer| Shape {
            tag,
            sharing: Producers::Single,
            producers: vec![producer],
            consumer,
            capacity: 1,
            size: Size::Fixed(bytes),
        };
        let there = channel(hicr, &shape(2000 + 2 * step, 0, 1))?;
        let back = channel(hicr, &shape(2001 + 2 * step, 1, 0))?;
        let message = hicr.memory.alloc(&space, bytes)?;
        let rounds = (1 << 21 >> (2 * step).min(20)).clamp(2, ROUNDS);
        if let (Some(mut to), Some(mut from)) = (there.producer, back.consumer) {
            let mut times = Vec::new();
            for round in 0..rounds {
                let value = (round + step) as u8;
                hicr.memory.fill(&message, value)?;
                let start = Instant::now();
                to.push_slot_wait(message.at(0), bytes)?;
                expect("bytes that came back", from.pop_slot_wait(message.at(0))?, bytes)?;
                times.push(start.elapsed().as_secs_f64());
                let ends = [message.values::<u8>(0, 1)?[0], message.values::<u8>(bytes - 1, 1)?[0]];
                // The other one has added 1 to the first byte, and to the last.
                let expected =
                    if bytes == 1 { [value.wrapping_add(2); 2] } else { [value.wrapping_add(1); 2] };
                expect("what came back", ends, expected)?;
            }
            times.sort_by(f64::total_cmp);
            let median = times[times.len() / 2];
            let rate = 2.0 * bytes as f64 / median / 1e9;
            report
                .push(json!({ "bytes": bytes, "microseconds": median * 1e6, "gigabytes_per_second": rate }));
        }
        if let (Some(mut from), Some(mut to)) = (there.consumer, back.producer) {
            for _ in 0..rounds {
                from.pop_slot_wait(message.at(0))?;
                for at in [0, bytes - 1] {
                    let value = message.values::<u8>(at, 1)?[0];
                    message.write(at, &[value.wrapping_add(1)])?;
                }
                to.push_slot_wait(message.at(0), bytes)?;
            }
        }
        for tag in [2000, 2001] {
            hicr.communication.fence(tag + 2 * step)?;
            hicr.communication.release(tag + 2 * step);
        }
    }
    Ok(if me == 0 { json!({ "round_trips": report }) } else { Value::Null })
}
