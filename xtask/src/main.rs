//! `cargo xtask`: set-up, tests and benchmarks of the FLASH workspace, so that a
//! fresh machine with Rust and a C compiler needs no other command.
//!
//! - `setup` installs what the tests need beyond Rust (`setup.rs`).
//! - `test` runs everything that can be tested here (`test.rs`).
//! - `env` and `run` make the OpenCL devices that `setup` installs visible (`opencl.rs`).
//! - `check-cuda` compiles every CUDA kernel (`cuda.rs`).
//! - `sanitize` runs tests under ThreadSanitizer, and a fuzzer (`sanitize.rs`).
//! - `soak` runs random graphs, tasks and launches against models, and long runs of C2MPI (`soak.rs`).
//! - `gpu` tests and measures the CUDA backend where there is a GPU (`gpu/`).
//! - `install` puts the library for C, the program, plugins and headers under a prefix (`install.rs`).
//! - `bench` measures FLASH beside its peers (`bench.rs`).
//!
//! # Skipped tests
//!
//! Rust's test harness knows passed, failed and ignored, and hides the output of
//! a test that passes. A test that finds out while running that it cannot run
//! here (no GPU, no Fortran compiler) therefore appends one line to the file named
//! by `FLASH_SKIP_LOG`, in one write, and returns:
//!
//! ```text
//! skipped: NAME: why
//! ```
//!
//! NAME is the test's name as the harness prints it (`module::name`): the test
//! then counts as skipped instead of passed. Any other NAME stands for a part of a
//! test (one device of several, say): it counts as skipped, and the test around it
//! as passed. NAME does not contain `": "`. A reason is a few words on one line and
//! begins with what is missing: `no GPU`, `no AVX-512`, `no gfortran`. Without
//! `FLASH_SKIP_LOG` (a plain `cargo test`) the line goes to standard error.
//!
//! `#[ignore = "why"]` follows the same rule. With `CI=true`, a reason that does not
//! begin with one of [`tally::ALLOWED_IN_CI`] makes the run fail.

mod bench;
mod cuda;
mod gpu;
mod install;
mod mpi;
mod opencl;
mod sanitize;
mod setup;
mod soak;
mod tally;
mod test;
#[cfg(test)]
mod tidy;
mod wheels;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Set-up, tests and benchmarks of the FLASH workspace.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    arg_required_else_help = true,
    after_help = "\
Examples:
  cargo xtask test                           everything; installs what is missing
  cargo xtask run nbody --runtime OPENCL     a program of the workspace, with OpenCL devices
  eval \"$(cargo xtask env)\"                  the same devices for this shell
  cargo xtask bench --list                   the benchmarks there are
  cargo xtask bench dispatch                 one of them, beside its peers
  cargo xtask bench dispatch --json d.json   the same, the rows also to a file
  cargo xtask bench dispatch --against DIR   the same here and in another checkout, as ratios
  cargo xtask soak graphs --minutes 30       random graphs, until the time is over or one fails
  cargo xtask soak ranks --minutes 30        the runtime's tests on agents, then random launches on some that end
  cargo xtask soak functions --count 1       500 random functions, on all devices that compile them
  cargo xtask soak halo --only claims        one of the long runs of C2MPI
  cargo xtask install --prefix /opt/flash --release   the library for C, C++ and Fortran
  cargo xtask gpu --pack FOLDER              for a machine that has a GPU, but no Rust

Environment:
  CI=true   a test may be skipped only for want of hardware or of a nightly
            toolchain; anything else missing is an error

Exit status: 0 success, 1 something failed, 2 wrong usage."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the tests need beyond Rust.
    ///
    /// Uses apt, as root or through `sudo -n`; elsewhere prints what to install.
    /// Intel's OpenCL runtimes and NVIDIA's CUDA compilers are downloaded into the build directory.
    /// Does nothing, quickly, where all is there.
    Setup,
    /// Print the `export` lines that make the OpenCL devices visible to a shell.
    ///
    /// What is missing is installed first, and the backends are built; only the lines go to
    /// standard output.
    Env,
    /// Run a program of the workspace, such as `nbody` or `flash`, with the OpenCL devices visible.
    Run {
        /// Its name
        program: String,
        /// What it is given
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Set up, then run every test: the workspace, the loom models, Miri.
    ///
    /// The output of `cargo test` is passed through. The last line is
    /// `N passed, N failed, N skipped`; what was skipped, and why, is named above it.
    Test,
    /// Compile every CUDA kernel to PTX and machine code, and print what each one uses.
    ///
    /// Needs no GPU. Fails if a kernel does not compile, or has no room for its registers.
    CheckCuda(cuda::Options),
    /// Test and measure the CUDA backend on this machine's GPU, and write what came out to docs/gpu.md.
    ///
    /// Takes some ten minutes. Each step has a time limit, and one that fails does not stop the others. For a
    /// machine without Rust, `--pack FOLDER` puts all that is needed into a folder: `FOLDER/xtask gpu --from
    /// FOLDER` then does the same there. Exit status 0 if all that ran passed.
    Gpu(gpu::Options),
    /// Install FLASH for host programs in C, C++ and Fortran, with the program `flash` and plugins.
    ///
    /// Headers, libflash.so, the Fortran module, and files for pkg-config and CMake: docs/c.md.
    Install(install::Options),
    /// Measure FLASH beside its peers; installs and compiles the peers first.
    Bench(bench::Options),
    /// Run random graphs, tasks, launches or functions against models, until a time is over or one fails.
    Soak(soak::Options),
    /// Run the runtime's tests under ThreadSanitizer, or fuzz what reads files.
    Sanitize(sanitize::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Setup => setup::tests().map(|()| ExitCode::SUCCESS),
        Command::Env => opencl::print_environment().map(|()| ExitCode::SUCCESS),
        Command::Run { program, arguments } => opencl::run(&program, &arguments),
        Command::Test => test::run(),
        Command::CheckCuda(options) => cuda::check(&options),
        Command::Gpu(options) => gpu::run(&options),
        Command::Install(options) => install::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Bench(options) => bench::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Sanitize(options) => sanitize::run(&options),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Whether this is a CI run, where nothing may be missing but hardware.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// The workspace's root, whatever directory the command was given in.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}
