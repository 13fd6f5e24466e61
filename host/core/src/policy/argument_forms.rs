//! Second forms of the arguments of built-in tools. They are converted before the schema is checked and the rules are
//! evaluated, so rules need only one form, and models read only one.

use serde_json::{Map, Value};

use crate::registry::Registry;
use crate::tool::{Tool, ToolGroup, ToolSource};

use super::tool_forms::COMPACT;

/// Extensions of documents whose text `read_document` extracts.
const DOCUMENTS: [&str; 11] = [
    "pdf", "docx", "docm", "pptx", "pptm", "xlsx", "xlsm", "xls", "odt", "odp", "ods",
];

/// The tool that reads documents. Models call `read_file`, whose rules apply as well.
pub(super) const READ_DOCUMENT: &str = "read_document";

/// The tool that reads text and images.
pub(super) const READ_FILE: &str = "read_file";

/// Converts the second form of a built-in tool's arguments to the first. `called` is the name of the call, which may be
/// an alias, and `root` the absolute path of the workspace for commands, if known.
pub(super) fn convert(tool: &Tool, called: &str, root: Option<&str>, arguments: &mut Value) {
    let Some(arguments) = arguments.as_object_mut() else {
        return;
    };
    if tool.source != ToolSource::BuiltIn {
        return;
    }
    let name = tool.name().as_str();
    if name == "file_search" {
        convert_search(arguments);
    }
    // `pattern` and `type` only count together.
    for (from, to) in other_names(name).iter().filter(|_| name != "file_search") {
        match *from {
            MILLISECONDS => convert_milliseconds(arguments),
            _ => rename(arguments, from, to),
        }
    }
    if called == CREATES_PARENTS {
        arguments
            .entry("createDirs")
            .or_insert_with(|| Value::Bool(true));
    }
    for argument in path_arguments(tool) {
        if let (Some(root), Some(value)) = (root, arguments.get_mut(*argument)) {
            make_relative(value, root);
        }
    }
}

/// The name of `write_file` that creates missing directories by default.
const CREATES_PARENTS: &str = "file_write";

/// The argument for a timeout in milliseconds.
const MILLISECONDS: &str = "timeoutMs";

/// Further names of the arguments of a built-in tool, each with the name in its schema.
fn other_names(tool: &str) -> &'static [(&'static str, &'static str)] {
    match tool {
        "file_search" => &[("pattern", "query"), ("type", "mode")],
        "apply_patch" => &[("input", "patch")],
        "exec" => &[("workDir", "workdir"), (MILLISECONDS, "timeout")],
        "run_code" | "web_fetch" => &[(MILLISECONDS, "timeout")],
        _ => &[],
    }
}

/// Returns the argument in the schema of a built-in tool that `name` is a further name of, such as `query` for the
/// `pattern` of `file_search`.
pub fn schema_argument(tool: &Tool, name: &str) -> Option<&'static str> {
    let names = other_names(tool.name().as_str()).iter();
    let mut names = names.filter(|_| tool.source == ToolSource::BuiltIn);
    names.find(|(other, _)| *other == name).map(|(_, to)| *to)
}

/// The arguments of a built-in tool that are paths relative to the workspace root. `exec` accepts absolute paths itself.
fn path_arguments(tool: &Tool) -> &'static [&'static str] {
    match tool.name().as_str() {
        "run_code" => &["workdir"],
        "run_tests" => &["path"],
        "format_code" => &["paths"],
        _ if tool.definition.group == ToolGroup::Fs => &["path", "from", "to"],
        _ => &[],
    }
}

/// Makes absolute paths in the workspace relative. Other paths are left alone, and refused later.
fn make_relative(value: &mut Value, root: &str) {
    match value {
        Value::String(path) => {
            if let Some(relative) = path_below(path, root) {
                *path = relative;
            }
        }
        Value::Array(paths) => {
            for path in paths {
                if path.is_string() {
                    make_relative(path, root);
                }
            }
        }
        _ => {}
    }
}

/// Returns the path relative to `root`, if it is absolute and begins with `root`. `None` for a root of one character,
/// such as `/`.
fn path_below(path: &str, root: &str) -> Option<String> {
    if root.len() < 2 {
        return None;
    }
    let rest = path.strip_prefix(root)?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    let rest = rest.trim_start_matches('/');
    Some(if rest.is_empty() { "." } else { rest }.to_owned())
}

/// Converts a timeout in milliseconds to seconds, rounded up.
fn convert_milliseconds(arguments: &mut Map<String, Value>) {
    let milliseconds = arguments.get(MILLISECONDS).and_then(Value::as_u64);
    if let (Some(milliseconds), false) = (milliseconds, arguments.contains_key("timeout")) {
        arguments.shift_remove(MILLISECONDS);
        arguments.insert("timeout".to_owned(), milliseconds.div_ceil(1000).into());
    }
}

/// Converts `pattern` and `type` to `query` and `mode`. The pattern of `type: grep` is a regular expression, as for
/// ripgrep; without a type, the pattern is a glob.
fn convert_search(arguments: &mut Map<String, Value>) {
    let is_second_form = arguments.contains_key("pattern")
        && !arguments.contains_key("query")
        && !arguments.contains_key("mode");
    if !is_second_form {
        return;
    }
    rename(arguments, "pattern", "query");
    let mode = match arguments.shift_remove("type") {
        None => "glob".into(),
        Some(kind) if kind == "grep" => "regex".into(),
        Some(kind) => kind,
    };
    arguments.insert("mode".to_owned(), mode);
}

/// Renames an argument, unless both names are present.
fn rename(arguments: &mut Map<String, Value>, from: &str, to: &str) {
    if !arguments.contains_key(to)
        && let Some(value) = arguments.shift_remove(from)
    {
        arguments.insert(to.to_owned(), value);
    }
}

/// The operation of the compact tool that reads a file.
pub(super) const READ: &str = "read";

/// The arguments of the compact tool for reading, which the reader of documents has as well.
const READ_ARGUMENTS: [&str; 5] = ["operation", "path", "encoding", "startLine", "endLine"];

/// Returns the tool for a document that `read_file` or the compact tool is called with, unless the caller wants its
/// bytes. Removes arguments of other operations, which the compact tool ignores.
pub(super) fn document_reader<'r>(
    registry: &'r Registry,
    tool: &Tool,
    arguments: &mut Value,
) -> Option<&'r std::sync::Arc<Tool>> {
    let is_read = match tool.name().as_str() {
        READ_FILE => true,
        COMPACT => arguments["operation"] == READ,
        _ => false,
    };
    if tool.source != ToolSource::BuiltIn || !is_read || arguments["encoding"] == "base64" {
        return None;
    }
    let (_, extension) = arguments["path"].as_str()?.rsplit_once('.')?;
    let is_document = DOCUMENTS
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known));
    let reader = registry.get(READ_DOCUMENT).filter(|_| is_document)?;
    if reader.source != ToolSource::BuiltIn {
        return None;
    }
    if tool.name().as_str() == COMPACT
        && let Some(arguments) = arguments.as_object_mut()
    {
        let schema = tool.definition.input_schema.to_value();
        arguments.retain(|name, _| {
            READ_ARGUMENTS.contains(&name.as_str()) || schema["properties"].get(name).is_none()
        });
    }
    Some(reader)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pipeline::tests::tool;

    fn built_in(name: &str) -> Tool {
        let mut tool = tool(name);
        tool.source = ToolSource::BuiltIn;
        tool
    }

    #[test]
    fn argument_forms_of_file_search_are_converted() {
        for (given, expected) in [
            (
                json!({"pattern": "*.rs"}),
                json!({"query": "*.rs", "mode": "glob"}),
            ),
            (
                json!({"pattern": "a.b", "type": "grep", "path": "src"}),
                json!({"path": "src", "query": "a.b", "mode": "regex"}),
            ),
            (
                json!({"pattern": "*.rs", "type": "glob"}),
                json!({"query": "*.rs", "mode": "glob"}),
            ),
            // Not one of the forms: the schema refuses them.
            (
                json!({"pattern": "a", "query": "b", "mode": "grep"}),
                json!({"pattern": "a", "query": "b", "mode": "grep"}),
            ),
            (
                json!({"pattern": "a", "type": "dance"}),
                json!({"query": "a", "mode": "dance"}),
            ),
        ] {
            let mut arguments = given.clone();
            convert(
                &built_in("file_search"),
                "file_search",
                None,
                &mut arguments,
            );
            assert_eq!(arguments, expected, "{given}");
        }
        let mut arguments = json!({"pattern": "*.rs"});
        convert(&tool("file_search"), "file_search", None, &mut arguments);
        assert_eq!(arguments, json!({"pattern": "*.rs"}), "a tool of a plugin");
    }

    #[test]
    fn argument_forms_have_further_names_and_milliseconds() {
        for (called, name, given, expected) in [
            (
                "bash",
                "exec",
                json!({"command": "ls", "workDir": "src", "timeoutMs": 1500}),
                json!({"command": "ls", "workdir": "src", "timeout": 2}),
            ),
            (
                "exec",
                "exec",
                json!({"timeoutMs": 3000}),
                json!({"timeout": 3}),
            ),
            // Refused by the schema.
            (
                "exec",
                "exec",
                json!({"timeoutMs": 1, "timeout": 2}),
                json!({"timeoutMs": 1, "timeout": 2}),
            ),
            (
                "exec",
                "exec",
                json!({"timeoutMs": "x"}),
                json!({"timeoutMs": "x"}),
            ),
            (
                "file_write",
                "write_file",
                json!({"path": "a/b"}),
                json!({"path": "a/b", "createDirs": true}),
            ),
            (
                "file_write",
                "write_file",
                json!({"createDirs": false}),
                json!({"createDirs": false}),
            ),
            (
                "write_file",
                "write_file",
                json!({"path": "a/b"}),
                json!({"path": "a/b"}),
            ),
        ] {
            let mut arguments = given.clone();
            convert(&built_in(name), called, None, &mut arguments);
            assert_eq!(arguments, expected, "{called} {given}");
        }
        assert_eq!(
            schema_argument(&built_in("file_search"), "type"),
            Some("mode")
        );
        assert_eq!(schema_argument(&built_in("exec"), "type"), None);
        assert_eq!(schema_argument(&tool("file_search"), "type"), None);
    }

    #[test]
    fn argument_forms_with_absolute_paths_become_relative() {
        let mut reader = built_in(READ_FILE);
        reader.definition.group = ToolGroup::Fs;
        for (given, expected) in [
            ("/w/s/a.txt", "a.txt"),
            ("/w/s//a/../b", "a/../b"),
            ("/w/s/../x", "../x"),
            ("/w/s", "."),
            ("/w/s/", "."),
            ("/w/sub/a.txt", "/w/sub/a.txt"),
            ("/etc/passwd", "/etc/passwd"),
            ("a.txt", "a.txt"),
            ("", ""),
        ] {
            let mut arguments = json!({"path": given, "content": given});
            convert(&reader, READ_FILE, Some("/w/s"), &mut arguments);
            assert_eq!(arguments, json!({"path": expected, "content": given}));
        }
        let mut arguments = json!({"paths": ["/w/s/a", "b", 1], "path": "/w/s/a"});
        let formatter = built_in("format_code");
        convert(&formatter, "format_code", Some("/w/s"), &mut arguments);
        assert_eq!(arguments, json!({"paths": ["a", "b", 1], "path": "/w/s/a"}));
        let mut arguments = json!({"path": "/etc"});
        convert(&reader, READ_FILE, Some("/"), &mut arguments);
        assert_eq!(
            arguments,
            json!({"path": "/etc"}),
            "a root of one character"
        );
    }

    #[test]
    fn argument_forms_send_documents_to_their_reader() {
        let registry = Registry::new(vec![built_in(READ_DOCUMENT)], Vec::new());
        let reads = |path: &str, encoding: &str| {
            let mut arguments = json!({"path": path, "encoding": encoding});
            document_reader(&registry, &built_in(READ_FILE), &mut arguments).is_some()
        };
        assert!(reads("a/report.PDF", "utf-8") && reads("b.docx", "utf-8"));
        assert!(
            !reads("report.pdf", "base64") && !reads("pdf", "utf-8") && !reads("a.rs", "utf-8")
        );
        let without = Registry::new(Vec::new(), Vec::new());
        let mut arguments = json!({"path": "a.pdf"});
        assert!(document_reader(&without, &built_in(READ_FILE), &mut arguments).is_none());
    }

    #[test]
    fn argument_forms_send_documents_of_the_compact_tool_to_their_reader() {
        let registry = Registry::new(vec![built_in(READ_DOCUMENT)], Vec::new());
        let mut compact = built_in(COMPACT);
        let schema = r#"{"type": "object", "properties": {"path": {}, "backup": {}}}"#;
        compact.definition.input_schema = crate::schema::Schema::parse(schema).unwrap();
        let mut arguments =
            json!({"operation": "read", "path": "a.pdf", "startLine": 2, "backup": true, "x": 1});
        let reader = document_reader(&registry, &compact, &mut arguments);
        assert!(reader.is_some());
        assert_eq!(
            arguments,
            json!({"operation": "read", "path": "a.pdf", "startLine": 2, "x": 1}),
            "an unknown argument is left for the schema"
        );
        for mut other in [
            json!({"operation": "delete", "path": "a.pdf"}),
            json!({"operation": "read", "path": "a.pdf", "encoding": "base64"}),
            json!({"path": "a.pdf"}),
        ] {
            assert!(document_reader(&registry, &compact, &mut other).is_none());
        }
    }
}
