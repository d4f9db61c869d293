//! Conversion of a pipeline to data.

use super::api::Pipeline;
use super::distributed;
use super::proof::{bytes_of, overlap};
use super::state::Runtime;
use super::submissions::{Node, SubmissionList};
use crate::error::Error;
use crate::memory::{ArrayInner, ArrayLayout, ByteGuard};
use crate::recording::{Argument, Data, Memory, Recording, RecordingError, Submission};
use flash_types::abi::{self, Arg};
use flash_types::descriptor::{ArgumentDescriptor, ElementType, View};
use std::collections::HashMap;

impl Pipeline<'_> {
    /// The pipeline as data: to be written to a file, inspected, run again elsewhere. Slices of the host
    /// become memories. With [`Data::With`] the contents are the current ones, before it is executed. While
    /// they are copied, launches that write them fail as with any guard of the host.
    ///
    /// # Errors
    /// Those that `exec` would report before anything runs, and those of partition maps that look into
    /// arrays; [`Error::Recording`] for a host task, and for a submission with a `failsafe` function, which
    /// are no data; with contents, and for arrays that maps look into, those of [`FlashMemory::read`].
    ///
    /// [`FlashMemory::read`]: crate::FlashMemory::read
    ///
    /// # Examples
    /// ```
    /// use flash_core::recording::Data;
    /// # fn example(pipeline: &flash_core::Pipeline<'_>) -> Result<(), flash_core::Error> {
    /// pipeline.recording(Data::With)?.save("pipeline.json")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn recording(&self, data: Data) -> Result<Recording, Error> {
        self.buffer.while_idle(|list, runtime| recording(list, runtime, data))
    }
}

/// The origin of an array argument.
#[derive(PartialEq, Eq, Hash)]
enum ArrayOrigin {
    /// A memory, by its index among those touched.
    Memory(u32),
    /// A slice of the host. A written one is borrowed exclusively, and each one that is only read has its own
    /// copy: so those that overlap need no care.
    Slice { address: usize, len: u64, element: ElementType },
}

struct RecordingWriter<'s> {
    list: &'s SubmissionList,
    data: Data,
    recording: Recording,
    /// Indices of the recording's memories.
    memories: HashMap<ArrayOrigin, u32>,
    /// Guards of the recording's memories, for the copies.
    guards: Vec<(u32, ByteGuard<'s>)>,
    /// Guards of memories that maps look into, by index among those touched.
    structure: HashMap<u32, ByteGuard<'s>>,
}

fn recording(list: &SubmissionList, runtime: &Runtime, data: Data) -> Result<Recording, Error> {
    if let Some(error) = list.error.as_ref().or(runtime.error.as_ref()) {
        return Err(error.clone());
    }
    let recording = Recording::default();
    let mut writing = RecordingWriter {
        list,
        data,
        recording,
        memories: HashMap::new(),
        guards: Vec::new(),
        structure: HashMap::new(),
    };
    let mut kernels: HashMap<String, u32> = HashMap::new();
    for (position, node) in list.nodes().iter().enumerate() {
        let descriptor = &node.plan().descriptor;
        let place = || format!("submission {position} (`{}`)", descriptor.name);
        if node.extra.as_ref().is_some_and(|e| e.failsafe.is_some()) {
            let text = "it is, or has, a function of the host (a host task, a failsafe function), which cannot be written down: leave it out of what is recorded";
            return Err(RecordingError::new(place(), text).into());
        }
        if let Some(spec) = descriptor.arguments.iter().find(|a| a.element.size == 0) {
            let place = format!("{}, argument `{}`", place(), spec.name);
            let text = "its type has no bytes, so there is nothing to write down: give it a field";
            return Err(RecordingError::new(place, text).into());
        }
        let known = kernels.len() as u32;
        let kernel = *kernels.entry(descriptor.to_json()).or_insert_with(|| {
            writing.recording.kernels.push(descriptor.clone());
            known
        });
        let mut arguments = Vec::with_capacity(descriptor.arguments.len());
        for (i, spec) in descriptor.arguments.iter().enumerate() {
            arguments.push(writing.argument(node, i, spec)?);
        }
        let known = writing.structure(position, node)?;
        let written = submission(list, known, runtime, node, kernel, arguments)?;
        writing.recording.submissions.push(written);
    }
    // All are held before the first is copied, so that the contents are of one moment.
    for (memory, guard) in &writing.guards {
        writing.recording.memories[*memory as usize].data = Some(guard.bytes().to_vec());
    }
    // A reader of the file makes the same checks.
    writing.recording.check()?;
    Ok(writing.recording)
}

/// `known`: the arrays that its map looks into can be read now.
fn submission(
    list: &SubmissionList,
    known: bool,
    runtime: &Runtime,
    node: &Node,
    kernel: u32,
    arguments: Vec<Argument>,
) -> Result<Submission, Error> {
    let mut options = runtime.options.attributes.clone();
    let mut sizes = Vec::new();
    if let Some(extra) = &node.extra {
        options.merge(&extra.options.attributes);
        sizes.extend(extra.sizes.iter().flatten().map(|shape| shape.to_vec()));
    }
    add_views(list, node, &mut sizes);
    let parts = distributed::parts_of(list, node, known)?;
    Ok(Submission { kernel, arguments, dims: list.dims_of(node).to_vec(), options, sizes, parts })
}

/// The shapes of views, which a recording has as what `sizes(..)` gives.
fn add_views(list: &SubmissionList, node: &Node, sizes: &mut Vec<Vec<u64>>) {
    let arrays = node.plan().descriptor.arguments.iter().enumerate();
    let arrays = arrays.filter(|(_, spec)| spec.view != View::Scalar);
    for (array, (i, _)) in arrays.enumerate() {
        let seen = list.view_of(node, i);
        // One with gaps has its shape in its argument.
        let has_none = seen.extents.is_empty() || !seen.strides.is_empty();
        if has_none || sizes.get(array).is_some_and(|given| !given.is_empty()) {
            continue;
        }
        sizes.resize(sizes.len().max(array + 1), Vec::new());
        sizes[array] = seen.extents.to_vec();
    }
}

impl<'s> RecordingWriter<'s> {
    /// Argument `i` of a submission.
    fn argument(&mut self, node: &Node, i: usize, spec: &ArgumentDescriptor) -> Result<Argument, Error> {
        let list: &'s SubmissionList = self.list;
        let arg = &list.args_of(node)[i];
        if arg.kind == abi::ARG_SCALAR {
            // SAFETY: a scalar's bytes lie in the recording's arena, as many as its type has.
            let bytes = unsafe { std::slice::from_raw_parts(arg.data.cast::<u8>(), spec.element.size) };
            return Ok(Argument::Scalar(bytes.to_vec()));
        }
        let touched = list.holds_of(node)[i].touched;
        let Some(header) = list.memory(touched) else {
            let element = spec.element.clone();
            let origin = ArrayOrigin::Slice { address: arg.data.addr(), len: arg.len, element };
            return Ok(Argument::Memory(self.slice(origin, arg, spec)));
        };
        let memory = self.memory(touched, header, spec)?;
        let bytes = arg.data.addr() - header.data().addr();
        let start = bytes.checked_div(spec.element.size).unwrap_or(0) as u64;
        let ArrayLayout { extents, strides } = list.view_of(node, i);
        Ok(match list.is_part(node, i) {
            _ if !strides.is_empty() => {
                Argument::Strided { memory, start, extents: extents.to_vec(), strides: strides.to_vec() }
            }
            false => Argument::Memory(memory),
            true => Argument::Part { memory, start, end: start + arg.len },
        })
    }

    /// Whether the arrays that a submission's map looks into have now the contents that they will have when
    /// it runs: no earlier submission writes them. Then they are on the host, and are not written until the
    /// recording is made.
    fn structure(&mut self, position: usize, node: &Node) -> Result<bool, Error> {
        let (list, plan) = (self.list, node.plan());
        if !plan.part.looks_inside() {
            return Ok(true);
        }
        let arguments = plan.descriptor.arguments.iter().enumerate().filter(|(_, spec)| spec.structure);
        for (i, _) in arguments {
            let looked_at = bytes_of(&list.args_of(node)[i]);
            let mut before = list.nodes()[..position].iter().flat_map(|node| list.args_of(node));
            if before.any(|arg| arg.access != abi::ACCESS_READ && overlap(&looked_at, &bytes_of(arg))) {
                return Ok(false);
            }
            let touched = list.holds_of(node)[i].touched;
            if let Some(header) = list.memory(touched)
                && !self.structure.contains_key(&touched)
            {
                self.structure.insert(touched, ByteGuard::new(header)?);
            }
        }
        Ok(true)
    }

    fn memory(
        &mut self,
        touched: u32,
        header: &'s ArrayInner,
        spec: &ArgumentDescriptor,
    ) -> Result<u32, Error> {
        let next = self.recording.memories.len() as u32;
        let index = *self.memories.entry(ArrayOrigin::Memory(touched)).or_insert(next);
        if index == next {
            if self.data == Data::With {
                self.guards.push((index, ByteGuard::new(header)?));
            }
            self.recording.memories.push(Memory {
                element: ElementType { layout: 0, ..spec.element.clone() },
                len: header.len() as u64,
                shape: header.shape().to_vec(),
                data: None,
            });
        }
        Ok(index)
    }

    fn slice(&mut self, origin: ArrayOrigin, arg: &Arg, spec: &ArgumentDescriptor) -> u32 {
        let next = self.recording.memories.len() as u32;
        let index = *self.memories.entry(origin).or_insert(next);
        if index == next {
            let bytes = arg.len as usize * spec.element.size;
            // SAFETY: the pipeline borrows the slice, whose length was proved; it is not executed meanwhile.
            let copy = || unsafe { std::slice::from_raw_parts(arg.data.cast::<u8>(), bytes) }.to_vec();
            let data = (self.data == Data::With).then(copy);
            let element = ElementType { layout: 0, ..spec.element.clone() };
            self.recording.memories.push(Memory { element, len: arg.len, shape: Vec::new(), data });
        }
        index
    }
}
