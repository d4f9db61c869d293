//! Checks through the public runtime.

use super::kernels::{Count, Drain, Fail, Mixed, Shift, Stages, Tally, Values, tallied};
use super::{CheckFn, Outcome, Stop, Subject, ensure};
use flash_core::Error;
use flash_core::memory::FlashMemory;
use flash_core::runtime::{Options, Profile};
use flash_types::Code;
use flash_types::descriptor::{self, Attributes, IntoOptions, group_by, only, sort_by};
use flash_types::index::{Dim, count_by};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    (super::FIRST_LAUNCH, every_item_once),
    ("every work item runs exactly once, whatever the order and the barriers", every_order),
    ("a phase starts after the one before it has drained", phases_drain),
    ("phased arguments: all elements are items' own", phased_covered),
    ("phased arguments: elements that no item owns keep theirs", phased_partly),
    ("phased arguments: one buffer, by stages", phased_stages),
    ("scalars, structs, tables and rows arrive", values_arrive),
    ("accumulators: every value once, and the same bits every time", accumulators),
    ("an empty space runs nothing and succeeds", empty_spaces),
    ("a kernel that fails is an error of its launch, and the device is usable after", kernels_fail),
    ("an unknown option is ignored, or refused where it is required", unknown_options),
    ("the kernel's time is reported", profile),
    ("many threads submit at once", many_threads),
    ("10,000 launches keep memory flat", memory_stays_flat),
];

/// Launches need a device that the runtime can use, and kernels in its language.
pub(super) fn launches(subject: &Subject) -> Outcome {
    Ok(subject.runtime.preload::<Count<'static>>()?)
}

/// The doors through which the suite has a kernel for the device.
pub(super) fn doors(subject: &Subject, kernel: &str) -> Vec<String> {
    // SAFETY: strings of implementations live for ever.
    subject.implementations(kernel).map(|i| unsafe { i.name.text() }).collect()
}

/// The implementation of that door.
pub(super) fn named(door: &str) -> descriptor::Implementation {
    descriptor::Implementation::named(door)
}

/// A launch that adds 1 to each of this many elements.
pub(super) fn counts(extents: [u64; 3], hits: &FlashMemory<u32>) -> Count<'_> {
    Count::of(extents[0], extents[1], hits)
}

/// A dimension and its values.
type Axis = (Dim, Vec<u64>);

fn count(n: u64) -> Axis {
    (Dim::from(n), (0..n).collect())
}

fn range(start: u64, end: u64) -> Axis {
    (Dim::from(start..end), (start..end).collect())
}

fn list(values: &[u64]) -> Axis {
    (count_by(values.iter().copied()), values.to_vec())
}

/// Launches `Count` on a space, twice, and compares with the product of the values.
fn count_space(
    subject: &Subject,
    what: &str,
    axes: [Axis; 3],
    options: impl IntoOptions<Options>,
) -> Outcome {
    let mut attributes = Options::default();
    options.add_to(&mut attributes);
    let extents = axes.each_ref().map(|(_, values)| values.iter().max().map_or(0, |v| v + 1));
    let mut expected = vec![0u32; extents.iter().product::<u64>() as usize];
    for &z in &axes[2].1 {
        for &y in &axes[1].1 {
            for &x in &axes[0].1 {
                expected[(x + extents[0] * (y + extents[1] * z)) as usize] += 2;
            }
        }
    }
    let hits = FlashMemory::<u32>::zeroed(extents);
    let dims: Vec<Dim> = axes.into_iter().map(|(dim, _)| dim).collect();
    for _ in 0..2 {
        subject
            .runtime
            .submit(Count::of(extents[0], extents[1], &hits))
            .options(attributes.attributes.clone())
            .exec(&dims[..])?;
    }
    let hits = hits.read()?;
    subject.same(&format!("{what}: number of runs"), &hits, &expected)
}

fn every_item_once(subject: &Subject) -> Outcome {
    launches(subject)?;
    for door in doors(subject, "conformance.count") {
        let spaces = [
            [count(1), count(1), count(1)],
            [count(7), count(5), count(3)],
            [count(100_003), count(1), count(1)],
            [count(1), count(1), count(1_009)],
            [count(2), count(501), count(3)],
            [range(3, 90), count(4), range(2, 3)],
            [list(&[9, 2, 30, 4]), list(&[1, 0, 2]), count(2)],
        ];
        for (i, space) in spaces.into_iter().enumerate() {
            count_space(subject, &format!("door {door}, space {i}"), space, named(&door))?;
        }
    }
    Ok(())
}

fn every_order(subject: &Subject) -> Outcome {
    launches(subject)?;
    let space = || [list(&[5, 1, 3, 0, 2]), list(&[2, 0, 7]), range(1, 7)];
    for door in doors(subject, "conformance.count") {
        let door = || named(&door);
        count_space(subject, "sort_by z", space(), (door(), sort_by(["z"])))?;
        count_space(subject, "sort_by x", space(), (door(), sort_by(["x"])))?;
        count_space(subject, "sort_by x and y", space(), (door(), sort_by(["x", "y"])))?;
        count_space(subject, "group_by y", space(), (door(), group_by(["y"])))?;
        count_space(subject, "group_by only x", space(), (door(), group_by(only(["x"]))))?;
        count_space(subject, "group_by z into 3 and 5", space(), (door(), group_by(("z", [3, 5]))))?;
    }
    Ok(())
}

fn phases_drain(subject: &Subject) -> Outcome {
    launches(subject)?;
    const N: usize = 257;
    const STEPS: usize = 9;
    let done = FlashMemory::<u64>::zeroed(STEPS);
    let (before, after) = (FlashMemory::<u64>::zeroed([N, STEPS]), FlashMemory::<u64>::zeroed([N, STEPS]));
    subject.runtime.submit(Drain::of(&done, &before, &after)).exec([N, STEPS])?;
    subject.same("work items per phase", &done.read()?, &[N as u64; STEPS])?;
    let expected: Vec<u64> = (0..N * STEPS).map(|i| if i < N { 0 } else { N as u64 }).collect();
    subject.same("items of the phase before that had run", &before.read()?, &expected)?;
    subject.same("items of the phase after that had run", &after.read()?, &[0; N * STEPS])
}

/// The result of `Shift` on the first `n` elements.
fn shifted(mut values: Vec<u64>, n: usize, steps: usize) -> Vec<u64> {
    for _ in 0..steps {
        let was = values.clone();
        for i in 0..n {
            values[i] = was[(i + 1) % was.len()] + 1;
        }
    }
    values
}

pub(super) fn phased(subject: &Subject, len: usize, n: usize) -> Outcome {
    launches(subject)?;
    let start = || (0..len as u64).map(|i| i * i + 7).collect::<Vec<u64>>();
    for steps in [1, 2, 3, 8, 9] {
        let expected = shifted(start(), n, steps);
        let values = FlashMemory::from(start());
        subject.runtime.submit(Shift::of(&values)).exec([n, steps])?;
        subject.same(&format!("a memory after {steps} phases"), &values.read()?, &expected)?;
        let mut values = start();
        subject.runtime.submit(Shift::of(&mut values)).exec([n, steps])?;
        subject.same(&format!("a slice after {steps} phases"), &values, &expected)?;
    }
    Ok(())
}

fn phased_covered(subject: &Subject) -> Outcome {
    phased(subject, 1, 1)?;
    phased(subject, 4099, 4099)
}

fn phased_partly(subject: &Subject) -> Outcome {
    phased(subject, 64, 3)?;
    phased(subject, 4099, 4000)
}

fn phased_stages(subject: &Subject) -> Outcome {
    launches(subject)?;
    const N: usize = 65;
    for steps in 1..4u64 {
        let mut expected: Vec<u64> = (0..N as u64).collect();
        for _ in 0..steps {
            let sum = expected.iter().fold(0, |a: u64, &b| a.wrapping_add(b));
            expected = (0..N as u64).map(|i| sum.wrapping_add(i)).collect();
        }
        let values: FlashMemory<u64> = (0..N as u64).collect();
        let sums = FlashMemory::<u64>::zeroed(N);
        subject.runtime.submit(Stages::of(&values, &sums)).exec([N as u64, 2, steps])?;
        subject.same(&format!("after {steps} steps"), &values.read()?, &expected)?;
    }
    Ok(())
}

fn values_arrive(subject: &Subject) -> Outcome {
    launches(subject)?;
    const N: usize = 40;
    // All sums are exact: no device rounds them.
    const THOUSANDTH: f64 = 1.0 / 1024.0;
    let mixed = |i: u16| Mixed { a: f64::from(i) * 0.5, b: [i, i + 1, i + 2], c: 3 * i };
    let table: Vec<Mixed> = (0..11).map(mixed).collect();
    let rows: Vec<u16> = (0..N as u16 * 5).collect();
    let rows_memory = FlashMemory::from(rows.clone()).with_shape([5, N])?;
    let numbers = FlashMemory::<[f64; 4]>::zeroed(N);
    let sums = FlashMemory::<u64>::zeroed([2, N]);
    let table_memory = FlashMemory::from(table.clone());
    let values = Values::of(
        200,
        -300,
        4_000_000_000,
        1 << 52,
        0.25,
        THOUSANDTH,
        [1.0, 2.0, 4.0],
        mixed(9),
        &table_memory,
        &rows_memory,
        &numbers,
        &sums,
    );
    subject.runtime.submit(values).exec([N])?;
    let total: f64 = table.iter().map(|m| m.a + f64::from(m.c)).sum();
    let scalars = 200.0 - 300.0 + 4e9 + (1u64 << 52) as f64;
    let floats = 0.25 + THOUSANDTH + 1.0 + 2.0 + 4.0;
    let expected: Vec<[f64; 4]> =
        (0..N).map(|i| [scalars, floats, 4.5 + 11.0 + 27.0, total + i as f64]).collect();
    subject.same("numbers", &numbers.read()?, &expected)?;
    let expected: Vec<u64> =
        rows.chunks(5).flat_map(|row| [row.iter().map(|&v| u64::from(v)).sum(), 5]).collect();
    subject.same("sums of rows", &sums.read()?, &expected)
}

/// Checks the accumulators, and gives the bits of their sums.
///
/// A device may round a sum in its own way: it must be near the exact one. However often a door computes it,
/// it has the same bits.
pub(super) fn sums(subject: &Subject) -> Result<Vec<u64>, Stop> {
    launches(subject)?;
    let mut bits = Vec::new();
    // Blocks of 4096 rows: fewer than one, just one, a bit more, and a tree of five.
    for (n, steps) in [(1, 1), (4096, 2), (4099, 1), (18_000, 3)] {
        let terms = (0..steps).flat_map(|step| (0..n).map(move |x| tallied(x, step)));
        let (sum, count) = terms.fold((0.75, 1.0), |(sum, count), term| (sum + term, count + 1.0));
        // Any order of additions and the rounded terms, of both sums.
        let error = 4.0 * count * f64::EPSILON * sum;
        let mut counts = vec![0; 5];
        (0..n).for_each(|x| counts[x as usize % 5] += steps as u32);
        let largest = (0..n).map(|x| x ^ 0x55).max();
        for (round, door) in
            doors(subject, "conformance.tally").iter().flat_map(|door| [(0, door), (1, door)])
        {
            let (found, most) = (FlashMemory::from([0.75]), FlashMemory::from([u64::MAX]));
            let found_counts = FlashMemory::from([9u32; 5]);
            subject
                .runtime
                .submit(Tally::of(&found, &most, &found_counts))
                .options(named(door))
                .exec([n, steps])?;
            let what = |name| format!("door {door}, {n} work items in each of {steps} phases: {name}");
            let found = found.read()?[0];
            ensure!(
                subject.dry || (found - sum).abs() <= error,
                "{}: expected {sum}, give or take {error:e}, found {found}",
                what("sum")
            );
            if round == 0 {
                bits.push(found.to_bits());
            }
            subject.same(
                &what("bits of the sum, computed again"),
                &[found.to_bits()],
                &bits[bits.len() - 1..],
            )?;
            subject.same(&what("largest"), &most.read()?, &[largest.unwrap_or(0)])?;
            subject.same(&what("counts"), &found_counts.read()?, &counts)?;
        }
    }
    Ok(bits)
}

fn accumulators(subject: &Subject) -> Outcome {
    sums(subject).map(drop)
}

fn empty_spaces(subject: &Subject) -> Outcome {
    launches(subject)?;
    let hits = FlashMemory::<u32>::zeroed([4, 4, 4]);
    for dims in [[0, 4, 4], [4, 0, 4], [4, 4, 0], [0, 0, 0]] {
        for door in doors(subject, "conformance.count") {
            subject.runtime.submit(Count::of(4, 4, &hits)).options(named(&door)).exec(dims)?;
        }
    }
    let values = FlashMemory::<u64>::zeroed(8);
    subject.runtime.submit(Shift::of(&values)).exec([0, 5])?;
    let (sum, most, counts) =
        (FlashMemory::from([0.5]), FlashMemory::from([7u64]), FlashMemory::from([7u32; 3]));
    subject.runtime.submit(Tally::of(&sum, &most, &counts)).exec([0, 5])?;
    subject.same("a sum that counts what was there, of nothing", &sum.read()?, &[0.5])?;
    subject.same("the largest of nothing", &most.read()?, &[0])?;
    subject.same("counts of nothing", &counts.read()?, &[0; 3])?;
    subject.same("number of runs", &hits.read()?, &[0; 64])
}

/// The error of a launch that must fail.
fn source(outcome: Result<(), Error>, what: &str) -> Result<(Code, String), Stop> {
    match outcome {
        Err(Error::Launch(launch)) => match launch.cause() {
            Error::Backend { code, text, .. } => Ok((*code, text.clone())),
            other => Err(Stop::Fail(format!("{what}: expected an error of the backend, found: {other}"))),
        },
        Err(other) => Err(Stop::Fail(format!("{what}: expected an error of the launch, found: {other}"))),
        Ok(()) => Err(Stop::Fail(format!("{what}: expected an error, found success"))),
    }
}

fn kernels_fail(subject: &Subject) -> Outcome {
    launches(subject)?;
    if subject.dry {
        return Err(Stop::Skip("the device runs nothing, so that nothing can fail".into()));
    }
    if !subject.device.info().runs_functions {
        let targets = subject.targets();
        return Err(Stop::Skip(format!("a kernel for {targets} has no way to say that it fails")));
    }
    const N: usize = 1000;
    let out = FlashMemory::<u32>::zeroed(N);
    for at in [0, 17, N as u64 - 1] {
        let outcome = subject.runtime.submit(Fail::of(at, &out)).exec([N]);
        let (code, text) = source(outcome, "a kernel that panics")?;
        ensure!(code == Code::Kernel, "expected the code of a kernel error, found {code} ({text})");
        let words = format!("work item {at} fails on purpose");
        ensure!(text.contains(&words), "expected the kernel's words, `{words}`, found `{text}`");
        out.write()?.fill(0);
        subject.runtime.submit(Fail::of(u64::MAX, &out)).exec([N])?;
        subject.same("the launch after a failed one", &out.read()?, &[1; N])?;
    }
    Ok(())
}

fn unknown_options(subject: &Subject) -> Outcome {
    launches(subject)?;
    let out = FlashMemory::<u32>::zeroed(8);
    let option = |required| {
        let mut attributes = Attributes::default();
        attributes.set_by_name("conformance.nobody_knows_this", serde_json::Value::from(1), required);
        attributes
    };
    subject.runtime.submit(Fail::of(u64::MAX, &out)).options(option(false)).exec([8])?;
    subject.same("with an unknown option", &out.read()?, &[1; 8])?;
    let outcome = subject.runtime.submit(Fail::of(u64::MAX, &out)).options(option(true)).exec([8]);
    let (code, text) = source(outcome, "an unknown option that is required")?;
    ensure!(code == Code::Unsupported, "expected the code for unsupported, found {code} ({text})");
    ensure!(
        text.contains("conformance.nobody_knows_this"),
        "expected an error that names the option, found `{text}`"
    );
    out.write()?.fill(0);
    subject.runtime.submit(Fail::of(u64::MAX, &out)).exec([8])?;
    subject.same("the launch after it", &out.read()?, &[1; 8])
}

fn profile(subject: &Subject) -> Outcome {
    launches(subject)?;
    let profile = Profile::new();
    let out = FlashMemory::<u32>::zeroed(10_000);
    subject.runtime.options(&profile).submit(Fail::of(u64::MAX, &out)).exec([10_000])?;
    let launches = profile.take();
    ensure!(launches.len() == 1, "expected one record, found {}", launches.len());
    let launch = &launches[0];
    ensure!(
        launch.nanoseconds <= launch.wall_nanoseconds,
        "the kernel took {} ns on the device, the launch around it {} ns",
        launch.nanoseconds,
        launch.wall_nanoseconds
    );
    match launch.nanoseconds {
        0 if !subject.dry => Err(Stop::Skip("the backend reports no times".into())),
        _ => Ok(()),
    }
}

fn many_threads(subject: &Subject) -> Outcome {
    launches(subject)?;
    const LAUNCHES: u32 = 150;
    let one = |thread: usize| -> Outcome {
        let n = 1 + 97 * thread;
        let out = FlashMemory::<u32>::zeroed(n);
        let values = FlashMemory::<u64>::zeroed(n);
        for _ in 0..LAUNCHES {
            subject
                .runtime
                .submit(Fail::of(u64::MAX, &out))
                .defer([n])
                .submit(Shift::of(&values))
                .exec([n, 3])?;
        }
        subject.same("a thread's own memory", &out.read()?, &vec![LAUNCHES; n])?;
        subject.same("a thread's own phased memory", &values.read()?, &vec![u64::from(3 * LAUNCHES); n])
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || one(thread))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => Err(Stop::Fail(flash_backend::__host::message(panic))),
        })
    })
}

/// Bytes of this process in memory.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(4096 * text.split(' ').nth(1)?.parse::<u64>().ok()?)
}

fn memory_stays_flat(subject: &Subject) -> Outcome {
    launches(subject)?;
    let out = FlashMemory::<u32>::zeroed(64);
    let values = FlashMemory::<u64>::zeroed(64);
    let launch = |times: u32| -> Outcome {
        for _ in 0..times {
            subject
                .runtime
                .submit(Fail::of(u64::MAX, &out))
                .defer([64])
                .submit(Shift::of(&values))
                .exec([60, 2])?;
        }
        Ok(())
    };
    launch(500)?;
    // Other threads of the process may allocate meanwhile: a leak is what grows every time.
    let (mut rounds, mut grown) = (0, u64::MAX);
    while rounds < 3 && grown > 8 << 20 {
        let before = resident();
        launch(10_000)?;
        let (Some(before), Some(after)) = (before, resident()) else {
            return Err(Stop::Skip("/proc/self/statm cannot be read".into()));
        };
        grown = after.saturating_sub(before);
        rounds += 1;
    }
    ensure!(
        grown <= 8 << 20,
        "the process grew by {grown} bytes, {} a launch, in each of 3 rounds",
        grown / 20_000
    );
    subject.same("runs", &out.read()?, &[500 + 10_000 * rounds; 64])
}
