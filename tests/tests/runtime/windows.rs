//! Windows: the whole array where nothing is cut, through every door, by element, axes and slice.

use flash::Error;
use flash::kernel;
use flash::kernel::views::{Item, Read, Whole, Window, Write};
use flash::kernel::{CpuItem, CpuSpan, CpuWhole, Index, Space, Span, Threads};
use flash::prelude::*;
use flash_core::descriptor::{part_by, rows, stencil};
use std::cell::Cell;

/// The sum of an element and its right and upper neighbour, with the array's borders around it.
#[derive(KernelDefinition)]
#[kernel(name = "windows.sum", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
struct Sum<'a> {
    #[structure]
    factor: Whole<'a, Read<u64>>,
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

thread_local! {
    /// `around` of the spans is being called.
    static AROUND: Cell<bool> = const { Cell::new(false) };
}

struct ByItem;
struct BySpan;
struct ByWhole;

#[kernel(devices)]
impl CpuItem<Sum<'_>> for ByItem {
    fn item(ix: Index<2>, k: SumItem<'_>) {
        let (x, y, from) = (ix[0], ix[1], k.from);
        let (begin, end) = (from.begin(), from.end());
        // A part has some of the rows.
        assert!(begin[0] == 0 && begin[1] <= y && begin[2] == 0 && end[2] == 1 && !from.is_empty());
        assert_eq!(from.at([x, y, 0]), from.get(x + y * end[0]));
        let right = if x + 1 < end[0] { from.at([x + 1, y, 0]) } else { 0 };
        let up = if y + 1 < end[1] { from.at([x, y + 1, 0]) } else { 0 };
        k.to.set(k.factor[0] * (from.at([x, y, 0]) + right + up));
    }
}

#[kernel]
impl CpuSpan<Sum<'_>> for BySpan {
    fn span(run: Span<2>, k: SumSpan<'_>) {
        assert!(AROUND.get(), "a run outside of `around`");
        let [width, height, _] = k.from.end();
        let (x, y) = (run.first()[0], run.first()[1]);
        let own = k.from.slice(y * width + x..y * width + x + run.len());
        for (i, to) in k.to.iter_mut().enumerate() {
            let right = if x + i + 1 < width { k.from.get(y * width + x + i + 1) } else { 0 };
            let up = if y + 1 < height { k.from.at([x + i, y + 1, 0]) } else { 0 };
            *to = k.factor[0] * (own[i] + right + up);
        }
    }

    fn around<R>(share: impl FnOnce() -> R) -> R {
        AROUND.set(true);
        let result = share();
        AROUND.set(false);
        result
    }
}

#[kernel]
impl CpuWhole<Sum<'_>> for ByWhole {
    fn whole(_: Space<'_, Index<2>>, k: SumWhole<'_>, threads: Threads<'_>) {
        // It may cross to other threads.
        threads.install(|| {
            let [width, height, _] = k.from.end();
            let from = k.from.slice(0..k.from.len());
            for i in 0..width * height {
                let right = if (i + 1) % width > 0 { from[i + 1] } else { 0 };
                let up = from.get(i + width).copied().unwrap_or(0);
                k.to[i] = k.factor[0] * (from[i] + right + up);
            }
        });
    }
}

#[flash_tests::test]
fn without_a_cut_a_window_is_the_whole_array_through_every_door() {
    let rt = flash_tests::runtime_of_functions();
    let (width, height) = (67usize, 23usize);
    let value = |x: usize, y: usize| if x < width && y < height { (x * 1000 + y * 7) as u64 } else { 0 };
    let cells = || (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let from: Vec<u64> = cells().map(|(x, y)| value(x, y)).collect();
    let expected: Vec<u64> =
        cells().map(|(x, y)| 3 * (value(x, y) + value(x + 1, y) + value(x, y + 1))).collect();
    let from = FlashMemory::from(from).with_shape([width, height]).unwrap();
    for door in ["by_item", "by_span", "by_whole"] {
        let to = FlashMemory::<u64>::zeroed([width, height]);
        // Again, with the recording of before.
        for factor in [vec![1], vec![3]] {
            let submit = rt.submit(Sum::of(&factor, &from, &to)).options(Implementation::named(door));
            submit.exec([width, height]).unwrap();
        }
        assert_eq!(&to.read().unwrap()[..], &expected[..], "{door}");
    }
    // A slice has the shape that the submission gives it.
    let (mut to, flat) = (vec![0; width * height], from.read().unwrap().to_vec());
    let submit = rt.submit(Sum::of(&[3][..], &flat, &mut to)).sizes([&[][..], &[width, height], &[]]);
    submit.exec([width, height]).unwrap();
    assert_eq!(to, expected);
}

#[flash_tests::test]
fn a_window_without_elements_may_have_any_extents() {
    let rt = flash_tests::runtime().options(Subspaces(2));
    let from = FlashMemory::<u64>::zeroed([0u64, 1, 1 << 40, 1 << 40]);
    let to = FlashMemory::<u64>::zeroed([4u64, 4]);
    let pipeline = rt.submit(Sum::of(&[1][..], &from, &to)).defer([4, 4]);
    let recording = pipeline.recording(flash::recording::Data::With).unwrap();
    // The kernel wants some: it is what fails.
    for outcome in [pipeline.exec(), rt.replay(&recording).map(drop)] {
        assert!(matches!(outcome, Err(Error::Launch(_))), "{outcome:?}");
    }
}

#[flash_tests::test]
fn part_by_is_in_the_descriptor_and_options_replace_it() {
    let descriptor = flash_core::kernel::descriptor_of::<Sum<'_>>();
    let by = part_by("y").map("from", stencil([("x", 1), ("y", 1)]));
    assert_eq!(descriptor.attributes.get(), Some(&by));
    assert!(descriptor.arguments[0].structure && !descriptor.arguments[1].structure);
    let read = flash_core::descriptor::KernelDescriptor::from_json(&descriptor.to_json()).unwrap();
    assert_eq!(read, descriptor);

    let rt = flash_tests::runtime();
    let (from, to) = (FlashMemory::<u64>::zeroed([4, 4]), FlashMemory::<u64>::zeroed([4, 4]));
    let exec = |by| rt.submit(Sum::of(&[1][..], &from, &to)).options(by).exec([4, 4]);
    exec(part_by("x").map("from", rows("y"))).unwrap();
    for (by, expected) in [
        (part_by("z"), "option part_by: kernel `windows.sum`: no dimension `z`; it has x, y"),
        (part_by("x").map("to", rows("y")), "`to` is an `Item`, whose elements follow from its index"),
        (part_by("x").by("windows.none"), "no map `windows.none` in this program"),
    ] {
        let text = exec(by).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[flash_tests::test]
fn a_window_is_held_and_kept_apart_as_a_whole_is() {
    let rt = flash_tests::runtime();
    let both = FlashMemory::<u64>::zeroed([4, 4]);
    let text = rt.submit(Sum::of(&[1][..], &both, &both)).exec([4, 4]).unwrap_err().to_string();
    assert!(text.contains("argument `to`") && text.contains("overlaps argument `from`"), "{text}");
    let (from, to) = (FlashMemory::<u64>::zeroed([4, 4]), FlashMemory::<u64>::zeroed([4, 4]));
    let guard = from.write().unwrap();
    let launch = || rt.submit(Sum::of(&[1][..], &from, &to)).exec([4, 4]);
    assert!(matches!(launch().unwrap_err(), Error::Borrowed { .. }), "{:?}", launch());
    drop(guard);
    launch().unwrap();
}

/// A kernel that leaves its window.
#[derive(KernelDefinition)]
#[kernel(name = "windows.beyond", dims(x))]
struct Beyond<'a> {
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[kernel(devices)]
impl CpuItem<Beyond<'_>> for ByItem {
    fn item(ix: Index<1>, k: BeyondItem<'_>) {
        k.to.set(k.from.get(ix[0] + 1));
    }
}

#[flash_tests::test]
fn an_element_outside_is_an_error_of_the_launch() {
    let rt = flash_tests::runtime();
    let (from, to) = (FlashMemory::<u64>::zeroed(4), FlashMemory::<u64>::zeroed(4));
    rt.submit(Beyond::of(&from, &to)).exec([3]).unwrap();
    let text = rt.submit(Beyond::of(&from, &to)).exec([4]).unwrap_err().to_string();
    let on_devices = "up to, and without, 4, the length of what is there, found 4";
    assert!(text.contains("element 4 of an array of 4") || text.contains(on_devices), "{text}");
}
