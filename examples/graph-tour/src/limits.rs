//! Bounded memory, and graphs that end before their time.

use anyhow::{Result, bail, ensure};
use flash_examples::expect;
use flash_graph::{Cx, Graph, GraphError, Out, Pool, Pooled};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// A source of 10,000 data, and four buffers for them. What has no buffer is not made: the source waits
/// without a thread, and memory stays bounded however slow the end is.
pub fn pool() -> Result<String> {
    const COUNT: u64 = 10_000;
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let buffers = Pool::new("buffers", 4, move || {
        count.fetch_add(1, Relaxed);
        vec![0u64; 1024]
    });

    let g = Graph::new("pool");
    let sums = g.output::<u64>("sums").inbox(8);
    let numbers = g.source("numbers", 0..COUNT);
    let pool = buffers.clone();
    let fill = g.each("fill", move |x: u64, out: &mut Out<Pooled<Vec<u64>>>, cx: &mut Cx<'_>| {
        let mut buffer = pool.take(cx);
        buffer.fill(x);
        out.emit(buffer);
        Ok(())
    });
    let fill = fill.takes(&buffers, 1).inbox(2);
    // The buffer goes back to the pool when it is dropped.
    let sum = g.map("sum", |buffer: Pooled<Vec<u64>>| buffer.iter().sum::<u64>());
    g.edge(&numbers.out, &fill);
    g.edge(&fill.out, &sum);
    g.edge(&sum.out, &sums);
    let run = g.start()?;
    let total: u64 = run.results(&sums).sum();
    run.wait()?;
    expect(total, 1024 * COUNT * (COUNT - 1) / 2)?;
    let made = made.load(Relaxed);
    ensure!(made <= 4, "expected at most 4 buffers, found {made}");
    Ok(format!("{COUNT} data of 8 KiB through {made} buffers"))
}

/// A node that runs for long asks whether it runs in vain.
pub fn cancel() -> Result<String> {
    let limit = Duration::from_millis(20);
    for is_limited in [false, true] {
        let g = Graph::new("cancel");
        let (jobs, ends) = (g.input::<u32>("jobs"), g.output::<u32>("ends"));
        let (begins, has_begun) = mpsc::channel();
        let search = g.each("search", move |job: u32, out: &mut Out<u32>, cx: &mut Cx<'_>| {
            begins.send(()).ok();
            while !cx.cancelled() {
                thread::yield_now();
            }
            out.emit(job);
            Ok(())
        });
        let search = search.dedicated();
        g.edge(&jobs, &search);
        g.edge(&search.out, &ends);
        if is_limited {
            g.time_limit(limit);
        }
        let run = g.start()?;
        run.push_all(&jobs, 0..100)?;
        has_begun.recv()?;
        if !is_limited {
            run.cancel();
        }
        let expected = if is_limited { GraphError::TimeLimit(limit) } else { GraphError::Cancelled };
        // Nothing comes out of it any more, not even what a node emits then.
        expect(run.results(&ends).count(), 0)?;
        expect(run.wait(), Err(expected))?;
    }
    Ok(format!("cancelled by the program, and after {limit:?}"))
}

/// An error or a panic ends the graph: no node is called again, what is queued is dropped, and `wait` says
/// which node it was.
pub fn error() -> Result<String> {
    let run = |panics: bool| -> Result<GraphError> {
        let g = Graph::new("error");
        let (texts, numbers) = (g.input::<&'static str>("texts"), g.output::<u32>("numbers"));
        let parse = g.scope("input", |g| {
            g.try_map("parse", move |text: &'static str| {
                assert!(!panics || text != "three", "not {text}");
                Ok(text.parse::<u32>()?)
            })
        });
        g.edge(&texts, &parse);
        g.edge(&parse.out, &numbers);
        let run = g.start()?;
        // It may end while data are pushed, or not.
        let _ = run.push_all(&texts, ["1", "2", "three", "4"]);
        match run.wait() {
            Ok(()) => bail!("`three` is no number"),
            Err(error) => Ok(error),
        }
    };
    expect(
        run(false)?.to_string(),
        "node `input/parse` (replica 0) failed: invalid digit found in string".into(),
    )?;
    let text = run(true)?.to_string();
    expect(text.as_str(), "node `input/parse` (replica 0) panicked: not three")?;
    Ok(text)
}

/// The graph waits for partners that nothing can send any more, and their buffers are all taken. That is told
/// within a second.
pub fn stuck() -> Result<String> {
    let buffers = Pool::new("buffers", 2, || ());
    let g = Graph::new("stuck");
    let (questions, answers) = (g.input::<u32>("questions"), g.input::<u32>("answers"));
    let pairs = g.output::<u32>("pairs");
    let pool = buffers.clone();
    let hold = g.each("hold", move |x: u32, out: &mut Out<(u32, Pooled<()>)>, cx: &mut Cx<'_>| {
        out.emit((x, pool.take(cx)));
        Ok(())
    });
    let hold = hold.takes(&buffers, 1);
    let pair = g.join("pair", (&hold.out, &answers), |question| question.0, |answer| *answer);
    let bare = g.map("bare", |(question, _): ((u32, Pooled<()>), u32)| question.0);
    g.edge(&questions, &hold);
    g.edge(&pair.out, &bare);
    g.edge(&bare.out, &pairs);
    let run = g.start()?;
    run.push_all(&questions, 0..3)?;
    run.push_all(&answers, [2])?;
    let Err(GraphError::Stuck { waits }) = run.wait() else { bail!("the graph went on") };
    let said = waits.iter().find(|wait| wait.contains("`hold`")).cloned().unwrap_or_default();
    expect(said.as_str(), "`hold` has 1 data and waits for 1 of pool `buffers`, which has 0 of 2 free")?;
    Ok(said)
}
