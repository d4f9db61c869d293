//! Errors have a type, OpenCL's code and its name, and the runtime stays usable.

use crate::devices;
use crate::kernels::{Far, Grid, Large, Many, Scale, Spread, Total};
use flash::prelude::*;
use flash::{Code, Error};
use flash_core::descriptor::Attributes;
use flash_core::index::Dim;

/// A launch of an impossible implementation: the error's code and text. Another one runs after it.
fn refused(device: &str, name: &str) -> (Code, String) {
    let rt = get_runtime(device).unwrap();
    let (x, y) = (FlashMemory::from(vec![2.0f32; 100]), FlashMemory::from(vec![1.0f32; 100]));
    let failed = rt.submit(Scale::of(3.0, &x, &y)).options(Implementation::named(name)).exec([100]);
    let error = failed.expect_err(name);
    let (x, y) = (FlashMemory::from(vec![2.0f32; 100]), FlashMemory::from(vec![1.0f32; 100]));
    rt.submit(Scale::of(3.0, &x, &y)).options(Implementation::named("text")).exec([100]).unwrap();
    assert_eq!(*y.read().unwrap(), [7.0; 100], "{device}: the launch after `{name}`");
    of_backend(&error)
}

/// Code and text of an error of the backend, wherever it is in the error; also of an implementation that does
/// not fit.
pub fn of_backend(error: &Error) -> (Code, String) {
    match error {
        Error::Launch(launch) => of_backend(launch.cause()),
        Error::Backend { code, text, .. } => (*code, text.clone()),
        // The device lacks what the implementation requires: it is no candidate.
        Error::NoImplementation(_) => (Code::Unsupported, error.to_string()),
        other => panic!("expected an error of the backend, found {other}"),
    }
}

/// Every impossible implementation, and the words in its error.
const REFUSED: &[(&str, Code, &[&str])] = &[
    (
        "broken",
        Code::Invalid,
        &["does not compile", "CL_BUILD_PROGRAM_FAILURE (-11)", "broken.cl:3", "nobody_knows"],
    ),
    ("no file", Code::Invalid, &["expected a readable file \"nowhere/scale.cl\"", "No such file"]),
    (
        "no program",
        Code::Unsupported,
        &["expected a program for", "found 18 bytes that it does not take", "CL_INVALID_BINARY (-42)"],
    ),
    ("binary file", Code::Invalid, &["expected a readable file \"nowhere/at.bin\""]),
    ("no entry", Code::Invalid, &["expected a kernel `nobody` in the program, found", "CL_INVALID_"]),
    ("other", Code::Invalid, &["expected a kernel `scale` of 3 parameters (a, x, y), found one of 1"]),
    (
        "wrong size",
        Code::Invalid,
        &["argument `a`, parameter 0 of `scale`", "expected a `f32` by value", "found `double`"],
    ),
    (
        "runs",
        Code::Invalid,
        &["attribute `items_per_thread`: expected a cooperating kernel", "found one without `cooperating`"],
    ),
    ("attribute", Code::Invalid, &["attribute `cooperating`: expected true or false, found \"yes\""]),
    ("extension", Code::Unsupported, &["expected a device with cl_nobody_has"]),
];

#[test]
fn what_cannot_be_prepared_or_launched_says_why() {
    for device in devices("faults::what_cannot_be_prepared_or_launched_says_why") {
        for (name, code, words) in REFUSED {
            let (found, text) = refused(&device, name);
            assert_eq!(found, *code, "{device}, {name}: {text}");
            for word in *words {
                assert!(text.contains(word), "{device}, {name}: expected {word:?} in\n{text}");
            }
        }
    }
}

#[test]
fn parameters_above_the_limit_are_refused() {
    for device in devices("faults::parameters_above_the_limit_are_refused") {
        let rt = get_runtime(&device).unwrap();
        let out = FlashMemory::<u64>::zeroed(4);
        let (code, text) = of_backend(&rt.submit(Large::of([0; 1024], &out)).exec([4]).unwrap_err());
        assert_eq!(code, Code::Invalid);
        assert!(
            text.contains("expected parameters of up to") && text.contains("pass large values as an array"),
            "{text}"
        );
    }
}

#[test]
fn a_kernel_that_does_not_cooperate_runs_whole_launches_of_one_phase_and_nothing_else() {
    let devices =
        devices("faults::a_kernel_that_does_not_cooperate_runs_whole_launches_of_one_phase_and_nothing_else");
    for device in &devices {
        let rt = get_runtime(device).unwrap();
        let plain = |options: Attributes, dims: [Dim; 3]| {
            let out = FlashMemory::<u64>::zeroed([9, 7, 5]);
            rt.submit(Grid::of(&out)).options(options).options(Implementation::named("plain")).exec(dims)
        };
        let mut sorted = Attributes::default();
        sorted.set(sort_by(["z"]));
        let list = |values: &[u64]| [count_by(values.iter().copied()), 7.into(), 5.into()];
        let odd = [
            (plain(sorted, [9.into(), 7.into(), 5.into()]), "found 5 phases"),
            (plain(Attributes::default(), list(&[3, 1])), "not natural"),
            (plain(Attributes::default(), list(&[1, 3, 5])), "not natural"),
        ];
        for (outcome, word) in odd {
            let (code, text) = of_backend(&outcome.unwrap_err());
            assert_eq!(code, Code::Unsupported);
            assert!(text.contains("does not cooperate") && text.contains(word), "{device}: {text}");
        }
    }
    if let [one, other, ..] = &devices[..] {
        // It is not cut: one of them runs all of it.
        let rt = get_runtime(&format!("{one},{other}")).unwrap();
        let (x, y) = (FlashMemory::from(vec![1.0; 100]), FlashMemory::<f32>::zeroed(100));
        let options = (Implementation::named("plain"), weights([1, 1]));
        rt.submit(Scale::of(3.0, &x, &y)).options(options).exec([100]).unwrap();
        assert_eq!(*y.read().unwrap(), [3.0; 100]);
        // One that does not say what it needs is cut, and refuses.
        let options = (Implementation::named("wrong door"), weights([1, 1]));
        let cut = rt.submit(Scale::of(3.0, &x, &y)).options(options).exec([100]);
        let (_, text) = of_backend(&cut.unwrap_err());
        assert!(text.contains("found a part of a launch"), "{text}");
    }
}

#[test]
fn indices_of_more_than_32_bits_are_refused_where_the_kernel_has_no_more() {
    for device in devices("faults::indices_of_more_than_32_bits_are_refused_where_the_kernel_has_no_more") {
        let rt = get_runtime(&device).unwrap();
        let run = |name: &str| {
            let out = FlashMemory::<u32>::zeroed(4);
            let far = count_by([0u64, 1 << 33, 5]);
            rt.submit(Far::of(&out)).options(Implementation::named(name)).exec((4, far))
        };
        run("text").unwrap();
        let (code, text) = of_backend(&run("index32").unwrap_err());
        assert_eq!(code, Code::Invalid);
        assert!(text.contains("FLASH_INDEX32") && text.contains("reaches 8589934592"), "{device}: {text}");
        // The indices fit, but their number does not.
        let count = |dims: [u64; 3]| {
            let count = FlashMemory::from([0u64]);
            rt.submit(Many::of(&count)).exec(dims).map(|()| count.get(0).unwrap())
        };
        assert_eq!(count([20, 2, 3]).unwrap(), 2 * (10 + 11 + 12), "{device}");
        let (code, text) = of_backend(&count([1 << 16, 1 << 16, 2]).unwrap_err());
        assert_eq!(code, Code::Invalid);
        assert!(
            text.contains("FLASH_INDEX32") && text.contains("has 8589934592 work items"),
            "{device}: {text}"
        );
    }
}

#[test]
fn more_memory_than_the_device_has_is_an_error_and_the_next_launch_runs() {
    let name = "faults::more_memory_than_the_device_has_is_an_error_and_the_next_launch_runs";
    flash_tests::in_process_of(name, &[("FLASH_OPENCL_COPY", "1")], more_memory_than_the_device_has);
}

fn more_memory_than_the_device_has() {
    for device in devices("faults::more_memory_than_the_device_has_is_an_error_and_the_next_launch_runs") {
        let rt = get_runtime(&device).unwrap();
        let api = rt.devices()[0];
        let budget = api.memory_budget().unwrap();
        assert!(api.set_memory_budget(1 << 20));
        let cells = FlashMemory::<u64>::zeroed(1 << 20);
        let in_one_piece = rt.submit(Spread::of(&cells)).options(Subspaces(1));
        let error = in_one_piece.exec([1u64 << 20, 1]).unwrap_err().to_string();
        assert!(api.set_memory_budget(budget));
        assert!(error.contains("bytes"), "{device}: {error}");
        let cells = FlashMemory::<u64>::zeroed(1 << 20);
        rt.submit(Spread::of(&cells)).exec([1u64 << 20, 1]).unwrap();
        assert_eq!(cells.read().unwrap()[5], 5, "{device}");
    }
}

#[test]
fn an_array_beyond_the_limit_of_a_devices_buffers_is_an_error_that_names_it() {
    let name = "faults::an_array_beyond_the_limit_of_a_devices_buffers_is_an_error_that_names_it";
    for copies in ["0", "1"] {
        flash_tests::in_process_of(name, &[("FLASH_OPENCL_COPY", copies)], an_array_beyond_the_limit);
    }
}

fn an_array_beyond_the_limit() {
    for device in devices("faults::an_array_beyond_the_limit_of_a_devices_buffers_is_an_error_that_names_it")
    {
        let rt = get_runtime(&device).unwrap();
        let api = rt.devices()[0];
        let budget = api.memory_budget();
        let limits: serde_json::Value = serde_json::from_str(&api.query("limits").unwrap()).unwrap();
        let most = limits["buffer_bytes"].as_u64().unwrap();
        assert_eq!(api.set_memory_budget(u64::MAX), budget.is_some());
        // Zeros take no host memory.
        let n = most / 8 + 1;
        let (values, sum) = (FlashMemory::<u64>::zeroed(n as usize), FlashMemory::from([5u64]));
        let error = rt.submit(Total::of(&values, &sum)).exec([n]).unwrap_err().to_string();
        budget.into_iter().for_each(|budget| assert!(api.set_memory_budget(budget)));
        for word in ["clCreateBuffer", "CL_INVALID_BUFFER_SIZE (-61)", &format!("up to {most} bytes")] {
            assert!(error.contains(word), "{device}: {word} in {error}");
        }
        let (values, sum) = (FlashMemory::from([1u64, 2]), FlashMemory::from([5u64]));
        rt.submit(Total::of(&values, &sum)).exec([2]).unwrap();
        assert_eq!(sum.get(0).unwrap(), 8, "{device}");
    }
}

#[test]
fn a_range_that_a_device_cannot_begin_with_is_an_error_for_a_kernel_that_is_not_told() {
    let name = "faults::a_range_that_a_device_cannot_begin_with_is_an_error_for_a_kernel_that_is_not_told";
    flash_tests::in_process_of(name, &[("FLASH_OPENCL_COPY", "1")], || {
        for device in devices(name) {
            let rt = get_runtime(&device).unwrap();
            let (x, y) = (FlashMemory::from([1.0f32; 1000]), FlashMemory::<f32>::zeroed(1000));
            // One kernel for all of its launches.
            let plain = rt.options(Implementation::named("plain"));
            let run = |first: usize| {
                let (from, to) = (x.range(first..first + 100).unwrap(), y.range(first..first + 100).unwrap());
                plain.submit(Scale::of(3.0, from, to)).exec([100])
            };
            // The device has all of both, and so has the kernel.
            plain.submit(Scale::of(0.0, &x, &y)).exec([1000]).unwrap();
            run(512).unwrap();
            assert_eq!(y.read().unwrap()[511..514], [0.0, 3.0, 3.0], "{device}");
            let (code, text) = of_backend(&run(301).unwrap_err());
            assert_eq!(code, Code::Unsupported);
            assert!(
                text.contains("at byte 1204 of a buffer, where the device needs a multiple of"),
                "{text}"
            );
            let (x, y) = (FlashMemory::from([1.0f32; 10]), FlashMemory::<f32>::zeroed(10));
            rt.submit(Scale::of(2.0, &x, &y)).options(Implementation::named("text")).exec([10]).unwrap();
            assert_eq!(*y.read().unwrap(), [2.0; 10], "{device}");
        }
    });
}
