//! How far simulated figures are from those of a real kernel, as a page of its own.

use super::{HtmlPage, agreement, breakable, escape, fact_list, listed_under, page, verdicts};
use crate::bars::COVERAGE;
use crate::fidelity::Fidelity;
use crate::workload_names::short_names;
use schedlab_base::counted;

/// The page of a measurement: what the simulator's word on a pair of schedulers is worth, and how far its figures are off.
pub fn fidelity_html(head: &HtmlPage, fidelity: &Fidelity) -> String {
    let bars = fidelity.bars_without();
    let names = short_names(fidelity.cells.iter().map(|cell| cell.workload.as_str()));
    let mut text = facts(fidelity);
    text.push_str(&listed_under("Missing runs", &fidelity.missing));
    text.push_str(&verdicts::section(&fidelity.judged(&bars), &names));
    text.push_str(&agreement::section(fidelity, &bars, &names));
    page(head, &text)
}

/// What was measured, and how often the arms agree in all.
fn facts(fidelity: &Fidelity) -> String {
    let Fidelity { kernel, real, date, machine, phases, .. } = fidelity;
    let (good, all) = fidelity.agreed();
    let [(inside, figures), (inside_changes, changes)] = fidelity.coverage();
    let bars = format!(
        "of {COVERAGE:.0} %, made of the other workloads, hold {inside} of {figures} figures and \
         {inside_changes} of {changes} changes"
    );
    fact_list(&[
        ("simulated", breakable(machine)),
        ("real", format!("{}, {}", breakable(kernel), escape(real))),
        ("date", escape(date)),
        ("runs", format!("{} of each in each arm", counted(*phases, "run"))),
        ("agree", format!("{good} of {all} cells, within the bound or the real spread")),
        ("bars", if figures > 0 { bars } else { "too few workloads were measured".to_string() }),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_verdicts::tests::three;

    fn text(fidelity: &Fidelity) -> String {
        let head = HtmlPage { title: "a & b".into(), command: "schedlab fidelity".into(), notes: Vec::new() };
        fidelity_html(&head, fidelity)
    }

    #[test]
    fn the_page_stands_alone_and_is_escaped() {
        let mut fidelity = three();
        let hostile = "\"><img src=x onerror=alert(1)><!--";
        fidelity.cells.iter_mut().for_each(|cell| {
            cell.workload = hostile.into();
            cell.scheduler.push_str(hostile);
        });
        for name in [&mut fidelity.kernel, &mut fidelity.real, &mut fidelity.date, &mut fidelity.machine] {
            *name = hostile.into();
        }
        fidelity.missing = vec![hostile.into()];
        let text = text(&fidelity);
        assert!(text.contains("&quot;&gt;&lt;img") && text.contains("<h2>Missing runs</h2>"), "{text}");
        assert!(!text.contains("<img") && !text.contains("<!--") && !text.contains("<script"), "{text}");
        assert!(!text.contains("http") && !text.contains("NaN") && !text.contains("inf\""), "{text}");
        for name in ["section", "table", "figure", "details", "div", "ul", "svg", "dl", "td", "th", "g"] {
            let begun =
                text.matches(&format!("<{name}>")).count() + text.matches(&format!("<{name} ")).count();
            assert_eq!(begun, text.matches(&format!("</{name}>")).count(), "{name}");
        }
    }

    #[test]
    fn what_was_measured_is_told() {
        let text = text(&Fidelity { kernel: "linux-7.3.4".into(), phases: 2, ..three() });
        assert!(
            text.contains("<dd>linux-7.3.4, </dd>") && text.contains("<dd>2 runs of each in each arm</dd>")
        );
        assert!(text.contains("<dd>3 of 3 cells,") && text.contains("too few workloads"), "{text}");
    }

    #[test]
    fn nothing_measured_is_no_broken_page() {
        let text = text(&Fidelity::default());
        assert!(text.contains("no pair of schedulers") && text.ends_with("</html>\n"), "{text}");
        assert!(!text.contains("<table"), "{text}");
    }
}
