//! What C2MPI promises of long runs: messages come once and in order, claims leave nothing behind, and an
//! agent outlives clients that are killed.

use crate::process::{self, Usage};
use crate::random::Random;
use flash::kernel::prelude::*;
use flash_backend_test as _;
use flash_c2mpi::attributes::Overrides;
use flash_c2mpi::config::Config;
use flash_c2mpi::{ANY_SOURCE, ANY_TAG, ComputeObj, Status, Target, Wanted, World, unified};
use flash_core::Context;
use flash_core::descriptor::{Element, ElementType};
use flash_core::memory::AnyType;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that send and receive at the same time.
const THREADS: u64 = 8;
/// Messages of a thread, or of a chain of parent ranks, that are on their way at most.
const WINDOW: u64 = 32;
/// Tags of a thread.
const TAGS: u64 = 6;
/// Numbers of a message, most of the time, and of one that is started and not run by the call that sends it.
const SIZES: [usize; 2] = [3, 20_000];

#[derive(KernelDefinition)]
#[kernel(name = "soak.add", dims(i))]
struct Add<'a> {
    by: u64,
    data: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.data = k.data.wrapping_add(k.by);
    }
}

/// Four parent ranks and the function ADD, on the devices of a key.
fn world(key: &str) -> Arc<World> {
    let text = format!(
        r#"{{"host_list": [{{"host_name": "here", "max_slots": 4}}],
            "func_list": [{{"func_alias": "ADD", "sw_fid": "soak.add", "key": "{key}"}},
                          {{"func_alias": "EWMM", "sw_fid": "123456", "key": "{key}"}}]}}"#
    );
    let report = Config::parse(&text);
    World::new(report.config.unwrap_or_else(|| panic!("{:?}", report.faults)), Context::default())
}

fn claim(world: &Arc<World>, alias: &str) -> i32 {
    world.claim(alias, None, &Overrides::default()).unwrap()
}

fn element<T: Element>() -> AnyType {
    AnyType::new(&ElementType::of::<T>()).unwrap()
}

fn receive(world: &World, object: &ComputeObj, parent: u32, wanted: Wanted) -> Status {
    // SAFETY: the arrays of all objects here live as long as their objects.
    unsafe { world.receive(&Target::Object(object), parent, wanted) }.unwrap()
}

/// An object of ADD, with its array.
struct Numbers {
    object: ComputeObj,
    data: *mut u64,
    len: usize,
}

impl Numbers {
    fn new(len: usize) -> Numbers {
        let data = Box::into_raw(vec![0u64; len].into_boxed_slice()).cast::<u64>();
        let object = ComputeObj::new();
        object.add_scalar(element::<u64>(), &[0; 8]).unwrap();
        // SAFETY: the array lives as long as this.
        unsafe { object.add_array(element::<u64>(), &[len as u64], data.cast()).unwrap() };
        Numbers { object, data, len }
    }

    /// Its elements become `of`, to which a kernel adds `by`.
    fn set(&self, of: u64, by: u64) {
        // SAFETY: the array of this, which only this thread uses.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }.fill(of);
        self.object.set_scalar(0, &by.to_ne_bytes()).unwrap();
    }

    /// What all elements are.
    fn get(&self) -> u64 {
        // SAFETY: as above.
        let all = unsafe { std::slice::from_raw_parts(self.data, self.len) };
        assert!(all.iter().all(|x| *x == all[0]), "a message has elements of several runs");
        all[0]
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        // SAFETY: it came from a box of as many, and no object has it any more.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.data, self.len)) });
    }
}

/// Sends this many messages from 8 threads to two child ranks, and receives them by tags that are drawn. Each
/// message comes once, and of one child rank and one tag in the order of sending. Returns how many there
/// were.
///
/// # Panics
/// If one is lost, comes twice, or out of order.
pub fn messages(count: u64, seed: u64, done: &AtomicU64) -> u64 {
    let world = world("ALL_CPU");
    let children = [(); 2].map(|()| claim(&world, "ADD"));
    let rounds = count.div_ceil(THREADS * WINDOW);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let world = &world;
            scope.spawn(move || {
                let mut random = Random::new(seed ^ (thread << 32));
                let numbers = SIZES.map(Numbers::new);
                // Per child rank and tag: what was sent, and in which of the arrays.
                let mut sent: [VecDeque<(u64, usize)>; 2 * TAGS as usize] = Default::default();
                for round in 0..rounds {
                    for at in 0..WINDOW {
                        let (to, size) = (random.below(2 * TAGS), usize::from(random.once_in(500)));
                        let (number, by) = (random.number(), round * WINDOW + at);
                        numbers[size].set(number, by);
                        let tag = thread * TAGS + to / 2;
                        world.send(&numbers[size].object, children[to as usize % 2], 0, tag as i32).unwrap();
                        sent[to as usize].push_back((number.wrapping_add(by), size));
                    }
                    for _ in 0..WINDOW {
                        let first = random.below(2 * TAGS);
                        let to = (first..first + 2 * TAGS).map(|to| (to % (2 * TAGS)) as usize);
                        let to = to.into_iter().find(|to| !sent[*to].is_empty()).unwrap();
                        let (expected, size) = sent[to].pop_front().unwrap();
                        let tag = (thread * TAGS) as i32 + to as i32 / 2;
                        receive(world, &numbers[size].object, 0, Wanted { child: children[to % 2], tag });
                        let found = numbers[size].get();
                        assert_eq!(found, expected, "thread {thread}, round {round}, tag {tag}");
                        done.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    for child in children {
        assert_eq!(world.probe_now(0, Wanted { child, tag: ANY_TAG }).unwrap(), None, "a message is left");
    }
    world.end();
    rounds * THREADS * WINDOW
}

/// Sends this many messages from parent rank 0 through 1 and 2 to 3; each adds to what it got. They come
/// once, and of one tag in the order of sending.
///
/// # Panics
/// If one is lost, comes twice, or out of order.
pub fn forwarding(count: u64, seed: u64, done: &AtomicU64) -> u64 {
    let world = world("ALL_CPU");
    let child = claim(&world, "ADD");
    let (begun, arrives) = sync_channel::<(i32, u64)>(2 * WINDOW as usize);
    let world = &world;
    // What a parent rank gets it sends on, with the tag.
    let forward = move |parent: u32, by: u64, one: &dyn Fn(&Numbers) -> Status| {
        let numbers = Numbers::new(SIZES[0]);
        for _ in 0..count {
            let status = one(&numbers);
            numbers.set(numbers.get(), by);
            world.send(&numbers.object, child, parent + 1, status.tag).unwrap();
        }
    };
    thread::scope(|scope| {
        scope.spawn(move || {
            let (mut random, numbers) = (Random::new(seed), Numbers::new(SIZES[0]));
            for number in 0..count {
                let tag = random.below(TAGS) as i32;
                numbers.set(number, 1 << 32);
                begun.send((tag, number)).unwrap();
                world.send(&numbers.object, child, 1, tag).unwrap();
            }
        });
        let any = Wanted { child: ANY_SOURCE, tag: ANY_TAG };
        scope.spawn(move || forward(1, 1 << 40, &|numbers| receive(world, &numbers.object, 1, any)));
        scope.spawn(move || {
            forward(2, 1 << 48, &|numbers| {
                let Status { source: child, tag, .. } = world.probe(2, any).unwrap();
                receive(world, &numbers.object, 2, Wanted { child, tag })
            });
        });
        let numbers = Numbers::new(SIZES[0]);
        for (tag, number) in arrives {
            receive(world, &numbers.object, 3, Wanted { child, tag });
            assert_eq!(numbers.get(), number + (1 << 32) + (1 << 40) + (1 << 48), "tag {tag}");
            done.fetch_add(1, Relaxed);
        }
    });
    for parent in 0..4 {
        let left = world.probe_now(parent, Wanted { child: ANY_SOURCE, tag: ANY_TAG }).unwrap();
        assert_eq!(left, None, "parent rank {parent} has a message left");
    }
    world.end();
    count
}

/// Keys of devices in this process and in agents of it.
const KEYS: [&str; 4] = ["ALL_CPU", "TEST", "ALL_CPU@agent", "TEST@agent"];
/// How often memory may grow before it is a leak.
const STRETCHES: u64 = 5;

/// Claims and frees this many child ranks, with buffers and messages that are left, on devices of this
/// process and of agents of it, and again while memory grows. Open files and threads of all processes are
/// then as they were after the first ones, and memory grows no more. Returns its last growth, in bytes, of
/// the process in which it was largest.
///
/// The program calls [`flash::prelude::agent_here`] before.
///
/// # Panics
/// If they are not, or a result is wrong.
pub fn claims(count: u64, seed: u64, done: &AtomicU64) -> u64 {
    let worlds = KEYS.map(world);
    let mut random = Random::new(seed);
    let numbers = Numbers::new(256);
    let mut round = || {
        let world = &worlds[random.below(KEYS.len() as u64) as usize];
        let child = claim(world, "ADD");
        let buffer = world.create_buffer(child, element::<u64>(), &[256]).unwrap();
        let number = random.number();
        for tag in 0..1 + random.below(3) as i32 {
            numbers.set(number, tag as u64);
            world.send(&numbers.object, child, 0, tag).unwrap();
        }
        if random.once_in(2) {
            receive(world, &numbers.object, 0, Wanted { child, tag: 0 });
            assert_eq!(numbers.get(), number);
        }
        world.free(child).unwrap();
        assert!(world.free(buffer).is_err(), "a buffer outlives its child rank");
        done.fetch_add(1, Relaxed);
    };
    (0..count / 5).for_each(|_| round());
    let usage = || {
        let agents = process::children(std::process::id());
        let all = [std::process::id()].into_iter().chain(agents);
        all.map(|id| (id, Usage::of(id))).collect::<Vec<_>>()
    };
    let mut before = usage();
    assert_eq!(before.len(), 3, "this process and two agents");
    // What is in flight at once on a busy machine leaves pages with the allocators: a leak grows each time.
    let mut again = 0..STRETCHES;
    let most = loop {
        (0..count).for_each(|_| round());
        let now = usage();
        let grown = before.iter().zip(&now).map(|((id, before), (now_id, now))| {
            assert_eq!(id, now_id, "an agent was replaced");
            now.flat(*before, &format!("process {id}, after {count} claims"))
        });
        match grown.collect::<Result<Vec<_>, _>>() {
            Ok(grown) => break grown.into_iter().max().unwrap_or(0),
            Err(text) => assert!(again.next().is_some(), "{text}"),
        }
        for ((_, before), (_, now)) in before.iter_mut().zip(now) {
            *before = before.with_memory_of(now);
        }
    };
    worlds.iter().for_each(|world| world.end());
    most
}

/// The variable of a process that is a client of an agent: its seed, and for how many rounds; 0: until it is
/// killed.
const CLIENT: &str = "FLASH_SOAK_CLIENT";
/// The device of clients.
const SERVED: &str = "TEST@soak";
/// How long a client, or what is said of it, may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Rounds of a client that is not killed.
const ROUNDS: u64 = 3;
/// A client is killed within this many milliseconds; it works after about a quarter of them.
const KILLED_WITHIN: u64 = 60;

/// Runs the client of the variable, if this process is one. True if it has run.
///
/// # Panics
/// If the agent does not serve it, or a result is wrong.
pub fn is_client() -> bool {
    let Ok(text) = std::env::var(CLIENT) else { return false };
    let (seed, rounds) = text.split_once(' ').expect("a seed and a number of rounds");
    client(seed.parse().unwrap(), rounds.parse().unwrap());
    true
}

fn client(seed: u64, rounds: u64) {
    let (world, mut random) = (world(SERVED), Random::new(seed));
    let mut at = 0;
    while rounds == 0 || at < rounds {
        let child = claim(&world, "EWMM");
        // Of those that end by themselves, each has the same.
        let n = if rounds == 0 { 1 + random.below(50_000) } else { 10_000 };
        let arrays = [(); 3].map(|()| unified::allocate(4 * n as usize).unwrap());
        let object = ComputeObj::new();
        object.add_scalar(element::<u64>(), &n.to_ne_bytes()).unwrap();
        for (k, array) in arrays.into_iter().enumerate() {
            // SAFETY: `n` numbers of this process, and no message has them.
            unsafe {
                std::slice::from_raw_parts_mut(array.cast::<f32>(), n as usize).fill(k as f32 + 2.0);
                object.add_array(element::<f32>(), &[n], array).unwrap();
            }
        }
        let buffer = world.create_buffer(child, element::<f32>(), &[n]).unwrap();
        // SAFETY: as many numbers.
        unsafe { world.write_buffer(buffer, arrays[0], n as usize, element::<f32>()).unwrap() };
        let sent = 1 + random.below(5) as i32;
        (0..sent).for_each(|tag| world.send(&object, child, 0, tag).unwrap());
        for tag in (0..sent).rev() {
            receive(&world, &object, 0, Wanted { child, tag });
            // SAFETY: all messages that have been received have written it, with the same.
            let last = unsafe { arrays[2].cast::<f32>().add(n as usize - 1).read() };
            assert_eq!(last, 6.0);
        }
        object.reset().unwrap();
        world.free(child).unwrap();
        arrays.into_iter().for_each(|array| unified::free(array).unwrap());
        at += 1;
        if at == 1 || at == rounds {
            let mut out = std::io::stdout();
            // A parent that has been killed reads nothing.
            let _ = writeln!(out, "round {at}").and_then(|()| out.flush());
        }
    }
    world.end();
    // What the agent has left is looked at meanwhile.
    let _ = std::io::stdin().read(&mut [0]);
}

/// A `flash serve` in a folder of its own.
struct Serving<'p> {
    programs: &'p Path,
    folder: tempfile::TempDir,
    process: Child,
}

impl Serving<'_> {
    fn start(programs: &Path) -> Serving<'_> {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Serving::command(programs, folder.path(), "flash");
        command.args(["serve", "TEST", "--listen", "soak"]).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap_or_else(|error| {
            panic!("{}: {error}: it is built by cargo build -p flash-cli", programs.join("flash").display())
        });
        let serving = Serving { programs, folder, process };
        within(LIMIT, || serving.state().is_some().then_some(()));
        serving
    }

    /// Of all processes, only the agent has the plugin.
    fn command(programs: &Path, folder: &Path, program: &str) -> Command {
        let mut command = Command::new(programs.join(program));
        command.env("XDG_RUNTIME_DIR", folder).env("FLASH_TEST", "devices=2");
        command.env("FLASH_BACKEND_PATH", programs.join("libflash_backend_test_plugin.so"));
        command
    }

    /// What `flash agents` says of it.
    fn state(&self) -> Option<serde_json::Value> {
        let mut command = Serving::command(self.programs, self.folder.path(), "flash");
        let output = command.args(["agents", "--json"]).output().unwrap();
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        all["agents"].get(0).cloned()
    }

    fn clients(&self) -> Vec<serde_json::Value> {
        let state = self.state().expect("the agent goes on");
        state["clients"].as_array().expect("a list of clients").clone()
    }

    fn client(&self, arguments: &[&str], seed: u64, rounds: u64) -> Client {
        let mut command = Command::new(std::env::current_exe().expect("this program's file"));
        command.args(arguments).env("XDG_RUNTIME_DIR", self.folder.path());
        command.env(CLIENT, format!("{seed} {rounds}")).env_remove("FLASH_BACKEND_PATH");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Client(command.spawn().expect("this program starts again"))
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What an agent says of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Account {
    launches: u64,
    bytes: u64,
}

struct Client(Child);

impl Client {
    /// Waits until it has come to the end of a round. False if it ends before.
    fn has_done(&mut self, round: u64) -> bool {
        let lines = BufReader::new(self.0.stdout.take().expect("its output is piped"));
        let mut lines = lines.lines().map_while(Result::ok);
        lines.any(|line| line.ends_with(&format!("round {round}")))
    }
}

/// A process does not outlive what has started it.
impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < limit, "it has not happened within {limit:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Kills this many clients of an agent at random moments. After each, the agent serves another one, which has
/// right results and the same account as ever; has no client, and as many open files, threads and processes
/// as before; and nothing is left in `/dev/shm`. Returns how many of those that were killed had come to work.
///
/// Clients are this program, started with these arguments; `programs` is the folder of `flash` and of the
/// plugin of the key `TEST`.
///
/// # Panics
/// If it is not so.
pub fn clients(count: u64, seed: u64, done: &AtomicU64, programs: &Path, arguments: &[&str]) -> u64 {
    let serving = Serving::start(programs);
    let mut random = Random::new(seed);
    // A client that is not killed. Its agent's account, once it has freed all, is that of the first such
    // client; it is not 0, as a client keeps buffers of devices for what comes next.
    let good = |expected: Option<Account>| {
        let mut client = serving.client(arguments, seed, ROUNDS);
        if !client.has_done(ROUNDS) {
            let mut text = String::new();
            let _ = client.0.stderr.take().expect("it is piped").read_to_string(&mut text);
            panic!("a client is not served: {}\n{text}", client.0.wait().unwrap());
        }
        let pid = u64::from(client.0.id());
        let own = || {
            let clients = serving.clients();
            let own = clients.iter().find(|client| client["pid"] == pid)?;
            Some(Account { launches: own["launches"].as_u64()?, bytes: own["bytes"].as_u64()? })
        };
        // It is told a moment after it has changed.
        let account = match expected {
            Some(expected) => within(LIMIT, || own().filter(|account| *account == expected)),
            None => within(LIMIT, || {
                let before = own().filter(|account| account.launches > 0)?;
                thread::sleep(Duration::from_millis(500));
                own().filter(|account| *account == before)
            }),
        };
        drop(client);
        within(LIMIT, || serving.clients().is_empty().then_some(()));
        account
    };
    let account = good(None);
    good(Some(account));
    let served = serving.process.id();
    // A thread that has waited for a client's agent ends a moment after that.
    let quiet = || process::children(served).is_empty().then(|| Usage::of(served));
    let (shared, before) = (process::shared_files(), within(LIMIT, quiet));
    let mut worked = 0;
    for kill in 0..count {
        let mut client = serving.client(arguments, random.number(), 0);
        thread::sleep(Duration::from_micros(random.below(1000 * KILLED_WITHIN)));
        client.0.kill().unwrap();
        worked += u64::from(client.has_done(1));
        drop(client);
        good(Some(account));
        let what = || format!("the agent, after client {kill} was killed (seed {seed})");
        within(LIMIT, || quiet().filter(|now| now.is_as_open_as(&before)));
        if let Err(text) = within(LIMIT, quiet).flat(before, &what()) {
            panic!("{text}");
        }
        let new: Vec<String> = process::shared_files().difference(&shared).cloned().collect();
        assert!(new.is_empty(), "{}: {new:?} in /dev/shm", what());
        done.fetch_add(1, Relaxed);
    }
    worked
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_tests::{in_process, plugins};

    #[test]
    fn messages_of_8_threads_come_once_and_in_the_order_of_their_tags() {
        let done = AtomicU64::new(0);
        let sent = messages(20_000, 1, &done);
        assert!(sent >= 20_000 && sent == done.into_inner());
    }

    #[test]
    fn messages_go_through_three_parent_ranks_once_and_in_order() {
        let done = AtomicU64::new(0);
        assert_eq!((forwarding(3000, 1, &done), done.into_inner()), (3000, 3000));
    }

    #[test]
    fn claims_leave_nothing_here_and_in_agents() {
        in_process(&[("FLASH_CPU_THREADS", "1"), ("FLASH_RANK_TIMEOUT_MS", "20000")], || {
            flash::prelude::agent_here();
            claims(2000, 1, &AtomicU64::new(0));
        });
    }

    #[test]
    fn an_agent_outlives_clients_that_are_killed() {
        if is_client() {
            return;
        }
        const TEST: &str = "halo::tests::an_agent_outlives_clients_that_are_killed";
        let programs = plugins::build(&["flash-cli", "flash-backend-test-plugin"]);
        clients(5, 1, &AtomicU64::new(0), &programs, &["--exact", TEST, "--nocapture"]);
    }
}
