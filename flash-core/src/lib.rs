//! The runtime core of FLASH: kernel definitions, index spaces, memory, plugins and dispatch.
