//! Accumulators: their exact bits after a launch, on any device.

use super::model::{Case, Entry, Values, case};
use flash::Error;
use flash::kernel;
use flash::kernel::views::{
    Accumulator, Item, Max, Min, Phased, Read, ReadWrite, Reduce, ReduceOp, Sum, Write,
};
use flash::kernel::{CpuItem, CpuSpan, CpuWhole, Index, Space, Span, Threads};
use flash::prelude::*;
use flash_core::descriptor::Attributes;
use flash_core::index::Dim;
use flash_tests::in_process;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rayon::prelude::*;

type Matrix = [[u64; 2]; 2];

/// The product of matrices: associative, not commutative.
struct Product;

impl ReduceOp<Matrix> for Product {
    fn identity() -> Matrix {
        [[1, 0], [0, 1]]
    }

    fn combine(a: Matrix, b: Matrix) -> Matrix {
        [0, 1].map(|i| {
            [0, 1].map(|j| a[i][0].wrapping_mul(b[0][j]).wrapping_add(a[i][1].wrapping_mul(b[1][j])))
        })
    }
}

/// Two single accumulators that count what was there, and one and an array that do not.
#[derive(KernelDefinition)]
#[kernel(name = "reduce.all", dims(a, b))]
struct All<'a> {
    product: Reduce<'a, ReadWrite<Matrix>, Product>,
    total: Reduce<'a, ReadWrite<f32>, Sum>,
    least: Reduce<'a, Write<i32>, Min>,
    bins: Reduce<'a, Write<[f32]>, Sum>,
}

/// A number that is different for neighbours.
fn number([a, b]: [usize; 2]) -> u64 {
    ((a as u64) << 32 | b as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7
}

fn matrix(n: u64) -> Matrix {
    [[n, 1], [n >> 3 | 1, 2]]
}

fn real(n: u64) -> f32 {
    1.0 / (1 + n % 10_007) as f32
}

struct ByItem;
struct BySpan;
struct ByWhole;

#[kernel]
impl CpuItem<All<'_>> for ByItem {
    fn item(ix: Index<2>, mut k: AllItem<'_>) {
        let n = number(ix.values());
        k.product.put(matrix(n));
        k.total.put(real(n));
        k.least.put(n as i32);
        k.bins.put(n as usize % k.bins.len(), real(n));
    }
}

#[kernel]
impl CpuSpan<All<'_>> for BySpan {
    fn span(run: Span<2>, mut k: AllSpan<'_>) {
        for a in run.range() {
            let n = number([a, run.first()[1]]);
            k.product.put(matrix(n));
            k.total.put(real(n));
            k.least.put(n as i32);
            k.bins.put(n as usize % k.bins.len(), real(n));
        }
    }
}

#[kernel]
impl CpuWhole<All<'_>> for ByWhole {
    fn whole(space: Space<'_, Index<2>>, k: AllWhole<'_>, threads: Threads<'_>) {
        /// Blocks on the threads of a library.
        fn blocks<'k, C: ?Sized + Send + 'k, Op: 'k>(
            space: &Space<'_, Index<2>>,
            blocks: impl Iterator<Item = (std::ops::Range<u64>, Accumulator<'k, C, Op>)>,
            put: impl Fn(&mut Accumulator<'k, C, Op>, u64) + Sync,
        ) {
            blocks.collect::<Vec<_>>().into_par_iter().for_each(|(rows, mut accumulator)| {
                space.part(rows).for_each(|ix| put(&mut accumulator, number(ix.values())));
            });
        }
        threads.install(move || {
            blocks(&space, k.product.into_blocks(), |acc, n| acc.put(matrix(n)));
            blocks(&space, k.total.into_blocks(), |acc, n| acc.put(real(n)));
            blocks(&space, k.least.into_blocks(), |acc, n| acc.put(n as i32));
            blocks(&space, k.bins.into_blocks(), |acc, n| acc.put(n as usize % acc.len(), real(n)));
        });
    }
}

/// What the documentation says, word by word: blocks, a tree, phase after phase. `put` has accumulator
/// and value of a work item.
fn reference<T: Copy, Op: ReduceOp<T>>(
    initial: Vec<T>,
    phases: &[Vec<Values>],
    put: impl Fn(u64) -> (usize, T),
) -> Vec<T> {
    let mut result = initial;
    let bytes = (result.len() * size_of::<T>()) as u64;
    let combine =
        |a: &[T], b: &[T]| -> Vec<T> { a.iter().zip(b).map(|(&a, &b)| Op::combine(a, b)).collect() };
    for phase in phases {
        let most = ((16 << 20) / bytes).clamp(1, 256);
        let rows = (phase.len() as u64).div_ceil(most).max(4096).max(result.len() as u64).next_power_of_two();
        let mut level: Vec<Vec<T>> = phase
            .chunks(rows as usize)
            .map(|block| {
                let mut accumulator = vec![Op::identity(); result.len()];
                for values in block {
                    let (i, value) = put(number([values[0] as usize, values[1] as usize]));
                    accumulator[i] = Op::combine(accumulator[i], value);
                }
                accumulator
            })
            .collect();
        while level.len() > 1 {
            level = level
                .chunks(2)
                .map(|pair| match pair {
                    [a, b] => combine(a, b),
                    _ => pair[0].clone(),
                })
                .collect();
        }
        result = combine(&result, &level[0]);
    }
    result
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Has the threads of a small launch take part, too.
fn in_parallel(mut options: Attributes) -> Attributes {
    options.set_by_name("cpu.parallel", true.into(), false);
    options
}

/// Runs the launch through a door and compares with the reference.
fn check(rt: &RuntimeObj, case: &Case, bins: usize, door: &str) {
    let first = ([[3, 1], [4, 1]], -0.3f32);
    let (product, total) = (FlashMemory::from([first.0]), FlashMemory::from([first.1]));
    let (least, found) = (FlashMemory::from([-9i32]), FlashMemory::from(vec![7.0f32; bins]));
    let options = (in_parallel(case.options(&["a", "b"])), Implementation::named(door));
    let dims: Vec<Dim> = case.dims();
    rt.submit(All::of(&product, &total, &least, &found)).options(options).exec(dims).unwrap();
    let phases = case.phases();
    let expected = reference::<_, Product>(vec![first.0], &phases, |n| (0, matrix(n)));
    assert_eq!(*product.read().unwrap(), expected[..]);
    let expected = reference::<_, Sum>(vec![first.1], &phases, |n| (0, real(n)));
    assert_eq!(bits(&total.read().unwrap()), bits(&expected));
    let expected = reference::<_, Min>(vec![i32::MAX], &phases, |n| (0, n as i32));
    assert_eq!(*least.read().unwrap(), expected[..]);
    let expected = reference::<_, Sum>(vec![0.0; bins], &phases, |n| (n as usize % bins, real(n)));
    assert_eq!(bits(&found.read().unwrap()), bits(&expected));
}

fn every_space_reduces_as_documented(cases: u32) {
    let rt = get_runtime("ALL_CPU").unwrap();
    let long = (case(2, 5), 1..9000u64, 1..5u64, any::<bool>()).prop_map(|(mut case, a, b, turned)| {
        case.entries = if turned { [b, a] } else { [a, b] }.map(Entry::Count).to_vec();
        case
    });
    let cases_of_both = prop_oneof![case(2, 9), long];
    let bins = prop_oneof![3 => 1..70usize, 1 => 4000..9000usize];
    let doors = prop_oneof![Just("by_item"), Just("by_span"), Just("by_whole")];
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&(cases_of_both, bins, doors), |(case, bins, door)| {
        check(&rt, &case, bins, door);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn every_space_reduces_to_the_documented_bits_on_one_thread() {
    in_process(&[("FLASH_CPU_THREADS", "1")], || every_space_reduces_as_documented(60));
}

#[test]
fn every_space_reduces_to_the_documented_bits_on_two_threads() {
    in_process(&[("FLASH_CPU_THREADS", "2")], || every_space_reduces_as_documented(120));
}

#[test]
fn every_space_reduces_to_the_documented_bits_on_seven_threads() {
    in_process(&[("FLASH_CPU_THREADS", "7")], || every_space_reduces_as_documented(60));
}

#[test]
fn a_million_work_items_reduce_to_the_documented_bits() {
    for threads in ["1", "2", "7"] {
        in_process(&[("FLASH_CPU_THREADS", threads)], || {
            let rt = get_runtime("ALL_CPU").unwrap();
            let case =
                Case { entries: vec![Entry::Count(1_000_003), Entry::Count(2)], sort: vec![], group: None };
            for door in ["by_item", "by_span", "by_whole"] {
                check(&rt, &case, 1000, door);
            }
        });
    }
}

/// The extremes and the sum of numbers, each of which may be negative zero or NaN.
#[derive(KernelDefinition)]
#[kernel(name = "reduce.extremes", dims(i))]
struct Extremes<'a, T: flash::kernel::Element>
where
    Sum: ReduceOp<T>,
    Min: ReduceOp<T>,
    Max: ReduceOp<T>,
{
    values: Item<'a, Read<T>>,
    sum: Reduce<'a, Write<T>, Sum>,
    least: Reduce<'a, Write<T>, Min>,
    most: Reduce<'a, Write<T>, Max>,
}

struct Plain;

#[kernel(for(u8, i64, f32, f64, [i16; 3]))]
impl<T: flash::kernel::Element> CpuItem<Extremes<'_, T>> for Plain
where
    Sum: ReduceOp<T>,
    Min: ReduceOp<T>,
    Max: ReduceOp<T>,
{
    fn item(_: Index<1>, mut k: ExtremesItem<'_, T>) {
        k.sum.put(*k.values);
        k.least.put(*k.values);
        k.most.put(*k.values);
    }
}

/// Sum, smallest and largest, through references to single values.
fn extremes<T: flash::kernel::Element>(values: &[T], garbage: T) -> [T; 3]
where
    Sum: ReduceOp<T>,
    Min: ReduceOp<T>,
    Max: ReduceOp<T>,
    for<'a> Extremes<'a, T>: flash_core::runtime::Submission<'a>,
{
    let [mut sum, mut least, mut most] = [garbage; 3];
    let rt = get_runtime("ALL_CPU").unwrap();
    rt.submit(Extremes::of(values, &mut sum, &mut least, &mut most)).exec([values.len()]).unwrap();
    [sum, least, most]
}

#[test]
fn sums_and_extremes_of_numbers() {
    assert_eq!(extremes(&[200u8, 100, 7], 9), [51, 7, 200]);
    assert_eq!(extremes(&[-5i64, i64::MAX, 3], 9), [i64::MAX - 2, -5, i64::MAX]);
    assert_eq!(extremes(&[[1i16, -2, 3], [-1, 5, 3]], [9; 3]), [[0, 3, 6], [-1, -2, 3], [1, 5, 3]]);
    assert_eq!(extremes(&[1.5f64, -2.0], 9.0), [-0.5, -2.0, 1.5]);
    assert_eq!(extremes::<u8>(&[], 9), [0, 255, 0]);
    assert_eq!(extremes::<f32>(&[], 9.0), [0.0, f32::INFINITY, f32::NEG_INFINITY]);
}

#[test]
fn zeros_are_ordered_and_a_nan_is_not_lost() {
    for values in [[0.0f64, -0.0], [-0.0, 0.0]] {
        let [sum, least, most] = extremes(&values, 9.0).map(f64::to_bits);
        assert_eq!([sum, least, most], [0.0, -0.0, 0.0].map(f64::to_bits));
    }
    let payload = f64::from_bits(f64::NAN.to_bits() | 1 << 63 | 5);
    for values in [[1.0, payload, 2.0], [payload, 1.0, 2.0], [1.0, 2.0, payload]] {
        let [sum, least, most] = extremes(&values, 9.0);
        assert!(sum.is_nan());
        assert_eq!([least, most].map(f64::to_bits), [f64::NAN.to_bits(); 2]);
    }
    assert_eq!(extremes(&[-0.0f32], 9.0)[0].to_bits(), 0, "the sum of nothing but -0.0");
}

#[test]
fn an_empty_launch_gives_the_identity_or_what_was_there() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let (product, mut total) = (FlashMemory::from([[[3, 1], [4, 1]]]), -0.0);
    let (least, bins) = (FlashMemory::from([5]), FlashMemory::from([1.0, 2.0]));
    rt.submit(All::of(&product, &mut total, &least, &bins)).exec([0, 4]).unwrap();
    assert_eq!((product.get(0).unwrap(), total.to_bits()), ([[3, 1], [4, 1]], (-0.0f32).to_bits()));
    assert_eq!((least.get(0).unwrap(), &*bins.read().unwrap()), (i32::MAX, &[0.0, 0.0][..]));
}

#[test]
fn ranges_of_memories_and_empty_arrays_of_accumulators() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let sums = FlashMemory::from([1.0f64, 2.0, 3.0]);
    let [mut least, mut most] = [0.0; 2];
    let values = [4.0f64, 5.0];
    rt.submit(Extremes::of(&values[..], sums.range(1..2).unwrap(), &mut least, &mut most)).exec([2]).unwrap();
    assert_eq!(*sums.read().unwrap(), [1.0, 9.0, 3.0]);
    let mut none: [u32; 0] = [];
    rt.submit(Guarded::of(9, 0, &mut none[..])).exec([3]).unwrap();
}

/// Puts where it is told to, and fails where it is told to.
#[derive(KernelDefinition)]
#[kernel(name = "reduce.guarded", dims(i))]
struct Guarded<'a> {
    fail: u64,
    bin: u64,
    bins: Reduce<'a, ReadWrite<[u32]>, Sum>,
}

#[kernel(devices)]
impl CpuItem<Guarded<'_>> for Plain {
    fn item(ix: Index<1>, mut k: GuardedItem<'_>) {
        assert!(ix[0] as u64 != k.fail, "fails on purpose");
        if !k.bins.is_empty() {
            k.bins.put(k.bin as usize, 1);
        }
    }
}

#[test]
fn a_kernel_that_panics_poisons_and_the_next_launch_is_unharmed() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let bins = FlashMemory::from([5u32, 5]);
    let error = rt.submit(Guarded::of(70_000, 0, &bins)).exec([100_000]).unwrap_err();
    assert!(error.to_string().contains("fails on purpose"), "{error}");
    assert!(matches!(bins.read(), Err(Error::Poisoned)));
    bins.write().unwrap().fill(1);
    let error = rt.submit(Guarded::of(u64::MAX, 2, &bins)).exec([1]).unwrap_err();
    assert!(error.to_string().contains("accumulator 2 of an array of 2"), "{error}");
    bins.write().unwrap().fill(1);
    rt.submit(Guarded::of(u64::MAX, 1, &bins)).exec([100_000]).unwrap();
    assert_eq!(*bins.read().unwrap(), [1, 100_001]);
}

#[test]
fn a_write_heals_and_a_read_write_is_skipped() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let bins = FlashMemory::from([5u32, 5]);
    rt.submit(Guarded::of(0, 0, &bins)).exec([1]).unwrap_err();
    let skipped = rt.submit(Guarded::of(9, 0, &bins)).exec([1]).unwrap_err();
    assert!(matches!(&skipped, Error::Launch(l) if matches!(l.cause(), Error::Skipped { .. })), "{skipped}");
    let total = FlashMemory::from([0.0f64]);
    rt.submit(Refuses::of(&total)).exec([8192]).unwrap_err();
    let values = [1.5f64];
    let [mut least, mut most] = [0.0; 2];
    rt.submit(Extremes::of(&values[..], &total, &mut least, &mut most)).exec([1]).unwrap();
    assert_eq!(total.get(0).unwrap(), 1.5);
}

/// An operation that does not always work.
struct Picky;

impl ReduceOp<f64> for Picky {
    fn identity() -> f64 {
        0.0
    }

    fn combine(a: f64, b: f64) -> f64 {
        assert!(b != 4096.0, "no 4096, please");
        a + b
    }
}

#[derive(KernelDefinition)]
#[kernel(name = "reduce.refuses", dims(i))]
struct Refuses<'a> {
    total: Reduce<'a, ReadWrite<f64>, Picky>,
}

#[kernel]
impl CpuItem<Refuses<'_>> for Plain {
    fn item(_: Index<1>, mut k: RefusesItem<'_>) {
        k.total.put(1.0);
    }
}

#[test]
fn an_operation_that_panics_while_merging_is_an_error_of_the_launch() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let mut total = 0.5;
    rt.submit(Refuses::of(&mut total)).exec([4095]).unwrap();
    assert_eq!(total, 4095.5);
    // Two blocks: the second one's 4096 meets the first one's only on the host.
    let error = rt.submit(Refuses::of(&mut total)).exec([8192]).unwrap_err();
    assert!(error.to_string().contains("no 4096, please"), "{error}");
}

#[test]
fn a_single_accumulator_is_one_element_and_overlaps_nothing() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let (mut two, [mut least, mut most]) = ([0.0f64; 2], [0.0; 2]);
    let values = FlashMemory::from([1.0f64, 2.0]);
    let error = rt.submit(Extremes::of(&values, &mut two[..], &mut least, &mut most)).exec([2]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("`sum`") && text.contains("a single accumulator, the array has 2 elements"),
        "{text}"
    );
    let inside = values.range(1..2).unwrap();
    let error = rt.submit(Extremes::of(&values, inside, &mut least, &mut most)).exec([1]).unwrap_err();
    assert!(error.to_string().contains("overlaps argument `values`"), "{error}");
}

/// A sum per phase of what the phase before has made.
#[derive(KernelDefinition)]
#[kernel(name = "reduce.phased", dims(i, step), sort_by(step))]
struct Stepping<'a> {
    #[along(i)]
    values: Phased<'a, u64>,
    total: Reduce<'a, ReadWrite<u64>, Sum>,
}

#[kernel(devices)]
impl CpuItem<Stepping<'_>> for Plain {
    fn item(ix: Index<2>, mut k: SteppingItem<'_>) {
        let was = k.values.get((ix[0] + 1) % k.values.len());
        k.total.put(was);
        k.values.set(was + 1);
    }
}

#[test]
fn phased_arguments_go_on_beside_accumulators() {
    let rt = get_runtime("ALL_CPU").unwrap();
    for (len, n) in [(5000u64, 5000u64), (5000, 4000)] {
        for steps in [1, 2, 5] {
            let mut expected: Vec<u64> = (0..len).map(|i| i * i % 101).collect();
            let values = FlashMemory::from(expected.clone());
            let mut sum = 1000;
            for _ in 0..steps {
                let was = expected.clone();
                for i in 0..n as usize {
                    sum += was[(i + 1) % was.len()];
                    expected[i] = was[(i + 1) % was.len()] + 1;
                }
            }
            let mut total = 1000;
            rt.submit(Stepping::of(&values, &mut total)).exec([n, steps]).unwrap();
            assert_eq!(total, sum, "{n} of {len}, {steps} steps");
            assert_eq!(*values.read().unwrap(), expected[..]);
        }
    }
}

#[test]
fn a_launch_that_is_profiled_is_one_record() {
    let (rt, profile) = (get_runtime("ALL_CPU").unwrap(), Profile::new());
    let (values, mut total) = (FlashMemory::<u64>::zeroed(10), 0);
    rt.options(&profile).submit(Stepping::of(&values, &mut total)).exec([10, 7]).unwrap();
    let told: Vec<_> = profile.take().iter().map(|launch| (launch.phases, launch.items)).collect();
    assert_eq!(told, [(7, 70)]);
}

/// Phases that can be cut.
#[derive(KernelDefinition)]
#[kernel(name = "reduce.recorded", dims(i, step), group_by(step), part_by(i))]
struct Recorded<'a> {
    #[along(i)]
    values: Item<'a, Read<u64>>,
    total: Reduce<'a, ReadWrite<u64>, Sum>,
}

#[kernel(devices)]
impl CpuItem<Recorded<'_>> for Plain {
    fn item(_: Index<2>, mut k: RecordedItem<'_>) {
        k.total.put(*k.values);
    }
}

#[test]
fn all_phases_of_a_device_are_one_record() {
    for (devices, copy) in [(1, "1"), (2, "0"), (2, "1")] {
        // Devices of their own: others have budgets that other tests set.
        let devices_of = devices.to_string();
        let own = [("cpu.devices", &*devices_of), ("cpu.copy", copy), ("cpu.throttle", "1.0,1")];
        let context = flash_tests::context(&own);
        let (rt, profile) =
            (context.runtime("ALL_CPU").unwrap().options(weights(vec![1; devices])), Profile::new());
        let (values, mut total) = (FlashMemory::from(vec![1u64; 20_000]), 0);
        for _ in 0..2 {
            let submission = rt.submit(Recorded::of(&values, &mut total)).options(&profile);
            submission.exec([20_000, 7]).unwrap();
            let launches = profile.take();
            let ran: std::collections::BTreeSet<&str> = launches.iter().map(|l| &*l.device).collect();
            assert_eq!((launches.len(), ran.len()), (devices, devices), "{launches:?}");
            assert!(launches.iter().all(|l| l.phases == 7 && l.nanoseconds > 0), "{launches:?}");
            assert_eq!(launches.iter().map(|l| l.items).sum::<u64>(), 140_000, "{launches:?}");
        }
        assert_eq!(total, 280_000);
    }
}

#[test]
fn kept_pipelines_and_chains_reduce_again_and_again() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let bins = FlashMemory::<u32>::zeroed(3);
    let twice = rt
        .submit(Guarded::of(u64::MAX, 0, &bins))
        .defer([10_000])
        .submit(Guarded::of(u64::MAX, 2, &bins))
        .defer([7]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| twice.exec().unwrap()));
        }
    });
    assert_eq!(*bins.read().unwrap(), [1_000_000, 0, 700]);
}

#[test]
fn by_name_the_ready_made_operations_work_and_those_of_definitions_in_this_program() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let (values, [mut sum, mut least, mut most]) = ([2.5f64, -1.0], [[9.0f64]; 3]);
    let kernel = rt.kernel("reduce.extremes").unwrap();
    let arguments = (&values[..], &mut sum[..], &mut least[..], &mut most[..]);
    rt.submit(kernel.args(arguments).unwrap()).exec([2]).unwrap();
    assert_eq!((sum, least, most), ([1.5], [-1.0], [2.5]));

    let kernel = rt.kernel("reduce.refuses").unwrap();
    rt.submit(kernel.args((&mut sum[..],)).unwrap()).exec([2]).unwrap();
    assert_eq!(sum, [3.5]);
    // It is that very operation.
    let mut sum = [4095.0f64];
    let error = rt.submit(kernel.args((&mut sum[..],)).unwrap()).exec([4096]).unwrap_err().to_string();
    assert!(error.contains("no 4096, please"), "{error}");
}

#[test]
fn descriptors_say_operation_and_array_and_come_back() {
    use flash_core::descriptor::KernelDescriptor;
    let descriptor = flash_core::kernel::descriptor_of::<All<'_>>();
    let text = descriptor.signature();
    assert!(
        text.contains("Reduce<ReadWrite<f32>, Sum>, Reduce<Write<i32>, Min>, Reduce<Write<[f32]>, Sum>"),
        "{text}"
    );
    assert!(text.contains("reduce::Product>"), "{text}");
    assert_eq!(KernelDescriptor::from_json(&descriptor.to_json()).unwrap(), descriptor);
    let mut other = descriptor.clone();
    other.arguments[2].reduce.as_mut().unwrap().operation = "Max".into();
    assert_ne!(other.signature(), text);
}
