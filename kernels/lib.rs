//! The kernels that come with FLASH: one folder per kernel, with its definition and all of its
//! implementations side by side.

#[path = "diffusion/mod.rs"]
pub mod diffusion;
#[path = "nbody/mod.rs"]
pub mod nbody;

#[path = "conv1d/mod.rs"]
pub mod conv1d;
#[path = "ewmd/mod.rs"]
pub mod ewmd;
#[path = "ewmm/mod.rs"]
pub mod ewmm;
#[path = "js/mod.rs"]
pub mod js;
#[path = "mmm/mod.rs"]
pub mod mmm;
#[path = "mvm/mod.rs"]
pub mod mvm;
mod shapes;
#[path = "simd/mod.rs"]
pub mod simd;
#[path = "smmm/mod.rs"]
pub mod smmm;
#[path = "vdp/mod.rs"]
pub mod vdp;

pub use conv1d::conv1d;
pub use ewmd::ewmd;
pub use ewmm::ewmm;
pub use js::js;
pub use mmm::mmm;
pub use mvm::mvm;
pub use smmm::smmm;
pub use vdp::vdp;
