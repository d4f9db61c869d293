use flash_core::kernel::prelude::*;

#[derive(KernelDefinition)]
#[kernel(name = "sums", dims(row))]
struct Sums<'a> {
    x: Item<'a, Read<Row<f32>>>,
    y: Item<'a, Write<Row<f32>>>,
}

struct Plain;

#[kernel]
impl CpuTeam<Sums<'_>, 64> for Plain {
    fn team(_: Index<1>, k: SumsItem<'_>, team: &mut Team<64>) {
        team.set(k.y, |_| team.reduce(k.x.len(), 0.0, |i| k.x[i], |a, b| a + b));
    }
}

fn main() {}
