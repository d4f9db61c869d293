//! The function of the host that runs in the place of a kernel without implementations: a submission's
//! failsafe, or the function of a host task. It runs on one thread, while the pipeline holds its memories.

use super::plan::Plan;
use crate::error::Error;
use crate::kernel::Element;
use crate::nested::{HostFunctionMark, in_kernel};
use flash_backend::caught;
use flash_types::Code;
use flash_types::abi::Arg;
use flash_types::descriptor::{Access, ElementType, View};
use flash_types::index::Dim;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A failsafe function.
pub(crate) type Failsafe = Box<dyn Fn(&mut HostArgs<'_>) -> Result<(), Error> + Send + Sync>;

/// The arguments of a submission, on the host, by position.
pub struct HostArgs<'a> {
    plan: &'a Plan,
    args: &'a [Arg],
    dims: &'a [Dim],
    /// The token's end, given out by `later`.
    later: Option<Arc<DeferredResult>>,
}

/// Calls a function of the host, and waits until it is complete.
pub(super) fn call(body: &Failsafe, plan: &Plan, args: &[Arg], dims: &[Dim]) -> Result<(), Error> {
    match begin(body, plan, args, dims)? {
        None => Ok(()),
        Some(postponed) => postponed.wait(),
    }
}

/// Calls a function of the host. `Some`: it completes later, and the arguments of this call live until then.
pub(super) fn begin(
    body: &Failsafe,
    plan: &Plan,
    args: &[Arg],
    dims: &[Dim],
) -> Result<Option<Arc<DeferredResult>>, Error> {
    let mut io = HostArgs { plan, args, dims, later: None };
    let outcome = guarded(|| body(&mut io));
    match io.later {
        None => outcome.map(|()| None),
        Some(later) => {
            later.lend(&outcome, plan, args, dims);
            outcome.map(|()| Some(later))
        }
    }
}

/// Runs user code that may not launch; a panic is an error.
fn guarded<R>(body: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let marked = || {
        let _mark = HostFunctionMark::set();
        body()
    };
    caught(marked).unwrap_or_else(|panic| {
        let text = format!("the host function panicked: {panic}");
        Err(Error::Backend { code: Code::Kernel, text })
    })
}

impl<'a> HostArgs<'a> {
    /// Makes the function complete when the token is, not when it returns: nothing that depends on it runs
    /// before. The token may go to another thread, and reaches the arguments from there. If it is asked for
    /// again, only the last token counts and the earlier ones are void. One that is asked for through a token
    /// is void, too.
    pub fn later(&mut self) -> Later {
        let postponed = Arc::new(DeferredResult::default());
        if let Some(before) = self.later.replace(postponed.clone()) {
            before.set(Stage::Done(Err(void("`later()` was called again: this token is void"))));
        }
        Later { postponed, completed: false }
    }

    /// The dimensions of the launch.
    pub fn dims(&self) -> &[Dim] {
        self.dims
    }

    fn find<T: Element>(&self, i: usize, scalar: bool, write: bool) -> Result<&'a Arg, Error> {
        let descriptor = &self.plan.descriptor;
        let fail = |argument: String, text: String| Error::Argument {
            kernel: descriptor.name.clone(),
            argument,
            text,
        };
        let Some((spec, arg)) = descriptor.arguments.get(i).zip(self.args.get(i)) else {
            let text = format!("the kernel has {} arguments", descriptor.arguments.len());
            return Err(fail(format!("#{i}"), text));
        };
        if !spec.element.is::<T>() {
            let asked = ElementType::of::<T>();
            return Err(fail(spec.name.clone(), format!("it is of {}, asked for as {asked}", spec.element)));
        }
        if (spec.view == View::Scalar) != scalar {
            let found = if scalar { "an array" } else { "a scalar" };
            return Err(fail(spec.name.clone(), format!("it is {found}")));
        }
        if write && spec.access == Access::Read {
            return Err(fail(spec.name.clone(), "the kernel only reads it".into()));
        }
        Ok(arg)
    }

    /// Argument `i`, a scalar.
    ///
    /// # Errors
    /// [`Error::Argument`] if it is not there, or of another type.
    pub fn scalar<T: Element>(&self, i: usize) -> Result<T, Error> {
        let arg = self.find::<T>(i, true, false)?;
        // SAFETY: a scalar of a type of as many bytes, of which every pattern is a value of an `Element`.
        Ok(unsafe { arg.data.cast::<T>().read_unaligned() })
    }

    /// Argument `i`, an array.
    ///
    /// # Errors
    /// As [`scalar`](Self::scalar).
    pub fn read<T: Element>(&self, i: usize) -> Result<&[T], Error> {
        let arg = self.find::<T>(i, false, false)?;
        // SAFETY: this many elements of this size and alignment; the launch holds the array; writing borrows
        // `self` exclusively.
        Ok(unsafe { std::slice::from_raw_parts(arg.data.cast(), arg.len as usize) })
    }

    /// Argument `i`, an array that the kernel writes.
    ///
    /// # Errors
    /// As [`scalar`](Self::scalar), and if the kernel only reads it.
    pub fn write<T: Element>(&mut self, i: usize) -> Result<&mut [T], Error> {
        let arg = self.find::<T>(i, false, true)?;
        // SAFETY: as in `read`; the launch holds the array as a writer, and `self` is borrowed exclusively.
        Ok(unsafe { std::slice::from_raw_parts_mut(arg.data.cast(), arg.len as usize) })
    }

    /// Arguments `from`, which is read, and `to`, which is written, at once.
    ///
    /// # Errors
    /// As [`write`](Self::write), and if they are the same.
    pub fn read_write<R: Element, W: Element>(
        &mut self,
        from: usize,
        to: usize,
    ) -> Result<(&[R], &mut [W]), Error> {
        let (read, write) = (self.find::<R>(from, false, false)?, self.find::<W>(to, false, true)?);
        if from == to {
            return Err(Error::Argument {
                kernel: self.plan.descriptor.name.clone(),
                argument: format!("#{from}"),
                text: "it is asked for to be read and to be written: take `write`, which can be read, too"
                    .into(),
            });
        }
        // SAFETY: as in `read`, of both arrays; the launch holds the second as a writer; a written argument
        // overlaps no other, which was proved; `self` is borrowed exclusively.
        Ok(unsafe {
            (
                std::slice::from_raw_parts(read.data.cast(), read.len as usize),
                std::slice::from_raw_parts_mut(write.data.cast(), write.len as usize),
            )
        })
    }
}

/// Completes a function of the host later: see [`HostArgs::later`]. Dropping it fails the submission.
#[must_use = "a token that is dropped fails its submission: call `complete`"]
pub struct Later {
    postponed: Arc<DeferredResult>,
    completed: bool,
}

/// The state that a token and the pipeline that waits for it share.
#[derive(Default)]
pub(super) struct DeferredResult {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stage: Stage,
    /// Goes on with the pipeline when the stage is [`Stage::Done`].
    then: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Default)]
enum Stage {
    /// The function has not returned, and uses the arguments.
    #[default]
    Running,
    /// The function has returned, and the token may use the arguments.
    Open(Arguments),
    /// The token is void: completed, dropped, or the function failed.
    Done(Result<(), Error>),
}

/// The arguments of a call that is not complete.
#[derive(Clone, Copy)]
struct Arguments {
    plan: *const Plan,
    args: *const [Arg],
    dims: *const [Dim],
}

// SAFETY: they are used by one token, which is borrowed for as long, while its pipeline waits for it: plans,
// dimensions and arguments may be used from any thread, and the arrays are of Send elements.
unsafe impl Send for Arguments {}

impl DeferredResult {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn set(&self, stage: Stage) {
        let mut state = self.lock();
        let then = if matches!(stage, Stage::Done(_)) { state.then.take() } else { None };
        state.stage = stage;
        drop(state);
        self.changed.notify_all();
        if let Some(then) = then {
            then();
        }
    }

    /// Ends the function's run: lends the arguments to the token until it is completed.
    fn lend(&self, outcome: &Result<(), Error>, plan: &Plan, args: &[Arg], dims: &[Dim]) {
        match outcome {
            Err(error) => self.set(Stage::Done(Err(error.clone()))),
            Ok(()) => {
                let mut state = self.lock();
                if matches!(state.stage, Stage::Running) {
                    state.stage = Stage::Open(Arguments { plan, args, dims });
                    drop(state);
                    self.changed.notify_all();
                }
            }
        }
    }

    /// Waits until the token is void.
    fn wait(&self) -> Result<(), Error> {
        let mut state = self.lock();
        loop {
            if let Stage::Done(outcome) = &state.stage {
                return outcome.clone();
            }
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Calls `then` once the token is void, which may be at once.
    pub fn then(&self, then: Box<dyn FnOnce() + Send>) {
        let mut state = self.lock();
        if matches!(state.stage, Stage::Done(_)) {
            drop(state);
            return then();
        }
        state.then = Some(then);
    }

    /// The function's outcome, once the token is void.
    pub fn outcome(&self) -> Result<(), Error> {
        match &self.lock().stage {
            Stage::Done(outcome) => outcome.clone(),
            _ => unreachable!("it is asked when the token has said so"),
        }
    }
}

impl Later {
    /// Calls `body` with the arguments, once the function has returned.
    ///
    /// # Errors
    /// What `body` returns or, if it panics, [`Error::Backend`]; the function's own error, if it failed.
    /// None of them completes the task.
    pub fn with<R>(&mut self, body: impl FnOnce(&mut HostArgs<'_>) -> Result<R, Error>) -> Result<R, Error> {
        let mut state = self.postponed.lock();
        loop {
            match &state.stage {
                Stage::Running => {
                    if in_kernel() {
                        // Called by the function itself, which would wait for its own return.
                        return Err(Error::Nested);
                    }
                    state = self.postponed.changed.wait(state).unwrap_or_else(|e| e.into_inner());
                }
                Stage::Open(arguments) => {
                    let Arguments { plan, args, dims } = *arguments;
                    // The body may take long, and the thread that leaves the pipeline needs the lock.
                    drop(state);
                    // SAFETY: what `begin` was given lives until this token is completed, which takes `self`,
                    // borrowed until `body` returns; nothing else reaches the arguments meanwhile.
                    let (plan, args, dims) = unsafe { (&*plan, &*args, &*dims) };
                    let mut io = HostArgs { plan, args, dims, later: None };
                    let outcome = guarded(|| body(&mut io));
                    if let Some(tied_to_nothing) = io.later {
                        tied_to_nothing.set(Stage::Done(Err(void(
                            "`later()` was called through a token: this token is void, that one completes the task",
                        ))));
                    }
                    return outcome;
                }
                Stage::Done(outcome) => {
                    return Err(outcome.clone().err().unwrap_or_else(|| void("the task is complete")));
                }
            }
        }
    }

    /// Completes the task: with success, or with an error.
    pub fn complete(mut self, outcome: Result<(), Error>) {
        self.completed = true;
        self.postponed.set(Stage::Done(outcome));
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        if !self.completed {
            self.postponed.set(Stage::Done(Err(void(
                "the token of `later()` was dropped: call `complete` on it when the work is done",
            ))));
        }
    }
}

/// The error of a void token.
#[cold]
fn void(text: &str) -> Error {
    Error::Backend { code: Code::Invalid, text: text.into() }
}
