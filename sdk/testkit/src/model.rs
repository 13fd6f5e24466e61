//! The language model of a test: a function from the prompt to the answer.

use std::sync::Mutex;

use mimir_core::language_model::{LanguageModel, NoLanguageModel};
use mimir_core::{BoxFuture, ToolError};

use crate::person::lock;

type AnswerFn = Box<dyn Fn(&str) -> String + Send + Sync>;

/// A model that answers with the function set by the test; without a function, prompts fail.
#[derive(Default)]
pub(crate) struct TestModel(Mutex<Option<AnswerFn>>);

/// Token limit of an answer; tests do not count tokens.
const MAX_TOKENS: u32 = 1_000;

impl TestModel {
    pub(crate) fn set(&self, answer: impl Fn(&str) -> String + Send + Sync + 'static) {
        *lock(&self.0) = Some(Box::new(answer));
    }
}

impl LanguageModel for TestModel {
    fn name(&self) -> Result<String, ToolError> {
        match &*lock(&self.0) {
            Some(_) => Ok("test/model".to_owned()),
            None => NoLanguageModel.name(),
        }
    }

    fn max_tokens(&self) -> u32 {
        MAX_TOKENS
    }

    fn complete<'a>(
        &'a self,
        prompt: &'a str,
        max_tokens: u32,
        session: &'a str,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        let answer = lock(&self.0).as_ref().map(|answer| answer(prompt));
        match answer {
            Some(answer) => Box::pin(std::future::ready(Ok(answer))),
            None => NoLanguageModel.complete(prompt, max_tokens, session),
        }
    }
}
