//! Binaries: of another device, FPGAs' images, SPIR-V; and the number of times that a program is loaded.

use crate::devices;
use crate::faults::of_backend;
use crate::kernels::{Scale, TEXT, source};
use crate::{Objects, spirv};
use flash::prelude::*;
use flash_backend::offload::KernelSpec;
use flash_core::Code;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use std::path::Path;

/// The program of `Scale` for a device, by its id, as OpenCL gives it.
pub fn binary_for(device: &str) -> Vec<u8> {
    let name = get_runtime(device).unwrap().devices()[0].info().name.clone();
    let implementation = source::<Scale<'_>>("offline", serde_json::json!({ "cooperating": true }));
    let text = KernelSpec::read(implementation).unwrap().source(TEXT);
    let platforms = get_platforms().unwrap();
    let mut ids = platforms.iter().flat_map(|p| p.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default());
    let id = ids.find(|&id| Device::new(id).name().is_ok_and(|found| found.trim() == name)).unwrap();
    let context = Context::from_device(&Device::new(id)).unwrap();
    let program = Program::create_and_build_from_source(&context, &text, "").unwrap();
    program.get_binaries().unwrap().remove(0)
}

/// Runs `Scale` with a file and looks at its result.
fn run(rt: &RuntimeObj, code: Implementation) -> Result<(), flash::Error> {
    let (x, y) = (FlashMemory::from(vec![2.0f32; 100]), FlashMemory::from(vec![1.0f32; 100]));
    rt.submit(Scale::of(3.0, &x, &y)).options(code).exec([100])?;
    assert_eq!(*y.read().unwrap(), [7.0; 100], "{rt:?}");
    Ok(())
}

fn cooperating(file: &Path) -> Implementation {
    Implementation::file(file, "scale").cooperating()
}

#[test]
fn a_binary_runs_where_it_was_made_for_and_elsewhere_it_is_an_error_or_another_gets_it() {
    let all = devices(
        "binaries::a_binary_runs_where_it_was_made_for_and_elsewhere_it_is_an_error_or_another_gets_it",
    );
    let place = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for made_for in &all {
        let file = place.path().join(format!("{}.bin", made_for.replace(':', "-")));
        std::fs::write(&file, binary_for(made_for)).unwrap();
        for device in &all {
            let rt = get_runtime(device).unwrap();
            match run(&rt, cooperating(&file)) {
                Ok(()) => {}
                Err(error) => {
                    let (code, text) = of_backend(&error);
                    assert!(device != made_for && code == Code::Unsupported, "{device}: {text}");
                    for word in
                        ["expected a program for", &rt.devices()[0].info().name, "CL_INVALID_BINARY (-42)"]
                    {
                        assert!(text.contains(word), "{made_for} on {device}: {word} in {text}");
                    }
                    refused += 1;
                }
            }
        }
        // Of several devices, those that take it get it.
        run(&get_runtime(&all.join(",")).unwrap(), cooperating(&file)).unwrap();
    }
    assert!(all.len() < 2 || refused > 0, "every device takes every other's binaries");
}

#[test]
fn an_image_is_for_fpgas() {
    let all = devices("binaries::an_image_is_for_fpgas");
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("scale.aocx");
    for device in all {
        std::fs::write(&file, binary_for(&device)).unwrap();
        let outcome = run(&get_runtime(&device).unwrap(), cooperating(&file));
        match device.starts_with("INTEL_FPGA") {
            true => outcome.unwrap(),
            false => {
                let (code, text) = of_backend(&outcome.unwrap_err());
                assert!(
                    code == Code::Unsupported && text.contains("expected an FPGA for"),
                    "{device}: {text}"
                );
            }
        }
    }
}

#[test]
fn spir_v_runs_where_the_device_takes_it() {
    let all = devices("binaries::spir_v_runs_where_the_device_takes_it");
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("scale.spv");
    std::fs::write(&file, spirv::scale()).unwrap();
    for device in all {
        let rt = get_runtime(&device).unwrap();
        let outcome = run(&rt, Implementation::file(&file, "scale_plain"));
        match rt.devices()[0].info().features.split(',').any(|feature| feature == "spir-v") {
            true => outcome.unwrap(),
            false => {
                let (code, text) = of_backend(&outcome.unwrap_err());
                assert_eq!(code, Code::Unsupported);
                assert!(text.contains("expected a device that takes SPIR-V"), "{device}: {text}");
            }
        }
    }
}

#[test]
fn kernels_of_one_binary_share_its_program() {
    // No program is loaded from disk meanwhile.
    flash_tests::in_process(&[("FLASH_CACHE_LIMIT", "0")], || {
        let place = tempfile::tempdir().unwrap();
        for device in devices("binaries::kernels_of_one_binary_share_its_program") {
            let file = place.path().join("scale.bin");
            std::fs::write(&file, binary_for(&device)).unwrap();
            let rt = get_runtime(&device).unwrap();
            // The definition's own implementations are prepared in any case.
            rt.preload::<Scale<'static>>().unwrap();
            let before = Objects::of(&device, "programs");
            for _ in 0..3 {
                // Each is prepared anew.
                run(&get_runtime(&device).unwrap(), cooperating(&file)).unwrap();
                run(&rt, cooperating(&file)).unwrap();
            }
            assert_eq!(Objects::of(&device, "programs").made - before.made, 1, "{device}");
            assert!(Objects::of(&device, "kernels").made >= 6, "{device}");
        }
    });
}
