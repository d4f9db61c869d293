//! Arguments that do not fit each other. On the CPU such kernels fail. Code for devices cannot report it: it
//! does what it can, and touches nothing beyond its arrays.

use crate::{devices, devices_of_all_kinds};
use flash::RuntimeObj;
use flash::kernels::conv1d::Conv1d;
use flash::kernels::diffusion::{Count, Heat, OUTSIDE, Walk};
use flash::kernels::js::Js;
use flash::kernels::nbody::{Accelerate, Simulate};
use flash::kernels::smmm::Smmm;
use flash::kernels::spmv::Spmv;
use flash::kernels::vdp;
use flash::prelude::*;
use flash_core::descriptor::Attributes;
use flash_core::memory::MemoryView;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Elements after those of an argument.
const BEHIND: usize = 64;

/// An array followed by other elements, which must be neither read nor written.
struct Guarded<T>(FlashMemory<T>, usize, T);

impl<T: flash::kernel::Element + PartialEq> Guarded<T> {
    fn new(elements: Vec<T>, behind: T) -> Guarded<T> {
        let len = elements.len();
        let all: Vec<T> = elements.into_iter().chain([behind; BEHIND]).collect();
        Guarded(FlashMemory::from(all), len, behind)
    }

    fn range(&self) -> MemoryView<'_, T> {
        self.0.range(..self.1).unwrap()
    }

    /// The elements, if those after them are unchanged.
    fn elements(&self) -> Vec<T> {
        let all = self.0.read().unwrap();
        assert!(all[self.1..].iter().all(|x| *x == self.2), "something behind the array was written");
        all[..self.1].to_vec()
    }
}

/// The device, for whole and for cut launches, and with the OpenCL code for any device.
fn runtimes(device: &str) -> Vec<(String, RuntimeObj)> {
    let rt = get_runtime(device).unwrap();
    let any = (!device.starts_with("NVIDIA_GPU")).then(|| rt.options(Implementation::named("any")));
    let cut = (format!("{device}, cut"), rt.options(Subspaces(2)));
    [(format!("{device}, whole"), rt), cut]
        .into_iter()
        .chain(any.map(|any| (format!("{device}, any"), any)))
        .collect()
}

/// Attractions of those bodies that have a position and a mass, in single precision.
fn accelerations(pos: &[[f32; 3]], mass: &[f32], bodies: usize) -> Vec<[f32; 3]> {
    let of = |x: &[f32; 3]| {
        pos.iter().zip(mass).fold([0.0; 3], |a, (y, m)| {
            let d = [0, 1, 2].map(|k| y[k] - x[k]);
            let d2 = d.iter().map(|d| d * d).sum::<f32>() + 1.0;
            [0, 1, 2].map(|k| a[k] + m * d[k] / (d2 * d2.sqrt()))
        })
    };
    (0..bodies).map(|i| pos.get(i).map_or([0.0; 3], of)).collect()
}

fn assert_near(found: &[[f32; 3]], expected: &[[f32; 3]], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let apart = (0..3).map(|k| (found[k] - expected[k]).abs()).fold(0.0, f32::max);
        assert!(apart <= 1e-4, "{what}: body {i}: expected {expected:?}, found {found:?}");
    }
}

fn bodies(n: usize) -> (Vec<[f32; 3]>, Vec<f32>) {
    let x = |i: usize| [(i % 5) as f32, (i % 7) as f32 / 2.0, (i % 11) as f32 / 4.0];
    ((0..n).map(x).collect(), (0..n).map(|i| 1.0 + (i % 3) as f32).collect())
}

#[test]
fn bodies_without_a_position_or_a_mass_attract_none() {
    for device in devices_of_all_kinds("bounds::bodies_without_a_position_or_a_mass_attract_none") {
        for (which, rt) in runtimes(&device) {
            for [positions, masses, launched] in
                [[40, 90, 40], [90, 40, 90], [40, 40, 90], [0, 40, 7], [40, 0, 7]]
            {
                let what = format!("{which}: {positions} positions, {masses} masses, {launched} bodies");
                let (pos, mass) = (bodies(positions).0, bodies(masses).1);
                let expected = accelerations(&pos, &mass, launched);
                let (pos, mass) = (Guarded::new(pos, [f32::NAN; 3]), Guarded::new(mass, f32::NAN));
                let acc = Guarded::new(vec![[7.0; 3]; launched], [8.0; 3]);
                let kernel = Accelerate::of(1.0, 1.0, pos.range(), mass.range(), acc.range());
                rt.submit(kernel).exec([launched]).unwrap();
                assert_near(&acc.elements(), &expected, &what);
                if positions < launched {
                    continue;
                }
                let vel = FlashMemory::<[f32; 3]>::zeroed(launched);
                let kernel = Simulate::of(1.0, 1.0, 0.5, mass.range(), pos.range(), &vel, acc.range());
                rt.submit(kernel).exec((launched, 2, 1)).unwrap();
                assert_near(&acc.elements(), &expected, &what);
            }
        }
    }
}

#[test]
fn bodies_in_one_place_and_a_softening_next_to_nothing() {
    let accelerated = |key: &str, softening: f32, bodies: usize| {
        let (pos, mass) =
            (FlashMemory::from(vec![[1.0f32; 3]; bodies]), FlashMemory::from(vec![1.0f32; bodies]));
        let acc = FlashMemory::zeroed(bodies);
        let kernel = Accelerate::of(1.0, softening * softening, &pos, &mass, &acc);
        get_runtime(key).unwrap().submit(kernel).exec([bodies]).unwrap();
        acc.read().unwrap().to_vec()
    };
    assert_eq!(accelerated("ALL_CPU", 1e-14, 1), [[0.0; 3]]);
    assert_eq!(accelerated("ALL_CPU", 0.0, 2), [[0.0; 3]; 2]);
    for device in devices_of_all_kinds("bounds::bodies_in_one_place_and_a_softening_next_to_nothing") {
        assert_eq!(accelerated(&device, 1.5e-13, 1), [[0.0; 3]], "{device}");
        assert_eq!(accelerated(&device, 0.0, 2), [[0.0; 3]; 2], "{device}");
    }
}

#[test]
fn row_pointers_beyond_the_elements_and_rows_far_apart_add_nothing() {
    for device in
        devices_of_all_kinds("bounds::row_pointers_beyond_the_elements_and_rows_far_apart_add_nothing")
    {
        let b = Guarded::new(vec![1.0f32, 2.0, 3.0, 4.0], f32::NAN);
        for (start, leading, expected) in [
            // The first row has the existing elements, the second begins after them.
            ([0, 1_000_000, 2], 2, [13.0, 18.0, 0.0, 0.0]),
            ([0, u64::MAX, 2], 2, [13.0, 18.0, 0.0, 0.0]),
            // For elements in column 1 there is no row of `b`.
            ([0, 1, 2], u64::MAX, [1.0, 2.0, 0.0, 0.0]),
            ([0, 1, 2], u64::MAX - 1, [1.0, 2.0, 0.0, 0.0]),
            ([0, 1, 2], 1 << 40, [1.0, 2.0, 0.0, 0.0]),
            ([0, 1, 2], 3, [1.0, 2.0, 0.0, 0.0]),
        ] {
            let (column, value) = (Guarded::new(vec![0u32, 1], 0), Guarded::new(vec![1.0f32, 4.0], f32::NAN));
            let start = FlashMemory::from(start);
            for (which, rt) in runtimes(&device) {
                let c = FlashMemory::from([7.0f32; 4]).with_shape([2, 2]).unwrap();
                let kernel = Smmm::of(2, leading, &start, column.range(), value.range(), b.range(), &c);
                match rt.submit(kernel).exec([2]) {
                    Ok(()) => assert_eq!(*c.read().unwrap(), expected, "{which}: {start:?}, {leading} apart"),
                    // Where it is cut, a part's elements are checked before it runs.
                    Err(error) => assert!(
                        which.ends_with("cut")
                            && error.to_string().contains("`flash.smmm`, part_by: argument"),
                        "{which}: {error}"
                    ),
                }
            }
        }
    }
}

#[test]
fn row_pointers_and_columns_beyond_the_vector_add_nothing_to_a_product_with_it() {
    for device in devices_of_all_kinds(
        "bounds::row_pointers_and_columns_beyond_the_vector_add_nothing_to_a_product_with_it",
    ) {
        let x = Guarded::new(vec![1.0f32, 3.0], f32::NAN);
        for (start, column, expected) in [
            ([0, 1_000_000, 2], [0u32, 1], [13.0, 0.0]),
            ([0, u64::MAX, 2], [0, 1], [13.0, 0.0]),
            ([0, 1, 2], [0, 2], [1.0, 0.0]),
            ([0, 1, 2], [u32::MAX, 1], [0.0, 12.0]),
        ] {
            let column = Guarded::new(column.to_vec(), 0);
            let value = Guarded::new(vec![1.0f32, 4.0], f32::NAN);
            let start = FlashMemory::from(start);
            for (which, rt) in runtimes(&device) {
                let y = Guarded::new(vec![7.0f32; 2], 8.0);
                let kernel = Spmv::of(&start, column.range(), value.range(), x.range(), y.range());
                match rt.submit(kernel).exec([2]) {
                    Ok(()) => assert_eq!(y.elements(), expected, "{which}: {start:?}"),
                    // Where it is cut, a part's elements are checked before it runs.
                    Err(error) => assert!(
                        which.ends_with("cut")
                            && error.to_string().contains("`flash.spmv`, part_by: argument"),
                        "{which}: {error}"
                    ),
                }
            }
        }
    }
}

/// A number that no array of this process has had: unwritten device memory may still have the contents of an
/// earlier array.
fn new_number() -> f32 {
    static LAST: AtomicU32 = AtomicU32::new(1);
    LAST.fetch_add(1, Relaxed) as f32
}

/// Nothing was computed; where a device has a part of `from` the launch is refused.
fn assert_none(ran: Result<Vec<bool>, flash::Error>, what: &str) {
    match ran.map_err(|error| error.to_string()) {
        Ok(computed) => assert!(!computed.contains(&true), "{what}"),
        Err(error) => assert!(error.contains("expected `from` of the shape"), "{what}: {error}"),
    }
}

#[test]
fn points_of_other_extents_than_the_arrays_have_are_left_out() {
    for device in devices_of_all_kinds("bounds::points_of_other_extents_than_the_arrays_have_are_left_out") {
        let grid = |value: f32, shape: [usize; 3]| {
            FlashMemory::from(vec![value; shape.iter().product()]).with_shape(shape).unwrap()
        };
        let [shape, more] = [[6, 5, 8], [6, 5, 30]];
        for (which, rt) in runtimes(&device) {
            // The points that became those of `from`, which are all the same.
            let sweep = |extents: [u64; 2], shapes: [[usize; 3]; 3]| {
                let value = new_number();
                let (from, f, to) = (grid(value, shapes[0]), grid(0.0, shapes[1]), grid(0.0, shapes[2]));
                let kernel = Js::of(1.0, extents[0], extents[1], &from, &f, &to);
                rt.submit(kernel).exec((1..5, 1..4, 1..shapes[2][2] - 1))?;
                to.read().map(|to| to.iter().map(|&x| x == value).collect::<Vec<bool>>())
            };
            for extents in [[7, 5], [6, 0], [0, 5], [1, 1], [1 << 40, 5], [u64::MAX, u64::MAX], [3, 10]] {
                assert_none(sweep(extents, [shape; 3]), &format!("{which}: {extents:?}"));
            }
            for other in [[7, 5, 8], [6, 7, 8], [9, 9, 9]] {
                let extents = [other[0] as u64, other[1] as u64];
                for shapes in [[other, shape, shape], [other, other, shape], [other, shape, other]] {
                    let swept = sweep(extents, shapes).unwrap();
                    assert!(!swept.contains(&true), "{which}: {shapes:?}");
                }
            }
            // With fewer planes of `from` there are points in the middle of the first planes alone.
            for (i, swept) in sweep([6, 5], [shape, more, more]).unwrap().into_iter().enumerate() {
                let along = [i % 6, i / 6 % 5, i / 30];
                let inside = along.iter().zip([5, 4, 7]).all(|(i, end)| (1..end).contains(i));
                assert_eq!(swept, inside, "{which}: point {along:?}");
            }
        }
    }
}

#[test]
fn a_field_is_heated_as_far_as_both_arrays_go() {
    for device in devices_of_all_kinds("bounds::a_field_is_heated_as_far_as_both_arrays_go") {
        let field = |value: f32, shape: [usize; 2]| {
            FlashMemory::from(vec![value; shape[0] * shape[1]]).with_shape(shape).unwrap()
        };
        for (which, rt) in runtimes(&device) {
            // The cells that became those of `from`, which are all the same.
            let step = |[width, height]: [u64; 2], shapes: [[usize; 2]; 2], launched: (usize, usize)| {
                let value = new_number();
                let (from, to) = (field(value, shapes[0]), field(0.0, shapes[1]));
                rt.submit(Heat::of(0.0, width, height, &from, &to)).exec(launched)?;
                to.read().map(|to| to.iter().map(|&x| x == value).collect::<Vec<bool>>())
            };
            for width in [5, 7, 0, u64::MAX] {
                assert_none(step([width, 9], [[6, 9]; 2], (6, 9)), &format!("{which}: {width}"));
            }
            for size in [[7, 9], [5, 9], [6, 0]] {
                let heated = step(size, [[size[0] as usize, 9], [6, 9]], (5, 9)).unwrap();
                assert!(!heated.contains(&true), "{which}: {size:?}");
            }
            // More rows are declared than exist, and are launched.
            let heated = step([6, 1 << 40], [[6, 9], [6, 40]], (6, 40)).unwrap();
            assert!(heated.iter().enumerate().all(|(i, &heated)| heated == (i < 54)), "{which}");
        }
    }
}

/// A launch's part of an array ends with the shape that is declared for it, and the other parts' begin there.
#[test]
fn what_lies_behind_a_shape_is_not_read() {
    for device in devices_of_all_kinds("bounds::what_lies_behind_a_shape_is_not_read") {
        for (which, rt) in runtimes(&device) {
            let value = new_number();
            let [from, f, to] = [value, 0.0, 0.0].map(|all| FlashMemory::from([all; 900]));
            let kernel = Js::of(1.0, 6, 5, &from, &f, &to);
            let points = (1..5, 1..4, 1..29);
            rt.submit(kernel).sizes([[6, 5, 8], [6, 5, 30], [6, 5, 30]]).exec(points).unwrap();
            for (i, &x) in to.read().unwrap().iter().enumerate() {
                let inside =
                    [i % 6, i / 6 % 5, i / 30].iter().zip([5, 4, 7]).all(|(i, end)| (1..end).contains(i));
                assert_eq!(x == value, inside, "{which}: point {i}");
            }
            // A row and a cell more, for a field of seven cells.
            for (cells, sizes) in [(7, Some([[3, 2], [3, 40]])), (7, None)] {
                let from = Guarded::new(vec![value; cells], f32::NAN);
                let to = FlashMemory::<f32>::zeroed([3, 40]);
                let submission = rt.submit(Heat::of(0.0, 3, 40, from.range(), &to));
                let ran = match sizes {
                    Some(sizes) => submission.sizes(sizes).exec((3, 40)),
                    None => submission.exec((3, 40)),
                };
                match ran.map_err(|error| error.to_string()) {
                    Ok(()) => {
                        let to = to.read().unwrap();
                        assert!(!to.iter().any(|x| x.is_nan()), "{which}: {to:?}");
                        assert!(
                            to.iter().enumerate().all(|(i, &x)| (x == value) == (i < 6) || i == 6),
                            "{which}"
                        );
                    }
                    // Without a shape the elements that a part needs are unknown.
                    Err(error) => {
                        assert!(
                            sizes.is_none() && error.contains("expected `from` of the shape"),
                            "{which}: {error}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_filter_and_a_signal_may_have_any_shape() {
    for device in devices_of_all_kinds("bounds::a_filter_and_a_signal_may_have_any_shape") {
        let (k, n) = (16, 200);
        let signal: Vec<f32> = (0..n).map(|i| (i * 7 % 31) as f32).collect();
        let expected: Vec<f32> = signal.windows(k).map(|window| window.iter().sum()).collect();
        let len = expected.len();
        for (which, rt) in runtimes(&device) {
            for (of_filter, of_signal) in
                [(&[2usize, 8][..], &[n][..]), (&[16], &[20, 10]), (&[4, 4], &[2, 50, 2])]
            {
                let filter = FlashMemory::from(vec![1.0f32; k]).with_shape(of_filter).unwrap();
                let signal = FlashMemory::from(&signal[..]).with_shape(of_signal).unwrap();
                let out = FlashMemory::zeroed(len);
                rt.submit(Conv1d::of(&filter, &signal, &out)).exec([len]).unwrap();
                assert_eq!(*out.read().unwrap(), expected, "{which}: {of_filter:?}, {of_signal:?}");
            }
            // Half of the signal: no results beyond its reach.
            let (filter, out) = (FlashMemory::from([1.0f32; 16]), FlashMemory::zeroed(len));
            let signal = FlashMemory::from(&signal[..]);
            let kernel = Conv1d::of(&filter, &signal, &out);
            rt.submit(kernel).sizes([&[k][..], &[n / 2], &[len]]).exec([len]).unwrap();
            let there = n / 2 + 1 - k;
            let out = out.read().unwrap();
            assert_eq!(out[..there], expected[..there], "{which}");
            assert_eq!(out[there..], vec![0.0; len - there], "{which}");
        }
    }
}

#[test]
fn cells_beyond_the_counts_are_not_counted() {
    for device in devices_of_all_kinds("bounds::cells_beyond_the_counts_are_not_counted") {
        for (which, rt) in runtimes(&device) {
            for (cells, iterations) in [(7, 3), (7, 1 << 40), (0, 3), (3000, 3)] {
                // Each particle is in cell 1, in one just beyond, far beyond, and in cell 1 again.
                let ways = [1, cells as u32, OUTSIDE - 1, 1];
                let track = FlashMemory::from(ways.repeat(5)).with_shape([4, 5]).unwrap();
                let counts = Guarded::new(vec![100u64; 3 * cells], 8);
                rt.submit(Count::of(iterations, &track, counts.range())).exec((1, 5)).unwrap();
                let mut expected = vec![100u64; 3 * cells];
                if cells > 0 {
                    expected[1] += 5;
                    expected[2 * cells + 1] += 5;
                }
                assert_eq!(counts.elements(), expected, "{which}: {cells} cells, {iterations} iterations");
            }
        }
    }
}

#[test]
fn particles_without_moves_or_a_track_stay_where_they_are() {
    for device in devices_of_all_kinds("bounds::particles_without_moves_or_a_track_stay_where_they_are") {
        let (n, iterations) = (20usize, 9usize);
        let full = n * iterations;
        for (which, rt) in runtimes(&device) {
            for (rx, ry, said, entries, moved) in [
                (full, full, iterations as u64, 10, n),
                (full, full - 1, iterations as u64, 10, 0),
                (full, 0, iterations as u64, 10, 0),
                (full, full, iterations as u64, 9, 0),
                (full, full, 1 << 40, 10, 0),
                (full, full, 0, 10, 0),
                // Of the first half alone.
                (full / 2, full / 2, iterations as u64, 10, n / 2),
            ] {
                let what = format!("{which}: {rx} and {ry} moves, {said} iterations, tracks of {entries}");
                let moves = |len: usize| Guarded::new(vec![0.125f32; len], f32::NAN);
                let (rx, ry) = (moves(rx), moves(ry));
                let [x, y] = [(); 2].map(|()| Guarded::new(vec![2.0f32; n], 8.0));
                let cell = Guarded::new(vec![5u32; n], 8);
                let track = FlashMemory::from(vec![9u32; entries * n]).with_shape([entries, n]).unwrap();
                let (along, at) = ([rx.range(), ry.range()], [x.range(), y.range()]);
                let ([rx, ry], [px, py]) = (along, at);
                let kernel = Walk::of(8, 0.5, said, rx, ry, px, py, cell.range(), &track);
                rt.submit(kernel).exec([n]).unwrap();
                let expected = |particle: usize| if particle < moved { 2.0 + 0.125 * 9.0 } else { 2.0 };
                for (particle, (x, y)) in x.elements().into_iter().zip(y.elements()).enumerate() {
                    assert_eq!([x, y], [expected(particle); 2], "{what}: particle {particle}");
                }
                assert!(cell.elements().iter().zip(0..).all(|(&c, i)| (c == 5) == (i >= moved)), "{what}");
                let track = track.read().unwrap();
                for (particle, row) in track.chunks(entries).enumerate().skip(moved) {
                    assert!(row[0] == 5 && row[1..].iter().all(|&c| c == 9), "{what}: {particle}: {row:?}");
                }
            }
        }
    }
}

#[test]
fn a_dot_product_in_groups_of_another_size_is_refused() {
    for device in devices("bounds::a_dot_product_in_groups_of_another_size_is_refused") {
        let rt = get_runtime(&device).unwrap();
        let run = |name: &'static str, size: u64| {
            let mut options = Attributes::default();
            options.set_by_name("work_group_size", size.into(), true);
            let (x, sum) = (FlashMemory::from([1.0f32; 1000]), FlashMemory::from([7.0f32]));
            let submission = rt.submit(vdp(&x, &x, &sum).unwrap());
            submission.options((options, Implementation::named(name))).exec([1000])?;
            sum.get(0)
        };
        // One is for devices that are CPUs alone.
        let is_cpu = rt.devices()[0].info().class == flash_backend::Class::Cpu;
        let runs = |(name, _): &(&str, u64)| is_cpu || *name == "any";
        for (name, size) in [("any", 64), ("cpu", 1)].into_iter().filter(runs) {
            assert_eq!(run(name, size).unwrap(), 1000.0, "{device}, {name}");
        }
        for (name, size) in [("any", 1), ("any", 63), ("any", 128), ("cpu", 64)].into_iter().filter(runs) {
            let error = run(name, size).unwrap_err().to_string();
            assert!(error.contains("for which the kernel was compiled"), "{device}, {name}, {size}: {error}");
        }
    }
}
