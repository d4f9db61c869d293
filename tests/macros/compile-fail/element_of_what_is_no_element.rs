use flash_core::kernel::Element;

#[derive(Clone, Copy, Element)]
#[repr(C)]
struct Particle {
    position: [f32; 4],
    name: &'static str,
}

#[derive(Clone, Copy, Element)]
struct Ordered {
    position: [f32; 3],
}

#[derive(Clone, Copy, Element)]
#[repr(u8)]
enum Kind {
    Light,
    Heavy,
}

#[derive(Clone, Copy, Element)]
#[repr(C)]
struct Pair<T>(T, T);

#[derive(Clone, Copy, Element)]
#[element(name = "f32")]
#[repr(C)]
struct Number(f32);

fn main() {}
