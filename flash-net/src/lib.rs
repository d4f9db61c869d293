//! The transport between FLASH's own processes: frames, shared memory, and noticing those that are gone.
//!
//! A [`World`] is a sparse file in memory for a fixed number of peers. The process that makes it hands it to
//! the others ([`World::inherit`] for a child, [`World::send_over`] for any process of the host), and each
//! joins as one peer. Then it posts frames to the others, takes those that have come, and waits: see
//! [`Transport`]. Each has an arena that the others see: arrays are not copied from process to process.
//!
//! ```
//! use flash_net::{Peer, Progress, Transport, local};
//!
//! // A world in one process; `SharedTransport::join` is the same among several.
//! let peers = local(2)?;
//! let (controller, agent) = (&peers[0], &peers[1]);
//!
//! let heap = controller.heap().expect("this transport shares memory");
//! let block = heap.alloc(1 << 20, 64)?;
//! controller.post_parts(Peer(1), &[b"fill", &block.offset.to_ne_bytes()])?;
//!
//! agent.progress(&mut |from, frame| {
//!     let (what, offset) = frame.split_at(4);
//!     assert_eq!(what, b"fill");
//!     let offset = u64::from_ne_bytes(offset.try_into().expect("8 bytes"));
//!     let memory = agent.memory(from).expect("it is of this host");
//!     // What comes from the other side is checked.
//!     let start = memory.pointer(offset, 1 << 20).expect("a range of its arena");
//!     // SAFETY: in the arena, and the controller waits meanwhile.
//!     unsafe { start.write_bytes(7, 1 << 20) };
//!     agent.post(from, b"done").expect("its mailbox is empty");
//! });
//!
//! assert_eq!(controller.progress(&mut |_, frame| assert_eq!(frame, b"done")), Progress::Some);
//! # Ok::<(), flash_net::NetError>(())
//! ```
//!
//! # What is relied on
//!
//! - **Nothing that another peer wrote.** A peer that writes anything anywhere in the world, at any time, can
//!   make others lose it, disturb their frames, wake them or let them sleep until their next look. It cannot
//!   make them read or write outside of the world, take memory from them, or make them panic. Frames have
//!   valid lengths and are copies. What is *in* them, users check.
//! - **A peer is one process, once.** A process in the place of one that is gone gets a new world.
//! - **Full is an answer.** A mailbox has 64 KiB. There is no queue behind it.
//! - **Waiting threads take frames.** The transport has no thread of its own. Threads that wait take turns.
//!
//! A peer is lost when it leaves, when its process ends (noticed within 25 ms by threads that wait), when it
//! writes what no peer writes, or, with a [`Detector`], when it gives no sign of life. See [`Loss`].
//!
//! Linux only. Why it is as it is, with figures: the crate's `README.md`.

mod detector;
mod doorbell;
mod error;
mod heap;
mod launch;
mod mailbox;
mod mapping;
mod memory;
mod process;
mod service;
mod shared;
mod sync;
#[cfg(test)]
mod tests;
mod transport;
mod waiters;
mod watches;
mod world;

pub use detector::Detector;
pub use error::{How, Loss, NetError};
pub use heap::{Block, SharedHeap};
pub use launch::{WORLD_VARIABLE, peer_uid};
pub use mailbox::MAX_FRAME;
pub use memory::SharedMemory;
pub use process::{boot_id, cpus, cpus_of, end_with_parent, keep_to, started};
pub use service::{Service, Visitor, Wanted, ask_to_serve, services, state_of};
pub use shared::{SharedTransport, local, local_members};
pub use transport::{Peer, PeerInfo, Progress, Transport};
pub use waiters::Ticket;
pub use watches::Watches;
pub use world::{MAX_PEERS, Member, World};
