//! Loops over work items, compiled for the CPU that they run on.
//!
//! A program is compiled for any CPU of its kind. On x86-64 that has vectors of 128 bits, and a fused
//! multiplication and addition is a call of a function. So the loop around the body of an item or a team is
//! compiled a second time, with more features, and a share of a launch takes this copy where the CPU has
//! them. What is inlined into the loop has them, too; a function that stays one of its own has not.
//!
//! Results have the same bits, as far as Rust fixes them: the compiler fuses nothing by itself and keeps the
//! order of floating-point operations, whatever the features.

/// Calls `body`, which is inlined into a function for this CPU.
#[inline(always)]
pub(super) fn for_this_cpu<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
    if wide::is_there() {
        // SAFETY: this CPU has the instructions.
        return unsafe { wide::with(body) };
    }
    any(body)
}

/// A function beside the other one, and not inside of what calls that: each has on the stack what its items
/// put there.
#[inline(never)]
fn any<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// What the psABI of x86-64 calls its level 3, as far as compilers make use of it. A program that is compiled
/// for such CPUs alone has it in every function.
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod wide {
    use flash_backend::cpu_has;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    const UNKNOWN: u8 = 0;
    const ABSENT: u8 = 1;
    const THERE: u8 = 2;

    /// True if this CPU has it.
    #[inline(always)]
    pub fn is_there() -> bool {
        static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);

        #[cold]
        #[inline(never)]
        fn look() -> u8 {
            let known = if FEATURES.split(',').all(cpu_has) { THERE } else { ABSENT };
            KNOWN.store(known, Relaxed);
            known
        }

        let known = match KNOWN.load(Relaxed) {
            UNKNOWN => look(),
            known => known,
        };
        known == THERE
    }

    macro_rules! features {
        ($features:literal) => {
            const FEATURES: &str = $features;

            /// Calls `body`.
            #[inline(never)]
            #[target_feature(enable = $features)]
            pub fn with<R>(body: impl FnOnce() -> R) -> R {
                body()
            }
        };
    }
    features!("avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c");
}

#[cfg(test)]
mod tests {
    use super::for_this_cpu;
    use std::hint::black_box;

    /// A bit of all that compilers treat in another way with other features.
    #[inline(always)]
    fn values(x: &[f32], y: &[f64]) -> Vec<u64> {
        let mut out = Vec::new();
        for (&x, &y) in x.iter().zip(y) {
            let f = [x * 3.1 + x, x.mul_add(3.1, -x), x.sqrt(), x.floor(), x.round(), x.min(0.7), x / 7.3];
            let d = [y * x as f64 - y, y.mul_add(y, 1e-9), (y as f32).abs().into(), y.trunc(), y.max(-1.0)];
            // Rust does not fix the bits of a NaN.
            out.extend(f.map(|f| if f.is_nan() { u64::MAX } else { f.to_bits().into() }));
            out.extend(d.map(|d| if d.is_nan() { u64::MAX } else { d.to_bits() }));
            out.extend([x as i32 as u64, y as u64, x.to_bits().leading_zeros().into(), y as i64 as u64]);
            out.push((x.to_bits().rotate_left(3).count_ones() + x.to_bits().trailing_zeros()).into());
        }
        let sums = x.iter().fold((0.0_f32, f32::MAX), |(sum, least), x| (sum + x * x, least.min(*x)));
        out.extend([sums.0, sums.1].map(|f| u64::from(f.to_bits())));
        out
    }

    #[test]
    fn results_have_the_same_bits_whatever_the_instructions() {
        let x: Vec<f32> = (0..1000).map(|i| (i as f32 - 411.3) * 17.77).collect();
        let y: Vec<f64> = x.iter().map(|x| f64::from(*x).powi(5) / 3.0).collect();
        let (x, y) = (black_box(x), black_box(y));
        let any = black_box(values as fn(&[f32], &[f64]) -> Vec<u64>)(&x, &y);
        let wide = for_this_cpu(
            #[inline(always)]
            || values(&x, &y),
        );
        assert_eq!(wide, any);
    }
}
