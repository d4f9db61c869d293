//! Texts that a program gives: their parameters, and their local memory.

use crate::devices_of_all_kinds;
use flash::kernel::views::{Item, Read, ReadWrite, Scatter, Whole};
use flash::prelude::*;

/// y += a x + n
#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.axpy", dims(i), part_by(i))]
struct Axpy<'a> {
    a: f32,
    n: u32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

/// What each language calls the same things in kernels that know nothing of FLASH.
const BOTH: &str = "#ifdef __CUDACC__
#define KERNEL extern \"C\" __global__ void
#define GLOBAL
#define LOCAL __shared__
#define ID (blockIdx.x * blockDim.x + threadIdx.x)
#define half __half
struct __half { unsigned short bits; };
#else
#define KERNEL __kernel void
#define GLOBAL __global
#define LOCAL __local
#define ID get_global_id(0)
#endif
";

const N: usize = 64;

/// The result of a launch, which is 1 + 3 * 2 + 5 everywhere if all is right.
fn axpy(device: &str, code: Implementation) -> Result<Vec<f32>, String> {
    let rt = get_runtime(device).unwrap();
    let (x, y) = (FlashMemory::from(vec![2.0f32; N]), FlashMemory::from(vec![1.0f32; N]));
    let done = rt.submit(Axpy::of(3.0, 5, &x, &y)).options(code).exec([N]);
    done.map_err(|error| error.to_string())?;
    Ok(y.read().unwrap().to_vec())
}

fn check(device: &str, code: Implementation) {
    assert_eq!(axpy(device, code.clone()), Ok(vec![12.0; N]), "{device}: {code:?}");
}

fn refused(device: &str, code: Implementation, parts: &[&str]) {
    let error = axpy(device, code).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{device}: {part} in {error}");
    }
}

/// A kernel with these parameters.
fn plain(parameters: &str) -> Implementation {
    Implementation::source(format!("{BOTH}KERNEL axpy({parameters}) {{ y[ID] += a * x[ID] + n; }}\n"), "axpy")
}

#[test]
fn parameters_that_cannot_take_their_arguments_are_refused_by_name_and_type() {
    for device in devices_of_all_kinds(
        "texts::parameters_that_cannot_take_their_arguments_are_refused_by_name_and_type",
    ) {
        let rows: [(&str, &str, &[&str]); 6] = [
            // It wrote beyond the array.
            (
                "float a, unsigned n, GLOBAL const float *x, GLOBAL double *y",
                "y",
                &["parameter 3 of `axpy`: expected a pointer to `f32`", "found `double"],
            ),
            // Values of one size.
            (
                "unsigned n, float a, GLOBAL const float *x, GLOBAL float *y",
                "a",
                &["parameter 0", "expected a `f32` by value", "found `u"],
            ),
            (
                "float a, int n, GLOBAL const int *x, GLOBAL float *y",
                "x",
                &["parameter 2", "a pointer to `f32`", "found `int"],
            ),
            (
                "float a, GLOBAL const unsigned *n, GLOBAL const float *x, GLOBAL float *y",
                "n",
                &["parameter 1", "`u32` by value", "found `u"],
            ),
            (
                "float a, unsigned n, long x, GLOBAL float *y",
                "x",
                &["parameter 2", "a pointer to `f32`", "found `long`"],
            ),
            (
                "double a, unsigned n, GLOBAL const float *x, GLOBAL float *y",
                "a",
                &["parameter 0", "`f32` by value", "found `double`"],
            ),
        ];
        for (parameters, argument, parts) in rows {
            let argument = format!("argument `{argument}`");
            let parts = [&[&*argument], parts].concat();
            let text = format!("{BOTH}KERNEL axpy({parameters}) {{ }}\n");
            refused(&device, Implementation::source(text, "axpy"), &parts);
            let text = format!("{BOTH}KERNEL axpy({parameters}, FLASH_ARGS) {{ }}\n");
            refused(&device, Implementation::source(text, "axpy").cooperating(), &parts);
        }
        check(&device, plain("float a, unsigned n, GLOBAL const float *x, GLOBAL float *y"));
    }
}

#[test]
fn arguments_in_another_order_are_refused_where_names_are_told() {
    for device in devices_of_all_kinds("texts::arguments_in_another_order_are_refused_where_names_are_told") {
        if device.starts_with("NVIDIA_GPU") {
            continue;
        }
        let swapped = "float a, unsigned n, GLOBAL float *y, GLOBAL float *x";
        refused(
            &device,
            plain(swapped),
            &["argument `x`, parameter 2 of `axpy`", "expected `x`", "found `y`", "in their order"],
        );
        let swapped = "float b, unsigned n, FLASH_GLOBAL float *y, FLASH_GLOBAL float *x";
        let text = format!(
            "FLASH_KERNEL axpy({swapped}, FLASH_ARGS) {{ FLASH_FOR_ITEMS {{ FLASH_AT(y, FLASH_INDEX(0)) += b * n; }} }}"
        );
        refused(
            &device,
            Implementation::source(text, "axpy").cooperating(),
            &["argument `x`, parameter 2", "found `y`"],
        );
        // Names of their own are no other order.
        let text = format!(
            "{BOTH}KERNEL axpy(float x, unsigned k, GLOBAL const float *in, GLOBAL float *a) {{ a[ID] += x * in[ID] + k; }}"
        );
        check(&device, Implementation::source(text, "axpy"));
    }
}

#[test]
fn the_same_text_is_looked_at_for_each_definition() {
    /// The same for other elements.
    #[derive(KernelDefinition)]
    #[kernel(name = "device_kernels.axpy", dims(i))]
    struct Other<'a> {
        a: f32,
        n: u32,
        x: Item<'a, Read<f32>>,
        y: Item<'a, ReadWrite<u64>>,
    }
    for device in devices_of_all_kinds("texts::the_same_text_is_looked_at_for_each_definition") {
        let code = || plain("float a, unsigned n, GLOBAL const float *x, GLOBAL float *y");
        check(&device, code());
        let (x, y) = (FlashMemory::from(vec![2.0f32; N]), FlashMemory::<u64>::zeroed(N));
        let failed =
            get_runtime(&device).unwrap().submit(Other::of(3.0, 5, &x, &y)).options(code()).exec([N]);
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("argument `y`") && error.contains("a pointer to `u64`"), "{device}: {error}");
    }
}

/// Types that other types may stand for.
#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.types", dims(i))]
struct Types<'a> {
    pair: [f32; 2],
    bits: Whole<'a, Read<i16>>,
    raw: Whole<'a, Read<u8>>,
    long: Whole<'a, Read<u64>>,
    vectors: Whole<'a, Read<[f32; 4]>>,
    floats: Whole<'a, Read<f32>>,
    halves: Whole<'a, Read<u16>>,
    own: Whole<'a, Read<i32>>,
    sums: Scatter<'a, f32>,
}

#[test]
fn a_kernel_whose_types_stand_for_the_definitions_is_taken() {
    for device in devices_of_all_kinds("texts::a_kernel_whose_types_stand_for_the_definitions_is_taken") {
        let text = format!(
            "{BOTH}typedef int own_t; typedef struct pair_t {{ float x, y; }} pair_t;
            KERNEL types(const pair_t pair, GLOBAL const unsigned short *bits, GLOBAL const unsigned *raw,
                         GLOBAL const unsigned long *long_, GLOBAL const float *vectors, GLOBAL const float4 *floats,
                         GLOBAL const half *halves, GLOBAL const own_t *own, GLOBAL unsigned *sums) {{
                sums[0] = (unsigned)(pair.y + bits[0] + raw[0] + long_[0] + vectors[3] + own[0]);
            }}"
        );
        let rt = get_runtime(&device).unwrap();
        let sums = FlashMemory::<f32>::zeroed(1);
        let kernel = Types::of(
            [0.0, 1.0],
            &[2i16][..],
            &[3u8, 0, 0, 0][..],
            &[4u64][..],
            &[[0.0, 0.0, 0.0, 5.0f32]][..],
            &[0.0f32; 4][..],
            &[0u16][..],
            &[6i32][..],
            &sums,
        );
        rt.submit(kernel).options(Implementation::source(text, "types")).exec([1]).unwrap();
        assert_eq!(sums.get(0).unwrap().to_bits(), 1 + 2 + 3 + 4 + 5 + 6, "{device}");
    }
}

#[test]
fn local_memory_beyond_the_devices_is_an_error_with_both_numbers() {
    for device in devices_of_all_kinds("texts::local_memory_beyond_the_devices_is_an_error_with_both_numbers")
    {
        let with = |floats: usize| {
            let body = format!(
                "LOCAL float all[{floats}]; all[ID % {floats}] = x[ID]; all[(ID + 1) % {floats}] = n; y[ID] += a * x[ID] + n + 0 * all[ID % {floats}];"
            );
            let parameters = "float a, unsigned n, GLOBAL const float *x, GLOBAL float *y";
            Implementation::source(format!("{BOTH}KERNEL axpy({parameters}) {{ {body} }}"), "axpy")
        };
        if device.starts_with("NVIDIA_GPU") {
            // CUDA's assembler says it.
            refused(&device, with(2_000_000), &["shared"]);
        } else {
            let limits = get_runtime(&device).unwrap().devices()[0].query("limits").unwrap();
            let limits: serde_json::Value = serde_json::from_str(&limits).unwrap();
            let expected = format!("up to {} bytes of local memory", limits["local_bytes"]);
            refused(&device, with(2_000_000), &[&expected, "found 8000000 of the kernel `axpy`"]);
        }
        check(&device, plain("float a, unsigned n, GLOBAL const float *x, GLOBAL float *y"));
    }
}
