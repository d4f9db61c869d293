//! Which launcher has started this process, and which library is that launcher's.

use crate::{Family, Mpi, MpiError};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// What a launcher says of a process that it has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The process's number.
    pub rank: u32,
    /// Processes of the job.
    pub size: u32,
    /// The process's number on its host, and how many are there, if the launcher says so.
    pub local: Option<(u32, u32)>,
    /// The family of the libraries that belong to it.
    pub family: Family,
}

/// What a launcher says by its environment variables. `None` if none has started this process, or it has
/// started one process only.
pub fn launched() -> Option<Launched> {
    launched_by(&|name| std::env::var_os(name))
}

/// The variables of rank, size, rank on the host and size there.
const BY_VARIABLES: [(Family, [&str; 4]); 2] = [
    (
        Family::OpenMpi,
        [
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ],
    ),
    (Family::Mpich, ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"]),
];

/// The variables without which a process is none of a launcher's job: to be taken from the environment of a
/// process that such a process starts.
pub const RANK_VARIABLES: [&str; 2] = [BY_VARIABLES[0].1[0], BY_VARIABLES[1].1[0]];

fn launched_by(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Launched> {
    let number = |name: &str| variable(name)?.to_str()?.parse::<u32>().ok();
    BY_VARIABLES.iter().find_map(|(family, [rank, size, local_rank, local_size])| {
        let (rank, size) = (number(rank)?, number(size)?);
        let local = number(local_rank).zip(number(local_size)).filter(|(rank, size)| rank < size);
        (rank < size && size > 1).then_some(Launched { rank, size, local, family: *family })
    })
}

/// Names of a family's libraries.
fn names(family: Family) -> &'static [&'static str] {
    match family {
        Family::OpenMpi => &["libmpi.so.40"],
        Family::Mpich => &["libmpi.so.12", "libmpich.so.12"],
        Family::Standard => &["libmpi_abi.so.1", "libmpi_abi.so.0"],
    }
}

/// The library to use in a process that a launcher has started: `given`, if it is; else the one in the
/// process already; else the one that lies beside the launcher; else the one that the system has by its name.
///
/// # Errors
/// What was tried, and why it was refused.
pub fn library(given: Option<&Path>, launched: &Launched) -> Result<Mpi, MpiError> {
    if let Some(path) = given {
        return Mpi::open(path);
    }
    if let Some(found) = Mpi::of_this_process() {
        return found;
    }
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let prefixes: Vec<PathBuf> =
        variable("OPAL_PREFIX").into_iter().chain(ancestors()).chain(variable("I_MPI_ROOT")).collect();
    open_first(&prefixes, launched.family)
}

/// The first library of a family that opens: below these folders, else by its name.
pub(crate) fn open_first(prefixes: &[PathBuf], family: Family) -> Result<Mpi, MpiError> {
    let mut refused = Vec::new();
    let beside = prefixes.iter().flat_map(|prefix| libraries_of(prefix, family));
    for path in beside.chain(names(family).iter().map(PathBuf::from)) {
        match Mpi::open(&path) {
            Ok(mpi) => return Ok(mpi),
            Err(error) => refused.push(error.to_string()),
        }
    }
    Err(MpiError::new(format!(
        "expected a library of {family}, as its launcher has started this process, found none: {}; say where it is with FLASH_MPI_LIB",
        refused.join("; ")
    )))
}

/// The libraries of a family that an installation in this folder has.
fn libraries_of(prefix: &Path, family: Family) -> Vec<PathBuf> {
    let folders = ["lib", "lib64", "lib/release"].map(|folder| prefix.join(folder));
    let files = folders.iter().flat_map(|folder| names(family).iter().map(|name| folder.join(name)));
    files.filter(|file| file.is_file()).collect()
}

/// The folders above those of the programs that have started this process, one after the other: a launcher is
/// in `bin`, its library in `lib`.
fn ancestors() -> Vec<PathBuf> {
    /// Between a process and its launcher are at most a few shells and debuggers.
    const MOST: usize = 8;
    let parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before may have blanks and brackets.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|pid| *pid > 1)
    };
    let pids = std::iter::successors(Some(std::process::id()), parent).skip(1).take(MOST);
    let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    pids.filter_map(program).filter_map(|program| Some(program.parent()?.parent()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Launched> {
        launched_by(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn a_launcher_is_known_by_its_variables() {
        let open = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        let expected = Launched { rank: 3, size: 4, local: Some((1, 2)), family: Family::OpenMpi };
        assert_eq!(of(&open), Some(expected));
        assert_eq!(of(&open[..2]), Some(Launched { local: None, ..expected }));
        let hydra = [("PMI_RANK", "0"), ("PMI_SIZE", "2")];
        let expected = Launched { rank: 0, size: 2, local: None, family: Family::Mpich };
        assert_eq!(of(&hydra), Some(expected));
    }

    #[test]
    fn without_a_launcher_or_with_one_process_there_is_no_world() {
        assert_eq!(of(&[]), None);
        for [rank, size] in [["0", "1"], ["2", "2"], ["-1", "2"], ["", "2"], ["0", "many"]] {
            assert_eq!(of(&[("PMI_RANK", rank), ("PMI_SIZE", size)]), None, "{rank} of {size}");
        }
    }
}
