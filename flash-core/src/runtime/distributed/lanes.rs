//! The two lanes of a device, made when they are first needed.

use super::lane::{Lane, Runs};
use crate::devices::DeviceHandle;
use flash_backend::Class;

/// The lanes of a device.
pub(crate) struct Lanes {
    pub kernels: Lane,
    pub copies: Lane,
}

impl Lanes {
    /// Those of a device.
    pub fn of(device: &'static DeviceHandle) -> &'static Lanes {
        // What a CPU of this process computes, it computes on the calling thread; for all others, such as a
        // CPU of another process, that thread waits.
        let make = || {
            let info = device.info();
            let runs = match info.synchronous {
                true if info.class == Class::Cpu => Runs::Here,
                true => Runs::Waited,
                false if info.waits_in_queue => Runs::InQueue,
                false => Runs::Alone,
            };
            let lane = || Lane::new(std::ptr::from_ref(device).addr(), runs);
            let lanes = Lanes { kernels: lane(), copies: lane() };
            Some(&*Box::leak(Box::new(lanes)))
        };
        device.lanes.get(make).unwrap_or_else(|| unreachable!("every device has lanes"))
    }
}
