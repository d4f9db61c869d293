//! `flash`: what this machine has, and whether a backend keeps its promises.

mod list;

use clap::{Parser, Subcommand};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

flash_core::conformance!();

/// Lists the plugins, devices and kernels of FLASH, and tests backends.
#[derive(Parser)]
#[command(
    name = "flash",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  flash list                                   what there is, and why something is not usable
  flash list --json | jq '.backends[].key'     the same for programs
  FLASH_BACKEND_PATH=./build flash list        with the plugins of a directory
  flash conformance MY_ACCEL                   does a backend do what it must?

A plugin is a shared library. To install one, copy it into a directory of FLASH_BACKEND_PATH.
Plugins are never unloaded; what cannot be used is listed as unavailable (no driver, no device)
or refused (not a plugin, damaged, for another version), with the reason.

Environment:
  FLASH_BACKEND_PATH          directories and plugin files, separated by colons; of a directory,
                              its *.so files. Default: flash-backends beside the program. Of two
                              plugins with one runtime key the first is used, before the linked-in
  FLASH_ALLOW_WORLD_WRITABLE  1: load plugins from files and directories that everybody can write
  FLASH_CPU_THREADS           threads of the CPU backend. Default: what affinity and cgroups allow
  FLASH_CPU_DEVICES           devices that those threads are split into. Default: 1
  FLASH_CPU_COPY              1: each of those devices has a memory of its own. For tests
  FLASH_CPU_THROTTLE          fraction of its speed at which each device runs: 1,0.5. For tests
  FLASH_CPU_LINGER_US         how long an idle thread waits before it parks. Default: 200
  FLASH_HOST_GRANULE          bytes that the host fetches at least from a device's memory. Default: 65536
  FLASH_CHECK_WRITES          1: check in every launch that kernels write all that they promise to

Exit status: 0 success, 1 a check or the program failed, 2 wrong usage."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List plugins, backends, devices and kernel implementations.
    ///
    /// Loads every plugin and looks for its devices. Succeeds whatever the plugins are like: what is
    /// wrong with one is in the list.
    List {
        /// Print JSON: {"backends": [{"key", "plugin", "state", "reason", "devices": [{"id", "name", ..}]}]}.
        ///
        /// "plugin" is the file, or "embedded"; "state" is "available", "unavailable" or "refused";
        /// "key" is null for a file that brings no backend or never said which; "reason" is null
        /// where the state is "available".
        #[arg(long)]
        json: bool,
    },
    /// Run the suite that every backend must pass.
    ///
    /// Tests each device of the runtime key, through the public runtime and through the slots of the
    /// plugin interface. Takes some seconds. Exit status 1 if a check fails.
    Conformance {
        /// A runtime key, such as ALL_CPU, MY_ACCEL or MY_ACCEL:1.
        key: String,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List { json } => list::run(json).and_then(|text| print(&text)).map(|()| true),
        Command::Conformance { key } => conformance(&key),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Standard error may be closed as well.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard output; a reader that has gone away has seen enough.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn conformance(key: &str) -> anyhow::Result<bool> {
    // Some of the suite's kernels panic: that is what is tested.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload_as_str().is_some_and(|text| text.ends_with("fails on purpose")) {
            hook(panic);
        }
    }));
    let report = flash_core::backend::conformance::run(key)?;
    print(&format!("{report}\n"))?;
    Ok(report.passed())
}
