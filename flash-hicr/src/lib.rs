//! The HiCR model (*HiCR, an Abstract Model for Distributed Heterogeneous Programming*) on FLASH: programs of
//! equal instances, which have memory of their own and copy into each other's.
//!
//! | managers | of | from |
//! |---|---|---|
//! | [`TopologyManager`] | machines, devices, [`Space`]s, [`Resource`]s | [`flash_topology`], the runtime's registry |
//! | [`InstanceManager`] | [`Instance`]s, [`Template`]s | threads, processes |
//! | [`MemoryManager`] | [`LocalSlot`]s | shared memory, devices' memories |
//! | [`CommunicationManager`] | [`copy`], fences, [`GlobalSlot`]s, locks | copies in shared memory, the runtime's |
//! | [`ComputeManager`] | [`ExecutionUnit`], [`ExecutionState`], [`ProcessingUnit`] | functions on threads, kernels |
//!
//! A program is a function of [`Managers`], and the same over each source of them:
//!
//! | source | instances | memory spaces | execution units |
//! |---|---|---|---|
//! | [`threads`] | threads of this process | the host's | functions |
//! | [`join`] | processes of this host, as `flash run -n N` starts them or `create` does | the host's | functions |
//! | [`devices`] | one | the host's and the devices' | kernels |
//!
//! [`coroutines`] is a second compute manager for functions. On managers alone stand [`channel`]s,
//! [`Objects`], [`Rpc`], and [`Task`]s with [`Workers`]. `docs/hicr.md` is the guide; the crate's
//! `README.md` says why it is as it is.

mod channel;
mod coroutines;
mod devices;
mod error;
mod instances;
mod managers;
mod objects;
mod os_threads;
mod rpc;
mod shared;
mod slot;
mod tasks;
mod topology;
mod units;
mod words;
mod workers;

pub use channel::{Consumer, Ends, Message, Producer, Producers, Shape, Size, channel};
pub use coroutines::coroutines;
pub use devices::{KernelNumber, devices, memory_of};
pub use error::Error;
pub use instances::{join, threads};
pub use managers::{
    CommunicationManager, ComputeManager, Exchange, Instance, InstanceManager, Managers, MemoryManager,
    Number, Template, Transfer, copy,
};
pub use objects::{Handle, ObjectId, Objects};
pub use rpc::Rpc;
pub use slot::{GlobalAt, GlobalSlot, Key, LocalAt, LocalSlot, Place, SlotMemory, Tag};
pub use tasks::{Task, TaskState, add, wait_for};
pub use topology::{Resource, Space, TopologyManager, resources, spaces};
pub use units::{
    Execution, ExecutionState, ExecutionUnit, ProcessingUnit, Processor, Running, Status, suspend,
};
pub use workers::{Crew, Queue, Scheduler, Worker, WorkerState, Workers};
