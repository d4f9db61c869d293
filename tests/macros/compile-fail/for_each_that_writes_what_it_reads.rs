use flash_core::{FlashMemory, RuntimeObj};

fn double(rt: &RuntimeObj, x: &FlashMemory<f32>) {
    let _ = rt.for_each(10, x.r(), |x| *x *= 2.0);
}

fn main() {}
