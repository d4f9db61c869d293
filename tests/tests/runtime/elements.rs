//! Plain structs as elements, and which elements of an array a launch touches.

use flash::kernel;
use flash::kernel::prelude::Staged;
use flash::kernel::views::{Item, Read, Write};
use flash::kernel::{CpuItem, Element, Index};
use flash::prelude::*;
use flash_core::descriptor::ElementType;

struct ByItem;

/// A plain struct, as scalar and as element.
#[derive(Clone, Copy, Debug, PartialEq, Element, Staged)]
#[repr(C)]
struct Particle {
    place: [f64; 2],
    mass: f32,
    id: u32,
}

#[derive(KernelDefinition)]
#[kernel(name = "views.particles", dims(i))]
struct Move<'a> {
    by: Particle,
    times: u8,
    from: Item<'a, Read<Particle>>,
    to: Item<'a, Write<Particle>>,
}

#[kernel(devices)]
impl CpuItem<Move<'_>> for ByItem {
    fn item(i: Index<1>, k: MoveItem<'_>) {
        let t = f64::from(k.times);
        k.to.set(Particle {
            place: [k.from.place[0] + t * k.by.place[0], k.from.place[1] + t * k.by.place[1]],
            mass: k.from.mass * k.by.mass,
            id: k.from.id + k.by.id + i[0] as u32,
        });
    }
}

#[flash_tests::test]
fn plain_structs_are_scalars_and_elements() {
    let rt = flash_tests::runtime();
    let by = Particle { place: [1.0, -1.0], mass: 2.0, id: 100 };
    let from: Vec<Particle> =
        (0..1000).map(|i| Particle { place: [f64::from(i), 0.5], mass: i as f32, id: i }).collect();
    let to = FlashMemory::zeroed(1000);
    rt.submit(Move::of(by, 3, &from, &to)).exec([1000]).unwrap();
    for (i, (from, to)) in from.iter().zip(&*to.read().unwrap()).enumerate() {
        let place = [from.place[0] + 3.0, from.place[1] - 3.0];
        assert_eq!(*to, Particle { place, mass: from.mass * 2.0, id: 100 + 2 * i as u32 });
    }
}

#[derive(KernelDefinition)]
#[kernel(name = "views.part", dims(i))]
struct Fill<'a> {
    value: u32,
    to: Item<'a, Write<u32>>,
}

#[kernel(devices)]
impl CpuItem<Fill<'_>> for ByItem {
    fn item(i: Index<1>, k: FillItem<'_>) {
        k.to.set(k.value + i[0] as u32);
    }
}

#[flash_tests::test]
fn elements_outside_the_launch_keep_their_value() {
    let rt = flash_tests::runtime();
    let to = FlashMemory::from(vec![7u32; 10]);
    rt.submit(Fill::of(100, &to)).exec((3..6,)).unwrap();
    assert_eq!(*to.read().unwrap(), [7, 7, 7, 103, 104, 105, 7, 7, 7, 7]);
    rt.submit(Fill::of(200, to.range(1..=2).unwrap())).exec([2]).unwrap();
    assert_eq!(*to.read().unwrap(), [7, 200, 201, 103, 104, 105, 7, 7, 7, 7]);
    rt.submit(Fill::of(300, &to)).exec((count_by([9, 0]),)).unwrap();
    assert_eq!(*to.read().unwrap(), [300, 200, 201, 103, 104, 105, 7, 7, 7, 309]);
}

#[flash_tests::test]
fn a_function_of_the_position_is_a_dimension() {
    let rt = flash_tests::runtime();
    let to = FlashMemory::<u32>::zeroed(17);
    rt.submit(Fill::of(1, &to)).exec((count_by_fn(5, |i| i * i),)).unwrap();
    let expected: Vec<u32> = (0..17).map(|i| if [0, 1, 4, 9, 16].contains(&i) { 1 + i } else { 0 }).collect();
    assert_eq!(*to.read().unwrap(), expected);
}

/// Without an implementation for elements of 4 bytes; with one for those of 12, whose type is called the
/// same.
fn of_one_name() -> impl FnOnce(&RuntimeObj) -> Result<(), flash::Error> {
    {
        #[derive(Clone, Copy, Element)]
        #[repr(C)]
        struct P([u8; 12]);

        #[derive(KernelDefinition)]
        #[kernel(name = "elements.one_name", dims(i))]
        struct Touch<'a> {
            to: Item<'a, Write<P>>,
        }

        #[kernel]
        impl CpuItem<Touch<'_>> for ByItem {
            fn item(_: Index<1>, k: TouchItem<'_>) {
                k.to.set(P([1; 12]));
            }
        }
    }
    #[derive(Clone, Copy, Element)]
    #[repr(C)]
    struct P([u8; 4]);

    #[derive(KernelDefinition)]
    #[kernel(name = "elements.one_name", dims(i))]
    struct Touch<'a> {
        to: Item<'a, Write<P>>,
    }
    |rt| rt.submit(Touch::of(FlashMemory::zeroed(3))).exec([3])
}

#[flash_tests::test]
fn an_implementation_for_other_elements_of_the_same_name_is_not_one() {
    let error = of_one_name()(&flash_tests::runtime_of_functions()).unwrap_err();
    assert!(matches!(error, flash::Error::NoImplementation(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("runtime::P (4 bytes, aligned to 1")
            && text.contains("runtime::P (12 bytes, aligned to 1"),
        "{text}"
    );
}

/// The elements of another program, which has their fields in another order.
mod elsewhere {
    use super::*;

    #[derive(Clone, Copy, Element, Staged)]
    #[element(name = "elements.Charge")]
    #[repr(C)]
    pub struct Charge {
        pub value: f32,
        pub place: f32,
    }

    #[derive(KernelDefinition)]
    #[kernel(name = "elements.layout", dims(i))]
    pub struct Touch<'a> {
        to: Item<'a, Write<Charge>>,
    }

    #[kernel(devices)]
    impl CpuItem<Touch<'_>> for ByItem {
        fn item(_: Index<1>, k: TouchItem<'_>) {
            k.to.set(Charge { value: 1.0, place: 2.0 });
        }
    }
}

#[test]
fn types_of_one_name_and_size_are_told_apart_by_their_fields() {
    #[derive(Clone, Copy, Element)]
    #[element(name = "elements.Charge")]
    #[repr(C)]
    struct Charge {
        place: f32,
        value: f32,
    }

    #[derive(KernelDefinition)]
    #[kernel(name = "elements.layout", dims(i))]
    struct Touch<'a> {
        to: Item<'a, Write<Charge>>,
    }

    let rt = get_runtime("ALL_CPU").unwrap();
    rt.submit(elsewhere::Touch::of(FlashMemory::zeroed(3))).exec([3]).unwrap();
    let text = rt.submit(Touch::of(FlashMemory::zeroed(3))).exec([3]).unwrap_err().to_string();
    let layouts =
        [ElementType::of::<Charge>(), ElementType::of::<elsewhere::Charge>()].map(|e| e.to_string());
    assert!(layouts[0].starts_with("elements.Charge (8 bytes, aligned to 4, layout "), "{layouts:?}");
    assert!(layouts.iter().all(|layout| text.contains(layout)), "{layouts:?} in {text}");
}
