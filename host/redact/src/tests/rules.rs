//! The rule tables, and lazy compilation.

use super::super::rules::{self, AnchorPosition};
use super::super::scan::{SecretScanner, scanner};
use super::super::{ExceptionError, Redactor};
use super::TOKEN;

#[test]
fn rules_are_valid_patterns() {
    let broken: Vec<_> = scanner()
        .patterns()
        .iter()
        .filter(|pattern| !pattern.compiles())
        .map(|pattern| pattern.rule.id)
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn rules_have_valid_anchors_and_widths() {
    for rule in rules::all() {
        assert!(!rule.anchors.is_empty(), "{}", rule.id);
        for anchor in rule.anchors {
            assert_eq!(*anchor, anchor.to_ascii_lowercase(), "{}", rule.id);
        }
        match rule.position {
            AnchorPosition::Here(_) => assert!(rule.width > 0, "{}", rule.id),
            AnchorPosition::Around { before, after } => assert!(before + after > 0, "{}", rule.id),
        }
    }
    assert!(rules::all().count() > 220);
}

#[test]
fn rules_are_compiled_lazily() {
    let fresh = SecretScanner::new();
    assert_eq!(fresh.compiled_state(), (0, false));
    let plain =
        "The key to authentication is a token, and the secret of the API: nothing.\n".repeat(100);
    assert!(fresh.find(plain.as_bytes()).is_empty());
    let (compiled, built) = fresh.compiled_state();
    assert!(built);
    assert!(
        compiled <= 2,
        "{compiled} rules were compiled for ordinary text"
    );
    fresh.find(TOKEN.as_bytes());
    assert_eq!(fresh.compiled_state().0, compiled + 1);
}

#[test]
fn rules_exceptions_must_name_existing_rules() {
    let redactor = Redactor::new();
    let free = redactor.except(["github-pat", "key:password"]).unwrap();
    assert!(free.is_exempt("github-pat") && !redactor.is_exempt("github-pat"));
    assert!(free.used_exceptions().is_empty());
    assert!(free.find(TOKEN.as_bytes()).is_empty());
    assert_eq!(free.used_exceptions(), ["github-pat"]);
    assert_eq!(redactor.find(TOKEN.as_bytes()).len(), 1);
    assert!(free.find(br#"{"password": "hunter2"}"#).is_empty());
    assert_eq!(free.used_exceptions(), ["github-pat", "key:password"]);
    let wrong = redactor.except(["github-pta"]).unwrap_err();
    assert!(
        matches!(&wrong, ExceptionError::Unknown { rule } if rule == "github-pta"),
        "{wrong}"
    );
    let value = redactor
        .with_values([("DEPLOY", "correct horse")])
        .except(["secret:DEPLOY"]);
    assert!(matches!(value, Err(ExceptionError::Value { .. })));
}
