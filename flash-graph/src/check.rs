//! What must hold of a graph before it starts, and its components.

use crate::cell::Cancel;
use crate::component::Component;
use crate::error::GraphError;
use crate::graph::{Edge, Kind, Plan, Planned};
use crate::port::Origin;
use crate::word::{Count, MOST_REPLICAS};
use petgraph::algo::{TarjanScc, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use smallvec::SmallVec;
use std::sync::atomic::AtomicU32;

/// What follows from a plan.
pub(crate) struct Checked {
    pub(crate) components: Vec<Component>,
    /// Of each node.
    pub(crate) settings: Vec<Settings>,
    pub(crate) levels: usize,
    /// What is called if the graph ends before its time.
    pub(crate) cancels: Vec<Cancel>,
}

/// How a node is to run, and where it stands.
pub(crate) struct Settings {
    pub(crate) replicas: usize,
    pub(crate) dedicated: bool,
    pub(crate) component: u32,
    /// The place of its priority, 0 the highest.
    pub(crate) level: u32,
    bounded: bool,
    priority: i32,
}

pub(crate) fn check(plan: &mut Plan) -> Result<Checked, GraphError> {
    let mut faults = std::mem::take(&mut plan.faults);
    let mut cancels = Vec::new();
    let mut settings: Vec<Settings> =
        plan.nodes.iter().map(|node| set(node, &mut cancels, &mut faults)).collect();
    let plan = &*plan;
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
    let mut components = Vec::with_capacity(plan.nodes.len());
    TarjanScc::new().run(&digraph, |set: &[NodeIndex]| {
        let mut nodes: SmallVec<[u32; 2]> = set.iter().map(|node| node.index() as u32).collect();
        nodes.sort_unstable();
        components.push(Component {
            count: Count::default(),
            cyclic: set.len() > 1 || digraph.contains_edge(set[0], set[0]),
            nodes,
            feeds: AtomicU32::new(0),
            downstream: SmallVec::new(),
            finished: AtomicU32::new(0),
        });
    });
    // What is reached was found before what reaches it.
    components.reverse();
    for (component, index) in components.iter().zip(0..) {
        component.nodes.iter().for_each(|&node| settings[node as usize].component = index);
    }
    unreached(plan, &digraph, &mut faults);
    for component in components.iter().filter(|component| component.cyclic) {
        cycle(plan, &settings, &component.nodes, &mut faults);
    }
    if !faults.is_empty() {
        return Err(GraphError::Refused { faults });
    }

    for edge in &plan.edges {
        let to = settings[edge.to as usize].component;
        if let Origin::Output(from, _) = edge.from {
            let from = settings[from as usize].component;
            if from == to {
                continue;
            }
            components[from as usize].downstream.push(to);
        }
        *components[to as usize].feeds.get_mut() += 1;
    }
    let levels = levels(&mut settings);
    Ok(Checked { components, settings, levels, cancels })
}

/// The settings of a node, but for where it stands.
fn set(node: &Planned, cancels: &mut Vec<Cancel>, faults: &mut Vec<String>) -> Settings {
    let (mut replicas, mut dedicated, mut bounded, mut priority) = (1, false, true, 0);
    node.cell.config(&mut |config| {
        (replicas, dedicated, priority) = (config.replicas, config.dedicated, config.priority);
        bounded = config.capacity != usize::MAX;
        cancels.extend(config.cancel.take());
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
    Settings { replicas, dedicated, component: 0, level: 0, bounded, priority }
}

/// Gives each node the place of its priority. Returns the number of priorities.
fn levels(settings: &mut [Settings]) -> usize {
    let mut priorities: SmallVec<[i32; 16]> = settings.iter().map(|found| found.priority).collect();
    priorities.sort_unstable_by(|a, b| b.cmp(a));
    priorities.dedup();
    for found in settings {
        found.level = priorities.partition_point(|&priority| priority > found.priority) as u32;
    }
    priorities.len()
}

/// Outputs and inputs without an edge, or with several that take the datum itself.
fn edges(plan: &Plan, faults: &mut Vec<String>) {
    let mut sorted: SmallVec<[&Edge; 16]> = plan.edges.iter().collect();
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
fn cycle(plan: &Plan, settings: &[Settings], set: &[u32], faults: &mut Vec<String>) {
    let name = |&node: &u32| format!("`{}`", plan.nodes[node as usize].name);
    let component_of = |node: u32| settings[node as usize].component;
    let component = component_of(set[0]);
    let names: Vec<String> = set.iter().map(name).collect();
    let leaves = plan.edges.iter().any(|edge| {
        matches!(edge.from, Origin::Output(from, _) if component_of(from) == component)
            && component_of(edge.to) != component
    });
    if !leaves && set.iter().all(|&node| !plan.nodes[node as usize].ports.is_empty()) {
        faults.push(format!(
            "no edge leaves the cycle of {}: expected one, or a node without outputs",
            names.join(", ")
        ));
    }
    // What remains without the unbounded inboxes must have no cycle.
    let mut bounded = DiGraph::<u32, ()>::new();
    let mut place = vec![None; plan.nodes.len()];
    for &node in set {
        place[node as usize] = Some(bounded.add_node(node));
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
        let names: Vec<String> = nodes.iter().map(name).collect();
        faults.push(format!(
            "all inboxes in the cycle of {} are bounded, so it may fill and stop: make one `.unbounded()`",
            names.join(", ")
        ));
    }
}
