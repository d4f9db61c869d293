//! What a child rank of C2MPI costs beside the call of its kernel: the paper's portability score, and its T1,
//! the time of a round trip less that of the kernel and of copies. Arrays are in memory that programs and
//! devices share, so nothing is copied in this process. Beside a round trip through an agent are those of its
//! bytes by a Unix socket and by ZeroMQ.
//!
//! The rows are of a process of their own, which becomes its own agent.

#![allow(clippy::undocumented_unsafe_blocks)] // arrays of this module, and calls of `mpix.h`

use crate::dispatch::per_call;
use crate::peers::{Source, cache, long, or_without};
use crate::stats::{REPEATS, Row, pair};
use anyhow::{Context, Result, ensure};
use flash_c2mpi::c::calls::*;
use flash_c2mpi::c::info::{MPIX_Info_create, MPIX_Info_free, MPIX_Info_set};
use flash_c2mpi::c::messages::{MPIX_Recv, MPIX_Send};
use flash_c2mpi::c::object::*;
use flash_c2mpi::c::types::*;
use flash_core::descriptor::ElementType;
use flash_core::get_runtime;
use flash_core::memory::{AnyMemory, AnyType};
use flash_core::runtime::{AnyArgument, BoundKernel};
use std::ffi::{CStr, CString, c_char, c_long, c_void};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::time::Duration;

/// The name of the part that a process of its own runs.
pub const CHILD: &str = "halo";

/// Bytes of the arrays of a score, together.
const LARGE: u64 = 48 << 20;
/// Numbers of the arrays of T1.
const SMALL: [u64; 3] = [64, 1024, 4096];
/// Round trips of a turn.
const TRIPS: usize = 5000;

/// A function whose arrays all have as many numbers, or one; a scalar before them says how many.
struct Function {
    alias: &'static CStr,
    kernel: &'static str,
    counted: bool,
    /// How many numbers each array has, of `n`.
    arrays: fn(u64) -> [u64; 3],
}

const FUNCTIONS: [Function; 3] = [
    Function { alias: c"EWMM", kernel: "flash.ewmm", counted: true, arrays: |n| [n; 3] },
    Function { alias: c"EWMD", kernel: "flash.ewmd", counted: true, arrays: |n| [n; 3] },
    Function { alias: c"VDP", kernel: "flash.vdp", counted: false, arrays: |n| [n, n, 1] },
];

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(["--child", CHILD]).stderr(Stdio::inherit()).output();
    let output = output.context("the process that measures does not start")?;
    ensure!(output.status.success(), "the process that measures failed: {}", output.status);
    serde_json::from_slice(&output.stdout).context("its rows")
}

/// Prints the rows.
pub fn measure() -> Result<()> {
    // An agent goes no further.
    ok(unsafe { MPIX_Initialize(null_mut(), null_mut()) })?;
    let mut rows = Vec::new();
    for function in &FUNCTIONS {
        rows.push(score(function)?);
    }
    let multiply = &FUNCTIONS[0];
    for n in SMALL {
        let (mut direct, mut trip) = (Direct::new(multiply, n)?, Trip::new(multiply, n, c"ALL_CPU:0")?);
        let t1 = || trip.ns() - direct.ns();
        rows.push(us(format!("T1 of EWMM of {n} numbers, in process"), t1, None));
    }
    let n = SMALL[0];
    let (mut direct, mut trip) = (Direct::new(multiply, n)?, Trip::new(multiply, n, c"ALL_CPU:0@agent")?);
    let bytes = 3 * 4 * n as usize;
    let mut socket = Socket::new(bytes)?;
    rows.push(us(
        format!(
            "T1 of EWMM of {n} numbers, through an agent, against a round trip of its bytes by a Unix socket"
        ),
        || trip.ns() - direct.ns(),
        Some(&mut || socket.ns() / 1e3),
    ));
    if let Some(mut zeromq) = or_without("ZeroMQ", ZeroMq::new(bytes))? {
        let name = format!("T1 of EWMM of {n} numbers, through an agent, against that of ZeroMQ by ipc");
        rows.push(us(name, || trip.ns() - direct.ns(), Some(&mut || zeromq.ns() / 1e3)));
    }
    println!("{}", serde_json::to_string(&rows)?);
    Ok(())
}

fn us(name: String, mut ns: impl FnMut() -> f64, peer: Option<&mut dyn FnMut() -> f64>) -> Row {
    pair(name, "us", REPEATS, || ns() / 1e3, peer, Duration::ZERO)
}

fn score(function: &Function) -> Result<Row> {
    let large = (function.arrays)(2).iter().filter(|count| **count == 2).count() as u64;
    let n = LARGE / 4 / large;
    let (mut direct, mut trip) = (Direct::new(function, n)?, Trip::new(function, n, c"ALL_CPU:0")?);
    let name = format!(
        "score of {} at 48 MiB: the direct call's time of the child rank's",
        function.alias.to_string_lossy()
    );
    let mut turn = 0;
    let once = || {
        turn += 1;
        // The first of the two has other caches.
        if turn % 2 == 0 {
            let ours = trip.large();
            direct.large() / ours
        } else {
            let call = direct.large();
            call / trip.large()
        }
    };
    Ok(pair(name, "score", REPEATS, once, None, Duration::ZERO))
}

/// The kernel, called as a program in Rust without its type does.
struct Direct {
    kernel: BoundKernel,
    memories: Vec<AnyMemory>,
    n: u64,
    counted: bool,
}

impl Direct {
    fn new(function: &Function, n: u64) -> Result<Direct> {
        let kernel = get_runtime("ALL_CPU:0")?.bind(function.kernel)?;
        let float = AnyType::new(&ElementType::of::<f32>())?;
        let memories = (function.arrays)(n).into_iter().map(|count| AnyMemory::fixed(float, &[count]));
        Ok(Direct { kernel, memories: memories.collect::<Result<_, _>>()?, n, counted: function.counted })
    }

    fn call(&self) {
        let whole = AnyType::new(&ElementType::of::<u64>()).expect("a number");
        let count = self.n.to_ne_bytes();
        let [a, b, c] = [0, 1, 2].map(|at| AnyArgument::Memory(&self.memories[at]));
        let dims = [self.n as usize];
        let done = match self.counted {
            true => self.kernel.launch(&[AnyArgument::Scalar(whole, &count), a, b, c][..], dims),
            false => self.kernel.launch(&[a, b, c][..], dims),
        };
        done.expect("the kernel runs");
    }

    fn ns(&mut self) -> f64 {
        per_call(TRIPS, || self.call())
    }

    fn large(&mut self) -> f64 {
        per_call(3, || self.call())
    }
}

/// A child rank, and a compute object for it.
struct Trip {
    child: i32,
    object: MPIX_ComputeObj,
}

impl Trip {
    fn new(function: &Function, n: u64, key: &CStr) -> Result<Trip> {
        let (mut child, mut info, mut object) = (0, null_mut(), null_mut());
        unsafe {
            ok(MPIX_Info_create(&mut info))?;
            ok(MPIX_Info_set(info, c"key".as_ptr(), key.as_ptr()))?;
            ok(MPIX_Claim_int(function.alias.as_ptr(), None, info, &mut child))?;
            ok(MPIX_Info_free(&mut info))?;
            ok(MPIX_ComputeObj_create(&mut object))?;
            if function.counted {
                ok(MPIX_ComputeObj_scalar(object, (&raw const n).cast(), UINT64_T))?;
            }
            for count in (function.arrays)(n) {
                let mut place: *mut c_void = null_mut();
                ok(MPIX_Alloc_mem(4 * count as isize, null_mut(), (&raw mut place).cast()))?;
                ok(MPIX_ComputeObj_vector(object, place, count, FLOAT))?;
            }
        }
        let trip = Trip { child, object };
        trip.go()?;
        Ok(trip)
    }

    fn go(&self) -> Result<()> {
        unsafe {
            ok(MPIX_Send(self.object.cast(), 1, COMPUTE_OBJ, self.child, 0, COMM_WORLD))?;
            ok(MPIX_Recv(self.object.cast(), 1, COMPUTE_OBJ, self.child, 0, COMM_WORLD, null_mut()))
        }
    }

    fn ns(&mut self) -> f64 {
        per_call(TRIPS, || self.go().expect("a round trip"))
    }

    fn large(&mut self) -> f64 {
        per_call(3, || self.go().expect("a round trip"))
    }
}

/// A socket, and a thread at its other end that sends back what comes.
struct Socket {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Socket {
    fn new(bytes: usize) -> Result<Socket> {
        let (stream, mut other) = UnixStream::pair()?;
        std::thread::spawn(move || {
            let mut bytes = vec![0; bytes];
            while other.read_exact(&mut bytes).and_then(|()| other.write_all(&bytes)).is_ok() {}
        });
        Ok(Socket { stream, bytes: vec![0; bytes] })
    }

    fn ns(&mut self) -> f64 {
        per_call(TRIPS / 10, || {
            self.stream.write_all(&self.bytes).expect("a thread reads");
            self.stream.read_exact(&mut self.bytes).expect("a thread writes");
        })
    }
}

/// A pair of ZeroMQ's sockets, and a thread at the other end that sends back what comes.
struct ZeroMq {
    pair: *mut c_void,
    ns: unsafe extern "C" fn(*mut c_void, c_long) -> f64,
    /// Of its socket's file.
    _folder: tempfile::TempDir,
}

impl ZeroMq {
    fn new(bytes: usize) -> Result<ZeroMq> {
        let source = Source {
            name: "zmq.c",
            text: include_str!("../peers/zmq.c"),
            compiler: "gcc",
            flags: &["-O3", "-march=native", "-fPIC", "-shared"],
            libraries: &["-lzmq", "-lpthread"],
        };
        let library = source.load(&cache()?)?;
        let folder = tempfile::tempdir()?;
        let endpoint = CString::new(format!("ipc://{}", folder.path().join("zmq").display()))?;
        type Open = unsafe extern "C" fn(*const c_char, c_long) -> *mut c_void;
        // The signatures are those of zmq.c.
        let (open, ns) =
            unsafe { (library.get::<Open>(b"zmq_pair_open\0")?, *library.get(b"zmq_pair_ns\0")?) };
        let pair = unsafe { open(endpoint.as_ptr(), long(bytes)) };
        ensure!(!pair.is_null(), "no pair of sockets at {}", endpoint.to_string_lossy());
        Ok(ZeroMq { pair, ns, _folder: folder })
    }

    fn ns(&mut self) -> f64 {
        let ns = unsafe { (self.ns)(self.pair, long(TRIPS / 10)) };
        assert!(ns > 0.0, "the thread sends back what comes");
        ns
    }
}

fn ok(code: i32) -> Result<()> {
    let text = || unsafe { CString::from(CStr::from_ptr(flash_c2mpi::c::status::MPIX_Last_error())) };
    ensure!(code == 0, "{}", text().to_string_lossy());
    Ok(())
}
