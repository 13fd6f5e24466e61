//! Tool arguments on the command line: JSON, stdin, or `key=value` pairs.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use mimir_core::name_suggestions::{did_you_mean, list_known};
use mimir_core::policy::schema_argument;
use mimir_core::{Tool, ToolError};
use serde_json::{Map, Value};

use crate::exit::{CommandFailure, CommandResult};
use mimir::file_error::file_error;

mod property_type;

use property_type::PropertyType;

pub use mimir_core::text::quote_for_shell;

/// Returns the command line of this process, quoted for a shell, with `mimir` as the program and control characters
/// escaped.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1);
    words.fold("mimir".to_owned(), |line, word| {
        line + " " + &quote_for_shell(&mimir_core::text::visible(&word.to_string_lossy()))
    })
}

/// Arguments as typed, before stdin or a file is read.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgumentInput {
    /// A JSON document.
    Json(Value),
    /// A JSON document on stdin.
    Stdin,
    /// Pairs of the form `key=value`.
    Pairs(Vec<ArgumentPair>),
}

/// A `key=value` argument.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentPair {
    key: String,
    value: PairValue,
}

#[derive(Debug, Clone, PartialEq)]
enum PairValue {
    /// `key=text`
    Text(String),
    /// `key:=json`
    Json(Value),
    /// `key=@file`
    File(PathBuf),
}

/// Maximum size of arguments from stdin or a file in bytes. The same as the default limit of a tool's result.
const MAX_INPUT_BYTES: u64 = 16 << 20;

impl ArgumentInput {
    /// Parses the words after the tool's name on the command line.
    pub fn parse(words: Vec<String>) -> CommandResult<Self> {
        if let [word] = words.as_slice() {
            if word == "-" {
                return Ok(ArgumentInput::Stdin);
            }
            if word.trim_start().starts_with(['{', '[', '"']) {
                let value = serde_json::from_str(word);
                return value.map(ArgumentInput::Json).map_err(|e| {
                    CommandFailure::usage(format!("the arguments are not JSON: {e}"))
                });
            }
        }
        if words
            .first()
            .is_some_and(|word| word.trim_start().starts_with('{'))
        {
            return Err(CommandFailure::usage(
                "JSON arguments must be a single word: put them in single quotes",
            ));
        }
        let pairs: CommandResult<Vec<ArgumentPair>> =
            words.iter().map(|word| ArgumentPair::parse(word)).collect();
        Ok(ArgumentInput::Pairs(pairs?))
    }

    /// Reads stdin or files if needed, and returns the arguments. `key=value` pairs get their types from the schema of
    /// `tool`; without a tool, any key is accepted.
    pub fn resolve(self, tool: Option<&Tool>) -> Result<Value, ToolError> {
        match self {
            ArgumentInput::Json(value) => Ok(value),
            ArgumentInput::Stdin => {
                let text = read_bounded(io::stdin().lock(), "stdin")?;
                serde_json::from_str(&text).map_err(|e| {
                    let hint = if text.trim().is_empty() {
                        " (it is empty)"
                    } else {
                        ""
                    };
                    ToolError::invalid_input(format!("stdin is not JSON: {e}{hint}"))
                })
            }
            ArgumentInput::Pairs(pairs) => {
                let schema =
                    tool.map_or(Value::Null, |tool| tool.definition.input_schema.to_value());
                let name = tool.map_or("", |tool| tool.name().as_str());
                let further = |key: &str| tool.and_then(|tool| schema_argument(tool, key));
                build_object(name, pairs, &schema, further)
            }
        }
    }
}

impl ArgumentPair {
    /// Creates a pair of the form `key=text`.
    #[cfg(test)]
    pub fn text(key: &str, text: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: PairValue::Text(text.to_owned()),
        }
    }

    fn parse(word: &str) -> CommandResult<Self> {
        let shown = || mimir_core::text::visible(mimir_core::text::prefix(word, 60));
        let Some((key, value)) = word
            .split_once('=')
            .filter(|(key, _)| !matches!(*key, "" | ":"))
        else {
            return Err(CommandFailure::usage(format!(
                "`{}` is neither key=value nor a JSON object; `mimir tools info TOOL` shows the arguments",
                shown()
            )));
        };
        let (key, value) = if let Some(key) = key.strip_suffix(':') {
            let json = serde_json::from_str(value);
            let json = json.map_err(|e| {
                CommandFailure::usage(format!(
                    "`{}`: the value after := is not JSON: {e}",
                    shown()
                ))
            })?;
            (key, PairValue::Json(json))
        } else if let Some(file) = value.strip_prefix('@') {
            if file.is_empty() {
                return Err(CommandFailure::usage(format!(
                    "`{}`: @ needs a file name, or - for stdin",
                    shown()
                )));
            }
            (key, PairValue::File(file.into()))
        } else {
            (key, PairValue::Text(value.to_owned()))
        };
        Ok(Self {
            key: key.to_owned(),
            value,
        })
    }
}

/// Builds an object from the pairs. The types of the values come from the schema. `further` returns the argument in the
/// schema that a key is a further name of.
fn build_object(
    tool: &str,
    pairs: Vec<ArgumentPair>,
    schema: &Value,
    further: impl Fn(&str) -> Option<&'static str>,
) -> Result<Value, ToolError> {
    let mut object = Map::new();
    for ArgumentPair { key, value } in pairs {
        let known = PropertyType::of_property(schema, &key)
            .or_else(|| PropertyType::of_property(schema, further(&key)?));
        let Some(property_type) = known else {
            return Err(unknown_argument(tool, &key, schema));
        };
        let value = match value {
            PairValue::Json(value) => value,
            PairValue::Text(text) => property_type.parse_value(text),
            PairValue::File(path) => property_type.parse_value(read_file(&path)?),
        };
        match object.get_mut(&key) {
            None => {
                object.insert(key, value);
            }
            Some(Value::Array(items)) if property_type.is_array() => match value {
                Value::Array(more) => items.extend(more),
                item => items.push(item),
            },
            Some(_) => {
                let shown = mimir_core::text::visible(&key);
                return Err(ToolError::invalid_input(format!(
                    "`{shown}` is given twice but takes a single value"
                )));
            }
        }
    }
    Ok(Value::Object(object))
}

/// Returns the error for an argument that the tool does not have. It lists those that it has.
fn unknown_argument(tool: &str, key: &str, schema: &Value) -> ToolError {
    let known = || {
        let properties = schema["properties"].as_object().into_iter();
        properties.flat_map(Map::keys).map(String::as_str)
    };
    let near = did_you_mean(key, known());
    let list = match list_known(known()) {
        Some(list) => format!("Its arguments: {list}. `mimir tools info {tool}` describes them."),
        None => "It takes no arguments.".to_owned(),
    };
    let shown = mimir_core::text::visible(key);
    ToolError::invalid_input(format!("`{tool}` has no argument `{shown}`.{near} {list}"))
}

fn read_file(path: &std::path::Path) -> Result<String, ToolError> {
    if path.as_os_str() == "-" {
        return read_bounded(io::stdin().lock(), "stdin");
    }
    let open = File::open(path).map_err(|e| file_error("open", path, &e))?;
    read_bounded(open, &path.display().to_string())
}

fn read_bounded(reader: impl Read, name: &str) -> Result<String, ToolError> {
    let mut bytes = Vec::new();
    let read = reader.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|e| ToolError::execution(format!("cannot read {name}: {e}")))?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        let max_size = mimir_core::text::bytes(MAX_INPUT_BYTES);
        return Err(ToolError::limit_exceeded(format!(
            "{name} is larger than {max_size}, the maximum for arguments"
        )));
    }
    String::from_utf8(bytes).map_err(|_| {
        ToolError::invalid_input(format!(
            "{name} is not UTF-8 text; if the tool takes `encoding: base64`, pass it in that form"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::ToolErrorCode;
    use serde_json::json;

    fn typed(schema: Value, words: &[&str]) -> Result<Value, ToolError> {
        let words = ArgumentInput::parse(words.iter().map(|word| (*word).to_owned()).collect());
        let Ok(ArgumentInput::Pairs(pairs)) = words else {
            panic!("{words:?}");
        };
        build_object("t", pairs, &schema, |key| (key == "depth").then_some("n"))
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "n": {"type": "integer"},
                "deep": {"type": "boolean"},
                "include": {"type": "array", "items": {"type": "string"}},
            },
            "additionalProperties": false,
        })
    }

    #[test]
    fn arguments_are_typed_by_the_schema() {
        let words = [
            "path=1",
            "n=12",
            "deep=true",
            "include=*.rs",
            "include=*.md",
        ];
        let expected = json!({"path": "1", "n": 12, "deep": true, "include": ["*.rs", "*.md"]});
        assert_eq!(typed(schema(), &words).unwrap(), expected);
    }

    #[test]
    fn arguments_have_further_names_with_the_same_type() {
        let words = ["depth=12", "path=a"];
        let expected = json!({"depth": 12, "path": "a"});
        assert_eq!(typed(schema(), &words).unwrap(), expected);
    }

    #[test]
    fn arguments_accept_json_arrays_and_equal_signs() {
        let words = ["include=[\"a\",\"b\"]", "include=c", "path=a=b"];
        assert_eq!(
            typed(schema(), &words).unwrap(),
            json!({"include": ["a", "b", "c"], "path": "a=b"})
        );
        assert_eq!(typed(schema(), &["n:=[1]"]).unwrap(), json!({"n": [1]}));
    }

    #[test]
    fn argument_key_typo_suggests_the_right_key() {
        let error = typed(schema(), &["pth=x"]).unwrap_err();
        let expected = "`t` has no argument `pth`. Did you mean `path`? Its arguments: ";
        assert!(error.message.starts_with(expected), "{error}");
        for name in ["path", "n", "deep", "include"] {
            assert!(error.message.contains(&format!("`{name}`")), "{error}");
        }
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let error = typed(none, &["x=1"]).unwrap_err();
        assert_eq!(
            error.message,
            "`t` has no argument `x`. It takes no arguments."
        );
        let error = typed(schema(), &["path=x", "path=y"]).unwrap_err();
        assert!(error.message.contains("twice"), "{error}");
    }

    #[test]
    fn arguments_with_at_sign_read_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a file");
        std::fs::write(&path, "ä\n").unwrap();
        let word = format!("path=@{}", path.display());
        assert_eq!(typed(schema(), &[&word]).unwrap(), json!({"path": "ä\n"}));
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(
            typed(schema(), &[&word]).unwrap_err().code,
            ToolErrorCode::InvalidInput
        );
        let missing = typed(schema(), &["path=@/no/such/file"]).unwrap_err();
        assert_eq!(missing.code, ToolErrorCode::FileNotFound);
    }

    #[test]
    fn argument_forms_stdin_json_and_pairs_are_distinguished() {
        let read = |words: &[&str]| {
            ArgumentInput::parse(words.iter().map(|word| (*word).to_owned()).collect())
        };
        assert_eq!(read(&["-"]).unwrap(), ArgumentInput::Stdin);
        assert_eq!(
            read(&["{\"a\":1}"]).unwrap(),
            ArgumentInput::Json(json!({"a": 1}))
        );
        assert_eq!(read(&[]).unwrap(), ArgumentInput::Pairs(vec![]));
        for bad in [
            &["{\"a\":"][..],
            &["{\"a\":", "1}"],
            &["word"],
            &["=x"],
            &[":=1"],
            &["k:=x"],
            &["k=@"],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
