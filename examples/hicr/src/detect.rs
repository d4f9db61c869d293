//! Instances with one root, and the topologies of all.

use crate::{Outcome, expect, of_root, wrong};
use flash_hicr::{Error, Managers, Rpc, resources};
use flash_topology::Topology;
use serde_json::{Value, json};

/// All instances say whether they are the root; exactly one is.
pub fn detect(hicr: &Managers) -> Outcome {
    let instances = hicr.instances.instances()?;
    let me = hicr.instances.current();
    expect("this instance among all", instances[me.number as usize].number, me.number)?;
    let roots = instances.iter().filter(|instance| instance.is_root()).count();
    expect("roots", roots, 1)?;
    let topology = hicr.topology.topology()?;
    let spaces = hicr.memory.spaces()?;
    let resources: Vec<String> = hicr.compute.resources()?.iter().map(|one| one.to_string()).collect();
    if spaces.is_empty() || resources.is_empty() {
        return Err(wrong("what this instance has", format!("{spaces:?} and {resources:?}")));
    }
    let shown = instances.iter().map(|one| json!({ "name": one.name, "cpus": one.cpus.to_string() }));
    let bytes: Vec<Value> =
        spaces.iter().map(|space| json!({ "space": space.to_string(), "bytes": space.bytes })).collect();
    of_root(
        hicr,
        json!({
            "instances": shown.collect::<Vec<_>>(),
            "hosts": topology.hosts.len(),
            "spaces": bytes,
            "resources": resources,
        }),
    )
}

/// The root calls `topology` on each other instance, and unites what it gets.
pub fn topologies(hicr: &Managers) -> Outcome {
    let mut rpc = Rpc::new(hicr, 100)?;
    let mine = hicr.topology.topology()?;
    let json = mine.to_json();
    rpc.register("topology", move |_, _| Ok(json.clone().into_bytes()))?;
    if !hicr.instances.current().is_root() {
        rpc.listen()?;
        return Ok(Value::Null);
    }
    let mut all = mine;
    let mut processors = resources(&all).len();
    let count = hicr.instances.instances()?.len() as u32;
    for instance in 1..count {
        let bytes = rpc.call(instance, "topology", &[])?;
        let text = String::from_utf8(bytes).map_err(|error| wrong("a topology", error.to_string()))?;
        let topology = Topology::from_json(&text)?;
        processors += resources(&topology).len();
        // Instances have parts of one machine, which is not two machines that differ.
        let whole = Topology::read();
        let mut part = topology.clone();
        for host in &mut part.hosts {
            let same = whole.hosts.iter().find(|one| one.name == host.name && one.boot == host.boot);
            let same =
                same.ok_or_else(|| wrong("an instance's host", format!("`{}` is not this one", host.name)))?;
            if !host.cpus().is_subset(&same.cpus()) {
                return Err(wrong("an instance's processors", host.cpus().to_string()));
            }
        }
        all.hosts.extend(part.hosts);
    }
    let pids: Vec<u32> = all.hosts.iter().flat_map(|host| &host.processes).map(|one| one.pid).collect();
    expect("topologies", all.hosts.len(), count as usize)?;
    expect("processes of them", pids.len(), count as usize)?;
    let cpus: Vec<String> = all.hosts.iter().map(|host| host.cpus().to_string()).collect();
    Ok::<Value, Error>(json!({ "instances": count, "processors": processors, "cpus": cpus, "pids": pids }))
}
