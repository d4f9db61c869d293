//! The processes that this one was started with: by `flash run` in a world of shared memory, or by a launcher
//! of MPI.

use flash_backend::settings;
use flash_net::{Peer, SharedTransport, Transport, World};
use flash_net_mpi::{Launched, MpiTransport, launched};
use std::path::Path;
use std::sync::OnceLock;

/// What this process is a part of.
enum Found {
    Alone,
    /// A world of shared memory, and this process's place in it.
    Shared(World, Peer),
    /// Processes of a launcher of MPI.
    Mpi(Launched),
}

fn found() -> &'static Result<Found, String> {
    static FOUND: OnceLock<Result<Found, String>> = OnceLock::new();
    FOUND.get_or_init(|| match World::from_environment() {
        Err(error) => Err(error.to_string()),
        Ok(Some((world, me))) => Ok(Found::Shared(world, me)),
        Ok(None) => Ok(launched().map_or(Found::Alone, Found::Mpi)),
    })
}

/// The processes of MPI, once they are all there. Joining waits for them.
fn joined(launched: &Launched) -> Result<&'static MpiTransport, String> {
    static JOINED: OnceLock<Result<&'static MpiTransport, String>> = OnceLock::new();
    let join = || {
        let library = settings::process_text("rank.mpi_lib");
        MpiTransport::join(launched, library.as_deref().map(Path::new)).map_err(|error| error.to_string())
    };
    JOINED.get_or_init(join).clone()
}

/// Joins the processes that this one was started with, as the controller, or (if `agent`) as an agent.
///
/// # Errors
/// Why there are none, as text.
pub(crate) fn endpoint(agent: bool) -> Result<Box<dyn Transport>, String> {
    let is_it = |me: u32| match (me > 0) == agent {
        true => Ok(()),
        false => Err(format!(
            "this process is rank {me} of its world: {}",
            if agent { "the controller, no agent" } else { "an agent, whose devices the controller has" }
        )),
    };
    match found() {
        Err(why) => Err(why.clone()),
        Ok(Found::Alone) => Err(
            "this process is in no world: `flash run -n N -- PROGRAM` starts one, and so does `mpirun -n N PROGRAM`"
                .to_owned(),
        ),
        Ok(Found::Shared(world, me)) => {
            is_it(me.0)?;
            Ok(Box::new(SharedTransport::join(world, *me).map_err(|error| error.to_string())?))
        }
        Ok(Found::Mpi(launched)) => {
            is_it(launched.rank)?;
            Ok(Box::new(joined(launched)?))
        }
    }
}

/// True if this process is an agent of those that it was started with. The controller of MPI joins here, as
/// the others wait for it.
pub(crate) fn is_agent() -> bool {
    match found() {
        Ok(Found::Shared(_, me)) => me.0 > 0,
        Ok(Found::Mpi(launched)) => {
            if launched.rank == 0 {
                // An error is that of the backend when it looks for devices.
                let _ = joined(launched);
            }
            launched.rank > 0
        }
        Ok(Found::Alone) | Err(_) => false,
    }
}
