//! N-body simulation: the main job of FLASH.
fn main() {}
