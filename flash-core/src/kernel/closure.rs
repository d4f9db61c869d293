//! Closures over the elements of arrays, as kernels: [`RuntimeObj::for_each`](crate::RuntimeObj::for_each).
//!
//! There is one definition for each list of argument types, and one function that runs all closures over it.
//! It gets the closure as an argument: the addresses of the closure and of a function for its type, in two
//! words that the caller lends to the launch. So a launch never outlives its closure: what is lent to a
//! launch is free again before that returns, whatever happens. No other module makes this definition, and no
//! launch by name finds its implementation, so these words are always such addresses.

use super::views::{
    Item, ItemAccess, ItemBound, ItemRun, Read, ReadWrite, UNIT, View, Whole, Write, describe,
};
use super::{
    ArgumentWriter, CpuFunction, CpuSpan, Element, GroupBy, Index, KernelDefinition, OwnImplementation,
    SortBy, Span, cpu_implementation,
};
use crate::memory::{FlashMemory, MemoryView};
use flash_types::abi::{self, Implementation};
use flash_types::descriptor::{ArgumentDescriptor, PartBy, part_by};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

impl<T: Element> FlashMemory<T> {
    /// Its elements, one after the other, for a closure that reads them: see
    /// [`for_each`](crate::RuntimeObj::for_each).
    pub fn r(&self) -> Item<'_, Read<T>> {
        Item::flat(self)
    }

    /// The same, for a closure that reads and writes them.
    pub fn rw(&self) -> Item<'_, ReadWrite<T>> {
        Item::flat(self)
    }

    /// The same, for a closure that sets all of them and reads none.
    pub fn w(&self) -> Item<'_, Write<T>> {
        Item::flat(self)
    }
}

impl<'a, T: Element> MemoryView<'a, T> {
    /// As [`FlashMemory::r`].
    pub fn r(self) -> Item<'a, Read<T>> {
        Item::flat_view(self)
    }

    /// As [`FlashMemory::rw`].
    pub fn rw(self) -> Item<'a, ReadWrite<T>> {
        Item::flat_view(self)
    }

    /// As [`FlashMemory::w`].
    pub fn w(self) -> Item<'a, Write<T>> {
        Item::flat_view(self)
    }
}

/// What a closure over elements takes: an array, as [`FlashMemory::r`], [`rw`](FlashMemory::rw) or
/// [`w`](FlashMemory::w) give it, or a tuple of up to eight of them, in any order.
///
/// # Safety
/// `describe`, `pack` and `bind` go over the same arguments in the same order, which are all items along
/// dimension 0; `each` touches no element but the items' own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of arrays for a closure",
    label = "write `memory.r()`, `memory.rw()` or `memory.w()`, or a tuple of up to eight of them"
)]
pub unsafe trait ClosureArguments {
    /// The same types for ever: the identity of the definition.
    #[doc(hidden)]
    type Static: 'static;
    /// What the closure gets: a reference, a mutable reference or an [`Out`](super::views::Out) for each
    /// array.
    type Elements<'k>;
    #[doc(hidden)]
    type Bound;
    #[doc(hidden)]
    type Run: 'static;
    #[doc(hidden)]
    fn describe() -> Vec<ArgumentDescriptor>;
    #[doc(hidden)]
    fn pack(&mut self, to: &mut impl ArgumentWriter);
    /// # Safety
    /// `args` are those arguments of a launch that was proved.
    #[doc(hidden)]
    unsafe fn bind(args: *const abi::Arg) -> Self::Bound;
    #[doc(hidden)]
    fn is_adjacent(bound: &Self::Bound) -> bool;
    /// # Safety
    /// `index` is that of a work item.
    #[doc(hidden)]
    unsafe fn run(bound: &Self::Bound, index: &[usize]) -> Self::Run;
    /// Calls a closure for each item of a run. The arrays are slices among its arguments, so that the
    /// compiler knows that what the closure writes is nothing that it refers to.
    ///
    /// # Safety
    /// The run has `len` items, which have no other user.
    #[doc(hidden)]
    unsafe fn each<F: for<'k> Fn(Self::Elements<'k>)>(closure: &F, run: &Self::Run, len: usize);
}

/// Names of the arguments after the closure.
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

macro_rules! lists {
    ($(($($a:ident $at:tt),+))*) => {$(
        // SAFETY: each function goes over the tuple from its first element to its last; `each` calls the
        // views' own constructors.
        unsafe impl<'a, $($a: ItemAccess + 'static),+> ClosureArguments for ($(Item<'a, $a>,)+) {
            type Static = ($(Item<'static, $a>,)+);
            type Elements<'k> = ($($a::Item<'k>,)+);
            type Bound = ($(ItemBound<$a>,)+);
            type Run = ($(ItemRun<$a>,)+);
            fn describe() -> Vec<ArgumentDescriptor> {
                vec![$(describe::<Item<'static, $a>>(NAMES[$at], &[0], None)),+]
            }
            #[inline(always)]
            fn pack(&mut self, to: &mut impl ArgumentWriter) {
                $(to.array(self.$at.array());)+
            }
            #[inline(always)]
            unsafe fn bind(args: *const abi::Arg) -> Self::Bound {
                // SAFETY: the caller vouches.
                unsafe { ($(ItemBound::new(&*args.add($at)),)+) }
            }
            #[inline(always)]
            fn is_adjacent(bound: &Self::Bound) -> bool {
                $(bound.$at.is_adjacent::<UNIT>())&&+
            }
            #[inline(always)]
            unsafe fn run(bound: &Self::Bound, index: &[usize]) -> Self::Run {
                // SAFETY: the caller vouches.
                unsafe { ($(bound.$at.run::<UNIT>(index, &[0]),)+) }
            }
            unsafe fn each<Call: for<'k> Fn(Self::Elements<'k>)>(closure: &Call, run: &Self::Run, len: usize) {
                /// # Safety
                /// The slices have `len` items.
                #[inline(never)]
                #[allow(non_snake_case, clippy::too_many_arguments)] // a slice for each type
                unsafe fn over<Call, $($a: ItemAccess),+>(closure: &Call, len: usize, $(mut $a: $a::Slice<'_>),+)
                where
                    Call: for<'k> Fn(($($a::Item<'k>,)+)),
                {
                    for i in 0..len {
                        // SAFETY: the caller vouches; each item is given out once at a time.
                        closure(unsafe { ($($a::nth(&mut $a, i),)+) });
                    }
                }
                // SAFETY: the caller vouches.
                unsafe { over::<Call, $($a),+>(closure, len, $(run.$at.slice(len)),+) }
            }
        }
    )*};
}

lists! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

// SAFETY: as the tuple of one.
unsafe impl<'a, A: ItemAccess + 'static> ClosureArguments for Item<'a, A> {
    type Static = Item<'static, A>;
    type Elements<'k> = A::Item<'k>;
    type Bound = ItemBound<A>;
    type Run = ItemRun<A>;
    fn describe() -> Vec<ArgumentDescriptor> {
        <(Item<'static, A>,)>::describe()
    }
    #[inline(always)]
    fn pack(&mut self, to: &mut impl ArgumentWriter) {
        to.array(self.array());
    }
    #[inline(always)]
    unsafe fn bind(args: *const abi::Arg) -> Self::Bound {
        // SAFETY: the caller vouches.
        unsafe { ItemBound::new(&*args) }
    }
    #[inline(always)]
    fn is_adjacent(bound: &Self::Bound) -> bool {
        bound.is_adjacent::<UNIT>()
    }
    #[inline(always)]
    unsafe fn run(bound: &Self::Bound, index: &[usize]) -> Self::Run {
        // SAFETY: the caller vouches.
        unsafe { bound.run::<UNIT>(index, &[0]) }
    }
    unsafe fn each<Call: for<'k> Fn(Self::Elements<'k>)>(closure: &Call, run: &Self::Run, len: usize) {
        let of_one = |(element,): (A::Item<'_>,)| closure(element);
        // SAFETY: the caller vouches.
        unsafe { <(Item<'a, A>,)>::each(&of_one, &(*run,), len) }
    }
}

/// The definition: a closure, as two addresses, and the arrays.
pub(crate) struct ForEach<'a, L> {
    closure: Whole<'a, Read<u64>>,
    arrays: L,
}

/// A run of items for a closure.
pub(crate) struct ClosureRun<L: ClosureArguments> {
    /// The two addresses.
    closure: *const u64,
    arrays: L::Run,
}

/// Calls a closure for the first items of a run: the closure, the run, how many.
type Call<L> = unsafe fn(*const (), &<L as ClosureArguments>::Run, usize);

impl<'a, L: ClosureArguments> ForEach<'a, L> {
    /// A launch of a closure whose addresses are these [`words`].
    pub fn of(closure: &'a [u64; 2], arrays: L) -> ForEach<'a, L> {
        ForEach { closure: Whole::of_words(closure), arrays }
    }
}

/// The addresses of a closure and of a function that calls it for a run.
pub(crate) fn words<L, F>(closure: &F) -> [u64; 2]
where
    L: ClosureArguments,
    F: for<'k> Fn(L::Elements<'k>) + Sync,
{
    let call: Call<L> = call::<L, F>;
    [std::ptr::from_ref(closure).expose_provenance(), (call as *const ()).expose_provenance()]
        .map(|address| address as u64)
}

/// # Safety
/// `closure` is an `F` that lives, and the run has `len` items that have no other user.
unsafe fn call<L, F>(closure: *const (), run: &L::Run, len: usize)
where
    L: ClosureArguments,
    F: for<'k> Fn(L::Elements<'k>) + Sync,
{
    // SAFETY: the caller vouches.
    unsafe { L::each(&*closure.cast::<F>(), run, len) };
}

/// Runs all closures.
struct Closures;

impl<L: ClosureArguments> CpuSpan<ForEach<'_, L>> for Closures {
    #[inline(always)]
    fn span(run: Span<1>, (closure, arrays): (*const u64, &L::Run)) {
        // SAFETY: the words that `words` made of a closure that is lent to the launch, with this list of
        // arrays; the run's items have no other user.
        unsafe {
            let [closure, call] = [*closure, *closure.add(1)]
                .map(|word| std::ptr::with_exposed_provenance::<()>(word as usize));
            let call = std::mem::transmute::<*const (), Call<L>>(call);
            call(closure, arrays, run.len());
        }
    }
}

// SAFETY: `arguments`, `pack` and `bind` have the closure first, then the list's arrays; `run` and `span`
// give what the list's own functions give.
unsafe impl<'a, L: ClosureArguments> KernelDefinition for ForEach<'a, L> {
    type Static = ForEach<'static, L::Static>;
    type Index = Index<1>;
    type Sort = SortBy<()>;
    type Group = GroupBy<()>;
    type Item<'k> = ();
    type Span<'k> = (*const u64, &'k L::Run);
    type Whole<'k> = ();
    type Bound = (*const u64, L::Bound);
    type Run = ClosureRun<L>;
    const NAME: &'static str = "flash.for_each";
    const DIMENSIONS: &'static [&'static str] = &["i"];

    fn part_by() -> Option<PartBy> {
        Some(part_by("i"))
    }

    fn arguments() -> Vec<ArgumentDescriptor> {
        let closure = describe::<Whole<'static, Read<u64>>>("closure", &[], None);
        std::iter::once(closure).chain(L::describe()).collect()
    }

    fn own() -> Option<OwnImplementation> {
        Some(|target| {
            static KNOWN: Mutex<BTreeMap<(TypeId, String), &'static Implementation>> =
                Mutex::new(BTreeMap::new());
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            let make = || {
                let function = CpuFunction::span::<ForEach<'a, L>, Closures>();
                let target = target.to_owned().leak();
                cpu_implementation::<ForEach<'a, L>>(function, "closure", target, 0, "", &[])
            };
            known.entry((TypeId::of::<Self::Static>(), target.to_owned())).or_insert_with(make)
        })
    }

    #[inline(always)]
    fn pack(&mut self, to: &mut impl ArgumentWriter) {
        to.array(self.closure.array());
        self.arrays.pack(to);
    }

    #[inline(always)]
    unsafe fn bind(args: *const abi::Arg) -> Self::Bound {
        // SAFETY: the caller vouches.
        unsafe { ((*args).data.cast_const().cast(), L::bind(args.add(1))) }
    }

    #[inline(always)]
    fn is_adjacent(bound: &Self::Bound) -> bool {
        L::is_adjacent(&bound.1)
    }

    #[inline(always)]
    unsafe fn run(bound: &Self::Bound, index: &[usize]) -> Self::Run {
        // SAFETY: the caller vouches.
        ClosureRun { closure: bound.0, arrays: unsafe { L::run(&bound.1, index) } }
    }

    unsafe fn item<'k>(_: &'k Self::Run, _: usize) -> Self::Item<'k> {}

    #[inline(always)]
    unsafe fn span<'k>(run: &'k Self::Run, _: usize) -> Self::Span<'k> {
        (run.closure, &run.arrays)
    }

    unsafe fn whole<'k>(_: &'k Self::Bound, _: Option<&[Range<u64>]>) -> Self::Whole<'k> {}
}
