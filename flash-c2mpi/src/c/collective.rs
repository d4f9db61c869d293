//! Communicators of child ranks.

use super::calls::parent;
use super::messages::{elements, send};
use super::status::call;
use super::types::{COMPUTE_OBJ, MPIX_Comm, MPIX_ComputeObj, MPIX_Datatype};
use super::{list, object, place, world};
use crate::collective::{self, Operation, TAG};
use crate::error::{Code, Error, Result};
use crate::mailbox::Wanted;
use crate::world::Target;
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
/// Errors: as those of `MPIX_Send`, of the first that fails; the later ones get nothing then.
/// `MPIX_ERR_COMM`; `MPIX_ERR_RANK` for another root.
///
/// # Safety
/// As for `MPIX_Send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Bcast(
    buf: *const c_void,
    count: c_int,
    datatype: MPIX_Datatype,
    root: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
        check_root(root)?;
        let all = collective::children(comm)?;
        // SAFETY: the caller vouches.
        all.iter().try_for_each(|child| unsafe { send((buf, count, datatype), (*child, parent()), TAG) })
    })
}

/// Sends to each child rank of a communicator its part, in their order: `count` elements each, or of `count`
/// 1 and `MPIX_COMPUTE_OBJ` one compute object each. `recvbuf` and what follows it are not used, as the root
/// is no member. `root` is the parent rank of this thread.
///
/// Errors: as those of `MPIX_Bcast`.
///
/// # Safety
/// There is a part for each child rank at `sendbuf`, each as for `MPIX_Send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Scatter(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPIX_Datatype,
    _recvbuf: *mut c_void,
    _recvcount: c_int,
    _recvtype: MPIX_Datatype,
    root: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
        check_root(root)?;
        let all = collective::children(comm)?;
        // SAFETY: the caller vouches for a part for each.
        unsafe {
            if sendtype == COMPUTE_OBJ {
                let objects: &[MPIX_ComputeObj] = list(sendbuf.cast(), all.len(), "compute objects")?;
                let mut pairs = all.iter().zip(objects);
                return pairs.try_for_each(|(child, object)| {
                    send((object.cast_const().cast(), sendcount, sendtype), (*child, parent()), TAG)
                });
            }
            let (element, count) = elements(sendbuf, sendcount, sendtype)?;
            all.iter().enumerate().try_for_each(|(at, child)| {
                let part = sendbuf.cast::<u8>().wrapping_add(at * count * element.size);
                send((part.cast(), sendcount, sendtype), (*child, parent()), TAG)
            })
        }
    })
}

/// Receives from each child rank of a communicator what it made of a broadcast or a part, in their order:
/// `recvcount` elements each, or, with `recvcount` 1 and `MPIX_COMPUTE_OBJ`, one compute object each.
/// `sendbuf` and what follows it are not used, as the root is no member. `root` is the parent rank of this
/// thread.
///
/// Errors: as those of `MPIX_Recv`, of the first that fails; all are received. `MPIX_ERR_COMM`;
/// `MPIX_ERR_RANK` for another root.
///
/// # Safety
/// There is room for what each child rank gives at `recvbuf`, each as for `MPIX_Recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Gather(
    _sendbuf: *const c_void,
    _sendcount: c_int,
    _sendtype: MPIX_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPIX_Datatype,
    root: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
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
/// Errors: as those of `MPIX_Gather`; `MPIX_ERR_TYPE` for what are no numbers; `MPIX_ERR_ARG` for no
/// operation.
///
/// # Safety
/// There is room for `count` elements at `recvbuf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Reduce(
    _sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPIX_Datatype,
    op: c_int,
    root: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
        check_root(root)?;
        let operation = match op {
            SUM => Operation::Sum,
            PROD => Operation::Product,
            MIN => Operation::Min,
            MAX => Operation::Max,
            _ => {
                return Err(Error::new(Code::Argument, format!("expected MPIX_SUM or its like, found {op}")));
            }
        };
        let (element, count) = elements(recvbuf, count, datatype)?;
        let all = collective::children(comm)?;
        // SAFETY: the caller vouches for the room.
        unsafe { world()?.reduce((recvbuf.cast(), count, element), operation, parent(), &all) }
    })
}
