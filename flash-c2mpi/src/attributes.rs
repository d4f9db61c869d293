//! The attributes of kernels of the paper's Table 2, as patterns: `*` stands for any text.

use crate::error::{Code, Error, Result};

/// An attribute by which kernels and devices are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// The device's vendor.
    Vid,
    /// The device's name.
    Pid,
    /// The device's backend, a runtime key such as `OPENCL`.
    SsVid,
    /// The device's id, a runtime key such as `OPENCL:0`.
    SsPid,
    /// The namespace of the kernel: `flash` of `flash.mmm`.
    SwVid,
    /// The name of the implementation, such as `avx2`.
    SwPid,
    /// The function: a number of the library's table, or the name of a kernel.
    SwFid,
    /// The class of the function.
    SwClid,
    /// The version of the library of kernels.
    SwVerid,
}

impl Attribute {
    /// All of them, in the order of Table 2, and the class.
    pub const ALL: [Attribute; 9] = [
        Attribute::Vid,
        Attribute::Pid,
        Attribute::SsVid,
        Attribute::SsPid,
        Attribute::SwVid,
        Attribute::SwPid,
        Attribute::SwFid,
        Attribute::SwClid,
        Attribute::SwVerid,
    ];

    /// Its name in configurations and overrides.
    pub fn name(self) -> &'static str {
        match self {
            Attribute::Vid => "vid",
            Attribute::Pid => "pid",
            Attribute::SsVid => "ss_vid",
            Attribute::SsPid => "ss_pid",
            Attribute::SwVid => "sw_vid",
            Attribute::SwPid => "sw_pid",
            Attribute::SwFid => "sw_fid",
            Attribute::SwClid => "sw_clid",
            Attribute::SwVerid => "sw_verid",
        }
    }
}

/// Patterns of attributes; one that is absent takes any text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes([Option<String>; Attribute::ALL.len()]);

impl Attributes {
    /// Sets a pattern.
    pub fn set(&mut self, attribute: Attribute, pattern: impl Into<String>) {
        self.0[attribute as usize] = Some(pattern.into());
    }

    /// The pattern of an attribute, if it has one.
    pub fn get(&self, attribute: Attribute) -> Option<&str> {
        self.0[attribute as usize].as_deref()
    }

    /// True if a text fits the pattern of an attribute.
    pub fn takes(&self, attribute: Attribute, text: &str) -> bool {
        self.get(attribute).is_none_or(|pattern| matches(pattern, text))
    }

    /// Those that are set, as `name=pattern`.
    pub fn words(&self) -> String {
        let set = Attribute::ALL.iter().filter_map(|of| Some(format!("{}={}", of.name(), self.get(*of)?)));
        set.collect::<Vec<String>>().join(", ")
    }
}

/// True if a text fits a pattern: its characters, whatever their case, and `*` for any number of any.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut pieces = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// What a claim changes of its function's entry: keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Patterns in place of those of the entry.
    pub attributes: Attributes,
    /// The number of devices.
    pub func_repl: Option<u32>,
    /// The entry of `platform_list`.
    pub platform_id: Option<String>,
    /// A runtime key, in place of the platform's.
    pub key: Option<String>,
}

impl Overrides {
    /// Sets one of them by its name.
    ///
    /// # Errors
    /// [`Code::Info`] for a name that is none, or a number that does not fit.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "func_repl" => match value.parse() {
                Ok(number @ 1..=1024) => self.func_repl = Some(number),
                _ => {
                    let text = format!("func_repl: expected a number of devices, 1 to 1024, found `{value}`");
                    return Err(Error::new(Code::Info, text));
                }
            },
            "platform_id" => self.platform_id = Some(value.to_owned()),
            "key" => self.key = Some(value.to_owned()),
            _ => match Attribute::ALL.into_iter().find(|attribute| attribute.name() == name) {
                Some(attribute) => self.attributes.set(attribute, value),
                None => {
                    let names = Attribute::ALL.map(Attribute::name).join(", ");
                    let text = format!(
                        "expected a key of an override ({names}, func_repl, platform_id, key), found `{name}`"
                    );
                    return Err(Error::new(Code::Info, text));
                }
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By recursion, character by character.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|at| naive(rest, &text[at..])),
            [first, rest @ ..] => text.first() == Some(first) && naive(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn patterns_are_those_of_the_naive_model(pattern in "[ab*]{0,6}", text in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<char>>();
            prop_assert_eq!(matches(&pattern, &text), naive(&chars(&pattern), &chars(&text)));
        }
    }

    #[test]
    fn case_does_not_matter() {
        assert!(matches("NVIDIA*", "nvidia corporation") && !matches("amd", "AMD EPYC") && matches("*", ""));
    }

    #[test]
    fn overrides_are_checked() {
        let mut overrides = Overrides::default();
        overrides.set("vid", "Intel*").unwrap();
        overrides.set("func_repl", "2").unwrap();
        assert!(overrides.attributes.takes(Attribute::Vid, "intel(r) corporation"));
        assert_eq!(overrides.func_repl, Some(2));
        for (name, value) in [("func_repl", "0"), ("func_repl", "x"), ("vidd", "1")] {
            assert_eq!(overrides.set(name, value).unwrap_err().code, Code::Info);
        }
    }
}
