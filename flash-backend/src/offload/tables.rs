//! Tables of launches on the device.

/// The latest tables of a kernel function's launches, so that launches that repeat do not copy them anew.
/// `B`: memory of the device.
#[derive(Debug)]
pub struct Tables<B> {
    /// The most recently used is at the end.
    kept: Vec<(Vec<u64>, B)>,
}

/// Tables kept per function: one per phase of a short cycle of phases.
const TABLES: usize = 8;

impl<B> Default for Tables<B> {
    fn default() -> Tables<B> {
        Tables { kept: Vec::new() }
    }
}

impl<B> Tables<B> {
    /// The table with these words.
    pub fn get(&mut self, words: &[u64]) -> Option<&B> {
        let at = self.kept.iter().position(|(kept, _)| kept == words)?;
        let table = self.kept.remove(at);
        self.kept.push(table);
        self.kept.last().map(|(_, buffer)| buffer)
    }

    /// Makes room for one more: the least recently used, if it must go. Launches may still read it.
    pub fn make_room(&mut self) -> Option<B> {
        (self.kept.len() >= TABLES).then(|| self.kept.remove(0).1)
    }

    /// Adds a table. There is [room](Self::make_room).
    pub fn add(&mut self, words: &[u64], buffer: B) {
        self.kept.push((words.to_vec(), buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_table_makes_room() {
        let mut tables = Tables::default();
        for number in 0..TABLES as u64 {
            assert_eq!(tables.make_room(), None);
            tables.add(&[number], number);
        }
        assert_eq!(tables.get(&[0]), Some(&0));
        assert_eq!(tables.get(&[0, 0]), None);
        assert_eq!(tables.make_room(), Some(1));
        tables.add(&[9], 9);
        assert_eq!([1, 0, 9].map(|word| tables.get(&[word]).copied()), [None, Some(0), Some(9)]);
    }
}
