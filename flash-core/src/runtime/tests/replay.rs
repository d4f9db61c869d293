//! Pipelines recorded, read back and run again; and damaged or random files.

use super::kernels::{Axpy, Fill, Grid, Histogram, Orphan, Shift, Stages, Sum, Weave};
use super::{runtimes, serial};
use crate::kernel::Element;
use crate::memory::FlashMemory;
use crate::recording::{Argument, Data, Recording};
use crate::{Error, Pipeline, RuntimeObj};
use flash_types::descriptor::{Attributes, Devices, Implementation, group_by, only};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

/// Kernel, memories, first element of a range, number of items.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    a: usize,
    b: usize,
    start: usize,
    items: u64,
    value: u64,
}

const MEMORIES: usize = 4;
const LEN: usize = 8;

fn step() -> impl Strategy<Value = Step> {
    (0..11u8, 0..MEMORIES, 0..MEMORIES, 0..4usize, 0..5u64, 0..100u64)
        .prop_map(|(kind, a, b, start, items, value)| Step { kind, a, b, start, items, value })
}

/// The memories of a case: the second has a shape.
fn memories() -> Vec<FlashMemory<u64>> {
    let fresh = |m: usize| FlashMemory::from((0..LEN).map(|i| (i * 3 + m) as u64).collect::<Vec<_>>());
    let mut memories: Vec<_> = (0..MEMORIES).map(fresh).collect();
    memories[1] = fresh(1).with_shape([LEN]).unwrap();
    memories
}

/// The steps as a pipeline; a step that needs a slice has the local array of its position.
fn build<'a>(
    rt: &RuntimeObj,
    steps: &[Step],
    memories: &'a [FlashMemory<u64>],
    locals: &'a mut [Vec<u64>],
    counts: &'a (FlashMemory<u32>, FlashMemory<f64>),
) -> Pipeline<'a> {
    let mut pipeline = rt.pipeline();
    for (s, local) in steps.iter().zip(locals) {
        let (a, b, n) = (&memories[s.a], &memories[s.b], s.items);
        let never = u64::MAX;
        let mut attributes = Attributes::default();
        attributes.set_by_name("nobody.knows", serde_json::json!({"rows": [1, 2]}), false);
        pipeline = match s.kind {
            0 => pipeline.submit(Axpy::of(s.value, a, b)).defer([n]),
            1 => pipeline.submit(Axpy::of(s.value, a.range(s.start..).unwrap(), local)).defer([n]),
            2 => pipeline.submit(Fill::of(s.value, never, b.range(s.start..s.start + 4).unwrap())).defer([n]),
            3 => pipeline.submit(Sum::of(&local[..], b)).defer((s.start as u64..s.start as u64 + n,)),
            4 => pipeline.submit(Shift::of(a)).defer([n, 3]),
            // Every second of the barriers: the first two steps are one phase.
            5 => pipeline.submit(Stages::of(a, b)).options(group_by(only(["stage"]))).defer([n, 2]),
            6 => pipeline.submit(Histogram::of(a, &counts.0, &counts.1)).options(attributes).defer([n]),
            7 => pipeline.submit(Axpy::of(s.value, a.clone(), b.clone())).sizes([[4], [8]]).defer([n]),
            8 => {
                let shapes = [[2, 4], [4, 2], [8, 1]];
                let [a, b] = [(a, s.value), (b, s.value / 3)]
                    .map(|(of, shape)| of.view(shapes[shape as usize % 3]).unwrap());
                pipeline.submit(Weave::of(a, b)).defer((0..n.min(2), 0..2u64))
            }
            9 => {
                let (a, b) = (a.range(s.start..s.start + 4).unwrap().view([2, 2]).unwrap(), &mut local[..]);
                pipeline.submit(Weave::of(a, b)).sizes([&[][..], &[2u64, 2]]).defer((2, 2))
            }
            _ => {
                let list = [3, 1, s.value % 8];
                pipeline.submit(Axpy::of(s.value, a, &mut local[..])).defer((crate::count_by(list),))
            }
        };
    }
    pipeline
}

fn bytes<T: Element>(memory: &FlashMemory<T>) -> Vec<u8> {
    bytemuck::cast_slice::<T, u8>(&memory.read().unwrap()).to_vec()
}

#[test]
#[cfg_attr(miri, ignore = "the search of random pipelines takes minutes")]
fn what_is_written_down_and_read_back_computes_the_same() {
    let cases = 600;
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let replayed_some = std::cell::Cell::new(0);
    proptest!(config, |(steps in vec(step(), 0..7), on in 0..2usize)| {
        let rt = &runtimes()[on];
        let memories = memories();
        let counts = (FlashMemory::zeroed(3), FlashMemory::from([-1.0f64]));
        let fresh = |i| (0..LEN as u64).map(|k| 100 * i as u64 + k).collect();
        let mut locals: Vec<Vec<u64>> = (0..steps.len()).map(fresh).collect();
        let pipeline = build(rt, &steps, &memories, &mut locals, &counts);
        let recording = pipeline.recording(Data::With);
        let structure = pipeline.recording(Data::Without);
        let outcome = pipeline.exec();
        drop(pipeline);
        let Ok(recording) = recording else {
            // A pipeline that cannot run cannot be recorded, for the same reason.
            let (found, expected) = (recording.unwrap_err(), outcome.unwrap_err());
            prop_assert_eq!(found.to_string(), expected.to_string());
            return Ok(());
        };
        prop_assert_eq!(recording.submissions.len(), steps.len());
        let from_json = Recording::from_json(&recording.to_json().unwrap()).unwrap();
        prop_assert_eq!(&from_json, &recording);
        let from_binary = Recording::from_bytes(&from_json.to_bytes().unwrap()).unwrap();
        prop_assert_eq!(&from_binary, &recording);

        let mut structure = Recording::from_bytes(&structure.unwrap().to_bytes().unwrap()).unwrap();
        prop_assert!(recording.has_data() && structure.has_data() == recording.memories.is_empty());
        for (memory, with) in structure.memories.iter_mut().zip(&recording.memories) {
            memory.data.clone_from(&with.data);
        }
        prop_assert_eq!(&structure, &recording, "contents apart, they are the same");

        outcome.unwrap();
        let replayed = runtimes()[1 - on].replay(&from_binary).unwrap();
        let mut stepwise = rt.replay_steps(&from_binary).unwrap();
        for position in 0..steps.len() {
            prop_assert_eq!(stepwise.step().unwrap(), Some(position));
        }
        prop_assert_eq!(stepwise.step().unwrap(), None);
        for (i, step) in steps.iter().enumerate() {
            let arguments = recording.submissions[i].arguments.iter().filter_map(Argument::memory);
            let arrays: Vec<usize> = arguments.collect();
            let (a, b, local) = (&memories[step.a], &memories[step.b], &locals[i]);
            let (a, b, local) = (bytes(a), bytes(b), bytemuck::cast_slice(local).to_vec());
            let expected: Vec<Vec<u8>> = match step.kind {
                1 | 9 | 10 => vec![a, local],
                2 => vec![b],
                3 => vec![local, b],
                4 => vec![a],
                6 => vec![a, bytes(&counts.0), bytes(&counts.1)],
                _ => vec![a, b],
            };
            prop_assert_eq!(arrays.len(), expected.len());
            for (memory, expected) in arrays.into_iter().zip(expected) {
                prop_assert_eq!(&replayed.bytes(memory).unwrap(), &expected, "{:?} of {:?}", step, steps);
                prop_assert_eq!(&stepwise.memories().bytes(memory).unwrap(), &expected);
            }
        }
        replayed_some.set(replayed_some.get() + 1);
    });
    let some = replayed_some.get();
    assert!(some > cases / 10, "only {some} of {cases} cases were pipelines that run");
}

/// A recording with one of everything.
fn rich() -> Recording {
    let memories = memories();
    let (counts, grid) = ((FlashMemory::zeroed(3), FlashMemory::from([0.5f64])), FlashMemory::zeroed([2, 3]));
    let steps: Vec<Step> = (0..11)
        .map(|kind| Step { kind, a: 0, b: 1 + kind as usize % 3, start: 1, items: 3, value: 4 })
        .collect();
    let mut locals = vec![vec![5u64; LEN]; steps.len()];
    let rows = FlashMemory::from((0..12u16).collect::<Vec<_>>()).with_shape([4, 3]).unwrap();
    let turned: FlashMemory<u64> = [0u64, 1, 2, 10, 11, 12].into_iter().collect();
    build(serial(), &steps, &memories, &mut locals, &counts)
        .submit(Grid::of(&rows, &turned, &grid))
        .defer([2, 3])
        .recording(Data::With)
        .unwrap()
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n.max(1)
    }
}

/// Numbers at the limits of arithmetic, and characters with a meaning in one of the forms.
const TOKENS: [&[u8]; 16] = [
    b"18446744073709551615",
    b"9223372036854775807",
    b"4294967296",
    b"-1",
    b"1e400",
    b"0",
    b"null",
    b"{}",
    b"[]",
    b"\"\"",
    b"\"Write\"",
    b"{\"Range\":{\"start\":9,\"step\":0,\"count\":7}}",
    b"{\"Sequence\":[3,3,1]}",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\x0f",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

fn mutate(file: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(file.len());
        let end = (at + random.below(24)).min(file.len());
        match random.below(8) {
            0 => file.truncate(at),
            1 => drop(file.drain(at..end)),
            2 => {
                let copy = file[at..end].to_vec();
                let to = random.below(file.len());
                file.splice(to..to, copy);
            }
            3 => {
                let token = TOKENS[random.below(TOKENS.len())];
                file.splice(at..at, token.iter().copied());
            }
            4 => {
                // A number of the JSON form for another.
                let is_digit = |b: &u8| b.is_ascii_digit();
                if let Some(first) = file[at..].iter().position(is_digit) {
                    let first = at + first;
                    let count = file[first..].iter().take_while(|b| is_digit(b)).count();
                    let token = TOKENS[random.below(TOKENS.len())];
                    file.splice(first..first + count, token.iter().copied());
                }
            }
            5 | 6 if at < file.len() => file[at] = random.below(256) as u8,
            _ if at < file.len() => file[at] ^= 1 << random.below(8),
            _ => {}
        }
    }
}

/// The `n`-th value of a JSON text, those that contain others first.
fn nth<'v>(value: &'v mut Value, n: &mut usize) -> Option<&'v mut Value> {
    if *n == 0 {
        return Some(value);
    }
    *n -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, n)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, n)),
        _ => None,
    }
}

/// Changes values of a recording so that its form stays valid.
fn mutate_values(recording: &mut Value, random: &mut Random) {
    let mut all = usize::MAX;
    nth(recording, &mut all);
    let count = usize::MAX - all;
    for _ in 0..1 + random.below(3) {
        let (mut from, mut to) = (random.below(count), random.below(count));
        let other = nth(recording, &mut from).map(|value| value.clone()).unwrap_or_default();
        let choice = random.below(8);
        match nth(recording, &mut to) {
            Some(Value::Number(number)) if choice > 0 => {
                let n = number.as_u64().unwrap_or(0);
                let near =
                    [n.wrapping_add(1), n.wrapping_sub(1), 0, n.wrapping_add(8), 1 << 32, u64::MAX, 1 << 63];
                *number = near[choice - 1].into();
            }
            Some(Value::String(text)) if choice > 3 => text.truncate(text.len() / 8 * choice),
            Some(value) => *value = other,
            None => {}
        }
    }
}

/// Reads any file; if it is a recording, runs it, unless that is much work.
fn read(file: &[u8], read: &mut usize, run: &mut usize) {
    let recording = match Recording::from_bytes(file) {
        Ok(recording) => recording,
        Err(error) => {
            let text = error.to_string();
            assert!(matches!(error, Error::Recording(_)) && text.starts_with("recording: "), "{text}");
            return;
        }
    };
    *read += 1;
    let again = Recording::from_json(&recording.to_json().unwrap()).unwrap();
    assert_eq!(again, recording);
    assert_eq!(Recording::from_bytes(&recording.to_bytes().unwrap()).unwrap(), recording);
    let items =
        |s: &crate::recording::Submission| s.dims.iter().try_fold(1u64, |n, d| n.checked_mul(d.len()));
    let total = recording.submissions.iter().try_fold(0u64, |n, s| n.checked_add(items(s)?));
    if total.is_some_and(|n| n < 10_000) {
        *run += usize::from(serial().replay(&recording).is_ok());
    }
}

/// Corrects the checksum of a binary form, so that the reader goes on after it.
fn seal(file: &mut [u8]) {
    if let Some((head, body)) = file.split_at_mut_checked(16) {
        head[12..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many files")]
fn no_file_makes_the_reader_panic() {
    // Kernels of a changed recording may panic: that is an error of the launch.
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let recording = rich();
    let (json, binary) = (recording.to_json().unwrap().into_bytes(), recording.to_bytes().unwrap());
    let mut random = Random(0x9e3779b97f4a7c15);
    let (mut were_read, mut were_run) = (0, 0);
    for _ in 0..rounds / 4 {
        let mut value: Value = serde_json::from_slice(&json).unwrap();
        mutate_values(&mut value, &mut random);
        read(value.to_string().as_bytes(), &mut were_read, &mut were_run);
    }
    for round in 0..rounds {
        let mut file = if round % 2 == 0 { json.clone() } else { binary.clone() };
        if round % 16 == 3 {
            file = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
            if round % 32 == 3 {
                file.splice(..0, binary[..16].iter().copied());
            }
        }
        mutate(&mut file, &mut random);
        if round % 10 != 1 && file.starts_with(b"FLASHREC") {
            seal(&mut file);
        }
        read(&file, &mut were_read, &mut were_run);
    }
    assert!(cfg!(miri) || were_read > rounds / 50, "{were_read} of {rounds} were recordings still");
    assert!(cfg!(miri) || were_run > rounds / 100, "{were_run} of {were_read} recordings ran");
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many files")]
fn every_cut_and_every_flipped_bit_of_a_binary_file_is_found() {
    let file = rich().to_bytes().unwrap();
    for cut in 0..file.len() {
        Recording::from_bytes(&file[..cut]).expect_err("cut off");
    }
    let mut random = Random(7);
    for _ in 0..if cfg!(miri) { 10 } else { 2_000 } {
        let mut file = file.clone();
        let at = random.below(file.len());
        file[at] ^= 1 << random.below(8);
        Recording::from_bytes(&file).expect_err("damaged");
    }
}

#[test]
fn where_and_by_what_code_it_ran_does_not_bind_a_replay() {
    let [rt, other] = runtimes();
    let out = FlashMemory::<u64>::zeroed(4);
    let options = (Devices::key("TEST_SERIAL:0"), Implementation::named("plain"));
    let recording = rt.submit(Fill::of(3, u64::MAX, &out)).options(options).defer([4]).recording(Data::With);
    let mut recording = recording.unwrap();
    assert_eq!(recording.submissions[0].options.iter().count(), 2, "it is written down");
    // A file cannot make the program load libraries either.
    let file = Implementation::file("/nonexistent/library.so", "symbol");
    recording.submissions[0].options.set(file.clone());
    recording.kernels[0].attributes.set(file);
    assert_eq!(other.replay(&recording).unwrap().read::<u64>(0).unwrap(), [3; 4]);
}

#[test]
fn what_cannot_be_written_down_or_replayed_is_an_error_that_says_what_to_do() {
    let rt = serial();
    let out = FlashMemory::<u64>::zeroed(4);
    let fill = || rt.submit(Fill::of(3, u64::MAX, &out));
    let text = |e: Error| e.to_string();

    let saved = fill().failsafe(|_| Ok(())).defer([4]);
    let error = text(saved.recording(Data::Without).unwrap_err());
    assert!(error.contains("submission 0 (`test.fill`)") && error.contains("failsafe"), "{error}");

    let error = text(rt.submit(Orphan::of(1, &out)).defer([4]).recording(Data::With).unwrap_err());
    assert!(error.contains("test.orphan"), "{error}");

    let pipeline = fill().defer([4]);
    let guard = out.write().unwrap();
    assert!(matches!(pipeline.recording(Data::With), Err(Error::Borrowed { .. })));
    let mut bare = pipeline.recording(Data::Without).unwrap();
    drop(guard);
    let error = text(rt.replay(&bare).map(drop).unwrap_err());
    assert!(error.contains("memory 0") && error.contains("Data::With"), "{error}");

    let good = pipeline.recording(Data::With).unwrap();
    let replayed = rt.replay(&good).unwrap();
    assert_eq!((replayed.len(), replayed.read::<u64>(0).unwrap()), (1, vec![3; 4]));
    let error = text(replayed.read::<f64>(0).unwrap_err());
    assert!(error.contains("u64") && error.contains("f64"), "{error}");
    assert!(matches!(replayed.bytes(1), Err(Error::Range { start: 1, .. })));

    bare.kernels[0].name = "test.full".into();
    bare.memories[0].data = Some(vec![0; 32]);
    assert!(matches!(rt.replay(&bare), Err(Error::NoKernel { .. })));
    let mut other = good.clone();
    other.kernels[0].dimensions[0] = "y".into();
    let error = text(rt.replay(&other).map(drop).unwrap_err());
    assert!(error.contains("test.fill") && error.contains("dimensions y"), "{error}");
    // The proofs of a launch apply to a replay, too.
    let mut long = good;
    long.submissions[0].dims[0] = 5.into();
    let error = text(rt.replay(&long).map(drop).unwrap_err());
    assert!(error.contains("`out`") && error.contains("`x`"), "{error}");
}

#[test]
fn a_failed_step_has_its_position_and_the_next_goes_on() {
    let out = FlashMemory::<u64>::zeroed(4);
    let other = FlashMemory::<u64>::zeroed(4);
    let rt = serial();
    let pipeline = rt
        .submit(Fill::of(1, u64::MAX, &other))
        .defer([4])
        .submit(Fill::of(2, 1, &out))
        .defer([4])
        .submit(Axpy::of(5, &other, &other))
        .options(Attributes::default())
        .defer([0]);
    assert!(pipeline.recording(Data::With).is_err(), "it overlaps itself");
    drop(pipeline);
    let pipeline = rt
        .submit(Fill::of(1, u64::MAX, &other))
        .defer([4])
        .submit(Fill::of(2, 1, &out))
        .defer([4])
        .submit(Fill::of(3, u64::MAX, &other))
        .defer([4]);
    let recording = pipeline.recording(Data::With).unwrap();
    let mut steps = rt.replay_steps(&recording).unwrap();
    assert_eq!(steps.step().unwrap(), Some(0));
    assert!(matches!(steps.step(), Err(Error::Launch(launch)) if launch.position == 1));
    assert!(matches!(steps.memories().bytes(1), Err(Error::Poisoned)));
    assert_eq!(steps.step().unwrap(), Some(2));
    assert_eq!(steps.memories().read::<u64>(0).unwrap(), [3; 4]);
}
