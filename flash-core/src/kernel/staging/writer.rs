//! The text that is being written: statements, definitions before the kernel, messages of faults. One per
//! thread, while a kernel is staged.

use super::barriers::{OwnIndex, SHARED};
use super::facts::Facts;
use std::any::Any;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

/// Calls of functions inside each other. A text has no recursion.
const MOST_FRAMES: usize = 64;

/// What a kernel's text has so far.
#[derive(Default)]
pub(super) struct Writer {
    /// Statements of the innermost open block.
    pub statements: String,
    /// Types and functions before the kernel, in order, each by its first line.
    definitions: Vec<String>,
    /// Parameters of the kernel.
    pub parameters: Vec<String>,
    /// What a fault says, by its number.
    pub messages: Vec<String>,
    /// What has no text: a line of `#error` each.
    pub errors: Vec<String>,
    /// Arrays of a group's memory, which C wants at the kernel's top.
    pub group_memory: Vec<String>,
    /// The kernel has a team.
    pub team: Option<TeamText>,
    /// The index of the work item, a name for each dimension.
    pub work_item: Vec<Rc<str>>,
    /// Functions that are being written, the kernel first.
    frames: Vec<Frame>,
    /// Loops that are being written.
    loops: Vec<Jumps>,
    /// What a launch can prove.
    pub facts: Facts,
    /// The kernel asks for elements of a window by their numbers, or for these.
    pub numbers_windows: bool,
    names: usize,
    pieces: Vec<Rc<str>>,
}

/// What is known of a kernel's team.
#[derive(Default)]
pub(super) struct TeamText {
    /// What is written is run by one thread for each place of an operation.
    pub inside: bool,
    /// The text stores what an operation has made.
    pub stores: bool,
    /// Arrays for sums, by the types of their elements.
    pub sums: Vec<(String, String)>,
    /// Indices of operations' own elements.
    pub own: Vec<OwnIndex>,
}

/// A piece of text, by its number in this thread's text.
#[derive(Clone, Copy)]
pub(super) struct Piece(u32);

impl Piece {
    pub fn new(text: &str) -> Piece {
        with(|writer| {
            writer.pieces.push(text.into());
            Piece((writer.pieces.len() - 1) as u32)
        })
    }

    pub fn get(self) -> Rc<str> {
        with(|writer| writer.pieces.get(self.0 as usize).cloned()).unwrap_or_else(|| "".into())
    }
}

/// What a loop's body has, outside of loops inside it.
#[derive(Clone, Copy, Default)]
pub(super) struct Jumps {
    /// `break`.
    pub breaks: bool,
    /// `continue`.
    pub continues: bool,
}

/// A function: the label behind it, to which a `return` goes.
struct Frame {
    label: usize,
    /// It computes one value of a team's operation: a panic ends that, and the thread meets the others.
    is_cell: bool,
    /// Declarations of its result, if there was a `return` with one.
    declarations: String,
    result: Option<Box<dyn Any>>,
    returns: bool,
}

thread_local! {
    static WRITER: RefCell<Writer> = RefCell::default();
}

/// Uses this thread's text.
pub(super) fn with<R>(body: impl FnOnce(&mut Writer) -> R) -> R {
    WRITER.with_borrow_mut(body)
}

/// Writes a new text.
pub(super) fn fresh<R>(body: impl FnOnce() -> R) -> (R, Writer) {
    let before = WRITER.replace(Writer::default());
    let result = body();
    (result, WRITER.replace(before))
}

/// Adds a statement.
pub(super) fn say(statement: &str) {
    with(|writer| {
        writer.statements.push_str(statement);
        writer.statements.push('\n');
    });
}

/// A name for an array of a team's memory.
pub(super) fn shared_name() -> String {
    with(|writer| {
        writer.names += 1;
        format!("{SHARED}_{}", writer.names)
    })
}

/// A name that no other variable has, nor any word of the header.
pub(super) fn name(hint: &str) -> String {
    if hint.starts_with("flash_") || hint.starts_with("FLASH_") {
        return name(&format!("of_{hint}"));
    }
    with(|writer| {
        writer.names += 1;
        format!("{hint}_{}", writer.names)
    })
}

/// Adds a definition before the kernel, unless it is there.
pub(super) fn define(text: String) {
    with(|writer| {
        if !writer.definitions.contains(&text) {
            writer.definitions.push(text);
        }
    });
}

/// Notes something that has no text.
#[track_caller]
pub(super) fn error(text: &str) {
    let place = Location::caller();
    let error = format!("{}:{}: {text}", place.file(), place.line());
    with(|writer| {
        // A loop's turns have it, each.
        if !writer.errors.contains(&error) {
            writer.errors.push(error);
        }
    });
}

/// The number of a fault at a place in the kernel's source.
pub(super) fn message(place: &Location<'_>, text: &str) -> usize {
    let text = format!("{}:{}: {text}", place.file(), place.line());
    with(|writer| match writer.messages.iter().position(|known| *known == text) {
        Some(number) => number,
        None => {
            writer.messages.push(text);
            writer.messages.len() - 1
        }
    })
}

/// The statement that notes a fault of a number, at the work item.
pub(super) fn fault(number: &str) {
    let index: String = with(|writer| writer.work_item.iter().map(|index| format!("{index}, ")).collect());
    say(&format!("flash_fault_at({number}, {index}flash_table);"));
}

/// What `body` says, instead of saying it.
pub(super) fn captured<R>(body: impl FnOnce() -> R) -> (R, String) {
    let before = with(|writer| std::mem::take(&mut writer.statements));
    let result = body();
    let said = with(|writer| std::mem::replace(&mut writer.statements, before));
    (result, said)
}

/// What the body of a loop says.
pub(super) fn looped(body: impl FnOnce()) -> (Jumps, String) {
    with(|writer| writer.loops.push(Jumps::default()));
    let ((), said) = captured(body);
    (with(|writer| writer.loops.pop()).unwrap_or_default(), said)
}

/// How many arrays of a group's memory there are.
pub(super) fn group_arrays() -> usize {
    with(|writer| writer.group_memory.len())
}

/// Forgets those that came after the first `count`.
pub(super) fn keep_group_arrays(count: usize) {
    with(|writer| {
        let kept = writer.group_memory.len().min(count);
        let forgotten = writer.group_memory.split_off(kept);
        if let Some(team) = &mut writer.team {
            let is_kept = |array: &str| !forgotten.iter().any(|of| of.contains(&format!(" {array}[")));
            team.sums.retain(|(_, array)| is_kept(array));
        }
    });
}

/// Says a statement that ends the innermost loop, or a turn of it.
pub(super) fn jump(statement: &str, note: impl FnOnce(&mut Jumps)) {
    say(statement);
    with(|writer| writer.loops.last_mut().map(note));
}

/// Says `head`, a block, and `tail`.
pub(super) fn block(head: &str, inside: &str, tail: &str) {
    with(|writer| {
        writer.statements.push_str(head);
        writer.statements.push_str(" {\n");
        writer.statements.push_str(inside);
        writer.statements.push('}');
        writer.statements.push_str(tail);
        writer.statements.push('\n');
    });
}

/// Begins a function, or what computes one value of a team's operation. False: there are too many inside each
/// other.
#[track_caller]
pub(super) fn enter(is_cell: bool) -> bool {
    let fits = with(|writer| {
        writer.names += 1;
        let label = writer.names;
        writer.frames.push(Frame {
            label,
            is_cell,
            declarations: String::new(),
            result: None,
            returns: false,
        });
        writer.frames.len() <= MOST_FRAMES
    });
    if !fits {
        error("this function calls itself: device text has no recursion, write a loop");
    }
    fits
}

/// A `return` of the innermost function: `result` makes its variables where there are none yet.
pub(super) fn returned<V: Clone + 'static>(result: impl FnOnce() -> V) -> V {
    let there = with(|writer| {
        let frame = writer.frames.last_mut()?;
        frame.returns = true;
        frame.result.as_ref()?.downcast_ref::<V>().cloned()
    });
    there.unwrap_or_else(|| {
        let (made, declarations) = captured(result);
        with(|writer| {
            if let Some(frame) = writer.frames.last_mut() {
                frame.declarations = declarations;
                frame.result = Some(Box::new(made.clone()));
            }
        });
        made
    })
}

/// Goes to the end of the innermost function, or of the kernel: in a team's operation, of the value.
pub(super) fn go_to_end(kernel: bool) {
    let label = with(|writer| {
        let frames = &mut writer.frames;
        let last = frames.len().saturating_sub(1);
        let at = if kernel { frames.iter().rposition(|frame| frame.is_cell).unwrap_or(0) } else { last };
        frames.get_mut(at).map_or(0, |frame| {
            frame.returns = true;
            frame.label
        })
    });
    say(&format!("goto end_{label};"));
}

/// How a function ended.
pub(super) struct Ended<V> {
    pub label: usize,
    /// False: nothing went to its label.
    pub returns: bool,
    pub declarations: String,
    pub result: Option<V>,
}

/// Ends the innermost function.
pub(super) fn leave<V: Clone + 'static>() -> Ended<V> {
    with(|writer| {
        let frame = writer.frames.pop();
        let frame = frame.unwrap_or(Frame {
            label: 0,
            is_cell: false,
            declarations: String::new(),
            result: None,
            returns: false,
        });
        let result = frame.result.as_ref().and_then(|result| result.downcast_ref::<V>().cloned());
        Ended { label: frame.label, returns: frame.returns, declarations: frame.declarations, result }
    })
}

impl Writer {
    /// The definitions, one after the other.
    pub(super) fn definitions(&self) -> String {
        self.definitions.concat()
    }
}
