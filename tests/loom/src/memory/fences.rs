//! Both fences are full ones. (The light one relies on the kernel's promise about the heavy one, which no
//! memory model describes.)

use loom::sync::atomic::{Ordering, fence};

pub(crate) fn light() {
    fence(Ordering::SeqCst);
}

pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
}
