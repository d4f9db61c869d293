//! The macros of FLASH: derive(KernelDefinition), kernel, register_backend, export_plugin.
