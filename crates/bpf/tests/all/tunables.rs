//! What an object says of its tunables decides about their settings.

use crate::built::compile;
use schedlab_base::TimedSetting;
use schedlab_bpf::error::LoadErrorKind;
use schedlab_bpf::object::Object;
use schedlab_bpf::settings::{changes, timed_changes, values};

#[test]
fn descriptions_are_read() {
    let Some(bytes) = compile("tunables") else { return };
    let object = Object::parse("tunables", &bytes).unwrap();
    let told = |name: &str| {
        let variable = object.variable(name).unwrap();
        let meaning = object.description(variable).map(|described| described.meaning.as_str());
        (meaning, values(&object, variable))
    };
    for (name, meaning, values) in [
        ("plain", None, ""),
        ("weight", Some("weight of the own average"), "1..100 percent"),
        ("tick_ns", Some("length of a tick"), "0 (1 ms) or 100..900 ns"),
        ("offset", Some("how far it is off"), "-5..5"),
        ("of_type", Some("weight by type"), "0 (weight) or 1..9"),
        ("mode", Some("how it works"), "SLOW, FAST"),
        ("boost", Some("a woken task goes first"), "false, true"),
        ("label", Some("what it is called"), "text of at most 7 bytes"),
    ] {
        assert_eq!(told(name), (meaning, values.to_string()), "{name}");
    }
    let counters = object.counters();
    let counters: Vec<_> = counters.iter().map(|one| (one.variable.name.as_str(), one.meaning)).collect();
    assert_eq!(counters, [("nr_seen", "tasks that were seen")]);
}

#[test]
fn values_outside_are_refused_with_meaning_and_range() {
    let Some(bytes) = compile("tunables") else { return };
    let object = Object::parse("tunables", &bytes).unwrap();
    for (name, value) in [
        ("plain", "4294967295"),
        ("weight", "1"),
        ("weight", "100"),
        ("tick_ns", "0"),
        ("tick_ns", "900"),
        ("offset", "-5"),
        ("of_type", "[0,9,1]"),
        ("of_type[2]", "9"),
        ("mode", "fast"),
        ("mode", "7"),
        ("boost", "no"),
        ("label", "seven77"),
    ] {
        changes(&object, name, value).unwrap_or_else(|error| panic!("{name}={value}: {error}"));
    }
    let words = "it takes 1..100 percent";
    for (name, value, problem, words) in [
        ("weight", "0", "0 is none of the values of `weight`", words),
        ("weight", "101", "101 is none", "`weight` is \"weight of the own average\""),
        ("weight", "5000000000", "does not fit into", words),
        ("weight", "high", "`high` is no number", words),
        ("tick_ns", "1", "1 is none", "it takes 0 (1 ms) or 100..900 ns"),
        ("tick_ns", "18446744073709551615", "18446744073709551615 is none", "100..900 ns"),
        ("offset", "-6", "-6 is none", "it takes -5..5"),
        ("of_type", "[1,10]", "10 is none of the values of `of_type`", "weight by type"),
        ("of_type[1]", "10", "10 is none", "1..9"),
        ("mode", "3", "3 is none", "SLOW, FAST"),
        ("boost", "2", "does not fit", "false, true"),
        ("label", "eight888", "text of 8 bytes", "text of at most 7 bytes"),
    ] {
        let error = changes(&object, name, value).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind, LoadErrorKind::Setting, "{text}");
        assert!(text.contains(problem) && text.contains(words), "{name}={value}: {text}");
    }
    let at = |setting: &str| timed_changes(&object, &setting.parse::<TimedSetting>().unwrap());
    at("1s:nr_most=8").unwrap();
    let text = at("1s:nr_most=9").unwrap_err().to_string();
    assert!(text.contains("9 is none of the values of `nr_most`") && text.contains("1..8 tasks"), "{text}");
}

#[test]
fn descriptions_of_another_form_are_refused() {
    let Some(bytes) = compile("tunables") else { return };
    // The text stands in the debugging information too.
    let with = |was: &str, is: &str| {
        let mut bytes = bytes.clone();
        while let Some(at) = bytes.windows(was.len()).position(|part| part == was.as_bytes()) {
            bytes[at..at + was.len()].copy_from_slice(is.as_bytes());
        }
        Object::parse("tunables", &bytes).expect_err("a tag of another form")
    };
    for (was, is, place) in [
        ("percent|1|100|", "percent|1|MAX|", "tunable `weight`"),
        ("|-5|5||", "|5|-5||", "tunable `offset`"),
        ("ns|100|900|1 ms|", "ns|100|900;1 ms;", "tunable `tick_ns`"),
    ] {
        let error = with(was, is);
        assert_eq!(error.kind, LoadErrorKind::Malformed, "{error}");
        assert!(error.to_string().contains(place) && error.cure.contains("TUNABLE("), "{error}");
    }
}
