//! `star`: sweeps with two neighbours on each side, whose bits are those of one loop everywhere.

use crate::{Real, all, numbers};
use flash::kernels::star;
use flash::kernels::star::{Around, Star, row, thirteenth};
use flash::prelude::*;

/// One sweep, point by point.
fn sweep<T: Real>([nx, ny, nz]: [usize; 3], from: &[T], to: &mut [T]) {
    for z in 2..nz - 2 {
        for y in 2..ny - 2 {
            for x in 2..nx - 2 {
                let i = (z * ny + y) * nx + x;
                let along = |step: usize| {
                    (from[i - 2 * step] + from[i + 2 * step]) + (from[i - step] + from[i + step])
                };
                let sum = (from[i] + along(1)) + (along(nx) + along(nx * ny));
                to[i] = sum * thirteenth();
            }
        }
    }
}

fn stars<T: Real>(test: &str) {
    const SWEEPS: usize = 3;
    for shape in [[5, 5, 5], [6, 5, 7], [9, 8, 6], [37, 9, 12], [21, 40, 14]] {
        let [nx, ny, nz] = shape;
        let start = numbers::<T>(nx * ny * nz, 81);
        let (mut from, mut to) = (start.clone(), start.clone());
        for _ in 0..SWEEPS {
            sweep(shape, &from, &mut to);
            std::mem::swap(&mut from, &mut to);
        }
        for (which, rt) in all(test) {
            let array = || FlashMemory::from(&start[..]).with_shape(shape).unwrap();
            let (mut u, mut next) = (array(), array());
            for _ in 0..SWEEPS {
                let dims = (2..nx - 2, 2..ny - 2, 2..nz - 2);
                rt.submit(star(&u, &next).unwrap()).exec(dims).unwrap();
                std::mem::swap(&mut u, &mut next);
            }
            let same = u.read().unwrap().iter().zip(&from).all(|(a, b)| a.bits() == b.bits());
            assert!(same, "{which}, {shape:?}, {}: other bits than one loop", T::NAME);
        }
    }
}

#[test]
fn stars_have_the_bits_of_one_loop_on_every_device() {
    stars::<f32>("stars::stars_have_the_bits_of_one_loop_on_every_device");
    stars::<f64>("stars::stars_have_the_bits_of_one_loop_on_every_device");
}

#[test]
fn what_changes_along_straight_lines_stays_as_it_is() {
    // Small whole numbers: sums are exact, and so is what the kernel is to multiply with.
    let [nx, ny, nz] = [9, 7, 8];
    let u: FlashMemory<f64> = (0..nx * ny * nz)
        .map(|i| (i % nx) as f64 + 3.0 * (i / nx % ny) as f64 - (i / nx / ny) as f64)
        .collect();
    let u = u.with_shape([nx, ny, nz]).unwrap();
    let to = FlashMemory::zeroed([nx, ny, nz]);
    let kernel = Star::of(1.0, nx as u64, ny as u64, &u, &to);
    get_runtime("ALL_CPU").unwrap().submit(kernel).exec((2..nx - 2, 2..ny - 2, 2..nz - 2)).unwrap();
    let (u, to) = (u.read().unwrap(), to.read().unwrap());
    for i in 0..nx * ny * nz {
        let inner =
            [(i % nx, nx), (i / nx % ny, ny), (i / nx / ny, nz)].iter().all(|&(c, n)| c > 1 && c + 2 < n);
        assert_eq!(to[i], if inner { 13.0 * u[i] } else { 0.0 }, "point {i}");
    }
}

#[test]
fn rows_in_pieces_have_the_bits_of_whole_rows() {
    for n in 1..40 {
        let all: Vec<Vec<f32>> = (0..9).map(|row| numbers(n + 4, 90 + row)).collect();
        let piece = |from: usize, to: usize| {
            let row = |i: usize| &all[i][from + 2..to + 2];
            let around = Around {
                before: [all[0][from], all[0][from + 1]],
                middle: row(0),
                behind: [all[0][to + 2], all[0][to + 3]],
                y: [1, 2, 3, 4].map(row),
                z: [5, 6, 7, 8].map(row),
            };
            let mut found = vec![0.0; to - from];
            star::row(thirteenth(), &around, &mut found);
            found
        };
        for at in 0..=n {
            assert_eq!([piece(0, at), piece(at, n)].concat(), piece(0, n), "{n} points, cut at {at}");
        }
    }
}

#[test]
#[should_panic(expected = "a row and those around it have one length")]
fn rows_of_other_lengths_are_refused() {
    let (a, b) = ([0.0f32; 8], [0.0f32; 7]);
    let around = Around { before: [0.0; 2], middle: &a, behind: [0.0; 2], y: [&a; 4], z: [&a, &a, &b, &a] };
    row(1.0, &around, &mut [0.0; 8]);
}

#[test]
fn grids_that_do_not_fit_and_points_near_the_border_are_refused() {
    let text = |r: Result<Star<'_, f32>, flash::Error>| r.map(|_| ()).unwrap_err().to_string();
    let [flat, thin] = [&[5usize, 25][..], &[5, 4, 5]].map(FlashMemory::<f32>::zeroed);
    let [a, b, c] =
        [[6, 5, 5], [5, 6, 5], [6, 5, 5]].map(|shape: [usize; 3]| FlashMemory::<f32>::zeroed(shape));
    assert_eq!(
        text(star(&flat, &flat)),
        "kernel `flash.star`, argument `from`: expected a shape of three extents of at least 5, found [5, 25]: give it one with `with_shape`"
    );
    assert!(text(star(&thin, &thin)).contains("at least 5, found [5, 4, 5]"));
    assert_eq!(
        text(star(&a, &b)),
        "kernel `flash.star`, argument `to`: expected the shape [6, 5, 5], which `from` has, found [5, 6, 5]: pass arrays of one shape"
    );
    let rt = get_runtime("ALL_CPU").unwrap();
    for dims in [(1..3, 2..3, 2..3), (2..4, 1..2, 2..3), (2..5, 2..3, 2..3), (2..4, 2..4, 2..3)] {
        let error = rt.submit(star(&a, &c).unwrap()).exec(dims).unwrap_err().to_string();
        assert!(
            error.contains("expected points two from the border of a grid of 6 x 5 x .. points"),
            "{error}"
        );
    }
    for z in [1..2, 3..4] {
        assert!(rt.submit(star(&a, &c).unwrap()).exec((2..4, 2..3, z)).is_err());
    }
    // Of other extents than the arrays have; whole, and cut.
    let [u, next] = [(); 2].map(|()| FlashMemory::<f32>::zeroed([8, 7, 9]));
    for rt in [rt.clone(), rt.options(Subspaces(2))] {
        let run = |[nx, ny]: [u64; 2]| {
            let kernel = Star::of(1.0, nx, ny, &u, &next);
            rt.submit(kernel).exec((2..4, 2..4, 2..7)).map_err(|error| error.to_string())
        };
        assert_eq!(run([8, 7]), Ok(()));
        for extents @ [nx, ny] in [[7, 8], [6, 6], [56, 1], [u64::MAX, 7]] {
            let error = run(extents).unwrap_err();
            assert!(error.contains(&format!("expected `from` of the shape [{nx}, {ny}, ..]")), "{error}");
        }
    }
}
