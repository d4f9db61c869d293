//! The program as a user meets it, and the bits of its factors.

use cholesky::{Cholesky, Failed};
use flash::prelude::*;
use flash_examples::Program;
use flash_tests::{APART, in_process};
use serde_json::Value;
use std::fs;

const CHOLESKY: Program = Program(env!("CARGO_BIN_EXE_cholesky"));

/// The report of a line that has to succeed.
fn report(line: &str, variables: &[(&str, &str)]) -> Value {
    let line: Vec<&str> = line.split(' ').chain(["--report", "-"]).collect();
    serde_json::from_str(&CHOLESKY.succeed(&line, variables)).expect("nothing but JSON")
}

/// The error of a line that has to fail with a code.
fn fail(line: &str, code: i32, variables: &[(&str, &str)]) -> String {
    CHOLESKY.fail(&line.split(' ').collect::<Vec<_>>(), code, variables)
}

#[test]
fn help_teaches_the_steps_and_says_how_to_begin() {
    let help = CHOLESKY.succeed(&["--help"], &[]);
    for word in ["potrf", "trsm", "syrk", "cholesky --check", "--diagonal", "Exit codes", "--picture"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn a_factor_is_right_in_any_sizes() {
    let two = [("FLASH_CPU_DEVICES", "2"), ("FLASH_CPU_THREADS", "2"), ("FLASH_CPU_COPY", "1")];
    for sizes in ["--n 130 --tile 32", "--n 1", "--n 64 --tile 64", "--n 65 --tile 64", "--n 20 --tile 1"] {
        for (more, variables) in
            [("", &[][..]), ("--precision f32", &[]), ("--replicas 1", &[]), ("--replicas 3", &two)]
        {
            let line = format!("{sizes} --check --devices ALL_CPU {more}");
            let report = report(line.trim(), variables);
            let n = report["n"].as_u64().expect("a number");
            assert_eq!(report["checked_elements"], n * (n + 1) / 2, "{report}");
        }
    }
}

#[test]
fn it_says_what_it_does() {
    let line = "--n 200 --tile 64 --check --devices ALL_CPU";
    let printed = CHOLESKY.succeed(&line.split(' ').collect::<Vec<_>>(), &[]);
    for part in [
        "200 x 200, f64, in 10 tiles of 64 x 64, on ALL_CPU:0",
        " G operations/s (",
        "checked 20100 of 20100 elements: the greatest error is ",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert_eq!(CHOLESKY.succeed(&["--n", "9", "--quiet"], &[]), "");
}

#[test]
fn what_cannot_be_is_refused_with_numbers() {
    for (line, code, parts) in [
        ("--n 0", 2, &["--n <N>", "zero"][..]),
        (
            "--n 99999999999",
            2,
            &["--n: expected a matrix that an address space has room for, found 99999999999"],
        ),
        ("--n 5000 --tile 1", 2, &["--tile", "at most 4096 tiles in a row", "found 5000 of 1"]),
        ("--n 3000000 --tile 8000", 1, &["no memory for 3000000 by 3000000 elements"]),
        ("--diagonal inf", 2, &["--diagonal", "finite"]),
        ("--devices NOPE", 1, &["runtime key `NOPE`"]),
        ("--picture /nowhere/graph.svg", 1, &["--picture", "/nowhere/graph.svg", "nothing was run"]),
        ("--trace /nowhere/trace.json", 1, &["--trace", "/nowhere/trace.json", "nothing was run"]),
        ("--trace same --report same", 2, &["--trace and --report", "different names"]),
    ] {
        let error = fail(line, code, &[]);
        assert!(parts.iter().all(|part| error.contains(part)), "{line}: {error}");
    }
}

#[test]
fn files_hold_the_graph_and_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let line = ["--n", "120", "--tile", "40", "--devices", "ALL_CPU"];
    let files = ["--picture", &at("graph.svg"), "--report", &at("report.json"), "--trace", &at("trace.json")];
    CHOLESKY.succeed(&[&line[..], &files].concat(), &[]);
    let read = |name: &str| fs::read_to_string(at(name)).expect("a file");
    let svg = read("graph.svg");
    assert!(svg.starts_with("<svg") && ["factor", "solve", "update"].iter().all(|node| svg.contains(node)));
    let trace: Value = serde_json::from_str(&read("trace.json")).expect("JSON");
    let launches = |name: &str| {
        let events = trace["traceEvents"].as_array().expect("events");
        events.iter().filter(|event| event["name"] == name).count()
    };
    // Of 3 x 3 tiles.
    let found = ["flash.potrf", "flash.trsm", "flash.syrk", "flash.gemm"].map(launches);
    assert_eq!(found, [3, 3, 3, 1]);
    let report: Value = serde_json::from_str(&read("report.json")).expect("JSON");
    assert_eq!(report["tile"], 40);
}

/// A symmetric matrix with a diagonal that dominates, but for one element.
fn matrix(n: usize, wrong: Option<usize>) -> FlashMemory<f64> {
    let element = |i: usize, j: usize| match i == j {
        true if wrong == Some(i) => -1.0,
        true => n as f64,
        false => ((i.max(j) * 7 + i.min(j) * 13) % 17) as f64 / 17.0 - 0.5,
    };
    let elements = (0..n * n).map(|at| element(at / n, at % n));
    elements.collect::<FlashMemory<f64>>().with_shape([n, n]).expect("as many")
}

/// The usual loops, row by row (Golub and Van Loan, Matrix Computations, section 4.2).
fn factor(n: usize, a: &[f64]) -> Vec<f64> {
    let mut l = a.to_vec();
    for i in 0..n {
        for j in 0..=i {
            let rest = l[i * n + j] - (0..j).map(|p| l[i * n + p] * l[j * n + p]).sum::<f64>();
            l[i * n + j] = if i == j { rest.sqrt() } else { rest / l[j * n + j] };
        }
    }
    l
}

#[test]
fn a_factor_has_the_same_bits_for_any_number_of_steps_at_once() {
    let check = || {
        let (rt, n) = (flash_tests::runtime(), 100);
        let expected = factor(n, &matrix(n, None).read().expect("a matrix"));
        for edge in [25, 32, 100, 1000] {
            let mut first = None;
            for replicas in [Some(1), Some(2), Some(7), None] {
                let cholesky = Cholesky::<f64>::new(&rt, n, edge, replicas).expect("room");
                // The memory of its tiles is used again.
                for _ in 0..2 {
                    let a = matrix(n, None);
                    let count = cholesky.count();
                    cholesky
                        .run(&a, |run, done| assert_eq!(run.results(done).count(), count))
                        .expect("it is positive definite");
                    let l = a.read().expect("a factor").to_vec();
                    for (at, (found, expected)) in l.iter().zip(&expected).enumerate() {
                        let is_close = (found - expected).abs() <= 1e-13 * expected.abs().max(1.0);
                        assert!(is_close, "tiles of {edge}, element {at}: {found} for {expected}");
                    }
                    let first = first.get_or_insert_with(|| l.clone());
                    let same = first.iter().zip(&l).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "tiles of {edge}, {replicas:?} at once");
                }
            }
        }
    };
    for variables in [&[][..], APART[1], APART[2]] {
        in_process(variables, check);
    }
}

#[test]
fn a_matrix_that_is_not_positive_definite_is_told_with_the_pivot() {
    let check = || {
        let rt = flash_tests::runtime();
        for (n, edge, wrong) in
            [(50, 16, 0), (50, 16, 15), (50, 16, 16), (50, 16, 40), (50, 16, 49), (9, 9, 8)]
        {
            let cholesky = Cholesky::<f64>::new(&rt, n, edge, None).expect("room");
            let error = cholesky.run(&matrix(n, Some(wrong)), |_, _| ()).expect_err("it has no factor");
            assert!(matches!(error, Failed::Pivot(row) if row == wrong), "{wrong}: {error}");
            let text = error.to_string();
            assert!(
                text.contains(&format!("the pivot in row {wrong}, counted from 0, is not positive")),
                "{text}"
            );
            cholesky.run(&matrix(n, None), |_, _| ()).expect("the next one is");
        }
    };
    for variables in [&[][..], APART[2]] {
        in_process(variables, check);
    }
    let error = fail("--n 300 --tile 64 --diagonal 3 --quiet --devices ALL_CPU", 1, &[]);
    assert!(
        error.starts_with("cholesky: error: expected a positive definite matrix, found that the pivot"),
        "{error}"
    );
}

#[test]
fn devices_of_two_kinds_compute_one_factor_and_see_its_pivots() {
    let test = "devices_of_two_kinds_compute_one_factor_and_see_its_pivots";
    let Some(plugin) = flash_tests::plugins::opencl(test) else { return };
    for key in ["ALL_CPU,OPENCL", "OPENCL"] {
        let found = report(&format!("--n 200 --tile 64 --check --devices {key}"), &[plugin]);
        assert_eq!(found["checked_elements"], 200 * 201 / 2);
        let error = fail(&format!("--n 200 --tile 64 --diagonal 2 --quiet --devices {key}"), 1, &[plugin]);
        assert!(error.contains("the pivot in row "), "{error}");
    }
}
