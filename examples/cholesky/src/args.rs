//! The command line.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cholesky::MOST_TILES;
use clap::Parser;
use flash_examples::{FILES, Precision, Refused, differ, is_standard};

const EXAMPLES: &str = "\
How it works:
  The lower triangle is cut into tiles of --tile rows and columns. Column by column, the tile on the
  diagonal becomes its own factor (potrf), the tiles below it are solved by that (trsm), and what
  the column contributes is subtracted from the tiles on its right (syrk on the diagonal, gemm
  elsewhere). A step runs as soon as the tiles that it needs are done, whatever its column. The
  factor is the same to the bit for any number of --replicas; it depends on the size of the tiles.

Examples:
  cholesky --check
      The factor of a matrix of 2048 rows on the best devices there are, compared with the matrix in
      double precision.
  cholesky --n 5000 --tile 320 --precision f32 --devices ALL_CPU
      Other sizes; tiles at the edge are smaller.
  cholesky --diagonal 10
      A matrix that is not positive definite: the error says at which pivot that is seen.
  cholesky --picture graph.svg --trace run.json
      A picture of the graph with its counts, and a trace for ui.perfetto.dev.

Exit codes:
  0  success
  1  the run failed: a matrix that is not positive definite, a runtime, a device, too little memory, a
     file that cannot be opened or written, a wrong factor (--check)
  2  wrong use; nothing was run

";

/// The Cholesky factorisation A = L L^T of a symmetric matrix, in tiles, as a dataflow graph on any devices.
///
/// The matrix is generated: elements between -1 and 1, the same in each run, and --diagonal added to those on
/// the diagonal.
#[derive(Parser, Debug)]
#[command(name = "cholesky", version, after_help = format!("{EXAMPLES}{FILES}"))]
pub struct Args {
    /// Rows and columns of the matrix
    #[arg(long, value_name = "N", default_value = "2048")]
    pub n: NonZeroUsize,

    /// Rows and columns of a tile
    #[arg(long, value_name = "EDGE", default_value = "256")]
    pub tile: NonZeroUsize,

    /// Runtime key: a group (ALL_ACCEL, ALL_CPU), a backend's key, a device (KEY:1) or a list with
    /// commas
    #[arg(long, value_name = "KEY", default_value = "ALL_ACCEL")]
    pub devices: String,

    /// Steps of each kind that run at the same time (default: the threads of CPUs, and 4 for each other
    /// device)
    #[arg(long, value_name = "COUNT")]
    pub replicas: Option<NonZeroUsize>,

    /// What is added to the diagonal (default: N, with which the matrix is positive definite)
    #[arg(long, value_name = "NUMBER", value_parser = finite, allow_hyphen_values = true)]
    pub diagonal: Option<f64>,

    /// Precision of the elements and of the arithmetic
    #[arg(long, value_enum, default_value_t = Precision::F64)]
    pub precision: Precision,

    /// Compare the product of the factor and its transposed one with the matrix, in double precision: all
    /// elements if that is cheap, else some of each tile
    #[arg(long)]
    pub check: bool,

    /// Write a picture of the graph to this file, with the counts of the run: SVG, or the language of
    /// Graphviz if its name does not end in .svg. Written when the run has succeeded
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,

    /// Write a trace to this file, for ui.perfetto.dev. Written when the run has succeeded
    #[arg(long, value_name = "FILE.json")]
    pub trace: Option<PathBuf>,

    /// Write a report of the run to this file: sizes, seconds, rate. Written when the run has succeeded
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long)]
    pub quiet: bool,
}

impl Args {
    /// Refuses sizes that no memory has room for, too many tiles, and file names of which one would overwrite
    /// another.
    pub fn check(&self, element: usize) -> Result<()> {
        let n = self.n.get();
        let bytes = n.checked_mul(n).and_then(|elements| elements.checked_mul(element));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(Refused(format!(
                "--n: expected a matrix that an address space has room for, found {n} by {n} elements of {element} bytes: take a smaller one"
            ))
            .into());
        }
        let tiles = n.div_ceil(self.tile.get());
        if tiles > MOST_TILES {
            return Err(Refused(format!(
                "--tile: expected at most {MOST_TILES} tiles in a row, found {tiles} of {} elements: take larger tiles",
                self.tile
            ))
            .into());
        }
        differ(&self.targets(), 0)
    }

    fn targets(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--picture", self.picture.as_deref()),
            ("--trace", self.trace.as_deref()),
            ("--report", self.report.as_deref()),
        ]
    }

    /// Whether nothing is printed, because nothing should be or a file is where it would be.
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.targets().iter().any(|(_, path)| path.is_some_and(is_standard))
    }

    /// What is added to the diagonal.
    pub fn diagonal(&self) -> f64 {
        self.diagonal.unwrap_or(self.n.get() as f64)
    }
}

fn finite(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("expected a finite decimal number, such as 0.1 or 100".into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        super::Args::command().debug_assert();
    }
}
