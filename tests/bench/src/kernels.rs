//! The kernels that are measured.

use flash::kernel::views::{Item, Read, ReadWrite, Whole, Write};
use flash::kernel::{CpuItem, CpuSpan, Index, Span};
use flash::{KernelDefinition, kernel};

/// Does nothing, with one scalar and three memories.
#[derive(KernelDefinition)]
#[kernel(name = "bench.empty", dims(i))]
pub struct Empty<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
    z: Item<'a, ReadWrite<f32>>,
}

/// Does nothing, without arguments.
#[derive(KernelDefinition)]
#[kernel(name = "bench.nothing", dims(i))]
pub struct Nothing {
    a: u32,
}

/// Does nothing, in as many phases as `step` has values.
#[derive(KernelDefinition)]
#[kernel(name = "bench.phases", dims(i, step), group_by(step))]
pub struct Phases {
    a: u32,
}

/// Does nothing, with four memories.
#[derive(KernelDefinition)]
#[kernel(name = "bench.four", dims(i))]
pub struct Four<'a> {
    a: Item<'a, Read<f32>>,
    b: Item<'a, Read<f32>>,
    c: Item<'a, ReadWrite<f32>>,
    d: Item<'a, ReadWrite<f32>>,
}

/// Does nothing, and does not even look at its items.
#[derive(KernelDefinition)]
#[kernel(name = "bench.skip", dims(i))]
pub struct Skip {
    a: u32,
}

/// Computes for as long as one wants, from a large array.
#[derive(KernelDefinition)]
#[kernel(name = "bench.grind", dims(i))]
pub struct Grind<'a> {
    rounds: u32,
    from: Whole<'a, Read<f64>>,
    to: Item<'a, Write<f64>>,
}

/// y = y + a x.
#[derive(KernelDefinition)]
#[kernel(name = "bench.saxpy", dims(i))]
pub struct Saxpy<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

/// a = b + s c.
#[derive(KernelDefinition)]
#[kernel(name = "bench.triad", dims(i))]
pub struct Triad<'a> {
    s: f64,
    /// Elements of each array.
    n: u64,
    b: Item<'a, Read<f64>>,
    c: Item<'a, Read<f64>>,
    a: Item<'a, Write<f64>>,
}

/// The implementations here.
pub struct Plain;

#[kernel]
impl CpuItem<Empty<'_>> for Plain {
    fn item(_: Index<1>, _: EmptyItem<'_>) {}
}

#[kernel]
impl CpuItem<Nothing> for Plain {
    fn item(_: Index<1>, _: NothingItem) {}
}

#[kernel]
impl CpuItem<Phases> for Plain {
    fn item(_: Index<2>, _: PhasesItem) {}
}

#[kernel]
impl CpuItem<Four<'_>> for Plain {
    fn item(_: Index<1>, _: FourItem<'_>) {}
}

#[kernel]
impl CpuSpan<Skip> for Plain {
    fn span(_: Span<1>, _: SkipSpan) {}
}

#[kernel]
impl CpuItem<Grind<'_>> for Plain {
    fn item(ix: Index<1>, k: GrindItem<'_>) {
        let mut x = k.from[ix[0]];
        for _ in 0..k.rounds {
            x = x * 0.999 + 0.5;
        }
        k.to.set(x);
    }
}

#[kernel]
impl CpuItem<Saxpy<'_>> for Plain {
    fn item(_: Index<1>, k: SaxpyItem<'_>) {
        *k.y += k.a * *k.x;
    }
}

#[kernel]
impl CpuItem<Triad<'_>> for Plain {
    fn item(_: Index<1>, k: TriadItem<'_>) {
        k.a.set(k.b + k.s * k.c);
    }
}

/// Writes all elements.
#[derive(KernelDefinition)]
#[kernel(name = "bench.set", dims(i))]
pub struct Set<'a> {
    value: f64,
    to: Item<'a, Write<f64>>,
}

#[kernel]
impl CpuSpan<Set<'_>> for Plain {
    fn span(_: Span<1>, k: SetSpan<'_>) {
        k.to.fill(k.value);
    }
}

/// Triad past the caches where the arrays are larger than they are.
pub struct Stream;

#[kernel(priority = 10)]
impl CpuSpan<Triad<'_>> for Stream {
    fn span(_: Span<1>, k: TriadSpan<'_>) {
        #[cfg(target_arch = "x86_64")]
        if k.n >= STREAM && is_x86_feature_detected!("avx512f") {
            // SAFETY: this CPU has AVX-512.
            return unsafe { stream_avx512(k.a, k.b, k.c, k.s) };
        }
        plain(k.a, k.b, k.c, k.s);
    }
}

/// Elements of an array from which on its stores go past the caches. A run may be a small piece of it.
const STREAM: u64 = 1 << 20;

fn plain(a: &mut [f64], b: &[f64], c: &[f64], s: f64) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = b + s * c;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn stream_avx512(a: &mut [f64], b: &[f64], c: &[f64], s: f64) {
    use std::arch::x86_64::{_mm_sfence, _mm512_fmadd_pd, _mm512_loadu_pd, _mm512_set1_pd, _mm512_stream_pd};
    let n = a.len().min(b.len()).min(c.len());
    let head = a.as_ptr().align_offset(64).min(n);
    plain(&mut a[..head], &b[..head], &c[..head], s);
    let blocks = (n - head) / 8;
    let factor = _mm512_set1_pd(s);
    for i in 0..blocks {
        let at = head + 8 * i;
        // SAFETY: 8 elements from `at` lie inside all three, and `a` is aligned to 64 bytes there.
        unsafe {
            let sum = _mm512_fmadd_pd(
                factor,
                _mm512_loadu_pd(c.as_ptr().add(at)),
                _mm512_loadu_pd(b.as_ptr().add(at)),
            );
            _mm512_stream_pd(a.as_mut_ptr().add(at), sum);
        }
    }
    let tail = head + 8 * blocks;
    plain(&mut a[tail..n], &b[tail..n], &c[tail..n], s);
    _mm_sfence();
}
