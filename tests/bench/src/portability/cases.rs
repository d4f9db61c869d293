//! What is measured: each kernel of the library, at a size.

use super::c::{Kernels, OpenBlas, Real};
use super::dense::Dense;
use super::motion;
use super::sparse::{Sparse, naive};
use super::tiles;
use crate::diffusion::Diffusion;
use crate::nbody::Accel;
use anyhow::Result;
use flash::kernel::cpu_has;
use flash::kernels::mmm::bf16;
use flash::kernels::{Csr, conv1d, ewmd, ewmm, js, mmm, mvm, smmm, spmv, vdp};
use flash::{FlashMemory, Pipeline, RuntimeObj, get_runtime};
use flash_core::descriptor::Implementation;
use std::thread;

/// A kernel at a size.
pub struct Case<'a> {
    /// Its name without `flash.`, and maybe more, after a space.
    pub kernel: &'static str,
    /// Of all arrays together, of a kernel that is measured at several sizes.
    pub bytes: Option<usize>,
    pub unit: &'static str,
    /// What a call does, in thousand millions of that.
    pub work: f64,
    /// Records a launch.
    pub submit: Submit<'a>,
    /// Records a launch of one work item of the same kernel, which computes next to nothing.
    pub one: Submit<'a>,
    /// The best known on the CPU: what each is, and a call.
    pub best: &'a [Best<'a>],
    /// There is a smaller one, if this takes too long.
    pub may_shrink: bool,
}

/// What it is, and a call.
pub type Best<'a> = (&'static str, &'a dyn Fn());

/// Records a launch on a runtime.
pub type Submit<'a> = &'a dyn Fn(&RuntimeObj) -> Result<Pipeline<'a>>;

/// Measures a case; false if it takes too long.
pub type Measure<'m> = &'m mut dyn FnMut(Case<'_>) -> Result<bool>;

/// What the best known is, of all kernels but products of matrices.
pub const C: &str = "C with OpenMP";

/// What bounds the kernels that read more than they do.
const READING: &str = "reading as much in C with OpenMP";

/// Bytes of all arrays of a kernel together that are beyond most caches.
const BEYOND_CACHES: usize = 48 << 20;

/// The best known in C, if it is there.
#[derive(Clone, Copy)]
pub struct InC<'a, T> {
    pub kernels: Option<&'a Kernels<T>>,
    pub attraction: Option<Accel<T>>,
    pub diffusion: Option<&'a Diffusion>,
}

impl<T> InC<'_, T> {
    /// On other devices than the CPU.
    pub const NONE: Self = InC { kernels: None, attraction: None, diffusion: None };
}

/// All cases with arrays of these numbers of bytes together, or of less where that takes too long. Kernels
/// that reuse what they have read are measured at one size.
pub fn each<T: Real>(sizes: &[usize], in_c: InC<'_, T>, cpu: bool, measure: Measure<'_>) -> Result<()> {
    let threads = thread::available_parallelism()?.get();
    let c = in_c.kernels;
    for &bytes in sizes {
        streams(bytes, threads, c, measure)?;
        type Sized<T> = fn(usize, usize, Option<&Kernels<T>>, Measure<'_>) -> Result<bool>;
        for case in [mvm_case as Sized<T>, smmm_case, spmv_case, conv1d_case, js_case] {
            let mut bytes = bytes;
            while !case(bytes, threads, c, measure)? {
                bytes /= 2;
            }
        }
        motion::bodies_moved(bytes, threads, c, measure)?;
        // They have one precision.
        if T::NAME == "f32" {
            motion::particles(bytes, threads, in_c.diffusion, measure)?;
            motion::field(bytes, threads, in_c.diffusion, measure)?;
        }
    }
    let greatest = sizes.iter().copied().max().unwrap_or(0);
    let most = ((greatest / 3 / size_of::<T>()).isqrt()).min(2048);
    let openblas = if cpu { OpenBlas::<T>::load() } else { None };
    let named: &[Option<&str>] = if openblas.is_some() { &[None, Some("blocked")] } else { &[None] };
    for name in named {
        let mut n = most;
        while !mmm_case(n, *name, (threads, cpu, openblas.as_ref()), measure)? {
            n /= 2;
        }
    }
    tiles::of_a_tile::<T>(openblas.is_some(), cpu, measure)?;
    let mut n = most;
    while T::NAME == "f32" && !halves_case(n, cpu, !cpu && n > 256, measure)? {
        n /= 2;
    }
    let mut bodies = 16_384;
    while !motion::bodies_attracted::<T>(bodies, threads, in_c.attraction, measure)? {
        bodies /= 2;
    }
    Ok(())
}

/// Numbers between 1/2 and 1.
pub fn numbers<T: Real>(n: usize) -> FlashMemory<T> {
    (0..n).map(|i| T::of(0.5 + (i.wrapping_mul(2_654_435_761) % 4096) as f64 / 8192.0)).collect()
}

/// `ewmm`, `ewmd`, `vdp`.
fn streams<T: Real>(
    bytes: usize,
    threads: usize,
    c: Option<&Kernels<T>>,
    measure: Measure<'_>,
) -> Result<()> {
    type Direct<T> = fn(&Kernels<T>, usize, &[T], &[T], &mut [T]);
    let one = &std::array::from_fn::<FlashMemory<T>, 3, _>(|_| FlashMemory::zeroed(1));
    let elementwise: [(_, _, Record<T>); 2] = [
        ("ewmm", Kernels::ewmm as Direct<T>, |rt, [a, b, c]| Ok(rt.submit(ewmm(a, b, c)?).defer([a.len()]))),
        ("ewmd", Kernels::ewmd, |rt, [a, b, c]| Ok(rt.submit(ewmd(a, b, c)?).defer([a.len()]))),
    ];
    let n = bytes / 3 / size_of::<T>();
    let all = &[numbers::<T>(n), numbers::<T>(n), FlashMemory::zeroed(n)];
    let direct = |f: Direct<T>, [a, b, to]: &[FlashMemory<T>; 3]| {
        let (a, b) = (a.read().expect("free"), b.read().expect("free"));
        c.inspect(|c| f(c, threads, &a, &b, &mut to.write().expect("free")));
    };
    for (kernel, f, record) in elementwise {
        let best: [Best<'_>; 1] = [(C, &|| direct(f, all))];
        let best = if c.is_some() { &best[..] } else { &[] };
        let arrays = (bytes, 3 * n * size_of::<T>());
        measure(streaming(kernel, arrays, &|rt| record(rt, all), &|rt| record(rt, one), best))?;
    }
    let n = bytes / 2 / size_of::<T>();
    let all = &[numbers::<T>(n), numbers::<T>(n), FlashMemory::zeroed(1)];
    let [a, b, sum] = all;
    let reading = || {
        for vector in [a, b] {
            let vector = vector.read().expect("free");
            c.inspect(|c| c.read(threads, &vector, &mut sum.write().expect("free")[0]));
        }
    };
    let record: Record<T> = |rt, [a, b, sum]| Ok(rt.submit(vdp(a, b, sum)?).defer([a.len()]));
    let best: [Best<'_>; 2] = [(C, &|| direct(Kernels::vdp, all)), (READING, &reading)];
    let best = if c.is_some() { &best[..] } else { &[] };
    let arrays = (bytes, 2 * n * size_of::<T>());
    measure(streaming("vdp", arrays, &|rt| record(rt, all), &|rt| record(rt, one), best))?;
    Ok(())
}

/// A case of the given number of bytes, and of the number of those that are moved.
fn streaming<'a>(
    kernel: &'static str,
    (bytes, moved): (usize, usize),
    submit: Submit<'a>,
    one: Submit<'a>,
    best: &'a [Best<'a>],
) -> Case<'a> {
    let work = moved as f64 / 1e9;
    Case { kernel, bytes: Some(bytes), unit: "GB/s", work, submit, one, best, may_shrink: false }
}

/// Records a launch of three arrays.
type Record<T> = for<'a> fn(&RuntimeObj, &'a [FlashMemory<T>; 3]) -> Result<Pipeline<'a>>;

fn mvm_case<T: Real>(
    bytes: usize,
    threads: usize,
    c: Option<&Kernels<T>>,
    measure: Measure<'_>,
) -> Result<bool> {
    let (m, n) = (bytes / size_of::<T>() / 8192, 8192);
    let (a, x) = (&numbers::<T>(m * n).with_shape([n, m])?, &numbers::<T>(n));
    let y = &FlashMemory::<T>::zeroed(m);
    let (a1, x1, y1) = (&FlashMemory::<T>::zeroed([1, 1]), &FlashMemory::zeroed(1), &FlashMemory::zeroed(1));
    let best = c.map(|c| {
        || {
            let (a, x) = (a.read().expect("free"), x.read().expect("free"));
            c.mvm(threads, &a, &x, &mut y.write().expect("free"));
        }
    });
    let reading = c.map(|c| {
        || {
            let a = a.read().expect("free");
            c.read(threads, &a, &mut y.write().expect("free")[0]);
        }
    });
    let by_c = best.as_ref().map(|best| (C, best as &dyn Fn()));
    let reading = reading.as_ref().map(|reading| (READING, reading as &dyn Fn()));
    let bests: Vec<Best<'_>> = by_c.into_iter().chain(reading).collect();
    measure(Case {
        kernel: "mvm",
        bytes: Some(bytes),
        unit: "GB/s",
        work: (m * n * size_of::<T>()) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(mvm([m, n], a, x, y)?).defer([m])),
        one: &|rt| Ok(rt.submit(mvm([1, 1], a1, x1, y1)?).defer([1usize])),
        best: &bests,
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
    let sparse = &rows_of::<T>(m, each)?;
    let b = &numbers::<T>(m * n).with_shape([n, m])?;
    let to = &FlashMemory::<T>::zeroed([n, m]);
    let best = c.map(|c| {
        || {
            let (start, column) =
                (sparse.row_pointers().expect("free"), sparse.column_indices().expect("free"));
            let (value, b) = (sparse.values().read().expect("free"), b.read().expect("free"));
            let mut to = to.write().expect("free");
            // SAFETY: rows of `each` elements, whose columns are less than `m`, as many as `b` has rows.
            unsafe { c.smmm(threads, n, (&start, &column, &value), &b, &mut to) };
        }
    });
    let in_sprs = match c {
        Some(_) => in_sprs(sparse, threads)?,
        None => None,
    };
    let by_sprs = in_sprs.as_ref().map(|sparse| {
        || {
            let (b, mut to) = (b.read().expect("free"), to.write().expect("free"));
            sparse.product(n, &b, &mut to);
        }
    });
    let by_c = best.as_ref().map(|best| (C, best as &dyn Fn()));
    let by_sprs = by_sprs.as_ref().map(|best| ("sprs on as many threads", best as &dyn Fn()));
    let bests: Vec<Best<'_>> = by_c.into_iter().chain(by_sprs).collect();
    let (sparse1, b1) = (&rows_of::<T>(1, 1)?, &FlashMemory::<T>::zeroed([1, 1]));
    let to1 = &FlashMemory::zeroed([1, 1]);
    measure(Case {
        kernel: "smmm",
        bytes: Some(bytes),
        unit: "GFLOP/s",
        work: 2.0 * (m * each * n) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(smmm(sparse, b, to)?).defer([m])),
        one: &|rt| Ok(rt.submit(smmm(sparse1, b1, to1)?).defer([1usize])),
        best: &bests,
        may_shrink: bytes >= 2 * BEYOND_CACHES,
    })
}

/// A matrix of `m` rows and columns, with `each` elements in a row.
fn rows_of<T: Real>(m: usize, each: usize) -> Result<Csr<T>> {
    let start: FlashMemory<u64> = (0..=m).map(|i| (i * each) as u64).collect();
    let column: FlashMemory<u32> =
        (0..m * each).map(|i| (i.wrapping_mul(2_654_435_761) % m) as u32).collect();
    Ok(Csr::new([m, m], start, column, numbers::<T>(m * each))?)
}

/// The same for sprs, if it takes it.
fn in_sprs<T: Real>(sparse: &Csr<T>, threads: usize) -> Result<Option<Sparse<T>>> {
    let (start, column, value) = (sparse.row_pointers()?, sparse.column_indices()?, sparse.values().read()?);
    Sparse::new(sparse.rows(), (&start, &column, &value), threads)
}

/// 32 elements in a row, times a vector.
fn spmv_case<T: Real>(
    bytes: usize,
    threads: usize,
    c: Option<&Kernels<T>>,
    measure: Measure<'_>,
) -> Result<bool> {
    let each = 32;
    let m = bytes / (each * (size_of::<T>() + 4) + 8 + 2 * size_of::<T>());
    let (sparse, x, y) = (&rows_of::<T>(m, each)?, &numbers::<T>(m), &FlashMemory::<T>::zeroed(m));
    let by_rayon = || {
        let (start, column) = (sparse.row_pointers().expect("free"), sparse.column_indices().expect("free"));
        let (value, x) = (sparse.values().read().expect("free"), x.read().expect("free"));
        naive((&start, &column, &value), &x, &mut y.write().expect("free"));
    };
    let in_sprs = match c {
        Some(_) => in_sprs(sparse, threads)?,
        None => None,
    };
    let by_sprs = in_sprs.as_ref().map(|sparse| {
        || {
            let (x, mut y) = (x.read().expect("free"), y.write().expect("free"));
            sparse.product_with_vector(&x, &mut y);
        }
    });
    let by_sprs = by_sprs.as_ref().map(|best| ("sprs on as many threads", best as &dyn Fn()));
    // On other devices there is nothing in C, and none is measured beside them.
    let by_rayon = c.map(|_| ("rayon over rows", &by_rayon as &dyn Fn()));
    let bests: Vec<Best<'_>> = by_rayon.into_iter().chain(by_sprs).collect();
    let (sparse1, x1, y1) = (&rows_of::<T>(1, 1)?, &FlashMemory::zeroed(1), &FlashMemory::zeroed(1));
    measure(Case {
        kernel: "spmv",
        bytes: Some(bytes),
        unit: "GFLOP/s",
        work: 2.0 * (m * each) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(spmv(sparse, x, y)?).defer([m])),
        one: &|rt| Ok(rt.submit(spmv(sparse1, x1, y1)?).defer([1usize])),
        best: &bests,
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
    let [filter1, signal1, out1]: &[FlashMemory<T>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed(1));
    let best = c.map(|c| {
        || {
            let (filter, signal) = (filter.read().expect("free"), signal.read().expect("free"));
            c.conv1d(threads, &filter, &signal, &mut out.write().expect("free"));
        }
    });
    measure(Case {
        kernel: "conv1d",
        bytes: Some(bytes),
        unit: "GFLOP/s",
        work: 2.0 * (k * (n - k + 1)) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(conv1d(filter, signal, out)?).defer([n - k + 1])),
        one: &|rt| Ok(rt.submit(conv1d(filter1, signal1, out1)?).defer([1usize])),
        best: best.as_ref().map(|best| (C, best as &dyn Fn())).as_slice(),
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
    let [from1, f1, to1]: &[FlashMemory<T>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed([3, 3, 3]));
    let best = c.map(|c| {
        || {
            let (from, f) = (from.read().expect("free"), f.read().expect("free"));
            c.js(threads, n, T::of(0.25), &from, &f, &mut to.write().expect("free"));
        }
    });
    let inside = 1..n - 1;
    measure(Case {
        kernel: "js",
        bytes: Some(bytes),
        unit: "G updates/s",
        work: inside.len().pow(3) as f64 / 1e9,
        submit: &|rt| {
            let dims = (inside.clone(), inside.clone(), inside.clone());
            Ok(rt.submit(js(T::of(0.5), from, f, to)?).defer(dims))
        },
        one: &|rt| Ok(rt.submit(js(T::of(0.5), from1, f1, to1)?).defer((1..2, 1..2, 1..2))),
        best: best.as_ref().map(|best| (C, best as &dyn Fn())).as_slice(),
        may_shrink: bytes >= 2 * BEYOND_CACHES,
    })
}

/// Of matrices of `n` rows.
fn mmm_case<T: Real>(
    n: usize,
    name: Option<&str>,
    (threads, cpu, openblas): (usize, bool, Option<&OpenBlas<T>>),
    measure: Measure<'_>,
) -> Result<bool> {
    let [a, b] = [(); 2].map(|()| numbers::<T>(n * n).with_shape([n, n]));
    let (a, b, to) = (&a?, &b?, &FlashMemory::zeroed([n, n]));
    let [a1, b1, to1]: &[FlashMemory<T>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed([1, 1]));
    let named = |rt: &RuntimeObj| match name {
        Some(name) => rt.options(Implementation::named(name)),
        None => rt.clone(),
    };
    let arrays = || (a.read().expect("free"), b.read().expect("free"), to.write().expect("free"));
    let through = openblas.map(|openblas| {
        move || {
            let (a, b, mut to) = arrays();
            openblas.product(threads, n, &a, &b, &mut to);
        }
    });
    let embedded = cpu && (name.is_some() || openblas.is_none());
    let crates = embedded.then(|| Dense::new(threads)).transpose()?;
    let crates = crates.iter().flat_map(|dense| {
        Dense::products::<T>().map(|(name, product)| {
            let run = move || {
                let (a, b, mut to) = arrays();
                product(dense, n, &a, &b, &mut to);
            };
            (name, run)
        })
    });
    let crates: Vec<_> = crates.collect();
    let through = through.iter().map(|run| ("OpenBLAS", run as &dyn Fn()));
    let best: Vec<Best<'_>> =
        through.chain(crates.iter().map(|(name, run)| (*name, run as &dyn Fn()))).collect();
    measure(Case {
        kernel: match (name, openblas) {
            (Some(_), _) => "mmm blocked",
            (None, Some(_)) => "mmm through OpenBLAS",
            (None, None) => "mmm",
        },
        bytes: None,
        unit: "GFLOP/s",
        work: 2.0 * (n * n * n) as f64 / 1e9,
        submit: &|rt| Ok(named(rt).submit(mmm([n, n, n], a, b, to)?).defer([n])),
        one: &|rt| Ok(named(rt).submit(mmm([1, 1, 1], a1, b1, to1)?).defer([1usize])),
        best: &best,
        may_shrink: !cpu && n > 256,
    })
}

/// Of matrices of `n` rows in bf16, beside those of single precision.
fn halves_case(n: usize, cpu: bool, may_shrink: bool, measure: Measure<'_>) -> Result<bool> {
    let wide = [(); 2].map(|()| numbers::<f32>(n * n));
    let factors = |of: &FlashMemory<f32>| -> Result<FlashMemory<bf16>> {
        let halves: FlashMemory<bf16> = of.read()?.iter().map(|x| bf16::from_f32(*x)).collect();
        Ok(halves.with_shape([n, n])?)
    };
    let [a, b] = &[factors(&wide[0])?, factors(&wide[1])?];
    let to = &FlashMemory::<f32>::zeroed([n, n]);
    let [a1, b1]: &[FlashMemory<bf16>; 2] = &std::array::from_fn(|_| FlashMemory::zeroed([1, 1]));
    let to1 = &FlashMemory::<f32>::zeroed([1, 1]);
    let [wide_a, wide_b] = wide.map(|x| x.with_shape([n, n]));
    let (wide_a, wide_b) = (wide_a?, wide_b?);
    let named = |name| Ok::<_, anyhow::Error>(get_runtime("ALL_CPU")?.options(Implementation::named(name)));
    let single = named("blocked")?.submit(mmm([n, n, n], &wide_a, &wide_b, to)?).defer([n]);
    let single = || single.exec().expect("it runs");
    // The next best where tiles are there.
    let pairs = match cpu_has("amx-tile") && cpu_has("amx-bf16") {
        true => Some(named("avx512_bf16")?.submit(mmm([n, n, n], a, b, to)?).defer([n])),
        false => None,
    };
    let pairs = pairs.as_ref().map(|pairs| || pairs.exec().expect("it runs"));
    let pairs = pairs.as_ref().map(|run| ("avx512_bf16", run as &dyn Fn()));
    let best: Vec<Best<'_>> = [("blocked of f32", &single as &dyn Fn())].into_iter().chain(pairs).collect();
    measure(Case {
        kernel: "mmm of bf16",
        bytes: None,
        unit: "GFLOP/s",
        work: 2.0 * (n * n * n) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(mmm([n, n, n], a, b, to)?).defer([n])),
        one: &|rt| Ok(rt.submit(mmm([1, 1, 1], a1, b1, to1)?).defer([1usize])),
        best: if cpu { &best } else { &[] },
        may_shrink,
    })
}
