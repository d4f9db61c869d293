//! The types of one C variable: numbers and `bool`.

use super::value::{Expr, Plain, Scalar, Stage};

/// A number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number of the text for devices",
    label = "i8 to i64, u8 to u64, isize, usize, f32 and f64 are"
)]
pub trait Number: Scalar + PartialOrd {
    /// For integers, the unsigned type in which they wrap: C has no narrower arithmetic than `int`.
    const WRAPS: Option<&'static str>;
    /// True if it is below 0 for some bits.
    const SIGNED: bool;
    /// Bits.
    const BITS: u32 = 8 * size_of::<Self>() as u32;
    /// The name in Rust.
    const NAME: &'static str;
    /// The smallest and the largest value, in C.
    fn limits() -> [String; 2];
}

/// An integer.
#[diagnostic::on_unimplemented(message = "`{Self}` is no integer")]
pub trait Integer: Number {}

/// `f32` or `f64`.
#[diagnostic::on_unimplemented(message = "`{Self}` is no `f32` or `f64`")]
pub trait Float: Number {
    /// The integer of its bits.
    type Bits: Integer;
}

/// A type with `&`, `|` and `^`.
#[diagnostic::on_unimplemented(message = "`{Self}` has no bits")]
pub trait Bits: Scalar {}

macro_rules! scalar {
    ($type:ty, $c:literal, |$value:ident| $literal:expr) => {
        impl Stage for $type {
            type Value = Expr<$type>;
        }

        impl Plain for $type {
            fn constant(self) -> Expr<$type> {
                Expr::value(self.literal())
            }
        }

        impl Scalar for $type {
            const C: &'static str = $c;
            fn literal(self) -> String {
                let $value = self;
                $literal
            }
        }
    };
}

macro_rules! integers {
    ($($type:ident $c:literal $wraps:literal $suffix:literal $signed:literal;)*) => {$(
        scalar!($type, $c, |value| {
            if (value as i128) < 0 {
                // The smallest number has no positive one.
                format!("(({})({}{} - 1))", $c, (value as i128) + 1, $suffix)
            } else {
                format!("{value}{}", $suffix)
            }
        });

        impl Number for $type {
            const WRAPS: Option<&'static str> = Some($wraps);
            const SIGNED: bool = $signed;
            const NAME: &'static str = stringify!($type);
            fn limits() -> [String; 2] {
                [$type::MIN.literal(), $type::MAX.literal()]
            }
        }

        impl Integer for $type {}
        impl Bits for $type {}
    )*};
}
integers! {
    i8 "flash_i8" "flash_u32" "" true;
    u8 "flash_u8" "flash_u32" "u" false;
    i16 "short" "flash_u32" "" true;
    u16 "flash_u16" "flash_u32" "u" false;
    i32 "int" "flash_u32" "" true;
    u32 "flash_u32" "flash_u32" "u" false;
    i64 "flash_i64" "flash_u64" "l" true;
    u64 "flash_u64" "flash_u64" "ul" false;
    isize "flash_i64" "flash_u64" "l" true;
    usize "flash_u64" "flash_u64" "ul" false;
}

scalar!(bool, "bool", |value| value.to_string());
impl Bits for bool {}

macro_rules! floats {
    ($($type:ident $bits:ident $c:literal $suffix:literal;)*) => {$(
        scalar!($type, $c, |value| {
            let zero = format!("0.0{}", $suffix);
            match value {
                _ if value.is_nan() => format!("({zero} / {zero})"),
                $type::INFINITY => format!("(1.0{} / {zero})", $suffix),
                $type::NEG_INFINITY => format!("(-1.0{} / {zero})", $suffix),
                _ if value.is_sign_negative() => format!("({value:?}{})", $suffix),
                _ => format!("{value:?}{}", $suffix),
            }
        });

        impl Number for $type {
            const WRAPS: Option<&'static str> = None;
            const SIGNED: bool = true;
            const NAME: &'static str = stringify!($type);
            fn limits() -> [String; 2] {
                [$type::MIN.literal(), $type::MAX.literal()]
            }
        }

        impl Float for $type {
            type Bits = $bits;
        }
    )*};
}
floats! {
    f32 u32 "float" "f";
    f64 u64 "double" "";
}

/// The types that have no name of their own in both languages.
pub(super) const TYPES: &str =
    "typedef signed char flash_i8;\ntypedef unsigned char flash_u8;\ntypedef unsigned short flash_u16;\n";
