use mimir_sdk::{Code, Error, Result};

use crate::embeddings::Settings;
use crate::folder::{MAX_FILE_SIZE, MAX_FILES};
use crate::get::{Content, MemoryGet};
use crate::kit::{Endpoint, Workspace};
use crate::save::{MemorySave, Mode};
use crate::search::{MemorySearch, SearchResult};

fn get(
    workspace: &Workspace,
    name: &str,
    lines: (Option<usize>, Option<usize>),
) -> Result<Content> {
    let get = MemoryGet {
        name: Some(name.to_owned()),
        start_line: lines.0,
        end_line: lines.1,
    };
    let got = get.get(&workspace.folder(), &workspace.store)?;
    Ok(got.value.memory.unwrap())
}

fn list(workspace: &Workspace) -> String {
    let got = MemoryGet::default().get(&workspace.folder(), &workspace.store);
    got.unwrap().text
}

fn search(workspace: &Workspace, query: &str, endpoint: Option<&Endpoint>) -> SearchResult {
    let search = MemorySearch {
        query: query.to_owned(),
        max_results: 5,
    };
    let settings = Settings::new("http://127.0.0.1:1/v1", "small");
    let unused = Endpoint::default();
    let found = search.search(
        &workspace.folder(),
        &workspace.store,
        endpoint.map(|_| &settings),
        endpoint.unwrap_or(&unused),
    );
    found.unwrap().value
}

fn names(found: &SearchResult) -> Vec<&str> {
    found.hits.iter().map(|hit| hit.name.as_str()).collect()
}

fn code(result: Result<impl std::fmt::Debug>) -> (Code, String) {
    let error: Error = result.unwrap_err();
    (error.code().clone(), error.message().to_owned())
}

#[test]
fn memory_saved_text_is_read_again() {
    let workspace = Workspace::new();
    assert_eq!(list(&workspace), "nothing is saved yet");
    let saved = workspace.save("notes", "first", Mode::Append).unwrap();
    assert!(saved.created && saved.start_line == 1 && saved.lines == 1);
    let saved = workspace
        .save("notes.md", "second\nthird\n", Mode::Append)
        .unwrap();
    assert!(!saved.created && saved.start_line == 2 && saved.lines == 3);
    assert_eq!(workspace.text("notes.md"), "first\nsecond\nthird\n");
    let all = get(&workspace, "notes", (None, None)).unwrap();
    assert_eq!(
        (all.content.as_str(), all.lines),
        ("first\nsecond\nthird\n", 3)
    );
    let some = get(&workspace, "notes", (Some(2), Some(9))).unwrap();
    assert_eq!(
        (some.content.as_str(), some.start_line),
        ("second\nthird\n", 2)
    );
    let saved = workspace.save("notes", "only", Mode::Replace).unwrap();
    assert_eq!((saved.start_line, saved.lines), (1, 1));
    assert_eq!(workspace.text("notes.md"), "only\n");
    assert!(
        list(&workspace).contains("notes  5 bytes  20"),
        "{}",
        list(&workspace)
    );
    // No temporary file remains.
    let files = std::fs::read_dir(workspace.file(".")).unwrap();
    assert_eq!(files.count(), 1);
}

#[test]
fn memory_errors_have_a_code_and_message() {
    let workspace = Workspace::new();
    workspace.put("one.md", "x\n");
    for (result, error_code, part) in [
        (
            code(workspace.save("../x", "x", Mode::Append)),
            Code::InvalidInput,
            "not a valid memory name",
        ),
        (
            code(workspace.save("x", " \n", Mode::Append)),
            Code::InvalidInput,
            "`content` is empty",
        ),
        (
            code(workspace.save("ONE", "x", Mode::Append)),
            Code::AlreadyExists,
            "differs from the existing memory `one` only in case",
        ),
        (
            code(get(&workspace, "two", (None, None))),
            Code::NotFound,
            "existing memories: `one`",
        ),
        (
            code(get(&workspace, "one", (Some(2), None))),
            Code::InvalidInput,
            "`one` has 1 line",
        ),
        (
            code(get(&workspace, "one", (Some(3), Some(2)))),
            Code::InvalidInput,
            "lines 3 to 2 were requested",
        ),
    ] {
        assert_eq!(result.0, error_code, "{}", result.1);
        assert!(result.1.contains(part), "{}", result.1);
    }
    workspace.put("bytes.md", [0xff, 0xfe]);
    assert_eq!(
        code(get(&workspace, "bytes", (None, None))).0,
        Code::InvalidInput
    );
    assert_eq!(
        code(workspace.save("bytes", "x", Mode::Append)).0,
        Code::InvalidInput
    );
    let found = search(&workspace, "x", None);
    assert_eq!(names(&found), ["one"]);
    assert!(
        found
            .note
            .unwrap()
            .contains("1 file in .mimir/memory cannot be searched")
    );
}

#[test]
fn memory_size_and_count_are_limited() {
    let workspace = Workspace::new();
    let most = "x".repeat(MAX_FILE_SIZE as usize - 1);
    workspace.save("long", &most, Mode::Append).unwrap();
    let (error, message) = code(workspace.save("long", "more", Mode::Append));
    assert_eq!(error, Code::LimitExceeded, "{message}");
    assert_eq!(workspace.text("long.md").len() as u64, MAX_FILE_SIZE);
    // A shorter one fits.
    workspace.save("long", "less", Mode::Replace).unwrap();
    for number in 1..MAX_FILES {
        workspace.put(&format!("m{number}.md"), "x\n");
    }
    let (error, message) = code(workspace.save("new", "x", Mode::Append));
    assert_eq!(error, Code::LimitExceeded, "{message}");
    workspace.save("m7", "added", Mode::Append).unwrap();
    for number in 0..32 {
        workspace.put(&format!("m{}.md", number + 1), &most);
    }
    let (error, message) = code(workspace.save("m50", &most, Mode::Replace));
    assert_eq!(error, Code::LimitExceeded, "{message}");
    assert!(message.contains("8 MB"), "{message}");
}

#[cfg(unix)]
#[test]
fn memory_links_are_rejected() {
    let workspace = Workspace::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.md");
    std::fs::write(&secret, "not for you\n").unwrap();
    std::os::unix::fs::symlink(&secret, workspace.file("link.md")).unwrap();
    assert_eq!(
        code(get(&workspace, "link", (None, None))).0,
        Code::InvalidInput
    );
    assert_eq!(
        code(workspace.save("link", "x", Mode::Append)).0,
        Code::InvalidInput
    );
    assert!(search(&workspace, "not for you", None).hits.is_empty());
    assert!(list(&workspace).contains("1 file in .mimir/memory cannot be read"));
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "not for you\n");
}

#[test]
fn memory_saves_at_once_lose_nothing() {
    let workspace = Workspace::new();
    let file = workspace.file("notes.md");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cx = workspace.cx();
            scope.spawn(move || {
                let folder = crate::folder::MemoryFolder::in_workspace(&cx);
                for at in 0..10 {
                    let save = MemorySave {
                        name: "notes".into(),
                        content: format!("{thread} {at}"),
                        mode: Mode::Append,
                    };
                    save.save(&folder, &crate::kit::RecordingStore::default())
                        .unwrap();
                }
            });
        }
    });
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(text.lines().count(), 80);
}

#[test]
fn memory_marks_are_read_with_their_memories() {
    let workspace = Workspace::new();
    let store = &workspace.store;
    workspace.save("notes", "first", Mode::Append).unwrap();
    let first = store.stored_keys();
    assert_eq!(
        store.take_reads(),
        Vec::<String>::new(),
        "no memory existed yet"
    );
    get(&workspace, "notes", (None, None)).unwrap();
    assert_eq!(store.take_reads(), first);
    // Appending counts as reading the old text; replacing does not. The mark stays.
    workspace.save("notes", "second", Mode::Append).unwrap();
    assert_eq!(store.take_reads(), first);
    workspace.save("notes", "third", Mode::Replace).unwrap();
    assert_eq!(store.take_reads(), Vec::<String>::new());
    let third = store.stored_keys();
    assert_eq!(third, first);
    assert_eq!(third, ["mark/notes"]);
    // Some file systems treat both spellings as one name.
    workspace.put("NOTES.md", "third\n");
    get(&workspace, "NOTES", (None, None)).unwrap();
    assert_eq!(store.take_reads(), third);
    std::fs::remove_file(workspace.file("NOTES.md")).unwrap();
    workspace.put("notes.md", "first\n");
    get(&workspace, "notes", (None, None)).unwrap();
    assert_eq!(store.take_reads(), third, "an old one that came back");
    // An edit by hand does not clear the mark.
    workspace.put("notes.md", "third\nmine\n");
    get(&workspace, "notes", (None, None)).unwrap();
    assert_eq!(store.take_reads(), third);
    // A file that a person wrote has no mark.
    workspace.put("other.md", "mine\n");
    get(&workspace, "other", (None, None)).unwrap();
    assert_eq!(store.take_reads(), Vec::<String>::new());
    let found = search(&workspace, "mine", None);
    assert_eq!(names(&found), ["other", "notes"]);
    assert_eq!(store.take_reads(), third);
    assert_eq!(search(&workspace, "nowhere", None).hits, []);
    assert_eq!(
        store.take_reads(),
        Vec::<String>::new(),
        "what is not shown is not read"
    );
    list(&workspace);
    assert_eq!(store.take_reads(), third);
}

#[test]
fn memory_search_by_words_shows_lines_and_their_numbers() {
    let workspace = Workspace::new();
    workspace.put(
        "build.md",
        "# Build\nUse the release profile.\n\n## Servers\nstaging is at port 8080\nproduction is somewhere else\n",
    );
    workspace.put("people.md", "Ann likes short answers.\n");
    let found = search(&workspace, "which port has the staging server", None);
    assert!(!found.by_meaning && found.note.is_none());
    let hit = &found.hits[0];
    assert_eq!(
        (hit.name.as_str(), hit.start_line, hit.end_line),
        ("build", 4, 6)
    );
    assert!(
        hit.snippet
            .starts_with("## Servers\nstaging is at port 8080"),
        "{}",
        hit.snippet
    );
    assert_eq!(
        names(&search(&workspace, "people", None)),
        ["people"],
        "a name is searched, too"
    );
    let long = format!(
        "{} needle {}\n",
        "some words ".repeat(500),
        "more words ".repeat(500)
    );
    workspace.put("long.md", &long);
    let found = search(&workspace, "needle", None);
    let snippet = &found.hits[0].snippet;
    assert!(
        snippet.contains("needle") && snippet.len() < 1_000,
        "{}",
        snippet.len()
    );
}

#[test]
fn memory_get_masks_lines_of_a_private_key() {
    let workspace = Workspace::new();
    let inside = "MIIEowIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaC5Kx0gY7sKj5eX";
    let key = format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{inside}\n{inside}\n-----END RSA PRIVATE KEY-----\n"
    );
    workspace.put("key.md", format!("# Key\n{key}"));
    let got = get(&workspace, "key", (Some(3), Some(4))).unwrap();
    assert!(!got.content.contains("MIIE"), "{}", got.content);
    assert!(got.content.contains("REDACTED"), "{}", got.content);
}

#[test]
fn memory_search_by_meaning_needs_no_shared_word() {
    let workspace = Workspace::new();
    workspace.put("garage.md", "The automobile is in the garage.\n");
    workspace.put("kitchen.md", "How to cook.\n");
    workspace.put("sky.md", "About the weather.\n");
    let endpoint = Endpoint::default();
    let found = search(&workspace, "vehicle", Some(&endpoint));
    assert!(found.by_meaning && found.note.is_none(), "{:?}", found.note);
    assert_eq!(names(&found)[0], "garage");
    assert_eq!(
        names(&search(&workspace, "vehicle", None)),
        Vec::<&str>::new()
    );
    let batch_sizes: Vec<usize> = endpoint.requests.take().iter().map(Vec::len).collect();
    assert_eq!(
        batch_sizes,
        [1, 3],
        "the query, and all memories in one request"
    );
    // The vectors are stored until a memory changes.
    let found = search(&workspace, "meal", Some(&endpoint));
    assert_eq!(names(&found)[0], "kitchen");
    assert_eq!(endpoint.requests.take(), [["meal"]]);
    workspace.put("sky.md", "About soup.\n");
    std::fs::remove_file(workspace.file("garage.md")).unwrap();
    let found = search(&workspace, "meal", Some(&endpoint));
    assert!(names(&found).contains(&"sky"), "{:?}", names(&found));
    assert_eq!(endpoint.requests.take().len(), 2);
    let keys = workspace.store.stored_keys();
    let keys: Vec<_> = keys
        .iter()
        .filter(|key| key.starts_with("derived/"))
        .collect();
    assert_eq!(keys, ["derived/vectors/kitchen", "derived/vectors/sky"]);
}

#[test]
fn memory_search_uses_words_when_the_endpoint_fails() {
    let workspace = Workspace::new();
    workspace.put("garage.md", "The automobile is in the garage.\n");
    workspace.put("kitchen.md", "How to cook.\n");
    for (status, body, expected) in [
        (0, "connection refused", "connection refused"),
        (401, "no key", "answered 401: no key"),
        (200, "<html>", "did not return JSON"),
        (200, "{\"data\": []}", "one vector for each text"),
        (
            200,
            "{\"data\": [{\"embedding\": []}]}",
            "one vector for each text",
        ),
        (
            200,
            "{\"data\": [{\"embedding\": [\"x\"]}]}",
            "one vector for each text",
        ),
        (
            200,
            "{\"data\": [{\"embedding\": [1e999]}]}",
            "did not return JSON",
        ),
    ] {
        let endpoint = Endpoint::default();
        endpoint
            .canned_reply
            .replace(Some((status, body.to_owned())));
        let found = search(&workspace, "automobile", Some(&endpoint));
        assert_eq!(names(&found), ["garage"]);
        assert!(!found.by_meaning);
        let note = found.note.unwrap();
        assert!(
            note.contains("ranked by words alone") && note.contains(expected),
            "{note}"
        );
        assert_eq!(workspace.store.stored_keys(), Vec::<String>::new());
    }
}

#[test]
fn memory_lock_that_is_stale_is_taken_over() {
    let workspace = Workspace::new();
    let lock = workspace.file(".save.lock");
    let save = || workspace.save("notes", "x", Mode::Append);
    let hour = std::time::Duration::from_secs(3_600);
    let now = std::time::SystemTime::now();
    for modified in [now - hour, now + hour] {
        let file = std::fs::File::create(&lock).unwrap();
        file.set_modified(modified).unwrap();
        save().unwrap();
        assert!(!lock.exists());
        assert!(!workspace.file(".cleanup.lock").exists());
    }
    // Anything but a file fails at once, because waiting for it would never end.
    std::fs::create_dir(&lock).unwrap();
    let start = std::time::Instant::now();
    let (error, message) = code(save());
    assert_eq!(error, Code::Unavailable, "{message}");
    assert!(message.contains("not a regular file"), "{message}");
    assert!(start.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
fn memory_lock_that_is_stale_loses_no_waiting_saves() {
    let workspace = Workspace::new();
    let file = std::fs::File::create(workspace.file(".save.lock")).unwrap();
    let hour = std::time::Duration::from_secs(3_600);
    file.set_modified(std::time::SystemTime::now() - hour)
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cx = workspace.cx();
            scope.spawn(move || {
                let save = MemorySave {
                    name: "notes".into(),
                    content: thread.to_string(),
                    mode: Mode::Append,
                };
                let folder = crate::folder::MemoryFolder::in_workspace(&cx);
                save.save(&folder, &crate::kit::RecordingStore::default())
                    .unwrap();
            });
        }
    });
    assert_eq!(workspace.text("notes.md").lines().count(), 8);
}

#[test]
fn memory_embeddings_share_requests() {
    let workspace = Workspace::new();
    for number in 0..300 {
        workspace.put(&format!("note-{number}.md"), "A short note.\n");
    }
    let endpoint = Endpoint::default();
    let found = search(&workspace, "vehicle", Some(&endpoint));
    assert!(found.note.is_none(), "{:?}", found.note);
    let batch_sizes: Vec<usize> = endpoint.requests.take().iter().map(Vec::len).collect();
    assert_eq!(batch_sizes, [1, 128, 128, 44]);
    search(&workspace, "meal", Some(&endpoint));
    assert_eq!(endpoint.requests.take(), [["meal"]]);
}

#[test]
fn memory_of_many_passages_is_embedded_once() {
    let workspace = Workspace::new();
    let many = "# One\nshort\n\n".repeat(2_000);
    workspace.put("many.md", many);
    workspace.put("garage.md", "The automobile is in the garage.\n");
    let endpoint = Endpoint::default();
    for _ in 0..3 {
        search(&workspace, "vehicle", Some(&endpoint));
    }
    let total: usize = endpoint.requests.take().iter().map(Vec::len).sum();
    assert!(total <= 3 + 1 + 1_024, "{total}");
    assert_eq!(
        names(&search(&workspace, "vehicle", Some(&endpoint)))[0],
        "garage"
    );
}
