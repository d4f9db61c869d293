use flash_core::KernelDefinition;
use flash_core::kernel::views::{Item, Read, Window, Write};
use flash_core::kernel::{Boxes, Candidate};

fn around(at: &Candidate<'_>, boxes: &mut Boxes) {
    boxes.set("from", [at.values("x")]);
}

#[derive(KernelDefinition)]
#[kernel(name = "step", dims(x), part_by(x, map = around))]
struct Step<'a> {
    from: Window<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

fn main() {}
