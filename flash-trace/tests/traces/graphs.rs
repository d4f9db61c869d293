//! Traces of graphs.

use crate::{alone, shown};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_graph::Graph;

#[test]
fn each_batch_is_a_span_with_an_arrow_from_what_brought_it() {
    let (_guard, trace) = alone();
    let g = Graph::new("chain");
    let (input, output) = (g.input::<u32>("numbers"), g.output::<u32>("sums"));
    let first = g.map("first", |x: u32| x + 1);
    let second = g.scope("inner", |g| g.map("second", |x: u32| x * 2).replicas(2));
    g.edge(&input, &first);
    g.edge(&first.out, &second);
    g.edge(&second.out, &output);
    let run = g.start().unwrap();
    run.push_all(&input, 0..1000).unwrap();
    run.close();
    assert_eq!(run.results(&output).count(), 1000);
    run.wait().unwrap();
    let shown = shown(&trace.end());
    for (name, replicas) in [("first", 1), ("inner/second", 2)] {
        let batches = shown.named(name);
        let data: u64 = batches.iter().map(|batch| batch.args["data"].as_u64().unwrap()).sum();
        assert_eq!(data, 1000);
        for batch in batches {
            assert_eq!(batch.category, "node");
            assert!(batch.args["replica"].as_u64().unwrap() < replicas);
            // The one with no data finishes the replica.
            let arrows = shown.flows.iter().filter(|flow| flow.to.0 == batch.row);
            let arrows = arrows.filter(|flow| (batch.begin..=batch.end).contains(&flow.to.1));
            assert!(batch.args["data"] == 0 || arrows.count() >= 1, "{batch:?}");
        }
        let queue = &shown.counters[&format!("{name}: waiting")];
        assert!(queue.iter().any(|len| *len > 0.0) && *queue.last().unwrap() == 0.0, "{queue:?}");
    }
    let to_second = shown.flows.iter().filter(|flow| shown.at(flow.to).name == "inner/second");
    for flow in to_second {
        assert_eq!((shown.at(flow.from).name.as_str(), flow.name.as_str()), ("first", "u32"));
    }
}

#[test]
fn two_graphs_at_once_and_a_panic_inside_give_a_valid_trace() {
    let (_guard, trace) = alone();
    std::thread::scope(|s| {
        for name in ["good", "bad"] {
            s.spawn(move || {
                let g = Graph::new(name);
                let (input, output) = (g.input::<u32>("in"), g.output::<u32>("out"));
                let node = g.map(name, move |x: u32| {
                    assert!(name == "good" || x < 50, "too much");
                    x
                });
                let node = node.by_priority(|x: &u32| i64::from(*x % 7));
                g.edge(&input, &node);
                g.edge(&node.out, &output);
                let run = g.start().unwrap();
                let _ = run.push_all(&input, 0..500);
                assert_eq!(run.wait().is_ok(), name == "good");
            });
        }
    });
    let shown = shown(&trace.end());
    assert!(!shown.named("good").is_empty() && !shown.named("bad").is_empty());
    let of = |name: &str| shown.flows.iter().filter(|flow| shown.at(flow.to).name == name).count();
    assert!(of("good") > 0 && of("bad") > 0);
}

#[derive(KernelDefinition)]
#[kernel(name = "traces.add", dims(i))]
struct Add<'a> {
    x: Item<'a, ReadWrite<f32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.x += 1.0;
    }
}

#[test]
fn launches_have_rows_of_their_devices() {
    let (_guard, trace) = alone();
    let rt = flash::get_runtime("ALL_CPU").unwrap().options(&trace.profile());
    let x = FlashMemory::<f32>::zeroed(1000);
    for _ in 0..3 {
        let _span = flash_trace::span("launches");
        rt.submit(Add::of(x.clone())).exec([1000]).unwrap();
    }
    let shown = shown(&trace.end());
    let device = shown.rows.iter().find(|(_, name)| *name == "ALL_CPU:0").expect("a row of the device").0;
    assert_eq!(device.0, 2, "devices are a process of their own");
    let launches = shown.named("traces.add");
    assert_eq!(launches.len(), 3);
    for (launch, caller) in launches.iter().zip(shown.named("launches")) {
        assert_eq!((launch.row, launch.category.as_str()), (*device, "launch"));
        assert!(caller.begin <= launch.begin && launch.end <= caller.end, "{launch:?} {caller:?}");
        assert!(launch.args["device ns"].as_u64().unwrap() > 0);
    }
}
