//! The kernels of the library on each device, beside the same called with no framework.
//!
//! The *score* of a kernel on a device is the time of the direct call over that through the framework, 1 if nothing is
//! lost. Direct calls are of the very same code: on the CPU its functions, called by gcc's OpenMP (`direct`), in OpenCL
//! its program, enqueued in plain `opencl3` (`opencl`), in CUDA its program, launched by the driver's functions (`cuda`).
//! Beside the rate is, on the CPU, that of the best known, called directly: C with OpenMP, or OpenBLAS (`c`).
//!
//! The *overhead* is the part of a kernel's time that a launch of nothing but one work item takes: all of it on the
//! CPU, elsewhere what it takes longer than the direct call.

pub mod c;
mod cases;
mod cuda;
mod direct;
mod last;
mod opencl;

use crate::dispatch::per_call;
use crate::peers::Peers;
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::Result;
use c::{Kernels, Real};
use cases::Case;
use flash::backend::{DeviceReport, list};
use flash::kernels::ewmm;
use flash::{FlashMemory, RuntimeObj, get_runtime};
use std::thread;
use std::time::Instant;

/// Nanoseconds that a warm call may take, for 30 pairs of it to be measured, if there is a smaller case.
const LONG: f64 = 0.1e9;

/// A device.
struct Place {
    id: String,
    rt: RuntimeObj,
    /// The device that calls its kernels directly, if there is one.
    direct: Option<RuntimeObj>,
    cpu: bool,
    /// Nanoseconds of software of a launch.
    launch: f64,
}

/// What of it is measured.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Size of all arrays of a kernel together.
    pub bytes: usize,
    /// One kernel alone.
    pub only: Option<&'a str>,
    /// The devices of one key alone.
    pub device: Option<&'a str>,
}

/// All rows that are wanted.
pub fn rows(peers: &Peers, wanted: Wanted<'_>) -> Result<Vec<Row>> {
    if let Some(openmp) = &peers.openmp {
        direct::EACH_SHARE.get_or_init(|| openmp.each_share);
    }
    let c = peers.kernels.as_ref();
    let mut rows = of_type::<f32>(wanted, c.map(|c| &c.0))?;
    rows.extend(of_type::<f64>(wanted, c.map(|c| &c.1))?);
    if let (Some(key), []) = (wanted.device, &rows[..]) {
        eprintln!("no device of {key}: `flash list` says which there are, and why others are not");
    }
    Ok(rows)
}

/// Rows of a precision.
fn of_type<T: Real>(wanted: Wanted<'_>, c: Option<&Kernels<T>>) -> Result<Vec<Row>> {
    let (mut rows, mut on_cpu) = (Vec::new(), Vec::new());
    for mut place in places(wanted.device)? {
        eprintln!("kernels {} {} ...", T::NAME, place.id);
        rows.push(place.launch_of_one::<T>()?);
        cases::each::<T>(wanted.bytes, c.filter(|_| place.cpu), place.cpu, &mut |case| {
            if wanted.only.is_some_and(|only| only != case.kernel) {
                return Ok(true);
            }
            let Some((measured, rate)) = place.measure::<T>(&case)? else { return Ok(false) };
            rows.extend(measured);
            if place.cpu {
                on_cpu.push((case.kernel, rate));
            } else if let Some((_, best)) = on_cpu.iter().find(|(kernel, _)| *kernel == case.kernel) {
                let name = format!("{} {} {} of ALL_CPU", case.kernel, T::NAME, place.id);
                rows.push(Row::from_turns(name, "score", &[(rate / best, None)]));
            }
            Ok(true)
        })?;
    }
    Ok(rows)
}

/// The CPU, all OpenCL devices, and all NVIDIA GPUs; or those of one key.
fn places(only: Option<&str>) -> Result<Vec<Place>> {
    let wanted = |id: &str| only.is_none_or(|only| id == only || id.split(':').next() == Some(only));
    let place = |id: &str, direct: Option<String>| -> Result<Place> {
        let direct = direct.map(|id| get_runtime(&id)).transpose()?;
        Ok(Place { id: id.to_owned(), rt: get_runtime(id)?, direct, cpu: id == "ALL_CPU", launch: 0.0 })
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

/// Calls one side after a rest, before it is measured: the first call copies what the other side wrote, and threads
/// that were just woken share a core until the system's scheduler has moved one of them.
fn warm(call: impl Fn() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    call()?;
    while start.elapsed() < PAUSE {
        call()?;
    }
    Ok(())
}

impl Place {
    /// What a launch of one work item takes, beside the same by hand.
    fn launch_of_one<T: Real>(&mut self) -> Result<Row> {
        const LAUNCHES: usize = 200;
        let [a, b, to]: &[FlashMemory<T>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed(1));
        let by_hand = match &self.direct {
            Some(direct) if !self.cpu => Some(direct.submit(ewmm(a, b, to)?).defer([1usize])),
            _ => None,
        };
        let mut peer = by_hand.map(|launch| {
            move || {
                let call = |_| {
                    launch.exec().expect("it runs");
                    last::nanoseconds()
                };
                (0..LAUNCHES).map(call).sum::<f64>() / LAUNCHES as f64
            }
        });
        let row = pair(
            format!("launch of one item {} {}", T::NAME, self.id),
            "ns",
            REPEATS,
            || {
                let launch = || self.rt.submit(ewmm(a, b, to).expect("one shape")).exec([1usize]);
                // What the other side wrote is copied to the device.
                launch().expect("it runs");
                per_call(LAUNCHES, || launch().expect("it runs"))
            },
            peer.as_mut().map(|peer| peer as &mut dyn FnMut() -> f64),
            PAUSE,
        );
        self.launch = (row.value - row.peer.unwrap_or(0.0)).max(0.0);
        Ok(row)
    }

    /// Measures a kernel: its rows, and its rate. `None` if that would take too long.
    fn measure<T: Real>(&self, case: &Case<'_>) -> Result<Option<(Vec<Row>, f64)>> {
        let called = |what: &str| format!("{} {} {} {what}", case.kernel, T::NAME, self.id);
        let launch = (case.submit)(&self.rt)?;
        let direct = self.direct.as_ref().map(|direct| (case.submit)(direct)).transpose()?;
        let ours = || {
            warm(|| Ok(launch.exec()?))?;
            anyhow::Ok(per_call(1, || launch.exec().expect("it ran before")))
        };
        let by_hand = || {
            let Some(direct) = &direct else { return Ok(f64::NAN) };
            warm(|| Ok(direct.exec()?))?;
            direct.exec()?;
            anyhow::Ok(last::nanoseconds())
        };
        let best = || {
            let Some((_, best)) = &case.best else { return Ok(f64::NAN) };
            warm(|| {
                best();
                Ok(())
            })?;
            anyhow::Ok(per_call(1, best))
        };
        let sides: [&dyn Fn() -> Result<f64>; 3] = [&ours, &by_hand, &best];
        let time = ours()?;
        if time > LONG && case.may_shrink {
            eprintln!("{}: {:.0} ms: a smaller one is measured", called("time"), time / 1e6);
            return Ok(None);
        }
        let mut turns: Vec<[f64; 3]> = Vec::new();
        for turn in 0..=REPEATS {
            let mut times = [0.0; 3];
            for k in 0..3 {
                let side = if turn % 2 == 0 { k } else { 2 - k };
                thread::sleep(PAUSE);
                times[side] = sides[side]()?;
            }
            // The first does not count.
            if turn > 0 {
                turns.push(times);
            }
        }
        let rate = |ns: f64| case.work * 1e9 / ns;
        let unit = case
            .best
            .as_ref()
            .map_or(case.unit.to_owned(), |(best, _)| format!("{}, against {best}", case.unit));
        let (mut times, mut rates, mut scores) = (Vec::new(), Vec::new(), Vec::new());
        for [ours, by_hand, best] in turns {
            times.push((ours / 1e6, Some(by_hand / 1e6)));
            rates.push((rate(ours), Some(rate(best))));
            scores.push((by_hand / ours, None));
        }
        let time = Row::from_turns(called("time"), "ms", &times);
        let rates = Row::from_turns(called(&unit), case.unit, &rates);
        let share = 100.0 * self.launch / (time.value * 1e6);
        let overhead = Row::from_turns(called("overhead"), "%", &[(share, None)]);
        let score = direct.as_ref().map(|_| Row::from_turns(called("score"), "score", &scores));
        let value = rates.value;
        Ok(Some((score.into_iter().chain([time, overhead, rates]).collect(), value)))
    }
}
