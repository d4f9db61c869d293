//! Machines read from copies of their files, and what topologies promise.

use flash_topology::{CpuSet, Device, Error, Holds, Host, NumaNode, Process, Space, Topology};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn put(root: &Path, file: &str, text: &str) {
    let file = root.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, format!("{text}\n")).unwrap();
}

/// Two sockets of four cores of two threads: cpus i and i + 8 are of one core. Cpu 15 is off.
fn two_sockets() -> TempDir {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    put(root, "proc/sys/kernel/hostname", "twin");
    put(root, "proc/sys/kernel/random/boot_id", "1-2-3");
    put(root, "proc/cpuinfo", "processor : 0\nmodel name\t: Model <T> & Co\n");
    put(root, "proc/self/status", "Name: x\nPid:\t77\nCpus_allowed_list:\t0-3,8");
    put(root, "sys/devices/system/cpu/online", "0-14");
    for cpu in 0..16 {
        let (core, socket) = (cpu % 4, cpu % 8 / 4);
        let at = format!("sys/devices/system/cpu/cpu{cpu}");
        put(root, &format!("{at}/topology/physical_package_id"), &socket.to_string());
        // Numbers of cores occur again in the other socket.
        put(root, &format!("{at}/topology/core_id"), &core.to_string());
        put(root, &format!("{at}/topology/core_cpus_list"), &format!("{},{}", cpu % 8, cpu % 8 + 8));
        put(root, &format!("{at}/cpufreq/cpuinfo_max_freq"), "3500000");
        let first = 4 * socket;
        let all = format!("{first}-{},{}-{}", first + 3, first + 8, first + 11);
        let own = format!("{},{}", cpu % 8, cpu % 8 + 8);
        let caches = [
            ("1", "Data", "32K", &own),
            ("1", "Instruction", "32K", &own),
            ("2", "Unified", "1024K", &own),
            ("3", "Unified", "32M", &all),
        ];
        for (index, (level, kind, size, shared)) in caches.iter().enumerate() {
            for (file, text) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("coherency_line_size", &"64"),
                ("shared_cpu_list", &shared.as_str()),
            ] {
                put(root, &format!("{at}/cache/index{index}/{file}"), text);
            }
        }
    }
    put(root, "sys/devices/system/node/online", "0-1");
    for node in 0..2 {
        let at = format!("sys/devices/system/node/node{node}");
        put(
            root,
            &format!("{at}/cpulist"),
            &format!("{}-{},{}-{}", 4 * node, 4 * node + 3, 4 * node + 8, 4 * node + 11),
        );
        put(
            root,
            &format!("{at}/meminfo"),
            &format!("Node {node} MemTotal:       8388608 kB\nNode {node} MemFree: 1 kB"),
        );
        put(root, &format!("{at}/distance"), if node == 0 { "10 21" } else { "21 10" });
    }
    let pci = "sys/bus/pci/devices/0000:3b:00.0";
    put(root, &format!("{pci}/numa_node"), "1");
    put(root, &format!("{pci}/max_link_speed"), "16.0 GT/s PCIe");
    put(root, &format!("{pci}/max_link_width"), "16");
    dir
}

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

#[test]
fn a_machine_of_two_sockets_is_read_with_what_they_share() {
    let dir = two_sockets();
    let topology = Topology::read_at(dir.path());
    let [host] = &topology.hosts[..] else { panic!("expected one host, found {topology:?}") };
    assert_eq!((&host.name[..], &host.boot[..], &host.model[..]), ("twin", "1-2-3", "Model <T> & Co"));
    assert_eq!(host.sockets.iter().map(|socket| socket.cores.len()).collect::<Vec<_>>(), [4, 4]);
    assert_eq!(host.sockets[1].cores[3].cpus, set("7"));
    assert_eq!(
        (host.sockets[0].cores[1].cpus.clone(), host.sockets[0].cores[1].megahertz),
        (set("1,9"), Some(3500))
    );
    assert_eq!((host.cpus(), host.memory()), (set("0-14"), 16 << 30));
    let nodes = host.nodes.iter().map(|node| (node.cpus.to_string(), node.distances.clone()));
    assert_eq!(
        nodes.collect::<Vec<_>>(),
        [("0-3,8-11".into(), vec![10, 21]), ("4-7,12-14".into(), vec![21, 10])]
    );
    let count = |level, holds| {
        host.caches.iter().filter(|cache| (cache.level, cache.holds) == (level, holds)).count()
    };
    let counts =
        [count(1, Holds::Data), count(1, Holds::Instructions), count(2, Holds::Both), count(3, Holds::Both)];
    assert_eq!(counts, [8, 8, 8, 2]);
    let last = host.caches.last().unwrap();
    assert_eq!((last.bytes, last.line, last.cpus.to_string()), (32 << 20, 64, "4-7,12-14".into()));
    assert_eq!(host.processes, [Process { name: String::new(), pid: 77, cpus: set("0-3,8") }]);
    let text = topology.to_string();
    for part in [
        "twin  Model <T> & Co",
        "socket 1: 4 cores, 7 threads, up to 3500 MHz",
        "8 x L2 1 MiB",
        "NUMA node 1: 8 GiB, cpus 4-7,12-14",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_device_on_pci_is_near_to_a_node_and_has_a_link() {
    let dir = two_sockets();
    let mut device = Device { physical_id: "twin/0000:3B:00.0".into(), ..Device::default() };
    device.locate_at(dir.path());
    device.locate_at(dir.path());
    assert_eq!((device.node, device.links.len()), (Some(1), 1));
    // 16 GT/s by 16 lanes, 128 of 130 bits.
    assert!((device.links[0].rate - 31.508e9).abs() < 1e7, "{:?}", device.links);
    // No place on PCI, and none that leads elsewhere.
    for id in ["twin/cpus:0-3", "", "a/../..", "a/..:..", "a/0000:99:00.0"] {
        let mut other = Device { physical_id: id.into(), ..Device::default() };
        other.locate_at(dir.path());
        assert_eq!((other.node, other.links.len()), (None, 0), "{id}");
    }
}

#[test]
fn what_a_system_does_not_tell_is_left_out() {
    let dir = TempDir::new().unwrap();
    put(dir.path(), "proc/meminfo", "MemTotal:  2048 kB");
    // Files with other things than expected.
    put(dir.path(), "sys/devices/system/cpu/online", "0-1");
    put(dir.path(), "sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1");
    put(dir.path(), "sys/devices/system/cpu/cpu0/topology/core_cpus_list", "zero");
    put(dir.path(), "sys/devices/system/cpu/cpu1/cache/index0/level", "2");
    put(dir.path(), "sys/devices/system/cpu/cpu1/cache/index0/size", "99999999999999999999K");
    let host = &Topology::read_at(dir.path()).hosts[0];
    assert_eq!((&host.name[..], host.cpus(), host.memory()), ("localhost", set("0-1"), 2 << 20));
    assert_eq!((host.sockets.len(), host.cores().count(), host.nodes.len()), (1, 2, 1));
    assert_eq!((host.caches.len(), host.caches[0].bytes, host.processes.len()), (1, 0, 0));
    let nothing = &Topology::read_at(&dir.path().join("none")).hosts[0];
    assert!(!nothing.cpus().is_empty());
}

#[test]
fn this_machine_has_the_processors_of_this_process() {
    let host = &Topology::read().hosts[0];
    let [process] = &host.processes[..] else { panic!("expected this process, found {:?}", host.processes) };
    assert_eq!(process.pid, std::process::id());
    assert!(!process.cpus.intersection(&host.cpus()).is_empty());
    assert!(host.memory() > 1 << 20);
}

#[test]
fn topologies_of_processes_are_one_of_the_machine() {
    let dir = two_sockets();
    let mut all = Topology::read_at(dir.path());
    let mut other = all.clone();
    other.hosts[0].processes[0] = Process { name: "rank 1".into(), pid: 78, cpus: set("4-7") };
    other.hosts[0].devices.push(Device { id: "OPENCL:0".into(), ..Device::default() });
    other.hosts.push(Host { name: "far".into(), ..Host::default() });
    all.merge(&other).unwrap();
    all.merge(&other).unwrap();
    assert_eq!(all.hosts.iter().map(|host| &host.name[..]).collect::<Vec<_>>(), ["twin", "far"]);
    assert_eq!((all.hosts[0].processes.len(), all.hosts[0].devices.len()), (2, 1));
    // Another machine of that name, and the same one with other processors.
    other.hosts[0].boot = "other".into();
    all.merge(&other).unwrap();
    assert_eq!(all.hosts.len(), 3);
    other.hosts[0].sockets[0].cores.pop();
    let before = all.clone();
    let error = all.merge(&other).unwrap_err();
    assert!(matches!(error, Error::Differ { part: "processors", .. }), "{error}");
    assert_eq!(all, before);
}

#[test]
fn a_part_of_a_machine_has_what_is_near_to_its_processors() {
    let dir = two_sockets();
    let whole = Topology::read_at(dir.path());
    let all = whole.hosts[0].cpus();
    assert_eq!(whole.subset(&all), whole);
    for cpu in all.iter() {
        let one = CpuSet::from_iter([cpu]);
        let part = &whole.subset(&one).hosts[0];
        assert_eq!((part.cpus(), part.sockets.len(), part.nodes.len()), (one.clone(), 1, 1), "cpu {cpu}");
        assert!(!part.caches.is_empty() && part.caches.iter().all(|cache| cache.cpus == one));
        assert_eq!((&part.name, &part.processes), (&whole.hosts[0].name, &whole.hosts[0].processes));
    }
    let none = &whole.subset(&CpuSet::new()).hosts[0];
    assert!(none.sockets.is_empty() && none.nodes.is_empty() && none.caches.is_empty());
}

#[test]
fn a_text_of_many_processors_takes_the_memory_of_the_text() {
    let set = set("0-65535");
    assert_eq!((set.len(), set.contains(65_535), set.contains(65_536)), (65_536, true, false));
    let cache = "{\"level\": 1, \"bytes\": 1, \"cpus\": \"0-65535\"}";
    let json = format!("{{\"hosts\": [{{\"caches\": [{}]}}]}}", vec![cache; 8192].join(","));
    // Half a thousand million numbers, if each took some.
    let topology = Topology::from_json(&json).unwrap();
    assert!(topology.hosts[0].caches.iter().all(|cache| cache.cpus == set));
}

#[test]
fn what_is_needed_is_met_or_named() {
    let dir = two_sockets();
    let mut there = Topology::read_at(dir.path());
    let device = |class: &str, bytes| Device {
        class: class.into(),
        spaces: vec![Space { bytes, ..Space::default() }],
        ..Device::default()
    };
    there.hosts[0].devices = vec![device("gpu", 8), device("gpu", 16), device("fpga", 4)];
    let need = |devices: Vec<Device>| Topology { hosts: vec![Host { devices, ..Host::default() }] };
    there.is_met_by(&there).unwrap();
    // The small need comes first, and must not get the large device.
    need(vec![device("gpu", 1), device("gpu", 10)]).is_met_by(&there).unwrap();
    need(vec![device("gpu", 10), device("", 1), device("", 1)]).is_met_by(&there).unwrap();
    let error = need(vec![device("gpu", 10), device("gpu", 10)]).is_met_by(&there).unwrap_err();
    assert!(error.to_string().contains("the class `gpu`, a memory of 10 bytes on `twin`"), "{error}");
    let mut memory = need(Vec::new());
    memory.hosts[0].nodes = vec![NumaNode { bytes: 17 << 30, ..NumaNode::default() }];
    let error = memory.is_met_by(&there).unwrap_err().to_string();
    assert!(error.contains("expected 18253611008 bytes of memory, found 17179869184 on `twin`"), "{error}");
    // Two hosts are needed, and there is one.
    let two = Topology { hosts: vec![Host::default(), Host::default()] };
    let error = two.is_met_by(&there).unwrap_err().to_string();
    assert!(error.contains("each that would do is needed for another one"), "{error}");
    let named = Topology { hosts: vec![Host { name: "far".into(), ..Host::default() }] };
    assert!(named.is_met_by(&there).unwrap_err().to_string().contains("its name is `twin`"));
    Topology::default().is_met_by(&Topology::default()).unwrap();
    assert!(need(Vec::new()).is_met_by(&Topology::default()).unwrap_err().to_string().contains("no hosts"));
}

#[test]
fn json_that_is_no_topology_is_refused_with_its_place() {
    let cases = [
        ("", "line 1"),
        ("{\"hosts\": [{\"nmae\": \"a\"}]}", "unknown field `nmae`"),
        (
            "{\"hosts\": [{\"nodes\": [{\"number\": 0, \"cpus\": \"3-1\", \"bytes\": 1}]}]}",
            "such as `0-3,8`, found `3-1`",
        ),
        (
            "{\"hosts\": [{\"nodes\": [{\"number\": 0, \"cpus\": \"0-4294967295\", \"bytes\": 1}]}]}",
            "found `0-4294967295`",
        ),
        ("{\"hosts\": [{\"nodes\": [{\"number\": 0, \"cpus\": \"\", \"bytes\": -1}]}]}", "`-1`"),
    ];
    for (json, part) in cases {
        let error = Topology::from_json(json).unwrap_err().to_string();
        assert!(error.contains(part), "{part} is not in `{error}`");
    }
    let many = format!("{{\"hosts\": [{}]}}", vec!["{}"; 8193].join(","));
    let error = Topology::from_json(&many).unwrap_err().to_string();
    assert_eq!(error, "expected at most 8192 hosts, found 8193");
}

/// The texts of a picture, which must be XML.
fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_picture_has_each_processor_once_inside_what_it_shares() {
    let dir = two_sockets();
    let mut topology = Topology::read_at(dir.path());
    topology.hosts[0].name = "a<b>&\"c\"\u{1}".into();
    topology.hosts[0].nodes.push(NumaNode { number: 9, bytes: 1 << 40, ..NumaNode::default() });
    let texts = texts(&topology.svg());
    for cpu in 0..15 {
        assert_eq!(texts.iter().filter(|text| **text == format!("cpu {cpu}")).count(), 1, "{texts:?}");
    }
    let count = |part: &str| texts.iter().filter(|text| text.starts_with(part)).count();
    assert_eq!(
        [count("socket"), count("NUMA node"), count("L3 32 MiB"), count("L1d"), count("core")],
        [2, 3, 2, 8, 8]
    );
    assert!(
        texts.contains(&"NUMA node 9, 1 TiB".to_owned()) && texts.contains(&"a<b>&\"c\"\u{fffd}".to_owned())
    );
    assert!(self::texts(&Topology::default().svg()).is_empty());
}

proptest! {
    #[test]
    fn a_set_is_what_its_text_says(numbers in prop::collection::btree_set(0..200_u32, 0..60)) {
        let set = CpuSet::from_iter(numbers.iter().copied());
        prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set.clone());
        prop_assert!(set.iter().eq(numbers.iter().copied()));
        prop_assert_eq!((set.len(), set.is_empty()), (numbers.len(), numbers.is_empty()));
        prop_assert!((0..201).all(|number| set.contains(number) == numbers.contains(&number)));
    }

    #[test]
    fn sets_are_united_and_cut_as_those_of_numbers(
        a in prop::collection::btree_set(0..60_u32, 0..40),
        b in prop::collection::btree_set(0..60_u32, 0..40),
    ) {
        let [left, right] = [&a, &b].map(|numbers| CpuSet::from_iter(numbers.iter().copied()));
        prop_assert_eq!(left.union(&right), CpuSet::from_iter(&a | &b));
        prop_assert_eq!(left.intersection(&right), CpuSet::from_iter(&a & &b));
        prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
        prop_assert!(left.intersection(&right).is_subset(&right));
    }

    #[test]
    fn any_sets_of_any_parts_are_drawn_with_each_processor_once(
        sets in prop::collection::vec(prop::collection::btree_set(0..12_u32, 0..9), 0..12),
    ) {
        let sets: Vec<CpuSet> = sets.into_iter().map(CpuSet::from_iter).collect();
        let mut host = Host::default();
        for (i, set) in sets.iter().enumerate() {
            let cpus = set.clone();
            match i % 3 {
                0 => host.sockets.push(flash_topology::Socket {
                    number: i as u32,
                    cores: vec![flash_topology::Core { cpus, ..Default::default() }],
                }),
                1 => host.nodes.push(NumaNode { cpus, ..NumaNode::default() }),
                _ => host.caches.push(flash_topology::Cache { level: i as u32, cpus, ..Default::default() }),
            }
        }
        let cpus = host.cpus();
        let topology = Topology { hosts: vec![host] };
        let mut drawn: Vec<String> = texts(&topology.svg());
        drawn.retain(|text| text.starts_with("cpu "));
        drawn.sort();
        let mut all: Vec<String> = cpus.iter().map(|cpu| format!("cpu {cpu}")).collect();
        all.sort();
        prop_assert_eq!(drawn, all);
        prop_assert_eq!(Topology::from_json(&topology.to_json()).unwrap(), topology);
    }
}
