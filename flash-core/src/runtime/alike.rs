//! Launches that come again, and have a number for that ([`Submission::like`]).
//!
//! A launch has one if the last launch in its place was the same, but for what is in its arrays. Who keeps an
//! [`Alike`] for a place sees to it that all but the scalars is the same, or [begins anew](Alike::begins).
//!
//! [`Submission::like`]: flash_types::abi::Submission::like

use flash_types::abi::Arg;
use smallvec::SmallVec;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of the launches in one place whose scalars are the same.
#[derive(Default)]
pub(super) struct Alike {
    /// There was one.
    begun: bool,
    number: u64,
    scalars: Vec<u8>,
}

impl Alike {
    /// Something else than scalars is not the same.
    pub fn begins(&mut self) {
        self.begun = false;
    }

    /// The number for a launch with these scalars, which are a recording's; 0: the last was another one.
    #[inline]
    pub fn number<'a>(&mut self, scalars: impl Iterator<Item = &'a Arg>) -> u64 {
        let (mut at, mut is_same) = (0, self.begun);
        for scalar in scalars {
            // SAFETY: a scalar of a recording, which has that many bytes.
            let bytes =
                unsafe { std::slice::from_raw_parts(scalar.data.cast::<u8>(), scalar.element_size as usize) };
            if self.scalars.get(at..at + bytes.len()) != Some(bytes) {
                is_same = false;
                self.scalars.truncate(at);
                self.scalars.extend_from_slice(bytes);
            }
            at += bytes.len();
        }
        self.begun = true;
        if !is_same {
            self.number = 0;
        } else if self.number == 0 {
            self.number = new_number();
        }
        self.number
    }
}

/// A number that no other launch has had: also of none that another copy of this library gives to the
/// backends of this process, which is at another address. Numbers below 2^63 are given.
fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let copy = (std::ptr::from_ref(&NEXT).addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 41;
    copy << 40 | NEXT.fetch_add(1, Relaxed) & ((1 << 40) - 1)
}

/// The same for a submission of a recording, whose arrays may be elsewhere the next time.
#[derive(Default)]
pub(super) struct AlikeOnDevice(Mutex<(SmallVec<[u64; 4]>, Alike)>);

impl AlikeOnDevice {
    /// The number for a launch with these scalars, of arrays with these numbers of their residences.
    #[inline]
    pub fn number<'a>(&self, homes: &[u64], scalars: impl Iterator<Item = &'a Arg>) -> u64 {
        // If another thread runs the same recording, this one does without.
        let Ok(mut known) = self.0.try_lock() else { return 0 };
        let (before, alike) = &mut *known;
        if before[..] != *homes {
            *before = SmallVec::from_slice(homes);
            alike.begins();
        }
        alike.number(scalars)
    }

    /// The submission is another one.
    pub fn clear(&mut self) {
        self.0.get_mut().unwrap_or_else(|e| e.into_inner()).1.begins();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_has_a_number_if_the_last_one_was_the_same() {
        let scalar = |value: &u64| Arg {
            data: std::ptr::from_ref(value).cast_mut().cast(),
            element_size: 8,
            // SAFETY: zeros are valid.
            ..unsafe { std::mem::zeroed() }
        };
        let alike = AlikeOnDevice::default();
        let number = |homes: &[u64], values: [u64; 2]| {
            let scalars = values.each_ref().map(scalar);
            alike.number(homes, scalars.iter())
        };
        assert_eq!(number(&[1, 2], [7, 8]), 0);
        let first = number(&[1, 2], [7, 8]);
        assert!(first != 0 && number(&[1, 2], [7, 8]) == first);
        assert_eq!(number(&[1, 2], [7, 9]), 0);
        let second = number(&[1, 2], [7, 9]);
        assert!(second != 0 && second != first);
        assert_eq!((number(&[1, 3], [7, 9]), number(&[1, 2], [7, 9])), (0, 0));
        let third = number(&[1, 2], [7, 9]);
        assert!(third != 0 && third != second);
        let mut alike = alike;
        alike.clear();
        assert_eq!(alike.number(&[1, 2], [7, 9].each_ref().map(scalar).iter()), 0);
    }
}
