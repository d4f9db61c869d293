//! The three files of Paraver, as "Paraver: Trace File Description" has them. Each row is a thread of the one
//! task of the one application.

use crate::event::{Category, NameId};
use crate::rows::{Piece, Row, Step, Timeline};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// States of threads.
const IDLE: u32 = 0;
const RUNNING: u32 = 1;
/// A worker that looks for a task.
const SCHEDULING: u32 = 7;
const STATES: [(u32, &str, [u8; 3]); 3] = [
    (IDLE, "Idle", [117, 195, 255]),
    (RUNNING, "Running", [0, 0, 255]),
    (SCHEDULING, "Scheduling", [255, 144, 26]),
];

/// Types of events: the innermost span, its category, changes of spans, instants; numbers of spans; counters.
const SPAN: u64 = 90_000_001;
const CATEGORY: u64 = 90_000_002;
const CHANGE: u64 = 90_000_003;
const INSTANT: u64 = 90_000_004;
const NUMBERS: u64 = 90_000_100;
const COUNTERS: u64 = 91_000_000;
const CHANGES: [&str; 4] = ["begins", "ends", "is suspended", "is resumed"];

/// A line of text, not an empty one: the format has no other form for a name.
fn line(text: &str) -> String {
    match text.trim() {
        "" => "-".into(),
        _ => text.replace(char::is_control, " "),
    }
}

fn name(timeline: &Timeline, id: NameId) -> String {
    line(timeline.names.get(id as usize).map_or("", |name| name))
}

/// A row's name; there is one row at least.
fn rows(timeline: &Timeline) -> Vec<String> {
    match timeline.rows.is_empty() {
        true => vec!["nothing was recorded".into()],
        false => timeline.rows.iter().map(|row| line(&row.name)).collect(),
    }
}

/// Writes the names of rows.
pub(crate) fn write_rows(timeline: &Timeline, to: &mut impl Write) -> io::Result<()> {
    let rows = rows(timeline);
    writeln!(to, "LEVEL CPU SIZE {}", rows.len())?;
    (1..=rows.len()).try_for_each(|cpu| writeln!(to, "{cpu}.CPU"))?;
    writeln!(to, "\nLEVEL NODE SIZE 1\nhost\n\nLEVEL THREAD SIZE {}", rows.len())?;
    rows.iter().try_for_each(|row| writeln!(to, "{row}"))
}

/// Writes what states, types and values mean.
pub(crate) fn write_meanings(timeline: &Timeline, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "DEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC")?;
    writeln!(to, "\nDEFAULT_SEMANTIC\n\nTHREAD_FUNC         State As Is\n\nSTATES")?;
    STATES.iter().try_for_each(|(state, name, _)| writeln!(to, "{state}    {name}"))?;
    writeln!(to, "\nSTATES_COLOR")?;
    STATES.iter().try_for_each(|(state, _, [r, g, b])| writeln!(to, "{state}    {{{r},{g},{b}}}"))?;
    let of_pieces: BTreeSet<NameId> =
        timeline.rows.iter().flat_map(|row| &row.pieces).map(|piece| piece.name).collect();
    let of_instants: BTreeSet<NameId> =
        timeline.rows.iter().flat_map(|row| &row.instants).map(|(_, name)| *name).collect();
    let named = |ids: BTreeSet<NameId>| {
        let ids = ids.into_iter();
        ids.map(|id| (u64::from(id) + 1, name(timeline, id))).collect::<Vec<(u64, String)>>()
    };
    let numbered = |names: &[&str]| (1..).zip(names.iter().map(ToString::to_string)).collect();
    let categories: Vec<&str> = Category::ALL.iter().map(|category| category.name()).collect();
    let none = || vec![(0, "none".to_owned())];
    values(to, SPAN, "Span", [none(), named(of_pieces)].concat())?;
    values(to, CATEGORY, "Kind of span", [none(), numbered(&categories)].concat())?;
    values(to, CHANGE, "A span", numbered(&CHANGES))?;
    values(to, INSTANT, "Instant", named(of_instants))?;
    for category in Category::ALL {
        for (i, number) in (0..).zip(category.numbers()) {
            let name = format!("{}: {number}", category.name());
            values(to, number_of(category, i), &name, Vec::new())?;
        }
    }
    for ((id, key), index) in counters(timeline) {
        let name = match key {
            None => name(timeline, id),
            Some(key) => format!("{}: waiting ({key:x})", name(timeline, id)),
        };
        values(to, COUNTERS + index, &name, Vec::new())?;
    }
    Ok(())
}

/// The type of a number of a category.
fn number_of(category: Category, number: u64) -> u64 {
    NUMBERS + 10 * category as u64 + number
}

/// Writes a type of events, with its values if they are names and not numbers.
fn values(to: &mut impl Write, kind: u64, name: &str, values: Vec<(u64, String)>) -> io::Result<()> {
    writeln!(to, "\nEVENT_TYPE\n0    {kind}    {name}")?;
    if !values.is_empty() {
        writeln!(to, "VALUES")?;
    }
    values.iter().try_for_each(|(value, name)| writeln!(to, "{value}    {name}"))
}

/// All counters, with their numbers.
fn counters(timeline: &Timeline) -> BTreeMap<(NameId, Option<u64>), u64> {
    let all: BTreeSet<_> = timeline.samples.iter().map(|sample| (sample.name, sample.queue)).collect();
    all.into_iter().zip(0..).collect()
}

/// Writes the records, in the order of their times.
pub(crate) fn write_records(timeline: &Timeline, to: &mut impl Write) -> io::Result<()> {
    let (threads, end) = (rows(timeline).len(), timeline.end.max(1));
    let date = date(SystemTime::now());
    writeln!(to, "#Paraver ({date}):{end}_ns:1({threads}):1:1({threads}:1)")?;
    let mut records: Vec<(u64, String)> = Vec::new();
    for (row, of) in timeline.rows.iter().enumerate() {
        of_row(row, of, end, &mut records);
    }
    if timeline.rows.is_empty() {
        records.push((0, format!("1:1:1:1:1:0:{end}:{IDLE}")));
    }
    let counters = counters(timeline);
    for sample in &timeline.samples {
        let (kind, value) = (COUNTERS + counters[&(sample.name, sample.queue)], sample.value.max(0.0) as u64);
        records.push((sample.time, event(sample.row, sample.time, &[(kind, value)])));
    }
    for arrow in &timeline.arrows {
        let place = |row: usize, time: u64| format!("{}:1:1:{}:{time}:{time}", row + 1, row + 1);
        let (from, to) = (place(arrow.from.row, arrow.from.time), place(arrow.to.row, arrow.to.time));
        records.push((arrow.from.time, format!("3:{from}:{to}:1:{}", u64::from(arrow.name) + 1)));
    }
    records.sort_by_key(|(time, _)| *time);
    records.iter().try_for_each(|(_, record)| writeln!(to, "{record}"))
}

/// The record of some events at one time.
fn event(row: usize, time: u64, values: &[(u64, u64)]) -> String {
    let mut record = format!("2:{}:1:1:{}:{time}", row + 1, row + 1);
    for (kind, value) in values {
        record.push_str(&format!(":{kind}:{value}"));
    }
    record
}

/// The records of one row: what is innermost, from change to change, and the changes.
fn of_row(number: usize, row: &Row, end: u64, records: &mut Vec<(u64, String)>) {
    let (mut open, mut since): (Vec<Piece>, u64) = (Vec::new(), 0);
    // Until the time of a step, what was innermost before it ran.
    let until = |innermost: Option<&Piece>, since: &mut u64, time: u64, records: &mut Vec<(u64, String)>| {
        if time == *since {
            return;
        }
        let state = match innermost.map(|piece| piece.category) {
            None => IDLE,
            Some(Category::Worker) => SCHEDULING,
            Some(_) => RUNNING,
        };
        let begin = std::mem::replace(since, time);
        records.push((begin, format!("1:{0}:1:1:{0}:{begin}:{time}:{state}", number + 1)));
        let span = innermost.map_or(0, |piece| u64::from(piece.name) + 1);
        let category = innermost.map_or(0, |piece| piece.category as u64 + 1);
        records.push((begin, event(number, begin, &[(SPAN, span), (CATEGORY, category)])));
    };
    row.steps(|step| match step {
        Step::Begin(piece) => {
            until(open.last(), &mut since, piece.begin, records);
            open.push(*piece);
            let mut values = vec![(CHANGE, if piece.resumed { 4 } else { 1 })];
            let numbers = (0..).zip(piece.category.numbers()).zip(piece.numbers);
            values.extend(numbers.map(|((i, _), value)| (number_of(piece.category, i), value)));
            records.push((piece.begin, event(number, piece.begin, &values)));
        }
        Step::End(piece) => {
            until(open.last(), &mut since, piece.end, records);
            open.pop();
            let change = if piece.suspended { 3 } else { 2 };
            records.push((piece.end, event(number, piece.end, &[(CHANGE, change)])));
        }
    });
    until(None, &mut since, end, records);
    for &(time, name) in &row.instants {
        records.push((time, event(number, time, &[(INSTANT, u64::from(name) + 1)])));
    }
}

/// The date as the header has it, in UTC.
fn date(now: SystemTime) -> String {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    // Days and months from the 1st of March of year 0, after which a leap day comes last in its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * from_march + 2) / 5 + 1, (from_march + 2) % 12 + 1);
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{day:02}/{month:02}/{year:04} at {:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_that_of_the_calendar() {
        let at = |seconds| date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "01/01/1970 at 00:00");
        assert_eq!(at(951_782_400), "29/02/2000 at 00:00");
        assert_eq!(at(1_709_251_199), "29/02/2024 at 23:59");
        assert_eq!(at(1_735_689_600), "01/01/2025 at 00:00");
    }
}
