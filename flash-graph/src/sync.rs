//! The names that the protocol files import from `std`: the models have them from loom.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
