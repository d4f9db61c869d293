//! A kernel whose launches wait until a test opens the gate, in a process of its own.

use flash::kernel;
use flash::kernel::views::{Item, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use std::sync::{Condvar, Mutex};

/// Adds one, once the gate is open.
#[derive(KernelDefinition)]
#[kernel(name = "gate.wait", dims(i))]
struct Gate<'a> {
    of: Item<'a, ReadWrite<u64>>,
}

struct Plain;

/// The number of launches that have come to the gate, and whether it is open.
static STATE: Mutex<(usize, bool)> = Mutex::new((0, false));
static CHANGED: Condvar = Condvar::new();

#[kernel]
impl CpuItem<Gate<'_>> for Plain {
    fn item(_: Index<1>, k: GateItem<'_>) {
        let mut state = STATE.lock().unwrap();
        state.0 += 1;
        CHANGED.notify_all();
        drop(CHANGED.wait_while(state, |(_, is_open)| !*is_open).unwrap());
        *k.of += 1;
    }
}

/// A launch on a device, which waits at the gate. All that comes later waits behind it, in the device's
/// queue.
pub fn closed(rt: &RuntimeObj) -> Handle {
    closed_with(rt, FlashMemory::zeroed(1))
}

/// The same, of a memory whose first element is one more when it has passed.
pub fn closed_with(rt: &RuntimeObj, of: FlashMemory<u64>) -> Handle {
    let before = STATE.lock().unwrap().0;
    let handle = rt.submit(Gate::of(of)).exec_async([1]);
    drop(CHANGED.wait_while(STATE.lock().unwrap(), |(there, _)| *there == before).unwrap());
    handle
}

pub fn open() {
    STATE.lock().unwrap().1 = true;
    CHANGED.notify_all();
}
