//! Types of elements by name, arguments and dimensions as C has them.

use crate::error::{Failure, call};
use crate::handle::get;
use crate::memory::{Memory, MemoryHandle};
use crate::status::*;
use crate::text;
use flash_core::Error;
use flash_core::descriptor::{Element, ElementType};
use flash_core::index::{Dim, DimList, IntoDims, count_by};
use flash_core::memory::AnyType;
use flash_core::runtime::{AnyArgument, AnyArguments, BoundArguments, BoundKernel};
use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::{Mutex, OnceLock, PoisonError};

/// [`Value::kind`]: a number of C's type `int8_t`.
pub const VALUE_I8: u32 = 0;
/// [`Value::kind`]: a number of C's type `int16_t`.
pub const VALUE_I16: u32 = 1;
/// [`Value::kind`]: a number of C's type `int32_t`.
pub const VALUE_I32: u32 = 2;
/// [`Value::kind`]: a number of C's type `int64_t`.
pub const VALUE_I64: u32 = 3;
/// [`Value::kind`]: a number of C's type `uint8_t`.
pub const VALUE_U8: u32 = 4;
/// [`Value::kind`]: a number of C's type `uint16_t`.
pub const VALUE_U16: u32 = 5;
/// [`Value::kind`]: a number of C's type `uint32_t`.
pub const VALUE_U32: u32 = 6;
/// [`Value::kind`]: a number of C's type `uint64_t`.
pub const VALUE_U64: u32 = 7;
/// [`Value::kind`]: a number of C's type `size_t`.
pub const VALUE_USIZE: u32 = 8;
/// [`Value::kind`]: a number of C's type `float`.
pub const VALUE_F32: u32 = 9;
/// [`Value::kind`]: a number of C's type `double`.
pub const VALUE_F64: u32 = 10;
/// [`Value::kind`]: a value of any type, by its name and bytes.
pub const VALUE_BYTES: u32 = 16;
/// [`Value::kind`]: all of a memory.
pub const VALUE_MEMORY: u32 = 17;
/// [`Value::kind`]: a range of a memory's elements, which has no shape.
pub const VALUE_RANGE: u32 = 18;

/// An argument of a kernel. Made by `flash_as_f32(..)`, `flash_as_array(..)` and their like.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Value {
    /// `VALUE_*`: what it is.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// Of a number: its bits, the least significant ones of these. Of a memory or a range of it: the address
    /// that is its handle. Of `VALUE_BYTES`: the address of as many bytes as the type has.
    pub bits: u64,
    /// Of `VALUE_RANGE`: the first element. Of `VALUE_BYTES`: the address of the type's name, as in
    /// `flash_memory_create`.
    pub begin: u64,
    /// Of `VALUE_RANGE`: one past the last element.
    pub end: u64,
}

/// A dimension of a launch. Made by `flash_count(..)`, `flash_range(..)` and `flash_list(..)`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Dimension {
    /// The first index value.
    pub start: u64,
    /// Difference of neighbouring values, not 0.
    pub step: i64,
    /// Number of values.
    pub count: u64,
    /// The values themselves, `count` of them; NULL: as `start` and `step` say.
    pub values: *const u64,
}

/// The numbers by their kinds.
static TYPES: OnceLock<[AnyType; NUMBERS]> = OnceLock::new();

/// Kinds of numbers, from 0.
const NUMBERS: usize = 11;

#[inline]
fn numbers() -> &'static [AnyType; NUMBERS] {
    fn of<T: Element>() -> AnyType {
        AnyType::new(&ElementType::of::<T>()).expect("a type of a number")
    }
    TYPES.get_or_init(|| {
        [
            of::<i8>(),
            of::<i16>(),
            of::<i32>(),
            of::<i64>(),
            of::<u8>(),
            of::<u16>(),
            of::<u32>(),
            of::<u64>(),
            of::<usize>(),
            of::<f32>(),
            of::<f64>(),
        ]
    })
}

/// Types that the program has defined, by name.
static DEFINED: Mutex<Option<HashMap<String, ElementType>>> = Mutex::new(None);

/// Defines the type of a struct, for arrays and values of it: the name by which its kernels know it
/// (`crate::Type`, or the one in `#[element(name = "..")]`), its size and its alignment in bytes.
///
/// Defining it again is allowed if it is the same. A kernel whose type of that name has another size or
/// alignment refuses the argument.
///
/// Errors: `POINTER` for NULL, `TEXT`, `SHAPE` for a size and alignment that no type has, or for a name that
/// has another size or alignment, or means something already.
///
/// # Safety
/// The name ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_type_define(name: *const c_char, size: usize, alignment: usize) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let name = unsafe { text::required(name, "the name of a type")? };
        let element = ElementType { name: name.to_owned(), size, align: alignment, layout: 0 };
        AnyType::new(&element)?;
        let known = match built_in(name) {
            Some(known) => Some((*known?).clone()),
            None => {
                let mut defined = DEFINED.lock().unwrap_or_else(PoisonError::into_inner);
                let kept = defined.get_or_insert_default().entry(name.to_owned()).or_insert(element.clone());
                Some(kept.clone())
            }
        };
        match known {
            Some(known) if known != element => {
                let text =
                    format!("type `{name}`: expected {known}, as it is known already, found {element}");
                Err(Failure::new(STATUS_SHAPE, text))
            }
            _ => Ok(()),
        }
    })
}

/// The type of a name.
pub fn type_of(name: &str) -> Result<AnyType, Failure> {
    if let Some(known) = built_in(name) {
        return known;
    }
    let defined = DEFINED.lock().unwrap_or_else(PoisonError::into_inner);
    match defined.as_ref().and_then(|defined| defined.get(name)) {
        Some(element) => Ok(AnyType::new(element)?),
        None => Err(Failure::new(
            STATUS_SHAPE,
            format!(
                "expected the name of a type (i8 to i64, u8 to u64, usize, f32, f64, f16, bf16, an array of these such as `[f32; 3]`, or what flash_type_define has defined), found `{name}`"
            ),
        )),
    }
}

/// A number, or an array. `None`: the name is neither.
fn built_in(name: &str) -> Option<Result<AnyType, Failure>> {
    if let Some(found) = numbers().iter().find(|known| known.name == name) {
        return Some(Ok(*found));
    }
    let half = match name {
        "f16" => "half::binary16::f16",
        "bf16" => "half::bfloat::bf16",
        other => other,
    };
    if half.starts_with("half::") {
        let element = ElementType { name: half.to_owned(), size: 2, align: 2, layout: 0 };
        return Some(AnyType::new(&element).map_err(Failure::from));
    }
    let (inner, count) = name.strip_prefix('[')?.strip_suffix(']')?.rsplit_once(';')?;
    let count: usize = count.trim().parse().ok()?;
    Some(type_of(inner.trim()).and_then(|inner| {
        let size = inner.size.checked_mul(count).unwrap_or(0);
        let name = format!("[{}; {count}]", inner.name);
        Ok(AnyType::new(&ElementType { name, size, align: inner.align, layout: 0 })?)
    }))
}

/// A list that the caller has.
///
/// # Safety
/// The pointer is NULL, or to `count` values that do not change during the call.
pub unsafe fn list<'a, T>(first: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || !first.is_aligned() || count > isize::MAX as usize / size_of::<T>() {
        return Err(no_list(first.addr(), count, what));
    }
    // SAFETY: the caller vouches.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

#[cold]
#[inline(never)]
fn no_list(address: usize, count: usize, what: &str) -> Failure {
    Failure::new(STATUS_POINTER, format!("expected {count} {what}, found them at {address:#x}"))
}

/// Arguments from C.
pub struct Values<'a>(&'a [Value]);

impl<'a> Values<'a> {
    /// The list, of which nothing is checked.
    ///
    /// # Safety
    /// There are `count` at `values`, which nothing changes. Memories are handles of this library that no
    /// other thread frees; there are as many bytes as their types have; texts end with NUL.
    #[inline]
    pub unsafe fn new(values: *const Value, count: usize) -> Result<Values<'a>, Failure> {
        // SAFETY: the caller vouches.
        Ok(Values(unsafe { list(values, count, "arguments")? }))
    }

    /// The kernel with these.
    ///
    /// # Errors
    /// What is no argument; else what does not fit the kernel.
    #[inline(always)]
    pub fn of<'v>(&'v self, kernel: &'v BoundKernel) -> Result<BoundArguments<'v, Self>, Failure> {
        kernel.args(self).map_err(|error| self.fault(error))
    }

    /// Why a launch with these failed: the first that is no argument, or `error`.
    #[cold]
    pub fn fault(&self, error: Error) -> Failure {
        let check = |(position, value): (usize, &Value)| {
            // SAFETY: the caller of `new` vouches for what the kind says.
            unsafe {
                match value.kind {
                    kind if (kind as usize) < NUMBERS => {}
                    VALUE_MEMORY | VALUE_RANGE => _ = get::<Memory, _>(value.memory())?,
                    VALUE_BYTES => _ = value.bytes()?,
                    other => return Err(unknown(position, other)),
                }
            }
            Ok(())
        };
        self.0.iter().enumerate().try_for_each(check).err().unwrap_or_else(|| error.into())
    }
}

// SAFETY: the caller of `new` vouches that nothing changes them; a name has one type for ever.
unsafe impl AnyArguments for Values<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn at(&self, position: usize) -> Option<AnyArgument<'_>> {
        let value = &self.0[position];
        if value.kind == VALUE_MEMORY {
            // SAFETY: the caller of `new` vouches for a handle.
            let memory = unsafe { get::<Memory, _>(value.memory()) }.ok()?;
            return Some(AnyArgument::Memory(memory.any()));
        }
        match numbers().get(value.kind as usize) {
            Some(number) => {
                let all: &[u8; 8] = bytemuck::cast_ref(&value.bits);
                let first = if cfg!(target_endian = "big") { all.len() - number.size } else { 0 };
                Some(AnyArgument::Scalar(*number, &all[first..][..number.size]))
            }
            None => value.other(),
        }
    }
}

impl Value {
    #[inline(always)]
    fn memory(&self) -> *const MemoryHandle {
        std::ptr::with_exposed_provenance(self.bits as usize)
    }

    /// The value of `VALUE_BYTES`.
    ///
    /// # Safety
    /// Its name ends with NUL, and it has as many bytes as its type.
    unsafe fn bytes(&self) -> Result<AnyArgument<'_>, Failure> {
        let name = std::ptr::with_exposed_provenance(self.begin as usize);
        let bytes: *const u8 = std::ptr::with_exposed_provenance(self.bits as usize);
        // SAFETY: the caller vouches.
        unsafe {
            let element = type_of(text::required(name, "the name of an argument's type")?)?;
            Ok(AnyArgument::Scalar(element, list(bytes, element.size, "bytes")?))
        }
    }

    /// A range, or bytes.
    fn other(&self) -> Option<AnyArgument<'_>> {
        // SAFETY: the caller of `Values::new` vouches for what the kind says.
        unsafe {
            match self.kind {
                VALUE_RANGE => {
                    let memory = get::<Memory, _>(self.memory()).ok()?.any();
                    Some(AnyArgument::Range(memory, self.begin as usize..self.end as usize))
                }
                VALUE_BYTES => self.bytes().ok(),
                _ => None,
            }
        }
    }
}

#[cold]
fn unknown(position: usize, kind: u32) -> Failure {
    let text = format!(
        "argument number {position}: expected a kind of value (FLASH_VALUE_*), found {kind}: make values with flash_as_f32 and its like"
    );
    Failure::new(STATUS_ARGUMENT, text)
}

/// Dimensions from C.
pub struct Dimensions<'a>(&'a [Dimension]);

impl<'a> Dimensions<'a> {
    /// Checks them.
    ///
    /// # Safety
    /// Lists of values are as long as they say.
    #[inline]
    pub unsafe fn new(dimensions: &'a [Dimension]) -> Result<Dimensions<'a>, Failure> {
        for dimension in dimensions {
            if !dimension.values.is_null() {
                // SAFETY: the caller vouches.
                unsafe { list(dimension.values, dimension.count as usize, "index values")? };
            }
        }
        Ok(Dimensions(dimensions))
    }
}

impl Dimension {
    #[inline]
    fn dim(&self) -> Dim {
        match *self {
            Dimension { values, count, .. } if !values.is_null() && count > 0 => {
                // SAFETY: `Dimensions::new` has checked the pointer, and its caller vouches for the length.
                count_by(unsafe { std::slice::from_raw_parts(values, count as usize) })
            }
            Dimension { start: 0, step: 1, count, .. } => Dim::Count(count),
            Dimension { start, step, count, .. } => Dim::Range { start, step, count },
        }
    }
}

impl IntoDims for Dimensions<'_> {
    #[inline]
    fn push_into(self, dims: &mut DimList) {
        dims.extend(self.0.iter().map(Dimension::dim));
    }

    #[inline]
    fn are(self, known: &[Dim], dims: &mut DimList) -> bool {
        // Almost every launch has one count.
        if let ([Dimension { start: 0, step: 1, count, values }], [Dim::Count(same)]) = (self.0, known)
            && values.is_null()
            && count == same
        {
            return true;
        }
        dims.clear();
        self.push_into(dims);
        dims[..] == *known
    }
}
