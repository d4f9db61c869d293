//! [`Submission`]: what can be submitted. The runtime records it; a definition is one.

use super::state::Runtime;
use super::submissions::SubmissionList;
use crate::kernel::KernelDefinition;
use std::any::TypeId;

pub(super) mod sealed {
    pub trait Sealed {}
    impl<D: crate::kernel::KernelDefinition> Sealed for D {}
}

/// What `submit` takes.
pub trait Submission<'a>: sealed::Sealed {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn record(&mut self, list: &mut SubmissionList, runtime: &Runtime);
    /// It is recorded: what is left of it goes.
    #[doc(hidden)]
    fn recorded(self);
}

impl<'a, D: KernelDefinition + 'a> Submission<'a> for D {
    #[inline(always)]
    #[allow(private_interfaces)]
    fn record(&mut self, list: &mut SubmissionList, runtime: &Runtime) {
        if !list.resume(TypeId::of::<D::Static>()) {
            list.begin(runtime.plan_of::<D>());
        }
        let mut to = list.write();
        self.pack(&mut to);
        to.done();
    }

    #[inline(always)]
    fn recorded(self) {
        // `pack` took what it owned: that needs not be looked at once more.
        std::mem::forget(self);
    }
}
