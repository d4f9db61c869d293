//! Settings of the machine from the environment.

use std::sync::OnceLock;

/// The machine's size.
pub(crate) struct Settings {
    pub devices: usize,
    /// Bytes of each device's memory.
    pub memory: usize,
    /// The version of CUDA, in the driver's form: 1000 major + 10 minor.
    pub version: i32,
    /// Calls that fail: the function, the number of the call, and the code.
    pub faults: Vec<(String, u32, u32)>,
}

/// `FLASH_EMULATED_CUDA_DEVICES`, `FLASH_EMULATED_CUDA_MEMORY`, `FLASH_EMULATED_CUDA_VERSION` and
/// `FLASH_EMULATED_CUDA_FAULT`, read once.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let number = |name: &str, otherwise: usize| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|_| {
                eprintln!("{name}: expected a number, found {text:?}; {otherwise} it is");
                otherwise
            }),
            Err(_) => otherwise,
        };
        let faults = std::env::var("FLASH_EMULATED_CUDA_FAULT").unwrap_or_default();
        let faults = faults.split(',').filter(|fault| !fault.is_empty()).filter_map(|fault| {
            let read = fault_of(fault);
            if read.is_none() {
                eprintln!("FLASH_EMULATED_CUDA_FAULT: expected <function>[:<n>]=<code>, found {fault:?}");
            }
            read
        });
        Settings {
            // Tests of this crate ruin devices, so there are enough of them.
            devices: number("FLASH_EMULATED_CUDA_DEVICES", if cfg!(test) { 16 } else { 1 }),
            memory: number("FLASH_EMULATED_CUDA_MEMORY", 1 << 30),
            version: number("FLASH_EMULATED_CUDA_VERSION", 13_000) as i32,
            faults: faults.collect(),
        }
    })
}

fn fault_of(text: &str) -> Option<(String, u32, u32)> {
    let (function, code) = text.split_once('=')?;
    let (function, nth) = function.split_once(':').unwrap_or((function, "1"));
    Some((function.to_owned(), nth.parse().ok()?, code.parse().ok()?))
}
