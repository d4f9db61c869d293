//! The type of a field: its view, its access, its element.

use crate::tokens::{last_segment, plain, text, type_arguments};
use syn::{Error, Ident, PathSegment, Type};

/// How a kernel sees an argument.
pub enum View {
    Scalar,
    Item {
        access: AccessType,
        along: Vec<usize>,
    },
    Whole {
        access: AccessType,
    },
    Window {
        access: AccessType,
    },
    Uniform {
        access: AccessType,
    },
    Phased {
        element: Type,
        along: Vec<usize>,
        stages: Option<(usize, Vec<Use>)>,
    },
    Scatter {
        element: Type,
    },
    /// `along`: the dimension of the row. The rows begin where argument number `at` says, whose name `starts`
    /// is.
    Ragged {
        access: Access,
        element: Type,
        along: usize,
        starts: Option<Ident>,
        at: usize,
    },
    Reduce {
        access: AccessType,
        operation: Type,
    },
}

/// The type of an access. An alias is resolved by the compiler.
pub struct AccessType {
    pub ty: Type,
    /// Where the tokens show it.
    pub access: Option<Access>,
    /// Of an element or a row.
    pub visible: Option<Visible>,
}

/// An access that is visible in the tokens.
pub struct Visible {
    pub access: Access,
    pub row: bool,
    pub element: Type,
}

/// A kernel's access to an argument, in the order in which arguments stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    ReadWrite,
    Write,
}

/// How a stage uses a phased argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
}

/// Types that look like plain data and are not, and what to write instead.
const NOT_PLAIN: &[(&str, &str)] = &[
    ("bool", "use `u32`, 0 or 1"),
    ("char", "use `u32`"),
    ("String", "use a number, or an array of bytes"),
    ("Option", "use a value that stands for none"),
    ("Box", "pass the value itself, or an array as `Whole<'a, Read<T>>`"),
    ("Vec", "an array is `Whole<'a, Read<T>>`, or `Item<'a, ..>` if each work item has its own element"),
    (
        "FlashMemory",
        "an array is `Whole<'a, Read<T>>`, or `Item<'a, ..>` if each work item has its own element",
    ),
];

impl Access {
    /// The kind of its arguments, for messages.
    pub fn words(self) -> &'static str {
        match self {
            Access::Read => "only read",
            Access::ReadWrite => "read and written",
            Access::Write => "only written",
        }
    }
}

impl View {
    /// The access, where the tokens show it.
    pub fn access(&self) -> Option<Access> {
        match self {
            View::Scalar | View::Whole { .. } | View::Window { .. } | View::Uniform { .. } => {
                Some(Access::Read)
            }
            View::Phased { .. } | View::Scatter { .. } => Some(Access::ReadWrite),
            View::Ragged { access, .. } => Some(*access),
            View::Item { access, .. } | View::Reduce { access, .. } => access.access,
        }
    }
}

/// Reads the type of a field. `along` and `stages` are read later.
pub fn read(ty: &Type, lifetime: Option<&Ident>) -> syn::Result<View> {
    let reader = Reader { lifetime: lifetime.map_or("'a".to_owned(), |name| format!("'{name}")) };
    let Some(segment) = last_segment(ty) else {
        return reader.plain_data(ty).map(|()| View::Scalar);
    };
    match segment.ident.to_string().as_str() {
        "Item" => Ok(View::Item { access: reader.item(segment)?, along: Vec::new() }),
        "Whole" => Ok(View::Whole { access: reader.whole(segment)? }),
        "Phased" => Ok(View::Phased { element: reader.element(segment)?, along: Vec::new(), stages: None }),
        "Scatter" => Ok(View::Scatter { element: reader.element(segment)? }),
        "Ragged" => reader.ragged(segment),
        "Window" => Ok(View::Window { access: reader.whole(segment)? }),
        "Uniform" => Ok(View::Uniform { access: reader.whole(segment)? }),
        "Reduce" => reader.reduce(segment),
        _ => reader.plain_data(ty).map(|()| View::Scalar),
    }
}

/// Whether a type is a view by its name.
pub fn is_view(ty: &Type) -> bool {
    const VIEWS: [&str; 8] = ["Item", "Whole", "Phased", "Scatter", "Ragged", "Window", "Uniform", "Reduce"];
    last_segment(ty).is_some_and(|segment| VIEWS.iter().any(|view| segment.ident == view))
}

struct Reader {
    lifetime: String,
}

impl Reader {
    /// Refuses types that are certainly no plain data. The compiler decides about all others.
    fn plain_data(&self, ty: &Type) -> syn::Result<()> {
        let a = &self.lifetime;
        if let Type::Reference(reference) = plain(ty) {
            let element = match plain(&reference.elem) {
                Type::Slice(slice) => text(&slice.elem),
                Type::Array(array) => text(&array.elem),
                other => text(other),
            };
            let help = if reference.mutability.is_some() {
                format!("`Item<{a}, ReadWrite<{element}>>` or `Item<{a}, Write<{element}>>`")
            } else {
                format!(
                    "`Whole<{a}, Read<{element}>>`, or `Item<{a}, Read<{element}>>` if each work item has its own element"
                )
            };
            return Err(Error::new_spanned(ty, format!("a reference cannot cross to a device: use {help}")));
        }
        if let Type::Slice(_)
        | Type::Tuple(_)
        | Type::Ptr(_)
        | Type::BareFn(_)
        | Type::TraitObject(_)
        | Type::ImplTrait(_) = plain(ty)
        {
            return Err(Error::new_spanned(
                ty,
                format!(
                    "`{}` is not plain data: an argument is a number, an array of numbers, a struct with `#[derive(Clone, Copy, Element)]` and `#[repr(C)]`, or a view",
                    text(ty)
                ),
            ));
        }
        if let Type::Array(array) = plain(ty) {
            return self.plain_data(&array.elem);
        }
        let Some(segment) = last_segment(ty) else {
            return Ok(());
        };
        match NOT_PLAIN.iter().find(|(known, _)| segment.ident == known) {
            Some((_, help)) => Err(Error::new_spanned(
                ty,
                format!("`{}` is not plain data: {}", text(ty), help.replace("'a", a)),
            )),
            None => Ok(()),
        }
    }

    fn item(&self, segment: &PathSegment) -> syn::Result<AccessType> {
        let (a, ty) = (&self.lifetime, self.argument(segment)?);
        let access = access_type(ty);
        if access.visible.is_none() && is_element(ty) {
            let element = text(ty);
            return Err(Error::new_spanned(
                ty,
                format!(
                    "this says nothing of access: write `Item<{a}, Read<{element}>>`, `Item<{a}, ReadWrite<{element}>>` or `Item<{a}, Write<{element}>>`"
                ),
            ));
        }
        if let Some(visible) = &access.visible {
            self.plain_data(&visible.element)?;
        }
        Ok(access)
    }

    fn whole(&self, segment: &PathSegment) -> syn::Result<AccessType> {
        let (a, view, ty) = (&self.lifetime, &segment.ident, self.argument(segment)?);
        let access = access_type(ty);
        let error = match &access.visible {
            None if is_element(ty) => {
                Some(format!("a `{view}` is only read, and says so: write `{view}<{a}, Read<{}>>`", text(ty)))
            }
            Some(Visible { access: Access::Read, row: false, .. }) | None => None,
            Some(Visible { access: Access::Read, .. }) => Some(format!(
                "a `{view}` has no rows: write `{view}<{a}, Read<T>>`, or `Item<{a}, Read<Row<T>>>` for the own row of each work item"
            )),
            Some(Visible { element, .. }) => Some(format!(
                "a `{view}` is only read: write `{view}<{a}, Read<{}>>`; to write use `Item`, `Phased` or `Scatter`",
                text(element)
            )),
        };
        if let Some(error) = error {
            return Err(Error::new_spanned(ty, error));
        }
        if let Some(visible) = &access.visible {
            self.plain_data(&visible.element)?;
        }
        Ok(access)
    }

    fn ragged(&self, segment: &PathSegment) -> syn::Result<View> {
        let (a, ty) = (&self.lifetime, self.argument(segment)?);
        let both = |element: &str| {
            format!("write `Ragged<{a}, Read<{element}>>` or `Ragged<{a}, ReadWrite<{element}>>`")
        };
        let error = match access_type(ty).visible {
            Some(Visible { access: Access::Write, element, .. }) => format!(
                "the elements of a `Ragged` may be left as they are, so that they count as read: {}",
                both(&text(&element))
            ),
            Some(Visible { row: true, element, .. }) => {
                format!("a `Ragged` has rows, of elements: {}", both(&text(&element)))
            }
            Some(Visible { access, element, .. }) => {
                self.plain_data(&element)?;
                return Ok(View::Ragged { access, element, along: 0, starts: None, at: 0 });
            }
            None => format!("this says nothing of access: {}", both(&text(ty))),
        };
        Err(Error::new_spanned(ty, error))
    }

    /// The element of a `Phased` or `Scatter`.
    fn element(&self, segment: &PathSegment) -> syn::Result<Type> {
        let (view, ty) = (&segment.ident, self.argument(segment)?);
        let help = match (access_type(ty).visible, last_segment(ty)) {
            (Some(visible), _) => Some(text(&visible.element)),
            (None, Some(row)) if row.ident == "Row" => Some("T".to_owned()),
            _ => None,
        };
        match help {
            Some(element) => Err(Error::new_spanned(
                ty,
                format!(
                    "a `{view}` is of elements, and always read and written: write `{view}<{}, {element}>`",
                    self.lifetime
                ),
            )),
            None => self.plain_data(ty).map(|()| ty.clone()),
        }
    }

    fn reduce(&self, segment: &PathSegment) -> syn::Result<View> {
        let a = &self.lifetime;
        let (ty, operation) = match type_arguments(segment).as_slice() {
            [ty, operation] => (*ty, *operation),
            [ty] => {
                let access = match visible(ty) {
                    Some(visible) if visible.access != Access::Read => text(ty),
                    Some(visible) => format!("Write<{}>", text(&visible.element)),
                    None => format!("Write<{}>", text(ty)),
                };
                return Err(Error::new_spanned(
                    ty,
                    format!(
                        "this says nothing of the operation: write `Reduce<{a}, {access}, Sum>`, or `Min`, `Max`, or a type of yours that is a `ReduceOp`"
                    ),
                ));
            }
            _ => {
                return Err(Error::new_spanned(
                    segment,
                    format!("write `Reduce<{a}, Write<T>, Sum>`, with the type of the accumulator for `T`"),
                ));
            }
        };
        let access = access_type(ty);
        let both = |element: &str, op: &str| {
            format!("`Reduce<{a}, Write<{element}>, {op}>`, or `ReadWrite` if the initial content counts")
        };
        let op = text(operation);
        let error = match &access.visible {
            None if is_element(ty) => {
                Some(format!("this says nothing of access: write {}", both(&text(ty), &op)))
            }
            None => None,
            Some(Visible { access: Access::Read, element, .. }) => {
                Some(format!("a `Reduce` is written: write {}", both(&text(element), &op)))
            }
            Some(Visible { row: true, element, .. }) => Some(format!(
                "a `Reduce` has no rows: write {}, for an array of accumulators",
                both(&format!("[{}]", text(element)), &op)
            )),
            Some(_) => None,
        };
        if let Some(error) = error {
            return Err(Error::new_spanned(ty, error));
        }
        if let Some(visible) = &access.visible {
            self.plain_data(accumulated(&visible.element))?;
        }
        Ok(View::Reduce { access, operation: operation.clone() })
    }

    fn argument<'t>(&self, segment: &'t PathSegment) -> syn::Result<&'t Type> {
        match type_arguments(segment).as_slice() {
            [ty] => Ok(ty),
            _ => {
                let (view, a) = (&segment.ident, &self.lifetime);
                let of = if ["Item", "Whole", "Window", "Uniform", "Ragged"].iter().any(|known| view == known)
                {
                    "Read<T>"
                } else {
                    "T"
                };
                Err(Error::new_spanned(
                    segment,
                    format!("write `{view}<{a}, {of}>`, with the type of one element for `T`"),
                ))
            }
        }
    }
}

/// The type of one accumulator: of `[T]`, which is an array of them, `T`.
pub fn accumulated(content: &Type) -> &Type {
    match plain(content) {
        Type::Slice(slice) => &slice.elem,
        _ => content,
    }
}

/// True for an element, false for an alias of an access, which has the element as parameter.
fn is_element(ty: &Type) -> bool {
    match last_segment(ty) {
        Some(segment) => segment.ident == "Row" || segment.arguments.is_none(),
        None => true,
    }
}

fn access_type(ty: &Type) -> AccessType {
    let visible = visible(ty);
    let access = visible.as_ref().map(|visible| visible.access);
    // The compiler knows what the doors have of these.
    let is_tile = |visible: &Visible| {
        last_segment(&visible.element)
            .is_some_and(|segment| ["Block", "Tile"].iter().any(|of| segment.ident == of))
    };
    AccessType { ty: ty.clone(), access, visible: visible.filter(|visible| !is_tile(visible)) }
}

fn visible(ty: &Type) -> Option<Visible> {
    let segment = last_segment(ty)?;
    let access = match segment.ident.to_string().as_str() {
        "Read" => Access::Read,
        "ReadWrite" => Access::ReadWrite,
        "Write" => Access::Write,
        _ => return None,
    };
    let [content] = type_arguments(segment)[..] else {
        return None;
    };
    let row = last_segment(content).filter(|segment| segment.ident == "Row");
    match row.map(type_arguments).as_deref() {
        Some([element]) => Some(Visible { access, row: true, element: (*element).clone() }),
        Some(_) => None,
        None => Some(Visible { access, row: false, element: content.clone() }),
    }
}
