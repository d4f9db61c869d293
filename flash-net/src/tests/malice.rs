//! A peer that writes whatever it likes, wherever it likes, at any time.

use crate::mailbox::MAX_FRAME;
use crate::transport::{Peer, Progress, Transport};
use crate::world::{Member, World};
use crate::{Detector, SharedTransport};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A small generator of numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn world(peers: usize) -> World {
    World::with_arenas(&vec![Member { name: "x".into(), cpus: vec![] }; peers], 2 << 20).unwrap()
}

/// Everything that a user does with a transport. Frames have valid lengths; everything returns.
fn use_all(transport: &impl Transport, random: &mut Random) {
    for _ in 0..transport.peers() {
        let peer = Peer(random.below(transport.peers() as u64 + 1) as u32);
        let _ = transport.post(peer, &vec![1; random.below(MAX_FRAME as u64 + 2) as usize]);
        let _ = transport.info(peer);
        let _ = transport.ping(peer);
        if let Some(loss) = transport.lost(peer) {
            assert!(!loss.to_string().is_empty());
        }
    }
    let mut frames = 0;
    let progress = transport.progress(&mut |from, frame| {
        assert!((from.0 as usize) < transport.places() && frame.len() <= MAX_FRAME);
        frames += 1;
    });
    assert!(progress == Progress::Some || frames == 0);
    assert!(frames <= 32 * transport.places());
    if random.below(8) == 0 {
        transport.wait(transport.ticket(), Some(Instant::now() + Duration::from_micros(50)));
    }
}

/// A word that may do harm: a frame's first word, a small number, a length, or anything.
fn word(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.next(),
        1 => random.below(6) << 16 | random.below(4) << 13 | random.below(8192),
        2 => random.below(2000),
        _ => 0,
    }
}

/// A place before the arenas: peers' tables mostly, or lines of mailboxes.
fn place(random: &mut Random, world: &World) -> u64 {
    let tables = 4096 + (world.places() as u64) * (32 << 10);
    let all = world.before_arenas();
    let place = match random.below(3) {
        0 => random.below(4096 + 1024),
        1 => 4096 + random.below(tables - 4096),
        _ => tables + random.below((all - tables) / 64) * 64,
    };
    place / 8 * 8
}

#[test]
fn words_anywhere_between_calls_give_errors_at_most() {
    for seed in 1..=300_u64 {
        let mut random = Random(seed * 0x9e37_79b9);
        let world = world(2 + seed as usize % 2);
        let me = SharedTransport::join(&world, Peer(0)).unwrap();
        let _other = SharedTransport::join(&world, Peer(1)).unwrap();
        for _ in 0..40 {
            for _ in 0..random.below(50) {
                let (place, word) = (place(&mut random, &world), word(&mut random));
                world.file().write_all_at(&word.to_ne_bytes(), place).unwrap();
            }
            use_all(&me, &mut random);
        }
    }
}

/// Another thread writes all the time; by the system's calls, which Rust's rules do not bind.
#[test]
fn words_anywhere_at_any_time_give_errors_at_most() {
    for seed in 1..=20_u64 {
        let world = world(3);
        let me = SharedTransport::join(&world, Peer(0)).unwrap();
        let me = Detector::new(me, Duration::from_millis(40));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(seed * 77);
                while !stop.load(Relaxed) {
                    let (place, word) = (place(&mut random, &world), word(&mut random));
                    world.file().write_all_at(&word.to_ne_bytes(), place).unwrap();
                }
            });
            let mut random = Random(seed);
            (0..1000).for_each(|_| use_all(&me, &mut random));
            stop.store(true, Relaxed);
        });
    }
}

#[test]
fn a_peer_that_writes_what_no_peer_writes_is_lost_and_named() {
    let world = world(2);
    let me = SharedTransport::join(&world, Peer(0)).unwrap();
    let _other = SharedTransport::join(&world, Peer(1)).unwrap();
    let mailbox = world.mailbox(Peer(1), Peer(0));
    world.file().write_all_at(&(9_u64 << 16 | 1).to_ne_bytes(), mailbox).unwrap();
    let ticket = me.ticket();
    assert_eq!(me.progress(&mut |_, _| {}), Progress::Nothing);
    me.wait(ticket, None);
    let loss = me.lost(Peer(1)).expect("it is lost");
    let found = "is not trusted any more: its mailbox has the word 0x0000000000090001 where a frame starts";
    assert!(loss.to_string().contains(found), "{loss}");
    assert!(me.post(Peer(1), b"").is_err());
    // It does not keep those that wait awake.
    let until = Instant::now() + Duration::from_millis(5);
    let mut waits = 0;
    while Instant::now() < until {
        me.wait(me.ticket(), Some(until));
        waits += 1;
    }
    assert!(waits < 100, "{waits} waits in 5 ms");
}

#[test]
fn a_file_that_is_no_world_is_refused() {
    let refused = |file: std::fs::File| World::from_file(file.into()).unwrap_err().to_string();
    let plain = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    assert!(refused(plain).contains("sealed against changes of its size"));
    let world = world(2);
    for (place, word, found) in [
        (0, 7_u64, "0x7, version 1"),
        (8, 7, "version 7: all processes of a world are of one version of FLASH"),
        (16, 3, "3 places with arenas of 2097152 bytes do not make its"),
        (24, u64::MAX, "2 places with arenas of 18446744073709551615 bytes"),
    ] {
        let mut kept = [0; 8];
        world.file().read_exact_at(&mut kept, place).unwrap();
        world.file().write_all_at(&word.to_ne_bytes(), place).unwrap();
        let error = refused(world.file().try_clone().unwrap());
        assert!(error.contains(found), "{error}");
        world.file().write_all_at(&kept, place).unwrap();
    }
    World::from_file(world.file().try_clone().unwrap().into()).unwrap();
}

#[test]
fn no_process_can_take_memory_away() {
    let world = world(1);
    assert!(world.file().set_len(4096).is_err());
}
