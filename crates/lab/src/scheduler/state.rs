//! `--state FILE`: what a scheduler's own loader wrote into its variables, as `bpftool map dump -j` of a running one shows it.

use crate::failure::Failure;
use crate::files::input;
use schedlab_bpf::object::{CPU_COUNTS, Object, Variable};
use schedlab_bpf::settings::{BYTES, is_constant, is_volatile};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// What the file says, as settings in its order: `VARIABLE=VALUE`. What both arms fill in is left out, since it is the
/// machine's and the kernel's: the number of CPUs and the kernel's constants. So is a constant that the compiler has put into the
/// code, which no loader can have changed.
///
/// # Errors
/// A file that cannot be read or is no dump of data sections, or a variable that the object does not have.
pub fn settings(path: &Path, object: &Object) -> Result<Vec<(String, String)>, Failure> {
    let refused = |why: String| Failure::usage(format!("--state {}: {why}", path.display()));
    let text = input::definition(path).map_err(|error| refused(error.to_string()))?;
    of_dump(&text, object).map_err(refused)
}

/// The state in the text of such a file.
///
/// # Errors
/// A sentence: no dump of data sections, or a variable that the object does not have.
pub fn of_dump(text: &str, object: &Object) -> Result<Vec<(String, String)>, String> {
    let raw = raw_sections(text);
    if !raw.is_empty() {
        return of_bytes(&raw, object);
    }
    let dump: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let mut settings = Vec::new();
    for (name, value) in variables(&dump)? {
        let Some(variable) = object.variable(name) else {
            return Err(format!(
                "{} has no variable `{name}`; the file is of another version",
                object.file()
            ));
        };
        let folded = is_constant(variable) && !is_volatile(object, variable);
        if !folded && !is_filled(name) {
            flatten(name.to_string(), value, &mut settings)?;
        }
    }
    Ok(settings)
}

/// A section and its bytes.
type Section = (String, Vec<u8>);

/// The sections of a newer dump, which has the bytes of each beside the same in words: `"value":["0x61",..],"formatted":{"value":
/// {".data":[..]}}`. The words are not read, but for the section's name. bpftool 7.8 cuts texts in them at a zero, and leaves
/// pointers and large integers to the reader. Its numbers of floating point are no JSON.
fn raw_sections(text: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    // The first part is what comes before the first entry.
    for entry in text.split("\"key\"").skip(1) {
        let Some((before, words)) = entry.split_once("\"formatted\"") else { continue };
        let Some((_, list)) = before.split_once("\"value\"") else { continue };
        let numbers = list.split('"').filter_map(|part| part.strip_prefix("0x"));
        let bytes: Option<Vec<u8>> = numbers.map(|digits| u8::from_str_radix(digits, 16).ok()).collect();
        let name = words.split('"').find(|part| part.starts_with('.'));
        sections.extend(name.map(str::to_string).zip(bytes.filter(|bytes| !bytes.is_empty())));
    }
    sections
}

/// The settings that give the variables of sections their bytes.
fn of_bytes(sections: &[Section], object: &Object) -> Result<Vec<(String, String)>, String> {
    let mut settings = Vec::new();
    for (section, bytes) in sections {
        let variables: Vec<&Variable> = object.variables().filter(|one| one.section == *section).collect();
        let range = |one: &Variable| Some(one.offset as usize..one.offset.checked_add(one.size)? as usize);
        let end = variables.iter().filter_map(|one| Some(range(one)?.end)).max().unwrap_or(0);
        if variables.is_empty() || end > bytes.len() {
            let problem =
                format!("section {section} has {} bytes there and {end} in {}", bytes.len(), object.file());
            return Err(problem + "; the file is of another version");
        }
        for variable in variables {
            let folded = is_constant(variable) && !is_volatile(object, variable);
            let set = variable.ty.is_some() && !folded && !is_filled(&variable.name);
            if let Some(own) = range(variable).filter(|_| set).and_then(|range| bytes.get(range)) {
                let digits: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
                settings.push((variable.name.clone(), format!("{BYTES}{digits}")));
            }
        }
    }
    Ok(settings)
}

/// True for what is filled in by convention in both arms, whatever a file of another machine says.
fn is_filled(name: &str) -> bool {
    name.starts_with("__SCX_") || CPU_COUNTS.contains(&name) || name == "uei_dump_len"
}

/// The variables of a dump: `[{"value": {".rodata": [{"NAME": VALUE}, ..]}}, ..]`, one entry for each section.
fn variables(dump: &Value) -> Result<Vec<(&str, &Value)>, &'static str> {
    let form = "no dump of a data section (bpftool map dump -j name ...rodata, .data, .bss)";
    let mut variables = Vec::new();
    let entries = dump.as_array().ok_or(form)?;
    for entry in entries {
        // Newer versions add the same with types as `formatted`.
        let sections = entry.get("formatted").unwrap_or(entry).get("value").and_then(Value::as_object);
        for section in sections.ok_or(form)?.values() {
            for variable in section.as_array().ok_or(form)? {
                let named = variable.as_object().ok_or(form)?;
                variables.extend(in_order(named));
            }
        }
    }
    Ok(variables)
}

/// Members by name, in which order the file ever has them.
fn in_order(members: &Map<String, Value>) -> BTreeMap<&str, &Value> {
    members.iter().map(|(name, member)| (name.as_str(), member)).collect()
}

/// A value as settings: members by name, arrays as lists where they have no structures in them.
fn flatten(path: String, value: &Value, settings: &mut Vec<(String, String)>) -> Result<(), String> {
    match value {
        Value::Object(members) => in_order(members)
            .into_iter()
            .try_for_each(|(name, member)| flatten(format!("{path}.{name}"), member, settings)),
        Value::Array(elements) => match list(value) {
            Some(text) => {
                settings.push((path, text));
                Ok(())
            }
            None => elements
                .iter()
                .enumerate()
                .try_for_each(|(at, element)| flatten(format!("{path}[{at}]"), element, settings)),
        },
        _ => {
            let text = scalar(value).ok_or_else(|| format!("`{path}` has no value"))?;
            settings.push((path, text));
            Ok(())
        }
    }
}

/// An array of numbers, or of such arrays, as `--set` takes it.
fn list(value: &Value) -> Option<String> {
    match value {
        Value::Array(elements) => {
            let parts: Option<Vec<String>> = elements.iter().map(list).collect();
            parts.map(|parts| format!("[{}]", parts.join(",")))
        }
        Value::Number(_) | Value::Bool(_) => scalar(value),
        _ => None,
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_become_settings() {
        let text = r#"[{"value": {".rodata": [{"n": 18446744073709551615}, {"on": true}, {"grid": [[1, 2], [3, 4]]},
            {"layers": [{"low": -1, "name": "a"}, {"low": 2, "name": ""}]}]}}, {"value": {".bss": [{"x": 0}]}}]"#;
        let dump: Value = serde_json::from_str(text).unwrap();
        let mut settings = Vec::new();
        for (name, value) in variables(&dump).unwrap() {
            flatten(name.to_string(), value, &mut settings).unwrap();
        }
        let texts: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = [
            "n=18446744073709551615",
            "on=true",
            "grid=[[1,2],[3,4]]",
            "layers[0].low=-1",
            "layers[0].name=a",
            "layers[1].low=2",
            "layers[1].name=",
            "x=0",
        ];
        assert_eq!(texts, expected);
        for bad in ["{}", "[1]", r#"[{"value": 1}]"#, r#"[{"key": 1, "value": ["0x01"]}]"#] {
            assert!(variables(&serde_json::from_str(bad).unwrap()).is_err(), "{bad}");
        }
        assert!(flatten("x".into(), &Value::Null, &mut Vec::new()).is_err());
    }

    /// As bpftool 7.8 writes them: the bytes beside words that need not be JSON.
    #[test]
    fn newer_dumps_are_read_by_their_bytes() {
        let text = r#"[{"key":["0x00","0x00","0x00","0x00"],"value":["0x61","0x00","0xff"],"formatted":{"value":{".data":[
            {"text":"a"},{"ratio":<not a number>}]}}},{"key":["0x00"],"value":["0x01"],"formatted":{"value":{".bss.x":[]}}}]"#;
        let expected = [(".data".to_string(), vec![0x61, 0, 0xff]), (".bss.x".to_string(), vec![1])];
        assert_eq!(raw_sections(text), expected);
        for older in [
            r#"[{"value": {".data": [{"key": 1}]}}]"#,
            "[]",
            r#"[{"key":["0x0g"],"value":["0x0g"],"formatted":{".x":1}}]"#,
        ] {
            assert_eq!(raw_sections(older), [], "{older}");
        }
    }
}
