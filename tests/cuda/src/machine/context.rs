//! Contexts: one for each device, its primary one.

use super::handles::lock;
use super::settings::settings;
use super::stream::Stream;
use super::{Answer, Range, space};
use crate::run::Memory;
use cudarc::driver::sys::CUresult;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// A device and its context.
pub(crate) struct Context {
    pub device: usize,
    /// Number of times that it is retained.
    pub holders: AtomicUsize,
    /// The error that ended its use.
    lost: Mutex<Option<CUresult>>,
    /// Streams other than the default one.
    pub streams: Mutex<Vec<Weak<Stream>>>,
    default: OnceLock<Arc<Stream>>,
    /// Devices whose memory its kernels may use.
    pub peers: Mutex<HashSet<usize>>,
}

static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// Marks `cuInit` as called.
pub(crate) fn initialize() {
    INITIALIZED.store(true, SeqCst);
}

/// All contexts.
pub(crate) fn contexts() -> Answer<&'static [Context]> {
    static CONTEXTS: OnceLock<Vec<Context>> = OnceLock::new();
    if !INITIALIZED.load(SeqCst) {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    Ok(CONTEXTS.get_or_init(|| (0..settings().devices).map(Context::new).collect()))
}

/// The context of a device.
pub(crate) fn of_device(device: i32) -> Answer<&'static Context> {
    let contexts = contexts()?;
    let found = usize::try_from(device).ok().and_then(|device| contexts.get(device));
    found.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

impl Context {
    fn new(device: usize) -> Context {
        Context {
            device,
            holders: AtomicUsize::new(0),
            lost: Mutex::default(),
            streams: Mutex::default(),
            default: OnceLock::new(),
            peers: Mutex::default(),
        }
    }

    /// The code with which every call fails, once there is one.
    pub fn check(&self) -> Answer {
        lock(&self.lost).map_or(Ok(()), Err)
    }

    /// Ends its use. The first code stays.
    pub fn lose(&self, code: CUresult) {
        lock(&self.lost).get_or_insert(code);
    }

    /// The stream without a handle.
    pub fn default_stream(&'static self) -> Arc<Stream> {
        self.default.get_or_init(|| Stream::start(self, true)).clone()
    }

    /// All of its live streams.
    pub fn all_streams(&self) -> Vec<Arc<Stream>> {
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.iter().filter_map(Weak::upgrade).chain(self.default.get().cloned()).collect()
    }

    /// Waits for all work in its streams.
    pub fn synchronize(&self) -> Answer {
        for stream in self.all_streams() {
            stream.synchronize()?;
        }
        self.check()
    }
}

impl Memory for Context {
    /// Its device's memory, that of peers whose memory it may use, and pinned host memory.
    fn find(&self, address: u64) -> Option<Range> {
        let block = space::find(address)?;
        let may = match block.owner {
            space::Owner::Device(device) | space::Owner::Module(device) => {
                device == self.device || lock(&self.peers).contains(&device)
            }
            space::Owner::Pinned | space::Owner::Registered => true,
        };
        may.then_some(block.range)
    }

    fn generation(&self) -> u64 {
        space::generation()
    }
}
