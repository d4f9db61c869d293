//! What must hold of a graph before it starts, and its components.

use crate::component::Component;
use crate::error::GraphError;
use crate::graph::{Edge, Kind, Plan};
use crate::port::Origin;
use crate::word::{Count, MOST_REPLICAS};
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::sync::atomic::AtomicU32;

/// What follows from a plan.
pub(crate) struct Checked {
    pub(crate) components: Vec<Component>,
    /// The component of each node.
    pub(crate) component_of: Vec<u32>,
    /// The place of each node's priority, 0 the highest.
    pub(crate) level_of: Vec<u32>,
    pub(crate) levels: usize,
}

struct Settings {
    replicas: usize,
    bounded: bool,
    priority: i32,
}

pub(crate) fn check(plan: &Plan) -> Result<Checked, GraphError> {
    let mut faults = plan.faults.clone();
    let settings: Vec<Settings> = plan
        .nodes
        .iter()
        .map(|node| {
            let mut found = Settings { replicas: 1, bounded: true, priority: 0 };
            node.cell.config(&mut |config| {
                found.replicas = config.replicas;
                found.bounded = config.capacity != usize::MAX;
                found.priority = config.priority;
                for used in config.pools.iter().filter(|used| used.pool.capacity() < used.count) {
                    faults.push(format!(
                        "node `{}` takes {} of pool `{}` for each datum, which has {}: expected at least as many",
                        node.name,
                        used.count,
                        used.pool.name(),
                        used.pool.capacity()
                    ));
                }
            });
            found
        })
        .collect();
    edges(plan, &mut faults);
    for (node, found) in plan.nodes.iter().zip(&settings) {
        let most = if node.kind == Kind::Source { 1 } else { MOST_REPLICAS };
        if !(1..=most).contains(&found.replicas) {
            let count = found.replicas;
            faults.push(format!("node `{}` has {count} replicas: expected 1 to {most}", node.name));
        }
    }

    let mut digraph = DiGraph::<(), ()>::with_capacity(plan.nodes.len(), plan.edges.len());
    for _ in &plan.nodes {
        digraph.add_node(());
    }
    let between = |edge: &Edge| match edge.from {
        Origin::Output(from, _) => Some((from, edge.to)),
        Origin::Input(_) => None,
    };
    digraph.extend_with_edges(plan.edges.iter().filter_map(between));
    // It lists what is reached before what reaches it.
    let mut sets = tarjan_scc(&digraph);
    sets.reverse();
    sets.iter_mut().for_each(|set| set.sort());
    let mut component_of = vec![0; plan.nodes.len()];
    for (index, set) in sets.iter().enumerate() {
        set.iter().for_each(|node| component_of[node.index()] = index as u32);
    }
    let cyclic = |set: &[NodeIndex]| set.len() > 1 || digraph.contains_edge(set[0], set[0]);
    unreached(plan, &digraph, &mut faults);
    for set in sets.iter().filter(|set| cyclic(set)) {
        cycle(plan, &settings, &component_of, set, &mut faults);
    }
    if !faults.is_empty() {
        return Err(GraphError::Refused { faults });
    }

    let mut components: Vec<Component> = sets
        .iter()
        .map(|set| Component {
            count: Count::default(),
            nodes: set.iter().map(|node| node.index() as u32).collect(),
            cyclic: cyclic(set),
            feeds: AtomicU32::new(0),
            downstream: Box::default(),
            finished: AtomicU32::new(0),
        })
        .collect();
    let mut downstream = vec![Vec::new(); components.len()];
    for edge in &plan.edges {
        let to = component_of[edge.to as usize];
        if let Origin::Output(from, _) = edge.from {
            let from = component_of[from as usize];
            if from == to {
                continue;
            }
            downstream[from as usize].push(to);
        }
        *components[to as usize].feeds.get_mut() += 1;
    }
    components.iter_mut().zip(downstream).for_each(|(component, ends)| component.downstream = ends.into());
    let mut priorities: Vec<i32> = settings.iter().map(|found| found.priority).collect();
    priorities.sort_unstable_by(|a, b| b.cmp(a));
    priorities.dedup();
    let level = |found: &Settings| {
        priorities.iter().position(|priority| *priority == found.priority).expect("of them") as u32
    };
    let level_of = settings.iter().map(level).collect();
    Ok(Checked { components, component_of, level_of, levels: priorities.len() })
}

/// Outputs and inputs without an edge, or with several that take the datum itself.
fn edges(plan: &Plan, faults: &mut Vec<String>) {
    let mut sorted: Vec<&Edge> = plan.edges.iter().collect();
    sorted.sort_by_key(|edge| edge.from);
    let mut look = |origin: Origin, what: &dyn Fn() -> String| {
        let first = sorted.partition_point(|edge| edge.from < origin);
        let from = || sorted[first..].iter().take_while(|edge| edge.from == origin);
        let owners = from().filter(|edge| !edge.copies).count();
        if from().next().is_none() {
            if !plan.ignored.contains(&origin) {
                faults.push(format!("{} leads nowhere: expected an edge, or `ignore`", what()));
            }
        } else if owners > 1 {
            let datum = from().next().map_or("", |edge| edge.datum);
            faults.push(format!(
                "{} has {owners} edges that each take the datum (`{datum}`): make all but one by \
                 `edge_of_copies`",
                what()
            ));
        }
    };
    for (node, planned) in plan.nodes.iter().enumerate() {
        for (port, name) in planned.ports.iter().enumerate() {
            look(Origin::Output(node as u32, port), &|| {
                format!("output `{name}` of node `{}`", planned.name)
            });
        }
    }
    for (input, (name, _)) in plan.inputs.iter().enumerate() {
        look(Origin::Input(input as u32), &|| format!("input `{name}`"));
    }
}

/// Nodes that no datum reaches.
fn unreached(plan: &Plan, digraph: &DiGraph<(), ()>, faults: &mut Vec<String>) {
    let mut reached: Vec<bool> = plan.nodes.iter().map(|node| node.kind == Kind::Source).collect();
    for edge in plan.edges.iter().filter(|edge| matches!(edge.from, Origin::Input(_))) {
        reached[edge.to as usize] = true;
    }
    let mut open: Vec<usize> = (0..reached.len()).filter(|&node| reached[node]).collect();
    while let Some(node) = open.pop() {
        for next in digraph.neighbors(NodeIndex::new(node)) {
            if !std::mem::replace(&mut reached[next.index()], true) {
                open.push(next.index());
            }
        }
    }
    for (node, _) in plan.nodes.iter().zip(reached).filter(|(_, reached)| !reached) {
        let name = &node.name;
        faults.push(match node.kind {
            Kind::Exit => format!(
                "output `{name}` of the graph gets nothing: no edge leads to it from an input or a source"
            ),
            _ => format!("node `{name}` gets nothing: no edge leads to it from an input or a source"),
        });
    }
}

/// A cycle that nothing leaves, or whose inboxes are all bounded.
fn cycle(
    plan: &Plan,
    settings: &[Settings],
    component_of: &[u32],
    set: &[NodeIndex],
    faults: &mut Vec<String>,
) {
    let component = component_of[set[0].index()];
    let names: Vec<String> = set.iter().map(|node| format!("`{}`", plan.nodes[node.index()].name)).collect();
    let leaves = plan.edges.iter().any(|edge| {
        matches!(edge.from, Origin::Output(from, _) if component_of[from as usize] == component)
            && component_of[edge.to as usize] != component
    });
    if !leaves && set.iter().all(|node| !plan.nodes[node.index()].ports.is_empty()) {
        faults.push(format!(
            "no edge leaves the cycle of {}: expected one, or a node without outputs",
            names.join(", ")
        ));
    }
    // What remains without the unbounded inboxes must have no cycle.
    let mut bounded = DiGraph::<u32, ()>::new();
    let mut place = vec![None; plan.nodes.len()];
    for node in set {
        place[node.index()] = Some(bounded.add_node(node.index() as u32));
    }
    for edge in &plan.edges {
        if let Origin::Output(from, _) = edge.from
            && let (Some(from), Some(to)) = (place[from as usize], place[edge.to as usize])
            && settings[edge.to as usize].bounded
        {
            bounded.add_edge(from, to, ());
        }
    }
    let all_bounded = |set: &Vec<NodeIndex>| set.len() > 1 || bounded.contains_edge(set[0], set[0]);
    for set in tarjan_scc(&bounded).iter().filter(|set| all_bounded(set)) {
        let mut nodes: Vec<u32> = set.iter().map(|&node| bounded[node]).collect();
        nodes.sort_unstable();
        let names: Vec<String> =
            nodes.iter().map(|&node| format!("`{}`", plan.nodes[node as usize].name)).collect();
        faults.push(format!(
            "all inboxes in the cycle of {} are bounded, so it may fill and stop: make one `.unbounded()`",
            names.join(", ")
        ));
    }
}
