//! Starting the processes of a job by an MPI's launcher, on this host or on those of a file.
//!
//! A [`Launcher`] is known by what it says of its version, and its kind decides all flags. Nothing is
//! started here: [`Launcher::command`] is the command. With it, a job goes on when one of its processes is
//! gone, for which MPICH's processes get a shell around them; processors are left to the processes, and Open
//! MPI passes on the variables that begin with `FLASH_`.
//!
//! A file of hosts is checked before a launcher sees it: errors name line and column, and a name cannot be
//! taken for a flag.

use crate::find::open_first;
use crate::{Family, Mpi, MpiError};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A launcher, by what it calls itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    OpenMpi4,
    OpenMpi5,
    Mpich,
    Intel,
}

/// A program that starts the processes of a job.
#[derive(Clone, Debug)]
pub struct Launcher {
    path: PathBuf,
    kind: Kind,
    version: String,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// Processes.
    pub processes: usize,
    /// A file for the launcher, as [`Hosts::of_launcher`] writes it; `None`: all on this host.
    pub hosts: Option<&'a Path>,
    /// The program and its arguments.
    pub program: &'a [OsString],
}

/// What starts a process under MPICH's launcher. That ends the job when a process of its own is killed by a
/// signal, also with its flag, and may drop what all of them write then: to it, a process that was killed
/// ends with a status. The signal by which it tells the others of a loss is for programs that wait for it.
const SHELL: [&str; 3] = ["sh", "-c", r#"trap "" USR1; "$0" "$@"; exit $?"#];
/// Names of launchers, the usual one first.
const PROGRAMS: [&str; 3] = ["mpiexec", "mpirun", "mpiexec.hydra"];

/// When Open MPI 4's launcher asks whether a silent machine is there, in seconds, how often, and how many
/// times: else it was still waiting for one that was cut off after 50 s.
const KEEPALIVE: [(&str, &str); 3] = [
    ("OMPI_MCA_oob_tcp_keepalive_time", "10"),
    ("OMPI_MCA_oob_tcp_keepalive_intvl", "5"),
    ("OMPI_MCA_oob_tcp_keepalive_probes", "3"),
];

impl Launcher {
    /// The launcher beside a library, if one is given; else the first one on the path.
    ///
    /// # Errors
    /// If there is none, or it is of no MPI that is known; what to install.
    pub fn find(library: Option<&Path>) -> Result<Launcher, MpiError> {
        let candidates: Vec<PathBuf> = match library {
            Some(library) => {
                let folders = library.ancestors().skip(2).take(3).map(|folder| folder.join("bin"));
                folders.flat_map(|folder| PROGRAMS.map(|name| folder.join(name))).collect()
            }
            None => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
                PROGRAMS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).collect()
            }
        };
        let Some(path) = candidates.into_iter().find(|file| file.is_file()) else {
            let place = match library {
                Some(library) => format!("beside {}", library.display()),
                None => "on the path".to_owned(),
            };
            return Err(MpiError::new(format!(
                "expected a launcher of MPI (mpiexec, mpirun) {place}, found none: install one, such as Debian's openmpi-bin or mpich, or Python's packages openmpi or mpich, or start the processes on this machine with --local"
            )));
        };
        let output = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| MpiError::new(format!("{}: {error}", path.display())))?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let known = kind_of(&text).ok_or_else(|| {
            MpiError::new(format!(
                "{}: expected the launcher of Open MPI 4 or later, MPICH or Intel MPI, found one that says `{}`",
                path.display(),
                text.lines().next().unwrap_or_default()
            ))
        });
        let (kind, version) = known?;
        Ok(Launcher { path, kind, version })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is, in words.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The library that belongs to it: beside it, else by its name.
    ///
    /// # Errors
    /// What was tried.
    pub fn library(&self) -> Result<Mpi, MpiError> {
        let real = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let prefix = |path: &Path| path.parent().and_then(Path::parent).map(Path::to_owned);
        let prefixes: Vec<PathBuf> = [prefix(&self.path), prefix(&real)].into_iter().flatten().collect();
        let family = match self.kind {
            Kind::OpenMpi4 | Kind::OpenMpi5 => Family::OpenMpi,
            Kind::Mpich | Kind::Intel => Family::Mpich,
        };
        open_first(&prefixes, family)
    }

    /// Its flags with which a job goes on when one of its processes is gone.
    pub fn survival(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::OpenMpi4 | Kind::OpenMpi5 => &["--enable-recovery"],
            Kind::Mpich | Kind::Intel => &["-disable-auto-cleanup"],
        }
    }

    /// Its flags with which it leaves the processors to the processes, that divide them.
    pub fn unbound(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::OpenMpi4 => &["--bind-to", "none", "--oversubscribe"],
            Kind::OpenMpi5 => &["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"],
            Kind::Mpich => &["-bind-to", "none"],
            Kind::Intel => &["-genv", "I_MPI_PIN", "0"],
        }
    }

    /// The command that starts a job, whose processes outlive each other.
    pub fn command(&self, start: &Start<'_>) -> Command {
        let mut command = Command::new(&self.path);
        command.args(["-n", &start.processes.to_string()]).args(self.unbound()).args(self.survival());
        if matches!(self.kind, Kind::OpenMpi4 | Kind::OpenMpi5) {
            // SAFETY: a question to the system.
            if unsafe { libc::geteuid() } == 0 {
                command.arg("--allow-run-as-root");
            }
            // The processes of other hosts get no others.
            let ours = |(name, _): &(OsString, OsString)| name.to_string_lossy().starts_with("FLASH_");
            for (name, _) in std::env::vars_os().filter(ours) {
                command.arg("-x").arg(name);
            }
        }
        if let Some(file) = start.hosts {
            let flag = match self.kind {
                Kind::OpenMpi4 | Kind::OpenMpi5 => "--hostfile",
                Kind::Mpich | Kind::Intel => "-f",
            };
            command.arg(flag).arg(file);
            if self.kind == Kind::OpenMpi4 {
                // What the user has set stays.
                let settings = KEEPALIVE.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
                command.envs(settings);
            }
        }
        if matches!(self.kind, Kind::Mpich | Kind::Intel) {
            command.args(SHELL);
        }
        command.args(start.program);
        command
    }
}

/// What a launcher is that says this of its version, and that in words.
fn kind_of(text: &str) -> Option<(Kind, String)> {
    let first = text.lines().next().unwrap_or_default();
    let number = |line: &str| {
        let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        line.split_whitespace().find(is_version).unwrap_or("of an unknown version").to_owned()
    };
    if first.contains("Intel(R) MPI") {
        return Some((Kind::Intel, format!("Intel MPI {}", number(first))));
    }
    if first.contains("HYDRA") {
        let version = text.lines().find(|line| line.trim_start().starts_with("Version:")).unwrap_or_default();
        return Some((Kind::Mpich, format!("MPICH {}", number(version))));
    }
    // Open MPI 4 calls its launcher OpenRTE.
    if first.contains("Open MPI") || first.contains("OpenRTE") {
        let version = number(first);
        let kind = match version.split('.').next()?.parse::<u32>().ok()? {
            4 => Kind::OpenMpi4,
            5.. => Kind::OpenMpi5,
            _ => return None,
        };
        return Some((kind, format!("Open MPI {version}")));
    }
    None
}

/// A host, and how many processes it takes at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address.
    pub name: String,
    /// Processes at most.
    pub slots: usize,
}

/// The hosts of a job: a file of lines `HOST [SLOTS]`. A host without a number takes one process; what is
/// behind a `#` is a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(Vec<Host>);

impl Hosts {
    /// Of a file.
    ///
    /// # Errors
    /// What is wrong, with the file's name, the line and the column.
    pub fn read(file: &Path) -> Result<Hosts, MpiError> {
        let text = fs::read_to_string(file);
        let text = text.map_err(|error| MpiError::new(format!("{}: {error}", file.display())))?;
        Hosts::parse(&text).map_err(|what| MpiError::new(format!("{}{what}", file.display())))
    }

    fn parse(text: &str) -> Result<Hosts, String> {
        let mut hosts: Vec<Host> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let wrong = |word: &str, expected: &str| {
                let column = line[..word.as_ptr().addr() - line.as_ptr().addr()].chars().count() + 1;
                Err(format!(":{}:{column}: expected {expected}, found `{word}`", number + 1))
            };
            let is_name = |word: &str| {
                word.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
                    && word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
            };
            let (name, slots) = match words[..] {
                [] => continue,
                [name] => (name, None),
                [name, slots] => (name, Some(slots)),
                [_, _, more, ..] => {
                    return wrong(more, "a host and how many processes it takes, as in `node1 4`");
                }
            };
            if !is_name(name) {
                return wrong(name, "the name or address of a host");
            }
            let slots = match slots {
                None => 1,
                Some(word) => match word.parse() {
                    Ok(slots @ 1..=65536) => slots,
                    _ => return wrong(word, "a number of processes from 1 to 65536"),
                },
            };
            if hosts.iter().any(|host| host.name == name) {
                return wrong(name, "each host once");
            }
            hosts.push(Host { name: name.to_owned(), slots });
        }
        if hosts.is_empty() { Err(":1:1: expected a host, found none".to_owned()) } else { Ok(Hosts(hosts)) }
    }

    /// The hosts.
    pub fn all(&self) -> &[Host] {
        &self.0
    }

    /// Processes that they take together.
    pub fn slots(&self) -> usize {
        self.0.iter().map(|host| host.slots).sum()
    }

    /// The file that a launcher reads.
    pub fn of_launcher(&self, launcher: &Launcher) -> String {
        let mut text = String::new();
        for Host { name, slots } in &self.0 {
            let _ = match launcher.kind {
                Kind::OpenMpi4 | Kind::OpenMpi5 => writeln!(text, "{name} slots={slots} max_slots={slots}"),
                Kind::Mpich | Kind::Intel => writeln!(text, "{name}:{slots}"),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_what_they_say() {
        for (text, expected) in [
            ("mpirun (Open MPI) 5.0.11\n\nReport bugs", Some((Kind::OpenMpi5, "Open MPI 5.0.11"))),
            ("mpiexec (OpenRTE) 4.1.4\n", Some((Kind::OpenMpi4, "Open MPI 4.1.4"))),
            ("mpirun (Open MPI) 3.1.0\n", None),
            (
                "HYDRA build details:\n    Version:                   4.3.2\n",
                Some((Kind::Mpich, "MPICH 4.3.2")),
            ),
            (
                "Intel(R) MPI Library for Linux* OS, Version 2021.19.0 Build 20260929",
                Some((Kind::Intel, "Intel MPI 2021.19.0")),
            ),
            ("a program", None),
            ("", None),
        ] {
            let found = kind_of(text);
            assert_eq!(found.as_ref().map(|(kind, text)| (*kind, text.as_str())), expected, "{text}");
        }
    }

    #[test]
    fn hosts_are_lines_and_what_is_wrong_has_a_place() {
        let hosts = Hosts::parse("# two\nnode1 4  # the large one\n\n  10.0.0.2\n").unwrap();
        let host = |name: &str, slots| Host { name: name.into(), slots };
        assert_eq!(hosts.all(), [host("node1", 4), host("10.0.0.2", 1)]);
        assert_eq!(hosts.slots(), 5);
        for (text, place, expected) in [
            ("", ":1:1: ", "expected a host"),
            ("a\nb  0", ":2:4: ", "a number of processes from 1 to 65536, found `0`"),
            ("a many", ":1:3: ", "found `many`"),
            (" a 1 2", ":1:6: ", "found `2`"),
            ("a 2\n\na 3", ":3:1: ", "each host once"),
            ("--help", ":1:1: ", "the name or address of a host"),
            ("a 1\n é$b 1", ":2:2: ", "found `é$b`"),
        ] {
            let error = Hosts::parse(text).unwrap_err();
            assert!(error.starts_with(place) && error.contains(expected), "{text}: {error}");
        }
    }
}
