//! What `check` says of an object, as text and as JSON. The form is in `docs/results.md`.

use crate::names::visible_json;
use crate::result_file::Header;
use crate::table::table;
use schemars::JsonSchema;
use serde::Serialize;

/// What an object declares and expects.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Object")]
pub struct CheckedObject {
    /// The file, or the shipped scheduler's name.
    pub file: String,
    /// SHA-256 of its bytes.
    pub sha256: Option<String>,
    /// The text of its section `license`.
    pub license: String,
    /// The tables of callbacks.
    pub struct_ops: Vec<CheckedTable>,
    /// Programs that are no callbacks.
    pub programs: Vec<CheckedProgram>,
    /// What it expects of the kernel.
    pub externs: Vec<CheckedExtern>,
    /// Its maps.
    pub maps: Vec<CheckedMap>,
    /// What `--set` is meant for.
    pub tunables: Vec<CheckedTunable>,
    /// [What its own loader would have done](foreign-objects.md), as far as the object shows it.
    pub left_to_loader: CheckedLoader,
    /// Programs that the simulator leaves out.
    pub left_out: Vec<String>,
}

/// A table of callbacks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Callbacks")]
pub struct CheckedTable {
    /// The variable.
    pub name: String,
    /// Its struct.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Member and program, in the order of the struct.
    pub callbacks: Vec<CheckedCallback>,
}

/// A member of a table that has a program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Callback")]
pub struct CheckedCallback {
    /// The member.
    pub callback: String,
    /// The program.
    pub program: String,
}

/// A program that is no callback.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Program")]
pub struct CheckedProgram {
    /// Its name.
    pub name: String,
    /// The section, which says what it attaches to.
    pub section: String,
}

/// Something that an object expects of the kernel.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Extern")]
pub struct CheckedExtern {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: CheckedKind,
    /// False for one that may be missing.
    pub needed: bool,
}

/// Kinds of what an object expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ExternKind")]
pub enum CheckedKind {
    /// A kernel function.
    Kfunc,
    /// A variable of the kernel.
    Ksym,
    /// An option of the kernel's configuration.
    Kconfig,
}

/// A map; sizes are in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Map")]
pub struct CheckedMap {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub map_type: String,
    /// Size of a key, in bytes.
    pub key_size: u32,
    /// Size of a value, in bytes.
    pub value_size: u32,
    /// How many entries it can have.
    pub max_entries: u32,
}

/// A tunable.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Tunable")]
pub struct CheckedTunable {
    /// Its name.
    pub name: String,
    /// Its type as C writes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its value before any setting.
    pub default: String,
    /// True if it can change while the scheduler runs (`--set-at`).
    pub while_running: bool,
    /// The values that it takes, in words.
    pub takes: String,
    /// What it does.
    pub meaning: String,
}

/// What is left to a scheduler's own loader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LeftToLoader")]
pub struct CheckedLoader {
    /// Variables that it would have written.
    pub constants: Vec<String>,
    /// Programs that it would have run.
    pub programs: Vec<String>,
}

/// Whether the simulator or a kernel takes the object.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct CheckAnswer {
    /// Whose answer it is: `simulator`, `this_kernel` (`--live`), `vm_kernel` (`--vm`).
    pub by: CheckedBy,
    /// Whether it does; null where that could not be found out.
    pub takes: Option<bool>,
    /// Why, or what the verifier saw of the object.
    pub text: String,
}

/// What is asked whether it takes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AnswerBy")]
pub enum CheckedBy {
    /// The simulator.
    Simulator,
    /// The verifier of this machine's kernel.
    ThisKernel,
    /// The verifier of a VM's kernel.
    VmKernel,
}

impl CheckAnswer {
    /// The line that tells it.
    pub fn line(&self) -> String {
        let subject = match self.by {
            CheckedBy::Simulator => "the simulator runs it",
            CheckedBy::ThisKernel => "this kernel's verifier takes it",
            CheckedBy::VmKernel => "the VM kernel's verifier takes it",
        };
        let word = match self.takes {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not known",
        };
        let text = if self.text.is_empty() { String::new() } else { format!("; {}", self.text) };
        format!("{subject}: {word}{text}\n")
    }
}

/// Everything that the object declares and expects, as tables.
pub fn check_text(object: &CheckedObject) -> String {
    let mut text = format!("{}: license {}\n", object.file, object.license);
    let mut section = |title: &str, header: &[&str], rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            text.push_str(&format!("\n{title}\n{}", table(header, &[], &rows)));
        }
    };
    for ops in &object.struct_ops {
        let row = |one: &CheckedCallback| vec![one.callback.clone(), one.program.clone()];
        let title = format!("{} ({})", ops.name, ops.type_name);
        section(&title, &["callback", "program"], ops.callbacks.iter().map(row).collect());
    }
    let row = |one: &CheckedProgram| vec![one.name.clone(), one.section.clone()];
    section("other programs", &["program", "attaches to"], object.programs.iter().map(row).collect());
    for (kind, title) in [
        (CheckedKind::Kfunc, "kernel functions"),
        (CheckedKind::Ksym, "kernel variables"),
        (CheckedKind::Kconfig, "kernel configuration"),
    ] {
        let row = |one: &CheckedExtern| {
            vec![one.name.clone(), if one.needed { "needed" } else { "may be missing" }.to_string()]
        };
        let wanted = object.externs.iter().filter(|found| found.kind == kind);
        section(title, &["name", "need"], wanted.map(row).collect());
    }
    let row = |map: &CheckedMap| {
        let [key, value, entries] =
            [map.key_size, map.value_size, map.max_entries].map(|size| size.to_string());
        vec![map.name.clone(), map.map_type.clone(), key, value, entries]
    };
    let header = ["name", "type", "key bytes", "value bytes", "entries"];
    section("maps", &header, object.maps.iter().map(row).collect());
    let row = |tunable: &CheckedTunable| {
        let CheckedTunable { name, type_name, default, while_running, takes, meaning } = tunable.clone();
        let when = if while_running { "yes" } else { "" };
        vec![name, type_name, default, when.to_string(), takes, meaning]
    };
    let header = ["name", "type", "default", "while it runs (--set-at)", "values", "meaning"];
    section("tunables (--set)", &header, object.tunables.iter().map(row).collect());
    text
}

/// What `schedlab check --json` writes: what an object declares and expects, and what takes it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Check")]
pub(crate) struct File<'a> {
    /// What wrote the file, and in which form.
    pub(crate) schedlab: Header,
    /// The object.
    object: &'a CheckedObject,
    /// Whether the simulator and kernels take it.
    answers: &'a [CheckAnswer],
}

/// The object and what takes it, as JSON with a newline at the end.
pub fn check_json(object: &CheckedObject, answers: &[CheckAnswer]) -> String {
    let file = File { schedlab: Header::new(), object, answers };
    let mut text = visible_json(serde_json::to_string_pretty(&file).expect("plain data has a JSON form"));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_say_the_same() {
        let object = CheckedObject {
            file: "x.bpf.o".to_string(),
            license: "GPL".to_string(),
            externs: vec![CheckedExtern {
                name: "scx_bpf_kick_cpu".to_string(),
                kind: CheckedKind::Kfunc,
                needed: true,
            }],
            ..CheckedObject::default()
        };
        let answers = [
            CheckAnswer { by: CheckedBy::Simulator, takes: Some(false), text: "\u{1b}[2J".to_string() },
            CheckAnswer { by: CheckedBy::VmKernel, takes: None, text: String::new() },
        ];
        assert!(check_text(&object).contains("scx_bpf_kick_cpu  needed"));
        assert_eq!(answers[1].line(), "the VM kernel's verifier takes it: not known\n");
        let json = check_json(&object, &answers);
        assert!(!json.contains('\u{1b}'), "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["object"]["externs"][0]["kind"], "kfunc");
        assert_eq!(
            (&value["answers"][0]["takes"], &value["answers"][0]["by"]),
            (&false.into(), &"simulator".into())
        );
        assert_eq!(value["answers"][0]["text"], "\u{1b}[2J");
        assert!(value["answers"][1]["takes"].is_null());
    }
}
