//! Approval questions to the person at the client, and their answers: by a request of the server, or, since
//! 2026-07-28, by the response to the client's request.

use std::collections::BTreeMap;

use mimir_core::Answer;
use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitResult, ErrorData, InputRequest, InputRequiredResult,
    InputResponses, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use tokio::sync::mpsc::Receiver;

use crate::ask::{self, Key, Parked, Whose};
use crate::metrics::Metrics;
use crate::progress::{Asked, Question};
use crate::server::Session;
use crate::server::session::is_modern;

use super::{Running, wishing};

/// Key of the approval question and of its answer in a response.
const APPROVAL: &str = "approval";

/// Number of attempts if a person's answer is not valid.
const TRIES: usize = 3;

/// Has the questions of a call answered one at a time. Returns the first one that this request cannot have answered,
/// but only respond with.
pub(super) async fn ask(
    questions: &mut Receiver<Question>,
    context: &RequestContext<RoleServer>,
    metrics: &Metrics,
) -> Option<Question> {
    if is_modern(context) {
        return questions.recv().await;
    }
    while let Some(question) = questions.recv().await {
        match question {
            Question::Card(asked) => {
                let whose = Session::whose(context);
                elicit(asked, whose, &context.peer, metrics).await;
            }
            Question::Wishes(wanted) => wishing::pass(wanted, &context.peer).await,
        }
    }
    None
}

/// Asks by a request of the server.
async fn elicit(mut question: Asked, whose: Whose, peer: &Peer<RoleServer>, metrics: &Metrics) {
    let mut note = None;
    for _ in 0..TRIES {
        let Some(form) = ask::form(&question.card, whose, note) else {
            return too_long(question);
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let options = PeerRequestOptions::no_options();
        let mut asked = match peer.send_cancellable_request(request, options).await {
            Ok(asked) => asked,
            Err(error) => return nobody(question, format!("The client cannot be asked: {error}.")),
        };
        let answer = tokio::select! {
            answer = &mut asked.rx => answer,
            () = question.answer.closed() => {
                let _ = asked.cancel(Some("the request was withdrawn".to_owned())).await;
                return;
            }
        };
        let result = match answer {
            Ok(Ok(ClientResult::ElicitResult(result))) => result,
            Ok(Err(error)) => return nobody(question, format!("The client did not ask: {error}.")),
            Ok(Ok(_)) | Err(_) => return nobody(question, "The client did not ask.".to_owned()),
        };
        match ask::read(&question.card, whose, &result) {
            Ok(answer) => {
                metrics.answered(&answer);
                return give(question, answer);
            }
            Err(wrong) => note = Some(wrong),
        }
    }
    nobody(
        question,
        format!("No valid answer was given in {TRIES} attempts."),
    );
}

impl Session {
    /// Resumes the call that waits for this answer. If the answer is not valid, the question is asked again.
    pub(super) fn answered(
        &self,
        state: &str,
        key: &Key,
        responses: Option<InputResponses>,
    ) -> Result<Result<Running, Box<InputRequiredResult>>, ErrorData> {
        let Some(parked) = self.server.0.parking.take(state, key) else {
            return Err(ErrorData::invalid_params(
                "no call waits under this requestState: it was already answered, has expired, or belongs to another call. Call again without it",
                None,
            ));
        };
        let Parked {
            key,
            work,
            heard,
            question,
        } = parked;
        let mut responses = responses.unwrap_or_default();
        let again = match question {
            Question::Wishes(wanted) => {
                match wishing::answered(wanted, &responses) {
                    Ok(()) => return Ok(Ok(Running { key, work, heard })),
                    // The missing answers are requested again.
                    Err(wanted) => (Question::Wishes(wanted), None),
                }
            }
            Question::Card(asked) => {
                let answer = responses.remove(APPROVAL);
                let answer =
                    answer.and_then(|answer| serde_json::from_value::<ElicitResult>(answer).ok());
                match answer.map(|answer| ask::read(&asked.card, key.whose, &answer)) {
                    Some(Ok(answer)) => {
                        self.server.0.metrics.answered(&answer);
                        give(asked, answer);
                        return Ok(Ok(Running { key, work, heard }));
                    }
                    Some(Err(wrong)) => (Question::Card(asked), Some(wrong)),
                    None => (Question::Card(asked), None),
                }
            }
        };
        let (question, note) = again;
        let parked = Parked {
            key,
            work,
            heard,
            question,
        };
        Ok(self.park(parked, note))
    }

    /// Asks by the response: the call waits for the next request. If it cannot wait, the question counts as
    /// unanswered.
    pub(super) fn park(
        &self,
        parked: Parked,
        note: Option<&'static str>,
    ) -> Result<Running, Box<InputRequiredResult>> {
        let refused = |parked: Parked, refuse: fn(Asked)| {
            match parked.question {
                Question::Card(asked) => refuse(asked),
                Question::Wishes(wanted) => wishing::refuse(wanted),
            }
            Ok(Running {
                key: parked.key,
                work: parked.work,
                heard: parked.heard,
            })
        };
        let requests = match &parked.question {
            Question::Card(asked) => ask::form(&asked.card, parked.key.whose, note).map(|form| {
                let request = InputRequest::Elicitation(ElicitRequest::new(form));
                BTreeMap::from([(APPROVAL.to_owned(), request)])
            }),
            Question::Wishes(wanted) => wishing::requests(wanted),
        };
        let Some(requests) = requests else {
            return refused(parked, too_long);
        };
        match self.server.0.parking.leave(parked) {
            Ok(state) => Err(Box::new(InputRequiredResult::new(
                Some(requests),
                Some(state),
            ))),
            Err(parked) => refused(*parked, |question| {
                nobody(
                    question,
                    "Too many questions wait for an answer.".to_owned(),
                );
            }),
        }
    }
}

/// An error means that the call has stopped waiting.
fn give(question: Asked, answer: Answer) {
    let _ = question.answer.send(answer);
}

fn nobody(question: Asked, way_out: String) {
    give(question, Answer::Nobody { way_out });
}

fn too_long(question: Asked) {
    let way_out = "The arguments are too long for an MCP client to show: use `mimir call`, which shows them on a terminal.";
    nobody(question, way_out.to_owned());
}
