//! The N-body kernels beside C.

use crate::peers::{Peers, Source};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::Result;
use flash::kernels::nbody::Accelerate;
use flash::kernels::simd;
use flash::{FlashMemory, RuntimeObj, get_runtime};
use flash_core::descriptor::{Implementation, PartBy};
use rayon::prelude::*;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bodies.
const N: usize = 16_384;
/// Operations per interaction, as most papers count.
const FLOP: f64 = 20.0;
pub const G: f64 = 6.67259e-11;
pub const SOFTENING2: f64 = 1e-3;

/// Accelerations of some bodies of all: see `nbody.c`.
pub type Accel<T> = unsafe extern "C" fn(usize, usize, usize, T, T, *const T, *const T, *mut T, c_int);

/// `nbody.c`.
pub struct NBody {
    pub best: (Accel<f32>, Accel<f64>),
    exact: Accel<f32>,
    plain: (Accel<f32>, Accel<f64>),
}

const BEST: Source = Source {
    name: "nbody.c",
    text: include_str!("../peers/nbody.c"),
    compiler: "gcc",
    flags: &["-O3", "-march=native", "-fopenmp", "-fPIC", "-shared"],
    libraries: &["-lm"],
};

/// For the instruction set of this program: the x86-64 that every machine has.
const PLAIN: Source = Source {
    name: "nbody.c",
    text: include_str!("../peers/nbody.c"),
    compiler: "gcc",
    flags: &["-DPLAIN_ONLY", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fopenmp", "-fPIC", "-shared"],
    libraries: &["-lm"],
};

/// The shared library of `nbody.c`, for programs that link it.
pub fn compile(cache: &Path) -> Result<PathBuf> {
    BEST.compile(cache)
}

impl NBody {
    pub fn load(cache: &Path) -> Result<NBody> {
        let (best, plain) = (BEST.load(cache)?, PLAIN.load(cache)?);
        // SAFETY: the signatures are those of the functions in nbody.c, and `load` keeps the libraries
        // for ever.
        unsafe {
            Ok(NBody {
                best: (*best.get(b"nbody_f32\0")?, *best.get(b"nbody_f64\0")?),
                exact: *best.get(b"nbody_exact_f32\0")?,
                plain: (*plain.get(b"nbody_plain_f32\0")?, *plain.get(b"nbody_plain_f64\0")?),
            })
        }
    }
}

/// The number types, with what differs between them.
pub trait Number: simd::Number + Send + Sync {
    /// As the rows name it.
    const NAME: &'static str;
    /// The number nearest to another.
    fn of(value: f64) -> Self;
}

impl Number for f32 {
    const NAME: &'static str = "f32";
    fn of(value: f64) -> f32 {
        value as f32
    }
}

impl Number for f64 {
    const NAME: &'static str = "f64";
    fn of(value: f64) -> f64 {
        value
    }
}

/// Bodies in a unit cube, from a fixed linear congruence.
pub fn bodies<T: Number>(n: usize) -> (Vec<[T; 3]>, Vec<T>) {
    let mut state = 42u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let pos = (0..n).map(|_| std::array::from_fn(|_| T::of(next()))).collect();
    let mass = (0..n).map(|_| T::of(n as f64 * next())).collect();
    (pos, mass)
}

fn rate(start: Instant) -> f64 {
    FLOP * (N * N) as f64 / start.elapsed().as_nanos() as f64
}

/// All rows.
pub fn rows(peers: &Peers) -> Result<Vec<Row>> {
    let c = peers.nbody.as_ref();
    let mut rows = of_type::<f32>(c.map(|c| (c.best.0, c.plain.0)), c.map(|c| c.exact))?;
    rows.extend(of_type::<f64>(c.map(|c| (c.best.1, c.plain.1)), None)?);
    Ok(rows)
}

fn of_type<T: Number>(c: Option<(Accel<T>, Accel<T>)>, exact: Option<Accel<T>>) -> Result<Vec<Row>> {
    let rt = get_runtime("ALL_CPU")?;
    let threads = std::thread::available_parallelism()?.get();
    let (pos, mass) = bodies::<T>(N);
    let (x, m) = (FlashMemory::from(pos.clone()), FlashMemory::from(mass.clone()));
    let acc = FlashMemory::<[T; 3]>::zeroed(N);
    let mut out = vec![[T::default(); 3]; N];
    let accelerate = || rt.submit(Accelerate::of(T::of(G), T::of(SOFTENING2), &x, &m, &acc));
    let best = accelerate().defer([N]);
    best.exec()?;
    let mut span = || {
        let start = Instant::now();
        best.exec().expect("runs");
        rate(start)
    };
    let mut call = |function: Accel<T>| {
        let start = Instant::now();
        // SAFETY: the arrays have N bodies.
        unsafe {
            function(
                N,
                0,
                N,
                T::of(G),
                T::of(SOFTENING2),
                pos.as_ptr().cast(),
                mass.as_ptr(),
                out.as_mut_ptr().cast(),
                threads as c_int,
            )
        };
        rate(start)
    };
    let name = |what: &str| format!("nbody {what}, {}, n = {N}, {threads} threads", T::NAME);
    let mut rows = Vec::new();
    let mut peer = c.map(|(best, _)| best);
    rows.push(pair(
        name("span against the best C with OpenMP, same sums"),
        "GFLOP/s",
        REPEATS,
        &mut span,
        peer.as_mut().map(|f| || call(*f)).as_mut().map(|f| f as &mut dyn FnMut() -> f64),
        PAUSE,
    ));
    if let Some(exact) = exact {
        rows.push(pair(
            name("span against C with exact 1/sqrt in 16-body lanes"),
            "GFLOP/s",
            REPEATS,
            &mut span,
            Some(&mut || call(exact)),
            PAUSE,
        ));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut alone = || {
        let start = Instant::now();
        pool.install(|| rayon_alone(&pos, &mass));
        rate(start)
    };
    rows.push(pair(
        name("span against rayon alone, the item's body"),
        "GFLOP/s",
        REPEATS,
        &mut span,
        Some(&mut alone),
        PAUSE,
    ));
    let plain = accelerate().options(Implementation::named("plain")).defer([N]);
    plain.exec()?;
    let mut item = || {
        let start = Instant::now();
        plain.exec().expect("runs");
        rate(start)
    };
    let mut peer = c.map(|(_, plain)| plain);
    rows.push(pair(
        name("item against the plain C loop, same instruction set"),
        "GFLOP/s",
        REPEATS,
        &mut item,
        peer.as_mut().map(|f| || call(*f)).as_mut().map(|f| f as &mut dyn FnMut() -> f64),
        PAUSE,
    ));
    Ok(rows)
}

/// Accelerations, cut over the devices of a runtime if it has several: a function that answers with
/// GFLOP/s.
pub fn cut(rt: &RuntimeObj) -> Result<impl FnMut() -> f64 + use<>> {
    let (pos, mass) = bodies::<f32>(N);
    let (x, m) = (FlashMemory::from(pos), FlashMemory::from(mass));
    let acc = FlashMemory::<[f32; 3]>::zeroed(N);
    let rt = rt.options(PartBy::default());
    let accelerate = move || rt.submit(Accelerate::of(G as f32, SOFTENING2 as f32, &x, &m, &acc)).exec([N]);
    accelerate()?;
    Ok(move || {
        let start = Instant::now();
        accelerate().expect("runs");
        rate(start)
    })
}

/// What one would write with rayon and nothing else.
fn rayon_alone<T: Number>(pos: &[[T; 3]], mass: &[T]) -> Vec<[T; 3]> {
    pos.par_iter()
        .map(|x| {
            let mut a = [T::default(); 3];
            for (y, &m) in pos.iter().zip(mass) {
                let d = [y[0] - x[0], y[1] - x[1], y[2] - x[2]];
                let r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + T::of(SOFTENING2);
                let inverse = T::ONE / r2.sqrt();
                let weight = T::of(G) * m * inverse * inverse * inverse;
                for k in 0..3 {
                    a[k] += d[k] * weight;
                }
            }
            a
        })
        .collect()
}
