//! What is recorded, and its form in memory: four words.

/// The number of a name in the table of its trace.
pub(crate) type NameId = u32;

/// What a span is of, and so what its two numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Category {
    /// Something of the program. No numbers.
    Program = 0,
    /// A batch of a node: its replica, and the number of data.
    Node = 1,
    /// A task: its priority (0 low, 1 normal, 2 high), and the worker that it is bound to, from 1, or 0.
    Task = 2,
    /// A worker that runs tasks or looks for some. No numbers.
    Worker = 3,
    /// A launch on a device: nanoseconds on the device itself, if known. Recorded by
    /// [`crate::Trace::profile`].
    Launch = 4,
    /// A task of a task graph: its number.
    GraphTask = 5,
}

impl Category {
    pub(crate) const ALL: [Category; 6] = [
        Category::Program,
        Category::Node,
        Category::Task,
        Category::Worker,
        Category::Launch,
        Category::GraphTask,
    ];

    /// Its name in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Category::Program => "program",
            Category::Node => "node",
            Category::Task => "task",
            Category::Worker => "worker",
            Category::Launch => "launch",
            Category::GraphTask => "task of a graph",
        }
    }

    /// The names of its numbers in files.
    pub(crate) fn numbers(self) -> &'static [&'static str] {
        match self {
            Category::Program | Category::Worker => &[],
            Category::Node => &["replica", "data"],
            Category::Task => &["priority", "bound to worker"],
            Category::Launch => &["device ns"],
            Category::GraphTask => &["number"],
        }
    }
}

/// An event of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    Begin {
        name: NameId,
        category: Category,
        numbers: [u64; 2],
    },
    /// Ends the last span that is open on the stack.
    End,
    /// The thread goes on on a stack of its own, which has spans of its own.
    Enter {
        stack: u64,
    },
    /// Back to the stack from which it was entered.
    Leave,
    Instant {
        name: NameId,
    },
    Counter {
        name: NameId,
        value: f64,
    },
    /// The number of data in a queue; the name is that of what takes them.
    Queue {
        name: NameId,
        key: u64,
        len: u64,
    },
    /// An arrow may begin here: data `first..first + count` of `key` leave.
    Out {
        name: NameId,
        key: u64,
        first: u64,
        count: u32,
    },
    /// An arrow ends here: datum `nth` of `key` has come.
    In {
        key: u64,
        nth: u64,
    },
    /// A launch that has ended; the event's time is its begin.
    Launch {
        kernel: NameId,
        device: NameId,
        wall: u64,
        on_device: u32,
    },
}

/// An event, with nanoseconds since the beginning of its trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) time: u64,
    pub(crate) what: What,
}

/// Of the words, the second has the kind in 8 bits, a small number in 24, and the name in 32.
const KIND: u32 = 56;
const SMALL: u32 = 32;
pub(crate) const MOST_SMALL: u32 = (1 << 24) - 1;

impl Event {
    #[inline]
    pub(crate) fn words(self) -> [u64; 4] {
        let head = |kind: u64, small: u32, name: NameId| {
            kind << KIND | u64::from(small.min(MOST_SMALL)) << SMALL | u64::from(name)
        };
        let (head, a, b) = match self.what {
            What::Begin { name, category, numbers: [a, b] } => (head(0, category as u32, name), a, b),
            What::End => (head(1, 0, 0), 0, 0),
            What::Enter { stack } => (head(2, 0, 0), stack, 0),
            What::Leave => (head(3, 0, 0), 0, 0),
            What::Instant { name } => (head(4, 0, name), 0, 0),
            What::Counter { name, value } => (head(5, 0, name), value.to_bits(), 0),
            What::Queue { name, key, len } => (head(9, 0, name), key, len),
            What::Out { name, key, first, count } => (head(6, count, name), key, first),
            What::In { key, nth } => (head(7, 0, 0), key, nth),
            What::Launch { kernel, device, wall, on_device } => {
                (head(8, 0, kernel), u64::from(device) << 32 | u64::from(on_device), wall)
            }
        };
        [self.time, head, a, b]
    }

    /// `None`: these are no words of an event.
    pub(crate) fn of([time, head, a, b]: [u64; 4]) -> Option<Event> {
        let (small, name) = ((head >> SMALL) as u32 & MOST_SMALL, head as u32);
        let what = match head >> KIND {
            0 => What::Begin { name, category: *Category::ALL.get(small as usize)?, numbers: [a, b] },
            1 => What::End,
            2 => What::Enter { stack: a },
            3 => What::Leave,
            4 => What::Instant { name },
            5 => What::Counter { name, value: f64::from_bits(a) },
            6 => What::Out { name, key: a, first: b, count: small },
            7 => What::In { key: a, nth: b },
            8 => What::Launch { kernel: name, device: (a >> 32) as u32, wall: b, on_device: a as u32 },
            9 => What::Queue { name, key: a, len: b },
            _ => return None,
        };
        Some(Event { time, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_read_back_from_its_words() {
        let all = [
            What::Begin { name: 7, category: Category::Task, numbers: [2, u64::MAX] },
            What::Begin { name: u32::MAX, category: Category::Launch, numbers: [0, 1] },
            What::End,
            What::Enter { stack: u64::MAX },
            What::Leave,
            What::Instant { name: 1 },
            What::Counter { name: 2, value: -0.5 },
            What::Out { name: 4, key: 5, first: 1 << 40, count: MOST_SMALL },
            What::In { key: 5, nth: 1 << 40 },
            What::Queue { name: 6, key: 7, len: 8 },
            What::Launch { kernel: 1, device: u32::MAX, wall: u64::MAX, on_device: 9 },
        ];
        for what in all {
            let event = Event { time: 123, what };
            assert_eq!(Event::of(event.words()), Some(event));
        }
        assert_eq!(Event::of([0, 99 << KIND, 0, 0]), None);
        assert_eq!(Event::of([0, 9 << SMALL, 0, 0]), None, "no such category");
    }
}
