//! `exec:COMMAND ARGS`: which program, with which arguments.

use std::path::{Path, PathBuf};

/// What an entry of `-s` begins with that is a command.
pub const PREFIX: &str = "exec:";

/// A command line, split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program's file.
    pub program: PathBuf,
    /// As the user wrote it: the program first.
    pub words: Vec<String>,
}

/// What is wrong with the name of a program that names a folder.
pub fn not_a_program(name: &str) -> Option<&'static str> {
    (name.contains('/') && Path::new(name).is_dir()).then_some("it is a folder; name a program")
}

impl Command {
    /// Splits a command line at spaces, but for those in quotes or behind a backslash, and finds the program as a shell does;
    /// `search` is the folders of `PATH`.
    ///
    /// # Errors
    /// A sentence: no command, an open quote, no such program.
    pub fn parse(text: &str, search: &[PathBuf]) -> Result<Command, String> {
        let words = split(text)?;
        let Some(name) = words.first() else {
            return Err("there is no command; write exec:PROGRAM ARGUMENTS".into());
        };
        let program = match name.contains('/') {
            true => Some(PathBuf::from(name)).filter(|path| path.is_file()),
            false => search.iter().map(|folder| folder.join(name)).find(|path| path.is_file()),
        };
        if let Some(wrong) = not_a_program(name) {
            return Err(format!("{name}: {wrong}"));
        }
        let place = if name.contains('/') { "" } else { " in PATH" };
        let program = program.ok_or_else(|| format!("there is no program '{name}'{place}; give its path"))?;
        let program = program.canonicalize().map_err(|error| format!("{name}: {error}"))?;
        Ok(Command { program, words })
    }

    /// Files that the arguments name: whole, or behind `=` or `:` (`f:layers.json`).
    pub fn named_files(&self) -> Vec<PathBuf> {
        self.named().filter_map(|name| Path::new(name).canonicalize().ok()).collect()
    }

    /// Such files as the arguments name them.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        let arguments = self.words.iter().skip(1);
        let parts = arguments.flat_map(|word| {
            let ends =
                word.char_indices().filter(|(_, c)| matches!(c, '=' | ':')).map(|(at, c)| at + c.len_utf8());
            std::iter::once(0).chain(ends).map(|from| &word[from..]).collect::<Vec<_>>()
        });
        parts.filter(|part| Path::new(part).is_file())
    }

    /// The command as text that [`Command::parse`] reads, its program by the file.
    pub fn text(&self) -> String {
        let program = self.program.display().to_string();
        let words = std::iter::once(&program).chain(self.words.iter().skip(1));
        let quoted = |word: &String| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }
}

fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => match letters.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("the command ends with a backslash".into()),
            },
            (_, Some(_)) => word.get_or_insert_default().push(letter),
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (' ' | '\t' | '\n', None) => words.extend(word.take()),
            (_, None) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(open) = quote {
        return Err(format!("the command has an open quote {open}"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_like_a_shells() {
        let words = |text: &str| split(text).unwrap();
        assert_eq!(words("a  b 'c d' \"e \\\" f\" g\\ h ''"), ["a", "b", "c d", "e \" f", "g h", ""]);
        assert!(split("a 'b").unwrap_err().contains("open quote '"));
        assert!(split("a\\").is_err());
    }

    #[test]
    fn texts_are_read_back() {
        for words in [&["sh", "a b", "it's", "\\", "\"x\"", "", "a,b"][..], &["sh"]] {
            let program = PathBuf::from("/bin/sh").canonicalize().unwrap();
            let mut given = Command { program, words: words.iter().map(ToString::to_string).collect() };
            let again = Command::parse(&given.text(), &[]).unwrap();
            given.words[0] = given.program.display().to_string();
            assert_eq!(again, given);
        }
    }

    #[test]
    fn programs_are_found_or_named() {
        let folders = [PathBuf::from("/nowhere"), PathBuf::from("/bin")];
        let found = Command::parse("sh -c /etc/passwd x=/etc/passwd", &folders).unwrap();
        assert!(found.program.is_file());
        assert_eq!(found.named_files().len(), 2);
        for (bad, what) in
            [("", "no command"), ("no-such-program", "in PATH"), ("./no/such", "give its path")]
        {
            assert!(Command::parse(bad, &folders).unwrap_err().contains(what), "{bad}");
        }
    }
}
