//! `cvt`.

use super::code::Unary;
use super::float::Rounding;
use super::types::{Half, Int, Ty, Word, for_ints};

/// Between integers: the value, cut off; with `sat`, the nearest that the type has.
pub(crate) fn integers(to: Ty, from: Ty, saturated: bool) -> Option<Unary> {
    macro_rules! from {
        ($function:ident, $($case:pat => $int:ty),* $(,)?) => {
            match from {
                $($case => to!($function, $int),)*
                _ => None,
            }
        };
    }
    macro_rules! to {
        ($function:ident, $from:ty) => {
            match to {
                Ty::U8 | Ty::B8 => Some($function::<$from, u8> as Unary),
                Ty::U16 | Ty::B16 => Some($function::<$from, u16> as Unary),
                Ty::U32 | Ty::B32 => Some($function::<$from, u32> as Unary),
                Ty::U64 | Ty::B64 => Some($function::<$from, u64> as Unary),
                Ty::S8 => Some($function::<$from, i8> as Unary),
                Ty::S16 => Some($function::<$from, i16> as Unary),
                Ty::S32 => Some($function::<$from, i32> as Unary),
                Ty::S64 => Some($function::<$from, i64> as Unary),
                _ => None,
            }
        };
    }
    macro_rules! all {
        ($function:ident) => {
            from!($function,
                Ty::U8 | Ty::B8 => u8, Ty::U16 | Ty::B16 => u16, Ty::U32 | Ty::B32 => u32,
                Ty::U64 | Ty::B64 => u64, Ty::S8 => i8, Ty::S16 => i16, Ty::S32 => i32, Ty::S64 => i64)
        };
    }
    fn cut<A: Int, B: Int>(a: u64) -> u64 {
        B::narrow(A::of(a).wide()).bits()
    }
    fn clamped<A: Int, B: Int>(a: u64) -> u64 {
        B::nearest(A::of(a).wide()).bits()
    }
    if saturated { all!(clamped) } else { all!(cut) }
}

/// From an integer to a floating-point number.
pub(crate) fn to_float(to: Ty, from: Ty, rounding: Rounding) -> Option<Unary> {
    match (to, rounding) {
        (Ty::F32, Rounding::Nearest) => for_ints!(from, single),
        (Ty::F32, _) => match rounding {
            Rounding::Zero => for_ints!(from, single_to_zero),
            Rounding::Down => for_ints!(from, single_down),
            _ => for_ints!(from, single_up),
        },
        (Ty::F64, Rounding::Nearest) => for_ints!(from, double),
        (Ty::F64, _) => match rounding {
            Rounding::Zero => for_ints!(from, double_to_zero),
            Rounding::Down => for_ints!(from, double_down),
            _ => for_ints!(from, double_up),
        },
        (Ty::F16, Rounding::Nearest) => for_ints!(from, half),
        _ => None,
    }
}

fn single<T: Int>(a: u64) -> u64 {
    (T::of(a).wide() as f32).bits()
}

fn double<T: Int>(a: u64) -> u64 {
    (T::of(a).wide() as f64).bits()
}

/// A value above the largest half is infinite, however it was rounded before.
fn half<T: Int>(a: u64) -> u64 {
    Half(T::of(a).wide() as f32).bits()
}

macro_rules! directed {
    ($float:ty, $zero:ident $down:ident $up:ident) => {
        fn $down<T: Int>(a: u64) -> u64 {
            let exact = T::of(a).wide();
            let near = exact as $float;
            (if near as i128 > exact { near.next_down() } else { near }).bits()
        }
        fn $up<T: Int>(a: u64) -> u64 {
            let exact = T::of(a).wide();
            let near = exact as $float;
            (if (near as i128) < exact { near.next_up() } else { near }).bits()
        }
        fn $zero<T: Int>(a: u64) -> u64 {
            if T::of(a).wide() < 0 { $up::<T>(a) } else { $down::<T>(a) }
        }
    };
}
directed!(f32, single_to_zero single_down single_up);
directed!(f64, double_to_zero double_down double_up);

/// A floating-point number that is rounded to a whole one: `.rni` and so on.
pub(crate) fn whole(ty: Ty, rounding: Rounding) -> Option<Unary> {
    Some(match (ty, rounding) {
        (Ty::F32, Rounding::Nearest) => |a| f32::of(a).round_ties_even().bits(),
        (Ty::F32, Rounding::Zero) => |a| f32::of(a).trunc().bits(),
        (Ty::F32, Rounding::Down) => |a| f32::of(a).floor().bits(),
        (Ty::F32, Rounding::Up) => |a| f32::of(a).ceil().bits(),
        (Ty::F64, Rounding::Nearest) => |a| f64::of(a).round_ties_even().bits(),
        (Ty::F64, Rounding::Zero) => |a| f64::of(a).trunc().bits(),
        (Ty::F64, Rounding::Down) => |a| f64::of(a).floor().bits(),
        (Ty::F64, Rounding::Up) => |a| f64::of(a).ceil().bits(),
        (Ty::F16, Rounding::Nearest) => |a| Half(Half::of(a).0.round_ties_even()).bits(),
        (Ty::F16, Rounding::Zero) => |a| Half(Half::of(a).0.trunc()).bits(),
        (Ty::F16, Rounding::Down) => |a| Half(Half::of(a).0.floor()).bits(),
        (Ty::F16, Rounding::Up) => |a| Half(Half::of(a).0.ceil()).bits(),
        _ => return None,
    })
}

/// From a whole floating-point number to the nearest integer that the type has; 0 for a NaN.
pub(crate) fn to_integer(to: Ty, from: Ty) -> Option<Unary> {
    fn from32<T: Int>(a: u64) -> u64 {
        T::nearest(f32::of(a) as i128).bits()
    }
    fn from64<T: Int>(a: u64) -> u64 {
        T::nearest(f64::of(a) as i128).bits()
    }
    fn from16<T: Int>(a: u64) -> u64 {
        T::nearest(Half::of(a).0 as i128).bits()
    }
    match from {
        Ty::F32 => for_ints!(to, from32),
        Ty::F64 => for_ints!(to, from64),
        Ty::F16 => for_ints!(to, from16),
        _ => None,
    }
}

/// Between floating-point numbers of different precision.
pub(crate) fn floats(to: Ty, from: Ty, rounding: Rounding) -> Option<Unary> {
    fn down(a: u64) -> u64 {
        let (exact, near) = (f64::of(a), f64::of(a) as f32);
        (if f64::from(near) > exact { near.next_down() } else { near }).bits()
    }
    fn up(a: u64) -> u64 {
        let (exact, near) = (f64::of(a), f64::of(a) as f32);
        (if f64::from(near) < exact { near.next_up() } else { near }).bits()
    }
    Some(match (from, to, rounding) {
        (Ty::F32, Ty::F64, _) => |a| f64::from(f32::of(a)).bits(),
        (Ty::F64, Ty::F32, Rounding::Nearest) => |a| (f64::of(a) as f32).bits(),
        (Ty::F64, Ty::F32, Rounding::Zero) => |a| if f64::of(a) < 0.0 { up(a) } else { down(a) },
        (Ty::F64, Ty::F32, Rounding::Down) => down,
        (Ty::F64, Ty::F32, Rounding::Up) => up,
        (Ty::F16, Ty::F32, _) => |a| Half::of(a).0.bits(),
        (Ty::F16, Ty::F64, _) => |a| f64::from(Half::of(a).0).bits(),
        (Ty::F32, Ty::F16, Rounding::Nearest) => |a| Half(f32::of(a)).bits(),
        _ => return None,
    })
}
