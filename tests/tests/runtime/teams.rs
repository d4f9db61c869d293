//! Teams give the results of plain loops, however a launch is cut over devices.

use flash::kernel::prelude::*;
use flash::prelude::*;
use proptest::prelude::*;

/// Sums of rows in the order of a team, and the rows as sums of what stands before.
#[derive(KernelDefinition)]
#[kernel(name = "teams.sums", dims(row), part_by(row))]
struct Sums<'a> {
    scale: f32,
    x: Item<'a, ReadWrite<Row<f32>>>,
    sum: Item<'a, Write<f32>>,
}

struct ByTeam;

#[kernel(devices)]
impl CpuTeam<Sums<'_>, 16> for ByTeam {
    fn team(_: Index<1>, k: SumsItem<'_>, team: &mut Team<16>) {
        k.sum.set(team.reduce(k.x.len(), 0.0, |i| k.x[i] * k.scale, |a, b| a + b));
        let mut block: [f32; 40] = team.shared(|[i]| if i < k.x.len() { k.x[i] } else { 0.0 });
        for by in [1, 2, 4, 8, 16, 32] {
            team.update(&mut block, |[i], old| if i >= by { old[i - by] + old[i] } else { old[i] });
        }
        team.map(k.x, |i, x| block[i] - x);
    }
}

fn summed(row: &[f32], scale: f32) -> f32 {
    let of = |thread: usize| row.iter().skip(thread).step_by(16).fold(0.0, |sum, x| sum + x * scale);
    let mut parts: Vec<f32> = (0..16).map(of).collect();
    while parts.len() > 1 {
        let half = parts.len() / 2;
        parts = (0..half).map(|i| parts[i] + parts[i + half]).collect();
    }
    parts[0]
}

fn before(row: &[f32]) -> Vec<f32> {
    let mut block = row.to_vec();
    for by in [1, 2, 4, 8, 16, 32] {
        block = (0..row.len()).map(|i| if i >= by { block[i - by] + block[i] } else { block[i] }).collect();
    }
    block.iter().zip(row).map(|(sum, x)| sum - x).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn teams_compute_what_their_operations_say(
        width in 1_usize..=40,
        values in prop::collection::vec(-1e3_f32..1e3, 1..600),
        scale in 0.1_f32..3.0,
    ) {
        let rows = values.len().div_ceil(width);
        let given: Vec<f32> = values.iter().cycle().take(rows * width).copied().collect();
        let x = FlashMemory::from(given.clone()).with_shape([width, rows]).unwrap();
        let sum = FlashMemory::<f32>::zeroed(rows);
        flash_tests::runtime().submit(Sums::of(scale, &x, &sum)).exec([rows]).unwrap();
        let given = given.chunks(width);
        let sums: Vec<f32> = given.clone().map(|row| summed(row, scale)).collect();
        prop_assert_eq!(sum.to_vec().unwrap(), sums);
        prop_assert_eq!(x.to_vec().unwrap(), given.flat_map(before).collect::<Vec<f32>>());
    }
}
