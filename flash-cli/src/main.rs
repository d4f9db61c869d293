//! flash: list devices and plugins.
fn main() {}
