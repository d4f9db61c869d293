//! The home of an array: said under a lock, looked at without it. The file under test is included where it is,
//! beside a `sync` that takes its names from loom.

#[path = "../../../../flash-core/src/memory/residence/published.rs"]
mod published;
mod sync;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::check;
use published::Published;

/// What a home leads to: a buffer, which is only written when nobody looks at it.
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
    /// At home in its first buffer.
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
            // SAFETY: what is checked.
            self.buffers[at as usize].with(|buffer| assert_eq!(unsafe { *buffer }, 7));
            self.home.end();
        }
    }

    /// The same, by one who looked before and knows the number of what it saw.
    fn reads_again(&self, number: u64) {
        if let Some(&at) = self.home.share_if(|now| now == number) {
            assert_eq!(at, 0);
            // SAFETY: what is checked.
            self.buffers[0].with(|buffer| assert_eq!(unsafe { *buffer }, 7));
            self.home.end();
        }
    }

    /// One who shares the hold, too, replaces the copy by another.
    fn moves(&self) {
        let _lock = self.lock.lock();
        // SAFETY: what is checked.
        self.buffers[1].with_mut(|buffer| unsafe { *buffer = 7 });
        self.home.leave();
        // SAFETY: what is checked.
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
            // SAFETY: what is checked. The first buffer stays: it is current, too.
            array.buffers[1].with_mut(|buffer| unsafe { *buffer = 7 });
            array.home.set(Some(1));
        }
        // Now one who takes the first buffer away waits, even if no home was said.
        {
            let _lock = array.lock.lock();
            array.home.leave();
            // SAFETY: what is checked.
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
