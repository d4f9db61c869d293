//! `flash serve` and `flash agents`: agents that several programs use.
//!
//! The one that listens touches no device: for each program it starts a process of its own, which is that
//! program's agent. So programs have nothing in common but the hardware, one that crashes its driver takes
//! nothing from the others, and what one leaves behind goes with its process.

use anyhow::{Context, Error, Result, bail, ensure};
use flash::__ranks::{AgentState, Client, Served, report_to, services};
use flash_net::{Service, Visitor, Wanted, World};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What to serve.
pub struct Question {
    /// The key of one backend.
    pub key: String,
    /// The name to listen under.
    pub name: String,
}

/// The programs that are served, by their agents' processes, each with when it began.
type Clients = Arc<Mutex<Vec<(Instant, Client)>>>;

fn lock(clients: &Clients) -> MutexGuard<'_, Vec<(Instant, Client)>> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens until the process is ended.
pub fn serve(question: &Question) -> Result<()> {
    let Question { key, name } = question;
    ensure!(
        key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !["ALL", "ALL_ACCEL"].contains(&key.as_str()),
        "expected the key of one backend, such as OPENCL, found `{key}`"
    );
    let service = Service::listen(name)?;
    // In a process of its own, as every use of a device.
    let tried =
        this()?.args(["agent", "--try", key]).status().context("this program does not start again")?;
    ensure!(tried.success(), "`{key}` has no device to serve");
    println!("serving {key}; programs use it as `{key}@{name}`, and `flash agents` shows them");
    let (clients, begun) = (Clients::default(), Instant::now());
    loop {
        let mut visitor = service.accept()?;
        let answer = match visitor.wants() {
            Ok(Wanted::State) => state(question, &clients, begun),
            Ok(Wanted::Serve(world, peer)) => begin(question, &visitor, &world, peer, &clients),
            Err(error) => Err(error.into()),
        };
        visitor.answer(answer.map_err(|error| format!("{error:#}")));
    }
}

/// This program.
fn this() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("where this program is")?);
    command.stdin(Stdio::null());
    Ok(command)
}

/// Starts an agent for a program. Its process, as text.
fn begin(
    question: &Question,
    visitor: &Visitor,
    world: &World,
    peer: flash_net::Peer,
    clients: &Clients,
) -> Result<String> {
    let (expected, found) = (format!("{}@{}", question.key, question.name), world.member(peer)?.name);
    ensure!(found == expected, "this agent serves `{expected}`, found a program that wants `{found}`");
    let mut command = this()?;
    command.arg("agent").stdout(Stdio::piped());
    world.inherit(&mut command, peer)?;
    // SAFETY: between fork and exec the function makes one system call.
    unsafe { command.pre_exec(|| flash_net::end_with_parent(libc::SIGKILL)) };
    let mut child = command.spawn().context("an agent does not start")?;
    let client =
        Client { pid: visitor.process()?, agent: child.id(), uptime_s: 0.0, state: AgentState::default() };
    let (agent, program, clients) = (child.id(), client.pid, clients.clone());
    lock(&clients).push((Instant::now(), client));
    eprintln!("program {program} has come, process {agent} serves it");
    std::thread::spawn(move || {
        hear(&mut child, &clients);
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        lock(&clients).retain(|(_, client)| client.agent != agent);
        eprintln!("program {program} has gone, process {agent} has ended: {how}");
    });
    Ok(agent.to_string())
}

/// Takes what an agent says of itself, until it ends. What kernels print goes on.
fn hear(child: &mut Child, clients: &Clients) {
    let agent = child.id();
    for line in child.stdout.take().into_iter().flat_map(|lines| BufReader::new(lines).lines()) {
        let Ok(line) = line else { return };
        match serde_json::from_str::<AgentState>(&line) {
            Ok(state) => {
                let mut all = lock(clients);
                let known = all.iter_mut().find(|(_, client)| client.agent == agent);
                known.into_iter().for_each(|(_, client)| client.state = state.clone());
            }
            Err(_) => println!("{line}"),
        }
    }
}

fn state(Question { key, name }: &Question, clients: &Clients, begun: Instant) -> Result<String> {
    let all = lock(clients);
    let of = |(since, client): &(Instant, Client)| Client {
        uptime_s: since.elapsed().as_secs_f64(),
        ..client.clone()
    };
    let served = Served {
        name: name.clone(),
        key: key.clone(),
        pid: std::process::id(),
        uptime_s: begun.elapsed().as_secs_f64(),
        clients: all.iter().map(of).collect(),
    };
    Ok(serde_json::to_string(&served)?)
}

/// What a process of `flash serve` does: it is the agent of a program.
pub fn agent(tried: Option<&str>) -> Result<()> {
    if let Some(key) = tried {
        flash::get_runtime(key)?;
        return Ok(());
    }
    report_to(|state| println!("{}", serde_json::to_string(state).unwrap_or_default()));
    flash::prelude::agent_here();
    bail!("this process was not started as an agent: `flash serve` starts such processes")
}

/// The agents that listen, as JSON or for people.
pub fn list(json: bool) -> Result<String> {
    let all = services().map_err(Error::msg)?;
    if json {
        return Ok(serde_json::to_string_pretty(&serde_json::json!({ "agents": all }))? + "\n");
    }
    let mut text = String::new();
    for Served { name, key, pid, uptime_s, clients } in &all {
        writeln!(
            text,
            "{key}@{name}  process {pid}, for {uptime_s:.0} s, {}",
            count(clients.len(), "program")
        )?;
        for Client { pid, agent, uptime_s, state: AgentState { devices, launches, bytes } } in clients {
            writeln!(
                text,
                "  program {pid}  served by process {agent} for {uptime_s:.0} s: {}, {bytes} bytes on {}",
                count(*launches as usize, "launch"),
                if devices.is_empty() { "no device yet".to_owned() } else { devices.join(", ") }
            )?;
        }
    }
    if all.is_empty() {
        text.push_str("no agent listens; `flash serve KEY --listen NAME` starts one\n");
    }
    Ok(text)
}

fn count(count: usize, what: &str) -> String {
    let plural = if what.ends_with('h') { "es" } else { "s" };
    format!("{count} {what}{}", if count == 1 { "" } else { plural })
}
