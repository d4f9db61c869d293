//! What differs between drivers of devices with a kernel language.
//!
//! A backend implements [`Driver`] for its device. The toolkit decides all else: which programs are compiled
//! and kept ([`Programs`]), which of them a launch takes ([`Kernel`]), which phases are launched, with which
//! words, parameters and groups.
//!
//! - A kernel function is used by several threads at once. What it keeps for its launches is its driver's,
//!   with the locks for it.
//! - Commands of one launch come from one thread, in their order. The device runs them in that order.
//! - Nothing here is called through a pointer, and a launch whose function, table and words are known
//!   allocates nothing.

use super::launch::offset;
use super::{FAULT_WORDS, Kernel, KernelSpec, Parameter, Programs, two_buffers};
use crate::backend::{Device, Launch};
use crate::event::Event;
use crate::failure::Failure;
use flash_types::abi::Arg;
use std::ffi::c_void;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The driver of a device with a kernel language.
pub trait Driver: Device {
    /// A program on the device. It is dropped when no kernel of it is left, and it is not among the programs
    /// that stay ([`UNUSED_PROGRAMS`](Self::UNUSED_PROGRAMS)).
    type Program;
    /// A function of a program, with what the driver keeps for its launches.
    type Function;
    /// A table on the device that functions write to. One that a function has kept is dropped with it, when
    /// the process may be about to end.
    type Table: Send;
    /// The commands of a launch.
    type Commands<'d>
    where
        Self: 'd;

    /// Endings of files with source text, in small letters.
    const SOURCES: &'static [&'static str];
    /// Endings of files with programs.
    const BINARIES: &'static [&'static str];
    /// Launches of consecutive values run faster in programs of their own (`FLASH_CONSECUTIVE`).
    const CONSECUTIVE: bool = false;
    /// Programs without a kernel that stay for the next one. `usize::MAX`: a program stays for ever.
    const UNUSED_PROGRAMS: usize = 32;
    /// The driver chooses the groups of a kernel that does not cooperate. Otherwise they divide its space.
    const CHOOSES_GROUPS: bool = false;
    /// Launches may add to the memory of a group: the option `shared_memory_bytes`.
    const ADDS_GROUP_MEMORY: bool = false;
    /// `FLASH_ARGS` of a kernel with `grid_barrier` has the words of several phases.
    const GRID_BARRIERS: bool = false;

    /// The device's limits.
    fn limits(&self) -> Limits<'_>;

    /// The device's programs.
    fn programs(&self) -> &Programs<Self>;

    /// Versions of all that compiles for the device, and the device's kind: a program of others is not used.
    fn version(&self) -> String;

    /// Checks that an implementation is for this device. `file`: where it is, and the ending of that.
    ///
    /// # Errors
    /// [`Code::Unsupported`](flash_types::Code::Unsupported) if it is not: the device gets another one.
    fn check(&self, spec: &KernelSpec, file: Option<(&Path, &str)>) -> Result<(), Failure>;

    /// Compiles a text. The second value goes to disk, and is given to [`load`](Self::load) later; if it is
    /// empty, the program is not kept there.
    ///
    /// # Errors
    /// If it does not compile, with the compiler's log; and if the compiler tells of a parameter that cannot
    /// take its argument.
    fn compile(&self, spec: &KernelSpec, source: &str) -> Result<(Self::Program, Vec<u8>), Failure>;

    /// Loads what [`compile`](Self::compile) gave, maybe in another process.
    ///
    /// # Errors
    /// If the driver does not take it: then it is compiled anew.
    fn load(&self, spec: &KernelSpec, kept: &[u8]) -> Result<Self::Program, Failure>;

    /// Loads a program that came as a binary.
    ///
    /// # Errors
    /// [`Code::Unsupported`](flash_types::Code::Unsupported) if it is for another device.
    fn load_binary(&self, spec: &KernelSpec, binary: &[u8]) -> Result<Self::Program, Failure>;

    /// The kernel's function.
    ///
    /// # Errors
    /// If there is none of its name, or a parameter cannot take its argument.
    fn function(
        &self,
        spec: &KernelSpec,
        program: &Self::Program,
    ) -> Result<(Self::Function, GroupLimits), Failure>;

    /// The number of threads in a group of one dimension that suits the device for this many threads in all.
    /// `added`: bytes of [added memory](Self::ADDS_GROUP_MEMORY).
    ///
    /// # Errors
    /// Those of the driver.
    fn group_of_line(&self, function: &Function<Self>, threads: u64, added: u64) -> Result<u64, Failure>;

    /// The group that suits the device for a box of work items, which it may exceed.
    ///
    /// # Errors
    /// Those of the driver.
    fn group_of_box(&self, function: &Function<Self>, extents: [u64; 3]) -> Result<[u64; 3], Failure>;

    /// Work items of a thread that has several of a launch's `items`: a multiple of `least`.
    fn items_per_thread(&self, _items: u64, least: u64) -> u64 {
        least
    }

    /// Lets the groups of a function have more memory.
    ///
    /// # Errors
    /// [`Code::Invalid`](flash_types::Code::Invalid) if the device has less.
    fn add_group_memory(&self, _function: &Function<Self>, _bytes: u64) -> Result<(), Failure> {
        Ok(())
    }

    /// Groups of a function that run at the same time, for kernels whose threads all wait for each other.
    ///
    /// # Errors
    /// Those of the driver.
    fn resident_groups(&self, _function: &Function<Self>, _group: u64, _added: u64) -> Result<u64, Failure> {
        Ok(1)
    }

    /// Begins a launch. `timed`: its time is asked for; `awaited`: the host waits for it at once.
    ///
    /// # Errors
    /// Those of the driver.
    fn begin(&self, timed: bool, awaited: bool) -> Result<Self::Commands<'_>, Failure>;

    /// Repeats a launch that equals the last one with [`may_repeat`](Call::may_repeat), perhaps but for its
    /// scalars, if its parameters are still set. False: nothing was done.
    ///
    /// # Errors
    /// Those of the driver.
    fn repeat(
        &self,
        _kernel: &Kernel<Self>,
        _launch: &Launch<'_, Self::Kernel>,
        _commands: &mut Self::Commands<'_>,
    ) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Copies bytes between two buffers of an argument.
    ///
    /// # Errors
    /// Those of the driver.
    fn copy(
        &self,
        from: ArgBuffer<'_>,
        to: ArgBuffer<'_>,
        bytes: usize,
        commands: &mut Self::Commands<'_>,
    ) -> Result<(), Failure>;

    /// Calls a function. `written`: the table that it writes to, in place of one that it only reads.
    ///
    /// # Errors
    /// Those of the driver.
    fn call(
        &self,
        call: &Call<'_, Self>,
        written: Option<&Self::Table>,
        commands: &mut Self::Commands<'_>,
    ) -> Result<(), Failure>;

    /// A table that functions write to.
    ///
    /// # Errors
    /// Those of the driver.
    fn table(&self, words: &[u64]) -> Result<Self::Table, Failure>;

    /// Waits for the calls so far, and reads words of a table from `at` on.
    ///
    /// # Errors
    /// Those of the driver.
    fn read(
        &self,
        table: &Self::Table,
        at: usize,
        commands: &mut Self::Commands<'_>,
    ) -> Result<[u64; FAULT_WORDS], Failure>;

    /// Frees a table, after the calls that write to it.
    fn free_table(&self, table: Self::Table);

    /// Ends a launch. `None`: it is complete.
    ///
    /// # Errors
    /// Those of the driver.
    fn end(&self, commands: Self::Commands<'_>) -> Result<Option<Event>, Failure>;

    /// Ends a launch after an error: what was begun of it is waited for.
    fn abandon(&self, commands: Self::Commands<'_>);
}

/// The limits of a device.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'d> {
    /// The device's name, for messages.
    pub device: &'d str,
    /// The memory space of its arguments.
    pub space: u32,
    /// Bytes of all parameters of a kernel.
    pub parameter_bytes: usize,
    /// Bytes of a group's memory that a text may declare.
    pub group_bytes: u64,
    /// The byte of a buffer at which an argument of a kernel that does not cooperate begins is a multiple of
    /// this.
    pub alignment: u64,
    /// Indices of a kernel that does not cooperate may begin anywhere, and not just with 0.
    pub begins_anywhere: bool,
    /// Groups along each dimension.
    pub groups: [u64; 3],
    /// All threads of a launch may wait for each other.
    pub grid_barriers: bool,
    /// Kernels check the indices of their elements: the setting `check_bounds`.
    pub check_bounds: bool,
}

/// The limits of a function's groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// Threads, at most.
    pub threads: u64,
    /// The size for which the function was compiled, if its text says one.
    pub compiled: Option<[u64; 3]>,
    /// Bytes of memory of its own.
    pub bytes: u64,
}

/// A kernel function, ready on the device.
pub struct Function<D: Driver> {
    /// The driver's own.
    pub driver: D::Function,
    /// The limits of its groups.
    pub limits: GroupLimits,
    /// Keeps the program.
    pub(super) program: Arc<D::Program>,
    /// The table of the last launch that wrote to its own and noted no fault: it is as it was.
    pub(super) written: Mutex<Option<Written<D>>>,
}

/// A table that the calls of a launch write to.
pub(super) struct Written<D: Driver> {
    /// What was put into it.
    pub words: Vec<u64>,
    /// On the device.
    pub table: D::Table,
}

/// Threads of a call, in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Dimensions, from 1 to 3.
    pub dimensions: usize,
    /// The first index.
    pub begin: [u64; 3],
    /// Groups along each dimension.
    pub groups: [u64; 3],
    /// Threads of a group. `None`: the driver chooses it, and `groups` are threads.
    pub group: Option<[u64; 3]>,
}

/// One call of a kernel function: a phase of a launch, or several.
pub struct Call<'a, D: Driver> {
    /// The launch that it is of.
    pub launch: &'a Launch<'a, D::Kernel>,
    /// The kernel.
    pub kernel: &'a Kernel<D>,
    /// The function of the kernel that is called.
    pub function: &'a Function<D>,
    /// Its threads.
    pub range: Range,
    /// Bytes that are added to each group's memory.
    pub added: u64,
    /// Work items.
    pub items: u64,
    /// The struct of `FLASH_ARGS`, the first parameter after the definition's; empty for a kernel that does
    /// not cooperate, which has no more parameters.
    pub words: &'a [u64],
    /// The table of `FLASH_ARGS`, which the second of them points to; NULL if it is empty.
    pub table: &'a [u64],
    /// For kernels with [`GRID_BARRIERS`](Driver::GRID_BARRIERS): the structs of all phases.
    pub phases: Option<Phases<'a>>,
    /// The buffers of phased arguments have changed places.
    pub(super) odd: bool,
}

/// Phases of one call.
#[derive(Clone, Copy, Debug)]
pub struct Phases<'a> {
    /// Their number. With several, all groups must run at the same time.
    pub count: u64,
    /// The structs of all of them, one after the other.
    pub words: &'a [u64],
}

/// The value of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A scalar.
    Bytes(&'a [u8]),
    /// A buffer of an array.
    Buffer(ArgBuffer<'a>),
}

/// A buffer of an argument.
#[derive(Clone, Copy, Debug)]
pub struct ArgBuffer<'a> {
    /// The argument.
    pub arg: &'a Arg,
    /// The second one, of two.
    pub second: bool,
    /// The first byte of it.
    pub begin: u64,
}

impl ArgBuffer<'_> {
    /// The device's handle, for arguments in memory of its own.
    #[inline]
    pub fn handle(&self) -> u64 {
        if self.second { self.arg.next.addr() as u64 } else { self.arg.buffer }
    }

    /// The address, for arguments in the host's memory.
    #[inline]
    pub fn address(&self) -> *mut c_void {
        if self.second { self.arg.next } else { self.arg.data }
    }
}

impl Range {
    /// Threads along each dimension.
    #[inline]
    pub fn threads(&self) -> [u64; 3] {
        let group = self.group.unwrap_or([1; 3]);
        std::array::from_fn(|d| self.groups[d].saturating_mul(group[d]))
    }
}

impl<'a, D: Driver> Call<'a, D> {
    /// The values of the definition's parameters, in their order.
    #[inline]
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> {
        let (args, odd, cooperating) = (self.launch.args(), self.odd, self.kernel.spec.cooperating);
        self.kernel.parameters.iter().map(move |&parameter| {
            let (Parameter::Value(argument) | Parameter::Array(argument) | Parameter::Next(argument)) =
                parameter;
            let arg = &args[argument];
            if let Parameter::Value(_) = parameter {
                // SAFETY: a scalar of the launch.
                return Value::Bytes(unsafe { bytes_of(arg) });
            }
            let next = matches!(parameter, Parameter::Next(_));
            // A cooperating kernel reads the offsets of its buffers from `FLASH_ARGS`.
            let begin = if cooperating { 0 } else { offset(arg).max(0) as u64 };
            Value::Buffer(ArgBuffer { arg, second: next != (odd && two_buffers(arg)), begin })
        })
    }

    /// True if an equal launch is this call, and one with other scalars is it but for these: a driver that
    /// keeps the parameters need not set the others again.
    #[inline]
    pub fn may_repeat(&self) -> bool {
        self.kernel.spec.cooperating
            && std::ptr::eq(self.function, self.kernel.first())
            && !self.kernel.spec.check_bounds
            && !self.launch.has_attributes()
            && self.launch.phases() == (0..1)
            && !self.launch.args().iter().any(two_buffers)
    }
}

impl<D: Driver> Kernel<D> {
    /// The values of a launch's scalars, and the numbers of their parameters.
    #[inline]
    pub fn scalars<'a>(
        &'a self,
        launch: &'a Launch<'a, D::Kernel>,
    ) -> impl Iterator<Item = (usize, &'a [u8])> {
        let args = launch.args();
        self.parameters.iter().enumerate().filter_map(|(number, parameter)| match *parameter {
            // SAFETY: a scalar of the launch.
            Parameter::Value(argument) => Some((number, unsafe { bytes_of(&args[argument]) })),
            Parameter::Array(_) | Parameter::Next(_) => None,
        })
    }
}

/// The value of a scalar.
///
/// # Safety
/// The argument is a scalar of a launch, whose bytes live for the call.
#[inline]
pub(super) unsafe fn bytes_of(arg: &Arg) -> &[u8] {
    // SAFETY: the caller vouches.
    unsafe { std::slice::from_raw_parts(arg.data.cast::<u8>(), arg.element_size as usize) }
}
