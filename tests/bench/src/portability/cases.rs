//! What is measured: each kernel of the library, at a size.

use super::c::{Kernels, OpenBlas, Real};
use anyhow::Result;
use flash::descriptor::Implementation;
use flash::kernels::{conv1d, ewmd, ewmm, js, mmm, mvm, smmm, vdp};
use flash::{FlashMemory, Pipeline, RuntimeObj};
use std::thread;

/// A kernel at a size.
pub struct Case<'a> {
    pub kernel: &'static str,
    pub unit: &'static str,
    /// What a call does, in thousand millions of that.
    pub work: f64,
    /// Records a launch.
    pub submit: Submit<'a>,
    /// The best known on the CPU: what it is, and a call.
    pub best: Option<(&'static str, &'a dyn Fn())>,
    /// There is a smaller one, if this takes too long.
    pub may_shrink: bool,
}

/// Records a launch on a runtime.
type Submit<'a> = &'a dyn Fn(&RuntimeObj) -> Result<Pipeline<'a>>;

/// Measures a case; false if it takes too long.
type Measure<'m> = &'m mut dyn FnMut(Case<'_>) -> Result<bool>;

/// What the best known is, of all kernels but products of matrices.
const C: &str = "C with OpenMP";

/// Bytes of all arrays of a kernel together that are beyond most caches.
const BEYOND_CACHES: usize = 48 << 20;

/// All cases with arrays of so many bytes together, or of less where that takes too long.
pub fn each<T: Real>(bytes: usize, c: Option<&Kernels<T>>, cpu: bool, measure: Measure<'_>) -> Result<()> {
    let threads = thread::available_parallelism()?.get();
    streams(bytes, threads, c, measure)?;
    type Sized<T> = fn(usize, usize, Option<&Kernels<T>>, Measure<'_>) -> Result<bool>;
    for case in [mvm_case as Sized<T>, smmm_case, conv1d_case, js_case] {
        let mut bytes = bytes;
        while !case(bytes, threads, c, measure)? {
            bytes /= 2;
        }
    }
    // They reuse what they read in the caches.
    let most = ((bytes / 3 / size_of::<T>()).isqrt()).min(2048);
    let openblas = if cpu { OpenBlas::<T>::load() } else { None };
    let named: &[Option<&str>] = if openblas.is_some() { &[None, Some("blocked")] } else { &[None] };
    for name in named {
        let mut n = most;
        while !mmm_case(n, *name, (threads, openblas.as_ref()), !cpu && n > 256, measure)? {
            n /= 2;
        }
    }
    Ok(())
}

/// Numbers between 1/2 and 1.
fn numbers<T: Real>(n: usize) -> FlashMemory<T> {
    (0..n).map(|i| T::of(0.5 + (i.wrapping_mul(2_654_435_761) % 4096) as f64 / 8192.0)).collect()
}

/// `ewmm`, `ewmd`, `vdp`.
fn streams<T: Real>(
    bytes: usize,
    threads: usize,
    c: Option<&Kernels<T>>,
    measure: Measure<'_>,
) -> Result<()> {
    let n = bytes / 3 / size_of::<T>();
    let (a, b) = (&numbers::<T>(n), &numbers::<T>(n));
    let (to, sum) = (&FlashMemory::<T>::zeroed(n), &FlashMemory::<T>::zeroed(1));
    let array = (n * size_of::<T>()) as f64 / 1e9;
    type Direct<T> = fn(&Kernels<T>, usize, &[T], &[T], &mut [T]);
    let direct = |f: Direct<T>, to: &FlashMemory<T>| {
        let (a, b) = (a.read().expect("free"), b.read().expect("free"));
        if let Some(c) = c {
            f(c, threads, &a, &b, &mut to.write().expect("free"));
        }
    };
    let cases: [(_, _, Submit<'_>, &dyn Fn()); 3] = [
        ("ewmm", 3.0, &|rt| Ok(rt.submit(ewmm(a, b, to)?).defer([n])), &|| direct(Kernels::ewmm, to)),
        ("ewmd", 3.0, &|rt| Ok(rt.submit(ewmd(a, b, to)?).defer([n])), &|| direct(Kernels::ewmd, to)),
        ("vdp", 2.0, &|rt| Ok(rt.submit(vdp(a, b, sum)?).defer([n])), &|| direct(Kernels::vdp, sum)),
    ];
    for (kernel, arrays, submit, best) in cases {
        let best = c.map(|_| (C, best));
        measure(Case { kernel, unit: "GB/s", work: arrays * array, submit, best, may_shrink: false })?;
    }
    Ok(())
}

fn mvm_case<T: Real>(
    bytes: usize,
    threads: usize,
    c: Option<&Kernels<T>>,
    measure: Measure<'_>,
) -> Result<bool> {
    let (m, n) = (bytes / size_of::<T>() / 8192, 8192);
    let (a, x) = (&numbers::<T>(m * n).with_shape([n, m])?, &numbers::<T>(n));
    let y = &FlashMemory::<T>::zeroed(m);
    let best = c.map(|c| {
        || {
            let (a, x) = (a.read().expect("free"), x.read().expect("free"));
            c.mvm(threads, &a, &x, &mut y.write().expect("free"));
        }
    });
    measure(Case {
        kernel: "mvm",
        unit: "GB/s",
        work: (m * n * size_of::<T>()) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(mvm([m, n], a, x, y)?).defer([m])),
        best: best.as_ref().map(|best| (C, best as &dyn Fn())),
        may_shrink: bytes >= 2 * BEYOND_CACHES,
    })
}

/// 32 elements in a row, times 64 columns.
fn smmm_case<T: Real>(
    bytes: usize,
    threads: usize,
    c: Option<&Kernels<T>>,
    measure: Measure<'_>,
) -> Result<bool> {
    let (n, each) = (64, 32);
    let m = bytes / (each * (size_of::<T>() + 4) + 2 * n * size_of::<T>());
    let start: &FlashMemory<u64> = &(0..=m).map(|i| (i * each) as u64).collect();
    let column: &FlashMemory<u32> =
        &(0..m * each).map(|i| (i.wrapping_mul(2_654_435_761) % m) as u32).collect();
    let (value, b) = (&numbers::<T>(m * each), &numbers::<T>(m * n).with_shape([n, m])?);
    let to = &FlashMemory::<T>::zeroed([n, m]);
    let best = c.map(|c| {
        || {
            let (start, column) = (start.read().expect("free"), column.read().expect("free"));
            let (value, b) = (value.read().expect("free"), b.read().expect("free"));
            let mut to = to.write().expect("free");
            // SAFETY: rows of `each` elements, whose columns are less than `m`, as many as `b` has rows.
            unsafe { c.smmm(threads, n, (&start, &column, &value), &b, &mut to) };
        }
    });
    measure(Case {
        kernel: "smmm",
        unit: "GFLOP/s",
        work: 2.0 * (m * each * n) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(smmm([m, n, m], (start, column, value), b, to)?).defer([m])),
        best: best.as_ref().map(|best| (C, best as &dyn Fn())),
        may_shrink: bytes >= 2 * BEYOND_CACHES,
    })
}

fn conv1d_case<T: Real>(
    bytes: usize,
    threads: usize,
    c: Option<&Kernels<T>>,
    measure: Measure<'_>,
) -> Result<bool> {
    let (k, n) = (63, bytes / 2 / size_of::<T>());
    let (filter, signal) = (&numbers::<T>(k), &numbers::<T>(n));
    let out = &FlashMemory::<T>::zeroed(n - k + 1);
    let best = c.map(|c| {
        || {
            let (filter, signal) = (filter.read().expect("free"), signal.read().expect("free"));
            c.conv1d(threads, &filter, &signal, &mut out.write().expect("free"));
        }
    });
    measure(Case {
        kernel: "conv1d",
        unit: "GFLOP/s",
        work: 2.0 * (k * (n - k + 1)) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(conv1d(filter, signal, out)?).defer([n - k + 1])),
        best: best.as_ref().map(|best| (C, best as &dyn Fn())),
        may_shrink: bytes >= 2 * BEYOND_CACHES,
    })
}

fn js_case<T: Real>(
    bytes: usize,
    threads: usize,
    c: Option<&Kernels<T>>,
    measure: Measure<'_>,
) -> Result<bool> {
    let n = (1..).take_while(|n| n * n * n * 3 * size_of::<T>() <= bytes).last().unwrap_or(3).max(3);
    let array = || numbers::<T>(n * n * n).with_shape([n, n, n]);
    let (from, f, to) = (&array()?, &array()?, &array()?);
    let best = c.map(|c| {
        || {
            let (from, f) = (from.read().expect("free"), f.read().expect("free"));
            c.js(threads, n, T::of(0.25), &from, &f, &mut to.write().expect("free"));
        }
    });
    let inside = 1..n - 1;
    measure(Case {
        kernel: "js",
        unit: "G updates/s",
        work: inside.len().pow(3) as f64 / 1e9,
        submit: &|rt| {
            let dims = (inside.clone(), inside.clone(), inside.clone());
            Ok(rt.submit(js(T::of(0.5), from, f, to)?).defer(dims))
        },
        best: best.as_ref().map(|best| (C, best as &dyn Fn())),
        may_shrink: bytes >= 2 * BEYOND_CACHES,
    })
}

/// Of matrices of `n` rows.
fn mmm_case<T: Real>(
    n: usize,
    name: Option<&str>,
    (threads, openblas): (usize, Option<&OpenBlas<T>>),
    may_shrink: bool,
    measure: Measure<'_>,
) -> Result<bool> {
    let [a, b] = [(); 2].map(|()| numbers::<T>(n * n).with_shape([n, n]));
    let (a, b, to) = (&a?, &b?, &FlashMemory::zeroed([n, n]));
    let best = openblas.map(|openblas| {
        move || {
            let (a, b) = (a.read().expect("free"), b.read().expect("free"));
            openblas.product(threads, n, &a, &b, &mut to.write().expect("free"));
        }
    });
    measure(Case {
        kernel: if name.is_some() { "mmm blocked" } else { "mmm" },
        unit: "GFLOP/s",
        work: 2.0 * (n * n * n) as f64 / 1e9,
        submit: &|rt| {
            let kernel = rt.submit(mmm([n, n, n], a, b, to)?);
            Ok(match name {
                Some(name) => kernel.options(Implementation::named(name)),
                None => kernel,
            }
            .defer([n]))
        },
        best: best.as_ref().map(|best| ("OpenBLAS", best as &dyn Fn())),
        may_shrink,
    })
}
