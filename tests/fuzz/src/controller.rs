//! A controller whose agent answers anything: no frame makes it panic, hang, or touch what is not its own.

use crate::frames;
use crate::scripted::{Script, Scripted, lock};
use flash_backend::Device;
use flash_backend::abi::{self, Buffer, CopyBox, Implementation, SPACE_HOST, Str};
use flash_backend_ranks::in_process::{Controller, RankDevice};
use flash_net::Peer;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes of the arrays that are copied.
const BYTES: usize = 192;
/// Of one that is several messages long.
const LONG_BYTES: usize = 5 << 19;

struct Fuzzed {
    controller: Controller,
    script: Arc<Mutex<Script>>,
}

/// Asks an agent for what a host asks for, and takes the frames of an input as its answers.
///
/// # Panics
/// If the controller does.
pub fn fuzz(input: &[u8]) {
    static FUZZED: OnceLock<[Mutex<Fuzzed>; 2]> = OnceLock::new();
    let make = |is_apart| {
        let (transport, script) = Scripted::new(Peer(0), is_apart);
        let controller = Controller::new(Box::new(transport), Duration::from_secs(3600));
        Mutex::new(Fuzzed { controller: controller.expect("a controller"), script })
    };
    // One that shares memory with its agent, and one that does not.
    for fuzzed in FUZZED.get_or_init(|| [false, true].map(make)) {
        let fuzzed = fuzzed.lock().unwrap_or_else(PoisonError::into_inner);
        lock(&fuzzed.script).begin(frames(input));
        let Ok(devices) = fuzzed.controller.devices(Peer(1)) else { continue };
        devices.iter().take(2).for_each(use_all);
    }
}

/// An implementation of no kernel, as text for a device.
fn implementation() -> &'static Implementation {
    static MADE: OnceLock<&'static Implementation> = OnceLock::new();
    MADE.get_or_init(|| {
        let text = Str::new("fuzzed");
        // A text that is longer than a frame.
        let payload: &'static [u8] = vec![b' '; 5000].leak();
        Box::leak(Box::new(Implementation {
            struct_size: size_of::<Implementation>() as u32,
            door: abi::DOOR_ITEM,
            kind: abi::KIND_INT_SRC,
            priority: 0,
            kernel: text,
            name: text,
            target: text,
            descriptor: text,
            cpu_features: text,
            attributes: std::ptr::null(),
            attribute_count: 0,
            share: None,
            span: None,
            payload: payload.as_ptr(),
            payload_len: payload.len(),
            definition: text,
        }))
    })
}

/// Memory of the host, as a buffer.
pub fn host_buffer(memory: &mut [u8]) -> Buffer {
    Buffer { space: SPACE_HOST, reserved: 0, handle: memory.as_mut_ptr().expose_provenance() as u64 }
}

/// The box of all bytes of two buffers of this length.
pub fn whole(bytes: usize) -> CopyBox {
    CopyBox {
        extent: [bytes as u64, 1, 1],
        source_offset: 0,
        source_stride: [0; 2],
        destination_offset: 0,
        destination_stride: [0; 2],
    }
}

/// All that a host asks a device for, but launches, whose answers are those of copies.
fn use_all(device: &RankDevice) {
    let _ = (device.info(), device.query("name"), device.query("rank"), device.has_feature("avx2"));
    let _ = device.prepare(implementation()).map(drop);
    device.preload(implementation());
    let mut there = vec![0u8; BYTES];
    let host = host_buffer(&mut there);
    let shape = CopyBox {
        extent: [40, 2, 1],
        source_offset: 8,
        source_stride: [48, 0],
        destination_offset: 16,
        destination_stride: [64, 0],
    };
    for space in device.spaces().iter().take(2) {
        let _ = device.can_copy(SPACE_HOST, space.id);
        let Ok(buffer) = device.alloc(space.id, BYTES as u64) else { continue };
        // SAFETY: both have that many bytes, the boxes lie in them, and nothing else uses them.
        unsafe {
            let _ = device.clear(buffer, BYTES as u64);
            let _ = device.copy_box(host, buffer, &shape);
            let _ = device.copy_box(buffer, host, &shape);
        }
        let _ = device.free(buffer);
        let Ok(buffer) = device.alloc(space.id, LONG_BYTES as u64) else { continue };
        let mut there = vec![0u8; LONG_BYTES];
        let (host, shape) = (host_buffer(&mut there), whole(LONG_BYTES));
        // SAFETY: as above.
        let _ = unsafe { (device.copy_box(buffer, host, &shape), device.copy_box(host, buffer, &shape)) };
        let _ = device.free(buffer);
    }
}
