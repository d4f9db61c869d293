//! Rows of different lengths: the own row of each work item.

use flash::kernel;
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, count_by};
use flash_core::descriptor::{Attributes, Implementation, Subspaces, part_by, rows, weights};
use flash_tests::Random;

/// The elements of each row, and its number, summed up from the left; `last` gets the last sum.
#[derive(KernelDefinition)]
#[kernel(name = "ragged.sums", dims(row), part_by(row))]
struct Sums<'a> {
    scale: u64,
    #[structure]
    start: Whole<'a, Read<u64>>,
    #[rows(start)]
    from: Ragged<'a, Read<u32>>,
    #[rows(start)]
    sums: Ragged<'a, ReadWrite<u64>>,
    last: Item<'a, Write<u64>>,
}

/// As an item.
struct Once;

#[kernel(devices)]
impl CpuItem<Sums<'_>> for Once {
    fn item(ix: Index<1>, k: SumsItem<'_>) {
        let mut sum = ix[0] as u64;
        for i in 0..k.from.len() {
            sum += k.scale * k.from[i] as u64;
            k.sums[i] += sum;
        }
        k.last.set(sum);
    }
}

/// As a run.
struct Runs;

#[kernel(name = "runs")]
impl CpuSpan<Sums<'_>> for Runs {
    fn span(run: Span<1>, mut k: SumsSpan<'_>) {
        assert_eq!((k.from.len(), k.sums.len()), (run.len(), run.len()));
        for (at, row) in run.range().enumerate() {
            let mut sum = row as u64;
            for (to, from) in k.sums.row(at).iter_mut().zip(k.from.row(at)) {
                sum += k.scale * u64::from(*from);
                *to += sum;
            }
            k.last[at] = sum;
        }
    }
}

/// All of a part.
struct All;

#[kernel(name = "all")]
impl CpuWhole<Sums<'_>> for All {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, mut k: SumsWhole<'_>, _: Threads<'_>) {
        let rows = space.values(0);
        assert_eq!((k.from.len(), k.sums.len()), (rows.len(), rows.len()));
        for (at, row) in rows.enumerate() {
            let mut sum = row as u64;
            for (to, from) in k.sums.row(at).iter_mut().zip(k.from.row(at)) {
                sum += k.scale * u64::from(*from);
                *to += sum;
            }
            k.last[at] = sum;
        }
    }
}

/// The same with a dimension before the rows', whose values come one after another.
#[derive(KernelDefinition)]
#[kernel(name = "ragged.turns", dims(turn, row), sort_by(turn), group_by(turn), part_by(row))]
struct Turns<'a> {
    #[structure]
    start: Whole<'a, Read<u64>>,
    #[rows(start)]
    #[along(row)]
    values: Ragged<'a, ReadWrite<u64>>,
}

#[kernel(devices)]
impl CpuItem<Turns<'_>> for Once {
    fn item(ix: Index<2>, k: TurnsItem<'_>) {
        for i in 0..k.values.len() {
            k.values[i] = 3 * k.values[i] + (ix[0] + ix[1] + i) as u64;
        }
    }
}

fn lengths(random: &mut Random, rows: usize) -> Vec<u64> {
    let of = |_| match random.next() % 8 {
        0 | 1 => 0,
        2 => random.next() % 200,
        _ => random.next() % 9,
    };
    (0..rows).map(of).collect()
}

/// Which function of the CPU, or any.
fn named(name: &str) -> Attributes {
    let mut options = Attributes::default();
    if !name.is_empty() {
        options.set(Implementation::named(name));
    }
    options
}

fn sums_are_those_of_a_serial_program(rt: &RuntimeObj, name: &str, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed);
        let count = 1 + random.next() as usize % 60;
        let lengths = lengths(&mut random, count);
        let offsets = RowOffsets::from_lengths(lengths.iter().copied()).unwrap();
        // Elements behind the last row stay as they are.
        let len = offsets.elements() as usize + random.next() as usize % 5;
        let from: Vec<u32> = (0..len).map(|_| random.next() as u32 % 1000).collect();
        let before: Vec<u64> = (0..len as u64).map(|i| i * i).collect();
        let (sums, last) = (FlashMemory::from(before.clone()), FlashMemory::from(vec![7u64; count]));
        let launched = random.next() as usize % count..count;
        rt.submit(Sums::of(3, &offsets, &from, &sums, &last))
            .options(named(name))
            .exec([launched.clone()])
            .unwrap();
        let (mut expected, mut expected_last) = (before, vec![7u64; count]);
        for row in launched {
            let mut sum = row as u64;
            for i in offsets.range(row).unwrap() {
                sum += 3 * u64::from(from[i]);
                expected[i] += sum;
            }
            expected_last[row] = sum;
        }
        let found = sums.to_vec().unwrap();
        let differ = (0..len).find(|i| found[*i] != expected[*i]);
        assert_eq!(differ, None, "seed {seed}: an element of `sums`, rows {lengths:?}");
        assert_eq!(*last.read().unwrap(), expected_last, "seed {seed}, rows {lengths:?}");
    }
}

#[flash_tests::test]
fn rows_are_those_of_a_serial_program() {
    sums_are_those_of_a_serial_program(&flash_tests::runtime(), "", 0..40);
}

#[flash_tests::test]
fn rows_are_the_same_in_runs_and_in_parts() {
    let rt = flash_tests::runtime_of_functions();
    sums_are_those_of_a_serial_program(&rt, "runs", 100..130);
    sums_are_those_of_a_serial_program(&rt, "all", 200..230);
}

#[flash_tests::test]
fn rows_are_cut_over_devices_and_into_parts() {
    for (i, devices) in flash_tests::APART[2..].iter().enumerate() {
        flash_tests::in_process(devices, || {
            let rt = flash_tests::runtime();
            let seeds = 1000 * i as u64..1000 * i as u64 + 30;
            sums_are_those_of_a_serial_program(&rt, "", seeds.clone());
            sums_are_those_of_a_serial_program(&rt, "all", seeds.clone());
            let cut = rt.options(weights((1..=rt.devices().len()).map(|n| n as f64).collect::<Vec<_>>()));
            sums_are_those_of_a_serial_program(&cut, "runs", seeds.clone());
            sums_are_those_of_a_serial_program(&rt.options(Subspaces(5)), "", seeds);
        });
    }
}

#[flash_tests::test]
fn rows_are_of_one_dimension_of_several() {
    let rt = flash_tests::runtime();
    for seed in 0..20 {
        let mut random = Random(seed);
        let offsets = RowOffsets::from_lengths(lengths(&mut random, 20)).unwrap();
        let before: Vec<u64> = (0..offsets.elements()).collect();
        let values = FlashMemory::from(before.clone());
        rt.submit(Turns::of(&offsets, &values)).exec([4usize, 20]).unwrap();
        let mut expected = before;
        for (turn, row) in (0..4).flat_map(|turn| (0..20).map(move |row| (turn, row))) {
            for (i, at) in offsets.range(row).unwrap().enumerate() {
                expected[at] = 3 * expected[at] + (turn + row + i) as u64;
            }
        }
        assert_eq!(*values.read().unwrap(), expected, "seed {seed}");
    }
}

fn refused(outcome: Result<(), Error>, argument: &str, text: &str) {
    let error = outcome.unwrap_err();
    assert!(matches!(&error, Error::Argument { argument: found, .. } if found == argument), "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

#[flash_tests::test]
fn what_would_not_keep_rows_apart_is_refused_before_anything_runs() {
    let rt = flash_tests::runtime();
    let offsets = RowOffsets::new([0, 2, 5]).unwrap();
    let (from, sums, last) = (vec![1u32; 5], FlashMemory::<u64>::zeroed(5), FlashMemory::<u64>::zeroed(9));
    let plain = FlashMemory::from([0u64, 2, 5]);
    let of_plain = rt.submit(Sums::of(1, &plain, &from, &sums, &last)).exec([2]);
    refused(of_plain, "from", "pass `&RowOffsets`");
    let of_slice = rt.submit(Sums::of(1, &[0u64, 2, 5][..], &from, &sums, &last)).exec([2]);
    refused(of_slice, "from", "pass `&RowOffsets`");
    let too_many = rt.submit(Sums::of(1, &offsets, &from, &sums, &last)).exec([3]);
    refused(too_many, "from", "dimension `row` reaches the value 2, its offsets are of 2 rows");
    let too_few = rt.submit(Sums::of(1, &offsets, &from[..4], &sums, &last)).exec([2]);
    refused(too_few, "from", "its rows end at element 5, the array has 4 elements");
    let grid = FlashMemory::<u64>::zeroed([5, 2]);
    let shaped = rt.submit(Sums::of(1, &offsets, &from, &grid, &last)).exec([2]);
    refused(shaped, "sums", "the array has the shape [5, 2]");
    rt.submit(Sums::of(1, &offsets, &from, grid.range(..).unwrap(), &last)).exec([2]).unwrap();
    let twice = rt.submit(Sums::of(1, &offsets, &from, &sums, &last)).exec([count_by([0u64, 1, 1])]);
    assert!(matches!(twice, Err(Error::Argument { .. })), "{twice:?}");
    assert_eq!(*sums.read().unwrap(), [0; 5]);
    // A map would say which elements a part has, and they follow from its rows.
    let mapped = rt
        .submit(Sums::of(1, &offsets, &from, &sums, &last))
        .options(part_by("row").map("sums", rows("row")))
        .exec([2]);
    let text = mapped.unwrap_err().to_string();
    assert!(text.contains("`sums` is a `Ragged`"), "{text}");
}

#[flash_tests::test]
fn a_kernel_of_rows_is_found_by_name_and_a_recording_of_it_runs_again() {
    let rt = flash_tests::runtime();
    let offsets = RowOffsets::new([0, 2, 2, 5]).unwrap();
    let (from, sums, last) =
        (FlashMemory::from([1u32; 5]), FlashMemory::<u64>::zeroed(5), FlashMemory::<u64>::zeroed(3));
    let expected = [1, 2, 3, 4, 5];
    let kernel = rt.kernel("ragged.sums").unwrap();
    rt.submit(kernel.args((1u64, &offsets, &from, &sums, &last)).unwrap()).exec([3]).unwrap();
    assert_eq!(*sums.read().unwrap(), expected);
    let plain = FlashMemory::from([0u64, 2, 2, 5]);
    let of_plain = rt.submit(kernel.args((1u64, &plain, &from, &sums, &last)).unwrap()).exec([3]);
    refused(of_plain, "from", "pass `&RowOffsets`");

    sums.write().unwrap().fill(0);
    let pipeline = rt.submit(Sums::of(1, &offsets, &from, &sums, &last)).defer([3]);
    let recording = pipeline.recording(flash_core::recording::Data::With).unwrap();
    let again = rt.replay(&recording).unwrap();
    let written = recording.written_by(0);
    assert_eq!(again.read::<u64>(written[0]).unwrap(), expected);
    // Offsets of a file are looked at like any others.
    let mut wrong = recording.clone();
    let starts = wrong.memories.iter_mut().find(|memory| memory.data.as_ref().is_some_and(|d| d.len() == 32));
    starts.unwrap().data.as_mut().unwrap()[8] = 9;
    let text = rt.replay(&wrong).err().unwrap().to_string();
    assert!(text.contains("offset 2 is 2, after 9"), "{text}");
}

#[flash_tests::test]
fn offsets_are_not_written() {
    let offsets = RowOffsets::new([0, 2, 5]).unwrap();
    assert_eq!(offsets.to_vec().unwrap(), [0, 2, 5]);
    let rt = flash_tests::runtime();
    // Nothing gives out a handle that could. By name it is passed as what is only read.
    let fill = rt.kernel("ragged.turns").unwrap();
    let values = FlashMemory::<u64>::zeroed(5);
    assert!(fill.args((&values, &offsets)).is_err());
    assert!(RowOffsets::new([]).unwrap_err().to_string().contains("no offsets"));
    assert!(RowOffsets::new([3, 2]).unwrap_err().to_string().contains("offset 1 is 2, after 3"));
    let long = RowOffsets::from_lengths([u64::MAX, 1]);
    assert!(long.unwrap_err().to_string().contains("more than 2^64"));
    let error = offsets.range(2).unwrap_err();
    assert!(matches!(error, Error::Range { .. }), "{error}");
}
