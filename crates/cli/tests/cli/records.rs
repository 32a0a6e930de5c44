//! Records: what `-o` writes has the views that the flags of the run have.

use super::Folder;

/// A run with waits, priorities and several CPUs, on a machine that follows cache lines.
const RUN: &str = "sim -q -s o1 -w chat:rooms=1,messages=3 -c 2 -m dual-p3-733";

/// A page without the command that it names.
fn body(page: &str) -> String {
    page.split("</pre>").skip(1).collect()
}

#[test]
fn each_view_has_the_bytes_of_its_flag() {
    let folder = Folder::new();
    let plain = folder.run(&format!("{RUN} -o r.record")).ok();
    assert_eq!(plain, folder.run(RUN).ok(), "a record changes no result");
    for (view, flag) in [
        ("json", "--json"),
        ("csv", "--csv"),
        ("timehist", "--timehist"),
        ("perfetto", "--perfetto"),
        ("samples", "--sched-samples"),
        ("priorities", "--priorities"),
    ] {
        folder.run(&format!("{RUN} {flag} flag"));
        folder.run(&format!("show r.record --as {view} --to view")).ok();
        let [flag, view] = ["flag", "view"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
        assert!(flag == view && !view.is_empty(), "{view:?}");
    }
    assert_eq!(folder.run("show r.record").ok(), plain);
    let latency = folder.run("show r.record --as latency").ok();
    assert!(folder.run(&format!("{RUN} --latency")).ok().contains(latency.trim_end()), "{latency}");
    folder.run(&format!("{RUN} --html flag")).ok();
    let page = body(&folder.read("flag"));
    assert!(page == body(&folder.run("show r.record --as html").ok()));
    let timeline = body(&folder.run("show r.record --as timeline --window 1ms..2ms").ok());
    assert!(timeline.contains("<div class=\"timeline\"") && timeline.len() < page.len(), "{timeline}");
    assert!(folder.run("show r.record --as waits").ok().contains("tcp"), "there are waits");
}

#[test]
fn a_comparison_is_shown_as_it_was_printed() {
    let folder = Folder::new();
    let run = "compare -q -s eevdf,o1 -w chat:rooms=1,messages=3 -c 2 --runs 2 -o c.record --json c.json";
    let printed = folder.run(run).ok();
    assert_eq!(folder.run("show c.record").ok(), printed);
    assert!(folder.run("show c.record --as json").ok() == folder.read("c.json"));
    let events = folder.run("show c.record --as timehist");
    events.refused(2, &["a comparison keeps no events", "schedlab sim -o"]);
    folder.run("show c.record --as latency --run 4").refused(2, &["--run 4", "4 runs"]);
}

#[test]
fn what_is_no_record_is_refused() {
    let folder = Folder::new();
    let run = "sim -q -s eevdf -w cpuhog --duration 5ms";
    folder.run(&format!("{run} -o r.record --json r.json")).ok();
    let bytes = std::fs::read(folder.path().join("r.record")).unwrap();
    folder.write("cut.record", &bytes[..bytes.len() - 9]);
    folder.write("other.record", "schedlab record 9\n");
    for (line, words) in [
        ("show cut.record", ["cut.record", "cut off"]),
        ("show other.record", ["schedlab record 9", "another version"]),
        ("show r.json", ["r.json", "it is no record"]),
        ("show none.record", ["none.record", "No such file"]),
        ("show .", ["folder", "name a file"]),
        ("show r.record --as priorities", ["--as priorities", "shows no priorities"]),
        ("show r.record --to r.record", ["r.record", "is read by this command"]),
        ("compare -s eevdf,o1 -w chat -- make", ["schedlab bench", "-w"]),
    ] {
        folder.run(line).refused(2, &words);
    }
    folder.run(&format!("{run} -o x --json x")).refused(2, &["-o", "--json"]);
}
