//! The functions of an MPI library by name, whatever its handles are: numbers, or addresses.

use crate::MpiError;
use libloading::os::unix::{Library as Opened, Symbol};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

/// Memory for a status of any family.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Status(pub(crate) [c_int; 16]);

/// A handle of the families that have addresses.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Address(pub(crate) *mut c_void);

// SAFETY: a name of what the library has, which is used by threads as the library allows.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// A send or a receive that was begun. Its memory stays until a test has said that it is complete.
pub(crate) struct Request(pub(crate) *mut c_void);

// SAFETY: as of an address.
unsafe impl Send for Request {}

/// A communicator of the library.
#[derive(Clone, Copy)]
pub(crate) struct Comm(*mut c_void);

// SAFETY: as of an address.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

/// What a handle is kept as.
pub(crate) trait Handle: Copy + Send + Sync + 'static {
    fn keep(self) -> *mut c_void;
    fn of(kept: *mut c_void) -> Self;
}

impl Handle for Address {
    fn keep(self) -> *mut c_void {
        self.0
    }

    fn of(kept: *mut c_void) -> Address {
        Address(kept)
    }
}

impl Handle for c_int {
    fn keep(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self as u32 as usize)
    }

    fn of(kept: *mut c_void) -> c_int {
        kept.addr() as u32 as c_int
    }
}

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        /// Functions of a library whose handles are `H`, and the handles that are used.
        pub(crate) struct Table<H> {
            world: H,
            byte: H,
            errors_return: H,
            none: H,
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl<H: Handle> Table<H> {
            pub(crate) fn load(library: &Opened, path: &Path, handles: [H; 4]) -> Result<Table<H>, MpiError> {
                let [world, byte, errors_return, none] = handles;
                Ok(Table {
                    world,
                    byte,
                    errors_return,
                    none,
                    $($field: {
                        let found: Result<Symbol<unsafe extern "C" fn($($argument),*) -> c_int>, _> =
                            // SAFETY: the function of this name has this type, in every family whose handles
                            // are of this one.
                            unsafe { library.get(concat!($name, "\0").as_bytes()) };
                        *found.map_err(|_| MpiError::new(format!(
                            "{}: expected a library of MPI, found no function {}", path.display(), $name
                        )))?
                    },)*
                })
            }
        }
    };
}

functions! {
    init_thread = "MPI_Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    initialized = "MPI_Initialized" (*mut c_int);
    finalized = "MPI_Finalized" (*mut c_int);
    query_thread = "MPI_Query_thread" (*mut c_int);
    is_thread_main = "MPI_Is_thread_main" (*mut c_int);
    finalize = "MPI_Finalize" ();
    version = "MPI_Get_library_version" (*mut c_char, *mut c_int);
    error_string = "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    error_class = "MPI_Error_class" (c_int, *mut c_int);
    comm_dup = "MPI_Comm_dup" (H, *mut H);
    comm_rank = "MPI_Comm_rank" (H, *mut c_int);
    comm_size = "MPI_Comm_size" (H, *mut c_int);
    set_errhandler = "MPI_Comm_set_errhandler" (H, H);
    type_size = "MPI_Type_size" (H, *mut c_int);
    isend = "MPI_Isend" (*const c_void, c_int, H, c_int, c_int, H, *mut H);
    irecv = "MPI_Irecv" (*mut c_void, c_int, H, c_int, c_int, H, *mut H);
    test = "MPI_Test" (*mut H, *mut c_int, *mut Status);
    iprobe = "MPI_Iprobe" (c_int, c_int, H, *mut c_int, *mut Status);
    get_count = "MPI_Get_count" (*const Status, H, *mut c_int);
    ibarrier = "MPI_Ibarrier" (H, *mut H);
    ibcast = "MPI_Ibcast" (*mut c_void, c_int, H, c_int, H, *mut H);
    igather = "MPI_Igather" (*const c_void, c_int, H, *mut c_void, c_int, H, c_int, H, *mut H);
    iscatter = "MPI_Iscatter" (*const c_void, c_int, H, *mut c_void, c_int, H, c_int, H, *mut H);
}

/// The functions, whatever the handles are. Each returns the library's code, 0 for success.
///
/// Where a message goes, or comes from, is a communicator, a rank there, and a tag.
///
/// # Safety
/// Memory that is given lives as the function of MPI demands.
pub(crate) trait Functions: Send + Sync {
    unsafe fn init(&self, threads: c_int, given: &mut c_int) -> c_int;
    unsafe fn initialized(&self, is: &mut c_int) -> c_int;
    unsafe fn finalized(&self, is: &mut c_int) -> c_int;
    unsafe fn query_thread(&self, level: &mut c_int) -> c_int;
    unsafe fn is_thread_main(&self, is: &mut c_int) -> c_int;
    unsafe fn finalize(&self) -> c_int;
    unsafe fn version(&self, text: *mut c_char, length: &mut c_int) -> c_int;
    unsafe fn error_string(&self, code: c_int, text: *mut c_char, length: &mut c_int) -> c_int;
    unsafe fn error_class(&self, code: c_int, class: &mut c_int) -> c_int;
    fn world(&self) -> Comm;
    unsafe fn duplicate(&self, at: &mut Comm) -> c_int;
    unsafe fn return_errors(&self, on: Comm) -> c_int;
    unsafe fn rank_and_size(&self, rank: &mut c_int, size: &mut c_int) -> c_int;
    unsafe fn size_of_byte(&self, size: &mut c_int) -> c_int;
    unsafe fn isend(&self, from: (*const u8, c_int), to: (Comm, c_int, c_int), at: &mut Request) -> c_int;
    unsafe fn irecv(&self, into: (*mut u8, c_int), from: (Comm, c_int, c_int), at: &mut Request) -> c_int;
    unsafe fn test(&self, at: &mut Request, done: &mut c_int, status: &mut Status) -> c_int;
    unsafe fn iprobe(&self, from: (Comm, c_int, c_int), found: &mut c_int, status: &mut Status) -> c_int;
    unsafe fn bytes(&self, status: &Status, bytes: &mut c_int) -> c_int;
    unsafe fn collective(&self, what: Collective, on: Comm, at: &mut Request) -> c_int;
}

/// What all processes of a communicator do together, with as many bytes of each.
#[derive(Clone, Copy)]
pub(crate) enum Collective {
    /// They wait for each other.
    Barrier,
    /// The root's bytes go to all.
    Broadcast { data: *mut u8, bytes: c_int, root: c_int },
    /// The root gets the bytes of all, in the order of their ranks.
    Gather { from: *const u8, bytes: c_int, into: *mut u8, root: c_int },
    /// Each gets its part of the root's bytes.
    Scatter { from: *const u8, into: *mut u8, bytes: c_int, root: c_int },
}

impl<H: Handle> Functions for Table<H> {
    unsafe fn init(&self, threads: c_int, given: &mut c_int) -> c_int {
        // SAFETY: a library need not be given the program's arguments.
        unsafe { (self.init_thread)(std::ptr::null_mut(), std::ptr::null_mut(), threads, given) }
    }

    unsafe fn initialized(&self, is: &mut c_int) -> c_int {
        // SAFETY: our own variable.
        unsafe { (self.initialized)(is) }
    }

    unsafe fn finalized(&self, is: &mut c_int) -> c_int {
        // SAFETY: our own variable.
        unsafe { (self.finalized)(is) }
    }

    unsafe fn query_thread(&self, level: &mut c_int) -> c_int {
        // SAFETY: our own variable.
        unsafe { (self.query_thread)(level) }
    }

    unsafe fn is_thread_main(&self, is: &mut c_int) -> c_int {
        // SAFETY: our own variable.
        unsafe { (self.is_thread_main)(is) }
    }

    unsafe fn finalize(&self) -> c_int {
        // SAFETY: the caller's.
        unsafe { (self.finalize)() }
    }

    unsafe fn version(&self, text: *mut c_char, length: &mut c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { (self.version)(text, length) }
    }

    unsafe fn error_string(&self, code: c_int, text: *mut c_char, length: &mut c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { (self.error_string)(code, text, length) }
    }

    unsafe fn error_class(&self, code: c_int, class: &mut c_int) -> c_int {
        // SAFETY: our own variable.
        unsafe { (self.error_class)(code, class) }
    }

    fn world(&self) -> Comm {
        Comm(self.world.keep())
    }

    unsafe fn duplicate(&self, at: &mut Comm) -> c_int {
        let mut handle = self.world;
        // SAFETY: a handle of the library, and our own variable.
        let code = unsafe { (self.comm_dup)(self.world, &mut handle) };
        *at = Comm(handle.keep());
        code
    }

    unsafe fn return_errors(&self, on: Comm) -> c_int {
        // SAFETY: handles of the library.
        unsafe { (self.set_errhandler)(H::of(on.0), self.errors_return) }
    }

    unsafe fn rank_and_size(&self, rank: &mut c_int, size: &mut c_int) -> c_int {
        // SAFETY: a handle of the library, and our own variables.
        unsafe {
            match (self.comm_rank)(self.world, rank) {
                0 => (self.comm_size)(self.world, size),
                code => code,
            }
        }
    }

    unsafe fn size_of_byte(&self, size: &mut c_int) -> c_int {
        // SAFETY: a handle of the library, and our own variable.
        unsafe { (self.type_size)(self.byte, size) }
    }

    unsafe fn isend(&self, from: (*const u8, c_int), to: (Comm, c_int, c_int), at: &mut Request) -> c_int {
        let ((data, bytes), (on, to, tag), mut handle) = (from, to, self.none);
        // SAFETY: the caller's memory, handles of the library.
        let code = unsafe { (self.isend)(data.cast(), bytes, self.byte, to, tag, H::of(on.0), &mut handle) };
        at.0 = handle.keep();
        code
    }

    unsafe fn irecv(&self, into: (*mut u8, c_int), from: (Comm, c_int, c_int), at: &mut Request) -> c_int {
        let ((data, bytes), (on, from, tag), mut handle) = (into, from, self.none);
        // SAFETY: the caller's memory, handles of the library.
        let code =
            unsafe { (self.irecv)(data.cast(), bytes, self.byte, from, tag, H::of(on.0), &mut handle) };
        at.0 = handle.keep();
        code
    }

    unsafe fn test(&self, at: &mut Request, done: &mut c_int, status: &mut Status) -> c_int {
        let mut handle = H::of(at.0);
        // SAFETY: a request of the library, and our own variables.
        let code = unsafe { (self.test)(&mut handle, done, status) };
        at.0 = handle.keep();
        code
    }

    unsafe fn iprobe(&self, from: (Comm, c_int, c_int), found: &mut c_int, status: &mut Status) -> c_int {
        let (on, from, tag) = from;
        // SAFETY: a handle of the library, and our own variables.
        unsafe { (self.iprobe)(from, tag, H::of(on.0), found, status) }
    }

    unsafe fn bytes(&self, status: &Status, bytes: &mut c_int) -> c_int {
        // SAFETY: a status of the library, and our own variable.
        unsafe { (self.get_count)(status, self.byte, bytes) }
    }

    unsafe fn collective(&self, what: Collective, on: Comm, at: &mut Request) -> c_int {
        let (on, byte, mut handle) = (H::of(on.0), self.byte, self.none);
        // SAFETY: the caller's memory, handles of the library.
        let code = unsafe {
            match what {
                Collective::Barrier => (self.ibarrier)(on, &mut handle),
                Collective::Broadcast { data, bytes, root } => {
                    (self.ibcast)(data.cast(), bytes, byte, root, on, &mut handle)
                }
                Collective::Gather { from, bytes, into, root } => {
                    (self.igather)(from.cast(), bytes, byte, into.cast(), bytes, byte, root, on, &mut handle)
                }
                Collective::Scatter { from, into, bytes, root } => {
                    (self.iscatter)(from.cast(), bytes, byte, into.cast(), bytes, byte, root, on, &mut handle)
                }
            }
        };
        at.0 = handle.keep();
        code
    }
}
