use flash_core::kernel::views::{Item, Read, Write};
use flash_core::{FlashMemory, KernelDefinition, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "copy", dims(x))]
struct Copy<'a> {
    from: Item<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

fn slices(rt: &RuntimeObj) {
    let (from, mut to) = ([1.0f32; 3], [0.0f32; 3]);
    let handle = rt.submit(Copy::of(&from[..], &mut to[..])).exec_async([3]);
    drop(handle);
}

fn memories(rt: &RuntimeObj, from: &FlashMemory<f32>, to: &FlashMemory<f32>) {
    let handle = rt.submit(Copy::of(from, to.clone())).defer([3]).exec_async();
    drop(handle);
}

fn main() {}
