//! Stores and loads anywhere, and atomic operations for each of the six types.

use flash::kernel;
use flash::kernel::views::{AtomicElement, Item, Read, Scatter};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;

/// Numbers that are exact in all six types.
trait Number:
    AtomicElement + std::fmt::Debug + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self>
{
    fn of(n: u32) -> Self;
}

macro_rules! numbers {
    ($($t:ty)*) => {$(impl Number for $t {
        fn of(n: u32) -> $t {
            n as $t
        }
    })*};
}
numbers! { u32 u64 i32 i64 f32 f64 }

/// All operations, on cells that many items share.
#[derive(KernelDefinition)]
#[kernel(name = "scatter.all", dims(i))]
struct All<'a, T: Number> {
    from: Item<'a, Read<T>>,
    sum: Scatter<'a, T>,
    smallest: Scatter<'a, T>,
    largest: Scatter<'a, T>,
    /// Each item leaves its value and adds what it found to `found`.
    place: Scatter<'a, T>,
    found: Scatter<'a, T>,
}

struct Plain;

#[kernel(devices, for(u32, u64, i32, i64, f32, f64))]
impl<T: Number> CpuItem<All<'_, T>> for Plain {
    fn item(ix: Index<1>, k: AllItem<'_, T>) {
        let (i, value) = (ix[0], *k.from);
        let cell = i % k.sum.len();
        k.sum.add(cell, value);
        k.smallest.min(cell, value);
        k.largest.max(cell, value);
        k.found.add(0, k.place.swap(0, value));
        assert!(!k.sum.is_empty());
    }
}

/// Operations that functions have, and texts for devices have not.
#[derive(KernelDefinition)]
#[kernel(name = "scatter.functions", dims(i))]
struct Functions<'a, T: Number> {
    from: Item<'a, Read<T>>,
    updated: Scatter<'a, T>,
    written: Scatter<'a, T>,
}

#[kernel(for(u32, u64, i32, i64, f32, f64))]
impl<T: Number> CpuItem<Functions<'_, T>> for Plain {
    fn item(ix: Index<1>, k: FunctionsItem<'_, T>) {
        let (i, cell) = (ix[0], ix[0] % k.updated.len());
        k.updated.update(cell, |old| old + T::of(2));
        k.written.store(i, *k.from + T::of(1));
        assert!(k.updated.load(cell) >= T::of(2));
    }
}

/// Stores at multiples of the own index, in each turn.
#[derive(KernelDefinition)]
#[kernel(name = "scatter.stores", dims(i, turn), group_by(turn))]
struct Stores<'a> {
    times: u64,
    to: Scatter<'a, [u16; 3]>,
}

#[kernel(devices)]
impl CpuItem<Stores<'_>> for Plain {
    fn item(ix: Index<2>, k: StoresItem<'_>) {
        let at = ix[0] * k.times as usize % k.to.len();
        k.to.store(at, [ix[0] as u16, ix[1] as u16, 7]);
    }
}

/// Stores inside of the own row of a cut launch.
#[derive(KernelDefinition)]
#[kernel(name = "scatter.stores_in_rows", dims(x, y), part_by(y, to = rows(y)))]
struct StoresInRows<'a> {
    from: Item<'a, Read<u8>>,
    to: Scatter<'a, u8>,
}

#[kernel(devices)]
impl CpuItem<StoresInRows<'_>> for Plain {
    fn item(ix: Index<2>, k: StoresInRowsItem<'_>) {
        k.to.store(9 * ix[1] + (2 * ix[0] + 1) % 9, *k.from);
    }
}

/// Has the threads of a small launch take part, too.
fn in_parallel() -> flash_core::descriptor::Attributes {
    let mut options = flash_core::descriptor::Attributes::default();
    options.set_by_name("cpu.parallel", true.into(), false);
    options
}

fn some_values<T: Number>(n: u32) -> Vec<T> {
    (0..n).map(|i| T::of(i * 7919 % 251)).collect()
}

fn all_operations<T: Number>() {
    let rt = flash_tests::runtime();
    let (n, cells) = (4000u32, 3);
    let values = some_values::<T>(n);
    let [sum, found] = [cells, 1].map(FlashMemory::<T>::zeroed);
    let (smallest, largest) = (FlashMemory::from(vec![T::of(200); cells]), FlashMemory::<T>::zeroed(cells));
    let place = FlashMemory::from(vec![T::of(17)]);
    rt.submit(All::of(&values, &sum, &smallest, &largest, &place, &found))
        .options(in_parallel())
        .exec([n])
        .unwrap();
    let total = |of: &mut dyn Iterator<Item = T>| of.fold(T::of(0), |a, b| a + b);
    for cell in 0..cells {
        let mine = || values.iter().copied().skip(cell).step_by(cells);
        assert_eq!(sum.get(cell).unwrap(), total(&mut mine()));
        assert_eq!(smallest.get(cell).unwrap(), T::of(0));
        assert_eq!(largest.get(cell).unwrap(), T::of(250));
    }
    // What was found and what is there now is what was there and what was left.
    let left = total(&mut values.iter().copied());
    assert_eq!(found.get(0).unwrap() + place.get(0).unwrap(), left + T::of(17));
}

fn all_functions<T: Number>() {
    let rt = flash_tests::runtime_of_functions();
    let (n, cells) = (4000u32, 3);
    let values = some_values::<T>(n);
    let (updated, written) = (FlashMemory::from(vec![T::of(5); cells]), FlashMemory::<T>::zeroed(n as usize));
    rt.submit(Functions::of(&values, &updated, &written)).options(in_parallel()).exec([n]).unwrap();
    for cell in 0..cells {
        let count = values.iter().skip(cell).step_by(cells).count() as u32;
        assert_eq!(updated.get(cell).unwrap(), T::of(5) + T::of(2) * T::of(count));
    }
    let expected: Vec<T> = values.iter().map(|&v| v + T::of(1)).collect();
    assert_eq!(*written.read().unwrap(), expected[..]);
}

#[flash_tests::test]
fn updates_of_all_threads_on_one_element_lose_nothing() {
    all_functions::<u32>();
    all_functions::<u64>();
    all_functions::<i32>();
    all_functions::<i64>();
    all_functions::<f32>();
    all_functions::<f64>();
}

#[flash_tests::test]
fn operations_of_all_threads_on_one_element_lose_nothing() {
    all_operations::<u32>();
    all_operations::<u64>();
    all_operations::<i32>();
    all_operations::<i64>();
    all_operations::<f32>();
    all_operations::<f64>();
}

/// Many operations per item on the same few elements, so that threads meet there.
#[derive(KernelDefinition)]
#[kernel(name = "scatter.contended", dims(i))]
struct Contended<'a, T: Number> {
    times: u32,
    arrived: Scatter<'a, u32>,
    sum: Scatter<'a, T>,
    updated: Scatter<'a, T>,
    place: Scatter<'a, T>,
    found: Scatter<'a, T>,
}

#[kernel(for(u32, u64, i32, i64, f32, f64))]
impl<T: Number> CpuItem<Contended<'_, T>> for Plain {
    fn item(ix: Index<1>, k: ContendedItem<'_, T>) {
        if k.arrived.add(0, 1) == 0 {
            // Gives another thread time to come; there may be none.
            let alone = || k.arrived.load(0) == 1;
            (0..10_000).take_while(|_| alone()).for_each(|_| std::thread::yield_now());
        }
        for _ in 0..k.times {
            k.sum.add(0, T::of(1));
            k.updated.update(0, |old| old + T::of(1));
            // What is taken out of one place goes to the other, or comes back later.
            let taken = k.place.swap(0, T::of(0));
            k.place.add(0, taken);
            k.found.add(ix[0] % k.found.len(), taken);
        }
    }
}

fn contended<T: Number>() {
    let rt = flash_tests::runtime_of_functions();
    let (items, times) = (64, 1000);
    for _ in 0..20 {
        let [sum, updated] = std::array::from_fn(|_| FlashMemory::<T>::zeroed(1));
        let (place, found) = (FlashMemory::from(vec![T::of(5)]), FlashMemory::<T>::zeroed(items as usize));
        let arrived = FlashMemory::zeroed(1);
        let submission = rt.submit(Contended::of(times, &arrived, &sum, &updated, &place, &found));
        submission.options(in_parallel()).exec([items]).unwrap();
        let (all, five) = (T::of(items * times), T::of(5));
        assert_eq!([&sum, &updated, &place].map(|m| m.get(0).unwrap()), [all, all, five]);
    }
}

#[flash_tests::test]
fn operations_of_threads_that_meet_on_one_element_lose_nothing() {
    contended::<u32>();
    contended::<u64>();
    contended::<i32>();
    contended::<i64>();
    contended::<f32>();
    contended::<f64>();
}

fn stores(check_writes: bool, times: u64) -> Result<Vec<[u16; 3]>, flash::Error> {
    let context = flash::Context::builder().set("check_writes", check_writes).build()?;
    let rt = context.runtime(&flash_tests::key())?;
    let to = FlashMemory::<[u16; 3]>::zeroed(1000);
    rt.submit(Stores::of(times, &to)).options(in_parallel()).exec((1000, 1..4))?;
    to.to_vec()
}

#[flash_tests::test]
fn stores_of_other_elements_are_all_there() {
    let expected: Vec<_> = (0..1000).map(|at| [at * 7 % 1000, 3, 7]).collect();
    // 7 * 143 is 1 modulo 1000.
    for check_writes in [false, true] {
        assert_eq!(stores(check_writes, 143).unwrap(), expected);
    }
}

#[flash_tests::test]
fn two_stores_of_one_element_are_found_by_the_check() {
    // In tests of several devices each of them has its own part of the index space, and all of the array.
    flash_tests::runtime_of_this_process();
    let to = stores(false, 20).unwrap();
    for (at, [i, turn, last]) in to.into_iter().enumerate() {
        let expected = if at % 20 == 0 { (at, 3, 7) } else { (0, 0, 0) };
        assert_eq!((20 * usize::from(i) % 1000, turn, last), expected);
    }
    let text = stores(true, 20).unwrap_err().to_string();
    for words in ["FLASH_CHECK_WRITES", "is stored twice", "scatter.stores"] {
        assert!(text.contains(words), "{text}");
    }
}

#[flash_tests::test]
fn stores_in_boxes_of_their_own_are_cut() {
    let from: Vec<u8> = (0..9 * 30).map(|i| i as u8).collect();
    let memory = FlashMemory::from(from.clone()).with_shape([9, 30]).unwrap();
    let to = FlashMemory::<u8>::zeroed([9, 30]);
    flash_tests::runtime().submit(StoresInRows::of(&memory, &to)).exec([9, 30]).unwrap();
    let to = to.to_vec().unwrap();
    for (i, value) in from.into_iter().enumerate() {
        assert_eq!(to[i / 9 * 9 + (2 * (i % 9) + 1) % 9], value);
    }
}

#[derive(KernelDefinition)]
#[kernel(name = "scatter.returns", dims(i))]
struct Returns<'a> {
    cell: Scatter<'a, i32>,
}

#[kernel(devices)]
impl CpuItem<Returns<'_>> for Plain {
    fn item(_: Index<1>, k: ReturnsItem<'_>) {
        assert_eq!(k.cell.add(0, i32::MAX), 5);
        assert_eq!(k.cell.add(0, 10), i32::MIN + 4, "integers wrap");
        assert_eq!(k.cell.swap(0, -3), i32::MIN + 14);
        assert_eq!(k.cell.min(0, 7), -3);
        assert_eq!(k.cell.max(0, -9), -3);
        assert_eq!(k.cell.min(0, -9), -3);
        assert_eq!(k.cell.max(0, 8), -9);
        assert_eq!(k.cell.load(0), 8);
    }
}

#[flash_tests::test]
fn operations_return_what_was_there() {
    let cell = FlashMemory::from(vec![5]);
    flash_tests::runtime().submit(Returns::of(&cell)).exec([1]).unwrap();
    assert_eq!(*cell.read().unwrap(), [8]);
}

#[derive(KernelDefinition)]
#[kernel(name = "scatter.double", dims(i))]
struct Double<'a> {
    cell: Scatter<'a, i32>,
}

#[kernel]
impl CpuItem<Double<'_>> for Plain {
    fn item(_: Index<1>, k: DoubleItem<'_>) {
        let was = k.cell.update(0, |old| old * 2);
        assert_eq!(k.cell.load(0), 2 * was);
    }
}

#[flash_tests::test]
fn an_update_returns_what_was_there() {
    let cell = FlashMemory::from(vec![8]);
    flash_tests::runtime_of_functions().submit(Double::of(&cell)).exec([1]).unwrap();
    assert_eq!(*cell.read().unwrap(), [16]);
}

#[derive(KernelDefinition)]
#[kernel(name = "scatter.outside", dims(i))]
struct Outside<'a> {
    operation: u32,
    cells: Scatter<'a, f32>,
}

#[kernel]
impl CpuItem<Outside<'_>> for Plain {
    fn item(_: Index<1>, k: OutsideItem<'_>) {
        let at = k.cells.len();
        match k.operation {
            0 => k.cells.add(at, 1.0),
            1 => k.cells.min(at, 1.0),
            2 => k.cells.max(at, 1.0),
            3 => k.cells.swap(at, 1.0),
            4 => k.cells.update(at, |old| old),
            _ => k.cells.load(at),
        };
    }
}

#[flash_tests::test]
fn every_operation_outside_the_array_is_an_error_of_the_launch() {
    let rt = flash_tests::runtime_of_functions();
    for operation in 0..6 {
        let cells = FlashMemory::<f32>::zeroed(9);
        let text = rt.submit(Outside::of(operation, &cells)).exec([1]).unwrap_err().to_string();
        assert!(text.contains("scatter.outside") && text.contains("element 9 of an array of 9"), "{text}");
    }
}
