//! `mimir tools build`: what is installed, and what a failed installation leaves in place.

use std::fs;
use std::path::Path;

use crate::kit::run;

/// Writes a plugin in JavaScript with one tool of this name.
fn write_plugin(home: &Path, folder: &str, tool: &str, description: &str) {
    let dir = home.join(folder);
    fs::create_dir_all(&dir).unwrap();
    fs::write(
        dir.join("package.json"),
        format!("{{\"name\": \"{folder}\"}}"),
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
