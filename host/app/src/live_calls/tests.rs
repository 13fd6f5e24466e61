#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use mimir_core::call_monitor::{
    LiveCallEnd, LiveCallEvent, LiveCallState, LiveEffect, LiveProcess, LiveStream, RunningCalls,
    StartedCall,
};
use mimir_core::call_switch::{SessionStops, StopNotice};
use mimir_core::{Decision, DecisionReason, PolicyLayer, Receipt, RequestId, ToolErrorCode};

use super::messages::{ConsoleOrder, MAX_LINE, PublisherMessage, event_lines, to_line};
use super::socket_folder::SocketFolder;
use super::*;
use crate::user_dirs::UserDirs;

const WAIT: Duration = Duration::from_secs(20);

fn process() -> LiveProcess {
    LiveProcess {
        name: "serve".into(),
        pid: 7,
    }
}

fn new_id() -> RequestId {
    RequestId::new(SystemTime::now())
}

fn started(id: &RequestId) -> LiveCallEvent {
    LiveCallEvent::Started(Box::new(StartedCall {
        id: id.clone(),
        at: Timestamp::UNIX_EPOCH,
        process: process(),
        session: "s".into(),
        user: None,
        client: None,
        tool: "sample".into(),
        source: None,
        location: None,
        parent: None,
        arguments: "{}".into(),
        arguments_truncated: false,
        trace: None,
    }))
}

fn output(id: &RequestId, text: &str) -> LiveCallEvent {
    LiveCallEvent::Output {
        id: id.clone(),
        stream: LiveStream::Stdout,
        level: None,
        text: text.into(),
    }
}

fn finished(id: &RequestId) -> LiveCallEvent {
    LiveCallEvent::Finished(Box::new(LiveCallEnd {
        id: id.clone(),
        at: Timestamp::UNIX_EPOCH,
        ok: true,
        outcome: None,
        code: None,
        message: None,
        receipt: Receipt::default(),
        label: None,
        undo: None,
    }))
}

#[derive(Default)]
struct CountingSource(AtomicUsize);

impl LiveCallSource for CountingSource {
    fn process(&self) -> LiveProcess {
        process()
    }

    fn cancel(&self, _: &RequestId, _: &str) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn stop_session(&self, _: &StopNotice) -> bool {
        true
    }

    fn start_session(&self, _: &str) -> bool {
        true
    }
}

#[test]
fn hub_keeps_the_last_calls_and_running_ones() {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(CountingSource::default()));
    let running = new_id();
    hub.apply(source, vec![started(&running)]);
    for _ in 0..10_000 {
        let id = new_id();
        hub.apply(source, vec![started(&id), finished(&id)]);
    }
    let snapshot = hub.snapshot();
    assert!((1_800..=2_000).contains(&snapshot.calls.len()));
    assert_eq!(snapshot.calls[0].id(), &running);
    assert_eq!(snapshot.dropped as usize + snapshot.calls.len(), 10_001);
}

#[test]
fn hub_bounds_output_per_call_and_in_total() {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(CountingSource::default()));
    let text = "ä".repeat(2_000);
    let ids: Vec<_> = (0..1_500).map(|_| new_id()).collect();
    for id in &ids {
        hub.apply(source, vec![started(id)]);
        hub.apply(source, (0..20).map(|_| output(id, &text)).collect());
    }
    let snapshot = hub.snapshot();
    let sizes = snapshot.calls.iter().map(|call| call.output.len());
    assert!(sizes.clone().max() <= Some(64 << 10));
    assert!(sizes.sum::<usize>() <= 64 << 20);
    assert!(snapshot.dropped > 0);
    let last = snapshot.calls.last().unwrap();
    assert_eq!(last.id(), &ids[1_499]);
    assert!(last.output_truncated && last.output.ends_with('ä'));
}

#[tokio::test]
async fn hub_updates_report_missed_events() {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(CountingSource::default()));
    let (before, mut updates) = hub.snapshot_and_updates();
    assert!(before.calls.is_empty());
    let id = new_id();
    hub.apply(source, vec![started(&id)]);
    let first = updates.next().await.unwrap();
    assert!(matches!(first, LiveUpdate::Events(events) if events.len() == 1));
    for _ in 0..3_000 {
        hub.apply(source, vec![output(&id, "x")]);
    }
    assert_eq!(updates.next().await, Some(LiveUpdate::Missed));
    assert!(matches!(updates.next().await, Some(LiveUpdate::Events(_))));
}

#[test]
fn hub_call_of_two_processes_has_the_output_of_the_first() {
    let hub = LiveCallHub::default();
    let sources = [(); 2].map(|()| Arc::new(CountingSource::default()));
    let [front, worker] = sources.each_ref().map(|it| hub.add_source(it.clone()));
    let id = new_id();
    hub.apply(front, vec![started(&id)]);
    let effect = LiveCallEvent::Effect {
        id: id.clone(),
        at: Timestamp::UNIX_EPOCH,
        effect: LiveEffect::Command,
        subject: "run `ls`".into(),
        decision: Decision::Allow,
    };
    hub.apply(worker, vec![started(&id), output(&id, "twice"), effect]);
    hub.apply(front, vec![output(&id, "once")]);
    let call = hub.call(&id).unwrap();
    assert_eq!(call.output, "once");
    assert_eq!((call.effects.len(), call.effect_count), (1, 1));
    hub.cancel(&id, "ada").unwrap();
    assert!(sources.iter().all(|it| it.0.load(Ordering::SeqCst) == 1));
    hub.remove_source(worker);
    assert_eq!(hub.call(&id).unwrap().state, LiveCallStatus::Running);
    hub.remove_source(front);
    assert_eq!(hub.call(&id).unwrap().state, LiveCallStatus::Lost);
    let error = hub.cancel(&id, "ada").unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    let error = hub.cancel(&new_id(), "ada").unwrap_err();
    assert_eq!(error.code, ToolErrorCode::NotFound);
}

fn user_dirs(folder: &Path) -> UserDirs {
    UserDirs {
        config: Some(folder.join("config")),
        ..UserDirs::default()
    }
}

/// Waits for a state of the hub.
async fn until(hub: &LiveCallHub, is_reached: impl Fn(&LiveCallSnapshot) -> bool) {
    let mut updates = hub.subscribe();
    let reached = async {
        while !is_reached(&hub.snapshot()) {
            updates.next().await;
        }
    };
    tokio::time::timeout(WAIT, reached).await.unwrap();
}

#[tokio::test]
async fn console_socket_is_private_and_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    // Longer than the address of a socket may be.
    let deep = folder.path().join("x".repeat(120));
    for dirs in [user_dirs(folder.path()), user_dirs(&deep)] {
        let sockets = SocketFolder::of_user(&dirs).unwrap();
        assert!(sockets.sockets().is_empty());
        let hub = LiveCallHub::default();
        let console = LiveConsole::open(&dirs, &hub).unwrap();
        let mode = std::fs::metadata(sockets.path()).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        assert_eq!(sockets.sockets().len(), 1);
        drop(console);
        assert!(sockets.sockets().is_empty());
    }
}

#[tokio::test]
async fn console_folder_that_others_can_enter_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dirs = user_dirs(folder.path());
    let sockets = SocketFolder::of_user(&dirs).unwrap();
    let console = LiveConsole::open(&dirs, &LiveCallHub::default()).unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(sockets.path(), open).unwrap();
    assert!(sockets.sockets().is_empty(), "processes do not connect");
    let error = LiveConsole::open(&dirs, &LiveCallHub::default())
        .err()
        .unwrap();
    assert!(error.message.contains("other users can enter"), "{error}");
    drop(console);
}

#[tokio::test]
async fn console_removes_sockets_of_processes_that_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let dirs = user_dirs(folder.path());
    let sockets = SocketFolder::of_user(&dirs).unwrap();
    drop(LiveConsole::open(&dirs, &LiveCallHub::default()).unwrap());
    // No process has the highest id that the format permits.
    let stale = sockets.path().join("4194303-0123456789abcdef.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let other = sockets.path().join("not-a-socket");
    std::fs::write(&other, "").unwrap();
    // A console of another container, whose process id does not exist here.
    let elsewhere = sockets.path().join("4194302-0123456789abcdef.sock");
    let listener = std::os::unix::net::UnixListener::bind(&elsewhere).unwrap();
    let _console = LiveConsole::open(&dirs, &LiveCallHub::default()).unwrap();
    assert!(!stale.exists());
    assert!(elsewhere.exists() && other.exists());
    assert_eq!(sockets.sockets().len(), 2);
    // One that has crashed is removed by the first process that connects.
    drop(listener);
    assert!(sockets.connect("4194302-0123456789abcdef.sock").is_err());
    assert!(!cfg!(target_os = "linux") || !elsewhere.exists());
}

#[tokio::test]
async fn console_shows_calls_of_a_process_until_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let dirs = user_dirs(folder.path());
    let sockets = SocketFolder::of_user(&dirs).unwrap();
    let hub = LiveCallHub::default();
    let _console = LiveConsole::open(&dirs, &hub).unwrap();
    let mut stream = sockets.connect(&sockets.sockets()[0]).unwrap();
    let id = new_id();
    let mut evil = started(&id);
    if let LiveCallEvent::Started(call) = &mut evil {
        call.tool = "a\u{1b}[31m\u{202e}\nb".into();
        call.arguments = "x".repeat(100_000);
    }
    let messages = [
        PublisherMessage::Hello(process()),
        PublisherMessage::Events(vec![
            evil,
            output(&id, "text\u{1b}[2J"),
            LiveCallEvent::Lost { id: id.clone() },
        ]),
        PublisherMessage::Dropped(3),
    ];
    for message in messages {
        stream.write_all(&to_line(&message)).unwrap();
    }
    until(&hub, |state| {
        state.calls.len() == 1 && state.calls[0].output == "text"
    })
    .await;
    let call = hub.call(&id).unwrap();
    assert_eq!(call.started.tool, r"a\u{202e} b");
    assert_eq!(call.started.arguments.len(), LiveCallEvent::MAX_ARGUMENTS);
    assert_eq!(call.started.process.name, "serve");
    // What the system says.
    if cfg!(target_os = "linux") {
        assert_eq!(call.started.process.pid, std::process::id());
    }
    assert_eq!(call.state, LiveCallStatus::Running);
    hub.cancel(&id, "ada").unwrap();
    let reader = stream.try_clone().unwrap();
    let order = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).unwrap();
        line
    });
    let order = order.await.unwrap();
    let ConsoleOrder::Cancel { id: cancelled, by } = serde_json::from_str(&order).unwrap() else {
        panic!("{order}");
    };
    assert_eq!((cancelled, by.as_str()), (id, "ada"));
    drop(stream);
    until(&hub, |state| state.calls[0].state == LiveCallStatus::Lost).await;
}

#[test]
fn event_lines_have_all_events_and_stay_within_the_limit() {
    let long = |id: &RequestId| {
        let reason = DecisionReason {
            layer: PolicyLayer::Commands,
            decision: Decision::Ask,
            rule: "\"".repeat(LiveCallEvent::MAX_TEXT),
            source: "\\".repeat(LiveCallEvent::MAX_TEXT),
            text: "\"".repeat(LiveCallEvent::MAX_TEXT),
        };
        LiveCallEvent::Decided {
            id: id.clone(),
            decision: Decision::Ask,
            rule: None,
            reasons: vec![reason; LiveCallEvent::MAX_REASONS],
            state: LiveCallState::Running,
            since: None,
            ran_ms: None,
        }
    };
    let id = new_id();
    let events: Vec<_> = (0..20)
        .flat_map(|_| [output(&id, "x"), long(&id)])
        .collect();
    let lines = event_lines(&events);
    assert!(lines.len() > 1);
    let mut received = Vec::new();
    for (line, count) in lines {
        assert!(line.len() < MAX_LINE && line.ends_with(b"\n"));
        let PublisherMessage::Events(events) = serde_json::from_slice(&line).unwrap() else {
            panic!()
        };
        assert_eq!(events.len(), count);
        received.extend(events);
    }
    assert_eq!(received, events);
    assert!(event_lines(&[]).is_empty());
}

#[tokio::test]
async fn console_ends_connections_with_other_content() {
    let folder = tempfile::tempdir().unwrap();
    let dirs = user_dirs(folder.path());
    let sockets = SocketFolder::of_user(&dirs).unwrap();
    let hub = LiveCallHub::default();
    let _console = LiveConsole::open(&dirs, &hub).unwrap();
    let id = new_id();
    let bad: [Vec<u8>; 4] = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        to_line(&PublisherMessage::Events(vec![started(&id)])),
        vec![b'x'; MAX_LINE + 10],
        br#"{"hello":{"name":"a","pid":1}}
{"events":[{"kind":"lost","id":"../../x"}]}
"#
        .to_vec(),
    ];
    for bytes in bad {
        let mut stream = sockets.connect(&sockets.sockets()[0]).unwrap();
        // In another thread, because the console has to read meanwhile.
        let end = tokio::task::spawn_blocking(move || {
            // Fails once the console has closed the connection, which is expected.
            let _ = stream.write_all(&bytes);
            std::io::Read::read(&mut stream, &mut [0; 16]).unwrap_or(0)
        });
        assert_eq!(end.await.unwrap(), 0);
    }
    assert!(hub.snapshot().calls.is_empty());
}

#[tokio::test]
async fn publisher_is_watched_only_while_a_console_is_open() {
    use mimir_core::call_monitor::CallMonitor as _;
    let folder = tempfile::tempdir().unwrap();
    let dirs = user_dirs(folder.path());
    let before = LiveCallPublisher::start(&dirs, Arc::default(), None).unwrap();
    assert!(!before.is_watched());
    let hub = LiveCallHub::default();
    let console = LiveConsole::open(&dirs, &hub).unwrap();
    // A new process knows the console before its first call.
    let after = LiveCallPublisher::start(&dirs, Arc::default(), None).unwrap();
    assert!(after.is_watched());
    let reached = async |publisher: &LiveCallPublisher, is_watched: bool| {
        let poll = async {
            while publisher.is_watched() != is_watched {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(WAIT, poll).await.unwrap();
    };
    reached(&before, true).await;
    drop(console);
    reached(&before, false).await;
    reached(&after, false).await;
    let own = LiveCallPublisher::start(&dirs, Arc::new(RunningCalls::default()), Some(hub));
    assert!(own.unwrap().is_watched());
}

fn stop_notice(session: &str) -> StopNotice {
    StopNotice::new("ada".into(), SystemTime::now(), Some("wild".into())).for_session(session)
}

/// Waits until the hub knows an agent of which `check` is true.
fn wait_for_agent(hub: &LiveCallHub, check: impl Fn(&LiveAgent) -> bool) -> LiveAgent {
    let until = std::time::Instant::now() + WAIT;
    loop {
        if let Some(agent) = hub.agents().into_iter().find(&check) {
            return agent;
        }
        assert!(std::time::Instant::now() < until, "{:?}", hub.agents());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn hub_agents_are_the_sessions_of_connected_processes() {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(CountingSource::default()));
    let (ended, running) = (new_id(), new_id());
    hub.apply(
        source,
        vec![started(&ended), finished(&ended), started(&running)],
    );
    let agents = hub.agents();
    assert_eq!(agents.len(), 1);
    assert_eq!((agents[0].running, agents[0].waiting), (1, 0));
    let key = agents[0].key();
    assert!(hub.stop_agent(&key, stop_notice("s")).is_ok());
    let mut changes = hub.stop_changes();
    hub.set_stops(source, vec![stop_notice("s")]);
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    assert_eq!(hub.agents()[0].stop.as_ref().unwrap().by, "ada");
    assert!(hub.start_agent(&key).is_ok());
    let unknown = AgentKey {
        session: "other".into(),
        ..key.clone()
    };
    for error in [
        hub.stop_agent(&unknown, stop_notice("other")).unwrap_err(),
        hub.start_agent(&unknown).unwrap_err(),
    ] {
        assert_eq!(error.code, ToolErrorCode::NotFound);
    }
    hub.remove_source(source);
    assert!(changes.has_changed().unwrap());
    assert!(hub.agents().is_empty(), "its process is gone");
    assert!(hub.stop_agent(&key, stop_notice("s")).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_is_stopped_in_its_process_and_later_consoles_know_it() {
    let folder = tempfile::tempdir().unwrap();
    let user_dirs = user_dirs(folder.path());
    let hub = LiveCallHub::default();
    let console = LiveConsole::open(&user_dirs, &hub).unwrap();
    let calls = Arc::new(RunningCalls::default());
    let publisher = LiveCallPublisher::start(&user_dirs, Arc::clone(&calls), None).unwrap();
    // The process has no calls yet, so the agent is known by its order only.
    assert!(calls.stops().stop(stop_notice("s\u{202e}")));
    let agent = wait_for_agent(&hub, |agent| agent.stop.is_some());
    assert!(!agent.session.contains('\u{202e}'), "{agent:?}");
    assert_eq!(agent.process.pid, std::process::id());
    assert!(calls.stops().stopped("s\u{202e}").is_some());
    let later = LiveCallHub::default();
    let second = LiveConsole::open(&user_dirs, &later).unwrap();
    wait_for_agent(&later, |agent| agent.stop.is_some());
    later.start_agent(&agent.key()).unwrap();
    let until = std::time::Instant::now() + WAIT;
    while calls.stops().stopped("s\u{202e}").is_some() || !hub.agents().is_empty() {
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
    drop((publisher, console, second));
}

#[test]
fn stops_fit_a_message() {
    let notices: Vec<_> = (0..SessionStops::MAX)
        .map(|number| {
            let long = "\\".repeat(10_000);
            let session = format!("{number}{}", "\u{202e}".repeat(2_000));
            StopNotice::new(long.clone(), SystemTime::now(), Some(long))
                .for_session(&session)
                .cleaned()
        })
        .collect();
    assert!(to_line(&PublisherMessage::Stops(notices)).len() < MAX_LINE);
}

#[test]
fn live_call_times_do_not_count_the_wait() {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(CountingSource::default()));
    let id = new_id();
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let decided = |state, second, ran_ms| LiveCallEvent::Decided {
        id: id.clone(),
        decision: Decision::Ask,
        rule: None,
        reasons: Vec::new(),
        state,
        since: Some(at(second)),
        ran_ms: Some(ran_ms),
    };
    hub.apply(source, vec![started(&id)]);
    let call = hub.call(&id).unwrap();
    assert_eq!(call.run_time(at(5)), Duration::from_secs(5));
    hub.apply(source, vec![decided(LiveCallState::Waiting, 10, 2_000.0)]);
    let call = hub.call(&id).unwrap();
    assert_eq!(call.run_time(at(100)), Duration::from_secs(2));
    assert_eq!(call.waiting_time(at(100)), Some(Duration::from_secs(90)));
    hub.apply(source, vec![decided(LiveCallState::Running, 100, 2_000.0)]);
    let call = hub.call(&id).unwrap();
    assert_eq!(call.run_time(at(103)), Duration::from_secs(5));
    assert_eq!(call.waiting_time(at(103)), None);
    // A clock that was set back.
    assert_eq!(call.run_time(at(50)), Duration::from_secs(2));
}

#[test]
fn edited_arguments_are_kept_beside_those_at_the_start() {
    let hub = LiveCallHub::default();
    let source = hub.add_source(Arc::new(CountingSource::default()));
    let id = new_id();
    let edited = LiveCallEvent::Edited {
        id: id.clone(),
        arguments: "{\"path\": \"b\"}".into(),
        arguments_truncated: false,
    };
    hub.apply(source, vec![started(&id), edited]);
    let call = hub.call(&id).unwrap();
    assert_eq!(call.started.arguments, "{}");
    assert_eq!(call.edited.unwrap().arguments, "{\"path\": \"b\"}");
}
