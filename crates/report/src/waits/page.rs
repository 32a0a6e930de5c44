//! Waits of tasks for each other, as a page and as a part of one.

use super::{COLUMNS, NUMBERS, graph, remarks, row};
use crate::html::{HtmlPage, breakable, escape, page, table};
use schedlab_trace::waits::Waits;

/// The page: picture, table, and what they leave out.
pub fn waits_html(head: &HtmlPage, waits: &Waits, min_confidence: u32) -> String {
    page(head, &section("Who waits for whom", waits, min_confidence))
}

/// The part of a page under its own heading.
pub(crate) fn section(heading: &str, waits: &Waits, min_confidence: u32) -> String {
    let mut text = format!(
        "<h2>{}</h2>\n<p>{:.3} s watched. An arrow points from who waits to whom it waits for; the wider, the longer; red: \
         a tenth or more of it was priority inversion.</p>\n",
        breakable(heading),
        waits.span.as_secs_f64()
    );
    match graph::svg(waits, min_confidence) {
        Some((picture, remark)) => {
            let remark = remark.map_or_else(String::new, |text| format!("<p>{}</p>\n", escape(&text)));
            text.push_str(&format!("{remark}<div class=\"scroll\">{picture}</div>\n"));
        }
        None => text.push_str("<p>No task was seen to wait for another one.</p>\n"),
    }
    let sure = waits.pairs.iter().filter(|pair| pair.confidence >= min_confidence);
    text.push_str(&table(&COLUMNS, &NUMBERS, &sure.map(row).collect::<Vec<_>>()));
    for remark in remarks(waits) {
        text.push_str(&format!("<p>{}</p>\n", escape(&remark)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::waits;
    use super::*;

    #[test]
    fn the_page_stands_alone() {
        let head = HtmlPage { title: "waits".into(), command: "schedlab deps".into(), notes: Vec::new() };
        let text = waits_html(&head, &waits(), 20);
        assert!(text.contains("<svg") && text.contains("epoll (tcp)") && text.contains("nr_io_uring: 4"));
        assert!(!text.contains("http") && !text.contains("<script") && !text.contains("<server>"));
        assert!(text.ends_with("</html>\n"));
    }
}
