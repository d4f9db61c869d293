use flash_core::kernel;

struct Plain;

#[kernel]
impl Clone for Plain {
    fn clone(&self) -> Self {
        Plain
    }
}

fn main() {}
