//! A reader of Paraver's files that checks the rules of their formats.

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub struct Shown {
    pub rows: Vec<String>,
    pub communications: usize,
    pub begins: usize,
}

/// The values that the file of meanings has for each type; none for numbers.
struct Meanings {
    states: BTreeSet<u64>,
    types: BTreeMap<u64, BTreeSet<u64>>,
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|e| panic!("{e}: `{text}`"))
}

/// The number that a line begins with, and the text after it.
fn numbered(line: &str) -> (u64, &str) {
    let (first, rest) = line.split_once("    ").unwrap_or_else(|| panic!("no name in `{line}`"));
    assert!(!rest.is_empty(), "no name in `{line}`");
    (number(first), rest)
}

fn meanings(pcf: &str) -> Meanings {
    let mut meanings = Meanings { states: BTreeSet::new(), types: BTreeMap::new() };
    let (mut section, mut kind) = ("", 0);
    for line in pcf.lines().filter(|line| !line.is_empty()) {
        if line.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            section = line;
            continue;
        }
        match section {
            "DEFAULT_OPTIONS" | "DEFAULT_SEMANTIC" => {}
            "STATES" => assert!(meanings.states.insert(numbered(line).0), "{line} again"),
            "STATES_COLOR" => {
                let (state, color) = numbered(line);
                assert!(meanings.states.contains(&state), "{line} is of no state");
                let parts = color.trim_matches(['{', '}']).split(',').map(number);
                assert_eq!(parts.filter(|part| *part < 256).count(), 3, "{line}");
            }
            "EVENT_TYPE" => {
                let (color, rest) = numbered(line);
                assert!(color < 10, "{line}");
                kind = numbered(rest).0;
                assert!(meanings.types.insert(kind, BTreeSet::new()).is_none(), "{line} again");
            }
            "VALUES" => {
                let value = numbered(line).0;
                assert!(meanings.types.get_mut(&kind).unwrap().insert(value), "{line} again");
            }
            _ => panic!("`{line}` is in no section"),
        }
    }
    meanings
}

/// The names of each level.
fn levels(row: &str) -> HashMap<&str, Vec<&str>> {
    let mut levels = HashMap::new();
    let mut lines = row.lines();
    while let Some(head) = lines.next() {
        if head.is_empty() {
            continue;
        }
        let words: Vec<&str> = head.split(' ').collect();
        let ["LEVEL", level, "SIZE", size] = words[..] else { panic!("`{head}` is no level") };
        let names: Vec<&str> = lines.by_ref().take(number(size) as usize).collect();
        assert_eq!(names.len() as u64, number(size), "level {level} has too few names");
        assert!(names.iter().all(|name| !name.is_empty()), "{level} {names:?}");
        levels.insert(level, names);
    }
    levels
}

pub fn read(prv: &str, pcf: &str, row: &str) -> Shown {
    let (meanings, levels) = (meanings(pcf), levels(row));
    let mut lines = prv.lines();
    let head = lines.next().expect("a header");
    let date = head.strip_prefix("#Paraver (").and_then(|rest| rest.split_once("):"));
    let (date, rest) = date.unwrap_or_else(|| panic!("no date in {head}"));
    let shape: String = date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "00/00/0000 at 00:00");
    let fields: Vec<&str> = rest.split(':').collect();
    // Time, nodes with their processors, one application with one task, its threads and their node.
    let [time, nodes, "1", tasks, node] = fields[..] else { panic!("{head}") };
    let end = number(time.strip_suffix("_ns").expect("a unit"));
    let cpus = number(nodes.strip_prefix("1(").and_then(|rest| rest.strip_suffix(')')).expect("processors"));
    let threads = number(tasks.strip_prefix("1(").expect("threads"));
    assert_eq!(node, "1)");
    assert!(cpus > 0 && threads > 0 && end > 0, "{head}");
    assert_eq!(levels["CPU"].len() as u64, cpus);
    assert_eq!(levels["THREAD"].len() as u64, threads);
    assert_eq!(levels["NODE"].len(), 1);

    let (mut before, mut communications, mut begins) = (0, 0, 0);
    // Until where the states of each thread go.
    let mut states: HashMap<u64, u64> = HashMap::new();
    let place = |fields: &[u64]| {
        assert!((1..=cpus).contains(&fields[0]) && fields[1..3] == [1, 1], "{fields:?}");
        assert!((1..=threads).contains(&fields[3]), "{fields:?}");
        fields[3]
    };
    for line in lines {
        let fields: Vec<u64> = line.split(':').map(number).collect();
        let thread = place(&fields[1..5]);
        let at = fields[5];
        assert!(before <= at && at <= end, "{line} comes after {before}, and the end is {end}");
        before = at;
        match fields[0] {
            1 => {
                let [until, state] = fields[6..] else { panic!("{line}") };
                assert!(at < until && until <= end && meanings.states.contains(&state), "{line}");
                assert_eq!(states.insert(thread, until).unwrap_or(0), at, "{line} leaves a gap, or overlaps");
            }
            2 => {
                assert!(fields.len() > 6 && fields.len().is_multiple_of(2), "{line}");
                for pair in fields[6..].chunks(2) {
                    let values = meanings.types.get(&pair[0]);
                    let values = values.unwrap_or_else(|| panic!("{line} is of no type"));
                    assert!(values.is_empty() || values.contains(&pair[1]), "{line} has an unknown value");
                    begins += usize::from(pair[0] == 90_000_003 && [1, 4].contains(&pair[1]));
                }
            }
            3 => {
                let [sent, _, _, _, _, received, arrived, _, _] = fields[6..] else { panic!("{line}") };
                place(&fields[7..11]);
                assert!(at <= sent && received <= arrived && sent <= arrived && arrived <= end, "{line}");
                communications += 1;
            }
            _ => panic!("{line} is of no kind"),
        }
    }
    assert_eq!(states.len() as u64, threads);
    assert!(states.values().all(|until| *until == end), "states end before the trace: {states:?}, {end}");
    Shown { rows: levels["THREAD"].iter().map(ToString::to_string).collect(), communications, begins }
}
