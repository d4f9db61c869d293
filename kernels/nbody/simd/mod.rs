//! All-pairs gravity for a run of bodies, with the lanes of one register for as many bodies.
//!
//! ```text
//! a_i = sum over j of  g m_j d_ij (|d_ij|^2 + softening2)^(-3/2),    d_ij = x_j - x_i
//! ```
//!
//! Bodies *i* lie in lanes and every *j* is broadcast to them, so that nothing is ever summed
//! across lanes. A *tile* is a few registers of bodies that share each broadcast; how many fill the
//! pipelines without spilling the sums was measured for each version.
//!
//! # The power -3/2
//!
//! The vector instructions that approximate `y = r2^(-1/2)` leave a relative error of 2^-14
//! (AVX-512) or 1.5 * 2^-12 (AVX2). With `e = 1 - r2 y^2`, the power wanted is
//! `y^3 (1 - e)^(-3/2)`, and a short polynomial in `e` is cheaper and more exact than Newton steps
//! on `y` followed by a cube: up to `e` (which is one Newton step) for f32 on AVX-512, up to `e^2`
//! for f32 on AVX2, up to `e^3` for f64 on AVX-512. Completing the square or the cube saves an
//! operation; the leading coefficient goes into a factor that is applied, together with `g`, once
//! per body instead of once per pair. The other versions take a square root and divide.
//!
//! # What a result depends on
//!
//! On the body and the system, never on the run that it was computed in: lanes do not meet, a last
//! register that is not full does the same work as a full one, and the order of summation is fixed
//! by *j* alone. Threads and cuts therefore do not change a bit.
//!
//! That order is in blocks of 512 bodies *j*, whose sums are then added. One sum over all of 16,000
//! bodies is off by up to 7e-6 of an acceleration in f32; blocks keep it at 6e-7.
//!
//! # What is not finite
//!
//! An acceleration that comes out infinite or not a number is computed once more by the formula
//! itself, in double precision, before it is believed. So a square that overflows f32 (distances
//! beyond 1.8e19) is no error but only slow. There, and in all versions where the result shows it,
//! bodies whose r2 is below the smallest normal number of the element type are in one place and do
//! not attract each other.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub use avx2::{accelerate_f32_avx2, accelerate_f64_avx2};
#[cfg(target_arch = "x86_64")]
pub use avx512::{accelerate_f32_avx512, accelerate_f64_avx512};
pub use portable::{accelerate_f32_portable, accelerate_f64_portable};

use super::Real;

/// Bodies *j* whose contributions are summed before they are added to the total.
/// Of 16,000 bodies in f32 the largest error is 5.7e-7 with 256, 6.0e-7 with 512 and 1.0e-6 with 1,024, the
/// average one 1.1, 1.0 and 1.3e-7; a block costs some hundred cycles of its own.
const BLOCK: usize = 512;

/// Asserts the requirements of every version on its arguments.
///
/// # Panics
///
/// If there is not one mass per position, or if the run leaves the system.
#[track_caller]
fn check<T>(pos: &[[T; 3]], mass: &[T], first: usize, acc: &[[T; 3]]) {
    assert!(
        pos.len() == mass.len(),
        "N-body: expected one mass for each of {} positions, found {}",
        pos.len(),
        mass.len()
    );
    assert!(
        first.checked_add(acc.len()).is_some_and(|end| end <= pos.len()),
        "N-body: expected a run of bodies within 0..{}, found {} from {first} on",
        pos.len(),
        acc.len()
    );
}

/// The formula in double precision, for the rare body whose fast result is not finite.
#[cold]
#[inline(never)]
fn formula<T: Real + Into<f64>>(g: T, softening2: T, pos: &[[T; 3]], mass: &[T], i: usize) -> [f64; 3] {
    let (g, softening2) = (g.into(), softening2.into());
    let [x, y, z] = pos[i].map(Into::into);
    let mut total = [0.0; 3];
    for (p, &m) in pos.iter().zip(mass) {
        let d = [p[0].into() - x, p[1].into() - y, p[2].into() - z];
        let r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening2;
        if r2 < T::SMALLEST.into() {
            continue;
        }
        let inv = 1.0 / r2.sqrt();
        // In this order neither factor leaves the range where the product is in it.
        let weight = (g * m.into() * inv) * (inv * inv);
        for (total, d) in total.iter_mut().zip(d) {
            *total += weight * d;
        }
    }
    total
}

/// Defines one version: the walk over runs, tiles and blocks, from a module of lane operations.
///
/// The module has the element type `T`, the lanes `V` and their number `WIDTH`; `splat`, `load`,
/// `store`, `sub`, `add`, `mul` and `mul_add`; `weight(r2, m)`, which is `m r2^(-3/2)` but for the
/// factor `SCALE`; and `without(v, lane)`, which is `v` with that lane zero, or `v` itself if there
/// is no such lane.
macro_rules! version {
    (
        $(#[$doc:meta])*
        fn $name:ident, lanes: $lanes:ident, tile: $tile:literal registers
        $(, target_feature: $features:literal)?
    ) => {
        $(#[$doc])*
        ///
        /// `pos` and `mass` are the whole system, `acc` gets the result; units are the caller's.
        ///
        /// # Panics
        ///
        /// If there is not one mass per position, or if the run leaves the system.
        $(
            ///
            /// # Safety
            ///
            #[doc = concat!("The machine must have `", $features, "`.")]
            #[target_feature(enable = $features)]
        )?
        #[track_caller]
        pub fn $name(
            g: $lanes::T,
            softening2: $lanes::T,
            pos: &[[$lanes::T; 3]],
            mass: &[$lanes::T],
            first: usize,
            acc: &mut [[$lanes::T; 3]],
        ) {
            use $lanes::{T, V, WIDTH};

            /// Adds to `sums` what the bodies *j* in `others` contribute to each lane of `x`. With
            /// `EXCLUDE`, the first of them is the body in lane `lane` of the tile, and so on, and
            /// none acts on itself.
            ///
            /// Not inlined, because among the rest of `tile` its registers are spilled.
            $(#[target_feature(enable = $features)])?
            #[inline(never)]
            fn sum<const REGISTERS: usize, const EXCLUDE: bool>(
                x: &[[V; 3]; REGISTERS],
                softening2: V,
                others: (&[[T; 3]], &[T]),
                lane: usize,
                sums: &mut [[V; 3]; REGISTERS],
            ) {
                // Stage by stage over all registers: the stages of one wait for each other.
                let mut a = *sums;
                for (j, (p, &m)) in others.0.iter().zip(others.1).enumerate() {
                    let p = [$lanes::splat(p[0]), $lanes::splat(p[1]), $lanes::splat(p[2])];
                    let m = $lanes::splat(m);
                    let mut d = [p; REGISTERS];
                    let mut w = [m; REGISTERS];
                    for r in 0..REGISTERS {
                        for axis in 0..3 {
                            d[r][axis] = $lanes::sub(p[axis], x[r][axis]);
                        }
                        w[r] = $lanes::mul_add(d[r][0], d[r][0], softening2);
                        w[r] = $lanes::mul_add(d[r][1], d[r][1], w[r]);
                        w[r] = $lanes::mul_add(d[r][2], d[r][2], w[r]);
                    }
                    for r in 0..REGISTERS {
                        w[r] = $lanes::weight(w[r], m);
                        if EXCLUDE {
                            w[r] = $lanes::without(w[r], (lane + j).wrapping_sub(r * WIDTH));
                        }
                    }
                    for r in 0..REGISTERS {
                        for axis in 0..3 {
                            a[r][axis] = $lanes::mul_add(w[r], d[r][axis], a[r][axis]);
                        }
                    }
                }
                *sums = a;
            }

            /// The accelerations of up to `REGISTERS * WIDTH` bodies.
            $(#[target_feature(enable = $features)])?
            fn tile<const REGISTERS: usize>(
                g: T,
                softening2: T,
                pos: &[[T; 3]],
                mass: &[T],
                first: usize,
                acc: &mut [[T; 3]],
            ) {
                let own = first..first + acc.len();
                // Lanes without a body hold the origin; their results are not used.
                let mut lanes = [[[0.0; WIDTH]; 3]; REGISTERS];
                for (i, p) in pos[own.clone()].iter().enumerate() {
                    for axis in 0..3 {
                        lanes[i / WIDTH][axis][i % WIDTH] = p[axis];
                    }
                }
                let mut x = [[$lanes::splat(0.0); 3]; REGISTERS];
                for r in 0..REGISTERS {
                    for axis in 0..3 {
                        x[r][axis] = $lanes::load(&lanes[r][axis]);
                    }
                }

                let exclude = softening2 == 0.0;
                let soft = $lanes::splat(softening2);
                let mut totals = [[$lanes::splat(0.0); 3]; REGISTERS];
                let blocks = pos.chunks(BLOCK).zip(mass.chunks(BLOCK));
                for (block, (pos, mass)) in blocks.enumerate() {
                    let mut sums = [[$lanes::splat(0.0); 3]; REGISTERS];
                    if exclude {
                        // The part of this block that is also in this tile: in there, and only
                        // there, can a body meet itself.
                        let start = block * BLOCK;
                        let low = own.start.clamp(start, start + pos.len()) - start;
                        let high = own.end.clamp(start, start + pos.len()) - start;
                        let before = (&pos[..low], &mass[..low]);
                        let within = (&pos[low..high], &mass[low..high]);
                        let behind = (&pos[high..], &mass[high..]);
                        let lane = (start + low).saturating_sub(own.start);
                        sum::<REGISTERS, false>(&x, soft, before, 0, &mut sums);
                        sum::<REGISTERS, true>(&x, soft, within, lane, &mut sums);
                        sum::<REGISTERS, false>(&x, soft, behind, 0, &mut sums);
                    } else {
                        sum::<REGISTERS, false>(&x, soft, (pos, mass), 0, &mut sums);
                    }
                    for r in 0..REGISTERS {
                        for axis in 0..3 {
                            totals[r][axis] = $lanes::add(totals[r][axis], sums[r][axis]);
                        }
                    }
                }

                let factor = $lanes::splat((f64::from(g) * $lanes::SCALE) as T);
                for r in 0..REGISTERS {
                    for axis in 0..3 {
                        lanes[r][axis] = $lanes::store($lanes::mul(totals[r][axis], factor));
                    }
                }
                for (i, a) in acc.iter_mut().enumerate() {
                    *a = [0, 1, 2].map(|axis| lanes[i / WIDTH][axis][i % WIDTH]);
                    if !a.iter().all(|a| a.is_finite()) {
                        *a = formula(g, softening2, pos, mass, first + i).map(|a| a as T);
                    }
                }
            }

            check(pos, mass, first, acc);
            let mut first = first;
            let (tiles, rest) = acc.as_chunks_mut::<{ $tile * WIDTH }>();
            for acc in tiles {
                tile::<$tile>(g, softening2, pos, mass, first, acc);
                first += acc.len();
            }
            for acc in rest.chunks_mut(WIDTH) {
                tile::<1>(g, softening2, pos, mass, first, acc);
                first += acc.len();
            }
        }
    };
}
use version;
