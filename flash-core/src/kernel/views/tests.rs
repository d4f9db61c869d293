//! The views' constructors over arguments made by hand.

use super::*;
use std::ffi::c_void;

fn arg<T>(kind: u32, data: &mut [T], row_len: u64, strides: &[u64]) -> abi::Arg {
    abi::Arg {
        kind,
        access: abi::ACCESS_READ_WRITE,
        space: abi::SPACE_HOST,
        element_size: size_of::<T>() as u32,
        data: data.as_mut_ptr().cast(),
        next: std::ptr::null_mut(),
        buffer: 0,
        len: data.len() as u64,
        row_len,
        flags: 0,
        strides: strides.as_ptr(),
        part: std::ptr::null(),
    }
}

#[test]
fn items_along_dimension_0() {
    let mut data: Vec<u32> = (0..12).collect();
    let strides = [1, 4];
    let arg = arg(abi::ARG_ITEM, &mut data, 1, &strides);
    // SAFETY: an array of 4 by 3 elements with a stride per dimension; one view at a time is used.
    unsafe {
        let read = ItemBound::<Read<u32>>::new(&arg).run::<UNIT>(&[1, 2], &[0, 1]);
        assert_eq!((*read.item::<UNIT>(0), *read.item::<UNIT>(2)), (9, 11));
        assert_eq!(read.slice(3), [9, 10, 11]);
        let both = ItemBound::<ReadWrite<u32>>::new(&arg);
        let run = both.run::<UNIT>(&[0, 1], &[0, 1]);
        // Both neighbours at once, as in a vectorised loop.
        let (first, second) = (run.item::<UNIT>(0), run.item::<UNIT>(1));
        std::mem::swap(first, second);
        run.slice(4)[3] = 70;
        both.run::<UNIT>(&[3, 2], &[0, 1]).slice(1)[0] += 1;
        let write = ItemBound::<Write<u32>>::new(&arg).run::<UNIT>(&[0, 0], &[0, 1]);
        (0..4).for_each(|i| write.item::<UNIT>(i).set(90 + i as u32));
        write.slice(2).fill(1);
        both.whole(None)[2] = 2;
        assert_eq!(ItemBound::<Read<u32>>::new(&arg).whole(None).len(), 12);
    }
    assert_eq!(data, [1, 1, 2, 93, 5, 4, 6, 70, 8, 9, 10, 12]);
}

#[test]
fn items_at_a_distance_and_items_that_stay() {
    let mut data: Vec<u32> = (0..12).collect();
    let strides = [4, 1];
    let arg = arg(abi::ARG_ITEM, &mut data, 1, &strides);
    // SAFETY: dimension 0 is axis 1, of 3; dimension 1 is axis 0, of 4.
    unsafe {
        let run = ItemBound::<Read<u32>>::new(&arg).run::<STRIDED>(&[0, 1], &[1, 0]);
        assert_eq!([0, 1, 2].map(|i| *run.item::<STRIDED>(i)), [1, 5, 9]);
        let strided = run.strided(3);
        assert_eq!((strided.len(), strided.get(0), strided.get(2)), (3, 1, 9));
        std::panic::catch_unwind(|| strided.get(3)).unwrap_err();
        let run = ItemBound::<ReadWrite<u32>>::new(&arg).run::<STRIDED>(&[1, 3], &[1, 0]);
        let mut strided = run.strided(2);
        strided.set(1, strided.get(0) + 100);
        *run.item::<STRIDED>(0) = 70;
        // Dimension 0 does not index it: all items of the run have the same element.
        let strides = [0, 1];
        let fixed = abi::Arg { strides: strides.as_ptr(), ..arg };
        let run = ItemBound::<Read<u32>>::new(&fixed).run::<FIXED>(&[9, 2], &[1]);
        assert_eq!([0, 5].map(|i| *run.item::<FIXED>(i)), [2, 2]);
    }
    assert_eq!((data[7], data[11]), (70, 107));
}

#[test]
fn rows() {
    let mut data: Vec<u16> = (0..12).collect();
    let strides = [3, 6];
    let arg = arg(abi::ARG_ITEM, &mut data, 3, &strides);
    // SAFETY: rows of 3 in an array of 2 by 2, a stride per dimension.
    unsafe {
        let run = ItemBound::<Read<Row<u16>>>::new(&arg).run::<UNIT>(&[0, 1], &[0, 1]);
        assert_eq!((run.item::<UNIT>(0), run.item::<UNIT>(1)), (&[6, 7, 8][..], &[9, 10, 11][..]));
        assert_eq!((run.slice(2).row(1), run.slice(2).len()), (&[9, 10, 11][..], 2));
        let run = ItemBound::<ReadWrite<Row<u16>>>::new(&arg).run::<UNIT>(&[0, 0], &[0, 1]);
        let (first, second) = (run.item::<UNIT>(0), run.item::<UNIT>(1));
        first.copy_from_slice(second);
        let mut rows = run.slice(2);
        rows.row(1)[0] = rows.row(0)[1] + 50;
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rows.row(2)[0])).unwrap_err();
        // Dimension 0 is the far axis.
        let strides = [6, 3];
        let turned = abi::Arg { strides: strides.as_ptr(), ..arg };
        let run = ItemBound::<Write<Row<u16>>>::new(&turned).run::<STRIDED>(&[0, 1], &[1, 0]);
        run.strided(2).row(1).fill(1);
        run.item::<STRIDED>(0)[2] = 77;
        assert_eq!(ItemBound::<Read<Row<u16>>>::new(&turned).whole(None).len(), 12);
    }
    assert_eq!(data, [3, 4, 5, 54, 4, 77, 6, 7, 8, 1, 1, 1]);
}

#[test]
fn phased_with_two_buffers() {
    let (mut was, mut next) = (vec![1u64, 2, 3, 4], vec![0u64; 4]);
    let strides = [1, 0];
    let mut arg = arg(abi::ARG_PHASED, &mut was, 1, &strides);
    arg.next = next.as_mut_ptr().cast::<c_void>();
    // SAFETY: two buffers of 4, a stride per dimension.
    unsafe {
        let bound = PhasedBound::<u64>::new(&arg);
        let run = bound.run(&[1, 5], &[0], None);
        let (mut one, mut two) = (run.item::<UNIT>(0), run.item::<STRIDED>(1));
        assert_eq!((one.own(), two.own(), one.len(), one.is_empty()), (2, 3, 4, false));
        one.set(one.get(3) + two.get(0));
        two.set(one.was().iter().sum());
        assert_eq!((one.own(), two.own(), two.was()), (5, 10, &[1, 2, 3, 4][..]));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one.get(4))).unwrap_err();
        let mut span = run.span(3);
        assert_eq!(span.own(), [2, 3, 4], "they start as they are now");
        let (was, own) = span.split();
        own.copy_from_slice(&was[..3]);
        let mut whole = bound.whole(false, None);
        assert_eq!(whole.own(), [1, 2, 3, 4]);
        whole.own()[0] = whole.was()[3];
    }
    assert_eq!((was, next), (vec![1, 2, 3, 4], vec![4, 2, 3, 4]));
}

#[test]
fn phased_in_stages_with_one_buffer() {
    let mut data = vec![1u64, 2, 3];
    let strides = [1, 0];
    let mut arg = arg(abi::ARG_PHASED, &mut data, 1, &strides);
    arg.next = arg.data;
    let stages = Some((1, &[Use::Read, Use::Write][..]));
    let fails = |body: &mut dyn FnMut()| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("in a stage that its definition declares"));
    };
    // SAFETY: one buffer of 3, a stride per dimension, read in one stage and written in the other.
    unsafe {
        let bound = PhasedBound::<u64>::new(&arg);
        let reads = bound.run(&[0, 0], &[0], stages);
        let (one, mut two) = (reads.item::<UNIT>(0), reads.item::<UNIT>(1));
        assert_eq!((one.was(), two.get(2), two.own()), (&[1, 2, 3][..], 3, 2));
        fails(&mut || two.set(0));
        let mut span = reads.span(3);
        assert_eq!(span.was().len(), 3);
        fails(&mut || span.own().fill(0));
        fails(&mut || drop(span.split().0.to_vec()));
        let writes = bound.run(&[0, 1], &[0], stages);
        let (mut one, mut two) = (writes.item::<UNIT>(0), writes.item::<UNIT>(1));
        one.set(10);
        two.set(one.own() + 10);
        fails(&mut || _ = one.get(0));
        fails(&mut || drop(two.was().to_vec()));
        let mut span = writes.span(3);
        span.own()[2] = 30;
        fails(&mut || drop(span.was().to_vec()));
        fails(&mut || drop(bound.whole(true, None).was().to_vec()));
        bound.whole(true, None).own()[0] += 1;
    }
    assert_eq!(data, [11, 20, 30]);
}

#[test]
fn scatter_from_two_threads() {
    let (mut counts, mut real) = (vec![0u32, 7], vec![0.0f64, f64::NAN]);
    let (counts_arg, real_arg) =
        (arg(abi::ARG_SCATTER, &mut counts, 1, &[]), arg(abi::ARG_SCATTER, &mut real, 1, &[]));
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (counts, real) = (&counts_arg, &real_arg);
            scope.spawn(move || {
                // SAFETY: arrays of these elements, which all threads touch atomically.
                let (counts, real) =
                    unsafe { (ScatterView::<u32>::new(counts), ScatterView::<f64>::new(real)) };
                for _ in 0..5 {
                    counts.add(0, 1);
                    real.update(0, |v| v + 0.5);
                }
                assert!(counts.load(0) >= 5 && counts.len() == 2 && !real.is_empty());
                counts.max(1, 8 + thread);
                real.min(1, 1.0);
                std::panic::catch_unwind(|| counts.add(2, 1)).unwrap_err();
            });
        }
    });
    // SAFETY: as above; no other thread uses them now.
    unsafe {
        let (counts, real) = (ScatterView::<u32>::new(&counts_arg), ScatterView::<f64>::new(&real_arg));
        assert_eq!((counts.swap(0, 3), counts.min(0, 2), counts.load(0)), (10, 3, 2));
        counts.store(0, 40);
        assert_eq!(real.add(0, -5.0), 5.0);
    }
    assert_eq!((&counts[..], real[0], real[1].is_nan()), (&[40, 9][..], 0.0, true));
}

/// Elements of all alignments, each stored by one of two threads, and one by both.
fn stores<T: crate::kernel::Element + PartialEq + std::fmt::Debug>(values: [T; 3]) {
    let [none, first, second] = values;
    let mut cells = [none; 5];
    let arg = arg(abi::ARG_SCATTER, &mut cells, 1, &[]);
    std::thread::scope(|scope| {
        for (thread, value) in [first, second].into_iter().enumerate() {
            let arg = &arg;
            scope.spawn(move || {
                // SAFETY: an array of these elements, which all threads touch atomically.
                let cells = unsafe { ScatterView::<T>::new(arg) };
                assert_eq!(cells.load(thread), none);
                cells.store(thread, value);
                cells.store(4, first);
                assert_eq!([cells.load(thread), cells.load(4)], [value, first]);
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cells.store(5, value))).unwrap_err();
            });
        }
    });
    assert_eq!(cells, [first, second, none, none, first]);
}

#[test]
fn scatter_of_any_elements() {
    stores([0_u8, 1, 255]);
    stores([[0_u8; 3], [1, 2, 3], [4, 5, 6]]);
    stores([[0_i16; 5], [1, 2, 3, 4, 5], [-1; 5]]);
    stores([[0.0_f32; 3], [1.0, 2.0, 3.0], [-0.5; 3]]);
    stores([[0.0_f64; 2], [1.0, 2.0], [-0.5; 2]]);
    stores([0_u128, 1 << 100, u128::MAX]);
}

#[test]
fn scalars_at_any_address_and_empty_arrays() {
    let mut bytes = [0u8; 17];
    bytes[1..9].copy_from_slice(&7.5f64.to_ne_bytes());
    let scalar_arg = abi::Arg { element_size: 8, ..arg(abi::ARG_SCALAR, &mut bytes[1..9], 1, &[]) };
    // SAFETY: the bytes of a number.
    assert_eq!(unsafe { scalar::<f64>(&scalar_arg) }, 7.5);
    let mut none: [u64; 0] = [];
    let arg = arg(abi::ARG_ITEM, &mut none, 1, &[1]);
    // SAFETY: an array of no elements; the run has no items.
    unsafe {
        assert!(whole::<u64>((arg.data.cast(), 0)).is_empty());
        assert!(ItemBound::<ReadWrite<u64>>::new(&arg).whole(None).is_empty());
        assert!(ItemBound::<Write<u64>>::new(&arg).run::<UNIT>(&[0], &[0]).slice(0).is_empty());
        assert_eq!(ScatterView::<u64>::new(&arg).len(), 0);
    }
}

/// A view of what a host program holds.
fn of<'a, V: View<'a> + Takes<A, Taken, Taken>, A>(source: A) -> V {
    V::take(source)
}

#[test]
fn arrays_of_what_a_host_program_holds() {
    let memory = FlashMemory::from([1u32, 2, 3]);
    let part = of::<Item<ReadWrite<u32>>, _>(memory.range(1..).unwrap()).array().take();
    // SAFETY: the memory has no other user.
    unsafe { *part.data.cast::<u32>() = 20 };
    assert_eq!((part.len, part.owner.is_none(), part.memory == memory.header()), (2, true, true));
    let owned = of::<Whole<Read<u32>>, _>(memory.clone()).array().take();
    drop(memory);
    // SAFETY: the array owns the memory.
    assert_eq!(unsafe { whole::<u32>((owned.data.cast(), owned.len)) }, [1, 20, 3]);
    let mut vec = vec![1u32, 2];
    let slice = of::<Scatter<u32>, _>(&mut vec).array().take();
    // SAFETY: the slice is borrowed exclusively.
    unsafe { *slice.data.cast::<u32>().add(1) = 5 };
    assert_eq!(vec, [1, 5]);
}

/// An array of 4 x 3 elements of which only the box `[1..3, 1..3]` is present. The buffer has the six
/// elements from the box's first to its last, and `data` is the address of element 0.
fn part_of_4_by_3(kind: u32, buffer: &mut [u32], strides: &[u64], part: &abi::Part) -> abi::Arg {
    assert_eq!(buffer.len(), 6);
    // The address is taken last: making the argument borrows the buffer anew.
    let arg = arg(kind, buffer, 1, strides);
    let data = buffer.as_mut_ptr().wrapping_sub(5).cast();
    abi::Arg { data, next: data, len: 12, part, ..arg }
}

const BOX: abi::Part =
    abi::Part { begin: [1, 1, 0], end: [3, 3, 1], stride: [4, 12], origin: 5, next_origin: 5 };

fn panics(expected: &str, body: impl FnOnce()) {
    let text = flash_backend::caught(body).unwrap_err();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn items_of_a_part_are_found_from_an_address_outside_the_buffer() {
    let mut buffer = [5u32, 6, 7, 8, 9, 10];
    let arg = part_of_4_by_3(abi::ARG_ITEM, &mut buffer, &[1, 4], &BOX);
    // SAFETY: items (1, 1) to (2, 2) of 4 by 3 elements are in the buffer.
    unsafe {
        let bound = ItemBound::<ReadWrite<u32>>::new(&arg);
        assert_eq!(bound.run::<UNIT>(&[1, 2], &[0, 1]).slice(2), [9, 10]);
        *bound.run::<UNIT>(&[2, 1], &[0, 1]).item::<UNIT>(0) = 60;
        panics("`whole` implementation needs all 12 elements", || {
            let _ = bound.whole(None).len();
        });
    }
    assert_eq!(buffer[1], 60);
}

#[test]
fn a_part_that_is_seen_at_once_is_what_its_values_name() {
    // Elements 4 to 9 of 4 by 3: row 1, and half of row 2.
    let mut buffer = [4u32, 5, 6, 7, 8, 9];
    let rows = abi::Part { begin: [0, 1, 0], end: [4, 3, 1], stride: [4, 12], origin: 0, next_origin: 0 };
    let arg = part_of_4_by_3(abi::ARG_ITEM, &mut buffer, &[1, 4], &rows);
    let arg = abi::Arg { data: buffer.as_mut_ptr().wrapping_sub(4).cast(), ..arg };
    // SAFETY: the elements that the values name are in the buffer; one view at a time is used.
    unsafe {
        let bound = ItemBound::<ReadWrite<u32>>::new(&arg);
        assert_eq!(bound.whole(Some(&[0..4, 1..2])), [4, 5, 6, 7]);
        assert_eq!(bound.whole(Some(&[1..2, 1..3])), [5, 6, 7, 8, 9]);
        bound.whole(Some(&[0..2, 2..3]))[1] = 90;
        assert_eq!(bound.whole(Some(&[1..1, 0..3])).len(), 0);
    }
    assert_eq!(buffer, [4, 5, 6, 7, 8, 90]);
    // Rows of 2, found by the second of two dimensions; all of the array is there.
    let mut data: Vec<u16> = (0..12).collect();
    let arg = super::tests::arg(abi::ARG_ITEM, &mut data, 2, &[0, 2]);
    // SAFETY: six rows, a stride per dimension.
    let seen = unsafe { ItemBound::<Read<Row<u16>>>::new(&arg).whole(Some(&[5..9, 2..4])) };
    assert_eq!(seen, [4, 5, 6, 7]);
    // For a part of a `Phased`, only the own elements are copied.
    let (mut was, mut next) = ([1u64, 2, 3, 4], [0u64; 4]);
    let mut arg = super::tests::arg(abi::ARG_PHASED, &mut was, 1, &[1, 0]);
    arg.next = next.as_mut_ptr().cast::<c_void>();
    // SAFETY: two buffers of 4.
    unsafe {
        let mut all = PhasedBound::<u64>::new(&arg).whole(false, Some(&[1..3, 5..6]));
        assert_eq!(all.split(), (&[1, 2, 3, 4][..], &mut [2, 3][..]));
        assert_eq!(next, [1, 2, 3, 4], "nothing else does it");
        next = [0; 4];
        arg.flags = abi::ARG_FLAG_COVERED | abi::ARG_FLAG_NEXT_STAYS;
        arg.next = next.as_mut_ptr().cast::<c_void>();
        let mut part = PhasedBound::<u64>::new(&arg).whole(false, Some(&[1..3, 5..6]));
        part.own()[0] = 20;
        assert_eq!(part.was().len(), 4);
    }
    assert_eq!(next, [0, 20, 3, 0]);
}

#[test]
fn views_that_reach_any_element_keep_to_their_part() {
    let mut buffer = [5u32, 6, 7, 8, 9, 10];
    let arg = part_of_4_by_3(abi::ARG_PHASED, &mut buffer, &[1, 4], &BOX);
    // SAFETY: one thread; the buffer has the part's elements, in one stage that reads and one that writes.
    unsafe {
        let bound = PhasedBound::<u32>::new(&arg);
        let stages = Some((0, &[Use::Write, Use::Read, Use::Write][..]));
        let one = bound.run(&[1, 1], &[0, 1], stages).item::<UNIT>(0);
        assert_eq!((one.own(), one.get(5), one.get(10), one.len()), (5, 5, 10, 12));
        panics("element 4, at [0, 1, 0] of the array, is not in the part [1..3, 1..3, 0..1]", || {
            _ = one.get(4)
        });
        panics("the partition map must cover every element", || _ = one.get(7));
        panics("`was` needs all 12 elements", || drop(one.was().to_vec()));
        bound.run(&[2, 2], &[0, 1], stages).item::<UNIT>(0).set(100);
        panics("needs all 12 elements", || _ = bound.whole(true, None).own());

        let scatter = ScatterView::<u32>::new(&arg);
        assert_eq!((scatter.add(6, 1), scatter.load(10)), (6, 100));
        panics("element 8, at [0, 2, 0]", || _ = scatter.add(8, 1));
        panics("element 12 of an array of 12", || _ = scatter.load(12));

        // A part that is all of the array counts as none.
        let mut whole = [1u32; 6];
        let all = abi::Part { begin: [0; 3], end: [3, 2, 1], stride: [3, 6], origin: 0, next_origin: 0 };
        let arg = abi::Arg { part: &all, ..super::tests::arg(abi::ARG_PHASED, &mut whole, 1, &[1, 3]) };
        let one =
            PhasedBound::<u32>::new(&arg).run(&[0, 0], &[0, 1], Some((0, &[Use::Read]))).item::<UNIT>(0);
        assert_eq!(one.was().len(), 6);
    }
    assert_eq!(buffer, [5, 7, 7, 8, 9, 100]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

    /// Compares with a check of each element: boxes of arrays of up to three axes, stored from their first
    /// element to their last.
    #[test]
    #[cfg_attr(miri, ignore = "a panic per element takes minutes")]
    fn a_window_shows_just_its_part(
        extents in [1usize..5, 1usize..5, 1usize..4],
        cut in proptest::collection::vec(0usize..5, 6),
        range in (0usize..60, 0usize..60),
    ) {
        let (mut begin, mut end) = ([0; 3], [0; 3]);
        for axis in 0..3 {
            begin[axis] = cut[axis] % extents[axis];
            end[axis] = begin[axis] + 1 + cut[3 + axis] % (extents[axis] - begin[axis]);
        }
        let [row, plane] = [extents[0], extents[0] * extents[1]];
        let number = |at: [usize; 3]| at[0] + at[1] * row + at[2] * plane;
        let inside = |at: [usize; 3]| (0..3).all(|a| begin[a] <= at[a] && at[a] < end[a]);
        let axes = |i: usize| [i % row, i / row % extents[1], i / plane];
        let len = plane * extents[2];
        let (first, last) = (number(begin), number(end.map(|e| e - 1)));
        let mut buffer: Vec<u32> = (first as u32..=last as u32).collect();
        let part = abi::Part {
            begin: begin.map(|b| b as u64), end: end.map(|e| e as u64), stride: [row as u64, plane as u64], origin: 0, next_origin: 0,
        };
        let arg = arg(abi::ARG_WINDOW, &mut buffer, 1, &[]);
        let data = buffer.as_mut_ptr().wrapping_sub(first).cast();
        let arg = abi::Arg { data, len: len as u64, part: &part, ..arg };
        // SAFETY: the buffer has all elements of the part, and is not written.
        let window = unsafe { WindowView::<u32>::new(&arg) };
        assert_eq!((window.len(), window.begin(), window.end()), (len, begin, end));
        let there = |body: &dyn Fn() -> u32| std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).ok();
        for i in 0..len + 2 {
            let expected = (i < len && inside(axes(i))).then_some(i as u32);
            assert_eq!(there(&|| window.get(i)), expected, "get({i})");
            assert_eq!(there(&|| window.at(axes(i))), expected, "at({:?})", axes(i));
        }
        let (from, to) = (range.0.min(range.1) % (len + 1), range.0.max(range.1) % (len + 2));
        let all = (from..to).all(|i| i < len && inside(axes(i)));
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| window.slice(from..to).to_vec()));
        let expected = all.then(|| (from as u32..to as u32).collect());
        assert_eq!(found.ok(), expected, "slice({from}..{to})");
        // No absent element lies between the present ones.
        let whole = (first..=last).all(|i| inside(axes(i)));
        let found = window.stretch(from..to).map(<[u32]>::to_vec);
        assert_eq!(found, expected.filter(|_| whole || from >= to), "stretch({from}..{to})");
    }
}
