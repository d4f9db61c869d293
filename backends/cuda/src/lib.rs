//! The CUDA backend of FLASH: key `NVIDIA_GPU`.

pub mod nvrtc;
