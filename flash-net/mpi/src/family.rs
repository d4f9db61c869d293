//! The families of MPI libraries, and the numbers that each has of its own.

use std::ffi::c_int;
use std::fmt;

/// Libraries with the same constants and the same layout of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI 4 and 5.
    OpenMpi,
    /// MPICH 3 to 5, and what keeps its binary interface: Intel MPI, MVAPICH.
    Mpich,
    /// The binary interface that MPI 5 defines.
    Standard,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH's interface",
            Family::Standard => "MPI 5's standard interface",
        })
    }
}

/// Numbers that each family has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// `MPI_ANY_SOURCE`.
    pub any_source: c_int,
    /// `MPI_ANY_TAG`.
    pub any_tag: c_int,
    /// `MPI_THREAD_SERIALIZED`.
    pub serialized: c_int,
    /// `MPI_THREAD_MULTIPLE`.
    pub multiple: c_int,
    /// `MPI_ERR_TRUNCATE`.
    pub truncated: c_int,
    /// Where `MPI_SOURCE` is in a status, counted in `int`.
    pub source: usize,
    /// Where `MPI_TAG` is.
    pub tag: usize,
    /// Bytes of a status.
    pub status: usize,
}

impl Family {
    /// Its numbers.
    pub fn numbers(self) -> Numbers {
        match self {
            Family::OpenMpi => Numbers {
                any_source: -1,
                any_tag: -1,
                serialized: 2,
                multiple: 3,
                truncated: 15,
                source: 0,
                tag: 1,
                status: 24,
            },
            Family::Mpich => Numbers {
                any_source: -2,
                any_tag: -1,
                serialized: 2,
                multiple: 3,
                truncated: 14,
                source: 2,
                tag: 3,
                status: 20,
            },
            Family::Standard => Numbers {
                any_source: -1,
                any_tag: -2,
                serialized: 2048,
                multiple: 4096,
                truncated: 15,
                source: 0,
                tag: 1,
                status: 32,
            },
        }
    }
}

/// `MPI_COMM_WORLD`, `MPI_BYTE`, `MPI_ERRORS_RETURN` and `MPI_REQUEST_NULL` of families whose handles are
/// numbers.
pub const MPICH_HANDLES: [c_int; 4] = [0x4400_0000, 0x4c00_010d, 0x5400_0001, 0x2c00_0000];
/// The same of the standard interface, whose handles are small addresses.
pub const STANDARD_HANDLES: [usize; 4] = [0x101, 0x247, 0x143, 0x180];
/// The same of Open MPI, whose handles are addresses of these symbols.
pub(crate) const OPEN_MPI_HANDLES: [&[u8]; 4] =
    [b"ompi_mpi_comm_world\0", b"ompi_mpi_byte\0", b"ompi_mpi_errors_return\0", b"ompi_request_null\0"];
