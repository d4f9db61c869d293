//! Threads of the core and of backends.

use crate::fork;
use crate::settings::process_number;

/// Bytes of the stack of a thread that runs kernels or functions of the host, unless the setting `stack_size`
/// says otherwise: as many as the main thread of a program has, so that what runs there runs anywhere.
pub const STACK_SIZE: usize = 8 << 20;

/// Bytes of the stack of such a thread in this process.
pub fn stack_size() -> usize {
    process_number("stack_size").map_or(STACK_SIZE, |size| size as usize)
}

/// A thread that may run kernels or functions of the host, to be started.
pub fn thread(name: &str) -> std::thread::Builder {
    fork::watch();
    std::thread::Builder::new().name(name.into()).stack_size(stack_size())
}
