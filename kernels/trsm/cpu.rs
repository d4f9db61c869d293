//! Triangular systems on the CPU.
//!
//! Whatever the side and the transposition, an unknown is the right-hand side minus multiples of unknowns
//! that are known, divided by the diagonal. *Forward* these are the ones before it, and their factors are a
//! row of the triangle; backward they are the ones behind it, and their factors are a column.

use super::{Trsm, TrsmItem, TrsmWhole};
use crate::gemm::cpu::{Scales, scale, update};
use crate::mmm::blocked::{Blocks, Kept, take};
use crate::mmm::product::{Matrix, MatrixMut, Product, runs};
use crate::simd::{Number, widest};
use crate::stored::check;
use flash_core::kernel;
use flash_core::kernel::prelude::*;
use std::cell::RefCell;
use std::ops::Range;

/// Unknowns that are solved one after another; the others get them as a product.
const BLOCK: usize = 64;
/// Rows that one of several threads solves at once, about; a thread on its own solves more, for fewer and
/// larger products.
const HEIGHT: usize = 64;
const TALL: usize = 512;
/// Rows that are solved side by side: in several registers, so that divisions and sums do not wait for each
/// other.
const SIDE: usize = 32;
/// Unknowns that are solved together. With 64 bytes of each they fit in the registers of any CPU.
const GROUP: usize = 4;
/// Nanoseconds of a multiplication on one thread, about.
const MULTIPLIED: f32 = 0.05;
/// Multiplications up to which threads cost more than they save.
const SMALL: usize = 1 << 18;

thread_local! {
    /// The triangle of a block, some rows side by side, and the solved unknowns.
    static PANEL: Kept = const { RefCell::new(None) };
}

/// A lower triangle, row by row, and how it is used.
#[derive(Clone, Copy)]
pub(crate) struct Triangle<'a, T> {
    pub elements: &'a [T],
    /// Elements from row to row.
    pub leading: usize,
    /// Rows and columns.
    pub n: usize,
    /// The first unknown is the first to be solved.
    pub forward: bool,
    /// The diagonal's elements are 1.
    pub unit: bool,
}

impl<'a, T: Number> Triangle<'a, T> {
    /// The factor of unknown `p` in the equation of unknown `j`.
    #[inline(always)]
    fn factor(&self, j: usize, p: usize) -> T {
        let [row, column] = if self.forward { [j, p] } else { [p, j] };
        self.elements[row * self.leading + column]
    }

    /// An equation's remaining unknown.
    #[inline(always)]
    fn divided(&self, j: usize, x: T) -> T {
        if self.unit { x } else { x / self.elements[j * self.leading + j] }
    }

    /// The blocks of unknowns in the order in which they are solved, each with those that are solved later.
    fn blocks(self) -> impl Iterator<Item = [Range<usize>; 2]> {
        let (n, forward) = (self.n, self.forward);
        let count = n.div_ceil(BLOCK);
        (0..count).map(move |i| {
            let first = BLOCK * if forward { i } else { count - 1 - i };
            let block = first..(first + BLOCK).min(n);
            let later = if forward { block.end..n } else { 0..first };
            [block, later]
        })
    }

    /// The factors that unknowns of a `block` have in the equations of `later` ones: with a row for each
    /// equation, or `across` with a column.
    fn factors(&self, block: &Range<usize>, later: &Range<usize>, across: bool) -> Matrix<'a, T> {
        let [row, column] = if self.forward { [later, block] } else { [block, later] };
        let first = row.start * self.leading + column.start;
        Matrix {
            elements: &self.elements[first..],
            leading: self.leading,
            transposed: self.forward == across,
        }
    }

    /// `x * op(l) = b` for some rows of `b`; the bits of a row depend on it and the triangle.
    pub fn rows(self, b: MatrixMut<'_, T>, rows: usize, threads: Threads<'_>) {
        let MatrixMut { elements: b, leading } = b;
        if rows == 0 || self.n == 0 {
            return;
        }
        let operations = rows * self.n * self.n / 2;
        let threads = if operations <= SMALL { Threads::one() } else { threads };
        let b = &mut b[..(rows - 1) * leading + self.n];
        let height = if threads.count() > 1 { HEIGHT } else { TALL };
        let blocks = Blocks::of(rows, rows.div_ceil(height), threads);
        blocks.each(b, leading, operations as f32 * MULTIPLIED, |rows, b| {
            self.some_rows(b, leading, rows.len())
        });
    }

    fn some_rows(self, b: &mut [T], leading: usize, rows: usize) {
        let len = BLOCK * (BLOCK + SIDE + rows);
        let mut kept = take::<T>(&PANEL, len);
        let elements: &mut [T] = bytemuck::cast_slice_mut(&mut kept[..len * size_of::<T>()]);
        let (triangle, elements) = elements.split_at_mut(BLOCK * BLOCK);
        let (lines, solved) = elements.split_at_mut(BLOCK * SIDE);
        for [block, later] in self.blocks() {
            let (first, n) = (block.start, block.len());
            // By unknowns, so that each one's factors lie side by side.
            for (p, to) in triangle.chunks_exact_mut(n).take(n).enumerate() {
                for j in if self.forward { p + 1..n } else { 0..p } {
                    to[j] = self.factor(first + j, first + p);
                }
            }
            let (triangle, lines) = (&triangle[..n * n], &mut lines.as_chunks_mut::<SIDE>().0[..n]);
            for rows in b.chunks_mut(SIDE * leading) {
                for (i, row) in rows.chunks(leading).enumerate() {
                    lines.iter_mut().zip(&row[block.clone()]).for_each(|(line, x)| line[i] = *x);
                }
                widest(
                    #[inline(always)]
                    || self.lines(first, triangle, lines),
                );
                for (i, row) in rows.chunks_mut(leading).enumerate() {
                    row[block.clone()].iter_mut().zip(&*lines).for_each(|(x, line)| *x = line[i]);
                }
            }
            if later.is_empty() {
                continue;
            }
            for (to, row) in solved.chunks_exact_mut(n).zip(b.chunks(leading)) {
                to.copy_from_slice(&row[block.clone()]);
            }
            let product = Product {
                m: rows,
                n: later.len(),
                k: n,
                a: Matrix { elements: &*solved, leading: n, transposed: false },
                b: self.factors(&block, &later, true),
                c: MatrixMut { elements: &mut b[later.start..], leading },
            };
            update(product, Scales::minus(), Threads::one());
        }
        PANEL.set(Some(kept));
    }

    /// Solves a block of unknowns, from `first` on, of several systems side by side. Per unknown, the
    /// triangle has its factors.
    #[inline(always)]
    fn lines(&self, first: usize, triangle: &[T], lines: &mut [[T; SIDE]]) {
        match size_of::<T>() {
            4 => self.groups::<16>(first, triangle, lines),
            _ => self.groups::<8>(first, triangle, lines),
        }
    }

    /// The same by as many systems as there are `LANES`.
    #[inline(always)]
    fn groups<const LANES: usize>(&self, first: usize, triangle: &[T], lines: &mut [[T; SIDE]]) {
        let n = lines.len();
        let groups = n / GROUP * GROUP;
        // Those that are too few for a group come last.
        let rest = if self.forward { groups..n } else { 0..n - groups };
        for i in (0..groups).step_by(GROUP) {
            let start = if self.forward { i } else { n - GROUP - i };
            self.group::<LANES, GROUP>(first, start, triangle, lines);
        }
        for i in 0..rest.len() {
            let start = if self.forward { rest.start + i } else { rest.end - 1 - i };
            self.group::<LANES, 1>(first, start, triangle, lines);
        }
    }

    /// The same for the `N` unknowns from `start` on, where those that are solved earlier are known. They
    /// stay in registers, and get the known ones one after another.
    #[inline(always)]
    fn group<const LANES: usize, const N: usize>(
        &self,
        first: usize,
        start: usize,
        triangle: &[T],
        lines: &mut [[T; SIDE]],
    ) {
        let n = lines.len();
        let minus = |x: &mut [T; LANES], known: &[T; LANES], factor: T| {
            for (x, known) in x.iter_mut().zip(known) {
                *x = *x - *known * factor;
            }
        };
        for part in 0..SIDE / LANES {
            let mut x = [[T::ZERO; LANES]; N];
            for (x, line) in x.iter_mut().zip(&lines[start..]) {
                *x = line.as_chunks::<LANES>().0[part];
            }
            let known = if self.forward { 0..start } else { start + N..n };
            for i in 0..known.len() {
                let p = if self.forward { i } else { n - 1 - i };
                let known = &lines[p].as_chunks::<LANES>().0[part];
                let factors = &triangle[p * n + start..][..N];
                for (x, factor) in x.iter_mut().zip(factors) {
                    minus(x, known, *factor);
                }
            }
            for i in 0..N {
                let p = if self.forward { i } else { N - 1 - i };
                if !self.unit {
                    let by = self.elements[(first + start + p) * (self.leading + 1)];
                    for x in &mut x[p] {
                        *x = *x / by;
                    }
                }
                let known = x[p];
                for j in if self.forward { p + 1..N } else { 0..p } {
                    minus(&mut x[j], &known, triangle[(start + p) * n + start + j]);
                }
            }
            for (x, line) in x.iter().zip(&mut lines[start..]) {
                line.as_chunks_mut::<LANES>().0[part] = *x;
            }
        }
    }

    /// `op(l) * x = b` for as many columns of `b`.
    pub fn columns(self, b: MatrixMut<'_, T>, columns: usize, threads: Threads<'_>) {
        let MatrixMut { elements: b, leading } = b;
        if columns == 0 {
            return;
        }
        for [block, later] in self.blocks() {
            let (x, rest) = match self.forward {
                true => {
                    let (solved, rest) = b.split_at_mut((block.end * leading).min(b.len()));
                    (&mut solved[block.start * leading..], rest)
                }
                false => {
                    let (rest, x) = b.split_at_mut(block.start * leading);
                    (x, rest)
                }
            };
            self.solve(block.clone(), x, leading, columns);
            if later.is_empty() {
                continue;
            }
            let product = Product {
                m: later.len(),
                n: columns,
                k: block.len(),
                a: self.factors(&block, &later, false),
                b: Matrix { elements: &*x, leading, transposed: false },
                c: MatrixMut { elements: rest, leading },
            };
            update(product, Scales::minus(), threads);
        }
    }

    /// The equations of some unknowns, whose rows of `x` come first.
    fn solve(&self, block: Range<usize>, x: &mut [T], leading: usize, columns: usize) {
        let n = block.len();
        widest(
            #[inline(always)]
            || {
                for p in (0..n).map(|p| if self.forward { p } else { n - 1 - p }) {
                    let row = &mut x[p * leading..][..columns];
                    if !self.unit {
                        let by = self.elements[(block.start + p) * (self.leading + 1)];
                        row.iter_mut().for_each(|x| *x = *x / by);
                    }
                    for j in if self.forward { p + 1..n } else { 0..p } {
                        let factor = self.factor(block.start + j, block.start + p);
                        let (low, high) = x.split_at_mut(p.max(j) * leading);
                        let [from, to] = match self.forward {
                            true => [&mut low[p * leading..], high],
                            false => [high, &mut low[j * leading..]],
                        };
                        for (to, from) in to[..columns].iter_mut().zip(&from[..columns]) {
                            *to = *to - factor * *from;
                        }
                    }
                }
            },
        );
    }
}

/// The sizes and the triangle of a launch.
pub(super) struct System<'a, T> {
    pub triangle: Triangle<'a, T>,
    pub right: bool,
    /// Columns of `b`.
    pub width: usize,
    /// Elements from row to row of `b`.
    pub ldb: usize,
    pub alpha: T,
}

/// The arguments of a launch but for `b`, checked.
macro_rules! system {
    ($k:ident) => {{
        let [n, width, leading, ldb] = [$k.n, $k.width, $k.ldl, $k.ldb].map(|size| size as usize);
        let [right, transposed, unit] = [$k.right, $k.transposed, $k.unit].map(|flag| flag != 0);
        if $k.alpha != T::ZERO {
            check("flash.trsm", ("l", $k.l.len()), [n, n], leading);
        }
        let triangle = Triangle { elements: $k.l, leading, n, forward: right == transposed, unit };
        System { triangle, right, width, ldb, alpha: $k.alpha }
    }};
}

impl<T: Number> System<'_, T> {
    /// Checks the elements of `items`.
    fn check_b(&self, items: usize, len: usize) {
        let n = self.triangle.n;
        if self.right {
            assert!(
                self.ldb >= n && self.width == n && len == items * self.ldb,
                "flash.trsm: expected {items} rows of {} elements in `b`, at least {n} each, found {len} elements: launch with the dimensions [rows of b] where the triangle is on the right",
                self.ldb
            );
        } else {
            check("flash.trsm", ("b", len / items.max(1)), [n, self.width], self.ldb);
        }
    }

    /// Elements from item to item.
    fn apart(&self, items: usize, len: usize) -> usize {
        if self.right { self.ldb } else { len / items.max(1) }
    }

    /// Multiplies the elements of an item with `alpha`; true if there is more to do.
    pub fn begin(&self, b: &mut [T]) -> bool {
        let (rows, width) = if self.right { (1, self.triangle.n) } else { (self.triangle.n, self.width) };
        for row in 0..rows {
            scale(&mut b[row * self.ldb..][..width], self.alpha);
        }
        self.alpha != T::ZERO
    }
}

/// Calls `body` with some items, their elements, and the elements from one to the next.
pub(super) fn systems<T: Number>(
    space: &Space<'_, Index<1>>,
    k: TrsmWhole<'_, T>,
    mut body: impl FnMut(&System<'_, T>, usize, MatrixMut<'_, T>),
) {
    let system: System<'_, T> = system!(k);
    let (there, len) = (space.values(0), k.b.len());
    system.check_b(there.len(), len);
    let apart = system.apart(there.len(), len);
    runs(space, |items| {
        let b = &mut k.b[(items.start - there.start) * apart..];
        let mut more = true;
        (0..items.len()).for_each(|item| more = system.begin(&mut b[item * apart..]));
        if more {
            body(&system, items.len(), MatrixMut { elements: b, leading: apart });
        }
    });
}

/// Blocks of unknowns, which the others get as products.
pub struct Blocked;

impl Blocked {
    pub(super) fn solve<T: Number>(
        system: &System<'_, T>,
        items: usize,
        b: MatrixMut<'_, T>,
        threads: Threads<'_>,
    ) {
        if system.right {
            return system.triangle.rows(b, items, threads);
        }
        for item in 0..items {
            let elements = &mut b.elements[item * b.leading..];
            system.triangle.columns(MatrixMut { elements, leading: system.ldb }, system.width, threads);
        }
    }
}

#[kernel(for(f32, f64), priority = 40)]
impl<T: Number> CpuWhole<Trsm<'_, T>> for Blocked {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: TrsmWhole<'_, T>, threads: Threads<'_>) {
        systems(&space, k, |system, items, b| Blocked::solve(system, items, b, threads));
    }
}

/// One unknown at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Trsm<'_, T>> for Plain {
    fn item(_: Index<1>, k: TrsmItem<'_, T>) {
        let system: System<'_, T> = system!(k);
        system.check_b(1, k.b.len());
        if !system.begin(k.b) {
            return;
        }
        let (l, n) = (system.triangle, system.triangle.n);
        // A system in the item's row, or one in each column.
        let (systems, apart) = if system.right { (1, 1) } else { (system.width, system.ldb) };
        for first in 0..systems {
            for j in (0..n).map(|j| if l.forward { j } else { n - 1 - j }) {
                let mut x = k.b[first + j * apart];
                for p in if l.forward { 0..j } else { j + 1..n } {
                    x = x - l.factor(j, p) * k.b[first + p * apart];
                }
                k.b[first + j * apart] = l.divided(j, x);
            }
        }
    }
}
