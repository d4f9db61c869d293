//! Teams: the threads that compute one work item together, through the door [`CpuTeam`].
//!
//! On a device a team is a work-group, whose threads share memory and meet at barriers. On the CPU it is one
//! thread, and what the team does is a loop. A kernel sees neither threads nor barriers. It has operations,
//! each of which makes many values at once, every one by a function of its place. The function sees what
//! other operations have made, and nothing of what this one makes. So there is no race and no barrier to
//! forget. All that is between two operations is the same for all threads.
//!
//! Values have the same bits on the CPU and on devices: [`reduce`](Team::reduce) combines in an order that
//! follows from the number of threads, which the implementation fixes.

use super::views::TileViewMut;
use super::{CpuItem, KernelDefinition};
use std::marker::PhantomData;

/// One work item at a time, computed by a team of `THREADS` threads: rows and blocks of arrays in memory that
/// the threads share, sums over them. Otherwise as [`CpuItem`], with the same arguments.
///
/// `THREADS` is a power of two of at most 1,024; 64 to 256 suit GPUs. The results do not depend on the
/// device.
///
/// ```
/// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
/// use flash_core::kernel::prelude::*;
///
/// /// Each row divided by its sum.
/// #[derive(KernelDefinition)]
/// #[kernel(name = "doc.shares", dims(row))]
/// struct Shares<'a> {
///     x: Item<'a, ReadWrite<Row<f32>>>,
/// }
///
/// struct ByTeams;
///
/// #[kernel(devices)]
/// impl CpuTeam<Shares<'_>, 64> for ByTeams {
///     fn team(_: Index<1>, k: SharesItem<'_>, team: &mut Team<64>) {
///         let sum = team.reduce(k.x.len(), 0.0, |i| k.x[i], |a, b| a + b);
///         team.map(k.x, |_, x| x / sum);
///     }
/// }
/// # let x = flash_core::FlashMemory::from(vec![1.0f32, 3.0]).with_shape([2, 1])?;
/// # rt.submit(Shares::of(&x)).exec([1])?;
/// # Ok::<(), flash_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `team` implementation of this kernel for these element types",
    note = "write `#[kernel(for(..))] impl CpuTeam<Definition<'_, T>, 64> for {Self} {{ fn team(..) }}`, and list only element types that the impl covers"
)]
pub trait CpuTeam<D: KernelDefinition, const THREADS: usize> {
    /// Computes one work item.
    fn team(index: D::Index, args: D::Item<'_>, team: &mut Team<THREADS>);
}

/// The threads that compute one work item.
///
/// A function that an operation calls may be called by several threads at the same time. It borrows what it
/// uses, so it changes nothing but through a [`Scatter`](super::views::Scatter) in [`each`](Self::each).
pub struct Team<const THREADS: usize>(());

/// An array of an operation's values: of one, two or three dimensions, seen with a place for each. The place
/// of `a[y][x]` is `[y, x]`.
pub trait Cells<const DIMENSIONS: usize>: Sized {
    /// A value.
    type Element: Copy;
    /// The array of the values at all places, the last dimension first.
    fn make(value: impl FnMut([usize; DIMENSIONS]) -> Self::Element) -> Self;
}

impl<T: Copy, const X: usize> Cells<1> for [T; X] {
    type Element = T;
    #[inline(always)]
    fn make(mut value: impl FnMut([usize; 1]) -> T) -> Self {
        std::array::from_fn(|x| value([x]))
    }
}

impl<T: Copy, const X: usize, const Y: usize> Cells<2> for [[T; X]; Y] {
    type Element = T;
    #[inline(always)]
    fn make(mut value: impl FnMut([usize; 2]) -> T) -> Self {
        std::array::from_fn(|y| std::array::from_fn(|x| value([y, x])))
    }
}

impl<T: Copy, const X: usize, const Y: usize, const Z: usize> Cells<3> for [[[T; X]; Y]; Z] {
    type Element = T;
    #[inline(always)]
    fn make(mut value: impl FnMut([usize; 3]) -> T) -> Self {
        std::array::from_fn(|z| std::array::from_fn(|y| std::array::from_fn(|x| value([z, y, x]))))
    }
}

impl<const THREADS: usize> Team<THREADS> {
    const IS_POSSIBLE: () =
        assert!(THREADS.is_power_of_two() && THREADS <= 1024, "a team has 1, 2, 4, .. or 1,024 threads");

    #[inline(always)]
    fn new() -> Self {
        const { Self::IS_POSSIBLE };
        Team(())
    }

    /// An array in memory that all threads see, with the value of the function at each place. Its type says
    /// how large it is:
    ///
    /// ```
    /// # use flash_core::kernel::prelude::*;
    /// # #[kernel_fn]
    /// # fn of(team: &mut Team<64>) -> u32 {
    /// let table: [[u32; 8]; 4] = team.shared(|[y, x]| (8 * y + x) as u32);
    /// table[2][3]
    /// # }
    /// ```
    ///
    /// Devices have some 32 KiB of such memory for a team.
    #[inline(always)]
    pub fn shared<A: Cells<N>, const N: usize>(&mut self, value: impl Fn([usize; N]) -> A::Element) -> A {
        A::make(value)
    }

    /// Replaces all values of an array of [`shared`](Self::shared) by those of a function of the place and of
    /// the array as it was.
    #[inline(always)]
    pub fn update<A: Cells<N>, const N: usize>(
        &mut self,
        array: &mut A,
        value: impl Fn([usize; N], &A) -> A::Element,
    ) {
        *array = A::make(|at| value(at, array));
    }

    /// The values at `0..count`, combined. Thread `t` combines those at `t`, `t + THREADS`, .., beginning
    /// with `identity`; then thread `t` adds what thread `t + THREADS / 2` has, and so on by halves.
    #[inline(always)]
    pub fn reduce<T: Copy>(
        &mut self,
        count: usize,
        identity: T,
        value: impl Fn(usize) -> T,
        combine: impl Fn(T, T) -> T,
    ) -> T {
        let mut parts = [identity; THREADS];
        let mut first = 0;
        // Turns that end before `count`, so that the compiler sees it: the values are computed as vectors.
        while first + THREADS <= count {
            for (part, i) in parts.iter_mut().zip(first..first + THREADS) {
                *part = combine(*part, value(i));
            }
            first += THREADS;
        }
        for (part, i) in parts.iter_mut().zip(first..count) {
            *part = combine(*part, value(i));
        }
        let mut half = THREADS / 2;
        while half > 0 {
            let (low, high) = parts.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(&high[..half]) {
                *low = combine(*low, *high);
            }
            half /= 2;
        }
        parts[0]
    }

    /// Sets all elements of the work item's own row or block.
    #[inline(always)]
    pub fn set<T: Copy>(&mut self, row: &mut [T], value: impl Fn(usize) -> T) {
        for (i, element) in row.iter_mut().enumerate() {
            *element = value(i);
        }
    }

    /// Replaces all elements of the work item's own row or block, each by a function of its place and its
    /// value.
    #[inline(always)]
    pub fn map<T: Copy>(&mut self, row: &mut [T], value: impl Fn(usize, T) -> T) {
        for (i, element) in row.iter_mut().enumerate() {
            *element = value(i, *element);
        }
    }

    /// Sets all elements of the work item's own tile, by functions of their places `[y, x]`.
    #[inline(always)]
    pub fn set_tile<T: Copy>(&mut self, tile: &mut TileViewMut<'_, T>, value: impl Fn([usize; 2]) -> T) {
        for y in 0..tile.rows() {
            for (x, element) in tile.row_mut(y).iter_mut().enumerate() {
                *element = value([y, x]);
            }
        }
    }

    /// Replaces all elements of the work item's own tile, each by a function of its place and its value.
    #[inline(always)]
    pub fn map_tile<T: Copy>(&mut self, tile: &mut TileViewMut<'_, T>, value: impl Fn([usize; 2], T) -> T) {
        for y in 0..tile.rows() {
            for (x, element) in tile.row_mut(y).iter_mut().enumerate() {
                *element = value([y, x], *element);
            }
        }
    }

    /// Calls a function with each of `0..count`, for what it does to a [`Scatter`](super::views::Scatter).
    #[inline(always)]
    pub fn each(&mut self, count: usize, body: impl Fn(usize)) {
        (0..count).for_each(body);
    }
}

/// The item door of a team: on the CPU one thread is all of it.
pub struct OfTeam<I, const THREADS: usize>(PhantomData<I>);

impl<D: KernelDefinition, I: CpuTeam<D, THREADS>, const THREADS: usize> CpuItem<D> for OfTeam<I, THREADS> {
    #[inline(always)]
    fn item(index: D::Index, args: D::Item<'_>) {
        I::team(index, args, &mut Team::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_indexed_as_the_array() {
        let table = <[[[usize; 2]; 3]; 4]>::make(|[z, y, x]| 100 * z + 10 * y + x);
        assert_eq!(table[3][2][1], 321);
        let rows = <[[u8; 2]; 2] as Cells<1>>::make(|[y]| [y as u8; 2]);
        assert_eq!(rows, [[0, 0], [1, 1]]);
    }

    #[test]
    fn an_update_sees_the_array_as_it_was() {
        let mut team = Team::<4>::new();
        let mut sums: [u32; 8] = team.shared(|[i]| i as u32 + 1);
        for by in [1, 2, 4] {
            team.update(&mut sums, |[i], old| if i >= by { old[i] + old[i - by] } else { old[i] });
        }
        assert_eq!(sums, [1, 3, 6, 10, 15, 21, 28, 36]);
    }

    /// By the sentence at `reduce`, with words for values.
    #[test]
    fn a_reduction_combines_in_the_order_that_it_says() {
        let mut team = Team::<4>::new();
        for (count, expected) in
            [(0, "((--)(--))"), (1, "((-a-)(--))"), (6, "((-ae-c)(-bf-d))"), (9, "((-aei-cg)(-bf-dh))")]
        {
            let letters: Vec<String> =
                "abcdefghi".chars().take(count).map(|letter| letter.to_string()).collect();
            let value = |i: usize| Words::leaf(&letters[i]);
            let all = team.reduce(count, Words::leaf("-"), value, Words::both);
            assert_eq!(all.0, expected);
        }
    }

    /// A text that is `Copy`.
    #[derive(Clone, Copy)]
    struct Words(&'static str);

    impl Words {
        fn leaf(text: &str) -> Words {
            Words(text.to_owned().leak())
        }
        /// A part that takes one more value grows; two parts are put in parentheses.
        fn both(Words(a): Words, Words(b): Words) -> Words {
            let is_value = b.len() == 1 && b != "-";
            Words(if is_value { format!("{a}{b}") } else { format!("({a}{b})") }.leak())
        }
    }
}
