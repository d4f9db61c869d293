//! The transport inside one process.

use flash_net::{MAX_FRAME, Member, NetError, Peer, Progress, SharedTransport, Transport, World, local};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Short frames that a mailbox has room for.
const PLACES: u64 = if cfg!(miri) { 128 } else { 1024 };

fn pair() -> [SharedTransport; 2] {
    local(2).unwrap().try_into().unwrap()
}

/// All frames that are there now.
fn take(transport: &SharedTransport) -> Vec<(Peer, Vec<u8>)> {
    let mut frames = Vec::new();
    while transport.progress(&mut |from, frame| frames.push((from, frame.to_vec()))) == Progress::Some {}
    frames
}

#[test]
fn frames_come_whole_and_in_order() {
    let [a, b] = pair();
    let frames: Vec<Vec<u8>> = [0, 1, 7, 8, 9, 55, 56, 57, 112, 113, 4095]
        .map(|length| (0..length).map(|i| i as u8).collect())
        .into();
    for frame in &frames {
        a.post(Peer(1), frame).unwrap();
    }
    let expected: Vec<_> = frames.into_iter().map(|frame| (Peer(0), frame)).collect();
    assert_eq!(take(&b), expected);
    assert_eq!(take(&a), []);
}

#[test]
fn the_parts_of_a_frame_are_put_together() {
    let [a, b] = pair();
    a.post_parts(Peer(1), &[b"head", b"", &[7; 100], b"tail"]).unwrap();
    assert_eq!(take(&b), [(Peer(0), [&b"head"[..], &[7; 100], b"tail"].concat())]);
}

#[test]
fn a_full_mailbox_is_an_answer_and_loses_nothing() {
    let [a, b] = pair();
    let mut sent = 0_u64;
    let error = loop {
        match a.post(Peer(1), &sent.to_ne_bytes()) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, NetError::Full { to: Peer(1), bytes: 8 }), "{error}");
    assert_eq!(sent, PLACES);
    let got: Vec<u64> =
        take(&b).into_iter().map(|(_, frame)| u64::from_ne_bytes(frame.try_into().unwrap())).collect();
    assert_eq!(got, (0..PLACES).collect::<Vec<_>>());
    a.post(Peer(1), b"again").unwrap();
    assert_eq!(take(&b), [(Peer(0), b"again".to_vec())]);
}

#[test]
fn a_wait_ends_when_a_full_mailbox_gets_room() {
    let [a, b] = pair();
    while a.post(Peer(1), &[0; MAX_FRAME]).is_ok() {}
    let ticket = a.ticket();
    assert!(a.post(Peer(1), &[0; MAX_FRAME]).is_err());
    assert_eq!(b.progress(&mut |_, _| {}), Progress::Some);
    a.wait(ticket, None);
    a.post(Peer(1), &[0; MAX_FRAME]).unwrap();
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let [a, b] = pair();
    a.post(Peer(1), &[1; MAX_FRAME]).unwrap();
    let error = a.post(Peer(1), &[1; MAX_FRAME + 1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a frame to peer 1 has 4129 bytes, expected at most 4128: send it in pieces or through shared memory"
    );
    let error = a.post(Peer(2), b"").unwrap_err();
    assert_eq!(error.to_string(), "there is no peer 2: this world has peers 0 to 1");
    assert_eq!(take(&b).len(), 1);
}

#[test]
fn a_peer_may_send_to_itself() {
    let [a, _b] = pair();
    a.post(Peer(0), b"me").unwrap();
    assert_eq!(take(&a), [(Peer(0), b"me".to_vec())]);
}

#[test]
fn the_sink_may_send_and_a_second_taker_is_told_busy() {
    let [a, b] = pair();
    a.post(Peer(1), b"ask").unwrap();
    let mut calls = 0;
    b.progress(&mut |from, _| {
        calls += 1;
        assert_eq!(b.progress(&mut |_, _| unreachable!("a call in a call")), Progress::Busy);
        b.post(from, b"answer").unwrap();
    });
    assert_eq!(calls, 1);
    assert_eq!(take(&a), [(Peer(1), b"answer".to_vec())]);
}

#[test]
fn a_sink_that_panics_loses_its_frame_only() {
    let [a, b] = pair();
    for i in 0..PLACES {
        a.post(Peer(1), &i.to_ne_bytes()).unwrap();
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        b.progress(&mut |_, _| std::panic::resume_unwind(Box::new("a sink")));
    }));
    assert!(panicked.is_err());
    a.post(Peer(1), b"there is room for one more").unwrap();
    assert_eq!(take(&b).len() as u64, PLACES);
}

#[test]
fn a_peer_that_leaves_is_lost_after_its_last_frame() {
    let [a, b] = pair();
    a.post(Peer(1), b"last words").unwrap();
    drop(a);
    std::thread::sleep(Duration::from_millis(10));
    assert!(b.lost(Peer(0)).is_none());
    assert_eq!(take(&b).len(), 1);
    let loss = b.lost(Peer(0)).expect("it has left");
    assert!(loss.to_string().contains("has left"), "{loss}");
    assert!(matches!(b.post(Peer(0), b""), Err(NetError::Lost(_))));
}

#[test]
fn an_old_ticket_does_not_wait() {
    let [a, _b] = pair();
    let ticket = a.ticket();
    a.wake();
    a.wait(ticket, None);
}

#[test]
fn a_wait_ends_at_its_time() {
    let [a, _b] = pair();
    let until = Instant::now() + Duration::from_millis(30);
    while Instant::now() < until {
        a.wait(a.ticket(), Some(until));
    }
}

/// Several threads wait for numbers that only one of them can take from the mailbox at a time.
#[test]
fn threads_that_wait_for_each_others_frames_all_get_them() {
    const THREADS: usize = 3;
    let rounds = if cfg!(miri) { 20 } else { 3_000 };
    let [a, b] = pair();
    let stop = AtomicBool::new(false);
    let got: Vec<AtomicUsize> = (0..THREADS).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..THREADS)
            .map(|i| {
                let (a, got) = (&a, &got);
                scope.spawn(move || {
                    for round in 1..=rounds {
                        a.post(Peer(1), &[i as u8]).unwrap();
                        loop {
                            let ticket = a.ticket();
                            if got[i].load(Ordering::Acquire) == round {
                                break;
                            }
                            match a.progress(&mut |_, frame| {
                                got[frame[0] as usize].fetch_add(1, Ordering::Release);
                            }) {
                                Progress::Some => a.wake(),
                                _ => a.wait(ticket, None),
                            }
                        }
                    }
                })
            })
            .collect();
        let echo = scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                let ticket = b.ticket();
                let mut frames = Vec::new();
                if b.progress(&mut |from, frame| frames.push((from, frame.to_vec()))) == Progress::Nothing
                    && !stop.load(Ordering::Acquire)
                {
                    b.wait(ticket, None);
                }
                frames.iter().for_each(|(from, frame)| b.post(*from, frame).unwrap());
            }
        });
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        stop.store(true, Ordering::Release);
        b.wake();
        echo.join().unwrap();
    });
    assert!(got.iter().all(|got| got.load(Ordering::Acquire) == rounds));
}

#[test]
fn memory_of_one_peer_is_seen_by_the_other() {
    let [a, b] = pair();
    let heap = a.heap().unwrap();
    let block = heap.alloc(100_000, 64).unwrap();
    assert_eq!((block.offset % 4096, block.bytes), (0, 102_400));
    let mine = heap.memory().pointer(block.offset, block.bytes).unwrap();
    // SAFETY: the block is in use by this test alone.
    unsafe { mine.add(99_999).write(42) };
    let memory = b.memory(Peer(0)).unwrap();
    let theirs = memory.pointer(block.offset, block.bytes).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { theirs.add(99_999).read() }, 42);
    assert_eq!(heap.memory().find(mine, 100_000), Some(block.offset));
    assert_eq!(heap.memory().find(std::ptr::from_ref(&block).cast(), 1), None);
    assert!(memory.pointer(memory.bytes() - 1, 2).is_err() && memory.pointer(u64::MAX, 2).is_err());
    heap.free(block.offset).unwrap();
    assert!(matches!(heap.free(block.offset), Err(NetError::NotABlock { .. })));
    // SAFETY: the memory is still mapped.
    assert_eq!(unsafe { theirs.add(99_999).read() }, 0);
}

#[test]
#[cfg_attr(miri, ignore = "there are no files in memory")]
fn a_peer_is_added_in_place_of_one_that_is_gone_until_no_place_is_left() {
    let world = World::create(&[Member::default(), Member::default()]).unwrap();
    let join = |peer| SharedTransport::join(&world, peer).unwrap();
    let (me, old) = (join(Peer(0)), join(Peer(1)));
    old.post(Peer(0), b"old").unwrap();
    drop(old);
    assert!(matches!(me.post(Peer(2), b"early"), Err(NetError::NoPeer { peers: 2, .. })));
    let peer = world.add(&Member { name: "new".into(), cpus: vec![3] }).unwrap();
    assert_eq!((peer, me.peers()), (Peer(2), 3));
    // Frames wait for it, as for any peer.
    me.post(peer, b"before").unwrap();
    let new = join(peer);
    assert_eq!(me.info(peer).unwrap().name, "new");
    new.post(Peer(0), b"new").unwrap();
    assert_eq!(take(&me), [(Peer(1), b"old".to_vec()), (peer, b"new".to_vec())]);
    assert_eq!(take(&new), [(Peer(0), b"before".to_vec())]);
    assert!(me.lost(peer).is_none());
    let mut added = 0;
    let error = loop {
        match world.add(&Member::default()) {
            Ok(_) => added += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!((added, me.peers()), (59, me.places()));
    assert!(error.contains("all its 62 places have been used"), "{error}");
}

/// A world of four in which the second and the last place stay empty.
#[test]
#[cfg_attr(miri, ignore = "there are no files in memory")]
fn places_that_stay_empty_do_not_count() {
    let world = World::create(&[0; 4].map(|_| Member::default())).unwrap();
    let join = |me| SharedTransport::join_among(&world, me, &[Peer(0), Peer(2)]);
    let (a, b) = (join(Peer(0)).unwrap(), join(Peer(2)).unwrap());
    assert_eq!((a.peers(), a.info(Peer(2)).is_some(), a.info(Peer(1))), (4, true, None));
    // What another process writes there is not looked at.
    let stranger = SharedTransport::join(&world, Peer(3)).unwrap();
    stranger.post(Peer(0), b"not taken").unwrap();
    b.post(Peer(0), b"taken").unwrap();
    assert_eq!(take(&a), [(Peer(2), b"taken".to_vec())]);
    assert!(!a.is_due(a.ticket()), "what is left is of none of them");
    // A process that is added later is one of them.
    let added = world.add(&Member::default()).unwrap();
    let late = join(added).unwrap();
    late.post(Peer(0), b"late").unwrap();
    assert_eq!((added, take(&a)), (Peer(4), vec![(added, b"late".to_vec())]));
    let none = SharedTransport::join_among(&world, Peer(1), &[Peer(1), Peer(9)]);
    assert!(matches!(none, Err(NetError::NoPeer { found: Peer(9), peers: 5 })), "{none:?}");
}

#[test]
fn a_ring_ends_the_wait_of_a_peer_awake_or_asleep() {
    let [a, b] = pair();
    for asleep in [false, true] {
        let ticket = a.ticket();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if asleep && !cfg!(miri) {
                    std::thread::sleep(Duration::from_millis(30));
                }
                b.ring(Peer(0)).unwrap();
            });
            // For ever, without the ring.
            a.wait(ticket, None);
        });
    }
    assert!(matches!(b.ring(Peer(2)), Err(NetError::NoPeer { .. })));
}

#[test]
#[cfg_attr(miri, ignore = "a file in memory")]
fn a_place_of_a_world_is_taken_from_its_join_on() {
    let world = World::with_arenas(&[Member::default(), Member::default()], 2 << 20).unwrap();
    assert!(!world.is_taken(Peer(0)).unwrap() && !world.is_taken(Peer(1)).unwrap());
    let joined = SharedTransport::join(&world, Peer(1)).unwrap();
    assert!(!world.is_taken(Peer(0)).unwrap() && world.is_taken(Peer(1)).unwrap());
    drop(joined);
    assert!(world.is_taken(Peer(1)).unwrap());
    assert!(matches!(world.is_taken(Peer(2)), Err(NetError::NoPeer { .. })));
}

#[test]
#[cfg_attr(miri, ignore = "processors of the real machine")]
fn a_thread_is_kept_to_processors() {
    let all = flash_net::cpus();
    std::thread::spawn(move || {
        for cpu in &all {
            flash_net::keep_to(&[*cpu]).unwrap();
            assert_eq!(flash_net::cpus(), [*cpu]);
        }
        assert!(flash_net::keep_to(&[]).unwrap_err().to_string().contains("at least one"));
        assert!(flash_net::keep_to(&[usize::MAX]).is_err());
    })
    .join()
    .unwrap();
}
