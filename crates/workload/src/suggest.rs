//! "Did you mean": the known name nearest to one that is not known.

use strsim::damerau_levenshtein;

/// `; did you mean 'NAME'?` for the known name nearest to `wanted`, or nothing where none is near.
pub fn did_you_mean<S: AsRef<str>>(wanted: &str, known: impl IntoIterator<Item = S>) -> String {
    let plain = wanted.to_lowercase();
    // Chosen: a slip in three characters.
    let most = wanted.chars().count().div_ceil(3);
    let distance = |name: &S| damerau_levenshtein(&plain, &name.as_ref().to_lowercase());
    let near =
        known.into_iter().map(|name| (distance(&name), name)).filter(|(distance, _)| *distance <= most);
    let nearest = near.min_by_key(|(distance, _)| *distance);
    nearest.map_or_else(String::new, |(_, name)| format!("; did you mean '{}'?", name.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_others_are_not() {
        let known = ["vanilla", "o1", "staircase", "ule"];
        assert_eq!(did_you_mean("vanila", known), "; did you mean 'vanilla'?");
        assert_eq!(did_you_mean("stiarcaes", known), "; did you mean 'staircase'?");
        assert_eq!(did_you_mean("ULE", known), "; did you mean 'ule'?");
        for far in ["cfs", "", "x", "lottery"] {
            assert_eq!(did_you_mean(far, known), "", "{far}");
        }
    }
}
