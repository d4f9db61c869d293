//! Launches of kernels.

use super::module::Kernel;
use super::stream::{stream_of, submit};
use super::{In, device, driver};
use crate::machine::work::Work;
use crate::machine::{Answer, MULTIPROCESSORS};
use crate::run::Launch;
use cudarc::driver::sys::{CUfunction, CUlaunchAttributeID, CUlaunchConfig, CUresult, CUstream};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The part of a launch that the function does not determine.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic: u32,
    pub cooperative: bool,
}

/// Checks whether a launch is possible, and copies its parameters.
pub(super) fn prepare(
    function: CUfunction,
    shape: Shape,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer<Launch> {
    let kernel = Kernel::of(function)?;
    if kernel.context.device != super::context::current()?.device {
        return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
    let Shape { grid, block, dynamic, cooperative } = shape;
    let inside = |of: [u32; 3], most: [u32; 3]| of.iter().zip(most).all(|(of, most)| *of > 0 && *of <= most);
    let threads: u64 = block.iter().map(|threads| u64::from(*threads)).product();
    if !inside(grid, device::GRID)
        || !inside(block, device::BLOCK)
        || threads > u64::from(kernel.most_threads())
        || dynamic > kernel.most_dynamic.load(Relaxed)
    {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if cooperative {
        let blocks: u64 = grid.iter().map(|blocks| u64::from(*blocks)).product();
        let most = kernel.occupancy(threads as u32, dynamic as usize) * MULTIPROCESSORS;
        if blocks > u64::from(most) {
            return Err(CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
        }
    }
    let bytes = kernel.function().parameters.last().map_or(0, |(at, size)| at + size);
    let mut copied = vec![0; bytes];
    if parameters.is_null() && !extra.is_null() {
        packed(extra, &mut copied)?;
    } else if bytes > 0 {
        for (number, &(at, size)) in kernel.function().parameters.iter().enumerate() {
            let from =
                In(parameters.wrapping_add(if parameters.is_null() { 0 } else { number }).cast_const())
                    .get()?;
            let from = In(from.cast::<u8>().cast_const()).get_all(size)?;
            copied[at..at + size].copy_from_slice(&from);
        }
    }
    Ok(Launch {
        program: kernel.program.clone(),
        function: kernel.function,
        grid,
        block,
        dynamic: dynamic as usize,
        parameters: copied,
        cooperative,
    })
}

/// Packed parameters, as in `extra`: pairs of a tag and a pointer.
fn packed(extra: *mut *mut c_void, to: &mut [u8]) -> Answer {
    let (mut start, mut size) = (None, None);
    for pair in 0.. {
        let words = In(extra.wrapping_add(2 * pair).cast_const());
        match words.get()?.addr() {
            0 => break,
            1 => start = Some(In(extra.wrapping_add(2 * pair + 1).cast_const()).get()?),
            2 => {
                let at = In(extra.wrapping_add(2 * pair + 1).cast_const()).get()?;
                size = Some(In(at.cast::<usize>().cast_const()).get()?);
            }
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    match (start, size) {
        (Some(start), Some(size)) if size >= to.len() => {
            to.copy_from_slice(&In(start.cast::<u8>().cast_const()).get_all(to.len())?);
            Ok(())
        }
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

fn launch(
    function: CUfunction,
    shape: Shape,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    let stream = stream_of(stream)?;
    let launch = prepare(function, shape, parameters, extra)?;
    submit(&stream, Work::Kernel(Arc::new(launch)))
}

driver! {
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        dynamic: u32,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, Shape { grid, block, dynamic, cooperative: false }, stream, parameters, extra)?;
    }

    fn cuLaunchCooperativeKernel(
        function: CUfunction,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        dynamic: u32,
        stream: CUstream,
        parameters: *mut *mut c_void,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let shape = Shape { grid, block, dynamic, cooperative: true };
        launch(function, shape, stream, parameters, std::ptr::null_mut())?;
    }

    fn cuLaunchKernelEx(
        config: In<CUlaunchConfig>,
        function: CUfunction,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let config = config.get()?;
        let mut shape = Shape {
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            dynamic: config.sharedMemBytes,
            cooperative: false,
        };
        for attribute in In(config.attrs.cast_const()).get_all(config.numAttrs as usize)? {
            match attribute.id {
                CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
                    // SAFETY: this attribute has this member.
                    shape.cooperative = unsafe { attribute.value.cooperative } != 0;
                }
                CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_IGNORE
                | CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY
                | CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW => {}
                _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
            }
        }
        launch(function, shape, config.hStream, parameters, extra)?;
    }
}
