//! The kernels that come with FLASH: one folder per kernel, with its definition and all of its
//! implementations side by side.

#[path = "diffusion/mod.rs"]
pub mod diffusion;
#[path = "nbody/mod.rs"]
pub mod nbody;
