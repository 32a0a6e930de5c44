//! Whatever the command writes as JSON has the form of its published schema: no field is missing, of another type, or untold.

use crate::Folder;
use crate::faults::compile;
use crate::standing::LOAD;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Schemas, and commands that write such documents with ` --json r.json`.
const CORPUS: [(&str, &str); 21] = [
    ("results", "sim -s o1 -w cpuhog:ntasks=3,ttime=20ms -c 2"),
    ("results", "sim -s eevdf -w chat:rooms=1,messages=5 -c 4 --seed 3"),
    ("results", "sim -s ule -w mkbench:makes=1,jobs=2,scale=0.01 -c 2 -m p3-700"),
    ("results", "sim -s staircase -w swap-multi:iterations=2,hogs=1 -c 1 --timeline 1ms..5ms --html r.html"),
    ("results", "sim -s o1+swap -w swap-pipe:iterations=3,hogs=2 -c 1 --explain-waits"),
    ("results", "sim -s vanilla -w swap-poll:iterations=2,hogs=1 -c 1 --explain-waits"),
    ("results", "sim -s hamq -w thin-client:sessions=2 -c 1 --duration 200ms -m p3-700"),
    ("results", "sim -s o1 -w pipe:loops=100 -m vm-icount -c 1"),
    ("results", "sim -s o1 -w cpuhog:ntasks=2,ttime=20ms -c 1 --set profile=PROFILE_D1 --detach-at 5ms"),
    ("results", "sim -s ./stall.bpf.o -w cpuhog:ntasks=3,ttime=40s -c 2"),
    ("results", "sim -s ./stall.bpf.o -w cpuhog:ntasks=3,ttime=40s -c 2 --after-ejection continue"),
    ("results", "compare -s vanilla,o1,eevdf -w chat:rooms=1,messages=5 -c 1-2 --runs 3"),
    ("results", "compare -s eevdf,o1 -w cpuhog:ntasks=3,ttime=20ms -w chat:rooms=1,messages=5 -c 2 --runs 2"),
    ("results", "compare -s eevdf,o1 -w pipe:loops=100 -m vm-icount -c 1 --runs 2"),
    ("results", "compare -s eevdf,no=./no_hogs.bpf.o -w load.toml -c 2 --runs 2"),
    ("results", "compare -s o1,stalls=./stall.bpf.o -w cpuhog:ntasks=3,ttime=40s -c 2 --runs 2"),
    ("results", "run -s eevdf -- sh -c true"),
    ("results", "reproduce libenzi --quick --document-table hogs --sensitivity fork,tick"),
    ("stat", "stat a.txt b.txt one.txt --confidence 95,99"),
    ("check", "check o1+swap"),
    ("check", "check ./stall.bpf.o"),
];

/// A schema as the command prints it.
fn printed(folder: &Folder, name: &str) -> Value {
    let schema: Value = serde_json::from_str(&folder.run(&format!("schema {name}")).ok()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    schema
}

/// Where a value has not the form of a schema. Fields that the schema does not name are faults here. The crate `jsonschema` is no
/// dependency: it turns on `std` of `num-traits`, and then figures differ in their last digits from those of the command that users
/// have. The tests of the Python package validate with an implementation of others.
fn faults(value: &Value, schema: &Value, root: &Value, place: &str, found: &mut Vec<String>) {
    let fits = |schema: &Value| {
        let mut faulty = Vec::new();
        faults(value, schema, root, place, &mut faulty);
        faulty.is_empty()
    };
    for (keyword, wanted) in schema.as_object().unwrap() {
        let good = match keyword.as_str() {
            "title" | "description" | "default" | "format" | "$schema" | "$defs" | "required" => true,
            "type" => match wanted.as_array() {
                Some(kinds) => kinds.iter().any(|kind| is(value, kind)),
                None => is(value, wanted),
            },
            "$ref" => fits(root.pointer(wanted.as_str().unwrap().trim_start_matches('#')).unwrap()),
            "const" => value == wanted,
            "enum" => wanted.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()),
            "minItems" => value.as_array().is_none_or(|list| list.len() as u64 >= wanted.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|list| list.len() as u64 <= wanted.as_u64().unwrap()),
            "pattern" => matches(value.as_str().unwrap_or_default(), wanted.as_str().unwrap()),
            "anyOf" => wanted.as_array().unwrap().iter().any(fits),
            "oneOf" => wanted.as_array().unwrap().iter().filter(|one| fits(one)).count() == 1,
            "items" => {
                for (index, element) in value.as_array().into_iter().flatten().enumerate() {
                    faults(element, wanted, root, &format!("{place}/{index}"), found);
                }
                true
            }
            "properties" => {
                members(value, schema, root, place, found);
                true
            }
            "additionalProperties" => {
                for (name, member) in value.as_object().into_iter().flatten().filter(|_| wanted.is_object()) {
                    faults(member, wanted, root, &format!("{place}/{name}"), found);
                }
                true
            }
            other => panic!("{place}: this test does not know the keyword {other}"),
        };
        if !good {
            found.push(format!("{place}: {keyword} is not {wanted}"));
        }
    }
}

/// The faults of an object's members.
fn members(value: &Value, schema: &Value, root: &Value, place: &str, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(name.as_str().unwrap()) {
            found.push(format!("{place}: {name} is missing"));
        }
    }
    for (name, member) in object {
        match schema["properties"].get(name) {
            Some(wanted) => faults(member, wanted, root, &format!("{place}/{name}"), found),
            None => found.push(format!("{place}: {name} is not in the schema")),
        }
    }
}

fn is(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    }
}

/// Whether a text is one of a pattern of the form `^(a|b)(c|d)$`.
fn matches(text: &str, pattern: &str) -> bool {
    let groups = pattern.strip_prefix("^(").and_then(|rest| rest.strip_suffix(")$")).unwrap();
    let (firsts, seconds) = groups.split_once(")(").unwrap();
    let plain = |text: &str| text.replace('\\', "");
    firsts.split('|').any(|first| seconds.split('|').any(|second| text == plain(first) + &plain(second)))
}

/// Reads a document, which must have the form of the schema.
fn valid(schema: &Value, text: &str, of: &str) -> Value {
    let document: Value = serde_json::from_str(text).unwrap();
    let mut found = Vec::new();
    faults(&document, schema, schema, "", &mut found);
    found.truncate(5);
    assert!(found.is_empty(), "{of}: {found:#?}");
    document
}

#[test]
fn faults_in_documents_are_found() {
    let folder = Folder::new();
    let schema = printed(&folder, "results");
    let good = folder.run("compare -q -s eevdf,o1 -w cpuhog:ntasks=2,ttime=5ms -c 1 --runs 2 --json -").ok();
    valid(&schema, &good, "good");
    for (from, to) in [
        ("\"cpus\": 1", "\"cpus\": -1"),
        ("\"cpus\": 1", "\"cpu\": 1"),
        ("\"backend\": \"sim\"", "\"backend\": \"moon\""),
        ("\"verdict\": \"", "\"verdict\": \"no "),
        ("\"seed\": ", "\"seed\": 0.5, \"seed2\": "),
        ("\"schema\": 1", "\"schema\": 2"),
    ] {
        let bad: Value = serde_json::from_str(&good.replacen(from, to, 1)).unwrap();
        let mut found = Vec::new();
        faults(&bad, &schema, &schema, "", &mut found);
        assert!(!found.is_empty(), "{to}");
    }
}

/// Adds the names of all members of a value.
fn collect<'a>(value: &'a Value, names: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                names.insert(name);
                collect(member, names);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, names)),
        _ => {}
    }
}

#[test]
fn all_that_is_written_has_the_form_of_its_schema() {
    let folder = Folder::new();
    compile(&folder, "stall");
    compile(&folder, "no_hogs");
    // Another goal, which is met.
    folder.write("load.toml", LOAD.replace("50 ms\"]", "50 ms\", \"context_switches >= 1\"]"));
    folder.write("a.txt", "1\n2\n3\n4\n");
    folder.write("b.txt", "11\n12\n13\n");
    folder.write("one.txt", "7\n");
    let schemas = ["results", "stat", "check"].map(|name| (name, printed(&folder, name)));
    let schemas = BTreeMap::from(schemas);
    let mut written = Vec::new();
    for (schema, line) in CORPUS {
        let (command, command_line) = line.split_once(" -- ").map_or((line, ""), |(a, b)| (a, b));
        let words: Vec<&str> = command.split(' ').chain(["-q", "--json", "r.json"]).collect();
        let rest = command_line.split(' ').filter(|word| !word.is_empty());
        let words: Vec<&str> =
            words.into_iter().chain((!command_line.is_empty()).then_some("--")).chain(rest).collect();
        let done = folder.run_words(&words);
        assert!([0, 1, 4].contains(&done.code), "{line}: {done:?}");
        written.push(valid(&schemas[schema], &folder.read("r.json"), line));
    }
    let mut names = BTreeSet::new();
    written.iter().for_each(|document| collect(document, &mut names));
    for name in
        ["dump", "after_ejection", "validation", "series", "waits", "task_waits", "goals", "ranking", "worst"]
    {
        assert!(names.contains(name), "no command of the corpus writes {name}");
    }
    let standing = |wanted: &str| {
        let runs = written.iter().filter_map(|document| document["runs"].as_array()).flatten();
        runs.filter(|run| run["standing"] == wanted).count()
    };
    for wanted in ["valid", "suspect", "void"] {
        assert!(standing(wanted) > 0, "no run of the corpus is {wanted}");
    }
}

/// The measurements in the sources, and the verdicts that are made of them.
#[test]
fn fidelity_has_the_form_of_its_schemas() {
    let folder = Folder::new();
    let measured = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fidelity/linux-7.3.json");
    valid(&printed(&folder, "fidelity"), &std::fs::read_to_string(measured).unwrap(), measured);
    folder.run(&format!("fidelity --show {measured} --verdicts --json verdicts.json")).ok();
    valid(&printed(&folder, "verdicts"), &folder.read("verdicts.json"), "verdicts");
}

#[test]
fn the_published_schemas_are_what_the_command_prints() {
    let folder = Folder::new();
    for name in ["results", "stat", "check", "verdicts", "fidelity"] {
        let file = format!("{}/../../docs/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let published = std::fs::read_to_string(&file).unwrap();
        assert_eq!(folder.run(&format!("schema {name}")).ok(), published, "{file}");
    }
    assert_eq!(folder.run("schema").ok(), folder.run("schema results").ok());
    folder.run("schema moon").refused(2, &["moon", "results", "fidelity"]);
}
