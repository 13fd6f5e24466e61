//! `mimir tools` in a terminal, driven by tmux.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use crate::kit::tmux::Tmux;
use crate::kit::{mimir, run};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const CONFIG: &str = "# mine\nprofile: compact\ntools:\n  git: {enabled: true} # git\n";

fn workspace() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir/tools")).unwrap();
    fs::write(own(home.path()), CONFIG).unwrap();
    fs::write(tool(home.path()), TOOL).unwrap();
    home
}

const TOOL: &str = "name: aaa_first\ndescription: The first of all.\ntokenCost: 123\nschema: {type: object}\nruntime: bash\ncode: |\n  true\n";

fn own(home: &Path) -> std::path::PathBuf {
    home.join(".mimir/config.yml")
}

fn tool(home: &Path) -> std::path::PathBuf {
    home.join(".mimir/tools/first.yml")
}

/// The tool browser in a workspace. After it ends, the terminal shows its exit code and the terminal settings.
fn open(home: &Path, size: (u16, u16), variables: &str) -> Tmux {
    let alone = mimir(home, &[]);
    let set = alone.get_envs();
    let set = set.filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
    let set: String = set
        .map(|(name, value)| format!("{name}='{value}' "))
        .collect();
    let binary = env!("CARGO_BIN_EXE_mimir");
    let script = format!(
        "stty -g > before; echo earlier; {set}{variables} '{binary}' tools; echo \"ended $?\"; stty -g > after; echo all; read wait"
    );
    let tmux = Tmux::start(home, size, &script);
    tmux.wait_for_text("Tools:");
    tmux
}

/// Asserts that the terminal is restored, and that nothing of the browser is left on it.
fn is_given_back(tmux: &Tmux, home: &Path, code: i32) {
    let screen = is_its_own(tmux, home, code);
    assert!(
        screen.starts_with("earlier\n") && !screen.contains("Tools:"),
        "{screen}"
    );
}

/// Asserts that a resized terminal is restored, although its text is laid out differently.
fn is_its_own(tmux: &Tmux, home: &Path, code: i32) -> String {
    let screen = tmux.wait_for_text("all\n");
    assert!(screen.contains(&format!("ended {code}")), "{screen}");
    assert_eq!(
        (tmux.is("alternate_on"), tmux.is("cursor_flag")),
        ("0".to_owned(), "1".to_owned())
    );
    let read = |name| fs::read_to_string(home.join(name)).unwrap();
    assert_eq!(read("before"), read("after"));
    screen
}

#[test]
#[ignore = "needs tmux"]
fn tool_browser_filters_switches_and_shows_tools() {
    let home = workspace();
    let tmux = open(home.path(), (80, 24), "");
    let screen = tmux.screen();
    assert!(
        screen.contains("> ✓ aaa_first                [Custom]      ~123  The first of all."),
        "{screen}"
    );
    assert_eq!(screen.lines().count(), 24, "{screen}");
    tmux.keys(&["/", "g", "i", "t", "Enter"]);
    let screen = tmux.wait_for_text("> ✓ git ");
    assert!(!screen.contains("aaa_first"), "{screen}");
    tmux.keys(&["Space"]);
    tmux.wait_for_text("git is off (-");
    let off = CONFIG.replace("{enabled: true}", "{enabled: false}");
    assert_eq!(fs::read_to_string(own(home.path())).unwrap(), off);
    assert!(tmux.screen().contains("> ✗ git "), "{}", tmux.screen());
    tmux.keys(&["Space"]);
    tmux.wait_for_text("git is on (+");
    assert_eq!(fs::read_to_string(own(home.path())).unwrap(), CONFIG);
    tmux.keys(&["Enter"]);
    let page = tmux.wait_for_text("Description: ");
    assert!(
        page.starts_with("git\n") && page.contains("Token Cost: ~"),
        "{page}"
    );
    tmux.keys(&["End"]);
    tmux.wait_for_text("Last calls");
    tmux.keys(&["Escape"]);
    tmux.wait_for_text("> ✓ git ");
    // Changes made by others are shown.
    fs::write(own(home.path()), &off).unwrap();
    tmux.wait_for_text("> ✗ git ");
    fs::write(own(home.path()), "polcy: {}\n").unwrap();
    tmux.wait_for_text("unknown key");
    tmux.keys(&["Space"]);
    tmux.wait_for_text("unknown key");
    tmux.keys(&["Escape", "q"]);
    is_given_back(&tmux, home.path(), 0);
    // Without a terminal it prints the list.
    fs::write(own(home.path()), CONFIG).unwrap();
    let (code, out, _) = run(home.path(), &["tools"]);
    assert!(code == 0 && out.starts_with("Available Tools:\n"), "{out}");
}

#[test]
#[ignore = "needs tmux"]
fn tool_browser_works_in_tiny_terminals() {
    let home = workspace();
    let tmux = open(home.path(), (20, 6), "");
    let screen = tmux.screen();
    assert!(screen.contains("> ✓ aaa_first"), "{screen}");
    for line in screen.lines() {
        assert!(line.chars().count() <= 20, "{line:?}");
    }
    tmux.keys(&["Space"]);
    tmux.wait_for_text("aaa_first is off");
    tmux.keys(&["Enter"]);
    tmux.wait_for_text("Description:");
    for (width, height) in [
        ("10", "2"),
        ("4", "1"),
        ("1", "1"),
        ("200", "50"),
        ("80", "24"),
    ] {
        tmux.run(&["resize-window", "-x", width, "-y", height]);
        tmux.keys(&["Down", "Up"]);
    }
    tmux.wait_for_text("Description: The first of all.");
    tmux.keys(&["q"]);
    tmux.wait_for_text("Tools:");
    tmux.keys(&["q"]);
    is_its_own(&tmux, home.path(), 0);
}

#[test]
#[ignore = "needs tmux"]
fn tool_browser_colors_respect_no_color_and_dumb_terminals() {
    for (variables, coloured) in [("", true), ("NO_COLOR=1 ", false)] {
        let home = workspace();
        let tmux = open(home.path(), (80, 24), variables);
        let screen = tmux.run(&["capture-pane", "-p", "-e"]);
        assert_eq!(screen.contains("\u{1b}[38;5;2m"), coloured, "{screen:?}");
        tmux.keys(&["q"]);
        is_given_back(&tmux, home.path(), 0);
    }
    let home = workspace();
    let tmux = Tmux::start(
        home.path(),
        (80, 24),
        &format!("TERM=dumb {} tools; read wait", env!("CARGO_BIN_EXE_mimir")),
    );
    tmux.wait_for_text("mimir tools tokens");
    assert_eq!(tmux.is("alternate_on"), "0");
}

#[test]
#[ignore = "needs tmux"]
fn tool_browser_restores_the_terminal_on_signals() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 143)] {
        let home = workspace();
        let tmux = open(home.path(), (80, 24), "");
        let program = Pid::from_raw(tmux.program()).unwrap();
        kill_process(program, signal).unwrap();
        is_given_back(&tmux, home.path(), code);
    }
    let home = workspace();
    let tmux = open(home.path(), (80, 24), "");
    tmux.keys(&["/", "C-c"]);
    is_given_back(&tmux, home.path(), 130);
}

#[test]
#[ignore = "needs tmux"]
fn tool_browser_reports_a_tool_removed_while_shown() {
    let home = workspace();
    let tmux = open(home.path(), (80, 24), "");
    tmux.keys(&["Enter"]);
    tmux.wait_for_text("Description: The first of all.");
    fs::remove_file(tool(home.path())).unwrap();
    tmux.wait_for_text("aaa_first is gone");
    let screen = tmux.screen();
    assert!(
        screen.contains("Tools:") && !screen.contains("The first"),
        "{screen}"
    );
    // A new file is shown, and so is one that is invalid.
    fs::write(tool(home.path()), TOOL).unwrap();
    tmux.wait_for_text("✓ aaa_first");
    tmux.keys(&["Home"]);
    tmux.wait_for_text("> ✓ aaa_first");
    fs::remove_file(tool(home.path())).unwrap();
    tmux.keys(&["Space"]);
    tmux.wait_for_text("aaa_first is gone");
    assert_eq!(fs::read_to_string(own(home.path())).unwrap(), CONFIG);
    tmux.keys(&["q"]);
    is_given_back(&tmux, home.path(), 0);
}
