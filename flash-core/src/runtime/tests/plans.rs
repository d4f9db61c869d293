//! The plans that runtimes and submissions with options prepare, and those that they share.

use super::fresh;
use super::serial::{prepared, refuse};
use crate::error::Error;
use crate::kernel::views::{Item, Write};
use crate::kernel::{CpuItem, Index};
use crate::runtime::{Profile, RuntimeObj, Scalar, get_runtime};
use crate::{FlashMemory, KernelDefinition, kernel};
use flash_backend::{Code, Failure};
use flash_types::descriptor::{
    Attributes, Implementation, Priority, Subspaces, Timeout, group_by, part_by, sort_by, weights,
};
use std::time::Duration;

#[derive(KernelDefinition)]
#[kernel(name = "test.planned", dims(x))]
struct Planned<'a> {
    value: u32,
    out: Item<'a, Write<u32>>,
}

struct Set;

#[kernel]
impl CpuItem<Planned<'_>> for Set {
    fn item(_: Index<1>, k: PlannedItem<'_>) {
        k.out.set(k.value);
    }
}

const NAME: &str = "test.planned";

fn runs(rt: &RuntimeObj) -> Result<(), Error> {
    let out = FlashMemory::<u32>::zeroed(4);
    rt.submit(Planned::of(7, &out)).exec([4])?;
    assert_eq!(*out.read()?, [7; 4]);
    Ok(())
}

#[test]
fn options_prepare_nothing_twice() {
    let [rt, other] = fresh();
    runs(&rt).unwrap();
    assert_eq!(prepared(NAME), 1);
    let plan = |rt: &RuntimeObj| std::ptr::from_ref(rt.inner.plan_of::<Planned<'_>>());
    let mut backends = Attributes::default();
    backends.set_by_name("some.hint", true.into(), false);

    // Options that do not shape a plan.
    let with: [RuntimeObj; 5] = [
        rt.options(&Profile::new()),
        rt.options((Priority(3), Timeout(Duration::from_secs(60)))),
        rt.options(backends.clone()),
        rt.options(Priority(1)).options(Priority(2)),
        get_runtime("TEST_SERIAL:0").unwrap().options(Priority(9)),
    ];
    for with in &with {
        runs(with).unwrap();
        assert_eq!(plan(with), plan(&rt));
    }
    // Options that define how a launch is ordered and cut: they have plans of their own, which are found
    // again, and nothing is prepared.
    let shaped =
        || [rt.options(sort_by(["x"])), rt.options((Priority(3), part_by("x"))), rt.options(weights([1]))];
    let first = shaped();
    for (a, b) in first.iter().zip(shaped()) {
        runs(a).unwrap();
        assert_ne!(plan(a), plan(&rt));
        assert_eq!(plan(a), plan(&b));
        runs(&b).unwrap();
    }
    // The order in which options are given does not matter.
    let [ab, ba] = [
        rt.options(sort_by(["x"])).options(Subspaces(2)),
        rt.options((Subspaces(2), Priority(1), sort_by(["x"]))),
    ];
    assert_eq!(plan(&ab), plan(&ba));
    assert_ne!(plan(&ab), plan(&rt.options((Subspaces(3), sort_by(["x"])))));

    let out = FlashMemory::<u32>::zeroed(4);
    for _ in 0..3 {
        rt.submit(Planned::of(1, &out)).options(Priority(1)).exec([4]).unwrap();
        rt.submit(Planned::of(1, &out)).options((backends.clone(), group_by(["x"]))).exec([4]).unwrap();
    }
    assert_eq!(prepared(NAME), 1);

    // By name, once for all options.
    let set = rt.kernel(NAME).unwrap();
    for shares in [1, 2, 3] {
        let submission = rt.submit(set.args((Scalar(2u32), &out)).unwrap());
        submission.options(weights([shares])).exec([4]).unwrap();
    }
    assert_eq!(prepared(NAME), 2);

    // An option that chooses an implementation prepares it once.
    for _ in 0..3 {
        runs(&rt.options(Implementation::named("set"))).unwrap();
        runs(&rt.options((Implementation::named("set"), weights([4])))).unwrap();
    }
    assert_eq!(prepared(NAME), 3);

    // Other devices have plans of their own.
    runs(&other).unwrap();
    assert_eq!(prepared(NAME), 4);
}

#[test]
fn what_failed_is_tried_again_by_a_later_runtime() {
    let [rt, _] = fresh();
    let none = rt.options(Implementation::named("none"));
    let [first, second] = [runs(&none), runs(&none)].map(|outcome| outcome.unwrap_err().to_string());
    assert_eq!(first, second);
    let plan = |rt: &RuntimeObj| std::ptr::from_ref(rt.inner.plan_of::<Planned<'_>>());
    assert_eq!(plan(&none), plan(&none.options(Priority(1))));
    assert_ne!(plan(&none), plan(&rt.options(Implementation::named("none"))));
    assert!(runs(&rt.options(weights([1, 2]))).unwrap_err().to_string().contains("one weight per device"));
    runs(&rt).unwrap();
}

#[test]
fn what_failed_for_a_moment_is_tried_again_by_the_next_launch() {
    #[derive(KernelDefinition)]
    #[kernel(name = "test.refused", dims(x))]
    struct Refused<'a> {
        out: Item<'a, Write<u32>>,
    }
    struct Seven;
    #[kernel]
    impl CpuItem<Refused<'_>> for Seven {
        fn item(_: Index<1>, k: RefusedItem<'_>) {
            k.out.set(7);
        }
    }
    // Its table of plans is its own: later runtimes leave one in which a plan has failed.
    let rt = fresh()[0].options(Implementation::named("seven"));
    let out = FlashMemory::<u32>::zeroed(4);
    // More than are kept, and with other words each time.
    for i in 0..100 {
        let code = [Code::DeviceLost, Code::OutOfMemory][i % 2];
        refuse("test.refused", Failure::new(code, format!("for the {i}th time")));
        let error = rt.submit(Refused::of(&out)).exec([4]).unwrap_err();
        assert_eq!(error.code(), Some(code), "{error}");
        if i < 16 {
            assert!(error.to_string().contains(&format!("for the {i}th time")), "{error}");
        }
    }
    rt.submit(Refused::of(&out)).exec([4]).unwrap();
    assert_eq!(*out.read().unwrap(), [7; 4]);
    // By name; another failure stays.
    let seven = rt.kernel("test.refused").unwrap();
    let runs = || rt.submit(seven.args((&out,)).unwrap()).exec([4]);
    refuse("test.refused", Failure::new(Code::DeviceLost, "for a moment"));
    assert_eq!(runs().unwrap_err().code(), Some(Code::DeviceLost));
    refuse("test.refused", Failure::new(Code::Other, "for good"));
    for _ in 0..2 {
        assert!(runs().unwrap_err().to_string().contains("for good"));
    }
}
