//! The agents of a controller, and the processes that serve them.
//!
//! An agent is what devices belong to. The process behind it may change: when it is gone, the next use of its
//! devices starts another one, with the same devices and empty memories. Each process is a peer of its own,
//! so what a late one says is not heard, and what was in it is known by its number. Only its starter
//! changes an agent, with `started` locked.

use super::calls::Reply;
use super::{Controller, LOOK, START};
use crate::wire::{self, RemoteDevice, Request};
use flash_backend::abi::{ABI_MAJOR, ABI_MINOR};
use flash_backend::{Code, Failure, notice};
use flash_net::{How, Member, Peer, Transport, World, end_with_parent};
use flash_net_mpi::RANK_VARIABLES;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// The name, in keys, of an agent that is this program; other names are those of services.
const OWN: &str = "agent";

/// How long a process that is lost has to end.
const END: Duration = Duration::from_secs(2);

/// An agent.
pub(crate) struct Agent {
    /// What it is called: `rank 2`, `OPENCL@agent`.
    pub name: String,
    pub of: Of,
    /// The process that serves it, or has.
    peer: AtomicU32,
    /// What its first process had; the others must have the same.
    devices: OnceLock<Vec<RemoteDevice>>,
    /// The last process that this one has started for it.
    started: Mutex<Option<Child>>,
}

/// What an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A process of `flash run`.
    Rank(u32),
    /// One for the devices of a backend, by the key of that and the agent's name, as in `OPENCL@agent`.
    Key(String),
}

impl Agent {
    /// One that a process serves which was started already.
    pub fn of_rank(peer: Peer) -> &'static Agent {
        Agent::new(Of::Rank(peer.0), peer)
    }

    fn new(of: Of, peer: Peer) -> &'static Agent {
        let name = match &of {
            Of::Rank(rank) => format!("rank {rank}"),
            Of::Key(key) => key.clone(),
        };
        let peer = AtomicU32::new(peer.0);
        Box::leak(Box::new(Agent { name, of, peer, devices: OnceLock::new(), started: Mutex::default() }))
    }

    /// Refuses devices that are not those of its first process: the host knows them by their numbers.
    fn check(&self, found: &[RemoteDevice]) -> Result<(), String> {
        let expected = self.devices.get_or_init(|| found.to_vec());
        let is_same = |(a, b): (&RemoteDevice, &RemoteDevice)| {
            let spaces = |device: &RemoteDevice| device.spaces.iter().map(|s| s.id).collect::<Vec<_>>();
            a.id == b.id && a.target == b.target && spaces(a) == spaces(b)
        };
        if expected.len() == found.len() && expected.iter().zip(found).all(is_same) {
            return Ok(());
        }
        let ids = |devices: &[RemoteDevice]| devices.iter().map(|d| &*d.id).collect::<Vec<_>>().join(", ");
        Err(format!("expected its devices as they were, {}, found {}", ids(expected), ids(found)))
    }

    /// The process that serves it, or has.
    pub fn peer(&self) -> Peer {
        Peer(self.peer.load(Acquire))
    }
}

/// A process that serves.
struct Started {
    peer: Peer,
    /// `None`: a service has started it.
    process: Option<Child>,
    devices: Vec<RemoteDevice>,
}

/// A process that is to become a peer.
enum Process {
    Child(Child),
    /// A service's, by its number.
    Served(u32),
}

impl Process {
    /// How it has ended, if it has.
    fn end(&mut self) -> Option<String> {
        match self {
            Process::Child(child) => child.try_wait().ok().flatten().map(|status| format!(", {status}")),
            // A service waits for its processes at once.
            Process::Served(pid) => (!Path::new(&format!("/proc/{pid}")).exists()).then(String::new),
        }
    }
}

impl Controller {
    /// An agent for the devices of a backend, as `KEY@AGENT`, with what it has.
    ///
    /// # Errors
    /// Why there is none.
    pub fn isolate(&'static self, key: &str) -> Result<(&'static Agent, Vec<RemoteDevice>), Failure> {
        let member = Member { name: key.to_owned(), cpus: Vec::new() };
        let agent = Agent::new(Of::Key(key.to_owned()), Peer(0));
        let Started { peer, process, devices } = self.start_process(agent, &member)?;
        agent.peer.store(peer.0, Release);
        *agent.started.lock().unwrap_or_else(PoisonError::into_inner) = process;
        Ok((agent, devices))
    }

    /// The process that serves an agent: a new one if the last is gone.
    ///
    /// # Errors
    /// If it does not start, or has other devices.
    pub fn serving(&'static self, agent: &'static Agent) -> Result<Peer, Failure> {
        let peer = agent.peer();
        if !self.is_lost(peer) {
            return Ok(peer);
        }
        let mut started = agent.started.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = agent.peer();
        let Some(loss) = self.transport.lost(peer) else { return Ok(peer) };
        // A process that hangs would go on to hold what its successor needs.
        self.transport.end(peer, END);
        if !self.can_replace(agent) {
            return Err(wire::gone(&loss));
        }
        if let Some(mut last) = started.take() {
            let _ = last.kill();
            let _ = last.wait();
        }
        let cpus = self.transport.info(peer).map(|info| info.cpus).unwrap_or_default();
        let again = self.start_process(agent, &Member { name: agent.name.clone(), cpus });
        let again = again.map_err(|failure| {
            let text = format!(
                "{}; no other process could be started for it: {}",
                wire::gone(&loss).text,
                failure.text
            );
            Failure::new(Code::DeviceLost, text)
        })?;
        *started = again.process;
        agent.peer.store(again.peer.0, Release);
        notice(format_args!("{}; another process serves its devices now", wire::gone(&loss).text));
        Ok(again.peer)
    }

    /// True if an agent is lost, and no process can take its place.
    pub fn is_gone(&self, agent: &Agent) -> bool {
        !self.can_replace(agent) && self.is_lost(agent.peer())
    }

    /// True if another process can take the place of an agent's: on this host.
    fn can_replace(&self, agent: &Agent) -> bool {
        self.world.is_some() && self.transport.memory(agent.peer()).is_some()
    }

    /// How many agents are.
    pub fn losses(&self) -> u64 {
        self.ranks.iter().filter(|agent| self.is_gone(agent)).count() as u64
    }

    /// Lets a process become a peer, one of this program or of a service, and asks it what it has.
    fn start_process(&'static self, agent: &Agent, member: &Member) -> Result<Started, Failure> {
        // Its callers say for which agent.
        let failed = |why: String| Failure::new(Code::Unavailable, why);
        let service = member.name.rsplit_once('@').map(|(_, agent)| agent).filter(|agent| *agent != OWN);
        let world = self
            .world
            .ok_or_else(|| failed("no agent is started where processes share no memory".to_owned()))?;
        let peer = world.add(member).map_err(|error| wire::failed(&error))?;
        let mut process = match service {
            None => Process::Child(self.spawn(world, peer).map_err(failed)?),
            Some(name) => {
                let asked = flash_net::ask_to_serve(name, world, peer);
                Process::Served(asked.map_err(|error| failed(error.to_string()))?)
            }
        };
        let asked = self.ask_first(peer, &mut process);
        let checked = asked.and_then(|devices| agent.check(&devices).map(|()| devices));
        let mut process = match process {
            Process::Child(child) => Some(child),
            Process::Served(_) => None,
        };
        if checked.is_err() {
            self.transport.end(peer, END);
            if let Some(child) = &mut process {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        Ok(Started { peer, devices: checked.map_err(failed)?, process })
    }

    /// This program again, with its arguments. It ends with the thread that starts it, so that is one which
    /// lives as long as this process.
    fn spawn(&'static self, world: &'static World, peer: Peer) -> Result<Child, String> {
        let (sender, started) = mpsc::channel();
        self.starter.run(Box::new(move || {
            let mut arguments = std::env::args_os();
            // By its name, as long as it is there.
            let own = std::env::current_exe().ok().filter(|file| file.exists());
            let mut command = Command::new(own.unwrap_or_else(|| "/proc/self/exe".into()));
            if let Some(name) = arguments.next() {
                command.arg0(name);
            }
            command.args(arguments).stdin(Stdio::null());
            // It is no process of a launcher's job.
            for name in RANK_VARIABLES {
                command.env_remove(name);
            }
            let spawned = match world.inherit(&mut command, peer) {
                // SAFETY: between fork and exec the function makes one system call.
                Ok(()) => unsafe { command.pre_exec(|| end_with_parent(libc::SIGKILL)) }
                    .spawn()
                    .map_err(|error| format!("this program does not start again: {error}")),
                Err(error) => Err(error.to_string()),
            };
            let _ = sender.send(spawned);
        }));
        started.recv().unwrap_or_else(|_| Err("the thread that starts processes is gone".to_owned()))
    }

    /// The devices of a process that was just started.
    fn ask_first(&'static self, peer: Peer, process: &mut Process) -> Result<Vec<RemoteDevice>, String> {
        let text = |failure: Failure| failure.text;
        let number = self.begin(peer, &HELLO).map_err(text)?;
        let until = Instant::now() + START;
        loop {
            if self.wait_until(peer, number, std::ptr::null(), Some(Instant::now() + LOOK)) {
                return devices(self.taken(number)).map_err(text);
            }
            if let Some(how) = process.end() {
                self.calls.leave(number);
                return Err(format!("its process ended before it served{how}: see what it wrote"));
            }
            if until <= Instant::now() {
                self.calls.leave(number);
                return Err(silent());
            }
        }
    }

    /// The devices of the processes that `flash run` has started.
    ///
    /// # Errors
    /// If one of them does not say what it has.
    pub fn ask_all(
        &'static self,
        agents: &[&'static Agent],
    ) -> Result<Vec<(&'static Agent, Vec<RemoteDevice>)>, Failure> {
        // All of them at once: each takes a while to start.
        let asked: Vec<_> = agents.iter().map(|agent| (*agent, self.begin(agent.peer(), &HELLO))).collect();
        let until = Instant::now() + START;
        let one = |(agent, number): (&'static Agent, Result<_, Failure>)| {
            let number = number?;
            if !self.wait_until(agent.peer(), number, std::ptr::null(), Some(until)) {
                self.calls.leave(number);
                return Err(Failure::new(Code::Unavailable, format!("{} {}", agent.name, silent())));
            }
            let devices = devices(self.taken(number))?;
            agent.check(&devices).map_err(|why| Failure::new(Code::Unavailable, why))?;
            Ok((agent, devices))
        };
        asked.into_iter().map(one).collect()
    }

    /// A process that is lost because it is silent may go on, and write what others use now: it is ended.
    pub(super) fn end_if_silent(&self, peer: Peer, how: &How) {
        if matches!(how, How::Silent(_) | How::Protocol(_)) {
            self.transport.end(peer, END);
        }
    }
}

const HELLO: Request<'static> = Request::Hello { version: wire::VERSION, abi: [ABI_MAJOR, ABI_MINOR] };

fn devices(outcome: super::calls::Outcome) -> Result<Vec<RemoteDevice>, Failure> {
    match outcome? {
        Reply::Devices(devices) => Ok(devices),
        other => Err(wire::bad(format!("expected a list of devices, found {other:?}"))),
    }
}

fn silent() -> String {
    format!(
        "did not say within {} s which devices it has: does its program call get_runtime or agent_here?",
        START.as_secs()
    )
}

/// The key of the backend whose devices a process is to serve, by its name in the world; `None`: all.
pub(crate) fn served(world: &World, me: Peer) -> Option<String> {
    Some(world.member(me).ok()?.name.rsplit_once('@')?.0.to_owned())
}
