//! The kernels that come with FLASH.
