//! `for_each`: a closure over the elements of arrays.

use flash::Error;
use flash::prelude::*;
use flash_tests::{APART, in_process, runtime_of_this_process as runtime};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[flash_tests::test]
fn the_first_example() {
    let (x, y) = (FlashMemory::from(vec![1.0_f32; 1000]), FlashMemory::<f32>::zeroed(1000));
    let a = 2.0;
    runtime().for_each([1000], (x.r(), y.rw()), |(x, y)| *y += a * x).unwrap();
    assert!(y.read().unwrap().iter().all(|y| *y == 2.0));
}

#[flash_tests::test]
fn one_array_needs_no_tuple() {
    let x = FlashMemory::from(vec![3_u64, 4, 5]);
    let rt = runtime();
    rt.for_each(3, x.rw(), |x| *x *= *x).unwrap();
    assert_eq!(*x.read().unwrap(), [9, 16, 25]);
    rt.for_each(3, (x.w(),), |(x,)| x.set(1)).unwrap();
    assert_eq!(*x.read().unwrap(), [1, 1, 1]);
}

#[flash_tests::test]
fn each_item_is_called_once() {
    // Counted in the program itself: not a device with a memory of its own.
    let (n, x) = (100_000_u64, FlashMemory::<u8>::zeroed(100_000));
    let calls = AtomicU64::new(0);
    let counted = |x: &mut u8| {
        calls.fetch_add(1, Relaxed);
        *x += 1;
    };
    runtime().for_each(n, x.rw(), counted).unwrap();
    assert_eq!(calls.into_inner(), n);
    assert!(x.read().unwrap().iter().all(|x| *x == 1));
}

#[flash_tests::test]
fn shapes_are_flat_and_ranges_are_parts() {
    let rt = runtime();
    let grid = FlashMemory::<u32>::zeroed([4, 3]);
    let all = FlashMemory::from((0..20).collect::<Vec<u32>>());
    rt.for_each([4, 3], (all.range(8..).unwrap().r(), grid.w()), |(from, to)| to.set(*from)).unwrap();
    assert_eq!(*grid.read().unwrap(), (8..20).collect::<Vec<u32>>()[..]);
    // Fewer items than elements: the others stay.
    rt.for_each(2, grid.rw(), |x| *x = 0).unwrap();
    assert_eq!(grid.read().unwrap()[..4], [0, 0, 10, 11]);
}

#[flash_tests::test]
fn no_item_is_no_call() {
    let x = FlashMemory::<u8>::zeroed(0);
    runtime().for_each(0, x.rw(), |_| panic!("there is nothing")).unwrap();
}

#[flash_tests::test]
fn arrays_come_in_any_order() {
    let (a, b, c) =
        (FlashMemory::<u8>::zeroed(10), FlashMemory::from([3_u8; 10]), FlashMemory::from([4_u8; 10]));
    runtime()
        .for_each(10, (a.w(), b.rw(), c.r()), |(a, b, c)| {
            *b += c;
            a.set(*b);
        })
        .unwrap();
    assert_eq!((a.to_vec().unwrap(), b.to_vec().unwrap()), (vec![7; 10], vec![7; 10]));
}

#[flash_tests::test]
fn what_does_not_fit_is_an_error() {
    let (rt, x) = (runtime(), FlashMemory::<u8>::zeroed(10));
    let error = rt.for_each(11, x.rw(), |x| *x = 1).unwrap_err();
    assert!(error.to_string().contains("pass a longer array"), "{error}");
    // One array, twice: as an argument that is written, it overlaps.
    let error = rt.for_each(10, (x.r(), x.w()), |(a, b)| b.set(*a)).unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
    let error = rt.for_each([u64::MAX, 2], x.rw(), |x| *x = 1).unwrap_err();
    assert!(matches!(error, Error::Shape(_)), "{error}");
    assert!(x.read().unwrap().iter().all(|x| *x == 0));
}

#[flash_tests::test]
fn a_panic_is_an_error_and_poisons() {
    let (rt, x) = (runtime(), FlashMemory::from(vec![1_u32, 2, 3]));
    let y = FlashMemory::<u32>::zeroed(3);
    let body = |(x, y): (&u32, flash::kernel::views::Out<'_, u32>)| {
        assert!(*x != 2, "it is two");
        y.set(*x);
    };
    let error = rt.for_each(3, (x.r(), y.w()), body).unwrap_err();
    assert!(error.to_string().contains("it is two"), "{error}");
    assert!(matches!(y.read(), Err(Error::Poisoned)));
    y.fill(7).unwrap();
    assert_eq!(*y.read().unwrap(), [7, 7, 7]);
}

#[flash_tests::test]
fn the_closure_outlives_a_launch_that_is_late() {
    // The launch is over before the error is returned: what the closure refers to is still there.
    let (rt, x) = (runtime(), FlashMemory::<u64>::zeroed(2000));
    let slow = vec![1_u64; 2000];
    let rt = rt.options(Timeout(Duration::from_millis(1)));
    let outcome = rt.for_each(2000, x.rw(), |x| {
        std::thread::sleep(Duration::from_micros(50));
        *x = slow[0];
    });
    drop(slow);
    match outcome {
        Ok(()) => assert!(x.read().unwrap().iter().all(|x| *x == 1)),
        Err(error) => assert!(error.to_string().contains("it may take 1ms"), "{error}"),
    }
}

#[flash_tests::test]
fn threads_run_closures_at_once() {
    let rt = runtime();
    std::thread::scope(|scope| {
        for thread in 1..=4_u64 {
            let rt = &rt;
            scope.spawn(move || {
                let x = FlashMemory::<u64>::zeroed(5000);
                for turn in 1..=20 {
                    rt.for_each(5000, x.rw(), |x| *x += thread).unwrap();
                    assert!(x.read().unwrap().iter().all(|x| *x == turn * thread));
                }
            });
        }
    });
}

#[flash_tests::test]
fn a_closure_cannot_launch() {
    let (rt, x) = (runtime(), FlashMemory::<u8>::zeroed(4));
    let inner = FlashMemory::<u8>::zeroed(4);
    let error = rt.for_each(4, x.rw(), |_| rt.for_each(4, inner.rw(), |x| *x = 1).unwrap()).unwrap_err();
    assert!(error.to_string().contains("kernel"), "{error}");
}

#[test]
fn no_name_finds_closures() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let x = FlashMemory::<u8>::zeroed(4);
    rt.for_each(4, x.rw(), |x| *x = 1).unwrap();
    assert!(matches!(rt.bind("flash.for_each").err(), Some(Error::NoKernel { .. })));
}

#[test]
fn closures_on_devices_with_memories_of_their_own() {
    in_process(APART[2], || {
        let rt = runtime();
        let (x, y) = (FlashMemory::from((0..9999_u32).collect::<Vec<_>>()), FlashMemory::<u32>::zeroed(9999));
        let by = 3;
        for _ in 0..3 {
            rt.for_each(9999, (x.r(), y.rw()), |(x, y)| *y += by * x).unwrap();
        }
        let expected: Vec<u32> = (0..9999).map(|i| 9 * i).collect();
        assert_eq!(*y.read().unwrap(), expected[..]);
    });
}

#[flash_tests::test]
fn as_a_loop() {
    runtime();
    as_a_loop_of_any_length();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Eight arrays of different types, of any lengths, against a loop.
    fn as_a_loop_of_any_length(n in 0..3000_usize, more in 0..5_usize, by in any::<u32>()) {
        let rt = runtime();
        let bytes: Vec<u8> = (0..n + more).map(|i| (i * 7) as u8).collect();
        let words: Vec<u64> = (0..n + more).map(|i| (i * i) as u64).collect();
        let pairs: Vec<[i16; 2]> = (0..n + more).map(|i| [i as i16, -(i as i16)]).collect();
        let (a, b, c) = (FlashMemory::from(&bytes[..]), FlashMemory::from(&words[..]), FlashMemory::from(&pairs[..]));
        let (d, e) = (FlashMemory::from(&words[..]), FlashMemory::from(&pairs[..]));
        let (f, g, h) = (FlashMemory::<u32>::zeroed(n), FlashMemory::<u16>::zeroed(n), FlashMemory::<i64>::zeroed(n));
        let arrays = (a.r(), b.r(), c.r(), d.rw(), e.rw(), f.w(), g.w(), h.w());
        rt.for_each(n, arrays, |(a, b, c, d, e, f, g, h)| {
            *d = d.wrapping_mul(u64::from(by)) ^ b;
            e[0] = e[0].wrapping_add(c[1]);
            f.set(u32::from(*a).wrapping_mul(by));
            g.set(u16::from(*a) + 1);
            h.set(i64::from(c[0]) - i64::from(*a));
        })
        .unwrap();
        let (d, e, f) = (d.to_vec().unwrap(), e.to_vec().unwrap(), f.to_vec().unwrap());
        let (g, h) = (g.into_vec().unwrap(), h.into_vec().unwrap());
        for i in 0..n + more {
            let is_in = i < n;
            let expected = if is_in { words[i].wrapping_mul(u64::from(by)) ^ words[i] } else { words[i] };
            prop_assert_eq!(d[i], expected);
            let first = if is_in { pairs[i][0].wrapping_add(pairs[i][1]) } else { pairs[i][0] };
            prop_assert_eq!(e[i], [first, pairs[i][1]]);
            if is_in {
                prop_assert_eq!(f[i], u32::from(bytes[i]).wrapping_mul(by));
                prop_assert_eq!(g[i], u16::from(bytes[i]) + 1);
                prop_assert_eq!(h[i], i64::from(pairs[i][0]) - i64::from(bytes[i]));
            }
        }
    }
}
