//! A device of another process.
//!
//! Its kernels are prepared there; a launch is one request. An agent's device that works in the host's memory
//! works here in the memory that the processes share, which is a memory space of its own: the controller
//! allocates it and copies to and from it without asking anyone. Other devices have their own memories.

use super::calls::Reply;
use super::memory::{Buffers, SHARED};
use super::{Asked, Controller};
use crate::wire::{ImplementationImage, LaunchImage, Place, RemoteDevice, Request, bad};
use flash_backend::abi::{self, Buffer, CopyBox, HAS_FEATURE, HAS_LIBRARY};
use flash_backend::{Code, Device, DeviceInfo, Event, Failure, Launch};
use flash_net::Peer;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A device of an agent.
pub struct RankDevice {
    controller: &'static Controller,
    pub(crate) agent: Peer,
    /// The agent's number of it.
    number: u32,
    /// Its id there.
    pub(crate) id: String,
    info: DeviceInfo,
    buffers: Buffers,
    /// Features and libraries that were asked for.
    has: Mutex<HashMap<(u32, String), bool>>,
}

/// A kernel that the agent has made ready. It is released there when it goes.
pub struct RankKernel {
    controller: &'static Controller,
    agent: Peer,
    device: u32,
    number: u32,
}

impl Drop for RankKernel {
    fn drop(&mut self) {
        self.controller.tell(self.agent, &Request::Release { device: self.device, kernel: self.number });
    }
}

impl RankDevice {
    /// The devices of an agent, by what it said.
    ///
    /// # Errors
    /// Properties that cannot be read.
    pub(super) fn all(
        controller: &'static Controller,
        agent: Peer,
        found: Vec<RemoteDevice>,
    ) -> Result<Vec<RankDevice>, String> {
        let one = |(number, remote): (usize, RemoteDevice)| {
            let RemoteDevice { id, info, target, spaces } = remote;
            let mut info: DeviceInfo = serde_json::from_str(&info).map_err(|why| {
                bad(format!("properties of device {id} of rank {} that cannot be read: {why}", agent.0)).text
            })?;
            if info.targets.is_empty() {
                info.targets.push(target);
            }
            // A part of the host's memory would be this process's own.
            let works_in_shared = std::mem::take(&mut info.host_memory);
            info.synchronous = false;
            info.runs_functions = false;
            info.suffix = format!("{}/{id}", agent.0);
            let buffers = Buffers::new(controller, (agent, number as u32), works_in_shared, &spaces);
            Ok(RankDevice {
                controller,
                agent,
                number: number as u32,
                id,
                info,
                buffers,
                has: Mutex::default(),
            })
        };
        found.into_iter().enumerate().map(one).collect()
    }

    /// True if its agent has gone.
    pub(crate) fn is_lost(&self) -> bool {
        self.controller.is_lost(self.agent)
    }

    /// Its properties.
    pub(crate) fn properties(&self) -> &DeviceInfo {
        &self.info
    }

    fn ask(&self, request: &Request<'_>) -> Result<Reply, Failure> {
        self.controller.ask(self.agent, request, std::ptr::null()).map_err(|failure| self.named(failure))
    }

    /// With the name of the agent and its device, if the failure is the agent's.
    fn named(&self, failure: Failure) -> Failure {
        match failure.code {
            Code::Cancelled | Code::DeviceLost => failure,
            code => Failure::new(code, format!("rank {}, {}: {}", self.agent.0, self.id, failure.text)),
        }
    }

    fn has(&self, kind: u32, name: &str) -> bool {
        let known = || self.has.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(has) = known().get(&(kind, name.to_owned())) {
            return *has;
        }
        let answer = self.ask(&Request::Has { device: self.number, kind, name });
        let has = matches!(answer, Ok(Reply::Yes(true)));
        if answer.is_ok() {
            known().insert((kind, name.to_owned()), has);
        }
        has
    }
}

impl Device for RankDevice {
    type Kernel = RankKernel;

    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<RankKernel, Failure> {
        let kernel = self.controller.number() as u32;
        let implementation = ImplementationImage::of(implementation);
        self.ask(&Request::Prepare { device: self.number, kernel, implementation })?;
        Ok(RankKernel { controller: self.controller, agent: self.agent, device: self.number, number: kernel })
    }

    fn preload(&self, implementation: &'static abi::Implementation) {
        let implementation = ImplementationImage::of(implementation);
        let _ = self.ask(&Request::Preload { device: self.number, implementation });
    }

    fn has_feature(&self, feature: &str) -> bool {
        self.has(HAS_FEATURE, feature)
    }

    fn has_library(&self, names: &str) -> bool {
        self.has(HAS_LIBRARY, names)
    }

    fn submit(&self, launch: &Launch<'_, RankKernel>) -> Result<Option<Event>, Failure> {
        let image = LaunchImage::of(launch, |arg, data, handle| match arg.space {
            SHARED => self.buffers.offset(data.addr() as u64).map_or(Place::Nowhere, Place::Shared),
            _ if handle == 0 => Place::Nowhere,
            _ => Place::Buffer(handle),
        });
        let request = Request::Submit { device: self.number, kernel: launch.kernel().number, launch: image };
        if !launch.is_awaited() {
            let number = self.controller.begin(self.agent, &request)?;
            return Ok(Some(Event::new(Asked::new(self.controller, self.agent, number, launch.stop_flag()))));
        }
        let reply = self.controller.ask(self.agent, &request, launch.stop_flag());
        if let Reply::Done(start, end) = reply.map_err(|failure| self.named(failure))? {
            launch.report(end.saturating_sub(start));
        }
        Ok(None)
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        self.buffers.spaces().to_vec()
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<Buffer, Failure> {
        self.buffers.alloc(space, bytes)
    }

    unsafe fn clear(&self, buffer: Buffer, bytes: u64) -> Result<(), Failure> {
        // SAFETY: the caller vouches.
        unsafe { self.buffers.clear(buffer, bytes) }
    }

    fn free(&self, buffer: Buffer) -> Result<(), Failure> {
        self.buffers.free(buffer)
    }

    unsafe fn copy_box(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<(), Failure> {
        // SAFETY: the caller vouches.
        unsafe { self.buffers.copy_box(from, to, shape) }
    }

    fn can_copy(&self, from: u32, to: u32) -> Option<f64> {
        self.buffers.can_copy(from, to)
    }

    fn query(&self, key: &str) -> Option<String> {
        match key {
            "rank" => return Some(self.agent.0.to_string()),
            "pid" => return Some(self.controller.pid(self.agent)?.to_string()),
            _ => {}
        }
        match self.ask(&Request::Query { device: self.number, key }) {
            Ok(Reply::Text(text)) => Some(text),
            _ => None,
        }
    }
}
