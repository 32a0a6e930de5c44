//! Text tables for the terminal: how one is laid out.

use crate::names::cell;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use unicode_width::UnicodeWidthStr;

/// A table with a header line; `right` names the columns that hold numbers.
pub fn table(header: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|text| cell(text).into_owned()).collect()).collect();
    let widths = widths(header, &rows);
    table.add_row(widths.iter().map(|&width| "-".repeat(width)).collect::<Vec<_>>());
    for row in rows {
        table.add_row(row);
    }
    for &column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text: String = table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    text.shrink_to_fit();
    text
}

fn widths(header: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    (0..header.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
            cells.chain([header[column].width()]).max().unwrap_or(0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_without_trailing_blanks() {
        let text =
            table(&["name", "n"], &[1], &[vec!["a".into(), "10".into()], vec!["long".into(), "7".into()]]);
        assert_eq!(text, "name   n\n----  --\na     10\nlong   7\n");
    }
}
