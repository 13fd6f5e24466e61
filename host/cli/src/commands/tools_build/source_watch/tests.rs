//! Tests of the watch, with a clock that the tests move.

use std::fs;

use super::*;

/// A watch of a temporary folder, and a clock.
struct WatchBench {
    dir: tempfile::TempDir,
    watch: SourceWatch,
    now: Instant,
}

impl WatchBench {
    fn with_files(names: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            write(dir.path(), name, name);
        }
        let watch = SourceWatch::start(dir.path()).unwrap();
        Self {
            dir,
            watch,
            now: Instant::now(),
        }
    }

    fn write(&self, name: &str, text: &str) {
        write(self.dir.path(), name, text);
    }

    /// Moves the clock by some milliseconds and scans.
    fn step_after(&mut self, milliseconds: u64) -> WatchStep {
        self.now += Duration::from_millis(milliseconds);
        self.watch.step(self.now).unwrap()
    }

    /// Scans until a change is reported or none is open.
    fn settle(&mut self) -> Vec<String> {
        loop {
            match self.step_after(100) {
                WatchStep::Changed(files) => {
                    let names = files
                        .iter()
                        .map(|file| file.display().to_string().replace('\\', "/"));
                    return names.collect();
                }
                WatchStep::Wait(POLL_INTERVAL) => return Vec::new(),
                WatchStep::Wait(_) => {}
            }
        }
    }
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn source_watch_reports_a_change_after_it_has_settled() {
    let mut bench = WatchBench::with_files(&["tool.py", "lib/words.py"]);
    assert_eq!(bench.step_after(0), WatchStep::Wait(POLL_INTERVAL));
    bench.write("lib/words.py", "changed once");
    assert_eq!(bench.step_after(250), WatchStep::Wait(SETTLE_TIME));
    // A second change within the time starts the time again.
    bench.write("lib/words.py", "changed for a second time");
    assert_eq!(bench.step_after(99), WatchStep::Wait(SETTLE_TIME));
    assert_eq!(bench.step_after(99), WatchStep::Wait(SETTLE_TIME));
    let changed = WatchStep::Changed(vec![Path::new("lib").join("words.py")]);
    assert_eq!(bench.step_after(1), changed);
    assert_eq!(bench.step_after(0), WatchStep::Wait(POLL_INTERVAL));
}

#[test]
fn source_watch_reports_files_that_never_settle() {
    let mut bench = WatchBench::with_files(&["tool.py"]);
    let limit = MAX_SETTLE_TIME.as_millis() as usize / 50;
    for count in 1..=limit {
        bench.write("data.log", &"x".repeat(count));
        assert_eq!(
            bench.step_after(50),
            WatchStep::Wait(SETTLE_TIME),
            "{count}"
        );
    }
    bench.write("data.log", "");
    assert_eq!(
        bench.step_after(50),
        WatchStep::Changed(vec!["data.log".into()])
    );
}

#[test]
fn source_watch_reports_new_and_deleted_files() {
    let mut bench = WatchBench::with_files(&["a.py", "sub/b.py"]);
    fs::remove_dir_all(bench.dir.path().join("sub")).unwrap();
    bench.write("new/c.py", "");
    assert_eq!(bench.settle(), ["new/c.py", "sub/b.py"]);
    assert_eq!(bench.settle(), [""; 0]);
}

#[test]
fn source_watch_reports_a_file_replaced_by_rename() {
    let mut bench = WatchBench::with_files(&["tool.py"]);
    let path = bench.dir.path().join("tool.py");
    // The same size, and the same time of modification.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    bench.write(".tool.py.new", "TOOL.py");
    let replacement = fs::File::options()
        .write(true)
        .open(bench.dir.path().join(".tool.py.new"))
        .unwrap();
    replacement.set_modified(modified).unwrap();
    drop(replacement);
    fs::rename(bench.dir.path().join(".tool.py.new"), &path).unwrap();
    if cfg!(unix) {
        assert_eq!(bench.settle(), ["tool.py"]);
    }
    // Editors that move the old file away first: it is missing for a moment.
    fs::rename(&path, bench.dir.path().join("tool.py~")).unwrap();
    bench.settle();
    bench.write("tool.py", "written again");
    assert_eq!(bench.settle(), ["tool.py"]);
}

#[test]
fn source_watch_ignores_a_change_that_is_taken_back() {
    let mut bench = WatchBench::with_files(&["tool.py"]);
    bench.write("other.py", "");
    assert_eq!(bench.step_after(250), WatchStep::Wait(SETTLE_TIME));
    fs::remove_file(bench.dir.path().join("other.py")).unwrap();
    assert_eq!(bench.step_after(100), WatchStep::Wait(POLL_INTERVAL));
}

#[test]
fn source_watch_reports_a_change_during_a_build() {
    let mut bench = WatchBench::with_files(&["tool.py"]);
    bench.write("tool.py", "first change");
    assert_eq!(bench.settle(), ["tool.py"]);
    // The caller builds now.
    bench.write("tool.py", "second change, during the build");
    assert_eq!(bench.settle(), ["tool.py"]);
}

#[test]
fn source_watch_ignores_build_results_and_temporary_files() {
    let mut bench = WatchBench::with_files(&["tool.py"]);
    for name in [
        ".mimir-build/core.wasm",
        ".git/index",
        "target/x",
        "node_modules/a/b.js",
        "vendor/x.py",
        "sub/__pycache__/a.pyc",
        ".tool.py.swp",
        "tool.py~",
        "#tool.py#",
        "4913",
        "go.work",
        "compile_flags.txt",
    ] {
        bench.write(name, "");
        assert_eq!(
            bench.step_after(250),
            WatchStep::Wait(POLL_INTERVAL),
            "{name}"
        );
    }
    bench.write("target.py", "");
    assert_eq!(bench.settle(), ["target.py"]);
}

#[test]
fn source_watch_refuses_folders_with_too_many_files() {
    let mut bench = WatchBench::with_files(&["tool.py"]);
    for count in 0..MAX_ENTRIES {
        fs::write(bench.dir.path().join(format!("{count}.txt")), "").unwrap();
    }
    let error = bench.watch.step(bench.now).unwrap_err();
    assert!(error.message.contains("more than 5000 files"), "{error}");
    assert!(SourceWatch::start(bench.dir.path()).is_err());
    fs::remove_file(bench.dir.path().join("0.txt")).unwrap();
    assert!(SourceWatch::start(bench.dir.path()).is_ok());
}

#[test]
fn source_watch_of_a_file_reports_that_file_only() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "tool.ts", "");
    let mut watch = SourceWatch::start(&dir.path().join("tool.ts")).unwrap();
    let now = Instant::now();
    write(dir.path(), "other.ts", "");
    assert_eq!(watch.step(now).unwrap(), WatchStep::Wait(POLL_INTERVAL));
    write(dir.path(), "tool.ts", "changed");
    assert_eq!(watch.step(now).unwrap(), WatchStep::Wait(SETTLE_TIME));
    let step = watch.step(now + SETTLE_TIME).unwrap();
    assert_eq!(step, WatchStep::Changed(vec!["tool.ts".into()]));
}

#[test]
fn source_watch_goes_on_after_the_folder_was_away() {
    let mut bench = WatchBench::with_files(&["plugin/tool.py"]);
    let root = bench.dir.path().join("plugin");
    bench.watch = SourceWatch::start(&root).unwrap();
    fs::rename(&root, bench.dir.path().join("away")).unwrap();
    assert_eq!(bench.settle(), ["tool.py"]);
    bench.write("plugin/tool.py", "");
    assert_eq!(bench.settle(), ["tool.py"]);
}

#[cfg(unix)]
#[test]
fn source_watch_accepts_what_it_cannot_read() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let mut bench = WatchBench::with_files(&["tool.py", "locked/a.py", "secret.py"]);
    let locked = bench.dir.path().join("locked");
    symlink("missing", bench.dir.path().join("dangling")).unwrap();
    symlink(".", bench.dir.path().join("circle")).unwrap();
    assert_eq!(bench.settle(), ["dangling"]);
    fs::set_permissions(
        bench.dir.path().join("secret.py"),
        fs::Permissions::from_mode(0o0),
    )
    .unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o0)).unwrap();
    bench.settle();
    bench.write("tool.py", "still watched");
    assert_eq!(bench.settle(), ["tool.py"]);
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn source_watch_waits_for_the_next_change() {
    let bench = WatchBench::with_files(&["tool.py"]);
    let mut watch = bench.watch;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    write(bench.dir.path(), "tool.py", "changed");
    let files = runtime.block_on(watch.next_change()).unwrap();
    assert_eq!(files, [PathBuf::from("tool.py")]);
}
