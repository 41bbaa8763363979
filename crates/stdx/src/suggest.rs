//! What a mistyped word was probably meant to be.

/// The candidate that is fewest edits away from `word`, the first of several; `None` where even
/// that one would have to change in more than a third of its letters.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().collect();
    candidates
        .into_iter()
        .map(|candidate| (edits(&word, candidate), candidate))
        .filter(|(edits, candidate)| edits * 3 <= candidate.chars().count())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// How many letters have to be put in, taken out or replaced to get from one word to the other
/// (Levenshtein's distance, row by row).
fn edits(from: &[char], to: &str) -> usize {
    let mut row: Vec<usize> = (0..=from.len()).collect();
    for (above, letter) in to.chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (at, &other) in from.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[from.len()]
}

#[cfg(test)]
mod tests {
    use super::{closest, edits};

    #[test]
    fn edits_are_counted() {
        let count = |from: &str, to| edits(&from.chars().collect::<Vec<_>>(), to);
        assert_eq!(count("", ""), 0);
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("kitten", "sitting"), 3);
        assert_eq!(count("queue", "queue"), 0);
        assert_eq!(count("queu", "queue"), 1);
    }

    #[test]
    fn only_near_words_are_suggested() {
        let words = ["queue", "round-robin", "zfs"];
        assert_eq!(closest("queu", words), Some("queue"));
        assert_eq!(closest("roundrobin", words), Some("round-robin"));
        assert_eq!(closest("zsf", words), None);
        assert_eq!(closest("", words), None);
        assert_eq!(closest("elephant", words), None);
    }
}
