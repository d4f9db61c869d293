//! Integer and bit instructions as functions of registers' bits.

use super::code::{Binary, Ternary, Unary};
use super::types::{Int, Ty, for_ints, mask};

pub(crate) fn unary(name: &str, ty: Ty) -> Option<Unary> {
    match name {
        "abs" => for_ints!(ty, abs),
        "neg" => for_ints!(ty, neg),
        "not" if ty == Ty::Pred => Some(|a| a ^ 1),
        "not" => for_ints!(ty, not),
        "cnot" => for_ints!(ty, cnot),
        "popc" => for_ints!(ty, popc),
        "clz" => for_ints!(ty, clz),
        "brev" => for_ints!(ty, brev),
        "bfind" => for_ints!(ty, bfind),
        _ => None,
    }
}

/// `form`: `lo`, `hi`, `wide`, `sat`, `cc`, `l`, `r`, `clamp`, `wrap`, or nothing.
pub(crate) fn binary(name: &str, form: &str, ty: Ty) -> Option<Binary> {
    match (name, form) {
        ("add", "") => for_ints!(ty, add),
        ("sub", "") => for_ints!(ty, sub),
        ("add", "sat") => for_ints!(ty, add_sat),
        ("sub", "sat") => for_ints!(ty, sub_sat),
        ("mul", "lo") => for_ints!(ty, mul_lo),
        ("mul", "hi") => for_ints!(ty, mul_hi),
        ("mul", "wide") => for_ints!(ty, mul_wide),
        ("mul24", "lo") => for_ints!(ty, mul24_lo),
        ("div", "") => for_ints!(ty, div),
        ("rem", "") => for_ints!(ty, rem),
        ("min", "") => for_ints!(ty, min),
        ("max", "") => for_ints!(ty, max),
        ("and", "") => Some(|a, b| a & b),
        ("or", "") => Some(|a, b| a | b),
        ("xor", "") => Some(|a, b| a ^ b),
        ("shl", "") => for_ints!(ty, shl),
        ("shr", "") => for_ints!(ty, shr),
        ("bmsk", "clamp" | "") => Some(ones),
        ("bmsk", "wrap") => Some(|a, b| ones(a & 31, b & 31)),
        _ => None,
    }
}

pub(crate) fn ternary(name: &str, form: &str, ty: Ty) -> Option<Ternary> {
    match (name, form) {
        ("mad", "lo") => for_ints!(ty, mad_lo),
        ("mad", "hi") => for_ints!(ty, mad_hi),
        ("mad", "wide") => for_ints!(ty, mad_wide),
        ("mad24", "lo") => for_ints!(ty, mad24_lo),
        ("sad", "") => for_ints!(ty, sad),
        ("bfe", "") => for_ints!(ty, bfe),
        ("shf", "l.clamp") => Some(|a, b, c| shf(a, b, c.min(32)) >> 32),
        ("shf", "l.wrap") => Some(|a, b, c| shf(a, b, c & 31) >> 32),
        ("shf", "r.clamp") => Some(|a, b, c| ((b as u32 as u64) << 32 | a) >> (c as u32).min(32) & mask(4)),
        ("shf", "r.wrap") => Some(|a, b, c| ((b as u32 as u64) << 32 | a) >> (c & 31) & mask(4)),
        _ => None,
    }
}

/// With the carry in and out: the instructions with `.cc` and those that begin with `addc` and so on.
pub(crate) fn with_carry(
    name: &str,
    form: &str,
    ty: Ty,
    a: u64,
    b: u64,
    c: u64,
    carry: u64,
) -> Option<(u64, u64)> {
    let bits = 8 * ty.bytes() as u32;
    let ones = u128::from(mask(ty.bytes()));
    let part = |a: u64, b: u64| -> Option<u64> {
        match form {
            "lo" => binary("mul", "lo", ty).map(|mul| mul(a, b)),
            "hi" => binary("mul", "hi", ty).map(|mul| mul(a, b)),
            _ => None,
        }
    };
    let sum = |a: u64, b: u64, carry: u64| -> (u64, u64) {
        let all = u128::from(a) + u128::from(b) + u128::from(carry);
        ((all & ones) as u64, (all >> bits) as u64)
    };
    Some(match name {
        "add" => sum(a, b, 0),
        "addc" => sum(a, b, carry),
        // The carry means a borrow.
        "sub" | "subc" => {
            let taken = if name == "subc" { carry } else { 0 };
            let all = (u128::from(a)).wrapping_sub(u128::from(b)).wrapping_sub(u128::from(taken));
            ((all & ones) as u64, (all >> 127) as u64)
        }
        "mad" => sum(part(a, b)?, c, 0),
        "madc" => sum(part(a, b)?, c, carry),
        _ => return None,
    })
}

pub(crate) fn compare(name: &str, ty: Ty) -> Option<Binary> {
    let unsigned = match ty {
        Ty::B8 => Ty::U8,
        Ty::B16 => Ty::U16,
        Ty::B32 => Ty::U32,
        Ty::B64 => Ty::U64,
        _ => ty,
    };
    match name {
        "eq" => Some(|a, b| u64::from(a == b)),
        "ne" => Some(|a, b| u64::from(a != b)),
        "lt" => for_ints!(ty, lt),
        "le" => for_ints!(ty, le),
        "gt" => for_ints!(ty, gt),
        "ge" => for_ints!(ty, ge),
        "lo" => for_ints!(unsigned, lt),
        "ls" => for_ints!(unsigned, le),
        "hi" => for_ints!(unsigned, gt),
        "hs" => for_ints!(unsigned, ge),
        _ => None,
    }
}

/// Bit `n` of `table` is the result where the bits of c, b and a are the number n.
pub(crate) fn lop3(table: u64, [a, b, c]: [u64; 3]) -> u64 {
    (0..8u64).filter(|n| table >> n & 1 == 1).fold(0, |all, n| {
        let pick = |value: u64, bit: u64| if n >> bit & 1 == 1 { value } else { !value };
        all | pick(a, 2) & pick(b, 1) & pick(c, 0)
    }) & mask(4)
}

/// Bytes of b and a, chosen by a selector.
pub(crate) fn prmt([a, b, selector]: [u64; 3]) -> u64 {
    let all = b << 32 | a;
    (0..4).fold(0, |found, byte| {
        let choice = selector >> (4 * byte);
        let value = all >> (8 * (choice & 7)) & 0xFF;
        let value = match choice >> 3 & 1 {
            0 => value,
            _ => 0xFF * (value >> 7),
        };
        found | value << (8 * byte)
    })
}

/// b with `length` bits of a, from bit `start` on.
pub(crate) fn bfi(ty: Ty, a: u64, b: u64, start: u64, length: u64) -> u64 {
    let (start, length) = (start & 0xFF, length & 0xFF);
    if start >= 64 {
        return b;
    }
    let ones = if length >= 64 { u64::MAX } else { (1 << length) - 1 } << start & mask(ty.bytes());
    a << start & ones | b & !ones
}

fn abs<T: Int>(a: u64) -> u64 {
    T::narrow(T::of(a).wide().abs()).bits()
}

fn neg<T: Int>(a: u64) -> u64 {
    T::narrow(-T::of(a).wide()).bits()
}

fn not<T: Int>(a: u64) -> u64 {
    T::narrow(!T::of(a).wide()).bits()
}

fn cnot<T: Int>(a: u64) -> u64 {
    u64::from(T::of(a).bits() == 0)
}

fn popc<T: Int>(a: u64) -> u64 {
    u64::from(T::of(a).bits().count_ones())
}

fn clz<T: Int>(a: u64) -> u64 {
    u64::from(T::of(a).bits().leading_zeros() - (64 - T::BITS))
}

fn brev<T: Int>(a: u64) -> u64 {
    T::of(a).bits().reverse_bits() >> (64 - T::BITS)
}

/// The highest bit that differs from the sign's, or all ones.
fn bfind<T: Int>(a: u64) -> u64 {
    let value = T::of(a).wide();
    let value = if value < 0 { !value } else { value };
    value.checked_ilog2().map_or(mask(4), u64::from)
}

fn add<T: Int>(a: u64, b: u64) -> u64 {
    T::narrow(T::of(a).wide() + T::of(b).wide()).bits()
}

fn sub<T: Int>(a: u64, b: u64) -> u64 {
    T::narrow(T::of(a).wide() - T::of(b).wide()).bits()
}

fn add_sat<T: Int>(a: u64, b: u64) -> u64 {
    T::nearest(T::of(a).wide() + T::of(b).wide()).bits()
}

fn sub_sat<T: Int>(a: u64, b: u64) -> u64 {
    T::nearest(T::of(a).wide() - T::of(b).wide()).bits()
}

fn mul_lo<T: Int>(a: u64, b: u64) -> u64 {
    T::narrow(T::of(a).wide().wrapping_mul(T::of(b).wide())).bits()
}

/// The product of unsigned 64-bit numbers fills 128 bits: a wrapped one has the right bits, too.
fn mul_hi<T: Int>(a: u64, b: u64) -> u64 {
    T::narrow(T::of(a).wide().wrapping_mul(T::of(b).wide()) >> T::BITS).bits()
}

/// The product in twice the width.
fn mul_wide<T: Int>(a: u64, b: u64) -> u64 {
    (T::of(a).wide() * T::of(b).wide()) as u64 & mask(T::BITS as usize / 4)
}

fn mad_wide<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    mul_wide::<T>(a, b).wrapping_add(c) & mask(T::BITS as usize / 4)
}

fn mad_lo<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    add::<T>(mul_lo::<T>(a, b), c)
}

fn mad_hi<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    add::<T>(mul_hi::<T>(a, b), c)
}

/// 24 bits, with the sign of types that have one.
fn low24<T: Int>(a: u64) -> i128 {
    let bits = T::of(a).wide() & 0xFF_FFFF;
    if T::SIGNED && bits >> 23 == 1 { bits - (1 << 24) } else { bits }
}

fn mul24_lo<T: Int>(a: u64, b: u64) -> u64 {
    T::narrow(low24::<T>(a) * low24::<T>(b)).bits()
}

fn mad24_lo<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    add::<T>(mul24_lo::<T>(a, b), c)
}

/// Division by zero gives all ones, as on devices.
fn div<T: Int>(a: u64, b: u64) -> u64 {
    let (a, b) = (T::of(a), T::of(b));
    match (b.bits(), T::SIGNED) {
        (0, _) => T::narrow(-1).bits(),
        (divisor, false) => a.bits() / divisor,
        (_, true) => T::narrow(i128::from((a.wide() as i64).wrapping_div(b.wide() as i64))).bits(),
    }
}

fn rem<T: Int>(a: u64, b: u64) -> u64 {
    let (a, b) = (T::of(a), T::of(b));
    match (b.bits(), T::SIGNED) {
        (0, _) => a.bits(),
        (divisor, false) => a.bits() % divisor,
        (_, true) => T::narrow(i128::from((a.wide() as i64).wrapping_rem(b.wide() as i64))).bits(),
    }
}

fn min<T: Int>(a: u64, b: u64) -> u64 {
    T::of(a).min(T::of(b)).bits()
}

fn max<T: Int>(a: u64, b: u64) -> u64 {
    T::of(a).max(T::of(b)).bits()
}

/// Shifts by more than the width give 0.
fn shl<T: Int>(a: u64, b: u64) -> u64 {
    let by = b as u32;
    if by >= T::BITS { 0 } else { T::narrow(T::of(a).wide() << by).bits() }
}

fn shr<T: Int>(a: u64, b: u64) -> u64 {
    T::narrow(T::of(a).wide() >> (b as u32).min(T::BITS)).bits()
}

fn shf(a: u64, b: u64, by: u64) -> u64 {
    ((u128::from(b as u32) << 32 | u128::from(a as u32)) << by) as u64
}

fn sad<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    T::narrow(T::of(c).wide() + (T::of(a).wide() - T::of(b).wide()).abs()).bits()
}

/// `length` bits from `start` on; for signed types the last of them is the sign.
fn bfe<T: Int>(a: u64, start: u64, length: u64) -> u64 {
    let (start, length) = ((start & 0xFF) as u32, (length & 0xFF) as u32);
    let bits = T::of(a).bits();
    let top = start.saturating_add(length).min(T::BITS);
    let sign = T::SIGNED && length > 0 && bits >> (top.max(1) - 1).min(T::BITS - 1) & 1 == 1;
    let from = u128::from(bits) >> start.min(127);
    let kept = top.saturating_sub(start);
    let ones = (1u128 << kept.min(64)) - 1;
    let value = from & ones;
    T::narrow((if sign { value | !ones } else { value }) as i128).bits()
}

fn ones(start: u64, length: u64) -> u64 {
    let (start, length) = (start & 0xFF, length & 0xFF);
    if start >= 32 { 0 } else { ((1u64 << length.min(32)) - 1) << start & mask(4) }
}

fn lt<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::of(a) < T::of(b))
}

fn le<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::of(a) <= T::of(b))
}

fn gt<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::of(a) > T::of(b))
}

fn ge<T: Int>(a: u64, b: u64) -> u64 {
    u64::from(T::of(a) >= T::of(b))
}
