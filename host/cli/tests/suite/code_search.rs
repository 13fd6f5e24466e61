//! `search_code` through the binary: what it finds, and what it may not read.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::kit::json_site::{self, ReceivedRequest};
use crate::kit::{config, mimir, run};

/// Runs a search, and returns its places.
fn places(root: &Path, arguments: &[&str]) -> Vec<String> {
    let args = [&["call", "search_code"], arguments, &["--json"]].concat();
    let (code, out, err) = run(root, &args);
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    let outcome: Value = serde_json::from_str(&out).unwrap();
    let hits = outcome["structured"]["hits"].as_array().unwrap();
    hits.iter()
        .map(|hit| format!("{}:{}", hit["path"].as_str().unwrap(), hit["line"]))
        .collect()
}

fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    fs::create_dir_all(root.join("src")).unwrap();
    fs::create_dir_all(root.join("private")).unwrap();
    fs::create_dir_all(root.join(".mimir")).unwrap();
    fs::write(
        root.join("src/pool.py"),
        "class Pool:\n    def close_idle(self):\n        '''Closes idle connections.'''\n",
    )
    .unwrap();
    fs::write(
        root.join("src/main.py"),
        "pool = Pool()\n# close_idle is below\npool.close_idle()\n",
    )
    .unwrap();
    fs::write(root.join("private/a.py"), "def close_idle(): pass\n").unwrap();
    fs::write(root.join(".env"), "CLOSE_IDLE=close_idle\n").unwrap();
    home
}

#[test]
fn code_search_finds_definitions_uses_and_words() {
    let home = workspace();
    let root = home.path();
    assert_eq!(
        places(root, &["mode=symbols", "query=Pool.close_idle"]),
        ["src/pool.py:2", "private/a.py:1"]
    );
    assert_eq!(
        places(root, &["mode=references", "query=close_idle", "path=src"]),
        ["src/pool.py:2", "src/main.py:3"]
    );
    let words = places(root, &["query=where are idle connections closed?"]);
    assert!(words[0].starts_with("src/pool.py:"), "{words:?}");
    assert_eq!(
        places(root, &["mode=symbols", "query=pool", "kind=class"]),
        ["src/pool.py:1"]
    );
    for (arguments, expected) in [
        (["query=x", "kind=klass"], "expected one of class"),
        (["query=x", "language=cobol"], "expected one of c, "),
        (["query=x", "path=../other"], "leaves the workspace"),
        (["query=x", "path=lib"], "`lib` does not exist"),
        (["query=x", "path=src/pool.py/a"], "does not exist"),
        (["query= ", "mode=words"], "the query is empty"),
    ] {
        let (code, _, err) = run(root, &[&["call", "search_code"], &arguments[..]].concat());
        assert!(code != 0 && err.contains(expected), "{arguments:?}: {err}");
    }
}

#[test]
fn code_search_obeys_the_rules_of_the_moment() {
    let home = workspace();
    let root = home.path();
    let symbols = ["mode=symbols", "query=close_idle"];
    assert_eq!(places(root, &symbols).len(), 2);
    fs::write(
        root.join(".mimir/config.yml"),
        "files:\n  deny: ['private/**']\n",
    )
    .unwrap();
    assert_eq!(places(root, &symbols), ["src/pool.py:2"]);
    fs::write(
        root.join(".mimir/config.yml"),
        "policy:\n  deny: [search_code]\n",
    )
    .unwrap();
    let (code, _, err) = run(root, &["call", "search_code", "query=x"]);
    assert!(code == 3 && err.contains("POLICY_DENIED"), "{err}");
}

#[test]
fn code_search_index_is_private_and_built_again_when_damaged() {
    let home = workspace();
    let root = home.path();
    for number in 0..150 {
        let text = format!("def function_{number}(): pass\n");
        fs::write(root.join(format!("src/f{number}.py")), text).unwrap();
    }
    let symbols = ["mode=symbols", "query=function_77"];
    assert_eq!(places(root, &symbols), ["src/f77.py:1"]);
    let index = root.join(".mimir/state/code-index/index");
    let stored = fs::read(&index).unwrap();
    assert!(!stored.windows(5).any(|part| part == b".env\0"));
    let (code, _, err) = run(
        root,
        &["call", "read_file", "path=.mimir/state/code-index/index"],
    );
    assert!(code != 0 && err.contains("PERMISSION_DENIED"), "{err}");
    assert_eq!(places(root, &symbols), ["src/f77.py:1"]);
    fs::write(&index, &stored[..stored.len() / 2]).unwrap();
    assert_eq!(places(root, &symbols), ["src/f77.py:1"]);
    assert_eq!(fs::read(&index).unwrap().len(), stored.len());
    // Several processes at once.
    fs::remove_file(&index).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(places(root, &symbols), ["src/f77.py:1"]));
        }
    });
    assert!(fs::read(&index).is_ok_and(|bytes| !bytes.is_empty()));
}

#[test]
fn code_search_ignores_an_index_of_another_user() {
    let home = workspace();
    let root = home.path();
    for number in 0..150 {
        let text = format!("def function_{number}(): pass\n");
        fs::write(root.join(format!("src/f{number}.py")), text).unwrap();
    }
    // The key of the other user is in another folder.
    let other_user = tempfile::tempdir().unwrap();
    let mut search = mimir(root, &["call", "search_code", "query=function"]);
    search.env("MIMIR_CACHE_DIR", other_user.path());
    assert!(search.output().unwrap().status.success());
    let key = other_user.path().join("code-index.key");
    assert_eq!(fs::read(key).unwrap().len(), 32);
    let index = root.join(".mimir/state/code-index/index");
    let stored = fs::read(&index).unwrap();
    let symbols = ["mode=symbols", "query=function_77"];
    assert_eq!(places(root, &symbols), ["src/f77.py:1"]);
    let own = fs::read(&index).unwrap();
    assert_ne!(own, stored, "the index was not built again");
    // Only then, it is used again.
    assert_eq!(places(root, &symbols), ["src/f77.py:1"]);
    assert_eq!(fs::read(&index).unwrap(), own);
}

#[cfg(unix)]
#[test]
fn code_search_indexes_all_files_with_few_file_handles() {
    let home = workspace();
    let root = home.path();
    for number in 0..300 {
        let folder = root.join(format!("src/d{number}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("f.py"), "def function(): pass\n").unwrap();
    }
    let search = mimir(root, &["call", "search_code", "query=missing_everywhere"]);
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -n 128 && exec \"$0\" \"$@\""])
        .arg(search.get_program())
        .args(search.get_args())
        .current_dir(root)
        .stdin(Stdio::null());
    for (name, value) in search.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let output = limited.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("in 303 indexed files"), "{output:?}");
}

/// Answers an embeddings request: one dimension for each of two subjects.
fn vectors(request: &ReceivedRequest) -> (&'static str, String) {
    let asked: Value = serde_json::from_str(&request.body).unwrap();
    if asked["model"] == "broken" {
        return ("500 Internal Server Error", "no vectors today".to_owned());
    }
    let texts = asked["input"].as_array().unwrap();
    let data = texts.iter().enumerate().map(|(index, text)| {
        let text = text.as_str().unwrap();
        let has = |words: [&str; 2]| u8::from(words.iter().any(|word| text.contains(word)));
        let vector = [has(["backoff", "try again"]), has(["invoice", "billing"])];
        json!({"index": index, "embedding": vector})
    });
    let data: Vec<Value> = data.collect();
    ("200 OK", json!({ "data": data }).to_string())
}

/// Sets the embeddings endpoint of the user.
fn set_endpoint(root: &Path, port: u16, model: &str) {
    fs::create_dir_all(config(root)).unwrap();
    let url = format!("http://127.0.0.1:{port}/v1/");
    let block = json!({"url": url, "model": model, "key": "VECTOR_KEY"});
    let settings = json!({ "embeddings": block }).to_string();
    fs::write(config(root).join("config.yml"), settings).unwrap();
}

fn set_key(root: &Path, value: &str) {
    let mut set = mimir(root, &["secrets", "set", "VECTOR_KEY"]);
    let mut set = set.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = set.stdin.take().unwrap();
    input.write_all(value.as_bytes()).unwrap();
    drop(input);
    assert!(set.wait().unwrap().success());
}

#[test]
fn code_search_finds_by_meaning_with_an_embeddings_endpoint() {
    const KEY: &str = "vector-key-5d1c7e09ab";
    let home = workspace();
    let root = home.path();
    let net = root.join("src/net.py");
    let code = format!(
        "def send():\n    pass\n\ndef wait_longer():\n    backoff = 2\n    key = '{KEY}'\n"
    );
    fs::write(&net, code).unwrap();
    fs::write(
        root.join("private/b.py"),
        "def total():\n    return invoice\n",
    )
    .unwrap();
    let by_meaning = ["mode=meaning", "query=when does it try again"];
    let about_invoices = ["mode=meaning", "query=billing"];
    let (code, _, err) = run(root, &[&["call", "search_code"], &by_meaning[..]].concat());
    assert!(code != 0 && err.contains("mode"), "no endpoint: {err}");

    let (port, requests) = json_site::serve(vectors);
    let received = || -> Vec<ReceivedRequest> { requests.try_iter().collect() };
    set_endpoint(root, port, "small");
    set_key(root, KEY);
    assert_eq!(places(root, &by_meaning), ["src/net.py:4"]);
    let sent = received();
    assert_eq!(sent.len(), 2, "the query, and all passages");
    assert_eq!(sent[0].line(), "POST /v1/embeddings HTTP/1.1");
    for request in &sent {
        assert!(request.has_header(&format!("authorization: Bearer {KEY}")));
        assert!(!request.body.contains(KEY), "{}", request.body);
    }
    let passages = &sent[1].body;
    assert!(passages.contains("function wait_longer"), "{passages}");
    assert!(!passages.contains("CLOSE_IDLE"), "{passages}");

    // Only changed files are sent again, also by another process.
    assert_eq!(places(root, &about_invoices), ["private/b.py:1"]);
    assert_eq!(received().len(), 1);
    fs::write(&net, "def other():\n    backoff = 3\n").unwrap();
    assert_eq!(places(root, &by_meaning), ["src/net.py:1"]);
    let sent = received();
    assert_eq!(sent.len(), 2);
    assert!(!sent[1].body.contains("invoice"), "{}", sent[1].body);

    // What may not be read is not sent.
    fs::write(
        root.join(".mimir/config.yml"),
        "files:\n  deny: ['private/**']\n",
    )
    .unwrap();
    set_endpoint(root, port, "other");
    assert!(places(root, &about_invoices).is_empty());
    let sent = received();
    assert_eq!(sent.len(), 2);
    assert!(!sent[1].body.contains("invoice"), "{}", sent[1].body);

    // If the endpoint fails, words are compared.
    set_endpoint(root, port, "broken");
    let found = search_by_meaning(root, "query=backoff");
    assert_eq!(found["hits"][0]["path"], "src/net.py", "{found}");
    let note = found["note"].as_str().unwrap();
    assert!(note.contains("answered 500: no vectors today"), "{note}");
}

#[test]
fn code_search_by_meaning_compares_words_if_the_endpoint_does_not_respond() {
    let home = workspace();
    let root = home.path();
    let (port, _requests) = json_site::serve(|_| {
        std::thread::sleep(std::time::Duration::from_secs(600));
        ("200 OK", String::new())
    });
    set_endpoint(root, port, "small");
    set_key(root, "vector-key-5d1c7e09ab");
    fs::write(root.join(".mimir/config.yml"), "limits:\n  timeMs: 5000\n").unwrap();
    let found = search_by_meaning(root, "query=connections");
    assert_eq!(found["hits"][0]["path"], "src/pool.py", "{found}");
    let note = found["note"].as_str().unwrap();
    assert!(note.contains("did not respond in time"), "{note}");
}

/// Runs a search by meaning, and returns its structured output.
fn search_by_meaning(root: &Path, query: &str) -> Value {
    let args = ["call", "search_code", "mode=meaning", query, "--json"];
    let (code, out, err) = run(root, &args);
    assert_eq!(code, 0, "{out}{err}");
    serde_json::from_str::<Value>(&out).unwrap()["structured"].take()
}

#[test]
fn code_search_by_meaning_embeds_large_workspaces_step_by_step() {
    let home = workspace();
    let root = home.path();
    let functions = |file: usize| -> String {
        let number = |at: usize| format!("def f{file}_{at}():\n    pass\n");
        (0..100).map(number).collect()
    };
    for file in 0..6 {
        fs::write(root.join(format!("src/f{file}.py")), functions(file)).unwrap();
    }
    // Passages without text have no vectors.
    fs::write(root.join("src/__init__.py"), "\n\n").unwrap();
    fs::write(root.join("src/zy.py"), "\n\ndef zy(): pass\n").unwrap();
    let last = root.join("src/zz.py");
    fs::write(last, "def last():\n    return backoff\n").unwrap();
    let (port, requests) = json_site::serve(vectors);
    set_endpoint(root, port, "small");
    set_key(root, "vector-key-5d1c7e09ab");
    // Files that share words with the query come first.
    let found = search_by_meaning(root, "query=backoff");
    assert_eq!(found["hits"][0]["path"], "src/zz.py", "{found}");
    let note = found["note"].as_str().unwrap();
    assert!(note.starts_with("513 of 60"), "{note}");
    assert_eq!(requests.try_iter().count(), 1 + 512 / 64);
    assert_eq!(search_by_meaning(root, "query=backoff").get("note"), None);
    assert_eq!(requests.try_iter().count(), 1 + 2);
}
