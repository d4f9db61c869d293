//! Twenty kernels of scientists, written once, each with a problem of any size.
//!
//! Tests compare what they give on all devices, and benchmarks the texts that `#[kernel(devices)]` writes
//! with those that were written by hand in OpenCL C: a file beside each kernel, with the same arithmetic in
//! the same order. Each kernel has three implementations, of which a submission may name one: [`ONCE`], which
//! checks its indices, [`UNCHECKED`], and for OpenCL devices [`BY_HAND`].

use flash::{Error, FlashMemory, RuntimeObj};

/// Both implementations of a kernel: its body with checks of indices on devices, and without.
macro_rules! once {
    ($(for($($of:ident),*))? { $($implementation:tt)* }) => {
        mod checked {
            use super::*;
            pub struct Once;
            #[kernel(devices $(, for($($of),*))?)]
            $($implementation)*
        }

        mod unchecked {
            use super::*;
            pub struct Once;
            // SAFETY of its texts: that of the checked ones, which launch the same problems in tests.
            #[kernel(devices, unsafe(unchecked), name = "unchecked", priority = -2 $(, for($($of),*))?)]
            $($implementation)*
        }
    };
}

mod black_scholes;
mod blur;
mod butterfly;
mod complex;
mod forces;
mod gravity;
mod heat;
mod histogram;
mod jacobi;
mod lbm;
mod life;
mod mandelbrot;
mod nearest;
mod product;
mod push;
mod saxpy;
mod scan;
mod smith_waterman;
mod sparse;
mod transpose;

pub use heat::Heat;
pub use product::Product;

/// The implementation of all devices, which checks its indices on those that compile it.
pub const ONCE: &str = "once";
/// The same without checks.
pub const UNCHECKED: &str = "unchecked";
/// What OpenCL devices have beside them.
pub const BY_HAND: &str = "by_hand";

/// A kernel on its arrays.
pub trait Problem {
    /// Work items of a launch.
    fn items(&self) -> u64;

    /// Launches the kernel once and waits for it.
    ///
    /// # Errors
    /// Those of the launch.
    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error>;

    /// What it has written.
    ///
    /// # Errors
    /// If a launch failed.
    fn results(&self) -> Result<Vec<f64>, Error>;
}

/// One of the twenty, for one set of types.
pub struct Kernel {
    /// A word for it.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// The error, over the larger of a result and 1, within which devices agree; 0: they have the same bits.
    pub within: f64,
    /// A problem of this size, which is a length, or that of an edge.
    pub problem: fn(usize) -> Box<dyn Problem>,
    /// Sizes for a test, and for a measurement.
    pub sizes: [usize; 2],
}

impl Kernel {
    /// Compares what two implementations have given.
    ///
    /// # Errors
    /// The first difference that is not within the kernel's error.
    pub fn agree(&self, found: &[f64], expected: &[f64]) -> Result<(), String> {
        if found.len() != expected.len() {
            return Err(format!("expected {} results, found {}", expected.len(), found.len()));
        }
        // What is not a number is near nothing.
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= self.within * b.abs().max(1.0);
        match found.iter().zip(expected).position(|pair| !near(pair)) {
            Some(i) => Err(format!("result {i}: expected {}, found {}", expected[i], found[i])),
            None => Ok(()),
        }
    }
}

/// All of them, two for two types.
pub const KERNELS: [Kernel; 22] = [
    kernel("saxpy", "y += a x, f32", saxpy::problem, [1000, 1 << 20]),
    kernel("heat", "heat in 2 dimensions, f32", heat::problem, [29, 1024]),
    kernel("lbm", "lattice Boltzmann D2Q9, f64", lbm::problem, [10, 256]),
    kernel("mandelbrot", "Mandelbrot set, f64", mandelbrot::problem, [30, 256]),
    kernel("nearest", "nearest of some centres, f32", nearest::problem, [90, 1 << 16]),
    kernel("histogram", "histogram and largest, f32", histogram::problem, [5000, 1 << 20]),
    kernel("gravity", "N-body, f32", gravity::problem, [60, 1500]),
    kernel("sparse", "CSR times vector by rows, f64", sparse::problem, [30, 1 << 17]),
    Kernel {
        within: 1e-12,
        ..kernel("butterfly", "stage of an FFT, f64", butterfly::problem, [32, 1 << 17])
    },
    kernel("jacobi", "Jacobi in 3 dimensions, f64", jacobi::problem, [9, 96]),
    kernel("blur", "blurs of radius 1 and 3, f32", blur::problem, [8, 512]),
    kernel("transpose", "transpose, f32", transpose::of_f32, [7, 768]),
    kernel("transpose_i32", "transpose, i32", transpose::of_i32, [7, 768]),
    Kernel {
        within: 1e-13,
        ..kernel("black_scholes", "Black-Scholes, f64", black_scholes::problem, [64, 1 << 16])
    },
    kernel("forces", "pair forces with a cutoff, f32", forces::problem::<f32>, [40, 1200]),
    kernel("forces_f64", "pair forces with a cutoff, f64", forces::problem::<f64>, [40, 1200]),
    kernel("life", "Life on a torus, u8", life::problem, [17, 512]),
    kernel("product", "matrix product by tiles, f32", product::problem, [17, 256]),
    kernel("scan", "prefix sum step by step, u32", scan::problem, [200, 1 << 16]),
    kernel("push", "particles in a magnetic field, f32", push::problem, [70, 1 << 16]),
    kernel("smith_waterman", "Smith-Waterman by diagonals, i32", smith_waterman::problem, [15, 300]),
    kernel("complex", "rational function of complex numbers, f32", complex::problem, [51, 1 << 17]),
];

const fn kernel(
    name: &'static str,
    what: &'static str,
    problem: fn(usize) -> Box<dyn Problem>,
    sizes: [usize; 2],
) -> Kernel {
    Kernel { name, what, within: 0.0, problem, sizes }
}

/// Numbers from 0 to 1.
fn field(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919) % 1013) as f32 / 1013.0).collect()
}

/// Points in the unit cube, apart from each other.
fn points(n: usize) -> Vec<[f32; 3]> {
    let at = |i: usize, by: usize| ((i * by) % 65_521) as f32 / 65_521.0;
    (0..n).map(|i| [at(i, 25_717), at(i, 41_579), at(i, 60_013)]).collect()
}

/// The elements of an array.
fn numbers<T: flash::kernel::Element + Into<f64>>(memory: &FlashMemory<T>) -> Result<Vec<f64>, Error> {
    Ok(memory.read()?.iter().map(|x| (*x).into()).collect())
}
