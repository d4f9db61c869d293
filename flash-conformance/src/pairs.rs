//! Checks of two devices of one backend: their memories, and launches that are cut over both.

use super::launches::{self, doors, named, phased};
use super::slots::{copy, spaces};
use super::submissions::{Array, count, flat, prepared};
use super::{Outcome, Stop, Subject, ensure};
use flash_core::memory::FlashMemory;
use flash_core::runtime::{Profile, RuntimeObj};
use flash_types::abi;
use flash_types::descriptor::{part_by, weights};
use std::collections::BTreeSet;

/// Two devices, and a runtime of both.
pub(super) struct Pair<'a> {
    pub first: &'a Subject,
    pub second: &'a Subject,
}

pub(super) type PairFn = fn(&Pair<'_>) -> Outcome;

pub(super) const CHECKS: &[(&str, PairFn)] = &[
    ("two devices share a memory exactly where they list one memory space", memories_are_told_apart),
    ("copies between two devices are right where `can_copy` says yes, else refused", copies_between),
    ("an array in another device's memory is refused", foreign_arrays),
    ("a launch cut over two devices has the result of one", cut_launches),
];

const WORDS: usize = 1000;

impl Pair<'_> {
    /// The memory space in which each of them computes.
    fn main_spaces(&self) -> Result<[u32; 2], Stop> {
        let main = |subject: &Subject| {
            if subject.device.info().host_memory {
                return Err(Stop::Skip(format!("{} uses the host's memory", subject.device.id())));
            }
            let own = spaces(subject)?.into_iter().find(|space| space.id != abi::SPACE_HOST);
            own.map(|space| space.id)
                .ok_or_else(|| Stop::Fail("there is no memory space but the host's".into()))
        };
        Ok([main(self.first)?, main(self.second)?])
    }

    /// As [`main_spaces`](Self::main_spaces), if these are two.
    fn different_spaces(&self) -> Result<[u32; 2], Stop> {
        match self.main_spaces()? {
            [a, b] if a == b => Err(Stop::Skip(format!("both have memory space {a}"))),
            both => Ok(both),
        }
    }

    fn both(&self) -> Result<RuntimeObj, Stop> {
        Ok(self.first.context.runtime(&format!("{},{}", self.first.device.id(), self.second.device.id()))?)
    }
}

fn numbers(seed: u32) -> Vec<u32> {
    (0..WORDS as u32).map(|i| i.wrapping_mul(2_654_435_761) ^ seed).collect()
}

fn memories_are_told_apart(pair: &Pair<'_>) -> Outcome {
    let [a, b] = pair.main_spaces()?;
    let (one, two) = (numbers(1), numbers(2));
    let first = Array::new(pair.first, &one)?;
    let second = Array::new(pair.second, &two)?;
    pair.first.same(
        "words on the first device, after the second had its own",
        &first.words(pair.first)?,
        &one,
    )?;
    if a == b {
        // Each may copy, and so use, what the other has.
        pair.second.same(
            "words of the first device, read by the second",
            &first.words(pair.second)?,
            &one,
        )?;
        pair.first.same("words of the second device, read by the first", &second.words(pair.first)?, &two)?;
    }
    Ok(())
}

fn copies_between(pair: &Pair<'_>) -> Outcome {
    let [a, b] = pair.different_spaces()?;
    let (mut tried, mut refused) = (0, 0);
    for (from, to) in [(pair.first, pair.second), (pair.second, pair.first)] {
        let ends = if std::ptr::eq(from, pair.first) { (a, b) } else { (b, a) };
        for by in [pair.first, pair.second] {
            let source = Array::new(from, &numbers(3))?;
            let target = Array::new(to, &numbers(4))?;
            let mut rate = 0.0;
            // SAFETY: a device of this vtable and a variable of ours.
            let can =
                by.api().can_copy.is_some_and(|can| unsafe { can(by.raw(), ends.0, ends.1, &mut rate) == 1 });
            let outcome = copy(by, source.buffer(), target.buffer(), &flat(WORDS));
            let (expected, what) = match can {
                true => (numbers(3), "words that were copied between two devices"),
                false => (numbers(4), "words of an array to which no copy was possible"),
            };
            match (can, outcome) {
                (true, Err(stop)) => return Err(stop),
                (false, Ok(())) => {
                    return Err(Stop::Fail(format!(
                        "{} says that it cannot copy from memory space {} to {}, and `copy_box` says that it did",
                        by.device.id(),
                        ends.0,
                        ends.1
                    )));
                }
                (true, Ok(())) => tried += 1,
                (false, Err(_)) => refused += 1,
            }
            to.same(what, &target.words(to)?, &expected)?;
        }
    }
    ensure!(tried + refused == 4, "expected 4 copies, found {tried} done and {refused} refused");
    Ok(())
}

fn foreign_arrays(pair: &Pair<'_>) -> Outcome {
    pair.different_spaces()?;
    for (own, other) in [(pair.first, pair.second), (pair.second, pair.first)] {
        let kernel = prepared(own, "conformance.count")?;
        let array = Array::new(other, &vec![0; WORDS])?;
        if own.dry {
            return Err(Stop::Skip("the device runs nothing".into()));
        }
        let outcome = count(own, &kernel, &array, &[]);
        ensure!(
            outcome.is_err(),
            "{} ran a launch whose array is in the memory of {}: expected an error",
            own.device.id(),
            other.device.id()
        );
        other.same("words of that array", &array.words(other)?, &vec![0; WORDS])?;
        let array = Array::new(own, &vec![0; WORDS])?;
        count(own, &kernel, &array, &[])?;
        own.same("runs of the launch after it", &array.words(own)?, &vec![1; WORDS])?;
    }
    Ok(())
}

fn cut_launches(pair: &Pair<'_>) -> Outcome {
    launches::launches(pair.first)?;
    let (profile, runtime) = (Profile::new(), pair.both()?);
    let ids: BTreeSet<&str> = [pair.first, pair.second].iter().map(|subject| subject.device.id()).collect();
    for door in doors(pair.first, "conformance.count") {
        for (cut, extents) in [("x", [10_007, 1, 1]), ("y", [7, 501, 3]), ("z", [64, 1, 77])] {
            let hits = FlashMemory::<u32>::zeroed(extents);
            let options = (named(&door), part_by(cut), weights([1, 1]), &profile);
            runtime.submit(launches::counts(extents, &hits)).options(options).exec(extents)?;
            let what = format!("door {door}, cut along {cut}: number of runs");
            pair.first.same(&what, &hits.read()?, &vec![1; hits.len()])?;
            let launches = profile.take();
            let found: BTreeSet<&str> = launches.iter().map(|launch| &*launch.device).collect();
            // A `whole` implementation runs whole.
            ensure!(found == ids || door == "whole", "{what}: expected launches on {ids:?}, found {found:?}");
        }
    }
    let cut = |key: &'static str| Subject {
        context: pair.first.context.clone(),
        runtime: runtime.options((part_by(key), weights([1, 1]))),
        device: pair.first.device,
        dry: pair.first.dry,
    };
    phased(&cut("x"), 4099, 4099)?;
    phased(&cut("x"), 4099, 4000)?;
    let (whole, parts) = (launches::sums(pair.first)?, launches::sums(&cut("x"))?);
    // Devices of another kind may round otherwise.
    let [one, two] = [pair.first, pair.second].map(|subject| subject.device.info());
    if (&one.name, &one.features, &one.version) == (&two.name, &two.features, &two.version) {
        pair.first.same("bits of sums of which each device computed a part", &parts, &whole)?;
    }
    Ok(())
}
