use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use mimir_core::paths::PathRules;

use super::*;
use crate::index_key::IndexKey;
use crate::refresh::{RefreshSummary, RefreshTask, refresh};
use crate::source_tree::SourceTree;

/// A workspace with its index.
struct SearchFixture {
    folder: tempfile::TempDir,
    root: Arc<Dir>,
    index: CodeIndex,
    tree: SourceTree,
    rules: PathRules,
    key: IndexKey,
    refreshes: u64,
}

fn limits() -> RefreshLimits {
    RefreshLimits {
        until: Instant::now() + Duration::from_secs(600),
        cancelled: Arc::new(AtomicBool::new(false)),
    }
}

impl SearchFixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        let mut fixture = Self {
            folder,
            root: Arc::new(root),
            index: CodeIndex::default(),
            tree: SourceTree::default(),
            rules: PathRules::protected(),
            key: IndexKey::load(None, Path::new("/")).unwrap(),
            refreshes: 0,
        };
        for (path, text) in files {
            fixture.write(path, text);
        }
        fixture.refresh();
        fixture
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn refresh(&mut self) -> RefreshSummary {
        self.refresh_within(&limits())
    }

    fn refresh_within(&mut self, limits: &RefreshLimits) -> RefreshSummary {
        self.refreshes += 1;
        let task = RefreshTask {
            rules: &self.rules,
            limits,
            key: &self.key,
            number: self.refreshes,
        };
        refresh(&mut self.index, &mut self.tree, &self.root, task)
    }

    fn search_with(&self, mode: SearchMode, query: &str, rules: &PathRules) -> CodeHits {
        self.search_for(&self.query(mode, query, rules))
    }

    fn query<'q>(&self, mode: SearchMode, query: &'q str, rules: &'q PathRules) -> CodeQuery<'q> {
        CodeQuery {
            query,
            mode,
            kind: None,
            filter: SearchFilter::new(rules, vec!["."], None, None).unwrap(),
            max_results: 20,
        }
    }

    fn search_for(&self, query: &CodeQuery<'_>) -> CodeHits {
        let source = SearchSource {
            index: &self.index,
            root: &self.root,
            limits: &limits(),
        };
        search(&source, query)
    }

    /// Returns the places of the results.
    fn search(&self, mode: SearchMode, query: &str) -> Vec<String> {
        let found = self.search_with(mode, query, &self.rules);
        let places = found.hits.iter();
        places
            .map(|hit| format!("{}:{}", hit.path, hit.line))
            .collect()
    }

    fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = self
            .index
            .files
            .iter()
            .flatten()
            .map(|file| &*file.path)
            .collect();
        paths.sort_unstable();
        paths
    }
}

const PARSER: &str = "//! Reads requests.\n\npub struct HttpParser;\n\nimpl HttpParser {\n    /// Parses the header of a request.\n    pub fn parse_header(&self) -> bool {\n        true\n    }\n}\n";
const CALLER: &str = "fn main() {\n    // parse_header is not called here\n    let text = \"parse_header\";\n    HttpParser.parse_header();\n}\n";

#[test]
fn code_search_finds_words_symbols_and_references() {
    let fixture = SearchFixture::new(&[
        ("src/parser.rs", PARSER),
        ("src/main.rs", CALLER),
        ("docs/notes.md", "Requests have a header.\n"),
    ]);
    assert_eq!(
        fixture.search(SearchMode::Symbols, "parse_header"),
        ["src/parser.rs:7"]
    );
    assert_eq!(
        fixture.search(SearchMode::Symbols, "HttpParser::parse_header"),
        ["src/parser.rs:7"]
    );
    assert_eq!(
        fixture.search(SearchMode::Symbols, "httpparser"),
        ["src/parser.rs:3"]
    );
    assert_eq!(
        fixture.search(SearchMode::References, "parse_header"),
        ["src/parser.rs:7", "src/main.rs:4"]
    );
    let words = fixture.search(SearchMode::Words, "where is the request header parsed?");
    assert!(words[0].starts_with("src/parser.rs:"), "{words:?}");
    assert!(
        words
            .iter()
            .any(|place| place.starts_with("docs/notes.md:")),
        "{words:?}"
    );
    assert!(fixture.search(SearchMode::Words, "unrelated").is_empty());
}

#[test]
fn code_search_index_follows_changes() {
    let mut fixture =
        SearchFixture::new(&[("a.rs", "fn first() {}\n"), ("b.rs", "fn other() {}\n")]);
    assert_eq!(fixture.search(SearchMode::Symbols, "first"), ["a.rs:1"]);
    // The same size.
    fixture.write("a.rs", "fn again() {}\n");
    fixture.write("sub/c.py", "def third():\n    pass\n");
    fs::remove_file(fixture.path("b.rs")).unwrap();
    let summary = fixture.refresh();
    assert!(summary.is_complete);
    assert!(fixture.search(SearchMode::Symbols, "first").is_empty());
    assert_eq!(fixture.search(SearchMode::Symbols, "again"), ["a.rs:1"]);
    assert_eq!(fixture.search(SearchMode::Symbols, "third"), ["sub/c.py:1"]);
    assert_eq!(fixture.paths(), ["a.rs", "sub/c.py"]);
    fs::rename(fixture.path("a.rs"), fixture.path("moved.rs")).unwrap();
    fixture.refresh();
    assert_eq!(fixture.search(SearchMode::Symbols, "again"), ["moved.rs:1"]);
}

#[test]
fn code_search_reads_unchanged_files_once() {
    let mut fixture = SearchFixture::new(&[("a.rs", "fn first() {}\n")]);
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    let file = fs::File::options()
        .write(true)
        .open(fixture.path("a.rs"))
        .unwrap();
    file.set_modified(old).unwrap();
    std::thread::sleep(Duration::from_millis(150));
    fixture.refresh();
    assert_eq!(fixture.refresh().read, 0);
    file.set_modified(old - Duration::from_secs(1)).unwrap();
    // The state has changed, but the content has not.
    assert_eq!(fixture.refresh().read, 0);
}

#[test]
fn code_search_leaves_out_hidden_ignored_and_secret_files() {
    let mut fixture = SearchFixture::new(&[
        ("seen.rs", "fn visible_name() {}\n"),
        (".hidden/a.rs", "fn hidden_name() {}\n"),
        ("build/a.rs", "fn ignored_name() {}\n"),
        (".gitignore", "/build/\n"),
        ("config/.env", "API_TOKEN=secret_name\n"),
        ("keys/id_rsa", "secret_key_name\n"),
        ("private/a.rs", "fn denied_name() {}\n"),
    ]);
    assert_eq!(fixture.paths(), ["private/a.rs", "seen.rs"]);
    fixture.rules = fixture.rules.deny(["private/**"]).unwrap();
    // Before the next refresh, a rule applies to what the index still has.
    assert!(
        fixture
            .search(SearchMode::Symbols, "denied_name")
            .is_empty()
    );
    let words = fixture.search(SearchMode::Words, "denied_name");
    assert!(
        words.iter().all(|place| place.starts_with("seen.rs")),
        "{words:?}"
    );
    assert!(
        fixture
            .search(SearchMode::References, "denied_name")
            .is_empty()
    );
    fixture.refresh();
    assert_eq!(fixture.paths(), ["seen.rs"]);
    fixture.write(".gitignore", "*.py\n");
    std::thread::sleep(Duration::from_millis(5));
    fixture.refresh();
    assert_eq!(fixture.paths(), ["build/a.rs", "seen.rs"]);
}

#[test]
fn code_search_filters_by_path_language_and_right() {
    let fixture = SearchFixture::new(&[
        ("src/a.rs", "fn same() {}\n"),
        ("lib/a.py", "def same(): pass\n"),
        ("srcs/a.rs", "fn same() {}\n"),
    ]);
    let places = |granted: &[&str], path: Option<&str>, language| {
        let filter = SearchFilter::new(&fixture.rules, granted.to_vec(), path, language).unwrap();
        let files = fixture.index.files.iter().flatten();
        let mut paths: Vec<_> = files
            .filter(|file| filter.accepts(file))
            .map(|file| file.path.to_string())
            .collect();
        paths.sort_unstable();
        paths
    };
    assert_eq!(places(&["."], Some("src"), None), ["src/a.rs"]);
    assert_eq!(places(&["."], Some("./lib/a.py"), None), ["lib/a.py"]);
    assert_eq!(
        places(&["."], Some("*.rs"), None),
        ["src/a.rs", "srcs/a.rs"]
    );
    assert_eq!(
        places(&["."], None, crate::language::SourceLanguage::find("py")),
        ["lib/a.py"]
    );
    assert_eq!(places(&["lib"], None, None), ["lib/a.py"]);
    for outside in ["../x", "/etc", "a/../../b", "C:\\x"] {
        assert!(
            SearchFilter::new(&fixture.rules, vec!["."], Some(outside), None).is_err(),
            "{outside}"
        );
    }
    assert!(SearchFilter::new(&fixture.rules, vec!["."], Some("a[b"), None).is_err());
}

#[test]
fn code_search_is_safe_with_hostile_files() {
    let deep = format!("fn deep() {{\n{}", "{(\n".repeat(60_000));
    let mut fixture = SearchFixture::new(&[
        ("deep.rs", deep.as_str()),
        ("brackets.ts", &"<\n".repeat(50_000)),
        ("generics.kt", &"fun <\n".repeat(50_000)),
        ("quotes.js", &"`${\n".repeat(60_000)),
        ("slashes.js", &"/[\n".repeat(60_000)),
        ("typedefs.c", &"typedef\n".repeat(50_000)),
        ("heredocs.sh", &"cat <<A <<B\n".repeat(50_000)),
        ("names.rb", &"def def def\n".repeat(60_000)),
        ("minified.js", &"function a(){};".repeat(60_000)),
        // A list of names, groups that do not end, and a directive before empty lines.
        ("list.go", &format!("var (\n{}", "a,\n".repeat(200_000))),
        ("groups.go", &"var ( { ((( } )\n".repeat(60_000)),
        (
            "lines.c",
            &format!("#define A \\\n{}", "\n".repeat(900_000)),
        ),
        ("macros.c", &"#define A\n".repeat(90_000)),
        (
            "nameless.php",
            &format!("<?php\n{}", "new class {function f();\n".repeat(40_000)),
        ),
        ("impls.rs", &"impl<a<a<a\n".repeat(90_000)),
        // As many definitions as lines with a word of the query.
        ("uses.py", &"common = 1\n".repeat(90_000)),
    ]);
    fixture.write("binary.rs", b"fn binary_name() {}\0");
    fixture.write("latin.rs", b"// caf\xe9\nfn latin_name() {}\n");
    fixture.write("large.rs", "fn large_name() {}\n".repeat(60_000));
    fixture.refresh();
    assert_eq!(fixture.search(SearchMode::Symbols, "deep"), ["deep.rs:1"]);
    let files = fixture.index.files.iter().flatten();
    let most = files.map(|file| file.symbols.len()).max();
    assert_eq!(most, Some(crate::definitions::MAX_DEFINITIONS));
    assert!(!fixture.search(SearchMode::Words, "common").is_empty());
    let mut query = fixture.query(SearchMode::References, "common", &fixture.rules);
    query.kind = Some(SymbolKind::Class);
    assert!(fixture.search_for(&query).hits.is_empty());
    assert!(
        fixture
            .search(SearchMode::Symbols, "binary_name")
            .is_empty()
    );
    assert!(fixture.search(SearchMode::Symbols, "large_name").is_empty());
    assert_eq!(
        fixture.search(SearchMode::Symbols, "latin_name"),
        ["latin.rs:2"]
    );
}

#[cfg(unix)]
#[test]
fn code_search_follows_no_links_and_waits_for_no_pipe() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a.rs"), "fn outside_name() {}\n").unwrap();
    let mut fixture = SearchFixture::new(&[("a.rs", "fn inside_name() {}\n")]);
    std::os::unix::fs::symlink(outside.path(), fixture.path("linked")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("a.rs"), fixture.path("link.rs")).unwrap();
    make_pipe(&fixture.path("pipe.rs"));
    fixture.refresh();
    assert_eq!(fixture.paths(), ["a.rs"]);
    // A file that becomes a link after it was indexed.
    fs::remove_file(fixture.path("a.rs")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("a.rs"), fixture.path("a.rs")).unwrap();
    assert!(
        fixture
            .search(SearchMode::Symbols, "inside_name")
            .is_empty()
    );
    assert!(fixture.search(SearchMode::Words, "inside_name").is_empty());
}

#[cfg(unix)]
fn make_pipe(path: &Path) {
    let status = std::process::Command::new("mkfifo").arg(path).status();
    assert!(status.unwrap().success());
}

#[test]
fn code_search_shows_no_lines_of_private_keys() {
    let key = "const KEY: &str = \"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----\";\nfn after_key() {}\n";
    let fixture = SearchFixture::new(&[("key.rs", key)]);
    assert!(
        fixture
            .search(SearchMode::Words, "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC")
            .is_empty()
    );
    let found = fixture.search_with(SearchMode::Words, "after_key", &fixture.rules);
    assert_eq!(found.hits.len(), 1);
    assert!(!found.hits[0].text.contains("MII"), "{:?}", found.hits);
}

#[test]
fn code_search_is_incomplete_when_its_time_is_over() {
    let mut fixture = SearchFixture::new(&[]);
    for number in 0..200 {
        fixture.write(&format!("f{number}.rs"), "fn name() {}\n");
    }
    let mut over = limits();
    over.until = Instant::now();
    assert!(!fixture.refresh_within(&over).is_complete);
    assert!(fixture.refresh().is_complete);
    assert_eq!(fixture.index.len(), 200);
}

#[test]
fn code_search_index_of_a_too_large_workspace_is_partial() {
    let mut fixture = SearchFixture::new(&[("gone.rs", "fn gone() {}\n")]);
    for number in 0..400 {
        fixture.write(&format!("d{number:03}/f.rs"), "fn in_folder() {}\n");
    }
    fs::remove_file(fixture.path("gone.rs")).unwrap();
    let summary = fixture.refresh();
    assert!(summary.is_complete && summary.is_full, "{summary:?}");
    // The root is one of 300 folders. A file that does not exist any more is removed all the same.
    assert_eq!(fixture.index.len(), 299);
    assert!(fixture.index.find("gone.rs").is_none());

    let mut fixture = SearchFixture::new(&[]);
    for number in 0..301 {
        fixture.write(&format!("f{number:03}.rs"), "fn in_file() {}\n");
    }
    let summary = fixture.refresh();
    assert!(summary.is_complete && summary.is_full, "{summary:?}");
    assert_eq!(fixture.index.len(), 300);
    fs::remove_file(fixture.path("f000.rs")).unwrap();
    assert!(!fixture.refresh().is_full);
}

/// Searches an index in all modes. The results do not matter.
pub(crate) fn search_all_in_test(index: &CodeIndex, workspace: &Path) {
    let root = Dir::open_ambient_dir(workspace, cap_std::ambient_authority()).unwrap();
    let root = Arc::new(root);
    let rules = PathRules::protected();
    let limits = limits();
    let source = SearchSource {
        index,
        root: &root,
        limits: &limits,
    };
    for mode in [
        SearchMode::Words,
        SearchMode::Symbols,
        SearchMode::References,
    ] {
        let query = CodeQuery {
            query: "alpha run",
            mode,
            kind: None,
            filter: SearchFilter::new(&rules, vec!["."], None, None).unwrap(),
            max_results: 20,
        };
        search(&source, &query);
    }
}
