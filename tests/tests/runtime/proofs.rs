//! Written elements are exclusive and inside, or the launch is refused: against a check of all pairs.

use super::model::{Barriers, Case, case};
use flash::kernel;
use flash::kernel::prelude::kernel_fn;
use flash::kernel::views::{Item, Phased, Read, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_core::index::Dim;
use proptest::prelude::*;
use std::cell::Cell;

struct ByItem;

/// Kernels that change their own element, named by some of three dimensions.
macro_rules! own {
    ($($name:ident $args:ident $text:tt ($($dim:ident),+) $along:expr;)*) => {
        $(
            #[derive(KernelDefinition)]
            #[kernel(name = $text, dims(x, y, z))]
            struct $name<'a> {
                #[along($($dim),+)]
                own: Item<'a, ReadWrite<u64>>,
            }

            #[kernel(devices)]
            impl CpuItem<$name<'_>> for ByItem {
                fn item(ix: Index<3>, k: $args<'_>) {
                    *k.own = change(*k.own, [ix[0] as u64, ix[1] as u64, ix[2] as u64]);
                }
            }
        )*

        /// Dimensions along the array of each kernel.
        const ALONG: &[&[usize]] = &[$(&$along),*];

        fn launch(rt: &RuntimeObj, kernel: usize, own: &FlashMemory<u64>, case: &Case) -> Result<(), flash::Error> {
            let (options, dims) = (case.options(&["x", "y", "z"]), case.dims());
            let mut next = 0;
            $(
                if next == kernel {
                    return rt.submit($name::of(own)).options(options).exec(dims);
                }
                next += 1;
            )*
            panic!("there are {next} kernels")
        }
    };
}

own! {
    OwnX OwnXItem "proofs.x" (x) [0];
    OwnY OwnYItem "proofs.y" (y) [1];
    OwnZ OwnZItem "proofs.z" (z) [2];
    OwnXy OwnXyItem "proofs.xy" (x, y) [0, 1];
    OwnZx OwnZxItem "proofs.zx" (z, x) [2, 0];
    OwnYz OwnYzItem "proofs.yz" (y, z) [1, 2];
    OwnXyz OwnXyzItem "proofs.xyz" (x, y, z) [0, 1, 2];
}

#[kernel_fn]
fn change(old: u64, index: [u64; 3]) -> u64 {
    old.wrapping_mul(31).wrapping_add(1 + index[0] + 20 * index[1] + 400 * index[2])
}

/// The extents of the array: some for a shape, none for the largest values.
fn extents(case: &Case, along: &[usize], shape: Option<[i64; 3]>) -> Vec<u64> {
    let most = |d: usize| case.entries[d].values().into_iter().max().map_or(1, |max| max + 1);
    along.iter().map(|&d| most(d).saturating_add_signed(shape.map_or(0, |s| s[d])).max(1)).collect()
}

/// By all pairs: do two items of one phase have the same element?
fn conflict(phases: &[Vec<Vec<u64>>], along: &[usize]) -> bool {
    let same = |a: &Vec<u64>, b: &Vec<u64>| along.iter().all(|&d| a[d] == b[d]);
    phases.iter().any(|phase| (0..phase.len()).any(|i| phase[..i].iter().any(|a| same(a, &phase[i]))))
}

/// Bounds as the specification words them: with a shape the value along each axis lies below its
/// extent; without one, as many elements as the largest values ask for.
fn inside(case: &Case, along: &[usize], extents: &[u64], shaped: bool, len: u64) -> bool {
    let largest: Vec<u64> =
        along.iter().map(|&d| case.entries[d].values().into_iter().max().unwrap_or(0)).collect();
    match shaped {
        true => largest.iter().zip(extents).all(|(max, extent)| max < extent),
        false => largest.iter().map(|max| max + 1).product::<u64>() <= len,
    }
}

#[flash_tests::test]
fn a_launch_is_accepted_where_no_two_items_of_a_phase_share_an_element_and_all_lie_inside() {
    let rt = flash_tests::runtime();
    let shapes = prop_oneof![2 => Just(None), 2 => Just(Some([0, 0, 0])), 1 => [-1..2i64, -1..2i64, -1..2i64].prop_map(Some)];
    let config = ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() };
    let counts = [const { Cell::new(0u32) }; 2];
    proptest!(config, |(case in case(3, 4), kernel in 0..ALONG.len(), shape in shapes, cut in -2..2i64)| {
        let along = ALONG[kernel];
        let extents = extents(&case, along, shape);
        let mut len = extents.iter().product::<u64>();
        if shape.is_none() {
            len = len.saturating_add_signed(cut);
        }
        let own = FlashMemory::from_iter((0..len).map(|i| i * 3));
        let own = if shape.is_some() { own.with_shape(&extents[..]).unwrap() } else { own };
        let phases = case.phases();
        let good = phases.is_empty()
            || (inside(&case, along, &extents, shape.is_some(), len) && !conflict(&phases, along));
        let before = own.read().unwrap().to_vec();
        let outcome = launch(&rt, kernel, &own, &case);
        let after = own.read().unwrap().to_vec();
        counts[usize::from(good)].update(|n| n + 1);
        match &outcome {
            Ok(()) => {
                prop_assert!(good, "accepted, and two items of a phase share an element or leave the array");
                // Strides follow the shape, or the largest values.
                let natural = self::extents(&case, along, None);
                let extents = if shape.is_some() { &extents } else { &natural };
                let mut expected = before;
                for item in phases.iter().flatten() {
                    let (mut at, mut stride) = (0, 1);
                    for (&d, extent) in along.iter().zip(extents) {
                        at += item[d] * stride;
                        stride *= extent;
                    }
                    let own = &mut expected[at as usize];
                    *own = change(*own, [item[0], item[1], item[2]]);
                }
                prop_assert_eq!(after, expected);
            }
            Err(error) => {
                // `only` and sets of values may be refused where the pairs would do.
                let exact = matches!(case.group, None | Some(Barriers::Dims(_)));
                prop_assert!(!good || !exact, "refused: {}", error);
                prop_assert_eq!(after, before, "a refused launch runs nothing");
                let text = error.to_string();
                prop_assert!(text.contains("proofs.") && text.contains("argument `own`"), "{}", text);
            }
        }
    });
    assert!(counts.iter().all(|n| n.get() > 500), "refused and accepted: {counts:?}");
}

#[derive(KernelDefinition)]
#[kernel(name = "proofs.phased", dims(body, turn), group_by(turn))]
struct Turns<'a> {
    #[along(body)]
    table: Item<'a, Read<u32>>,
    #[along(body)]
    own: Phased<'a, u32>,
}

#[kernel(devices)]
impl CpuItem<Turns<'_>> for ByItem {
    fn item(_: Index<2>, mut k: TurnsItem<'_>) {
        k.own.set(k.own.own() + *k.table);
    }
}

fn refusal(
    table: usize,
    own: usize,
    dims: (Dim, Dim),
    order: impl flash_core::descriptor::IntoOptions<flash_core::runtime::Options>,
) -> String {
    let rt = flash_tests::runtime();
    let (table, own) = (FlashMemory::zeroed(table), FlashMemory::zeroed(own));
    rt.submit(Turns::of(&table, &own)).options(order).exec(dims).unwrap_err().to_string()
}

#[flash_tests::test]
fn refusals_name_kernel_argument_dimension_and_what_was_expected_and_found() {
    let none = flash_core::descriptor::Attributes::default;
    let text = refusal(3, 8, (8.into(), 2.into()), none());
    for part in ["kernel `proofs.phased`", "argument `table`", "8", "3"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = refusal(8, 3, ((2..8).into(), 2.into()), none());
    assert!(text.contains("argument `own`") && text.contains('8') && text.contains('3'), "{text}");

    let text = refusal(8, 8, (8.into(), 2.into()), (sort_by(["body"]), group_by(only(["body"]))));
    assert!(text.contains("argument `own`") && text.contains("`turn`"), "{text}");
    let text = refusal(8, 8, (count_by([1, 1, 2]), 2.into()), none());
    assert!(text.contains("argument `own`") && text.contains("`body`"), "{text}");
    let text = refusal(8, 8, (8.into(), count_by([3, 3])), none());
    assert!(text.contains("argument `own`") && text.contains("`turn`"), "{text}");
    assert!(!text.contains("dimension 0") && !text.contains("dimension 1"), "dimensions go by name: {text}");
}

#[flash_tests::test]
fn a_read_only_element_may_be_shared() {
    let rt = flash_tests::runtime();
    let (table, own) = (FlashMemory::from(vec![5u32; 1]), FlashMemory::<u32>::zeroed(1));
    rt.submit(Turns::of(&table, &own)).exec((1, 10)).unwrap();
    assert_eq!(own.get(0).unwrap(), 50);
}

#[flash_tests::test]
fn a_dimension_of_equal_values_is_one_position_per_barrier_or_refused() {
    // Equal neighbours are no change, so both items of a body fall into one phase.
    let text = refusal(4, 4, (4.into(), count_by([0, 0])), group_by(only(["turn"])));
    assert!(text.contains("argument `own`"), "{text}");
}
