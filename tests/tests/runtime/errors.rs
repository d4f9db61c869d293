//! Invalid launches are refused before anything of the pipeline runs, with helpful messages.

use flash::kernel;
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Row, Scatter, Whole, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_core::index::{Dim, IntoDims};

#[derive(KernelDefinition)]
#[kernel(name = "errors.add", dims(row, column))]
struct Add<'a> {
    table: Whole<'a, Read<u64>>,
    from: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
    #[along(row, column)]
    was: Phased<'a, u64>,
    bins: Scatter<'a, u64>,
    out: Item<'a, Write<u64>>,
}

/// Counts that it ran.
#[derive(KernelDefinition)]
#[kernel(name = "errors.count", dims(i))]
struct Count<'a> {
    runs: Scatter<'a, u32>,
}

#[derive(KernelDefinition)]
#[kernel(name = "errors.rows", dims(i))]
struct Rows<'a> {
    rows: Item<'a, ReadWrite<Row<u8>>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<2>, k: AddItem<'_>) {
        *k.to += *k.from + k.table[0];
        k.bins.add(0, 1);
        k.out.set(1);
    }
}

#[kernel(devices)]
impl CpuItem<Count<'_>> for Plain {
    fn item(_: Index<1>, k: CountItem<'_>) {
        k.runs.add(0, 1);
    }
}

#[kernel(devices)]
impl CpuItem<Rows<'_>> for Plain {
    fn item(_: Index<1>, k: RowsItem<'_>) {
        k.rows[0] += 1;
    }
}

fn cpu() -> RuntimeObj {
    flash_tests::runtime()
}

/// Memories for `Add` on 4 times 3 items.
fn six() -> [FlashMemory<u64>; 6] {
    std::array::from_fn(|_| FlashMemory::zeroed(12))
}

/// The error of `Add` on these dimensions; submissions before and after it must not run.
fn refused(memories: [&FlashMemory<u64>; 6], dims: impl IntoDims) -> Error {
    let (rt, runs) = (cpu(), FlashMemory::<u32>::zeroed(1));
    let [a, b, c, d, e, f] = memories;
    let chain = rt
        .submit(Count::of(&runs))
        .defer([5])
        .submit(Add::of(a, b, c, d, e, f))
        .defer(dims)
        .submit(Count::of(&runs))
        .defer([5]);
    let error = chain.exec().unwrap_err();
    assert_eq!(runs.get(0).unwrap(), 0, "something of the chain ran before: {error}");
    assert!(memories.iter().all(|m| m.read().unwrap().iter().all(|&v| v == 0)));
    let text = error.to_string();
    assert!(text.contains("kernel `errors.add`"), "{text}");
    assert_eq!(chain.exec().unwrap_err().to_string(), text, "it is refused each time");
    error
}

fn refused_dims(dims: impl IntoDims) -> String {
    let memories = six();
    refused(memories.each_ref(), dims).to_string()
}

#[flash_tests::test]
fn a_memory_that_is_written_and_passed_twice_is_refused_with_both_names() {
    let names = ["table", "from", "to", "was", "bins", "out"];
    let memories = six();
    for i in 0..6 {
        for j in i + 1..6 {
            let mut pair = memories.each_ref();
            pair[j] = pair[i];
            if j == 1 {
                // Both are only read.
                let [a, b, c, d, e, f] = pair;
                cpu().submit(Add::of(a, b, c, d, e, f)).exec([0, 0]).unwrap();
                continue;
            }
            let text = refused(pair, [4, 3]).to_string();
            for name in [names[i], names[j]] {
                assert!(text.contains(&format!("`{name}`")), "{name} in {text}");
            }
        }
    }
}

#[flash_tests::test]
fn ranges_may_share_a_memory_only_if_they_do_not_overlap() {
    let (rt, [table, _, to, was, bins, _]) = (cpu(), six());
    let memory = FlashMemory::<u64>::zeroed(30);
    let part = |range: std::ops::Range<usize>| memory.range(range).unwrap();
    let launch = |from: std::ops::Range<usize>, out: std::ops::Range<usize>| {
        rt.submit(Add::of(&table, part(from), &to, &was, &bins, part(out))).exec([4, 3])
    };
    launch(0..12, 12..24).unwrap();
    launch(12..24, 0..12).unwrap();
    launch(18..30, 0..12).unwrap();
    for (from, out) in [(0..12, 11..23), (11..23, 0..12), (5..17, 5..17), (0..30, 9..21)] {
        let text = launch(from, out).unwrap_err().to_string();
        assert!(text.contains("`from`") && text.contains("`out`") && text.contains("overlap"), "{text}");
    }
}

#[flash_tests::test]
fn an_empty_part_overlaps_nothing() {
    let (rt, [_, from, to, was, bins, out]) = (cpu(), six());
    let empty = out.range(6..6).unwrap();
    rt.submit(Add::of(empty, &from, &to, &was, &bins, &out)).exec([4, 0]).unwrap();
}

#[flash_tests::test]
fn slices_that_lie_in_a_memory_taken_from_a_vector_do_not_fool_the_check() {
    let (rt, [table, from, to, was, bins, out]) = (cpu(), six());
    // Shared reading of one slice is fine.
    let slice = [1u64; 12];
    rt.submit(Add::of(&slice[..], &slice[..], &to, &was, &bins, &out)).exec([4, 3]).unwrap();
    assert_eq!(*to.read().unwrap(), [2; 12]);
    // A slice that a guard lends is borrowed by the guard.
    let guard = from.read().unwrap();
    rt.submit(Add::of(&table, &guard[..], &to, &was, &bins, &out)).exec([4, 3]).unwrap();
    let outcome = rt.submit(Add::of(&table, &guard[..], &from, &was, &bins, &out)).exec([4, 3]);
    assert!(outcome.is_err());
}

#[flash_tests::test]
fn a_wrong_number_of_dimensions_is_refused_with_their_names() {
    for text in [refused_dims([12]), refused_dims([2, 2, 3]), refused_dims(Vec::<Dim>::new())] {
        assert!(text.contains("2 dimension") && text.contains("row, column"), "{text}");
    }
    assert!(refused_dims([12]).contains("found 1"));
}

#[flash_tests::test]
fn negative_counts_and_values_are_refused_with_the_dimension() {
    let text = refused_dims([4, -3]);
    assert!(text.contains("`column`") && text.contains("-3"), "{text}");
    let text = refused_dims((-2..4, 3));
    assert!(text.contains("`row`") && text.contains("-2"), "{text}");
    let text = refused_dims((4, count_by([0, 1, -7])));
    assert!(text.contains("`column`") && text.contains("-7") && text.contains("position 2"), "{text}");
}

#[flash_tests::test]
fn a_space_of_more_than_2_to_the_64_items_is_refused() {
    let text = refused_dims([1u64 << 33, 1 << 33]);
    assert!(text.contains("2^64") && text.contains("8589934592"), "{text}");
}

#[flash_tests::test]
fn a_space_larger_than_the_array_is_refused() {
    let text = refused_dims([4, 4]);
    assert!(text.contains("`from`") && text.contains("16") && text.contains("12"), "{text}");
    let shaped = six().map(|m| m.with_shape([4, 3]).unwrap());
    let text = refused(shaped.each_ref(), [3, 4]).to_string();
    assert!(text.contains("`column`") && text.contains('3'), "{text}");
    let text = refused(six().map(|m| m.with_shape([2, 2, 3]).unwrap()).each_ref(), [2, 3]).to_string();
    assert!(text.contains("[2, 2, 3]"), "{text}");
}

#[flash_tests::test]
fn an_empty_dimension_runs_nothing_and_succeeds() {
    let (rt, runs) = (cpu(), FlashMemory::<u32>::zeroed(1));
    let [a, b, c, d, e, f] = &six();
    for dims in [[0, 3], [4, 0], [0, 0], [0u64, 1 << 40]] {
        rt.submit(Add::of(a, b, c, d, e, f)).exec(dims).unwrap();
        rt.submit(Count::of(&runs)).exec([0]).unwrap();
    }
    #[allow(clippy::reversed_empty_ranges)]
    rt.submit(Count::of(&runs)).exec((5..2,)).unwrap();
    rt.submit(Count::of(&runs)).exec((count_by([0u32; 0]),)).unwrap();
    assert_eq!(runs.get(0).unwrap(), 0);
    assert_eq!(*f.read().unwrap(), [0; 12]);
}

#[flash_tests::test]
fn rows_need_a_length_that_is_the_same_for_all() {
    let rt = cpu();
    let text = rt.submit(Rows::of(FlashMemory::zeroed(10))).exec([3]).unwrap_err().to_string();
    assert!(
        text.contains("errors.rows") && text.contains("`rows`") && text.contains('3') && text.contains("10"),
        "{text}"
    );
    let shaped = FlashMemory::<u8>::zeroed([2, 5]);
    let text = rt.submit(Rows::of(&shaped)).exec([6]).unwrap_err().to_string();
    assert!(text.contains("`i`") && text.contains('5'), "{text}");
    rt.submit(Rows::of(&shaped)).exec([5]).unwrap();
    assert_eq!(*shaped.read().unwrap(), [1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
}

#[flash_tests::test]
fn shapes_in_sizes_are_checked() {
    let (rt, memory) = (cpu(), FlashMemory::<u8>::zeroed(10));
    let launch = |sizes: Vec<Vec<u64>>| {
        rt.submit(Rows::of(&memory)).sizes(sizes.iter().map(|s| &s[..])).exec([5]).map_err(|e| e.to_string())
    };
    launch(vec![vec![2, 5]]).unwrap();
    launch(vec![vec![]]).unwrap();
    let text = launch(vec![vec![3, 5]]).unwrap_err();
    assert!(text.contains("errors.rows") && text.contains("[3, 5]") && text.contains("10"), "{text}");
    let text = launch(vec![vec![2, 5], vec![2, 5]]).unwrap_err();
    assert!(text.contains("errors.rows") && text.contains('1') && text.contains('2'), "{text}");
    let text = launch(vec![vec![1 << 33, 1 << 33]]).unwrap_err();
    assert!(text.contains("8589934592"), "{text}");
}

#[flash_tests::test]
fn the_first_of_several_wrong_submissions_is_reported() {
    let (rt, runs) = (cpu(), FlashMemory::<u32>::zeroed(1));
    let chain = rt.submit(Count::of(&runs)).defer([-1]).submit(Count::of(&runs)).defer([1, 1]);
    let text = chain.exec().unwrap_err().to_string();
    assert!(text.contains("-1"), "{text}");
}
