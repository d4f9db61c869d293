//! Numbers that follow from a seed, and faults at random moments.

use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// splitmix64.
pub struct Random(u64);

impl Random {
    /// Numbers that follow from this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below this one.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// True with a probability of 1 / `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// What a fault says, as a panic or an error.
pub const FAULT: &str = "a fault of the soak";

/// A fault after a number of looks, or none.
pub struct Fault {
    left: AtomicI64,
    panics: bool,
}

impl Fault {
    /// No fault.
    pub fn none() -> Fault {
        Fault { left: AtomicI64::new(i64::MAX), panics: false }
    }

    /// A panic or an error at one of the first `looks` looks.
    pub fn within(random: &mut Random, looks: u64) -> Fault {
        without_messages();
        Fault { left: AtomicI64::new(random.below(looks) as i64), panics: random.once_in(2) }
    }

    /// The moment at which it may come.
    ///
    /// # Errors
    /// If it is an error, and comes.
    ///
    /// # Panics
    /// If it is a panic, and comes.
    pub fn look(&self) -> Result<(), &'static str> {
        match self.left.fetch_sub(1, Relaxed) {
            0 if self.panics => panic!("{FAULT}"),
            0 => Err(FAULT),
            _ => Ok(()),
        }
    }

    /// Whether it has come.
    pub fn has_come(&self) -> bool {
        self.left.load(Relaxed) < 0
    }
}

/// Lets panics that are meant print nothing.
pub fn without_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if info.payload_as_str().is_none_or(|text| text != FAULT) {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_comes_once_within_its_looks() {
        for seed in 0..50 {
            let fault = Fault::within(&mut Random::new(seed), 10);
            let look =
                || panic::catch_unwind(panic::AssertUnwindSafe(|| fault.look().is_err())).unwrap_or(true);
            assert_eq!((0..20).filter(|_| look()).count(), 1, "seed {seed}");
            assert!(fault.has_come());
        }
        assert!((0..100).all(|_| Fault::none().look().is_ok()));
    }
}
