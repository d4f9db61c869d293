//! Mappings: what they show, keep away, and whose they are.

use super::*;
use std::thread::scope;

/// Handles may be used by any thread.
#[derive(Clone, Copy)]
struct Shared(*mut MemoryHandle);
// SAFETY: as the header says.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn get(&self) -> *mut MemoryHandle {
        self.0
    }
}

#[test]
fn a_memory_is_described_by_type_length_and_shape() {
    let (vector, grid, mut report) = (zeroed("[f64;3]", &[5]), zeroed("bf16", &[4, 3, 2]), blank());
    let words = |report: &MemoryReport| {
        let name = unsafe { CStr::from_ptr(report.type_name) }.to_str().unwrap();
        let shape = unsafe { std::slice::from_raw_parts(report.shape, report.axes) };
        (name.to_owned(), report.element_size, report.len, shape.to_vec())
    };
    ok(unsafe { flash_memory_describe(vector, &mut report) });
    assert_eq!(words(&report), ("[f64; 3]".to_owned(), 24, 5, vec![5]));
    ok(unsafe { flash_memory_describe(grid, &mut report) });
    assert_eq!(words(&report), ("half::bfloat::bf16".to_owned(), 2, 24, vec![4, 3, 2]));
    free(&[], &[vector, grid], &[]);
}

#[test]
fn a_mapping_keeps_writers_away_until_it_ends() {
    let rt = Runtime::open("ALL_CPU");
    let (saxpy, x, y) = (rt.kernel("tests.saxpy"), memory("f32", &[1f32; 4]), zeroed("f32", &[4]));
    let (mut all, mut part, mut to) = (no_data(), no_data(), null_mut());
    unsafe {
        ok(flash_memory_map_read(y, 0, 4, &mut all));
        ok(flash_memory_map_read(y, 1, 3, &mut part));
        assert_eq!(part.addr(), all.addr() + 4, "in place, without a copy");
        fails(flash_memory_map_write(y, &mut to), STATUS_BORROWED, &["borrowed"]);
        fails(launch(saxpy, &[f32(1.0), array(x), array(y)], &[count(4)]), STATUS_BORROWED, &["borrowed"]);
        fails(flash_memory_map_read(y, 1, 5, &mut part), STATUS_RANGE, &["1..5", "4 elements"]);
        ok(flash_memory_unmap(y, all));
        fails(flash_memory_unmap(y, all), STATUS_POINTER, &["a mapping of this thread"]);
        fails(flash_memory_unmap(x, part), STATUS_POINTER, &["a mapping of this thread"]);
        ok(flash_memory_unmap(y, part));
        ok(launch(saxpy, &[f32(1.0), array(x), array(y)], &[count(4)]));
        ok(flash_memory_map_write(y, &mut to));
        fails(flash_memory_map_read(y, 0, 4, &mut all), STATUS_BORROWED, &[]);
        fails(flash_memory_map_write(y, &mut to), STATUS_BORROWED, &[]);
        ok(flash_memory_unmap(y, to));
    }
    free(&[saxpy], &[x, y], &[]);
}

#[test]
fn a_mapping_belongs_to_its_thread_and_ends_with_it() {
    let y = Shared(zeroed("f32", &[4]));
    let mut data = no_data();
    ok(unsafe { flash_memory_map_read(y.get(), 0, 4, &mut data) });
    let address = data.addr();
    let other = std::thread::spawn(move || {
        let status = unsafe { flash_memory_unmap(y.get(), std::ptr::without_provenance(address)) };
        fails(status, STATUS_POINTER, &["a mapping of this thread"]);
        let mut own = no_data();
        ok(unsafe { flash_memory_map_read(y.get(), 0, 4, &mut own) });
        // It is not unmapped.
    });
    // The thread is over, and not only its function.
    other.join().unwrap();
    ok(unsafe { flash_memory_unmap(y.get(), data) });
    let mut to = null_mut();
    ok(unsafe { flash_memory_map_write(y.get(), &mut to) });
    ok(unsafe { flash_memory_unmap(y.get(), to) });
    free(&[], &[y.get()], &[]);
}

#[test]
fn what_is_mapped_outlives_the_handle() {
    let (y, mut data) = (memory("u64", &[5u64, 6]), no_data());
    ok(unsafe { flash_memory_map_read(y, 0, 2, &mut data) });
    ok(unsafe { flash_memory_free(y) });
    assert_eq!(unsafe { data.cast::<u64>().add(1).read() }, 6);
    ok(unsafe { flash_memory_unmap(y, data) });
    let mut none = no_data();
    let empty = zeroed("u64", &[0]);
    ok(unsafe { flash_memory_map_read(empty, 0, 0, &mut none) });
    ok(unsafe { flash_memory_unmap(empty, none) });
    free(&[], &[empty], &[]);
}

#[test]
fn many_threads_launch_at_once_each_with_its_own_last_error() {
    let rt = Runtime::open("ALL_CPU");
    let (saxpy, x) = (rt.kernel("tests.saxpy"), Shared(memory("f32", &[1f32; 64])));
    let shared = Shared(saxpy.cast());
    let sum = Shared(zeroed("f32", &[64]));
    scope(|scope| {
        for thread in 0..8u64 {
            scope.spawn(move || {
                let saxpy = shared.get().cast_const().cast();
                let own = zeroed("f32", &[64]);
                for _ in 0..200 {
                    ok(launch(saxpy, &[f32(1.0), array(x.get()), array(own)], &[count(64)]));
                    ok(launch(saxpy, &[f32(1.0), array(x.get()), array(sum.get())], &[count(64)]));
                    let wrong = 100 + thread;
                    let status = launch(saxpy, &[f32(1.0), array(x.get()), array(own)], &[count(wrong)]);
                    fails(status, STATUS_ARGUMENT, &[&(wrong - 1).to_string()]);
                }
                assert_eq!(contents::<f32>(own), [200.0; 64]);
                free(&[], &[own], &[]);
            });
        }
    });
    assert_eq!(contents::<f32>(sum.get()), [1600.0; 64]);
    free(&[saxpy], &[x.get(), sum.get()], &[]);
}
