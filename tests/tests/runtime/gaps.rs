//! Views with gaps: sections, steps and other orders of axes, against lists of elements.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::recording::{Argument, Data, Recording};
use flash::{Error, MemoryView, Pipeline, RuntimeObj};
use flash_core::descriptor::part_by;
use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::Range;

/// Three orders of axes.
#[derive(KernelDefinition)]
#[kernel(name = "gaps.mix", dims(x, y, z))]
struct Mix<'a> {
    value: u64,
    from: Item<'a, Read<u64>>,
    #[along(y, z, x)]
    turned: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
    #[along(z, x, y)]
    out: Item<'a, Write<u64>>,
}

struct ByItem;
struct BySpan;

fn mixed(value: u64, from: u64, turned: u64, to: u64) -> u64 {
    (from.wrapping_mul(3) ^ turned.wrapping_mul(5)).wrapping_add(to.wrapping_mul(7)).wrapping_add(value)
}

#[kernel(devices)]
impl CpuItem<Mix<'_>> for ByItem {
    fn item(_: Index<3>, k: MixItem<'_>) {
        let (from, turned) = (k.from.wrapping_mul(3), k.turned.wrapping_mul(5));
        *k.to = (from ^ turned).wrapping_add(k.to.wrapping_mul(7)).wrapping_add(k.value);
        k.out.set(k.to.wrapping_add(1));
    }
}

#[kernel(priority = -1)]
impl CpuSpan<Mix<'_>> for BySpan {
    fn span(span: Span<3>, mut k: MixSpan<'_>) {
        for i in 0..span.len() {
            k.to[i] = mixed(k.value, k.from[i], k.turned.get(i), k.to[i]);
            k.out.set(i, k.to[i].wrapping_add(1));
        }
    }
}

/// A shape, and the number of each element, axis 0 fastest.
#[derive(Clone, Debug)]
struct Elements {
    shape: Vec<usize>,
    at: Vec<usize>,
}

/// What makes one view of another.
#[derive(Clone, Debug)]
enum Change {
    Section(Vec<Range<u64>>),
    Steps(Vec<usize>),
    Axes(Vec<usize>),
}

impl Elements {
    fn of(shape: &[usize]) -> Elements {
        Elements { shape: shape.to_vec(), at: (0..shape.iter().product()).collect() }
    }

    fn get(&self, index: &[usize]) -> usize {
        let number = self.shape.iter().zip(index).rev().fold(0, |number, (extent, i)| number * extent + i);
        self.at[number]
    }

    /// The elements of a shape by a function of the index.
    fn by(&self, shape: Vec<usize>, of: impl Fn(&[usize]) -> Vec<usize>) -> Elements {
        let index = |mut number: usize| -> Vec<usize> {
            let axis = |extent: &usize| {
                let i = number % extent;
                number /= extent;
                i
            };
            shape.iter().map(axis).collect()
        };
        let at = (0..shape.iter().product()).map(|number| self.get(&of(&index(number)))).collect();
        Elements { shape, at }
    }

    fn changed(&self, change: &Change) -> Elements {
        match change {
            Change::Section(ranges) => {
                let shape = ranges.iter().map(|range| (range.end - range.start) as usize).collect();
                self.by(shape, |ix| {
                    ix.iter().zip(ranges).map(|(i, range)| i + range.start as usize).collect()
                })
            }
            Change::Steps(steps) => {
                let shape =
                    self.shape.iter().zip(steps).map(|(extent, step)| extent.div_ceil(*step)).collect();
                self.by(shape, |ix| ix.iter().zip(steps).map(|(i, step)| i * step).collect())
            }
            Change::Axes(axes) => {
                let shape = axes.iter().map(|axis| self.shape[*axis]).collect();
                self.by(shape, |ix| {
                    (0..ix.len()).map(|axis| ix[axes.iter().position(|a| *a == axis).unwrap()]).collect()
                })
            }
        }
    }
}

/// A view of a memory and its elements, by these choices.
fn seen<'m>(memory: &'m FlashMemory<u64>, choices: &[(u8, [u64; 6])]) -> (MemoryView<'m, u64>, Elements) {
    let shape: Vec<usize> = memory.shape().iter().map(|extent| *extent as usize).collect();
    let (mut view, mut elements) = (memory.view(&shape[..]).unwrap(), Elements::of(&shape));
    for (kind, numbers) in choices {
        let change = match kind % 3 {
            0 => Change::Section(
                elements
                    .shape
                    .iter()
                    .enumerate()
                    .map(|(axis, extent)| {
                        // Most of it.
                        let extent = *extent as u64;
                        let begin = numbers[axis] % (extent / 3 + 1);
                        begin..extent - numbers[axis + 3] % (extent / 3 + 1).min(extent - begin)
                    })
                    .collect(),
            ),
            1 => {
                Change::Steps((0..elements.shape.len()).map(|axis| numbers[axis] as usize % 2 + 1).collect())
            }
            _ => {
                let mut axes: Vec<usize> = (0..elements.shape.len()).collect();
                axes.sort_by_key(|axis| numbers[*axis]);
                Change::Axes(axes)
            }
        };
        elements = elements.changed(&change);
        view = match change {
            Change::Section(ranges) => view.section(ranges),
            Change::Steps(steps) => view.step_by(&steps[..]),
            Change::Axes(axes) => view.permuted(&axes[..]),
        }
        .unwrap();
        let shape: Vec<usize> = view.shape().iter().map(|extent| *extent as usize).collect();
        assert_eq!((&shape, view.len()), (&elements.shape, elements.at.len()));
    }
    (view, elements)
}

const SHAPES: [[usize; 3]; 4] = [[240, 1, 1], [12, 20, 1], [5, 6, 8], [4, 3, 20]];

fn counted(n: usize) -> FlashMemory<u64> {
    (0..n as u64).map(|i| i * i % 251).collect()
}

fn choices() -> impl Strategy<Value = Vec<(u8, [u64; 6])>> {
    vec((any::<u8>(), [0..1000u64, 0..1000, 0..1000, 0..1000, 0..1000, 0..1000]), 0..4)
}

#[flash_tests::test]
fn random_launches_of_views_with_gaps_are_as_a_serial_program() {
    let rt = flash_tests::runtime();
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    let step = (choices(), choices(), choices(), choices(), any::<[u8; 4]>(), 0..4u8, 0..3u8, any::<u8>());
    proptest!(config, |(shapes in [0..4usize, 0..4usize, 0..4usize], steps in vec(step, 1..5))| {
        let memories = shapes.map(|shape| counted(240).with_shape(SHAPES[shape]).unwrap());
        let mut model: [Vec<u64>; 3] = std::array::from_fn(|i| memories[i].to_vec().unwrap());
        let mut pipeline = rt.pipeline();
        for (number, (from, turned, to, out, which, parts, then, door)) in steps.iter().enumerate() {
            // What is written may be in the memory that is read, if it is apart.
            let which = which.map(|which| which as usize % 3);
            let views = [from, turned, to, out];
            let views: Vec<_> = views.iter().zip(which).map(|(c, which)| seen(&memories[which], c)).collect();
            let items = |axis: usize| {
                let along = [[0, 1, 2], [2, 0, 1], [0, 1, 2], [1, 2, 0]];
                views.iter().zip(along).map(|((_, elements), along)| elements.shape[along[axis]]).min().unwrap()
            };
            let [x, y, z] = [items(0), items(1), items(2)];
            let value = number as u64 * 1000;
            let mut touched: [Vec<(usize, usize)>; 4] = Default::default();
            let mut next = model.clone();
            for (k, j, i) in (0..z).flat_map(|k| (0..y).flat_map(move |j| (0..x).map(move |i| (k, j, i)))) {
                let indices = [[i, j, k], [j, k, i], [i, j, k], [k, i, j]];
                let at: Vec<usize> = views.iter().zip(indices).map(|((_, e), index)| e.get(&index)).collect();
                let [from, turned, to] = [0, 1, 2].map(|a| model[which[a]][at[a]]);
                next[which[2]][at[2]] = mixed(value, from, turned, to);
                next[which[3]][at[3]] = mixed(value, from, turned, to).wrapping_add(1);
                (0..4).for_each(|a| touched[a].push((which[a], at[a])));
            }
            let mut all: [Vec<(usize, usize)>; 4] = Default::default();
            for (all, ((_, elements), which)) in all.iter_mut().zip(views.iter().zip(which)) {
                all.extend(elements.at.iter().map(|at| (which, *at)));
            }
            let meet = |a: usize, b: usize| all[a].iter().any(|at| all[b].contains(at));
            let overlaps = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)].into_iter().any(|(a, b)| meet(a, b));
            let [from, turned, to, out] = <[_; 4]>::try_from(views).unwrap().map(|(view, _)| view);
            let kernel = Mix::of(value, from, turned, to, out);
            let cut = part_by(["x", "y", "z"][number % 3]);
            if which[0] == which[2] || which[1] == which[2] || which[0] == which[3] || which[1] == which[3] || which[2] == which[3] {
                // Alone, as it may be refused: always, if elements are the same.
                pipeline.exec().unwrap();
                match rt.submit(kernel).exec((x, y, z)) {
                    Ok(()) => prop_assert!(!overlaps, "elements of two arguments are the same"),
                    Err(error) => {
                        prop_assert!(error.to_string().contains("overlaps"), "{error}");
                        next = model.clone();
                    }
                }
                pipeline = rt.pipeline();
            } else {
                let submitted = pipeline.submit(kernel);
                let submitted = match parts {
                    0 => submitted,
                    parts => submitted.options((cut, Subspaces(u32::from(*parts)))),
                };
                let by_span = door % 4 == 0 && flash_tests::runs_functions();
                let submitted =
                    if by_span { submitted.options(Implementation::named("by_span")) } else { submitted };
                pipeline = submitted.defer((x, y, z));
            }
            model = next;
            if *then > 0 {
                pipeline.exec().unwrap();
                pipeline = rt.pipeline();
            }
            if *then > 1 {
                prop_assert_eq!(&memories[1].read_range(7..50).unwrap()[..], &model[1][7..50]);
            }
        }
        pipeline.exec().unwrap();
        for (memory, model) in memories.iter().zip(&model) {
            prop_assert_eq!(&memory.read().unwrap()[..], &model[..]);
        }
    });
}

#[flash_tests::test]
fn copies_take_the_elements_of_a_view_in_the_order_of_its_indices() {
    let rt = flash_tests::runtime();
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(shapes in [0..4usize, 0..4usize], one in choices(), other in choices())| {
        let [from, to] = shapes.map(|shape| counted(240).with_shape(SHAPES[shape]).unwrap());
        let (view, elements) = seen(&from, &one);
        let packed = FlashMemory::<u64>::zeroed(elements.at.len());
        let long = |elements: &Elements| elements.shape.iter().filter(|extent| **extent > 1).count();
        let outcome = rt.pipeline().copy(view.clone(), &packed).exec();
        match outcome {
            Ok(()) => {
                let expected: Vec<u64> = elements.at.iter().map(|at| from.get(*at).unwrap()).collect();
                prop_assert_eq!(&packed.read().unwrap()[..], &expected[..]);
            }
            Err(error) => prop_assert!(long(&elements) == 3 && error.to_string().contains("plane by plane")),
        }
        // Back to another place, and from view to view, if the extents are the same.
        let (there, elsewhere) = seen(&to, &other);
        let mut expected = to.to_vec().unwrap();
        let numbers: Vec<u64> = (0..elsewhere.at.len() as u64).map(|i| 1000 + i).collect();
        let packed = FlashMemory::from(numbers);
        if rt.pipeline().copy(&packed, there.clone()).exec().is_ok() {
            elsewhere.at.iter().zip(1000..).for_each(|(at, value)| expected[*at] = value);
        } else {
            prop_assert_eq!(long(&elsewhere), 3);
        }
        prop_assert_eq!(&to.read().unwrap()[..], &expected[..]);
        // From view to view: as they are only if one has no gaps, or both the same extents ...
        let extents = |elements: &Elements| -> Vec<usize> {
            elements.shape.iter().copied().filter(|extent| *extent != 1).collect()
        };
        let is_alike = extents(&elements) == extents(&elsewhere) || !view.has_gaps() || !there.has_gaps();
        let is_allowed = is_alike && elements.at.len() == elsewhere.at.len();
        let copy = |expected: &mut Vec<u64>, to: &Elements, from_elements: &Elements| {
            for (to, at) in to.at.iter().zip(&from_elements.at) {
                expected[*to] = from.get(*at).unwrap();
            }
        };
        match rt.pipeline().copy(view.clone(), there.clone()).exec() {
            Ok(()) => {
                prop_assert!(is_allowed, "{view:?} to {there:?}");
                copy(&mut expected, &elsewhere, &elements);
            }
            Err(_) => prop_assert!(!is_allowed || long(&elements) == 3 || long(&elsewhere) == 3),
        }
        prop_assert_eq!(&to.read().unwrap()[..], &expected[..]);
        // ... and boxes of them with the same extents.
        let common: Vec<Range<u64>> =
            elements.shape.iter().zip(&elsewhere.shape).map(|(a, b)| 0..*a.min(b) as u64).collect();
        let change = Change::Section(common.clone());
        let (elements, elsewhere) = (elements.changed(&change), elsewhere.changed(&change));
        let sections = (view.section(&common[..]).unwrap(), there.section(&common[..]).unwrap());
        match rt.pipeline().copy(sections.0, sections.1).exec() {
            Ok(()) => copy(&mut expected, &elsewhere, &elements),
            Err(error) => prop_assert!(long(&elements) == 3, "{error}"),
        }
        prop_assert_eq!(&to.read().unwrap()[..], &expected[..]);
    });
}

/// Rows, blocks and tiles of one array in another.
#[derive(KernelDefinition)]
#[kernel(name = "gaps.own", dims(i, j))]
struct Own<'a> {
    #[along(j)]
    row: Item<'a, Read<Row<u64>>>,
    tile: Item<'a, ReadWrite<Tile<u64, 3, 2>>>,
}

#[kernel(devices)]
impl CpuItem<Own<'_>> for ByItem {
    fn item(ix: Index<2>, mut k: OwnItem<'_>) {
        let mut sum = 0;
        for i in 0..k.row.len() {
            sum = 3 * sum + k.row[i];
        }
        for y in 0..k.tile.rows() {
            for x in 0..k.tile.columns() {
                k.tile.row_mut(y)[x] += sum + (100 * ix[0] + 10 * y + x) as u64;
            }
        }
    }
}

/// Rows, each of a work item, that are next to each other in the array.
#[derive(KernelDefinition)]
#[kernel(name = "gaps.rows", dims(j))]
struct Rows<'a> {
    row: Item<'a, ReadWrite<Row<u64>>>,
}

#[kernel(devices)]
impl CpuItem<Rows<'_>> for ByItem {
    fn item(ix: Index<1>, k: RowsItem<'_>) {
        for i in 0..k.row.len() {
            k.row[i] += (100 * ix[0] + i) as u64;
        }
    }
}

#[flash_tests::test]
fn rows_and_tiles_of_a_section_are_those_of_a_copy() {
    let rt = flash_tests::runtime();
    let (rows, tiles) =
        (counted(9 * 8).with_shape([9, 8]).unwrap(), counted(14 * 11).with_shape([14, 11]).unwrap());
    for subspaces in [1, 3] {
        let rt = rt.options(Subspaces(subspaces));
        let packed = |view: &MemoryView<'_, u64>| {
            let packed = FlashMemory::<u64>::zeroed(view.shape());
            rt.pipeline().copy(view.clone(), &packed).exec().unwrap();
            packed
        };
        let (row, tile) = (rows.section([2..7, 1..4]).unwrap(), tiles.section([3..11, 2..8]).unwrap());
        assert!(row.has_gaps() && tile.has_gaps());
        let (packed_row, packed_tile) = (packed(&row), packed(&tile));
        let before = tiles.to_vec().unwrap();
        rt.submit(Own::of(&packed_row, &packed_tile)).exec([3, 3]).unwrap();
        rt.submit(Own::of(row, tile.clone())).exec([3, 3]).unwrap();
        assert_eq!(*packed(&tile).read().unwrap(), *packed_tile.read().unwrap());
        let now = tiles.to_vec().unwrap();
        for (i, (before, now)) in before.iter().zip(&now).enumerate() {
            assert!(
                (3..11).contains(&(i % 14)) && (2..8).contains(&(i / 14)) || before == now,
                "element {i}"
            );
        }
        // Every second row of a section.
        let view = rows.section([2..7, 1..8]).unwrap().step_by([1, 2]).unwrap();
        let packed_rows = packed(&view);
        rt.submit(Rows::of(&packed_rows)).exec([4]).unwrap();
        rt.submit(Rows::of(view.clone())).exec([4]).unwrap();
        assert_eq!(*packed(&view).read().unwrap(), *packed_rows.read().unwrap());
    }
}

#[derive(KernelDefinition)]
#[kernel(name = "gaps.add", dims(i))]
struct Add<'a> {
    value: u64,
    from: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

#[kernel(devices)]
impl CpuItem<Add<'_>> for ByItem {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.to += k.value + *k.from;
    }
}

fn column(memory: &FlashMemory<u64>, x: u64) -> MemoryView<'_, u64> {
    let rows = memory.shape()[1];
    memory.section([x..x + 1, 0..rows]).unwrap().view([rows]).unwrap()
}

#[flash_tests::test]
fn a_kernel_of_one_dimension_runs_over_a_column() {
    let rt = flash_tests::runtime();
    let grid = counted(7 * 5).with_shape([7, 5]).unwrap();
    let mut expected = grid.to_vec().unwrap();
    for times in 1..4 {
        rt.submit(Add::of(times, column(&grid, 2), column(&grid, 4))).exec([5]).unwrap();
        (0..5).for_each(|y| expected[7 * y + 4] += times + expected[7 * y + 2]);
        assert_eq!(*grid.read().unwrap(), expected);
    }
    // Every second element from the others, of an array without a shape; the first half of the rows to the
    // second.
    let line = counted(20);
    let (even, odd) = (line.step_by(2).unwrap(), line.range(1..).unwrap().step_by(2).unwrap());
    let mut expected = line.to_vec().unwrap();
    rt.submit(Add::of(1, even, odd)).exec([10]).unwrap();
    (0..10).for_each(|i| expected[2 * i + 1] += 1 + expected[2 * i]);
    assert_eq!(*line.read().unwrap(), expected);
    let error =
        rt.submit(Add::of(1, line.step_by(2).unwrap(), line.step_by(4).unwrap())).exec([5]).unwrap_err();
    assert!(error.to_string().contains("overlaps argument `from`"), "{error}");
}

#[flash_tests::test]
fn boxes_of_one_memory_are_copied_if_they_are_apart() {
    let rt = flash_tests::runtime();
    let grid = counted(8 * 6).with_shape([8, 6]).unwrap();
    let mut expected = grid.to_vec().unwrap();
    // A column to another, the left half to the right one, rows to rows between them; on the host and on
    // devices.
    for times in 0..2 {
        rt.pipeline().copy(column(&grid, 1), column(&grid, 6)).exec().unwrap();
        (0..6).for_each(|y| expected[8 * y + 6] = expected[8 * y + 1]);
        rt.pipeline().copy_box(&grid, [0..4, 1..5], &grid, [4..8, 1..5]).exec().unwrap();
        (1..5).for_each(|y| expected.copy_within(8 * y..8 * y + 4, 8 * y + 4));
        let (even, odd) = (grid.step_by([1, 2]).unwrap(), grid.rows(1..).unwrap().step_by([1, 2]).unwrap());
        rt.pipeline().copy(even, odd).exec().unwrap();
        (0..3).for_each(|y| expected.copy_within(16 * y..16 * y + 8, 16 * y + 8));
        assert_eq!(*grid.read().unwrap(), expected, "{times}");
        let line = grid.view([48]).unwrap();
        rt.submit(Add::of(3, &counted(48), line)).exec([48]).unwrap();
        expected.iter_mut().zip(0u64..).for_each(|(element, i)| *element += 3 + i * i % 251);
    }
    let error = rt.pipeline().copy_box(&grid, [0..4, 1..5], &grid, [3..7, 1..5]).exec().unwrap_err();
    assert!(error.to_string().contains("overlaps"), "{error}");
    rt.pipeline()
        .copy_box(&grid, [0..0, 1..5], FlashMemory::<u64>::zeroed([2, 9]), [1..1, 3..7])
        .exec()
        .unwrap();
    assert_eq!(*grid.read().unwrap(), expected);
}

#[flash_tests::test]
fn a_failsafe_gets_no_gaps() {
    let rt = flash_tests::runtime();
    /// Nothing computes it.
    #[derive(KernelDefinition)]
    #[kernel(name = "gaps.nothing", dims(i))]
    struct Nothing<'a> {
        from: Item<'a, Read<u64>>,
        to: Item<'a, ReadWrite<u64>>,
    }
    let grid = counted(7 * 5).with_shape([7, 5]).unwrap();
    let outcome = rt
        .submit(Nothing::of(column(&grid, 2), column(&grid, 4)))
        .failsafe(|io| {
            io.read_write::<u64, u64>(0, 1)?.1.fill(0);
            Ok(())
        })
        .exec([5]);
    refused(&rt, outcome, &["`from`", "failsafe", "pipeline.copy"]);
    assert_eq!(*grid.read().unwrap(), *counted(35).read().unwrap(), "nothing ran");
}

#[flash_tests::test]
fn a_closure_runs_over_a_column_on_cpus() {
    let rt = flash_tests::runtime_of_this_process();
    let grid = counted(7 * 5).with_shape([7, 5]).unwrap();
    let mut expected = grid.to_vec().unwrap();
    rt.for_each([5], (column(&grid, 1).r(), column(&grid, 6).rw()), |(from, to)| *to += 3 * from).unwrap();
    (0..5).for_each(|y| expected[7 * y + 6] += 3 * expected[7 * y + 1]);
    assert_eq!(*grid.read().unwrap(), expected);
}

#[flash_tests::test]
fn a_recording_has_views_with_gaps() {
    let rt = flash_tests::runtime();
    let grid = counted(7 * 5).with_shape([7, 5]).unwrap();
    fn recorded<'m>(rt: &'m RuntimeObj, grid: &'m FlashMemory<u64>) -> (Recording, Pipeline<'m>) {
        let pipeline = rt.pipeline().submit(Add::of(1, column(grid, 2), column(grid, 4))).defer([5]);
        let pipeline = pipeline.copy_box(
            grid.section([1..7, 0..5]).unwrap(),
            [0..2, 1..3],
            grid.permuted([1, 0]).unwrap().rows(5..).unwrap(),
            [3..5, 0..2],
        );
        (pipeline.recording(Data::With).unwrap(), pipeline)
    }
    let (recording, pipeline) = recorded(&rt, &grid);
    let column = Argument::Strided { memory: 0, start: 2, extents: vec![5], strides: vec![7] };
    assert_eq!(recording.submissions[0].arguments[1], column);
    assert!(column.has(2) && column.has(30) && !column.has(3) && !column.has(1) && !column.has(37));
    for read in [
        Recording::from_bytes(&recording.to_bytes().unwrap()).unwrap(),
        Recording::from_json(&recording.to_json().unwrap()).unwrap(),
    ] {
        assert_eq!(read, recording);
        let replayed = rt.replay(&read).unwrap();
        let fresh = counted(7 * 5).with_shape([7, 5]).unwrap();
        recorded(&rt, &fresh).1.exec().unwrap();
        assert_eq!(replayed.read::<u64>(0).unwrap(), *fresh.read().unwrap());
    }
    pipeline.exec().unwrap();
    // A file may say anything.
    let text = recording.to_json().unwrap();
    for (strides, says) in [("[0]", "no view"), ("[9]", "does not lie in memory 0"), ("[7, 1]", "no view")] {
        let json: String = text.split_whitespace().collect();
        let wrong =
            json.replace(r#""extents":[5],"strides":[7]"#, &format!(r#""extents":[5],"strides":{strides}"#));
        assert_ne!(wrong, json);
        let error = Recording::from_json(&wrong).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// An element and its neighbours along x and y.
#[derive(KernelDefinition)]
#[kernel(name = "gaps.around", dims(x, y, z), part_by(y, from = stencil(x = 1, y = 1)))]
struct Around<'a> {
    width: usize,
    height: usize,
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[kernel(devices)]
impl CpuItem<Around<'_>> for ByItem {
    fn item(ix: Index<3>, k: AroundItem<'_>) {
        let [x, y, z] = ix.values();
        let mut sum = k.from.at([x, y, z]);
        if x > 0 {
            sum = sum.wrapping_mul(3) ^ k.from.at([x - 1, y, z]);
        }
        if x + 1 < k.width {
            sum = sum.wrapping_mul(5) ^ k.from.at([x + 1, y, z]);
        }
        if y > 0 {
            sum = sum.wrapping_mul(7) ^ k.from.at([x, y - 1, z]);
        }
        if y + 1 < k.height {
            sum = sum.wrapping_mul(11) ^ k.from.at([x, y + 1, z]);
        }
        k.to.set(sum);
    }
}

#[flash_tests::test]
fn a_window_of_a_section_is_that_of_a_copy() {
    let rt = flash_tests::runtime();
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    let axis = |n: u64| (0..n, 1..=n).prop_map(move |(begin, count)| begin..(begin + count).min(n));
    let sections = (0..4usize).prop_flat_map(move |shape| {
        let [x, y, z] = SHAPES[shape].map(|extent| extent as u64);
        (Just(shape), (axis(x), axis(y), axis(z)), [1..3u64, 1..3u64], any::<bool>())
    });
    proptest!(config, |((shape, (x, y, z), steps, turned) in sections, parts in 0..4u32)| {
        let rt = if parts == 0 { rt.clone() } else { rt.options(Subspaces(parts)) };
        let memory = counted(240).with_shape(SHAPES[shape]).unwrap();
        // On the devices it is somewhere else before.
        rt.submit(Add::of(7, &counted(240), memory.view([240]).unwrap())).exec([240]).unwrap();
        let view = memory.section([x, y, z]).unwrap().step_by([1, steps[0], steps[1]]).unwrap();
        let view = if turned { view.permuted([0, 2, 1]).unwrap() } else { view };
        let [packed, expected, found] = [(); 3].map(|()| FlashMemory::<u64>::zeroed(view.shape()));
        rt.pipeline().copy(view.clone(), &packed).exec().unwrap();
        let [w, h, depth] = <[u64; 3]>::try_from(view.shape()).unwrap();
        rt.submit(Around::of(w as usize, h as usize, &packed, &expected)).exec([w, h, depth]).unwrap();
        rt.submit(Around::of(w as usize, h as usize, view, &found)).exec([w, h, depth]).unwrap();
        prop_assert_eq!(&*found.read().unwrap(), &*expected.read().unwrap());
    });
}

/// A whole window of which each item reads a column, as far as that goes.
#[derive(KernelDefinition)]
#[kernel(name = "gaps.columns", dims(x, y))]
struct Columns<'a> {
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[kernel(devices)]
impl CpuItem<Columns<'_>> for ByItem {
    fn item(ix: Index<2>, k: ColumnsItem<'_>) {
        let [_, end, _] = k.from.end();
        let mut sum = 0u64;
        for y in 0..end {
            sum = sum.wrapping_mul(3).wrapping_add(k.from.at([ix[0], y, 0]));
        }
        k.to.set(sum.wrapping_add(k.from.at([ix[0], ix[1], 0])));
    }
}

#[flash_tests::test]
fn a_window_without_a_map_is_all_of_its_section() {
    let rt = flash_tests::runtime();
    let grid = counted(6 * 5).with_shape([6, 5]).unwrap();
    for subspaces in [1, 2, 3] {
        let rt = rt.options(Subspaces(subspaces));
        let view = grid.section([1..5, 1..4]).unwrap();
        let [packed, expected, found] = [(); 3].map(|()| FlashMemory::<u64>::zeroed([4, 3]));
        rt.pipeline().copy(view.clone(), &packed).exec().unwrap();
        rt.submit(Columns::of(&packed, &expected)).exec([4, 3]).unwrap();
        rt.submit(Columns::of(view, &found)).exec([4, 3]).unwrap();
        assert_eq!(*found.read().unwrap(), *expected.read().unwrap(), "{subspaces} parts");
    }
}

/// A window whose contents are looked at before a launch, if that is asked for.
#[derive(KernelDefinition)]
#[kernel(name = "gaps.checked", dims(x, y))]
struct Checked<'a> {
    near: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[kernel(devices)]
impl CpuItem<Checked<'_>> for ByItem {
    fn item(ix: Index<2>, k: CheckedItem<'_>) {
        k.to.set(k.near.at([ix[0], ix[1], 0]));
    }
}

flash_core::kernel::contents_check! { Checked<'static>, [near], |contents| {
    match contents.elements::<u64>("near").contains(&1) {
        true => Ok(()),
        false => Err(flash_core::kernel::WrongContents { argument: "near", text: "no 1 in it".into() }),
    }
} }

#[flash_tests::test]
fn a_check_of_contents_sees_no_gaps() {
    let launch = |rt: &RuntimeObj| {
        let (grid, to) = (counted(6 * 5).with_shape([6, 5]).unwrap(), FlashMemory::<u64>::zeroed([4, 3]));
        rt.submit(Checked::of(grid.section([1..5, 1..4]).unwrap(), &to)).exec([4, 3])
    };
    flash_tests::in_process(&[("FLASH_CHECK_BOUNDS", "1")], || {
        let rt = flash_tests::runtime();
        refused(&rt, launch(&rt), &["`near`", "check of its contents", "pipeline.copy"]);
    });
}

/// Two functions of one name, of which only one has a text.
#[derive(KernelDefinition)]
#[kernel(name = "gaps.two", dims(x, y))]
struct Two<'a> {
    near: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

struct ByAxes;
struct ByNumber;

#[kernel(devices, name = "near")]
impl CpuItem<Two<'_>> for ByAxes {
    fn item(ix: Index<2>, k: TwoItem<'_>) {
        k.to.set(k.near.at([ix[0], ix[1], 0]));
    }
}

#[kernel(name = "near", priority = 1)]
impl CpuItem<Two<'_>> for ByNumber {
    fn item(ix: Index<2>, k: TwoItem<'_>) {
        k.to.set(k.near.get(ix[0] + 4 * ix[1]));
    }
}

/// As [`Around`], by numbers.
#[derive(KernelDefinition)]
#[kernel(name = "gaps.numbers", dims(x, y))]
struct Numbers<'a> {
    near: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[kernel(devices)]
impl CpuItem<Numbers<'_>> for ByItem {
    fn item(ix: Index<2>, k: NumbersItem<'_>) {
        k.to.set(k.near.get(ix[0] + 4 * ix[1]));
    }
}

/// By an index per axis, in a function only.
#[derive(KernelDefinition)]
#[kernel(name = "gaps.unseen", dims(x, y))]
struct Unseen<'a> {
    near: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[kernel]
impl CpuItem<Unseen<'_>> for ByItem {
    fn item(ix: Index<2>, k: UnseenItem<'_>) {
        k.to.set(k.near.at([ix[0], ix[1], 0]));
    }
}

#[derive(KernelDefinition)]
#[kernel(name = "gaps.whole", dims(x, y))]
struct AtOnce<'a> {
    to: Item<'a, Write<u64>>,
}

struct ByWhole;

#[kernel]
impl CpuWhole<AtOnce<'_>> for ByWhole {
    fn whole(_: Space<'_, Index<2>>, k: AtOnceWhole<'_>, _: Threads<'_>) {
        k.to.fill(1);
    }
}

fn refused(rt: &RuntimeObj, outcome: Result<(), Error>, words: &[&str]) {
    let text = outcome.unwrap_err().to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
    rt.submit(Add::of(1, &counted(3), &counted(3))).exec([3]).unwrap();
}

#[flash_tests::test]
fn what_takes_no_gaps_says_so_and_what_to_do() {
    let rt = flash_tests::runtime();
    let grid = counted(6 * 5).with_shape([6, 5]).unwrap();
    let inner = || grid.section([1..5, 1..4]).unwrap();
    let to = FlashMemory::<u64>::zeroed([4, 3]);
    let says = ["`near`", "may count", "pipeline.copy", "`#[kernel(devices)]`"];
    refused(&rt, rt.submit(Numbers::of(inner(), &to)).exec([4, 3]), &says);
    if flash_tests::runs_functions() {
        refused(&rt, rt.submit(Unseen::of(inner(), &to)).exec([4, 3]), &says);
        refused(&rt, rt.submit(Two::of(inner(), &to)).exec([4, 3]), &says);
    }
    let steps = grid.step_by([2, 1]).unwrap();
    let outcome = rt
        .submit(Around::of(3, 3, steps.view([3, 5, 1]).unwrap(), to.view([4, 3, 1]).unwrap()))
        .exec([3, 3, 1]);
    refused(&rt, outcome, &["`from`", "[2, 6", "adjacent along axis 0", "pipeline.copy"]);
    let outcome = rt.pipeline().host(HostTask::new("host").read(inner()), |_| Ok(())).exec();
    refused(&rt, outcome, &["`Item` or a `Window`"]);
    let add = |view| rt.submit(Add::of(1, view, to.range(..4).unwrap())).sizes([[4], [4]]).exec([4]);
    refused(&rt, add(column(&grid, 1).section(0..4).unwrap()), &["`from`", "`sizes(..)`"]);
    let turned = grid.permuted([1, 0]).unwrap();
    refused(&rt, rt.submit(Rows::of(turned.clone())).exec([6]), &["rows", "adjacent"]);
    refused(&rt, rt.submit(Own::of(&grid, turned.clone())).exec([1, 1]), &["blocks or tiles", "adjacent"]);
    if flash_tests::runs_functions() {
        refused(&rt, rt.submit(AtOnce::of(inner())).exec([4, 3]), &["`by_whole`", "adjacent elements only"]);
    }
    assert_eq!(*grid.read().unwrap(), *counted(30).read().unwrap(), "nothing ran");
}

#[test]
fn a_view_with_gaps_that_does_not_fit_says_what_was_expected_and_found() {
    let grid = counted(6 * 5).with_shape([6, 5]).unwrap();
    let inner = grid.section([1..5, 1..4]).unwrap();
    let says = |outcome: Result<MemoryView<'_, u64>, Error>, words: &[&str]| {
        let text = outcome.unwrap_err().to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
    };
    says(grid.section([1..7, 0..2]), &["each axis of the shape [6, 5]", "1..7"]);
    says(grid.section(1..3), &["each axis", "[1..3]"]);
    says(grid.step_by([2]), &["a step of at least 1 for each axis", "[2]"]);
    says(grid.step_by([2, 0]), &["at least 1", "[2, 0]"]);
    says(grid.permuted([0, 0]), &["each of the 2 axes", "[0, 0]"]);
    says(grid.permuted([0, 1, 2]), &["each of the 2 axes"]);
    says(inner.clone().range(1..2), &["adjacent", "[4, 3]", ".section(..)"]);
    says(inner.clone().view([12]), &["[4, 3]", "[12]", "copy"]);
    says(inner.clone().view([5]), &["12 elements"]);
    says(inner.clone().rows(2..4), &["rows inside 0..3"]);
    let four = FlashMemory::<u64>::zeroed([2, 3, 4, 5]);
    says(four.section([0..1, 0..3, 0..4, 0..5]), &["at most 3 axes", ".view(..)"]);
    // Whole rows have no gaps, and nothing has none.
    assert!(!four.section([0..2, 0..3, 0..4, 1..3]).unwrap().has_gaps());
    assert!(!grid.section([0..6, 2..4]).unwrap().has_gaps());
    let none = grid.section([3..3, 1..4]).unwrap();
    assert!(none.is_empty() && !none.has_gaps());
    assert_eq!(inner.clone().view([4, 1, 3]).unwrap().strides(), [1, 4, 6]);
    assert_eq!(format!("{inner:?}"), "MemoryView(7..23, shape [4, 3], strides [1, 6])");
}
