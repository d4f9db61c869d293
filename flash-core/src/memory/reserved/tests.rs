//! Tests that compare with what the system says of the host's memory of arrays.

use crate::FlashMemory;
use crate::error::Error;
use crate::memory::device::tests::{all, devices, read_on, write_on};
use crate::memory::region::Region;

/// What the system says of the mapping around an address.
pub struct Mapping {
    /// Bytes of its pages that are in memory.
    pub resident: usize,
    flags: Vec<String>,
}

impl Mapping {
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    /// True if the system has promised memory for it, which it counts where it promises no more than it has.
    fn is_promised(&self) -> bool {
        self.has("ac")
    }
}

pub fn mapping(address: usize) -> Mapping {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut inside, mut resident) = (false, 0);
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let word = words.next().unwrap();
        let range = word.split_once('-').map(|(a, b)| [a, b].map(|hex| usize::from_str_radix(hex, 16)));
        match range {
            Some([Ok(begin), Ok(end)]) => inside = (begin..end).contains(&address),
            _ if inside && word == "Rss:" => resident = words.next().unwrap().parse::<usize>().unwrap() << 10,
            _ if inside && word == "VmFlags:" => {
                return Mapping { resident, flags: words.map(str::to_owned).collect() };
            }
            _ => {}
        }
    }
    panic!("{address:#x} is mapped nowhere")
}

const LEN: usize = 16 << 20;

fn middle(memory: &FlashMemory<u32>) -> Mapping {
    mapping(memory.header().data().addr() + 2 * memory.len())
}

#[test]
fn a_large_array_is_address_space_until_the_host_writes_it() {
    let memory = FlashMemory::<u32>::zeroed(LEN);
    let at = memory.header().data();
    let is_nothing = |mapping: Mapping| mapping.resident == 0 && !mapping.is_promised() && !mapping.has("wr");
    assert!(is_nothing(middle(&memory)));
    assert!(memory.read().unwrap().iter().all(|&element| element == 0));
    assert!(is_nothing(middle(&memory)), "reading zeros takes nothing");
    let memory = memory.with_shape([LEN / 4, 4]).unwrap();
    assert!(is_nothing(middle(&memory)), "nor does a shape");
    memory.write().unwrap()[LEN - 1] = 7;
    let written = middle(&memory);
    assert!(written.is_promised() && written.has("wr") && written.resident < 4 * LEN / 2);
    assert_eq!((memory.header().data(), memory.get(LEN - 1).unwrap(), memory.get(0).unwrap()), (at, 7, 0));
    assert!(!memory.header().state.launch_read().unwrap(), "nothing is to be looked up any more");
    memory.header().state.release_read();
}

#[test]
fn an_array_that_only_a_device_touches_takes_nothing_of_the_host() {
    let (_alone, devices) = (super::super::device::tests::lock(), devices());
    let memory = FlashMemory::<u32>::zeroed(LEN);
    let whole = all(&memory);
    write_on(&memory, devices[0], &whole, 3);
    assert!(read_on(&memory, devices[1], &whole).unwrap().iter().all(|&element| element == 3));
    assert!(read_on(&memory, devices[0], &whole).unwrap().iter().all(|&element| element == 3));
    let mapped = middle(&memory);
    assert!(mapped.resident == 0 && !mapped.is_promised());
    // What the host reads of it is there then, and little more.
    assert_eq!(memory.get(LEN / 2).unwrap(), 3);
    let mapped = middle(&memory);
    assert!(mapped.has("wr") && mapped.resident > 0 && mapped.resident <= 4 << 20, "{}", mapped.resident);
    assert_eq!(memory.get(LEN - 1).unwrap(), 3);
    // An array of zeros takes no memory of the host when it is copied.
    let zeros = FlashMemory::<u32>::zeroed(LEN);
    let half = Region::of_range(&zeros.header().grid(), 0..LEN as u64 / 2);
    assert!(read_on(&zeros, devices[0], &half).unwrap().iter().all(|&element| element == 0));
    assert_eq!(middle(&zeros).resident, 0);
}

#[test]
fn too_little_memory_is_an_error_when_the_host_needs_it_and_not_before() {
    let promises = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    if promises.trim() == "1" {
        // The system promises everything: a lack of memory cannot be shown.
        return;
    }
    const BYTES: usize = 1 << 45;
    let memory = FlashMemory::<u8>::try_zeroed(BYTES).unwrap();
    assert_eq!(memory.get(BYTES / 3).unwrap(), 0);
    let error = memory.write().map(drop).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { wanted, .. } if wanted == BYTES as u64), "{error}");
    assert!(error.to_string().contains("for 35184372088832 bytes"), "{error}");
    assert_eq!(memory.get(BYTES - 1).unwrap(), 0, "it is as it was");
    let error = FlashMemory::<u8>::try_zeroed(1u64 << 62).map(drop).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { wanted, .. } if wanted == 1 << 62), "{error}");
    let error = FlashMemory::<u64>::try_zeroed([u64::MAX, 2]).map(drop).unwrap_err();
    assert!(matches!(error, Error::Shape(_)), "{error}");
}
