//! Launches as nodes, and a part of a graph for each device.

use crate::error::Error;
use crate::graph::{Graph, Kind, NodeRef};
use crate::lane::lock;
use crate::node::{Cx, Later, Node, Receive};
use crate::nodes::ClosureOf;
use crate::pool::{Pool, Pooled};
use crate::port::{Out, Outputs, Ports};
use flash_core::runtime::devices_where;
use flash_core::{Handle, Pipeline, RuntimeObj};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

impl Graph {
    /// A node that launches a pipeline for each datum, and emits the datum when the launch is complete. Up to
    /// `in_flight` launches are on their way, and no thread waits for them. So data may come out in another
    /// order than they came in. All arguments of the pipeline are owned, as for
    /// [`exec_async`](flash_core::Pipeline::exec_async): clones of memories. The memories move to where they
    /// are used, so there are no nodes for copies.
    ///
    /// `docs/graphs.md` has an example.
    pub fn launch<T: Send + 'static, F>(
        &self,
        name: &str,
        in_flight: usize,
        launch: F,
    ) -> NodeRef<impl ClosureOf<T, Out<T>> + use<T, F>>
    where
        F: FnMut(&T) -> Result<Pipeline<'static>, Error> + Clone + Send + 'static,
    {
        let permits = Pool::new(&format!("launches of {name}"), in_flight, || ());
        let taken = permits.clone();
        let node = self.node(name, move |_| Launches {
            launch: launch.clone(),
            permits: taken.clone(),
            datum: PhantomData,
        });
        node.takes(&permits, 1)
    }

    /// A node with `count` outputs, `out[0]` and so on, that sends each datum where a route says.
    pub fn router<T: Send + 'static>(
        &self,
        name: &str,
        count: usize,
        route: &Route<T>,
    ) -> NodeRef<Router<T>> {
        let (mut plan, route, asked) = (self.plan.borrow_mut(), route.clone(), route.clone());
        let mut ports = Ports::of(plan.nodes.len() as u32);
        let outs = (0..count).map(|i| Out::new(ports.named(format!("{i}")))).collect();
        let replica = Box::new(move |_| Router { route: route.clone() });
        let node = self.planned(&mut plan, name, outs, replica, ports, Kind::Node);
        // What has room takes the next datum, if that is the rule.
        let any_room = move || matches!(*lock(&asked.0), Rule::LeastLoaded);
        lock(&node.cell.setup).config.any_room = Some(Box::new(any_room));
        node
    }

    /// Adds a part for each device of a runtime: `part` gets the graph, with the device's name as its scope,
    /// a runtime of that device alone, and the output that its data come from. Returns the node that sends
    /// data to the parts, by `route`. A part's results go along edges to nodes outside.
    pub fn for_each_device<T: Send + 'static>(
        &self,
        name: &str,
        rt: &RuntimeObj,
        route: &Route<T>,
        mut part: impl FnMut(&Graph, RuntimeObj, &Out<T>),
    ) -> NodeRef<Router<T>> {
        let devices = devices_of(rt);
        let router = self.router(name, devices.len(), route);
        for (device, out) in devices.into_iter().zip(&router.out) {
            let scope = device.devices()[0].id().to_string();
            self.scope(&scope, |g| part(g, device, out));
        }
        router
    }
}

/// A runtime for each device of a runtime, in their order.
pub fn devices_of(rt: &RuntimeObj) -> Vec<RuntimeObj> {
    let of = |&device: &&'static _| rt.options(devices_where(move |other| std::ptr::eq(device, other)));
    rt.devices().iter().map(of).collect()
}

/// The node of [`Graph::launch`].
struct Launches<T, F> {
    launch: F,
    permits: Pool<()>,
    datum: PhantomData<fn(T)>,
}

impl<F, T: Send + 'static> Node for Launches<T, F>
where
    F: FnMut(&T) -> Result<Pipeline<'static>, Error> + Send + 'static,
{
    type Out = Out<T>;
}

impl<F, T: Send + 'static> Receive<T> for Launches<T, F>
where
    F: FnMut(&T) -> Result<Pipeline<'static>, Error> + Send + 'static,
{
    fn receive(&mut self, datum: T, out: &mut Out<T>, cx: &mut Cx<'_>) -> Result<(), Error> {
        let permit = self.permits.take(cx);
        let handle = (self.launch)(&datum)?.exec_async();
        let flight = Flight { handle, datum, later: cx.later(out), _permit: permit };
        Flying::poll(&Arc::new(Flying(Mutex::new(Some(flight)))));
        Ok(())
    }
}

/// A launch on its way.
struct Flight<T: Send + 'static> {
    handle: Handle,
    datum: T,
    later: Later<Out<T>>,
    _permit: Pooled<()>,
}

/// `None` once it is complete.
struct Flying<T: Send + 'static>(Mutex<Option<Flight<T>>>);

impl<T: Send + 'static> Flying<T> {
    fn poll(flying: &Arc<Flying<T>>) {
        let waker = Waker::from(flying.clone());
        let mut flight = lock(&flying.0);
        let Some(Flight { handle, .. }) = flight.as_mut() else { return };
        let Poll::Ready(result) = Pin::new(handle).poll(&mut Context::from_waker(&waker)) else { return };
        let complete = flight.take();
        drop(flight);
        let Some(Flight { datum, mut later, .. }) = complete else { return };
        match result {
            Ok(()) => later.out.emit(datum),
            Err(error) => later.fail(error),
        }
    }
}

impl<T: Send + 'static> Wake for Flying<T> {
    fn wake(self: Arc<Self>) {
        Flying::poll(&self);
    }
}

/// Where a [router](Graph::router) sends data. Clones are the same route, and it may change while a graph
/// runs: a [job](Route::jobs) is a set of data that a device works on.
pub struct Route<T>(Arc<Mutex<Rule<T>>>);

impl<T> Clone for Route<T> {
    fn clone(&self) -> Self {
        Route(self.0.clone())
    }
}

/// Whether a datum belongs to the job of an output.
type Belongs<T> = Box<dyn Fn(&T, usize) -> bool + Send>;

enum Rule<T> {
    By(Box<dyn Fn(&T) -> usize + Send>),
    Jobs { belongs: Belongs<T>, copy: fn(&T) -> T },
    LeastLoaded,
}

impl<T: 'static> Route<T> {
    fn new(rule: Rule<T>) -> Route<T> {
        Route(Arc::new(Mutex::new(rule)))
    }

    /// To the output of this number, modulo their count.
    pub fn by(number: impl Fn(&T) -> usize + Send + 'static) -> Route<T> {
        Route::new(Rule::By(Box::new(number)))
    }

    /// A clone to each output whose job the datum belongs to. One that belongs to none is an error.
    pub fn jobs(belongs: impl Fn(&T, usize) -> bool + Send + 'static) -> Route<T>
    where
        T: Clone,
    {
        Route::new(Rule::Jobs { belongs: Box::new(belongs), copy: T::clone })
    }

    /// To the output where the fewest data wait.
    pub fn least_loaded() -> Route<T> {
        Route::new(Rule::LeastLoaded)
    }

    /// From now on it is as another.
    pub fn change(&self, to: Route<T>) {
        if let Ok(to) = Arc::try_unwrap(to.0) {
            let before = std::mem::replace(
                &mut *lock(&self.0),
                to.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner),
            );
            drop(before);
        }
    }
}

/// The node of [`Graph::router`].
pub struct Router<T> {
    route: Route<T>,
}

impl<T: Send + 'static> Node for Router<T> {
    type Out = Vec<Out<T>>;
}

impl<T: Send + 'static> Receive<T> for Router<T> {
    fn receive(&mut self, datum: T, outs: &mut Vec<Out<T>>, _: &mut Cx<'_>) -> Result<(), Error> {
        let rule = lock(&self.route.0);
        let to = match &*rule {
            Rule::By(number) => number(&datum) % outs.len().max(1),
            Rule::Jobs { belongs, copy } => {
                let mut to = (0..outs.len()).filter(|&i| belongs(&datum, i));
                let Some(mut last) = to.next() else {
                    return Err("the datum belongs to no job: expected one of an output".into());
                };
                for next in to {
                    outs[last].emit(copy(&datum));
                    last = next;
                }
                last
            }
            Rule::LeastLoaded => {
                let least = outs.iter().enumerate().min_by_key(|(_, out)| out.waiting());
                least.map_or(0, |(i, _)| i)
            }
        };
        match outs.get_mut(to) {
            Some(out) => out.emit(datum),
            None => return Err("a router without outputs: expected at least one device".into()),
        }
        Ok(())
    }
}
