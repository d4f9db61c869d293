//! Another order of a pipeline's submissions, as far as what they touch allows.
//!
//! A device that has one image at a time, such as an FPGA, takes seconds to load another: submissions of one
//! image are put together. Functions of the host may block: what does not depend on them goes first.

use super::Runtime;
use super::record::{Node, Slots};
use crate::abi;
use std::collections::{BTreeMap, BTreeSet};

/// The image that a submission needs on the first device that has such; 0: none.
fn image_of(node: &Node) -> u64 {
    let targets = node.plan().targets().unwrap_or_default();
    targets.iter().map(|target| target.image).find(|image| *image != 0).unwrap_or(0)
}

/// True if another order may be better: there is a function of the host, or not all submissions need the same image.
pub(super) fn helps(slots: &Slots, runtime: &Runtime) -> bool {
    slots.nodes().len() > 1 && (slots.may_block || (runtime.has_images && differ(slots)))
}

fn differ(slots: &Slots) -> bool {
    let mut images = slots.nodes().iter().map(image_of).filter(|image| *image != 0);
    images.next().is_some_and(|first| images.any(|image| image != first))
}

/// The positions of all submissions from `first` on, in the better order. `None`: they stay as they are.
pub(super) fn reordered(slots: &Slots, runtime: &Runtime, first: usize) -> Option<Vec<usize>> {
    if !helps(slots, runtime) {
        return None;
    }
    let mut submissions = Vec::new();
    for node in &slots.nodes()[first..] {
        // Slices of the host keep nobody in their place: a pipeline that writes one has borrowed it mutably, so
        // that no other of its submissions has the same.
        let memories = slots.holds_of(node).iter().zip(slots.args_of(node));
        let memories = memories.filter(|(hold, _)| slots.memory(hold.touched).is_some());
        let touches = memories.map(|(hold, arg)| (hold.touched, arg.access != abi::ACCESS_READ)).collect();
        // Nothing implements it: it is its failsafe, which is the host's.
        let may_block = node.plan().targets().is_err();
        submissions.push(Submission { image: image_of(node), may_block, touches });
    }
    Some(order(&submissions).into_iter().map(|position| first + position).collect())
}

/// What matters of a submission here.
struct Submission {
    image: u64,
    /// It is a function of the host.
    may_block: bool,
    /// Memories, by number, and whether it writes them.
    touches: Vec<(u32, bool)>,
}

/// An order in which who touches a memory that another one writes stays before or behind that one. Of those that
/// may come next, the first that needs no other image than is there; if there is none, the first; and functions of
/// the host only if there is nothing else.
fn order(submissions: &[Submission]) -> Vec<usize> {
    let mut after: Vec<Vec<usize>> = submissions.iter().map(|_| Vec::new()).collect();
    let mut waits = vec![0usize; submissions.len()];
    // Per memory, who wrote it last, and who has read it since.
    let mut last: BTreeMap<u32, (Option<usize>, Vec<usize>)> = BTreeMap::new();
    for (position, submission) in submissions.iter().enumerate() {
        for &(memory, writes) in &submission.touches {
            let (writer, readers) = last.entry(memory).or_default();
            let before = writer.iter().chain(readers.iter().filter(|_| writes)).copied();
            for before in before.filter(|before| *before != position) {
                after[before].push(position);
                waits[position] += 1;
            }
            match writes {
                true => (*writer, *readers) = (Some(position), Vec::new()),
                false => readers.push(position),
            }
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

    fn submission(image: u64, touches: &[(u32, bool)]) -> Submission {
        Submission { image, may_block: false, touches: touches.to_vec() }
    }

    /// How often another image is loaded.
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

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "nothing unsafe, and many orders")]
        fn every_submission_comes_once_behind_all_that_it_conflicts_with(
            all in prop::collection::vec((0u64..4, prop::collection::vec((0u32..5, any::<bool>()), 0..4)), 0..24)
        ) {
            let all: Vec<_> = all
                .iter()
                .map(|(image, touches)| Submission { may_block: *image == 3, ..submission(image % 3, touches) })
                .collect();
            let order = order(&all);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..all.len()).collect::<Vec<_>>());
            for (k, &later) in order.iter().enumerate() {
                for &earlier in order[..k].iter().filter(|&&earlier| earlier > later) {
                    let conflict = all[earlier].touches.iter().any(|(a, w)| {
                        all[later].touches.iter().any(|(b, v)| a == b && (*w || *v))
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
