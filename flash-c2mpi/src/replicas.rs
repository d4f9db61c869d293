//! The devices of a child rank: those that it uses, and those of its platform that it moves to when it loses
//! one.
//!
//! A device has one number for ever, and its kernels are bound once, so that messages name their devices by
//! numbers. Which devices are in use changes only in [`Replicas::other_than`].

use crate::child::{Load, Timing};
use crate::error::Result;
use crate::message::{Dimensions, Message};
use flash_core::RuntimeObj;
use flash_core::descriptor::KernelDescriptor;
use flash_core::devices::DeviceHandle;
use flash_core::memory::AnyMemory;
use flash_core::runtime::{AnyArguments, BoundKernel};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Binds the kernels of a child rank on a device.
pub(crate) type Bind = Box<dyn Fn(&'static DeviceHandle) -> Result<Replica> + Send + Sync>;

/// The devices of a child rank.
pub(crate) struct Replicas {
    /// All that it may use, in the order of its strategy.
    all: Vec<(&'static DeviceHandle, OnceLock<Replica>)>,
    /// The numbers of those that it uses, which are bound.
    used: Vec<AtomicUsize>,
    bind: Bind,
    /// Held while it moves.
    moving: Mutex<()>,
}

/// A device with the kernels of a child rank.
pub(crate) struct Replica {
    runtime: RuntimeObj,
    pub kernels: Vec<BoundKernel>,
    /// Its kernels run on threads of this process, and on the one that waits for them.
    pub runs_here: bool,
    /// It is in another process, which may end at any time.
    pub may_leave: bool,
    pub load: Arc<Load>,
    pub timing: Arc<Timing>,
}

impl Replicas {
    /// None: there is only a failsafe.
    pub fn none() -> Replicas {
        let bind: Bind = Box::new(|device| unreachable!("{} is no device of it", device.id()));
        Replicas { all: Vec::new(), used: Vec::new(), bind, moving: Mutex::default() }
    }

    /// The first `count` of these devices on which the kernels can be bound. Why the others before them
    /// cannot be used goes to `refused`.
    pub fn new(
        devices: Vec<&'static DeviceHandle>,
        count: usize,
        bind: Bind,
        refused: &mut dyn FnMut(&DeviceHandle, crate::Error),
    ) -> Replicas {
        let mut replicas = Replicas { bind, ..Replicas::none() };
        for device in devices {
            let place = OnceLock::new();
            if replicas.used.len() < count {
                match (replicas.bind)(device) {
                    Ok(replica) => {
                        replicas.used.push(AtomicUsize::new(replicas.all.len()));
                        let _ = place.set(replica);
                    }
                    Err(error) => {
                        refused(device, error);
                        continue;
                    }
                }
            }
            replicas.all.push((device, place));
        }
        replicas
    }

    /// How many are in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// The number of one that is in use; 0 if none is.
    #[inline]
    pub fn in_use(&self, at: usize) -> usize {
        self.used.get(at).map_or(0, |number| number.load(Relaxed))
    }

    /// That of this number, if it is bound.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&Replica> {
        self.all.get(number)?.1.get()
    }

    /// Those in use, with their numbers.
    pub fn used(&self) -> impl Iterator<Item = (usize, &Replica)> {
        let numbers = self.used.iter().map(|number| number.load(Relaxed));
        numbers.filter_map(|number| Some((number, self.get(number)?)))
    }

    /// The number of a device for what has lost this one: one that is not in use, which takes its place; else
    /// another one that is; else itself.
    pub fn other_than(&self, lost: usize) -> usize {
        let _one = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let in_use = |number| self.used.iter().any(|used| used.load(Relaxed) == number);
        let all = self.all.len();
        if let Some(place) = self.used.iter().find(|used| used.load(Relaxed) == lost) {
            for number in (lost + 1..lost + all).map(|number| number % all) {
                if !in_use(number) && self.is_bound(number) {
                    place.store(number, Relaxed);
                    return number;
                }
            }
        }
        self.used.iter().map(|used| used.load(Relaxed)).find(|number| *number != lost).unwrap_or(lost)
    }

    /// True if its kernels can be bound.
    fn is_bound(&self, number: usize) -> bool {
        let (device, place) = &self.all[number];
        if place.get().is_none()
            && let Ok(replica) = (self.bind)(device)
        {
            let _ = place.set(replica);
        }
        place.get().is_some()
    }
}

impl Replica {
    /// A device that has kernels for the functions, one after the other.
    pub fn new(
        runtime: RuntimeObj,
        kernels: Vec<BoundKernel>,
        load: Arc<Load>,
        timing: Arc<Timing>,
    ) -> Replica {
        // Only devices of other processes say which.
        let may_leave = runtime.devices().iter().any(|device| device.query("pid").is_ok());
        let runs_here = runtime.devices().iter().all(|device| device.info().host_memory);
        load.children.fetch_add(1, Relaxed);
        Replica { runtime, kernels, runs_here, may_leave, load, timing }
    }

    /// True if it works on the host's own memory of an array.
    #[inline]
    pub fn shares(&self, memory: &AnyMemory) -> bool {
        self.runtime.devices().iter().all(|device| memory.is_shared_with(device))
    }

    /// The ids of its devices.
    pub fn devices(&self) -> impl Iterator<Item = String> {
        self.runtime.devices().iter().map(|device| device.id().to_owned())
    }

    pub fn descriptors(&self) -> SmallVec<[&KernelDescriptor; 2]> {
        self.kernels.iter().filter_map(|kernel| kernel.descriptors().first()).collect()
    }

    /// The kernels of a message as a pipeline.
    pub fn pipeline(&self, message: &Message) -> Result<flash_core::Pipeline<'static>> {
        let mut pipeline = self.runtime.pipeline();
        for (kernel, (arguments, dimensions)) in self.kernels.iter().zip(message.kernels()) {
            pipeline = add(pipeline, kernel, &arguments, dimensions)?;
        }
        Ok(pipeline)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.load.children.fetch_sub(1, Relaxed);
    }
}

fn add(
    pipeline: flash_core::Pipeline<'static>,
    kernel: &BoundKernel,
    arguments: &impl AnyArguments,
    dimensions: Dimensions<'_>,
) -> Result<flash_core::Pipeline<'static>> {
    Ok(pipeline.submit(kernel.args(arguments)?.shared()).defer(dimensions))
}
