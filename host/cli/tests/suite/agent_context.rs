//! Requests of an agent to its model, with images, cached parts and summaries, and the list of stored conversations.

use crate::kit;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use crate::kit::script::{Script, Step, calls, says};
use crate::kit::{mimir, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace with user settings, in addition to the scripted model. `block` continues the block of the provider.
fn home(script: &Script, api: &str, block: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let user = kit::config(home.path());
    fs::create_dir_all(&user).unwrap();
    let url = &script.url;
    let text =
        format!("model: local/m\nproviders:\n  local:\n    api: {api}\n    url: {url}\n{block}");
    fs::write(user.join("config.yml"), text).unwrap();
    fs::write(home.path().join("notes.txt"), "the answer is 42\n").unwrap();
    home
}

/// The output of a chat with these lines on its stdin, which is not a terminal.
fn chat(home: &Path, args: &[&str], lines: &str) -> (i32, String, String) {
    let mut all = vec!["chat"];
    all.extend(args);
    let mut child = mimir(home, &all)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The beginning of a PNG file with 300 x 200 pixels, and how it begins in base64.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x2c\0\0\0\xc8";
const ENCODED: &str = "iVBORw0KGgo";

const APIS: [&str; 3] = ["openai", "responses", "anthropic"];

#[test]
fn run_image_is_sent_only_to_a_model_that_reads_images() {
    for api in APIS {
        let script = Script::start(vec![says("a cat")]);
        let home = home(&script, api, "    vision: {m: true}\n");
        let picture = home.path().join("cat.png");
        fs::write(&picture, PICTURE).unwrap();
        let picture = picture.to_str().unwrap();
        let (code, out, err) = run(home.path(), &["run", "what is it?", "--image", picture]);
        assert_eq!((code, out.as_str()), (0, "a cat\n"), "{err}");
        let request = script.asked()[0].body.to_string();
        assert!(request.contains(ENCODED) && request.contains("what is it?"));

        for (file, content, words) in [
            (
                "page.png",
                b"<html>".as_slice(),
                "expected PNG, JPEG, GIF or WebP",
            ),
            (
                "large.png",
                &[0; (5 << 20) / 4 * 3 + 1],
                "expected at most 3.75 MiB",
            ),
        ] {
            let path = home.path().join(file);
            fs::write(&path, content).unwrap();
            let args = ["run", "hm", "--image", path.to_str().unwrap()];
            let (code, _, err) = run(home.path(), &args);
            assert!(code != 0 && err.contains(words), "{err}");
        }
        let folder = home.path().to_str().unwrap();
        let (_, _, err) = run(home.path(), &["run", "hm", "--image", folder]);
        assert!(err.contains("is not a file"), "{err}");
        assert_eq!(script.asked().len(), 1, "nothing was sent");
    }
    let script = Script::start(vec![says("a cat")]);
    let home = home(&script, "openai", "");
    fs::write(home.path().join("cat.png"), PICTURE).unwrap();
    let picture = home.path().join("cat.png");
    let args = ["run", "hm", "--image", picture.to_str().unwrap()];
    let (code, _, err) = run(home.path(), &args);
    assert_ne!(code, 0);
    assert!(
        err.contains("vision: {\"m\": true}") && err.contains("providers.local"),
        "{err}"
    );
    assert!(script.asked().is_empty());
}

#[test]
fn chat_image_is_attached_to_the_next_message() {
    let script = Script::start(vec![says("a cat"), says("yes")]);
    let home = home(&script, "anthropic", "    vision: {\"*\": true}\n");
    fs::write(home.path().join("my cat.png"), PICTURE).unwrap();
    let picture = home.path().join("my cat.png");
    let lines = format!("/image {}\nwhat is it?\nsure?\n/image\n", picture.display());
    let (code, out, err) = chat(home.path(), &[], &lines);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("a cat") && err.contains("attached "),
        "{out}{err}"
    );
    assert!(err.contains("0 images are attached"), "{err}");
    let images = |at: usize| script.asked()[at].body.to_string().matches(ENCODED).count();
    // It stays in the conversation, also after it is resumed.
    assert_eq!([images(0), images(1)], [1, 1]);
    chat(home.path(), &["--resume", "latest"], "still?\n");
    assert_eq!(images(2), 1);
}

#[test]
fn image_read_by_a_tool_is_sent_to_a_model_that_reads_images() {
    for api in APIS {
        let steps = vec![
            calls("read_file", json!({"path": "cat.png"})),
            says("a cat"),
        ];
        let script = Script::start(steps);
        let home = home(&script, api, "    vision: {m: true}\n");
        fs::write(home.path().join("cat.png"), PIXEL).unwrap();
        let (code, _, err) = run(home.path(), &["run", "look at the picture"]);
        assert_eq!(code, 0, "{err}");
        let request = script.asked()[1].body.to_string();
        assert!(request.contains(ENCODED), "{request}");
    }
}

/// A complete PNG file with one pixel.
const PIXEL: &[u8] =
    b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\
          \x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0d\x49\x44\x41\
          \x54\x78\x9c\x63\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99\x3d\x1d\x00\x00\
          \x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

#[test]
fn cached_tokens_are_counted_at_their_price() {
    for api in APIS {
        let script = Script::start(vec![Step::Cached("one")]);
        let prices =
            "    prices: {m: {input: 1000, output: 0, cacheRead: 100, cacheWrite: 2000}}\n";
        let home = home(&script, api, prices);
        let (code, out, err) = run(home.path(), &["run", "hi", "--json"]);
        assert_eq!(code, 0, "{err}");
        let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!(end["spent"]["inputTokens"], 100, "{end}");
        assert_eq!(end["spent"]["cachedTokens"], 80);
        let cost = end["spent"]["cost"].as_f64().unwrap();
        // Only Anthropic's protocol reports tokens that were written to the cache.
        let expected = if api == "anthropic" { 0.038 } else { 0.028 };
        assert!((cost - expected).abs() < 1e-9, "{api}: {cost}");
        let (_, _, err) = chat(home.path(), &["--resume"], "more\n/cost\n");
        assert!(err.contains("(160 from the provider's cache)"), "{err}");
    }
}

#[test]
fn request_of_the_next_turn_begins_like_the_last_one() {
    for api in APIS {
        let read = || calls("read_file", json!({"path": "notes.txt"}));
        let script = Script::start(vec![read(), read(), says("42")]);
        let home = home(&script, api, "");
        assert_eq!(run(home.path(), &["run", "what is it?"]).0, 0);
        let asked = script.asked();
        for key in ["tools", "system", "instructions"] {
            let texts: Vec<String> = asked.iter().map(|one| one.body[key].to_string()).collect();
            assert!(texts[0] == texts[1] && texts[1] == texts[2], "{api}: {key}");
        }
        let names: Vec<&str> = asked[0].body["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| {
                tool["name"]
                    .as_str()
                    .or(tool["function"]["name"].as_str())
                    .unwrap()
            })
            .collect();
        assert!(names.is_sorted() && names.len() > 5, "{names:?}");
    }
}

#[test]
fn conversations_are_listed_searched_and_deleted() {
    let script = Script::start(vec![says("The needle is here."), says("Nothing.")]);
    let home = home(&script, "openai", "");
    let (_, out, err) = run(home.path(), &["chat", "--list"]);
    assert!(out.contains("No conversations are stored"), "{out}{err}");
    assert_eq!(run(home.path(), &["run", "look for the needle"]).0, 0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(run(home.path(), &["run", "do something else"]).0, 0);

    let list = |args: &[&str]| -> Vec<Value> {
        let (code, out, err) = run(home.path(), &[&["chat", "--json"][..], args].concat());
        assert_eq!(code, 0, "{err}");
        let value: Value = serde_json::from_str(&out).unwrap();
        value["conversations"].as_array().unwrap().clone()
    };
    let all = list(&["--list"]);
    let words: Vec<&str> = all
        .iter()
        .map(|one| one["firstWords"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["do something else", "look for the needle"]);
    assert_eq!(
        (&all[0]["turns"], &all[0]["model"]),
        (&json!(1), &json!("local/m"))
    );
    let found = list(&["--search", "here NEEDLE"]);
    assert_eq!(found.len(), 1);
    assert!(
        found[0]["match"]
            .as_str()
            .unwrap()
            .contains("needle is here")
    );
    let (_, out, _) = run(home.path(), &["chat", "--list"]);
    assert!(
        out.contains("local/m  1 answer  do something else"),
        "{out}"
    );

    let id = all[1]["id"].as_str().unwrap();
    let (code, out, _) = run(home.path(), &["chat", "--delete", id]);
    assert!(code == 0 && out.contains(id), "{out}");
    assert_eq!(list(&["--list"]).len(), 1);
    let (code, _, err) = run(home.path(), &["chat", "--delete", id]);
    assert!(code == 2 && err.contains("--list"), "{code} {err}");
    assert_eq!(run(home.path(), &["chat", "--search", " "]).0, 2);
}

#[test]
fn agent_compaction_setting_selects_summary_or_trimming() {
    let read = || calls("read_file", json!({"path": "long.txt"}));
    for (mode, requests) in [
        ("", 5),
        ("compaction: summary, ", 5),
        ("compaction: trim, ", 4),
    ] {
        let script = Script::start(vec![
            read(),
            read(),
            read(),
            says("all the same"),
            says("done"),
        ]);
        // Few tools, so that the messages have space.
        let block =
            format!("agent: {{{mode}contextTokens: 6000}}\npolicy: {{allow: [read_file]}}\n");
        let home = home(&script, "openai", &block);
        fs::write(
            home.path().join("long.txt"),
            "a line of a long file\n".repeat(360),
        )
        .unwrap();
        let (code, out, err) = run(home.path(), &["run", "read it three times", "--json"]);
        assert_eq!(code, 0, "{err}");
        let events: Vec<&str> = out.lines().collect();
        let count = |name: &str| {
            let event = format!("{{\"event\":\"{name}\"");
            events
                .iter()
                .filter(|line| line.starts_with(&event))
                .count()
        };
        let summaries = usize::from(requests == 5);
        assert_eq!(
            (count("compacted"), script.asked().len()),
            (summaries, requests),
            "{out}"
        );
        assert_eq!(count("leftOut") > 0, summaries == 0, "{out}");
    }
}
