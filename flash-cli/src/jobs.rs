//! `flash run --mpi` and `--hosts`: starts a program as the processes of a job of MPI, by the launcher of the
//! MPI that is there. Which process is which, they find out by themselves.

use anyhow::{Context, Result, ensure};
use flash_backend::settings;
use flash_net_mpi::{Hosts, Launcher, Start};
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};

/// What to start.
pub struct Question {
    /// Processes, the program's own included.
    pub ranks: usize,
    /// The file of hosts; `None`: this one.
    pub hosts: Option<PathBuf>,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// The file of a launcher, as long as that runs.
struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs the program; its exit status, as the launcher says it.
pub fn run(question: &Question) -> Result<u8> {
    let library = settings::process_text("rank.mpi_lib");
    let launcher = Launcher::find(library.as_deref().map(Path::new))?;
    let hosts = question.hosts.as_deref().map(|file| write(file, question.ranks, &launcher)).transpose()?;
    let hosts = hosts.as_ref().map(|written| written.0.as_path());
    let start = Start { processes: question.ranks, hosts, program: &question.program };
    let mut command = launcher.command(&start);
    // SAFETY: between fork and exec the function makes one system call.
    unsafe { command.pre_exec(|| flash_net::end_with_parent(libc::SIGTERM)) };
    let started = command.status();
    let status = started.with_context(|| format!("cannot start {}", launcher.path().display()))?;
    Ok(status.code().or(status.signal().map(|signal| 128 + signal)).map_or(1, |code| code as u8))
}

/// Writes the hosts as the launcher reads them.
fn write(file: &Path, ranks: usize, launcher: &Launcher) -> Result<Written> {
    let hosts = Hosts::read(file)?;
    ensure!(
        hosts.slots() >= ranks,
        "{}: expected hosts for {ranks} processes, found hosts that take {}: give more of them, or larger numbers behind their names",
        file.display(),
        hosts.slots()
    );
    let place = std::env::temp_dir().join(format!("flash-hosts-{}", std::process::id()));
    fs::write(&place, hosts.of_launcher(launcher))
        .with_context(|| format!("cannot write {}", place.display()))?;
    Ok(Written(place))
}
