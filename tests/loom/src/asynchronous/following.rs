//! Pipelines that are given to a device before their turn, as `asynchronous/follow.rs` and `landing.rs` do.

use super::outcome::Outcome;
use super::table::{Order, Start, Ticket, Touch};
use super::wait;
use crate::check;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::collections::VecDeque;
use std::ops::Range;

const NUMBER: usize = 7;

/// A device that runs what it is given, one launch after another, and a memory.
struct Device {
    order: Order<Range<u64>>,
    /// Places in the order, numbers, and whether they follow others.
    queue: Mutex<VecDeque<(Ticket, u64, bool)>>,
    given: Condvar,
    contents: UnsafeCell<u64>,
}

// SAFETY: loom checks how the contents are shared.
unsafe impl Sync for Device {}
// SAFETY: as above.
unsafe impl Send for Device {}

/// A pipeline of a device; `is_over`: it has run there, and ends in its turn.
struct Pipeline {
    device: Arc<Device>,
    number: u64,
    is_over: bool,
}

impl Pipeline {
    fn give(&self, ticket: Ticket, follows: bool) {
        self.device.queue.lock().unwrap().push_back((ticket, self.number, follows));
        self.device.given.notify_one();
        self.device.order.is_there(ticket, NUMBER);
    }
}

impl Start for Pipeline {
    fn start(self: Box<Self>, ticket: Ticket) {
        if self.is_over { self.device.order.leave(ticket) } else { self.give(ticket, false) }
    }

    fn follow(self: Box<Self>, ticket: Ticket) {
        self.give(ticket, true);
    }
}

impl Device {
    fn new() -> Arc<Device> {
        Arc::new(Device {
            order: Order::default(),
            queue: Mutex::new(VecDeque::new()),
            given: Condvar::new(),
            contents: UnsafeCell::new(0),
        })
    }

    fn contents(&self) -> u64 {
        // SAFETY: loom checks this access.
        self.contents.with(|contents| unsafe { *contents })
    }

    fn add(&self, number: u64) {
        // SAFETY: loom checks this access.
        self.contents.with_mut(|contents| unsafe { *contents = *contents * 3 + number });
    }

    /// Runs and ends this many launches.
    fn work(device: &Arc<Device>, launches: usize) {
        for _ in 0..launches {
            let mut queue = device.queue.lock().unwrap();
            let (ticket, number, follows) = loop {
                match queue.pop_front() {
                    Some(launch) => break launch,
                    None => queue = device.given.wait(queue).unwrap(),
                }
            };
            drop(queue);
            device.add(number);
            match follows {
                true => {
                    let ends = Pipeline { device: device.clone(), number, is_over: true };
                    device.order.ready(ticket, Box::new(ends));
                }
                false => device.order.leave(ticket),
            }
        }
    }

    /// A pipeline that writes the memory, on the device.
    fn exec_async(device: &Arc<Device>, number: u64) {
        let touch = Touch { memory: 0, touched: 0..1, written: Some(0..1) };
        let ticket = device.order.line_up_for(Some(NUMBER), &[touch], []);
        device.order.ready(ticket, Box::new(Pipeline { device: device.clone(), number, is_over: false }));
    }

    /// A pipeline of the host that does.
    fn exec_on_host(device: &Arc<Device>, number: u64) -> Arc<Outcome<()>> {
        let touch = Touch { memory: 0, touched: 0..1, written: Some(0..1) };
        let ticket = device.order.line_up(&[touch], []);
        let outcome = Arc::new(Outcome::new());
        let (mine, done) = (device.clone(), outcome.clone());
        let start = move |ticket: Ticket| {
            mine.add(number);
            done.set_before((), || mine.order.leave(ticket));
        };
        device.order.ready(ticket, Box::new(start));
        outcome
    }
}

/// The contents after pipelines with these numbers.
fn after(numbers: [u64; 4]) -> u64 {
    numbers.into_iter().fold(0, |contents, number| contents * 3 + number)
}

/// What comes after a pipeline is given to the device, or waits for its turn, as the device ends that one.
#[test]
fn pipelines_that_follow_on_a_device_end_one_after_another() {
    check(2, || {
        let device = Device::new();
        let works = device.clone();
        let thread = thread::spawn(move || Device::work(&works, 3));
        Device::exec_async(&device, 1);
        Device::exec_async(&device, 2);
        let on_host = Device::exec_on_host(&device, 3);
        Device::exec_async(&device, 4);
        wait(&on_host);
        thread.join().unwrap();
        assert_eq!(device.contents(), after([1, 2, 3, 4]));
    });
}

#[test]
fn pipelines_of_two_threads_follow_on_a_device_in_some_order() {
    check(2, || {
        let device = Device::new();
        let [works, other] = [(); 2].map(|()| device.clone());
        let thread = thread::spawn(move || Device::work(&works, 3));
        let starter = thread::spawn(move || Device::exec_async(&other, 7));
        Device::exec_async(&device, 1);
        let on_host = Device::exec_on_host(&device, 2);
        Device::exec_async(&device, 3);
        wait(&on_host);
        starter.join().unwrap();
        thread.join().unwrap();
        let possible = [[7, 1, 2, 3], [1, 7, 2, 3], [1, 2, 7, 3], [1, 2, 3, 7]].map(after);
        assert!(possible.contains(&device.contents()), "{}", device.contents());
    });
}
