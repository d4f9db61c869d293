//! The backend and its devices, which are teams of threads of one pool.

use crate::job::{self, CpuKernel};
use crate::team::{Pool, Team};
use flash_backend::Code;
use flash_backend::abi;
use flash_backend::host_memory::{self, HostBuffers};
use flash_backend::threads::STACK_SIZE;
use flash_backend::{
    Backend, Class, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, WorkerThreads,
    cgroup, physical_cpus,
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The backend.
pub struct Cpu;

// SAFETY: `job` runs every row of every phase exactly once and returns after the last; the team's
// barriers order the phases; memory is reached through the arguments only.
unsafe impl Backend for Cpu {
    const KEY: &'static str = "ALL_CPU";
    const DESCRIPTION: &'static str = "the threads of this machine's CPUs";
    const TARGET: &'static str = "cpu";
    type Device = CpuDevice;

    fn probe(settings: &HostSettings<'_>) -> Result<Vec<CpuDevice>, Unavailable> {
        let pool = pool(settings)?;
        let devices = pool.teams();
        let copy = settings.flag("cpu.copy");
        let speeds = throttle(settings)?;
        let device = |k: usize| {
            let speed = speeds.get(k).copied().unwrap_or(1.0);
            CpuDevice {
                team: Team::of(pool, k),
                part: (devices > 1).then_some((k, devices)),
                buffers: HostBuffers::of_space(if copy { 1 + k as u32 } else { abi::SPACE_HOST }),
                spaces: if copy { devices as u32 } else { 0 },
                speed,
                special: copy || speed < 1.0,
            }
        };
        Ok((0..devices).map(device).collect())
    }

    fn workers() -> Option<&'static dyn WorkerThreads> {
        let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.first().map(|(_, pool)| &***pool as &dyn WorkerThreads)
    }
}

/// How the threads are divided among devices, and the other settings of a pool.
#[derive(Clone, Copy, PartialEq)]
struct Division {
    threads: usize,
    devices: usize,
    linger: Duration,
    stack_size: usize,
}

/// One pool per division that a context has asked for; all are the same threads of rayon. The first has the
/// workers.
static POOLS: Mutex<Vec<(Division, &'static Arc<Pool>)>> = Mutex::new(Vec::new());

/// The threads of all devices under the settings of a context; none is started.
fn pool(settings: &HostSettings<'_>) -> Result<&'static Arc<Pool>, Unavailable> {
    let there = std::thread::available_parallelism().map_or(1, usize::from);
    let division = Division {
        threads: settings.number("threads", 1..=1024)?.map_or(there, |n| n as usize),
        devices: settings.number("cpu.devices", 1..=1024)?.unwrap_or(1) as usize,
        linger: Duration::from_micros(settings.number("cpu.linger_us", 0..=10_000_000)?.unwrap_or(200)),
        stack_size: settings.number("stack_size", 0..=1 << 32)?.unwrap_or(STACK_SIZE as u64) as usize,
    };
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, pool)) = pools.iter().find(|(made, _)| *made == division) {
        return Ok(pool);
    }
    let Division { threads, devices, linger, stack_size } = division;
    let share = |k: usize| (threads / devices + usize::from(k < threads % devices)).max(1);
    let pool = Pool::global((0..devices).map(share).collect(), threads, linger, stack_size);
    let pool: &Arc<Pool> = Box::leak(Box::new(pool));
    pools.push((division, pool));
    Ok(pool)
}

/// The fraction of its speed at which each device runs.
fn throttle(settings: &HostSettings<'_>) -> Result<Vec<f64>, Unavailable> {
    const NAME: &str = "cpu.throttle";
    let Some(text) = settings.text(NAME) else {
        return Ok(Vec::new());
    };
    let fraction = |part: &str| part.trim().parse::<f64>().ok().filter(|f| *f > 0.0 && *f <= 1.0);
    let speeds = text.split(',').map(fraction).collect::<Option<Vec<f64>>>();
    speeds.ok_or_else(|| {
        Unavailable(format!(
            "setting `{NAME}`: expected a number above 0 and up to 1 per device, such as 1,0.5, found {text:?}"
        ))
    })
}

/// A team of threads.
pub struct CpuDevice {
    pub(crate) team: Team,
    /// Its number and the number of devices, if the threads are split.
    part: Option<(usize, usize)>,
    /// Its buffers: in its own memory space, if it has one, else in the host's.
    buffers: HostBuffers,
    /// Memory spaces of all devices, which are numbered from 1; 0: they use the host's memory in place.
    spaces: u32,
    /// Fraction of its speed at which it runs.
    speed: f64,
    /// True if it has a memory of its own, or is throttled: its launches take a path of their own.
    special: bool,
}

impl CpuDevice {
    /// A launch on a device for tests: arguments must be in its memory, and it may be slowed down.
    #[cold]
    fn submit_special(&self, launch: &Launch<'_, CpuKernel>) -> Result<(), Failure> {
        let own = self.buffers.space();
        let arrays = launch.args().iter().enumerate().filter(|(_, arg)| arg.kind != abi::ARG_SCALAR);
        if let Some((i, arg)) = arrays.into_iter().find(|(_, arg)| arg.space != own) {
            return Err(Failure::new(
                Code::Invalid,
                format!(
                    "argument {i}: expected an array in memory space {own}, the device's, found one in space {}: copy it first",
                    arg.space
                ),
            ));
        }
        if self.speed == 1.0 {
            return job::run(&self.team, launch);
        }
        let start = Instant::now();
        let outcome = job::run(&self.team, launch);
        let whole = start.elapsed().div_f64(self.speed);
        while start.elapsed() < whole {
            std::hint::spin_loop();
        }
        launch.report(start.elapsed().as_nanos() as u64);
        outcome
    }

    /// True if the memory space is the host's or one of these devices'.
    fn knows(&self, space: u32) -> bool {
        space <= self.spaces
    }
}

impl Device for CpuDevice {
    type Kernel = CpuKernel;

    fn info(&self) -> DeviceInfo {
        let threads = self.team.threads() as u32;
        let features = features();
        // Two fused multiply-adds a cycle in the widest registers, at an average clock.
        let lanes = if features.contains(&"avx512f") {
            16.0
        } else if features.contains(&"avx2") {
            8.0
        } else {
            4.0
        };
        DeviceInfo {
            class: Class::Cpu,
            emulated: false,
            test: false,
            host_memory: self.spaces == 0,
            threads,
            name: model().unwrap_or_else(|| "CPU".to_owned()),
            vendor: vendor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            physical_id: physical_cpus() + &self.part.map_or_else(String::new, |(k, _)| format!("/{k}")),
            rate_hint: f64::from(threads) * lanes * 4.0 * 2.5e9,
            memory_bytes: memory(),
            features: features.join(","),
            synchronous: true,
            runs_functions: true,
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<CpuKernel, Failure> {
        CpuKernel::new(implementation)
    }

    #[inline]
    fn submit(&self, launch: &Launch<'_, CpuKernel>) -> Result<Option<Event>, Failure> {
        match self.special {
            false => job::run(&self.team, launch)?,
            true => self.submit_special(launch)?,
        }
        Ok(None)
    }

    fn inline_items(&self, kernel: &CpuKernel) -> u64 {
        if self.special { 0 } else { kernel.inline_items() }
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        vec![host_memory::space(self.buffers.space(), memory())]
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<abi::Buffer, Failure> {
        self.buffers.alloc(space, bytes)
    }

    unsafe fn clear(&self, buffer: abi::Buffer, _bytes: u64) -> Result<(), Failure> {
        // SAFETY: the caller vouches.
        unsafe { self.buffers.clear(buffer) }
    }

    fn free(&self, buffer: abi::Buffer) -> Result<(), Failure> {
        self.buffers.free(buffer)
    }

    unsafe fn register_host(&self, pointer: *mut u8, _bytes: u64) -> Result<abi::Buffer, Failure> {
        if pointer.is_null() {
            return Err(Failure::new(Code::Invalid, "expected host memory, found a NULL pointer"));
        }
        Ok(self.buffers.register(pointer))
    }

    unsafe fn copy_box(
        &self,
        from: abi::Buffer,
        to: abi::Buffer,
        shape: &abi::CopyBox,
    ) -> Result<(), Failure> {
        if let Some(space) = [from.space, to.space].into_iter().find(|space| !self.knows(*space)) {
            return Err(Failure::new(
                Code::Invalid,
                format!("memory space {space}: there are 0, the host's, and up to {}", self.spaces),
            ));
        }
        // SAFETY: the caller vouches for the boxes; handles of all these spaces are addresses.
        unsafe { host_memory::copy_addresses(from.handle, to.handle, shape) };
        Ok(())
    }

    fn can_copy(&self, from: u32, to: u32) -> Option<f64> {
        (self.knows(from) && self.knows(to)).then_some(10e9)
    }

    fn query(&self, key: &str) -> Option<String> {
        match key {
            "threads" => Some(self.team.threads().to_string()),
            _ => None,
        }
    }
}

fn cpuinfo(field: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn model() -> Option<String> {
    cpuinfo("model name")
}

fn vendor() -> Option<String> {
    cpuinfo("vendor_id")
}

/// Bytes of memory of the machine; 0: unknown.
fn memory() -> u64 {
    // Reading limits takes most of the time in which a backend is probed.
    static MEMORY: OnceLock<u64> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        // SAFETY: asks for two numbers.
        let (pages, size) =
            unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        let all = u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0));
        all.min(cgroup::memory_limit().unwrap_or(all))
    })
}

/// The instruction sets that kernels may require.
fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let mut there = Vec::new();
        macro_rules! detect {
            ($($name:tt)*) => {
                $(if std::arch::is_x86_feature_detected!($name) {
                    there.push($name);
                })*
            };
        }
        detect!("sse4.2" "avx" "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16");
        there
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}
