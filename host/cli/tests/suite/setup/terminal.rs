//! `mimir setup` and text in a terminal.

use super::*;
use crate::kit::tmux::Tmux;

/// `mimir setup` in a terminal.
fn open(machine: &Machine, args: &str) -> Tmux {
    open_at(machine, &format!("setup {args}"), 110)
}

/// A command in a terminal with this many columns.
fn open_at(machine: &Machine, args: &str, columns: u16) -> Tmux {
    let command = machine.command(&[]);
    let set: String = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
        .filter(|(name, _)| *name != "PATH")
        .map(|(name, value)| format!("{name}='{value}' "))
        .collect();
    let program = env!("CARGO_BIN_EXE_mimir");
    let script = format!("PAGER=cat {set} '{program}' {args}; echo \"ended $?\"; read wait");
    Tmux::start(&machine.path("project"), (columns, 400), &script)
}

#[test]
#[ignore = "needs tmux"]
fn setup_asks_and_shows_a_card() {
    let machine = Machine::with_agents(&["vscode"]);
    let tmux = open(&machine, "--agent vscode");
    let screen = tmux.wait_for_text("Make these changes? [y/N] >");
    let summary = "Setup writes .vscode/mcp.json for VS Code; it creates .mimir with the tool";
    assert!(screen.contains(summary), "{screen}");
    tmux.keys(&["n", "Enter"]);
    tmux.wait_for_text("ended 3");
    assert!(!machine.path("project/.vscode").exists());

    let tmux = open(&machine, "--agent vscode");
    tmux.wait_for_text("Make these changes? [y/N] >");
    tmux.keys(&["y", "Enter"]);
    tmux.wait_for_text("may `delete_file` run?");
    assert!(machine.path("project/mimir-example.txt").exists());
    tmux.wait_for_text("[n]o");
    tmux.keys(&["y", "Enter"]);
    let screen = tmux.wait_for_text("ended 0");
    assert!(screen.contains("Deleted mimir-example.txt."), "{screen}");
    assert!(!machine.path("project/mimir-example.txt").exists());

    let tmux = open(&machine, "--undo");
    tmux.wait_for_text("Make these changes? [y/N] >");
    tmux.keys(&["y", "Enter"]);
    tmux.wait_for_text("ended 0");
    assert!(!machine.path("project/.vscode").exists());
    assert!(!machine.path("project/.mimir").exists());
}

#[test]
#[ignore = "needs tmux"]
fn text_in_a_terminal_breaks_between_words() {
    let machine = Machine::with_agents(&["codex"]);
    machine.json(&["setup", "--yes"], 0);
    machine.write("home/.codex/config.toml", "# later\n[mcp_servers.mimir]\n");
    machine.write("empty/.keep", "");
    let folder = machine.path("empty").display().to_string();
    for (args, end) in [
        ("help", "ended 0"),
        ("help setup", "ended 0"),
        ("setup --undo", "[y/N] >"),
        (&format!("-C '{folder}'"), "ended 0"),
        ("call no_such_tool", "ended 2"),
    ] {
        let [narrow, wide] = [72, 240].map(|columns| {
            let screen = open_at(&machine, args, columns).wait_for_text(end);
            screen
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        // The same words, wherever the lines break.
        assert_eq!(narrow, wide, "{args}");
    }
}

#[test]
#[ignore = "needs tmux"]
fn setup_removes_its_example_after_a_refusal() {
    let machine = Machine::new();
    let tmux = open(&machine, "--agent qwen");
    tmux.wait_for_text("Make these changes? [y/N] >");
    tmux.keys(&["y", "Enter"]);
    tmux.wait_for_text("[n]o");
    tmux.keys(&["n", "Enter"]);
    let screen = tmux.wait_for_text("ended 0");
    assert!(screen.contains("The call was refused."), "{screen}");
    assert!(!machine.path("project/mimir-example.txt").exists());
}

#[test]
#[ignore = "needs tmux"]
fn setup_keeps_the_record_of_another_setup_that_ran_during_the_question() {
    let machine = Machine::with_agents(&["codex", "goose"]);
    // With a tool of its own, a setup makes no call.
    machine.write("project/.mimir/tools/mine.yml", "name: mine\n");
    let other = machine.path("other");
    fs::create_dir(&other).unwrap();
    let other = other.display().to_string();
    let tmux = open(&machine, "--agent goose");
    tmux.wait_for_text("Make these changes? [y/N] >");
    machine.json(&["setup", "--yes", "--agent", "codex", "-C", &other], 0);
    tmux.keys(&["y", "Enter"]);
    tmux.wait_for_text("ended 0");
    // Nor does an undo that waits for an answer forget what was set up meanwhile.
    let tmux = open(&machine, "--undo");
    tmux.wait_for_text("Make these changes? [y/N] >");
    let third = machine.path("third");
    fs::create_dir(&third).unwrap();
    let third = third.display().to_string();
    machine.json(&["setup", "--yes", "--agent", "goose", "-C", &third], 0);
    tmux.keys(&["y", "Enter"]);
    let screen = tmux.wait_for_text("ended 1");
    assert!(screen.contains("has changed meanwhile"), "{screen}");
    machine.json(&["setup", "--undo", "--yes"], 0);
    assert!(machine.path("home/.config/goose/config.yaml").exists());
    machine.json(&["setup", "--undo", "--yes", "-C", &third], 0);
    machine.json(&["setup", "--undo", "--yes", "-C", &other], 0);
    assert!(!machine.path("home/.codex/config.toml").exists());
    assert!(!machine.path("home/.config/goose/config.yaml").exists());
}
