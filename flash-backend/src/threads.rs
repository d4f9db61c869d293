//! Threads of the core and of backends.

use crate::fork;
use crate::settings::process_number;
use std::cell::Cell;
use std::ops::Range;

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

/// The addresses of the calling thread's own stack, found out once per thread. Code that runs on another
/// stack, such as a coroutine's, is outside of it. Where the system does not tell, it is what lies 256 KiB
/// around the first caller.
pub fn own_stack() -> Range<usize> {
    thread_local! {
        static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }
    let (start, end) = STACK.get();
    if end != 0 {
        return start..end;
    }
    let stack = stack_of_thread().unwrap_or_else(|| {
        let here = 0_u8;
        let here = std::ptr::from_ref(std::hint::black_box(&here)).addr();
        here.saturating_sub(256 << 10)..here.saturating_add(256 << 10)
    });
    STACK.set((stack.start, stack.end));
    stack
}

#[cfg(target_os = "linux")]
fn stack_of_thread() -> Option<Range<usize>> {
    // SAFETY: the attributes are filled by the first call, read by the second, and freed.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut start, mut size) = (std::ptr::null_mut(), 0);
        let found = libc::pthread_attr_getstack(&attributes, &mut start, &mut size) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        found.then(|| start.addr()..start.addr() + size)
    }
}

#[cfg(not(target_os = "linux"))]
fn stack_of_thread() -> Option<Range<usize>> {
    None
}
