//! The boundary to backends and back: errors, texts, events, buffers, through the functions that a plugin
//! would call.

use super::*;
use flash_backend::__host::{HOST, take_query_failure};
use flash_backend::Failure;
use flash_types::abi::{Buffer, CopyBox, Str};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

fn serial(device: usize) -> &'static DeviceHandle {
    crate::get_runtime("TEST_SERIAL").unwrap().devices()[device]
}

/// The code and text of an error.
fn text(error: *mut abi::Error) -> (u32, String) {
    // SAFETY: an error of this host, freed once.
    unsafe {
        let found = (HOST.error_code.unwrap()(error), HOST.error_text.unwrap()(error).text());
        HOST.error_free.unwrap()(error);
        found
    }
}

#[test]
fn errors_are_made_read_and_freed_by_the_host() {
    let owned = String::from("a text of µs");
    // SAFETY: the texts live for the calls, each error is taken once.
    unsafe {
        let create = HOST.error_create.unwrap();
        let error = create(abi::ERROR_DEVICE_LOST, Str::new(&owned));
        drop(owned);
        assert_eq!(text(error), (abi::ERROR_DEVICE_LOST, "a text of µs".into()));
        assert_eq!(text(null_mut()), (0, String::new()));
        take_error(null_mut()).unwrap();
        let taken = take_error(create(abi::ERROR_INVALID, Str { ptr: null(), len: 0 }));
        assert!(matches!(taken, Err(Error::Backend { code: Code::Invalid, text }) if text.is_empty()));
        let failure = Failure::of_host(create(77, Str { ptr: b"\xffx".as_ptr(), len: 2 }));
        assert_eq!((failure.code, &*failure.text), (Code::Other, "\u{fffd}x"));
        HOST.query_failed.unwrap()(Str::new("too old"));
        assert_eq!(take_query_failure().as_deref(), Some("too old"));
        assert_eq!(take_query_failure(), None);
        assert!(HOST.get_extension.unwrap()(Str::new("none"), 1).is_null());
    }
}

unsafe extern "C" fn count(context: *mut c_void) {
    // SAFETY: every test passes an atomic that outlives the event.
    unsafe { &*context.cast::<std::sync::atomic::AtomicU32>() }
        .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
}

#[test]
fn events_are_signalled_waited_for_and_released() {
    let (device, calls) = (serial(0), std::sync::atomic::AtomicU32::new(0));
    let (api, context) = (device.api, (&raw const calls).cast_mut().cast());
    struct Sent(*mut abi::Event);
    // SAFETY: events may be used from any thread.
    unsafe impl Send for Sent {}
    // SAFETY: events of this backend, released once and not used after; `calls` outlives them.
    unsafe {
        let mut event = null_mut();
        take_error(api.event_create.unwrap()(device.raw, &mut event)).unwrap();
        take_error(api.event_on_ready.unwrap()(event, count, context)).unwrap();
        assert_eq!(api.event_ready.unwrap()(event), 0);
        let sent = Sent(event);
        let waiter = std::thread::spawn(move || {
            let sent = sent;
            take_error(serial(0).api.event_wait.unwrap()(sent.0))
        });
        let error = HOST.error_create.unwrap()(abi::ERROR_KERNEL, Str::new("went wrong"));
        take_error(api.event_signal.unwrap()(event, error)).unwrap();
        assert!(waiter.join().unwrap().unwrap_err().to_string().contains("went wrong"));
        take_error(api.event_on_ready.unwrap()(event, count, context)).unwrap();
        assert_eq!((api.event_ready.unwrap()(event), calls.into_inner()), (1, 2));
        assert_eq!(text(api.event_signal.unwrap()(event, null_mut())).0, abi::ERROR_INVALID);
        let (mut start, mut end) = (0, 0);
        assert_eq!(text(api.event_times.unwrap()(event, &mut start, &mut end)).0, abi::ERROR_UNSUPPORTED);
        api.event_release.unwrap()(event);
        api.event_release.unwrap()(null_mut());
        // An event with a callback that never ran.
        take_error(api.event_create.unwrap()(device.raw, &mut event)).unwrap();
        take_error(api.event_on_ready.unwrap()(event, count, context)).unwrap();
        api.event_release.unwrap()(event);
    }
}

#[test]
fn buffers_are_allocated_registered_copied_and_freed() {
    let device = serial(0);
    let (api, mut host) = (device.api, vec![0u8; 24]);
    let mut buffers = [Buffer { space: 9, reserved: 0, handle: 0 }; 2];
    let shape = CopyBox {
        extent: [2, 3, 2],
        source_offset: 1,
        source_stride: [4, 12],
        destination_offset: 0,
        destination_stride: [2, 6],
    };
    let whole = CopyBox {
        extent: [24, 1, 1],
        source_offset: 0,
        source_stride: [0; 2],
        destination_offset: 0,
        destination_stride: [0; 2],
    };
    // SAFETY: a device of this backend; boxes lie inside buffers of 24 bytes, which outlive them.
    unsafe {
        let copy = |from, to, shape: &CopyBox| {
            let mut event = std::ptr::dangling_mut();
            let copy = api.copy_box.unwrap();
            let done = take_error(copy(device.raw, from, to, shape, null(), 0, &mut event));
            assert!(done.is_err() || event.is_null());
            done
        };
        take_error(api.alloc.unwrap()(device.raw, 0, 24, &mut buffers[0])).unwrap();
        let pointer = host.as_mut_ptr();
        take_error(api.register_host.unwrap()(device.raw, pointer.cast(), 24, &mut buffers[1])).unwrap();
        let [device_buffer, host_buffer] = buffers;
        assert_eq!((device_buffer.handle % 64, host_buffer.handle), (0, pointer as u64));
        copy(device_buffer, host_buffer, &whole).unwrap();
        (0..24).for_each(|i| *pointer.add(i) = i as u8 + 1);
        copy(host_buffer, device_buffer, &shape).unwrap();
        copy(device_buffer, host_buffer, &whole).unwrap();
        // Overlapping boxes in one buffer.
        copy(host_buffer, host_buffer, &CopyBox { extent: [4, 1, 1], destination_offset: 2, ..whole })
            .unwrap();
        let elsewhere = Buffer { space: 3, ..host_buffer };
        copy(elsewhere, device_buffer, &whole).unwrap_err();
        buffers.iter().for_each(|b| take_error(api.free.unwrap()(device.raw, *b)).unwrap());
        assert_eq!(text(api.free.unwrap()(device.raw, device_buffer)).0, abi::ERROR_INVALID);
        assert_eq!(text(api.alloc.unwrap()(device.raw, 1, 8, &mut buffers[0])).0, abi::ERROR_INVALID);
        let refused = api.alloc.unwrap()(device.raw, 0, u64::MAX, &mut buffers[0]);
        assert_eq!(text(refused).0, abi::ERROR_OUT_OF_MEMORY);
        take_error(api.alloc.unwrap()(device.raw, 0, 0, &mut buffers[0])).unwrap();
        take_error(api.free.unwrap()(device.raw, buffers[0])).unwrap();
    }
    assert_eq!(host[..12], [2, 3, 2, 3, 6, 7, 14, 15, 18, 19, 22, 23].map(|v| v), "{host:?}");
}

#[test]
fn properties_spaces_and_panics() {
    let device = serial(1);
    let (api, mut answer, mut rate) = (device.api, null_mut(), 0.0);
    let (mut spaces, mut count) = (null(), 0);
    let mut small: abi::DeviceInfo = bytes_of_info();
    // SAFETY: devices of this backend, and our variables.
    unsafe {
        let query = |key, answer: &mut _| api.query.unwrap()(device.raw.cast(), Str::new(key), answer);
        take_error(query("threads", &mut answer)).unwrap();
        assert_eq!(text(answer), (abi::ERROR_OTHER, "2".into()));
        assert_eq!(text(query("else", &mut answer)).0, abi::ERROR_UNSUPPORTED);
        let (code, why) = text(query("panic", &mut answer));
        assert_eq!((code, why.contains("in `query`")), (abi::ERROR_PANIC, true));
        assert_eq!(api.can_copy.unwrap()(device.raw, 0, 0, &mut rate), 0);
        assert_eq!((api.can_copy.unwrap()(serial(0).raw, 0, 0, &mut rate), rate), (1, 1e9));
        take_error(api.spaces.unwrap()(device.raw, &mut spaces, &mut count)).unwrap();
        assert_eq!((count, (*spaces).alignment), (1, 64));
        // A host that knows a shorter struct.
        small.struct_size = std::mem::offset_of!(abi::DeviceInfo, threads) as u32;
        small.threads = 99;
        take_error(api.device_info.unwrap()(device.raw, &mut small)).unwrap();
        assert_eq!((small.flags & abi::DEVICE_TEST, small.threads), (abi::DEVICE_TEST, 99));
    }
    assert_eq!((&*device.info().name, device.info().threads), ("serial", 2));
    assert!(
        list().iter().any(|r| r.key.as_deref() == Some("TEST_SERIAL") && r.outcome == Outcome::Available)
    );
}

fn bytes_of_info() -> abi::DeviceInfo {
    // SAFETY: numbers, and texts of length 0.
    unsafe { std::mem::zeroed() }
}
