//! Memories, and the host's access to them.

use crate::error::{Failure, call};
use crate::handle::{get, give, kind, place, take};
use crate::status::*;
use crate::text::{self, for_c};
use crate::types::{list, type_of};
use flash_core::memory::{AnyMemory, AnyReadGuard, AnyWriteGuard};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};

/// An array that launches read and write. Any thread may use it, several at once.
pub struct MemoryHandle {
    _opaque: [u8; 0],
}

/// What its handle points to.
pub struct Memory {
    memory: AnyMemory,
    type_name: CString,
    /// Extent per axis.
    shape: Vec<u64>,
}

kind!(Memory, 2, "memory");

impl Memory {
    /// The memory itself.
    #[inline]
    pub fn any(&self) -> &AnyMemory {
        &self.memory
    }
}

/// What a memory is. Its pointers are valid until the memory is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemoryReport {
    /// The name of the type of its elements.
    pub type_name: *const c_char,
    /// Bytes of one element.
    pub element_size: usize,
    /// Number of elements.
    pub len: u64,
    /// Number of axes, at least 1.
    pub axes: usize,
    /// Extent per axis, axis 0 first, which is the fastest.
    pub shape: *const u64,
}

/// A range that this thread has mapped.
struct Mapping {
    address: *const u8,
    /// The memory's handle, which may be freed meanwhile.
    memory: *const MemoryHandle,
    _guard: Guard,
}

/// Held until the mapping ends.
#[allow(dead_code)] // only dropped
enum Guard {
    Read(AnyReadGuard),
    Write(AnyWriteGuard),
}

thread_local! {
    /// Those of this thread. A guard belongs to the thread that made it.
    static MAPPED: RefCell<Vec<Mapping>> = const { RefCell::new(Vec::new()) };
}

/// Creates an array, to be freed with `flash_memory_free`.
///
/// `type_name` is the type of its elements: `i8` to `i64`, `u8` to `u64`, `usize`, `f32`, `f64`,
/// `f16`, `bf16`; an array of these such as `[f32; 3]`; or what `flash_type_define` has defined. `shape` has
/// the extents of `axes` axes, axis 0 first, which is the fastest (a matrix of C with rows and columns has
/// the shape columns, rows; one of Fortran its own). `data` is copied: as many elements as the shape has,
/// without gaps. NULL: the array is zeros.
///
/// Errors: `SHAPE` for an unknown type, no axis, or an array larger than memory can be; `OUT_OF_MEMORY`;
/// `TEXT`; `POINTER`.
///
/// # Safety
/// `type_name` ends with NUL; `shape` has `axes` extents; `data` is NULL or has that many bytes; `memory` is
/// a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_memory_create(
    type_name: *const c_char,
    axes: usize,
    shape: *const u64,
    data: *const c_void,
    memory: *mut *mut MemoryHandle,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (name, shape) =
            unsafe { (text::required(type_name, "the name of a type")?, list(shape, axes, "extents")?) };
        if shape.is_empty() {
            return Err(Failure::new(STATUS_SHAPE, "expected at least 1 axis, found none"));
        }
        let element = type_of(name)?;
        let made = AnyMemory::zeroed(element, shape)?;
        if !data.is_null() && !made.is_empty() {
            // SAFETY: the caller vouches for as many bytes.
            let bytes = unsafe { list(data.cast::<u8>(), made.len() * element.size, "bytes")? };
            made.write()?.copy_from_slice(bytes);
        }
        let made = Memory { memory: made, type_name: for_c(&element.name)?, shape: shape.to_vec() };
        // SAFETY: the caller vouches.
        unsafe { give(made, memory) }
    })
}

/// What a memory is: type, length and shape.
///
/// Errors: `POINTER`.
///
/// # Safety
/// `memory` is a handle; `report` is a place for the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_memory_describe(
    memory: *const MemoryHandle,
    report: *mut MemoryReport,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (memory, report) = unsafe { (get::<Memory, _>(memory)?, place(report, "report of a memory")?) };
        *report = MemoryReport {
            type_name: memory.type_name.as_ptr(),
            element_size: memory.memory.element().size,
            len: memory.memory.len() as u64,
            axes: memory.shape.len(),
            shape: memory.shape.as_ptr(),
        };
        Ok(())
    })
}

/// Maps the elements from `begin` to before `end` for reading: `data` gets their address. Waits for launches
/// that write them, and brings to the host what is on a device.
///
/// The mapping belongs to this thread, which ends it with `flash_memory_unmap`. Until then the elements stay
/// as they are: a launch that writes some of them waits, or fails with `BORROWED`. Several may be mapped.
/// While a thread has a mapping it waits for no mapping of another thread.
///
/// Errors: `BORROWED` if it is mapped for writing; `POISONED`; `RANGE`; `NESTED` in a kernel;
/// `OUT_OF_MEMORY`; what a device says; `POINTER`.
///
/// # Safety
/// `memory` is a handle; `data` is a place for a pointer. Nothing is written through that pointer, nor read
/// after the mapping's end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_memory_map_read(
    memory: *const MemoryHandle,
    begin: u64,
    end: u64,
    data: *mut *const c_void,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (of, data) = unsafe { (get::<Memory, _>(memory)?, place(data, "address")?) };
        let guard = of.memory.read(begin as usize..end as usize)?;
        let address = guard.as_ptr();
        keep(Mapping { address, memory, _guard: Guard::Read(guard) });
        *data = address.cast();
        Ok(())
    })
}

/// Maps all of a memory for reading and writing: `data` gets its address. Waits for launches that use it. It
/// heals a memory that is poisoned; all of it should be written then.
///
/// The mapping belongs to this thread, which ends it with `flash_memory_unmap`. Until then a launch that uses
/// the memory waits, or fails with `BORROWED`.
///
/// Errors: `BORROWED` if it is mapped; `NESTED` in a kernel; `OUT_OF_MEMORY`; what a device says; `POINTER`.
///
/// # Safety
/// `memory` is a handle; `data` is a place for a pointer, which is not used after the mapping's end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_memory_map_write(memory: *const MemoryHandle, data: *mut *mut c_void) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (of, data) = unsafe { (get::<Memory, _>(memory)?, place(data, "address")?) };
        let mut guard = of.memory.write()?;
        let address = guard.as_mut_ptr();
        keep(Mapping { address, memory, _guard: Guard::Write(guard) });
        *data = address.cast();
        Ok(())
    })
}

fn keep(mapping: Mapping) {
    MAPPED.with_borrow_mut(|mapped| mapped.push(mapping));
}

/// Ends a mapping, by the address that it gave. A memory that was mapped several times at one address is
/// unmapped as often. What was mapped stays valid until then, even if the memory is freed before.
///
/// Errors: `POINTER` if this thread has no mapping of that memory at that address: it was unmapped already,
/// or another thread has mapped it, which must end it itself.
///
/// # Safety
/// None: `memory` and `data` are only compared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_memory_unmap(memory: *const MemoryHandle, data: *const c_void) -> i32 {
    call(|| {
        let ended = MAPPED.with_borrow_mut(|mapped| {
            let is_it = |one: &Mapping| one.address == data.cast() && one.memory == memory;
            mapped.iter().rposition(is_it).map(|at| mapped.remove(at))
        });
        // Not while the list is borrowed: what waits for it may run now.
        match ended {
            Some(mapping) => drop(mapping),
            None => {
                let text = format!(
                    "expected a mapping of this thread: the memory and address of flash_memory_map_read or flash_memory_map_write, found none at {data:p}"
                );
                return Err(Failure::new(STATUS_POINTER, text));
            }
        }
        Ok(())
    })
}

/// Frees a memory. NULL is allowed. Pipelines that use it, and mappings, keep what they need.
///
/// Errors: `POINTER` for what is no memory, or freed already.
///
/// # Safety
/// `memory` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_memory_free(memory: *mut MemoryHandle) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        drop(unsafe { take::<Memory, _>(memory)? });
        Ok(())
    })
}
