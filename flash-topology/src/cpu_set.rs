//! Sets of processors, by the numbers that the system gives them.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The most numbers that the text of a set may stand for: more than any system has.
const MOST: u64 = 1 << 16;

/// A set of processors. As text, and in JSON, it is a list of ranges: `0-3,8`.
///
/// # Examples
/// ```
/// use flash_topology::CpuSet;
/// let set: CpuSet = "0-3,8".parse()?;
/// assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
/// assert_eq!(set.intersection(&"3-9".parse()?).to_string(), "3,8");
/// # Ok::<(), flash_topology::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// The empty set.
    pub fn new() -> CpuSet {
        CpuSet::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// True if this one is in it.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// True if all of it is in the other one.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.0.is_subset(&other.0)
    }

    /// What is in one of them.
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        CpuSet(&self.0 | &other.0)
    }

    /// What is in both.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet(&self.0 & &other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> CpuSet {
        CpuSet(numbers.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<u32> = self.iter().collect();
        for (i, run) in numbers.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                run => write!(f, "{comma}{}-{}", run[0], run[run.len() - 1])?,
            }
        }
        Ok(())
    }
}

impl FromStr for CpuSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<CpuSet, Error> {
        let wrong = || Error::CpuSet(text.chars().take(60).collect());
        let (mut set, mut left) = (BTreeSet::new(), MOST);
        for run in text.trim().split(',').filter(|run| !run.is_empty()) {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
            let (first, last) = (number(first)?, number(last)?);
            let count = (u64::from(last) + 1).checked_sub(first.into()).filter(|count| *count > 0);
            left = count.and_then(|count| left.checked_sub(count)).ok_or_else(wrong)?;
            set.extend(first..=last);
        }
        Ok(CpuSet(set))
    }
}

impl TryFrom<String> for CpuSet {
    type Error = Error;

    fn try_from(text: String) -> Result<CpuSet, Error> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        set.to_string()
    }
}
