//! Types of elements by name, arguments and dimensions as C has them.

use crate::error::{Failure, call};
use crate::handle::get;
use crate::memory::{self, Memory};
use crate::status::*;
use crate::text;
use flash_core::descriptor::{Element, ElementType};
use flash_core::index::{Dim, DimList, IntoDims, count_by};
use flash_core::memory::AnyType;
use flash_core::runtime::AnyArgument;
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

/// [`Value::kind`]: [`Number::i8`].
pub const VALUE_I8: u32 = 0;
/// [`Value::kind`]: [`Number::i16`].
pub const VALUE_I16: u32 = 1;
/// [`Value::kind`]: [`Number::i32`].
pub const VALUE_I32: u32 = 2;
/// [`Value::kind`]: [`Number::i64`].
pub const VALUE_I64: u32 = 3;
/// [`Value::kind`]: [`Number::u8`].
pub const VALUE_U8: u32 = 4;
/// [`Value::kind`]: [`Number::u16`].
pub const VALUE_U16: u32 = 5;
/// [`Value::kind`]: [`Number::u32`].
pub const VALUE_U32: u32 = 6;
/// [`Value::kind`]: [`Number::u64`].
pub const VALUE_U64: u32 = 7;
/// [`Value::kind`]: `usize`, in [`Number::u64`].
pub const VALUE_USIZE: u32 = 8;
/// [`Value::kind`]: [`Number::f32`].
pub const VALUE_F32: u32 = 9;
/// [`Value::kind`]: [`Number::f64`].
pub const VALUE_F64: u32 = 10;
/// [`Value::kind`]: a value of any type: its bytes at [`Number::bytes`], its type's name in
/// [`Value::type_name`].
pub const VALUE_BYTES: u32 = 16;
/// [`Value::kind`]: all of the memory [`Number::memory`].
pub const VALUE_MEMORY: u32 = 17;
/// [`Value::kind`]: the elements from [`Value::begin`] to before [`Value::end`] of the memory
/// [`Number::memory`]. They have no shape.
pub const VALUE_RANGE: u32 = 18;

/// A number, or where a value is.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Number {
    /// An integer of 8 bits, signed.
    pub i8: i8,
    /// An integer of 16 bits, signed.
    pub i16: i16,
    /// An integer of 32 bits, signed.
    pub i32: i32,
    /// An integer of 64 bits, signed.
    pub i64: i64,
    /// An integer of 8 bits, unsigned.
    pub u8: u8,
    /// An integer of 16 bits, unsigned.
    pub u16: u16,
    /// An integer of 32 bits, unsigned.
    pub u32: u32,
    /// An integer of 64 bits, unsigned, and `size_t`.
    pub u64: u64,
    /// A number of single precision.
    pub f32: f32,
    /// A number of double precision.
    pub f64: f64,
    /// A memory's handle.
    pub memory: *const memory::MemoryHandle,
    /// The bytes of a value.
    pub bytes: *const c_void,
}

/// An argument of a kernel. Made by `flash_as_f32(..)`, `flash_as_array(..)` and their like.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Value {
    /// `VALUE_*`: which member of `number` counts.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// The number, or where the value is.
    pub number: Number,
    /// Of `VALUE_BYTES`: the type's name, as in `flash_memory_create`.
    pub type_name: *const c_char,
    /// Of `VALUE_RANGE`: the first element.
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
static NUMBERS: OnceLock<[AnyType; 11]> = OnceLock::new();

fn numbers() -> &'static [AnyType; 11] {
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
                let text = format!("type `{name}`: expected {known}, as it is known already, found {element}");
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
/// The pointer is NULL, or to so many values that do not change during the call.
pub unsafe fn list<'a, T>(first: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || !first.is_aligned() || count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::new(STATUS_POINTER, format!("expected {count} {what}, found them at {first:p}")));
    }
    // SAFETY: the caller vouches.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

impl Value {
    /// As the core has it.
    ///
    /// # Safety
    /// Its memory is a handle of this library that no other thread frees, its bytes are as many as its type
    /// has.
    #[inline]
    pub unsafe fn argument(&self, position: usize) -> Result<AnyArgument<'_>, Failure> {
        if let Some(number) = numbers().get(self.kind as usize) {
            // SAFETY: all of the union's bytes can be read as bytes if all were written, which C does for
            // those of the member that counts: they come first.
            let bytes = unsafe { std::slice::from_raw_parts((&raw const self.number).cast::<u8>(), number.size) };
            return Ok(AnyArgument::Scalar(*number, bytes));
        }
        // SAFETY: the caller vouches for the member that the kind names.
        unsafe {
            match self.kind {
                VALUE_MEMORY => Ok(AnyArgument::Memory(get::<Memory, _>(self.number.memory)?.any())),
                VALUE_RANGE => {
                    let memory = get::<Memory, _>(self.number.memory)?.any();
                    Ok(AnyArgument::Range(memory, self.begin as usize..self.end as usize))
                }
                VALUE_BYTES => {
                    let element = type_of(text::required(self.type_name, "the name of an argument's type")?)?;
                    Ok(AnyArgument::Scalar(element, list(self.number.bytes.cast(), element.size, "bytes")?))
                }
                other => Err(unknown(position, other)),
            }
        }
    }
}

#[cold]
fn unknown(position: usize, kind: u32) -> Failure {
    let text = format!("argument number {position}: expected a kind of value (FLASH_VALUE_*), found {kind}: make values with flash_as_f32 and its like");
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
