//! The team of a staged kernel: a work-group, all of whose threads run the text for one work item.
//!
//! Between operations every thread computes the same. So loops and branches there are those of all threads,
//! and each may wait for the others in an operation. It stays so because such text reads no memory that
//! another thread may be writing: an operation is between two barriers, and what the text stores there (the
//! own element of the work item, or an element of the team's memory) is stored by one thread, between two
//! barriers, too ([`stored_by_one`]). In the end, barriers that are not needed are left out (`barriers.rs`),
//! and arrays that need not be seen by others become the threads' own (`kept.rs`).
//!
//! In an operation a thread has the places `lane`, `lane + THREADS`, ... What computes the value at one place
//! stores nothing: text that would is an error.

use super::aggregate::ArrayValue;
use super::barriers::{MEET, OwnIndex, SHARED, Turn, touches_only};
use super::control::cell;
use super::facts::stays_below;
use super::memory::{SliceValue, TileValue, handles, proved};
use super::value::{Expr, Plain, Stage, Value, Variable};
use super::writer::{TeamText, block, captured, define, error, name, say, shared_name, with};
use crate::kernel::Team;
use std::marker::PhantomData;
use std::rc::Rc;

const BARRIER: &str = "\
#ifdef __OPENCL_VERSION__
#define FLASH_MEET() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define FLASH_MEET() __syncthreads()
#endif
";

/// A team.
#[derive(Clone)]
pub struct TeamValue<const THREADS: usize>(PhantomData<Team<THREADS>>);

handles! {
    [const THREADS: usize] TeamValue<THREADS>;
}

impl<const THREADS: usize> Stage for Team<THREADS> {
    type Value = TeamValue<THREADS>;
}

/// Begins the text of a kernel with a team.
pub fn team<const THREADS: usize>() -> TeamValue<THREADS> {
    with(|writer| writer.team = Some(TeamText::default()));
    define(BARRIER.to_owned());
    say("const flash_u64 flash_lane = FLASH_LANE();");
    TeamValue::nothing()
}

/// What stands for the values of an operation, in an array of some dimensions.
pub trait CellValues<const DIMENSIONS: usize>: Variable {
    /// What stands for one of them.
    type Element: Variable;
    /// How many there are, the last dimension first.
    const EXTENTS: [usize; DIMENSIONS];
    /// Where the array is in the text.
    fn place(&self) -> Option<Rc<str>>;
}

impl<V: Variable, const X: usize> CellValues<1> for ArrayValue<V, X> {
    type Element = V;
    const EXTENTS: [usize; 1] = [X];
    fn place(&self) -> Option<Rc<str>> {
        self.path()
    }
}

impl<V: Variable, const X: usize, const Y: usize> CellValues<2> for ArrayValue<ArrayValue<V, X>, Y> {
    type Element = V;
    const EXTENTS: [usize; 2] = [Y, X];
    fn place(&self) -> Option<Rc<str>> {
        self.path()
    }
}

impl<V: Variable, const X: usize, const Y: usize, const Z: usize> CellValues<3>
    for ArrayValue<ArrayValue<ArrayValue<V, X>, Y>, Z>
{
    type Element = V;
    const EXTENTS: [usize; 3] = [Z, Y, X];
    fn place(&self) -> Option<Rc<str>> {
        self.path()
    }
}

/// Whether a place is an array of a team's memory, all of it.
pub(super) fn is_shared(path: &str) -> bool {
    path.starts_with(SHARED) && !path.contains(['[', '.'])
}

/// For a store of the kernel's to this place: if other threads see it, the store becomes that of one thread.
/// False: it is as ever.
#[track_caller]
pub(super) fn stored_by_one(path: &str, store: &str) -> bool {
    let of_all = |writer: &mut super::writer::Writer| {
        let team = writer.team.as_ref()?;
        let is_seen = path.starts_with("FLASH_") || path.starts_with(SHARED);
        (is_seen && !team.stores).then_some(team.inside)
    };
    match with(of_all) {
        None => false,
        Some(true) => {
            error(
                "a function of a team's operation stores nothing: return the value, from `set`, `map` or `update`",
            );
            true
        }
        Some(false) => {
            meet();
            block("if (flash_lane == 0)", &format!("{store}\n"), "");
            meet();
            true
        }
    }
}

/// For what a work item does once to memory that others see, in `each`.
#[track_caller]
pub(super) fn once_for_all(what: &str) {
    if with(|writer| writer.team.as_ref().is_some_and(|team| !team.inside)) {
        error(&format!("{what} of a team stands in the function of `team.each(..)`"));
    }
}

/// For what a kernel with a team does not have.
#[track_caller]
pub(super) fn not_of_a_team(what: &str) {
    if with(|writer| writer.team.is_some()) {
        error(&format!("a kernel with a team has no {what}: write the sum of the work item to an array"));
    }
}

/// All threads are here, and see what the others have stored. In a function of an operation they never meet.
#[track_caller]
fn meet() {
    let inside = with(|writer| writer.team.as_ref().is_none_or(|team| team.inside));
    if inside {
        error("an operation of a team stands in no other one");
    } else {
        say(MEET);
    }
}

/// Writes what a thread computes, for one place of an operation.
#[track_caller]
fn computed<V: Value>(value: impl FnOnce() -> V) -> V {
    let set = |inside| with(|writer| writer.team.iter_mut().for_each(|team| team.inside = inside));
    set(true);
    let value = cell(value);
    set(false);
    value
}

/// Stores what an operation has made, or what a work item stores to memory that others see.
pub(super) fn store<V: Value>(place: &V, value: &V) {
    let set = |stores| with(|writer| writer.team.iter_mut().for_each(|team| team.stores = stores));
    set(true);
    place.assign(&value.read());
    set(false);
}

/// A loop of a thread over its places among `count`.
fn places<const THREADS: usize>(count: &str, body: impl FnOnce(Expr<usize>)) {
    let slot = name("slot");
    is_own(&slot, 0, &[0], None);
    let ((), said) = captured(|| body(Expr::value(&slot)));
    block(
        &format!("for (flash_u64 {slot} = flash_lane; {slot} < {count}; {slot} += {THREADS}ul)"),
        &said,
        "",
    );
}

/// Loops of up to so many turns are unrolled: what a thread keeps for each is in registers then.
const UNROLLED: usize = 16;

/// The same for a number that is known: as many turns for each thread, which `body` gets, too.
///
/// PoCL 3.1 needs the pragma, for few turns and for many: in loops without it, whose number of turns it knew,
/// conditional loads gave 0.
fn turns<const THREADS: usize>(count: usize, body: impl FnOnce(Expr<usize>, &Turn)) {
    let turns = count.div_ceil(THREADS);
    let (slot, turn) = (name("slot"), Turn { name: name("turn"), count: turns });
    let ((), said) = captured(|| body(Expr::value(&slot), &turn));
    let turn = &turn.name;
    let inside = match count % THREADS {
        0 => said,
        _ => format!("if ({slot} < {count}ul) {{\n{said}}}\n"),
    };
    say(if turns <= UNROLLED { "#pragma unroll" } else { "#pragma unroll 4" });
    block(
        &format!("for (int {turn} = 0; {turn} < {turns}; ++{turn})"),
        &format!("const flash_u64 {slot} = flash_lane + {turn} * {THREADS}ul;\n{inside}"),
        "",
    );
}

/// A variable is the index of a thread's own element along a dimension, in arrays of these extents.
fn is_own(name: &str, dimension: usize, extents: &[usize], turn: Option<&Turn>) {
    let (name, extents, turn) = (name.to_owned(), extents.to_vec(), turn.cloned());
    let own = OwnIndex { name, dimension, extents, turn };
    with(|writer| {
        if let Some(team) = &mut writer.team {
            team.own.push(own);
        }
    });
}

/// The place of a value, by its number.
fn place<const N: usize>(slot: Expr<usize>, turn: &Turn, extents: [usize; N]) -> [Expr<usize>; N] {
    let (slot, few) = (slot.text(), turn.count <= UNROLLED);
    std::array::from_fn(|dimension| {
        let inner: usize = extents[dimension + 1..].iter().product();
        let outer = if inner == 1 { slot.to_string() } else { format!("({slot} / {inner}ul)") };
        let value = if dimension == 0 { outer } else { format!("({outer} % {}ul)", extents[dimension]) };
        let index = Expr::value(value).named("at");
        let name = index.text();
        // Whatever is read there is inside.
        stays_below(&name, &format!("{}ul", extents[dimension]));
        is_own(&name, dimension, &extents, few.then_some(turn));
        index
    })
}

/// A place behind the name of an array.
fn indices<const N: usize>(place: &[Expr<usize>; N]) -> String {
    place.iter().map(|index| format!("[{}]", index.text())).collect()
}

/// The value at a place of an array.
fn at<V: Variable, const N: usize>(array: &str, place: &[Expr<usize>; N]) -> V {
    V::at(array.to_owned() + &indices(place), true)
}

impl<const THREADS: usize> TeamValue<THREADS> {
    fn nothing() -> Self {
        TeamValue(PhantomData)
    }

    /// An array in memory that all threads see.
    #[track_caller]
    pub fn shared<A: CellValues<N>, const N: usize>(
        &self,
        value: impl FnOnce(ArrayValue<Expr<usize>, N>) -> A::Element,
    ) -> A {
        let array = shared_name();
        let declaration = A::declaration(&array);
        with(|writer| writer.group_memory.push(declaration));
        meet();
        turns::<THREADS>(count::<A, N>(), |slot, turn| {
            let place = place(slot, turn, A::EXTENTS);
            let value = computed(|| value(ArrayValue::list(place)));
            store(&at::<A::Element, N>(&array, &place), &value);
        });
        meet();
        A::at(array, true)
    }

    /// Replaces all values of such an array. Where another one is read than the own, a thread keeps its new
    /// ones until all have read the old.
    #[track_caller]
    pub fn update<A: CellValues<N>, const N: usize>(
        &self,
        array: A,
        value: impl FnOnce(ArrayValue<Expr<usize>, N>, A) -> A::Element,
    ) {
        let count = count::<A, N>();
        let (kept, own) = (name("kept"), count.div_ceil(THREADS));
        let Some(path) = array.place().filter(|path| is_shared(path)) else {
            return error("`update` is for an array of the team's, from `shared`");
        };
        meet();
        let declaration = A::Element::declaration(&format!("{kept}[{own}]"));
        let kept = |turn: &Turn| A::Element::at(format!("{kept}[{}]", turn.name), true);
        let mut is_kept = false;
        let ((), said) = captured(|| {
            turns::<THREADS>(count, |slot, turn| {
                let place = place(slot, turn, A::EXTENTS);
                let to = at::<A::Element, N>(&path, &place);
                let new = || value(ArrayValue::list(place), array.clone()).read().named("new");
                let (new, said) = captured(|| computed(new));
                say(said.trim_end());
                is_kept = !touches_only(&said, &path, &indices(&place));
                match is_kept {
                    true => kept(turn).assign(&new),
                    false => store(&to, &new),
                }
            });
        });
        if is_kept {
            say(&format!("{declaration};"));
        }
        say(said.trim_end());
        meet();
        if !is_kept {
            return;
        }
        turns::<THREADS>(count, |slot, turn| {
            store(&at::<A::Element, N>(&path, &place(slot, turn, A::EXTENTS)), &kept(turn));
        });
        meet();
    }

    /// The values at `0..count`, combined in the order of the CPU.
    #[track_caller]
    pub fn reduce<V: Variable>(
        &self,
        count: Expr<usize>,
        identity: V,
        value: impl FnOnce(Expr<usize>) -> V,
        combine: impl Fn(V, V) -> V,
    ) -> V {
        let count = count.read().named("count");
        let sums = sums::<V>(THREADS);
        let sum = |of: &str| V::at(V::unwrapped(format!("{sums}[{of}]")), true);
        let part = identity.variable("part");
        places::<THREADS>(&count.text(), |slot| {
            let value = computed(|| value(slot)).named("value");
            part.assign(&computed(|| combine(part.read(), value)).read());
        });
        meet();
        store(&sum("flash_lane"), &part);
        meet();
        let half = name("half");
        let ((), said) = captured(|| {
            let ((), added) = captured(|| {
                let (own, other) = (sum("flash_lane"), sum(&format!("flash_lane + {half}")));
                store(&own, &computed(|| combine(own.read(), other.read())));
            });
            block(&format!("if (flash_lane < {half})"), &added, "");
            meet();
        });
        if THREADS > 1 {
            block(&format!("for (int {half} = {}; {half} > 0; {half} /= 2)", THREADS / 2), &said, "");
        }
        sum("0").read()
    }

    /// Sets all elements of the own row.
    #[track_caller]
    pub fn set<T: Plain>(&self, row: SliceValue<T>, value: impl FnOnce(Expr<usize>) -> T::Value) {
        self.over(&row, |i, _| value(i));
    }

    /// Replaces all elements of the own row.
    #[track_caller]
    pub fn map<T: Plain>(&self, row: SliceValue<T>, value: impl FnOnce(Expr<usize>, T::Value) -> T::Value) {
        self.over(&row, value);
    }

    #[track_caller]
    fn over<T: Plain>(&self, row: &SliceValue<T>, value: impl FnOnce(Expr<usize>, T::Value) -> T::Value) {
        let Some((first, count)) = &row.row else {
            return error("`set` and `map` are for the work item's own row");
        };
        meet();
        places::<THREADS>(count, |slot| {
            let own = proved::<T>(&row.name, &format!("{first} + {}", slot.text()));
            let value = computed(|| value(slot, own.clone()));
            store(&own, &value);
        });
        meet();
    }

    /// Sets all elements of the own tile.
    #[track_caller]
    pub fn set_tile<T: Plain>(
        &self,
        tile: TileValue<T>,
        value: impl FnOnce(ArrayValue<Expr<usize>, 2>) -> T::Value,
    ) {
        self.map_tile(tile, |place, _| value(place));
    }

    /// Replaces all elements of the own tile.
    #[track_caller]
    pub fn map_tile<T: Plain>(
        &self,
        tile: TileValue<T>,
        value: impl FnOnce(ArrayValue<Expr<usize>, 2>, T::Value) -> T::Value,
    ) {
        let TileValue { name, first, extents: [columns, rows], most: [x, y], .. } = &tile;
        meet();
        turns::<THREADS>(x * y, |slot, turn| {
            let place = place(slot, turn, [*y, *x]);
            let [y, x] = place.map(|at| at.text());
            let ((), said) = captured(|| {
                let own = proved::<T>(name, &format!("{first} + {y} * FLASH_AXIS({name}, 0) + {x}"));
                let value = computed(|| value(ArrayValue::list(place), own.clone()));
                store(&own, &value);
            });
            block(&format!("if ({x} < {columns} && {y} < {rows})"), &said, "");
        });
        meet();
    }

    /// Calls a function with each of `0..count`.
    #[track_caller]
    pub fn each(&self, count: Expr<usize>, body: impl FnOnce(Expr<usize>)) {
        let count = count.read().named("count");
        meet();
        places::<THREADS>(&count.text(), |slot| computed(|| body(slot)));
        meet();
    }
}

fn count<A: CellValues<N>, const N: usize>() -> usize {
    A::EXTENTS.iter().product()
}

/// An array with an element for each thread, which all sums of these values use.
fn sums<V: Variable>(threads: usize) -> String {
    let element = V::c_name();
    let known = |writer: &mut super::writer::Writer| {
        let sums = &writer.team.as_ref()?.sums;
        sums.iter().find(|(of, _)| *of == element).map(|(_, array)| array.clone())
    };
    with(known).unwrap_or_else(|| {
        let array = shared_name();
        with(|writer| {
            writer.group_memory.push(format!("{element} {array}[{threads}]"));
            writer.team.iter_mut().for_each(|team| team.sums.push((element.clone(), array.clone())));
        });
        array
    })
}
