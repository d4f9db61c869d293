//! The transport between processes: this program, started again.

use flash_net::{
    Detector, How, Loss, Member, NetError, Peer, Progress, SharedTransport, Transport, WORLD_VARIABLE, World,
    peer_uid,
};
use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const CHILD: &str = "FLASH_NET_TEST_CHILD";

/// Runs `part` in a child of this test, which joins as peer 1; `whole` in this process, as peer 0.
fn two(name: &str, part: impl FnOnce(SharedTransport), whole: impl FnOnce(SharedTransport, &mut Child)) {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        let (world, me) = World::from_environment().unwrap().expect("the variable is set");
        part(SharedTransport::join(&world, me).unwrap());
        // A test may have several children, each of which has one part.
        std::process::exit(0);
    }
    let members = ["controller", "agent"].map(|name| Member { name: name.into(), cpus: vec![] });
    let world = World::create(&members).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, name);
    world.inherit(&mut command, Peer(1)).unwrap();
    let mut child = Killed(command.spawn().unwrap());
    whole(SharedTransport::join(&world, Peer(0)).unwrap(), &mut child.0);
}

/// A child that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
        let begin = format!("peer 1 `agent` (process {} of host ", child.id());
        let text = loss.to_string();
        assert!(
            text.starts_with(&begin) && text.contains("its process ended, signal: 9 (SIGKILL)"),
            "{text}"
        );
        assert!(transport.post(Peer(1), b"").is_err());
    });
}

/// By the number of its descriptor there.
#[test]
fn a_world_of_another_process_is_opened_and_nothing_else_is() {
    const NAME: &str = "a_world_of_another_process_is_opened_and_nothing_else_is";
    if let Ok(told) = std::env::var(CHILD) {
        let (pid, descriptor) = told.split_once(':').unwrap();
        let (pid, descriptor): (u32, u32) = (pid.parse().unwrap(), descriptor.parse().unwrap());
        let transport = SharedTransport::join(&World::of_process(pid, descriptor).unwrap(), Peer(1)).unwrap();
        return transport.post(Peer(0), b"here").unwrap();
    }
    let world = World::create(&[Member::default(), Member::default()]).unwrap();
    let own = std::process::id();
    let transport = SharedTransport::join(&world, Peer(0)).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME]).env(CHILD, format!("{own}:{}", world.file().as_raw_fd()));
    let _child = Killed(command.spawn().unwrap());
    assert!(take_until(&transport, |frame| frame == b"here").is_none());
    // A pipe that nothing writes to, a folder, no descriptor, no process.
    let (pipe, _other) = std::io::pipe().unwrap();
    let folder = std::fs::File::open("/").unwrap();
    for (pid, descriptor, expected) in [
        (own, pipe.as_raw_fd() as u32, "expected a file sealed against changes of its size"),
        (own, folder.as_raw_fd() as u32, "opening the world of another process: Is a directory"),
        (own, 1_000_000, "opening the world of another process: No such file or directory"),
        (u32::MAX, 1, "opening the world of another process: No such file or directory"),
    ] {
        let error = World::of_process(pid, descriptor).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
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

/// Sends numbers and takes them back from an `echo`, several on their way at a time, until the peer is lost.
/// None is missing, none is wrong. Says how many came back.
fn exchange(transport: &impl Transport, mut each: impl FnMut(u32)) -> (u32, Loss) {
    let (mut sent, mut came) = (0_u32, 0_u32);
    loop {
        let ticket = transport.ticket();
        let mut frame = vec![7; 4 + sent as usize * 37 % 3000];
        while sent < came + 20 {
            frame.resize(4 + sent as usize * 37 % 3000, 7);
            frame[..4].copy_from_slice(&sent.to_ne_bytes());
            match transport.post(Peer(1), &frame) {
                Ok(()) => sent += 1,
                Err(NetError::Full { .. } | NetError::Lost(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let progress = transport.progress(&mut |_, frame| {
            assert_eq!(frame.len(), 4 + came as usize * 37 % 3000);
            assert_eq!(frame[..4], came.to_ne_bytes());
            assert!(frame[4..].iter().all(|byte| *byte == 7));
            came += 1;
            each(came);
        });
        if progress == Progress::Nothing {
            if let Some(loss) = transport.lost(Peer(1)) {
                return (came, loss);
            }
            transport.wait(ticket, Some(Instant::now() + Duration::from_secs(10)));
        }
    }
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: a signal to a child that was not waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// As [`echo`], but what does not fit is kept back.
fn patient_echo(transport: SharedTransport) {
    let mut kept: VecDeque<Vec<u8>> = VecDeque::new();
    while transport.lost(Peer(0)).is_none() {
        let ticket = transport.ticket();
        let progress = transport.progress(&mut |_, frame| kept.push_back(frame.to_vec()));
        while kept.front().is_some_and(|frame| transport.post(Peer(0), frame).is_ok()) {
            kept.pop_front();
        }
        if progress == Progress::Nothing {
            transport.wait(ticket, Some(Instant::now() + Duration::from_millis(1)));
        }
    }
}

#[test]
fn a_kill_at_any_moment_is_a_loss_and_nothing_else() {
    for at in [1, 2, 17, 300, 3001] {
        two("a_kill_at_any_moment_is_a_loss_and_nothing_else", patient_echo, |transport, child| {
            let (came, loss) = exchange(&transport, |came| {
                if came == at {
                    signal(child, libc::SIGKILL);
                }
            });
            assert!(came >= at);
            assert!(loss.to_string().contains("SIGKILL"), "{loss}");
        });
    }
}

#[test]
fn a_stop_at_any_moment_is_a_silent_loss() {
    for at in [1, 1000] {
        two("a_stop_at_any_moment_is_a_silent_loss", patient_echo, |transport, child| {
            let limit = Duration::from_secs(1);
            let transport = Detector::new(transport, limit);
            let (came, loss) = exchange(&transport, |came| {
                if came == at {
                    signal(child, libc::SIGSTOP);
                }
            });
            assert!(came >= at);
            assert_eq!(loss.how, How::Silent(limit));
            assert_eq!(loss.pid, Some(child.id()));
            assert!(loss.last_heard.is_some());
            assert!(transport.end(Peer(1), Duration::from_secs(60)));
            let status = child.try_wait().unwrap().expect("it has ended");
            assert_eq!(status.signal(), Some(libc::SIGKILL));
            assert!(transport.end(Peer(1), Duration::ZERO));
        });
    }
}

#[test]
fn a_peer_that_is_stopped_for_less_than_the_limit_goes_on() {
    two("a_peer_that_is_stopped_for_less_than_the_limit_goes_on", patient_echo, |transport, child| {
        let transport = Detector::new(transport, Duration::from_secs(60));
        exchange(&transport, |came| match came {
            10 => {
                signal(child, libc::SIGSTOP);
                std::thread::sleep(Duration::from_millis(20));
                signal(child, libc::SIGCONT);
            }
            1000 => signal(child, libc::SIGKILL),
            _ => {}
        });
    });
}

#[test]
fn a_world_is_handed_over_a_socket() {
    let (here, there) = UnixStream::pair().unwrap();
    // SAFETY: a question to the system.
    assert_eq!(peer_uid(&here).unwrap(), unsafe { libc::getuid() });
    let world = World::create(&[Member::default(), Member::default()]).unwrap();
    world.send_over(&here, Peer(1)).unwrap();
    let (received, me) = World::receive_over(&there).unwrap();
    let [a, b] =
        [(&world, Peer(0)), (&received, me)].map(|(world, me)| SharedTransport::join(world, me).unwrap());
    a.post(Peer(1), b"over").unwrap();
    let mut came = vec![];
    b.progress(&mut |_, frame| came.extend_from_slice(frame));
    assert_eq!(came, b"over");
}

#[test]
fn what_comes_over_a_socket_instead_of_a_world_is_refused() {
    let (mut here, there) = UnixStream::pair().unwrap();
    here.write_all(b"1234").unwrap();
    let error = World::receive_over(&there).unwrap_err().to_string();
    assert!(error.ends_with("expected 4 bytes and 1 descriptor, found 4 bytes and 0 descriptors"), "{error}");
    drop(here);
    let error = World::receive_over(&there).unwrap_err().to_string();
    assert!(error.ends_with("found 0 bytes and 0 descriptors"), "{error}");
}

#[test]
fn a_variable_that_names_no_world_is_an_error_that_says_so() {
    let name = "a_variable_that_names_no_world_is_an_error_that_says_so";
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        let error = World::from_environment().unwrap_err().to_string();
        let value = std::env::var(WORLD_VARIABLE).unwrap();
        assert!(
            error.contains(&format!("FLASH_WORLD is `{value}`")) && error.contains("unset it"),
            "{error}"
        );
        return;
    }
    for value in ["", "x", "3", "0:x", "0:0", "999:0", "-1:0"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--test-threads=1"]).env(CHILD, name).env(WORLD_VARIABLE, value);
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        assert!(output.status.success(), "`{value}`: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn a_place_is_taken_once() {
    let world = World::create(&[Member::default()]).unwrap();
    let _first = SharedTransport::join(&world, Peer(0)).unwrap();
    let error = SharedTransport::join(&world, Peer(0)).unwrap_err();
    assert!(error.to_string().contains("has joined as peer 0 before"), "{error}");
}
