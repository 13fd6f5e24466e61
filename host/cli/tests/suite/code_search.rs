//! `search_code` through the binary: what it finds, and what it may not read.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::kit::run;

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
