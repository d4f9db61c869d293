//! Memory for the cells of tasks: a thread keeps blocks for its next spawns, and gets back those that other
//! threads free.
//!
//! A general allocator locks where one thread allocates and another frees, as what spawns and what steals
//! do. Here the thread that frees gathers the blocks of another in a chain, and gives a whole chain back
//! with one instruction.
//!
//! *Invariant.* A free block is in one list: that of the thread which made it, a chain that another thread
//! gathers, or the chains that were given back. The memory is the allocator's: each block is one allocation.
//! Model-checked (`tests/loom`).

use super::sync::{AtomicPtr, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// The sizes of blocks, in bytes. What is larger is the allocator's alone.
const SIZES: [usize; 2] = [128, 256];
const ALIGN: usize = 16;
/// Blocks that a thread keeps, for each size.
const KEPT: [usize; 2] = [1 << 16, 1 << 14];
/// Blocks of a chain.
const CHAIN: usize = 64;

/// Which size a value needs. `None`: it is larger, or needs more alignment.
pub(crate) const fn class_of<T>() -> Option<usize> {
    match size_of::<T>() {
        _ if align_of::<T>() > ALIGN => None,
        0..=128 => Some(0),
        129..=256 => Some(1),
        _ => None,
    }
}

const fn layout(class: usize) -> Layout {
    match Layout::from_size_align(SIZES[class], ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("the sizes are small"),
    }
}

/// A free block.
struct Free {
    next: *mut Free,
}

/// Frees a list of blocks for good.
///
/// # Safety
/// They are free blocks of the class, in this list alone.
unsafe fn free_all(mut block: *mut Free, class: usize) {
    while !block.is_null() {
        // SAFETY: the caller vouches; each block is an allocation of this layout.
        unsafe {
            let next = (*block).next;
            dealloc(block.cast(), layout(class));
            block = next;
        }
    }
}

/// What other threads have given back to a thread.
pub(crate) struct Returned {
    first: [AtomicPtr<Free>; 2],
    /// How many there are, nearly.
    count: [AtomicUsize; 2],
}

impl Returned {
    pub(crate) fn new() -> Returned {
        let none = || AtomicPtr::new(ptr::null_mut());
        Returned { first: [none(), none()], count: [AtomicUsize::new(0), AtomicUsize::new(0)] }
    }

    /// Gives a chain back, or to the allocator if there are many.
    ///
    /// # Safety
    /// The chain is of free blocks of the class, in no other list, and not empty.
    unsafe fn give(&self, class: usize, chain: Chain) {
        let count = &self.count[class];
        if count.fetch_add(chain.count, Ordering::Relaxed) >= KEPT[class] {
            count.fetch_sub(chain.count, Ordering::Relaxed);
            // SAFETY: the caller vouches.
            return unsafe { free_all(chain.first, class) };
        }
        let first = &self.first[class];
        let mut before = first.load(Ordering::Relaxed);
        loop {
            // SAFETY: the last block is this thread's until the exchange succeeds. Chains are taken all
            // together, so `before` cannot have been taken and come back in between.
            unsafe { (*chain.last).next = before };
            match first.compare_exchange_weak(before, chain.first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// Takes everything that has been given back, and its number, nearly.
    fn take(&self, class: usize) -> (*mut Free, usize) {
        if self.first[class].load(Ordering::Relaxed).is_null() {
            return (ptr::null_mut(), 0);
        }
        let first = self.first[class].swap(ptr::null_mut(), Ordering::Acquire);
        (first, self.count[class].swap(0, Ordering::Relaxed))
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        for class in 0..SIZES.len() {
            // SAFETY: they are this list's alone.
            unsafe { free_all(self.take(class).0, class) };
        }
    }
}

/// Blocks of another thread.
#[derive(Clone, Copy)]
struct Chain {
    of: *const Returned,
    first: *mut Free,
    last: *mut Free,
    count: usize,
}

const EMPTY: Chain = Chain { of: ptr::null(), first: ptr::null_mut(), last: ptr::null_mut(), count: 0 };

/// A thread's own blocks, and those that it gathers for another thread.
pub(crate) struct Blocks {
    first: [Cell<*mut Free>; 2],
    count: [Cell<usize>; 2],
    chain: [Cell<Chain>; 2],
}

impl Blocks {
    pub(crate) fn new() -> Blocks {
        Blocks {
            first: [const { Cell::new(ptr::null_mut()) }; 2],
            count: [const { Cell::new(0) }; 2],
            chain: [const { Cell::new(EMPTY) }; 2],
        }
    }

    /// A block of a class. `back` is where other threads give back this thread's.
    #[inline]
    pub(crate) fn allocate(&self, class: usize, back: &Returned) -> NonNull<u8> {
        match NonNull::new(self.first[class].get()) {
            // SAFETY: it is free, and in this thread's list alone.
            Some(block) => unsafe {
                self.first[class].set((*block.as_ptr()).next);
                self.count[class].set(self.count[class].get().saturating_sub(1));
                block.cast()
            },
            None => self.refill(class, back),
        }
    }

    #[cold]
    fn refill(&self, class: usize, back: &Returned) -> NonNull<u8> {
        let (first, count) = back.take(class);
        if first.is_null() {
            // SAFETY: the size is not zero.
            let block = unsafe { alloc(layout(class)) };
            return NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout(class)));
        }
        self.first[class].set(first);
        self.count[class].set(count);
        self.allocate(class, back)
    }

    /// Frees a block of the thread that `of` belongs to; `own` is this thread's.
    ///
    /// # Safety
    /// It is of [`allocate`](Self::allocate) with this class and `of`, and nothing refers to it. `of` lives
    /// as long as this thread.
    #[inline]
    pub(crate) unsafe fn release(
        &self,
        class: usize,
        block: NonNull<u8>,
        of: *const Returned,
        own: &Returned,
    ) {
        let block = block.cast::<Free>().as_ptr();
        if !ptr::eq(of, own) {
            // SAFETY: the caller vouches.
            return unsafe { self.gather(class, block, of) };
        }
        let count = self.count[class].get();
        if count >= KEPT[class] {
            // SAFETY: it is an allocation of this layout.
            return unsafe { dealloc(block.cast(), layout(class)) };
        }
        // SAFETY: nothing else refers to the block.
        unsafe { block.write(Free { next: self.first[class].replace(block) }) };
        self.count[class].set(count + 1);
    }

    /// # Safety
    /// As for [`release`](Self::release).
    #[inline]
    unsafe fn gather(&self, class: usize, block: *mut Free, of: *const Returned) {
        if !ptr::eq(self.chain[class].get().of, of) {
            self.give_back_class(class);
        }
        let chain = self.chain[class].get();
        // SAFETY: nothing else refers to the block.
        unsafe { block.write(Free { next: chain.first }) };
        let last = if chain.last.is_null() { block } else { chain.last };
        self.chain[class].set(Chain { of, first: block, last, count: chain.count + 1 });
        if chain.count + 1 == CHAIN {
            self.give_back_class(class);
        }
    }

    fn give_back_class(&self, class: usize) {
        let chain = self.chain[class].replace(EMPTY);
        if chain.count > 0 {
            // SAFETY: `gather` made it of free blocks, and `release` promises that the other side lives.
            unsafe { (*chain.of).give(class, chain) };
        }
    }

    /// Gives back what was gathered, and frees this thread's own blocks.
    pub(crate) fn clear(&self) {
        for class in 0..SIZES.len() {
            self.give_back_class(class);
            self.count[class].set(0);
            // SAFETY: they are in this list alone.
            unsafe { free_all(self.first[class].replace(ptr::null_mut()), class) };
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.clear();
    }
}
