//! Random pipelines over shared memories, on one to four devices, against a serial model: the same
//! contents, the same failures, the same poison, element by element.
//!
//! Every case is made from a number, which a failure prints.

use flash::kernel;
use flash::kernel::prelude::kernel_fn;
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Scatter, Sum, Whole, Window, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_core::descriptor::{ArrayMap, Attributes, PartBy, part_by, stencil, tiles};
use flash_core::memory::MemoryView;
use flash_tests::Random;
use std::ops::Range;

/// Scalars of every kernel: the item that panics, a number, and the extents along x and y.
type Say = [u64; 4];

const NEVER: u64 = u64::MAX;

#[derive(KernelDefinition)]
#[kernel(name = "random.bump", dims(x, y, z))]
struct Bump<'a> {
    say: Say,
    to: Item<'a, ReadWrite<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "random.set", dims(x, y, z))]
struct Set<'a> {
    say: Say,
    from: Item<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "random.blur", dims(x, y, z))]
struct Blur<'a> {
    say: Say,
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "random.mix", dims(x, y, z))]
struct Mix<'a> {
    say: Say,
    from: Whole<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "random.steps", dims(x, y, z, step), group_by(step))]
struct Steps<'a> {
    say: Say,
    #[along(x, y, z)]
    to: Phased<'a, u64>,
}

#[derive(KernelDefinition)]
#[kernel(name = "random.count", dims(x, y, z))]
struct Count<'a> {
    say: Say,
    from: Item<'a, Read<u64>>,
    to: Reduce<'a, ReadWrite<[u64]>, Sum>,
}

#[derive(KernelDefinition)]
#[kernel(name = "random.fresh_count", dims(x, y, z))]
struct FreshCount<'a> {
    say: Say,
    from: Item<'a, Read<u64>>,
    to: Reduce<'a, Write<[u64]>, Sum>,
}

#[derive(KernelDefinition)]
#[kernel(name = "random.spread", dims(x, y, z))]
struct Spread<'a> {
    say: Say,
    from: Item<'a, Read<u64>>,
    to: Scatter<'a, u64>,
}

struct Plain;

/// The flat number of a work item; panics if it is the one that shall.
#[kernel_fn]
fn flat(v: [usize; 3], say: Say) -> usize {
    let flat = v[0] + say[2] as usize * (v[1] + say[3] as usize * v[2]);
    assert!(flat as u64 != say[0], "item {flat} panics");
    flat
}

#[kernel_fn]
fn bumped(was: u64, salt: u64, i: usize) -> u64 {
    was.wrapping_mul(2 * salt + 3).wrapping_add(i as u64)
}

#[kernel_fn]
fn made(from: u64, salt: u64, i: usize) -> u64 {
    from.rotate_left(7).wrapping_add(salt ^ i as u64)
}

/// Of an element and its neighbours, as far as there are any.
fn blurred(at: [usize; 3], shape: [usize; 3], salt: u64, get: impl Fn([usize; 3]) -> u64) -> u64 {
    let mut value = get(at).wrapping_mul(salt | 1);
    for axis in 0..3 {
        if at[axis] > 0 {
            let mut there = at;
            there[axis] -= 1;
            value = value.wrapping_mul(3).wrapping_add(get(there));
        }
        if at[axis] + 1 < shape[axis] {
            let mut there = at;
            there[axis] += 1;
            value = value.wrapping_mul(5) ^ get(there);
        }
    }
    value
}

#[kernel(devices)]
impl CpuItem<Bump<'_>> for Plain {
    fn item(ix: Index<3>, k: BumpItem<'_>) {
        let i = flat(ix.values(), k.say);
        *k.to = bumped(*k.to, k.say[1], i);
    }
}

#[kernel(devices)]
impl CpuItem<Set<'_>> for Plain {
    fn item(ix: Index<3>, k: SetItem<'_>) {
        let i = flat(ix.values(), k.say);
        k.to.set(made(*k.from, k.say[1], i));
    }
}

#[kernel(devices)]
impl CpuItem<Blur<'_>> for Plain {
    fn item(ix: Index<3>, k: BlurItem<'_>) {
        flat(ix.values(), k.say);
        let (nx, ny) = (k.say[2] as usize, k.say[3] as usize);
        let shape = [nx, ny, k.from.len() / nx / ny];
        let at = ix.values();
        let mut value = k.from.at(at).wrapping_mul(k.say[1] | 1);
        for axis in 0..3 {
            let mut there = at;
            if at[axis] > 0 {
                there[axis] = at[axis] - 1;
                value = value.wrapping_mul(3).wrapping_add(k.from.at(there));
            }
            if at[axis] + 1 < shape[axis] {
                there[axis] = at[axis] + 1;
                value = value.wrapping_mul(5) ^ k.from.at(there);
            }
        }
        k.to.set(value);
    }
}

#[kernel(devices)]
impl CpuItem<Mix<'_>> for Plain {
    fn item(ix: Index<3>, k: MixItem<'_>) {
        let i = flat(ix.values(), k.say);
        *k.to = mixed(*k.to, k.from[(i * 7 + k.say[1] as usize) % k.from.len()]);
    }
}

#[kernel_fn]
fn mixed(was: u64, from: u64) -> u64 {
    was.wrapping_mul(3).wrapping_add(from)
}

#[kernel(devices)]
impl CpuItem<Steps<'_>> for Plain {
    fn item(ix: Index<4>, mut k: StepsItem<'_>) {
        let (at, step) = ([ix[0], ix[1], ix[2]], ix[3]);
        let i = flat(at, k.say);
        let (nx, ny) = (k.say[2] as usize, k.say[3] as usize);
        let (shape, strides) = ([nx, ny, k.to.len() / nx / ny], [1, nx, nx * ny]);
        let own = at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2];
        let mut value = k.to.get(own).wrapping_mul((k.say[1] + step as u64) | 1);
        for axis in 0..3 {
            if at[axis] > 0 {
                value = value.wrapping_mul(3).wrapping_add(k.to.get(own - strides[axis]));
            }
            if at[axis] + 1 < shape[axis] {
                value = value.wrapping_mul(5) ^ k.to.get(own + strides[axis]);
            }
        }
        // Some keep what they have.
        if !(i + step).is_multiple_of(5) {
            k.to.set(value);
        }
    }
}

#[kernel_fn]
fn bin(value: u64, salt: u64, i: usize, bins: usize) -> (usize, u64) {
    ((value.wrapping_mul(salt | 1).wrapping_add(i as u64) % bins as u64) as usize, value >> 3 | 1)
}

#[kernel(devices)]
impl CpuItem<Count<'_>> for Plain {
    fn item(ix: Index<3>, mut k: CountItem<'_>) {
        let (at, value) = bin(*k.from, k.say[1], flat(ix.values(), k.say), k.to.len());
        k.to.put(at, value);
    }
}

#[kernel(devices)]
impl CpuItem<FreshCount<'_>> for Plain {
    fn item(ix: Index<3>, mut k: FreshCountItem<'_>) {
        let (at, value) = bin(*k.from, k.say[1], flat(ix.values(), k.say), k.to.len());
        k.to.put(at, value);
    }
}

#[kernel(devices)]
impl CpuItem<Spread<'_>> for Plain {
    fn item(ix: Index<3>, k: SpreadItem<'_>) {
        let i = flat(ix.values(), k.say);
        k.to.add(i, k.from.rotate_left(11) ^ k.say[1]);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bump,
    Set,
    Blur,
    Mix,
    Steps,
    Count,
    FreshCount,
    Spread,
}

const KINDS: [Kind; 8] =
    [Kind::Bump, Kind::Set, Kind::Blur, Kind::Mix, Kind::Steps, Kind::Count, Kind::FreshCount, Kind::Spread];

/// One submission: `from` and `to` are memories, with ranges of their elements.
#[derive(Clone, Debug)]
struct Step {
    kind: Kind,
    from: (usize, Range<usize>),
    to: (usize, Range<usize>),
    /// As the launch sees both, but for a `Mix`'s `from` and accumulators.
    shape: [usize; 3],
    /// The work items.
    items: [Range<usize>; 3],
    steps: usize,
    fails: u64,
    salt: u64,
    /// The dimension of the cut.
    cut: Option<&'static str>,
    mapped: bool,
    /// Its arrays have their shapes as views, and not by `sizes`.
    views: bool,
    subspaces: Option<u32>,
    weights: Option<Vec<f64>>,
}

impl Step {
    fn new(random: &mut Random, model: &Model, devices: usize, copying: bool) -> Step {
        let kind = KINDS[random.below(KINDS.len())];
        let to = random.below(model.memories.len());
        let from = (to + 1 + random.below(model.memories.len() - 1)) % model.memories.len();
        let (from_shape, to_shape) = (model.memories[from].shape, model.memories[to].shape);
        let len = |shape: [usize; 3]| shape.iter().product::<usize>();
        let counts = matches!(kind, Kind::Count | Kind::FreshCount);
        let one_shape =
            from_shape == to_shape || counts || matches!(kind, Kind::Bump | Kind::Steps | Kind::Mix);
        let shaped = one_shape && !random.one_in(3);
        let (shape, from_range, to_range);
        if shaped {
            shape = if counts { from_shape } else { to_shape };
            from_range = 0..len(from_shape);
            to_range = if counts { random.range(len(to_shape).min(30)) } else { 0..len(to_shape) };
        } else {
            let n = 1 + random.below(len(from_shape).min(len(to_shape)));
            let mut part = |all: usize, n: usize| {
                let first = random.below(all - n + 1);
                first..first + n
            };
            shape = [n, 1, 1];
            from_range = part(len(from_shape), n);
            to_range = part(len(to_shape), if counts { n.min(30) } else { n });
        }
        let whole = !matches!(kind, Kind::Bump | Kind::Set | Kind::Blur) || random.one_in(2);
        let items = shape.map(|n| if whole { 0..n } else { random.range(n) });
        let all = items.iter().zip(shape).all(|(r, n)| *r == (0..n));
        let fails = if random.one_in(12) && (copying || all) {
            let at: [usize; 3] = std::array::from_fn(|a| items[a].start + random.below(items[a].len()));
            (at[0] + shape[0] * (at[1] + shape[1] * at[2])) as u64
        } else {
            NEVER
        };
        let cut = (!random.one_in(3)).then(|| ["x", "y", "z"][random.below(3)]);
        // A cut `Scatter` has to have its map.
        let mapped = cut.is_some() && (kind == Kind::Spread || !random.one_in(3));
        Step {
            kind,
            from: (from, from_range),
            to: (to, to_range),
            shape,
            items,
            steps: 1 + random.below(4),
            fails,
            salt: random.next() % 1000,
            cut,
            mapped,
            views: random.one_in(2),
            subspaces: random.one_in(4).then(|| 1 + random.below(9) as u32),
            weights: random.one_in(2).then(|| (0..devices).map(|_| random.below(4) as f64).collect()),
        }
    }

    /// How it is cut.
    fn options(&self) -> Attributes {
        let mut options = Attributes::default();
        let Some(cut) = self.cut else { return options };
        let mut by: PartBy = part_by(cut);
        if self.mapped {
            let map: Option<(&str, ArrayMap)> = match self.kind {
                Kind::Blur => Some(("from", stencil([("x", 1), ("y", 1), ("z", 1)]))),
                Kind::Steps => Some(("to", stencil([("x", 1), ("y", 1), ("z", 1)]))),
                Kind::Spread => Some(("to", tiles([("x", 1), ("y", 1), ("z", 1)]))),
                _ => None,
            };
            by = map.into_iter().fold(by, |by, (argument, map)| by.map(argument, map));
        }
        options.set(by);
        if let Some(subspaces) = self.subspaces {
            options.set(flash_core::descriptor::Subspaces(subspaces));
        }
        if let Some(weights) = &self.weights
            && weights.iter().sum::<f64>() > 0.0
        {
            options.set(flash_core::descriptor::weights(weights.iter().copied()));
        }
        options
    }

    fn submit<'a>(&self, chain: Pipeline<'a>, memories: &'a [FlashMemory<u64>]) -> Pipeline<'a> {
        let say: Say = [self.fails, self.salt, self.shape[0] as u64, self.shape[1] as u64];
        let range = |(memory, range): &(usize, Range<usize>)| -> MemoryView<'a, u64> {
            memories[*memory].range(range.clone()).unwrap()
        };
        let (mut from, mut to) = (range(&self.from), range(&self.to));
        let seen = self.shape.map(|n| n as u64).to_vec();
        let flat = |range: &Range<usize>| vec![range.len() as u64];
        let from_shape = if self.kind == Kind::Mix { flat(&self.from.1) } else { seen.clone() };
        let counts = matches!(self.kind, Kind::Count | Kind::FreshCount);
        let to_shape = if counts { flat(&self.to.1) } else { seen };
        if self.views {
            if !matches!(self.kind, Kind::Bump | Kind::Steps) {
                from = from.view(&from_shape[..]).unwrap();
            }
            to = to.view(&to_shape[..]).unwrap();
        }
        let submitted = match self.kind {
            Kind::Bump => chain.submit(Bump::of(say, to)),
            Kind::Steps => chain.submit(Steps::of(say, to)),
            Kind::Set => chain.submit(Set::of(say, from, to)),
            Kind::Blur => chain.submit(Blur::of(say, from, to)),
            Kind::Mix => chain.submit(Mix::of(say, from, to)),
            Kind::Count => chain.submit(Count::of(say, from, to)),
            Kind::FreshCount => chain.submit(FreshCount::of(say, from, to)),
            Kind::Spread => chain.submit(Spread::of(say, from, to)),
        };
        let submitted = match (self.kind, self.views) {
            (_, true) => submitted,
            (Kind::Bump | Kind::Steps, false) => submitted.sizes([&to_shape[..]]),
            (_, false) => submitted.sizes([&from_shape[..], &to_shape[..]]),
        };
        let (options, [x, y, z]) = (self.options(), self.items.clone());
        let submitted = if options.is_empty() { submitted } else { submitted.options(options) };
        match self.kind {
            Kind::Steps => submitted.defer((x, y, z, self.steps)),
            _ => submitted.defer((x, y, z)),
        }
    }

    /// The flat numbers of some work items.
    fn cells(&self, items: &[Range<usize>; 3]) -> Vec<usize> {
        let [x, y, z] = items.clone();
        let mut cells = Vec::new();
        for z in z {
            for y in y.clone() {
                cells.extend(x.clone().map(|x| x + self.shape[0] * (y + self.shape[1] * z)));
            }
        }
        cells
    }

    /// The elements of its arrays that it reads, and those that it writes.
    #[allow(clippy::type_complexity)] // what is read and what is written, each by memory and element
    fn touched(&self) -> (Vec<(usize, usize)>, Vec<(usize, usize)>) {
        let own = self.cells(&self.items);
        let of = |(memory, range): &(usize, Range<usize>), cells: &[usize]| -> Vec<(usize, usize)> {
            cells.iter().map(|cell| (*memory, range.start + cell)).collect()
        };
        let all = |array: &(usize, Range<usize>)| of(array, &(0..array.1.len()).collect::<Vec<_>>());
        let (mut reads, writes) = match self.kind {
            Kind::Bump => (of(&self.to, &own), of(&self.to, &own)),
            Kind::Set => (of(&self.from, &own), of(&self.to, &own)),
            Kind::Blur => {
                let wide = |a: usize| {
                    let range = &self.items[a];
                    range.start.saturating_sub(1)..(range.end + 1).min(self.shape[a])
                };
                let wide = self.cells(&std::array::from_fn(wide));
                let from = if self.mapped { of(&self.from, &wide) } else { all(&self.from) };
                (from, of(&self.to, &own))
            }
            Kind::Mix => (all(&self.from), of(&self.to, &own)),
            Kind::Steps => (all(&self.to), all(&self.to)),
            Kind::Count => (of(&self.from, &own), all(&self.to)),
            Kind::FreshCount => (of(&self.from, &own), all(&self.to)),
            Kind::Spread => (of(&self.from, &own), all(&self.to)),
        };
        if matches!(self.kind, Kind::Mix | Kind::Count | Kind::Spread) {
            reads.extend(&writes);
        }
        (reads, writes)
    }
}

/// A memory as a serial program has it. `None`: poisoned.
#[derive(Clone)]
struct Array {
    shape: [usize; 3],
    elements: Vec<Option<u64>>,
}

struct Model {
    memories: Vec<Array>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Panic,
    Skipped,
}

impl Model {
    fn new(random: &mut Random) -> Model {
        let shapes = [[700, 1, 1], [33, 17, 1], [9, 7, 8], [40, 6, 3], [5, 1, 1]];
        let (first, count) = (random.below(4), 3 + random.below(4));
        let memories = (0..count).map(|_| {
            // Many of one shape, so that they meet in a launch.
            let shape = if random.one_in(2) { shapes[first] } else { shapes[random.below(5)] };
            let elements = (0..shape.iter().product()).map(|_| Some(random.next())).collect();
            Array { shape, elements }
        });
        Model { memories: memories.collect() }
    }

    fn run(&mut self, step: &Step) -> Option<Failure> {
        let (reads, writes) = step.touched();
        let poisoned = reads.iter().any(|(memory, i)| self.memories[*memory].elements[*i].is_none());
        let failure = match (poisoned, step.fails != NEVER) {
            (true, _) => Some(Failure::Skipped),
            (_, true) => Some(Failure::Panic),
            _ => None,
        };
        if failure.is_some() {
            for (memory, i) in writes {
                self.memories[memory].elements[i] = None;
            }
            return failure;
        }
        let values = |(memory, range): &(usize, Range<usize>)| -> Vec<u64> {
            // What is poisoned is not looked at.
            self.memories[*memory].elements[range.clone()].iter().map(|e| e.unwrap_or(77)).collect()
        };
        let (from, mut to) = (values(&step.from), values(&step.to));
        let own = step.cells(&step.items);
        let at = |i: usize| {
            let [nx, ny, _] = step.shape;
            [i % nx, i / nx % ny, i / nx / ny]
        };
        let number = |[x, y, z]: [usize; 3]| x + step.shape[0] * (y + step.shape[1] * z);
        match step.kind {
            Kind::Bump => own.iter().for_each(|&i| to[i] = bumped(to[i], step.salt, i)),
            Kind::Set => own.iter().for_each(|&i| to[i] = made(from[i], step.salt, i)),
            Kind::Blur => {
                for &i in &own {
                    to[i] = blurred(at(i), step.shape, step.salt, |at| from[number(at)]);
                }
            }
            Kind::Mix => own
                .iter()
                .for_each(|&i| to[i] = mixed(to[i], from[(i * 7 + step.salt as usize) % from.len()])),
            Kind::Steps => {
                for phase in 0..step.steps {
                    let was = to.clone();
                    for &i in own.iter().filter(|&i| (i + phase) % 5 != 0) {
                        to[i] = blurred(at(i), step.shape, step.salt + phase as u64, |at| was[number(at)]);
                    }
                }
            }
            Kind::Count | Kind::FreshCount => {
                if step.kind == Kind::FreshCount {
                    to.fill(0);
                }
                for &i in &own {
                    let (at, value) = bin(from[i], step.salt, i, to.len());
                    to[at] = to[at].wrapping_add(value);
                }
            }
            Kind::Spread => own.iter().for_each(|&i| {
                to[i] = to[i].wrapping_add(from[i].rotate_left(11) ^ step.salt);
            }),
        }
        let elements = &mut self.memories[step.to.0].elements;
        for (_, i) in writes {
            elements[i] = Some(to[i - step.to.1.start]);
        }
        None
    }
}

/// What a run said, by position.
fn failures(outcome: Result<(), Error>) -> Vec<(usize, Failure)> {
    let kind = |error: &Error| match error {
        Error::Skipped { .. } => Failure::Skipped,
        Error::Backend { text, .. } if text.contains("panics") => Failure::Panic,
        other => panic!("an error that was not asked for: {other}"),
    };
    match outcome {
        Ok(()) => Vec::new(),
        Err(Error::Launch(first)) => std::iter::once((first.position(), kind(first.cause())))
            .chain(first.others().iter().map(|other| (other.position(), kind(other.cause()))))
            .collect(),
        Err(other) => panic!("an error that was not asked for: {other}"),
    }
}

/// What a range of a memory is, and what the model says.
fn compare(memory: &FlashMemory<u64>, model: &Array, range: Range<usize>, what: &str) {
    let expected: Option<Vec<u64>> = model.elements[range.clone()].iter().copied().collect();
    match (memory.read_range(range.clone()), expected) {
        (Ok(found), Some(expected)) => assert_eq!(*found, expected[..], "{what}, elements {range:?}"),
        (Err(Error::Poisoned), None) => {}
        (found, expected) => panic!(
            "{what}, elements {range:?}: found {:?}, expected poison: {}",
            found.map(|_| "contents"),
            expected.is_none()
        ),
    }
}

/// What the cases run on.
struct On {
    /// `runtimes[n]` has n + 1 devices.
    runtimes: Vec<RuntimeObj>,
    /// The devices have memories of their own.
    copying: bool,
    /// No other test has these devices.
    alone: bool,
}

fn one_case(seed: u64, on: &On) {
    let On { runtimes, copying, alone } = on;
    let copying = *copying;
    let mut random = Random(seed);
    let mut model = Model::new(&mut random);
    let memories: Vec<FlashMemory<u64>> = model
        .memories
        .iter()
        .map(|array| {
            let values: Vec<u64> = array.elements.iter().map(|e| e.unwrap()).collect();
            FlashMemory::from(values).with_shape(array.shape).unwrap()
        })
        .collect();
    // Room for one pipeline's memories, second buffers and accumulators, and growth; those of the case before
    // have to go.
    let small = *alone && random.one_in(2);
    for device in runtimes[runtimes.len() - 1].devices().iter().filter(|_| *alone) {
        let budget = if small { 40 << 10 } else { u64::MAX };
        assert_eq!(device.set_memory_budget(budget), copying);
    }
    for run in 0..1 + random.below(4) {
        let devices = 1 + random.below(runtimes.len());
        let rt = &runtimes[devices - 1];
        let steps: Vec<Step> =
            (0..1 + random.below(8)).map(|_| Step::new(&mut random, &model, devices, copying)).collect();
        let what = format!("case {seed}, run {run} on {devices} devices: {steps:#?}");
        let pipeline = steps.iter().fold(rt.pipeline(), |chain, step| step.submit(chain, &memories));
        for _ in 0..1 + usize::from(random.one_in(4)) {
            let found = failures(pipeline.exec());
            let expected: Vec<_> = steps
                .iter()
                .enumerate()
                .filter_map(|(i, step)| model.run(step).map(|failure| (i, failure)))
                .collect();
            assert_eq!(found, expected, "failures of {what}");
        }
        // The host looks, and writes.
        for (memory, array) in memories.iter().zip(&mut model.memories) {
            let len = array.elements.len();
            match random.below(4) {
                0 => compare(memory, array, random.range(len), &what),
                1 => {
                    let poisoned = array.elements.iter().any(Option::is_none);
                    let range = if poisoned { 0..len } else { random.range(len) };
                    let mut guard = memory.write().unwrap();
                    for i in range {
                        let value = random.next();
                        guard[i] = value;
                        array.elements[i] = Some(value);
                    }
                }
                _ => {}
            }
        }
        if random.one_in(3) {
            compare_all(&memories, &model, &what);
        }
    }
    compare_all(&memories, &model, &format!("the end of case {seed}"));
}

/// Element by element where there is poison.
fn compare_all(memories: &[FlashMemory<u64>], model: &Model, what: &str) {
    for (m, (memory, array)) in memories.iter().zip(&model.memories).enumerate() {
        let (len, what) = (array.elements.len(), format!("memory {m} of {what}"));
        match array.elements.iter().any(Option::is_none) {
            true => (0..len).for_each(|i| compare(memory, array, i..i + 1, &what)),
            false => compare(memory, array, 0..len, &what),
        }
    }
}

fn cases(seeds: Range<u64>, on: &On) {
    let only = std::env::var("FLASH_TEST_SEED").ok().and_then(|text| text.parse().ok());
    for seed in only.map_or(seeds, |seed: u64| seed..seed + 1) {
        one_case(seed, on);
    }
}

fn cases_on_cpus(seeds: Range<u64>, copying: bool, settings: &[(&str, &str)]) {
    let context = flash_tests::context(settings);
    let keys = ["ALL_CPU:0", "ALL_CPU:0,1", "ALL_CPU:0,1,2", "ALL_CPU:0,1,2,3"];
    let runtimes = keys.iter().map(|key| context.runtime(key).unwrap()).collect();
    cases(seeds, &On { runtimes, copying, alone: true });
}

#[flash_tests::test]
fn random_pipelines_on_the_devices_of_the_key_are_as_a_serial_run() {
    let rt = flash_tests::runtime();
    let ids: Vec<&str> = rt.devices().iter().map(|device| device.id()).collect();
    let runtimes = (1..=ids.len()).map(|n| get_runtime(&ids[..n].join(",")).unwrap()).collect();
    let copying = rt.devices().iter().all(|device| device.set_memory_budget(u64::MAX));
    cases(30_000..30_100, &On { runtimes, copying, alone: false });
}

#[test]
fn random_pipelines_on_devices_with_memories_of_their_own_are_as_a_serial_run() {
    cases_on_cpus(0..600, true, &[("cpu.devices", "4"), ("cpu.copy", "1")]);
}

#[test]
fn random_pipelines_on_devices_that_share_the_hosts_memory_are_as_a_serial_run() {
    cases_on_cpus(10_000..10_600, false, &[("cpu.devices", "4"), ("cpu.copy", "0")]);
}

#[test]
fn random_pipelines_are_as_a_serial_run_with_granules_of_one_element() {
    // A throttle of none makes them other devices than those of the first test, whose budgets it sets.
    let devices = [("cpu.devices", "4"), ("cpu.copy", "1"), ("cpu.throttle", "1,1,1,1")];
    cases_on_cpus(20_000..20_300, true, &[&devices[..], &[("host_granule", "8")]].concat());
}
