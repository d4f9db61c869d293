//! Channels between two instances that are processes of this machine, beside MPI; and creating one.
//!
//! The instance that is asked is the root; the other one goes on until the root is gone.

use super::mailbox::TRIPS;
use super::meter::{Meter, Side, row, serve};
use super::mpi::Family;
use crate::peers::or_without;
use crate::stats::{REPEATS, Row, try_pair};
use anyhow::{Context, Result};
use flash_hicr::{
    Consumer, Error, LocalSlot, Managers, Producer, Producers, Shape, Size, Template, channel, join,
};
use std::thread;
use std::time::{Duration, Instant};

/// The part of an instance that sends a byte and waits for it, and of the one that sends it back.
const TRIP: &str = "ranks.hicr.trip";
/// The part of an instance that pushes, and of the one that pops: so many channels, with a thread for each.
const PUSH: [&str; 2] = ["ranks.hicr.push.1", "ranks.hicr.push.2"];
/// The part of an instance that creates others.
const CREATE: &str = "ranks.hicr.create";
/// The part of one that was created.
const CREATED: &str = "ranks.hicr.created";

/// Messages that each producer pushes in a turn.
const MESSAGES: usize = 20_000;
/// Messages that a channel has room for, and bytes of each, where many are pushed.
const CAPACITY: u64 = 64;
const BYTES: u64 = 8;

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let family = Family::OPEN_MPI;
    if let Some(mut peer) = or_without(family.name, family.peer())? {
        let mut ours = Meter::of_world(TRIP, &[])?;
        let name =
            format!("round trip of 1 B through channels of HiCR, against that of {} in C", family.name);
        let ours = Side(&mut ours, "trip", TRIPS);
        rows.push(row(name, "ns", ours, Side(&mut peer, "trip", TRIPS))?);
    }
    rows.push(threads_against_pairs()?);
    if flash_net::cpus().len() > 1 {
        let mut creator = Meter::of_process(CREATE, &[])?;
        let once = || creator.ask("create", 1);
        rows.push(try_pair("an instance of HiCR, created", "ms", REPEATS, once, None, Duration::ZERO)?);
    } else {
        eprintln!("one CPU: an instance that creates another has none to give, and that is not measured");
    }
    Ok(rows)
}

/// Two threads of a process that push to two of another one, beside two such pairs of processes with a thread
/// each. Those that push have one processor, and those that pop have the other.
fn threads_against_pairs() -> Result<Row> {
    let mut threads = Meter::of_world(PUSH[1], &[])?;
    let mut pairs = [Meter::of_world(PUSH[0], &[])?, Meter::of_world(PUSH[0], &[])?];
    let ours = || threads.ask("push", MESSAGES);
    let mut peer = || {
        for pair in &mut pairs {
            pair.request("push", MESSAGES)?;
        }
        let rates = [pairs[0].answer()?, pairs[1].answer()?];
        // Until the later one has pushed its messages.
        Ok(2.0 * rates[0].min(rates[1]))
    };
    try_pair(
        format!(
            "messages of {BYTES} B by two threads through channels of HiCR, against two pairs of processes"
        ),
        "10^6/s",
        REPEATS,
        ours,
        Some(&mut peer),
        Duration::ZERO,
    )
}

/// What an instance does; false: nothing of that name.
pub fn measure(what: &str) -> Result<bool> {
    match what {
        TRIP => trip()?,
        CREATE => create()?,
        CREATED => join()?.communication.fence(1)?,
        _ => match PUSH.iter().position(|push| *push == what) {
            Some(at) => push(at + 1)?,
            None => return Ok(false),
        },
    }
    Ok(true)
}

/// A channel from one instance to another.
fn channel_of(
    hicr: &Managers,
    tag: u64,
    [from, to]: [u32; 2],
    capacity: u64,
    bytes: u64,
) -> Result<(Option<Producer>, Option<Consumer>)> {
    let (sharing, size) = (Producers::Single, Size::Fixed(bytes));
    let shape = Shape { tag, sharing, producers: vec![from], consumer: to, capacity, size };
    let ends = channel(hicr, &shape)?;
    Ok((ends.producer, ends.consumer))
}

fn slot(hicr: &Managers, bytes: u64) -> Result<LocalSlot> {
    let spaces = hicr.memory.spaces()?;
    Ok(hicr.memory.alloc(spaces.first().context("this instance has no memory")?, bytes)?)
}

/// Goes on until the other instance is gone.
fn until_lost(mut body: impl FnMut() -> Result<(), Error>) -> Result<()> {
    loop {
        match body() {
            Ok(()) => {}
            Err(Error::Lost(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn trip() -> Result<()> {
    let hicr = join()?;
    let (to_other, from_root) = channel_of(&hicr, 1, [0, 1], 1, 1)?;
    let (to_root, from_other) = channel_of(&hicr, 2, [1, 0], 1, 1)?;
    let byte = slot(&hicr, 1)?;
    if let (Some(mut to), Some(mut from)) = (to_other, from_other) {
        let mut trips = |count| -> Result<(), Error> {
            for _ in 0..count {
                to.push_slot_wait(byte.at(0), 1)?;
                from.pop_slot_wait(byte.at(0))?;
            }
            Ok(())
        };
        return serve(|_, count| {
            // Awake from here on.
            trips(100)?;
            let start = Instant::now();
            trips(count)?;
            Ok(start.elapsed().as_nanos() as f64 / count as f64)
        });
    }
    let (mut from, mut to) = from_root.zip(to_root).context("an instance has two ends")?;
    until_lost(|| {
        from.pop_slot_wait(byte.at(0))?;
        to.push_slot_wait(byte.at(0), 1).map(drop)
    })
}

/// Millions of messages in a second, by a thread for each channel.
fn push(channels: usize) -> Result<()> {
    let hicr = join()?;
    let (mut producers, mut consumers) = (Vec::new(), Vec::new());
    for tag in 1..=channels as u64 {
        let (producer, consumer) = channel_of(&hicr, tag, [0, 1], CAPACITY, BYTES)?;
        let message = slot(&hicr, BYTES)?;
        producers.extend(producer.map(|producer| (producer, message.clone())));
        consumers.extend(consumer.map(|consumer| (consumer, message)));
    }
    if !consumers.is_empty() {
        let pop = |(mut consumer, message): (Consumer, LocalSlot)| {
            until_lost(|| consumer.pop_slot_wait(message.at(0)).map(drop))
        };
        let all: Vec<_> = consumers.into_iter().map(|end| thread::spawn(move || pop(end))).collect();
        return all.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())));
    }
    serve(|_, count| {
        let start = Instant::now();
        thread::scope(|scope| {
            let push = |(producer, message): &mut (Producer, LocalSlot)| {
                (0..count).try_for_each(|_| producer.push_slot_wait(message.at(0), BYTES).map(drop))
            };
            let all: Vec<_> = producers.iter_mut().map(|end| scope.spawn(move || push(end))).collect();
            all.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
        })?;
        Ok((count * channels) as f64 / start.elapsed().as_micros() as f64)
    })
}

/// Milliseconds from the call until an instance has joined, which is a process.
fn create() -> Result<()> {
    let hicr = join()?;
    let arguments = Some(vec!["--child".into(), CREATED.into()]);
    let template = Template { arguments, ..Template::default() };
    serve(|_, count| {
        let start = Instant::now();
        let group = hicr.instances.create(&template, count)?;
        let ms = start.elapsed().as_nanos() as f64 / 1e6;
        group.communication.fence(1)?;
        Ok(ms)
    })
}
