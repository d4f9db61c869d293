//! One kernel over many devices: the rows of the partition benchmark.
//!
//! The devices are parts of this machine's CPU, or, with memories of their own or of other speeds, test
//! devices, which the backends read from the environment: every row is measured in processes of their own.

use crate::child::{self, figure};
use crate::cholesky::Matrix;
use crate::dispatch::per_call;
use crate::kernels::{Four, Grind, Nothing, Saxpy, Set, Skip};
use crate::nbody;
use crate::peers::Peers;
use crate::stats::{REPEATS, Row, pair};
use anyhow::{Result, bail};
use flash::{FlashMemory, RuntimeObj, get_runtime};
use flash_core::descriptor::part_by;
use std::hint::black_box;
use std::time::{Duration, Instant};

// The devices of the key `TEST`.
use flash_backend_test as _;

/// Pairs of processes for a row whose sides cannot share one.
const PAIRS: usize = 10;
/// The threads of two devices sleep soon where a row is measured in turns.
const NO_PAUSE: Duration = Duration::ZERO;

/// Arrays of the overlap and of the working set, and elements of each.
const ARRAYS: usize = 32;
const ELEMENTS: usize = 1 << 18;
/// Names the runtime key of a process; by default it is `ALL_CPU`.
const KEY: &str = "FLASH_TEST_KEY";
/// Items of a launch that grinds.
const GRINDERS: usize = 64;

/// All rows.
pub fn rows(_: &Peers) -> Result<Vec<Row>> {
    let two = ("FLASH_CPU_DEVICES", "2");
    let copying = [(KEY, "TEST"), ("FLASH_TEST", "queue=caller checks=no")];
    let copying_two = [(KEY, "TEST"), ("FLASH_TEST", "devices=2 queue=caller checks=no")];
    let (one_thread, two_threads) = (("FLASH_CPU_THREADS", "1"), ("FLASH_CPU_THREADS", "2"));
    let mut rows = Vec::new();
    if std::thread::available_parallelism()?.get() > 1 {
        rows.push(devices_against_threads("2 devices of a thread each", &[two, two_threads], two_threads)?);
        rows.push(devices_against_threads(
            "2 devices of a thread each, with memories of their own",
            &[(KEY, "TEST"), ("FLASH_TEST", "devices=2 queue=caller checks=no"), two_threads],
            two_threads,
        )?);
        rows.push(child::pair_row(
            "nbody, f32, cut over a device and one of half its speed, against the sum of both",
            "GFLOP/s",
            "unbalanced",
            &[(KEY, "TEST"), ("FLASH_TEST", "devices=2 space=0 ns=6000,12000")],
        )?);
        rows.push(child::pair_row(
            "32 x 2 MiB to a device, a kernel on each, overlapped, against the longer of the two",
            "ms",
            "overlap",
            &copying,
        )?);
    } else {
        eprintln!("one CPU: devices beside each other are not measured");
    }
    rows.push(child::pair_row(
        "SAXPY on a device, working set twice the memory budget, against no limit",
        "GB/s",
        "out_of_core",
        &copying,
    )?);
    rows.push(child::pair_row(
        "warm submit+exec, empty kernel, 4 memories current on a device with a memory of its own",
        "ns",
        "copying",
        &copying,
    )?);
    rows.push(coherence(copying, [one_thread])?);
    rows.push(child::pair_row(
        "launch that writes 32 MiB of a new array, in a buffer of the cache, which is cleared, against one into the \
         array's own buffer",
        "ms",
        "cleared",
        &copying,
    )?);
    rows.push(child::pair_row(
        "the difference of the two, against a memset of 32 MiB",
        "ms",
        "clearing",
        &copying,
    )?);
    let four = [("FLASH_CPU_DEVICES", "4"), ("FLASH_CPU_THREADS", "4")];
    rows.push(child::pair_row(
        "10^9 items cut over 4 devices, launched with a span that does nothing",
        "us",
        "cut",
        &four,
    )?);
    rows.push(child::pair_row(
        "planning that anew: launches of sizes that are all new, less launches of one",
        "us",
        "planning",
        &four,
    )?);
    for (name, environment) in [
        ("one device", &[one_thread][..]),
        ("two devices", &[two, two_threads]),
        ("one device with a memory of its own", &copying),
        ("two devices with memories of their own", &copying_two),
    ] {
        rows.push(child::pair_row(
            &format!("Cholesky of 64 x 64 tiles, built and run, over the calls alone, per task, {name}"),
            "ns",
            "cholesky",
            environment,
        )?);
    }
    let ahead = [(KEY, "TEST"), ("FLASH_TEST", "devices=2 space=0 checks=no")];
    let copying_ahead = [(KEY, "TEST"), ("FLASH_TEST", "devices=2 checks=no")];
    for (name, environment) in [
        ("2 devices", &[two, two_threads][..]),
        ("2 devices with memories of their own", &copying_two),
        ("2 devices that work without the host", &ahead),
        ("2 such devices with memories of their own", &copying_ahead),
    ] {
        rows.push(child::pair_row(
            &format!("Cholesky of 8 x 8 tiles again and again, over {name}, against one of them"),
            "us",
            "small",
            environment,
        )?);
    }
    Ok(rows)
}

/// In turns: a process with two devices of one thread each, and one with one device of two threads.
fn devices_against_threads(name: &str, devices: &[(&str, &str)], threads: (&str, &str)) -> Result<Row> {
    let mut turns = Vec::new();
    for turn in 0..PAIRS {
        let ours = || figure("nbody", devices);
        let peer = || figure("nbody", &[threads]);
        turns.push(if turn % 2 == 0 {
            let ours = ours()?;
            (ours, Some(peer()?))
        } else {
            let peer = peer()?;
            (ours()?, Some(peer))
        });
    }
    let name = format!("nbody, f32, n = 16,384, over {name}, against one with 2 threads");
    Ok(Row::from_turns(name, "GFLOP/s", &turns).by("nbody", devices))
}

/// In turns: what 4 current memories cost on a device with a memory of its own, and on one that uses the
/// host's.
fn coherence(own: [(&str, &str); 2], host: [(&str, &str); 1]) -> Result<Row> {
    let turn = |_| Ok((figure("memories", &own)? - figure("memories", &host)?, None));
    let turns = (0..PAIRS).map(turn).collect::<Result<Vec<_>>>()?;
    let name = "the check that 4 memories are current: what they cost there, less what they cost on a device that \
                uses the host's memory";
    Ok(Row::from_turns(name, "ns", &turns))
}

/// What a child measures; false: nothing of that name.
pub fn measure(what: &str) -> Result<bool> {
    match what {
        "nbody" => {
            let mut rate = nbody::cut(&all()?)?;
            let mut rates: Vec<f64> = (0..7).map(|_| rate()).collect();
            rates.sort_by(f64::total_cmp);
            println!("{}", rates[3]);
            return Ok(true);
        }
        "unbalanced" => print(&unbalanced()?)?,
        "overlap" => print(&overlap()?)?,
        "out_of_core" => print(&out_of_core()?)?,
        "copying" => print(&copying(false)?)?,
        "memories" => println!("{}", copying(true)?.value),
        "cleared" => print(&cleared(false)?)?,
        "clearing" => print(&cleared(true)?)?,
        "cut" => print(&cut()?)?,
        "planning" => print(&planning()?)?,
        "cholesky" => print(&cholesky()?)?,
        "small" => print(&small()?)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn print(row: &Row) -> Result<()> {
    println!("{}", serde_json::to_string(row)?);
    Ok(())
}

/// The runtime of the process's key.
fn all() -> Result<RuntimeObj> {
    Ok(get_runtime(&std::env::var(KEY).unwrap_or_else(|_| "ALL_CPU".to_owned()))?)
}

fn unbalanced() -> Result<Row> {
    let mut both = nbody::cut(&all()?)?;
    let mut fast = nbody::cut(&get_runtime("TEST:0")?)?;
    let mut slow = nbody::cut(&get_runtime("TEST:1")?)?;
    // Until the devices' rates are known.
    for _ in 0..5 {
        both();
    }
    Ok(pair("", "", REPEATS, both, Some(&mut || fast() + slow()), NO_PAUSE))
}

fn milliseconds(body: impl FnOnce() -> Result<(), flash::Error>) -> f64 {
    let start = Instant::now();
    body().expect("runs");
    start.elapsed().as_nanos() as f64 / 1e6
}

fn overlap() -> Result<Row> {
    let rt = all()?;
    let from: Vec<FlashMemory<f64>> = (0..ARRAYS).map(|_| FlashMemory::zeroed(ELEMENTS)).collect();
    let to: Vec<FlashMemory<f64>> = (0..ARRAYS).map(|_| FlashMemory::zeroed(GRINDERS)).collect();
    let launches = |rounds: u32| {
        from.iter()
            .zip(&to)
            .fold(rt.pipeline(), |p, (from, to)| p.submit(Grind::of(rounds, from, to)).defer([GRINDERS]))
    };
    // The host has new data: what devices have is out of date.
    let renew = || from.iter().try_for_each(|memory| memory.write().map(|mut m| m[0] += 1.0));
    let copies = launches(0);
    let time = |pipeline: &flash::Pipeline<'_>, fresh: bool| {
        if fresh {
            renew().expect("nothing holds them");
        }
        milliseconds(|| pipeline.exec())
    };
    let median = |turn: &dyn Fn() -> f64| {
        let mut times: Vec<f64> = (0..5).map(|_| turn()).collect();
        times.sort_by(f64::total_cmp);
        times[2]
    };
    // Enough rounds that the kernels take as long as the copies: there overlapping gains most.
    time(&copies, true);
    let probe = launches(10_000);
    let both = median(&|| time(&copies, true));
    let rounds = (10_000.0 * both / median(&|| time(&probe, false))) as u32;
    let work = launches(rounds);
    time(&work, true);
    Ok(pair(
        "",
        "",
        REPEATS,
        || time(&work, true),
        Some(&mut || time(&copies, true).max(time(&work, false))),
        NO_PAUSE,
    ))
}

fn out_of_core() -> Result<Row> {
    let rt = all()?;
    let device = rt.devices()[0];
    let array = || FlashMemory::<f32>::zeroed(2 * ELEMENTS);
    let arrays: Vec<_> = (0..ARRAYS).map(|_| (array(), array())).collect();
    let bytes = (2 * ARRAYS * 8 * ELEMENTS) as u64;
    let pass = |budget: u64| {
        if !device.set_memory_budget(budget) {
            bail!("expected a device with a memory of its own, found one that uses the host's");
        }
        let pass =
            || arrays.iter().try_for_each(|(x, y)| rt.submit(Saxpy::of(1.0, x, y)).exec([2 * ELEMENTS]));
        // The host has new data, so that nothing of the pass before is on the device.
        arrays.iter().try_for_each(|(x, y)| {
            x.write()?[0] += 1.0;
            y.write()?[0] += 1.0;
            Ok::<_, flash::Error>(())
        })?;
        pass()?;
        // GB/s of arrays that are read, and of those that are written.
        Ok(bytes as f64 * 1.5 / (milliseconds(pass) * 1e6))
    };
    pass(bytes / 2)?;
    let before = device.transfers().from_device.bytes;
    pass(bytes / 2)?;
    if device.transfers().from_device.bytes == before {
        bail!("expected that what does not fit is written back, found nothing written back");
    }
    let rate = |budget| pass(budget).expect("runs");
    Ok(pair("", "", REPEATS, || rate(bytes / 2), Some(&mut || rate(u64::MAX)), NO_PAUSE))
}

/// What a warm submission costs on a device with a memory of its own; `less`: what its memories cost.
fn copying(less: bool) -> Result<Row> {
    const LAUNCHES: usize = 5_000;
    let rt = all()?;
    let [a, b, c, d] = &std::array::from_fn(|_| FlashMemory::<f32>::zeroed(1));
    let with = || per_call(LAUNCHES, || rt.submit(Four::of(a, b, c, d)).exec([1usize]).expect("runs"));
    let without = || per_call(LAUNCHES, || rt.submit(Nothing::of(0)).exec([1usize]).expect("runs"));
    let difference = || with() - if less { without() } else { 0.0 };
    Ok(pair("", "", 50, difference, None, NO_PAUSE))
}

/// A launch that gives an array the buffer of another one, beside one into the array's own buffer. `less`:
/// the difference of the two, beside a memset of as many bytes.
fn cleared(less: bool) -> Result<Row> {
    const LEN: usize = 4 << 20;
    let rt = all()?;
    let array = || FlashMemory::<f64>::zeroed(LEN);
    let launch = |to: &FlashMemory<f64>| milliseconds(|| rt.submit(Set::of(1.0, to)).exec([LEN]));
    let own = array();
    let mut other = array();
    launch(&own);
    launch(&other);
    let mut cleared = || {
        // The buffer goes to the cache; the new array has none.
        other = array();
        launch(&other)
    };
    if !less {
        return Ok(pair("", "", REPEATS, cleared, Some(&mut || launch(&own)), NO_PAUSE));
    }
    let mut bytes = vec![1u8; LEN * size_of::<f64>()];
    let mut memset = || {
        milliseconds(|| {
            black_box(&mut bytes).fill(black_box(0));
            Ok(())
        })
    };
    memset();
    Ok(pair("", "", REPEATS, || cleared() - launch(&own), Some(&mut memset), NO_PAUSE))
}

const MANY_ITEMS: usize = 1_000_000_000;

fn cut() -> Result<Row> {
    let rt = all()?;
    let launch = rt.submit(Skip::of(0)).options(part_by("i")).defer([MANY_ITEMS]);
    let turn = || per_call(1000, || launch.exec().expect("runs")) / 1e3;
    Ok(pair("", "", REPEATS, turn, None, NO_PAUSE))
}

fn planning() -> Result<Row> {
    let rt = all()?;
    let launch = |items: usize| rt.submit(Skip::of(0)).options(part_by("i")).exec([items]).expect("runs");
    let mut items = MANY_ITEMS;
    let turn = || {
        let anew = per_call(1000, || {
            items += 1;
            launch(items);
        });
        (anew - per_call(1000, || launch(MANY_ITEMS))) / 1e3
    };
    Ok(pair("", "", REPEATS, turn, None, NO_PAUSE))
}

/// Many small submissions that depend on each other, on all devices and on the first one.
fn small() -> Result<Row> {
    const TILES: usize = 8;
    let all = all()?;
    let one = get_runtime(all.devices()[0].id())?;
    let (mut ours, mut theirs) = (Matrix::new(TILES), Matrix::new(TILES));
    let turn = |matrix: &mut Matrix, rt: &RuntimeObj| {
        matrix.reset()?;
        Ok::<f64, flash::Error>(1e3 * milliseconds(|| matrix.pipeline(rt).exec()))
    };
    // Until the devices' rates are known.
    for _ in 0..10 {
        turn(&mut ours, &all)?;
        turn(&mut theirs, &one)?;
    }
    let error = ours.error()?;
    if error.is_nan() || error > 1e-9 {
        bail!("expected the factor of the matrix, found one that is {error:e} off");
    }
    Ok(pair(
        "",
        "",
        REPEATS,
        || turn(&mut ours, &all).expect("factorises"),
        Some(&mut || turn(&mut theirs, &one).expect("factorises")),
        NO_PAUSE,
    ))
}

fn cholesky() -> Result<Row> {
    const TILES: usize = 64;
    let rt = all()?;
    let mut matrix = Matrix::new(TILES);
    let tasks = matrix.tasks();
    if tasks != 45_760 {
        bail!("expected 45,760 tasks, found {tasks}");
    }
    let turn = |matrix: &mut Matrix, rt: &RuntimeObj| {
        matrix.reset()?;
        let pipeline = milliseconds(|| matrix.pipeline(rt).exec());
        let calls = milliseconds(|| {
            matrix.call();
            Ok(())
        });
        Ok::<f64, flash::Error>((pipeline - calls) * 1e6 / tasks as f64)
    };
    turn(&mut matrix, &rt)?;
    let error = matrix.error()?;
    if error.is_nan() || error > 1e-9 {
        bail!("expected the factor of the matrix, found one that is {error:e} off");
    }
    Ok(pair("", "", REPEATS, || turn(&mut matrix, &rt).expect("factorises"), None, NO_PAUSE))
}
