//! The budget of the host's memory: how much of it arrays take, and how much they may.
//!
//! Blocks of at least 4 MiB count: those of vectors as a whole, others as far as they were made writable, in
//! steps of 2 MiB. When a block grows and the sum exceeds the budget, blocks are given back that are also
//! current elsewhere and that nothing holds, the longest unused first ([`ArrayInner::give_back`]). What
//! cannot be given back stays: the budget is a goal, not a limit. Any thread may call these functions; the
//! sums are atomics.

use super::ArrayInner;
use super::device;
use flash_backend::settings::{are_of_a_context, process_number};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static COMMITTED: AtomicU64 = AtomicU64::new(0);

/// The budget, or [`UNSET`]: then it is that of the settings.
static BUDGET: AtomicU64 = AtomicU64::new(UNSET);

/// No host has as many bytes.
const UNSET: u64 = u64::MAX - 1;

/// Counts a block as `now` bytes that counted as `before`.
pub(super) fn change(before: u64, now: u64) {
    // Modulo 2^64: the sum of all blocks is never negative.
    COMMITTED.fetch_add(now.wrapping_sub(before), Relaxed);
}

/// Bytes of all blocks that count.
pub(super) fn committed() -> u64 {
    COMMITTED.load(Relaxed)
}

/// The most bytes of the host's memory that arrays should take, see [`set_host_budget`].
pub fn host_budget() -> u64 {
    match BUDGET.load(Relaxed) {
        UNSET => of_settings(),
        bytes => bytes,
    }
}

/// Sets how many bytes of the host's memory arrays should take, for the whole process. The default is the
/// setting `host_budget`, or no limit. Arrays of at least 4 MiB count, as far as the host wrote or fetched
/// their elements.
///
/// Beyond the budget, the host's copies of what devices have, too, are given back, the longest unused first.
/// So the arrays together may be larger than the host's memory, on devices with memories of their own. What
/// only the host has, or what a guard or a launch uses, stays, even beyond the budget.
///
/// # Examples
/// ```
/// use flash_core::memory::{host_budget, set_host_budget};
/// set_host_budget(8 << 30);
/// assert_eq!(host_budget(), 8 << 30);
/// ```
pub fn set_host_budget(bytes: u64) {
    BUDGET.store(if bytes == UNSET { u64::MAX } else { bytes }, Relaxed);
}

/// That of the environment; once there is a context, that of the process, which stays.
#[cold]
fn of_settings() -> u64 {
    let is_final = are_of_a_context();
    let bytes = process_number("host_budget").unwrap_or(u64::MAX);
    if is_final {
        // `set_host_budget` may be faster.
        let _ = BUDGET.compare_exchange(UNSET, bytes, Relaxed, Relaxed);
    }
    bytes
}

/// By how many bytes the budget is exceeded if `bytes` more are made writable.
pub(super) fn excess(bytes: u64) -> u64 {
    committed().saturating_add(bytes).saturating_sub(host_budget())
}

/// Gives back host blocks until `bytes` more keep within the budget, as far as possible. Never waits.
pub(super) fn make_room(bytes: u64) {
    let excess = excess(bytes);
    if excess > 0 {
        give_back(excess);
    }
}

/// Gives back host blocks until those had `bytes` bytes together, or no other can be. Returns how many bytes
/// that were.
#[cold]
pub(super) fn give_back(bytes: u64) -> u64 {
    let _taker = device::Taker::new();
    let mut candidates: Vec<Arc<ArrayInner>> = device::copied();
    candidates.sort_by_key(|header| header.host_use.load(Relaxed));
    let mut freed = 0;
    for header in candidates {
        if freed >= bytes {
            break;
        }
        freed += header.give_back();
    }
    freed
}
