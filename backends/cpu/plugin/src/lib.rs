//! The CPU backend of FLASH as a plugin library.
flash_backend::export_plugin!(flash_backend_cpu);
