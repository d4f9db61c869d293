//! `mmm`.

use crate::{Real, all, cuda_libraries, implementations, is_too_much, near, numbers};
use flash::kernels::mmm;
use flash::kernels::mmm::Mmm;
use flash::kernels::potrf::Potrf;
use flash::prelude::*;
use flash_tests::emulated;
use std::collections::BTreeSet;

/// The runtime of the optional library, or why it is missing.
fn openblas() -> Result<flash::RuntimeObj, String> {
    let rt = get_runtime("ALL_CPU").unwrap().options(Implementation::named("openblas"));
    match rt.preload::<Mmm<'static, f32>>() {
        Ok(()) => Ok(rt),
        Err(error) if error.to_string().contains("the library libopenblas.so.0 is not found") => {
            Err("no OpenBLAS on this machine: libopenblas0-pthread has it".to_owned())
        }
        Err(error) => panic!("{error}"),
    }
}

/// True if a device has cuBLAS.
pub fn has_cublas(rt: &flash::RuntimeObj) -> bool {
    let found = rt.options(Implementation::named("cublas")).preload::<Mmm<'static, f32>>();
    assert!(found.is_ok() || !cuda_libraries::is_here(), "{found:?}");
    found.is_ok()
}

/// True if a device has cuSOLVER.
pub fn has_cusolver(rt: &flash::RuntimeObj) -> bool {
    let found = rt.options(Implementation::named("cusolver")).preload::<Potrf<'static, f32>>();
    assert!(found.is_ok() || !cuda_libraries::is_here(), "{found:?}");
    found.is_ok()
}

/// The same with cuBLAS, where it is found, beside FLASH's own kernel. Its bits may depend on the number of
/// rows.
pub fn with_cublas(runtimes: Vec<(String, flash::RuntimeObj)>) -> Vec<(String, flash::RuntimeObj)> {
    let beside = |(which, rt): (String, flash::RuntimeObj)| {
        let by = |name| rt.options(Implementation::named(name));
        if !which.starts_with("NVIDIA_GPU") || !has_cublas(&rt) {
            return vec![(which, rt)];
        }
        vec![(format!("{which}, by cublas"), by("cublas")), (which, by("mmm.cu"))]
    };
    // The compared ones are put side by side.
    let (mut libraries, mut own) = (Vec::new(), Vec::new());
    for (which, rt) in runtimes.into_iter().flat_map(beside) {
        if which.ends_with("by cublas") { &mut libraries } else { &mut own }.push((which, rt));
    }
    libraries.append(&mut own);
    libraries
}

/// Products whole and cut.
pub fn everywhere(test: &str) -> Vec<(String, flash::RuntimeObj)> {
    let mut runtimes = with_cublas(all(test));
    if emulated::is_here() {
        return runtimes;
    }
    runtimes.extend(implementations(test, &["blocked"]));
    runtimes.extend(with_openblas(test));
    runtimes
}

/// The optional library, whose bits may depend on the number of rows.
pub fn with_openblas(test: &str) -> Vec<(String, flash::RuntimeObj)> {
    match openblas() {
        Ok(rt) => {
            vec![("openblas, in parts".to_owned(), rt.options(Subspaces(3))), ("openblas".to_owned(), rt)]
        }
        Err(why) => {
            flash_tests::skip(test, &why);
            Vec::new()
        }
    }
}

/// Rows, columns, products in a sum, and the extra length of rows of `a` and `b`.
const SIZES: [([usize; 3], [usize; 2]); 11] = [
    ([1, 1, 1], [0, 0]),
    ([2, 3, 4], [1, 2]),
    ([14, 32, 8], [0, 0]),
    ([15, 33, 9], [0, 0]),
    ([13, 31, 7], [3, 5]),
    ([1, 300, 5], [0, 0]),
    ([300, 1, 5], [0, 0]),
    ([64, 64, 64], [0, 0]),
    ([100, 90, 600], [0, 1]),
    ([405, 130, 257], [7, 0]),
    ([29, 4200, 3], [0, 0]),
];

fn products<T: Real>(test: &str) {
    for ([m, n, k], [more_a, more_b]) in SIZES.into_iter().filter(|([m, n, k], _)| !is_too_much(m * n * k)) {
        let (lead_a, lead_b) = (k + more_a, n + more_b);
        let (a, b) = (numbers::<T>(m * lead_a, 11), numbers::<T>(k * lead_b, 12));
        let (mut sums, mut sizes) = (vec![0.0; m * n], vec![0.0; m * n]);
        for i in 0..m {
            for l in 0..k {
                let x = a[i * lead_a + l].wide();
                for j in 0..n {
                    let product = x * b[l * lead_b + j].wide();
                    sums[i * n + j] += product;
                    sizes[i * n + j] += product.abs();
                }
            }
        }
        let a = FlashMemory::from(a).with_shape([lead_a, m]).unwrap();
        let b = FlashMemory::from(b).with_shape([lead_b, k]).unwrap();
        let mut whole: Vec<u64> = Vec::new();
        for (which, rt) in everywhere(test) {
            let c = FlashMemory::zeroed([n, m]);
            c.write().unwrap().fill(T::of(7.0));
            rt.submit(mmm([m, n, k], &a, &b, &c).unwrap()).exec([m]).unwrap();
            let c = c.read().unwrap();
            let bound = |i: usize| (k as f64 + 8.0) * T::EPSILON * sizes[i];
            near(&c, &sums, bound, &format!("{which}, {m} x {n} x {k}"));
            let bits: Vec<u64> = c.iter().map(|c| c.bits()).collect();
            assert!(!which.ends_with("cut") || whole == bits, "{which}, {m} x {n} x {k} of {}", T::NAME);
            whole = bits;
        }
    }
}

#[test]
fn products_of_all_shapes_are_right_and_no_cut_changes_a_bit() {
    products::<f32>("matrices::products_of_all_shapes_are_right_and_no_cut_changes_a_bit");
    products::<f64>("matrices::products_of_all_shapes_are_right_and_no_cut_changes_a_bit");
}

/// The product on the devices of a key, with shares of two to one, and the number of those devices.
fn product<T: Real>(key: &str, name: &str, [m, n, k]: [usize; 3]) -> (Vec<T>, usize) {
    let (rt, profile) = (get_runtime(key).unwrap(), flash::Profile::new());
    let shares = weights([2, 1].into_iter().take(rt.devices().len()));
    let rt = rt.options(shares).options(Implementation::named(name)).options(&profile);
    let matrix = |rows: usize, columns: usize, seed| {
        FlashMemory::from(numbers::<T>(rows * columns, seed)).with_shape([columns, rows]).unwrap()
    };
    // A row of `a` has three elements that are not read.
    let (a, b, c) = (matrix(m, k + 3, 13), matrix(k, n, 14), matrix(m, n, 15));
    rt.submit(mmm([m, n, k], &a, &b, &c).unwrap()).exec([m]).unwrap();
    let devices: BTreeSet<String> = profile.take().into_iter().map(|launch| launch.device).collect();
    (c.read().unwrap().to_vec(), devices.len())
}

fn on_two_devices<T: Real>() {
    for ([m, n, k], parts) in [([405, 130, 257], 2), ([49, 33, 600], 2), ([64, 1, 5], 2), ([7, 40, 9], 1)] {
        for name in ["blocked", "portable"] {
            let (one, two) = (
                product::<T>(&flash_tests::id(0), name, [m, n, k]),
                product::<T>(&flash_tests::key(), name, [m, n, k]),
            );
            assert!(one.0 == two.0, "{name}, {m} x {n} x {k} of {}: other bits on two devices", T::NAME);
            assert_eq!((one.1, two.1), (1, parts), "{name}, {m} x {n} x {k}: devices");
        }
        if openblas().is_ok() {
            let (found, devices) = product::<T>(&flash_tests::key(), "openblas", [m, n, k]);
            let expected = product::<T>(&flash_tests::id(0), "portable", [m, n, k]).0;
            let expected: Vec<f64> = expected.into_iter().map(T::wide).collect();
            // No product of two of these numbers is above 1.
            near(&found, &expected, |_| (k * k + 8) as f64 * T::EPSILON, "openblas on two devices");
            assert_eq!(devices, parts, "openblas, {m} x {n} x {k}");
        }
    }
}

#[test]
fn two_devices_share_the_rows_of_a_product() {
    for devices in [&[("FLASH_CPU_DEVICES", "2")][..], flash_tests::APART[2]] {
        flash_tests::in_process(devices, || {
            on_two_devices::<f32>();
            on_two_devices::<f64>();
        });
    }
}

#[test]
fn openblas_has_the_number_of_threads_afterwards_that_it_had_before() {
    const TEST: &str = "matrices::openblas_has_the_number_of_threads_afterwards_that_it_had_before";
    if let Err(why) = openblas() {
        return flash_tests::skip(TEST, &why);
    }
    for devices in ["1", "2"] {
        flash_tests::in_process(&[("FLASH_CPU_DEVICES", devices), ("FLASH_CPU_THREADS", "2")], || {
            // SAFETY: the library that the kernel loads, too, and the types of its functions.
            let (set, get) = unsafe {
                let library = Box::leak(Box::new(libloading::Library::new("libopenblas.so.0").unwrap()));
                let set = *library.get::<unsafe extern "C" fn(i32)>(b"openblas_set_num_threads\0").unwrap();
                (set, *library.get::<unsafe extern "C" fn() -> i32>(b"openblas_get_num_threads\0").unwrap())
            };
            // SAFETY: they take and give a number.
            unsafe { set(1) };
            for _ in 0..10 {
                product::<f32>("ALL_CPU", "openblas", [405, 130, 257]);
                // SAFETY: as above.
                assert_eq!(unsafe { get() }, 1);
            }
        });
    }
}

/// The library is older than the CPU. What it is told it takes the CPU for.
#[test]
#[cfg(target_arch = "x86_64")]
fn openblas_that_takes_the_cpu_for_one_of_long_ago_is_left_out() {
    const TEST: &str = "matrices::openblas_that_takes_the_cpu_for_one_of_long_ago_is_left_out";
    if let Err(why) = openblas() {
        return flash_tests::skip(TEST, &why);
    }
    if !is_x86_feature_detected!("avx2") {
        // Its code is right for this one.
        return;
    }
    let both = || ["openblas", "blocked"].map(|name| product::<f32>("ALL_CPU", name, [405, 130, 257]).0);
    flash_tests::in_process(&[("OPENBLAS_CORETYPE", "Prescott")], || {
        let [theirs, ours] = both();
        assert_eq!(theirs, ours, "the library's code has other bits: it fuses nothing");
    });
    // Code for such a CPU is used, whatever the library makes of this machine's.
    let such = if is_x86_feature_detected!("avx512bw") { "SkylakeX" } else { "Haswell" };
    flash_tests::in_process(&[("OPENBLAS_CORETYPE", such)], || {
        let [theirs, ours] = both();
        let ours: Vec<f64> = ours.iter().map(|x| x.wide()).collect();
        let bound = |_| 2.0 * (257.0 + 8.0) * 257.0 * <f32 as Real>::EPSILON;
        near(&theirs, &ours, bound, "openblas for such a CPU");
    });
}

#[test]
fn empty_matrices_have_products() {
    for (which, rt) in everywhere("matrices::empty_matrices_have_products") {
        for [m, n, k] in [[3, 4, 0], [3, 0, 2], [0, 3, 2]] {
            let (a, b) = (FlashMemory::<f64>::zeroed([k, m]), FlashMemory::zeroed([n, k]));
            let c = FlashMemory::from(vec![7.0; m * n]).with_shape([n, m]).unwrap();
            rt.submit(mmm([m, n, k], &a, &b, &c).unwrap()).exec([m]).unwrap();
            assert!(c.read().unwrap().iter().all(|&c| c == 0.0), "{which}: {m} x {n} x {k}");
        }
    }
}

#[test]
fn what_is_not_a_number_stays_in_its_row_and_column() {
    let (m, n, k) = (17, 35, 5);
    for (which, rt) in everywhere("matrices::what_is_not_a_number_stays_in_its_row_and_column") {
        let (mut a, mut b) = (vec![1.0f32; m * k], vec![1.0f32; k * n]);
        a[3 * k + 2] = f32::NAN;
        b[4 * n + 33] = f32::INFINITY;
        let (a, b) = (
            FlashMemory::from(a).with_shape([k, m]).unwrap(),
            FlashMemory::from(b).with_shape([n, k]).unwrap(),
        );
        let c = FlashMemory::zeroed([n, m]);
        rt.submit(mmm([m, n, k], &a, &b, &c).unwrap()).exec([m]).unwrap();
        for (at, c) in c.read().unwrap().iter().enumerate() {
            let right = match (at / n, at % n) {
                (3, _) => c.is_nan(),
                (_, 33) => *c == f32::INFINITY,
                _ => *c == 5.0,
            };
            assert!(right, "{which}: {c} in row {}, column {}", at / n, at % n);
        }
    }
}

#[test]
fn some_rows_leave_the_others_as_they_were() {
    let (n, k) = (9, 3);
    let (a, b) = (FlashMemory::from(vec![1.0f64; 40 * k]), FlashMemory::from(vec![2.0f64; k * n]));
    let (a, b) = (a.with_shape([k, 40]).unwrap(), b.with_shape([n, k]).unwrap());
    for (which, rt) in everywhere("matrices::some_rows_leave_the_others_as_they_were") {
        let some = [1, 2, 3, 30, 7];
        let rows = [
            ("from 5 to 19", flash_core::index::Dim::from(5..19), (5..19).collect()),
            ("listed", flash::count_by(some.map(|row| row as u64)), some.to_vec()),
        ];
        for (what, dim, rows) in rows {
            let c = FlashMemory::from(vec![-1.0; 40 * n]).with_shape([n, 40]).unwrap();
            rt.submit(mmm([40, n, k], &a, &b, &c).unwrap()).exec([dim]).unwrap();
            for (at, c) in c.read().unwrap().iter().enumerate() {
                let expected = if rows.contains(&(at / n)) { 6.0 } else { -1.0 };
                assert_eq!(*c, expected, "{which}, {what}: row {}", at / n);
            }
        }
    }
}

#[test]
fn matrices_that_do_not_fit_are_refused_and_named() {
    let [a, b, c] = [[4, 3], [5, 4], [5, 3]].map(|shape: [usize; 2]| FlashMemory::<f32>::zeroed(shape));
    let text = |result: Result<Mmm<'_, f32>, flash::Error>| result.map(|_| ()).unwrap_err().to_string();
    assert!(mmm([3, 5, 4], &a, &b, &c).is_ok());
    assert_eq!(
        text(mmm([3, 5, 4], &b, &b, &c).and(mmm([3, 5, 5], &b, &b, &c))),
        "kernel `flash.mmm`, argument `b`: expected a matrix of 5 rows and 5 columns, that is the shape [5, 5] or larger extents, found the shape [5, 4]: give it such a shape, the length of a row first"
    );
    assert_eq!(
        text(mmm([3, 4, 4], &a, &b, &c)),
        "kernel `flash.mmm`, argument `c`: expected rows of 4 elements, which are all written, found 5: give it the shape [4, 3]"
    );
    // Kernels of devices cannot report it.
    for (which, rt) in everywhere("matrices::matrices_that_do_not_fit_are_refused_and_named") {
        if ["OPENCL", "INTEL", "NVIDIA"].iter().any(|key| which.starts_with(key)) {
            continue;
        }
        let run = |[lda, ldb, ldc]: [u64; 3]| {
            rt.submit(Mmm::of(5, 4, lda, ldb, ldc, &a, &b, &c)).exec([3]).unwrap_err().to_string()
        };
        for leading @ [lda, ldb, ldc] in [[4, 3, 5], [3, 5, 5], [4, 5, 4], [4, 5, 6]] {
            let expected = format!(
                "expected leading dimensions of at least 4 and 5, and just 5 of the product, found {lda}, {ldb} and {ldc}"
            );
            assert!(run(leading).contains(&expected), "{which}");
        }
        assert!(
            run([4, 6, 5]).contains("expected 23 elements of `b` for 4 rows of 5, 6 apart, found 20"),
            "{which}"
        );
    }
}

#[test]
fn the_best_implementation_that_is_there_is_taken() {
    let profile = flash::Profile::new();
    let rt = get_runtime("ALL_CPU").unwrap().options(&profile);
    let matrix = || FlashMemory::<f32>::zeroed([4, 4]);
    rt.submit(mmm([4, 4, 4], &matrix(), &matrix(), &matrix()).unwrap()).exec([4]).unwrap();
    let expected = if openblas().is_ok() { "openblas" } else { "blocked" };
    assert_eq!(profile.take()[0].implementation, expected);
}
