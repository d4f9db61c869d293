//! `mmm` of factors in bf16.

use crate::{all, implementations, is_too_much, matrices, near};
use flash::RuntimeObj;
use flash::kernels::mmm;
use flash::kernels::mmm::{Mmm, bf16};
use flash::prelude::*;
use flash_tests::emulated;

/// The runtimes of all implementations that multiply them, whole and cut.
fn everywhere(test: &str) -> Vec<(String, RuntimeObj)> {
    let mut runtimes = matrices::with_cublas(all(test));
    // There are no implementations for other instruction sets than these.
    runtimes.retain(|(which, _)| !crate::SETS.iter().any(|set| which.starts_with(set)));
    if !emulated::is_here() {
        runtimes.extend(implementations(test, &["blocked", "avx512_bf16", "amx_bf16", "plain"]));
    }
    runtimes
}

/// Numbers between -1 and 1 with all digits of the type.
fn factors(n: usize, seed: u64) -> Vec<bf16> {
    crate::numbers::<f32>(n, seed).into_iter().map(bf16::from_f32).collect()
}

fn matrix(elements: Vec<bf16>, shape: [usize; 2]) -> FlashMemory<bf16> {
    FlashMemory::from(elements).with_shape(shape).unwrap()
}

/// Rows, columns, products in a sum, and the extra length of rows of `a` and `b`.
const SIZES: [([usize; 3], [usize; 2]); 14] = [
    ([1, 1, 1], [0, 0]),
    ([1, 1, 2], [1, 0]),
    ([2, 3, 5], [1, 2]),
    ([14, 32, 8], [0, 0]),
    ([15, 33, 9], [0, 1]),
    ([1, 300, 5], [0, 0]),
    ([300, 1, 5], [3, 0]),
    ([64, 64, 64], [0, 0]),
    ([100, 90, 1537], [0, 1]),
    ([405, 130, 257], [7, 0]),
    ([29, 4200, 3], [0, 0]),
    ([33, 2081, 65], [1, 3]),
    ([300, 33, 2049], [0, 0]),
    ([3, 32, 4200], [1, 1]),
];

#[test]
fn products_of_halves_are_right_and_no_cut_changes_a_bit() {
    const TEST: &str = "halves::products_of_halves_are_right_and_no_cut_changes_a_bit";
    for ([m, n, k], [more_a, more_b]) in SIZES.into_iter().filter(|([m, n, k], _)| !is_too_much(m * n * k)) {
        let (lead_a, lead_b) = (k + more_a, n + more_b);
        let (a, b) = (factors(m * lead_a, 11), factors(k * lead_b, 12));
        let (mut sums, mut sizes) = (vec![0.0; m * n], vec![0.0; m * n]);
        for (i, l, j) in (0..m).flat_map(|i| (0..k).flat_map(move |l| (0..n).map(move |j| (i, l, j)))) {
            let product = a[i * lead_a + l].to_f64() * b[l * lead_b + j].to_f64();
            sums[i * n + j] += product;
            sizes[i * n + j] += product.abs();
        }
        let (a, b) = (matrix(a, [lead_a, m]), matrix(b, [lead_b, k]));
        let mut whole: Vec<u32> = Vec::new();
        for (which, rt) in everywhere(TEST) {
            let c = FlashMemory::from(vec![7.0f32; m * n]).with_shape([n, m]).unwrap();
            rt.submit(mmm([m, n, k], &a, &b, &c).unwrap()).exec([m]).unwrap();
            let c = c.read().unwrap();
            // The products are exact, and their sum is one of `k` terms in single precision.
            let bound = |i: usize| (k as f64 + 8.0) * f64::from(f32::EPSILON) * sizes[i];
            near(&c, &sums, bound, &format!("{which}, {m} x {n} x {k}"));
            let bits: Vec<u32> = c.iter().map(|c| c.to_bits()).collect();
            assert!(!which.ends_with("cut") || whole == bits, "{which}, {m} x {n} x {k}");
            whole = bits;
        }
    }
}

#[test]
fn empty_matrices_of_halves_have_products() {
    for (which, rt) in everywhere("halves::empty_matrices_of_halves_have_products") {
        for [m, n, k] in [[3, 4, 0], [3, 0, 2], [0, 3, 2]] {
            let (a, b) = (FlashMemory::<bf16>::zeroed([k, m]), FlashMemory::zeroed([n, k]));
            let c = FlashMemory::from(vec![7.0; m * n]).with_shape([n, m]).unwrap();
            rt.submit(mmm([m, n, k], &a, &b, &c).unwrap()).exec([m]).unwrap();
            assert!(c.read().unwrap().iter().all(|&c| c == 0.0), "{which}: {m} x {n} x {k}");
        }
    }
}

/// With an odd number of products in a sum: the last one is alone. The larger ones are for tiles.
#[test]
fn halves_that_are_not_numbers_stay_in_their_row_and_column() {
    let runtimes = everywhere("halves::halves_that_are_not_numbers_stay_in_their_row_and_column");
    for ((which, rt), [m, n, k]) in runtimes.iter().flat_map(|rt| [(rt, [17, 35, 5]), (rt, [17, 67, 33])]) {
        let (mut a, mut b) = (vec![bf16::ONE; m * k], vec![bf16::ONE; k * n]);
        a[3 * k + 2] = bf16::NAN;
        b[4 * n + 33] = bf16::INFINITY;
        a[8 * k + 4] = bf16::NEG_INFINITY;
        let (a, b, c) = (matrix(a, [k, m]), matrix(b, [n, k]), FlashMemory::zeroed([n, m]));
        rt.submit(mmm([m, n, k], &a, &b, &c).unwrap()).exec([m]).unwrap();
        for (at, c) in c.read().unwrap().iter().enumerate() {
            let right = match (at / n, at % n) {
                (3, _) => c.is_nan(),
                (8, _) => *c == f32::NEG_INFINITY,
                (_, 33) => *c == f32::INFINITY,
                _ => *c == k as f32,
            };
            assert!(right, "{which}: {c} in row {}, column {} of {m} x {n} x {k}", at / n, at % n);
        }
    }
}

/// Of two products, and of as many as tiles need.
#[test]
fn sums_of_halves_have_the_digits_and_the_range_of_single_precision() {
    let (large, small) = (bf16::MAX, bf16::from_f32(2.0f32.powi(-60)));
    let runtimes = everywhere("halves::sums_of_halves_have_the_digits_and_the_range_of_single_precision");
    for ((which, rt), k) in runtimes.iter().flat_map(|rt| [(rt, 2), (rt, 1024)]) {
        // 256 + 1/256, and products at both ends.
        let two = |first: bf16, second: bf16| {
            let mut row = vec![bf16::ZERO; k];
            [row[0], row[1]] = [first, second];
            row
        };
        let (sixteen, sixteenth) = (bf16::from_f32(16.0), bf16::from_f32(0.0625));
        let rows = [two(sixteen, sixteenth), two(large, bf16::ZERO), two(small, bf16::ZERO)];
        let (a, b) = (matrix(rows.concat(), [k, 3]), matrix(two(sixteen, sixteenth), [1, k]));
        let c = FlashMemory::<f32>::zeroed([1, 3]);
        rt.submit(mmm([3, 1, k], &a, &b, &c).unwrap()).exec([3]).unwrap();
        assert_eq!(*c.read().unwrap(), [256.003_9, f32::INFINITY, 2.0f32.powi(-56)], "{which}, {k}");
    }
}

#[test]
fn matrices_of_halves_that_do_not_fit_are_refused_and_named() {
    let [a, b] = [[4, 3], [5, 4]].map(|shape: [usize; 2]| FlashMemory::<bf16>::zeroed(shape));
    let c = FlashMemory::<f32>::zeroed([5, 3]);
    assert!(mmm([3, 5, 4], &a, &b, &c).is_ok());
    assert_eq!(
        mmm([3, 5, 5], &b, &b, &c).map(|_| ()).unwrap_err().to_string(),
        "kernel `flash.mmm`, argument `b`: expected a matrix of 5 rows and 5 columns, that is the shape [5, 5] or larger extents, found the shape [5, 4]: give it such a shape, the length of a row first"
    );
}

#[test]
fn two_devices_share_the_rows_of_a_product_of_halves() {
    flash_tests::in_process(flash_tests::APART[2], || {
        let [m, n, k] = [405, 130, 257];
        let product = |key: &str| {
            let (rt, profile) = (get_runtime(key).unwrap(), flash::Profile::new());
            let (a, b) = (matrix(factors(m * k, 13), [k, m]), matrix(factors(k * n, 14), [n, k]));
            let c = FlashMemory::<f32>::zeroed([n, m]);
            rt.options(&profile).submit(mmm([m, n, k], &a, &b, &c).unwrap()).exec([m]).unwrap();
            let mut devices: Vec<String> = profile.take().into_iter().map(|launch| launch.device).collect();
            devices.sort();
            devices.dedup();
            (c.read().unwrap().iter().map(|c| c.to_bits()).collect::<Vec<u32>>(), devices.len())
        };
        let (one, two) = (product("TEST:0"), product("TEST"));
        assert!(one.0 == two.0, "other bits on two devices");
        assert_eq!((one.1, two.1), (1, 2));
    });
}

/// At the edges of tiles, of steps of products, and of their pieces and blocks.
#[test]
fn products_of_halves_by_tiles_end_where_the_matrices_do() {
    let runtimes = everywhere("halves::products_of_halves_by_tiles_end_where_the_matrices_do");
    let by = |name: &str| runtimes.iter().find(|(which, _)| *which == format!("{name}, whole"));
    let (Some((_, tiles)), Some((_, blocked))) = (by("amx_bf16"), by("blocked")) else { return };
    let edges = [15, 16, 17, 31, 32, 33];
    let sums = [1, 31, 32, 33, 63, 64, 65, 255, 257, 2047, 2048, 2049, 4097];
    for ([m, n], k) in edges.iter().flat_map(|m| edges.map(|n| [*m, n])).flat_map(|mn| sums.map(|k| (mn, k)))
    {
        // Tiles are not used for less.
        let n = if n * k < 1024 { n + 1024 } else { n };
        let (a, b) = (factors(m * k, 15), factors(k * n, 16));
        let [a, b] = [guarded(&a), guarded(&b)];
        let [expected, found]: [&[f32]; 2] = [blocked, tiles].map(|rt| {
            let c = guarded(&vec![7.0f32; m * n]);
            let [lda, ldb, ldc] = [k, n, n].map(|leading| leading as u64);
            let submit = rt.submit(Mmm::of(n as u64, k as u64, lda, ldb, ldc, &*a, &*b, &mut *c));
            submit.sizes([&[k, m][..], &[n, k], &[n, m]]).exec([m]).unwrap();
            &*c
        });
        let expected: Vec<f64> = expected.iter().map(|c| f64::from(*c)).collect();
        near(found, &expected, |_| 2.0 * k as f64 * f64::from(f32::EPSILON), &format!("{m} x {n} x {k}"));
    }
}

/// The same elements, for the rest of the process, before memory that may not be touched.
#[cfg(target_os = "linux")]
fn guarded<T: Copy>(elements: &[T]) -> &'static mut [T] {
    const PAGE: usize = 1 << 16;
    let (bytes, none) = (size_of_val(elements), std::ptr::null_mut());
    let len = bytes.next_multiple_of(PAGE);
    // SAFETY: memory of its own, of which all but the last page is used. It is aligned, since the elements'
    // end is, whose size divides a page's.
    unsafe {
        let (may, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(none, len + PAGE, may, private, -1, 0);
        assert!(memory != libc::MAP_FAILED && PAGE.is_multiple_of(size_of::<T>()));
        assert_eq!(libc::mprotect(memory.byte_add(len), PAGE, libc::PROT_NONE), 0);
        let first: *mut T = memory.byte_add(len - bytes).cast();
        first.copy_from_nonoverlapping(elements.as_ptr(), elements.len());
        std::slice::from_raw_parts_mut(first, elements.len())
    }
}

#[cfg(not(target_os = "linux"))]
fn guarded<T: Copy>(elements: &[T]) -> &'static mut [T] {
    elements.to_vec().leak()
}

/// The implementation of a product of halves.
fn taken() -> String {
    let profile = flash::Profile::new();
    let rt = get_runtime("ALL_CPU").unwrap().options(&profile);
    let (a, b, c) =
        (matrix(factors(16, 1), [4, 4]), matrix(factors(16, 2), [4, 4]), FlashMemory::zeroed([4, 4]));
    rt.submit(mmm([4, 4, 4], &a, &b, &c).unwrap()).exec([4]).unwrap();
    profile.take()[0].implementation.clone()
}

/// The implementation without tiles.
fn without_tiles() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    let there = is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    let there = false;
    if there { "avx512_bf16" } else { "blocked" }
}

#[test]
fn a_cpu_with_instructions_for_halves_uses_them() {
    let tiles = flash::kernel::cpu_has("amx-tile") && flash::kernel::cpu_has("amx-bf16");
    assert_eq!(taken(), if tiles { "amx_bf16" } else { without_tiles() });
}

/// Linux refuses tiles while a thread has a stack for signals that has no room for them.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_is_refused_tiles_has_products_of_halves() {
    flash_tests::in_process(&[], || {
        let small = vec![0u8; 8192].leak();
        let stack = libc::stack_t { ss_sp: small.as_mut_ptr().cast(), ss_flags: 0, ss_size: small.len() };
        // SAFETY: the memory lives for the rest of the process, and has no other user.
        assert_eq!(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }, 0);
        assert_eq!(taken(), without_tiles());
        let rt = get_runtime("ALL_CPU").unwrap().options(Implementation::named("amx_bf16"));
        let error = rt.preload::<Mmm<'static, bf16>>().unwrap_err().to_string();
        let why = if cfg!(target_arch = "x86_64") { "lacks amx-tile" } else { "`flash.mmm`" };
        assert!(error.contains(why), "{error}");
    });
}
