//! The extension `agent` of a backend: a process that serves its devices to another one.

use super::{Error, Str};

/// Name of the extension; its version is 1.
pub const AGENT_EXTENSION: &str = "agent";

/// The extension `agent`, version 1, of a backend. Since minor version 9.
#[repr(C)]
pub struct Agent {
    /// Size of this struct in the backend.
    pub struct_size: u32,
    /// 1 if this process was started as an agent: it is to serve its devices, and not to go on with its
    /// program.
    pub is_agent: u32,
    /// Serves the devices of the host's registry until the process that uses them has gone; then this process
    /// is to end. The host calls it once, from a thread that holds nothing, before the program gets its first
    /// runtime.
    pub serve: Option<unsafe extern "C" fn() -> *mut Error>,
    /// Asks for an agent with the devices of one other backend, as `KEY@AGENT`: `agent` is one of this
    /// process's own, another name is that of one which listens. The text lives for the call. The agent is
    /// there, or the reason why it is not, when the backend's devices are listed next: `resolve` is then
    /// given
    /// `KEY@AGENT` or `KEY:WHICH@AGENT`. NULL: there are none such.
    pub isolate: Option<unsafe extern "C" fn(key: Str)>,
}
