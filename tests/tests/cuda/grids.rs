//! Grids of blocks: their limits, the kernels that have them, and kernels of more dimensions than they have.

use crate::devices;
use crate::kernels::{BOX, Grid, given};
use flash::kernel::ImplementationEntry;
use flash::kernel::views::{Item, ReadWrite};
use flash::prelude::*;
use flash_backend::offload::KernelSpec;
use flash_core::abi::KIND_INT_SRC;
use flash_core::descriptor::Attributes;
use flash_core::index::Dim;
use serde_json::json;

/// Counts work items in a memory, along a dimension of its own.
#[derive(KernelDefinition)]
#[kernel(name = "cuda.tall", dims(x, y, z))]
struct Tall<'a> {
    #[along(y)]
    rows: Item<'a, ReadWrite<u64>>,
}

/// The same along the third.
#[derive(KernelDefinition)]
#[kernel(name = "cuda.deep", dims(x, y, z))]
struct Deep<'a> {
    #[along(z)]
    rows: Item<'a, ReadWrite<u64>>,
}

/// Adds an index to rows, and much more where the threads are a grid. Its blocks have one thread, so that
/// there are as many of them as work items.
fn adding(entry: &str, index: &str) -> &'static str {
    format!(
        "extern \"C\" __global__ void __launch_bounds__(1) {entry}(flash_u64 *rows, FLASH_ARGS) {{
    FLASH_FOR_ITEMS {{
#ifdef FLASH_GRID
        FLASH_AT(rows, FLASH_OWN_INDEX(rows)) += 1000000000;
#endif
        FLASH_AT(rows, FLASH_OWN_INDEX(rows)) += 1 + {index};
    }}
}}
"
    )
    .leak()
}

/// Four dimensions, which no grid has.
#[derive(KernelDefinition)]
#[kernel(name = "cuda.four", dims(x, y, z, w))]
struct Four<'a> {
    out: Item<'a, ReadWrite<u64>>,
}

const FOUR: &str = "FLASH_KERNEL four(flash_u64 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(out, FLASH_OWN_INDEX(out)) +=
            1 + FLASH_INDEX(0) + 100 * FLASH_INDEX(1) + 10000 * FLASH_INDEX(2) + 1000000 * FLASH_INDEX32(3);
    }
}
";

flash_core::__private::inventory::submit! {
    ImplementationEntry {
        kernel: <Tall<'_> as flash::kernel::KernelDefinition>::NAME,
        build: || given::<Tall<'_>>("text", adding("tall", "FLASH_INDEX(1)"), json!({ "cooperating": true })),
        module: module_path!(),
    }
}
flash_core::__private::inventory::submit! {
    ImplementationEntry {
        kernel: <Deep<'_> as flash::kernel::KernelDefinition>::NAME,
        build: || given::<Deep<'_>>("text", adding("deep", "FLASH_INDEX32(2)"), json!({ "cooperating": true })),
        module: module_path!(),
    }
}
flash_core::__private::inventory::submit! {
    ImplementationEntry {
        kernel: <Four<'_> as flash::kernel::KernelDefinition>::NAME,
        build: || given::<Four<'_>>("text", FOUR, json!({ "cooperating": true })),
        module: module_path!(),
    }
}

#[test]
fn a_box_with_more_blocks_than_a_grid_has_is_run_as_a_line() {
    for device in devices("grids::a_box_with_more_blocks_than_a_grid_has_is_run_as_a_line") {
        let rt = get_runtime(&device).unwrap();
        // Inside the limit, beyond it, and inside it again.
        for extent in [65_535, 65_537, 65_535] {
            let [tall, deep] = [(); 2].map(|()| FlashMemory::<u64>::zeroed([extent]));
            rt.submit(Tall::of(&tall)).exec([1, extent, 1]).unwrap();
            rt.submit(Deep::of(&deep)).exec([1, 1, extent]).unwrap();
            let more = if extent > 65_535 { 0 } else { BOX };
            for (what, rows) in [("tall", tall), ("deep", deep)] {
                let wrong = rows.read().unwrap().iter().zip(1..).position(|(row, i)| *row != more + i);
                assert_eq!(wrong, None, "{device}, {what}, {extent}");
            }
        }
    }
}

#[test]
fn who_asks_for_shared_memory_has_blocks_of_a_line() {
    for device in devices("grids::who_asks_for_shared_memory_has_blocks_of_a_line") {
        let rt = get_runtime(&device).unwrap();
        for bytes in [None, Some(1024u64), Some(60 << 10), None] {
            let mut options = Attributes::default();
            if let Some(bytes) = bytes {
                options.set_by_name("shared_memory_bytes", bytes.into(), true);
            }
            let out = FlashMemory::<u64>::zeroed([3, 2, 2]);
            let run = rt.submit(Grid::of(&out)).options(options).options(Implementation::named("boxes"));
            run.exec([3, 2, 2]).unwrap();
            let more = if bytes.is_none() { BOX } else { 0 };
            let expected: Vec<u64> =
                (0..12).map(|i| more + 1 + i % 3 + 1000 * (i / 3 % 2) + 1_000_000 * (i / 6)).collect();
            assert_eq!(*out.read().unwrap(), expected, "{device}, {bytes:?}");
        }
    }
}

#[test]
fn kernels_of_four_dimensions_cooperate_as_those_of_fewer_do() {
    for device in devices("grids::kernels_of_four_dimensions_cooperate_as_those_of_fewer_do") {
        let rt = get_runtime(&device).unwrap();
        let shape = [7u64, 5, 4, 3];
        let all = || shape.map(|extent| (0..extent).collect::<Vec<u64>>());
        let some = [vec![2, 3, 4, 5], vec![4, 0, 2], vec![1, 3], vec![2]];
        let odd = [
            Dim::from(2..6),
            count_by([4u64, 0, 2]),
            Dim::Range { start: 1, step: 2, count: 2 },
            (2..3).into(),
        ];
        let mut sorted = Attributes::default();
        sorted.set(sort_by(["y"]));
        for (what, dims, values, options) in [
            ("all", shape.map(Dim::from), all(), Attributes::default()),
            ("some", odd.clone(), some.clone(), Attributes::default()),
            ("sorted", shape.map(Dim::from), all(), sorted.clone()),
            ("some, sorted", odd, some, sorted),
        ] {
            let out = FlashMemory::<u64>::zeroed(shape.map(|extent| extent as usize));
            rt.submit(Four::of(&out)).options(options).exec(dims).unwrap();
            for (i, found) in out.read().unwrap().iter().enumerate() {
                let i = i as u64;
                let at = [i % 7, i / 7 % 5, i / 35 % 4, i / 140];
                let there = at.iter().zip(&values).all(|(at, values)| values.contains(at));
                let sum = 1 + at[0] + 100 * at[1] + 10_000 * at[2] + 1_000_000 * at[3];
                assert_eq!(*found, u64::from(there) * sum, "{device}, {what}: {at:?}");
            }
        }
    }
}

#[test]
fn of_the_library_the_kernels_of_grids_are_launched_as_such() {
    let mut found = Vec::new();
    for entry in flash_core::__private::inventory::iter::<ImplementationEntry> {
        let made = (entry.build)();
        // SAFETY: strings of implementations live for ever.
        let (target, kernel) = unsafe { (made.target.text(), made.kernel.text()) };
        let ours = ["flash.js", "flash.star", "flash.diffusion."].iter().any(|name| kernel.starts_with(name));
        if target == "cuda" && ours && made.kind == KIND_INT_SRC {
            let mut spec = KernelSpec::read(made).unwrap();
            spec.payload(made).unwrap();
            found.push((kernel, spec.for_grid().is_some()));
        }
    }
    found.sort();
    let expected = [
        ("flash.diffusion.count", false),
        ("flash.diffusion.heat", true),
        ("flash.diffusion.walk", false),
        ("flash.js", true),
        ("flash.js", true),
        ("flash.star", true),
        ("flash.star", true),
    ];
    assert_eq!(found, expected.map(|(kernel, is)| (kernel.to_owned(), is)));
}
