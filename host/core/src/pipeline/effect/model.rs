//! Model requests of a tool while its call runs: they need a grant of their own, are judged as data that leaves the
//! machine, are limited in number and length, and are recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use crate::backend::Assessment;
use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::error::{Code, ToolError};
use crate::pipeline::Road;
use crate::pipeline::decide::Ruled;
use crate::pipeline::decide::accepts_untrusted;
use crate::pipeline::session::{ContentSource, WayOut};
use crate::pipeline::validate::Checked;
use crate::tool::Risk;

use super::{Effects, Inner, consented, denied, recorded};

/// Maximum number of model requests of one call. A tool that needs more is an agent, which has a budget of its own.
const QUESTIONS: u32 = 16;

/// Maximum size of one prompt in bytes: about what a model reads at once.
const PROMPT_MOST: usize = 400_000;

/// The number of model requests of a call.
#[derive(Debug, Default)]
pub(super) struct Asked(AtomicU32);

impl Effects {
    /// Lets the model complete a text, if the tool was granted that and the session's taint allows it.
    pub async fn complete(&self, prompt: &str, most: Option<u32>) -> Result<String, ToolError> {
        Box::pin(self.0.complete(prompt, most)).await
    }
}

impl Inner {
    async fn complete(&self, prompt: &str, most: Option<u32>) -> Result<String, ToolError> {
        let world = self.pipeline.world();
        let road = self.pipeline.road(&world);
        let model = Arc::clone(&road.ports.model);
        let name = model.name();
        let subject = match &name {
            Ok(name) => format!("the model {name}"),
            Err(_) => "the model".to_owned(),
        };
        let mut trail = self.effect_trail(subject.clone())?;
        let judged = async {
            let (tool, rights) = self.standing(&world)?;
            if !rights.model {
                return Err(ToolError::new(
                    Code::PermissionDenied,
                    "the tool was not granted the language model; its manifest must name the need",
                ));
            }
            name?;
            self.bounded(prompt)?;
            self.holds_no_secret(prompt)?;
            let checked = self.checked(tool, json!({ "model": subject, "prompt": prompt }));
            let evaluation = self.against(&road, &checked);
            trail.decided(&evaluation);
            if evaluation.decision() == Decision::Deny {
                return Err(denied("the model was not asked", &evaluation, Vec::new()));
            }
            let ruled = Ruled {
                assessment: Some(Assessment {
                    approval: Decision::Ask,
                    risk: Risk::Low,
                    summary: format!("ask {subject}"),
                    risks: Vec::new(),
                }),
                evaluation,
                checked,
            };
            consented(&road, &ruled, &mut trail, "a question to the model").await
        };
        let result = judged.await;
        recorded(trail, result)?;
        let most = most.unwrap_or(u32::MAX).clamp(1, model.most().max(1));
        model.complete(prompt, most, &self.context.session_id).await
    }

    /// Evaluates the rules besides the grant: the taint of the session.
    fn against(&self, road: &Road<'_>, checked: &Checked) -> Evaluation {
        let mut all = Evaluation::default();
        let session = road.sessions.get(&checked.context().session_id);
        let accepts = accepts_untrusted(&road.world.policy, checked);
        session.taint(accepts, &WayOut::Call(ContentSource::Other), &mut all);
        // A person who was asked about this before the call ran is not asked again.
        all.settle(|reason| {
            let asked = super::asked_as(reason);
            self.answered.contains(&asked)
        });
        all.push(Reason {
            layer: Layer::Trust,
            decision: Decision::Allow,
            rule: "model".to_owned(),
            source: String::new(),
            text: "the tool was granted the language model".to_owned(),
        });
        all
    }

    fn bounded(&self, prompt: &str) -> Result<(), ToolError> {
        let limit = |message: String| Err(ToolError::new(Code::LimitExceeded, message));
        if prompt.len() > PROMPT_MOST {
            return limit(format!(
                "a question to the model has at most {PROMPT_MOST} bytes; ask about less"
            ));
        }
        if self.questions.0.fetch_add(1, Ordering::Relaxed) >= QUESTIONS {
            return limit(format!(
                "a call asks the model at most {QUESTIONS} times; ask more at once"
            ));
        }
        Ok(())
    }
}
