//! A bump allocator: memory that is given out in order and taken back all at once.

/// Memory for scalars and strides. Chunks never move.
#[derive(Default)]
pub(super) struct Bump {
    chunks: Vec<Chunk>,
    pub at: Mark,
}

/// A place in a [`Bump`]: chunk, and units of 16 bytes in it.
pub(super) type Mark = (u32, u32);

/// Accessed through its pointer only: a reference to all of it, even a box's, would invalidate the pointers
/// given out before.
struct Chunk {
    data: *mut u128,
    units: usize,
}

impl Chunk {
    fn new(units: usize) -> Chunk {
        Chunk { data: Box::into_raw(vec![0u128; units].into_boxed_slice()).cast(), units }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: made from a box of that many units.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.data, self.units)) });
    }
}

impl Bump {
    #[inline]
    pub fn alloc(&mut self, bytes: usize) -> *mut u8 {
        let units = bytes.div_ceil(16);
        if let Some(chunk) = self.chunks.get(self.at.0 as usize)
            && chunk.units - self.at.1 as usize >= units
        {
            // SAFETY: the chunk has that many units left.
            let place = unsafe { chunk.data.add(self.at.1 as usize) };
            self.at.1 += units as u32;
            return place.cast();
        }
        self.grow(units)
    }

    /// A value's place.
    pub fn put<T: Copy>(&mut self, value: T) -> *const T {
        const { assert!(align_of::<T>() <= 16) };
        let place: *mut T = self.alloc(size_of::<T>()).cast();
        // SAFETY: there is room for a `T`, aligned to 16 bytes.
        unsafe { place.write(value) };
        place
    }

    /// Goes to the next chunk that is large enough.
    #[cold]
    fn grow(&mut self, units: usize) -> *mut u8 {
        let mut next = self.at.0 as usize + usize::from(!self.chunks.is_empty());
        while self.chunks.get(next).is_some_and(|chunk| chunk.units < units) {
            next += 1;
        }
        if next >= self.chunks.len() {
            next = self.chunks.len();
            self.chunks.push(Chunk::new(units.max(256)));
        }
        self.at = (next as u32, units as u32);
        self.chunks[next].data.cast()
    }
}
