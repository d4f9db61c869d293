//! The JSON format of trace events, which Perfetto reads. See "Trace Event Format" of the Chromium project.
//!
//! Threads are rows of process 1, devices of process 2.

use crate::rows::{Piece, Row, Step, Timeline};
use std::io::{self, BufWriter, Write};

/// Nanoseconds as the microseconds of the format.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Text as a JSON string.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(crate) fn write(timeline: &Timeline, to: impl Write) -> io::Result<()> {
    let names: Vec<String> = timeline.names.iter().map(|name| text(name)).collect();
    let dropped: u64 = timeline.rows.iter().map(|row| row.dropped).sum();
    let mut file = File { to: BufWriter::new(to), names, first: true };
    write!(
        file.to,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"dropped\":{dropped}}},\"traceEvents\":["
    )?;
    file.event(format_args!(r#""ph":"M","pid":1,"name":"process_name","args":{{"name":"threads"}}"#))?;
    if timeline.rows.iter().any(|row| row.of_device) {
        file.event(format_args!(r#""ph":"M","pid":2,"name":"process_name","args":{{"name":"devices"}}"#))?;
    }
    for (number, row) in timeline.rows.iter().enumerate() {
        file.row(number, row, timeline.end)?;
    }
    for (id, arrow) in timeline.arrows.iter().enumerate() {
        for (phase, place) in [("\"s\"", arrow.from), ("\"f\",\"bp\":\"e\"", arrow.to)] {
            let (pid, tid) = address(place.row, &timeline.rows[place.row]);
            let (name, time) = (file.name(arrow.name), Micros(place.time));
            file.event(format_args!(
                r#""ph":{phase},"pid":{pid},"tid":{tid},"ts":{time},"cat":"flow","name":{name},"id":{id}"#
            ))?;
        }
    }
    for sample in &timeline.samples {
        let time = Micros(sample.time);
        let (name, id) = match sample.queue {
            None => (file.name(sample.name), String::new()),
            Some(key) => (file.queue(sample.name), format!(r#","id":"{key:x}""#)),
        };
        // The format has no numbers that are none.
        let value = if sample.value.is_finite() { sample.value } else { 0.0 };
        file.event(format_args!(
            r#""ph":"C","pid":1,"ts":{time},"name":{name}{id},"args":{{"value":{value}}}"#
        ))?;
    }
    file.to.write_all(b"\n]}\n")?;
    file.to.flush()
}

/// Process and thread of a row.
fn address(number: usize, row: &Row) -> (u32, usize) {
    (if row.of_device { 2 } else { 1 }, number + 1)
}

struct File<W: Write> {
    to: BufWriter<W>,
    /// As JSON strings.
    names: Vec<String>,
    first: bool,
}

impl<W: Write> File<W> {
    fn name(&self, id: u32) -> String {
        self.names.get(id as usize).cloned().unwrap_or_else(|| "\"\"".into())
    }

    /// The name of the queue before something of this name.
    fn queue(&self, id: u32) -> String {
        let name = self.name(id);
        format!("{}: waiting\"", name.strip_suffix('"').unwrap_or(&name))
    }

    fn event(&mut self, event: std::fmt::Arguments<'_>) -> io::Result<()> {
        let before = if std::mem::take(&mut self.first) { "\n{" } else { ",\n{" };
        self.to.write_all(before.as_bytes())?;
        self.to.write_fmt(event)?;
        self.to.write_all(b"}")
    }

    fn row(&mut self, number: usize, row: &Row, end: u64) -> io::Result<()> {
        let (pid, tid) = address(number, row);
        let name = text(&row.name);
        self.event(format_args!(
            r#""ph":"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":{name}}}"#
        ))?;
        self.event(format_args!(
            r#""ph":"M","pid":{pid},"tid":{tid},"name":"thread_sort_index","args":{{"sort_index":{number}}}"#
        ))?;
        let mut result = Ok(());
        row.steps(|step| {
            if result.is_ok() {
                result = self.step(pid, tid, step);
            }
        });
        result?;
        for &(time, name) in &row.instants {
            let (name, time) = (self.name(name), Micros(time));
            self.event(format_args!(
                r#""ph":"i","pid":{pid},"tid":{tid},"ts":{time},"s":"t","name":{name}"#
            ))?;
        }
        if row.dropped > 0 {
            let (time, dropped) = (Micros(end), row.dropped);
            self.event(format_args!(
                r#""ph":"i","pid":{pid},"tid":{tid},"ts":{time},"s":"t","name":"no room for {dropped} events""#
            ))?;
        }
        Ok(())
    }

    fn step(&mut self, pid: u32, tid: usize, step: Step<'_>) -> io::Result<()> {
        match step {
            Step::Begin(piece) => {
                let (name, time) = (self.name(piece.name), Micros(piece.begin));
                let (category, args) = (piece.category.name(), numbers(piece));
                self.event(format_args!(
                    r#""ph":"B","pid":{pid},"tid":{tid},"ts":{time},"cat":"{category}","name":{name}{args}"#
                ))
            }
            Step::End(piece) => {
                let time = Micros(piece.end);
                let args = if piece.suspended { r#","args":{"ends":"suspended"}"# } else { "" };
                self.event(format_args!(r#""ph":"E","pid":{pid},"tid":{tid},"ts":{time}{args}"#))
            }
        }
    }
}

/// What is known of a piece, as the arguments of its begin.
fn numbers(piece: &Piece) -> String {
    let numbers = piece.category.numbers().iter().zip(piece.numbers);
    let mut args: Vec<String> = numbers.map(|(name, number)| format!("\"{name}\":{number}")).collect();
    if piece.resumed {
        args.push("\"begins\":\"resumed\"".into());
    }
    match args.is_empty() {
        true => String::new(),
        false => format!(",\"args\":{{{}}}", args.join(",")),
    }
}
