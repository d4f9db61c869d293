//! Operators of the second function. Integers wrap, shifts are masked, `as` saturates; floats are rounded
//! after each operation, as the pragma and the options of the text say.

use super::facts::divides;
use super::number::{Bits, Float, Integer, Number};
use super::option::{OptionValue, some_if};
use super::value::{Expr, Scalar, Value};
use super::writer::{block, captured, define, fault, go_to_end, message};
use std::panic::Location;

/// A literal. Its type follows from its use, as in the kernel.
#[inline(never)]
pub fn literal<T: Scalar>(value: T) -> Expr<T> {
    value.constant()
}

/// A constant of the program.
pub fn constant<T: super::Plain>(value: T) -> T::Value {
    value.constant()
}

/// `a op b`, in the type that wraps.
#[inline(never)]
fn wrapped<T: Number>(a: &Expr<T>, operator: &str, b: &Expr<T>) -> Expr<T> {
    if let Some(known) = known(a, operator, b) {
        return known;
    }
    let (a, b) = (a.text(), b.text());
    Expr::value(match T::WRAPS {
        None => format!("({a} {operator} {b})"),
        Some(wraps) if wraps == T::C => format!("({a} {operator} {b})"),
        Some(wraps) => format!("(({})(({wraps}){a} {operator} ({wraps}){b}))", T::C),
    })
}

/// The literal of `a op b`, of integers that are literals, if it is one that does not wrap.
fn known<T: Number>(a: &Expr<T>, operator: &str, b: &Expr<T>) -> Option<Expr<T>> {
    T::WRAPS?;
    if operator != "*" && b.as_index() == Some(0) {
        return Some(a.read());
    }
    let (x, y) = (a.as_index()?, b.as_index()?);
    let value = match operator {
        "+" => x.checked_add(y)?,
        "-" => x.checked_sub(y)?,
        "*" => x.checked_mul(y)?,
        _ => return None,
    };
    let [_, most] = T::limits();
    let most = Expr::<T>::value(most).as_index()?;
    let text = a.text();
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (value <= most).then(|| Expr::value(format!("{value}{suffix}")))
}

/// `a + b`.
pub fn add<T: Number>(a: Expr<T>, b: Expr<T>) -> Expr<T> {
    wrapped(&a, "+", &b)
}

/// `a - b`.
pub fn sub<T: Number>(a: Expr<T>, b: Expr<T>) -> Expr<T> {
    wrapped(&a, "-", &b)
}

/// `a * b`.
pub fn mul<T: Number>(a: Expr<T>, b: Expr<T>) -> Expr<T> {
    wrapped(&a, "*", &b)
}

/// `a / b`.
#[track_caller]
pub fn div<T: Number>(a: Expr<T>, b: Expr<T>) -> Expr<T> {
    match T::WRAPS {
        None => Expr::value(format!("({} / {})", a.text(), b.text())),
        Some(_) => quotient("div", "/", &a, &b),
    }
}

/// `a % b`.
#[track_caller]
pub fn rem<T: Number>(a: Expr<T>, b: Expr<T>) -> Expr<T> {
    match T::WRAPS {
        None => Expr::value(format!("fmod({}, {})", a.text(), b.text())),
        Some(_) => quotient("rem", "%", &a, &b),
    }
}

/// A division of integers: by 0, and of the smallest by -1, it notes a fault and is 0.
#[track_caller]
#[inline(never)]
fn quotient<T: Number>(name: &str, operator: &str, a: &Expr<T>, b: &Expr<T>) -> Expr<T> {
    if b.is_literal() {
        return Expr::value(format!("(({})({} {operator} {}))", T::C, a.text(), b.text()));
    }
    let function = format!("flash_{name}_{}", T::NAME);
    let overflows = match T::SIGNED {
        true => format!(" || (b == -1 && a == {})", T::limits()[0]),
        false => String::new(),
    };
    let c = T::C;
    define(format!(
        "FLASH_FUNCTION {c} {function}({c} a, {c} b, flash_u64 fault, FLASH_GLOBAL const flash_u64 *flash_table) {{
    if (b == 0{overflows}) {{
        flash_fault(fault, flash_table);
        return 0;
    }}
    return ({c})(a {operator} b);
}}
"
    ));
    let fault = message(Location::caller(), "a division by 0, or one whose result has no value of its type");
    let (a, b) = (a.text(), b.text());
    let checked = format!("{function}({a}, {b}, {fault}, flash_table)");
    match divides(&b) {
        true => Expr::now(format!("FLASH_SURELY((({c})({a} {operator} {b})), {checked})")),
        false => Expr::now(checked),
    }
}

/// `-a`.
#[inline(never)]
pub fn neg<T: Number>(a: Expr<T>) -> Expr<T> {
    let text = a.text();
    Expr::value(match T::WRAPS {
        None => format!("(-{text})"),
        Some(wraps) => format!("(({})(0 - ({wraps}){text}))", T::C),
    })
}

/// `!a`.
#[inline(never)]
pub fn not<T: Bits>(a: Expr<T>) -> Expr<T> {
    let operator = if T::C == bool::C { "!" } else { "~" };
    Expr::value(format!("(({})({operator}{}))", T::C, a.text()))
}

#[inline(never)]
fn bitwise<T: Bits>(a: &Expr<T>, operator: &str, b: &Expr<T>) -> Expr<T> {
    Expr::value(format!("(({})({} {operator} {}))", T::C, a.text(), b.text()))
}

/// `a & b`.
pub fn bit_and<T: Bits>(a: Expr<T>, b: Expr<T>) -> Expr<T> {
    bitwise(&a, "&", &b)
}

/// `a | b`.
pub fn bit_or<T: Bits>(a: Expr<T>, b: Expr<T>) -> Expr<T> {
    bitwise(&a, "|", &b)
}

/// `a ^ b`.
pub fn bit_xor<T: Bits>(a: Expr<T>, b: Expr<T>) -> Expr<T> {
    bitwise(&a, "^", &b)
}

#[inline(never)]
fn shifted<T: Integer, U: Integer>(a: &Expr<T>, operator: &str, by: &Expr<U>, through: &str) -> Expr<T> {
    let mask = T::BITS - 1;
    Expr::value(format!("(({})(({through}){} {operator} ((int){} & {mask})))", T::C, a.text(), by.text()))
}

/// `a << by`.
pub fn shl<T: Integer, U: Integer>(a: Expr<T>, by: Expr<U>) -> Expr<T> {
    shifted(&a, "<<", &by, T::WRAPS.unwrap_or(T::C))
}

/// `a >> by`: of a signed number with its sign.
pub fn shr<T: Integer, U: Integer>(a: Expr<T>, by: Expr<U>) -> Expr<T> {
    shifted(&a, ">>", &by, T::C)
}

#[inline(never)]
fn compared<T: Scalar>(a: &Expr<T>, operator: &str, b: &Expr<T>) -> Expr<bool> {
    Expr::value(format!("({} {operator} {})", a.text(), b.text()))
}

/// `a == b`.
pub fn eq<T: Scalar>(a: Expr<T>, b: Expr<T>) -> Expr<bool> {
    compared(&a, "==", &b)
}

/// `a != b`.
pub fn ne<T: Scalar>(a: Expr<T>, b: Expr<T>) -> Expr<bool> {
    compared(&a, "!=", &b)
}

/// `a < b`.
pub fn lt<T: Number>(a: Expr<T>, b: Expr<T>) -> Expr<bool> {
    compared(&a, "<", &b)
}

/// `a <= b`.
pub fn le<T: Number>(a: Expr<T>, b: Expr<T>) -> Expr<bool> {
    compared(&a, "<=", &b)
}

/// `a > b`.
pub fn gt<T: Number>(a: Expr<T>, b: Expr<T>) -> Expr<bool> {
    compared(&a, ">", &b)
}

/// `a >= b`.
pub fn ge<T: Number>(a: Expr<T>, b: Expr<T>) -> Expr<bool> {
    compared(&a, ">=", &b)
}

/// `a && b`: `b` is computed only if `a` is true.
pub fn and(a: Expr<bool>, b: impl FnOnce() -> Expr<bool>) -> Expr<bool> {
    lazily(a, b, "&&", |name| format!("if ({name})"))
}

/// `a || b`: `b` is computed only if `a` is false.
pub fn or(a: Expr<bool>, b: impl FnOnce() -> Expr<bool>) -> Expr<bool> {
    lazily(a, b, "||", |name| format!("if (!{name})"))
}

fn lazily(
    a: Expr<bool>,
    b: impl FnOnce() -> Expr<bool>,
    operator: &str,
    head: impl FnOnce(&str) -> String,
) -> Expr<bool> {
    let a = a.read();
    let (b, said) = captured(|| b().read());
    if said.is_empty() {
        return Expr::value(format!("({} {operator} {})", a.text(), b.text()));
    }
    let result = a.variable("t");
    let name = result.path();
    let ((), assigned) = captured(|| result.assign(&b));
    block(&head(&name), &(said + &assigned), "");
    result.read()
}

/// A type that `as` takes.
pub trait Cast: Scalar {
    /// The name of it in functions of the text; a number's in Rust.
    const AS: &'static str;
    /// True for `f32` and `f64`.
    const IS_FLOAT: bool;
    /// The smallest and the largest value; none of `bool`.
    fn range() -> Option<[String; 2]>;
}

macro_rules! casts {
    ($($type:ident $float:literal)*) => {$(
        impl Cast for $type {
            const AS: &'static str = stringify!($type);
            const IS_FLOAT: bool = $float;
            fn range() -> Option<[String; 2]> {
                Some(<$type as Number>::limits())
            }
        }
    )*};
}
casts! { i8 false u8 false i16 false u16 false i32 false u32 false i64 false u64 false isize false usize false f32 true f64 true }

impl Cast for bool {
    const AS: &'static str = "bool";
    const IS_FLOAT: bool = false;
    fn range() -> Option<[String; 2]> {
        None
    }
}

/// `a as To`: from a float to an integer it saturates, and NaN is 0.
#[inline(never)]
pub fn cast<From: Cast, To: Cast>(a: Expr<From>) -> Expr<To> {
    let text = a.text();
    let Some([least, most]) = To::range().filter(|_| From::IS_FLOAT && !To::IS_FLOAT) else {
        return match From::AS == To::AS {
            true => Expr::value(text),
            false => Expr::value(format!("(({}){text})", To::C)),
        };
    };
    let (from, to) = (From::C, To::C);
    let function = format!("flash_{}_as_{}", From::AS, To::AS);
    define(format!(
        "FLASH_FUNCTION {to} {function}({from} x) {{
    return x >= ({from}){most} ? {most} : x > ({from}){least} ? ({to})x : x == x ? {least} : ({to})0;
}}
"
    ));
    Expr::value(format!("{function}({text})"))
}

/// Methods of numbers, by their names in Rust.
impl<T: Number> Expr<T> {
    #[inline(never)]
    fn call1(&self, function: &str) -> Expr<T> {
        Expr::value(format!("{function}({})", self.text()))
    }

    #[inline(never)]
    fn call2(&self, function: &str, other: &Expr<T>) -> Expr<T> {
        Expr::value(format!("{function}({}, {})", self.text(), other.text()))
    }

    /// Of floats that number of both which is no NaN.
    pub fn min(&self, other: Expr<T>) -> Expr<T> {
        self.either("<", "fmin", other)
    }

    /// Of floats that number of both which is no NaN.
    pub fn max(&self, other: Expr<T>) -> Expr<T> {
        self.either(">", "fmax", other)
    }

    #[inline(never)]
    fn either(&self, operator: &str, function: &str, other: Expr<T>) -> Expr<T> {
        if T::WRAPS.is_none() {
            return self.call2(function, &other);
        }
        let (a, b) = (self.read().named("a"), other.read().named("b"));
        let (a, b) = (a.text(), b.text());
        Expr::value(format!("({a} {operator} {b} ? {a} : {b})"))
    }

    /// At least `least`, at most `most`; a NaN stays.
    pub fn clamp(&self, least: Expr<T>, most: Expr<T>) -> Expr<T> {
        let [x, a, b] = [self.read().named("x"), least.read().named("a"), most.read().named("b")];
        let (x, a, b) = (x.text(), a.text(), b.text());
        Expr::value(format!("({x} < {a} ? {a} : {x} > {b} ? {b} : {x})"))
    }

    /// Without the sign; of integers it wraps.
    pub fn abs(&self) -> Expr<T> {
        if T::WRAPS.is_none() {
            return self.call1("fabs");
        }
        let a = self.read().named("a");
        let negative = neg(a);
        Expr::value(format!("({a} < 0 ? {} : {a})", negative.text(), a = a.text()))
    }
}

macro_rules! float_methods {
    ($($name:ident $c:literal)*) => {
        /// Functions of floats, by their names in Rust.
        impl<T: Float> Expr<T> {
            $(
                #[doc = concat!("`", stringify!($name), "` of the same type in Rust.")]
                pub fn $name(&self) -> Expr<T> {
                    self.call1($c)
                }
            )*
        }
    };
}
float_methods! {
    sqrt "sqrt" cbrt "cbrt" floor "floor" ceil "ceil" trunc "trunc" round "round" round_ties_even "rint"
    exp "exp" exp2 "exp2" exp_m1 "expm1" ln "log" ln_1p "log1p" log2 "log2" log10 "log10"
    sin "sin" cos "cos" tan "tan" asin "asin" acos "acos" atan "atan"
    sinh "sinh" cosh "cosh" tanh "tanh"
}

impl<T: Float> Expr<T> {
    /// `self * a + b`, rounded once.
    pub fn mul_add(&self, a: Expr<T>, b: Expr<T>) -> Expr<T> {
        Expr::value(format!("fma({}, {}, {})", self.text(), a.text(), b.text()))
    }

    /// Power.
    pub fn powf(&self, exponent: Expr<T>) -> Expr<T> {
        self.call2("pow", &exponent)
    }

    /// Whole power.
    pub fn powi(&self, exponent: Expr<i32>) -> Expr<T> {
        Expr::value(format!("pow({}, ({}){})", self.text(), T::C, exponent.text()))
    }

    /// The angle of the point (`x`, `self`).
    pub fn atan2(&self, x: Expr<T>) -> Expr<T> {
        self.call2("atan2", &x)
    }

    /// The length of (`self`, `other`).
    pub fn hypot(&self, other: Expr<T>) -> Expr<T> {
        self.call2("hypot", &other)
    }

    /// With the sign of `sign`.
    pub fn copysign(&self, sign: Expr<T>) -> Expr<T> {
        self.call2("copysign", &sign)
    }

    /// `1 / self`.
    pub fn recip(&self) -> Expr<T> {
        Expr::value(format!("(({})1 / {})", T::C, self.text()))
    }

    /// The part behind the point.
    pub fn fract(&self) -> Expr<T> {
        let x = self.read().named("x");
        Expr::value(format!("({0} - trunc({0}))", x.text()))
    }

    /// True for NaN.
    pub fn is_nan(&self) -> Expr<bool> {
        let x = self.read().named("x");
        Expr::value(format!("({0} != {0})", x.text()))
    }
}

/// Methods of integers.
impl<T: Integer> Expr<T> {
    /// `self + other`.
    pub fn wrapping_add(&self, other: Expr<T>) -> Expr<T> {
        add(self.read(), other)
    }

    /// `self - other`.
    pub fn wrapping_sub(&self, other: Expr<T>) -> Expr<T> {
        sub(self.read(), other)
    }

    /// `self * other`.
    pub fn wrapping_mul(&self, other: Expr<T>) -> Expr<T> {
        mul(self.read(), other)
    }

    /// `-self`.
    pub fn wrapping_neg(&self) -> Expr<T> {
        neg(self.read())
    }

    /// `self << by`.
    pub fn wrapping_shl(&self, by: Expr<u32>) -> Expr<T> {
        shl(self.read(), by)
    }

    /// `self >> by`.
    pub fn wrapping_shr(&self, by: Expr<u32>) -> Expr<T> {
        shr(self.read(), by)
    }

    /// `self + other`, if that is a value of the type.
    pub fn checked_add(&self, other: Expr<T>) -> OptionValue<Expr<T>> {
        let (a, b) = (self.read().named("a"), other.read().named("b"));
        let sum = add(a, b).named("sum");
        let fits = match T::SIGNED {
            true => format!("((({s} ^ {a}) & ({s} ^ {b})) >= 0)", s = sum.text(), a = a.text(), b = b.text()),
            false => format!("({} >= {})", sum.text(), a.text()),
        };
        some_if(Expr::value(fits), sum)
    }

    /// `self - other`, if that is a value of the type.
    pub fn checked_sub(&self, other: Expr<T>) -> OptionValue<Expr<T>> {
        let (a, b) = (self.read().named("a"), other.read().named("b"));
        let difference = sub(a, b).named("difference");
        let fits = match T::SIGNED {
            true => {
                let d = difference.text();
                format!("((({a} ^ {b}) & ({a} ^ {d})) >= 0)", a = a.text(), b = b.text())
            }
            false => format!("({} >= {})", a.text(), b.text()),
        };
        some_if(Expr::value(fits), difference)
    }

    /// The bits moved round.
    pub fn rotate_left(&self, by: Expr<u32>) -> Expr<T> {
        let (a, wraps) = (self.read().named("a"), T::WRAPS.unwrap_or(T::C));
        let (by, mask, a) = (by.read().named("by"), T::BITS - 1, a.text());
        let unsigned = match T::BITS {
            8 => "flash_u8",
            16 => "flash_u16",
            _ => wraps,
        };
        Expr::value(format!(
            "(({c})((({unsigned}){a} << ({by} & {mask})) | (({unsigned}){a} >> ((0 - {by}) & {mask}))))",
            c = T::C,
            by = by.text(),
        ))
    }
}

/// Methods of unsigned integers.
macro_rules! unsigned {
    ($($type:ty, $signed:ty;)*) => {$(
        impl Expr<$type> {
            /// `self + other`.
            pub fn wrapping_add_signed(&self, other: Expr<$signed>) -> Expr<$type> {
                add(self.read(), cast(other))
            }

            /// `self - other`, at least 0.
            pub fn saturating_sub(&self, other: Expr<$type>) -> Expr<$type> {
                let (a, b) = (self.read().named("a"), other.read().named("b"));
                // Vectorised code has a maximum and a difference, and no select of a difference.
                let larger = Expr::value(format!("({0} > {1} ? {0} : {1})", a.text(), b.text()));
                sub(larger, b)
            }

            /// `self * other`, if that is a value of the type.
            pub fn checked_mul(&self, other: Expr<$type>) -> OptionValue<Expr<$type>> {
                let (a, b) = (self.read().named("a"), other.read().named("b"));
                let product = mul(a, b).named("product");
                let (p, a, b) = (product.text(), a.text(), b.text());
                some_if(Expr::value(format!("({b} == 0 || {p} / {b} == {a})")), product)
            }

            /// `self / other`, if `other` is not 0.
            pub fn checked_div(&self, other: Expr<$type>) -> OptionValue<Expr<$type>> {
                self.checked_quotient("/", other)
            }

            /// The rest of a division, if `other` is not 0.
            pub fn checked_rem(&self, other: Expr<$type>) -> OptionValue<Expr<$type>> {
                self.checked_quotient("%", other)
            }

            fn checked_quotient(&self, operator: &str, other: Expr<$type>) -> OptionValue<Expr<$type>> {
                let (a, b) = (self.read().named("a"), other.read().named("b"));
                let fits = Expr::<bool>::value(format!("({} != 0)", b.text())).named("fits");
                let (c, f, a, b) = (<$type>::C, fits.text(), a.text(), b.text());
                some_if(fits, Expr::value(format!("(({c})({f} ? {a} {operator} {b} : 0))")))
            }

            /// True if some multiple of `other` is `self`.
            pub fn is_multiple_of(&self, other: Expr<$type>) -> Expr<bool> {
                let (a, b) = (self.read().named("a"), other.read().named("b"));
                Expr::value(format!("({b} == 0 ? {a} == 0 : {a} % {b} == 0)", a = a.text(), b = b.text()))
            }

            /// `self / other`, rounded up.
            #[track_caller]
            pub fn div_ceil(&self, other: Expr<$type>) -> Expr<$type> {
                let (a, b) = (self.read().named("a"), other.read().named("b"));
                let (whole, rest) = (div(a, b).named("q"), rem(a, b));
                Expr::value(format!("(({})({} + ({} != 0)))", <$type>::C, whole.text(), rest.text()))
            }

            /// The distance of both.
            pub fn abs_diff(&self, other: Expr<$type>) -> Expr<$type> {
                let (a, b) = (self.read().named("a"), other.read().named("b"));
                let (up, down) = (sub(b, a), sub(a, b));
                Expr::value(format!("({} < {} ? {} : {})", a.text(), b.text(), up.text(), down.text()))
            }
        }
    )*};
}
unsigned! { u8, i8; u16, i16; u32, i32; u64, i64; usize, isize; }

macro_rules! reinterpreted {
    ($($float:ident $bits:ident $to:literal $from:literal;)*) => {$(
        impl Expr<$float> {
            /// Its bits.
            pub fn to_bits(&self) -> Expr<$bits> {
                define(BITS.to_owned());
                Expr::value(format!("{}({})", $to, self.text()))
            }
        }

        impl FromBits for $float {
            fn from_bits(bits: Expr<$bits>) -> Expr<$float> {
                define(BITS.to_owned());
                Expr::value(format!("{}({})", $from, bits.text()))
            }
        }
    )*};
}

/// `f32::from_bits`, `f64::from_bits`.
pub trait FromBits: Float {
    /// The float with these bits.
    fn from_bits(bits: Expr<Self::Bits>) -> Expr<Self>;
}
reinterpreted! {
    f32 u32 "flash_bits32" "flash_float32";
    f64 u64 "flash_bits64" "flash_float64";
}

const BITS: &str = "\
#ifdef __OPENCL_VERSION__
#define flash_bits32(x) as_uint(x)
#define flash_float32(x) as_float(x)
#define flash_bits64(x) as_ulong(x)
#define flash_float64(x) as_double(x)
#else
#define flash_bits32(x) __float_as_uint(x)
#define flash_float32(x) __uint_as_float(x)
#define flash_bits64(x) ((flash_u64)__double_as_longlong(x))
#define flash_float64(x) __longlong_as_double((long long)(x))
#endif
";

/// `panic!(text)`: notes the fault, and the work item ends.
#[track_caller]
pub fn panics(text: &str) {
    let number = message(Location::caller(), text);
    fault(&number.to_string());
    go_to_end(true);
}
