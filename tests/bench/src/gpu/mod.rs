//! What a launch, a chain and a copy cost on an NVIDIA GPU beside CUDA's driver called by hand, and how fast
//! the N-body kernel is.
//!
//! A row that has a goal ends with it. What misses its goal is said aloud, and is no error: a busy machine
//! may be why.

mod hand;

use crate::dispatch::per_call;
use crate::nbody::Number;
use crate::opencl::Touch;
use crate::peers::Peers;
use crate::stats::{REPEATS, Row, pair};
use anyhow::{Context, Result, ensure};
use flash::kernel::views::{Item, Read, Whole, Write};
use flash::kernels::nbody::Accelerate;
use flash::{FlashMemory, KernelDefinition, RuntimeObj, get_runtime};
use flash_backend_cuda as _;
use flash_core::devices::list;
use hand::ByHand;
use std::time::{Duration, Instant};

/// The device that is measured.
const DEVICE: &str = "NVIDIA_GPU:0";
/// Launches of a turn.
const LAUNCHES: usize = 200;
/// Submissions of a chain.
const CHAIN: usize = 1000;
/// Elements of the array that is copied, and bodies; and on an emulated device, to see that all works.
const SIZES: Sizes = Sizes { elements: 64 << 20, bodies: [65_536, 262_144] };
const EMULATED: Sizes = Sizes { elements: 1 << 20, bodies: [256, 512] };

struct Sizes {
    elements: usize,
    bodies: [usize; 2],
}

/// Operations per interaction, as most papers count.
const FLOP: f64 = 20.0;

/// Reads an array: its first element.
#[derive(KernelDefinition)]
#[kernel(name = "bench.first", dims(i))]
#[implementations(cuda = "../empty.cu", cooperating)]
struct First<'a> {
    x: Whole<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

/// Writes an array.
#[derive(KernelDefinition)]
#[kernel(name = "bench.fill", dims(i))]
#[implementations(cuda = "../empty.cu", cooperating)]
struct Fill<'a> {
    value: f32,
    to: Item<'a, Write<f32>>,
}

/// What a row's ratio, or where it has none its value, should be.
#[derive(Clone, Copy)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn named(self, name: &str) -> String {
        match self {
            Goal::AtMost(most) => format!("{name}; goal: at most {most}"),
            Goal::AtLeast(least) => format!("{name}; goal: at least {least}"),
        }
    }

    /// What is missing, if a row misses it.
    fn missed(self, row: &Row) -> Option<String> {
        let found = row.ratio.unwrap_or(row.value);
        let met = match self {
            Goal::AtMost(most) => found <= most,
            Goal::AtLeast(least) => found >= least,
        };
        (!met).then(|| format!("goal missed: {}, found {found:.3}", row.name))
    }

    fn look_at(self, row: Row) -> Row {
        self.missed(&row).inspect(|missed| eprintln!("{missed}"));
        row
    }
}

/// All rows; none where there is no NVIDIA GPU.
pub fn rows(_: &Peers) -> Result<Vec<Row>> {
    let reports = list();
    let report = reports.iter().find(|report| report.key.as_deref() == Some("NVIDIA_GPU"));
    let Some(device) = report.and_then(|report| report.devices.first()) else {
        let why = report.map_or_else(|| "no such backend".to_owned(), |report| report.outcome.to_string());
        eprintln!("no GPU: NVIDIA_GPU: {why}: nothing is measured");
        return Ok(Vec::new());
    };
    let sizes = if device.info.emulated { EMULATED } else { SIZES };
    eprintln!("{DEVICE}: {}, {}", device.info.name, device.info.version);
    let rt = get_runtime(DEVICE)?;
    let ordinal = rt.devices()[0].query("ordinal").context("the device's number for CUDA")?;
    let hand = ByHand::new(ordinal.parse()?)?;
    let mut rows = launches(&rt, &hand)?;
    rows.extend(chains(&rt, &hand)?);
    rows.extend(copies(&rt, &hand, sizes.elements)?);
    for n in sizes.bodies {
        rows.extend(nbody::<f32>(&rt, n, Some(device.info.rate_hint))?);
    }
    rows.extend(nbody::<f64>(&rt, sizes.bodies[0], None)?);
    Ok(rows)
}

fn launches(rt: &RuntimeObj, hand: &ByHand) -> Result<Vec<Row>> {
    let [x, y, z]: &[FlashMemory<f32>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed(1));
    rt.submit(Touch::of(1.0, x, y, z)).exec([1usize])?;
    let by_hand = || {
        per_call(LAUNCHES, || {
            hand.launch();
            hand.finish();
        })
    };
    let noise = pair(
        "cuLaunchKernel and cuStreamSynchronize of an empty kernel, against the same: this machine's noise",
        "ns",
        REPEATS,
        by_hand,
        Some(&mut { by_hand }),
        Duration::ZERO,
    );
    let goal = Goal::AtMost(1.05);
    let warm = || {
        per_call(LAUNCHES, || {
            rt.submit(Touch::of(1.0, x, y, z)).exec([1usize]).expect("an empty kernel runs")
        })
    };
    let one = pair(
        goal.named("warm submit+exec of an empty kernel, against cuLaunchKernel and cuStreamSynchronize"),
        "ns",
        100,
        warm,
        Some(&mut { by_hand }),
        Duration::ZERO,
    );
    Ok(vec![noise, goal.look_at(one)])
}

fn chains(rt: &RuntimeObj, hand: &ByHand) -> Result<Vec<Row>> {
    let [x, y, z]: &[FlashMemory<f32>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed(1));
    let chain = || {
        let mut chain = rt.pipeline();
        for _ in 0..CHAIN {
            chain = chain.submit(Touch::of(1.0, x, y, z)).defer([1usize]);
        }
        chain
    };
    let graph = hand.chain(CHAIN)?;
    let by_hand = || {
        per_call(1, || {
            hand.launch_chain(&graph);
            hand.finish();
        }) / CHAIN as f64
    };
    let kept = chain();
    // A chain becomes a graph when its shape comes again.
    (0..3).try_for_each(|_| kept.exec())?;
    let goal = Goal::AtMost(1.1);
    let again = pair(
        goal.named(
            "chain of 1,000, kept and run again, per kernel, against the same as a CUDA graph by hand",
        ),
        "ns",
        REPEATS,
        || per_call(1, || kept.exec().expect("a chain runs")) / CHAIN as f64,
        Some(&mut { by_hand }),
        Duration::ZERO,
    );
    let anew = pair(
        "chain of 1,000, built anew and run, per kernel, against the kept CUDA graph by hand",
        "ns",
        REPEATS,
        || per_call(1, || chain().exec().expect("a chain runs")) / CHAIN as f64,
        Some(&mut { by_hand }),
        Duration::ZERO,
    );
    Ok(vec![goal.look_at(again), anew])
}

fn copies(rt: &RuntimeObj, hand: &ByHand, elements: usize) -> Result<Vec<Row>> {
    let (x, to) = (FlashMemory::from(vec![1.0f32; elements]), FlashMemory::<f32>::zeroed(1));
    let (device, bytes) = (rt.devices()[0], elements * size_of::<f32>());
    // GB/s since a start.
    let rate = |start: Instant| bytes as f64 / start.elapsed().as_nanos() as f64;
    // A turn in which nothing moves measures nothing.
    let moved = |now: u64, before: u64| {
        let moved = now - before;
        ensure!(moved >= bytes as u64, "expected {bytes} bytes to be copied, found {moved}");
        Ok(())
    };
    let up = || -> Result<f64> {
        let before = device.transfers().to_device.bytes;
        x.write()?[0] += 1.0;
        let start = Instant::now();
        rt.submit(First::of(&x, &to)).exec([1usize])?;
        let rate = rate(start);
        moved(device.transfers().to_device.bytes, before)?;
        Ok(rate)
    };
    let down = || -> Result<f64> {
        let before = device.transfers().from_device.bytes;
        rt.submit(Fill::of(2.0, &x)).exec([elements])?;
        let start = Instant::now();
        drop(x.read()?);
        let rate = rate(start);
        moved(device.transfers().from_device.bytes, before)?;
        Ok(rate)
    };
    // From its second copy on the array is pinned.
    for _ in 0..2 {
        up()?;
        down()?;
    }
    let buffers = hand.buffers(bytes)?;
    let by_hand = |copy: fn(&ByHand, &hand::Buffers)| {
        let start = Instant::now();
        copy(hand, &buffers);
        hand.finish();
        rate(start)
    };
    let goal = Goal::AtLeast(0.95);
    let size = bytes >> 20;
    let name =
        |what: &str| goal.named(&format!("{what}, {size} MiB, against cuMemcpyAsync with pinned memory"));
    let rows = [
        pair(
            name("copy to the device, with the launch that asks for it"),
            "GB/s",
            REPEATS,
            || up().expect("it is copied"),
            Some(&mut || by_hand(ByHand::copy_up)),
            Duration::ZERO,
        ),
        pair(
            name("copy to the host, by a guard that reads"),
            "GB/s",
            REPEATS,
            || down().expect("it is copied"),
            Some(&mut || by_hand(ByHand::copy_down)),
            Duration::ZERO,
        ),
    ];
    Ok(rows.map(|row| goal.look_at(row)).into())
}

/// Rate of the accelerations of n bodies and, where the device's peak in this precision is known, their share
/// of it.
fn nbody<T: Number>(rt: &RuntimeObj, n: usize, peak: Option<f64>) -> Result<Vec<Row>> {
    let [x, y, z] = [1.0, 0.7, 0.3].map(|scale| move |i: usize| T::of((i as f64 * scale).sin()));
    let pos = FlashMemory::from((0..n).map(|i| [x(i), y(i), z(i)]).collect::<Vec<_>>());
    let mass = FlashMemory::from(vec![T::ONE; n]);
    let acc = FlashMemory::<[T; 3]>::zeroed(n);
    let launch = rt.submit(Accelerate::of(T::of(1e-3), T::of(1e-3), &pos, &mass, &acc)).defer([n]);
    (0..2).try_for_each(|_| launch.exec())?;
    let flop = FLOP * (n * n) as f64;
    let turn = || flop / per_call(1, || launch.exec().expect("it runs")) / 1e3;
    let name = format!("nbody.accelerate {}, n = {n}, 20 flop per interaction", T::NAME);
    let rate = pair(name.as_str(), "TFLOP/s", REPEATS, turn, None, Duration::ZERO);
    let Some(peak) = peak.filter(|peak| *peak > 0.0) else { return Ok(vec![rate]) };
    let goal = Goal::AtLeast(0.6);
    let part = 1e12 / peak;
    let shares = [rate.value, rate.min, rate.max].map(|rate| (rate * part, None));
    let share = Row::from_turns(
        goal.named(&format!("{name}, share of the device's peak of {:.1} TFLOP/s", peak / 1e12)),
        "share",
        &shares,
    );
    Ok(vec![rate, goal.look_at(share)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_for_the_ratio_or_else_the_value() {
        let (most, least) = (Goal::AtMost(1.05), Goal::AtLeast(0.6));
        let row = |goal: Goal, turn| Row::from_turns(goal.named("launch"), "ns", &[turn]);
        assert_eq!(most.missed(&row(most, (104.0, Some(100.0)))), None);
        assert_eq!(
            most.missed(&row(most, (110.0, Some(100.0)))).as_deref(),
            Some("goal missed: launch; goal: at most 1.05, found 1.100")
        );
        assert_eq!(least.missed(&row(least, (0.61, None))), None);
        let missed = least.missed(&row(least, (0.5, None)));
        assert_eq!(missed.as_deref(), Some("goal missed: launch; goal: at least 0.6, found 0.500"));
    }
}
