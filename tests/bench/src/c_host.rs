//! What a launch costs in a host program in C, beside the same launch in Rust, in turns in this process.

use crate::dispatch::{memories, per_call, warm_submit};
use crate::kernels::Empty;
use crate::peers::Source;
use crate::stats::{REPEATS, Row, pair};
use anyhow::{Context, Result, ensure};
use flash::get_runtime;
use flash_c::kernel::{NamedKernelHandle, flash_kernel_find, flash_kernel_launch};
use flash_c::memory::{MemoryHandle, flash_memory_create};
use flash_c::pipeline::{PipelineHandle, flash_pipeline_create, flash_pipeline_exec, flash_pipeline_submit};
use flash_c::runtime::{RuntimeHandle, flash_runtime_open};
use flash_c::types::{Dimension, VALUE_F32, VALUE_MEMORY, Value};
use std::ffi::{CStr, c_long};
use std::ptr::{null, null_mut};
use std::time::Duration;

type Launch =
    unsafe extern "C" fn(*const NamedKernelHandle, *const Value, usize, *const Dimension, usize) -> i32;
type Exec = unsafe extern "C" fn(*const PipelineHandle) -> i32;
type Launches =
    unsafe extern "C" fn(Launch, *const NamedKernelHandle, *const *mut MemoryHandle, u64, c_long) -> i32;
type Runs = unsafe extern "C" fn(Exec, *const PipelineHandle, c_long) -> i32;

const HOST: Source = Source {
    name: "host.c",
    // With the header: what it was made from.
    text: concat!(include_str!("../../../flash-c/include/flash.h"), include_str!("../peers/host.c")),
    compiler: "gcc",
    flags: &[
        "-std=c99",
        "-O2",
        "-fPIC",
        "-shared",
        concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../flash-c/include"),
    ],
    libraries: &[],
};

/// Launches of a turn.
const LAUNCHES: usize = 2000;
/// Submissions of a kept pipeline.
const CHAIN: usize = 100;

fn ok(status: i32) -> Result<()> {
    // SAFETY: the text of this thread.
    let text = unsafe { CStr::from_ptr(flash_c::flash_last_error()) };
    ensure!(status == 0, "{}", text.to_string_lossy());
    Ok(())
}

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    let cache = std::env::current_exe()?.with_file_name("peers");
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let host = HOST.load(&cache)?;
    let (mut c_rt, mut kernel): (*mut RuntimeHandle, *mut NamedKernelHandle) = (null_mut(), null_mut());
    let (mut c_memories, mut pipeline) = ([null_mut(); 3], null_mut());
    let one = 1;
    // SAFETY: the signatures are those of the functions in host.c; handles and texts are as the header says.
    let (launches, runs): (Launches, Runs) = unsafe {
        ok(flash_runtime_open(c"ALL_CPU".as_ptr(), null(), &mut c_rt))?;
        ok(flash_kernel_find(c_rt, c"bench.empty".as_ptr(), &mut kernel))?;
        for memory in &mut c_memories {
            ok(flash_memory_create(c"f32".as_ptr(), 1, &one, null(), memory))?;
        }
        ok(flash_pipeline_create(c_rt, &mut pipeline))?;
        (*host.get(b"host_launches\0")?, *host.get(b"host_runs\0")?)
    };
    let value = |kind, bits| Value { kind, reserved: 0, bits, begin: 0, end: 0 };
    let array = |at: usize| value(VALUE_MEMORY, c_memories[at].expose_provenance() as u64);
    let values = [value(VALUE_F32, 1f32.to_bits().into()), array(0), array(1), array(2)];
    let dimension = Dimension { start: 0, step: 1, count: 1, values: null() };
    for _ in 0..CHAIN {
        // SAFETY: handles, four values and a dimension.
        ok(unsafe { flash_pipeline_submit(pipeline, kernel, values.as_ptr(), 4, &dimension, 1, null()) })?;
    }

    let rt = get_runtime("ALL_CPU")?;
    let own = memories();
    let [x, y, z] = &own;
    let in_c = |calls: usize| {
        per_call(1, || {
            // SAFETY: handles, and three memories.
            let failed =
                unsafe { launches(flash_kernel_launch, kernel, c_memories.as_ptr(), 1, calls as c_long) };
            assert_eq!(failed, 0, "an empty kernel runs");
        }) / calls as f64
    };
    warm_submit(&rt, &own, 1000);
    in_c(1000);
    let launch = pair(
        "warm launch from C, empty kernel, 1 scalar + 3 memories, against Rust",
        "ns",
        200,
        || in_c(LAUNCHES),
        Some(&mut || warm_submit(&rt, &own, LAUNCHES)),
        Duration::ZERO,
    );
    let mut chain = rt.pipeline();
    for _ in 0..CHAIN {
        chain = chain.submit(Empty::of(1.0, x, y, z)).defer([1usize]);
    }
    let kept = pair(
        "kept pipeline of 100 dependent, run from C, per kernel, against Rust",
        "ns",
        REPEATS.max(100),
        || {
            per_call(1, || {
                // SAFETY: a handle.
                let failed = unsafe { runs(flash_pipeline_exec, pipeline, 20) };
                assert_eq!(failed, 0, "a chain runs");
            }) / (20 * CHAIN) as f64
        },
        Some(&mut || per_call(20, || chain.exec().expect("a chain runs")) / CHAIN as f64),
        Duration::ZERO,
    );
    Ok(vec![launch, kept])
}
