//! Files with a filter in `.gitattributes`.

use std::fs;

use super::GitFixture;

/// A repository in which a file is stored in another form by a required filter.
fn encrypted(fixture: &GitFixture) -> (String, String) {
    fixture.write("work/plain.txt", "one\n");
    fixture.git("work", &["init", "-q", "-b", "main"]);
    for (key, value) in [
        ("filter.crypt.clean", "tr a-z b-za"),
        ("filter.crypt.smudge", "tr b-za a-z"),
        ("filter.crypt.required", "true"),
        ("user.name", "a"),
        ("user.email", "a@b"),
    ] {
        fixture.git("work", &["config", key, value]);
    }
    fixture.write("work/.gitattributes", "*.secret filter=crypt\n");
    fixture.write("work/deep/a.secret", "abc\n");
    fixture.git("work", &["add", "-A"]);
    fixture.git("work", &["commit", "-qm", "First"]);
    fixture.git("work", &["checkout", "-q", "-b", "topic"]);
    fixture.write("work/deep/a.secret", "topic\n");
    fixture.git("work", &["commit", "-qam", "Topic"]);
    fixture.git("work", &["checkout", "-q", "main"]);
    let stored = fixture.git("work", &["cat-file", "blob", "HEAD:deep/a.secret"]);
    assert_eq!(stored, "bcd\n");
    let index = fixture.git("work", &["ls-files", "-s"]);
    (stored, index)
}

#[test]
fn git_filtered_files_are_not_added_or_checked_out() {
    let fixture = GitFixture::new();
    let (_, index) = encrypted(&fixture);
    let head = fixture.git("work", &["rev-parse", "HEAD"]);
    fixture.write("work/deep/a.secret", "clear\n");
    fixture.write("work/deep/b.secret", "clear\n");
    fixture.write("work/plain.txt", "two\n");
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
        let output = fixture.refused("work", operation, args);
        for part in ["GIT_FILTER", "`crypt`", ".secret`", "`exec`"] {
            assert!(
                output.contains(part),
                "{operation} {args:?}: {part}: {output}"
            );
        }
        assert_eq!(fixture.git("work", &["ls-files", "-s"]), index, "{args:?}");
        assert_eq!(
            fixture.git("work", &["rev-parse", "HEAD"]),
            head,
            "{args:?}"
        );
        let text = fs::read_to_string(fixture.at("work/deep/a.secret")).unwrap();
        assert_eq!(text, "clear\n", "{args:?}");
    }
    // Reading is allowed, with a note.
    for operation in ["status", "diff"] {
        let output = fixture.succeeds("work", operation, &[]);
        let note = "compared without the filters that .gitattributes names";
        assert!(
            output.contains(note) && output.contains("deep/a.secret"),
            "{output}"
        );
    }
    // Files without a filter are allowed, too.
    fixture.succeeds("work", "add", &["plain.txt"]);
    fixture.succeeds("work", "commit", &["-m", "Second"]);
    fixture.succeeds("work", "checkout", &["-b", "new"]);
    let stored = fixture.git("work", &["cat-file", "blob", "HEAD:deep/a.secret"]);
    assert_eq!(stored, "bcd\n");
}

#[test]
fn git_attributes_of_the_target_branch_apply_to_checkout() {
    let fixture = GitFixture::new();
    fixture.write("work/a.secret", "abc\n");
    fixture.git("work", &["init", "-q", "-b", "main"]);
    fixture.git("work", &["add", "-A"]);
    fixture.git("work", &["commit", "-qm", "First"]);
    fixture.git("work", &["checkout", "-q", "-b", "topic"]);
    fixture.write("work/.gitattributes", "*.secret filter=crypt\n");
    fixture.write("work/a.secret", "topic\n");
    fixture.git("work", &["add", "-A"]);
    fixture.git("work", &["commit", "-qm", "Topic"]);
    fixture.git("work", &["checkout", "-q", "main"]);
    let output = fixture.refused("work", "checkout", &["topic"]);
    // Git before 2.40 does not report it.
    assert!(
        output.contains("GIT_FILTER") || output.contains("2.40"),
        "{output}"
    );
    assert_eq!(
        fs::read_to_string(fixture.at("work/a.secret")).unwrap(),
        "abc\n"
    );
}
