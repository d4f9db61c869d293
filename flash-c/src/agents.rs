//! Agents that listen, and the programs that use them.

use crate::error::{Failure, call};
use crate::handle::{get, give, kind, place, take};
use crate::status::*;
use crate::text;
use flash::__ranks::{Client, Served, services};
use std::ffi::{CString, c_char};

/// The agents of `flash serve` as they were when the list was made. Any thread may use it, several at once.
pub struct AgentsHandle {
    _opaque: [u8; 0],
}

/// What its handle points to.
pub struct Agents(Vec<Agent>);

kind!(Agents, 6, "list of agents");

struct Agent {
    served: Served,
    name: CString,
    key: CString,
    /// The devices of each client.
    devices: Vec<CString>,
}

/// An agent that listens. Its texts are valid until the list is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AgentReport {
    /// The name that it listens under.
    pub name: *const c_char,
    /// The key of its backend: programs use it as `KEY@NAME`.
    pub key: *const c_char,
    /// Seconds since it began.
    pub uptime_s: f64,
    /// Its process.
    pub pid: u32,
    /// Number of programs that use it.
    pub clients: u32,
}

/// A program that uses an agent. Its text is valid until the list is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ClientReport {
    /// The ids of its devices, with commas between them; empty before it has any.
    pub devices: *const c_char,
    /// Seconds since it is served.
    pub uptime_s: f64,
    /// Launches so far.
    pub launches: u64,
    /// Bytes of the buffers that it has on these devices.
    pub bytes: u64,
    /// The program's process.
    pub pid: u32,
    /// The process that serves it.
    pub agent: u32,
}

impl Agent {
    fn new(served: Served) -> Result<Agent, Failure> {
        let devices = served.clients.iter().map(|client| text::for_c(&client.state.devices.join(",")));
        Ok(Agent {
            name: text::for_c(&served.name)?,
            key: text::for_c(&served.key)?,
            devices: devices.collect::<Result<_, Failure>>()?,
            served,
        })
    }
}

/// The one of an index, or why there is none.
fn of<'a, T>(all: &'a [T], index: usize, what: &str) -> Result<&'a T, Failure> {
    all.get(index).ok_or_else(|| {
        let text = format!("expected the index of one of {} {what}, found {index}", all.len());
        Failure::new(STATUS_RANGE, text)
    })
}

/// Lists the agents of this user that listen, `flash serve` has started them: what `flash agents` shows. The
/// list does not change; a later one says what has become of them. To be freed with `flash_agents_free`.
///
/// Errors: `OTHER` for an agent of another version; `POINTER`.
///
/// # Safety
/// `agents` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_agents_list(agents: *mut *mut AgentsHandle) -> i32 {
    call(|| {
        let all = services().map_err(|text| Failure::new(STATUS_OTHER, text))?;
        let all = all.into_iter().map(Agent::new).collect::<Result<_, Failure>>()?;
        // SAFETY: the caller vouches.
        unsafe { give(Agents(all), agents) }
    })
}

/// The number of agents in a list.
///
/// Errors: `POINTER`.
///
/// # Safety
/// `agents` is a handle; `count` is a place for the number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_agents_count(agents: *const AgentsHandle, count: *mut usize) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe { *place(count, "number of agents")? = get::<Agents, _>(agents)?.0.len() };
        Ok(())
    })
}

/// Agent `index` of a list, from 0, by their names.
///
/// Errors: `RANGE` if there is none of that index; `POINTER`.
///
/// # Safety
/// `agents` is a handle; `report` is a place for the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_agents_agent(
    agents: *const AgentsHandle,
    index: usize,
    report: *mut AgentReport,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (agents, report) = unsafe { (get::<Agents, _>(agents)?, place(report, "report of an agent")?) };
        let Agent { served, name, key, .. } = of(&agents.0, index, "agents")?;
        *report = AgentReport {
            name: name.as_ptr(),
            key: key.as_ptr(),
            uptime_s: served.uptime_s,
            pid: served.pid,
            clients: served.clients.len() as u32,
        };
        Ok(())
    })
}

/// Program `client`, from 0, of those that use agent `index`.
///
/// Errors: `RANGE` if there is none of that index; `POINTER`.
///
/// # Safety
/// `agents` is a handle; `report` is a place for the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_agents_client(
    agents: *const AgentsHandle,
    index: usize,
    client: usize,
    report: *mut ClientReport,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (agents, report) = unsafe { (get::<Agents, _>(agents)?, place(report, "report of a program")?) };
        let agent = of(&agents.0, index, "agents")?;
        let Client { pid, agent: process, uptime_s, state } =
            of::<Client>(&agent.served.clients, client, "programs")?;
        *report = ClientReport {
            devices: of(&agent.devices, client, "programs")?.as_ptr(),
            uptime_s: *uptime_s,
            launches: state.launches,
            bytes: state.bytes,
            pid: *pid,
            agent: *process,
        };
        Ok(())
    })
}

/// Frees a list of agents. NULL is allowed.
///
/// Errors: `POINTER` for what is no list, or freed already.
///
/// # Safety
/// `agents` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_agents_free(agents: *mut AgentsHandle) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        drop(unsafe { take::<Agents, _>(agents)? });
        Ok(())
    })
}
