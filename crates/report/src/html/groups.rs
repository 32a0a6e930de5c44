//! The groups of a run as a picture: each as wide as its part of all CPU time, below the one that it is in.

use super::{escape, table};
use crate::group_tables::{GROUP_COLUMNS, GROUP_NUMBERS, group_rows, in_tree_order};
use schedlab_trace::{GroupRecord, RunRecord};
use std::collections::BTreeMap;

/// Groups in the table, and in the picture. Chosen; the result file has all.
const SHOWN: usize = 200;
/// Width of the picture, and height of a level.
const WIDTH: f64 = 720.0;
const LEVEL: f64 = 26.0;
/// Width of a letter. Chosen: no letter of the font is wider on average.
const LETTER: f64 = 7.0;

/// Picture and table of a run's groups; nothing where it has none.
pub(super) fn section(run: &RunRecord) -> String {
    if run.groups.is_empty() {
        return String::new();
    }
    let rows = group_rows(run, SHOWN);
    format!("<h3>Groups</h3>\n{}{}", picture(run), table(&GROUP_COLUMNS, &GROUP_NUMBERS, &rows))
}

fn level(group: &GroupRecord) -> usize {
    group.name.split('/').count() - 1
}

fn picture(run: &RunRecord) -> String {
    let order: Vec<&GroupRecord> = in_tree_order(run).into_iter().take(SHOWN).collect();
    let sum = |time: u64, used: u64| time.saturating_add(used);
    let beside = run.tasks.iter().map(|task| task.cpu_time.0).fold(0, sum);
    let of_groups = order.iter().filter(|group| level(group) == 0).map(|group| group.cpu_time.0).fold(0, sum);
    let whole = beside.max(of_groups);
    let levels = order.iter().map(|group| level(group) + 1).max().unwrap_or(0);
    if whole == 0 {
        return String::new();
    }
    // Where the next group in each begins; the root has no name.
    let mut next: BTreeMap<&str, f64> = BTreeMap::from([("", 0.0)]);
    let mut boxes = String::new();
    for group in order {
        let above = group.name.rsplit_once('/').map_or("", |(above, _)| above);
        let left = next.get(above).copied().unwrap_or(0.0);
        let width = WIDTH * group.cpu_time.0 as f64 / whole as f64;
        next.insert(above, left + width);
        next.insert(&group.name, left);
        boxes.push_str(&one(group, left, width));
    }
    let height = LEVEL * levels as f64;
    format!(
        "<figure class=\"plot\">\n<figcaption>Parts of all CPU time, by group</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"Groups and their parts of all CPU time\">\n{boxes}</svg>\n</figure>\n"
    )
}

fn one(group: &GroupRecord, left: f64, width: f64) -> String {
    let top = LEVEL * level(group) as f64;
    let by_weight =
        group.entitled.map_or_else(String::new, |share| format!(", {:.1} % by weight", share * 100.0));
    let part = format!("{:.1} %", group.share * 100.0);
    let name = group.name.rsplit('/').next().unwrap_or_default();
    let label = format!("{name} {part}");
    let shown = if label.chars().count() as f64 * LETTER < width {
        format!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", left + 4.0, top + 17.0, escape(&label))
    } else {
        String::new()
    };
    format!(
        "<g><title>{}: {part} of the group above{by_weight}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
         height=\"{LEVEL}\" fill=\"currentColor\" fill-opacity=\"0.12\" stroke=\"currentColor\"/>{shown}</g>\n",
        escape(&group.name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_base::DurationNs;

    #[test]
    fn groups_stand_side_by_side_below_the_one_that_they_are_in() {
        let mut one = run("o1", 1, 1.0);
        let group = |name: &str, us: u64| GroupRecord {
            name: name.into(),
            cpu_time: DurationNs(us * 1_000),
            entitled: None,
            ..one.groups[0].clone()
        };
        one.groups = vec![group("a", 1_500), group("a/<x>", 500), group("a/y", 1_000), group("b", 500)];
        let text = section(&one);
        for part in [
            "x=\"0.0\" y=\"0.0\" width=\"540.0\"",
            "x=\"0.0\" y=\"26.0\" width=\"180.0\"",
            "x=\"180.0\" y=\"26.0\" width=\"360.0\"",
            "x=\"540.0\" y=\"0.0\" width=\"180.0\"",
            "<title>a/&lt;x&gt;: 100.0 % of the group above</title>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        one.groups.clear();
        assert_eq!(section(&one), "");
    }
}
