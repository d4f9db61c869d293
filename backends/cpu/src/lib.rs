//! The CPU backend of FLASH.
