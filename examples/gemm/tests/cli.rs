//! The program as a user meets it, and the bits of its products.

use flash::prelude::*;
use flash_examples::Program;
use flash_tests::{APART, in_process};
use gemm::plan::{Plan, Wish};
use gemm::product::{Matrices, Product};
use serde_json::Value;
use std::fs;

const GEMM: Program = Program(env!("CARGO_BIN_EXE_gemm"));

/// The report of a line that has to succeed.
fn report(line: &str, variables: &[(&str, &str)]) -> Value {
    let line: Vec<&str> = line.split(' ').chain(["--report", "-"]).collect();
    serde_json::from_str(&GEMM.succeed(&line, variables)).expect("nothing but JSON")
}

/// The error of a line that has to fail with a code.
fn fail(line: &str, code: i32) -> String {
    GEMM.fail(&line.split(' ').collect::<Vec<_>>(), code, &[])
}

const TWO_MEMORIES: [(&str, &str); 3] =
    [("FLASH_CPU_DEVICES", "2"), ("FLASH_CPU_THREADS", "2"), ("FLASH_CPU_COPY", "1")];

/// For square matrices of this many rows.
fn plan_of(rt: &RuntimeObj, rows: usize) -> Plan {
    let sizes = [rows; 3];
    let wish = Wish { sizes, tile: 16, depth: 1, lookahead: 1, replicas: None, budget: None, adds: false };
    Plan::of(wish, size_of::<f32>(), rt.devices()).expect("room")
}

#[test]
fn help_teaches_the_rule_and_says_how_to_begin() {
    let help = GEMM.succeed(&["--help"], &[]);
    for word in ["H W + depth (H + W) tiles", "gemm --check", "--lookahead", "Exit codes", "--picture"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn a_product_is_right_in_any_sizes() {
    for sizes in ["--m 100 --k 80 --n 60 --tile 32", "--m 1 --k 1 --n 1", "--m 1 --k 300 --n 2 --tile 7"] {
        for more in ["", " --add", " --precision f64", " --depth 9 --lookahead 3 --replicas 3"] {
            let report = report(&format!("{sizes}{more} --check --devices ALL_CPU"), &[]);
            let count = |name: &str| report[name].as_u64().expect("a number");
            assert_eq!(count("checked_elements"), count("m") * count("n"), "{report}");
        }
    }
}

#[test]
fn a_tile_larger_than_the_matrices_is_as_large_as_they_are() {
    let report = report("--m 10 --k 30 --n 20 --tile 4000000000 --check --devices ALL_CPU", &[]);
    assert_eq!((&report["tile"], &report["windows"]), (&30.into(), &1.into()));
}

#[test]
fn it_says_what_it_does() {
    let line = "--m 200 --k 100 --n 300 --tile 64 --check --devices ALL_CPU --add";
    let printed = GEMM.succeed(&line.split(' ').collect::<Vec<_>>(), &[]);
    for part in [
        "200 x 100 by 100 x 300, f32, in 20 tiles of 64 x 64 and 1 windows of 4 x 5 tiles, on ALL_CPU:0",
        " G operations/s (",
        "checked 60000 of 60000 elements: the greatest error is ",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert_eq!(GEMM.succeed(&["--m", "9", "--k", "9", "--n", "9", "--quiet"], &[]), "");
}

#[test]
fn what_cannot_be_is_refused_with_numbers_before_anything_runs() {
    for (line, code, parts) in [
        ("--m 0", 2, &["--m <M>", "zero"][..]),
        ("--k 99999999999 --n 9999999999", 2, &["--k and --n", "address space", "99999999999 by 9999999999"]),
        ("--k 99999999999999999999", 2, &["--k <K>", "too large"]),
        ("--tile 1", 2, &["--tile", "at most 1048576 tiles", "found 4194304 of 1 by 1"]),
        ("--budget 1000", 2, &["--budget", "5 tiles of 1048576 bytes (5242880 in all)", "found 1000 bytes"]),
        ("--budget 1000 --depth 1", 2, &["--depth 1 that is 3 tiles"]),
        ("--m 3000000 --k 3000000 --n 1 --tile 8000", 1, &["no memory for 3000000 by 3000000 elements"]),
        ("--devices NOPE", 1, &["runtime key `NOPE`"]),
        ("--picture /nowhere/graph.svg", 1, &["--picture", "/nowhere/graph.svg", "nothing was run"]),
        ("--trace /nowhere/trace.json", 1, &["--trace", "/nowhere/trace.json", "nothing was run"]),
        ("--picture same --report same", 2, &["--picture and --report", "different names"]),
    ] {
        let error = fail(line, code);
        assert!(parts.iter().all(|part| error.contains(part)), "{line}: {error}");
    }
}

#[test]
fn files_hold_the_graph_and_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let line = ["--m", "100", "--k", "90", "--n", "80", "--tile", "40", "--devices", "ALL_CPU"];
    let files = ["--picture", &at("graph.SVG"), "--report", &at("report.json"), "--trace", &at("trace.json")];
    GEMM.succeed(&[&line[..], &files].concat(), &[]);
    GEMM.succeed(&[&line[..], &["--picture", &at("graph.dot")]].concat(), &[]);
    let read = |name: &str| fs::read_to_string(at(name)).expect("a file");
    let (svg, dot) = (read("graph.SVG"), read("graph.dot"));
    assert!(svg.starts_with("<svg") && svg.contains("multiply"), "{svg}");
    assert!(dot.starts_with("digraph") && dot.contains("multiply"), "{dot}");
    let trace: Value = serde_json::from_str(&read("trace.json")).expect("JSON");
    let named = |name: &str| {
        let events = trace["traceEvents"].as_array().expect("events");
        events.iter().filter(|event| event["name"].as_str().is_some_and(|found| found.contains(name))).count()
    };
    // In place: a launch for each row of tiles and each step.
    assert_eq!(named("flash.gemm"), 3 * 3);
    assert!(named("multiply") > 0);
    let report: Value =
        serde_json::from_slice(&fs::read(at("report.json")).expect("a report")).expect("JSON");
    assert_eq!(report["windows"], 1);
}

/// Bytes that a product moves by the paper's formula: each tile of `a` once for each column of windows, each
/// of `b` once for each row of windows, and each of `c` once, both ways.
fn formula([m, k, n]: [u64; 3], [rows, columns]: [u64; 2], tile_bytes: u64) -> [u64; 2] {
    [(m * k * columns + k * n * rows + m * n) * tile_bytes, m * n * tile_bytes]
}

#[test]
fn matrices_of_twice_the_memory_move_by_the_formula_to_the_byte() {
    // 8 x 6 by 6 x 8 tiles of 32 x 32 in single precision, 160 in all: the budget is half of them. If more
    // were held, tiles would be evicted and loaded again. Each of two devices gets one window.
    let line = "--m 256 --k 192 --n 250 --tile 32 --check --devices ALL_CPU --budget";
    let found = report(&format!("{line} {}", 80 * 4096), &TWO_MEMORIES);
    assert_eq!((&found["window"][0], &found["window"][1]), (&4.into(), &8.into()), "{found}");
    let moved = |report: &Value| {
        ["bytes_to_devices", "bytes_from_devices"].map(|name| report[name].as_u64().expect("a number"))
    };
    assert_eq!(moved(&found), formula([8, 6, 8], [2, 1], 4096), "{found}");
    assert_eq!(found["held_bytes"], (4 * 8 + 2 * (4 + 8)) * 4096);
    // A budget of as little as one tile, and what it says that a window takes is enough.
    for (tiles, window, parts) in [(5, [1, 1], [8, 8]), (21, [2, 4], [4, 2]), (40, [4, 4], [2, 2])] {
        let found = report(&format!("{line} {}", tiles * 4096), &TWO_MEMORIES);
        assert_eq!(found["window"], serde_json::json!(window), "{found}");
        assert_eq!(moved(&found), formula([8, 6, 8], parts, 4096), "{found}");
    }
}

#[test]
fn devices_of_two_kinds_compute_one_product() {
    let Some(plugin) = flash_tests::plugins::opencl("devices_of_two_kinds_compute_one_product") else {
        return;
    };
    let line = "--m 300 --k 200 --n 260 --tile 64 --check --devices ALL_CPU,OPENCL";
    let found = report(line, &[plugin]);
    assert_eq!(found["checked_elements"], 300 * 260);
    let devices = found["devices"].as_array().expect("a list");
    assert!(devices.len() > 1 && found["windows"].as_u64() >= Some(devices.len() as u64), "{found}");
}

/// The product of matrices of 70 by 90 and 90 by 50 elements on the runtime of this test.
fn product(
    tile: usize,
    depth: usize,
    lookahead: usize,
    replicas: Option<usize>,
    budget: Option<u64>,
) -> Vec<f64> {
    let sizes = [70, 90, 50];
    let rt = flash_tests::runtime();
    let of = |rows: usize, columns: usize, by: usize| {
        let elements = (0..rows * columns).map(|i| (i * by % 1009) as f64 / 7.0 - 70.0);
        elements.collect::<FlashMemory<f64>>().with_shape([columns, rows]).expect("as many")
    };
    let (a, b, c) = (of(70, 90, 337), of(90, 50, 571), of(70, 50, 733));
    let wish = Wish { sizes, tile, depth, lookahead, replicas, budget, adds: true };
    let plan = Plan::of(wish, 8, rt.devices()).expect("room");
    let product = Product::new(&rt, plan);
    let tiles = plan.tiles[0] * plan.tiles[2];
    product
        .run(&Matrices::new(&a, &b, &c), |run, done| assert_eq!(run.results(done).count(), tiles))
        .expect("it runs");
    let computed = c.read().expect("the result").to_vec();
    let (a, b, c) = (a.read().expect("a"), b.read().expect("b"), of(70, 50, 733));
    let c = c.read().expect("c");
    for (i, found) in computed.iter().enumerate() {
        let products = (0..90).map(|l| a[i / 50 * 90 + l] * b[l * 50 + i % 50]);
        let (sum, size) = products.fold((c[i], c[i].abs()), |(sum, size), x| (sum + x, size + x.abs()));
        assert!((found - sum).abs() <= 92.0 * f64::EPSILON * size, "element {i}: {found} for {sum}");
    }
    computed
}

#[test]
fn a_product_has_the_same_bits_for_any_windows_and_any_number_at_once() {
    let check = || {
        for tile in [16usize, 25] {
            let bytes = (tile as u64 * tile as u64 * 8).next_multiple_of(256);
            let first = product(tile, 2, 1, Some(1), None);
            for (depth, lookahead, replicas, tiles) in
                [(1, 1, Some(2), 3), (2, 1, Some(8), 11), (3, 2, None, 40), (1, 4, Some(3), 9)]
            {
                let other = product(tile, depth, lookahead, replicas, Some(tiles * bytes));
                let same = first.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "tiles of {tile}, {depth}, {lookahead}, {replicas:?}, a budget of {tiles}");
            }
        }
    };
    for variables in [&[][..], APART[1], APART[2]] {
        in_process(variables, check);
    }
}

#[test]
fn products_one_after_the_other_use_the_same_tiles() {
    in_process(APART[2], || {
        let rt = flash_tests::runtime();
        let of = |by: usize| {
            let elements = (0..48 * 48).map(|i| (i * by % 31) as f32);
            elements.collect::<FlashMemory<f32>>().with_shape([48, 48]).expect("as many")
        };
        let (a, b, c) = (of(3), of(5), of(1));
        let product = Product::new(&rt, plan_of(&rt, 48));
        let mut results = Vec::new();
        for _ in 0..3 {
            product.run(&Matrices::new(&a, &b, &c), |_, _| ()).expect("it runs");
            results.push(c.read().expect("the result").to_vec());
        }
        // Small whole numbers: exact.
        let at = |i: usize| {
            (0..48).map(|l| (i / 48 * 48 + l) * 3 % 31 * ((l * 48 + i % 48) * 5 % 31)).sum::<usize>()
        };
        assert!(results.iter().all(|result| (0..48 * 48).all(|i| result[i] == at(i) as f32)));
    });
}

#[test]
fn a_matrix_that_cannot_be_read_ends_the_product_with_an_error() {
    in_process(&[], || {
        let rt = flash_tests::runtime();
        let [a, b, c] = [(); 3].map(|()| FlashMemory::<f32>::zeroed([32, 32]));
        let product = Product::new(&rt, plan_of(&rt, 32));
        // Of another size than the plan's: the boxes leave it.
        let small = FlashMemory::<f32>::zeroed([20, 32]);
        let error = product.run(&Matrices::new(&small, &b, &c), |_, _| ()).expect_err("it is too small");
        let text = error.to_string();
        let by_tiles = text.contains("/cut` (replica 0) failed") && text.contains("expected a box inside");
        let in_place = text.contains("/multiply` (replica 0) failed")
            && text.contains("expected a matrix of the shape [32, 32]");
        assert!(by_tiles || in_place, "{text}");
        product.run(&Matrices::new(&a, &b, &c), |_, _| ()).expect("the next one runs");
    });
}
