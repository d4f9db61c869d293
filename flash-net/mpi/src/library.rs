//! An MPI library, opened when it is needed: its functions by name (`functions.rs`), its constants by family
//! (`family.rs`).
//!
//! No header is compiled in and nothing is linked, so one program works with any of the families. Calls
//! are made one at a time, under a lock, also where the library takes several threads: the lock says that it
//! is not finalized meanwhile.

use crate::MpiError;
use crate::family::{Family, MPICH_HANDLES, Numbers, OPEN_MPI_HANDLES, STANDARD_HANDLES};
use crate::functions::{Address, Collective, Comm, Functions, Request, Status, Table};
use libloading::os::unix::{Library as Opened, RTLD_GLOBAL, RTLD_NOW, Symbol};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A library that was opened. It stays for as long as the process.
pub struct Mpi {
    path: PathBuf,
    version: String,
    family: Family,
    numbers: Numbers,
    functions: Box<dyn Functions>,
    /// Where messages are sent, one for each [`Channel`], if [`Mpi::part`] made some; else the world.
    on: OnceLock<[Comm; 3]>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opened,
    Initialized,
    /// The program has initialized it, and finalizes it.
    OfProgram,
    Over,
}

/// Messages that are never taken for one another, whatever their tags: each has a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Elements as they are; the only channel of processes that are agents.
    Elements,
    /// What says itself what it is.
    Objects,
    /// What is said about a message without elements.
    Words,
}

/// Why a receive has failed, in the library's words.
pub(crate) enum Lost {
    /// The message was longer than its memory.
    Truncated(String),
    Other(String),
}

/// A message that has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probed {
    pub source: c_int,
    pub tag: c_int,
    pub bytes: c_int,
}

impl Mpi {
    /// Opens the library in this file, or of this name.
    ///
    /// # Errors
    /// If the system refuses it, or it is no library of MPI that is known.
    pub fn open(path: &Path) -> Result<Mpi, MpiError> {
        // What a library of Open MPI loads looks for the library's own symbols.
        // SAFETY: its start-up code runs. The user chose the file, or the launcher's installation has it.
        let opened = unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        let opened = opened.map_err(|error| MpiError::new(format!("{}: {error}", path.display())))?;
        Mpi::of(opened, path)
    }

    /// The library that this process has already. `None` if it has none.
    pub fn of_this_process() -> Option<Result<Mpi, MpiError>> {
        let this = Opened::this();
        // SAFETY: only its address is looked at.
        let found: Result<Symbol<unsafe extern "C" fn()>, _> = unsafe { this.get(b"MPI_Init_thread\0") };
        let path = file_of(*found.ok()? as *const c_void).unwrap_or_else(|| PathBuf::from("this program"));
        Some(Mpi::of(this, &path))
    }

    fn of(library: Opened, path: &Path) -> Result<Mpi, MpiError> {
        let symbol = |name: &[u8]| {
            // SAFETY: only its address is looked at.
            let found: Result<Symbol<*mut c_void>, _> = unsafe { library.get(name) };
            found.ok().map(|symbol| symbol.into_raw().cast::<c_void>())
        };
        let init = symbol(b"MPI_Init_thread\0").ok_or_else(|| {
            MpiError::new(format!("{}: expected a library of MPI, found no MPI_Init_thread", path.display()))
        })?;
        let path = file_of(init).unwrap_or_else(|| path.to_owned());
        // A library of MPICH has the functions of the standard interface in a file of its own.
        let is_standard =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libmpi_abi."));
        let (family, functions): (Family, Box<dyn Functions>) = if is_standard {
            let handles = STANDARD_HANDLES.map(|handle| Address(std::ptr::without_provenance_mut(handle)));
            (Family::Standard, Box::new(Table::load(&library, &path, handles)?))
        } else if symbol(OPEN_MPI_HANDLES[0]).is_some() {
            let missing =
                || MpiError::new(format!("{}: expected Open MPI's objects, found not all", path.display()));
            let found = OPEN_MPI_HANDLES.map(|name| symbol(name).map(Address));
            let [Some(world), Some(byte), Some(errors), Some(none)] = found else { return Err(missing()) };
            (Family::OpenMpi, Box::new(Table::load(&library, &path, [world, byte, errors, none])?))
        } else {
            (Family::Mpich, Box::new(Table::load(&library, &path, MPICH_HANDLES)?))
        };
        // It may have started threads, and registered functions for the process's end.
        std::mem::forget(library);
        let mut mpi = Mpi {
            path,
            version: String::new(),
            family,
            numbers: family.numbers(),
            functions,
            on: OnceLock::new(),
            state: Mutex::new(State::Opened),
        };
        let version = text(|text, length| {
            // SAFETY: memory for the longest text; this function may be called before the first one.
            unsafe { mpi.functions.version(text, length) }
        });
        mpi.version = version.lines().next().unwrap_or_default().trim_end_matches([',', ' ']).to_owned();
        Ok(mpi)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says of itself: a line.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its family.
    pub fn family(&self) -> Family {
        self.family
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `MPI_Init_thread`: this process's rank and the number of all.
    ///
    /// # Errors
    /// If the program has done so itself, the library refuses, or it allows one thread only.
    pub(crate) fn initialize(&self) -> Result<(u32, u32), MpiError> {
        let mut state = self.state();
        let named = |what: String| MpiError::new(format!("{}: {what}", self.path.display()));
        let (mut is, mut given, mut rank, mut size, mut byte) = (0, 0, -1, -1, 0);
        // SAFETY: our own variables, and functions in the order that MPI demands.
        unsafe {
            self.succeed("MPI_Initialized", self.functions.initialized(&mut is))?;
            if is != 0 || *state != State::Opened {
                return Err(named(
                    "expected an MPI that this program has not initialized, found that it has: its processes are equal, and none is an agent"
                        .into(),
                ));
            }
            self.succeed("MPI_Init_thread", self.functions.init(self.numbers.multiple, &mut given))?;
            *state = State::Initialized;
            let world = self.on(Channel::Elements);
            self.succeed("MPI_Comm_set_errhandler", self.functions.return_errors(world))?;
            self.succeed("MPI_Comm_rank", self.functions.rank_and_size(&mut rank, &mut size))?;
            self.succeed("MPI_Type_size", self.functions.size_of_byte(&mut byte))?;
        }
        if given < self.numbers.serialized {
            return Err(named(format!(
                "expected that several threads may call it (MPI_THREAD_SERIALIZED, {}), found level {given}",
                self.numbers.serialized
            )));
        }
        match (u32::try_from(rank), u32::try_from(size)) {
            (Ok(rank), Ok(size)) if rank < size && byte == 1 => Ok((rank, size)),
            _ => Err(named(format!(
                "expected the constants of {}, found rank {rank} of {size} and bytes of {byte}",
                self.family
            ))),
        }
    }

    /// True if the program has initialized it, and not finalized it. Only asked before [`Mpi::initialize`].
    pub(crate) fn is_of_program(&self) -> bool {
        let (mut is, mut is_over) = (0, 0);
        // SAFETY: these functions may be called at any time; our own variables.
        unsafe {
            self.functions.initialized(&mut is) == 0
                && self.functions.finalized(&mut is_over) == 0
                && is != 0
                && is_over == 0
        }
    }

    /// Uses what the program has initialized: this process's rank and the number of all.
    ///
    /// # Errors
    /// What the library says.
    pub(crate) fn attach(&self) -> Result<(u32, u32), MpiError> {
        let (mut state, mut rank, mut size) = (self.state(), -1, 0);
        *state = State::OfProgram;
        // SAFETY: our own variables; it is initialized.
        let code = unsafe { self.functions.rank_and_size(&mut rank, &mut size) };
        self.succeed("MPI_Comm_rank", code)?;
        match (u32::try_from(rank), u32::try_from(size)) {
            (Ok(rank), Ok(size)) if rank < size => Ok((rank, size)),
            _ => Err(MpiError::new(format!(
                "{}: expected a rank of {}, found {rank} of {size}",
                self.path.display(),
                self.family
            ))),
        }
    }

    /// From here on messages are sent in communicators of their own: no other message of the program is one
    /// of them. All processes call this, and wait for each other.
    ///
    /// # Errors
    /// What the library says.
    pub(crate) fn part(&self) -> Result<(), MpiError> {
        let (_state, mut own) = (self.state(), [self.functions.world(); 3]);
        for own in &mut own {
            // SAFETY: it is initialized; our own variable, and then what the library has made.
            unsafe {
                self.succeed("MPI_Comm_dup", self.functions.duplicate(own))?;
                self.succeed("MPI_Comm_set_errhandler", self.functions.return_errors(*own))?;
            }
        }
        let _ = self.on.set(own);
        Ok(())
    }

    /// True if a thread of FLASH's own may call the library, whatever the program does: where the program has
    /// initialized it, its calls are not made with our lock.
    ///
    /// # Errors
    /// What the library says.
    pub(crate) fn takes_own_thread(&self) -> Result<bool, String> {
        let mut level = 0;
        // SAFETY: our own variable.
        self.call(|all| unsafe { all.query_thread(&mut level) })?;
        let is_of_program = *self.state() == State::OfProgram;
        Ok(level >= if is_of_program { self.numbers.multiple } else { self.numbers.serialized })
    }

    /// That this thread may call the library, as the program has initialized it.
    ///
    /// # Errors
    /// If only the program's main thread may.
    pub(crate) fn check_thread(&self) -> Result<(), String> {
        let (mut level, mut is_main) = (0, 0);
        // SAFETY: our own variables.
        self.call(|all| unsafe {
            match all.query_thread(&mut level) {
                0 => all.is_thread_main(&mut is_main),
                code => code,
            }
        })?;
        match level >= self.numbers.serialized || is_main != 0 {
            true => Ok(()),
            false => Err(format!(
                "expected the thread that has initialized MPI, as the program has asked for level {level} of threads \
                 (MPI_THREAD_SERIALIZED, {}, allows others), found another one",
                self.numbers.serialized
            )),
        }
    }

    fn on(&self, channel: Channel) -> Comm {
        self.on.get().map_or_else(|| self.functions.world(), |own| own[channel as usize])
    }

    /// `MPI_Finalize`. No other function is called afterwards.
    pub(crate) fn finalize(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut *state, State::Over) == State::Initialized {
            // SAFETY: it was initialized, and the state says that it is over.
            unsafe { self.functions.finalize() };
        }
    }

    /// No function is called from here on.
    pub(crate) fn leave(&self) {
        *self.state() = State::Over;
    }

    fn succeed(&self, call: &str, code: c_int) -> Result<(), MpiError> {
        match code {
            0 => Ok(()),
            code => Err(MpiError::new(format!("{}: {call}: {}", self.path.display(), self.text_of(code)))),
        }
    }

    fn text_of(&self, code: c_int) -> String {
        // SAFETY: memory for the longest text.
        let found = text(|text, length| unsafe { self.functions.error_string(code, text, length) });
        if found.is_empty() { format!("error {code}") } else { found }
    }

    /// The code of a function, which is not called if MPI is over.
    fn code_of(&self, function: impl FnOnce(&dyn Functions) -> c_int) -> Result<c_int, String> {
        let (state, mut is_over) = (self.state(), 0);
        match *state {
            State::Initialized => {}
            State::OfProgram => {
                // SAFETY: our own variable; the function may be called at any time.
                unsafe { self.functions.finalized(&mut is_over) };
            }
            State::Opened | State::Over => is_over = 1,
        }
        match is_over {
            0 => Ok(function(&*self.functions)),
            _ => Err("MPI is over in this process".into()),
        }
    }

    /// Calls a function, unless MPI is over.
    fn call(&self, function: impl FnOnce(&dyn Functions) -> c_int) -> Result<(), String> {
        match self.code_of(function)? {
            0 => Ok(()),
            code => Err(self.text_of(code)),
        }
    }

    /// Begins to send.
    ///
    /// # Safety
    /// The memory stays, and is not written, until the request is complete; for ever if it never is.
    pub(crate) unsafe fn send(
        &self,
        from: *const u8,
        bytes: usize,
        to: u32,
        tag: c_int,
    ) -> Result<Request, String> {
        // SAFETY: as the caller says.
        unsafe { self.send_on(Channel::Elements, (from, bytes), to, tag) }
    }

    /// The same on a channel.
    ///
    /// # Safety
    /// As for [`send`](Mpi::send).
    pub(crate) unsafe fn send_on(
        &self,
        channel: Channel,
        (from, bytes): (*const u8, usize),
        to: u32,
        tag: c_int,
    ) -> Result<Request, String> {
        let (bytes, mut request) = (count(bytes)?, Request(std::ptr::null_mut()));
        let to = (self.on(channel), to as c_int, tag);
        // SAFETY: the caller's memory.
        self.call(|all| unsafe { all.isend((from, bytes), to, &mut request) })?;
        Ok(request)
    }

    /// Begins to receive the message that comes next on a channel, if there is one, into the place that is
    /// given for its bytes. No other thread takes it.
    ///
    /// # Safety
    /// The place stays, and is not used, until the request is complete; for ever if it never is.
    pub(crate) unsafe fn take(
        &self,
        channel: Channel,
        (source, tag): (c_int, c_int),
        place: impl FnOnce(usize) -> (*mut u8, usize),
    ) -> Result<Option<(Probed, Request)>, String> {
        let (mut found, mut status, mut bytes) = (0, Status([0; 16]), 0);
        let (on, mut request) = (self.on(channel), Request(std::ptr::null_mut()));
        let mut taken = None;
        // A message that waits is of no receive that was posted, and no other is posted meanwhile.
        self.call(|all| {
            // SAFETY: our own variables, the status as the function before has left it; the caller's place.
            unsafe {
                match all.iprobe((on, source, tag), &mut found, &mut status) {
                    0 if found == 0 => return 0,
                    0 => {}
                    code => return code,
                }
                match all.bytes(&status, &mut bytes) {
                    0 => {}
                    code => return code,
                }
                let probed = self.probed(&status, bytes);
                let (into, room) = place(usize::try_from(bytes).unwrap_or_default());
                let room = c_int::try_from(room).unwrap_or(c_int::MAX);
                taken = Some(probed);
                all.irecv((into, room), (on, probed.source, probed.tag), &mut request)
            }
        })?;
        Ok(taken.map(|probed| (probed, request)))
    }

    /// Begins what all processes do together.
    ///
    /// # Safety
    /// As for [`send`](Mpi::send), of all memory that it names.
    pub(crate) unsafe fn collective(&self, what: Collective) -> Result<Request, String> {
        let mut request = Request(std::ptr::null_mut());
        let on = self.on(Channel::Elements);
        // SAFETY: the caller's memory.
        self.call(|all| unsafe { all.collective(what, on, &mut request) })?;
        Ok(request)
    }

    /// Begins to receive.
    ///
    /// # Safety
    /// The memory stays, and is not used, until the request is complete; for ever if it never is.
    pub(crate) unsafe fn receive(
        &self,
        into: *mut u8,
        bytes: usize,
        from: u32,
        tag: c_int,
    ) -> Result<Request, String> {
        let (bytes, mut request) = (count(bytes)?, Request(std::ptr::null_mut()));
        let from = (self.on(Channel::Elements), from as c_int, tag);
        // SAFETY: the caller's memory.
        self.call(|all| unsafe { all.irecv((into, bytes), from, &mut request) })?;
        Ok(request)
    }

    /// True if a request is complete, which must then not be asked again.
    pub(crate) fn test(&self, request: &mut Request) -> Result<bool, String> {
        let (mut done, mut status) = (0, Status([0; 16]));
        // SAFETY: a request that was begun and is not complete, and our own variables.
        self.call(|all| unsafe { all.test(request, &mut done, &mut status) })?;
        Ok(done != 0)
    }

    /// What a receive has got, once it is complete; it must then not be asked again.
    ///
    /// # Errors
    /// [`Lost::Truncated`] if the message was longer than its memory.
    pub(crate) fn received(&self, request: &mut Request) -> Result<Option<Probed>, Lost> {
        let (mut done, mut status, mut bytes) = (0, Status([0; 16]), 0);
        // SAFETY: a request that was begun and is not complete, and our own variables.
        let code = self.code_of(|all| unsafe {
            match all.test(request, &mut done, &mut status) {
                0 if done != 0 => all.bytes(&status, &mut bytes),
                code => code,
            }
        });
        let code = code.map_err(Lost::Other)?;
        if code == 0 {
            return Ok((done != 0).then(|| self.probed(&status, bytes)));
        }
        let (text, mut class) = (self.text_of(code), 0);
        // SAFETY: our own variable.
        let _ = self.call(|all| unsafe { all.error_class(code, &mut class) });
        Err(if class == self.numbers.truncated { Lost::Truncated(text) } else { Lost::Other(text) })
    }

    fn probed(&self, status: &Status, bytes: c_int) -> Probed {
        Probed { source: status.0[self.numbers.source], tag: status.0[self.numbers.tag], bytes }
    }

    /// The next message, of one source or of any.
    pub(crate) fn probe(&self, from: Option<u32>) -> Result<Option<Probed>, String> {
        self.probe_on(Channel::Elements, self.wanted(from, None))
    }

    /// A source and a tag, where a receive or a probe has them; `None`: any.
    pub(crate) fn wanted(&self, source: Option<u32>, tag: Option<c_int>) -> (c_int, c_int) {
        let Numbers { any_source, any_tag, .. } = self.numbers;
        (source.map_or(any_source, |source| source as c_int), tag.unwrap_or(any_tag))
    }

    /// The next message of a channel with a source and a tag.
    pub(crate) fn probe_on(
        &self,
        channel: Channel,
        (source, tag): (c_int, c_int),
    ) -> Result<Option<Probed>, String> {
        let (mut found, mut status, mut bytes) = (0, Status([0; 16]), 0);
        self.call(|all| {
            // SAFETY: our own variables, the status as the first function has left it.
            unsafe {
                match all.iprobe((self.on(channel), source, tag), &mut found, &mut status) {
                    0 if found != 0 => all.bytes(&status, &mut bytes),
                    code => code,
                }
            }
        })?;
        Ok((found != 0).then(|| self.probed(&status, bytes)))
    }
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mpi({:?}, {})", self.path, self.version)
    }
}

pub(crate) fn count(bytes: usize) -> Result<c_int, String> {
    c_int::try_from(bytes).map_err(|_| format!("expected a message of less than 2 GiB, found {bytes} bytes"))
}

/// A text that a function writes; empty if it fails.
fn text(write: impl FnOnce(*mut c_char, &mut c_int) -> c_int) -> String {
    // The longest are versions: 8192 bytes.
    let (mut text, mut length) = (vec![0 as c_char; 16384], 0);
    if write(text.as_mut_ptr(), &mut length) != 0 {
        return String::new();
    }
    *text.last_mut().expect("it has bytes") = 0;
    // SAFETY: it ends with a zero.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().trim().to_owned()
}

/// The file that has this address.
fn file_of(address: *const c_void) -> Option<PathBuf> {
    // SAFETY: zeros are valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: a question for any address; the name it gives lives as long as the library, which is for ever.
    unsafe {
        if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(PathBuf::from(CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned()))
    }
}
