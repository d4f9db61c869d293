//! What controller and agents say to each other.
//!
//! The controller asks, an agent answers; each request but `Release`, `Cancel`, `Free` and `Read` has one
//! answer with its number. Agents that share no memory ask each other for `Get`, and for nothing else.
//!
//! A frame is a [`Head`] and a body in `postcard`'s format. A body that is too long for a frame lies in the
//! sender's part of the shared memory, where it stays until the answer has come, or until the controller has
//! said [`Request::Read`].
//!
//! Nothing that comes is trusted: numbers are looked up, ranges are checked against what they lie in, texts
//! are UTF-8. What does not fit is an error that says what was expected and found.

mod image;
mod launch;

pub(crate) use image::ImplementationImage;
pub(crate) use launch::{Bounds, LaunchImage, OwnedLaunch, Place, Values, owned};

use flash_backend::{Code, Failure};
use flash_net::{Loss, NetError, Peer, Transport};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Changes with every change of what is in this module.
pub(crate) const VERSION: u32 = 2;

/// Bytes at most of a piece of a buffer in a message, where no memory is shared.
pub(crate) const PIECE: u64 = 1 << 20;

/// Bytes of a head.
pub(crate) const HEAD: usize = 8;

/// How a frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Of the request.
    pub number: u32,
    pub kind: Kind,
    /// The frame says where the body is: its offset and its length.
    pub is_long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request = 1,
    Answer = 2,
}

impl Head {
    fn bytes(self) -> [u8; HEAD] {
        let [a, b, c, d] = self.number.to_le_bytes();
        [a, b, c, d, self.kind as u8, u8::from(self.is_long), 0, 0]
    }

    /// The head and the rest of a frame.
    pub fn split(frame: &[u8]) -> Result<(Head, &[u8]), Failure> {
        let Some((&[a, b, c, d, kind, long, ..], body)) = frame.split_first_chunk::<HEAD>() else {
            return Err(bad(format!("expected a frame of at least {HEAD} bytes, found {}", frame.len())));
        };
        let kind = match kind {
            1 => Kind::Request,
            2 => Kind::Answer,
            other => return Err(bad(format!("expected a request or an answer, found kind {other}"))),
        };
        Ok((Head { number: u32::from_le_bytes([a, b, c, d]), kind, is_long: long != 0 }, body))
    }
}

/// An attribute: name, value as JSON, and whether an unknown one must be refused.
pub(crate) type Attribute<'a> = (Cow<'a, str>, Cow<'a, str>, bool);

/// What a controller asks an agent to do. `device` is the agent's number of one.
#[derive(Debug, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant)] // a launch is written and read without an allocation
pub(crate) enum Request<'a> {
    /// The first one: which version is spoken, and which devices the agent has.
    Hello {
        version: u32,
        abi: [u32; 2],
    },
    /// Makes an implementation ready, which gets the number `kernel`.
    Prepare {
        device: u32,
        kernel: u32,
        #[serde(borrow)]
        implementation: ImplementationImage<'a>,
    },
    Release {
        device: u32,
        kernel: u32,
    },
    Preload {
        device: u32,
        #[serde(borrow)]
        implementation: ImplementationImage<'a>,
    },
    Submit {
        device: u32,
        kernel: u32,
        #[serde(borrow)]
        launch: LaunchImage<'a>,
    },
    /// Asks a launch, or a copy from another agent, to stop, by the number of its request.
    Cancel {
        number: u32,
    },
    /// Allocates a buffer, which gets the number `buffer`.
    Alloc {
        device: u32,
        space: u32,
        buffer: u64,
        bytes: u64,
    },
    Free {
        device: u32,
        buffer: u64,
    },
    Clear {
        device: u32,
        buffer: u64,
    },
    Copy {
        device: u32,
        from: Side,
        to: Side,
        shape: Shape,
    },
    /// Copies to a buffer what comes behind this in the frame: a box without gaps, from its first byte on.
    Put {
        device: u32,
        buffer: u64,
        shape: Shape,
    },
    /// Copies a box of a buffer into the answer, behind [`Answer::Bytes`], without gaps.
    Get {
        device: u32,
        buffer: u64,
        shape: Shape,
    },
    /// Copies a box from a buffer of another agent, `from` a device of it, to one of this agent's.
    Fetch {
        device: u32,
        buffer: u64,
        shape: Shape,
        agent: u32,
        from: (u32, u64),
    },
    Query {
        device: u32,
        key: &'a str,
    },
    Has {
        device: u32,
        kind: u32,
        name: &'a str,
    },
    /// The body of an answer, at this offset of the agent's memory, was read.
    Read {
        offset: u64,
    },
}

/// What an agent answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer<'a> {
    /// It is done. Nanoseconds of the agent's clock, for launches: when it began and ended.
    Done {
        start: u64,
        end: u64,
    },
    Failed {
        code: u32,
        text: Cow<'a, str>,
    },
    Devices(Vec<RemoteDevice>),
    Text(Cow<'a, str>),
    Yes(bool),
    /// What was asked for is behind this in the frame.
    Bytes,
}

/// A device of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RemoteDevice {
    /// Its id there, such as `ALL_CPU:0`.
    pub id: String,
    /// Its properties, as JSON.
    pub info: String,
    /// What its backend runs, if the device does not say.
    pub target: String,
    pub spaces: Vec<RemoteSpace>,
}

/// A memory of a device.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RemoteSpace {
    pub id: u32,
    pub kind: u32,
    pub numa_node: i32,
    pub bytes: u64,
    pub alignment: u32,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Side {
    /// The controller's memory, by its offset.
    Shared(u64),
    Buffer(u64),
}

/// A box to be copied, as [`CopyBox`](flash_backend::abi::CopyBox).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub extent: [u64; 3],
    pub offsets: [u64; 2],
    pub strides: [[u64; 2]; 2],
}

/// What is wrong with a frame.
pub(crate) fn bad(what: String) -> Failure {
    Failure::new(
        Code::Invalid,
        format!("a message between a controller and its agent: {what}: are both of one version of FLASH?"),
    )
}

/// A failure of the transport.
pub(crate) fn failed(error: &NetError) -> Failure {
    match error {
        NetError::Lost(loss) => gone(loss),
        NetError::OutOfMemory { .. } => Failure::new(Code::OutOfMemory, error.to_string()),
        _ => Failure::new(Code::Other, error.to_string()),
    }
}

/// A process that is gone.
pub(crate) fn gone(loss: &Loss) -> Failure {
    let text = loss.to_string();
    // Its name says more than its number.
    let named = loss.name.as_ref().and_then(|name| {
        text.strip_prefix(&format!("{} `{name}`", loss.peer)).map(|rest| format!("{name}{rest}"))
    });
    Failure::new(Code::DeviceLost, named.unwrap_or(text))
}

/// Reads a body: a message, and what is behind it.
pub(crate) fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<(T, &'a [u8]), Failure> {
    postcard::take_from_bytes(body)
        .map_err(|error| bad(format!("{} bytes that cannot be read: {error}", body.len())))
}

/// A body in the memory of its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    pub offset: u64,
}

/// A message as it is sent.
pub(crate) struct Body {
    /// Unless it is long.
    short: [u8; SHORT],
    bytes: usize,
    long: Vec<u8>,
}

/// Bytes of a message that needs no allocation.
const SHORT: usize = 768;

impl std::ops::Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.long.is_empty() { &self.short[..self.bytes] } else { &self.long }
    }
}

/// Writes a message.
///
/// # Errors
/// None but those of a message that cannot be written.
pub(crate) fn encode(message: &impl Serialize) -> Result<Body, NetError> {
    let mut body = Body { short: [0; SHORT], bytes: 0, long: Vec::new() };
    match postcard::to_slice(message, &mut body.short) {
        Ok(written) => body.bytes = written.len(),
        Err(_) => {
            body.long = postcard::to_allocvec(message).map_err(|error| unreadable(error.to_string()))?;
        }
    }
    Ok(body)
}

fn unreadable(why: String) -> NetError {
    NetError::World { what: "writing a message", why }
}

/// Sends a message as it was [written](encode), and bytes behind it where frames are long enough. A body that
/// is too long for a frame stays in this process's memory: the result says where.
///
/// # Errors
/// Those of [`Transport::post_parts`]; nothing was sent then, and nothing is lent.
pub(crate) fn send(
    transport: &dyn Transport,
    to: Peer,
    (number, kind): (u32, Kind),
    body: &[u8],
    bytes: &[u8],
) -> Result<Option<Lent>, NetError> {
    let head = |is_long| Head { number, kind, is_long }.bytes();
    if body.len() + bytes.len() <= transport.longest(to) - HEAD {
        return transport.post_parts(to, &[&head(false), body, bytes]).map(|()| None);
    }
    let body = [body, bytes].concat();
    let heap = transport.heap().filter(|_| transport.memory(to).is_some());
    let heap = heap.ok_or_else(|| unreadable("it is long, and there is no shared memory".into()))?;
    let block = heap.alloc(body.len() as u64, 64)?;
    let at = heap.memory().pointer(block.offset, block.bytes)?;
    // SAFETY: a block of ours with at least that many bytes, which no other process has been told of.
    unsafe { std::ptr::copy_nonoverlapping(body.as_ptr(), at, body.len()) };
    let place = [block.offset, body.len() as u64].map(u64::to_le_bytes);
    match transport.post_parts(to, &[&head(true), place.as_flattened()]) {
        Ok(()) => Ok(Some(Lent { offset: block.offset })),
        Err(error) => {
            let _ = heap.free(block.offset);
            Err(error)
        }
    }
}

/// The body of a frame: the rest of it, or what lies in the sender's memory, of which this is a copy, with
/// its offset there.
///
/// # Errors
/// A place outside that memory, or one that is larger than `most`.
pub(crate) fn body<'a>(
    transport: &dyn Transport,
    from: Peer,
    head: Head,
    rest: &'a [u8],
) -> Result<(Cow<'a, [u8]>, Option<u64>), Failure> {
    /// No body is longer.
    const MOST: u64 = 1 << 30;
    if !head.is_long {
        return Ok((Cow::Borrowed(rest), None));
    }
    let Ok(place) = <[u8; 16]>::try_from(rest) else {
        return Err(bad(format!("expected an offset and a length in 16 bytes, found {}", rest.len())));
    };
    let [offset, bytes] = [0, 1].map(|i| u64::from_le_bytes(place.as_chunks().0[i]));
    if bytes > MOST {
        return Err(bad(format!("a body of {bytes} bytes, expected at most {MOST}")));
    }
    let Some(memory) = transport.memory(from) else {
        return Err(bad(format!("a body in the memory of {from}, which shares none with this process")));
    };
    let at = memory.pointer(offset, bytes).map_err(|error| bad(error.to_string()))?;
    let mut copy: Vec<u8> = Vec::new();
    if copy.try_reserve_exact(bytes as usize).is_err() {
        return Err(Failure::new(Code::OutOfMemory, format!("a message of {bytes} bytes: no memory for it")));
    }
    // SAFETY: the range lies in the arena, and the list has room; the sender may change it meanwhile, and any
    // bytes are bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(at, copy.as_mut_ptr(), bytes as usize);
        copy.set_len(bytes as usize);
    }
    Ok((Cow::Owned(copy), Some(offset)))
}
