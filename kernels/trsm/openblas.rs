//! Triangular systems by OpenBLAS, where that library is found at run time.

use super::cpu::{Blocked, System, systems};
use super::{Trsm, TrsmWhole};
use crate::mmm::product::MatrixMut;
use crate::openblas::{Functions, LOWER, OpenBlas as Library, ROW_MAJOR, transposition};
use crate::simd::Number;
use crate::stored::check;
use flash_core::kernel;
use flash_core::kernel::prelude::*;
use std::ffi::c_int;

const NOT_UNIT: c_int = 131;
const UNIT: c_int = 132;
const LEFT: c_int = 141;
const RIGHT: c_int = 142;

/// An installed library is used. Sizes and CPUs that it does not support are left to blocks of our own.
pub struct OpenBlas;

#[kernel(for(f32, f64), name = "openblas", priority = 50, library = "libopenblas.so.0")]
impl<T: Number> CpuWhole<Trsm<'_, T>> for OpenBlas {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: TrsmWhole<'_, T>, threads: Threads<'_>) {
        let library = Library::<T>::get("flash.trsm");
        systems(&space, k, |system, items, b| {
            let n = system.triangle.n;
            let [rows, columns] = if system.right { [items, n] } else { [n, system.width] };
            let all = [rows, columns, system.triangle.leading, system.ldb];
            let sizes = all.map(|size| c_int::try_from(size).ok());
            let [Some(m), Some(width), Some(ldl), Some(ldb)] = sizes else {
                return Blocked::solve(system, items, b, threads);
            };
            // On the right its solver is slower than blocks of our own: by 2 on an Emerald Rapids.
            if system.right || !library.pays(rows.saturating_mul(columns).saturating_mul(n) / 2) {
                return Blocked::solve(system, items, b, threads);
            }
            // On the left each item is a matrix of its own; on the right all are one.
            let MatrixMut { elements, leading } = b;
            for matrix in 0..if system.right { 1 } else { items } {
                let b = &mut elements[matrix * leading..];
                library.call(threads, |by| solve(by, system, b, [m, width, ldl, ldb]));
            }
        });
    }
}

fn solve<T: Number>(by: &Functions<T>, system: &System<'_, T>, b: &mut [T], [m, n, ldl, ldb]: [c_int; 4]) {
    let l = system.triangle;
    check("flash.trsm", ("l", l.elements.len()), [l.n, l.n], l.leading);
    check("flash.trsm", ("b", b.len()), [m, n].map(|size| size as usize), system.ldb);
    let side = if system.right { RIGHT } else { LEFT };
    let diagonal = if l.unit { UNIT } else { NOT_UNIT };
    let of_l = transposition(l.forward == system.right);
    let (from, to) = (l.elements.as_ptr(), b.as_mut_ptr());
    // SAFETY: the matrices have the elements that are read and written, as just checked; the library may be
    // called from any thread. The right-hand sides have been multiplied already.
    unsafe { (by.trsm)(ROW_MAJOR, side, LOWER, of_l, diagonal, m, n, T::ONE, from, ldl, to, ldb) };
}
