//! The erased, serialised forms.

use flash::kernels::nbody::{Accelerate, Simulate};
use flash_core::descriptor::{
    Access, Attribute, Attributes, Devices, GroupBy, Implementation, KernelDescriptor, Searchable, SortBy,
    View,
};
use flash_core::index::Dim;
use serde_json::json;

#[test]
fn attributes_round_trip_known_and_unknown() {
    let mut attributes = Attributes::default();
    assert!(attributes.is_empty());
    attributes.set(SortBy(vec!["z".into()]));
    attributes.set(GroupBy::Into("step".into(), vec![3, 5]));
    attributes.set(Implementation::named("avx512"));
    attributes.set(Devices::key("ALL_CPU:0"));
    attributes.set(Searchable::No);
    attributes.set_by_name("abacus.beads", json!({"rows": [1, 2], "wood": "oak"}), true);
    attributes.set_by_name("abacus.noise", json!(null), false);

    let text = serde_json::to_string(&attributes).unwrap();
    let back: Attributes = serde_json::from_str(&text).unwrap();
    assert_eq!(back, attributes);
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    assert_eq!(back.get::<SortBy>(), Some(&SortBy(vec!["z".into()])));
    assert_eq!(back.get::<GroupBy>(), Some(&GroupBy::Into("step".into(), vec![3, 5])));
    assert_eq!(back.get::<Implementation>(), Some(&Implementation::Named("avx512".into())));
    assert_eq!(back.get::<Searchable>(), Some(&Searchable::No));
    let unknown: Vec<_> = back.iter().filter(|(key, ..)| key.starts_with("abacus")).collect();
    assert_eq!(unknown[0], ("abacus.beads", &json!({"rows": [1, 2], "wood": "oak"}), true));
    assert!(!unknown[1].2);
    assert_eq!(
        text,
        concat!(
            r#"[{"key":"SortBy","value":["z"]},{"key":"GroupBy","value":{"into":["step",[3,5]]}},"#,
            r#"{"key":"Implementation","value":{"named":"avx512"}},{"key":"Devices","value":"ALL_CPU:0"},"#,
            r#"{"key":"Searchable","value":"no"},"#,
            r#"{"key":"abacus.beads","value":{"rows":[1,2],"wood":"oak"},"required":true},"#,
            r#"{"key":"abacus.noise","value":null}]"#
        )
    );
}

#[test]
fn a_later_attribute_of_a_kind_replaces_the_earlier() {
    let mut attributes = Attributes::default();
    attributes.set(Devices::key("A"));
    attributes.set_by_name("Devices", json!("B"), false);
    assert_eq!(attributes.get::<Devices>(), Some(&Devices::key("B")), "a known name gives the known type");
    attributes.set_by_name("x", json!(1), false);
    let mut over = Attributes::default();
    over.set(Devices::key("C"));
    attributes.merge(&over);
    assert_eq!(attributes.get::<Devices>(), Some(&Devices::key("C")));
    assert_eq!(attributes.iter().count(), 2);
    assert_eq!(Devices::key("C").typetag_name(), "Devices");
}

#[test]
fn a_known_attribute_with_a_value_that_does_not_fit_is_an_error_with_its_name() {
    let error = serde_json::from_str::<Attributes>(r#"[{"key":"SortBy","value":7}]"#).unwrap_err();
    assert!(error.to_string().contains("`SortBy`"), "{error}");
}

#[test]
fn the_descriptor_of_nbody_accelerate_is_this_text() {
    let descriptor = flash_core::kernel::descriptor_of::<Accelerate<'_, f32>>();
    let text = descriptor.to_json();
    let argument = |name: &str, view: &str, access: &str, element: &str, size: usize, more: &str| {
        format!(
            r#"{{"name":"{name}","view":"{view}","access":"{access}","element":{{"name":"{element}","size":{size},"align":4}}{more}}}"#
        )
    };
    let arguments = [
        argument("g", "scalar", "read", "f32", 4, ""),
        argument("softening2", "scalar", "read", "f32", 4, ""),
        argument("pos", "whole", "read", "[f32; 3]", 12, ""),
        argument("mass", "whole", "read", "f32", 4, ""),
        argument("acc", "item", "write", "[f32; 3]", 12, r#","along":[0]"#),
    ];
    let expected = format!(
        r#"{{"name":"flash.nbody.accelerate","dimensions":["body"],"arguments":[{}],"attributes":[{{"key":"PartBy","value":{{"dimension":"body"}}}}]}}"#,
        arguments.join(",")
    );
    assert_eq!(text, expected);
    assert_eq!(KernelDescriptor::from_json(&text).unwrap(), descriptor);
    assert_eq!(
        descriptor.signature(),
        "[1](f32, f32, Whole<Read<[f32; 3]>>, Whole<Read<f32>>, Item<Write<[f32; 3]>> along [0])"
    );
}

#[test]
fn a_descriptor_with_traits_and_stages_round_trips() {
    let descriptor = flash_core::kernel::descriptor_of::<Simulate<'_, f64>>();
    let back = KernelDescriptor::from_json(&descriptor.to_json()).unwrap();
    assert_eq!(back, descriptor);
    assert_eq!(back.attributes.get::<GroupBy>(), Some(&GroupBy::Dims(vec!["stage".into()])));
    let pos = &back.arguments[4];
    assert_eq!((&*pos.name, pos.view, pos.access), ("pos", View::Phased, Access::ReadWrite));
    assert_eq!(pos.stages.as_ref().map(|(dim, uses)| (*dim, uses.len())), Some((1, 2)));
}

#[test]
fn dimensions_round_trip() {
    let dims: Vec<Dim> = vec![
        5.into(),
        (3..9).into(),
        (0..10usize).step_by(3).into(),
        flash::count_by([4, 2, 2]),
        (-1).into(),
    ];
    let back: Vec<Dim> = serde_json::from_str(&serde_json::to_string(&dims).unwrap()).unwrap();
    assert_eq!(back, dims);
}
