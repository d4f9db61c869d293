//! What agents and controllers say to each other, byte by byte: copies, and what is refused.

use flash_backend::Device;
use flash_backend_ranks::in_process::{Agent, Controller};
use flash_fuzz::agent::KEY;
use flash_fuzz::controller::{host_buffer, whole};
use flash_fuzz::scripted::{Scripted, lock};
use flash_fuzz::session::session;
use flash_fuzz::{ANSWERS, EARLIER, Frame, frames};
use flash_net::{Peer, SharedTransport, Transport, local};
use std::time::{Duration, Instant};

const REQUEST: u8 = 1;
const ANSWER: u8 = 2;

/// A controller, an agent whose device 0 works in the host's memory, and another agent, which is this test.
struct World {
    controller: SharedTransport,
    agent: Agent,
    other: SharedTransport,
}

/// 8 bytes of a buffer, from its first on.
const BOX: [u8; 9] = [8, 1, 1, 0, 0, 8, 8, 8, 8];

fn frame(number: u8, kind: u8, body: &[&[u8]]) -> Vec<u8> {
    [&[number, 0, 0, 0, kind, 0, 0, 0], &*body.concat()].concat()
}

impl World {
    fn new() -> World {
        // Before the first runtime.
        session();
        let [controller, agent, other] = local(3).expect("a world").try_into().expect("of three peers");
        World { controller, agent: Agent::new(Box::new(agent), KEY).expect("two devices"), other }
    }

    fn ask(&self, from: &SharedTransport, number: u8, body: &[&[u8]]) {
        from.post(Peer(1), &frame(number, REQUEST, body)).expect("there is room");
    }

    /// The next frame that the agent sends to one of them.
    fn next(&mut self, to_controller: bool) -> Vec<u8> {
        let until = Instant::now() + Duration::from_secs(20);
        let mut came = None;
        while came.is_none() {
            assert!(Instant::now() < until, "the agent says nothing");
            self.agent.poll();
            let to = if to_controller { &self.controller } else { &self.other };
            to.progress(&mut |from, frame| {
                assert_eq!((from, came.replace(frame.to_vec())), (Peer(1), None));
            });
        }
        came.expect("it has come")
    }

    /// What the controller is told of a request: done, or a failure with this text.
    fn assert_told(&mut self, number: u8, failure: Option<&str>) {
        let told = self.next(true);
        assert_eq!(told[..8], frame(number, ANSWER, &[]));
        let text = String::from_utf8_lossy(&told[8..]).into_owned();
        match failure {
            None => assert_eq!(told[8], 0, "{text}"),
            Some(failure) => assert!(told[8] == 1 && text.contains(failure), "{failure}: {text}"),
        }
    }

    /// What the other agent is told of its request for the box of buffer 1.
    fn bytes(&mut self) -> Vec<u8> {
        self.ask(&self.other, 40, &[&[11, 0, 1], &BOX]);
        let told = self.next(false);
        assert_eq!(told[..9], frame(40, ANSWER, &[&[5]]));
        told[9..].to_vec()
    }
}

#[test]
fn an_agent_copies_from_another_one_and_gives_others_boxes_and_nothing_else() {
    let mut world = World::new();
    world.ask(&world.controller, 1, &[&[6, 0, 0, 1, 64]]);
    world.assert_told(1, None);
    // A copy of the other agent's buffer 9, on its device 3.
    let copy = |agent: u8| [&[12, 0, 1], &BOX[..], &[agent, 3, 9]].concat();
    world.ask(&world.controller, 2, &[&copy(2)]);
    let asked = world.next(false);
    assert_eq!(asked[4..], frame(0, REQUEST, &[&[11, 3, 9], &BOX])[4..]);
    // No answer to it is one of another process, or of another request.
    world.controller.post(Peer(1), &frame(asked[0], ANSWER, &[&[5], b"mistaken"])).unwrap();
    world.other.post(Peer(1), &frame(asked[0] + 1, ANSWER, &[&[5], b"mistaken"])).unwrap();
    world.other.post(Peer(1), &frame(asked[0], ANSWER, &[&[5], b"8 bytes!"])).unwrap();
    world.assert_told(2, None);
    assert_eq!(world.bytes(), b"8 bytes!");

    // Too few bytes, and a failure of the other agent.
    for (answer, expected) in [(&b"\x05short"[..], "of 5 that came"), (b"\x01\x01\x04away", "away")] {
        world.ask(&world.controller, 3, &[&copy(2)]);
        let asked = world.next(false);
        world.other.post(Peer(1), &frame(asked[0], ANSWER, &[answer])).unwrap();
        world.assert_told(3, Some(expected));
    }
    // One that is cancelled writes nothing, whatever comes later.
    world.ask(&world.controller, 4, &[&copy(2)]);
    let asked = world.next(false);
    world.ask(&world.controller, 0, &[&[5, 4]]);
    world.assert_told(4, Some("is gone"));
    world.other.post(Peer(1), &frame(asked[0], ANSWER, &[&[5], b"too late"])).unwrap();
    assert_eq!(world.bytes(), b"8 bytes!");

    for (agent, expected) in [(0, "found the controller"), (7, "there is no peer 7")] {
        world.ask(&world.controller, 5, &[&copy(agent)]);
        world.assert_told(5, Some(expected));
    }
    world.ask(&world.controller, 6, &[&[12, 0, 2], &BOX, &[2, 3, 9]]);
    world.assert_told(6, Some("there is no buffer 2"));
    // What another agent may not ask for: to set a buffer to 0, and what there is not.
    for (body, expected) in [(&[8, 0, 1][..], "only a controller may make"), (&[99], "cannot be read")] {
        world.ask(&world.other, 41, &[body]);
        let told = world.next(false);
        let text = String::from_utf8_lossy(&told[8..]).into_owned();
        assert!(told[..9] == frame(41, ANSWER, &[&[1]]) && text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(world.bytes(), b"8 bytes!");
}

#[test]
fn a_copy_of_which_a_piece_fails_ends_when_no_piece_is_under_way() {
    const LEN: usize = 3 << 19;
    const LAST: usize = LEN - (1 << 20);
    let (transport, script) = Scripted::new(Peer(0), true);
    let controller = Controller::new(Box::new(transport), Duration::from_secs(3600)).expect("a controller");
    let answer = |how: u8, body: Vec<u8>| Frame { how, bytes: frame(0, ANSWER, &[&body]) };
    let done = || answer(ANSWERS, vec![0, 0, 0]);
    let failed = answer(ANSWERS | EARLIER, [&[1, 0, 6][..], b"no way"].concat());
    let last = answer(ANSWERS, [&[5][..], &[7; LAST]].concat());
    let devices = frames(&session().answers).swap_remove(0);
    // The last one is of what is asked for afterwards.
    lock(&script).begin(vec![devices, done(), failed, last, done()]);
    let device = controller.devices(Peer(1)).expect("the devices of the session").swap_remove(0);
    let space = device.spaces()[0].id;
    let buffer = device.alloc(space, LEN as u64).expect("a buffer");
    let mut there = vec![1u8; LEN];
    let (host, shape) = (host_buffer(&mut there), whole(LEN));
    // SAFETY: both have that many bytes, and nothing else uses them.
    let failure = unsafe { device.copy_box(buffer, host, &shape) }.expect_err("a piece has failed");
    assert!(failure.text.contains("no way"), "{}", failure.text);
    // The other piece has come: nothing is written any more.
    assert_eq!(lock(&script).left(), 1);
    let (first, last) = there.split_at(1 << 20);
    assert!(first.iter().all(|byte| *byte == 1) && last.iter().all(|byte| *byte == 7));
    // SAFETY: a buffer of that many bytes, which nothing else uses.
    unsafe { device.clear(buffer, LEN as u64) }.expect("the device is usable");
}
