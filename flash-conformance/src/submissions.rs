//! Checks of the slot `submit`, on the host's memory or on the device's own.

use super::slots::{
    Allocated, Prepared, UserEvent, answer, begin_copy, copy, error, finish, implementation, slot, spaces,
};
use super::{Outcome, Stop, Subject, ensure};
use flash_core::__private::forget;
use flash_core::Error;
use flash_types::abi::{self, Arg, Buffer, CopyBox, Submission};
use flash_types::index::{Dim, Group, Order, OrderTraits};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// An array of 32-bit words where the device computes.
pub(super) enum Array<'a> {
    /// Atomics have the layout of their integers and may be looked at while a kernel writes.
    Host(Vec<AtomicU32>),
    Device(Allocated<'a>, usize),
}

impl<'a> Array<'a> {
    pub(super) fn new(subject: &'a Subject, words: &[u32]) -> Result<Array<'a>, Stop> {
        if subject.device.info().host_memory {
            return Ok(Array::Host(words.iter().map(|w| AtomicU32::new(*w)).collect()));
        }
        let space = spaces(subject)?.into_iter().find(|s| s.id != abi::SPACE_HOST).ok_or_else(|| {
            Stop::Fail("the device does not use the host's memory and lists no space of its own".into())
        })?;
        let inside = Allocated::new(subject, space.id, 4 * words.len() as u64)?;
        let mut from = words.to_vec();
        copy(subject, host(&mut from), inside.buffer, &flat(words.len()))?;
        Ok(Array::Device(inside, words.len()))
    }

    fn len(&self) -> usize {
        match self {
            Array::Host(words) => words.len(),
            Array::Device(_, len) => *len,
        }
    }

    /// The space that it is in, and its handle, which is an address where the space has addresses.
    pub(super) fn buffer(&self) -> Buffer {
        match self {
            Array::Host(words) => {
                Buffer { space: abi::SPACE_HOST, reserved: 0, handle: words.as_ptr() as u64 }
            }
            Array::Device(inside, _) => inside.buffer,
        }
    }

    pub(super) fn words(&self, subject: &Subject) -> Result<Vec<u32>, Stop> {
        match self {
            Array::Host(words) => Ok(words.iter().map(|w| w.load(SeqCst)).collect()),
            Array::Device(inside, len) => {
                let mut words = vec![0; *len];
                copy(subject, inside.buffer, host(&mut words), &flat(*len))?;
                Ok(words)
            }
        }
    }

    /// As an argument of one element per work item.
    fn arg(&self, strides: &[u64]) -> Arg {
        let Buffer { space, handle, .. } = self.buffer();
        Arg {
            kind: abi::ARG_ITEM,
            access: abi::ACCESS_READ_WRITE,
            space,
            element_size: 4,
            data: std::ptr::with_exposed_provenance_mut(handle as usize),
            next: std::ptr::null_mut(),
            buffer: if space == abi::SPACE_HOST { 0 } else { handle },
            len: self.len() as u64,
            row_len: 1,
            flags: 0,
            strides: strides.as_ptr(),
            part: std::ptr::null(),
        }
    }
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        if let Array::Host(words) = self {
            forget(words.as_mut_ptr().cast(), size_of_val(&words[..]));
        }
    }
}

fn host(words: &mut [u32]) -> Buffer {
    Buffer { space: abi::SPACE_HOST, reserved: 0, handle: words.as_mut_ptr() as u64 }
}

/// A number of words, one after the other.
pub(super) fn flat(words: usize) -> CopyBox {
    CopyBox {
        extent: [4 * words as u64, 1, 1],
        source_offset: 0,
        source_stride: [0; 2],
        destination_offset: 0,
        destination_stride: [0; 2],
    }
}

fn scalar(value: &u64) -> Arg {
    Arg {
        kind: abi::ARG_SCALAR,
        access: abi::ACCESS_READ,
        space: abi::SPACE_HOST,
        element_size: 8,
        data: std::ptr::from_ref(value).cast_mut().cast(),
        next: std::ptr::null_mut(),
        buffer: 0,
        len: 1,
        row_len: 1,
        flags: 0,
        strides: std::ptr::null(),
        part: std::ptr::null(),
    }
}

fn order(dims: &[u64], traits: &OrderTraits<'_>) -> Result<Order, Stop> {
    let dims: Vec<Dim> = dims.iter().map(|&n| Dim::from(n)).collect();
    Order::new(&dims, traits).map_err(|e| Stop::Fail(e.to_string()))
}

/// What a submission is made of.
struct Request<'a> {
    kernel: &'a Prepared<'a>,
    order: &'a Order,
    args: &'a [Arg],
    phases: Range<u64>,
    waits: &'a [*mut abi::Event],
    /// A flag that may ask it to stop.
    stop: Option<&'a AtomicU32>,
    /// The number of those that are the same.
    like: u64,
}

impl<'a> Request<'a> {
    /// One phase, without anything else.
    fn new(kernel: &'a Prepared<'_>, order: &'a Order, args: &'a [Arg]) -> Request<'a> {
        Request { kernel, order, args, phases: 0..1, waits: &[], stop: None, like: 0 }
    }

    /// Submits it through the slot, and waits.
    fn run(self, subject: &Subject) -> Outcome {
        // SAFETY: the arguments have no other user until it is over.
        finish(subject, unsafe { self.begin(subject)? })
    }

    /// Begins it. NULL: it is over.
    ///
    /// # Safety
    /// From the events on the arguments have no other user, until the launch is over.
    unsafe fn begin(self, subject: &Subject) -> Result<*mut abi::Event, Stop> {
        let Request { kernel, order, args, phases, waits, stop, like } = self;
        let view = order.view();
        let mut signal = std::ptr::null_mut();
        let mut nanoseconds = 0;
        let phased = args.iter().any(|arg| arg.kind == abi::ARG_PHASED);
        let submission = Submission {
            struct_size: size_of::<Submission>() as u32,
            flags: if phased { abi::SUBMIT_PHASED } else { 0 },
            kernel: kernel.kernel,
            space: view.get().raw(),
            args: args.as_ptr(),
            arg_count: args.len() as u32,
            wait_count: waits.len() as u32,
            waits: waits.as_ptr(),
            signal: &raw mut signal,
            nanoseconds: &raw mut nanoseconds,
            attributes: std::ptr::null(),
            attribute_count: 0,
            phase_begin: phases.start,
            phase_end: phases.end,
            stop: stop.map_or(std::ptr::null(), |flag| flag.as_ptr().cast_const()),
            like,
        };
        let submit = slot(subject.api().submit, "submit")?;
        // SAFETY: a kernel of this device and its arguments, for which the caller vouches.
        answer(unsafe { submit(subject.raw(), &submission) })?;
        Ok(signal)
    }
}

/// Runs the suite's counter once per element.
pub(super) fn count(
    subject: &Subject,
    kernel: &Prepared<'_>,
    hits: &Array<'_>,
    waits: &[*mut abi::Event],
) -> Outcome {
    // SAFETY: the array has no other user until it is over.
    finish(subject, unsafe { begin_count(subject, kernel, hits, waits)? })
}

/// Begins that.
///
/// # Safety
/// From the events on the array has no other user, until the launch is over.
unsafe fn begin_count(
    subject: &Subject,
    kernel: &Prepared<'_>,
    hits: &Array<'_>,
    waits: &[*mut abi::Event],
) -> Result<*mut abi::Event, Stop> {
    let n = hits.len() as u64;
    let (extents, strides) = ([n, 1], [1, n, n]);
    let args = [scalar(&extents[0]), scalar(&extents[1]), hits.arg(&strides)];
    let order = order(&[n, 1, 1], &OrderTraits::default())?;
    let request = Request { waits, ..Request::new(kernel, &order, &args) };
    // SAFETY: the caller vouches.
    unsafe { request.begin(subject) }
}

pub(super) fn prepared<'a>(subject: &'a Subject, kernel: &str) -> Result<Prepared<'a>, Stop> {
    Prepared::new(subject, implementation(subject, kernel)?)
}

/// A reference that may go to another thread.
struct ForThread<'a, T>(&'a T);

// SAFETY: kernels and buffers may be used from any thread.
unsafe impl<T> Sync for ForThread<'_, T> {}

pub(super) fn launches_wait(subject: &Subject) -> Outcome {
    let kernel = prepared(subject, "conformance.count")?;
    let events = [UserEvent::new(subject)?, UserEvent::new(subject)?];
    let hits = Array::new(subject, &[0; 100])?;
    let ran = || Ok::<bool, Stop>(hits.words(subject)?.iter().any(|h| *h != 0));
    let (kernel, array) = (ForThread(&kernel), ForThread(&hits));
    std::thread::scope(|scope| {
        let (kernel, array, events) = (&kernel, &array, &events);
        let launch = scope.spawn(move || {
            let waits = [events[0].event, events[1].event];
            count(subject, kernel.0, array.0, &waits)
        });
        std::thread::sleep(Duration::from_millis(10));
        let early = ran();
        events[0].signal(std::ptr::null_mut())?;
        std::thread::sleep(Duration::from_millis(10));
        let later = ran();
        events[1].signal(std::ptr::null_mut())?;
        let outcome = launch.join().unwrap_or_else(|_| Err(Stop::Fail("a panic in the host".into())));
        ensure!(!early? && !later?, "the kernel ran before the events that it waits for had fired");
        outcome
    })?;
    subject.same("runs after the events", &hits.words(subject)?, &[1; 100])
}

pub(super) fn launches_fail_with_their_events(subject: &Subject) -> Outcome {
    let kernel = prepared(subject, "conformance.count")?;
    let event = UserEvent::new(subject)?;
    event.signal(error(abi::ERROR_OTHER, "failed on purpose"))?;
    let hits = Array::new(subject, &[0; 10])?;
    let outcome = count(subject, &kernel, &hits, &[event.event]);
    ensure!(hits.words(subject)? == [0; 10], "the kernel ran although what it waits for had failed");
    match outcome {
        Err(Stop::Fail(text)) if text.contains("failed on purpose") => {}
        Err(Stop::Fail(text)) => {
            return Err(Stop::Fail(format!("expected the event's error, found `{text}`")));
        }
        _ => {
            return Err(Stop::Fail("expected the event's error, found success".into()));
        }
    }
    count(subject, &kernel, &hits, &[])?;
    subject.same("runs of the launch after it", &hits.words(subject)?, &[1; 10])
}

/// Copies to the device, launches and copies back, each given with the event of the one before. None is
/// waited for before all are given. In the host's memory, launches alone.
pub(super) fn work_waits_for_work(subject: &Subject) -> Outcome {
    const ROUNDS: u32 = 5;
    let kernel = prepared(subject, "conformance.count")?;
    for n in [100, 200_000] {
        let hits = Array::new(subject, &vec![0; n])?;
        let buffer = hits.buffer();
        let is_copied = buffer.space != abi::SPACE_HOST;
        let mut sources: Vec<Vec<u32>> = (0..ROUNDS).map(|round| vec![100 * round; n]).collect();
        let mut targets = vec![vec![0; n]; ROUNDS as usize];
        let mut events = Vec::new();
        let mut give = |step: usize, round: usize| {
            let waits: &[*mut abi::Event] = events.last().map_or(&[], std::slice::from_ref);
            // SAFETY: each comes after all before it, and all are waited for below.
            let event = unsafe {
                match step {
                    0 => begin_copy(subject, [host(&mut sources[round]), buffer], &flat(n), waits)?,
                    1 => begin_count(subject, &kernel, &hits, waits)?,
                    _ => begin_copy(subject, [buffer, host(&mut targets[round])], &flat(n), waits)?,
                }
            };
            // One that is over comes before all that follows.
            events.extend((!event.is_null()).then_some(event));
            Ok(())
        };
        let steps = if is_copied { 0..3 } else { 1..2 };
        let given =
            (0..ROUNDS as usize).try_for_each(|round| steps.clone().try_for_each(|step| give(step, round)));
        // From the last event on: it fires after all others.
        let ended: Vec<Outcome> = events.into_iter().rev().map(|event| finish(subject, event)).collect();
        ended.into_iter().chain([given]).collect::<Outcome>()?;
        if !is_copied {
            subject.same("launches", &hits.words(subject)?, &vec![ROUNDS; n])?;
            continue;
        }
        for (round, target) in targets.iter().enumerate() {
            subject.same("elements that were copied back", target, &vec![100 * round as u32 + 1; n])?;
        }
    }
    Ok(())
}

pub(super) fn stops(subject: &Subject) -> Outcome {
    const N: u64 = 1 << 16;
    let kernel = prepared(subject, "conformance.count")?;
    let order = order(&[N, 1, 1], &OrderTraits::default())?;
    let (extents, strides) = ([N, 1], [1, N, N]);
    let run = |asked: u32| {
        let hits = Array::new(subject, &vec![0; N as usize])?;
        let args = [scalar(&extents[0]), scalar(&extents[1]), hits.arg(&strides)];
        let stop = AtomicU32::new(asked);
        let request = Request { stop: Some(&stop), ..Request::new(&kernel, &order, &args) };
        let outcome = request.run(subject);
        Ok::<_, Stop>((outcome, hits.words(subject)?))
    };
    let (outcome, hits) = run(1)?;
    match outcome {
        Ok(()) => {
            subject.same("runs of a launch that did not stop and did not fail", &hits, &[1; N as usize])?
        }
        Err(Stop::Fail(text)) if text == Error::Cancelled.to_string() => {
            ensure!(hits.iter().all(|hit| *hit <= 1), "a launch that stopped ran some work items twice");
        }
        Err(other) => return Err(other),
    }
    let (outcome, hits) = run(0)?;
    outcome?;
    subject.same("runs of the launch after it, which is not asked to stop", &hits, &[1; N as usize])
}

pub(super) fn alike(subject: &Subject) -> Outcome {
    const N: usize = 64;
    let kernel = prepared(subject, "conformance.count")?;
    let arrays = [Array::new(subject, &[0; N])?, Array::new(subject, &[0; N])?];
    let strides = [1, N as u64, N as u64];
    let mut expected = [[0; N]; 2];
    // A number for each array and length. Most come twice in a row, and all again.
    for (round, number) in (0..3).flat_map(|round| (0..2 * N).map(move |number| (round, number))) {
        let (array, n) = (number % 2, 1 + number / 2);
        let extents = [N as u64, 1];
        let args = [scalar(&extents[0]), scalar(&extents[1]), arrays[array].arg(&strides)];
        let order = order(&[n as u64, 1, 1], &OrderTraits::default())?;
        // The host gives no such numbers.
        let like = u64::MAX - number as u64;
        for _ in 0..1 + (round + number) % 3 {
            Request { like, ..Request::new(&kernel, &order, &args) }.run(subject)?;
            expected[array][..n].iter_mut().for_each(|count| *count += 1);
        }
    }
    for (array, expected) in arrays.iter().zip(&expected) {
        subject.same("runs of launches with numbers", &array.words(subject)?, expected)?;
    }
    Ok(())
}

pub(super) fn phases(subject: &Subject) -> Outcome {
    const N: u64 = 53;
    const PHASES: u64 = 7;
    let kernel = prepared(subject, "conformance.count")?;
    let traits = OrderTraits { group: Some(Group::Dims(&[1])), ..OrderTraits::default() };
    let order = order(&[N, PHASES, 1], &traits)?;
    ensure!(order.phases() == PHASES, "the suite expects {PHASES} phases, found {}", order.phases());
    let (extents, strides) = ([N, PHASES], [1, N, N * PHASES]);
    let hits = Array::new(subject, &[0; (N * PHASES) as usize])?;
    let args = [scalar(&extents[0]), scalar(&extents[1]), hits.arg(&strides)];
    let mut expected = vec![0; (N * PHASES) as usize];
    for (begin, end) in [(2, 5), (0, 1), (6, 7), (3, 3), (0, PHASES)] {
        Request { phases: begin..end, ..Request::new(&kernel, &order, &args) }.run(subject)?;
        expected[(N * begin) as usize..(N * end) as usize].iter_mut().for_each(|hits| *hits += 1);
        let what = format!("runs after phases {begin} to {end}, the last not included");
        subject.same(&what, &hits.words(subject)?, &expected)?;
    }
    Ok(())
}

pub(super) fn next_stays(subject: &Subject) -> Outcome {
    const N: usize = 4_099;
    let kernel = prepared(subject, "conformance.shift")?;
    let traits = OrderTraits { sort: &[1], ..OrderTraits::default() };
    let order = order(&[N as u64, 3], &traits)?;
    ensure!(order.phases() == 3, "the suite expects 3 phases, found {}", order.phases());
    let strides = [1, 0];
    // The kernel's elements are of 64 bits, two words each.
    let words =
        |values: &[u64]| values.iter().flat_map(|v| [*v as u32, (v >> 32) as u32]).collect::<Vec<_>>();
    let first: Vec<u64> = (0..N as u64).map(|i| i * i + 7).collect();
    let second: Vec<u64> = (0..N).map(|i| first[(i + 1) % N] + 1).collect();
    for (flags, phase, data_after) in [(abi::ARG_FLAG_NEXT_STAYS, 1, &first), (0, 2, &second)] {
        let data = Array::new(subject, &words(&first))?;
        let next = Array::new(subject, &vec![0; 2 * N])?;
        let arg = Arg {
            kind: abi::ARG_PHASED,
            element_size: 8,
            next: next.arg(&strides).data,
            len: N as u64,
            flags: flags | abi::ARG_FLAG_COVERED,
            ..data.arg(&strides)
        };
        Request { phases: phase..phase + 1, ..Request::new(&kernel, &order, &[arg]) }.run(subject)?;
        let text = if flags == 0 { "without" } else { "with" };
        let found = data.words(subject)?;
        subject.same(&format!("words of `data` {text} the flag"), &found, &words(data_after))?;
        if flags != 0 {
            subject.same("words of `next`", &next.words(subject)?, &words(&second))?;
        }
    }
    Ok(())
}

pub(super) fn forgotten(subject: &Subject) -> Outcome {
    let kernel = prepared(subject, "conformance.count")?;
    let array = Array::new(subject, &[0; 100])?;
    let Array::Host(words) = &array else {
        return Err(Stop::Skip("the device does not use the host's memory".into()));
    };
    let forget = |first: usize, bytes: u64| {
        if let Some(forget) = subject.api().forget_host {
            // SAFETY: memory of ours, which no launch uses; it is only compared.
            unsafe { forget(subject.raw(), words.as_ptr().wrapping_add(first).cast_mut().cast(), bytes) };
        }
    };
    let mut expected = [0; 100];
    // The same places again, with other lengths and beginnings.
    for (first, n) in [(0, 100), (0, 60), (30, 70), (0, 100), (30, 1)] {
        let strides = [1, n as u64, n as u64];
        let extents = [n as u64, 1];
        let arg = Arg {
            data: words.as_ptr().wrapping_add(first).cast_mut().cast(),
            len: n as u64,
            ..array.arg(&strides)
        };
        let args = [scalar(&extents[0]), scalar(&extents[1]), arg];
        let order = order(&[n as u64, 1, 1], &OrderTraits::default())?;
        Request::new(&kernel, &order, &args).run(subject)?;
        expected[first..first + n].iter_mut().for_each(|count| *count += 1);
        let found: Vec<u32> = words.iter().map(|w| w.load(SeqCst)).collect();
        subject.same("runs of launches whose arrays were forgotten", &found, &expected)?;
        forget(first, 4 * n as u64);
        // The device never saw this.
        forget(99, 1);
    }
    Ok(())
}
