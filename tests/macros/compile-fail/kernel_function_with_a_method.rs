use flash_core::kernel::prelude::*;

struct Plain;

impl Plain {
    #[kernel_fn]
    fn half(self, x: f32) -> f32 {
        0.5 * x
    }
}

fn main() {}
