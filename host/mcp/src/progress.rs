//! What a tool says while it runs, on its way to the client.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mimir_core::call::{LogLine, Observer, Progress};
use mimir_core::{Answer, Approver, BoxFuture, Card};
use tokio::sync::{mpsc, oneshot};

use crate::logs::Least;

/// What a call says before it ends.
pub(crate) enum Said {
    /// How far it is.
    Progress(Progress),
    /// A line of its log.
    Line(LogLine),
}

/// What a person has to answer before a call goes on.
pub(crate) struct Question {
    pub(crate) card: Card,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// What a call says and asks.
pub(crate) struct Heard {
    pub(crate) said: mpsc::Receiver<Said>,
    pub(crate) questions: mpsc::Receiver<Question>,
}

/// Hears a call for its client. It never makes the tool wait: what a slow client has not taken by then is not said.
pub(crate) struct Ear {
    said: mpsc::Sender<Said>,
    progress: Option<Mutex<Pace>>,
    least: Option<Least>,
    person: Box<dyn Approver>,
}

/// Words that wait for the client.
const WAITING: usize = 256;

/// Progress is for a person's eyes, which see no more than this many changes.
const EVERY: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Pace {
    last: Option<(Instant, u64)>,
}

impl Ear {
    /// An ear, and what it hears. `least` is what the client wants to hear of the log; `person` makes the one who is
    /// asked out of a way to the client.
    pub(crate) fn new(
        progress: bool,
        least: Option<Least>,
        person: impl FnOnce(Client) -> Box<dyn Approver>,
    ) -> (Self, Heard) {
        let (said, hear) = mpsc::channel(WAITING);
        let (ask, questions) = mpsc::channel(1);
        let ear = Self {
            said,
            progress: progress.then(Mutex::default),
            least,
            person: person(Client(ask)),
        };
        let heard = Heard {
            said: hear,
            questions,
        };
        (ear, heard)
    }
}

impl Observer for Ear {
    fn progress(&self, progress: Progress) {
        let Some(pace) = &self.progress else { return };
        let mut pace = pace.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let ends = progress.total == Some(progress.done);
        if let Some((at, done)) = pace.last
            // The protocol wants each number to be greater than the one before.
            && (progress.done <= done || (now.duration_since(at) < EVERY && !ends))
        {
            return;
        }
        pace.last = Some((now, progress.done));
        let _ = self.said.try_send(Said::Progress(progress));
    }

    fn log(&self, line: LogLine) {
        if self.least.is_some_and(|least| least.hears(line.level)) {
            let _ = self.said.try_send(Said::Line(line));
        }
    }

    fn person(&self) -> Option<&dyn Approver> {
        Some(&*self.person)
    }
}

/// The person at the client, by way of whoever answers the client's request.
pub(crate) struct Client(mpsc::Sender<Question>);

impl Approver for Client {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let nobody = || Answer::Nobody {
                way_out: "The client that made the call has gone away.".to_owned(),
            };
            let (answer, answered) = oneshot::channel();
            let question = Question {
                card: card.clone(),
                answer,
            };
            if self.0.send(question).await.is_err() {
                return nobody();
            }
            answered.await.unwrap_or_else(|_| nobody())
        })
    }
}
