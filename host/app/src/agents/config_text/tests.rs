use super::*;
use serde_json::json;

const FORMATS: [(ConfigFormat, &str); 3] = [
    (ConfigFormat::Json, "mcpServers"),
    (ConfigFormat::Toml, "mcp_servers"),
    (ConfigFormat::Yaml, "extensions"),
];

fn entry() -> Value {
    json!({ "command": "mimir", "args": ["serve", "-C", "/a \"b\""], "on": true, "timeout": 300 })
}

#[test]
fn config_text_sets_and_removes_an_entry_in_an_empty_file() {
    for (format, servers) in FORMATS {
        for text in ["", "\n"] {
            let set = format
                .edit(text, servers, EntryEdit::Set(&entry()))
                .unwrap();
            assert_eq!(format.entry(&set, servers).unwrap(), Some(entry()), "{set}");
            assert!(set.ends_with('\n') && !set.ends_with("\n\n"), "{set:?}");
            let removed = format
                .edit(&set, servers, EntryEdit::Remove { prune: true })
                .unwrap();
            assert_eq!(format.entry(&removed, servers).unwrap(), None);
            assert!(!removed.contains(servers), "{removed}");
        }
    }
}

#[test]
fn config_text_keeps_comments_order_and_line_ends() {
    for (format, servers, text) in [
        (
            ConfigFormat::Json,
            "mcpServers",
            "{\n  // first\n  \"z\": 1,\n  \"mcpServers\": {\n    /* mine */ \"other\": {\"command\": \"x\"}, // last\n  },\n  \"a\": [1,2],\n}\n",
        ),
        (
            ConfigFormat::Toml,
            "mcp_servers",
            "# first\nz = 1\n\n# mine\n[mcp_servers.other]\ncommand = 'x' # why\n\n[a]\nb = 2\n",
        ),
        (
            ConfigFormat::Yaml,
            "extensions",
            "# first\nz: 1\nextensions:\n  # mine\n  other:\n    cmd: 'x' # why\na: [1, 2]\n",
        ),
    ] {
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let set = format
                .edit(&text, servers, EntryEdit::Set(&entry()))
                .unwrap();
            assert_eq!(format.entry(&set, servers).unwrap(), Some(entry()), "{set}");
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let line = line.trim().trim_end_matches(['}', ']']);
                assert!(set.contains(line), "{line:?} is missing:\n{set}");
            }
            let has_crlf = text.contains("\r\n");
            assert_eq!(set.contains("\r\n"), has_crlf);
            assert_eq!(set.replace("\r\n", "").contains('\n'), !has_crlf, "{set:?}");
            let removed = format
                .edit(&set, servers, EntryEdit::Remove { prune: true })
                .unwrap();
            assert_eq!(format.parse(&removed), format.parse(&text), "{removed}");
        }
    }
}

#[test]
fn config_text_replaces_an_entry_and_nothing_else() {
    for (format, servers) in FORMATS {
        let old = json!({ "command": "old", "env": { "A": "b" } });
        let other = json!({ "command": "other" });
        let text = format.edit("", servers, EntryEdit::Set(&old)).unwrap();
        let new = format.edit(&text, servers, EntryEdit::Set(&other)).unwrap();
        assert_eq!(format.entry(&new, servers).unwrap(), Some(other), "{new}");
    }
}

#[test]
fn config_text_reports_line_and_column_of_a_syntax_error() {
    for (format, text, position) in [
        (ConfigFormat::Json, "{\n  \"a\": 1\n  \"b\": 2\n}", (2, 9)),
        (ConfigFormat::Json, "{\"a\": }", (1, 7)),
        (ConfigFormat::Json, "{'a': 1}", (1, 2)),
        (ConfigFormat::Toml, "a = 1\nb = = 2\n", (2, 5)),
        (ConfigFormat::Toml, "a = 1\na = 2\n", (2, 1)),
        (ConfigFormat::Yaml, "a: 1\nb: [1, 2\nc: 3\n", (3, 2)),
    ] {
        match format.parse(text) {
            Err(TextError::NotValid {
                line,
                column,
                message,
            }) => {
                assert_eq!((line, column), position, "{text}: {message}");
                assert!(!message.is_empty() && !message.contains('\n'), "{message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn config_text_of_another_form_is_not_edited() {
    for (format, servers, text) in [
        (ConfigFormat::Json, "mcpServers", "[1]"),
        (ConfigFormat::Json, "mcpServers", "{\"mcpServers\": []}"),
        (ConfigFormat::Json, "mcpServers", "{\"mcpServers\": null}"),
        (
            ConfigFormat::Json,
            "mcpServers",
            "{\"mcpServers\": {}, \"mcpServers\": {\"a\": 1}}",
        ),
        (ConfigFormat::Toml, "mcp_servers", "mcp_servers = 1\n"),
        (
            ConfigFormat::Toml,
            "mcp_servers",
            "[[mcp_servers]]\na = 1\n",
        ),
        (ConfigFormat::Yaml, "extensions", "extensions: [1]\n"),
        (ConfigFormat::Yaml, "extensions", "- a\n"),
    ] {
        let edited = format.edit(text, servers, EntryEdit::Set(&entry()));
        assert!(
            matches!(edited, Err(TextError::NotEditable(_))),
            "{text}: {edited:?}"
        );
    }
}

#[test]
fn config_text_handles_inline_tables_null_and_byte_order_marks() {
    let text = "mcp_servers = { other = { command = \"x\" } }\n";
    let set = ConfigFormat::Toml
        .edit(text, "mcp_servers", EntryEdit::Set(&entry()))
        .unwrap();
    assert!(set.contains("other = { command = \"x\" }"), "{set}");
    let set = ConfigFormat::Yaml
        .edit("extensions:\n", "extensions", EntryEdit::Set(&entry()))
        .unwrap();
    assert_eq!(
        ConfigFormat::Yaml.entry(&set, "extensions").unwrap(),
        Some(entry())
    );
    let set = ConfigFormat::Json
        .edit("\u{feff}{}", "servers", EntryEdit::Set(&entry()))
        .unwrap();
    assert!(set.starts_with("\u{feff}{"), "{set}");
}

#[test]
fn config_text_keeps_the_comment_above_a_removed_toml_entry() {
    let remove = |text: &str| {
        let edit = EntryEdit::Remove { prune: true };
        ConfigFormat::Toml.edit(text, "mcp_servers", edit).unwrap()
    };
    let table = "[mcp_servers.mimir]\ncommand = 'x'\n";
    let other = "\n# other\n[a]\nb = 2\n";
    assert_eq!(remove(&format!("# mine\n{table}")), "# mine\n");
    assert_eq!(
        remove(&format!("# mine\n{table}{other}")),
        format!("# mine\n{other}")
    );
    let last = "\n[z]\nc = 3\n";
    assert_eq!(
        remove(&format!("m = 1\n{other}\n# mine\n\n{table}{last}")),
        format!("m = 1\n{other}\n# mine\n\n{last}")
    );
    assert_eq!(remove(&format!("m = 1\n\n{table}")), "m = 1\n");
}
