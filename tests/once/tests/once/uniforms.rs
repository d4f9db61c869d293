//! Scalars that live on the device.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::{close, devices};

/// A matrix of three diagonals, and the product of the result with `p`.
#[derive(KernelDefinition)]
#[kernel(name = "once.tridiagonal", dims(i))]
struct Tridiagonal<'a> {
    p: Whole<'a, Read<f64>>,
    pq: Reduce<'a, Write<f64>, Sum>,
    q: Item<'a, Write<f64>>,
}

#[derive(Clone, Copy, Element, Staged)]
#[repr(C)]
struct Shift {
    by: [f64; 2],
}

/// A step along `p`, whose length is the quotient of two products; `shifts` add nothing.
#[derive(KernelDefinition)]
#[kernel(name = "once.advance", dims(i))]
struct Advance<'a> {
    rr: Uniform<'a, Read<f64>>,
    pq: Uniform<'a, Read<f64>>,
    shifts: [Uniform<'a, Read<Shift>>; 2],
    p: Item<'a, Read<f64>>,
    q: Item<'a, Read<f64>>,
    u: Item<'a, ReadWrite<f64>>,
    r: Item<'a, ReadWrite<f64>>,
    next: Reduce<'a, Write<f64>, Sum>,
}

/// The next direction.
#[derive(KernelDefinition)]
#[kernel(name = "once.turn", dims(i))]
struct Turn<'a> {
    rr: Uniform<'a, Read<f64>>,
    next: Uniform<'a, Read<f64>>,
    r: Item<'a, Read<f64>>,
    p: Item<'a, ReadWrite<f64>>,
}

struct Once;

#[kernel(devices)]
impl CpuItem<Tridiagonal<'_>> for Once {
    fn item(ix: Index<1>, mut k: TridiagonalItem<'_>) {
        let (i, n) = (ix[0], k.p.len());
        let left = if i > 0 { k.p[i - 1] } else { 0.0 };
        let right = if i + 1 < n { k.p[i + 1] } else { 0.0 };
        let q = 2.0 * k.p[i] - left - right;
        k.pq.put(q * k.p[i]);
        k.q.set(q);
    }
}

#[kernel(devices)]
impl CpuItem<Advance<'_>> for Once {
    fn item(_: Index<1>, mut k: AdvanceItem<'_>) {
        let mut alpha = *k.rr / *k.pq;
        for s in 0..2 {
            alpha += k.shifts[s].by[1 - s];
        }
        *k.u += alpha * *k.p;
        *k.r -= alpha * *k.q;
        k.next.put(*k.r * *k.r);
    }
}

#[kernel(devices)]
impl CpuItem<Turn<'_>> for Once {
    fn item(_: Index<1>, k: TurnItem<'_>) {
        *k.p = *k.r + *k.next / *k.rr * *k.p;
    }
}

/// The solution of `-u'' = 1` by conjugate gradients, whose factors stay where the kernels run.
fn solve(rt: &RuntimeObj, n: usize) -> Vec<f64> {
    let (u, q) = (FlashMemory::<f64>::zeroed(n), FlashMemory::<f64>::zeroed(n));
    let [r, p] = [(); 2].map(|()| FlashMemory::from(vec![1.0; n]));
    let mut rr = [n as f64, 0.0].map(|rr| FlashMemory::from(vec![rr]));
    let pq = FlashMemory::<f64>::zeroed(1);
    let shifts =
        [Shift { by: [9.0, 0.0] }, Shift { by: [0.0, 9.0] }].map(|shift| FlashMemory::from(vec![shift]));
    for _ in 0..n.div_ceil(2) {
        let [now, next] = &rr;
        rt.submit(Tridiagonal::of(&p, &pq, &q))
            .defer([n])
            .submit(Advance::of(now, &pq, &shifts, &p, &q, &u, &r, next))
            .defer([n])
            .submit(Turn::of(now, next, &r, &p))
            .exec([n])
            .unwrap();
        rr.swap(0, 1);
    }
    u.to_vec().unwrap()
}

#[test]
fn conjugate_gradients() {
    close("uniforms::conjugate_gradients", 1e-9, |rt| solve(rt, 40));
}

#[test]
fn another_number_of_elements_is_refused() {
    for (device, rt) in devices("uniforms::another_number_of_elements_is_refused") {
        let [one, two, r, p] = [1, 2, 8, 8].map(FlashMemory::<f64>::zeroed);
        let text = rt.submit(Turn::of(&one, &two, &r, &p)).exec([8]).unwrap_err().to_string();
        assert!(text.contains("`next`") && text.contains("the array has 2 elements"), "{device}: {text}");
    }
}
