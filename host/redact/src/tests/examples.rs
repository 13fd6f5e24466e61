//! gitleaks' own examples: matches that its rules must find, and text that they must not.

use serde::Deserialize;

use super::super::{Redactor, SecretFinding};

#[derive(Deserialize)]
struct Example {
    rule: String,
    #[serde(default)]
    samples: Vec<(String, String)>,
    #[serde(default)]
    positives: Vec<Positive>,
    #[serde(default)]
    negatives: Vec<String>,
}

#[derive(Deserialize)]
struct Positive {
    text: String,
    /// The matches of Go's regexp package.
    secrets: Vec<String>,
}

fn examples() -> Vec<Example> {
    let lines = include_str!("../gitleaks/examples.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns a sample in every form in which it may be written.
fn written(identifier: &str, secret: &str) -> Vec<String> {
    let templates: Vec<String> =
        serde_json::from_str(include_str!("../gitleaks/templates.json")).unwrap();
    let fill = |template: &String| {
        template
            .replace("{i}", identifier)
            .replace("{I}", &identifier.to_uppercase())
            .replace("{s}", secret)
    };
    templates.iter().map(fill).collect()
}

/// Returns the secret part of a match that gitleaks reports, without the key of a Kubernetes entry or a trailing quote.
fn core(rule: &str, reported: &str) -> String {
    let value = match rule {
        "kubernetes-secret-yaml" => reported.split_whitespace().next_back().unwrap_or(reported),
        _ => reported,
    };
    value.trim_matches(['\'', '"']).to_owned()
}

/// `-----BEGIN CERTIFICATE` in base64: gitleaks reports it, but a certificate is public.
const PUBLIC: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FUR";

/// Returns the texts of an example, each with its secrets.
fn positives(example: &Example) -> Vec<(String, Vec<String>)> {
    let samples = example.samples.iter().flat_map(|(identifier, secret)| {
        let texts = written(identifier, secret).into_iter();
        texts.map(move |text| (text, vec![core(&example.rule, secret)]))
    });
    let positives = example.positives.iter().map(|positive| {
        let secrets = positive.secrets.iter();
        let secrets = secrets.map(|secret| core(&example.rule, secret));
        let secrets = secrets
            .filter(|secret| !secret.starts_with(PUBLIC))
            .collect();
        (positive.text.clone(), secrets)
    });
    samples.chain(positives).collect()
}

/// Returns true if findings cover at least one occurrence of this secret.
fn cover(findings: &[&SecretFinding], text: &str, secret: &str) -> bool {
    text.match_indices(secret).any(|(start, _)| {
        let end = start + secret.len();
        findings
            .iter()
            .any(|finding| finding.start <= start && end <= finding.end)
    })
}

/// Rules that are left out because they need a file name.
const LEFT_OUT: [&str; 2] = ["hashicorp-tf-password", "pkcs12-file"];

#[test]
fn examples_positive_are_masked() {
    let (mut total, mut named) = (0, 0);
    let mut missed = vec![];
    for example in examples() {
        if LEFT_OUT.contains(&&*example.rule) {
            continue;
        }
        for (text, secrets) in positives(&example) {
            let findings = Redactor::new().find(text.as_bytes());
            let any: Vec<_> = findings.iter().collect();
            let own: Vec<_> = findings
                .iter()
                .filter(|finding| finding.rule == example.rule)
                .collect();
            for secret in secrets {
                total += 1;
                named += usize::from(cover(&own, &text, &secret));
                if !cover(&any, &text, &secret) {
                    missed.push(format!("{}: {secret} in {text}", example.rule));
                }
            }
        }
    }
    println!(
        "{} of {total} secrets masked, {named} under their rule's name",
        total - missed.len()
    );
    assert!(total > 6_000, "{total} examples");
    assert!(missed.is_empty(), "{missed:#?}");
    // The others overlap with an equally valid rule.
    assert!(named * 100 > total * 98, "{named} of {total}");
}

#[test]
fn examples_negative_are_not_masked_by_their_rule() {
    let (mut total, mut any) = (0, 0);
    let mut wrong = vec![];
    for example in examples() {
        for text in &example.negatives {
            total += 1;
            let findings = Redactor::new().find(text.as_bytes());
            any += usize::from(!findings.is_empty());
            if findings.iter().any(|finding| finding.rule == example.rule) {
                wrong.push(format!("{}: {text}", example.rule));
            }
        }
    }
    println!(
        "{} of {total} masked by their rule, {any} by any",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Most are a token of a related rule, or a random value below a key; gitleaks finds these as well.
    assert!(any <= 32, "{any} of {total}");
}

#[test]
fn examples_do_not_hide_each_other() {
    let (mut text, mut places) = (String::new(), vec![]);
    for example in examples() {
        for positive in &example.positives {
            for secret in &positive.secrets {
                let secret = core(&example.rule, secret);
                if secret.starts_with(PUBLIC) {
                    continue;
                }
                if let Some(at) = positive.text.find(&secret) {
                    places.push((text.len() + at, secret));
                }
            }
            text.push_str(&positive.text);
            text.push_str("\n\nAnd then:\n\n");
        }
    }
    let findings = Redactor::new().find(text.as_bytes());
    let bare: Vec<_> = places
        .iter()
        .filter(|(start, secret)| {
            let end = start + secret.len();
            !findings
                .iter()
                .any(|finding| finding.start <= *start && end <= finding.end)
        })
        .map(|(_, secret)| secret)
        .collect();
    // Two belong to a rule that is left out.
    assert!(bare.len() <= 2, "{bare:#?} of {}", places.len());
}

/// JSON output contains escapes, which no rule handles.
#[test]
fn examples_positive_are_masked_in_json() {
    let (mut total, mut missed) = (0, vec![]);
    for example in examples() {
        if LEFT_OUT.contains(&&*example.rule) {
            continue;
        }
        for (text, secrets) in positives(&example) {
            let text = serde_json::json!({"content": format!("first\n{text}\n")}).to_string();
            let findings = Redactor::new().find(text.as_bytes());
            let any: Vec<_> = findings.iter().collect();
            for secret in secrets {
                let escaped = serde_json::Value::from(secret).to_string();
                let escaped = escaped.trim_matches('"');
                total += 1;
                if !cover(&any, &text, escaped) {
                    missed.push(format!("{}: {escaped} in {text}", example.rule));
                }
            }
        }
    }
    println!(
        "inside of JSON: {} of {total} secrets masked",
        total - missed.len()
    );
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn examples_masked_twice_do_not_change() {
    for example in examples() {
        for (text, _) in positives(&example) {
            let mut once = text.clone();
            Redactor::new().mask_text(&mut once);
            let mut twice = once.clone();
            Redactor::new().mask_text(&mut twice);
            assert_eq!(once, twice, "{}: {text}", example.rule);
        }
    }
}
