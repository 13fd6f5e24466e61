//! The descriptions shipped with the built-in components equal those that the components return.

use std::fs;
use std::path::Path;

use mimir_kit::builtins;
use mimir_wasm::{HostOptions, Toolbox, WasmHost};

/// If this variable is set, the descriptions are rewritten.
const WRITE: &str = "MIMIR_WRITE_DESCRIPTIONS";

#[tokio::test]
async fn shipped_descriptions_match_the_components() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/builtins/src/descriptions");
    let workspace = tempfile::tempdir().unwrap();
    let host = WasmHost::new(HostOptions::new(workspace.path()));
    let output = Toolbox::new(host, builtins(), None).descriptions().await;
    let output = output.unwrap();
    assert_eq!(output.len(), builtins().len());
    for (builtin, (name, text)) in builtins().iter().zip(output) {
        assert_eq!(builtin.name, name);
        if std::env::var_os(WRITE).is_some() {
            fs::write(folder.join(format!("{name}.json")), &text).unwrap();
            continue;
        }
        assert!(
            builtin.description == Some(text.as_str()),
            "{name} says something else of itself now; this writes it down:\n  {WRITE}=1 cargo test --workspace --test all shipped_descriptions"
        );
    }
}
