//! Whether machines have what is needed.

use crate::{Device, Host, Lacking, Topology};

impl Topology {
    /// True if another topology has what this one says: for each host here one there, with at least as many
    /// cores and processors, as much memory, and devices for those here. A host or device with a name needs
    /// that one; one without, any. Each there is used once.
    ///
    /// # Errors
    /// [`Lacking`]: a host for which there is none, and what the hosts lack that come nearest.
    ///
    /// # Examples
    /// ```
    /// use flash_topology::Topology;
    /// let needed = r#"{"hosts": [{"nodes": [{"number": 0, "cpus": "", "bytes": 1000000}]}]}"#;
    /// Topology::from_json(needed)?.is_met_by(&Topology::read()).expect("a megabyte of memory");
    /// let gpus = r#"{"hosts": [{"devices": [{"class": "gpu", "spaces": [{"bytes": 1000000000000000}]}]}]}"#;
    /// assert!(Topology::from_json(gpus)?.is_met_by(&Topology::read()).is_err());
    /// # Ok::<(), flash_topology::Error>(())
    /// ```
    pub fn is_met_by(&self, other: &Topology) -> Result<(), Lacking> {
        let lacks: Vec<Vec<Vec<String>>> = self
            .hosts
            .iter()
            .map(|needed| other.hosts.iter().map(|there| needed.lacks(there)).collect())
            .collect();
        let fits = |needed: usize, there: usize| lacks[needed][there].is_empty();
        let Err(unmet) = assign(self.hosts.len(), other.hosts.len(), fits) else { return Ok(()) };
        let nearest = lacks[unmet].iter().min_by_key(|what| what.len());
        let taken = || vec!["each that would do is needed for another one".to_owned()];
        let what = match nearest {
            None => vec!["there are no hosts".to_owned()],
            Some(what) if what.is_empty() => taken(),
            Some(what) => what.clone(),
        };
        let name = &self.hosts[unmet].name;
        let host =
            if name.is_empty() { format!("number {unmet} of those needed") } else { format!("`{name}`") };
        Err(Lacking { host, what })
    }
}

impl Host {
    /// What another host lacks that is needed here.
    fn lacks(&self, there: &Host) -> Vec<String> {
        let mut lacks = Vec::new();
        if !self.name.is_empty() && self.name != there.name {
            lacks.push(format!("its name is `{}`", there.name));
        }
        let mut count = |what: &str, needed: u64, found: u64| {
            if found < needed {
                lacks.push(format!("expected {needed} {what}, found {found} on `{}`", there.name));
            }
        };
        count("cores", self.cores().count() as u64, there.cores().count() as u64);
        count("processors", self.cpus().len() as u64, there.cpus().len() as u64);
        count("bytes of memory", self.memory(), there.memory());
        let fits = |needed: usize, found: usize| self.devices[needed].fits(&there.devices[found]);
        if let Err(unmet) = assign(self.devices.len(), there.devices.len(), fits) {
            lacks.push(format!("no device for {} on `{}`", self.devices[unmet].describe(), there.name));
        }
        lacks
    }
}

impl Device {
    fn fits(&self, there: &Device) -> bool {
        let text = |needed: &str, found: &str| needed.is_empty() || needed == found;
        let space = |needed: usize, found: usize| {
            let (needed, found) = (&self.spaces[needed], &there.spaces[found]);
            needed.kind == found.kind && needed.bytes <= found.bytes
        };
        text(&self.id, &there.id)
            && text(&self.class, &there.class)
            && text(&self.name, &there.name)
            && text(&self.physical_id, &there.physical_id)
            && self.threads <= there.threads
            && assign(self.spaces.len(), there.spaces.len(), space).is_ok()
    }

    fn describe(&self) -> String {
        let texts = [("id", &self.id), ("class", &self.class), ("name", &self.name)];
        let mut words: Vec<String> = texts
            .iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(what, text)| format!("the {what} `{text}`"))
            .collect();
        if self.threads > 0 {
            words.push(format!("{} threads", self.threads));
        }
        words.extend(self.spaces.iter().map(|space| format!("a memory of {} bytes", space.bytes)));
        if words.is_empty() { "any use".to_owned() } else { words.join(", ") }
    }
}

/// Gives each of `needed` things one of `found` that fits, each to one at most, by augmenting paths. `Err`:
/// one for which there is none left.
fn assign(needed: usize, found: usize, fits: impl Fn(usize, usize) -> bool) -> Result<(), usize> {
    fn give(
        one: usize,
        fits: &dyn Fn(usize, usize) -> bool,
        of: &mut [Option<usize>],
        seen: &mut [bool],
    ) -> bool {
        for there in 0..of.len() {
            if !fits(one, there) || std::mem::replace(&mut seen[there], true) {
                continue;
            }
            if of[there].is_none_or(|other| give(other, fits, of, seen)) {
                of[there] = Some(one);
                return true;
            }
        }
        false
    }
    let mut of = vec![None; found];
    (0..needed).try_for_each(|one| match give(one, &fits, &mut of, &mut vec![false; found]) {
        true => Ok(()),
        false => Err(one),
    })
}
