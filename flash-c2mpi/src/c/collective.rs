//! What is done with all members of a communicator: the child ranks of one that the program has created, or
//! the ordinary ranks, in `MPIX_COMM_WORLD`.

use super::calls::{COMM_WORLD, parent};
use super::messages::{elements, send};
use super::status::call;
use super::types::{COMPUTE_OBJ, MPIX_Comm, MPIX_ComputeObj, MPIX_Datatype};
use super::{list, null, object, place, world};
use crate::child::To;
use crate::collective::{self, Operation, TAG};
use crate::deferred::begin_waiting;
use crate::error::{Code, Error, Result};
use crate::frame::no_memory;
use crate::mailbox::Wanted;
use crate::ranks::{self, failed};
use crate::world::Target;
use flash_net_mpi::Ranks;
use std::ffi::{c_int, c_void};

/// An operation of `MPIX_Reduce`: the sum.
pub const SUM: c_int = 1;
/// An operation of `MPIX_Reduce`: the product.
pub const PROD: c_int = 2;
/// An operation of `MPIX_Reduce`: the least.
pub const MIN: c_int = 3;
/// An operation of `MPIX_Reduce`: the greatest.
pub const MAX: c_int = 4;

/// Creates a communicator of child ranks, in this order, to be freed with `MPIX_Comm_free`.
///
/// Errors: `MPIX_ERR_COMM` if there is none; `MPIX_ERR_ARG` for NULL; `MPIX_ERR_NO_MEM`.
///
/// # Safety
/// There are `count` child ranks at `children`; `comm` is a place for a communicator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_create(
    children: *const c_int,
    count: c_int,
    comm: *mut MPIX_Comm,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe {
            let comm = place(comm, "communicator")?;
            let count = usize::try_from(count).unwrap_or_default();
            *comm = collective::create(list(children, count, "child ranks")?)?;
        }
        Ok(())
    })
}

/// Frees a communicator of child ranks, and sets it to `MPIX_COMM_WORLD`. The child ranks stay.
///
/// Errors: `MPIX_ERR_COMM` for what is none, or freed already; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `comm` points to a communicator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_free(comm: *mut MPIX_Comm) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let comm = unsafe { place(comm, "communicator")? };
        collective::free(*comm)?;
        *comm = super::calls::COMM_WORLD;
        Ok(())
    })
}

/// The members of `MPIX_COMM_WORLD`.
enum All {
    /// The ordinary ranks of a job.
    Ranks(&'static Ranks),
    /// This process.
    Alone,
}

impl All {
    /// `None`: it is a communicator of child ranks.
    fn of(comm: MPIX_Comm) -> Result<Option<All>> {
        if comm != COMM_WORLD {
            return Ok(None);
        }
        begin_waiting();
        let world = world()?;
        if world.parents() > 1 {
            let text = format!(
                "expected a communicator of child ranks, as the {} parent ranks of one process have no collective calls, found MPIX_COMM_WORLD",
                world.parents()
            );
            return Err(Error::new(Code::Comm, text));
        }
        Ok(Some(ranks::joined().map_or(All::Alone, All::Ranks)))
    }

    fn size(&self) -> usize {
        match self {
            All::Ranks(ranks) => ranks.size() as usize,
            All::Alone => 1,
        }
    }

    /// The root, and whether it is this process.
    fn root(&self, root: c_int) -> Result<(u32, bool)> {
        let here = match self {
            All::Ranks(ranks) => ranks.rank(),
            All::Alone => 0,
        };
        match u32::try_from(root) {
            Ok(root) if (root as usize) < self.size() => Ok((root, root == here)),
            _ => {
                let text = format!("expected a root from 0 to {}, found {root}", self.size() - 1);
                Err(Error::new(Code::Rank, text))
            }
        }
    }

    /// Collects the same number of bytes of each in the order of their ranks, at the root.
    ///
    /// # Safety
    /// There are that many bytes, and at the root room for those of all, which nothing else uses.
    unsafe fn gather(&self, from: *const u8, bytes: usize, into: *mut u8, root: u32) -> Result<()> {
        match self {
            // SAFETY: the caller vouches.
            All::Ranks(ranks) => unsafe { ranks.gather(from, bytes, into, root) }.map_err(failed),
            All::Alone => {
                // SAFETY: as above.
                unsafe { std::ptr::copy(from, into, bytes) };
                Ok(())
            }
        }
    }
}

/// That each rank has as many bytes of one message on both sides.
fn same(sent: usize, received: usize) -> Result<()> {
    match sent == received {
        true => Ok(()),
        false => {
            let text =
                format!("expected as many bytes of each rank as are received, {received}, found {sent}");
            Err(Error::new(Code::Count, text))
        }
    }
}

/// Bytes of elements, for ordinary ranks.
fn bytes_of(buf: *const c_void, count: c_int, datatype: MPIX_Datatype) -> Result<usize> {
    if datatype == COMPUTE_OBJ {
        let text = "expected elements, as compute objects go to child ranks or to one process, found a compute object";
        return Err(Error::new(Code::Type, text));
    }
    let (element, count) = elements(buf, count, datatype)?;
    Ok(count * element.size)
}

/// All ordinary ranks wait for each other.
///
/// Errors: `MPIX_ERR_COMM` for another communicator than `MPIX_COMM_WORLD`; `MPIX_ERR_INIT`; `MPIX_ERR_OTHER`
/// with MPI's words.
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_Barrier(comm: MPIX_Comm) -> c_int {
    call(|| match All::of(comm)? {
        Some(All::Ranks(ranks)) => ranks.barrier().map_err(failed),
        Some(All::Alone) => Ok(()),
        None => Err(Error::new(Code::Comm, format!("expected MPIX_COMM_WORLD, found {comm}"))),
    })
}

/// The parent rank that is the root must be that of the thread.
fn check_root(root: c_int) -> Result<()> {
    match root == parent() as c_int {
        true => Ok(()),
        false => {
            let text =
                format!("expected the parent rank of this thread, {}, as root, found {root}", parent());
            Err(Error::new(Code::Rank, text))
        }
    }
}

/// Sends the same to each child rank of a communicator, as `MPIX_Send`. What they make of it is gathered or
/// reduced. `root` is the parent rank of this thread.
///
/// With `MPIX_COMM_WORLD`, the elements of the ordinary rank `root` go to all, as by MPI: this, and the calls
/// below, are made by all in the same order, each with as many elements of the same type.
///
/// Errors: as those of `MPIX_Send`, of the first that fails; the later ones get nothing then.
/// `MPIX_ERR_COMM`; `MPIX_ERR_RANK` for another root; `MPIX_ERR_OTHER` with MPI's words.
///
/// # Safety
/// As for `MPIX_Send`; with `MPIX_COMM_WORLD`, there is room for the elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Bcast(
    buf: *mut c_void,
    count: c_int,
    datatype: MPIX_Datatype,
    root: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
        if let Some(all) = All::of(comm)? {
            let (bytes, (root, _)) = (bytes_of(buf, count, datatype)?, all.root(root)?);
            return match all {
                // SAFETY: the caller vouches.
                All::Ranks(ranks) => unsafe { ranks.broadcast(buf.cast(), bytes, root) }.map_err(failed),
                All::Alone => Ok(()),
            };
        }
        check_root(root)?;
        let all = collective::children(comm)?;
        // SAFETY: the caller vouches.
        all.iter().try_for_each(|child| unsafe {
            send((buf.cast_const(), count, datatype), (*child, To::Parent(parent())), TAG)
        })
    })
}

/// Sends to each child rank of a communicator its part, in their order: `count` elements each, or of `count`
/// 1 and `MPIX_COMPUTE_OBJ` one compute object each. `recvbuf` and what follows it are not used, as the root
/// is no member. `root` is the parent rank of this thread.
///
/// With `MPIX_COMM_WORLD`, each ordinary rank gets its part of the elements of `root` at `recvbuf`, of which
/// `sendbuf` is used at `root` alone.
///
/// Errors: as those of `MPIX_Bcast`.
///
/// # Safety
/// There is a part for each child rank at `sendbuf`, each as for `MPIX_Send`; with `MPIX_COMM_WORLD`, at
/// `root` a part for each, and room for one at `recvbuf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Scatter(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPIX_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPIX_Datatype,
    root: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
        if let Some(all) = All::of(comm)? {
            let (bytes, (root, is_root)) = (bytes_of(recvbuf, recvcount, recvtype)?, all.root(root)?);
            if is_root {
                same(bytes_of(sendbuf, sendcount, sendtype)?, bytes)?;
            }
            let (from, into) = (sendbuf.cast::<u8>(), recvbuf.cast::<u8>());
            return match all {
                // SAFETY: the caller vouches.
                All::Ranks(ranks) => unsafe { ranks.scatter(from, into, bytes, root) }.map_err(failed),
                // SAFETY: as above.
                All::Alone => unsafe { all.gather(from, bytes, into, root) },
            };
        }
        check_root(root)?;
        let all = collective::children(comm)?;
        // SAFETY: the caller vouches for a part for each.
        unsafe {
            if sendtype == COMPUTE_OBJ {
                let objects: &[MPIX_ComputeObj] = list(sendbuf.cast(), all.len(), "compute objects")?;
                let mut pairs = all.iter().zip(objects);
                return pairs.try_for_each(|(child, object)| {
                    send(
                        (object.cast_const().cast(), sendcount, sendtype),
                        (*child, To::Parent(parent())),
                        TAG,
                    )
                });
            }
            let (element, count) = elements(sendbuf, sendcount, sendtype)?;
            all.iter().enumerate().try_for_each(|(at, child)| {
                let part = sendbuf.cast::<u8>().wrapping_add(at * count * element.size);
                send((part.cast(), sendcount, sendtype), (*child, To::Parent(parent())), TAG)
            })
        }
    })
}

/// Receives from each child rank of a communicator what it made of a broadcast or a part, in their order:
/// `recvcount` elements each, or, with `recvcount` 1 and `MPIX_COMPUTE_OBJ`, one compute object each.
/// `sendbuf` and what follows it are not used, as the root is no member. `root` is the parent rank of this
/// thread.
///
/// With `MPIX_COMM_WORLD`, the ordinary rank `root` gets the elements that each has at `sendbuf`, in the
/// order of their ranks. `recvbuf` is used at `root` alone.
///
/// Errors: as those of `MPIX_Recv`, of the first that fails; all are received. `MPIX_ERR_COMM`;
/// `MPIX_ERR_RANK` for another root; `MPIX_ERR_OTHER` with MPI's words.
///
/// # Safety
/// There is room for what each child rank gives at `recvbuf`, each as for `MPIX_Recv`; with
/// `MPIX_COMM_WORLD`, at `root` room for the elements of all, and at `sendbuf` those of one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Gather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPIX_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPIX_Datatype,
    root: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
        if let Some(all) = All::of(comm)? {
            let (bytes, (root, is_root)) = (bytes_of(sendbuf, sendcount, sendtype)?, all.root(root)?);
            if is_root {
                same(bytes, bytes_of(recvbuf, recvcount, recvtype)?)?;
            }
            // SAFETY: the caller vouches.
            return unsafe { all.gather(sendbuf.cast(), bytes, recvbuf.cast(), root) };
        }
        check_root(root)?;
        let (world, all) = (world()?, collective::children(comm)?);
        let mut failed = Ok(());
        // SAFETY: the caller vouches for the room of each.
        unsafe {
            if recvtype == COMPUTE_OBJ {
                let handles: &[MPIX_ComputeObj] =
                    list(recvbuf.cast_const().cast(), all.len(), "compute objects")?;
                let objects = handles.iter().map(|handle| object(*handle)).collect::<Result<Vec<_>>>()?;
                for (child, object) in all.iter().zip(&objects) {
                    let wanted = Wanted { child: *child, tag: TAG };
                    failed = failed.and(world.receive(&Target::Object(object), parent(), wanted).map(drop));
                }
                return failed;
            }
            let (element, count) = elements(recvbuf, recvcount, recvtype)?;
            for (at, child) in all.iter().enumerate() {
                let part = recvbuf.cast::<u8>().wrapping_add(at * count * element.size);
                let wanted = Wanted { child: *child, tag: TAG };
                let target = Target::Array(part, count, element);
                failed = failed.and(world.receive(&target, parent(), wanted).map(drop));
            }
        }
        failed
    })
}

/// Receives from each child rank of a communicator what it made of a broadcast or a part, `count` numbers
/// each, and combines them: `op` is `MPIX_SUM`, `MPIX_PROD`, `MPIX_MIN` or `MPIX_MAX`. `sendbuf` is not used,
/// as the root is no member. `root` is the parent rank of this thread.
///
/// With `MPIX_COMM_WORLD`, those that each ordinary rank has at `sendbuf`, always in the order of their
/// ranks, so that the same numbers give the same bits. `root` has memory for those of all meanwhile.
/// `recvbuf` is used at `root` alone.
///
/// Errors: as those of `MPIX_Gather`; `MPIX_ERR_TYPE` for what are no numbers; `MPIX_ERR_ARG` for no
/// operation.
///
/// # Safety
/// There is room for `count` elements at `recvbuf`; with `MPIX_COMM_WORLD`, at `root`, and there are as many
/// at `sendbuf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPIX_Datatype,
    op: c_int,
    root: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
        let operation = match op {
            SUM => Operation::Sum,
            PROD => Operation::Product,
            MIN => Operation::Min,
            MAX => Operation::Max,
            _ => {
                return Err(Error::new(Code::Argument, format!("expected MPIX_SUM or its like, found {op}")));
            }
        };
        if let Some(all) = All::of(comm)? {
            let (bytes, (root, is_root)) = (bytes_of(sendbuf, count, datatype)?, all.root(root)?);
            let combine = collective::combiner(elements(sendbuf, count, datatype)?.0)?;
            if is_root && recvbuf.is_null() && bytes > 0 {
                return Err(null("elements"));
            }
            let room = if is_root { bytes.saturating_mul(all.size()) } else { 0 };
            let mut parts = Vec::new();
            parts.try_reserve_exact(room).map_err(|_| no_memory(room))?;
            parts.resize(room, 0u8);
            // SAFETY: the caller vouches for the elements; there is that room.
            unsafe { all.gather(sendbuf.cast(), bytes, parts.as_mut_ptr(), root)? };
            let (total, others) = parts.split_at_mut(if is_root { bytes } else { 0 });
            others.chunks_exact(bytes.max(1)).for_each(|other| combine(operation, total, other));
            if !total.is_empty() {
                // SAFETY: the caller vouches for the room at the root.
                unsafe { std::ptr::copy_nonoverlapping(total.as_ptr(), recvbuf.cast(), total.len()) };
            }
            return Ok(());
        }
        check_root(root)?;
        let (element, count) = elements(recvbuf, count, datatype)?;
        let all = collective::children(comm)?;
        // SAFETY: the caller vouches for the room.
        unsafe { world()?.reduce((recvbuf.cast(), count, element), operation, parent(), &all) }
    })
}
