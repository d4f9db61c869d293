//! Fuzzy search: numbers become wider ones where nothing can be lost, and nothing else becomes anything.

use flash::kernel;
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Sum, Write};
use flash::kernel::{CpuItem, CpuSpan, Element, Index, Span};
use flash::prelude::*;
use flash::recording::{Data, Recording};
use flash_core::descriptor::Searchable;
use flash_core::runtime::ByName;
use std::fmt::Debug;

fn cpu() -> RuntimeObj {
    get_runtime("ALL_CPU").unwrap()
}

/// Says which number the implementation got, whose scalar and array are of one type.
#[derive(KernelDefinition)]
#[kernel(name = "fuzzy.take", dims(i), searchable = fuzzy)]
struct Take<'a, S: Element, T: Element> {
    value: S,
    to: Item<'a, Write<T>>,
}

struct Taker;

#[kernel(for(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64))]
impl<T: Element> CpuItem<Take<'_, T, T>> for Taker {
    fn item(_: Index<1>, k: TakeItem<'_, T, T>) {
        k.to.set(k.value);
    }
}

/// A number as it is, whatever type it had.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Exact {
    Integer(i128),
    /// Not an integer, or not one of few digits; the bits of the `f64`.
    Real(u64),
    NoNumber,
}

trait Number: Element + Debug + flash_core::runtime::IntoArgument<'static> {
    /// Among them those at which one type ends, or begins to lose digits.
    fn values() -> Vec<Self>;
    fn exact(self) -> Exact;
}

macro_rules! integers {
    ($($t:ident)*) => {$(
        impl Number for $t {
            fn values() -> Vec<$t> {
                let powers = (0..127).flat_map(|k| [-1, 1].map(|sign| sign * (1i128 << k)));
                let around = powers.flat_map(|power| [power - 1, power, power + 1]);
                around.filter_map(|value| $t::try_from(value).ok()).collect()
            }
            fn exact(self) -> Exact {
                Exact::Integer(self as i128)
            }
        }
    )*};
}
integers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }

macro_rules! floats {
    ($($t:ident)*) => {$(
        impl Number for $t {
            fn values() -> Vec<$t> {
                let powers = (-140..120).map(|k| (2 as $t).powi(k));
                let signed = powers.flat_map(|power| [power, -power, power + 1.0, power / 3.0]);
                let special = [0.0, -0.0, $t::NAN, $t::INFINITY, $t::MAX, $t::MIN_POSITIVE, $t::from_bits(1)];
                signed.chain(special).collect()
            }
            fn exact(self) -> Exact {
                match f64::from(self) {
                    value if value.is_nan() => Exact::NoNumber,
                    value if value.fract() != 0.0 || value.abs() > 1e30 => Exact::Real(value.to_bits()),
                    value if value == 0.0 && value.is_sign_negative() => Exact::Real(value.to_bits()),
                    value => Exact::Integer(value as i128),
                }
            }
        }
    )*};
}
floats! { f32 f64 }

/// Tries one pair of types, the naive way and by launches of a kernel by name, where the types are those of
/// the values; true if numbers of the first can be passed for those of the second.
fn fits<S: Number, T: Number>(rt: &RuntimeObj, naive: fn(S) -> T) -> bool {
    let (kernel, to) = (rt.kernel("fuzzy.take").unwrap(), FlashMemory::<T>::zeroed(1));
    let lossless = S::values().into_iter().all(|value| naive(value).exact() == value.exact());
    let name = std::any::type_name::<(S, T)>();
    for value in S::values() {
        let submission = kernel.args((value, to.clone()));
        assert_eq!(submission.is_ok(), lossless, "{name} {value:?}");
        let Ok(submission) = submission else { break };
        run(rt, submission);
        assert_eq!(to.get(0).unwrap().exact(), value.exact(), "{name} {value:?}");
    }
    lossless
}

fn run(rt: &RuntimeObj, submission: ByName<'_>) {
    rt.submit(submission).exec([1]).unwrap();
}

macro_rules! pairs {
    ([$($s:ident)*] $all:tt) => { [$(pairs!(@from $s $all)),*] };
    (@from $s:ident [$($t:ident)*]) => { [$(fits::<$s, $t>(&cpu(), |value| value as $t)),*] };
}

#[test]
fn a_number_widens_to_just_the_types_that_have_all_values_of_its_own() {
    let fit = pairs!([u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64]
        [u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64]);
    // That the naive table is not empty, nor full: of a byte, and of a float.
    let count = |row: [bool; 12]| row.into_iter().filter(|fits| *fits).count();
    assert_eq!(fit.map(count), [11, 9, 6, 2, 2, 7, 6, 4, 2, 2, 2, 1]);
}

/// Four implementations that leave their number, for one type each.
#[derive(KernelDefinition)]
#[kernel(name = "fuzzy.chosen", dims(i))]
struct Chosen<'a, S: Element> {
    value: S,
    to: Item<'a, Write<u32>>,
}

macro_rules! chosen {
    ($($unit:ident for $t:ident leaves $number:literal, [$($key:tt)*];)*) => {$(
        struct $unit;
        #[kernel($($key)*)]
        impl CpuSpan<Chosen<'_, $t>> for $unit {
            fn span(_: Span<1>, k: ChosenSpan<'_, $t>) {
                assert!(k.value == 7 as $t);
                k.to.fill($number);
            }
        }
    )*};
}
chosen! {
    Unsigned for u32 leaves 32, [];
    LongUnsigned for u64 leaves 64, [priority = 10];
    OtherLongUnsigned for u64 leaves 65, [priority = 20];
    LongSigned for i64 leaves 640, [priority = 30];
    Real for f64 leaves 6400, [priority = 40];
}

fn choose<S: Element>(
    value: S,
    options: impl flash_core::descriptor::IntoOptions<flash_core::runtime::Options>,
) -> Result<u32, flash::Error> {
    let to = FlashMemory::<u32>::zeroed(3);
    let fuzzy = cpu().options(Searchable::Fuzzy);
    fuzzy.submit(Chosen::of(value, &to)).options(options).exec([3]).map(|()| to.get(2).unwrap())
}

#[test]
fn exact_comes_first_then_the_same_kind_then_the_fewest_bytes_then_the_order_of_all_searches() {
    let profile = Profile::new();
    let chosen = [
        choose(7u32, &profile),
        choose(7u64, &profile),
        choose(7i64, &profile),
        choose(7f64, &profile),
        choose(7u16, &profile),
        choose(7usize, &profile),
        choose(7i8, &profile),
        choose(7f32, &profile),
    ];
    assert_eq!(chosen.map(Result::unwrap), [32, 65, 640, 6400, 32, 65, 640, 6400]);
    let names: Vec<_> = profile.take().into_iter().map(|launch| launch.implementation).collect();
    assert_eq!(names[4..6], ["unsigned", "other_long_unsigned"]);
}

#[test]
fn a_name_chooses_among_what_fuzzy_search_finds() {
    assert_eq!(choose(7u8, Implementation::named("real")).unwrap(), 6400);
    assert_eq!(choose(7u8, Implementation::named("long_unsigned")).unwrap(), 64);
    let error = choose(7i32, Implementation::named("unsigned")).unwrap_err();
    let flash::Error::NoImplementation(none) = &error else { panic!("{error:?}") };
    assert_eq!((none.rejected().len(), none.signature()), (5, "[1](i32, Item<Write<u32>> along [0])"));
    let why =
        "`value` is i32 here, it takes u32: a scalar becomes another only if every value stays what it is";
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn it_is_asked_for_by_an_option_and_an_option_takes_it_back() {
    let error = choose(7u16, Searchable::Exact).unwrap_err().to_string();
    for part in
        ["it takes [1](f64, Item<Write<u32>> along [0]): `Searchable::Fuzzy` would find it", "fuzzy.chosen"]
    {
        assert!(error.contains(part), "{part} in {error}");
    }
    let error = choose(7u16, Searchable::No).unwrap_err();
    assert!(matches!(error, flash::Error::NoImplementation(_)), "{error}");
    assert_eq!(choose(7u32, (Searchable::No, Implementation::named("unsigned"))).unwrap(), 32);
    // Without a word it is exact.
    let to = FlashMemory::<u32>::zeroed(3);
    cpu().submit(Chosen::of(7u16, &to)).exec([3]).unwrap_err();
    cpu().submit(Chosen::of(7u16, &to)).options(Searchable::Fuzzy).exec([3]).unwrap();
    // By name, it is the runtime that says so before there is a submission.
    let exact = cpu().kernel("fuzzy.chosen").unwrap();
    assert!(exact.args((7u16, &to)).is_err());
    let fuzzy = cpu().options(Searchable::Fuzzy);
    let kernel = fuzzy.kernel("fuzzy.chosen").unwrap();
    fuzzy.submit(kernel.args((7u16, &to)).unwrap()).exec([3]).unwrap();
    assert_eq!(to.get(0).unwrap(), 32);
    let no = cpu().options(Searchable::Exact).kernel("fuzzy.take").unwrap();
    assert!(no.args((7u8, &FlashMemory::<u16>::zeroed(1))).is_err(), "the runtime's word counts");
}

#[test]
fn arrays_and_structs_never_convert() {
    let to = FlashMemory::<[u8; 2]>::zeroed(1);
    let error = cpu().submit(Take::<u8, [u8; 2]>::of(1, &to)).exec([1]).unwrap_err().to_string();
    let why = "`to` is Item<Write<[u8; 2]>> along [0] here, it takes Item<Write<f64>> along [0]: arrays never convert";
    assert!(error.contains(why), "{error}");
    let to = FlashMemory::<f64>::zeroed(1);
    let error = cpu().submit(Take::<u64, f64>::of(1, &to)).exec([1]).unwrap_err().to_string();
    assert!(error.contains("`value` is u64 here, it takes f64"), "{error}");
    let error = cpu().submit(Take::<[f64; 1], f64>::of([1.0], &to)).exec([1]).unwrap_err().to_string();
    assert!(error.contains("`value` is [f64; 1] here, it takes f64"), "{error}");
}

/// Phases, partial results, a cut, and arrays on all sides of the scalars.
#[derive(KernelDefinition)]
#[kernel(name = "fuzzy.blur", dims(i, step), group_by(step), part_by(i, was = stencil(i = 1)), searchable = fuzzy)]
struct Blur<'a, S: Element, N: Element> {
    share: S,
    times: N,
    #[along(i)]
    by: Item<'a, Read<f32>>,
    #[along(i)]
    was: Phased<'a, f64>,
    total: Reduce<'a, Write<f64>, Sum>,
}

struct Blurs;

#[kernel]
impl CpuItem<Blur<'_, f64, i64>> for Blurs {
    fn item(index: Index<2>, mut k: BlurItem<'_, f64, i64>) {
        let i = index[0];
        let left = if i > 0 { k.was.get(i - 1) } else { 0.0 };
        let mut value = k.was.get(i) * (1.0 - k.share) + left * k.share;
        for _ in 0..k.times {
            value += f64::from(*k.by);
        }
        k.was.set(value);
        k.total.put(value);
    }
}

fn blur<S: Element, N: Element>(rt: &RuntimeObj, share: S, times: N) -> (Vec<u64>, u64) {
    let n = 1000;
    let by: Vec<f32> = (0..n).map(|i| i as f32 / 7.0).collect();
    let (was, total) = (FlashMemory::<f64>::zeroed(n), FlashMemory::<f64>::zeroed(1));
    // Twice: the second time it is found again.
    for _ in 0..2 {
        rt.submit(Blur::of(share, times, &by, &was, &total)).exec([n, 5]).unwrap();
    }
    let bits = was.read().unwrap().iter().map(|value| value.to_bits()).collect();
    (bits, total.get(0).unwrap().to_bits())
}

#[test]
fn phases_sums_and_cuts_give_what_the_wide_numbers_give() {
    for (devices, copy) in [("1", "0"), ("2", "0"), ("2", "1")] {
        for check in ["0", "1"] {
            let settings = [("cpu.devices", devices), ("cpu.copy", copy), ("check_writes", check)];
            let rt = flash_tests::context(&settings).runtime("ALL_CPU").unwrap();
            let wide = blur(&rt, 0.25f64, 2i64);
            assert_eq!(blur(&rt, 0.25f32, 2u8), wide);
            assert_eq!(blur(&rt, 0.25f64, 2u32), wide);
            assert_ne!(blur(&rt, 0.5f32, 2i16), wide);
        }
    }
}

/// A definition of a program's own: what it names is implemented elsewhere, for numbers of double precision
/// alone.
#[derive(KernelDefinition)]
#[kernel(name = "flash.nbody.accelerate", dims(body), searchable = fuzzy)]
struct Pull<'a> {
    g: f32,
    softening2: u16,
    pos: flash::kernel::views::Whole<'a, Read<[f64; 3]>>,
    mass: flash::kernel::views::Whole<'a, Read<f64>>,
    acc: Item<'a, Write<[f64; 3]>>,
}

#[test]
fn a_program_finds_the_kernels_of_a_library_with_scalars_of_its_own() {
    use flash::kernels::nbody::Accelerate;
    let rt = cpu();
    let pos: FlashMemory<[f64; 3]> = (0..50).map(|i| [i as f64, (i * i % 17) as f64, 0.5]).collect();
    let mass = vec![2.0f64; 50];
    let [ours, theirs] = std::array::from_fn(|_| FlashMemory::<[f64; 3]>::zeroed(50));
    rt.submit(Pull::of(0.1, 3, &pos, &mass, &ours)).exec([50]).unwrap();
    rt.submit(Accelerate::of(f64::from(0.1f32), 3.0, &pos, &mass, &theirs)).exec([50]).unwrap();
    assert!(*ours.read().unwrap() == *theirs.read().unwrap());
}

/// One scalar, many launches.
#[derive(KernelDefinition)]
#[kernel(name = "fuzzy.add", dims(i), searchable = fuzzy)]
struct Add<'a, S: Element> {
    by: S,
    to: Item<'a, ReadWrite<i64>>,
}

struct Adds;

#[kernel]
impl CpuItem<Add<'_, i64>> for Adds {
    fn item(_: Index<1>, k: AddItem<'_, i64>) {
        assert!(k.by != 100, "as it was asked to");
        *k.to += k.by;
    }
}

#[test]
fn each_launch_gets_its_own_numbers_in_loops_pipelines_and_threads() {
    let (rt, to) = (cpu(), FlashMemory::<i64>::zeroed(3));
    for by in -5..20i8 {
        rt.submit(Add::of(by, &to)).exec([3]).unwrap();
    }
    assert_eq!(*to.read().unwrap(), [175; 3]);
    let mut chain = rt.pipeline();
    for by in 0..50u8 {
        chain = chain.submit(Add::of(by, &to)).defer([3]).submit(Add::of(-i32::from(by), &to)).defer([2]);
    }
    chain.exec().unwrap();
    chain.exec().unwrap();
    assert_eq!(*to.read().unwrap(), [175, 175, 175 + 2 * 1225]);
    std::thread::scope(|scope| {
        for thread in 1..4i32 {
            let rt = &rt;
            scope.spawn(move || {
                let own = FlashMemory::<i64>::zeroed(2);
                (0..100).for_each(|_| rt.submit(Add::of(thread, &own)).exec([2]).unwrap());
                assert_eq!(own.get(1).unwrap(), 100 * i64::from(thread));
            });
        }
    });
    let owned = rt.submit(Add::of(1u16, to.clone())).defer([3]).exec_async();
    owned.wait().unwrap();
    assert_eq!(to.get(0).unwrap(), 176);
}

#[test]
fn a_failure_names_the_definition_and_a_later_launch_runs() {
    let (rt, to) = (cpu(), FlashMemory::<i64>::zeroed(3));
    let error = rt.submit(Add::of(100u8, &to)).exec([3]).unwrap_err().to_string();
    assert!(error.contains("fuzzy.add") && error.contains("as it was asked to"), "{error}");
    to.write().unwrap().fill(1);
    rt.submit(Add::of(99u8, &to)).exec([3]).unwrap();
    assert_eq!(*to.read().unwrap(), [100; 3]);
}

#[test]
fn a_recording_keeps_the_numbers_of_the_definition_and_a_replay_widens_them_again() {
    let (rt, to) = (cpu(), FlashMemory::<i64>::from([1, 2]));
    let chosen = FlashMemory::<u32>::zeroed(2);
    let chain = rt.submit(Add::of(-3i8, &to)).defer([2]);
    let chain = chain.submit(Chosen::of(7u16, &chosen)).options(Searchable::Fuzzy).defer([2]);
    let recording = chain.recording(Data::With).unwrap();
    assert_eq!(recording.kernels[0].arguments[0].element.name, "i8");
    let text = recording.to_json().unwrap();
    let recording = Recording::from_json(&text).unwrap();
    let replayed = rt.replay(&recording).unwrap();
    assert_eq!(replayed.read::<i64>(0).unwrap(), [-2, -1]);
    assert_eq!(replayed.read::<u32>(1).unwrap(), [32, 32]);
    chain.exec().unwrap();
    assert_eq!(*to.read().unwrap(), [-2, -1]);

    // A recording that does not ask for it does not get it; and what would lose, or is no number, is not run.
    let exact = text.replace(r#""key":"Searchable""#, r#""key":"searching""#);
    assert_ne!(exact, text);
    let error = rt.replay(&Recording::from_json(&exact).unwrap()).err().unwrap().to_string();
    assert!(error.contains("`Searchable::Fuzzy` would find it"), "{error}");
    for name in ["u64", "i128", "bool"] {
        let narrow = text.replace(r#""name":"i8""#, &format!(r#""name":"{name}""#));
        assert_ne!(narrow, text);
        let error = rt.replay(&Recording::from_json(&narrow).unwrap()).err().unwrap();
        assert!(matches!(error, flash::Error::Argument { .. }), "{name}: {error}");
    }
}
