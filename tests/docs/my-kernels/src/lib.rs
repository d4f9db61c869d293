//! A kernel of FLASH's library, implemented anew.

use flash::kernel::prelude::*;
use flash::kernels::ewmm::{Ewmm, EwmmItem};

/// Multiplies, too.
pub struct Mine;

#[kernel]
impl CpuItem<Ewmm<'_, f32>> for Mine {
    fn item(_: Index<1>, k: EwmmItem<'_, f32>) {
        k.c.set(k.a * k.b);
    }
}
