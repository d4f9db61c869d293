//! Types of elements: plain data with a name that does not depend on the compiler.
//!
//! Plugins and recordings tell types apart by [`ElementType`], so the same type has the same name in every
//! build. Numbers, arrays and the types of `half` get theirs here; a struct gets one, and a hash of its
//! layout, from `#[derive(Element)]`. A wrong name cannot break memory: every element is [`Pod`], and sizes
//! and alignments are compared, too.

#[doc(no_inline)]
pub use flash_macros::Element;

use bytemuck::Pod;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Plain data that may cross to a device: a number, an array of elements, or a struct that derives it.
///
/// The derive requires `#[repr(C)]` (or `transparent`), `Copy`, fields that are elements, and no padding. It
/// implements [`bytemuck::Pod`] and [`bytemuck::Zeroable`], too. Plugins and recordings know the type as
/// `crate::Type`; `#[element(name = "..")]` sets another name.
///
/// # Examples
/// ```
/// use flash_core::kernel::Element;
///
/// #[derive(Clone, Copy, Element)]
/// #[element(name = "physics::Particle")]
/// #[repr(C)]
/// struct Particle { position: [f32; 3], mass: f32 }
///
/// assert_eq!(<[Particle; 2]>::ELEMENT_NAME, "[physics::Particle; 2]");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element",
    label = "must be a number, an array of numbers, or a struct with `#[derive(Clone, Copy, Element)]` and `#[repr(C)]`"
)]
pub trait Element: Pod + Send + Sync {
    /// Name: `f32`, `[f64; 3]`, `my_crate::Particle`.
    const ELEMENT_NAME: &'static str;
    /// Hash of names, types and places of a struct's fields; 0 where the name is enough.
    #[doc(hidden)]
    const LAYOUT: u32;
}

macro_rules! elements {
    ($($ty:ty = $name:literal)*) => {
        $(impl Element for $ty {
            const ELEMENT_NAME: &'static str = $name;
            const LAYOUT: u32 = 0;
        })*
    };
}

elements! {
    u8 = "u8" u16 = "u16" u32 = "u32" u64 = "u64" u128 = "u128" usize = "usize"
    i8 = "i8" i16 = "i16" i32 = "i32" i64 = "i64" i128 = "i128" isize = "isize"
    f32 = "f32" f64 = "f64" half::f16 = "half::binary16::f16" half::bf16 = "half::bfloat::bf16"
}

impl<T: Element, const N: usize> Element for [T; N] {
    const ELEMENT_NAME: &'static str = ArrayName::<T, N>::NAME.as_str();
    const LAYOUT: u32 = T::LAYOUT;
}

struct ArrayName<T, const N: usize>(std::marker::PhantomData<T>);

impl<T: Element, const N: usize> ArrayName<T, N> {
    const NAME: &'static Text = &Text::new().with("[").with(T::ELEMENT_NAME).with("; ").number(N).with("]");
}

/// A text that is made at compile time.
pub struct Text {
    bytes: [u8; Text::MOST],
    len: usize,
}

#[allow(clippy::new_without_default)] // for constants only
impl Text {
    const MOST: usize = 255;

    /// Empty.
    pub const fn new() -> Text {
        Text { bytes: [0; Text::MOST], len: 0 }
    }

    /// `crate::Type`; the path begins with the crate.
    pub const fn of_type(path: &str, name: &str) -> Text {
        let (path, mut end) = (path.as_bytes(), 0);
        while end < path.len() && path[end] != b':' {
            end += 1;
        }
        Text::new().with_bytes(path.split_at(end).0).with("::").with(name)
    }

    /// With a text behind it.
    pub const fn with(self, text: &str) -> Text {
        self.with_bytes(text.as_bytes())
    }

    const fn with_bytes(mut self, bytes: &[u8]) -> Text {
        assert!(
            self.len + bytes.len() <= Text::MOST,
            "the name of an element type has more than 255 bytes: give its struct a short one, `#[element(name = \"..\")]`"
        );
        let mut i = 0;
        while i < bytes.len() {
            self.bytes[self.len] = bytes[i];
            self.len += 1;
            i += 1;
        }
        self
    }

    const fn number(self, number: usize) -> Text {
        let this = if number >= 10 { self.number(number / 10) } else { self };
        this.with_bytes(&[b'0' + (number % 10) as u8])
    }

    /// As text.
    pub const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => panic!("the name of a type is text"),
        }
    }
}

/// The layout of a struct, hashed at compile time (FNV-1a).
pub struct Layout(u64);

impl Layout {
    /// The layout of a struct of `size` bytes.
    pub const fn new(size: usize, align: usize) -> Layout {
        Layout(0xcbf2_9ce4_8422_2325).number(size as u64).number(align as u64)
    }

    /// With a field of type `T`, which begins at a byte.
    pub const fn field<T: Element>(self, name: &str, offset: usize) -> Layout {
        self.text(name).number(offset as u64).text(T::ELEMENT_NAME).number(T::LAYOUT as u64)
    }

    /// The hash, which is not 0.
    pub const fn hash(self) -> u32 {
        match (self.0 ^ (self.0 >> 32)) as u32 {
            0 => 1,
            hash => hash,
        }
    }

    const fn text(mut self, text: &str) -> Layout {
        let (text, mut i) = (text.as_bytes(), 0);
        while i < text.len() {
            self = self.byte(text[i]);
            i += 1;
        }
        self.number(text.len() as u64)
    }

    const fn number(mut self, number: u64) -> Layout {
        let (bytes, mut i) = (number.to_le_bytes(), 0);
        while i < bytes.len() {
            self = self.byte(bytes[i]);
            i += 1;
        }
        self
    }

    const fn byte(self, byte: u8) -> Layout {
        Layout((self.0 ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3))
    }
}

/// Type of an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ElementType {
    /// Its name: `f32`, `[f64; 3]`, `my_crate::Particle`.
    pub name: String,
    /// Bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Hash of a struct's layout. 0: the name is enough, or the layout is unknown (code in C, and recordings
    /// from before the hash existed).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub layout: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ElementType {
    /// The type `T`.
    pub fn of<T: Element>() -> ElementType {
        let name = T::ELEMENT_NAME.to_owned();
        ElementType { name, size: size_of::<T>(), align: align_of::<T>(), layout: T::LAYOUT }
    }

    /// True if they are the same type: name, size, alignment, and the layout where both know it.
    pub fn agrees(&self, other: &ElementType) -> bool {
        self.matches(&other.name, other.size, other.align, other.layout)
    }

    /// True if it can be read as `T`.
    pub fn is<T: Element>(&self) -> bool {
        self.matches(T::ELEMENT_NAME, size_of::<T>(), align_of::<T>(), T::LAYOUT)
    }

    /// The number or array of numbers of a name, such as `u32` or `[f32; 3]`; `f16` and `bf16` are those of
    /// `half`. `None`: it is the name of none, or one of more than 2^32 - 1 bytes.
    pub fn named(name: &str) -> Option<ElementType> {
        let number = |size| Some(ElementType { name: name.to_owned(), size, align: size, layout: 0 });
        match name {
            "u8" | "i8" => number(1),
            "u16" | "i16" => number(2),
            "u32" | "i32" | "f32" => number(4),
            "u64" | "i64" | "f64" => number(8),
            "u128" | "i128" => number(16),
            "usize" | "isize" => number(size_of::<usize>()),
            "f16" | "half::binary16::f16" => Some(ElementType::of::<half::f16>()),
            "bf16" | "half::bfloat::bf16" => Some(ElementType::of::<half::bf16>()),
            _ => {
                let (element, count) = name.strip_prefix('[')?.strip_suffix(']')?.rsplit_once("; ")?;
                let element = ElementType::named(element)?;
                let count: usize = count.parse().ok()?;
                let size = element.size.checked_mul(count).filter(|size| u32::try_from(*size).is_ok())?;
                let name = format!("[{}; {count}]", element.name);
                (count > 0).then_some(ElementType { name, size, ..element })
            }
        }
    }

    /// Checks that a type can be that of elements: its size and alignment.
    ///
    /// # Errors
    /// What was expected and found.
    pub fn check(&self) -> Result<(), String> {
        /// A page: no plain type needs more.
        const MOST: usize = 4096;
        let ElementType { name, size, align, .. } = self;
        if !align.is_power_of_two() || *align > MOST {
            return Err(format!(
                "type `{name}`: expected an alignment that is a power of two up to {MOST}, found {align}"
            ));
        }
        // The interface passes a size in 32 bits.
        if *size == 0 || u32::try_from(*size).is_err() || !size.is_multiple_of(*align) {
            return Err(format!(
                "type `{name}`: expected a size of 1 to 2^32 - 1 bytes that is a multiple of its alignment {align}, found {size}"
            ));
        }
        Ok(())
    }

    fn matches(&self, name: &str, size: usize, align: usize, layout: u32) -> bool {
        (self.name.as_str(), self.size, self.align) == (name, size, align)
            && (self.layout == layout || self.layout == 0 || layout == 0)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ElementType { name, size, align, layout } = self;
        write!(f, "{name} ({size} bytes, aligned to {align}")?;
        if *layout != 0 {
            write!(f, ", layout {layout:08x}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_recordings_and_plugins_know() {
        assert_eq!(f32::ELEMENT_NAME, std::any::type_name::<f32>());
        assert_eq!(half::bf16::ELEMENT_NAME, std::any::type_name::<half::bf16>());
        assert_eq!(half::f16::ELEMENT_NAME, std::any::type_name::<half::f16>());
        assert_eq!(<[[f64; 3]; 1024]>::ELEMENT_NAME, std::any::type_name::<[[f64; 3]; 1024]>());
    }

    #[test]
    fn types_are_found_by_their_names() {
        fn same<T: Element>() {
            assert_eq!(ElementType::named(T::ELEMENT_NAME), Some(ElementType::of::<T>()));
        }
        same::<u8>();
        same::<i16>();
        same::<f32>();
        same::<u64>();
        same::<i128>();
        same::<usize>();
        same::<half::bf16>();
        same::<[f64; 3]>();
        same::<[[half::f16; 2]; 5]>();
        for wrong in ["", "f31", "[f32]", "[f32; 0]", "[f32; x]", "[[u8; 65536]; 65536]", "a::P", "[", "[]"] {
            assert_eq!(ElementType::named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn layouts_differ_by_names_types_and_places_of_fields() {
        let layout = |x: &str, y: &str| Layout::new(8, 4).field::<f32>(x, 0).field::<f32>(y, 4).hash();
        let same = layout("x", "y");
        assert_eq!(same, layout("x", "y"));
        for other in [
            layout("y", "x"),
            Layout::new(8, 4).field::<f32>("x", 4).field::<f32>("y", 0).hash(),
            Layout::new(8, 4).field::<f32>("x", 0).field::<u32>("y", 4).hash(),
            Layout::new(8, 8).field::<f32>("x", 0).field::<f32>("y", 4).hash(),
        ] {
            assert_ne!(same, other);
        }
    }

    #[test]
    fn an_unknown_layout_agrees_with_any_and_known_ones_must_be_equal() {
        let of = |layout| ElementType { name: "a::P".into(), size: 8, align: 4, layout };
        assert!(of(0).agrees(&of(7)) && of(7).agrees(&of(0)) && of(7).agrees(&of(7)));
        assert!(!of(7).agrees(&of(8)));
        let text = of(7).to_string();
        assert_eq!(text, "a::P (8 bytes, aligned to 4, layout 00000007)");
        let json = serde_json::to_string(&of(0)).unwrap();
        assert_eq!(json, r#"{"name":"a::P","size":8,"align":4}"#, "as it was before there were layouts");
        assert_eq!(serde_json::from_str::<ElementType>(&json).unwrap(), of(0));
    }
}
