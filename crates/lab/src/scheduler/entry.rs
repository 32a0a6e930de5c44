//! Entries of `-s`: a scheduler with a name in the results and tunables of its own, as results print it.
//!
//! The form is `LABEL=NAME[VARIABLE=VALUE,...]`; label and brackets may be missing. A list is split at the commas outside
//! of brackets.

use crate::failure::Failure;
use crate::scheduler::own_loader::PREFIX;
use schedlab_base::TimedSetting;
use std::path::Path;

/// The shipped names and paths in entries.
///
/// # Errors
/// An entry that cannot be read.
pub fn names(entries: &[String]) -> Result<Vec<String>, Failure> {
    let path = |entry: Entry| with_choice(&entry.name).0.to_string();
    entries.iter().map(|entry| Entry::parse(entry).map(path)).collect()
}

/// The path of an object, and the scheduler in it that is meant: `FILE#NAME`. A file may have a `#` in its name.
pub(crate) fn with_choice(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('#') {
        Some((path, choice)) if is_path(path) && !Path::new(name).exists() => (path, Some(choice)),
        _ => (name, None),
    }
}

/// True for what is the path of an object and no shipped name.
pub(crate) fn is_path(name: &str) -> bool {
    name.ends_with(".o") || name.contains('/')
}

/// A scheduler as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What results are to call it, where that is said.
    pub label: Option<String>,
    /// The shipped name or path.
    pub name: String,
    /// Tunables of this entry alone.
    pub settings: Vec<(String, String)>,
    /// Tunables that change during the run.
    pub changes: Vec<TimedSetting>,
}

/// The entries of lists: their texts. Commas in a command's quotes do not end it.
///
/// # Errors
/// A bracket without its other one.
pub fn split(lists: &[String]) -> Result<Vec<String>, Failure> {
    let mut entries = Vec::new();
    for list in lists {
        let mut depth = 0_usize;
        let mut begin = 0;
        let (mut quote, mut escaped) = (None, false);
        for (at, c) in list.char_indices() {
            let in_command = list[begin..at].contains(PREFIX);
            let escapes = in_command && !escaped && c == '\\' && quote != Some('\'');
            if in_command && !escaped && (quote == Some(c) || quote.is_none() && matches!(c, '"' | '\'')) {
                quote = if quote.is_none() { Some(c) } else { None };
            }
            let was_escaped = std::mem::replace(&mut escaped, escapes);
            match c {
                _ if quote.is_some() || was_escaped => {}
                '[' => depth += 1,
                ']' if depth == 0 => return Err(refused(&list[begin..=at], "no '[' before its ']'")),
                ']' => depth -= 1,
                ',' if depth == 0 => {
                    entries.push(list[begin..at].to_string());
                    begin = at + 1;
                }
                _ => {}
            }
        }
        if depth > 0 {
            return Err(refused(&list[begin..], "a '[' without its ']'"));
        }
        entries.push(list[begin..].to_string());
    }
    Ok(entries)
}

fn refused(entry: &str, what: &str) -> Failure {
    Failure::usage(format!("-s {entry}: {what}; write NAME, NAME[VARIABLE=VALUE,..] or LABEL=NAME"))
}

impl Entry {
    /// Reads one entry.
    ///
    /// # Errors
    /// A label that is none, brackets without settings in them, or text after them.
    pub fn parse(text: &str) -> Result<Entry, Failure> {
        if let Some(entry) = Entry::of_command(text) {
            return Ok(entry);
        }
        let (label, rest) = match text.split_once('=') {
            Some((label, rest)) if !label.contains(['/', '[']) => (Some(label), rest),
            _ => (None, text),
        };
        if label.is_some_and(|label| label.is_empty() || label.contains(['#', ']', ':'])) {
            return Err(refused(text, "a label has one character or more, and none of # [ ] : /"));
        }
        let mut entry = Entry {
            label: label.map(str::to_string),
            name: rest.to_string(),
            settings: Vec::new(),
            changes: Vec::new(),
        };
        match rest.split_once('[').filter(|_| rest.ends_with(']')) {
            Some((name, inside)) => {
                entry.name = name.to_string();
                entry.read_settings(text, &inside[..inside.len() - 1])?;
            }
            // The name of a file may have brackets.
            None if rest.contains('[') && !rest.contains('/') => {
                let problem = if rest.contains(']') { "text after its ']'" } else { "its '[' has no ']'" };
                return Err(refused(text, problem));
            }
            None => {}
        }
        entry.take_number();
        Ok(entry)
    }

    /// An entry that is a command (`exec:COMMAND`), perhaps with a label: all behind it is the command's own.
    fn of_command(text: &str) -> Option<Entry> {
        let (before, _) = text.split_once(PREFIX)?;
        let label = match before.strip_suffix('=') {
            Some(label) if !label.is_empty() && !label.contains(['#', ']', '[', ':', '/', '=']) => {
                Some(label.to_string())
            }
            _ if before.is_empty() => None,
            _ => return None,
        };
        let name = text[before.len()..].to_string();
        Some(Entry { label, name, settings: Vec::new(), changes: Vec::new() })
    }

    /// Takes the number off a name that results have numbered, which then is its label: `o1#2`.
    fn take_number(&mut self) {
        let numbered =
            |(_, number): &(&str, &str)| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
        if self.label.is_none()
            && !Path::new(&self.name).exists()
            && let Some((name, _)) = self.name.rsplit_once('#').filter(numbered)
        {
            let name = name.to_string();
            self.label = Some(std::mem::replace(&mut self.name, name));
        }
    }

    fn read_settings(&mut self, entry: &str, inside: &str) -> Result<(), Failure> {
        for part in values(inside) {
            let bad = || refused(entry, &format!("'{part}' in its brackets is not VARIABLE=VALUE"));
            let (variable, value) = part.split_once('=').ok_or_else(bad)?;
            if variable.is_empty() || value.is_empty() {
                return Err(bad());
            }
            if variable.contains(':') {
                self.changes.push(part.parse().map_err(|error| refused(entry, &format!("{part}: {error}")))?);
            } else {
                self.settings.push((variable.to_string(), value.to_string()));
            }
        }
        Ok(())
    }
}

/// The settings in brackets. A value may have commas: what has no `=` belongs to the value before it.
fn values(inside: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in inside.split(',') {
        match parts.last_mut() {
            Some(last) if !part.contains('=') => *last = format!("{last},{part}"),
            _ => parts.push(part.to_string()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(list: &str) -> Vec<String> {
        split(&[list.to_string()]).unwrap()
    }

    #[test]
    fn lists_are_split_outside_of_brackets() {
        assert_eq!(entries("o1,o1[a=1,b=2],x"), ["o1", "o1[a=1,b=2]", "x"]);
        let commands = ["exec:x \"a,\\\",b\"", "y=exec:x 'a,\\'", "exec:x a\\,b", "o1"];
        assert_eq!(entries(&commands.join(",")), commands);
        let two = ["o1".to_string(), "ule,bsd4".to_string()];
        assert_eq!(split(&two).unwrap(), ["o1", "ule", "bsd4"]);
        for (list, entry) in
            [("o1,ule[a=1", "-s ule[a=1:"), ("o1,ule]", "-s ule]:"), ("a[b=[1]", "-s a[b=[1]:")]
        {
            let text = split(&[list.to_string()]).unwrap_err().text;
            assert!(text.contains(entry) && text.contains("NAME[VARIABLE=VALUE,..]"), "{text}");
        }
    }

    #[test]
    fn entries_have_labels_and_settings() {
        let entry = Entry::parse("new=./x.bpf.o[names=a,b,n=2,2s:c=1]").unwrap();
        assert_eq!((entry.label.as_deref(), entry.name.as_str()), (Some("new"), "./x.bpf.o"));
        let owned = |(a, b): (&str, &str)| (a.to_string(), b.to_string());
        assert_eq!(entry.settings, [("names", "a,b"), ("n", "2")].map(owned));
        assert_eq!(entry.changes[0].to_string(), "2s:c=1");
        let plain = |text: &str| {
            let entry = Entry::parse(text).unwrap();
            (entry.label, entry.name, entry.settings.len())
        };
        assert_eq!(plain("o1#2[a=1]"), (Some("o1#2".to_string()), "o1".to_string(), 1));
        assert_eq!(with_choice("./x.bpf.o#a_ops"), ("./x.bpf.o", Some("a_ops")));
        assert_eq!(with_choice("o1#2"), ("o1#2", None));
        let nested = Entry::parse("./x.bpf.o#a_ops[grid=[[1],[2,3]],n=2]").unwrap();
        assert_eq!(nested.name, "./x.bpf.o#a_ops");
        assert_eq!(nested.settings, [("grid", "[[1],[2,3]]"), ("n", "2")].map(owned));
        for path in ["./a=b.bpf.o", "./a[1].bpf.o", "o1"] {
            assert_eq!(plain(path), (None, path.to_string(), 0));
        }
        for bad in ["o1[]", "o1[a]", "o1[=1]", "o1[a=]", "o1[a=1]x", "=o1", "a#2=o1", "o1[soon:a=1]", "a]=o1"]
        {
            let text = Entry::parse(bad).unwrap_err().text;
            assert!(text.starts_with(&format!("-s {bad}: ")), "{text}");
        }
    }
}
