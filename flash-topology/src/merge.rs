//! Several topologies as one, and a part of one.

use crate::{CpuSet, Error, Host, Topology};

impl Topology {
    /// Adds what another topology has: hosts that are not here, and of those that are, further devices and
    /// processes. Two topologies of one machine differ in these when they come from different processes.
    ///
    /// # Errors
    /// [`Error::Differ`]: a host is in both and has other processors there. This one is unchanged.
    ///
    /// # Examples
    /// ```
    /// use flash_topology::Topology;
    /// let mut both = Topology::read();
    /// both.merge(&Topology::read())?;
    /// assert_eq!(both.hosts.len(), 1);
    /// # Ok::<(), flash_topology::Error>(())
    /// ```
    pub fn merge(&mut self, other: &Topology) -> Result<(), Error> {
        let mut merged = self.clone();
        for host in &other.hosts {
            let same = |one: &&mut Host| one.name == host.name && one.boot == host.boot;
            match merged.hosts.iter_mut().find(same) {
                Some(here) => here.merge(host)?,
                None => merged.hosts.push(host.clone()),
            }
        }
        *self = merged;
        Ok(())
    }

    /// The part of each host that these processors are, with the caches and the memory that are near to them.
    /// Devices and processes stay.
    ///
    /// # Examples
    /// ```
    /// use flash_topology::Topology;
    /// let part = Topology::read().subset(&"0".parse()?);
    /// assert_eq!(part.hosts[0].cpus().to_string(), "0");
    /// # Ok::<(), flash_topology::Error>(())
    /// ```
    pub fn subset(&self, cpus: &CpuSet) -> Topology {
        let mut part = self.clone();
        part.hosts.iter_mut().for_each(|host| host.keep(cpus));
        part
    }
}

impl Host {
    fn keep(&mut self, cpus: &CpuSet) {
        let keep = |set: &mut CpuSet| {
            *set = set.intersection(cpus);
            !set.is_empty()
        };
        for socket in &mut self.sockets {
            socket.cores.retain_mut(|core| keep(&mut core.cpus));
        }
        self.sockets.retain(|socket| !socket.cores.is_empty());
        self.caches.retain_mut(|cache| keep(&mut cache.cpus));
        self.nodes.retain_mut(|node| keep(&mut node.cpus));
    }

    fn merge(&mut self, other: &Host) -> Result<(), Error> {
        let differ = |part| Err(Error::Differ { host: self.name.clone(), part });
        if self.sockets != other.sockets {
            return differ("processors");
        }
        if self.caches != other.caches {
            return differ("caches");
        }
        for node in &other.nodes {
            match self.nodes.iter_mut().find(|here| here.number == node.number) {
                // Its size may have changed meanwhile.
                Some(here) if here.cpus == node.cpus => here.bytes = here.bytes.max(node.bytes),
                Some(_) => return differ("NUMA nodes"),
                None => self.nodes.push(node.clone()),
            }
        }
        for device in &other.devices {
            if !self.devices.iter().any(|here| here.id == device.id && here.physical_id == device.physical_id)
            {
                self.devices.push(device.clone());
            }
        }
        for process in &other.processes {
            match self.processes.iter_mut().find(|here| here.pid == process.pid) {
                Some(here) => *here = process.clone(),
                None => self.processes.push(process.clone()),
            }
        }
        Ok(())
    }
}
