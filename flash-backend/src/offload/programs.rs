//! The programs of a device: from source, from the cache on disk, from a binary.

use super::{Driver, Function, GroupLimits, KernelSpec, Payload, ProgramCache};
use crate::failure::Failure;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The programs of a device, which kernels share: an image of a device may have all of them, and take seconds
/// to load.
///
/// - A program is found by all that it depends on: versions, options, and its text or its bytes.
/// - Of two threads that want one program the second finds it: the lock is held while a program is made.
/// - Those that no kernel has any more are dropped, the least recently used first, when there are more than
///   [`UNUSED_PROGRAMS`](Driver::UNUSED_PROGRAMS).
/// - Compiled ones are kept on disk, where their text determines them.
pub struct Programs<D: Driver> {
    cache: ProgramCache,
    loaded: Mutex<Loaded<D::Program>>,
}

struct Loaded<P> {
    programs: HashMap<Key, Entry<P>>,
    /// Number of uses so far.
    uses: u64,
}

struct Entry<P> {
    program: Arc<P>,
    /// Number of its latest use by a kernel; 0: it waits for its first kernel.
    used: u64,
}

/// All that a program depends on.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    /// Versions of everything that compiles it, options, entry, parameters, and the whole text.
    Source(String),
    /// The options, and the program.
    Binary(String, Vec<u8>),
}

/// A program, and the kernel's function if that was made.
type Made<D> = (Arc<<D as Driver>::Program>, Option<(<D as Driver>::Function, GroupLimits)>);

impl<D: Driver> Programs<D> {
    /// None yet; `cache`: of those on disk.
    pub fn new(cache: ProgramCache) -> Programs<D> {
        Programs { cache, loaded: Mutex::new(Loaded { programs: HashMap::new(), uses: 0 }) }
    }

    /// The function of a kernel.
    pub(super) fn function(
        &self,
        driver: &D,
        spec: &KernelSpec,
        payload: Payload,
    ) -> Result<Function<D>, Failure> {
        let program = self.load(driver, spec, payload, true)?;
        let (program, made) = program.unwrap_or_else(|| unreachable!("what is not there is compiled"));
        let (function, group) = made.map_or_else(|| driver.function(spec, &program), Ok)?;
        let limits = driver.limits();
        // Some drivers end the process in a launch that has more than there is.
        spec.check_local_bytes(group.bytes, 0, limits.group_bytes, limits.device)?;
        Ok(Function { driver: function, limits: group, program, written: Mutex::default() })
    }

    /// Loads a program, if that needs no compiler.
    pub(super) fn preload(&self, driver: &D, spec: &KernelSpec, payload: Payload) -> Result<(), Failure> {
        self.load(driver, spec, payload, false).map(|_| ())
    }

    /// A program that is loaded, is a binary or is on disk; any other is compiled, or `None`. With the
    /// kernel's function, if it had to be made.
    fn load(
        &self,
        driver: &D,
        spec: &KernelSpec,
        payload: Payload,
        compile: bool,
    ) -> Result<Option<Made<D>>, Failure> {
        let (key, source) = match payload {
            Payload::Binary(bytes) => (Key::Binary(spec.build_options.clone(), bytes), String::new()),
            // The key would miss a change of a file that the compiler looks for.
            Payload::Source(text) if KernelSpec::includes(&text) => {
                let build = || driver.compile(spec, &spec.source(&text));
                return compile.then(|| build().map(|(program, _)| (Arc::new(program), None))).transpose();
            }
            Payload::Source(text) => {
                let source = spec.source(&text);
                let (versions, parameters) = (driver.version(), spec.expected_parameters());
                let KernelSpec { build_options, entry, .. } = spec;
                (Key::Source([&versions, build_options, entry, &parameters, &*source].join("\n")), source)
            }
        };
        let mut loaded = self.loaded.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(program) = loaded.get(&key, compile) {
            return Ok(Some((program, None)));
        }
        let (program, made) = match &key {
            // A binary is not compiled, and not kept for others.
            Key::Binary(_, bytes) => {
                let refused = |failure: Failure| {
                    let (title, count) = (&spec.title, bytes.len());
                    let (device, kinds) = (driver.limits().device, D::BINARIES.join(", ."));
                    let text = format!(
                        "{title}: expected a program for {device} (.{kinds}), found {count} bytes that it does not take: {}",
                        failure.text
                    );
                    Failure::new(failure.code, text)
                };
                (driver.load_binary(spec, bytes).map_err(refused)?, None)
            }
            Key::Source(key) => match self.of_disk(driver, spec, key) {
                Some(program) => (program, None),
                None if !compile => return Ok(None),
                None => {
                    let (program, kept) = driver.compile(spec, &source)?;
                    // What is kept is right: some drivers do not tell of the parameters of a binary.
                    let function = driver.function(spec, &program)?;
                    if !kept.is_empty() {
                        self.cache.keep(key, &kept);
                    }
                    (program, Some(function))
                }
            },
        };
        Ok(Some((loaded.insert(key, program, compile, D::UNUSED_PROGRAMS), made)))
    }

    /// A program that an earlier process kept.
    fn of_disk(&self, driver: &D, spec: &KernelSpec, key: &str) -> Option<D::Program> {
        let program = driver.load(spec, &self.cache.get(key)?);
        if program.is_err() {
            // It is intact, but this driver does not take it: it is compiled anew.
            self.cache.forget(key);
        }
        program.ok()
    }
}

impl<P> Loaded<P> {
    /// A program; `used`: for a kernel.
    fn get(&mut self, key: &Key, used: bool) -> Option<Arc<P>> {
        let entry = self.programs.get_mut(key)?;
        if used {
            self.uses += 1;
            entry.used = self.uses;
        }
        Some(entry.program.clone())
    }

    /// Adds a program, and drops those that are too many.
    fn insert(&mut self, key: Key, program: P, used: bool, most: usize) -> Arc<P> {
        self.uses += u64::from(used);
        let program = Arc::new(program);
        let entry = Entry { program: program.clone(), used: if used { self.uses } else { 0 } };
        self.programs.insert(key, entry);
        // A program that only this table has cannot be had by anything else while the lock is held.
        let unused = |entry: &Entry<P>| entry.used > 0 && Arc::strong_count(&entry.program) == 1;
        let mut uses: Vec<u64> = self.programs.values().filter(|e| unused(e)).map(|e| e.used).collect();
        if let Some(oldest) = uses.len().checked_sub(most.saturating_add(1)) {
            let last = *uses.select_nth_unstable(oldest).1;
            self.programs.retain(|_, entry| !unused(entry) || entry.used > last);
        }
        program
    }
}
