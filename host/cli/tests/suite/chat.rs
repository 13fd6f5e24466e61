//! `mimir chat` in a real terminal, with a scripted model on a local port.
#![cfg(unix)]

use crate::kit;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::kit::mimir;
use crate::kit::script::{Script, Step, calls, says};
use crate::kit::team::Team;
use serde_json::json;
use tempfile::TempDir;

/// A tmux terminal with a shell in a workspace.
struct Screen {
    home: TempDir,
    script: Script,
    socket: String,
}

/// Longer than any successful step; the first call of a tool compiles it.
const PATIENCE: Duration = Duration::from_secs(60);

impl Screen {
    /// A shell in a workspace with this model and these settings.
    fn new(name: &str, steps: Vec<Step>, settings: &str) -> Self {
        let script = Script::start(steps);
        let home = tempfile::tempdir().unwrap();
        let user = kit::config(home.path());
        fs::create_dir_all(&user).unwrap();
        let url = &script.url;
        let block = format!(
            "model: local/m\nproviders: {{local: {{api: anthropic, url: \"{url}\"}}}}\n{settings}"
        );
        fs::write(user.join("config.yml"), block).unwrap();
        fs::write(home.path().join("notes.txt"), "the answer is 42\n").unwrap();
        let socket = format!("mimir-{name}-{}", std::process::id());
        let screen = Self {
            home,
            script,
            socket,
        };
        let mut tmux = screen.tmux(&["new-session", "-d", "-x", "100", "-y", "45", "sh"]);
        let alone = mimir(screen.home.path(), &[]);
        let set = alone
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let started = tmux.envs(set).status().unwrap();
        assert!(started.success());
        // A root shell does not take it from its environment.
        screen.line("PS1='sh''ell> '");
        screen.see("shell>");
        screen
    }

    fn tmux(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .args(["-L", &self.socket, "-f", "/dev/null"])
            .args(args);
        command.current_dir(self.home.path());
        command
    }

    /// The text on the screen.
    fn shown(&self) -> String {
        let output = self
            .tmux(&["capture-pane", "-p", "-S", "-200"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the screen shows this text.
    fn see(&self, words: &str) {
        self.sees(words, 1);
    }

    /// Waits until the screen shows this text a number of times.
    fn sees(&self, words: &str, times: usize) {
        let start = Instant::now();
        while self.shown().matches(words).count() < times {
            assert!(
                start.elapsed() < PATIENCE,
                "never shown: {words}\n{}",
                self.shown()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses keys, by their tmux names.
    fn press(&self, keys: &[&str]) {
        let mut args = vec!["send-keys"];
        args.extend(keys);
        assert!(self.tmux(&args).status().unwrap().success());
    }

    /// Types a line.
    fn line(&self, words: &str) {
        assert!(
            self.tmux(&["send-keys", "-l", words])
                .status()
                .unwrap()
                .success()
        );
        self.press(&["Enter"]);
    }

    /// Leaves the chat once the prompt is shown: before that Ctrl-D would be ignored.
    fn leave(&self) {
        let start = Instant::now();
        while !self.shown().trim_end().ends_with("\n>") {
            assert!(start.elapsed() < PATIENCE, "no prompt\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(50));
        }
        self.press(&["C-d"]);
        self.see("ended=0");
    }

    fn chat(&self, args: &str) {
        self.line(&format!(
            "{} chat {args}; echo ended=$?",
            env!("CARGO_BIN_EXE_mimir")
        ));
        self.see("/help lists commands");
    }

    /// Waits until the model has received a number of requests.
    fn asked(&self, times: usize) -> String {
        let start = Instant::now();
        while self.script.asked().len() < times {
            assert!(start.elapsed() < PATIENCE, "{}", self.shown());
            std::thread::sleep(Duration::from_millis(50));
        }
        self.script.asked()[times - 1].body.to_string()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]).status();
    }
}

#[test]
#[ignore = "needs tmux"]
fn chat_supports_multiline_input_completion_and_history() {
    let screen = Screen::new(
        "talk",
        vec![
            Step::Says(
                vec!["Let me see."],
                vec![("read_file", json!({"path": "notes.txt"}).to_string())],
            ),
            Step::Says(vec!["It ", "is ", "42.\u{1b}[2J"], vec![]),
            says("both"),
            says("again"),
        ],
        "",
    );
    screen.chat("");
    screen.line("what is it?");
    screen.see("It is 42.");
    let shown = screen.shown();
    assert!(
        shown.contains("Let me see.") && shown.contains("→ read_file"),
        "{shown}"
    );
    assert!(shown.contains("✓ read_file"), "{shown}");
    // A line that is continued.
    screen.line("one \\");
    screen.line("two");
    assert!(
        screen.asked(3).contains("one \\ntwo"),
        "{}",
        screen.asked(3)
    );
    screen.see("both");
    // Tab completes commands and tools, and the history has earlier lines.
    screen.press(&["/", "c", "o", "s", "Tab", "Enter"]);
    screen.see("3 answers, 1 call");
    screen.press(&["u", "s", "e", "Space", "r", "e", "a", "d", "_", "Tab"]);
    screen.see("use read_file");
    screen.press(&["C-u", "Up", "Up", "Enter"]);
    assert!(
        screen.asked(4).matches("one \\ntwo").count() == 2,
        "{}",
        screen.asked(4)
    );
    screen.see("again");
    screen.leave();
    screen.see("mimir chat --resume");
    // The terminal is in its original state.
    screen.line("echo he''re");
    screen.see("here");
}

#[test]
#[ignore = "needs tmux"]
fn chat_approval_prompt_takes_no_later_input_as_answer() {
    let delete = || calls("delete_file", json!({"path": "notes.txt"}));
    let screen = Screen::new(
        "ask",
        vec![
            delete(),
            says("then not"),
            delete(),
            says("stopped it"),
            says("yes, hello"),
        ],
        "",
    );
    screen.chat("");
    screen.line("tidy up");
    screen.see("[n]o >");
    std::thread::sleep(Duration::from_millis(300));
    screen.line("n");
    screen.see("then not");
    assert!(screen.asked(2).contains("APPROVAL_DENIED"));
    // A cancelled prompt consumes none of the following lines.
    screen.line("tidy up again");
    screen.sees("[n]o >", 2);
    std::thread::sleep(Duration::from_millis(300));
    screen.press(&["C-c"]);
    screen.see("stopped it");
    assert!(screen.asked(4).contains("CANCELLED"));
    screen.line("y");
    screen.see("yes, hello");
    assert!(screen.home.path().join("notes.txt").exists());
    screen.leave();
}

#[test]
#[ignore = "needs tmux"]
fn chat_ctrl_c_cancels_the_call_then_the_reply() {
    let screen = Screen::new(
        "stop",
        vec![
            calls("exec", json!({"command": "sleep 50"})),
            Step::Hangs("stopped, and now I think for ever"),
            says("here I am"),
        ],
        "sandbox: none\nexecApprovals: {mode: full}\n",
    );
    screen.chat("");
    screen.line("wait");
    screen.see("→ exec");
    std::thread::sleep(Duration::from_millis(500));
    screen.press(&["C-c"]);
    screen.see("now I think for ever");
    assert!(screen.asked(2).contains("CANCELLED"), "{}", screen.asked(2));
    screen.press(&["C-c"]);
    screen.see("stopped\n");
    screen.line("are you there?");
    screen.see("here I am\n>");
    // At the prompt it only clears the line.
    screen.press(&["x"]);
    screen.see("> x");
    screen.press(&["C-c"]);
    screen.see("(press Ctrl-D or type /quit to end)");
    screen.line("/quit");
    screen.see("ended=0");
}

#[test]
#[ignore = "needs tmux"]
fn chat_resume_restores_the_untrusted_label() {
    let web = || calls("web_fetch", json!({"url": "https://example.invalid/x"}));
    let steps = vec![
        calls("read_file", json!({"path": "notes.txt"})),
        says("read it"),
        web(),
        says("then not"),
    ];
    let settings =
        "tools: {read_file: {labels: {outputTrust: untrusted}}, web_fetch: {approval: allow}}\n";
    let screen = Screen::new("read", steps, settings);
    screen.chat("");
    screen.line("read the notes");
    screen.see("read it");
    screen.leave();
    screen.line("clear");
    screen.chat("--resume");
    screen.line("fetch");
    screen.see("untrusted content");
    screen.see("[n]o >");
    std::thread::sleep(Duration::from_millis(300));
    screen.line("n");
    screen.see("then not");
    assert!(screen.asked(4).contains("APPROVAL_DENIED"));
}

/// A reply that makes a call, and one after the refusal of the call.
fn asks_and_goes_on() -> Vec<Step> {
    vec![
        calls("delete_file", json!({"path": "notes.txt"})),
        says("not done"),
        says("first"),
        says("second"),
    ]
}

#[test]
#[ignore = "needs tmux"]
fn chat_argument_input_ends_when_its_prompt_is_cancelled() {
    let screen = Screen::new("typed", asks_and_goes_on(), "");
    screen.line("unset EDITOR VISUAL");
    screen.chat("");
    screen.line("tidy up");
    screen.see("[n]o >");
    std::thread::sleep(Duration::from_millis(300));
    screen.line("e");
    screen.see("then an empty line");
    screen.line("{\"path\":");
    screen.press(&["C-c"]);
    screen.see("not done");
    for (part, at, answer) in [("are you there?", 3, "first"), ("and now?", 4, "second")] {
        screen.line(part);
        assert!(screen.asked(at).contains(part), "{}", screen.shown());
        screen.see(answer);
    }
    screen.leave();
}

#[test]
#[ignore = "needs tmux"]
fn chat_argument_editor_is_ended_with_its_prompt() {
    let settings = "approvals: {timeoutMs: 8000}\n";
    // One program ends on SIGTERM, the other does not.
    for (name, trap) in [("editor", ""), ("deaf", "trap '' TERM\n")] {
        let screen = Screen::new(name, asks_and_goes_on(), settings);
        let editor = screen.home.path().join("editor.sh");
        let text = format!(
            "#!/bin/sh\n{trap}stty raw -echo\nprintf editing\nsleep 600 &\necho $$ $! > pids\nwait\nwait\nsleep 600\n"
        );
        fs::write(&editor, text).unwrap();
        screen.line(&format!(
            "unset VISUAL; export EDITOR='sh {}'",
            editor.display()
        ));
        screen.chat("");
        screen.line("tidy up");
        screen.see("[n]o >");
        std::thread::sleep(Duration::from_millis(300));
        screen.line("e");
        screen.see("editing");
        screen.see("not done");
        let pids = fs::read_to_string(screen.home.path().join("pids")).unwrap();
        let pids: Vec<&str> = pids.split_whitespace().collect();
        assert_eq!(pids.len(), 2);
        for pid in pids {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            assert!(state.is_empty() || state.contains(") Z"), "{state}");
        }
        for (part, at, answer) in [("are you there?", 3, "first"), ("and now?", 4, "second")] {
            screen.line(part);
            assert!(screen.asked(at).contains(part), "{}", screen.shown());
            screen.see(answer);
        }
        screen.leave();
        // The terminal echoes input again.
        screen.line("echo he''re");
        screen.see("echo he''re");
        screen.see("\nhere");
    }
}

#[test]
#[ignore = "needs tmux"]
fn chat_shows_live_output_and_diffs_of_changed_files() {
    let steps = vec![
        calls(
            "exec",
            json!({"command": "for n in 1 2 3; do echo live $n; sleep 1; done; echo over"}),
        ),
        calls(
            "write_file",
            json!({"path": "notes.txt", "content": "the answer is 43\nand \u{1b}[2Jmore\n"}),
        ),
        calls(
            "write_file",
            json!({"path": "notes.txt", "content": "asked\n"}),
        ),
        says("all done"),
    ];
    let settings = "sandbox: none\nexecApprovals: {mode: full}\n\
        tools: {write_file: {rules: [{when: {content: {glob: \"asked*\"}}, decision: ask}], approval: allow}}\n";
    let screen = Screen::new("diff", steps, settings);
    screen.chat("");
    screen.line("change it");
    screen.see("  live 2");
    screen.see("✓ exec");
    screen.see("-the answer is 42");
    screen.see("+the answer is 43");
    screen.see("+and ");
    let shown = screen.shown();
    assert!(
        shown.contains("notes.txt +2 -1") && shown.contains("+and "),
        "{shown}"
    );
    assert!(shown.contains("→ exec"), "the screen was cleared: {shown}");
    // The lines of the command are gone with its progress line.
    assert!(!shown.contains("\n  live 2"), "{shown}");
    // A diff leaves the next question alone.
    screen.see("[n]o >");
    std::thread::sleep(Duration::from_millis(300));
    screen.line("y");
    screen.see("all done");
    screen.see("+asked");
    screen.leave();
    screen.line("clear");
    screen.line(&format!("{} chat --list", env!("CARGO_BIN_EXE_mimir")));
    screen.see("4 answers  change it");
}

#[test]
#[ignore = "needs tmux"]
fn chat_compact_shows_progress_and_can_be_cancelled() {
    let long: &'static str = Box::leak("many words ".repeat(300).into_boxed_str());
    let steps = vec![
        says(long),
        Step::Hangs(""),
        says("a summary"),
        says("after it"),
    ];
    let screen = Screen::new("compact", steps, "");
    screen.chat("");
    screen.line("talk");
    screen.see("many words");
    screen.line("/compact");
    screen.asked(2);
    std::thread::sleep(Duration::from_millis(500));
    screen.press(&["C-c"]);
    screen.see("stopped");
    screen.line("/compact");
    screen.see("2 older messages were summarised");
    screen.line("go on");
    screen.see("after it");
    let last = screen.asked(4);
    assert!(
        last.contains("a summary") && !last.contains("many words"),
        "{last}"
    );
    screen.leave();
}

#[test]
#[ignore = "needs tmux"]
fn chat_sends_a_prompt_of_the_users_team() {
    let screen = Screen::new("team-prompt", vec![says("Done.")], "");
    let mut team = Team::new("");
    team.bundle.prompts = vec![team.file("review.md", "Review it like Ann of Acme.\n")];
    team.publish();
    team.join(screen.home.path());
    screen.chat("");
    screen.line("/prompt");
    screen.see("review (team Acme) [Teams]");
    screen.line("/prompt review the last commit");
    let asked = screen.asked(1);
    assert!(
        asked.contains(r"Review it like Ann of Acme.\n\nthe last commit"),
        "{asked}"
    );
    screen.leave();
}
