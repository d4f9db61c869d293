//! The transport between processes: this program, started again.

use flash_net::{How, Loss, Member, Peer, Progress, SharedTransport, Transport, World};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const CHILD: &str = "FLASH_NET_TEST_CHILD";

/// Runs `part` in a child of this test, which joins as peer 1; `whole` in this process, as peer 0.
fn two(name: &str, part: impl FnOnce(SharedTransport), whole: impl FnOnce(SharedTransport, &mut Child)) {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        let (world, me) = World::from_environment().unwrap().expect("the variable is set");
        part(SharedTransport::join(&world, me).unwrap());
        return;
    }
    let members = ["controller", "agent"].map(|name| Member { name: name.into(), cpus: vec![] });
    let world = World::create(&members).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, name);
    world.inherit(&mut command, Peer(1)).unwrap();
    let mut child = command.spawn().unwrap();
    whole(SharedTransport::join(&world, Peer(0)).unwrap(), &mut child);
    let _ = child.kill();
    child.wait().unwrap();
}

/// Frames, until one is as `last` says or the peer is lost.
fn take_until(transport: &SharedTransport, mut last: impl FnMut(&[u8]) -> bool) -> Option<Loss> {
    let other = Peer(1 - transport.me().0);
    let mut done = false;
    loop {
        let ticket = transport.ticket();
        let progress = transport.progress(&mut |_, frame| done |= last(frame));
        if done {
            return None;
        }
        if progress == Progress::Nothing {
            if let Some(loss) = transport.lost(other) {
                return Some(loss);
            }
            transport.wait(ticket, Some(Instant::now() + Duration::from_secs(10)));
        }
    }
}

fn echo(transport: SharedTransport) {
    take_until(&transport, |frame| {
        transport.post(Peer(0), frame).unwrap();
        frame == b"end"
    });
}

#[test]
fn a_child_answers_and_ends() {
    two("a_child_answers_and_ends", echo, |transport, child| {
        for i in 0..1000_u32 {
            transport.post(Peer(1), &i.to_ne_bytes()).unwrap();
            assert!(take_until(&transport, |frame| frame == i.to_ne_bytes()).is_none());
        }
        let info = transport.info(Peer(1)).unwrap();
        assert_eq!((info.pid, &info.name[..]), (child.id(), "agent"));
        assert_eq!(info.host, transport.info(Peer(0)).unwrap().host);
        transport.post(Peer(1), b"end").unwrap();
        assert!(take_until(&transport, |frame| frame == b"end").is_none());
        let loss = take_until(&transport, |_| false).unwrap();
        assert!(matches!(loss.how, How::Left | How::Ended(_)), "{loss}");
    });
}

#[test]
fn a_killed_child_is_noticed_by_a_thread_that_waits() {
    two("a_killed_child_is_noticed_by_a_thread_that_waits", echo, |transport, child| {
        transport.post(Peer(1), b"there?").unwrap();
        assert!(take_until(&transport, |frame| frame == b"there?").is_none());
        child.kill().unwrap();
        let loss = take_until(&transport, |_| false).unwrap();
        assert!(loss.to_string().contains("SIGKILL"), "{loss}");
        assert_eq!(loss.pid, Some(child.id()));
        assert!(transport.post(Peer(1), b"").is_err());
    });
}

#[test]
fn memory_is_shared_with_a_child() {
    let part = |transport: SharedTransport| {
        take_until(&transport, |frame| {
            let offset = u64::from_ne_bytes(frame.try_into().unwrap());
            let pointer = transport.memory(Peer(0)).unwrap().pointer(offset, 1 << 20).unwrap();
            // SAFETY: the other process waits meanwhile.
            unsafe { pointer.add(77).write(pointer.read() + 1) };
            transport.post(Peer(0), b"done").unwrap();
            true
        });
    };
    two("memory_is_shared_with_a_child", part, |transport, _| {
        let heap = transport.heap().unwrap();
        let block = heap.alloc(1 << 20, 8).unwrap();
        let pointer = heap.memory().pointer(block.offset, 1 << 20).unwrap();
        // SAFETY: the block is this test's; the other process has answered before the second access.
        unsafe { pointer.write(41) };
        transport.post(Peer(1), &block.offset.to_ne_bytes()).unwrap();
        assert!(take_until(&transport, |frame| frame == b"done").is_none());
        // SAFETY: as above.
        assert_eq!(unsafe { pointer.add(77).read() }, 42);
    });
}

#[test]
fn a_place_is_taken_once() {
    let world = World::create(&[Member::default()]).unwrap();
    let _first = SharedTransport::join(&world, Peer(0)).unwrap();
    let error = SharedTransport::join(&world, Peer(0)).unwrap_err();
    assert!(error.to_string().contains("has joined as peer 0 before"), "{error}");
}
