//! Kernels as text and as programs, and errors in them.

use crate::kernels::Scale;
use crate::{devices, has_driver, with_emulated};
use flash::Error;
use flash::kernel::views::{Item, Read, ReadWrite};
use flash::prelude::*;
use flash_backend_cuda::nvrtc::{self, Architecture, compile};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A kernel without FLASH's macros, whose name is a C++ one.
const PLAIN: &str = "namespace mine {
__global__ void scale(float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000)
        y[i] += a * x[i];
}
template <typename T> __global__ void many(T a, const T *x, T *y) {
    y[blockIdx.x * blockDim.x + threadIdx.x] += a * x[blockIdx.x * blockDim.x + threadIdx.x];
}
template __global__ void many<float>(float, const float *, float *);
}
";

/// `y += 3 x` by some code; `y` afterwards.
fn scaled(device: &str, code: Implementation, n: usize) -> Result<Vec<f32>, Error> {
    let (x, y) = (FlashMemory::from(vec![2.0f32; n]), FlashMemory::from(vec![1.0f32; n]));
    get_runtime(device)?.submit(Scale::of(3.0, &x, &y)).options(code).exec([n])?;
    Ok(y.read()?.to_vec())
}

/// Four dimensions.
#[derive(KernelDefinition)]
#[kernel(name = "cuda.fold", dims(x, y, z, w))]
struct Fold<'a> {
    out: Item<'a, ReadWrite<u32>>,
}

/// It uses the extents of its third and fourth dimensions, which are one for CUDA.
const FOLD: &str = "extern \"C\" __global__ void fold(unsigned *out) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, z = blockIdx.z % 4, w = blockIdx.z / 4;
    out[x + 7 * (y + 3 * (z + 4 * w))] += 1 + x + 10 * y + 100 * z + 1000 * w;
}";

#[test]
fn dimensions_behind_the_third_are_folded_into_it() {
    for device in devices("programs::dimensions_behind_the_third_are_folded_into_it") {
        let (rt, out) = (get_runtime(&device).unwrap(), FlashMemory::<u32>::zeroed([7, 3, 4, 5]));
        let run = |dims: [u64; 4]| {
            rt.submit(Fold::of(&out)).options(Implementation::source(FOLD, "fold")).exec(dims)
        };
        run([7, 3, 4, 5]).unwrap();
        let expected: Vec<u32> = (0..7 * 3 * 4 * 5)
            .map(|i| 1 + i % 7 + 10 * (i / 7 % 3) + 100 * (i / 21 % 4) + 1000 * (i / 84))
            .collect();
        assert_eq!(*out.read().unwrap(), expected, "{device}");
        let error = run([7, 70_000, 1, 1]).unwrap_err().to_string();
        assert!(error.contains("`out`") || error.contains("65535 is the limit"), "{device}: {error}");
    }
}

/// `y += a x` by a program that is in the implementation.
#[derive(KernelDefinition)]
#[kernel(name = "cuda.embedded", dims(i))]
#[implementations(cuda = "embedded.ptx", entry = "scale")]
struct Embedded<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

#[test]
fn a_program_may_be_in_the_implementation() {
    for device in devices("programs::a_program_may_be_in_the_implementation") {
        let (x, y) = (FlashMemory::from(vec![2.0f32; 300]), FlashMemory::from(vec![1.0f32; 300]));
        let rt = get_runtime(&device).unwrap();
        rt.preload::<Embedded<'static>>().unwrap();
        rt.submit(Embedded::of(3.0, &x, &y)).exec([300]).unwrap();
        assert_eq!(*y.read().unwrap(), [7.0; 300], "{device}");
    }
}

/// The machine code of [`PLAIN`], and the name of its architecture.
struct Cubin {
    image: Vec<u8>,
    architecture: String,
}

/// The devices that take machine code, each with its own, as far as the compiler knows them.
fn with_machine_code(test: &str) -> Vec<(String, Cubin)> {
    if !flash_tests::emulated::on_gpu() {
        flash_tests::skip(test, "no GPU: the emulated device takes PTX alone");
        return Vec::new();
    }
    let mut known = Vec::new();
    for device in devices(test) {
        let architecture = get_runtime(&device).unwrap().devices()[0].info().features.clone();
        let number: u32 = architecture.trim_start_matches("sm_").parse().unwrap();
        let of_number = Architecture::of(number / 10, number % 10).unwrap();
        let compiled = compile("test", PLAIN, "plain.cu", "mine::scale", "", of_number).unwrap();
        if compiled.is_ptx {
            flash_tests::skip(test, &format!("{device}: NVRTC makes no machine code for {architecture}"));
        } else {
            known.push((device, Cubin { image: compiled.image, architecture }));
        }
    }
    known
}

#[test]
fn machine_code_is_found_under_plain_and_mangled_names() {
    let test = "programs::machine_code_is_found_under_plain_and_mangled_names";
    for (device, cubin) in with_machine_code(test) {
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "plain.cubin", &cubin.image);
        for entry in ["mine::scale", "_ZN4mine5scaleEfPKfPf"] {
            let found = scaled(&device, Implementation::file(&file, entry), 1000);
            assert_eq!(found.unwrap(), [7.0; 1000], "{device}, {entry}");
        }
    }
}

#[test]
fn a_fatbin_has_the_code_for_the_device() {
    let test = "programs::a_fatbin_has_the_code_for_the_device";
    for (device, Cubin { image, architecture }) in with_machine_code(test) {
        let folder = tempfile::tempdir().unwrap();
        let code = write(folder.path(), "plain.cubin", &image);
        let file = folder.path().join("plain.fatbin").display().to_string();
        let image = format!("--image3=kind=elf,sm={},file={code}", architecture.trim_start_matches("sm_"));
        let made = ["fatbinary", "/usr/local/cuda/bin/fatbinary"].iter().find_map(|tool| {
            Command::new(tool).args(["-64", &format!("--create={file}"), &image]).status().ok()
        });
        let Some(made) = made else {
            return flash_tests::skip(test, "CUDA's fatbinary is not here");
        };
        assert!(made.success(), "fatbinary: {made}");
        let found = scaled(&device, Implementation::file(&file, "mine::scale"), 1000);
        assert_eq!(found.unwrap(), [7.0; 1000], "{device}");
    }
}

#[test]
fn a_compiler_that_is_newer_than_the_driver_is_named() {
    let test = "programs::a_compiler_that_is_newer_than_the_driver_is_named";
    let old = [("FLASH_EMULATED_CUDA_VERSION", "12080"), ("FLASH_CACHE_LIMIT", "0")];
    with_emulated(test, &old, || {
        let error = scaled("NVIDIA_GPU:0", Implementation::source(PLAIN, "mine::scale"), 10).unwrap_err();
        let (error, (major, minor)) = (error.to_string(), nvrtc::version().unwrap());
        for part in [
            "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)",
            &format!("NVRTC {major}.{minor} is newer than the driver, for CUDA 12.8: update the driver"),
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
    });
}

/// The text as PTX, which every device takes whose driver is as new as NVRTC.
fn ptx(entry: &str) -> Vec<u8> {
    compiled(PLAIN, entry)
}

fn compiled(text: &str, entry: &str) -> Vec<u8> {
    let architecture = Architecture::Ptx { major: 8, minor: 0 };
    let mut image = compile("test", text, "plain.cu", entry, "", architecture).unwrap().image;
    // Files have no NUL at their end.
    image.pop();
    image
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// Two kernels of one program.
const TWO: &str = "extern \"C\" __global__ void once(float a, const float *x, float *y) {
    y[threadIdx.x] += a * x[threadIdx.x];
}
extern \"C\" __global__ void twice(float a, const float *x, float *y) {
    y[threadIdx.x] += 2 * a * x[threadIdx.x];
}
";

#[test]
fn kernels_of_one_program_are_told_apart() {
    for device in devices("programs::kernels_of_one_program_are_told_apart") {
        let folder = tempfile::tempdir().unwrap();
        let program = write(folder.path(), "two.ptx", &compiled(TWO, "once"));
        for (entry, expected) in [("once", 7.0), ("twice", 13.0), ("once", 7.0)] {
            let found = scaled(&device, Implementation::file(&program, entry), 32);
            assert_eq!(found.unwrap(), [expected; 32], "{device}, {entry}");
        }
    }
}

#[test]
fn text_and_ptx_are_found_under_plain_and_mangled_names() {
    for device in devices("programs::text_and_ptx_are_found_under_plain_and_mangled_names") {
        let folder = tempfile::tempdir().unwrap();
        let source = write(folder.path(), "plain.cu", PLAIN.as_bytes());
        for entry in ["mine::scale", "mine::many<float>"] {
            let program = write(folder.path(), "plain.ptx", &ptx(entry));
            for file in [&source, &program] {
                let found = scaled(&device, Implementation::file(file, entry), 1000);
                assert_eq!(found.unwrap(), [7.0; 1000], "{device}, {file}, {entry}");
            }
        }
        let program = write(folder.path(), "mangled.ptx", &ptx("mine::scale"));
        let found = scaled(&device, Implementation::file(&program, "_ZN4mine5scaleEfPKfPf"), 1000);
        assert_eq!(found.unwrap(), [7.0; 1000], "{device}");
        let found = scaled(&device, Implementation::source(PLAIN, "mine::scale"), 1000);
        assert_eq!(found.unwrap(), [7.0; 1000], "{device}");
    }
}

#[test]
fn what_cannot_be_a_program_says_why_and_the_device_goes_on() {
    for device in devices("programs::what_cannot_be_a_program_says_why_and_the_device_goes_on") {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| write(folder.path(), name, bytes);
        let broken = "__global__ void scale(float a) {\n    nobody_knows(a);\n}\n";
        let whole = ptx("mine::scale");
        let elf = [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 40], &[0xff; 40]].concat();
        let fatbin = [0x50u8, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0xff, 0, 0, 0, 0, 0, 0, 0];
        let other = "__global__ void scale(float a) {}";
        let sizes = "__global__ void scale(double a, const float *x, float *y) {}";
        type Case<'a> = (String, &'a str, &'a [&'a str]);
        let cases: Vec<Case<'_>> = vec![
            (
                file("broken.cu", broken.as_bytes()),
                "scale",
                &["does not compile", "broken.cu(2)", "nobody_knows"],
            ),
            ("nowhere/scale.cu".into(), "scale", &["expected a readable file \"nowhere/scale.cu\""]),
            (
                file("scale.cl", b"x"),
                "scale",
                &["expected a file that ends with one of", ".cu", ".ptx", ".cubin"],
            ),
            (file("text.ptx", b"this is no program"), "scale", &["found 18 bytes that it does not take"]),
            (file("cut.ptx", &whole[..whole.len() / 2]), "mine::scale", &["CUDA_ERROR_INVALID_PTX"]),
            (file("cut.cubin", &elf), "scale", &["behind its end: is the file complete?"]),
            (file("cut.fatbin", &fatbin), "scale", &["it says that it has 271 bytes: is the file complete?"]),
            (file("empty.cubin", b""), "scale", &["found 0 bytes that it does not take: it is empty"]),
            (file("whole.ptx", &whole), "nobody", &["expected a kernel `nobody` in the program, found"]),
            (
                file("other.cu", other.as_bytes()),
                "scale",
                &["expected a kernel `scale` of 3 parameters (a, x, y), found one of 1"],
            ),
            (
                file("sizes.cu", sizes.as_bytes()),
                "scale",
                &["argument `a`, parameter 0 of `scale`: expected a `f32` by value", "found `double`"],
            ),
            (
                file("mangled.ptx", &compiled(sizes, "scale")),
                "scale",
                &["argument `a`, parameter 0 of `scale`: expected a `f32` by value", "found `double`"],
            ),
            // A plain name tells no types.
            (
                file("sizes.ptx", &compiled(&format!("extern \"C\" {sizes}"), "scale")),
                "scale",
                &["argument `a`, parameter 0 of `scale`: expected 4 bytes", "found 8 bytes"],
            ),
        ];
        for (file, entry, words) in cases {
            let error = scaled(&device, Implementation::file(&file, entry), 100).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{device}, {file}: {word:?} in {error}");
            }
        }
        assert_eq!(scaled(&device, Implementation::named("text"), 100).unwrap(), [7.0; 100], "{device}");
    }
}

/// A folder for programs: a fresh one, or in a process of the test's own the one that it was given.
fn cache() -> (Option<TempDir>, PathBuf) {
    match std::env::var_os("FLASH_TEST_CHILD") {
        Some(_) => (None, std::env::var_os("FLASH_CACHE_DIR").unwrap().into()),
        None => {
            let place = tempfile::tempdir().unwrap();
            let folder = place.path().to_owned();
            (Some(place), folder)
        }
    }
}

#[test]
fn what_is_kept_on_disk_needs_no_compiler() {
    let test = "programs::what_is_kept_on_disk_needs_no_compiler";
    let is_child = std::env::var_os("FLASH_TEST_CHILD").is_some();
    if flash_tests::emulated::on_gpu() || !is_child && !has_driver(test) {
        return;
    }
    let (_place, folder) = cache();
    let folder = ("FLASH_CACHE_DIR", folder.to_str().unwrap());
    let run = |code| scaled("NVIDIA_GPU:0", code, 10);
    flash_tests::in_process_of(test, &[folder], || {
        assert_eq!(run(Implementation::named("text")).unwrap(), [7.0; 10]);
    });
    let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap();
    let others = std::env::split_paths(&libraries).filter(|path| !path.join("libnvrtc.so").exists());
    let others = std::env::join_paths(others).unwrap();
    flash_tests::in_process_of(test, &[folder, ("LD_LIBRARY_PATH", others.to_str().unwrap())], || {
        assert_eq!(nvrtc::version(), None);
        assert_eq!(run(Implementation::named("text")).unwrap(), [7.0; 10]);
        let error = run(Implementation::source(PLAIN, "mine::scale")).unwrap_err().to_string();
        assert!(error.contains("expected NVRTC of CUDA 12 or later"), "{error}");
    });
}

#[test]
fn programs_are_kept_on_disk_and_made_again_where_they_are_damaged() {
    let test = "programs::programs_are_kept_on_disk_and_made_again_where_they_are_damaged";
    if !has_driver(test) {
        return;
    }
    let (_place, folder) = cache();
    let run = || {
        flash_tests::in_process_of(test, &[("FLASH_CACHE_DIR", folder.to_str().unwrap())], || {
            for device in devices(test) {
                assert_eq!(scaled(&device, Implementation::named("text"), 10).unwrap(), [7.0; 10]);
            }
        });
    };
    if std::env::var_os("FLASH_TEST_CHILD").is_some() {
        return run();
    }
    let files = || walk(&folder);
    run();
    let kept = files();
    assert!(!kept.is_empty(), "something is kept");
    let times = || files().iter().map(|path| path.metadata().unwrap().len()).collect::<Vec<_>>();
    let before = times();
    run();
    assert_eq!((files(), times()), (kept.clone(), before.clone()), "nothing new");
    for path in &kept {
        std::fs::write(path, b"damaged").unwrap();
    }
    run();
    assert_eq!(times(), before, "made again");
}

/// All files under a folder.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(walk(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}
