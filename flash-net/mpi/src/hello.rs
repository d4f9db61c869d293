//! What a process says of itself to the others, before anything else.

use flash_net::{Peer, PeerInfo};

/// Changes with what messages are. The first byte.
const VERSION: u8 = 2;

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The id of its host's last start.
    pub host: String,
    /// In which processes have numbers.
    pub space: String,
    pub pid: u32,
    pub started: u64,
    pub name: String,
    /// How many processes of a host share memory.
    pub shared: u32,
    pub cpus: Vec<usize>,
}

impl Hello {
    pub fn own(shared: u32) -> Hello {
        let pid = std::process::id();
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Hello {
            host: flash_net::boot_id(),
            space: space.to_string_lossy().into_owned(),
            pid,
            started: flash_net::started(pid),
            name: name.trim().to_owned(),
            shared,
            cpus: flash_net::cpus(),
        }
    }

    pub fn info(&self, peer: Peer) -> PeerInfo {
        let Hello { host, pid, cpus, .. } = self;
        PeerInfo { host: host.clone(), pid: *pid, cpus: cpus.clone(), name: self.name_of(peer) }
    }

    /// What a process of its host is called in messages.
    pub fn name_of(&self, peer: Peer) -> String {
        format!("rank {} of {}", peer.0, self.name)
    }

    /// The version, and lines.
    pub fn bytes(&self) -> Vec<u8> {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        let lines = [
            self.host.as_str(),
            &self.space,
            &self.pid.to_string(),
            &self.started.to_string(),
            &self.name,
            &self.shared.to_string(),
            &cpus.join(" "),
        ];
        [&[VERSION], lines.join("\n").as_bytes()].concat()
    }

    /// `None`: it is none.
    pub fn read(message: &[u8]) -> Option<Hello> {
        let (&VERSION, lines) = message.split_first()? else { return None };
        let mut lines = std::str::from_utf8(lines).ok()?.split('\n');
        let mut line = || lines.next();
        let (host, space) = (line()?.to_owned(), line()?.to_owned());
        let (pid, started) = (line()?.parse().ok()?, line()?.parse().ok()?);
        let name = line()?.to_owned();
        let shared = line()?.parse().ok()?;
        let cpus = line()?.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        line().is_none().then_some(Hello { host, space, pid, started, name, shared, cpus })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_of_itself_is_read_and_nothing_else_is() {
        let hello = Hello { name: "a host".into(), ..Hello::own(3) };
        let bytes = hello.bytes();
        assert_eq!(Hello::read(&bytes), Some(hello));
        for length in 0..bytes.len() {
            let cut = Hello::read(&bytes[..length]);
            // The last line is numbers, of which fewer may be there.
            assert!(cut.is_none() || bytes[..length].iter().filter(|byte| **byte == b'\n').count() == 6);
        }
        assert_eq!(Hello::read(&[&bytes[..], b"\nmore"].concat()), None);
        assert_eq!(Hello::read(&[&[VERSION + 1], &bytes[1..]].concat()), None);
        assert_eq!(Hello::read(&[VERSION, 0xff, b'\n']), None);
    }
}
