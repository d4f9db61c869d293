//! `sort_by`, the forms of `group_by`, and stages.

use flash_core::descriptor::Use;
use flash_core::index::Group;
use flash_core::kernel::views::{Item, Phased, Write};
use flash_core::kernel::{GroupTrait, SortTrait};

macro_rules! definition {
    ($name:ident, $($order:tt)*) => {
        #[derive(flash_core::KernelDefinition)]
        #[kernel(name = "order", dims(body, stage, step) $($order)*)]
        struct $name<'a> {
            #[along(body)]
            #[phased(stage = [read, write])]
            pos: Phased<'a, f32>,
            acc: Item<'a, Write<f32>>,
        }
    };
}

definition!(Natural,);
definition!(Sorted, , sort_by(body, step));
definition!(Grouped, , group_by(stage, step));
definition!(Only, , sort_by(step), group_by(only(stage)));
definition!(Into, , group_by(step = {3, 5}));

fn order<D: flash_core::kernel::KernelDefinition>() -> (&'static [usize], Option<Group<'static>>) {
    (D::Sort::SORT, D::Group::GROUP)
}

#[test]
fn order_and_stages_are_as_written() {
    use flash_core::kernel::KernelDefinition;
    assert_eq!(order::<Natural<'_>>(), (&[][..], None));
    assert_eq!(order::<Sorted<'_>>(), (&[0, 2][..], None));
    assert_eq!(order::<Grouped<'_>>(), (&[][..], Some(Group::Dims(&[1, 2]))));
    assert_eq!(order::<Only<'_>>(), (&[2][..], Some(Group::Only(&[1]))));
    assert_eq!(order::<Into<'_>>(), (&[][..], Some(Group::Into { dim: 2, values: &[3, 5] })));
    let pos = &Natural::arguments()[0];
    assert_eq!(pos.along, [0]);
    assert_eq!(pos.stages, Some((1, vec![Use::Read, Use::Write])));
}
