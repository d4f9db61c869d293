//! A reduction's operation without its type, with which the runtime fills and merges partial results.

use super::{Accumulate, Max, Min, ReduceAccess, ReduceOp, Sum};
use flash_types::descriptor::Reduction;
use std::any::TypeId;

/// An operation on elements of one type.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Operation {
    identity: unsafe fn(*mut u8, usize),
    combine: unsafe fn(*mut u8, *const u8, usize),
    merge: unsafe fn(*mut u8, usize, usize),
    /// Alignment of an element.
    pub(crate) align: usize,
}

type Element<A> = <<A as ReduceAccess>::Content as Accumulate>::Element;

impl Operation {
    /// `Op` on what `A` accumulates.
    pub fn of<A: ReduceAccess, Op: ReduceOp<Element<A>>>() -> Operation {
        Operation::on::<Element<A>, Op>()
    }

    fn on<T: Copy, Op: ReduceOp<T>>() -> Operation {
        /// # Safety
        /// There is room for `n` elements.
        unsafe fn identity<T, Op: ReduceOp<T>>(to: *mut u8, n: usize) {
            for i in 0..n {
                // SAFETY: i < n; the memory need not be initialised.
                unsafe { to.cast::<T>().add(i).write(Op::identity()) };
            }
        }
        /// # Safety
        /// Both have `n` initialised elements, and do not overlap.
        #[inline]
        unsafe fn combine<T: Copy, Op: ReduceOp<T>>(to: *mut u8, from: *const u8, n: usize) {
            for i in 0..n {
                // SAFETY: i < n.
                unsafe {
                    let (to, from) = (to.cast::<T>().add(i), from.cast::<T>().add(i));
                    to.write(Op::combine(to.read(), from.read()));
                }
            }
        }
        /// # Safety
        /// There are `count * len` initialised elements.
        unsafe fn merge<T: Copy, Op: ReduceOp<T>>(partials: *mut u8, count: usize, len: usize) {
            let bytes = len * size_of::<T>();
            let mut distance = 1;
            while distance < count {
                for block in (0..count - distance).step_by(2 * distance) {
                    // SAFETY: block + distance < count; two blocks do not overlap.
                    unsafe {
                        let to = partials.add(block * bytes);
                        combine::<T, Op>(to, to.add(distance * bytes), len);
                    }
                }
                distance *= 2;
            }
        }
        Operation {
            identity: identity::<T, Op>,
            combine: combine::<T, Op>,
            merge: merge::<T, Op>,
            align: align_of::<T>(),
        }
    }

    /// An operation that is known by name: `Sum`, `Min` and `Max` on numbers.
    pub(crate) fn named(operation: &str, element: &str) -> Option<Operation> {
        macro_rules! table {
            ($($t:ty)*) => {
                match (operation, element) {
                    $(
                        ("Sum", stringify!($t)) => Operation::on::<$t, Sum>(),
                        ("Min", stringify!($t)) => Operation::on::<$t, Min>(),
                        ("Max", stringify!($t)) => Operation::on::<$t, Max>(),
                    )*
                    _ => return None,
                }
            };
        }
        Some(table!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64))
    }

    /// Joins ranges `[first, last]` that are neighbours, and panics at any others.
    #[cfg(test)]
    pub(crate) fn of_joined() -> Operation {
        struct Joined;
        impl ReduceOp<[u32; 2]> for Joined {
            fn identity() -> [u32; 2] {
                [u32::MAX; 2]
            }
            fn combine(a: [u32; 2], b: [u32; 2]) -> [u32; 2] {
                if a == Self::identity() {
                    return b;
                }
                assert!(b == Self::identity() || a[1] + 1 == b[0], "{a:?} and {b:?} are no neighbours");
                if b == Self::identity() { a } else { [a[0], b[1]] }
            }
        }
        Operation::on::<[u32; 2], Joined>()
    }

    /// Writes `n` identities.
    ///
    /// # Safety
    /// There is room for `n` elements, aligned.
    pub(crate) unsafe fn fill(&self, to: *mut u8, n: usize) {
        // SAFETY: the caller vouches.
        unsafe { (self.identity)(to, n) }
    }

    /// `to[i] = combine(to[i], from[i])` for `n` elements.
    ///
    /// # Safety
    /// Both have `n` initialised elements, aligned, and do not overlap.
    pub(crate) unsafe fn combine(&self, to: *mut u8, from: *const u8, n: usize) {
        // SAFETY: the caller vouches.
        unsafe { (self.combine)(to, from, n) }
    }

    /// Merges `count` adjacent blocks of `len` elements each into the first. Neighbours are combined in
    /// pairs, the earlier one first, then the results of the pairs, and so on; one without a neighbour stays
    /// as it is.
    ///
    /// # Safety
    /// There are `count * len` initialised elements, aligned, without another user.
    pub(crate) unsafe fn merge(&self, partials: *mut u8, count: usize, len: usize) {
        // SAFETY: the caller vouches.
        unsafe { (self.merge)(partials, count, len) }
    }
}

/// The operation's form in a descriptor: the ready-made ones by name, others by the path of their type, which
/// has a `::` in it.
pub(super) fn describe<A: ReduceAccess, Op: ReduceOp<Element<A>>>() -> Reduction {
    let id = TypeId::of::<Op>();
    let known = [(TypeId::of::<Sum>(), "Sum"), (TypeId::of::<Min>(), "Min"), (TypeId::of::<Max>(), "Max")];
    let name = known.iter().find(|(known, _)| *known == id).map_or(std::any::type_name::<Op>(), |k| k.1);
    Reduction { operation: name.to_owned(), array: <A::Content as Accumulate>::ARRAY }
}
