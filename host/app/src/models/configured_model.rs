//! The model that tools may query: the configured one, created on the first query. Its tokens are charged to the budget
//! of the session, which the agent also uses.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mimir_agent::{Message, Model as _, ModelProvider, ModelRequest, SessionBudget, TokenUsage};
use mimir_core::config::{AgentBudget, ChosenModel, TokenPrice};
use mimir_core::language_model::LanguageModel;
use mimir_core::{BoxFuture, ToolError};

/// Creates a model from the settings.
type ModelBuilderFn =
    dyn Fn() -> Result<(Arc<ModelProvider>, ChosenModel), ToolError> + Send + Sync;

/// The configured model, as tools query it.
pub struct ConfiguredModel {
    name: Result<String, ToolError>,
    budget: AgentBudget,
    session_budget: SessionBudget,
    build: Box<ModelBuilderFn>,
    built: OnceLock<(Arc<ModelProvider>, Option<TokenPrice>)>,
}

/// System prompt of a tool's query.
const SYSTEM: &str = "A program asks you. Answer with what it asks for and nothing else.";

impl ConfiguredModel {
    /// Creates a handle to the model, which `build` creates on the first query. `name` is its name, or the error if no
    /// model is configured. `budget` applies to sessions without an agent.
    pub fn new(
        name: Result<String, ToolError>,
        budget: AgentBudget,
        session_budget: SessionBudget,
        build: impl Fn() -> Result<(Arc<ModelProvider>, ChosenModel), ToolError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            budget,
            session_budget,
            build: Box::new(build),
            built: OnceLock::new(),
        }
    }

    fn model(&self) -> Result<&(Arc<ModelProvider>, Option<TokenPrice>), ToolError> {
        match self.built.get() {
            Some(built) => Ok(built),
            None => {
                let (provider, chosen) = (self.build)()?;
                Ok(self.built.get_or_init(|| (provider, chosen.price)))
            }
        }
    }
}

impl LanguageModel for ConfiguredModel {
    fn name(&self) -> Result<String, ToolError> {
        self.name.clone()
    }

    fn max_tokens(&self) -> u32 {
        u32::try_from(self.budget.answer_tokens).unwrap_or(u32::MAX)
    }

    fn complete<'a>(
        &'a self,
        prompt: &'a str,
        max_tokens: u32,
        session: &'a str,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let (model, price) = self.model()?;
            let messages = [Message::user(prompt)];
            let input = tokens(SYSTEM) + tokens(prompt);
            let reservation = self.session_budget.reserve_question(
                session,
                self.budget,
                model.estimate_price(*price),
                input,
                max_tokens.into(),
            );
            let mut reservation = reservation.await?;
            let request = ModelRequest {
                system: SYSTEM,
                messages: &messages,
                tools: &[],
                max_tokens: reservation.budget.answer_tokens,
                session,
            };
            // The input is charged before the request, so that a cancelled query is charged, too.
            let start = Instant::now();
            let sent = TokenUsage::new(input, 0);
            reservation.record_usage(sent, *price, Duration::ZERO);
            let reply = model
                .answer(request, &|_| {})
                .await
                .map_err(ToolError::from)?;
            let estimate = TokenUsage::new(input, tokens(&reply.text));
            let usage = reply.usage.unwrap_or(estimate);
            reservation.record_usage(usage, *price, start.elapsed());
            reservation.finish().await;
            Ok(reply.text)
        })
    }
}

/// Estimates the number of tokens of a text, at four bytes per token.
fn tokens(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}
