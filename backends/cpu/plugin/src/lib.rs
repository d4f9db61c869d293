//! The CPU backend of FLASH as a plugin library.
