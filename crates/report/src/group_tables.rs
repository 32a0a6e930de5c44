//! What groups of tasks got, as a table and as lines of CSV.

use crate::format::number;
use crate::table::table;
use schedlab_base::DurationNs;
use schedlab_trace::{GroupRecord, RunRecord};

/// Columns of the groups, and those of numbers.
pub(crate) const GROUP_COLUMNS: [&str; 13] = [
    "group",
    "weight",
    "CPU ms",
    "own ms",
    "share",
    "by weight",
    "quota",
    "periods",
    "throttled",
    "throttled ms",
    "run delay ms",
    "some ms",
    "full ms",
];
pub(crate) const GROUP_NUMBERS: [usize; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

/// Columns that only `-v` shows: pressure, beside which a line would not fit on a screen.
const WIDE: usize = 2;

/// The groups of a run in the order of the tree, at most `limit` of them, with their pressure if it is to be `wide`.
pub(crate) fn groups_table(run: &RunRecord, limit: usize, wide: bool) -> String {
    let columns = if wide { GROUP_COLUMNS.len() } else { GROUP_COLUMNS.len() - WIDE };
    let mut rows = group_rows(run, limit);
    rows.iter_mut().for_each(|row| row.truncate(columns));
    let mut text = table(&GROUP_COLUMNS[..columns], &GROUP_NUMBERS[..columns - 1], &rows);
    if run.groups.len() > limit {
        text.push_str(&format!("({} more groups; -v and --json have all)\n", run.groups.len() - limit));
    }
    text
}

/// The groups of a run, each before those below it.
pub(crate) fn in_tree_order(run: &RunRecord) -> Vec<&GroupRecord> {
    let mut order: Vec<&GroupRecord> = run.groups.iter().collect();
    // A slash sorts before all that names can have behind it.
    order.sort_by(|one, other| one.name.split('/').cmp(other.name.split('/')));
    order
}

/// The lines of [`groups_table`].
pub(crate) fn group_rows(run: &RunRecord, limit: usize) -> Vec<Vec<String>> {
    in_tree_order(run).into_iter().take(limit).map(row).collect()
}

fn row(group: &GroupRecord) -> Vec<String> {
    let ms = |time: DurationNs| number(time.as_secs_f64() * 1e3);
    let bound = |text: String| if group.quota.is_some() || group.periods > 0 { text } else { String::new() };
    let quota = group.quota.map_or_else(String::new, |(runtime, period)| {
        let burst = if group.burst.0 > 0 { format!("+{}", group.burst) } else { String::new() };
        format!("{runtime}{burst}/{period}")
    });
    vec![
        group.name.clone(),
        if group.idle { "idle".to_string() } else { group.weight.to_string() },
        ms(group.cpu_time),
        ms(group.own_cpu_time),
        format!("{:.4}", group.share),
        group.entitled.map_or_else(String::new, |share| format!("{share:.4}")),
        quota,
        bound(group.periods.to_string()),
        bound(group.throttled.to_string()),
        bound(ms(group.throttled_time)),
        ms(group.run_delay),
        group.pressure.map_or_else(String::new, |pressure| ms(pressure.some)),
        group.pressure.map_or_else(String::new, |pressure| ms(pressure.full)),
    ]
}

/// The figures of a group as metrics: name, value, unit, good direction.
pub(crate) fn group_metrics(group: &GroupRecord) -> Vec<(&'static str, f64, &'static str, &'static str)> {
    let mut metrics = vec![
        ("cpu_time", group.cpu_time.0 as f64, "ns", "neither"),
        ("own_cpu_time", group.own_cpu_time.0 as f64, "ns", "neither"),
        ("share", group.share, "1", "neither"),
    ];
    metrics.extend(group.entitled.map(|share| ("entitled_share", share, "1", "neither")));
    metrics.push(("run_delay", group.run_delay.0 as f64, "ns", "lower"));
    if let Some(pressure) = group.pressure {
        metrics.push(("cpu_some", pressure.some.0 as f64, "ns", "lower"));
        metrics.push(("cpu_full", pressure.full.0 as f64, "ns", "lower"));
    }
    if group.quota.is_some() || group.periods > 0 {
        metrics.extend([
            ("nr_periods", group.periods as f64, "1", "neither"),
            ("nr_throttled", group.throttled as f64, "1", "lower"),
            ("throttled", group.throttled_time.0 as f64, "ns", "lower"),
            ("nr_bursts", group.bursts as f64, "1", "neither"),
            ("burst_time", group.burst_time.0 as f64, "ns", "neither"),
        ]);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;

    #[test]
    fn groups_stand_below_the_one_that_they_are_in() {
        let mut one = run("o1", 1, 1.0);
        let names = ["b", "a-1", "a", "a/x"];
        one.groups = names.map(|name| GroupRecord { name: name.into(), ..one.groups[0].clone() }).to_vec();
        let order: Vec<&str> = in_tree_order(&one).iter().map(|group| group.name.as_str()).collect();
        assert_eq!(order, ["a", "a/x", "a-1", "b"]);
        assert!(groups_table(&one, 3, false).ends_with("(1 more groups; -v and --json have all)\n"));
    }

    #[test]
    fn a_group_shows_its_quota_and_what_it_took() {
        let text = groups_table(&run("o1", 1, 1.0), 9, false);
        assert!(!text.contains("full ms"), "{text}");
        for part in ["ui/<b>", "300", "1.0000", "0.7500", "1ms+500ns/2ms"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(group_metrics(&run("o1", 1, 1.0).groups[0]).len(), 12);
    }

    #[test]
    fn pressure_is_shown_on_demand_and_left_out_where_it_is_not_known() {
        let mut one = run("o1", 1, 1.0);
        let text = groups_table(&one, 9, true);
        assert!(text.contains("full ms") && text.contains("3.250"), "{text}");
        one.groups[0].pressure = None;
        let text = groups_table(&one, 9, true);
        assert!(text.contains("full ms") && !text.contains("3.250"), "{text}");
        assert_eq!(group_metrics(&one.groups[0]).len(), 10);
    }
}
