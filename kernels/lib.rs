//! The kernels that come with FLASH: one folder per kernel, with its definition and all of its
//! implementations side by side.

#[path = "nbody/mod.rs"]
pub mod nbody;

#[path = "ewmd/mod.rs"]
pub mod ewmd;
#[path = "ewmm/mod.rs"]
pub mod ewmm;
#[path = "mmm/mod.rs"]
pub mod mmm;
#[path = "mvm/mod.rs"]
pub mod mvm;
mod shapes;
#[path = "simd/mod.rs"]
pub mod simd;
#[path = "vdp/mod.rs"]
pub mod vdp;

pub use ewmd::ewmd;
pub use ewmm::ewmm;
pub use mmm::mmm;
pub use mvm::mvm;
pub use vdp::vdp;
