//! Detects secrets in data that a tool sends or receives as arguments.
//!
//! The value of a stored secret is sent only in place of its placeholder: a request, a command or a call that contains
//! the value is refused. A text that only matches the secret format of a service (a rule such as `github-pat`) may be
//! legitimate, so a person is asked. For this, the first [`OUTGOING_MAX`] bytes of a body, and of each text in the
//! arguments of a call, are checked.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::audit::CanaryDirection;
use crate::backend::ToolAssessment;
use crate::call_monitor::LiveEffect;
use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::error::{ToolError, ToolErrorCode};
use crate::needs::HostNeed;
use crate::pipeline::decide::Ruled;
use crate::redact::{LeakDetector, OUTGOING_MAX, Redactor};
use crate::tool::{RiskLevel, Tool};

use super::{
    EffectGate, Inner, OutgoingRequest, finish_effect, question_key, request_as_arguments,
    request_name, require_consent,
};

/// Maximum number of body bytes that are kept before the next chunk, because a secret may continue in the next chunk.
const TAIL_MAX: usize = 4 << 10;

/// A secret that was about to leave, and the error for its sender.
#[derive(Debug)]
pub(in crate::pipeline) struct LeakedSecret {
    pub name: String,
    pub error: Box<ToolError>,
}

/// Scanner for a request body. It checks each chunk before the chunk is sent.
pub struct UploadScanner {
    gate: EffectGate,
    known: Option<LeakDetector>,
    redactor: Redactor,
    /// The last chunk, after the end of the data before it.
    tail: Vec<u8>,
    /// The number of scanned bytes.
    passed: usize,
    /// The rules that a person has allowed this body to match.
    allowed_rules: BTreeSet<String>,
}

impl UploadScanner {
    /// Scans the next chunk. Fails if it contains a known secret, or the end of one. Returns the first secret rule that
    /// the data matches: then call [`EffectGate::approve_body`] and, if it succeeds, [`Self::allow_rule`].
    pub fn scan_chunk(&mut self, chunk: &[u8]) -> Result<Option<String>, ToolError> {
        if let Some(name) = self.known.as_mut().and_then(|known| known.scan_next(chunk)) {
            let leak = refused_request("its body", name);
            return Err(self.gate.report_leak(leak));
        }
        let left = OUTGOING_MAX.saturating_sub(self.passed);
        let scanned = chunk.get(..left.min(chunk.len())).unwrap_or_default();
        self.passed = self.passed.saturating_add(chunk.len());
        if scanned.is_empty() {
            return Ok(None);
        }
        // The whole previous chunk was kept, because it may have matched more than one rule.
        let excess = self.tail.len().saturating_sub(TAIL_MAX);
        self.tail.drain(..excess);
        self.tail.extend_from_slice(scanned);
        Ok(self.find_match())
    }

    /// Allows the body to match this rule, after a person has approved it. Returns the next rule that the last chunk
    /// matches, which has to be approved before the chunk is sent.
    #[must_use]
    pub fn allow_rule(&mut self, rule: &str) -> Option<String> {
        self.allowed_rules.insert(rule.to_owned());
        self.find_match()
    }

    fn find_match(&self) -> Option<String> {
        self.redactor
            .find_outgoing(&self.tail, |rule| self.allowed_rules.contains(rule))
    }
}

impl EffectGate {
    /// Returns a scanner for the body of a request.
    pub fn upload_scanner(&self) -> UploadScanner {
        let answered = |rule: &String| {
            self.0
                .answered
                .contains(&question_key(&secret_form_reason(rule)))
        };
        UploadScanner {
            gate: self.clone(),
            known: self.0.redactor.leak_detector(),
            redactor: self.0.redactor.clone(),
            tail: Vec::new(),
            passed: 0,
            allowed_rules: Redactor::rules()
                .into_iter()
                .map(str::to_owned)
                .filter(answered)
                .collect(),
        }
    }

    /// Raises an alarm if the secret in the body of a request is a canary. Returns the error.
    fn report_leak(&self, leak: LeakedSecret) -> ToolError {
        if !self.0.redactor.is_canary(&leak.name) {
            return *leak.error;
        }
        let subject = "the body of a request".to_owned();
        match self.0.effect_recorder(subject, LiveEffect::Request) {
            Ok(recorder) => {
                let error = recorder.report_leak(CanaryDirection::Request, leak);
                let _ = recorder.finish_effect(Some(error.code));
                error
            }
            Err(error) => error,
        }
    }

    /// Asks a person about a request whose body matches the secret rule `rule`. Fails if the request is not approved.
    pub async fn approve_body(
        &self,
        egress: OutgoingRequest<'_>,
        rule: &str,
    ) -> Result<(), ToolError> {
        // On the heap: the future contains a card and an answer, and few calls get here.
        Box::pin(self.0.approve_body(egress, rule)).await
    }
}

impl Inner {
    async fn approve_body(&self, egress: OutgoingRequest<'_>, rule: &str) -> Result<(), ToolError> {
        let snapshot = self.pipeline.snapshot();
        let stage = self.pipeline.stage_context(&snapshot);
        let mut recorder = self.effect_recorder(request_name(egress), LiveEffect::Request)?;
        let steps = async {
            let (tool, _) = self.current_rights(&snapshot)?;
            let mut evaluation = PolicyEvaluation::default();
            evaluation.push(secret_form_reason(rule));
            recorder.record_decision(&evaluation, stage.sessions);
            let ruled = Ruled {
                assessment: Some(ToolAssessment {
                    approval: Decision::Ask,
                    risk: RiskLevel::High,
                    summary: format!("send the body of {} {}", egress.method, egress.target),
                    risks: Vec::new(),
                    scope: None,
                    each_time: false,
                }),
                evaluation,
                checked: self.wrap_effect(Arc::clone(&tool), request_as_arguments(egress)),
            };
            require_consent(&stage, &ruled, &mut recorder, "a request").await
        };
        let result = steps.await;
        finish_effect(recorder, result)
    }

    /// Returns header names and values with the placeholders of the call's secrets replaced by spaces.
    pub(super) fn without_placeholders<'a>(&self, headers: &[&'a [u8]]) -> Vec<Cow<'a, [u8]>> {
        let without = |text: &&'a [u8]| -> Cow<'a, [u8]> {
            let Ok(words) = std::str::from_utf8(text) else {
                return Cow::Borrowed(text);
            };
            let mut used = self
                .placeholders
                .iter()
                .filter(|placeholder| words.contains(placeholder.text()));
            match used.next() {
                None => Cow::Borrowed(*text),
                Some(_) => {
                    let placeholders = self.placeholders.iter();
                    let words = placeholders.fold(words.to_owned(), |words, placeholder| {
                        words.replace(placeholder.text(), " ")
                    });
                    Cow::Owned(words.into_bytes())
                }
            }
        };
        headers.iter().map(without).collect()
    }

    /// Fails if a prompt for the model contains a known secret.
    pub(super) fn check_prompt(&self, prompt: &str) -> Result<(), LeakedSecret> {
        let secret = self
            .redactor
            .leak_detector()
            .and_then(|mut detector| detector.scan_separately(prompt.as_bytes()));
        match secret {
            Some(name) => Err(refused_request("its text", name)),
            None => Ok(()),
        }
    }

    /// Fails if the URL or a header of a request contains a known secret.
    pub(super) fn check_request(&self, egress: OutgoingRequest<'_>) -> Result<(), LeakedSecret> {
        let Some(mut detector) = self.redactor.leak_detector() else {
            return Ok(());
        };
        let url = egress.target.to_string();
        // The author of a URL chooses which characters are encoded, so the decoded forms are checked, too.
        let decoded: Vec<u8> = percent_decode_str(&url).collect();
        let spaced = decoded.iter().map(|byte| match byte {
            b'+' => b' ',
            byte => *byte,
        });
        let spaced: Vec<u8> = spaced.collect();
        for text in [url.as_bytes(), &decoded, &spaced] {
            if let Some(name) = detector.scan_separately(text) {
                return Err(refused_request("its URL", name));
            }
        }
        for text in egress.headers {
            if let Some(name) = detector.scan_separately(text) {
                return Err(refused_request("a header", name));
            }
        }
        Ok(())
    }
}

/// Fails if the arguments contain a known secret that the receiver was not granted.
pub(in crate::pipeline) fn check_arguments(
    redactor: &Redactor,
    granted: &[String],
    tool: &Tool,
    arguments: &Value,
) -> Result<(), LeakedSecret> {
    let Some((argument, name)) = find_known_secret(redactor, granted, arguments) else {
        return Ok(());
    };
    let names_request =
        tool.definition.needs.hosts.iter().any(HostNeed::is_any) && arguments["url"].is_string();
    Err(match argument {
        "url" if names_request => refused_request("its URL", name),
        "headers" if names_request => refused_request("a header", name),
        "body" if names_request => refused_request("its body", name),
        _ => refused_arguments("the call was not made", argument, name),
    })
}

/// Fails if a command contains a known secret, also in its environment or its input.
pub(super) fn check_command(redactor: &Redactor, arguments: &Value) -> Result<(), LeakedSecret> {
    match find_known_secret(redactor, &[], arguments) {
        Some((argument, name)) => Err(refused_arguments("the command was not run", argument, name)),
        None => Ok(()),
    }
}

/// Returns the first argument that contains a known secret, and the secret's name.
fn find_known_secret<'a>(
    redactor: &Redactor,
    granted: &[String],
    arguments: &'a Value,
) -> Option<(&'a str, String)> {
    let mut detector = redactor.leak_detector()?.except_granted(granted);
    let mut members = arguments.as_object().into_iter().flatten();
    members.find_map(|(argument, value)| {
        let name = detector.scan_separately(argument.as_bytes()).or_else(|| {
            find_in_texts(value, &mut |text| detector.scan_separately(text.as_bytes()))
        })?;
        Some((argument.as_str(), name))
    })
}

/// Returns the first result of `check` for the texts in a value: member names, strings, and numbers as written.
pub(in crate::pipeline) fn find_in_texts<T>(
    value: &Value,
    check: &mut impl FnMut(&str) -> Option<T>,
) -> Option<T> {
    match value {
        Value::String(text) => check(text),
        Value::Number(number) => check(&number.to_string()),
        Value::Array(items) => items.iter().find_map(|item| find_in_texts(item, check)),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, item)| check(name).or_else(|| find_in_texts(item, check))),
        Value::Null | Value::Bool(_) => None,
    }
}

/// Adds a reason to ask about a request whose URL or headers match a secret rule.
pub(super) fn ask_about_request_secrets(
    redactor: &Redactor,
    egress: OutgoingRequest<'_>,
    evaluation: &mut PolicyEvaluation,
) {
    let url = egress.target.to_string();
    let headers = egress.headers.iter().copied();
    let mut texts = std::iter::once(url.as_bytes()).chain(headers);
    if let Some(rule) = texts.find_map(|text| redactor.find_outgoing(text, |_| false)) {
        evaluation.push(secret_form_reason(&rule));
    }
}

/// Adds a reason to ask about a call that sends its arguments to another party, if they match a secret rule.
pub(in crate::pipeline) fn ask_about_argument_secrets(
    redactor: &Redactor,
    arguments: &Value,
    evaluation: &mut PolicyEvaluation,
) {
    let rule = find_in_texts(arguments, &mut |text| {
        redactor.find_outgoing(text.as_bytes(), |_| false)
    });
    if let Some(rule) = rule {
        evaluation.push(secret_form_reason(&rule));
    }
}

/// Creates the reason to ask about data that matches a secret rule.
fn secret_form_reason(rule: &str) -> DecisionReason {
    DecisionReason {
        layer: PolicyLayer::Secrets,
        decision: Decision::Ask,
        rule: format!("secrets: {rule}"),
        source: String::new(),
        text: format!("the data to send contains text in the form of a secret (`{rule}`)"),
    }
}

fn refused_request(part: &str, secret: String) -> LeakedSecret {
    let name = crate::text::visible(&secret);
    let message =
        format!("the request was not sent: {part} contains the value of the secret `{name}`");
    let remedy = format!(
        "declare `{name}` among the secrets of the tool, with the header and the host it is for, and send its \
         placeholder there"
    );
    let error = ToolError::new(ToolErrorCode::PolicyDenied, message)
        .with_details(json!({ "kind": "secret-in-request", "secret": name }))
        .with_remedies([remedy]);
    LeakedSecret {
        name: secret,
        error: Box::new(error),
    }
}

fn refused_arguments(what: &str, argument: &str, secret: String) -> LeakedSecret {
    let name = crate::text::visible(&secret);
    let argument = crate::text::visible(crate::text::prefix(argument, 64));
    let message = format!("{what}: `{argument}` contains the value of the secret `{name}`");
    let remedies = [
        format!(
            "for an MCP server, `${{{name}}}` in its `env` or `headers` in the settings grants it the secret"
        ),
        format!(
            "for a plugin, declare `{name}` among its secrets, with the header and the host it is for"
        ),
    ];
    let error = ToolError::new(ToolErrorCode::PolicyDenied, message)
        .with_details(
            json!({ "kind": "secret-in-arguments", "secret": name, "argument": argument }),
        )
        .with_remedies(remedies);
    LeakedSecret {
        name: secret,
        error: Box::new(error),
    }
}
