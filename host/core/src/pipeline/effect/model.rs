//! Model requests of a tool while its call runs. They need a separate grant, are evaluated as outgoing data, are
//! limited in number and length, and are recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use crate::audit::{CanaryDirection, EffectKind};
use crate::backend::ToolAssessment;
use crate::call_monitor::LiveEffect;
use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::error::{ToolError, ToolErrorCode};
use crate::pipeline::StageContext;
use crate::pipeline::decide::Ruled;
use crate::pipeline::decide::accepts_untrusted;
use crate::pipeline::session::{ContentSource, EgressPath};
use crate::pipeline::validate::Checked;
use crate::tool::RiskLevel;

use super::{EffectGate, Inner, denied_error, finish_effect, require_consent};

/// Maximum number of model requests of one call. A tool that needs more should be an agent, which has its own budget.
const REQUESTS_MAX: u32 = 16;

/// Maximum size of one prompt in bytes: about the context window of a model.
const PROMPT_MAX: usize = 400_000;

/// The number of model requests of a call.
#[derive(Debug, Default)]
pub(super) struct CompletionCounter(AtomicU32);

impl EffectGate {
    /// Sends a prompt to the model and returns the reply, if the tool was granted the model and the session's taint
    /// allows it. `max_tokens` limits the length of the reply, up to the configured maximum.
    pub async fn complete(
        &self,
        prompt: &str,
        max_tokens: Option<u32>,
    ) -> Result<String, ToolError> {
        Box::pin(self.0.complete(prompt, max_tokens)).await
    }
}

impl Inner {
    async fn complete(&self, prompt: &str, max_tokens: Option<u32>) -> Result<String, ToolError> {
        let snapshot = self.pipeline.snapshot();
        let stage = self.pipeline.stage_context(&snapshot);
        let model = Arc::clone(&stage.ports.model);
        let name = model.name();
        let subject = match &name {
            Ok(name) => format!("the model {name}"),
            Err(_) => "the model".to_owned(),
        };
        let mut recorder = self.effect_recorder(subject.clone(), LiveEffect::Model)?;
        recorder.describe_effect(|| EffectKind::Completion);
        let steps = async {
            let (tool, rights) = self.current_rights(&snapshot)?;
            if !rights.model {
                return Err(ToolError::new(
                    ToolErrorCode::PermissionDenied,
                    "the tool was not granted the language model; its manifest must name the need",
                ));
            }
            name?;
            self.check_prompt_limits(prompt)?;
            self.check_prompt(prompt)
                .map_err(|leak| recorder.report_leak(CanaryDirection::Prompt, leak))?;
            let checked = self.wrap_effect(tool, json!({ "model": subject, "prompt": prompt }));
            let evaluation = self.evaluate_prompt(&stage, &checked);
            recorder.record_decision(&evaluation, stage.sessions);
            if evaluation.decision() == Decision::Deny {
                return Err(denied_error(
                    "the model was not asked",
                    &evaluation,
                    Vec::new(),
                ));
            }
            let ruled = Ruled {
                assessment: Some(ToolAssessment {
                    approval: Decision::Ask,
                    risk: RiskLevel::Low,
                    summary: format!("ask {subject}"),
                    risks: Vec::new(),
                    scope: None,
                    each_time: false,
                }),
                evaluation,
                checked,
            };
            require_consent(&stage, &ruled, &mut recorder, "a question to the model").await
        };
        let result = steps.await;
        finish_effect(recorder, result)?;
        let max_tokens = max_tokens
            .unwrap_or(u32::MAX)
            .clamp(1, model.max_tokens().max(1));
        model
            .complete(prompt, max_tokens, &self.context.session_id)
            .await
    }

    /// Evaluates a prompt of a tool that was granted the model. Only the taint of the session gives reasons to ask.
    fn evaluate_prompt(&self, stage: &StageContext<'_>, checked: &Checked) -> PolicyEvaluation {
        let mut evaluation = PolicyEvaluation::default();
        let session = stage.sessions.get(&checked.context().session_id);
        let accepts_untrusted_content = accepts_untrusted(&stage.snapshot.policy, checked);
        session.evaluate_taint(
            accepts_untrusted_content,
            &EgressPath::Call(ContentSource::Other),
            &mut evaluation,
        );
        // A person has already approved these reasons before the call ran.
        evaluation.remove_answered(|reason| self.answered.contains(&super::question_key(reason)));
        evaluation.push(DecisionReason {
            layer: PolicyLayer::Trust,
            decision: Decision::Allow,
            rule: "model".to_owned(),
            source: String::new(),
            text: "the tool was granted the language model".to_owned(),
        });
        evaluation
    }

    /// Counts the request. Fails if the prompt is too long, or if the call has made too many requests.
    fn check_prompt_limits(&self, prompt: &str) -> Result<(), ToolError> {
        let exceeded = |message: String| Err(ToolError::new(ToolErrorCode::LimitExceeded, message));
        if prompt.len() > PROMPT_MAX {
            return exceeded(format!(
                "the prompt for the model is too long: at most {PROMPT_MAX} bytes; shorten it"
            ));
        }
        if self.completions.0.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX {
            return exceeded(format!(
                "too many model requests in one call: at most {REQUESTS_MAX}; combine several into one"
            ));
        }
        Ok(())
    }
}
