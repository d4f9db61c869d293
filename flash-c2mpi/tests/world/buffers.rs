//! Internal buffers: state that stays where devices have it.

use super::*;
use flash_c2mpi::Code as ErrorCode;

/// An object of INCREASE whose array is a buffer.
fn of_buffer(world: &World, by: f32, buffer: i32) -> ComputeObj {
    let object = ComputeObj::new();
    object.add_scalar(float(), &by.to_ne_bytes()).unwrap();
    world.add_buffer(&object, buffer).unwrap();
    object
}

fn contents(world: &World, buffer: i32, count: usize) -> Vec<f32> {
    let mut data = vec![0.0f32; count];
    unsafe { world.read_buffer(buffer, data.as_mut_ptr().cast(), count, float()).unwrap() };
    data
}

#[test]
fn a_buffer_keeps_what_kernels_write_from_message_to_message() {
    let world =
        with(Context::default(), r#"{"func_alias": "APART", "sw_fid": "halo.increase", "key": "TEST"}"#, "");
    for alias in ["INCREASE", "APART"] {
        let child = claim(&world, alias);
        let buffer = world.create_buffer(child, float(), &[100]).unwrap();
        let given: Vec<f32> = (0..100).map(|i| i as f32).collect();
        unsafe { world.write_buffer(buffer, given.as_ptr().cast(), 100, float()).unwrap() };
        let object = of_buffer(&world, 2.0, buffer);
        for tag in 0..5 {
            world.send(&object, child, 0, tag).unwrap();
        }
        for tag in 0..5 {
            receive(&world, &object, 0, child, tag).unwrap();
        }
        assert_eq!(contents(&world, buffer, 100)[99], 109.0, "{alias}");
        assert!(object.argument(1).unwrap().data.is_null());
        world.free(buffer).unwrap();
        assert_eq!(world.free(buffer).unwrap_err().code, ErrorCode::Rank);
        // The object still has it.
        world.send(&object, child, 0, 0).unwrap();
        receive(&world, &object, 0, child, 0).unwrap();
        world.free(child).unwrap();
    }
    world.end();
}

#[test]
fn a_buffer_of_a_child_rank_is_not_for_others_and_one_of_the_framework_is() {
    let world = world();
    let [child, other] = [(); 2].map(|()| claim(&world, "INCREASE"));
    let [own, shared] = [child, 0].map(|of| world.create_buffer(of, float(), &[10]).unwrap());
    let error = world.send(&of_buffer(&world, 1.0, own), other, 0, 0).unwrap_err();
    assert!(
        error.code == ErrorCode::Rank && error.text.contains("expected buffers of child rank"),
        "{error}"
    );
    let object = of_buffer(&world, 1.0, shared);
    for child in [child, other] {
        world.send(&object, child, 0, 0).unwrap();
        receive(&world, &object, 0, child, 0).unwrap();
    }
    assert_eq!(contents(&world, shared, 10), [2.0; 10]);
    // It goes with its child rank; the framework's stays.
    world.free(child).unwrap();
    assert!(world.add_buffer(&ComputeObj::new(), own).is_err());
    assert_eq!(contents(&world, shared, 10), [2.0; 10]);
    world.end();
    assert!(world.add_buffer(&ComputeObj::new(), shared).is_err(), "the program's end frees it");
}

#[test]
fn a_stateful_child_rank_of_several_devices_stays_on_one() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "2")], || {
        let world = with(flash_tests::context(&[("cpu.devices", "2"), ("cpu.copy", "1")]), "", "");
        let mut overrides = Overrides::default();
        overrides.set("func_repl", "2").unwrap();
        let child = world.claim("INCREASE", None, &overrides).unwrap();
        let buffer = world.create_buffer(child, float(), &[64]).unwrap();
        let object = of_buffer(&world, 1.0, buffer);
        for _ in 0..6 {
            world.send(&object, child, 0, 0).unwrap();
            receive(&world, &object, 0, child, 0).unwrap();
        }
        assert_eq!(contents(&world, buffer, 64), [6.0; 64]);
        world.end();
    });
}

#[test]
fn shapes_types_and_counts_of_buffers_are_checked() {
    let world = world();
    let buffer = world.create_buffer(0, float(), &[12]).unwrap();
    world.shape_buffer(buffer, &[4, 3]).unwrap();
    assert_eq!(world.shape_buffer(buffer, &[4, 4]).unwrap_err().code, ErrorCode::Count);
    let object = ComputeObj::new();
    world.add_buffer(&object, buffer).unwrap();
    assert_eq!(object.argument(0).unwrap().shape, [4, 3]);
    assert_eq!(world.shape_buffer(buffer, &[12]).unwrap_err().code, ErrorCode::Busy);
    let data = [0u64; 12];
    let write = |count, element| unsafe { world.write_buffer(buffer, data.as_ptr().cast(), count, element) };
    assert_eq!(write(12, whole()).unwrap_err().code, ErrorCode::Type);
    assert_eq!(write(11, float()).unwrap_err().code, ErrorCode::Count);
    assert_eq!(world.create_buffer(77, float(), &[1]).unwrap_err().code, ErrorCode::Rank);
    let error = world.create_buffer(0, float(), &[u64::MAX]).unwrap_err();
    assert_eq!(error.code, ErrorCode::Count);
    world.end();
}
