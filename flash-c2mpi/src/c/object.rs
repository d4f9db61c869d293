//! Compute objects: built, sent, read.

use super::status::call;
use super::types::*;
use super::{OBJECTS, list, object, place, world};
use crate::error::{Code, Error};
use crate::object::ComputeObj;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

/// Creates an empty compute object, to be freed with `MPIX_ComputeObj_free`.
///
/// Errors: `MPIX_ERR_ARG` for NULL; `MPIX_ERR_NO_MEM`.
///
/// # Safety
/// `obj` is a place for a compute object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_create(obj: *mut MPIX_ComputeObj) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let obj = unsafe { place(obj, "compute object")? };
        let id = OBJECTS.insert(Arc::new(ComputeObj::new()))?;
        *obj = std::ptr::without_provenance_mut(id as usize);
        Ok(())
    })
}

/// Frees a compute object, and sets it to NULL. One that is NULL stays so. What was sent goes on.
///
/// Errors: `MPIX_ERR_OBJECT` for what is none, or freed already.
///
/// # Safety
/// `obj` points to a compute object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_free(obj: *mut MPIX_ComputeObj) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let obj = unsafe { place(obj, "compute object")? };
        if !obj.is_null() {
            OBJECTS.remove(super::id_of(*obj))?;
            *obj = std::ptr::null_mut();
        }
        Ok(())
    })
}

/// Removes all arguments and ranges.
///
/// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_BUSY`.
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_ComputeObj_reset(obj: MPIX_ComputeObj) -> c_int {
    call(|| object(obj)?.reset())
}

/// Adds a scalar, or a struct, as the next argument.
///
/// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_TYPE`; `MPIX_ERR_ARG` for NULL; `MPIX_ERR_BUSY`.
///
/// # Safety
/// There is a value of the type at `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_scalar(
    obj: MPIX_ComputeObj,
    value: *const c_void,
    datatype: MPIX_Datatype,
) -> c_int {
    call(|| {
        let element = type_of(datatype)?;
        // SAFETY: the caller vouches for as many bytes.
        let bytes = unsafe { list(value.cast::<u8>(), element.size, "bytes of a value")? };
        object(obj)?.add_scalar(element, bytes)
    })
}

/// Gives the scalar at a position, from 0, another value. Cheaper than to build the object anew.
///
/// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG` for a position without a scalar, or NULL; `MPIX_ERR_BUSY`.
///
/// # Safety
/// There is a value of the scalar's type at `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_set_scalar(
    obj: MPIX_ComputeObj,
    position: c_int,
    value: *const c_void,
) -> c_int {
    call(|| {
        let (obj, position) = (object(obj)?, position as usize);
        let size = obj.argument(position)?.element.size;
        // SAFETY: the caller vouches for as many bytes.
        obj.set_scalar(position, unsafe { list(value.cast::<u8>(), size, "bytes of a value")? })
    })
}

/// Adds an array of `count` elements as the next argument, as `MPIX_ComputeObj_array` with one axis.
///
/// Errors: as those of `MPIX_ComputeObj_array`.
///
/// # Safety
/// As for `MPIX_ComputeObj_array`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_vector(
    obj: MPIX_ComputeObj,
    data: *const c_void,
    count: u64,
    datatype: MPIX_Datatype,
) -> c_int {
    // SAFETY: the caller vouches.
    call(|| unsafe { object(obj)?.add_array(type_of(datatype)?, &[count], data.cast::<u8>().cast_mut()) })
}

/// Adds an array as the next argument. `shape` has the extents of `axes` axes, axis 0 first, which is the
/// fastest: a matrix of C with rows and columns has the shape columns, rows.
///
/// The array stays the program's. It is copied when the object is sent and, where the kernel writes it, when
/// it is received. An array in memory of `MPIX_Alloc_mem` is not copied: between the send and the receive it
/// is the kernel's. Arrays that are the same argument twice are one.
///
/// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_TYPE`, also for a part of memory of `MPIX_Alloc_mem` that is in use
/// as another array; `MPIX_ERR_COUNT` for a shape that memory cannot have; `MPIX_ERR_ARG` for NULL or an odd
/// address; `MPIX_ERR_BUSY`.
///
/// # Safety
/// There are as many elements at `data`, as long as the object has them; they may be written, where the
/// kernel writes. `shape` has `axes` extents.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_array(
    obj: MPIX_ComputeObj,
    data: *const c_void,
    axes: c_int,
    shape: *const u64,
    datatype: MPIX_Datatype,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe {
            let shape = list(shape, usize::try_from(axes).unwrap_or_default(), "extents")?;
            object(obj)?.add_array(type_of(datatype)?, shape, data.cast::<u8>().cast_mut())
        }
    })
}

/// Adds a buffer of `MPIX_CreateBuffer` as the next argument. It stays where devices have it.
///
/// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_RANK` for what is no buffer; `MPIX_ERR_INIT`; `MPIX_ERR_BUSY`.
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_ComputeObj_buffer(obj: MPIX_ComputeObj, buffer: c_int) -> c_int {
    call(|| world()?.add_buffer(&*object(obj)?, buffer))
}

/// Sets the index space of a kernel: its dimensions, from `begin` to before `end` each, dimension 0 first.
/// `kernel` is 0, or the number of a kernel in a pipeline. Without it each dimension is as long as the arrays
/// that it indexes item by item.
///
/// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG`; `MPIX_ERR_BUSY`. What does not fit the kernel is an error of
/// the send.
///
/// # Safety
/// `begin` and `end` have `dimensions` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_range(
    obj: MPIX_ComputeObj,
    kernel: c_int,
    dimensions: c_int,
    begin: *const u64,
    end: *const u64,
) -> c_int {
    call(|| {
        let count = usize::try_from(dimensions).unwrap_or_default();
        // SAFETY: the caller vouches.
        let (begin, end) = unsafe { (list(begin, count, "numbers")?, list(end, count, "numbers")?) };
        let ranges: Vec<Range<u64>> = begin.iter().zip(end).map(|(begin, end)| *begin..*end).collect();
        object(obj)?.set_dimensions(kernel as usize, &ranges)
    })
}

/// The number of arguments.
///
/// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG` for NULL; `MPIX_ERR_BUSY`.
///
/// # Safety
/// `count` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_count(obj: MPIX_ComputeObj, count: *mut c_int) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        *unsafe { place(count, "number")? } = object(obj)?.len()? as c_int;
        Ok(())
    })
}

/// What the argument at a position is, from 0. What devices have of an array comes to the host first.
/// `argument->data` is valid until the object is changed, sent, received or freed.
///
/// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG` for a position without an argument, or NULL; `MPIX_ERR_BUSY`.
///
/// # Safety
/// `argument` is a place for the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_get(
    obj: MPIX_ComputeObj,
    position: c_int,
    argument: *mut MPIX_Argument,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let to = unsafe { place(argument, "report of an argument")? };
        let found = object(obj)?.argument(position as usize)?;
        let mut shape = [0; 4];
        shape.iter_mut().zip(&found.shape).for_each(|(to, extent)| *to = *extent);
        *to = MPIX_Argument {
            kind: found.kind as c_int,
            datatype: number_of(found.element),
            count: found.shape.iter().product(),
            axes: found.shape.len() as c_int,
            shape,
            data: found.data.cast(),
        };
        Ok(())
    })
}

/// The value of the scalar at a position, from 0.
///
/// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG` for a position without a scalar, or NULL; `MPIX_ERR_TYPE` for
/// another type; `MPIX_ERR_BUSY`.
///
/// # Safety
/// `value` is a place for a value of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_ComputeObj_get_scalar(
    obj: MPIX_ComputeObj,
    position: c_int,
    value: *mut c_void,
    datatype: MPIX_Datatype,
) -> c_int {
    call(|| {
        let (found, element) = (object(obj)?.argument(position as usize)?, type_of(datatype)?);
        if found.scalar.is_empty() || value.is_null() {
            let text = format!("expected the position of a scalar, and a place for it, found {position}");
            return Err(Error::new(Code::Argument, text));
        }
        if found.element != element {
            let text =
                format!("argument {position}: expected `{}`, found `{}`", found.element.name, element.name);
            return Err(Error::new(Code::Type, text));
        }
        // SAFETY: the caller vouches for room for a value of the type.
        unsafe { std::ptr::copy_nonoverlapping(found.scalar.as_ptr(), value.cast(), found.scalar.len()) };
        Ok(())
    })
}
