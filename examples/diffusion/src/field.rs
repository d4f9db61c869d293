//! A picture's grey values, diffused: the host code, and what is around it.

use std::time::Instant;

use anyhow::Result;
use flash::kernels::diffusion::heat;
use flash::prelude::*;
use flash_examples::{Animation, Colours, Gray, Picture, Refused, Screen, Timing};
use serde::Serialize;

use crate::args::Args;
use crate::draw::{PER_SECOND, PICTURES};

/// Runs all steps on the runtime of this key. Gives the field and the devices' names.
fn field(
    runtime: &str,
    picture: &Gray,
    rate: f32,
    profile: &Profile,
    watch: &mut Watch,
) -> Result<(Vec<f32>, Vec<String>)> {
    let shape = [picture.width, picture.height];

    // host
    let rt = get_runtime(runtime)?.options(profile);
    let mut now = FlashMemory::from(&picture.values[..]).with_shape(shape)?;
    let mut next = FlashMemory::zeroed(picture.values.len()).with_shape(shape)?;
    while watch.more()? {
        rt.submit(heat(rate, &now, &next)?).exec(shape)?;
        std::mem::swap(&mut now, &mut next);
        watch.observe(&now, profile)?;
    }
    // end host

    let devices = rt.devices().iter().map(|device| device.id().to_string()).collect();
    let field = now.read()?.to_vec();
    Ok((field, devices))
}

/// The report of a run, for programs to read. What could not be measured is null.
#[derive(Serialize)]
pub struct Report<'a> {
    runtime: &'a str,
    devices: &'a [String],
    width: usize,
    height: usize,
    iterations: usize,
    coefficient: f64,
    step: f64,
    before: Values,
    after: Values,
    seconds: f64,
    dispatch_overhead_percent: Option<f64>,
}

/// Statistics of the values of a field, from 0 (black) to 1 (white).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Values {
    mean: f64,
    least: f32,
    most: f32,
    /// Root of the mean square of the differences from the mean.
    deviation: f64,
}

impl Values {
    fn of(values: &[f32]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count;
        Self {
            mean,
            least: values.iter().copied().fold(f32::INFINITY, f32::min),
            most: values.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            deviation: variance.sqrt(),
        }
    }

    fn line(&self, when: &str) -> String {
        let Self { mean, least, most, deviation } = self;
        format!("{when:>8}  {mean:>10.6}  {least:>10.6}  {most:>10.6}  {deviation:>10.6}")
    }
}

/// Watches a run of the host code: `more` before each step, `observe` after it.
struct Watch {
    iterations: usize,
    done: usize,
    clock: Instant,
    seconds: f64,
    timing: Timing,
    screen: Screen,
    film: Option<Animation>,
    every: usize,
    width: usize,
}

impl Watch {
    /// Whether there is another step to make. Starts the clock.
    fn more(&mut self) -> Result<bool> {
        self.clock = Instant::now();
        Ok(self.done < self.iterations)
    }

    /// Notes a step that has completed.
    fn observe(&mut self, field: &FlashMemory<f32>, profile: &Profile) -> Result<()> {
        let wall = self.clock.elapsed();
        self.seconds += wall.as_secs_f64();
        self.timing.note(profile, wall);
        self.done += 1;
        if let Some(film) = &mut self.film
            && (self.done.is_multiple_of(self.every) || self.done == self.iterations)
        {
            film.push(drawn(&[&field.read()?], self.width)?)?;
        }
        self.screen.progress(self.done);
        Ok(())
    }
}

/// Fields of one width, side by side.
fn drawn(fields: &[&[f32]], width: usize) -> Result<Picture> {
    const GAP: usize = 8;
    let height = fields[0].len() / width;
    let mut picture = Picture::new(fields.len() * (width + GAP) - GAP, height, Colours::Gray)?;
    for (number, field) in fields.iter().enumerate() {
        let left = number * (width + GAP);
        for (i, &value) in field.iter().enumerate() {
            picture.set(left + i % width, i / width, value.into());
        }
        for (x, y) in (0..height).flat_map(|y| (0..GAP).map(move |x| (left + width + x, y))) {
            picture.mark(x, y);
        }
    }
    Ok(picture)
}

/// Files of a run that has succeeded; none where none was asked for.
#[derive(Default)]
pub struct Files {
    pub report: Option<Vec<u8>>,
    pub image: Option<Vec<u8>>,
    pub animate: Option<Vec<u8>>,
}

/// The whole job: prints what came of the field, and gives the files that were asked for.
pub fn diffuse(args: &Args, picture: &Gray) -> Result<Files> {
    let (rate, iterations, width) = (args.rate()?, args.iterations(), picture.width);
    // What is too wide for a picture is found before the run.
    let refused = |option| move |error| Refused(format!("{option}: {error}: make the --field smaller"));
    if args.image.is_some() {
        drawn(&[&picture.values[..]; 2], width).map_err(refused("--image"))?;
    }
    let mut film = None;
    if args.animate.is_some() {
        let first = drawn(&[&picture.values], width).map_err(refused("--animate"))?;
        let mut animation = Animation::new(first.size(), Colours::Gray, PER_SECOND)?;
        animation.push(first)?;
        film = Some(animation);
    }
    let profile = Profile::new();
    let mut watch = Watch {
        iterations,
        done: 0,
        clock: Instant::now(),
        seconds: 0.0,
        timing: Timing::default(),
        screen: Screen::new(args.is_quiet(), iterations, "steps"),
        film,
        every: iterations.div_ceil(PICTURES).max(1),
        width,
    };
    let (after, devices) = field(&args.runtime, picture, rate, &profile, &mut watch)?;

    let Watch { mut screen, seconds, timing, film, .. } = watch;
    screen.finish();
    let [before_values, after_values] = [&picture.values, &after].map(|values| Values::of(values));
    screen.line(&format!(
        "{width} x {} pixels, {iterations} steps of {}, coefficient {}, runtime {}",
        picture.height, args.step, args.coefficient, args.runtime
    ))?;
    screen.line(&format!(
        "{:>8}  {:>10}  {:>10}  {:>10}  {:>10}",
        "values", "mean", "least", "most", "deviation"
    ))?;
    screen.line(&before_values.line("before"))?;
    screen.line(&after_values.line("after"))?;
    screen.line(&format!(
        "{:.4} G pixels/s ({seconds:.6} s on {}), dispatch overhead {}",
        (after.len() * iterations) as f64 / seconds.max(1e-9) * 1e-9,
        devices.join(", "),
        timing.overhead()
    ))?;

    let report = Report {
        runtime: &args.runtime,
        devices: &devices,
        width,
        height: picture.height,
        iterations,
        coefficient: args.coefficient,
        step: args.step,
        before: before_values,
        after: after_values,
        seconds,
        dispatch_overhead_percent: timing.overhead_percent(),
    };
    Ok(Files {
        report: args.report.is_some().then(|| crate::report::json(&report)).transpose()?,
        image: args.image.is_some().then(|| drawn(&[&picture.values, &after], width)?.png()).transpose()?,
        animate: film.map(Animation::gif).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_summed_up() {
        let values = Values::of(&[0.0, 1.0, 1.0, 0.0]);
        assert_eq!(values, Values { mean: 0.5, least: 0.0, most: 1.0, deviation: 0.5 });
        assert!(values.line("before").contains("before    0.500000    0.000000    1.000000    0.500000"));
    }

    #[test]
    fn before_and_after_stand_side_by_side() {
        let picture = drawn(&[&[0.0; 6], &[1.0; 6]], 3).expect("a picture");
        assert_eq!(picture.size(), (3 + 8 + 3, 2));
        let mut expected = Picture::new(14, 2, Colours::Gray).expect("a size");
        for (x, y) in (3..14).flat_map(|x| [(x, 0), (x, 1)]) {
            if x < 11 { expected.mark(x, y) } else { expected.set(x, y, 1.0) }
        }
        assert_eq!(picture, expected);
    }
}
