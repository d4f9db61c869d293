//! What a backend learns of the settings of a context.

use crate::failure::Unavailable;
use crate::settings::Values;
use flash_types::abi::Attr;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The settings under which a backend is to look for its devices, by name: those of
/// a context, as the table of `Settings` writes them. What is asked for is noted: contexts that agree
/// in it share the devices. By default none is set.
#[derive(Default)]
pub struct HostSettings<'a> {
    values: Vec<(&'a str, &'a str)>,
    asked: RefCell<Asked>,
}

/// Names that were asked for, and what they were.
pub(crate) type Asked = BTreeMap<String, Option<String>>;

impl<'a> HostSettings<'a> {
    /// # Safety
    /// There are `count` settings, which live as long as `'a`.
    pub(crate) unsafe fn new(settings: *const Attr, count: usize) -> HostSettings<'a> {
        let pair = |i| {
            // SAFETY: the caller vouches for as many, and for their texts.
            unsafe {
                let setting = &*settings.add(i);
                (setting.key.as_str(), setting.value.as_str())
            }
        };
        HostSettings { values: (0..count).map(pair).collect(), asked: RefCell::default() }
    }

    /// Those of a context.
    pub fn of(settings: &'a Values) -> HostSettings<'a> {
        HostSettings { values: settings.iter().collect(), asked: RefCell::default() }
    }

    fn peek(&self, name: &str) -> Option<&'a str> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The text of a setting, if it is set.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let value = self.peek(name);
        self.asked.borrow_mut().insert(name.to_owned(), value.map(str::to_owned));
        value
    }

    /// True if kernels that devices compile are to check the indices of `FLASH_AT`.
    pub fn checks_bounds(&self) -> bool {
        self.flag("check_bounds") || self.flag("check_maps")
    }

    /// True if a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("1")
    }

    /// A number, if it is set.
    ///
    /// # Errors
    /// If it is set and is no number in the range.
    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Unavailable> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(Unavailable(format!(
                "setting `{name}`: expected a whole number from {} to {}, found `{text}`",
                range.start(),
                range.end()
            ))),
        }
    }

    /// True if these would have given the same answers.
    pub(crate) fn agree_with(&self, asked: &Asked) -> bool {
        asked.iter().all(|(name, value)| self.peek(name) == value.as_deref())
    }

    pub(crate) fn into_asked(self) -> Asked {
        self.asked.into_inner()
    }
}
