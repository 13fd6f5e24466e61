//! Model requests of a tool while its call runs: they need a grant of their own, are judged as data that leaves the
//! machine, are limited in number and length, and are recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use crate::backend::ToolAssessment;
use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::error::{ToolError, ToolErrorCode};
use crate::pipeline::StageContext;
use crate::pipeline::decide::Ruled;
use crate::pipeline::decide::accepts_untrusted;
use crate::pipeline::session::{ContentSource, EgressPath};
use crate::pipeline::validate::Checked;
use crate::tool::RiskLevel;

use super::{EffectGate, Inner, denied, recorded, require_consent};

/// Maximum number of model requests of one call. A tool that needs more is an agent, which has a budget of its own.
const QUESTIONS: u32 = 16;

/// Maximum size of one prompt in bytes: about what a model reads at once.
const PROMPT_MOST: usize = 400_000;

/// The number of model requests of a call.
#[derive(Debug, Default)]
pub(super) struct CompletionCounter(AtomicU32);

impl EffectGate {
    /// Lets the model complete a text, if the tool was granted that and the session's taint allows it.
    pub async fn complete(&self, prompt: &str, most: Option<u32>) -> Result<String, ToolError> {
        Box::pin(self.0.complete(prompt, most)).await
    }
}

impl Inner {
    async fn complete(&self, prompt: &str, most: Option<u32>) -> Result<String, ToolError> {
        let snapshot = self.pipeline.snapshot();
        let stage = self.pipeline.stage_context(&snapshot);
        let model = Arc::clone(&stage.ports.model);
        let name = model.name();
        let subject = match &name {
            Ok(name) => format!("the model {name}"),
            Err(_) => "the model".to_owned(),
        };
        let mut recorder = self.effect_trail(subject.clone())?;
        let judged = async {
            let (tool, rights) = self.standing(&snapshot)?;
            if !rights.model {
                return Err(ToolError::new(
                    ToolErrorCode::PermissionDenied,
                    "the tool was not granted the language model; its manifest must name the need",
                ));
            }
            name?;
            self.bounded(prompt)?;
            self.check_prompt(prompt)?;
            let checked = self.checked(tool, json!({ "model": subject, "prompt": prompt }));
            let evaluation = self.against(&stage, &checked);
            recorder.record_decision(&evaluation);
            if evaluation.decision() == Decision::Deny {
                return Err(denied("the model was not asked", &evaluation, Vec::new()));
            }
            let ruled = Ruled {
                assessment: Some(ToolAssessment {
                    approval: Decision::Ask,
                    risk: RiskLevel::Low,
                    summary: format!("ask {subject}"),
                    risks: Vec::new(),
                }),
                evaluation,
                checked,
            };
            require_consent(&stage, &ruled, &mut recorder, "a question to the model").await
        };
        let result = judged.await;
        recorded(recorder, result)?;
        let most = most.unwrap_or(u32::MAX).clamp(1, model.most().max(1));
        model.complete(prompt, most, &self.context.session_id).await
    }

    /// Evaluates the rules besides the grant: the taint of the session.
    fn against(&self, stage: &StageContext<'_>, checked: &Checked) -> PolicyEvaluation {
        let mut all = PolicyEvaluation::default();
        let session = stage.sessions.get(&checked.context().session_id);
        let accepts = accepts_untrusted(&stage.snapshot.policy, checked);
        session.evaluate_taint(accepts, &EgressPath::Call(ContentSource::Other), &mut all);
        // A person who was asked about this before the call ran is not asked again.
        all.remove_answered(|reason| {
            let asked = super::question_key(reason);
            self.answered.contains(&asked)
        });
        all.push(DecisionReason {
            layer: PolicyLayer::Trust,
            decision: Decision::Allow,
            rule: "model".to_owned(),
            source: String::new(),
            text: "the tool was granted the language model".to_owned(),
        });
        all
    }

    fn bounded(&self, prompt: &str) -> Result<(), ToolError> {
        let limit = |message: String| Err(ToolError::new(ToolErrorCode::LimitExceeded, message));
        if prompt.len() > PROMPT_MOST {
            return limit(format!(
                "a question to the model has at most {PROMPT_MOST} bytes; ask about less"
            ));
        }
        if self.completions.0.fetch_add(1, Ordering::Relaxed) >= QUESTIONS {
            return limit(format!(
                "a call asks the model at most {QUESTIONS} times; ask more at once"
            ));
        }
        Ok(())
    }
}
