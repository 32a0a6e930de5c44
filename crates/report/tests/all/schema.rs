//! The published schemas (`docs/schema/`) and the tables of fields in `docs/results.md` say what is written.
//!
//! `SCHEDLAB_BLESS=1 cargo test -p schedlab-report --test all schema::` writes both again.

use schedlab_report::DOCUMENTS;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What begins a table of `docs/results.md`: the document and its types.
const BEGIN: &str = "<!-- schema ";
/// What ends it.
const END: &str = "<!-- end -->";

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Compares a file with what it should be, or writes it.
fn hold(name: &str, wanted: &str) {
    let path = docs().join(name);
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(&path, wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert!(
        found == wanted,
        "docs/{name} is not what the structs say (SCHEDLAB_BLESS=1 writes it anew): {differs:?}"
    );
}

fn schema(name: &str) -> Value {
    let document = DOCUMENTS.iter().find(|document| document.name == name);
    serde_json::from_str(&document.unwrap_or_else(|| panic!("no document {name}")).schema()).unwrap()
}

#[test]
fn the_published_schemas_are_those_of_the_structs() {
    for document in DOCUMENTS {
        hold(&format!("schema/{}.json", document.name), &document.schema());
    }
    let files = std::fs::read_dir(docs().join("schema")).unwrap().count();
    assert_eq!(files, DOCUMENTS.len(), "files in docs/schema");
}

/// A type of a document: itself by its title, or a part.
fn part<'a>(schema: &'a Value, name: &str) -> &'a Value {
    if schema["title"] == name { schema } else { &schema["$defs"][name] }
}

/// The fields of a type, and the names of those that are always there. A choice has those of all of its forms.
fn fields(schema: &Value) -> (Map<String, Value>, Vec<&Value>) {
    let Some(forms) = schema["oneOf"].as_array() else {
        let required = schema["required"].as_array().into_iter().flatten().collect();
        return (schema["properties"].as_object().cloned().unwrap_or_default(), required);
    };
    let mut all = Map::new();
    let (_, mut required) = fields(&forms[0]);
    for form in forms {
        let (properties, always) = fields(form);
        required.retain(|name| always.contains(name));
        for (name, mut property) in properties {
            let meaning = form["description"].as_str().unwrap_or_default();
            let text = match property["const"].as_str() {
                Some(word) => format!("`{word}`: {}", lower(meaning)),
                None => "What the comparison found.".to_string(),
            };
            let known = all.entry(name).or_insert_with(|| {
                property["description"] = "".into();
                property
            });
            let before = known["description"].as_str().unwrap_or_default();
            if !before.contains(&text) {
                known["description"] = format!("{before} {text}").trim().into();
            }
        }
    }
    (all, required)
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Whether the description of a field has the word.
fn is_told(word: &Value, field: &Value) -> bool {
    let text = field["description"].as_str().unwrap_or_default();
    word.as_str().is_some_and(|word| text.contains(&format!("`{word}`")))
}

/// What a field is, in words.
fn kind(field: &Value, schema: &Value) -> String {
    if let Some(name) = field["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let of = &schema["$defs"][name];
        return if fields(of).0.is_empty() { "text".to_string() } else { format!("`{name}`") };
    }
    if let Some(choices) = field["anyOf"].as_array() {
        return choices.iter().map(|one| kind(one, schema)).collect::<Vec<_>>().join(" or ");
    }
    if field["type"] == serde_json::json!(["boolean", "number", "string"]) {
        return "value".to_string();
    }
    let Some(types) = field["type"].as_array() else { return kind_of(field["type"].as_str(), field, schema) };
    let words = types.iter().map(|one| kind_of(one.as_str(), field, schema));
    words.collect::<Vec<_>>().join(" or ")
}

fn kind_of(name: Option<&str>, field: &Value, schema: &Value) -> String {
    match name {
        Some("string") => match field["enum"].as_array() {
            Some(words) if words.iter().any(|word| !is_told(word, field)) && words.len() < 8 => {
                let words = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`"));
                words.collect::<Vec<_>>().join(", ")
            }
            _ => "text".to_string(),
        },
        Some("boolean") => "true or false".to_string(),
        Some("array") => format!("list of {}", kind(&field["items"], schema)),
        Some("object") => format!("{} by name", kind(&field["additionalProperties"], schema)),
        Some(name) => name.to_string(),
        None => panic!("a field without a type: {field}"),
    }
}

/// The table of types of a document.
fn table(document: &str, types: &[&str]) -> String {
    let schema = schema(document);
    let several = types.len() > 1;
    let mut text = String::from(if several {
        "| type | field | is | meaning |\n|---|---|---|---|\n"
    } else {
        "| field | is | meaning |\n|---|---|---|\n"
    });
    for name in types {
        let (properties, required) = fields(part(&schema, name));
        assert!(!properties.is_empty(), "{document} has no type {name}");
        let mut place = format!("`{name}`");
        for (field, property) in &properties {
            if several {
                text.push_str(&format!("| {} ", std::mem::take(&mut place)).replace("|  ", "| "));
            }
            let absent = if required.iter().any(|one| *one == field) { "" } else { ", may be absent" };
            let kind = kind(property, &schema);
            let meaning = property["description"].as_str().unwrap_or_default().replace("\n\n", " ");
            assert!(meaning.len() > 1, "{document}: {name}.{field} has no description");
            text.push_str(&format!("| `{field}` | {kind}{absent} | {} |\n", meaning.replace('|', "\\|")));
        }
    }
    text
}

#[test]
fn the_tables_of_fields_are_made_of_the_schema() {
    let page = std::fs::read_to_string(docs().join("results.md")).unwrap();
    let mut wanted = String::new();
    let mut told = BTreeSet::new();
    let mut rest = &page[..];
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (mark, after) = after.split_once(" -->\n").expect("a mark has an end");
        let (_, after) = after.split_once(END).expect("a table has an end");
        let (document, types) = mark.split_once(' ').expect("a mark has a document and its types");
        let types: Vec<&str> = types.split(' ').collect();
        told.extend(types.iter().map(|name| format!("{document} {name}")));
        let table = table(document, &types);
        wanted.push_str(&format!("{before}{BEGIN}{mark} -->\n{table}{END}"));
        rest = after;
    }
    wanted.push_str(rest);
    for document in DOCUMENTS {
        let schema = schema(document.name);
        let parts = schema["$defs"].as_object().cloned().unwrap_or_default();
        let parts =
            parts.iter().filter(|(_, part)| !fields(part).0.is_empty()).map(|(name, _)| name.as_str());
        for name in parts.chain(schema["title"].as_str()).filter(|name| *name != "Header") {
            let found = told.contains(&format!("{} {name}", document.name));
            assert!(found, "docs/results.md has no table of {name} of {}", document.name);
        }
    }
    hold("results.md", &wanted);
}
