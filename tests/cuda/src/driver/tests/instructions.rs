//! Instructions against Rust's arithmetic.

use super::{Device, kernel};

/// An instruction: its text, the kind of register 0 that it writes, and its expected value, from the three
/// operands' bits. Operands are in registers 1 to 3 of every kind.
type Case = (&'static str, char, fn(u64, u64, u64) -> u64);

/// Runs every case on every operand, all in one kernel: a thread for each operand.
fn check(cases: &[Case], operands: &[[u64; 3]]) {
    let mut body = String::from("mov.u32 %r9, %tid.x;\nld.param.u64 %d8, [p0];\nld.param.u64 %d9, [p1];\n");
    body += "mul.wide.u32 %d7, %r9, 24;\nadd.s64 %d8, %d8, %d7;\n";
    body += &format!("mul.wide.u32 %d7, %r9, {};\nadd.s64 %d9, %d9, %d7;\n", 8 * cases.len());
    for (number, (text, kind, _)) in cases.iter().enumerate() {
        body += "{\n";
        for operand in 1..=3 {
            body += &format!(
                "ld.global.u64 %d{operand}, [%d8+{}];\ncvt.u32.u64 %r{operand}, %d{operand};\n\
                 cvt.u16.u32 %s{operand}, %r{operand};\nmov.b32 %f{operand}, %r{operand};\n\
                 mov.b64 %g{operand}, %d{operand};\nand.b32 %r0, %r{operand}, 1;\n\
                 setp.ne.u32 %p{operand}, %r0, 0;\n",
                8 * (operand - 1)
            );
        }
        body += text;
        body += &match kind {
            's' => "\ncvt.u64.u16 %d0, %s0;".to_owned(),
            'r' => "\ncvt.u64.u32 %d0, %r0;".to_owned(),
            'f' => "\nmov.b32 %r0, %f0;\ncvt.u64.u32 %d0, %r0;".to_owned(),
            'g' => "\nmov.b64 %d0, %g0;".to_owned(),
            'p' => "\nselp.u64 %d0, 1, 0, %p0;".to_owned(),
            _ => String::new(),
        };
        body += &format!("\nst.global.u64 [%d9+{}], %d0;\n}}\n", 8 * number);
    }
    let device = Device::new(0);
    let function = device.function(&kernel(2, &body), "k");
    let (from, to) = (device.upload(operands), device.allocate(8 * cases.len() * operands.len()));
    device.run(function, 1, operands.len() as u32, &[from, to]);
    let found: Vec<u64> = device.download(to, cases.len() * operands.len());
    for (row, &[a, b, c]) in found.chunks(cases.len()).zip(operands) {
        for (found, (text, _, expected)) in row.iter().zip(cases) {
            let expected = expected(a, b, c);
            assert_eq!(*found, expected, "{text} of {a:#x}, {b:#x}, {c:#x}: {found:#x}, not {expected:#x}");
        }
    }
}

/// Pseudo-random numbers, and special ones.
fn integers() -> Vec<[u64; 3]> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 31
    };
    let odd = [0, 1, u64::MAX, 1 << 63, 1 << 31, 0x7FFF_FFFF, 0x8000_0000_7FFF_FFFF, 31, 32, 64];
    let mut all: Vec<[u64; 3]> = (0..40).map(|_| [next(), next(), next()]).collect();
    all.extend(
        odd.iter()
            .enumerate()
            .map(|(number, value)| [*value, odd[(number * 3 + 1) % odd.len()], next() % 70]),
    );
    all
}

fn u(bits: u64) -> u32 {
    bits as u32
}

fn s(bits: u64) -> i32 {
    bits as i32
}

fn l(bits: u64) -> i64 {
    bits as i64
}

fn word(value: i32) -> u64 {
    u64::from(value as u32)
}

#[test]
fn integers_are_added_multiplied_and_divided() {
    check(
        &[
            ("add.s32 %r0, %r1, %r2;", 'r', |a, b, _| word(s(a).wrapping_add(s(b)))),
            ("sub.s64 %d0, %d1, %d2;", 'd', |a, b, _| a.wrapping_sub(b)),
            ("add.s16 %s0, %s1, -3;", 's', |a, _, _| u64::from((a as u16).wrapping_sub(3))),
            ("mul.lo.s32 %r0, %r1, %r2;", 'r', |a, b, _| word(s(a).wrapping_mul(s(b)))),
            ("mul.hi.u32 %r0, %r1, %r2;", 'r', |a, b, _| (u64::from(u(a)) * u64::from(u(b))) >> 32),
            ("mul.hi.s64 %d0, %d1, %d2;", 'd', |a, b, _| {
                ((i128::from(l(a)) * i128::from(l(b))) >> 64) as u64
            }),
            ("mul.hi.u64 %d0, %d1, %d2;", 'd', |a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64),
            ("mul.wide.s32 %d0, %r1, %r2;", 'd', |a, b, _| (i64::from(s(a)) * i64::from(s(b))) as u64),
            ("mul.wide.u16 %r0, %s1, %s2;", 'r', |a, b, _| {
                u64::from(u32::from(a as u16) * u32::from(b as u16))
            }),
            ("mad.lo.s32 %r0, %r1, %r2, %r3;", 'r', |a, b, c| {
                word(s(a).wrapping_mul(s(b)).wrapping_add(s(c)))
            }),
            ("mad.wide.s32 %d0, %r1, %r2, %d3;", 'd', |a, b, c| {
                (i64::from(s(a)) * i64::from(s(b))).wrapping_add(l(c)) as u64
            }),
            ("or.b64 %d4, %d2, 1; div.u64 %d0, %d1, %d4;", 'd', |a, b, _| a / (b | 1)),
            ("or.b64 %d4, %d2, 1; rem.s64 %d0, %d1, %d4;", 'd', |a, b, _| l(a).wrapping_rem(l(b | 1)) as u64),
            ("or.b32 %r4, %r2, 1; div.s32 %r0, %r1, %r4;", 'r', |a, b, _| word(s(a).wrapping_div(s(b | 1)))),
            ("div.u32 %r0, %r1, 0;", 'r', |_, _, _| u64::from(u32::MAX)),
            ("min.s32 %r0, %r1, %r2;", 'r', |a, b, _| word(s(a).min(s(b)))),
            ("max.u64 %d0, %d1, %d2;", 'd', |a, b, _| a.max(b)),
            ("abs.s32 %r0, %r1;", 'r', |a, _, _| word(s(a).wrapping_abs())),
            ("neg.s64 %d0, %d1;", 'd', |a, _, _| l(a).wrapping_neg() as u64),
            ("add.sat.s32 %r0, %r1, %r2;", 'r', |a, b, _| word(s(a).saturating_add(s(b)))),
            ("sad.u32 %r0, %r1, %r2, %r3;", 'r', |a, b, c| u64::from(u(a).abs_diff(u(b)).wrapping_add(u(c)))),
            (
                "add.cc.u32 %r4, %r1, %r2; addc.cc.u32 %r5, %r3, %r1; addc.u32 %r6, 0, 0; mov.b64 %d0, {%r5, %r6};",
                'd',
                |a, b, c| u64::from(u(c)) + u64::from(u(a)) + u64::from(u(a).checked_add(u(b)).is_none()),
            ),
            ("sub.cc.u32 %r4, %r1, %r2; subc.u32 %r0, %r3, 0;", 'r', |a, b, c| {
                u64::from(u(c).wrapping_sub(u32::from(u(a) < u(b))))
            }),
            ("mad.lo.cc.u32 %r4, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, 0;", 'r', |a, b, c| {
                (u64::from(u(a)) * u64::from(u(b)) + u64::from(u(c))) >> 32
            }),
        ],
        &integers(),
    );
}

#[test]
fn bits_are_shifted_counted_and_chosen() {
    check(
        &[
            ("shl.b32 %r0, %r1, %r3;", 'r', |a, _, c| u64::from(u(a).checked_shl(u(c)).unwrap_or(0))),
            ("shr.u64 %d0, %d1, %r3;", 'd', |a, _, c| a.checked_shr(u(c)).unwrap_or(0)),
            ("shr.s32 %r0, %r1, %r3;", 'r', |a, _, c| word(s(a) >> u(c).min(31))),
            ("and.b32 %r4, %r1, %r2; xor.b32 %r4, %r4, %r3; not.b32 %r0, %r4;", 'r', |a, b, c| {
                u64::from(!(u(a) & u(b) ^ u(c)))
            }),
            ("popc.b64 %r0, %d1;", 'r', |a, _, _| u64::from(a.count_ones())),
            ("clz.b32 %r0, %r1;", 'r', |a, _, _| u64::from(u(a).leading_zeros())),
            ("brev.b32 %r0, %r1;", 'r', |a, _, _| u64::from(u(a).reverse_bits())),
            ("bfind.u32 %r0, %r1;", 'r', |a, _, _| u64::from(u(a).checked_ilog2().unwrap_or(u32::MAX))),
            ("bfe.u32 %r0, %r1, 5, 9;", 'r', |a, _, _| u64::from(u(a) >> 5 & 0x1FF)),
            ("bfe.s32 %r0, %r1, 5, 9;", 'r', |a, _, _| word(s(a) << 18 >> 23)),
            ("bfe.s64 %d0, %d1, 40, 60;", 'd', |a, _, _| (l(a) >> 40) as u64),
            ("bfi.b32 %r0, %r1, %r2, 4, 12;", 'r', |a, b, _| u64::from(u(a) << 4 & 0xFFF0 | u(b) & !0xFFF0)),
            ("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", 'r', |a, b, c| u64::from(u(a) ^ u(b) ^ u(c))),
            ("lop3.b32 %r0, %r1, %r2, %r3, 0xE2;", 'r', |a, b, c| u64::from(u(a) & u(b) | u(c) & !u(b))),
            ("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", 'r', |a, b, c| {
                u64::from((((u64::from(u(b)) << 32 | u64::from(u(a))) << (c & 31)) >> 32) as u32)
            }),
            ("shf.r.clamp.b32 %r0, %r1, %r2, 13;", 'r', |a, b, _| {
                u64::from(((u64::from(u(b)) << 32 | u64::from(u(a))) >> 13) as u32)
            }),
            ("prmt.b32 %r0, %r1, %r2, 0x3715;", 'r', |a, b, _| {
                let (a, b) = (u(a).to_le_bytes(), u(b).to_le_bytes());
                u64::from(u32::from_le_bytes([b[1], a[1], b[3], a[3]]))
            }),
            ("prmt.b32 %r0, %r1, 0, 0x9998;", 'r', |a, _, _| {
                let sign = |byte: u8| if byte > 127 { 255 } else { 0 };
                let a = u(a).to_le_bytes();
                u64::from(u32::from_le_bytes([sign(a[0]), sign(a[1]), sign(a[1]), sign(a[1])]))
            }),
            ("mov.b64 {%r4, %r5}, %d1; mov.b64 %d0, {%r5, %r4};", 'd', |a, _, _| a.rotate_left(32)),
            ("mov.b32 {%s4, %s5}, %r1; mov.b32 %r0, {%s5, %s4};", 'r', |a, _, _| {
                u64::from(u(a).rotate_left(16))
            }),
            ("selp.b32 %r0, %r1, %r2, %p3;", 'r', |a, b, c| u64::from(if c & 1 == 1 { u(a) } else { u(b) })),
            ("slct.u32.s32 %r0, %r1, %r2, %r3;", 'r', |a, b, c| {
                u64::from(if s(c) >= 0 { u(a) } else { u(b) })
            }),
        ],
        &integers(),
    );
}

#[test]
fn integers_are_compared_and_converted() {
    check(
        &[
            ("setp.lt.s32 %p0, %r1, %r2;", 'p', |a, b, _| u64::from(s(a) < s(b))),
            ("setp.hs.u64 %p0, %d1, %d2;", 'p', |a, b, _| u64::from(a >= b)),
            ("setp.ne.b16 %p0, %s1, %s2;", 'p', |a, b, _| u64::from(a as u16 != b as u16)),
            ("setp.gt.and.u32 %p0, %r1, %r2, %p3;", 'p', |a, b, c| u64::from(u(a) > u(b) && c & 1 == 1)),
            ("setp.le.or.s32 %p4|%p0, %r1, %r2, !%p3;", 'p', |a, b, c| u64::from(s(a) > s(b) || c & 1 == 0)),
            (
                "set.lt.u32.u32 %r0, %r1, %r2;",
                'r',
                |a, b, _| if u(a) < u(b) { u64::from(u32::MAX) } else { 0 },
            ),
            ("and.pred %p4, %p1, %p2; not.pred %p0, %p4;", 'p', |a, b, _| 1 - (a & b & 1)),
            ("mov.pred %p4, -1; mov.u32 %r0, 3; @%p4 mov.u32 %r0, 7;", 'r', |_, _, _| 7),
            ("and.pred %p0, %p1, -1;", 'p', |a, _, _| a & 1),
            ("@%p1 mov.u32 %r0, 7; @!%p1 add.s32 %r0, %r2, 1;", 'r', |a, b, _| {
                if a & 1 == 1 { 7 } else { u64::from(u(b).wrapping_add(1)) }
            }),
            ("cvt.s64.s32 %d0, %r1;", 'd', |a, _, _| i64::from(s(a)) as u64),
            ("cvt.s32.s8 %r0, %r1;", 'r', |a, _, _| word(i32::from(a as i8))),
            ("cvt.s16.s64 %s0, %d1;", 's', |a, _, _| u64::from(a as u16)),
            ("cvt.u8.u32 %s0, %r1;", 's', |a, _, _| u64::from(a as u8)),
            ("cvt.s8.s32 %s0, %r1;", 's', |a, _, _| u64::from(i16::from(a as i8) as u16)),
            ("cvt.sat.u8.s32 %r0, %r1;", 'r', |a, _, _| s(a).clamp(0, 255) as u64),
            ("cvt.rn.f32.s64 %f0, %d1;", 'f', |a, _, _| u64::from((l(a) as f32).to_bits())),
            ("cvt.rn.f64.u64 %g0, %d1;", 'g', |a, _, _| (a as f64).to_bits()),
            ("cvt.rz.f32.u32 %f0, %r1;", 'f', |a, _, _| {
                let near = u(a) as f32;
                let exact = f64::from(near) <= f64::from(u(a));
                u64::from((if exact { near } else { near.next_down() }).to_bits())
            }),
        ],
        &integers(),
    );
}

/// Operands with a 32-bit number in the low half and, if `wide`, a 64-bit one of the same value.
fn floats(wide: bool) -> Vec<[u64; 3]> {
    let odd = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        3.3e38,
        1e-40,
        65504.0,
        2.5,
        1e-7,
        16_777_217.0,
        -7.75,
        1e10,
        -1e19,
        f64::INFINITY,
        f64::NAN,
        -0.3,
        123.456,
    ];
    let bits = |value: f64| if wide { value.to_bits() } else { u64::from((value as f32).to_bits()) };
    let mut all = Vec::new();
    for (first, a) in odd.iter().enumerate() {
        for second in [1, 4, 7, 11] {
            let (b, c) = (odd[(first + second) % odd.len()], odd[(first * second + 5) % odd.len()]);
            all.push([bits(*a), bits(b), bits(c)]);
        }
    }
    all
}

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn g(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// A NaN has many bit patterns: one of them stands for all.
fn single(value: f32) -> u64 {
    u64::from(value.to_bits())
}

/// A case whose result may be a NaN: all of its bit patterns are made one.
macro_rules! number {
    ($text:literal, f, $expected:expr) => {
        (
            concat!($text, " setp.nan.f32 %p9, %f0, %f0; selp.f32 %f0, 0f7FC00000, %f0, %p9;"),
            'f',
            |a, b, c| {
                let expected: fn(f32, f32, f32) -> f32 = $expected;
                let value = expected(f(a), f(b), f(c));
                if value.is_nan() { 0x7FC0_0000 } else { single(value) }
            },
        )
    };
    ($text:literal, g, $expected:expr) => {
        (
            concat!($text, " setp.nan.f64 %p9, %g0, %g0; selp.f64 %g0, 0d7FF8000000000000, %g0, %p9;"),
            'g',
            |a, b, c| {
                let expected: fn(f64, f64, f64) -> f64 = $expected;
                let value = expected(g(a), g(b), g(c));
                if value.is_nan() { 0x7FF8_0000_0000_0000 } else { value.to_bits() }
            },
        )
    };
}

#[test]
fn numbers_of_single_precision_are_computed_with() {
    check(
        &[
            number!("add.f32 %f0, %f1, %f2;", f, |a, b, _| a + b),
            number!("sub.rn.f32 %f0, %f1, %f2;", f, |a, b, _| a - b),
            number!("mul.f32 %f0, %f1, %f2;", f, |a, b, _| a * b),
            number!("div.rn.f32 %f0, %f1, %f2;", f, |a, b, _| a / b),
            number!("fma.rn.f32 %f0, %f1, %f2, %f3;", f, |a, b, c| a.mul_add(b, c)),
            number!("sqrt.rn.f32 %f0, %f1;", f, |a, _, _| a.sqrt()),
            number!("rcp.rn.f32 %f0, %f1;", f, |a, _, _| 1.0 / a),
            number!("min.f32 %f0, %f1, %f2;", f, |a, b, _| if a == b && a.is_sign_negative() {
                a
            } else {
                b.min(a)
            }),
            number!("abs.f32 %f4, %f1; neg.f32 %f0, %f4;", f, |a, _, _| -a.abs()),
            number!("copysign.f32 %f0, %f1, %f2;", f, |a, b, _| b.copysign(a)),
            number!("rsqrt.approx.f32 %f0, %f1;", f, |a, _, _| (1.0 / f64::from(a).sqrt()) as f32),
            number!("ex2.approx.ftz.f32 %f0, %f2;", f, |_, b, _| {
                let b = if b.is_subnormal() { 0.0 } else { b };
                let value = f64::from(b).exp2() as f32;
                if value.is_subnormal() { 0.0 } else { value }
            }),
            number!("add.ftz.f32 %f0, %f1, %f2;", f, |a, b, _| {
                let flush = |value: f32| if value.is_subnormal() { 0f32.copysign(value) } else { value };
                flush(flush(a) + flush(b))
            }),
            number!("add.sat.f32 %f0, %f1, %f2;", f, |a, b, _| {
                if a + b > 0.0 { (a + b).min(1.0) } else { 0.0 }
            }),
            number!("cvt.rni.f32.f32 %f0, %f1;", f, |a, _, _| a.round_ties_even()),
            ("cvt.rzi.s32.f32 %r0, %f1;", 'r', |a, _, _| word(f(a) as i32)),
            ("cvt.rmi.s64.f32 %d0, %f1;", 'd', |a, _, _| f(a).floor() as i64 as u64),
            ("cvt.rni.u32.f32 %r0, %f1;", 'r', |a, _, _| u64::from(f(a).round_ties_even() as u32)),
            ("setp.lt.f32 %p0, %f1, %f2;", 'p', |a, b, _| u64::from(f(a) < f(b))),
            ("setp.geu.f32 %p0, %f1, %f2;", 'p', |a, b, _| {
                u64::from(!matches!(f(a).partial_cmp(&f(b)), Some(std::cmp::Ordering::Less)))
            }),
            ("setp.neu.f32 %p0, %f1, %f2;", 'p', |a, b, _| u64::from(f(a) != f(b))),
            ("setp.ne.f32 %p0, %f1, %f2;", 'p', |a, b, _| u64::from(f(a) < f(b) || f(a) > f(b))),
            ("setp.num.f32 %p0, %f1, %f2;", 'p', |a, b, _| u64::from(!f(a).is_nan() && !f(b).is_nan())),
            ("testp.finite.f32 %p0, %f1;", 'p', |a, _, _| u64::from(f(a).is_finite())),
        ],
        &floats(false),
    );
}

#[test]
fn numbers_of_double_precision_are_computed_with() {
    check(
        &[
            number!("add.f64 %g0, %g1, %g2;", g, |a, b, _| a + b),
            number!("mul.rn.f64 %g0, %g1, %g2;", g, |a, b, _| a * b),
            number!("div.rn.f64 %g0, %g1, %g2;", g, |a, b, _| a / b),
            number!("fma.rn.f64 %g0, %g1, %g2, %g3;", g, |a, b, c| a.mul_add(b, c)),
            number!("sqrt.rn.f64 %g0, %g1;", g, |a, _, _| a.sqrt()),
            number!("cvt.rn.f32.f64 %f4, %g1; cvt.f64.f32 %g0, %f4;", g, |a, _, _| f64::from(a as f32)),
            number!("cvt.rpi.f64.f64 %g0, %g1;", g, |a, _, _| a.ceil()),
            ("cvt.rni.s32.f64 %r0, %g1;", 'r', |a, _, _| word(g(a).round_ties_even() as i32)),
            ("cvt.rzi.u64.f64 %d0, %g1;", 'd', |a, _, _| g(a) as u64),
            ("setp.ltu.f64 %p0, %g1, %g2;", 'p', |a, b, _| {
                u64::from(!matches!(
                    g(a).partial_cmp(&g(b)),
                    Some(std::cmp::Ordering::Equal | std::cmp::Ordering::Greater)
                ))
            }),
            ("slct.u32.f32 %r0, 1, 2, %f1;", 'r', |a, _, _| if f(a) >= 0.0 { 1 } else { 2 }),
        ],
        &floats(true),
    );
}

#[test]
fn rounding_goes_where_it_is_told_to() {
    // Rounding down and up gives the nearest number, or its neighbour on that side; the exact value lies
    // between them.
    let finite = |all: &[[u64; 3]]| -> Vec<[u64; 3]> {
        all.iter()
            .copied()
            .filter(|all| all.iter().all(|bits| f(*bits).abs() < 1e18 && f(*bits).abs() > 1e-9))
            .collect()
    };
    fn down(exact: f64) -> f32 {
        let near = exact as f32;
        if f64::from(near) > exact { near.next_down() } else { near }
    }
    check(
        &[
            ("mul.rm.f32 %f0, %f1, %f2;", 'f', |a, b, _| single(down(f64::from(f(a)) * f64::from(f(b))))),
            ("mul.rp.f32 %f0, %f1, %f2;", 'f', |a, b, _| single(-down(-(f64::from(f(a)) * f64::from(f(b)))))),
            ("mul.rz.f32 %f0, %f1, %f2;", 'f', |a, b, _| {
                let exact = f64::from(f(a)) * f64::from(f(b));
                single(down(exact.abs()).copysign(exact as f32))
            }),
            (
                "add.rm.f32 %f4, %f1, %f2; add.rp.f32 %f5, %f1, %f2; setp.le.f32 %p0, %f4, %f5;",
                'p',
                |_, _, _| 1,
            ),
            // For values that single precision represents exactly, both are the same.
            ("fma.rm.f32 %f0, %f1, 0f40000000, 0f00000000;", 'f', |a, _, _| single(2.0 * f(a))),
            ("cvt.rm.f32.f64 %f0, %g1;", 'f', |a, _, _| single(down(g(a)))),
            (
                "cvt.f64.f32 %g4, %f1; div.rm.f64 %g5, %g4, 0d4008000000000000; div.rp.f64 %g6, %g4, \
                 0d4008000000000000; sub.f64 %g7, %g6, %g5; mul.f64 %g7, %g7, 0d4008000000000000; \
                 fma.rn.f64 %g8, %g5, 0d4008000000000000, %g7; setp.ge.f64 %p0, %g8, %g4;",
                'p',
                |_, _, _| 1,
            ),
        ],
        &finite(&floats(false)),
    );
}

#[test]
fn halves_are_converted_and_computed_with() {
    let all: Vec<[u64; 3]> =
        (0..1024).map(|number: u64| [number * 64 + number % 7, 0x3C00 + number, 0]).collect();
    fn half(bits: u64) -> f64 {
        let (exponent, fraction) = (bits as i32 >> 10 & 31, (bits & 1023) as f64);
        let size = match exponent {
            0 => fraction * 2f64.powi(-24),
            31 if fraction > 0.0 => f64::NAN,
            31 => f64::INFINITY,
            _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
        };
        if bits >> 15 & 1 == 1 { -size } else { size }
    }
    check(
        &[
            number!("cvt.f32.f16 %f0, %s1;", f, |a, _, _| {
                let bits = u64::from(a.to_bits() & 0xFFFF);
                half(bits) as f32
            }),
            ("cvt.f32.f16 %f4, %s1; cvt.rn.f16.f32 %s0, %f4;", 's', |a, _, _| {
                if half(a).is_nan() { 0x7FFF } else { a & 0xFFFF }
            }),
            // 1 and n / 1024, plus 1: every second one lies between two halves.
            ("mov.b16 %s4, 0x3C00; add.f16 %s0, %s2, %s4;", 's', |_, b, _| {
                let n = b - 0x3C00;
                0x4000 + n / 2 + ((n / 2) & n & 1)
            }),
        ],
        &all,
    );
}
