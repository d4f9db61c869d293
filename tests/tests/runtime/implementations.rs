//! The choice among several implementations for a launch, and the arguments of the `whole` door.

use flash::kernel;
use flash::kernel::views::{Item, Write};
use flash::kernel::{CpuItem, CpuSpan, CpuWhole, Index, Space, Span, Threads};
use flash::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A kernel whose implementations leave their number.
macro_rules! numbered {
    ($name:ident $args:ident $text:tt) => {
        #[derive(KernelDefinition)]
        #[kernel(name = $text, dims(i))]
        struct $name<'a> {
            to: Item<'a, Write<u32>>,
        }
    };
}

/// An implementation that writes a number.
macro_rules! writes {
    ($unit:ident, $definition:ident, $args:ident, item $number:expr, [$($key:tt)*]) => {
        struct $unit;
        #[kernel($($key)*)]
        impl CpuItem<$definition<'_>> for $unit {
            fn item(_: Index<1>, k: $args<'_>) {
                k.to.set($number);
            }
        }
    };
    ($unit:ident, $definition:ident, $args:ident, span $number:expr, [$($key:tt)*]) => {
        struct $unit;
        #[kernel($($key)*)]
        impl CpuSpan<$definition<'_>> for $unit {
            fn span(_: Span<1>, k: $args<'_>) {
                k.to.fill($number);
            }
        }
    };
    ($unit:ident, $definition:ident, $args:ident, whole $number:expr, [$($key:tt)*]) => {
        struct $unit;
        #[kernel($($key)*)]
        impl CpuWhole<$definition<'_>> for $unit {
            fn whole(_: Space<'_, Index<1>>, k: $args<'_>, _: Threads<'_>) {
                k.to.fill($number);
            }
        }
    };
}

/// The implementation that ran, and its record in the profile.
macro_rules! ran {
    ($definition:ident $(, $option:expr)?) => {{
        let (rt, profile) = (flash_tests::runtime_of_functions(), Profile::new());
        let to = FlashMemory::<u32>::zeroed(3);
        let submission = rt.submit($definition::of(&to)).options(&profile);
        $(let submission = submission.options($option);)?
        submission.exec([3]).map(|()| (to.get(2).unwrap(), profile.take()[0].implementation.clone()))
    }};
}

numbered!(Priority PriorityItem "implementations.priority");
writes!(Low, Priority, PriorityItem, item 1, [priority = -5]);
writes!(Middle, Priority, PrioritySpan, span 2, []);
writes!(High, Priority, PriorityWhole, whole 3, [priority = 7]);

#[flash_tests::test]
fn the_highest_priority_wins_before_the_door() {
    assert_eq!(ran!(Priority).unwrap(), (3, "high".into()));
}

#[flash_tests::test]
fn a_named_implementation_wins_before_everything() {
    assert_eq!(ran!(Priority, Implementation::named("low")).unwrap(), (1, "low".into()));
    assert_eq!(ran!(Priority, Implementation::named("middle")).unwrap(), (2, "middle".into()));
}

#[flash_tests::test]
fn a_name_that_is_not_there_is_an_error_that_lists_what_there_is() {
    let error = ran!(Priority, Implementation::named("medium")).unwrap_err();
    let flash::Error::NoImplementation(none) = &error else { panic!("{error:?}") };
    assert_eq!((none.kernel(), none.rejected().len()), ("implementations.priority", 3));
    for part in ["medium", "`low`", "`middle`", "`high`", &flash_tests::id(0)] {
        assert!(error.to_string().contains(part), "{part} in {error}");
    }
}

numbered!(Doors DoorsItem "implementations.doors");
writes!(AWhole, Doors, DoorsWhole, whole 3, []);
writes!(AnItem, Doors, DoorsItem, item 1, []);
writes!(ASpan, Doors, DoorsSpan, span 2, []);

numbered!(TwoDoors TwoDoorsItem "implementations.two_doors");
writes!(TheWhole, TwoDoors, TwoDoorsWhole, whole 3, []);
writes!(TheItem, TwoDoors, TwoDoorsItem, item 1, []);

#[flash_tests::test]
fn of_equals_the_span_door_comes_before_the_item_door_before_the_whole_door() {
    assert_eq!(ran!(Doors).unwrap(), (2, "a_span".into()));
    assert_eq!(ran!(TwoDoors).unwrap(), (1, "the_item".into()));
}

numbered!(Selected SelectedItem "implementations.selected");
writes!(AnyVendor, Selected, SelectedItem, item 1, [vendor = "*", priority = 1]);
writes!(OtherVendor, Selected, SelectedSpan, span 2, [vendor = "Abacus & Sons", priority = 50]);
writes!(OtherDevice, Selected, SelectedSpan, span 3, [vendor = "*", device = "Difference Engine", priority = 60]);

#[flash_tests::test]
fn a_vendor_or_device_that_does_not_match_is_no_candidate_and_a_wildcard_matches() {
    assert_eq!(ran!(Selected).unwrap(), (1, "any_vendor".into()));
    let error = ran!(Selected, Implementation::named("other_vendor")).unwrap_err().to_string();
    let vendor = &flash_tests::runtime_of_functions().devices()[0].info().vendor.clone();
    assert!(error.contains("Abacus & Sons") && error.contains(vendor), "{error}");
}

numbered!(Specific SpecificItem "implementations.specific");
writes!(General, Specific, SpecificItem, item 1, [priority = 90]);
#[cfg(target_arch = "x86_64")]
writes!(Vector, Specific, SpecificItem, item 2, [architecture = "sse4.2"]);

#[flash_tests::test]
#[cfg(target_arch = "x86_64")]
fn a_selection_attribute_that_matches_wins_before_the_priority() {
    let rt = flash_tests::runtime_of_functions();
    let has = rt.devices()[0].info().features.split(',').any(|feature| feature == "sse4.2");
    assert_eq!(ran!(Specific).unwrap(), if has { (2, "vector".into()) } else { (1, "general".into()) });
}

numbered!(Featured FeaturedItem "implementations.featured");
writes!(Anywhere, Featured, FeaturedItem, item 1, []);
#[cfg(target_arch = "x86_64")]
writes!(Half, Featured, FeaturedItem, item 2, [priority = 9, cpu_features = "avx,avx512fp16"]);

#[flash_tests::test]
#[cfg(target_arch = "x86_64")]
fn what_asks_for_more_than_the_machine_has_is_no_candidate() {
    let there = is_x86_feature_detected!("avx") && is_x86_feature_detected!("avx512fp16");
    let expected = if there { (2, "half".into()) } else { (1, "anywhere".into()) };
    assert_eq!(ran!(Featured).unwrap(), expected);
    if !there {
        let error = ran!(Featured, Implementation::named("half")).unwrap_err().to_string();
        assert!(error.contains("lacks") && error.contains("avx"), "{error}");
    }
}

numbered!(Unimplemented UnimplementedItem "implementations.none");

#[flash_tests::test]
fn a_kernel_that_nothing_implements_is_an_error_that_says_where_was_looked() {
    let error = ran!(Unimplemented).unwrap_err().to_string();
    for part in ["implementations.none", "Item<Write<u32>>", &flash_tests::id(0)] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[flash_tests::test]
fn preload_prepares_a_kernel_or_says_why_not() {
    let rt = flash_tests::runtime_of_functions();
    rt.preload::<Priority>().unwrap();
    assert!(matches!(rt.preload::<Unimplemented>(), Err(flash::Error::NoImplementation(_))));
}

#[derive(KernelDefinition)]
#[kernel(name = "implementations.pool", dims(i, step), group_by(step))]
struct Pool<'a> {
    panics: u32,
    #[along(i, step)]
    to: Item<'a, Write<u64>>,
}

struct Parallel;

#[kernel]
impl CpuWhole<Pool<'_>> for Parallel {
    fn whole(space: Space<'_, Index<2>>, k: PoolWhole<'_>, threads: Threads<'_>) {
        let width = space.extent(0) as usize;
        let to = &mut k.to[space.phase() as usize * width..][..space.len() as usize];
        let (rayon_threads, sum) = threads.install(|| {
            use rayon::prelude::*;
            to.par_iter_mut().enumerate().for_each(|(i, to)| *to = i as u64);
            assert!(k.panics == 0, "as it was asked to");
            (rayon::current_num_threads(), to.par_iter().sum::<u64>())
        });
        assert!(
            rayon_threads <= threads.count(),
            "a library on rayon gets the team's threads: {rayon_threads}"
        );
        assert_eq!(sum, (width * (width - 1) / 2) as u64);
        to[0] = 1000 + space.phase();
    }
}

#[derive(KernelDefinition)]
#[kernel(name = "implementations.each", dims(i))]
struct Each<'a> {
    panics_at: u64,
    to: Item<'a, Write<u64>>,
}

/// In a whole, as many times as there are threads that it may have.
const SEVERAL: usize = 200;

#[kernel]
impl CpuWhole<Each<'_>> for Parallel {
    fn whole(_: Space<'_, Index<1>>, k: EachWhole<'_>, threads: Threads<'_>) {
        let (count, panics_at) = (k.to.len(), k.panics_at);
        let seen: Vec<AtomicU64> = k.to.iter().map(|_| AtomicU64::new(0)).collect();
        let (together, mine) = (AtomicU64::new(0), std::thread::current().id());
        for time in 0..SEVERAL {
            // Not known, too little to share, or much.
            let ns = [0.0, 0.1, 1e6][time % 3];
            threads.each(count, ns, |part| {
                assert!(!part.is_empty() && part.end <= count);
                assert!(!part.contains(&(panics_at as usize)), "at {panics_at}, as it was asked to");
                let here = std::thread::current().id();
                // Without other threads, which are busy.
                threads.each(part.len(), ns, |inner| {
                    assert_eq!(std::thread::current().id(), here);
                    seen[part.clone()][inner].iter().for_each(|seen| _ = seen.fetch_add(1, Relaxed));
                });
                together.fetch_add(u64::from(here != mine), Relaxed);
            });
        }
        threads.each(0, 1.0, |part| panic!("there is nothing in {part:?}"));
        assert!(threads.count() > 1 || together.into_inner() == 0);
        k.to.iter_mut().zip(seen).for_each(|(to, seen)| *to = seen.into_inner());
    }
}

fn each_part_of_a_whole(counts: &[usize]) {
    let rt = flash_tests::runtime_of_functions();
    for &count in counts {
        let to = FlashMemory::<u64>::zeroed(count);
        rt.submit(Each::of(u64::MAX, &to)).exec([count]).unwrap();
        assert!(to.read().unwrap().iter().all(|&times| times == SEVERAL as u64), "{count} parts");
        for panics_at in [0, count / 2, count - 1] {
            let other = FlashMemory::<u64>::zeroed(count);
            let text = rt.submit(Each::of(panics_at as u64, &other)).exec([count]).unwrap_err().to_string();
            assert!(text.contains(&format!("at {panics_at}, as it was asked to")), "{text}");
        }
    }
}

#[flash_tests::test]
fn the_whole_door_goes_through_each_part_once_on_the_teams_threads() {
    for threads in ["1", "2", "3", "7"] {
        flash_tests::in_process(&[("FLASH_CPU_THREADS", threads)], || {
            each_part_of_a_whole(&[1, 2, 3, 7, 64, 1000])
        });
    }
}

fn the_whole_door(width: u64) {
    let rt = flash_tests::runtime_of_functions();
    let to = FlashMemory::<u64>::zeroed([width, 5]);
    rt.submit(Pool::of(0, &to)).exec([width, 5]).unwrap();
    let to = to.read().unwrap();
    for step in 0..5 {
        let row: Vec<u64> = (0..width).map(|i| if i == 0 { 1000 + step as u64 } else { i }).collect();
        assert_eq!(to[step * width as usize..][..width as usize], row);
    }
    let other = FlashMemory::<u64>::zeroed([width, 1]);
    let text = rt.submit(Pool::of(1, &other)).exec([width, 1]).unwrap_err().to_string();
    assert!(text.contains("as it was asked to"), "{text}");
    rt.submit(Pool::of(0, &other)).exec([width, 1]).unwrap();
}

#[flash_tests::test]
fn the_whole_door_runs_once_per_phase_and_installs_the_teams_threads() {
    for threads in ["1", "2", "3"] {
        flash_tests::in_process(&[("FLASH_CPU_THREADS", threads)], || the_whole_door(100));
    }
}

/// Two definitions of one name and the same arguments, each with an implementation.
mod one {
    use super::*;

    #[derive(KernelDefinition)]
    #[kernel(name = "implementations.same", dims(i))]
    pub struct Same<'a> {
        pub to: Item<'a, Write<u32>>,
    }

    struct One;

    #[kernel]
    impl CpuItem<Same<'_>> for One {
        fn item(_: Index<1>, k: SameItem<'_>) {
            k.to.set(1);
        }
    }
}

mod two {
    use super::*;

    #[derive(KernelDefinition)]
    #[kernel(name = "implementations.same", dims(i))]
    pub struct Same<'a> {
        pub to: Item<'a, Write<u32>>,
    }

    struct Two;

    #[kernel(priority = 5)]
    impl CpuItem<Same<'_>> for Two {
        fn item(_: Index<1>, k: SameItem<'_>) {
            k.to.set(2);
        }
    }
}

#[flash_tests::test]
fn two_definitions_of_one_name_are_an_error_that_names_both() {
    let (rt, to) = (flash_tests::runtime_of_functions(), FlashMemory::<u32>::zeroed(4));
    let errors = [
        rt.submit(one::Same::of(&to)).exec([4]).unwrap_err(),
        rt.submit(two::Same::of(&to)).exec([4]).unwrap_err(),
        rt.submit(rt.kernel("implementations.same").unwrap().args((&to,)).unwrap()).exec([4]).unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(matches!(error, flash::Error::Ambiguous { .. }), "{text}");
        for part in ["implementations.same", "one::Same", "two::Same", "another name"] {
            assert!(text.contains(part), "no `{part}` in: {text}");
        }
    }
    assert_eq!(*to.read().unwrap(), [0; 4]);
}

/// Two implementations of one name.
#[derive(KernelDefinition)]
#[kernel(name = "implementations.tied", dims(i))]
struct Tied<'a> {
    to: Item<'a, Write<u32>>,
}

struct First;
struct Second;

#[kernel(name = "tied")]
impl CpuItem<Tied<'_>> for First {
    fn item(_: Index<1>, k: TiedItem<'_>) {
        k.to.set(1);
    }
}

#[kernel(name = "tied")]
impl CpuItem<Tied<'_>> for Second {
    fn item(_: Index<1>, k: TiedItem<'_>) {
        k.to.set(2);
    }
}

#[flash_tests::test]
fn two_implementations_that_nothing_tells_apart_are_an_error() {
    let (rt, to) = (flash_tests::runtime_of_functions(), FlashMemory::<u32>::zeroed(4));
    let text = rt.submit(Tied::of(&to)).exec([4]).unwrap_err().to_string();
    for part in ["implementations.tied", "two implementations `tied` for cpu", "another name or priority"] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}
