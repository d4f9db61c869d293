//! What machines consist of: sockets, cores and their threads, caches, NUMA nodes, devices with their memory
//! spaces and links, and the processes of a program. As data, as JSON both ways, and as a picture.
//!
//! ```
//! use flash_topology::Topology;
//! let here = Topology::read();
//! let host = &here.hosts[0];
//! assert!(host.cpus().len() >= 1 && host.memory() > 0);
//! assert_eq!(Topology::from_json(&here.to_json())?, here);
//! # Ok::<(), flash_topology::Error>(())
//! ```
//!
//! | for | use |
//! |---|---|
//! | this machine | [`Topology::read`], [`Topology::read_at`] for a copy of its files |
//! | another one | [`Topology::to_json`] there, [`Topology::from_json`] here |
//! | several as one | [`Topology::merge`] |
//! | a part of one | [`Topology::subset`] |
//! | whether there is what a program needs | [`Topology::is_met_by`] |
//! | people | [`Topology`]'s `Display`, [`Topology::svg`] |
//!
//! Everything is read from files of the system (sysfs, procfs) when it is asked for, since sizes of memory
//! and sets of processors change while a machine runs. What a system does not tell is left out.

mod cpu_set;
mod draw;
mod error;
mod merge;
mod needs;
mod read;
mod text;

pub use cpu_set::CpuSet;
pub use error::{Error, Lacking};

use serde::{Deserialize, Serialize};

/// One machine or several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The machines.
    pub hosts: Vec<Host>,
}

/// A machine. Without a name, in a topology that says what is needed: any machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Its name in the network.
    pub name: String,
    /// What tells it from others of its name: the id of its last start.
    pub boot: String,
    /// The model of its processors.
    pub model: String,
    /// Its processors.
    pub sockets: Vec<Socket>,
    /// Its parts of memory that are near to some processors. One, of all, where the system does not tell.
    pub nodes: Vec<NumaNode>,
    /// Caches, the largest level last.
    pub caches: Vec<Cache>,
    /// Accelerators, and processors as devices.
    pub devices: Vec<Device>,
    /// Processes of the program: what each may use.
    pub processes: Vec<Process>,
}

/// A processor of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Socket {
    /// Its number.
    pub number: u32,
    /// Its cores.
    pub cores: Vec<Core>,
}

/// A core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Its number in the socket.
    pub number: u32,
    /// The numbers of its hardware threads, as the system counts them.
    pub cpus: CpuSet,
    /// The highest frequency, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub megahertz: Option<u32>,
}

/// Memory that is near to some processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaNode {
    /// Its number.
    pub number: u32,
    /// The processors.
    pub cpus: CpuSet,
    /// Its size.
    pub bytes: u64,
    /// How far each node is, in the order of their numbers; 10 is the node itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<u32>,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// Data.
    Data,
    /// Instructions.
    Instructions,
    /// Both.
    #[default]
    Both,
}

/// A cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Its level, from 1.
    pub level: u32,
    /// What it holds.
    #[serde(default)]
    pub holds: Holds,
    /// Its size.
    pub bytes: u64,
    /// Bytes of a line; 0: unknown.
    #[serde(default)]
    pub line: u32,
    /// The processors that share it.
    pub cpus: CpuSet,
}

/// An accelerator, or a set of processors as a device. Fields that are empty or 0, in a topology that says
/// what is needed, are met by any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Device {
    /// The runtime key that selects it, such as `OPENCL:0`.
    pub id: String,
    /// `cpu`, `gpu`, `fpga` or another class.
    pub class: String,
    /// Its name for display.
    pub name: String,
    /// What it is in the hardware, as a path that begins with the host.
    pub physical_id: String,
    /// Work items that run at the same time, roughly.
    pub threads: u32,
    /// The number of the NUMA node that it is near to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Its memories.
    pub spaces: Vec<Space>,
    /// What it is connected to.
    pub links: Vec<Link>,
}

/// What a memory space is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpaceKind {
    /// The device's own memory.
    #[default]
    Main,
    /// Memory with a high bandwidth beside another one.
    HighBandwidth,
    /// Memory that keeps its contents without power.
    Persistent,
    /// The host's memory.
    Host,
}

impl SpaceKind {
    /// The kind of this name, as in JSON; one that is unknown is [`SpaceKind::Main`].
    pub fn named(name: &str) -> SpaceKind {
        match name {
            "high-bandwidth" => SpaceKind::HighBandwidth,
            "persistent" => SpaceKind::Persistent,
            "host" => SpaceKind::Host,
            _ => SpaceKind::Main,
        }
    }
}

/// What a program that knows its devices says of one: see [`Device::new`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Described {
    /// As in [`Device`].
    pub id: String,
    /// As in [`Device`].
    pub class: String,
    /// As in [`Device`].
    pub name: String,
    /// As in [`Device`].
    pub physical_id: String,
    /// As in [`Device`].
    pub threads: u32,
    /// It works in the host's memory, which it has no copy of.
    pub works_in_hosts: bool,
    /// Bytes of its memory, if no spaces are listed.
    pub memory_bytes: u64,
    /// Its memories: name of the kind, bytes, and the NUMA node, if that is known.
    pub spaces: Vec<(String, u64, Option<u32>)>,
}

impl Device {
    /// A device by what a program knows of it, with the links that follow from that and from sysfs.
    pub fn new(described: Described) -> Device {
        let Described { id, class, name, physical_id, threads, works_in_hosts, memory_bytes, spaces } =
            described;
        let node = spaces.iter().find_map(|(_, _, node)| *node);
        // The main memory of such a device is the host's.
        let kind = |name: &str| if works_in_hosts { SpaceKind::Host } else { SpaceKind::named(name) };
        let mut all: Vec<Space> =
            spaces.iter().map(|(name, bytes, _)| Space { kind: kind(name), bytes: *bytes }).collect();
        if all.is_empty() {
            all.push(Space { kind: kind("main"), bytes: memory_bytes });
        }
        let to_host = Link { to: "host".to_owned(), kind: "memory".to_owned(), rate: 0.0 };
        let links = if works_in_hosts { vec![to_host] } else { Vec::new() };
        let mut device = Device { id, class, name, physical_id, threads, node, spaces: all, links };
        device.locate();
        device
    }
}

/// A memory of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// What it is.
    #[serde(default)]
    pub kind: SpaceKind,
    /// Its size; 0: unknown.
    pub bytes: u64,
}

/// A connection of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// To what: `host`, or a device's id.
    pub to: String,
    /// `PCIe` or another kind.
    pub kind: String,
    /// The rate in one direction, in bytes a second; 0: unknown.
    #[serde(default)]
    pub rate: f64,
}

/// A process, and what it may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its name in the program, such as `rank 0`.
    pub name: String,
    /// Its number in the system.
    pub pid: u32,
    /// The processors that it may run on.
    pub cpus: CpuSet,
}

/// The most hosts, or parts of a host of one kind, that JSON may have.
const MOST: usize = 8192;

impl Topology {
    /// A topology from the JSON of [`to_json`](Self::to_json), which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Json`] with line and column; [`Error::TooMany`] for more things of a kind than any machine
    /// has.
    pub fn from_json(json: &str) -> Result<Topology, Error> {
        let topology: Topology = serde_json::from_str(json).map_err(Error::Json)?;
        let few =
            |what, count: usize| if count > MOST { Err(Error::TooMany { what, count }) } else { Ok(()) };
        few("hosts", topology.hosts.len())?;
        for host in &topology.hosts {
            few("sockets of a host", host.sockets.len())?;
            few("cores of a host", host.cores().count())?;
            few("NUMA nodes of a host", host.nodes.len())?;
            few("caches of a host", host.caches.len())?;
            few("devices of a host", host.devices.len())?;
            few("processes of a host", host.processes.len())?;
            for device in &host.devices {
                few("memory spaces of a device", device.spaces.len())?;
                few("links of a device", device.links.len())?;
            }
        }
        Ok(topology)
    }

    /// The topology as JSON.
    pub fn to_json(&self) -> String {
        // Only maps with keys other than texts, and numbers that are none, have no JSON; the latter are null.
        serde_json::to_string_pretty(self).unwrap_or_else(|error| panic!("a topology is plain data: {error}"))
    }
}

impl Host {
    /// All its processors.
    pub fn cpus(&self) -> CpuSet {
        self.cores().fold(CpuSet::new(), |all, core| all.union(&core.cpus))
    }

    /// Its cores.
    pub fn cores(&self) -> impl Iterator<Item = &Core> {
        self.sockets.iter().flat_map(|socket| &socket.cores)
    }

    /// Bytes of its memory.
    pub fn memory(&self) -> u64 {
        self.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.bytes))
    }
}
