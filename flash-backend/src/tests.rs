//! Texts and launches, as a backend sees them; and a backend of this crate, for the tests that look for one.

use crate::backend::Launch;
use crate::host::HOST;
use crate::{Backend, Device, DeviceInfo, Event, Failure, HostSettings, Unavailable, abi, register_backend};
use flash_types::abi::{Attr, Str};
use std::ptr::{null, null_mut};

/// It has no devices.
struct Nothing;

// SAFETY: it runs nothing.
unsafe impl Backend for Nothing {
    const KEY: &'static str = "TEST_NOTHING";
    const DESCRIPTION: &'static str = "a backend without devices";
    const TARGET: &'static str = "nothing";
    type Device = NoDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<NoDevice>, Unavailable> {
        Err(Unavailable("there are none".to_owned()))
    }
}

enum NoDevice {}

impl Device for NoDevice {
    type Kernel = ();

    fn info(&self) -> DeviceInfo {
        match *self {}
    }

    fn prepare(&self, _: &'static abi::Implementation) -> Result<(), Failure> {
        match *self {}
    }

    fn submit(&self, _: &Launch<'_, ()>) -> Result<Option<Event>, Failure> {
        match *self {}
    }
}

register_backend!(Nothing);

#[test]
fn texts_that_are_empty_null_or_not_utf_8() {
    for (text, lossless, lossy) in [
        (Str::new("ä"), "ä", "ä"),
        (Str { ptr: null(), len: 0 }, "", ""),
        (Str { ptr: null(), len: 9 }, "", ""),
        (Str { ptr: std::ptr::dangling(), len: 0 }, "", ""),
        (Str { ptr: b"a\xff".as_ptr(), len: 2 }, "", "a\u{fffd}"),
    ] {
        // SAFETY: the bytes live for ever, or there are none.
        assert_eq!(unsafe { (text.as_str(), text.text()) }, (lossless, lossy.into()));
    }
}

#[test]
fn attributes_and_arguments_of_a_launch() {
    let texts = [String::from("tile"), String::from("[8, 8]")];
    let attribute =
        |required| Attr { key: Str::new(&texts[0]), value: Str::new(&texts[1]), required, reserved: 0 };
    let attributes = [attribute(0), attribute(1)];
    let (order, mut nanoseconds) =
        (flash_types::index::Order::new(&[3u64.into()], &Default::default()).unwrap(), 0);
    let view = order.view();
    let mut raw = abi::Submission {
        struct_size: size_of::<abi::Submission>() as u32,
        flags: abi::SUBMIT_PROFILE,
        kernel: null_mut(),
        space: view.get().raw(),
        args: null(),
        arg_count: 0,
        wait_count: 0,
        waits: null(),
        signal: null_mut(),
        nanoseconds: &raw mut nanoseconds,
        attributes: attributes.as_ptr(),
        attribute_count: 2,
        phase_begin: 0,
        phase_end: order.phases(),
        stop: null(),
        like: 0,
    };
    let launch = Launch { raw: &raw, kernel: &() };
    let found: Vec<_> = launch.attributes().collect();
    assert_eq!(found, [("tile", "[8, 8]", false), ("tile", "[8, 8]", true)]);
    assert!(launch.args().is_empty() && launch.has_attributes() && !launch.phased());
    assert_eq!((launch.space().items(), launch.share(0, 0..0).arg_count), (3, 0));
    launch.report(12);
    raw.nanoseconds = null_mut();
    raw.attribute_count = 0;
    let launch = Launch { raw: &raw, kernel: &() };
    launch.report(13);
    assert_eq!((nanoseconds, launch.attributes().count()), (12, 0));
    let (mut begin, mut end) = (9, 9);
    for (phase, rows) in [(0, (0, 3)), (1, (0, 0))] {
        // SAFETY: a space of ours, and our variables.
        unsafe { HOST.phase_rows.unwrap()(raw.space, phase, &mut begin, &mut end) };
        assert_eq!((begin, end), rows);
    }
}

#[test]
fn a_box_of_no_bytes_has_no_rows_and_a_buffer_may_begin_before_all_addresses() {
    let copy = |from: u64, to: u64, shape: &abi::CopyBox| {
        // SAFETY: the boxes below lie in their arrays, which differ.
        unsafe { crate::host_memory::copy_addresses(from, to, shape) };
    };
    let (from, mut to) = ([1u8, 2, 3, 4], [0u8; 4]);
    let (source, destination) = ((&raw const from).expose_provenance(), (&raw mut to).expose_provenance());
    let mut shape = abi::CopyBox {
        extent: [0, 1 << 60, 1 << 60],
        source_offset: 0,
        source_stride: [2, 0],
        destination_offset: 1,
        destination_stride: [1, 0],
    };
    copy(source as u64, destination as u64, &shape);
    // Element 0 of the source would be before the first address.
    shape.extent = [1, 2, 1];
    shape.source_offset = 1 << 63;
    copy((source as u64).wrapping_sub(1 << 63), destination as u64, &shape);
    assert_eq!(to, [0, 1, 3, 0]);
}
