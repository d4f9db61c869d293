//! Edge cases of every kernel on every device: empty arrays, NaNs and infinities, and arrays that begin
//! anywhere.

use crate::{Real, all, near, numbers};
use flash::RuntimeObj;
use flash::kernel::Element;
use flash::kernels::conv1d::Conv1d;
use flash::kernels::diffusion::Heat;
use flash::kernels::ewmd::Ewmd;
use flash::kernels::ewmm::Ewmm;
use flash::kernels::js::Js;
use flash::kernels::mmm::Mmm;
use flash::kernels::mvm::Mvm;
use flash::kernels::nbody::Accelerate;
use flash::kernels::smmm::Smmm;
use flash::kernels::spmv::Spmv;
use flash::kernels::star::Star;
use flash::kernels::vdp::Vdp;
use flash::kernels::{Csr, ewmd, ewmm, js, mvm, smmm, spmv, vdp};
use flash::prelude::*;
use flash_core::memory::MemoryView;

fn of_nothing<T: Real>(test: &str) {
    for (which, rt) in all(test) {
        let empty = || FlashMemory::<T>::zeroed(0);
        let (a, b, c) = (empty(), empty(), empty());
        rt.submit(ewmm(&a, &b, &c).unwrap()).exec([0]).unwrap();
        rt.submit(ewmd(&a, &b, &c).unwrap()).exec([0]).unwrap();
        let sum = FlashMemory::from([T::of(7.0)]);
        rt.submit(vdp(&a, &b, &sum).unwrap()).exec([0]).unwrap();
        near(&sum.read().unwrap(), &[0.0], |_| 0.0, &format!("{which}: vdp"));
        let (x, y) = (FlashMemory::from([T::ONE; 4]), FlashMemory::from([T::of(7.0); 3]));
        rt.submit(mvm([3, 0], &FlashMemory::zeroed([1, 3]), &a, &y).unwrap()).exec([3]).unwrap();
        near(&y.read().unwrap(), &[0.0; 3], |_| 0.0, &format!("{which}: mvm"));
        rt.submit(mvm([0, 4], &FlashMemory::zeroed([4, 0]), &x, &c).unwrap()).exec([0]).unwrap();
        let sparse = |[m, k]: [usize; 2]| Csr::<T>::new([m, k], vec![0; m + 1], [], []).unwrap();
        let (no_rows, no_elements, nothing) = (sparse([0, 2]), sparse([2, 2]), sparse([2, 0]));
        let (dense, none) = (FlashMemory::zeroed([5, 2]), FlashMemory::zeroed([5, 0]));
        rt.submit(smmm(&no_rows, &dense, &none).unwrap()).exec([0]).unwrap();
        let (x, y) = (FlashMemory::from([T::ONE; 2]), FlashMemory::from([T::of(7.0); 2]));
        rt.submit(spmv(&no_rows, &x, &c).unwrap()).exec([0]).unwrap();
        for (sparse, dense, x) in [(&no_elements, &dense, &x), (&nothing, &none, &a)] {
            let product = FlashMemory::from([T::of(7.0); 10]).with_shape([5, 2]).unwrap();
            rt.submit(smmm(sparse, dense, &product).unwrap()).exec([2]).unwrap();
            near(&product.read().unwrap(), &[0.0; 10], |_| 0.0, &format!("{which}: smmm"));
            y.write().unwrap().fill(T::of(7.0));
            rt.submit(spmv(sparse, x, &y).unwrap()).exec([2]).unwrap();
            near(&y.read().unwrap(), &[0.0; 2], |_| 0.0, &format!("{which}: spmv"));
        }
    }
}

#[test]
fn nothing_has_results_of_nothing_and_sums_of_zero() {
    of_nothing::<f32>("edges::nothing_has_results_of_nothing_and_sums_of_zero");
    of_nothing::<f64>("edges::nothing_has_results_of_nothing_and_sums_of_zero");
}

/// NaNs, infinities, and operands that make them.
const ODD: [[f64; 2]; 9] = [
    [f64::NAN, 1.0],
    [1.0, f64::NAN],
    [f64::INFINITY, 0.0],
    [f64::INFINITY, f64::INFINITY],
    [f64::NEG_INFINITY, 2.0],
    [2.0, f64::NEG_INFINITY],
    [0.0, 0.0],
    [-1.0, 0.0],
    [3.0, 2.0],
];

fn not_numbers<T: Real>(test: &str) {
    for (which, rt) in all(test) {
        // Registers full of them, and a remainder.
        let (n, which) = (ODD.len() * 5, format!("{which}, {}", T::NAME));
        let side = |k: usize| (0..n).map(move |i| ODD[i % ODD.len()][k]);
        let [a, b] = [0, 1].map(|k| side(k).map(T::of).collect::<FlashMemory<T>>());
        let both =
            |op: fn(f64, f64) -> f64| side(0).zip(side(1)).map(|(a, b)| op(a, b)).collect::<Vec<f64>>();
        let c = FlashMemory::zeroed(n);
        rt.submit(ewmm(&a, &b, &c).unwrap()).exec([n]).unwrap();
        near(&c.read().unwrap(), &both(|a, b| a * b), |_| 0.0, &which);
        rt.submit(ewmd(&a, &b, &c).unwrap()).exec([n]).unwrap();
        near(&c.read().unwrap(), &both(|a, b| a / b), |_| 0.0, &which);

        // A row each, in the registers of a sum or behind them.
        let (rows, columns) = (4, 70);
        let mut matrix = vec![T::ONE; rows * columns];
        let places = [(0, 3, f64::NAN), (1, 69, f64::INFINITY), (2, 64, f64::NEG_INFINITY)];
        for (row, column, value) in places {
            matrix[row * columns + column] = T::of(value);
        }
        let expected = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 70.0];
        let matrix = FlashMemory::from(matrix).with_shape([columns, rows]).unwrap();
        let (x, y) = (FlashMemory::from(vec![T::ONE; columns]), FlashMemory::zeroed(rows));
        rt.submit(mvm([rows, columns], &matrix, &x, &y).unwrap()).exec([rows]).unwrap();
        near(&y.read().unwrap(), &expected, |_| 0.0, &which);
        x.write().unwrap()[50] = T::of(f64::NAN);
        rt.submit(mvm([rows, columns], &matrix, &x, &y).unwrap()).exec([rows]).unwrap();
        near(&y.read().unwrap(), &[f64::NAN; 4], |_| 0.0, &which);
    }
}

#[test]
fn what_is_not_a_number_or_infinite_passes_through_products_and_sums() {
    not_numbers::<f32>("edges::what_is_not_a_number_or_infinite_passes_through_products_and_sums");
    not_numbers::<f64>("edges::what_is_not_a_number_or_infinite_passes_through_products_and_sums");
}

fn in_sparse_products<T: Real>(test: &str) {
    // Six elements in each row, one in each column; the values of row 1 and row 2 of `b` are odd.
    let (m, n, k) = (5, 37, 6);
    let start: Vec<u64> = (0..=m as u64).map(|row| row * k as u64).collect();
    let column: Vec<u32> = (0..(m * k) as u32).map(|at| at % k as u32).collect();
    let (mut value, mut b) = (vec![T::ONE; m * k], vec![T::ONE; k * n]);
    value[k + 4] = T::of(f64::NAN);
    value[2 * k + 5] = T::of(f64::INFINITY);
    b[2 * n + 33] = T::of(f64::NEG_INFINITY);
    let vector: FlashMemory<T> = (0..k).map(|row| b[row * n + 33]).collect();
    let a = Csr::new([m, k], start, column, value).unwrap();
    let b = FlashMemory::from(b).with_shape([n, k]).unwrap();
    for (which, rt) in all(test) {
        let c = FlashMemory::zeroed([n, m]);
        rt.submit(smmm(&a, &b, &c).unwrap()).exec([m]).unwrap();
        let expected = |at: usize| match (at / n, at % n) {
            (1, _) => f64::NAN,
            // An infinity and its opposite.
            (2, 33) => f64::NAN,
            (2, _) => f64::INFINITY,
            (_, 33) => f64::NEG_INFINITY,
            _ => 6.0,
        };
        let expected: Vec<f64> = (0..m * n).map(expected).collect();
        near(&c.read().unwrap(), &expected, |_| 0.0, &which);
        // The product with one of its columns.
        let y = FlashMemory::zeroed(m);
        rt.submit(spmv(&a, &vector, &y).unwrap()).exec([m]).unwrap();
        let expected: Vec<f64> = (0..m).map(|row| expected[row * n + 33]).collect();
        near(&y.read().unwrap(), &expected, |_| 0.0, &which);
        // And with few columns, for which there is other code.
        for few in 1..=9 {
            let b = b.read().unwrap();
            let b =
                (0..k).flat_map(|row| b[row * n + 34 - few..][..few].to_vec()).collect::<FlashMemory<T>>();
            let (b, c) = (b.with_shape([few, k]).unwrap(), FlashMemory::zeroed([few, m]));
            rt.submit(smmm(&a, &b, &c).unwrap()).exec([m]).unwrap();
            let last = c.read().unwrap().iter().skip(few - 1).step_by(few).copied().collect::<Vec<T>>();
            near(&last, &expected, |_| 0.0, &format!("{which}, {few} columns"));
        }
    }
}

#[test]
fn what_is_not_a_number_stays_in_its_row_of_a_sparse_product() {
    in_sparse_products::<f32>("edges::what_is_not_a_number_stays_in_its_row_of_a_sparse_product");
    in_sparse_products::<f64>("edges::what_is_not_a_number_stays_in_its_row_of_a_sparse_product");
}

fn in_sweeps<T: Real>(test: &str) {
    let [nx, ny, nz] = [37, 5, 6];
    let at = |x: usize, y: usize, z: usize| (z * ny + y) * nx + x;
    let odd = [(at(17, 2, 2), f64::NAN), (at(35, 2, 4), f64::INFINITY)];
    let mut from = vec![T::ONE; nx * ny * nz];
    odd.iter().for_each(|&(at, value)| from[at] = T::of(value));
    let mut f = vec![T::of(0.0); nx * ny * nz];
    f[at(3, 3, 3)] = T::of(f64::INFINITY);
    let memory = |x: &[T]| FlashMemory::from(x).with_shape([nx, ny, nz]).unwrap();
    let (from, f) = (memory(&from), memory(&f));
    for (which, rt) in all(test) {
        let to = memory(&vec![T::ONE; nx * ny * nz]);
        let kernel = js(T::ONE, &from, &f, &to).unwrap();
        rt.submit(kernel).exec((1..nx - 1, 1..ny - 1, 1..nz - 1)).unwrap();
        let mut expected = vec![1.0; nx * ny * nz];
        for (odd, value) in odd {
            for neighbour in [odd - 1, odd + 1, odd - nx, odd + nx, odd - nx * ny, odd + nx * ny] {
                let inside = (1..nx - 1).contains(&(neighbour % nx))
                    && (1..ny - 1).contains(&(neighbour / nx % ny))
                    && (1..nz - 1).contains(&(neighbour / nx / ny));
                if inside {
                    expected[neighbour] = value;
                }
            }
        }
        expected[at(3, 3, 3)] = f64::NEG_INFINITY;
        near(&to.read().unwrap(), &expected, |_| 2.0 * T::EPSILON, &which);
    }
}

#[test]
fn what_is_not_a_number_reaches_the_neighbours_of_a_sweep() {
    in_sweeps::<f32>("edges::what_is_not_a_number_reaches_the_neighbours_of_a_sweep");
    in_sweeps::<f64>("edges::what_is_not_a_number_reaches_the_neighbours_of_a_sweep");
}

/// An argument that begins some elements after the beginning of its memory.
struct At<T>(FlashMemory<T>, usize);

impl<T: Element> At<T> {
    fn range(&self) -> MemoryView<'_, T> {
        self.0.range(self.1..).unwrap()
    }

    fn view<const N: usize>(&self, shape: [usize; N]) -> MemoryView<'_, T> {
        self.range().view(shape).unwrap()
    }
}

/// The results of every kernel for the same arguments, as bits, if argument `i` begins `offset(i)` elements
/// after the beginning of its memory.
fn results<T: Real>(rt: &RuntimeObj, offset: impl Fn(usize) -> usize) -> Vec<(&'static str, Vec<u64>)> {
    fn at<U: Element + Copy>(offset: usize, elements: &[U]) -> At<U> {
        let before = elements.iter().cycle().take(offset);
        At(before.chain(elements).copied().collect(), offset)
    }
    let of = |argument: usize, n: usize| {
        let mut elements = numbers::<T>(n, 60 + argument as u64);
        elements.iter_mut().filter(|x| x.wide() == 0.0).for_each(|x| *x = T::ONE);
        at(offset(argument), &elements)
    };
    let mut results = Vec::new();
    let mut done = |kernel, to: &At<T>| {
        let to = to.0.read_range(to.1..).unwrap();
        results.push((kernel, to.iter().map(|x| x.bits()).collect()));
    };
    let n = 203;
    let (a, b, c) = (of(0, n), of(1, n), of(2, n));
    rt.submit(Ewmm::<T>::of(n as u64, a.range(), b.range(), c.range())).exec([n]).unwrap();
    done("flash.ewmm", &c);
    // As a part of large arrays.
    rt.submit(Ewmd::<T>::of(1 << 40, a.range(), b.range(), c.range())).exec([n]).unwrap();
    done("flash.ewmd", &c);
    let sum = of(2, 1);
    rt.submit(Vdp::<T>::of(a.range(), b.range(), sum.range())).exec([n]).unwrap();
    done("flash.vdp", &sum);

    let (m, n, k) = (9, 35, 21);
    let (a, b, c, x, y) = (of(0, m * k), of(1, k * n), of(2, m * n), of(3, k), of(4, m));
    rt.submit(Mvm::<T>::of(k as u64, a.view([k, m]), x.range(), y.range())).exec([m]).unwrap();
    done("flash.mvm", &y);
    let [wide, deep] = [n as u64, k as u64];
    let (left, right, product) = (a.view([k, m]), b.view([n, k]), c.view([n, m]));
    rt.submit(Mmm::<T>::of(wide, deep, deep, wide, wide, left, right, product)).exec([m]).unwrap();
    done("flash.mmm", &c);
    let start = at(offset(3), &(0..=m as u64).map(|row| 7 * row).collect::<Vec<u64>>());
    let column = at(offset(4), &(0..7 * m as u32).map(|i| i * 5 % k as u32).collect::<Vec<u32>>());
    let value = of(0, 7 * m);
    rt.submit(Smmm::<T>::of(wide, wide, start.range(), column.range(), value.range(), b.range(), c.range()))
        .sizes([&[m + 1][..], &[7 * m], &[7 * m], &[n, k], &[n, m]])
        .exec([m])
        .unwrap();
    done("flash.smmm", &c);
    rt.submit(Spmv::<T>::of(start.range(), column.range(), value.range(), x.range(), y.range()))
        .exec([m])
        .unwrap();
    done("flash.spmv", &y);

    let (filter, signal, out) = (of(0, 11), of(1, 200), of(2, 190));
    rt.submit(Conv1d::<T>::of(filter.range(), signal.range(), out.range())).exec([190]).unwrap();
    done("flash.conv1d", &out);
    let (from, f, to) = (of(0, 37 * 4 * 5), of(1, 37 * 4 * 5), of(2, 37 * 4 * 5));
    let [from, f, seen] = [&from, &f, &to].map(|array| array.view([37, 4, 5]));
    rt.submit(Js::<T>::of(T::of(0.25), 37, 4, from, f, seen)).exec((1..36, 1..3, 1..4)).unwrap();
    done("flash.js", &to);
    let (from, to) = (of(0, 37 * 6 * 5), of(1, 37 * 6 * 5));
    rt.submit(Star::<T>::of(T::of(0.25), 37, 6, from.range(), to.range()))
        .sizes([[37, 6, 5]; 2])
        .exec((2..35, 2..4, 2..3))
        .unwrap();
    done("flash.star", &to);

    let threes = |x: &[T]| x.chunks_exact(3).map(|x| [x[0], x[1], x[2]]).collect::<Vec<[T; 3]>>();
    let pos = at(offset(0), &threes(&numbers::<T>(3 * 67, 70)));
    let (mass, acc) = (of(1, 67), at(offset(2), &[[T::ONE; 3]; 67]));
    rt.submit(Accelerate::<T>::of(T::ONE, T::of(0.5), pos.range(), mass.range(), acc.range()))
        .exec([67])
        .unwrap();
    let acc = acc.0.read_range(acc.1..).unwrap().as_flattened().to_vec();
    done("flash.nbody.accelerate", &At(FlashMemory::from(acc), 0));
    let field = |argument: usize| {
        let values: Vec<f32> = numbers::<f32>(37 * 9, 71 + argument as u64);
        at(offset(argument), &values)
    };
    let (from, to) = (field(0), field(1));
    rt.submit(Heat::of(0.2, 37, 9, from.view([37, 9]), to.view([37, 9]))).exec((37, 9)).unwrap();
    let to: FlashMemory<T> = to.0.read_range(to.1..).unwrap().iter().map(|x| T::of(x.wide())).collect();
    done("flash.diffusion.heat", &At(to, 0));
    results
}

fn anywhere<T: Real>(test: &str) {
    for (which, rt) in all(test) {
        let expected = results::<T>(&rt, |_| 0);
        for first in 1..=16 {
            // All by the same number, so that those of one alignment stay together; and each by another
            // number.
            for apart in [0, 5] {
                for ((kernel, found), (_, expected)) in
                    results::<T>(&rt, |argument| (first + argument * apart) % 17).iter().zip(&expected)
                {
                    assert!(found == expected, "{which}: {kernel}, {first} and {apart} of {}", T::NAME);
                }
            }
        }
    }
}

#[test]
fn no_bit_depends_on_where_arrays_begin() {
    anywhere::<f32>("edges::no_bit_depends_on_where_arrays_begin");
    anywhere::<f64>("edges::no_bit_depends_on_where_arrays_begin");
}
