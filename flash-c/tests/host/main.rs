//! Host programs through the functions of `flash.h`, called from Rust: errors of each kind, threads,
//! cancelling, two runtimes, handles that are freed. `tests/installed.rs` has programs in C, C++ and Fortran.

#![allow(clippy::undocumented_unsafe_blocks)] // each call of a function of the header would say the same

mod agents;
mod errors;
mod handles;
mod later;
mod launches;
mod memories;

// The devices of the key `TEST`.
use flash_backend_test as _;

use flash::kernel;
use flash::kernel::prelude::*;
use flash::kernel::views::{Item, Read, ReadWrite, Whole, Write};
use flash_c::kernel::*;
use flash_c::memory::*;
use flash_c::pipeline::*;
use flash_c::runtime::*;
use flash_c::status::*;
use flash_c::types::*;
use flash_c::{flash_last_error, flash_status_name};
use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// y += a x.
#[derive(KernelDefinition)]
#[kernel(name = "tests.saxpy", dims(i), part_by(i))]
struct Saxpy<'a, T: Real> {
    a: T,
    x: Item<'a, Read<T>>,
    y: Item<'a, ReadWrite<T>>,
}

/// Types of numbers that the kernel takes.
trait Real: Element + std::ops::Mul<Output = Self> + std::ops::AddAssign {}
impl Real for f32 {}
impl Real for f64 {}

struct OfRows;

#[kernel(for(f32, f64))]
impl<T: Real> CpuItem<Saxpy<'_, T>> for OfRows {
    fn item(_: Index<1>, k: SaxpyItem<'_, T>) {
        *k.y += k.a * *k.x;
    }
}

/// Panics where `fault` is its index.
#[derive(KernelDefinition)]
#[kernel(name = "tests.faulty", dims(i))]
struct Faulty<'a> {
    fault: u64,
    to: Item<'a, Write<u64>>,
}

struct Panics;

#[kernel]
impl CpuItem<Faulty<'_>> for Panics {
    fn item(i: Index<1>, k: FaultyItem<'_>) {
        assert!(i[0] as u64 != k.fault, "item {} is at fault", i[0]);
        k.to.set(i[0] as u64 + 1);
    }
}

/// 0: closed, 1: a kernel waits, 2: open.
static GATE: AtomicU32 = AtomicU32::new(0);

/// Waits at the gate.
#[derive(KernelDefinition)]
#[kernel(name = "tests.gate", dims(i))]
struct Gate<'a> {
    to: Item<'a, Write<u64>>,
}

struct Waits;

#[kernel]
impl CpuItem<Gate<'_>> for Waits {
    fn item(i: Index<1>, k: GateItem<'_>) {
        let _ = GATE.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
        while GATE.load(Ordering::SeqCst) != 2 {
            std::thread::yield_now();
        }
        k.to.set(i[0] as u64);
    }
}

/// Takes a struct, and a vector per element.
#[derive(KernelDefinition)]
#[kernel(name = "tests.shift", dims(i))]
struct Shift<'a> {
    by: Step,
    from: Whole<'a, Read<[f32; 3]>>,
    to: Item<'a, Write<[f32; 3]>>,
}

#[derive(Clone, Copy, Element)]
#[element(name = "tests::Step")]
#[repr(C)]
struct Step {
    x: f32,
    times: u32,
}

struct Shifts;

#[kernel]
impl CpuItem<Shift<'_>> for Shifts {
    fn item(i: Index<1>, k: ShiftItem<'_>) {
        k.to.set(k.from[i[0]].map(|x| x + k.by.x * k.by.times as f32));
    }
}

/// A runtime, which is closed when it is dropped.
struct Runtime(*mut RuntimeHandle);

impl Runtime {
    fn open(key: &str) -> Runtime {
        let mut runtime = null_mut();
        ok(unsafe { flash_runtime_open(text(key).as_ptr(), null(), &mut runtime) });
        Runtime(runtime)
    }

    fn kernel(&self, name: &str) -> *mut NamedKernelHandle {
        let mut kernel = null_mut();
        ok(unsafe { flash_kernel_find(self.0, text(name).as_ptr(), &mut kernel) });
        kernel
    }

    fn pipeline(&self) -> *mut PipelineHandle {
        let mut pipeline = null_mut();
        ok(unsafe { flash_pipeline_create(self.0, &mut pipeline) });
        pipeline
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        ok(unsafe { flash_runtime_close(self.0) });
    }
}

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn last() -> String {
    unsafe { CStr::from_ptr(flash_last_error()) }.to_str().unwrap().to_owned()
}

#[track_caller]
fn ok(status: i32) {
    assert_eq!(status, STATUS_OK, "{}", last());
}

/// It fails with this status, and a text that has these words.
#[track_caller]
fn fails(status: i32, expected: i32, words: &[&str]) {
    let name = |status| unsafe { CStr::from_ptr(flash_status_name(status)) }.to_str().unwrap();
    let text = last();
    assert_eq!(name(status), name(expected), "{text}");
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

fn memory<T: bytemuck::Pod>(kind: &str, data: &[T]) -> *mut MemoryHandle {
    let (mut memory, len) = (null_mut(), data.len() as u64);
    ok(unsafe { flash_memory_create(text(kind).as_ptr(), 1, &len, data.as_ptr().cast(), &mut memory) });
    memory
}

fn zeroed(kind: &str, shape: &[u64]) -> *mut MemoryHandle {
    let mut memory = null_mut();
    ok(unsafe { flash_memory_create(text(kind).as_ptr(), shape.len(), shape.as_ptr(), null(), &mut memory) });
    memory
}

fn contents<T: bytemuck::Pod>(memory: *const MemoryHandle) -> Vec<T> {
    let (mut data, mut report) = (null(), blank());
    ok(unsafe { flash_memory_describe(memory, &mut report) });
    ok(unsafe { flash_memory_map_read(memory, 0, report.len, &mut data) });
    let copy = unsafe { std::slice::from_raw_parts(data.cast::<T>(), report.len as usize) }.to_vec();
    ok(unsafe { flash_memory_unmap(memory, data) });
    copy
}

fn blank() -> MemoryReport {
    MemoryReport { type_name: null(), element_size: 0, len: 0, axes: 0, shape: null() }
}

fn value(kind: u32, bits: u64) -> Value {
    Value { kind, reserved: 0, bits, begin: 0, end: 0 }
}

fn f32(x: f32) -> Value {
    value(VALUE_F32, x.to_bits().into())
}

fn f64(x: f64) -> Value {
    value(VALUE_F64, x.to_bits())
}

fn u64(x: u64) -> Value {
    value(VALUE_U64, x)
}

fn array(memory: *const MemoryHandle) -> Value {
    value(VALUE_MEMORY, memory.expose_provenance() as u64)
}

/// A value of any type, by its bytes.
fn bytes<T>(type_name: &CStr, of: &T) -> Value {
    let begin = type_name.as_ptr().expose_provenance() as u64;
    Value { begin, ..value(VALUE_BYTES, std::ptr::from_ref(of).expose_provenance() as u64) }
}

fn range(memory: *const MemoryHandle, begin: u64, end: u64) -> Value {
    Value { kind: VALUE_RANGE, begin, end, ..array(memory) }
}

fn count(count: u64) -> Dimension {
    Dimension { start: 0, step: 1, count, values: null() }
}

fn launch(kernel: *const NamedKernelHandle, values: &[Value], dimensions: &[Dimension]) -> i32 {
    let (v, d) = (values, dimensions);
    unsafe { flash_kernel_launch(kernel, v.as_ptr(), v.len(), d.as_ptr(), d.len()) }
}

fn submit(
    pipeline: *mut PipelineHandle,
    kernel: *const NamedKernelHandle,
    values: &[Value],
    dimensions: &[Dimension],
    options: Option<&str>,
) -> i32 {
    let options = options.map(text);
    let options = options.as_ref().map_or(null(), |options| options.as_ptr());
    let (v, d) = (values, dimensions);
    unsafe { flash_pipeline_submit(pipeline, kernel, v.as_ptr(), v.len(), d.as_ptr(), d.len(), options) }
}

fn start(pipeline: *mut PipelineHandle) -> *mut StartedHandle {
    let mut handle = null_mut();
    ok(unsafe { flash_pipeline_start(pipeline, &mut handle) });
    handle
}

/// What is dropped with the test is freed by it.
fn free(
    kernels: &[*mut NamedKernelHandle],
    memories: &[*mut MemoryHandle],
    pipelines: &[*mut PipelineHandle],
) {
    for kernel in kernels {
        ok(unsafe { flash_kernel_free(*kernel) });
    }
    for memory in memories {
        ok(unsafe { flash_memory_free(*memory) });
    }
    for pipeline in pipelines {
        ok(unsafe { flash_pipeline_free(*pipeline) });
    }
}

/// A place for an address.
fn no_data() -> *const c_void {
    null()
}
