//! What a tool says while it runs, on its way to the client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// What a call says before it ends.
pub(crate) enum Said {
    /// How far it is.
    Progress(Progress),
    /// A line of its log.
    Line(LogLine),
}

/// What has to be answered before a call goes on.
pub(crate) enum Question {
    /// By a person, whether it may.
    Card(Asked),
    /// By the client, what the server behind the tool wants of it.
    Wishes(Wanted),
}

/// What a person has to answer.
pub(crate) struct Asked {
    pub(crate) card: Box<Card>,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// What a server behind a tool wants of the client.
pub(crate) struct Wanted {
    pub(crate) wishes: Vec<Wish>,
    pub(crate) answer: oneshot::Sender<Result<Vec<Value>, ToolError>>,
}

/// What a call says and asks.
pub(crate) struct Heard {
    pub(crate) said: mpsc::Receiver<Said>,
    /// The newest progress that was held back.
    pub(crate) latest: Arc<Latest>,
    pub(crate) questions: mpsc::Receiver<Question>,
}

/// Hears a call for its client. It never makes the tool wait: what a slow client has not taken by then is not said, but
/// for the newest progress.
pub(crate) struct Ear {
    said: mpsc::Sender<Said>,
    progress: Option<Mutex<Rate>>,
    least: Option<Least>,
    /// The trace context of the request.
    trace: Option<String>,
    person: Box<dyn Approver>,
    /// What the client has for servers behind its tools, and where it is asked.
    has: Vec<Want>,
    ask: mpsc::Sender<Question>,
    /// What the client has answered before it was asked.
    given: Mutex<BTreeMap<String, Value>>,
}

/// Words that wait for the client.
const WAITING: usize = 256;

impl Ear {
    /// An ear, and what it hears. `least` is what the client wants to hear of the log, `has` what it has for servers
    /// behind; `apart` says that it is asked by the answer to its own request; `person` makes the one who is asked out
    /// of a way to the client.
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
                let message = "the client that made the call has gone away";
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

/// The answers to wishes among those that a client has given; none if one is missing or is no answer.
pub(crate) fn answers(wishes: &[Wish], given: &BTreeMap<String, Value>) -> Option<Vec<Value>> {
    let each = wishes.iter().map(|wish| {
        let answer = given.get(&wish.name)?;
        ask::is_answer(wish.want, answer).then(|| answer.clone())
    });
    each.collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The person at the client, by way of whoever answers the client's request.
pub(crate) struct Client {
    ask: mpsc::Sender<Question>,
    apart: bool,
}

impl Approver for Client {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let nobody = || Answer::Nobody {
                way_out: "The client that made the call has gone away.".to_owned(),
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
