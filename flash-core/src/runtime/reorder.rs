//! Another order of a pipeline's submissions, as far as the elements that they touch allow.
//!
//! A device that has one image at a time, such as an FPGA, takes seconds to load another: submissions of one
//! image are put together. Functions of the host may block: submissions that do not depend on them go first.

use super::proof::{bytes_of, overlap};
use super::state::Runtime;
use super::submissions::{Node, SubmissionList};
use flash_types::abi;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The image that a submission needs on the first device that has such; 0: none.
fn image_of(node: &Node) -> u64 {
    let targets = node.plan().targets().unwrap_or_default();
    targets.iter().map(|target| target.image).find(|image| *image != 0).unwrap_or(0)
}

/// True if another order may be better: there is a function of the host, or not all submissions need the same
/// image.
pub(super) fn helps(list: &SubmissionList, runtime: &Runtime) -> bool {
    list.nodes().len() > 1 && (list.may_block || (runtime.has_images && differ(list)))
}

/// True if the better order is another one.
pub(super) fn changes(list: &SubmissionList, runtime: &Runtime) -> bool {
    reordered(list, runtime, 0).is_some_and(|order| !order.is_sorted())
}

fn differ(list: &SubmissionList) -> bool {
    let mut images = list.nodes().iter().map(image_of).filter(|image| *image != 0);
    images.next().is_some_and(|first| images.any(|image| image != first))
}

/// The positions of all submissions from `first` on, in the better order. `None`: they stay as they are.
pub(super) fn reordered(list: &SubmissionList, runtime: &Runtime, first: usize) -> Option<Vec<usize>> {
    if !helps(list, runtime) {
        return None;
    }
    let mut submissions = Vec::new();
    for node in &list.nodes()[first..] {
        // Slices of the host do not restrict the order: a pipeline that writes one has borrowed it mutably,
        // so that no other of its submissions has the same.
        let memories = list.holds_of(node).iter().zip(list.args_of(node));
        let memories = memories.filter(|(hold, _)| list.memory(hold.touched).is_some());
        // All of the argument, not only what the items touch: it is poisoned if the submission cannot begin.
        let touch = |arg: &abi::Arg| Touch { bytes: bytes_of(arg), writes: arg.access != abi::ACCESS_READ };
        let touches = memories.map(|(hold, arg)| (hold.touched, touch(arg))).collect();
        // Nothing implements it: it is its failsafe, which is the host's.
        let may_block = node.plan().targets().is_err() && node.plan().movement.is_none();
        submissions.push(Submission { image: image_of(node), may_block, touches });
    }
    Some(order(&submissions).into_iter().map(|position| first + position).collect())
}

/// The properties of a submission that matter here.
struct Submission {
    image: u64,
    /// It is a function of the host.
    may_block: bool,
    /// Memories, by number, and its use of them.
    touches: Vec<(u32, Touch)>,
}

/// A range of a memory, by its addresses, and whether it is written.
#[derive(Clone)]
struct Touch {
    bytes: Range<usize>,
    writes: bool,
}

/// The last writers of parts of a memory, and the readers since then.
#[derive(Default)]
struct Last {
    writers: Vec<(usize, Range<usize>)>,
    readers: Vec<(usize, Range<usize>)>,
}

impl Last {
    /// The submission at a position comes next: calls `before` with those that have to stay before it.
    fn touch(&mut self, position: usize, Touch { bytes, writes }: &Touch, mut before: impl FnMut(usize)) {
        let readers = self.readers.iter().filter(|_| *writes);
        for (other, _) in self.writers.iter().chain(readers).filter(|(_, other)| overlap(other, bytes)) {
            before(*other);
        }
        if !writes {
            return self.readers.push((position, bytes.clone()));
        }
        // A later submission that must follow one of these must follow this one, which follows it.
        let is_left = |(_, other): &(usize, Range<usize>)| other.start < bytes.start || bytes.end < other.end;
        self.writers.retain(is_left);
        self.readers.retain(is_left);
        self.writers.push((position, bytes.clone()));
    }
}

/// An order in which submissions that touch elements that another one writes stay before or behind that one.
/// Of those that may come next, it takes the first that needs no other image than the loaded one, or else the
/// first. Functions of the host come only if nothing else may.
fn order(submissions: &[Submission]) -> Vec<usize> {
    let mut after: Vec<Vec<usize>> = submissions.iter().map(|_| Vec::new()).collect();
    let mut waits = vec![0usize; submissions.len()];
    let mut last: BTreeMap<u32, Last> = BTreeMap::new();
    for (position, submission) in submissions.iter().enumerate() {
        for (memory, touch) in &submission.touches {
            last.entry(*memory).or_default().touch(position, touch, |before| {
                if before != position {
                    after[before].push(position);
                    waits[position] += 1;
                }
            });
        }
    }
    let mut ready: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    let mut blocking: BTreeSet<usize> = BTreeSet::new();
    for (position, submission) in submissions.iter().enumerate().filter(|(at, _)| waits[*at] == 0) {
        let of =
            if submission.may_block { &mut blocking } else { ready.entry(submission.image).or_default() };
        of.insert(position);
    }
    let (mut order, mut loaded) = (Vec::with_capacity(submissions.len()), None);
    let first = |ready: &BTreeSet<usize>| ready.first().copied();
    while order.len() < submissions.len() {
        let of = |image: u64| first(ready.get(&image)?);
        let fits = loaded.and_then(|loaded| [0, loaded].into_iter().filter_map(of).min());
        let any = || ready.values().filter_map(first).min().or_else(|| first(&blocking));
        let Some(next) = fits.or_else(any) else { break };
        let image = submissions[next].image;
        loaded = if image == 0 { loaded } else { Some(image) };
        ready.entry(image).or_default().remove(&next);
        blocking.remove(&next);
        order.push(next);
        for &behind in &after[next] {
            waits[behind] -= 1;
            if waits[behind] == 0 {
                let Submission { image, may_block, .. } = submissions[behind];
                let of = if may_block { &mut blocking } else { ready.entry(image).or_default() };
                of.insert(behind);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A submission that touches ranges of memories.
    fn parts(image: u64, touches: &[(u32, Range<usize>, bool)]) -> Submission {
        let touch = |(memory, bytes, writes): &(u32, Range<usize>, bool)| {
            (*memory, Touch { bytes: bytes.clone(), writes: *writes })
        };
        Submission { image, may_block: false, touches: touches.iter().map(touch).collect() }
    }

    /// A submission that touches whole memories.
    fn submission(image: u64, touches: &[(u32, bool)]) -> Submission {
        let all: Vec<_> = touches.iter().map(|(memory, writes)| (*memory, 0..8, *writes)).collect();
        parts(image, &all)
    }

    /// The number of image loads.
    fn loads(submissions: &[Submission], order: &[usize]) -> usize {
        let mut images: Vec<u64> =
            order.iter().map(|&at| submissions[at].image).filter(|i| *i != 0).collect();
        images.dedup();
        images.len()
    }

    #[test]
    fn what_does_not_depend_is_grouped_and_what_does_stays() {
        let apart: Vec<_> = (0..6).map(|k| submission(1 + u64::from(k) % 2, &[(k, true)])).collect();
        assert_eq!(order(&apart), [0, 2, 4, 1, 3, 5]);
        let chain: Vec<_> = (0..4).map(|k| submission(1 + k % 2, &[(0, true)])).collect();
        assert_eq!(order(&chain), [0, 1, 2, 3]);
        // The third reads what the second writes; one without an image goes anywhere.
        let mixed = [
            submission(1, &[(0, true)]),
            submission(2, &[(1, true)]),
            submission(1, &[(1, false)]),
            submission(1, &[(2, true)]),
            submission(0, &[(3, true)]),
        ];
        assert_eq!(order(&mixed), [0, 3, 4, 1, 2]);
    }

    #[test]
    fn functions_of_the_host_let_go_first_what_does_not_depend_on_them() {
        let host = |touches: &[(u32, bool)]| Submission { may_block: true, ..submission(0, touches) };
        let mixed = [
            submission(0, &[(0, true)]),
            host(&[(0, false), (1, true)]),
            submission(0, &[(1, false), (2, true)]),
            submission(0, &[(3, true)]),
            host(&[(3, true)]),
            submission(0, &[(0, false), (4, true)]),
        ];
        assert_eq!(order(&mixed), [0, 3, 5, 1, 2, 4]);
    }

    #[test]
    fn who_uses_other_parts_of_a_memory_goes_first_too() {
        let host = |from, to| Submission { may_block: true, ..parts(0, &[(0, from..to, true)]) };
        let kernel = |from, to, writes| parts(0, &[(0, from..to, writes)]);
        let halves =
            [host(0, 4), kernel(4, 8, true), kernel(3, 5, false), kernel(6, 8, true), kernel(0, 0, true)];
        assert_eq!(order(&halves), [1, 3, 4, 0, 2]);
        // A submission that covers others stands for them.
        let covered = [host(0, 2), host(2, 4), kernel(0, 4, true), kernel(1, 2, false)];
        assert_eq!(order(&covered), [0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "nothing unsafe, and many orders")]
        fn every_submission_comes_once_behind_all_that_it_conflicts_with(
            all in prop::collection::vec(
                (0u64..4, prop::collection::vec((0u32..4, 0usize..8, 0usize..8, any::<bool>()), 0..4)),
                0..24,
            )
        ) {
            let all: Vec<_> = all
                .iter()
                .map(|(image, touches)| {
                    let part = |&(memory, a, b, writes): &(u32, usize, usize, bool)| (memory, a.min(b)..a.max(b), writes);
                    let touches: Vec<_> = touches.iter().map(part).collect();
                    Submission { may_block: *image == 3, ..parts(image % 3, &touches) }
                })
                .collect();
            let order = order(&all);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..all.len()).collect::<Vec<_>>());
            for (k, &later) in order.iter().enumerate() {
                for &earlier in order[..k].iter().filter(|&&earlier| earlier > later) {
                    let conflict = all[earlier].touches.iter().any(|(a, one)| {
                        let meets = |other: &Touch| (one.writes || other.writes) && overlap(&one.bytes, &other.bytes);
                        all[later].touches.iter().any(|(b, other)| a == b && meets(other))
                    });
                    prop_assert!(!conflict, "{} before {}", earlier, later);
                }
            }
            let apart = all.iter().enumerate().all(|(k, a)| a.touches.iter().all(|(m, _)| {
                all[..k].iter().all(|b| b.touches.iter().all(|(n, _)| m != n))
            }));
            if apart && all.iter().all(|s| !s.may_block) {
                let images: BTreeSet<u64> = all.iter().map(|s| s.image).filter(|image| *image != 0).collect();
                prop_assert_eq!(loads(&all, &order), images.len());
            }
        }
    }
}
