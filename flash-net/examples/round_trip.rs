//! The round trip of a byte between two processes, each on a processor of its own: both awake, then the other
//! one asleep when the byte comes.
//!
//! `cargo run --release -p flash-net --example round_trip`

use flash_net::{Member, NetError, Peer, Progress, SharedTransport, Transport, World};
use std::process::Command;
use std::time::{Duration, Instant};

/// Short, so that in some of them nothing else runs on the two processors.
const ROUNDS: u32 = 200;
const BATCHES: usize = 1000;
const SLEEPS: u32 = 100;

fn main() -> Result<(), NetError> {
    if let Some((world, me)) = World::from_environment()? {
        pin(1);
        answer(&SharedTransport::join(&world, me)?);
        return Ok(());
    }
    pin(0);
    let world = World::create(&[Member::default(), Member::default()])?;
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    world.inherit(&mut command, Peer(1))?;
    let transport = SharedTransport::join(&world, Peer(0))?;
    let mut child = command.spawn().expect("this program can be run again");
    let measured = measure(&transport);
    // Ends the child's loop, if an error has not.
    drop(transport);
    child.wait().expect("a child");
    measured
}

fn measure(transport: &SharedTransport) -> Result<(), NetError> {
    for (bytes, name) in [(1, "1 B"), (32, "32 B"), (4096, "4 KiB")] {
        let frame = vec![1; bytes];
        let mut batches = Vec::new();
        for _ in 0..BATCHES {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                round(transport, &frame)?;
            }
            batches.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
        }
        batches.sort_by(f64::total_cmp);
        // Of a busy machine, the median says how busy it is.
        println!("{name}, both awake: {:.3} us, median {:.3}", batches[0], batches[BATCHES / 2]);
    }
    let mut slept = Duration::ZERO;
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_millis(2));
        let start = Instant::now();
        round(transport, b"1")?;
        slept += start.elapsed();
    }
    println!("1 B, the other asleep: {:.1} us", slept.as_secs_f64() * 1e6 / f64::from(SLEEPS));
    transport.post(Peer(1), b"")
}

/// Sends a frame and waits for the same back.
fn round(transport: &SharedTransport, frame: &[u8]) -> Result<(), NetError> {
    transport.post(Peer(1), frame)?;
    let mut came = false;
    while !came {
        let ticket = transport.ticket();
        if transport.progress(&mut |_, answer| came = answer.len() == frame.len()) == Progress::Nothing {
            if let Some(loss) = transport.lost(Peer(1)) {
                return Err(NetError::Lost(Box::new(loss)));
            }
            transport.wait(ticket, None);
        }
    }
    Ok(())
}

/// Sends all frames back, until an empty one comes.
fn answer(transport: &SharedTransport) {
    let mut done = false;
    while !done && transport.lost(Peer(0)).is_none() {
        let ticket = transport.ticket();
        let progress = transport.progress(&mut |from, frame| {
            done |= frame.is_empty();
            // One frame at a time has room; if the other has gone, the loop ends.
            let _ = transport.post(from, frame);
        });
        if progress == Progress::Nothing {
            transport.wait(ticket, None);
        }
    }
}

/// Lets this thread run on one processor only.
fn pin(cpu: usize) {
    // SAFETY: a set of bits, for which zeros are valid, and its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}
