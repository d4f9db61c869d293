//! A repeated submission on the resident path. As long as its memories have the residences of the last time,
//! the device has all arguments where it had them then.

use super::{DeviceArgs, Run};
use crate::error::Error;
use crate::memory::ArrayInner;
use crate::memory::device::LastUse;
use crate::memory::fast_path::FastPathGuard;
use crate::runtime::alike::Alike;
use crate::runtime::distributed::lanes::Lanes;
use crate::runtime::hold::HeldMemories;
use crate::runtime::state::Runtime;
use crate::runtime::submissions::SubmissionList;
use flash_types::abi::{self, Arg};
use smallvec::SmallVec;

/// The submission as the device got it, and the conditions under which it is valid.
pub(crate) struct ResidentLaunch {
    lanes: &'static Lanes,
    /// In the order of addresses.
    memories: SmallVec<[KnownResidence; 8]>,
    args: SmallVec<[Arg; 8]>,
    /// Arguments point to them.
    _parts: Vec<abi::Part>,
    /// The arguments that are new each time.
    scalars: SmallVec<[u32; 8]>,
    /// If the device keeps what it makes of launches that are alike.
    alike: Option<Alike>,
}

/// A memory, and the residence that it had.
struct KnownResidence {
    memory: *const ArrayInner,
    written: bool,
    number: u64,
}

impl KnownResidence {
    #[inline(always)]
    fn header(&self) -> &ArrayInner {
        // SAFETY: the submission that was just recorded borrows this memory.
        unsafe { &*self.memory }
    }

    /// True if it still has that residence, which then stays until [`end`](Self::end).
    #[inline(always)]
    fn begin(&self, now: u64) -> bool {
        let (home, same) = (&self.header().home, |number| number == self.number);
        let found = if self.written { home.alone_if(same) } else { home.share_if(same) };
        found.is_some_and(|home| {
            home.last_use.set(now);
            true
        })
    }

    #[inline(always)]
    fn end(&self) {
        if !self.written {
            self.header().home.end();
        }
    }
}

/// Memories that are held, with their residences; released on drop.
struct HeldResidents<'a> {
    memories: &'a [KnownResidence],
    held: usize,
    at_home: usize,
    /// From before they are held until they are released.
    _uncounted: FastPathGuard,
}

impl<'a> HeldResidents<'a> {
    /// `None`: some memory has moved, or others come first.
    #[inline(always)]
    fn begin(memories: &'a [KnownResidence]) -> Option<HeldResidents<'a>> {
        let mut these = HeldResidents { memories, held: 0, at_home: 0, _uncounted: FastPathGuard::begin() };
        for home in memories {
            match home.header().state.launch_tracked(home.written) {
                Ok(_) => these.held += 1,
                Err(_) => return None,
            }
        }
        if !these._uncounted.may_stay() {
            return None;
        }
        let now = LastUse::now();
        for home in memories {
            if !home.begin(now) {
                return None;
            }
            these.at_home += 1;
        }
        Some(these)
    }

    /// Ends the fixed residence; the memory stays held.
    #[inline(always)]
    fn leave(&mut self) {
        self.memories[..self.at_home].iter().for_each(KnownResidence::end);
        self.at_home = 0;
    }
}

impl Drop for HeldResidents<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.leave();
        for home in &self.memories[..self.held] {
            match home.written {
                true => home.header().release_written(),
                false => home.header().state.release_read(),
            }
        }
    }
}

impl ResidentLaunch {
    /// Caches a recording of one submission; `None`: it cannot take this path. Takes the memories once more.
    pub fn of(list: &SubmissionList, runtime: &Runtime) -> Option<ResidentLaunch> {
        let ([device], [node]) = (&runtime.devices[..], list.nodes()) else { return None };
        let (plan, memory) = (node.plan(), device.memory()?);
        let all_at_home = list.memories().all(|(_, header, _)| header.home.is_some());
        if !all_at_home || !plan.runs_simply() || (plan.writes && runtime.check_writes) {
            return None;
        }
        let held = HeldMemories::take(list, runtime).ok()??;
        if !held.may_stay() {
            return None;
        }
        let mut run = Run::new(list, runtime, device);
        let footprint = list.footprint_of(node, || run.known.footprint(list, node))?;
        let mut told = DeviceArgs::default();
        run.find(node, footprint, memory, &mut told)?;
        let memories = list.memories();
        let home = |(_, header, written): (u32, &ArrayInner, bool)| KnownResidence {
            memory: header,
            written,
            number: header.home.number(),
        };
        let memories = memories.map(home).collect();
        let mut parts = Vec::with_capacity(told.args.len());
        for arg in told.args.iter_mut().filter(|arg| !arg.part.is_null()) {
            // SAFETY: it points into `footprint` or `told`.
            parts.push(unsafe { *arg.part });
            arg.part = parts.last()?;
        }
        let kinds = told.args.iter().zip(0..);
        let scalars = kinds.filter(|(arg, _)| arg.kind == abi::ARG_SCALAR).map(|(_, i)| i).collect();
        let (lanes, args) = (Lanes::of(device), told.args);
        let alike = device.info().keeps_launches.then(Alike::default);
        Some(ResidentLaunch { lanes, memories, args, _parts: parts, scalars, alike })
    }

    /// Calls `body` with the arguments, and with the number of launches that are the same, while the
    /// memories are held. `None`: this is not possible, and nothing was called. `failed` gets an error while
    /// the memories are still held.
    #[inline(always)]
    pub fn run(
        &mut self,
        list: &SubmissionList,
        body: impl FnOnce(&[Arg], u64) -> Result<(), Error>,
        failed: impl FnOnce(Error) -> Error,
    ) -> Result<Option<()>, Error> {
        // Other work has its place in the lane, before this or after it.
        if !self.lanes.kernels.is_idle() {
            return Ok(None);
        }
        let Some(mut at_home) = HeldResidents::begin(&self.memories) else { return Ok(None) };
        for &i in &self.scalars {
            self.args[i as usize] = list.args()[i as usize];
        }
        let like = self.alike.as_mut().map_or(0, |alike| {
            let scalars = self.scalars.iter();
            alike.number(scalars.map(|i| &self.args[*i as usize]))
        });
        body(&self.args, like).map(Some).map_err(|error| {
            at_home.leave();
            failed(error)
        })
    }
}
