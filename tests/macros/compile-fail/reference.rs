use flash_core::KernelDefinition;

#[derive(KernelDefinition)]
#[kernel(name = "copy", dims(x))]
struct Copy<'a> {
    from: &'a [f32],
    to: &'a mut [f32],
}

fn main() {}
