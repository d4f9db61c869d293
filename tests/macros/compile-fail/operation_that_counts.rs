use flash_core::kernel::prelude::*;

#[derive(KernelDefinition)]
#[kernel(name = "sums", dims(row))]
struct Sums<'a> {
    x: Item<'a, Read<Row<f32>>>,
    y: Item<'a, Write<f32>>,
}

struct Plain;

#[kernel]
impl CpuTeam<Sums<'_>, 64> for Plain {
    fn team(_: Index<1>, k: SumsItem<'_>, team: &mut Team<64>) {
        let mut sum = 0.0;
        team.each(k.x.len(), |i| sum += k.x[i]);
        k.y.set(sum);
    }
}

fn main() {}
