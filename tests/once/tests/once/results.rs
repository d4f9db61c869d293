//! Kernels that return a `Result`: its error fails the launch, with its words and the work item. Parts of
//! arrays, as in rows of a sparse matrix.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_tests_once::{compare, cpu, devices};
use std::fmt;

struct Once;

/// What is wrong with a number.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Negative,
    Large,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wrong::Negative => "a number below 0",
            Wrong::Large => "a number beyond 100",
        })
    }
}

#[kernel_fn]
fn root(x: f32) -> Result<f32, Wrong> {
    if x < 0.0 {
        return Err(Wrong::Negative);
    }
    if x > 100.0 { Err(Wrong::Large) } else { Ok(x.sqrt()) }
}

#[kernel_fn]
fn both(a: f32, b: f32) -> Result<[f32; 2], Wrong> {
    let a = root(a)?;
    Ok([a, root(b)?])
}

/// Goes on although something is wrong.
#[kernel_fn]
fn lengths(x: f32) -> (f32, u32) {
    let (first, second) = (root(x - 5.0), root(x + 90.0));
    let mut kinds = 0;
    if first.is_err() {
        kinds += 1;
    }
    if second.is_ok() {
        kinds += 2;
    }
    (first.unwrap_or(-1.0) + second.unwrap_or(1000.0), kinds)
}

/// Sums of roots.
#[derive(KernelDefinition)]
#[kernel(name = "once.roots", dims(x, y))]
struct Roots<'a> {
    a: Item<'a, Read<f32>>,
    b: Item<'a, Read<f32>>,
    sum: Item<'a, Write<f32>>,
    length: Item<'a, Write<f32>>,
    kinds: Item<'a, Write<u32>>,
}

#[kernel(devices)]
impl CpuItem<Roots<'_>> for Once {
    fn item(ix: Index<2>, k: RootsItem<'_>) -> Result<(), Wrong> {
        let [a, b] = both(*k.a, *k.b)?;
        k.sum.set(a + b);
        let (length, kinds) = lengths(*k.a);
        k.length.set(length);
        k.kinds.set(kinds);
        if ix[0] > 7 {
            return Ok(());
        }
        k.sum.set(a + b + 1.0);
        Ok(())
    }
}

const SHAPE: [u64; 2] = [13, 5];

fn roots(rt: &RuntimeObj, wrong: Option<(usize, f32)>) -> Result<Vec<u32>, Error> {
    let mut a: Vec<f32> = (0..65).map(|i| (i * 37 % 100) as f32).collect();
    let b: Vec<f32> = (0..65).map(|i| (i * 13 % 99) as f32).collect();
    if let Some((at, value)) = wrong {
        a[at] = value;
    }
    let [a, b] = [a, b].map(|values| FlashMemory::from(values).with_shape(SHAPE).unwrap());
    let [sum, length] = [0, 1].map(|_| FlashMemory::<f32>::zeroed(SHAPE));
    let kinds = FlashMemory::<u32>::zeroed(SHAPE);
    rt.submit(Roots::of(&a, &b, &sum, &length, &kinds)).exec(SHAPE)?;
    let bits = [sum, length].map(|memory| memory.to_vec().unwrap()).concat().into_iter().map(f32::to_bits);
    Ok(bits.chain(kinds.to_vec()?).collect())
}

#[test]
fn results() {
    compare("results::results", |rt| roots(rt, None).unwrap());
}

#[test]
fn an_error_says_what_is_wrong_and_at_which_work_item() {
    let expected = roots(&cpu(), None).unwrap();
    let all = devices("results::an_error_says_what_is_wrong_and_at_which_work_item");
    for (device, rt) in [("the CPU".to_owned(), cpu())].into_iter().chain(all) {
        for (value, words) in [(-1.0, "a number below 0"), (101.0, "a number beyond 100")] {
            let text = roots(&rt, Some((2 * 13 + 3, value))).expect_err("one is wrong").to_string();
            assert!(text.contains(words) && text.contains("work item [3, 2]"), "{device}: {text}");
        }
        assert_eq!(roots(&rt, None).unwrap(), expected, "{device}");
    }
}

/// An error from `unwrap` is a panic.
#[derive(KernelDefinition)]
#[kernel(name = "once.unwraps", dims(i))]
struct Unwraps<'a> {
    x: Item<'a, Read<f32>>,
    y: Item<'a, Write<f32>>,
}

#[kernel(devices)]
impl CpuItem<Unwraps<'_>> for Once {
    fn item(_: Index<1>, k: UnwrapsItem<'_>) {
        k.y.set(root(*k.x).unwrap());
    }
}

#[test]
fn unwrap_of_an_error_fails_the_launch() {
    for (device, rt) in devices("results::unwrap_of_an_error_fails_the_launch") {
        let mut x = [4.0_f32; 30];
        let y = FlashMemory::<f32>::zeroed(30);
        rt.submit(Unwraps::of(&x[..], &y)).exec([30]).unwrap();
        assert_eq!(y.to_vec().unwrap(), [2.0; 30], "{device}");
        x[17] = -4.0;
        let text = rt.submit(Unwraps::of(&x[..], &y)).exec([30]).expect_err("one is wrong").to_string();
        assert!(text.contains("below 0") && text.contains("work item [17]"), "{device}: {text}");
    }
}

const EMPTY: &str = "a row without elements";

/// The largest element of each row, by a team.
#[derive(KernelDefinition)]
#[kernel(name = "once.largest_of_rows", dims(row))]
struct Largest<'a> {
    x: Item<'a, Read<Row<i32>>>,
    most: Item<'a, Write<i32>>,
}

#[kernel(devices)]
impl CpuTeam<Largest<'_>, 16> for Once {
    fn team(_: Index<1>, k: LargestItem<'_>, team: &mut Team<16>) -> Result<(), &'static str> {
        let most = team.reduce(k.x.len(), i32::MIN, |i| k.x[i], |a, b| a.max(b));
        if most == i32::MIN {
            return Err(EMPTY);
        }
        k.most.set(most);
        Ok(())
    }
}

fn largest(rt: &RuntimeObj, empty: Option<usize>) -> Result<Vec<i32>, Error> {
    let mut x: Vec<i32> = (0..7 * 50).map(|i| i * 7919 % 1000 - 500).collect();
    if let Some(row) = empty {
        x[50 * row..50 * (row + 1)].fill(i32::MIN);
    }
    let x = FlashMemory::from(x).with_shape([50, 7]).unwrap();
    let most = FlashMemory::<i32>::zeroed(7);
    rt.submit(Largest::of(&x, &most)).exec([7])?;
    most.to_vec()
}

#[test]
fn results_of_teams() {
    compare("results::results_of_teams", |rt| largest(rt, None).unwrap());
    for (device, rt) in devices("results::results_of_teams") {
        let text = largest(&rt, Some(4)).expect_err("a row is empty").to_string();
        assert!(text.contains(EMPTY) && text.contains("work item [4]"), "{device}: {text}");
        assert!(largest(&rt, None).is_ok(), "{device}");
    }
}

#[kernel_fn]
fn sum(values: &[f64]) -> f64 {
    let mut sum = 0.0;
    for value in values {
        sum += value;
    }
    sum
}

/// A product with a sparse matrix, row by row, and twice over each of its ends.
#[derive(KernelDefinition)]
#[kernel(name = "once.sparse_rows", dims(row))]
struct SparseRows<'a> {
    start: Window<'a, Read<u32>>,
    column: Whole<'a, Read<u32>>,
    value: Window<'a, Read<f64>>,
    x: Whole<'a, Read<f64>>,
    y: Item<'a, Write<Row<f64>>>,
}

#[kernel(devices)]
impl CpuItem<SparseRows<'_>> for Once {
    fn item(ix: Index<1>, k: SparseRowsItem<'_>) {
        let (begin, end) = (k.start.get(ix[0]) as usize, k.start.get(ix[0] + 1) as usize);
        let columns = &k.column[begin..end];
        let values = k.value.slice(begin..end);
        let mut product = 0.0;
        for i in 0..columns.len() {
            product += values[i] * k.x[columns[i] as usize];
        }
        k.y[0] = product;
        k.y[1] = sum(&k.x[..begin.min(k.x.len())]);
        let rest = &k.y[..2];
        let all = rest[0] + rest[1];
        let last = &mut k.y[2..];
        last[0] = all;
        k.y[3] = sum(&k.x[k.x.len() - 1..]) + sum(&k.x[3..3]);
    }
}

fn sparse_rows(rt: &RuntimeObj, start: &[u32]) -> Result<Vec<f64>, Error> {
    let column: Vec<u32> = (0..20).map(|i| i * 7 % 9).collect();
    let value: Vec<f64> = (0..20).map(|i| i as f64 - 8.0).collect();
    let x: Vec<f64> = (0..9).map(|i| (i * i) as f64).collect();
    let rows = start.len() - 1;
    let y = FlashMemory::<f64>::zeroed([4, rows]);
    rt.submit(SparseRows::of(start, &column[..], &value[..], &x[..], &y)).exec([rows as u64])?;
    y.to_vec()
}

#[test]
fn parts_of_arrays() {
    let start = [0, 3, 3, 4, 11, 20];
    compare("results::parts_of_arrays", |rt| sparse_rows(rt, &start).unwrap());
    for (device, rt) in devices("results::parts_of_arrays") {
        for wrong in [[0, 3, 2, 4, 11, 20], [0, 3, 3, 4, 11, 21], [0, 3, 3, 4, 11, u32::MAX]] {
            let text = sparse_rows(&rt, &wrong).expect_err("it leaves the array").to_string();
            assert!(text.contains("a part of an array") && text.contains("results.rs:"), "{device}: {text}");
        }
        assert!(sparse_rows(&rt, &start).is_ok(), "{device}");
    }
}
