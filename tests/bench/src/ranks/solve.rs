//! A process that launches on a runtime: empty kernels, steps of the heat equation, steps of gravity.

use super::agent::CHAIN;
use super::meter::serve;
use crate::dispatch::{memories, per_call};
use crate::kernels::Empty;
use anyhow::{Context, Result, bail};
use flash::{RuntimeObj, get_runtime};

/// The part of a process.
pub const CHILD: &str = "ranks.solve";
/// The variable that names the runtime's key.
pub const KEY: &str = "FLASH_TEST_KEY";

/// A process: the agent of another one, or one that answers.
pub fn measure() -> Result<()> {
    let rt = get_runtime(&std::env::var(KEY).with_context(|| format!("expected a key in {KEY}"))?)?;
    serve(|what, count| match what {
        "launch" => launch(&rt, count),
        "chain" => chain(&rt, count),
        _ => bail!("there is no measurement `{what}`"),
    })
}

/// Nanoseconds of a blocking launch of the empty kernel.
pub fn launch(rt: &RuntimeObj, count: usize) -> Result<f64> {
    let [x, y, z] = &memories();
    let one = || rt.submit(Empty::of(1.0, x, y, z)).exec([1usize]);
    one()?;
    Ok(per_call(count, || one().expect("it has run before")))
}

/// Nanoseconds of each kernel of a chain, built and run, of this many chains.
pub fn chain(rt: &RuntimeObj, count: usize) -> Result<f64> {
    let [x, y, z] = &memories();
    let one = || {
        let mut chain = rt.pipeline();
        for _ in 0..CHAIN {
            chain = chain.submit(Empty::of(1.0, x, y, z)).defer([1usize]);
        }
        chain.exec()
    };
    one()?;
    Ok(per_call(count, || one().expect("it has run before")) / CHAIN as f64)
}
