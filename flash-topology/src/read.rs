//! Reading a machine from the files of its system.

use crate::{Cache, Core, CpuSet, Device, Holds, Host, Link, NumaNode, Process, Socket, Topology};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A folder of values, one per file.
struct Folder(PathBuf);

impl Folder {
    fn folder(&self, name: &str) -> Folder {
        Folder(self.0.join(name))
    }

    fn text(&self, file: &str) -> Option<String> {
        let text = std::fs::read(self.0.join(file)).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn value<T: FromStr>(&self, file: &str) -> Option<T> {
        self.text(file)?.parse().ok()
    }

    /// The rest of the first line that begins with a word and a colon.
    fn line(&self, file: &str, word: &str) -> Option<String> {
        let text = self.text(file)?;
        let rest = |line: &str| {
            Some(line.trim_start().strip_prefix(word)?.trim_start().strip_prefix(':')?.to_owned())
        };
        text.lines().find_map(rest).map(|rest| rest.trim().to_owned())
    }
}

impl Topology {
    /// This machine, and this process. What the system does not tell is left out: devices are the runtime's
    /// to add.
    pub fn read() -> Topology {
        Topology::read_at(Path::new("/"))
    }

    /// As [`read`](Self::read), of the system whose files are in a folder: `sys` and `proc`. For copies of
    /// other machines' files.
    pub fn read_at(root: &Path) -> Topology {
        let (proc, system) = (Folder(root.join("proc")), Folder(root.join("sys/devices/system")));
        let cpu = system.folder("cpu");
        let cpus = cpu.value("online").unwrap_or_else(some_cpus);
        let models = ["model name", "Processor", "cpu", "isa"];
        let host = Host {
            name: proc.text("sys/kernel/hostname").unwrap_or_else(|| "localhost".to_owned()),
            boot: proc.text("sys/kernel/random/boot_id").unwrap_or_default(),
            model: models.iter().find_map(|word| proc.line("cpuinfo", word)).unwrap_or_default(),
            sockets: sockets(&cpu, &cpus),
            nodes: nodes(&system.folder("node"), &proc, &cpus),
            caches: caches(&cpu, &cpus),
            devices: Vec::new(),
            processes: process(&proc.folder("self")).into_iter().collect(),
        };
        Topology { hosts: vec![host] }
    }
}

/// Without files there are as many as this process may use.
fn some_cpus() -> CpuSet {
    (0..std::thread::available_parallelism().map_or(1, |count| count.get() as u32)).collect()
}

fn sockets(cpu: &Folder, cpus: &CpuSet) -> Vec<Socket> {
    let mut sockets = BTreeMap::<u32, BTreeMap<u32, Core>>::new();
    for number in cpus.iter() {
        let one = cpu.folder(&format!("cpu{number}"));
        let files = one.folder("topology");
        let alone = || CpuSet::from_iter([number]);
        let siblings: Option<CpuSet> =
            files.value("core_cpus_list").or_else(|| files.value("thread_siblings_list"));
        // Some virtual machines list none, or processors that are off.
        let threads = siblings.map_or_else(alone, |set| set.intersection(cpus)).union(&alone());
        let core = Core {
            number: files.value("core_id").unwrap_or(number),
            megahertz: one.value::<u32>("cpufreq/cpuinfo_max_freq").map(|kilohertz| kilohertz / 1000),
            cpus: threads,
        };
        // A number of -1 is one that is not known. Core numbers may occur again in a socket's other parts.
        let socket = files.value("physical_package_id").unwrap_or(0);
        let first = core.cpus.iter().next().unwrap_or(number);
        sockets.entry(socket).or_default().entry(first).or_insert(core);
    }
    let socket =
        |(number, cores): (u32, BTreeMap<u32, Core>)| Socket { number, cores: cores.into_values().collect() };
    sockets.into_iter().map(socket).collect()
}

fn caches(cpu: &Folder, cpus: &CpuSet) -> Vec<Cache> {
    let mut caches = BTreeMap::new();
    for number in cpus.iter() {
        for index in 0.. {
            let files = cpu.folder(&format!("cpu{number}/cache/index{index}"));
            let Some(level) = files.value::<u32>("level") else { break };
            let holds = match files.text("type").as_deref() {
                Some("Data") => Holds::Data,
                Some("Instruction") => Holds::Instructions,
                _ => Holds::Both,
            };
            let shared = files.value::<CpuSet>("shared_cpu_list").map(|set| set.intersection(cpus));
            let shared = shared.unwrap_or_default().union(&CpuSet::from_iter([number]));
            let bytes = files.text("size").and_then(|size| bytes(&size)).unwrap_or(0);
            let line = files.value("coherency_line_size").unwrap_or(0);
            let key = (level, holds, shared.clone());
            caches.entry(key).or_insert(Cache { level, holds, bytes, line, cpus: shared });
        }
    }
    caches.into_values().collect()
}

/// A size such as `1024K` or `512 kB`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unit = match text[digits..].trim().chars().next() {
        None | Some('B') => 1,
        Some('K' | 'k') => 1 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        Some(_) => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

fn nodes(files: &Folder, proc: &Folder, cpus: &CpuSet) -> Vec<NumaNode> {
    let size = |size: Option<String>| size.and_then(|size| bytes(&size)).unwrap_or(0);
    let node = |number: u32| {
        let files = files.folder(&format!("node{number}"));
        let cpus = files.value::<CpuSet>("cpulist")?.intersection(cpus);
        let bytes = size(files.line("meminfo", &format!("Node {number} MemTotal")));
        let distances = files.text("distance").unwrap_or_default();
        let distances = distances.split_whitespace().filter_map(|one| one.parse().ok()).collect();
        Some(NumaNode { number, cpus, bytes, distances })
    };
    let online = files.value::<CpuSet>("online").unwrap_or_default();
    let nodes: Vec<NumaNode> = online.iter().filter_map(node).collect();
    if !nodes.is_empty() {
        return nodes;
    }
    let bytes = size(proc.line("meminfo", "MemTotal"));
    vec![NumaNode { number: 0, cpus: cpus.clone(), bytes, distances: Vec::new() }]
}

fn process(files: &Folder) -> Option<Process> {
    let pid = files.line("status", "Pid")?.parse().ok()?;
    let cpus = files.line("status", "Cpus_allowed_list")?.parse().ok()?;
    Some(Process { name: String::new(), pid, cpus })
}

impl Device {
    /// Adds what the system says of where the device is, if its physical id ends with a place on PCI: its
    /// NUMA node, and its link to the host.
    pub fn locate(&mut self) {
        self.locate_at(Path::new("/"));
    }

    /// As [`locate`](Self::locate), of the system whose files are in a folder.
    pub fn locate_at(&mut self, root: &Path) {
        let place = self.physical_id.rsplit('/').next().unwrap_or_default();
        let is_place = |c: char| c.is_ascii_hexdigit() || ":.".contains(c);
        if !place.contains(':') || !place.chars().all(is_place) {
            return;
        }
        let files = Folder(root.join("sys/bus/pci/devices").join(place.to_ascii_lowercase()));
        // -1 is a node that is not known.
        self.node = files.value("numa_node").or(self.node);
        let speed = files
            .text("max_link_speed")
            .and_then(|speed| speed.split_whitespace().next()?.parse::<f64>().ok());
        if let (Some(transfers), Some(width)) =
            (speed, files.value::<u32>("max_link_width").filter(|w| *w < 256))
        {
            // 10^9 transfers a second, a bit each in every lane. Up to 5, 8 of 10 are data; else 128 of 130.
            let data = if transfers <= 5.0 { 0.8 } else { 128.0 / 130.0 };
            let rate = (transfers * 1e9 * data * f64::from(width) / 8.0).round();
            self.links.retain(|link| link.to != "host");
            self.links.push(Link { to: "host".to_owned(), kind: "PCIe".to_owned(), rate });
        }
    }
}
