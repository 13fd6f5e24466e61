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

fn plugin_values(workspace: &Path, location: &str) -> PluginValues {
    PluginValues::new(workspace, location)
}

#[test]
fn storage_values_round_trip_with_their_labels() {
    let workspace = tempfile::tempdir().unwrap();
    let values = plugin_values(workspace.path(), ".mimir/tools/a b.wasm");
    assert!(values.folder().starts_with(workspace.path().join(FOLDER)));
    assert_eq!(values.get("key"), Ok(None));
    assert_eq!(values.keys(""), Ok(vec![]));
    assert_eq!(values.size().unwrap(), StorageSize::default());
    assert!(!values.folder().exists(), "reading created the folder");
    for text in ["", "x", "two\nlines\n", "{\"json\":1}\n"] {
        values.set("key", &value(text)).unwrap();
        assert_eq!(values.get("key"), Ok(Some(value(text))));
    }
    let odd_key = "\"\n\0\u{1F600}".repeat(32);
    values.set(&odd_key, &value("odd")).unwrap();
    let keys: Vec<String> = values
        .keys("")
        .unwrap()
        .into_iter()
        .map(|key| key.0)
        .collect();
    assert_eq!(keys, [odd_key.as_str(), "key"]);
    assert_eq!(
        values.keys("k").unwrap(),
        [("key".into(), label("test:tool"))]
    );
    assert_eq!(values.size().unwrap().values, 2);
    let reopened = plugin_values(workspace.path(), ".mimir/tools/a b.wasm");
    assert_eq!(reopened.get("key"), values.get("key"));
    let other = plugin_values(workspace.path(), ".mimir/tools/ab.wasm");
    assert_eq!(other.get("key"), Ok(None));
    values.delete("key").unwrap();
    values.delete("key").unwrap();
    assert_eq!(values.get("key"), Ok(None));
}

#[test]
fn storage_bounds_are_enforced_without_data_loss() {
    let workspace = tempfile::tempdir().unwrap();
    let values = plugin_values(workspace.path(), "a.wasm");
    for key in ["".to_owned(), "k".repeat(KEY_MAX + 1)] {
        assert_eq!(
            values.set(&key, &value("x")).unwrap_err().code,
            ToolErrorCode::InvalidInput
        );
        assert_eq!(
            values.get(&key).unwrap_err().code,
            ToolErrorCode::InvalidInput
        );
    }
    let largest = "v".repeat(VALUE_MAX);
    values.set("key", &value(&largest)).unwrap();
    let error = values
        .set("key", &value(&(largest.clone() + "v")))
        .unwrap_err();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded);
    assert_eq!(values.get("key").unwrap().unwrap().bytes.len(), VALUE_MAX);
    let writes = (0..20).map(|at| values.set(&format!("key {at}"), &value(&largest)));
    let refused: Vec<ToolError> = writes.filter_map(Result::err).collect();
    assert_eq!(refused.len(), 6, "{refused:?}");
    assert!(refused[0].message.contains("at most 16"), "{}", refused[0]);
    // Replacing one of them still fits.
    values.set("key", &value(&largest)).unwrap();
    values.delete("key").unwrap();
    values.set("other", &value(&largest)).unwrap();
}

#[test]
fn storage_torn_or_foreign_file_has_no_value() {
    let workspace = tempfile::tempdir().unwrap();
    let values = plugin_values(workspace.path(), "a.wasm");
    values.set("key", &value("a value")).unwrap();
    let file = values.file("key");
    let whole = std::fs::read(&file).unwrap();
    for torn in [
        &whole[..whole.len() - 1],
        &whole[..5],
        b"",
        b"{}\n",
        b"\xff\n",
    ] {
        std::fs::write(&file, torn).unwrap();
        assert_eq!(values.get("key"), Ok(None));
    }
    let longer = [whole.clone(), vec![b'x'; 3 << 20]].concat();
    std::fs::write(&file, longer).unwrap();
    assert_eq!(values.get("key"), Ok(None));
    // The value of one key in the file of another.
    std::fs::write(values.file("other"), &whole).unwrap();
    assert_eq!(values.get("other"), Ok(None));
    std::fs::write(values.folder().join("notes.txt"), "mine").unwrap();
    assert_eq!(values.keys("other"), Ok(vec![]));
    values.set("key", &value("again")).unwrap();
    assert_eq!(values.get("key"), Ok(Some(value("again"))));
}

#[test]
fn storage_concurrent_writes_lose_nothing() {
    let workspace = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let values = plugin_values(workspace.path(), "a.wasm");
            scope.spawn(move || {
                for at in 0..20 {
                    values.set(&format!("{thread} {at}"), &value("x")).unwrap();
                    values
                        .set("shared", &value(&"y".repeat(thread * 100)))
                        .unwrap();
                    let shared = values.get("shared").unwrap().unwrap();
                    assert_eq!(shared.bytes.len() % 100, 0);
                }
            });
        }
    });
    let values = plugin_values(workspace.path(), "a.wasm");
    assert_eq!(values.keys("").unwrap().len(), 161);
    let files = std::fs::read_dir(values.folder()).unwrap();
    // 161 values and the lock file.
    assert_eq!(files.count(), 162);
}

#[test]
fn storage_mark_never_improves_and_torn_is_worst() {
    let workspace = tempfile::tempdir().unwrap();
    let values = plugin_values(workspace.path(), "built-in/memory.wasm");
    let clean = ContentLabel {
        trust: TrustLevel::System,
        data_class: DataClass::Public,
        origin: String::new(),
    };
    assert_eq!(values.mark("mark/notes"), Ok(None));
    values.set_mark("mark/notes", clean.clone()).unwrap();
    assert_eq!(values.mark("mark/notes"), Ok(Some(clean.clone())));
    values.set_mark("mark/notes", label("web")).unwrap();
    values.set_mark("mark/notes", clean.clone()).unwrap();
    assert_eq!(values.mark("mark/notes"), Ok(Some(label("web"))));
    assert!(!values.has_unreadable().unwrap());
    for torn in ["", "{\"key\":"] {
        std::fs::write(values.file("mark/notes"), torn).unwrap();
        assert_eq!(values.mark("mark/notes"), Ok(Some(unreadable_label())));
        assert!(values.has_unreadable().unwrap());
    }
    values.set_mark("mark/notes", clean).unwrap();
    assert_eq!(values.mark("mark/notes").unwrap(), Some(unreadable_label()));
}

#[test]
fn storage_mark_evicts_derived_values() {
    let workspace = tempfile::tempdir().unwrap();
    let values = plugin_values(workspace.path(), "built-in/memory.wasm");
    let big = StoredValue {
        bytes: vec![0; VALUE_MAX],
        label: label("x"),
    };
    let mut written = 0;
    while values.set(&format!("derived/{written}"), &big).is_ok() {
        written += 1;
    }
    values.set("plain", &value("x")).unwrap();
    // The limit is exact to the byte.
    let left = TOTAL_MAX - values.size().unwrap().bytes;
    let pad = |bytes: usize| StoredValue {
        bytes: vec![0; bytes],
        label: label("x"),
    };
    values
        .set("derived/pad", &pad(usize::try_from(left).unwrap() - 200))
        .unwrap();
    values.set_mark("mark/notes", label("web")).unwrap();
    values.set_mark("mark/others", label("web")).unwrap();
    assert_eq!(values.mark("mark/others"), Ok(Some(label("web"))));
    assert_eq!(values.get("plain"), Ok(Some(value("x"))));
    assert!(values.keys("derived/").unwrap().len() < written + 1);
}

#[test]
fn storage_updates_by_several_calls_lose_nothing() {
    let workspace = tempfile::tempdir().unwrap();
    let values = plugin_values(workspace.path(), "count.wasm");
    let increment = |old: Option<&[u8]>| {
        let old: u32 = old.map_or(0, |old| str::from_utf8(old).unwrap().parse().unwrap());
        Ok((old + 1).to_string().into_bytes())
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    values.update("n", label("a:b"), increment).unwrap();
                }
            });
        }
    });
    assert_eq!(values.get("n").unwrap().unwrap().bytes, b"100");
    let refused = values.update("n", label("a:b"), |_| Err(limit("no".to_owned())));
    assert_eq!(refused.unwrap_err().message, "no");
    let long = values.update("n", label("a:b"), |_| Ok(vec![0; VALUE_MAX + 1]));
    assert_eq!(long.unwrap_err().code, ToolErrorCode::LimitExceeded);
    assert_eq!(values.get("n").unwrap().unwrap().bytes, b"100");
    // The label of the previous value stays with what was derived from it.
    values
        .set(
            "w",
            &StoredValue {
                label: ContentLabel::worst("x"),
                ..value("1")
            },
        )
        .unwrap();
    let updated = values.update("w", label("a:b"), increment).unwrap();
    assert_eq!(updated.label.trust, ContentLabel::worst("x").trust);
}
