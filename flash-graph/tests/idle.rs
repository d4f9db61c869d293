//! A graph in which nothing happens takes no processor. Alone in its process, whose time is looked at.
#![cfg(target_os = "linux")]

use flash as _; // Its workers.
use flash_graph::{Error, Graph};
use std::thread;
use std::time::Duration;

/// Processor time of this process, in hundredths of a second.
fn ticks() -> Result<u64, Error> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("the name is in parentheses")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

#[test]
fn threads_sleep_while_a_graph_has_nothing_to_do() -> Result<(), Error> {
    let g = Graph::new("idle");
    let (a, c) = (g.input::<u64>("a"), g.output::<u64>("c"));
    let plain = g.map("plain", |x: u64| x).replicas(4);
    let dedicated = g.map("dedicated", |x: u64| x).dedicated().replicas(2);
    g.edge(&a, &plain);
    g.edge(&plain.out, &dedicated);
    g.edge(&dedicated.out, &c);
    let run = g.start()?;
    run.push_all(&a, 0..1000)?;
    assert_eq!(run.results(&c).take(1000).count(), 1000);
    // Workers look for more for a moment.
    thread::sleep(Duration::from_millis(50));
    let before = ticks()?;
    thread::sleep(Duration::from_secs(1));
    let taken = ticks()? - before;
    // One thread that spins takes 100.
    assert!(taken <= 5, "an idle second took {taken} hundredths of a second");
    run.close();
    assert_eq!(run.results(&c).count(), 0);
    run.wait()?;
    Ok(())
}
