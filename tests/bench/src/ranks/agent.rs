//! A launch on the processors of another process, beside the same in this process. Two processes of this
//! program make a world, each with a processor of its own where there are two.

use super::meter::world;
use super::solve;
use crate::dispatch::per_call;
use crate::kernels::Grind;
use crate::stats::{REPEATS, Row, pair, try_pair};
use anyhow::{Context, Result, ensure};
use flash::{FlashMemory, RuntimeObj, get_runtime};
use std::process::Stdio;
use std::time::Duration;

/// The name of the part that each process of the world runs.
pub const CHILD: &str = "ranks.agent";

/// Launches of a turn.
pub const LAUNCHES: usize = 2000;
/// Launches of a chain.
pub const CHAIN: usize = 1000;
/// Elements of the array that moves: 1 MiB.
const ELEMENTS: usize = 1 << 17;

/// All rows, from a world of two.
pub fn rows() -> Result<Vec<Row>> {
    let [mut controller, mut agent] = world(CHILD, &[("FLASH_CPU_THREADS", "1")])?;
    let mut agent = agent.stdout(Stdio::null()).spawn().context("the agent does not start")?;
    let output = controller.stderr(Stdio::inherit()).output();
    let ended = agent.wait();
    let output = output.context("the controller does not start")?;
    ensure!(output.status.success(), "the controller failed: {}", output.status);
    ensure!(ended?.success(), "the agent failed");
    serde_json::from_slice(&output.stdout).context("the controller's rows")
}

/// One process of the world: the agent serves, and the controller prints the rows.
pub fn measure() -> Result<()> {
    let (local, remote) = (get_runtime("ALL_CPU")?, get_runtime("RANK:1/ALL_CPU")?);
    let both = [&local, &remote];
    let launch = |rt: &RuntimeObj| solve::launch(rt, LAUNCHES);
    let rows = [
        launches(both, "blocking launch of an empty kernel on an agent", launch)?,
        launches(both, "chain of 1,000 on an agent, again and again, per kernel", |rt| solve::chain(rt, 10))?,
        array(&local, &remote, "an array of 1 MiB", FlashMemory::zeroed),
        array(&local, &remote, "a vector of 1 MiB, which is copied", |len| vec![0.0; len].into()),
    ];
    println!("{}", serde_json::to_string(&rows)?);
    Ok(())
}

/// Nanoseconds of a launch on the agent, beside the same in this process.
fn launches(
    [local, remote]: [&RuntimeObj; 2],
    what: &str,
    one: impl Fn(&RuntimeObj) -> Result<f64>,
) -> Result<Row> {
    let name = format!("{what}, against the same in this process");
    try_pair(name, "ns", REPEATS, || one(remote), Some(&mut || one(local)), Duration::ZERO)
}

/// What it takes until a kernel of an agent has read an array that the host has written.
fn array(local: &RuntimeObj, remote: &RuntimeObj, what: &str, make: fn(usize) -> FlashMemory<f64>) -> Row {
    let arrays = || (make(ELEMENTS), FlashMemory::<f64>::zeroed(1));
    let [ours, theirs] = [arrays(), arrays()];
    let one = |rt: &RuntimeObj, (from, to): &(FlashMemory<f64>, FlashMemory<f64>)| {
        per_call(20, || {
            from.write().expect("nothing else uses it")[0] += 1.0;
            rt.submit(Grind::of(0, from, to)).exec([1usize]).expect("a kernel runs");
        }) / 1e3
    };
    pair(
        format!("{what}, that the host has written, to a kernel of an agent, against one in this process"),
        "us",
        REPEATS,
        || one(remote, &ours),
        Some(&mut || one(local, &theirs)),
        Duration::ZERO,
    )
}
