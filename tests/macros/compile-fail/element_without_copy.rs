use flash_core::kernel::Element;

#[derive(Element)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
}

fn main() {}
