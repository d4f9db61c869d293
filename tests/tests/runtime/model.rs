//! Index tables as the specification words them: built as rows, sorted, cut at barriers.

use flash::count_by;
use flash_core::descriptor::{Attributes, GroupBy, SortBy};
use flash_core::index::Dim;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;

/// One way of writing a dimension.
#[derive(Clone, Debug)]
pub enum Entry {
    Count(u64),
    Range { start: u64, step: usize, count: u64, falling: bool },
    List(Vec<u64>),
}

/// Where barriers stand.
#[derive(Clone, Debug)]
pub enum Barriers {
    Dims(Vec<usize>),
    Only(Vec<usize>),
    Into(usize, Vec<u64>),
}

/// Dimensions and traits of a launch.
#[derive(Clone, Debug)]
pub struct Case {
    pub entries: Vec<Entry>,
    pub sort: Vec<usize>,
    pub group: Option<Barriers>,
}

/// A work item: its index values. Items at different positions may have the same ones.
pub type Values = Vec<u64>;

impl Entry {
    pub fn values(&self) -> Vec<u64> {
        match self {
            Entry::Count(n) => (0..*n).collect(),
            &Entry::Range { start, step, count, falling } => {
                let up = (0..count).map(|k| start + k * step as u64);
                if falling { up.rev().collect() } else { up.collect() }
            }
            Entry::List(values) => values.clone(),
        }
    }

    pub fn dim(&self) -> Dim {
        match self {
            Entry::Count(n) => (*n).into(),
            &Entry::Range { start, step, count, falling } => {
                let range = start as usize..start as usize + count as usize * step;
                if falling { range.step_by(step).rev().into() } else { range.step_by(step).into() }
            }
            Entry::List(values) => count_by(values),
        }
    }
}

impl Case {
    pub fn dims(&self) -> Vec<Dim> {
        self.entries.iter().map(Entry::dim).collect()
    }

    /// The traits as options of a submission.
    pub fn options(&self, names: &[&str]) -> Attributes {
        let named = |dims: &[usize]| dims.iter().map(|&d| names[d].to_owned()).collect::<Vec<_>>();
        let mut options = Attributes::default();
        if !self.sort.is_empty() {
            options.set(SortBy(named(&self.sort)));
        }
        match &self.group {
            None => {}
            Some(Barriers::Dims(dims)) => options.set(GroupBy::Dims(named(dims))),
            Some(Barriers::Only(dims)) => options.set(GroupBy::Only(named(dims))),
            Some(Barriers::Into(dim, values)) => {
                options.set(GroupBy::Into(names[*dim].to_owned(), values.clone()));
            }
        }
        options
    }

    /// All work items, phase by phase.
    pub fn phases(&self) -> Vec<Vec<Values>> {
        let mut rows: Vec<Values> = vec![vec![]];
        for entry in self.entries.iter().rev() {
            let values = entry.values();
            rows = rows.iter().flat_map(|row| values.iter().map(|&v| [&[v], &row[..]].concat())).collect();
        }
        let mut sort = self.sort.clone();
        sort.sort_by(|a, b| b.cmp(a));
        rows.sort_by_key(|row| sort.iter().map(|&d| row[d]).collect::<Vec<_>>());
        // The most significant first: the sorted ones, then the rest.
        let rest = (0..self.entries.len()).rev().filter(|d| !sort.contains(d));
        let significance: Vec<usize> = sort.iter().copied().chain(rest).collect();
        let rank = |d: usize| significance.iter().position(|&s| s == d).expect("every dimension has a place");
        let barrier = |a: &Values, b: &Values| match &self.group {
            None => sort.first().is_some_and(|&d| a[d] != b[d]),
            Some(Barriers::Dims(listed)) => {
                (0..a.len()).any(|d| a[d] != b[d] && listed.iter().any(|&l| rank(d) <= rank(l)))
            }
            Some(Barriers::Only(listed)) => listed.iter().any(|&d| a[d] != b[d]),
            Some(Barriers::Into(d, into)) => a[*d] != b[*d] && into.contains(&b[*d]),
        };
        let mut phases: Vec<Vec<Values>> = Vec::new();
        for row in rows {
            match phases.last_mut() {
                Some(phase) if !barrier(phase.last().expect("a phase has an item"), &row) => phase.push(row),
                _ => phases.push(vec![row]),
            }
        }
        phases
    }
}

/// Any of the ways of writing a dimension, with up to `most` values below about 10.
fn entry(most: u64) -> impl Strategy<Value = Entry> {
    prop_oneof![
        3 => (0..=most).prop_map(Entry::Count),
        3 => (1..=most).prop_map(Entry::Count),
        2 => (0..4u64, 1..4usize, 1..=most, any::<bool>())
            .prop_map(|(start, step, count, falling)| Entry::Range { start, step, count, falling }),
        3 => vec(0..5u64, 1..=most as usize).prop_map(Entry::List),
    ]
}

/// Any launch of `dims` dimensions.
pub fn case(dims: usize, most: u64) -> impl Strategy<Value = Case> {
    let some = move || subsequence((0..dims).collect::<Vec<_>>(), 1..=dims);
    let sort = prop_oneof![Just(vec![]), some()];
    let group = prop_oneof![
        2 => Just(None),
        3 => some().prop_map(|d| Some(Barriers::Dims(d))),
        1 => some().prop_map(|d| Some(Barriers::Only(d))),
        1 => (0..dims, vec(0..5u64, 0..3)).prop_map(|(d, values)| Some(Barriers::Into(d, values))),
    ];
    (vec(entry(most), dims), sort, group).prop_map(|(entries, sort, group)| Case { entries, sort, group })
}
