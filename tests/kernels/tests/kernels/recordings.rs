//! Recordings of the library's kernels: those of version 1, where the kernels were not in the namespace
//! `flash.`, and those of kernels that have such names today.
//!
//! `recordings/version_1.json` and `.flash` were written by FLASH as it was then, from the pipeline of
//! [`of_each_kernel`] and a last submission, of `vdp`, which was cut out of the files. They are never made
//! anew.

use flash::kernel::prelude::*;
use flash::kernels::smmm::Smmm;
use flash::kernels::{conv1d, diffusion, ewmd, ewmm, js, mmm, mvm, nbody, vdp};
use flash::prelude::*;
use flash::recording::{Data, Recording};
use std::path::Path;

/// The two forms of the recording of version 1.
fn of_version_1() -> [Vec<u8>; 2] {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    ["version_1.json", "version_1.flash"].map(|name| std::fs::read(place.join(name)).unwrap())
}

/// Numbers from 0.5 to 1.5, in no order.
fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| 0.5 + (i * 37 + seed * 11 + i * i) as f32 % 61.0 / 64.0).collect()
}

/// Runs `with` on a pipeline that has each kernel of version 1 that could be replayed then, once, in the
/// order of their names: all but `flash.vdp`.
fn of_each_kernel<R>(rt: &RuntimeObj, with: impl FnOnce(Pipeline<'_>) -> R) -> R {
    let array = |n, seed| FlashMemory::from(numbers(n, seed));
    let shaped = |shape: &[usize], seed| array(shape.iter().product(), seed).with_shape(shape).unwrap();
    let spread = |seed| numbers(15, seed).chunks(3).map(|x| [x[0], x[1], x[2]]).collect::<FlashMemory<_>>();

    let (filter, signal, response) = (array(3, 1), array(9, 2), array(7, 3));
    let (rx, ry, x, y) = (array(8, 4), array(8, 5), array(4, 6), array(4, 7));
    let (cell, track) = (FlashMemory::zeroed(4), FlashMemory::zeroed([3, 4]));
    let counts = FlashMemory::zeroed(3 * 16);
    let (plate, warmer) = (shaped(&[4, 3], 8), shaped(&[4, 3], 9));
    let (a, b, quotient, product) = (array(5, 10), array(5, 11), array(5, 12), array(5, 13));
    let [from, f, to] = [14, 15, 16].map(|seed| shaped(&[3, 4, 3], seed));
    let (left, right, dense) = (shaped(&[3, 2], 17), shaped(&[4, 3], 18), shaped(&[4, 2], 19));
    let (vector, image) = (array(3, 20), array(2, 21));
    let (mass, acc, pos, vel) = (array(5, 22), spread(23), spread(24), spread(25));
    let start: FlashMemory<u64> = [0, 2, 3].into();
    let (column, value) = (FlashMemory::from([0u32, 2, 1]), array(3, 26));
    let sparse = shaped(&[4, 2], 27);

    let pipeline = rt
        .submit(conv1d(&filter, &signal, &response).unwrap())
        .defer([7])
        .submit(diffusion::walk(4, 0.5, [&rx, &ry], [&x, &y], &cell, &track).unwrap())
        .defer([4])
        .submit(diffusion::count(2, &track, &counts).unwrap())
        .defer((diffusion::stretches(2), 4))
        .submit(diffusion::heat(0.2, &plate, &warmer).unwrap())
        .defer((4, 3))
        .submit(ewmd(&a, &b, &quotient).unwrap())
        .defer([5])
        .submit(ewmm(&a, &b, &product).unwrap())
        .defer([5])
        .submit(js(0.5, &from, &f, &to).unwrap())
        .defer((1..2, 1..3, 1..2))
        .submit(mmm([2, 4, 3], &left, &right, &dense).unwrap())
        .defer([2])
        .submit(mvm([2, 3], &left, &vector, &image).unwrap())
        .defer([2])
        .submit(nbody::accelerate(1.0, 0.01, &pos, &mass, &acc).unwrap())
        .defer([5])
        .submit(nbody::integrate(0.01, &acc, &pos, &vel).unwrap())
        .defer([5])
        .submit(nbody::simulate([1.0, 0.01, 0.01], &mass, &pos, &vel, &acc).unwrap())
        .defer((5, 2, 3))
        .submit(Smmm::of(
            4,
            4,
            &start,
            column.range(..).unwrap(),
            value.range(..).unwrap(),
            right.range(..12).unwrap(),
            &sparse,
        ))
        .defer([2]);
    with(pipeline)
}

/// The contents of all memories after a replay.
fn replayed(rt: &RuntimeObj, recording: &Recording) -> Vec<Vec<u8>> {
    let memories = rt.replay(recording).unwrap();
    (0..memories.len()).map(|memory| memories.bytes(memory).unwrap()).collect()
}

#[test]
fn version_1_is_what_is_recorded_today_and_gives_the_bits_of_a_fresh_launch() {
    let rt = get_runtime("ALL_CPU:0").unwrap();
    let [before, after] = of_each_kernel(&rt, |pipeline| {
        let before = pipeline.recording(Data::With).unwrap();
        pipeline.exec().unwrap();
        [before, pipeline.recording(Data::With).unwrap()]
    });
    let fresh: Vec<Vec<u8>> = after.memories.into_iter().map(|memory| memory.data.unwrap()).collect();
    for file in of_version_1() {
        let recording = Recording::from_bytes(&file).unwrap();
        assert!(recording.kernels.iter().all(|kernel| kernel.name.starts_with("flash.")), "{recording:?}");
        // Names, arguments, options, contents: all of it.
        assert_eq!(recording, before);
        assert_eq!(replayed(&rt, &recording), fresh);
    }
}

#[test]
fn version_1_is_saved_as_version_2_with_the_present_names() {
    for file in of_version_1() {
        let recording = Recording::from_bytes(&file).unwrap();
        let json = recording.to_json().unwrap();
        assert!(json.starts_with(r#"{"format":"flash.recording","version":2,"#), "{json}");
        assert_eq!(json.matches(r#"{"name":"flash."#).count(), 13, "{json}");
        let bytes = recording.to_bytes().unwrap();
        assert!(bytes.starts_with(b"FLASHREC\x02\0\0\0"));
        for again in [json.as_bytes(), &bytes] {
            assert_eq!(Recording::from_bytes(again).unwrap(), recording);
        }
    }
}

/// A program's own, with the name that the library's had, and the same arguments.
#[derive(KernelDefinition)]
#[kernel(name = "nbody.integrate", dims(body))]
struct Integrate<'a> {
    dt: f32,
    acc: Item<'a, Read<[f32; 3]>>,
    pos: Item<'a, ReadWrite<[f32; 3]>>,
    vel: Item<'a, ReadWrite<[f32; 3]>>,
}

/// Another one, with other arguments.
#[derive(KernelDefinition)]
#[kernel(name = "vdp", dims(i))]
struct Own<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

struct Code;

#[kernel]
impl CpuItem<Integrate<'_>> for Code {
    fn item(_: Index<1>, k: IntegrateItem<'_>) {
        *k.vel = *k.acc;
        *k.pos = [k.dt; 3];
    }
}

#[kernel]
impl CpuItem<Own<'_>> for Code {
    fn item(i: Index<1>, k: OwnItem<'_>) {
        *k.to += i[0] as u32;
    }
}

#[test]
fn a_definition_that_has_a_name_of_version_1_runs_its_own_code() {
    let rt = get_runtime("ALL_CPU:0").unwrap();
    let [ours, theirs] = [(); 2].map(|()| [[1.0f32; 3], [2.0; 3]].map(|x| FlashMemory::from([x; 4])));
    let acc = FlashMemory::from([[3.0f32; 3]; 4]);
    let all = |memory: &FlashMemory<[f32; 3]>| memory.read().unwrap()[..].to_vec();
    let pipeline = rt
        .submit(Integrate::of(0.5, &acc, &ours[0], &ours[1]))
        .defer([4])
        .submit(nbody::Integrate::of(0.5, &acc, &theirs[0], &theirs[1]))
        .defer([4]);
    let recording = pipeline.recording(Data::With).unwrap();
    pipeline.exec().unwrap();
    drop(pipeline);
    assert_eq!(ours.each_ref().map(all), [vec![[0.5; 3]; 4], vec![[3.0; 3]; 4]]);
    assert_eq!(theirs.each_ref().map(all), [vec![[2.75; 3]; 4], vec![[3.5; 3]; 4]]);

    let recording = Recording::from_bytes(&recording.to_bytes().unwrap()).unwrap();
    let names = [&recording.kernels[0].name, &recording.kernels[1].name];
    assert_eq!(names, ["nbody.integrate", "flash.nbody.integrate"]);
    let memories = rt.replay(&recording).unwrap();
    let found = |memory| memories.read::<[f32; 3]>(memory).unwrap();
    assert_eq!([1, 2].map(found), ours.each_ref().map(all), "positions and velocities, after `acc`");
    assert_eq!([3, 4].map(found), theirs.each_ref().map(all));
}

#[test]
fn a_kernel_of_a_program_s_own_in_version_1_stays_its_own() {
    let rt = get_runtime("ALL_CPU:0").unwrap();
    let to = FlashMemory::from([5u32; 4]);
    let recording = rt.submit(Own::of(&to)).defer([4]).recording(Data::With).unwrap();
    let json = recording.to_json().unwrap().replacen("\"version\":2", "\"version\":1", 1);
    let read = Recording::from_json(&json).unwrap();
    assert_eq!(read, recording, "{json}");
    assert_eq!(rt.replay(&read).unwrap().read::<u32>(0).unwrap(), [5, 6, 7, 8]);
}

#[test]
fn a_reduction_by_an_operation_of_its_own_is_replayed() {
    let rt = get_runtime("ALL_CPU:0").unwrap();
    let (x, y, sum) = (numbers(10_000, 1), numbers(10_000, 2), FlashMemory::zeroed(1));
    let (x, y) = (FlashMemory::from(x), FlashMemory::from(y));
    let pipeline = rt.submit(vdp(&x, &y, &sum).unwrap()).defer([10_000]);
    let recording = pipeline.recording(Data::With).unwrap();
    pipeline.exec().unwrap();
    let recording = Recording::from_bytes(&recording.to_bytes().unwrap()).unwrap();
    assert_eq!(rt.replay(&recording).unwrap().read::<f32>(2).unwrap(), [sum.get(0).unwrap()]);
}
