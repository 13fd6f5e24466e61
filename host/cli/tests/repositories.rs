//! The tool `git` in repositories that want to run something, and in those where it must not be quiet about what it
//! leaves out.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod kit;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with repositories in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Git by hand, where nothing is set yet that would run.
    fn git(&self, folder: &str, words: &[&str]) -> String {
        let done = Command::new("git")
            .current_dir(self.at(folder))
            .args(["-c", "protocol.file.allow=always"])
            .args(words)
            .envs([
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_AUTHOR_NAME", "a"),
                ("GIT_AUTHOR_EMAIL", "a@b"),
                ("GIT_COMMITTER_NAME", "a"),
                ("GIT_COMMITTER_EMAIL", "a@b"),
            ])
            .output()
            .unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// A call of the tool in a folder, to which a person says yes.
    fn call(&self, folder: &str, operation: &str, args: &[&str]) -> (i32, Value) {
        let arguments = json!({"operation": operation, "args": args}).to_string();
        let words = ["--json", "call", "--approve", "always", "git", &arguments];
        let (code, out, err) = kit::run(&self.at(folder), &words);
        let said = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        (code, said)
    }

    fn fine(&self, folder: &str, operation: &str, args: &[&str]) -> String {
        let (code, said) = self.call(folder, operation, args);
        assert_eq!(code, 0, "{operation} {args:?}: {said:#}");
        said["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// What it says of why it does not.
    fn refused(&self, folder: &str, operation: &str, args: &[&str]) -> String {
        let (code, said) = self.call(folder, operation, args);
        assert_ne!(code, 0, "{operation} {args:?}: {said:#}");
        said["error"].to_string()
    }
}

/// Settings with a command or a program for a value, as git's own list has them, and what makes git come to them.
const SETTINGS: [(&str, &str); 49] = [
    ("alias.status", "!TRAP"),
    ("browser.x.cmd", "TRAP"),
    ("commit.gpgSign", "true"),
    ("core.alternateRefsCommand", "TRAP"),
    ("core.askPass", "TRAP"),
    ("core.editor", "TRAP"),
    ("core.fsmonitor", "TRAP"),
    ("core.gitProxy", "TRAP"),
    ("core.hooksPath", "hooks"),
    ("core.pager", "TRAP"),
    ("core.sshCommand", "TRAP"),
    ("credential.helper", "!TRAP"),
    ("credential.https://a.example.helper", "!TRAP"),
    ("diff.external", "TRAP"),
    ("diff.submodule", "diff"),
    ("diff.tool", "x"),
    ("diff.x.command", "TRAP"),
    ("diff.x.textconv", "TRAP"),
    ("difftool.x.cmd", "TRAP"),
    ("filter.x.clean", "TRAP"),
    ("filter.x.process", "TRAP"),
    ("filter.x.smudge", "TRAP"),
    ("gc.auto", "1"),
    ("gc.recentObjectsHook", "TRAP"),
    ("gpg.format", "ssh"),
    ("gpg.program", "TRAP"),
    ("gpg.ssh.defaultKeyCommand", "TRAP"),
    ("gpg.ssh.program", "TRAP"),
    ("gpg.x509.program", "TRAP"),
    ("guitool.x.cmd", "TRAP"),
    ("hook.x.command", "TRAP"),
    ("hook.x.event", "post-commit"),
    ("interactive.diffFilter", "TRAP"),
    ("log.showSignature", "true"),
    ("maintenance.auto", "true"),
    ("man.x.cmd", "TRAP"),
    ("merge.x.driver", "TRAP"),
    ("mergetool.x.cmd", "TRAP"),
    ("pager.log", "TRAP"),
    ("protocol.ext.allow", "always"),
    ("remote.origin.receivepack", "TRAP"),
    ("remote.origin.uploadpack", "TRAP"),
    ("sequence.editor", "TRAP"),
    ("status.submoduleSummary", "true"),
    ("submodule.sub.update", "!TRAP"),
    ("tar.x.command", "TRAP"),
    ("trailer.signed-off-by.command", "TRAP"),
    ("uploadpack.packObjectsHook", "TRAP"),
    ("user.signingKey", "x"),
];

/// What a repository of its own keeps of a submodule obeys these.
const INNER: [(&str, &str); 6] = [
    ("core.fsmonitor", "TRAP"),
    ("diff.x.command", "TRAP"),
    ("diff.x.textconv", "TRAP"),
    ("filter.x.clean", "TRAP"),
    ("filter.x.process", "TRAP"),
    ("filter.x.smudge", "TRAP"),
];

const HOOKS: [&str; 7] = [
    "commit-msg",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "pre-commit",
    "prepare-commit-msg",
    "reference-transaction",
];

/// A repository with a submodule, in which all is a trap; where a trap would leave its mark.
fn trapped(place: &Place) -> PathBuf {
    let attributes = "* diff=x merge=x filter=x\n";
    place.write("up/.gitattributes", attributes);
    for text in ["one\n", "two\n"] {
        place.write("up/f", text);
        if text == "one\n" {
            place.git("up", &["init", "-q"]);
        }
        place.git("up", &["add", "-A"]);
        place.git("up", &["commit", "-qm", "f"]);
    }
    place.write("work/a.txt", "one\n");
    place.write("work/.gitattributes", "*.txt diff=x merge=x\n");
    place.git("work", &["init", "-q", "-b", "main"]);
    place.git("work", &["submodule", "--quiet", "add", "../up", "sub"]);
    place.git("work", &["add", "-A"]);
    place.git("work", &["commit", "-qm", "First"]);
    place.git("work", &["checkout", "-q", "-b", "topic"]);
    place.write("work/a.txt", "topic\n");
    place.git("work", &["commit", "-qam", "Topic"]);
    place.git("work", &["checkout", "-q", "main"]);

    let mark = place.at("work/marks");
    let trap = place.at("work/trap");
    let text = format!(
        "#!/bin/sh\nmkdir -p {0}; touch \"{0}/$1\"; cat\n",
        mark.display()
    );
    place.write("work/trap", &text);
    for hook in HOOKS {
        place.write(&format!("work/hooks/{hook}"), &text);
    }
    let hooks = HOOKS.map(|hook| place.at("work/hooks").join(hook));
    for path in hooks.iter().chain([&trap]) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (folder, settings) in [("work/sub", &INNER[..]), ("work", &SETTINGS[..])] {
        for (key, value) in settings {
            let trap = format!("{} {key}", trap.display());
            place.git(folder, &["config", key, &value.replace("TRAP", &trap)]);
        }
    }
    // Obeyed from the moment on that this branch is checked out.
    let late = format!("[filter \"late\"]\n\tclean = \"{} late\"\n", trap.display());
    place.write("work/late", &late);
    place.git(
        "work",
        &["config", "includeIf.onbranch:topic.path", "../late"],
    );
    place.git("work", &["config", "user.name", "a"]);
    place.git("work", &["config", "user.email", "a@b"]);
    mark
}

/// Changes a file so that its size and its time don't say whether it has changed: git has to look into it.
fn disguise(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(old).unwrap();
}

#[test]
fn nothing_of_a_repository_or_of_its_submodules_runs() {
    let place = Place::new();
    let mark = trapped(&place);
    let marks = || {
        let entries = mark.read_dir().into_iter().flatten().flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names
    };
    // Git by hand runs it: the traps are set.
    disguise(&place.at("work/sub/f"), "TWO\n");
    let by_hand = Command::new("git")
        .current_dir(place.at("work"))
        .args(["add", "-u"])
        .output();
    by_hand.unwrap();
    assert!(!marks().is_empty());
    fs::remove_dir_all(&mark).unwrap();

    let all: [(&str, &[&str]); 20] = [
        ("status", &[]),
        ("diff", &[]),
        ("diff", &["--stat"]),
        ("diff", &["--staged"]),
        ("log", &[]),
        ("log", &["-Gone"]),
        ("show", &[]),
        ("branch", &[]),
        ("add", &["sub"]),
        ("add", &["-u"]),
        ("add", &["a.txt"]),
        ("commit", &["-m", "Second", "-s"]),
        ("commit", &["-m", "Second", "--allow-empty"]),
        ("add", &["-A"]),
        ("commit", &["-a", "-m", "Third", "-s"]),
        ("commit", &["--amend", "--no-edit"]),
        ("checkout", &["-b", "other"]),
        ("checkout", &["topic"]),
        ("status", &[]),
        ("checkout", &["--", "a.txt"]),
    ];
    for round in [
        "a file of the submodule is another",
        "its commit is another",
    ] {
        for (number, (operation, args)) in all.iter().enumerate() {
            if !matches!(*operation, "commit" | "checkout") {
                disguise(&place.at("work/sub/f"), &format!("{}\n", 200 + number));
                disguise(&place.at("work/a.txt"), &format!("{}\n", 200 + number));
            }
            let (code, said) = place.call("work", operation, args);
            let marks = marks();
            assert!(marks.is_empty(), "{round}, {operation} {args:?}: {marks:?}");
            let changes = matches!(*operation, "add" | "commit" | "checkout");
            assert!(
                code == 0 || changes,
                "{round}, {operation} {args:?}: {said:#}"
            );
        }
        let off = [
            "filter.x.clean=",
            "filter.x.process=",
            "filter.x.smudge=",
            "core.fsmonitor=",
        ];
        let off = off.into_iter().flat_map(|setting| ["-c", setting]);
        let words: Vec<_> = off.chain(["checkout", "-qf", "HEAD~1"]).collect();
        if round.starts_with("a file") {
            place.git("work/sub", &words);
        }
    }
    // Nobody looks into a submodule, and its commit is staged all the same.
    let log = place.fine("work", "log", &["--all"]);
    assert!(log.contains("Second"), "{log}");
}

#[test]
fn nothing_is_fetched_for_a_partial_clone() {
    let place = Place::new();
    place.write("up/a.txt", "one\n");
    place.git("up", &["init", "-q"]);
    place.git("up", &["add", "-A"]);
    place.git("up", &["commit", "-qm", "First"]);
    place.git("up", &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", place.at("up").display());
    fs::create_dir(place.at("x")).unwrap();
    let words = [
        "clone",
        "-q",
        "--no-checkout",
        "--filter=blob:none",
        &url,
        "../work",
    ];
    place.git("x", &words);
    let mark = place.at("work/fetched");
    let trap = format!("touch {}; false", mark.display());
    for (key, value) in [
        ("remote.origin.uploadpack", trap.as_str()),
        ("protocol.file.allow", "always"),
        ("protocol.allow", "always"),
    ] {
        place.git("work", &["config", key, value]);
    }
    for (operation, args) in [
        ("show", &[][..]),
        ("log", &["-Gone"]),
        ("checkout", &["HEAD", "--", "a.txt"]),
    ] {
        let said = place.refused("work", operation, args);
        assert!(!mark.exists(), "{operation}: {said}");
        assert!(said.contains("partial clone"), "{operation}: {said}");
        assert!(said.contains("`exec`"), "{operation}: {said}");
    }
    // What is here is told.
    let log = place.fine("work", "log", &[]);
    assert!(log.contains("First"), "{log}");
    assert!(!mark.exists());
}

/// A repository in which a file is stored as other bytes than it has, by a filter that must be there.
fn encrypted(place: &Place) -> (String, String) {
    place.write("work/plain.txt", "one\n");
    place.git("work", &["init", "-q", "-b", "main"]);
    for (key, value) in [
        ("filter.crypt.clean", "tr a-z b-za"),
        ("filter.crypt.smudge", "tr b-za a-z"),
        ("filter.crypt.required", "true"),
        ("user.name", "a"),
        ("user.email", "a@b"),
    ] {
        place.git("work", &["config", key, value]);
    }
    place.write("work/.gitattributes", "*.secret filter=crypt\n");
    place.write("work/deep/a.secret", "abc\n");
    place.git("work", &["add", "-A"]);
    place.git("work", &["commit", "-qm", "First"]);
    place.git("work", &["checkout", "-q", "-b", "topic"]);
    place.write("work/deep/a.secret", "topic\n");
    place.git("work", &["commit", "-qam", "Topic"]);
    place.git("work", &["checkout", "-q", "main"]);
    let stored = place.git("work", &["cat-file", "blob", "HEAD:deep/a.secret"]);
    assert_eq!(stored, "bcd\n");
    let index = place.git("work", &["ls-files", "-s"]);
    (stored, index)
}

#[test]
fn what_a_filter_goes_through_is_neither_stored_nor_written_without_it() {
    let place = Place::new();
    let (_, index) = encrypted(&place);
    let head = place.git("work", &["rev-parse", "HEAD"]);
    place.write("work/deep/a.secret", "clear\n");
    place.write("work/deep/b.secret", "clear\n");
    place.write("work/plain.txt", "two\n");
    for (operation, args) in [
        ("add", &["-A"][..]),
        ("add", &["."]),
        ("add", &["deep"]),
        ("add", &["-u"]),
        ("add", &["deep/b.secret"]),
        ("commit", &["-a", "-m", "x"]),
        ("commit", &["-m", "x", "--", "deep/a.secret"]),
        ("checkout", &["topic"]),
        ("checkout", &["-f", "topic"]),
        ("checkout", &["-b", "new", "topic"]),
        ("checkout", &["--", "deep"]),
        ("checkout", &["topic", "--", "deep/a.secret"]),
    ] {
        let said = place.refused("work", operation, args);
        for part in ["GIT_FILTER", "`crypt`", ".secret`", "`exec`"] {
            assert!(said.contains(part), "{operation} {args:?}: {part}: {said}");
        }
        assert_eq!(place.git("work", &["ls-files", "-s"]), index, "{args:?}");
        assert_eq!(place.git("work", &["rev-parse", "HEAD"]), head, "{args:?}");
        let text = fs::read_to_string(place.at("work/deep/a.secret")).unwrap();
        assert_eq!(text, "clear\n", "{args:?}");
    }
    // Reading is let, and says so.
    for operation in ["status", "diff"] {
        let said = place.fine("work", operation, &[]);
        let note = "compared without the filters that .gitattributes names";
        assert!(
            said.contains(note) && said.contains("deep/a.secret"),
            "{said}"
        );
    }
    // And so is all that goes through none.
    place.fine("work", "add", &["plain.txt"]);
    place.fine("work", "commit", &["-m", "Second"]);
    place.fine("work", "checkout", &["-b", "new"]);
    let stored = place.git("work", &["cat-file", "blob", "HEAD:deep/a.secret"]);
    assert_eq!(stored, "bcd\n");
}

#[test]
fn attributes_that_come_with_a_checkout_count() {
    let place = Place::new();
    place.write("work/a.secret", "abc\n");
    place.git("work", &["init", "-q", "-b", "main"]);
    place.git("work", &["add", "-A"]);
    place.git("work", &["commit", "-qm", "First"]);
    place.git("work", &["checkout", "-q", "-b", "topic"]);
    place.write("work/.gitattributes", "*.secret filter=crypt\n");
    place.write("work/a.secret", "topic\n");
    place.git("work", &["add", "-A"]);
    place.git("work", &["commit", "-qm", "Topic"]);
    place.git("work", &["checkout", "-q", "main"]);
    let said = place.refused("work", "checkout", &["topic"]);
    // A git before 2.40 cannot say it.
    assert!(
        said.contains("GIT_FILTER") || said.contains("2.40"),
        "{said}"
    );
    assert_eq!(
        fs::read_to_string(place.at("work/a.secret")).unwrap(),
        "abc\n"
    );
}

#[test]
fn what_is_named_to_be_staged_is_there() {
    let place = Place::new();
    place.write("work/a.txt", "one\n");
    place.write("work/.gitignore", "*.log\n");
    place.write("work/x.log", "x");
    place.git("work", &["init", "-q", "-b", "main"]);
    let said = place.refused("work", "add", &["a.txt", "typo"]);
    assert!(
        said.contains("typo") && said.contains(".gitignore"),
        "{said}"
    );
    assert!(place.refused("work", "add", &["x.log"]).contains("x.log"));
    assert_eq!(place.git("work", &["ls-files"]), "", "all or nothing");
    place.git("work", &["config", "user.name", "a"]);
    place.git("work", &["config", "user.email", "a@b"]);
    place.fine("work", "add", &["."]);
    place.fine("work", "commit", &["-m", "First"]);
    let said = place.refused("work", "commit", &["-m", "Second"]);
    assert!(said.contains("nothing staged"), "{said}");
    // A name that is a pattern to git, and one that is gone.
    place.write("work/[a]*", "x\n");
    place.write("work/b.txt", "x\n");
    fs::remove_file(place.at("work/a.txt")).unwrap();
    place.fine("work", "add", &["-A"]);
    assert_eq!(
        place.git("work", &["ls-files"]),
        ".gitignore\n[a]*\nb.txt\n"
    );
    place.fine("work", "commit", &["-m", "Second"]);
    place.write("work/b.txt", "y\n");
    place.fine("work", "commit", &["-a", "-m", "Third"]);
    assert_eq!(place.git("work", &["status", "--porcelain"]), "");
}

#[test]
fn a_linked_worktree_is_told_of() {
    let place = Place::new();
    place.write("main/a.txt", "one\n");
    place.git("main", &["init", "-q"]);
    place.git("main", &["add", "-A"]);
    place.git("main", &["commit", "-qm", "First"]);
    place.git("main", &["worktree", "add", "-q", "../work"]);
    let said = place.refused("work", "status", &[]);
    let real = place.at("main").canonicalize().unwrap();
    let mount = format!("{0}/.git:{0}/.git:rw", real.display());
    for part in ["linked worktree", "bindMounts", &mount] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("makes one"), "{said}");
}
