//! Functions of random statements (`build.rs` writes them): the same bits on the CPU and on devices.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::{compare_on, devices};

/// A kernel that runs each of its functions on each of some values.
macro_rules! random_kernel {
    ($any:ident $definition:ident $item:ident $once:ident $name:literal) => {
        #[derive(KernelDefinition)]
        #[kernel(name = $name, dims(value, function))]
        struct $definition<'a> {
            integers: Whole<'a, Read<i64>>,
            floats: Whole<'a, Read<f64>>,
            out: Item<'a, Write<u64>>,
        }

        pub(super) struct $once;

        #[kernel(devices)]
        impl CpuItem<$definition<'_>> for $once {
            fn item(ix: Index<2>, k: $item<'_>) {
                k.out.set($any(ix[1] as u32, k.integers[ix[0]], k.floats[ix[0]]));
            }
        }

        impl RandomKernel for $once {
            fn run(rt: &flash::RuntimeObj, values: &Values) -> Vec<u64> {
                let n = values.0.len() as u64;
                let out = FlashMemory::from(vec![0_u64; values.0.len() * FUNCTIONS as usize]);
                rt.submit($definition::of(&values.0[..], &values.1[..], &out))
                    .exec([n, u64::from(FUNCTIONS)])
                    .unwrap();
                out.read().unwrap().to_vec()
            }
        }
    };
}

type Values = (Vec<i64>, Vec<f64>);

trait RandomKernel {
    fn run(rt: &flash::RuntimeObj, values: &Values) -> Vec<u64>;
}

fn values() -> Values {
    let special =
        [0, 1, -1, 2, 255, 256, -32769, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN];
    let more = (1..30_i64).map(|i| (i * 0x5DEE_CE66D + 11).wrapping_mul(i << 20));
    let integers: Vec<i64> = special.into_iter().chain(more).collect();
    let special = [0.0, -0.0, 1.0, -2.5, f64::INFINITY, f64::NAN, 1e-310, 1e300, 16777217.0, -4294967296.5];
    let floats =
        (0..integers.len()).map(|i| special.get(i).copied().unwrap_or((i as f64).sin() * 1e5)).collect();
    (integers, floats)
}

#[test]
fn random_functions_have_the_same_bits() {
    const TEST: &str = "random_functions_have_the_same_bits";
    let values = values();
    let mut devices = devices(TEST);
    // Where the processor is not its own, Intel's compiler has wrong code for some of them, whatever
    // processor it compiles for; PoCL's has none.
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !processors.contains("GenuineIntel") {
        let all = devices.len();
        devices.retain(|(_, rt)| !rt.devices()[0].info().vendor.starts_with("Intel(R)"));
        if devices.len() < all {
            flash_tests::skip(TEST, "no Intel processor: Intel's OpenCL has wrong code for others");
        }
    }
    compare_on(devices, |rt| functions::all(rt, &values));
}

#[allow(clippy::all, clippy::pedantic, unused, unused_parens, unused_comparisons)]
mod functions {
    use super::*;
    include!(concat!(env!("OUT_DIR"), "/random.rs"));
}
