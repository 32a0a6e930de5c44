//! "Did you mean": the known name nearest to one that is not known.

/// ` (did you mean 'NAME'?)` for the known name nearest to `wanted`, or nothing where none is near.
pub fn did_you_mean<S: AsRef<str>>(wanted: &str, known: impl IntoIterator<Item = S>) -> String {
    let plain: Vec<char> = wanted.to_lowercase().chars().collect();
    // Chosen: a slip in three characters.
    let most = wanted.chars().count().div_ceil(3);
    let near = known.into_iter().filter_map(|name| {
        // The difference in length is a lower bound, which spares long names the comparison.
        if name.as_ref().len().abs_diff(wanted.len()) > 4 * most {
            return None;
        }
        let other: Vec<char> = name.as_ref().to_lowercase().chars().collect();
        Some((slips(&plain, &other), name)).filter(|(slips, _)| *slips <= most)
    });
    let nearest = near.min_by_key(|(slips, _)| *slips);
    nearest.map_or_else(String::new, |(_, name)| format!(" (did you mean '{}'?)", on_a_line(name.as_ref())))
}

/// A name as a file has it, on the line of a message.
fn on_a_line(name: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    name.chars().map(escaped).collect()
}

/// How many characters are missing, added, wrong or exchanged with their neighbour (optimal string alignment).
fn slips(a: &[char], b: &[char]) -> usize {
    let mut older: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let changed = last[j] + usize::from(a[i] != b[j]);
            let mut best = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(older[j - 1] + 1);
            }
            row.push(best);
        }
        older = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_others_are_not() {
        let known = ["vanilla", "o1", "staircase", "ule"];
        assert_eq!(did_you_mean("vanila", known), " (did you mean 'vanilla'?)");
        assert_eq!(did_you_mean("stiarcaes", known), " (did you mean 'staircase'?)");
        assert_eq!(did_you_mean("ULE", known), " (did you mean 'ule'?)");
        for far in ["cfs", "", "x", "lottery"] {
            assert_eq!(did_you_mean(far, known), "", "{far}");
        }
        assert_eq!(did_you_mean("two line", ["two\nlines"]), " (did you mean 'two\\nlines'?)");
    }

    #[test]
    fn slips_are_counted() {
        let count = |a: &str, b: &str| slips(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
        ] {
            assert_eq!(count(a, b), expected, "{a} {b}");
        }
    }
}
