//! Processes over MPI: every library that the transport knows, and the devices of other processes over it.
//!
//! `cargo xtask test` installs the libraries, and names their folder in `FLASH_TEST_MPI`. One that is missing
//! is a skip.

use crate::ranks::{
    Ending, Failing, LONG, WELL, copies_from_device_to_device, goes_on_after_losses, has_computed,
    has_topology_of_three, within,
};
use flash::kernels::diffusion::heat;
use flash_core::descriptor::weights;
use flash_core::{Error, FlashMemory, get_runtime};
use flash_net::{How, NetError, Peer, Progress, Transport};
use flash_net_mpi::{Family, Joining, MPICH_HANDLES, MpiTransport, STANDARD_HANDLES, launched};
use flash_tests::Random;
use flash_tests::plugins::{self, Language, built, text_of};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The folders of the libraries.
const ALL: [&str; 5] = ["open-mpi-4", "open-mpi-5", "mpich-4", "mpich-5", "intel-mpi"];

/// Where one is. `None`: it is missing, and the test is skipped.
fn installed(test: &str, name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("FLASH_TEST_MPI").map(|all| Path::new(&all).join(name));
    let folder = folder.filter(|folder| folder.join("bin/mpiexec").is_file());
    if folder.is_none() {
        flash_tests::skip(test, &format!("no {name}; cargo xtask test installs it"));
    }
    folder
}

/// Makes a command one of a launcher's, which may run as root and with more processes than processors.
fn of_launcher(command: &mut Command, folder: &Path) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    command
        .env("OMPI_MCA_hwloc_base_binding_policy", "none")
        .env("PRTE_MCA_hwloc_default_binding_policy", "none");
    if name == "intel-mpi" {
        command.env("I_MPI_PIN", "0").env("I_MPI_FABRICS", "shm");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path);
    let path = std::env::join_paths([folder.join("bin")].into_iter().chain(path)).unwrap();
    command.env("PATH", path);
}

/// A job of this many processes, by the launcher itself.
fn job(folder: &Path, ranks: usize, program: &Path, arguments: &[&str]) -> Command {
    let mut command = plugins::program(&folder.join("bin/mpiexec"), "", &["-n", &ranks.to_string()]);
    of_launcher(&mut command, folder);
    command.arg(program).args(arguments);
    command
}

/// How long a job may take: jobs of the suite of backends take a minute where cores are busy.
const JOB: Duration = LONG.saturating_mul(5);

/// The output of a job that ends within the time; else it is ended, and that is said.
fn output(mut command: Command) -> Output {
    let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = process.id();
    let (done, is_done) = std::sync::mpsc::channel();
    let watch = std::thread::spawn(move || {
        if is_done.recv_timeout(JOB).is_err() {
            eprintln!("the job has not ended within {JOB:?}: it is ended");
            // SAFETY: a signal for a child of this test, which was not waited for.
            unsafe { libc::kill(id as i32, libc::SIGTERM) };
        }
    });
    let output = process.wait_with_output().unwrap();
    let _ = done.send(());
    watch.join().unwrap();
    output
}

#[test]
fn numbers_of_each_family_are_those_of_its_header() {
    const TEST: &str = "mpi::numbers_of_each_family_are_those_of_its_header";
    const TEXT: &str = r#"
        #include <stddef.h>
        #include <stdio.h>
        int main(void) {
            printf("%d %d %d %d %d %zu %zu %zu", MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_THREAD_SERIALIZED,
                MPI_THREAD_MULTIPLE, MPI_ERR_TRUNCATE, offsetof(MPI_Status, MPI_SOURCE) / sizeof(int),
                offsetof(MPI_Status, MPI_TAG) / sizeof(int), sizeof(MPI_Status));
            HANDLES
            return 0;
        }"#;
    const HANDLES: &str = r#"printf(" %zu %zu %zu %zu", (size_t)MPI_COMM_WORLD, (size_t)MPI_BYTE,
                (size_t)MPI_ERRORS_RETURN, (size_t)MPI_REQUEST_NULL);"#;
    for (name, header, family) in [
        ("open-mpi-4", "mpi.h", Family::OpenMpi),
        ("open-mpi-5", "mpi.h", Family::OpenMpi),
        ("mpich-4", "mpi.h", Family::Mpich),
        ("mpich-5", "mpi.h", Family::Mpich),
        ("mpich-5", "mpi_abi.h", Family::Standard),
    ] {
        let Some(folder) = installed(TEST, name) else { continue };
        let handles: Vec<usize> = match family {
            // Addresses of symbols, which are looked up.
            Family::OpenMpi => Vec::new(),
            Family::Mpich => MPICH_HANDLES.iter().map(|handle| *handle as usize).collect(),
            Family::Standard => STANDARD_HANDLES.to_vec(),
        };
        let text = TEXT.replace("HANDLES", if handles.is_empty() { "" } else { HANDLES });
        let place = plugins::directory();
        let program = place.path().join("numbers");
        let include = format!("-I{}", folder.join("include").display());
        let text = format!("#include <{header}>\n{text}");
        plugins::compile(Language::C, &text, &[&include], &program).unwrap();
        let found = Command::new(&program).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        let numbers = family.numbers();
        let mut expected = format!(
            "{} {} {} {} {} {} {} {}",
            numbers.any_source,
            numbers.any_tag,
            numbers.serialized,
            numbers.multiple,
            numbers.truncated,
            numbers.source,
            numbers.tag,
            numbers.status
        );
        handles.iter().for_each(|handle| expected += &format!(" {handle}"));
        assert_eq!(found, expected, "{name}, {header}");
    }
}

/// What a process of a test's job is told: that it is one, or how many share memory, and the library.
const PROCESS: &str = "FLASH_TEST_MPI_PROCESS";
/// The setting that says how many processes of this host share memory.
const SHARED: &str = "FLASH_MPI_SHARED";

#[test]
fn frames_pass_on_every_library() {
    const TEST: &str = "mpi::frames_pass_on_every_library";
    if let Ok(told) = std::env::var(PROCESS) {
        return pass_frames(&told);
    }
    let this = std::env::current_exe().unwrap();
    let messages = ALL.map(|name| (name, "", 1)).into_iter().chain([("mpich-5", "lib/libmpi_abi.so.1", 1)]);
    let shared = ALL.map(|name| (name, "", u32::MAX));
    // One of three processes gets messages.
    let both = ["open-mpi-4", "mpich-4"].map(|name| (name, "", 2));
    for (name, library, shared) in messages.chain(shared).chain(both) {
        let Some(folder) = installed(TEST, name) else { continue };
        let mut command = job(&folder, 3, &this, &["--exact", TEST, "--nocapture"]);
        let library = if library.is_empty() { PathBuf::new() } else { folder.join(library) };
        command.env(PROCESS, format!("{shared}:{}", library.display()));
        let output = output(command);
        let text = text_of(&output);
        let passed = text.matches("1 passed").count();
        assert!(output.status.success() && passed == 3, "{name}, {shared} share memory: {text}");
    }
}

/// Bytes of a message, of which long frames are several.
const PIECE: usize = 100_000;

/// A frame of a length, whose bytes tell it from others.
fn frame(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + length) as u8).collect()
}

/// A process, and the frames that have come to it.
struct Process {
    transport: &'static MpiTransport,
    came: RefCell<HashMap<Peer, VecDeque<Vec<u8>>>>,
}

impl Process {
    fn take(&self) -> Progress {
        self.transport.progress(&mut |from, frame| {
            self.came.borrow_mut().entry(from).or_default().push_back(frame.to_vec());
        })
    }

    fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let ticket = self.transport.ticket();
            if let Some(found) = look() {
                return found;
            }
            if self.take() != Progress::Some {
                self.transport.wait(ticket, Some(Instant::now() + Duration::from_millis(100)));
            }
            assert!(start.elapsed() < LONG, "it has not happened within {LONG:?}");
        }
    }

    fn next(&self, from: Peer) -> Vec<u8> {
        self.until(|| self.came.borrow_mut().get_mut(&from)?.pop_front())
    }

    fn post(&self, to: Peer, frame: &[u8]) {
        self.until(|| match self.transport.post(to, frame) {
            Ok(()) => Some(()),
            Err(NetError::Full { .. }) => None,
            Err(error) => panic!("{error}"),
        });
    }
}

fn pass_frames(told: &str) {
    let (shared, library) = told.split_once(':').unwrap();
    let shared: u32 = shared.parse().unwrap();
    let library = Some(Path::new(library)).filter(|path| !path.as_os_str().is_empty());
    let launched = launched().expect("a launcher has started this process");
    let transport = MpiTransport::join(&launched, &Joining { library, shared, piece: PIECE }).unwrap();
    let process = Process { transport, came: RefCell::default() };
    let me = transport.me();
    assert_eq!((me, transport.peers()), (Peer(launched.rank), 3));
    let others: Vec<Peer> = (0..3).map(Peer).filter(|peer| *peer != me).collect();
    assert_eq!(transport.why_apart(), None);
    for other in &others {
        let shares = other.0 / shared == me.0 / shared;
        assert_eq!(transport.memory(*other).is_some(), shares, "{me}, {other}");
        assert_eq!(transport.longest(*other) == flash_net::MAX_FRAME, shares, "{me}, {other}");
    }

    // Frames of many lengths to each other process at once; also such of several messages.
    let lengths = (0..200).map(|i| [0, 1, i, 4096, PIECE, PIECE + 1, 3 * PIECE + i][i % 7]);
    let to = |peer: Peer| lengths.clone().map(move |length| frame(length.min(transport.longest(peer))));
    for (first, second) in to(others[0]).zip(to(others[1])) {
        process.post(others[0], &first);
        process.post(others[1], &second);
    }
    for other in &others {
        for (at, expected) in to(*other).enumerate() {
            let found = process.next(*other);
            assert!(
                found == expected,
                "frame {at} from {other}: {} bytes of {}",
                found.len(),
                expected.len()
            );
        }
    }
    assert!(others.iter().all(|other| transport.info(*other).is_some_and(|info| info.pid > 0)));

    // What is too long, and what there is not.
    for other in &others {
        let longest = transport.longest(*other);
        let too_long = transport.post(*other, &vec![0; longest + 1]);
        assert!(matches!(too_long, Err(NetError::TooLong { most, .. }) if most == longest), "{too_long:?}");
    }
    assert!(matches!(transport.post(Peer(3), b""), Err(NetError::NoPeer { peers: 3, .. })));

    // Rank 0 takes nothing while 1 posts until it is full; then all come.
    const MANY: u64 = 10_000;
    if me == Peer(0) {
        process.post(Peer(1), b"go on");
        std::thread::sleep(Duration::from_millis(200));
        let sent =
            std::iter::repeat_with(|| process.next(Peer(1))).take_while(|found| found != b"end").count();
        assert_eq!(process.next(Peer(1)), (sent as u64).to_le_bytes());
        assert!(0 < sent && sent < MANY as usize, "a peer that takes no frames gets any number: {sent}");
    } else if me == Peer(1) {
        assert_eq!(process.next(Peer(0)), b"go on");
        let sent = (0..MANY).take_while(|_| transport.post(Peer(0), b"many").is_ok()).count();
        process.post(Peer(0), b"end");
        process.post(Peer(0), &(sent as u64).to_le_bytes());
    }

    // Rank 1 answers each frame, and takes no others while there is no room for an answer. Rank 0 sends all
    // the time, so the message that says that there is room comes after many frames.
    const ASKED: u64 = 3000;
    if me == Peer(0) {
        (0..ASKED).for_each(|i| process.post(Peer(1), &i.to_le_bytes()));
        (0..ASKED).for_each(|i| assert_eq!(process.next(Peer(1)), i.to_le_bytes()));
    } else if me == Peer(1) {
        for _ in 0..ASKED {
            let answer = process.next(Peer(0));
            let start = Instant::now();
            loop {
                let ticket = transport.ticket();
                match transport.post(Peer(0), &answer) {
                    Err(NetError::Full { .. }) => {
                        transport.wait(ticket, Some(Instant::now() + Duration::from_millis(1)));
                    }
                    sent => break sent.unwrap(),
                }
                assert!(start.elapsed() < LONG, "there is no room within {LONG:?}");
            }
        }
    }

    // A sign of life is given by taking frames.
    if me == Peer(0) {
        let heard = transport.heard(Peer(2));
        transport.ping(Peer(2)).unwrap();
        process.until(|| (transport.heard(Peer(2)) > heard).then_some(()));
        others.iter().for_each(|other| process.post(*other, b"leave"));
        // It leaves last, and sees that the others have left in good order.
        for other in others {
            let loss = process.until(|| transport.lost(other));
            assert_eq!(loss.how, How::Left, "{loss}");
        }
    } else {
        assert_eq!(process.next(Peer(0)), b"leave");
        if me == Peer(1) {
            // What the other one says last has come by then, and was not taken.
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn devices_of_processes_of_mpi_pass_the_suite_of_backends() {
    const TEST: &str = "mpi::devices_of_processes_of_mpi_pass_the_suite_of_backends";
    let Some(folder) = installed(TEST, "open-mpi-4") else { return };
    let test = built().test.to_str().unwrap();
    for (key, variables) in
        [("RANK", &[][..]), ("RANK:1/TEST", &[("FLASH_BACKEND_PATH", test), ("FLASH_TEST", "devices=2")])]
    {
        let mut command = job(&folder, 2, &built().flash, &["conformance", key, "--check", ""]);
        command.envs(variables.iter().copied()).env(SHARED, "1");
        let output = output(command);
        let text = text_of(&output);
        assert!(output.status.success() && text.contains(" 0 failed"), "{key}: {text}");
    }
}

#[test]
fn agents_of_mpi_copy_from_each_other() {
    const TEST: &str = "mpi::agents_of_mpi_copy_from_each_other";
    if let Ok(key) = std::env::var(PROCESS) {
        return copies_from_device_to_device(&key);
    }
    // By messages; and by memory that they share with each other, and not with the controller.
    passes_in_jobs(TEST, 4, &[("1", "RANK"), ("2", "RANK:2,RANK:3")]);
}

/// Runs a test in jobs of two libraries, each with a value of `FLASH_MPI_SHARED`, and a key for the test.
fn passes_in_jobs(test: &str, ranks: usize, each: &[(&str, &str)]) {
    for name in ["open-mpi-4", "mpich-4"] {
        let Some(folder) = installed(test, name) else { continue };
        let this = std::env::current_exe().unwrap();
        for (shared, key) in each {
            let mut command = job(&folder, ranks, &this, &["--exact", test, "--nocapture"]);
            command.env(PROCESS, key).env(SHARED, shared);
            let output = output(command);
            let text = text_of(&output);
            assert!(output.status.success() && text.contains("1 passed"), "{name}, {key}: {text}");
        }
    }
}

#[test]
fn what_is_begun_behind_copies_by_messages_has_the_bits_of_one_process() {
    const TEST: &str = "mpi::what_is_begun_behind_copies_by_messages_has_the_bits_of_one_process";
    if let Ok(key) = std::env::var(PROCESS) {
        return steps_with_copies(&key);
    }
    passes_in_jobs(TEST, 3, &[("1", "RANK:1"), ("1", "ALL_CPU,RANK")]);
}

/// Steps of the heat equation over the devices of a key, with shares that change, between what the host
/// writes and kernels that fail.
fn steps_with_copies(key: &str) {
    let (rt, alone) = (get_runtime(key).unwrap(), get_runtime("ALL_CPU").unwrap());
    let mut random = Random(5);
    // The last one has rows of more than a message each.
    for (turn, [width, height]) in [[3, 40], [64, 64], [1000, 37], [300_000, 7]].into_iter().enumerate() {
        let shape = [width, height];
        let field = || FlashMemory::<f32>::zeroed(width * height).with_shape(shape).unwrap();
        let (fields, expected) = ([field(), field()], [field(), field()]);
        for _ in 0..if turn < 3 { 30 } else { 4 } {
            // A row, a column or a cell.
            let [x, y] = [random.below(width), random.below(height)];
            let value = random.below(1000) as f32;
            for memory in [&fields[0], &expected[0]] {
                let mut all = memory.write().unwrap();
                match random.0 % 3 {
                    0 => all[y * width..][..width].fill(value),
                    1 => (0..height).for_each(|y| all[y * width + x] = value),
                    _ => all[y * width + x] = value,
                }
            }
            let shares: Vec<u32> = rt.devices().iter().map(|_| 1 + random.below(3) as u32).collect();
            let fails = random.one_in(4);
            let steps = 2 * (1 + random.below(3));
            for (rt, fields, is_cut) in [(&rt, &fields, true), (&alone, &expected, false)] {
                let mut all = rt.pipeline();
                for step in 0..steps {
                    let (from, to) = (&fields[step % 2], &fields[1 - step % 2]);
                    let next = all.submit(heat(0.2, from, to).unwrap());
                    let next = if is_cut { next.options(weights(shares.clone())) } else { next };
                    all = next.defer(shape);
                }
                all.exec().unwrap();
            }
            if fails {
                // What comes behind the one that fails has run for nothing.
                let numbers = FlashMemory::from(vec![1u64; 5000]);
                let twice = |at: u64| {
                    let all = rt.pipeline().submit(Failing::of(at, &numbers)).defer([5000]);
                    all.submit(Ending::of(WELL, &numbers)).defer([5000]).exec()
                };
                let error = twice(4321).expect_err("an item panics").to_string();
                assert!(error.contains("item 4321 fails on purpose"), "{error}");
                assert!(matches!(numbers.read(), Err(Error::Poisoned)));
                twice(u64::MAX).unwrap();
                assert!(numbers.read().unwrap().iter().zip(2..).all(|(found, expected)| *found == expected));
            }
            let (found, expected) = (fields[0].read().unwrap(), expected[0].read().unwrap());
            assert!(*found == *expected, "{shape:?}, {steps} steps, shares {shares:?}");
        }
    }
}

#[test]
fn another_process_takes_the_place_of_one_of_mpi_on_the_same_host() {
    const TEST: &str = "mpi::another_process_takes_the_place_of_one_of_mpi_on_the_same_host";
    if std::env::var_os(PROCESS).is_some() {
        // Those that are started later come here, too.
        flash_core::agent_here();
        let rt = get_runtime("RANK").unwrap();
        goes_on_after_losses(&rt, "rank 1", false, 20_000);
        let rt = get_runtime("ALL_CPU@agent,RANK").unwrap();
        let ids: Vec<&str> = rt.devices().iter().map(|device| device.id()).collect();
        assert_eq!(ids, ["RANK:ALL_CPU:0@agent", "RANK:1/ALL_CPU:0"]);
        return;
    }
    for name in ["open-mpi-4", "mpich-4"] {
        let Some(folder) = installed(TEST, name) else { continue };
        let this = std::env::current_exe().unwrap();
        let program = [this.to_str().unwrap(), "--exact", TEST, "--nocapture"];
        let line = [&["run", "-n", "2", "--mpi", "--"][..], &program].concat();
        let mut command = plugins::flash("", &line);
        of_launcher(&mut command, &folder);
        command.env(PROCESS, "").env("FLASH_RANK_TIMEOUT_MS", "1000");
        // The status is the launcher's, which has lost a process.
        let text = text_of(&output(command));
        assert!(text.contains("1 passed"), "{name}: {text}");
    }
}

/// A process that cannot map what the others share: none of them does, which is said.
#[test]
fn processes_of_mpi_that_cannot_share_memory_send_messages() {
    const TEST: &str = "mpi::processes_of_mpi_that_cannot_share_memory_send_messages";
    let Some(folder) = installed(TEST, "open-mpi-4") else { return };
    let (_, expected) = energies(plugins::program(&built().nbody, "", &[]), "ALL_CPU");
    let nbody = built().nbody.to_str().unwrap();
    let limited = r#"[ "$OMPI_COMM_WORLD_RANK" != 1 ] || ulimit -v 16000000; exec "$0" "$@""#;
    let command = job(&folder, 3, Path::new("sh"), &["-c", limited, nbody]);
    let (text, (devices, found)) = energies_and_text(command, "ALL_CPU,RANK");
    assert_eq!(devices, ["ALL_CPU:0", "RANK:1/ALL_CPU:0", "RANK:2/ALL_CPU:0"]);
    assert_eq!(found, expected);
    let said = "the processes of MPI on this machine share no memory, and send messages: rank 1 of ";
    assert_eq!(text.matches(said).count(), 1, "{text}");
    assert!(text.contains("Cannot allocate memory"), "{text}");
}

#[test]
fn a_topology_of_processes_of_mpi_has_the_devices_and_processors_of_all() {
    for name in ["open-mpi-4", "mpich-4"] {
        let Some(folder) = installed("a_topology_of_processes_of_mpi", name) else { continue };
        has_topology_of_three(|arguments| output(job(&folder, 3, &built().flash, arguments)));
    }
}

/// `tests/c/ranks.c`, linked with the library of C2MPI in this folder.
fn ranks_program(place: &Path, flags: &[&str]) -> PathBuf {
    let library = plugins::build(&["flash-c2mpi"]).join("libflash_c2mpi.so");
    if let Err(error) = std::os::unix::fs::symlink(library, place.join("libmpix.so")) {
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}");
    }
    let include = format!("-I{}", plugins::workspace().join("flash-c2mpi/include").display());
    let [search, run] = ["-L", "-Wl,-rpath,"].map(|flag| format!("{flag}{}", place.display()));
    let flags = [&[&*include, &search, &run, "-Wl,--no-as-needed"], flags, &["-lmpix"]].concat();
    let program = place.join("ranks");
    plugins::compile(Language::C, &plugins::c_source("ranks.c"), &flags, &program).unwrap();
    program
}

/// Messages between processes that C2MPI calls ordinary ranks: MPI is opened where its launcher has started
/// them, or is the program's own.
#[test]
fn ordinary_ranks_of_c2mpi_are_those_of_mpi() {
    const TEST: &str = "mpi::ordinary_ranks_of_c2mpi_are_those_of_mpi";
    let place = plugins::directory();
    for name in ALL {
        let Some(folder) = installed(TEST, name) else { continue };
        let done = |program: &Path, ranks: usize| {
            let output = output(job(&folder, ranks, program, &[]));
            let text = text_of(&output);
            let all = (0..ranks).all(|rank| text.contains(&format!("rank {rank} of {ranks} is done")));
            assert!(output.status.success() && all, "{name}, {ranks}: {text}");
        };
        let program = ranks_program(place.path(), &[]);
        done(&program, 2);
        done(&program, 3);
        // One that initializes MPI itself, where there is a header.
        if !folder.join("include/mpi.h").is_file() {
            assert_eq!(name, "intel-mpi", "its package has no headers, the others' have");
            continue;
        }
        let include = format!("-I{}", folder.join("include").display());
        let library = folder.join("lib/libmpi.so");
        let run = format!("-Wl,-rpath,{},--allow-shlib-undefined", folder.join("lib").display());
        for level in ["FUNNELED", "SERIALIZED", "MULTIPLE"] {
            let own = format!("-DOWN=MPI_THREAD_{level}");
            done(&ranks_program(place.path(), &[&own, &include, library.to_str().unwrap(), &run]), 3);
        }
    }
}

/// Without MPI, and where the other processes are agents.
#[test]
fn without_mpi_an_ordinary_rank_is_an_error_that_says_why() {
    const TEST: &str = "mpi::without_mpi_an_ordinary_rank_is_an_error_that_says_why";
    let place = plugins::directory();
    let program = ranks_program(place.path(), &[]);
    let fails = |command: Command, why: &str| {
        let text = text_of(&output(command));
        assert!(text.contains("rank 0, line ") && text.contains(why), "{text}");
    };
    fails(plugins::program(&program, "", &[]), "no launcher of MPI (mpirun, mpiexec, srun) has started");
    let mut command = plugins::flash("", &["run", "-n", "2", "--"]);
    command.arg(&program);
    fails(command, "agents, which `flash run` has started");
    let Some(folder) = installed(TEST, "open-mpi-4") else { return };
    let config = place.path().join("config.json");
    let text = r#"{"func_list": [{"func_alias": "EWMM", "sw_fid": "123456", "key": "ALL_CPU,RANK"}]}"#;
    fs::write(&config, text).unwrap();
    let mut command = job(&folder, 2, &program, &[]);
    command.env("FLASH_HALO_CONFIG", &config);
    fails(command, "agents, as the configuration has the key `ALL_CPU,RANK`");
}

/// Three steps of nbody on devices: their ids, and the energies.
fn energies(command: Command, key: &str) -> (Vec<Value>, Value) {
    energies_and_text(command, key).1
}

/// The same, with all that was said.
fn energies_and_text(mut command: Command, key: &str) -> (String, (Vec<Value>, Value)) {
    command.args(["--runtime", key, "--bodies", "500", "--steps", "3", "--quiet", "--report", "-"]);
    let output = output(command);
    let text = text_of(&output);
    assert!(output.status.success(), "{key}: {text}");
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
    (text, (report["devices"].as_array().unwrap().clone(), report["kinetic_energy"].clone()))
}

#[test]
fn a_program_has_the_same_bits_over_every_mpi() {
    const TEST: &str = "mpi::a_program_has_the_same_bits_over_every_mpi";
    let (_, expected) = energies(plugins::program(&built().nbody, "", &[]), "ALL_CPU");
    for name in ALL {
        let Some(folder) = installed(TEST, name) else { continue };
        // By the launcher itself, with messages to one or all, and by `flash run`.
        for shared in ["1", "2"] {
            let mut command = job(&folder, 3, &built().nbody, &[]);
            command.env(SHARED, shared);
            let (devices, found) = energies(command, "RANK");
            assert_eq!(devices, ["RANK:1/ALL_CPU:0", "RANK:2/ALL_CPU:0"], "{name}");
            assert_eq!(found, expected, "{name}, {shared}");
        }
        let nbody = built().nbody.to_str().unwrap();
        let mut command = plugins::flash("", &["run", "-n", "2", "--mpi", "--", nbody]);
        of_launcher(&mut command, &folder);
        let (devices, found) = energies(command, "ALL_CPU,RANK");
        assert_eq!(devices, ["ALL_CPU:0", "RANK:1/ALL_CPU:0"], "{name}");
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_lost_process_of_mpi_is_an_error_that_names_it_and_the_job_ends() {
    const TEST: &str = "mpi::a_lost_process_of_mpi_is_an_error_that_names_it_and_the_job_ends";
    let killed = ALL.map(|name| (name, libc::SIGKILL));
    let stopped = ["open-mpi-4", "mpich-5"].map(|name| (name, libc::SIGSTOP));
    for (name, signal) in killed.into_iter().chain(stopped) {
        let Some(folder) = installed(TEST, name) else { continue };
        let nbody = built().nbody.to_str().unwrap();
        let arguments = ["--quiet", "--bodies", "500", "--steps", "100000000", "--runtime", "RANK"];
        let line = [&["run", "-n", "3", "--mpi", "--", nbody][..], &arguments].concat();
        let mut command = plugins::flash("", &line);
        of_launcher(&mut command, &folder);
        command.env("FLASH_RANK_TIMEOUT_MS", "3000").env(SHARED, "1");
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let ranks = within(LONG, || {
            let found = below(process.id());
            (found.len() == 3 && found.get(&2).is_some_and(|pid| serves(*pid))).then_some(found)
        });
        let lost = ranks[&2];
        // SAFETY: a signal for a process that this test has started.
        assert_eq!(unsafe { libc::kill(lost as i32, signal) }, 0);
        within(LONG, || process.try_wait().unwrap());
        let output = process.wait_with_output().unwrap();
        let text = text_of(&output);
        // After a loss Open MPI 4 says 0 at times, whatever the program's status is.
        assert!(name == "open-mpi-4" || !output.status.success(), "{name}: {text}");
        let how = if signal == libc::SIGKILL { "its process ended" } else { "is silent" };
        for expected in ["rank 2 of ", &format!("process {lost} of host"), how] {
            assert!(text.contains(expected), "{name}: {expected}: {text}");
        }
        let has_ended = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
        within(LONG, || ranks.values().all(has_ended).then_some(()));
    }
}

/// True if an agent has begun to serve: one that is lost while MPI starts is the launcher's to report.
fn serves(process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim() == "flash-agent") && has_computed(process)
}

/// The processes of a job that a process has started, by rank.
fn below(process: u32) -> HashMap<u32, u32> {
    let mut found = HashMap::new();
    let mut all = vec![process];
    while let Some(pid) = all.pop() {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        all.extend(
            children
                .flat_map(|text| text.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()),
        );
        let is_it = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|file| file.ends_with("nbody"));
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let rank = variables.split(|byte| *byte == 0).find_map(|variable| {
            let variable = std::str::from_utf8(variable).ok()?;
            let rank =
                ["OMPI_COMM_WORLD_RANK=", "PMI_RANK="].iter().find_map(|name| variable.strip_prefix(name));
            rank?.parse().ok()
        });
        if let (true, Some(rank)) = (is_it, rank) {
            found.insert(rank, pid);
        }
    }
    found
}

#[test]
fn what_is_wrong_with_mpi_is_said() {
    const TEST: &str = "mpi::what_is_wrong_with_mpi_is_said";
    let place = plugins::directory();
    let hosts = place.path().join("hosts");
    let file = hosts.to_str().unwrap();
    let run = |folder: Option<&Path>, arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = plugins::flash("", arguments);
        match folder {
            Some(folder) => of_launcher(&mut command, folder),
            None => drop(command.env("PATH", place.path())),
        }
        let output = output({
            command.envs(variables.iter().copied());
            command
        });
        (output.status.success(), text_of(&output))
    };
    // No MPI on the path: what to install.
    fs::write(&hosts, "localhost 2\n").unwrap();
    for flags in [&["--mpi"][..], &["--hosts", file]] {
        let (ok, text) = run(None, &[&["run", "-n", "2"][..], flags, &["--", "true"]].concat(), &[]);
        assert!(!ok && text.contains("openmpi-bin") && text.contains("--local"), "{text}");
    }
    let (_, text) = run(None, &["doctor"], &[]);
    assert!(text.contains("MPI") && text.contains("found none"), "{text}");
    let Some(folder) = installed(TEST, "mpich-4") else { return };
    for (content, expected) in [
        ("node1 2\nnode2 none\n", ":2:7: expected a number of processes from 1 to 65536, found `none`"),
        ("localhost 1\n", "expected hosts for 2 processes, found hosts that take 1"),
    ] {
        fs::write(&hosts, content).unwrap();
        let (ok, text) = run(Some(&folder), &["run", "-n", "2", "--hosts", file, "--", "true"], &[]);
        assert!(!ok && text.contains(expected) && text.contains(file), "{text}");
    }
    fs::write(&hosts, "localhost 2\n").unwrap();
    let (ok, text) = run(Some(&folder), &["run", "-n", "2", "--hosts", file, "--", "true"], &[]);
    assert!(ok, "{text}");
    let (_, text) = run(Some(&folder), &["doctor"], &[]);
    for expected in ["MPICH 4", "-disable-auto-cleanup", "libmpi.so.12"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // A library that is not the launcher's; one that is none.
    let nbody = &built().nbody;
    for (library, expected) in [
        (
            installed(TEST, "open-mpi-4").map(|other| other.join("lib/libmpi.so.40")),
            "this library is not the launcher's",
        ),
        (Some(built().test.clone()), "found no MPI_Init_thread"),
        (Some("/no/such/library".into()), "/no/such/library"),
    ] {
        let Some(library) = library else { continue };
        let mut command = job(&folder, 2, nbody, &["--quiet", "--bodies", "10", "--runtime", "RANK"]);
        command.env("FLASH_MPI_LIB", &library);
        let output = output(command);
        let text = text_of(&output);
        assert!(!output.status.success() && text.contains(expected), "{}: {text}", library.display());
    }
}
