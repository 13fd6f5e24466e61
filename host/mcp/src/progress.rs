//! Messages of a running tool for the client.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use mimir_core::call::{LogLine, Observer, Progress};
use mimir_core::wish::{self, Want, Wish};
use mimir_core::{Answer, Approver, BoxFuture, Card, Code, ToolError};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::ask;
use crate::logs::Least;

mod rate;

pub(crate) use rate::Latest;
use rate::Rate;

/// A message of a running call.
pub(crate) enum Said {
    /// Progress.
    Progress(Progress),
    /// A log line.
    Line(LogLine),
}

/// A question that has to be answered before a call continues.
pub(crate) enum Question {
    /// Approval by a person.
    Card(Asked),
    /// Requests of the server behind the tool, answered by the client.
    Wishes(Wanted),
}

/// An approval question for a person.
pub(crate) struct Asked {
    pub(crate) card: Box<Card>,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// Requests of a server behind a tool for the client.
pub(crate) struct Wanted {
    pub(crate) wishes: Vec<Wish>,
    pub(crate) answer: oneshot::Sender<Result<Vec<Value>, ToolError>>,
}

/// Messages and questions of a call.
pub(crate) struct Heard {
    pub(crate) said: mpsc::Receiver<Said>,
    /// The latest progress that was held back.
    pub(crate) latest: Arc<Latest>,
    pub(crate) questions: mpsc::Receiver<Question>,
}

/// Forwards the messages of a call to its client. It never blocks the tool: messages that a slow client cannot take in
/// time are dropped, except the latest progress.
pub(crate) struct Ear {
    said: mpsc::Sender<Said>,
    progress: Option<Mutex<Rate>>,
    least: Option<Least>,
    /// The trace context of the request.
    trace: Option<String>,
    person: Box<dyn Approver>,
    /// Server requests that the client supports, and the channel for them.
    has: Vec<Want>,
    ask: mpsc::Sender<Question>,
    /// Answers that the client sent in advance.
    given: Mutex<BTreeMap<String, Value>>,
}

/// Maximum number of queued messages for the client.
const WAITING: usize = 256;

impl Ear {
    /// Creates an observer and the receivers of its messages. `least` is the client's minimum log level, `has` the
    /// server requests that it supports; `apart` means that it is asked by the response to its own request; `person`
    /// makes the approver, given a channel to the client.
    pub(crate) fn new(
        progress: bool,
        least: Option<Least>,
        trace: Option<String>,
        has: Vec<Want>,
        apart: bool,
        given: BTreeMap<String, Value>,
        person: impl FnOnce(Client) -> Box<dyn Approver>,
    ) -> (Self, Heard) {
        let (said, hear) = mpsc::channel(WAITING);
        let (ask, questions) = mpsc::channel(1);
        let latest = Arc::<Latest>::default();
        let rate = || Mutex::new(Rate::new(Arc::clone(&latest)));
        let ear = Self {
            said,
            progress: progress.then(rate),
            least,
            trace,
            person: person(Client {
                ask: ask.clone(),
                apart,
            }),
            has,
            ask,
            given: Mutex::new(given),
        };
        let heard = Heard {
            said: hear,
            latest,
            questions,
        };
        (ear, heard)
    }
}

impl Observer for Ear {
    fn progress(&self, progress: Progress) {
        let Some(rate) = &self.progress else { return };
        lock(rate).report(progress, |progress| {
            self.said.try_send(Said::Progress(progress)).is_ok()
        });
    }

    fn log(&self, line: LogLine) {
        if self.least.is_some_and(|least| least.hears(line.level)) {
            let _ = self.said.try_send(Said::Line(line));
        }
    }

    fn person(&self) -> Option<&dyn Approver> {
        Some(&*self.person)
    }

    fn client(&self) -> Option<&dyn wish::Client> {
        Some(self)
    }

    fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }
}

impl wish::Client for Ear {
    fn has(&self, want: Want) -> bool {
        self.has.contains(&want)
    }

    fn ask(&self, wishes: Vec<Wish>) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        Box::pin(async move {
            let gone = || {
                let message = "the client that made the call has disconnected";
                ToolError::new(Code::Unavailable, message)
            };
            let (answer, answered) = oneshot::channel();
            let given = std::mem::take(&mut *lock(&self.given));
            if let Some(answers) = answers(&wishes, &given) {
                return Ok(answers);
            }
            let question = Question::Wishes(Wanted { wishes, answer });
            self.ask.send(question).await.map_err(|_| gone())?;
            answered.await.unwrap_or_else(|_| Err(gone()))
        })
    }
}

/// Returns the client's answers to the requests; none if one is missing or not valid.
pub(crate) fn answers(wishes: &[Wish], given: &BTreeMap<String, Value>) -> Option<Vec<Value>> {
    let each = wishes.iter().map(|wish| {
        let answer = given.get(&wish.name)?;
        ask::is_answer(wish.want, answer).then(|| answer.clone())
    });
    each.collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// The person at the client, asked through the handler of the client's request.
pub(crate) struct Client {
    ask: mpsc::Sender<Question>,
    apart: bool,
}

impl Approver for Client {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let nobody = || Answer::Nobody {
                way_out: "The client that made the call has disconnected.".to_owned(),
            };
            let (answer, answered) = oneshot::channel();
            let question = Question::Card(Asked {
                card: Box::new(card.clone()),
                answer,
            });
            if self.ask.send(question).await.is_err() {
                return nobody();
            }
            answered.await.unwrap_or_else(|_| nobody())
        })
    }

    fn apart(&self) -> bool {
        self.apart
    }
}
