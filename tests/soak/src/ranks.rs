//! Launches on agents whose processes are killed or stopped at random moments, against arrays of the host.
//!
//! Each seed is a process of its own, as a program has places for a limited number of agents. What must hold:
//! a launch that succeeds has the right result, one that fails says that its device was lost, an array that
//! can be read is right, what was current elsewhere is not lost, and launches succeed again.

use crate::random::Random;
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Code, DeviceHandle, Error};
use flash_backend_test as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The variable with the seed, for the process that runs it.
pub const SEED: &str = "FLASH_SOAK_RANKS";

/// Processes that are lost, at most.
const LOSSES: u64 = 10;
/// Launches that may fail one after the other: as many processes may be lost, and each leaves stale copies.
const TRIES: usize = 2 * LOSSES as usize + 5;
const ARRAYS: usize = 4;

#[derive(KernelDefinition)]
#[kernel(name = "soak.mix", dims(i))]
struct Mix<'a> {
    from: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

fn mixed(from: u64, to: u64) -> u64 {
    to.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(from | 1)
}

#[kernel]
impl CpuItem<Mix<'_>> for Plain {
    fn item(_: Index<1>, k: MixItem<'_>) {
        *k.to = mixed(*k.from, *k.to);
    }
}

/// Runs a seed in another process of this program, which is started with these arguments.
///
/// # Panics
/// If the seed fails.
pub fn check(seed: u64, arguments: &[&str]) {
    let mut command = Command::new(std::env::current_exe().expect("this program's file"));
    command.args(arguments).env(SEED, seed.to_string());
    command.env("FLASH_RANK_TIMEOUT_MS", "200").env("FLASH_TEST", "devices=2");
    let output = command.output().expect("this program starts again");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "seed {seed}: {}\n{text}", output.status);
}

/// Runs the seed of the variable, if there is one, or becomes an agent of that. True if it has run.
pub fn is_child() -> bool {
    let Some(seed) = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()) else { return false };
    agent_here();
    run(seed);
    true
}

/// An array, and what is in it; `None`: it may be lost.
struct Array {
    memory: FlashMemory<u64>,
    model: Option<Vec<u64>>,
}

impl Array {
    fn new(random: &mut Random, n: usize) -> Array {
        let values: Vec<u64> = (0..n).map(|_| random.number()).collect();
        Array { memory: values.iter().copied().collect(), model: Some(values) }
    }

    /// Reads it. Writes it anew if it is lost, which may only be if `may_be`.
    fn look(&mut self, random: &mut Random, may_be: bool) {
        match (self.memory.read().map(|read| read.to_vec()), &self.model) {
            (Ok(found), Some(expected)) => assert!(found == *expected, "an array has wrong elements"),
            (Ok(found), None) => self.model = Some(found),
            (Err(error), model) => {
                assert!(may_be || model.is_none(), "an array is lost that was current elsewhere: {error}");
                assert!(matches!(error, Error::Poisoned) || is_lost(&error), "{error}");
                *self = Array::new(random, self.memory.len());
            }
        }
    }
}

fn is_lost(error: &Error) -> bool {
    error.code() == Some(Code::DeviceLost) || matches!(error.cause(), Error::Skipped { .. } | Error::Poisoned)
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let keys = ["ALL_CPU@agent", "ALL_CPU,ALL_CPU@agent", "TEST@agent", "ALL_CPU,TEST@agent", "TEST:1@agent"];
    let key = keys[random.below(keys.len() as u64) as usize];
    let rt = get_runtime(key).unwrap();
    // Memory of this process outlives its devices.
    let own_memory = key.contains("TEST");
    let n = 1 + random.below(20_000) as usize;
    let mut arrays: Vec<Array> = (0..ARRAYS).map(|_| Array::new(&mut random, n)).collect();
    let all_lost = AtomicBool::new(false);
    let devices: Vec<&'static DeviceHandle> = rt.devices().to_vec();
    thread::scope(|scope| {
        let mut killer = Random::new(!seed);
        let all_lost = &all_lost;
        scope.spawn(move || {
            for _ in 0..1 + killer.below(LOSSES) {
                thread::sleep(Duration::from_micros(killer.below(30_000)));
                let device = devices[killer.below(devices.len() as u64) as usize];
                // The processors of this process have none.
                let Ok(Ok(pid)) = device.query("pid").map(|pid| pid.parse::<i32>()) else { continue };
                let signal = if killer.once_in(3) { libc::SIGSTOP } else { libc::SIGKILL };
                // SAFETY: a signal to an agent of this process.
                unsafe { libc::kill(pid, signal) };
            }
            all_lost.store(true, Relaxed);
        });
        while !all_lost.load(Relaxed) {
            step(&rt, &mut random, &mut arrays, own_memory);
        }
    });
    // Nothing is lost any more: within some tries everything is as ever.
    let [from, to] = [0, 1].map(|_| Array::new(&mut random, n));
    for left in (0..TRIES).rev() {
        match rt.submit(Mix::of(&from.memory, &to.memory)).exec([n]) {
            Ok(_) => break,
            Err(error) => assert!(left > 0 && is_lost(&error), "{error}"),
        }
        match to.memory.write() {
            Ok(mut elements) => elements.copy_from_slice(to.model.as_ref().unwrap()),
            // Those that another device had when the process was lost.
            Err(error) => assert!(is_lost(&error), "{error}"),
        }
    }
    for array in &mut arrays {
        array.look(&mut random, own_memory);
    }
}

/// One launch or several, or a look at an array.
fn step(rt: &RuntimeObj, random: &mut Random, arrays: &mut [Array], own_memory: bool) {
    let mut pick = || random.below(ARRAYS as u64) as usize;
    let n = arrays[0].memory.len();
    let (from, to) = (pick(), pick());
    if from == to {
        return arrays[to].look(random, own_memory);
    }
    let count = 1 + random.below(3) as usize;
    let begin = Instant::now();
    let outcome = {
        let mut chain = rt.pipeline();
        for _ in 0..count {
            chain = chain.submit(Mix::of(&arrays[from].memory, &arrays[to].memory)).defer([n]);
        }
        chain.exec().map(drop)
    };
    assert!(begin.elapsed() < Duration::from_secs(30), "a launch took {:?}", begin.elapsed());
    match outcome {
        Ok(()) => {
            let [source, target] = arrays.get_disjoint_mut([from, to]).unwrap();
            match (&source.model, &mut target.model) {
                (Some(source), Some(target)) => {
                    for (from, to) in source.iter().zip(target) {
                        (0..count).for_each(|_| *to = mixed(*from, *to));
                    }
                }
                _ => target.model = None,
            }
        }
        Err(error) => {
            assert!(is_lost(&error), "{error}");
            arrays[to].model = None;
            if own_memory {
                // All that was in the device's memory may be gone.
                arrays.iter_mut().for_each(|array| array.look(random, true));
            } else {
                arrays[to].look(random, true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn losses_at_random_moments_lose_nothing_else() {
        if super::is_child() {
            return;
        }
        const TEST: &str = "ranks::tests::losses_at_random_moments_lose_nothing_else";
        (0..10).for_each(|seed| super::check(seed, &["--exact", TEST, "--nocapture"]));
    }
}
