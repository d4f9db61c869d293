//! Both fences are full ones. (What makes the light one enough is the kernel's
//! promise about the heavy one, which no model of memory knows.)

use loom::sync::atomic::{Ordering, fence};

pub(crate) fn light() {
    fence(Ordering::SeqCst);
}

pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
}
