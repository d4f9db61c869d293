//! The graph whose picture is in `docs/graphs.md`: a pipeline over two devices, with a pool of tiles and a
//! node that is too slow.
//!
//! `cargo run --release -p flash-graph --example picture -- GRAPH.svg [TRACE.json]`

use flash::Context;
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_graph::{Cx, Error, Graph, Out, Pool, Pooled, Route};
use flash_trace::Trace;
use std::time::Duration;

/// y = a y.
#[derive(KernelDefinition)]
#[kernel(name = "picture.scale", dims(i))]
struct Scale<'a> {
    a: f32,
    y: Item<'a, ReadWrite<f32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Scale<'_>> for Plain {
    fn item(_: Index<1>, k: ScaleItem<'_>) {
        *k.y *= k.a;
    }
}

struct Tile {
    number: usize,
    data: Pooled<FlashMemory<f32>>,
}

fn main() -> Result<(), Error> {
    let mut files = std::env::args_os().skip(1);
    let (Some(picture), trace) = (files.next(), files.next()) else {
        return Err("expected the name of a file for the picture, and perhaps of one for a trace".into());
    };
    let recorder = Trace::start();
    let context = Context::builder().set("cpu.devices", 2).set("cpu.copy", true).build()?;
    let rt = context.runtime("ALL_CPU")?.options(&recorder.profile());
    let tiles = Pool::new("tiles", 4, || FlashMemory::<f32>::zeroed(1 << 16));

    let g = Graph::new("scaled");
    let (numbers, sums) = (g.input::<usize>("numbers"), g.output::<f32>("sums"));
    let pool = tiles.clone();
    let fill = g.each("fill", move |number: usize, out: &mut Out<Tile>, cx: &mut Cx<'_>| {
        let data = pool.take(cx);
        data.write()?.fill(number as f32);
        out.emit(Tile { number, data });
        Ok(())
    });
    let fill = fill.takes(&tiles, 1);
    let sum = g.try_map("sum", |tile: Tile| {
        let sum: f32 = tile.data.read()?.iter().sum();
        std::thread::sleep(Duration::from_micros(200));
        Ok((tile.number, sum))
    });
    let devices = g.for_each_device("devices", &rt, &Route::least_loaded(), |g, rt, from| {
        let scale = g.launch("scale", 2, move |tile: &Tile| {
            Ok(rt.submit(Scale::of(2.0, (*tile.data).clone())).defer([1 << 16]))
        });
        g.edge(from, &scale);
        g.edge(&scale.out, &sum);
    });
    let check = g.map("check", |(_, sum): (usize, f32)| sum).inbox(8);
    g.edge(&numbers, &fill);
    g.edge(&fill.out, &devices);
    g.edge(&sum.out, &check);
    g.edge(&check.out, &sums);

    let run = g.start()?;
    let drawn = run.picture();
    run.push_all(&numbers, 0..500)?;
    run.close();
    println!("{} sums", run.results(&sums).count());
    run.wait()?;
    drawn.write(picture)?;
    let recording = recorder.end();
    trace.map_or(Ok(()), |trace| recording.write_perfetto(trace))?;
    Ok(())
}
