//! Groups of equal arguments, by constants and by indices of the text.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_core::devices::texts;
use flash_tests_once::{compare, cpu, devices};
use std::array::from_fn;

#[derive(Clone, Copy, Debug, PartialEq, Element, Staged)]
#[repr(C)]
struct Pair {
    low: u32,
    high: u32,
}

/// Every view in groups; which argument is used is data.
#[derive(KernelDefinition)]
#[kernel(name = "once.groups", dims(x, y))]
struct Groups<'a> {
    width: u64,
    #[along(x)]
    which: Item<'a, Read<u32>>,
    table: [Whole<'a, Read<u32>>; 3],
    near: [Window<'a, Read<Pair>>; 2],
    #[along(y)]
    row: [Item<'a, Read<Row<u32>>>; 2],
    own: [Item<'a, Read<u32>>; 2],
    both: [Item<'a, ReadWrite<Pair>>; 3],
    bins: [Scatter<'a, u32>; 2],
    sums: [Reduce<'a, ReadWrite<u64>, Sum>; 2],
    most: [Reduce<'a, Write<[u32]>, Max>; 2],
    to: [Item<'a, Write<u32>>; 3],
}

struct GroupsOnce;

#[kernel_fn]
fn total(pair: Pair) -> u32 {
    pair.low + pair.high
}

/// The first elements of some array.
#[kernel_fn]
fn first(table: &[u32]) -> u32 {
    table[0] + table.len() as u32
}

#[kernel(devices)]
impl CpuItem<Groups<'_>> for GroupsOnce {
    fn item(ix: Index<2>, mut k: GroupsItem<'_>) {
        let [x, y] = ix.values();
        let q = *k.which as usize;
        let mut sum = first(k.table[2]);
        for table in k.table {
            sum += table[x % table.len()];
        }
        for p in 0..2 {
            sum += total(k.near[p].at([x, y, 0])) * k.near[p].len() as u32;
            sum += k.row[p][x] + *k.own[p];
            k.bins[p].add(q, 1);
            k.sums[p].put((x + y * k.width as usize) as u64 + p as u64);
            k.most[p].put(q, x as u32);
            k.both[p + 1].high += sum;
        }
        k.both[0].low += k.table[q][x % 4];
        *k.both[q] = Pair { low: k.both[q].low + 1, high: k.both[q].high };
        for p in (0..3).rev() {
            k.to[p].set(sum * (p as u32 + 1));
        }
    }
}

#[test]
fn groups() {
    let (w, h) = (13_usize, 9_usize);
    let n = w * h;
    let values = |n: usize, by: usize| (0..n).map(move |i| ((i * by) % 101) as u32);
    let pairs = |by: usize| -> FlashMemory<Pair> {
        let pairs: Vec<Pair> = values(n, by).map(|v| Pair { low: v, high: 3 * v }).collect();
        FlashMemory::from(pairs).with_shape([w, h]).unwrap()
    };
    compare("groups::groups", |rt| {
        let which: FlashMemory<u32> = (0..w as u32).map(|x| x * x % 3).collect();
        let table: [FlashMemory<u32>; 3] = from_fn(|q| values(4 + q, 7 + q).collect());
        let [near, both] = [[3, 5, 9], [11, 13, 17]].map(|by| by.map(pairs));
        let row: [FlashMemory<u32>; 2] =
            from_fn(|q| values(n, q + 2).collect::<FlashMemory<u32>>().with_shape([w, h]).unwrap());
        let own: [FlashMemory<u32>; 2] = from_fn(|q| values(n, q + 19).collect());
        let bins: [FlashMemory<u32>; 2] = from_fn(|_| FlashMemory::zeroed(3));
        let sums: [FlashMemory<u64>; 2] = from_fn(|q| FlashMemory::from(vec![q as u64]));
        let most: [FlashMemory<u32>; 2] = from_fn(|_| FlashMemory::zeroed(3));
        let to: [FlashMemory<u32>; 3] = from_fn(|_| FlashMemory::zeroed(n));
        let near = [&near[0], &near[2]];
        let groups = Groups::of(w as u64, &which, &table, near, &row, &own, &both, &bins, &sums, &most, &to);
        rt.submit(groups).exec([w as u64, h as u64]).unwrap();
        let mut all: Vec<u32> =
            to.iter().chain(&bins).chain(&most).flat_map(|m| m.to_vec().unwrap()).collect();
        all.extend(both.iter().flat_map(|m| m.to_vec().unwrap()).flat_map(|pair| [pair.low, pair.high]));
        all.extend(sums.iter().map(|sum| sum.get(0).unwrap() as u32));
        all
    });
}

/// Two buffers each, of which a step writes the own elements.
#[derive(KernelDefinition)]
#[kernel(name = "once.groups_drift", dims(i, step), group_by(step))]
struct Drift<'a> {
    #[along(i)]
    of: [Phased<'a, u64>; 2],
}

#[kernel(devices)]
impl CpuItem<Drift<'_>> for GroupsOnce {
    fn item(ix: Index<2>, mut k: DriftItem<'_>) {
        for q in 0..2 {
            let next = k.of[1 - q].get((ix[0] + 1) % k.of[q].len());
            k.of[q].set(next.wrapping_mul(3) ^ k.of[q].own());
        }
    }
}

#[test]
fn phased() {
    compare("groups::phased", |rt| {
        let of: [FlashMemory<u64>; 2] = from_fn(|q| (0..100).map(|i| i * (q as u64 + 5)).collect());
        rt.submit(Drift::of(&of)).exec([100, 3]).unwrap();
        of.map(|of| of.to_vec().unwrap()).concat()
    });
}

/// An index of the group that may be too large.
#[derive(KernelDefinition)]
#[kernel(name = "once.groups_fault", dims(i))]
struct Fault<'a> {
    which: u64,
    from: [Whole<'a, Read<u32>>; 2],
    to: [Item<'a, Write<u32>>; 2],
}

#[kernel(devices)]
impl CpuItem<Fault<'_>> for GroupsOnce {
    fn item(ix: Index<1>, k: FaultItem<'_>) {
        k.to[0].set(k.from[k.which as usize][ix[0]]);
        k.to[1].set(0);
    }
}

fn at(rt: &RuntimeObj, which: u64, len: u64) -> Result<u32, flash::Error> {
    let from: [FlashMemory<u32>; 2] = from_fn(|q| (0..8).map(|i| 10 * q as u32 + i).collect());
    let to: [FlashMemory<u32>; 2] = from_fn(|_| FlashMemory::zeroed(len));
    rt.submit(Fault::of(which, &from, &to)).exec([len])?;
    to[0].get(3)
}

#[test]
fn faults() {
    for (device, rt) in devices("groups::faults") {
        assert_eq!([at(&rt, 0, 8).unwrap(), at(&rt, 1, 8).unwrap()], [3, 13], "{device}");
        let text = at(&rt, 2, 8).expect_err("no such argument").to_string();
        assert!(text.contains("an index outside an array of 2") && text.contains("groups.rs:"), "{text}");
        // The number of the array is known when the text runs.
        let text = at(&rt, 1, 9).expect_err("no such element").to_string();
        assert!(text.contains("from_1") && text.contains('8'), "{device}: {text}");
    }
    at(&cpu(), 2, 8).expect_err("no such argument");
}

#[test]
fn an_argument_is_chosen_where_its_number_is_no_constant() {
    let all = texts();
    let text = &all.iter().find(|text| text.kernel == "once.groups_fault").expect("it is registered").text;
    let (_, kernel) = text.split_once("FLASH_KERNEL ").expect("the kernel");
    let expected = "\
flash_kernel(const flash_u64 which_3, FLASH_GLOBAL const flash_u32 *from_0_4, \
FLASH_GLOBAL const flash_u32 *from_1_5, FLASH_GLOBAL flash_u32 *to_0_6, FLASH_GLOBAL flash_u32 *to_1_8, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 index_2 = FLASH_INDEX(0);
        const flash_u64 own_7 = FLASH_OWN_INDEX(to_0_6);
        const flash_u64 own_9 = FLASH_OWN_INDEX(to_1_8);
        const flash_u64 t_10 = flash_inside(((flash_u64)which_3), 2ul, 0, flash_table);
        const flash_u64 FLASH_ARRAY_from_11 = FLASH_ARRAY_from_0_4 + t_10;
        const flash_u64 FLASH_STRIDES_from_11 = FLASH_STRIDES_from_0_4 + t_10;
        FLASH_GLOBAL const flash_u32 *const from_11 = (t_10 < 1 ? from_0_4 : from_1_5);
        const flash_u32 t_12 = FLASH_AT(from_11, index_2);
        FLASH_PROVED(to_0_6, own_7, FLASH_OF(to_0_6).origin) = t_12;
        FLASH_PROVED(to_1_8, own_9, FLASH_OF(to_1_8).origin) = 0u;
    }
}
";
    assert_eq!(kernel, expected);
}
