//! The example workspace of the specification: compact forms, two tools in YAML files, one of them switched off.

use std::fs;
use std::path::Path;

use crate::kit::run;
use serde_json::Value;
use tempfile::TempDir;

/// A tool of the example, with its documented token cost.
pub fn stated(name: &str, tokens: u32) -> String {
    format!(
        "name: {name}\ndescription: Looks at {name}.\ntokenCost: {tokens}\nschema: {{type: object}}\ncode: |\n  export async function execute() {{ return ''; }}\n"
    )
}

/// The example workspace: compact forms, two custom tools, one of them switched off.
pub fn workspace() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let tools = home.path().join(".mimir/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("run_suite.yml"), stated("run_suite", 450)).unwrap();
    let other = stated("analyze_dependencies", 380);
    fs::write(tools.join("analyze_dependencies.yml"), other).unwrap();
    fs::write(own(&home), CONFIG).unwrap();
    home
}

/// Its config.
pub const CONFIG: &str = "profile: compact\ntools:\n  # Disable if not needed\n  analyze_dependencies:\n    enabled: false # not now\n  showTokenCosts: true\n";

/// The path of its config.
pub fn own(home: &TempDir) -> std::path::PathBuf {
    home.path().join(".mimir/config.yml")
}

/// The output of a command that must succeed.
pub fn text(home: &Path, args: &[&str]) -> String {
    let (code, out, err) = run(home, args);
    assert_eq!(code, 0, "{args:?}: {err}");
    assert!(!out.contains('\u{1b}'), "{out}");
    out
}

/// The JSON output of a command that must succeed.
pub fn json(home: &Path, args: &[&str]) -> Value {
    let mut args = args.to_vec();
    args.push("--json");
    serde_json::from_str(&text(home, &args)).unwrap()
}
