//! What can be given as options: attributes, and what a collection of options knows beside them.

use super::{Attribute, Attributes};

/// A type that `options(..)` accepts: an attribute, a `&Profile`, a condition on devices, or a tuple of them.
/// `O` collects them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no option",
    label = "an option is an `Attribute`, a `&Profile`, `devices_where(..)`, or a tuple of these"
)]
pub trait IntoOptions<O> {
    /// Adds it to the options.
    fn add_to(self, options: &mut O);
}

impl<A: Attribute, O: AsMut<Attributes>> IntoOptions<O> for A {
    fn add_to(self, options: &mut O) {
        options.as_mut().set(self);
    }
}

impl<O: AsMut<Attributes>> IntoOptions<O> for Attributes {
    fn add_to(self, options: &mut O) {
        options.as_mut().merge(&self);
    }
}

macro_rules! tuples {
    ($(($($t:ident $n:tt),+))*) => {$(
        impl<O, $($t: IntoOptions<O>),+> IntoOptions<O> for ($($t,)+) {
            fn add_to(self, options: &mut O) {
                $(self.$n.add_to(options);)+
            }
        }
    )*};
}
tuples! { (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, E 3) (A 0, B 1, C 2, E 3, F 4) (A 0, B 1, C 2, E 3, F 4, G 5) }
