//! Contexts: the primary one of each device, and the current one of each thread.

use super::{Out, driver};
use crate::machine::Answer;
use crate::machine::context::{Context, contexts, of_device};
use crate::machine::handles::lock;
use cudarc::driver::sys::{CUcontext, CUresult};
use std::cell::RefCell;
use std::sync::atomic::Ordering::SeqCst;

thread_local! {
    /// Contexts of this thread, the current one last.
    static CURRENT: RefCell<Vec<Option<&'static Context>>> = const { RefCell::new(Vec::new()) };
}

fn handle_of(context: Option<&'static Context>) -> CUcontext {
    context.map_or(std::ptr::null_mut(), |context| std::ptr::from_ref(context).cast_mut().cast())
}

/// The context of a handle.
pub(super) fn of_handle(handle: CUcontext) -> Answer<&'static Context> {
    let found = contexts()?.iter().find(|context| handle_of(Some(context)) == handle);
    found.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

/// This thread's current one.
pub(super) fn current() -> Answer<&'static Context> {
    contexts()?;
    let context = CURRENT.with_borrow(|all| all.last().copied().flatten());
    let context = context.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    if context.holders.load(SeqCst) == 0 {
        return Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    context.check()?;
    Ok(context)
}

driver! {
    fn cuDevicePrimaryCtxRetain(context: Out<CUcontext>, device: i32) {
        let found = of_device(device)?;
        found.check()?;
        found.holders.fetch_add(1, SeqCst);
        context.put(handle_of(Some(found)))?;
    }

    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        let context = of_device(device)?;
        let less = context.holders.fetch_update(SeqCst, SeqCst, |holders| holders.checked_sub(1));
        less.map_err(|_| CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    }

    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) {
        let context = of_device(device)?;
        flags.put(0)?;
        active.put(i32::from(context.holders.load(SeqCst) > 0))?;
    }

    fn cuCtxSetCurrent(handle: CUcontext) {
        let context = if handle.is_null() { None } else { Some(of_handle(handle)?) };
        CURRENT.with_borrow_mut(|all| {
            all.pop();
            all.push(context);
        });
    }

    fn cuCtxGetCurrent(context: Out<CUcontext>) {
        contexts()?;
        context.put(handle_of(CURRENT.with_borrow(|all| all.last().copied().flatten())))?;
    }

    fn cuCtxGetDevice(device: Out<i32>) {
        device.put(current()?.device as i32)?;
    }

    fn cuCtxPushCurrent_v2(handle: CUcontext) {
        let context = of_handle(handle)?;
        CURRENT.with_borrow_mut(|all| all.push(Some(context)));
    }

    fn cuCtxPopCurrent_v2(context: Out<CUcontext>) {
        contexts()?;
        let popped = CURRENT.with_borrow_mut(Vec::pop).flatten();
        let popped = popped.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        context.put_if(handle_of(Some(popped)));
    }

    fn cuCtxSynchronize() {
        current()?.synchronize()?;
    }

    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        current()?;
        least.put_if(0);
        greatest.put_if(-5);
    }

    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: u32) {
        let (context, peer) = (current()?, of_handle(peer)?);
        if flags != 0 || peer.device == context.device {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if !lock(&context.peers).insert(peer.device) {
            return Err(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        }
    }
}
