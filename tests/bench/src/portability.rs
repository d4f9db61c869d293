//! The kernels of the library beside the same in C, or the library that is the best at it, called directly: what is
//! lost by going through the framework.
//!
//! The *score* of a kernel is the time of the direct call over that through the framework, 1 if nothing is lost. Its
//! *overhead* is the part of its time that a launch of nothing but one work item takes.

use crate::dispatch::per_call;
use crate::peers::{Peers, Source};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::Result;
use flash::descriptor::Implementation;
use flash::kernels::simd::Number;
use flash::kernels::{conv1d, ewmd, ewmm, js, mmm, mvm, smmm, vdp};
use flash::{FlashMemory, RuntimeObj, get_runtime};
use libloading::Library;
use std::ffi::{c_int, c_long};
use std::path::Path;
use std::thread;

type Elementwise<T> = unsafe extern "C" fn(c_int, c_long, *const T, *const T, *mut T);
type MatrixVector<T> = unsafe extern "C" fn(c_int, c_long, c_long, *const T, *const T, *mut T);
type Sweep<T> = unsafe extern "C" fn(c_int, c_long, c_long, c_long, T, *const T, *const T, *mut T);
type Sparse<T> =
    unsafe extern "C" fn(c_int, c_long, c_long, *const u64, *const u32, *const T, *const T, *mut T);

/// `kernels.c`, in one precision.
pub struct Kernels<T> {
    ewmm: Elementwise<T>,
    ewmd: Elementwise<T>,
    vdp: Elementwise<T>,
    mvm: MatrixVector<T>,
    conv1d: MatrixVector<T>,
    js: Sweep<T>,
    smmm: Sparse<T>,
}

const SINGLE: Source = Source {
    name: "kernels.c",
    text: include_str!("../peers/kernels.c"),
    compiler: "gcc",
    flags: &["-O3", "-march=native", "-mprefer-vector-width=512", "-fopenmp", "-fPIC", "-shared"],
    libraries: &[],
};

const DOUBLE: Source = Source {
    flags: &["-DDOUBLE", "-O3", "-march=native", "-mprefer-vector-width=512", "-fopenmp", "-fPIC", "-shared"],
    ..SINGLE
};

/// Both precisions.
pub fn load(cache: &Path) -> Result<(Kernels<f32>, Kernels<f64>)> {
    // SAFETY: the elements of the functions are these with and without DOUBLE.
    unsafe { Ok((Kernels::load(&SINGLE, cache)?, Kernels::load(&DOUBLE, cache)?)) }
}

impl<T> Kernels<T> {
    /// # Safety
    /// The source's elements are `T`.
    unsafe fn load(source: &Source, cache: &Path) -> Result<Kernels<T>> {
        let library = source.load(cache)?;
        // SAFETY: the signatures are those of the functions in kernels.c, and `load` keeps the library for ever.
        unsafe {
            Ok(Kernels {
                ewmm: *library.get(b"ewmm\0")?,
                ewmd: *library.get(b"ewmd\0")?,
                vdp: *library.get(b"vdp\0")?,
                mvm: *library.get(b"mvm\0")?,
                conv1d: *library.get(b"conv1d\0")?,
                js: *library.get(b"js\0")?,
                smmm: *library.get(b"smmm\0")?,
            })
        }
    }
}

/// The number types, with what differs between them.
trait Real: Number {
    const NAME: &'static str;
    /// Its product of matrices in a CBLAS.
    const GEMM: &'static [u8];
    fn of(value: f64) -> Self;
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const GEMM: &'static [u8] = b"cblas_sgemm\0";
    fn of(value: f64) -> f32 {
        value as f32
    }
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const GEMM: &'static [u8] = b"cblas_dgemm\0";
    fn of(value: f64) -> f64 {
        value
    }
}

/// Order, transpositions, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc.
type Gemm<T> = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    T,
    *const T,
    c_int,
    *const T,
    c_int,
    T,
    *mut T,
    c_int,
);

/// OpenBLAS, called directly on some threads; `None` if it is not there.
fn openblas<T: Real>(threads: c_int) -> Option<Gemm<T>> {
    // SAFETY: the loader's OpenBLAS; these are the types of its functions, and it is never unloaded.
    unsafe {
        let library: &'static Library = Box::leak(Box::new(Library::new("libopenblas.so.0").ok()?));
        let set_threads = library.get::<unsafe extern "C" fn(c_int)>(b"openblas_set_num_threads\0").ok()?;
        set_threads(threads);
        library.get::<Gemm<T>>(T::GEMM).ok().map(|gemm| *gemm)
    }
}

/// All rows.
pub fn rows(peers: &Peers) -> Result<Vec<Row>> {
    let c = peers.kernels.as_ref();
    let mut rows = of_type::<f32>(c.map(|c| &c.0))?;
    rows.extend(of_type::<f64>(c.map(|c| &c.1))?);
    Ok(rows)
}

/// Numbers between 1/2 and 1.
fn numbers<T: Real>(n: usize) -> FlashMemory<T> {
    (0..n).map(|i| T::of(0.5 + (i.wrapping_mul(2_654_435_761) % 4096) as f64 / 8192.0)).collect()
}

/// What is measured of one kernel.
struct Case<'a> {
    name: &'static str,
    unit: &'static str,
    /// What a call does, in thousand millions of that.
    work: f64,
    ours: &'a mut dyn FnMut(),
    peer: Option<&'a mut dyn FnMut()>,
    /// Nanoseconds of a launch of one work item.
    launch: f64,
}

impl Case<'_> {
    /// The score, and the rates that it is made of.
    fn rows<T: Real>(self) -> Vec<Row> {
        let Case { name, unit, work, ours, peer, launch } = self;
        let called = |suffix: &str| format!("{name} {} ALL_CPU {suffix}", T::NAME);
        let rate = |call: &mut dyn FnMut()| work * 1e9 / per_call(1, call);
        // The first call of each side after a rest wakes its threads.
        let warm = |call: &mut dyn FnMut()| {
            call();
            rate(call)
        };
        let overhead = |rate: f64| {
            let part = 100.0 * launch / (work * 1e9 / rate);
            Row::from_turns(called("overhead"), "%", &[(part, None)])
        };
        let Some(peer) = peer else {
            let rate = pair(called(unit), unit, REPEATS, || warm(ours), None, PAUSE);
            return vec![overhead(rate.value), rate];
        };
        let (mut turns, mut first) = (Vec::new(), true);
        let score = pair(
            called("score"),
            "score",
            REPEATS,
            || {
                let mut rates = [0.0; 2];
                for side in if first { [0, 1] } else { [1, 0] } {
                    thread::sleep(PAUSE);
                    rates[side] = if side == 0 { warm(ours) } else { warm(peer) };
                }
                first = !first;
                turns.push((rates[0], Some(rates[1])));
                rates[0] / rates[1]
            },
            None,
            PAUSE,
        );
        let rate = Row::from_turns(called(unit), unit, &turns[1..]);
        vec![score, overhead(rate.value), rate]
    }
}

fn int(n: usize) -> c_long {
    c_long::try_from(n).expect("a size fits C's long")
}

fn of_type<T: Real>(c: Option<&Kernels<T>>) -> Result<Vec<Row>> {
    let rt = get_runtime("ALL_CPU")?;
    let threads = thread::available_parallelism()?.get() as c_int;
    let one = || FlashMemory::<T>::zeroed(1);
    let (a, b, to) = (one(), one(), one());
    let single = pair(
        format!("launch of one item {} ALL_CPU", T::NAME),
        "ns",
        REPEATS,
        || {
            let launch = || rt.submit(ewmm(&a, &b, &to).expect("one shape")).exec([1usize]);
            per_call(1000, || launch().expect("it runs"))
        },
        None,
        PAUSE,
    );
    let launch = single.value;
    let mut rows = vec![single];
    rows.extend(streams(&rt, threads, c, launch)?);
    rows.extend(matrices(&rt, threads, c, launch)?);
    rows.extend(neighbours(&rt, threads, c, launch)?);
    Ok(rows)
}

/// `ewmm`, `ewmd`, `vdp`: three, or two, arrays of 64 MiB.
fn streams<T: Real>(
    rt: &RuntimeObj,
    threads: c_int,
    c: Option<&Kernels<T>>,
    launch_ns: f64,
) -> Result<Vec<Row>> {
    let n = (64 << 20) / size_of::<T>();
    let (a, b) = (numbers::<T>(n), numbers::<T>(n));
    let (to, sum) = (FlashMemory::<T>::zeroed(n), FlashMemory::<T>::zeroed(1));
    let bytes = (n * size_of::<T>()) as f64 / 1e9;
    let mut rows = Vec::new();
    let direct = |f: Elementwise<T>, to: &FlashMemory<T>| {
        let (a, b) = (a.read().expect("free"), b.read().expect("free"));
        let mut to = to.write().expect("free");
        // SAFETY: both have `n` elements, and `to` has what the function writes.
        unsafe { f(threads, int(n), a.as_ptr(), b.as_ptr(), to.as_mut_ptr()) }
    };
    let product = rt.submit(ewmm(&a, &b, &to)?).defer([n]);
    let quotient = rt.submit(ewmd(&a, &b, &to)?).defer([n]);
    let dot = rt.submit(vdp(&a, &b, &sum)?).defer([n]);
    for (name, arrays, launch, f, to) in [
        ("ewmm", 3.0, &product, c.map(|c| c.ewmm), &to),
        ("ewmd", 3.0, &quotient, c.map(|c| c.ewmd), &to),
        ("vdp", 2.0, &dot, c.map(|c| c.vdp), &sum),
    ] {
        let mut peer = f.map(|f| move || direct(f, to));
        let case = Case {
            name,
            unit: "GB/s",
            work: arrays * bytes,
            ours: &mut || launch.exec().expect("it runs"),
            peer: peer.as_mut().map(|peer| peer as &mut dyn FnMut()),
            launch: launch_ns,
        };
        rows.extend(case.rows::<T>());
    }
    Ok(rows)
}

/// `mmm`, `mvm`, `smmm`.
fn matrices<T: Real>(
    rt: &RuntimeObj,
    threads: c_int,
    c: Option<&Kernels<T>>,
    launch_ns: f64,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, pinned) in [("mmm", None), ("mmm blocked", Some("blocked"))] {
        let n = 2048;
        let [a, b] = [(); 2].map(|()| numbers::<T>(n * n).with_shape([n, n]));
        let (a, b, to) = (a?, b?, FlashMemory::zeroed([n, n]));
        let kernel = rt.submit(mmm([n, n, n], &a, &b, &to)?);
        let launch = match pinned {
            Some(name) => kernel.options(Implementation::named(name)),
            None => kernel,
        }
        .defer([n]);
        let mut peer = openblas::<T>(threads).map(|gemm| {
            let (a, b, to) = (&a, &b, &to);
            move || {
                let (a, b) = (a.read().expect("free"), b.read().expect("free"));
                let (mut to, n) = (to.write().expect("free"), int(n) as c_int);
                let (a, b, to) = (a.as_ptr(), b.as_ptr(), to.as_mut_ptr());
                // SAFETY: three matrices of `n` rows of `n` elements, row by row, none transposed.
                unsafe { gemm(101, 111, 111, n, n, n, T::ONE, a, n, b, n, T::ZERO, to, n) }
            }
        });
        let case = Case {
            name,
            unit: "GFLOP/s",
            work: 2.0 * (n * n * n) as f64 / 1e9,
            ours: &mut || launch.exec().expect("it runs"),
            peer: peer.as_mut().map(|peer| peer as &mut dyn FnMut()),
            launch: launch_ns,
        };
        rows.extend(case.rows::<T>());
    }
    {
        let (m, n) = ((128 << 20) / size_of::<T>() / 8192, 8192);
        let (a, x) = (numbers::<T>(m * n).with_shape([n, m])?, numbers::<T>(n));
        let y = FlashMemory::<T>::zeroed(m);
        let launch = rt.submit(mvm([m, n], &a, &x, &y)?).defer([m]);
        let mut peer = c.map(|c| {
            || {
                let (a, x) = (a.read().expect("free"), x.read().expect("free"));
                let mut y = y.write().expect("free");
                // SAFETY: the matrix has `m` rows of `n` elements, the vectors have `n` and `m`.
                unsafe { (c.mvm)(threads, int(m), int(n), a.as_ptr(), x.as_ptr(), y.as_mut_ptr()) }
            }
        });
        let case = Case {
            name: "mvm",
            unit: "GB/s",
            work: (m * n * size_of::<T>()) as f64 / 1e9,
            ours: &mut || launch.exec().expect("it runs"),
            peer: peer.as_mut().map(|peer| peer as &mut dyn FnMut()),
            launch: launch_ns,
        };
        rows.extend(case.rows::<T>());
    }
    {
        // 32 elements in a row, times 64 columns.
        let (m, n, each) = (65_536usize, 64, 32);
        let start: FlashMemory<u64> = (0..=m).map(|i| (i * each) as u64).collect();
        let column: FlashMemory<u32> =
            (0..m * each).map(|i| (i.wrapping_mul(2_654_435_761) % m) as u32).collect();
        let (value, b) = (numbers::<T>(m * each), numbers::<T>(m * n).with_shape([n, m])?);
        let to = FlashMemory::<T>::zeroed([n, m]);
        let launch = rt.submit(smmm([m, n, m], (&start, &column, &value), &b, &to)?).defer([m]);
        let mut peer = c.map(|c| {
            || {
                let (start, column) = (start.read().expect("free"), column.read().expect("free"));
                let (value, b) = (value.read().expect("free"), b.read().expect("free"));
                let mut to = to.write().expect("free");
                // SAFETY: a matrix in CSR form whose columns are rows of `b`, and a result of `m` rows of `n`.
                unsafe {
                    (c.smmm)(
                        threads,
                        int(m),
                        int(n),
                        start.as_ptr(),
                        column.as_ptr(),
                        value.as_ptr(),
                        b.as_ptr(),
                        to.as_mut_ptr(),
                    );
                }
            }
        });
        let case = Case {
            name: "smmm",
            unit: "GFLOP/s",
            work: 2.0 * (m * each * n) as f64 / 1e9,
            ours: &mut || launch.exec().expect("it runs"),
            peer: peer.as_mut().map(|peer| peer as &mut dyn FnMut()),
            launch: launch_ns,
        };
        rows.extend(case.rows::<T>());
    }
    Ok(rows)
}

/// `conv1d`, `js`.
fn neighbours<T: Real>(
    rt: &RuntimeObj,
    threads: c_int,
    c: Option<&Kernels<T>>,
    launch_ns: f64,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    {
        let (k, n) = (63, (32 << 20) / size_of::<T>());
        let (filter, signal) = (numbers::<T>(k), numbers::<T>(n));
        let out = FlashMemory::<T>::zeroed(n - k + 1);
        let launch = rt.submit(conv1d(&filter, &signal, &out)?).defer([n - k + 1]);
        let mut peer = c.map(|c| {
            || {
                let (filter, signal) = (filter.read().expect("free"), signal.read().expect("free"));
                let mut out = out.write().expect("free");
                // SAFETY: a filter of `k`, a signal of `n` and a result of `n - k + 1` elements.
                unsafe {
                    (c.conv1d)(threads, int(k), int(n), filter.as_ptr(), signal.as_ptr(), out.as_mut_ptr())
                }
            }
        });
        let case = Case {
            name: "conv1d",
            unit: "GFLOP/s",
            work: 2.0 * (k * (n - k + 1)) as f64 / 1e9,
            ours: &mut || launch.exec().expect("it runs"),
            peer: peer.as_mut().map(|peer| peer as &mut dyn FnMut()),
            launch: launch_ns,
        };
        rows.extend(case.rows::<T>());
    }
    {
        let n = 256;
        let array = || numbers::<T>(n * n * n).with_shape([n, n, n]);
        let (from, f, to) = (array()?, array()?, array()?);
        let launch = rt.submit(js(T::of(0.5), &from, &f, &to)?).defer((1..n - 1, 1..n - 1, 1..n - 1));
        let mut peer = c.map(|c| {
            || {
                let (from, f) = (from.read().expect("free"), f.read().expect("free"));
                let mut to = to.write().expect("free");
                // SAFETY: three grids of this shape.
                unsafe {
                    let (from, f, to) = (from.as_ptr(), f.as_ptr(), to.as_mut_ptr());
                    (c.js)(threads, int(n), int(n), int(n), T::of(0.25), from, f, to);
                }
            }
        });
        let case = Case {
            name: "js",
            unit: "G updates/s",
            work: ((n - 2) * (n - 2) * (n - 2)) as f64 / 1e9,
            ours: &mut || launch.exec().expect("it runs"),
            peer: peer.as_mut().map(|peer| peer as &mut dyn FnMut()),
            launch: launch_ns,
        };
        rows.extend(case.rows::<T>());
    }
    Ok(rows)
}
