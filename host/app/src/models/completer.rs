//! The model that tools may ask: the one of the settings, found when the first of them does. What a question takes comes
//! from the purse of its session, and is on the same bill as what the agent says.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mimir_agent::{Ask, Message, Model as _, Provider, Purse, Usage};
use mimir_core::config::{Budget, ChosenModel, Price};
use mimir_core::model::Completer;
use mimir_core::{BoxFuture, ToolError};

/// How a model is made of the settings.
type Make = dyn Fn() -> Result<(Arc<Provider>, ChosenModel), ToolError> + Send + Sync;

/// The model of the settings.
pub struct OwnModel {
    name: Result<String, ToolError>,
    budget: Budget,
    purse: Purse,
    make: Box<Make>,
    made: OnceLock<(Arc<Provider>, Option<Price>)>,
}

/// What the model is told of a tool's question.
const SYSTEM: &str = "A program asks you. Answer with what it asks for and nothing else.";

impl OwnModel {
    /// A model of this name, or why there is none. A session that has no agent has this budget.
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
            // Until it has answered, what was sent is what it has taken: whoever stops it has paid for that.
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

/// About how many tokens a text takes: four characters each.
fn tokens(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}
