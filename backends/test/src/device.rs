//! The backend and its devices.
//!
//! `FLASH_TEST` says which devices there are and what goes wrong on them. Devices that were found together
//! share memory spaces. Launches, copies and allocations are counted per device; a fault names one by its
//! number, and a launch with arguments that are refused has none. From the command at which it is lost on,
//! a device refuses all three.
//!
//! Kernels are functions of the host. Launches and copies have a queue each, which runs one command at a
//! time, on its thread or on the caller, and takes at least the time that the settings say.

use crate::launch::{self, OwnedLaunch, TestKernel};
use crate::memory::{self, Space};
use crate::queue::Queue;
use crate::settings::{Command, Commands, DeviceSettings, Settings};
use flash_backend::Code;
use flash_backend::abi::{self, Buffer, CopyBox, SPACE_HOST};
use flash_backend::cpu_has;
use flash_backend::host_memory::{self, HostBuffers};
use flash_backend::{
    Backend, Changes, Class, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, Upcoming,
    physical_id,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The backend.
pub struct Test;

// SAFETY: `launch` runs every row of every phase once, the phases one after another, in the call or in a
// queue that runs one command at a time and fires the event after it; memory is reached through the arguments
// only.
unsafe impl Backend for Test {
    const KEY: &'static str = "TEST";
    const DESCRIPTION: &'static str = "devices for tests, as FLASH_TEST says";
    const TARGET: &'static str = "cpu";
    type Device = TestDevice;

    fn probe(settings: &HostSettings<'_>) -> Result<Vec<TestDevice>, Unavailable> {
        let all = Arc::new(Setup::new(Settings::parse(settings.text("test.setup").unwrap_or_default())?));
        let is_there = |number: &usize| all.settings.devices[*number].comes == 0;
        Ok((0..all.settings.devices.len()).filter(is_there).map(|number| all.device(number)).collect())
    }

    fn generation() -> u64 {
        CHANGES.load(SeqCst)
    }

    fn changes(known: &[&TestDevice]) -> Changes<TestDevice> {
        let Some(all) = known.first().map(|device| &device.all) else { return Changes::default() };
        let commands = all.commands.load(SeqCst);
        let mut made = all.made.lock().unwrap_or_else(PoisonError::into_inner);
        let comes = |number: &usize| {
            let comes = all.settings.devices[*number].comes;
            comes > 0 && comes <= commands && made.insert(*number)
        };
        Changes {
            gone: (0..known.len()).filter(|at| known[*at].has_gone.load(SeqCst)).collect(),
            new: (0..all.settings.devices.len()).filter(comes).map(|number| all.device(number)).collect(),
        }
    }
}

/// How often devices have come or gone.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Devices of one setup: those that are there, and those that are to come.
struct Setup {
    settings: Settings,
    spaces: Vec<Arc<Space>>,
    /// The number of launches, copies and allocations of all devices.
    commands: AtomicU64,
    /// Those that have come.
    made: Mutex<HashSet<usize>>,
}

impl Setup {
    fn new(settings: Settings) -> Setup {
        let mut spaces: Vec<Arc<Space>> = Vec::new();
        for device in &settings.devices {
            for id in &device.spaces {
                if spaces.iter().all(|space| space.id() != *id) {
                    spaces.push(Arc::new(Space::new(*id, device.memory)));
                }
            }
        }
        Setup { settings, spaces, commands: AtomicU64::new(0), made: Mutex::default() }
    }

    fn device(self: &Arc<Setup>, number: usize) -> TestDevice {
        let settings = self.settings.devices[number].clone();
        let find = |id: &u32| self.spaces.iter().find(|space| space.id() == *id).cloned();
        TestDevice {
            number,
            own: settings.spaces.iter().filter_map(find).collect(),
            all: self.clone(),
            registered: HostBuffers::default(),
            launches: Queue::new("flash-test-launches", settings.queue),
            copies: Queue::new("flash-test-copies", settings.queue),
            counts: Default::default(),
            lost: AtomicBool::new(false),
            has_gone: AtomicBool::new(false),
            settings,
        }
    }

    /// Counts a command: a device may come with it.
    fn count(&self) {
        let number = self.commands.fetch_add(1, SeqCst) + 1;
        if self.settings.devices.iter().any(|device| device.comes == number) {
            CHANGES.fetch_add(1, SeqCst);
        }
    }
}

/// A device.
pub struct TestDevice {
    number: usize,
    /// The memories in which it computes, the main one first.
    own: Vec<Arc<Space>>,
    all: Arc<Setup>,
    /// The host memory that was registered.
    registered: HostBuffers,
    launches: Queue,
    copies: Queue,
    /// The numbers of launches, copies and allocations so far, and of all three.
    counts: [AtomicU64; 4],
    lost: AtomicBool,
    /// It is lost, and no longer among the devices.
    has_gone: AtomicBool,
    settings: DeviceSettings,
}

impl TestDevice {
    fn uses_host(&self) -> bool {
        self.own[0].id() == SPACE_HOST
    }

    /// The memory space of this number, if it is one of its own.
    fn own(&self, id: u32) -> Result<&Arc<Space>, Failure> {
        self.own.iter().find(|space| space.id() == id).ok_or_else(|| {
            let text = format!("memory space {id}: the device has {}", self.own_ids());
            Failure::new(Code::Invalid, text)
        })
    }

    fn own_ids(&self) -> String {
        self.own.iter().map(|space| space.id().to_string()).collect::<Vec<_>>().join(" and ")
    }

    /// Counts a command. Returns the failure that it must have.
    fn count(&self, command: Command) -> Result<(), Failure> {
        self.all.count();
        let mut outcome = Ok(());
        for kind in [command, Command::Any] {
            let number = self.counts[kind as usize].fetch_add(1, SeqCst) + 1;
            let hit = self.settings.faults.iter().any(|f| f.command == kind && f.number == number);
            if kind == Command::Any && number == self.settings.goes {
                self.lost.store(true, SeqCst);
                self.has_gone.store(true, SeqCst);
                CHANGES.fetch_add(1, SeqCst);
            }
            match kind {
                _ if !hit => {}
                Command::Any => self.lost.store(true, SeqCst),
                Command::Alloc => outcome = Err(failure(Code::OutOfMemory, self.number, kind, number)),
                _ => outcome = Err(failure(Code::Other, self.number, kind, number)),
            }
        }
        match self.lost.load(SeqCst) {
            true => Err(Failure::new(Code::DeviceLost, format!("test device {} is lost", self.number))),
            false => outcome,
        }
    }

    /// Fails unless every array of a launch is in a buffer of the device's memory, or nothing of it is to be
    /// there.
    fn check_arguments(&self, launch: &Launch<'_, TestKernel>) -> Result<(), Failure> {
        let arrays = launch.args().iter().enumerate().filter(|(_, arg)| arg.kind != abi::ARG_SCALAR);
        for (i, arg) in arrays {
            let Ok(own) = self.own(arg.space) else {
                let (expected, found) = (self.own_ids(), arg.space);
                return Err(Failure::new(
                    Code::Invalid,
                    format!(
                        "argument {i}: expected an array in memory space {expected}, the device's, found one in space {found}: copy it first"
                    ),
                ));
            };
            // SAFETY: a part lives as long as the launch.
            let part = unsafe { arg.part.as_ref() };
            let is_touched = arg.buffer != 0 || !part.is_some_and(is_empty);
            if self.settings.checks && own.id() != SPACE_HOST && arg.len > 0 && is_touched {
                own.bytes(Buffer { space: arg.space, reserved: 0, handle: arg.buffer }).map_err(
                    |failure| Failure::new(failure.code, format!("argument {i}: {}", failure.text)),
                )?;
            }
        }
        Ok(())
    }

    /// The memory space of a copy; fails if the device cannot copy there.
    fn reached(&self, buffer: Buffer) -> Result<Option<&Space>, Failure> {
        let peers = self.all.settings.peers;
        let space = self.all.spaces.iter().find(|space| space.id() == buffer.space);
        let reached =
            buffer.space == SPACE_HOST || self.own(buffer.space).is_ok() || (peers && space.is_some());
        if !reached {
            let own = self.own_ids();
            let peers = if peers { "and those of the other test devices" } else { "and no other" };
            return Err(Failure::new(
                Code::Invalid,
                format!(
                    "memory space {}: the device copies from and to 0, the host's, {own}, its own, {peers}",
                    buffer.space
                ),
            ));
        }
        Ok(space.map(|space| &**space))
    }

    /// Checks a copy. Returns how long it takes at least.
    fn check_copy(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<Duration, Failure> {
        for (buffer, (offset, stride)) in [from, to].into_iter().zip(memory::ends(shape)) {
            if let Some(space) = self.reached(buffer)?
                && self.settings.checks
            {
                space.check_copy(buffer, shape.extent, offset, stride)?;
            }
        }
        let bytes: f64 = shape.extent.iter().map(|&n| n as f64).product();
        let rate = self.settings.rate;
        Ok(if rate > 0.0 { Duration::from_secs_f64(bytes / rate) } else { Duration::ZERO })
    }
}

#[cold]
fn failure(code: Code, device: usize, command: Command, number: u64) -> Failure {
    Failure::new(code, format!("test device {device}: {command:?} {number} fails, as FLASH_TEST says"))
}

impl Device for TestDevice {
    type Kernel = TestKernel;

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            class: Class::Other,
            emulated: false,
            test: true,
            host_memory: self.uses_host(),
            threads: 1,
            name: format!("test device {}", self.number),
            vendor: "FLASH".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            physical_id: physical_id(&format!("test/{}", self.number)),
            rate_hint: 1e9 / self.settings.ns.max(1.0),
            memory_bytes: self.own.iter().map(|space| space.size()).sum(),
            features: features(),
            synchronous: self.settings.queue == Commands::Caller,
            runs_functions: true,
            waits_in_queue: self.settings.queue == Commands::Thread,
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<TestKernel, Failure> {
        TestKernel::new(implementation)
    }

    fn submit(&self, launch: &Launch<'_, TestKernel>) -> Result<Option<Event>, Failure> {
        if let Some((key, ..)) = launch.attributes().find(|(.., required)| *required) {
            return Err(Failure::new(
                Code::Unsupported,
                format!("the option `{key}` is marked as required, and test devices know no options"),
            ));
        }
        self.check_arguments(launch)?;
        let fault = self.count(Command::Launch);
        let ns = self.settings.ns;
        let time = if ns > 0.0 {
            Duration::from_secs_f64(launch::items(launch) as f64 * ns * 1e-9)
        } else {
            Duration::ZERO
        };
        if self.settings.queue == Commands::Caller || launch.is_awaited() {
            let start = launch.profiled().then(Instant::now);
            let run = || fault.clone().and_then(|()| launch::run(launch));
            if let Some(outcome) = self.launches.run_now(time, run) {
                start.inspect(|start| launch.report(start.elapsed().as_nanos() as u64));
                return outcome.map(|()| None);
            }
        }
        let owned = OwnedLaunch::of(launch);
        Ok(Some(self.launches.push(time, move || fault.and_then(|()| owned.run()))))
    }

    fn run_after(&self, event: &Event, next: Upcoming) -> Result<bool, Failure> {
        let queue = match next {
            Upcoming::Launch => &self.launches,
            Upcoming::Copy { .. } => &self.copies,
        };
        let event = event.clone();
        // What failed has ended, too.
        drop(queue.push(Duration::ZERO, move || {
            let _ = event.wait();
            Ok(())
        }));
        Ok(true)
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        self.own.iter().map(|space| host_memory::space(space.id(), space.size())).collect()
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<Buffer, Failure> {
        self.count(Command::Alloc)?;
        self.own(space)?.alloc(space, bytes)
    }

    unsafe fn clear(&self, buffer: Buffer, _bytes: u64) -> Result<(), Failure> {
        // SAFETY: the caller vouches.
        unsafe { self.own(buffer.space)?.clear(buffer) }
    }

    fn free(&self, buffer: Buffer) -> Result<(), Failure> {
        // The host's memory may be this device's own, and known to it as well.
        if buffer.space == SPACE_HOST && self.registered.free(buffer).is_ok() {
            return Ok(());
        }
        self.own(buffer.space)?.free(buffer)
    }

    unsafe fn register_host(&self, pointer: *mut u8, _bytes: u64) -> Result<Buffer, Failure> {
        if pointer.is_null() {
            return Err(Failure::new(Code::Invalid, "expected host memory, found a NULL pointer"));
        }
        Ok(self.registered.register(pointer))
    }

    unsafe fn copy_box(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<(), Failure> {
        // SAFETY: the caller vouches for the boxes, until this returns.
        match unsafe { self.copy([from, to], shape, true) }? {
            Some(event) => event.wait(),
            None => Ok(()),
        }
    }

    unsafe fn begin_copy(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<Option<Event>, Failure> {
        // SAFETY: the caller vouches for the boxes, until the copy is complete.
        unsafe { self.copy([from, to], shape, false) }
    }

    fn can_copy(&self, from: u32, to: u32) -> Option<f64> {
        let reached = |space| self.reached(Buffer { space, reserved: 0, handle: 0 }).is_ok();
        let rate = self.settings.rate;
        (reached(from) && reached(to)).then_some(if rate > 0.0 { rate } else { 10e9 })
    }

    fn query(&self, key: &str) -> Option<String> {
        match key {
            "threads" => Some("1".to_owned()),
            "launches" => Some(self.counts[Command::Launch as usize].load(SeqCst).to_string()),
            "copies" => Some(self.counts[Command::Copy as usize].load(SeqCst).to_string()),
            _ => None,
        }
    }
}

impl TestDevice {
    /// Begins a copy. `awaited`: its caller waits for it.
    ///
    /// # Safety
    /// As [`Device::begin_copy`].
    unsafe fn copy(
        &self,
        [from, to]: [Buffer; 2],
        shape: &CopyBox,
        awaited: bool,
    ) -> Result<Option<Event>, Failure> {
        let time = self.check_copy(from, to, shape)?;
        let (fault, shape) = (self.count(Command::Copy), *shape);
        let copy = move || {
            fault?;
            // SAFETY: the caller vouches for the boxes until the copy is complete, and handles of all spaces
            // that `check_copy` lets through are addresses.
            unsafe { host_memory::copy_addresses(from.handle, to.handle, &shape) };
            Ok(())
        };
        if (awaited || self.settings.queue == Commands::Caller)
            && let Some(outcome) = self.copies.run_now(time, copy.clone())
        {
            return outcome.map(|()| None);
        }
        Ok(Some(self.copies.push(time, copy)))
    }
}

/// Instruction sets of the CPU, which runs the kernels.
fn features() -> String {
    let known = [
        "sse4.2",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "avx512f",
        "avx512bw",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16",
        "avx512fp16",
    ];
    known.into_iter().filter(|feature| cpu_has(feature)).collect::<Vec<_>>().join(",")
}

/// Whether a part has no elements.
fn is_empty(part: &abi::Part) -> bool {
    (0..3).any(|axis| part.begin[axis] >= part.end[axis])
}
