//! The reader of recordings, and a replay of what it takes, by libFuzzer: no file makes them panic.
//!
//! There is no corpus: the mutator plants recordings of its own, in both forms and versions, and makes the
//! checksum of a binary one right, so that the reader goes on behind it. Numbers of the command line are
//! libFuzzer's; a file that made it stop is read again when its path is given.

#![no_main]

use flash::Error;
use flash::prelude::*;
use flash::recording::{Data, Recording, Submission};
use flash_fuzz::kernels::{Heat, Shift, Tally};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::OnceLock;

fn runtime() -> &'static RuntimeObj {
    static RUNTIME: OnceLock<RuntimeObj> = OnceLock::new();
    RUNTIME.get_or_init(|| get_runtime("ALL_CPU").expect("there is a CPU"))
}

/// A recording of one of everything.
fn rich() -> Result<Recording, Error> {
    let plate = |hot| FlashMemory::from(vec![hot; 20]).with_shape([5, 4]);
    let (now, next, bins) = (plate(1.0f32)?, plate(2.0)?, FlashMemory::<u32>::zeroed(3));
    let mut ring: Vec<u32> = (0..4).collect();
    let (values, shares) = ([1u16, 2, 3, 4, 5], weights([1]));
    let bodies = FlashMemory::from([[0.0f64, 1.0, 2.0], [3.0, 4.0, 5.0]]);
    let (mass, acc) = (FlashMemory::from([1.0f64, 2.0]), FlashMemory::<[f64; 3]>::zeroed(2));
    runtime()
        .submit(Heat::of(0.1, &now, &next))
        .options((shares, Subspaces(2)))
        .defer((1..4, 1..3))
        .submit(Tally::of(&values[..], bins.range(1..).expect("it has three")))
        .sizes([[5u64], [2]])
        .defer((count_by([0, 4, 2, 2]),))
        .submit(Shift::of(&mut ring[..]))
        .options(group_by(only(["step"])))
        .defer((4, 2))
        .submit(flash::kernels::nbody::Accelerate::of(1.0, 0.1, &bodies, &mass, &acc))
        .defer([2])
        .recording(Data::With)
}

/// The two forms of it, and as a file of version 1, where the library's kernel has another name.
fn seeds() -> &'static [Vec<u8>; 3] {
    static SEEDS: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let recording = rich().expect("it can be recorded");
        let json = recording.to_json().expect("it can be written");
        let first = json.replacen("\"version\":2", "\"version\":1", 1).replace("flash.nbody", "nbody");
        let read = Recording::from_json(&first).expect("version 1 is read");
        assert!(first != json && read == recording, "{first}");
        [json.into_bytes(), recording.to_bytes().expect("it can be written"), first.into_bytes()]
    })
}

/// Makes the checksum of a binary file right.
fn seal(file: &mut [u8]) {
    if let Some((head, body)) = file.split_at_mut_checked(16)
        && head.starts_with(b"FLASHREC")
    {
        head[12..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }
}

/// Reads a file that may be anything; what is a recording is written again, and run if that is little work.
fn read(file: &[u8]) {
    let recording = match Recording::from_bytes(file) {
        Ok(recording) => recording,
        Err(error) => {
            let text = error.to_string();
            assert!(matches!(error, Error::Recording(_)) && text.starts_with("recording: "), "{text}");
            return;
        }
    };
    let json = recording.to_json().expect("what was read can be written");
    assert_eq!(Recording::from_json(&json).expect("it was written"), recording);
    let bytes = recording.to_bytes().expect("what was read can be written");
    assert_eq!(Recording::from_bytes(&bytes).expect("it was written"), recording);
    let items = |s: &Submission| s.dims.iter().try_fold(1u64, |n, dim| n.checked_mul(dim.len()));
    let total = recording.submissions.iter().try_fold(0u64, |n, s| n.checked_add(items(s)?));
    if total.is_some_and(|n| n < 10_000) {
        // An error is good, and a panic of a kernel is one.
        let _ = runtime().replay(&recording);
    }
}

fuzz_target!(
    init: {
        seeds();
        // libFuzzer's hook ends the process at every panic; those of kernels are errors of their launches.
        std::panic::set_hook(Box::new(|_| {}));
    },
    |file: &[u8]| {
        if let Err(panic) = catch_unwind(|| read(file)) {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            eprintln!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?"));
            resume_unwind(panic);
        }
    }
);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let planted = &seeds()[seed as usize / 64 % seeds().len()];
    let plants = (size < 16 || seed.is_multiple_of(64)) && planted.len() <= max_size;
    let size = if plants {
        data[..planted.len()].copy_from_slice(planted);
        planted.len()
    } else {
        size
    };
    let size = fuzzer_mutate(data, size, max_size);
    seal(&mut data[..size]);
    size
});
