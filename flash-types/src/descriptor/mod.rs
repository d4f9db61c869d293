//! The erased, serialisable form of kernel definitions, arguments and attributes.

mod attribute;
mod element;
mod limits;
mod options;
mod part;

pub use attribute::{
    Attribute, Attributes, Devices, GroupBy, Implementation, MemoryBudget, OnCaller, Priority, Searchable,
    SortBy, Subspaces, Weights, group_by, only, sort_by, weights,
};
pub use element::{Element, ElementType};
#[doc(hidden)]
pub use element::{Layout, Text};
pub use limits::{InFlight, Patience, Timeout};
pub use options::IntoOptions;
pub use part::{ArrayMap, AxisMap, PartBy, columns, csr_rows, matrix_product, part_by, rows, stencil, tiles};

use crate::abi;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// A kernel definition without its Rust type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelDescriptor {
    /// Name, such as `nbody.accelerate`.
    pub name: String,
    /// Names of the dimensions of the index space; dimension 0 varies fastest.
    pub dimensions: Vec<String>,
    /// Arguments in order.
    pub arguments: Vec<ArgumentDescriptor>,
    /// The definition's order and its other attributes.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentDescriptor {
    /// Name of the field.
    pub name: String,
    /// The kernel's view of it.
    pub view: View,
    /// The kernel's access to it.
    pub access: Access,
    /// Type of one element, or of the scalar.
    pub element: ElementType,
    /// True if the kernel sees a row of elements.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub row: bool,
    /// Elements that a work item owns along the first axes that its index names; empty: one along each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tile: Vec<u64>,
    /// The dimensions that index it; axis 0 of the array first (after the row, if any).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<usize>,
    /// For a phased argument: the dimension and its use per value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<(usize, Vec<Use>)>,
    /// Where its rows begin: the number of the argument that says it. Row `i` has the elements from offset
    /// `i` there up to offset `i + 1`, and `along` is the dimension that says which row is a work item's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    /// Partition maps may read its contents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub structure: bool,
    /// For an accumulator: its operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce: Option<Reduction>,
}

impl ArgumentDescriptor {
    /// The same, marked `#[structure]`.
    #[doc(hidden)]
    #[must_use]
    pub fn as_structure(self) -> ArgumentDescriptor {
        ArgumentDescriptor { structure: true, ..self }
    }

    /// The work items that own all elements along an axis that the index names, the first of which is 0.
    pub fn items_along(&self, axis: usize, extent: u64) -> u64 {
        extent.div_ceil(self.tile.get(axis).copied().unwrap_or(1).max(1))
    }
}

/// The operation of an accumulator on the values that kernels put into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reduction {
    /// `Sum`, `Min`, `Max`, or the path of the operation's type.
    pub operation: String,
    /// True for an array of accumulators.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub array: bool,
}

/// A kernel's view of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// A value.
    Scalar,
    /// An element or row per work item.
    Item,
    /// The whole array.
    Whole,
    /// The elements as the phase began, and the own element of the next.
    Phased,
    /// Atomic operations.
    Scatter,
    /// The box that the partition map gives.
    Window,
    /// Accumulators.
    Reduce,
}

/// A kernel's access to an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads it.
    Read,
    /// Reads and writes it.
    ReadWrite,
    /// Writes every element of the launch's range.
    Write,
}

/// A stage's use of a phased argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Any element is read.
    Read,
    /// The own element is read and written.
    Write,
    /// Two buffers: any element is read as it was, the own one is written.
    #[doc(hidden)]
    Both,
}

impl View {
    /// Its `ARG_*` code.
    #[inline]
    pub fn code(self) -> u32 {
        match self {
            View::Scalar => abi::ARG_SCALAR,
            View::Item => abi::ARG_ITEM,
            View::Whole => abi::ARG_WHOLE,
            View::Phased => abi::ARG_PHASED,
            View::Scatter => abi::ARG_SCATTER,
            View::Window => abi::ARG_WINDOW,
            View::Reduce => abi::ARG_REDUCE,
        }
    }

    /// The view of an `ARG_*` code.
    #[inline]
    pub fn of_code(code: u32) -> View {
        match code {
            abi::ARG_ITEM => View::Item,
            abi::ARG_WHOLE => View::Whole,
            abi::ARG_PHASED => View::Phased,
            abi::ARG_SCATTER => View::Scatter,
            abi::ARG_WINDOW => View::Window,
            abi::ARG_REDUCE => View::Reduce,
            _ => View::Scalar,
        }
    }
}

impl Access {
    /// Its `ACCESS_*` code.
    #[inline]
    pub fn code(self) -> u32 {
        match self {
            Access::Read => abi::ACCESS_READ,
            Access::ReadWrite => abi::ACCESS_READ_WRITE,
            Access::Write => abi::ACCESS_WRITE,
        }
    }

    /// The access of an `ACCESS_*` code.
    #[inline]
    pub fn of_code(code: u32) -> Access {
        match code {
            abi::ACCESS_READ_WRITE => Access::ReadWrite,
            abi::ACCESS_WRITE => Access::Write,
            _ => Access::Read,
        }
    }
}

impl KernelDescriptor {
    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a descriptor has only string keys")
    }

    /// From JSON.
    pub fn from_json(text: &str) -> Result<KernelDescriptor, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The numbers of the arguments with this name: of one argument, or of a group, whose arguments are
    /// called `name_0`, `name_1` and so on. Empty if there are none.
    pub fn called(&self, name: &str) -> Range<usize> {
        let named = |number: usize, name: &str| self.arguments.get(number).is_some_and(|a| a.name == name);
        let position = |name: &str| (0..self.arguments.len()).find(|number| named(*number, name));
        if let Some(number) = position(name) {
            return number..number + 1;
        }
        let first = position(&format!("{name}_0")).unwrap_or(self.arguments.len());
        let count = (0..).take_while(|at| named(first + at, &format!("{name}_{at}"))).count();
        first..first + count
    }

    /// The parts in which an implementation must agree: dimensions, and types and views of all arguments.
    pub fn signature(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
        format!("[{}]({})", self.dimensions.len(), arguments.join(", "))
    }

    /// Checks what a file or another process says of a kernel: types, and dimensions that arguments name.
    ///
    /// # Errors
    /// The argument, and what was expected and found.
    pub fn check(&self) -> Result<(), (&str, String)> {
        let dims = self.dimensions.len();
        for argument in &self.arguments {
            let fail = |text: String| Err((argument.name.as_str(), text));
            if let Err(text) = argument.element.check() {
                return fail(text);
            }
            if let Some(dim) = argument.along.iter().find(|d| **d >= dims) {
                return fail(format!("it is along dimension {dim}, the kernel has {dims}"));
            }
            if let Some(starts) = argument.rows {
                let is_starts =
                    |a: &ArgumentDescriptor| a.view == View::Whole && a.structure && a.element.is::<u64>();
                let is_ragged = matches!(
                    (argument.view, argument.access),
                    (View::Window, Access::Read) | (View::Scatter, Access::ReadWrite)
                );
                if !is_ragged
                    || argument.along.len() != 1
                    || !self.arguments.get(starts).is_some_and(is_starts)
                {
                    let text = format!(
                        "argument {starts} says where its rows begin, along {:?}: expected a `Whole` of u64 that is marked as structure, and one dimension, of a window or a scatter",
                        argument.along
                    );
                    return fail(text);
                }
            }
            if !argument.tile.is_empty() {
                let is_item = argument.view == View::Item && !argument.row;
                if !is_item || argument.tile.contains(&0) || argument.tile.len() > argument.along.len().min(2)
                {
                    let text = format!(
                        "a work item owns {:?} elements of it, expected one or two numbers above 0, for an item along as many dimensions",
                        argument.tile
                    );
                    return fail(text);
                }
            }
            match &argument.stages {
                Some((dim, _)) if *dim >= dims => {
                    return fail(format!("its stages are dimension {dim}, the kernel has {dims}"));
                }
                Some((_, uses)) if uses.is_empty() => {
                    return fail("its use is declared for no stage, expected one or more".into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// True if an implementation of the one is one of the other: they have the same signature, and types of
    /// the same name have the same layout.
    pub fn agrees(&self, other: &KernelDescriptor) -> bool {
        let mut pairs = self.arguments.iter().zip(&other.arguments);
        self.signature() == other.signature() && pairs.all(|(a, b)| a.element.agrees(&b.element))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "Read",
            Access::ReadWrite => "ReadWrite",
            Access::Write => "Write",
        })
    }
}

impl fmt::Display for ArgumentDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (access, element) = (self.access, &self.element.name);
        match self.view {
            View::Scalar => f.write_str(element)?,
            View::Item if self.row => write!(f, "Item<{access}<Row<{element}>>>")?,
            View::Item if self.tile.len() == 1 => {
                write!(f, "Item<{access}<Block<{element}, {}>>>", self.tile[0])?;
            }
            View::Item if !self.tile.is_empty() => {
                let extents: Vec<String> = self.tile.iter().map(u64::to_string).collect();
                write!(f, "Item<{access}<Tile<{element}, {}>>>", extents.join(", "))?;
            }
            View::Item => write!(f, "Item<{access}<{element}>>")?,
            View::Whole => write!(f, "Whole<{access}<{element}>>")?,
            View::Phased => write!(f, "Phased<{element}>")?,
            View::Scatter | View::Window if self.rows.is_some() => write!(f, "Ragged<{access}<{element}>>")?,
            View::Scatter => write!(f, "Scatter<{element}>")?,
            View::Window => write!(f, "Window<{access}<{element}>>")?,
            View::Reduce => {
                let (operation, array) =
                    self.reduce.as_ref().map_or(("?", false), |r| (&r.operation, r.array));
                match array {
                    true => write!(f, "Reduce<{access}<[{element}]>, {operation}>")?,
                    false => write!(f, "Reduce<{access}<{element}>, {operation}>")?,
                }
            }
        }
        if !self.along.is_empty() {
            write!(f, " along {:?}", self.along)?;
        }
        if let Some(starts) = self.rows {
            write!(f, ", rows by argument {starts}")?;
        }
        if let Some((dimension, uses)) = &self.stages {
            write!(f, " by stage {dimension}: {uses:?}")?;
        }
        Ok(())
    }
}
