//! Claims: attributes, strategies, failsafes, pipelines; and that nothing stays of what is freed.

use super::*;
use flash_c2mpi::{Code as ErrorCode, Failsafe};
use flash_core::devices::Package;
use flash_tests::plugins::{self, Language};

fn split() -> Context {
    flash_tests::context(&[("cpu.devices", "3")])
}

fn overrides(pairs: &[(&str, &str)]) -> Overrides {
    let mut overrides = Overrides::default();
    pairs.iter().for_each(|(name, value)| overrides.set(name, value).unwrap());
    overrides
}

#[test]
fn round_robin_takes_the_devices_in_turn() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "3")], || {
        let world = with(split(), "", "");
        let devices = |child| world.devices(child).unwrap();
        let turns: Vec<_> = (0..4).map(|_| devices(claim(&world, "INCREASE"))).collect();
        assert_eq!(turns, [["ALL_CPU:0"], ["ALL_CPU:1"], ["ALL_CPU:2"], ["ALL_CPU:0"]]);
        // A set of devices, and more than there are.
        let set = |count| world.claim("INCREASE", None, &overrides(&[("func_repl", count)])).unwrap();
        assert_eq!(devices(set("2")), ["ALL_CPU:1", "ALL_CPU:2"]);
        let all = set("9");
        assert_eq!(devices(all).len(), 3);
        let mut data = [0.0f32; 8];
        let object = increase(1.0, &mut data);
        for _ in 0..7 {
            world.send(&object, all, 0, 0).unwrap();
            receive(&world, &object, 0, all, 0).unwrap();
        }
        assert_eq!(data, [7.0; 8]);
        world.end();
    });
}

#[test]
fn the_other_strategies_take_the_device_that_they_say() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "3")], || {
        let platforms = r#"
            {"platform_id": "pinned", "strategy": "pinned", "key": "ALL_CPU:1"},
            {"platform_id": "least", "strategy": "least_loaded", "key": "ALL_CPU"},
            {"platform_id": "fastest", "strategy": "fastest", "key": "ALL_CPU"}"#;
        let functions = r#"
            {"func_alias": "PINNED", "sw_fid": "halo.increase", "platform_id": "pinned"},
            {"func_alias": "LEAST", "sw_fid": "halo.increase", "platform_id": "least"},
            {"func_alias": "FASTEST", "sw_fid": "halo.increase", "platform_id": "fastest"}"#;
        let world = with(split(), functions, platforms);
        let devices = |child| world.devices(child).unwrap();
        assert_eq!(devices(claim(&world, "PINNED")), ["ALL_CPU:1"]);
        assert_eq!(devices(claim(&world, "PINNED")), ["ALL_CPU:1"]);
        // Device 1 has two.
        let first = claim(&world, "LEAST");
        assert_eq!(devices(first), ["ALL_CPU:0"]);
        assert_eq!(devices(claim(&world, "LEAST")), ["ALL_CPU:2"]);
        world.free(first).unwrap();
        assert_eq!(devices(claim(&world, "LEAST")), ["ALL_CPU:0"]);
        // Each is tried, then one is taken.
        let mut data = [0.0f32; 8];
        let object = increase(1.0, &mut data);
        let all = world.claim("FASTEST", None, &overrides(&[("func_repl", "3")])).unwrap();
        for _ in 0..10 {
            world.send(&object, all, 0, 0).unwrap();
            receive(&world, &object, 0, all, 0).unwrap();
        }
        assert_eq!(data, [10.0; 8]);
        assert_eq!(devices(claim(&world, "FASTEST")).len(), 1);
        world.end();
    });
}

#[test]
fn attributes_select_the_kernel_the_implementation_and_the_device() {
    let functions = r#"
        {"func_alias": "PLAIN", "sw_fid": "flash.ewmm", "sw_pid": "pla*", "key": "ALL_CPU"},
        {"func_alias": "NO_SUCH_CODE", "sw_fid": "123456", "sw_pid": "handmade", "key": "ALL_CPU"},
        {"func_alias": "VDP", "sw_clid": "*", "sw_vid": "flash", "key": "ALL_CPU"},
        {"func_alias": "STENCIL", "sw_clid": "stencil", "key": "ALL_CPU"},
        {"func_alias": "DENSE", "sw_clid": "dense", "key": "ALL_CPU"},
        {"func_alias": "ELSEWHERE", "sw_fid": "halo.increase", "vid": "no vendor *", "key": "ALL_CPU"},
        {"func_alias": "NO_KEY", "sw_fid": "halo.increase", "key": "ABACUS"},
        {"func_alias": "OLD", "sw_fid": "12345", "sw_verid": "0.0.*", "key": "ALL_CPU"}"#;
    let world = with(Context::default(), functions, "");
    for alias in ["PLAIN", "VDP", "STENCIL"] {
        claim(&world, alias);
    }
    let refused = |alias: &str, pairs: &[(&str, &str)]| {
        let error = world.claim(alias, None, &overrides(pairs)).unwrap_err();
        assert_eq!(error.code, ErrorCode::Implementation, "{error}");
        error.text
    };
    let text = refused("NO_SUCH_CODE", &[]);
    assert!(text.contains("sw_pid=handmade") && text.contains("avx2"), "{text}");
    let text = refused("DENSE", &[]);
    assert!(text.contains("expected one kernel") && text.contains("flash.mmm, flash.mvm"), "{text}");
    let text = refused("ELSEWHERE", &[]);
    assert!(text.contains("ALL_CPU:0: expected vid `no vendor *`, found `"), "{text}");
    let text = refused("NO_KEY", &[]);
    assert!(text.contains("available keys"), "{text}");
    let text = refused("OLD", &[]);
    assert!(text.contains("sw_verid=0.0.*") && text.contains("12345 MMM flash.mmm"), "{text}");
    // An override changes the entry for one claim.
    world
        .claim("ELSEWHERE", None, &overrides(&[("vid", "*"), ("ss_vid", "all_cpu"), ("ss_pid", "*:0")]))
        .unwrap();
    refused("STENCIL", &[("pid", "no such device")]);
    let error = world.claim("VDP", None, &overrides(&[("platform_id", "moon")])).unwrap_err();
    assert!(error.code == ErrorCode::Config && error.text.contains("rr_scat"), "{error}");
    world.end();
}

#[test]
fn without_an_implementation_the_failsafe_runs_and_without_one_all_is_listed() {
    let world = world();
    let error = world.claim("NOTHING", None, &Overrides::default()).unwrap_err();
    assert_eq!(error.code, ErrorCode::Implementation);
    for part in ["`NOTHING`", "sw_fid=halo.nothing", "123456789A JS flash.js", "halo.increase"] {
        assert!(error.text.contains(part), "no {part} in {error}");
    }
    let error = world.claim("NOWHERE", None, &Overrides::default()).unwrap_err();
    assert!(error.code == ErrorCode::Alias && error.text.contains("INCREASE, DOUBLE"), "{error}");

    let failsafe: Failsafe = Arc::new(|object| {
        let by = object.argument(0).map_err(|error| error.text)?;
        let by = f32::from_ne_bytes(by.scalar.try_into().map_err(|_| "no float")?);
        if by < 0.0 {
            return Err("it only grows".into());
        }
        let array = object.argument(1).map_err(|error| error.text)?;
        let data =
            unsafe { std::slice::from_raw_parts_mut(array.data.cast::<f32>(), array.shape[0] as usize) };
        data.iter_mut().for_each(|x| *x += by);
        Ok(())
    });
    let child = world.claim("NOTHING", Some(failsafe.clone()), &Overrides::default()).unwrap();
    assert!(world.devices(child).unwrap().is_empty());
    let mut data = [1.0f32, 2.0];
    let object = increase(4.0, &mut data);
    for _ in 0..2 {
        world.send(&object, child, 0, 1).unwrap();
        receive(&world, &object, 0, child, 1).unwrap();
    }
    assert_eq!(data, [9.0, 10.0]);
    object.set_scalar(0, &(-1f32).to_ne_bytes()).unwrap();
    world.send(&object, child, 0, 1).unwrap();
    let error = receive(&world, &object, 0, child, 1).unwrap_err();
    assert!(error.code == ErrorCode::Failed && error.text.ends_with("it only grows"), "{error}");

    // An alias with an implementation runs that.
    let never: Failsafe = Arc::new(|_| Err("not me".into()));
    let child = world.claim("INCREASE", Some(never), &Overrides::default()).unwrap();
    object.set_scalar(0, &1f32.to_ne_bytes()).unwrap();
    world.send(&object, child, 0, 1).unwrap();
    receive(&world, &object, 0, child, 1).unwrap();
    assert_eq!(data, [10.0, 11.0]);
    world.end();
}

#[test]
fn a_pipeline_of_kernels_is_one_child_rank() {
    let functions = r#"
        {"func_alias": "EWMM", "sw_fid": "123456"}, {"func_alias": "VDP", "sw_fid": "123456789"},
        {"func_alias": "NORM", "pipeline": ["EWMM", "VDP"], "key": "ALL_CPU"}"#;
    let world = with(Context::default(), functions, "");
    let child = claim(&world, "NORM");
    // The sum of (x y) z, for small arrays at once and for long ones on the way.
    for n in [100usize, 50_000] {
        let mut arrays: Vec<Vec<f32>> =
            (0..4).map(|k| (0..n).map(|i| ((i * (k + 3)) % 7) as f32).collect()).collect();
        let expected: f64 =
            (0..n).map(|i| [0, 1, 2].map(|k| f64::from(arrays[k][i])).iter().product::<f64>()).sum();
        let mut sum = [0.0f32];
        let object = ComputeObj::new();
        object.add_scalar(whole(), &(n as u64).to_ne_bytes()).unwrap();
        let addresses: Vec<*mut u8> = arrays.iter_mut().map(|array| array.as_mut_ptr().cast()).collect();
        for at in [0, 1, 3, 3, 2] {
            unsafe { object.add_array(float(), &[n as u64], addresses[at]).unwrap() };
        }
        unsafe { object.add_array(float(), &[1], sum.as_mut_ptr().cast()).unwrap() };
        for tag in 0..3 {
            world.send(&object, child, 0, tag).unwrap();
        }
        for tag in 0..3 {
            receive(&world, &object, 0, child, tag).unwrap();
        }
        assert!((f64::from(sum[0]) - expected).abs() <= expected * 1e-6, "{sum:?} {expected}");
    }
    let object = ComputeObj::new();
    let error = world.send(&object, child, 0, 0).unwrap_err();
    assert!(error.text.contains("expected the 7 arguments of flash.ewmm"), "{error}");
    world.end();
}

/// Bytes of the process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn claims_and_frees_leave_nothing_behind() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "1")], || {
        let world = world();
        let mut data = [0.0f32; 256];
        let object = increase(1.0, &mut data);
        let round = || {
            let child = claim(&world, "INCREASE");
            let buffer = world.create_buffer(child, float(), &[256]).unwrap();
            world.send(&object, child, 0, 0).unwrap();
            world.send(&object, child, 0, 1).unwrap();
            receive(&world, &object, 0, child, 1).unwrap();
            // With a message and a buffer that are left.
            world.free(child).unwrap();
            assert!(world.free(buffer).is_err());
        };
        (0..3000).for_each(|_| round());
        let before = resident();
        (0..10_000).for_each(|_| round());
        let grown = resident().saturating_sub(before);
        assert!(grown < 1 << 20, "{grown} bytes after 10000 claims");
        world.end();
    });
}

#[test]
fn a_receive_ends_when_its_child_rank_is_freed_or_the_program_ends() {
    let world = world();
    let [child, other] = [(); 2].map(|()| claim(&world, "INCREASE"));
    std::thread::scope(|scope| {
        let waits = |child| {
            let world = &world;
            scope.spawn(move || {
                let object = ComputeObj::new();
                receive(world, &object, 0, child, 0).unwrap_err().code
            })
        };
        let (first, second) = (waits(child), waits(other));
        let posted = world.post(0, Wanted { child: other, tag: 1 }).unwrap();
        world.free(child).unwrap();
        // Freed before it waits, or while it does.
        assert!(matches!(first.join().unwrap(), ErrorCode::Gone | ErrorCode::Rank));
        world.end();
        assert!(matches!(second.join().unwrap(), ErrorCode::Gone | ErrorCode::Rank));
        let error = unsafe { posted.wait(&Target::Object(&ComputeObj::new())) }.unwrap_err();
        assert_eq!(error.code, ErrorCode::Gone);
    });
    let error = world.claim("INCREASE", None, &Overrides::default()).unwrap_err();
    assert_eq!(error.code, ErrorCode::Init);
}

/// A function of a package, which has an alias and attributes.
#[test]
fn functions_of_packages_are_claimed_by_alias_and_attributes() {
    const FUNCTION: &str = r#"
        #include "flash_device.h"
        int negative(FLASH_ARGS) {
            FLASH_FOR_ITEMS {
                uint64_t i = FLASH_INDEX(0);
                FLASH_AT(float, 1, i) = -FLASH_AT(const float, 0, i);
            }
            return 0;
        }"#;
    let manifest = |version: &str| {
        format!(
            r#"{{"name": "lab", "version": "{version}", "kernels": [{{
            "name": "lab{version}.negative", "alias": "NEGATIVE", "sw_fid": "4711", "sw_clid": "sign", "dimensions": ["i"],
            "arguments": [
                {{"name": "x", "view": "item", "element": "f32"}},
                {{"name": "y", "view": "item", "access": "write", "element": "f32"}}
            ],
            "implementations": [{{"target": "cpu", "file": "negative.so", "symbol": "negative"}}]}}]}}"#
        )
    };
    let place = plugins::directory();
    let library = plugins::shared(Language::C, FUNCTION, &[], &place.path().join("negative"));
    let pack = |version: &str| {
        let package = Package::new(&manifest(version), |_| std::fs::read(&library)).unwrap();
        std::fs::write(place.path().join(format!("lab{version}.ha")), package.to_bytes()).unwrap();
    };
    let context = || {
        let settings = Context::builder().set("plugin_path", place.path().display());
        settings.build().unwrap()
    };
    let negates = |world: &Arc<World>, child: i32| {
        let (mut x, mut y) = ([1.0f32, 2.0, 3.0], [0.0f32; 3]);
        let object = ComputeObj::new();
        for array in [&mut x, &mut y] {
            unsafe { object.add_array(float(), &[3], array.as_mut_ptr().cast()).unwrap() };
        }
        world.send(&object, child, 0, 0).unwrap();
        receive(world, &object, 0, child, 0).unwrap();
        assert_eq!(y, [-1.0, -2.0, -3.0]);
    };
    pack("1");
    let world = World::new(Config::default(), context());
    let refused = |claimed: Result<i32, Error>, expected: &str| {
        let error = claimed.unwrap_err();
        assert!(error.text.contains(expected), "{expected}: {}", error.text);
    };
    negates(&world, claim(&world, "NEGATIVE"));
    for (name, value) in
        [("sw_fid", "4711"), ("sw_fid", "lab1.negative"), ("sw_clid", "s*"), ("sw_verid", "1")]
    {
        negates(&world, world.claim("NEGATIVE", None, &overrides(&[(name, value)])).unwrap());
    }
    for (name, value) in [("sw_fid", "4712"), ("sw_clid", "dense"), ("sw_verid", "2")] {
        refused(world.claim("NEGATIVE", None, &overrides(&[(name, value)])), "4711 NEGATIVE lab1.negative");
    }
    refused(world.claim("POSITIVE", None, &Overrides::default()), "expected an alias");
    world.end();

    // Of two packages with one number, the version or the name says which.
    pack("2");
    let functions = r#"{"func_alias": "BOTH", "sw_fid": "4711"}, {"func_alias": "NEW", "sw_fid": "4711", "sw_verid": "2"}"#;
    let world = with(context(), functions, "");
    refused(
        world.claim("BOTH", None, &Overrides::default()),
        "found lab1.negative, lab2.negative: say which",
    );
    refused(
        world.claim("NEGATIVE", None, &Overrides::default()),
        "found lab1.negative, lab2.negative: say which",
    );
    negates(&world, claim(&world, "NEW"));
    world.end();
}

static ASKED: Mutex<Option<Arc<World>>> = Mutex::new(None);
static ANSWERS: Mutex<Vec<Result<i32, Error>>> = Mutex::new(Vec::new());

fn claim_here() {
    let world = ASKED.lock().unwrap().clone().unwrap();
    let claimed = world.claim("INCREASE", None, &Overrides::default());
    // Nothing is sent there.
    if let Ok(child) = claimed {
        assert!(world.send(&increase(1.0, &mut [0.0]), child, 0, 0).is_err());
    }
    ANSWERS.lock().unwrap().push(claimed);
}

/// Claims from inside.
#[derive(KernelDefinition)]
#[kernel(name = "halo.claims", dims(i))]
struct Claims<'a> {
    to: Item<'a, Write<u32>>,
}

#[kernel]
impl CpuItem<Claims<'_>> for Code {
    fn item(_: Index<1>, k: ClaimsItem<'_>) {
        claim_here();
        k.to.set(1);
    }
}

#[test]
fn functions_of_the_host_claim_child_ranks_and_kernels_do_not() {
    let world = world();
    *ASKED.lock().unwrap() = Some(world.clone());
    let rt = flash_core::get_runtime("ALL_CPU").unwrap();
    let task = flash_core::runtime::HostTask::new("claims");
    let pipeline = rt.pipeline().host(task, |_| {
        claim_here();
        Ok(())
    });
    pipeline.exec().unwrap();
    let to = flash_core::FlashMemory::<u32>::zeroed(1);
    rt.submit(Claims::of(&to)).exec([1]).unwrap();
    let answers = std::mem::take(&mut *ANSWERS.lock().unwrap());
    let [Ok(child), Err(refused)] = &answers[..] else { panic!("{answers:?}") };
    assert!(refused.code == ErrorCode::Busy && refused.text.contains("inside a kernel"), "{refused}");
    let mut data = [1.0f32; 2];
    let object = increase(0.5, &mut data);
    world.send(&object, *child, 0, 3).unwrap();
    receive(&world, &object, 0, *child, 3).unwrap();
    assert_eq!(data, [1.5; 2]);
    world.end();
}
