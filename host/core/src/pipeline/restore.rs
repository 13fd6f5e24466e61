//! Restores masked values between approval and run: marks in text that a built-in tool writes to a file are replaced by
//! the values in the file. The card and the audit log show the marks, as the model does.
//!
//! A value is restored only in the file that contains it, and only where it will be masked again. A write with a mark
//! that cannot be restored is refused, so that a mark never overwrites a value.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use crate::call::CallContext;
use crate::error::{ToolError, ToolErrorCode};
use crate::policy;
use crate::redact::Redactor;
use crate::redact::restore::{
    MarkFacts, MaskedText, RestoreError, RestoredText, has_mark, rules_of_marks,
};
use crate::text;
use crate::tool::{Tool, ToolGroup, ToolSource};

use super::StageContext;
use super::approve::Approved;
use super::call_command::CallCommand;
use super::effect::leak;
use super::session::PipelineSession;
use super::validate::Checked;

mod patch;

/// The content that a call writes to a file.
enum FileWrite {
    /// The whole file, from the argument `content`.
    Whole(String),
    /// A replacement in the current content. `name` is the argument with the replacement.
    Edit {
        pattern: String,
        replacement: String,
        name: &'static str,
        all: bool,
        regex: bool,
    },
}

/// Refuses a call that would write a mark in place of its value. [`restore`] handles the marks of the file tools; marks
/// in commands, code and the arguments of other tools are never restored. Marks that the session has not seen are plain
/// text. Tools and commands that only read may use any mark, for example to search for it.
pub(super) fn check_arguments(
    stage: &StageContext<'_>,
    (tool, equivalent): (&Tool, Option<&Tool>),
    context: &CallContext,
    (arguments, command): (&Value, &OnceLock<Option<Arc<CallCommand>>>),
) -> Result<(), ToolError> {
    let effective_tool = equivalent.unwrap_or(tool);
    if effective_tool.definition.hints.read_only || restores_marks(effective_tool) {
        return Ok(());
    }
    let session = stage.sessions.get(&context.session_id);
    let mut shown_mark = |text: &str| {
        let mut rules = rules_of_marks(text).into_iter();
        rules
            .find(|rule| session.has_masked(rule))
            .map(str::to_owned)
    };
    // Of a request, only the body can write a mark.
    let is_net = tool.source == ToolSource::BuiltIn && tool.definition.group == ToolGroup::Net;
    let members = arguments.as_object().into_iter().flatten();
    let mut written = members.filter(|(argument, _)| !is_net || *argument == "body");
    let marked = written.find_map(|(argument, value)| {
        let rule = leak::find_in_texts(value, &mut shown_mark)?;
        Some((argument, rule))
    });
    let Some((argument, rule)) = marked else {
        return Ok(());
    };
    let is_command = tool.source == ToolSource::BuiltIn
        && tool.definition.group == ToolGroup::Runtime
        && !tool.runs_code();
    let command = || command.get_or_init(|| CallCommand::from_arguments(tool, arguments));
    if is_command
        && command()
            .as_ref()
            .is_some_and(|command| only_reads(stage, command))
    {
        return Ok(());
    }
    let message = format!(
        "`{}` was not called: `{}` contains the mask `[REDACTED:{rule}]`, which would be written instead of the value; \
         use edit_file or write_file, which restore the value, or leave that line out",
        tool.name(),
        text::visible(text::prefix(argument, 64)),
    );
    Err(mask_error(message, &rule))
}

/// Returns true if the command of a call only reads.
fn only_reads(stage: &StageContext<'_>, command: &CallCommand) -> bool {
    let script = command.parsed(&*stage.ports.runner);
    matches!(script, Ok(script) if policy::only_reads(script))
}

/// Returns true if marks in the text that the tool writes are restored.
fn restores_marks(tool: &Tool) -> bool {
    tool.source == ToolSource::BuiltIn
        && tool.definition.group == ToolGroup::Fs
        && matches!(
            tool.name().as_str(),
            "write_file" | "edit_file" | "apply_patch"
        )
}

/// Replaces marks in the arguments of a call by their values. Returns a redactor that masks these values, too. `None`
/// if there are no marks to restore.
pub(super) fn restore(call: &mut Approved) -> Result<Option<Redactor>, ToolError> {
    if policy::is_patch_tool(&call.checked.tool) {
        return patch::restore_patch(call);
    }
    let Some((path, write)) = marked_write(&call.checked) else {
        return Ok(None);
    };
    let checked = &call.checked;
    let current = checked.tool.backend.read_text(&path, checked.paths());
    let current = current.unwrap_or_default();
    let session = call.session();
    let task = RestoreTask {
        path: &path,
        current: &current,
        redactor: call.redactor(),
        session: &session,
    };
    let arguments = match write {
        FileWrite::Whole(content) => task.restore_whole(&content)?,
        FileWrite::Edit {
            regex: true,
            pattern,
            replacement,
            ..
        } => {
            task.check_regex(&[&pattern, &replacement])?;
            return Ok(None);
        }
        FileWrite::Edit {
            pattern,
            replacement,
            name,
            all,
            ..
        } => task.restore_edit(&pattern, &replacement, name, all)?,
    };
    let masked = call.redactor().mask_restorable(&current);
    let redactor = call.redactor().with_restored(masked.values());
    if let Some(replaced) = Arc::make_mut(&mut call.checked.arguments).as_object_mut() {
        replaced.extend(arguments);
    }
    call.mask_with(redactor.clone());
    Ok(Some(redactor))
}

/// Returns the path and the content of a built-in tool's file write, if the content contains a mark.
fn marked_write(checked: &Checked) -> Option<(String, FileWrite)> {
    let tool = checked.equivalent_tool.as_ref().unwrap_or(&checked.tool);
    if !restores_marks(tool) {
        return None;
    }
    let arguments = &checked.arguments;
    let text_argument = |name: &str| Some(arguments.get(name)?.as_str()?.to_owned());
    let flag = |name: &str| arguments.get(name).and_then(Value::as_bool) == Some(true);
    let write = match tool.name().as_str() {
        "write_file" => FileWrite::Whole(text_argument("content")?),
        "edit_file" => {
            let name = match arguments.get("replacement") {
                Some(_) => "replacement",
                None => "content",
            };
            FileWrite::Edit {
                pattern: text_argument("pattern")?,
                replacement: text_argument(name)?,
                name,
                all: flag("all"),
                regex: flag("regex"),
            }
        }
        _ => return None,
    };
    let has_marks = match &write {
        FileWrite::Whole(content) => has_mark(content),
        FileWrite::Edit {
            pattern,
            replacement,
            ..
        } => has_mark(pattern) || has_mark(replacement) || pattern.contains(r"\[REDACTED:"),
    };
    Some((text_argument("path")?, write)).filter(|_| has_marks)
}

/// Names and values of arguments that replace those of the call.
type RestoredArguments = Vec<(String, Value)>;

/// A file write, with the data for restoring its marks.
struct RestoreTask<'a> {
    path: &'a str,
    /// The current content of the file. Empty if the file is missing or not text.
    current: &'a str,
    redactor: &'a Redactor,
    session: &'a PipelineSession,
}

impl RestoreTask<'_> {
    fn restore_whole(&self, content: &str) -> Result<RestoredArguments, ToolError> {
        let masked = self.redactor.mask_restorable(self.current);
        let restored = masked
            .restore(
                content,
                None,
                MarkFacts {
                    is_literal: &self.is_literal_mark(masked.rules(), content),
                    has_other_values: &self.has_other_values(&masked),
                },
            )
            .and_then(|restored| self.redactor.check_masked(&restored).map(|()| restored))
            .map_err(|error| self.restore_error(&error))?;
        Ok(vec![("content".to_owned(), restored.text.into())])
    }

    fn restore_edit(
        &self,
        pattern: &str,
        replacement: &str,
        name: &str,
        all: bool,
    ) -> Result<RestoredArguments, ToolError> {
        // The tool treats a file that only has CRLF line ends as if it had LF.
        let line_ends = self.current.matches('\n').count();
        let has_crlf = line_ends > 0 && self.current.matches("\r\n").count() == line_ends;
        let with_lf = |text: &str| {
            if has_crlf {
                text.replace("\r\n", "\n")
            } else {
                text.to_owned()
            }
        };
        let (current, pattern, replacement) = (
            with_lf(self.current),
            with_lf(pattern),
            with_lf(replacement),
        );
        let masked = self.redactor.mask_restorable(&current);
        let matches: Vec<_> = if pattern.is_empty() {
            Vec::new()
        } else {
            masked
                .text()
                .match_indices(&pattern)
                .map(|(at, matched)| at..at + matched.len())
                .collect()
        };
        if matches.len() > 1 && !all && has_mark(&pattern) {
            return Err(self.ambiguous(masked.text(), &matches));
        }
        let has_other_values = self.has_other_values(&masked);
        let (mut restored_parts, mut first, mut copied) = (Vec::new(), None, 0);
        for range in matches {
            let parts = masked.part(range.clone()).zip(masked.original(range));
            // The match begins or ends inside a mark, so the file cannot contain it.
            let Some((part, original)) = parts else {
                return Ok(Vec::new());
            };
            let facts = MarkFacts {
                is_literal: &self.is_literal_mark(part.rules(), &replacement),
                has_other_values: &has_other_values,
            };
            let restored = part
                .restore(&replacement, Some(&masked), facts)
                .map_err(|error| self.restore_error(&error))?;
            restored_parts.push(RestoredText::plain(&current[copied..original.start]));
            restored_parts.push(restored.clone());
            copied = original.end;
            let edit = (current[original].to_owned(), restored.text);
            match &first {
                Some(first) if *first != edit => return Err(self.different_values()),
                _ => first = Some(edit),
            }
        }
        restored_parts.push(RestoredText::plain(&current[copied..]));
        self.redactor
            .check_masked(&RestoredText::concat(restored_parts))
            .map_err(|error| self.restore_error(&error))?;
        // If nothing matches, the tool reports it.
        Ok(first.map_or_else(Vec::new, |(pattern, replacement)| {
            vec![
                ("pattern".to_owned(), pattern.into()),
                (name.to_owned(), replacement.into()),
            ]
        }))
    }

    /// Fails if a regular expression or its replacement contains a mark that is not literal text of the file.
    fn check_regex(&self, texts: &[&str]) -> Result<(), ToolError> {
        if has_mark(self.current) {
            return Ok(());
        }
        let marks = texts.iter().flat_map(|text| rules_of_marks(text));
        let shown = marks.into_iter().find(|rule| self.session.has_masked(rule));
        let masked = self.redactor.mask_restorable(self.current);
        let rule = shown.or_else(|| masked.rules().into_iter().next());
        let Some(rule) = rule else {
            return Ok(());
        };
        let message = format!(
            "`{}` was not changed: a regular expression cannot match the mask `[REDACTED:{rule}]`; pass the text as \
             shown, without `regex`",
            text::visible(self.path)
        );
        Err(mask_error(message, rule))
    }

    /// Returns a predicate that is true for the rule of a mark that is literal text, as in documentation: the session
    /// has not seen a mask of this rule, and `new` has a mark of every rule in `replaced`.
    fn is_literal_mark<'s>(
        &'s self,
        replaced: BTreeSet<&str>,
        new: &str,
    ) -> impl Fn(&str) -> bool + 's {
        let replaces_none = replaced.is_subset(&rules_of_marks(new));
        move |rule| replaces_none && !self.session.has_masked(rule)
    }

    /// Returns a predicate that is true for a rule if the session has seen marks of values that the file does not
    /// contain.
    fn has_other_values<'s>(&'s self, masked: &'s MaskedText<'_>) -> impl Fn(&str) -> bool + 's {
        let values = masked.digests();
        move |rule| self.session.has_masked_others(rule, values.get(rule))
    }

    fn restore_error(&self, error: &RestoreError) -> ToolError {
        let (path, mark) = (text::visible(self.path), error.mark());
        let why = match error {
            RestoreError::Unknown { .. } => format!(
                "the mask `{mark}` stands for a value that is not in this file, and a value can only be restored in \
                 its own file; leave it out, or copy the file with move_file or a command"
            ),
            RestoreError::Ambiguous { .. } => format!(
                "the mask `{mark}` could stand for several values; change one masked line at a time with edit_file, \
                 together with a line before or after it"
            ),
            RestoreError::Exposed { .. } => format!(
                "the value behind the mask `{mark}` would not be recognized as a secret in its new position; keep the \
                 text around the mask unchanged"
            ),
        };
        let rule = mark.trim_start_matches("[REDACTED:").trim_end_matches(']');
        mask_error(format!("`{path}` was not changed: {why}"), rule)
    }

    fn different_values(&self) -> ToolError {
        let message = format!(
            "`{}` was not changed: the masks in `pattern` stand for different values; change one match at a time, with \
             more of the text around it",
            text::visible(self.path)
        );
        ToolError::new(ToolErrorCode::InvalidInput, message)
    }

    fn ambiguous(&self, masked: &str, matches: &[std::ops::Range<usize>]) -> ToolError {
        let line = |at: usize| masked[..at].matches('\n').count() + 1;
        let lines: Vec<usize> = matches
            .iter()
            .take(20)
            .map(|range| line(range.start))
            .collect();
        let numbers: Vec<String> = lines.iter().map(usize::to_string).collect();
        let message = format!(
            "the pattern matches more than once in `{}`, at lines {}; include more of the surrounding text, or pass \
             `all: true`",
            text::visible(self.path),
            numbers.join(", ")
        );
        ToolError::new(ToolErrorCode::InvalidInput, message).with_details(json!({ "lines": lines }))
    }
}

fn mask_error(message: String, rule: &str) -> ToolError {
    ToolError::new(ToolErrorCode::InvalidInput, message)
        .with_details(json!({ "kind": "mask-in-text", "mask": format!("[REDACTED:{rule}]") }))
}
