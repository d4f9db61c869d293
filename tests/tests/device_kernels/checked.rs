//! The settings `check_bounds` and `check_maps`: an index of `FLASH_AT` outside its array, or outside the box
//! of a part, is an error of the launch that names it, and nothing outside is touched.

use crate::of_keys;
use flash::Error;
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Sum, Whole, Window, Write};
use flash::kernel::{Boxes, Candidate, partition_map};
use flash::prelude::*;
use flash_core::Code;
use flash_tests::emulated;
use std::process::Command;

/// The devices, in processes with the setting in which the test is run again; none here.
fn checked(test: &str) -> Vec<String> {
    with_setting(test, "FLASH_CHECK_BOUNDS")
}

fn with_setting(test: &str, variable: &str) -> Vec<String> {
    if std::env::var_os(variable).is_some() {
        let keys: &[&str] = if emulated::has_driver() { &["NVIDIA_GPU"] } else { &["OPENCL", "INTEL_FPGA"] };
        return of_keys(test, keys);
    }
    let mut kinds = vec![Vec::new()];
    match flash_backend_cuda::nvrtc::version() {
        Some(_) => kinds.push(emulated::environment()),
        None => flash_tests::skip(test, "no CUDA compiler: `cargo xtask setup` downloads it"),
    }
    for environment in kinds {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(variable, "1");
        let output = command.envs(environment).output().unwrap();
        let text = flash_tests::plugins::text_of(&output);
        assert!(output.status.success() && text.contains("1 passed"), "{test}: {text}");
    }
    Vec::new()
}

/// to[at] = from[at + i] + 1
#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.shift", dims(i))]
struct Shift<'a> {
    by: i64,
    from: Whole<'a, Read<f32>>,
    rows: Whole<'a, Read<[f32; 3]>>,
    to: Item<'a, ReadWrite<f32>>,
}

const SHIFT: &str = "#ifdef __CUDACC__
typedef long long i64;
#else
typedef long i64;
#endif
FLASH_KERNEL shift(const i64 by, FLASH_GLOBAL const float *from, FLASH_GLOBAL const float *rows,
                   FLASH_GLOBAL float *to, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const i64 i = (i64)FLASH_INDEX(0);
        FLASH_AT(to, i) = FLASH_AT(from, i + by) + FLASH_AT(rows, 3 * i + 2);
    }
}
";

fn shifted(device: &str, by: i64, text: &str) -> Result<Vec<f32>, Error> {
    // What lies around the arrays of a launch.
    let all = FlashMemory::from(vec![1.0f32; 300]);
    let (rows, to) = (FlashMemory::from(vec![[0.0, 0.0, 2.0f32]; 100]), FlashMemory::from(vec![7.0f32; 300]));
    let kernel = Shift::of(by, all.range(100..200)?, &rows, to.range(100..200)?);
    let done = get_runtime(device)?
        .submit(kernel)
        .options(Implementation::source(text, "shift").cooperating())
        .exec([100]);
    for around in [to.read_range(..100)?, to.read_range(200..)?] {
        assert!(around.iter().all(|x| *x == 7.0), "{device}: what lies around it was touched");
    }
    done.and_then(|()| Ok(to.read()?[100..200].to_vec()))
}

/// Code and text of the error of a launch.
fn told(error: &Error) -> (Code, String) {
    match error.cause() {
        Error::Backend { code, text, .. } => (*code, text.clone()),
        other => panic!("expected an error of the backend, found {other}"),
    }
}

#[test]
fn an_index_outside_is_an_error_that_names_the_argument_and_the_next_launch_runs() {
    for device in
        checked("checked::an_index_outside_is_an_error_that_names_the_argument_and_the_next_launch_runs")
    {
        for (by, index) in
            [(100, 100..200), (-100, -100..0), (1 << 40, 1 << 40..(1 << 40) + 100), (1, 100..101)]
        {
            assert_eq!(shifted(&device, 0, SHIFT).unwrap(), [3.0; 100], "{device}");
            let (code, text) = told(&shifted(&device, by, SHIFT).unwrap_err());
            assert_eq!(code, Code::Kernel, "{device}: {text}");
            for part in [
                "`device_kernels.shift`",
                "argument `from`",
                "from 0 up to, and without, 100",
                "kernel `shift`",
            ] {
                assert!(text.contains(part), "{device}: {part} in {text}");
            }
            let found = text.split("found ").nth(1).and_then(|rest| rest.split(':').next()).unwrap();
            assert!(index.contains(&found.parse::<i64>().unwrap()), "{device}: {text}");
        }
        // Written, and counted in parts of an element.
        let (code, text) = told(&shifted(&device, 0, &SHIFT.replace("(to, i)", "(to, i - 1)")).unwrap_err());
        assert!(
            code == Code::Kernel && text.contains("argument `to`") && text.contains("found -1"),
            "{device}: {text}"
        );
        let (_, text) = told(&shifted(&device, 0, &SHIFT.replace("3 * i + 2", "3 * i + 3")).unwrap_err());
        assert!(
            text.contains("argument `rows`") && text.contains("without, 300") && text.contains("4 bytes"),
            "{text}"
        );
        assert_eq!(shifted(&device, 0, SHIFT).unwrap(), [3.0; 100], "{device}");
    }
}

/// Every cell becomes its right neighbour; a sum per value modulo 4.
#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.steps", dims(i, step), sort_by(step))]
struct Steps<'a> {
    reach: u64,
    #[along(i)]
    cells: Phased<'a, u64>,
}

const STEPS: &str = "FLASH_KERNEL steps(const flash_u64 reach, FLASH_GLOBAL const flash_u64 *cells,
                   FLASH_GLOBAL flash_u64 *cells_next, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        FLASH_NEXT(cells, FLASH_PHASE() == 3 ? i + reach : i) = FLASH_AT(cells, (i + 1) % FLASH_LEN(cells)) + 1;
    }
}
";

#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.bins", dims(i), part_by(i))]
struct Bins<'a> {
    bins: u64,
    values: Item<'a, Read<u64>>,
    sums: Reduce<'a, ReadWrite<[u64]>, Sum>,
}

const BINS: &str = "FLASH_KERNEL bins(const flash_u64 bins, FLASH_GLOBAL const flash_u64 *values,
                   FLASH_GLOBAL flash_u64 *sums, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 value = FLASH_AT(values, FLASH_INDEX(0));
        FLASH_REDUCE(sums, value % bins) += value;
    }
}
";

#[test]
fn phases_and_accumulators_are_checked_too() {
    for device in checked("checked::phases_and_accumulators_are_checked_too") {
        let rt = get_runtime(&device).unwrap();
        let run = |reach: u64, steps: u64| {
            let cells: FlashMemory<u64> = (0..50).collect();
            let code = Implementation::source(STEPS, "steps").cooperating();
            rt.submit(Steps::of(reach, &cells))
                .options(code)
                .exec((50, steps))
                .map(|()| cells.read().unwrap().to_vec())
        };
        let expected: Vec<u64> = (0..50).map(|i| (i + 6) % 50 + 6).collect();
        assert_eq!(run(0, 6).unwrap(), expected, "{device}");
        let (_, text) = told(&run(1, 6).unwrap_err());
        assert!(text.contains("argument `cells`") && text.contains("found 50"), "{device}: {text}");
        let run = |bins: u64| {
            let (values, sums) = ((0..5000u64).collect::<FlashMemory<u64>>(), FlashMemory::<u64>::zeroed(4));
            let code = Implementation::source(BINS, "bins").cooperating();
            rt.submit(Bins::of(bins, &values, &sums))
                .options(code)
                .exec([5000])
                .map(|()| sums.read().unwrap().to_vec())
        };
        let sum = |bin: u64| (0..5000).filter(|value| value % 4 == bin).sum::<u64>();
        assert_eq!(run(4).unwrap(), [0, 1, 2, 3].map(sum), "{device}");
        let (_, text) = told(&run(5).unwrap_err());
        assert!(
            text.contains("argument `sums`") && text.contains("without, 4") && text.contains("found 4"),
            "{device}: {text}"
        );
    }
}

/// to[i] = from[i + reach], for which the map is right if the reach is at most 1.
#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.reach", dims(i), part_by(i, map = NEXT))]
struct Reach<'a> {
    reach: u64,
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

partition_map! {
    static NEXT = "device_kernels.next": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let i = at.values("i");
        boxes.set("from", i.start..(i.end + 1).min(at.shape("from")[0]));
    };
}

const REACH: &str = "FLASH_KERNEL reach(const flash_u64 reach, FLASH_GLOBAL const flash_u64 *from,
                   FLASH_GLOBAL flash_u64 *to, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        FLASH_AT(to, i) = FLASH_AT(from, i + reach < 120 ? i + reach : i);
    }
}
";

#[test]
fn a_part_that_reads_outside_the_box_of_its_map_is_an_error_on_one_device_too() {
    let test = "checked::a_part_that_reads_outside_the_box_of_its_map_is_an_error_on_one_device_too";
    for device in with_setting(test, "FLASH_CHECK_MAPS") {
        let rt = get_runtime(&device).unwrap();
        let run = |reach: u64| {
            let (from, to) = ((0..120u64).collect::<FlashMemory<u64>>(), FlashMemory::<u64>::zeroed(120));
            let code = Implementation::source(REACH, "reach").cooperating();
            rt.submit(Reach::of(reach, &from, &to)).options(code).exec([120]).map(|()| to.get(7).unwrap())
        };
        assert_eq!(run(1).unwrap(), 8, "{device}");
        let (code, text) = told(&run(2).unwrap_err());
        assert!(code == Code::Kernel && text.contains("argument `from`"), "{device}: {text}");
        assert_eq!(run(0).unwrap(), 7, "{device}");
    }
}
