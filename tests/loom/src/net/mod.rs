//! The transport in shared memory: a mailbox, its doorbell, and the threads of the receiver. The files under
//! test are included in place, beside a `sync` that takes its names from loom.

#[path = "../../../../flash-net/src/doorbell.rs"]
mod doorbell;
#[path = "../../../../flash-net/src/mailbox.rs"]
#[allow(dead_code, reason = "the models send no signs of life")]
mod mailbox;
mod sync;
#[path = "../../../../flash-net/src/waiters.rs"]
mod waiters;

use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use sync::{AtomicU32, AtomicU64};

use crate::check;
use doorbell::Doorbell;
use mailbox::{Buffer, Kind, LINE, Refusal, Ring, Sender, lines_of};
use waiters::Waiters;

/// One receiver, one sender, and a mailbox of two lines.
struct Pair {
    lines: Vec<AtomicU64>,
    released: AtomicU64,
    wanted: AtomicU64,
    /// The sender's bell.
    room: [AtomicU32; 2],
    count: AtomicU32,
    sleeping: AtomicU32,
    /// The receiver's private memory.
    read: AtomicU64,
    waiters: Waiters<Box<Buffer>>,
}

impl Pair {
    fn new() -> Arc<Pair> {
        Arc::new(Pair {
            lines: (0..2 * LINE).map(|_| AtomicU64::new(0)).collect(),
            released: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            room: [AtomicU32::new(0), AtomicU32::new(0)],
            count: AtomicU32::new(0),
            sleeping: AtomicU32::new(0),
            read: AtomicU64::new(0),
            waiters: Waiters::new(Box::new([[0; 8]; _])),
        })
    }

    fn ring(&self) -> Ring<'_> {
        Ring::new(&self.lines, &self.released, &self.wanted)
    }

    fn bell(&self) -> Doorbell<'_> {
        Doorbell { count: &self.count, sleeping: &self.sleeping }
    }

    fn room(&self) -> Doorbell<'_> {
        Doorbell { count: &self.room[0], sleeping: &self.room[1] }
    }

    /// Sends a frame, as soon as there is room.
    fn post(&self, sender: &mut Sender, frame: &[u8]) {
        loop {
            let seen = self.room().announce();
            match sender.post(self.ring(), Kind::Data, &[frame]) {
                Ok(()) => break,
                Err(refusal) => assert_eq!(refusal, Refusal::Full),
            }
            self.room().sleep(seen, None);
        }
        self.bell().ring();
    }

    fn has_frames(&self) -> bool {
        self.ring().look(self.read.load(Relaxed)).unwrap().is_some()
    }

    /// Takes the frames that are there; says how many, or `None` if another thread does.
    fn progress(&self, mut sink: impl FnMut(&[u8])) -> Option<usize> {
        self.waiters.turn(
            self.bell(),
            || self.has_frames(),
            |buffer| {
                let mut frames = 0;
                while let Some((_, length)) = self.ring().look(self.read.load(Relaxed)).unwrap() {
                    let at = self.read.load(Relaxed);
                    self.ring().copy(at, length, buffer);
                    self.read.store(at + lines_of(length), Relaxed);
                    if self.ring().release(at + lines_of(length)) {
                        self.room().ring_always();
                    }
                    sink(&buffer.as_flattened()[..length]);
                    frames += 1;
                }
                frames
            },
        )
    }

    /// Takes frames and waits, as users of the transport do, until `is_done`.
    fn wait_for(&self, is_done: impl Fn() -> bool, mut sink: impl FnMut(&[u8])) {
        loop {
            let ticket = self.waiters.ticket(self.bell());
            if is_done() {
                return;
            }
            match self.progress(&mut sink) {
                Some(1..) => self.waiters.wake(self.bell()),
                // Time for the thread that takes frames, which on a real processor passes by itself.
                _ => {
                    thread::yield_now();
                    self.waiters.sleep(self.bell(), ticket, None, || self.has_frames());
                }
            }
        }
    }
}

#[test]
fn frames_arrive_whole_and_in_order_though_the_mailbox_is_full_at_times() {
    check(3, || {
        let pair = Pair::new();
        let sender = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let mut sender = Sender::default();
                for number in 1..=3_u8 {
                    pair.post(&mut sender, &[number]);
                }
            })
        };
        let mut next = 1;
        while next <= 3 {
            let taken = pair.progress(|frame| {
                assert_eq!(frame, [next]);
                next += 1;
            });
            if taken == Some(0) {
                thread::yield_now();
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_frame_of_two_lines_is_seen_with_both() {
    check(3, || {
        let pair = Pair::new();
        let sender = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let mut sender = Sender::default();
                pair.post(&mut sender, &[1; 60]);
                pair.post(&mut sender, &[2; 58]);
            })
        };
        let mut frames = Vec::new();
        while frames.len() < 2 {
            if pair.progress(|frame| frames.push(frame.to_vec())) == Some(0) {
                thread::yield_now();
            }
        }
        assert_eq!(frames, [vec![1; 60], vec![2; 58]]);
        sender.join().unwrap();
    });
}

#[test]
fn a_receiver_that_falls_asleep_is_woken_by_each_frame() {
    check(3, || {
        let pair = Pair::new();
        let sender = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let mut sender = Sender::default();
                pair.post(&mut sender, &[1]);
                pair.post(&mut sender, &[2]);
            })
        };
        let sum = AtomicU32::new(0);
        pair.wait_for(
            || sum.load(Relaxed) == 3,
            |frame| {
                sum.fetch_add(frame[0].into(), Relaxed);
            },
        );
        sender.join().unwrap();
    });
}

/// Each thread may take the frame of the other one.
#[test]
fn two_threads_that_wait_for_a_frame_each_both_get_it() {
    check(2, || {
        let pair = Pair::new();
        let came = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let wait_for = |mine: usize| {
            let (pair, came) = (Arc::clone(&pair), Arc::clone(&came));
            move || {
                pair.wait_for(
                    || came[mine].load(Acquire) == 1,
                    |frame| came[frame[0] as usize].store(1, Release),
                );
            }
        };
        let other = thread::spawn(wait_for(1));
        let sender = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let mut sender = Sender::default();
                pair.post(&mut sender, &[0]);
                pair.post(&mut sender, &[1]);
            })
        };
        wait_for(0)();
        other.join().unwrap();
        sender.join().unwrap();
    });
}

/// A thread looks once, finds nothing and goes; the frame comes meanwhile, while another one that waits does
/// not look since the first does.
#[test]
fn a_thread_that_goes_hands_over_to_one_that_sleeps() {
    check(3, || {
        let pair = Pair::new();
        let came = Arc::new(AtomicU32::new(0));
        let passer = {
            let (pair, came) = (Arc::clone(&pair), Arc::clone(&came));
            thread::spawn(move || {
                if pair.progress(|_| came.store(1, Release)) == Some(1) {
                    pair.waiters.wake(pair.bell());
                }
            })
        };
        let sender = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || pair.post(&mut Sender::default(), &[0]))
        };
        pair.wait_for(|| came.load(Acquire) == 1, |_| came.store(1, Release));
        passer.join().unwrap();
        sender.join().unwrap();
    });
}

#[test]
fn a_wake_by_another_thread_ends_a_wait_whenever_it_comes() {
    check(3, || {
        let pair = Pair::new();
        let done = Arc::new(AtomicU32::new(0));
        let other = {
            let (pair, done) = (Arc::clone(&pair), Arc::clone(&done));
            thread::spawn(move || {
                done.store(1, Release);
                pair.waiters.wake(pair.bell());
            })
        };
        pair.wait_for(|| done.load(Acquire) == 1, |_| unreachable!("no frames"));
        other.join().unwrap();
    });
}

/// As when a peer joins: only the count of the bell says so.
#[test]
fn a_ring_ends_a_wait_whenever_it_comes() {
    check(3, || {
        let pair = Pair::new();
        let done = Arc::new(AtomicU32::new(0));
        let other = {
            let (pair, done) = (Arc::clone(&pair), Arc::clone(&done));
            thread::spawn(move || {
                done.store(1, Release);
                pair.bell().ring_always();
            })
        };
        pair.wait_for(|| done.load(Acquire) == 1, |_| unreachable!("no frames"));
        other.join().unwrap();
    });
}
