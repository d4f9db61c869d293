//! The run of one launch on a team: rows to functions, phases to arguments, errors and times back.
//!
//! [`run`] returns when the launch is done. A [`Job`] is a launch as the team's [`Work`]: every row of
//! every phase is given to one thread, and a phase begins after the one before is done. Arguments with two
//! buffers exchange them after each phase, so even and odd phases have lists of their own. A `whole`
//! kernel gets all rows of a phase in one call, on the calling thread, and uses the team by
//! `abi::Threads`.
//!
//! Threads of a launch share its first error and a sum of times. After an error, or a stop flag that is
//! seen, [`Work::run`] returns false, which ends the launch; the calling thread reads the outcome after
//! that. Launches of one kernel may overwrite each other's measured times ([`CpuKernel`]): they decide how
//! a launch is shared out, never what it computes.

use crate::team::{Estimate, Team, Work};
use flash_backend::Code;
use flash_backend::abi::{self, Arg, Share};
use flash_backend::index::SpaceRef;
use flash_backend::{Failure, Launch, alignment, is_stopped, run_rows};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A prepared implementation.
pub struct CpuKernel {
    implementation: &'static abi::Implementation,
    whole: bool,
    /// The multiple of rows at which its shares begin, if it declares one.
    alignment: Option<u64>,
    /// Nanoseconds that one work item takes on one thread, as bits of an `f32`; 0: not measured yet.
    rate: AtomicU32,
    launches: AtomicU32,
    warned: AtomicBool,
}

/// Nanoseconds below which a launch stays on the caller: a second thread would cost more than it saves.
const SMALL: f32 = 500.0;

/// Nanoseconds below which a measured launch stays on the caller. Two threads that write one cache line take
/// much longer than one, and a time of theirs would keep such a launch on both for ever.
const ALONE: f32 = 8_000.0;

/// Number of launches between two measurements.
const SAMPLE: u32 = 64;
/// Number of first launches that are measured, too.
const FIRST: u32 = 4;

/// Share boundaries fall on multiples of this many rows, so that two threads rarely write one cache
/// line, and runs of rows are whole vectors.
const ALIGN: u64 = 16;

/// Nanoseconds of a work item from which on each may have a thread of its own: a cache line shared between
/// two threads costs less.
const LONG_ITEM: f32 = 250.0;

impl CpuKernel {
    pub(crate) fn new(implementation: &'static abi::Implementation) -> Result<CpuKernel, Failure> {
        if matches!(implementation.kind, abi::KIND_INT_SRC | abi::KIND_EXT_SRC) {
            return Err(Failure::new(
                Code::Unsupported,
                "a CPU runs compiled code alone: compile it with `cc -O3 -shared -fPIC` and pass the library (to an agent, an implementation in its program or a plugin), or take a device that compiles kernels",
            ));
        }
        if implementation.share.is_none() && implementation.span.is_none() {
            return Err(Failure::new(
                Code::Invalid,
                "the implementation has no function for the CPU: expected `share` or `span`, found NULL in both",
            ));
        }
        Ok(CpuKernel {
            implementation,
            whole: implementation.door == abi::DOOR_WHOLE,
            alignment: alignment(implementation),
            rate: AtomicU32::new(0),
            launches: AtomicU32::new(0),
            warned: AtomicBool::new(false),
        })
    }

    /// Calls the implementation's function.
    ///
    /// # Safety
    /// As [`run_rows`].
    #[inline]
    unsafe fn call(&self, share: &Share, args: *const Arg) -> *mut abi::Error {
        match self.implementation.share {
            // SAFETY: the caller vouches.
            Some(function) => unsafe { function(share, args) },
            // SAFETY: as above.
            None => unsafe { run_rows(self.implementation, share, args) },
        }
    }

    /// Runs a share on this thread.
    ///
    /// # Safety
    /// As [`run_rows`].
    #[inline(always)]
    unsafe fn run_alone(&self, share: &Share, args: &[Arg]) -> Result<(), Failure> {
        // SAFETY: the caller vouches.
        let error = unsafe { self.call(share, args.as_ptr()) };
        // SAFETY: an error of the host that loaded us.
        if error.is_null() { Ok(()) } else { Err(unsafe { Failure::of_host(error) }) }
    }

    /// Nanoseconds of a work item; 0: not known yet.
    #[inline]
    fn rate(&self) -> f32 {
        f32::from_bits(self.rate.load(Relaxed))
    }

    /// True if its items are known to be short.
    #[inline]
    fn has_short_items(&self) -> bool {
        let rate = self.rate();
        rate > 0.0 && rate <= LONG_ITEM
    }

    /// True if other threads cannot help with this many items.
    #[inline]
    fn few(&self) -> u64 {
        if self.has_short_items() { ALIGN } else { self.align() }
    }

    /// The multiple of rows at which shares begin. A run of rows may be computed by vectors, a single item is
    /// not.
    #[inline]
    fn align(&self) -> u64 {
        match self.alignment {
            Some(said) => said,
            None if self.implementation.door == abi::DOOR_ITEM && !self.has_short_items() => 1,
            None => ALIGN,
        }
    }

    /// The number of items up to which a launch never leaves the caller: they are short, or no other thread
    /// could have one.
    pub(crate) fn inline_items(&self) -> u64 {
        let known = self.rate() > 0.0 && !self.whole && self.implementation.share.is_some();
        if known { self.few() } else { 0 }
    }

    /// True if no other thread could help with this many items.
    #[inline]
    fn is_small(&self, items: u64) -> bool {
        let rate = self.rate();
        rate > 0.0 && (items <= self.few() || items as f32 * rate < SMALL)
    }

    /// True if one thread is known to need little time for this many items.
    fn is_brief(&self, items: u64) -> bool {
        let rate = self.rate();
        rate > 0.0 && items as f32 * rate < ALONE
    }

    /// Adds a measured time: of all threads together, without what they waited for each other.
    fn measured(&self, nanoseconds: u64, items: u64) {
        let now = (nanoseconds as f32 / items as f32).max(0.01);
        let new = match self.rate() {
            0.0 => now,
            // The first launches load code and data, too.
            old if now < old && self.launches.load(Relaxed) <= FIRST => now,
            // A thread that lost its processor measures far too much, and nothing measures too little.
            old if now < old => (old * now).sqrt(),
            old => old + (now - old) * 0.25,
        };
        self.rate.store(new.to_bits(), Relaxed);
    }
}

/// Attributes of a launch that this backend knows.
const PARALLEL: &str = "cpu.parallel";

/// Runs a launch; returns when it is done.
#[inline]
pub(crate) fn run(team: &Team, launch: &Launch<'_, CpuKernel>) -> Result<(), Failure> {
    let (kernel, space) = (launch.kernel(), launch.space());
    let launches = kernel.launches.load(Relaxed);
    kernel.launches.store(launches.wrapping_add(1), Relaxed);
    // The host runs most launches of so few items itself: this one measures the time of an item.
    let sampled =
        launches < FIRST || launches.is_multiple_of(SAMPLE) || space.items() <= kernel.inline_items();
    if sampled || !launch.is_plain() || kernel.whole || space.phases() != 1 || !kernel.is_small(space.items())
    {
        return run_any(team, launch, sampled);
    }
    // SAFETY: the share is all there is of the launch.
    unsafe { kernel.run_alone(&launch.share(0, 0..space.items()), launch.args()) }
}

/// Any launch.
#[inline(never)]
fn run_any(team: &Team, launch: &Launch<'_, CpuKernel>, sampled: bool) -> Result<(), Failure> {
    let (kernel, space, phases) = (launch.kernel(), launch.space(), launch.phases());
    let items = match phases.end {
        0 => 0,
        end => space.phase(end - 1).end - space.phase(phases.start).start,
    };
    if items == 0 {
        return Ok(());
    }
    let parallel = launch.has_attributes() && attributes(launch)?;
    let alone = launch.is_on_caller() || (sampled && !parallel && !kernel.whole && kernel.is_brief(items));
    let crew = if alone { Crew::Caller } else { Crew::Team(team) };
    // A `whole` kernel shares its work out itself.
    let few = !kernel.whole && items < (phases.end - phases.start) * crew.threads() as u64;
    if few && !kernel.warned.load(Relaxed) {
        warn(kernel, space, crew.threads());
    }
    let timed = sampled || launch.profiled();
    let start = timed.then(Instant::now);
    let busy = AtomicU64::new(0);
    let how = How { parallel, busy: timed.then_some(&busy) };
    let result = if launch.phased() {
        run_phased(crew, launch, how)
    } else {
        run_plain(crew, launch, launch.args(), how)
    };
    if let Some(start) = start {
        let nanoseconds = start.elapsed().as_nanos() as u64;
        // One that failed, or was stopped, has not run all its items. A `whole` kernel shares its work out.
        if result.is_ok() && !kernel.whole {
            let busy = busy.into_inner();
            kernel.measured(if busy > 0 { busy } else { nanoseconds }, items);
        }
        launch.report(nanoseconds);
    }
    result
}

/// How a launch runs.
#[derive(Clone, Copy)]
struct How<'a> {
    /// By all threads, however short it is.
    parallel: bool,
    /// Takes the nanoseconds that threads spend in the kernel, if they are measured; a launch that the caller
    /// runs as one share leaves it at 0.
    busy: Option<&'a AtomicU64>,
}

#[cold]
fn attributes(launch: &Launch<'_, CpuKernel>) -> Result<bool, Failure> {
    let mut parallel = false;
    for (key, value, required) in launch.attributes() {
        match key {
            PARALLEL => parallel = value == "true",
            _ if required => {
                return Err(Failure::new(
                    Code::Unsupported,
                    format!(
                        "the option `{key}` is marked as required and this backend does not know it; it knows {PARALLEL}"
                    ),
                ));
            }
            _ => {}
        }
    }
    Ok(parallel)
}

/// Prints once per kernel that most threads are idle.
#[cold]
fn warn(kernel: &CpuKernel, space: SpaceRef<'_>, threads: usize) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    kernel.warned.store(true, Relaxed);
    // SAFETY: the implementation's strings live for ever.
    let name = unsafe { kernel.implementation.kernel.text() };
    if WARNED.lock().unwrap_or_else(|e| e.into_inner()).insert(name.clone()) {
        flash_backend::notice(format_args!(
            "kernel `{name}` has {} work items in {} phases, less than one per thread ({threads}) and phase: most threads idle",
            space.items(),
            space.phases()
        ));
    }
}

/// Everything but double-buffered arguments.
#[inline]
fn run_plain(
    crew: Crew<'_>,
    launch: &Launch<'_, CpuKernel>,
    args: &[Arg],
    how: How<'_>,
) -> Result<(), Failure> {
    let (kernel, space, phases) = (launch.kernel(), launch.space(), launch.phases());
    if space.phases() == 1 && !kernel.whole && !how.parallel && kernel.is_small(space.items()) {
        // SAFETY: the share is all there is of the launch.
        return unsafe { kernel.run_alone(&launch.share(0, 0..space.items()), args) };
    }
    let estimate = estimate(kernel, args, how.parallel);
    let job = Job::new(launch, [args, args], estimate, how.busy);
    let count = phases.end - phases.start;
    if kernel.whole {
        return run_whole(crew, &job, count);
    }
    crew.run(&job, count, estimate);
    job.outcome()
}

fn estimate(kernel: &CpuKernel, args: &[Arg], parallel: bool) -> Estimate {
    // A block of an accumulator belongs to one thread.
    let block = |arg: &Arg| if arg.kind == abi::ARG_REDUCE { arg.row_len } else { 1 };
    Estimate {
        ns_per_item: kernel.rate(),
        force_parallel: parallel,
        align: args.iter().map(block).fold(kernel.align(), u64::max),
    }
}

/// The `whole` door: once per phase, with the team's threads to use.
fn run_whole(crew: Crew<'_>, job: &Job<'_>, count: u64) -> Result<(), Failure> {
    let threads = crew.threads_of_kernel();
    for k in 0..count {
        let (phase, rows) = (job.first + k, job.phase(k));
        let share =
            Share { phase, begin: rows.start, end: rows.end, threads: &raw const threads, ..job.share };
        if job.is_stopped() {
            break;
        }
        // SAFETY: all rows of the phase, one call at a time, arguments of the launch.
        if !job.error.put(unsafe { job.kernel.call(&share, job.args[(k & 1) as usize]) }, job.share.host) {
            break;
        }
    }
    job.outcome()
}

/// The threads that run a launch.
#[derive(Clone, Copy)]
enum Crew<'a> {
    Team(&'a Team),
    /// The calling thread alone.
    Caller,
}

impl Crew<'_> {
    fn threads(self) -> usize {
        match self {
            Crew::Team(team) => team.threads(),
            Crew::Caller => 1,
        }
    }

    /// Runs phases of some work.
    fn run<W: Work>(self, work: &W, phases: u64, estimate: Estimate) {
        if let Crew::Team(team) = self {
            team.run(work, phases, estimate);
            return;
        }
        for phase in 0..phases {
            let rows = work.phase(phase);
            if !rows.is_empty() && !work.run(phase, rows) {
                return;
            }
        }
    }

    /// What a `whole` kernel may use.
    fn threads_of_kernel(self) -> abi::Threads {
        unsafe extern "C" fn install(
            _: *mut c_void,
            body: unsafe extern "C" fn(*mut c_void),
            data: *mut c_void,
        ) {
            // SAFETY: called once, here.
            unsafe { body(data) }
        }
        unsafe extern "C" fn each(
            _: *mut c_void,
            count: u64,
            _: f32,
            body: unsafe extern "C" fn(*mut c_void, u64, u64),
            data: *mut c_void,
        ) {
            // SAFETY: all parts once, here.
            unsafe { body(data, 0, count) }
        }
        match self {
            Crew::Team(team) => threads_of(team),
            Crew::Caller => abi::Threads {
                struct_size: size_of::<abi::Threads>() as u32,
                count: 1,
                context: std::ptr::null_mut(),
                install: Some(install),
                each: Some(each),
            },
        }
    }
}

fn threads_of(team: &Team) -> abi::Threads {
    unsafe extern "C" fn install(
        context: *mut c_void,
        body: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) {
        struct Call(unsafe extern "C" fn(*mut c_void), *mut c_void);
        // SAFETY: the kernel's body may run on any thread: it is Send by the door's signature.
        unsafe impl Send for Call {}
        impl Call {
            fn run(self) {
                // SAFETY: called once, before `install` returns.
                unsafe { (self.0)(self.1) }
            }
        }
        // SAFETY: the context is the team of this launch.
        let team = unsafe { &*context.cast_const().cast::<Team>() };
        let call = Call(body, data);
        team.install(move || call.run());
    }
    unsafe extern "C" fn each(
        context: *mut c_void,
        count: u64,
        ns: f32,
        body: unsafe extern "C" fn(*mut c_void, u64, u64),
        data: *mut c_void,
    ) {
        struct Parts(u64, unsafe extern "C" fn(*mut c_void, u64, u64), *mut c_void);
        // SAFETY: the body may run on all threads at once: it is Sync by the door's signature.
        unsafe impl Sync for Parts {}
        impl Work for Parts {
            fn phase(&self, _: u64) -> Range<u64> {
                0..self.0
            }

            fn run(&self, _: u64, part: Range<u64>) -> bool {
                // SAFETY: each part once, before `each` returns.
                unsafe { (self.1)(self.2, part.start, part.end) };
                true
            }
        }
        // SAFETY: the context is the team of this launch.
        let team = unsafe { &*context.cast_const().cast::<Team>() };
        let estimate = Estimate { ns_per_item: ns, force_parallel: false, align: 1 };
        team.run(&Parts(count, body, data), 1, estimate);
    }
    abi::Threads {
        struct_size: size_of::<abi::Threads>() as u32,
        count: team.threads() as u32,
        context: std::ptr::from_ref(team).cast_mut().cast(),
        install: Some(install),
        each: Some(each),
    }
}

/// True for an argument with two buffers.
fn two_buffers(arg: &Arg) -> bool {
    arg.kind == abi::ARG_PHASED && arg.flags & abi::ARG_FLAG_STAGED == 0
}

/// Arguments with two buffers: they change places after every phase, and the contents end in the
/// first.
fn run_phased(crew: Crew<'_>, launch: &Launch<'_, CpuKernel>, how: How<'_>) -> Result<(), Failure> {
    let (kernel, phases) = (launch.kernel(), launch.phases());
    let count = phases.end - phases.start;
    if !launch.args().iter().any(two_buffers) {
        return run_plain(crew, launch, launch.args(), how);
    }
    let even = launch.args().to_vec();
    let mut odd = even.clone();
    let mut covered = true;
    for arg in &mut odd {
        if two_buffers(arg) {
            std::mem::swap(&mut arg.data, &mut arg.next);
            covered &= arg.flags & abi::ARG_FLAG_COVERED != 0;
        }
    }
    let estimate = estimate(kernel, &even, how.parallel);
    let job = Job::new(launch, [&even, &odd], estimate, how.busy);
    if kernel.whole {
        run_whole(crew, &job, count)?;
    } else if covered {
        crew.run(&job, count, estimate);
    } else {
        crew.run(&Copying { job: &job, args: [&even, &odd] }, 2 * count, estimate);
    }
    if count % 2 == 1 {
        let back: Vec<Arg> =
            even.iter().filter(|a| a.flags & abi::ARG_FLAG_NEXT_STAYS == 0).copied().collect();
        copy(&back, 0..COPY_ROWS, |arg| (arg.next, arg.data));
    }
    job.outcome()
}

/// A launch in the team's form.
struct Job<'a> {
    kernel: &'a CpuKernel,
    space: SpaceRef<'a>,
    /// The first phase to run.
    first: u64,
    share: Share,
    /// For even and odd phases.
    args: [*const Arg; 2],
    /// The launch's.
    stop: *const u32,
    /// The multiple of rows at which its shares begin.
    align: u64,
    /// How many rows take about [`LOOK`] in the phase `looked_in`: a multiple of `align`, which any thread
    /// changes.
    step: AtomicU64,
    /// What it begins with in each phase: fewer than the kernel's rate says, as earlier launches may have
    /// been others.
    first_step: u64,
    looked_in: AtomicU64,
    busy: Option<&'a AtomicU64>,
    error: ErrorSlot,
}

impl<'a> Job<'a> {
    /// All of a launch, whose even and odd phases have these arguments.
    fn new(
        launch: &Launch<'a, CpuKernel>,
        args: [&'a [Arg]; 2],
        estimate: Estimate,
        busy: Option<&'a AtomicU64>,
    ) -> Job<'a> {
        let align = estimate.align.next_power_of_two();
        let at_rate = match estimate.ns_per_item {
            unknown if unknown <= 0.0 => 0,
            ns => (LOOK.as_nanos() as f32 / 10.0 / ns) as u64,
        };
        let first_step = (at_rate / align).clamp(1, 64).saturating_mul(align);
        Job {
            kernel: launch.kernel(),
            space: launch.space(),
            first: launch.phases().start,
            share: launch.share(0, 0..0),
            args: args.map(<[Arg]>::as_ptr),
            stop: launch.stop_flag(),
            align,
            step: AtomicU64::new(first_step),
            first_step,
            looked_in: AtomicU64::new(0),
            busy,
            error: ErrorSlot::default(),
        }
    }

    /// True if the host asks it to stop.
    #[inline]
    fn is_stopped(&self) -> bool {
        // SAFETY: the flag of the launch, which is not over.
        unsafe { is_stopped(self.stop) }
    }

    /// Its first error; of one that was asked to stop, that it has.
    fn outcome(&self) -> Result<(), Failure> {
        self.error.take()?;
        if self.is_stopped() { Err(Failure::cancelled()) } else { Ok(()) }
    }
}

// SAFETY: arguments and share describe the launch; what they point to is shared by its threads as the
// launch's proofs allow.
unsafe impl Sync for Job<'_> {}

impl Work for Job<'_> {
    #[inline]
    fn phase(&self, k: u64) -> Range<u64> {
        self.space.phase(self.first + k)
    }

    #[inline]
    fn run(&self, k: u64, rows: Range<u64>) -> bool {
        if let Some(busy) = self.busy {
            return self.run_measured(k, rows, busy);
        }
        self.run_share(k, rows)
    }
}

/// About how long a launch runs until it looks whether it is to stop.
const LOOK: Duration = Duration::from_micros(100);

impl Job<'_> {
    #[cold]
    fn run_measured(&self, k: u64, rows: Range<u64>, busy: &AtomicU64) -> bool {
        let start = Instant::now();
        let goes_on = self.run_share(k, rows);
        busy.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
        goes_on
    }

    #[inline]
    fn run_share(&self, k: u64, rows: Range<u64>) -> bool {
        if self.stop.is_null() { self.run_rows(k, rows) } else { self.run_until_stopped(k, rows) }
    }

    /// Runs some rows piece by piece, and looks before each whether it is to stop.
    fn run_until_stopped(&self, k: u64, rows: Range<u64>) -> bool {
        let Range { start: mut begin, end } = rows;
        if self.looked_in.load(Relaxed) != k {
            // Rows of another phase may take longer.
            self.looked_in.store(k, Relaxed);
            self.step.store(self.first_step, Relaxed);
        }
        let mut last = Instant::now();
        while begin < end {
            if self.is_stopped() {
                return false;
            }
            let step = self.step.load(Relaxed);
            let piece = step.min(end - begin);
            if !self.run_rows(k, begin..begin + piece) {
                return false;
            }
            let now = Instant::now();
            let took = now - last;
            if took < LOOK && piece == step {
                self.step.store(step.saturating_mul(4), Relaxed);
            } else if took > 4 * LOOK {
                self.step.store(((piece / 4) & !(self.align - 1)).max(self.align), Relaxed);
            }
            (begin, last) = (begin + piece, now);
        }
        true
    }

    #[inline]
    fn run_rows(&self, k: u64, rows: Range<u64>) -> bool {
        let share = Share { phase: self.first + k, begin: rows.start, end: rows.end, ..self.share };
        // SAFETY: the team gives every row of every phase to one thread; the arguments are the launch's.
        let error = unsafe { self.kernel.call(&share, self.args[(k & 1) as usize]) };
        self.error.put(error, self.share.host)
    }
}

/// Rows that a copy is cut into.
const COPY_ROWS: u64 = 256;

/// A launch in which some elements are no item's own: before each phase all are copied over.
struct Copying<'a> {
    job: &'a Job<'a>,
    args: [&'a [Arg]; 2],
}

impl Work for Copying<'_> {
    fn phase(&self, k: u64) -> Range<u64> {
        if k.is_multiple_of(2) { 0..COPY_ROWS } else { self.job.phase(k / 2) }
    }

    fn run(&self, phase: u64, rows: Range<u64>) -> bool {
        if phase % 2 == 1 {
            return self.job.run(phase / 2, rows);
        }
        copy(self.args[(phase / 2 % 2) as usize], rows, |arg| (arg.data, arg.next));
        true
    }
}

/// Copies a share of every double-buffered argument.
fn copy(args: &[Arg], rows: Range<u64>, ends: impl Fn(&Arg) -> (*mut c_void, *mut c_void)) {
    for arg in args.iter().filter(|a| two_buffers(a)) {
        let bytes = u128::from(arg.len) * u128::from(arg.element_size);
        let cut = |row: u64| (bytes * u128::from(row) / u128::from(COPY_ROWS)) as usize;
        let (from, to) = ends(arg);
        let (begin, end) = (cut(rows.start), cut(rows.end));
        // SAFETY: both buffers have that many bytes and do not overlap; only one thread has these rows.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.cast::<u8>().add(begin),
                to.cast::<u8>().add(begin),
                end - begin,
            );
        }
    }
}

/// The first error of a launch.
#[derive(Default)]
struct ErrorSlot(AtomicPtr<abi::Error>);

impl ErrorSlot {
    /// Keeps an error, or frees it if there is one already. True if `error` is NULL.
    #[inline]
    fn put(&self, error: *mut abi::Error, host: *const abi::HostApi) -> bool {
        error.is_null() || self.keep(error, host)
    }

    #[cold]
    fn keep(&self, error: *mut abi::Error, host: *const abi::HostApi) -> bool {
        use std::sync::atomic::Ordering::AcqRel;
        if self.0.compare_exchange(std::ptr::null_mut(), error, AcqRel, Relaxed).is_err() {
            // SAFETY: the host's interface lives for ever; the error is its own.
            unsafe {
                if let Some(free) = (*host).error_free {
                    free(error);
                }
            }
        }
        false
    }

    #[inline]
    fn take(&self) -> Result<(), Failure> {
        let error = self.0.load(std::sync::atomic::Ordering::Acquire);
        if error.is_null() {
            return Ok(());
        }
        self.0.store(std::ptr::null_mut(), Relaxed);
        // SAFETY: an error of the host that loaded this library, taken out just now.
        Err(unsafe { Failure::of_host(error) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_backend::abi::Str;

    #[test]
    fn source_text_is_refused_with_what_to_do() {
        for kind in [abi::KIND_INT_SRC, abi::KIND_EXT_SRC] {
            let implementation = abi::Implementation {
                struct_size: size_of::<abi::Implementation>() as u32,
                door: abi::DOOR_SPAN,
                kind,
                priority: 0,
                kernel: Str::new("fill"),
                name: Str::new("fill"),
                target: Str::new("cpu"),
                descriptor: Str::new(""),
                cpu_features: Str::new(""),
                attributes: std::ptr::null(),
                attribute_count: 0,
                share: None,
                span: None,
                payload: std::ptr::null(),
                payload_len: 0,
                definition: Str::new(""),
            };
            let refused = CpuKernel::new(Box::leak(Box::new(implementation))).err().unwrap();
            assert_eq!(refused.code, Code::Unsupported);
            for part in ["compiled code alone", "cc -O3 -shared -fPIC", "a device that compiles kernels"] {
                assert!(refused.text.contains(part), "{part} in {}", refused.text);
            }
        }
    }
}
