//! Handing a world to other processes: to a child by inheritance, to any by a Unix socket or by the number of
//! a descriptor.

use crate::error::NetError;
use crate::process;
use crate::transport::Peer;
use crate::world::World;
use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The environment's variable that says which world a process belongs to: `DESCRIPTOR:PEER`.
pub const WORLD_VARIABLE: &str = "FLASH_WORLD";

/// Bytes of the message beside a descriptor: the peer's number.
const MESSAGE: usize = 4;

impl World {
    /// Lets the child that `command` starts find this world, as `me`, by [`World::from_environment`]. It is
    /// kept to the processors that the world gives it; the start fails if the system refuses these.
    ///
    /// # Errors
    /// If the system has no descriptor left, or the world's record of the peer cannot be read.
    pub fn inherit(&self, command: &mut Command, me: Peer) -> Result<(), NetError> {
        let source = |source| NetError::System { what: "handing a world to a child", source };
        let file = self.file().try_clone().map_err(source)?;
        let cpus = process::set_of(&self.member(me)?.cpus);
        command.env(WORLD_VARIABLE, format!("{}:{}", file.as_raw_fd(), me.0));
        let keep = move || {
            // SAFETY: the descriptor is this closure's. Only the child's own descriptor changes.
            if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
            cpus.as_ref().map_or(Ok(()), process::keep_to_set)
        };
        // SAFETY: between fork and exec the closure makes two system calls, and takes no lock or memory.
        unsafe { command.pre_exec(keep) };
        Ok(())
    }

    /// The world that this process was started in, and which peer it is. `None` if it was not started in one.
    /// Its own children do not inherit the world.
    ///
    /// # Errors
    /// If the variable names none.
    pub fn from_environment() -> Result<Option<(World, Peer)>, NetError> {
        let Some(value) = std::env::var_os(WORLD_VARIABLE) else { return Ok(None) };
        let value = value.to_string_lossy();
        let refuse = |why: &str| NetError::World {
            what: "finding the world of this process",
            why: format!(
                "{WORLD_VARIABLE} is `{value}`, {why}; `flash run` sets it for the processes that it starts: unset \
                 it for others"
            ),
        };
        let numbers =
            value.split_once(':').and_then(|(file, me)| Some((file.parse().ok()?, me.parse().ok()?)));
        let (file, me): (i32, u32) = numbers.ok_or_else(|| refuse("expected DESCRIPTOR:PEER"))?;
        // SAFETY: a system call that makes a new descriptor, or fails.
        let own = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 3) };
        if own < 0 {
            return Err(refuse("which is no open descriptor"));
        }
        // SAFETY: a new descriptor, which nothing else has.
        let world = World::from_file(unsafe { OwnedFd::from_raw_fd(own) });
        let world = world.map_err(|error| refuse(&format!("which is no world: {error}")))?;
        // SAFETY: a flag of the descriptor that was inherited for this.
        unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) };
        Ok(Some((world, Peer(me))))
    }

    /// The world that another process of this user has open, by that process's descriptor of it.
    ///
    /// # Errors
    /// If the system does not open it, or it is none.
    pub fn of_process(pid: u32, descriptor: u32) -> Result<World, NetError> {
        let source = |source| NetError::System { what: "opening the world of another process", source };
        // Whatever the file is, opening it does not wait.
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = options.open(format!("/proc/{pid}/fd/{descriptor}")).map_err(source)?;
        World::from_file(file.into())
    }

    /// Sends the world over a socket, for a process that shall join as `to`.
    ///
    /// # Errors
    /// If the system does not send it.
    pub fn send_over(&self, socket: &UnixStream, to: Peer) -> Result<(), NetError> {
        let mut bytes = to.0.to_ne_bytes();
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: MESSAGE };
        let mut space = Space::new();
        let mut message = space.message(&mut part);
        // SAFETY: the space has room for a header and one descriptor, and is aligned for the header.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(self.file().as_raw_fd());
        }
        // SAFETY: the message and what it points to live through the call.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_NOSIGNAL) };
        match sent {
            n if n == MESSAGE as isize => Ok(()),
            n if n < 0 => Err(NetError::last("sending a world over a socket")),
            n => Err(NetError::World {
                what: "sending a world over a socket",
                why: format!("expected {MESSAGE} bytes to be sent, found {n}"),
            }),
        }
    }

    /// Receives a world, and which peer this process shall join as. Waits for it, as the socket does.
    ///
    /// # Errors
    /// If something else comes, or the socket ends.
    pub fn receive_over(socket: &UnixStream) -> Result<(World, Peer), NetError> {
        let what = "receiving a world over a socket";
        let mut bytes = [0_u8; MESSAGE];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: MESSAGE };
        let mut space = Space::new();
        let mut message = space.message(&mut part);
        // SAFETY: the message and what it points to live through the call.
        let came = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if came < 0 {
            return Err(NetError::last(what));
        }
        let mut received = Vec::new();
        // SAFETY: headers and descriptors that the system has written into the space; each descriptor is new,
        // and is owned once.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while !header.is_null() {
                if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                    let bytes = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
                    let files = libc::CMSG_DATA(header).cast::<i32>();
                    for i in 0..bytes / size_of::<i32>() {
                        received.push(OwnedFd::from_raw_fd(files.add(i).read_unaligned()));
                    }
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        let is_cut = message.msg_flags & libc::MSG_CTRUNC != 0;
        match (received.len(), received.pop()) {
            (1, Some(file)) if came == MESSAGE as isize && !is_cut => {
                Ok((World::from_file(file)?, Peer(u32::from_ne_bytes(bytes))))
            }
            (found, _) => {
                let more = if is_cut { " and more" } else { "" };
                let why = format!(
                    "expected {MESSAGE} bytes and 1 descriptor, found {came} bytes and {found} descriptors{more}"
                );
                Err(NetError::World { what, why })
            }
        }
    }
}

/// Memory for the descriptor beside a message, aligned for its header.
struct Space([MaybeUninit<u64>; 8]);

impl Space {
    fn new() -> Space {
        Space([MaybeUninit::zeroed(); 8])
    }

    fn message(&mut self, part: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: a length from a length.
        let room = unsafe { libc::CMSG_SPACE(size_of::<i32>() as u32) } as usize;
        assert!(room <= size_of_val(&self.0));
        // SAFETY: pointers and numbers, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = part;
        message.msg_iovlen = 1;
        message.msg_control = self.0.as_mut_ptr().cast();
        message.msg_controllen = room as _;
        message
    }
}

/// The user of the process at the other end of a socket, as it was when it connected.
///
/// # Errors
/// If the system does not say.
pub fn peer_uid(socket: &UnixStream) -> Result<u32, NetError> {
    peer_of(socket).map(|(_, user)| user)
}

/// The process at the other end of a socket, and its user, as it was when it connected.
pub(crate) fn peer_of(socket: &UnixStream) -> Result<(u32, u32), NetError> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the answer has the type that is expected, and the size said.
    let failed = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut found).cast(), &raw mut length)
    };
    match failed {
        0 => Ok((found.pid as u32, found.uid)),
        _ => Err(NetError::last("asking for the process at a socket")),
    }
}
