//! Views of grids whose kernels are among the twenty.

use flash::MemoryView;
use flash::prelude::*;
use flash_tests_once::{compare, cpu, devices};
use flash_twenty::Heat;

fn field(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919) % 1013) as f32 / 1013.0).collect()
}

/// Some rows of flat memories: a view has an offset and a shape.
#[test]
fn heat_of_rows_in_the_middle() {
    let (w, h, first) = (33, 29, 7);
    let rows = |memory: &FlashMemory<f32>, run: &dyn Fn(MemoryView<'_, f32>)| {
        run(memory.view([w, h + 2 * first]).unwrap().rows(first..first + h).unwrap());
    };
    compare("grids::heat_of_rows_in_the_middle", |rt| {
        let (from, to) =
            (FlashMemory::from(field(w * (h + 2 * first))), FlashMemory::zeroed(w * (h + 2 * first)));
        rows(&from, &|from| {
            rows(&to, &|to| {
                let inside = [1..w as u64 - 1, 1..h as u64 - 1];
                rt.submit(Heat::of(0.1, from.clone(), to)).exec(inside).unwrap();
            });
        });
        let heated = to.read().unwrap().to_vec();
        // What a copy of the rows gives.
        let own = FlashMemory::from(&field(w * (h + 2 * first))[w * first..w * (first + h)]);
        let (own, copied) = (own.with_shape([w, h]).unwrap(), FlashMemory::zeroed([w, h]));
        rt.submit(Heat::of(0.1, &own, &copied)).exec([1..w as u64 - 1, 1..h as u64 - 1]).unwrap();
        assert_eq!(heated[w * first..w * (first + h)], copied.read().unwrap()[..]);
        assert!(heated[..w * first].iter().chain(&heated[w * (first + h)..]).all(|x| *x == 0.0));
        heated
    });
}

/// What a launch proves is not checked in its text; what it does not prove is.
#[test]
fn a_launch_that_leaves_its_window_fails_and_one_inside_does_not() {
    let (w, h) = (33_usize, 29_usize);
    let run = |rt: &RuntimeObj, x: std::ops::Range<u64>, y: std::ops::Range<u64>| {
        let from = FlashMemory::from(field(w * h)).with_shape([w, h]).unwrap();
        let to = FlashMemory::<f32>::zeroed([w, h]);
        rt.submit(Heat::of(0.1, &from, &to)).exec([x, y])?;
        to.to_vec()
    };
    let (x, y) = (1..w as u64 - 1, 1..h as u64 - 1);
    let expected = run(&cpu(), x.clone(), y.clone()).unwrap();
    for (device, rt) in devices("grids::a_launch_that_leaves_its_window_fails_and_one_inside_does_not") {
        for (x, y) in
            [(0..3, y.clone()), (x.clone(), 0..2), (x.clone(), 5..h as u64), (x.start..w as u64, y.clone())]
        {
            let text = run(&rt, x, y).expect_err("an element outside").to_string();
            assert!(text.contains("argument `from`"), "{device}: {text}");
        }
        assert_eq!(run(&rt, x.clone(), y.clone()).unwrap(), expected, "{device}");
    }
}
