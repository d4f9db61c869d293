//! Work items that a team computes: rows in shared memory, sums in a fixed order, one thread's stores.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_core::devices::texts;
use flash_tests_once::{close, compare, cpu, devices};

struct Once;

/// `count` numbers in `0..below`, as if by chance.
fn numbers(count: usize, below: u64) -> Vec<u32> {
    (1..=count as u64)
        .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % below)
        .map(|x| x as u32)
        .collect()
}

fn rows(width: usize, rows: usize) -> FlashMemory<f32> {
    let values = numbers(width * rows, 1000).into_iter().map(|x| x as f32 * 0.37 - 150.0);
    values.collect::<FlashMemory<f32>>().with_shape([width, rows]).unwrap()
}

/// The exponentials of a row, divided by their sum.
#[derive(KernelDefinition)]
#[kernel(name = "once.softmax", dims(row))]
struct Softmax<'a> {
    x: Item<'a, Read<Row<f32>>>,
    y: Item<'a, Write<Row<f32>>>,
    sum: Item<'a, Write<f32>>,
}

#[kernel(devices)]
impl CpuTeam<Softmax<'_>, 64> for Once {
    fn team(_: Index<1>, k: SoftmaxItem<'_>, team: &mut Team<64>) {
        let most = team.reduce(k.x.len(), f32::NEG_INFINITY, |i| k.x[i], |a, b| a.max(b));
        let sum = team.reduce(k.x.len(), 0.0, |i| ((k.x[i] - most) * 0.01).exp(), |a, b| a + b);
        team.set(k.y, |i| ((k.x[i] - most) * 0.01).exp() / sum);
        k.sum.set(sum);
    }
}

#[test]
fn softmax() {
    for width in [1, 63, 64, 65, 500] {
        close("teams::softmax", 1e-6, |rt| {
            let (x, y) = (rows(width, 7), FlashMemory::<f32>::zeroed([width, 7]));
            let sum = FlashMemory::<f32>::zeroed(7);
            rt.submit(Softmax::of(&x, &y, &sum)).exec([7]).unwrap();
            let all = [y.to_vec().unwrap(), sum.to_vec().unwrap()].concat();
            all.into_iter().map(f64::from).collect()
        });
    }
}

/// Sums that are not associative, in teams of one thread and of many.
macro_rules! sums {
    ($($name:ident $kernel:literal $threads:literal $run:ident)*) => {$(
        #[derive(KernelDefinition)]
        #[kernel(name = $kernel, dims(row))]
        struct $name<'a> {
            x: Item<'a, Read<Row<f32>>>,
            sum: Item<'a, Write<f32>>,
        }

        #[kernel(devices)]
        impl CpuTeam<$name<'_>, $threads> for Once {
            fn team(_: Index<1>, k: <$name<'_> as KernelDefinition>::Item<'_>, team: &mut Team<$threads>) {
                let halves: [f32; 9] = team.shared(|[i]| if i < k.x.len() { k.x[i] / 2.0 } else { 0.0 });
                let sum = team.reduce(k.x.len(), 0.0, |i| k.x[i] / 3.0, |a, b| a + b);
                k.sum.set(sum + halves[8] - halves[k.x.len() % 9]);
            }
        }

        fn $run(rt: &RuntimeObj, width: usize) -> Vec<f32> {
            let (x, sum) = (rows(width, 9), FlashMemory::<f32>::zeroed(9));
            rt.submit($name::of(&x, &sum)).exec([9]).unwrap();
            let expected: Vec<f32> =
                x.to_vec().unwrap().chunks(width).map(|row| summed($threads, row)).collect();
            assert_eq!(sum.to_vec().unwrap(), expected, "{} threads, rows of {width}", $threads);
            expected
        }
    )*};
}
sums! {
    Alone "once.row_sums_alone" 1 alone
    Two "once.row_sums_two" 2 two
    Many "once.row_sums_many" 128 many
    All "once.row_sums_all" 1024 all
}

/// In the order that `Team::reduce` says.
fn summed(threads: usize, values: &[f32]) -> f32 {
    let sum_of =
        |thread: usize| values.iter().skip(thread).step_by(threads).fold(0.0, |sum, x| sum + x / 3.0);
    let mut parts: Vec<f32> = (0..threads).map(sum_of).collect();
    while parts.len() > 1 {
        let half = parts.len() / 2;
        parts = (0..half).map(|i| parts[i] + parts[i + half]).collect();
    }
    let halves = |i: usize| values.get(i).map_or(0.0, |x| x / 2.0);
    parts[0] + halves(8) - halves(values.len() % 9)
}

#[test]
fn sums_have_one_order() {
    for width in [1, 2, 127, 129, 1025, 3000] {
        compare("teams::sums_have_one_order", |rt| {
            [alone(rt, width), two(rt, width), many(rt, width), all(rt, width)].concat()
        });
    }
}

/// Inclusive sums of rows of up to 256 numbers, and where the largest one is.
#[derive(KernelDefinition)]
#[kernel(name = "once.scan", dims(row))]
struct Scan<'a> {
    x: Item<'a, ReadWrite<Row<u32>>>,
    most: Item<'a, Write<u32>>,
    at: Item<'a, Write<u32>>,
}

#[derive(Clone, Copy, Staged)]
struct Most {
    value: u32,
    at: u32,
}

#[kernel_fn]
fn larger(a: Most, b: Most) -> Most {
    if b.value > a.value || b.value == a.value && b.at < a.at { b } else { a }
}

/// The array's inclusive sums.
#[kernel_fn]
fn scanned(team: &mut Team<64>, sums: &mut [u32; 256]) {
    let mut by = 1;
    while by < 256 {
        team.update(sums, |[i], old| if i >= by { old[i].wrapping_add(old[i - by]) } else { old[i] });
        by *= 2;
    }
}

#[kernel(devices)]
impl CpuTeam<Scan<'_>, 64> for Once {
    fn team(_: Index<1>, k: ScanItem<'_>, team: &mut Team<64>) {
        let nothing = Most { value: 0, at: u32::MAX };
        let most = team.reduce(k.x.len(), nothing, |i| Most { value: k.x[i], at: i as u32 }, larger);
        let mut sums: [u32; 256] = team.shared(|[i]| if i < k.x.len() { k.x[i] } else { 0 });
        scanned(team, &mut sums);
        team.map(k.x, |i, was| sums[i] * 2 - was);
        k.most.set(most.value);
        k.at.set(most.at);
    }
}

#[test]
fn scans() {
    for width in [1, 64, 100, 256] {
        let values = numbers(width * 5, 100_000);
        compare("teams::scans", |rt| {
            let x = FlashMemory::from(values.clone()).with_shape([width, 5]).unwrap();
            let [most, at] = [(), ()].map(|()| FlashMemory::<u32>::zeroed(5));
            rt.submit(Scan::of(&x, &most, &at)).exec([5]).unwrap();
            let (x, most, at) = (x.to_vec().unwrap(), most.to_vec().unwrap(), at.to_vec().unwrap());
            for (row, was) in values.chunks(width).enumerate() {
                let sums = was.iter().scan(0, |sum, x| {
                    *sum += x;
                    Some(*sum)
                });
                let expected: Vec<u32> = sums.zip(was).map(|(sum, was)| 2 * sum - was).collect();
                assert_eq!(x[row * width..][..width], expected);
                let largest = *was.iter().max().unwrap();
                assert_eq!(most[row], largest);
                assert_eq!(at[row] as usize, was.iter().position(|x| *x == largest).unwrap());
            }
            [x, most, at].concat()
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Element, Staged)]
#[repr(C)]
struct Complex {
    re: f32,
    im: f32,
}

/// Fourier transforms of 128 numbers each, in shared memory.
#[derive(KernelDefinition)]
#[kernel(name = "once.team_fft", dims(row))]
struct Fft<'a> {
    roots: Whole<'a, Read<Complex>>,
    x: Item<'a, Read<Row<Complex>>>,
    y: Item<'a, Write<Row<Complex>>>,
}

#[kernel_fn]
fn times(a: Complex, b: Complex) -> Complex {
    Complex { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
}

#[kernel(devices)]
impl CpuTeam<Fft<'_>, 32> for Once {
    fn team(_: Index<1>, k: FftItem<'_>, team: &mut Team<32>) {
        // Stockham's: 64 butterflies a stage, none in place.
        let mut data: [Complex; 128] = team.shared(|[i]| k.x[i]);
        let mut groups = 1;
        while groups < 128 {
            team.update(&mut data, |[i], old| {
                let (q, p) = (i % groups, i / (2 * groups));
                let (a, b) = (old[q + groups * p], old[q + groups * (p + 64 / groups)]);
                if i / groups % 2 == 0 {
                    Complex { re: a.re + b.re, im: a.im + b.im }
                } else {
                    times(Complex { re: a.re - b.re, im: a.im - b.im }, k.roots[p * groups])
                }
            });
            groups *= 2;
        }
        team.set(k.y, |i| data[i]);
    }
}

#[test]
fn transforms() {
    let root = |i: usize| {
        let angle = -std::f64::consts::TAU * i as f64 / 128.0;
        Complex { re: angle.cos() as f32, im: angle.sin() as f32 }
    };
    let given: Vec<f64> =
        numbers(2 * 3 * 128, 2001).into_iter().map(|x| f64::from(x) / 1000.0 - 1.0).collect();
    let given: Vec<[f64; 2]> = given.chunks(2).map(|pair| [pair[0], pair[1]]).collect();
    close("teams::transforms", 1e-5, |rt| {
        let roots: FlashMemory<Complex> = (0..128).map(root).collect();
        let x: FlashMemory<Complex> =
            given.iter().map(|[re, im]| Complex { re: *re as f32, im: *im as f32 }).collect();
        let x = x.with_shape([128, 3]).unwrap();
        let y = FlashMemory::<Complex>::zeroed([128, 3]);
        rt.submit(Fft::of(&roots, &x, &y)).exec([3]).unwrap();
        let y = y.to_vec().unwrap();
        for (row, x) in given.chunks(128).enumerate() {
            for f in [0, 1, 17, 127] {
                let [mut re, mut im] = [0.0, 0.0];
                for (i, [a, b]) in x.iter().enumerate() {
                    let (sin, cos) = (-std::f64::consts::TAU * (i * f) as f64 / 128.0).sin_cos();
                    (re, im) = (re + a * cos - b * sin, im + a * sin + b * cos);
                }
                let found = y[128 * row + f];
                assert!((f64::from(found.re) - re).abs() < 1e-4 && (f64::from(found.im) - im).abs() < 1e-4);
            }
        }
        y.into_iter().flat_map(|c| [f64::from(c.re), f64::from(c.im)]).collect()
    });
}

/// Arrays of two and three dimensions, and stores outside of an operation: one thread makes them.
#[derive(KernelDefinition)]
#[kernel(name = "once.team_stores", dims(row))]
struct Stores<'a> {
    from: Window<'a, Read<u32>>,
    count: Item<'a, ReadWrite<u32>>,
    y: Item<'a, ReadWrite<Row<u32>>>,
    bins: Scatter<'a, u32>,
}

#[kernel(devices)]
impl CpuTeam<Stores<'_>, 16> for Once {
    fn team(ix: Index<1>, k: StoresItem<'_>, team: &mut Team<16>) {
        let row = ix[0];
        let table: [[u32; 5]; 7] = team.shared(|[y, x]| k.from.get(35 * row + 5 * y + x));
        let mut cube: [[[u32; 2]; 3]; 4] = team.shared(|[z, y, x]| table[z + y][x + 1] * 3);
        let copy = cube;
        cube[1][2][0] += table[6][4];
        team.update(&mut cube, |[z, y, x], old| old[3 - z][2 - y][1 - x] + old[z][y][x]);
        for i in 0..k.y.len() {
            k.y[i] = copy[i % 4][1][1] + cube[1][i % 3][0];
            if i > 0 {
                k.y[i] += k.y[i - 1];
            }
        }
        team.each(35, |i| {
            if table[i / 5][i % 5] > 20 {
                k.bins.add(i % 4, table[i / 5][i % 5]);
            }
        });
        *k.count += team.reduce(k.y.len(), 0, |i| k.y[i], |a, b| a ^ b);
        if *k.count % 2 == 1 {
            return;
        }
        *k.count += 7;
    }
}

#[test]
fn stores() {
    compare("teams::stores", |rt| {
        let from: FlashMemory<u32> = numbers(35 * 11, 50).into_iter().collect();
        let count: FlashMemory<u32> = (0..11).collect();
        let (y, bins) = (FlashMemory::<u32>::zeroed([10, 11]), FlashMemory::<u32>::zeroed(4));
        rt.submit(Stores::of(&from, &count, &y, &bins)).exec([11]).unwrap();
        [count.to_vec().unwrap(), y.to_vec().unwrap(), bins.to_vec().unwrap()].concat()
    });
}

/// A loop of all threads whose end they compute, and faults inside of operations and between them.
#[derive(KernelDefinition)]
#[kernel(name = "once.team_faults", dims(row))]
struct Faults<'a> {
    limit: u32,
    x: Item<'a, ReadWrite<Row<u32>>>,
}

#[kernel(devices)]
impl CpuTeam<Faults<'_>, 8> for Once {
    fn team(_: Index<1>, k: FaultsItem<'_>, team: &mut Team<8>) {
        let mut rounds = 0;
        loop {
            let odd = team.reduce(k.x.len(), 0, |i| k.x[i] % 2, |a, b| a + b);
            if odd == 0 {
                break;
            }
            assert!(rounds < 32, "too many rounds");
            team.map(k.x, |i, x| {
                assert!(x < k.limit, "beyond the limit");
                if x % 2 == 1 { (3 * x).div_ceil(2) + i as u32 % 2 } else { x }
            });
            rounds += 1;
        }
    }
}

#[test]
fn faults() {
    let run = |rt: &RuntimeObj, limit: u32| {
        let x = FlashMemory::from(numbers(20 * 6, 200)).with_shape([20, 6]).unwrap();
        rt.submit(Faults::of(limit, &x)).exec([6])?;
        x.to_vec()
    };
    let expected = run(&cpu(), u32::MAX).unwrap();
    for (device, rt) in devices("teams::faults") {
        assert_eq!(run(&rt, u32::MAX).unwrap(), expected, "{device}");
        let text = run(&rt, 50).expect_err("there are larger ones").to_string();
        assert!(text.contains("beyond the limit") && text.contains("teams.rs:"), "{device}: {text}");
        // No thread stands at a barrier: the device goes on.
        assert_eq!(run(&rt, u32::MAX).unwrap(), expected, "{device}");
    }
    run(&cpu(), 50).expect_err("there are larger ones");
}

/// What has no text: a store inside of an operation.
#[derive(KernelDefinition)]
#[kernel(name = "once.team_races", dims(row))]
struct Races<'a> {
    to: Item<'a, Write<u32>>,
}

#[kernel(devices)]
impl CpuTeam<Races<'_>, 8> for Once {
    fn team(_: Index<1>, k: RacesItem<'_>, team: &mut Team<8>) {
        team.each(8, |i| k.to.set(i as u32));
    }
}

#[test]
fn a_store_inside_of_an_operation_is_an_error() {
    let to = FlashMemory::<u32>::zeroed(3);
    cpu().submit(Races::of(&to)).exec([3]).unwrap();
    assert_eq!(to.to_vec().unwrap(), [7, 7, 7]);
    for (device, rt) in devices("teams::a_store_inside_of_an_operation_is_an_error") {
        let text = rt.submit(Races::of(&to)).exec([3]).expect_err("no text").to_string();
        assert!(text.contains("stores nothing") && text.contains("teams.rs:"), "{device}: {text}");
    }
}

/// Rows of an array that other threads have made element by element, and elements of one that was made by
/// rows; a first sum in a loop that is written turn by turn; and variables with names of the header.
#[derive(KernelDefinition)]
#[kernel(name = "once.team_rows_of_tables", dims(x, y))]
struct RowsOfTables<'a> {
    from: Window<'a, Read<f32>>,
    #[along(x)]
    sums: Item<'a, Write<Block<f32, 64>>>,
    crossed: Item<'a, Write<Tile<f32, 8, 8>>>,
    #[along(x)]
    total: Item<'a, Write<Row<f32>>>,
}

#[kernel(devices)]
impl CpuTeam<RowsOfTables<'_>, 64> for Once {
    fn team(_: Index<2>, mut k: RowsOfTablesItem<'_>, team: &mut Team<64>) {
        let table: [[f32; 8]; 64] = team.shared(|[y, x]| k.from.get(8 * y + x));
        let sums: [f32; 64] = team.shared(|[y]| table[y][0] + table[y][1] * 2.0 + table[y][7]);
        team.set(k.sums, |i| sums[i]);
        let rows: [[f32; 8]; 8] =
            team.shared(|[y]| [k.from.get(y), 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0 + y as f32]);
        team.set_tile(&mut k.crossed, |[y, x]| rows[y][x] + rows[x][y]);
        let mut flash_shared = 0.0;
        for q in 0..3 {
            flash_shared += team.reduce(64, 0.0, |i| sums[i] * q as f32, |a, b| a + b);
        }
        team.set(k.total, |_| flash_shared);
    }
}

#[test]
fn rows_of_an_array_are_other_threads_than_its_elements() {
    compare("teams::rows_of_an_array_are_other_threads_than_its_elements", |rt| {
        let from: Vec<f32> = (0..512).map(|i| (i * 7 % 31) as f32).collect();
        let (sums, total) = (FlashMemory::<f32>::zeroed(64), FlashMemory::<f32>::zeroed([4, 1]));
        let crossed = FlashMemory::<f32>::zeroed([8, 8]);
        rt.submit(RowsOfTables::of(&from, &sums, &crossed, &total)).exec([1, 1]).unwrap();
        let expected: Vec<f32> =
            (0..64).map(|y| from[8 * y] + from[8 * y + 1] * 2.0 + from[8 * y + 7]).collect();
        assert_eq!(sums.to_vec().unwrap(), expected);
        [sums.to_vec().unwrap(), crossed.to_vec().unwrap(), total.to_vec().unwrap()].concat()
    });
}

/// Each row divided by its sum.
#[derive(KernelDefinition)]
#[kernel(name = "once.team_shares", dims(row))]
struct Shares<'a> {
    x: Item<'a, ReadWrite<Row<f32>>>,
}

#[kernel(devices)]
impl CpuTeam<Shares<'_>, 64> for Once {
    fn team(_: Index<1>, k: SharesItem<'_>, team: &mut Team<64>) {
        let sum = team.reduce(k.x.len(), 0.0, |i| k.x[i], |a, b| a + b);
        team.map(k.x, |_, x| x / sum);
    }
}

#[test]
fn a_text_has_the_barriers_that_it_needs() {
    let all = texts();
    let text = &all.iter().find(|text| text.kernel == "once.team_shares").expect("it is registered").text;
    let (_, kernel) = text.split_once("FLASH_KERNEL ").expect("the kernel");
    let expected = "\
flash_kernel(FLASH_GLOBAL float *x_3, FLASH_ARGS) {
    FLASH_LOCAL float flash_shared_6[64];
    FLASH_FOR_ITEMS {
        const flash_u64 flash_lane = FLASH_LANE();
        const flash_u64 index_2 = FLASH_INDEX(0);
        const flash_u64 own_4 = FLASH_OWN_INDEX(x_3);
        const flash_u64 count_5 = FLASH_ROW_LEN(x_3);
        float part_7 = 0.0f;
        for (flash_u64 slot_8 = flash_lane; slot_8 < count_5; slot_8 += 64ul) {
            const float t_10 = FLASH_AT(x_3, FLASH_IN_ROW(own_4, FLASH_ROW_LEN(x_3), slot_8));
            const float t_12 = part_7;
            part_7 = (t_12 + t_10);
        }
        const float t_13 = part_7;
        flash_shared_6[flash_lane] = t_13;
        FLASH_MEET();
        for (int half_14 = 32; half_14 > 0; half_14 /= 2) {
            if (flash_lane < half_14) {
                const float t_16 = flash_shared_6[flash_lane];
                const float t_17 = flash_shared_6[flash_lane + half_14];
                flash_shared_6[flash_lane] = (t_16 + t_17);
            }
            FLASH_MEET();
        }
        const float t_18 = flash_shared_6[0];
        for (flash_u64 slot_19 = flash_lane; slot_19 < FLASH_ROW_LEN(x_3); slot_19 += 64ul) {
            const float x_21 = FLASH_PROVED(x_3, own_4 + slot_19, FLASH_OF(x_3).origin);
            FLASH_PROVED(x_3, own_4 + slot_19, FLASH_OF(x_3).origin) = (x_21 / t_18);
        }
    }
}
";
    assert_eq!(kernel, expected);
}
