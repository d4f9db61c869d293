//! Why a task has no result.

/// A task that did not end as it should.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("task `{}` {}", .0.task, .0.cause)]
pub struct TaskError(Box<Failed>);

#[derive(Clone, PartialEq, Eq)]
struct Failed {
    task: String,
    cause: Cause,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum Cause {
    #[error("panicked: {0}")]
    Panicked(String),
    #[error("failed: {0}")]
    Failed(String),
    #[error("was cancelled before it began")]
    Cancelled,
}

impl TaskError {
    fn new(task: &str, cause: Cause) -> TaskError {
        TaskError(Box::new(Failed { task: task.into(), cause }))
    }

    pub(crate) fn panicked(task: &str, payload: Box<dyn std::any::Any + Send>) -> TaskError {
        let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "with something that is no text".into());
        // What was thrown may panic when it is dropped.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
        TaskError::new(task, Cause::Panicked(text))
    }

    pub(crate) fn failed(task: &str, error: String) -> TaskError {
        TaskError::new(task, Cause::Failed(error))
    }

    pub(crate) fn cancelled(task: &str) -> TaskError {
        TaskError::new(task, Cause::Cancelled)
    }

    /// The task's name: what it was given, or else the type of its function.
    pub fn task(&self) -> &str {
        &self.0.task
    }

    /// What the task's panic said, if it panicked.
    pub fn panic(&self) -> Option<&str> {
        match &self.0.cause {
            Cause::Panicked(text) => Some(text),
            Cause::Failed(_) | Cause::Cancelled => None,
        }
    }

    /// True if the task was never begun because its scope was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cause == Cause::Cancelled
    }
}

impl std::fmt::Debug for TaskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
