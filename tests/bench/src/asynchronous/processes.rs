//! Rows that are measured in processes of their own.

use super::{empty, thread::Thread};
use crate::child;
use crate::dispatch::{memories, parallel, per_call};
use crate::kernels::{Empty, Nothing};
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::{Context, Result, ensure};
use flash::{FlashMemory, get_runtime};
use flash_core::descriptor::Devices;
use flash_core::runtime::HostTask;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Launches of a chain.
const CHAIN: usize = 1000;
/// The number of host tasks that are outstanding at the same time, and the number that is tried before.
const TASKS: usize = 10_000;
const FEW_TASKS: usize = 200;
/// Seconds in which nothing is done.
const IDLE: usize = 10;

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let two = [("FLASH_CPU_DEVICES", "2"), ("FLASH_CPU_THREADS", "2")];
    let peer = "against two threads with channels";
    rows.push(child::pair_row(
        &format!("chain of 1,000, back and forth between two CPU devices, per launch, {peer}"),
        "ns",
        "async chain",
        &two,
    )?);
    rows.push(child::pair_row(
        &format!("chain of 1,000, back and forth between two CPU devices with memories of their own, per launch, {peer}"),
        "ns",
        "async chain",
        &[two[0], two[1], ("FLASH_CPU_COPY", "1")],
    )?);
    let few = child::list(&format!("async tasks {FEW_TASKS}"), &[])?;
    let threads = few[0].max;
    rows.extend(few);
    // A thread for each of them might be more than the machine has.
    if threads < FEW_TASKS as f64 / 10.0 {
        rows.extend(child::list(&format!("async tasks {TASKS}"), &[])?);
    } else {
        eprintln!("{FEW_TASKS} outstanding host tasks took {threads} threads: {TASKS} are not tried");
    }
    rows.push(child::pair_row("CPU time of an idle second after work", "ms", "async idle", &[])?);
    Ok(rows)
}

/// Measures the row of a child. False if it is not one of these.
pub fn measure(what: &str) -> Result<bool> {
    let words: Vec<&str> = what.split(' ').collect();
    let text = match words[..] {
        ["async", "chain"] => serde_json::to_string(&chain()?)?,
        ["async", "tasks", count] => serde_json::to_string(&tasks(count.parse()?)?)?,
        ["async", "idle"] => serde_json::to_string(&idle()?)?,
        _ => return super::events::measure(what),
    };
    println!("{text}");
    Ok(true)
}

/// Launches that follow each other on two devices in turns.
fn chain() -> Result<Row> {
    let rt = get_runtime("ALL_CPU")?;
    ensure!(rt.devices().len() == 2, "expected two devices, found {}", rt.devices().len());
    let [x, y, z] = &memories();
    let mut chain = rt.pipeline();
    for launch in 0..CHAIN {
        let device = Devices::key(["ALL_CPU:0", "ALL_CPU:1"][launch % 2]);
        chain = chain.submit(Empty::of(1.0, x, y, z)).options(device).defer([1usize]);
    }
    let threads = [Thread::new(), Thread::new()];
    let ours = || per_call(2, || chain.exec().expect("a chain runs")) / CHAIN as f64;
    let mut peer = || {
        let mut launch = 0;
        per_call(CHAIN, || {
            let thread = &threads[launch % 2];
            thread.run(|| ());
            thread.wait(1);
            launch += 1;
        })
    };
    Ok(pair("", "", REPEATS, ours, Some(&mut peer), PAUSE))
}

/// Host tasks that have begun and are completed later: the number of additional threads, and the time of a
/// task.
fn tasks(count: usize) -> Result<[Row; 2]> {
    let rt = get_runtime("ALL_CPU")?;
    let memories: Vec<FlashMemory<u32>> = (0..count).map(|_| FlashMemory::zeroed(1)).collect();
    empty(&rt, &super::memories()).wait()?;
    let before = threads()?;
    let turn = || {
        let start = Instant::now();
        let (tell, tokens) = mpsc::channel();
        let handles: Vec<_> = memories
            .iter()
            .map(|memory| {
                let tell = tell.clone();
                let task = HostTask::new("later").write(memory.clone());
                let pipeline = rt.pipeline().host(task, move |io| {
                    tell.send(io.later()).expect("it is waited for");
                    Ok(())
                });
                pipeline.exec_async()
            })
            .collect();
        let tokens = (0..count)
            .map(|_| tokens.recv_timeout(Duration::from_secs(60)))
            .collect::<Result<Vec<_>, _>>()
            .context("a host task did not begin within a minute")?;
        let now = threads()?;
        tokens.into_iter().for_each(|token| token.complete(Ok(())));
        handles.iter().try_for_each(|handle| handle.wait())?;
        let each = start.elapsed().as_nanos() as f64 / count as f64;
        anyhow::Ok((now as f64 - before as f64, each))
    };
    turn()?;
    let turns = (0..REPEATS).map(|_| turn()).collect::<Result<Vec<_>>>()?;
    let row = |what: &str, unit: &str, figure: &dyn Fn(&(f64, f64)) -> f64| {
        let turns: Vec<_> = turns.iter().map(|turn| (figure(turn), None)).collect();
        Row::from_turns(format!("{count} outstanding host tasks that complete later, {what}"), unit, &turns)
    };
    Ok([
        row("OS threads more", "count", &|turn| turn.0),
        row("from exec_async to the end of wait, each", "ns", &|turn| turn.1),
    ])
}

/// Number of threads of this process.
fn threads() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task").context("the threads of this process")?.count())
}

/// The CPU time of idle seconds, each after some work.
fn idle() -> Result<Row> {
    let rt = get_runtime("ALL_CPU")?;
    let launch = rt.submit(Nothing::of(0)).options(parallel()).defer([1024usize]);
    let memories: Vec<_> = (0..64).map(|_| memories()).collect();
    let mut turns = Vec::new();
    for _ in 0..IDLE {
        per_call(1000, || launch.exec().expect("it runs"));
        let handles: Vec<_> = memories.iter().map(|memories| empty(&rt, memories)).collect();
        handles.iter().try_for_each(|handle| handle.wait())?;
        let before = cpu_time()?;
        std::thread::sleep(Duration::from_secs(1));
        turns.push(((cpu_time()? - before).as_secs_f64() * 1e3, None));
    }
    Ok(Row::from_turns("", "", &turns))
}

/// CPU time of all threads that this process has had.
fn cpu_time() -> Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a variable of ours, of the type that the function writes.
    let said = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    ensure!(said == 0, "clock_gettime: {}", std::io::Error::last_os_error());
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
