//! A memory's directory under concurrent use: readers that book, copy and compute, others that replace or
//! remove a device's copy meanwhile, writers, and evictions. The bookings and the word are the files under
//! test, included in place. Their use is a small version of `distributed/shared_read.rs`.

#[path = "../../../../flash-core/src/memory/incoming.rs"]
#[allow(dead_code, reason = "a memory of one element needs no regions")]
mod incoming;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread;

use crate::check;
use crate::memory::word::State;
use incoming::IncomingCopies;

/// Deliberate faults, which the model must find.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// A reader marks a copy as arrived before it is made.
    SaysTooEarly,
    /// A reader computes with a buffer without pinning it.
    KeepsNothing,
    /// A device's copy is removed while another copy to it is in flight.
    TakesWhatComes,
    /// A copy that another reader has booked is made a second time.
    CopiesTwice,
    /// A copy is evicted while the memory is held.
    EvictsWhatIsHeld,
}

/// Buffers of the devices, and the host's. A new one each time, so that errors show.
const BUFFERS: usize = 4;

/// A memory of one element, and the contents of all its buffers.
struct Memory {
    state: State,
    books: Mutex<Books>,
    /// In place of the lanes, which announce completion.
    changed: Condvar,
    host: UnsafeCell<u32>,
    buffers: [UnsafeCell<u32>; BUFFERS],
    copies: AtomicU32,
    fault: Fault,
}

// SAFETY: loom checks how the contents are shared.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

struct Books {
    arrivals: IncomingCopies<u8, ()>,
    sites: [Option<Site>; 2],
    next: usize,
}

/// The state of a device.
struct Site {
    buffer: std::sync::Arc<Buffer>,
    current: bool,
}

/// A reference to it pins it. The count is loom's, the address std's.
struct Buffer {
    number: usize,
    keepers: Arc<()>,
}

/// A pin of a buffer.
struct Pin {
    number: usize,
    _keeps: Option<Arc<()>>,
}

impl Site {
    fn pin(&self, fault: Fault) -> Pin {
        let keeps = (fault != Fault::KeepsNothing).then(|| self.buffer.keepers.clone());
        Pin { number: self.buffer.number, _keeps: keeps }
    }
}

impl Memory {
    fn new(fault: Fault) -> Arc<Memory> {
        Arc::new(Memory {
            state: State::new(),
            books: Mutex::new(Books { arrivals: IncomingCopies::default(), sites: [None, None], next: 0 }),
            changed: Condvar::new(),
            host: UnsafeCell::new(7),
            buffers: [(); BUFFERS].map(|()| UnsafeCell::new(0)),
            copies: AtomicU32::new(0),
            fault,
        })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    fn get(&self) -> u32 {
        // SAFETY: loom checks this access.
        self.host.with(|host| unsafe { *host })
    }

    fn at(&self, pin: &Pin) -> u32 {
        // SAFETY: loom checks this access.
        self.buffers[pin.number].with(|buffer| unsafe { *buffer })
    }

    fn put(&self, number: usize, value: u32) {
        // SAFETY: loom checks this access.
        self.buffers[number].with_mut(|buffer| unsafe { *buffer = value });
    }

    fn new_site(books: &mut Books) -> Site {
        books.next += 1;
        Site {
            buffer: std::sync::Arc::new(Buffer { number: books.next - 1, keepers: Arc::new(()) }),
            current: false,
        }
    }

    /// A launch that reads on a device.
    fn reads(&self, device: u8) {
        self.state.launch_read().unwrap();
        let reader = self.books().arrivals.enter();
        let pin = self.bring(reader, device);
        assert_eq!(self.at(&pin), self.get(), "what a kernel reads is what the host has");
        drop(pin);
        self.books().arrivals.leave(reader);
        self.changed.notify_all();
        self.state.release_read();
    }

    fn bring(&self, reader: u32, device: u8) -> Pin {
        let mut books = self.books();
        loop {
            if books.sites[usize::from(device)].is_none() {
                books.sites[usize::from(device)] = Some(Memory::new_site(&mut books));
            }
            let site = books.sites[usize::from(device)].as_mut().unwrap();
            let pin = site.pin(self.fault);
            if site.current {
                return pin;
            }
            if books.arrivals.of_others(reader, device).next().is_some() && self.fault != Fault::CopiesTwice {
                books = self.changed.wait(books).unwrap();
                continue;
            }
            let ticket = books.arrivals.book(reader, device, ());
            if self.fault == Fault::SaysTooEarly {
                books.sites[usize::from(device)].as_mut().unwrap().current = true;
            }
            drop(books);
            self.put(pin.number, self.get());
            self.copies.fetch_add(1, Relaxed);
            let mut books = self.books();
            if books.arrivals.arrived(ticket).is_some()
                && let Some(site) = &mut books.sites[usize::from(device)]
            {
                site.current = true;
            }
            drop(books);
            self.changed.notify_all();
            return pin;
        }
    }

    /// Waits until no copy to a device is in flight, and removes its copy from the directory.
    fn take(&self, device: u8) -> Option<Site> {
        let mut books = self.books();
        while books.arrivals.any(device) && self.fault != Fault::TakesWhatComes {
            books = self.changed.wait(books).unwrap();
        }
        books.sites[usize::from(device)].take()
    }

    /// A holder among several that needs the room: when it returns the buffer has another owner.
    fn spills(&self, device: u8) {
        self.state.launch_read().unwrap();
        if let Some(site) = self.take(device) {
            let Buffer { number, mut keepers } = std::sync::Arc::into_inner(site.buffer).unwrap();
            let mut books = self.books();
            while Arc::get_mut(&mut keepers).is_none() {
                books = self.changed.wait(books).unwrap();
            }
            drop(books);
            self.put(number, 1000);
        }
        self.state.release_read();
    }

    /// A launch that writes, on the host, as the only holder.
    fn writes(&self) {
        self.state.launch_write().unwrap();
        // SAFETY: loom checks this access.
        self.host.with_mut(|host| unsafe { *host += 1 });
        self.books().sites.iter_mut().flatten().for_each(|site| site.current = false);
        self.state.release_write(true);
    }

    /// Takes a copy that is not held, to make room for other data.
    fn evicts(&self, device: u8) {
        let held = !self.state.try_evict();
        if held && self.fault != Fault::EvictsWhatIsHeld {
            return;
        }
        let gone = self.books().sites[usize::from(device)].take();
        if let Some(site) = gone {
            self.put(site.buffer.number, 2000);
        }
        if !held {
            self.state.end_evict(true);
        }
    }
}

/// Runs these at the same time, on one memory. Returns the number of copies.
fn together(fault: Fault, parts: &[fn(&Memory)]) -> u32 {
    let memory = Memory::new(fault);
    let threads: Vec<_> = parts[1..]
        .iter()
        .map(|part| {
            let (memory, part) = (Arc::clone(&memory), *part);
            thread::spawn(move || part(&memory))
        })
        .collect();
    parts[0](&memory);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    memory.copies.load(Relaxed)
}

fn two_readers(fault: Fault) {
    check(3, move || {
        let copies = together(fault, &[|m| m.reads(0), |m| m.reads(0)]);
        assert_eq!(copies, 1, "what one brings the other does not bring");
    });
}

fn readers_and_a_spill(fault: Fault) {
    check(2, move || {
        together(fault, &[|m| m.reads(0), |m| m.spills(0), |m| m.reads(0)]);
    });
}

fn a_reader_and_an_eviction(fault: Fault) {
    check(3, move || {
        together(fault, &[|m| m.reads(0), |m| m.evicts(0)]);
    });
}

#[test]
fn readers_on_one_device_share_a_copy() {
    two_readers(Fault::None);
}

#[test]
fn readers_on_two_devices_do_not_meet() {
    check(3, || {
        assert_eq!(together(Fault::None, &[|m| m.reads(0), |m| m.reads(1)]), 2);
    });
}

#[test]
fn who_reads_keeps_its_buffer_when_another_takes_the_copy_away() {
    readers_and_a_spill(Fault::None);
}

#[test]
fn readers_see_all_of_a_write_or_nothing() {
    check(2, || {
        together(Fault::None, &[|m| m.reads(0), |m| m.writes(), |m| m.reads(0)]);
    });
}

#[test]
fn what_is_held_is_not_evicted() {
    a_reader_and_an_eviction(Fault::None);
}

#[test]
fn a_reader_a_writer_and_an_eviction() {
    check(2, || {
        together(Fault::None, &[|m| m.reads(0), |m| m.writes(), |m| m.evicts(0)]);
    });
}

#[test]
#[should_panic]
fn a_copy_that_is_said_too_early_is_found() {
    two_readers(Fault::SaysTooEarly);
}

#[test]
#[should_panic]
fn a_copy_that_is_made_twice_is_found() {
    two_readers(Fault::CopiesTwice);
}

#[test]
#[should_panic]
fn a_buffer_that_nobody_keeps_is_found() {
    readers_and_a_spill(Fault::KeepsNothing);
}

#[test]
#[should_panic]
fn a_copy_that_is_taken_while_it_comes_is_found() {
    readers_and_a_spill(Fault::TakesWhatComes);
}

#[test]
#[should_panic]
fn an_eviction_of_what_is_held_is_found() {
    a_reader_and_an_eviction(Fault::EvictsWhatIsHeld);
}
