//! What fuzzers of FLASH do with one input, so that a test does the same with inputs that are kept.
//!
//! An input of [`agent`] or [`controller`] is a list of frames: a byte that says how each is changed, two of
//! its length, and its bytes. Those of [`mailbox`] are words and their places.

pub mod agent;
pub mod controller;
pub mod files;
pub mod kernels;
pub mod mailbox;
pub mod scripted;
pub mod session;

// The backend of the key `TEST` is in the program.
use flash_backend_test as _;

/// A frame of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// How it is changed before it is sent.
    pub how: u8,
    /// What it consists of.
    pub bytes: Vec<u8>,
}

/// Its number becomes that of the request which was sent last.
pub const ANSWERS: u8 = 1;
/// Its body is put into shared memory.
pub const LONG: u8 = 2;
/// With [`ANSWERS`]: of the request before that one.
pub const EARLIER: u8 = 4;

/// Bytes of the head of a frame.
const HEAD: usize = 8;

/// The frames of an input.
pub fn frames(mut input: &[u8]) -> Vec<Frame> {
    let mut all = Vec::new();
    while let [how, low, high, rest @ ..] = input {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (bytes, after) = rest.split_at(length);
        all.push(Frame { how: *how, bytes: bytes.to_vec() });
        input = after;
    }
    all
}

/// The input of these frames.
pub fn input(frames: &[Frame]) -> Vec<u8> {
    let one = |frame: &Frame| {
        let length = u16::try_from(frame.bytes.len()).unwrap_or(u16::MAX);
        let [low, high] = length.to_le_bytes();
        [&[frame.how, low, high], &frame.bytes[..usize::from(length)]].concat()
    };
    frames.iter().flat_map(one).collect()
}

/// Ends the process at any panic, but at those of kernels, which are errors of their launches. Calls `tell`
/// before.
pub fn end_at_panics(tell: impl Fn() + Send + Sync + 'static) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_of_kernel =
            panic.location().is_some_and(|place| place.file().ends_with("fuzz/src/kernels.rs"));
        if !is_of_kernel {
            tell();
            before(panic);
            std::process::abort();
        }
    }));
}
