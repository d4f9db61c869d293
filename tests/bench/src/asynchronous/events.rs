//! A chain of launches that goes back and forth between two OpenCL devices, beside the same commands by hand.
//!
//! By hand, launches of devices of one platform have one context, and each waits for the event of the one
//! before. Two platforms have two contexts, whose events do not know each other: each launch waits for a user
//! event, which a callback of the launch before sets.

use crate::child;
use crate::dispatch::per_call;
use crate::opencl::Touch;
use crate::stats::{REPEATS, Row, pair};
use anyhow::{Context as _, Result, ensure};
use flash::{FlashMemory, get_runtime};
use flash_core::descriptor::{Devices, Implementation};
use flash_core::devices::{DeviceHandle, list};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::Device;
use opencl3::event::{
    CL_COMPLETE, Event, cl_event, create_user_event, set_event_callback, set_user_event_status,
};
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE};
use opencl3::program::Program;
use opencl3::types::cl_device_id;
use std::ffi::c_void;
use std::ptr::{null, null_mut, with_exposed_provenance_mut};
use std::time::Duration;

/// Launches of a chain.
const CHAIN: usize = 1000;

/// The settings that make PoCL have two devices, by its version.
const TWO_OF_POCL: [&str; 2] = ["cpu cpu", "pthread pthread"];

/// All rows; none where there are no two OpenCL devices.
pub fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let name = |devices: &str, by: &str| {
        format!("chain of 1,000, back and forth between {devices}, per launch, against {by}")
    };
    let has_two = |devices: &str| {
        child::figure("async devices", &[("POCL_DEVICES", devices)]).is_ok_and(|devices| devices == 2.0)
    };
    if let Some(devices) = TWO_OF_POCL.into_iter().find(|devices| has_two(devices)) {
        rows.push(child::pair_row(
            &name("two devices of PoCL", "events of one context"),
            "ns",
            "async events OPENCL:0 OPENCL:1",
            &[("POCL_DEVICES", devices)],
        )?);
    }
    let reports = list();
    let devices: Vec<&str> = reports
        .iter()
        .filter(|report| report.key.as_deref() == Some("OPENCL"))
        .flat_map(|report| report.devices.iter().map(|device| device.id.as_str()))
        .collect();
    if let [first, second, ..] = devices[..] {
        rows.push(child::pair_row(
            &name(&format!("{first} and {second}"), "callbacks that set user events"),
            "ns",
            &format!("async events {first} {second}"),
            &[],
        )?);
    }
    if rows.is_empty() {
        eprintln!("no two OpenCL devices: `cargo xtask setup` installs some");
    }
    Ok(rows)
}

/// Measures the row of a child. False if it is not one of these.
pub fn measure(what: &str) -> Result<bool> {
    let words: Vec<&str> = what.split(' ').collect();
    match words[..] {
        ["async", "devices"] => {
            let reports = list();
            let pocl = |device: &&DeviceHandle| platform(device).is_ok_and(|name| name.contains("Portable"));
            let devices = reports.iter().filter(|report| report.key.as_deref() == Some("OPENCL"));
            let ids = devices.flat_map(|report| &report.devices).map(|device| device.id.clone());
            let runtimes = ids.map(|id| get_runtime(&id)).collect::<Result<Vec<_>, _>>()?;
            println!("{}", runtimes.iter().filter(|rt| pocl(&rt.devices()[0])).count());
        }
        ["async", "events", first, second] => {
            println!("{}", serde_json::to_string(&chain([first, second])?)?)
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn id(device: &DeviceHandle) -> Result<cl_device_id> {
    Ok(with_exposed_provenance_mut(device.native_handle("device")? as usize))
}

/// The name of a device's platform.
fn platform(device: &DeviceHandle) -> Result<String> {
    let platform = Device::new(id(device)?).platform()?;
    Ok(opencl3::platform::Platform::new(platform).name()?)
}

fn chain(ids: [&str; 2]) -> Result<Row> {
    let rt = get_runtime(&ids.join(","))?;
    ensure!(rt.devices().len() == 2, "expected two devices, found {}", rt.devices().len());
    let [x, y, z]: &[FlashMemory<f32>; 3] = &std::array::from_fn(|_| FlashMemory::zeroed(1));
    let mut chain = rt.pipeline();
    for launch in 0..CHAIN {
        let options = (Devices::key(ids[launch % 2]), Implementation::named("plain"));
        chain = chain.submit(Touch::of(1.0, x, y, z)).options(options).defer([1usize]);
    }
    chain.exec()?;
    let hand = ByHand::new([rt.devices()[0], rt.devices()[1]])?;
    let turn = |run: &dyn Fn()| per_call(2, run) / CHAIN as f64;
    Ok(pair(
        "",
        "",
        REPEATS,
        || turn(&|| chain.exec().expect("a chain runs")),
        Some(&mut || turn(&|| hand.chain().expect("a chain runs"))),
        Duration::ZERO,
    ))
}

/// Two devices, each with a queue and a kernel whose parameters are set.
struct ByHand {
    sides: [Side; 2],
    one_context: bool,
}

struct Side {
    queue: CommandQueue,
    kernel: Kernel,
    context: std::sync::Arc<Context>,
    _buffers: std::sync::Arc<[Buffer<f32>; 3]>,
}

impl ByHand {
    fn new(devices: [&DeviceHandle; 2]) -> Result<ByHand> {
        let one_context = platform(devices[0])? == platform(devices[1])?;
        let ids = [id(devices[0])?, id(devices[1])?];
        let of = |ids: &[cl_device_id]| -> Result<_> {
            let context = Context::from_devices(ids, &[], None, null_mut())?;
            // SAFETY: a live context, and no memory of the host's.
            let buffer = || unsafe { Buffer::<f32>::create(&context, CL_MEM_READ_WRITE, 1, null_mut()) };
            let buffers = [buffer()?, buffer()?, buffer()?];
            Ok((std::sync::Arc::new(context), std::sync::Arc::new(buffers)))
        };
        let side = |(context, buffers): &(std::sync::Arc<Context>, std::sync::Arc<[Buffer<f32>; 3]>), id| {
            let source = include_str!("../empty.cl");
            let program =
                Program::create_and_build_from_source(context, source, "").map_err(anyhow::Error::msg)?;
            let kernel = Kernel::create(&program, "touch")?;
            // SAFETY: the kernel's four parameters, in order; the buffers live as long as the side. A live
            // context with that device.
            let queue = unsafe {
                kernel.set_arg(0, &1.0f32)?;
                for (parameter, buffer) in buffers.iter().enumerate() {
                    kernel.set_arg(1 + parameter as u32, buffer)?;
                }
                CommandQueue::create_with_properties(context, id, 0, 0)?
            };
            anyhow::Ok(Side { queue, kernel, context: context.clone(), _buffers: buffers.clone() })
        };
        let sides = if one_context {
            let both = of(&ids)?;
            [side(&both, ids[0])?, side(&both, ids[1])?]
        } else {
            [side(&of(&ids[..1])?, ids[0])?, side(&of(&ids[1..])?, ids[1])?]
        };
        Ok(ByHand { sides, one_context })
    }

    fn chain(&self) -> Result<()> {
        // The data of the callbacks stay until all launches have ended.
        let events = if self.one_context { self.by_events()? } else { self.by_callbacks()? };
        self.sides.iter().try_for_each(|side| side.queue.flush())?;
        self.sides.iter().try_for_each(|side| side.queue.finish())?;
        events.last().context("a chain has launches")?.wait()?;
        Ok(())
    }

    fn by_events(&self) -> Result<Vec<Event>> {
        let mut events: Vec<Event> = Vec::with_capacity(CHAIN);
        for launch in 0..CHAIN {
            let before = events.last().map(Event::get);
            events.push(self.sides[launch % 2].enqueue(before.as_slice())?);
        }
        Ok(events)
    }

    fn by_callbacks(&self) -> Result<Vec<Event>> {
        let mut events = vec![self.sides[0].enqueue(&[])?];
        for launch in 1..CHAIN {
            let side = &self.sides[launch % 2];
            let may_begin = create_user_event(side.context.get()).map_err(code)?;
            events.push(side.enqueue(&[may_begin])?);
            // The callback gives it back.
            let user_data = may_begin.cast::<c_void>();
            set_event_callback(events[launch - 1].get(), CL_COMPLETE, begin, user_data).map_err(code)?;
        }
        Ok(events)
    }
}

/// The callback that lets the launch begin which waits for a user event.
extern "C" fn begin(_: cl_event, _: i32, may_begin: *mut c_void) {
    // This event was kept for this callback.
    let may_begin = Event::new(may_begin);
    // An error would be a launch that never begins, and there is no caller to report it to.
    let _ = set_user_event_status(may_begin.get(), CL_COMPLETE);
}

fn code(code: i32) -> anyhow::Error {
    anyhow::anyhow!("OpenCL's error {code}")
}

impl Side {
    /// A launch after an event, or after nothing.
    fn enqueue(&self, after: &[cl_event]) -> Result<Event> {
        let one = [1usize];
        let (global, local) = (one.as_ptr(), one.as_ptr());
        // SAFETY: the parameters are set, and their buffers live as long as the side.
        let event =
            unsafe { self.queue.enqueue_nd_range_kernel(self.kernel.get(), 1, null(), global, local, after) };
        Ok(event?)
    }
}
