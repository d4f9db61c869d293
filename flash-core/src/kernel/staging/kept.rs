//! Arrays of a team's memory that each thread keeps for itself.
//!
//! An array each of whose elements is touched by one thread alone, such as the sums of a product by tiles,
//! need not lie in memory that all threads see: the thread keeps its elements in variables of its own, one
//! for each turn of its loops. There are few, and these loops are unrolled, so that they are registers.
//!
//! This looks at the finished text, as `barriers.rs` does. An array is kept if it is touched nowhere but at
//! the own elements of operations over all of it. Then element `n` is of thread `n % THREADS` in its turn
//! `n / THREADS` each time, and nothing else is at the array's place.

use super::barriers::{Names, OwnIndex, SHARED, Turn, declared, is_of_a_name, name_of};

/// In the place of [`SHARED`].
const KEPT: &str = "flash_kept";

/// Elements that a thread keeps of an array, counted with the arrays inside of them.
const MOST: usize = 64;

/// A kernel's statements, and the declarations of the arrays that all threads see.
pub(super) struct Kept {
    pub statements: String,
    pub shared: Vec<String>,
}

/// Moves arrays to the threads.
pub(super) fn keep(statements: &str, names: &Names<'_>) -> Kept {
    let mut kept = Kept { statements: statements.to_owned(), shared: Vec::new() };
    let mut own = Vec::new();
    for declaration in names.shared {
        match moved(declaration, &kept.statements, names.own) {
            Some((variable, statements)) => {
                own.push(format!("{variable};\n"));
                kept.statements = statements;
            }
            None => kept.shared.push(declaration.clone()),
        }
    }
    kept.statements.insert_str(0, &own.concat());
    kept
}

/// The declaration of a thread's variable for an array, and the statements that use it. `None`: another
/// thread may be at one of its elements, or there are too many.
fn moved(declaration: &str, statements: &str, own: &[OwnIndex]) -> Option<(String, String)> {
    let (head, extents) = declaration.split_at(declaration.find('[')?);
    let (array, inner) = (declared(head), extents.trim_start_matches('[').trim_end_matches(']'));
    let extents: Vec<usize> = inner.split("][").map(|extent| extent.parse().ok()).collect::<Option<_>>()?;
    let variable = array.replacen(SHARED, KEPT, 1);
    let (mut text, mut rest, mut rank_and_turns) = (String::new(), statements, None);
    while let Some(at) = rest.find(array) {
        let (before, behind) = (&rest[..at], &rest[at + array.len()..]);
        text.push_str(before);
        rest = behind;
        if before.ends_with(is_of_a_name) || behind.starts_with(is_of_a_name) {
            text.push_str(array);
            continue;
        }
        let place = Place::of(behind, &extents, own).filter(|_| !before.ends_with('&'))?;
        let known = *rank_and_turns.get_or_insert((place.rank, place.turn.count));
        if known != (place.rank, place.turn.count) {
            return None;
        }
        text.push_str(&format!("{variable}[{}]", place.turn.name));
        rest = &behind[place.length..];
    }
    text.push_str(rest);
    let (rank, turns) = rank_and_turns?;
    let of_an_element: String = extents[rank..].iter().map(|extent| format!("[{extent}]")).collect();
    let values = turns * extents[rank..].iter().product::<usize>();
    let head = &head[..head.trim_end().len() - array.len()];
    (values <= MOST).then(|| (format!("{head}{variable}[{turns}]{of_an_element}"), text))
}

/// The own element of an operation over all of an array.
struct Place<'o> {
    /// Bytes of its indices in the text.
    length: usize,
    /// Dimensions of the operation.
    rank: usize,
    turn: &'o Turn,
}

impl Place<'_> {
    /// What a text begins with, behind an array of these extents.
    fn of<'o>(text: &str, extents: &[usize], own: &'o [OwnIndex]) -> Option<Place<'o>> {
        let (mut length, mut rank, mut turn) = (0, 0, None);
        loop {
            let name = name_of(text[length..].strip_prefix('[')?);
            let index = own.iter().find(|index| index.name == name && index.dimension == rank)?;
            let of_turn = index.turn.as_ref()?;
            let is_of_one_place = turn.is_none_or(|turn: &Turn| turn.name == of_turn.name);
            if !is_of_one_place || extents.get(..index.extents.len())? != index.extents {
                return None;
            }
            length += name.len() + 2;
            rank += 1;
            turn = Some(of_turn);
            if rank == index.extents.len() {
                let is_whole = text[..length].ends_with(']');
                return is_whole.then_some(Place { length, rank, turn: of_turn });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements with what is kept, and how many arrays are not.
    fn of(statements: &str) -> (String, usize) {
        let shared =
            ["float flash_shared_1[8][8]", "float flash_shared_12[8][8]", "flash_s_v flash_shared_3[64][2]"];
        let shared = shared.map(str::to_owned);
        let own = |name: &str, dimension, extents: &[usize], turn: Option<&str>| OwnIndex {
            name: name.to_owned(),
            dimension,
            extents: extents.to_vec(),
            turn: turn.map(|name| Turn { name: name.to_owned(), count: 2 }),
        };
        let own = [
            own("at_6", 0, &[8, 8], Some("turn_5")),
            own("at_7", 1, &[8, 8], Some("turn_5")),
            own("at_8", 0, &[8, 8], Some("turn_4")),
            own("at_9", 0, &[64], Some("turn_4")),
            own("slot_10", 0, &[0], None),
        ];
        let kept = keep(statements, &Names { shared: &shared, parameters: &[], own: &own });
        (kept.statements, kept.shared.len())
    }

    #[test]
    fn what_is_a_threads_own_everywhere_is_kept_by_it() {
        let (text, shared) = of("flash_shared_1[at_6][at_7] = flash_shared_12[at_7][at_6];\n");
        assert_eq!(text, "float flash_kept_1[2];\nflash_kept_1[turn_5] = flash_shared_12[at_7][at_6];\n");
        assert_eq!(shared, 2);
        let (text, shared) = of("flash_shared_3[at_9][1].a = 2;\nf(flash_shared_12[0][0]);\n");
        assert_eq!(
            text,
            "flash_s_v flash_kept_3[2][2];\nflash_kept_3[turn_4][1].a = 2;\nf(flash_shared_12[0][0]);\n"
        );
        assert_eq!(shared, 2);
    }

    #[test]
    fn what_another_thread_may_touch_stays_and_so_does_what_is_large() {
        // Of 128 values for each thread.
        let large = ["float flash_shared_1[8][8][64]".to_owned()];
        let own = ["at_6", "at_7"].into_iter().enumerate().map(|(dimension, name)| OwnIndex {
            name: name.to_owned(),
            dimension,
            extents: vec![8, 8],
            turn: Some(Turn { name: "turn_5".to_owned(), count: 2 }),
        });
        let own: Vec<_> = own.collect();
        let names = Names { shared: &large, parameters: &[], own: &own };
        assert_eq!(keep("flash_shared_1[at_6][at_7][0] = 1;\n", &names).shared, large);
        for text in [
            "flash_shared_1[at_6][at_7] = 1;\nx = flash_shared_1[at_6][0];\n",
            "flash_shared_1[at_6][at_7] = 1;\nx = flash_shared_1[at_7][at_6];\n",
            // Not of one place.
            "flash_shared_1[at_8][at_7] = 1;\n",
            "flash_shared_1[at_6][at_7 + 1] = 1;\n",
            "f(&flash_shared_1[at_6][at_7]);\n",
            "f(flash_shared_1);\n",
            // Rows are other threads' than elements.
            "flash_shared_1[at_9][0] = 1;\n",
            // Of a loop over any number of elements.
            "flash_shared_3[slot_10][0].a = 1;\n",
            "x = flash_shared_1[at_6];\n",
        ] {
            assert_eq!(of(text), (text.to_owned(), 3), "{text}");
        }
    }
}
