//! Memory of `MPIX_Alloc_mem`: the program has its address, and devices use it without copies of the host.
//!
//! Each allocation is one memory. It has a type when it is first an argument, and keeps that as long as a
//! compute object or a message has it. Freeing an allocation leaves it to those that still have it.

use crate::error::{Code, Error, Result};
use flash_core::descriptor::ElementType;
use flash_core::memory::{AnyMemory, AnyType};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The allocations by their addresses.
static ALLOCATIONS: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

struct Allocation {
    bytes: usize,
    memory: AnyMemory,
}

/// An array in an allocation.
pub(crate) struct Unified {
    pub memory: AnyMemory,
    /// `None`: all of it.
    pub range: Option<Range<usize>>,
}

/// Allocates memory of zeros, for arrays of any type.
///
/// # Errors
/// [`Code::Memory`].
pub fn allocate(bytes: usize) -> Result<*mut u8> {
    let byte = AnyType::new(&ElementType::of::<u8>())?;
    // Each has an address of its own.
    let memory = AnyMemory::fixed(byte, &[bytes.max(1) as u64])
        .map_err(|error| Error::new(Code::Memory, error.to_string()))?;
    let address = memory.address();
    let mut all = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    all.insert(address.expose_provenance(), Allocation { bytes: bytes.max(1), memory });
    Ok(address)
}

/// Frees what [`allocate`] gave, once no compute object and no message has it.
///
/// # Errors
/// [`Code::Argument`] if it is not the address of an allocation, or was freed.
pub fn free(address: *mut u8) -> Result<()> {
    let freed = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner).remove(&address.addr());
    match freed {
        Some(_) => Ok(()),
        None => {
            let text = format!(
                "expected an address that MPIX_Alloc_mem gave, found {address:p}: it is none, or freed"
            );
            Err(Error::new(Code::Argument, text))
        }
    }
}

/// The memory of an allocation, with the elements that it has as an argument, for a program in Rust that
/// launches kernels with it, too. `None`: the address is none that [`allocate`] gave.
pub fn memory_at(address: *const u8) -> Option<AnyMemory> {
    let all = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(&address.addr()).map(|allocation| allocation.memory.clone())
}

/// The memory of an array of this many elements, if its address is of an allocation.
///
/// # Errors
/// [`Code::Count`] if it leaves the allocation; [`Code::Type`] if that is in use as an array of another type
/// or shape.
pub(crate) fn find(data: *mut u8, element: AnyType, shape: &[u64]) -> Result<Option<Unified>> {
    let mut all = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((&base, allocation)) = all.range_mut(..=data.addr()).next_back() else { return Ok(None) };
    let offset = data.addr() - base;
    if offset >= allocation.bytes {
        return Ok(None);
    }
    let len = crate::object::count(element, shape)?;
    if len * element.size > allocation.bytes - offset {
        let text = format!(
            "expected at most {} bytes, as MPIX_Alloc_mem gave there, found {len} elements of `{}`",
            allocation.bytes - offset,
            element.name
        );
        return Err(Error::new(Code::Count, text));
    }
    let memory = &mut allocation.memory;
    let kept = if shape.len() > 1 { shape } else { &[] };
    if offset == 0 {
        let same = memory.element() == element && memory.len() == len && memory.shape() == kept;
        if same || memory.retype(element, shape).is_ok() {
            return Ok(Some(Unified { memory: memory.clone(), range: None }));
        }
    }
    // A part of it, which has no shape.
    let whole = (allocation.bytes / element.size) as u64;
    if memory.element() != element {
        let _ = memory.retype(element, &[whole]);
    }
    let first = offset / element.size;
    if memory.element() == element
        && offset.is_multiple_of(element.size)
        && first + len <= memory.len()
        && kept.is_empty()
    {
        return Ok(Some(Unified { memory: memory.clone(), range: Some(first..first + len) }));
    }
    let text = format!(
        "expected an array of `{}` as which memory of MPIX_Alloc_mem is in use ({} of them, shape {:?}), found {shape:?} of `{}`, {offset} bytes from its beginning: free or reset the compute objects that have it, or allocate it by itself",
        memory.element().name,
        memory.len(),
        memory.shape(),
        element.name
    );
    Err(Error::new(Code::Type, text))
}
