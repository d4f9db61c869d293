//! The two forms of a file, and the errors of a damaged one.

use super::*;
use crate::Error;
use flash_types::descriptor::{Access, ArgumentDescriptor, View};

const GOOD: &str = r#"{
  "format": "flash.recording", "version": 2,
  "kernels": [{"name": "blur", "dimensions": ["x", "y"], "arguments": [
    {"name": "radius", "view": "scalar", "access": "read", "element": {"name": "f32", "size": 4, "align": 4}},
    {"name": "from", "view": "whole", "access": "read", "element": {"name": "u16", "size": 2, "align": 2}},
    {"name": "to", "view": "item", "access": "write", "element": {"name": "u16", "size": 2, "align": 2}, "along": [0, 1]}]}],
  "memories": [
    {"element": {"name": "u16", "size": 2, "align": 2}, "len": 6, "shape": [3, 2], "data": "AQACAAMABAAFAAYA"},
    {"element": {"name": "u16", "size": 2, "align": 2}, "len": 8}],
  "submissions": [{"kernel": 0,
    "arguments": [{"scalar": "AAAAQA=="}, {"memory": 0}, {"part": {"memory": 1, "start": 2, "end": 8}}],
    "dims": [{"Count": 3}, {"Range": {"start": 0, "step": 1, "count": 2}}],
    "options": [{"key": "tile", "value": {"edge": 4}}], "sizes": [[], [3, 2]]}]
}"#;

fn read(text: &str) -> Result<Recording, String> {
    Recording::from_json(text).map_err(|e| {
        assert!(matches!(e, Error::Recording(_)), "{e:?}");
        e.to_string()
    })
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn json_says_what_the_structs_say() {
    let recording = read(GOOD).unwrap();
    assert_eq!(recording.memories[0].data.as_deref(), Some(&[1u8, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0][..]));
    assert!(!recording.has_data());
    let submission = &recording.submissions[0];
    assert_eq!(submission.arguments[0], Argument::Scalar(2f32.to_le_bytes().to_vec()));
    assert_eq!(submission.arguments[2], Argument::Part { memory: 1, start: 2, end: 8 });
    assert_eq!(submission.dims, [Dim::Count(3), Dim::Range { start: 0, step: 1, count: 2 }]);
    assert_eq!(recording.written_by(0), [1]);
    assert_eq!(recording.written_by(1), [0usize; 0]);
    assert_eq!(read(&recording.to_json().unwrap()).unwrap(), recording);
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn numbers_in_options_read_back_as_they_were() {
    let mut recording = read(GOOD).unwrap();
    let mut bits = 88172645463325252u64;
    let numbers: Vec<f64> = std::iter::repeat_with(|| {
        bits = (bits ^ bits << 13).rotate_left(23).wrapping_mul(0x2545F4914F6CDD1D);
        f64::from_bits(bits)
    })
    .filter(|number| number.is_finite())
    .take(300)
    .collect();
    recording.submissions[0].options.set_by_name("weights", serde_json::json!(numbers), false);
    assert_eq!(read(&recording.to_json().unwrap()).unwrap(), recording);
    assert_eq!(Recording::from_bytes(&recording.to_bytes().unwrap()).unwrap(), recording);
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn the_binary_form_is_smaller_and_the_same() {
    let recording = read(GOOD).unwrap();
    let binary = recording.to_bytes().unwrap();
    assert!(binary.starts_with(b"FLASHREC\x02\0\0\0"));
    assert_eq!(u32::from_le_bytes(binary[12..16].try_into().unwrap()), crc32fast::hash(&binary[16..]));
    assert!(binary.len() < recording.to_json().unwrap().len());
    assert_eq!(Recording::from_bytes(&binary).unwrap(), recording);
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn what_does_not_fit_is_refused_with_its_place() {
    let cases = [
        // Indices out of range.
        (r#""kernel": 0"#, r#""kernel": 1"#, "submission 0: it submits kernel 1, expected one of the 1"),
        (r#"{"memory": 0}"#, r#"{"memory": 2}"#, "submission 0 (`blur`), argument `from`: it is memory 2"),
        (
            r#""end": 8"#,
            r#""end": 9"#,
            "argument `to`: the range 2..9 does not lie in memory 1 of 8 elements",
        ),
        (r#""start": 2"#, r#""start": 9"#, "the range 9..8 does not lie"),
        (
            r#""along": [0, 1]"#,
            r#""along": [0, 2]"#,
            "kernel 0 (`blur`), argument `to`: it is along dimension 2",
        ),
        // Sizes.
        (r#""AAAAQA==""#, r#""AAAAQAA=""#, "argument `radius`: expected a scalar of 4 bytes (f32), found 5"),
        (r#""len": 6"#, r#""len": 7"#, "memory 0: the shape [3, 2] does not have 7 elements"),
        (r#""shape": [3, 2]"#, r#""shape": [4294967296, 4294967296, 6]"#, "does not have 6 elements"),
        (r#"AAYA""#, r#"AAYAAAcA""#, "memory 0: expected 12 bytes of contents (6 elements of u16"),
        (r#""len": 8"#, r#""len": 9223372036854775807"#, "memory 1: 9223372036854775807 elements of u16"),
        (r#""size": 4, "align": 4"#, r#""size": 4, "align": 3"#, "power of two up to 4096, found 3"),
        (r#""size": 4, "align": 4"#, r#""size": 4, "align": 8192"#, "power of two up to 4096, found 8192"),
        (r#""size": 4, "align": 4"#, r#""size": 6, "align": 4"#, "multiple of its alignment 4, found 6"),
        (
            r#""size": 4, "align": 4"#,
            r#""size": 0, "align": 4"#,
            "argument `radius`: type `f32`: expected a size of 1",
        ),
        // Values of the wrong kind.
        (
            r#"{"memory": 0}"#,
            r#"{"scalar": "AAAA"}"#,
            "argument `from`: expected a memory (`Whole<Read<u16>>`), found a scalar",
        ),
        (
            r#"{"scalar": "AAAAQA=="}"#,
            r#"{"memory": 0}"#,
            "argument `radius`: expected a scalar (f32), found memory 0",
        ),
        (
            r#"{"element": {"name": "u16""#,
            r#"{"element": {"name": "i16""#,
            "argument `from`: expected elements of u16 (2 bytes, aligned to 2), found memory 0 with elements of i16",
        ),
        (r#", {"memory": 0}"#, "", "submission 0: kernel `blur` has 3 arguments, found 2"),
        (r#"{"Count": 3}, "#, "", "kernel `blur` has 2 dimensions (x, y), found 1"),
        (r#""step": 1"#, r#""step": 0"#, "submission 0: dimension 1: expected a step other than 0"),
        (r#""step": 1, "count": 2"#, r#""step": 9223372036854775807, "count": 99"#, "leaves 0..2^64"),
        (r#""sizes": [[], "#, r#""sizes": [[], [], "#, "has 2 array arguments, found 3 shapes"),
        // Unknown words.
        (r#""view": "whole""#, r#""view": "hole""#, "unknown variant `hole`, expected one of `scalar`"),
        (
            "flash.recording",
            "flash.recorder",
            "expected the format `flash.recording`, found `flash.recorder`",
        ),
        (r#""sizes""#, r#""seizes""#, "unknown field `seizes`"),
        (r#""AAAAQA==""#, r#""AAAAQ!==""#, "base64"),
        (
            r#""tile", "value": {"edge": 4}"#,
            r#""SortBy", "value": 3"#,
            "attribute `SortBy` has a value that does not fit",
        ),
        (r#""memories""#, r#""memoirs""#, "line 7 column 11"),
    ];
    for (what, by, expected) in cases {
        assert!(GOOD.contains(what), "{what}");
        let text = read(&GOOD.replacen(what, by, 1)).expect_err(by);
        assert!(
            text.starts_with("recording: ") && text.contains(expected),
            "{by}: {text}\nexpected {expected}"
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn a_stage_that_is_not_there_is_refused() {
    let mut recording = read(GOOD).unwrap();
    let argument: &mut ArgumentDescriptor = &mut recording.kernels[0].arguments[2];
    (argument.view, argument.access) = (View::Phased, Access::ReadWrite);
    for (stages, expected) in [((2, vec![]), "its stages are dimension 2"), ((1, vec![]), "for no stage")] {
        recording.kernels[0].arguments[2].stages = Some(stages);
        let text = recording.check().unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
        let text = Recording::from_bytes(&recording.to_bytes().unwrap()).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn what_is_no_recording_is_told_by_its_first_bytes() {
    for (file, expected) in [
        (&b""[..], "found an empty file"),
        (b"\x7fELF\x02\x01\x01 and so on", "found `\\x7fELF\\x02\\x01\\x01 `"),
        (b"[1, 2]", "found `[1, 2]`"),
        (b"  \n ", "EOF"),
        (b"{\"format\"", "EOF while parsing"),
        (b"{\xff}", "found no text"),
        (b"FLASHREC\x01", "expected a head of 16 bytes, found 9"),
        (b"FLASHREC\x02\0\0\0\0\0\0\0\0\0\0", "expected the CRC-32 00000000, found"),
    ] {
        let text = Recording::from_bytes(file).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    let mut long = read(GOOD).unwrap().to_bytes().unwrap();
    long.push(0);
    let sum = crc32fast::hash(&long[16..]).to_le_bytes();
    long[12..16].copy_from_slice(&sum);
    let text = Recording::from_bytes(&long).unwrap_err().to_string();
    assert!(text.contains("expected the end, found 1 more bytes"), "{text}");
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn a_count_that_promises_much_allocates_little() {
    // 2^63 memories, in a file of 30 bytes: the error is the end of the file, not an allocation.
    let mut file = b"FLASHREC\x02\0\0\0\0\0\0\0\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01a".to_vec();
    let sum = crc32fast::hash(&file[16..]).to_le_bytes();
    file[12..16].copy_from_slice(&sum);
    let text = Recording::from_bytes(&file).unwrap_err().to_string();
    assert!(text.contains("damaged or cut off"), "{text}");
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn files_of_both_forms_are_saved_and_loaded() {
    let recording = read(GOOD).unwrap();
    let place = std::env::temp_dir().join(format!("flash-recording-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    for (name, first) in [("a.json", b'{'), ("a.flash", b'F')] {
        let path = place.join(name);
        recording.save(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[0], first);
        assert_eq!(Recording::load(&path).unwrap(), recording);
    }
    let missing = place.join("nothing");
    for error in [
        Recording::load(&missing).unwrap_err(),
        Recording::load(&place).unwrap_err(),
        recording.save(place.join("no/where")).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.starts_with(&*place.to_string_lossy()) && text.contains("cannot be"), "{text}");
    }
    std::fs::remove_dir_all(&place).unwrap();
}

/// The forms of a file with another version in it.
fn as_version(version: u8, recording: &Recording) -> [Vec<u8>; 2] {
    let json = recording.to_json().unwrap();
    assert!(json.starts_with(r#"{"format":"flash.recording","version":2,"#), "{json}");
    let mut bytes = recording.to_bytes().unwrap();
    bytes[8] = version;
    [json.replacen("2", &version.to_string(), 1).into_bytes(), bytes]
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn versions_that_cannot_be_read_are_refused_with_both_numbers_and_what_to_do() {
    let recording = read(GOOD).unwrap();
    for (version, expected) in [
        (0, "found 0: the file is damaged or cut off, record it again"),
        (3, "found 3, which a newer FLASH wrote: read it with that one, or record it again with this one"),
    ] {
        for file in as_version(version, &recording) {
            let text = Recording::from_bytes(&file).unwrap_err().to_string();
            assert_eq!(text, format!("recording: expected version 1 to 2 of the format, {expected}"));
        }
    }
    // Whatever follows the head of another version.
    let text = read(r#"{"format": "flash.recording", "version": 7, "graph": {}}"#).unwrap_err();
    assert!(text.contains("expected version 1 to 2 of the format, found 7"), "{text}");
}

/// A kernel that had another name in version 1: that of `blur` in [`GOOD`].
#[derive(crate::KernelDefinition)]
#[kernel(name = "recordings.blur", dims(x, y))]
struct Blur<'a> {
    radius: f64,
    from: crate::kernel::views::Whole<'a, crate::kernel::views::Read<u8>>,
    to: crate::kernel::views::Item<'a, crate::kernel::views::Write<u8>>,
}

crate::kernel::recorded_as! { "blur" => Blur<'_>; }

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn kernels_of_version_1_have_their_present_names_and_are_saved_with_them() {
    let recording = read(GOOD).unwrap();
    assert_eq!(recording.kernels[0].name, "blur", "a kernel of version 2 has the name that it has");
    let mut renamed = recording.clone();
    renamed.kernels[0].name = "recordings.blur".into();
    for file in as_version(1, &recording) {
        let found = Recording::from_bytes(&file).unwrap();
        assert_eq!(found, renamed);
        for again in as_version(2, &found) {
            assert_eq!(Recording::from_bytes(&again).unwrap(), renamed);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and large files")]
fn a_kernel_of_version_1_with_other_dimensions_or_arguments_keeps_its_name() {
    type Change = fn(&mut KernelDescriptor);
    let changes: [Change; 3] = [
        |kernel| kernel.dimensions[1] = "z".into(),
        |kernel| kernel.arguments[0].name = "sigma".into(),
        |kernel| kernel.name = "blurred".into(),
    ];
    for change in changes {
        let mut own = read(GOOD).unwrap();
        change(&mut own.kernels[0]);
        for file in as_version(1, &own) {
            assert_eq!(Recording::from_bytes(&file).unwrap(), own);
        }
    }
}
