//! JSON as rt-app files use it: objects keep order and duplicate keys (events run
//! in the order in which they are written), comments and trailing commas are allowed.

use std::collections::BTreeSet;

/// A value with the line on which it starts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A JSON value. Numbers keep their text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// The deepest nesting that is read. Chosen: rt-app files nest five deep.
const MAX_DEPTH: usize = 32;

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
}

/// Reads a document whose first line has the number `line`. # Errors: line and what is wrong there.
pub(super) fn parse(text: &str, line: usize) -> Result<Node, (usize, String)> {
    let mut parser = Parser { text: text.as_bytes(), at: 0, line };
    let node = parser.value(0)?;
    match parser.peek()? {
        None => Ok(node),
        Some(byte) => parser.fail(&format!("'{}' after the end of the document", char::from(byte))),
    }
}

impl Parser<'_> {
    fn fail<T>(&self, text: &str) -> Result<T, (usize, String)> {
        Err((self.line, text.to_string()))
    }

    /// The next byte that is neither space nor comment.
    fn peek(&mut self) -> Result<Option<u8>, (usize, String)> {
        loop {
            let rest = &self.text[self.at..];
            match rest {
                [b'\n', ..] => {
                    self.line += 1;
                    self.at += 1;
                }
                [b' ' | b'\t' | b'\r', ..] => self.at += 1,
                [b'/', b'/', ..] | [b'#', ..] => {
                    self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                [b'/', b'*', ..] => {
                    let Some(end) = rest.windows(2).skip(2).position(|pair| pair == b"*/") else {
                        return self.fail("a comment without an end");
                    };
                    self.line += rest[..end + 4].iter().filter(|&&byte| byte == b'\n').count();
                    self.at += end + 4;
                }
                _ => return Ok(rest.first().copied()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, (usize, String)> {
        if depth > MAX_DEPTH {
            return self.fail(&format!("values nest more than {MAX_DEPTH} deep"));
        }
        let next = self.peek()?;
        let line = self.line;
        let value = match next {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.word()),
            Some(_) => match self.word().as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "null" => Value::Null,
                other => return self.fail(&format!("'{other}' is no JSON value")),
            },
            None => return self.fail("the file ends where a value is expected"),
        };
        Ok(Node { line, value })
    }

    /// Letters, digits and what numbers are made of.
    fn word(&mut self) -> String {
        let rest = &self.text[self.at..];
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
        let mut end = rest.iter().position(|byte| !part(byte)).unwrap_or(rest.len());
        if end == 0 {
            end = 1;
        }
        self.at += end;
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }

    fn object(&mut self, depth: usize) -> Result<Value, (usize, String)> {
        self.at += 1;
        let mut entries = Vec::new();
        loop {
            match self.peek()? {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(entries));
                }
                Some(b'"') => {}
                _ => return self.fail("a key in double quotes or '}' is expected"),
            }
            let (key, line) = (self.string()?, self.line);
            match self.peek()? {
                Some(b':') => {
                    self.at += 1;
                    entries.push((key, self.value(depth + 1)?));
                }
                // rt-app's manual: values can be left out (`"suspend",`).
                Some(b',' | b'}') => entries.push((key, Node { line, value: Value::Null })),
                _ => return self.fail(&format!("':' is expected after \"{key}\"")),
            }
            self.separator(b'}')?;
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, (usize, String)> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            if self.peek()? == Some(b']') {
                self.at += 1;
                return Ok(Value::List(items));
            }
            items.push(self.value(depth + 1)?);
            self.separator(b']')?;
        }
    }

    /// A comma, or the end of the object or list, which stays.
    fn separator(&mut self, close: u8) -> Result<(), (usize, String)> {
        match self.peek()? {
            Some(b',') => {
                self.at += 1;
                Ok(())
            }
            Some(byte) if byte == close => Ok(()),
            _ => self.fail(&format!("',' or '{}' is expected", char::from(close))),
        }
    }

    fn string(&mut self) -> Result<String, (usize, String)> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.text.get(self.at) {
                None | Some(b'\n') => return self.fail("a string without an end"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
                Some(b'\\') => {
                    match self.text.get(self.at + 1) {
                        Some(b'n') => bytes.push(b'\n'),
                        Some(b't') => bytes.push(b'\t'),
                        Some(&byte @ (b'"' | b'\\' | b'/')) => bytes.push(byte),
                        _ => return self.fail("only \\n, \\t, \\\", \\\\ and \\/ are understood in strings"),
                    }
                    self.at += 2;
                }
                Some(&byte) => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }
}

/// Adds a document's sections to those of `merged`. # Errors: something else than objects of objects.
pub(super) fn merge(merged: &mut Node, document: Node) -> Result<(), String> {
    let line = document.line;
    let (Value::Object(all), Value::Object(sections)) = (&mut merged.value, document.value) else {
        return Err("an object with sections is expected".to_string());
    };
    merged.line = line;
    for (name, section) in sections {
        let Some((_, known)) = all.iter_mut().find(|(other, _)| *other == name) else {
            all.push((name, section));
            continue;
        };
        let (Value::Object(known), Value::Object(section)) = (&mut known.value, section.value) else {
            return Err(format!("\"{name}\" is an object in one file only"));
        };
        for (key, value) in section {
            match known.iter_mut().find(|(other, _)| *other == key) {
                Some(entry) => entry.1 = value,
                None => known.push((key, value)),
            }
        }
    }
    Ok(())
}

/// Makes the keys of every object unique as rt-app's manual says of `workgen`: a key that
/// was there before gets an index, which counts on within the object.
pub(super) fn unique_keys(node: &mut Node) {
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(unique_keys),
        Value::Object(entries) => {
            let (mut seen, mut index) = (BTreeSet::new(), 1_usize);
            for (key, value) in entries {
                if seen.contains(key) {
                    while seen.contains(&format!("{key}{index}")) {
                        index += 1;
                    }
                    *key = format!("{key}{index}");
                }
                seen.insert(key.clone());
                unique_keys(value);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_duplicates_and_comments_are_kept() {
        let text = "/* a\n b */ { \"run\": 1, // x\n \"run\": [2, -3.5,], \"a\": { }, }";
        let Value::Object(entries) = parse(text, 1).unwrap().value else { panic!("an object") };
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["run", "run", "a"]);
        assert_eq!(entries[1].1.line, 3);
        let Value::List(items) = &entries[1].1.value else { panic!("a list") };
        assert_eq!(items[1].value, Value::Number("-3.5".into()));
    }

    #[test]
    fn keys_become_unique_as_workgen_makes_them() {
        let mut node =
            parse("{\"run\": 1, \"sleep\", \"run\": 2, \"run\": {\"a\": 1, \"a\": 2}, \"sleep\": 3}", 1)
                .unwrap();
        unique_keys(&mut node);
        let Value::Object(entries) = &node.value else { panic!("an object") };
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["run", "sleep", "run1", "run2", "sleep2"]);
        assert_eq!(entries[1].1.value, Value::Null);
        let Value::Object(inner) = &entries[3].1.value else { panic!("an object") };
        assert_eq!(inner[1].0, "a1");
    }

    #[test]
    fn broken_documents_name_the_line() {
        for (text, line) in [("{\n\"a\" 1}", 2), ("", 1), ("{\"a\":\n\n?}", 3), ("[1 2]", 1), ("{} {}", 1)] {
            assert_eq!(parse(text, 1).unwrap_err().0, line, "{text}");
        }
        for text in ["/*", "\"abc", "{\"a\":", "\"\\u0041\"", &"[".repeat(100_000)] {
            assert!(parse(text, 1).is_err());
        }
    }
}
