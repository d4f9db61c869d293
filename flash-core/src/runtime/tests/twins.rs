//! Two devices of one backend that share a memory share its copies of arrays.

use super::super::get_runtime;
use super::kernels::Axpy;
use super::run_all;
use crate::FlashMemory;
use flash_backend::host_memory::{self, HostBuffers};
use flash_backend::register_backend;
use flash_backend::{Backend, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable};
use flash_types::abi::{self, Buffer, CopyBox, Implementation};
use flash_types::descriptor::{part_by, weights};
use std::sync::Arc;

struct Twins;

// SAFETY: `submit` runs every row of every phase once, and returns when all have run.
unsafe impl Backend for Twins {
    const KEY: &'static str = "TEST_TWINS";
    const DESCRIPTION: &'static str = "for unit tests";
    const TARGET: &'static str = "cpu";
    type Device = Twin;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<Twin>, Unavailable> {
        let shared = Arc::new(HostBuffers::of_space(1));
        Ok(vec![Twin(shared.clone()), Twin(shared), Twin(Arc::new(HostBuffers::of_space(2)))])
    }
}

register_backend!(Twins);

struct Twin(Arc<HostBuffers>);

impl Device for Twin {
    type Kernel = &'static Implementation;

    fn info(&self) -> DeviceInfo {
        DeviceInfo { test: true, synchronous: true, runs_functions: true, ..DeviceInfo::default() }
    }

    fn prepare(&self, implementation: &'static Implementation) -> Result<Self::Kernel, Failure> {
        Ok(implementation)
    }

    fn submit(&self, launch: &Launch<'_, Self::Kernel>) -> Result<Option<Event>, Failure> {
        let own = |arg: &abi::Arg| arg.kind == abi::ARG_SCALAR || arg.space == self.0.space();
        assert!(launch.args().iter().all(own), "an array is in another memory");
        run_all(launch)?;
        Ok(None)
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        vec![host_memory::space(self.0.space(), 0)]
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<Buffer, Failure> {
        self.0.alloc(space, bytes)
    }

    fn free(&self, buffer: Buffer) -> Result<(), Failure> {
        self.0.free(buffer)
    }

    unsafe fn copy_box(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<(), Failure> {
        // SAFETY: the caller vouches for the boxes; handles of all these spaces are addresses.
        unsafe { host_memory::copy_addresses(from.handle, to.handle, shape) };
        Ok(())
    }

    fn can_copy(&self, _: u32, _: u32) -> Option<f64> {
        Some(1e9)
    }
}

#[test]
fn devices_of_one_memory_share_its_copies() {
    const N: usize = 1000;
    let (x, y) = (FlashMemory::from(vec![1.0f32; N]), FlashMemory::from(vec![0.5f32; N]));
    let [first, second, other, both] = ["TEST_TWINS:0", "TEST_TWINS:1", "TEST_TWINS:2", "TEST_TWINS:0,1"]
        .map(|key| get_runtime(key).unwrap());
    let moved = || [&first, &second, &other].map(|rt| rt.devices()[0].transfers());
    let before = moved();
    first.submit(Axpy::of(2.0, &x, &y)).exec([N]).unwrap();
    let once = moved();
    assert_eq!(once[0].to_device.bytes - before[0].to_device.bytes, 8 * N as u64);
    assert_eq!(once[0], once[1], "one memory, one count");
    // The twin, and both together, have all there; the third device, of another memory, has not.
    second.submit(Axpy::of(2.0, &x, &y)).exec([N]).unwrap();
    let cut = (part_by("x"), weights([1, 1]));
    both.submit(Axpy::of(2.0, &x, &y)).options(cut).exec([N]).unwrap();
    assert_eq!(moved(), once, "nothing was moved");
    other.submit(Axpy::of(2.0, &x, &y)).exec([N]).unwrap();
    let last = moved()[2];
    assert_eq!((last - once[2]).to_device.bytes + (last - once[2]).between_devices.bytes, 8 * N as u64);
    assert_eq!(*y.read().unwrap(), vec![8.5f32; N]);
}
