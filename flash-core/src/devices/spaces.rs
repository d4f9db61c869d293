//! Checks of the memories of a backend's devices, made once, when the devices are found.
//!
//! The runtime takes a device's memory space for a place of its own, allocates there, copies to and from it,
//! and waits for copies in flight. It takes two spaces of one id for one memory. A backend for which this
//! does not hold would give wrong results, so it is unavailable, with the reason.

use super::{DeviceHandle, take_error};
use crate::error::Error;
use flash_types::abi::{self, BackendApi, Buffer, CopyBox, MemorySpace, SPACE_HOST};
use std::mem::offset_of;

/// The memory spaces that a device lists, in this host's form.
///
/// # Errors
/// What is wrong with the device's list.
pub(super) fn listed(device: &DeviceHandle) -> Result<Vec<MemorySpace>, String> {
    let id = device.id();
    let list = device.api.spaces.ok_or_else(|| lacks(id, "spaces"))?;
    let (mut at, mut count): (*const MemorySpace, usize) = (std::ptr::null(), 0);
    // SAFETY: a device of this vtable, and variables of ours.
    unsafe { take_error(list(device.raw, &mut at, &mut count)) }.map_err(|e| format!("{id}: {e}"))?;
    if count > 0 && at.is_null() {
        return Err(format!("{id}: `spaces` gave a list of {count} that is NULL"));
    }
    let mut spaces = Vec::new();
    for i in 0..count {
        // SAFETY: the list has that many structs, each of its own size, and lives as long as the device.
        let size = unsafe { (*at).struct_size as usize };
        let least = offset_of!(MemorySpace, alignment);
        if size < least {
            return Err(format!(
                "{id}: memory space {i} says that its struct has {size} bytes: at least {least} are needed"
            ));
        }
        // SAFETY: all zeros is a value of it.
        let mut space: MemorySpace = unsafe { std::mem::zeroed() };
        // SAFETY: as above: the smaller of both sizes. A field that the plugin does not know stays 0.
        unsafe {
            let known = size.min(size_of::<MemorySpace>());
            std::ptr::copy_nonoverlapping(at.cast::<u8>(), (&raw mut space).cast::<u8>(), known);
            at = at.byte_add(size);
        }
        space.struct_size = size_of::<MemorySpace>() as u32;
        spaces.push(space);
    }
    Ok(spaces)
}

/// The memory spaces of a device that are not the host's.
///
/// # Errors
/// What is wrong with the device's list.
fn own_spaces(device: &DeviceHandle) -> Result<Vec<u32>, String> {
    let listed = listed(device)?.into_iter().map(|space| space.id);
    let own: Vec<u32> = listed.filter(|id| *id != SPACE_HOST).collect();
    let id = device.id();
    match own.is_empty() {
        false => Ok(own),
        true => Err(format!(
            "{id} does not use the host's memory (it lacks the flag FLASH_DEVICE_HOST_MEMORY) and lists no memory space \
             but the host's, which has id 0: give its own memory another id"
        )),
    }
}

fn lacks(id: &str, slot: &str) -> String {
    format!(
        "{id} has a memory of its own, and its backend lacks the slot `{slot}`, without which it cannot be used"
    )
}

/// Checks the devices of one backend.
///
/// # Errors
/// What is wrong, with the devices' names, and what to do.
pub(super) fn check(devices: &[&'static DeviceHandle]) -> Result<(), String> {
    let mut all: Vec<(u32, &DeviceHandle)> = Vec::new();
    for device in devices.iter().filter(|device| !device.info().host_memory) {
        let BackendApi { alloc, copy_box, event_wait, .. } = device.api;
        let slots = [
            ("alloc", alloc.is_some()),
            ("copy_box", copy_box.is_some()),
            ("event_wait", event_wait.is_some()),
        ];
        if let Some((slot, _)) = slots.iter().find(|(_, there)| !there) {
            return Err(lacks(device.id(), slot));
        }
        for space in own_spaces(device)? {
            if let Some((_, first)) = all.iter().find(|(other, _)| *other == space) {
                share(first, device, space)?;
            }
            all.push((space, device));
        }
    }
    Ok(())
}

/// The bytes that are written on one device and read on the other.
const PATTERN: [u8; 64] = {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        bytes[i] = (i as u8).wrapping_mul(37) ^ 0xA5;
        i += 1;
    }
    bytes
};

/// Checks that a memory space in the lists of two devices is one memory: what one of them wrote there, the
/// other reads.
///
/// # Errors
/// It is not.
fn share(first: &DeviceHandle, second: &DeviceHandle, space: u32) -> Result<(), String> {
    let differ = |why: String| {
        let (a, b) = (first.id(), second.id());
        format!(
            "{a} and {b} both list memory space {space}, which means that they share it, but {why}: give each memory an \
             id of its own, unique in the backend"
        )
    };
    let host =
        |bytes: &mut [u8]| Buffer { space: SPACE_HOST, reserved: 0, handle: bytes.as_mut_ptr() as u64 };
    let buffer = alloc(first, space).map_err(|e| format!("{}: memory space {space}: {e}", first.id()))?;
    let (mut from, mut to) = (PATTERN, [0; 64]);
    // SAFETY: buffers of 64 bytes, which nothing else has, and which stay until the copies are complete.
    let outcome = unsafe {
        copy(first, host(&mut from), buffer).and_then(|()| copy(second, buffer, host(&mut to))).map_err(|e| {
            differ(format!("{} cannot copy from there what {} put there ({e})", second.id(), first.id()))
        })
    };
    if let Some(free) = first.api.free {
        // SAFETY: `alloc` of this device gave it, and nothing has it any more.
        let _ = unsafe { take_error(free(first.raw, buffer)) };
    }
    outcome?;
    match to == PATTERN {
        true => Ok(()),
        false => Err(differ(format!("{} does not read there what {} wrote", second.id(), first.id()))),
    }
}

fn alloc(device: &DeviceHandle, space: u32) -> Result<Buffer, Error> {
    let mut buffer = Buffer { space, reserved: 0, handle: 0 };
    match device.api.alloc {
        // SAFETY: a device of this vtable, one of its spaces, and a variable of ours.
        Some(alloc) => unsafe { take_error(alloc(device.raw, space, 64, &mut buffer)) }.map(|()| buffer),
        None => Ok(buffer),
    }
}

/// Copies 64 bytes and waits for them.
///
/// # Safety
/// Both buffers have them, and nothing else touches these.
unsafe fn copy(device: &DeviceHandle, from: Buffer, to: Buffer) -> Result<(), Error> {
    let (Some(copy), Some(wait)) = (device.api.copy_box, device.api.event_wait) else { return Ok(()) };
    let shape = CopyBox {
        extent: [64, 1, 1],
        source_offset: 0,
        source_stride: [64; 2],
        destination_offset: 0,
        destination_stride: [64; 2],
    };
    let mut event: *mut abi::Event = std::ptr::null_mut();
    // SAFETY: a device of this vtable, the caller's buffers, and an event that is given back once.
    unsafe {
        let waits = std::ptr::null();
        take_error(copy(device.raw, from, to, &shape, waits, 0, &mut event))?;
        if event.is_null() {
            return Ok(());
        }
        let outcome = take_error(wait(event));
        if let Some(release) = device.api.event_release {
            release(event);
        }
        outcome
    }
}
