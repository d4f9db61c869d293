//! Checks of the vtable's slots, called as the interface defines.

use super::{CheckFn, Outcome, Stop, Subject, ensure, submissions};
use flash_backend::__host::HOST;
use flash_core::__private::take_error;
use flash_core::Error;
use flash_core::devices::DeviceHandle;
use flash_types::Code;
use flash_types::abi::{self, BackendApi, Buffer, CopyBox, Implementation, Str};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("the device describes itself", describes_itself),
    ("the devices stay the same", devices_stay),
    ("an unknown property is an error, an unknown extension NULL", unknown_names),
    ("memory spaces are sane", spaces_are_sane),
    ("kernels are prepared and released", prepare_and_release),
    ("an implementation without code is refused", nothing_to_prepare),
    ("memory is allocated zeroed, aligned and apart", allocation),
    ("memory that is cleared is zero", clearing),
    ("host memory is registered", registration),
    ("boxes of one, two and three dimensions are copied", copies),
    ("user events fire once, and tell all that wait", user_events),
    ("a user event carries its error", events_with_errors),
    ("a launch waits for its events", submissions::launches_wait),
    ("a launch whose event failed does not run", submissions::launches_fail_with_their_events),
    ("copies and launches wait for each other", submissions::work_waits_for_work),
    ("a launch that is asked to stop runs no work item twice, and the next one runs", submissions::stops),
    ("launches that have a number are like those that had it before", submissions::alike),
    ("a submission runs just the phases that it names", submissions::phases),
    ("the second buffer of a phased argument keeps what was written, if it is to", submissions::next_stays),
    ("arrays begin anywhere in the host's memory, and others come in their places", submissions::forgotten),
];

/// The slot, or why the check is skipped.
pub(super) fn slot<T>(slot: Option<T>, name: &str) -> Result<T, Stop> {
    slot.ok_or_else(|| Stop::Skip(format!("there is no slot `{name}`")))
}

/// Converts an error of the backend to a result.
pub(super) fn answer(error: *mut abi::Error) -> Result<(), Error> {
    // SAFETY: errors of vtables are made by this host, or NULL.
    unsafe { take_error(error) }
}

impl Subject {
    pub(super) fn api(&self) -> &'static BackendApi {
        self.device.api()
    }

    /// The device's targets, for messages.
    pub(super) fn targets(&self) -> String {
        self.device.info().targets.join(", ")
    }

    pub(super) fn raw(&self) -> *mut abi::Device {
        self.device.raw()
    }

    /// The implementations of a kernel for the device's targets.
    pub(super) fn implementations(&self, kernel: &str) -> impl Iterator<Item = &'static Implementation> {
        // SAFETY: strings of implementations live for ever.
        let fits = move |i: &&'static Implementation| unsafe {
            i.kernel.text() == kernel && self.device.info().targets.contains(&i.target.text())
        };
        self.context.implementations().filter(fits)
    }

    pub(super) fn has_kernel(&self, kernel: &str) -> bool {
        self.implementations(kernel).next().is_some()
    }
}

/// True if the device reports that it runs nothing.
pub(super) fn is_dry(device: &DeviceHandle) -> bool {
    device.query(super::DRY).is_ok_and(|value| value == "true")
}

fn describes_itself(subject: &Subject) -> Outcome {
    let info = subject.device.info();
    for (what, text) in [
        ("name", &info.name),
        ("vendor", &info.vendor),
        ("version", &info.version),
        ("physical_id", &info.physical_id),
    ] {
        ensure!(!text.trim().is_empty(), "expected a {what}, found an empty text");
    }
    ensure!(info.threads > 0, "expected at least 1 thread, found 0");
    ensure!(
        info.rate_hint.is_finite() && info.rate_hint >= 0.0,
        "expected a rate of 0 or more flop/s, found {}",
        info.rate_hint
    );
    ensure!(
        info.targets.iter().all(|target| !target.is_empty()),
        "expected targets such as `cpu`, found an empty text"
    );
    ensure!(
        !info.suffix.contains(','),
        "a key of several devices has commas, `{}` must have none",
        info.suffix
    );
    // A host of an older minor version passes a shorter struct: nothing may be written beyond it.
    let device_info = slot(subject.api().device_info, "device_info")?;
    let short = std::mem::offset_of!(abi::DeviceInfo, version);
    let mut bytes = [0xA5u64; size_of::<abi::DeviceInfo>() / 8];
    let shorter = bytes.as_mut_ptr().cast::<abi::DeviceInfo>();
    // SAFETY: the struct is all of `bytes`, of which the first `short` bytes count.
    unsafe {
        (*shorter).struct_size = short as u32;
        answer(device_info(subject.raw(), shorter))?;
    }
    let untouched = bytes[short / 8..].iter().all(|&word| word == 0xA5);
    ensure!(untouched, "`device_info` wrote beyond the {short} bytes that `struct_size` said there are");
    Ok(())
}

fn devices_stay(subject: &Subject) -> Outcome {
    let devices = slot(subject.api().devices, "devices")?;
    let probe = slot(subject.api().probe, "probe")?;
    let mut lists = Vec::new();
    for _ in 0..2 {
        let (mut list, mut count) = (std::ptr::null(), 0);
        // SAFETY: local variables.
        unsafe {
            answer(probe())?;
            answer(devices(&mut list, &mut count))?;
            ensure!(count == 0 || !list.is_null(), "{count} devices, and NULL for their list");
            lists.push((0..count).map(|i| *list.add(i)).collect::<Vec<_>>());
        }
    }
    ensure!(lists[0] == lists[1], "two calls of `devices` gave different devices");
    // With `open`, those of other settings are listed elsewhere.
    let opened = subject.api().open.is_some();
    ensure!(opened || lists[0].contains(&subject.raw()), "`devices` does not list this device any more");
    Ok(())
}

fn unknown_names(subject: &Subject) -> Outcome {
    if let Some(get) = subject.api().get_extension {
        // SAFETY: the text lives for the call.
        let extension = unsafe { get(Str::new("conformance.nobody_has_this"), 1) };
        ensure!(extension.is_null(), "expected NULL for an extension that no backend has");
    }
    slot(subject.api().query, "query")?;
    match subject.device.query("conformance.nobody_has_this") {
        Err(Error::Backend { code: Code::Unsupported | Code::Invalid, .. }) => Ok(()),
        Err(other) => Err(Stop::Fail(format!("expected the code for unsupported, found: {other}"))),
        Ok(value) => Err(Stop::Fail(format!("expected an error, found the value `{value}`"))),
    }
}

/// The device's memory spaces.
pub(super) fn spaces(subject: &Subject) -> Result<Vec<abi::MemorySpace>, Stop> {
    let spaces = slot(subject.api().spaces, "spaces")?;
    let (mut list, mut count) = (std::ptr::null(), 0);
    // SAFETY: local variables; the list lives as long as the device.
    unsafe {
        answer(spaces(subject.raw(), &mut list, &mut count))?;
        ensure!(count == 0 || !list.is_null(), "{count} spaces, and NULL for their list");
        Ok((0..count).map(|i| *list.add(i)).collect())
    }
}

fn spaces_are_sane(subject: &Subject) -> Outcome {
    let spaces = spaces(subject)?;
    if spaces.is_empty() {
        return Err(Stop::Skip("the device lists none".into()));
    }
    let ids: BTreeSet<u32> = spaces.iter().map(|s| s.id).collect();
    ensure!(ids.len() == spaces.len(), "two spaces of one id");
    for space in &spaces {
        let id = space.id;
        ensure!(
            space.struct_size as usize >= size_of::<abi::MemorySpace>(),
            "space {id}: struct_size is {}",
            space.struct_size
        );
        ensure!(space.host_visible <= 1, "space {id}: host_visible is {}", space.host_visible);
        ensure!(
            space.alignment.is_power_of_two(),
            "space {id}: an alignment of {}, which is no power of two",
            space.alignment
        );
        ensure!(
            id != abi::SPACE_HOST || space.host_visible == 1,
            "space {id} is the host's and not visible to it"
        );
    }
    Ok(())
}

/// The suite's own implementation of a kernel.
pub(super) fn implementation(subject: &Subject, kernel: &str) -> Result<&'static Implementation, Stop> {
    let first = subject.implementations(kernel).next();
    first.ok_or_else(|| Stop::NoKernel(kernel.to_owned(), "there is none".to_owned()))
}

/// A prepared kernel, released on drop.
pub(super) struct Prepared<'a> {
    subject: &'a Subject,
    pub(super) kernel: *mut abi::Kernel,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(
        subject: &'a Subject,
        implementation: &'static Implementation,
    ) -> Result<Prepared<'a>, Stop> {
        let mut kernel = std::ptr::null_mut();
        let prepare = slot(subject.api().prepare, "prepare")?;
        // SAFETY: the implementation lives for ever.
        answer(unsafe { prepare(subject.raw(), implementation, &mut kernel) })?;
        Ok(Prepared { subject, kernel })
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        if let Some(release) = self.subject.api().release {
            // SAFETY: made by `prepare`, released once.
            unsafe { release(self.subject.raw(), self.kernel) };
        }
    }
}

fn prepare_and_release(subject: &Subject) -> Outcome {
    let implementation = implementation(subject, "conformance.count")?;
    let all: Vec<Prepared<'_>> =
        (0..100).map(|_| Prepared::new(subject, implementation)).collect::<Result<_, _>>()?;
    drop(all);
    Prepared::new(subject, implementation).map(drop)
}

fn nothing_to_prepare(subject: &Subject) -> Outcome {
    let with = implementation(subject, "conformance.count")?;
    let without: &'static Implementation = Box::leak(Box::new(Implementation {
        share: None,
        span: None,
        payload: std::ptr::null(),
        payload_len: 0,
        ..*with
    }));
    match Prepared::new(subject, without) {
        Ok(_) if subject.dry => Ok(()),
        Ok(_) => Err(Stop::Fail("expected an error, found success: the first launch would call NULL".into())),
        Err(Stop::Skip(_) | Stop::NoKernel(..)) => Ok(()), // "unsupported" is an answer, too
        Err(Stop::Fail(text)) if text.trim().is_empty() => {
            Err(Stop::Fail("expected an error with a text".into()))
        }
        Err(Stop::Fail(_)) => Ok(()),
    }
}

/// An allocated buffer, freed on drop.
pub(super) struct Allocated<'a> {
    subject: &'a Subject,
    pub(super) buffer: Buffer,
}

impl<'a> Allocated<'a> {
    pub(super) fn new(subject: &'a Subject, space: u32, bytes: u64) -> Result<Allocated<'a>, Stop> {
        let alloc = slot(subject.api().alloc, "alloc")?;
        slot(subject.api().free, "free")?;
        let mut buffer = Buffer { space: u32::MAX, reserved: 0, handle: 0 };
        // SAFETY: a local variable.
        answer(unsafe { alloc(subject.raw(), space, bytes, &mut buffer) })?;
        ensure!(buffer.space == space, "asked for memory in space {space}, got it in space {}", buffer.space);
        Ok(Allocated { subject, buffer })
    }

    fn free(self) -> Result<(), Error> {
        let this = std::mem::ManuallyDrop::new(self);
        match this.subject.api().free {
            // SAFETY: allocated, and freed here only.
            Some(free) => answer(unsafe { free(this.subject.raw(), this.buffer) }),
            None => Ok(()),
        }
    }
}

impl Drop for Allocated<'_> {
    fn drop(&mut self) {
        if let Some(free) = self.subject.api().free {
            // SAFETY: allocated, and freed here only.
            let _ = answer(unsafe { free(self.subject.raw(), self.buffer) });
        }
    }
}

fn allocation(subject: &Subject) -> Outcome {
    slot(subject.api().alloc, "alloc")?;
    let spaces = spaces(subject)?;
    if spaces.is_empty() {
        return Err(Stop::Skip("the device lists no memory spaces".into()));
    }
    for space in spaces {
        let mut kept = Vec::new();
        for bytes in [1, 64, 4097, 1 << 20] {
            // The second round gets memory that was used before.
            for _ in 0..2 {
                let allocated = Allocated::new(subject, space.id, bytes)?;
                if space.host_visible == 1 && space.id == abi::SPACE_HOST {
                    let address = allocated.buffer.handle;
                    ensure!(
                        address.is_multiple_of(u64::from(space.alignment)),
                        "{bytes} bytes at {address:#x}, which the space's alignment of {} does not divide",
                        space.alignment
                    );
                    // SAFETY: the host's memory, without another user, of that many bytes.
                    let memory =
                        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes as usize) };
                    ensure!(memory.iter().all(|&b| b == 0), "{bytes} bytes that are not zero");
                    memory.fill(0xFF);
                }
                allocated.free()?;
            }
            kept.push(Allocated::new(subject, space.id, bytes)?);
        }
        let handles: BTreeSet<u64> = kept.iter().map(|a| a.buffer.handle).collect();
        ensure!(handles.len() == kept.len(), "two live buffers with one handle");
    }
    let alloc = slot(subject.api().alloc, "alloc")?;
    let mut buffer = Buffer { space: 0, reserved: 0, handle: 0 };
    // SAFETY: a local variable.
    let outcome = answer(unsafe { alloc(subject.raw(), abi::SPACE_HOST, u64::MAX, &mut buffer) });
    ensure!(outcome.is_err(), "2^64 - 1 bytes: expected an error, found success");
    Ok(())
}

fn clearing(subject: &Subject) -> Outcome {
    const BYTES: u64 = 100_000;
    let clear = slot(subject.api().clear, "clear")?;
    slot(subject.api().copy_box, "copy_box")?;
    let spaces = spaces(subject)?;
    if spaces.is_empty() {
        return Err(Stop::Skip("the device lists no memory spaces".into()));
    }
    let row = CopyBox {
        extent: [BYTES, 1, 1],
        source_offset: 0,
        source_stride: [BYTES; 2],
        destination_offset: 0,
        destination_stride: [BYTES; 2],
    };
    for space in spaces {
        let [cleared, beside] = [(); 2].map(|()| Allocated::new(subject, space.id, BYTES));
        let (cleared, beside) = (cleared?, beside?);
        let mut bytes = vec![0xA5u8; BYTES as usize];
        let host = Buffer { space: abi::SPACE_HOST, reserved: 0, handle: bytes.as_mut_ptr() as u64 };
        for allocated in [&cleared, &beside] {
            copy(subject, host, allocated.buffer, &row)?;
        }
        // SAFETY: a buffer of that many bytes without another user.
        match answer(unsafe { clear(subject.raw(), cleared.buffer, BYTES) }) {
            Err(Error::Backend { code: Code::Unsupported, .. }) => {
                return Err(Stop::Skip("the device clears no memory: the host allocates anew".into()));
            }
            outcome => outcome?,
        }
        for (allocated, expected) in [(&cleared, 0), (&beside, 0xA5)] {
            bytes.fill(1);
            copy(subject, allocated.buffer, host, &row)?;
            let wrong = bytes.iter().position(|byte| *byte != expected);
            ensure!(wrong.is_none(), "byte {wrong:?} of space {}: expected {expected:#x}", space.id);
        }
    }
    Ok(())
}

fn registration(subject: &Subject) -> Outcome {
    let register = slot(subject.api().register_host, "register_host")?;
    let free = slot(subject.api().free, "free")?;
    let mut memory = vec![7u8; 8192];
    let mut buffer = Buffer { space: 0, reserved: 0, handle: 0 };
    // SAFETY: the memory outlives the buffer.
    unsafe {
        answer(register(subject.raw(), memory.as_mut_ptr().cast(), 8192, &mut buffer))?;
        answer(free(subject.raw(), buffer))?;
    }
    ensure!(memory.iter().all(|&b| b == 7), "registering changed the memory");
    Ok(())
}

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Copies a box; waits for it.
pub(super) fn copy(subject: &Subject, from: Buffer, to: Buffer, shape: &CopyBox) -> Outcome {
    // SAFETY: the boxes lie inside the buffers, which have no other user until it is over.
    finish(subject, unsafe { begin_copy(subject, [from, to], shape, &[])? })
}

/// Begins to copy a box after events. NULL: already complete.
///
/// # Safety
/// From the events on the boxes have no other user, until the copy is complete.
pub(super) unsafe fn begin_copy(
    subject: &Subject,
    [from, to]: [Buffer; 2],
    shape: &CopyBox,
    waits: &[*mut abi::Event],
) -> Result<*mut abi::Event, Stop> {
    let copy_box = slot(subject.api().copy_box, "copy_box")?;
    let (waits, count, mut signal) = (waits.as_ptr(), waits.len(), std::ptr::null_mut());
    // SAFETY: the boxes lie inside the buffers; the caller vouches for the rest.
    answer(unsafe { copy_box(subject.raw(), from, to, shape, waits, count, &mut signal) })?;
    Ok(signal)
}

/// Waits for a completion event and releases it. NULL: already complete.
pub(super) fn finish(subject: &Subject, event: *mut abi::Event) -> Outcome {
    if event.is_null() {
        return Ok(());
    }
    let Some(wait) = subject.api().event_wait else {
        return Err(Stop::Fail("an event was given and there is no slot `event_wait`".into()));
    };
    // SAFETY: an event of this backend, released after.
    unsafe {
        let outcome = answer(wait(event));
        if let Some(release) = subject.api().event_release {
            release(event);
        }
        Ok(outcome?)
    }
}

/// A box with its strides in a buffer of `len` bytes.
struct Layout {
    offset: u64,
    stride: [u64; 2],
    len: u64,
}

impl Layout {
    /// Some layout of a box: rows and planes at distances, in no particular order of size.
    fn random(extent: [u64; 3], random: &mut Random) -> Layout {
        let row = extent[0] + random.below(5);
        let plane = row * extent[1] + random.below(40);
        let offset = random.below(17);
        Layout { offset, stride: [row, plane], len: offset + plane * extent[2] + random.below(9) }
    }
}

/// Copies into the device's space and back to the host, and compares with loops.
fn round_trip(subject: &Subject, space: u32, extent: [u64; 3], random: &mut Random) -> Outcome {
    let at = |layout: &Layout, [x, y, z]: [u64; 3]| {
        (layout.offset + x + y * layout.stride[0] + z * layout.stride[1]) as usize
    };
    let [source, middle, target] = [(); 3].map(|()| Layout::random(extent, random));
    let host = |bytes: &mut Vec<u8>| Buffer {
        space: abi::SPACE_HOST,
        reserved: 0,
        handle: bytes.as_mut_ptr() as u64,
    };
    let shape = |from: &Layout, to: &Layout| CopyBox {
        extent,
        source_offset: from.offset,
        source_stride: from.stride,
        destination_offset: to.offset,
        destination_stride: to.stride,
    };
    let mut from: Vec<u8> = (0..source.len).map(|i| (i * 31 + 5) as u8).collect();
    let mut to: Vec<u8> = (0..target.len).map(|i| (i * 7) as u8).collect();
    let mut expected = to.clone();
    for z in 0..extent[2] {
        for y in 0..extent[1] {
            for x in 0..extent[0] {
                expected[at(&target, [x, y, z])] = from[at(&source, [x, y, z])];
            }
        }
    }
    let inside = Allocated::new(subject, space, middle.len.max(1))?;
    copy(subject, host(&mut from), inside.buffer, &shape(&source, &middle))?;
    copy(subject, inside.buffer, host(&mut to), &shape(&middle, &target))?;
    let wrong = to.iter().zip(&expected).position(|(a, b)| a != b);
    ensure!(
        wrong.is_none(),
        "a box of {extent:?} bytes by way of space {space}: byte {} of the destination is wrong",
        wrong.unwrap_or(0)
    );
    Ok(())
}

fn copies(subject: &Subject) -> Outcome {
    slot(subject.api().copy_box, "copy_box")?;
    let can_copy = |from, to| match subject.api().can_copy {
        None => true,
        Some(can_copy) => {
            let mut rate = 0.0;
            // SAFETY: a local variable.
            unsafe { can_copy(subject.raw(), from, to, &mut rate) != 0 }
        }
    };
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut tried = false;
    for space in spaces(subject)? {
        if !can_copy(abi::SPACE_HOST, space.id) || !can_copy(space.id, abi::SPACE_HOST) {
            continue;
        }
        tried = true;
        for _ in 0..40 {
            let (x, y, z) = (1 + random.below(70), 1 + random.below(9), 1 + random.below(6));
            for extent in [[x, 1, 1], [x, y, 1], [x, y, z], [x, 1, z], [1, y, z], [0, y, z]] {
                round_trip(subject, space.id, extent, &mut random)?;
            }
        }
        round_trip(subject, space.id, [3 << 20, 1, 1], &mut random)?;
    }
    match tried {
        true => Ok(()),
        false => Err(Stop::Skip("`can_copy` says no to every memory space".into())),
    }
}

/// An event that the host signals, released on drop.
pub(super) struct UserEvent<'a> {
    subject: &'a Subject,
    pub(super) event: *mut abi::Event,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for UserEvent<'_> {}
// SAFETY: as above.
unsafe impl Sync for UserEvent<'_> {}

impl<'a> UserEvent<'a> {
    pub(super) fn new(subject: &'a Subject) -> Result<UserEvent<'a>, Stop> {
        let create = slot(subject.api().event_create, "event_create")?;
        slot(subject.api().event_signal, "event_signal")?;
        slot(subject.api().event_wait, "event_wait")?;
        slot(subject.api().event_ready, "event_ready")?;
        slot(subject.api().event_on_ready, "event_on_ready")?;
        slot(subject.api().event_release, "event_release")?;
        let mut event = std::ptr::null_mut();
        // SAFETY: a local variable.
        answer(unsafe { create(subject.raw(), &mut event) })?;
        ensure!(!event.is_null(), "`event_create` succeeded and gave NULL");
        Ok(UserEvent { subject, event })
    }

    pub(super) fn signal(&self, error: *mut abi::Error) -> Result<(), Error> {
        match self.subject.api().event_signal {
            // SAFETY: a live event; it takes ownership of the error.
            Some(signal) => answer(unsafe { signal(self.event, error) }),
            None => Ok(()),
        }
    }

    fn wait(&self) -> Result<(), Error> {
        match self.subject.api().event_wait {
            // SAFETY: a live event.
            Some(wait) => answer(unsafe { wait(self.event) }),
            None => Ok(()),
        }
    }

    fn ready(&self) -> bool {
        // SAFETY: a live event.
        self.subject.api().event_ready.is_some_and(|ready| unsafe { ready(self.event) } != 0)
    }

    /// Registers a callback that counts, in a counter that lives for ever.
    fn count(&self) -> Result<&'static AtomicU32, Stop> {
        unsafe extern "C" fn told(context: *mut c_void) {
            // SAFETY: the counter below.
            unsafe { &*context.cast_const().cast::<AtomicU32>() }.fetch_add(1, SeqCst);
        }
        let counter: &'static AtomicU32 = Box::leak(Box::default());
        let on_ready = slot(self.subject.api().event_on_ready, "event_on_ready")?;
        // SAFETY: the counter lives for ever.
        answer(unsafe { on_ready(self.event, told, std::ptr::from_ref(counter).cast_mut().cast()) })?;
        Ok(counter)
    }
}

impl Drop for UserEvent<'_> {
    fn drop(&mut self) {
        if let Some(release) = self.subject.api().event_release {
            // SAFETY: released once.
            unsafe { release(self.event) };
        }
    }
}

/// The count, after a time in which it may still change.
fn settled(counter: &AtomicU32) -> u32 {
    let start = Instant::now();
    while counter.load(SeqCst) == 0 && start.elapsed() < Duration::from_secs(2) {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(2));
    counter.load(SeqCst)
}

fn user_events(subject: &Subject) -> Outcome {
    let event = UserEvent::new(subject)?;
    ensure!(!event.ready(), "a new event has fired already");
    let before = [event.count()?, event.count()?, event.count()?];
    ensure!(before.iter().all(|c| c.load(SeqCst) == 0), "on_ready was called before the event had fired");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| event.wait().is_ok() && event.ready())).collect();
        std::thread::sleep(Duration::from_millis(5));
        ensure!(
            !waiting.iter().any(|thread| thread.is_finished()),
            "event_wait returned before the event had fired"
        );
        event.signal(std::ptr::null_mut())?;
        let woken = waiting.into_iter().all(|thread| thread.join().unwrap_or(false));
        ensure!(woken, "a thread that waited was told of an error, or that the event has not fired");
        Ok(())
    })?;
    ensure!(event.ready(), "the event was signalled and has not fired");
    for counter in before.into_iter().chain([event.count()?]) {
        let calls = settled(counter);
        ensure!(calls == 1, "on_ready was called {calls} times, expected once");
    }
    ensure!(event.signal(std::ptr::null_mut()).is_err(), "a second signal: expected an error, found success");
    if let Some(times) = subject.api().event_times {
        let (mut start, mut end) = (0, 0);
        // SAFETY: a live event and local variables.
        if answer(unsafe { times(event.event, &mut start, &mut end) }).is_ok() {
            ensure!(start <= end, "an event that ended at {end} ns, before it began at {start} ns");
        }
    }
    Ok(())
}

/// An error of the host.
pub(super) fn error(code: u32, text: &str) -> *mut abi::Error {
    match HOST.error_create {
        // SAFETY: the text lives for the call.
        Some(create) => unsafe { create(code, Str::new(text)) },
        None => std::ptr::null_mut(),
    }
}

fn events_with_errors(subject: &Subject) -> Outcome {
    let event = UserEvent::new(subject)?;
    event.signal(error(abi::ERROR_DEVICE_LOST, "lost on purpose"))?;
    for _ in 0..2 {
        match event.wait() {
            Err(Error::Backend { code: Code::DeviceLost, text, .. }) if text.contains("lost on purpose") => {}
            other => {
                return Err(Stop::Fail(format!("expected the error that was signalled, found {other:?}")));
            }
        }
    }
    let calls = settled(event.count()?);
    ensure!(calls == 1, "on_ready was called {calls} times, expected once");
    Ok(())
}
