//! What is observed while a run goes on: the clock, energies, the launches' profile.

use std::time::Instant;

use anyhow::{Result, bail};
use flash::prelude::{FlashMemory, Profile};
use flash_examples::{Animation, Screen, Timing, digits};

use crate::args::Args;
use crate::bodies::{Bodies, Constants, Scalar};
use crate::draw::Film;
use crate::{energy, problem};

/// Figures of a run. Lists hold one value per launch: one per step, or one for all of them where
/// all are launched at once.
#[derive(Default)]
pub struct Record {
    pub kinetic: Vec<f64>,
    /// If total energies were asked for.
    pub initial_total: Option<f64>,
    pub total: Vec<f64>,
    /// From the submission to its completion, as the host's clock has it.
    pub seconds: Vec<f64>,
    timing: Timing,
}

impl Record {
    /// Interactions per second: n^2 per step, over the time of all steps.
    pub fn rate(&self, bodies: usize, steps: usize) -> Option<f64> {
        let seconds: f64 = self.seconds.iter().sum();
        (seconds > 0.0).then(|| (bodies as f64).powi(2) * steps as f64 / seconds)
    }

    /// Launch time beyond the kernels' own, in percent of theirs.
    pub fn overhead_percent(&self) -> Option<f64> {
        self.timing.overhead_percent()
    }
}

/// Watches a run of the host code: `more` before each launch, `observe` after it.
pub struct Watch<'a, T> {
    profile: &'a Profile,
    constants: Constants<T>,
    steps: usize,
    /// Steps per launch.
    pub stride: usize,
    energies: bool,
    total_energy: bool,
    published: bool,
    /// A file waits for the result, so that the run goes on without a reader of stdout.
    for_file: bool,
    /// What is run, in words.
    header: String,
    /// Energies of the initial state, until they have been shown.
    initial: Option<(f64, Option<f64>)>,
    done: usize,
    clock: Instant,
    screen: Screen,
    film: Option<Film>,
    record: Record,
}

impl<'a, T: Scalar> Watch<'a, T> {
    pub fn new(
        args: &Args,
        bodies: &Bodies<T>,
        constants: &Constants<T>,
        profile: &'a Profile,
    ) -> Result<Self> {
        let energies = !args.is_quiet() || args.report.is_some();
        let mut watch = Self {
            profile,
            constants: *constants,
            steps: args.steps,
            stride: args.steps_per_launch(),
            energies,
            total_energy: energies && args.total_energy,
            published: args.is_published_problem(),
            for_file: [&args.output, &args.report, &args.image, &args.animate]
                .iter()
                .any(|file| file.is_some()),
            header: header(args, bodies.len()),
            initial: None,
            done: 0,
            clock: Instant::now(),
            screen: Screen::new(args.is_quiet(), args.steps, "steps"),
            film: args.animate.as_ref().map(|_| Film::new(bodies, args.steps)).transpose()?,
            record: Record::default(),
        };
        if energies {
            let initial = watch.energies(&bodies.mass, &bodies.pos, &bodies.vel)?;
            watch.record.initial_total = initial.1;
            watch.initial = Some(initial);
        }
        Ok(watch)
    }

    /// Whether there is another launch to make. Starts the clock. The first time, now that there
    /// is a runtime, it shows the initial state.
    pub fn more(&mut self) -> Result<bool> {
        if let Some((kinetic, total)) = self.initial.take() {
            self.screen.line(&self.header)?;
            self.show_columns()?;
            self.show(kinetic, total)?;
            self.screen.progress(0);
        }
        let abandoned = self.screen.is_closed() && !self.for_file;
        self.clock = Instant::now();
        Ok(self.done < self.steps && !abandoned)
    }

    /// Notes a launch that has completed. Reads the memories only if energies or pictures are wanted.
    pub fn observe(
        &mut self,
        mass: &FlashMemory<T>,
        pos: &FlashMemory<[T; 3]>,
        vel: &FlashMemory<[T; 3]>,
    ) -> Result<()> {
        let wall = self.clock.elapsed();
        self.done += self.stride;
        self.record.seconds.push(wall.as_secs_f64());
        self.record.timing.note(self.profile, wall);
        if self.energies {
            let (kinetic, total) = self.energies(&mass.read()?, &pos.read()?, &vel.read()?)?;
            self.record.kinetic.push(kinetic);
            self.record.total.extend(total);
            self.show(kinetic, total)?;
        }
        if let Some(film) = &mut self.film
            && film.wants(self.done)
        {
            film.show(&mass.read()?, &pos.read()?)?;
        }
        self.screen.progress(self.done);
        Ok(())
    }

    /// Shows rate and overhead, and gives the figures and the animation, if one was asked for.
    pub fn finish(mut self, bodies: usize, devices: &[String]) -> Result<(Record, Option<Animation>)> {
        self.screen.finish();
        let (done, devices) = (self.done, devices.join(", "));
        if let Some(rate) = self.record.rate(bodies, done) {
            let seconds: f64 = self.record.seconds.iter().sum();
            let overhead = self.record.timing.overhead();
            self.screen.line(&format!(
                "{:.4} G interactions/s ({done} steps in {seconds:.6} s on {devices}), dispatch \
                 overhead {overhead}",
                rate * 1e-9
            ))?;
        }
        Ok((self.record, self.film.map(Film::finish)))
    }

    /// Kinetic energy, and the total one if asked for.
    fn energies(&self, mass: &[T], pos: &[[T; 3]], vel: &[[T; 3]]) -> Result<(f64, Option<f64>)> {
        let kinetic = energy::kinetic(mass, vel);
        let total = self.total_energy.then(|| kinetic + energy::potential(mass, pos, &self.constants));
        if !kinetic.is_finite() || total.is_some_and(|total| !total.is_finite()) {
            bail!(
                "after step {}: expected finite energies, found a kinetic energy of {kinetic:e}{}: \
                 bodies came too close or too fast for these steps; take a smaller --dt or a \
                 larger --softening, or --precision f64",
                self.done,
                total.map_or(String::new(), |total| format!(" and a total of {total:e}"))
            );
        }
        Ok((kinetic, total))
    }

    fn show_columns(&mut self) -> Result<()> {
        let mut header = format!("{:>8}  {:>16}", "step", "kinetic energy");
        if self.published {
            header += &format!("  {:>10}", "published");
        }
        if self.total_energy {
            header += &format!("  {:>16}", "total energy");
        }
        self.screen.line(&header)
    }

    fn show(&mut self, kinetic: f64, total: Option<f64>) -> Result<()> {
        let mut line = format!("{:>8}  {:>16}", self.done, digits(kinetic, 9));
        let published = problem::published(self.done).filter(|_| self.published);
        if self.published {
            let text = published.map_or("-".into(), |energy| digits(energy, 5));
            line += &format!("  {text:>10}");
        }
        if let Some(total) = total {
            line += &format!("  {:>16}", digits(total, 9));
        }
        if published.is_some_and(|published| !problem::agrees(kinetic, published)) {
            line += "  differs from the published one";
        }
        self.screen.line(&line)
    }
}

fn header(args: &Args, bodies: usize) -> String {
    let (steps, dt, precision) = (args.steps, args.dt, args.precision.name());
    let runtime = &args.runtime;
    format!("{bodies} bodies, {steps} steps of {dt}, {precision}, runtime {runtime}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_overhead_need_something_measured() {
        let mut record = Record::default();
        assert_eq!((record.rate(10, 0), record.overhead_percent()), (None, None));
        record.seconds = vec![0.5, 1.5];
        assert_eq!(record.rate(10, 2), Some(100.0));
    }
}
