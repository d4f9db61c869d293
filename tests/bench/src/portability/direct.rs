//! The functions of the CPU's implementations, called with no framework: a backend that gives them to gcc's
//! OpenMP, in even shares, and takes the time of that alone. What a launch through the framework takes longer
//! is lost there. The accumulators that a kernel has for blocks of its rows are cleared before, and added up
//! afterwards, in that time.

use super::last;
use super::sums::{Blocks, Sums};
use crate::peers::{EachShare, int, long};
use flash_backend::{
    Backend, Class, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, host_memory,
    physical_cpus,
};
use flash_backend::{Code, register_backend};
use flash_core::abi;
use flash_core::descriptor::KernelDescriptor;
use rayon::ThreadPool;
use std::ffi::{c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::{LazyLock, OnceLock};
use std::thread;

/// gcc's OpenMP, if it is there.
pub static EACH_SHARE: OnceLock<EachShare> = OnceLock::new();

/// Rows of which threads have whole multiples.
const ALIGN: u64 = 16;

/// The backend.
struct Direct;

// SAFETY: every row of the one phase runs exactly once, in the call, and memory is touched by the
// implementation alone.
unsafe impl Backend for Direct {
    const KEY: &'static str = "BENCH_CPU";
    const DESCRIPTION: &'static str = "calls functions for the CPU, and takes the time";
    const TARGET: &'static str = "cpu";
    type Device = DirectDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<DirectDevice>, Unavailable> {
        match EACH_SHARE.get() {
            Some(&each_share) => Ok(vec![DirectDevice { each_share, threads: threads() }]),
            None => Err(Unavailable("expected gcc's OpenMP: `cargo xtask bench` installs it".into())),
        }
    }
}

register_backend!(Direct);

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

struct DirectDevice {
    each_share: EachShare,
    threads: usize,
}

impl Device for DirectDevice {
    type Kernel = Function;

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            synchronous: true,
            runs_functions: true,
            class: Class::Cpu,
            test: true,
            host_memory: true,
            threads: self.threads as u32,
            name: "functions, called by OpenMP".into(),
            vendor: "FLASH".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            physical_id: physical_cpus(),
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<Self::Kernel, Failure> {
        // SAFETY: strings of implementations live for ever.
        let descriptor = unsafe { implementation.descriptor.text() };
        let descriptor = KernelDescriptor::from_json(&descriptor)
            .map_err(|why| Failure::new(Code::Invalid, format!("expected a descriptor: {why}")))?;
        Ok(Function { implementation, sums: Sums::of(&descriptor)? })
    }

    fn submit(&self, launch: &Launch<'_, Self::Kernel>) -> Result<Option<Event>, Failure> {
        let (implementation, phases) = (launch.kernel().implementation, launch.phases());
        let Some(function) = implementation.share.filter(|_| phases == (0..1)) else {
            return Err(Failure::new(
                Code::Unsupported,
                "expected a function with its loop inside, and one phase".to_owned(),
            ));
        };
        let rows = launch.space().phase(0);
        let call = Call { function, launch, failed: AtomicPtr::default() };
        let pool = (implementation.door == abi::DOOR_WHOLE).then(|| threads_of(&self.each_share));
        let sums = launch.kernel().sums.blocks(launch, rows.end - rows.start);
        // One row takes less than the clock.
        let one = rows.end - rows.start == 1;
        last::time(if one { 100 } else { 1 }, || {
            sums.iter().for_each(|sum| sum.clear(0));
            match &pool {
                Some(pool) => call.rows(rows.start, rows.end, pool),
                None if one => call.rows(rows.start, rows.end, std::ptr::null()),
                None => {
                    // A block of an accumulator is one thread's.
                    let block = |arg: &abi::Arg| if arg.kind == abi::ARG_REDUCE { arg.row_len } else { 1 };
                    let align = launch.args().iter().map(block).fold(ALIGN, u64::max);
                    let (items, align) = (long((rows.end - rows.start) as usize), long(align as usize));
                    // SAFETY: the call lives until all shares are done, and they are apart.
                    unsafe {
                        let data = (&raw const call).cast_mut().cast();
                        (self.each_share)(int(self.threads), items, align, share, data);
                    }
                }
            }
            sums.iter().for_each(Blocks::add_up);
        });
        // Adding them up once more gives the same.
        sums.iter().for_each(|sum| sum.clear(1));
        match call.failed.into_inner() {
            error if error.is_null() => Ok(None),
            // SAFETY: an error of the host that runs this.
            error => Err(unsafe { Failure::of_host(error) }),
        }
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        vec![host_memory::space(abi::SPACE_HOST, 0)]
    }
}

/// A function.
struct Function {
    implementation: &'static abi::Implementation,
    sums: Sums,
}

/// A launch, for all threads.
struct Call<'a> {
    function: abi::ShareFn,
    launch: &'a Launch<'a, Function>,
    failed: AtomicPtr<abi::Error>,
}

impl Call<'_> {
    fn rows(&self, begin: u64, end: u64, threads: *const abi::Threads) {
        let share = abi::Share { threads, ..self.launch.share(0, begin..end) };
        // SAFETY: rows of the launch without another user, and its arguments.
        let error = unsafe { (self.function)(&share, self.launch.args().as_ptr()) };
        if !error.is_null() {
            // One of them is enough to say what is wrong.
            self.failed.store(error, Relaxed);
        }
    }
}

/// # Safety
/// `data` is a [`Call`], whose rows `begin..end` have no other user.
unsafe extern "C" fn share(data: *mut c_void, begin: c_long, end: c_long) {
    // SAFETY: the caller vouches.
    let call = unsafe { &*data.cast_const().cast::<Call<'_>>() };
    call.rows(begin as u64, end as u64, std::ptr::null());
}

/// Threads for implementations that have a whole launch: a pool of rayon's, as a program has it, and
/// OpenMP's.
fn threads_of(each_share: &EachShare) -> abi::Threads {
    static POOL: LazyLock<ThreadPool> = LazyLock::new(|| {
        rayon::ThreadPoolBuilder::new().num_threads(threads()).build().expect("threads start")
    });
    unsafe extern "C" fn install(_: *mut c_void, body: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
        struct Data(*mut c_void);
        // SAFETY: the body may run on any thread: it is Send by the door's signature.
        unsafe impl Send for Data {}
        impl Data {
            fn get(self) -> *mut c_void {
                self.0
            }
        }
        let data = Data(data);
        // SAFETY: called once, before `install` returns.
        POOL.install(move || unsafe { body(data.get()) });
    }
    type Body = unsafe extern "C" fn(*mut c_void, u64, u64);
    unsafe extern "C" fn each(context: *mut c_void, count: u64, _: f32, body: Body, data: *mut c_void) {
        unsafe extern "C" fn part(data: *mut c_void, begin: c_long, end: c_long) {
            // SAFETY: what `each` passes on, which lives until all parts are done.
            let (body, data) = unsafe { *data.cast_const().cast::<(Body, *mut c_void)>() };
            if begin < end {
                // SAFETY: each part once.
                unsafe { body(data, begin as u64, end as u64) };
            }
        }
        let mut call = (body, data);
        // SAFETY: the context is the function that the device has; the call lives until all parts are done.
        unsafe {
            let each_share = &*context.cast_const().cast::<EachShare>();
            each_share(int(threads()), long(count as usize), 1, part, (&raw mut call).cast());
        }
    }
    abi::Threads {
        struct_size: size_of::<abi::Threads>() as u32,
        count: threads() as u32,
        context: std::ptr::from_ref(each_share).cast_mut().cast(),
        install: Some(install),
        each: Some(each),
    }
}
