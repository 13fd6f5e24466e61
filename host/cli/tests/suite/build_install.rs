//! `mimir tools build`: what is installed, and what a failed installation leaves in place.

use std::fs;
use std::path::Path;

use crate::kit::run;

/// Writes a plugin in JavaScript with one tool of this name.
fn write_plugin(home: &Path, folder: &str, tool: &str, description: &str) {
    write_package(home, folder, folder, tool, description);
}

/// Writes a plugin in JavaScript with a package of this name, and one tool.
fn write_package(home: &Path, folder: &str, package: &str, tool: &str, description: &str) {
    let dir = home.join(folder);
    fs::create_dir_all(&dir).unwrap();
    fs::write(
        dir.join("package.json"),
        format!("{{\"name\": \"{package}\"}}"),
    )
    .unwrap();
    fs::write(
        dir.join("tool.js"),
        format!(
            "import {{ defineTool }} from \"mimir\";\n\
            export default defineTool({{\n\
            name: \"{tool}\",\ndescription: \"{description}\",\n\
            inputSchema: {{ type: \"object\", properties: {{}} }},\nneedsApproval: false,\n\
            execute() {{ return \"from {folder}\"; }},\n}});\n"
        ),
    )
    .unwrap();
}

#[test]
fn built_plugin_does_not_take_the_name_of_another_tool() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    write_plugin(home.path(), "zulu", "word_count", "Counts words.");
    write_plugin(home.path(), "alpha", "word_count", "Counts words.");
    let (code, _, err) = run(home.path(), &["tools", "build", "zulu"]);
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = run(home.path(), &["tools", "build", "alpha"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(
        err.contains(".mimir/tools/zulu.wasm") && err.contains("mimir tools remove word_count"),
        "{err}"
    );
    assert!(!home.path().join(".mimir/tools/alpha.wasm").exists());
    let (code, out, err) = run(home.path(), &["call", "word_count"]);
    assert!(code == 0 && out.contains("from zulu"), "{out}{err}");
    // Building it again is no conflict with itself.
    let (code, _, err) = run(home.path(), &["tools", "build", "zulu"]);
    assert_eq!(code, 0, "{err}");

    write_plugin(home.path(), "files", "read_file", "Reads a file.");
    let (code, _, err) = run(home.path(), &["tools", "build", "files"]);
    assert!(code == 1 && err.contains("built in"), "{err}");
    assert!(!home.path().join(".mimir/tools/files.wasm").exists());
}

#[test]
fn plugin_that_cannot_be_called_does_not_replace_the_working_one() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    write_plugin(home.path(), "words", "word_count", "Counts words.");
    let (code, _, err) = run(home.path(), &["tools", "build", "words"]);
    assert_eq!(code, 0, "{err}");
    write_plugin(home.path(), "words", "word_count", "");
    let (code, out, err) = run(home.path(), &["tools", "build", "words"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("description"), "{err}");
    let (code, out, err) = run(home.path(), &["call", "word_count"]);
    assert!(code == 0 && out.contains("from words"), "{out}{err}");
}

#[test]
fn plugin_does_not_replace_one_of_the_same_name_from_another_folder() {
    let home = tempfile::tempdir().unwrap();
    let build = |folder: &str| run(home.path(), &["tools", "build", folder]);
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    write_package(home.path(), "old", "words", "word_count", "Counts words.");
    write_package(home.path(), "new", "words", "word_count", "Counts words.");
    let (code, _, err) = build("old");
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = build("new");
    assert_eq!(code, 1, "{out}{err}");
    for part in [
        ".mimir/tools/words.wasm was built from old, which has the same name; nothing was installed",
        "change the name of the plugin in new/package.json",
        "`mimir tools remove words.wasm`",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let (code, out, err) = run(home.path(), &["call", "word_count"]);
    assert!(code == 0 && out.contains("from old"), "{out}{err}");

    // The tool of a plugin may get another name.
    write_package(home.path(), "old", "words", "count_words", "Counts words.");
    let (code, _, err) = build("old");
    assert!(
        code == 0 && err.contains("is gone, with its tools: word_count"),
        "{err}"
    );
    // Both remedies work.
    write_package(home.path(), "new", "others", "word_count", "Counts words.");
    let (code, _, err) = build("new");
    assert_eq!(code, 0, "{err}");
    write_package(home.path(), "new", "words", "list_words", "Lists words.");
    let (code, _, err) = run(home.path(), &["tools", "remove", "words.wasm", "--yes"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = build("new");
    assert_eq!(code, 0, "{err}");
    // A plugin that was moved is the same one.
    fs::rename(home.path().join("new"), home.path().join("moved")).unwrap();
    let (code, _, err) = build("moved");
    assert_eq!(code, 0, "{err}");
}

#[test]
fn plugin_without_a_record_is_known_by_its_tools() {
    let home = tempfile::tempdir().unwrap();
    let build = |folder: &str| run(home.path(), &["tools", "build", folder]);
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    write_package(home.path(), "old", "words", "word_count", "Counts words.");
    write_package(home.path(), "new", "words", "list_words", "Lists words.");
    let (code, _, err) = build("old");
    assert_eq!(code, 0, "{err}");
    // As in a clone of a repository with the component.
    fs::remove_dir_all(home.path().join(".mimir/state")).unwrap();
    let (code, _, err) = build("new");
    assert!(
        code == 1 && err.contains("another plugin of the same name, with the tools word_count"),
        "{err}"
    );
    write_package(home.path(), "new", "words", "word_count", "Counts words.");
    let (code, _, err) = build("new");
    assert_eq!(code, 0, "{err}");
}
