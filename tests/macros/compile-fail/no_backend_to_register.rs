flash_backend::register_backend!();

fn main() {}
