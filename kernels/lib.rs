//! The kernels that come with FLASH: one folder per kernel, with its definition and all of its
//! implementations side by side.
//!
//! | entry point | computes |
//! |---|---|
//! | [`mmm`](fn@mmm) | the product of matrices |
//! | [`gemm`](fn@gemm) | such a product, of matrices as they are or transposed, added to a third matrix |
//! | [`syrk`](fn@syrk) | the product of a matrix and its transposed one, added to a symmetric matrix |
//! | [`trsm`](fn@trsm) | the solution of a triangular system |
//! | [`potrf`](fn@potrf) | the Cholesky factorisation |
//! | [`mvm`](fn@mvm) | the product of a matrix and a vector |
//! | [`vdp`](fn@vdp) | the product of vectors |
//! | [`smmm`](fn@smmm) | the product of a sparse matrix, a [`Csr`], and a dense one |
//! | [`spmv`](fn@spmv) | the product of a sparse matrix and a vector |
//! | [`ewmm`](fn@ewmm), [`ewmd`](fn@ewmd) | products and quotients element by element |
//! | [`conv1d`](fn@conv1d) | the convolution of a signal with a filter |
//! | [`js`](fn@js) | a sweep of Jacobi's method |
//! | [`star`](fn@star) | such a sweep with a mean over 13 points |
//! | [`walk`](diffusion::walk), [`count`](diffusion::count) in [`diffusion`] | ways and counts of particles |
//! | [`heat`](diffusion::heat) in [`diffusion`] | a step of the heat equation |
//! | [`accelerate`](nbody::accelerate) in [`nbody`] | gravity between bodies |
//! | [`integrate`](nbody::integrate), [`simulate`](nbody::simulate) in [`nbody`] | the motion of bodies |
//!
//! An entry point checks the shapes of its arguments and returns the definition's value, to be submitted.
//! Arrays are stored row by row, with the length of a row first in their shape.
//!
//! A kernel's name is the path of its entry point in this crate, in the namespace `flash.`: `flash.mmm`,
//! `flash.nbody.integrate`. Names that begin so are FLASH's own; a program's definitions have others.
//!
//! A CPU has these implementations of each kernel and takes the fastest that it can run;
//! `Implementation::named(..)` takes another. An OpenCL device has `any` of each kernel. One that is the CPU
//! also has `cpu` of `flash.mmm`, `flash.mvm`, `flash.vdp`, `flash.smmm`, `flash.spmv`, `flash.conv1d`,
//! `flash.diffusion.walk`, `flash.nbody.accelerate` and `flash.nbody.simulate`. An NVIDIA GPU also has
//! `cublas` of `flash.mmm`, `flash.gemm`, `flash.syrk` and `flash.trsm`, and `cusolver` of `flash.potrf`,
//! where these libraries are found.
//!
//! | kernels | implementations on a CPU |
//! |---|---|
//! | `flash.mmm` | `openblas`, `amx_bf16`, `avx512_bf16`, `blocked`, `avx512`, `avx2`, `portable`, `plain` |
//! | `flash.gemm`, `flash.syrk`, `flash.trsm`, `flash.potrf` | `openblas`, `blocked`, `plain` |
//! | `flash.mvm`, `flash.vdp`, `flash.smmm`, `flash.spmv` | `avx512`, `avx2`, `portable`, `plain` |
//! | `flash.ewmm`, `flash.ewmd` | `avx512`, `avx2`, `portable`, `plain` |
//! | `flash.conv1d`, `flash.js`, `flash.star` | `avx512`, `avx2`, `portable`, `plain` |
//! | `flash.nbody.accelerate`, `flash.nbody.simulate` | `avx512`, `avx2`, `portable`, `plain` |
//! | `flash.nbody.integrate` | `avx512`, `avx2`, `portable`, `plain` |
//! | `flash.diffusion.walk`, `flash.diffusion.heat` | `avx512`, `avx2`, `portable`, `plain` |
//! | `flash.diffusion.count` | `stays`, `plain` |
//!
//! `amx_bf16`, `avx512_bf16`, `blocked` and `plain` are those for factors in [`bf16`](mmm::bf16).
//!
//! Algorithms on tiles have a memory for each tile, and one kernel for each step. Independent steps run at
//! the same time, on any devices: a pipeline orders those that touch the same tile.
//! ```
//! # use flash_backend_cpu as _;
//! use flash_core::{Error, FlashMemory, Pipeline, RuntimeObj};
//! use flash_kernels::trsm::{Diagonal, Side};
//! use flash_kernels::{gemm, potrf, syrk, transposed, trsm};
//!
//! /// The Cholesky factor of a matrix of tiles, in the lower triangle: row by row, of `edge` rows each.
//! fn cholesky<'a>(
//!     rt: &RuntimeObj,
//!     a: &'a [Vec<FlashMemory<f64>>],
//!     edge: usize,
//! ) -> Result<Pipeline<'a>, Error> {
//!     let mut steps = rt.pipeline();
//!     for k in 0..a.len() {
//!         let pivot = &a[k][k];
//!         steps = steps.submit(potrf(pivot)?).defer([1usize]);
//!         for i in k + 1..a.len() {
//!             let panel = trsm(Side::Right, transposed(pivot), Diagonal::Stored, 1.0, &a[i][k])?;
//!             steps = steps.submit(panel).defer([edge]);
//!         }
//!         for i in k + 1..a.len() {
//!             for j in k + 1..i {
//!                 let rest = gemm(-1.0, &a[i][k], transposed(&a[j][k]), 1.0, &a[i][j])?;
//!                 steps = steps.submit(rest).defer([edge]);
//!             }
//!             steps = steps.submit(syrk(-1.0, &a[i][k], 1.0, &a[i][i])?).defer([edge]);
//!         }
//!     }
//!     Ok(steps)
//! }
//! # let tile = |i: usize, j: usize| {
//! #     let of = |row: usize, column: usize| if row == column { 8.0 } else { (row + column) as f64 / 8.0 };
//! #     let elements = (0..4).map(|at| of(2 * i + at / 2, 2 * j + at % 2));
//! #     elements.collect::<FlashMemory<f64>>().with_shape([2, 2])
//! # };
//! # let row = |i| (0..=i).map(|j| tile(i, j)).collect::<Result<Vec<_>, Error>>();
//! # let a = (0..3).map(row).collect::<Result<Vec<_>, Error>>()?;
//! let rt = flash_core::get_runtime("ALL_ACCEL")?;
//! cholesky(&rt, &a, 2)?.exec()?;
//! # // The element in row 5, column 4: the last off the diagonal.
//! # let l = |i: usize, j: usize| a[i / 2][j / 2].get(i % 2 * 2 + j % 2);
//! # let sum = (0..=4).try_fold(0.0, |sum, p| Ok::<_, Error>(sum + l(5, p)? * l(4, p)?))?;
//! # assert!((sum - 9.0 / 8.0).abs() < 1e-14, "{sum}");
//! # Ok::<(), Error>(())
//! ```
//!
//! The implementations are behind the feature `implementations`, which is on by default. Without it the crate
//! has definitions and entry points: for programs that take all implementations from plugins, and for
//! plugins with implementations of their own.

// What only implementations use.
#![cfg_attr(not(feature = "implementations"), allow(dead_code, unused_imports, unused_macros))]

#[path = "diffusion/mod.rs"]
pub mod diffusion;
#[path = "nbody/mod.rs"]
pub mod nbody;

#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
mod by_stream;
#[path = "conv1d/mod.rs"]
pub mod conv1d;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
mod cublas;
#[path = "ewmd/mod.rs"]
pub mod ewmd;
#[path = "ewmm/mod.rs"]
pub mod ewmm;
#[path = "gemm/mod.rs"]
pub mod gemm;
#[path = "js/mod.rs"]
pub mod js;
#[path = "mmm/mod.rs"]
pub mod mmm;
#[path = "mvm/mod.rs"]
pub mod mvm;
#[cfg(target_os = "linux")]
#[cfg(feature = "vendor-libraries")]
mod openblas;
mod operand;
#[path = "potrf/mod.rs"]
pub mod potrf;
mod recorded_as;
mod shapes;
#[path = "simd/mod.rs"]
pub mod simd;
#[path = "smmm/mod.rs"]
pub mod smmm;
#[path = "sparse/mod.rs"]
mod sparse;
#[path = "spmv/mod.rs"]
pub mod spmv;
#[path = "star/mod.rs"]
pub mod star;
mod stored;
#[path = "syrk/mod.rs"]
pub mod syrk;
#[path = "trsm/mod.rs"]
pub mod trsm;
#[path = "vdp/mod.rs"]
pub mod vdp;

pub use conv1d::conv1d;
pub use ewmd::ewmd;
pub use ewmm::ewmm;
pub use gemm::gemm;
pub use js::js;
pub use mmm::mmm;
pub use mvm::mvm;
pub use operand::{Operand, transposed};
pub use potrf::potrf;
pub use smmm::smmm;
pub use sparse::Csr;
pub use spmv::spmv;
pub use star::star;
pub use syrk::syrk;
pub use trsm::trsm;
pub use vdp::vdp;
