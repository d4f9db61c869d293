//! Who reads a memory at the same time, and what they have on its way to which place.
//!
//! Those that share the hold of a memory lock its directory to look and to book, not while they copy. What one of
//! them has booked is not copied by another: whoever needs it waits until it *arrived*, and then it is current
//! there; or looks again, if it was *given up*. A place's buffer is replaced or taken away only while nothing is on
//! its way to the place, and who computes with it, or copies from it, keeps it for as long as that takes: it is
//! counted in the buffer itself.
//!
//! What fails stays booked for who booked it, and for nobody else: until he looks away, his later tasks fail as it
//! did.
//!
//! The models (`tests/loom`) include this file, so it names no others.

/// One who reads, and may book.
pub(crate) type Reader = u32;

/// A booking's number.
pub(crate) type Ticket = u32;

/// Something on its way to a place.
#[derive(Debug)]
pub(crate) struct IncomingCopy<P, E> {
    ticket: Ticket,
    by: Reader,
    place: P,
    pub elements: E,
    failed: bool,
}

/// The bookings of one memory.
#[derive(Debug)]
pub(crate) struct IncomingCopies<P, E> {
    next: u32,
    readers: u32,
    coming: Vec<IncomingCopy<P, E>>,
}

impl<P, E> Default for IncomingCopies<P, E> {
    fn default() -> IncomingCopies<P, E> {
        IncomingCopies { next: 0, readers: 0, coming: Vec::new() }
    }
}

impl<P: Copy + PartialEq, E> IncomingCopies<P, E> {
    fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// One more reads.
    pub fn enter(&mut self) -> Reader {
        self.readers += 1;
        self.number()
    }

    /// One reads no more, and has nothing on its way.
    pub fn leave(&mut self, reader: Reader) {
        self.readers -= 1;
        self.coming.retain(|coming| coming.by != reader);
    }

    /// True if several read.
    pub fn is_shared(&self) -> bool {
        self.readers > 1
    }

    /// Books what is to be copied to a place.
    pub fn book(&mut self, by: Reader, place: P, elements: E) -> Ticket {
        let ticket = self.number();
        self.coming.push(IncomingCopy { ticket, by, place, elements, failed: false });
        ticket
    }

    /// What was booked is there: its place, and what it is.
    pub fn arrived(&mut self, ticket: Ticket) -> Option<(P, E)> {
        let at = self.coming.iter().position(|coming| coming.ticket == ticket)?;
        let coming = self.coming.swap_remove(at);
        Some((coming.place, coming.elements))
    }

    /// What was booked will not come.
    pub fn given_up(&mut self, ticket: Ticket) {
        if let Some(coming) = self.coming.iter_mut().find(|coming| coming.ticket == ticket) {
            coming.failed = true;
        }
    }

    /// Who booked it looks away from what was given up.
    pub fn forget(&mut self, ticket: Ticket) {
        self.coming.retain(|coming| coming.ticket != ticket || !coming.failed);
    }

    /// True if something is on its way to a place.
    pub fn any(&self, place: P) -> bool {
        self.coming.iter().any(|coming| coming.place == place && !coming.failed)
    }

    /// What others have on its way to a place.
    pub fn of_others(&self, reader: Reader, place: P) -> impl Iterator<Item = &E> {
        let others = self.coming.iter().filter(move |c| c.by != reader && c.place == place && !c.failed);
        others.map(|coming| &coming.elements)
    }

    /// What one has booked himself for a place, and what of that was given up.
    pub fn own(&self, reader: Reader, place: P) -> impl Iterator<Item = &E> {
        let own = self.coming.iter().filter(move |c| c.by == reader && c.place == place);
        own.map(|coming| &coming.elements)
    }

    /// Of all that is booked.
    pub fn elements_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.coming.iter_mut().map(|coming| &mut coming.elements)
    }
}
