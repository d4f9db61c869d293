use flash_core::{FlashMemory, RuntimeObj};
use std::cell::Cell;

fn count(rt: &RuntimeObj, x: &FlashMemory<f32>) {
    let calls = Cell::new(0);
    let _ = rt.for_each(10, x.r(), |_| calls.set(calls.get() + 1));
}

fn main() {}
