use super::*;
use crate::outcome::{DataClass, TrustLevel};

fn label(origin: &str) -> ContentLabel {
    ContentLabel {
        trust: TrustLevel::Untrusted,
        data_class: DataClass::Public,
        origin: origin.to_owned(),
    }
}

fn value(text: &str) -> StoredValue {
    StoredValue {
        bytes: text.as_bytes().to_vec(),
        label: label("test:tool"),
    }
}

fn values(workspace: &Path, location: &str) -> PluginValues {
    PluginValues::new(workspace, location)
}

#[test]
fn storage_values_round_trip_with_their_labels() {
    let workspace = tempfile::tempdir().unwrap();
    let kept = values(workspace.path(), ".mimir/tools/a b.wasm");
    assert!(kept.folder().starts_with(workspace.path().join(FOLDER)));
    assert_eq!(kept.get("key"), Ok(None));
    assert_eq!(kept.keys(""), Ok(vec![]));
    assert_eq!(kept.size().unwrap(), StorageSize::default());
    assert!(!kept.folder().exists(), "a look makes nothing");
    for text in ["", "x", "two\nlines\n", "{\"json\":1}\n"] {
        kept.set("key", &value(text)).unwrap();
        assert_eq!(kept.get("key"), Ok(Some(value(text))));
    }
    let odd = "\"\n\0\u{1F600}".repeat(32);
    kept.set(&odd, &value("odd")).unwrap();
    let named: Vec<String> = kept
        .keys("")
        .unwrap()
        .into_iter()
        .map(|key| key.0)
        .collect();
    assert_eq!(named, [odd.as_str(), "key"]);
    assert_eq!(
        kept.keys("k").unwrap(),
        [("key".into(), label("test:tool"))]
    );
    assert_eq!(kept.size().unwrap().values, 2);
    let again = values(workspace.path(), ".mimir/tools/a b.wasm");
    assert_eq!(again.get("key"), kept.get("key"));
    let other = values(workspace.path(), ".mimir/tools/ab.wasm");
    assert_eq!(other.get("key"), Ok(None));
    kept.delete("key").unwrap();
    kept.delete("key").unwrap();
    assert_eq!(kept.get("key"), Ok(None));
}

#[test]
fn storage_bounds_are_enforced_without_data_loss() {
    let workspace = tempfile::tempdir().unwrap();
    let kept = values(workspace.path(), "a.wasm");
    for key in ["".to_owned(), "k".repeat(KEY_MAX + 1)] {
        assert_eq!(
            kept.set(&key, &value("x")).unwrap_err().code,
            ToolErrorCode::InvalidInput
        );
        assert_eq!(
            kept.get(&key).unwrap_err().code,
            ToolErrorCode::InvalidInput
        );
    }
    let most = "v".repeat(VALUE_MAX);
    kept.set("key", &value(&most)).unwrap();
    let over = kept.set("key", &value(&(most.clone() + "v"))).unwrap_err();
    assert_eq!(over.code, ToolErrorCode::LimitExceeded);
    assert_eq!(kept.get("key").unwrap().unwrap().bytes.len(), VALUE_MAX);
    let fill = (0..20).map(|at| kept.set(&format!("key {at}"), &value(&most)));
    let refused: Vec<ToolError> = fill.filter_map(Result::err).collect();
    assert_eq!(refused.len(), 6, "{refused:?}");
    assert!(refused[0].message.contains("at most 16"), "{}", refused[0]);
    // Replacing one of them still fits.
    kept.set("key", &value(&most)).unwrap();
    kept.delete("key").unwrap();
    kept.set("other", &value(&most)).unwrap();
}

#[test]
fn storage_torn_or_foreign_file_has_no_value() {
    let workspace = tempfile::tempdir().unwrap();
    let kept = values(workspace.path(), "a.wasm");
    kept.set("key", &value("a value")).unwrap();
    let file = kept.file("key");
    let whole = std::fs::read(&file).unwrap();
    for torn in [
        &whole[..whole.len() - 1],
        &whole[..5],
        b"",
        b"{}\n",
        b"\xff\n",
    ] {
        std::fs::write(&file, torn).unwrap();
        assert_eq!(kept.get("key"), Ok(None));
    }
    let longer = [whole.clone(), vec![b'x'; 3 << 20]].concat();
    std::fs::write(&file, longer).unwrap();
    assert_eq!(kept.get("key"), Ok(None));
    // A value under the name of another.
    std::fs::write(kept.file("other"), &whole).unwrap();
    assert_eq!(kept.get("other"), Ok(None));
    std::fs::write(kept.folder().join("notes.txt"), "mine").unwrap();
    assert_eq!(kept.keys("other"), Ok(vec![]));
    kept.set("key", &value("again")).unwrap();
    assert_eq!(kept.get("key"), Ok(Some(value("again"))));
}

#[test]
fn storage_concurrent_writes_lose_nothing() {
    let workspace = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let kept = values(workspace.path(), "a.wasm");
            scope.spawn(move || {
                for at in 0..20 {
                    kept.set(&format!("{thread} {at}"), &value("x")).unwrap();
                    kept.set("shared", &value(&"y".repeat(thread * 100)))
                        .unwrap();
                    let shared = kept.get("shared").unwrap().unwrap();
                    assert_eq!(shared.bytes.len() % 100, 0);
                }
            });
        }
    });
    let kept = values(workspace.path(), "a.wasm");
    assert_eq!(kept.keys("").unwrap().len(), 161);
    let left = std::fs::read_dir(kept.folder()).unwrap();
    assert_eq!(left.count(), 162, "the values, and the file of turns");
}

#[test]
fn storage_mark_never_improves_and_torn_is_worst() {
    let workspace = tempfile::tempdir().unwrap();
    let kept = values(workspace.path(), "built-in/memory.wasm");
    let clean = ContentLabel {
        trust: TrustLevel::System,
        data_class: DataClass::Public,
        origin: String::new(),
    };
    assert_eq!(kept.mark("mark/notes"), Ok(None));
    kept.set_mark("mark/notes", clean.clone()).unwrap();
    assert_eq!(kept.mark("mark/notes"), Ok(Some(clean.clone())));
    kept.set_mark("mark/notes", label("web")).unwrap();
    kept.set_mark("mark/notes", clean.clone()).unwrap();
    assert_eq!(kept.mark("mark/notes"), Ok(Some(label("web"))));
    assert!(!kept.has_unreadable().unwrap());
    for torn in ["", "{\"key\":"] {
        std::fs::write(kept.file("mark/notes"), torn).unwrap();
        assert_eq!(kept.mark("mark/notes"), Ok(Some(unreadable_label())));
        assert!(kept.has_unreadable().unwrap());
    }
    kept.set_mark("mark/notes", clean).unwrap();
    assert_eq!(kept.mark("mark/notes").unwrap(), Some(unreadable_label()));
}

#[test]
fn storage_mark_evicts_derived_values() {
    let workspace = tempfile::tempdir().unwrap();
    let kept = values(workspace.path(), "built-in/memory.wasm");
    let big = StoredValue {
        bytes: vec![0; VALUE_MAX],
        label: label("x"),
    };
    let mut made = 0;
    while kept.set(&format!("derived/{made}"), &big).is_ok() {
        made += 1;
    }
    kept.set("plain", &value("x")).unwrap();
    // The limit is exact to the byte.
    let left = TOTAL_MAX - kept.size().unwrap().bytes;
    let pad = |bytes: usize| StoredValue {
        bytes: vec![0; bytes],
        label: label("x"),
    };
    kept.set("derived/pad", &pad(usize::try_from(left).unwrap() - 200))
        .unwrap();
    kept.set_mark("mark/notes", label("web")).unwrap();
    kept.set_mark("mark/others", label("web")).unwrap();
    assert_eq!(kept.mark("mark/others"), Ok(Some(label("web"))));
    assert_eq!(kept.get("plain"), Ok(Some(value("x"))));
    assert!(kept.keys("derived/").unwrap().len() < made + 1);
}
