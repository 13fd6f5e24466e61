//! `SKILL.md`: its frontmatter, checked as the Agent Skills specification requires, and its instructions.

use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::{Map, Value};

/// The name of the file with the instructions.
pub const SKILL_FILE: &str = "SKILL.md";

/// Maximum size of `SKILL.md` in bytes. The specification recommends fewer than 5,000 tokens.
pub const MAX_DOCUMENT_SIZE: usize = 256 << 10;

/// Maximum size of the frontmatter in bytes.
const MAX_FRONTMATTER_SIZE: usize = 64 << 10;

/// Maximum number of keys and list entries in the frontmatter.
const MAX_FRONTMATTER_VALUES: usize = 1_000;

/// Maximum lengths of the fields in characters.
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const MAX_COMPATIBILITY: usize = 500;
const MAX_LICENSE: usize = 1024;

/// A valid `SKILL.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillDocument {
    /// The name of the skill.
    pub name: String,
    /// The purpose of the skill, and when to use it.
    pub description: String,
    /// The license, if named.
    pub license: Option<String>,
    /// The requirements of the skill, if named.
    pub compatibility: Option<String>,
    /// The tools that the skill requests, in the order of `allowed-tools`.
    pub allowed_tools: Vec<String>,
    /// All fields of the frontmatter as written.
    pub frontmatter: Map<String, Value>,
    /// The instructions after the frontmatter.
    pub instructions: String,
}

impl SkillDocument {
    /// Reads a `SKILL.md`.
    ///
    /// # Errors
    /// Reports the first rule of the specification that the file breaks.
    pub fn parse(bytes: &[u8]) -> Result<Self, ToolError> {
        if bytes.len() > MAX_DOCUMENT_SIZE {
            return Err(ToolError::limit_exceeded(format!(
                "{SKILL_FILE} is longer than {}: move details to files that it names",
                mimir_core::text::bytes(MAX_DOCUMENT_SIZE as u64)
            )));
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|_| invalid("it is not valid UTF-8"))?
            .trim_start_matches('\u{feff}');
        let (yaml, instructions) = split_frontmatter(text)?;
        let frontmatter = parse_frontmatter(yaml)?;
        let name = required(&frontmatter, "name")?;
        check_name(name)?;
        let description = required(&frontmatter, "description")?;
        check_length("description", description, MAX_DESCRIPTION)?;
        let license = optional(&frontmatter, "license")?;
        if let Some(license) = license {
            check_length("license", license, MAX_LICENSE)?;
        }
        let compatibility = optional(&frontmatter, "compatibility")?;
        if let Some(compatibility) = compatibility {
            check_length("compatibility", compatibility, MAX_COMPATIBILITY)?;
        }
        check_metadata(&frontmatter)?;
        Ok(Self {
            name: name.to_owned(),
            description: description.to_owned(),
            license: license.map(str::to_owned),
            compatibility: compatibility.map(str::to_owned),
            allowed_tools: allowed_tools(&frontmatter)?,
            instructions: instructions.trim().to_owned(),
            frontmatter,
        })
    }

    /// Returns the description on one line, without control characters.
    pub fn shown_description(&self) -> String {
        let words: Vec<&str> = self.description.split_whitespace().collect();
        visible(&words.join(" "))
    }
}

/// Checks the name of a skill, which is also the name of its folder.
pub fn check_name(name: &str) -> Result<(), ToolError> {
    let is_valid = (1..=MAX_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if is_valid {
        return Ok(());
    }
    Err(invalid(format!(
        "`{}` is not a valid name: expected 1 to {MAX_NAME} lower-case letters, digits and single hyphens, such as `pdf-forms`",
        visible(prefix(name, MAX_NAME))
    )))
}

/// Splits a text into the YAML between the `---` lines, and the rest.
fn split_frontmatter(text: &str) -> Result<(&str, &str), ToolError> {
    let missing = || {
        invalid(
            "it does not begin with YAML frontmatter: expected a line `---`, the fields `name` and `description`, and a line `---`",
        )
    };
    let rest = text.strip_prefix("---").ok_or_else(missing)?;
    let rest = rest.strip_prefix('\r').unwrap_or(rest);
    let rest = rest.strip_prefix('\n').ok_or_else(missing)?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
        if at > MAX_FRONTMATTER_SIZE {
            return Err(ToolError::limit_exceeded(format!(
                "the frontmatter of {SKILL_FILE} is longer than {}",
                mimir_core::text::bytes(MAX_FRONTMATTER_SIZE as u64)
            )));
        }
    }
    Err(missing())
}

fn parse_frontmatter(yaml: &str) -> Result<Map<String, Value>, ToolError> {
    // Before the deserializer, which would expand aliases and follow any nesting.
    mimir_script::yaml::check_yaml(yaml).map_err(|rejection| invalid(rejection.to_string()))?;
    let frontmatter: Value =
        serde_yaml::from_str(yaml).map_err(|error| invalid(error.to_string()))?;
    let Value::Object(frontmatter) = frontmatter else {
        return Err(invalid("its frontmatter is not a list of `field: value`"));
    };
    if count_values(frontmatter.values()) > MAX_FRONTMATTER_VALUES {
        return Err(ToolError::limit_exceeded(format!(
            "the frontmatter of {SKILL_FILE} has more than {MAX_FRONTMATTER_VALUES} values"
        )));
    }
    Ok(frontmatter)
}

fn count_values<'a>(values: impl Iterator<Item = &'a Value>) -> usize {
    let counts = values.map(|value| match value {
        Value::Array(items) => 1 + count_values(items.iter()),
        Value::Object(fields) => 1 + count_values(fields.values()),
        _ => 1,
    });
    counts.sum()
}

fn required<'a>(frontmatter: &'a Map<String, Value>, field: &str) -> Result<&'a str, ToolError> {
    optional(frontmatter, field)?.ok_or_else(|| invalid(format!("`{field}` is missing")))
}

fn optional<'a>(
    frontmatter: &'a Map<String, Value>,
    field: &str,
) -> Result<Option<&'a str>, ToolError> {
    match frontmatter.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(format!(
            "`{field}` is not a text: put it in quotes"
        ))),
    }
}

fn check_length(field: &str, text: &str, max: usize) -> Result<(), ToolError> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > max {
        return Err(invalid(format!(
            "`{field}` has {length} characters: expected 1 to {max}"
        )));
    }
    Ok(())
}

fn check_metadata(frontmatter: &Map<String, Value>) -> Result<(), ToolError> {
    let is_flat = match frontmatter.get("metadata") {
        None | Some(Value::Null) => true,
        Some(Value::Object(metadata)) => {
            let mut values = metadata.values();
            values.all(|value| !value.is_object() && !value.is_array())
        }
        Some(_) => false,
    };
    if is_flat {
        Ok(())
    } else {
        Err(invalid("`metadata` is not a list of `key: text`"))
    }
}

/// Returns the entries of `allowed-tools`: a text with spaces between them, or as some authors write, a list.
fn allowed_tools(frontmatter: &Map<String, Value>) -> Result<Vec<String>, ToolError> {
    let wrong = || invalid("`allowed-tools` is not a text such as `Bash(git:*) Read`");
    match frontmatter.get("allowed-tools") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(split_entries(text)),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect(),
        Some(_) => Err(wrong()),
    }
}

/// Splits entries at spaces and commas outside of parentheses.
fn split_entries(text: &str) -> Vec<String> {
    let mut entries = vec![String::new()];
    let mut depth = 0_usize;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let separates = depth == 0 && (character == ',' || character.is_whitespace());
        if separates {
            entries.push(String::new());
        } else if let Some(entry) = entries.last_mut() {
            entry.push(character);
        }
    }
    entries.retain(|entry| !entry.is_empty());
    entries
}

fn invalid(why: impl std::fmt::Display) -> ToolError {
    ToolError::new(
        ToolErrorCode::InvalidInput,
        format!("{SKILL_FILE} is not valid: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SkillDocument, String> {
        SkillDocument::parse(text.as_bytes()).map_err(|error| error.message)
    }

    #[test]
    fn skill_document_reads_all_fields() {
        let skill = parse(
            "---\nname: pdf-forms\ndescription: >\n  Fills forms.\n  Use for PDFs.\nlicense: MIT\ncompatibility: Needs git\nmetadata:\n  version: \"1.0\"\nallowed-tools: Bash(git add:*) Read, WebFetch(domain:a.example)\nextra: [1]\n---\n# Forms\n",
        )
        .unwrap();
        assert_eq!(skill.name, "pdf-forms");
        assert_eq!(skill.shown_description(), "Fills forms. Use for PDFs.");
        assert_eq!(skill.license.as_deref(), Some("MIT"));
        assert_eq!(
            skill.allowed_tools,
            ["Bash(git add:*)", "Read", "WebFetch(domain:a.example)"]
        );
        assert_eq!(skill.instructions, "# Forms");
        assert_eq!(skill.frontmatter["extra"][0], 1);
    }

    #[test]
    fn skill_document_rejects_what_the_specification_forbids() {
        let with =
            |name: &str, more: &str| format!("---\nname: {name}\ndescription: d\n{more}---\n");
        for name in ["PDF", "-a", "a-", "a--b", "a_b", "a/b", "..", "'a b'", "é"] {
            let error = parse(&with(name, "")).unwrap_err();
            assert!(error.contains("is not a valid name"), "{name}: {error}");
        }
        for (text, expected) in [
            ("# no frontmatter".to_owned(), "does not begin with"),
            ("---\nname: a\n".to_owned(), "does not begin with"),
            ("---\nname: a\n---\n".to_owned(), "`description` is missing"),
            ("---\ndescription: a\n---\n".to_owned(), "`name` is missing"),
            (
                "---\nname: 1\ndescription: a\n---\n".to_owned(),
                "not a text",
            ),
            (
                "---\nname: a\ndescription: ''\n---\n".to_owned(),
                "expected 1 to 1024",
            ),
            ("---\n- a\n---\n".to_owned(), "not a list of"),
            (with(&"a".repeat(65), ""), "is not a valid name"),
            (with("a", "metadata: {b: {c: d}}\n"), "`metadata`"),
            (with("a", "allowed-tools: 3\n"), "`allowed-tools`"),
            (
                with("a", &format!("compatibility: {}\n", "x".repeat(501))),
                "expected 1 to 500",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let long = format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1025));
        assert!(parse(&long).unwrap_err().contains("expected 1 to 1024"));
        assert!(SkillDocument::parse(b"---\nname: a\xff\n---\n").is_err());
    }

    #[test]
    fn skill_document_bounds_frontmatter() {
        let nested = format!("---\nname: a\nx: {}\n---\n", "[".repeat(5_000));
        assert!(parse(&nested).is_err());
        let mut laughs = "---\nname: a\ndescription: d\na: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (name, previous) in ["b", "c", "d", "e", "f", "g", "h", "i"]
            .iter()
            .zip("abcdefgh".chars())
        {
            let list = vec![format!("*{previous}"); 10].join(",");
            laughs.push_str(&format!("{name}: &{name} [{list}]\n"));
        }
        laughs.push_str("---\n");
        assert!(parse(&laughs).is_err());
        let many = format!(
            "---\nname: a\ndescription: d\nx: [{}]\n---\n",
            "1,".repeat(2_000)
        );
        assert!(parse(&many).unwrap_err().contains("more than 1000 values"));
        let long = format!("---\nname: a\nx: {}\n---\n", "y\n".repeat(40_000));
        assert!(parse(&long).unwrap_err().contains("longer than"));
        let huge = format!(
            "---\nname: a\ndescription: d\n---\n{}",
            "x".repeat(MAX_DOCUMENT_SIZE)
        );
        assert!(parse(&huge).unwrap_err().contains("longer than"));
    }
}
