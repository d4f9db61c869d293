//! `ewmm` and `ewmd`.

use crate::{Real, SETS, all, implementations, is_too_much, near, numbers};
use flash::kernels::ewmm::Ewmm;
use flash::kernels::{ewmd, ewmm};
use flash::prelude::*;

/// Lengths around those of registers and cache lines, and one whose result goes past the caches.
const LENGTHS: [usize; 10] = [1, 2, 7, 15, 16, 17, 63, 1000, 4099, (8 << 20) / 4 + 13];

fn products_and_quotients<T: Real>(test: &str) {
    for (which, rt) in all(test) {
        for n in LENGTHS.into_iter().filter(|&n| !is_too_much(n)) {
            let (a, mut b) = (numbers::<T>(n, 1), numbers::<T>(n, 2));
            b.iter_mut().filter(|b| b.wide() == 0.0).for_each(|b| *b = T::ONE);
            let (left, right) = (FlashMemory::from(&a[..]), FlashMemory::from(&b[..]));
            let (product, quotient) = (FlashMemory::<T>::zeroed(n), FlashMemory::<T>::zeroed(n));
            rt.submit(ewmm(&left, &right, &product).unwrap())
                .defer([n])
                .submit(ewmd(&left, &right, &quotient).unwrap())
                .exec([n])
                .unwrap();
            // One operation is rounded once, and so has only one right result.
            for (i, (p, q)) in product.read().unwrap().iter().zip(&*quotient.read().unwrap()).enumerate() {
                assert_eq!(p.bits(), (a[i] * b[i]).bits(), "{which}: product {i} of {n}, {}", T::NAME);
                // OpenCL asks of a quotient in single precision only that it be near.
                let ulps = q.bits().abs_diff((a[i] / b[i]).bits());
                let allowed = if SETS.iter().any(|set| which.starts_with(set)) { 0 } else { 2 };
                assert!(ulps <= allowed, "{which}: quotient {i} of {n}, {}: {ulps} off", T::NAME);
            }
        }
    }
}

#[test]
fn every_product_and_quotient_is_rounded_right() {
    products_and_quotients::<f32>("elementwise::every_product_and_quotient_is_rounded_right");
    products_and_quotients::<f64>("elementwise::every_product_and_quotient_is_rounded_right");
}

#[test]
fn results_below_the_normal_numbers_are_rounded_too() {
    for (which, rt) in implementations("elementwise::results_below_the_normal_numbers_are_rounded_too", &SETS)
    {
        let (a, b) = (FlashMemory::from([5e-324, 1.5e-323, 1e-310]), FlashMemory::from([0.5, 0.5, 0.25]));
        let c = FlashMemory::zeroed(3);
        rt.submit(ewmm(&a, &b, &c).unwrap()).exec([3]).unwrap();
        near(&c.read().unwrap(), &[0.0, 1e-323, 2.5e-311], |_| 0.0, &which);
    }
}

#[test]
fn results_may_begin_anywhere_in_a_cache_line() {
    let n = (8 << 20) / 4;
    for (which, rt) in implementations("elementwise::results_may_begin_anywhere_in_a_cache_line", &SETS) {
        let (a, b) = (numbers::<f32>(n + 16, 3), numbers::<f32>(n + 16, 4));
        let mut c = vec![0.0f32; n + 32];
        for (from, to) in [(0, 1), (1, 0), (3, 7), (15, 15)] {
            c.fill(8.0);
            let kernel =
                Ewmm::<f32>::of(n as u64, &a[from..from + n], &b[16 - from..][..n], &mut c[to..to + n]);
            rt.submit(kernel).exec([n]).unwrap();
            let expected = |i: usize| match i.checked_sub(to) {
                Some(i) if i < n => a[from + i] * b[16 - from + i],
                _ => 8.0,
            };
            assert!((0..c.len()).all(|i| c[i] == expected(i)), "{which}: from {from} to {to}");
        }
    }
}

#[test]
fn matrices_are_arrays() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let (a, b) = (FlashMemory::from([2.0f64; 6]), FlashMemory::from([3.0f64; 6]));
    let (a, b) = (a.with_shape([3, 2]).unwrap(), b.with_shape([3, 2]).unwrap());
    let c = FlashMemory::zeroed([3, 2]);
    rt.submit(ewmm(&a, &b, &c).unwrap()).exec([6]).unwrap();
    assert_eq!(*c.read().unwrap(), [6.0; 6]);
}

#[test]
fn shapes_that_differ_are_refused_and_both_named() {
    let (a, b) = (FlashMemory::<f32>::zeroed([3, 2]), FlashMemory::zeroed([2, 3]));
    let error = |error: flash::Error| error.to_string();
    assert_eq!(
        ewmm(&a, &b, &a).map(|_| ()).map_err(error).unwrap_err(),
        "kernel `flash.ewmm`, argument `b`: expected the shape [3, 2], which `a` has, found [2, 3]: pass arrays of one shape"
    );
    let c = FlashMemory::zeroed(6);
    assert_eq!(
        ewmd(&a, &a, &c).map(|_| ()).map_err(error).unwrap_err(),
        "kernel `flash.ewmd`, argument `c`: expected the shape [3, 2], which `a` has, found [6]: pass arrays of one shape"
    );
}
