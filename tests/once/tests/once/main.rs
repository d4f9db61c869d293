//! Kernels that are written once, each on the CPU, on the OpenCL devices and on the emulated CUDA driver: the
//! texts that `#[kernel(devices)]` writes give what the functions on the CPU give.

mod grids;
mod groups;
mod meaning;
mod options;
mod patterns;
mod results;
mod rows;
mod scatters;
mod teams;
mod texts;
mod tiles;
mod twenty;
mod uniforms;
