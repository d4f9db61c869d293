//! Elements and rows of items, through every door, against a serial model.

use super::model::{Case, Entry, Values, case};
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Row, Whole, Write};
use flash::kernel::{CpuItem, CpuSpan, CpuWhole, Index, Space, Span, Threads};
use flash::prelude::*;
use proptest::prelude::*;

/// Every way in which an item's element can lie.
#[derive(KernelDefinition)]
#[kernel(name = "views.all", dims(x, y, z))]
struct All<'a> {
    scale: u64,
    /// Strides along x, y and z of all arrays, for the door that sees them whole.
    strides: Whole<'a, Read<[u64; 3]>>,
    unit: Item<'a, Read<u64>>,
    #[along(z)]
    fixed: Item<'a, Read<u64>>,
    #[along(z, x)]
    strided: Item<'a, Read<u64>>,
    #[along(x)]
    rows: Item<'a, Read<Row<u64>>>,
    #[along(y, x)]
    strided_rows: Item<'a, Read<Row<u64>>>,
    both: Item<'a, ReadWrite<u64>>,
    #[along(y, z, x)]
    turned: Item<'a, ReadWrite<u64>>,
    both_rows: Item<'a, ReadWrite<Row<u64>>>,
    to: Item<'a, Write<u64>>,
    #[along(z, y, x)]
    turned_to: Item<'a, Write<u64>>,
    #[along(y, x, z)]
    out_rows: Item<'a, Write<Row<u64>>>,
}

const ARRAYS: usize = 11;

/// The dimensions along each array, and whether items have rows of it.
const LAYOUTS: [(&[usize], bool); ARRAYS] = [
    (&[0, 1, 2], false),
    (&[2], false),
    (&[2, 0], false),
    (&[0], true),
    (&[1, 0], true),
    (&[0, 1, 2], false),
    (&[1, 2, 0], false),
    (&[0, 1, 2], true),
    (&[0, 1, 2], false),
    (&[2, 1, 0], false),
    (&[1, 0, 2], true),
];

const ROW: usize = 3;

fn value(
    index: [u64; 3],
    scale: u64,
    unit: u64,
    fixed: u64,
    strided: u64,
    rows: &[u64],
    strided_rows: &[u64],
) -> u64 {
    let sum = |row: &[u64]| row.iter().enumerate().map(|(i, r)| (i as u64 + 1) * r).sum::<u64>();
    assert_eq!((rows.len(), strided_rows.len()), (ROW, ROW));
    scale * (index[0] + 10 * index[1] + 100 * index[2])
        + unit
        + 3 * fixed
        + 5 * strided
        + 7 * sum(rows)
        + 11 * sum(strided_rows)
}

fn add_to_row(row: &mut [u64], value: u64) {
    for (i, r) in row.iter_mut().enumerate() {
        *r = *r * 2 + value + i as u64;
    }
}

struct ByItem;
struct BySpan;
struct ByWhole;

#[kernel]
impl CpuItem<All<'_>> for ByItem {
    fn item(ix: Index<3>, k: AllItem<'_>) {
        assert_eq!([ix[All::X], ix[All::Y], ix[All::Z]], [ix[0], ix[1], ix[2]]);
        let index = ix.values().map(|v| v as u64);
        let v = value(index, k.scale, *k.unit, *k.fixed, *k.strided, k.rows, k.strided_rows);
        *k.both = *k.both * 2 + v;
        *k.turned = *k.turned * 3 + v;
        add_to_row(k.both_rows, v);
        k.to.set(v + 1);
        k.turned_to.set(v + 2);
        k.out_rows.copy_from_slice(&[v, v + 1, v + 2]);
    }
}

#[kernel(priority = -1)]
impl CpuSpan<All<'_>> for BySpan {
    fn span(run: Span<3>, mut k: AllSpan<'_>) {
        assert_eq!(run.range().len(), run.len());
        for (i, x) in run.range().enumerate() {
            let index = [x, run.first()[1], run.first()[All::Z]].map(|v| v as u64);
            let rows = (k.rows.row(i), k.strided_rows.row(i));
            let v = value(index, k.scale, k.unit[i], *k.fixed, k.strided.get(i), rows.0, rows.1);
            k.both[i] = k.both[i] * 2 + v;
            k.turned.set(i, k.turned.get(i) * 3 + v);
            add_to_row(k.both_rows.row(i), v);
            k.to[i] = v + 1;
            k.turned_to.set(i, v + 2);
            k.out_rows.row(i).copy_from_slice(&[v, v + 1, v + 2]);
        }
        let runs = [k.strided.len(), k.turned.len(), k.rows.len(), k.both_rows.len(), k.to.len()];
        assert_eq!(runs, [run.len(); 5]);
    }
}

#[kernel(priority = -2)]
impl CpuWhole<All<'_>> for ByWhole {
    fn whole(space: Space<'_, Index<3>>, k: AllWhole<'_>, _: Threads<'_>) {
        let mut items = 0;
        space.for_each(|ix| {
            items += 1;
            let index = ix.values().map(|v| v as u64);
            let at = |array: usize| (0..3).map(|d| (index[d] * k.strides[array][d]) as usize).sum::<usize>();
            let row = |array: usize| at(array)..at(array) + ROW;
            let rows = (&k.rows[row(3)], &k.strided_rows[row(4)]);
            let v = value(index, k.scale, k.unit[at(0)], k.fixed[at(1)], k.strided[at(2)], rows.0, rows.1);
            k.both[at(5)] = k.both[at(5)] * 2 + v;
            k.turned[at(6)] = k.turned[at(6)] * 3 + v;
            add_to_row(&mut k.both_rows[row(7)], v);
            k.to[at(8)] = v + 1;
            k.turned_to[at(9)] = v + 2;
            k.out_rows[row(10)].copy_from_slice(&[v, v + 1, v + 2]);
        });
        assert_eq!(items, space.len());
        assert!(!space.is_empty());
    }
}

/// The arrays of one launch, and where elements lie in them.
struct Model {
    /// Per array, the extents of its axes, without the row.
    extents: Vec<Vec<u64>>,
    strides: Vec<[u64; 3]>,
    arrays: [Vec<u64>; ARRAYS],
}

impl Model {
    /// Arrays for indices below `extents`.
    fn new(extents: [u64; 3]) -> Model {
        let mut model = Model { extents: vec![], strides: vec![], arrays: Default::default() };
        for (number, (along, row)) in LAYOUTS.into_iter().enumerate() {
            let mut stride = if row { ROW as u64 } else { 1 };
            let mut strides = [0; 3];
            for &d in along {
                strides[d] = stride;
                stride *= extents[d];
            }
            model.extents.push(along.iter().map(|&d| extents[d]).collect());
            model.strides.push(strides);
            model.arrays[number] = (0..stride).map(|i| (i * 31 + number as u64 * 7) % 101).collect();
        }
        model
    }

    fn at(&self, array: usize, item: &Values) -> usize {
        (0..3).map(|d| item[d] * self.strides[array][d]).sum::<u64>() as usize
    }

    fn shape(&self, array: usize) -> Vec<u64> {
        let row = LAYOUTS[array].1.then_some(ROW as u64);
        row.into_iter().chain(self.extents[array].iter().copied()).collect()
    }

    /// What the launch should make of the arrays.
    fn run(&mut self, case: &Case) {
        for item in case.phases().iter().flatten() {
            let at: Vec<usize> = (0..ARRAYS).map(|a| self.at(a, item)).collect();
            let a = &mut self.arrays;
            let rows = (&a[3][at[3]..at[3] + ROW], &a[4][at[4]..at[4] + ROW]);
            let v =
                value([item[0], item[1], item[2]], 2, a[0][at[0]], a[1][at[1]], a[2][at[2]], rows.0, rows.1);
            a[5][at[5]] = a[5][at[5]] * 2 + v;
            a[6][at[6]] = a[6][at[6]] * 3 + v;
            add_to_row(&mut a[7][at[7]..at[7] + ROW], v);
            a[8][at[8]] = v + 1;
            a[9][at[9]] = v + 2;
            a[10][at[10]..at[10] + ROW].copy_from_slice(&[v, v + 1, v + 2]);
        }
    }
}

/// How the arrays are passed.
#[derive(Clone, Copy, Debug)]
enum Passing {
    Memories,
    ShapedMemories,
    Slices,
    SlicesWithSizes,
    Ranges,
}

fn run(rt: &RuntimeObj, case: &Case, slack: u64, door: &str, passing: Passing) -> (Model, Model) {
    use Passing::*;
    let shaped = matches!(passing, ShapedMemories | SlicesWithSizes);
    let extent = |d: usize| {
        case.entries[d].values().iter().max().map_or(1, |max| max + 1) + if shaped { slack } else { 0 }
    };
    let mut expected = Model::new([extent(0), extent(1), extent(2)]);
    let mut found = Model::new([extent(0), extent(1), extent(2)]);
    expected.run(case);
    let options = || (case.options(&["x", "y", "z"]), Implementation::named(door));
    let strides = found.strides.clone();
    match passing {
        Memories | ShapedMemories => {
            let memories: Vec<FlashMemory<u64>> = (0..ARRAYS)
                .map(|a| {
                    let memory = FlashMemory::from(found.arrays[a].clone());
                    if shaped { memory.with_shape(&found.shape(a)[..]).unwrap() } else { memory }
                })
                .collect();
            let [a, b, c, d, e, f, g, h, i, j, k] = std::array::from_fn(|n| &memories[n]);
            rt.submit(All::of(2, &strides, a, b, c, d, e, f, g, h, i, j, k))
                .options(options())
                .exec(case.dims())
                .unwrap();
            found.arrays = std::array::from_fn(|n| memories[n].read().unwrap().to_vec());
        }
        Ranges => {
            let padded = |data: &Vec<u64>| FlashMemory::from([&[99; 5], &data[..], &[77; 4]].concat());
            let memories: Vec<FlashMemory<u64>> = found.arrays.iter().map(padded).collect();
            let [a, b, c, d, e, f, g, h, i, j, k] =
                std::array::from_fn(|n| memories[n].range(5..5 + found.arrays[n].len()).unwrap());
            rt.submit(All::of(2, &strides, a, b, c, d, e, f, g, h, i, j, k))
                .options(options())
                .exec(case.dims())
                .unwrap();
            found.arrays = std::array::from_fn(|n| {
                let data = memories[n].read().unwrap();
                assert_eq!(
                    (&data[..5], &data[data.len() - 4..]),
                    (&[99; 5][..], &[77; 4][..]),
                    "outside the range"
                );
                data[5..data.len() - 4].to_vec()
            });
        }
        Slices | SlicesWithSizes => {
            let shapes: Vec<Vec<u64>> = (0..ARRAYS).map(|a| found.shape(a)).collect();
            let [a, b, c, d, e, f, g, h, i, j, k] = &mut found.arrays;
            let submission = rt.submit(All::of(2, &strides, &*a, &*b, &*c, &*d, &*e, f, g, h, i, j, k));
            let submission = submission.options(options());
            let sizes = std::iter::once(&[][..]).chain(shapes.iter().map(|s| &s[..]));
            let submission = if shaped { submission.sizes(sizes) } else { submission };
            submission.exec(case.dims()).unwrap();
        }
    }
    (expected, found)
}

/// Dimensions without a value twice, in any order and with any barriers.
fn distinct_case() -> impl Strategy<Value = Case> {
    case(3, 6).prop_map(|mut case| {
        for entry in &mut case.entries {
            if let Entry::List(values) = entry {
                let mut seen = vec![];
                values.retain(|v| {
                    !seen.contains(v) && {
                        seen.push(*v);
                        true
                    }
                });
            }
        }
        case
    })
}

#[flash_tests::test]
fn every_door_gives_items_the_elements_of_their_index() {
    let rt = flash_tests::runtime_of_functions();
    let passing = prop_oneof![
        Just(Passing::Memories),
        Just(Passing::ShapedMemories),
        Just(Passing::Slices),
        Just(Passing::SlicesWithSizes),
        Just(Passing::Ranges),
    ];
    let config = ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in distinct_case(), slack in 0..3u64, passing in passing)| {
        for door in ["by_item", "by_span", "by_whole"] {
            let (expected, found) = run(&rt, &case, slack, door, passing);
            for array in 0..ARRAYS {
                prop_assert_eq!(&found.arrays[array], &expected.arrays[array], "array {} by {}", array, door);
            }
        }
    });
}

#[flash_tests::test]
fn every_door_does_so_in_a_space_that_all_threads_share() {
    let rt = flash_tests::runtime_of_functions();
    let entries = vec![
        Entry::Range { start: 3, step: 2, count: 61, falling: true },
        Entry::Count(37),
        Entry::List(vec![4, 0, 2, 9]),
    ];
    for sort in [vec![], vec![0], vec![1], vec![0, 2]] {
        let case = Case { entries: entries.clone(), sort, group: None };
        for door in ["by_item", "by_span", "by_whole"] {
            let (expected, found) = run(&rt, &case, 1, door, Passing::ShapedMemories);
            assert!(found.arrays == expected.arrays, "{door}, sorted by {:?}", case.sort);
        }
    }
}
