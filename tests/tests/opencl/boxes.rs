//! Launches that are boxes, which have a program of their own, and other launches.

use crate::devices;
use crate::kernels::{Around, BOX, Grid, Plane, given};
use flash::prelude::*;
use flash_backend::offload::KernelSpec;
use flash_core::descriptor::Attributes;
use flash_core::index::Dim;
use serde_json::{Value, json};

#[test]
fn boxes_have_more_items_than_their_work_groups_along_any_dimension() {
    for device in devices("boxes::boxes_have_more_items_than_their_work_groups_along_any_dimension") {
        let rt = get_runtime(&device).unwrap();
        for (shape, whole) in [
            ([2500, 3, 2], true),
            ([3, 2500, 2], true),
            ([2, 3, 2500], false),
            ([37, 41, 19], false),
            ([1, 1, 300], true),
            ([1, 1, 1], true),
        ] {
            let out = FlashMemory::<u64>::zeroed(shape);
            let begin = usize::from(!whole);
            let dims = shape.map(|extent| Dim::from(begin as u64..extent as u64));
            rt.submit(Grid::of(&out)).options(Implementation::named("boxes")).exec(dims).unwrap();
            for (at, found) in out.read().unwrap().iter().enumerate() {
                let [x, y, z] = [at % shape[0], at / shape[0] % shape[1], at / shape[0] / shape[1]];
                let there = x.min(y).min(z) >= begin;
                let expected = if there { BOX + (1 + x + 1000 * y + 1_000_000 * z) as u64 } else { 0 };
                assert_eq!(*found, expected, "{device}, {shape:?}: [{x}, {y}, {z}]");
            }
        }
    }
}

#[test]
fn planes_are_boxes_wherever_they_begin_and_end() {
    for device in devices("boxes::planes_are_boxes_wherever_they_begin_and_end") {
        let rt = get_runtime(&device).unwrap();
        let shape = [333, 45];
        for ([x, y], [to_x, to_y]) in [
            ([0, 0], [333, 45]),
            ([17, 3], [333, 44]),
            ([31, 0], [64, 45]),
            ([5, 9], [6, 10]),
            ([0, 44], [333, 45]),
        ] {
            let out = FlashMemory::<u64>::zeroed(shape);
            for _ in 0..2 {
                rt.submit(Plane::of(&out)).exec((x..to_x, y..to_y)).unwrap();
            }
            for (at, found) in out.read().unwrap().iter().enumerate() {
                let at = [at % shape[0], at / shape[0]].map(|at| at as u64);
                let there = (x..to_x).contains(&at[0]) && (y..to_y).contains(&at[1]);
                let expected = if there { 2 * (BOX + 1 + at[0] + 1000 * at[1]) } else { 0 };
                assert_eq!(*found, expected, "{device}, {x}..{to_x}, {y}..{to_y}: {at:?}");
            }
        }
    }
}

#[test]
fn what_is_no_box_or_has_groups_of_a_wanted_size_is_run_by_the_other_program() {
    let test = "boxes::what_is_no_box_or_has_groups_of_a_wanted_size_is_run_by_the_other_program";
    for device in devices(test) {
        let rt = get_runtime(&device).unwrap();
        let mut of_64 = Attributes::default();
        of_64.set_by_name("work_group_size", 64.into(), true);
        let mut sorted = Attributes::default();
        sorted.set(sort_by(["x"]));
        let all = || [Dim::from(9), 7.into()];
        let steps = || [Dim::Range { start: 1, step: 2, count: 4 }, Dim::from(2..6)];
        let listed = || [Dim::from(9), count_by([6u64, 0, 2])];
        // A phase of the sorted one is a column: a box. One box and another program, again and again.
        for round in 0..2 {
            for (what, dims, options, is_box) in [
                ("all", all(), Attributes::default(), true),
                ("groups", all(), of_64.clone(), false),
                ("columns", all(), sorted.clone(), true),
                ("steps", steps(), Attributes::default(), false),
                ("list", listed(), Attributes::default(), false),
            ] {
                let out = FlashMemory::<u64>::zeroed([9, 7]);
                rt.submit(Plane::of(&out)).options(options).exec(dims).unwrap();
                for (at, found) in out.read().unwrap().iter().enumerate() {
                    let (x, y) = (at as u64 % 9, at as u64 / 9);
                    let there = match what {
                        "steps" => x % 2 == 1 && (2..6).contains(&y),
                        "list" => [6, 0, 2].contains(&y),
                        _ => true,
                    };
                    let expected = u64::from(there) * (u64::from(is_box) * BOX + 1 + x + 1000 * y);
                    assert_eq!(*found, expected, "{device}, {what}, round {round}: [{x}, {y}]");
                }
            }
        }
    }
}

/// What `Around` gives of a field of this width.
fn around(from: &[u64], width: usize, a: u64) -> Vec<u64> {
    let of = |(i, here): (usize, &u64)| {
        let west = if i % width > 0 { from[i - 1] } else { 0 };
        a + here + 2 * west + 3 * from.get(i + width).copied().unwrap_or(0)
    };
    from.iter().enumerate().map(of).collect()
}

#[test]
fn chains_of_boxes_give_the_same_when_they_come_again_with_other_fields_and_numbers() {
    let test = "boxes::chains_of_boxes_give_the_same_when_they_come_again_with_other_fields_and_numbers";
    for device in devices(test) {
        let rt = get_runtime(&device).unwrap();
        for round in 0..12u64 {
            // The same as before, more of each, of another shape.
            let shape = [[40, 6], [40, 6], [40, 6], [40, 70], [300, 7], [2, 3]][round as usize / 2];
            let mut expected: Vec<u64> = (0..shape[0] * shape[1]).map(|i| i as u64 % 11).collect();
            let fields = [expected.clone(), vec![0; expected.len()]]
                .map(|field| FlashMemory::from(field).with_shape(shape).unwrap());
            let mut chain = rt.pipeline();
            for link in 0..6 {
                let (from, to) = (&fields[link % 2], &fields[(link + 1) % 2]);
                let a = link as u64 + round % 3;
                chain = chain.submit(Around::of(a, from, to)).defer(shape);
                expected = around(&expected, shape[0], a);
            }
            chain.exec().unwrap();
            assert_eq!(*fields[0].read().unwrap(), expected, "{device}, round {round}");
        }
    }
}

#[test]
fn boxes_are_cut_over_devices() {
    let devices = devices("boxes::boxes_are_cut_over_devices");
    if devices.is_empty() {
        return;
    }
    let rt = get_runtime(&devices.join(",")).unwrap().options(Subspaces(3));
    let from: Vec<u64> = (0..70 * 50).map(|i| i * i % 97).collect();
    let (field, to) =
        (FlashMemory::from(from.clone()).with_shape([70, 50]).unwrap(), FlashMemory::zeroed([70, 50]));
    rt.submit(Around::of(3, &field, &to)).exec([70, 50]).unwrap();
    assert_eq!(*to.read().unwrap(), around(&from, 70, 3));
}

#[test]
fn a_text_that_looks_at_its_threads_takes_no_box() {
    let takes = |text: &'static str, more: Value| {
        let mut attributes = json!({ "cooperating": true });
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let implementation = given::<Plane<'_>>("seen", text, attributes);
        let mut spec = KernelSpec::read(implementation).unwrap();
        spec.payload(implementation).unwrap();
        let grid = spec.for_grid();
        let strides = 8 * 2;
        if let Some(of_boxes) = &grid {
            assert_eq!(of_boxes.told_bytes(), spec.told_bytes() + strides);
            assert!(of_boxes.source(text).contains("#define FLASH_GRID 1\n"));
        }
        assert!(!spec.source(text).contains("#define FLASH_GRID 1\n"));
        grid.is_some()
    };
    let plain = "FLASH_FOR_ITEMS FLASH_AT(out, FLASH_OWN_INDEX(out)) = FLASH_STRIDE(out, 1) + FLASH_PHASE();";
    assert!(takes(plain, json!({})));
    for more in [
        json!({ "work_group_size": 64 }),
        json!({ "single_work_item": true }),
        json!({ "grid_barrier": true }),
        json!({ "threads_per_item": 32 }),
        json!({ "items_per_thread": 8 }),
        json!({ "defines": { "HERE": "FLASH_THREAD()" } }),
        json!({ "build_options": "-DHERE=threadIdx.x" }),
    ] {
        assert!(!takes(plain, more.clone()), "{more}");
    }
    for text in [
        "FLASH_THREAD()",
        "FLASH_GLOBAL_ID(0)",
        "FLASH_LOCAL int x;",
        "FLASH_GROUP_SIZE()",
        "FLASH_LANE()",
        "FLASH_FOR_GROUPS",
        "flash_item",
        "flash_run.first",
        "#define MY(name) FLASH_##name",
        "#include \"helper.h\"",
        "get_local_id(0)",
        "sub_group_reduce_add(x)",
        "threadIdx.x",
        "blockIdx.y",
        "blockDim.x",
        "gridDim.x",
        "warpSize",
        "__syncthreads();",
        "__shfl_down_sync(0xffffffffu, x, 1)",
        "__shared__ float x;",
        "asm(\"mov.u32 %0, %tid.x;\" : \"=r\"(x));",
    ] {
        assert!(!takes(text, json!({})), "{text}");
    }
}
