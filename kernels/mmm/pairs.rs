//! Products of factors in bf16, which are the upper halves of numbers in single precision.

use super::blocked::{Alone, Packed, multiply};
use super::product::Product;
use super::tiles::Tiles;
use super::{Mmm, MmmWhole, bf16};
use crate::simd::{Avx512Bf16, Pair, Pairs, features};
use flash_core::kernel::{CpuWhole, Index, Space, Threads};

impl Packed<bf16> for Pair {
    const TOGETHER: usize = 2;
    #[inline(always)]
    fn of(first: bf16, second: bf16) -> Pair {
        Pair::new(first, second)
    }
}

impl Tiles<Pair> for Avx512Bf16 {
    type Sum = f32;
    type Factors = Pairs;
    const ROWS: usize = 14;
    const DEPTH: usize = 1024;
}

features! {
    Avx512Bf16: kernel(priority = 50)
    impl CpuWhole<Mmm<'_, bf16>> for Avx512Bf16 {
        const PARTS: bool = true;

        fn whole(space: Space<'_, Index<1>>, k: MmmWhole<'_, bf16>, threads: Threads<'_>) {
            Product::of(&space, k, |product| multiply::<Avx512Bf16, Pair, bf16>(product, Alone, threads));
        }
    }
}
