//! The floating-point state of a thread: how it rounds, and whether it flushes numbers that are not normal.
//!
//! A library built with `-Ofast` changes it in its initialiser, for the thread that happens to load it. The
//! same launch would then give other bits on that thread than on the others.

/// Calls `load`, which loads a library, and gives this thread the floating-point state that it had before.
pub fn keep_float_state<R>(load: impl FnOnce() -> R) -> R {
    let before = state();
    let loaded = load();
    restore(before);
    loaded
}

/// MXCSR.
#[cfg(target_arch = "x86_64")]
fn state() -> u64 {
    let mut state = 0u32;
    // SAFETY: stores the register into a local variable.
    unsafe { core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut state, options(nostack, preserves_flags)) };
    state.into()
}

#[cfg(target_arch = "x86_64")]
fn restore(state: u64) {
    let state = state as u32;
    // SAFETY: the value that this thread had, with which the code after this was compiled to run.
    unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const state, options(nostack, preserves_flags)) };
}

/// FPCR.
#[cfg(target_arch = "aarch64")]
fn state() -> u64 {
    let state: u64;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mrs {}, fpcr", out(reg) state, options(nomem, nostack, preserves_flags)) };
    state
}

#[cfg(target_arch = "aarch64")]
fn restore(state: u64) {
    // SAFETY: the value that this thread had, with which the code after this was compiled to run.
    unsafe { core::arch::asm!("msr fpcr, {}", in(reg) state, options(nomem, nostack, preserves_flags)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn state() -> u64 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn restore(_: u64) {}
