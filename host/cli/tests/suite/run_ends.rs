//! Unsuccessful ends of tasks, and commands of a chat that take effect at once.

use crate::kit;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::kit::script::{Script, Step, calls, says};
use crate::kit::{mimir, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace whose user has the scripted model.
fn home(script: &Script) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let user = kit::config(home.path());
    fs::create_dir_all(&user).unwrap();
    let url = &script.url;
    let block = format!(
        "model: local/m\nproviders: {{local: {{api: openai, url: \"{url}\", prices: {{m: {{input: 10, output: 100}}}}}}}}\n"
    );
    fs::write(user.join("config.yml"), block).unwrap();
    fs::write(home.path().join("notes.txt"), "the answer is 42\n").unwrap();
    home
}

/// The last line of the output.
fn end(out: &str) -> Value {
    let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(end["event"], "end", "{out}");
    end
}

/// The output of a chat with these lines on its stdin, which is not a terminal.
fn chat(home: &Path, lines: &str) -> (String, String) {
    let mut command = mimir(home, &["chat"]);
    command.stdin(Stdio::piped());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    to.write_all(lines.as_bytes()).unwrap();
    drop(to);
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr))
}

#[test]
fn run_with_an_empty_task_reports_invalid_input() {
    let script = Script::start(vec![says("hello")]);
    let home = home(&script);
    for task in ["", "  ", "-"] {
        let (code, out, err) = run(home.path(), &["run", "--json", task]);
        assert_eq!((code, out.lines().count()), (2, 1), "{out}{err}");
        let end = end(&out);
        assert_eq!(
            (&end["ok"], &end["error"]["code"]),
            (&json!(false), &json!("INVALID_INPUT"))
        );
    }
    assert!(script.asked().is_empty());
}

#[test]
fn run_with_an_empty_model_reply_fails() {
    let nothing = || Step::Says(vec![], vec![]);
    let script = Script::start(vec![nothing()]);
    let mute = home(&script);
    let (code, out, err) = run(mute.path(), &["run", "hi"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("an empty answer"), "{err}");
    assert!(err.contains("--model") && err.contains("1 answer"), "{err}");
    let (code, out, _) = run(mute.path(), &["run", "hi", "--json"]);
    let told = end(&out);
    assert_eq!((code, &told["ok"]), (1, &json!(false)));
    assert_eq!(told["error"]["code"], "UNAVAILABLE");
    assert_eq!(told["spent"]["turns"], 1);
    // After a call the model may have nothing left to say.
    let call = calls("read_file", json!({"path": "notes.txt"}));
    let script = Script::start(vec![call, nothing()]);
    let home = home(&script);
    let (code, out, err) = run(home.path(), &["run", "hi", "--json"]);
    assert_eq!((code, &end(&out)["ok"]), (0, &json!(true)), "{err}");
}

#[cfg(unix)]
#[test]
fn run_interrupted_still_counts_the_tokens() {
    use std::io::{BufRead as _, BufReader};
    let script = Script::start(vec![Step::Hangs("Well, let me see.")]);
    let home = home(&script);
    let mut command = mimir(home.path(), &["run", "hi", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let heard = out.find(|line| line.as_ref().unwrap().contains("let me see"));
    assert!(heard.is_some());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let told = end(&out.last().unwrap().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(told["error"]["code"], "CANCELLED");
    let spent = &told["spent"];
    assert_eq!(
        (&spent["turns"], &spent["outputTokens"]),
        (&json!(1), &json!(5))
    );
    assert!(spent["inputTokens"].as_u64().unwrap() > 100, "{spent}");
    assert!(spent["cost"].as_f64().unwrap() > 0.001, "{spent}");
}

#[cfg(unix)]
#[test]
fn run_interrupted_counts_the_tokens_of_workers() {
    let call = json!({"worker": "thinker", "task": "think"});
    let script = Script::start(vec![
        calls("worker_call", call),
        Step::Hangs("Well, let me see."),
    ]);
    let home = home(&script);
    let folder = home.path().join(".mimir/workers");
    fs::create_dir_all(&folder).unwrap();
    let worker = "instructions: You think.\ndescription: Thinks.\ntoolsets: {filesystem: {readOnly: true}}\n";
    fs::write(folder.join("thinker.yml"), worker).unwrap();
    assert_eq!(run(home.path(), &["policy", "accept", "--yes"]).0, 0);
    let task = ["run", "hi", "--json", "--approve", "always"];
    let child = mimir(home.path(), &task).stdout(Stdio::piped()).spawn();
    let child = child.unwrap();
    let start = std::time::Instant::now();
    while script.asked().len() < 2 {
        assert!(start.elapsed().as_secs() < 60, "the worker never asks");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The model records a request before it answers, and no event shows that a worker has read the answer.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = end(&String::from_utf8(output.stdout).unwrap());
    // 10 tokens of the agent's own answer, and 5 of the worker's.
    let spent = &told["spent"];
    assert_eq!(
        (&spent["turns"], &spent["outputTokens"]),
        (&json!(2), &json!(15)),
        "{told}"
    );
}

#[test]
fn chat_tools_disable_applies_at_once() {
    let read = || calls("read_file", json!({"path": "notes.txt"}));
    let script = Script::start(vec![read(), says("not then"), read(), says("done")]);
    let home = home(&script);
    let lines = "/tools disable read_file\nread\n/tools enable read_file\nread\n";
    let (out, err) = chat(home.path(), lines);
    assert!(
        out.contains("not then") && out.contains("done"),
        "{out}{err}"
    );
    let asked = script.asked();
    let offered = |at: usize| {
        asked[at].body["tools"]
            .to_string()
            .contains("\"read_file\"")
    };
    assert_eq!([offered(0), offered(2)], [false, true], "{err}");
    let results = asked[3].results();
    assert!(!results[0].contains("the answer is 42"), "{results:?}");
    assert!(results[1].contains("the answer is 42"), "{results:?}");
}

#[test]
fn approval_remedies_fit_the_command() {
    let steps = || {
        let delete = calls("delete_file", json!({"path": "notes.txt"}));
        Script::start(vec![delete, says("then not")])
    };
    let script = steps();
    let (_, _, err) = run(home(&script).path(), &["run", "tidy up"]);
    assert!(err.contains("`mimir run --approve always`"), "{err}");
    assert!(!err.contains("this one call"), "{err}");
    let script = steps();
    let (_, err) = chat(home(&script).path(), "tidy up\n");
    assert!(err.contains("`mimir chat` on a terminal"), "{err}");
    assert!(!err.contains("--approve"), "{err}");
    let delete = ["call", "delete_file", "path=notes.txt"];
    let (_, _, err) = run(home(&script).path(), &delete);
    assert!(
        err.contains("use `--approve always` to allow this call"),
        "{err}"
    );
}
