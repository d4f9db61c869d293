//! Nodes that need no type of the user's: closures, sources, joins, gathers.
//!
//! All of them run as any other node does. A source has no edge that fills it: its inbox is a [`Ticket`],
//! which holds one datum as long as there may be more items. Taking it permits one batch. If that was
//! full, the source puts the ticket back and asks to be run again, which happens only when there is room
//! for what it emits.
//!
//! A join keeps, for each key, data of one side at most. A gather keeps the data of a key until it has as
//! many as it wants. Neither has a bound. What is left when all edges have ended is an error of the graph;
//! until then `holds` tells it, where a graph is stuck.

use crate::cell::{Accept, Inbox};
use crate::error::Error;
use crate::graph::{EdgeFrom, Ends, Graph, Kind, NodeRef};
use crate::lane::{Filled, lock};
use crate::node::{Cx, Node, Receive};
use crate::port::{Out, Outputs};
use crate::schedule::Core;
use crate::strand::Shared;
use std::any::Any;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A closure as a node: [`Graph::map`] and its like.
pub struct Closure<F, T, O> {
    call: F,
    types: PhantomData<fn(T) -> O>,
}

impl<F, T: 'static, O: Outputs> Node for Closure<F, T, O>
where
    F: FnMut(T, &mut O, &mut Cx<'_>) -> Result<(), Error> + Send + 'static,
{
    type Out = O;
}

impl<F, T: 'static, O: Outputs> Receive<T> for Closure<F, T, O>
where
    F: FnMut(T, &mut O, &mut Cx<'_>) -> Result<(), Error> + Send + 'static,
{
    #[inline]
    fn receive(&mut self, datum: T, out: &mut O, cx: &mut Cx<'_>) -> Result<(), Error> {
        (self.call)(datum, out, cx)
    }
}

/// A node of a graph that is a closure from `T` with outputs `O`.
pub trait ClosureOf<T, O: Outputs>: Receive<T, Out = O> {}
impl<N: Receive<T, Out = O>, T, O: Outputs> ClosureOf<T, O> for N {}

impl Graph {
    /// A closure that makes one datum of each. Each replica has a clone of it.
    ///
    /// ```
    /// use flash_graph::Graph;
    /// let g = Graph::new("squares");
    /// let (numbers, squares) = (g.input::<u64>("numbers"), g.output::<u64>("squares"));
    /// let square = g.map("square", |x: u64| x * x).replicas(2).ordered();
    /// g.edge(&numbers, &square);
    /// g.edge(&square.out, &squares);
    /// let run = g.start()?;
    /// run.push_all(&numbers, 1..=4)?;
    /// run.close();
    /// assert_eq!(run.results(&squares).collect::<Vec<_>>(), [1, 4, 9, 16]);
    /// run.wait()?;
    /// # Ok::<(), flash_graph::Error>(())
    /// ```
    pub fn map<T: Send + 'static, U: Send + 'static, F>(
        &self,
        name: &str,
        mut map: F,
    ) -> NodeRef<impl ClosureOf<T, Out<U>> + use<T, U, F>>
    where
        F: FnMut(T) -> U + Clone + Send + 'static,
    {
        self.each(name, move |datum, out: &mut Out<U>, _: &mut Cx<'_>| {
            out.emit(map(datum));
            Ok(())
        })
    }

    /// As [`map`](Self::map), of a closure that may fail, which ends the graph.
    pub fn try_map<T: Send + 'static, U: Send + 'static, F>(
        &self,
        name: &str,
        mut map: F,
    ) -> NodeRef<impl ClosureOf<T, Out<U>> + use<T, U, F>>
    where
        F: FnMut(T) -> Result<U, Error> + Clone + Send + 'static,
    {
        self.each(name, move |datum, out: &mut Out<U>, _: &mut Cx<'_>| {
            out.emit(map(datum)?);
            Ok(())
        })
    }

    /// A closure that emits what it wants for each datum, through outputs of any form: `()`, [`Out<U>`], a
    /// tuple, or a struct of [`outputs!`](crate::outputs). Each replica has a clone of it.
    pub fn each<T: Send + 'static, O: Outputs, F>(
        &self,
        name: &str,
        call: F,
    ) -> NodeRef<impl ClosureOf<T, O> + use<T, O, F>>
    where
        F: FnMut(T, &mut O, &mut Cx<'_>) -> Result<(), Error> + Clone + Send + 'static,
    {
        self.node(name, move |_| Closure { call: call.clone(), types: PhantomData })
    }

    /// As [`map`](Self::map), of a closure that also gets a state that it shares with other nodes. It is on
    /// the state's strand.
    pub fn map_shared<S: Send + 'static, T: Send + 'static, U: Send + 'static, F>(
        &self,
        shared: &Shared<S>,
        name: &str,
        mut map: F,
    ) -> NodeRef<impl ClosureOf<T, Out<U>> + use<S, T, U, F>>
    where
        F: FnMut(&mut S, T) -> U + Clone + Send + 'static,
    {
        let state = shared.clone();
        self.map(name, move |datum| state.with(|state| map(state, datum))).on(shared)
    }

    /// A node that emits the items of an iterator, as fast as there is room for them.
    pub fn source<I>(&self, name: &str, items: I) -> NodeRef<Source<I::IntoIter>>
    where
        I: IntoIterator,
        I::IntoIter: Send + 'static,
        I::Item: Send + 'static,
    {
        let mut items = Some(items.into_iter());
        let source = self.add(name, move |_| Source { items: items.take() }, Kind::Source);
        lock(&source.cell.setup).inboxes.push(Arc::new(Ticket(AtomicBool::new(true))));
        source
    }

    /// A node that pairs data with equal keys, each with one other, and emits the pair. What is without a
    /// partner at the end is an error.
    pub fn join<A: EdgeFrom, B: EdgeFrom, K, FA, FB>(
        &self,
        name: &str,
        (a, b): (&A, &B),
        key_a: FA,
        key_b: FB,
    ) -> NodeRef<impl Node<Out = Out<(A::Item, B::Item)>> + use<A, B, K, FA, FB>>
    where
        FA: Fn(&A::Item) -> K + Clone + Send + 'static,
        FB: Fn(&B::Item) -> K + Clone + Send + 'static,
        K: Hash + Eq + Debug + Send + 'static,
    {
        let join = self.node(name, move |_| Join {
            key_a: key_a.clone(),
            key_b: key_b.clone(),
            waiting: HashMap::new(),
        });
        self.connect(a.begins().0, Ends { node: join.index, lane: join.cell.inbox::<_, First>() }, None);
        self.connect(b.begins().0, Ends { node: join.index, lane: join.cell.inbox::<_, Second>() }, None);
        join
    }

    /// A node that collects data with equal keys, and emits the key and the data when there are `count` of
    /// them. Incomplete collections at the end are an error.
    pub fn gather<T: Send + 'static, K, F>(
        &self,
        name: &str,
        count: usize,
        key: F,
    ) -> NodeRef<impl ClosureOf<T, Out<(K, Vec<T>)>> + use<T, K, F>>
    where
        F: Fn(&T) -> K + Clone + Send + 'static,
        K: Hash + Eq + Debug + Send + 'static,
    {
        self.node(name, move |_| Gather { count, key: key.clone(), waiting: HashMap::new() })
    }
}

/// The node of [`Graph::source`].
pub struct Source<I> {
    items: Option<I>,
}

impl<I: Iterator<Item: Send + 'static> + Send + 'static> Node for Source<I> {
    type Out = Out<I::Item>;

    fn start(&mut self, _: &mut Self::Out, cx: &mut Cx<'_>) -> Result<(), Error> {
        cx.core.again(cx.node);
        Ok(())
    }
}

/// The inbox of a source: there while it has more.
struct Ticket(AtomicBool);

impl<I: Iterator<Item: Send + 'static> + Send + 'static> Inbox<Source<I>> for Ticket {
    fn buffer(&self) -> Box<dyn Any + Send> {
        Box::new(())
    }

    fn take(&self, _: usize, _: &Arc<Core>, _: &mut dyn Any) -> (usize, u64) {
        (usize::from(self.0.swap(false, Ordering::AcqRel)), 0)
    }

    fn give(
        &self,
        _: &mut dyn Any,
        source: &mut Source<I>,
        out: &mut Out<I::Item>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Error> {
        let Some(items) = &mut source.items else { return Ok(()) };
        for item in items.take(cx.batch) {
            out.emit(item);
            cx.made += 1;
        }
        if cx.made == cx.batch {
            self.0.store(true, Ordering::Release);
            cx.core.again(cx.node);
        }
        Ok(())
    }

    fn clear(&self, _: &Arc<Core>) {}

    fn set_capacity(&self, _: usize) {}

    fn filled(&self) -> Filled {
        Filled { len: usize::from(self.0.load(Ordering::Acquire)), longest: 1, room: 0, taken: 0 }
    }

    fn key(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Join<A, B, K, FA, FB> {
    key_a: FA,
    key_b: FB,
    /// Of a key one side at most waits.
    waiting: HashMap<K, (VecDeque<A>, VecDeque<B>)>,
}

/// The two inboxes of a join.
struct First;
struct Second;

impl<A, B, K, FA, FB> Node for Join<A, B, K, FA, FB>
where
    A: Send + 'static,
    B: Send + 'static,
    K: Hash + Eq + Debug + Send + 'static,
    FA: Fn(&A) -> K + Send + 'static,
    FB: Fn(&B) -> K + Send + 'static,
{
    type Out = Out<(A, B)>;

    fn finish(&mut self, _: &mut Self::Out, _: &mut Cx<'_>) -> Result<(), Error> {
        match self.holds() {
            Some(holds) => Err(format!("at the end it {holds}").into()),
            None => Ok(()),
        }
    }

    fn holds(&self) -> Option<String> {
        let (key, _) = self.waiting.iter().next()?;
        let firsts: usize = self.waiting.values().map(|(firsts, _)| firsts.len()).sum();
        let seconds: usize = self.waiting.values().map(|(_, seconds)| seconds.len()).sum();
        Some(format!(
            "holds {firsts} data of its first and {seconds} of its second edge without a partner, one with \
             key {key:?}"
        ))
    }
}

impl<A, B, K, FA, FB> Accept<Join<A, B, K, FA, FB>, A> for First
where
    Join<A, B, K, FA, FB>: Node<Out = Out<(A, B)>>,
    A: Send + 'static,
    B: Send + 'static,
    K: Hash + Eq,
    FA: Fn(&A) -> K,
{
    fn accept(
        join: &mut Join<A, B, K, FA, FB>,
        datum: A,
        out: &mut Out<(A, B)>,
        _: &mut Cx<'_>,
    ) -> Result<(), Error> {
        let key = (join.key_a)(&datum);
        let Some((firsts, seconds)) = join.waiting.get_mut(&key) else {
            join.waiting.insert(key, (VecDeque::from([datum]), VecDeque::new()));
            return Ok(());
        };
        match seconds.pop_front() {
            None => firsts.push_back(datum),
            Some(second) => {
                if seconds.is_empty() {
                    join.waiting.remove(&key);
                }
                out.emit((datum, second));
            }
        }
        Ok(())
    }
}

impl<A, B, K, FA, FB> Accept<Join<A, B, K, FA, FB>, B> for Second
where
    Join<A, B, K, FA, FB>: Node<Out = Out<(A, B)>>,
    A: Send + 'static,
    B: Send + 'static,
    K: Hash + Eq,
    FB: Fn(&B) -> K,
{
    fn accept(
        join: &mut Join<A, B, K, FA, FB>,
        datum: B,
        out: &mut Out<(A, B)>,
        _: &mut Cx<'_>,
    ) -> Result<(), Error> {
        let key = (join.key_b)(&datum);
        let Some((firsts, seconds)) = join.waiting.get_mut(&key) else {
            join.waiting.insert(key, (VecDeque::new(), VecDeque::from([datum])));
            return Ok(());
        };
        match firsts.pop_front() {
            None => seconds.push_back(datum),
            Some(first) => {
                if firsts.is_empty() {
                    join.waiting.remove(&key);
                }
                out.emit((first, datum));
            }
        }
        Ok(())
    }
}

struct Gather<T, K, F> {
    count: usize,
    key: F,
    waiting: HashMap<K, Vec<T>>,
}

impl<T, K, F> Node for Gather<T, K, F>
where
    T: Send + 'static,
    K: Hash + Eq + Debug + Send + 'static,
    F: Fn(&T) -> K + Send + 'static,
{
    type Out = Out<(K, Vec<T>)>;

    fn finish(&mut self, _: &mut Self::Out, _: &mut Cx<'_>) -> Result<(), Error> {
        match self.holds() {
            Some(holds) => Err(format!("at the end it {holds}").into()),
            None => Ok(()),
        }
    }

    fn holds(&self) -> Option<String> {
        let (key, data) = self.waiting.iter().next()?;
        let (keys, here, count) = (self.waiting.len(), data.len(), self.count);
        Some(format!("holds incomplete data of {keys} keys; of key {key:?} it has {here} of {count}"))
    }
}

impl<T, K, F> Receive<T> for Gather<T, K, F>
where
    T: Send + 'static,
    K: Hash + Eq + Debug + Send + 'static,
    F: Fn(&T) -> K + Send + 'static,
{
    fn receive(&mut self, datum: T, out: &mut Self::Out, _: &mut Cx<'_>) -> Result<(), Error> {
        let mut entry = match self.waiting.entry((self.key)(&datum)) {
            std::collections::hash_map::Entry::Occupied(entry) => entry,
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert_entry(Vec::with_capacity(self.count))
            }
        };
        entry.get_mut().push(datum);
        if entry.get().len() >= self.count {
            out.emit(entry.remove_entry());
        }
        Ok(())
    }
}
