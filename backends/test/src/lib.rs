//! Devices for tests, key `TEST`, with properties that no device of a developer's machine has and that a test
//! has to set.
//!
//! A device runs the implementations for the CPU, one work item after another. It has a memory of its own in
//! the process's memory, so that what was not copied there is not there, and two queues, for launches and for
//! copies, each with a thread of its own: a launch or a copy is complete some time after the call that began
//! it, and its event says when. The queues wait for each other. Groups such as `ALL_ACCEL` leave these
//! devices out; only the key `TEST` selects them.
//!
//! The devices are stricter than necessary: an argument in another memory than the device's, a buffer that
//! was freed, and a copy beyond a buffer's end are errors.
//!
//! The setting `test.setup`, by default the environment variable `FLASH_TEST`, says what devices there are.
//! It is a list of settings, with spaces between them, such as `devices=2 ns=0,100 fail=1:launch:3`. Where
//! devices differ, a setting has a value for each, with commas between them, and the last value holds for all
//! further devices.
//!
//! | setting | meaning | default |
//! |---|---|---|
//! | `devices=N` | number of devices, 1 to 64 | 1 |
//! | `space=ID` | the memory space of a device; devices with the same id share that memory, 0 is the host's memory, used in place; `1+5`: the device has both, and computes in both | 1, 2, 3, ... |
//! | `memory=BYTES` | size of that memory, such as `65536`, `64K`, `1M` or `2G`; an allocation beyond it fails | no limit |
//! | `peers=yes` | whether copies between two such memories are possible; `no`: only to and from the host | `yes` |
//! | `ns=TIME` | nanoseconds that a work item takes at least | 0 |
//! | `rate=BYTES` | bytes that are copied in a second at most | no limit |
//! | `queue=thread` | `caller`: launches and copies are complete when their call returns; `waiter`: they make progress only while a thread of the host waits for one of them, or asks whether it is over | `thread` |
//! | `checks=yes` | whether buffers are looked up before they are used; `no`: for benchmarks | `yes` |
//! | `fail=DEVICE:COMMAND:N` | the `N`th `launch`, `copy` or `alloc` of this device fails, counted from 1; may be given several times | |
//! | `lose=DEVICE:N` | this device is lost with its `N`th launch, copy or allocation, and stays so | |
//! | `go=DEVICE:N` | the same, and it is no longer among the devices | |
//! | `come=DEVICE:N` | this device is there from the `N`th launch, copy or allocation of the other devices on | |
//!
//! A launch that is asked to stop does so before its next phase.
//!
//! Queries `launches` and `copies` give the numbers of launches and copies that a device was given so far.
//!
//! Where devices share a memory, the runtime looks whether they do when it finds them, with an allocation and
//! two copies; these count.
//!
//! A setting that makes no sense makes the backend unavailable,
//! with a text that says which one.

mod device;
mod launch;
mod memory;
mod queue;
mod settings;

pub use device::{Test, TestDevice};
pub use launch::TestKernel;

flash_backend::register_backend!(Test);
