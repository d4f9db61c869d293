//! The barriers of a team's text that are needed.
//!
//! Every operation of a team is written between two barriers. Most need fewer: an operation that touches
//! other memory than the one before does not wait for it, nor does one in which each thread touches what it
//! has touched itself. A barrier costs a GPU the time of its slowest thread, and a CPU a loop over all work
//! items of its own, with what each keeps in between. So those are left out without which no thread meets,
//! since the last barrier that all have passed, what another thread has touched.
//!
//! This looks at the finished text, in which all is told: arrays of the team's memory by their names, their
//! own elements by the names of their indices, the arrays of the launch by the macros that reach their
//! elements. What is not understood counts as a conflict. Between operations all threads take the same way.
//!
//! *What may not be missed*: accesses to one array of the team's, or to an array of the launch that is
//! written, of which one writes, by threads that may be two, and between which the text has a barrier. (What
//! stands between two barriers is right as it is.) An own element is that of one thread in all operations
//! over as many dimensions: element `n` of an operation's is of thread `n % THREADS`. So the rows of an
//! array, as those of an operation over one dimension, are other threads' than its elements.

use std::collections::HashMap;
use std::ops::Range;

/// The statement of a barrier.
pub(super) const MEET: &str = "FLASH_MEET();";

/// What the names of a team's memory begin with.
pub(super) const SHARED: &str = "flash_shared";

/// The index of an operation's own element.
pub(super) struct OwnIndex {
    pub name: String,
    /// Of which dimension.
    pub dimension: usize,
    /// Of an array with these extents; of one dimension, they may be any.
    pub extents: Vec<usize>,
    /// The turn of the thread's loop; `None`: these may be many.
    pub turn: Option<Turn>,
}

/// A turn of a thread's loop over its elements.
#[derive(Clone)]
pub(super) struct Turn {
    /// The variable that counts them.
    pub name: String,
    /// How many there are.
    pub count: usize,
}

/// Names of a text.
pub(super) struct Names<'t> {
    /// The declarations of the team's memory.
    pub shared: &'t [String],
    /// The parameters of the kernel.
    pub parameters: &'t [String],
    pub own: &'t [OwnIndex],
}

/// Macros behind which the name of an array stands whose elements they reach.
const REACH: [&str; 5] = ["FLASH_AT(", "FLASH_PROVED(", "FLASH_SURE_AT(", "FLASH_NEXT(", "FLASH_REDUCE("];

/// In the place of a name: all arrays of the launch that are written.
const LAUNCH: &str = "";

/// How threads have touched an array.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Touched {
    /// Each its own elements, in operations over these numbers of dimensions: one bit each.
    own_read: u8,
    own_written: u8,
    /// Any elements.
    read: bool,
    written: bool,
}

impl Touched {
    /// `own`: the dimensions of an operation whose own elements these are; 0: any.
    fn of(own: usize, is_written: bool) -> Touched {
        let ranks = if own > 0 { 1 << own } else { 0 };
        Touched {
            own_read: if is_written { 0 } else { ranks },
            own_written: if is_written { ranks } else { 0 },
            read: own == 0 && !is_written,
            written: own == 0 && is_written,
        }
    }

    fn or(self, other: Touched) -> Touched {
        Touched {
            own_read: self.own_read | other.own_read,
            own_written: self.own_written | other.own_written,
            read: self.read | other.read,
            written: self.written | other.written,
        }
    }

    /// True if two threads may be at one element, and one of them writes it.
    fn conflicts(self, other: Touched) -> bool {
        let writes_into = |a: Touched, b: Touched| {
            let own = b.own_read | b.own_written;
            let is_others = own != 0 && (own | a.own_written).count_ones() > 1;
            a.written && b != Touched::default() || a.own_written != 0 && (b.read || b.written || is_others)
        };
        writes_into(self, other) || writes_into(other, self)
    }
}

/// What was touched, by names.
type Accesses<'t> = HashMap<&'t str, Touched>;

fn add<'t>(to: &mut Accesses<'t>, name: &'t str, touched: Touched) {
    let entry = to.entry(name).or_default();
    *entry = entry.or(touched);
}

/// What was touched since the last barrier that is kept.
#[derive(Clone, Default, PartialEq)]
struct Since<'t> {
    /// Before one that is left out.
    before: Accesses<'t>,
    /// After it.
    after: Accesses<'t>,
}

impl<'t> Since<'t> {
    fn join(&mut self, other: &Since<'t>) {
        other.before.iter().for_each(|(name, touched)| add(&mut self.before, name, *touched));
        other.after.iter().for_each(|(name, touched)| add(&mut self.after, name, *touched));
    }

    /// True if this conflicts with what was touched before a barrier that is left out.
    fn conflicts(&self, name: &str, touched: Touched) -> bool {
        self.before.get(name).is_some_and(|before| before.conflicts(touched))
    }

    /// A barrier.
    fn meet(&mut self, is_left_out: bool) {
        let after = std::mem::take(&mut self.after);
        match is_left_out {
            true => after.into_iter().for_each(|(name, touched)| add(&mut self.before, name, touched)),
            false => self.before.clear(),
        }
    }
}

/// Whether a text touches an array at one place only, whose indices are `own`.
pub(super) fn touches_only(text: &str, array: &str, own: &str) -> bool {
    text.match_indices(array).all(|(at, _)| {
        let behind = &text[at + array.len()..];
        behind.starts_with(is_of_a_name) || behind.starts_with(own)
    })
}

/// Leaves out the barriers in a kernel's statements that are not needed.
pub(super) fn thin(statements: &str, names: &Names<'_>) -> String {
    let lines: Vec<&str> = statements.lines().collect();
    let Some(text) = Text::new(lines, names) else { return statements.to_owned() };
    let mut left_out = vec![false; text.lines.len()];
    // The last ones first: a barrier where a turn of a loop begins is as good as one where it ends, and then
    // PoCL makes faster loops of what stands between them.
    for at in (0..text.lines.len()).rev() {
        if text.is_barrier(at) {
            left_out[at] = true;
            left_out[at] = text.is_sound(&left_out);
        }
    }
    let kept = text.lines.iter().zip(&left_out).filter(|(_, is_left_out)| !**is_left_out);
    kept.map(|(line, _)| format!("{line}\n")).collect()
}

/// Statements, with what each touches.
struct Text<'t> {
    lines: Vec<&'t str>,
    touched: Vec<Vec<(&'t str, Touched)>>,
    /// For a line that opens a block, the one that closes it.
    closes: HashMap<usize, usize>,
}

impl<'t> Text<'t> {
    /// `None`: its blocks are not understood.
    fn new(lines: Vec<&'t str>, names: &'t Names<'_>) -> Option<Text<'t>> {
        let (mut open, mut closes) = (Vec::new(), HashMap::new());
        for (at, line) in lines.iter().enumerate() {
            let line = line.trim();
            if line.starts_with('}') {
                closes.insert(open.pop()?, at);
            }
            if line.ends_with('{') {
                open.push(at);
            }
        }
        if !open.is_empty() {
            return None;
        }
        let reader = Reader::new(&lines, names);
        let touched = lines.iter().map(|line| reader.touched(line)).collect();
        Some(Text { lines, touched, closes })
    }

    fn line(&self, at: usize) -> &'t str {
        self.lines[at].trim()
    }

    fn is_barrier(&self, at: usize) -> bool {
        self.line(at) == MEET
    }

    fn is_loop(&self, at: usize) -> bool {
        ["for ", "while ", "do "].iter().any(|head| self.line(at).starts_with(head))
    }

    fn has_barrier(&self, mut lines: Range<usize>) -> bool {
        lines.any(|at| self.is_barrier(at))
    }

    /// True for a jump in a loop past a barrier.
    fn jumps(&self, at: usize) -> bool {
        if !matches!(self.line(at), "break;" | "continue;") {
            return false;
        }
        // The innermost loop around it.
        let around = |(open, close): (&usize, &usize)| (*open < at && at < *close).then_some(*open..*close);
        let loops = self.closes.iter().filter_map(around).filter(|block| self.is_loop(block.start));
        loops.min_by_key(|block| block.len()).is_none_or(|block| self.has_barrier(block))
    }

    /// True if no thread touches what another one may have touched before a barrier that is left out. A
    /// work-group is the team of one work item.
    fn is_sound(&self, left_out: &[bool]) -> bool {
        let mut walk = Walk { text: self, left_out, labels: HashMap::new() };
        walk.sequence(0..self.lines.len(), &mut Since::default())
    }
}

/// A look at all ways through a text.
struct Walk<'w, 't> {
    text: &'w Text<'t>,
    left_out: &'w [bool],
    /// What was touched where a `goto` has left for a label behind it.
    labels: HashMap<&'t str, Since<'t>>,
}

impl<'t> Walk<'_, 't> {
    /// A loop over these lines, after what is in `since`.
    fn repeated(&mut self, body: Range<usize>, since: &mut Since<'t>) -> bool {
        if body.clone().any(|at| self.text.jumps(at)) {
            // A turn may end anywhere.
            let all = body.clone().flat_map(|at| &self.text.touched[at]);
            all.for_each(|(name, touched)| add(&mut since.before, name, *touched));
        }
        loop {
            let mut turn = since.clone();
            if !self.sequence(body.clone(), &mut turn) {
                return false;
            }
            let known = since.clone();
            since.join(&turn);
            if *since == known {
                return true;
            }
        }
    }

    /// These lines, one after the other.
    fn sequence(&mut self, lines: Range<usize>, since: &mut Since<'t>) -> bool {
        let mut at = lines.start;
        while at < lines.end {
            let line = self.text.line(at);
            if self.text.is_barrier(at) {
                since.meet(self.left_out[at]);
            } else if let Some(label) = line.strip_prefix("goto ") {
                self.labels.entry(name_of(label)).or_default().join(since);
            } else if let Some(left) = self.labels.get(name_of(line)) {
                since.join(left);
            }
            for (name, touched) in &self.text.touched[at] {
                if since.conflicts(name, *touched) {
                    return false;
                }
                add(&mut since.after, name, *touched);
            }
            let Some(&close) = self.text.closes.get(&at) else {
                at += 1;
                continue;
            };
            let Some(end) = self.block(at, close, since) else { return false };
            // The condition of a loop is looked at again.
            let again = self.text.touched[at].iter().chain(&self.text.touched[end]);
            if again.clone().any(|(name, touched)| since.conflicts(name, *touched)) {
                return false;
            }
            again.for_each(|(name, touched)| add(&mut since.after, name, *touched));
            at = end + 1;
        }
        true
    }

    /// A block, and those behind `else`. Returns the line at which they end; `None`: it is not sound.
    fn block(&mut self, open: usize, mut close: usize, since: &mut Since<'t>) -> Option<usize> {
        if self.text.is_loop(open) {
            return self.repeated(open + 1..close, since).then_some(close);
        }
        if !self.text.line(open).starts_with("if ") {
            return self.sequence(open + 1..close, since).then_some(close);
        }
        let (entered, mut open) = (since.clone(), open);
        loop {
            let mut other = entered.clone();
            if !self.sequence(open + 1..close, &mut other) {
                return None;
            }
            since.join(&other);
            match self.text.closes.get(&close) {
                Some(&next) => (open, close) = (close, next),
                None => return Some(close),
            }
        }
    }
}

/// Finds what lines touch.
struct Reader<'t> {
    own: &'t [OwnIndex],
    /// The extents of the team's arrays.
    shared: HashMap<&'t str, Vec<usize>>,
    /// Arrays of the launch that are only read.
    read_only: Vec<&'t str>,
}

pub(super) fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The name at the beginning of a text.
pub(super) fn name_of(text: &str) -> &str {
    &text[..text.find(|c| !is_of_a_name(c)).unwrap_or(text.len())]
}

/// The name at the end of a declaration, such as `const float *const x`.
pub(super) fn declared(text: &str) -> &str {
    let text = text.trim_end();
    &text[text.rfind(|c| !is_of_a_name(c)).map_or(0, |at| at + 1)..]
}

impl<'t> Reader<'t> {
    fn new(lines: &[&'t str], names: &'t Names<'_>) -> Reader<'t> {
        let array = |declaration: &'t String| {
            let (name, extents) = declaration.split_at(declaration.find('[').unwrap_or(declaration.len()));
            (declared(name), extents.split(['[', ']']).filter_map(|extent| extent.parse().ok()).collect())
        };
        let is_read_only = |text: &&str| text.contains("FLASH_GLOBAL const ") && text.contains('*');
        let parameters = names.parameters.iter().map(String::as_str);
        // One of a group, whose number is not known.
        let chosen = lines.iter().filter_map(|line| Some(line.split_once(" = ")?.0));
        let read_only = parameters.chain(chosen).filter(is_read_only).map(declared).collect();
        Reader { own: names.own, shared: names.shared.iter().map(array).collect(), read_only }
    }

    fn touched(&self, line: &'t str) -> Vec<(&'t str, Touched)> {
        let line = line.trim();
        let shared = line.match_indices(SHARED).map(|(at, _)| {
            let name = name_of(&line[at..]);
            let extents = self.shared.get(name);
            let own = extents.map_or(0, |extents| self.own(&line[at + name.len()..], extents));
            // A store begins its statement. Behind an address anything may follow.
            match line[..at].ends_with('&') {
                true => (name, Touched::of(0, false).or(Touched::of(0, true))),
                false => (name, Touched::of(own, at == 0)),
            }
        });
        let reaches = |macro_name: &&str| {
            let mut names =
                line.match_indices(macro_name).map(|(at, _)| name_of(&line[at + macro_name.len()..]));
            names.any(|name| !self.read_only.contains(&name))
        };
        let launch = REACH.iter().any(reaches);
        let launch = launch.then(|| (LAUNCH, Touched::of(0, false).or(Touched::of(0, true))));
        shared.chain(launch).collect()
    }

    /// The dimensions of the operation, if a text begins with the indices of an own element in an array of
    /// these extents; otherwise 0. The innermost dimensions may be those of an element's own arrays.
    fn own(&self, text: &str, extents: &[usize]) -> usize {
        let mut indices = text.strip_prefix('[').into_iter().flat_map(|text| text.split("][").map(inside));
        if extents.len() == 1 && indices.clone().next() == Some("flash_lane") {
            return 1;
        }
        let of = |name: &str| self.own.iter().find(|own| own.name == name);
        let Some(first) = indices.next().and_then(of).filter(|first| first.dimension == 0) else {
            return 0;
        };
        let dimensions = first.extents.len();
        let fits = dimensions == 1 || extents.get(..dimensions) == Some(&first.extents[..]);
        let is_own = fits
            && (1..dimensions).all(|dimension| {
                let own = indices.next().and_then(of);
                own.is_some_and(|own| own.dimension == dimension && own.extents == first.extents)
            });
        if is_own { dimensions } else { 0 }
    }
}

/// What stands before the bracket that ends an index.
fn inside(text: &str) -> &str {
    text.split(']').next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of the lines of the barriers that stay, among all barriers, of a text that has one for each
    /// line `meet`.
    fn kept(text: &str) -> Vec<usize> {
        let (shared, parameters) = (
            ["float flash_shared_1[8][8]", "float flash_shared_2[8][8]", "flash_s_v flash_shared_3[64][2]"]
                .map(str::to_owned),
            ["FLASH_GLOBAL const float *x_4", "FLASH_GLOBAL float *y_5"].map(str::to_owned),
        );
        let own = |name: &str, dimension, extents: &[usize]| OwnIndex {
            name: name.to_owned(),
            dimension,
            extents: extents.to_vec(),
            turn: None,
        };
        let own = [own("at_6", 0, &[8, 8]), own("at_7", 1, &[8, 8]), own("slot_8", 0, &[64])];
        let names = Names { shared: &shared, parameters: &parameters, own: &own };
        // Each barrier is told apart by the statement before it.
        let mut number = 0;
        let numbered = text.lines().map(|line| match line.trim() {
            "meet" => {
                number += 1;
                format!("mark({});\n{MEET}\n", number - 1)
            }
            line => format!("{line}\n"),
        });
        let thinned = thin(&numbered.collect::<String>(), &names);
        let lines: Vec<&str> = thinned.lines().collect();
        let marks = lines.windows(2).filter(|pair| pair[1] == MEET).map(|pair| pair[0]);
        marks.map(|mark| mark["mark(".len()..mark.len() - 2].parse().unwrap()).collect()
    }

    #[test]
    fn operations_on_other_memory_do_not_wait_and_readers_do() {
        let two = "flash_shared_1[at_6][at_7] = 1;\nmeet\nflash_shared_2[at_6][at_7] = 2;\nmeet\n";
        assert_eq!(kept(two), [0; 0]);
        assert_eq!(kept(&format!("{two}float a = flash_shared_1[at_6][3];\n")), [0]);
        // Each thread reads what it has written itself.
        assert_eq!(kept(&format!("{two}float a = flash_shared_1[at_6][at_7];\n")), [0; 0]);
        // The other way round it is another thread's.
        assert_eq!(kept(&format!("{two}float a = flash_shared_1[at_7][at_6];\n")), [0]);
        // Of elements that have arrays of their own, too; and what has two extents is another element.
        let own = "flash_shared_3[slot_8][1].a = 1;\nmeet\n";
        assert_eq!(kept(&format!("{own}float a = flash_shared_3[slot_8][0].a;\n")), [0; 0]);
        assert_eq!(kept(&format!("{own}float a = flash_shared_3[at_6][at_7].a;\n")), [0]);
        assert_eq!(kept(&format!("{own}f(&flash_shared_3[slot_8][0]);\n")), [0]);
    }

    #[test]
    fn rows_are_other_threads_than_elements() {
        let (elements, rows) = ("flash_shared_1[at_6][at_7] = 1;", "flash_shared_1[slot_8][0] = 1;");
        assert_eq!(kept(&format!("{elements}\nmeet\nfloat a = flash_shared_1[slot_8][0];\n")), [0]);
        assert_eq!(kept(&format!("{rows}\nmeet\nfloat a = flash_shared_1[at_6][at_7];\n")), [0]);
        assert_eq!(kept(&format!("{rows}\nmeet\n{elements}\n")), [0]);
        assert_eq!(
            kept("float a = flash_shared_1[slot_8][0];\nmeet\nflash_shared_1[at_6][at_7] = 1;\n"),
            [0]
        );
        assert_eq!(kept(&format!("{rows}\nmeet\n{rows}\n")), [0; 0]);
    }

    #[test]
    fn what_has_been_read_is_not_written_before_all_have() {
        let text = "float a = flash_shared_1[0][0];\nmeet\nflash_shared_1[at_6][at_7] = 2;\n";
        assert_eq!(kept(text), [0]);
        let both_read = "float a = flash_shared_1[0][0];\nmeet\nfloat b = flash_shared_1[1][0];\n";
        assert_eq!(kept(both_read), [0; 0]);
    }

    #[test]
    fn a_loop_has_a_barrier_between_its_turns() {
        let turn = "meet\nflash_shared_1[at_6][at_7] = 1;\nmeet\nflash_shared_2[at_6][at_7] = 1;\nmeet\nfloat a = flash_shared_1[at_6][0] + flash_shared_2[0][at_7];\nmeet\n";
        // One before the turn's stores or behind its loads, and one between these.
        assert_eq!(kept(&format!("for (;;) {{\n{turn}}}\n")), [0, 2]);
        let loops = "for (int i = 0; i < 4; ++i) {\nmeet\nfloat a = flash_shared_1[at_6][0];\n}\nmeet\nflash_shared_1[at_6][at_7] = 2;\n";
        assert_eq!(kept(loops), [1]);
        let condition = "flash_shared_1[at_6][at_7] = 1;\nmeet\nwhile (flash_shared_1[0][0] > 0) {\nmeet\nflash_shared_2[at_6][at_7] = 1;\n}\n";
        assert_eq!(kept(condition), [0]);
    }

    #[test]
    fn branches_and_jumps_are_all_ways() {
        let branch =
            "if (x) {\nflash_shared_1[at_6][at_7] = 1;\n} else {\nflash_shared_2[at_6][at_7] = 1;\n}\nmeet\n";
        for read in [1, 2] {
            let reads = format!("{branch}float a = flash_shared_{read}[0][0];\nmeet\n");
            assert_eq!(kept(&reads), [0]);
        }
        assert_eq!(kept(&format!("{branch}float a = flash_shared_3[0][0].a;\n")), [0; 0]);
        // The barrier in the loop may not be reached.
        let leaves = "for (;;) {\nflash_shared_1[at_6][at_7] = 1;\nif (x) {\nbreak;\n}\nmeet\nfloat b = 0;\n}\nmeet\nfloat a = flash_shared_1[0][0];\n";
        assert!(kept(leaves).contains(&1), "{:?}", kept(leaves));
        let skips = "flash_shared_1[at_6][at_7] = 1;\n{\ngoto end_9;\nmeet\n}\nend_9:;\nmeet\nfloat a = flash_shared_1[0][0];\n";
        assert!(kept(skips).contains(&1), "{:?}", kept(skips));
    }

    #[test]
    fn arrays_of_the_launch_that_are_written_are_any_element() {
        let store = "FLASH_PROVED(y_5, own, 0) = 1;\nmeet\n";
        assert_eq!(kept(&format!("{store}float a = FLASH_AT(y_5, 3);\n")), [0]);
        let chosen = "FLASH_GLOBAL const float *const z_9 = (q < 1 ? x_4 : x_4);\n";
        assert_eq!(kept(&format!("{chosen}{store}float a = FLASH_AT(x_4, 3) + FLASH_AT(z_9, 3);\n")), [0; 0]);
        assert_eq!(kept(&format!("{store}flash_shared_1[at_6][at_7] = 1;\n")), [0; 0]);
        // Blocks that do not end are left as they are.
        assert_eq!(kept("flash_shared_1[at_6][at_7] = 1;\nmeet\nmeet\n{\n"), [0, 1]);
    }
}
