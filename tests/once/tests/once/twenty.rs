//! The twenty kernels: what each gives on the CPU, its text gives on every device, with checks and without,
//! and so does the text that was written by hand.

use flash::prelude::*;
use flash_tests_once::{cpu, devices};
use flash_twenty::{BY_HAND, KERNELS, ONCE, UNCHECKED};

fn same(name: &str) {
    let kernel = KERNELS.iter().find(|kernel| kernel.name == name).expect("one of the twenty");
    let run = |rt: &RuntimeObj, implementation: &str| {
        let problem = (kernel.problem)(kernel.sizes[0]);
        let rt = rt.options(Implementation::named(implementation));
        let launched = (0..2).try_for_each(|_| problem.launch(&rt));
        launched.and_then(|()| problem.results()).unwrap_or_else(|error| panic!("{implementation}: {error}"))
    };
    let expected = run(&cpu(), ONCE);
    for (device, rt) in devices(&format!("twenty::{name}")) {
        let by_hand = (!device.starts_with("NVIDIA_GPU")).then_some(BY_HAND);
        for implementation in [ONCE, UNCHECKED].into_iter().chain(by_hand) {
            let agreed = kernel.agree(&run(&rt, implementation), &expected);
            agreed.unwrap_or_else(|why| panic!("{device}, {implementation}: {why}"));
        }
    }
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                same(stringify!($name));
            }
        )*

        #[test]
        fn all_twenty_are_here() {
            let here: std::collections::BTreeSet<&str> = [$(stringify!($name)),*].into();
            assert_eq!(here, KERNELS.iter().map(|kernel| kernel.name).collect());
        }
    };
}

tests! {
    black_scholes blur butterfly complex forces forces_f64 gravity heat histogram jacobi lbm life mandelbrot nearest
    product push saxpy scan smith_waterman sparse transpose transpose_i32
}
