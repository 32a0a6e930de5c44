//! JSON Schemas (draft 2020-12) of what schedlab writes as JSON, made of the structs that are written.

pub(crate) mod names;

use crate::{Fidelity, check, judgement, kernel_verdicts, result_file, stat_json};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// A kind of JSON document.
pub struct JsonDocument {
    /// Its name on the command line, and that of its file in `docs/schema/`.
    pub name: &'static str,
    /// Which commands write it.
    pub about: &'static str,
    make: fn() -> Schema,
}

/// The documents that schedlab writes. What `--resume` keeps is its own business: only the build that wrote it reads it.
pub const DOCUMENTS: [JsonDocument; 7] = [
    JsonDocument {
        name: "results",
        about: "what --json of sim, compare, run, bench, reproduce and deps writes",
        make: schema::<result_file::File>,
    },
    JsonDocument { name: "stat", about: "what stat --json writes", make: schema::<stat_json::File<'static>> },
    JsonDocument { name: "check", about: "what check --json writes", make: schema::<check::File<'static>> },
    JsonDocument {
        name: "verdicts",
        about: "what fidelity --json writes",
        make: schema::<kernel_verdicts::VerdictsFile<'static>>,
    },
    JsonDocument {
        name: "fidelity",
        about: "the figures of both arms that fidelity -o writes, as in fidelity/",
        make: schema::<Fidelity>,
    },
    JsonDocument {
        name: "judge",
        about: "what judge --json writes",
        make: schema::<judgement::File<'static>>,
    },
    JsonDocument {
        name: "space",
        about: "what judge --over writes",
        make: schema::<judgement::SpaceFile<'static>>,
    },
];

impl JsonDocument {
    /// The JSON Schema, with a newline at its end.
    pub fn schema(&self) -> String {
        let mut text = serde_json::to_string_pretty(&(self.make)()).expect("a schema is plain data");
        text.push('\n');
        text
    }
}

/// The schema of what this version writes. Older files may lack fields; newer ones may have more.
fn schema<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(as_written).transform(&mut schema);
    schema
}

/// States what is true of everything that is written: a field that may be absent is not null when it is there. Its default is
/// what a reader takes where it is absent, as in files of older versions. A description has its lines joined.
fn as_written(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    }
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties.iter_mut() {
        if !required.contains(&Value::String(name.clone())) {
            never_null(property);
        }
    }
}

fn never_null(property: &mut Value) {
    let Some(property) = property.as_object_mut() else { return };
    if let Some(Value::Array(types)) = property.get_mut("type")
        && types.iter().any(|one| one == "null")
    {
        types.retain(|one| one != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            property.insert("type".to_string(), one);
        }
        property.insert("default".to_string(), Value::Null);
    }
    if let Some(Value::Array(choices)) = property.get_mut("anyOf") {
        choices.retain(|one| one["type"] != "null");
        if let [one] = &choices[..] {
            let one = one.as_object().cloned().unwrap_or_default();
            property.remove("anyOf");
            property.extend(one);
        }
        property.insert("default".to_string(), Value::Null);
    }
}
