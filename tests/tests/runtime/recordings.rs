//! Submissions are recorded anew each time, whatever was submitted before on this thread: a launch is never
//! taken for an earlier one that looked like it.

use flash::kernel;
use flash::kernel::prelude::kernel_fn;
use flash::kernel::views::{Item, Read, ReadWrite, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_core::descriptor::Attributes;
use flash_tests::{id, key};
use proptest::collection::vec;
use proptest::prelude::*;

/// The two arrays lie across each other, so that shapes and extents show.
#[derive(KernelDefinition)]
#[kernel(name = "recordings.mix", dims(x, y))]
struct Mix<'a> {
    value: u64,
    from: Item<'a, Read<u64>>,
    #[along(y, x)]
    to: Item<'a, ReadWrite<u64>>,
}

/// The same arguments, another kernel.
#[derive(KernelDefinition)]
#[kernel(name = "recordings.blend", dims(x, y))]
struct Blend<'a> {
    value: u64,
    from: Item<'a, Read<u64>>,
    #[along(y, x)]
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel_fn]
fn mixed(kernel: usize, value: u64, from: u64, to: u64, x: u64, y: u64) -> u64 {
    (to.wrapping_mul(5) ^ from).wrapping_add(value * (1 + x + 10 * y) + 7 * kernel as u64)
}

#[kernel(devices)]
impl CpuItem<Mix<'_>> for Plain {
    fn item(ix: Index<2>, k: MixItem<'_>) {
        *k.to = mixed(0, k.value, *k.from, *k.to, ix[0] as u64, ix[1] as u64);
    }
}

#[kernel(devices)]
impl CpuItem<Blend<'_>> for Plain {
    fn item(ix: Index<2>, k: BlendItem<'_>) {
        *k.to = mixed(1, k.value, *k.from, *k.to, ix[0] as u64, ix[1] as u64);
    }
}

#[derive(Clone, Debug)]
struct Submission {
    kernel: usize,
    value: u64,
    from: usize,
    to: usize,
    dims: [u64; 2],
    /// 0: nothing. 1: with an option. 2: owned handles. 3: a range of `to` from element 1 on. 4: all of `to`
    /// in a shape of its own. 5: the same of the elements from number 2 on.
    special: u8,
    /// Which shape that is.
    view: usize,
}

#[derive(Clone, Debug)]
enum Action {
    /// Another list of submissions.
    Run(Vec<Submission>),
    /// The list of last time with one submission changed, or one more.
    Change(usize, Submission),
    /// The list of last time, cut.
    Cut(usize),
    Again,
    /// A memory goes, another comes, likely in the same place.
    Replace(usize),
    Shape(usize, Option<[u64; 2]>),
}

const MEMORIES: usize = 3;
const LEN: u64 = 12;

/// Shapes of 12 and of 10 elements.
const VIEWS: [[[u64; 2]; 4]; 2] = [[[3, 4], [4, 3], [2, 6], [12, 1]], [[5, 2], [2, 5], [10, 1], [1, 10]]];

impl Submission {
    /// The first element of `to` that is passed, and the shape if it has one of its own.
    fn view(&self) -> (u64, Option<[u64; 2]>) {
        match self.special {
            3 => (1, None),
            4 => (0, Some(VIEWS[0][self.view])),
            5 => (2, Some(VIEWS[1][self.view])),
            _ => (0, None),
        }
    }
}

fn submission() -> impl Strategy<Value = Submission> {
    let special = prop_oneof![6 => Just(0u8), 1 => 1..4u8, 3 => 4..6u8];
    let special = (special, 0..4usize);
    (0..2usize, 0..3u64, 0..MEMORIES, 1..MEMORIES, [1..4u64, 0..4u64], special, 0..20u8).prop_map(
        |(kernel, value, from, other, dims, (special, view), same)| {
            // Now and then a memory overlaps itself, which is an error.
            let to = if same == 0 { from } else { (from + other) % MEMORIES };
            Submission { kernel, value, from, to, dims, special, view }
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let shape = prop_oneof![Just(None), Just(Some([3, 4])), Just(Some([4, 3])), Just(Some([6, 2]))];
    prop_oneof![
        2 => vec(submission(), 1..5).prop_map(Action::Run),
        5 => (0..5usize, submission()).prop_map(|(at, new)| Action::Change(at, new)),
        1 => (1..4usize).prop_map(Action::Cut),
        3 => Just(Action::Again),
        2 => (0..MEMORIES).prop_map(Action::Replace),
        2 => (0..MEMORIES, shape).prop_map(|(memory, shape)| Action::Shape(memory, shape)),
    ]
}

#[derive(Clone)]
struct Model {
    data: Vec<u64>,
    shape: Option<[u64; 2]>,
}

/// What the list should do; false if it should be refused.
fn model(list: &[Submission], memories: &mut [Model]) -> bool {
    let before = memories.to_vec();
    for s in list {
        let [nx, ny] = s.dims;
        // A part of a memory has not the memory's shape.
        let (first, view) = s.view();
        let shape_to = view.or(memories[s.to].shape.filter(|_| s.special != 3));
        let fits = |shape: Option<[u64; 2]>, [a, b]: [u64; 2], len: u64| match shape {
            Some(shape) => a <= shape[0] && b <= shape[1],
            None => a * b <= len,
        };
        let shape_from = memories[s.from].shape;
        let inside = fits(shape_from, [nx, ny], LEN) && fits(shape_to, [ny, nx], LEN - first);
        if s.from == s.to || !(inside || nx * ny == 0) {
            memories.clone_from_slice(&before);
            return false;
        }
        for (x, y) in (0..ny).flat_map(|y| (0..nx).map(move |x| (x, y))) {
            let from = memories[s.from].data[(x + y * shape_from.map_or(nx, |s| s[0])) as usize];
            let to = &mut memories[s.to].data[(first + y + x * shape_to.map_or(ny, |s| s[0])) as usize];
            *to = mixed(s.kernel, s.value, from, *to, x, y);
        }
    }
    true
}

fn execute(rt: &RuntimeObj, list: &[Submission], memories: &[FlashMemory<u64>]) -> Result<(), Error> {
    let mut pipeline = rt.pipeline();
    for s in list {
        let (value, from, to) = (s.value, &memories[s.from], &memories[s.to]);
        let submitted = match (s.kernel, s.special) {
            (0, 2) => pipeline.submit(Mix::of(value, from.clone(), to.clone())),
            (_, 2) => pipeline.submit(Blend::of(value, from.clone(), to.clone())),
            (0, 3) => pipeline.submit(Mix::of(value, from, to.range(1..)?)),
            (_, 3) => pipeline.submit(Blend::of(value, from, to.range(1..)?)),
            (0, 4) => pipeline.submit(Mix::of(value, from, to.view(VIEWS[0][s.view])?)),
            (_, 4) => pipeline.submit(Blend::of(value, from, to.view(VIEWS[0][s.view])?)),
            (0, 5) => pipeline.submit(Mix::of(value, from, to.range(2..)?.view(VIEWS[1][s.view])?)),
            (_, 5) => pipeline.submit(Blend::of(value, from, to.range(2..)?.view(VIEWS[1][s.view])?)),
            (0, _) => pipeline.submit(Mix::of(value, from, to)),
            (_, _) => pipeline.submit(Blend::of(value, from, to)),
        };
        let submitted = if s.special == 1 {
            let mut options = Attributes::default();
            options.set_by_name("nobody.knows", true.into(), false);
            submitted.options(options)
        } else {
            submitted
        };
        pipeline = submitted.defer(s.dims);
    }
    pipeline.exec()
}

fn fresh(seed: u64) -> (FlashMemory<u64>, Model) {
    let data: Vec<u64> = (0..LEN).map(|i| i * 7 + seed).collect();
    (FlashMemory::from(data.clone()), Model { data, shape: None })
}

#[flash_tests::test]
fn a_launch_is_never_taken_for_one_that_looked_like_it() {
    let rt = flash_tests::runtime();
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(actions in vec(action(), 1..60))| {
        let (mut real, mut models): (Vec<_>, Vec<_>) = (0..MEMORIES as u64).map(fresh).unzip();
        let mut list: Vec<Submission> = vec![];
        for (number, action) in actions.into_iter().enumerate() {
            match action {
                Action::Run(new) => list = new,
                Action::Change(at, new) if at < list.len() => list[at] = new,
                Action::Change(_, new) => list.push(new),
                Action::Cut(len) => list.truncate(len),
                Action::Again => {}
                Action::Replace(at) => {
                    // The old one goes first: the new one may get its place.
                    drop(real.remove(at));
                    let (memory, model) = fresh(1000 * number as u64);
                    real.insert(at, memory);
                    models[at] = model;
                    continue;
                }
                Action::Shape(at, shape) => {
                    let memory = real.remove(at);
                    let shaped = match shape {
                        Some(shape) => memory.with_shape(shape).unwrap(),
                        None => FlashMemory::from(memory.read().unwrap().to_vec()),
                    };
                    real.insert(at, shaped);
                    models[at].shape = shape;
                    continue;
                }
            }
            list.truncate(6);
            let good = model(&list, &mut models);
            let outcome = execute(&rt, &list, &real);
            prop_assert_eq!(outcome.is_ok(), good, "{:?}: {:?}", list, outcome);
            for (real, model) in real.iter().zip(&models) {
                prop_assert_eq!(&*real.read().unwrap(), &model.data[..], "after {:?}", list);
            }
        }
    });
}

#[flash_tests::test]
fn a_shape_given_between_two_launches_counts() {
    let rt = flash_tests::runtime();
    let (from, to) = (FlashMemory::from(vec![1u64; 12]), FlashMemory::<u64>::zeroed(12));
    rt.submit(Mix::of(0, &from, &to)).exec([2, 3]).unwrap();
    assert_eq!(*to.read().unwrap(), [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    to.write().unwrap().fill(0);
    let to = to.with_shape([4, 3]).unwrap();
    rt.submit(Mix::of(0, &from, &to)).exec([2, 3]).unwrap();
    assert_eq!(*to.read().unwrap(), [1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0]);
    let to = to.with_shape([2, 6]).unwrap();
    rt.submit(Mix::of(0, &from, &to)).exec([2, 3]).expect_err("3 values along an axis of 2");
}

#[flash_tests::test]
fn what_an_earlier_pipeline_wrote_is_no_concern_of_a_later_one() {
    let rt = flash_tests::runtime();
    let [a, b, c]: [FlashMemory<u64>; 3] = std::array::from_fn(|_| FlashMemory::zeroed(4));
    let both = || rt.submit(Mix::of(0, &a, &b)).defer([2, 2]).submit(Mix::of(0, &c, &a)).exec([2, 2]);
    let first = || rt.submit(Mix::of(0, &a, &b)).exec([2, 2]);
    for _ in 0..3 {
        both().unwrap();
        let guard = a.read().unwrap();
        first().expect("it only reads `a`");
        assert!(matches!(both(), Err(Error::Borrowed { .. })), "it writes `a`");
        first().expect("it only reads `a`");
        drop(guard);
        let _guard = c.write().unwrap();
        first().expect("it does not touch `c`");
        assert!(matches!(both(), Err(Error::Borrowed { .. })));
    }
}

#[flash_tests::test]
fn launches_of_many_runtimes_kernels_and_memories_alternate() {
    let runtimes: Vec<RuntimeObj> = (0..3).map(|_| flash_tests::runtime()).collect();
    let memories: Vec<FlashMemory<u64>> = (0..40).map(|_| FlashMemory::zeroed(4)).collect();
    let mut models: Vec<Model> = vec![Model { data: vec![0; 4], shape: None }; 40];
    for round in 0..6u64 {
        let rt = &runtimes[round as usize % 3];
        let list: Vec<Submission> = (0..39 - round as usize)
            .map(|k| Submission {
                kernel: k % 2,
                value: round / 2,
                from: k,
                to: k + 1,
                dims: [2, 2],
                special: 0,
                view: 0,
            })
            .collect();
        for _ in 0..2 {
            assert!(model(&list, &mut models));
            execute(rt, &list, &memories).unwrap();
        }
        for (memory, model) in memories.iter().zip(&models) {
            assert_eq!(*memory.read().unwrap(), model.data[..]);
        }
        // A runtime of its own for one launch: its plans go with it.
        let short = flash_tests::runtime().options(sort_by(["y"]));
        assert!(model(&list, &mut models));
        execute(&short, &list, &memories).unwrap();
    }
}

#[flash_tests::test]
fn pipelines_that_are_kept_stay_what_they_are_while_others_are_built() {
    let rt = flash_tests::runtime();
    let memories: Vec<FlashMemory<u64>> = (0..13).map(|_| FlashMemory::zeroed(4)).collect();
    let kept: Vec<Pipeline<'_>> =
        (0..12).map(|k| rt.submit(Mix::of(k as u64, &memories[12], &memories[k])).defer([2, 2])).collect();
    for k in (0..12).chain((0..12).rev()) {
        kept[k].exec().unwrap();
        rt.submit(Mix::of(1, &memories[0], &memories[12])).exec([0, 2]).unwrap();
    }
    for (k, memory) in memories[..12].iter().enumerate() {
        let once = |to, x, y| mixed(0, k as u64, 0, to, x, y);
        let expected: Vec<u64> =
            [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(x, y)| once(once(0, x, y), x, y)).to_vec();
        assert_eq!(*memory.read().unwrap(), expected);
    }
}

#[flash_tests::test]
fn a_submission_that_is_cut_has_its_boxes_in_the_recording() {
    use flash::kernels::nbody::{Accelerate, Integrate};
    use flash::recording::{Data, Elements, Recording};
    flash_tests::in_process(&[("FLASH_CPU_DEVICES", "2")], || {
        const N: u64 = 1000;
        let mass = FlashMemory::from(vec![1.0f64; N as usize]);
        let pos: FlashMemory<[f64; 3]> = (0..N).map(|i| [i as f64, (i * i % 7) as f64, 0.5]).collect();
        let [vel, acc] = std::array::from_fn(|_| FlashMemory::<[f64; 3]>::zeroed(N as usize));
        let chain = |key: &str| {
            let rt = get_runtime(key).unwrap();
            let shares = weights([3, 1].into_iter().take(rt.devices().len()));
            rt.submit(Accelerate::of(1.0, 0.1, &pos, &mass, &acc))
                .defer([N])
                .submit(Integrate::of(0.01, &acc, &pos, &vel))
                .options(shares)
                .defer([N])
                .recording(Data::With)
                .unwrap()
        };
        let whole = chain(&id(0));
        assert!(whole.submissions.iter().all(|submission| submission.parts.is_none()), "one device");

        let cut = chain(&key());
        let parts = cut.submissions[1].parts.as_ref().unwrap();
        assert_eq!((parts.dimension, parts.grids[1]), (0, [N, 1, 1]));
        let [first, second] = &parts.subspaces[..] else { panic!("{parts:?}") };
        assert_eq!(first.device.as_deref(), Some(&*id(0)));
        assert_eq!(second.device.as_deref(), Some(&*id(1)));
        assert_eq!((first.positions.clone(), second.positions.clone()), (0..752, 752..N));
        let of = |begin, end| Elements::Box { begin: [begin, 0, 0], end: [end, 1, 1] };
        assert_eq!(second.read, [Elements::None, of(752, N), of(752, N), of(752, N)]);
        assert_eq!(first.written, [Elements::None, Elements::None, of(0, 752), of(0, 752)]);
        let accelerate = cut.submissions[0].parts.as_ref().unwrap();
        assert_eq!(accelerate.subspaces[0].read[2], Elements::All, "a `Whole`");

        // Both forms have them; where it runs, they say nothing.
        let (json, bytes) = (cut.to_json().unwrap(), cut.to_bytes().unwrap());
        assert_eq!(Recording::from_json(&json).unwrap(), cut);
        assert_eq!(Recording::from_bytes(&bytes).unwrap(), cut);
        let replayed = |recording: &Recording, key: &str| {
            get_runtime(key).unwrap().replay(recording).unwrap().bytes(2).unwrap()
        };
        let expected = replayed(&whole, &id(0));
        assert_eq!(replayed(&cut, &id(0)), expected);
        assert_eq!(replayed(&whole, &key()), expected);

        type Change = fn(&mut flash::recording::Parts);
        let wrong: [(Change, &str); 5] = [
            (|p| p.dimension = 1, "dimension 1"),
            (|p| p.grids[1][0] += 1, "the grid [1001, 1, 1] of `acc`"),
            (|p| p.subspaces[1].positions.end += 1, "positions 752..1001"),
            (|p| p.subspaces[0].read.truncate(1), "found 1"),
            (
                |p| p.subspaces[1].written[3] = Elements::Box { begin: [752, 0, 0], end: [1001, 1, 1] },
                "the box [752, 0, 0] to [1001, 1, 1] of `vel`",
            ),
        ];
        for (change, text) in wrong {
            let mut recording = cut.clone();
            change(recording.submissions[1].parts.as_mut().unwrap());
            let error = get_runtime(&flash_tests::id(0)).unwrap().replay(&recording).map(drop).unwrap_err();
            assert!(
                error.to_string().contains(text) && error.to_string().contains("submission 1"),
                "{error}"
            );
        }
    });
}

/// Row pointers, made by a kernel: three elements more in each row than in the one before.
#[derive(KernelDefinition)]
#[kernel(name = "recordings.pointers", dims(row))]
struct Pointers<'a> {
    start: Item<'a, Write<u64>>,
}

#[kernel(devices)]
impl CpuItem<Pointers<'_>> for Plain {
    fn item(row: Index<1>, k: PointersItem<'_>) {
        k.start.set(pointer(row[0] as u64));
    }
}

#[kernel_fn]
fn pointer(row: u64) -> u64 {
    3 * row * (row + 1) / 2
}

#[flash_tests::test]
fn a_map_that_looks_into_an_array_has_its_boxes_in_the_recording() {
    use flash::kernels::smmm::Smmm;
    use flash::recording::{Data, Elements, Recording};
    flash_tests::in_process(flash_tests::APART[2], || {
        const M: u64 = 64;
        let n = pointer(M);
        let numbers = |n: u64| (0..n).map(|i| (i % 17) as f64 - 5.0).collect::<FlashMemory<f64>>();
        let (start, column): (FlashMemory<u64>, FlashMemory<u32>) =
            ((0..=M).map(pointer).collect(), (0..n).map(|i| (i * 7 % M) as u32).collect());
        let value = numbers(n);
        let b = numbers(2 * M).with_shape([2, M]).unwrap();
        let c = FlashMemory::<f64>::zeroed([2, M]);
        let zeros = FlashMemory::<u64>::zeroed(M + 1);
        let rt = flash_tests::runtime().options(weights([1, 1]));
        let m = M as usize;
        let product = |start| Smmm::of(2, 2, start, &column, &value, &b, &c);

        let pipeline = rt.submit(product(&start)).defer([M]);
        let recording = pipeline.recording(Data::With).unwrap();
        pipeline.exec().unwrap();
        let expected: Vec<u8> = bytemuck::cast_slice(&c.read().unwrap()).to_vec();
        let parts = recording.submissions[0].parts.as_ref().unwrap();
        let [first, second] = &parts.subspaces[..] else { panic!("{parts:?}") };
        // Half of the elements are in far more than half of the rows.
        let rows = first.positions.end;
        assert!(rows > 40 && first.positions.start == 0 && second.positions == (rows..M), "{parts:?}");
        let of = |begin, end| Elements::Box { begin: [begin, 0, 0], end: [end, 1, 1] };
        for argument in [3, 4] {
            assert_eq!(first.read[argument], of(0, pointer(rows)));
            assert_eq!(second.read[argument], of(pointer(rows), n));
        }
        assert_eq!(second.read[2], Elements::All, "the row pointers");
        let without = pipeline.recording(Data::Without).unwrap();
        assert_eq!(without.submissions, recording.submissions, "contents or not, they are looked at");
        drop(pipeline);

        // What a submission before it writes is known when it runs.
        let written = rt
            .submit(Pointers::of(&zeros))
            .defer([M + 1])
            .submit(product(&zeros))
            .defer([M])
            .recording(Data::With)
            .unwrap();
        assert_eq!(written.submissions[1].parts, None);
        // Another memory, or what lies beside it in the same one, says nothing of it.
        let long: FlashMemory<u64> = (0..2 * M + 2).map(|row| pointer(row % (M + 1))).collect();
        let of = |range: std::ops::Range<usize>| long.range(range).unwrap();
        let kernel = Smmm::of(
            2,
            2,
            of(0..m + 1),
            column.range(..).unwrap(),
            value.range(..).unwrap(),
            b.range(..).unwrap(),
            &c,
        );
        let beside = rt
            .submit(Pointers::of(of(m + 1..2 * m + 2)))
            .defer([M + 1])
            .submit(kernel)
            .defer([M])
            .recording(Data::With)
            .unwrap();
        assert_eq!(beside.submissions[1].parts.as_ref().unwrap().subspaces.len(), 2);

        for recording in [recording, written, beside] {
            let (json, bytes) = (recording.to_json().unwrap(), recording.to_bytes().unwrap());
            assert_eq!(Recording::from_json(&json).unwrap(), recording);
            assert_eq!(Recording::from_bytes(&bytes).unwrap(), recording);
            let last = recording.written_by(recording.submissions.len() - 1)[0];
            for key in [id(0), key()] {
                let rt = get_runtime(&key).unwrap();
                assert_eq!(rt.replay(&recording).unwrap().bytes(last).unwrap(), expected, "{key}");
                let mut steps = rt.replay_steps(&recording).unwrap();
                while steps.step().unwrap().is_some() {}
                assert_eq!(steps.memories().bytes(last).unwrap(), expected, "{key}, step by step");
            }
        }

        // A map that would be refused is refused here, too, and says why.
        let decreasing: FlashMemory<u64> = (0..=M).rev().collect();
        let error = rt.submit(product(&decreasing)).defer([M]).recording(Data::With).unwrap_err();
        assert!(matches!(error, Error::Partition { .. }), "{error}");
    });
}
