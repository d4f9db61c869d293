//! The attributes of an implementation in a kernel language, and the text before its source.
//!
//! Order: [`KernelSpec::read`] takes the attributes and refuses those that exclude each other;
//! `with_checks` says whether indices are checked; [`KernelSpec::payload`] reads the code and sets what
//! depends on it; `limit_grid` compares the parameters with the device's limit. Then the spec stays as it
//! is. [`KernelSpec::source`] gives the text that is compiled, and [`KernelSpec::for_simple`] a clone with
//! one more macro, for simple launches.
//!
//! What a text uses is found by looking for words. One that may include files or paste names is taken to
//! use details of arrays and its threads: it gets a table and no `FLASH_GRID`. Attributes that are unknown
//! here pass: they are for the choice of an implementation. Nothing here calls a driver or takes a lock.

use super::DEVICE_HEADER;
use super::facts::Fact;
use super::include::{with_includes, without_mark};
use crate::failure::Failure;
use flash_types::Code;
use flash_types::abi::{Implementation, KIND_EXT_BIN, KIND_EXT_SRC, KIND_INT_BIN, KIND_INT_SRC};
use flash_types::descriptor::{ArgumentDescriptor, KernelDescriptor, View};
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An implementation in a kernel language.
#[derive(Clone, Debug)]
pub struct KernelSpec {
    /// Name of the kernel, and of the implementation, for messages.
    pub title: String,
    /// The kernel's definition.
    pub descriptor: KernelDescriptor,
    /// Attribute `entry`: name of the kernel in its program. Default: the last part of the kernel's name.
    pub entry: String,
    /// Attribute `cooperating`: it takes `FLASH_ARGS`.
    pub cooperating: bool,
    /// Attribute `single_work_item`: its loop over work items is inside.
    pub single_work_item: bool,
    /// Attribute `grid_barrier`: several phases are one launch, with `FLASH_FOR_PHASES` in the text. Backends
    /// without such launches may ignore it: the text works for launches of single phases, too.
    pub grid_barrier: bool,
    /// Attribute `bounds_checked`: it does not cooperate, and checks itself whether its thread is inside the
    /// index space, which work-groups may then exceed.
    pub bounds_checked: bool,
    /// Attribute `threads_per_item`: threads that share a work item, next to each other.
    pub threads_per_item: u64,
    /// Attribute `items_per_thread`: a thread has a run of work items, a multiple of this many; for a kernel
    /// with accumulators, those of a block.
    pub items_per_thread: Option<u64>,
    /// Attribute `work_group_size`.
    pub work_group_size: Option<u64>,
    /// Attribute `index32`, or its text uses `FLASH_INDEX32`: only launches whose indices have 32 bits.
    pub index32: bool,
    /// Whether its table begins with details of arrays. It does not, if its text uses none.
    pub details: bool,
    /// Whether a launch may have threads in as many dimensions as its items: `FLASH_GRID`.
    pub grid: bool,
    /// Whether it gets strides: the program with `FLASH_GRID`.
    pub(super) strides: bool,
    /// Whether its text uses the boxes of its arrays, which the program with `FLASH_GRID` then gets, too.
    pub(super) boxes: bool,
    /// Whether it is for launches that are [`simple`](super::LaunchWords::simple).
    pub(super) simple: bool,
    /// Attribute `facts`: what holds in those, and lets the text leave checks out.
    pub(super) facts: Vec<Fact>,
    /// Whether `FLASH_AT` checks its index: `with_checks`.
    pub check_bounds: bool,
    /// The setting `check_bounds`.
    pub check_all: bool,
    /// Attribute `checked`: it is always so. Its text may note faults of its own, and its table has the
    /// strides of the arrays' axes.
    pub checked: bool,
    /// Its text has loops whose end may depend on what is in arrays.
    pub(super) loops: bool,
    /// Attribute `messages`: what the faults of its own say, by their numbers.
    pub(super) messages: Vec<String>,
    /// Attribute `build_options`, for the compiler.
    pub build_options: String,
    /// Attribute `requires`: extensions of the device.
    pub requires: Vec<String>,
    /// Attribute `defines`: macros and their text.
    defines: Vec<(String, String)>,
    /// Attribute `file`, or the path of the source: its name in the compiler's messages.
    pub file: String,
}

/// A parameter of a kernel function, by the number of the argument that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A value.
    Value(usize),
    /// A pointer to the beginning of a buffer.
    Array(usize),
    /// A pointer to the beginning of a phased argument's second buffer.
    Next(usize),
}

/// The code of an implementation.
#[derive(Debug)]
pub enum Payload {
    /// Text to be compiled.
    Source(String),
    /// A program for the device.
    Binary(Vec<u8>),
}

impl KernelSpec {
    /// Reads the attributes of an implementation.
    ///
    /// # Errors
    /// [`Code::Invalid`] if it has no descriptor, or an attribute of another type than it should have.
    pub fn read(implementation: &Implementation) -> Result<KernelSpec, Failure> {
        // SAFETY: strings and attributes of implementations live for ever.
        let (kernel, name, descriptor, attributes) = unsafe {
            let attributes = (0..implementation.attribute_count)
                .map(|i| &*implementation.attributes.add(i))
                .map(|attribute| (attribute.key.text(), attribute.value.text()));
            let attributes: Vec<(String, String)> = attributes.collect();
            (
                implementation.kernel.text(),
                implementation.name.text(),
                implementation.descriptor.text(),
                attributes,
            )
        };
        let title = format!("`{kernel}`, implementation `{name}`");
        let descriptor = KernelDescriptor::from_json(&descriptor).map_err(|why| {
            Failure::new(
                Code::Invalid,
                format!("{title}: expected the definition's descriptor as JSON, found {descriptor:?}: {why}"),
            )
        })?;
        let mut spec = KernelSpec {
            entry: kernel.rsplit('.').next().unwrap_or(&kernel).to_owned(),
            cooperating: false,
            single_work_item: false,
            grid_barrier: false,
            bounds_checked: false,
            threads_per_item: 1,
            items_per_thread: None,
            work_group_size: None,
            index32: false,
            details: true,
            grid: false,
            strides: false,
            check_bounds: false,
            check_all: false,
            checked: false,
            boxes: false,
            simple: false,
            facts: Vec::new(),
            loops: false,
            messages: Vec::new(),
            build_options: String::new(),
            requires: Vec::new(),
            defines: Vec::new(),
            file: format!("{kernel}/{name}"),
            title,
            descriptor,
        };
        for (key, value) in &attributes {
            spec.take(key, value)?;
        }
        spec.check_threads_per_item()?;
        spec.check_items_per_thread()?;
        spec.check_grid_barrier()?;
        Ok(spec)
    }

    /// Several threads can share a work item only where the backend chooses the threads.
    fn check_threads_per_item(&self) -> Result<(), Failure> {
        let found = match self.threads_per_item {
            1 => return Ok(()),
            _ if !self.cooperating => "one without `cooperating`",
            _ if self.single_work_item => "one with `single_work_item`",
            _ if self.accumulates() => "one with an accumulator",
            _ => return Ok(()),
        };
        Err(Failure::new(
            Code::Invalid,
            format!(
                "{}: attribute `threads_per_item`: expected a cooperating kernel, found {found}: remove it",
                self.title
            ),
        ))
    }

    /// The same for a thread with several work items. A block of accumulators belongs to one thread.
    fn check_items_per_thread(&self) -> Result<(), Failure> {
        let found = match self.items_per_thread {
            None => return Ok(()),
            _ if !self.cooperating => "one without `cooperating`",
            _ if self.single_work_item => "one with `single_work_item`",
            _ if self.grid_barrier => "one with `grid_barrier`",
            _ if self.threads_per_item > 1 => "one with `threads_per_item`",
            _ if self.accumulates() && self.work_group_size.is_some_and(|size| size > 1) => {
                "one with an accumulator, and work-groups of several threads"
            }
            _ => return Ok(()),
        };
        Err(Failure::new(
            Code::Invalid,
            format!(
                "{}: attribute `items_per_thread`: expected a cooperating kernel whose threads have work items of their own, found {found}: remove it",
                self.title
            ),
        ))
    }

    /// Between phases of one launch only the kernel runs: accumulators cannot be merged, nor buffers
    /// exchanged.
    fn check_grid_barrier(&self) -> Result<(), Failure> {
        let two_buffers = self.parameters().iter().any(|p| matches!(p, Parameter::Next(_)));
        let found = match (self.accumulates(), two_buffers) {
            _ if !self.grid_barrier => return Ok(()),
            _ if !self.cooperating => "one without `cooperating`",
            _ if self.single_work_item => "one with `single_work_item`",
            (true, _) => "one with an accumulator",
            (_, true) => "one with a phased argument of two buffers",
            _ => return Ok(()),
        };
        Err(Failure::new(
            Code::Invalid,
            format!(
                "{}: attribute `grid_barrier`: expected a cooperating kernel with one buffer per argument, found {found}: remove it, so that each phase is a launch",
                self.title
            ),
        ))
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        let title = &self.title;
        let expected = |what: &str| {
            Failure::new(Code::Invalid, format!("{title}: attribute `{key}`: expected {what}, found {value}"))
        };
        let json: Value = serde_json::from_str(value).map_err(|_| expected("JSON"))?;
        let text = || json.as_str().map(str::to_owned).ok_or_else(|| expected("a text"));
        let flag = || json.as_bool().ok_or_else(|| expected("true or false"));
        let number = || json.as_u64().filter(|&n| n > 0).ok_or_else(|| expected("a number from 1"));
        match key {
            "entry" => self.entry = text()?,
            "file" => self.file = text()?,
            "build_options" => self.build_options = text()?,
            "requires" => self.requires = text()?.split_whitespace().map(str::to_owned).collect(),
            "cooperating" => self.cooperating = flag()?,
            "single_work_item" => self.single_work_item = flag()?,
            "grid_barrier" => self.grid_barrier = flag()?,
            "bounds_checked" => self.bounds_checked = flag()?,
            "index32" => self.index32 = flag()?,
            "checked" => self.checked = flag()?,
            "messages" => {
                let texts = json.as_array().ok_or_else(|| expected("a list of texts"))?;
                self.messages = texts.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect();
            }
            "facts" => {
                let lines = json.as_array().ok_or_else(|| expected("a list of facts"))?;
                let (arguments, dimensions) = (&self.descriptor.arguments, self.descriptor.dimensions.len());
                let read = |line: &Value| Fact::read(line.as_str()?, arguments, dimensions);
                let facts: Option<Vec<Fact>> = lines.iter().map(read).collect();
                self.facts = facts.ok_or_else(|| expected("facts of the definition's arguments"))?;
            }
            "work_group_size" => self.work_group_size = Some(number()?),
            "threads_per_item" => self.threads_per_item = number()?,
            "items_per_thread" => self.items_per_thread = Some(number()?),
            "defines" => {
                let wanted = "an object of macros and their texts";
                for (name, text) in json.as_object().ok_or_else(|| expected(wanted))? {
                    let text = text.as_str().ok_or_else(|| expected(wanted))?;
                    self.defines.push((name.clone(), text.to_owned()));
                }
            }
            // For the choice of an implementation, or for others.
            _ => {}
        }
        Ok(())
    }

    /// The file of an implementation's code, whose ending, in small letters, is one of `known`; `None`: it is
    /// in no file.
    ///
    /// # Errors
    /// [`Code::Unsupported`] for another ending: the file is for another kind of device.
    pub(super) fn file_of(
        &self,
        implementation: &Implementation,
        known: &[&str],
    ) -> Result<Option<(PathBuf, String)>, Failure> {
        if !matches!(implementation.kind, KIND_EXT_SRC | KIND_EXT_BIN) {
            return Ok(None);
        }
        let path = match implementation.payload.is_null() {
            true => PathBuf::new(),
            // SAFETY: not NULL, and the payload has that many bytes, which live for ever.
            false => PathBuf::from(OsStr::from_bytes(unsafe {
                std::slice::from_raw_parts(implementation.payload, implementation.payload_len)
            })),
        };
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        if let Some(ending) = ending.filter(|ending| known.contains(&ending.as_str())) {
            return Ok(Some((path, ending)));
        }
        let known: Vec<String> = known.iter().map(|ending| format!(".{ending}")).collect();
        let (title, known) = (&self.title, known.join(", "));
        let text = format!("{title}: expected a file that ends with one of {known}, found {path:?}");
        Err(Failure::new(Code::Unsupported, text))
    }

    /// The implementation's code; files are read, and what a source includes from beside it is in its text.
    ///
    /// # Errors
    /// [`Code::Invalid`] if there is none, the file cannot be read, or a source is empty, is no UTF-8, or
    /// includes itself.
    pub fn payload(&mut self, implementation: &Implementation) -> Result<Payload, Failure> {
        let fail = |text: String| Err(Failure::new(Code::Invalid, format!("{}: {text}", self.title)));
        if implementation.payload.is_null() || implementation.payload_len == 0 {
            return fail("expected a source, a binary or a path, found an empty payload".into());
        }
        // SAFETY: not NULL, and the payload has that many bytes, which live for ever.
        let bytes = unsafe { std::slice::from_raw_parts(implementation.payload, implementation.payload_len) };
        let mut beside = None;
        let bytes = match implementation.kind {
            KIND_INT_SRC | KIND_INT_BIN => bytes.to_vec(),
            KIND_EXT_SRC | KIND_EXT_BIN => {
                let path = PathBuf::from(OsStr::from_bytes(bytes));
                match std::fs::read(&path) {
                    Ok(bytes) => {
                        self.file = path.display().to_string();
                        beside = Some(path);
                        bytes
                    }
                    Err(why) => return fail(format!("expected a readable file {path:?}, found: {why}")),
                }
            }
            other => return fail(format!("expected a kind from 1 to 4, found {other}")),
        };
        if matches!(implementation.kind, KIND_INT_BIN | KIND_EXT_BIN) {
            // It was compiled without.
            self.check_bounds = false;
            return Ok(Payload::Binary(bytes));
        }
        let mut text = match std::str::from_utf8(&bytes) {
            Ok(text) => without_mark(text).to_owned(),
            Err(why) => return fail(format!("expected a source in UTF-8, found: {why}")),
        };
        let name = beside.as_ref().map(|path| format!(" in the file {path:?}")).unwrap_or_default();
        if text.trim().is_empty() {
            return fail(format!("expected a source, found an empty text{name}"));
        }
        if let Some(path) = &beside {
            let folder = folder_of(path);
            match with_includes(path, &text, folder.is_none()) {
                Ok(whole) => text = whole,
                Err(why) => return fail(format!("source{name}: {why}")),
            }
            if let Some(folder) = folder {
                // For files that are included by a name in angle brackets, or by a macro.
                let _ = write!(self.build_options, " -I {folder}");
            }
        }
        self.index32 |= text.contains("FLASH_INDEX32");
        self.details = self.check_bounds || self.asks_for_details(&text);
        self.grid = self.takes_grid(&text);
        self.boxes = BOX_MACROS.iter().any(|word| text.contains(word));
        self.loops = ["while", "for ("].iter().any(|word| text.contains(word));
        Ok(Payload::Source(text))
    }

    /// Whether a text may read the table's details of arrays. It may, if the preprocessor could build a name
    /// of them, or it includes files.
    fn asks_for_details(&self, text: &str) -> bool {
        let asks = |text: &str| {
            let words = ["FLASH_DETAIL", "flash_own_index_of", "flash_table", "##"];
            DETAIL_MACROS.iter().chain(&words).any(|word| text.contains(word))
        };
        let mut defines = self.defines.iter().map(|(_, text)| text);
        asks(text) || Self::includes(text) || asks(&self.build_options) || defines.any(|text| asks(text))
    }

    /// The same for launches of a box only, if it has [`grid`](Self::grid).
    pub fn for_grid(&self) -> Option<KernelSpec> {
        let boxes = || if self.boxes { self.with("FLASH_BOXES") } else { self.clone() };
        self.grid.then(|| KernelSpec { strides: true, ..boxes().with("FLASH_GRID") })
    }

    /// The same for simple launches only, as most are: [`simple`](super::LaunchWords::simple) ones, of a box,
    /// if it has [`grid`](Self::grid), otherwise, if `consecutive`, those that are
    /// [`consecutive`](super::LaunchWords::consecutive). `None`: there is none.
    pub fn for_simple(&self, consecutive: bool) -> Option<KernelSpec> {
        let consecutive = || (self.cooperating && consecutive).then(|| self.with("FLASH_CONSECUTIVE"));
        let spec = self.for_grid().or_else(consecutive)?;
        let spec = if spec.facts.is_empty() { spec } else { spec.with("FLASH_SURE") };
        Some(KernelSpec { simple: true, ..spec })
    }

    /// The elements of an array between neighbours along dimension 0, if that is the way of its view: one, or
    /// none, where the dimension does not index it.
    pub(super) fn unit(&self, argument: usize) -> Option<u64> {
        let ArgumentDescriptor { view, row, tile, along, .. } = &self.descriptor.arguments[argument];
        if !matches!(view, View::Item | View::Phased) {
            return None;
        }
        match along.iter().position(|dimension| *dimension == 0) {
            None => Some(0),
            Some(0) if !row && tile.is_empty() => Some(1),
            Some(_) => None,
        }
    }

    /// True if the index of a work item names an element of the array, or a row.
    pub(super) fn is_indexed(&self, argument: usize) -> bool {
        let ArgumentDescriptor { view, along, .. } = &self.descriptor.arguments[argument];
        matches!(view, View::Item | View::Phased) && !along.is_empty()
    }

    /// The number of such arrays.
    pub(super) fn indexed(&self) -> usize {
        self.arrays().filter(|at| self.is_indexed(*at)).count()
    }

    fn with(&self, define: &str) -> KernelSpec {
        let mut spec = self.clone();
        spec.defines.push((define.into(), "1".into()));
        spec
    }

    /// Whether a text can have threads in several dimensions: neither it nor an attribute depends on their
    /// numbers.
    fn takes_grid(&self, text: &str) -> bool {
        let looks = |text: &str| THREAD_WORDS.iter().flat_map(|words| *words).any(|word| text.contains(word));
        self.cooperating
            && (2..=3).contains(&self.descriptor.dimensions.len())
            && !(self.single_work_item || self.accumulates() || self.grid_barrier)
            && self.work_group_size.is_none()
            && (self.threads_per_item, self.items_per_thread) == (1, None)
            && !(looks(text) || Self::includes(text) || looks(&self.build_options))
            && !self.defines.iter().any(|(_, text)| looks(text))
    }

    /// True if a text includes files, other than `flash_device.h`: the text alone does not determine the
    /// program.
    pub(super) fn includes(text: &str) -> bool {
        text.lines().any(|line| is_include(line) && !line.contains(HEADER_NAME))
    }

    /// Checks that threads that share a work item are in one work-group of a size.
    ///
    /// # Errors
    /// [`Code::Invalid`] if they are not.
    pub(super) fn check_group(&self, size: u64) -> Result<(), Failure> {
        if size.is_multiple_of(self.threads_per_item) {
            return Ok(());
        }
        let text = format!(
            "{}: expected a work-group of a multiple of {} threads, which share a work item, found one of {size}: set work_group_size",
            self.title, self.threads_per_item
        );
        Err(Failure::new(Code::Invalid, text))
    }

    /// The array arguments, by argument number: the order in which kernels number them.
    pub fn arrays(&self) -> impl Iterator<Item = usize> {
        let arguments = self.descriptor.arguments.iter().enumerate();
        arguments.filter(|(_, a)| a.view != View::Scalar).map(|(i, _)| i)
    }

    /// True if it has an accumulator.
    pub fn accumulates(&self) -> bool {
        self.descriptor.arguments.iter().any(|a| a.view == View::Reduce)
    }

    /// The parameters of the kernel function, those of `FLASH_ARGS` left out.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        for (i, argument) in self.descriptor.arguments.iter().enumerate() {
            match argument.view {
                View::Scalar => parameters.push(Parameter::Value(i)),
                View::Phased if argument.stages.is_none() => {
                    parameters.extend([Parameter::Array(i), Parameter::Next(i)]);
                }
                _ => parameters.push(Parameter::Array(i)),
            }
        }
        parameters
    }

    /// Bytes of every parameter of the kernel function, those of `FLASH_ARGS` included.
    pub fn parameter_sizes(&self) -> Vec<usize> {
        let pointer = size_of::<u64>();
        let size = |parameter: &Parameter| match parameter {
            Parameter::Value(argument) => self.descriptor.arguments[*argument].element.size,
            _ => pointer,
        };
        let mut sizes: Vec<usize> = self.parameters().iter().map(size).collect();
        if self.cooperating {
            sizes.extend([self.told_bytes(), pointer]);
        }
        sizes
    }

    /// Checks that a device takes all parameters together: `most` bytes is its limit.
    ///
    /// # Errors
    /// [`Code::Invalid`] if it does not.
    pub(super) fn check_parameter_bytes(&self, most: usize, device: &str) -> Result<(), Failure> {
        let bytes = self.parameter_sizes().iter().sum::<usize>();
        if bytes <= most {
            return Ok(());
        }
        let text = format!(
            "{}: expected parameters of up to {most} bytes, the limit of {device}, found {bytes}: pass large values as an array",
            self.title
        );
        Err(Failure::new(Code::Invalid, text))
    }

    /// Checks that a work-group has room for its local memory: `fixed` bytes of the kernel's own, and those
    /// that the launch adds. `most` is the limit of the device.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if there is more: another implementation may need less.
    pub(super) fn check_local_bytes(
        &self,
        fixed: u64,
        added: u64,
        most: u64,
        device: &str,
    ) -> Result<(), Failure> {
        if fixed.saturating_add(added) <= most {
            return Ok(());
        }
        let text = format!(
            "{}: expected up to {most} bytes of local memory for a work-group, the limit of {device}, found {fixed} of the kernel `{}` and {added} that the launch adds: use less, or smaller work-groups",
            self.title, self.entry
        );
        Err(Failure::new(Code::Unsupported, text))
    }

    /// The error of a kernel function with another number of parameters.
    pub fn wrong_count(&self, found: usize) -> Failure {
        let names: Vec<String> = self.parameters().iter().map(|parameter| self.name_of(parameter)).collect();
        let more = if self.cooperating { ", and FLASH_ARGS, which are two" } else { "" };
        let text = format!(
            "{}: expected a kernel `{}` of {} parameters ({}{more}), found one of {found}",
            self.title,
            self.entry,
            self.parameter_sizes().len(),
            names.join(", ")
        );
        Failure::new(Code::Invalid, text)
    }

    /// The source that is compiled: the definitions of this kernel's macros, `flash_device.h`, and the text.
    pub fn source(&self, text: &str) -> String {
        let mut source = String::new();
        if self.cooperating {
            let arrays: Vec<usize> = self.arrays().collect();
            // Writing to a string does not fail.
            let _ = writeln!(source, "#define FLASH_DIMS {}", self.descriptor.dimensions.len());
            let _ = writeln!(source, "#define FLASH_ARRAYS {}", arrays.len());
            let indexed = self.indexed();
            let _ = writeln!(source, "#define FLASH_INDEXED_ARRAYS {indexed}");
            let mut next = 0;
            for (number, &argument) in arrays.iter().enumerate() {
                let name = &self.descriptor.arguments[argument].name;
                let _ = writeln!(source, "#define FLASH_ARRAY_{name} {number}");
                let is_indexed = self.is_indexed(argument);
                let strides = if is_indexed { next } else { indexed };
                next += usize::from(is_indexed);
                let _ = writeln!(source, "#define FLASH_STRIDES_{name} {strides}");
                let _ = match self.unit(argument).filter(|_| self.simple) {
                    Some(unit) => writeln!(source, "#define FLASH_FIRST_{name} ((flash_u64){unit})"),
                    None => writeln!(source, "#define FLASH_FIRST_{name} FLASH_STRIDE({name}, 0)"),
                };
            }
            if self.check_bounds {
                let _ = writeln!(
                    source,
                    "#define FLASH_CHECK_BOUNDS 1\n#define FLASH_SCRATCH {}",
                    self.scratch_bytes()
                );
                if self.check_all {
                    source.push_str("#define FLASH_CHECK_ALL 1\n");
                }
                for ArgumentDescriptor { name, element, .. } in
                    arrays.iter().map(|&i| &self.descriptor.arguments[i])
                {
                    let _ = writeln!(source, "#define FLASH_BYTES_{name} {}", element.size);
                }
            }
            if self.single_work_item {
                source.push_str("#define FLASH_SINGLE_WORK_ITEM 1\n");
            } else if self.accumulates() {
                source.push_str("#define FLASH_ACCUMULATORS 1\n");
            } else if self.grid_barrier {
                source.push_str("#define FLASH_GRID_BARRIER 1\n");
            }
            let _ = writeln!(source, "#define FLASH_THREADS_PER_ITEM {}", self.threads_per_item);
            if let Some(items) = self.items_per_thread {
                let _ = writeln!(source, "#define FLASH_ITEMS_PER_THREAD {items}");
            }
        }
        let _ = writeln!(source, "#define FLASH_ENTRY_{} 1", identifier(&self.entry));
        for (name, text) in &self.defines {
            let _ = writeln!(source, "#define {name} {text}");
        }
        if self.cooperating {
            let _ = write!(source, "#line 1 \"{HEADER_NAME}\"\n{DEVICE_HEADER}");
            // A text that uses them all the same does not compile: there may be no table to read.
            for name in DETAIL_MACROS.iter().filter(|_| !self.details) {
                let _ = writeln!(source, "#undef {name}");
            }
        }
        let _ = writeln!(source, "#line 1 \"{}\"", shown(Path::new(&self.file)));
        for line in text.lines() {
            // The header is included already.
            if !(is_include(line) && line.contains(HEADER_NAME)) {
                source.push_str(line);
            }
            source.push('\n');
        }
        source
    }
}

/// Macros of `flash_device.h` that use the boxes of arrays.
const BOX_MACROS: [&str; 5] =
    ["FLASH_PART_BEGIN", "FLASH_PART_END", "FLASH_AXIS", "FLASH_WITHIN", "FLASH_SURE_WITHIN"];

/// Macros of `flash_device.h` that read the table's details of arrays.
const DETAIL_MACROS: [&str; 6] = [
    "FLASH_OWN_INDEX",
    "FLASH_ROW_LEN",
    "FLASH_PART_BEGIN",
    "FLASH_PART_END",
    "FLASH_STRIDE",
    "FLASH_REDUCE",
];

/// Words of a text that uses its threads: macros of `flash_device.h`, their definitions, OpenCL C, and CUDA
/// C++.
const THREAD_WORDS: [&[&str]; 4] = [
    &[
        "FLASH_THREAD",
        "FLASH_GLOBAL_ID",
        "FLASH_LOCAL",
        "FLASH_GROUP",
        "FLASH_LANE",
        "FLASH_BARRIER",
        "FLASH_FOR_GROUPS",
    ],
    &["flash_item", "flash_run", "##"],
    &["get_", "barrier", "_group"],
    &[
        "threadIdx",
        "blockIdx",
        "blockDim",
        "gridDim",
        "warpSize",
        "sync",
        "__shared__",
        "__activemask",
        "asm",
    ],
];

pub(super) const HEADER_NAME: &str = "flash_device.h";

/// A path in a `#line`.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string().replace('\\', "/").replace('"', "'").replace(['\n', '\r'], " ")
}

/// The plain name in a C++ name: `scale` of `fast::scale<float>`.
fn identifier(entry: &str) -> &str {
    let name = entry.split('<').next().unwrap_or(entry);
    name.rsplit("::").next().unwrap_or(name).trim()
}

fn is_include(line: &str) -> bool {
    line.trim_start().strip_prefix('#').is_some_and(|rest| rest.trim_start().starts_with("include"))
}

/// The folder of a path, if compilers take it as an option.
fn folder_of(path: &Path) -> Option<String> {
    let folder = std::path::absolute(path).ok()?.parent()?.to_str()?.to_owned();
    (!folder.is_empty() && !folder.contains(|c: char| c.is_whitespace() || c == '"')).then_some(folder)
}
