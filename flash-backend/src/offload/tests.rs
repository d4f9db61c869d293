//! The toolkit with a driver that writes down what it is asked for.

use super::*;
use crate::backend::{Device, DeviceInfo, Launch};
use crate::event::Event;
use crate::failure::Failure;
use flash_types::Code;
use flash_types::abi::{self, Arg, Attr, Implementation, Str, Submission};
use flash_types::descriptor::{Access, ArgumentDescriptor, ElementType, KernelDescriptor, View};
use flash_types::index::{Dim, Group, Order, OrderTraits};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A device whose launches are lines of text. It prefers groups of 16, and of 8 by 4 in boxes.
struct Scribe {
    programs: Programs<Scribe>,
    lines: Mutex<Vec<String>>,
    barriers: bool,
    /// It takes no program from the disk.
    refuses: AtomicBool,
}

impl Scribe {
    fn new() -> Scribe {
        Scribe::with(ProgramCache::new("", 0), false)
    }

    fn with(cache: ProgramCache, barriers: bool) -> Scribe {
        Scribe { programs: Programs::new(cache), lines: Mutex::default(), barriers, refuses: false.into() }
    }

    fn note(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push(line.into());
    }

    /// What happened since the last time.
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

impl Device for Scribe {
    type Kernel = Kernel<Scribe>;

    fn info(&self) -> DeviceInfo {
        DeviceInfo::default()
    }

    fn prepare(&self, implementation: &'static Implementation) -> Result<Kernel<Scribe>, Failure> {
        Kernel::new(self, implementation)
    }

    fn submit(&self, launch: &Launch<'_, Kernel<Scribe>>) -> Result<Option<Event>, Failure> {
        launch.kernel().submit(self, launch)
    }
}

/// A buffer's name, and its first byte.
fn shown(buffer: ArgBuffer<'_>) -> String {
    format!("{}+{}", if buffer.second { "next" } else { "data" }, buffer.begin as i64)
}

impl Driver for Scribe {
    /// What launches it is for.
    type Program = &'static str;
    type Function = &'static str;
    type Table = ();
    type Commands<'d> = Vec<String>;

    const SOURCES: &'static [&'static str] = &["text"];
    const BINARIES: &'static [&'static str] = &["image"];
    const CONSECUTIVE: bool = true;
    const UNUSED_PROGRAMS: usize = 1;
    const ADDS_GROUP_MEMORY: bool = true;
    const GRID_BARRIERS: bool = true;

    fn limits(&self) -> Limits<'_> {
        Limits {
            device: "the scribe",
            space: 1,
            parameter_bytes: 1024,
            group_bytes: 256,
            alignment: 1,
            begins_anywhere: false,
            groups: [1000, 10, 10],
            grid_barriers: self.barriers,
            check_bounds: false,
        }
    }

    fn programs(&self) -> &Programs<Scribe> {
        &self.programs
    }

    fn version(&self) -> String {
        "1".into()
    }

    fn check(&self, _: &KernelSpec, file: Option<(&Path, &str)>) -> Result<(), Failure> {
        file.iter().for_each(|(_, ending)| self.note(format!("a file: {ending}")));
        Ok(())
    }

    fn compile(&self, _: &KernelSpec, source: &str) -> Result<(&'static str, Vec<u8>), Failure> {
        let program = match () {
            () if source.contains("#define FLASH_SURE 1") => "sure boxes",
            () if source.contains("#define FLASH_GRID 1") => "boxes",
            () if source.contains("#define FLASH_CONSECUTIVE 1") => "consecutive",
            () => "any",
        };
        self.note(format!("compile {program}"));
        Ok((program, program.into()))
    }

    fn load(&self, _: &KernelSpec, kept: &[u8]) -> Result<&'static str, Failure> {
        self.note(format!("load {}", String::from_utf8_lossy(kept)));
        if self.refuses.load(Relaxed) { Err(Failure::new(Code::Invalid, "no")) } else { Ok("kept") }
    }

    fn load_binary(&self, _: &KernelSpec, binary: &[u8]) -> Result<&'static str, Failure> {
        self.note(format!("load {} bytes", binary.len()));
        Ok("binary")
    }

    fn function(
        &self,
        _: &KernelSpec,
        program: &&'static str,
    ) -> Result<(&'static str, GroupLimits), Failure> {
        Ok((program, GroupLimits { threads: 64, compiled: None, bytes: 0 }))
    }

    fn group_of_line(&self, _: &Function<Self>, _: u64, _: u64) -> Result<u64, Failure> {
        Ok(16)
    }

    fn group_of_box(&self, _: &Function<Self>, _: [u64; 3]) -> Result<[u64; 3], Failure> {
        Ok([8, 4, 1])
    }

    fn resident_groups(&self, _: &Function<Self>, _: u64, _: u64) -> Result<u64, Failure> {
        Ok(2)
    }

    fn begin(&self, _: bool, _: bool) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }

    fn copy(
        &self,
        from: ArgBuffer<'_>,
        to: ArgBuffer<'_>,
        bytes: usize,
        commands: &mut Vec<String>,
    ) -> Result<(), Failure> {
        commands.push(format!("{bytes} bytes from {} to {}", shown(from), shown(to)));
        Ok(())
    }

    fn call(&self, call: &Call<'_, Self>, _: Option<&()>, commands: &mut Vec<String>) -> Result<(), Failure> {
        let Range { dimensions, groups, group, .. } = call.range;
        let mut line = format!(
            "{}: {:?} groups of {:?}",
            call.function.driver,
            &groups[..dimensions],
            &group.unwrap()[..dimensions]
        );
        for value in call.values() {
            line += &match value {
                Value::Bytes(bytes) => format!(", {bytes:?}"),
                Value::Buffer(buffer) => format!(", {}", shown(buffer)),
            };
        }
        if call.added > 0 {
            line += &format!(", {} bytes more", call.added);
        }
        if let Some(phases) = call.phases {
            assert_eq!(phases.words.len() as u64, phases.count * call.words.len() as u64);
            line += &format!(", {} phases", phases.count);
        }
        commands.push(line);
        Ok(())
    }

    fn table(&self, _: &[u64]) -> Result<(), Failure> {
        Ok(())
    }

    fn free_table(&self, (): ()) {}

    fn read(&self, (): &(), _: usize, _: &mut Vec<String>) -> Result<[u64; FAULT_WORDS], Failure> {
        Ok([0; FAULT_WORDS])
    }

    fn end(&self, commands: Vec<String>) -> Result<Option<Event>, Failure> {
        self.lines.lock().unwrap().extend(commands);
        Ok(None)
    }

    fn abandon(&self, _: Vec<String>) {
        self.note("abandon");
    }
}

/// A kernel with a value and an array, by a text or a file.
struct Given {
    view: View,
    /// The dimensions that index the array.
    along: &'static [usize],
    dimensions: usize,
    attributes: &'static [(&'static str, &'static str)],
    kind: u32,
    payload: String,
}

impl Default for Given {
    fn default() -> Given {
        let attributes = &[("cooperating", "true")][..];
        let (view, kind, payload) = (View::Item, abi::KIND_INT_SRC, "text".into());
        Given { view, along: &[], dimensions: 1, attributes, kind, payload }
    }
}

impl Given {
    /// The implementation. Those of a process live for ever.
    fn leak(self) -> &'static Implementation {
        let text = |text: &str| Str::new(text.to_owned().leak());
        let argument = |name: &str, view| ArgumentDescriptor {
            name: name.into(),
            view,
            access: Access::ReadWrite,
            element: ElementType { name: "u32".into(), size: 4, align: 4, layout: 0 },
            row: false,
            along: if view == View::Scalar { Vec::new() } else { self.along.to_vec() },
            stages: None,
            tile: Vec::new(),
            rows: None,
            structure: false,
            reduce: None,
        };
        let descriptor = KernelDescriptor {
            name: "test.kernel".into(),
            dimensions: ["x", "y", "z", "w"][..self.dimensions].iter().map(|&name| name.into()).collect(),
            arguments: vec![argument("a", View::Scalar), argument("b", self.view)],
            attributes: Default::default(),
        };
        let attribute = |&(key, value): &(&str, &str)| Attr {
            key: text(key),
            value: text(value),
            required: 0,
            reserved: 0,
        };
        let attributes = self.attributes.iter().map(attribute).collect::<Vec<_>>().leak();
        let payload = self.payload.leak();
        Box::leak(Box::new(Implementation {
            struct_size: size_of::<Implementation>() as u32,
            door: abi::DOOR_ITEM,
            kind: self.kind,
            priority: 0,
            kernel: text("test.kernel"),
            name: text("test"),
            target: text("test"),
            descriptor: text(&descriptor.to_json()),
            cpu_features: Str::new(""),
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len(),
            share: None,
            span: None,
            payload: payload.as_ptr(),
            payload_len: payload.len(),
            definition: Str::new(""),
        }))
    }

    fn prepare(self, device: &Scribe) -> Result<Kernel<Scribe>, Failure> {
        device.prepare(self.leak())
    }
}

/// A launch of a kernel, and what it makes the device write.
struct Case<'a> {
    order: Order,
    options: &'a [(&'a str, &'a str)],
    kind: u32,
    flags: u64,
    row_len: u64,
    space: u32,
    /// Elements between neighbours along the dimensions; none: the array is not indexed.
    strides: &'a [u64],
    value: u32,
}

impl Case<'_> {
    fn of(dims: &[u64]) -> Self {
        let dims: Vec<Dim> = dims.iter().map(|&n| n.into()).collect();
        Case::ordered(Order::new(&dims, &OrderTraits::default()).unwrap())
    }

    fn ordered(order: Order) -> Self {
        Case {
            order,
            options: &[],
            kind: abi::ARG_ITEM,
            flags: 0,
            row_len: 1,
            space: 1,
            strides: &[],
            value: 7,
        }
    }

    fn run(&self, device: &Scribe, kernel: &Kernel<Scribe>) -> Result<Vec<String>, Failure> {
        let value = self.value;
        let array = Arg {
            kind: self.kind,
            access: abi::ACCESS_READ_WRITE,
            space: self.space,
            element_size: 4,
            data: null_mut(),
            next: std::ptr::without_provenance_mut(0x2000),
            buffer: 0x1000,
            len: 100,
            row_len: self.row_len,
            flags: self.flags,
            strides: if self.strides.is_empty() { null() } else { self.strides.as_ptr() },
            part: null(),
        };
        let scalar =
            Arg { kind: abi::ARG_SCALAR, data: (&raw const value).cast_mut().cast(), space: 0, ..array };
        let args = [scalar, array];
        let attribute = |&(key, value): &(&str, &str)| Attr {
            key: Str { ptr: key.as_ptr(), len: key.len() },
            value: Str { ptr: value.as_ptr(), len: value.len() },
            required: 1,
            reserved: 0,
        };
        let attributes: Vec<Attr> = self.options.iter().map(attribute).collect();
        let view = self.order.view();
        let raw = Submission {
            struct_size: size_of::<Submission>() as u32,
            flags: 0,
            kernel: null_mut(),
            space: view.get().raw(),
            args: args.as_ptr(),
            arg_count: 2,
            wait_count: 0,
            waits: null(),
            signal: null_mut(),
            nanoseconds: null_mut(),
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len(),
            phase_begin: 0,
            phase_end: self.order.phases(),
            stop: null(),
            like: 0,
        };
        device.lines();
        device.submit(&Launch { raw: &raw, kernel })?;
        Ok(device.lines())
    }
}

/// An order whose second dimension is phases.
fn in_phases(phases: u64) -> Order {
    let traits = OrderTraits { sort: &[], group: Some(Group::Dims(&[1])) };
    Order::new(&[Dim::from(20), Dim::from(phases)], &traits).unwrap()
}

#[test]
fn simple_launches_have_a_program_of_their_own_and_the_other_is_compiled_when_it_is_needed() {
    let device = Scribe::new();
    let line = Given::default().prepare(&device).unwrap();
    assert_eq!(device.lines(), ["compile consecutive"]);
    let run = |case: &Case<'_>| case.run(&device, &line).unwrap();
    assert_eq!(run(&Case::of(&[20])), ["consecutive: [2] groups of [16], [7, 0, 0, 0], data+0"]);
    let steps = Order::new(&[Dim::Range { start: 0, step: 2, count: 20 }], &OrderTraits::default()).unwrap();
    let expected = "any: [2] groups of [16], [7, 0, 0, 0], data+0";
    assert_eq!(run(&Case::ordered(steps.clone())), ["compile any", expected]);
    assert_eq!(run(&Case::ordered(steps)), [expected]);

    let square = Given { dimensions: 2, ..Given::default() }.prepare(&device).unwrap();
    assert_eq!(device.lines(), ["compile boxes"]);
    let run = |case: &Case<'_>| case.run(&device, &square).unwrap();
    assert_eq!(run(&Case::of(&[9, 9])), ["boxes: [2, 3] groups of [8, 4], [7, 0, 0, 0], data+0"]);
    // More groups than the device has along the second dimension.
    let tall = ["compile any", "any: [13] groups of [16], [7, 0, 0, 0], data+0"];
    assert_eq!(run(&Case::of(&[5, 41])), tall);
    // An option asks for groups of one dimension, or of more memory.
    let wanted = Case { options: &[("work_group_size", "8")], ..Case::of(&[9, 9]) };
    assert_eq!(run(&wanted), ["any: [11] groups of [8], [7, 0, 0, 0], data+0"]);
    let more = Case { options: &[("shared_memory_bytes", "99")], ..Case::of(&[9, 9]) };
    assert_eq!(run(&more), ["any: [6] groups of [16], [7, 0, 0, 0], data+0, 99 bytes more"]);
}

#[test]
fn a_launch_has_the_program_that_relies_on_no_more_than_it_proves() {
    let device = Scribe::new();
    let attributes = &[("cooperating", "true"), ("facts", r#"["divisor a", "index b 3 0 1"]"#)];
    let kernel = Given { along: &[0, 1], dimensions: 2, attributes, ..Given::default() };
    let kernel = kernel.prepare(&device).unwrap();
    assert_eq!(device.lines(), ["compile sure boxes"]);
    let run = |case: &Case<'_>| case.run(&device, &kernel).unwrap().join("; ");
    let square = || Case { strides: &[1, 9], ..Case::of(&[9, 9]) };
    assert!(run(&square()).starts_with("sure boxes: "));
    // The box is one, but its neighbours are not next to each other; a divisor of 0; an index beyond the end.
    assert!(run(&Case { strides: &[9, 1], ..square() }).starts_with("compile boxes; boxes: "));
    assert!(run(&Case { value: 0, ..square() }).starts_with("boxes: "));
    assert!(run(&Case { value: u32::MAX, ..square() }).starts_with("boxes: "));
    let wide = |n| Case { strides: &[1, 100], ..Case::of(&[n, 1]) };
    assert!(run(&wide(99)).starts_with("sure boxes: "));
    assert!(run(&wide(100)).starts_with("boxes: "));
    assert!(run(&square()).starts_with("sure boxes: "));
    // What it does not understand, it does not rely on.
    let attributes = &[("cooperating", "true"), ("facts", r#"["odd a"]"#)];
    let failure = Given { attributes, ..Given::default() }.prepare(&device).err().unwrap();
    assert!(failure.text.contains("facts"), "{}", failure.text);
}

#[test]
fn buffers_change_places_from_phase_to_phase_and_what_is_not_written_is_carried() {
    let device = Scribe::new();
    let kernel = Given { view: View::Phased, dimensions: 2, ..Given::default() }.prepare(&device).unwrap();
    let run = |phases, flags| {
        let case = Case { kind: abi::ARG_PHASED, flags, ..Case::ordered(in_phases(phases)) };
        case.run(&device, &kernel).unwrap()
    };
    let (there, back) = ("400 bytes from data+0 to next+0", "400 bytes from next+0 to data+0");
    let call = |buffers| format!("boxes: [3, 1] groups of [8, 4], [7, 0, 0, 0], {buffers}");
    let (even, odd) = (call("data+0, next+0"), call("next+0, data+0"));
    assert_eq!(run(2, 0), [there, &even, back, &odd]);
    assert_eq!(run(3, 0), [there, &even, back, &odd, there, &even, back]);
    assert_eq!(run(3, abi::ARG_FLAG_COVERED), [&*even, &odd, &even, back]);
    assert_eq!(run(1, abi::ARG_FLAG_COVERED | abi::ARG_FLAG_NEXT_STAYS), [&*even]);
    assert!(run(0, 0).is_empty());
}

#[test]
fn phases_with_a_barrier_are_one_call_where_the_device_can() {
    let given = || Given {
        dimensions: 2,
        attributes: &[("cooperating", "true"), ("grid_barrier", "true")],
        ..Given::default()
    };
    for (barriers, expected) in [
        (true, vec!["consecutive: [2] groups of [16], [7, 0, 0, 0], data+0, 3 phases"]),
        (false, vec!["consecutive: [2] groups of [16], [7, 0, 0, 0], data+0, 1 phases"; 3]),
    ] {
        let device = Scribe::with(ProgramCache::new("", 0), barriers);
        let kernel = given().prepare(&device).unwrap();
        assert_eq!(Case::ordered(in_phases(3)).run(&device, &kernel).unwrap(), expected);
    }
}

#[test]
fn a_kernel_that_does_not_cooperate_has_its_index_space() {
    let device = Scribe::new();
    let plain =
        |dimensions, attributes| Given { dimensions, attributes, ..Given::default() }.prepare(&device);
    let kernel = plain(1, &[]).unwrap();
    assert_eq!(device.lines(), ["compile any"]);
    let run = |case: &Case<'_>| case.run(&device, &kernel).map_err(|failure| failure.text);
    let of = |groups: &str| vec![format!("any: {groups}, [7, 0, 0, 0], data+0")];
    // The largest size that the device prefers and that divides the extent.
    assert_eq!(run(&Case::of(&[20])).unwrap(), of("[2] groups of [10]"));
    assert!(run(&Case::of(&[0])).unwrap().is_empty());
    let fifth = Case { options: &[("work_group_size", "5")], ..Case::of(&[20]) };
    assert_eq!(run(&fifth).unwrap(), of("[4] groups of [5]"));
    for (case, expected) in [
        (
            Case { options: &[("work_group_size", "6")], ..Case::of(&[20]) },
            "a work-group of 6 does not divide",
        ),
        (Case { options: &[("work_group_size", "65")], ..Case::of(&[65]) }, "up to 64 threads"),
        (Case { space: 2, ..Case::of(&[20]) }, "expected an array in memory space 1"),
        (Case::of(&[1009]), "1009 work-groups along dimension 0, where 1000 is the limit"),
    ] {
        assert!(run(&case).unwrap_err().contains(expected), "{:?}", run(&case));
    }
    let from_3 = Order::new(&[Dim::from(3..20)], &OrderTraits::default()).unwrap();
    assert!(run(&Case::ordered(from_3)).unwrap_err().contains("from 3 on, where the device counts from 0"));
    // The fourth dimension is folded into the third.
    let folded = plain(4, &[]).unwrap().run_of(&device, &[4, 2, 3, 3]);
    assert_eq!(folded, of("[1, 2, 9] groups of [4, 1, 1]"));
    let one = plain(2, &[("single_work_item", "true")]).unwrap().run_of(&device, &[4, 2]);
    assert_eq!(one, of("[1, 1] groups of [1, 1]"));
    let checked = plain(1, &[("bounds_checked", "true")]).unwrap().run_of(&device, &[20]);
    assert_eq!(checked, of("[2] groups of [16]"));
}

impl Kernel<Scribe> {
    fn run_of(&self, device: &Scribe, dims: &[u64]) -> Vec<String> {
        Case::of(dims).run(device, self).unwrap()
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and texts are put together for a minute")]
fn groups_that_contradict_what_a_kernel_is_written_for_are_refused() {
    let device = Scribe::new();
    let given = |view, attributes| Given { view, attributes, ..Given::default() }.prepare(&device).unwrap();
    let own = given(View::Item, &[("cooperating", "true"), ("work_group_size", "32")]);
    assert_eq!(own.run_of(&device, &[40]), ["consecutive: [2] groups of [32], [7, 0, 0, 0], data+0"]);
    let sums = given(View::Reduce, &[("cooperating", "true")]);
    let shared = given(View::Item, &[("cooperating", "true"), ("threads_per_item", "6")]);
    // Threads that share an item stay together: 2 items of 6 threads in a group.
    assert_eq!(shared.run_of(&device, &[3]), ["consecutive: [2] groups of [12], [7, 0, 0, 0], data+0"]);
    let blocks = Case { kind: abi::ARG_REDUCE, row_len: 10, ..Case::of(&[25]) };
    let expected = "consecutive: [3] groups of [1], [7, 0, 0, 0], data+0";
    assert_eq!(blocks.run(&device, &sums).unwrap(), [expected]);
    for (kernel, case, expected) in [
        (
            &own,
            Case { options: &[("work_group_size", "16")], ..Case::of(&[40]) },
            "a work-group of 32 threads",
        ),
        (&sums, Case { options: &[("work_group_size", "2")], ..blocks }, "a work-group of 1 threads"),
        (&shared, Case { options: &[("work_group_size", "8")], ..Case::of(&[9]) }, "a multiple of 6 threads"),
        (
            &shared,
            Case { options: &[("colour", "1")], ..Case::of(&[9]) },
            "work_group_size, shared_memory_bytes",
        ),
        (&shared, Case::of(&[4000]), "expected up to 1000 work-groups"),
    ] {
        let error = case.run(&device, kernel).unwrap_err();
        assert!(error.text.contains(expected), "{}", error.text);
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and texts are put together for minutes")]
fn a_program_is_made_once_for_all_that_use_it_and_dropped_after_others_that_nothing_uses() {
    let device = Scribe::new();
    let text =
        |payload: &str| Given { payload: payload.into(), ..Given::default() }.prepare(&device).unwrap();
    let (first, second) = (text("one"), text("one"));
    assert_eq!(first.program_number(), second.program_number());
    assert_eq!(device.lines(), ["compile consecutive"]);
    drop((first, second));
    // One program without a kernel is kept.
    drop(text("two"));
    drop(text("one"));
    drop(text("three"));
    drop(text("one"));
    assert_eq!(device.lines(), ["compile consecutive"; 2]);
    drop(text("two"));
    assert_eq!(device.lines(), ["compile consecutive"]);
    // A text that includes files is compiled each time: they may have changed.
    let including = || text("#include \"other\"");
    drop((including(), including()));
    assert_eq!(device.lines(), ["compile consecutive"; 2]);
    let nul = Given { attributes: &[("build_options", r#""-a\u0000""#)], ..Given::default() };
    assert!(nul.prepare(&device).err().unwrap().text.contains("without a NUL"));
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe, and times of files")]
fn a_compiled_program_is_found_on_disk_and_compiled_anew_if_the_driver_refuses_it() {
    let folder = std::env::temp_dir().join(format!("flash-programs-{}", std::process::id()));
    let device = || Scribe::with(ProgramCache::new(&folder, 1 << 20), false);
    let lines = |device: &Scribe| {
        drop(Given::default().prepare(device).unwrap());
        device.lines()
    };
    assert_eq!(lines(&device()), ["compile consecutive"]);
    assert_eq!(lines(&device()), ["load consecutive"]);
    let early = device();
    Kernel::preload(&early, Given::default().leak()).unwrap();
    assert_eq!(early.lines(), ["load consecutive"]);
    assert!(lines(&early).is_empty());
    let other = device();
    other.refuses.store(true, Relaxed);
    assert_eq!(lines(&other), ["load consecutive", "compile consecutive"]);
    // Nothing is compiled early.
    let early = device();
    Kernel::preload(&early, Given { payload: "other".into(), ..Given::default() }.leak()).unwrap();
    assert!(early.lines().is_empty());
    // A program in a file is one, whatever it is registered as.
    let path: PathBuf = folder.join("kernel.image");
    std::fs::write(&path, [1, 2, 3]).unwrap();
    let payload = path.display().to_string();
    let file = Given { kind: abi::KIND_EXT_SRC, payload, ..Given::default() };
    drop(file.prepare(&early).unwrap());
    assert_eq!(early.lines(), ["a file: image", "load 3 bytes"]);
    std::fs::remove_dir_all(folder).unwrap();
}
