//! The kernels of the library on each device, beside the same called with no framework.
//!
//! The *score* of a kernel on a device is the time of the direct call over that through the framework, 1 if
//! nothing is lost; of one that is measured at several sizes, the median of as many pairs of turns of each.
//! Direct calls are of the very same code: on the CPU its functions, called by gcc's OpenMP (`direct`), in
//! OpenCL its program, enqueued in plain `opencl3` (`opencl`), in CUDA its program, launched by the driver's
//! functions (`cuda`). Beside the rate is, on the CPU, that of the best known, called directly: C with
//! OpenMP, or OpenBLAS (`c`), or crates of Rust (`dense`, `sparse`).
//!
//! The *overhead* is the part of a kernel's time that a launch of one work item of the same kernel takes,
//! recorded before: all of it on the CPU, elsewhere what it takes longer than the direct call. Beside it is,
//! on the CPU, what the paper of HALO has for the kernel.

pub mod c;
mod cases;
mod cuda;
mod dense;
mod direct;
mod last;
mod motion;
mod opencl;
mod sparse;
mod sums;
mod tiles;

use crate::dispatch::per_call;
use crate::peers::Peers;
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::{Result, bail};
use c::Real;
use cases::{Case, InC};
use flash::{RuntimeObj, get_runtime};
use flash_core::devices::{DeviceReport, list};
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

/// Nanoseconds that a warm call may take, for 30 pairs of it to be measured, if there is a smaller case.
const LONG: f64 = 0.2e9;

/// A turn is the mean of calls that take this long together.
const TURN: Duration = Duration::from_millis(10);

/// A turn where neither side has to rest and to be warm again: a call of each kernel but the shortest.
const SHORT_TURN: Duration = Duration::from_millis(2);

/// A score is known when its interval goes no further to either side.
const KNOWN: f64 = 0.005;

/// A device.
struct Place {
    id: String,
    rt: RuntimeObj,
    /// The device that calls its kernels directly, if there is one.
    direct: Option<RuntimeObj>,
    cpu: bool,
    /// Sides take turns without a rest: they have the driver's threads, and no memory of their own.
    in_turn: bool,
}

/// The software's part of a kernel's time on a CPU in HALO's paper, table 8, in per cent.
const HALO: [(&str, f64); 8] = [
    ("smmm", 0.0044),
    ("mmm", 0.0005),
    ("vdp", 0.0008),
    ("ewmm", 0.0010),
    ("ewmd", 0.0006),
    ("js", 0.0002),
    ("conv1d", 0.0001),
    ("mvm", 0.0030),
];

/// The kernel of a case, whose name may say more.
fn kernel_of(case: &str) -> &str {
    case.split(' ').next().unwrap_or(case)
}

/// The folder of a case's kernel, which may have several.
fn folder_of(case: &str) -> &str {
    case.split([' ', '.']).next().unwrap_or(case)
}

/// What of it is measured.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Sizes of all arrays of a kernel together, in bytes.
    pub sizes: &'a [usize],
    /// One kernel alone, or those of one folder.
    pub only: Option<&'a str>,
    /// The devices of one key alone.
    pub device: Option<&'a str>,
    /// How long a kernel may be measured until its score is known. At least 30 pairs of turns are.
    pub time: Duration,
}

/// All rows that are wanted.
pub fn rows(peers: &Peers, wanted: Wanted<'_>) -> Result<Vec<Row>> {
    if let Some(openmp) = &peers.openmp {
        direct::EACH_SHARE.get_or_init(|| openmp.each_share);
    }
    if let Some(kernel) = wanted.only {
        let names = names()?;
        if !names.contains(kernel) {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            bail!("no kernel `{kernel}` is measured: expected one of {names}");
        }
    }
    let places = places(wanted.device)?;
    if let (Some(key), []) = (wanted.device, &places[..]) {
        bail!("no device of `{key}`: `flash list` says which there are, and why others are not");
    }
    let (kernels, diffusion) = (peers.kernels.as_ref(), peers.diffusion.as_ref());
    let attraction = peers.nbody.as_ref().map(|nbody| nbody.best);
    let single = InC { kernels: kernels.map(|c| &c.0), attraction: attraction.map(|c| c.0), diffusion };
    let double = InC { kernels: kernels.map(|c| &c.1), attraction: attraction.map(|c| c.1), diffusion };
    let mut rows = of_type::<f32>(&places, wanted, single)?;
    rows.extend(of_type::<f64>(&places, wanted, double)?);
    Ok(rows)
}

/// What a case may be called.
fn names() -> Result<BTreeSet<&'static str>> {
    let mut names = BTreeSet::new();
    cases::each::<f32>(&[1 << 20], InC::NONE, true, &mut |case| {
        names.extend([case.kernel, kernel_of(case.kernel), folder_of(case.kernel)]);
        Ok(true)
    })?;
    Ok(names)
}

/// Rows of a precision.
fn of_type<T: Real>(places: &[Place], wanted: Wanted<'_>, in_c: InC<'_, T>) -> Result<Vec<Row>> {
    let (mut rows, mut on_cpu) = (Vec::new(), Vec::new());
    for place in places {
        eprintln!("kernels {} {} ...", T::NAME, place.id);
        let mut scores: Vec<(&str, Vec<Vec<Figures>>)> = Vec::new();
        let mut measured = Vec::new();
        let in_c = if place.cpu { in_c } else { InC::NONE };
        cases::each::<T>(wanted.sizes, in_c, place.cpu, &mut |case| {
            let bytes = case.bytes.filter(|_| wanted.sizes.len() > 1);
            let (kernel, folder) = (kernel_of(case.kernel), folder_of(case.kernel));
            let is_wanted = wanted.only.is_none_or(|only| [case.kernel, kernel, folder].contains(&only));
            // A larger one may have shrunk to the size of another.
            if !is_wanted || measured.contains(&(case.kernel, bytes)) {
                return Ok(true);
            }
            let at = bytes.map_or(String::new(), |bytes| format!(" at {} MiB", bytes >> 20));
            let name = format!("{} {} {}{at}", case.kernel, T::NAME, place.id);
            let Some(Measured { rows: own, pairs, rate }) = place.measure::<T>(&case, &name, wanted.time)?
            else {
                return Ok(false);
            };
            rows.extend(own);
            measured.push((case.kernel, bytes));
            if place.cpu {
                on_cpu.push((case.kernel, bytes, rate));
            } else if let Some((.., best)) =
                on_cpu.iter().find(|(kernel, at, _)| kernel_of(kernel) == case.kernel && *at == bytes)
            {
                rows.push(Row::from_turns(format!("{name} of ALL_CPU"), "score", &[(rate / best, None)]));
            }
            if bytes.is_some() {
                match scores.iter_mut().find(|(kernel, _)| *kernel == case.kernel) {
                    Some((_, sizes)) => sizes.push(pairs),
                    None => scores.push((case.kernel, vec![pairs])),
                }
            }
            Ok(true)
        })?;
        for (kernel, sizes) in &scores {
            let pairs = evenly(sizes);
            if !pairs.is_empty() {
                rows.push(Row::from_turns(
                    format!("{kernel} {} {} score", T::NAME, place.id),
                    "score",
                    &pairs,
                ));
            }
        }
    }
    Ok(rows)
}

/// The CPU, all OpenCL devices, and all NVIDIA GPUs; or those of one key.
fn places(only: Option<&str>) -> Result<Vec<Place>> {
    let wanted = |id: &str| only.is_none_or(|only| id == only || id.split(':').next() == Some(only));
    let place = |id: &str, direct: Option<String>| -> Result<Place> {
        let direct = direct.map(|id| get_runtime(&id)).transpose()?;
        let (rt, cpu) = (get_runtime(id)?, id == "ALL_CPU");
        let in_turn = !cpu && rt.devices().iter().all(|device| device.info().host_memory);
        Ok(Place { id: id.to_owned(), rt, direct, cpu, in_turn })
    };
    let mut places = Vec::new();
    if wanted("ALL_CPU") {
        places.push(place("ALL_CPU", direct::EACH_SHARE.get().map(|_| "BENCH_CPU".into()))?);
    }
    let reports = list();
    let of = |keys: &'static [&'static str]| {
        let reports = reports.iter().filter(|r| r.key.as_deref().is_some_and(|key| keys.contains(&key)));
        reports.flat_map(|report| &report.devices)
    };
    let mut by_hand = of(&["BENCH_OPENCL", "BENCH_CUDA"]).collect::<Vec<&DeviceReport>>();
    for device in of(&["OPENCL", "INTEL_FPGA", "NVIDIA_GPU"]).filter(|device| wanted(&device.id)) {
        let same =
            by_hand.iter().position(|direct| [&device.info.name, &device.id].contains(&&direct.info.name));
        places.push(place(&device.id, same.map(|same| by_hand.remove(same).id.clone()))?);
    }
    Ok(places)
}

/// A figure, and the peer's.
type Figures = (f64, Option<f64>);

/// Of each size as many pairs as of the one with the fewest, from all the time that it was measured.
fn evenly(sizes: &[Vec<Figures>]) -> Vec<Figures> {
    let fewest = sizes.iter().map(Vec::len).min().unwrap_or(0);
    sizes.iter().flat_map(|pairs| (0..fewest).map(|i| pairs[i * pairs.len() / fewest])).collect()
}

/// What was measured of a kernel.
struct Measured {
    rows: Vec<Row>,
    /// The scores of all pairs of turns.
    pairs: Vec<Figures>,
    /// Work per second.
    rate: f64,
}

/// The mean of what calls give that take this long together, at least one.
fn mean(time: Duration, call: &dyn Fn() -> Result<f64>) -> Result<f64> {
    let (start, mut sum, mut count) = (Instant::now(), 0.0, 0);
    while count == 0 || start.elapsed() < time {
        sum += call()?;
        count += 1;
    }
    Ok(sum / f64::from(count))
}

/// True if it is known where a score is.
fn is_known(score: &Row) -> bool {
    score.interval.is_some_and(|[low, high]| low >= score.value - KNOWN && high <= score.value + KNOWN)
}

impl Place {
    /// What a launch of one work item takes, beside the same by hand.
    fn launch_of_one(&self, case: &Case<'_>, name: &str) -> Result<Row> {
        const LAUNCHES: usize = 200;
        let launch = (case.one)(&self.rt)?;
        let by_hand = self.direct.as_ref().map(|direct| (case.one)(direct)).transpose()?;
        let mut peer = by_hand.map(|launch| {
            move || {
                let call = |_| {
                    launch.exec().expect("it runs");
                    last::nanoseconds()
                };
                (0..LAUNCHES).map(call).sum::<f64>() / LAUNCHES as f64
            }
        });
        // What it needs is there before it is measured.
        launch.exec()?;
        Ok(pair(
            format!("{name} launch of one item"),
            "ns",
            REPEATS,
            || {
                // What the other side wrote is copied to the device.
                launch.exec().expect("it ran before");
                per_call(LAUNCHES, || launch.exec().expect("it ran before"))
            },
            peer.as_mut().map(|peer| peer as &mut dyn FnMut() -> f64),
            PAUSE,
        ))
    }

    /// A turn of one side.
    fn turn(&self, call: &dyn Fn() -> Result<f64>) -> Result<f64> {
        if self.in_turn {
            return mean(SHORT_TURN, call);
        }
        // The other side's threads stop spinning. Then the first call copies what the other side wrote, and
        // threads that were just woken share a core until the system's scheduler has moved one of them.
        thread::sleep(PAUSE);
        mean(PAUSE, call)?;
        mean(TURN, call)
    }

    /// Measures a kernel, for this long at most until its score is known. `None` if a call takes too long.
    fn measure<T: Real>(&self, case: &Case<'_>, name: &str, time: Duration) -> Result<Option<Measured>> {
        let called = |what: &str| format!("{name} {what}");
        let launch = (case.submit)(&self.rt)?;
        let direct = self.direct.as_ref().map(|direct| (case.submit)(direct)).transpose()?;
        let ours = || Ok(per_call(1, || launch.exec().expect("it ran before")));
        let by_hand = || {
            let Some(direct) = &direct else { return Ok(f64::NAN) };
            direct.exec()?;
            Ok(last::nanoseconds())
        };
        let side = |number: usize| match number {
            0 => self.turn(&ours),
            1 => self.turn(&by_hand),
            number => self.turn(&|| Ok(per_call(1, case.best[number - 2].1))),
        };
        let sides = 2 + case.best.len();
        launch.exec()?;
        let call = self.turn(&ours)?;
        if call > LONG && case.may_shrink {
            eprintln!("{}: {:.0} ms: a smaller one is measured", called("time"), call / 1e6);
            return Ok(None);
        }
        let mut turns: Vec<Vec<f64>> = Vec::new();
        let start = Instant::now();
        // The first does not count.
        for turn in 0.. {
            let mut times = vec![0.0; sides];
            for k in 0..sides {
                let number = if turn % 2 == 0 { k } else { sides - 1 - k };
                times[number] = side(number)?;
            }
            if turn > 0 {
                turns.push(times);
            }
            // Seldom enough that chance does not end it.
            if turn > 0 && turns.len().is_multiple_of(REPEATS) {
                let score = |times: &Vec<f64>| (times[1] / times[0], None);
                let known = || {
                    is_known(&Row::from_turns(name, "score", &turns.iter().map(score).collect::<Vec<_>>()))
                };
                if direct.is_none() || start.elapsed() > time || known() {
                    break;
                }
            }
        }
        let rate = |ns: f64| case.work * 1e9 / ns;
        let of = |figures: &dyn Fn(&[f64]) -> Figures| -> Vec<Figures> {
            turns.iter().map(|times| figures(times)).collect()
        };
        let pairs = if direct.is_some() { of(&|times| (times[1] / times[0], None)) } else { Vec::new() };
        let score = direct.as_ref().map(|_| Row::from_turns(called("score"), "score", &pairs));
        let time = of(&|times| (times[0] / 1e6, Some(times[1] / 1e6)));
        let time = Row::from_turns(called("time"), "ms", &time);
        let launch = self.launch_of_one(case, name)?;
        let overhead = self.overhead(called("overhead"), case, &launch, &time);
        let mut rates: Vec<Row> = Vec::new();
        for (number, (best, _)) in case.best.iter().enumerate() {
            let figures = of(&|times| (rate(times[0]), Some(rate(times[2 + number]))));
            rates.push(Row::from_turns(
                called(&format!("{}, against {best}", case.unit)),
                case.unit,
                &figures,
            ));
        }
        if rates.is_empty() {
            rates.push(Row::from_turns(called(case.unit), case.unit, &of(&|times| (rate(times[0]), None))));
        }
        let rate = rates[0].value;
        let rows = score.into_iter().chain([time, launch, overhead]).chain(rates).collect();
        Ok(Some(Measured { rows, pairs, rate }))
    }

    /// Which part of a kernel's time is a launch's.
    fn overhead(&self, name: String, case: &Case<'_>, launch: &Row, time: &Row) -> Row {
        let software = (launch.value - launch.peer.unwrap_or(0.0)).max(0.0);
        let share = 100.0 * software / (time.value * 1e6);
        let halo = HALO.iter().find(|(kernel, _)| self.cpu && *kernel == kernel_of(case.kernel));
        match halo {
            Some(&(_, halo)) => {
                Row::from_turns(format!("{name}, against HALO's on its CPU"), "%", &[(share, Some(halo))])
            }
            None => Row::from_turns(name, "%", &[(share, None)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_the_same_however_often_they_were_measured() {
        let pairs = |count: u32, score: f64| vec![(score, None); count as usize];
        let short: Vec<Figures> = (0..90).map(|i| (f64::from(i), None)).collect();
        let even = evenly(&[short, pairs(30, 500.0), pairs(31, 1000.0)]);
        assert_eq!(even.len(), 90);
        assert_eq!((even[0].0, even[29].0, even[30].0, even[89].0), (0.0, 87.0, 500.0, 1000.0));
        assert_eq!(evenly(&[pairs(30, 1.0), Vec::new()]), []);
        assert_eq!(evenly(&[]), []);
    }
}
