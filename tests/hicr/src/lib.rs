//! Starting a test's instances as processes, as `flash run` does.

use flash_hicr::{Error, Managers};
use flash_net::{Member, Peer, World};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Names the test that a process is an instance of.
const CHILD: &str = "FLASH_HICR_TEST_CHILD";
/// Longer than anything here takes on a machine that is busy.
const LONG: Duration = Duration::from_secs(120);

/// How the processes of a test ended, by their numbers.
pub struct Ended(pub Vec<ExitStatus>);

impl Ended {
    /// # Panics
    /// If one of them failed.
    pub fn all_well(self) {
        for (number, status) in self.0.iter().enumerate() {
            assert!(status.success(), "instance {number}: {status}; its output is above");
        }
    }
}

/// Runs a test's body in this many processes, which are the instances of one group. `name` is the test's name
/// as the harness prints it.
///
/// # Panics
/// If one cannot be started, or does not end: then all are killed.
pub fn processes(name: &str, count: usize, body: impl FnOnce(Managers) -> Result<(), Error>) -> Ended {
    raw_processes(name, count, || {
        let hicr = flash_hicr::join().unwrap_or_else(|error| panic!("joining: {error}"));
        let number = hicr.instances.current().number;
        body(hicr).unwrap_or_else(|error| panic!("instance {number}: {error}"));
    })
}

/// As [`processes`], of a body that joins or does not.
///
/// # Panics
/// As [`processes`].
pub fn raw_processes(name: &str, count: usize, body: impl FnOnce()) -> Ended {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        body();
        // What the harness would do now, the process that started this one does.
        std::process::exit(0);
    }
    let cpus = flash_net::cpus();
    let member = |i: usize| Member { name: format!("instance {i}"), cpus: vec![cpus[i % cpus.len()]] };
    let world = World::create(&(0..count).map(member).collect::<Vec<_>>()).expect("a world");
    let mut children = Vec::new();
    for number in 0..count {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, name);
        world.inherit(&mut command, Peer(number as u32)).expect("a world that is inherited");
        children.push(Killed(command.spawn().expect("this program can be run again")));
    }
    drop(world);
    let until = Instant::now() + LONG;
    let mut wait = |child: &mut Killed| loop {
        if let Some(status) = child.0.try_wait().expect("a child") {
            return status;
        }
        assert!(Instant::now() < until, "{name}: a process has not ended after {LONG:?}: it hangs");
        std::thread::sleep(Duration::from_millis(2));
    };
    Ended(children.iter_mut().map(&mut wait).collect())
}

/// A child that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Errors: it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
