//! Pipelines that are started: waiting, testing, cancelling. The gate is the process's, so each test with it
//! has a process of its own.

use super::*;
use flash_tests::in_process;

/// A pointer that another thread may use.
#[derive(Clone, Copy)]
struct Shared(*mut PipelineHandle);
// SAFETY: as the header says.
unsafe impl Send for Shared {}

impl Shared {
    fn get(self) -> *mut PipelineHandle {
        self.0
    }
}

fn await_gate() {
    while GATE.load(Ordering::SeqCst) != 1 {
        std::thread::yield_now();
    }
}

fn test(handle: *const StartedHandle, nanoseconds: u64) -> (i32, i32) {
    let mut done = 7;
    let status = unsafe { flash_handle_test(handle, nanoseconds, &mut done) };
    (status, done)
}

#[test]
fn a_pipeline_that_is_started_is_empty_and_its_handle_tells_when_it_is_done() {
    in_process(&[], || {
        let rt = Runtime::open("ALL_CPU");
        let (gate, pipeline, to) = (rt.kernel("tests.gate"), rt.pipeline(), zeroed("u64", &[1]));
        ok(submit(pipeline, gate, &[array(to)], &[count(1)], None));
        let (handle, mut len) = (start(pipeline), 7);
        ok(unsafe { flash_pipeline_len(pipeline, &mut len) });
        assert_eq!(len, 0);
        await_gate();
        assert_eq!(test(handle, 0), (STATUS_OK, 0));
        assert_eq!(test(handle, 1_000_000), (STATUS_OK, 0));
        GATE.store(2, Ordering::SeqCst);
        ok(unsafe { flash_handle_wait(handle) });
        ok(unsafe { flash_handle_wait(handle) });
        assert_eq!(test(handle, 0), (STATUS_OK, 1));
        ok(unsafe { flash_handle_free(handle) });
        fails(unsafe { flash_handle_wait(handle) }, STATUS_POINTER, &["one that was freed"]);
        // It may be filled again. A later mapping comes after it.
        let faulty = rt.kernel("tests.faulty");
        ok(submit(pipeline, faulty, &[u64(9), array(to)], &[count(1)], None));
        let handle = start(pipeline);
        assert_eq!(contents::<u64>(to), [1]);
        ok(unsafe { flash_handle_free(handle) });
        free(&[gate, faulty], &[to], &[pipeline]);
    });
}

#[test]
fn a_pipeline_that_is_cancelled_says_so_and_poisons_what_it_would_write() {
    in_process(&[], || {
        let rt = Runtime::open("ALL_CPU");
        let (gate, faulty) = (rt.kernel("tests.gate"), rt.kernel("tests.faulty"));
        let (pipeline, to, other) = (rt.pipeline(), zeroed("u64", &[1]), zeroed("u64", &[4]));
        ok(submit(pipeline, gate, &[array(to)], &[count(1)], None));
        let first = start(pipeline);
        await_gate();
        // It comes after the first, which waits.
        ok(submit(pipeline, faulty, &[u64(9), array(to)], &[count(1)], None));
        ok(submit(pipeline, faulty, &[u64(9), array(other)], &[count(4)], None));
        let second = start(pipeline);
        ok(unsafe { flash_handle_cancel(second) });
        GATE.store(2, Ordering::SeqCst);
        ok(unsafe { flash_handle_wait(first) });
        fails(unsafe { flash_handle_wait(second) }, STATUS_CANCELLED, &["cancelled"]);
        assert_eq!(test(second, 0), (STATUS_CANCELLED, 1));
        let mut data = no_data();
        fails(unsafe { flash_memory_map_read(other, 0, 4, &mut data) }, STATUS_POISONED, &[]);
        // What is done stays done.
        ok(unsafe { flash_handle_cancel(first) });
        ok(unsafe { flash_handle_wait(first) });
        for handle in [first, second] {
            ok(unsafe { flash_handle_free(handle) });
        }
        free(&[gate, faulty], &[to, other], &[pipeline]);
    });
}

#[test]
fn errors_of_a_pipeline_come_out_of_its_handle() {
    let rt = Runtime::open("ALL_CPU");
    let (faulty, pipeline, to) = (rt.kernel("tests.faulty"), rt.pipeline(), zeroed("u64", &[4]));
    ok(submit(pipeline, faulty, &[u64(3), array(to)], &[count(4)], None));
    let handle = start(pipeline);
    fails(unsafe { flash_handle_wait(handle) }, STATUS_FAILED, &["tests.faulty", "item 3 is at fault"]);
    ok(unsafe { flash_handle_free(handle) });
    ok(submit(pipeline, faulty, &[u64(9), array(to)], &[count(5)], None));
    let handle = start(pipeline);
    fails(unsafe { flash_handle_wait(handle) }, STATUS_ARGUMENT, &["argument `to`"]);
    ok(unsafe { flash_handle_free(handle) });
    free(&[faulty], &[to], &[pipeline]);
}

#[test]
fn a_submission_that_takes_too_long_is_a_timeout() {
    in_process(&[], || {
        let rt = Runtime::open("ALL_CPU");
        let (gate, pipeline, to) = (rt.kernel("tests.gate"), rt.pipeline(), zeroed("u64", &[1]));
        let limit = Some(r#"{"Timeout": {"secs": 0, "nanos": 1000000}}"#);
        ok(submit(pipeline, gate, &[array(to)], &[count(1)], limit));
        let handle = start(pipeline);
        fails(unsafe { flash_handle_wait(handle) }, STATUS_TIMEOUT, &["tests.gate", "1ms"]);
        GATE.store(2, Ordering::SeqCst);
        ok(unsafe { flash_handle_free(handle) });
        free(&[gate], &[to], &[pipeline]);
    });
}

#[test]
fn a_pipeline_that_runs_is_not_changed() {
    in_process(&[], || {
        let rt = Runtime::open("ALL_CPU");
        let (gate, pipeline, to) = (rt.kernel("tests.gate"), rt.pipeline(), zeroed("u64", &[1]));
        ok(submit(pipeline, gate, &[array(to)], &[count(1)], None));
        let shared = Shared(pipeline);
        let running = std::thread::spawn(move || {
            ok(unsafe { flash_pipeline_exec(shared.get()) });
        });
        await_gate();
        let busy = ["no other thread uses"];
        fails(submit(pipeline, gate, &[array(to)], &[count(1)], None), STATUS_BUSY, &busy);
        let mut handle = null_mut();
        fails(unsafe { flash_pipeline_start(pipeline, &mut handle) }, STATUS_BUSY, &busy);
        GATE.store(2, Ordering::SeqCst);
        running.join().unwrap();
        ok(submit(pipeline, gate, &[array(to)], &[count(1)], None));
        ok(unsafe { flash_pipeline_exec(pipeline) });
        free(&[gate], &[to], &[pipeline]);
    });
}
