//! The model that tools may ask: the one of the settings, found when the first of them does.

use std::sync::{Arc, OnceLock};

use mimir_agent::{Ask, Message, Model as _, Provider};
use mimir_core::model::Completer;
use mimir_core::{BoxFuture, ToolError};

/// How a model is made of the settings.
type Make = dyn Fn() -> Result<Arc<Provider>, ToolError> + Send + Sync;

/// The model of the settings.
pub struct OwnModel {
    name: Result<String, ToolError>,
    most: u32,
    make: Box<Make>,
    made: OnceLock<Arc<Provider>>,
}

/// What the model is told of a tool's question.
const SYSTEM: &str = "A program asks you. Answer with what it asks for and nothing else.";

impl OwnModel {
    /// A model of this name, or why there is none, that answers in at most `most` tokens.
    pub fn new(
        name: Result<String, ToolError>,
        most: u64,
        make: impl Fn() -> Result<Arc<Provider>, ToolError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            most: u32::try_from(most).unwrap_or(u32::MAX),
            make: Box::new(make),
            made: OnceLock::new(),
        }
    }

    fn model(&self) -> Result<&Arc<Provider>, ToolError> {
        match self.made.get() {
            Some(made) => Ok(made),
            None => {
                let made = (self.make)()?;
                Ok(self.made.get_or_init(|| made))
            }
        }
    }
}

impl Completer for OwnModel {
    fn name(&self) -> Result<String, ToolError> {
        self.name.clone()
    }

    fn most(&self) -> u32 {
        self.most
    }

    fn complete<'a>(
        &'a self,
        prompt: &'a str,
        most: u32,
        session: &'a str,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let model = self.model()?;
            let messages = [Message::user(prompt)];
            let ask = Ask {
                system: SYSTEM,
                messages: &messages,
                tools: &[],
                max_tokens: most.into(),
                session,
            };
            let reply = model.answer(ask, &|_| {}).await.map_err(ToolError::from)?;
            Ok(reply.text)
        })
    }
}
