//! Kernels for programs that have only their names.

use flash::Error;
use flash::kernel;
use flash::kernel::prelude::Staged;
use flash::kernel::views::{Item, Read, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_core::runtime::Scalar;

/// Where to, and how heavy.
#[derive(Clone, Copy, flash::kernel::Element, Staged)]
#[repr(C)]
struct Shift {
    by: [i32; 2],
}

#[derive(KernelDefinition)]
#[kernel(name = "by_name.shift", dims(i), sort_by(i))]
struct ShiftAll<'a> {
    shift: Shift,
    scale: i64,
    from: Item<'a, Read<[i32; 2]>>,
    to: Item<'a, Write<[i32; 2]>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<ShiftAll<'_>> for Plain {
    fn item(_: Index<1>, k: ShiftAllItem<'_>) {
        let scale = k.scale as i32;
        k.to.set([k.from[0] * scale + k.shift.by[0], k.from[1] * scale + k.shift.by[1]]);
    }
}

#[flash_tests::test]
fn a_kernel_by_name_gives_what_its_type_gives() {
    use flash::kernels::nbody::Accelerate;
    let rt = flash_tests::runtime();
    let n = 100;
    let pos: FlashMemory<[f32; 3]> =
        (0..n).map(|i| [i as f32, (i * i % 17) as f32, 0.5 * i as f32]).collect();
    let mass = vec![2.0f32; n];
    let [typed, named] = std::array::from_fn(|_| FlashMemory::<[f32; 3]>::zeroed(n));
    rt.submit(Accelerate::of(1.5, 0.01, &pos, &mass, &typed)).exec([n]).unwrap();
    let kernel = rt.kernel("flash.nbody.accelerate").unwrap();
    let names: Vec<_> = kernel.descriptors().iter().map(|d| &*d.arguments[0].element.name).collect();
    assert!(names.contains(&"f32") && names.contains(&"f64"), "{names:?}");
    rt.submit(kernel.args((1.5f32, 0.01f32, &pos, &mass[..], &named)).unwrap()).exec([n]).unwrap();
    assert!(*typed.read().unwrap() == *named.read().unwrap());

    let (pos, mass) = (FlashMemory::from([[0.0f64; 3], [1.0, 0.0, 0.0]]), FlashMemory::from([1.0f64, 1.0]));
    let mut acc = [[9.0f64; 3]; 2];
    rt.submit(kernel.args((1.0f64, 0.0f64, &pos, &mass, &mut acc[..])).unwrap()).exec([2]).unwrap();
    assert!((acc[0][0] - 1.0).abs() < 1e-9 && (acc[1][0] + 1.0).abs() < 1e-9, "{acc:?}");
}

#[flash_tests::test]
fn structs_owned_memories_and_ranges_are_arguments_too_in_pipelines() {
    let rt = flash_tests::runtime();
    let kernel = rt.kernel("by_name.shift").unwrap();
    let from: FlashMemory<[i32; 2]> = (0..6).map(|i| [i, -i]).collect();
    let to = FlashMemory::<[i32; 2]>::zeroed(10);
    let shift = Scalar(Shift { by: [100, 200] });
    rt.submit(kernel.args((shift, 2i64, from.clone(), to.range(2..8).unwrap())).unwrap())
        .defer([6])
        .submit(ShiftAll::of(Shift { by: [0, 1] }, 1, to.range(2..4).unwrap(), to.range(8..).unwrap()))
        .exec([2])
        .unwrap();
    let to = to.read().unwrap();
    assert_eq!(
        to[..],
        [
            [0, 0],
            [0, 0],
            [100, 200],
            [102, 198],
            [104, 196],
            [106, 194],
            [108, 192],
            [110, 190],
            [100, 201],
            [102, 199]
        ]
    );
}

#[flash_tests::test]
fn wrong_types_are_an_error_that_shows_both() {
    let rt = flash_tests::runtime();
    let kernel = rt.kernel("by_name.shift").unwrap();
    let (from, to) = (FlashMemory::<[i32; 2]>::zeroed(4), FlashMemory::<[i32; 2]>::zeroed(4));
    let shift = || Scalar(Shift { by: [0, 0] });
    let texts = [
        kernel.args((shift(), 2u32, &from, &to)).map(drop),
        kernel.args((shift(), 2i64, &from)).map(drop),
        kernel.args((2i64, shift(), &from, &to)).map(drop),
        kernel.args((shift(), &from, &from, &to)).map(drop),
        kernel.args((shift(), 2i64, &from, &FlashMemory::<[u32; 2]>::zeroed(4))).map(drop),
    ]
    .map(|outcome| {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Argument { .. }), "{error:?}");
        error.to_string()
    });
    for text in &texts {
        assert!(text.contains("by_name.shift") && text.contains("Item<Write<[i32; 2]>>"), "{text}");
    }
    assert!(texts[0].contains("u32") && texts[0].contains("i64"), "{}", texts[0]);
    assert!(texts[1].contains("expected 4 arguments, found 3"), "{}", texts[1]);
    assert!(
        texts[4].contains("argument `to`: expected an array of [i32; 2], found array of [u32; 2]"),
        "{}",
        texts[4]
    );
}

#[flash_tests::test]
fn a_read_only_slice_is_refused_where_the_kernel_writes() {
    let rt = flash_tests::runtime();
    let kernel = rt.kernel("by_name.shift").unwrap();
    let data = [[1i32, 2]; 4];
    let shift = Scalar(Shift { by: [0, 0] });
    let text = kernel.args((shift, 2i64, &data[..], &data[..])).map(drop).unwrap_err().to_string();
    assert!(text.contains("read-only"), "{text}");
}

#[flash_tests::test]
fn an_unknown_name_is_an_error_that_lists_those_there_are() {
    let error = flash_tests::runtime().kernel("by_name.shaft").unwrap_err();
    assert!(matches!(&error, Error::NoKernel { name, .. } if name == "by_name.shaft"));
    for part in ["`by_name.shaft`", "by_name.shift", "flash.nbody.accelerate", "flash.nbody.simulate"] {
        assert!(error.to_string().contains(part), "{part} in {error}");
    }
}

#[flash_tests::test]
fn what_is_wrong_with_a_launch_by_name_is_found_like_with_one_by_type() {
    let rt = flash_tests::runtime();
    let kernel = rt.kernel("by_name.shift").unwrap();
    let memory = FlashMemory::<[i32; 2]>::zeroed(4);
    let submit = || rt.submit(kernel.args((Scalar(Shift { by: [0, 0] }), 2i64, &memory, &memory)).unwrap());
    let text = submit().exec([4]).unwrap_err().to_string();
    assert!(text.contains("`to`") && text.contains("`from`") && text.contains("overlap"), "{text}");
    let text = submit().exec([4, 4]).unwrap_err().to_string();
    assert!(text.contains("by_name.shift") && text.contains("1 dimension"), "{text}");
}

#[flash_tests::test]
fn a_reduction_by_an_operation_of_its_own_has_the_bits_of_its_type() {
    use flash_core::memory::{AnyMemory, AnyType};
    use flash_core::runtime::AnyArgument;
    let rt = flash_tests::runtime();
    let n = 20_000;
    let numbers =
        |seed: usize| (0..n).map(|i| ((i * 37 + seed * 11) % 61) as f64 / 7.0).collect::<Vec<f64>>();
    let (x, y) = (FlashMemory::from(numbers(1)), FlashMemory::from(numbers(2)));
    let [typed, named] = [(); 2].map(|()| FlashMemory::<f64>::zeroed(1));
    rt.submit(flash::kernels::vdp(&x, &y, &typed).unwrap()).exec([n]).unwrap();
    let expected = typed.get(0).unwrap();

    let kernel = rt.kernel("flash.vdp").unwrap();
    rt.submit(kernel.args((&x, &y, &named)).unwrap()).exec([n]).unwrap();
    assert_eq!(named.get(0).unwrap().to_bits(), expected.to_bits());

    let double = AnyType::new(&flash_core::descriptor::ElementType::of::<f64>()).unwrap();
    let any = |seed| AnyMemory::copied(double, &[n as u64], bytemuck::cast_slice(&numbers(seed))).unwrap();
    let (x, y, sum) = (any(1), any(2), AnyMemory::zeroed(double, &[1]).unwrap());
    let bound = rt.bind("flash.vdp").unwrap();
    let arguments = [&x, &y, &sum].map(AnyArgument::Memory);
    for _ in 0..2 {
        bound.launch(&arguments[..], [n]).unwrap();
        assert_eq!(sum.read(0..1).unwrap()[..], expected.to_ne_bytes());
    }
}
