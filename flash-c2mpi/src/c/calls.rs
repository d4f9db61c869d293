//! The program, its parent ranks, child ranks and buffers, and memory.

use super::status::call;
use super::types::{MPIX_Comm, MPIX_Failsafe, MPIX_Info};
use super::{OBJECTS, WORLD, info, place, text, world};
use crate::child::Failsafe;
use crate::config::Config;
use crate::error::{Code, Error, Result};
use crate::object::ComputeObj;
use crate::ranks;
use crate::unified;
use crate::world::World;
use flash_backend::settings;
use flash_core::Context;
use flash_core::descriptor::ElementType;
use flash_core::memory::AnyType;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// All parent ranks, and the child ranks of the process.
pub const COMM_WORLD: c_int = 0;
/// A child rank, a tag: any.
pub const ANY_SOURCE: c_int = -1;
/// A tag: any.
pub const ANY_TAG: c_int = -1;

thread_local! {
    /// The parent rank that the thread acts for.
    static PARENT: Cell<u32> = const { Cell::new(0) };
}

pub(super) fn parent() -> u32 {
    PARENT.get()
}

pub(super) fn check_comm(comm: MPIX_Comm) -> Result<()> {
    match comm == COMM_WORLD {
        true => Ok(()),
        false => Err(Error::new(Code::Comm, format!("expected MPIX_COMM_WORLD, found {comm}"))),
    }
}

fn begin(file: Option<&str>) -> Result<()> {
    // In a process that was started as an agent this does not return.
    if ranks::is_in_world() {
        flash_core::agent_here();
    }
    let mut world = WORLD.write().unwrap_or_else(PoisonError::into_inner);
    if world.is_some() {
        return Err(Error::new(Code::Init, "expected the first MPIX_Initialize, found a second one"));
    }
    let file = file.map(str::to_owned).or_else(|| settings::process_text("halo.config"));
    let config = match file {
        Some(file) => {
            let (config, warnings) = Config::load(Path::new(&file))?;
            for warning in warnings {
                flash_backend::notice(format_args!("{file}:{warning}"));
            }
            config
        }
        None => Config::default(),
    };
    // Before FLASH makes agents of the other processes.
    ranks::begin(&config);
    flash_core::agent_here();
    *world = Some(World::new(config, Context::default()));
    Ok(())
}

/// Begins a program. Its configuration is the file of the option `--mpix-config FILE`, which is taken out of
/// the arguments, else of the environment's `FLASH_HALO_CONFIG`; without either, the functions of the library
/// under the aliases of the HALO paper, in turn on the devices of `ALL_ACCEL`.
///
/// It stands at the beginning of `main`: for a key such as `OPENCL@agent` the program is started again as the
/// agent that has the device, which runs what comes before this call, and nothing that comes after.
///
/// Where a launcher of MPI has started the process, or the program has initialized MPI, all processes call
/// it, as they send messages to each other as ordinary ranks; unless a key of the configuration is `RANK`:
/// then the first one runs the program, and the others are its agents.
///
/// Errors: `MPIX_ERR_INIT` for a second one; `MPIX_ERR_CONFIG`, whose text has each fault of the file with
/// its line and column.
///
/// # Safety
/// `argc` and `argv` are NULL, or those of `main`: as many texts, which end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Initialize(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    call(|| {
        if argc.is_null() || argv.is_null() {
            return begin(None);
        }
        // SAFETY: the caller vouches for `argc` texts.
        unsafe {
            let count = usize::try_from(*argc).unwrap_or_default();
            let arguments = std::slice::from_raw_parts_mut(*argv, if (*argv).is_null() { 0 } else { count });
            let is_option = |text: &*mut c_char| !text.is_null() && CStr::from_ptr(*text) == c"--mpix-config";
            let Some(at) = arguments.iter().position(is_option) else { return begin(None) };
            let Some(file) = arguments.get(at + 1) else {
                return Err(Error::new(Code::Argument, "expected a file after --mpix-config, found nothing"));
            };
            begin(Some(text(*file, "the file after --mpix-config")?))?;
            arguments[at..].rotate_left(2);
            *argc -= 2;
            // As `main` has it.
            arguments[count - 2] = std::ptr::null_mut();
        }
        Ok(())
    })
}

/// Begins a program with the configuration of a file.
///
/// Errors: as those of `MPIX_Initialize`; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `file` ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Initialize_config(file: *const c_char) -> c_int {
    // SAFETY: the caller vouches.
    call(|| begin(Some(unsafe { text(file, "the name of a file")? })))
}

/// `flag` becomes 1 between `MPIX_Initialize` and `MPIX_Finalize`, else 0.
///
/// Errors: `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `flag` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Initialized(flag: *mut c_int) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        *unsafe { place(flag, "flag")? } = c_int::from(world().is_ok());
        Ok(())
    })
}

/// Ends the program: frees its child ranks and buffers, and messages that were not received. Calls that wait
/// for one fail. Compute objects, and memory of `MPIX_Alloc_mem`, stay.
///
/// Errors: `MPIX_ERR_INIT` if it has not begun.
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_Finalize() -> c_int {
    call(|| {
        let ended = WORLD.write().unwrap_or_else(PoisonError::into_inner).take();
        match ended {
            Some(world) => world.end(),
            None => world().map(drop)?,
        }
        Ok(())
    })
}

/// Claims a function by its alias: a child rank, to which compute objects are sent.
///
/// `failsafe` is NULL, or runs where nothing implements the function. `overrides` is NULL, or changes what
/// the configuration says of it. `MPIX_Claim` of C is this one or `MPIX_Claim_ulong`, by the type of `child`.
///
/// Errors: `MPIX_ERR_ALIAS` lists the known aliases; `MPIX_ERR_IMPLEMENTATION`, if nothing implements the
/// function and it has no failsafe, lists functions, kernels and devices; `MPIX_ERR_CONFIG` for an unknown
/// platform; `MPIX_ERR_BUSY` inside a kernel; `MPIX_ERR_INFO`; `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL;
/// `MPIX_ERR_NO_MEM`.
///
/// # Safety
/// `alias` ends with NUL; `failsafe` may be called by any thread that sends or receives, as long as the child
/// rank lives; `child` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Claim_int(
    alias: *const c_char,
    failsafe: MPIX_Failsafe,
    overrides: MPIX_Info,
    child: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe { *place(child, "child rank")? = claim(alias, failsafe, overrides)? };
        Ok(())
    })
}

/// As `MPIX_Claim_int`.
///
/// Errors: as those of `MPIX_Claim_int`.
///
/// # Safety
/// As for `MPIX_Claim_int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Claim_ulong(
    alias: *const c_char,
    failsafe: MPIX_Failsafe,
    overrides: MPIX_Info,
    child: *mut c_ulong,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe { *place(child, "child rank")? = claim(alias, failsafe, overrides)? as c_ulong };
        Ok(())
    })
}

/// # Safety
/// As for `MPIX_Claim_int`.
unsafe fn claim(alias: *const c_char, failsafe: MPIX_Failsafe, overrides: MPIX_Info) -> Result<c_int> {
    let failsafe = failsafe.map(|function| -> Failsafe {
        Arc::new(move |object: &Arc<ComputeObj>| {
            let id = OBJECTS.insert(object.clone()).map_err(|error| error.text)?;
            let handle = std::ptr::without_provenance_mut(id as usize);
            // SAFETY: the caller of the claim vouches for the function.
            let status = unsafe { function(handle, handle) };
            // The function may have freed it.
            let _ = OBJECTS.remove(id);
            match status {
                0 => Ok(()),
                status => Err(format!("it returned {status}")),
            }
        })
    });
    // SAFETY: the caller vouches.
    let alias = unsafe { text(alias, "an alias")? };
    world()?.claim(alias, failsafe, &info::overrides(overrides)?)
}

/// Creates a buffer of `vector_size` zeros, numbers of `type_size` bytes: of a child rank, which becomes
/// stateful and stays on one device, or of the framework, if `child` is 0. It is an argument by
/// `MPIX_ComputeObj_buffer`, is written by `MPIX_Send` to it and read by `MPIX_Recv` from it, and freed by
/// `MPIX_Free` or with its child rank. `MPIX_CreateBuffer` of C is this one or `MPIX_CreateBuffer_ulong`.
///
/// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_TYPE` for unknown number types; `MPIX_ERR_COUNT`;
/// `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL; `MPIX_ERR_NO_MEM`.
///
/// # Safety
/// `buffer` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_CreateBuffer_int(
    child: c_ulong,
    is_signed: c_int,
    is_float: c_int,
    type_size: c_int,
    vector_size: u64,
    buffer: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let buffer = unsafe { place(buffer, "buffer")? };
        *buffer = create_buffer(child, (is_signed, is_float, type_size), vector_size)?;
        Ok(())
    })
}

/// As `MPIX_CreateBuffer_int`.
///
/// Errors: as those of `MPIX_CreateBuffer_int`.
///
/// # Safety
/// As for `MPIX_CreateBuffer_int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_CreateBuffer_ulong(
    child: c_ulong,
    is_signed: c_int,
    is_float: c_int,
    type_size: c_int,
    vector_size: u64,
    buffer: *mut c_ulong,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let buffer = unsafe { place(buffer, "buffer")? };
        *buffer = create_buffer(child, (is_signed, is_float, type_size), vector_size)? as c_ulong;
        Ok(())
    })
}

fn create_buffer(child: c_ulong, of: (c_int, c_int, c_int), count: u64) -> Result<c_int> {
    let (is_signed, is_float, size) = of;
    let element = match (is_signed != 0, is_float != 0, size) {
        (_, true, 4) => ElementType::of::<f32>(),
        (_, true, 8) => ElementType::of::<f64>(),
        (true, false, 1) => ElementType::of::<i8>(),
        (true, false, 2) => ElementType::of::<i16>(),
        (true, false, 4) => ElementType::of::<i32>(),
        (true, false, 8) => ElementType::of::<i64>(),
        (false, false, 1) => ElementType::of::<u8>(),
        (false, false, 2) => ElementType::of::<u16>(),
        (false, false, 4) => ElementType::of::<u32>(),
        (false, false, 8) => ElementType::of::<u64>(),
        _ => {
            let text = format!(
                "expected numbers of 1, 2, 4 or 8 bytes, 4 or 8 of floating point, found is_signed {is_signed}, is_float {is_float}, type_size {size}"
            );
            return Err(Error::new(Code::Type, text));
        }
    };
    world()?.create_buffer(rank(child), AnyType::new(&element)?, &[count])
}

/// The number of a rank in a wider type.
fn rank(rank: c_ulong) -> c_int {
    c_int::try_from(rank).unwrap_or(-1)
}

/// Gives a buffer a shape of as many elements: the extents of `axes` axes, axis 0 first, which is the
/// fastest. Before it is an argument.
///
/// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_COUNT`; `MPIX_ERR_BUSY` if a compute object or a message has it;
/// `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `shape` has `axes` extents.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Buffer_shape(buffer: c_ulong, axes: c_int, shape: *const u64) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let shape = unsafe { super::list(shape, usize::try_from(axes).unwrap_or_default(), "extents")? };
        world()?.shape_buffer(rank(buffer), shape)
    })
}

/// Frees a child rank with its buffers and the messages that were not received, or a buffer, and sets it to
/// 0. One that is 0 stays so. `MPIX_Free` of C is this one or `MPIX_Free_ulong`.
///
/// Errors: `MPIX_ERR_RANK` for what is none, or freed already; `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `child` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Free_int(child: *mut c_int) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let child = unsafe { place(child, "child rank")? };
        if *child != 0 {
            world()?.free(*child)?;
            *child = 0;
        }
        Ok(())
    })
}

/// As `MPIX_Free_int`.
///
/// Errors: as those of `MPIX_Free_int`.
///
/// # Safety
/// As for `MPIX_Free_int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Free_ulong(child: *mut c_ulong) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let child = unsafe { place(child, "child rank")? };
        if *child != 0 {
            world()?.free(rank(*child))?;
            *child = 0;
        }
        Ok(())
    })
}

/// The ordinary ranks, if the communicator of all is theirs.
fn ordinary(world: &World) -> Option<&'static flash_net_mpi::Ranks> {
    ranks::joined().filter(|_| world.parents() == 1)
}

/// The parent rank that this thread acts for: 0, or what `MPIX_Parent_attach` said. Of a program with one
/// parent rank in a job of MPI, this process's ordinary rank.
///
/// Errors: `MPIX_ERR_COMM`; `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `rank` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_rank(comm: MPIX_Comm, rank: *mut c_int) -> c_int {
    call(|| {
        check_comm(comm)?;
        let world = world()?;
        let ordinary = ordinary(&world);
        // SAFETY: the caller vouches.
        *unsafe { place(rank, "rank")? } = ordinary.map_or(parent(), |ranks| ranks.rank()) as c_int;
        Ok(())
    })
}

/// The number of parent ranks: `max_slots` of all hosts of the configuration, at least 1. Of a program with
/// one parent rank in a job of MPI, the number of its ordinary ranks.
///
/// Errors: `MPIX_ERR_COMM`; `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `size` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_size(comm: MPIX_Comm, size: *mut c_int) -> c_int {
    call(|| {
        check_comm(comm)?;
        // SAFETY: the caller vouches.
        let size = unsafe { place(size, "size")? };
        let world = world()?;
        *size = ordinary(&world).map_or(world.parents(), |ranks| ranks.size()) as c_int;
        Ok(())
    })
}

/// This thread acts for a parent rank from now on: it receives what was sent by it or forwarded to it.
///
/// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_INIT`.
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_Parent_attach(rank: c_int) -> c_int {
    call(|| {
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        world()?.mailbox(rank)?;
        PARENT.set(rank);
        Ok(())
    })
}

/// Allocates memory of zeros that the program and devices share, to be freed with `MPIX_Free_mem`. An array
/// in it is not copied when it is sent; between the send and the receive it is the kernel's. It may be arrays
/// of any type, one after the other.
///
/// `info` is NULL, or an info, of which nothing is used.
///
/// Errors: `MPIX_ERR_NO_MEM`; `MPIX_ERR_ARG` for NULL or a size below 0.
///
/// # Safety
/// `baseptr` is the address of a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Alloc_mem(size: isize, _info: MPIX_Info, baseptr: *mut c_void) -> c_int {
    call(|| {
        let size = usize::try_from(size).map_err(|_| {
            Error::new(Code::Argument, format!("expected a number of bytes from 0 on, found {size}"))
        })?;
        // SAFETY: the caller vouches.
        *unsafe { place(baseptr.cast::<*mut u8>(), "address")? } = unified::allocate(size)?;
        Ok(())
    })
}

/// Frees memory of `MPIX_Alloc_mem`. Compute objects and messages that have it keep it until they end.
///
/// Errors: `MPIX_ERR_ARG` if it is not what `MPIX_Alloc_mem` gave, or freed.
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_Free_mem(base: *mut c_void) -> c_int {
    call(|| unified::free(base.cast()))
}
