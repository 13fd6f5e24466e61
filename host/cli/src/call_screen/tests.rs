//! Drawing on an in-memory terminal, and keys.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use mimir::live_calls::{AgentKey, LiveCallHub, LiveCallSource};
use mimir::shared_questions::{QuestionAsker, QuestionState, SharedQuestion};
use mimir_core::approval::AlwaysCoverage;
use mimir_core::call_monitor::{
    LiveCallEnd, LiveCallEvent, LiveCallState, LiveProcess, LiveStream, StartedCall,
};
use mimir_core::call_switch::StopNotice;
use mimir_core::{Card, RequestId, RiskLevel, ToolSource};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw;
use super::keys::{ScreenAction, handle_key};
use super::state::{CallScreen, RowKey, ScreenOrder};

struct NoProcess;

impl LiveCallSource for NoProcess {
    fn process(&self) -> LiveProcess {
        process()
    }

    fn cancel(&self, _: &RequestId, _: &str) -> bool {
        true
    }

    fn stop_session(&self, _: &StopNotice) -> bool {
        true
    }

    fn start_session(&self, _: &str) -> bool {
        true
    }
}

fn process() -> LiveProcess {
    LiveProcess {
        name: "serve".into(),
        pid: 7,
    }
}

fn start(hub: &LiveCallHub, source: u64, tool: &str) -> RequestId {
    let id = RequestId::new(SystemTime::now());
    let started = StartedCall {
        id: id.clone(),
        at: Timestamp::now(),
        process: process(),
        session: "session".into(),
        user: None,
        client: None,
        tool: tool.into(),
        source: Some(ToolSource::Custom),
        location: Some(".mimir/tools/x.wasm".into()),
        parent: None,
        arguments: "{\n  \"path\": \"a.txt\"\n}".into(),
        arguments_truncated: false,
        trace: None,
    };
    let output = LiveCallEvent::Output {
        id: id.clone(),
        stream: LiveStream::Stdout,
        level: None,
        text: "first\nlast line\u{1b}[31m".into(),
    };
    hub.apply(
        source,
        vec![LiveCallEvent::Started(Box::new(started)), output],
    );
    id
}

fn question(id: &str) -> SharedQuestion {
    let now = Timestamp::now();
    SharedQuestion {
        id: id.into(),
        workspace: "w".into(),
        process: "process 1".into(),
        asker: QuestionAsker::Process(std::process::id()),
        asked_at: now,
        expires_at: now.checked_add(Duration::from_secs(100)).unwrap(),
        card: card(),
        state: QuestionState::Open,
    }
}

/// Creates a question that offers an answer for later calls, too.
fn lasting_question(id: &str) -> SharedQuestion {
    let mut asked = question(id);
    asked.card.always = Some(AlwaysCoverage {
        text: "allow `evil` with anything".into(),
        grants: vec![],
        withheld: vec![],
        commands: vec![],
    });
    asked
}

fn card() -> Card {
    Card {
        fingerprint: mimir_core::approval::Fingerprint::new("evil", "", &true.into()),
        caller: None,
        tool: "evil".into(),
        source: ToolSource::Custom,
        location: ".mimir/tools/evil.wasm".into(),
        digest: "0123456789abcdef".into(),
        arguments: "{}".into(),
        summary: "delete everything".into(),
        risk: RiskLevel::High,
        risks: vec![],
        grants: vec![],
        changes: vec![],
        proofs: vec![],
        reasons: vec![],
        always: None,
        remedies: vec![],
        editable: false,
        facts: mimir_core::approval::CardFacts::default(),
    }
}

fn shown(screen: &mut CallScreen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw::draw_calls(frame, screen))
        .unwrap();
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content().chunks(usize::from(width));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect())
        .collect()
}

fn press(screen: &mut CallScreen, code: KeyCode) -> ScreenAction {
    handle_key(screen, KeyEvent::new(code, KeyModifiers::NONE))
}

/// Lets the open page have been on the screen for a while.
fn wait(screen: &mut CallScreen) {
    let page = screen.page.as_mut().unwrap();
    page.opened = page.opened.checked_sub(Duration::from_secs(5)).unwrap();
}

fn filled() -> (CallScreen, LiveCallHub) {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(NoProcess));
    for number in 0..50 {
        start(&hub, source, &format!("tool_{number:02}"));
    }
    let mut screen = CallScreen::default();
    screen.set_calls(&hub);
    (screen, hub)
}

#[test]
fn call_screen_draws_at_any_size() {
    let (mut screen, hub) = filled();
    for opens in [false, true] {
        if opens {
            press(&mut screen, KeyCode::Enter);
            screen.set_calls(&hub);
        }
        for width in [1, 2, 5, 20, 40, 63, 64, 80, 300] {
            for height in [1, 2, 3, 24] {
                shown(&mut screen, width, height);
            }
        }
        let rows = shown(&mut screen, 80, 24);
        assert!(rows.iter().all(|row| !row.contains('\u{1b}')));
        let text = rows.join("\n");
        if opens {
            assert!(text.contains("\"path\": \"a.txt\""), "{text}");
        } else {
            assert!(rows[1].starts_with("> > tool_00"), "{text}");
            assert!(rows[1].contains("last line"), "{text}");
            assert!(rows[0].starts_with("Calls: 50 running"), "{text}");
        }
    }
}

#[test]
fn call_screen_keeps_the_selection_when_lines_appear() {
    let (mut screen, _hub) = filled();
    press(&mut screen, KeyCode::Down);
    let selected = screen.keys()[1].clone();
    screen.set_questions(vec![question("q1")]);
    assert_eq!(screen.selected_line(), 2);
    assert_eq!(screen.keys()[2], selected);
    let RowKey::Call(id) = selected else { panic!() };
    let action = press(&mut screen, KeyCode::Char('c'));
    assert!(matches!(action, ScreenAction::Cancel(cancelled) if cancelled == id));
}

#[test]
fn call_screen_answers_a_question_only_on_its_card() {
    let mut screen = CallScreen::default();
    screen.set_questions(vec![question("q1")]);
    let action = press(&mut screen, KeyCode::Char('A'));
    assert!(matches!(action, ScreenAction::Nothing), "{action:?}");
    let card = shown(&mut screen, 80, 24).join("\n");
    assert!(
        card.contains("may `evil` run?") && card.contains("delete everything"),
        "{card}"
    );
    // Nobody has read the card so fast.
    let action = press(&mut screen, KeyCode::Char('n'));
    assert!(matches!(action, ScreenAction::Nothing), "{action:?}");
    wait(&mut screen);
    let ScreenAction::Answer(answered, answer) = press(&mut screen, KeyCode::Char('n')) else {
        panic!()
    };
    assert_eq!((answered.id.as_str(), answer.as_str()), ("q1", "no"));
    // A question that was answered elsewhere takes no key any more, and another one does not take its place.
    screen.set_questions(vec![question("q2")]);
    assert!(shown(&mut screen, 80, 24)[23].contains("has ended"));
    let action = press(&mut screen, KeyCode::Char('a'));
    assert!(matches!(action, ScreenAction::Nothing), "{action:?}");
    assert_eq!(screen.open_question().unwrap().id, "q2");
}

#[test]
fn call_screen_answers_with_the_keys_of_the_page() {
    let mut screen = CallScreen::default();
    screen.set_questions(vec![lasting_question("q1")]);
    press(&mut screen, KeyCode::Enter);
    wait(&mut screen);
    for (key, expected) in [('o', "once"), ('s', "session"), ('n', "no")] {
        match press(&mut screen, KeyCode::Char(key)) {
            ScreenAction::Answer(_, answer) => assert_eq!(answer.as_str(), expected),
            action => panic!("{action:?}"),
        }
    }
    // "Always" counts for later calls, too.
    for letter in ['a', 'A'] {
        let action = press(&mut screen, KeyCode::Char(letter));
        assert!(matches!(action, ScreenAction::Nothing), "{action:?}");
        assert!(shown(&mut screen, 60, 24)[23].contains("? y/n"));
        press(&mut screen, KeyCode::Char('n'));
        assert!(shown(&mut screen, 60, 24)[23].contains("nothing was answered"));
    }
    let always = Some(ScreenOrder::AnswerAlways("q1".into()));
    assert_eq!(order(&mut screen, 'a'), always);
    let action = press(&mut screen, KeyCode::Char('y'));
    assert!(matches!(action, ScreenAction::Nothing), "{action:?}");
    for width in [60, 80] {
        let footer = shown(&mut screen, width, 24)[23].clone();
        assert!(
            footer.contains("o once") && footer.contains("n no"),
            "{footer}"
        );
    }
}

#[test]
fn call_screen_offers_only_the_answers_of_a_question() {
    let mut screen = CallScreen::default();
    screen.set_questions(vec![question("q1")]);
    assert!(shown(&mut screen, 60, 24)[23].contains("o/n answer"));
    press(&mut screen, KeyCode::Enter);
    wait(&mut screen);
    for width in [40, 80] {
        let footer = shown(&mut screen, width, 24)[23].clone();
        assert!(
            !footer.contains("session") && !footer.contains("always"),
            "{footer}"
        );
    }
    for letter in ['s', 'a', 'A'] {
        let action = press(&mut screen, KeyCode::Char(letter));
        assert!(matches!(action, ScreenAction::Nothing), "{action:?}");
        let footer = shown(&mut screen, 80, 24)[23].clone();
        assert!(footer.contains("needs its own approval"), "{footer}");
    }
    // The card closes, and a further Escape does not quit.
    for _ in 0..2 {
        let action = press(&mut screen, KeyCode::Esc);
        assert!(matches!(action, ScreenAction::Nothing), "{action:?}");
    }
    assert!(screen.page.is_none());
    assert!(shown(&mut screen, 60, 24)[23].contains("q quits"));
    // An answer is for nothing that is cut.
    let mut asked = lasting_question("q2");
    if let Some(always) = &mut asked.card.always {
        always.text = format!("allow `evil` with {}", "x".repeat(200));
    }
    screen.set_questions(vec![asked]);
    press(&mut screen, KeyCode::Enter);
    wait(&mut screen);
    press(&mut screen, KeyCode::Char('a'));
    let footer = shown(&mut screen, 80, 24)[23].clone();
    assert!(footer.contains("the card lists"), "{footer}");
}

#[test]
fn call_screen_says_which_call_waits_behind_another_question() {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(NoProcess));
    let ids = [0, 1].map(|_| start(&hub, source, "evil"));
    for id in &ids {
        hub.apply(source, vec![waiting(id)]);
    }
    let mut screen = CallScreen::default();
    screen.set_calls(&hub);
    assert!(shown(&mut screen, 80, 24)[0].contains("2 waiting   Questions: 0"));
    let mut asked = question("q1");
    asked.card.facts.call_id = ids[0].to_string();
    asked.card.facts.session = "session".into();
    screen.set_questions(vec![asked]);
    let rows = shown(&mut screen, 100, 24);
    let title = "2 waiting (1 behind another)   Questions: 1";
    assert!(rows[0].contains(title), "{}", rows[0]);
    assert!(
        rows[2].contains("waits behind another question"),
        "{}",
        rows[2]
    );
}

fn waiting(id: &RequestId) -> LiveCallEvent {
    LiveCallEvent::Decided {
        id: id.clone(),
        decision: mimir_core::Decision::Ask,
        rule: None,
        reasons: Vec::new(),
        state: LiveCallState::Waiting,
        since: Some(Timestamp::now()),
        ran_ms: Some(0.0),
    }
}

#[test]
fn call_screen_names_agent_strangers_and_change_of_a_question() {
    let mut asked = lasting_question("q1");
    asked.card.facts.client = Some("wild 1.0".into());
    asked.card.facts.untrusted = vec![mimir_core::approval::UntrustedRead {
        origin: "built-in:web_fetch".into(),
        call_id: String::new(),
    }];
    let mut screen = CallScreen::default();
    screen.set_questions(vec![asked]);
    let row = shown(&mut screen, 120, 24)[1].clone();
    assert!(
        row.contains("wild 1.0") && row.contains("after strangers' text: delete"),
        "{row}"
    );
    let preview = serde_json::json!({"diff": [{
        "path": "config\u{1b}[31m.txt", "kind": "changed", "added": 1, "removed": 2,
        "lines": [{"type": "remove", "text": "old"}, {"type": "add", "text": "new\u{1b}[31m"}],
    }]});
    screen.set_preview("q1".into(), preview.clone());
    let rows = shown(&mut screen, 120, 24);
    assert!(rows[1].contains(".txt +1 −2"), "{}", rows[1]);
    assert!(shown(&mut screen, 60, 24)[23].contains("o/s/a/n answer"));
    press(&mut screen, KeyCode::Enter);
    let page = shown(&mut screen, 100, 40).join("\n");
    for text in [
        "from built-in:web_fetch",
        "would change",
        "│ -old",
        "│ +new",
        "asked by wild 1.0",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains('\u{1b}'));
    // A difference that has just appeared is not read yet.
    wait(&mut screen);
    screen.set_preview("q1".into(), preview);
    let action = press(&mut screen, KeyCode::Char('o'));
    assert!(matches!(action, ScreenAction::Nothing), "{action:?}");
    screen.set_questions(Vec::new());
    assert!(screen.previews.is_empty());
}

#[test]
fn call_screen_stops_all_calls_only_after_a_yes() {
    let (mut screen, _hub) = filled();
    press(&mut screen, KeyCode::Char('x'));
    assert!(shown(&mut screen, 80, 24)[23].contains("y/n"));
    let action = press(&mut screen, KeyCode::Enter);
    assert!(matches!(action, ScreenAction::Nothing));
    press(&mut screen, KeyCode::Char('x'));
    let action = press(&mut screen, KeyCode::Char('y'));
    assert!(matches!(action, ScreenAction::Order(ScreenOrder::StopAll)));
    let action = press(&mut screen, KeyCode::Char('q'));
    assert!(matches!(action, ScreenAction::Leave));
}

/// Presses a key and then `y`. Returns the order, if there is one.
fn order(screen: &mut CallScreen, letter: char) -> Option<ScreenOrder> {
    press(screen, KeyCode::Char(letter));
    match press(screen, KeyCode::Char('y')) {
        ScreenAction::Order(order) => Some(order),
        _ => None,
    }
}

#[test]
fn call_screen_starts_only_what_is_stopped() {
    let (mut screen, _hub) = filled();
    assert_eq!(order(&mut screen, 'S'), None);
    screen.stop = Some(StopNotice::new("ada".into(), SystemTime::now(), None));
    assert!(shown(&mut screen, 80, 24)[0].contains("S allows them again"));
    press(&mut screen, KeyCode::Char('x'));
    assert!(shown(&mut screen, 80, 24)[23].contains("stopped already"));
    assert_eq!(order(&mut screen, 'S'), Some(ScreenOrder::StartAll));
}

#[test]
fn call_screen_stops_the_agent_of_the_selected_call() {
    let (mut screen, hub) = filled();
    press(&mut screen, KeyCode::Char('t'));
    let footer = shown(&mut screen, 80, 24)[23].clone();
    assert!(footer.contains("Stop the calls of `serve`"), "{footer}");
    press(&mut screen, KeyCode::Char('n'));
    assert!(shown(&mut screen, 80, 24)[23].contains("nothing was stopped"));
    let key = AgentKey {
        pid: 7,
        session: "session".into(),
    };
    let stop = Some(ScreenOrder::StopAgent(key.clone(), "serve".into()));
    assert_eq!(order(&mut screen, 't'), stop);
    hub.set_stops(
        0,
        vec![StopNotice::new("ada".into(), SystemTime::now(), None).for_session("session")],
    );
    screen.set_calls(&hub);
    assert!(shown(&mut screen, 80, 24)[0].contains("STOPPED: serve"));
    let start = Some(ScreenOrder::StartAgent(key, "serve".into()));
    assert_eq!(order(&mut screen, 't'), start);
}

#[test]
fn call_screen_undoes_ended_calls_with_changes_only() {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(NoProcess));
    let id = start(&hub, source, "edit_file");
    let mut screen = CallScreen::default();
    screen.set_calls(&hub);
    assert_eq!(order(&mut screen, 'u'), None);
    let finished = LiveCallEvent::Finished(Box::new(LiveCallEnd {
        id,
        at: Timestamp::now(),
        ok: true,
        outcome: None,
        code: None,
        message: None,
        receipt: mimir_core::Receipt::default(),
        label: None,
        undo: Some("u1".into()),
    }));
    hub.apply(source, vec![finished]);
    screen.set_calls(&hub);
    let undo = Some(ScreenOrder::Undo("u1".into(), "edit_file".into()));
    assert_eq!(order(&mut screen, 'u'), undo);
    let record = serde_json::json!({
        "id": "u1", "tool": "edit_file", "time": "2026-01-31T12:00:00Z", "changes": [],
        "unkept": {"paths": ["a.txt", "b.txt"], "why": "too large"},
    });
    screen.name_changed_files(|_| serde_json::from_value(record.clone()).ok());
    press(&mut screen, KeyCode::Char('u'));
    let footer = shown(&mut screen, 80, 24)[23].clone();
    assert!(
        footer.contains("`edit_file` to a.txt and 1 more? y/n"),
        "{footer}"
    );
}

#[test]
fn call_screen_shows_a_question_and_its_call_on_one_line() {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(NoProcess));
    let id = start(&hub, source, "evil");
    hub.apply(source, vec![waiting(&id)]);
    let mut screen = CallScreen::default();
    screen.set_calls(&hub);
    let row = shown(&mut screen, 80, 24)[1].clone();
    assert!(row.contains("waiting"), "{row}");
    let mut asked = question("q1");
    asked.card.facts.call_id = id.to_string();
    screen.set_questions(vec![asked]);
    assert_eq!(screen.keys(), [RowKey::Question("q1".into())]);
    assert!(shown(&mut screen, 80, 24)[0].contains("1 waiting   Questions: 1"));
    // The keys for calls mean the call that the question is about.
    let action = press(&mut screen, KeyCode::Char('c'));
    assert!(matches!(action, ScreenAction::Cancel(cancelled) if cancelled == id));
    assert!(matches!(
        order(&mut screen, 't'),
        Some(ScreenOrder::StopAgent(..))
    ));
}
