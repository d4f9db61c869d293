use super::{Order, Region, Ticket, Touch};
use crate::memory::region::Grid;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

fn all() -> Vec<Touch<Region>> {
    let all = Region::all(&Grid::new(&[], 10));
    vec![Touch { memory: 1, touched: all.clone(), written: Some(all) }]
}

#[test]
fn any_number_may_withdraw_behind_one_that_is_there() {
    let order: Arc<Order<Region>> = Arc::default();
    let first = order.line_up(&all(), []);
    for _ in 0..if cfg!(miri) { 100 } else { 200_000 } {
        order.withdraw(order.line_up(&all(), []));
    }
    let last = order.line_up(&all(), []);
    let (started, starts) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let start = |of: &Arc<AtomicU32>| {
        let of = of.clone();
        Box::new(move |_: Ticket| {
            of.fetch_add(1, SeqCst);
        })
    };
    order.ready(last, start(&starts));
    order.ready(first, start(&started));
    assert_eq!(
        [&started, &starts].map(|n| n.load(SeqCst)),
        [1, 0],
        "a pipeline that withdraws keeps its place until its turn"
    );
    order.leave(first);
    assert_eq!(starts.load(SeqCst), 1);
    order.leave(last);
    let free = order.line_up(&all(), []);
    order.ready(free, start(&starts));
    assert_eq!(starts.load(SeqCst), 2, "no pipeline is there any more");
}
