//! The command line.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Parser;
use flash_examples::{FILES, Precision, differ, is_standard};
use gemm::plan::Wish;

const EXAMPLES: &str = "\
How it works:
  The matrices are cut into tiles of --tile rows and columns. A job is a window of tiles of C: the
  largest one that fits a device. Its H rows and W columns of tiles, with the tiles of A and B for
  --depth steps along k, take H W + depth (H + W) tiles. Each device takes the next job when it is
  free; the next steps are loaded while one is computed. A result is the same to the bit for any
  number of --replicas and any windows: it depends on the size of the tiles.

Examples:
  gemm --check
      The product of two matrices of 2048 rows and columns on the best devices there are, compared
      with sums in double precision.
  gemm --m 1000 --k 3000 --n 500 --tile 256 --precision f64 --devices ALL_CPU
      Other sizes; tiles at the edges are smaller.
  gemm --budget 20000000 --report -
      Windows that take at most 20 MB of each device, and figures for a program to read.
  gemm --picture graph.svg --trace run.json
      A picture of the graph with its counts, and a trace for ui.perfetto.dev.

Exit codes:
  0  success
  1  the run failed: a runtime, a device, too little memory, a file that cannot be opened or written,
     a wrong product (--check)
  2  wrong use; nothing was run

";

/// C = A B, or C = A B + C, in windows of tiles, as a dataflow graph on any devices.
///
/// The matrices are generated: elements between -1 and 1, the same in each run.
#[derive(Parser, Debug)]
#[command(name = "gemm", version, after_help = format!("{EXAMPLES}{FILES}"))]
pub struct Args {
    /// Rows of A and C
    #[arg(long, value_name = "M", default_value = "2048")]
    pub m: NonZeroUsize,

    /// Columns of A and rows of B
    #[arg(long, value_name = "K", default_value = "2048")]
    pub k: NonZeroUsize,

    /// Columns of B and C
    #[arg(long, value_name = "N", default_value = "2048")]
    pub n: NonZeroUsize,

    /// Rows and columns of a tile
    #[arg(long, value_name = "EDGE", default_value = "512")]
    pub tile: NonZeroUsize,

    /// Runtime key: a group (ALL_ACCEL, ALL_CPU), a backend's key, a device (KEY:1) or a list with
    /// commas
    #[arg(long, value_name = "KEY", default_value = "ALL_ACCEL")]
    pub devices: String,

    /// Steps along k whose tiles of A and B a device has at the same time: one is computed, the others
    /// are loaded
    #[arg(long, value_name = "D", default_value = "2")]
    pub depth: NonZeroUsize,

    /// For each of those steps, steps whose tiles are ready on the host
    #[arg(long, value_name = "L", default_value = "1")]
    pub lookahead: NonZeroUsize,

    /// Products that a device computes at the same time (default: 1 by all threads, where it works in place
    /// in the host's memory; else the threads of a CPU, or 4)
    #[arg(long, value_name = "COUNT")]
    pub replicas: Option<NonZeroUsize>,

    /// Bytes of each device's memory that may be used (default: all)
    #[arg(long, value_name = "BYTES")]
    pub budget: Option<u64>,

    /// Adds the product to what C has, instead of setting it
    #[arg(long)]
    pub add: bool,

    /// Precision of the elements and of the arithmetic
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    pub precision: Precision,

    /// Compare the product with sums in double precision: all elements if that is cheap, else some of
    /// each tile
    #[arg(long)]
    pub check: bool,

    /// Write a picture of the graph to this file, with the counts of the run: SVG, or the language of
    /// Graphviz if its name does not end in .svg. Written when the run has succeeded
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,

    /// Write a trace to this file, for ui.perfetto.dev. Written when the run has succeeded
    #[arg(long, value_name = "FILE.json")]
    pub trace: Option<PathBuf>,

    /// Write a report of the run to this file: sizes, windows, seconds, rate, copied bytes. Written when
    /// the run has succeeded
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long)]
    pub quiet: bool,
}

impl Args {
    /// What is asked for.
    pub fn wish(&self) -> Wish {
        Wish {
            sizes: [self.m, self.k, self.n].map(NonZeroUsize::get),
            tile: self.tile.get(),
            depth: self.depth.get(),
            lookahead: self.lookahead.get(),
            replicas: self.replicas.map(NonZeroUsize::get),
            budget: self.budget,
            adds: self.add,
        }
    }

    /// Refuses file names of which one would overwrite another.
    pub fn check_files(&self) -> anyhow::Result<()> {
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
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        super::Args::command().debug_assert();
    }
}
