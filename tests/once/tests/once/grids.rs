//! Views of grids whose kernels are among the twenty.

use flash::MemoryView;
use flash::prelude::*;
use flash_tests_once::compare;
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
