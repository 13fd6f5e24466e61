//! Files with a filter in `.gitattributes`.

use std::fs;

use super::Place;

/// A repository in which a file is stored in another form by a required filter.
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
fn git_filtered_files_are_not_added_or_checked_out() {
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
        let output = place.refused("work", operation, args);
        for part in ["GIT_FILTER", "`crypt`", ".secret`", "`exec`"] {
            assert!(
                output.contains(part),
                "{operation} {args:?}: {part}: {output}"
            );
        }
        assert_eq!(place.git("work", &["ls-files", "-s"]), index, "{args:?}");
        assert_eq!(place.git("work", &["rev-parse", "HEAD"]), head, "{args:?}");
        let text = fs::read_to_string(place.at("work/deep/a.secret")).unwrap();
        assert_eq!(text, "clear\n", "{args:?}");
    }
    // Reading is allowed, with a note.
    for operation in ["status", "diff"] {
        let output = place.fine("work", operation, &[]);
        let note = "compared without the filters that .gitattributes names";
        assert!(
            output.contains(note) && output.contains("deep/a.secret"),
            "{output}"
        );
    }
    // Files without a filter are allowed, too.
    place.fine("work", "add", &["plain.txt"]);
    place.fine("work", "commit", &["-m", "Second"]);
    place.fine("work", "checkout", &["-b", "new"]);
    let stored = place.git("work", &["cat-file", "blob", "HEAD:deep/a.secret"]);
    assert_eq!(stored, "bcd\n");
}

#[test]
fn git_attributes_of_the_target_branch_apply_to_checkout() {
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
    let output = place.refused("work", "checkout", &["topic"]);
    // Git before 2.40 does not report it.
    assert!(
        output.contains("GIT_FILTER") || output.contains("2.40"),
        "{output}"
    );
    assert_eq!(
        fs::read_to_string(place.at("work/a.secret")).unwrap(),
        "abc\n"
    );
}
