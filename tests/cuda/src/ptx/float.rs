//! Floating-point instructions as functions of registers' bits.
//!
//! PTX's approximations are computed in double precision and rounded: they are more exact than those of
//! devices.

use super::code::{Binary, Ternary, Unary};
use super::types::{Half, Ty, Word};

/// How a result is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

impl Rounding {
    pub fn named(name: &str) -> Option<Rounding> {
        Some(match name {
            "rn" => Rounding::Nearest,
            "rz" => Rounding::Zero,
            "rm" => Rounding::Down,
            "rp" => Rounding::Up,
            _ => return None,
        })
    }
}

/// The function with a rounding, from a template over the rounding.
macro_rules! directed {
    ($rounding:expr, $function:ident) => {
        match $rounding {
            Rounding::Nearest => return None,
            Rounding::Zero => $function::<0>,
            Rounding::Down => $function::<1>,
            Rounding::Up => $function::<2>,
        }
    };
}

pub(crate) fn unary(name: &str, rounding: Rounding, ty: Ty) -> Option<Unary> {
    Some(match (name, ty, rounding) {
        ("abs", Ty::F32, _) => |a| a & 0x7FFF_FFFF,
        ("abs", Ty::F64, _) => |a| a & (u64::MAX >> 1),
        ("abs", Ty::F16 | Ty::BF16, _) => |a| a & 0x7FFF,
        ("neg", Ty::F32, _) => |a| a ^ 0x8000_0000,
        ("neg", Ty::F64, _) => |a| a ^ (1 << 63),
        ("neg", Ty::F16 | Ty::BF16, _) => |a| a ^ 0x8000,
        ("sqrt", Ty::F32, Rounding::Nearest) => |a| f32::of(a).sqrt().bits(),
        ("sqrt", Ty::F64, Rounding::Nearest) => |a| f64::of(a).sqrt().bits(),
        ("sqrt", Ty::F32, Rounding::Zero) => |a| sqrt32::<0>(a),
        ("sqrt", Ty::F32, Rounding::Down) => |a| sqrt32::<1>(a),
        ("sqrt", Ty::F32, Rounding::Up) => |a| sqrt32::<2>(a),
        ("rcp", Ty::F32, Rounding::Nearest) => |a| (1.0 / f32::of(a)).bits(),
        ("rcp", Ty::F64, Rounding::Nearest) => |a| (1.0 / f64::of(a)).bits(),
        ("rsqrt", Ty::F32, _) => |a| double(a, |a| 1.0 / a.sqrt()),
        ("rsqrt", Ty::F64, _) => |a| (1.0 / f64::of(a).sqrt()).bits(),
        ("sin", Ty::F32, _) => |a| double(a, f64::sin),
        ("cos", Ty::F32, _) => |a| double(a, f64::cos),
        ("tanh", Ty::F32, _) => |a| double(a, f64::tanh),
        ("ex2", Ty::F32, _) => |a| double(a, f64::exp2),
        ("lg2", Ty::F32, _) => |a| double(a, f64::log2),
        _ => return None,
    })
}

pub(crate) fn binary(name: &str, rounding: Rounding, ty: Ty) -> Option<Binary> {
    if ty == Ty::F16 {
        return half(name);
    }
    Some(match (name, ty, rounding) {
        ("add", Ty::F32, Rounding::Nearest) => |a, b| (f32::of(a) + f32::of(b)).bits(),
        ("sub", Ty::F32, Rounding::Nearest) => |a, b| (f32::of(a) - f32::of(b)).bits(),
        ("mul", Ty::F32, Rounding::Nearest) => |a, b| (f32::of(a) * f32::of(b)).bits(),
        ("div", Ty::F32, Rounding::Nearest) => |a, b| (f32::of(a) / f32::of(b)).bits(),
        ("add", Ty::F64, Rounding::Nearest) => |a, b| (f64::of(a) + f64::of(b)).bits(),
        ("sub", Ty::F64, Rounding::Nearest) => |a, b| (f64::of(a) - f64::of(b)).bits(),
        ("mul", Ty::F64, Rounding::Nearest) => |a, b| (f64::of(a) * f64::of(b)).bits(),
        ("div", Ty::F64, Rounding::Nearest) => |a, b| (f64::of(a) / f64::of(b)).bits(),
        ("min", Ty::F32, _) => |a, b| least(a, b, false, |a| f64::from(f32::of(a)), f32::NAN.bits()),
        ("max", Ty::F32, _) => |a, b| least(a, b, true, |a| f64::from(f32::of(a)), f32::NAN.bits()),
        ("min", Ty::F64, _) => |a, b| least(a, b, false, f64::of, f64::NAN.bits()),
        ("max", Ty::F64, _) => |a, b| least(a, b, true, f64::of, f64::NAN.bits()),
        // The size of b with the sign of a.
        ("copysign", Ty::F32, _) => |a, b| a & 0x8000_0000 | b & 0x7FFF_FFFF,
        ("copysign", Ty::F64, _) => |a, b| a & (1 << 63) | b & (u64::MAX >> 1),
        ("add", Ty::F32, _) => directed!(rounding, add32),
        ("sub", Ty::F32, _) => directed!(rounding, sub32),
        ("mul", Ty::F32, _) => directed!(rounding, mul32),
        ("div", Ty::F32, _) => directed!(rounding, div32),
        ("add", Ty::F64, _) => directed!(rounding, add64),
        ("sub", Ty::F64, _) => directed!(rounding, sub64),
        ("mul", Ty::F64, _) => directed!(rounding, mul64),
        ("div", Ty::F64, _) => directed!(rounding, div64),
        _ => return None,
    })
}

pub(crate) fn ternary(name: &str, rounding: Rounding, ty: Ty) -> Option<Ternary> {
    Some(match (name, ty, rounding) {
        ("fma" | "mad", Ty::F32, Rounding::Nearest) => {
            |a, b, c| f32::of(a).mul_add(f32::of(b), f32::of(c)).bits()
        }
        ("fma" | "mad", Ty::F64, Rounding::Nearest) => {
            |a, b, c| f64::of(a).mul_add(f64::of(b), f64::of(c)).bits()
        }
        ("fma" | "mad", Ty::F32, _) => directed!(rounding, fma32),
        ("fma" | "mad", Ty::F64, _) => directed!(rounding, fma64),
        // The product is exact in double precision, and the sum's error is too small to matter in a half.
        ("fma", Ty::F16, Rounding::Nearest) => |a, b, c| {
            Half(f64::from(Half::of(a).0).mul_add(f64::from(Half::of(b).0), f64::from(Half::of(c).0)) as f32)
                .bits()
        },
        _ => return None,
    })
}

/// Comparisons; those that end in `u` hold if an operand is a NaN.
pub(crate) fn compare(name: &str, ty: Ty) -> Option<Binary> {
    macro_rules! of {
        ($read:expr) => {
            match name {
                "eq" => Some(|a, b| u64::from($read(a) == $read(b))),
                "ne" => Some(|a, b| u64::from($read(a) < $read(b) || $read(a) > $read(b))),
                "lt" => Some(|a, b| u64::from($read(a) < $read(b))),
                "le" => Some(|a, b| u64::from($read(a) <= $read(b))),
                "gt" => Some(|a, b| u64::from($read(a) > $read(b))),
                "ge" => Some(|a, b| u64::from($read(a) >= $read(b))),
                "equ" => {
                    Some(|a, b| u64::from($read(a).partial_cmp(&$read(b)).is_none_or(|order| order.is_eq())))
                }
                "neu" => Some(|a, b| u64::from($read(a) != $read(b))),
                "ltu" => {
                    Some(|a, b| u64::from($read(a).partial_cmp(&$read(b)).is_none_or(|order| order.is_lt())))
                }
                "leu" => {
                    Some(|a, b| u64::from($read(a).partial_cmp(&$read(b)).is_none_or(|order| order.is_le())))
                }
                "gtu" => {
                    Some(|a, b| u64::from($read(a).partial_cmp(&$read(b)).is_none_or(|order| order.is_gt())))
                }
                "geu" => {
                    Some(|a, b| u64::from($read(a).partial_cmp(&$read(b)).is_none_or(|order| order.is_ge())))
                }
                "num" => Some(|a, b| u64::from(!$read(a).is_nan() && !$read(b).is_nan())),
                "nan" => Some(|a, b| u64::from($read(a).is_nan() || $read(b).is_nan())),
                _ => None,
            }
        };
    }
    fn half(bits: u64) -> f32 {
        Half::of(bits).0
    }
    match ty {
        Ty::F32 => of!(f32::of),
        Ty::F64 => of!(f64::of),
        Ty::F16 => of!(half),
        _ => None,
    }
}

/// `testp`.
pub(crate) fn test(name: &str, ty: Ty) -> Option<Unary> {
    macro_rules! of {
        ($float:ty) => {
            match name {
                "finite" => Some(|a| u64::from(<$float>::of(a).is_finite())),
                "infinite" => Some(|a| u64::from(<$float>::of(a).is_infinite())),
                "number" => Some(|a| u64::from(!<$float>::of(a).is_nan())),
                "notanumber" => Some(|a| u64::from(<$float>::of(a).is_nan())),
                "normal" => Some(|a| u64::from(<$float>::of(a).is_normal())),
                "subnormal" => Some(|a| u64::from(<$float>::of(a).is_subnormal())),
                _ => None,
            }
        };
    }
    match ty {
        Ty::F32 => of!(f32),
        Ty::F64 => of!(f64),
        _ => None,
    }
}

/// Subnormal numbers become zero: `.ftz`.
pub(crate) fn flush(a: u64) -> u64 {
    if f32::of(a).is_subnormal() { a & 0x8000_0000 } else { a }
}

/// Clamps to [0, 1], and makes a NaN 0: `.sat`.
pub(crate) fn saturate(ty: Ty) -> Option<Unary> {
    match ty {
        Ty::F32 => Some(|a| if f32::of(a) > 0.0 { f32::of(a).min(1.0).bits() } else { 0 }),
        Ty::F64 => Some(|a| if f64::of(a) > 0.0 { f64::of(a).min(1.0).bits() } else { 0 }),
        _ => None,
    }
}

fn double(a: u64, function: fn(f64) -> f64) -> u64 {
    (function(f64::from(f32::of(a))) as f32).bits()
}

/// Single precision is more than twice as precise as half, so that rounding twice is rounding once.
fn half(name: &str) -> Option<Binary> {
    Some(match name {
        "add" => |a, b| Half(Half::of(a).0 + Half::of(b).0).bits(),
        "sub" => |a, b| Half(Half::of(a).0 - Half::of(b).0).bits(),
        "mul" => |a, b| Half(Half::of(a).0 * Half::of(b).0).bits(),
        "min" => |a, b| least(a, b, false, |a| f64::from(Half::of(a).0), 0x7FFF),
        "max" => |a, b| least(a, b, true, |a| f64::from(Half::of(a).0), 0x7FFF),
        _ => return None,
    })
}

/// The one that is a number if only one is; -0 is less than 0.
fn least(a: u64, b: u64, greatest: bool, read: fn(u64) -> f64, nan: u64) -> u64 {
    let (x, y) = (read(a), read(b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => nan,
        (true, false) => b,
        (false, true) => a,
        (false, false) if x.total_cmp(&y).is_lt() != greatest => a,
        (false, false) => b,
    }
}

/// The bits of a sum, rounded, from the sum without its lowest bits and the rest. 0: to zero, 1: down, 2: up.
fn nudge64<const TO: u8>(sum: f64, rest: f64) -> f64 {
    if rest == 0.0 || rest.is_nan() || !sum.is_finite() {
        return sum;
    }
    let up = match TO {
        0 => sum < 0.0,
        1 => false,
        _ => true,
    };
    match (up, rest > 0.0) {
        (true, true) => sum.next_up(),
        (false, false) => sum.next_down(),
        _ => sum,
    }
}

fn nudge32<const TO: u8>(sum: f64, rest: f64) -> f32 {
    let near = sum as f32;
    let missing = sum - f64::from(near);
    let missing = if missing == 0.0 { rest } else { missing };
    if missing == 0.0 || missing.is_nan() || sum.is_infinite() || sum.is_nan() {
        return near;
    }
    let up = match TO {
        0 => sum < 0.0,
        1 => false,
        _ => true,
    };
    match (up, missing > 0.0) {
        (true, true) => near.next_up(),
        (false, false) => near.next_down(),
        _ => near,
    }
}

/// The error of a sum: Knuth's two-sum.
fn rest_of_sum(a: f64, b: f64, sum: f64) -> f64 {
    let b_part = sum - a;
    let a_part = sum - b_part;
    (a - a_part) + (b - b_part)
}

fn add32<const TO: u8>(a: u64, b: u64) -> u64 {
    let (a, b) = (f64::from(f32::of(a)), f64::from(f32::of(b)));
    nudge32::<TO>(a + b, rest_of_sum(a, b, a + b)).bits()
}

fn sub32<const TO: u8>(a: u64, b: u64) -> u64 {
    add32::<TO>(a, b ^ 0x8000_0000)
}

fn mul32<const TO: u8>(a: u64, b: u64) -> u64 {
    nudge32::<TO>(f64::from(f32::of(a)) * f64::from(f32::of(b)), 0.0).bits()
}

fn div32<const TO: u8>(a: u64, b: u64) -> u64 {
    let (a, b) = (f64::from(f32::of(a)), f64::from(f32::of(b)));
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    nudge32::<TO>(quotient, if b < 0.0 { -rest } else { rest }).bits()
}

fn fma32<const TO: u8>(a: u64, b: u64, c: u64) -> u64 {
    let (product, c) = (f64::from(f32::of(a)) * f64::from(f32::of(b)), f64::from(f32::of(c)));
    nudge32::<TO>(product + c, rest_of_sum(product, c, product + c)).bits()
}

fn sqrt32<const TO: u8>(a: u64) -> u64 {
    let a = f64::from(f32::of(a));
    let root = a.sqrt();
    nudge32::<TO>(root, (-root).mul_add(root, a)).bits()
}

fn add64<const TO: u8>(a: u64, b: u64) -> u64 {
    let (a, b) = (f64::of(a), f64::of(b));
    nudge64::<TO>(a + b, rest_of_sum(a, b, a + b)).bits()
}

fn sub64<const TO: u8>(a: u64, b: u64) -> u64 {
    add64::<TO>(a, b ^ (1 << 63))
}

fn mul64<const TO: u8>(a: u64, b: u64) -> u64 {
    let (a, b) = (f64::of(a), f64::of(b));
    nudge64::<TO>(a * b, a.mul_add(b, -(a * b))).bits()
}

fn div64<const TO: u8>(a: u64, b: u64) -> u64 {
    let (a, b) = (f64::of(a), f64::of(b));
    let rest = (-(a / b)).mul_add(b, a);
    nudge64::<TO>(a / b, if b < 0.0 { -rest } else { rest }).bits()
}

/// The error of a fused operation is a sum of two numbers (Boldo and Muller, "Exact and approximated error of
/// the FMA").
fn fma64<const TO: u8>(a: u64, b: u64, c: u64) -> u64 {
    let (a, b, c) = (f64::of(a), f64::of(b), f64::of(c));
    let all = a.mul_add(b, c);
    let product = a * b;
    let low = a.mul_add(b, -product);
    let first = c + low;
    let second = rest_of_sum(c, low, first);
    let third = product + first;
    let fourth = rest_of_sum(product, first, third);
    nudge64::<TO>(all, (third - all) + fourth + second).bits()
}
