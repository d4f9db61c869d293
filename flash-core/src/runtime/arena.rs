//! Memory that is given out in order and taken back all at once.

/// Memory for scalars and strides. Chunks never move.
#[derive(Default)]
pub(super) struct Bump {
    chunks: Vec<Box<[u128]>>,
    pub at: Mark,
}

/// A place in a [`Bump`]: chunk, and units of 16 bytes in it.
pub(super) type Mark = (u32, u32);

impl Bump {
    #[inline]
    pub fn alloc(&mut self, bytes: usize) -> *mut u8 {
        let units = bytes.div_ceil(16);
        if let Some(chunk) = self.chunks.get_mut(self.at.0 as usize)
            && chunk.len() - self.at.1 as usize >= units
        {
            // SAFETY: the chunk has that many units left.
            let place = unsafe { chunk.as_mut_ptr().add(self.at.1 as usize) };
            self.at.1 += units as u32;
            return place.cast();
        }
        self.grow(units)
    }

    /// Goes to the next chunk that is large enough.
    #[cold]
    fn grow(&mut self, units: usize) -> *mut u8 {
        let mut next = self.at.0 as usize + usize::from(!self.chunks.is_empty());
        while self.chunks.get(next).is_some_and(|chunk| chunk.len() < units) {
            next += 1;
        }
        if next >= self.chunks.len() {
            next = self.chunks.len();
            self.chunks.push(vec![0u128; units.max(256)].into_boxed_slice());
        }
        self.at = (next as u32, units as u32);
        self.chunks[next].as_mut_ptr().cast()
    }
}
