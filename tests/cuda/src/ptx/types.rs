//! The types of PTX, and registers' bits as Rust's numbers.
//!
//! A register is 64 bits wide. Its value is as wide as its type, with zeros above.

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Ty {
    Pred,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    BF16,
    F32,
    F64,
}

impl Ty {
    pub fn named(name: &str) -> Option<Ty> {
        Some(match name {
            "pred" => Ty::Pred,
            "b8" => Ty::B8,
            "b16" => Ty::B16,
            "b32" => Ty::B32,
            "b64" => Ty::B64,
            "u8" => Ty::U8,
            "u16" => Ty::U16,
            "u32" => Ty::U32,
            "u64" => Ty::U64,
            "s8" => Ty::S8,
            "s16" => Ty::S16,
            "s32" => Ty::S32,
            "s64" => Ty::S64,
            "f16" => Ty::F16,
            "f16x2" => Ty::F16x2,
            "bf16" => Ty::BF16,
            "f32" => Ty::F32,
            "f64" => Ty::F64,
            _ => return None,
        })
    }

    pub fn bytes(self) -> usize {
        match self {
            Ty::Pred | Ty::B8 | Ty::U8 | Ty::S8 => 1,
            Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::BF16 => 2,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 | Ty::F16x2 => 4,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 => 8,
        }
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    pub fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F16x2 | Ty::BF16 | Ty::F32 | Ty::F64)
    }
}

/// A mask of the lowest bytes.
pub(crate) fn mask(bytes: usize) -> u64 {
    if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 }
}

/// A number in a register.
pub(crate) trait Word: Copy {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

/// An integer.
pub(crate) trait Int: Word + Ord {
    const BITS: u32;
    const SIGNED: bool;
    /// With its sign, if it has one.
    fn wide(self) -> i128;
    /// The lowest bits.
    fn narrow(wide: i128) -> Self;
    fn nearest(wide: i128) -> Self;
}

macro_rules! integers {
    ($($int:ident $unsigned:ident $signed:literal;)*) => {$(
        impl Word for $int {
            #[inline]
            fn of(bits: u64) -> Self {
                bits as $int
            }
            #[inline]
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
        }
        impl Int for $int {
            const BITS: u32 = $int::BITS;
            const SIGNED: bool = $signed;
            #[inline]
            fn wide(self) -> i128 {
                i128::from(self)
            }
            #[inline]
            fn narrow(wide: i128) -> Self {
                wide as $int
            }
            #[inline]
            fn nearest(wide: i128) -> Self {
                wide.clamp(i128::from($int::MIN), i128::from($int::MAX)) as $int
            }
        }
    )*};
}

integers! {
    u8 u8 false;
    u16 u16 false;
    u32 u32 false;
    u64 u64 false;
    i8 u8 true;
    i16 u16 true;
    i32 u32 true;
    i64 u64 true;
}

impl Word for f32 {
    #[inline]
    fn of(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
    #[inline]
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Word for f64 {
    #[inline]
    fn of(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    #[inline]
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

/// A half as the `f32` of the same value.
#[derive(Clone, Copy)]
pub(crate) struct Half(pub f32);

impl Word for Half {
    fn of(bits: u64) -> Self {
        let bits = bits as u32;
        let (sign, exponent, fraction) = ((bits & 0x8000) << 16, bits >> 10 & 0x1F, bits & 0x3FF);
        let size = match exponent {
            0 => {
                return Half((fraction as f32 * 2f32.powi(-24)).copysign(f32::from_bits(sign | 0x3F80_0000)));
            }
            31 => 0x7F80_0000 | fraction << 13,
            _ => ((exponent + 112) << 23) | (fraction << 13),
        };
        Half(f32::from_bits(sign | size))
    }

    /// The nearest, ties to even.
    fn bits(self) -> u64 {
        let sign = u64::from(self.0.to_bits() >> 16 & 0x8000);
        let size = self.0.abs();
        if size.is_nan() {
            return 0x7FFF;
        }
        if size >= 65520.0 {
            return sign | 0x7C00;
        }
        if size < 2f32.powi(-14) {
            // Numbers below the smallest normal one are multiples of 2^-24; the next above is the normal one.
            return sign | (size * 2f32.powi(24)).round_ties_even() as u64;
        }
        let bits = size.to_bits();
        let odd = bits >> 13 & 1;
        let rounded = bits + 0xFFF + odd;
        sign | u64::from((rounded >> 13) - (112 << 10))
    }
}

/// The function of a type of integers.
macro_rules! for_ints {
    ($ty:expr, $function:ident) => {
        match $ty {
            Ty::U8 | Ty::B8 => Some($function::<u8> as _),
            Ty::U16 | Ty::B16 => Some($function::<u16> as _),
            Ty::U32 | Ty::B32 => Some($function::<u32> as _),
            Ty::U64 | Ty::B64 => Some($function::<u64> as _),
            Ty::S8 => Some($function::<i8> as _),
            Ty::S16 => Some($function::<i16> as _),
            Ty::S32 => Some($function::<i32> as _),
            Ty::S64 => Some($function::<i64> as _),
            _ => None,
        }
    };
}
pub(crate) use for_ints;
