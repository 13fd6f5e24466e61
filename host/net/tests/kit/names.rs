//! A resolver with answers defined by the test.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use mimir_core::backend::BoxFuture;
use mimir_net::Resolver;
use parking_lot::Mutex;

/// Resolver with successive answers for each name; the last one is repeated.
#[derive(Default)]
pub struct Names {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    lookups: Mutex<Vec<String>>,
}

impl Names {
    /// Returns a resolver without names.
    pub fn none() -> Arc<Self> {
        Self::of(&[])
    }

    /// Returns a resolver for these names. Answers are separated by `;`, the addresses of an answer by spaces.
    pub fn of(names: &[(&str, &str)]) -> Arc<Self> {
        let address = |text: &str| text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let answer = |text: &str| text.split_whitespace().map(address).collect();
        let answers = names
            .iter()
            .map(|(name, answers)| ((*name).to_owned(), answers.split(';').map(answer).collect()));
        Arc::new(Self {
            answers: Mutex::new(answers.collect()),
            lookups: Mutex::default(),
        })
    }

    /// Returns every name that was looked up.
    pub fn lookups(&self) -> Vec<String> {
        self.lookups.lock().clone()
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.lookups.lock().push(name.to_owned());
        let mut all = self.answers.lock();
        let answer = match all.get_mut(name) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(io::Error::other("no such host")),
        };
        Box::pin(std::future::ready(answer))
    }
}
