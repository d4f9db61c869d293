//! `flash topology`: what this machine consists of, and others that are in files.

use crate::Refused;
use crate::list::hide_tests;
use crate::look::look;
use crate::ranks;
use anyhow::Context;
use flash_core::devices::DeviceReport;
use flash_topology::{Described, Device, Process, Topology};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is asked.
pub struct Question {
    pub json: bool,
    /// Where to draw a picture.
    pub svg: Option<PathBuf>,
    /// Topologies to be added.
    pub with: Vec<PathBuf>,
    /// A topology that says what is needed.
    pub needs: Option<PathBuf>,
    pub limit: Duration,
}

/// The answer as text, and whether there is what is needed.
pub fn run(question: &Question) -> anyhow::Result<(String, bool)> {
    let others = question.with.iter().map(|path| Ok((path, read(path)?)));
    let others = others.collect::<anyhow::Result<Vec<_>>>()?;
    // Before other processes are started, which are none of these.
    let transport = ranks::join()?;
    let needed = question.needs.as_deref().map(read).transpose()?;
    let mut topology = Topology::read();
    let mut reports = look(question.limit)?.reports;
    hide_tests(&mut reports);
    let host = &mut topology.hosts[0];
    host.devices =
        reports.iter().flat_map(|report| &report.devices).filter(|d| !d.info.test).map(device).collect();
    if let Some(transport) = transport {
        let me = transport.me();
        host.processes = vec![Process {
            name: format!("rank {}", me.0),
            pid: std::process::id(),
            cpus: flash_net::cpus().into_iter().map(|cpu| cpu as u32).collect(),
        }];
        if me.0 > 0 {
            // As the program's runtime keys name them.
            host.devices.iter_mut().for_each(|device| device.id = format!("RANK:{}/{}", me.0, device.id));
        }
        let Some(others) = ranks::gather(&*transport, &topology.to_json())? else {
            // The first rank says what there is.
            return Ok((String::new(), true));
        };
        for (peer, json) in others {
            let added = Topology::from_json(&json).and_then(|other| topology.merge(&other));
            added.with_context(|| format!("what rank {} has cannot be added", peer.0))?;
        }
    }
    for (path, other) in others {
        topology.merge(&other).with_context(|| format!("{} cannot be added", path.display()))?;
    }
    if let Some(path) = &question.svg {
        std::fs::write(path, topology.svg())
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    if let Some(needed) = needed {
        return Ok(match needed.is_met_by(&topology) {
            Ok(()) => ("all that is needed is there\n".to_owned(), true),
            Err(lacking) => (format!("{lacking}\n"), false),
        });
    }
    Ok((if question.json { topology.to_json() + "\n" } else { topology.to_string() }, true))
}

/// A topology of a file; `-` is standard input.
fn read(path: &Path) -> anyhow::Result<Topology> {
    /// More than any topology takes.
    const MOST: u64 = 64 << 20;
    let read = || {
        let mut json = String::new();
        use std::io::Read;
        match path.as_os_str() == "-" {
            true => std::io::stdin().take(MOST + 1).read_to_string(&mut json)?,
            false => std::fs::File::open(path)?.take(MOST + 1).read_to_string(&mut json)?,
        };
        Ok::<_, std::io::Error>(json)
    };
    let json = read().with_context(|| format!("{} cannot be read", path.display()))?;
    let refused = |why: String| Refused(format!("{} is no topology: {why}", path.display()));
    if json.len() as u64 > MOST {
        return Err(refused("expected at most 64 MiB".to_owned()).into());
    }
    Ok(Topology::from_json(&json).map_err(|error| refused(error.to_string()))?)
}

fn device(report: &DeviceReport) -> Device {
    let info = &report.info;
    Device::new(Described {
        id: report.id.clone(),
        class: info.class.name().to_owned(),
        name: info.name.clone(),
        physical_id: info.physical_id.clone(),
        threads: info.threads,
        works_in_hosts: info.host_memory,
        memory_bytes: info.memory_bytes,
        spaces: report
            .spaces
            .iter()
            .map(|space| (space.kind.clone(), space.bytes, space.numa_node))
            .collect(),
    })
}
