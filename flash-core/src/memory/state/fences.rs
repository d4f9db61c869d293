//! A pair of fences of which one side is almost free.
//!
//! Two threads that each write and then look need a full fence between the two on both sides. Where Linux has
//! `membarrier`, the rare side can have it run a fence on every core on which this process runs. The frequent
//! side then only needs the compiler to keep its order. Without it (or before it was registered), both sides
//! take a full fence.

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

    /// Set once the kernel has agreed; until then, the frequent side fences, too.
    static AGREED: AtomicBool = AtomicBool::new(false);
    static REGISTERED: OnceLock<bool> = OnceLock::new();

    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes two numbers and touches no memory of this process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
    }

    /// Asks the kernel, once.
    pub fn agree() -> bool {
        *REGISTERED.get_or_init(|| {
            let agreed = membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED);
            AGREED.store(agreed, Ordering::SeqCst);
            agreed
        })
    }

    #[inline]
    pub fn light() {
        if AGREED.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    #[cold]
    pub fn heavy() {
        fence(Ordering::SeqCst);
        if agree() && !membarrier(PRIVATE_EXPEDITED) {
            // The kernel agreed before: without this fence a wake-up could be lost.
            flash_backend::notice(format_args!("membarrier failed: {}", std::io::Error::last_os_error()));
            std::process::abort();
        }
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
pub use linux::{agree, heavy, light};

#[cfg(not(all(target_os = "linux", not(miri))))]
mod portable {
    use std::sync::atomic::{Ordering, fence};

    /// There is no such call.
    pub fn agree() -> bool {
        false
    }

    #[inline]
    pub fn light() {
        fence(Ordering::SeqCst);
    }

    pub fn heavy() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub use portable::{agree, heavy, light};
