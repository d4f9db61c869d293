//! A topology as text.

use crate::{Device, Holds, Host, SpaceKind, Topology};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// A size for people: with three digits or so, in a unit of 1024^n bytes.
pub(crate) fn size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    match value {
        value if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0} {unit}"),
        value => format!("{value:.1} {unit}"),
    }
}

/// Caches of one kind, together.
pub(crate) fn caches(host: &Host) -> Vec<String> {
    let mut kinds = BTreeMap::<_, usize>::new();
    for cache in &host.caches {
        *kinds.entry((cache.level, cache.holds, cache.bytes)).or_default() += 1;
    }
    let one = |((level, holds, bytes), count): ((u32, Holds, u64), usize)| {
        let kind = match holds {
            Holds::Data => "d",
            Holds::Instructions => "i",
            Holds::Both => "",
        };
        format!("{count} x L{level}{kind} {}", size(bytes))
    };
    kinds.into_iter().map(one).collect()
}

/// What a device is, in lines.
pub(crate) fn device(device: &Device) -> Vec<String> {
    let mut lines = vec![format!("{}  {} ({})", device.id, device.name, device.class)];
    for space in &device.spaces {
        let kind = match space.kind {
            SpaceKind::Main => "memory",
            SpaceKind::HighBandwidth => "high-bandwidth memory",
            SpaceKind::Persistent => "persistent memory",
            SpaceKind::Host => "the host's memory",
        };
        lines.push(match space.bytes {
            0 => kind.to_owned(),
            bytes => format!("{kind}, {}", size(bytes)),
        });
    }
    if let Some(node) = device.node {
        lines.push(format!("near to NUMA node {node}"));
    }
    for link in &device.links {
        let rate = if link.rate > 0.0 { format!(", {:.1} GB/s", link.rate / 1e9) } else { String::new() };
        lines.push(format!("{} to {}{rate}", link.kind, link.to));
    }
    lines
}

impl Display for Topology {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, host) in self.hosts.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{host}")?;
        }
        Ok(())
    }
}

impl Display for Host {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "any host" } else { &self.name };
        writeln!(f, "{name}  {}", self.model)?;
        for socket in &self.sockets {
            let (cores, threads) =
                (socket.cores.len(), socket.cores.iter().map(|core| core.cpus.len()).sum::<usize>());
            let fastest = socket.cores.iter().filter_map(|core| core.megahertz).max();
            let fastest = fastest.map_or_else(String::new, |most| format!(", up to {most} MHz"));
            writeln!(f, "  socket {}: {cores} cores, {threads} threads{fastest}", socket.number)?;
        }
        for node in &self.nodes {
            writeln!(f, "  NUMA node {}: {}, cpus {}", node.number, size(node.bytes), node.cpus)?;
        }
        let caches = caches(self);
        if !caches.is_empty() {
            writeln!(f, "  caches: {}", caches.join(", "))?;
        }
        for one in &self.devices {
            let lines = device(one);
            writeln!(f, "  {}", lines[0])?;
            if lines.len() > 1 {
                writeln!(f, "    {}", lines[1..].join("; "))?;
            }
        }
        for process in &self.processes {
            let name = if process.name.is_empty() { "process" } else { &process.name };
            writeln!(f, "  {name}: pid {}, cpus {}", process.pid, process.cpus)?;
        }
        Ok(())
    }
}
