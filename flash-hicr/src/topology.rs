//! Memory spaces and compute resources, and what finds them.

use crate::Error;
use flash_topology::{CpuSet, Host, SpaceKind, Topology};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Memory that slots are allocated in. Stateless: it can be copied and sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Space {
    /// The device that it belongs to: a runtime key, or `host` and a NUMA node's number.
    pub device: String,
    /// Its number among the device's.
    pub number: u32,
    /// The physical size in bytes; 0: unknown.
    pub bytes: u64,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}/{}`", self.device, self.number)
    }
}

/// What computes: a processor of the host, or a device. Stateless.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Resource {
    /// A processor, by the system's number.
    Cpu(u32),
    /// A device, by its runtime key.
    Device(String),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Cpu(number) => write!(f, "cpu {number}"),
            Resource::Device(id) => f.write_str(id),
        }
    }
}

/// Finds what an instance has.
pub trait TopologyManager: Send + Sync {
    /// What this instance may use: its part of the machine. Read anew by each call.
    ///
    /// # Errors
    /// If the devices cannot be listed.
    fn topology(&self) -> Result<Topology, Error>;
}

/// The processors and the memory of the host, as far as they are this instance's.
pub(crate) struct HostTopology {
    pub(crate) name: String,
    pub(crate) cpus: Box<dyn Fn() -> CpuSet + Send + Sync>,
}

impl TopologyManager for HostTopology {
    fn topology(&self) -> Result<Topology, Error> {
        let cpus = (self.cpus)();
        let mut topology = Topology::read().subset(&cpus);
        for process in topology.hosts.iter_mut().flat_map(|host| &mut host.processes) {
            process.name.clone_from(&self.name);
            process.cpus.clone_from(&cpus);
        }
        Ok(topology)
    }
}

/// The memory spaces of a topology: those of its NUMA nodes and of its devices. A device's that is the host's
/// memory is not one of its own.
pub fn spaces(topology: &Topology) -> Vec<Space> {
    let mut spaces = Vec::new();
    for host in &topology.hosts {
        spaces.extend(node_spaces(host));
        for device in &host.devices {
            let own = device.spaces.iter().filter(|space| space.kind != SpaceKind::Host);
            spaces.extend((0..).zip(own).map(|(number, space)| Space {
                device: device.id.clone(),
                number,
                bytes: space.bytes,
            }));
        }
    }
    spaces
}

fn node_spaces(host: &Host) -> impl Iterator<Item = Space> {
    host.nodes.iter().map(|node| Space { device: "host".to_owned(), number: node.number, bytes: node.bytes })
}

/// The compute resources of a topology: its devices, or its processors where it has no devices.
pub fn resources(topology: &Topology) -> Vec<Resource> {
    let of = |host: &Host| -> Vec<Resource> {
        match host.devices.is_empty() {
            true => host.cpus().iter().map(Resource::Cpu).collect(),
            false => host.devices.iter().map(|device| Resource::Device(device.id.clone())).collect(),
        }
    };
    topology.hosts.iter().flat_map(of).collect()
}
