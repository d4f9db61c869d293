//! A reader of trace events that checks the rules of the format.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

pub type Row = (u64, u64);

#[derive(Debug, Clone)]
pub struct Span {
    pub row: Row,
    pub name: String,
    pub category: String,
    /// In nanoseconds.
    pub begin: u64,
    pub end: u64,
    pub depth: usize,
    pub args: Value,
    pub suspended: bool,
}

#[derive(Debug)]
pub struct Flow {
    pub name: String,
    pub from: (Row, u64),
    pub to: (Row, u64),
}

pub struct Shown {
    pub rows: BTreeMap<Row, String>,
    /// In the order of their begins on their rows.
    pub spans: Vec<Span>,
    pub flows: Vec<Flow>,
    /// Values by name.
    pub counters: BTreeMap<String, Vec<f64>>,
    pub instants: Vec<String>,
    pub dropped: u64,
}

impl Shown {
    pub fn named(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    /// The innermost span of a row at a time.
    pub fn at(&self, (row, time): (Row, u64)) -> &Span {
        let here = |span: &&Span| span.row == row && span.begin <= time && time <= span.end;
        let deepest = self.spans.iter().filter(here).max_by_key(|span| (span.depth, span.begin));
        deepest.unwrap_or_else(|| panic!("nothing is on {row:?} at {time}"))
    }
}

fn nanoseconds(event: &Value) -> u64 {
    let ts = event["ts"].as_f64().unwrap_or_else(|| panic!("no time in {event}"));
    assert!(ts >= 0.0, "{event}");
    (ts * 1000.0).round() as u64
}

pub fn read(json: &[u8]) -> Shown {
    let file: Value = serde_json::from_slice(json).expect("it is JSON");
    let mut shown = Shown {
        rows: BTreeMap::new(),
        spans: Vec::new(),
        flows: Vec::new(),
        counters: BTreeMap::new(),
        instants: Vec::new(),
        dropped: file["otherData"]["dropped"].as_u64().unwrap(),
    };
    let mut open: HashMap<Row, Vec<usize>> = HashMap::new();
    let mut last: HashMap<Row, u64> = HashMap::new();
    let mut flows: HashMap<u64, (String, (Row, u64), bool)> = HashMap::new();
    for event in file["traceEvents"].as_array().expect("a list of events") {
        let phase = event["ph"].as_str().expect("a phase");
        let pid = event["pid"].as_u64().expect("a process");
        let name = event["name"].as_str().map(str::to_owned);
        let name = || name.clone().unwrap_or_else(|| panic!("no name in {event}"));
        let row = || (pid, event["tid"].as_u64().expect("a thread"));
        if "BE".contains(phase) {
            let before = last.insert(row(), nanoseconds(event)).unwrap_or(0);
            assert!(before <= nanoseconds(event), "{event} comes after {before}");
        }
        match phase {
            "M" => match name().as_str() {
                "thread_name" => {
                    let name = event["args"]["name"].as_str().unwrap().to_owned();
                    assert!(shown.rows.insert(row(), name).is_none(), "{event} again");
                }
                other => assert!(["process_name", "thread_sort_index"].contains(&other), "{event}"),
            },
            "B" => {
                assert!(shown.rows.contains_key(&row()), "{event} is on no row");
                let open = open.entry(row()).or_default();
                open.push(shown.spans.len());
                shown.spans.push(Span {
                    row: row(),
                    name: name(),
                    category: event["cat"].as_str().unwrap().into(),
                    begin: nanoseconds(event),
                    end: u64::MAX,
                    depth: open.len(),
                    args: event["args"].clone(),
                    suspended: false,
                });
            }
            "E" => {
                let at =
                    open.get_mut(&row()).and_then(Vec::pop).unwrap_or_else(|| panic!("{event} ends nothing"));
                shown.spans[at].end = nanoseconds(event);
                shown.spans[at].suspended = event["args"]["ends"] == "suspended";
            }
            "s" => {
                let id = event["id"].as_u64().unwrap();
                let before = flows.insert(id, (name(), (row(), nanoseconds(event)), false));
                assert!(before.is_none(), "two flows with one number: {event}");
            }
            "f" => {
                assert_eq!(event["bp"], "e", "it binds to what encloses it: {event}");
                let (name, from, done) = flows.get_mut(&event["id"].as_u64().unwrap()).expect("a begin");
                assert!(!std::mem::replace(done, true), "{event} ends it again");
                let flow = Flow { name: name.clone(), from: *from, to: (row(), nanoseconds(event)) };
                assert!(flow.from.1 <= flow.to.1, "{flow:?} goes back in time");
                shown.flows.push(flow);
            }
            "C" => {
                let value = event["args"]["value"].as_f64().expect("a value");
                shown.counters.entry(name()).or_default().push(value);
                nanoseconds(event);
            }
            "i" => {
                assert!(shown.rows.contains_key(&row()) && event["s"] == "t", "{event}");
                shown.instants.push(name());
                nanoseconds(event);
            }
            _ => panic!("an event of another kind: {event}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "a span has no end");
    assert!(flows.values().all(|(_, _, done)| *done), "a flow has no end");
    for flow in &shown.flows {
        shown.at(flow.from);
        shown.at(flow.to);
    }
    shown
}
