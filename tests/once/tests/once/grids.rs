//! Views of grids whose kernels are among the twenty.

use flash::MemoryView;
use flash::kernel::prelude::*;
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

/// Work items have an element of each, of arrays of several shapes.
#[derive(KernelDefinition)]
#[kernel(name = "once.several", dims(x, y, z))]
struct Several<'a> {
    a: Item<'a, Read<u32>>,
    b: Item<'a, Read<u32>>,
    #[along(x, y)]
    plane: Item<'a, Read<u32>>,
    #[along(x, y)]
    other: Item<'a, Read<u32>>,
    #[along(x)]
    line: Item<'a, Read<u32>>,
    too: Phased<'a, u32>,
    to: Item<'a, Write<u32>>,
}

struct Once;

#[kernel(devices)]
impl CpuItem<Several<'_>> for Once {
    fn item(_: Index<3>, mut k: SeveralItem<'_>) {
        let sum = *k.a * 3 + *k.b * 5 + *k.plane * 7 + *k.other * 11 + *k.line * 13;
        k.to.set(sum);
        k.too.set(sum ^ 1);
    }
}

/// Mostly arrays of a launch have one shape. Each has its own strides all the same.
#[test]
fn arrays_of_one_launch_have_strides_of_their_own() {
    compare("grids::arrays_of_one_launch_have_strides_of_their_own", |rt| {
        let mut all = Vec::new();
        let usual = [[5, 4, 3]; 4];
        let larger = |which: usize| {
            let mut shapes = usual;
            shapes[which] = [9, 6, 4];
            shapes
        };
        for shapes in [usual, larger(0), larger(1), larger(2), larger(3), usual] {
            let of = |shape: [u64; 3], first: u32| {
                let count = shape.iter().product::<u64>() as u32;
                (first..first + count).collect::<FlashMemory<u32>>().with_shape(shape).unwrap()
            };
            for planes in [[[5, 4], [5, 4]], [[7, 4], [5, 4]], [[5, 4], [8, 5]]] {
                let plane = |shape: [u64; 2], first: u32| {
                    let count = (shape[0] * shape[1]) as u32;
                    (first..first + count).collect::<FlashMemory<u32>>().with_shape(shape).unwrap()
                };
                let [a, b, to, too] = std::array::from_fn(|i| of(shapes[i], 1000 * i as u32));
                let [plane, other] = [plane(planes[0], 77), plane(planes[1], 99)];
                let line: FlashMemory<u32> = (0..5).collect();
                rt.submit(Several::of(&a, &b, &plane, &other, &line, &too, &to)).exec([5, 4, 3]).unwrap();
                all.extend(to.to_vec().unwrap());
                all.extend(too.to_vec().unwrap());
            }
        }
        all
    });
}
