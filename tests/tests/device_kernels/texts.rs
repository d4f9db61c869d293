//! Texts that a program gives: their parameters, what they include, how they are compiled, and texts that
//! cannot be kernels.

use crate::devices_of_all_kinds;
use flash::kernel::views::{Item, Read, ReadWrite, Scatter, Whole};
use flash::prelude::*;
use flash_tests::plugins;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// y += a x + n
#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.axpy", dims(i), part_by(i))]
struct Axpy<'a> {
    a: f32,
    n: u32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

/// What each language calls the same things in kernels that know nothing of FLASH.
const BOTH: &str = "#ifdef __CUDACC__
#define KERNEL extern \"C\" __global__ void
#define GLOBAL
#define LOCAL __shared__
#define ID (blockIdx.x * blockDim.x + threadIdx.x)
#define half __half
struct __half { unsigned short bits; };
#else
#define KERNEL __kernel void
#define GLOBAL __global
#define LOCAL __local
#define ID get_global_id(0)
#endif
";

const N: usize = 64;

/// The result of a launch, which is 1 + 3 * 2 + 5 everywhere if all is right.
fn axpy(device: &str, code: Implementation) -> Result<Vec<f32>, String> {
    let rt = get_runtime(device).unwrap();
    let (x, y) = (FlashMemory::from(vec![2.0f32; N]), FlashMemory::from(vec![1.0f32; N]));
    let done = rt.submit(Axpy::of(3.0, 5, &x, &y)).options(code).exec([N]);
    done.map_err(|error| error.to_string())?;
    Ok(y.read().unwrap().to_vec())
}

fn check(device: &str, code: Implementation) {
    assert_eq!(axpy(device, code.clone()), Ok(vec![12.0; N]), "{device}: {code:?}");
}

fn refused(device: &str, code: Implementation, parts: &[&str]) {
    let error = axpy(device, code).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{device}: {part} in {error}");
    }
}

/// A kernel with these parameters.
fn plain(parameters: &str) -> Implementation {
    Implementation::source(format!("{BOTH}KERNEL axpy({parameters}) {{ y[ID] += a * x[ID] + n; }}\n"), "axpy")
}

#[test]
fn parameters_that_cannot_take_their_arguments_are_refused_by_name_and_type() {
    for device in devices_of_all_kinds(
        "texts::parameters_that_cannot_take_their_arguments_are_refused_by_name_and_type",
    ) {
        let rows: [(&str, &str, &[&str]); 6] = [
            // It wrote beyond the array.
            (
                "float a, unsigned n, GLOBAL const float *x, GLOBAL double *y",
                "y",
                &["parameter 3 of `axpy`: expected a pointer to `f32`", "found `double"],
            ),
            // Values of one size.
            (
                "unsigned n, float a, GLOBAL const float *x, GLOBAL float *y",
                "a",
                &["parameter 0", "expected a `f32` by value", "found `u"],
            ),
            (
                "float a, int n, GLOBAL const int *x, GLOBAL float *y",
                "x",
                &["parameter 2", "a pointer to `f32`", "found `int"],
            ),
            (
                "float a, GLOBAL const unsigned *n, GLOBAL const float *x, GLOBAL float *y",
                "n",
                &["parameter 1", "`u32` by value", "found `u"],
            ),
            (
                "float a, unsigned n, long x, GLOBAL float *y",
                "x",
                &["parameter 2", "a pointer to `f32`", "found `long`"],
            ),
            (
                "double a, unsigned n, GLOBAL const float *x, GLOBAL float *y",
                "a",
                &["parameter 0", "`f32` by value", "found `double`"],
            ),
        ];
        for (parameters, argument, parts) in rows {
            let argument = format!("argument `{argument}`");
            let parts = [&[&*argument], parts].concat();
            let text = format!("{BOTH}KERNEL axpy({parameters}) {{ }}\n");
            refused(&device, Implementation::source(text, "axpy"), &parts);
            let text = format!("{BOTH}KERNEL axpy({parameters}, FLASH_ARGS) {{ }}\n");
            refused(&device, Implementation::source(text, "axpy").cooperating(), &parts);
        }
        check(&device, plain("float a, unsigned n, GLOBAL const float *x, GLOBAL float *y"));
    }
}

#[test]
fn arguments_in_another_order_are_refused_where_names_are_told() {
    for device in devices_of_all_kinds("texts::arguments_in_another_order_are_refused_where_names_are_told") {
        if device.starts_with("NVIDIA_GPU") {
            continue;
        }
        let swapped = "float a, unsigned n, GLOBAL float *y, GLOBAL float *x";
        refused(
            &device,
            plain(swapped),
            &["argument `x`, parameter 2 of `axpy`", "expected `x`", "found `y`", "in their order"],
        );
        let swapped = "float b, unsigned n, FLASH_GLOBAL float *y, FLASH_GLOBAL float *x";
        let text = format!(
            "FLASH_KERNEL axpy({swapped}, FLASH_ARGS) {{ FLASH_FOR_ITEMS {{ FLASH_AT(y, FLASH_INDEX(0)) += b * n; }} }}"
        );
        refused(
            &device,
            Implementation::source(text, "axpy").cooperating(),
            &["argument `x`, parameter 2", "found `y`"],
        );
        // Names of their own are no other order.
        let text = format!(
            "{BOTH}KERNEL axpy(float x, unsigned k, GLOBAL const float *in, GLOBAL float *a) {{ a[ID] += x * in[ID] + k; }}"
        );
        check(&device, Implementation::source(text, "axpy"));
    }
}

#[test]
fn the_same_text_is_looked_at_for_each_definition() {
    /// The same for other elements.
    #[derive(KernelDefinition)]
    #[kernel(name = "device_kernels.axpy", dims(i))]
    struct Other<'a> {
        a: f32,
        n: u32,
        x: Item<'a, Read<f32>>,
        y: Item<'a, ReadWrite<u64>>,
    }
    for device in devices_of_all_kinds("texts::the_same_text_is_looked_at_for_each_definition") {
        let code = || plain("float a, unsigned n, GLOBAL const float *x, GLOBAL float *y");
        check(&device, code());
        let (x, y) = (FlashMemory::from(vec![2.0f32; N]), FlashMemory::<u64>::zeroed(N));
        let failed =
            get_runtime(&device).unwrap().submit(Other::of(3.0, 5, &x, &y)).options(code()).exec([N]);
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("argument `y`") && error.contains("a pointer to `u64`"), "{device}: {error}");
    }
}

/// Types that other types may stand for.
#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.types", dims(i))]
struct Types<'a> {
    pair: [f32; 2],
    bits: Whole<'a, Read<i16>>,
    raw: Whole<'a, Read<u8>>,
    long: Whole<'a, Read<u64>>,
    vectors: Whole<'a, Read<[f32; 4]>>,
    floats: Whole<'a, Read<f32>>,
    halves: Whole<'a, Read<u16>>,
    own: Whole<'a, Read<i32>>,
    sums: Scatter<'a, f32>,
}

#[test]
fn a_kernel_whose_types_stand_for_the_definitions_is_taken() {
    for device in devices_of_all_kinds("texts::a_kernel_whose_types_stand_for_the_definitions_is_taken") {
        let text = format!(
            "{BOTH}typedef int own_t; typedef struct pair_t {{ float x, y; }} pair_t;
            KERNEL types(const pair_t pair, GLOBAL const unsigned short *bits, GLOBAL const unsigned *raw,
                         GLOBAL const unsigned long *long_, GLOBAL const float *vectors, GLOBAL const float4 *floats,
                         GLOBAL const half *halves, GLOBAL const own_t *own, GLOBAL unsigned *sums) {{
                sums[0] = (unsigned)(pair.y + bits[0] + raw[0] + long_[0] + vectors[3] + own[0]);
            }}"
        );
        let rt = get_runtime(&device).unwrap();
        let sums = FlashMemory::<f32>::zeroed(1);
        let kernel = Types::of(
            [0.0, 1.0],
            &[2i16][..],
            &[3u8, 0, 0, 0][..],
            &[4u64][..],
            &[[0.0, 0.0, 0.0, 5.0f32]][..],
            &[0.0f32; 4][..],
            &[0u16][..],
            &[6i32][..],
            &sums,
        );
        rt.submit(kernel).options(Implementation::source(text, "types")).exec([1]).unwrap();
        assert_eq!(sums.get(0).unwrap().to_bits(), 1 + 2 + 3 + 4 + 5 + 6, "{device}");
    }
}

#[test]
fn local_memory_beyond_the_devices_is_an_error_with_both_numbers() {
    for device in devices_of_all_kinds("texts::local_memory_beyond_the_devices_is_an_error_with_both_numbers")
    {
        let with = |floats: usize| {
            let body = format!(
                "LOCAL float all[{floats}]; all[ID % {floats}] = x[ID]; all[(ID + 1) % {floats}] = n; y[ID] += a * x[ID] + n + 0 * all[ID % {floats}];"
            );
            let parameters = "float a, unsigned n, GLOBAL const float *x, GLOBAL float *y";
            Implementation::source(format!("{BOTH}KERNEL axpy({parameters}) {{ {body} }}"), "axpy")
        };
        if device.starts_with("NVIDIA_GPU") {
            // CUDA's assembler says it.
            refused(&device, with(2_000_000), &["shared"]);
        } else {
            let limits = get_runtime(&device).unwrap().devices()[0].query("limits").unwrap();
            let limits: serde_json::Value = serde_json::from_str(&limits).unwrap();
            let expected = format!("up to {} bytes of local memory", limits["local_bytes"]);
            refused(&device, with(2_000_000), &[&expected, "found 8000000 of the kernel `axpy`"]);
        }
        check(&device, plain("float a, unsigned n, GLOBAL const float *x, GLOBAL float *y"));
    }
}

/// A file that both kinds of devices take.
fn file(folder: &Path, name: impl AsRef<OsStr>, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name.as_ref());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

/// It is right with these files beside it.
const WITH_HEADERS: &str = "#include \"parts/body.h\"
/* #include \"nowhere.h\" */
FLASH_KERNEL axpy(const float a, const flash_u32 n, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(y, FLASH_INDEX(0)) += BODY(FLASH_AT(x, FLASH_INDEX(0)));
    }
}
";

/// Names of folders; compilers take the first as an option.
const FOLDERS: [&[u8]; 4] = [b"plain", b"with white space", b"with \"quotes\"", b"no-utf-8-\xff"];

#[test]
fn the_folder_of_a_file_is_searched_whatever_its_name_is() {
    for device in devices_of_all_kinds("texts::the_folder_of_a_file_is_searched_whatever_its_name_is") {
        let place = plugins::directory();
        for folder in FOLDERS {
            let folder = place.path().join(OsStr::from_bytes(folder));
            let text = WITH_HEADERS.replace("\"parts/body.h\"", "<parts/body.h>");
            let text = file(&folder, "axpy.c", text);
            // Not beside the file that names it.
            file(&folder, "parts/body.h", "#include \"slope.h\"\n#define BODY(x) (SLOPE * (x) + n)\n");
            file(&folder, "slope.h", "#define SLOPE a\n");
            check(&device, Implementation::file(&text, "axpy").cooperating());
        }
    }
}

#[test]
fn what_lies_beside_a_file_is_included_and_an_edited_header_is_seen() {
    for device in
        devices_of_all_kinds("texts::what_lies_beside_a_file_is_included_and_an_edited_header_is_seen")
    {
        let place = plugins::directory();
        for folder in FOLDERS {
            let folder = place.path().join(OsStr::from_bytes(folder));
            let text = file(&folder, "axpy.c", WITH_HEADERS);
            file(
                &folder,
                "parts/body.h",
                "#pragma once\n#include \"more.h\"\n#define BODY(x) (SLOPE * (x) + n)\n",
            );
            file(
                &folder,
                "parts/more.h",
                "#ifndef MORE\n#define MORE\n#include \"body.h\"\n#define SLOPE a\n#endif\n",
            );
            let code = || Implementation::file(&text, "axpy").cooperating();
            check(&device, code());
            file(&folder, "parts/more.h", "#define SLOPE (2 * a)\n");
            assert_eq!(axpy(&device, code()), Ok(vec![18.0; N]), "{device}");
            file(&folder, "parts/more.h", "\n#error changed\n");
            refused(&device, code(), &["more.h", "changed"]);
            std::fs::remove_file(folder.join("parts/more.h")).unwrap();
            refused(&device, code(), &["more.h"]);
        }
    }
}

#[test]
fn programs_with_headers_are_kept_on_disk_and_an_edited_one_is_compiled() {
    let test = "texts::programs_with_headers_are_kept_on_disk_and_an_edited_one_is_compiled";
    let devices = devices_of_all_kinds(test);
    if let Ok(place) = std::env::var(PLACE) {
        // The process of one run.
        let (place, expected) = place.split_once(' ').unwrap();
        for device in devices {
            let code = Implementation::file(Path::new(place).join("axpy.c"), "axpy").cooperating();
            assert_eq!(axpy(&device, code), Ok(vec![expected.parse().unwrap(); N]), "{device}");
        }
        return;
    }
    let place = plugins::directory();
    let (cache, folder) = (place.path().join("cache"), place.path().join("text"));
    file(&folder, "axpy.c", WITH_HEADERS);
    let run = |slope: &str, expected: f32| {
        file(&folder, "parts/body.h", format!("#define BODY(x) ({slope} * (x) + n)\n"));
        let folder = format!("{} {expected}", folder.display());
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--test-threads=1"]).env(PLACE, folder).env("FLASH_CACHE_DIR", &cache);
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", plugins::text_of(&output));
        std::fs::read_dir(&cache).map_or(0, Iterator::count)
    };
    let first = run("a", 12.0);
    assert!(first >= devices.len(), "kept, although it includes a file");
    assert_eq!(run("a", 12.0), first, "found again");
    assert_eq!(run("(2 * a)", 18.0), 2 * first, "compiled again");
    assert_eq!(run("a", 12.0), 2 * first, "both are kept");
}

/// Names the folder of a text for a process of its own, and the result.
const PLACE: &str = "FLASH_TEST_PLACE";

#[test]
fn a_file_and_a_text_have_build_options() {
    for device in devices_of_all_kinds("texts::a_file_and_a_text_have_build_options") {
        let place = plugins::directory();
        let text = WITH_HEADERS.replace("#include \"parts/body.h\"", "#define BODY(x) (SLOPE * (x) + n)");
        let path = file(place.path(), "axpy.c", &text);
        for code in [Implementation::file(&path, "axpy"), Implementation::source(&text, "axpy")] {
            let with = |options: &str| code.clone().cooperating().build_options(options);
            check(&device, with("-DSLOPE=a"));
            assert_eq!(axpy(&device, with("-DSLOPE=(2*a) -DOTHER=1")), Ok(vec![18.0; N]), "{device}");
            refused(&device, code.clone().cooperating(), &["SLOPE"]);
        }
    }
}

#[test]
fn a_byte_order_mark_is_skipped_and_an_empty_text_is_an_error_that_says_so() {
    for device in
        devices_of_all_kinds("texts::a_byte_order_mark_is_skipped_and_an_empty_text_is_an_error_that_says_so")
    {
        let place = plugins::directory();
        let text = format!(
            "\u{feff}{}",
            WITH_HEADERS.replace("BODY(", "a * (").replace("INDEX(0)));", "INDEX(0))) + n;")
        );
        let text = text.replace("#include \"parts/body.h\"", "#define MARKED");
        check(&device, Implementation::file(file(place.path(), "axpy.c", &text), "axpy").cooperating());
        check(&device, Implementation::source(&text, "axpy").cooperating());
        for text in ["", "\n \n", "\u{feff}"] {
            let path = file(place.path(), "empty.c", text);
            refused(
                &device,
                Implementation::file(&path, "axpy"),
                &["expected a source, found an empty text", "empty.c"],
            );
        }
        // Linux's paths are bytes.
        let name = OsStr::from_bytes(b"axpy \xff.c");
        let other = OsStr::from_bytes(b"axpy \xfe.c");
        check(&device, Implementation::file(file(place.path(), name, &text), "axpy").cooperating());
        let text = text.replace("a * (", "2 * a * (");
        let doubled = Implementation::file(file(place.path(), other, &text), "axpy").cooperating();
        assert_eq!(axpy(&device, doubled), Ok(vec![18.0; N]), "{device}");
    }
}
