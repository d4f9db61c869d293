//! The kernels of FLASH as a plugin library.
flash_core::export_plugin!(flash_kernels);
