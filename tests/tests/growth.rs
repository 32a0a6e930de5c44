//! The picture that Kravetz's document is about: with more CPUs the scheduler with one list gets slower, O(1) does not.

use schedlab_report::from_json;
use schedlab_tests::Schedlab;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// Messages a second of chat with 15 rooms, which the document does not have, on so many Pentium III.
fn throughput(schedlab: &Schedlab, scheduler: &str, cpus: &str) -> f64 {
    let work = "chat:rooms=15,messages=20";
    let command =
        ["sim", "-q", "-s", scheduler, "-m", "p3-700", "-w", work, "-c", cpus, "--json", "run.json"];
    let done = schedlab.run(&command, LIMIT);
    assert_eq!(done.code, 0, "{}", done.err);
    let text = std::fs::read_to_string(schedlab.path("run.json")).unwrap();
    from_json(&text).unwrap().runs[0].metric("throughput").unwrap()
}

#[test]
fn the_old_scheduler_collapses_on_eight_cpus_and_o1_does_not() {
    let schedlab = Schedlab::new("growth");
    let of = |scheduler: &str, cpus: &str| throughput(&schedlab, scheduler, cpus);
    let (vanilla, o1) = ("vanilla[profile=tsss]", "o1[profile=d1]");
    let [three, eight] = ["3", "8"].map(|cpus| of(vanilla, cpus));
    let [o1_four, o1_eight] = ["4", "8"].map(|cpus| of(o1, cpus));
    assert!(eight < three, "vanilla: {three} on 3 CPUs, {eight} on 8");
    assert!(o1_eight > 2.5 * eight, "on 8 CPUs: {o1_eight} and {eight}");
    assert!(o1_eight < 1.6 * o1_four, "O(1): {o1_four} on 4 CPUs, {o1_eight} on 8");
}
