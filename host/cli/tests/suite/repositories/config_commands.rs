//! Commands in a repository's config, attributes and hooks: none of them runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::GitFixture;

/// Settings whose value is a command or a program, as listed by git, and an operation that makes git use each.
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

/// Settings that apply to git processes inside a submodule.
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

/// A repository with a submodule, in which every setting is a trap. Returns the folder where a trap leaves its mark.
fn trapped(fixture: &GitFixture) -> PathBuf {
    let attributes = "* diff=x merge=x filter=x\n";
    fixture.write("up/.gitattributes", attributes);
    for text in ["one\n", "two\n"] {
        fixture.write("up/f", text);
        if text == "one\n" {
            fixture.git("up", &["init", "-q"]);
        }
        fixture.git("up", &["add", "-A"]);
        fixture.git("up", &["commit", "-qm", "f"]);
    }
    fixture.write("work/a.txt", "one\n");
    fixture.write("work/.gitattributes", "*.txt diff=x merge=x\n");
    fixture.git("work", &["init", "-q", "-b", "main"]);
    fixture.git("work", &["submodule", "--quiet", "add", "../up", "sub"]);
    fixture.git("work", &["add", "-A"]);
    fixture.git("work", &["commit", "-qm", "First"]);
    fixture.git("work", &["checkout", "-q", "-b", "topic"]);
    fixture.write("work/a.txt", "topic\n");
    fixture.git("work", &["commit", "-qam", "Topic"]);
    fixture.git("work", &["checkout", "-q", "main"]);

    let mark = fixture.at("work/marks");
    let trap = fixture.at("work/trap");
    let text = format!(
        "#!/bin/sh\nmkdir -p {0}; touch \"{0}/$1\"; cat\n",
        mark.display()
    );
    fixture.write("work/trap", &text);
    for hook in HOOKS {
        fixture.write(&format!("work/hooks/{hook}"), &text);
    }
    let hooks = HOOKS.map(|hook| fixture.at("work/hooks").join(hook));
    for path in hooks.iter().chain([&trap]) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (folder, settings) in [("work/sub", &INNER[..]), ("work", &SETTINGS[..])] {
        for (key, value) in settings {
            let trap = format!("{} {key}", trap.display());
            fixture.git(folder, &["config", key, &value.replace("TRAP", &trap)]);
        }
    }
    // Applies once this branch is checked out.
    let late = format!("[filter \"late\"]\n\tclean = \"{} late\"\n", trap.display());
    fixture.write("work/late", &late);
    fixture.git(
        "work",
        &["config", "includeIf.onbranch:topic.path", "../late"],
    );
    fixture.git("work", &["config", "user.name", "a"]);
    fixture.git("work", &["config", "user.email", "a@b"]);
    mark
}

/// Changes a file without changing its size and time, so that git has to read it.
fn disguise(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(old).unwrap();
}

#[test]
fn git_runs_no_commands_from_the_repository_config() {
    let fixture = GitFixture::new();
    let mark = trapped(&fixture);
    let marks = || {
        let entries = mark.read_dir().into_iter().flatten().flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names
    };
    // When git runs directly, it does run them: the traps work.
    disguise(&fixture.at("work/sub/f"), "TWO\n");
    let by_hand = Command::new("git")
        .current_dir(fixture.at("work"))
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
                disguise(&fixture.at("work/sub/f"), &format!("{}\n", 200 + number));
                disguise(&fixture.at("work/a.txt"), &format!("{}\n", 200 + number));
            }
            let (code, output) = fixture.call("work", operation, args);
            let marks = marks();
            assert!(marks.is_empty(), "{round}, {operation} {args:?}: {marks:?}");
            let changes = matches!(*operation, "add" | "commit" | "checkout");
            assert!(
                code == 0 || changes,
                "{round}, {operation} {args:?}: {output:#}"
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
            fixture.git("work/sub", &words);
        }
    }
    // The submodule is not inspected, but its commit is staged.
    let log = fixture.succeeds("work", "log", &["--all"]);
    assert!(log.contains("Second"), "{log}");
}

#[test]
fn git_partial_clone_is_never_fetched() {
    let fixture = GitFixture::new();
    fixture.write("up/a.txt", "one\n");
    fixture.git("up", &["init", "-q"]);
    fixture.git("up", &["add", "-A"]);
    fixture.git("up", &["commit", "-qm", "First"]);
    fixture.git("up", &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", fixture.at("up").display());
    fs::create_dir(fixture.at("x")).unwrap();
    let words = [
        "clone",
        "-q",
        "--no-checkout",
        "--filter=blob:none",
        &url,
        "../work",
    ];
    fixture.git("x", &words);
    let mark = fixture.at("work/fetched");
    let trap = format!("touch {}; false", mark.display());
    for (key, value) in [
        ("remote.origin.uploadpack", trap.as_str()),
        ("protocol.file.allow", "always"),
        ("protocol.allow", "always"),
    ] {
        fixture.git("work", &["config", key, value]);
    }
    for (operation, args) in [
        ("show", &[][..]),
        ("log", &["-Gone"]),
        ("checkout", &["HEAD", "--", "a.txt"]),
    ] {
        let output = fixture.refused("work", operation, args);
        assert!(!mark.exists(), "{operation}: {output}");
        assert!(output.contains("partial clone"), "{operation}: {output}");
        assert!(output.contains("`exec`"), "{operation}: {output}");
    }
    // Existing commits are shown.
    let log = fixture.succeeds("work", "log", &[]);
    assert!(log.contains("First"), "{log}");
    assert!(!mark.exists());
}
