//! Restoring of masked values.

use super::super::Redactor;
use super::super::restore::{MarkFacts, RestoreError, RestoredText};
use super::TOKEN;

const OTHER: &str = "ghp_9bYr2WvX7kTyR4nJ6mPcL1sD9fGhB3eU5oKi";

/// The marks of one text only.
const ALONE: MarkFacts<'_> = MarkFacts {
    is_literal: &|_| false,
    has_other_values: &|_| false,
};

/// Restores the values in a text that replaces another one, both as shown to a reader.
fn restored(old: &str, change: impl Fn(&str) -> String) -> Result<String, RestoreError> {
    let redactor = Redactor::new();
    let masked = redactor.mask_restorable(old);
    let restored = masked.restore(&change(masked.text()), None, ALONE)?;
    redactor.check_masked(&restored)?;
    Ok(restored.text)
}

fn unchanged(text: &str) -> String {
    text.to_owned()
}

#[test]
fn restore_of_unchanged_text_is_identical() {
    let key = super::private_key();
    for text in [
        format!("GITHUB_TOKEN = \"{TOKEN}\"\n"),
        format!("A = \"{TOKEN}\"\r\nB = \"{OTHER}\"\r\n"),
        format!("- {TOKEN}\n- {OTHER}\n- {TOKEN}\n"),
        format!(
            "{{\"password\": 12345678, \"pem\": {}}}",
            serde_json::json!(key)
        ),
        format!("a\n{key}\nb\n"),
        "api_key = 8fk2J9sL0pQ7xZ3vB6nM\npassword: !Dd5G4s9\nüber: ghp_ä\n".to_owned(),
        format!("a literal [REDACTED:github-pat] and {TOKEN}\n"),
        "docs: [REDACTED:github-pat], [REDACTED:nothing-known]".to_owned(),
    ] {
        assert_eq!(restored(&text, unchanged).unwrap(), text);
    }
}

#[test]
fn restore_moves_values_with_their_lines() {
    let old = format!("A = \"{TOKEN}\"\nx = 1\nB = \"{OTHER}\"\n");
    let edited = restored(&old, |text| text.replace("x = 1", "x = 2\ny = 3"));
    assert_eq!(edited.unwrap(), old.replace("x = 1", "x = 2\ny = 3"));
    let swapped = restored(&old, |_| {
        "B = \"[REDACTED:github-pat]\"\nx = 1\nA = \"[REDACTED:github-pat]\"\n".to_owned()
    });
    assert_eq!(
        swapped.unwrap(),
        format!("B = \"{OTHER}\"\nx = 1\nA = \"{TOKEN}\"\n")
    );
    let renamed = restored(&old, |text| text.replace("A =", "export A2 ="));
    assert_eq!(renamed.unwrap(), old.replace("A =", "export A2 ="));
    let without = restored(&old, |_| "B = \"[REDACTED:github-pat]\"\n".to_owned());
    assert_eq!(without.unwrap(), format!("B = \"{OTHER}\"\n"));
    let blocks = format!("db:\n  token: {TOKEN}\ncache:\n  token: {OTHER}\n");
    let swapped = restored(&blocks, |_| {
        "cache:\n  token: [REDACTED:github-pat]\ndb:\n  token: [REDACTED:github-pat]\n".to_owned()
    });
    assert_eq!(
        swapped.unwrap(),
        format!("cache:\n  token: {OTHER}\ndb:\n  token: {TOKEN}\n")
    );
}

#[test]
fn restore_rejects_ambiguous_and_unknown_marks() {
    let old = format!("- {TOKEN}\n- {OTHER}\n");
    let mark = "[REDACTED:github-pat]";
    let ambiguous = Err(RestoreError::Ambiguous {
        mark: mark.to_owned(),
    });
    assert_eq!(restored(&old, |_| format!("- {mark}\n")), ambiguous);
    let both = format!("A={TOKEN}\nB={OTHER}\n");
    assert_eq!(
        restored(&both, |_| format!("X={mark}\nY={mark}\n")),
        ambiguous
    );
    let unknown = restored("A=1\n", |_| format!("A={mark}\n"));
    assert_eq!(
        unknown,
        Err(RestoreError::Unknown {
            mark: mark.to_owned()
        })
    );
    // The name of the rule belongs to the mark.
    let other = restored(&old, |text| text.replace("github-pat", "key:password"));
    assert!(
        matches!(other, Err(RestoreError::Unknown { .. })),
        "{other:?}"
    );
}

#[test]
fn restore_rejects_positions_that_expose_a_value() {
    let old = "{\"password\": \"hunter2 and more\", \"user\": \"ann\"}\n";
    for new in [
        "{\"note\": \"[REDACTED:key:password]\"}\n",
        "the password is [REDACTED:key:password]\n",
        "{\"password\": \"x[REDACTED:key:password]\"}\n",
        "{\"password\": \"[REDACTED:key:password]\", \"hint\": \"[REDACTED:key:password]\"}\n",
    ] {
        let out = restored(old, |_| new.to_owned());
        assert!(
            matches!(out, Err(RestoreError::Exposed { .. })),
            "{new}: {out:?}"
        );
    }
    // If only the line is shown, no rule recognizes the value as a secret.
    let apart = restored(old, |_| {
        "{\"password\":\n  \"[REDACTED:key:password]\"}\n".to_owned()
    });
    assert!(
        matches!(apart, Err(RestoreError::Exposed { .. })),
        "{apart:?}"
    );
    let manifest = "kind: Secret\ndata:\n  user: YWRtaW5pc3RyYXRvcg==\n";
    let more = restored(manifest, |text| text.replace("data:", "data:\n  x: y"));
    assert_eq!(more.unwrap(), manifest.replace("data:", "data:\n  x: y"));
    let copied = "{\"password\": \"[REDACTED:key:password]\", \"old_password\": \"[REDACTED:key:password]\"}\n";
    let out = restored(old, |_| copied.to_owned()).unwrap();
    assert_eq!(
        out,
        copied.replace("[REDACTED:key:password]", "hunter2 and more")
    );
    let manifest = "kind: Secret\ndata:\n  user: YWRtaW5pc3RyYXRvcg==\n";
    let moved = restored(manifest, |_| {
        "user: [REDACTED:kubernetes-secret-yaml]\n".to_owned()
    });
    assert!(
        matches!(moved, Err(RestoreError::Exposed { .. })),
        "{moved:?}"
    );
}

#[test]
fn restore_with_other_values_shown_needs_the_text_before_the_mark() {
    let old = format!("B = \"{TOKEN}\"\nport = 1\n");
    let redactor = Redactor::new();
    let masked = redactor.mask_restorable(&old);
    let facts = MarkFacts {
        has_other_values: &|_| true,
        ..ALONE
    };
    let own = "port = 2\nB = \"[REDACTED:github-pat]\"\n";
    let out = masked.restore(own, None, facts).unwrap();
    assert_eq!(out.text, format!("port = 2\nB = \"{TOKEN}\"\n"));
    let ambiguous = Err(RestoreError::Ambiguous {
        mark: "[REDACTED:github-pat]".to_owned(),
    });
    for foreign in [
        "A = \"[REDACTED:github-pat]\"\n".to_owned(),
        format!("{own}A = \"[REDACTED:github-pat]\"\n"),
    ] {
        assert_eq!(
            masked.restore(&foreign, None, facts),
            ambiguous,
            "{foreign}"
        );
    }
    let line = "B = \"[REDACTED:github-pat]\"";
    let part = masked.part(0..line.len()).unwrap();
    let renamed = part.restore("C = \"[REDACTED:github-pat]\"", Some(&masked), facts);
    assert_eq!(renamed.unwrap().text, format!("C = \"{TOKEN}\""));
    let both = format!("{line}\nA = \"[REDACTED:github-pat]\"");
    assert_eq!(part.restore(&both, Some(&masked), facts), ambiguous);
}

#[test]
fn restore_of_a_part_prefers_its_own_marks() {
    let old = format!("A = \"{TOKEN}\"\nx = 1\nB = \"{OTHER}\"\n");
    let redactor = Redactor::new();
    let masked = redactor.mask_restorable(&old);
    let line = "B = \"[REDACTED:github-pat]\"";
    let at = masked.text().find(line).unwrap();
    let part = masked.part(at..at + line.len()).unwrap();
    let out = part.restore("C = \"[REDACTED:github-pat]\"", Some(&masked), ALONE);
    assert_eq!(out.unwrap().text, format!("C = \"{OTHER}\""));
    let at = masked.text().find("x = 1").unwrap();
    let part = masked.part(at..at + 5).unwrap();
    let out = part.restore("[REDACTED:github-pat]", Some(&masked), ALONE);
    assert!(matches!(out, Err(RestoreError::Ambiguous { .. })));
    // Half a mark cannot be part of the file.
    assert!(masked.part(8..12).is_none());
    assert_eq!(
        masked.original(at..at + 5),
        Some(old.find('x').unwrap()..old.find('x').unwrap() + 5)
    );
    let whole = RestoredText::concat([RestoredText::plain("a"), RestoredText::plain("b")]);
    assert_eq!(whole.text, "ab");
}

#[test]
fn restore_keeps_the_order_of_equal_marks() {
    let token = |number: usize| TOKEN.replace("8aZq", &format!("{number:04}"));
    let lines: Vec<String> = (0..300).map(token).collect();
    let old = lines.join("\n");
    assert_eq!(
        restored(&old, |text| format!("{text}\n# end")).unwrap(),
        format!("{old}\n# end")
    );
}
