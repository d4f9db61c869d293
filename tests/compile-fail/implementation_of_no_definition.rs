use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index};

struct Fill;
struct Plain;

#[kernel]
impl CpuItem<Fill> for Plain {
    fn item(_: Index<1>, _: ()) {}
}

fn main() {}
