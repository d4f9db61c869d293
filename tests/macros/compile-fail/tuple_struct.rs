use flash_core::KernelDefinition;

#[derive(KernelDefinition)]
#[kernel(name = "saxpy", dims(x))]
struct Saxpy(f32);

fn main() {}
