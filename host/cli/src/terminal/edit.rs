//! A person writes other arguments for a call: in their editor, or on the terminal.

use std::io::{self, BufRead, Write};
use std::process::Command;

use serde_json::Value;

use super::read_line;

/// The arguments that the person wants, or nothing if they left it at that.
pub fn arguments(to: &mut dyn Write, now: &str) -> io::Result<Option<Value>> {
    let mut text = now.to_owned();
    loop {
        text = match editor() {
            Some(editor) => edited(&editor, &text)?,
            None => typed(to)?,
        };
        if text.trim().is_empty() || text.trim() == now.trim() {
            return Ok(None);
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(value) if value.is_object() => return Ok(Some(value)),
            Ok(_) => writeln!(to, "The arguments have to be a JSON object.")?,
            Err(error) => writeln!(to, "That is no JSON: {error}.")?,
        }
        write!(to, "[e]dit again, or leave it [n] > ")?;
        to.flush()?;
        let line = read_line()?.unwrap_or_default();
        if !matches!(line.trim().to_lowercase().as_str(), "e" | "edit") {
            return Ok(None);
        }
    }
}

/// The person's editor, as every terminal program finds it.
fn editor() -> Option<String> {
    let named = |name| std::env::var(name).ok();
    let editor = named("VISUAL").or_else(|| named("EDITOR"))?;
    (!editor.trim().is_empty()).then_some(editor)
}

fn edited(editor: &str, text: &str) -> io::Result<String> {
    // The name ends in .json so that the editor helps; only this person can read it.
    let mut file = tempfile::Builder::new()
        .prefix("mimir-")
        .suffix(".json")
        .tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let path = file.into_temp_path();
    // `EDITOR` may hold arguments, as in `code --wait`.
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    let status = command.args(words).arg(&path).status()?;
    if !status.success() {
        return Ok(String::new());
    }
    std::fs::read_to_string(&path)
}

fn typed(to: &mut dyn Write) -> io::Result<String> {
    writeln!(to, "Type the arguments as JSON; an empty line ends them.")?;
    to.flush()?;
    let mut text = String::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}
