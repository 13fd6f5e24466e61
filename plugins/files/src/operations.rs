//! `file_operations`: the other tools combined into one, for models that work better with a short tool list.

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::default_true;
use crate::delete::{DeleteFile, Deleted};
use crate::edit::{EditFile, Edited};
use crate::info::{FileInfo, Info};
use crate::list::{ListDirectory, Listing};
use crate::read::{Encoding, FileContent, ReadFile};
use crate::write::{WriteFile, Written};

/// Reads, writes, edits, lists and deletes files, and checks whether they exist.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileOperations {
    /// The operation.
    pub operation: Operation,
    /// The file or directory, relative to the workspace root.
    pub path: String,
    /// read, write: `utf-8` (default) or `base64`.
    #[serde(default)]
    pub encoding: Encoding,
    /// read: first line, from 1.
    #[schemars(range(min = 1))]
    pub start_line: Option<u64>,
    /// read: last line.
    #[schemars(range(min = 1))]
    pub end_line: Option<u64>,
    /// write: the new content. edit: replacement text, if `replacement` is absent.
    pub content: Option<String>,
    /// write: create missing parent directories.
    #[serde(default)]
    pub create_dirs: bool,
    /// edit: the text to replace; must match exactly once unless `all` is true.
    pub pattern: Option<String>,
    /// edit: replacement text.
    pub replacement: Option<String>,
    /// edit: `pattern` is a regular expression.
    #[serde(default)]
    pub regex: bool,
    /// edit: replace every match.
    #[serde(default)]
    pub all: bool,
    /// list: also list subdirectories recursively. delete: delete a directory with everything in it.
    #[serde(default)]
    pub recursive: bool,
    /// list: also entries whose name begins with a dot.
    #[serde(default)]
    pub include_hidden: bool,
    /// write, edit, delete: keep the old content, so that `mimir undo` can restore it.
    #[serde(default = "default_true")]
    pub backup: bool,
}

/// A file operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(
    missing_docs,
    reason = "variants without docs make a plain `enum` in the schema"
)]
pub enum Operation {
    Read,
    Write,
    Edit,
    List,
    Delete,
    Exists,
}

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Operated {
    /// The operation.
    pub operation: Operation,
    /// Result of the operation.
    pub result: OperationResult,
}

/// Result of the tool that ran the operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OperationResult {
    /// Result of `read`.
    Read(FileContent),
    /// Result of `write`.
    Write(Written),
    /// Result of `edit`.
    Edit(Edited),
    /// Result of `list`.
    List(Listing),
    /// Result of `delete`.
    Delete(Deleted),
    /// Result of `exists`.
    Exists(Info),
}

/// The tool that runs an operation.
enum ToolCall {
    Read(ReadFile),
    Write(WriteFile),
    Edit(EditFile),
    List(ListDirectory),
    Delete(DeleteFile),
    Exists(FileInfo),
}

impl FileOperations {
    fn into_tool_call(self) -> Result<ToolCall> {
        let Self {
            operation,
            path,
            encoding,
            create_dirs,
            regex,
            all,
            recursive,
            include_hidden,
            backup,
            ..
        } = self;
        let required = |value: Option<String>, name: &str| {
            value.ok_or_else(|| Error::invalid_input(format_args!("`{name}` is missing")))
        };
        Ok(match operation {
            Operation::Read => ToolCall::Read(ReadFile {
                path,
                encoding,
                start_line: self.start_line,
                end_line: self.end_line,
            }),
            Operation::Write => {
                let content = required(self.content, "content")?;
                ToolCall::Write(WriteFile {
                    path,
                    content,
                    encoding,
                    create_dirs,
                    backup,
                })
            }
            Operation::Edit => {
                let pattern = required(self.pattern, "pattern")?;
                let replacement = required(self.replacement.or(self.content), "replacement")?;
                ToolCall::Edit(EditFile {
                    path,
                    pattern,
                    replacement,
                    regex,
                    all,
                    backup,
                })
            }
            Operation::List => ToolCall::List(ListDirectory {
                path,
                recursive,
                include_hidden,
            }),
            Operation::Delete => ToolCall::Delete(DeleteFile {
                path,
                recursive,
                backup,
            }),
            Operation::Exists => ToolCall::Exists(FileInfo { path }),
        })
    }
}

/// Result of an operation, with the data of an image that was read.
#[derive(Debug)]
pub struct OperationOutput {
    /// The result with its text.
    pub operated: Worded<Operated>,
    /// MIME type and bytes of an image.
    pub image: Option<(String, Vec<u8>)>,
}

impl IntoOutput for OperationOutput {
    fn schema() -> Option<serde_json::Value> {
        <Worded<Operated>>::schema()
    }

    fn into_output(self) -> Result<Output> {
        let output = self.operated.into_output()?;
        Ok(match self.image {
            Some((mime_type, data)) => output.image(mime_type, data),
            None => output,
        })
    }
}

impl Tool for FileOperations {
    type Output = OperationOutput;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("File operations");
    const RISK: Risk = Risk::High;
    const HINTS: Hints = Hints::NONE.destructive();

    fn needs() -> Needs {
        Needs::none().write(
            ".",
            "to read, write, edit, list and delete files of the workspace",
        )
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let operation = self.operation;
        let mut image = None;
        let (result, text) = match self.into_tool_call()? {
            ToolCall::Read(tool) => {
                let read = tool.run(cx)?;
                let facts = read.content.value.image.as_ref();
                image = facts.map(|facts| facts.mime_type.clone()).zip(read.image);
                split_result(read.content, OperationResult::Read)
            }
            ToolCall::Write(tool) => split_result(tool.run(cx)?, OperationResult::Write),
            ToolCall::Edit(tool) => split_result(tool.run(cx)?, OperationResult::Edit),
            ToolCall::List(tool) => split_result(tool.run(cx)?, OperationResult::List),
            ToolCall::Delete(tool) => split_result(tool.run(cx)?, OperationResult::Delete),
            ToolCall::Exists(tool) => split_result(tool.run(cx)?, OperationResult::Exists),
        };
        Ok(OperationOutput {
            operated: Json(Operated { operation, result }).worded(text),
            image,
        })
    }
}

fn split_result<T>(
    worded: Worded<T>,
    result: fn(T) -> OperationResult,
) -> (OperationResult, String) {
    (result(worded.value), worded.text)
}

impl Assess for FileOperations {
    fn assess(&self, cx: &Context) -> Assessment {
        match self.clone().into_tool_call() {
            // The call will fail because of its arguments and change nothing.
            Err(error) => Assessment::allow(error.to_string()),
            Ok(ToolCall::Write(tool)) => tool.assess(cx),
            Ok(ToolCall::Edit(tool)) => tool.assess(cx),
            Ok(ToolCall::Delete(tool)) => tool.assess(cx),
            Ok(ToolCall::Read(tool)) => {
                Assessment::allow(format!("reads {}", text::brief(&tool.path)))
            }
            Ok(ToolCall::List(tool)) => {
                Assessment::allow(format!("lists {}", text::brief(&tool.path)))
            }
            Ok(ToolCall::Exists(tool)) => {
                Assessment::allow(format!("looks for {}", text::brief(&tool.path)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mimir_sdk::Code;
    use serde_json::{Value, json};

    use super::*;
    use crate::kit::Workspace;

    fn tool(arguments: Value) -> FileOperations {
        serde_json::from_value(arguments).unwrap()
    }

    #[test]
    fn file_operations_match_the_single_tools() {
        let workspace = Workspace::with(&[("a.txt", "one\n")]);
        let run = |arguments: Value| {
            let operated = tool(arguments).run(&workspace.cx()).unwrap();
            (
                serde_json::to_value(operated.operated.value.result).unwrap(),
                operated.operated.text,
            )
        };
        assert_eq!(
            run(json!({"operation": "read", "path": "a.txt"})).1,
            "one\n"
        );
        assert_eq!(
            run(json!({"operation": "write", "path": "b.txt", "content": "x"})).0["created"],
            true
        );
        let edit =
            json!({"operation": "edit", "path": "a.txt", "pattern": "one", "content": "two"});
        assert_eq!(run(edit).0["replacements"], 1);
        assert_eq!(workspace.text("a.txt"), "two\n");
        assert_eq!(run(json!({"operation": "list", "path": "."})).0["total"], 2);
        assert_eq!(
            run(json!({"operation": "delete", "path": "a.txt"})).0["deleted"][0],
            "a.txt"
        );
        assert_eq!(
            run(json!({"operation": "exists", "path": "a.txt"})).0["exists"],
            false
        );
    }

    #[test]
    fn file_operations_name_missing_arguments() {
        let workspace = Workspace::new();
        for operation in ["write", "edit"] {
            let error = tool(json!({"operation": operation, "path": "a"}))
                .run(&workspace.cx())
                .unwrap_err();
            assert_eq!(*error.code(), Code::InvalidInput);
            assert!(error.message().contains("is missing"), "{error}");
        }
    }

    #[test]
    fn file_operations_are_assessed_like_their_tools() {
        let workspace = Workspace::with(&[("a.txt", "old")]);
        let approval = |arguments: Value| tool(arguments).assess(&workspace.cx()).approval();
        assert_eq!(
            approval(json!({"operation": "read", "path": "a.txt"})),
            Approval::Allow
        );
        assert_eq!(
            approval(json!({"operation": "write", "path": "b.txt", "content": ""})),
            Approval::Allow
        );
        assert_eq!(
            approval(json!({"operation": "write", "path": "a.txt", "content": ""})),
            Approval::Ask
        );
        assert_eq!(
            approval(json!({"operation": "delete", "path": "a.txt"})),
            Approval::Ask
        );
    }
}
