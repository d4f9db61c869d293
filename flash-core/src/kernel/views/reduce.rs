//! [`Reduce`](super::Reduce): many values into one accumulator, or into an array of them.
//!
//! **The result.** The rows of a phase are cut into *blocks*. Their number and size depend only on the number
//! of rows, the length of the accumulator and the size of its elements. Each block has an accumulator of its
//! own, which begins with the identity and takes the values in the order of the table. At the end of the
//! phase the accumulators of neighbouring blocks are combined in pairs, those of the pairs in pairs, and so
//! on. The initial content (the identity, if the access is [`Write`]) is combined with the result, and the
//! phases follow one another in the same way. So an operation need not be commutative, and one that is only
//! nearly associative, such as the sum of floating-point numbers, gives the same bits for any number of
//! threads, cuts and devices of one kind.

use super::{ReadWrite, Write};
use crate::kernel::Element;
use flash_types::abi;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// An associative operation with an identity, as a type.
///
/// It must hold for all values that a launch may combine, if need be up to rounding:
/// `combine(a, combine(b, c)) == combine(combine(a, b), c)` and
/// `combine(identity(), a) == combine(a, identity()) == a`. It need not be commutative: values are
/// combined in the order of the index table.
///
/// # Examples
/// ```
/// use flash_core::kernel::views::ReduceOp;
///
/// /// The product of 2 x 2 matrices, row by row: associative, not commutative.
/// struct Product;
///
/// impl ReduceOp<[[u64; 2]; 2]> for Product {
///     fn identity() -> [[u64; 2]; 2] {
///         [[1, 0], [0, 1]]
///     }
///     fn combine(a: [[u64; 2]; 2], b: [[u64; 2]; 2]) -> [[u64; 2]; 2] {
///         let at = |i: usize, j: usize| {
///             a[i][0].wrapping_mul(b[0][j]).wrapping_add(a[i][1].wrapping_mul(b[1][j]))
///         };
///         [[at(0, 0), at(0, 1)], [at(1, 0), at(1, 1)]]
///     }
/// }
/// let m = [[1, 1], [1, 0]];
/// assert_eq!(Product::combine(Product::identity(), m), m);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operation on `{T}`",
    label = "use `Sum`, `Min` or `Max` with numbers, or write `impl ReduceOp<{T}> for {Self}`"
)]
pub trait ReduceOp<T>: 'static {
    /// The value that changes no other.
    fn identity() -> T;
    /// Both values, `a` before `b` in the order of the table.
    fn combine(a: T, b: T) -> T;
}

/// The sum. Integers wrap. Of floating-point numbers: rounded after every step, in the order that the
/// documentation of `Reduce` fixes; the identity is 0.0, so that the sum of nothing but -0.0 is 0.0.
/// A NaN anywhere gives NaN, with a sign and payload that are not fixed.
pub struct Sum;

/// The smallest value; of none, the largest number of the type (infinity). Of floating-point numbers:
/// -0.0 is less than 0.0, and a NaN anywhere gives `NAN`, always the same bits.
pub struct Min;

/// The largest value; of none, the smallest number of the type (minus infinity). Of floating-point
/// numbers: 0.0 is more than -0.0, and a NaN anywhere gives `NAN`, always the same bits.
pub struct Max;

macro_rules! integers {
    ($($t:ty)*) => {$(
        operation! { Sum, $t, 0, |a, b| a.wrapping_add(b) }
        operation! { Min, $t, <$t>::MAX, |a, b| a.min(b) }
        operation! { Max, $t, <$t>::MIN, |a, b| a.max(b) }
    )*};
}
macro_rules! floats {
    ($($t:ty)*) => {$(
        operation! { Sum, $t, 0.0, |a, b| a + b }
        operation! { Min, $t, <$t>::INFINITY, |a, b| {
            if a.is_nan() || b.is_nan() { <$t>::NAN }
            else if b < a || (b == a && b.is_sign_negative()) { b }
            else { a }
        } }
        operation! { Max, $t, <$t>::NEG_INFINITY, |a, b| {
            if a.is_nan() || b.is_nan() { <$t>::NAN }
            else if b > a || (b == a && b.is_sign_positive()) { b }
            else { a }
        } }
    )*};
}
macro_rules! operation {
    ($op:ident, $t:ty, $identity:expr, |$a:ident, $b:ident| $combine:expr) => {
        impl ReduceOp<$t> for $op {
            #[inline(always)]
            fn identity() -> $t {
                $identity
            }
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t {
                $combine
            }
        }
    };
}
integers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }
floats! { f32 f64 }

/// Component by component.
macro_rules! arrays {
    ($($op:ident)*) => {$(
        impl<T: Copy, const N: usize> ReduceOp<[T; N]> for $op
        where
            $op: ReduceOp<T>,
        {
            #[inline(always)]
            fn identity() -> [T; N] {
                [<$op as ReduceOp<T>>::identity(); N]
            }
            #[inline(always)]
            fn combine(a: [T; N], b: [T; N]) -> [T; N] {
                std::array::from_fn(|i| <$op as ReduceOp<T>>::combine(a[i], b[i]))
            }
        }
    )*};
}
arrays! { Sum Min Max }

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for T {}
    impl<T> Sealed for [T] {}
}

/// The content of a [`Reduce`](super::Reduce): `T`, one accumulator, or `[T]`, an array of them.
pub trait Accumulate: sealed::Sealed {
    /// Type of one accumulator.
    type Element: Element;
    /// True for an array.
    const ARRAY: bool;
}

impl<T: Element> Accumulate for T {
    type Element = T;
    const ARRAY: bool = false;
}

impl<T: Element> Accumulate for [T] {
    type Element = T;
    const ARRAY: bool = true;
}

/// Access and content of a [`Reduce`](super::Reduce): `Write<T>`, `ReadWrite<T>`, `Write<[T]>` or
/// `ReadWrite<[T]>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no access of a `Reduce`",
    label = "write `Reduce<'a, Write<T>, Sum>` or `Reduce<'a, Write<[T]>, Sum>`, or `ReadWrite` if the initial content counts"
)]
pub trait ReduceAccess {
    /// The content.
    type Content: Accumulate + ?Sized;
    /// `ACCESS_*`.
    const ACCESS: u32;
}

impl<C: Accumulate + ?Sized> ReduceAccess for Write<C> {
    type Content = C;
    const ACCESS: u32 = abi::ACCESS_WRITE;
}

impl<C: Accumulate + ?Sized> ReduceAccess for ReadWrite<C> {
    type Content = C;
    const ACCESS: u32 = abi::ACCESS_READ_WRITE;
}

/// The view of the `item` and `span` doors: the accumulator of the block that the work item is in.
pub struct Accumulator<'k, C: ?Sized, Op> {
    at: *mut u8,
    len: usize,
    borrow: PhantomData<&'k mut C>,
    operation: PhantomData<fn() -> Op>,
}

// SAFETY: it is the only access to its accumulators, like an exclusive reference.
unsafe impl<C: Send + ?Sized, Op> Send for Accumulator<'_, C, Op> {}
// SAFETY: as above; a shared reference gives access only to the length.
unsafe impl<C: Sync + ?Sized, Op> Sync for Accumulator<'_, C, Op> {}

impl<T: Element, Op: ReduceOp<T>> Accumulator<'_, T, Op> {
    /// Combines the accumulator with a value.
    #[inline(always)]
    pub fn put(&mut self, value: T) {
        let at = self.at.cast::<T>();
        // SAFETY: one accumulator of this type, initialised, without another user meanwhile.
        unsafe { at.write(Op::combine(at.read(), value)) }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside(i: usize, len: usize) -> ! {
    panic!("accumulator {i} of an array of {len}")
}

impl<T: Element, Op: ReduceOp<T>> Accumulator<'_, [T], Op> {
    /// Combines accumulator `i` with a value. Panics outside the array.
    #[inline(always)]
    #[track_caller]
    pub fn put(&mut self, i: usize, value: T) {
        if i >= self.len {
            outside(i, self.len);
        }
        // SAFETY: inside the array; initialised, and without another user meanwhile.
        unsafe {
            let at = self.at.cast::<T>().add(i);
            at.write(Op::combine(at.read(), value));
        }
    }

    /// Number of accumulators.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The view of the `whole` door: an accumulator per block of work items of the phase.
///
/// The result is the same for any number of threads if every value goes to the accumulator of its own block:
/// [`into_blocks`](Self::into_blocks) hands them out with their rows, for which
/// [`Space::part`](crate::kernel::Space::part) has the work items. A library that computes the result in
/// another way puts it into [`block(0)`](Self::block); its bits then depend on the library.
pub struct Accumulators<'k, C: ?Sized, Op> {
    bound: ReduceBound<C, Op>,
    borrow: PhantomData<&'k mut C>,
}

// SAFETY: as for `Accumulator`.
unsafe impl<C: Send + ?Sized, Op> Send for Accumulators<'_, C, Op> {}
// SAFETY: as for `Accumulator`.
unsafe impl<C: Sync + ?Sized, Op> Sync for Accumulators<'_, C, Op> {}

impl<'k, C: Accumulate + ?Sized, Op> Accumulators<'k, C, Op> {
    /// Number of blocks; at least 1.
    pub fn count(&self) -> usize {
        self.bound.rows.div_ceil(self.bound.rows_per_block()) as usize
    }

    /// The rows of a block, counted from the phase's first.
    ///
    /// # Panics
    /// If there is no such block.
    #[track_caller]
    pub fn rows(&self, block: usize) -> Range<u64> {
        assert!(block < self.count(), "block {block} of {}", self.count());
        let begin = (block as u64) << self.bound.log_rows;
        begin..begin.saturating_add(self.bound.rows_per_block()).min(self.bound.rows)
    }

    /// The accumulator of a block.
    ///
    /// # Panics
    /// If there is no such block.
    #[track_caller]
    pub fn block(&mut self, block: usize) -> Accumulator<'_, C, Op> {
        assert!(block < self.count(), "block {block} of {}", self.count());
        // SAFETY: the block exists, and `self` is borrowed exclusively.
        unsafe { self.bound.accumulator(block as u64) }
    }

    /// The rows of every block, counted from the phase's first, with its accumulator, in order: to be
    /// shared among threads.
    pub fn into_blocks(self) -> impl ExactSizeIterator<Item = (Range<u64>, Accumulator<'k, C, Op>)> {
        (0..self.count()).map(move |block| {
            // SAFETY: the block exists; each is given out once, and `self` is consumed.
            (self.rows(block), unsafe { self.bound.accumulator(block as u64) })
        })
    }
}

/// Addresses for one share.
#[doc(hidden)]
pub struct ReduceBound<C: ?Sized, Op> {
    /// The accumulator of the phase's first block.
    data: *mut u8,
    /// Accumulators in one block.
    len: usize,
    log_rows: u32,
    /// The current block.
    block: u64,
    /// Rows of the phase, as far as this share knows them.
    rows: u64,
    content: PhantomData<fn(&C)>,
    operation: PhantomData<fn() -> Op>,
}

impl<C: ?Sized, Op> Clone for ReduceBound<C, Op> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: ?Sized, Op> Copy for ReduceBound<C, Op> {}

impl<C: ?Sized, Op> ReduceBound<C, Op> {
    fn rows_per_block(&self) -> u64 {
        1 << self.log_rows
    }
}

impl<C: Accumulate + ?Sized, Op> ReduceBound<C, Op> {
    /// # Safety
    /// `arg` is an accumulator of this content, with a block for all rows of the phase.
    #[inline(always)]
    pub unsafe fn new(arg: &abi::Arg) -> Self {
        debug_assert_eq!(arg.element_size as usize, size_of::<C::Element>());
        debug_assert!(arg.row_len.is_power_of_two(), "blocks of {} rows", arg.row_len);
        ReduceBound {
            data: arg.data.cast(),
            len: arg.len as usize,
            log_rows: arg.row_len.trailing_zeros(),
            block: 0,
            rows: 0,
            content: PhantomData,
            operation: PhantomData,
        }
    }

    /// Goes to the block of the first of these rows, which are counted from the phase's first.
    #[inline(always)]
    pub fn block(&mut self, rows: &Range<u64>) {
        self.block = rows.start >> self.log_rows;
        self.rows = rows.end;
    }

    /// The first accumulator of a block.
    ///
    /// # Safety
    /// The block exists.
    #[inline(always)]
    unsafe fn at(&self, block: u64) -> *mut C::Element {
        // SAFETY: blocks stand one after the other, `len` accumulators each.
        unsafe { self.data.cast::<C::Element>().add(block as usize * self.len) }
    }

    /// # Safety
    /// The block exists, and its accumulators have no other user during `'k`.
    unsafe fn accumulator<'k>(&self, block: u64) -> Accumulator<'k, C, Op> {
        // SAFETY: the caller vouches.
        let at = unsafe { self.at(block) }.cast();
        Accumulator { at, len: self.len, borrow: PhantomData, operation: PhantomData }
    }

    /// # Safety
    /// The current block has rows of this launch, and only this thread uses its accumulators while the run
    /// exists; no other run of it exists meanwhile.
    #[inline(always)]
    pub unsafe fn run(&self) -> ReduceRun<C> {
        // SAFETY: the block exists.
        let at = unsafe { self.at(self.block) };
        let value = match C::ARRAY {
            true => MaybeUninit::uninit(),
            // SAFETY: initialised: the host filled it with the identity.
            false => MaybeUninit::new(unsafe { at.read() }),
        };
        ReduceRun { at, len: self.len, value: UnsafeCell::new(value) }
    }

    /// # Safety
    /// Nothing else of the launch runs.
    #[inline]
    pub unsafe fn whole<'k>(&self) -> Accumulators<'k, C, Op> {
        Accumulators { bound: *self, borrow: PhantomData }
    }
}

/// The accumulator of a run of work items. A single one is kept outside the array, where the compiler puts it
/// in a register, and is written back at the end.
#[doc(hidden)]
pub struct ReduceRun<C: Accumulate + ?Sized> {
    at: *mut C::Element,
    len: usize,
    /// The value of a single accumulator.
    value: UnsafeCell<MaybeUninit<C::Element>>,
}

impl<C: Accumulate + ?Sized> ReduceRun<C> {
    /// # Safety
    /// It is used by one thread, and by one work item or run at a time.
    #[inline(always)]
    pub unsafe fn see<'k, Op>(&'k self) -> Accumulator<'k, C, Op> {
        let at = if C::ARRAY { self.at } else { self.value.get().cast() };
        Accumulator { at: at.cast(), len: self.len, borrow: PhantomData, operation: PhantomData }
    }
}

impl<C: Accumulate + ?Sized> Drop for ReduceRun<C> {
    #[inline(always)]
    fn drop(&mut self) {
        if !C::ARRAY {
            // SAFETY: a single accumulator's value is initialised by `run`, and its place has no other user.
            unsafe { self.at.write(self.value.get_mut().assume_init()) };
        }
    }
}
