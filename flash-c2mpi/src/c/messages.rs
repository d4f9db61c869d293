//! Sending and receiving.

use super::calls::{check_comm, parent};
use super::status::call;
use super::types::*;
use super::{id_of, null, object, place, world};
use crate::child::{Child, To};
use crate::collective::TAG;
use crate::deferred::begin_waiting;
use crate::error::{Code, Error, Result};
use crate::forward;
use crate::frame::Frame;
use crate::mailbox::{ANY_SOURCE, Wanted};
use crate::object::ComputeObj;
use crate::ranks::{self, Going, Ordinary, Source};
use crate::table::{Kind, Table};
use crate::world::{self, Receive, Status, Target, World};
use flash_core::memory::AnyType;
use flash_net_mpi::until;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static REQUESTS: Table<Request> = Table::new(Kind::Request);

enum Request {
    /// A send: what it takes has been taken.
    Sent(Status),
    Receive(Receive, Place),
    /// To or from an ordinary rank, until it is over.
    Ordinary(Mutex<Option<Going>>),
    /// From ordinary ranks, which is looked for when it is asked for.
    FromRanks(FromRanks),
}

/// A receive from any source, or of a compute object from an ordinary rank.
struct FromRanks {
    source: Source,
    tag: c_int,
    parent: u32,
    to: Place,
}

impl FromRanks {
    /// Receives, if there is something.
    ///
    /// # Safety
    /// As for `MPIX_Recv`.
    unsafe fn now(&self) -> Result<Option<Status>> {
        begin_waiting();
        if self.source.is_any() {
            let wanted = Wanted { child: ANY_SOURCE, tag: self.tag };
            // SAFETY: the caller vouches.
            let received = unsafe { world()?.receive_now(&self.to.target(), self.parent, wanted)? };
            if received.is_some() {
                return Ok(received);
            }
        }
        match &self.to {
            Place::Array(at, count, element) => {
                let into = std::ptr::with_exposed_provenance_mut(*at);
                // SAFETY: the caller vouches.
                unsafe { self.source.receive_now(into, count * element.size, self.tag) }
            }
            Place::Object(object) => {
                let Some((bytes, status)) = self.source.receive_object_now(self.tag)? else {
                    return Ok(None);
                };
                let bytes = world::deliver_frame(Frame::read(&bytes, known)?, object)?;
                Ok(Some(Status { bytes, ..status }))
            }
        }
    }
}

/// Where a receive puts what it gets.
enum Place {
    Object(Arc<ComputeObj>),
    Array(usize, usize, AnyType),
}

impl Place {
    /// # Safety
    /// `buf` is a compute object if the type says so, else there is room for as many elements.
    #[inline]
    fn new(buf: *mut c_void, count: c_int, datatype: MPIX_Datatype) -> Result<Place> {
        if datatype == COMPUTE_OBJ {
            one(count)?;
            return Ok(Place::Object(object(buf.cast())?));
        }
        let (element, count) = elements(buf, count, datatype)?;
        Ok(Place::Array(buf.expose_provenance(), count, element))
    }

    #[inline]
    fn target(&self) -> Target<'_> {
        match self {
            Place::Object(object) => Target::Object(object),
            Place::Array(at, count, element) => {
                Target::Array(std::ptr::with_exposed_provenance_mut(*at), *count, *element)
            }
        }
    }
}

/// What a call sends, or where it receives: elements, how many, and of which type.
type Elements = (*const c_void, c_int, MPIX_Datatype);

/// The bytes of elements that go to or come from an ordinary rank.
#[inline]
fn bytes_of((buf, count, datatype): Elements) -> Result<usize> {
    let (element, count) = elements(buf, count, datatype)?;
    Ok(count * element.size)
}

/// The ordinary rank that a number is; `None`: it is none.
#[inline]
fn ordinary(number: c_int) -> Result<Option<Ordinary>> {
    if Kind::of(number).is_some() {
        return Ok(None);
    }
    world()?;
    let rank = ranks::of(number)?;
    if rank.is_some() {
        begin_waiting();
    }
    Ok(rank)
}

/// Begins to send to a number that is an ordinary rank; `None`: it is none.
///
/// # Safety
/// It is a compute object if the type says so, else the elements are there, and are not written until the
/// message is over.
#[inline]
unsafe fn send_to_rank(what: Elements, number: c_int, tag: c_int) -> Result<Option<Going>> {
    let Some(rank) = ordinary(number)? else { return Ok(None) };
    forward::come_after(rank, tag, what.2 == COMPUTE_OBJ);
    if what.2 == COMPUTE_OBJ {
        one(what.1)?;
        return rank.send_object(object(what.0.cast_mut().cast())?.frame()?, tag).map(Some);
    }
    // SAFETY: the caller vouches.
    unsafe { rank.send(what.0.cast(), bytes_of(what)?, tag) }.map(Some)
}

/// Begins to receive elements from a number that is an ordinary rank; `None`: it is none, or it is a compute
/// object.
///
/// # Safety
/// There is room for the elements, which nothing else uses until the message is over.
#[inline]
unsafe fn receive_of_rank(to: Elements, number: c_int, tag: c_int) -> Result<Option<Going>> {
    let Some(rank) = ordinary(number)?.filter(|_| to.2 != COMPUTE_OBJ) else { return Ok(None) };
    // SAFETY: the caller vouches.
    unsafe { rank.receive(to.0.cast_mut().cast(), bytes_of(to)?, tag) }.map(Some)
}

/// The ordinary ranks that a receive or a probe looks at; `None`: child ranks alone. Of a program with
/// several parent ranks, any source is any child rank.
fn ranks_of(number: c_int) -> Result<Option<Source>> {
    if Kind::of(number).is_some() {
        return Ok(None);
    }
    let is_alone = world()?.parents() == 1;
    Ok(ranks::source(number)?.filter(|source| is_alone || !source.is_any()))
}

/// Where `MPIX_SendFwd` sends a result.
fn forwarded(dest: c_int, datatype: MPIX_Datatype) -> Result<To> {
    let parent = To::Parent(u32::try_from(dest).unwrap_or(u32::MAX));
    if ranks::joined().is_none() || world()?.parents() > 1 {
        return Ok(parent);
    }
    match ranks::of(dest)? {
        Some(to) if to.is_here() => Ok(To::Parent(0)),
        Some(to) => Ok(To::Rank { to, is_object: datatype == COMPUTE_OBJ }),
        None => Ok(parent),
    }
}

fn one(count: c_int) -> Result<()> {
    match count {
        1 => Ok(()),
        _ => Err(Error::new(Code::Count, format!("expected 1 compute object, found {count}"))),
    }
}

/// A child rank that was found, or why none was: where there is no program there is none.
#[inline]
fn begun(found: Result<Arc<Child>>) -> Result<Arc<Child>> {
    found.or_else(|error| world().and(Err(error)))
}

/// A message of the program's.
#[inline]
fn check(tag: c_int, comm: MPIX_Comm) -> Result<()> {
    check_comm(comm)?;
    match tag == TAG {
        false => Ok(()),
        true => {
            Err(Error::new(Code::Tag, format!("expected a tag below {TAG}, which is of collective calls")))
        }
    }
}

/// Type and number of elements at an address.
pub(super) fn elements(
    buf: *const c_void,
    count: c_int,
    datatype: MPIX_Datatype,
) -> Result<(AnyType, usize)> {
    let element = type_of(datatype)?;
    let Ok(count) = usize::try_from(count) else {
        return Err(Error::new(
            Code::Count,
            format!("expected a number of elements from 0 on, found {count}"),
        ));
    };
    if buf.is_null() && count > 0 {
        return Err(null("elements"));
    }
    if count.checked_mul(element.size).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(Error::new(
            Code::Count,
            format!("expected elements that memory can have, found {count}"),
        ));
    }
    Ok((element, count))
}

/// Fills a status, which may be NULL.
///
/// # Safety
/// It is NULL, or a place for a status.
#[inline]
unsafe fn tell(status: *mut MPIX_Status, Status { source, tag, bytes }: Status) {
    // SAFETY: the caller vouches.
    if let Some(status) = unsafe { status.as_mut() } {
        *status = MPIX_Status { MPIX_SOURCE: source, MPIX_TAG: tag, MPIX_ERROR: 0, bytes };
    }
}

/// # Safety
/// As for `MPIX_Send`.
#[inline]
pub(super) unsafe fn send(
    (buf, count, datatype): (*const c_void, c_int, MPIX_Datatype),
    (child, to): (c_int, To),
    tag: c_int,
) -> Result<()> {
    if datatype == COMPUTE_OBJ {
        one(count)?;
        let object = object(buf.cast_mut().cast())?;
        // Its child rank knows the world.
        return world::send(&object, &begun(world::child(child))?, to, tag);
    }
    let world = world()?;
    let (element, count) = elements(buf, count, datatype)?;
    // SAFETY: the caller vouches for the elements.
    unsafe {
        match Kind::of(child) {
            Some(Kind::Buffer) => world.write_buffer(child, buf.cast(), count, element),
            _ => world.send_array_to((buf.cast(), count, element), child, to, tag),
        }
    }
}

/// Sends to a child rank, whose function runs with it. The result comes back to the parent rank of this
/// thread, which receives it from the child rank with the same tag.
///
/// `buf` is a compute object, with the count 1 and the type `MPIX_COMPUTE_OBJ`. For a function that takes one
/// array or scalar and writes one array it may be that one. To a buffer, all of its elements are written, and
/// nothing comes back. Arrays may be used again when the call returns, except those of `MPIX_Alloc_mem`,
/// which are the kernel's until the message is received.
///
/// In a job of MPI `child` may be an ordinary rank, a process, to which elements or a compute object are sent
/// as MPI does; in communicators of their own, so that no other message of the program is one of them.
///
/// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_TAG`; `MPIX_ERR_KERNEL` for arguments that do not fit the function;
/// `MPIX_ERR_IMPLEMENTATION` if nothing implements it for their types; `MPIX_ERR_OBJECT`; `MPIX_ERR_TYPE`;
/// `MPIX_ERR_COUNT`; `MPIX_ERR_BUSY`; `MPIX_ERR_COMM`; `MPIX_ERR_INIT`. Then nothing was sent. That the
/// function fails is an error of the receive.
///
/// # Safety
/// `buf` is a compute object if the type says so, else there are `count` elements of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Send(
    buf: *const c_void,
    count: c_int,
    datatype: MPIX_Datatype,
    child: c_int,
    tag: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
        check(tag, comm)?;
        // SAFETY: the caller vouches.
        unsafe {
            if let Some(going) = send_to_rank((buf, count, datatype), child, tag)? {
                return going.wait().map(drop);
            }
            send((buf, count, datatype), (child, To::Parent(parent())), tag)
        }
    })
}

/// As `MPIX_Send`; the result goes to the parent rank `dest` instead, which receives it from the child rank.
///
/// In a job of MPI `dest` is an ordinary rank. Another process receives the result from this one's rank: as a
/// compute object if that was sent, else as the elements of the array that the function writes. The call
/// waits for the function if it has arrays that are not copied (memory of `MPIX_Alloc_mem`, buffers), which
/// are the program's again then, and if the program has initialized MPI with less than `MPI_THREAD_MULTIPLE`.
///
/// Errors: as those of `MPIX_Send`; `MPIX_ERR_RANK` for a parent rank or an ordinary rank that is none.
///
/// # Safety
/// As for `MPIX_Send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_SendFwd(
    buf: *const c_void,
    count: c_int,
    datatype: MPIX_Datatype,
    child: c_int,
    dest: c_int,
    tag: c_int,
    comm: MPIX_Comm,
) -> c_int {
    call(|| {
        check(tag, comm)?;
        let to = forwarded(dest, datatype)?;
        if let (To::Rank { .. }, Some(Kind::Buffer)) = (to, Kind::of(child)) {
            return Err(Error::new(Code::Rank, "expected a child rank, found a buffer, which sends nothing"));
        }
        // SAFETY: the caller vouches.
        unsafe { send((buf, count, datatype), (child, to), tag) }
    })
}

/// Receives what a function has made of a message: waits for one from `child`, or `MPIX_ANY_SOURCE`, with
/// `tag`, or `MPIX_ANY_TAG`, and for its end. Messages of a child rank with one tag come in the order in
/// which they were sent.
///
/// Into a compute object with the arguments that were sent, mostly that very one, the arrays are written that
/// the function writes; an empty one gets all arguments. Into an array, the one array that the function
/// writes. From a buffer, all of its elements. `status` may be NULL.
///
/// From an ordinary rank, elements that it has sent or forwarded into an array, a compute object into one.
/// `MPIX_ANY_SOURCE` is any child rank and, in a program with one parent rank, any ordinary one.
///
/// Errors: what went wrong with the function: `MPIX_ERR_FAILED`, `MPIX_ERR_DEVICE`; `MPIX_ERR_GONE` if the
/// child rank is freed meanwhile; `MPIX_ERR_TYPE` and `MPIX_ERR_COUNT` if the message does not fit, which is
/// lost then; `MPIX_ERR_RANK`; `MPIX_ERR_TAG`; `MPIX_ERR_OBJECT`; `MPIX_ERR_BUSY`; `MPIX_ERR_COMM`;
/// `MPIX_ERR_INIT`.
///
/// # Safety
/// `buf` is a compute object if the type says so, else there is room for `count` elements; `status` is NULL
/// or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Recv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPIX_Datatype,
    child: c_int,
    tag: c_int,
    comm: MPIX_Comm,
    status: *mut MPIX_Status,
) -> c_int {
    call(|| {
        check_comm(comm)?;
        // SAFETY: the caller vouches.
        unsafe {
            if let Some(going) = receive_of_rank((buf, count, datatype), child, tag)? {
                tell(status, going.wait()?);
                return Ok(());
            }
        }
        let to = Place::new(buf, count, datatype)?;
        if let Some(source) = ranks_of(child)? {
            let receive = FromRanks { source, tag, parent: parent(), to };
            // SAFETY: the caller vouches.
            unsafe { tell(status, until(|| receive.now())?) };
            return Ok(());
        }
        if Kind::of(child) == Some(Kind::Child) {
            // It knows the world.
            let source = begun(world::child(child))?;
            let wanted = Wanted { child, tag };
            let received = source.world.receive_of(&to.target(), parent(), wanted, Some(&source))?;
            // SAFETY: the caller vouches.
            unsafe { tell(status, received) };
            return Ok(());
        }
        let world = world()?;
        // SAFETY: the caller vouches.
        unsafe {
            if let (Some(Kind::Buffer), Place::Array(at, count, element)) = (Kind::of(child), &to) {
                let data = std::ptr::with_exposed_provenance_mut(*at);
                world.read_buffer(child, data, *count, *element)?;
                tell(status, Status { source: child, tag, bytes: (*count * element.size) as u64 });
                return Ok(());
            }
            let received = world.receive(&to.target(), parent(), Wanted { child, tag })?;
            tell(status, received);
        }
        Ok(())
    })
}

/// As `MPIX_Send`, with a request to be waited for: when it is done, arrays may be used again, except those
/// of `MPIX_Alloc_mem`.
///
/// Errors: as those of `MPIX_Send`; then there is no request.
///
/// # Safety
/// As for `MPIX_Send`; `request` is a place for a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Isend(
    buf: *const c_void,
    count: c_int,
    datatype: MPIX_Datatype,
    child: c_int,
    tag: c_int,
    comm: MPIX_Comm,
    request: *mut MPIX_Request,
) -> c_int {
    call(|| {
        check(tag, comm)?;
        // SAFETY: the caller vouches.
        unsafe {
            let request = place(request, "request")?;
            let sent = begun_with_ranks(child, || send_to_rank((buf, count, datatype), child, tag))?;
            let id = match sent {
                Some(id) => id,
                None => {
                    send((buf, count, datatype), (child, To::Parent(parent())), tag)?;
                    let sent = Request::Sent(Status { source: child, tag, bytes: 0 });
                    REQUESTS.insert(Arc::new(sent))?
                }
            };
            *request = std::ptr::without_provenance_mut(id as usize);
        }
        Ok(())
    })
}

/// As `MPIX_Recv`, which does not wait: the request gets the first message that fits, of those that no
/// earlier one gets. `MPIX_Wait` or `MPIX_Test` writes it to `buf`. In a job of MPI, one from any source, or
/// of a compute object from an ordinary rank, takes what there is when it is waited for or tested.
///
/// Errors: `MPIX_ERR_RANK`, also for a buffer; `MPIX_ERR_TAG`; `MPIX_ERR_OBJECT`; `MPIX_ERR_TYPE`;
/// `MPIX_ERR_COUNT`; `MPIX_ERR_COMM`; `MPIX_ERR_INIT`; `MPIX_ERR_ARG`; `MPIX_ERR_NO_MEM`.
///
/// # Safety
/// As for `MPIX_Recv`, until the request has ended; `request` is a place for a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Irecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPIX_Datatype,
    child: c_int,
    tag: c_int,
    comm: MPIX_Comm,
    request: *mut MPIX_Request,
) -> c_int {
    call(|| {
        check_comm(comm)?;
        // SAFETY: the caller vouches.
        let request = unsafe { place(request, "request")? };
        // SAFETY: the caller vouches.
        let posted =
            begun_with_ranks(child, || unsafe { receive_of_rank((buf, count, datatype), child, tag) })?;
        let id = match posted {
            Some(id) => id,
            None => {
                let (to, parent) = (Place::new(buf, count, datatype)?, parent());
                REQUESTS.insert(Arc::new(match ranks_of(child)? {
                    Some(source) => Request::FromRanks(FromRanks { source, tag, parent, to }),
                    None => Request::Receive(world()?.post(parent, Wanted { child, tag })?, to),
                }))?
            }
        };
        *request = std::ptr::without_provenance_mut(id as usize);
        Ok(())
    })
}

/// The number of a request for what `begin` begins with an ordinary rank, if it does. The number comes first,
/// so that nothing is begun that has none.
fn begun_with_ranks(number: c_int, begin: impl FnOnce() -> Result<Option<Going>>) -> Result<Option<c_int>> {
    if ordinary(number)?.is_none() {
        return Ok(None);
    }
    let request = Arc::new(Request::Ordinary(Mutex::new(None)));
    let id = REQUESTS.insert(request.clone())?;
    match begin() {
        Ok(Some(going)) => {
            if let Request::Ordinary(place) = &*request {
                *taken(place) = Some(going);
            }
            Ok(Some(id))
        }
        other => {
            REQUESTS.remove(id)?;
            other.map(|_| None)
        }
    }
}

fn taken(going: &Mutex<Option<Going>>) -> MutexGuard<'_, Option<Going>> {
    going.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a request, which ends and becomes NULL. One that is NULL has ended. `status` may be NULL.
///
/// Errors: as those of `MPIX_Recv`; the request has ended then, too. `MPIX_ERR_REQUEST` for what is none.
///
/// # Safety
/// `request` points to a request, whose `buf` is as `MPIX_Irecv` says; `status` is NULL or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Wait(request: *mut MPIX_Request, status: *mut MPIX_Status) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let request = unsafe { place(request, "request")? };
        if request.is_null() {
            return Ok(());
        }
        let waited = REQUESTS.remove(id_of(*request))?;
        *request = std::ptr::null_mut();
        // SAFETY: the caller vouches.
        unsafe {
            let done = match &*waited {
                Request::Sent(status) => *status,
                Request::Receive(receive, to) => receive.wait(&to.target())?,
                Request::Ordinary(going) => match taken(going).take() {
                    Some(going) => going.wait()?,
                    None => Status::default(),
                },
                Request::FromRanks(receive) => until(|| receive.now())?,
            };
            tell(status, done);
        }
        Ok(())
    })
}

/// As `MPIX_Wait`, which does not wait: `flag` becomes 1 if the request has ended, and 0 if it goes on.
///
/// Errors: as those of `MPIX_Wait`; `flag` is 1 then, and the request has ended.
///
/// # Safety
/// As for `MPIX_Wait`; `flag` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Test(
    request: *mut MPIX_Request,
    flag: *mut c_int,
    status: *mut MPIX_Status,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let (request, flag) = unsafe { (place(request, "request")?, place(flag, "flag")?) };
        *flag = 1;
        if request.is_null() {
            return Ok(());
        }
        let id = id_of(*request);
        let tested = REQUESTS.get(id)?;
        let done = match &*tested {
            Request::Sent(status) => Ok(Some(*status)),
            // SAFETY: the caller vouches.
            Request::Receive(receive, to) => unsafe { receive.test(&to.target()) },
            // SAFETY: the caller vouches.
            Request::FromRanks(receive) => unsafe { receive.now() },
            Request::Ordinary(going) => {
                let mut going = taken(going);
                let done = going.as_mut().map_or(Ok(Some(Status::default())), Going::test);
                if !matches!(done, Ok(None)) {
                    *going = None;
                }
                done
            }
        };
        if let Ok(None) = done {
            *flag = 0;
            return Ok(());
        }
        REQUESTS.remove(id)?;
        *request = std::ptr::null_mut();
        // SAFETY: the caller vouches.
        unsafe { tell(status, done?.unwrap_or_default()) };
        Ok(())
    })
}

/// What there is from ordinary ranks, and of any source from child ranks.
fn probe_now(world: &World, source: Source, tag: c_int) -> Result<Option<Status>> {
    if source.is_any() {
        let found = world.probe_now(parent(), Wanted { child: ANY_SOURCE, tag })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    source.probe_now(tag)
}

/// Waits for a message, and says what it is, without receiving it. Of a compute object from an ordinary rank
/// `status` has more bytes than its arrays have.
///
/// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_TAG`; `MPIX_ERR_GONE`; `MPIX_ERR_COMM`; `MPIX_ERR_INIT`.
///
/// # Safety
/// `status` is NULL or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Probe(
    child: c_int,
    tag: c_int,
    comm: MPIX_Comm,
    status: *mut MPIX_Status,
) -> c_int {
    call(|| {
        check_comm(comm)?;
        let world = world()?;
        let found = match ranks_of(child)? {
            Some(source) => until(|| probe_now(&world, source, tag))?,
            None => world.probe(parent(), Wanted { child, tag })?,
        };
        // SAFETY: the caller vouches.
        unsafe { tell(status, found) };
        Ok(())
    })
}

/// `flag` becomes 1 if there is a message whose function has finished, and `status` says what it is; else 0.
///
/// Errors: as those of `MPIX_Probe`; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `flag` is a place for a number; `status` is NULL or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Iprobe(
    child: c_int,
    tag: c_int,
    comm: MPIX_Comm,
    flag: *mut c_int,
    status: *mut MPIX_Status,
) -> c_int {
    call(|| {
        check_comm(comm)?;
        // SAFETY: the caller vouches.
        let flag = unsafe { place(flag, "flag")? };
        let world = world()?;
        let found = match ranks_of(child)? {
            Some(source) => probe_now(&world, source, tag)?,
            None => world.probe_now(parent(), Wanted { child, tag })?,
        };
        *flag = c_int::from(found.is_some());
        // SAFETY: the caller vouches.
        unsafe { found.into_iter().for_each(|found| tell(status, found)) };
        Ok(())
    })
}

/// The number of elements of a type that were received: the bytes of the status, which must be a multiple.
///
/// Errors: `MPIX_ERR_TYPE`; `MPIX_ERR_COUNT` if they are no multiple; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `status` points to a status; `count` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Get_count(
    status: *const MPIX_Status,
    datatype: MPIX_Datatype,
    count: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let (status, count) = unsafe { (place(status.cast_mut(), "status")?, place(count, "number")?) };
        let (bytes, element) = (status.bytes, type_of(datatype)?);
        match (bytes % element.size as u64, c_int::try_from(bytes / element.size as u64)) {
            (0, Ok(elements)) => *count = elements,
            _ => {
                let text = format!("expected whole elements of `{}`, found {bytes} bytes", element.name);
                return Err(Error::new(Code::Count, text));
            }
        }
        Ok(())
    })
}
