//! What is measured: each kernel of the library, at a size.

use super::c::{Kernels, OpenBlas, Real};
use super::dense::Dense;
use super::sparse::Sparse;
use anyhow::Result;
use flash::descriptor::Implementation;
use flash::kernel::cpu_has;
use flash::kernels::diffusion::{count, heat, stretches, walk};
use flash::kernels::mmm::bf16;
use flash::kernels::nbody::Accelerate;
use flash::kernels::{conv1d, ewmd, ewmm, js, mmm, mvm, smmm, vdp};
use flash::{FlashMemory, Pipeline, RuntimeObj, get_runtime};
use std::thread;

/// A kernel at a size.
pub struct Case<'a> {
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
type Best<'a> = (&'static str, &'a dyn Fn());

/// Records a launch on a runtime.
type Submit<'a> = &'a dyn Fn(&RuntimeObj) -> Result<Pipeline<'a>>;

/// Measures a case; false if it takes too long.
type Measure<'m> = &'m mut dyn FnMut(Case<'_>) -> Result<bool>;

/// What the best known is, of all kernels but products of matrices.
const C: &str = "C with OpenMP";

/// What bounds the kernels that read more than they do.
const READING: &str = "reading as much in C with OpenMP";

/// Bytes of all arrays of a kernel together that are beyond most caches.
const BEYOND_CACHES: usize = 48 << 20;

/// All cases with arrays of so many bytes together, or of less where that takes too long. Kernels that reuse what they
/// have read are measured at one size.
pub fn each<T: Real>(sizes: &[usize], c: Option<&Kernels<T>>, cpu: bool, measure: Measure<'_>) -> Result<()> {
    let threads = thread::available_parallelism()?.get();
    for &bytes in sizes {
        streams(bytes, threads, c, measure)?;
        type Sized<T> = fn(usize, usize, Option<&Kernels<T>>, Measure<'_>) -> Result<bool>;
        for case in [mvm_case as Sized<T>, smmm_case, conv1d_case, js_case] {
            let mut bytes = bytes;
            while !case(bytes, threads, c, measure)? {
                bytes /= 2;
            }
        }
        // They have one precision.
        if T::NAME == "f32" {
            diffusion_cases(bytes, measure)?;
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
    let mut n = most;
    while T::NAME == "f32" && !halves_case(n, cpu, !cpu && n > 256, measure)? {
        n /= 2;
    }
    let mut bodies = 16_384;
    while !nbody_case::<T>(bodies, measure)? {
        bodies /= 2;
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
    let [a1, b1, to1]: &[FlashMemory<T>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed(1));
    type Direct<T> = fn(&Kernels<T>, usize, &[T], &[T], &mut [T]);
    let direct = |f: Direct<T>, to: &FlashMemory<T>| {
        let (a, b) = (a.read().expect("free"), b.read().expect("free"));
        if let Some(c) = c {
            f(c, threads, &a, &b, &mut to.write().expect("free"));
        }
    };
    let submits: [[Submit<'_>; 2]; 3] = [
        [&|rt| Ok(rt.submit(ewmm(a, b, to)?).defer([n])), &|rt| {
            Ok(rt.submit(ewmm(a1, b1, to1)?).defer([1usize]))
        }],
        [&|rt| Ok(rt.submit(ewmd(a, b, to)?).defer([n])), &|rt| {
            Ok(rt.submit(ewmd(a1, b1, to1)?).defer([1usize]))
        }],
        [&|rt| Ok(rt.submit(vdp(a, b, sum)?).defer([n])), &|rt| {
            Ok(rt.submit(vdp(a1, b1, to1)?).defer([1usize]))
        }],
    ];
    let reading = || {
        for vector in [a, b] {
            let vector = vector.read().expect("free");
            c.inspect(|c| c.read(threads, &vector, &mut sum.write().expect("free")[0]));
        }
    };
    let cases: [(_, _, &[Best<'_>]); 3] = [
        ("ewmm", 3.0, &[(C, &|| direct(Kernels::ewmm, to))]),
        ("ewmd", 3.0, &[(C, &|| direct(Kernels::ewmd, to))]),
        ("vdp", 2.0, &[(C, &|| direct(Kernels::vdp, sum)), (READING, &reading)]),
    ];
    for ((kernel, arrays, best), [submit, one]) in cases.iter().zip(submits) {
        let best = if c.is_some() { *best } else { &[] };
        measure(Case {
            kernel,
            bytes: Some(bytes),
            unit: "GB/s",
            work: arrays * array,
            submit,
            one,
            best,
            may_shrink: false,
        })?;
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
    let sparse = match c {
        Some(_) => Sparse::new(m, (&start.read()?, &column.read()?, &value.read()?), threads)?,
        None => None,
    };
    let by_sprs = sparse.as_ref().map(|sparse| {
        || {
            let (b, mut to) = (b.read().expect("free"), to.write().expect("free"));
            sparse.product(n, &b, &mut to);
        }
    });
    let by_c = best.as_ref().map(|best| (C, best as &dyn Fn()));
    let by_sprs = by_sprs.as_ref().map(|best| ("sprs on as many threads", best as &dyn Fn()));
    let bests: Vec<Best<'_>> = by_c.into_iter().chain(by_sprs).collect();
    let (start1, column1) = (&FlashMemory::from([0u64, 1]), &FlashMemory::from([0u32]));
    let (value1, b1) = (&FlashMemory::<T>::zeroed(1), &FlashMemory::zeroed([1, 1]));
    let to1 = &FlashMemory::zeroed([1, 1]);
    measure(Case {
        kernel: "smmm",
        bytes: Some(bytes),
        unit: "GFLOP/s",
        work: 2.0 * (m * each * n) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(smmm([m, n, m], (start, column, value), b, to)?).defer([m])),
        one: &|rt| Ok(rt.submit(smmm([1, 1, 1], (start1, column1, value1), b1, to1)?).defer([1usize])),
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

/// Of `n` bodies.
fn nbody_case<T: Real>(n: usize, measure: Measure<'_>) -> Result<bool> {
    let bodies = |n: usize| -> Result<_> {
        let all = numbers::<T>(3 * n);
        let pos: FlashMemory<[T; 3]> = all.read()?.as_chunks::<3>().0.iter().copied().collect();
        Ok((pos, numbers::<T>(n), FlashMemory::<[T; 3]>::zeroed(n)))
    };
    let (many, one) = (&bodies(n)?, &bodies(1)?);
    let softening2 = T::of(1e-3);
    let record = |rt: &RuntimeObj, n: usize| {
        let (pos, mass, acc) = if n == 1 { one } else { many };
        Ok(rt.submit(Accelerate::of(T::ONE, softening2, pos, mass, acc)).defer([n]))
    };
    measure(Case {
        kernel: "nbody.accelerate",
        bytes: None,
        unit: "G interactions/s",
        work: (n * n) as f64 / 1e9,
        submit: &|rt| record(rt, n),
        one: &|rt| record(rt, 1),
        best: &[],
        may_shrink: n > 1024,
    })
}

/// `diffusion.walk`, `diffusion.count` and `diffusion.heat`.
fn diffusion_cases(bytes: usize, measure: Measure<'_>) -> Result<()> {
    const GRID: u32 = 22;
    // Moves along two axes and a track, 4 bytes each.
    let iterations = 256;
    let most = bytes / 12 / iterations;
    let particles = |n: usize, iterations: usize| -> Result<_> {
        // There and back, so that they do not leave the grid.
        let moves = |i: usize| if (i / n).is_multiple_of(2) { 0.25f32 } else { -0.25 };
        let [rx, ry] = [(); 2].map(|()| (0..n * iterations).map(moves).collect::<FlashMemory<f32>>());
        let [x, y] = [(); 2].map(|()| FlashMemory::from(vec![GRID as f32 / 2.0; n]));
        let track = FlashMemory::<u32>::zeroed([iterations + 1, n]);
        Ok(([rx, ry], [x, y], FlashMemory::<u32>::zeroed(n), track))
    };
    let mut n = most;
    loop {
        let (many, one) = (&particles(n, iterations)?, &particles(1, 1)?);
        let moves = (n * iterations) as f64 / 1e9;
        let walking = |rt: &RuntimeObj, n: usize| {
            let ([rx, ry], [x, y], cell, track) = if n == 1 { one } else { many };
            Ok(rt.submit(walk(GRID, 0.5, [rx, ry], [x, y], cell, track)?).defer([n]))
        };
        let walked = measure(Case {
            kernel: "diffusion.walk",
            bytes: Some(12 * n * iterations),
            unit: "G moves/s",
            work: moves,
            submit: &|rt| walking(rt, n),
            one: &|rt| walking(rt, 1),
            best: &[],
            may_shrink: n > 1024,
        })?;
        let counts = &FlashMemory::<u64>::zeroed(3 * (GRID * GRID) as usize);
        let counting = |rt: &RuntimeObj, n: usize, iterations: usize| {
            let track = if n == 1 { &one.3 } else { &many.3 };
            Ok(rt.submit(count(iterations, track, counts)?).defer((stretches(iterations), n)))
        };
        if !walked {
            n /= 2;
            continue;
        }
        measure(Case {
            kernel: "diffusion.count",
            bytes: Some(12 * n * iterations),
            unit: "G moves/s",
            work: moves,
            submit: &|rt| counting(rt, n, iterations),
            one: &|rt| counting(rt, 1, 1),
            best: &[],
            may_shrink: false,
        })?;
        break;
    }
    let (width, height) = (2048, bytes / 8 / 2048);
    let fields = |shape: [usize; 2]| -> Result<_> {
        let from = numbers::<f32>(shape[0] * shape[1]).with_shape(shape)?;
        Ok((from, FlashMemory::zeroed(shape)))
    };
    let (many, one) = (&fields([width, height])?, &fields([1, 1])?);
    measure(Case {
        kernel: "diffusion.heat",
        bytes: Some(bytes),
        unit: "GB/s",
        work: (8 * width * height) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(heat(0.2, &many.0, &many.1)?).defer((width, height))),
        one: &|rt| Ok(rt.submit(heat(0.2, &one.0, &one.1)?).defer((1usize, 1usize))),
        best: &[],
        may_shrink: false,
    })?;
    Ok(())
}
