//! Windows, structures and partition maps; the generated code is clean where everything is denied.
#![deny(warnings, missing_docs, unused, unsafe_op_in_unsafe_fn, private_interfaces)]

use flash_core::descriptor::{KernelDescriptor, PartBy, columns, csr_rows, part_by, rows, tiles};
use flash_core::kernel::views::{Item, Phased, Read, Scatter, Whole, Window, Write};
use flash_core::kernel::{Boxes, Candidate, Element, partition_map};
use flash_core::{KernelDefinition, kernel};

type Gathered<T> = Read<T>;

partition_map! {
    /// Three rows around each.
    pub static AROUND = "pass.around": around;
}

partition_map! {
    static WEIGHTED = "pass.weighted": |_, boxes| boxes.all("x"), cost: cost;
}

fn around(at: &Candidate<'_>, boxes: &mut Boxes) {
    let rows = at.values("row");
    let last = at.shape("x")[0];
    boxes.set("x", rows.start.saturating_sub(1)..(rows.end + 1).min(last));
}

fn cost(at: &Candidate<'_>) -> u64 {
    let start: &[u64] = at.structure("start");
    let rows = at.values("row");
    start[rows.end as usize] - start[rows.start as usize]
}

/// A sparse matrix times a vector.
#[derive(KernelDefinition)]
#[kernel(
    name = "pass.csr",
    dims(row),
    part_by(row, column = csr_rows(row, start), value = csr_rows(row, start), map = AROUND)
)]
pub struct Csr<'a, T: Element> {
    #[structure]
    start: Whole<'a, Read<u64>>,
    column: Window<'a, Read<u32>>,
    value: Window<'a, Read<T>>,
    x: Window<'a, Gathered<f64>>,
    y: Item<'a, Write<T>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "pass.maps", dims(x, y), part_by(a = rows(y), b = columns(x), c = tiles(x = 4, y = 2), map = self::WEIGHTED,))]
struct Maps<'a> {
    #[structure]
    start: Whole<'a, Read<u64>>,
    a: Window<'a, Read<f32>>,
    b: Phased<'a, f32>,
    c: Scatter<'a, u32>,
}

struct Plain;

#[kernel(for(f32))]
impl<T: Element> flash_core::kernel::CpuItem<Csr<'_, T>> for Plain {
    fn item(ix: flash_core::kernel::Index<1>, k: CsrItem<'_, T>) {
        let row = k.start[ix[0]] as usize..k.start[ix[0] + 1] as usize;
        let first: &[u32] = k.column.slice(row.clone());
        k.y.set(k.value.get(row.start + first.len() - 1));
    }
}

#[test]
fn maps_are_described_as_written() {
    let of = |descriptor: KernelDescriptor| descriptor.attributes.get::<PartBy>().cloned();
    let csr = || csr_rows("row", "start");
    assert_eq!(
        of(flash_core::kernel::descriptor_of::<Csr<'static, f32>>()),
        Some(part_by("row").map("column", csr()).map("value", csr()).by(&AROUND))
    );
    let any = PartBy::default().map("a", rows("y")).map("b", columns("x"));
    assert_eq!(
        of(flash_core::kernel::descriptor_of::<Maps<'static>>()),
        Some(any.map("c", tiles([("x", 4), ("y", 2)])).by("pass.weighted"))
    );
    assert_eq!(AROUND.name(), "pass.around");
}
