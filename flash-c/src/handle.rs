//! Handles: pointers to slots that are never given back to the system.
//!
//! A slot begins with a tag that says what it holds. Freeing a handle changes the tag, and puts the slot at
//! the end of a queue of which a new handle takes the first only when it is long. So a handle that is used
//! after it was freed, or is of another kind, is an error with words for as long as its slot is not taken
//! again; the memory that is read to find that out is always the library's.
//!
//! What a caller owes: a pointer that this library gave, and no use of a handle while another thread frees
//! it.

use crate::error::Failure;
use crate::status::STATUS_POINTER;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The tag of a slot without a value.
const FREED: u64 = 0xF1A5_0000_F4EE_D000;

/// At least this many slots are free before one is taken again.
const KEPT: usize = 1024;

/// A type that handles point to.
pub trait Kind: Sized + 'static {
    /// Its tag: that of no other kind.
    const TAG: u64;
    /// What messages call it.
    const NAME: &'static str;
    /// Its free slots.
    fn free() -> &'static Free<Self>;
}

/// All kinds, for messages.
const KINDS: [(u64, &str); 5] = [
    (crate::runtime::Runtime::TAG, crate::runtime::Runtime::NAME),
    (crate::memory::Memory::TAG, crate::memory::Memory::NAME),
    (crate::kernel::NamedKernel::TAG, crate::kernel::NamedKernel::NAME),
    (crate::pipeline::Pipeline::TAG, crate::pipeline::Pipeline::NAME),
    (crate::pipeline::Started::TAG, crate::pipeline::Started::NAME),
];

/// A place for a value. All kinds begin with the tag.
#[repr(C)]
pub struct Slot<T> {
    tag: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// The free slots of a kind, the one that was freed first in front.
pub struct Free<T: 'static>(Mutex<VecDeque<&'static Slot<T>>>);

// SAFETY: a slot without a value is only a place; a value is put into it and taken out under its tag.
unsafe impl<T: Send> Send for Free<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Free<T> {}

impl<T: 'static> Free<T> {
    /// None.
    pub const fn new() -> Free<T> {
        Free(Mutex::new(VecDeque::new()))
    }
}

/// A handle of a value, written to `to`.
///
/// # Safety
/// `to` is NULL, or points to a place for a pointer.
pub unsafe fn give<T: Kind, H>(value: T, to: *mut *mut H) -> Result<(), Failure> {
    // SAFETY: the caller vouches.
    let to = unsafe { place(to, T::NAME)? };
    let reused = {
        let mut free = T::free().0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() > KEPT { free.pop_front() } else { None }
    };
    let slot = reused.unwrap_or_else(|| {
        let tag = AtomicU64::new(FREED);
        Box::leak(Box::new(Slot { tag, value: UnsafeCell::new(MaybeUninit::uninit()) }))
    });
    // SAFETY: the slot was in the queue, or is new: no other thread has it.
    unsafe { (*slot.value.get()).write(value) };
    slot.tag.store(T::TAG, Ordering::Release);
    *to = std::ptr::from_ref(slot).cast_mut().cast();
    Ok(())
}

/// The place that a caller's pointer to a result names.
///
/// # Safety
/// The pointer is NULL, or points to a place for a `T` that nothing else uses during the call.
pub unsafe fn place<'a, T>(to: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller vouches.
    unsafe { to.as_mut() }.ok_or_else(|| null(what))
}

#[cold]
#[inline(never)]
fn null(what: &str) -> Failure {
    Failure::new(STATUS_POINTER, format!("expected a pointer to a place for the {what}, found NULL"))
}

/// The value of a handle.
///
/// # Safety
/// The handle is NULL, or was given by this library, and no other thread frees it during the call.
#[inline(always)]
pub unsafe fn get<'a, T: Kind, H>(handle: *const H) -> Result<&'a T, Failure> {
    let slot: *const Slot<T> = handle.cast();
    if slot.is_null() || !slot.is_aligned() {
        return Err(no_handle::<T>(slot.addr()));
    }
    // SAFETY: the caller vouches for a slot of this library, and all begin with the tag.
    let tag = unsafe { (*slot).tag.load(Ordering::Acquire) };
    if tag != T::TAG {
        return Err(other_kind::<T>(tag));
    }
    // SAFETY: the tag says that the slot has a value of this kind.
    Ok(unsafe { (*(*slot).value.get()).assume_init_ref() })
}

/// Takes the value out of a handle, which is freed. `None`: it is NULL.
///
/// # Safety
/// As for [`get`]; no other thread uses the handle.
pub unsafe fn take<T: Kind, H>(handle: *mut H) -> Result<Option<T>, Failure> {
    let slot: *const Slot<T> = handle.cast();
    if slot.is_null() {
        return Ok(None);
    }
    if !slot.is_aligned() {
        return Err(no_handle::<T>(slot.addr()));
    }
    // SAFETY: slots are never given back.
    let slot: &'static Slot<T> = unsafe { &*slot };
    if let Err(tag) = slot.tag.compare_exchange(T::TAG, FREED, Ordering::AcqRel, Ordering::Acquire) {
        return Err(other_kind::<T>(tag));
    }
    // SAFETY: it had a value, and this call alone has changed the tag.
    let value = unsafe { (*slot.value.get()).assume_init_read() };
    T::free().0.lock().unwrap_or_else(PoisonError::into_inner).push_back(slot);
    Ok(Some(value))
}

#[cold]
#[inline(never)]
fn no_handle<T: Kind>(address: usize) -> Failure {
    let found = if address == 0 { "NULL".to_owned() } else { format!("{address:#x}, which is no handle") };
    Failure::new(STATUS_POINTER, format!("expected a handle of a {}, found {found}", T::NAME))
}

#[cold]
#[inline(never)]
fn other_kind<T: Kind>(tag: u64) -> Failure {
    let found = match KINDS.iter().find(|(known, _)| *known == tag) {
        Some((_, name)) => format!("one of a {name}"),
        None if tag == FREED => "one that was freed".to_owned(),
        None => "a pointer that is no handle".to_owned(),
    };
    Failure::new(STATUS_POINTER, format!("expected a handle of a {}, found {found}", T::NAME))
}

/// Implements [`Kind`].
macro_rules! kind {
    ($type:ty, $tag:literal, $name:literal) => {
        impl crate::handle::Kind for $type {
            const TAG: u64 = 0xF1A5_0000_0000_0000 | $tag;
            const NAME: &'static str = $name;
            fn free() -> &'static crate::handle::Free<Self> {
                static FREE: crate::handle::Free<$type> = crate::handle::Free::new();
                &FREE
            }
        }
    };
}
pub(crate) use kind;
