//! Open-ended attributes: options of a definition, a runtime or a submission beside its arguments.
//!
//! [`Attributes`] has at most one entry per name, in the order in which the names were first set: a name,
//! a JSON value, and the typed form if a linked type has that name and the value fits. An unknown one is
//! kept unchanged and goes to backends. A backend that does not know a *required* one refuses the launch.
//!
//! Three subsets are kept true here, by hand. An attribute that changes how a plan is made must be in
//! `shapes_plans`, else a plan is found again that was made without it; one that chooses implementations,
//! in `chooses`. A recording keeps those that are for backends, unknown, or listed in
//! [`Attributes::of_the_computation`].

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// A known attribute. Any crate may add its own:
///
/// ```
/// use flash_core::descriptor::{Attribute, Attributes};
/// #[derive(Debug, serde::Serialize, serde::Deserialize)]
/// struct Tile(u32);
/// #[typetag::serde]
/// impl Attribute for Tile {
///     fn as_any(&self) -> &dyn std::any::Any { self }
/// }
/// let mut attributes = Attributes::default();
/// attributes.set(Tile(16));
/// let text = serde_json::to_string(&attributes).unwrap();
/// let back: Attributes = serde_json::from_str(&text).unwrap();
/// assert_eq!(back.get::<Tile>().unwrap().0, 16);
/// ```
#[typetag::serde]
pub trait Attribute: Debug + Send + Sync + 'static {
    /// For typed look-up.
    fn as_any(&self) -> &dyn Any;

    /// False if it is for the runtime only, and not for backends.
    fn for_backends(&self) -> bool {
        true
    }
}

/// Attributes by name, in the order in which they were set. Unknown ones are kept unchanged.
#[derive(Clone, Debug, Default)]
pub struct Attributes(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    known: Option<Arc<dyn Attribute>>,
    key: String,
    value: serde_json::Value,
    required: bool,
}

impl Entry {
    fn chooses(&self) -> bool {
        let any = self.known.as_ref().map(|known| known.as_any());
        any.is_some_and(|any| any.is::<Implementation>() || any.is::<Searchable>())
    }

    fn shapes_plans(&self) -> bool {
        let any = self.known.as_ref().map(|known| known.as_any());
        let says_how = |any: &dyn Any| {
            any.is::<SortBy>()
                || any.is::<GroupBy>()
                || any.is::<super::PartBy>()
                || any.is::<Weights>()
                || any.is::<Subspaces>()
                || any.is::<OnCaller>()
        };
        self.chooses() || any.is_some_and(says_how)
    }
}

#[derive(Serialize, Deserialize)]
struct Wire {
    key: String,
    value: serde_json::Value,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    required: bool,
}

impl Attributes {
    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an attribute, or replaces the one of its type.
    pub fn set<A: Attribute>(&mut self, attribute: A) {
        let key = attribute.typetag_name().to_owned();
        let attribute: Arc<dyn Attribute> = Arc::new(attribute);
        let value = match serde_json::to_value(&*attribute) {
            Ok(serde_json::Value::Object(mut tagged)) => tagged.remove(&key).unwrap_or_default(),
            _ => serde_json::Value::Null,
        };
        self.put(Entry { known: Some(attribute), key, value, required: false });
    }

    /// Adds an attribute by name, which may be unknown here. A backend that does not know a `required` one
    /// refuses the launch.
    pub fn set_by_name(&mut self, key: &str, value: serde_json::Value, required: bool) {
        self.put(Entry { known: known(key, &value).ok().flatten(), key: key.to_owned(), value, required });
    }

    fn put(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|e| e.key == entry.key) {
            Some(old) => *old = entry,
            None => self.0.push(entry),
        }
    }

    /// The attribute of type `A`.
    pub fn get<A: Attribute>(&self) -> Option<&A> {
        self.0.iter().find_map(|e| (**e.known.as_ref()?).as_any().downcast_ref())
    }

    /// Name, value and whether it is required, of each.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&str, &serde_json::Value, bool)> {
        self.0.iter().map(|e| (e.key.as_str(), &e.value, e.required))
    }

    /// The attributes for backends.
    #[inline]
    pub fn for_backends(&self) -> impl Iterator<Item = (&str, &serde_json::Value, bool)> {
        let seen = self.0.iter().filter(|e| e.known.as_ref().is_none_or(|known| known.for_backends()));
        seen.map(|e| (e.key.as_str(), &e.value, e.required))
    }

    /// Those that say what is computed and how it can be cut, or are a backend's; not those that say where it
    /// runs, and by which implementation. That scalars may widen is kept: else there may be none.
    pub fn of_the_computation(&self) -> Attributes {
        let kept = |entry: &&Entry| match &entry.known {
            None => true,
            Some(known) => {
                let known = &**known;
                let any = known.as_any();
                known.for_backends()
                    || any.is::<SortBy>()
                    || any.is::<GroupBy>()
                    || any.is::<super::PartBy>()
                    || any.downcast_ref() == Some(&Searchable::Fuzzy)
            }
        };
        Attributes(self.0.iter().filter(kept).cloned().collect())
    }

    /// Those of which a plan is made: they choose implementations, or say how launches are ordered and cut.
    pub fn of_plans(&self) -> Attributes {
        Attributes(self.0.iter().filter(|entry| entry.shapes_plans()).cloned().collect())
    }

    /// Those that choose implementations.
    pub fn that_choose(&self) -> Attributes {
        Attributes(self.0.iter().filter(|entry| entry.chooses()).cloned().collect())
    }

    /// True if these are, in any order, what `of_plans` gives of `all`.
    pub fn are_of_plans_in(&self, all: &Attributes) -> bool {
        let mut count = 0;
        let is_here = |entry: &Entry| {
            count += 1;
            self.0.iter().any(|own| (&own.key, &own.value) == (&entry.key, &entry.value))
        };
        all.0.iter().filter(|entry| entry.shapes_plans()).all(is_here) && count == self.0.len()
    }

    /// Takes over all of `other`, which win.
    pub fn merge(&mut self, other: &Attributes) {
        for entry in &other.0 {
            self.put(entry.clone());
        }
    }
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// The typed form, `None` if no type has that name, an error if the value does not fit.
fn known(key: &str, value: &serde_json::Value) -> Result<Option<Arc<dyn Attribute>>, serde_json::Error> {
    let tagged = serde_json::Value::Object([(key.to_owned(), value.clone())].into_iter().collect());
    match serde_json::from_value::<Box<dyn Attribute>>(tagged) {
        Ok(attribute) => Ok(Some(attribute.into())),
        Err(error) if error.to_string().contains("unknown variant") => Ok(None),
        Err(error) => Err(error),
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|e| Wire {
            key: e.key.clone(),
            value: e.value.clone(),
            required: e.required,
        }))
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut attributes = Attributes::default();
        for Wire { key, value, required } in Vec::<Wire>::deserialize(deserializer)? {
            let known = known(&key, &value).map_err(|e| {
                D::Error::custom(format!("attribute `{key}` has a value that does not fit: {e}"))
            })?;
            attributes.put(Entry { known, key, value, required });
        }
        Ok(attributes)
    }
}

/// Sorts the index table by these dimensions, instead of the definition's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortBy(pub Vec<String>);

/// Sets barriers, instead of the definition's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// Where one of these, or any more significant dimension, changes value.
    Dims(Vec<String>),
    /// Where one of these changes value.
    Only(Vec<String>),
    /// Where the dimension changes into one of the values.
    Into(String, Vec<u64>),
}

/// The implementation of a kernel to use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Implementation {
    /// The one of this name.
    Named(String),
    /// Code in a file.
    File {
        /// The file.
        #[serde(with = "path_in_bytes")]
        path: std::path::PathBuf,
        /// The function. In a shared library a demangled name is found, too.
        symbol: String,
        /// See [`Implementation::cooperating`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cooperating: bool,
        /// See [`Implementation::build_options`].
        #[serde(default, skip_serializing_if = "String::is_empty")]
        build_options: String,
    },
    /// Source text.
    Source {
        /// The text.
        text: String,
        /// The function.
        entry: String,
        /// See [`Implementation::cooperating`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cooperating: bool,
        /// See [`Implementation::build_options`].
        #[serde(default, skip_serializing_if = "String::is_empty")]
        build_options: String,
    },
}

/// A path as text, or as its bytes where they are none: two paths never look the same.
mod path_in_bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(PathBuf),
        Bytes(Vec<u8>),
    }

    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(to),
            None => path.as_os_str().as_bytes().serialize(to),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match Form::deserialize(from)? {
            Form::Text(path) => path,
            Form::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

impl Implementation {
    /// The implementation of this name.
    pub fn named(name: impl Into<String>) -> Implementation {
        Implementation::Named(name.into())
    }

    /// A function in a file. The kind of file depends on the device:
    ///
    /// | device | file |
    /// |---|---|
    /// | CPU | shared library, with a C or Fortran function `int f(const flash_span*, const flash_arg*)` |
    /// | other | source text that it compiles (`.cl`, `.cu`), or a binary (`.aocx`, `.bin`, `.ptx`, ..) |
    ///
    /// Devices of the runtime that the file is not for are left out. Files that a source includes by a name
    /// in quotes are found beside the file that names them.
    pub fn file(path: impl Into<std::path::PathBuf>, symbol: impl Into<String>) -> Implementation {
        let (path, symbol) = (path.into(), symbol.into());
        Implementation::File { path, symbol, cooperating: false, build_options: String::new() }
    }

    /// A function in a source text, for devices that compile kernels. A CPU does not, and is left out.
    pub fn source(text: impl Into<String>, entry: impl Into<String>) -> Implementation {
        let (text, entry) = (text.into(), entry.into());
        Implementation::Source { text, entry, cooperating: false, build_options: String::new() }
    }

    /// Declares that a device's function takes `FLASH_ARGS` and finds its indices and elements by
    /// `FLASH_INDEX` and `FLASH_AT` (`flash_device.h`). Then it can run launches with an order or with
    /// barriers, and parts of launches. Any other runs whole launches of one phase.
    #[must_use]
    pub fn cooperating(mut self) -> Implementation {
        match &mut self {
            Implementation::File { cooperating, .. } | Implementation::Source { cooperating, .. } => {
                *cooperating = true
            }
            // It declares this itself.
            Implementation::Named(_) => {}
        }
        self
    }

    /// Options for the compiler of the device, separated by white space: `-D WIDTH=4`. A CPU, which gets
    /// compiled code, and an implementation that is named pay no attention to them.
    #[must_use]
    pub fn build_options(mut self, options: impl Into<String>) -> Implementation {
        match &mut self {
            Implementation::File { build_options, .. } | Implementation::Source { build_options, .. } => {
                *build_options = options.into()
            }
            // It has its own.
            Implementation::Named(_) => {}
        }
        self
    }
}

/// The devices of the runtime to use: a runtime key such as `ALL_CPU:0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices(pub String);

impl Devices {
    /// The devices of a runtime key.
    pub fn key(key: impl Into<String>) -> Devices {
        Devices(key.into())
    }
}

/// The share of a launch for each of the selected devices, in their order, instead of measured shares. Any
/// unit: only the proportions count. The launch is cut, as with `part_by`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights(pub Vec<f64>);

/// The least number of subspaces that a launch is cut into. With more than there are devices, an idle device
/// takes the next one: for work items of unequal cost. Without this option, a launch that touches more than a
/// device's memory may take is cut into as many as fit, if it can be cut. 0 is an error of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subspaces(pub u32);

/// Pipelines of a higher priority go before those of a lower one where they wait for the same device, or,
/// those of `exec_async`, for a thread. Default 0. An option of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Priority(pub i32);

/// A launch on a CPU runs on the thread that submits it, and no other thread helps. For launches that are
/// themselves pieces of parallel work: those of tasks, of `par_iter`, of other pools. Devices of other kinds
/// pay no attention to it.
///
/// ```
/// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
/// use flash_core::descriptor::OnCaller;
/// let alone = rt.options(OnCaller);
/// # Ok::<(), flash_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnCaller;

/// Bytes of a device's own memory that arrays may take. Data that does not fit is written back to the host
/// and fetched again; a launch that alone does not fit goes through the memory in parts. An option of a
/// runtime, for all of its devices; the last one given holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBudget(pub u64);

/// How implementations are searched: an option of a runtime or a submission, instead of the definition's
/// (`#[kernel(.., searchable = fuzzy)]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Searchable {
    /// Kernel name and argument types must match. The default.
    Exact,
    /// Kernel name and types of arrays must match; a number may become one of another type that has all
    /// values of its own: an integer a wider one, or a float with digits enough, `f32` becomes `f64`. An
    /// implementation that takes the definition's very types comes first, then the one that changes fewest.
    /// `Implementation::named` chooses among these; files and source texts take what the definition has.
    Fuzzy,
    /// Not at all: an implementation must be named.
    No,
}

macro_rules! attributes {
    ($($t:ident)*) => {$(
        #[typetag::serde]
        impl Attribute for $t {
            fn as_any(&self) -> &dyn Any {
                self
            }
            fn for_backends(&self) -> bool {
                false
            }
        }
    )*};
}
attributes! { SortBy GroupBy Implementation Devices Searchable Weights Subspaces Priority OnCaller MemoryBudget }

/// Shares of a launch for the selected devices: `options(weights([2, 1]))`.
pub fn weights<W: Into<f64>>(shares: impl IntoIterator<Item = W>) -> Weights {
    Weights(shares.into_iter().map(Into::into).collect())
}

/// Sorts the index table by dimensions, by name: `options(sort_by(["z"]))`.
pub fn sort_by<S: Into<String>>(dimensions: impl IntoIterator<Item = S>) -> SortBy {
    SortBy(dimensions.into_iter().map(Into::into).collect())
}

/// Sets barriers: `options(group_by(["stage"]))`, `group_by(only(["stage"]))`,
/// `group_by(("step", [3, 5]))` for changes into the values 3 and 5.
pub fn group_by(group: impl Into<GroupBy>) -> GroupBy {
    group.into()
}

/// Barriers where one of these dimensions changes value, whatever the others do.
pub fn only<S: Into<String>>(dimensions: impl IntoIterator<Item = S>) -> GroupBy {
    GroupBy::Only(dimensions.into_iter().map(Into::into).collect())
}

impl<S: Into<String>, const N: usize> From<[S; N]> for GroupBy {
    fn from(dimensions: [S; N]) -> GroupBy {
        GroupBy::Dims(dimensions.into_iter().map(Into::into).collect())
    }
}

impl<S: Into<String>, const N: usize> From<(S, [u64; N])> for GroupBy {
    fn from((dimension, values): (S, [u64; N])) -> GroupBy {
        GroupBy::Into(dimension.into(), values.to_vec())
    }
}
