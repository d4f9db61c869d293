//! Facts that follow from a kernel's descriptor and its options alone: numbers in place of names.
//!
//! Nothing here depends on a device. The rules of a launch (`proof.rs`, `partition/`) use only these facts,
//! so that they stand below the [plan](super::plan), which adds the devices' implementations. Facts never
//! change.

use crate::error::Error;
use crate::kernel::views::Operation;
use flash_types::descriptor::{self, Access, Attributes, KernelDescriptor, Use, View};
use flash_types::index::{Group, OrderTraits};
use smallvec::SmallVec;

/// A kernel's descriptor with the names in its traits looked up.
pub(crate) struct KernelFacts {
    pub descriptor: KernelDescriptor,
    pub arguments: Vec<ArgumentFacts>,
    pub sort: Vec<usize>,
    pub group: Option<OwnedGroup>,
    /// Some argument is [`View::Phased`].
    pub phased: bool,
    /// Some argument is an accumulator.
    pub reduces: bool,
}

/// The facts about an argument.
pub(crate) struct ArgumentFacts {
    pub view: View,
    pub access: Access,
    pub row: bool,
    /// Elements that a work item owns along the first axes; empty: one along each.
    pub tile: SmallVec<[u64; 2]>,
    pub element_size: u32,
    pub along: SmallVec<[usize; 4]>,
    pub stages: Option<(usize, Vec<Use>)>,
    /// The argument that says where its rows begin.
    pub rows: Option<usize>,
    /// The operation of an accumulator.
    pub operation: Option<Operation>,
    /// It is a single accumulator.
    pub single: bool,
}

impl ArgumentFacts {
    /// True if the kernel promises to write every element of it.
    pub fn is_promised(&self) -> bool {
        self.view == View::Item && self.access == Access::Write
    }

    /// True if the setting `check_writes` looks at what a launch does to it.
    pub fn is_checked(&self) -> bool {
        self.is_promised() || self.is_scatter()
    }

    /// True if kernels may write any element of it.
    pub fn is_scatter(&self) -> bool {
        self.view == View::Scatter && self.rows.is_none()
    }

    /// Elements that a work item owns along an axis that the index names.
    pub fn tile_along(&self, axis: usize) -> u64 {
        self.tile.get(axis).copied().unwrap_or(1)
    }
}

/// An index [`Group`] that owns its lists.
#[derive(Clone)]
pub(crate) enum OwnedGroup {
    Dims(Vec<usize>),
    Only(Vec<usize>),
    Into(usize, Vec<u64>),
}

impl OwnedGroup {
    fn borrow(&self) -> Group<'_> {
        match self {
            OwnedGroup::Dims(dims) => Group::Dims(dims),
            OwnedGroup::Only(dims) => Group::Only(dims),
            OwnedGroup::Into(dim, values) => Group::Into { dim: *dim, values },
        }
    }
}

impl KernelFacts {
    /// Looks up the names in the traits among `attributes`. `operations`: per argument, those of
    /// accumulators.
    ///
    /// # Errors
    /// If a trait names a dimension that the kernel does not have.
    pub fn new(
        descriptor: KernelDescriptor,
        operations: &[Option<Operation>],
        attributes: &Attributes,
    ) -> Result<KernelFacts, Error> {
        let number = |option: &str, name: &String| match descriptor.dimensions.iter().position(|d| d == name)
        {
            Some(dim) => Ok(dim),
            None => Err(Error::Option {
                option: option.to_owned(),
                text: format!(
                    "kernel `{}` has no dimension `{name}`; it has {}",
                    descriptor.name,
                    descriptor.dimensions.join(", ")
                ),
            }),
        };
        let numbers = |option: &str, names: &[String]| {
            names.iter().map(|n| number(option, n)).collect::<Result<Vec<usize>, Error>>()
        };
        let sort = match attributes.get::<descriptor::SortBy>() {
            Some(descriptor::SortBy(names)) => numbers("sort_by", names)?,
            None => Vec::new(),
        };
        let group = match attributes.get::<descriptor::GroupBy>() {
            None => None,
            Some(descriptor::GroupBy::Dims(names)) => Some(OwnedGroup::Dims(numbers("group_by", names)?)),
            Some(descriptor::GroupBy::Only(names)) => Some(OwnedGroup::Only(numbers("group_by", names)?)),
            Some(descriptor::GroupBy::Into(name, values)) => {
                Some(OwnedGroup::Into(number("group_by", name)?, values.clone()))
            }
        };
        let arguments: Vec<ArgumentFacts> = descriptor
            .arguments
            .iter()
            .enumerate()
            .map(|(i, a)| ArgumentFacts {
                view: a.view,
                access: a.access,
                row: a.row,
                tile: a.tile.iter().copied().collect(),
                element_size: a.element.size as u32,
                along: a.along.iter().copied().collect(),
                stages: a.stages.clone(),
                rows: a.rows.filter(|starts| *starts < descriptor.arguments.len() && a.along.len() == 1),
                operation: operations.get(i).copied().flatten(),
                single: a.reduce.as_ref().is_some_and(|r| !r.array),
            })
            .collect();
        let [phased, reduces] =
            [View::Phased, View::Reduce].map(|view| arguments.iter().any(|a| a.view == view));
        Ok(KernelFacts { descriptor, arguments, sort, group, phased, reduces })
    }

    /// Order and barriers.
    #[inline]
    pub fn traits(&self) -> OrderTraits<'_> {
        OrderTraits { sort: &self.sort, group: self.group.as_ref().map(OwnedGroup::borrow) }
    }

    /// The error of the first accumulator whose operation is unknown here.
    pub fn unknown_operation(&self) -> Option<Error> {
        let (descriptor, arguments) = (&self.descriptor, &self.arguments);
        let unknown = |a: &ArgumentFacts| a.view == View::Reduce && a.operation.is_none();
        let argument = &descriptor.arguments[arguments.iter().position(unknown)?];
        let operation = argument.reduce.as_ref().map_or("an operation without a name", |r| &r.operation);
        Some(Error::Argument {
            kernel: descriptor.name.clone(),
            argument: argument.name.clone(),
            text: format!(
                "it is reduced by `{operation}` on {}: by name the operations Sum, Min and Max on numbers are known, and those of definitions with an implementation in this program: link the definition's crate, or submit `Definition::of(..)`",
                argument.element.name
            ),
        })
    }
}
