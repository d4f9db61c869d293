//! Partition maps as data: the elements of each array that a part of an index space touches.

use super::attribute::Attribute;
use serde::{Deserialize, Serialize};
use std::any::Any;

/// How a launch is cut over several devices: the dimension, and the elements of each array that a part of the
/// space touches. As an option it replaces the definition's (`part_by(..)`).
///
/// Arguments that are not named follow their views: an `Item` is its own elements, a `Phased` reads all and
/// writes its own, a `Window` and a `Whole` are all of the array. Only `Window`, `Phased` (what it reads) and
/// `Scatter` can be named; a launch with a `Scatter` is cut only if that is named.
///
/// A launch runs whole, on one device, if the chosen implementation works on whole arrays. With one that
/// works on parts (`CpuWhole::PARTS`) of them it runs whole if the own elements of some part
/// have those of another between them (columns of a matrix, say), or a `Phased` declares its use by stages.
///
/// # Examples
/// ```
/// use flash_core::descriptor::{part_by, stencil};
/// // Cut along `y`; an item reads a cross of radius 1 of `from`, whose axes are `x` and `y`.
/// let by = part_by("y").map("from", stencil([("x", 1), ("y", 1)]));
/// let text = serde_json::to_string(&by).unwrap();
/// assert_eq!(by, serde_json::from_str(&text).unwrap());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartBy {
    /// The dimension to cut; `None`: the slowest that carries no barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<String>,
    /// By argument.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<(String, ArrayMap)>,
    /// Name of a function, see `PartitionMap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

/// The box of one array that a part of the space touches: per axis of the array's shape, axis 0 first. Axes
/// that are not listed are included in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayMap(pub Vec<AxisMap>);

/// The elements along one axis of an array that a part of the space touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisMap {
    /// All.
    All,
    /// For the index values `a..b` of a dimension, `a * scale - before .. b * scale + after`, as far as that
    /// lies in the array. Just `a..b`, with one element per value and none beside them, must lie in it.
    Along {
        /// The dimension.
        dimension: String,
        /// Elements per index value.
        scale: u64,
        /// Additional elements at the low end.
        before: u64,
        /// Additional elements at the high end.
        after: u64,
    },
    /// For the index values `a..b` of a dimension, `p[a]..p[b]`, where `p` are the row pointers: an argument
    /// that is marked `#[structure]`, with elements of type `u32`, `u64`, `i32` or `i64` that do not
    /// decrease, one more than there are index values. A cut along this dimension then gives equal numbers of
    /// elements, not of index values.
    Pointers {
        /// The dimension.
        dimension: String,
        /// The argument.
        pointers: String,
    },
}

impl AxisMap {
    /// One element per index value of a dimension.
    pub fn along(dimension: impl Into<String>) -> AxisMap {
        AxisMap::Along { dimension: dimension.into(), scale: 1, before: 0, after: 0 }
    }
}

/// Cuts along a dimension, with maps from the views; [`PartBy::map`] adds others. `PartBy::default()`
/// leaves the dimension to the runtime.
pub fn part_by(dimension: impl Into<String>) -> PartBy {
    PartBy { dimension: Some(dimension.into()), ..PartBy::default() }
}

impl PartBy {
    /// The map of an argument.
    #[must_use]
    pub fn map(mut self, argument: impl Into<String>, map: ArrayMap) -> PartBy {
        self.arguments.push((argument.into(), map));
        self
    }

    /// A function, or its name, as the map of all arguments for which it sets a box.
    ///
    /// ```
    /// use flash_core::kernel::{Boxes, Candidate, partition_map};
    /// partition_map! {
    ///     /// Two rows of `table` per row of the result.
    ///     static PAIRS = "doc.pairs": |at: &Candidate<'_>, boxes: &mut Boxes| {
    ///         let rows = at.values("row");
    ///         boxes.set("table", rows.start * 2..rows.end * 2);
    ///     };
    /// }
    /// let by = flash_core::descriptor::part_by("row").by(&PAIRS);
    /// ```
    #[must_use]
    pub fn by(self, function: impl Into<String>) -> PartBy {
        PartBy { function: Some(function.into()), ..self }
    }
}

/// Rows of a matrix of shape `[columns, rows]`, one per index value: `a..b` touches the elements
/// `(0..columns) x (a..b)`, which have to lie in the array.
///
/// ```
/// use flash_core::descriptor::{columns, part_by, rows};
/// // c[i, j] = sum over k of a[k, j] * b[i, k], cut along j: rows of `a`, all of `b`.
/// let by = part_by("j").map("a", rows("j")).map("b", columns("i"));
/// ```
pub fn rows(dimension: impl Into<String>) -> ArrayMap {
    ArrayMap(vec![AxisMap::All, AxisMap::along(dimension)])
}

/// Columns of a matrix of shape `[columns, rows]`, one per index value: `a..b` touches the elements
/// `(a..b) x (0..rows)`, which have to lie in the array. Example: [`rows`].
pub fn columns(dimension: impl Into<String>) -> ArrayMap {
    ArrayMap(vec![AxisMap::along(dimension)])
}

/// Tiles: along each axis, `width` elements per index value of a dimension; `a..b` touches
/// `a * width .. b * width`, as far as that lies in the array.
///
/// ```
/// use flash_core::descriptor::{part_by, tiles};
/// // Work item (i, j) reads the tile of 32 x 16 elements with these numbers.
/// let by = part_by("j").map("image", tiles([("i", 32), ("j", 16)]));
/// ```
pub fn tiles<S: Into<String>>(axes: impl IntoIterator<Item = (S, u64)>) -> ArrayMap {
    let axis = |(dimension, scale): (S, u64)| AxisMap::Along {
        dimension: dimension.into(),
        scale,
        before: 0,
        after: 0,
    };
    ArrayMap(axes.into_iter().map(axis).collect())
}

/// A stencil: along each axis, the element of the index value and `width` neighbours on each side; `a..b`
/// touches `a - width .. b + width`, as far as that lies in the array. Along an axis of width 0, `a..b` must
/// lie in it.
///
/// ```
/// use flash_core::descriptor::{part_by, stencil};
/// let by = part_by("z").map("from", stencil([("x", 1), ("y", 1), ("z", 2)]));
/// ```
pub fn stencil<S: Into<String>>(axes: impl IntoIterator<Item = (S, u64)>) -> ArrayMap {
    let axis = |(dimension, width): (S, u64)| AxisMap::Along {
        dimension: dimension.into(),
        scale: 1,
        before: width,
        after: width,
    };
    ArrayMap(axes.into_iter().map(axis).collect())
}

/// Both factors of a matrix product `c[i, j] = sum over k of a[k, j] * b[i, k]`, all of them with axis 0
/// fastest: for the values of `j`, rows of `a`; for those of `i`, columns of `b`.
///
/// ```
/// use flash_core::descriptor::{matrix_product, part_by};
/// let by = matrix_product(part_by("j"), ("a", "b"), ("i", "j"));
/// assert_eq!(by, part_by("j").map("a", flash_core::descriptor::rows("j"))
///     .map("b", flash_core::descriptor::columns("i")));
/// ```
pub fn matrix_product(by: PartBy, (a, b): (&str, &str), (i, j): (&str, &str)) -> PartBy {
    by.map(a, rows(j)).map(b, columns(i))
}

/// The non-zeros of the rows of a sparse matrix in CSR form: `a..b` touches `p[a]..p[b]`, where `p` is
/// the argument with the row pointers, marked `#[structure]`. A cut along the rows gives equal numbers
/// of non-zeros.
///
/// ```
/// use flash_core::descriptor::{csr_rows, part_by};
/// let by = part_by("row").map("column", csr_rows("row", "start")).map("value", csr_rows("row", "start"));
/// ```
pub fn csr_rows(dimension: impl Into<String>, pointers: impl Into<String>) -> ArrayMap {
    ArrayMap(vec![AxisMap::Pointers { dimension: dimension.into(), pointers: pointers.into() }])
}

#[typetag::serde]
impl Attribute for PartBy {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn for_backends(&self) -> bool {
        false
    }
}
