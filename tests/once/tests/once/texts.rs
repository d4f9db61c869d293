//! The texts themselves.

use flash_backend::ImplementationEntry;
use flash_backend::offload::{KernelSpec, Payload};
use flash_backend_cuda::nvrtc::{self, Architecture};
use flash_core::__private::inventory;
use flash_core::devices::texts;
use flash_twenty::UNCHECKED;

/// Beginnings of their kernels' names.
const OURS: [&str; 2] = ["once.", "twenty."];

/// Those that have an error in them.
const WITHOUT_TEXT: &[&str] = &["once.team_races"];

#[test]
fn all_texts_compile_for_gpus() {
    if nvrtc::version().is_none() {
        return flash_tests::skip(
            "texts::all_texts_compile_for_gpus",
            "no CUDA compiler: `cargo xtask setup` downloads it",
        );
    }
    let mut compiled = 0;
    for implementation in inventory::iter::<ImplementationEntry>.into_iter().map(|entry| (entry.build)()) {
        // SAFETY: the texts of implementations live for ever.
        let [kernel, name, target] = unsafe {
            [implementation.kernel.text(), implementation.name.text(), implementation.target.text()]
        };
        // Its text is the checked one's, with one definition more.
        if name == UNCHECKED
            || target != "cuda"
            || !OURS.iter().any(|ours| kernel.starts_with(ours))
            || WITHOUT_TEXT.contains(&&*kernel)
        {
            continue;
        }
        let mut spec = KernelSpec::read(implementation).unwrap();
        assert!(spec.checked, "{kernel}");
        spec.check_bounds = true;
        let Payload::Source(text) = spec.payload(implementation).unwrap() else {
            panic!("{kernel}: no text")
        };
        let grid = spec.for_grid();
        for spec in [&spec].into_iter().chain(&grid) {
            for (major, minor) in [(8, 0), (9, 0)] {
                let architecture = Architecture::of(major, minor).unwrap();
                let source = spec.source(&text);
                let made = nvrtc::compile(
                    &spec.title,
                    &source,
                    "once.cu",
                    &spec.entry,
                    &spec.build_options,
                    architecture,
                );
                let made = made.unwrap_or_else(|failure| panic!("{kernel}: {}\n{text}", failure.text));
                assert!(!made.log.contains("error"), "{kernel}: {}", made.log);
                compiled += 1;
            }
        }
    }
    assert!(compiled >= 2 * 60, "{compiled} texts");
}

#[test]
fn both_targets_have_one_text_that_reads_like_the_kernel() {
    let all = texts();
    let of = |target: &str| {
        all.iter()
            .find(|text| {
                text.kernel == "twenty.saxpy" && text.implementation == "once" && text.target == target
            })
            .unwrap()
    };
    let text = &of("opencl").text;
    assert_eq!(*text, of("cuda").text);
    let (_, kernel) = text.split_once("FLASH_KERNEL ").unwrap();
    let expected = "\
flash_kernel(const float a_3, FLASH_GLOBAL const float *x_4, FLASH_GLOBAL float *y_6, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 index_2 = FLASH_INDEX(0);
        const flash_u64 own_5 = FLASH_OWN_INDEX(x_4);
        const flash_u64 own_7 = FLASH_OWN_INDEX(y_6);
        const float t_8 = FLASH_PROVED(x_4, own_5, FLASH_OF(x_4).origin);
        const float t_9 = FLASH_PROVED(y_6, own_7, FLASH_OF(y_6).origin);
        FLASH_PROVED(y_6, own_7, FLASH_OF(y_6).origin) = (t_9 + (a_3 * t_8));
    }
}
";
    assert_eq!(kernel, expected);
}

#[test]
fn what_was_written_by_hand_goes_first() {
    for implementation in inventory::iter::<ImplementationEntry>.into_iter().map(|entry| (entry.build)()) {
        // SAFETY: the texts of implementations live for ever.
        let (kernel, target) = unsafe { (implementation.kernel.text(), implementation.target.text()) };
        if kernel.starts_with("once.") {
            assert_eq!(implementation.priority, if target == "cpu" { 0 } else { -1 }, "{kernel}");
        }
    }
}
