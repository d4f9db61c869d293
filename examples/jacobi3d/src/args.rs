//! The command line.

use anyhow::Result;
use clap::Parser;
use flash_examples::{FILES, Precision, Refused, differ, is_standard};
use jacobi3d::cube::REACH;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  jacobi3d
      50 iterations of 256^3 points, by tasks on all cores.
  jacobi3d --size 128 --tasks 1x2x16 --depth 4 --check
      The same for 128^3 points, in blocks of 128 x 64 x 8 of them, beside one loop on one thread.
  jacobi3d --devices ALL_ACCEL --precision f64 --report run.json
      By launches of a kernel on the best devices there are, with figures for a program to read.
  jacobi3d --size 200 --iterations 400 --image cut.png
      A picture of the temperatures in the middle of the cube.
  jacobi3d --size 128 --iterations 8 --picture tasks.svg
      Which block was worked on when, on which thread.

The problem:
  A cube of points with temperatures between 1/4 and 3/4, in no order, in a wall of two points'
  thickness, which stays at 1 before the first plane and at 0 elsewhere. In each iteration every
  point becomes the mean of 13: itself and its two neighbours on each side along x, y and z.

Exit codes:
  0  success
  1  the run failed: a runtime, a device, a file that cannot be opened or written, other points than
     those of --check
  2  wrong use; nothing was run

";

/// Heat in a cube by Jacobi's method with 13 points: by tasks over blocks of the cube, or by launches on any
/// devices. The bits of the result depend on neither.
#[derive(Parser, Debug)]
#[command(name = "jacobi3d", version, after_help = format!("{EXAMPLES}{FILES}"))]
pub struct Args {
    /// Points along each axis
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=2048))]
    pub size: u32,

    /// Iterations; 0 shows the initial state
    #[arg(long, value_name = "I", default_value_t = 50)]
    pub iterations: u32,

    /// Blocks along x, y and z, of at least two points: a task is one step of one block. Points of a row
    /// along x lie side by side in memory (default: 1x1 and blocks of about eight planes)
    #[arg(long, value_name = "XxYxZ", value_parser = blocks, conflicts_with = "devices")]
    pub tasks: Option<[usize; 3]>,

    /// Steps that a block may go ahead of those behind it along z, while its points are in the cache
    #[arg(long, value_name = "D", default_value_t = 8, conflicts_with = "devices",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: u32,

    /// Run launches of a kernel instead of tasks, on the runtime of this key: a group (ALL_ACCEL, ALL_CPU), a
    /// backend's key, a device (KEY:1) or a list with commas
    #[arg(long, value_name = "KEY")]
    pub devices: Option<String>,

    /// Precision of the arithmetic
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    pub precision: Precision,

    /// Compare all points with those of one loop on one thread, bit by bit
    #[arg(long)]
    pub check: bool,

    /// Write a report of the run to this file: temperatures, seconds, rate. Written when the run has
    /// succeeded
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Write a picture of the temperatures in the plane in the middle along y to this file: the hot wall is
    /// at its bottom. Written when the run has succeeded
    #[arg(long, value_name = "FILE.png")]
    pub image: Option<PathBuf>,

    /// Write what ran when, on which thread and device, to this file, for ui.perfetto.dev. Launches are then
    /// waited for one by one. Written when the run has succeeded
    #[arg(long, value_name = "FILE.json")]
    pub trace: Option<PathBuf>,

    /// Write the same as a picture to this file. Written when the run has succeeded
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long)]
    pub quiet: bool,
}

impl Args {
    /// Blocks along x, y and z.
    ///
    /// # Errors
    /// If some would have fewer than two points along an axis.
    pub fn blocks(&self) -> Result<[usize; 3]> {
        let size = self.size as usize;
        let Some(blocks) = self.tasks else {
            return Ok([1, 1, (size / 8).max(1)]);
        };
        for (axis, count) in ["x", "y", "z"].into_iter().zip(blocks) {
            if count > (size / REACH).max(1) {
                return Err(Refused(format!(
                    "--tasks: expected at most {} blocks along {axis}, of {REACH} points or more, for {size} \
                     points, found {count}: take fewer, or a larger --size",
                    (size / REACH).max(1)
                ))
                .into());
            }
        }
        Ok(blocks)
    }

    /// Refuses file names of which one would overwrite another.
    pub fn check_files(&self) -> Result<()> {
        differ(&self.targets(), 0)
    }

    /// The files to write, by their options.
    fn targets(&self) -> [(&'static str, Option<&Path>); 4] {
        [
            ("--report", self.report.as_deref()),
            ("--image", self.image.as_deref()),
            ("--trace", self.trace.as_deref()),
            ("--picture", self.picture.as_deref()),
        ]
    }

    /// Whether the run is to be recorded.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some() || self.picture.is_some()
    }

    /// Whether nothing is printed, because nothing should be or a file is where it would be.
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.targets().iter().any(|(_, path)| path.is_some_and(is_standard))
    }
}

fn blocks(text: &str) -> Result<[usize; 3], String> {
    let counts: Option<Vec<usize>> = text.split('x').map(|count| count.parse().ok()).collect();
    match counts.and_then(|counts| <[usize; 3]>::try_from(counts).ok()) {
        Some(counts) if !counts.contains(&0) => Ok(counts),
        _ => Err("expected three numbers of blocks, along x, y and z, such as 1x2x16".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &[&str]) -> Args {
        Args::try_parse_from(std::iter::once(&"jacobi3d").chain(line)).expect("a correct line")
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn the_default_is_the_problem_of_the_figures() {
        let args = args(&[]);
        assert_eq!((args.size, args.iterations, args.precision), (256, 50, Precision::F32));
        assert_eq!(args.blocks().expect("blocks"), [1, 1, 32]);
    }

    #[test]
    fn blocks_of_less_than_two_points_are_refused() {
        assert_eq!(args(&["--size", "9", "--tasks", "4x1x4"]).blocks().expect("blocks"), [4, 1, 4]);
        assert_eq!(args(&["--size", "1"]).blocks().expect("one"), [1, 1, 1]);
        let error = args(&["--size", "9", "--tasks", "1x5x4"]).blocks().expect_err("too many");
        assert!(error.is::<Refused>() && error.to_string().contains("at most 4 blocks along y"), "{error}");
        for wrong in ["", "4", "1x2", "1x2x3x4", "0x1x1", "1x-2x3", "axbxc", "1.5x1x1"] {
            assert!(blocks(wrong).is_err(), "{wrong}");
        }
    }
}
