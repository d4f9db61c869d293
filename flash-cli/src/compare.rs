//! Compares the contents of memories of which only descriptors are known.

use flash_core::descriptor::ElementType;

/// What is compared: numbers as numbers, anything else by its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    F32,
    F64,
    Integer {
        bytes: usize,
        signed: bool,
    },
    /// No number of a known type.
    Byte,
}

/// The first element that differs, and the number of those that differ.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index of the element, in the memory.
    pub index: usize,
    /// Both elements.
    pub values: [String; 2],
    /// Elements that differ.
    pub count: usize,
}

/// Compares two memories of `element`s. Floating-point components a and b are equal if
/// |a - b| <= `tolerance` * m, m being the largest magnitude in either element, so that a component
/// of a vector that happens to be almost 0 is measured by the vector; two NaNs are equal. Anything
/// else is compared exactly.
pub fn compare(element: &ElementType, a: &[u8], b: &[u8], tolerance: f64) -> Option<Difference> {
    if a == b {
        return None;
    }
    let number = Number::of(element);
    let size = element.size.max(1);
    let pairs = a.chunks(size).zip(b.chunks(size)).enumerate();
    let mut different = pairs.filter(|(_, (a, b))| !number.equal(a, b, tolerance));
    let (index, (a, b)) = different.next()?;
    Some(Difference { index, values: [number.show(a), number.show(b)], count: 1 + different.count() })
}

impl Number {
    /// The number that an element is, or is an array of.
    fn of(element: &ElementType) -> Number {
        let mut name = element.name.as_str();
        while let Some((inner, _)) = name.strip_prefix('[').and_then(|rest| rest.rsplit_once(';')) {
            name = inner;
        }
        let integer = |bytes, signed| Number::Integer { bytes, signed };
        let number = match name {
            "f32" => Number::F32,
            "f64" => Number::F64,
            "u8" => integer(1, false),
            "u16" => integer(2, false),
            "u32" => integer(4, false),
            "u64" => integer(8, false),
            "usize" => integer(size_of::<usize>(), false),
            "i8" => integer(1, true),
            "i16" => integer(2, true),
            "i32" => integer(4, true),
            "i64" => integer(8, true),
            "isize" => integer(size_of::<isize>(), true),
            _ => Number::Byte,
        };
        // The name comes from a file and may be wrong.
        if element.size.is_multiple_of(number.size()) { number } else { Number::Byte }
    }

    fn size(self) -> usize {
        match self {
            Number::F32 => 4,
            Number::F64 => 8,
            Number::Integer { bytes, .. } => bytes,
            Number::Byte => 1,
        }
    }

    fn floats(self, element: &[u8]) -> Option<Vec<f64>> {
        match self {
            Number::F32 => {
                Some(element.as_chunks().0.iter().map(|b| f32::from_ne_bytes(*b).into()).collect())
            }
            Number::F64 => Some(element.as_chunks().0.iter().map(|b| f64::from_ne_bytes(*b)).collect()),
            Number::Integer { .. } | Number::Byte => None,
        }
    }

    fn equal(self, a: &[u8], b: &[u8], tolerance: f64) -> bool {
        if a == b {
            return true;
        }
        let (Some(a), Some(b)) = (self.floats(a), self.floats(b)) else {
            return false;
        };
        let finite = a.iter().chain(&b).filter(|v| v.is_finite());
        let allowed = tolerance * finite.fold(0.0, |m: f64, v| m.max(v.abs()));
        a.iter().zip(&b).all(|(a, b)| {
            // Infinities are equal only to themselves: their difference says nothing.
            a == b || (a.is_nan() && b.is_nan()) || ((a - b).is_finite() && (a - b).abs() <= allowed)
        })
    }

    /// An element as text: a number, or a list of its components.
    fn show(self, element: &[u8]) -> String {
        let component = |bytes: &[u8]| match self {
            Number::F32 => {
                bytes.try_into().map(|b| format!("{:?}", f32::from_ne_bytes(b))).unwrap_or_default()
            }
            Number::F64 => {
                bytes.try_into().map(|b| format!("{:?}", f64::from_ne_bytes(b))).unwrap_or_default()
            }
            Number::Integer { signed, .. } => integer(bytes, signed).to_string(),
            Number::Byte => format!("{:02x}", bytes[0]),
        };
        let all: Vec<String> = element.chunks(self.size()).map(component).collect();
        match (self, &all[..]) {
            (Number::Byte, _) => format!("bytes {}", all.join(" ")),
            (_, [one]) => one.clone(),
            _ => format!("[{}]", all.join(", ")),
        }
    }
}

/// An integer of up to 8 bytes, in the byte order of the machine.
fn integer(bytes: &[u8], signed: bool) -> i128 {
    let most_significant_first = |value: i128, byte: &u8| value << 8 | i128::from(*byte);
    let value = match cfg!(target_endian = "little") {
        true => bytes.iter().rev().fold(0, most_significant_first),
        false => bytes.iter().fold(0, most_significant_first),
    };
    let span = 1i128 << (8 * bytes.len());
    if signed && value >= span / 2 { value - span } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ<T: flash::kernel::Element>(a: &[T], b: &[T], tolerance: f64) -> Option<(usize, usize, String)> {
        let bytes = |list: &[T]| -> Vec<u8> {
            // SAFETY: plain data without padding, as `Element` requires.
            let raw = unsafe { std::slice::from_raw_parts(list.as_ptr().cast::<u8>(), size_of_val(list)) };
            raw.to_vec()
        };
        compare(&ElementType::of::<T>(), &bytes(a), &bytes(b), tolerance)
            .map(|d| (d.index, d.count, d.values.join(" | ")))
    }

    #[test]
    fn floats_differ_by_more_than_the_tolerance_relative_to_the_larger() {
        let (a, b) = ([1.0f32, 2.0, 100.0], [1.0f32, 2.001, 101.0]);
        assert_eq!(differ(&a, &b, 0.0), Some((1, 2, "2.0 | 2.001".into())));
        assert_eq!(differ(&a, &b, 1e-3), Some((2, 1, "100.0 | 101.0".into())));
        assert_eq!(differ(&a, &b, 1e-2), None);
        assert_eq!(differ(&[1.0f64], &[1.0 + f64::EPSILON], 0.0).map(|d| d.0), Some(0));
        assert_eq!(differ(&[0.0f64], &[-0.0], 0.0), None);
    }

    #[test]
    fn components_are_measured_by_their_element() {
        let (a, b) = ([[100.0f32, 1e-6, 0.0]; 2], [[100.0f32, 2e-6, 0.0]; 2]);
        assert_eq!(differ(&a, &b, 1e-6), None);
        assert_eq!(differ(&a, &b, 1e-9), Some((0, 2, "[100.0, 1e-6, 0.0] | [100.0, 2e-6, 0.0]".into())));
        let (a, b) = ([[[1i16, -2], [3, 4]]], [[[1i16, -2], [3, -32768]]]);
        assert_eq!(differ(&a, &b, 0.5), Some((0, 1, "[1, -2, 3, 4] | [1, -2, 3, -32768]".into())));
    }

    #[test]
    fn what_is_not_finite_equals_only_itself() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert_eq!(differ(&[nan, inf, -inf], &[-nan, inf, -inf], 0.0), None);
        for (a, b) in [(inf, -inf), (inf, f64::MAX), (nan, 1.0), (0.0, inf)] {
            assert!(differ(&[a], &[b], 1.0).is_some() && differ(&[b], &[a], 1.0).is_some(), "{a} {b}");
        }
        assert!(differ(&[[1.0, inf]], &[[2.0, inf]], 0.1).is_some(), "infinity measures nothing");
    }

    #[test]
    fn integers_and_other_types_are_compared_exactly() {
        assert_eq!(
            differ(&[u64::MAX], &[u64::MAX - 1], 1.0).unwrap().2,
            format!("{} | {}", u64::MAX, u64::MAX - 1)
        );
        assert_eq!(differ(&[-1i8], &[1], 1.0).unwrap().2, "-1 | 1");
        let element = |name: &str, size| ElementType { name: name.into(), size, align: 1, layout: 0 };
        let found = compare(&element("my::Particle", 2), &[1, 2, 3, 4], &[1, 2, 3, 255], 1.0).unwrap();
        assert_eq!((found.index, found.values), (1, ["bytes 03 04".to_owned(), "bytes 03 ff".to_owned()]));
        // A name whose size is wrong.
        assert!(compare(&element("f64", 3), &[1, 2, 3], &[1, 2, 4], 1.0).is_some());
    }
}
