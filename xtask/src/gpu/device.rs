//! The device that is used, and its properties.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::steps::limited;

/// Key of the backend.
pub const KEY: &str = "NVIDIA_GPU";

/// The device that is used.
pub struct Device {
    /// Its name and properties.
    text: String,
    pub emulated: bool,
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Device {
    /// The first device in the output of `flash list --json`.
    pub fn listed(said: &str) -> Result<Device> {
        let start = said.find('{').context("`flash list --json` printed no JSON")?;
        // Warnings may stand before it, and after it.
        let list = serde_json::Deserializer::from_str(&said[start..]).into_iter::<Value>().next();
        let mut device = device_of(&list.context("`flash list --json` printed nothing")??)?;
        if let Some(driver) = asked_of_nvidia_smi() {
            device.text = format!("{}; nvidia-smi: {driver}", device.text);
        }
        Ok(device)
    }
}

/// The device in parsed output of `flash list --json`.
fn device_of(list: &Value) -> Result<Device> {
    let backends = list["backends"].as_array().into_iter().flatten();
    let ours = backends.into_iter().find(|backend| backend["key"] == KEY);
    let ours = ours.with_context(|| format!("no GPU: `flash list` knows no {KEY}"))?;
    let Some(device) = ours["devices"].get(0) else {
        bail!("no GPU: {KEY}: {}", ours["reason"].as_str().unwrap_or("no device"));
    };
    let text = |key: &str| device[key].as_str().unwrap_or("?");
    let memory = device["memory_bytes"].as_u64().unwrap_or(0) as f64 / f64::from(1 << 30);
    Ok(Device {
        text: format!(
            "{}, {}, {memory:.0} GiB, driver for {}",
            text("name"),
            text("features"),
            text("version")
        ),
        emulated: device["emulated"] == true,
    })
}

/// The driver's version and the fastest clocks, from `nvidia-smi` if it is installed.
fn asked_of_nvidia_smi() -> Option<String> {
    let query =
        "--query-gpu=driver_version,clocks.max.sm,clocks.max.mem,pcie.link.gen.max,pcie.link.width.max";
    let output = limited(10).args(["nvidia-smi", query, "--format=csv"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let mut lines = text.lines();
    let (names, values) = (lines.next()?, lines.next()?);
    let pairs = names.split(", ").zip(values.split(", "));
    let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name} {value}")).collect();
    Some(pairs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_device_the_reason_is_the_backends() {
        let list = |devices: Value| {
            serde_json::json!({"backends": [
                {"key": "ALL_CPU", "reason": null, "devices": [{"name": "a CPU"}]},
                {"key": "NVIDIA_GPU", "reason": "expected a driver, found none", "devices": devices},
            ]})
        };
        let error = device_of(&list(serde_json::json!([]))).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("no GPU: NVIDIA_GPU: expected a driver, found none"));
        let found = serde_json::json!([{
            "name": "H200", "version": "CUDA 13.0", "features": "sm_90", "memory_bytes": 150_323_855_360u64,
            "emulated": false,
        }]);
        let device = device_of(&list(found)).map(|device| device.to_string());
        assert_eq!(device.ok().as_deref(), Some("H200, sm_90, 140 GiB, driver for CUDA 13.0"));
        let error = device_of(&serde_json::json!({"backends": []})).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("no GPU: `flash list` knows no NVIDIA_GPU"));
    }
}
