//! Every comparison of the published FreeBSD tables, recomputed from the printed
//! means and standard deviations.

use schedlab_stats::{Level, Moments, student};
use std::collections::BTreeMap;

const TABLES: [&str; 6] = [
    include_str!("../../../../published/freebsd_buildworld_pentium4.csv"),
    include_str!("../../../../published/freebsd_buildworld_athlon64_i386.csv"),
    include_str!("../../../../published/freebsd_buildworld_athlon64_amd64.csv"),
    include_str!("../../../../published/freebsd_compile_apache2.csv"),
    include_str!("../../../../published/freebsd_ubench.csv"),
    include_str!("../../../../published/freebsd_oggenc.csv"),
];
const COMPARISONS: &str = include_str!("../../../../published/freebsd_comparisons.csv");

/// (table, -j, metric, scheduler) -> moments. The notes at the line ends are the only
/// quoted fields, so splitting at commas finds the others.
fn moments() -> BTreeMap<[String; 4], Moments> {
    let mut found = BTreeMap::new();
    for line in TABLES.iter().flat_map(|table| table.lines().skip(1)) {
        let field: Vec<&str> = line.split(',').collect();
        let key = [field[3], field[2], field[5], field[4]].map(str::to_string);
        let number = |index: usize| field[index].parse::<f64>().unwrap();
        found.insert(key, Moments { count: 3, mean: number(8), sd: number(9) });
    }
    found
}

fn close(computed: f64, printed: &str) -> bool {
    let printed: f64 = printed.parse().unwrap();
    (computed.abs() - printed).abs() <= 1e-5 * printed
}

#[test]
fn all_published_comparisons_are_reproduced() {
    let moments = moments();
    let mut checked = 0;
    for line in COMPARISONS.lines().skip(1) {
        let field: Vec<&str> = line.split(',').collect();
        let of = |scheduler: &str| moments[&[field[3], field[2], field[4], scheduler].map(str::to_string)];
        let test = student(&of("ULE"), &of("4BSD"), Level::P95).unwrap();
        assert_eq!(test.proven, field[7] == "yes", "{line}");
        if test.proven {
            let percent = test.percent.unwrap();
            assert!(close(percent.center, field[8]), "{line}: {test:?}");
            // ministat of that time took the reference's mean for exact.
            let half_width = 100.0 * test.half_width / of("4BSD").mean;
            assert!(close(half_width, field[9]), "{line}: {test:?}");
            assert!(close(test.pooled_sd, field[11]), "{line}: {test:?}");
            let ule_better = (test.difference > 0.0) == (field[5] == "higher");
            assert_eq!(field[12] == "ULE", ule_better, "{line}");
        }
        checked += 1;
    }
    assert_eq!(checked, 35);
}
