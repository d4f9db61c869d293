//! `Option`, and patterns that a value fits or not: `match`, `if let`, `while let`, `let .. else` and
//! `matches!`.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::{compare, devices};

struct Once;

#[kernel_fn]
fn quotient(a: i32, b: i32) -> Option<i32> {
    if b == 0 {
        return None;
    }
    Some(a / b)
}

#[derive(Clone, Copy, Staged)]
struct Pair {
    x: i32,
    y: i32,
}

#[kernel_fn]
fn pair(a: i32, b: i32) -> Option<Pair> {
    if a < b { Some(Pair { x: a % 3, y: b }) } else { None }
}

#[kernel_fn]
fn small(x: i32) -> Result<i32, &'static str> {
    if x.abs() > 9 { Err("a large number") } else { Ok(x) }
}

/// `None` where one of both quotients is.
#[kernel_fn]
fn of_both(a: i32, b: i32) -> Option<(i32, [i32; 2])> {
    let first = quotient(a, b)?;
    let second = quotient(b, a - 3)?;
    Some((first + second, [first, second]))
}

#[kernel_fn]
fn with_words(a: i32, b: i32) -> Result<i32, &'static str> {
    let q = quotient(a, b).ok_or("a division by 0")?;
    Ok(q + small(q).ok().unwrap_or(100))
}

#[kernel_fn]
fn matched(a: i32, b: i32) -> i32 {
    let first = match quotient(a, b) {
        Some(0) => 1,
        Some(x) if x > 3 => 2 * x,
        Some(2..=3) => 7,
        Some(x) => x - 1,
        None => -100,
    };
    let second = match quotient(b, a) {
        None => 5,
        Some(mut x) => {
            x += 1;
            x * x
        }
    };
    let third = match (quotient(a, 2), small(b)) {
        (Some(x), Ok(y)) => x * y,
        (Some(x), Err(_)) => x,
        (None, _) => 0,
    };
    let fourth = match small(a) {
        Ok(x) => x - 1,
        Err(_) => 50,
    };
    let fifth = match pair(a, b) {
        Some(Pair { x: 0, y }) => y,
        Some(Pair { x, .. }) => 2 * x,
        None => 1,
    };
    first + 1_000 * second + 100_000 * third + 3 * fourth + 17 * fifth
}

#[kernel_fn]
fn conditional(a: i32, b: i32) -> i32 {
    let mut sum = 0;
    if let Some(x) = quotient(a, b) {
        sum += x;
    }
    sum += if let Ok(x) = small(a + b) { 2 * x } else { -1 };
    if a > 2
        && let Some(x) = quotient(b, a)
        && x != 1
        && let Ok(y) = small(x)
    {
        sum += 10 * y;
    } else {
        sum += 1_000;
    }
    let of_chain = if let Some(x) = quotient(a, b)
        && x > 1
    {
        x
    } else {
        a
    };
    if matches!(quotient(a, b), Some(x) if x > b) {
        sum += 10_000;
    }
    if !matches!(small(b), Ok(-5..=5)) && !matches!(a, -1 | 1..=4) {
        sum += 20_000;
    }
    sum + 100_000 * of_chain
}

#[kernel_fn]
fn repeated(a: i32, b: i32) -> i32 {
    let (mut left, mut turns) = (Some(a.abs()), 0);
    while let Some(x) = left {
        left = if x > 2 { Some(x / 2) } else { None };
        turns += 1;
        if turns == 4 {
            break;
        }
    }
    let (mut x, mut sum) = (b, 0);
    while x < 20
        && let Some(q) = quotient(24, x)
    {
        sum += q;
        x += 3;
        if q == 2 {
            continue;
        }
        sum += 1;
    }
    for i in 0..6 {
        let Some(q) = quotient(a, i - 2) else { continue };
        let Ok(q) = small(q) else {
            sum += 1;
            continue;
        };
        sum += q;
    }
    100 * turns + sum
}

#[kernel_fn]
fn ended(a: i32, b: i32) -> i32 {
    let Some((sum, [first, second])) = of_both(a, b) else {
        return -7;
    };
    let Ok(words) = with_words(a, b) else { return -8 };
    sum + 10 * first + 100 * second + 1_000 * words
}

#[derive(KernelDefinition)]
#[kernel(name = "once.patterns", dims(i))]
struct Patterns<'a> {
    a: Item<'a, Read<i32>>,
    b: Item<'a, Read<i32>>,
    matched: Item<'a, Write<i32>>,
    conditional: Item<'a, Write<i32>>,
    repeated: Item<'a, Write<i32>>,
    ended: Item<'a, Write<i32>>,
}

#[kernel(devices)]
impl CpuItem<Patterns<'_>> for Once {
    fn item(_: Index<1>, k: PatternsItem<'_>) {
        let (a, b) = (*k.a, *k.b);
        k.matched.set(matched(a, b));
        k.conditional.set(conditional(a, b));
        k.repeated.set(repeated(a, b));
        k.ended.set(ended(a, b));
    }
}

#[test]
fn patterns() {
    compare("patterns::patterns", |rt| {
        let pairs = (-20..20).flat_map(|a| (-20..20).map(move |b| (a, b)));
        let (a, b): (Vec<i32>, Vec<i32>) = pairs.unzip();
        let [m, c, r, e] = [(); 4].map(|()| FlashMemory::<i32>::zeroed(a.len()));
        rt.submit(Patterns::of(&a, &b, &m, &c, &r, &e)).exec([a.len()]).unwrap();
        [m, c, r, e].map(|memory| memory.to_vec().unwrap()).concat()
    });
}

/// What a pattern that never fits leaves out has a text all the same.
#[kernel_fn]
fn never() -> f32 {
    let nothing: Option<f32> = None;
    match nothing {
        Some(x) => x * 2.0,
        None => 3.0,
    }
}

/// One argument of each type, and the results of operations that may not fit it, with 1 where they do.
macro_rules! checked {
    ($($kernel:ident $item:ident $name:literal $type:ident [$($operation:ident)*];)*) => {$(
        #[derive(KernelDefinition)]
        #[kernel(name = $name, dims(i))]
        struct $kernel<'a> {
            a: Item<'a, Read<$type>>,
            b: Item<'a, Read<$type>>,
            to: Item<'a, Write<u64>>,
        }

        #[kernel(devices)]
        impl CpuItem<$kernel<'_>> for Once {
            fn item(_: Index<1>, k: $item<'_>) {
                let mut sum = never() as u64;
                $(
                    sum = sum.wrapping_mul(31);
                    if let Some(x) = k.a.$operation(*k.b) {
                        sum = sum.wrapping_add(x as u64).wrapping_add(1);
                    }
                )*
                k.to.set(sum);
            }
        }
    )*};
}

checked! {
    CheckedU8 CheckedU8Item "once.checked_u8" u8 [checked_add checked_sub checked_mul checked_div checked_rem];
    CheckedU16 CheckedU16Item "once.checked_u16" u16 [checked_add checked_sub checked_mul checked_div checked_rem];
    CheckedU32 CheckedU32Item "once.checked_u32" u32 [checked_add checked_sub checked_mul checked_div checked_rem];
    CheckedU64 CheckedU64Item "once.checked_u64" u64 [checked_add checked_sub checked_mul checked_div checked_rem];
    CheckedI8 CheckedI8Item "once.checked_i8" i8 [checked_add checked_sub];
    CheckedI16 CheckedI16Item "once.checked_i16" i16 [checked_add checked_sub];
    CheckedI32 CheckedI32Item "once.checked_i32" i32 [checked_add checked_sub];
    CheckedI64 CheckedI64Item "once.checked_i64" i64 [checked_add checked_sub];
}

#[test]
fn operations_that_may_not_fit() {
    macro_rules! compared {
        ($($kernel:ident $type:ident;)*) => {
            compare("patterns::operations_that_may_not_fit", |rt| {
                let mut all = Vec::new();
                $({
                    let ends = [$type::MIN, $type::MIN + 1, $type::MAX, $type::MAX - 1];
                    let values: Vec<$type> = ends.into_iter().chain(0..4).chain([$type::MAX / 2, 100, 16]).collect();
                    let pairs = values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b)));
                    let (a, b): (Vec<$type>, Vec<$type>) = pairs.unzip();
                    let to = FlashMemory::<u64>::zeroed(a.len());
                    rt.submit($kernel::of(&a, &b, &to)).exec([a.len()]).unwrap();
                    all.extend(to.to_vec().unwrap());
                })*
                all
            });
        };
    }
    compared! {
        CheckedU8 u8; CheckedU16 u16; CheckedU32 u32; CheckedU64 u64;
        CheckedI8 i8; CheckedI16 i16; CheckedI32 i32; CheckedI64 i64;
    }
}

#[derive(KernelDefinition)]
#[kernel(name = "once.unwraps_none", dims(i))]
struct Unwraps<'a> {
    a: Item<'a, Read<i32>>,
    to: Item<'a, Write<i32>>,
}

#[kernel(devices)]
impl CpuItem<Unwraps<'_>> for Once {
    fn item(_: Index<1>, k: UnwrapsItem<'_>) {
        k.to.set(quotient(60, *k.a).unwrap());
    }
}

#[test]
fn unwrap_of_none_fails_the_launch() {
    for (device, rt) in devices("patterns::unwrap_of_none_fails_the_launch") {
        let (mut a, to) = ([3; 20], FlashMemory::<i32>::zeroed(20));
        rt.submit(Unwraps::of(&a[..], &to)).exec([20]).unwrap();
        assert_eq!(to.to_vec().unwrap(), [20; 20], "{device}");
        a[11] = 0;
        let text = rt.submit(Unwraps::of(&a[..], &to)).exec([20]).expect_err("one is none").to_string();
        assert!(text.contains("a `None` value") && text.contains("work item [11]"), "{device}: {text}");
    }
}
