//! Code for devices, where there is only a CPU: it is never run by one, and errors say so.

use flash::kernel;
use flash::kernel::views::{Item, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;

/// Device code alone.
#[derive(KernelDefinition)]
#[kernel(name = "device_code.fill", dims(x))]
#[implementations(opencl = "../../macros/fill.cl", cooperating, entry = "fill", for(f32))]
struct Fill<'a, T: flash::kernel::Element> {
    value: T,
    x: Item<'a, Write<T>>,
}

/// Device code of a high priority beside a function of the CPU.
#[derive(KernelDefinition)]
#[kernel(name = "device_code.both", dims(x))]
#[implementations(opencl = "../../macros/fill.cl", cuda = "fill.cu", cooperating, priority = 100)]
struct Both<'a> {
    x: Item<'a, Write<f32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Both<'_>> for Plain {
    fn item(_: Index<1>, k: BothItem<'_>) {
        k.x.set(3.0);
    }
}

fn cpu() -> RuntimeObj {
    flash_tests::runtime_of_functions()
}

#[flash_tests::test]
fn code_for_devices_is_no_candidate_on_a_cpu_and_the_error_lists_it() {
    let x = FlashMemory::<f32>::zeroed(3);
    let error = cpu().submit(Fill::of(1.0, &x)).exec([3]).unwrap_err();
    let flash::Error::NoImplementation(none) = &error else { panic!("{error:?}") };
    assert_eq!(none.rejected().len(), cpu().devices().len(), "{none:?}");
    for part in ["`fill.cl` for opencl", "runs implementations for cpu", "device_code.fill"] {
        assert!(error.to_string().contains(part), "{part} in {error}");
    }
    assert!(matches!(cpu().preload::<Fill<f32>>(), Err(flash::Error::NoImplementation(_))));
}

#[flash_tests::test]
fn a_cpu_takes_its_own_function_whatever_the_priority_of_others() {
    let (x, profile) = (FlashMemory::<f32>::zeroed(3), Profile::new());
    cpu().submit(Both::of(&x)).options(&profile).exec([3]).unwrap();
    assert_eq!((x.get(2).unwrap(), profile.take()[0].implementation.as_str()), (3.0, "plain"));
}

#[flash_tests::test]
fn device_code_cannot_be_pinned_on_a_cpu_by_its_name() {
    let x = FlashMemory::<f32>::zeroed(3);
    let error = cpu().submit(Both::of(&x)).options(Implementation::named("fill.cl")).exec([3]).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("`fill.cl` for opencl") && error.contains("for cpu"), "{error}");
}

#[flash_tests::test]
fn source_text_is_an_error_on_a_cpu_that_says_what_to_do() {
    let x = FlashMemory::<f32>::zeroed(3);
    for code in [
        Implementation::source("__kernel void fill(float value, __global float *x) {}", "fill"),
        Implementation::file("no/such/kernel.cl", "fill").cooperating(),
        Implementation::file("kernel.CU", "fill"),
    ] {
        let error = cpu().submit(Fill::of(1.0, &x)).options(code.clone()).exec([3]).unwrap_err().to_string();
        for part in
            ["a CPU runs compiled code alone", "cc -O3 -shared -fPIC", "a device that compiles kernels"]
        {
            assert!(error.contains(part), "{code:?}: {part} in {error}");
        }
    }
}

#[flash_tests::test]
fn what_is_given_is_read_back_from_a_recording_of_options() {
    let codes = [
        (Implementation::named("plain"), r#"{"named":"plain"}"#),
        (Implementation::file("k.cl", "fill"), r#"{"file":{"path":"k.cl","symbol":"fill"}}"#),
        (
            Implementation::source("text", "fill").cooperating(),
            r#"{"source":{"text":"text","entry":"fill","cooperating":true}}"#,
        ),
    ];
    for (code, expected) in codes {
        let text = serde_json::to_string(&code).unwrap();
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Implementation>(&text).unwrap(), code);
    }
}
