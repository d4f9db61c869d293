//! Two devices with memories of their own whose copies and kernels fail on command, and the errors of a
//! pipeline on them.

use super::kernels::{Axpy, Fill};
use super::run_all;
use super::serial::Done;
use crate::error::{Error, LaunchError};
use crate::memory::FlashMemory;
use crate::runtime::{HostTask, RuntimeObj, get_runtime};
use flash_backend::host_memory::{self, HostBuffers};
use flash_backend::register_backend;
use flash_backend::{Backend, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable};
use flash_types::Code;
use flash_types::abi::{self, Implementation};
use flash_types::descriptor::weights;
use std::sync::{Mutex, MutexGuard};

/// The fault of one device from now on.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fault {
    /// Copies to its memory.
    In,
    /// Copies from its memory.
    Out,
    /// The device is gone: everything fails.
    Lost,
}

static FAULT: Mutex<Option<(u32, Fault)>> = Mutex::new(None);

pub(super) fn fault(fault: Option<(u32, Fault)>) {
    *FAULT.lock().unwrap() = fault;
}

/// Tests run one at a time.
pub(super) fn lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let alone = LOCK.lock().unwrap_or_else(|e| e.into_inner());
    fault(None);
    alone
}

struct Failing;

// SAFETY: `submit` runs every row of every phase once, the phases one after the other, and returns
// when all have run.
unsafe impl Backend for Failing {
    const KEY: &'static str = "TEST_FAILING";
    const DESCRIPTION: &'static str = "for unit tests";
    const TARGET: &'static str = "cpu";
    type Device = FailingDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<FailingDevice>, Unavailable> {
        Ok((1..3).map(|space| FailingDevice::new(space, true)).collect())
    }
}

register_backend!(Failing);

pub(super) struct FailingDevice {
    buffers: HostBuffers,
    /// It says when a launch is done, and not that it works without the host.
    synchronous: bool,
}

impl FailingDevice {
    /// One with this memory.
    pub fn new(space: u32, synchronous: bool) -> FailingDevice {
        FailingDevice { buffers: HostBuffers::of_space(space), synchronous }
    }

    fn check(&self, what: Fault) -> Result<(), Failure> {
        match *FAULT.lock().unwrap() {
            Some((space, Fault::Lost)) if space == self.buffers.space() => {
                Err(Failure::new(Code::DeviceLost, "it was pulled out"))
            }
            Some((space, fault)) if space == self.buffers.space() && fault == what => {
                Err(Failure::new(Code::Other, "the cable is loose"))
            }
            _ => Ok(()),
        }
    }
}

impl Device for FailingDevice {
    type Kernel = &'static Implementation;

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            synchronous: self.synchronous,
            runs_functions: true,
            emulated: true,
            test: true,
            name: "failing".into(),
            vendor: "FLASH".into(),
            version: "0".into(),
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, implementation: &'static Implementation) -> Result<Self::Kernel, Failure> {
        Ok(implementation)
    }

    fn submit(&self, launch: &Launch<'_, Self::Kernel>) -> Result<Option<Event>, Failure> {
        // A lost device reports it at the end.
        let outcome = run_all(launch).and_then(|()| self.check(Fault::Lost));
        if self.synchronous {
            return outcome.map(|()| None);
        }
        Ok(Some(Event::new(Done(outcome))))
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        [abi::SPACE_HOST, self.buffers.space()].map(|id| host_memory::space(id, 0)).to_vec()
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<abi::Buffer, Failure> {
        self.buffers.alloc(space, bytes)
    }

    fn free(&self, buffer: abi::Buffer) -> Result<(), Failure> {
        self.buffers.free(buffer)
    }

    unsafe fn copy_box(
        &self,
        from: abi::Buffer,
        to: abi::Buffer,
        shape: &abi::CopyBox,
    ) -> Result<(), Failure> {
        if to.space == self.buffers.space() {
            self.check(Fault::In)?;
        }
        if from.space == self.buffers.space() {
            self.check(Fault::Out)?;
        }
        // SAFETY: the caller vouches for the boxes; all handles are addresses.
        unsafe { host_memory::copy_addresses(from.handle, to.handle, shape) };
        Ok(())
    }

    fn can_copy(&self, _: u32, _: u32) -> Option<f64> {
        None
    }
}

const NEVER: u64 = u64::MAX;

fn device(number: u32) -> RuntimeObj {
    get_runtime(&format!("TEST_FAILING:{number}")).unwrap()
}

fn launch_error(outcome: Result<(), Error>) -> LaunchError {
    match outcome {
        Err(Error::Launch(error)) => (*error).clone(),
        other => panic!("expected a failed launch, found {other:?}"),
    }
}

#[test]
fn what_a_copy_did_not_bring_is_brought_the_next_time() {
    let _alone = lock();
    let rt = device(0);
    let (x, y) = (FlashMemory::from([1u64; 4]), FlashMemory::from([2u64; 4]));
    fault(Some((1, Fault::In)));
    rt.submit(Axpy::of(1, &x, &y)).exec([4]).unwrap_err();
    assert!(matches!(y.read(), Err(Error::Poisoned)));
    assert_eq!(*x.read().unwrap(), [1; 4], "it is where it was");
    fault(None);
    y.write().unwrap().fill(2);
    rt.submit(Axpy::of(1, &x, &y)).exec([4]).unwrap();
    assert_eq!(*y.read().unwrap(), [3; 4], "the device has all of it now");
    rt.submit(Axpy::of(0, &x, &y)).exec([4]).unwrap();
    // The other direction: neither the host nor another device counts as having it.
    fault(Some((1, Fault::Out)));
    rt.pipeline().host(HostTask::new("look").read(&y), |_| Ok(())).exec().unwrap_err();
    device(1).submit(Axpy::of(1, &y, FlashMemory::from([0u64; 4]))).exec([4]).unwrap_err();
    fault(None);
    assert_eq!(*y.read().unwrap(), [3; 4]);
}

#[test]
fn a_copy_that_fails_is_the_error_of_the_submission_that_needs_it() {
    let _alone = lock();
    let rt = device(0);
    let (x, y, z) = (FlashMemory::from([1u64; 4]), FlashMemory::from([2u64; 4]), FlashMemory::zeroed(4));
    fault(Some((1, Fault::In)));
    let outcome = rt
        .submit(Fill::of(5, NEVER, &z))
        .defer([4])
        .submit(Axpy::of(1, &x, &y))
        .defer([4])
        .submit(Axpy::of(1, &y, &z))
        .exec([4]);
    let error = launch_error(outcome);
    assert_eq!((&*error.kernel, &*error.device, error.position), ("test.axpy", "TEST_FAILING:0", 1));
    assert!(error.to_string().contains("the cable is loose"), "why: {error}");
    assert!(matches!(&error.others[..], [LaunchError { position: 2, source: Error::Skipped { .. }, .. }]));
    assert!(matches!(y.read(), Err(Error::Poisoned)) && matches!(z.read(), Err(Error::Poisoned)));
    assert_eq!(*x.read().unwrap(), [1; 4], "what was to be copied is where it was");
    fault(None);
    y.write().unwrap().fill(2);
    rt.submit(Axpy::of(1, &x, &y)).exec([4]).unwrap();
    assert_eq!(*y.read().unwrap(), [3; 4]);
}

#[test]
fn a_copy_from_a_device_that_fails_leaves_what_it_has() {
    let _alone = lock();
    let (x, y) = (FlashMemory::from([1u64; 4]), FlashMemory::<u64>::zeroed(4));
    device(0).submit(Axpy::of(1, &x, &y)).exec([4]).unwrap();
    fault(Some((1, Fault::Out)));
    assert!(y.read().map(drop).unwrap_err().to_string().contains("the cable is loose"));
    assert!(y.write().map(drop).is_err());
    let host = device(0).pipeline().host(HostTask::new("look").read(&y), |_| Ok(()));
    let error = launch_error(host.exec());
    assert!(error.to_string().contains("the cable is loose"), "{error}");
    let error = launch_error(device(1).submit(Axpy::of(1, &y, FlashMemory::from([0u64; 4]))).exec([4]));
    assert!(error.to_string().contains("the cable is loose"), "{error}");
    fault(None);
    assert_eq!(*y.read().unwrap(), [1; 4], "nothing is lost");
}

#[test]
fn a_lost_device_poisons_what_was_current_nowhere_else() {
    let _alone = lock();
    let ten = || FlashMemory::from([10u64; 4]);
    // By a kernel, and by a copy that a submission on the other device needs.
    for by_copy in [false, true] {
        let (x, read, written, both) = (FlashMemory::from([1u64; 4]), ten(), ten(), ten());
        let rt = device(0);
        rt.submit(Axpy::of(1, &read, &written))
            .defer([4])
            .submit(Axpy::of(1, &read, &both))
            .exec([4])
            .unwrap();
        assert_eq!(*both.read().unwrap(), [20; 4], "the host has it, too");
        fault(Some((1, Fault::Lost)));
        let sum = FlashMemory::from([0u64; 4]);
        let outcome = match by_copy {
            // It touches all of them, so that its error may name what is lost.
            false => rt.submit(Axpy::of(1, &x, &sum)).defer([4]).submit(Axpy::of(0, &written, &x)).exec([4]),
            true => device(1).submit(Axpy::of(1, &written, &sum)).exec([4]),
        };
        let error = launch_error(outcome);
        let lost = matches!(error.source, Error::Backend { code: Code::DeviceLost, .. });
        assert!(lost, "by a copy: {by_copy}: {error}");
        fault(None);
        assert!(matches!(sum.read(), Err(Error::Poisoned)));
        assert!(matches!(written.read(), Err(Error::Poisoned)), "by a copy: {by_copy}");
        assert_eq!((&*read.read().unwrap(), &*both.read().unwrap()), (&[10; 4][..], &[20; 4][..]));
        written.write().unwrap().fill(1);
        rt.submit(Axpy::of(1, &read, &written)).exec([4]).unwrap();
        assert_eq!(*written.read().unwrap(), [11; 4]);
    }
}

#[test]
fn of_parts_on_two_devices_one_whose_copy_fails_fails_the_submission() {
    let _alone = lock();
    let rt = get_runtime("TEST_FAILING").unwrap().options(weights([1, 1]));
    let (x, y) = (FlashMemory::from([1u64; 64]), FlashMemory::from([2u64; 64]));
    fault(Some((2, Fault::In)));
    let error = launch_error(rt.submit(Axpy::of(1, &x, &y)).exec([64]));
    assert_eq!(&*error.device, "TEST_FAILING:1");
    assert!(error.to_string().contains("the cable is loose"), "{error}");
    assert!(matches!(y.get(0), Err(Error::Poisoned)));
    fault(None);
    y.write().unwrap().fill(2);
    rt.submit(Axpy::of(1, &x, &y)).exec([64]).unwrap();
    assert_eq!(*y.read().unwrap(), [3; 64]);
}
