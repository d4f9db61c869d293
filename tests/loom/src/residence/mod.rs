//! The residence of an array: published under a lock, read without it. The file under test is included in
//! place, beside a `sync` that takes its names from loom.

#[path = "../../../../flash-core/src/memory/residence/published.rs"]
mod published;
mod sync;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::check;
use published::Published;

/// The buffers that a residence names. A buffer is only written when nothing reads it.
struct Array {
    home: Published<u32>,
    lock: Mutex<()>,
    buffers: [UnsafeCell<u32>; 2],
}

// SAFETY: loom checks how the buffers are shared.
unsafe impl Sync for Array {}
// SAFETY: as above.
unsafe impl Send for Array {}

impl Array {
    /// Resident in its first buffer.
    fn new() -> Arc<Array> {
        let array = Array {
            home: Published::default(),
            lock: Mutex::new(()),
            buffers: [UnsafeCell::new(7), UnsafeCell::new(0)],
        };
        array.home.set(Some(0));
        Arc::new(array)
    }

    /// A launch that shares the hold.
    fn reads(&self) {
        if let Some(&at) = self.home.share() {
            // SAFETY: loom checks this access.
            self.buffers[at as usize].with(|buffer| assert_eq!(unsafe { *buffer }, 7));
            self.home.end();
        }
    }

    /// The same, by a reader that knows the number of the value that it saw before.
    fn reads_again(&self, number: u64) {
        if let Some(&at) = self.home.share_if(|now| now == number) {
            assert_eq!(at, 0);
            // SAFETY: loom checks this access.
            self.buffers[0].with(|buffer| assert_eq!(unsafe { *buffer }, 7));
            self.home.end();
        }
    }

    /// Another holder replaces the copy by another.
    fn moves(&self) {
        let _lock = self.lock.lock();
        // SAFETY: loom checks this access.
        self.buffers[1].with_mut(|buffer| unsafe { *buffer = 7 });
        self.home.leave();
        // SAFETY: loom checks this access.
        self.buffers[0].with_mut(|buffer| unsafe { *buffer = 0 });
        self.home.set(Some(1));
    }
}

#[test]
fn who_uses_a_home_has_its_buffer_until_it_ends() {
    check(3, || {
        let array = Array::new();
        let number = array.home.number();
        let readers = [false, true].map(|again| {
            let array = Arc::clone(&array);
            thread::spawn(move || if again { array.reads_again(number) } else { array.reads() })
        });
        array.moves();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!(array.home.alone(), Some(&1));
    });
}

#[test]
fn who_says_another_home_waits_for_nobody_and_disturbs_nobody() {
    check(3, || {
        let array = Array::new();
        let reader = {
            let array = Arc::clone(&array);
            thread::spawn(move || array.reads())
        };
        {
            let _lock = array.lock.lock();
            // SAFETY: loom checks this access. The first buffer stays: it is current, too.
            array.buffers[1].with_mut(|buffer| unsafe { *buffer = 7 });
            array.home.set(Some(1));
        }
        // From now on a thread that takes the first buffer waits, even if no residence was published.
        {
            let _lock = array.lock.lock();
            array.home.leave();
            // SAFETY: loom checks this access.
            array.buffers[0].with_mut(|buffer| unsafe { *buffer = 0 });
            array.home.set(Some(1));
        }
        reader.join().unwrap();
        assert_eq!(array.home.alone(), Some(&1));
    });
}

#[test]
fn what_is_said_again_disturbs_nobody() {
    check(3, || {
        let array = Array::new();
        let reader = {
            let array = Arc::clone(&array);
            thread::spawn(move || array.reads())
        };
        array.home.set(Some(0));
        assert!(array.home.is_some());
        reader.join().unwrap();
        array.home.set(None);
        assert_eq!(array.home.share(), None);
    });
}
