//! Which struct_ops table is meant where an object has several.

use super::{Object, StructOpsVar};
use crate::error::{LoadError, LoadErrorKind};
use schedlab_base::did_you_mean;

impl Object {
    /// True if `name` is that of the table's variable, or the one that the table gives itself (`.name`).
    pub fn is_called(&self, table: &StructOpsVar, name: &str) -> bool {
        table.name == name || self.own_name(table) == name
    }

    /// Keeps the table that `choice` names, or the only one.
    ///
    /// # Errors
    /// Several tables and no choice, or none or several that it means; the message lists them.
    pub fn choose(&mut self, choice: Option<&str>) -> Result<(), LoadError> {
        let tables = self.struct_ops();
        let Some(name) = choice else {
            let problem = format!("there are {} schedulers in one object", tables.len());
            return if tables.len() <= 1 { Ok(()) } else { Err(self.ambiguous(problem)) };
        };
        // A variable's name is unique; two schedulers may call themselves the same.
        let named = tables.iter().position(|table| table.name == name);
        let called: Vec<usize> = (0..tables.len()).filter(|at| self.is_called(&tables[*at], name)).collect();
        match (named, called.as_slice()) {
            (Some(at), _) | (None, &[at]) => {
                let kept = self.struct_ops.swap_remove(at);
                self.struct_ops = vec![kept];
                Ok(())
            }
            (None, []) => {
                let near = did_you_mean(name, tables.iter().map(|table| &table.name));
                Err(self.ambiguous(format!("there is no scheduler `{name}`{near}")))
            }
            (None, several) => {
                Err(self.ambiguous(format!("{} schedulers call themselves `{name}`", several.len())))
            }
        }
    }

    fn ambiguous(&self, problem: String) -> LoadError {
        let shown = |table: &StructOpsVar| format!("{} (\"{}\")", table.name, self.own_name(table));
        let known: Vec<String> = self.struct_ops().iter().map(shown).collect();
        let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        let cure = format!("choose one with FILE#NAME: {known}");
        LoadError::new(LoadErrorKind::Unresolved, "section .struct_ops.link", problem, cure)
    }

    /// The text of the table's member `name`.
    fn own_name(&self, table: &StructOpsVar) -> String {
        let member = self.btf().members(table.ty).iter().find(|m| self.btf().member_name(m) == "name");
        let bytes = member.map_or(&[][..], |member| table.content(self.btf(), member));
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}
