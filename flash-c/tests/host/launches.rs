//! Launches and pipelines that succeed.

use super::*;
use flash_tests::in_process;

#[test]
fn a_kernel_is_found_by_name_and_its_types_by_its_arguments() {
    let rt = Runtime::open("ALL_CPU");
    let saxpy = rt.kernel("tests.saxpy");
    let (x, y) = (memory("f32", &[1f32, 2.0, 3.0]), zeroed("f32", &[3]));
    let (dx, dy) = (memory("f64", &[1f64, 2.0]), memory("f64", &[0.5f64, 0.5]));
    for _ in 0..3 {
        ok(launch(saxpy, &[f32(2.0), array(x), array(y)], &[count(3)]));
        ok(launch(saxpy, &[f64(1.0), array(dx), array(dy)], &[count(2)]));
    }
    assert_eq!(contents::<f32>(y), [6.0, 12.0, 18.0]);
    assert_eq!(contents::<f64>(dy), [3.5, 6.5]);
    free(&[saxpy], &[x, y, dx, dy], &[]);
}

#[test]
fn on_devices_with_memories_of_their_own_the_same() {
    in_process(&[("FLASH_TEST", "devices=2")], || {
        let rt = Runtime::open("TEST");
        let mut devices = 0;
        ok(unsafe { flash_runtime_device_count(rt.0, &mut devices) });
        assert_eq!(devices, 2);
        let (saxpy, pipeline) = (rt.kernel("tests.saxpy"), rt.pipeline());
        let (x, y) = (memory("f32", &[1f32; 1000]), zeroed("f32", &[1000]));
        for _ in 0..4 {
            ok(launch(saxpy, &[f32(2.0), array(x), array(y)], &[count(1000)]));
            ok(submit(pipeline, saxpy, &[f32(0.5), array(x), array(y)], &[count(1000)], None));
        }
        ok(unsafe { flash_pipeline_exec(pipeline) });
        assert_eq!(contents::<f32>(y), [10.0; 1000]);
        // What the host writes is what the next launch sees.
        let mut data = null_mut();
        ok(unsafe { flash_memory_map_write(y, &mut data) });
        unsafe { data.cast::<f32>().write(100.0) };
        ok(unsafe { flash_memory_unmap(y, data) });
        ok(unsafe { flash_pipeline_exec(pipeline) });
        assert_eq!(contents::<f32>(y)[..2], [102.0, 12.0]);
        free(&[saxpy], &[x, y], &[pipeline]);
    });
}

#[test]
fn ranges_structs_and_vectors_are_arguments() {
    let rt = Runtime::open("ALL_CPU");
    let (saxpy, shift) = (rt.kernel("tests.saxpy"), rt.kernel("tests.shift"));
    let (x, y) = (memory("f32", &[1f32, 2.0, 3.0, 4.0]), zeroed("f32", &[4]));
    ok(launch(saxpy, &[f32(1.0), range(x, 2, 4), range(y, 0, 2)], &[count(2)]));
    assert_eq!(contents::<f32>(y), [3.0, 4.0, 0.0, 0.0]);

    let name = text("tests::Step");
    ok(unsafe { flash_type_define(name.as_ptr(), 8, 4) });
    let by = Step { x: 0.5, times: 4 };
    let step = bytes(&name, &by);
    let (from, to) = (memory("[f32; 3]", &[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]]), zeroed("[f32;3]", &[2]));
    ok(launch(shift, &[step, array(from), array(to)], &[count(2)]));
    assert_eq!(contents::<[f32; 3]>(to), [[3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]);
    free(&[saxpy, shift], &[x, y, from, to], &[]);
}

#[test]
fn dimensions_are_counts_ranges_and_lists() {
    let rt = Runtime::open("ALL_CPU");
    let saxpy = rt.kernel("tests.saxpy");
    let (x, y) = (memory("f32", &[1f32; 8]), zeroed("f32", &[8]));
    let values = [6, 1, 3];
    let listed = Dimension { start: 0, step: 0, count: 3, values: values.as_ptr() };
    let falling = Dimension { start: 7, step: -2, count: 3, values: null() };
    for dimension in [count(2), falling, listed, count(0)] {
        ok(launch(saxpy, &[f32(1.0), array(x), array(y)], &[dimension]));
    }
    assert_eq!(contents::<f32>(y), [1.0, 2.0, 0.0, 2.0, 0.0, 1.0, 1.0, 1.0]);
    free(&[saxpy], &[x, y], &[]);
}

#[test]
fn a_pipeline_is_kept_and_shares_its_memories() {
    let rt = Runtime::open("ALL_CPU");
    let (saxpy, pipeline) = (rt.kernel("tests.saxpy"), rt.pipeline());
    let (x, y, z) = (memory("f32", &[1f32; 4]), zeroed("f32", &[4]), zeroed("f32", &[4]));
    ok(submit(pipeline, saxpy, &[f32(2.0), array(x), array(y)], &[count(4)], None));
    ok(submit(pipeline, saxpy, &[f32(3.0), array(y), array(z)], &[count(4)], None));
    let mut submissions = 0;
    ok(unsafe { flash_pipeline_len(pipeline, &mut submissions) });
    assert_eq!(submissions, 2);
    ok(unsafe { flash_pipeline_exec(pipeline) });
    assert_eq!(contents::<f32>(z), [6.0; 4]);
    // Everything but the result is freed; what needs it has it.
    free(&[saxpy], &[x, y], &[]);
    drop(rt);
    ok(unsafe { flash_pipeline_exec(pipeline) });
    assert_eq!(contents::<f32>(z), [18.0; 4]);
    free(&[], &[z], &[pipeline]);
}

#[test]
fn options_are_those_of_one_submission_or_of_a_runtime() {
    let rt = Runtime::open("ALL_CPU");
    let (faulty, saxpy, pipeline) = (rt.kernel("tests.faulty"), rt.kernel("tests.saxpy"), rt.pipeline());
    let to = zeroed("u64", &[4]);
    let named = Some(r#"{"Implementation": {"named": "panics"}}"#);
    ok(submit(pipeline, faulty, &[u64(9), array(to)], &[count(4)], named));
    ok(unsafe { flash_pipeline_exec(pipeline) });
    assert_eq!(contents::<u64>(to), [1, 2, 3, 4]);

    let other = Some(r#"{"Implementation": {"named": "Other"}}"#);
    ok(submit(pipeline, faulty, &[u64(9), array(to)], &[count(4)], other));
    fails(unsafe { flash_pipeline_exec(pipeline) }, STATUS_IMPLEMENTATION, &["tests.faulty", "panics"]);

    let mut with = null_mut();
    let devices = text(r#"{"Devices": "ALL_CPU:0", "Priority": 3}"#);
    ok(unsafe { flash_runtime_with(rt.0, devices.as_ptr(), &mut with) });
    let with = Runtime(with);
    let (saxpy2, x) = (with.kernel("tests.saxpy"), memory("f32", &[1f32; 2]));
    let y = zeroed("f32", &[2]);
    ok(launch(saxpy2, &[f32(1.0), array(x), array(y)], &[count(2)]));
    assert_eq!(contents::<f32>(y), [1.0; 2]);
    free(&[faulty, saxpy, saxpy2], &[to, x, y], &[pipeline]);
}

#[test]
fn two_runtimes_have_their_own_devices_and_share_memories() {
    in_process(&[], || {
        let settings = text(r#"{"cpu.devices": 2, "cpu.copy": true, "plugin_path": ""}"#);
        let (one, mut two, mut devices) = (Runtime::open("ALL_CPU"), null_mut(), 0);
        ok(unsafe { flash_runtime_open(c"ALL_CPU".as_ptr(), settings.as_ptr(), &mut two) });
        let two = Runtime(two);
        ok(unsafe { flash_runtime_device_count(one.0, &mut devices) });
        assert_eq!(devices, 1);
        ok(unsafe { flash_runtime_device_count(two.0, &mut devices) });
        assert_eq!(devices, 2);
        let (a, b) = (one.kernel("tests.saxpy"), two.kernel("tests.saxpy"));
        let (x, y) = (memory("f32", &[1f32; 100]), zeroed("f32", &[100]));
        for _ in 0..5 {
            ok(launch(a, &[f32(1.0), array(x), array(y)], &[count(100)]));
            ok(launch(b, &[f32(1.0), array(x), array(y)], &[count(100)]));
        }
        // A kernel of another runtime is found on the pipeline's.
        let pipeline = two.pipeline();
        ok(submit(pipeline, a, &[f32(10.0), array(x), array(y)], &[count(100)], None));
        ok(unsafe { flash_pipeline_exec(pipeline) });
        assert_eq!(contents::<f32>(y), [20.0; 100]);
        free(&[a, b], &[x, y], &[pipeline]);
    });
}

#[test]
fn devices_and_what_was_found_are_listed() {
    let rt = Runtime::open("ALL_CPU");
    let mut report = unsafe { std::mem::zeroed() };
    ok(unsafe { flash_runtime_device(rt.0, 0, &mut report) });
    let words = |text| unsafe { CStr::from_ptr(text) }.to_str().unwrap();
    assert_eq!((words(report.id), words(report.kind)), ("ALL_CPU:0", "cpu"));
    assert!(report.threads > 0 && report.host_memory == 1 && !words(report.name).is_empty());
    fails(
        unsafe { flash_runtime_device(rt.0, 1, &mut report) },
        STATUS_RANGE,
        &["one of 1 devices", "found 1"],
    );

    let mut json = null_mut();
    ok(unsafe { flash_found(null(), &mut json) });
    let list: serde_json::Value = serde_json::from_str(words(json)).unwrap();
    let all = list.as_array().unwrap();
    assert!(all.iter().any(|one| one["key"] == "ALL_CPU" && one["devices"][0]["id"] == "ALL_CPU:0"));
    let kernels = all.iter().flat_map(|one| one["implementations"].as_array().unwrap());
    let kernels: Vec<_> = kernels.map(|one| one["kernel"].as_str().unwrap()).collect();
    assert!(kernels.contains(&"tests.saxpy") && kernels.contains(&"flash.nbody.accelerate"));
    unsafe { flash_text_free(json) };
    unsafe { flash_text_free(null_mut()) };
}

/// A name that is known refuses a value of another kind at once.
#[test]
fn the_options_of_the_page_are_known_and_have_those_values() {
    let (rt, page) = (Runtime::open("ALL_CPU"), include_str!("../../../docs/c.md"));
    let table = page.split("| option | for example |").nth(1).unwrap().split("\n\n").next().unwrap();
    let examples: Vec<&str> = table.split('`').skip(1).step_by(2).collect();
    assert!(examples.len() >= 10, "{examples:?}");
    for example in examples {
        let (mut with, options) = (null_mut(), text(&example.replace("..", r#"{"secs": 1, "nanos": 0}"#)));
        ok(unsafe { flash_runtime_with(rt.0, options.as_ptr(), &mut with) });
        ok(unsafe { flash_runtime_close(with) });
        let name = example.split('"').nth(1).unwrap();
        let wrong = text(&format!("{{\"{name}\": true}}"));
        let status = unsafe { flash_runtime_with(rt.0, wrong.as_ptr(), &mut with) };
        assert_eq!(status, STATUS_OPTION, "{name} is no option");
        assert!(last().contains(name), "{name}: {}", last());
    }
}
