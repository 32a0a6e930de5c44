//! Names that others chose, made harmless: they come from workload files, objects, processes and results read again.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Stands for a character that is not shown.
const REPLACED: char = '\u{fffd}';

/// Characters of a name that a label in a picture shows. Chosen: wider than any name of ours.
const LABEL: usize = 120;

/// Characters that a cell of a text table shows. Chosen: wider than any sentence of ours.
const CELL: usize = 500;

/// Characters that a reader does not see and a terminal, a browser or XML 1.0 obeys or refuses. They are controls (ESC, NUL,
/// DEL, C1), breaks of lines and paragraphs, marks that turn the direction of text, and what Unicode calls no characters.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || u32::from(c) & 0xfffe == 0xfffe
        || matches!(c, '\u{fdd0}'..='\u{fdef}')
}

/// The text on one line in which every character can be seen: others become U+FFFD.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.contains(is_hidden) { text.replace(is_hidden, "\u{fffd}").into() } else { text.into() }
}

/// A text of several lines in which every character can be seen.
pub(crate) fn visible_lines(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| is_hidden(c) && c != '\n' && c != '\t';
    if text.contains(hidden) {
        text.chars().map(|c| if hidden(c) { REPLACED } else { c }).collect::<String>().into()
    } else {
        text.into()
    }
}

/// The visible text, cut where it is longer than a label has room for.
pub(crate) fn label(text: &str) -> Cow<'_, str> {
    cut(text, LABEL)
}

/// The visible text, cut where it is longer than a cell has room for.
pub(crate) fn cell(text: &str) -> Cow<'_, str> {
    cut(text, CELL)
}

/// The visible text, cut where it has more than `most` characters.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.chars().nth(most).is_none() {
        return visible(text);
    }
    let kept: String = text.chars().take(most - 1).collect();
    format!("{}\u{2026}", visible(&kept)).into()
}

/// A text for XML and HTML, in an element or a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    visible_lines(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// JSON whose strings have hidden characters as escapes: the same value, and harmless on a terminal.
pub(crate) fn visible_json(json: String) -> String {
    let hidden = |c: char| is_hidden(c) && c != '\n';
    if !json.contains(hidden) {
        return json;
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if hidden(c) {
            // Two escapes where one has too few digits.
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(text, "\\u{unit:04x}").expect("a string takes all");
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Names that an attacker might choose.
    pub(crate) fn nasty() -> Vec<String> {
        let names = [
            "\x1b]0;title\x07\x1b[2J\x1b[31mred",
            "nul\0in it",
            "evil\u{202e}gpj.exe",
            "line\u{2028}paragraph\u{2029}",
            "\u{9b}31mC1 \u{7f}DEL",
            "]]><script>alert(1)</script>",
            "\"><img src=x onerror=alert(1)>",
            "'; DROP TABLE runs; --",
            "two\nlines\r\nand\ta tab",
            "&lt;&#x1b;\\N\\\"",
            "=HYPERLINK(\"http://x\")",
            "+1",
            "-5",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "'quoted",
            "\u{feff}\u{fffe}\u{ffff}\u{e0041}\u{10ffff}",
            "",
        ];
        let long = "x\u{1b}".repeat(5000);
        names.iter().map(ToString::to_string).chain([long]).collect()
    }

    #[test]
    fn what_is_hidden_is_replaced() {
        assert_eq!(visible("hog/0 \u{e9} \u{4f60}"), "hog/0 \u{e9} \u{4f60}");
        assert_eq!(visible("\x1b[2J\0\u{202e}\u{2028}\n"), "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
        for name in nasty() {
            assert!(!visible(&name).contains(is_hidden) && label(&name).chars().count() <= LABEL);
            assert!(!escape(&name).contains(['<', '>', '"', '\0', '\x1b']), "{name:?}");
        }
        assert_eq!(label(&"x".repeat(121)).chars().last(), Some('\u{2026}'));
    }

    #[test]
    fn json_stays_the_same_value() {
        let names = nasty();
        let json = visible_json(serde_json::to_string_pretty(&names).unwrap());
        assert!(!json.contains(|c: char| is_hidden(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), names);
    }
}
