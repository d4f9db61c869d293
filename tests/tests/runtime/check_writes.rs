//! `FLASH_CHECK_WRITES=1`: a kernel that promised to write everything did.

use flash::kernel::views::{Item, Row, Tile, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Context, kernel};

#[derive(KernelDefinition)]
#[kernel(name = "check.leaves_out", dims(x, y))]
struct LeavesOut<'a> {
    /// The item that writes nothing.
    but: u64,
    to: Item<'a, Write<u64>>,
    #[along(x, y)]
    rows: Item<'a, Write<Row<u8>>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<LeavesOut<'_>> for Plain {
    fn item(ix: Index<2>, k: LeavesOutItem<'_>) {
        if (ix[0] + 10 * ix[1]) as u64 != k.but {
            k.to.set(1);
            for i in 0..k.rows.len() {
                k.rows[i] = 2;
            }
        } else if k.but.is_multiple_of(2) {
            k.to.set(1);
            k.rows[0] = 2;
        }
    }
}

fn launch(checks: bool, but: u64) -> (Result<(), flash::Error>, FlashMemory<u64>) {
    let context = Context::builder().set("check_writes", checks).build().unwrap();
    let rt = context.runtime(&flash_tests::key()).unwrap();
    let (to, rows) =
        (FlashMemory::from(vec![7u64; 12]).with_shape([4, 3]).unwrap(), FlashMemory::<u8>::zeroed([3, 4, 3]));
    (rt.submit(LeavesOut::of(but, &to, &rows)).exec((1..4, [0, 2].len())), to)
}

#[test]
fn an_element_that_is_left_out_is_reported_with_kernel_argument_and_element() {
    // Item (3, 1): element 3 + 4 * 1.
    let (outcome, to) = launch(true, 13);
    let text = outcome.unwrap_err().to_string();
    for part in ["check.leaves_out", "`to`", "element 7", "ReadWrite"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(matches!(to.read(), Err(flash::Error::Poisoned)));
    // Item (2, 1) leaves out the second and third byte of its row: 3 * (2 + 4) + 1.
    let text = launch(true, 12).0.unwrap_err().to_string();
    assert!(text.contains("`rows`") && text.contains("element 19"), "{text}");
}

#[test]
fn a_kernel_that_writes_all_passes_and_elements_outside_the_launch_keep_their_value() {
    let (outcome, to) = launch(true, 99);
    outcome.unwrap();
    assert_eq!(*to.read().unwrap(), [7, 1, 1, 1, 7, 1, 1, 1, 7, 7, 7, 7]);
}

#[test]
fn without_it_nothing_is_checked() {
    let (outcome, to) = launch(false, 13);
    outcome.unwrap();
    let to = to.read().unwrap();
    assert_eq!((&to[..7], &to[8..]), (&[7, 1, 1, 1, 7, 1, 1][..], &[7; 4][..]));
    // Its own, or 0 in another memory.
    assert!([0, 7].contains(&to[7]), "{}", to[7]);
}

/// One element of each tile but the last.
#[derive(KernelDefinition)]
#[kernel(name = "check.leaves_out_of_tiles", dims(i, j))]
struct LeavesOutOfTiles<'a> {
    leaves: u64,
    to: Item<'a, Write<Tile<u64, 4, 3>>>,
}

#[kernel(devices)]
impl CpuItem<LeavesOutOfTiles<'_>> for Plain {
    fn item(ix: Index<2>, mut k: LeavesOutOfTilesItem<'_>) {
        for y in 0..k.to.rows() {
            for x in 0..k.to.columns() {
                if !(k.leaves == 1 && ix[0] == 2 && ix[1] == 1 && y == 1 && x == 0) {
                    k.to.row_mut(y)[x] = 5;
                }
            }
        }
    }
}

#[test]
fn an_element_that_is_left_out_of_a_tile_is_reported_and_what_is_beyond_an_edge_is_not() {
    let context = Context::builder().set("check_writes", true).build().unwrap();
    let rt = context.runtime(&flash_tests::key()).unwrap();
    // The last tiles have one column and two rows.
    let to = FlashMemory::from(vec![7_u64; 9 * 5]).with_shape([9, 5]).unwrap();
    rt.submit(LeavesOutOfTiles::of(0, &to)).exec([3, 2]).unwrap();
    assert_eq!(to.to_vec().unwrap(), [5; 45]);
    let text = rt.submit(LeavesOutOfTiles::of(1, &to)).exec([3, 2]).unwrap_err().to_string();
    assert!(text.contains("`to`") && text.contains(&format!("element {}", 9 * 4 + 8)), "{text}");
}

/// Several submissions, of which one leaves out an element.
#[test]
fn a_pipeline_goes_on_after_a_check() {
    let context = Context::builder().set("check_writes", true).build().unwrap();
    let rt = context.runtime(&flash_tests::key()).unwrap();
    let memory = || FlashMemory::<u64>::zeroed([10, 10]);
    let (good, bad, rows) = (memory(), memory(), FlashMemory::<u8>::zeroed([3, 10, 10]));
    for _ in 0..2 {
        let error = rt
            .submit(LeavesOut::of(101, &good, &rows))
            .defer((10, 10))
            .submit(LeavesOut::of(55, &bad, &rows))
            .defer((10, 10))
            .submit(LeavesOut::of(103, &good, &rows))
            .exec((10, 10))
            .unwrap_err();
        assert!(error.to_string().contains("element 55"), "{error}");
        assert_eq!(*good.read().unwrap(), [1; 100]);
        assert!(matches!(bad.read(), Err(flash::Error::Poisoned)));
    }
    rt.submit(LeavesOut::of(101, &bad, &rows)).exec((10, 10)).unwrap();
    assert_eq!(*bad.read().unwrap(), [1; 100]);
}
