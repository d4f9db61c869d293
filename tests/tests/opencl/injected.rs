//! Calls that fail on a device that otherwise works. Between the backend and the system's OpenCL is a library
//! (`tests/c/opencl_faults.c`) whose functions fail when a file says so.

use crate::devices;
use crate::faults::of_backend;
use crate::kernels::{Scale, Wrap};
use flash::prelude::*;
use flash_core::Code;
use flash_tests::plugins::{self, Language, c_source, in_child, is_child};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

fn scales(rt: &RuntimeObj) -> Result<(), flash::Error> {
    scales_so_many(rt, 1000)
}

/// A larger size each time, so that something is allocated.
fn scales_more(rt: &RuntimeObj) -> Result<(), flash::Error> {
    static TURN: AtomicI32 = AtomicI32::new(0);
    scales_so_many(rt, (2000.0 * 1.25f64.powi(TURN.fetch_add(1, Relaxed))) as usize)
}

fn scales_so_many(rt: &RuntimeObj, n: usize) -> Result<(), flash::Error> {
    let (x, y) = (FlashMemory::from(vec![2.0f32; n]), FlashMemory::from(vec![1.0f32; n]));
    rt.submit(Scale::of(3.0, &x, &y)).exec([n])?;
    assert!(y.read()?.iter().all(|&y| y == 7.0), "{rt:?}");
    Ok(())
}

/// More phases than the backend enqueues before it waits for their end.
fn wraps(rt: &RuntimeObj) -> Result<(), flash::Error> {
    let cells = FlashMemory::from([0u64, 0, 0]);
    rt.submit(Wrap::of(&cells)).exec([3u64, 5_000])?;
    assert_eq!(*cells.read()?, [5_000; 3], "{rt:?}");
    Ok(())
}

/// A call, the code that it returns, and how many times; the function to run, and the expected error.
type Fault = (&'static str, i32, u32, fn(&RuntimeObj) -> Result<(), flash::Error>, Code, &'static str);

const FAULTS: &[Fault] = &[
    ("clFinish", -5, 1, wraps, Code::OutOfMemory, "clFinish: CL_OUT_OF_RESOURCES (-5)"),
    ("clFinish", -36, 1, wraps, Code::Invalid, "clFinish: CL_INVALID_COMMAND_QUEUE (-36)"),
    (
        "clEnqueueNDRangeKernel",
        -54,
        1,
        scales,
        Code::Invalid,
        "work items in groups of Some([256, 1, 1]): clEnqueueNDRangeKernel: CL_INVALID_WORK_GROUP_SIZE (-54)",
    ),
    (
        "clEnqueueNDRangeKernel",
        -2,
        1,
        scales,
        Code::DeviceLost,
        "clEnqueueNDRangeKernel: CL_DEVICE_NOT_AVAILABLE (-2)",
    ),
    (
        "clEnqueueWriteBuffer",
        -5,
        1,
        scales,
        Code::OutOfMemory,
        "clEnqueueWriteBuffer: CL_OUT_OF_RESOURCES (-5)",
    ),
    (
        "clEnqueueReadBuffer",
        -5,
        1,
        scales,
        Code::OutOfMemory,
        "clEnqueueReadBuffer: CL_OUT_OF_RESOURCES (-5)",
    ),
    (
        "clWaitForEvents",
        -5,
        1,
        scales,
        Code::OutOfMemory,
        "a command in the device's queue: CL_OUT_OF_RESOURCES (-5)",
    ),
    // After the phases of a launch, whose end is that of the marker.
    (
        "clEnqueueMarkerWithWaitList",
        -5,
        1,
        wraps,
        Code::OutOfMemory,
        "clEnqueueMarkerWithWaitList: CL_OUT_OF_RESOURCES (-5)",
    ),
    // Repeatedly: the runtime frees its caches, and then whatever else it can.
    (
        "clCreateBuffer",
        -4,
        1000,
        scales_more,
        Code::OutOfMemory,
        "the device has less, and says: clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)",
    ),
];

/// Launches go to the device in batches, which end together: a failure is reported for all of its batch, and
/// for no other.
fn fails_by_batches(rt: &RuntimeObj, file: &Path) {
    // Three batches, and eight more.
    const LAUNCHES: usize = 3 * 256 + 8;
    let n = 1000;
    let (x, y) = (FlashMemory::from(vec![1.0f32; n]), FlashMemory::from(vec![0.0f32; n]));
    let one = |p: Pipeline<'static>, _| p.submit(Scale::of(1.0, x.clone(), y.clone())).defer([n]);
    let chain = (0..LAUNCHES).fold(rt.pipeline(), one);
    // The arrays are on the device after it.
    chain.exec().unwrap();
    std::fs::write(file, "clWaitForEvents -5 1").unwrap();
    let Err(flash::Error::Launch(error)) = chain.exec() else { panic!("{rt:?}: nothing failed") };
    assert!(!file.exists(), "{rt:?}: nothing waited");
    let positions: Vec<usize> = std::iter::once(error.position())
        .chain(error.others().iter().map(|other| other.position()))
        .collect();
    assert_eq!(positions, (LAUNCHES - 8..LAUNCHES).collect::<Vec<_>>(), "{rt:?}: {error}");
    let text = "one of 8 commands in the device's queue, which went off together: CL_OUT_OF_RESOURCES (-5)";
    assert!(error.to_string().contains(text), "{rt:?}: {error}");
    y.write().unwrap().fill(0.0);
    chain.exec().unwrap();
    assert!(y.read().unwrap().iter().all(|&y| y == LAUNCHES as f32));
}

fn check(file: &Path) {
    for device in devices("injected::calls_that_fail_are_errors_with_their_codes_and_the_runtime_goes_on") {
        let rt = get_runtime(&device).unwrap();
        // A failure for want of memory at the first use of a device or a kernel is tried again.
        for (call, run) in [("clCreateContext", scales as fn(&_) -> _), ("clBuildProgram", wraps)] {
            std::fs::write(file, format!("{call} -6 1000")).unwrap();
            let error = run(&rt).expect_err(call).to_string();
            assert!(
                error.contains(call) && error.contains("CL_OUT_OF_HOST_MEMORY (-6)"),
                "{device}: {error}"
            );
            std::fs::remove_file(file).unwrap();
            run(&rt).unwrap();
        }
        scales(&rt).unwrap();
        wraps(&rt).unwrap();
        for &(call, code, times, run, kind, text) in FAULTS {
            std::fs::write(file, format!("{call} {code} {times}")).unwrap();
            let failed = run(&rt);
            let left = std::fs::read_to_string(file).unwrap_or_default();
            assert_ne!(left, format!("{call} {code} {times}"), "{device}: it was not called: {failed:?}");
            let _ = std::fs::remove_file(file);
            let error = failed.expect_err(call);
            let (found, said) = match &error {
                flash::Error::DeviceMemory(why) => (Code::OutOfMemory, why.to_string()),
                flash::Error::Launch(launch) if matches!(launch.cause(), flash::Error::DeviceMemory(_)) => {
                    (Code::OutOfMemory, error.to_string())
                }
                other => of_backend(other),
            };
            assert!(found == kind && said.contains(text), "{device}, {call} {code}: {found:?}, {said}");
            scales(&rt).unwrap();
        }
        fails_by_batches(&rt, file);
        // One refused allocation costs only the caches.
        std::fs::write(file, "clCreateBuffer -4 1").unwrap();
        scales_more(&rt).unwrap();
        assert!(!file.exists(), "{device}: nothing was allocated");
    }
}

#[test]
fn calls_that_fail_are_errors_with_their_codes_and_the_runtime_goes_on() {
    let test = "injected::calls_that_fail_are_errors_with_their_codes_and_the_runtime_goes_on";
    if !is_child() && devices(test).is_empty() {
        return;
    }
    let place = plugins::directory();
    let file = place.path().join("fault");
    let loader = || {
        let link = ["-Wl,--no-as-needed", "-l:libOpenCL.so.1"];
        plugins::shared(
            Language::C,
            &c_source("opencl_faults.c"),
            &link,
            &place.path().join("libOpenCL-faults.so"),
        )
    };
    let variables = || {
        vec![
            ("OPENCL_DYLIB_PATH", loader().into_os_string()),
            ("FLASH_TEST_FAULT", file.clone().into_os_string()),
            ("FLASH_OPENCL_COPY", "1".into()),
            // No program is loaded from disk meanwhile.
            ("FLASH_CACHE_LIMIT", "0".into()),
        ]
    };
    in_child("", variables, || check(Path::new(&std::env::var_os("FLASH_TEST_FAULT").unwrap())));
}
