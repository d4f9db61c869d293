//! The kernels of FLASH as a plugin library.
