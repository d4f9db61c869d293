//! Every kernel over several devices.

use crate::numbers;
use flash::kernels::trsm::{Diagonal, Side};
use flash::kernels::{Csr, conv1d, ewmd, ewmm, gemm, js, mmm, mvm, smmm, spmv, star, syrk, trsm, vdp};
use flash::prelude::*;
use flash_tests::plugins::{self, text_of};
use std::collections::BTreeSet;

/// The results of each kernel for fixed arguments, as bits, and the devices that ran it.
fn results(rt: &RuntimeObj) -> Vec<(&'static str, Vec<u32>, BTreeSet<String>)> {
    let (profile, mut results) = (Profile::new(), Vec::new());
    let rt = rt.options(&profile);
    let mut done = |kernel, result: &FlashMemory<f32>| {
        let bits = result.read().unwrap().iter().map(|x| x.to_bits()).collect();
        results.push((kernel, bits, profile.take().into_iter().map(|launch| launch.device).collect()));
    };
    let n = 40_000;
    let (a, b) = (FlashMemory::from(numbers::<f32>(n, 21)), FlashMemory::from(numbers::<f32>(n, 22)));
    let (to, one) = (FlashMemory::zeroed(n), FlashMemory::zeroed(1));
    rt.submit(ewmm(&a, &b, &to).unwrap()).exec([n]).unwrap();
    done("flash.ewmm", &to);
    rt.submit(ewmd(&a, &b, &to).unwrap()).exec([n]).unwrap();
    done("flash.ewmd", &to);
    rt.submit(vdp(&a, &b, &one).unwrap()).exec([n]).unwrap();
    done("flash.vdp", &one);
    let (filter, out) = (FlashMemory::from(numbers::<f32>(9, 23)), FlashMemory::zeroed(n - 8));
    rt.submit(conv1d(&filter, &a, &out).unwrap()).exec([n - 8]).unwrap();
    done("flash.conv1d", &out);

    let square = |seed| FlashMemory::from(numbers::<f32>(n, seed)).with_shape([200, 200]).unwrap();
    let (left, right, product) = (square(24), square(25), square(26));
    // Another library may have other bits for other numbers of rows.
    let rows = rt.options(Implementation::named("blocked"));
    rows.submit(mmm([200, 200, 200], &left, &right, &product).unwrap()).exec([200]).unwrap();
    done("flash.mmm", &product);
    rows.submit(gemm(0.5, &left, &right, -1.0, &product).unwrap()).exec([200]).unwrap();
    done("flash.gemm", &product);
    rows.submit(syrk(0.5, &left, -1.0, &product).unwrap()).exec([200]).unwrap();
    done("flash.syrk", &product);
    let kernel = trsm(Side::Right, &left, Diagonal::Unit, 1e-3, &product).unwrap();
    rows.submit(kernel).exec([200]).unwrap();
    done("flash.trsm", &product);
    let (x, y) = (FlashMemory::from(numbers::<f32>(200, 27)), FlashMemory::zeroed(200));
    rt.submit(mvm([200, 200], &left, &x, &y).unwrap()).exec([200]).unwrap();
    done("flash.mvm", &y);
    let start: FlashMemory<u64> = (0..=200u64).map(|row| 3 * row).collect();
    let column: FlashMemory<u32> = (0..600u32).map(|i| i * 7 % 200).collect();
    let value = FlashMemory::from(numbers::<f32>(600, 28));
    let sparse = Csr::new([200, 200], start, column, value).unwrap();
    rt.submit(smmm(&sparse, &right, &product).unwrap()).exec([200]).unwrap();
    done("flash.smmm", &product);
    rt.submit(spmv(&sparse, &x, &y).unwrap()).exec([200]).unwrap();
    done("flash.spmv", &y);

    let cube = |seed| FlashMemory::from(numbers::<f32>(n, seed)).with_shape([20, 20, 100]).unwrap();
    let (from, f, next) = (cube(29), cube(30), cube(29));
    let sweep = |from, to| js(0.5, from, &f, to).unwrap();
    rt.submit(sweep(&from, &next))
        .defer((1..19, 1..19, 1..99))
        .submit(sweep(&next, &from))
        .exec((1..19, 1..19, 1..99))
        .unwrap();
    done("flash.js", &from);
    rt.submit(star(&from, &next).unwrap())
        .defer((2..18, 2..18, 2..98))
        .submit(star(&next, &from).unwrap())
        .exec((2..18, 2..18, 2..98))
        .unwrap();
    done("flash.star", &from);
    results
}

#[test]
fn every_kernel_runs_on_three_devices_and_gives_the_bits_of_one() {
    let context = flash_tests::context(&[("cpu.devices", "3")]);
    let all = context.runtime("ALL_CPU").unwrap();
    let one = results(&context.runtime("ALL_CPU:0").unwrap());
    let three = results(&all.options(weights([2, 1, 1])));
    for ((kernel, bits, on), (_, expected, _)) in three.iter().zip(&one) {
        assert!(bits == expected, "{kernel}: three devices give other bits than one");
        assert_eq!(on.len(), 3, "{kernel} ran on {on:?}");
    }
}

/// Set for the processes of a world, whose first one runs the kernels: the key.
const ON_AGENTS: &str = "FLASH_TEST_KERNELS_ON_AGENTS";

#[test]
fn every_kernel_has_the_same_bits_on_devices_of_agents() {
    const TEST: &str = "together::every_kernel_has_the_same_bits_on_devices_of_agents";
    if let Ok(key) = std::env::var(ON_AGENTS) {
        // The agents come here, too.
        agent_here();
        let one = results(&get_runtime("ALL_CPU:0").unwrap());
        let rt = get_runtime(&key).unwrap();
        let devices = rt.devices().len();
        let there = results(&rt.options(weights(vec![1; devices])));
        for ((kernel, bits, on), (_, expected, _)) in there.iter().zip(&one) {
            assert!(bits == expected, "{kernel} on {key} has other bits than in this process");
            assert_eq!(on.len(), devices, "{kernel} ran on {on:?}");
        }
        println!("{devices} devices");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let program = [this.to_str().unwrap(), "--exact", TEST, "--nocapture"];
    let all = [("1", "ALL_CPU@agent", 1), ("2", "RANK", 1), ("3", "RANK", 2), ("5", "RANK", 4)];
    for (ranks, key, devices) in all.into_iter().chain([("3", "ALL_CPU,RANK", 3)]) {
        let line = [&["run", "-n", ranks, "--"][..], &program].concat();
        let output = plugins::flash("", &line).env(ON_AGENTS, key).output().unwrap();
        let text = text_of(&output);
        let ran = text.contains(&format!("{devices} devices")) && text.contains("1 passed");
        assert!(output.status.success() && ran, "{key} in {ranks} processes: {text}");
    }
}
