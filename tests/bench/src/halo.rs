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
use flash_c2mpi::unified::memory_at;
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
/// Pairs of calls of a turn of a score.
const PAIRS: usize = 15;
/// Round trips of a turn.
const TRIPS: usize = 5000;

/// What a kernel is given.
enum Given {
    Count(u64),
    Float(f32),
    /// An array of ones of such a shape.
    Floats(Vec<u64>),
    Longs(Vec<u64>),
    Ints(Vec<u32>),
}

/// The points that a kernel computes.
#[derive(Clone, Copy)]
enum Points {
    Line(u64),
    /// Of a cube with such a side, without its surface.
    Inner(u64),
}

/// A function of the paper's Table 1 at some size.
struct Function {
    alias: &'static CStr,
    kernel: &'static str,
    given: Vec<Given>,
    space: Points,
    /// T1 of T4 by the paper's Table 8, of its CPU.
    paper: f64,
}

impl Function {
    fn all() -> Vec<Function> {
        // Three matrices, three cubes and a matrix of 48 MiB.
        const SIDE: u64 = 2048;
        const CUBE: u64 = 161;
        const MATRIX: u64 = 3547;
        const LINE: u64 = LARGE / 8;
        let square = || Given::Floats(vec![SIDE; 2]);
        let cube = || Given::Floats(vec![CUBE; 3]);
        let line = |n| Given::Floats(vec![n]);
        let of = |alias, kernel, paper, given, space| Function { alias, kernel, given, space, paper };
        let count = Given::Count;
        // Sixteen elements in each row of the sparse matrix, apart from each other.
        let starts = (0..=SIDE).map(|row| 16 * row).collect();
        let columns = (0..16 * SIDE).map(|at| ((at / 16 + at % 16 * 128) % SIDE) as u32).collect();
        let sparse = vec![
            count(SIDE),
            count(SIDE),
            Given::Longs(starts),
            Given::Ints(columns),
            line(16 * SIDE),
            line(SIDE * SIDE),
            square(),
        ];
        let dense = vec![
            count(SIDE),
            count(SIDE),
            count(SIDE),
            count(SIDE),
            count(SIDE),
            square(),
            square(),
            square(),
        ];
        let stencil = vec![Given::Float(0.25), count(CUBE), count(CUBE), cube(), cube(), cube()];
        vec![
            of(c"MMM", "flash.mmm", 0.0005e-2, dense, Points::Line(SIDE)),
            Function::multiply(LARGE / 12),
            of(c"SMMM", "flash.smmm", 0.0044e-2, sparse, Points::Line(SIDE)),
            of(c"EWMD", "flash.ewmd", 0.0006e-2, elementwise(LARGE / 12), Points::Line(LARGE / 12)),
            of(c"VDP", "flash.vdp", 0.0008e-2, vec![line(LINE), line(LINE), line(1)], Points::Line(LINE)),
            of(c"JS", "flash.js", 0.0002e-2, stencil, Points::Inner(CUBE)),
            of(
                c"MVM",
                "flash.mvm",
                0.0030e-2,
                vec![count(MATRIX), Given::Floats(vec![MATRIX; 2]), line(MATRIX), line(MATRIX)],
                Points::Line(MATRIX),
            ),
            of(
                c"1DCONV",
                "flash.conv1d",
                0.0001e-2,
                vec![line(64), line(LINE), line(LINE - 63)],
                Points::Line(LINE - 63),
            ),
        ]
    }

    /// `EWMM` of `n` numbers.
    fn multiply(n: u64) -> Function {
        let (given, space) = (elementwise(n), Points::Line(n));
        Function { alias: c"EWMM", kernel: "flash.ewmm", given, space, paper: 0.0010e-2 }
    }
}

fn elementwise(n: u64) -> Vec<Given> {
    let line = || Given::Floats(vec![n]);
    vec![Given::Count(n), line(), line(), line()]
}

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
    let functions = Function::all();
    for function in &functions {
        rows.push(score(function)?);
    }
    for n in SMALL {
        let multiply = Function::multiply(n);
        let mut trip = Trip::new(&multiply, c"ALL_CPU:0")?;
        let mut direct = Direct::of(&multiply, &trip)?;
        let t1 = || trip.ns() - direct.ns();
        rows.push(us(format!("T1 of EWMM of {n} numbers, in process"), t1, None));
    }
    for n in SMALL {
        let multiply = Function::multiply(n);
        let mut trip = Trip::new(&multiply, c"ALL_CPU:0@agent")?;
        // With arrays that no agent uses.
        let mut direct = Direct::of(&multiply, &Trip::new(&multiply, c"ALL_CPU:0")?)?;
        let bytes = 3 * 4 * n as usize;
        let name = format!("T1 of EWMM of {n} numbers, through an agent");
        let mut socket = Socket::new(bytes)?;
        let named = format!("{name}, against a round trip of its bytes by a Unix socket");
        rows.push(us(named, || trip.ns() - direct.ns(), Some(&mut || socket.ns() / 1e3)));
        if let Some(mut zeromq) = or_without("ZeroMQ", ZeroMq::new(bytes))? {
            let named = format!("{name}, against that of ZeroMQ by ipc");
            rows.push(us(named, || trip.ns() - direct.ns(), Some(&mut || zeromq.ns() / 1e3)));
        }
    }
    let t1 = rows.last().context("T1 through an agent")?.value * 1e3;
    for function in &functions {
        let mut trip = Trip::new(function, c"ALL_CPU:0@agent")?;
        let name = format!(
            "T1/T4 of {} at 48 MiB, through an agent, against the paper's CPU",
            function.alias.to_string_lossy()
        );
        let mut paper = || function.paper;
        rows.push(pair(name, "ratio", REPEATS, || t1 / trip.large(), Some(&mut paper), Duration::ZERO));
    }
    println!("{}", serde_json::to_string(&rows)?);
    Ok(())
}

fn us(name: String, mut ns: impl FnMut() -> f64, peer: Option<&mut dyn FnMut() -> f64>) -> Row {
    pair(name, "us", REPEATS, || ns() / 1e3, peer, Duration::ZERO)
}

/// Both work on the same arrays, as where these lie makes more of a difference than what is measured.
fn score(function: &Function) -> Result<Row> {
    let trip = Trip::new(function, c"ALL_CPU:0")?;
    let direct = Direct::of(function, &trip)?;
    let name = format!(
        "score of {} at 48 MiB: the direct call's time of the child rank's",
        function.alias.to_string_lossy()
    );
    let once = || {
        let (mut calls, mut trips) = (Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            // The first of the two has other caches.
            for is_call in [pair % 2 == 0, pair % 2 != 0] {
                match is_call {
                    true => calls.push(per_call(1, || direct.call())),
                    false => trips.push(per_call(1, || trip.go().expect("a round trip"))),
                }
            }
        }
        median(&mut calls) / median(&mut trips)
    };
    Ok(pair(name, "score", REPEATS, once, None, Duration::ZERO))
}

fn median(all: &mut [f64]) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The kernel, called as a program in Rust without its type does.
struct Direct {
    kernel: BoundKernel,
    given: Vec<Passed>,
    space: Points,
}

/// An argument of a direct call.
enum Passed {
    Scalar(AnyType, Vec<u8>),
    Memory(AnyMemory),
}

impl Direct {
    /// With the arrays of a round trip.
    fn of(function: &Function, trip: &Trip) -> Result<Direct> {
        let mut arrays = trip.arrays.iter();
        let scalar = |element: &_, bytes: &[u8]| Ok(Passed::Scalar(AnyType::new(element)?, bytes.to_vec()));
        let pass = |given: &Given| match given {
            Given::Count(n) => scalar(&ElementType::of::<u64>(), &n.to_ne_bytes()),
            Given::Float(x) => scalar(&ElementType::of::<f32>(), &x.to_ne_bytes()),
            Given::Floats(_) | Given::Longs(_) | Given::Ints(_) => {
                let array = arrays.next().and_then(|array| memory_at(array.cast()));
                Ok(Passed::Memory(array.context("an array of the round trip")?))
            }
        };
        let given = function.given.iter().map(pass).collect::<Result<_>>()?;
        let kernel = get_runtime("ALL_CPU:0")?.bind(function.kernel)?;
        Ok(Direct { kernel, given, space: function.space })
    }

    fn call(&self) {
        let last = self.given.len() - 1;
        // Of at most eight.
        let given: [_; 8] = std::array::from_fn(|at| match &self.given[at.min(last)] {
            Passed::Scalar(element, bytes) => AnyArgument::Scalar(*element, bytes),
            Passed::Memory(memory) => AnyArgument::Memory(memory),
        });
        let done = match self.space {
            Points::Line(n) => self.kernel.launch(&given[..=last], 0..n),
            Points::Inner(side) => {
                let inner = 1..side - 1;
                self.kernel.launch(&given[..=last], (inner.clone(), inner.clone(), inner))
            }
        };
        done.expect("the kernel runs");
    }

    fn ns(&mut self) -> f64 {
        per_call(TRIPS, || self.call())
    }
}

fn ones(at: *mut f32, shape: &[u64]) {
    unsafe { std::slice::from_raw_parts_mut(at, shape.iter().product::<u64>() as usize) }.fill(1.0);
}

fn copy<T: Copy>(all: &[T], to: *mut T) {
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), to, all.len()) };
}

/// A child rank, and a compute object for it.
struct Trip {
    child: i32,
    object: MPIX_ComputeObj,
    /// The addresses of its arrays.
    arrays: Vec<*mut c_void>,
}

impl Trip {
    fn new(function: &Function, key: &CStr) -> Result<Trip> {
        let (mut child, mut info, mut object) = (0, null_mut(), null_mut());
        unsafe {
            ok(MPIX_Info_create(&mut info))?;
            ok(MPIX_Info_set(info, c"key".as_ptr(), key.as_ptr()))?;
            ok(MPIX_Claim_int(function.alias.as_ptr(), None, info, &mut child))?;
            ok(MPIX_Info_free(&mut info))?;
            ok(MPIX_ComputeObj_create(&mut object))?;
        }
        let mut arrays = Vec::new();
        for given in &function.given {
            match given {
                Given::Count(n) => {
                    ok(unsafe { MPIX_ComputeObj_scalar(object, (&raw const *n).cast(), UINT64_T) })?
                }
                Given::Float(x) => {
                    ok(unsafe { MPIX_ComputeObj_scalar(object, (&raw const *x).cast(), FLOAT) })?
                }
                Given::Floats(shape) => arrays.push(array(object, shape, FLOAT, |at| ones(at, shape))?),
                Given::Longs(all) => {
                    arrays.push(array(object, &[all.len() as u64], UINT64_T, |at| copy(all, at))?)
                }
                Given::Ints(all) => {
                    arrays.push(array(object, &[all.len() as u64], UINT32_T, |at| copy(all, at))?)
                }
            }
        }
        if let Points::Inner(side) = function.space {
            let (begin, end) = ([1; 3], [side - 1; 3]);
            ok(unsafe { MPIX_ComputeObj_range(object, 0, 3, begin.as_ptr(), end.as_ptr()) })?;
        }
        let trip = Trip { child, object, arrays };
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

/// Adds an array in memory of the library's. Returns its address.
fn array<T>(
    object: MPIX_ComputeObj,
    shape: &[u64],
    element: MPIX_Datatype,
    fill: impl FnOnce(*mut T),
) -> Result<*mut c_void> {
    let (mut place, bytes) = (null_mut::<c_void>(), shape.iter().product::<u64>() as usize * size_of::<T>());
    ok(unsafe { MPIX_Alloc_mem(bytes as isize, null_mut(), (&raw mut place).cast()) })?;
    fill(place.cast());
    ok(unsafe { MPIX_ComputeObj_array(object, place, shape.len() as i32, shape.as_ptr(), element) })?;
    Ok(place)
}

/// A socket, and a thread at its other end that sends back what comes.
pub struct Socket {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Socket {
    pub fn new(bytes: usize) -> Result<Socket> {
        let (stream, mut other) = UnixStream::pair()?;
        std::thread::spawn(move || {
            let mut bytes = vec![0; bytes];
            while other.read_exact(&mut bytes).and_then(|()| other.write_all(&bytes)).is_ok() {}
        });
        Ok(Socket { stream, bytes: vec![0; bytes] })
    }

    /// Nanoseconds of a round trip.
    pub fn ns(&mut self) -> f64 {
        per_call(TRIPS / 10, || {
            self.stream.write_all(&self.bytes).expect("a thread reads");
            self.stream.read_exact(&mut self.bytes).expect("a thread writes");
        })
    }
}

/// A pair of ZeroMQ's sockets, and a thread at the other end that sends back what comes.
pub struct ZeroMq {
    pair: *mut c_void,
    ns: unsafe extern "C" fn(*mut c_void, c_long) -> f64,
    /// Of its socket's file.
    _folder: tempfile::TempDir,
}

impl ZeroMq {
    pub fn new(bytes: usize) -> Result<ZeroMq> {
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

    /// Nanoseconds of a round trip.
    pub fn ns(&mut self) -> f64 {
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
