//! Kernels that are written once: see `tests`.
