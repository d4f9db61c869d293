//! Pipelines as data: written to a file, read back, run again.
//!
//! A [`Recording`] is made by [`Pipeline::recording`](crate::Pipeline::recording). It has the descriptors,
//! arguments, dimensions and options of the submissions, the shapes of the memories and, if asked for, their
//! contents. [`RuntimeObj::replay`](crate::RuntimeObj::replay) runs it.
//!
//! There are two forms of a file. **JSON** is for people and other programs; bytes (scalars, contents)
//! are base64, which is exact for every type, NaNs and plain structs included. The **binary** form is
//!
//! | bytes | contents |
//! |---|---|
//! | 8 | `FLASHREC` |
//! | 4 | version, little endian |
//! | 4 | CRC-32 of the rest, little endian |
//! | rest | kernels, memories, submissions in the [postcard](https://docs.rs/postcard) format |
//!
//! Descriptors and options are strings of JSON in it, because they are open-ended.
//!
//! Version 2 is written, versions 1 and 2 are read. They differ in one thing: in version 1 the kernels of
//! FLASH's own library have no namespace, `nbody.integrate` for example; in version 2 they are in `flash.`,
//! as `flash.nbody.integrate`. A recording that is read has the present names, so that saving it makes a file
//! of version 2. A program's own kernel that has a name of version 1, but other dimensions or arguments than
//! the library's, keeps it. The program that reads must have the library linked in: what comes from plugins
//! alone says no earlier names.
//!
//! A file is not trusted. [`Recording::check`] proves that indices, ranges, sizes and lengths fit each other,
//! and memory is allocated only for bytes that are in the file. A replay runs only kernels that are
//! registered in this program, with just the arguments that the file describes, or, if the file says that
//! numbers may widen, with wider numbers.
//!
//! A submission that is cut has the boxes that its partition map gave, as [`Parts`], for readers of the file.
//! A map that looks into arrays, such as `csr_rows`, is evaluated on their current contents, unless an
//! earlier submission writes them: then the boxes are known only when it runs, and the file has none. A
//! replay cuts anew, for the devices that it has, and evaluates each map when its submission's turn comes.

mod bytes;
mod check;
pub(crate) mod error;
mod file;
#[cfg(test)]
mod tests;

pub use error::RecordingError;

use crate::memory::ArrayLayout;
use flash_types::descriptor::{Attributes, ElementType, KernelDescriptor};
use flash_types::index::Dim;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Whether a recording has the contents of the memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// With the contents at the time of recording; a replay needs them.
    With,
    /// The structure only: kernels, dimensions, lengths, shapes, scalars.
    Without,
}

/// A pipeline as data.
///
/// # Examples
/// ```
/// use flash_core::recording::Recording;
/// let text = r#"{"format": "flash.recording", "version": 2,
///                "kernels": [], "memories": [], "submissions": []}"#;
/// let recording = Recording::from_json(text)?;
/// assert_eq!(Recording::from_bytes(&recording.to_bytes()?)?, recording);
/// let error = Recording::from_json(&text[..70]).unwrap_err();
/// assert!(error.to_string().contains("EOF"));
/// # Ok::<(), flash_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The kernels that are submitted, each once.
    pub kernels: Vec<KernelDescriptor>,
    /// Memories and slices of the host, in the order in which the submissions first name them.
    pub memories: Vec<Memory>,
    /// The submissions, in order.
    pub submissions: Vec<Submission>,
}

/// A memory of a recording, or a slice of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Type of one element. Its layout is not written: that of the argument that it is for counts.
    #[serde(with = "bytes::element")]
    pub element: ElementType,
    /// Elements.
    pub len: u64,
    /// Extent per axis, axis 0 fastest; empty if it was given none.
    #[serde(default)]
    pub shape: Vec<u64>,
    /// Its contents, `len` times the size of an element; numbers with the least significant byte first.
    #[serde(default, with = "bytes::optional")]
    pub data: Option<Vec<u8>>,
}

/// A submission of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Index of its kernel.
    pub kernel: u32,
    /// One per argument of the kernel's descriptor.
    pub arguments: Vec<Argument>,
    /// Dimension 0 first.
    pub dims: Vec<Dim>,
    /// Options of the submission, over those of the runtime that it was recorded on.
    #[serde(default, with = "bytes::text")]
    pub options: Attributes,
    /// Shapes that `sizes(..)` gave to the array arguments, in order; an empty one means none.
    #[serde(default)]
    pub sizes: Vec<Vec<u64>>,
    /// The cut at the time of recording. `None`: it runs whole, or its map looks into an array that an
    /// earlier submission writes, so that only an execution knows its contents.
    #[serde(default)]
    pub parts: Option<Parts>,
}

/// The parts of a submission, as the runtime that it was recorded on would run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Index of the dimension along which it was cut.
    pub dimension: u32,
    /// Per argument, extents of the grid that its boxes are in: its shape, with axes beyond the third folded
    /// into that; of a scalar 1, 1, 1.
    pub grids: Vec<[u64; 3]>,
    /// In the order of their positions.
    pub subspaces: Vec<Subspace>,
}

/// A part of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subspace {
    /// Id of the device; `None`: the next idle one.
    pub device: Option<String>,
    /// Positions along the dimension of the cut.
    pub positions: Range<u64>,
    /// Per argument, the elements that it may read.
    pub read: Vec<Elements>,
    /// Per argument, the elements that it may write.
    pub written: Vec<Elements>,
}

/// Elements of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Elements {
    /// None: it is a scalar, or has no such use.
    None,
    /// All.
    All,
    /// A box of its grid.
    Box {
        /// Per axis the first.
        begin: [u64; 3],
        /// Per axis one past the last.
        end: [u64; 3],
    },
}

/// An argument of a recorded submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Argument {
    /// A scalar's bytes.
    #[serde(with = "bytes")]
    Scalar(Vec<u8>),
    /// All of a memory, by its index.
    Memory(u32),
    /// A range of a memory, which has no shape.
    Part {
        /// Index of the memory.
        memory: u32,
        /// The first element.
        start: u64,
        /// One past the last element.
        end: u64,
    },
    /// A view of a memory with gaps. Programs from before there were such views refuse the file.
    Strided {
        /// Index of the memory.
        memory: u32,
        /// The first element.
        start: u64,
        /// Extent per axis.
        extents: Vec<u64>,
        /// Elements from neighbour to neighbour along each axis.
        strides: Vec<u64>,
    },
}

impl Recording {
    /// True if every memory's contents are in it.
    pub fn has_data(&self) -> bool {
        self.memories.iter().all(|m| m.data.is_some())
    }

    /// Indices of the memories that a submission writes, ascending.
    ///
    /// For a recording that [`check`](Self::check) refuses, it gives those that it can find.
    pub fn written_by(&self, submission: usize) -> Vec<usize> {
        let Some(submission) = self.submissions.get(submission) else {
            return Vec::new();
        };
        let Some(kernel) = self.kernels.get(submission.kernel as usize) else {
            return Vec::new();
        };
        let arguments = kernel.arguments.iter().zip(&submission.arguments);
        let written = arguments.filter(|(spec, _)| spec.access != flash_types::descriptor::Access::Read);
        let mut memories: Vec<usize> = written.filter_map(|(_, argument)| argument.memory()).collect();
        memories.sort_unstable();
        memories.dedup();
        memories
    }
}

impl Argument {
    /// Index of the memory that it is, or is a range of.
    pub fn memory(&self) -> Option<usize> {
        match self {
            Argument::Scalar(_) => None,
            Argument::Memory(memory) | Argument::Part { memory, .. } | Argument::Strided { memory, .. } => {
                Some(*memory as usize)
            }
        }
    }

    /// True if an element of its memory is one of it. The recording was [checked](Recording::check).
    pub fn has(&self, element: u64) -> bool {
        match self {
            Argument::Scalar(_) => false,
            Argument::Memory(_) => true,
            Argument::Part { start, end, .. } => (*start..*end).contains(&element),
            Argument::Strided { start, extents, strides, .. } => {
                element.checked_sub(*start).is_some_and(|at| ArrayLayout { extents, strides }.has(at))
            }
        }
    }
}
