//! The memories of devices.

use crate::abi;
use std::ops::Range;

/// A device's copy of an array.
#[derive(Debug)]
pub(crate) struct DeviceCopy {
    pub buffer: abi::Buffer,
    /// The elements for which it has room: from the first to the last one that was ever needed.
    pub range: Range<u64>,
}
