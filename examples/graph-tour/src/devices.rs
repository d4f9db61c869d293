//! Kernels as nodes, and a part of a graph for each device.

use anyhow::Result;
use flash::Context;
use flash::kernels::ewmm::Ewmm;
use flash::prelude::*;
use flash_examples::expect;
use flash_graph::{Cx, Graph, Out, Pool, Pooled, Route};
use std::collections::HashMap;

const N: usize = 4096;

/// Two arrays and their product, element by element.
struct Product {
    a: FlashMemory<f32>,
    b: FlashMemory<f32>,
    c: FlashMemory<f32>,
}

/// A node that launches a kernel for each datum, two at a time. No thread waits for them, and the memories
/// move to the device by themselves.
pub fn kernel() -> Result<String> {
    let rt = get_runtime("ALL_ACCEL")?;
    let devices = rt.devices().len();
    let g = Graph::new("kernel");
    let (numbers, sums) = (g.input::<u32>("numbers"), g.output::<f64>("sums"));
    let make = g.map("make", |x: u32| Product {
        a: FlashMemory::from(vec![x as f32; N]),
        b: FlashMemory::from(vec![2.0; N]),
        c: FlashMemory::zeroed(N),
    });
    let multiply = g.launch("multiply", 2, move |Product { a, b, c }: &Product| {
        Ok(rt.submit(Ewmm::<f32>::of(N as u64, a.clone(), b.clone(), c.clone())).defer([N]))
    });
    let sum =
        g.try_map("sum", |product: Product| Ok(product.c.read()?.iter().map(|&x| f64::from(x)).sum::<f64>()));
    g.edge(&numbers, &make);
    g.edge(&make.out, &multiply);
    g.edge(&multiply.out, &sum);
    g.edge(&sum.out, &sums);
    let run = g.start()?;
    run.push_all(&numbers, 1..=20)?;
    run.close();
    let total: f64 = run.results(&sums).sum();
    run.wait()?;
    expect(total, 2.0 * 210.0 * N as f64)?;
    Ok(format!("20 launches on {devices} device(s)"))
}

/// A part of the graph for each device, with a runtime of that device alone. A route says which part a tile
/// goes to: here in turns. Four tiles bound the memory.
pub fn pipelines() -> Result<String> {
    struct Tile {
        number: usize,
        data: Pooled<FlashMemory<f32>>,
        device: String,
    }
    // Two devices with memories of their own, on any machine.
    let rt = Context::builder().set("cpu.devices", 2).set("cpu.copy", true).build()?.runtime("ALL_CPU")?;
    let tiles = Pool::new("tiles", 4, || FlashMemory::<f32>::zeroed(N));

    let g = Graph::new("devices");
    let (numbers, sums) = (g.input::<usize>("numbers"), g.output::<(String, usize, f32)>("sums"));
    let pool = tiles.clone();
    let fill = g.each("fill", move |number: usize, out: &mut Out<Tile>, cx: &mut Cx<'_>| {
        let data = pool.take(cx);
        data.write()?.fill(number as f32);
        out.emit(Tile { number, data, device: String::new() });
        Ok(())
    });
    let fill = fill.takes(&tiles, 1);
    let sum = g.try_map("sum", |Tile { number, data, device }: Tile| {
        let sum = data.read()?.iter().sum();
        Ok((device, number, sum))
    });
    let route = Route::by(|tile: &Tile| tile.number);
    let devices = g.for_each_device("devices", &rt, &route, |g, rt, from| {
        let device = rt.devices()[0].id().to_string();
        let two = FlashMemory::from(vec![2.0f32; N]);
        let double = g.launch("double", 2, move |tile: &Tile| {
            let doubled = FlashMemory::<f32>::zeroed(N);
            let twice = Ewmm::<f32>::of(N as u64, (*tile.data).clone(), two.clone(), doubled.clone());
            let back = Ewmm::<f32>::of(N as u64, doubled, two.clone(), (*tile.data).clone());
            Ok(rt.submit(twice).defer([N]).submit(back).defer([N]))
        });
        let named = g.map("name", move |tile: Tile| Tile { device: device.clone(), ..tile });
        g.edge(from, &double);
        g.edge(&double.out, &named);
        g.edge(&named.out, &sum);
    });
    g.edge(&numbers, &fill);
    g.edge(&fill.out, &devices);
    g.edge(&sum.out, &sums);
    let run = g.start()?;
    run.push_all(&numbers, 0..100)?;
    run.close();
    let mut of_device: HashMap<String, usize> = HashMap::new();
    for (device, number, sum) in run.results(&sums) {
        expect(sum, 4.0 * (number * N) as f32)?;
        *of_device.entry(device).or_default() += 1;
    }
    run.wait()?;
    let mut names: Vec<_> = of_device.keys().cloned().collect();
    names.sort();
    expect(of_device.into_values().collect::<Vec<_>>(), vec![50, 50])?;
    Ok(format!("50 tiles on each of {}", names.join(" and ")))
}
