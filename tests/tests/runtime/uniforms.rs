//! Uniforms: one element for all work items, which a launch before may have written.

use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Reduce, Sum, Uniform, Window, Write};
use flash::kernel::{CpuItem, CpuSpan, CpuWhole, Index, Space, Span, Threads};
use flash::prelude::*;
use flash_tests::{APART, in_process};

/// `y += a x`, with an `a` that is somewhere.
#[derive(KernelDefinition)]
#[kernel(name = "uniforms.axpy", dims(x, y), part_by(y))]
struct Axpy<'a> {
    a: Uniform<'a, Read<f64>>,
    b: [Uniform<'a, Read<[f64; 2]>>; 2],
    x: Item<'a, Read<f64>>,
    y: Item<'a, ReadWrite<f64>>,
}

struct ByItem;
struct BySpan;
struct ByWhole;

#[kernel]
impl CpuItem<Axpy<'_>> for ByItem {
    fn item(_: Index<2>, k: AxpyItem<'_>) {
        *k.y += *k.a * *k.x + k.b[0][1] - k.b[1][0];
    }
}

#[kernel]
impl CpuSpan<Axpy<'_>> for BySpan {
    fn span(_: Span<2>, k: AxpySpan<'_>) {
        for (y, x) in k.y.iter_mut().zip(k.x) {
            *y += *k.a * x + k.b[0][1] - k.b[1][0];
        }
    }
}

#[kernel]
impl CpuWhole<Axpy<'_>> for ByWhole {
    fn whole(_: Space<'_, Index<2>>, k: AxpyWhole<'_>, _: Threads<'_>) {
        for (y, x) in k.y.iter_mut().zip(k.x) {
            *y += *k.a * x + k.b[0][1] - k.b[1][0];
        }
    }
}

/// Each door's result, with the factor in a memory, a range and a variable.
fn doors(doors: &[&str]) {
    let rt = flash_tests::runtime_of_functions();
    let x: FlashMemory<f64> = (0..600).map(f64::from).collect();
    let a = FlashMemory::from(vec![1.0, 2.0, 3.0]).with_shape([1, 3]).unwrap();
    let b =
        [FlashMemory::from(vec![[0.0, 7.0]]), FlashMemory::from(vec![[3.0, 0.0]]).with_shape([1]).unwrap()];
    for door in doors {
        let y = FlashMemory::<f64>::zeroed(600);
        let run = |axpy: Axpy<'_>| {
            rt.submit(axpy).options(Implementation::named(*door)).exec([20, 30]).unwrap();
        };
        run(Axpy::of(a.range(1..2).unwrap(), &b, &x, &y));
        run(Axpy::of(a.rows(2..3).unwrap(), &b, &x, &y));
        run(Axpy::of(&4.0, &b, &x, &y));
        assert!(y.read().unwrap().iter().zip(0..).all(|(y, i)| *y == 9.0 * f64::from(i) + 12.0), "{door}");
    }
}

#[flash_tests::test]
fn all_work_items_of_every_door_read_one_element() {
    in_process(&[], || doors(&["by_item", "by_span", "by_whole"]));
}

#[flash_tests::test]
fn all_parts_read_one_element() {
    in_process(APART[3], || doors(&["by_item", "by_span"]));
}

#[flash_tests::test]
fn another_number_of_elements_is_refused() {
    let (rt, b) = (flash_tests::runtime_of_functions(), [[0.0; 2]; 2].map(|b| FlashMemory::from(vec![b])));
    let (x, y) = (FlashMemory::zeroed(6), FlashMemory::zeroed(6));
    for len in [0, 2, 6] {
        let a = FlashMemory::<f64>::zeroed(len);
        let text = rt.submit(Axpy::of(&a, &b, &x, &y)).exec([2, 3]).unwrap_err().to_string();
        let found = format!("one element for all work items, the array has {len} elements");
        assert!(text.contains("`a`") && text.contains(&found), "{text}");
    }
    let text = rt.submit(Axpy::of(y.range(3..4).unwrap(), &b, &x, &y)).exec([2, 3]).unwrap_err().to_string();
    assert!(text.contains("`a`") && text.contains("`y`") && text.contains("overlap"), "{text}");
}

/// `q` of `-u'' = p`, and the product of both.
#[derive(KernelDefinition)]
#[kernel(name = "uniforms.laplace", dims(i), part_by(i, p = stencil(i = 1)))]
struct Laplace<'a> {
    p: Window<'a, Read<f64>>,
    pq: Reduce<'a, Write<f64>, Sum>,
    q: Item<'a, Write<f64>>,
}

/// A step along `p`, whose length is the quotient of two products.
#[derive(KernelDefinition)]
#[kernel(name = "uniforms.advance", dims(i), part_by(i))]
struct Advance<'a> {
    rr: Uniform<'a, Read<f64>>,
    pq: Uniform<'a, Read<f64>>,
    p: Item<'a, Read<f64>>,
    q: Item<'a, Read<f64>>,
    u: Item<'a, ReadWrite<f64>>,
    r: Item<'a, ReadWrite<f64>>,
    next: Reduce<'a, Write<f64>, Sum>,
}

/// The next direction.
#[derive(KernelDefinition)]
#[kernel(name = "uniforms.turn", dims(i), part_by(i))]
struct Turn<'a> {
    rr: Uniform<'a, Read<f64>>,
    next: Uniform<'a, Read<f64>>,
    r: Item<'a, Read<f64>>,
    p: Item<'a, ReadWrite<f64>>,
}

#[kernel]
impl CpuItem<Laplace<'_>> for ByItem {
    fn item(ix: Index<1>, mut k: LaplaceItem<'_>) {
        let (i, n) = (ix[0], k.p.len());
        let left = if i > 0 { k.p.get(i - 1) } else { 0.0 };
        let right = if i + 1 < n { k.p.get(i + 1) } else { 0.0 };
        let q = 2.0 * k.p.get(i) - left - right;
        k.pq.put(q * k.p.get(i));
        k.q.set(q);
    }
}

#[kernel]
impl CpuItem<Advance<'_>> for ByItem {
    fn item(_: Index<1>, mut k: AdvanceItem<'_>) {
        let alpha = *k.rr / *k.pq;
        *k.u += alpha * *k.p;
        *k.r -= alpha * *k.q;
        k.next.put(*k.r * *k.r);
    }
}

#[kernel]
impl CpuItem<Turn<'_>> for ByItem {
    fn item(_: Index<1>, k: TurnItem<'_>) {
        let beta = *k.next / *k.rr;
        *k.p = *k.r + beta * *k.p;
    }
}

/// Conjugate gradients for `-u'' = 1`, whose factors stay where they are computed.
fn solve(rt: &RuntimeObj, n: usize) -> Vec<f64> {
    let (u, q) = (FlashMemory::<f64>::zeroed(n), FlashMemory::<f64>::zeroed(n));
    let [r, p] = [(); 2].map(|()| FlashMemory::from(vec![1.0; n]));
    let mut rr = [n as f64, 0.0].map(|rr| FlashMemory::from(vec![rr]));
    let pq = FlashMemory::<f64>::zeroed(1);
    let from_devices = || rt.devices().iter().map(|device| device.transfers().from_device.bytes).sum::<u64>();
    let before = from_devices();
    // In exact arithmetic a half of the unknowns are enough: the solution is symmetric.
    for _ in 0..n.div_ceil(2) {
        let [now, next] = &rr;
        rt.submit(Laplace::of(&p, &pq, &q))
            .defer([n])
            .submit(Advance::of(now, &pq, &p, &q, &u, &r, next))
            .defer([n])
            .submit(Turn::of(now, next, &r, &p))
            .exec([n])
            .unwrap();
        rr.swap(0, 1);
    }
    if rt.devices().len() == 1 {
        // The host merges the two accumulators of a step, and gets nothing else.
        let most = 2 * size_of::<f64>() as u64 * n.div_ceil(2) as u64;
        assert!(from_devices() - before <= most, "{} bytes, {most} of accumulators", from_devices() - before);
    }
    assert!(rr[0].get(0).unwrap() < 1e-18);
    u.to_vec().unwrap()
}

#[flash_tests::test]
fn conjugate_gradients_read_no_factor_on_the_host() {
    for apart in &APART[1..4] {
        in_process(apart, || {
            let (rt, n) = (flash_tests::runtime_of_functions(), 40);
            let u = solve(&rt, n);
            for (i, u) in u.iter().enumerate() {
                let exact = 0.5 * (i + 1) as f64 * (n - i) as f64;
                assert!((u - exact).abs() < 1e-9 * exact, "{i}: {u}, {exact}");
            }
        });
    }
}
