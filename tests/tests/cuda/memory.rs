//! Shared memory, and copies that go to the driver in one command.

use crate::{devices, with_emulated};
use flash::prelude::*;
use flash_backend::{Backend, Device, HostSettings};
use flash_backend_cuda::NvidiaGpu;
use flash_core::abi::{Buffer, CopyBox};
use flash_core::descriptor::Attributes;

use crate::kernels::Scale;

/// `y` after a kernel of blocks with `bytes` bytes of dynamic shared memory: `x` is 2, `y` was 1 and `a` is
/// 3.
fn with_shared(device: &str, text: &'static str, bytes: u64, n: usize) -> Result<Vec<f32>, flash::Error> {
    let (x, y) = (FlashMemory::from(vec![2.0f32; n]), FlashMemory::from(vec![1.0f32; n]));
    let mut options = Attributes::default();
    options.set_by_name("shared_memory_bytes", bytes.into(), true);
    let rt = get_runtime(device)?;
    rt.submit(Scale::of(3.0, &x, &y))
        .options(Implementation::source(text, "shared"))
        .options(options)
        .exec([n])?;
    Ok(y.read()?.to_vec())
}

/// 32 KiB of static memory, and the last bytes of as many more by option.
const BOTH: &str = "extern \"C\" __global__ void shared(float a, const float *x, float *y) {
    extern __shared__ float more[];
    __shared__ float own[8192];
    int i = blockIdx.x * blockDim.x + threadIdx.x, last = blockDim.x - 1 - threadIdx.x;
    own[8191 - threadIdx.x] = a;
    more[8191 - threadIdx.x] = x[i];
    __syncthreads();
    y[i] += own[8191 - last] * more[8191 - last];
}";

#[test]
fn shared_memory_by_option_comes_on_top_of_the_kernels_own() {
    for device in devices("memory::shared_memory_by_option_comes_on_top_of_the_kernels_own") {
        assert_eq!(with_shared(&device, BOTH, 32 << 10, 512).unwrap(), [7.0; 512], "{device}");
        let error = with_shared(&device, BOTH, 1 << 30, 512).unwrap_err().to_string();
        assert!(error.contains("beside 32768 of the kernel's own, found 1073741824"), "{device}: {error}");
    }
}

/// How many threads its blocks have.
const THREADS: &str = "extern \"C\" __global__ void shared(float a, const float *x, float *y) {
    y[blockIdx.x * blockDim.x + threadIdx.x] = blockDim.x;
}";

#[test]
fn blocks_are_as_large_as_their_shared_memory_lets_them() {
    if flash_tests::emulated::on_gpu() {
        return;
    }
    for device in devices("memory::blocks_are_as_large_as_their_shared_memory_lets_them") {
        // A multiprocessor has 1,536 threads, and 100 KiB.
        let threads = |bytes| with_shared(&device, THREADS, bytes, 1536 * 64).unwrap()[0];
        assert_eq!([64, 60_000, 64].map(threads), [768.0, 1024.0, 768.0], "{device}");
    }
}

#[test]
fn boxes_with_planes_far_apart_are_one_command() {
    let test = "memory::boxes_with_planes_far_apart_are_one_command";
    // Row by row would fail.
    with_emulated(test, &[("FLASH_EMULATED_CUDA_FAULT", "cuMemcpyHtoDAsync:1=1")], || {
        let device = NvidiaGpu::probe(&HostSettings::default()).unwrap()[0];
        let space = device.spaces()[0].id;
        let (far, mut near) = (1usize << 31, [0u8; 32]);
        // Pages that are not touched take no room.
        let mut host = vec![0u8; far + 64];
        for (at, value) in [(0, 1), (16, 2), (far, 3), (far + 16, 4)] {
            host[at..at + 8].fill(value);
        }
        let buffer = device.alloc(space, 32).unwrap();
        let place = |data: *mut u8| Buffer { space: 0, reserved: 0, handle: data.expose_provenance() as u64 };
        let close = [8, 16];
        let up = CopyBox {
            extent: [8, 2, 2],
            source_offset: 0,
            source_stride: [16, far as u64],
            destination_offset: 0,
            destination_stride: close,
        };
        let down = CopyBox { source_stride: close, ..up };
        let down = CopyBox { destination_stride: close, ..down };
        // SAFETY: the boxes lie in the arrays and in the buffer, which have no other user.
        unsafe {
            device.copy_box(place(host.as_mut_ptr()), buffer, &up).unwrap();
            device.copy_box(buffer, place(near.as_mut_ptr()), &down).unwrap();
        }
        assert_eq!(
            near.map(u32::from).chunks(8).map(|row| row.iter().sum()).collect::<Vec<u32>>(),
            [8, 16, 24, 32]
        );
        device.free(buffer).unwrap();
    });
}
