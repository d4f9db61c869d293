//! Instances that share memory: processes of this host, or threads of this process.
//!
//! A group is a world of `flash-net`: those that were started together, or one instance and those that it
//! created. Groups share nothing. An instance has processors of its own as long as there are enough of them;
//! what it creates gets some of its.

use crate::Error;
use crate::error::panic_text;
use crate::managers::{Instance, InstanceManager, Managers, Template};
use crate::os_threads::ThreadCompute;
use crate::shared::{Endpoint, Net};
use crate::topology::HostTopology;
use flash_backend::settings;
use flash_net::{Detector, Member, Peer, PeerInfo, SharedTransport, Transport, World, local_members};
use flash_topology::{CpuSet, Topology};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the instances of a group have to join it.
const START: Duration = Duration::from_secs(60);
/// How long created instances have to end after their group is dropped.
const END: Duration = Duration::from_secs(5);
/// How often they are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What every thread of a group of threads runs.
type Program = dyn Fn(Managers) -> Result<(), Error> + Send + Sync;

/// Joins the group that this process was started in, as one of its instances: those that `flash run -n N`
/// starts, or that another instance creates. Waits for all of them. A process that was started by itself is a
/// group of one.
///
/// To be called once, before the program's first runtime: under `flash run` a process that asks for a runtime
/// and has not joined becomes an agent of rank 0.
///
/// # Errors
/// [`Error::Refused`] if this process uses its world already; [`Error::Lost`] if an instance ended before it
/// joined.
pub fn join() -> Result<Managers, Error> {
    let world = World::from_environment()?;
    let transport = match &world {
        None => {
            let cpus = flash_net::cpus();
            let member = Member { name: "instance 0".to_owned(), cpus };
            let mut alone = local_members(&[member])?;
            alone.pop().ok_or_else(|| Error::refused("a group of one", "expected an instance, found none"))?
        }
        Some((world, me)) if world.is_taken(*me)? => {
            return Err(Error::refused(
                "joining the group of this process",
                "it uses its world already, as an instance or for agents: call `flash_hicr::join` once, before the \
                 first runtime, and no `RANK` afterwards",
            ));
        }
        Some((world, me)) => SharedTransport::join(world, *me)?,
    };
    let instances = Instances::new(transport, Source::Process, Weak::new());
    instances.all_joined(&mut || Ok(()))?;
    Ok(managers(instances))
}

/// Runs a program as several instances that are threads of this process, and waits for all of them. The first
/// error is returned, those of lost instances last: they follow from others.
///
/// # Errors
/// The program's; a panic is [`Error::Panicked`].
pub fn threads(
    count: usize,
    program: impl Fn(Managers) -> Result<(), Error> + Send + Sync + 'static,
) -> Result<(), Error> {
    let cpus = flash_net::cpus();
    let member = |i| Member { name: format!("instance {i}"), cpus: share(&cpus, i, count) };
    let endpoints = local_members(&(0..count).map(member).collect::<Vec<_>>())?;
    let program: Arc<Program> = Arc::new(program);
    let started: Vec<_> = endpoints.into_iter().map(|endpoint| start_thread(endpoint, &program)).collect();
    let mut errors = Vec::new();
    for thread in started {
        match thread.map(JoinHandle::join) {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) | Err(error) => errors.push(error),
            Ok(Err(panic)) => errors.push(panicked(&*panic)),
        }
    }
    let first = errors.iter().position(|error| !matches!(error, Error::Lost(_))).unwrap_or(0);
    if errors.is_empty() { Ok(()) } else { Err(errors.swap_remove(first)) }
}

/// How long an instance may be stopped: what the environment's `FLASH_RANK_TIMEOUT_MS` says.
fn limit() -> Duration {
    Duration::from_millis(settings::process_number("rank.timeout_ms").unwrap_or(5000))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    Error::Panicked { what: "an instance".to_owned(), text: panic_text(panic) }
}

/// The processors of one instance: its part of all, or one of them where there are more instances.
fn share(cpus: &[usize], i: usize, count: usize) -> Vec<usize> {
    match cpus.len() {
        0 => Vec::new(),
        n if count > n => vec![cpus[i % n]],
        n => cpus[i * n / count..(i + 1) * n / count].to_vec(),
    }
}

fn start_thread(
    transport: SharedTransport,
    program: &Arc<Program>,
) -> Result<JoinHandle<Result<(), Error>>, Error> {
    let program = program.clone();
    let thread = std::thread::Builder::new().name(format!("hicr-{}", transport.me().0));
    let run = move || {
        let instances = Instances::new(transport, Source::Thread(program.clone()), Weak::new());
        // Where the system refuses it, the thread runs anywhere.
        let _ = flash_net::keep_to(&numbers(&instances.cpus()));
        let hicr = managers(instances);
        catch_unwind(AssertUnwindSafe(|| program(hicr))).unwrap_or_else(|panic| Err(panicked(&*panic)))
    };
    thread.spawn(run).map_err(|why| Error::refused("a thread for an instance", why.to_string()))
}

fn managers(instances: Instances) -> Managers {
    let instances = Arc::new(instances);
    let topology = instances.topology.clone();
    let endpoint = Arc::new(Endpoint::new(instances.transport.clone(), topology.clone()));
    let compute = Arc::new(ThreadCompute(topology.clone()));
    Managers { topology, memory: endpoint.clone(), communication: endpoint, compute, instances, keep: None }
}

fn numbers(cpus: &CpuSet) -> Vec<usize> {
    cpus.iter().map(|cpu| cpu as usize).collect()
}

/// How an instance creates others.
#[derive(Clone)]
enum Source {
    Process,
    Thread(Arc<Program>),
}

struct Instances {
    transport: Arc<Net>,
    topology: Arc<HostTopology>,
    cpus: Arc<Mutex<CpuSet>>,
    source: Source,
    /// The managers keep it, and drop it last: when this instance has left the group.
    created: Weak<Created>,
}

/// The instances of a group but the one that created them.
struct Created {
    processes: Mutex<Vec<Child>>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
    /// The creator's processors, and those that it gave.
    cpus: Arc<Mutex<CpuSet>>,
    given: CpuSet,
}

impl Instances {
    fn new(transport: SharedTransport, source: Source, created: Weak<Created>) -> Instances {
        let me = transport.info(transport.me());
        let cpus = me.map(|info| info.cpus).unwrap_or_default();
        let cpus: Arc<Mutex<CpuSet>> = Arc::new(Mutex::new(cpus.into_iter().map(|cpu| cpu as u32).collect()));
        let own = cpus.clone();
        let topology = HostTopology {
            name: format!("instance {}", transport.me().0),
            cpus: Box::new(move || lock(&own).clone()),
        };
        let transport = Arc::new(Detector::of_stopped(transport, limit()));
        Instances { transport, topology: Arc::new(topology), cpus, source, created }
    }

    fn cpus(&self) -> CpuSet {
        lock(&self.cpus).clone()
    }

    /// Waits until all have joined. `check` is asked meanwhile.
    fn all_joined(&self, check: &mut dyn FnMut() -> Result<(), Error>) -> Result<Vec<PeerInfo>, Error> {
        let until = Instant::now() + START;
        let mut all = Vec::new();
        for peer in (0..self.transport.peers() as u32).map(Peer) {
            loop {
                let ticket = self.transport.ticket();
                if let Some(info) = self.transport.info(peer) {
                    all.push(info);
                    break;
                }
                if let Some(loss) = self.transport.lost(peer) {
                    return Err(Error::Lost(Box::new(loss)));
                }
                check()?;
                if Instant::now() >= until {
                    let why = format!(
                        "expected it within {} s: does its program call `flash_hicr::join`?",
                        START.as_secs()
                    );
                    return Err(Error::refused(format!("instance {} has not joined", peer.0), why));
                }
                self.transport.wait(ticket, Some(Instant::now() + LOOK));
            }
        }
        Ok(all)
    }

    /// The processors of each of `count` new instances, and those that stay. The fewest that do.
    fn divide(&self, template: &Template, count: usize) -> Result<(Vec<CpuSet>, CpuSet), Error> {
        let here = Topology::read();
        let mut left = numbers(&self.cpus());
        let mut given = Vec::new();
        for _ in 0..count {
            // The last one stays.
            let most = left.len().saturating_sub(1);
            let mut lacking = None;
            let mut fits = |n: usize| {
                let part: CpuSet = left[left.len() - n..].iter().map(|cpu| *cpu as u32).collect();
                let outcome = needs(template).is_met_by(&here.subset(&part));
                lacking = outcome.err();
                lacking.is_none().then_some(part)
            };
            // Where nothing can be given, the error says what is lacking beside that.
            let part = (1..=most).find_map(&mut fits);
            let Some(part) = part else {
                let none = || needs(template).is_met_by(&here.subset(&CpuSet::new())).err();
                return Err(match lacking.or_else(none) {
                    Some(lacking) => Error::Lacking(lacking),
                    None => Error::refused("creating instances", "expected a processor to give, found none"),
                });
            };
            left.truncate(left.len() - part.len());
            given.push(part);
        }
        Ok((given, left.into_iter().map(|cpu| cpu as u32).collect()))
    }

    fn start(
        &self,
        template: &Template,
        members: &[Member],
        given: CpuSet,
    ) -> Result<(SharedTransport, Created), Error> {
        let created = |processes: Vec<Child>, threads| Created {
            processes: Mutex::new(processes),
            threads,
            cpus: self.cpus.clone(),
            given: given.clone(),
        };
        match &self.source {
            Source::Thread(program) => {
                let mut endpoints = local_members(members)?.into_iter();
                let me = endpoints.next().ok_or_else(|| Error::refused("a group", "it has no instance"))?;
                let threads =
                    endpoints.map(|endpoint| start_thread(endpoint, program)).collect::<Result<_, _>>()?;
                Ok((me, created(Vec::new(), threads)))
            }
            Source::Process => {
                let world = World::create(members)?;
                let program = std::env::current_exe()
                    .map_err(|why| Error::refused("finding this program", why.to_string()))?;
                let arguments = template.arguments.clone();
                let arguments = arguments.unwrap_or_else(|| std::env::args_os().skip(1).collect());
                // From here on those that were started end with an error.
                let group = created(Vec::new(), Vec::new());
                for peer in 1..members.len() as u32 {
                    let mut command = Command::new(&program);
                    command.args(&arguments);
                    world.inherit(&mut command, Peer(peer))?;
                    let child = command.spawn();
                    let child = child.map_err(|why| {
                        Error::refused(format!("starting {}", program.display()), why.to_string())
                    })?;
                    lock(&group.processes).push(child);
                }
                Ok((SharedTransport::join(&world, Peer(0))?, group))
            }
        }
    }
}

/// What a template asks for; at least a processor.
fn needs(template: &Template) -> Topology {
    let mut needs = template.needs.clone();
    if needs.hosts.is_empty() {
        let core = flash_topology::Core { cpus: CpuSet::from_iter([0]), ..Default::default() };
        let socket = flash_topology::Socket { number: 0, cores: vec![core] };
        needs.hosts = vec![flash_topology::Host { sockets: vec![socket], ..Default::default() }];
    }
    needs
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InstanceManager for Instances {
    fn current(&self) -> Instance {
        let number = self.transport.me().0;
        Instance { number, name: format!("instance {number}"), pid: std::process::id(), cpus: self.cpus() }
    }

    fn instances(&self) -> Result<Vec<Instance>, Error> {
        let all = self.all_joined(&mut || Ok(()))?;
        let instance = |(number, info): (u32, PeerInfo)| Instance {
            number,
            name: info.name,
            pid: info.pid,
            cpus: info.cpus.into_iter().map(|cpu| cpu as u32).collect(),
        };
        Ok((0..).zip(all).map(instance).collect())
    }

    fn create(&self, template: &Template, count: usize) -> Result<Managers, Error> {
        if count == 0 || count >= flash_net::MAX_PEERS {
            let why = format!("expected 1 to {} of them, found {count}", flash_net::MAX_PEERS - 1);
            return Err(Error::refused("creating instances", why));
        }
        let (parts, rest) = self.divide(template, count)?;
        let given = parts.iter().fold(CpuSet::new(), |all, part| all.union(part));
        let member = |i, cpus: &CpuSet| Member { name: format!("instance {i}"), cpus: numbers(cpus) };
        let mut members = vec![member(0, &rest)];
        members.extend((1..).zip(&parts).map(|(i, part)| member(i, part)));
        *lock(&self.cpus) = rest.clone();
        // The thread that goes on; where the system refuses it, it runs anywhere.
        let _ = flash_net::keep_to(&numbers(&rest));
        let started = self.start(template, &members, given.clone());
        let (transport, created) = started.inspect_err(|_| take_back(&self.cpus, &given))?;
        let created = Arc::new(created);
        let group = Instances::new(transport, self.source.clone(), Arc::downgrade(&created));
        group.all_joined(&mut || created.check())?;
        Ok(Managers { keep: Some(created), ..managers(group) })
    }

    fn terminate(&self, number: u32) -> Result<(), Error> {
        let refuse = |why: &str| Err(Error::refused(format!("ending instance {number}"), why));
        let Some(created) = self.created.upgrade() else { return refuse("this instance did not create it") };
        let mut processes = lock(&created.processes);
        let child = (number as usize).checked_sub(1).and_then(|at| processes.get_mut(at));
        match child {
            Some(child) => match child.kill().and_then(|()| child.wait()) {
                Ok(_) => Ok(()),
                Err(why) => refuse(&why.to_string()),
            },
            None => refuse("it is no process that this instance created; a thread ends by itself"),
        }
    }
}

/// Gives processors back to the instance that gave them.
fn take_back(cpus: &Mutex<CpuSet>, given: &CpuSet) {
    let mut cpus = lock(cpus);
    *cpus = cpus.union(given);
    // Where the system refuses it, the thread stays where it is.
    let _ = flash_net::keep_to(&numbers(&cpus));
}

impl Created {
    /// # Errors
    /// If a process ended already.
    fn check(&self) -> Result<(), Error> {
        for (number, child) in (1..).zip(lock(&self.processes).iter_mut()) {
            if let Ok(Some(status)) = child.try_wait() {
                let why = format!("it ended before, {status}: does its program call `flash_hicr::join`?");
                return Err(Error::refused(format!("instance {number} has not joined"), why));
            }
        }
        Ok(())
    }

    fn have_ended(&self) -> bool {
        let running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        !lock(&self.processes).iter_mut().any(running) && self.threads.iter().all(JoinHandle::is_finished)
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        // They end when they have done their part, or notice that this instance has left.
        let until = Instant::now() + END;
        while !self.have_ended() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        for child in lock(&self.processes).iter_mut() {
            // An error: it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        for thread in self.threads.drain(..).filter(JoinHandle::is_finished) {
            let error = match thread.join() {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(panic) => panicked(&*panic),
            };
            // As a process's program would. Not `eprintln!`, which panics where it is closed.
            let _ = writeln!(std::io::stderr(), "an instance that was created failed: {error}");
        }
        take_back(&self.cpus, &self.given);
    }
}
