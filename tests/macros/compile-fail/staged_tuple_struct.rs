use flash_core::kernel::Staged;

#[derive(Clone, Copy, Staged)]
struct Point(f32, f32);

fn main() {}
