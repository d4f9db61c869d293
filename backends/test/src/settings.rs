//! The setup of the devices, as in `FLASH_TEST`. Its grammar is in the documentation of the crate.

use flash_backend::Unavailable;
use flash_backend::abi::SPACE_HOST;
use std::str::FromStr;

/// The environment variable.
const NAME: &str = "FLASH_TEST";
/// The most devices.
const MOST: usize = 64;

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub devices: Vec<DeviceSettings>,
    /// Copies between two memories are possible.
    pub peers: bool,
}

/// The settings of one device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeviceSettings {
    /// Its memory spaces, the main one first.
    pub spaces: Vec<u32>,
    /// Bytes of each; 0: no limit.
    pub memory: u64,
    /// Nanoseconds of a work item.
    pub ns: f64,
    /// Bytes per second; 0: no limit.
    pub rate: f64,
    pub queue: Commands,
    /// Buffers are looked up before they are used.
    pub checks: bool,
    pub faults: Vec<Fault>,
    /// The command of the devices that are there with which it comes; 0: it is there from the beginning.
    pub comes: u64,
    /// Its command with which it goes; 0: it stays.
    pub goes: u64,
}

/// Where commands run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Commands {
    /// On the queue's thread, from when they come.
    #[default]
    Thread,
    /// In the call.
    Caller,
    /// On the thread that waits for them or asks whether they are over. Where a callback is asked for, on the
    /// queue's thread.
    Waiter,
}

/// A command of a device that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fault {
    pub command: Command,
    /// Which one, counted from 1.
    pub number: u64,
}

/// The commands of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Command {
    Launch,
    Copy,
    Alloc,
    /// Any of these: the device is lost from then on.
    Any,
}

impl Settings {
    /// Parses the text of the setting.
    pub fn parse(text: &str) -> Result<Settings, Unavailable> {
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            let known = "devices, space, memory, peers, ns, rate, queue, checks, fail, lose, come or go";
            match word.split_once('=') {
                Some((name, value)) if known.split([',', ' ']).any(|k| k == name) => {
                    words.push((name, value))
                }
                _ => return Err(wrong(&format!("a setting such as `devices=2`, of {known}"), word)),
            }
        }
        let value = |name: &str| words.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| *value);
        let count = match value("devices") {
            None => 1,
            Some(text) => number(text)
                .filter(|n| (1..=MOST).contains(n))
                .ok_or_else(|| wrong(&format!("`devices=` and a number from 1 to {MOST}"), text))?,
        };
        let space =
            each(value("space"), count, "`space=` and numbers such as 1 or 1+2, one per device", spaces)?;
        let memory = each(value("memory"), count, "`memory=` and bytes such as 64K", bytes)?;
        let ns = each(value("ns"), count, "`ns=` and nanoseconds, 0 or more", amount)?;
        let rate = each(value("rate"), count, "`rate=` and bytes per second, 0 or more", amount)?;
        let commands = |text: &str| match text {
            "thread" => Some(Commands::Thread),
            "caller" => Some(Commands::Caller),
            "waiter" => Some(Commands::Waiter),
            _ => None,
        };
        let queue =
            each(value("queue"), count, "`queue=thread`, `queue=caller` or `queue=waiter`", commands)?;
        let yes = |name: &str| match value(name).map(|text| (text, choice(text, ["no", "yes"]))) {
            None => Ok(true),
            Some((_, Some(yes))) => Ok(yes),
            Some((text, None)) => Err(wrong(&format!("`{name}=yes` or `{name}=no`"), text)),
        };
        let (peers, checks) = (yes("peers")?, yes("checks")?);
        let device = |k: usize| DeviceSettings {
            spaces: space.get(k).cloned().unwrap_or_else(|| vec![1 + k as u32]),
            memory: memory.get(k).copied().unwrap_or(0),
            ns: ns.get(k).copied().unwrap_or(0.0),
            rate: rate.get(k).copied().unwrap_or(0.0),
            queue: queue.get(k).copied().unwrap_or_default(),
            checks,
            faults: Vec::new(),
            comes: 0,
            goes: 0,
        };
        let mut settings = Settings { devices: (0..count).map(device).collect(), peers };
        for (name, text) in words {
            settings.add_fault(name, text)?;
        }
        settings.check()?;
        Ok(settings)
    }

    fn add_fault(&mut self, name: &str, text: &str) -> Result<(), Unavailable> {
        let parts: Vec<&str> = text.split(':').collect();
        let (device, command, number_of) = match (name, &parts[..]) {
            ("fail", [device, command, n]) => (*device, *command, *n),
            ("lose" | "come" | "go", [device, n]) => (*device, "any", *n),
            ("fail", _) => return Err(wrong("`fail=DEVICE:COMMAND:N`, such as fail=1:launch:3", text)),
            ("lose" | "come" | "go", _) => {
                return Err(wrong(&format!("`{name}=DEVICE:N`, such as {name}=1:3"), text));
            }
            _ => return Ok(()),
        };
        let command = match command {
            "launch" => Command::Launch,
            "copy" => Command::Copy,
            "alloc" => Command::Alloc,
            "any" if name != "fail" => Command::Any,
            _ => return Err(wrong("a command of launch, copy and alloc", text)),
        };
        let there = self.devices.len();
        let device = number::<usize>(device).and_then(|k| self.devices.get_mut(k));
        let (Some(device), Some(number)) = (device, number(number_of).filter(|n| *n > 0)) else {
            return Err(wrong(&format!("a device from 0 to {}, and a number from 1", there - 1), text));
        };
        match name {
            "come" => device.comes = number,
            "go" => device.goes = number,
            _ => device.faults.push(Fault { command, number }),
        }
        Ok(())
    }

    /// Devices with one memory must agree on its size, and the host's is all of a device's memory or none.
    /// One of them is there from the beginning.
    fn check(&self) -> Result<(), Unavailable> {
        if self.devices.iter().all(|device| device.comes > 0) {
            return Err(wrong("a device that is there from the beginning", "come= for all of them"));
        }
        for (k, device) in self.devices.iter().enumerate() {
            if device.spaces.len() > 1 && device.spaces.contains(&SPACE_HOST) {
                let found = device.spaces.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
                return Err(wrong("the host's memory, 0, alone", &found));
            }
            let shared = |d: &DeviceSettings| device.spaces.iter().find(|space| d.spaces.contains(space));
            let other =
                |d: &DeviceSettings| Some((d.memory, shared(d).filter(|_| d.memory != device.memory)?));
            if let Some((first, space)) = self.devices[..k].iter().find_map(other) {
                let found = format!("{first} and {} bytes for space {space}", device.memory);
                return Err(wrong("one size for each memory space", &found));
            }
        }
        Ok(())
    }
}

/// A value for each device: the last one that is given holds for all further ones. Empty: there is none.
fn each<T: Clone>(
    text: Option<&str>,
    devices: usize,
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Unavailable> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let values: Option<Vec<T>> = text.split(',').map(parse).collect();
    let mut values = values.filter(|v| v.len() <= devices).ok_or_else(|| wrong(expected, text))?;
    let last = values[values.len() - 1].clone();
    values.resize(devices, last);
    Ok(values)
}

/// Different numbers, with `+` between them.
fn spaces(text: &str) -> Option<Vec<u32>> {
    let all: Vec<u32> = text.split('+').map(number).collect::<Option<_>>()?;
    let is_new = |k: usize| !all[..k].contains(&all[k]);
    (0..all.len()).all(is_new).then_some(all)
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn amount(text: &str) -> Option<f64> {
    number(text).filter(|n: &f64| n.is_finite() && *n >= 0.0)
}

fn bytes(text: &str) -> Option<u64> {
    let units = [("K", 10), ("M", 20), ("G", 30)];
    let unit = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    number::<u64>(digits)?.checked_mul(1 << shift)
}

/// False for the first word, true for the second.
fn choice(text: &str, words: [&str; 2]) -> Option<bool> {
    words.iter().position(|word| *word == text).map(|at| at == 1)
}

fn wrong(expected: &str, found: &str) -> Unavailable {
    Unavailable(format!("{NAME}: expected {expected}, found `{found}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_settings_there_is_one_device_with_a_memory_of_its_own() {
        let settings = Settings::parse("").unwrap();
        assert!(settings.peers);
        let one = DeviceSettings {
            spaces: vec![1],
            memory: 0,
            ns: 0.0,
            rate: 0.0,
            queue: Commands::Thread,
            checks: true,
            faults: Vec::new(),
            comes: 0,
            goes: 0,
        };
        assert_eq!(settings.devices, [one]);
    }

    #[test]
    fn a_value_holds_for_all_further_devices() {
        let text = "devices=3  space=0,4+7 memory=0,2K ns=1.5 rate=1e9,0 queue=thread,caller peers=no";
        let Settings { devices, peers } = Settings::parse(text).unwrap();
        assert!(!peers);
        let told: Vec<_> = devices.iter().map(|d| (&d.spaces[..], d.memory, d.ns, d.rate, d.queue)).collect();
        let further = (&[4, 7][..], 2048, 1.5, 0.0, Commands::Caller);
        assert_eq!(told, [(&[0][..], 0, 1.5, 1e9, Commands::Thread), further, further]);
    }

    #[test]
    fn faults_belong_to_their_devices() {
        let settings = Settings::parse("fail=1:launch:3 devices=2 fail=1:alloc:1 lose=0:7").unwrap();
        let fault = |command, number| Fault { command, number };
        assert_eq!(settings.devices[0].faults, [fault(Command::Any, 7)]);
        assert_eq!(settings.devices[1].faults, [fault(Command::Launch, 3), fault(Command::Alloc, 1)]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, part) in [
            ("devices", "a setting such as `devices=2`"),
            ("colour=red", "found `colour=red`"),
            ("devices=0", "from 1 to 64, found `0`"),
            ("devices=65", "found `65`"),
            ("space=-1", "`space=`"),
            ("space=1,2", "found `1,2`"),
            ("space=1+1", "found `1+1`"),
            ("space=0+1", "the host's memory, 0, alone"),
            ("memory=1T", "`memory=` and bytes such as 64K, found `1T`"),
            ("memory=99999999999G", "`memory=`"),
            ("ns=-1", "`ns=`"),
            ("ns=nan", "`ns=`"),
            ("rate=fast", "`rate=`"),
            ("queue=", "`queue=thread`, `queue=caller` or `queue=waiter`, found ``"),
            ("peers=1", "`peers=yes` or `peers=no`"),
            ("checks=off", "`checks=yes` or `checks=no`"),
            ("fail=launch", "fail=1:launch:3"),
            ("fail=0:any:1", "a command of launch, copy and alloc"),
            ("fail=1:copy:1", "a device from 0 to 0"),
            ("fail=0:copy:0", "a number from 1"),
            ("lose=0", "lose=1:3"),
            ("go=0", "`go=DEVICE:N`, such as go=1:3"),
            ("come=0:1", "a device that is there from the beginning"),
            ("come=1:1", "a device from 0 to 0"),
            ("devices=2 space=1 memory=1K,2K", "one size for each memory space"),
        ] {
            let message = Settings::parse(text).unwrap_err().0;
            assert!(
                message.starts_with("FLASH_TEST: expected ") && message.contains(part),
                "{text}: {message}"
            );
        }
    }
}
