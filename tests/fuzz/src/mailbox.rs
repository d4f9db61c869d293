//! A world in which another process writes any words anywhere before the arenas: those that use it get
//! errors at most.
//!
//! An input is records of 12 bytes: what is done with a word and its place, and both.

use flash_net::{MAX_FRAME, Member, Peer, Progress, SharedTransport, Transport, World};
use std::fs::{File, read_dir, read_link};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes of a record.
pub const RECORD: usize = 12;

/// Records of an input at most.
const RECORDS: usize = 512;

/// The memory of the world that was made last, as another process of it has it.
fn memory() -> File {
    let is_world = |link: &std::path::Path| link.to_string_lossy().starts_with("/memfd:flash-world");
    let files = read_dir("/proc/self/fd").expect("Linux has it").flatten();
    let found =
        files.map(|entry| entry.path()).find(|path| read_link(path).is_ok_and(|link| is_world(&link)));
    let path = found.expect("the world is a file in memory");
    File::options().read(true).write(true).open(path).expect("it is this process's own")
}

/// Does what an input says.
///
/// # Panics
/// If a user of the world does, or gets a frame that cannot be.
pub fn fuzz(input: &[u8]) {
    let member = Member { name: "fuzzed".into(), cpus: Vec::new() };
    let world = World::with_arenas(&[member.clone(), member], 2 << 20).expect("a small world");
    let memory = memory();
    // What is before the arenas, and nothing of them.
    let words = (memory.metadata().expect("it is a file").len() - 2 * (2 << 20)) / 8;
    let me = SharedTransport::join(&world, Peer(0)).expect("it is free");
    let other = SharedTransport::join(&world, Peer(1)).expect("it is free");
    for record in input.as_chunks::<RECORD>().0.iter().take(RECORDS) {
        let [what, of, low, high, word @ ..] = *record;
        let place = u64::from(u16::from_le_bytes([low, high])) * 8 + u64::from(of & 7);
        match what % 8 {
            // Pages from the first on, and words from their start.
            0..4 => {
                let place = (u64::from(what >> 3) * 65536 + place) % words * 8;
                memory.write_all_at(&word, place).expect("the world is a file");
            }
            4 => use_all(&me, usize::from(low) * 17),
            5 => use_all(&other, usize::from(low) * 17),
            6 => drop(me.post(Peer(1), &word)),
            _ => drop(other.post(Peer(0), &word)),
        }
    }
    use_all(&me, 1);
    use_all(&other, 1);
}

/// Everything that a user does with a transport.
fn use_all(transport: &SharedTransport, length: usize) {
    let to = Peer(1 - transport.me().0);
    let posted = transport.post(to, &vec![1; length]);
    assert!(length <= MAX_FRAME || posted.is_err());
    let _ = (transport.info(to), transport.ping(to), transport.ring(to), transport.heard(to));
    let mut frames = 0;
    let progress = transport.progress(&mut |from, frame| {
        assert!(from.0 < 2 && frame.len() <= MAX_FRAME, "{} bytes of {from}", frame.len());
        frames += 1;
    });
    assert!(progress == Progress::Some || frames == 0);
    transport.wait(transport.ticket(), Some(Instant::now() + Duration::from_micros(1)));
    if let Some(loss) = transport.lost(to) {
        assert!(!loss.to_string().is_empty());
    }
}
