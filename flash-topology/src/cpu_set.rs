//! Sets of processors, by the numbers that the system gives them.

use crate::Error;
use serde::{Deserialize, Serialize};
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
//
// Inclusive ranges in order, no two of which touch: a set takes as much memory as its text does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(Vec<(u32, u32)>);

impl CpuSet {
    /// The empty set.
    pub fn new() -> CpuSet {
        CpuSet::default()
    }

    /// The set of ranges in any order.
    fn of(mut ranges: Vec<(u32, u32)>) -> CpuSet {
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let touches = next.0 <= last.1.saturating_add(1);
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        CpuSet(ranges)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(first, last)| (last - first) as usize + 1).sum()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// True if this one is in it.
    pub fn contains(&self, cpu: u32) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= cpu);
        after > 0 && self.0[after - 1].1 >= cpu
    }

    /// True if all of it is in the other one.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.intersection(other) == *self
    }

    /// What is in one of them.
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        CpuSet::of([&self.0[..], &other.0].concat())
    }

    /// What is in both.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        let (mut both, mut others) = (Vec::new(), &other.0[..]);
        for &(first, last) in &self.0 {
            // Those before this range are before all that follow.
            others = &others[others.partition_point(|other| other.1 < first)..];
            let inside = others.iter().take_while(|other| other.0 <= last);
            both.extend(inside.map(|other| (other.0.max(first), other.1.min(last))));
        }
        CpuSet(both)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> CpuSet {
        CpuSet::of(numbers.into_iter().map(|number| (number, number)).collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (first, last)) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for CpuSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<CpuSet, Error> {
        let wrong = || Error::CpuSet(text.chars().take(60).collect());
        let (mut ranges, mut left) = (Vec::new(), MOST);
        for run in text.trim().split(',').filter(|run| !run.is_empty()) {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
            let (first, last) = (number(first)?, number(last)?);
            let count = (u64::from(last) + 1).checked_sub(first.into()).filter(|count| *count > 0);
            left = count.and_then(|count| left.checked_sub(count)).ok_or_else(wrong)?;
            ranges.push((first, last));
        }
        Ok(CpuSet::of(ranges))
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
