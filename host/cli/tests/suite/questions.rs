//! Questions on a real terminal.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use crate::kit::tmux::Tmux;
use crate::kit::{config, plugin, program, run};

/// Starts a command that waits for the file `go` in its folder before it begins.
fn start(home: &Path, args: &str) -> Tmux {
    let script = format!(
        "export MIMIR_CONFIG_DIR='{}' MIMIR_CACHE_DIR='{}'; echo ready; while [ ! -e go ]; do sleep 0.1; done; \
         '{}' {args}; echo \"ended $?\"; read wait",
        config(home).display(),
        crate::kit::target_folder("cache").display(),
        program(),
    );
    Tmux::start(home, (100, 100), &script)
}

#[test]
#[ignore = "needs tmux"]
fn question_ignores_an_answer_that_was_typed_before_it() {
    let home = tempfile::tempdir().unwrap();
    let tools = home.path().join(".mimir/tools");
    fs::create_dir_all(&tools).unwrap();
    let component = tools.join("prob.wasm");
    fs::write(&component, plugin::search()).unwrap();
    for (args, outcome) in [
        ("tools trust prob_search", "nothing was granted"),
        ("tools remove prob", "nothing was removed"),
    ] {
        let _ = fs::remove_file(home.path().join("go"));
        let tmux = start(home.path(), args);
        tmux.wait_for_text("ready");
        tmux.keys(&["y", "Enter", "y", "Enter"]);
        tmux.wait("the typed lines", |screen| screen.matches('y').count() > 2);
        fs::write(home.path().join("go"), "").unwrap();
        let screen = tmux.wait_for_text("[y/N] >");
        assert!(!screen.contains("ended"), "{args}: {screen}");
        tmux.keys(&["n", "Enter"]);
        let screen = tmux.wait_for_text("ended 3");
        assert!(screen.contains(outcome), "{args}: {screen}");
        // A person on a terminal has answered.
        assert!(!screen.contains("without a terminal"), "{args}: {screen}");
        assert!(component.exists(), "{args}");
        assert!(!home.path().join(".mimir/tools.lock").exists(), "{args}");
    }
    // An answer to the question counts.
    let tmux = start(home.path(), "tools trust prob_search");
    tmux.wait_for_text("[y/N] >");
    tmux.keys(&["y", "Enter"]);
    tmux.wait_for_text("ended 0");
    assert!(home.path().join(".mimir/tools.lock").exists());
    // Without a terminal, the error says what to do instead.
    let (code, _, err) = run(home.path(), &["tools", "remove", "prob"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("without a terminal, use"), "{err}");
}
