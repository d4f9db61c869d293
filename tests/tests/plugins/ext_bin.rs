//! Functions of shared libraries as implementations: C, C++ and Fortran, and refused ones.

use crate::Fill;
use flash_core::descriptor::{Implementation, sort_by};
use flash_core::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Row, Sum, Whole, Window, Write};
use flash_core::kernel::{CpuItem, Index};
use flash_core::{Error, FlashMemory, KernelDefinition, RuntimeObj, get_runtime, kernel};
use flash_tests::plugins::{self, Language};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// y = a x + y. No implementation is linked in.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.saxpy", dims(i))]
struct Saxpy<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

/// Fourteen arguments.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.many", dims(i))]
struct Many<'a> {
    a: f64,
    b: f64,
    c: f64,
    d: f64,
    e: f64,
    f: f64,
    g: Item<'a, Read<f64>>,
    h: Item<'a, Read<f64>>,
    i: Item<'a, Read<f64>>,
    j: Item<'a, Read<f64>>,
    k: Item<'a, Read<f64>>,
    l: Item<'a, Read<f64>>,
    m: Item<'a, Read<f64>>,
    out: Item<'a, Write<f64>>,
}

/// Rows, a table, and an output that one dimension does not index.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.places", dims(x, y))]
struct Places<'a> {
    rows: Item<'a, Read<Row<u32>>>,
    table: Whole<'a, Read<u32>>,
    out: Item<'a, Write<u32>>,
}

/// Accumulators. One implementation is linked in.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.tally", dims(i))]
struct Tally<'a> {
    values: Item<'a, Read<f64>>,
    sum: Reduce<'a, ReadWrite<f64>, Sum>,
    counts: Reduce<'a, Write<[u32]>, Sum>,
}

struct InRust;

#[kernel]
impl CpuItem<Tally<'_>> for InRust {
    fn item(ix: Index<1>, mut k: TallyItem<'_>) {
        k.sum.put(*k.values);
        k.counts.put(ix[0] % k.counts.len(), 1);
    }
}

/// A window of two axes.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.columns", dims(x), part_by(x, from = columns(x)))]
struct Columns<'a> {
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

/// Two buffers.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.shift", dims(x, step), sort_by(step))]
struct Shift<'a> {
    #[along(x)]
    values: Phased<'a, u64>,
}

/// The directory, which is removed when this is dropped, and the library in it.
fn library(language: Language, source: &str) -> (TempDir, PathBuf) {
    let place = plugins::directory();
    let file = place.path().join("libfunctions.so");
    plugins::shared(language, &plugins::c_source(source), &[], &file);
    (place, file)
}

fn cpu() -> RuntimeObj {
    get_runtime("ALL_CPU").unwrap()
}

fn saxpy(file: &Path) {
    for n in [1, 1000, 300_001] {
        let x: FlashMemory<f32> = (0..n).map(|i| i as f32).collect();
        let y: FlashMemory<f32> = (0..n).map(|i| 0.5 * i as f32).collect();
        cpu().submit(Saxpy::of(2.0, &x, &y)).options(Implementation::file(file, "saxpy")).exec([n]).unwrap();
        let wrong = y.read().unwrap().iter().enumerate().position(|(i, &y)| y != 2.5 * i as f32);
        assert_eq!(wrong, None, "of {n} elements");
    }
}

#[test]
fn a_c_function_runs() {
    let (_place, file) = library(Language::C, "functions.c");
    saxpy(&file);
}

#[test]
fn a_fortran_function_runs() {
    if !Language::Fortran.is_there() {
        flash_tests::skip("ext_bin::a_fortran_function_runs", "no gfortran");
        return;
    }
    let (_place, file) = library(Language::Fortran, "functions.f90");
    saxpy(&file);
}

#[test]
fn there_is_no_limit_of_ten_arguments() {
    let (_place, file) = library(Language::C, "functions.c");
    const N: usize = 5000;
    let arrays: Vec<FlashMemory<f64>> = (0..7).map(|k| (0..N).map(|i| (k * i) as f64).collect()).collect();
    let [g, h, i, j, k, l, m] = &arrays[..] else { unreachable!() };
    let out = FlashMemory::zeroed(N);
    let many = Many::of(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, g, h, i, j, k, l, m, &out);
    cpu().submit(many).options(Implementation::file(&file, "many")).exec([N]).unwrap();
    let expected: Vec<f64> = (0..N).map(|i| 21.0 + 21.0 * i as f64).collect();
    assert_eq!(*out.read().unwrap(), expected[..]);
}

#[test]
fn a_c_function_finds_rows_and_indices_in_any_order() {
    let (_place, file) = library(Language::C, "functions.c");
    let (nx, ny) = (7usize, 5usize);
    let rows = FlashMemory::from((0..3 * nx * ny).map(|i| i as u32).collect::<Vec<_>>())
        .with_shape([3, nx, ny])
        .unwrap();
    let table = FlashMemory::from([5u32, 11]);
    let expected: Vec<u32> =
        (0..nx * ny).map(|i| (9 * i + 3 + 11 + 1000 * (i % nx) + 100_000 * (i / nx)) as u32).collect();
    for order in [&["x"][..], &["y"], &["x", "y"]] {
        let out = FlashMemory::<u32>::zeroed([nx, ny]);
        cpu()
            .submit(Places::of(&rows, &table, &out))
            .options((Implementation::file(&file, "places"), sort_by(order.iter().copied())))
            .exec([nx, ny])
            .unwrap();
        assert_eq!(*out.read().unwrap(), expected[..], "sorted by {order:?}");
    }
}

#[test]
fn a_c_function_reduces_to_the_bits_of_rust() {
    let (_place, file) = library(Language::C, "functions.c");
    for n in [1usize, 4096, 100_001] {
        let values: Vec<f64> = (0..n).map(|i| 1.0 / (1 + i) as f64).collect();
        let run = |implementation| {
            let (mut sum, mut counts) = (0.25, [9; 3]);
            let tally = Tally::of(&values, &mut sum, &mut counts[..]);
            cpu().submit(tally).options(implementation).exec([n]).unwrap();
            (sum.to_bits(), counts)
        };
        let found = run(Implementation::file(&file, "tally"));
        assert_eq!(found, run(Implementation::named("in_rust")), "of {n} elements");
        assert_eq!(found.1.iter().sum::<u32>() as usize, n);
    }
}

#[test]
fn a_c_function_writes_the_next_phase() {
    let (_place, file) = library(Language::C, "functions.c");
    let start: Vec<u64> = (0..100).map(|i| i * i).collect();
    for steps in 1..4 {
        let values = FlashMemory::from(start.clone());
        cpu()
            .submit(Shift::of(&values))
            .options(Implementation::file(&file, "shift"))
            .exec([100, steps])
            .unwrap();
        let mut expected = start.clone();
        for step in 0..steps as u64 {
            expected.rotate_left(1);
            expected.iter_mut().for_each(|v| *v += step);
        }
        assert_eq!(*values.read().unwrap(), expected[..], "{steps} steps");
    }
}

fn fill(file: &Path, symbol: &str) -> Result<Vec<u32>, Error> {
    let out = FlashMemory::<u32>::zeroed(300);
    cpu().submit(Fill::of(5, &out)).options(Implementation::file(file, symbol)).exec([300])?;
    Ok(out.read()?.to_vec())
}

#[test]
fn a_cpp_function_is_found_by_its_own_name() {
    let (_place, file) = library(Language::Cpp, "functions.cpp");
    assert_eq!(fill(&file, "ns::fill").unwrap(), [12; 300]);
    assert_eq!(fill(&file, "plain").unwrap(), [12; 300]);
    assert_eq!(fill(&file, "_ZN2ns4fillEPK10flash_spanPK9flash_arg").unwrap(), [12; 300]);
    assert_eq!(fill(&file, "ns::twice(flash_span const*, flash_arg const*)").unwrap(), [10; 300]);
    let message = fill(&file, "ns::twice").unwrap_err().to_string();
    for part in [
        "several functions",
        "ns::twice(int)",
        "ns::twice(flash_span const*, flash_arg const*)",
        "parameters",
    ] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
}

#[test]
fn a_function_that_fails_says_its_number_and_the_next_launch_runs() {
    let (_place, file) = library(Language::C, "functions.c");
    let message = fill(&file, "fail_at_100").unwrap_err().to_string();
    for part in ["plugins.fill", "fail_at_100", "returned 42", "ALL_CPU:0", "0 is success"] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    saxpy(&file);
}

#[test]
fn what_is_no_library_is_an_error_that_says_so() {
    let (place, file) = library(Language::C, "functions.c");
    let in_place = |name: &str| place.path().join(name);
    let text = in_place("text.so");
    std::fs::write(&text, "hello\n").unwrap();
    let machine = in_place("machine.so");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[18] = 0x28;
    bytes[19] = 0;
    std::fs::write(&machine, &bytes).unwrap();
    let cut = in_place("cut.so");
    std::fs::write(&cut, &std::fs::read(&file).unwrap()[..4000]).unwrap();
    for (path, parts) in [
        (in_place("missing.so"), &["missing.so", "nothing of that name"][..]),
        (place.path().to_owned(), &["a directory"]),
        (text, &["text.so", "a text file"]),
        (machine, &["machine.so", "this machine", "40"]),
        (cut, &["cut.so", "the file is cut"]),
    ] {
        let error = fill(&path, "fail_at_100").unwrap_err();
        let message = error.to_string();
        for part in parts {
            assert!(message.contains(part), "no `{part}` in: {message}");
        }
    }
}

#[test]
fn a_symbol_that_is_missing_is_an_error_that_lists_what_there_is() {
    let (_place, file) = library(Language::C, "functions.c");
    // Symbols of libraries that this one needs, and of data, are not used.
    for symbol in ["saxpi", "malloc", "printf", "not_a_function", ""] {
        let message = fill(&file, symbol).unwrap_err().to_string();
        for part in ["libfunctions.so", &format!("`{symbol}`"), "saxpy", "many", "shift"] {
            assert!(message.contains(part), "no `{part}` in: {message}");
        }
        assert!(!message.contains("_init"), "{message}");
    }
}

#[test]
fn many_names_are_cut_short() {
    let place = plugins::directory();
    let file = place.path().join("libmany.so");
    let source: String =
        (0..50).map(|i| format!("int f{i}(void); int f{i}(void) {{ return {i}; }}\n")).collect();
    plugins::shared(Language::C, &source, &[], &file);
    let message = fill(&file, "g").unwrap_err().to_string();
    assert!(message.ends_with("and 30 more"), "{message}");
}

#[test]
fn a_window_in_c_has_the_shape_of_its_array() {
    let (_place, file) = library(Language::C, "functions.c");
    let from = FlashMemory::from((0..12u64).collect::<Vec<_>>()).with_shape([4, 3]).unwrap();
    let to = FlashMemory::zeroed(4);
    let rt = cpu();
    rt.submit(Columns::of(&from, &to)).options(Implementation::file(&file, "columns")).exec([4]).unwrap();
    assert_eq!(to.read().unwrap()[..], [12, 15, 18, 21]);
}

/// Half of the smallest normal number, and a third rounded.
fn floats() -> (u32, u32) {
    let [smallest, one] = [f32::MIN_POSITIVE, 1.0].map(std::hint::black_box);
    ((smallest * 0.5).to_bits(), (one / 3.0).to_bits())
}

#[test]
fn loading_a_library_leaves_the_floating_point_state_of_the_thread() {
    let before = floats();
    let (_place, file) = library(Language::C, "float_state.c");
    fill(&file, "set").unwrap();
    assert_eq!(floats(), before);
}
