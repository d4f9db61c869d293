//! A warm launch from C allocates nothing on the calling thread.
#![allow(clippy::undocumented_unsafe_blocks)] // handles and texts, as the header says

use flash::kernel;
use flash::kernel::prelude::*;
use flash::kernel::views::{Item, Read, ReadWrite};
use flash_c::kernel::{flash_kernel_find, flash_kernel_launch};
use flash_c::memory::flash_memory_create;
use flash_c::pipeline::{flash_pipeline_create, flash_pipeline_exec, flash_pipeline_submit};
use flash_c::runtime::flash_runtime_open;
use flash_c::types::{Dimension, VALUE_F32, VALUE_MEMORY, VALUE_RANGE, Value};
use flash_tests::allocations::{Counting, fewest as allocations};
use std::ptr::{null, null_mut};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(KernelDefinition)]
#[kernel(name = "allocations.of_c", dims(i))]
struct Add<'a> {
    scale: f32,
    a: Item<'a, Read<f32>>,
    b: Item<'a, ReadWrite<f32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.b += k.scale * *k.a;
    }
}

#[test]
fn a_warm_launch_from_c_allocates_nothing() {
    let (mut runtime, mut kernel, mut pipeline) = (null_mut(), null_mut(), null_mut());
    let (mut memories, len) = ([null_mut(); 2], 64);
    unsafe {
        assert_eq!(flash_runtime_open(c"ALL_CPU".as_ptr(), null(), &mut runtime), 0);
        assert_eq!(flash_kernel_find(runtime, c"allocations.of_c".as_ptr(), &mut kernel), 0);
        for memory in &mut memories {
            assert_eq!(flash_memory_create(c"f32".as_ptr(), 1, &len, null(), memory), 0);
        }
        assert_eq!(flash_pipeline_create(runtime, &mut pipeline), 0);
    }
    let value = |kind, bits| Value { kind, reserved: 0, bits, begin: 0, end: len };
    let array = |kind, at: usize| value(kind, memories[at].expose_provenance() as u64);
    let count = Dimension { start: 0, step: 1, count: len, values: null() };
    let launch = |scale: f32, kind| {
        let values = [value(VALUE_F32, scale.to_bits().into()), array(kind, 0), array(kind, 1)];
        assert_eq!(unsafe { flash_kernel_launch(kernel, values.as_ptr(), 3, &count, 1) }, 0);
        values
    };
    for kind in [VALUE_MEMORY, VALUE_RANGE] {
        let values = launch(1.0, kind);
        launch(2.0, kind);
        assert_eq!(allocations(|| _ = launch(3.0, kind)), 0, "kind {kind}");
        for _ in 0..3 {
            let status =
                unsafe { flash_pipeline_submit(pipeline, kernel, values.as_ptr(), 3, &count, 1, null()) };
            assert_eq!(status, 0);
        }
        assert_eq!(unsafe { flash_pipeline_exec(pipeline) }, 0);
        assert_eq!(allocations(|| assert_eq!(unsafe { flash_pipeline_exec(pipeline) }, 0)), 0);
    }
}
