use flash_core::kernel::Element;

#[derive(Clone, Copy, Element)]
#[repr(C)]
struct Particle {
    mass: f32,
    position: [f64; 3],
}

fn main() {}
