//! Several parameters, const generics, defaults, and aliases of accesses and elements.
#![deny(warnings)]

use flash_core::kernel::views::{self, Item, Read, Row, Whole, Write};
use flash_core::kernel::{CpuItem, CpuSpan, Element, Index, Span};
use flash_core::{KernelDefinition, kernel};

type Vector<T, const N: usize> = [T; N];
type Result<T> = Write<T>;
type Lines<T> = Read<Row<T>>;

#[derive(KernelDefinition)]
#[kernel(name = "generic", dims(i, j))]
pub(crate) struct Generic<'a, T, U: Element = u32, const N: usize = 3>
where
    T: Element + Default,
{
    offset: Vector<U, N>,
    from: Whole<'a, Read<Vector<T, N>>>,
    kept: Whole<'a, Kept<U>>,
    lines: Item<'a, Lines<T>>,
    #[along(j, i)]
    to: views::Item<'a, Result<T>>,
}

type Kept<T> = Read<T>;

pub(crate) struct Plain;

#[kernel(for((f32, u32, 3), (f64, i64, 4)))]
impl<T, U: Element, const N: usize> CpuItem<Generic<'_, T, U, N>> for Plain
where
    T: Element + Default,
{
    fn item(_: Index<2>, k: GenericItem<'_, T, U, N>) {
        let _ = (k.offset, k.kept.len(), k.lines.len());
        k.to.set(k.from[0][0]);
    }
}

#[kernel(for((f32, u32, 3)), priority = 1)]
impl CpuSpan<Generic<'_, f32, u32, 3>> for Plain {
    fn span(run: Span<2>, mut k: GenericSpan<'_, f32, u32, 3>) {
        for i in 0..run.len() {
            let line: &[f32] = k.lines.row(i);
            k.to.set(i, line[0]);
        }
    }
}

#[test]
fn a_generic_definition_is_made_of_slices() {
    let (from, kept, lines, mut to) = (vec![[0.0f32; 3]], vec![1u32], [0.0; 4], [0.0; 2]);
    let _: Generic<'_, f32> = Generic::of([1, 2, 3], &from, &kept, &lines[..], &mut to[..]);
}
