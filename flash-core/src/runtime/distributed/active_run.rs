//! Runs that may use the memories of devices, counted for those that wait for room there (`room.rs`).

use super::room::DeviceRoom;
use std::sync::LazyLock;

pub(super) static ROOM: LazyLock<DeviceRoom> = LazyLock::new(DeviceRoom::default);

/// A run that may use device memory, until it is over.
pub(in crate::runtime) struct ActiveRun(());

impl ActiveRun {
    pub fn begin() -> ActiveRun {
        ROOM.goes();
        ActiveRun(())
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        ROOM.ends();
    }
}
