use super::*;
use crate::memory::region::GridBox;
use crate::memory::region::tests::{blocks, grids};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};

/// Per element: the places where it is current, and whether it is poisoned.
type Model = Vec<(BTreeSet<Place>, bool)>;

fn elements(grid: &Grid, region: &Region) -> Vec<usize> {
    let mut found = Vec::new();
    for b in region.blocks() {
        for z in b.begin[2]..b.end[2] {
            for y in b.begin[1]..b.end[1] {
                found.extend((b.begin[0]..b.end[0]).map(|x| grid.flat([x, y, z]) as usize));
            }
        }
    }
    found.sort_unstable();
    found
}

#[derive(Clone, Debug)]
enum Op {
    /// Copies missing elements; fails after this many copies.
    Read(usize, GridBox, usize),
    Write(usize, GridBox),
    /// Copies its input, then fails.
    Fail(usize, GridBox, GridBox),
    Forget(usize, GridBox),
    /// A device is lost.
    Lose(usize),
}

fn ops(grid: Grid) -> impl Strategy<Value = Vec<Op>> {
    let op =
        (0..5usize, blocks(grid), blocks(grid), 0..12u32, 0..4usize).prop_map(|(at, a, b, kind, after)| {
            match kind {
                0..4 => Op::Read(at, a, after),
                4..8 => Op::Write(at, a),
                8 => Op::Fail(at, a, b),
                9 if after == 0 => Op::Lose(at),
                _ => Op::Forget(at, a),
            }
        });
    proptest::collection::vec(op, 0..24)
}

fn check(grid: &Grid, directory: &Directory, model: &Model, places: &[Place]) {
    for &place in places {
        let expected: Vec<usize> = (0..model.len()).filter(|&i| model[i].0.contains(&place)).collect();
        assert_eq!(elements(grid, &directory.current(place)), expected, "current at {place:?}");
        let only: Vec<usize> = expected.into_iter().filter(|&i| model[i].0.len() == 1).collect();
        assert_eq!(elements(grid, &directory.only_at(place)), only, "only at {place:?}");
    }
    let poison: Vec<usize> = (0..model.len()).filter(|&i| model[i].1).collect();
    assert_eq!(elements(grid, &directory.poison), poison);
    assert!(model.iter().all(|(places, _)| !places.is_empty()));
    let plain = model.iter().all(|(places, poison)| *places == [Place::HOST].into() && !poison);
    assert!(!directory.is_plain() || plain, "a plain one has nothing to look up");
}

/// Copies the elements that a place lacks, at most `most` copies. Elements that are there are not moved.
fn fetch(
    grid: &Grid,
    directory: &mut Directory,
    model: &mut Model,
    place: Place,
    region: &Region,
    most: usize,
) {
    let lacking = directory.lacks(place, region);
    let expected: Vec<usize> =
        elements(grid, region).into_iter().filter(|&i| !model[i].0.contains(&place)).collect();
    assert_eq!(elements(grid, &lacking), expected, "what is lacking at {place:?}");
    assert_eq!(directory.has(place, region), expected.is_empty());
    // The host first, then the highest number.
    let sources = directory.sources(place, &lacking, |p| 100 - u64::from(p.number().unwrap_or(100)));
    let mut moved = Vec::new();
    for (from, part) in &sources {
        for i in elements(grid, part) {
            let best = model[i].0.iter().max_by_key(|p| p.number().unwrap_or(99)).copied();
            assert_eq!(Some(*from), best, "source of element {i}");
            moved.push(i);
        }
    }
    moved.sort_unstable();
    assert_eq!(moved, expected, "each element is moved once");
    for (_, part) in sources.iter().take(most) {
        directory.copied(place, part);
        elements(grid, part).into_iter().for_each(|i| _ = model[i].0.insert(place));
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and many places")]
fn copies_to_many_places_are_a_tree() {
    const PLACES: u32 = 100;
    let grid = Grid::new(&[8], 8);
    for in_flight in [false, true] {
        let mut directory = Directory::new(grid, None);
        let all = Region::all(&grid);
        let reader = directory.arrivals.enter();
        // By place: how many copies it is from the host, and how many it has given.
        let mut ways = HashMap::from([(Place::HOST, (0, 0))]);
        for place in (0..PLACES).map(Place::device) {
            let sources = directory.sources_for(in_flight.then_some(reader), place, &all, |_| 100);
            let [(from, _)] = sources[..] else { panic!("{sources:?}") };
            match in_flight {
                true => _ = directory.arrivals.book(reader, place, all.clone()),
                false => directory.copied(place, &all),
            }
            let given = ways.get_mut(&from).expect("a place that has it, or gets it");
            given.1 += 1;
            let depth = given.0 + 1;
            ways.insert(place, (depth, 0));
        }
        let most = |of: fn(&(u32, u32)) -> u32| ways.values().map(of).max();
        assert_eq!((most(|(depth, _)| *depth), most(|(_, given)| *given)), (Some(6), Some(7)));
        // A cheaper one is taken.
        let near = |place: Place| u64::from(place != Place::device(9));
        let reader = in_flight.then_some(reader);
        let sources = directory.sources_for(reader, Place::device(PLACES), &all, near);
        assert_eq!(sources.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [Place::device(9)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 3_000 }, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
    fn the_directory_is_the_model_element_by_element(
        (grid, devices, ops) in grids().prop_flat_map(|g| (Just(g), 1usize..5, ops(g)))
    ) {
        let places: Vec<Place> =
            std::iter::once(Place::HOST).chain((0..devices as u32).map(Place::device)).collect();
        let mut directory = Directory::new(grid, None);
        let mut model: Model = vec![([Place::HOST].into(), false); grid.elements() as usize];
        prop_assert!(directory.is_plain());
        for op in ops {
            match op {
                Op::Read(at, block, most) => {
                    let (place, region) = (places[at % places.len()], block.into());
                    fetch(&grid, &mut directory, &mut model, place, &region, most);
                    let poisoned = elements(&grid, &region).into_iter().any(|i| model[i].1);
                    prop_assert_eq!(directory.poisoned(&region), poisoned);
                }
                Op::Write(at, block) => {
                    let place = places[at % places.len()];
                    directory.written(place, &block.into());
                    for i in elements(&grid, &block.into()) {
                        model[i] = ([place].into(), false);
                    }
                }
                Op::Fail(at, read, write) => {
                    let place = places[at % places.len()];
                    fetch(&grid, &mut directory, &mut model, place, &read.into(), usize::MAX);
                    directory.written(place, &write.into());
                    directory.poison(&write.into());
                    for i in elements(&grid, &write.into()) {
                        model[i] = ([place].into(), true);
                    }
                }
                Op::Lose(at) => {
                    let place = places[1 + at % devices];
                    directory.lost(place);
                    for (current, poison) in &mut model {
                        if current.remove(&place) && current.is_empty() {
                            (*current, *poison) = ([Place::HOST].into(), true);
                        }
                    }
                }
                Op::Forget(at, block) => {
                    let place = places[at % places.len()];
                    let kept = directory.forget(place, &block.into());
                    let mut expected = Vec::new();
                    for i in elements(&grid, &block.into()) {
                        if model[i].0.contains(&place) && !(model[i].0.len() > 1 && model[i].0.remove(&place)) {
                            expected.push(i);
                        }
                    }
                    prop_assert_eq!(elements(&grid, &kept), expected);
                }
            }
            check(&grid, &directory, &model, &places);
        }
        // In another shape it is the same, if it can be expressed.
        let flat = Grid::new(&[], grid.elements());
        if directory.regrid(flat) {
            check(&flat, &directory, &model, &places);
        } else {
            check(&grid, &directory, &model, &places);
        }
        // The host writes everything: no other place has anything.
        let all = Region::all(directory.grid());
        directory.written(Place::HOST, &all);
        places.iter().skip(1).for_each(|&p| drop(directory.set_copy(p, None)));
        prop_assert!(directory.is_plain());
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many elements")]
    fn what_is_said_of_the_hosts_twin_is_said_of_the_host(
        (grid, ops) in grids().prop_flat_map(|g| (Just(g), ops(g)))
    ) {
        let twin = Place::device(0);
        let places = [Place::HOST, twin, Place::device(1), Place::device(2)];
        // In the second one, the host stands for its twin.
        let mut directories = [Directory::new(grid, Some(twin)), Directory::new(grid, None)];
        let same = |place: Place, second: bool| if second && place == twin { Place::HOST } else { place };
        for op in ops {
            for (directory, second) in directories.iter_mut().zip([false, true]) {
                let at = |at: usize| same(places[at % places.len()], second);
                let bring = |directory: &mut Directory, place: Place, region: &Region, most: usize| {
                    let lacking = directory.lacks(place, region);
                    let sources = directory.sources(place, &lacking, |p| u64::from(p.number().unwrap_or(0)));
                    assert!(sources.iter().all(|(from, _)| same(*from, true) != same(place, true)));
                    sources.iter().take(most).for_each(|(_, part)| directory.copied(place, part));
                };
                match &op {
                    Op::Read(place, block, most) => bring(directory, at(*place), &(*block).into(), *most),
                    Op::Write(place, block) => directory.written(at(*place), &(*block).into()),
                    Op::Fail(place, read, write) => {
                        bring(directory, at(*place), &(*read).into(), usize::MAX);
                        directory.written(at(*place), &(*write).into());
                        directory.poison(&(*write).into());
                    }
                    Op::Lose(place) => directory.lost(places[2 + place % 2]),
                    Op::Forget(place, block) => drop(directory.forget(at(*place), &(*block).into())),
                }
            }
            let [one, two] = &directories;
            let all = Region::all(&grid);
            for place in places {
                let is = |directory: &Directory, place| {
                    [directory.current(place), directory.only_at(place), directory.lacks(place, &all)]
                        .map(|region| elements(&grid, &region))
                };
                prop_assert_eq!(is(one, place), is(two, same(place, true)), "{:?}", place);
            }
            prop_assert_eq!(elements(&grid, &one.poison_in(&all)), elements(&grid, &two.poison_in(&all)));
            prop_assert_eq!(one.is_plain(), two.is_plain());
        }
    }
}
