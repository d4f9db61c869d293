//! Over MPI: launches on another process that a launcher has started, beside two ranks in C (`mpi.c`).
//!
//! Both sides of a row use the same library and its launcher, and each rank has a processor of its own. A
//! library that is not there leaves its rows out, which is said.

use super::agent::LAUNCHES;
use super::mailbox::TRIPS;
use super::meter::{Meter, Side, of_this_program, row};
use super::solve;
use crate::nbody;
use crate::peers::{Source, cache, or_without};
use crate::stats::Row;
use anyhow::{Context, Result};
use flash_net_mpi::Launcher;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that says where the libraries are: `cargo xtask bench ranks` installs them there.
const LIBRARIES: &str = "FLASH_TEST_MPI";

const PEER: Source = Source {
    name: "mpi.c",
    text: include_str!("../../peers/mpi.c"),
    compiler: "gcc",
    // As those of diffusion.c.
    flags: &[
        "-O3",
        "-march=native",
        "-mprefer-vector-width=512",
        "-fopenmp-simd",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
    ],
    libraries: &[],
};

/// Libraries of one interface.
pub struct Family {
    /// As the rows name it.
    pub name: &'static str,
    folder: &'static str,
}

impl Family {
    pub const OPEN_MPI: Family = Family { name: "Open MPI 4", folder: "open-mpi-4" };
    pub const ALL: [Family; 2] = [Family::OPEN_MPI, Family { name: "MPICH 4", folder: "mpich-4" }];

    /// Where it is installed.
    fn place(&self) -> Result<PathBuf> {
        let all = std::env::var_os(LIBRARIES).with_context(|| {
            format!("expected the folder of the libraries of MPI in {LIBRARIES}, found none")
        })?;
        Ok(Path::new(&all).join(self.folder))
    }

    /// The two ranks in C.
    pub fn peer(&self) -> Result<Meter> {
        let (place, cache) = (self.place()?, cache()?);
        let (include, library) = (place.join("include"), place.join("lib"));
        let more = [
            format!("-I{}", include.display()),
            format!("-L{}", library.display()),
            "-lmpi".to_owned(),
            format!("-Wl,-rpath,{}", library.display()),
            nbody::compile(&cache)?.display().to_string(),
        ];
        let program = Command::new(PEER.compile_with(&cache, &more)?);
        Meter::start(format!("mpi.c over {}", self.name), self.launch(program)?, Vec::new())
    }

    /// Two processes of this program, on a processor each.
    pub fn ours(&self, part: &str, environment: &[(&str, &str)]) -> Result<Meter> {
        let program = of_this_program(part, environment)?;
        Meter::start(format!("{part} over {}", self.name), self.launch(program)?, Vec::new())
    }

    /// The command that starts two processes of a program.
    fn launch(&self, program: Command) -> Result<Command> {
        // It is found beside a library.
        let launcher = Launcher::find(Some(&self.place()?.join("lib/libmpi.so")))?;
        let mut command = Command::new(launcher.path());
        command
            .args(["-n", "2"])
            .args(launcher.unbound())
            .arg(program.get_program())
            .args(program.get_args());
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Ok(command)
    }
}

/// How two processes of a launcher reach each other, as rows name it: through memory that they share, as they
/// are on one host, or by messages, as if they were on two.
pub const WAYS: [(&str, (&str, &str)); 2] =
    [("started by", (SHARED, "2")), ("with messages of", (SHARED, "1"))];
const SHARED: &str = "FLASH_MPI_SHARED";

/// All rows of launches.
pub fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (family, (way, shared)) in Family::ALL.iter().flat_map(|family| WAYS.map(|way| (family, way))) {
        let Some(mut peer) = or_without(family.name, family.peer())? else { continue };
        let environment = [(solve::KEY, "RANK:1/ALL_CPU"), ("FLASH_CPU_THREADS", "1"), shared];
        let mut ours = family.ours(solve::CHILD, &environment)?;
        for (what, request, count) in [
            ("blocking launch of an empty kernel on an agent", "launch", LAUNCHES),
            ("chain of 1,000 on an agent, again and again, per kernel,", "chain", 10),
        ] {
            let name =
                format!("{what} {way} {}, against a round trip of 1 B of that library in C", family.name);
            let ours = Side(&mut ours, request, count);
            rows.push(row(name, "ns", ours, Side(&mut peer, "trip", TRIPS))?);
        }
    }
    Ok(rows)
}
