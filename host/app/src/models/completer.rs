//! The model that tools may query: the configured one, created by the first query. Its tokens are charged to the
//! budget of the session, together with those of the agent.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mimir_agent::{Ask, Message, Model as _, Provider, Purse, Usage};
use mimir_core::config::{Budget, ChosenModel, Price};
use mimir_core::model::Completer;
use mimir_core::{BoxFuture, ToolError};

/// Creates a model from the settings.
type Make = dyn Fn() -> Result<(Arc<Provider>, ChosenModel), ToolError> + Send + Sync;

/// The configured model.
pub struct OwnModel {
    name: Result<String, ToolError>,
    budget: Budget,
    purse: Purse,
    make: Box<Make>,
    made: OnceLock<(Arc<Provider>, Option<Price>)>,
}

/// System prompt of a tool's query.
const SYSTEM: &str = "A program asks you. Answer with what it asks for and nothing else.";

impl OwnModel {
    /// A model with this name, or the error for a missing one. `budget` applies to sessions without an agent.
    pub fn new(
        name: Result<String, ToolError>,
        budget: Budget,
        purse: Purse,
        make: impl Fn() -> Result<(Arc<Provider>, ChosenModel), ToolError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            budget,
            purse,
            make: Box::new(make),
            made: OnceLock::new(),
        }
    }

    fn model(&self) -> Result<&(Arc<Provider>, Option<Price>), ToolError> {
        match self.made.get() {
            Some(made) => Ok(made),
            None => {
                let (provider, chosen) = (self.make)()?;
                Ok(self.made.get_or_init(|| (provider, chosen.price)))
            }
        }
    }
}

impl Completer for OwnModel {
    fn name(&self) -> Result<String, ToolError> {
        self.name.clone()
    }

    fn most(&self) -> u32 {
        u32::try_from(self.budget.answer_tokens).unwrap_or(u32::MAX)
    }

    fn complete<'a>(
        &'a self,
        prompt: &'a str,
        most: u32,
        session: &'a str,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let (model, price) = self.model()?;
            let messages = [Message::user(prompt)];
            let input = tokens(SYSTEM) + tokens(prompt);
            let share = self
                .purse
                .question(session, self.budget, *price, input, most.into());
            let mut share = share?;
            let ask = Ask {
                system: SYSTEM,
                messages: &messages,
                tools: &[],
                max_tokens: share.budget.answer_tokens,
                session,
            };
            // The input is charged before the reply arrives, so that a cancelled query is charged, too.
            let start = Instant::now();
            let sent = Usage { input, output: 0 };
            share.used(sent, *price, Duration::ZERO);
            let reply = model.answer(ask, &|_| {}).await.map_err(ToolError::from)?;
            let guess = Usage {
                input,
                output: tokens(&reply.text),
            };
            let usage = reply.usage.unwrap_or(guess);
            share.used(usage, *price, start.elapsed());
            Ok(reply.text)
        })
    }
}

/// Estimated number of tokens of a text, at four bytes each.
fn tokens(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}
