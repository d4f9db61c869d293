//! A launch on the processors of another process, beside the same in this process. Two processes of this
//! program make a world, each with a processor of its own where there are two.

use crate::dispatch::{memories, per_call};
use crate::kernels::{Empty, Grind};
use crate::stats::{REPEATS, Row, pair};
use anyhow::{Context, Result, ensure};
use flash::{FlashMemory, RuntimeObj, get_runtime};
use flash_net::{Member, Peer, World};
use std::process::{Command, Stdio};
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
    let cpus = flash_net::cpus();
    let member = |rank: usize| Member {
        name: format!("rank {rank}"),
        cpus: cpus.get(rank % cpus.len().max(1)).copied().into_iter().collect(),
    };
    let world = World::create(&[member(0), member(1)])?;
    let process = |rank: u32| -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--child", CHILD]).env("FLASH_CPU_THREADS", "1");
        world.inherit(&mut command, Peer(rank))?;
        Ok(command)
    };
    let mut agent = process(1)?.stdout(Stdio::null()).spawn().context("the agent does not start")?;
    let output = process(0)?.stderr(Stdio::inherit()).output();
    let ended = agent.wait();
    let output = output.context("the controller does not start")?;
    ensure!(output.status.success(), "the controller failed: {}", output.status);
    ensure!(ended?.success(), "the agent failed");
    serde_json::from_slice(&output.stdout).context("the controller's rows")
}

/// One process of the world: the agent serves, and the controller prints the rows.
pub fn measure() -> Result<()> {
    let (local, remote) = (get_runtime("ALL_CPU")?, get_runtime("RANK:1/ALL_CPU")?);
    let rows = [
        launch(&local, &remote)?,
        chain(&local, &remote)?,
        array(&local, &remote, "an array of 1 MiB", FlashMemory::zeroed),
        array(&local, &remote, "a vector of 1 MiB, which is copied", |len| vec![0.0; len].into()),
    ];
    println!("{}", serde_json::to_string(&rows)?);
    Ok(())
}

fn launch(local: &RuntimeObj, remote: &RuntimeObj) -> Result<Row> {
    let [ours, theirs] = [memories(), memories()];
    let one = |rt: &RuntimeObj, [x, y, z]: &[FlashMemory<f32>; 3]| {
        per_call(LAUNCHES, || {
            rt.submit(Empty::of(1.0, x, y, z)).exec([1usize]).expect("an empty kernel runs")
        })
    };
    Ok(pair(
        "blocking launch of an empty kernel on an agent, against the same in this process",
        "ns",
        REPEATS,
        || one(remote, &ours),
        Some(&mut || one(local, &theirs)),
        Duration::ZERO,
    ))
}

fn chain(local: &RuntimeObj, remote: &RuntimeObj) -> Result<Row> {
    let [ours, theirs] = [memories(), memories()];
    let one = |rt: &RuntimeObj, [x, y, z]: &[FlashMemory<f32>; 3]| {
        let mut chain = rt.pipeline();
        for _ in 0..CHAIN {
            chain = chain.submit(Empty::of(1.0, x, y, z)).defer([1usize]);
        }
        per_call(1, || chain.exec().expect("a chain runs")) / CHAIN as f64
    };
    Ok(pair(
        "chain of 1,000 on an agent, per kernel, against the same in this process",
        "ns",
        REPEATS,
        || one(remote, &ours),
        Some(&mut || one(local, &theirs)),
        Duration::ZERO,
    ))
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
