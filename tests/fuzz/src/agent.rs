//! An agent whose controller says anything: no frame makes it panic, hang, or touch what is not its own.
//!
//! It has a device that works in the host's memory and one with a memory of its own. What a correct
//! controller may ask for, too, and takes long or much memory, is left out.

use crate::frames;
use crate::scripted::{Script, Scripted, lock};
use crate::session::session;
use flash_backend_ranks::in_process::Agent;
use flash_net::Peer;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Work items of a launch, and bytes of a buffer, at most.
const MOST: u64 = 1 << 14;

/// Its devices.
pub const KEY: &str = "ALL_CPU,TEST";

struct Fuzzed {
    agent: Agent,
    script: Arc<Mutex<Script>>,
}

/// Lets the agent do what the frames of an input ask for.
///
/// # Panics
/// If it does, or does not end.
pub fn fuzz(input: &[u8]) {
    static FUZZED: OnceLock<Mutex<Fuzzed>> = OnceLock::new();
    let make = || {
        // Before the first runtime.
        session();
        let (transport, script) = Scripted::new(Peer(1), false);
        let agent = Agent::limited(Box::new(transport), KEY, MOST).expect("two devices");
        Mutex::new(Fuzzed { agent, script })
    };
    let mut fuzzed = FUZZED.get_or_init(make).lock().unwrap_or_else(PoisonError::into_inner);
    let Fuzzed { agent, script } = &mut *fuzzed;
    lock(script).begin(frames(input));
    while agent.poll() {}
    let until = Instant::now() + Duration::from_secs(20);
    while !agent.is_idle() {
        assert!(Instant::now() < until, "the agent has not ended what it was asked for");
        std::thread::yield_now();
    }
    agent.forget();
}
