use futures::StreamExt as _;
use mimir_console::{ConsoleEventKind, ConsoleEvents};

use super::*;

/// Returns the next question of the stream for which the condition holds.
pub(super) async fn next_question(
    events: &mut ConsoleEvents,
    is_wanted: impl Fn(&Value) -> bool,
) -> Value {
    let next = async {
        while let Some(event) = events.next().await {
            if event.kind == ConsoleEventKind::Question {
                let question = serde_json::from_str(&event.data).unwrap();
                if is_wanted(&question) {
                    return question;
                }
            }
        }
        panic!("the stream has ended");
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, next).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn console_events_show_a_changed_difference_on_every_page() {
    let console = ConsoleFixture::new();
    let file = console.root().join("a.txt");
    std::fs::write(&file, "one\n").unwrap();
    let pipeline = console.pipeline().await;
    let mut pages: Vec<ConsoleEvents> = (0..3)
        .map(|_| events::follow(Arc::clone(&console.state)))
        .collect();
    let arguments = json!({"path": "a.txt", "pattern": "one", "replacement": "two"});
    let calling = tokio::spawn(async move { pipeline.call(call("edit_file", arguments)).await });
    let mut shown = Vec::new();
    for page in &mut pages {
        shown.push(next_question(page, |question| question["preview"].is_object()).await);
    }
    // The answer of one page is refused, since the file has changed.
    std::fs::write(&file, "evil one\n").unwrap();
    let once = |question: &Value| answer_to(question, QuestionAnswerKind::Once);
    let refused = console.answer(&shown[0], once(&shown[0])).await;
    assert_eq!(refused.unwrap_err().code, ToolErrorCode::Unavailable);
    let mut again = Vec::new();
    for (page, known) in pages.iter_mut().zip(&shown) {
        again.push(next_question(page, |question| question["preview"] != known["preview"]).await);
    }
    let digest = |question: &Value| question["preview"]["digest"].clone();
    assert!(again.iter().all(|page| digest(page) == digest(&again[0])));
    let counted = console.answer(&again[1], once(&again[1])).await;
    assert_eq!(counted.unwrap()["counted"], true);
    assert!(calling.await.unwrap().is_ok());
}
