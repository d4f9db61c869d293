//! Accelerators in C, `mpix_accel.h`: what they register is claimed, runs, fails and is measured as other
//! functions are.

use super::*;
use flash_c2mpi::Code as ErrorCode;
use flash_core::devices::Outcome;
use flash_tests::plugins::{self, Language};
use std::path::Path;
use tempfile::TempDir;

/// A directory with the accelerator of `accelerator.c`, made with these definitions.
fn accelerator(definitions: &[&str]) -> TempDir {
    let place = plugins::directory();
    let include = format!("-I{}", Path::new(env!("CARGO_MANIFEST_DIR")).join("include").display());
    let definitions: Vec<String> = definitions.iter().map(|definition| format!("-D{definition}")).collect();
    let flags: Vec<&str> = definitions.iter().map(String::as_str).chain([&*include, "-pedantic"]).collect();
    let file = place.path().join("lab.so");
    plugins::shared(Language::C, include_str!("../accelerator.c"), &flags, &file);
    place
}

fn context(place: &TempDir) -> Context {
    Context::builder().set("plugin_path", place.path().display()).build().unwrap()
}

/// In the host's memory, and in one of the accelerator's own.
const BOTH: [&[&str]; 2] = [&[], &["MEMORY"]];

fn overrides(pairs: &[(&str, &str)]) -> Overrides {
    let mut overrides = Overrides::default();
    pairs.iter().for_each(|(name, value)| overrides.set(name, value).unwrap());
    overrides
}

fn double() -> AnyType {
    AnyType::new(&ElementType::of::<f64>()).unwrap()
}

fn word() -> AnyType {
    AnyType::new(&ElementType::of::<u32>()).unwrap()
}

/// Sends what FAIL takes, and receives.
fn fail(world: &World, child: i32, which: u32) -> Result<u32, Error> {
    let mut out = [0u32];
    let object = ComputeObj::new();
    object.add_scalar(word(), &which.to_ne_bytes())?;
    unsafe { object.add_array(word(), &[1], out.as_mut_ptr().cast())? };
    world.send(&object, child, 0, 0)?;
    receive(world, &object, 0, child, 0)?;
    Ok(out[0])
}

#[test]
fn functions_are_claimed_by_the_attributes_of_table_2() {
    for definitions in BOTH {
        let place = accelerator(definitions);
        let world = World::new(Config::default(), context(&place));
        for (name, value) in [
            ("sw_fid", "4711"),
            ("sw_fid", "lab.scale"),
            ("sw_clid", "tab*"),
            ("sw_vid", "lab"),
            ("sw_verid", "1.5"),
            ("sw_pid", "accelerator"),
            ("vid", "our lab"),
            ("pid", "board*"),
            ("ss_vid", "LAB"),
            ("ss_pid", "LAB:0"),
        ] {
            let child = world.claim("SCALE", None, &overrides(&[(name, value)]));
            let child = child.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(world.devices(child).unwrap(), ["LAB:0"]);
        }
        for (name, value) in [
            ("sw_fid", "4712"),
            ("sw_clid", "dense"),
            ("sw_verid", "2"),
            ("vid", "other"),
            ("sw_pid", "avx2"),
        ] {
            let error = world.claim("SCALE", None, &overrides(&[(name, value)])).unwrap_err();
            assert_eq!(error.code, ErrorCode::Implementation, "{name}: {error}");
        }
        world.end();
    }
}

/// A range of one and of two dimensions, and an array that is read whole.
#[test]
fn results_are_those_of_the_function_inside_the_range_and_nothing_changes_outside() {
    for definitions in BOTH {
        let place = accelerator(definitions);
        let world = World::new(Config::default(), context(&place));
        let child = claim(&world, "SCALE");
        let model = |table: &[f64], [width, rows]: [usize; 2], by: &[f64], x: &Range, y: &Range| {
            let sum: f64 = by.iter().sum();
            let mut table = table.to_vec();
            for row in y.clone().map(|row| row as usize) {
                for column in x.clone().map(|column| column as usize) {
                    let element = &mut table[column + row * width];
                    *element = *element * by[row] + sum;
                }
            }
            assert_eq!(by.len(), rows);
            table
        };
        for (width, rows, range) in
            [(1, 1, None), (5, 3, None), (8, 6, Some((1..7, 2..3))), (40, 30, Some((3..4, 0..30)))]
        {
            let mut by: Vec<f64> = (0..rows).map(|i| 1.0 + i as f64).collect();
            let mut table: Vec<f64> = (0..width * rows).map(|i| i as f64).collect();
            let (x, y) = range.clone().unwrap_or((0..width as u64, 0..rows as u64));
            let expected = model(&table, [width, rows], &by, &x, &y);
            let object = ComputeObj::new();
            unsafe {
                object.add_array(double(), &[rows as u64], by.as_mut_ptr().cast()).unwrap();
                object.add_array(double(), &[width as u64, rows as u64], table.as_mut_ptr().cast()).unwrap();
            }
            if range.is_some() {
                object.set_dimensions(0, &[x, y]).unwrap();
            }
            world.send(&object, child, 0, 0).unwrap();
            receive(&world, &object, 0, child, 0).unwrap();
            assert_eq!(table, expected, "{width} {rows} {range:?}");
        }
        world.end();
    }
}

type Range = std::ops::Range<u64>;

#[test]
fn an_accelerator_implements_a_function_of_the_library() {
    for definitions in BOTH {
        let place = accelerator(definitions);
        let world = World::new(Config::default(), context(&place));
        let lab = world.claim("EWMM", None, &overrides(&[("key", "LAB")])).unwrap();
        assert_eq!(world.devices(lab).unwrap(), ["LAB:0"]);
        let both = [lab, world.claim("EWMM", None, &overrides(&[("key", "ALL_CPU")])).unwrap()];
        let results = both.map(|child| {
            let n = 1000;
            let (mut a, mut b) = ((0..n).map(|i| i as f32).collect::<Vec<f32>>(), vec![0.5f32; n]);
            let mut c = vec![0f32; n];
            let object = ComputeObj::new();
            object.add_scalar(whole(), &(n as u64).to_ne_bytes()).unwrap();
            for array in [&mut a, &mut b, &mut c] {
                unsafe { object.add_array(float(), &[n as u64], array.as_mut_ptr().cast()).unwrap() };
            }
            world.send(&object, child, 0, 0).unwrap();
            receive(&world, &object, 0, child, 0).unwrap();
            c
        });
        assert!(results[0] == results[1] && results[0][999] == 499.5);
        world.end();
    }
}

#[test]
fn a_failure_is_an_error_of_the_receive_with_its_words_and_metrics_count_it() {
    for definitions in BOTH {
        let place = accelerator(definitions);
        let context = context(&place);
        let world = World::new(Config::default(), context.clone());
        let child = claim(&world, "FAIL");
        for _ in 0..2 {
            assert_eq!(fail(&world, child, 0).unwrap(), 7);
            let error = fail(&world, child, 1).unwrap_err();
            assert!(error.code == ErrorCode::Failed, "{error:?}");
            assert!(error.text.contains("lab.fail: the board is too hot: 99 degrees"), "{error}");
            let error = fail(&world, child, 2).unwrap_err();
            assert!(error.text.contains("lab.fail: it failed with 42"), "{error}");
        }
        let metrics = context.runtime("LAB").unwrap().devices()[0].query("metrics").unwrap();
        let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
        assert!(metrics["calls"].as_u64().unwrap() >= 6, "{metrics}");
        assert!(metrics["failed"].as_u64().unwrap() >= 4, "{metrics}");
        assert!(metrics["degrees"] == 36.5 && metrics["broken"].is_null(), "{metrics}");
        assert_eq!(metrics["copies"].as_f64().unwrap() > 0.0, !definitions.is_empty(), "{metrics}");
        world.end();
        // Seen by `flash list --json`.
        let list = plugins::flash(place.path(), &["list", "--json"]).output().unwrap();
        let text = String::from_utf8(list.stdout).unwrap();
        assert!(text.contains("\"degrees\": 36.5") || text.contains("\"degrees\":36.5"), "{text}");
    }
}

#[test]
fn many_threads_send_at_the_same_time() {
    for definitions in BOTH {
        let place = accelerator(definitions);
        let world = World::new(Config::default(), context(&place));
        let child = claim(&world, "FAIL");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let world = &world;
                scope.spawn(move || {
                    for round in 0..50 {
                        let mut out = [0u32];
                        let object = ComputeObj::new();
                        object.add_scalar(word(), &0u32.to_ne_bytes()).unwrap();
                        unsafe { object.add_array(word(), &[1], out.as_mut_ptr().cast()).unwrap() };
                        world.send(&object, child, 0, thread).unwrap();
                        receive(world, &object, 0, child, thread).unwrap();
                        assert_eq!(out, [7], "{thread} {round}");
                    }
                });
            }
        });
        world.end();
    }
}

#[test]
fn what_is_wrong_with_an_accelerator_is_listed() {
    let cases = [
        ("TYPE=\"f33\"", "f32 or f64 for parameter `c`, found `f33`"),
        ("AXES=0", "flash.ewmm: expected 1 to 3 axes of parameter `c`, found 0"),
        ("AXES=4", "flash.ewmm: expected 1 to 3 axes of parameter `c`, found 4"),
        ("ALIAS=\"a\\\"b\"", "without quotes, `\\` and control characters in `alias`"),
        ("RUN=NULL", "flash.ewmm: expected a function in `run`, found NULL"),
        ("KEY=NULL", "expected a text in `ss_vid`, found none"),
        ("KEY=\"lab\"", "a runtime key of capital letters"),
    ];
    for (definition, words) in cases {
        let place = accelerator(&[definition]);
        let reports = context(&place).list();
        let reasons: Vec<String> = reports
            .iter()
            .filter_map(|report| match &report.outcome {
                Outcome::Refused { .. } => Some(report.outcome.to_string()),
                _ => None,
            })
            .collect();
        assert!(reasons.len() == 1 && reasons[0].contains(words), "{definition}: {reasons:?}");
    }
}
