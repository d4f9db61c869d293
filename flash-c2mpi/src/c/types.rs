//! Datatypes, and the opaque types of handles.

use super::status::call;
use super::{place, text};
use crate::error::{Code, Error, Result};
use flash_core::descriptor::{Element, ElementType};
use flash_core::memory::AnyType;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a compute object points to, which is the library's.
pub struct mpix_compute_obj {
    _opaque: [u8; 0],
}
/// What a request points to, which is the library's.
pub struct mpix_request {
    _opaque: [u8; 0],
}
/// What an info points to, which is the library's.
pub struct mpix_info {
    _opaque: [u8; 0],
}

/// A compute object: the arguments of a child rank's function, in order.
pub type MPIX_ComputeObj = *mut mpix_compute_obj;
/// A send or a receive that goes on.
pub type MPIX_Request = *mut mpix_request;
/// Overrides of a claim.
pub type MPIX_Info = *mut mpix_info;
/// A type of elements.
pub type MPIX_Datatype = c_int;
/// A communicator.
pub type MPIX_Comm = c_int;
/// What runs where there is no implementation: it reads the arguments of `in`, and writes its results to the
/// arrays of `out`, which are the same. It returns 0, or the number of an error of its own.
pub type MPIX_Failsafe =
    Option<unsafe extern "C" fn(input: MPIX_ComputeObj, output: MPIX_ComputeObj) -> c_int>;

/// What was received.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MPIX_Status {
    /// The child rank that it is of.
    pub MPIX_SOURCE: c_int,
    /// Its tag.
    pub MPIX_TAG: c_int,
    /// 0, or the error of the call.
    pub MPIX_ERROR: c_int,
    /// Bytes of arrays that its kernels wrote.
    pub bytes: u64,
}

/// `MPIX_Argument.kind`: a scalar.
pub const SCALAR: c_int = 1;
/// `MPIX_Argument.kind`: an array of the program's, which is copied when it is sent and received.
pub const EXTERNAL: c_int = 2;
/// `MPIX_Argument.kind`: an array of the program's by `MPIX_Alloc_mem`, which is not copied.
pub const UNIFIED: c_int = 3;
/// `MPIX_Argument.kind`: a buffer of the framework.
pub const INTERNAL: c_int = 4;
/// `MPIX_Argument.kind`: an array of the compute object itself, which was received into an empty one.
pub const OWNED: c_int = 5;

/// An argument of a compute object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MPIX_Argument {
    /// `MPIX_SCALAR` and its like: where it is.
    pub kind: c_int,
    /// Its type, or that of its elements.
    pub datatype: c_int,
    /// Number of elements; 1 of a scalar.
    pub count: u64,
    /// Number of axes; 0 of a scalar.
    pub axes: c_int,
    /// Extents of the first 4 axes, axis 0 first, which is the fastest.
    pub shape: [u64; 4],
    /// Where an array's elements are; NULL: a scalar, or a buffer.
    pub data: *mut std::ffi::c_void,
}

/// No type.
pub const DATATYPE_NULL: c_int = 0;
/// C's type `int8_t`.
pub const INT8_T: c_int = 1;
/// C's type `int16_t`.
pub const INT16_T: c_int = 2;
/// C's type `int32_t`.
pub const INT32_T: c_int = 3;
/// C's type `int64_t`.
pub const INT64_T: c_int = 4;
/// C's type `uint8_t`; received, bytes of any type.
pub const UINT8_T: c_int = 5;
/// C's type `uint16_t`.
pub const UINT16_T: c_int = 6;
/// C's type `uint32_t`.
pub const UINT32_T: c_int = 7;
/// C's type `uint64_t`.
pub const UINT64_T: c_int = 8;
/// C's type `float`.
pub const FLOAT: c_int = 9;
/// C's type `double`.
pub const DOUBLE: c_int = 10;
/// C's type `size_t`.
pub const SIZE_T: c_int = 11;
/// A compute object, of which one is sent.
pub const COMPUTE_OBJ: c_int = 100;
/// The first of those that the program creates.
const FIRST_OF_PROGRAM: c_int = 1000;

/// Those of numbers, from 1.
fn numbers() -> &'static [AnyType; 11] {
    static NUMBERS: OnceLock<[AnyType; 11]> = OnceLock::new();
    fn of<T: Element>() -> AnyType {
        AnyType::new(&ElementType::of::<T>()).expect("a type of a number")
    }
    NUMBERS.get_or_init(|| {
        [
            of::<i8>(),
            of::<i16>(),
            of::<i32>(),
            of::<i64>(),
            of::<u8>(),
            of::<u16>(),
            of::<u32>(),
            of::<u64>(),
            of::<f32>(),
            of::<f64>(),
            of::<usize>(),
        ]
    })
}

/// Those that the program has created, or seen.
static OF_PROGRAM: Mutex<Vec<AnyType>> = Mutex::new(Vec::new());

/// The type of a number.
#[inline]
pub(super) fn type_of(datatype: MPIX_Datatype) -> Result<AnyType> {
    if let Some(number) = numbers().get((datatype as usize).wrapping_sub(1)) {
        return Ok(*number);
    }
    let created = OF_PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    let at = usize::try_from(datatype - FIRST_OF_PROGRAM.min(datatype)).unwrap_or_default();
    match created.get(at) {
        Some(created) if datatype >= FIRST_OF_PROGRAM => Ok(*created),
        _ => Err(Error::new(
            Code::Type,
            format!(
                "expected a datatype (MPIX_FLOAT and its like, or of MPIX_Type_create), found {datatype}"
            ),
        )),
    }
}

/// The type that this agrees with, if it is one of numbers, or the program has created or seen it.
pub(super) fn known(element: &ElementType) -> Option<AnyType> {
    let is_it = |of: &&AnyType| ElementType::agrees(of, element);
    let number = numbers().iter().find(is_it).copied();
    number.or_else(|| OF_PROGRAM.lock().unwrap_or_else(PoisonError::into_inner).iter().find(is_it).copied())
}

/// The number of a type, which it gets now if it has none.
pub(super) fn number_of(element: AnyType) -> MPIX_Datatype {
    if let Some(at) = numbers().iter().position(|number| *number == element) {
        return at as c_int + 1;
    }
    let mut created = OF_PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    let at = created.iter().position(|known| *known == element).unwrap_or_else(|| {
        created.push(element);
        created.len() - 1
    });
    FIRST_OF_PROGRAM + at as c_int
}

/// Creates the type of a struct: the name by which its kernels know it, such as `crate::Type`, its size and
/// its alignment in bytes. The same again gives the same number. A kernel whose type of that name has another
/// size or alignment refuses it.
///
/// Errors: `MPIX_ERR_TYPE` for a size and alignment that no type has; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `name` ends with NUL; `datatype` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Type_create(
    name: *const c_char,
    size: usize,
    alignment: usize,
    datatype: *mut MPIX_Datatype,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let (name, datatype) = unsafe { (text(name, "the name of a type")?, place(datatype, "datatype")?) };
        let element = ElementType { name: name.to_owned(), size, align: alignment, layout: 0 };
        let element = AnyType::new(&element).map_err(|error| Error::new(Code::Type, error.to_string()))?;
        *datatype = number_of(element);
        Ok(())
    })
}

/// The bytes of one element of a type.
///
/// Errors: `MPIX_ERR_TYPE`; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `size` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Type_size(datatype: MPIX_Datatype, size: *mut c_int) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        *unsafe { place(size, "size")? } = type_of(datatype)?.size as c_int;
        Ok(())
    })
}
