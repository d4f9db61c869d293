//! Host access to a memory: guards, and reading within a call.
//!
//! A guard is counted while it is alive: in the memory's state word, or, if it is of a part, in a list
//! (`order/parts.rs`). Its elements are current on the host then. No launch writes what a [`ReadGuard`]
//! reads, and nothing else uses the memory of a [`WriteGuard`]. A guard stays on its thread, as
//! [`own_guards`] needs. Kernels and host tasks get none.
//!
//! Order: a new guard takes the word, is entered in `sites` (for messages alone) and [`own_guards`], and
//! then fetches, with the directory locked, what is not on the host. If that fails, it is dropped as any
//! other, and [`device::settle_losses`] follows. A drop takes it out of both lists, settles the directory
//! after a write, and gives the word back last. A [`HostRead`] counts as a launch that reads. Once it is
//! counted it waits for nothing but its fetching.

use super::device;
use super::state::Refused;
use super::{ArrayInner, own_guards};
use crate::error::Error;
use crate::nested::in_kernel;
use flash_backend::fork;
use flash_types::descriptor::Element;
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::panic::Location;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a launch waits for guards of other threads, and `get` for a write guard, unless an option says
/// otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Shared access of the host, to all of a memory or a part. Any number may be alive. Launches that write some
/// of that wait meanwhile, or are refused.
///
/// It belongs to its thread:
/// ```compile_fail,E0277
/// use flash_core::FlashMemory;
/// let memory = FlashMemory::from([1, 2]);
/// let guard = memory.read().unwrap();
/// std::thread::scope(|scope| scope.spawn(move || drop(guard)).join().unwrap());
/// ```
/// What it reads may be lent to other threads:
/// ```
/// # use flash_core::FlashMemory;
/// let memory = FlashMemory::from([1, 2]);
/// let guard = memory.read()?;
/// std::thread::scope(|scope| scope.spawn(|| assert_eq!(guard[1], 2)).join().unwrap());
/// # Ok::<(), flash_core::Error>(())
/// ```
#[must_use]
pub struct ReadGuard<'a, T> {
    host: HostGuard<'a>,
    element: PhantomData<&'a [T]>,
}

/// Exclusive access of the host. Launches that use the memory wait meanwhile, or are refused. It belongs to
/// its thread, as a [`ReadGuard`] does.
#[must_use]
pub struct WriteGuard<'a, T> {
    host: HostGuard<'a>,
    element: PhantomData<&'a mut [T]>,
}

/// A guard of elements of any type.
struct HostGuard<'a> {
    header: &'a ArrayInner,
    range: Range<u64>,
    written: bool,
    site: &'static Location<'static>,
    /// It is released by the thread that made it.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared reference to a guard gives shared access to elements, which are `Sync`. It can neither
// release nor move the guard, which is what its thread must do.
unsafe impl Sync for HostGuard<'_> {}

/// A guard that is alive: what of the memory it is of, and where it was made.
struct GuardSite {
    range: Range<u64>,
    at: &'static Location<'static>,
}

/// Those of a memory, for messages.
#[derive(Default)]
pub(super) struct GuardSites(Mutex<SmallVec<[GuardSite; 1]>>);

impl GuardSites {
    /// None in a child of `fork` if a thread of the parent had the lock.
    fn lock(&self) -> Option<MutexGuard<'_, SmallVec<[GuardSite; 1]>>> {
        match fork::is_child() {
            true => self.0.try_lock().ok(),
            false => Some(self.0.lock().unwrap_or_else(|e| e.into_inner())),
        }
    }

    /// Of a guard of some of a range.
    fn find(&self, range: &Range<u64>) -> Option<&'static Location<'static>> {
        let meets = |site: &&GuardSite| site.range.start < range.end && range.start < site.range.end;
        let sites = self.lock()?;
        sites.iter().find(meets).or(sites.first()).map(|site| site.at)
    }

    fn enter(&self, range: Range<u64>, at: &'static Location<'static>) {
        if let Some(mut sites) = self.lock() {
            sites.push(GuardSite { range, at });
        }
    }

    fn leave(&self, range: &Range<u64>, at: &'static Location<'static>) {
        let Some(mut sites) = self.lock() else { return };
        let is_it = |site: &GuardSite| site.range == *range && std::ptr::eq(site.at, at);
        if let Some(at) = sites.iter().rposition(is_it) {
            sites.swap_remove(at);
        }
    }
}

impl<'a> HostGuard<'a> {
    fn new(
        header: &'a ArrayInner,
        range: Range<u64>,
        written: bool,
        site: &'static Location<'static>,
    ) -> Result<Self, Error> {
        let here = range.clone();
        HostGuard::with(header, range, written, site, || match written {
            true => header.host_writes(),
            false => header.host_reads(here),
        })
    }

    /// A guard of a range; `fetch` is called if the memory is tracked.
    fn with(
        header: &'a ArrayInner,
        range: Range<u64>,
        written: bool,
        site: &'static Location<'static>,
        fetch: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Self, Error> {
        if in_kernel() {
            return Err(Error::Nested);
        }
        if !written {
            header.relieve();
        }
        let tracked = header.guard(&range, written).map_err(|why| header.refused(why, &range, None))?;
        header.sites.enter(range.clone(), site);
        own_guards::enter(header.id(), range.clone(), written);
        // From now on it is released when it is dropped.
        let guard = HostGuard { header, range, written, site, not_send: PhantomData };
        let ready = if tracked { fetch() } else { Ok(()) };
        ready.inspect_err(|_| device::settle_losses())?;
        Ok(guard)
    }

    fn first(&self) -> *mut u8 {
        // SAFETY: the range lies inside the array.
        unsafe { self.header.data().add(self.range.start as usize * self.header.element_size() as usize) }
    }

    fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

impl Drop for HostGuard<'_> {
    fn drop(&mut self) {
        own_guards::leave(self.header.id(), &self.range, self.written);
        self.header.sites.leave(&self.range, self.site);
        // The host has everything alone, unless its copies could not be fetched.
        let tracked = self.written && self.header.state.is_tracked() && self.header.settle();
        self.header.release_guard(&self.range, self.written, tracked);
    }
}

impl ArrayInner {
    /// The error of a use of a range that was refused, after it has waited for guards, or at once.
    #[cold]
    pub fn refused(&self, why: Refused, range: &Range<u64>, waited: Option<Duration>) -> Error {
        match why {
            Refused::Forked => Error::Forked,
            Refused::Borrowed | Refused::Pending => Error::Borrowed { guard: self.sites.find(range), waited },
        }
    }
}

/// Shared access to a range of a memory within a call of the host: it counts as a launch that reads, for
/// which launches and guards wait. Nothing that could wait for them, and no code of a user, runs meanwhile.
struct HostRead<'a> {
    header: &'a ArrayInner,
    range: Range<u64>,
    /// False: a guard of this thread reads the range.
    counted: bool,
}

impl<'a> HostRead<'a> {
    fn new(header: &'a ArrayInner, range: Range<u64>) -> Result<Self, Error> {
        if in_kernel() {
            return Err(Error::Nested);
        }
        if own_guards::reads(header.id(), &range) {
            return Ok(HostRead { header, range, counted: false });
        }
        let mut until = None;
        let tracked = loop {
            match header.begin_read(&range) {
                Ok(tracked) => break tracked,
                Err(why) if why == Refused::Forked || own_guards::any() => {
                    return Err(header.refused(why, &range, None));
                }
                Err(why) => {
                    fork::check()?;
                    let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
                    if !header.after_guards(false, None, until) {
                        return Err(header.refused(why, &range, Some(PATIENCE)));
                    }
                }
            }
        };
        let read = HostRead { header, range, counted: true };
        if tracked {
            header.host_reads(read.range.clone())?;
        }
        Ok(read)
    }

    /// The elements, as bytes or in their own type.
    fn elements<T: Element>(&self) -> &[T] {
        let size = self.header.element_size() as usize;
        let len = (self.range.end - self.range.start) as usize * size;
        // SAFETY: the range lies inside the array, whose elements are plain data; while this is counted, or a
        // guard of this thread is alive, they are not written.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.header.data().add(self.range.start as usize * size), len)
        };
        bytemuck::cast_slice(bytes)
    }
}

impl Drop for HostRead<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.header.state.release_read();
        }
    }
}

/// A copy of all of a memory, as bytes or in the type of its elements.
///
/// # Errors
/// As [`get`](super::FlashMemory::get).
pub(crate) fn contents<T: Element>(header: &ArrayInner) -> Result<Vec<T>, Error> {
    Ok(HostRead::new(header, 0..header.len() as u64)?.elements().to_vec())
}

/// A copy of element `i`, which is in the array.
///
/// # Errors
/// As [`get`](super::FlashMemory::get).
pub(super) fn element<T: Element>(header: &ArrayInner, i: u64) -> Result<T, Error> {
    Ok(HostRead::new(header, i..i + 1)?.elements()[0])
}

/// A guard of a memory whose element type is not known here.
pub(crate) struct ByteGuard<'a>(HostGuard<'a>);

impl<'a> ByteGuard<'a> {
    /// Shared access to all of it. Errors are those of a [`ReadGuard`].
    #[cfg(feature = "recordings")]
    #[track_caller]
    pub fn new(header: &'a ArrayInner) -> Result<Self, Error> {
        ByteGuard::of_range(header, 0..header.len() as u64, false)
    }

    /// Access to a range that lies in the array. Errors are those of the guards of known types.
    #[track_caller]
    pub fn of_range(header: &'a ArrayInner, range: Range<u64>, written: bool) -> Result<Self, Error> {
        HostGuard::new(header, range, written, Location::caller()).map(ByteGuard)
    }

    pub fn bytes(&self) -> &[u8] {
        let ByteGuard(host) = self;
        // SAFETY: the memory has that many bytes, all initialised, since an element is plain data; while the
        // guard is alive they are not written but through it.
        unsafe { std::slice::from_raw_parts(host.first(), self.len()) }
    }

    /// `None`: it is a guard that reads.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let (first, len) = (self.0.first(), self.len());
        // SAFETY: as above; a guard that writes is the only use of its array.
        self.0.written.then(|| unsafe { std::slice::from_raw_parts_mut(first, len) })
    }

    fn len(&self) -> usize {
        self.0.len() * self.0.header.element_size() as usize
    }
}

impl<'a, T: Element> ReadGuard<'a, T> {
    #[track_caller]
    pub(super) fn new(header: &'a ArrayInner, range: Range<usize>) -> Result<Self, Error> {
        let range = range.start as u64..range.end as u64;
        let host = HostGuard::new(header, range, false, Location::caller())?;
        Ok(ReadGuard { host, element: PhantomData })
    }
}

impl<'a, T: Element> WriteGuard<'a, T> {
    #[track_caller]
    pub(super) fn new(header: &'a ArrayInner) -> Result<Self, Error> {
        let host = HostGuard::new(header, 0..header.len() as u64, true, Location::caller())?;
        Ok(WriteGuard { host, element: PhantomData })
    }

    /// A guard of elements that may have any value at first: for what sets all of them.
    #[track_caller]
    pub(super) fn overwriting(header: &'a ArrayInner) -> Result<Self, Error> {
        let all = 0..header.len() as u64;
        let host = HostGuard::with(header, all, true, Location::caller(), || header.host_overwrites())?;
        Ok(WriteGuard { host, element: PhantomData })
    }
}

impl<'g, T> IntoIterator for &'g ReadGuard<'_, T> {
    type Item = &'g T;
    type IntoIter = std::slice::Iter<'g, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'g, T> IntoIterator for &'g WriteGuard<'_, T> {
    type Item = &'g T;
    type IntoIter = std::slice::Iter<'g, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'g, T> IntoIterator for &'g mut WriteGuard<'_, T> {
    type Item = &'g mut T;
    type IntoIter = std::slice::IterMut<'g, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the range lies inside the array; while this guard is alive it is not written.
        unsafe { std::slice::from_raw_parts(self.host.first().cast(), self.host.len()) }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: while this guard is alive nothing else touches the array.
        unsafe { std::slice::from_raw_parts(self.host.first().cast(), self.host.len()) }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: while this guard is alive nothing else touches the array.
        unsafe { std::slice::from_raw_parts_mut(self.host.first().cast(), self.host.len()) }
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
