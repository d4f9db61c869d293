//! A controller and agents in one process, over a transport that the caller brings: for simulations, and for
//! fuzzers of what the two say to each other. Both live as long as the process.

use crate::agent;
use crate::controller;
pub use crate::controller::RankDevice;
use crate::world;
use flash_backend::{Failure, Unavailable};
use flash_net::{Peer, Transport};
use std::time::Duration;

/// Lets `RANK` be the devices of the agents behind this transport. To be called before the program's first
/// runtime of that key.
pub fn control(transport: Box<dyn Transport>) {
    world::bring(transport);
}

/// A controller beside the program's own.
#[derive(Clone, Copy)]
pub struct Controller(&'static controller::Controller);

impl Controller {
    /// The controller of a world, as its peer 0. A process that is silent for longer than `limit` is lost.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(transport: Box<dyn Transport>, limit: Duration) -> Result<Controller, Unavailable> {
        controller::Controller::on(transport, None, limit).map(Controller)
    }

    /// Asks a process for its devices.
    ///
    /// # Errors
    /// If it does not say what it has.
    pub fn devices(self, of: Peer) -> Result<Vec<RankDevice>, Unavailable> {
        self.0.devices_at(of)
    }
}

/// An agent without a process of its own: it does something when it is polled.
pub struct Agent {
    agent: &'static agent::Agent,
    frames: agent::Frames,
}

impl Agent {
    /// An agent with the devices of a runtime key, such as `ALL_CPU`, for the controller that is peer 0.
    ///
    /// # Errors
    /// Those of the key.
    pub fn new(transport: Box<dyn Transport>, key: &str) -> Result<Agent, Failure> {
        Agent::limited(transport, key, u64::MAX)
    }

    /// The same; launches of more than `most` work items and buffers of more than `most` bytes are refused.
    ///
    /// # Errors
    /// Those of the key.
    pub fn limited(transport: Box<dyn Transport>, key: &str, most: u64) -> Result<Agent, Failure> {
        Ok(Agent { agent: agent::Agent::here(transport, key, most)?, frames: agent::Frames::default() })
    }

    /// Takes the frames that have come, and does what they ask for, or begins it. True if there were any.
    pub fn poll(&mut self) -> bool {
        self.agent.poll(&mut self.frames)
    }

    /// True if all that was begun has ended.
    pub fn is_idle(&self) -> bool {
        self.agent.is_idle()
    }

    /// Frees the kernels and the buffers that the controller has asked for.
    pub fn forget(&mut self) {
        self.agent.forget();
    }
}
