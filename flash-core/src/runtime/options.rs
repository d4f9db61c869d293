//! What `options(..)` takes.

use super::Profile;
use crate::descriptor::{Attribute, Attributes};

/// What `options(..)` collects.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The attributes.
    pub attributes: Attributes,
    /// Where launches are recorded.
    pub(crate) profile: Option<Profile>,
}

impl Options {
    /// Takes over all of `other`, which win.
    pub(crate) fn merge(&mut self, other: Options) {
        self.attributes.merge(&other.attributes);
        self.profile = other.profile.or(self.profile.take());
    }
}

/// What `options(..)` takes: an attribute, a tuple of them, or `&Profile`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no option",
    label = "an option is an `Attribute`, a tuple of them, or a `&Profile`"
)]
pub trait IntoOptions {
    /// Adds it.
    fn add_to(self, options: &mut Options);
}

impl<A: Attribute> IntoOptions for A {
    fn add_to(self, options: &mut Options) {
        options.attributes.set(self);
    }
}

impl IntoOptions for Attributes {
    fn add_to(self, options: &mut Options) {
        options.attributes.merge(&self);
    }
}

impl IntoOptions for &Profile {
    fn add_to(self, options: &mut Options) {
        options.profile = Some(self.clone());
    }
}

macro_rules! tuples {
    ($(($($t:ident $n:tt),+))*) => {$(
        impl<$($t: IntoOptions),+> IntoOptions for ($($t,)+) {
            fn add_to(self, options: &mut Options) {
                $(self.$n.add_to(options);)+
            }
        }
    )*};
}
tuples! { (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, E 3) (A 0, B 1, C 2, E 3, F 4) (A 0, B 1, C 2, E 3, F 4, G 5) }
