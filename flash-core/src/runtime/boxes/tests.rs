//! Boxes of random launches against sets of elements.
