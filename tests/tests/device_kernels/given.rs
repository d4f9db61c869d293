//! Code that a program gives at run time, as a file or as text.

use crate::choice::Scale;
use crate::{devices, ran, with_cpu};
use flash::kernel::views::{Item, ReadWrite};
use flash::prelude::*;
use flash_tests::plugins::{self, Language};

/// Nothing implements it.
#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.bare", dims(x), part_by(x))]
struct Bare<'a> {
    add: i32,
    x: Item<'a, ReadWrite<i32>>,
}

/// Runs whole launches only.
const PLAIN: &str =
    "__kernel void plus(int add, __global int *x) { x[get_global_id(0)] += add + (int)get_global_id(0); }";

/// Runs any launch.
const COOPERATING: &str = "FLASH_KERNEL plus(int add, FLASH_GLOBAL int *x, FLASH_ARGS) {
    FLASH_FOR_ITEMS { FLASH_AT(x, FLASH_INDEX(0)) += add + (int)FLASH_INDEX(0); }
}";

const N: usize = 1000;

fn array() -> FlashMemory<i32> {
    (0..N as i32).map(|i| 10 * i).collect()
}

fn is_right(x: &FlashMemory<i32>) -> bool {
    x.read().unwrap().iter().zip(0..).all(|(&x, i)| x == 11 * i + 5)
}

#[test]
fn source_text_and_files_run_on_the_devices_that_take_them_and_the_cpu_is_left_out() {
    let devices =
        devices("given::source_text_and_files_run_on_the_devices_that_take_them_and_the_cpu_is_left_out");
    if devices.is_empty() {
        return;
    }
    let place = plugins::directory();
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let [plain, cooperating] = [file("plain.cl", PLAIN), file("cooperating.cl", COOPERATING)];
    let (rt, profile) = (with_cpu(&devices), Profile::new());
    for code in [Implementation::source(PLAIN, "plus"), Implementation::file(&plain, "plus")] {
        let rt = get_runtime(&devices[0]).unwrap();
        let x = array();
        rt.submit(Bare::of(5, &x)).options((&profile, code)).exec([N]).unwrap();
        assert!(is_right(&x));
        assert_eq!(ran(&profile), [format!("{} plus", devices[0])]);
    }
    for code in [Implementation::source(COOPERATING, "plus"), Implementation::file(&cooperating, "plus")] {
        let x = array();
        let options = (&profile, code.cooperating(), weights(devices.iter().map(|_| 1)));
        rt.submit(Bare::of(5, &x)).options(options).exec([N]).unwrap();
        assert!(is_right(&x));
        let mut expected: Vec<String> = devices.iter().map(|device| format!("{device} plus")).collect();
        expected.sort();
        assert_eq!(ran(&profile), expected);
    }
}

#[test]
fn a_shared_library_runs_on_the_cpu_and_devices_are_left_out() {
    let devices = devices("given::a_shared_library_runs_on_the_cpu_and_devices_are_left_out");
    if devices.is_empty() {
        return;
    }
    let place = plugins::directory();
    let library = place.path().join("libplus.so");
    let text = "#include \"flash_device.h\"
        int plus(FLASH_ARGS) {
            FLASH_FOR_ITEMS { FLASH_AT(int, 1, FLASH_INDEX(0)) += FLASH_SCALAR(int, 0) + (int)FLASH_INDEX(0); }
            return 0;
        }";
    plugins::shared(Language::C, text, &[], &library);
    let (x, profile) = (array(), Profile::new());
    let code = || Implementation::file(&library, "plus");
    with_cpu(&devices).submit(Bare::of(5, &x)).options((&profile, code())).exec([N]).unwrap();
    assert!(is_right(&x));
    assert_eq!(ran(&profile), ["ALL_CPU:0 plus"]);

    let error = get_runtime(&devices[0]).unwrap().submit(Bare::of(5, &x)).options(code()).exec([N]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("libplus.so") && error.contains("this is a shared library"), "{error}");
    // Of several that cannot run it each is named.
    let misspelt =
        with_cpu(&devices).submit(Bare::of(5, &x)).options(Implementation::file(&library, "minus"));
    let error = misspelt.exec([N]).unwrap_err().to_string();
    for part in ["ALL_CPU:0", "expected a function `minus`", &devices[0], "this is a shared library"] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn code_that_cannot_be_used_is_an_error_that_says_why_and_the_runtime_goes_on() {
    for device in devices("given::code_that_cannot_be_used_is_an_error_that_says_why_and_the_runtime_goes_on")
    {
        let rt = get_runtime(&device).unwrap();
        let place = plugins::directory();
        let broken = place.path().join("broken.cl");
        std::fs::write(&broken, "\n__kernel void plus(int add, __global int *x) { x[0] = nothing; }")
            .unwrap();
        let missing = place.path().join("missing.cl");
        let x = array();
        for (code, parts) in [
            (Implementation::file(&broken, "plus"), &["broken.cl", "nothing"][..]),
            (Implementation::file(&missing, "plus"), &["missing.cl"]),
            (Implementation::source(PLAIN, "minus"), &["minus", "plus"]),
            (Implementation::source(PLAIN, "plus").cooperating(), &["plus", "FLASH_ARGS"]),
        ] {
            let error = rt.submit(Bare::of(5, &x)).options(code.clone()).exec([N]).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{device}, {code:?}: {part} in {error}");
            }
        }
        rt.submit(Bare::of(5, &x)).options(Implementation::source(PLAIN, "plus")).exec([N]).unwrap();
        assert!(is_right(&x), "{device}");
        let scaled = FlashMemory::from([3.0f32]);
        rt.submit(Scale::of(2.0, &scaled)).exec([1]).unwrap();
        assert_eq!(scaled.get(0).unwrap(), 6.0);
    }
}

#[test]
fn a_file_for_another_kind_of_device_is_not_read_and_the_error_lists_what_is() {
    for device in devices("given::a_file_for_another_kind_of_device_is_not_read_and_the_error_lists_what_is")
    {
        let (rt, x) = (get_runtime(&device).unwrap(), array());
        for file in ["nowhere/plus.cu", "nowhere/plus.ptx", "nowhere/plus"] {
            let error = rt.submit(Bare::of(5, &x)).options(Implementation::file(file, "plus")).exec([N]);
            let error = error.unwrap_err();
            let flash::Error::Backend { code, text, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*code, flash_core::Code::Unsupported);
            assert!(text.contains(file) && text.contains(".cl, .c, .aocx, .bin, .spv"), "{text}");
        }
    }
}

#[test]
fn a_function_that_does_not_cooperate_refuses_an_order_and_parts() {
    let devices = devices("given::a_function_that_does_not_cooperate_refuses_an_order_and_parts");
    let plain = || Implementation::source(PLAIN, "plus");
    for device in &devices {
        let (rt, x) = (get_runtime(device).unwrap().options(plain()), array());
        let sorted = rt.submit(Bare::of(5, &x)).options(sort_by(["x"])).exec([N]);
        let error = sorted.unwrap_err().to_string();
        assert!(error.contains("cooperating"), "{device}: {error}");
        x.write().unwrap().iter_mut().zip(0..).for_each(|(x, i)| *x = 10 * i);
        rt.submit(Bare::of(5, &x)).exec([N]).unwrap();
        assert!(is_right(&x), "{device}");
    }
    if devices.len() > 1 {
        let (rt, x) = (get_runtime(&devices.join(",")).unwrap(), array());
        let shares = weights(devices.iter().map(|_| 1));
        let error = rt.submit(Bare::of(5, &x)).options((plain(), shares)).exec([N]).unwrap_err().to_string();
        assert!(error.contains("cooperating"), "{error}");
    }
}
