//! Memory in use: the real component under the real pipeline.

use std::fs;

use mimir_core::ToolErrorCode;
use mimir_core::outcome::TrustLevel;
use mimir_kit::in_session;
use mimir_testkit::{Approve, Outcome, Testkit, Value, json};

/// A workspace with the bundled tools, and a person who denies everything.
fn kit() -> Testkit {
    let kit = Testkit::with_bundled(mimir_kit::builtins()).unwrap();
    kit.approve(Approve::Never)
}

fn done(kit: &Testkit, tool: &str, arguments: Value) -> Outcome {
    let outcome = kit.call(tool, arguments);
    assert!(outcome.is_ok(), "{tool}: {}", outcome.text());
    outcome
}

#[test]
fn memory_saved_text_is_found_and_read() {
    let kit = kit();
    assert_eq!(
        done(&kit, "memory_get", json!({})).text(),
        "nothing is saved yet"
    );
    assert_eq!(
        done(&kit, "memory_search", json!({"query": "x"})).text(),
        "nothing was found\n"
    );
    let folder = kit.path().join(".mimir/memory");
    assert!(!folder.exists(), "a look makes nothing");
    let saved = done(
        &kit,
        "memory_save",
        json!({"name": "build", "content": "# Build\nStaging is at port 8080.\n"}),
    );
    assert_eq!(saved.text(), "Saved `build` (2 lines)");
    done(
        &kit,
        "memory_save",
        json!({"name": "build", "content": "Tests take a minute."}),
    );
    assert_eq!(
        fs::read_to_string(folder.join("build.md")).unwrap(),
        "# Build\nStaging is at port 8080.\nTests take a minute.\n"
    );
    let found = done(
        &kit,
        "memory_search",
        json!({"query": "how long do the tests run"}),
    );
    assert_eq!(
        found.text(),
        "build:2-3\n    Staging is at port 8080.\n    Tests take a minute.\n"
    );
    let hits = found.result().unwrap().structured.clone().unwrap();
    assert_eq!(
        (&hits["hits"][0]["startLine"], &hits["byMeaning"]),
        (&json!(2), &json!(false))
    );
    let got = done(
        &kit,
        "memory_get",
        json!({"name": "build", "startLine": 2, "endLine": 2}),
    );
    assert_eq!(got.text(), "lines 2 to 2 of 3\nStaging is at port 8080.\n");
    assert!(kit.cards().is_empty(), "no approval was needed");
    assert_eq!(got.label().trust, TrustLevel::User);
    let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn memory_replace_asks_before_losing_text() {
    let kit = kit();
    let replace = |content: &str| json!({"name": "a", "content": content, "mode": "replace"});
    done(&kit, "memory_save", replace("first"));
    done(&kit, "memory_save", replace("first"));
    let outcome = kit.call("memory_save", replace("second"));
    assert_eq!(
        outcome.result().unwrap_err().code,
        ToolErrorCode::ApprovalDenied
    );
    let [card] = &kit.cards()[..] else {
        panic!("{:?}", kit.cards())
    };
    assert!(
        format!("{card:?}").contains("replaces the memory `a` (1 line)"),
        "{card:?}"
    );
    assert_eq!(
        fs::read_to_string(kit.path().join(".mimir/memory/a.md")).unwrap(),
        "first\n"
    );
}

#[test]
fn memory_of_untrusted_text_stays_untrusted() {
    let kit = kit().settings(json!({"tools": {
        "read_file": {"labels": {"outputTrust": "untrusted"}},
    }}));
    let kit = kit
        .unwrap()
        .workspace(|root| fs::write(root.join("page"), "theirs").unwrap());
    let session = |session: &str, tool: &str, arguments: Value| {
        let outcome = in_session(&kit, session, tool, arguments);
        assert!(outcome.is_ok(), "{tool}: {}", outcome.text());
        outcome.label().trust
    };
    let save = |name: &str, mode: &str| json!({"name": name, "content": format!("note {mode}"), "mode": mode});
    session("clean", "memory_save", save("mine", "append"));
    session("tainted", "read_file", json!({"path": "page"}));
    session("tainted", "memory_save", save("theirs", "append"));
    let name = |name: &str| json!({ "name": name });
    assert_eq!(session("s1", "memory_get", name("mine")), TrustLevel::User);
    assert_eq!(
        session("s2", "memory_get", name("theirs")),
        TrustLevel::Untrusted
    );
    // The session is tainted, so all memories that it saves from then on are untrusted.
    session("s2", "memory_save", save("later", "append"));
    assert_eq!(
        session("s3", "memory_get", name("later")),
        TrustLevel::Untrusted
    );
    assert_eq!(
        session("s4", "memory_search", json!({"query": "note"})),
        TrustLevel::Untrusted
    );
    assert_eq!(
        session("s5", "memory_get", json!({})),
        TrustLevel::Untrusted,
        "names are words"
    );
    // A memory with untrusted text stays untrusted after an addition, and after a person edits a line.
    session("s6", "memory_save", save("theirs", "append"));
    assert_eq!(
        session("s7", "memory_get", name("theirs")),
        TrustLevel::Untrusted
    );
    let file = kit.path().join(".mimir/memory/theirs.md");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.clone() + "mine\n").unwrap();
    assert_eq!(
        session("s8", "memory_get", name("theirs")),
        TrustLevel::Untrusted
    );
    // The file is replaced and then restored: it is still untrusted.
    let old = fs::read_to_string(&file).unwrap();
    let replace = json!({"name": "theirs", "content": "clean", "mode": "replace"});
    let kit = kit.approve(Approve::Always);
    let session = |session: &str, tool: &str, arguments: Value| {
        let outcome = in_session(&kit, session, tool, arguments);
        assert!(outcome.is_ok(), "{tool}: {}", outcome.text());
        outcome.label().trust
    };
    session("c1", "memory_save", replace);
    fs::write(&file, old).unwrap();
    assert_eq!(
        session("c2", "memory_get", name("theirs")),
        TrustLevel::Untrusted
    );
    // Other tools cannot read it without its mark.
    for (tool, arguments) in [
        ("read_file", json!({"path": ".mimir/memory/theirs.md"})),
        ("list_directory", json!({"path": ".mimir/memory"})),
    ] {
        let outcome = in_session(&kit, "c3", tool, arguments);
        assert!(!outcome.is_ok(), "{tool}: {}", outcome.text());
    }
    // Under a name that a person chose it is the person's own text.
    fs::write(file.with_file_name("checked.md"), text).unwrap();
    assert_eq!(
        session("s9", "memory_get", name("checked")),
        TrustLevel::User
    );
}

#[test]
fn memory_tools_obey_deny_globs() {
    let kit = kit().workspace(|root| {
        fs::create_dir_all(root.join(".mimir/memory")).unwrap();
        for name in ["open.md", "private.md"] {
            fs::write(root.join(".mimir/memory").join(name), "words\n").unwrap();
        }
    });
    let deny = json!({"deny": [".mimir/memory/private*"]});
    let tools = json!({"memory_get": deny, "memory_search": deny, "memory_save": deny});
    let kit = kit.settings(json!({ "tools": tools })).unwrap();
    let found = done(&kit, "memory_search", json!({"query": "words"})).text();
    assert!(
        found.contains("open:1-1") && !found.contains("private"),
        "{found}"
    );
    assert!(!kit.call("memory_get", json!({"name": "private"})).is_ok());
    let outcome = kit.call("memory_save", json!({"name": "private", "content": "x"}));
    assert!(!outcome.is_ok(), "{}", outcome.text());
    let kept = fs::read_to_string(kit.path().join(".mimir/memory/private.md"));
    assert_eq!(kept.unwrap(), "words\n");
}

#[test]
fn memory_saves_in_parallel_lose_nothing() {
    let kit = kit();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let kit = &kit;
            scope.spawn(move || {
                for at in 0..5 {
                    let content = format!("{thread} {at}");
                    done(
                        kit,
                        "memory_save",
                        json!({"name": "all", "content": content}),
                    );
                }
            });
        }
    });
    let text = fs::read_to_string(kit.path().join(".mimir/memory/all.md")).unwrap();
    assert_eq!(text.lines().count(), 30, "{text}");
}
