flash_core::export_plugin!("my_backend");

fn main() {}
