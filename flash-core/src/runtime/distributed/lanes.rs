//! The two lanes of a device, made when they are first needed.

use super::lane::Lane;
use crate::backend::DeviceHandle;

/// The lanes of a device.
pub(crate) struct Lanes {
    pub kernels: Lane,
    pub copies: Lane,
}

impl Lanes {
    /// Those of a device.
    pub fn of(device: &'static DeviceHandle) -> &'static Lanes {
        device.lanes.get_or_init(|| Lanes {
            kernels: Lane::new(format!("flash {}", device.id())),
            copies: Lane::new(format!("flash {} copies", device.id())),
        })
    }
}
