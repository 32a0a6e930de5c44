//! Text for a narrow terminal: tables are split into blocks of columns, sentences are broken between words.
//!
//! A table of [`crate::table()`] is known by the rule under its header, which says where its columns are.

use std::collections::BTreeSet;
use std::ops::Range;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Blanks between two columns.
const GAP: usize = 2;

/// The least width that is laid out for. Chosen: below, nothing can be read whatever is done.
const LEAST: usize = 30;

/// The least width of a column that tells the rows apart. Chosen: the beginning of a name can still be recognised.
const LEAST_KEY: usize = 8;

/// Blanks before the text of a name that leaves no room beside itself. Chosen.
const HANG: usize = 4;

/// Words of a text beside a name. Chosen: the row of a plot has fewer.
const WORDS: usize = 3;

/// A text that is longer than so many columns, in them.
type Way = fn(&str, usize) -> String;

/// The ways: without the end, which names are not told by; without the middle; without the beginning.
const WAYS: [Way; 3] = [cut, cut_middle, cut_begin];

/// Lays text out for lines of `width` characters. A table that is wider is split: each block repeats the columns that tell
/// its rows apart. A cell is cut where it is wider than a block has room for. Lines that are neither tables nor sentences, as
/// those of a plot, stay.
pub fn fit(text: &str, width: usize) -> String {
    let width = width.max(LEAST);
    let lines: Vec<&str> = text.lines().collect();
    let mut fitted = String::new();
    let mut at = 0;
    while at < lines.len() {
        match Grid::read(&lines[at..]) {
            Some(grid) => {
                at += grid.rows.len();
                fitted.push_str(&grid.fitted(width));
            }
            None => {
                fitted.push_str(&broken(lines[at], width));
                at += 1;
            }
        }
    }
    fitted
}

/// A table that is read again: its lines, cut into cells.
struct Grid<'a> {
    lines: &'a [&'a str],
    /// Header, rule and rows; cells with their blanks.
    rows: Vec<Vec<&'a str>>,
    /// Widths of the columns.
    widths: Vec<usize>,
}

impl<'a> Grid<'a> {
    /// The table that begins with the first of the lines, if one does.
    fn read(lines: &'a [&'a str]) -> Option<Grid<'a>> {
        let rule = lines.get(1).filter(|rule| is_rule(rule))?;
        let widths: Vec<usize> = rule.split("  ").map(str::len).collect();
        let is_remark = |cells: &[&str]| {
            cells[0].starts_with('(') && cells[1..].iter().all(|cell| cell.trim().is_empty())
        };
        let cells = lines.iter().map_while(|line| cells(line, &widths));
        let rows: Vec<Vec<&str>> = cells.take_while(|cells| !is_remark(cells)).collect();
        (rows.len() > 1).then_some(Grid { lines, rows, widths })
    }

    fn fitted(&self, width: usize) -> String {
        let whole: usize = self.widths.iter().sum::<usize>() + GAP * (self.widths.len() - 1);
        if whole <= width {
            return self.lines[..self.rows.len()].iter().map(|line| format!("{line}\n")).collect();
        }
        let keys = self.keys();
        let mut widths = self.widths.clone();
        let widest = widths[keys..].iter().max().copied().unwrap_or(0);
        let most = width.saturating_sub(widest).max(width / 2);
        let long = |widths: &[usize]| {
            (0..keys).filter(|&key| widths[key] > LEAST_KEY).max_by_key(|&key| widths[key])
        };
        while let Some(key) = long(&widths).filter(|_| span(&widths[..keys]) > most) {
            widths[key] -= 1;
        }
        let room = width.saturating_sub(span(&widths[..keys])).max(1);
        let mut blocks: Vec<Range<usize>> = Vec::new();
        for column in keys..widths.len() {
            widths[column] = widths[column].min(room);
            match blocks.last_mut().filter(|block| span(&widths[block.start..=column]) - GAP <= room) {
                Some(block) => block.end = column + 1,
                None => blocks.push(column..column + 1),
            }
        }
        let columns: Vec<Vec<String>> = (0..widths.len())
            .map(|at| self.column(at, widths[at], if at < keys { &WAYS[1..] } else { &WAYS }))
            .collect();
        let block = |block: Range<usize>| {
            let line = |number: usize| {
                let cells = (0..keys).chain(block.clone()).map(|at| columns[at][number].as_str());
                format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
            };
            (0..self.rows.len()).map(line).collect::<String>()
        };
        blocks.into_iter().map(block).collect::<Vec<_>>().join("\n")
    }

    /// A column of the table in exactly `width` columns. What is longer is cut in the first of the ways by which all texts that
    /// differ still look different, or else where they begin to differ.
    fn column(&self, at: usize, width: usize, ways: &[Way]) -> Vec<String> {
        let cells: Vec<&str> = self.rows.iter().map(|row| row[at]).collect();
        let long: BTreeSet<&str> =
            cells[2..].iter().map(|cell| cell.trim()).filter(|cell| cell.width() > width).collect();
        let kept = |way: &&Way| {
            long.iter().map(|text| way(text, width)).collect::<BTreeSet<_>>().len() == long.len()
        };
        let way = ways.iter().find(kept);
        let common = common_begin(&long);
        let shortened = |text: &str| match way {
            Some(way) => way(text, width),
            None => format!("\u{2026}{}", &text[common..]),
        };
        let shown = |cell: &&str| match cell.trim() {
            text if long.contains(text) => cut(&shortened(text), width),
            _ => cut(cell, width),
        };
        cells.iter().map(shown).collect()
    }

    /// How many of the first columns tell the rows apart, up to one with names if there is one: at least one and not all.
    fn keys(&self) -> usize {
        let (rows, most) = (&self.rows[2..], self.widths.len() - 1);
        let are_apart = |count: usize| {
            let repeats = |at: usize| rows[..at].iter().any(|other| other[..count] == rows[at][..count]);
            !(0..rows.len()).any(repeats)
        };
        let is_number = |cell: &str| matches!(cell, "" | "-") || cell.parse::<f64>().is_ok();
        let has_names = |column: &usize| !rows.iter().all(|row| is_number(row[*column].trim()));
        let named = (0..most).find(has_names).map_or(1, |column| column + 1);
        (named..most).find(|count| are_apart(*count)).unwrap_or(named).min(most)
    }
}

/// What columns take with the gaps behind them.
fn span(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + GAP).sum()
}

/// Whether a line is dashes in columns.
fn is_rule(line: &str) -> bool {
    line.split("  ").all(|dashes| !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-'))
}

/// The cells of a line; nothing if text stands between its columns, or none at all does.
fn cells<'a>(line: &'a str, widths: &[usize]) -> Option<Vec<&'a str>> {
    let mut rest = line;
    let mut cells = Vec::new();
    for (at, &width) in widths.iter().enumerate() {
        let (cell, after) = split_at_width(rest, width);
        let (gap, next) = split_at_width(after, if at + 1 < widths.len() { GAP } else { usize::MAX });
        if !gap.trim().is_empty() {
            return None;
        }
        cells.push(cell);
        rest = next;
    }
    (!line.trim().is_empty()).then_some(cells)
}

/// The beginning that a text shows in `width` columns, and the rest.
fn split_at_width(text: &str, width: usize) -> (&str, &str) {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    text.split_at(end.map_or(text.len(), |(at, _)| at))
}

/// The end that a text shows in `width` columns.
fn last_of_width(text: &str, width: usize) -> &str {
    let mut used = 0;
    let begin = text.char_indices().rev().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    begin.map_or(text, |(at, c)| &text[at + c.len_utf8()..])
}

/// Begin and end of a text that is longer than `width` columns.
fn cut_middle(text: &str, width: usize) -> String {
    let end = (width - 1) / 2;
    format!("{}\u{2026}{}", split_at_width(text, width - 1 - end).0, last_of_width(text, end))
}

/// How many bytes at their beginnings texts have in common.
fn common_begin(texts: &BTreeSet<&str>) -> usize {
    let Some(first) = texts.first() else { return 0 };
    let alike = |end: &usize| texts.iter().all(|text| text.starts_with(&first[..*end]));
    first.char_indices().map(|(at, _)| at).take_while(alike).last().unwrap_or(0)
}

/// The end of a text that is longer than `width` columns.
fn cut_begin(text: &str, width: usize) -> String {
    format!("\u{2026}{}", last_of_width(text, width - 1))
}

/// The cell in exactly `width` columns: what is longer ends in `…`.
fn cut(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return format!("{cell}{}", " ".repeat(width - cell.width()));
    }
    let text = cell.trim();
    let text = if text.width() <= width {
        text.to_string()
    } else if text.bytes().all(|byte| byte == b'-') {
        "-".repeat(width)
    } else {
        format!("{}\u{2026}", split_at_width(text, width - 1).0)
    };
    format!("{text}{}", " ".repeat(width - text.width()))
}

/// A line, broken between words where it is too long; the text beside a name continues below itself. What is laid out with
/// more blanks stays as it is.
fn broken(line: &str, width: usize) -> String {
    let text = line.trim_start();
    if line.width() <= width || text.contains('\t') {
        return format!("{line}\n");
    }
    let indent = line.len() - text.len();
    let Some((name, about)) = text.split_once("  ") else {
        let hang = indent + if text.starts_with("* ") { 2 } else { 0 };
        return filled(&line[..indent], text, hang, width);
    };
    let about = about.trim_start();
    if about.contains("  ") || about.split(' ').count() < WORDS {
        return format!("{line}\n");
    }
    let head = &line[..line.len() - about.len()];
    if head.width() <= width / 2 {
        return filled(head, about, head.width(), width);
    }
    let hang = indent + HANG;
    filled(&line[..indent], name, hang, width) + &filled(&" ".repeat(hang), about, hang, width)
}

/// A head and a text that is broken between words, with further lines indented by `hang`.
fn filled(head: &str, text: &str, hang: usize, width: usize) -> String {
    let mut filled = head.to_string();
    let mut used = filled.width();
    let room = width.saturating_sub(hang).max(LEAST / 2);
    for piece in pieces(text).into_iter().flat_map(|piece| short(piece, room)) {
        if used > hang && used + piece.trim_end().width() > width {
            filled.truncate(filled.trim_end().len());
            filled.push_str(&format!("\n{}", " ".repeat(hang)));
            used = hang;
        }
        filled.push_str(piece);
        used += piece.width();
    }
    format!("{}\n", filled.trim_end())
}

/// Where a sentence may be broken: behind blanks, and in long words behind commas.
fn pieces(text: &str) -> Vec<&str> {
    text.split_inclusive(' ').flat_map(|word| word.split_inclusive(',')).collect()
}

/// A piece in parts of at most `room` characters: a name that is wider than a line.
fn short(piece: &str, room: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = piece;
    while rest.trim_end().width() > room {
        let (part, after) = split_at_width(rest, room);
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::table;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| cell.to_string()).collect()).collect()
    }

    fn widest(text: &str) -> usize {
        text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0)
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let text = format!(
            "a heading\n\n{}(2 more)\n",
            table(&["name", "n"], &[1], &rows(&[&["a", "10"], &["b", "7"]]))
        );
        assert_eq!(fit(&text, 40), text);
    }

    #[test]
    fn a_wide_table_is_split_and_repeats_what_tells_its_rows_apart() {
        let header = ["CPUs", "scheduler", "mean", "verdict"];
        let body = rows(&[
            &["2", "eevdf", "10", "baseline"],
            &["2", "o1", "3000", "no difference that matters"],
            &["4", "o1", "5", "worse"],
        ]);
        let text = fit(&format!("{}(1 more pair)\n", table(&header, &[0, 2], &body)), 40);
        let blocks: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(
            blocks,
            [
                "CPUs  scheduler  mean\n----  ---------  ----\n   2  eevdf        10\n   2  o1         3000\n   4  o1            5",
                "CPUs  scheduler  verdict\n----  ---------  -----------------------\n   2  eevdf      baseline\n   2  \
                 o1         no difference that mat\u{2026}\n   4  o1         worse\n(1 more pair)\n"
            ]
        );
    }

    #[test]
    fn long_and_wide_names_are_cut_and_no_line_is_too_long() {
        let long = "a".repeat(100);
        let body = rows(&[
            &[&long, "1", &long, "x"],
            &["\u{4efb}\u{52a1}", "22", "\u{4efb}", &long],
            &["c", "3", "", "y"],
        ]);
        let text = table(&["name", "number", "other", "last"], &[1], &body);
        for width in [30, 45, 60, 100] {
            let fitted = fit(&text, width);
            assert!(widest(&fitted) <= width && fitted.contains('\u{2026}'), "{width}: {fitted}");
            for cell in ["22", "\u{4efb}\u{52a1}", "last"] {
                assert!(fitted.contains(cell), "{width}: {fitted}");
            }
        }
        assert_eq!(fit(&table(&["one"], &[], &rows(&[&[&long]])), 30).lines().last().unwrap().width(), 30);
    }

    #[test]
    fn names_that_are_cut_can_still_be_told_apart() {
        for (one, other) in [
            ("o1[profile=d1]", "o1[profile=rh8]"),
            ("worker-of-the-pool/1", "worker-of-the-pool/2"),
            ("o1[granularity_ns=1000,profile=d1,x=1]", "o1[granularity_ns=1000,profile=d2,x=1]"),
        ] {
            let long = "a verdict that takes all the room";
            let body = rows(&[&["o1", long], &[one, long], &[other, long]]);
            let fitted = fit(&table(&["scheduler", "verdict"], &[], &body), 30);
            let names: BTreeSet<&str> =
                fitted.lines().skip(2).filter_map(|line| line.split("  ").next()).collect();
            assert!(widest(&fitted) <= 30 && names.len() == 3, "{fitted}");
        }
    }

    #[test]
    fn verdicts_that_are_cut_can_still_be_told_apart() {
        let one = "no difference that matters (the seeds change nothing)";
        for other in [
            "no difference that matters",
            "no difference shown (the seeds change nothing)",
            "no difference shown",
        ] {
            let body = rows(&[&["2", "o1[profile=d1]", one], &["2", "vanilla[profile=tsss]", other]]);
            let text = table(&["CPUs", "scheduler", "verdict"], &[0], &body);
            for width in [30, 40, 60] {
                let fitted = fit(&text, width);
                let shown: Vec<&str> = fitted.lines().skip(2).map(|line| last_of_width(line, 12)).collect();
                assert!(widest(&fitted) <= width && shown[0] != shown[1], "{width}: {fitted}");
            }
        }
    }

    #[test]
    fn a_text_beside_a_name_goes_on_below_itself() {
        let text = "  o1  the scheduler of 2.6, with two arrays\n    --set a_long_name=100000000  what it is for; 1..5 ns\n";
        let fitted = "  o1  the scheduler of 2.6, with\n      two arrays\n    --set a_long_name=100000000\n        \
            what it is for; 1..5 ns\n";
        assert_eq!(fit(text, 34), fitted);
        assert_eq!(fit("cpu0  ##########  ############ ##\n", 20), "cpu0  ##########  ############ ##\n");
    }

    #[test]
    fn sentences_are_broken_between_words_and_plots_are_not() {
        let text = "* throughput of o1: the spread is large, more runs are wanted\n";
        assert_eq!(fit(text, 40), "* throughput of o1: the spread is large,\n  more runs are wanted\n");
        let workload = format!("time of swap:{}\n", ["param=value"; 6].join(","));
        let fitted = fit(&workload, 30);
        assert!(
            widest(&fitted) <= 30 && fitted.replace("\n", "").len() + 1 >= workload.trim_end().len(),
            "{fitted}"
        );
        let plot = format!("|{}x  x|\n", " ".repeat(60));
        assert_eq!(fit(&plot, 40), plot);
        assert_eq!(fit("", 40), "");
    }
}
