//! What all handles of one memory share.

use super::directory::Directory;
use super::home::Home;
use super::keepers;
use super::order::Parts;
use super::pages;
use super::region::Region;
use super::state::State;
use crate::kernel::Element;
use smallvec::SmallVec;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};

/// Alignment of what we allocate ourselves: a cache line, and the widest vector register.
const ALIGNMENT: usize = 64;

/// Data, shape and state of one memory.
pub(crate) struct Header {
    pub state: State,
    /// What is where; `None`: all of it on the host, as long as the state is not noted. Goes before `first`: devices may
    /// know that.
    pub(super) directory: Mutex<Option<Box<Directory>>>,
    /// Something that the directory expected has arrived, or will not come.
    pub(super) arrived: Condvar,
    id: u64,
    first: Block,
    len: usize,
    /// Bytes of one element.
    element_size: usize,
    /// Empty: no shape was given.
    shape: SmallVec<[u64; 4]>,
    /// Second buffer for phased arguments, made when first needed. Its contents are touched only by who holds
    /// the state as a writer, of the elements that it holds.
    second: OnceLock<Block>,
    second_layout: Layout,
    /// What the directory says, if that is short.
    pub home: Home,
    /// Guards of parts.
    pub(super) parts: Parts<Region>,
    /// Itself, for whoever wants to find it later, if it is still there.
    me: Weak<Header>,
}

/// A block of the host's memory, freed on drop.
struct Block {
    data: *mut u8,
    /// What was allocated, and how.
    base: *mut u8,
    layout: Layout,
}

/// The largest alignment with which large memory comes zeroed from the system, and is not written to before
/// somebody uses it.
const SYSTEM_ALIGNMENT: usize = 16;

// SAFETY: the data are plain old data of a Send + Sync type; who may touch them when is ruled by
// `state`.
unsafe impl Send for Header {}
// SAFETY: as above.
unsafe impl Sync for Header {}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Block {
    /// Zeroed memory; dangling if the layout has no size.
    fn zeroed(layout: Layout) -> Block {
        if layout.size() == 0 {
            return Block::lent(std::ptr::without_provenance_mut(layout.align()));
        }
        let room = layout.size().checked_add(layout.align());
        let Some(Ok(whole)) = room.map(|room| Layout::from_size_align(room, SYSTEM_ALIGNMENT)) else {
            handle_alloc_error(layout);
        };
        // SAFETY: the size is not 0.
        let base = unsafe { alloc_zeroed(whole) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        pages::ask(base, whole.size());
        let data = base.wrapping_add(base.align_offset(layout.align()));
        Block { data, base, layout: whole }
    }

    /// Somebody else's: nobody frees a block without size.
    fn lent(data: *mut u8) -> Block {
        Block { data, base: data, layout: Layout::new::<()>() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.layout.size() != 0 {
            keepers::forget(self.base, self.layout.size());
            // SAFETY: allocated with this layout by `zeroed` or by the vector that was taken.
            unsafe { dealloc(self.base, self.layout) };
        }
    }
}

fn aligned<T>(len: usize) -> Layout {
    Layout::array::<T>(len).and_then(|l| l.align_to(ALIGNMENT)).unwrap_or_else(|_| {
        panic!("an array of {len} elements of {} bytes is larger than memory", size_of::<T>())
    })
}

impl Header {
    pub fn zeroed<T: Element>(len: usize, shape: SmallVec<[u64; 4]>) -> Arc<Header> {
        let layout = aligned::<T>(len);
        Header::new::<T>(Block::zeroed(layout), len, shape)
    }

    pub fn of_vec<T: Element>(vec: Vec<T>) -> Arc<Header> {
        let mut vec = std::mem::ManuallyDrop::new(vec);
        let layout = Layout::array::<T>(vec.capacity()).expect("the vector has this layout");
        let data = vec.as_mut_ptr().cast();
        Header::new::<T>(Block { data, base: data, layout }, vec.len(), SmallVec::new())
    }

    fn new<T: Element>(first: Block, len: usize, shape: SmallVec<[u64; 4]>) -> Arc<Header> {
        Header::of_block(first, len, size_of::<T>(), aligned::<T>(len), shape)
    }

    /// Memory of the host that somebody else owns, for the time of a run: it is not freed.
    pub fn lent(data: *mut u8, len: usize, element_size: usize, shape: &[u64]) -> Arc<Header> {
        Header::of_block(Block::lent(data), len, element_size, Layout::new::<()>(), shape.into())
    }

    fn of_block(
        first: Block,
        len: usize,
        element_size: usize,
        second_layout: Layout,
        shape: SmallVec<[u64; 4]>,
    ) -> Arc<Header> {
        Arc::new_cyclic(|me| Header {
            state: State::new(),
            id: next_id(),
            first,
            len,
            element_size,
            shape,
            second: OnceLock::new(),
            second_layout,
            directory: Mutex::new(None),
            arrived: Condvar::new(),
            home: Home::default(),
            parts: Parts::default(),
            me: me.clone(),
        })
    }

    /// The same memory in another shape, of as many elements; the other one back if somebody else has it,
    /// too. Its directory is empty.
    pub fn with_shape(this: Arc<Header>, shape: SmallVec<[u64; 4]>) -> Result<Arc<Header>, Arc<Header>> {
        let header = Arc::try_unwrap(this)?;
        Ok(Arc::new_cyclic(|me| Header { shape, id: next_id(), me: me.clone(), ..header }))
    }

    /// Itself.
    pub fn weak(&self) -> Weak<Header> {
        self.me.clone()
    }

    /// Bytes of one element.
    #[inline]
    pub fn element_size(&self) -> u64 {
        self.element_size as u64
    }

    /// An array of zeros whose elements have no type here: `element` is the layout of one.
    ///
    /// # Errors
    /// The length, if so many are more than memory has bytes.
    pub fn erased(len: usize, element: Layout, shape: SmallVec<[u64; 4]>) -> Result<Arc<Header>, usize> {
        let layout = element
            .size()
            .checked_mul(len)
            .and_then(|bytes| Layout::from_size_align(bytes, element.align().max(ALIGNMENT)).ok());
        let layout = layout.ok_or(len)?;
        Ok(Header::of_block(Block::zeroed(layout), len, element.size(), layout, shape))
    }

    /// A number that no other memory has, nor this one before its shape was changed.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// First element.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.first.data
    }

    /// False for memory that somebody else owns.
    pub fn is_ours(&self) -> bool {
        self.first.layout.size() != 0
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The second buffer.
    pub fn second(&self) -> *mut u8 {
        self.second.get_or_init(|| Block::zeroed(self.second_layout)).data
    }
}
