//! A CUDA driver for tests: the functions of `libcuda.so` that FLASH uses, on a machine that is emulated on
//! the CPU.
//!
//! README.md beside this crate describes what it covers.

mod driver;
mod machine;
mod ptx;
mod run;
