//! A value that is made at its first use.

use crate::failure::Failure;
use std::sync::{Mutex, OnceLock};

/// A value that the first thread that asks for it makes, while others wait. After a failure it is tried
/// again.
#[derive(Debug)]
pub struct Once<T> {
    value: OnceLock<T>,
    /// Held by the thread that makes it.
    making: Mutex<()>,
}

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once { value: OnceLock::new(), making: Mutex::new(()) }
    }
}

impl<T> Once<T> {
    /// The value, if it was made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value.
    ///
    /// # Errors
    /// Those of `make`, if it cannot be made now.
    #[inline]
    pub fn get_or_make(&self, make: impl FnOnce() -> Result<T, Failure>) -> Result<&T, Failure> {
        match self.value.get() {
            Some(value) => Ok(value),
            None => self.make(make),
        }
    }

    #[cold]
    fn make(&self, make: impl FnOnce() -> Result<T, Failure>) -> Result<&T, Failure> {
        let _alone = self.making.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let made = make()?;
        Ok(self.value.get_or_init(|| made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_types::Code;

    #[test]
    fn a_failure_is_not_kept_and_a_value_is() {
        let once = Once::default();
        assert!(
            once.get_or_make(|| Err(Failure::new(Code::Other, "not now"))).is_err() && once.get().is_none()
        );
        assert_eq!(*once.get_or_make(|| Ok(1)).unwrap(), 1);
        assert_eq!(*once.get_or_make(|| Ok(2)).unwrap(), 1);
    }
}
