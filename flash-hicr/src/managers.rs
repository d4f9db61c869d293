//! The managers but that of topologies: what each does, as traits.

use crate::Error;
use crate::slot::{GlobalAt, GlobalSlot, Key, LocalAt, LocalSlot, Place, Tag};
use crate::topology::{Resource, Space, TopologyManager};
use crate::units::{ExecutionState, ExecutionUnit, ProcessingUnit};
use flash_topology::{CpuSet, Topology};
use std::any::Any;
use std::ffi::OsString;
use std::sync::Arc;

/// The managers of one instance. Clones are the same ones.
#[derive(Clone)]
pub struct Managers {
    /// What this instance has.
    pub topology: Arc<dyn TopologyManager>,
    /// The instances that reach each other.
    pub instances: Arc<dyn InstanceManager>,
    /// Memory of this instance.
    pub memory: Arc<dyn MemoryManager>,
    /// Copies and what they are ordered by.
    pub communication: Arc<dyn CommunicationManager>,
    /// Execution.
    pub compute: Arc<dyn ComputeManager>,
    /// What lives as long as these, and is dropped after them.
    pub keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// An instance: a process or a thread with processors of its own. Stateless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its number, from 0.
    pub number: u32,
    /// What it is called in messages.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its processors.
    pub cpus: CpuSet,
}

impl Instance {
    /// True of the first one. It differs from the others in nothing else: it breaks ties.
    pub fn is_root(&self) -> bool {
        self.number == 0
    }
}

/// What a new instance needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// The least that it must have. Empty: one processor.
    pub needs: Topology,
    /// The command line of a process; `None`: that of this one. Threads have none.
    pub arguments: Option<Vec<OsString>>,
}

/// Finds, creates and ends instances.
pub trait InstanceManager: Send + Sync {
    /// This one.
    fn current(&self) -> Instance;

    /// All of them, in the order of their numbers. Waits for those that have not yet joined.
    ///
    /// # Errors
    /// [`Error::Lost`] if one ended before it joined.
    fn instances(&self) -> Result<Vec<Instance>, Error>;

    /// Creates instances, and gives the managers of a group of this one, its root, and these. Each gets
    /// processors that were this one's, and no other instance has, until the group is dropped.
    ///
    /// # Errors
    /// [`Error::Lacking`] if this instance has less than `count` times what the template asks for; one of its
    /// processors does not count. [`Error::Refused`] if the manager creates none, or one does not join.
    fn create(&self, template: &Template, count: usize) -> Result<Managers, Error>;

    /// Ends an instance of a group that this one created: a process is killed. A thread cannot be.
    ///
    /// # Errors
    /// [`Error::Refused`] for one that was not created so.
    fn terminate(&self, number: u32) -> Result<(), Error>;
}

/// Allocates local slots.
pub trait MemoryManager: Send + Sync {
    /// The spaces that it knows.
    ///
    /// # Errors
    /// The topology manager's.
    fn spaces(&self) -> Result<Vec<Space>, Error>;

    /// A slot of zeros.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; or if there is not enough room.
    fn alloc(&self, space: &Space, bytes: u64) -> Result<LocalSlot, Error>;

    /// A slot of zeros for numbers that kernels use.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    fn alloc_numbers(&self, space: &Space, kind: Number, count: u64) -> Result<LocalSlot, Error> {
        let bytes = count.checked_mul(kind.bytes());
        let why = || format!("expected at most 2^64 - 1 bytes, found {count} numbers of {}", kind.bytes());
        self.alloc(space, bytes.ok_or_else(|| Error::refused("an allocation", why()))?)
    }

    /// Makes a slot of memory that something else allocated.
    ///
    /// # Safety
    /// The memory is there until the slot and all its clones are dropped. Until then it is accessed by no
    /// other means than the slot, but by atomic operations on its words of 8 bytes.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::Refused`] if address or size are not multiples of 8, or the manager takes
    /// no memory of others.
    unsafe fn register(&self, space: &Space, memory: *mut u8, bytes: u64) -> Result<LocalSlot, Error>;

    /// Sets all bytes of a slot.
    ///
    /// # Errors
    /// The device's.
    fn fill(&self, slot: &LocalSlot, value: u8) -> Result<(), Error>;

    /// Frees a slot that has no clone; others are freed with their last.
    ///
    /// # Errors
    /// [`Error::Refused`] if something has a clone of it, such as an exchange.
    fn free(&self, slot: LocalSlot) -> Result<(), Error> {
        let clones = Arc::strong_count(&slot.0) - 1;
        if clones > 0 {
            let why =
                format!("expected a slot without clones, found {clones}: drop them, release its exchange");
            return Err(Error::refused("freeing a slot", why));
        }
        Ok(())
    }
}

/// Numbers that kernels compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// Bytes.
    U8,
    /// Unsigned, 32 bits.
    U32,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Number {
    /// Bytes of one.
    pub fn bytes(self) -> u64 {
        match self {
            Number::U8 => 1,
            Number::U32 | Number::F32 => 4,
            Number::F64 => 8,
        }
    }
}

/// A copy, with its direction. There is none from a global slot to a global slot.
#[derive(Clone, Copy, Debug)]
pub enum Transfer<'a> {
    /// Within this instance.
    Local {
        /// Where to.
        to: LocalAt<'a>,
        /// Where from.
        from: LocalAt<'a>,
    },
    /// To another instance.
    Put {
        /// Where to.
        to: GlobalAt<'a>,
        /// Where from.
        from: LocalAt<'a>,
    },
    /// From another instance.
    Get {
        /// Where to.
        to: LocalAt<'a>,
        /// Where from.
        from: GlobalAt<'a>,
    },
}

impl<'a> From<(LocalAt<'a>, LocalAt<'a>)> for Transfer<'a> {
    fn from((to, from): (LocalAt<'a>, LocalAt<'a>)) -> Transfer<'a> {
        Transfer::Local { to, from }
    }
}

impl<'a> From<(GlobalAt<'a>, LocalAt<'a>)> for Transfer<'a> {
    fn from((to, from): (GlobalAt<'a>, LocalAt<'a>)) -> Transfer<'a> {
        Transfer::Put { to, from }
    }
}

impl<'a> From<(LocalAt<'a>, GlobalAt<'a>)> for Transfer<'a> {
    fn from((to, from): (LocalAt<'a>, GlobalAt<'a>)) -> Transfer<'a> {
        Transfer::Get { to, from }
    }
}

/// Copies between slots, and says when they are done.
pub trait CommunicationManager: Send + Sync {
    /// Begins a copy; see [`copy`], which is what programs call. The manager checks the bounds of both sides.
    ///
    /// # Errors
    /// [`Error::Bounds`]; [`Error::Unconnected`].
    fn transfer(&self, transfer: Transfer<'_>, bytes: u64) -> Result<(), Error>;

    /// Ends the copies of an exchange's slots. Collective: all instances call it. What each had copied to or
    /// from slots with this tag before is there afterwards, at all of them.
    ///
    /// # Errors
    /// [`Error::Lost`] if an instance is gone that has not called it.
    fn fence(&self, tag: Tag) -> Result<(), Error>;

    /// Waits until `sent` copies from the slot and `received` copies to it are done in all, since it was
    /// allocated.
    ///
    /// # Errors
    /// [`Error::Lost`] if all others are gone, and they are not.
    fn fence_slot(&self, slot: &LocalSlot, sent: u64, received: u64) -> Result<(), Error>;

    /// Makes local slots global. Collective: all instances call it with the same tag, each with any number of
    /// slots under keys that no other has; each gets all slots, in the order of their keys. They stay until
    /// [`release`](Self::release).
    ///
    /// # Errors
    /// [`Error::Refused`] if a key was given twice, or a slot cannot be reached by others; [`Error::Lost`].
    fn exchange(&self, tag: Tag, slots: &[(Key, &LocalSlot)]) -> Result<Exchange, Error>;

    /// Forgets this instance's slots of an exchange. What others copy to them from then on is lost.
    fn release(&self, tag: Tag);

    /// Makes one local slot global, without the others, which get its [`Place`] and [`attach`](Self::attach)
    /// it. It stays as long as a clone of the local slot.
    ///
    /// # Errors
    /// [`Error::Refused`] if others cannot reach it.
    fn promote(&self, slot: &LocalSlot) -> Result<GlobalSlot, Error>;

    /// The global slot at a place that came from another instance, and is not trusted.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such memory.
    fn attach(&self, place: Place) -> Result<GlobalSlot, Error>;

    /// Takes the lock of a global slot, which every instance may ask for. `false`: another one has it.
    ///
    /// # Errors
    /// [`Error::Lost`] if the one that has it is gone.
    fn lock(&self, slot: &GlobalSlot) -> Result<bool, Error>;

    /// Gives it back.
    ///
    /// # Errors
    /// [`Error::Refused`] if this instance does not have it.
    fn unlock(&self, slot: &GlobalSlot) -> Result<(), Error>;

    /// Waits until the function says `true`, which is asked again when something may have been copied to this
    /// instance. `from`: the instances that it waits for.
    ///
    /// # Errors
    /// The function's; [`Error::Lost`] if all instances are gone that it waits for.
    fn wait(&self, from: &[u32], ready: &mut dyn FnMut() -> Result<bool, Error>) -> Result<(), Error>;

    /// Why an instance is gone, if it is.
    fn lost(&self, instance: u32) -> Option<Error>;
}

/// Copies bytes: from local to local, local to global, or global to local memory. Global to global does not
/// compile: no instance would carry it out.
///
/// It may return before the copy is done; the fences of the [`CommunicationManager`] wait for that.
///
/// # Errors
/// [`Error::Bounds`] if a range is not in its slot, on either side; [`Error::Unconnected`] if the manager
/// does not connect the two memories. Nothing is copied then.
///
/// # Examples
/// ```
/// use flash_hicr::{Managers, copy, threads};
/// threads(2, |hicr: Managers| {
///     let space = hicr.memory.spaces()?[0].clone();
///     let slot = hicr.memory.alloc(&space, 8)?;
///     let me = hicr.instances.current().number;
///     slot.write(0, &[me as u8; 8])?;
///     let all = hicr.communication.exchange(1, &[(me.into(), &slot)])?;
///     let got = hicr.memory.alloc(&space, 8)?;
///     let other = all.get((1 - me).into())?;
///     copy(&*hicr.communication, got.at(0), other.at(0), 8)?;
///     hicr.communication.fence(1)?;
///     assert_eq!(got.values::<u8>(0, 8)?, [1 - me as u8; 8]);
///     Ok(())
/// })?;
/// # Ok::<(), flash_hicr::Error>(())
/// ```
///
/// ```compile_fail,E0277
/// # use flash_hicr::{CommunicationManager, Error, GlobalSlot, copy};
/// type Manager = dyn CommunicationManager;
/// fn both(manager: &Manager, to: &GlobalSlot, from: &GlobalSlot) -> Result<(), Error> {
///     copy(manager, to.at(0), from.at(0), 8)
/// }
/// ```
pub fn copy<'a, To, From>(
    communication: &dyn CommunicationManager,
    to: To,
    from: From,
    bytes: u64,
) -> Result<(), Error>
where
    Transfer<'a>: std::convert::From<(To, From)>,
{
    communication.transfer((to, from).into(), bytes)
}

/// The slots of an exchange, in the order of their keys.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub(crate) tag: Tag,
    pub(crate) slots: Vec<GlobalSlot>,
}

impl Exchange {
    /// The slot of a key.
    ///
    /// # Errors
    /// [`Error::NoKey`] lists the keys.
    pub fn get(&self, key: Key) -> Result<GlobalSlot, Error> {
        let found = self.slots.binary_search_by_key(&key, |slot| slot.place.key);
        found.map(|at| self.slots[at]).map_err(|_| Error::NoKey {
            tag: self.tag,
            key,
            known: self.slots.iter().map(|slot| slot.place.key).collect(),
        })
    }

    /// All of them.
    pub fn slots(&self) -> &[GlobalSlot] {
        &self.slots
    }
}

/// Runs execution units on compute resources.
pub trait ComputeManager: Send + Sync {
    /// The resources that it knows.
    ///
    /// # Errors
    /// The topology manager's.
    fn resources(&self) -> Result<Vec<Resource>, Error>;

    /// Makes a resource ready to execute.
    ///
    /// # Errors
    /// If it is none of [`resources`](Self::resources), or the system refuses.
    fn processing_unit(&self, resource: &Resource) -> Result<ProcessingUnit, Error>;

    /// The lifetime of one execution of a unit with these slots.
    ///
    /// # Errors
    /// [`Error::Refused`] if the unit has no form that this manager runs.
    fn state(&self, unit: &ExecutionUnit, slots: &[LocalSlot]) -> Result<ExecutionState, Error>;

    /// True if executions run beside what starts and resumes them; false if they run in its place, as
    /// [`coroutines`](crate::coroutines) do.
    fn runs_beside_the_caller(&self) -> bool {
        true
    }
}
