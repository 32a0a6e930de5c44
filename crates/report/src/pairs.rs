//! Parts of JSON files: objects that keep the order of their keys, and values that are numbers where they can be.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// A JSON object that keeps the order of its keys.
pub(crate) struct Pairs<V>(pub(crate) Vec<(String, V)>);

impl<V: Serialize> Serialize for Pairs<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs<V>, D::Error> {
        struct InOrder<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for InOrder<V> {
            type Value = Pairs<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

impl<V> Pairs<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V> Default for Pairs<V> {
    fn default() -> Pairs<V> {
        Pairs(Vec::new())
    }
}

impl<V: JsonSchema> JsonSchema for Pairs<V> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{} by name", V::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, V>::json_schema(generator)
    }
}

/// A parameter: a number where its text is one in canonical form, else the text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl JsonSchema for Value {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["boolean", "number", "string"] })
    }
}

impl Value {
    /// The number that a text is, or the text.
    pub(crate) fn from_text(text: &str) -> Value {
        if let Ok(int) = text.parse::<i64>()
            && int.to_string() == text
        {
            return Value::Int(int);
        }
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() && float.to_string() == text => Value::Float(float),
            _ => Value::Text(text.to_string()),
        }
    }

    /// The text again.
    pub(crate) fn into_text(self) -> String {
        match self {
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Text(text) => text,
        }
    }
}

/// Settings or parameters for a file.
pub(crate) fn values(pairs: &[(String, String)]) -> Pairs<Value> {
    Pairs(pairs.iter().map(|(name, text)| (name.clone(), Value::from_text(text))).collect())
}

/// Settings or parameters of a file.
pub(crate) fn texts(pairs: Pairs<Value>) -> Vec<(String, String)> {
    pairs.0.into_iter().map(|(name, value)| (name, value.into_text())).collect()
}
