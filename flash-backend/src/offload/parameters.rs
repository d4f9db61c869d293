//! The parameters of a kernel function, as a driver or a compiler tells them, beside those that the
//! definition needs.
//!
//! What is told may be little: a size, a type that only the source explains, or nothing. So this looks for
//! contradictions alone. A type that it does not know, such as one that the source names, contradicts
//! nothing. Neither do views that kernels use on purpose:
//!
//! - vectors for numbers (`float4` for `f32`), and signed for unsigned ones;
//! - bytes for anything, and anything for `u8`;
//! - whole elements as one number (`ulong` for `[u32; 2]`);
//! - 16-bit integers for `f16` and `bf16`, which some languages lack, and the other way round;
//! - integers for the numbers of a `Scatter`, since atomic operations are on integers.

use super::{KernelSpec, Parameter};
use crate::failure::Failure;
use flash_types::Code;
use flash_types::descriptor::{ArgumentDescriptor, View};

/// What is told of one parameter; `None`: it is not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldParameter {
    /// How it is passed.
    pub passing: Option<Passing>,
    /// Its type, in C's form: `const float *`, `float const*`, `struct particle`.
    pub type_name: Option<String>,
    /// Its name.
    pub name: Option<String>,
}

/// How a parameter is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// By value.
    Value,
    /// A pointer to a buffer.
    Pointer,
    /// A pointer to memory of the work-group, which no launch gives.
    Local,
}

/// A type, as far as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    /// A number, or a vector of them.
    Number(Number),
    /// A pointer.
    Pointer(Pointee),
    /// Only the source explains it.
    Unknown,
}

/// What a pointer points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pointee {
    Number(Number),
    /// `void`, a pointer, or what only the source explains.
    Any,
}

/// A number of some bytes; `lanes`: of a vector, or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    float: bool,
    bytes: usize,
    lanes: usize,
}

impl KernelSpec {
    /// Compares what is told of the kernel function's parameters with the definition's arguments. `told` has
    /// all of them, or none if nothing is told; those of `FLASH_ARGS` are not looked at.
    ///
    /// # Errors
    /// [`Code::Invalid`] for a parameter that cannot take its argument, or for arguments in another order.
    pub fn check_told(&self, told: &[ToldParameter]) -> Result<(), Failure> {
        let expected = self.parameters();
        for (number, (parameter, told)) in expected.iter().zip(told).enumerate() {
            if let Some((expected, found)) = contradiction(self.argument_of(parameter), parameter, told) {
                return Err(self.wrong_parameter(number, &expected, &found));
            }
        }
        self.check_names(&expected, told)
    }

    /// The error of a parameter that cannot take its argument.
    pub fn wrong_parameter(&self, number: usize, expected: &str, found: &str) -> Failure {
        let named = self.parameters().get(number).map(|p| format!("argument `{}`, ", self.name_of(p)));
        let text = format!(
            "{}: {}parameter {number} of `{}`: expected {expected}, as the definition has it, found {found}: {ORDER}",
            self.title,
            named.unwrap_or_default(),
            self.entry
        );
        Failure::new(Code::Invalid, text)
    }

    /// What a program's parameters are compared with, as text: programs of one source for definitions that
    /// differ in this are not the same.
    pub(super) fn expected_parameters(&self) -> String {
        let one = |parameter: &Parameter| {
            let ArgumentDescriptor { view, element, .. } = self.argument_of(parameter);
            format!("{} {view:?} {} {}", self.name_of(parameter), element.name, element.size)
        };
        self.parameters().iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn argument_of(&self, parameter: &Parameter) -> &ArgumentDescriptor {
        let (Parameter::Value(i) | Parameter::Array(i) | Parameter::Next(i)) = *parameter;
        &self.descriptor.arguments[i]
    }

    /// The name of a parameter: that of its argument, or with `_next`.
    pub(super) fn name_of(&self, parameter: &Parameter) -> String {
        let name = &self.argument_of(parameter).name;
        if matches!(parameter, Parameter::Next(_)) { format!("{name}_next") } else { name.clone() }
    }

    /// Parameters may have names of their own, if the kernel does not cooperate. Names in another order than
    /// the definition's are an error all the same, and so are arrays of a cooperating kernel under the name
    /// of another one, by which the macros would find the wrong length.
    fn check_names(&self, expected: &[Parameter], told: &[ToldParameter]) -> Result<(), Failure> {
        let expected_names: Vec<String> = expected.iter().map(|parameter| self.name_of(parameter)).collect();
        let names =
            told.iter().take(expected.len()).map(|told| told.name.as_deref().filter(|n| !n.is_empty()));
        let Some(names) = names.collect::<Option<Vec<&str>>>() else { return Ok(()) };
        if names.len() != expected.len() {
            return Ok(());
        }
        let (mut found, mut wanted) =
            (names.clone(), Vec::from_iter(expected_names.iter().map(String::as_str)));
        found.sort_unstable();
        wanted.sort_unstable();
        let permuted = found == wanted;
        let is_array = |parameter: &Parameter| !matches!(parameter, Parameter::Value(_));
        for (number, name) in names.iter().enumerate() {
            let wanted = &expected_names[number];
            let other = expected_names.iter().position(|other| other == name);
            let of_array = other.is_some_and(|other| {
                self.cooperating && [other, number].iter().all(|&at| is_array(&expected[at]))
            });
            if name != wanted && (permuted || of_array) {
                return Err(self.wrong_parameter(number, &format!("`{wanted}`"), &format!("`{name}`")));
            }
        }
        Ok(())
    }
}

const ORDER: &str =
    "a kernel's parameters are the definition's arguments, in their order and under their names";

/// What a parameter was expected to be, and what it is, if that cannot be right.
fn contradiction(
    argument: &ArgumentDescriptor,
    parameter: &Parameter,
    told: &ToldParameter,
) -> Option<(String, String)> {
    let found = told.type_name.as_deref().map_or(Type::Unknown, type_of);
    let name = match (&told.type_name, told.passing) {
        (Some(name), Some(Passing::Local)) => format!("`{name}` in memory of the work-group"),
        (Some(name), Some(Passing::Pointer)) if !name.contains('*') => format!("a pointer `{name}`"),
        (Some(name), _) => format!("`{name}`"),
        (None, Some(Passing::Value)) => "a value".to_owned(),
        (None, _) => "a pointer".to_owned(),
    };
    let element = &argument.element;
    if !matches!(parameter, Parameter::Value(_)) {
        let wrong = match (told.passing, found) {
            (Some(Passing::Value | Passing::Local), _) => true,
            (Some(Passing::Pointer), Type::Number(_)) => false,
            (None, Type::Number(_)) => true,
            (_, Type::Pointer(Pointee::Number(number))) => !views(argument, number),
            (_, Type::Pointer(Pointee::Any) | Type::Unknown) => false,
        };
        return wrong.then(|| (format!("a pointer to `{}`", element.name), name));
    }
    let wrong = match (told.passing, found) {
        (Some(Passing::Pointer | Passing::Local), _) => true,
        // An address may be passed as a number.
        (None, Type::Pointer(_)) => !leaf(&element.name).is_some_and(|leaf| !leaf.float && element.size == 8),
        (_, Type::Number(number)) => !is_value(&element.name, element.size, number),
        _ => false,
    };
    wrong.then(|| (format!("a `{}` by value", element.name), name))
}

/// Whether a kernel may see an array as one of these numbers.
fn views(argument: &ArgumentDescriptor, found: Number) -> bool {
    let element = &argument.element;
    let Some(leaf) = leaf(&element.name) else { return true };
    let bytes = |number: Number| !number.float && number.bytes == 1;
    if bytes(found) || bytes(leaf) {
        return true;
    }
    let both_integers = !found.float && !leaf.float;
    let atomic = argument.view == View::Scatter && !found.float;
    match found.bytes == leaf.bytes {
        true => found.float == leaf.float || leaf.bytes == 2 || atomic,
        // All numbers of an element as one.
        false => both_integers && found.bytes == element.size,
    }
}

/// Whether a value of an element's type may be passed as this number.
fn is_value(name: &str, size: usize, found: Number) -> bool {
    let sized = match found.lanes {
        // Vectors of three have the size of four in some languages.
        3 => [3, 4].iter().any(|lanes| lanes * found.bytes == size),
        lanes => lanes * found.bytes == size,
    };
    let same_kind = |leaf: Number| leaf.float == found.float || leaf.bytes != found.bytes || leaf.bytes == 2;
    sized && leaf(name).is_none_or(same_kind)
}

/// The number that an element consists of: `f32` of `[[f32; 3]; 2]`; `None` for structs.
fn leaf(name: &str) -> Option<Number> {
    let inner = name.trim_start_matches('[').split(';').next()?.trim();
    let (float, bytes) = match inner {
        "u8" | "i8" => (false, 1),
        "u16" | "i16" => (false, 2),
        "u32" | "i32" => (false, 4),
        "u64" | "i64" | "usize" | "isize" => (false, 8),
        "half::binary16::f16" | "half::bfloat::bf16" => (true, 2),
        "f32" => (true, 4),
        "f64" => (true, 8),
        _ => return None,
    };
    Some(Number { float, bytes, lanes: 1 })
}

/// A type by its name.
fn type_of(name: &str) -> Type {
    if name.contains(['&', '(', '[', '<', ':']) {
        return Type::Unknown;
    }
    let (base, pointers) = (name.split('*').next().unwrap_or(name), name.matches('*').count());
    let number = number_of(base);
    match (pointers, number) {
        (0, Some(number)) => Type::Number(number),
        (0, None) => Type::Unknown,
        (1, Some(number)) => Type::Pointer(Pointee::Number(number)),
        _ => Type::Pointer(Pointee::Any),
    }
}

/// Words of a type that do not change its values.
const QUALIFIERS: [&str; 13] = [
    "const",
    "volatile",
    "restrict",
    "__restrict",
    "__restrict__",
    "__global",
    "global",
    "__constant",
    "constant",
    "__private",
    "private",
    "signed",
    "unsigned",
];

/// A number by its words, such as `unsigned long long` or `uint4`.
fn number_of(base: &str) -> Option<Number> {
    let is_integer = base.split_whitespace().any(|word| matches!(word, "signed" | "unsigned"));
    let words: Vec<&str> = base.split_whitespace().filter(|word| !QUALIFIERS.contains(word)).collect();
    let integer = |bytes| Some(Number { float: false, bytes, lanes: 1 });
    match words[..] {
        [] if is_integer => integer(4),
        ["long", "long"] | ["long", "int"] | ["long", "long", "int"] => integer(8),
        ["short", "int"] => integer(2),
        [word] => number_of_word(word),
        _ => None,
    }
}

/// A number by one word.
fn number_of_word(word: &str) -> Option<Number> {
    match word {
        "flash_u64" | "flash_i64" => return Some(Number { float: false, bytes: 8, lanes: 1 }),
        "flash_u32" => return Some(Number { float: false, bytes: 4, lanes: 1 }),
        _ => {}
    }
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let lanes = match &word[stem.len()..] {
        "" => 1,
        "2" => 2,
        "3" => 3,
        "4" => 4,
        "8" => 8,
        "16" => 16,
        _ => return None,
    };
    let (float, bytes) = match stem {
        "bool" | "_Bool" if lanes == 1 => (false, 1),
        "char" | "uchar" => (false, 1),
        "short" | "ushort" => (false, 2),
        "int" | "uint" => (false, 4),
        "long" | "ulong" | "longlong" | "ulonglong" => (false, 8),
        "half" => (true, 2),
        "float" => (true, 4),
        "double" => (true, 8),
        _ => return None,
    };
    Some(Number { float, bytes, lanes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_types::descriptor::{Access, ElementType};

    fn argument(view: View, name: &str, size: usize) -> ArgumentDescriptor {
        ArgumentDescriptor {
            name: "x".into(),
            view,
            access: Access::Read,
            element: ElementType { name: name.into(), size, align: 1, layout: 0 },
            row: false,
            along: Vec::new(),
            stages: None,
            tile: Vec::new(),
            rows: None,
            structure: false,
            reduce: None,
        }
    }

    fn fits(view: View, (name, size): (&str, usize), passing: Option<Passing>, type_name: &str) -> bool {
        let told = ToldParameter { passing, type_name: Some(type_name.into()), name: None };
        let parameter = if view == View::Scalar { Parameter::Value(0) } else { Parameter::Array(0) };
        contradiction(&argument(view, name, size), &parameter, &told).is_none()
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and takes a minute")]
    fn an_array_is_a_pointer_to_its_elements_or_to_what_kernels_see_in_them() {
        let array = |element, types: &[&str]| {
            for found in types {
                assert!(fits(View::Item, element, Some(Passing::Pointer), found), "{element:?} as {found}");
                assert!(fits(View::Item, element, None, found), "{element:?} as {found}");
            }
        };
        array(
            ("f32", 4),
            &["float*", "float const*", "const float *", "__global float4 *restrict", "uchar*"],
        );
        array(("f32", 4), &["void*", "real*", "struct pair*", "flash_real *", "float (*) [3]", "float**"]);
        array(("[f32; 3]", 12), &["float*", "float3*", "point*"]);
        array(("u64", 8), &["ulong*", "unsigned long long*", "flash_u64*", "long*", "unsigned long int *"]);
        array(("usize", 8), &["size_t*", "ulong*"]);
        array(("half::binary16::f16", 2), &["half*", "ushort*", "__half*", "short2*"]);
        array(("u16", 2), &["half*", "ushort*", "unsigned short*"]);
        array(("u8", 1), &["uchar*", "uint*", "float4*", "bool*"]);
        array(("[u32; 2]", 8), &["uint*", "uint2*", "ulong*"]);
        array(("physics::Particle", 16), &["float*", "double4*", "struct particle*"]);
        assert!(fits(View::Scatter, ("f32", 4), Some(Passing::Pointer), "uint*"));
    }

    #[test]
    fn a_pointer_to_other_numbers_and_a_value_are_no_array() {
        for (element, types) in [
            (("f32", 4), &["double*", "uint*", "int*", "half*", "double2 const*", "ulong*"][..]),
            (("f64", 8), &["float*", "ulong*", "long*"]),
            (("u32", 4), &["float*", "flash_u64*", "ushort*"]),
            (("[f32; 2]", 8), &["double*", "ulong*"]),
        ] {
            for found in types {
                assert!(!fits(View::Item, element, Some(Passing::Pointer), found), "{element:?} as {found}");
                assert!(!fits(View::Item, element, None, found), "{element:?} as {found}");
            }
        }
        assert!(!fits(View::Item, ("f32", 4), Some(Passing::Value), "anything"));
        assert!(!fits(View::Item, ("f32", 4), Some(Passing::Local), "float*"));
        assert!(!fits(View::Item, ("f32", 4), None, "unsigned long"));
        assert!(!fits(View::Scatter, ("f32", 4), None, "double*"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and takes a minute")]
    fn a_value_has_the_size_and_the_kind_of_its_argument() {
        for (element, found) in [
            (("f32", 4), "float"),
            (("f32", 4), "const float"),
            (("f32", 4), "real"),
            (("i32", 4), "unsigned int"),
            (("u32", 4), "unsigned"),
            (("u64", 8), "flash_u64"),
            (("u8", 1), "bool"),
            (("half::bfloat::bf16", 2), "ushort"),
            (("[f32; 4]", 16), "float4"),
            (("[f32; 3]", 12), "float3"),
            (("my::Pair", 8), "float2"),
            (("my::Pair", 8), "struct pair"),
        ] {
            assert!(fits(View::Scalar, element, Some(Passing::Value), found), "{element:?} as {found}");
            assert!(fits(View::Scalar, element, None, found), "{element:?} as {found}");
        }
        for (element, found) in
            [(("f32", 4), "double"), (("f32", 4), "int"), (("u32", 4), "float"), (("my::Pair", 8), "float")]
        {
            assert!(!fits(View::Scalar, element, Some(Passing::Value), found), "{element:?} as {found}");
        }
        assert!(!fits(View::Scalar, ("u64", 8), Some(Passing::Pointer), "float*"));
        assert!(fits(View::Scalar, ("u64", 8), None, "float*"));
        assert!(!fits(View::Scalar, ("f32", 4), None, "float*"));
    }
}
