//! Copies to and from memory that other threads or processes may write at the same time.
//!
//! Memory is a list of atomic words of 8 bytes, and is only ever accessed as such: a copy of any bytes loads
//! whole words, and stores whole words or exchanges the bytes of one that it means. So no access is a data
//! race, and none has another size than one that runs at the same time. A copy is not atomic as a whole:
//! what reads while another writes gets some bytes of both.
//!
//! Each copy has a fence before and after it. What a thread copied before it copied a counter is seen by one
//! that has copied that counter from there.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicU64, fence};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Bytes of a step of a copy whose sides are not aligned to each other.
const STEP: usize = 1 << 10;

/// Memory as words. Ranges of bytes are checked by the caller; one that is outside panics.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a>(pub(crate) &'a [AtomicU64]);

impl Words<'_> {
    /// Copies bytes out.
    pub(crate) fn read(self, offset: usize, to: &mut [u8]) {
        fence(AcqRel);
        self.load(offset, to);
        fence(AcqRel);
    }

    /// Copies bytes in.
    pub(crate) fn write(self, offset: usize, from: &[u8]) {
        fence(AcqRel);
        self.store(offset, from);
        fence(AcqRel);
    }

    /// Copies bytes from other memory, or from another place of this one: in rising order, so an overlap is
    /// no more than bytes that were copied twice.
    pub(crate) fn copy(self, to: usize, from: Words<'_>, at: usize, bytes: usize) {
        fence(AcqRel);
        if to % WORD == at % WORD {
            let head = ((WORD - to % WORD) % WORD).min(bytes);
            let whole = (bytes - head) / WORD;
            let mut part = [0; WORD];
            from.load(at, &mut part[..head]);
            self.store(to, &part[..head]);
            let (first, source) = ((to + head) / WORD, (at + head) / WORD);
            let (words, sources) = (&self.0[first..first + whole], &from.0[source..source + whole]);
            for (word, source) in words.iter().zip(sources) {
                word.store(source.load(Relaxed), Relaxed);
            }
            let done = head + whole * WORD;
            from.load(at + done, &mut part[..bytes - done]);
            self.store(to + done, &part[..bytes - done]);
        } else {
            let mut part = [0; STEP];
            for done in (0..bytes).step_by(STEP) {
                let part = &mut part[..STEP.min(bytes - done)];
                from.load(at + done, part);
                self.store(to + done, part);
            }
        }
        fence(AcqRel);
    }

    /// Sets bytes.
    pub(crate) fn fill(self, offset: usize, bytes: usize, value: u8) {
        let part = [value; STEP];
        for done in (0..bytes).step_by(STEP) {
            self.write(offset + done, &part[..STEP.min(bytes - done)]);
        }
    }

    fn load(self, offset: usize, to: &mut [u8]) {
        let first = offset % WORD;
        let head = ((WORD - first) % WORD).min(to.len());
        let (head, rest) = to.split_at_mut(head);
        if !head.is_empty() {
            let word = self.0[offset / WORD].load(Relaxed).to_ne_bytes();
            head.copy_from_slice(&word[first..first + head.len()]);
        }
        let start = (offset + head.len()) / WORD;
        let (whole, tail) = rest.as_chunks_mut::<WORD>();
        let words = &self.0[start..start + whole.len()];
        for (bytes, word) in whole.iter_mut().zip(words) {
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
        if !tail.is_empty() {
            let word = self.0[start + words.len()].load(Relaxed).to_ne_bytes();
            tail.copy_from_slice(&word[..tail.len()]);
        }
    }

    fn store(self, offset: usize, from: &[u8]) {
        let first = offset % WORD;
        let head = ((WORD - first) % WORD).min(from.len());
        let (head, rest) = from.split_at(head);
        if !head.is_empty() {
            exchange(&self.0[offset / WORD], first, head);
        }
        let start = (offset + head.len()) / WORD;
        let (whole, tail) = rest.as_chunks::<WORD>();
        let words = &self.0[start..start + whole.len()];
        for (bytes, word) in whole.iter().zip(words) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        if !tail.is_empty() {
            exchange(&self.0[start + words.len()], 0, tail);
        }
    }
}

/// Changes some bytes of a word; the others keep what anything else stores there.
fn exchange(word: &AtomicU64, first: usize, bytes: &[u8]) {
    let (mut mask, mut value) = ([0; WORD], [0; WORD]);
    mask[first..first + bytes.len()].fill(0xff);
    value[first..first + bytes.len()].copy_from_slice(bytes);
    let (mask, value) = (u64::from_ne_bytes(mask), u64::from_ne_bytes(value));
    word.update(Relaxed, Relaxed, |old| old & !mask | value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(bytes: &[u8]) -> Vec<AtomicU64> {
        bytes.as_chunks().0.iter().map(|word| AtomicU64::new(u64::from_ne_bytes(*word))).collect()
    }

    fn bytes(words: &[AtomicU64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, ..Default::default() })]
        #[test]
        fn a_copy_is_that_of_slices(to in 0..90_usize, at in 0..90_usize, len in 0..4000_usize, value: u8) {
            let a: Vec<u8> = (0..4096_u32).map(|i| (i * 7 % 251) as u8).collect();
            let b: Vec<u8> = (0..4096_u32).map(|i| (i * 11 % 241) as u8).collect();
            let (to_words, from) = (words(&b), words(&a));
            Words(&to_words).copy(to, Words(&from), at, len);
            let mut expected = b.clone();
            expected[to..to + len].copy_from_slice(&a[at..at + len]);
            prop_assert_eq!(bytes(&to_words), expected.clone());
            let mut part = vec![0; len];
            Words(&to_words).read(to, &mut part);
            prop_assert_eq!(&part[..], &expected[to..to + len]);
            Words(&to_words).write(at, &part);
            expected.copy_within(to..to + len, at);
            prop_assert_eq!(bytes(&to_words), expected.clone());
            Words(&to_words).fill(to, len, value);
            expected[to..to + len].fill(value);
            prop_assert_eq!(bytes(&to_words), expected);
        }
    }

    #[test]
    fn two_threads_that_write_bytes_of_one_word_keep_each_other_s() {
        let words = [const { AtomicU64::new(0) }; 2];
        let words = Words(&words);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    for i in 0..if cfg!(miri) { 20 } else { 20_000_u32 } {
                        words.write(6 + 2 * thread, &[i as u8; 2]);
                    }
                });
            }
        });
        let mut last = [0; 4];
        words.read(6, &mut last);
        let expected = if cfg!(miri) { 19 } else { 31 };
        assert_eq!(last, [expected; 4]);
    }
}
