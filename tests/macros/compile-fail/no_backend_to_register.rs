flash_core::register_backend!();

fn main() {}
