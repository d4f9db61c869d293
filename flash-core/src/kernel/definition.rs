//! [`KernelDefinition`], which the derive implements.

use super::index::Rank;
use super::views::{Array, Operation};
use super::{Element, GroupTrait, SortTrait};
use flash_types::abi;
use flash_types::descriptor::{self, ArgumentDescriptor, Attributes, KernelDescriptor, PartBy, Searchable};
use flash_types::index::Group;
use std::ops::Range;

/// A type that names a kernel and fixes its arguments, dimensions and traits. Derive it.
///
/// # Safety
/// `arguments`, `pack`, `bind`, `run`, `item`, `span` and `whole` must agree: `pack` writes exactly
/// the arguments that `arguments` describes, in that order; `bind` reads that many; `item`, `span`
/// and `whole` touch, for the views described, only elements that the launch proofs cover.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kernel definition",
    label = "add `#[derive(KernelDefinition)]` and `#[kernel(name = \"..\", dims(..))]` to the struct"
)]
pub unsafe trait KernelDefinition: Sized {
    /// The same definition with `'static` arguments: the identity of a definition and its element types.
    type Static: 'static;
    /// `Index<N>`, N dimensions.
    type Index: Rank;
    /// `SortBy<..>`.
    type Sort: SortTrait;
    /// `GroupBy<..>`.
    type Group: GroupTrait;
    /// The arguments of the `item` door.
    type Item<'k>;
    /// The arguments of the `span` door.
    type Span<'k>;
    /// The arguments of the `whole` door.
    type Whole<'k>;
    /// Addresses and strides of one share.
    #[doc(hidden)]
    type Bound;
    /// Addresses of one run.
    #[doc(hidden)]
    type Run;
    /// Name, such as `nbody.accelerate`.
    const NAME: &'static str;
    /// Names of the dimensions.
    const DIMENSIONS: &'static [&'static str];
    /// How implementations are looked for.
    const SEARCHABLE: Searchable = Searchable::Exact;
    /// How a launch is cut; `None`: by the views.
    fn part_by() -> Option<PartBy> {
        None
    }
    /// An implementation that it has of itself.
    #[doc(hidden)]
    fn own() -> Option<OwnImplementation> {
        None
    }
    /// The arguments in order.
    fn arguments() -> Vec<ArgumentDescriptor>;
    /// Writes the argument values in order; takes the values that they own.
    fn pack(&mut self, to: &mut impl ArgumentWriter);
    /// Reads addresses and scalars.
    ///
    /// # Safety
    /// `args` points to as many arguments as `arguments` describes, of a launch that was proved.
    #[doc(hidden)]
    unsafe fn bind(args: *const abi::Arg) -> Self::Bound;
    /// Positions of the arguments that are accumulators.
    #[doc(hidden)]
    const REDUCES: &'static [usize] = &[];
    /// Their operations.
    #[doc(hidden)]
    fn operations() -> Vec<Operation> {
        Vec::new()
    }
    /// Moves to the accumulators of the block that has these rows, counted from the phase's first.
    ///
    /// # Safety
    /// The phase has these rows; their accumulators have no other user while `bound` is used.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn block(_bound: &mut Self::Bound, _rows: &Range<u64>) {}
    /// True if the elements of items with neighbouring values of dimension 0 are adjacent in each array where
    /// `item` and `span` take that for granted. Otherwise runs have to be of one item.
    #[doc(hidden)]
    #[inline(always)]
    fn is_adjacent(_bound: &Self::Bound) -> bool {
        true
    }
    /// Moves to the first item of a run along dimension 0.
    ///
    /// # Safety
    /// `index` is the index of a work item of the launch.
    #[doc(hidden)]
    unsafe fn run(bound: &Self::Bound, index: &[usize]) -> Self::Run;
    /// The arguments of item `i` of the run.
    ///
    /// # Safety
    /// The run has more than `i` items of consecutive values of dimension 0, of which there is one unless the
    /// arrays are adjacent (`is_adjacent`); this item's arguments have no other user.
    #[doc(hidden)]
    unsafe fn item<'k>(run: &'k Self::Run, i: usize) -> Self::Item<'k>;
    /// The arguments of `len` items of the run.
    ///
    /// # Safety
    /// As `item`, of the first `len` items of the run.
    #[doc(hidden)]
    unsafe fn span<'k>(run: &'k Self::Run, len: usize) -> Self::Span<'k>;
    /// The arguments of all items of a phase. `values`: per dimension the values that the space has. Of
    /// arrays that the index names, only the elements from the first to the last that they name. `None`: all
    /// of every array.
    ///
    /// # Safety
    /// Nothing else of the launch runs; or, with `values`, nothing that touches any of these elements.
    #[doc(hidden)]
    unsafe fn whole<'k>(bound: &'k Self::Bound, values: Option<&[Range<u64>]>) -> Self::Whole<'k>;
}

/// Gives the implementation that a definition has of itself, a function of this process, for a target of a
/// device that runs such.
pub type OwnImplementation = fn(target: &str) -> &'static abi::Implementation;

/// Takes the argument values of one submission, in order. A generated `pack` calls it; the runtime implements
/// it.
pub trait ArgumentWriter {
    /// The next argument is a scalar.
    fn scalar<T: Element>(&mut self, value: T);

    /// The next argument is an array.
    fn array(&mut self, array: &mut Array<'_>);
}

/// The descriptor of a definition.
pub fn descriptor_of<D: KernelDefinition>() -> KernelDescriptor {
    const { assert!(D::DIMENSIONS.len() == <D::Index as Rank>::N) };
    let name = |d: &usize| D::DIMENSIONS.get(*d).map_or_else(|| format!("#{d}"), |n| (*n).to_owned());
    let names = |dims: &[usize]| dims.iter().map(name).collect::<Vec<_>>();
    let mut attributes = Attributes::default();
    if !D::Sort::SORT.is_empty() {
        attributes.set(descriptor::SortBy(names(D::Sort::SORT)));
    }
    match D::Group::GROUP {
        None => {}
        Some(Group::Dims(dims)) => attributes.set(descriptor::GroupBy::Dims(names(dims))),
        Some(Group::Only(dims)) => attributes.set(descriptor::GroupBy::Only(names(dims))),
        Some(Group::Into { dim, values }) => {
            attributes.set(descriptor::GroupBy::Into(name(&dim), values.to_vec()))
        }
    }
    if let Some(part_by) = D::part_by() {
        attributes.set(part_by);
    }
    if D::SEARCHABLE != Searchable::Exact {
        attributes.set(D::SEARCHABLE);
    }
    KernelDescriptor {
        name: D::NAME.to_owned(),
        dimensions: D::DIMENSIONS.iter().map(|d| (*d).to_owned()).collect(),
        arguments: D::arguments(),
        attributes,
    }
}
