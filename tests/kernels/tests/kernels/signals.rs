//! `conv1d` and `js`: results that depend on neighbours.

use crate::{Real, all, near, numbers};
use flash::kernels::conv1d::Conv1d;
use flash::kernels::diffusion::Heat;
use flash::kernels::js::Js;
use flash::kernels::{conv1d, js};
use flash::prelude::*;

fn convolutions<T: Real>(test: &str) {
    for (k, n) in [(1, 1), (1, 40), (3, 3), (3, 200), (16, 17), (31, 400), (65, 5001), (300, 1000)] {
        let (filter, signal) = (numbers::<T>(k, 13), numbers::<T>(n, 14));
        let len = n - k + 1;
        // By the definition: output i + k - 1 of the full convolution.
        let terms = |i: usize| (0..k).map(move |j| (j, i + k - 1 - j));
        let product = |(j, at): (usize, usize)| filter[j].wide() * signal[at].wide();
        let sums: Vec<f64> = (0..len).map(|i| terms(i).map(product).sum()).collect();
        let sizes: Vec<f64> = (0..len).map(|i| terms(i).map(|t| product(t).abs()).sum()).collect();
        let (filter, signal) = (FlashMemory::from(&filter[..]), FlashMemory::from(&signal[..]));
        let mut bits: Vec<Vec<u64>> = Vec::new();
        for (which, rt) in all(test) {
            let out = FlashMemory::zeroed(len);
            rt.submit(conv1d(&filter, &signal, &out).unwrap()).exec([len]).unwrap();
            let out = out.read().unwrap();
            near(&out, &sums, |i| (k + 2) as f64 * T::EPSILON * sizes[i], &format!("{which}, {k} in {n}"));
            bits.push(out.iter().map(|x| x.bits()).collect());
        }
        for pair in bits.chunks(2) {
            assert!(pair[0] == pair[1], "whole and cut differ: {k} in {n}, {}", T::NAME);
        }
    }
}

#[test]
fn convolutions_are_right_and_no_cut_changes_a_bit() {
    convolutions::<f32>("signals::convolutions_are_right_and_no_cut_changes_a_bit");
    convolutions::<f64>("signals::convolutions_are_right_and_no_cut_changes_a_bit");
}

#[test]
fn what_is_not_a_number_reaches_as_far_as_the_filter() {
    for (which, rt) in all("signals::what_is_not_a_number_reaches_as_far_as_the_filter") {
        let mut signal = vec![1.0f32; 300];
        signal[150] = f32::NAN;
        let (filter, signal) = (FlashMemory::from([1.0f32; 5]), FlashMemory::from(signal));
        let out = FlashMemory::zeroed(296);
        rt.submit(conv1d(&filter, &signal, &out).unwrap()).exec([296]).unwrap();
        for (i, out) in out.read().unwrap().iter().enumerate() {
            assert_eq!(out.is_nan(), (146..=150).contains(&i), "{which}: {out} at {i}");
        }
    }
}

#[test]
fn a_filter_that_does_not_fit_is_refused() {
    let (filter, signal) = (FlashMemory::<f32>::zeroed(5), FlashMemory::zeroed(4));
    let text = |r: Result<Conv1d<'_, f32>, flash::Error>| r.map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        text(conv1d(&filter, &signal, &signal)),
        "kernel `flash.conv1d`, argument `filter`: expected 1 to 4 elements, as many as `signal` has at most, found 5: pass a shorter filter, or a longer signal"
    );
    assert_eq!(
        text(conv1d(&signal, &filter, &signal)),
        "kernel `flash.conv1d`, argument `out`: expected 2 elements, as the filter has places in the signal, found 4: pass an array of that length"
    );
}

/// Sweeps over a grid with some boundary, in double precision.
fn sweeps(shape: [usize; 3], h: f64, u: &[f64], f: &[f64], sweeps: usize) -> Vec<f64> {
    let [nx, ny, nz] = shape;
    let (mut from, mut to) = (u.to_vec(), u.to_vec());
    for _ in 0..sweeps {
        for z in 1..nz - 1 {
            for y in 1..ny - 1 {
                for x in 1..nx - 1 {
                    let at = |x: usize, y: usize, z: usize| from[(z * ny + y) * nx + x];
                    let around = at(x - 1, y, z)
                        + at(x + 1, y, z)
                        + at(x, y - 1, z)
                        + at(x, y + 1, z)
                        + at(x, y, z - 1)
                        + at(x, y, z + 1);
                    let i = (z * ny + y) * nx + x;
                    to[i] = (around - h * h * f[i]) / 6.0;
                }
            }
        }
        std::mem::swap(&mut from, &mut to);
    }
    from
}

fn jacobi<T: Real>(test: &str) {
    const SWEEPS: usize = 5;
    for shape in [[3, 3, 3], [4, 3, 5], [18, 7, 9], [35, 20, 14]] {
        let [nx, ny, nz] = shape;
        let n = nx * ny * nz;
        let (u, f) = (numbers::<T>(n, 15), numbers::<T>(n, 16));
        let wide = |x: &[T]| -> Vec<f64> { x.iter().map(|x| x.wide()).collect() };
        let expected = sweeps(shape, 0.25, &wide(&u), &wide(&f), SWEEPS);
        let mut bits: Vec<Vec<u64>> = Vec::new();
        for (which, rt) in all(test) {
            let array = |x: &[T]| FlashMemory::from(x).with_shape(shape).unwrap();
            let (mut from, mut to, f) = (array(&u), array(&u), array(&f));
            for _ in 0..SWEEPS {
                rt.submit(js(T::of(0.25), &from, &f, &to).unwrap())
                    .exec((1..nx - 1, 1..ny - 1, 1..nz - 1))
                    .unwrap();
                std::mem::swap(&mut from, &mut to);
            }
            let found = from.read().unwrap();
            near(&found, &expected, |_| 8.0 * SWEEPS as f64 * T::EPSILON, &format!("{which}, {shape:?}"));
            bits.push(found.iter().map(|x| x.bits()).collect());
        }
        for pair in bits.chunks(2) {
            assert!(pair[0] == pair[1], "whole and cut differ: {shape:?}, {}", T::NAME);
        }
    }
}

#[test]
fn sweeps_are_right_and_no_cut_changes_a_bit() {
    jacobi::<f32>("signals::sweeps_are_right_and_no_cut_changes_a_bit");
    jacobi::<f64>("signals::sweeps_are_right_and_no_cut_changes_a_bit");
}

#[test]
fn sweeps_approach_the_solution_of_the_equation() {
    // laplace(x^2 + y^2 - z^2) = 2, which differences of second order give exactly.
    let n = 9;
    let point = |i: usize| [i % n, i / n % n, i / n / n].map(|c| c as f64 / 8.0);
    let solution = |i: usize| {
        let [x, y, z] = point(i);
        x * x + y * y - z * z
    };
    let inside = |i: usize| [i % n, i / n % n, i / n / n].iter().all(|c| (1..n - 1).contains(c));
    let start: Vec<f64> = (0..n * n * n).map(|i| if inside(i) { 0.0 } else { solution(i) }).collect();
    let array = |x: &[f64]| FlashMemory::from(x).with_shape([n, n, n]).unwrap();
    let (mut from, mut to, f) = (array(&start), array(&start), array(&vec![2.0; n * n * n]));
    let rt = get_runtime("ALL_CPU").unwrap();
    for _ in 0..600 {
        rt.submit(js(1.0 / 8.0, &from, &f, &to).unwrap()).exec((1..n - 1, 1..n - 1, 1..n - 1)).unwrap();
        std::mem::swap(&mut from, &mut to);
    }
    let expected: Vec<f64> = (0..n * n * n).map(solution).collect();
    near(&from.read().unwrap(), &expected, |_| 1e-12, "after 600 sweeps");
}

#[test]
fn grids_that_do_not_fit_and_points_on_the_border_are_refused() {
    let flat = FlashMemory::<f32>::zeroed([3, 3]);
    let [a, b] = [[4, 3, 3], [3, 4, 3]].map(|shape: [usize; 3]| FlashMemory::<f32>::zeroed(shape));
    let c = FlashMemory::<f32>::zeroed([4, 3, 3]);
    let text = |r: Result<Js<'_, f32>, flash::Error>| r.map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        text(js(1.0, &flat, &flat, &flat)),
        "kernel `flash.js`, argument `from`: expected a shape of three extents of at least 3, found [3, 3]: give it one with `with_shape`"
    );
    assert_eq!(
        text(js(1.0, &a, &b, &c)),
        "kernel `flash.js`, argument `f`: expected the shape [4, 3, 3], which `from` has, found [3, 4, 3]: pass arrays of one shape"
    );
    let rt = get_runtime("ALL_CPU").unwrap();
    for dims in [(0..2, 1..2, 1..2), (1..3, 0..1, 1..2), (1..4, 1..2, 1..2)] {
        let error = rt.submit(js(1.0, &a, &a, &c).unwrap()).exec(dims).unwrap_err().to_string();
        assert!(error.contains("expected points inside a grid of 4 x 3 x .. points"), "{error}");
    }
    // Of other extents than the arrays have; whole, and cut.
    let [u, f, next] = [(); 3].map(|()| FlashMemory::<f32>::zeroed([6, 5, 8]));
    for rt in [rt.clone(), rt.options(Subspaces(2))] {
        let run = |[nx, ny]: [u64; 2]| {
            rt.submit(Js::of(1.0, nx, ny, &u, &f, &next)).exec((1..3, 1..3, 1..7)).map_err(|e| e.to_string())
        };
        assert_eq!(run([6, 5]), Ok(()));
        for extents @ [nx, ny] in [[4, 4], [5, 6], [6, 4], [30, 1], [u64::MAX, 5]] {
            let error = run(extents).unwrap_err();
            assert!(error.contains(&format!("expected `from` of the shape [{nx}, {ny}, ..]")), "{error}");
        }
    }
    let [from, to] = [[4, 4], [2, 8]].map(|shape: [usize; 2]| FlashMemory::<f32>::zeroed(shape));
    for rt in [rt.clone(), rt.options(Subspaces(2))] {
        let error = rt.submit(Heat::of(0.1, 2, 8, &from, &to)).exec((2, 8)).unwrap_err().to_string();
        assert!(error.contains("expected `from` of"), "{error}");
    }
}
