//! Devices of other processes, key `RANK`: a *controller* runs a program, and *agents*, processes beside it,
//! serve their devices to it.
//!
//! `flash run -n 4 -- PROGRAM` starts four processes of one program: the first runs it, and the others become
//! agents when the program asks for its first runtime. `RANK` selects all devices of all agents, `RANK:3`
//! those of the third, `RANK:3/NVIDIA_GPU:0` one of them, and `RANK:gpu` all of a class. `NVIDIA_GPU@agent`
//! starts an agent of the program's own, with the devices of one backend, and `NVIDIA_GPU@NAME` uses one that
//! listens.
//!
//! The controller's directory of arrays is the only one. An agent's memory is one more place for them, an
//! agent knows of buffers and launches alone, and decides nothing. See `docs/ranks.md`.

mod agent;
mod controller;
pub mod in_process;
mod services;
mod wire;
mod world;

pub use agent::{AgentState, report_to};
pub use services::{Client, Served, services};

use controller::{Controller, Of, RankDevice};
use flash_backend::__host::overlap;
use flash_backend::{Backend, Changes, Class, Code, Failure, HostSettings, Unavailable};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The backend.
pub struct Ranks;

static CONTROLLER: OnceLock<&'static Controller> = OnceLock::new();

/// Agents that were asked for, as `KEY@AGENT`.
static ISOLATED: Mutex<Vec<Isolated>> = Mutex::new(Vec::new());
/// Changes whenever one is.
static ASKED: AtomicU64 = AtomicU64::new(0);

struct Isolated {
    key: String,
    state: State,
}

enum State {
    Wanted,
    There,
    Failed(Failure),
}

fn isolated() -> MutexGuard<'static, Vec<Isolated>> {
    ISOLATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wants an agent, as `KEY@AGENT`, unless there is one.
fn isolate(key: &str) {
    let mut all = isolated();
    match all.iter_mut().find(|one| one.key == key) {
        None => all.push(Isolated { key: key.to_owned(), state: State::Wanted }),
        Some(one) if matches!(one.state, State::There) => return,
        Some(one) => one.state = State::Wanted,
    }
    ASKED.fetch_add(1, SeqCst);
}

/// Starts the agents that are wanted.
fn start_wanted(controller: &'static Controller) -> Vec<RankDevice> {
    let mut devices = Vec::new();
    for one in isolated().iter_mut().filter(|one| matches!(one.state, State::Wanted)) {
        let started = controller.isolate(&one.key).and_then(|(agent, found)| {
            RankDevice::all(controller, agent, found).map_err(|why| Failure::new(Code::Invalid, why))
        });
        one.state = match started {
            Ok(found) => {
                devices.extend(found);
                State::There
            }
            Err(failure) => State::Failed(failure),
        };
    }
    devices
}

// SAFETY: an agent runs what a launch says through a backend of its own, which does, and answers when that is
// done; memory is shared, or copied by it before it answers.
unsafe impl Backend for Ranks {
    const KEY: &'static str = "RANK";
    const DESCRIPTION: &'static str =
        "devices of other processes, started by `flash run`, by `mpirun` or for `KEY@agent`";
    const TARGET: &'static str = "cpu";
    type Device = RankDevice;

    fn probe(settings: &HostSettings<'_>) -> Result<Vec<RankDevice>, Unavailable> {
        let limit = settings.number("rank.timeout_ms", 50..=3_600_000)?.unwrap_or(5000);
        let alone = !isolated().is_empty();
        let controller = match CONTROLLER.get() {
            Some(controller) => controller,
            None => {
                let controller = Controller::start(Duration::from_millis(limit), alone)?;
                CONTROLLER.get_or_init(|| controller)
            }
        };
        let mut devices = controller.devices()?;
        devices.extend(start_wanted(controller));
        Ok(devices)
    }

    fn agent() -> Option<fn() -> Result<(), Failure>> {
        world::is_agent().then_some(agent::serve as fn() -> Result<(), Failure>)
    }

    fn isolate() -> Option<fn(&str)> {
        Some(isolate)
    }

    fn generation() -> u64 {
        ASKED.load(SeqCst) + CONTROLLER.get().map_or(0, |controller| controller.losses())
    }

    fn changes(known: &[&RankDevice]) -> Changes<RankDevice> {
        let gone = known.iter().enumerate().filter(|(_, device)| device.is_gone()).map(|(at, _)| at);
        let new = CONTROLLER.get().map_or_else(Vec::new, |controller| start_wanted(controller));
        Changes { gone: gone.collect(), new }
    }

    fn resolve(suffix: &str, devices: &[&RankDevice]) -> Option<Result<Vec<usize>, Failure>> {
        Some(selected(suffix, devices))
    }
}

flash_backend::register_backend!(Ranks);

/// The devices that a suffix with an agent selects: `OPENCL@agent`, `OPENCL:1@agent`.
fn selected_of(key: &str, agent: &str, devices: &[&RankDevice]) -> Result<Vec<usize>, Failure> {
    let name = format!("{}@{agent}", key.split_once(':').map_or(key, |(name, _)| name));
    let state = isolated();
    if let Some(Isolated { state: State::Failed(why), .. }) = state.iter().find(|one| one.key == name) {
        return Err(why.clone());
    }
    let of = Of::Key(name);
    let is_meant = |device: &RankDevice| device.agent.of == of && has_key(device, key);
    let numbered = devices.iter().enumerate();
    Ok(numbered.filter(|(_, device)| is_meant(device)).map(|(at, _)| at).collect())
}

/// The devices that a suffix selects: `3`, `3/NVIDIA_GPU`, `3/NVIDIA_GPU:0`, `gpu`; an empty one those of all
/// ranks. Where no key of an agent's devices is given, those that are emulated or for tests are left out, and
/// those that are the same hardware as a faster one.
fn selected(suffix: &str, devices: &[&RankDevice]) -> Result<Vec<usize>, Failure> {
    if let Some((key, agent)) = suffix.rsplit_once('@') {
        return selected_of(key, agent, devices);
    }
    let (rank, key) = suffix.split_once('/').unwrap_or((suffix, ""));
    let rank_of = |device: &RankDevice| match device.agent.of {
        Of::Rank(rank) => Some(rank),
        Of::Key(_) => None,
    };
    let numbered = || devices.iter().copied().enumerate();
    let class = [Class::Cpu, Class::Gpu, Class::Fpga, Class::Other].into_iter().find(|c| c.name() == suffix);
    let rank: Option<u32> = match (suffix, class) {
        ("", _) | (_, Some(_)) => None,
        _ => Some(rank.parse().map_err(|_| {
            let text = "expected a rank's number, with a key of its devices behind a slash, or a class, as in `RANK:1`, `RANK:1/ALL_CPU:0`, `RANK:gpu`";
            Failure::new(Code::Invalid, text)
        })?),
    };
    if !key.is_empty() {
        let of = |device: &RankDevice| rank_of(device) == rank && has_key(device, key);
        return Ok(numbered().filter(|(_, device)| of(device)).map(|(at, _)| at).collect());
    }
    let is_meant = |device: &RankDevice| {
        let info = device.properties();
        !info.emulated
            && !info.test
            && rank_of(device).is_some_and(|of| rank.is_none_or(|rank| rank == of))
            && class.is_none_or(|class| class == info.class)
    };
    let mut found: Vec<_> = numbered().filter(|(_, device)| is_meant(device)).collect();
    found.sort_by(|(_, a), (_, b)| b.properties().rate_hint.total_cmp(&a.properties().rate_hint));
    let mut chosen: Vec<usize> = Vec::new();
    for (at, device) in found {
        let same = |other: &usize| {
            overlap(&devices[*other].properties().physical_id, &device.properties().physical_id)
        };
        // Agents that share processors are devices all the same.
        if !chosen.iter().any(|other| std::ptr::eq(devices[*other].agent, device.agent) && same(other)) {
            chosen.push(at);
        }
    }
    chosen.sort_unstable();
    Ok(chosen)
}

/// True of `KEY`, `KEY:0` and `KEY:gpu`, for a device of an agent.
fn has_key(device: &RankDevice, key: &str) -> bool {
    let (key, which) = key.split_once(':').unwrap_or((key, ""));
    let (own, number) = device.id.split_once(':').unwrap_or((&device.id, ""));
    own == key && (which.is_empty() || which == number || which == device.properties().class.name())
}
