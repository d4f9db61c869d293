//! Ways of copies between two places, and what they cost: a table, filled as pairs are first asked for.
//!
//! Costs are estimates that backends give with `can_copy`. They choose between sources that have the same
//! elements, and between two devices that can copy between their memories; nothing depends on them but time.

use super::device::{DeviceMemory, memory_of};
use super::directory::Place;
use flash_types::abi::SPACE_HOST;
use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

/// A way from a place to another.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// The device that copies; `None`: it goes through the host, by both devices in turn.
    pub by: Option<&'static DeviceMemory>,
    /// Picoseconds for each byte.
    pub cost: u64,
}

/// What a byte costs where a backend says that it copies, and not how fast: as at 10 GB/s.
const NO_RATE: u64 = 100;

/// What a byte costs where a backend does not even say that it copies: more than anywhere else.
const UNKNOWN: u64 = 10_000;

/// By source and destination.
static ROUTES: LazyLock<RwLock<HashMap<[Place; 2], Route>>> = LazyLock::new(RwLock::default);

/// The best way from one place to another one.
pub(crate) fn route(from: Place, to: Place) -> Route {
    let key = [from, to];
    if let Some(known) = ROUTES.read().unwrap_or_else(|e| e.into_inner()).get(&key) {
        return *known;
    }
    let made = make(memory_of(from), memory_of(to));
    ROUTES.write().unwrap_or_else(|e| e.into_inner()).insert(key, made);
    made
}

fn make(from: Option<&'static DeviceMemory>, to: Option<&'static DeviceMemory>) -> Route {
    let cost = |rate: f64| if rate > 0.0 { (1e12 / rate).max(1.0) as u64 } else { NO_RATE };
    let space = |memory: Option<&'static DeviceMemory>| memory.map_or(SPACE_HOST, DeviceMemory::space);
    let by = |device: &'static DeviceMemory| {
        let rate = device.device().copies([space(from), space(to)]);
        rate.map(|rate| Route { by: Some(device), cost: cost(rate) })
    };
    match (from, to) {
        (None, None) => Route { by: None, cost: NO_RATE },
        // Every device with a memory of its own copies between that and the host's.
        (Some(device), None) | (None, Some(device)) => {
            by(device).unwrap_or(Route { by: Some(device), cost: UNKNOWN })
        }
        (Some(a), Some(b)) => {
            // Numbers of spaces are a backend's own.
            let direct = [b, a].into_iter().filter(|_| a.is_found_with(b)).filter_map(by);
            let through_host = || {
                let [down, up] = [(Some(a), None), (None, Some(b))].map(|(from, to)| make(from, to).cost);
                Route { by: None, cost: down.saturating_add(up) }
            };
            direct.min_by_key(|route| route.cost).unwrap_or_else(through_host)
        }
    }
}
