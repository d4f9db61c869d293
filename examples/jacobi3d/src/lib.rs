//! Heat in a cube by Jacobi's method: each point becomes the mean of itself and its two neighbours on each
//! side along each axis, in all 13 points.
//!
//! | file | what it holds |
//! |---|---|
//! | `cube.rs` | the problem, and one loop over all points, which says what is right |
//! | `blocks.rs` | the same by tasks, one for each block and step |
//! | `launches.rs` | the same by launches of a kernel, on any devices |
//!
//! All three give the same bits.

pub mod blocks;
pub mod cube;
pub mod launches;
