//! What an agent refuses of a launch, which another process may have written byte by byte: all that leads to
//! elements outside an array. A launch as it travels is JSON here, so that a test can change any of it.

use super::signature::Signature;
use crate::wire::{Bounds, LaunchImage, owned};
use flash_backend::abi::{self, Attr, Buffer, Implementation, Str};
use serde_json::{Value, json};

/// One device with two buffers of 48 bytes, which no test touches.
struct Memory;

impl Bounds for Memory {
    fn shared(&self) -> (usize, u64) {
        (0, 0)
    }

    fn buffer(&self, number: u64) -> Option<(Buffer, u64, bool)> {
        (1..=2).contains(&number).then_some((
            Buffer { space: 7, reserved: 0, handle: number << 20 },
            48,
            true,
        ))
    }
}

/// A dimension of a launch.
fn dimension(count: u64) -> Value {
    json!({"start": 0, "step": 1, "count": count, "values": null})
}

/// A loop over all of a dimension.
fn full(dimension: u32, count: u64) -> Value {
    json!({
        "dim": dimension, "kind": 0, "barrier": 0, "group_loop": 0, "count": count,
        "barriers": null, "order": null, "starts": null
    })
}

/// An array of 4 x 3 numbers of 4 bytes, in buffer 1.
fn array(kind: u32, access: u32) -> Value {
    json!({
        "kind": kind, "access": access, "element_size": 4, "flags": 0, "len": 12, "row_len": 1,
        "place": {"Buffer": 1}, "next": "Nowhere", "strides": [1, 4], "part": null, "scalar": []
    })
}

/// A launch of 4 x 3 items with an array.
fn launch(argument: Value) -> Value {
    json!({
        "flags": 0, "phases": [0, 1], "attributes": [], "args": [argument],
        "space": {
            "items": 12, "phases": 1, "phase_items": 12,
            "dims": [dimension(4), dimension(3)], "loops": [full(1, 3), full(0, 4)]
        }
    })
}

fn with(mut launch: Value, changes: &[(&str, Value)]) -> Value {
    for (place, value) in changes {
        *launch.pointer_mut(place).expect("a part of a launch") = value.clone();
    }
    launch
}

/// What an agent says to a launch of a kernel with these dimensions, and an argument of this view and access.
fn said(launch: &Value, view: &str, access: &str, whole: &[(&str, &str)]) -> Result<(), String> {
    let along: &[usize] = if matches!(view, "item" | "phased" | "tiles" | "bytes") { &[0, 1] } else { &[] };
    let (name, size) = if view == "bytes" { ("u8", 1) } else { ("f32", 4) };
    let (view, tile): (_, &[u64]) = match view {
        "tiles" => ("item", &[3, 2]),
        "bytes" => ("item", &[]),
        view => (view, &[]),
    };
    let descriptor = json!({
        "name": "tests.kernel", "dimensions": ["x", "y"],
        "arguments": [{
            "name": "all", "view": view, "access": access, "along": along, "tile": tile,
            "element": {"name": name, "size": size, "align": size}
        }]
    });
    let attribute = |(key, value): &(&str, &str)| Attr {
        key: Str::new(key.to_string().leak()),
        value: Str::new(value.to_string().leak()),
        required: 0,
        reserved: 0,
    };
    let attributes: &'static [Attr] = whole.iter().map(attribute).collect::<Vec<_>>().leak();
    let none = Str::new("");
    let implementation: &'static Implementation = Box::leak(Box::new(Implementation {
        struct_size: size_of::<Implementation>() as u32,
        door: if whole.is_empty() { abi::DOOR_ITEM } else { abi::DOOR_WHOLE },
        kind: abi::KIND_INT_SRC,
        priority: 0,
        kernel: none,
        name: none,
        target: none,
        descriptor: Str::new(descriptor.to_string().leak()),
        cpu_features: none,
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len(),
        share: None,
        span: None,
        payload: std::ptr::null(),
        payload_len: 0,
        definition: none,
    }));
    let text = launch.to_string();
    let image: LaunchImage<'_> = serde_json::from_str(&text).expect("a launch as it travels");
    let signature = Signature::of(implementation).map_err(|failure| failure.text)?;
    owned(&image, &Memory).and_then(|owned| signature.check(&owned)).map_err(|failure| failure.text)
}

#[track_caller]
fn assert_refused(launch: &Value, view: &str, access: &str, expected: &str) {
    let found = said(launch, view, access, &[]).expect_err("it is refused");
    assert!(found.contains(expected), "expected {expected}, found {found}");
}

fn item() -> Value {
    launch(array(abi::ARG_ITEM, abi::ACCESS_WRITE))
}

fn part(begin: [u64; 3], end: [u64; 3], stride: [u64; 2]) -> Value {
    json!({"begin": begin, "end": end, "stride": stride, "origins": [0, 0]})
}

#[test]
fn a_sound_launch_is_taken() {
    assert_eq!(said(&item(), "item", "write", &[]), Ok(()));
    let all = ("/args/0/part", part([0; 3], [4, 3, 1], [4, 12]));
    assert_eq!(said(&with(item(), &[all]), "item", "write", &[]), Ok(()));
}

#[test]
fn items_lie_in_their_part_also_if_that_is_empty() {
    let less = ("/args/0/part", part([0; 3], [4, 2, 1], [4, 12]));
    assert_refused(&with(item(), &[less]), "item", "write", "items at elements");
    let empty = ("/args/0/part", part([0; 3], [4, 0, 1], [4, 12]));
    let far = ("/space/dims/1/start", json!(1_000_000));
    assert_refused(&with(item(), &[empty, far]), "item", "write", "items at elements");
}

#[test]
fn a_dimension_of_no_positions_has_no_items() {
    let changes = [
        ("/space/items", json!(4)),
        ("/space/phase_items", json!(4)),
        ("/space/loops", json!([full(0, 4)])),
        ("/space/dims/1/count", json!(0)),
        // What items would have there.
        ("/space/dims/1/start", json!(1_000_000)),
    ];
    assert_refused(&with(item(), &changes), "item", "write", "an index space");
}

#[test]
fn members_are_those_of_their_group() {
    let of_groups = |kind: u32, count: u64, starts: [u64; 3]| {
        json!({
            "dim": 1, "kind": kind, "barrier": 0, "group_loop": 0, "count": count,
            "barriers": null, "order": [0, 1, 2], "starts": starts
        })
    };
    let sorted = |groups: [u64; 3], members: [u64; 3]| {
        let loops = json!([of_groups(3, 2, groups), of_groups(4, 3, members), full(0, 4)]);
        with(item(), &[("/space/loops", loops)])
    };
    assert_eq!(said(&sorted([0, 1, 3], [0, 1, 3]), "item", "write", &[]), Ok(()));
    assert_refused(&sorted([0, 1, 3], [0, 2, 3]), "item", "write", "other members");
    assert_refused(&sorted([0, 3, 3], [0, 3, 3]), "item", "write", "do not fit");
}

#[test]
fn a_part_is_no_more_than_its_elements() {
    // As many elements as the array has, all of them the first few.
    let folded = ("/args/0/part", part([0; 3], [4, 3, 1], [0, 0]));
    let window = with(launch(array(abi::ARG_WINDOW, abi::ACCESS_READ)), &[folded]);
    assert_refused(&window, "window", "read", "rows over each other");
}

#[test]
fn a_whole_array_is_there_whatever_its_part() {
    let changes = [("/args/0/len", json!(1000)), ("/args/0/part", part([0; 3], [1; 3], [1, 1]))];
    let whole = with(launch(array(abi::ARG_WHOLE, abi::ACCESS_READ)), &changes);
    assert_refused(&whole, "whole", "read", "bytes 0 to 4000 of 48");
}

#[test]
fn the_stride_along_axis_0_is_that_of_the_code() {
    // Elements 0 to 8 by the strides, but 0 to 11 by the code.
    for view in ["item", "phased"] {
        let (kind, access) = match view {
            "item" => (abi::ARG_ITEM, "write"),
            _ => (abi::ARG_PHASED, "read_write"),
        };
        let code = if access == "write" { abi::ACCESS_WRITE } else { abi::ACCESS_READ_WRITE };
        let changes = [("/args/0/strides", json!([0, 4])), ("/args/0/next", json!({"Buffer": 2}))];
        assert_refused(
            &with(launch(array(kind, code)), &changes),
            view,
            access,
            "a stride of 0 along axis 0",
        );
    }
}

#[test]
fn code_that_asks_for_strides_takes_any_with_which_written_items_are_apart() {
    let said = |strides: [u64; 2], access: &str| {
        let code = if access == "write" { abi::ACCESS_WRITE } else { abi::ACCESS_READ };
        let changes = [("/args/0/strides", json!(strides)), ("/args/0/len", json!(40))];
        let launch = with(launch(array(abi::ARG_ITEM, code)), &changes);
        let place = ("/args/0/element_size", json!(1));
        said(&with(launch, &[place]), "bytes", access, &[("strides", "true")])
    };
    // Every second element, a transpose, rows with gaps, and the same with the axes the other way round.
    for strides in [[2, 8], [3, 1], [1, 7], [5, 1], [4, 13]] {
        assert_eq!(said(strides, "write"), Ok(()), "{strides:?}");
    }
    for strides in [[0, 4], [1, 0], [1, 1], [1, 3], [2, 1], [2, 3], [2, 6]] {
        let refused = said(strides, "write").expect_err("two items have one element");
        assert!(refused.contains("expected at least"), "{refused}");
        assert_eq!(said(strides, "read"), Ok(()), "{strides:?}");
    }
    assert!(said([4, 30], "write").expect_err("beyond the array").contains("items at elements"));
}

/// Two times two tiles of 3 x 2 elements, in an array of 4 x 3.
fn tiles() -> Value {
    let changes = [
        ("/args/0/strides", json!([3, 8])),
        ("/args/0/part", part([0; 3], [4, 3, 1], [4, 12])),
        ("/space/items", json!(4)),
        ("/space/phase_items", json!(4)),
        ("/space/dims", json!([dimension(2), dimension(2)])),
        ("/space/loops", json!([full(1, 2), full(0, 2)])),
    ];
    with(item(), &changes)
}

#[test]
fn tiles_end_with_their_part() {
    assert_eq!(said(&tiles(), "tiles", "write", &[]), Ok(()));
    let lower = part([0, 2, 0], [4, 3, 1], [4, 12]);
    let changes = [("/space/dims/1/start", json!(1)), ("/args/0/part", lower.clone())];
    assert_refused(&with(tiles(), &changes), "tiles", "write", "items at elements");
    assert_refused(&with(tiles(), &[("/args/0/part", lower)]), "tiles", "write", "items at elements");
    // The first elements lie between those of the part, but the end of its rows is before the second tile.
    let above = [
        ("/args/0/part", part([0; 3], [2, 3, 1], [4, 12])),
        ("/space/items", json!(2)),
        ("/space/phase_items", json!(2)),
        ("/space/dims", json!([dimension(2), dimension(1)])),
        ("/space/loops", json!([full(1, 1), full(0, 2)])),
    ];
    assert_refused(&with(tiles(), &above), "tiles", "write", "along axis 0");
    let folded = part([0; 3], [4, 3, 1], [3, 12]);
    assert_refused(&with(tiles(), &[("/args/0/part", folded)]), "tiles", "write", "over each other");
    let flat = part([0; 3], [12, 1, 1], [12, 12]);
    assert_refused(&with(tiles(), &[("/args/0/part", flat)]), "tiles", "write", "a stride of 8 along axis 1");
    assert_refused(&with(tiles(), &[("/args/0/part", json!(null))]), "tiles", "write", "no part");
    assert_refused(&with(tiles(), &[("/args/0/strides", json!([2, 8]))]), "tiles", "write", "a stride of 2");
    assert_refused(&with(tiles(), &[("/args/0/strides", json!([3, 4]))]), "tiles", "write", "a stride of 4");
    let one_in_rows = [
        ("/args/0/row_len", json!(3)),
        ("/space/items", json!(1)),
        ("/space/phase_items", json!(1)),
        ("/space/dims", json!([dimension(1), dimension(1)])),
        ("/space/loops", json!([full(1, 1), full(0, 1)])),
    ];
    assert_refused(&with(tiles(), &one_in_rows), "tiles", "write", "rows of 3");
}

#[test]
fn there_are_other_parts_only_of_what_takes_parts() {
    let flags = abi::ARG_FLAG_COVERED | abi::ARG_FLAG_NEXT_STAYS;
    let changes = [("/args/0/flags", json!(flags)), ("/args/0/next", json!({"Buffer": 2}))];
    let cut = with(launch(array(abi::ARG_PHASED, abi::ACCESS_READ_WRITE)), &changes);
    let said = |whole: &[(&str, &str)]| said(&cut, "phased", "read_write", whole);
    assert_eq!((said(&[]), said(&[("parts", "true")])), (Ok(()), Ok(())));
    let refused = said(&[("parts", "false")]).expect_err("it gets all of a launch");
    assert!(refused.contains("of which there are other parts"), "{refused}");
}
