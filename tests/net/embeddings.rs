//! `memory_search` with an embeddings endpoint: approval, requests, and results.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_core::outcome::TrustLevel;
use mimir_kit::{builtins, in_session};
use mimir_testkit::{Approve, Testkit, Value, json};

use super::site::{ReceivedRequest, Site, reply};

/// A kit with some memories, without a person.
fn kit(settings: Value) -> Testkit {
    let kit = Testkit::with_bundled(builtins()).unwrap();
    let kit = kit.approve(Approve::Nobody).workspace(|root| {
        let folder = root.join(".mimir/memory");
        fs::create_dir_all(&folder).unwrap();
        fs::write(
            folder.join("garage.md"),
            "The automobile is in the garage.\n",
        )
        .unwrap();
        fs::write(folder.join("kitchen.md"), "How to cook.\n").unwrap();
    });
    kit.settings(settings).unwrap()
}

/// An endpoint with some synonyms.
fn endpoint() -> Site {
    Site::new(|received, stream| {
        reply(
            stream,
            "200 OK",
            "content-type: application/json\r\n",
            &vectors(received),
        )
    })
}

fn vectors(received: &ReceivedRequest) -> String {
    let asked: Value = serde_json::from_str(&received.body).unwrap();
    let texts = asked["input"].as_array().unwrap();
    let data = texts.iter().enumerate().map(|(index, text)| {
        let text = text.as_str().unwrap();
        let has = |words: [&str; 2]| u8::from(words.iter().any(|word| text.contains(word)));
        let vector = [has(["automobile", "vehicle"]), has(["cook", "meal"]), 0];
        json!({"object": "embedding", "index": index, "embedding": vector})
    });
    json!({"object": "list", "data": data.collect::<Vec<_>>(), "model": asked["model"]}).to_string()
}

fn search(kit: &Testkit, query: &str) -> Value {
    let outcome = kit.call("memory_search", json!({ "query": query }));
    let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
    output.structured.clone().unwrap()
}

#[test]
fn embeddings_find_memories_by_meaning() {
    let site = endpoint();
    let block = json!({"url": site.url("/v1/"), "model": "small", "dimensions": 3});
    let kit = kit(json!({ "embeddings": block }));
    let found = search(&kit, "vehicle");
    assert_eq!(
        (&found["byMeaning"], found.get("note")),
        (&json!(true), None),
        "{found}"
    );
    assert_eq!(found["hits"][0]["name"], "garage");
    let received = site.received();
    assert_eq!(received.len(), 2, "the query, and all notes at once");
    assert!(
        received[0].head.starts_with("POST /v1/embeddings "),
        "{}",
        received[0].head
    );
    assert_eq!(received[0].header("authorization"), None);
    let asked: Value = serde_json::from_str(&received[0].body).unwrap();
    assert_eq!(
        asked,
        json!({"model": "small", "input": ["vehicle"], "encoding_format": "float", "dimensions": 3})
    );
    // Unchanged memories are not sent again.
    search(&kit, "meal");
    assert_eq!(site.received().len(), 3);
    let file = kit.path().join(".mimir/memory/kitchen.md");
    fs::write(file, "How to cook, and when.\n").unwrap();
    search(&kit, "meal");
    assert_eq!(site.received().len(), 5);
    assert!(kit.cards().is_empty(), "a person has named it");
}

#[test]
fn embeddings_key_is_sent_only_in_the_header() {
    const VALUE: &str = "value-0123456789abcdef";
    let site = endpoint();
    let block = json!({"url": site.url("/v1"), "model": "small", "key": "VECTOR_KEY"});
    let kit = kit(json!({ "embeddings": block }));
    let kit = kit.secret("VECTOR_KEY", VALUE);
    assert_eq!(search(&kit, "vehicle")["byMeaning"], true);
    for received in site.received() {
        assert_eq!(
            received.header("authorization"),
            Some(&*format!("Bearer {VALUE}"))
        );
        assert!(!received.body.contains(VALUE));
    }
}

#[test]
fn embeddings_failure_falls_back_to_word_search() {
    let broken = Arc::new(AtomicBool::new(true));
    let fails = Arc::clone(&broken);
    let site = Site::new(
        move |received, stream| match fails.load(Ordering::Relaxed) {
            true => reply(stream, "500 Internal Server Error", "", "no vectors today"),
            false => reply(stream, "200 OK", "", &vectors(received)),
        },
    );
    let block = json!({"url": site.url("/v1"), "model": "small"});
    let kit = kit(json!({ "embeddings": block }));
    let found = search(&kit, "automobile");
    assert_eq!(
        (&found["byMeaning"], &found["hits"][0]["name"]),
        (&json!(false), &json!("garage"))
    );
    let note = found["note"].as_str().unwrap();
    assert!(note.contains("answered 500: no vectors today"), "{note}");
    broken.store(false, Ordering::Relaxed);
    assert_eq!(search(&kit, "automobile")["byMeaning"], true);
    // No server listens on this port.
    let block = json!({"url": "http://127.0.0.1:9/v1", "model": "small"});
    let kit = kit.settings(json!({ "embeddings": block })).unwrap();
    let found = search(&kit, "automobile");
    assert_eq!(
        (&found["byMeaning"], &found["hits"][0]["name"]),
        (&json!(false), &json!("garage"))
    );
    // The network is switched off.
    let block = json!({"url": site.url("/v1"), "model": "other"});
    let settings = json!({"embeddings": block, "network": {"mode": "none"}});
    let kit = kit.settings(settings).unwrap();
    let before = site.received().len();
    assert_eq!(search(&kit, "automobile")["byMeaning"], false);
    assert_eq!(site.received().len(), before);
}

#[test]
fn embeddings_after_untrusted_content_need_approval() {
    let site = endpoint();
    let block = json!({"url": site.url("/v1"), "model": "small"});
    let reads = json!({"read_file": {"labels": {"outputTrust": "untrusted"}}});
    let kit = kit(json!({ "embeddings": block, "tools": reads }));
    fs::write(kit.path().join("page"), "theirs").unwrap();
    let session =
        |session: &str, tool: &str, arguments: Value| in_session(&kit, session, tool, arguments);
    let query = json!({"query": "vehicle"});
    session("tainted", "read_file", json!({"path": "page"}));
    let outcome = session("tainted", "memory_search", query.clone());
    // No person is available, so only words are ranked.
    let found = outcome.result().unwrap().structured.as_ref().unwrap();
    assert_eq!(found["byMeaning"], false);
    assert!(site.received().is_empty());
    // If the person accepts untrusted content, the stored vectors do not taint later sessions.
    let lets = json!({"labels": {"acceptsUntrusted": true}});
    let mut reads = reads;
    reads["memory_search"] = lets;
    let kit = kit
        .settings(json!({ "embeddings": block, "tools": reads }))
        .unwrap();
    let session =
        |session: &str, tool: &str, arguments: Value| in_session(&kit, session, tool, arguments);
    session("tainted", "read_file", json!({"path": "page"}));
    assert!(session("tainted", "memory_search", query.clone()).is_ok());
    assert_eq!(site.received().len(), 2);
    let later = session("later", "memory_search", query);
    assert_eq!(site.received().len(), 3, "they are kept");
    assert_eq!(later.label().trust, TrustLevel::User);
}
