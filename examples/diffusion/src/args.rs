//! The command line.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Parser;
use flash::kernels::diffusion::{LARGEST_GRID, STABLE};
use flash_examples::{FILES, Refused, differ, is_standard};

use crate::source::Source;

const EXAMPLES: &str = "\
Examples:
  diffusion
      The published problem: 256 particles, 10000 iterations, on the best devices there are, its sums
      beside the published ones.
  diffusion --source splitmix --iterations 512 --report counts.json
      Moves that are the same on every machine, to the last bit, and so are the counts. Their
      checksums are in the report.
  diffusion --particles 4096 --image counts.png --animate particles.gif
      Where particles were and are, as pictures.
  diffusion --input moves.csv --particles 10 --runtime ALL_CPU
      Moves from a file.
  diffusion --field photo.png --coefficient 0.2 --iterations 200 --image blurred.png
      Diffuses the grey values of a picture for 200 units of time; `blurred.png` shows them before
      and after, side by side.
  diffusion --report - | grep sums
      A file called - is standard input, or standard output, where nothing else is printed then.

Particles:
  They start in the middle of a grid of cells with a circle in each. Counted are, per cell, 1. the
  particles inside its circle, once per iteration; 2. the particles that are in it at the end;
  3. entries.

Input file:
  Lines of comma-separated values under the header rx,ry: a move in units of a cell, for each
  particle in the first iteration, then for each in the second, and so on. Lines that begin with #
  and empty lines are skipped.

Exit codes:
  0  success
  1  the run failed: a runtime, a device, a file that cannot be opened or written
  2  wrong use, or a malformed file; nothing was run

";

/// Diffusion on any accelerator: of particles on a grid, or of the grey values of a picture.
///
/// Particles move at random, and each cell counts them. A picture's values follow the heat equation, by
/// the explicit scheme u += D dt (the four neighbours' sum - 4 u), with insulated borders.
#[derive(Parser, Debug)]
#[command(name = "diffusion", version, after_help = format!("{EXAMPLES}{FILES}"))]
pub struct Args {
    /// Particles
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=MOST_PARTICLES))]
    pub particles: u32,

    /// Iterations; 0 shows the beginning (default: 10000, or 100 of a --field)
    #[arg(long, value_name = "K")]
    pub iterations: Option<u32>,

    /// Cells along each side of the grid, 1 to 4096
    #[arg(long, value_name = "CELLS", default_value_t = GRID,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_GRID)))]
    pub grid: u32,

    /// Radius of the circles, in cells
    #[arg(long, value_name = "LENGTH", default_value_t = RADIUS, value_parser = radius,
          allow_hyphen_values = true)]
    pub radius: f32,

    /// Seed of the random moves
    #[arg(long, value_name = "SEED", default_value_t = SEED)]
    pub seed: u64,

    /// Where random moves come from
    #[arg(long, value_enum, default_value_t = Source::Philox)]
    pub source: Source,

    /// Read the moves from this file instead; iterations are as many as it has
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["source", "seed", "iterations"])]
    pub input: Option<PathBuf>,

    /// Diffuse the grey values of this picture (PGM or PNG) instead of particles
    #[arg(long, value_name = "FILE.pgm|png",
          conflicts_with_all = ["particles", "grid", "radius", "seed", "source", "input"])]
    pub field: Option<PathBuf>,

    /// Diffusion coefficient D of the field, in pixels^2 per unit of time
    #[arg(long, value_name = "D", default_value_t = 0.2, value_parser = coefficient,
          allow_hyphen_values = true, requires = "field")]
    pub coefficient: f64,

    /// Length of a step of the field, in units of time; at most 1 / (4 D), where the scheme is stable
    #[arg(long, value_name = "TIME", default_value_t = 1.0, value_parser = step,
          allow_hyphen_values = true, requires = "field")]
    pub step: f64,

    /// Runtime key: a group (ALL_ACCEL, ALL_CPU), a backend's key, a device (KEY:1) or a list with
    /// commas
    #[arg(long, value_name = "KEY", default_value = "ALL_ACCEL")]
    pub runtime: String,

    /// Write a report of the run to this file: sums, counts of the middle cell, checksums, seconds,
    /// overhead. Written when the run has succeeded
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Write a picture to this file: the first count of every cell on a logarithmic scale from black to
    /// yellow, and where the particles are; of a field, before and after. Written when the run has succeeded
    #[arg(long, value_name = "FILE.png")]
    pub image: Option<PathBuf>,

    /// Write about 60 such pictures, one after another, to this file (of a field, what it has become).
    /// Written when the run has succeeded
    #[arg(long, value_name = "FILE.gif")]
    pub animate: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long)]
    pub quiet: bool,
}

/// Any memory has room for several arrays of this many.
const MOST_PARTICLES: i64 = 1 << 24;
const GRID: u32 = 22;
const RADIUS: f32 = 0.5;
const SEED: u64 = 777;
/// Iterations, where none are given.
const ITERATIONS: [usize; 2] = [10_000, 100];

impl Args {
    /// Iterations that were asked for.
    pub fn iterations(&self) -> usize {
        let [particles, field] = ITERATIONS;
        let default = if self.field.is_some() { field } else { particles };
        self.iterations.map_or(default, |iterations| iterations as usize)
    }

    /// Whether the published sums are those of this run.
    pub fn is_published_problem(&self) -> bool {
        self.input.is_none()
            && (self.source, self.seed) == (Source::Philox, SEED)
            && (self.particles, self.grid, self.radius) == (256, GRID, RADIUS)
            && self.iterations() == ITERATIONS[0]
    }

    /// D dt / h^2 of the field, in pixels.
    ///
    /// # Errors
    /// [`Refused`] with the largest stable step, if the scheme would not be stable.
    pub fn rate(&self) -> Result<f32> {
        let (largest, rate) = (f64::from(STABLE), self.coefficient * self.step);
        if rate <= largest {
            return Ok(rate as f32);
        }
        // Rounded down, so that the advised step is accepted.
        let stable = largest / self.coefficient;
        let digits = 10f64.powf(5.0 - stable.log10().ceil());
        let advised = (stable * digits).floor() / digits;
        Err(Refused(format!(
            "--step {}: expected at most {advised}, the largest stable step 1 / (4 D) for a --coefficient D of \
             {}, found {:.4} times that: give --step {advised} and {:.1} times the --iterations",
            self.step,
            self.coefficient,
            rate / largest,
            self.step / advised
        ))
        .into())
    }

    /// Refuses file names of which one would overwrite another.
    pub fn check_files(&self) -> Result<()> {
        let read = [("--input", self.input.as_deref()), ("--field", self.field.as_deref())];
        differ(&[&read[..], &self.targets()].concat(), read.len())
    }

    /// The files to write, by their options.
    fn targets(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--report", self.report.as_deref()),
            ("--image", self.image.as_deref()),
            ("--animate", self.animate.as_deref()),
        ]
    }

    /// Whether nothing is printed, because nothing should be or a file is where it would be.
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.targets().iter().any(|(_, path)| path.is_some_and(is_standard))
    }
}

fn radius(text: &str) -> Result<f32, String> {
    match text.trim().parse::<f32>() {
        Ok(radius) if radius.is_finite() && radius >= 0.0 => Ok(radius),
        _ => Err("expected a finite length, zero or positive, such as 0.5".into()),
    }
}

fn coefficient(text: &str) -> Result<f64, String> {
    positive(
        text,
        "expected a coefficient above zero, such as 0.2 (1e-31 to 1e30): with none, nothing spreads",
    )
}

fn step(text: &str) -> Result<f64, String> {
    positive(text, "expected a time above zero, such as 1 (1e-31 to 1e30): diffusion does not run backwards")
}

fn positive(text: &str, otherwise: &str) -> Result<f64, String> {
    // A value that is far larger or smaller has no sensible inverse.
    match text.trim().parse::<f64>() {
        Ok(number) if (1e-31..=1e30).contains(&number) => Ok(number),
        _ => Err(otherwise.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        let line = line.split_whitespace();
        Args::try_parse_from(std::iter::once("diffusion").chain(line)).expect("a correct line")
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn the_default_is_the_published_problem() {
        assert!(args("").is_published_problem());
        assert_eq!((args("").iterations(), args("--field f.png").iterations()), (10_000, 100));
        for line in ["--seed 1", "--particles 255", "--grid 21", "--iterations 9999", "--source splitmix"] {
            assert!(!args(line).is_published_problem(), "{line}");
        }
    }

    #[test]
    fn an_unstable_step_is_refused_with_one_that_is_taken() {
        assert_eq!(args("--field f.png --coefficient 0.25").rate().expect("stable"), 0.25);
        for coefficient in ["0.2500001", "0.3", "0.7", "3", "123.456", "1e9", "1e25", "1e30"] {
            let line = format!("--field f.png --coefficient {coefficient}");
            let error = args(&line).rate().expect_err("unstable");
            assert!(error.is::<Refused>() && error.to_string().contains("largest stable step"), "{error}");
            let text = error.to_string();
            let advised = text.split("give --step ").nth(1).expect("advice");
            let advised = advised.split(' ').next().expect("a number");
            let near = args(&format!("{line} --step {advised}")).rate().expect("taken");
            assert!(near > 0.2499, "{advised} for {coefficient}: {near}");
        }
    }
}
