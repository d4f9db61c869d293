//! The traits of a definition as types: `SortBy<(D<0>, D<2>)>`, `GroupBy<Only<(D<1>,)>>`.

use flash_types::index::Group;
use std::marker::PhantomData;

/// Dimension number `N`, as a type.
pub struct D<const N: usize>;

/// The table is sorted by the dimensions `L`, a tuple of [`D`]; the highest-numbered is the most
/// significant. `()`: natural order.
pub struct SortBy<L>(PhantomData<L>);

/// The places of the barriers: `L` is a tuple of [`D`], [`Only`] of one, or [`Into`]. `()`: as the sort
/// defines them.
pub struct GroupBy<L>(PhantomData<L>);

/// A barrier stands where one of the dimensions `L` changes value, whatever the others do.
pub struct Only<L>(PhantomData<L>);

/// A barrier stands where the dimension `L` changes into one of the values `V`.
pub struct Into<L, V>(PhantomData<(L, V)>);

/// A list of index values, as a type.
pub trait Values {
    /// The values.
    const VALUES: &'static [u64];
}

/// A list of dimensions, as a type.
pub trait Dimensions {
    /// Their numbers.
    const DIMENSIONS: &'static [usize];
}

/// The list of a [`SortBy`].
pub trait SortTrait {
    /// The dimensions; empty: natural order.
    const SORT: &'static [usize];
}

/// The barriers of a [`GroupBy`].
pub trait GroupTrait {
    /// The barriers; `None`: as the sort defines them.
    const GROUP: Option<Group<'static>>;
}

impl<L: Dimensions> SortTrait for SortBy<L> {
    const SORT: &'static [usize] = L::DIMENSIONS;
}

impl GroupTrait for GroupBy<()> {
    const GROUP: Option<Group<'static>> = None;
}

impl<L: Dimensions> GroupTrait for GroupBy<Only<L>> {
    const GROUP: Option<Group<'static>> = Some(Group::Only(L::DIMENSIONS));
}

impl<const N: usize, V: Values> GroupTrait for GroupBy<Into<D<N>, V>> {
    const GROUP: Option<Group<'static>> = Some(Group::Into { dim: N, values: V::VALUES });
}

impl Dimensions for () {
    const DIMENSIONS: &'static [usize] = &[];
}

macro_rules! lists {
    ($(($($n:ident),+))*) => {$(
        impl<$(const $n: usize),+> Dimensions for ($(D<$n>,)+) {
            const DIMENSIONS: &'static [usize] = &[$($n),+];
        }
        impl<$(const $n: usize),+> GroupTrait for GroupBy<($(D<$n>,)+)> {
            const GROUP: Option<Group<'static>> = Some(Group::Dims(&[$($n),+]));
        }
    )*};
}

lists! { (A) (A, B) (A, B, C) (A, B, C, E) (A, B, C, E, F) (A, B, C, E, F, G) (A, B, C, E, F, G, H) (A, B, C, E, F, G, H, I) }
