//! Growth with the number of CPUs in a page: for each workload the published curves beside the measured ones.

use super::plot::{Axis, Plot, Point, Series, around, told};
use schedlab_base::counted;
use schedlab_reproduction::{Curve, CurvePoint, Curves, TableOutcome};

/// The curves of a table, two plots a workload.
pub(super) fn plots(shown: &TableOutcome) -> String {
    shown.curves().iter().map(pair).collect()
}

/// Published beside measured, on the same scale.
fn pair(curves: &Curves) -> String {
    let all = curves.schedulers.iter().flat_map(|curve| curve.published.iter().chain(&curve.measured));
    let most = all.map(|point| point.times + point.half_width.unwrap_or(0.0)).fold(0.0, f64::max);
    let plot = |name: &str, points: &dyn Fn(&Curve) -> Vec<CurvePoint>| {
        let series = curves.schedulers.iter().map(|curve| series(curve, &points(curve)));
        Plot {
            title: format!("{}: {name}", curves.workload),
            x_label: "CPUs".into(),
            y_label: "fewest CPUs = 1".into(),
            x: Axis::Factors,
            y: Axis::UpTo(most),
            lines: true,
            series: series.collect(),
        }
        .html()
        .unwrap_or_default()
    };
    let published = plot("published", &|curve| curve.published.clone());
    let measured = plot("measured", &|curve| curve.measured.clone());
    format!("<div class=\"plots\">\n{published}{measured}</div>\n")
}

fn series(curve: &Curve, points: &[CurvePoint]) -> Series {
    let point = |point: &CurvePoint| {
        let value = told(point.times, point.half_width, "1");
        let about = format!("{}, {}: {value} times", curve.scheduler, counted(point.cpus, "CPU"));
        Point { x: point.cpus as f64, y: point.times, interval: around(point.times, point.half_width), about }
    };
    Series::new(curve.scheduler.clone(), points.iter().map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduction::tests::outcome;

    #[test]
    fn published_curves_stand_beside_measured_ones() {
        let text = plots(&outcome().tables[0]);
        let (published, measured) = text.split_once("</figure>").unwrap();
        for (plot, name, times) in [(published, "published", "3"), (measured, "measured", "4")] {
            let about = format!("<title>o1[profile=d1], 4 CPUs: {times} times</title>");
            assert!(plot.contains(&format!("{name}</figcaption>")) && plot.contains(&about), "{plot}");
            assert!(plot.contains("<title>o1[profile=d1], 2 CPUs: 1 times</title>"), "{plot}");
            // The same scale: both axes end at four times.
            assert!(plot.contains(">4</text>") && !plot.contains(">5</text>"), "{plot}");
        }
        assert_eq!(text.matches("<div class=\"plots\">").count(), 1);
    }

    #[test]
    fn a_table_without_growth_has_no_curves() {
        let mut document = outcome();
        document.tables[0].growth.clear();
        assert_eq!(plots(&document.tables[0]), "");
    }

    #[test]
    fn a_figure_that_is_missing_draws_nothing() {
        let mut document = outcome();
        document.tables[0].growth[0].cells[0].values = vec![None];
        let text = plots(&document.tables[0]);
        assert!(text.contains("published</figcaption>") && !text.contains("measured</figcaption>"), "{text}");
    }
}
