//! Errors of each kind, with what was expected, what was found, and where.

use super::*;
use flash_tests::in_process;

#[test]
fn an_unknown_key_lists_those_that_there_are() {
    let mut runtime = null_mut();
    let open = |key: &CStr, settings: *const _, runtime: &mut _| unsafe {
        flash_runtime_open(key.as_ptr(), settings, runtime)
    };
    fails(open(c"ABACUS", null(), &mut runtime), STATUS_KEY, &["ABACUS", "available keys", "ALL_CPU"]);
    fails(open(c"ALL_CPU:7", null(), &mut runtime), STATUS_KEY, &["ALL_CPU:7"]);
    fails(open(c"\xff", null(), &mut runtime), STATUS_TEXT, &["a runtime key in UTF-8"]);
    let settings = |text: &CStr, runtime: &mut _| open(c"ALL_CPU", text.as_ptr(), runtime);
    fails(settings(c"{\"cpu.device\": 2}", &mut runtime), STATUS_SETTING, &["cpu.device"]);
    fails(settings(c"{\"cpu.devices\": \"many\"}", &mut runtime), STATUS_SETTING, &["cpu.devices", "many"]);
    fails(settings(c"cpu.devices=2", &mut runtime), STATUS_TEXT, &["an object in JSON", "cpu.devices=2"]);
    fails(settings(c"[1]", &mut runtime), STATUS_TEXT, &["an object in JSON", "[1]"]);
    assert!(runtime.is_null(), "a function that fails sets no result");
}

#[test]
fn an_unknown_kernel_lists_those_that_there_are() {
    let (rt, mut kernel) = (Runtime::open("ALL_CPU"), null_mut());
    let status = unsafe { flash_kernel_find(rt.0, c"tests.sexpy".as_ptr(), &mut kernel) };
    fails(
        status,
        STATUS_KERNEL,
        &["`tests.sexpy`", "available kernels", "tests.saxpy", "flash.nbody.accelerate"],
    );
    assert!(kernel.is_null());
}

#[test]
fn arguments_are_checked_in_number_kind_type_and_shape() {
    let rt = Runtime::open("ALL_CPU");
    let (saxpy, shift) = (rt.kernel("tests.saxpy"), rt.kernel("tests.shift"));
    let (x, y, d) = (zeroed("f32", &[4]), zeroed("f32", &[4]), zeroed("f64", &[4]));
    let (grid, i) = (zeroed("f32", &[2, 2]), zeroed("i32", &[4]));
    let refused = |values: &[Value], words: &[&str]| {
        fails(launch(saxpy, values, &[count(4)]), STATUS_ARGUMENT, &[words, &["tests.saxpy"]].concat());
    };
    // Number.
    refused(&[], &["expected 3 arguments, found 0"]);
    refused(&[f32(1.0), array(x)], &["expected 3 arguments, found 2", "(f32, array of f32)"]);
    refused(&[f32(1.0), array(x), array(y), array(y)], &["expected 3 arguments, found 4"]);
    // Kind.
    refused(&[f32(1.0), f32(2.0), array(y)], &["argument `x`", "expected an array of f32, found f32"]);
    refused(&[array(x), array(x), array(y)], &["argument `a`", "expected a scalar f32, found array of f32"]);
    // Type, of which every variant is named.
    refused(
        &[f32(1.0), array(x), array(d)],
        &["argument `y`", "expected an array of f32, found array of f64"],
    );
    refused(&[f32(1.0), array(i), array(y)], &["argument `x`", "found array of i32", "Item<Read<f64>>"]);
    refused(&[u64(1), array(x), array(y)], &["argument `a`", "expected a scalar", "found u64"]);
    // Kinds that are none.
    let status = launch(saxpy, &[f32(1.0), value(99, 0)], &[]);
    fails(status, STATUS_ARGUMENT, &["number 1", "found 99", "flash_as_f32"]);
    // Length and shape.
    fails(
        launch(saxpy, &[f32(1.0), array(x), array(y)], &[count(5)]),
        STATUS_ARGUMENT,
        &["argument `x`", "4"],
    );
    fails(launch(saxpy, &[f32(1.0), array(grid), array(y)], &[count(4)]), STATUS_ARGUMENT, &["argument `x`"]);
    fails(
        launch(saxpy, &[f32(1.0), range(x, 1, 3), array(y)], &[count(4)]),
        STATUS_ARGUMENT,
        &["argument `x`"],
    );
    fails(
        launch(saxpy, &[f32(1.0), range(x, 2, 6), array(y)], &[count(4)]),
        STATUS_RANGE,
        &["2..6", "4 elements"],
    );
    fails(launch(saxpy, &[f32(1.0), range(x, 3, 2), array(y)], &[count(1)]), STATUS_RANGE, &["3..2"]);
    // Overlap.
    fails(launch(saxpy, &[f32(1.0), array(x), array(x)], &[count(4)]), STATUS_ARGUMENT, &["`x`", "`y`"]);
    // Dimensions.
    let of = |dimensions: &[Dimension]| launch(saxpy, &[f32(1.0), array(x), array(y)], dimensions);
    fails(of(&[]), STATUS_DIMENSION, &["tests.saxpy"]);
    fails(of(&[count(4), count(4)]), STATUS_DIMENSION, &["tests.saxpy"]);
    let still = Dimension { start: 1, step: 0, count: 2, values: null() };
    fails(of(&[still]), STATUS_DIMENSION, &["tests.saxpy"]);
    assert_eq!(contents::<f32>(y), [0.0; 4], "nothing ran");
    free(&[saxpy, shift], &[x, y, d, grid, i], &[]);
}

#[test]
fn types_are_known_by_name_size_and_alignment() {
    let define = |name: &CStr, size, align| unsafe { flash_type_define(name.as_ptr(), size, align) };
    ok(define(c"tests::Pair", 8, 4));
    ok(define(c"tests::Pair", 8, 4));
    fails(define(c"tests::Pair", 16, 4), STATUS_SHAPE, &["tests::Pair", "8 bytes", "16 bytes"]);
    fails(define(c"f32", 8, 4), STATUS_SHAPE, &["f32", "4 bytes", "8 bytes"]);
    fails(define(c"tests::Odd", 6, 4), STATUS_SHAPE, &["multiple of an alignment", "6 bytes"]);
    fails(define(c"tests::None", 0, 1), STATUS_SHAPE, &["at least 1 byte"]);
    let pairs = zeroed("[tests::Pair; 2]", &[3]);
    let mut report = blank();
    ok(unsafe { flash_memory_describe(pairs, &mut report) });
    assert_eq!((report.element_size, report.len, report.axes), (16, 3, 1));

    // A struct of the kernel's name with another size is another type.
    in_process(&[], || {
        ok(define(c"tests::Step", 12, 4));
        let rt = Runtime::open("ALL_CPU");
        let (shift, step) = (rt.kernel("tests.shift"), bytes(c"tests::Step", &[0u32; 3]));
        let (from, to) = (zeroed("[f32; 3]", &[1]), zeroed("[f32; 3]", &[1]));
        let status = launch(shift, &[step, array(from), array(to)], &[count(1)]);
        fails(status, STATUS_ARGUMENT, &["argument `by`", "8 bytes", "12 bytes"]);
        free(&[shift], &[from, to], &[]);
    });
    free(&[], &[pairs], &[]);
}

#[test]
fn arrays_that_cannot_be_are_refused() {
    let create = |kind: &CStr, shape: &[u64], data: *const c_void| {
        let mut memory = null_mut();
        let status =
            unsafe { flash_memory_create(kind.as_ptr(), shape.len(), shape.as_ptr(), data, &mut memory) };
        assert!(memory.is_null(), "a function that fails sets no result");
        status
    };
    fails(create(c"f23", &[3], null()), STATUS_SHAPE, &["`f23`", "f32", "flash_type_define"]);
    fails(create(c"[f32; x]", &[3], null()), STATUS_SHAPE, &["`[f32; x]`"]);
    fails(create(c"[f32; 0]", &[3], null()), STATUS_SHAPE, &["0 bytes"]);
    fails(create(c"f32", &[], null()), STATUS_SHAPE, &["at least 1 axis"]);
    fails(create(c"f32", &[1 << 40, 1 << 40], null()), STATUS_SHAPE, &["larger than memory"]);
    fails(create(c"u8", &[1 << 62], null()), STATUS_OUT_OF_MEMORY, &["no memory"]);
}

#[test]
fn a_panic_of_a_kernel_is_an_error_with_its_words_and_poisons_what_it_writes() {
    let rt = Runtime::open("ALL_CPU");
    let (faulty, to) = (rt.kernel("tests.faulty"), zeroed("u64", &[4]));
    let status = launch(faulty, &[u64(2), array(to)], &[count(4)]);
    fails(status, STATUS_FAILED, &["tests.faulty", "ALL_CPU:0", "item 2 is at fault"]);
    let mut data = no_data();
    fails(unsafe { flash_memory_map_read(to, 0, 4, &mut data) }, STATUS_POISONED, &["poisoned"]);
    assert!(data.is_null());
    // Writing heals, and so does a launch.
    ok(launch(faulty, &[u64(9), array(to)], &[count(4)]));
    assert_eq!(contents::<u64>(to), [1, 2, 3, 4]);
    free(&[faulty], &[to], &[]);
}

#[test]
fn a_submission_that_is_refused_is_not_added_and_dimensions_are_seen_by_exec() {
    let rt = Runtime::open("ALL_CPU");
    let (saxpy, pipeline) = (rt.kernel("tests.saxpy"), rt.pipeline());
    let (x, y) = (memory("f32", &[1f32; 4]), zeroed("f32", &[4]));
    let good = [f32(1.0), array(x), array(y)];
    let len = || {
        let mut len = 0;
        ok(unsafe { flash_pipeline_len(pipeline, &mut len) });
        len
    };
    ok(submit(pipeline, saxpy, &good, &[count(4)], None));
    fails(submit(pipeline, saxpy, &good[..2], &[count(4)], None), STATUS_ARGUMENT, &["found 2"]);
    fails(submit(pipeline, saxpy, &good, &[count(4)], Some("{")), STATUS_TEXT, &["options", "JSON"]);
    let wrong = Some(r#"{"Timeout": "soon"}"#);
    fails(submit(pipeline, saxpy, &good, &[count(4)], wrong), STATUS_OPTION, &["Timeout"]);
    assert_eq!(len(), 1);
    ok(unsafe { flash_pipeline_exec(pipeline) });
    ok(submit(pipeline, saxpy, &good, &[count(5)], None));
    assert_eq!(len(), 2);
    fails(unsafe { flash_pipeline_exec(pipeline) }, STATUS_ARGUMENT, &["argument `x`"]);
    assert_eq!(contents::<f32>(y), [1.0; 4], "nothing of the second run ran");
    free(&[saxpy], &[x, y], &[pipeline]);
}

#[test]
fn an_option_that_nothing_knows_is_refused() {
    let rt = Runtime::open("ALL_CPU");
    let (saxpy, pipeline) = (rt.kernel("tests.saxpy"), rt.pipeline());
    let (x, y) = (memory("f32", &[1f32; 4]), zeroed("f32", &[4]));
    let options = Some(r#"{"Timeuot": {"secs": 1, "nanos": 0}}"#);
    ok(submit(pipeline, saxpy, &[f32(1.0), array(x), array(y)], &[count(4)], options));
    let status = unsafe { flash_pipeline_exec(pipeline) };
    assert_ne!(status, STATUS_OK);
    assert!(last().contains("Timeuot"), "{}", last());
    free(&[saxpy], &[x, y], &[pipeline]);
}
