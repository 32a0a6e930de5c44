//! The picture of how the priorities of a run's tasks went: an SVG that stands alone or in a page.

use crate::html::plot::step;
use crate::names::{escape, label};
use schedlab_base::DurationNs;
use schedlab_trace::{PriorityCourse, RunRecord};
use std::fmt::Write as _;

/// Size of the picture and of a task's panel in it, in pixels.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 748.0;
const PANEL: f64 = 130.0;
const TITLE: f64 = 22.0;
const AXIS: f64 = 24.0;

const STYLE: &str = "\
.priorities { font: 12px system-ui, sans-serif; }
.priorities text { fill: #57606a; }
.priorities .grid { stroke: #d0d7de; }
.priorities .waits { stroke: #8b95a3; fill: none; }
.priorities .runs { stroke: #2f81d7; stroke-width: 3; fill: none; }
@media (prefers-color-scheme: dark) {
.priorities text { fill: #b1b8c0; }
.priorities .grid { stroke: #363c45; }
}
";

/// From values to pixels.
struct Scale {
    /// The run's length, ns.
    length: f64,
    /// Best and worst priority; the best, the lowest number, is on top.
    best: i64,
    worst: i64,
}

impl Scale {
    fn of(run: &RunRecord) -> Option<Scale> {
        let points = || run.priorities.iter().flat_map(|course| &course.points);
        let (best, worst) =
            (points().map(|point| point.priority).min()?, points().map(|point| point.priority).max()?);
        let room = i64::from(best == worst);
        let length = run.duration.0.max(1) as f64;
        Some(Scale { length, best: best.saturating_sub(room), worst: worst.saturating_add(room) })
    }

    /// To a tenth of a pixel, as all of the picture.
    fn x(&self, ns: u64) -> f64 {
        let share = (ns as f64 / self.length).min(1.0);
        ((LEFT + share * (RIGHT - LEFT)) * 10.0).round() / 10.0
    }

    fn y(&self, top: f64, priority: i64) -> f64 {
        let share = (priority - self.best) as f64 / (self.worst - self.best) as f64;
        ((top + share * (PANEL - TITLE - 12.0)) * 10.0).round() / 10.0
    }
}

/// The courses of all tasks, a panel each below one another; nothing when none is known.
pub fn priorities_svg(run: &RunRecord) -> Option<String> {
    let scale = Scale::of(run)?;
    let known: Vec<_> = run.priorities.iter().enumerate().filter(|(_, c)| !c.points.is_empty()).collect();
    let height = known.len() as f64 * PANEL + AXIS;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"priorities\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"priorities over time\">\n\
         <style>\n{STYLE}</style>\n"
    );
    for (place, (task, course)) in known.iter().enumerate() {
        let top = place as f64 * PANEL;
        let about = run.tasks.get(*task).map_or_else(
            || format!("task {task}"),
            |task| format!("{}, nice {}", escape(&label(&task.name)), task.nice),
        );
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">{about}</text>", top + 14.0);
        panel(&mut svg, &scale, top + TITLE, course, run.duration);
    }
    time_axis(&mut svg, &scale, height - AXIS);
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Lines for some priorities, then the course: thin, and thick where the task runs.
fn panel(svg: &mut String, scale: &Scale, top: f64, course: &PriorityCourse, end: DurationNs) {
    let by = step((scale.worst - scale.best) as f64, 4.0).max(1.0) as i64;
    let mut priority = scale.best.div_euclid(by) * by;
    while priority <= scale.worst {
        if priority >= scale.best {
            let y = scale.y(top, priority);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y}H{RIGHT}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">\
                 {priority}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        priority += by;
    }
    let (mut whole, mut runs) = (String::new(), String::new());
    let ends = course.points.iter().skip(1).map(|point| point.at.0).chain([end.0]);
    for (point, until) in course.points.iter().zip(ends) {
        let (from, to, y) = (scale.x(point.at.0), scale.x(until), scale.y(top, point.priority));
        // What is shorter than a tenth of a pixel is not seen.
        if to - from < 0.05 {
            continue;
        }
        let _ = if whole.is_empty() { write!(whole, "M{from} {y}") } else { write!(whole, "V{y}") };
        let _ = write!(whole, "H{to}");
        if point.running {
            let _ = write!(runs, "M{from} {y}H{to}");
        }
    }
    let _ = writeln!(svg, "<path class=\"waits\" d=\"{whole}\"/>\n<path class=\"runs\" d=\"{runs}\"/>");
}

/// Units of time and their length in ns, longest first.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Times below the panels, all in the unit that the run's length has.
fn time_axis(svg: &mut String, scale: &Scale, top: f64) {
    let (unit, ns) = UNITS.into_iter().find(|(_, ns)| *ns as f64 <= scale.length).unwrap_or(UNITS[3]);
    let by = step(scale.length, 8.0).max(1.0) as u64;
    let mut at = 0;
    while at as f64 <= scale.length {
        let x = scale.x(at);
        // The last one may be at the picture's edge.
        let anchor = if x > RIGHT - 20.0 { "end" } else { "middle" };
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x} {top}v5\"/><text x=\"{x}\" y=\"{}\" text-anchor=\"{anchor}\">{} {unit}</text>",
            top + 18.0,
            at as f64 / ns as f64
        );
        at += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_base::{TaskId, TimeNs};
    use schedlab_trace::Priorities;

    fn picture(samples: &[(u64, u32, i64, bool)]) -> Option<String> {
        let mut run = run("<o1>", 1, 1.0);
        run.duration = DurationNs::from_ms(100);
        let mut priorities = Priorities::default();
        for &(ms, task, priority, running) in samples {
            priorities.add(TimeNs(ms * 1_000_000), TaskId(task), priority, Some(running));
        }
        run.priorities = priorities.courses().to_vec();
        priorities_svg(&run)
    }

    #[test]
    fn steps_go_down_as_numbers_go_up() {
        let svg = picture(&[(0, 0, 120, true), (50, 0, 121, false), (75, 0, 130, true)]).unwrap();
        assert!(svg.contains("d=\"M44 22H396V31.6H572V118H748\""), "{svg}");
        assert!(svg.contains("class=\"runs\" d=\"M44 22H396M572 118H748\""), "{svg}");
        assert!(
            svg.contains(">120</text>")
                && svg.contains(">130</text>")
                && svg.contains("\"end\">100 ms</text>")
        );
    }

    #[test]
    fn there_is_a_panel_for_each_task_that_was_seen() {
        let svg = picture(&[(0, 0, 5, true), (10, 2, 5, true)]).unwrap();
        assert_eq!(svg.matches("class=\"runs\"").count(), 2);
        assert!(svg.contains("task 2"));
        assert_eq!(picture(&[]), None);
    }
}
