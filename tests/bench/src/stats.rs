//! Rows of figures: measuring FLASH and a peer in turns, and the statistics of the turns.
//!
//! Interleaving is what makes two figures comparable on a machine with neighbours: a
//! slow minute slows both. The ratio is therefore taken turn by turn, and its median
//! is not the quotient of the two medians.

use std::convert::Infallible;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The fewest pairs of turns that make a row.
pub const REPEATS: usize = 30;

/// The rest before each turn: long enough for every thread of the other side to stop spinning and sleep
/// (`peers` keeps OpenMP's below it).
pub const PAUSE: Duration = Duration::from_millis(10);

/// What was measured, in one unit throughout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured, the peer, and the library inside.
    pub name: String,
    /// The unit of every figure but the ratio.
    pub unit: String,
    /// FLASH's median.
    pub value: f64,
    /// FLASH's least turn.
    pub min: f64,
    /// FLASH's greatest turn.
    pub max: f64,
    /// FLASH's 99th percentile over the turns (nearest rank: under 100 turns, the
    /// greatest).
    pub p99: f64,
    /// The peer's median.
    pub peer: Option<f64>,
    /// The median of FLASH's turn over the peer's turn beside it: under 1 FLASH is
    /// faster where the unit is time, over 1 where it is a rate.
    pub ratio: Option<f64>,
    /// The 95 % confidence interval of the median that many more turns would have: of the ratio, where there
    /// is one, else of FLASH's turns. None for fewer than six turns.
    pub interval: Option<[f64; 2]>,
    /// How to measure it by itself, if that is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Alone>,
}

/// A process that measures one row and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// What `--child` is given.
    pub what: String,
    /// Its environment.
    pub environment: Vec<(String, String)>,
}

/// Measures `ours` and `peer` in turns, at least [`REPEATS`] of each, and resting
/// `pause` before each. Every second pair begins with the peer. A first pair, for
/// caches and threads, does not count. Standard error says what is measured and, at
/// the end, its median.
///
/// # Panics
///
/// If a figure of `ours` is not finite. A peer's turn that is not finite or not above
/// zero (it had nothing to measure) is left out of the peer's median and of the ratio.
pub fn pair(
    name: impl Into<String>,
    unit: impl Into<String>,
    repeats: usize,
    mut ours: impl FnMut() -> f64,
    peer: Option<&mut dyn FnMut() -> f64>,
    pause: Duration,
) -> Row {
    let mut peer = peer.map(|peer| || Ok(peer()));
    let peer = peer.as_mut().map(|peer| peer as &mut dyn FnMut() -> Result<f64, Infallible>);
    match try_pair(name, unit, repeats, || Ok(ours()), peer, pause) {
        Ok(row) => row,
    }
}

/// The same of turns that may fail; the first failure ends it.
///
/// # Errors
///
/// That of a turn.
///
/// # Panics
///
/// As [`pair`].
pub fn try_pair<E>(
    name: impl Into<String>,
    unit: impl Into<String>,
    repeats: usize,
    mut ours: impl FnMut() -> Result<f64, E>,
    mut peer: Option<&mut dyn FnMut() -> Result<f64, E>>,
    pause: Duration,
) -> Result<Row, E> {
    let name = name.into();
    eprintln!("{name} ...");
    let rested = |turn: &mut dyn FnMut() -> Result<f64, E>| {
        thread::sleep(pause);
        turn()
    };
    let turns =
        turns(repeats, || rested(&mut ours), || peer.as_mut().map(|peer| rested(&mut **peer)).transpose())?;
    let row = Row::from_turns(name, unit, &turns);
    let ratio = row.ratio.map_or_else(String::new, |ratio| format!(", {ratio:.3} of the peer's"));
    eprintln!("  {:.4} {}{ratio}", row.value, row.unit);
    Ok(row)
}

/// What both sides measure in turns, at least [`REPEATS`] of each. Every second pair begins with the peer. A
/// first pair, for caches and threads, does not count.
///
/// # Errors
///
/// That of a turn, which ends it.
pub fn turns<O, P, E>(
    repeats: usize,
    mut ours: impl FnMut() -> Result<O, E>,
    mut peer: impl FnMut() -> Result<P, E>,
) -> Result<Vec<(O, P)>, E> {
    let mut turns = Vec::new();
    for turn in 0..=repeats.max(REPEATS) {
        let figures = if turn % 2 == 0 {
            let ours = ours()?;
            (ours, peer()?)
        } else {
            let peer = peer()?;
            (ours()?, peer)
        };
        if turn > 0 {
            turns.push(figures);
        }
    }
    Ok(turns)
}

impl Row {
    /// The row of turns measured elsewhere: FLASH's figure and the peer's beside it.
    ///
    /// # Panics
    ///
    /// If there is no turn, or a figure of FLASH is not finite.
    pub fn from_turns(
        name: impl Into<String>,
        unit: impl Into<String>,
        turns: &[(f64, Option<f64>)],
    ) -> Self {
        let name = name.into();
        assert!(
            !turns.is_empty() && turns.iter().all(|(ours, _)| ours.is_finite()),
            "{name}: expected at least one turn, each with a finite figure, found {turns:?}"
        );
        let ours = sorted(turns.iter().map(|(ours, _)| *ours));
        let pairs = turns.iter().filter_map(|(ours, peer)| {
            let peer = peer.filter(|peer| peer.is_finite() && *peer > 0.0)?;
            Some((*ours, peer))
        });
        let peers = sorted(pairs.clone().map(|(_, peer)| peer));
        let ratios = sorted(pairs.map(|(ours, peer)| ours / peer));
        Self {
            name,
            unit: unit.into(),
            value: median(&ours),
            min: ours[0],
            max: ours[ours.len() - 1],
            p99: ours[(ours.len() * 99).div_ceil(100) - 1],
            peer: (!peers.is_empty()).then(|| median(&peers)),
            ratio: (!ratios.is_empty()).then(|| median(&ratios)),
            interval: interval(if ratios.is_empty() { &ours } else { &ratios }),
            alone: None,
        }
    }

    /// The same, measured by a process that does nothing else.
    pub fn by(self, what: &str, environment: &[(&str, &str)]) -> Self {
        let environment = environment.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        Self { alone: Some(Alone { what: what.into(), environment }), ..self }
    }

    /// The row of several processes: each counts as a turn, whose ratio is the median of its own pairs.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn of_processes(rows: &[Row]) -> Self {
        let turns: Vec<_> = rows.iter().map(|row| (row.value, row.peer)).collect();
        let row = Row::from_turns(&rows[0].name, &rows[0].unit, &turns);
        let ratios = sorted(rows.iter().filter_map(|row| row.ratio));
        match &ratios[..] {
            [] => row,
            ratios => Row { ratio: Some(median(ratios)), interval: interval(ratios), ..row },
        }
    }
}

/// Figures in order.
pub fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// The middle of sorted figures, or the mean of the two in the middle.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

/// The 95 % confidence interval of the median of the distribution that sorted figures were drawn from. As
/// many figures are below that median as a fair coin gives heads, for which the normal distribution stands
/// here.
pub fn interval(sorted: &[f64]) -> Option<[f64; 2]> {
    let count = sorted.len() as f64;
    let below = ((count - 1.96 * count.sqrt()) / 2.0).floor().max(0.0) as usize;
    (sorted.len() >= 6).then(|| [sorted[below], sorted[sorted.len() - 1 - below]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn row(turns: &[(f64, Option<f64>)]) -> Row {
        Row::from_turns("launch", "ns", turns)
    }

    #[test]
    fn the_ratio_is_the_median_of_pairs_not_the_quotient_of_medians() {
        let row = row(&[(1.0, Some(10.0)), (2.0, Some(4.0)), (30.0, Some(20.0))]);
        assert_eq!((row.value, row.peer), (2.0, Some(10.0)));
        assert_eq!(row.ratio, Some(0.5));
        assert_eq!((row.min, row.max), (1.0, 30.0));
    }

    #[test]
    fn the_median_of_an_even_count_is_between_the_two() {
        assert_eq!(row(&[(1.0, None), (2.0, None), (4.0, None), (9.0, None)]).value, 3.0);
    }

    #[test]
    fn p99_is_the_nearest_rank() {
        let turns = |count: u32| (1..=count).map(|i| (f64::from(i), None)).collect::<Vec<_>>();
        assert_eq!(row(&turns(30)).p99, 30.0);
        assert_eq!(row(&turns(100)).p99, 99.0);
        assert_eq!(row(&turns(1000)).p99, 990.0);
    }

    #[test]
    fn the_interval_has_the_median_in_nineteen_of_twenty_cases() {
        let turns = |count: u32| (1..=count).map(|i| (f64::from(i), None)).collect::<Vec<_>>();
        assert_eq!(row(&turns(5)).interval, None);
        // It is outside in 3.1, 4.3 and 4.9 % of all cases, by the binomial distribution.
        assert_eq!(row(&turns(6)).interval, Some([1.0, 6.0]));
        assert_eq!(row(&turns(30)).interval, Some([10.0, 21.0]));
        assert_eq!(row(&turns(300)).interval, Some([134.0, 167.0]));
        let of_ratios: Vec<_> = turns(6).iter().map(|(ours, _)| (*ours, Some(2.0))).collect();
        assert_eq!(row(&of_ratios).interval, Some([0.5, 3.0]));
    }

    #[test]
    fn of_processes_are_the_medians_of_theirs() {
        let scores = [0.9, 1.0, 1.3, 1.1, 0.8, 1.2, 1.05].map(|score| row(&[(score, None)]));
        let score = Row::of_processes(&scores);
        assert_eq!((score.value, score.min, score.max), (1.05, 0.8, 1.3));
        assert_eq!((score.peer, score.ratio, score.interval), (None, None, Some([0.8, 1.3])));
        // The ratio of each is 0.5, that of the medians is not.
        let turns =
            |ours: f64| [(ours, Some(2.0 * ours)), (ours, Some(2.0 * ours)), (10.0 * ours, Some(1.0))];
        let times = Row::of_processes(&[1.0, 3.0].map(|ours| row(&turns(ours))));
        assert_eq!((times.name.as_str(), times.unit.as_str()), ("launch", "ns"));
        assert_eq!((times.value, times.peer, times.ratio, times.interval), (2.0, Some(4.0), Some(0.5), None));
    }

    #[test]
    fn without_a_peer_there_is_no_ratio() {
        let row = row(&[(1.0, None)]);
        assert_eq!((row.peer, row.ratio), (None, None));
    }

    #[test]
    fn a_peers_turn_without_a_figure_is_left_out() {
        let some = row(&[(1.0, Some(f64::NAN)), (3.0, Some(2.0)), (5.0, Some(0.0))]);
        assert_eq!((some.value, some.peer, some.ratio), (3.0, Some(2.0), Some(1.5)));
        let none = row(&[(1.0, Some(f64::NAN))]);
        assert_eq!((none.peer, none.ratio), (None, None));
    }

    #[test]
    #[should_panic(expected = "launch: expected at least one turn, each with a finite figure")]
    fn a_figure_of_ours_that_is_not_finite_is_a_mistake() {
        row(&[(f64::NAN, Some(1.0))]);
    }

    #[test]
    fn turns_alternate_and_the_first_pair_does_not_count() {
        let order = RefCell::new(String::new());
        let ours = || {
            order.borrow_mut().push('o');
            if order.borrow().len() == 1 { 1000.0 } else { 1.0 }
        };
        let mut peer = || {
            order.borrow_mut().push('p');
            2.0
        };
        let row = pair("n", "ns", 0, ours, Some(&mut peer), Duration::ZERO);
        assert_eq!(order.borrow().len(), 2 * (REPEATS + 1));
        assert!(order.borrow().starts_with("oppooppo"), "{order:?}");
        assert_eq!((row.max, row.peer, row.ratio), (1.0, Some(2.0), Some(0.5)));
    }
}
