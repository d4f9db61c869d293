//! What a launch on an OpenCL device costs, beside the same commands given by hand, and what first uses do.

use crate::child;
use crate::dispatch::per_call;
use crate::peers::Peers;
use crate::stats::{REPEATS, Row, pair};
use anyhow::{Context as _, Result};
use flash::kernel::views::{Item, Read, ReadWrite};
use flash::{Context, FlashMemory, KernelDefinition, get_runtime};
use flash_backend_opencl_fpga as _;
use flash_core::descriptor::Implementation;
use flash_core::devices::{DeviceHandle, list};
use opencl3::command_queue::CommandQueue;
use opencl3::device::Device;
use opencl3::error_codes::ClError;
use opencl3::kernel::{ExecuteKernel, Kernel};
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE};
use opencl3::program::Program;
use opencl3::types::{CL_FALSE, cl_device_id};
use std::mem::ManuallyDrop;
use std::ptr::{null, null_mut, with_exposed_provenance_mut};
use std::time::{Duration, Instant};

/// Submissions of a chain.
const CHAIN: usize = 1000;
/// Chains of a turn: the first finds the driver's memory as the other side has left it.
const CHAINS: usize = 5;

/// Does nothing, with one scalar and three memories.
#[derive(KernelDefinition)]
#[kernel(name = "bench.touch", dims(i))]
#[implementations(
    opencl = "empty.cl", name = "plain";
    opencl = "empty.cl", name = "cooperating", entry = "touch_args", cooperating;
    cuda = "empty.cu", cooperating
)]
pub struct Touch<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
    z: Item<'a, ReadWrite<f32>>,
}

/// The same by hand, in FLASH's own queue.
struct ByHand {
    queue: ManuallyDrop<CommandQueue>,
    kernel: Kernel,
    buffers: [Buffer<f32>; 3],
}

impl ByHand {
    /// With buffers of `len` elements.
    fn new(device: &DeviceHandle, len: usize) -> Result<ByHand> {
        let handle =
            |kind| device.native_handle(kind).map(|handle| with_exposed_provenance_mut(handle as usize));
        let id: cl_device_id = handle("device")?;
        let dimensions = Device::new(id).max_work_item_dimensions()?;
        // They stay FLASH's, and are not released here.
        let context = ManuallyDrop::new(opencl3::context::Context::new(handle("context")?, &[id]));
        let queue = ManuallyDrop::new(CommandQueue::new(handle("queue")?, dimensions));
        let source = include_str!("empty.cl");
        let program =
            Program::create_and_build_from_source(&context, source, "").map_err(anyhow::Error::msg)?;
        let kernel = Kernel::create(&program, "touch")?;
        // SAFETY: a live context, and no memory of the host's.
        let buffer = || unsafe { Buffer::<f32>::create(&context, CL_MEM_READ_WRITE, len, null_mut()) };
        let buffers = [buffer()?, buffer()?, buffer()?];
        Ok(ByHand { queue, kernel, buffers })
    }

    /// As one writes it with opencl3: the kernel's parameters, and its range.
    fn enqueue(&self) {
        let [x, y, z] = &self.buffers;
        // SAFETY: the kernel's four parameters, in order; the buffers live as long as the queue.
        let event = unsafe {
            let mut run = ExecuteKernel::new(&self.kernel);
            run.set_arg(&1.0f32).set_arg(x).set_arg(y).set_arg(z);
            run.set_global_work_size(1).set_local_work_size(1).enqueue_nd_range(&self.queue)
        };
        event.expect("an empty kernel runs");
    }

    /// The enqueue alone, with the parameters as they were set before.
    fn enqueue_again(&self) {
        let one = [1usize];
        // SAFETY: the parameters are set, and the buffers live as long as the queue.
        let event = unsafe {
            let (global, local) = (one.as_ptr(), one.as_ptr());
            self.queue.enqueue_nd_range_kernel(self.kernel.get(), 1, null(), global, local, &[])
        };
        event.expect("an empty kernel runs");
    }

    /// Copies three arrays to the device, runs the kernel, and copies two back: in one queue, and waits once.
    fn copied(&mut self, arrays: &mut [Vec<f32>; 3]) -> Result<(), ClError> {
        let (queue, kernel) = (&*self.queue, self.kernel.get());
        for (buffer, array) in self.buffers.iter_mut().zip(&*arrays) {
            // SAFETY: the buffer has as many elements, and the array lives until the wait.
            unsafe { queue.enqueue_write_buffer(buffer, CL_FALSE, 0, array, &[])? };
        }
        let len = [arrays[0].len()];
        // SAFETY: the parameters were set, and the buffers live as long as the queue.
        unsafe { queue.enqueue_nd_range_kernel(kernel, 1, null(), len.as_ptr(), null(), &[])? };
        for (buffer, array) in self.buffers.iter().zip(arrays).skip(1) {
            // SAFETY: as above; nothing else uses the array before the wait.
            unsafe { queue.enqueue_read_buffer(buffer, CL_FALSE, 0, array, &[])? };
        }
        queue.finish()
    }

    fn finish(&self) {
        self.queue.finish().expect("it ends");
    }
}

/// All rows; none where there is no OpenCL device.
pub fn rows(_: &Peers) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let reports = list();
    let ours = |key: &Option<String>| matches!(key.as_deref(), Some("OPENCL" | "INTEL_FPGA"));
    if reports.iter().any(|r| ours(&r.key) && !r.devices.is_empty()) {
        rows.push(listing()?);
    }
    for device in reports.iter().filter(|r| ours(&r.key)).flat_map(|r| &r.devices) {
        for kernel in ["plain", "cooperating"] {
            rows.extend(launches(&device.id, kernel)?);
        }
        for len in [1 << 10, 1 << 14, 1 << 18] {
            rows.push(copied(&device.id, len)?);
        }
        rows.extend(first_uses(&device.id)?);
    }
    if rows.is_empty() {
        eprintln!("no OpenCL device: `cargo xtask setup` installs three, `cargo xtask env` shows them");
    }
    Ok(rows)
}

/// Of one implementation: `plain`, which has the parameters of the kernel by hand, or `cooperating`, which
/// has those of `FLASH_ARGS`, too.
fn launches(id: &str, kernel: &str) -> Result<Vec<Row>> {
    let rt = get_runtime(id)?.options(Implementation::named(kernel));
    let hand = ByHand::new(rt.devices()[0], 1)?;
    let [x, y, z]: &[FlashMemory<f32>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed(1));
    let warm = |launches| {
        per_call(launches, || {
            rt.submit(Touch::of(1.0, x, y, z)).exec([1usize]).expect("an empty kernel runs")
        })
    };
    let by_hand = |launches| {
        per_call(launches, || {
            hand.enqueue();
            hand.finish();
        })
    };
    let mut rows = vec![pair(
        format!("warm submit+exec, empty kernel, {kernel}, {id}, against enqueue and finish in opencl3"),
        "ns",
        REPEATS,
        || warm(200),
        Some(&mut || by_hand(200)),
        Duration::ZERO,
    )];
    rows.push(pair(
        format!(
            "1,000 exec_async, each after the last, and a wait, {kernel}, {id}, each, against enqueues in opencl3"
        ),
        "ns",
        REPEATS,
        || {
            let start = || rt.submit(Touch::of(1.0, x.clone(), y.clone(), z.clone())).exec_async([1usize]);
            let all = || {
                let mut last = start();
                (1..CHAIN).for_each(|_| last = start());
                last.wait().expect("it runs");
            };
            per_call(1, all) / CHAIN as f64
        },
        Some(&mut || {
            let all = || {
                (0..CHAIN).for_each(|_| hand.enqueue());
                hand.finish();
            };
            per_call(1, all) / CHAIN as f64
        }),
        Duration::ZERO,
    ));
    let mut chain = rt.pipeline();
    for _ in 0..CHAIN {
        chain = chain.submit(Touch::of(1.0, x, y, z)).defer([1usize]);
    }
    for (again, what) in [
        (false, "1,000 enqueues and a finish in opencl3"),
        (true, "1,000 enqueues of parameters set once, and a finish"),
    ] {
        let enqueue = if again { ByHand::enqueue_again } else { ByHand::enqueue };
        rows.push(pair(
            format!("chain of 1,000, {kernel}, per kernel, {id}, against {what}"),
            "ns",
            REPEATS,
            || per_call(CHAINS, || chain.exec().expect("it runs")) / CHAIN as f64,
            Some(&mut || {
                let all = || {
                    (0..CHAIN).for_each(|_| enqueue(&hand));
                    hand.finish();
                };
                per_call(CHAINS, all) / CHAIN as f64
            }),
            Duration::ZERO,
        ));
    }
    Ok(rows)
}

/// A launch whose slices are copied: on a device that gets a memory of its own for it.
fn copied(id: &str, len: usize) -> Result<Row> {
    let rt = Context::builder().set("opencl.copy", true).build()?.runtime(id)?;
    let rt = rt.options(Implementation::named("plain"));
    let mut hand = ByHand::new(rt.devices()[0], len)?;
    hand.enqueue();
    hand.finish();
    let mut mine: [Vec<f32>; 3] = std::array::from_fn(|_| vec![1.0; len]);
    let mut theirs = mine.clone();
    Ok(pair(
        format!(
            "three slices of {len} f32 copied to {id}, an empty kernel, two copied back, against the same commands and a finish in opencl3"
        ),
        "us",
        REPEATS,
        || {
            let [x, y, z] = &mut mine;
            per_call(50, || {
                let touch = Touch::of(1.0, &x[..], &mut y[..], &mut z[..]);
                rt.submit(touch).exec([len]).expect("an empty kernel runs")
            }) / 1e3
        },
        Some(&mut || per_call(50, || hand.copied(&mut theirs).expect("an empty kernel runs")) / 1e3),
        Duration::ZERO,
    ))
}

/// Processes that measure a first use.
const PROCESSES: usize = 10;

/// What `flash list` takes, from the start of its process to its end, but for the printing.
fn listing() -> Result<Row> {
    let mut turns = Vec::new();
    for _ in 0..PROCESSES {
        let start = Instant::now();
        child::figure("opencl list", &[])?;
        turns.push((start.elapsed().as_nanos() as f64 / 1e6, None));
    }
    Ok(Row::from_turns("first use: a process that lists all devices, as `flash list` does", "ms", &turns))
}

/// What first uses of a device cost, each in processes of their own.
fn first_uses(id: &str) -> Result<Vec<Row>> {
    let cache = std::env::temp_dir().join(format!("flash-bench-{}", std::process::id()));
    let environment = [("FLASH_CACHE_DIR", cache.to_str().context("a path in UTF-8")?)];
    let mut rows = Vec::new();
    for (what, name) in [
        ("list", "looking for devices"),
        ("cold", "a kernel's program from source"),
        ("cached", "a kernel's program from the cache"),
        ("first", "a kernel's first launch, its program there"),
    ] {
        let mut turns = Vec::new();
        for _ in 0..PROCESSES {
            if what == "cold" {
                let _ = std::fs::remove_dir_all(&cache);
            }
            turns.push((child::figure(&format!("opencl {what} {id}"), &environment)?, None));
        }
        rows.push(Row::from_turns(format!("first use, {id}: {name}"), "ms", &turns));
    }
    let _ = std::fs::remove_dir_all(&cache);
    Ok(rows)
}

/// What a child measures; false if it is not one of these.
pub fn measure(what: &str) -> Result<bool> {
    let words: Vec<&str> = what.split(' ').collect();
    if words[..] == ["opencl", "list"] {
        println!("{}", list().len());
        return Ok(true);
    }
    let ["opencl", what, id] = words[..] else { return Ok(false) };
    let milliseconds = |start: Instant| start.elapsed().as_nanos() as f64 / 1e6;
    let start = Instant::now();
    let rt = get_runtime(id)?;
    let listed = milliseconds(start);
    if what == "list" {
        println!("{listed}");
        return Ok(true);
    }
    let start = Instant::now();
    rt.preload::<Touch<'static>>()?;
    let prepared = milliseconds(start);
    let [x, y, z]: &[FlashMemory<f32>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed(1));
    let start = Instant::now();
    rt.submit(Touch::of(1.0, x, y, z)).exec([1usize])?;
    println!("{}", if what == "first" { milliseconds(start) } else { prepared });
    Ok(true)
}
