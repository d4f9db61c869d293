//! Copies in flight, booked by concurrent readers of one memory.
//!
//! Threads that share the hold of a memory lock its directory to look and to book, not while they copy. What
//! one of them has booked is not copied by another: a thread that needs it waits until it *arrived*, and then
//! it is current there; or looks again, if it was *given up*. A place's buffer is replaced or removed only
//! while no copy to the place is in flight. A thread that computes with it, or copies from it, keeps it for
//! as long as that takes: the buffer itself is counted.
//!
//! A failed copy stays booked for the reader that booked it, and for no other: until that reader forgets it,
//! its later tasks fail like the copy.
//!
//! The models (`tests/loom`) include this file, so it names no other modules.

/// A reader, which may book.
pub(crate) type Reader = u32;

/// The number of a booking.
pub(crate) type Ticket = u32;

/// A copy in flight to a place.
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

    /// Adds a reader.
    pub fn enter(&mut self) -> Reader {
        self.readers += 1;
        self.number()
    }

    /// Removes a reader, which has no copy in flight.
    pub fn leave(&mut self, reader: Reader) {
        self.readers -= 1;
        self.coming.retain(|coming| coming.by != reader);
    }

    /// True if there are several readers.
    pub fn is_shared(&self) -> bool {
        self.readers > 1
    }

    /// Books a copy to a place.
    pub fn book(&mut self, by: Reader, place: P, elements: E) -> Ticket {
        let ticket = self.number();
        self.coming.push(IncomingCopy { ticket, by, place, elements, failed: false });
        ticket
    }

    /// A booked copy has arrived. Returns its place and elements.
    pub fn arrived(&mut self, ticket: Ticket) -> Option<(P, E)> {
        let at = self.coming.iter().position(|coming| coming.ticket == ticket)?;
        let coming = self.coming.swap_remove(at);
        Some((coming.place, coming.elements))
    }

    /// A booked copy will not arrive.
    pub fn given_up(&mut self, ticket: Ticket) {
        if let Some(coming) = self.coming.iter_mut().find(|coming| coming.ticket == ticket) {
            coming.failed = true;
        }
    }

    /// The reader that booked it forgets a copy that was given up.
    pub fn forget(&mut self, ticket: Ticket) {
        self.coming.retain(|coming| coming.ticket != ticket || !coming.failed);
    }

    /// True if a copy to a place is in flight.
    pub fn any(&self, place: P) -> bool {
        self.coming.iter().any(|coming| coming.place == place && !coming.failed)
    }

    /// Copies of other readers in flight to a place.
    pub fn of_others(&self, reader: Reader, place: P) -> impl Iterator<Item = &E> {
        let others = self.coming.iter().filter(move |c| c.by != reader && c.place == place && !c.failed);
        others.map(|coming| &coming.elements)
    }

    /// A reader's own bookings for a place, including those that were given up.
    pub fn own(&self, reader: Reader, place: P) -> impl Iterator<Item = &E> {
        let own = self.coming.iter().filter(move |c| c.by == reader && c.place == place);
        own.map(|coming| &coming.elements)
    }

    /// Places to which a reader itself has copies in flight, and what these bring.
    pub fn underway(&self, reader: Reader) -> impl Iterator<Item = (P, &E)> {
        let own = self.coming.iter().filter(move |c| c.by == reader && !c.failed);
        own.map(|coming| (coming.place, &coming.elements))
    }

    /// The elements of all bookings.
    pub fn elements_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.coming.iter_mut().map(|coming| &mut coming.elements)
    }
}
