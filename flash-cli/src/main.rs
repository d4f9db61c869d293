//! `flash`: checks an installation, lists its devices, tests backends, and runs pipelines from files.

mod child;
mod compare;
mod conformance;
mod diff;
mod doctor;
mod halo;
mod jobs;
mod kernels;
mod list;
mod look;
mod pack;
mod ranks;
mod replay;
mod run;
mod serve;
mod topology;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

flash_conformance::conformance!();

/// Checks an installation of FLASH, lists its plugins, devices and kernels, tests backends, and runs recorded
/// pipelines.
#[derive(Parser)]
#[command(
    name = "flash",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  flash doctor                                 is this installation in order, and what to do if it is not?
  flash list                                   what there is, and why something is not usable
  flash list --json | jq '.backends[].key'     the same for programs
  flash kernels --text nbody.accelerate        the text of a kernel, as devices compile it
  flash topology --svg machine.svg             processors, caches, memories, devices: text and a picture
  FLASH_BACKEND_PATH=./build flash list        with the plugins of a directory
  flash run -n 4 -- nbody --runtime RANK       a program with the devices of three processes beside it
  flash serve OPENCL --listen lab              an agent that programs use as OPENCL@lab; flash agents shows them
  flash halo check halo.json                   the faults of a configuration of C2MPI, each with its place
  flash pack kernels/manifest.json -o lab.ha   a package of kernels, for a directory of plugins
  flash unpack lab.ha --list                   what is in it
  flash conformance MY_ACCEL                   does a backend do what it must?
  flash conformance MY_ACCEL --check copied    one check, in this process: for a debugger
  nbody --bodies 1024 --record nbody.flash     a program that writes its pipeline with its data
  flash replay nbody.flash --runtime ALL_CPU   runs it: what ran where, how long, checksums
  flash diff nbody.flash --a ALL_CPU --b MY_ACCEL --tolerance 1e-4
                                               where do two runtimes differ first?

A plugin is a shared library, or a package of kernels (.ha). To install one, copy it into a directory of
FLASH_BACKEND_PATH.
Plugins are never unloaded; what cannot be used is listed as unavailable (no driver, no device)
or refused (not a plugin, damaged, for another version), with the reason.

Environment:
  FLASH_BACKEND_PATH          directories and plugin files, separated by colons; of a directory,
                              its *.so and *.ha files. Default: flash-backends beside the program. Of two
                              plugins with one runtime key the first is used, before the linked-in
  FLASH_ALLOW_WORLD_WRITABLE  1: load plugins from files and directories that everybody can write
  FLASH_CPU_THREADS           threads of the CPU backend. Default: what affinity and cgroups allow
  FLASH_STACK_SIZE            bytes of the stack of each of them. Default: 8 MiB
  FLASH_CPU_DEVICES           devices that those threads are split into. Default: 1
  FLASH_CPU_COPY              1: each of those devices has a memory of its own. For tests
  FLASH_CPU_THROTTLE          fraction of its speed at which each device runs: 1,0.5. For tests
  FLASH_CPU_LINGER_US         how long an idle thread waits before it parks. Default: 200
  FLASH_BLOCKING_THREADS      extra threads, at most, for what blocks or waits for devices. Default: 8
  FLASH_HOST_BUDGET           bytes of the host's memory that large arrays are to take. Default: no limit
  FLASH_HOST_GRANULE          bytes that the host fetches at least from a device's memory. Default: 65536
  FLASH_CACHE_DIR             folder of compiled programs. Default: flash in XDG_CACHE_HOME or ~/.cache
  FLASH_CACHE_LIMIT           bytes of all of them, 0 to keep none. Default: 512 MiB
  FLASH_TEXTS                 folder for the texts of a program's kernels, as flash kernels --text has them
  FLASH_GRAPH_DOT             file for pictures of dataflow graphs: at their end, and at Ctrl-C
  FLASH_HALO_CONFIG           configuration of programs of C2MPI. Default: the functions of the library
  FLASH_RANK_TIMEOUT_MS       how long a process of flash run may give no sign of life. Default: 5000
  FLASH_OPENCL_COPY           1: OpenCL devices have memories of their own. For tests
  FLASH_CHECK_WRITES          1: check in every launch that kernels write all that they promise to and,
                              on the CPU, store no element of a Scatter twice
  FLASH_CHECK_BOUNDS          1: check the indices of FLASH_AT in kernels that devices compile, and before
                              every launch what kernels index with, such as columns of CSR
  FLASH_CHECK_MAPS            1: cut every launch that may be cut, and check that its parts stay in their boxes
  FLASH_TEST                  devices of the test backend, if it is a plugin: devices=2 ns=0,100. Default: devices=1
An empty variable counts as unset. What does not fit, or is nearly one of these names, is reported once.

Exit status: 0 success, 1 a check or the program failed, 2 wrong usage or a malformed file.
flash diff: 0 the runtimes agree, 1 they differ, 2 they could not be compared."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check this machine and this installation.
    ///
    /// One line per check: ok, note (worth knowing, and no fault of the installation) or PROBLEM, with
    /// what was found; below a problem, what to do. It looks at processors, memory, stacks, the FLASH_
    /// variables, the path of plugins, each plugin, each backend with its devices or why it has none, the
    /// folder of compiled programs, and what takes the place of something else; and it makes a first launch
    /// on each device. Plugins are loaded, and launches made, in processes of their own.
    ///
    /// Exit status 1 if there is a problem. `flash conformance KEY` then tests a backend as a whole.
    Doctor {
        /// Print JSON: {"result", "checks": [{"state", "check", "subject", "found", "advice"}]}.
        ///
        /// "result" is "ok" or "problem"; "state" is "ok", "note" or "problem"; "check" is "settings",
        /// "cpu", "memory", "stack", "path", "plugin", "backend", "device", "shadows", "cache" or
        /// "launch"; "subject" is the variable, file, key or device, or null; "advice" is what to do, or
        /// null.
        #[arg(long)]
        json: bool,
        /// The time for each plugin, and for each launch; one that takes longer is ended, and a problem.
        #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
        time_limit: Duration,
        /// This is the child process that launches on a device of a file.
        #[arg(long, hide = true, num_args = 2, value_names = ["FILE", "DEVICE"])]
        worker: Option<Vec<OsString>>,
    },
    /// List plugins, backends, devices and kernel implementations.
    ///
    /// Loads every plugin and looks for its devices, each in a process of its own. Succeeds whatever the
    /// plugins are like: what is wrong with one is in the list, also that it ended the process, or stopped
    /// it.
    List {
        /// Print JSON: {"backends": [{"key", "plugin", "state", "reason", "devices": [{"id", "name", ..}]}]}.
        ///
        /// "plugin" is the file, or "embedded"; "state" is "available", "unavailable" or "refused";
        /// "key" is null for a file that brings no backend or never said which; "reason" is null
        /// where the state is "available".
        #[arg(long)]
        json: bool,
        /// Also list what this program has for tests: the backend NULL, the kernels of the conformance
        /// suite. JSON always has it.
        #[arg(long)]
        all: bool,
        /// The time for each plugin; one that takes longer is ended, and listed as refused.
        #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
        time_limit: Duration,
        /// This is the child process that looks at a file.
        #[arg(long, hide = true, value_name = "FILE")]
        worker: Option<OsString>,
    },
    /// Show the text of a kernel, as the devices of OpenCL and CUDA compile it.
    ///
    /// The one that was written for it, or that `#[kernel(devices)]` has made of its function in Rust; for
    /// each kind of device and each set of element types. Loads every plugin.
    ///
    /// Exit status 1 if there is no such text.
    Kernels {
        /// The kernel's name, such as nbody.accelerate, or its end.
        #[arg(long, value_name = "NAME")]
        text: String,
    },
    /// Show what this machine consists of: processors, caches, memories, devices and links.
    ///
    /// As text, as JSON, or as a picture; alone, or together with other machines whose JSON is in files.
    ///
    /// Exit status 1 if there is not what `--needs` asks for.
    Topology {
        /// Print JSON, which `--with` and `--needs` read, and the crate flash-topology.
        #[arg(long)]
        json: bool,
        /// Draw a picture into a file, too.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// Add the machines of a file that `flash topology --json` wrote; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        with: Vec<PathBuf>,
        /// Say whether there is what a file asks for, and if not, what is lacking.
        ///
        /// The file is a topology. Numbers and sizes are the least; hosts and devices without a name are any:
        /// {"hosts": [{"devices": [{"class": "gpu", "spaces": [{"bytes": 8000000000}]}]}]}.
        #[arg(long, value_name = "FILE")]
        needs: Option<PathBuf>,
        /// The time for each plugin; one that takes longer is ended.
        #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
        time_limit: Duration,
    },
    /// Run a program whose runtime key RANK has the devices of other processes.
    ///
    /// Starts the program as N processes of this machine, and divides the processors among them;
    /// where there are more processes than processors, these are shared. The first process, rank 0, runs the
    /// program. Each other one becomes an agent when its program asks for its first runtime: it serves its
    /// devices to rank 0, and ends with it. RANK is all devices of all agents, RANK:2 those of rank 2,
    /// RANK:2/ALL_CPU:0 one of them, RANK:gpu all of a class; ALL_ACCEL are the best devices of all ranks,
    /// rank 0's too.
    ///
    /// What agents print comes out with what the program prints: what a program does before its first
    /// runtime, each of them does. Arrays are in memory that all share. An agent that ends early is reported;
    /// what ran on it fails.
    ///
    /// With --mpi the launcher of the MPI that is there starts them, and what it prints comes out, too; with
    /// --hosts on other machines, which have the program in the same place. `mpirun -n N PROGRAM` does the
    /// same without this command. `flash doctor` says which MPI that is.
    ///
    /// Exit status: the program's, or 128 and the signal that ended it.
    Run {
        /// Processes, that of the program included.
        #[arg(short = 'n', long, value_name = "N", value_parser = ranks)]
        ranks: usize,
        /// Start them on this machine, without MPI: the default.
        #[arg(long, conflicts_with_all = ["mpi", "hosts"])]
        local: bool,
        /// Start them on this machine by MPI.
        #[arg(long)]
        mpi: bool,
        /// Start them by MPI on the hosts of a file of lines `HOST [SLOTS]`: at most SLOTS processes on
        /// each, 1 if there is no number.
        #[arg(long, value_name = "FILE")]
        hosts: Option<PathBuf>,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
        program: Vec<OsString>,
    },
    /// Serve the devices of a backend to several programs, each with a process of its own.
    ///
    /// Listens until it is ended. A program of the same user that asks for the runtime key KEY@NAME gets a
    /// process with the devices of the backend, which ends with the program: a driver that crashes or hangs
    /// there is an error of that program's launch, and its next launch gets another process. Kernels that
    /// are functions are those of plugins in FLASH_BACKEND_PATH; texts and binaries come from the program.
    /// A program that is its own agent needs none of this: see KEY@agent in the documentation.
    ///
    /// Coming and going of programs is reported on standard error.
    Serve {
        /// The key of one backend, such as OPENCL or NVIDIA_GPU.
        key: String,
        /// The name to listen under: letters, digits, `-`, `_` and `.`.
        #[arg(long, value_name = "NAME")]
        listen: String,
    },
    /// List the agents of `flash serve`: their programs, devices, launches, bytes and uptimes.
    Agents {
        /// Print JSON: {"agents": [{"name", "key", "pid", "uptime_s", "clients": [{"pid", "agent",
        /// "uptime_s", "devices", "launches", "bytes"}]}]}.
        ///
        /// "pid" is a process, "agent" that which serves the client; "bytes" those of the buffers that it
        /// has on devices with memories of their own.
        #[arg(long)]
        json: bool,
    },
    /// A process that `flash serve` starts.
    #[command(hide = true)]
    Agent {
        /// Only look whether the key has devices.
        #[arg(long = "try", value_name = "KEY")]
        tried: Option<String>,
    },
    /// What belongs to programs of C2MPI, the interface of the HALO paper.
    #[command(subcommand)]
    Halo(Halo),
    /// Make a package of kernels: one file with texts and binaries for several kinds of devices.
    ///
    /// A package in a directory of FLASH_BACKEND_PATH, such as flash-backends beside the program, is a
    /// plugin: programs launch its kernels by their names, and those of C2MPI claim them. docs/halo.md has
    /// an example of a manifest.
    Pack {
        /// The manifest, in JSON; the files that it names lie beside it.
        manifest: PathBuf,
        /// The package. Default: the name that the manifest says, with the ending .ha.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Show what is in a package of kernels, or write its files into a folder.
    ///
    /// Loads nothing of it. A package is a tar archive whose first file is manifest.json.
    Unpack {
        /// The package.
        file: PathBuf,
        /// Show its kernels, implementations and files.
        #[arg(long, required_unless_present = "into")]
        list: bool,
        /// Print JSON: {"name", "version", "description", "kernels": [{"name", "alias", "sw_fid", "sw_clid",
        /// "signature", "implementations": [{"target", "file", "name"}]}], "files": [{"name", "bytes"}]}.
        #[arg(long, requires = "list")]
        json: bool,
        /// Write its files below this folder; those that are there stay, and are an error.
        #[arg(long, value_name = "FOLDER", conflicts_with = "list")]
        into: Option<PathBuf>,
    },
    /// Run the suite that every backend must pass.
    ///
    /// Tests each device of the runtime key, and the first together with each other one, through the
    /// public runtime and through the slots of the plugin interface. The checks run in a child process.
    /// One that ends the process, or takes too long, has failed, and the next ones run in a new one.
    /// Takes some seconds. What the backend writes is shown below the check.
    ///
    /// Exit status 1 if a check fails, or the suite has no kernels for the device's target: then the
    /// report is incomplete.
    Conformance {
        /// A runtime key, such as ALL_CPU, MY_ACCEL or MY_ACCEL:1.
        key: String,
        /// Run just the checks with this text in their names, in this very process and without a time
        /// limit, as a debugger needs it. An empty text: all of them.
        #[arg(long, value_name = "NAME")]
        check: Option<String>,
        /// The time for each check.
        #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
        time_limit: Duration,
        /// Print JSON: {"key", "result", "dry", "checks": [{"device", "name", "verdict", "reason",
        /// "output"}]}.
        ///
        /// "result" is "passed", "failed" or "incomplete"; "verdict" is "passed", "skipped", "untested" or
        /// "failed"; "reason" is null where a check passed; "output" is what was written meanwhile;
        /// "dry" is true if the devices run nothing, so that no result was checked.
        #[arg(long)]
        json: bool,
        /// This is the child process that runs the checks from a number on.
        #[arg(long, hide = true, value_name = "NUMBER")]
        worker: Option<usize>,
    },
    /// Run a pipeline that was written to a file.
    ///
    /// Programs write one with `pipeline.recording(Data::With)?.save("FILE")`: as JSON if its name
    /// ends in .json, else in a compact binary form; both are read here. Its kernels must be known:
    /// linked into this program, or in a plugin of FLASH_BACKEND_PATH. Prints the launches of each
    /// submission with their devices and times (one that is cut over devices has several), and a
    /// CRC-32 of each memory that was written.
    Replay {
        /// The recording; - is standard input.
        file: PathBuf,
        /// Where to run it: a runtime key, such as ALL_CPU, MY_ACCEL or MY_ACCEL:1.
        #[arg(long, value_name = "KEY", default_value = "ALL_ACCEL")]
        runtime: String,
        /// Print JSON: {"file", "runtime", "submissions", "launches": [{"submission", "kernel",
        /// "implementation", "device", "phases", "items", "nanoseconds", "wall_nanoseconds"}], "memories":
        /// [{"index", "element", "len", "bytes", "crc32"}]}.
        #[arg(long)]
        json: bool,
    },
    /// Run a recorded pipeline on two runtimes and show where they differ first.
    ///
    /// Both start from the data of the file and run it submission by submission; after each, what it
    /// wrote is compared. Shows the first submission and element that differ, with both values. Exit
    /// status: 0 they agree, 1 they differ, 2 they could not be compared (wrong usage, a malformed
    /// file, a submission that fails on one of them).
    Diff {
        /// The recording; - is standard input.
        file: PathBuf,
        /// One runtime key.
        #[arg(long, value_name = "KEY")]
        a: String,
        /// The other runtime key.
        #[arg(long, value_name = "KEY")]
        b: String,
        /// By how much floating-point numbers may differ, relative to the larger one; in arrays such
        /// as [f32; 3], to the largest component. Everything else is compared exactly.
        #[arg(long, value_name = "R", default_value_t = 0.0, value_parser = tolerance)]
        tolerance: f64,
        /// Print JSON: {"file", "a", "b", "tolerance", "submissions", "agree", "difference"}, the last
        /// one null or {"submission", "kernel", "argument", "memory", "index", "a", "b", "differing",
        /// "elements"}.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand)]
enum Halo {
    /// Check a configuration: its functions, platforms and hosts.
    ///
    /// Prints each fault as FILE:LINE:COLUMN: what was expected, and what was found; and what has no effect.
    /// Loads no plugin: whether there is a kernel for a function is said by the program that claims it.
    ///
    /// Exit status 1 if there is a fault.
    Check {
        /// The configuration, in JSON; - is standard input.
        file: PathBuf,
        /// Print JSON: {"file", "result", "faults": [{"line", "column", "text"}], "warnings": [..]}.
        ///
        /// "result" is "ok" or "faulty"; "warnings" are as "faults".
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON schema of configurations, for editors.
    Schema,
}

/// The request cannot be carried out: exit status 2.
#[derive(Debug)]
struct Refused(String);

impl Refused {
    fn new(text: impl ToString) -> Refused {
        Refused(text.to_string())
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn ranks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(ranks) if (1..=flash_net::MAX_PEERS).contains(&ranks) => Ok(ranks),
        _ => Err(format!("expected a number of processes from 1 to {}", flash_net::MAX_PEERS)),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("expected a finite number of 0 or more, such as 1e-5".into()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        // About a year.
        Ok(number @ 1..=31_536_000) => Ok(Duration::from_secs(number)),
        _ => Err("expected a whole number of seconds, from 1 on, such as 60".into()),
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // `flash agent` first sets what is told of its work, and each rank says what it has.
    if !matches!(command, Command::Agent { .. } | Command::Topology { .. }) {
        flash::prelude::agent_here();
    }
    // Like diff(1): 1 says that they differ, and nothing else does.
    let trouble = if matches!(command, Command::Diff { .. }) { 2 } else { 1 };
    let done = match command {
        Command::Doctor { worker: Some(arguments), .. } => doctor::worker(&arguments),
        Command::Doctor { json, time_limit, .. } => doctor::run(json, time_limit),
        Command::List { worker: Some(file), .. } => look::worker(&file),
        Command::List { json, all, time_limit, .. } => {
            list::run(json, all, time_limit).and_then(|text| print(&text)).map(|()| true)
        }
        Command::Kernels { text } => kernels::run(&text).and_then(|text| print(&text)).map(|()| true),
        Command::Topology { json, svg, with, needs, time_limit } => {
            let question = topology::Question { json, svg, with, needs, limit: time_limit };
            topology::run(&question).and_then(|(text, met)| print(&text).map(|()| met))
        }
        Command::Run { ranks, local: _, mpi, hosts, program } => {
            let ended = match mpi || hosts.is_some() {
                true => jobs::run(&jobs::Question { ranks, hosts, program }),
                false => run::run(&run::Question { ranks, program }),
            };
            match ended {
                Ok(status) => return ExitCode::from(status),
                Err(error) => Err(error),
            }
        }
        Command::Serve { key, listen } => serve::serve(&serve::Question { key, name: listen }).map(|()| true),
        Command::Agents { json } => serve::list(json).and_then(|text| print(&text)).map(|()| true),
        Command::Agent { tried } => serve::agent(tried.as_deref()).map(|()| true),
        Command::Halo(Halo::Check { file, json }) => {
            halo::check(&file, json).and_then(|(text, sound)| print(&text).map(|()| sound))
        }
        Command::Halo(Halo::Schema) => print(flash_c2mpi::config::SCHEMA).map(|()| true),
        Command::Pack { manifest, output } => {
            pack::pack(&manifest, output).and_then(|text| print(&text)).map(|()| true)
        }
        Command::Unpack { file, into: Some(into), .. } => {
            pack::unpack(&file, &into).and_then(|text| print(&text)).map(|()| true)
        }
        Command::Unpack { file, json, .. } => {
            pack::list(&file, json).and_then(|text| print(&text)).map(|()| true)
        }
        Command::Conformance { key, worker: Some(first), .. } => conformance::worker(&key, first),
        Command::Conformance { key, check, time_limit, json, .. } => {
            let question = conformance::Question { key: &key, json, limit: time_limit };
            match check {
                Some(part) => conformance::here(&question, &part),
                None => conformance::run(&question),
            }
        }
        Command::Replay { file, runtime, json } => {
            replay::run(&file, &runtime, json).and_then(|text| print(&text)).map(|()| true)
        }
        Command::Diff { file, a, b, tolerance, json } => {
            let question = diff::Question { path: &file, a: &a, b: &b, tolerance };
            diff::run(&question, json).and_then(|(text, agree)| print(&text).map(|()| agree))
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Standard error may be closed as well.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(if error.is::<Refused>() { 2 } else { trouble })
        }
    }
}

/// Writes to standard output; a closed one is no error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
