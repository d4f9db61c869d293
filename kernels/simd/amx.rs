//! Tiles: registers of 16 rows of 64 bytes, two of which one instruction multiplies.

use super::Pair;
use half::bf16;
use std::arch::asm;
use std::marker::PhantomData;

/// Rows, and columns, of a square of sums: two tiles of 16.
pub(crate) const SIDE: usize = 32;
/// Products of a step, in each sum.
pub(crate) const STEP: usize = 32;
/// Factors that a step loads of `a`, and of `b`: two tiles.
pub(crate) const LOADED: usize = SIDE * STEP;
/// Bytes that a step prefetches.
pub(crate) const PREFETCHED: usize = 256;

/// Sums of [`SIDE`] rows and columns, row by row.
pub(crate) type Square = [f32; SIDE * SIDE];

/// All tiles of this thread, each of 16 rows of 64 bytes, until it is dropped. The compiler uses none: it
/// does so only for operations on tiles, which Rust has only in assembly. The operating system keeps them
/// when it takes the thread off its CPU.
pub(crate) struct Tiles(PhantomData<*const ()>);

impl Tiles {
    /// # Safety
    /// The CPU has tiles, and the operating system lets the process use them. This thread has no other of
    /// this type.
    pub unsafe fn configured() -> Tiles {
        /// The layout that the instruction reads (Intel's manual, volume 2, LDTILECFG).
        #[repr(C, align(64))]
        struct Shapes {
            palette: u8,
            first_row: u8,
            reserved: [u8; 14],
            row_bytes: [u16; 16],
            rows: [u8; 16],
        }
        static SHAPES: Shapes = Shapes {
            palette: 1,
            first_row: 0,
            reserved: [0; 14],
            row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        // SAFETY: the caller vouches for the instruction. It reads the 64 bytes of a valid shape, or else
        // would trap, and sets all tiles to 0, which are not in use.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &SHAPES, options(nostack, readonly, preserves_flags)) };
        Tiles(PhantomData)
    }

    /// Sets `sums` to the product of panels of `a` and `b`, or adds it if `add`. Prefetches the lines from
    /// `ahead` on, [`PREFETCHED`] bytes in a step, and returns the rest.
    ///
    /// # Panics
    /// If the panels have no steps, or different numbers of them.
    #[inline(always)]
    pub fn multiply(
        &self,
        a: &[bf16],
        b: &[Pair],
        sums: &mut Square,
        add: bool,
        ahead: *const Pair,
    ) -> *const Pair {
        const { assert!(PREFETCHED == 256, "as the loop below does") };
        static ZEROS: [f32; SIDE] = [0.0; SIDE];
        let steps = a.len() / LOADED;
        assert!(steps > 0 && a.len() == steps * LOADED && b.len() == a.len() / 2, "panels of whole steps");
        let to = sums.as_mut_ptr();
        // Zeros are the same row again and again.
        let (from, stride) =
            if add { (to.cast_const(), SIDE * size_of::<f32>()) } else { (ZEROS.as_ptr(), 0) };
        let mut next = ahead;
        // SAFETY: the tiles are configured. They are loaded from `steps` times 2048 bytes of `a` and `b`, as
        // asserted, and from the square, or 16 times from 128 bytes of zeros, and are stored to the square; a
        // prefetch may have any address.
        unsafe {
            asm!(
                "tileloadd tmm0, [{from} + {stride}*1]",
                "tileloadd tmm1, [{from} + {stride}*1 + 64]",
                "tileloadd tmm2, [{lower} + {stride}*1]",
                "tileloadd tmm3, [{lower} + {stride}*1 + 64]",
                "2:",
                "tileloadd tmm4, [{a} + {line}*1]",
                "tileloadd tmm6, [{b} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetcht1 [{next}]",
                "prefetcht1 [{next} + 64]",
                "tileloadd tmm7, [{b} + {line}*1 + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetcht1 [{next} + 128]",
                "prefetcht1 [{next} + 192]",
                "tileloadd tmm5, [{a} + {line}*1 + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 2048",
                "add {b}, 2048",
                "add {next}, 256",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{to} + {line}*2], tmm0",
                "tilestored [{to} + {line}*2 + 64], tmm1",
                "tilestored [{to} + {line}*2 + 2048], tmm2",
                "tilestored [{to} + {line}*2 + 2112], tmm3",
                from = in(reg) from,
                lower = in(reg) from.wrapping_byte_add(16 * stride),
                stride = in(reg) stride,
                to = in(reg) to,
                a = inout(reg) a.as_ptr() => _,
                b = inout(reg) b.as_ptr() => _,
                line = in(reg) 64usize,
                next = inout(reg) next,
                steps = inout(reg) steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
        next
    }
}

impl Drop for Tiles {
    /// When the system takes the thread off its CPU, it then has no tiles to keep.
    fn drop(&mut self) {
        // SAFETY: the CPU has tiles, or there would be no value of this type, and they are no longer used.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}
