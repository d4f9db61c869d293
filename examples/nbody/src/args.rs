//! The command line.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, ValueEnum};
use flash_examples::{FILES, Precision, Refused, differ, is_standard};

use crate::bodies::{Constants, Scalar};
use crate::problem;

const EXAMPLES: &str = "\
Examples:
  nbody
      The reference problem: 16000 bodies, 10 steps, on the best devices there are, its kinetic
      energies beside the published ones.
  nbody --runtime ALL_CPU --bodies 4096 --steps 100 --report run.json
      A smaller problem on the CPU, with figures for a program to read.
  nbody --input data/solar-system.csv --gravity 1 --softening 0 --precision f64 \\
        --dt 0.01 --steps 10000 --total-energy --output after.csv
      A hundred years of the outer planets (the file's units: au, years, G = 1). `after.csv` can
      be the --input of the next run.
  nbody --bodies 1024 --steps 2 --record steps.flash
      Also writes the launches and their data to a file. `flash replay steps.flash` runs it again;
      `flash diff steps.flash --a ALL_CPU --b KEY` shows where another runtime gives another result.
  nbody --bodies 4096 --dt 1 --steps 40 --animate collapse.gif
      A cloud of bodies falls together, as pictures one after another.
  nbody --bodies 64 --output - | nbody --input - --steps 100
      A file called - is standard input, or standard output, where nothing else is printed then.

Input file:
  Lines of comma-separated values under the header name,mass,x,y,z,vx,vy,vz, one body per line.
  Lines that begin with # and empty lines are skipped. A name may be any text (in double quotes
  if it has a comma in it); numbers are decimal and finite, masses not negative. Numbers are read
  in the precision of the run.

Exit codes:
  0  success
  1  the run failed: a runtime, a device, a file that cannot be opened or written, a state that is
     no longer finite
  2  wrong use, or a malformed input file; nothing was run

";

/// All-pairs gravitational N-body simulation on any accelerator.
///
/// Each step computes a_i = sum over j of G m_j d_ij (|d_ij|^2 + softening^2)^(-3/2) for every
/// body i, then v += a dt and x += v dt.
#[derive(Parser, Debug)]
#[command(name = "nbody", version, after_help = format!("{EXAMPLES}{FILES}"))]
pub struct Args {
    /// Bodies of the generated problem (default: 16000)
    #[arg(long, value_name = "N", conflicts_with = "input",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub bodies: Option<u32>,

    /// Steps to run; 0 shows the initial state
    #[arg(long, value_name = "S", default_value_t = 10)]
    pub steps: usize,

    /// Length of a step, in units of time (s, or those of the input file)
    #[arg(long, value_name = "TIME", default_value_t = problem::DT,
          value_parser = finite, allow_hyphen_values = true)]
    pub dt: f64,

    /// Softening length, in units of length; squared in the formula (default: the length whose
    /// square is 0.001, about 0.0316)
    #[arg(long, value_name = "LENGTH", value_parser = length, allow_hyphen_values = true)]
    pub softening: Option<f64>,

    /// Gravitational constant, in length^3 mass^-1 time^-2
    #[arg(long, value_name = "G", default_value = "6.67259e-11",
          value_parser = finite, allow_hyphen_values = true)]
    pub gravity: f64,

    /// Precision of the arithmetic and of numbers read. In f64 the generated problem is the
    /// single-precision one, widened
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    pub precision: Precision,

    /// How a step is dispatched
    #[arg(long, value_enum, default_value_t = Form::TwoKernels)]
    pub form: Form,

    /// Runtime key: a group (ALL_ACCEL, ALL_CPU), a backend's key, a device (KEY:1) or a list with
    /// commas
    #[arg(long, value_name = "KEY", default_value = "ALL_ACCEL")]
    pub runtime: String,

    /// Read the bodies from this file instead of generating them
    #[arg(long, value_name = "FILE.csv")]
    pub input: Option<PathBuf>,

    /// Write the final state to this file, in the format of --input, with as many digits as read
    /// back the same. May be the input file. Written when the run has succeeded
    #[arg(long, value_name = "FILE.csv")]
    pub output: Option<PathBuf>,

    /// Write a report of the run to this file: energies and seconds after each step, rate,
    /// overhead. Written when the run has succeeded
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Write the run to this file as one pipeline with its data, for `flash replay` and `flash diff`:
    /// as JSON if its name ends in .json, else in a compact binary form. Written before the run
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Write a picture of the final state to this file: the mass along z over x and y, on a logarithmic
    /// scale from black to yellow. Written when the run has succeeded
    #[arg(long, value_name = "FILE.png")]
    pub image: Option<PathBuf>,

    /// Write an animation to this file: such a picture of the initial state and after each step, or of
    /// about 100 of the steps, if there are more. Written when the run has succeeded
    #[arg(long, value_name = "FILE.gif")]
    pub animate: Option<PathBuf>,

    /// Also compute the total energy (kinetic and potential) before the first and after each step:
    /// n^2/2 pairs in double precision, on the host
    #[arg(long)]
    pub total_energy: bool,

    /// Print nothing but errors
    #[arg(long)]
    pub quiet: bool,
}

/// How a step is dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A chain of two kernels per step: accelerations, then velocities and positions
    TwoKernels,
    /// One kernel with a barrier between its two stages. Steps are launched one at a time, so that
    /// each can be shown and reported; with --quiet and without --report and --animate, all in one launch
    OneKernel,
}

impl Args {
    /// Bodies of the generated problem.
    pub fn body_count(&self) -> usize {
        self.bodies.map_or(problem::BODIES, |bodies| bodies as usize)
    }

    /// Steps per launch: all, where nothing is shown between them.
    pub fn steps_per_launch(&self) -> usize {
        let unwatched = self.is_quiet() && self.report.is_none() && self.animate.is_none();
        if self.form == Form::OneKernel && unwatched { self.steps } else { 1 }
    }

    /// Whether the published energies are those of this run.
    pub fn is_published_problem(&self) -> bool {
        self.input.is_none()
            && self.body_count() == problem::BODIES
            && self.dt == problem::DT
            && self.gravity == problem::GRAVITY
            && self.softening.is_none()
    }

    /// The constants of the formula, in the precision of the run.
    pub fn constants<T: Scalar>(&self) -> Result<Constants<T>> {
        let narrow = |option: &str, value: f64| -> Result<T> {
            let narrowed = T::narrowed(value);
            let kept = narrowed.widened().is_finite() && (narrowed.widened() == 0.0) == (value == 0.0);
            if kept {
                return Ok(narrowed);
            }
            Err(Refused(format!(
                "{option}: expected a number that {} can hold, found {value:e}: use --precision \
                 f64, or other units",
                self.precision.name()
            ))
            .into())
        };
        let softening2 = match self.softening {
            // Not squared from a length: no f64 squares to the problem's 1e-3.
            None => narrow("--softening", problem::SOFTENING2)?,
            Some(0.0) => T::narrowed(0.0),
            Some(length) => {
                let square = length * length;
                if square == 0.0 || square.is_infinite() {
                    return Err(Refused(format!(
                        "--softening: expected a length whose square a double can hold, found \
                         {length:e}: use other units"
                    ))
                    .into());
                }
                narrow("--softening (squared)", square)?
            }
        };
        Ok(Constants { g: narrow("--gravity", self.gravity)?, softening2, dt: narrow("--dt", self.dt)? })
    }

    /// Refuses file names of which one would overwrite another. The final state may replace the input.
    pub fn check_files(&self) -> Result<()> {
        let [output, others @ ..] = self.targets();
        differ(&[&[("--input", self.input.as_deref())], &others[..]].concat(), 1)?;
        differ(&[&[output], &others[..]].concat(), 0)
    }

    /// The files to write, by their options.
    fn targets(&self) -> [(&'static str, Option<&Path>); 5] {
        [
            ("--output", self.output.as_deref()),
            ("--report", self.report.as_deref()),
            ("--record", self.record.as_deref()),
            ("--image", self.image.as_deref()),
            ("--animate", self.animate.as_deref()),
        ]
    }

    /// Whether nothing is printed, because nothing should be or a file is where it would be.
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.targets().iter().any(|(_, path)| path.is_some_and(is_standard))
    }
}

fn finite(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("expected a finite decimal number, such as 0.1 or 6.67e-11".into()),
    }
}

fn length(text: &str) -> Result<f64, String> {
    match finite(text) {
        Ok(length) if length >= 0.0 => Ok(length),
        _ => Err("expected a finite length, zero or positive".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &[&str]) -> Args {
        Args::try_parse_from(std::iter::once(&"nbody").chain(line)).expect("a correct line")
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn the_default_is_the_published_problem_with_its_exact_constants() {
        let args = args(&[]);
        assert!(args.is_published_problem());
        let constants = args.constants::<f64>().expect("constants");
        assert_eq!(constants.softening2, 1e-3);
        assert_eq!(constants.g, problem::GRAVITY);
        assert_eq!(constants.dt, 0.1);
    }

    #[test]
    fn softening_is_a_length_and_is_squared() {
        let constants = args(&["--softening", "0.5"]).constants::<f64>();
        assert_eq!(constants.expect("constants").softening2, 0.25);
    }

    #[test]
    fn other_constants_are_not_the_published_problem() {
        for line in [["--dt", "0.2"], ["--bodies", "15999"], ["--gravity", "1"], ["--softening", "0"]] {
            assert!(!args(&line).is_published_problem(), "{line:?}");
        }
        assert!(args(&["--steps", "3", "--precision", "f64"]).is_published_problem());
    }

    #[test]
    fn constants_that_single_precision_cannot_hold_are_refused() {
        for line in [["--dt", "1e39"], ["--gravity", "1e-60"], ["--softening", "1e30"]] {
            let error = args(&line).constants::<f32>().expect_err("no f32");
            assert!(error.is::<Refused>() && error.to_string().contains(line[0]), "{error}");
            args(&line).constants::<f64>().expect("an f64");
        }
    }

    #[test]
    fn all_steps_go_in_one_launch_only_where_nobody_looks() {
        let steps = |line: &[&str]| args(line).steps_per_launch();
        assert_eq!(steps(&["--quiet", "--form", "one-kernel"]), 10);
        assert_eq!(steps(&["--form", "one-kernel"]), 1);
        assert_eq!(steps(&["--quiet", "--form", "one-kernel", "--report", "r.json"]), 1);
        assert_eq!(steps(&["--quiet"]), 1);
    }
}
