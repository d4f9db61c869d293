//! The transport between FLASH's own processes.

mod detector;
mod doorbell;
mod error;
mod heap;
mod launch;
mod mailbox;
mod mapping;
mod memory;
mod process;
mod shared;
mod sync;
#[cfg(test)]
mod tests;
mod transport;
mod waiters;
mod world;

pub use detector::Detector;
pub use error::{How, Loss, NetError};
pub use heap::{Block, SharedHeap};
pub use launch::{WORLD_VARIABLE, peer_uid};
pub use mailbox::MAX_FRAME;
pub use memory::SharedMemory;
pub use shared::{SharedTransport, local};
pub use transport::{Peer, PeerInfo, Progress, Transport};
pub use waiters::Ticket;
pub use world::{MAX_PEERS, Member, World};
