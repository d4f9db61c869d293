//! Managers over FLASH's devices: memory spaces are devices' memories, execution units are kernels.
//!
//! A slot is a [`FlashMemory`] that is kept at its device: the runtime's directory says where its bytes are,
//! and a copy leaves them where the slot's space says. There is one instance, as with OpenCL in the paper:
//! no exchanges, no global slots.

use crate::Error;
use crate::managers::{
    CommunicationManager, ComputeManager, Exchange, Instance, InstanceManager, Managers, MemoryManager,
    Number, Template, Transfer,
};
use crate::slot::{GlobalSlot, Key, LocalSlot, Place, SlotMemory, Tag};
use crate::topology::{Resource, Space, TopologyManager, resources, spaces};
use crate::units::{ExecutionState, ExecutionUnit, ProcessingUnit, Processor, Running, Status, unknown};
use flash_core::abi::MemorySpace;
use flash_core::devices::{DeviceHandle, SpaceReport};
use flash_core::{FlashMemory, Handle, RuntimeObj, get_runtime};
use flash_topology::{CpuSet, Described, Device, Topology};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The managers over the devices of a runtime key, and over the host's memory. One instance, the root.
///
/// # Errors
/// The key's.
pub fn devices(key: &str) -> Result<Managers, Error> {
    let all = Arc::new(Devices { runtime: get_runtime(key)? });
    Ok(Managers {
        topology: all.clone(),
        instances: all.clone(),
        memory: all.clone(),
        communication: all.clone(),
        compute: all,
        keep: None,
    })
}

struct Devices {
    runtime: RuntimeObj,
}

/// The memory of a slot of [`devices`], as kernels take it.
///
/// # Errors
/// [`Error::Refused`] if the slot was not allocated by these managers for numbers of this type
/// ([`alloc_numbers`](MemoryManager::alloc_numbers)).
pub fn memory_of<T: KernelNumber>(slot: &LocalSlot) -> Result<FlashMemory<T>, Error> {
    let refuse = |found: String| {
        let why = format!("expected a slot of {:?} of `flash_hicr::devices`, found {found}", T::NUMBER);
        Err(Error::refused("a kernel's memory", why))
    };
    match slot.memory::<DeviceMemory>() {
        None => refuse(format!("one in {} of other managers", slot.space())),
        Some(memory) => match T::of(&memory.numbers) {
            Some(numbers) => Ok(numbers.clone()),
            None => refuse(format!("one of {:?}: allocate it with `alloc_numbers`", memory.numbers.kind())),
        },
    }
}

/// A type of numbers that slots of devices are made of.
pub trait KernelNumber: Sized + sealed::Of {
    /// Its name.
    const NUMBER: Number;
}

mod sealed {
    pub trait Of: Sized {
        fn of(numbers: &super::Numbers) -> Option<&flash_core::FlashMemory<Self>>;
    }
}

macro_rules! numbers {
    ($($kind:ident $t:ty),*) => {
        /// A memory of numbers.
        #[doc(hidden)]
        pub enum Numbers {
            $(#[doc = concat!("Of `", stringify!($t), "`.")] $kind(FlashMemory<$t>),)*
        }

        impl Numbers {
            fn zeroed(kind: Number, count: usize) -> Result<Numbers, Error> {
                Ok(match kind {
                    $(Number::$kind => Numbers::$kind(FlashMemory::try_zeroed(count)?),)*
                })
            }

            fn kind(&self) -> Number {
                match self {
                    $(Numbers::$kind(_) => Number::$kind,)*
                }
            }

            fn bytes(&self) -> u64 {
                match self {
                    $(Numbers::$kind(memory) => (memory.len() * size_of::<$t>()) as u64,)*
                }
            }

            /// Copies bytes out.
            fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
                match self {
                    $(Numbers::$kind(memory) => {
                        let (first, range) = cover(offset, to.len(), size_of::<$t>());
                        let guard = memory.read_range(range)?;
                        to.copy_from_slice(&bytemuck::cast_slice(&guard)[first..first + to.len()]);
                    })*
                }
                Ok(())
            }

            /// Copies bytes in.
            fn write(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
                match self {
                    $(Numbers::$kind(memory) => {
                        let mut guard = memory.write()?;
                        bytemuck::cast_slice_mut::<$t, u8>(&mut guard)[offset..offset + from.len()]
                            .copy_from_slice(from);
                    })*
                }
                Ok(())
            }

            /// Copies by the runtime, if both are of one kind and whole numbers are copied; says whether.
            fn copy(&self, rt: &RuntimeObj, to: usize, from: &Numbers, at: usize, bytes: usize)
            -> Result<bool, Error> {
                match (self, from) {
                    $((Numbers::$kind(target), Numbers::$kind(source)) => {
                        let size = size_of::<$t>();
                        if [to, at, bytes].iter().any(|n| n % size != 0) || bytes == 0 {
                            return Ok(false);
                        }
                        let (to, at, count) = (to / size, at / size, bytes / size);
                        let (from, to) = (source.range(at..at + count)?, target.range(to..to + count)?);
                        rt.pipeline().copy(from, to).exec()?;
                        Ok(true)
                    })*
                    _ => Ok(false),
                }
            }

            /// Moves it to a device.
            fn keep_at(&self, rt: &RuntimeObj, device: &DeviceHandle) -> Result<(), Error> {
                match self {
                    $(Numbers::$kind(memory) if memory.len() > 0 => {
                        rt.pipeline().prefetch(memory, device).exec()?;
                    })*
                    _ => {}
                }
                Ok(())
            }
        }

        $(impl sealed::Of for $t {
            fn of(numbers: &Numbers) -> Option<&FlashMemory<$t>> {
                match numbers {
                    Numbers::$kind(memory) => Some(memory),
                    _ => None,
                }
            }
        }

        impl KernelNumber for $t {
            const NUMBER: Number = Number::$kind;
        })*
    };
}
numbers!(U8 u8, U32 u32, F32 f32, F64 f64);

/// The numbers that cover bytes, and where these begin in them.
fn cover(offset: usize, bytes: usize, size: usize) -> (usize, std::ops::Range<usize>) {
    (offset % size, offset / size..(offset + bytes).div_ceil(size))
}

/// A slot of a device, or of the host.
struct DeviceMemory {
    space: Space,
    numbers: Numbers,
    /// Where it is kept; `None`: on the host.
    device: Option<&'static DeviceHandle>,
    runtime: RuntimeObj,
    sent: AtomicU64,
    received: AtomicU64,
}

impl DeviceMemory {
    fn keep(&self) -> Result<(), Error> {
        self.device.map_or(Ok(()), |device| self.numbers.keep_at(&self.runtime, device))
    }
}

impl SlotMemory for DeviceMemory {
    fn space(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        self.numbers.bytes()
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.numbers.read(offset as usize, to)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.numbers.write(offset as usize, from)?;
        self.keep()
    }
}

fn device_of(handle: &DeviceHandle) -> Device {
    let info = handle.info();
    let space = |space: &MemorySpace| {
        let SpaceReport { kind, bytes, numa_node, .. } = SpaceReport::of(space);
        (kind, bytes, numa_node)
    };
    Device::new(Described {
        id: handle.id().to_owned(),
        class: info.class.name().to_owned(),
        name: info.name.clone(),
        physical_id: info.physical_id.clone(),
        threads: info.threads,
        works_in_hosts: info.host_memory,
        memory_bytes: info.memory_bytes,
        spaces: handle.memory_spaces().iter().map(space).collect(),
    })
}

impl TopologyManager for Devices {
    fn topology(&self) -> Result<Topology, Error> {
        let mut topology = Topology::read();
        for host in &mut topology.hosts {
            host.devices = self.runtime.devices().iter().map(|device| device_of(device)).collect();
        }
        Ok(topology)
    }
}

impl InstanceManager for Devices {
    fn current(&self) -> Instance {
        let cpus: CpuSet = flash_net::cpus().into_iter().map(|cpu| cpu as u32).collect();
        Instance { number: 0, name: "instance 0".to_owned(), pid: std::process::id(), cpus }
    }

    fn instances(&self) -> Result<Vec<Instance>, Error> {
        Ok(vec![self.current()])
    }

    fn create(&self, _: &Template, _: usize) -> Result<Managers, Error> {
        Err(unsupported("creating instances"))
    }

    fn terminate(&self, number: u32) -> Result<(), Error> {
        Err(unsupported(&format!("ending instance {number}")))
    }
}

fn unsupported(what: &str) -> Error {
    let why = "devices are no instances: use the managers of `flash_hicr::join` or `flash_hicr::threads`";
    Error::refused(what, why)
}

impl MemoryManager for Devices {
    fn spaces(&self) -> Result<Vec<Space>, Error> {
        Ok(spaces(&self.topology()?))
    }

    fn alloc(&self, space: &Space, bytes: u64) -> Result<LocalSlot, Error> {
        self.alloc_numbers(space, Number::U8, bytes)
    }

    fn alloc_numbers(&self, space: &Space, kind: Number, count: u64) -> Result<LocalSlot, Error> {
        let known = self.spaces()?;
        // A device's further spaces are the runtime's own business.
        let is_known = known.iter().any(|one| (&one.device, one.number) == (&space.device, space.number));
        let device = self.runtime.devices().iter().find(|device| device.id() == space.device).copied();
        if !is_known || (device.is_some() && space.number != 0) {
            let known = known.iter().map(Space::to_string).collect();
            return Err(Error::NoSpace { found: space.clone(), known });
        }
        let memory = DeviceMemory {
            space: space.clone(),
            numbers: Numbers::zeroed(kind, count as usize)?,
            device,
            runtime: self.runtime.clone(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        };
        memory.keep()?;
        Ok(LocalSlot::new(memory))
    }

    unsafe fn register(&self, _: &Space, _: *mut u8, _: u64) -> Result<LocalSlot, Error> {
        let why = "the runtime owns the memory of its devices: allocate a slot, and copy";
        Err(Error::refused("registering memory", why))
    }

    fn fill(&self, slot: &LocalSlot, value: u8) -> Result<(), Error> {
        slot.write(0, &vec![value; slot.bytes() as usize])
    }
}

impl CommunicationManager for Devices {
    fn transfer(&self, transfer: Transfer<'_>, bytes: u64) -> Result<(), Error> {
        let Transfer::Local { to, from } = transfer else {
            return Err(unsupported("a copy to or from another instance"));
        };
        from.slot.check("a copy from", from.offset, bytes)?;
        to.slot.check("a copy to", to.offset, bytes)?;
        let (Some(target), Some(source)) =
            (to.slot.memory::<DeviceMemory>(), from.slot.memory::<DeviceMemory>())
        else {
            return Err(Error::Unconnected {
                from: from.slot.space().to_string(),
                to: to.slot.space().to_string(),
                why: "one of them is no memory of `flash_hicr::devices`: read the slot, and write the other",
            });
        };
        let (start, first, length) = (to.offset as usize, from.offset as usize, bytes as usize);
        let is_same = Arc::ptr_eq(&to.slot.0, &from.slot.0);
        if is_same || !target.numbers.copy(&self.runtime, start, &source.numbers, first, length)? {
            let mut part = vec![0; length];
            source.numbers.read(first, &mut part)?;
            target.numbers.write(start, &part)?;
        }
        target.keep()?;
        source.sent.fetch_add(1, Relaxed);
        target.received.fetch_add(1, Relaxed);
        Ok(())
    }

    fn fence(&self, _: Tag) -> Result<(), Error> {
        // Each copy is done when it returns, and there is no other instance.
        Ok(())
    }

    fn fence_slot(&self, slot: &LocalSlot, sent: u64, received: u64) -> Result<(), Error> {
        let memory = slot.memory::<DeviceMemory>();
        let found = memory.map(|memory| (memory.sent.load(Relaxed), memory.received.load(Relaxed)));
        match found {
            Some(found) if found.0 >= sent && found.1 >= received => Ok(()),
            found => {
                let why = format!(
                    "expected {sent} copies from and {received} to it, found {found:?}, and there is no other instance \
                     that could make more"
                );
                Err(Error::refused("waiting for copies of a slot", why))
            }
        }
    }

    fn exchange(&self, _: Tag, slots: &[(Key, &LocalSlot)]) -> Result<Exchange, Error> {
        Err(unsupported(&format!("an exchange of {} slots", slots.len())))
    }

    fn release(&self, _: Tag) {}

    fn promote(&self, _: &LocalSlot) -> Result<GlobalSlot, Error> {
        Err(unsupported("a global slot"))
    }

    fn attach(&self, _: Place) -> Result<GlobalSlot, Error> {
        Err(unsupported("a global slot"))
    }

    fn lock(&self, _: &GlobalSlot) -> Result<bool, Error> {
        Err(unsupported("a lock"))
    }

    fn unlock(&self, _: &GlobalSlot) -> Result<(), Error> {
        Err(unsupported("a lock"))
    }

    fn wait(&self, _: &[u32], ready: &mut dyn FnMut() -> Result<bool, Error>) -> Result<(), Error> {
        match ready()? {
            true => Ok(()),
            false => Err(unsupported("waiting for another instance")),
        }
    }

    fn lost(&self, _: u32) -> Option<Error> {
        None
    }
}

impl ComputeManager for Devices {
    fn resources(&self) -> Result<Vec<Resource>, Error> {
        Ok(resources(&self.topology()?))
    }

    fn processing_unit(&self, resource: &Resource) -> Result<ProcessingUnit, Error> {
        let known = || self.runtime.devices().iter().map(|d| Resource::Device(d.id().to_owned()));
        match resource {
            Resource::Device(id) if known().any(|one| one == *resource) => {
                Ok(ProcessingUnit::new(DeviceUnit(get_runtime(id)?)))
            }
            _ => Err(unknown(resource, &known().collect::<Vec<_>>())),
        }
    }

    fn state(&self, unit: &ExecutionUnit, slots: &[LocalSlot]) -> Result<ExecutionState, Error> {
        ExecutionState::of_kernel(unit, slots)
    }
}

struct DeviceUnit(RuntimeObj);

impl Processor for DeviceUnit {
    fn start(&self, state: ExecutionState) -> Result<Box<dyn Running>, Error> {
        let handle = state.pipeline(&self.0)?.exec_async();
        Ok(Box::new(DeviceRun { handle, outcome: None }))
    }
}

/// An execution on a device. It is never suspended.
struct DeviceRun {
    handle: Handle,
    outcome: Option<Result<(), Error>>,
}

impl Running for DeviceRun {
    fn status(&mut self) -> Status {
        if self.outcome.is_none() {
            self.outcome = self.handle.try_wait().map(|ended| ended.map_err(Error::from));
        }
        if self.outcome.is_some() { Status::Finished } else { Status::Running }
    }

    fn settle(&mut self) -> Status {
        if self.outcome.is_none() {
            self.outcome = Some(self.handle.wait().map_err(Error::from));
        }
        Status::Finished
    }

    fn resume(&mut self) -> Result<(), Error> {
        Err(Error::refused("resuming kernels", "devices suspend nothing"))
    }

    fn outcome(&mut self) -> Result<(), Error> {
        self.outcome.take().unwrap_or(Ok(()))
    }
}
