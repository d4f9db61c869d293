//! Runs that compete for room on a device, which is too small for all of them at once. The file under test is
//! included in place. The device is a number of pieces here, which a run takes one after another, as it does
//! with buffers.

#[path = "../../../../flash-core/src/runtime/distributed/room.rs"]
mod file;
mod sync;

use crate::check;
use file::DeviceRoom;
use loom::sync::{Arc, Mutex};
use loom::thread;

struct Device {
    room: DeviceRoom,
    free: Mutex<u32>,
}

impl Device {
    fn new(free: u32) -> Arc<Device> {
        Arc::new(Device { room: DeviceRoom::default(), free: Mutex::new(free) })
    }

    /// A run that needs this many pieces, and calls `body` when it has them. False: it did not get them.
    fn run(&self, pieces: u32, body: impl FnOnce()) -> bool {
        self.room.goes();
        let has_room = loop {
            let before = self.room.before();
            let taken = (0..pieces).take_while(|_| self.take()).count() as u32;
            if taken == pieces {
                break true;
            }
            self.give(taken);
            if !self.room.wait(before) {
                break false;
            }
        };
        if has_room {
            body();
            self.give(pieces);
        }
        self.room.ends();
        has_room
    }

    fn take(&self) -> bool {
        let mut free = self.free.lock().unwrap();
        let any = *free > 0;
        *free -= u32::from(any);
        any
    }

    fn give(&self, pieces: u32) {
        *self.free.lock().unwrap() += pieces;
    }
}

/// Runs at the same time, each with a number of pieces. Returns which of them got theirs.
fn together<const N: usize>(free: u32, pieces: [u32; N]) -> [bool; N] {
    let device = Device::new(free);
    let others: Vec<_> = pieces[1..]
        .iter()
        .map(|&pieces| {
            let device = device.clone();
            thread::spawn(move || device.run(pieces, || ()))
        })
        .collect();
    let mine = device.run(pieces[0], || ());
    let mut others = others.into_iter().map(|other| other.join().unwrap());
    let got = std::array::from_fn(|i| if i == 0 { mine } else { others.next().unwrap() });
    assert_eq!(*device.free.lock().unwrap(), free);
    got
}

#[test]
fn two_that_fit_one_at_a_time_both_run() {
    check(3, || assert_eq!(together(2, [2, 2]), [true, true]));
}

#[test]
fn three_that_fit_one_at_a_time_all_run() {
    check(2, || assert_eq!(together(2, [2, 2, 2]), [true, true, true]));
}

#[test]
fn one_that_never_fits_hears_of_it_whoever_else_runs() {
    check(3, || assert_eq!(together(2, [3, 2]), [false, true]));
}

#[test]
fn two_that_never_fit_both_hear_of_it() {
    check(3, || assert_eq!(together(2, [3, 3]), [false, false]));
}

/// A function of the host may wait for another run, which must not wait for its run in turn.
#[test]
fn nobody_waits_for_a_run_that_is_in_a_function_of_the_host() {
    check(3, || {
        let device = Device::new(2);
        let other = device.clone();
        let got = device.run(2, || {
            device.room.is_away();
            let inside = thread::spawn(move || other.run(1, || ()));
            assert!(!inside.join().unwrap());
            device.room.goes();
        });
        assert!(got);
    });
}
