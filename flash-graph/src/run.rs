//! A graph that runs, as the program that started it sees it.

use crate::asked;
use crate::check::Checked;
use crate::component::Component;
use crate::dedicated::Dedicated;
use crate::error::{GraphError, PushError};
use crate::exit::Output;
use crate::graph::{Kind, Plan};
use crate::input::{AnyInput, Input};
use crate::picture::{Picture, Shown};
use crate::schedule::{Core, Entry, Parts};
use crate::times::Waits;
use crossbeam_utils::CachePadded;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A graph that runs. Threads that wait in one of its functions run its nodes meanwhile.
///
/// [`wait`](Self::wait) is its end. If it is dropped instead, the graph is cancelled, and what runs is waited
/// for.
#[must_use = "errors of the graph come out of `wait`"]
pub struct Run {
    core: Arc<Core>,
    inputs: Vec<Arc<dyn AnyInput>>,
    picture: Picture,
    ended: bool,
}

impl Run {
    pub(crate) fn start(mut plan: Plan, checked: Checked) -> Run {
        let shown = Shown::of(&mut plan);
        let Plan { nodes, inputs, limit, .. } = plan;
        let entries = nodes.into_iter().zip(&checked.settings).map(|(node, settings)| Entry {
            word: CachePadded::default(),
            name: node.name,
            replicas: settings.replicas as u32,
            level: settings.level,
            component: settings.component,
            cyclic: checked.components[settings.component as usize].cyclic,
            is_exit: node.kind == Kind::Exit,
            dedicated: settings.dedicated.then(Arc::<Dedicated>::default),
            parked: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            waited: Waits::default(),
            cell: node.cell.as_cell(),
        });
        let nodes = entries.collect();
        let inputs: Vec<_> = inputs.into_iter().map(|(_, input)| input).collect();
        let core = Core::new(Parts {
            nodes,
            components: checked.components,
            inputs: inputs.len(),
            levels: checked.levels,
            limit,
            cancels: checked.cancels,
        });
        core.nodes.iter().for_each(|node| node.cell.bind(&core));
        inputs.iter().for_each(|input| input.bind(&core));
        let picture = Picture::of_run(shown, core.clone());
        let run = Run { core, inputs, picture, ended: false };
        asked::starts(&run.picture);
        run.begin();
        run
    }

    fn begin(&self) {
        let core = &self.core;
        for (index, node) in core.nodes.iter().enumerate() {
            node.cell.start(core, index as u32);
        }
        let alone = |component: &Component| component.feeds.load(Ordering::Acquire) == 0;
        // Before any ends: what ends closes others.
        let alone: Vec<u32> =
            (0..).zip(&core.components).filter(|(_, component)| alone(component)).map(|(i, _)| i).collect();
        alone.into_iter().for_each(|component| core.close(component));
        for node in &core.nodes {
            if let Some(dedicated) = &node.dedicated {
                dedicated.start(core, &node.name, node.replicas);
            }
        }
        core.open_to_threads();
    }

    /// Puts a datum into an input. Waits while the inbox of a node that it goes to is full, and runs nodes
    /// meanwhile.
    ///
    /// # Errors
    /// [`Closed`](PushError::Closed) if the input is closed or the graph has ended.
    #[inline]
    pub fn push<T: Send + 'static>(&self, input: &Input<T>, datum: T) -> Result<(), PushError<T>> {
        input.cell.push(&self.core, datum)
    }

    /// Puts a datum into an input if there is room.
    ///
    /// # Errors
    /// [`Full`](PushError::Full) if there is none, and [`Closed`](PushError::Closed) as for
    /// [`push`](Self::push).
    pub fn try_push<T: Send + 'static>(&self, input: &Input<T>, datum: T) -> Result<(), PushError<T>> {
        input.cell.try_push(&self.core, datum)
    }

    /// Puts data into an input, in batches: this takes less for each than [`push`](Self::push).
    ///
    /// # Errors
    /// [`Closed`](PushError::Closed) as for [`push`](Self::push), with the number of data that were pushed.
    pub fn push_all<T: Send + 'static>(
        &self,
        input: &Input<T>,
        data: impl IntoIterator<Item = T>,
    ) -> Result<(), PushError<usize>> {
        input.cell.push_all(&self.core, data)
    }

    /// What comes to an output, until nothing more can come: everything that leads to it is closed, or the
    /// graph has ended. Waits for each, and runs nodes meanwhile.
    pub fn results<'a, T: Send + 'static>(&'a self, output: &'a Output<T>) -> Results<'a, T> {
        Results { run: self, output }
    }

    /// A result that is there.
    pub fn try_result<T: Send + 'static>(&self, output: &Output<T>) -> Option<T> {
        output.cell.take(&self.core)
    }

    /// Closes an input: nothing more is pushed.
    pub fn close_input<T: Send + 'static>(&self, input: &Input<T>) {
        input.cell.close(&self.core);
    }

    /// Closes all inputs.
    pub fn close(&self) {
        self.inputs.iter().for_each(|input| input.close(&self.core));
    }

    /// A picture of the graph. It shows the graph as it is when it is drawn, and may be kept after
    /// [`wait`](Self::wait).
    pub fn picture(&self) -> Picture {
        self.picture.clone()
    }

    /// Ends the graph: queued data are dropped, and nodes are called no more. Nodes that run see it by
    /// [`Cx::cancelled`](crate::Cx::cancelled).
    pub fn cancel(&self) {
        self.core.fail(GraphError::Cancelled);
    }

    /// Closes all inputs, runs the graph to its end, and drops results that were not taken, and the nodes.
    /// No thread is in a node when it returns.
    ///
    /// # Errors
    /// What ended the graph before its time.
    pub fn wait(mut self) -> Result<(), GraphError> {
        self.end();
        self.core.failure().map_or(Ok(()), Err)
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let core = &self.core;
        self.inputs.iter().for_each(|input| input.close(core));
        core.nodes.iter().filter(|node| node.is_exit).for_each(|exit| exit.cell.refuse(core));
        core.help(|_| (core.is_done() || core.has_failed() && core.is_quiet()).then_some(()));
        core.nodes.iter().filter_map(|node| node.dedicated.as_ref()).for_each(|threads| threads.stop());
        self.picture.ended();
        asked::ended(&self.picture);
        for node in &core.nodes {
            // Destructors of the user's may panic: the others are called nevertheless.
            let _ = catch_unwind(AssertUnwindSafe(|| node.cell.clear(core)));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.ended {
            self.cancel();
            self.end();
        }
    }
}

/// The results of a graph, see [`Run::results`].
pub struct Results<'a, T> {
    run: &'a Run,
    output: &'a Output<T>,
}

impl<T: Send + 'static> Iterator for Results<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let (core, cell) = (&self.run.core, &self.output.cell);
        core.help(|sleeps| cell.next(core, sleeps))
    }
}
