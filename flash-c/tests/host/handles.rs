//! Pointers that are no handles, and handles that are others.

use super::*;

#[test]
fn null_is_an_error_everywhere_but_where_it_is_freed() {
    let (mut rt, mut k, mut p, mut m, mut h) = (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
    let (mut n, mut done, mut data, mut to) = (0, 0, no_data(), null_mut());
    let (name, len) = (c"ALL_CPU".as_ptr(), 4);
    let open = Runtime::open("ALL_CPU");
    let (kernel, pipeline, memory) = (open.kernel("tests.saxpy"), open.pipeline(), zeroed("f32", &[4]));
    let all = unsafe {
        [
            flash_runtime_open(null(), null(), &mut rt),
            flash_runtime_open(name, null(), null_mut()),
            flash_runtime_with(null(), null(), &mut rt),
            flash_runtime_with(open.0, null(), null_mut()),
            flash_runtime_device_count(null(), &mut n),
            flash_runtime_device_count(open.0, null_mut()),
            flash_runtime_device(null(), 0, null_mut()),
            flash_runtime_device(open.0, 0, null_mut()),
            flash_found(null(), null_mut()),
            flash_type_define(null(), 4, 4),
            flash_memory_create(null(), 1, &len, null(), &mut m),
            flash_memory_create(c"f32".as_ptr(), 1, null(), null(), &mut m),
            flash_memory_create(c"f32".as_ptr(), 1, &len, null(), null_mut()),
            flash_memory_describe(null(), null_mut()),
            flash_memory_describe(memory, null_mut()),
            flash_memory_map_read(null(), 0, 4, &mut data),
            flash_memory_map_read(memory, 0, 4, null_mut()),
            flash_memory_map_write(null(), &mut to),
            flash_memory_map_write(memory, null_mut()),
            flash_memory_unmap(null(), null()),
            flash_memory_unmap(memory, null()),
            flash_kernel_find(null(), name, &mut k),
            flash_kernel_find(open.0, null(), &mut k),
            flash_kernel_find(open.0, c"tests.saxpy".as_ptr(), null_mut()),
            flash_kernel_launch(null(), null(), 0, null(), 0),
            flash_kernel_launch(kernel, null(), 3, null(), 0),
            flash_kernel_launch(kernel, null(), 0, null(), 1),
            flash_kernel_launch(kernel, [f32(1.0), array(null()), array(memory)].as_ptr(), 3, &count(4), 1),
            flash_pipeline_create(null(), &mut p),
            flash_pipeline_create(open.0, null_mut()),
            flash_pipeline_submit(null_mut(), kernel, null(), 0, null(), 0, null()),
            flash_pipeline_submit(pipeline, null(), null(), 0, null(), 0, null()),
            flash_pipeline_len(null(), &mut n),
            flash_pipeline_len(pipeline, null_mut()),
            flash_pipeline_exec(null()),
            flash_pipeline_start(null_mut(), &mut h),
            flash_pipeline_start(pipeline, null_mut()),
            flash_handle_wait(null()),
            flash_handle_test(null(), 0, &mut done),
            flash_handle_cancel(null()),
        ]
    };
    for (at, status) in all.into_iter().enumerate() {
        assert_eq!(status, STATUS_POINTER, "call {at}");
    }
    fails(unsafe { flash_handle_wait(null()) }, STATUS_POINTER, &["pipeline on its way", "NULL"]);
    unsafe {
        ok(flash_runtime_close(null_mut()));
        ok(flash_memory_free(null_mut()));
        ok(flash_kernel_free(null_mut()));
        ok(flash_pipeline_free(null_mut()));
        ok(flash_handle_free(null_mut()));
    }
    free(&[kernel], &[memory], &[pipeline]);
    assert!(rt.is_null() && k.is_null() && p.is_null() && m.is_null() && h.is_null());
    assert!(data.is_null() && to.is_null());
}

#[test]
fn a_handle_of_another_kind_is_named() {
    let rt = Runtime::open("ALL_CPU");
    let memory = zeroed("f32", &[4]);
    let status = unsafe { flash_pipeline_exec(memory.cast()) };
    fails(status, STATUS_POINTER, &["a handle of a pipeline, found one of a memory"]);
    let status = unsafe { flash_memory_free(rt.0.cast()) };
    fails(status, STATUS_POINTER, &["a handle of a memory, found one of a runtime"]);
    let odd = memory.cast::<u8>().wrapping_add(1);
    fails(unsafe { flash_memory_free(odd.cast()) }, STATUS_POINTER, &["which is no handle"]);
    let other = 7u64;
    let status = unsafe { flash_handle_cancel((&raw const other).cast()) };
    fails(status, STATUS_POINTER, &["a pointer that is no handle"]);
    free(&[], &[memory], &[]);
}

#[test]
fn a_handle_that_was_freed_is_an_error_and_is_not_freed_twice() {
    let rt = Runtime::open("ALL_CPU");
    let (saxpy, pipeline) = (rt.kernel("tests.saxpy"), rt.pipeline());
    let (x, y) = (zeroed("f32", &[4]), zeroed("f32", &[4]));
    ok(unsafe { flash_memory_free(x) });
    let freed = ["a handle of a memory, found one that was freed"];
    fails(unsafe { flash_memory_free(x) }, STATUS_POINTER, &freed);
    fails(launch(saxpy, &[f32(1.0), array(x), array(y)], &[count(4)]), STATUS_POINTER, &freed);
    fails(
        submit(pipeline, saxpy, &[f32(1.0), range(x, 0, 1), array(y)], &[count(1)], None),
        STATUS_POINTER,
        &freed,
    );
    ok(unsafe { flash_kernel_free(saxpy) });
    fails(launch(saxpy, &[], &[]), STATUS_POINTER, &["a handle of a kernel, found one that was freed"]);
    ok(unsafe { flash_pipeline_free(pipeline) });
    fails(unsafe { flash_pipeline_exec(pipeline) }, STATUS_POINTER, &["one that was freed"]);
    free(&[], &[y], &[]);
}

#[test]
fn handles_come_and_go_and_take_no_more_room() {
    let mut known = std::collections::HashSet::new();
    for _ in 0..10_000 {
        let memory = zeroed("u8", &[1]);
        known.insert(memory);
        ok(unsafe { flash_memory_free(memory) });
    }
    // Other tests make some at the same time.
    assert!((1024..2500).contains(&known.len()), "{} slots for one handle at a time", known.len());
}
