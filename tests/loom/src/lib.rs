//! Loom models of what waits in FLASH.
