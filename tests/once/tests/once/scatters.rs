//! Stores of any plain elements anywhere in an array, where no two work items store the same one.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::{compare, devices};

struct Once;

#[derive(Clone, Copy, Debug, Default, PartialEq, Element, Staged)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
    kind: u16,
    charge: i16,
}

/// Values at new places, beside what was there.
#[derive(KernelDefinition)]
#[kernel(name = "once.places", dims(i))]
struct Places<'a> {
    place: Item<'a, Read<u32>>,
    particle: Item<'a, Read<Particle>>,
    to: Scatter<'a, Particle>,
    bytes: Scatter<'a, u8>,
    triples: Scatter<'a, [u16; 3]>,
    numbers: Scatter<'a, f64>,
}

#[kernel(devices)]
impl CpuItem<Places<'_>> for Once {
    fn item(ix: Index<1>, k: PlacesItem<'_>) {
        let at = *k.place as usize;
        let before = k.to.load(at);
        let mut new = *k.particle;
        new.position[1] += before.position[2];
        new.kind = new.kind.wrapping_add(before.kind);
        k.to.store(at, new);
        k.bytes.store(at, ix[0] as u8);
        k.triples.store(at, [new.kind, ix[0] as u16, k.bytes.len() as u16]);
        k.numbers.store(at, k.numbers.load(at) * 0.5);
    }
}

/// A permutation of `0..n`, for an `n` that 7 does not divide.
fn permuted(n: usize) -> Vec<u32> {
    (0..n).map(|i| ((7 * i + 3) % n) as u32).collect()
}

fn particle(i: usize) -> Particle {
    Particle {
        position: [i as f32, 0.5 * i as f32, -(i as f32)],
        kind: (i as u16).wrapping_mul(300),
        charge: -(i as i16),
    }
}

#[test]
fn elements_at_new_places() {
    for n in [1, 5, 1000] {
        compare("scatters::elements_at_new_places", |rt| {
            let (place, from): (_, Vec<Particle>) = (permuted(n), (0..n).map(particle).collect());
            let to: FlashMemory<Particle> = (n..2 * n).map(particle).collect();
            let (bytes, triples) = (FlashMemory::<u8>::zeroed(n), FlashMemory::<[u16; 3]>::zeroed(n));
            let numbers: FlashMemory<f64> = (0..n).map(|i| i as f64).collect();
            rt.submit(Places::of(&place[..], &from[..], &to, &bytes, &triples, &numbers))
                .exec([n as u64])
                .unwrap();
            let (to, bytes) = (to.to_vec().unwrap(), bytes.to_vec().unwrap());
            let (triples, numbers) = (triples.to_vec().unwrap(), numbers.to_vec().unwrap());
            for (i, at) in place.iter().map(|at| *at as usize).enumerate() {
                let (new, before) = (particle(i), particle(n + at));
                let kind = new.kind.wrapping_add(before.kind);
                let [x, y, z] = new.position;
                let expected = Particle { position: [x, y + before.position[2], z], kind, ..new };
                assert_eq!(to[at], expected);
                assert_eq!((bytes[at], triples[at]), (i as u8, [kind, i as u16, n as u16]));
                assert_eq!(numbers[at], at as f64 * 0.5);
            }
            to
        });
    }
}

/// Columns of rows, by teams.
#[derive(KernelDefinition)]
#[kernel(name = "once.columns_by_teams", dims(row))]
struct Columns<'a> {
    from: Item<'a, Read<Row<u16>>>,
    to: Scatter<'a, u16>,
}

#[kernel(devices)]
impl CpuTeam<Columns<'_>, 32> for Once {
    fn team(ix: Index<1>, k: ColumnsItem<'_>, team: &mut Team<32>) {
        let rows = k.to.len() / k.from.len();
        team.each(k.from.len(), |i| k.to.store(i * rows + ix[0], k.from[i] + 1));
    }
}

#[test]
fn stores_of_teams() {
    compare("scatters::stores_of_teams", |rt| {
        let from: FlashMemory<u16> = (0..60 * 9).map(|i| i as u16).collect();
        let (from, to) = (from.with_shape([60, 9]).unwrap(), FlashMemory::<u16>::zeroed(60 * 9));
        rt.submit(Columns::of(&from, &to)).exec([9]).unwrap();
        let to = to.to_vec().unwrap();
        assert!(to.iter().enumerate().all(|(at, &x)| x as usize == at % 9 * 60 + at / 9 + 1));
        to
    });
}

#[test]
fn a_place_outside_is_a_fault() {
    for (device, rt) in devices("scatters::a_place_outside_is_a_fault") {
        let (mut place, from) = (permuted(10), vec![particle(1); 10]);
        place[4] = 10;
        let to = FlashMemory::from(vec![Particle::default(); 10]);
        let (triples, numbers) = (FlashMemory::<[u16; 3]>::zeroed(100), FlashMemory::<f64>::zeroed(100));
        let bytes = FlashMemory::<u8>::zeroed(100);
        let launch = rt.submit(Places::of(&place[..], &from[..], &to, &bytes, &triples, &numbers));
        let text = launch.exec([10]).expect_err("there are ten").to_string();
        assert!(text.contains("`to`") && text.contains("10"), "{device}: {text}");
    }
}

/// Counts by atomic operations.
#[derive(KernelDefinition)]
#[kernel(name = "once.counts", dims(i))]
struct Counts<'a> {
    at: Item<'a, Read<u32>>,
    counts: Scatter<'a, u32>,
    least: Scatter<'a, i32>,
}

struct CountsOnce;

#[kernel(devices)]
impl CpuItem<Counts<'_>> for CountsOnce {
    fn item(ix: Index<1>, k: CountsItem<'_>) {
        let at = *k.at as usize;
        k.counts.add(at, 1);
        k.least.min(at, 40 - ix[0] as i32);
    }
}

#[test]
fn counts() {
    compare("scatters::counts", |rt| {
        let at = FlashMemory::from((0..777_u32).map(|i| i * i % 11).collect::<Vec<u32>>());
        let (counts, least) = (FlashMemory::from(vec![0_u32; 11]), FlashMemory::from(vec![100_i32; 11]));
        rt.submit(Counts::of(&at, &counts, &least)).exec([777]).unwrap();
        let least = least.read().unwrap().iter().map(|x| x.cast_unsigned()).collect::<Vec<u32>>();
        [counts.read().unwrap().to_vec(), least].concat()
    });
}
