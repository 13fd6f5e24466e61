//! gitleaks' own examples: what its rules must find, and what they must not.

use serde::Deserialize;

use super::super::{Redactor, mask};

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
    /// What Go's regexp finds.
    secrets: Vec<String>,
}

fn examples() -> Vec<Example> {
    let lines = include_str!("../gitleaks/examples.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A sample in every form in which it may be written.
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

/// Whether some finding of the rule covers some place where this secret stands; of any rule if none is named.
fn covered(text: &str, secret: &str, rule: Option<&str>) -> bool {
    let findings = Redactor::new().find(text.as_bytes());
    text.match_indices(secret).any(|(start, _)| {
        findings.iter().any(|finding| {
            finding.start <= start
                && finding.end >= start + secret.len()
                && rule.is_none_or(|rule| finding.rule == rule)
        })
    })
}

#[test]
fn recall() {
    let (mut all, mut masked, mut named) = (0, 0, 0);
    let mut missed = vec![];
    for example in examples() {
        let samples = example.samples.iter().flat_map(|(identifier, secret)| {
            written(identifier, secret)
                .into_iter()
                .map(move |text| (text, vec![secret.clone()]))
        });
        let positives = example
            .positives
            .iter()
            .map(|positive| (positive.text.clone(), positive.secrets.clone()));
        for (text, secrets) in samples.chain(positives) {
            for secret in secrets {
                all += 1;
                if covered(&text, &secret, None) {
                    masked += 1;
                } else {
                    missed.push((example.rule.clone(), text.clone(), secret.clone()));
                }
                named += usize::from(covered(&text, &secret, Some(&example.rule)));
            }
        }
    }
    println!("recall: {masked} of {all} secrets masked, {named} under their rule's name");
    for (rule, text, secret) in missed.iter().take(60) {
        println!(
            "missed {rule}: {secret}\n    in {}",
            &text[..text.floor_char_boundary(300)]
        );
    }
}

#[test]
fn false_positives() {
    let (mut all, mut own, mut any) = (0, 0, 0);
    for example in examples() {
        for text in &example.negatives {
            all += 1;
            let findings = Redactor::new().find(text.as_bytes());
            if findings.iter().any(|finding| finding.rule == example.rule) {
                own += 1;
                println!(
                    "own {}: {}",
                    example.rule,
                    &text[..text.floor_char_boundary(200)]
                );
            }
            if !findings.is_empty() {
                any += 1;
                let mut masked = text.clone();
                mask::apply(&mut masked, &findings);
                println!(
                    "any {}: {}\n   -> {}",
                    example.rule,
                    &text[..text.floor_char_boundary(200)],
                    &masked[..masked.floor_char_boundary(200)]
                );
            }
        }
    }
    println!("false positives: {own} of {all} under the rule's name, {any} under any");
}
