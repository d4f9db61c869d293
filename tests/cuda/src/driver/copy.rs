//! Copies and fills.

use super::context::{current, of_handle};
use super::stream::{stream_of, submit};
use super::{In, driver};
use crate::machine::stream::Stream;
use crate::machine::work::{Copy, Set, Side, Work};
use crate::machine::{Answer, space};
use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUcontext, CUdeviceptr, CUmemorytype, CUresult,
    CUstream,
};
use std::ffi::c_void;
use std::sync::Arc;

/// Puts a copy into a stream. Unpinned memory is read, or written, before the call returns.
fn copy(mut work: Copy, stream: &Arc<Stream>) -> Answer {
    work.to.check(work.extent)?;
    work.from.check(work.extent)?;
    let waits = work.to.is_pageable() && !stream.is_capturing();
    if work.from.is_pageable() && !stream.is_capturing() {
        work.stage()?;
    }
    submit(stream, Work::Copy(work))?;
    if waits { stream.synchronize() } else { Ok(()) }
}

/// A copy in the default stream, completed on return.
fn copy_now(work: Copy) -> Answer {
    let stream = current()?.default_stream();
    copy(work, &stream)?;
    stream.synchronize()
}

fn is_device(addresses: &[u64]) -> Answer {
    let all = addresses.iter().all(|address| space::find(*address).is_some());
    if all { Ok(()) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
}

fn fill(to: u64, value: u32, element: u32, count: usize, stream: &Arc<Stream>) -> Answer {
    let bytes = count as u64 * u64::from(element);
    let to = Side { address: to, ..Side::default() };
    if !to.address.is_multiple_of(u64::from(element)) || (count > 0 && to.is_pageable()) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    to.check([bytes, 1, 1])?;
    submit(stream, Work::Set(Set { to, value, element, extent: [bytes, 1] }))
}

/// One side of a copy, as in `cuda.h`.
struct Place {
    kind: CUmemorytype,
    host: u64,
    device: u64,
    pitch: usize,
    height: usize,
    at: [usize; 3],
}

impl Place {
    fn side(&self, width: usize) -> Answer<Side> {
        let start = match self.kind {
            CUmemorytype::CU_MEMORYTYPE_HOST => self.host,
            CUmemorytype::CU_MEMORYTYPE_DEVICE => {
                is_device(&[self.device])?;
                self.device
            }
            CUmemorytype::CU_MEMORYTYPE_UNIFIED => self.device,
            CUmemorytype::CU_MEMORYTYPE_ARRAY => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        };
        let [x, y, z] = self.at;
        if self.pitch != 0 && self.pitch < x + width {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let pitch = if self.pitch == 0 { x + width } else { self.pitch };
        let plane = pitch * self.height;
        let address = start + (z * plane + y * pitch + x) as u64;
        Ok(Side { address, pitch: pitch as u64, plane: plane as u64 })
    }
}

/// A copy of a box.
pub(super) fn of_box(copy: &CUDA_MEMCPY3D) -> Answer<Copy> {
    let [width, height, depth] = [copy.WidthInBytes, copy.Height, copy.Depth];
    let from = Place {
        kind: copy.srcMemoryType,
        host: copy.srcHost.addr() as u64,
        device: copy.srcDevice,
        pitch: copy.srcPitch,
        height: copy.srcHeight,
        at: [copy.srcXInBytes, copy.srcY, copy.srcZ],
    };
    let to = Place {
        kind: copy.dstMemoryType,
        host: copy.dstHost.addr() as u64,
        device: copy.dstDevice,
        pitch: copy.dstPitch,
        height: copy.dstHeight,
        at: [copy.dstXInBytes, copy.dstY, copy.dstZ],
    };
    for place in [&from, &to] {
        if depth > 1 && place.height != 0 && place.height < place.at[1] + height {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
    }
    let side = |place: Place| {
        let height = if place.height == 0 { place.at[1] + height } else { place.height };
        Place { height, ..place }.side(width)
    };
    let extent = [width as u64, height as u64, depth as u64];
    Ok(Copy { to: side(to)?, from: side(from)?, extent, staged: None })
}

fn of_rectangle(copy: &CUDA_MEMCPY2D) -> Answer<Copy> {
    of_box(&CUDA_MEMCPY3D {
        srcXInBytes: copy.srcXInBytes,
        srcY: copy.srcY,
        srcMemoryType: copy.srcMemoryType,
        srcHost: copy.srcHost,
        srcDevice: copy.srcDevice,
        srcPitch: copy.srcPitch,
        dstXInBytes: copy.dstXInBytes,
        dstY: copy.dstY,
        dstMemoryType: copy.dstMemoryType,
        dstHost: copy.dstHost,
        dstDevice: copy.dstDevice,
        dstPitch: copy.dstPitch,
        WidthInBytes: copy.WidthInBytes,
        Height: copy.Height,
        Depth: 1,
        ..empty_box()
    })
}

pub(super) fn empty_box() -> CUDA_MEMCPY3D {
    let nothing = std::ptr::null_mut();
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: nothing,
        srcDevice: 0,
        srcArray: nothing.cast(),
        reserved0: nothing,
        srcPitch: 0,
        srcHeight: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: nothing,
        dstDevice: 0,
        dstArray: nothing.cast(),
        reserved1: nothing,
        dstPitch: 0,
        dstHeight: 0,
        WidthInBytes: 0,
        Height: 0,
        Depth: 0,
    }
}

driver! {
    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) {
        current()?;
        is_device(&[to])?;
        copy_now(Copy::line(to, from.addr() as u64, bytes))?;
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) {
        current()?;
        is_device(&[from])?;
        copy_now(Copy::line(to.addr() as u64, from, bytes))?;
    }

    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        current()?;
        is_device(&[to, from])?;
        copy_now(Copy::line(to, from, bytes))?;
    }

    fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        copy_now(Copy::line(to, from, bytes))?;
    }

    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) {
        current()?;
        is_device(&[to])?;
        copy(Copy::line(to, from.addr() as u64, bytes), &stream_of(stream)?)?;
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        current()?;
        is_device(&[from])?;
        copy(Copy::line(to.addr() as u64, from, bytes), &stream_of(stream)?)?;
    }

    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        current()?;
        is_device(&[to, from])?;
        copy(Copy::line(to, from, bytes), &stream_of(stream)?)?;
    }

    fn cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        current()?;
        copy(Copy::line(to, from, bytes), &stream_of(stream)?)?;
    }

    fn cuMemcpyPeerAsync(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
        stream: CUstream,
    ) {
        current()?;
        of_handle(to_context)?.check()?;
        of_handle(from_context)?.check()?;
        is_device(&[to, from])?;
        copy(Copy::line(to, from, bytes), &stream_of(stream)?)?;
    }

    fn cuMemcpy2D_v2(rectangle: In<CUDA_MEMCPY2D>) {
        current()?;
        copy_now(of_rectangle(&rectangle.get()?)?)?;
    }

    fn cuMemcpy2DAsync_v2(rectangle: In<CUDA_MEMCPY2D>, stream: CUstream) {
        current()?;
        copy(of_rectangle(&rectangle.get()?)?, &stream_of(stream)?)?;
    }

    fn cuMemcpy3D_v2(copied: In<CUDA_MEMCPY3D>) {
        current()?;
        copy_now(of_box(&copied.get()?)?)?;
    }

    fn cuMemcpy3DAsync_v2(copied: In<CUDA_MEMCPY3D>, stream: CUstream) {
        current()?;
        copy(of_box(&copied.get()?)?, &stream_of(stream)?)?;
    }

    fn cuMemcpy3DPeerAsync(copied: In<CUDA_MEMCPY3D_PEER>, stream: CUstream) {
        current()?;
        let peer = copied.get()?;
        of_handle(peer.dstContext)?.check()?;
        of_handle(peer.srcContext)?.check()?;
        let own = CUDA_MEMCPY3D {
            srcXInBytes: peer.srcXInBytes,
            srcY: peer.srcY,
            srcZ: peer.srcZ,
            srcMemoryType: peer.srcMemoryType,
            srcHost: peer.srcHost,
            srcDevice: peer.srcDevice,
            srcPitch: peer.srcPitch,
            srcHeight: peer.srcHeight,
            dstXInBytes: peer.dstXInBytes,
            dstY: peer.dstY,
            dstZ: peer.dstZ,
            dstMemoryType: peer.dstMemoryType,
            dstHost: peer.dstHost,
            dstDevice: peer.dstDevice,
            dstPitch: peer.dstPitch,
            dstHeight: peer.dstHeight,
            WidthInBytes: peer.WidthInBytes,
            Height: peer.Height,
            Depth: peer.Depth,
            ..empty_box()
        };
        copy(of_box(&own)?, &stream_of(stream)?)?;
    }

    fn cuMemsetD8_v2(to: CUdeviceptr, value: u8, count: usize) {
        let stream = current()?.default_stream();
        fill(to, value.into(), 1, count, &stream)?;
        stream.synchronize()?;
    }

    fn cuMemsetD8Async(to: CUdeviceptr, value: u8, count: usize, stream: CUstream) {
        current()?;
        fill(to, value.into(), 1, count, &stream_of(stream)?)?;
    }

    fn cuMemsetD16Async(to: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        current()?;
        fill(to, value.into(), 2, count, &stream_of(stream)?)?;
    }

    fn cuMemsetD32Async(to: CUdeviceptr, value: u32, count: usize, stream: CUstream) {
        current()?;
        fill(to, value, 4, count, &stream_of(stream)?)?;
    }
}
