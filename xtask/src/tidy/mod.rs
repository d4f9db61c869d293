//! Rules of the repository, as tests: they read the source as text and run nothing of it.
//!
//! - `order`: modules import only modules that stand below them (`modules.txt`).
//! - `text`: comments keep the width of rustfmt.toml; host programs name no vendor; nothing sleeps on the
//!   way of a launch.

mod order;
mod source;
mod text;
