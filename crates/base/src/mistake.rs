//! Mistakes in TOML files, told to the author of the file: on which line, and in words in place of the names that a
//! program gives its types.

use std::fmt;

/// What is wrong in a text file, and the line, from 1. Written `LINE: WORDS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line.
    pub line: usize,
    /// What is wrong there.
    pub words: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.words)
    }
}

impl Mistake {
    /// A mistake at byte `at` of `text`.
    pub fn at(text: &str, at: usize, words: impl Into<String>) -> Mistake {
        let line = text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1;
        Mistake { line, words: in_one_line(&words.into()) }
    }

    /// What a TOML parser says of the value at byte `at` of `text`.
    pub fn of_toml(text: &str, at: usize, message: &str) -> Mistake {
        let message = message.replace('\n', " ");
        let words = in_words(&message, text, at).unwrap_or(message);
        Mistake::at(text, at, words)
    }
}

/// A text with its control characters as escapes: names in files may have them.
pub fn in_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() { line.extend(char.escape_default()) } else { line.push(char) }
    }
    line
}

/// What is wanted where a section belongs.
const SECTION: &str = "a section, in single brackets on a line of its own,";
/// What the parser says of a value where one of several words belongs, as it says it elsewhere.
const ANOTHER_WORD: &str = "invalid type: anything else, expected variant identifier";

/// The message that a value is of the wrong kind, with its key and what is wanted; nothing for another message.
fn in_words(message: &str, text: &str, at: usize) -> Option<String> {
    let message = if message == "wanted string or table" { ANOTHER_WORD } else { message };
    let (given, wanted) = message.split_once(", expected ")?;
    let given = given.strip_prefix("invalid type: ").or(given.strip_prefix("invalid value: "))?;
    let given = match given {
        "map" => "a table",
        "sequence" => "a list",
        number => number.trim_end_matches(" as i128"),
    };
    let heading = heading_at(text, at);
    let wanted = match wanted {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number from 0 up",
        "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "variant identifier" => "a word in quotes",
        "a sequence" if heading.is_some() => "a list of sections, each in double brackets,",
        "a sequence" => "a list in brackets",
        "a map" => SECTION,
        wanted if wanted.starts_with("struct ") => SECTION,
        wanted if wanted.contains("tagged enum") => "a table in braces",
        wanted => wanted,
    };
    let key = heading.unwrap_or_else(|| key_before(text, at));
    let colon = if key.is_empty() { "" } else { ": " };
    // A list of one is what is meant.
    let meant = match given.split_once('`') {
        Some((_, value)) if wanted == "a list in brackets" && !key.is_empty() => {
            format!(": write {key} = [{}]", value.trim_end_matches('`'))
        }
        _ => String::new(),
    };
    Some(format!("{key}{colon}{wanted} is wanted, not {given}{meant}"))
}

/// The name in the heading of a section at byte `at`.
fn heading_at(text: &str, at: usize) -> Option<&str> {
    let (before, rest) = text.split_at_checked(at)?;
    let begins = before.rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
    let name = rest.lines().next()?.strip_prefix('[').filter(|_| begins)?;
    Some(name.trim_start_matches('[').split(']').next()?.trim())
}

/// The key of the value, or of the list of values, at byte `at`; empty for one that stands in quotes.
fn key_before(text: &str, at: usize) -> &str {
    let before = text.get(..at).and_then(|before| before.rsplit_once('='));
    let key = before.and_then(|(before, _)| before.split_whitespace().next_back()).unwrap_or("");
    let is_bare = key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if is_bare { key } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, value: &str, message: &str) -> String {
        Mistake::of_toml(text, text.find(value).unwrap(), message).to_string()
    }

    #[test]
    fn lines_begin_with_one() {
        let line = |at| Mistake::at("a\nb\n", at, "x").line;
        assert_eq!((line(0), line(1), line(2), line(4), line(99)), (1, 1, 2, 3, 3));
        assert_eq!(Mistake::at("a\nb\n", 2, "odd").to_string(), "2: odd");
    }

    #[test]
    fn values_of_another_kind_are_told_with_their_key() {
        let number = "invalid type: string \"x\", expected u32";
        let wanted = "a whole number from 0 to 4294967295 is wanted, not string \"x\"";
        for (text, place) in [
            ("a = 1\nb = 'x'", "2: b: "),
            ("a = 1\nb = [\n 1,\n 'x']", "4: b: "),
            ("a = { b = 1, c.d = 'x' }", "1: c.d: "),
            ("\"a b\" = 'x'", "1: "),
            ("'x'", "1: "),
        ] {
            assert_eq!(told(text, "'x'", number), format!("{place}{wanted}"), "{text}");
        }
        let large = "invalid type: integer `99999999999999999999` as i128, expected u64";
        let wanted = "1: a: a whole number from 0 up is wanted, not integer `99999999999999999999`";
        assert_eq!(told("a = 99999999999999999999", "99", large), wanted);
    }

    #[test]
    fn words_of_a_list_are_told_alike() {
        for message in ["wanted string or table", "invalid type: anything else, expected variant identifier"]
        {
            assert_eq!(
                told("kind = 7", "7", message),
                "1: kind: a word in quotes is wanted, not anything else"
            );
        }
    }

    #[test]
    fn sections_are_told_with_their_headings() {
        let text = "x = 1\n[ tasks ]\n[[costs]]\n";
        let single = told(text, "[ tasks ]", "invalid type: map, expected a sequence");
        assert_eq!(single, "2: tasks: a list of sections, each in double brackets, is wanted, not a table");
        let twofold = told(text, "[[costs]]", "invalid type: sequence, expected struct Costs");
        let wanted = "3: costs: a section, in single brackets on a line of its own, is wanted, not a list";
        assert_eq!(twofold, wanted);
    }

    #[test]
    fn other_messages_stay_as_they_are_on_one_line() {
        let text = "unknown field `b`, expected `a`\nor `c`";
        assert_eq!(told("b = 1", "1", text), "1: unknown field `b`, expected `a` or `c`");
        assert_eq!(Mistake::of_toml("é", 1, "odd").to_string(), "1: odd");
    }
}
