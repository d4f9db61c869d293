//! Launches as nodes, routes, and a part of a graph for each device.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Context, HostTask};
use flash_backend_test as _; // The key TEST.
use flash_graph::{Cx, Error, Graph, GraphError, Input, Out, Output, Route, Run, devices_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

type Done = Result<(), Error>;

/// y = a y.
#[derive(KernelDefinition)]
#[kernel(name = "graph.scale", dims(i))]
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

fn runtime(setup: &str) -> Result<RuntimeObj, flash::Error> {
    Context::builder().set("test.setup", setup).build()?.runtime("TEST")
}

type Vector = FlashMemory<f32>;

#[test]
fn launches_are_in_flight_and_the_end_waits_for_them() -> Done {
    let rt = runtime("devices=1 ns=20000")?;
    let g = Graph::new("launches");
    let (a, c) = (g.input::<(usize, Vector)>("a"), g.output::<(usize, Vector)>("c"));
    let scale = g.launch("scale", 3, move |(_, y): &(usize, Vector)| {
        Ok(rt.submit(Scale::of(2.0, y.clone())).defer([y.len()]))
    });
    g.edge(&a, &scale);
    g.edge(&scale.out, &c);
    let run = g.start()?;
    run.push_all(&a, (0..50).map(|i| (i, FlashMemory::from(vec![i as f32; 8]))))?;
    run.close();
    let mut results: Vec<(usize, Vector)> = run.results(&c).collect();
    run.wait()?;
    results.sort_by_key(|(i, _)| *i);
    assert_eq!(results.len(), 50);
    for (i, (number, y)) in results.iter().enumerate() {
        assert_eq!((*number, y.get(7)?), (i, 2.0 * i as f32));
    }
    Ok(())
}

#[test]
fn no_more_launches_are_in_flight_than_asked_for() -> Done {
    let rt = get_runtime("ALL_CPU")?;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let g = Graph::new("limit");
    let (a, c) = (g.input::<Vector>("a"), g.output::<Vector>("c"));
    let greatest = most.clone();
    let launch = g.launch("blocks", 2, move |y: &Vector| {
        let (now, most) = (now.clone(), greatest.clone());
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let task = HostTask::new("blocks").write(y.clone()).blocking();
        Ok(rt.pipeline().host(task, move |_| {
            std::thread::sleep(Duration::from_millis(2));
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }))
    });
    g.edge(&a, &launch);
    g.edge(&launch.out, &c);
    let run = g.start()?;
    run.push_all(&a, (0..20).map(|_| FlashMemory::zeroed(1)))?;
    run.close();
    assert_eq!(run.results(&c).count(), 20);
    run.wait()?;
    assert_eq!(most.load(Ordering::SeqCst), 2);
    Ok(())
}

#[test]
fn a_launch_that_fails_ends_the_graph() -> Done {
    let rt = runtime("devices=1 fail=0:launch:3")?;
    let g = Graph::new("fails");
    let a = g.input::<Vector>("a");
    let scale = g.launch("scale", 1, move |y: &Vector| Ok(rt.submit(Scale::of(2.0, y.clone())).defer([1])));
    g.edge(&a, &scale);
    g.ignore(&scale.out);
    let run = g.start()?;
    // It fails in the middle, or all fit.
    let _ = run.push_all(&a, (0..1000).map(|_| FlashMemory::zeroed(1)));
    let Err(GraphError::Failed { node, text, .. }) = run.wait() else { panic!("a launch failed") };
    assert_eq!(node, "scale");
    assert!(text.contains("TEST"), "{text}");
    Ok(())
}

#[test]
fn each_device_has_a_part_of_the_graph() -> Done {
    let rt = runtime("devices=3")?;
    assert_eq!(devices_of(&rt).iter().map(|rt| rt.devices().len()).collect::<Vec<_>>(), [1, 1, 1]);
    let g = Graph::new("devices");
    let (a, c) = (g.input::<(usize, Vector)>("a"), g.output::<(String, usize)>("c"));
    let route = Route::by(|(i, _): &(usize, Vector)| *i);
    let parts = g.for_each_device("devices", &rt, &route, |g, rt, from| {
        let id = rt.devices()[0].id().to_string();
        let scale = g.launch("scale", 2, move |(_, y): &(usize, Vector)| {
            Ok(rt.submit(Scale::of(2.0, y.clone())).defer([y.len()]))
        });
        let name = g.each(
            "name",
            move |(i, _): (usize, Vector), out: &mut Out<(String, usize)>, cx: &mut Cx<'_>| {
                assert_eq!(cx.name(), format!("{id}/name"));
                out.emit((id.clone(), i));
                Ok(())
            },
        );
        g.edge(from, &scale);
        g.edge(&scale.out, &name);
        g.edge(&name.out, &c);
    });
    g.edge(&a, &parts);
    let run = g.start()?;
    run.push_all(&a, (0..30).map(|i| (i, FlashMemory::zeroed(4))))?;
    run.close();
    let mut results: Vec<(usize, String)> = run.results(&c).map(|(id, i)| (i, id)).collect();
    run.wait()?;
    results.sort_unstable();
    let expected: Vec<(usize, String)> = (0..30).map(|i| (i, rt.devices()[i % 3].id().to_string())).collect();
    assert_eq!(results, expected);
    Ok(())
}

/// What goes to each of three outputs.
fn routed(
    route: &Route<usize>,
    push: impl FnOnce(&Run, &Input<usize>, &[Output<usize>; 3]) -> [Vec<usize>; 3],
) -> Result<[Vec<usize>; 3], Error> {
    let g = Graph::new("routed");
    let a = g.input::<usize>("a");
    let router = g.router("router", 3, route);
    g.edge(&a, &router);
    let outs = [0, 1, 2].map(|i| {
        let out = g.output::<usize>(&format!("c{i}"));
        g.edge(&router.out[i], &out);
        out
    });
    let run = g.start()?;
    let mut results = push(&run, &a, &outs);
    run.close();
    for (out, results) in outs.iter().zip(&mut results) {
        results.extend(run.results(out));
    }
    run.wait()?;
    Ok(results)
}

#[test]
fn a_job_is_a_set_of_data_and_a_route_changes_while_the_graph_runs() -> Done {
    // The multiples of 1, 2 and 3.
    let route = Route::jobs(|x: &usize, i| x.is_multiple_of(i + 1));
    let changed = route.clone();
    let results = routed(&route, |run, a, outs| {
        run.push_all(a, 1..=6).expect("it is open");
        let first: Vec<usize> = run.results(&outs[0]).take(6).collect();
        changed.change(Route::by(|_| 2));
        run.push_all(a, 7..=8).expect("it is open");
        [first, vec![], vec![]]
    })?;
    assert_eq!(results, [vec![1, 2, 3, 4, 5, 6], vec![2, 4, 6], vec![3, 6, 7, 8]]);
    Ok(())
}

#[test]
fn what_belongs_to_no_job_is_an_error() {
    let none = Route::jobs(|_: &usize, _| false);
    let push = |run: &Run, a: &Input<usize>, _: &[Output<usize>; 3]| {
        run.push(a, 1).expect("it is open");
        [vec![], vec![], vec![]]
    };
    let error = routed(&none, push).expect_err("no job");
    assert_eq!(
        error.to_string(),
        "node `router` (replica 0) failed: the datum belongs to no job: expected one of an output"
    );
}

#[test]
fn the_least_loaded_of_parts_takes_the_next_datum_though_another_is_stopped() -> Done {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let g = Graph::new("least loaded");
    let (a, c, d) = (g.input::<usize>("a"), g.output::<usize>("c"), g.output::<usize>("d"));
    let router = g.router("router", 2, &Route::least_loaded()).inbox(1);
    let stopped = g.map("stopped", move |x: usize| {
        gate.lock().unwrap().recv().ok();
        x
    });
    let stopped = stopped.inbox(2).dedicated();
    let runs = g.map("runs", |x: usize| x).inbox(2);
    g.edge(&a, &router);
    g.edge(&router.out[0], &stopped);
    g.edge(&router.out[1], &runs);
    g.edge(&stopped.out, &c);
    g.edge(&runs.out, &d);
    let run = g.start()?;
    // The stopped one holds a few, the other takes the rest.
    run.push_all(&a, 0..1000)?;
    let mut others = run.results(&d);
    for _ in 0..990 {
        assert!(others.next().is_some());
    }
    drop(open);
    run.close();
    assert_eq!(run.results(&c).count() + run.results(&d).count(), 10);
    run.wait()?;
    Ok(())
}
