//! The agents of this user that listen (`flash serve`), and what they say of themselves.

use crate::AgentState;
use serde::{Deserialize, Serialize};

/// What is said of a service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Served {
    /// The name that it listens under.
    pub name: String,
    /// The key of its backend: programs use it as `KEY@NAME`.
    pub key: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it began.
    pub uptime_s: f64,
    /// The programs that use it.
    pub clients: Vec<Client>,
}

/// A program that uses a service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Client {
    /// The program's process.
    pub pid: u32,
    /// The process that serves it.
    pub agent: u32,
    /// Seconds since it is served.
    pub uptime_s: f64,
    /// What that process has done, and has.
    #[serde(flatten)]
    pub state: AgentState,
}

/// Those that listen, by their names. One that ends meanwhile is none.
///
/// # Errors
/// A folder that others may write, or an answer that is of another version.
pub fn services() -> Result<Vec<Served>, String> {
    let names = flash_net::services().map_err(|error| error.to_string())?;
    let states = names.iter().filter_map(|name| Some((name, flash_net::state_of(name).ok()?)));
    let read = |(name, state): (&String, String)| {
        serde_json::from_str(&state).map_err(|error| {
            format!("expected what the agent `{name}` serves, found `{state}` ({error}): is it of another version?")
        })
    };
    states.map(read).collect()
}
