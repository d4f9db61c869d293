use flash_core::FlashMemory;

#[derive(Clone, Copy)]
struct Particle {
    position: [f32; 3],
}

fn main() {
    let _ = FlashMemory::from(vec![Particle { position: [0.0; 3] }]);
}
