//! Host access to a memory.

use super::ArrayInner;
use crate::error::Error;
use crate::kernel::{Element, shim};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

/// Shared access of the host, to all of a memory or a part. Any number may be alive; launches that write some
/// of that fail meanwhile.
#[must_use]
pub struct ReadGuard<'a, T> {
    header: &'a ArrayInner,
    range: Range<usize>,
    element: PhantomData<&'a [T]>,
}

/// Exclusive access of the host. Launches that use the memory fail meanwhile.
#[must_use]
pub struct WriteGuard<'a, T> {
    header: &'a ArrayInner,
    element: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element> ReadGuard<'a, T> {
    pub(super) fn new(header: &'a ArrayInner, range: Range<usize>) -> Result<Self, Error> {
        if shim::in_kernel() {
            return Err(Error::Nested);
        }
        let all = range == (0..header.len());
        header.relieve();
        let tracked = if all { header.state.guard_read()? } else { header.guard_part(elements(&range))? };
        let guard = ReadGuard { header, range, element: PhantomData };
        if tracked {
            header.host_reads(elements(&guard.range))?;
        }
        Ok(guard)
    }
}

fn elements(range: &Range<usize>) -> Range<u64> {
    range.start as u64..range.end as u64
}

#[cfg(feature = "recordings")]
/// Shared access to the bytes of a memory whose element type is not known here.
pub(crate) struct ByteGuard<'a> {
    /// A guard of the elements, whatever their type.
    guard: ReadGuard<'a, u8>,
    bytes: usize,
}

#[cfg(feature = "recordings")]
impl<'a> ByteGuard<'a> {
    /// A guard of all of a memory with elements of `size` bytes; errors are those of [`ReadGuard`].
    pub fn new(header: &'a ArrayInner, size: usize) -> Result<Self, Error> {
        let guard = ReadGuard::new(header, 0..header.len())?;
        Ok(ByteGuard { guard, bytes: header.len() * size })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory has that many bytes, all initialised, since an element is plain data of the size
        // given; while the guard is alive they are not written.
        unsafe { std::slice::from_raw_parts(self.guard.header.data(), self.bytes) }
    }
}

impl<'a, T: Element> WriteGuard<'a, T> {
    pub(super) fn new(header: &'a ArrayInner) -> Result<Self, Error> {
        if shim::in_kernel() {
            return Err(Error::Nested);
        }
        if header.state.guard_write()? {
            let fetched = header.host_writes();
            let tracked = header.settle();
            if let Err(error) = fetched {
                header.state.release_guard_write(tracked);
                return Err(error);
            }
            debug_assert!(!tracked, "the host has everything, and alone");
        }
        Ok(WriteGuard { header, element: PhantomData })
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the range lies inside the array; while this guard is alive it is not written.
        unsafe {
            std::slice::from_raw_parts(self.header.data().cast::<T>().add(self.range.start), self.range.len())
        }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: while this guard is alive nothing else touches the array.
        unsafe { std::slice::from_raw_parts(self.header.data().cast(), self.header.len()) }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: while this guard is alive nothing else touches the array.
        unsafe { std::slice::from_raw_parts_mut(self.header.data().cast(), self.header.len()) }
    }
}

impl<T: fmt::Debug> fmt::Debug for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for WriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        match self.range == (0..self.header.len()) {
            true => self.header.state.release_guard_read(),
            false => self.header.release_guard_part(elements(&self.range)),
        }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.header.state.release_guard_write(false);
    }
}
