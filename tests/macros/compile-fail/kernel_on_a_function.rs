use flash_core::kernel;

#[kernel]
fn saxpy(a: f32, x: &f32, y: &mut f32) {
    *y += a * *x;
}

fn main() {}
