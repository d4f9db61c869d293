//! What the operations mean: integers wrap, shifts are masked, `as` saturates, faults fail the launch.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::{compare, cpu, devices};

/// Operations of one type of integer, of two numbers: in wrapping forms, which the CPU has, too.
macro_rules! integers {
    ($($test:ident $definition:ident $item:ident $once:ident $type:ident $bits:literal $name:literal;)*) => {$(
        #[derive(KernelDefinition)]
        #[kernel(name = $name, dims(i))]
        struct $definition<'a> {
            a: Item<'a, Read<$type>>,
            b: Item<'a, Read<$type>>,
            out: Item<'a, Write<[$type; 14]>>,
        }

        struct $once;

        #[kernel(devices)]
        impl CpuItem<$definition<'_>> for $once {
            fn item(_: Index<1>, k: $item<'_>) {
                let (a, b) = (*k.a, *k.b);
                let by = b as u32;
                let divides = b != 0 && b.wrapping_add(1) != 0;
                k.out.set([
                    a.wrapping_add(b),
                    a.wrapping_sub(b),
                    a.wrapping_mul(b),
                    if divides { a / b } else { 0 },
                    if divides { a % b } else { 0 },
                    a & b,
                    a | b,
                    a ^ b,
                    !a,
                    a.wrapping_shl(by),
                    a.wrapping_shr(by),
                    a.rotate_left(by % $bits),
                    a.min(b),
                    a.max(b).clamp(3, 100),
                ]);
            }
        }

        #[test]
        fn $test() {
            compare(concat!("meaning::", stringify!($test)), |rt| {
                let special = [0, 1, 2, 3, 7, 100, $type::MAX, $type::MIN, $type::MAX / 2, $type::MAX - 1];
                let all = special.into_iter().flat_map(|a| special.into_iter().map(move |b| (a, b)));
                let (a, b): (Vec<$type>, Vec<$type>) = all.unzip();
                let n = a.len();
                let out = FlashMemory::from(vec![[0 as $type; 14]; n]);
                rt.submit($definition::of(&a[..], &b[..], &out)).exec([n as u64]).unwrap();
                out.read().unwrap().to_vec()
            });
        }
    )*};
}
integers! {
    of_i8 I8 I8Item I8Once i8 8 "once.i8";
    of_u8 U8 U8Item U8Once u8 8 "once.u8";
    of_i16 I16 I16Item I16Once i16 16 "once.i16";
    of_i32 I32 I32Item I32Once i32 32 "once.i32";
    of_u32 U32 U32Item U32Once u32 32 "once.u32";
    of_i64 I64 I64Item I64Once i64 64 "once.i64";
    of_u64 U64 U64Item U64Once u64 64 "once.u64";
}

/// Operations that unsigned integers alone have.
macro_rules! unsigned {
    ($($test:ident $definition:ident $item:ident $once:ident $type:ident $signed:ident $name:literal;)*) => {$(
        #[derive(KernelDefinition)]
        #[kernel(name = $name, dims(i))]
        struct $definition<'a> {
            a: Item<'a, Read<$type>>,
            b: Item<'a, Read<$type>>,
            out: Item<'a, Write<[$type; 5]>>,
        }

        struct $once;

        #[kernel(devices)]
        impl CpuItem<$definition<'_>> for $once {
            fn item(_: Index<1>, k: $item<'_>) {
                let (a, b) = (*k.a, *k.b);
                k.out.set([
                    a.saturating_sub(b),
                    a.abs_diff(b),
                    a.wrapping_add_signed(b as $signed),
                    a.is_multiple_of(b) as $type,
                    if b != 0 { a.div_ceil(b) } else { 0 },
                ]);
            }
        }

        #[test]
        fn $test() {
            compare(concat!("meaning::", stringify!($test)), |rt| {
                let special = [0, 1, 2, 3, 7, 100, $type::MAX, $type::MAX / 2, $type::MAX / 2 + 1, $type::MAX - 1];
                let all = special.into_iter().flat_map(|a| special.into_iter().map(move |b| (a, b)));
                let (a, b): (Vec<$type>, Vec<$type>) = all.unzip();
                let n = a.len();
                let out = FlashMemory::from(vec![[0 as $type; 5]; n]);
                rt.submit($definition::of(&a[..], &b[..], &out)).exec([n as u64]).unwrap();
                out.read().unwrap().to_vec()
            });
        }
    )*};
}
unsigned! {
    of_unsigned_8 Unsigned8 Unsigned8Item Unsigned8Once u8 i8 "once.unsigned8";
    of_unsigned_16 Unsigned16 Unsigned16Item Unsigned16Once u16 i16 "once.unsigned16";
    of_unsigned_32 Unsigned32 Unsigned32Item Unsigned32Once u32 i32 "once.unsigned32";
    of_unsigned_64 Unsigned64 Unsigned64Item Unsigned64Once u64 i64 "once.unsigned64";
}

/// Conversions between all kinds of numbers, as bits.
#[derive(KernelDefinition)]
#[kernel(name = "once.casts", dims(i))]
struct Casts<'a> {
    x: Item<'a, Read<f64>>,
    bits: Item<'a, Write<[u64; 12]>>,
}

struct CastsOnce;

#[kernel(devices)]
impl CpuItem<Casts<'_>> for CastsOnce {
    fn item(_: Index<1>, k: CastsItem<'_>) {
        let x = *k.x;
        let narrow = x as f32;
        k.bits.set([
            x as i8 as u64,
            x as u8 as u64,
            x as i16 as u64,
            x as i32 as u64,
            x as u32 as u64,
            x as i64 as u64,
            x as u64,
            narrow as i32 as u64,
            narrow as u64,
            u64::from(narrow.to_bits()),
            (x as i64 as f32).to_bits() as u64,
            (x < 1.0) as u64,
        ]);
    }
}

#[test]
fn casts() {
    compare("meaning::casts", |rt| {
        let x = [
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.5,
            -1.5,
            127.0,
            128.0,
            -128.0,
            -129.0,
            255.5,
            256.0,
            3e4,
            -4e4,
            2147483647.0,
            2147483648.0,
            -2147483649.0,
            4294967296.0,
            1e15,
            9.3e18,
            1.9e19,
            -1e300,
            1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1e-300,
        ];
        let bits = FlashMemory::from(vec![[0_u64; 12]; x.len()]);
        rt.submit(Casts::of(&x[..], &bits)).exec([x.len() as u64]).unwrap();
        let mut all = bits.read().unwrap().to_vec();
        // The bits of a NaN are not fixed.
        all[x.len() - 2][9] = 0;
        all
    });
}

/// Rounding: no contraction, and the operations that have one result.
#[derive(KernelDefinition)]
#[kernel(name = "once.rounding", dims(i))]
struct Rounding<'a> {
    a: Item<'a, Read<f32>>,
    b: Item<'a, Read<f32>>,
    out: Item<'a, Write<[f32; 10]>>,
}

struct RoundingOnce;

#[kernel(devices)]
impl CpuItem<Rounding<'_>> for RoundingOnce {
    fn item(_: Index<1>, k: RoundingItem<'_>) {
        let (a, b) = (*k.a, *k.b);
        k.out.set([
            a * b + a,
            a * b - b * a * 0.5,
            a.mul_add(b, a),
            a / b,
            a.abs().sqrt(),
            a.floor() + b.ceil(),
            a.round() - b.trunc(),
            a.min(b).max(-1.0),
            a % b,
            a.copysign(b),
        ]);
    }
}

#[test]
fn rounding() {
    compare("meaning::rounding", |rt| {
        let of = |by: u32| (0..200_u32).map(|i| (i * by % 1009) as f32 * 0.0371 - 17.3).collect::<Vec<f32>>();
        let (a, b) = (of(271), of(733));
        let out = FlashMemory::from(vec![[0.0_f32; 10]; 200]);
        rt.submit(Rounding::of(&a[..], &b[..], &out)).exec([200]).unwrap();
        out.read().unwrap().iter().map(|all| all.map(f32::to_bits)).collect::<Vec<[u32; 10]>>()
    });
}

/// Loops in all forms, `match`, and a `return` out of two loops.
#[derive(KernelDefinition)]
#[kernel(name = "once.flow", dims(i))]
struct Flow<'a> {
    n: Item<'a, Read<i32>>,
    out: Item<'a, Write<[i64; 10]>>,
}

struct FlowOnce;

/// The first pair of factors of `n`, or 0.
#[kernel_fn]
fn factors(n: i32) -> (i32, i32) {
    for a in 2..n {
        let mut b = a;
        while b < n {
            if a * b == n {
                return (a, b);
            }
            b += 1;
        }
    }
    (0, 0)
}

#[kernel_fn]
fn class(n: i32) -> i64 {
    const SPECIAL: i32 = 12;
    match n {
        0 => 1,
        1 | 2 => 2,
        SPECIAL => 3,
        3..=5 => 4,
        x if x % 7 == 0 => i64::from(x) * 10,
        -5..0 => 5,
        _ => 6,
    }
}

#[kernel(devices)]
impl CpuItem<Flow<'_>> for FlowOnce {
    fn item(_: Index<1>, k: FlowItem<'_>) {
        let n = *k.n;
        let mut out = [0_i64; 10];
        for i in (0..n).rev() {
            out[0] = out[0] * 3 + i64::from(i);
            if i == 2 {
                break;
            }
        }
        for i in (0..=n).step_by(3) {
            if i == 6 {
                continue;
            }
            out[1] = out[1] * 5 + i as i64;
        }
        for i in (-3..n).rev().step_by(2) {
            out[2] = out[2] * 2 + i as i64;
        }
        for i in 250..=255_u8 {
            out[3] += i as i64;
        }
        let mut left = n;
        loop {
            if left <= 1 {
                break;
            }
            left = if left % 2 == 0 { left / 2 } else { 3 * left + 1 };
            out[4] += 1;
        }
        let (a, b) = factors(n);
        (out[5], out[6]) = (a as i64, b as i64);
        out[7] = class(n);
        let weights = [5_i64, -2, 9];
        for weight in &weights {
            out[8] = out[8] * 10 + *weight;
        }
        let both = n > 3 && weights[(n % 3) as usize] > 0 || n == 1;
        out[9] = both as i64;
        k.out.set(out);
    }
}

#[test]
fn flow() {
    compare("meaning::flow", |rt| {
        let n = (0..40).collect::<Vec<i32>>();
        let out = FlashMemory::from(vec![[0_i64; 10]; 40]);
        rt.submit(Flow::of(&n[..], &out)).exec([40]).unwrap();
        out.read().unwrap().to_vec()
    });
}

/// Faults, one of each kind.
#[derive(KernelDefinition)]
#[kernel(name = "once.faults", dims(i))]
struct Faults<'a> {
    kind: u32,
    zero: i32,
    from: Whole<'a, Read<i32>>,
    part: Window<'a, Read<i32>>,
    out: Item<'a, ReadWrite<i32>>,
}

struct FaultsOnce;

#[kernel(devices)]
impl CpuItem<Faults<'_>> for FaultsOnce {
    fn item(ix: Index<1>, k: FaultsItem<'_>) {
        let table = [1, 2, 3];
        let last = ix[0] == 3;
        let far = if last { 10_000_000 } else { 0 };
        *k.out = match k.kind {
            0 => k.from[far],
            1 => k.part.get(far),
            2 => k.part.at([far, 0, 0]),
            3 => table[far],
            4 => 7 / (k.zero + !last as i32),
            5 => (i32::MIN + !last as i32) % (k.zero - 1),
            6 => {
                if last {
                    panic!("the last item");
                }
                0
            }
            7 => {
                assert!(!last, "no last item");
                0
            }
            _ => 5,
        };
    }
}

#[test]
fn faults_fail_the_launch() {
    let run = |rt: &flash::RuntimeObj, kind: u32| {
        let (from, out) = (FlashMemory::from(vec![3; 4]), FlashMemory::from(vec![0; 4]));
        let result = rt.submit(Faults::of(kind, 0, &from, &from, &out)).exec([4]);
        if result.is_ok() {
            assert_eq!(out.read().unwrap()[3], 5);
        } else {
            assert!(out.read().is_err(), "its output is poisoned");
        }
        result.map_err(|error| error.to_string())
    };
    let texts = [
        "expected an index from 0 up to, and without, 4",
        "expected an index from 0 up to, and without, 4",
        "expected an index from 0 up to, and without, 4",
        "an index outside an array of 3",
        "a division by 0",
        "a division by 0, or one whose result has no value",
        "the last item",
        "no last item",
    ];
    for (device, rt) in devices("meaning::faults_fail_the_launch") {
        for (kind, expected) in (0_u32..).zip(texts) {
            let text = run(&rt, kind).expect_err("a fault");
            assert!(text.contains(expected), "{device}, {kind}: {text}");
            // The other faults have no index of an array, but a place in this file.
            assert!(kind < 3 || text.contains("meaning.rs:"), "{device}, {kind}: {text}");
        }
        assert_eq!(run(&rt, 9), Ok(()), "{device}");
    }
    for kind in 0..8 {
        run(&cpu(), kind).expect_err("a fault");
    }
}

/// Names of the kernel's that the second function has, too, references that are passed on, and a variable
/// that is set later.
#[derive(KernelDefinition)]
#[kernel(name = "once.names", dims(i))]
struct Names<'a> {
    float: i32,
    double: Whole<'a, Read<i32>>,
    kernel: Item<'a, Write<[i32; 4]>>,
}

struct NamesOnce;

#[kernel_fn]
fn add_to(sum: &mut i32, by: i32) {
    *sum += by;
}

#[kernel_fn]
fn add_twice(to: &mut i32, by: i32) {
    add_to(to, by);
    let again = to;
    add_to(again, by);
}

#[kernel(devices)]
#[allow(clippy::needless_late_init)]
impl CpuItem<Names<'_>> for NamesOnce {
    fn item(ix: Index<1>, k: NamesItem<'_>) {
        let (mut value, mut by) = (1, k.float);
        let mut item = (value, by);
        value += by;
        by += value;
        item.0 += by * value;
        let matched = k.double[ix[0]];
        let first = match matched {
            3 => matched * 2,
            other => other + matched,
        };
        let int;
        if first > 4 {
            int = first;
        } else {
            int = -first;
        }
        let mut array = [0; 2];
        add_twice(&mut array[1], int);
        for item in array {
            value += item;
        }
        k.kernel.set([value, by, item.0, array[1]]);
    }
}

#[test]
fn names() {
    compare("meaning::names", |rt| {
        let double = (0..6).collect::<Vec<i32>>();
        let kernel = FlashMemory::from(vec![[0_i32; 4]; 6]);
        rt.submit(Names::of(7, &double[..], &kernel)).exec([6]).unwrap();
        kernel.read().unwrap().to_vec()
    });
}
