//! The book in `docs`: what its pages show is what the command prints.
//!
//! A block marked `console` holds command lines after `$ ` and what they print. Those that begin with `schedlab` (`clang`
//! for objects) are run, a page's all in one folder, in which blocks named like files (```` ```toml convoy.toml ````) lie.
//! `# exit code N` behind a command says that it ends with that code. A line `...` stands for any lines, `...` in a line
//! for any words, `...` behind a word's beginning for its end. Words must be the same, figures the same within a
//! quarter: a change of a cost or of an object moves them a little and leaves the page true.
//!
//! The site that `scripts/book` makes of the pages is built where mdBook is installed.

use schedlab_tests::{Schedlab, clang, files, root};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// No command of the book takes longer.
const LIMIT: Duration = Duration::from_secs(300);

/// How far a figure may lie from the shown one, as a part of the larger one.
const LEEWAY: f64 = 0.25;

/// A fenced block: its words after the fence, and its lines.
struct Block<'a> {
    words: Vec<&'a str>,
    lines: Vec<&'a str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(info), None) => {
                open = Some(Block { words: info.split_whitespace().collect(), lines: vec![] })
            }
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block without end");
    found
}

/// A command line and the lines shown under it.
fn commands<'a>(block: &Block<'a>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in &block.lines {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command, vec![])),
            (None, Some((_, shown))) => shown.push(line),
            (None, None) => panic!("a line before the first command: {line}"),
        }
    }
    found
}

/// Words, with the signs around a figure cut off from it.
fn tokens(line: &str) -> Vec<&str> {
    line.split_whitespace()
        .flat_map(|word| {
            let figure = word.trim_end_matches(['%', ',', ';', ':', ')']);
            let cut = if figure.parse::<f64>().is_ok() { figure.len() } else { word.len() };
            let (figure, rest) = word.split_at(cut);
            [figure, rest].into_iter().filter(|part| !part.is_empty())
        })
        .collect()
}

fn same_token(shown: &str, actual: &str) -> bool {
    if shown == actual || shown.strip_suffix("...").is_some_and(|start| actual.starts_with(start)) {
        return true;
    }
    let rule = |text: &str| text.len() > 1 && text.chars().all(|c| c == '-');
    match (shown.parse::<f64>(), actual.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= LEEWAY * a.abs().max(b.abs()),
        _ => rule(shown) && rule(actual),
    }
}

/// True when a line of the output is the one that the page shows.
fn same_line(shown: &str, actual: &str) -> bool {
    let (shown, actual) = (tokens(shown), tokens(actual));
    let Some(gap) = shown.iter().position(|token| *token == "...") else {
        return shown.len() == actual.len() && shown.iter().zip(&actual).all(|(a, b)| same_token(a, b));
    };
    let (start, end) = (&shown[..gap], &shown[gap + 1..]);
    actual.len() >= start.len() + end.len()
        && start.iter().zip(&actual).all(|(a, b)| same_token(a, b))
        && end.iter().rev().zip(actual.iter().rev()).all(|(a, b)| same_token(a, b))
}

/// The first shown line that the output lacks; the lines have to come in the shown order.
fn missing<'a>(shown: &[&'a str], output: &str) -> Option<&'a str> {
    let mut actual = output.lines().filter(|line| !line.trim().is_empty());
    let lines = shown.iter().filter(|line| !line.trim().is_empty() && line.trim() != "...");
    lines.copied().find(|line| !actual.any(|actual| same_line(line, actual)))
}

/// Words of a command line; quotes hold together what they enclose.
fn words(line: &str) -> Vec<String> {
    line.split('\'')
        .enumerate()
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(str::to_string).collect(),
            _ => vec![part.to_string()],
        })
        .collect()
}

/// Runs one command of a page and compares; what is wrong, if something is.
fn check(schedlab: &Schedlab, command: &str, shown: &[&str]) -> Option<String> {
    let (line, code) = match command.split_once("# exit code ") {
        Some((line, code)) => (line, code.trim().parse().expect("a number")),
        None => (command, 0),
    };
    let words = words(line);
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    match words[0].as_str() {
        "schedlab" => {
            let done = schedlab.run(&arguments, LIMIT);
            let output = format!("{}{}", done.out, done.err);
            if done.code != code {
                return Some(format!("$ {command}\nended with code {}:\n{output}", done.code));
            }
            let line = missing(shown, &output)?;
            Some(format!("$ {command}\nshows the line\n{line}\nThe command prints\n{output}"))
        }
        "clang" => {
            let compiler = clang().expect("clang is installed (package clang-19)");
            let done =
                Command::new(compiler).args(&arguments).current_dir(&schedlab.folder).output().unwrap();
            let text = String::from_utf8_lossy(&done.stderr);
            (!done.status.success()).then(|| format!("$ {command}\n{text}"))
        }
        other => Some(format!("$ {command}\n{other}: only schedlab and clang are run in console blocks")),
    }
}

fn check_page(page: &Path) -> Vec<String> {
    let name = page.file_stem().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(page).unwrap();
    let blocks = blocks(&text);
    if !blocks.iter().any(|block| block.words.first() == Some(&"console")) {
        return Vec::new();
    }
    let schedlab = Schedlab::new(&format!("book-{name}"));
    std::os::unix::fs::symlink(root().join("schedulers"), schedlab.path("schedulers")).unwrap();
    std::os::unix::fs::symlink(root().join("workloads"), schedlab.path("workloads")).unwrap();
    let mut findings = Vec::new();
    for block in &blocks {
        match block.words.as_slice() {
            ["console"] => {
                let found = commands(block);
                findings.extend(found.iter().filter_map(|(line, shown)| check(&schedlab, line, shown)));
            }
            [_, file] => fs::write(schedlab.path(file), block.lines.join("\n") + "\n").unwrap(),
            _ => {}
        }
    }
    findings.into_iter().map(|finding| format!("{}: {finding}", page.display())).collect()
}

#[test]
fn commands_print_what_the_book_shows() {
    let pages = files(&root().join("docs"), &["md"]);
    let findings: Vec<String> = pages.iter().flat_map(|page| check_page(page)).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = fs::read_to_string(root().join("docs/README.md")).unwrap();
    for page in files(&root().join("docs"), &["md"]) {
        let name = page.strip_prefix(root().join("docs")).unwrap().display().to_string();
        assert!(
            name == "README.md" || contents.contains(&format!("]({name})")),
            "docs/README.md lacks {name}"
        );
    }
}

#[test]
fn every_picture_of_the_book_is_there() {
    for page in files(&root().join("docs"), &["md"]) {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let picture = page.parent().unwrap().join(link);
            assert!(!link.ends_with(".svg") || picture.is_file(), "{} lacks {link}", page.display());
        }
    }
}

/// Builds the book of the tree to which `script` belongs into `folder`; nothing where there is no mdBook, which is reported.
#[allow(clippy::print_stdout, reason = "a test that is skipped says so")]
fn built(script: &Path, folder: &Path) -> Option<Result<(), String>> {
    let done = match Command::new(script).arg(folder).output() {
        Ok(done) => done,
        Err(error) => {
            println!("skipped: {}: {error}", script.display());
            return None;
        }
    };
    let words = String::from_utf8_lossy(&done.stderr).into_owned();
    match done.status.code() {
        // Neither Python nor mdBook.
        Some(5 | 127) => {
            println!("skipped: {words}");
            None
        }
        Some(0) => Some(Ok(())),
        _ => Some(Err(words)),
    }
}

/// What the page's scripts, style sheets, pictures and frames are loaded from.
fn loaded(page: &str) -> Vec<&str> {
    let tags = page
        .split('<')
        .filter(|tag| ["script", "link", "img", "iframe", "source"].iter().any(|name| tag.starts_with(name)));
    tags.filter_map(|tag| {
        let tag = tag.split('>').next()?;
        let value = tag.split_once(" src=\"").or_else(|| tag.split_once(" href=\""))?.1;
        value.split('"').next()
    })
    .collect()
}

#[test]
fn the_site_has_every_page_and_a_search_and_loads_nothing_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    let Some(done) = built(&root().join("scripts/book"), &site) else { return };
    done.unwrap();
    let chapters = fs::read_to_string(site.join("toc.html")).unwrap();
    for page in files(&root().join("docs"), &["md"]) {
        let name = page.with_extension("html").strip_prefix(root()).unwrap().display().to_string();
        assert!(site.join(&name).is_file(), "no {name}");
        assert!(chapters.contains(&format!("href=\"{name}\"")), "the contents lack {name}");
    }
    let pages = files(&site, &["html"]);
    assert!(pages.len() > 50, "{} pages", pages.len());
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let foreign = loaded(&text).into_iter().find(|place| place.contains("//"));
        assert_eq!(foreign, None, "{}", page.display());
    }
    let index =
        files(&site, &["js"]).into_iter().find(|path| path.display().to_string().contains("searchindex"));
    let index = fs::read_to_string(index.expect("a search index")).unwrap();
    assert!(index.contains("docs/waits.html#priority-inversion"), "the search lacks a heading");
}

#[test]
fn a_mistake_in_the_book_ends_its_build_with_the_place() {
    let tree = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for name in ["scripts/book", "docs/book/book.toml", "docs/book/book.css", "docs/book/head.hbs"] {
        write(name, "");
        fs::copy(root().join(name), tree.path().join(name)).unwrap();
    }
    write("README.md", "# A\n\n[contents](docs/README.md)\n");
    write("docs/README.md", "# B\n\n**Read.**\n\n1. [one](one.md), then\n   [two](../two.md#end)\n");
    write("two.md", "# Two\n\n## End\n\n[source](docs/some.h)\n");
    write("docs/some.h", "int some;\n");
    let site = tree.path().join("target/book");
    let with = |page: &str| {
        write("docs/one.md", &format!("# One\n\n{page}\n"));
        built(&tree.path().join("scripts/book"), &site)
    };
    let Some(right) = with("[two](../two.md#end), `[not](a-link.md)`") else { return };
    right.unwrap();
    assert!(site.join("docs/some.h").is_file(), "a linked source is there too");
    let wrong = |page: &str| with(page).unwrap().unwrap_err();
    for (page, place) in [
        ("[gone](gone.md)", "docs/one.md:3: no file gone.md"),
        ("![gone](gone.svg)", "docs/one.md:3: no file gone.svg"),
        ("[outside](../../../etc/passwd)", "docs/one.md:3: no file ../../../etc/passwd"),
        ("[part](../two.md#middle)", "docs/one.html: no section ../two.html#middle"),
        ("![far](https://example.org/a.svg)", "docs/one.html: loads https://example.org/a.svg"),
        ("<b>open", "unclosed HTML tag"),
    ] {
        let words = wrong(page);
        assert!(words.contains(place), "{page}: {words}");
    }
    write("docs/three.md", "# Three\n");
    let words = wrong("");
    assert!(words.contains("docs/three.md: docs/README.md does not list it"), "{words}");
}

#[test]
fn the_comparison_finds_what_is_wrong() {
    let output =
        "CPUs  scheduler   mean  change\n----  ---------  -----  ------\n   2  o1         100.5  +8.9%\n";
    assert_eq!(missing(&["CPUs  scheduler  mean  change", "...", "   2  o1  101  +9.1%"], output), None);
    assert_eq!(missing(&["   2 ... +8.9%"], output), None);
    assert_eq!(missing(&["CPUs  sched...  mean  change", "   2 ..."], output), None);
    for wrong in
        ["   2  o1  140  +8.9%", "   2  ule  100.5  +8.9%", "   2  o1  100.5  -8.9%", "   2  o1  100.5"]
    {
        assert_eq!(missing(&[wrong], output), Some(wrong));
    }
    let order = ["   2  o1  100.5  +8.9%", "CPUs  scheduler  mean  change"];
    assert_eq!(missing(&order, output), Some(order[1]));
    assert_eq!(words("run -- sh -c 'exit 3'"), ["run", "--", "sh", "-c", "exit 3"]);
}
