//! The processes that this one is one of: those of a world of shared memory, which `flash run` or a
//! controller has made, or those that a launcher of MPI has started.

use crate::controller::served;
use flash_backend::{notice, settings};
use flash_net::{Member, Peer, SharedTransport, Transport, World};
use flash_net_mpi::{Joining, Launched, MpiTransport, is_equal, launched};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What this process was started in.
enum Found {
    Nothing,
    /// A world of shared memory, and this process's place in it.
    Shared(World, Peer),
    Mpi(Launched),
    /// Processes of MPI that are equal, as the program says.
    Equal,
    /// A transport that was brought, once.
    Brought(Mutex<Option<Box<dyn Transport>>>),
}

static BROUGHT: Mutex<Option<Box<dyn Transport>>> = Mutex::new(None);

/// Lets this process be the controller of a world, which is found when the backend is asked for devices.
pub(crate) fn bring(transport: Box<dyn Transport>) {
    *lock(&BROUGHT) = Some(transport);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn found() -> &'static Result<Found, String> {
    static FOUND: OnceLock<Result<Found, String>> = OnceLock::new();
    if let Some(transport) = lock(&BROUGHT).take() {
        return FOUND.get_or_init(|| Ok(Found::Brought(Mutex::new(Some(transport)))));
    }
    FOUND.get_or_init(|| match World::from_environment() {
        Err(error) => Err(error.to_string()),
        Ok(Some((world, me))) => Ok(Found::Shared(world, me)),
        Ok(None) if is_equal() => Ok(Found::Equal),
        Ok(None) => Ok(launched().map_or(Found::Nothing, Found::Mpi)),
    })
}

/// The processes of MPI, once they are all there. Joining waits for them.
fn joined(launched: &Launched) -> Result<&'static MpiTransport, String> {
    static JOINED: OnceLock<Result<&'static MpiTransport, String>> = OnceLock::new();
    let join = || {
        let library = settings::process_text("rank.mpi_lib");
        let shared = settings::process_number("rank.mpi_shared").map_or(u32::MAX, |shared| shared as u32);
        let joining = Joining { library: library.as_deref().map(Path::new), shared, ..Joining::default() };
        let transport = MpiTransport::join(launched, &joining).map_err(|error| error.to_string())?;
        if let Some(why) = transport.why_apart() {
            notice(format_args!(
                "the processes of MPI on this machine share no memory, and send messages: {why}"
            ));
        }
        Ok(transport)
    };
    JOINED.get_or_init(join).clone()
}

/// Whether this module has joined the world.
static JOINED: AtomicBool = AtomicBool::new(false);

/// True if this process has joined the world by other means than this module: it is no agent then.
fn is_taken(world: &World, me: Peer) -> bool {
    !JOINED.load(Relaxed) && world.is_taken(me).unwrap_or(false)
}

fn shared(world: &World, me: Peer) -> Result<Box<dyn Transport>, String> {
    if is_taken(world, me) {
        return Err(format!(
            "this process has joined its world as instance {} of flash-hicr, which has no agents: a program uses its \
             world in one of these ways",
            me.0
        ));
    }
    JOINED.store(true, Relaxed);
    Ok(Box::new(SharedTransport::join(world, me).map_err(|error| error.to_string())?))
}

/// A world of the controller's own.
fn own() -> Result<&'static World, String> {
    static OWN: OnceLock<Result<World, String>> = OnceLock::new();
    let make = || World::create(&[Member { name: "controller".to_owned(), cpus: Vec::new() }]);
    OWN.get_or_init(|| make().map_err(|error| error.to_string())).as_ref().map_err(String::clone)
}

/// Joins as the controller, with the world of this host's processes, to which others can be added; over MPI
/// there may be none. A process that was started in no world makes one of its own, if `alone`.
///
/// # Errors
/// Why there is none, as text.
pub(crate) fn of_controller(alone: bool) -> Result<(Box<dyn Transport>, Option<&'static World>), String> {
    let agent = |rank: u32| {
        Err(format!("this process is rank {rank} of its world: an agent, whose devices the controller has"))
    };
    match found() {
        Err(why) => Err(why.clone()),
        Ok(Found::Shared(world, Peer(0))) => Ok((shared(world, Peer(0))?, Some(world))),
        Ok(Found::Mpi(launched)) if launched.rank == 0 => {
            let transport = joined(launched)?;
            Ok((Box::new(transport), transport.world()))
        }
        Ok(Found::Shared(world, me)) if is_taken(world, *me) => shared(world, *me).map(|transport| (transport, None)),
        Ok(Found::Shared(_, Peer(rank)) | Found::Mpi(Launched { rank, .. })) => agent(*rank),
        Ok(Found::Brought(transport)) => match lock(transport).take() {
            Some(transport) => Ok((transport, None)),
            None => Err("this process is the controller of its world already".to_owned()),
        },
        Ok(Found::Nothing | Found::Equal) if alone => own().and_then(|world| Ok((shared(world, Peer(0))?, Some(world)))),
        Ok(Found::Equal) => Err(
            "the processes of this job of MPI are equal, and none is an agent, as the program has initialized MPI itself \
             or sends messages to ordinary ranks"
                .to_owned(),
        ),
        Ok(Found::Nothing) => Err(
            "this process is in no world: `flash run -n N -- PROGRAM` starts one, and so does `mpirun -n N PROGRAM`"
                .to_owned(),
        ),
    }
}

/// The key of the backend whose devices this process is to serve as an agent; `None`: those of all.
pub(crate) fn key() -> Option<String> {
    match found() {
        Ok(Found::Shared(world, me)) => served(world, *me),
        _ => None,
    }
}

/// Joins as an agent.
///
/// # Errors
/// Why there is none, as text.
pub(crate) fn of_agent() -> Result<Box<dyn Transport>, String> {
    match found() {
        Err(why) => Err(why.clone()),
        Ok(Found::Shared(world, me)) if me.0 > 0 => shared(world, *me),
        Ok(Found::Mpi(launched)) if launched.rank > 0 => Ok(Box::new(joined(launched)?)),
        Ok(_) => Err("this process was not started as an agent".to_owned()),
    }
}

/// True if this process was started as an agent. The controller of MPI joins here, as the others wait for it.
pub(crate) fn is_agent() -> bool {
    match found() {
        Ok(Found::Shared(world, me)) => me.0 > 0 && !is_taken(world, *me),
        Ok(Found::Mpi(launched)) => {
            if launched.rank == 0 {
                // An error is that of the backend when it looks for devices.
                let _ = joined(launched);
            }
            launched.rank > 0
        }
        Ok(Found::Nothing | Found::Equal | Found::Brought(_)) | Err(_) => false,
    }
}
