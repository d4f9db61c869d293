//! The argument of `options(..)`.

use super::profile::Profile;
use crate::devices::DeviceHandle;
use crate::devices::registry::Registry;
use crate::error::Error;
use flash_types::descriptor::{Attributes, Devices, IntoOptions};
use std::fmt;
use std::sync::Arc;

/// Collected options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The attributes.
    pub attributes: Attributes,
    /// The profile that records launches.
    pub(crate) profile: Option<Profile>,
    /// Conditions on devices: all of them must hold.
    pub(super) predicates: Vec<DevicesWhere>,
}

impl Options {
    /// The devices among `devices` that the options leave.
    pub(super) fn select(
        &self,
        registry: &Registry,
        among: &[&'static DeviceHandle],
    ) -> Result<Vec<&'static DeviceHandle>, Error> {
        let mut left = match self.attributes.get::<Devices>() {
            Some(Devices(key)) => select(registry, among, key)?,
            None => among.to_vec(),
        };
        for DevicesWhere(holds) in &self.predicates {
            let ids: Vec<&str> = left.iter().map(|device| device.id()).collect();
            let none = || Error::Option {
                option: "devices_where".into(),
                text: format!(
                    "expected a condition that holds for a device of this runtime, found one that holds for none of {}: `flash list` shows what they are",
                    ids.join(", ")
                ),
            };
            let kept: Vec<_> = left.iter().copied().filter(|device| holds(device)).collect();
            left = if kept.is_empty() { return Err(none()) } else { kept };
        }
        Ok(left)
    }
}

/// The devices of `among` that a key names.
fn select(
    registry: &Registry,
    among: &[&'static DeviceHandle],
    key: &str,
) -> Result<Vec<&'static DeviceHandle>, Error> {
    let named = registry.resolve(key)?;
    let selected: Vec<_> = named.into_iter().filter(|d| among.iter().any(|a| a.id() == d.id())).collect();
    if selected.is_empty() {
        let ids: Vec<&str> = among.iter().map(|d| d.id()).collect();
        return Err(Error::Option {
            option: "Devices".into(),
            text: format!("expected devices of this runtime ({}), found `{key}`", ids.join(", ")),
        });
    }
    Ok(selected)
}

/// A condition that devices must meet. Made by [`devices_where`].
#[derive(Clone)]
pub struct DevicesWhere(Arc<dyn Fn(&'static DeviceHandle) -> bool + Send + Sync>);

impl fmt::Debug for DevicesWhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DevicesWhere(..)")
    }
}

/// Allows only devices for which this holds, as an option of a runtime or a submission. With [`Devices::key`]
/// and other conditions, only devices that all of them allow remain. It is evaluated when the runtime is
/// made, or when the submission is given its dimensions. A recording does not contain it: the replaying
/// program chooses the devices.
///
/// If it leaves no device, the launch is refused with an [`Error::Option`].
///
/// # Examples
/// ```
/// use flash_core::runtime::devices_where;
/// # fn example() -> Result<(), flash_core::Error> {
/// let rt = flash_core::get_runtime("ALL_ACCEL")?;
/// let roomy = rt.options(devices_where(|device| device.info().memory_bytes >= 8 << 30));
/// println!("{:?}", roomy.devices());
/// # Ok(())
/// # }
/// ```
pub fn devices_where(holds: impl Fn(&'static DeviceHandle) -> bool + Send + Sync + 'static) -> DevicesWhere {
    DevicesWhere(Arc::new(holds))
}

impl AsMut<Attributes> for Options {
    fn as_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }
}

impl IntoOptions<Options> for &Profile {
    fn add_to(self, options: &mut Options) {
        options.profile = Some(self.clone());
    }
}

impl IntoOptions<Options> for DevicesWhere {
    fn add_to(self, options: &mut Options) {
        options.predicates.push(self);
    }
}
