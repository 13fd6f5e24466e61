//! Sends the reports of a pipeline to the open consoles of this user.
//!
//! One thread for each pipeline looks for consoles once a second. While none is open, a call only loads a flag. While
//! one is, calls add their reports to a queue, and the thread masks and sends them at intervals.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mimir_core::RequestId;
use mimir_core::call_monitor::{CallMonitor, CallReport, LiveCallEvent, LiveProcess, RunningCalls};
use mimir_core::call_switch::StopNotice;
use parking_lot::{Condvar, Mutex};

use super::hub::{LiveCallHub, LiveCallSource};
use super::messages::{ConsoleOrder, MAX_LINE, PublisherMessage, event_lines, to_line};
use super::report_queue::ReportQueue;
use super::socket_folder::SocketFolder;
use crate::user_dirs::UserDirs;

/// Interval at which a process looks for consoles.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which reports are sent while a console is open.
const SEND_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of reports that are sent per interval, so that masking them never takes much of a processor. This is
/// 5,000 a second.
const REPORTS_PER_INTERVAL: usize = 100;

/// Size of unsent data from which on further events for a slow console are dropped, in bytes.
const MAX_UNSENT: usize = 4 << 20;

/// Time after which a console that reads nothing is disconnected.
const STALLED: Duration = Duration::from_secs(30);

/// The publishers of this process whose threads run.
static ACTIVE: Mutex<Vec<Arc<PublisherState>>> = Mutex::new(Vec::new());

/// The name of this process for people.
static PROCESS_NAME: OnceLock<&'static str> = OnceLock::new();

/// Sets the name of this process, such as `serve`. Only the first call has an effect.
pub fn set_process_name(name: &'static str) {
    let _ = PROCESS_NAME.set(name);
}

/// Sends the reports that wait, for at most this time. Call it before the process ends.
pub fn flush(timeout: Duration) {
    let until = Instant::now() + timeout;
    let active = ACTIVE.lock().clone();
    for state in active {
        let mut work = state.work.lock();
        work.is_flushing = true;
        state.wake.notify_all();
        while state.is_watched() && !(work.queue.is_empty() && work.is_idle) {
            if state.done.wait_until(&mut work, until).timed_out() {
                break;
            }
        }
    }
}

/// Reports the calls of a pipeline to the open consoles of this user. The thread ends when it is dropped.
pub struct LiveCallPublisher(Arc<PublisherState>);

struct PublisherState {
    is_watched: AtomicBool,
    /// True while new calls are not reported, because too many reports wait.
    is_crowded: AtomicBool,
    /// Number of calls that were not reported for that reason.
    skipped: AtomicU64,
    work: Mutex<PublisherWork>,
    /// Wakes the thread.
    wake: Condvar,
    /// Reports that the thread has sent everything.
    done: Condvar,
}

#[derive(Default)]
struct PublisherWork {
    queue: ReportQueue,
    /// True while the thread sends nothing.
    is_idle: bool,
    is_flushing: bool,
    has_ended: bool,
}

impl PublisherState {
    fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Notes whether the queue takes new calls.
    fn note_queue(&self, work: &PublisherWork) {
        let is_crowded = work.queue.is_crowded();
        // Seldom written, so that calls of other threads can read it fast.
        if self.is_crowded.load(Ordering::Relaxed) != is_crowded {
            self.is_crowded.store(is_crowded, Ordering::Relaxed);
        }
    }
}

impl CallMonitor for LiveCallPublisher {
    fn is_watched(&self) -> bool {
        self.0.is_watched()
    }

    fn takes_call(&self) -> bool {
        if !self.0.is_watched() {
            return false;
        }
        let is_crowded = self.0.is_crowded.load(Ordering::Relaxed);
        if is_crowded {
            self.0.skipped.fetch_add(1, Ordering::Relaxed);
        }
        !is_crowded
    }

    fn report(&self, report: CallReport) {
        let mut work = self.0.work.lock();
        work.queue.push(report);
        self.0.note_queue(&work);
    }
}

impl Drop for LiveCallPublisher {
    fn drop(&mut self) {
        self.0.work.lock().has_ended = true;
        self.0.wake.notify_all();
    }
}

impl LiveCallPublisher {
    /// Starts to look for consoles. Connects to those that are open before it returns. `hub` is the console of this
    /// process, if it has one.
    pub fn start(
        user_dirs: &UserDirs,
        calls: Arc<RunningCalls>,
        hub: Option<LiveCallHub>,
    ) -> io::Result<Self> {
        let state = Arc::new(PublisherState {
            is_watched: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            skipped: AtomicU64::new(0),
            work: Mutex::default(),
            wake: Condvar::new(),
            done: Condvar::new(),
        });
        let process = LiveProcess {
            name: (*PROCESS_NAME.get().unwrap_or(&"library")).to_owned(),
            pid: std::process::id(),
        };
        let mut thread = PublisherThread {
            own: hub.map(|hub| OwnConsole::new(hub, process.clone(), &calls)),
            folder: SocketFolder::of_user(user_dirs),
            consoles: Vec::new(),
            known_stops: 0,
            state: Arc::clone(&state),
            calls,
            process,
        };
        thread.look_for_consoles();
        ACTIVE.lock().push(Arc::clone(&state));
        let started = std::thread::Builder::new()
            .name("live-calls".to_owned())
            .spawn(move || thread.run());
        if let Err(error) = started {
            remove_active(&state);
            return Err(error);
        }
        Ok(Self(state))
    }
}

fn remove_active(state: &Arc<PublisherState>) {
    ACTIVE.lock().retain(|other| !Arc::ptr_eq(other, state));
}

/// The console of this process.
struct OwnConsole {
    hub: LiveCallHub,
    source: u64,
}

/// The calls of this process, for its own console.
struct OwnCalls {
    process: LiveProcess,
    calls: Arc<RunningCalls>,
}

impl LiveCallSource for OwnCalls {
    fn process(&self) -> LiveProcess {
        self.process.clone()
    }

    fn cancel(&self, id: &RequestId, by: &str) -> bool {
        self.calls.cancel(id, by)
    }

    fn stop_session(&self, notice: &StopNotice) -> bool {
        self.calls.stops().stop(notice.clone().cleaned())
    }

    fn start_session(&self, session: &str) -> bool {
        self.calls.stops().start(session);
        true
    }
}

impl OwnConsole {
    fn new(hub: LiveCallHub, process: LiveProcess, calls: &Arc<RunningCalls>) -> Self {
        let calls = Arc::clone(calls);
        let source = hub.add_source(Arc::new(OwnCalls { process, calls }));
        Self { hub, source }
    }
}

/// A console of another process.
struct ConnectedConsole {
    /// The name of its socket.
    name: String,
    stream: UnixStream,
    unsent: Vec<u8>,
    received: Vec<u8>,
    /// The number of events that were dropped because the console reads too slowly.
    dropped: u64,
    last_progress: Instant,
}

impl ConnectedConsole {
    fn new(name: String, stream: UnixStream, process: &LiveProcess) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            name,
            stream,
            unsent: to_line(&PublisherMessage::Hello(process.clone())),
            received: Vec::new(),
            dropped: 0,
            last_progress: Instant::now(),
        })
    }

    /// Adds a line with events, or drops it if the console reads too slowly.
    fn push(&mut self, line: &[u8], events: usize) {
        if self.unsent.len() + line.len() > MAX_UNSENT {
            self.dropped = self.dropped.saturating_add(events as u64);
        } else {
            self.unsent.extend_from_slice(line);
        }
    }

    /// Sends what the socket accepts without blocking. Fails if the console is gone.
    fn send(&mut self) -> io::Result<()> {
        if self.dropped > 0 && self.unsent.len() < MAX_UNSENT / 2 {
            let dropped = std::mem::take(&mut self.dropped);
            self.unsent
                .extend(to_line(&PublisherMessage::Dropped(dropped)));
        }
        let mut sent = 0;
        let result = loop {
            if sent == self.unsent.len() {
                break Ok(());
            }
            match self.stream.write(&self.unsent[sent..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.unsent.drain(..sent);
        if sent > 0 || self.unsent.is_empty() {
            self.last_progress = Instant::now();
        } else if self.last_progress.elapsed() > STALLED {
            return Err(ErrorKind::TimedOut.into());
        }
        result
    }

    /// Receives messages without blocking. Fails if the console is gone, or has sent something else.
    fn receive(&mut self, calls: &RunningCalls) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let message = serde_json::from_slice(&self.received[..end])?;
                self.received.drain(..=end);
                match message {
                    ConsoleOrder::Cancel { id, by } => {
                        calls.cancel(&id, mimir_core::text::prefix(&by, 200));
                    }
                    ConsoleOrder::Stop(notice) => {
                        calls.stops().stop(notice.cleaned());
                    }
                    ConsoleOrder::Start { session } => {
                        calls.stops().start(&session);
                    }
                }
            }
            if self.received.len() > MAX_LINE {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }
}

struct PublisherThread {
    state: Arc<PublisherState>,
    calls: Arc<RunningCalls>,
    process: LiveProcess,
    folder: Option<SocketFolder>,
    own: Option<OwnConsole>,
    consoles: Vec<ConnectedConsole>,
    /// The version of the orders to stop sessions that consoles know.
    known_stops: u64,
}

impl PublisherThread {
    fn run(mut self) {
        let mut last_look = Instant::now();
        loop {
            let has_consoles = self.own.is_some() || !self.consoles.is_empty();
            let interval = if has_consoles {
                SEND_INTERVAL
            } else {
                LOOK_INTERVAL
            };
            let (reports, dropped, has_ended) = {
                let mut work = self.state.work.lock();
                work.is_idle = true;
                if !work.has_ended && !work.is_flushing {
                    self.state.wake.wait_for(&mut work, interval);
                }
                let max = if work.has_ended || work.is_flushing {
                    usize::MAX
                } else {
                    REPORTS_PER_INTERVAL
                };
                work.is_idle = false;
                work.is_flushing = false;
                let reports = work.queue.take(max);
                self.state.note_queue(&work);
                let skipped = self.state.skipped.swap(0, Ordering::Relaxed);
                let dropped = work.queue.take_dropped().saturating_add(skipped);
                (reports, dropped, work.has_ended)
            };
            self.send(reports, dropped);
            self.state.work.lock().is_idle = true;
            self.state.done.notify_all();
            if has_ended {
                break;
            }
            if last_look.elapsed() >= LOOK_INTERVAL {
                last_look = Instant::now();
                self.look_for_consoles();
            }
        }
        if let Some(own) = &self.own {
            own.hub.remove_source(own.source);
        }
        remove_active(&self.state);
    }

    /// Connects to consoles that were opened since the last look, and tells them which calls run.
    fn look_for_consoles(&mut self) {
        let names = self.folder.as_ref().map(SocketFolder::sockets);
        let names = names.unwrap_or_default();
        let is_new = |name: &String| !self.consoles.iter().any(|it| it.name == *name);
        let new: Vec<_> = names.into_iter().filter(is_new).collect();
        let mut connected: Vec<_> = new
            .into_iter()
            .filter_map(|name| {
                let stream = self.folder.as_ref()?.connect(&name).ok()?;
                ConnectedConsole::new(name, stream, &self.process).ok()
            })
            .collect();
        let is_first = !self.state.is_watched();
        self.state.is_watched.store(
            self.own.is_some() || !self.consoles.is_empty() || !connected.is_empty(),
            Ordering::Relaxed,
        );
        // After the flag: a call that starts in between is reported twice, which a console expects, and not never.
        if !connected.is_empty() || (is_first && self.own.is_some()) {
            let events = self.render(self.calls.reports());
            for (line, count) in event_lines(&events) {
                for console in &mut connected {
                    console.push(&line, count);
                }
            }
            let stops = self.calls.stops().notices();
            if !stops.is_empty() {
                let line = to_line(&PublisherMessage::Stops(stops));
                for console in &mut connected {
                    console.unsent.extend_from_slice(&line);
                }
            }
        }
        self.consoles.append(&mut connected);
    }

    fn render(&self, reports: Vec<CallReport>) -> Vec<LiveCallEvent> {
        let reports = reports.into_iter();
        reports.map(|it| it.into_event(&self.process)).collect()
    }

    /// Sends the orders to stop sessions to all consoles, if they have changed.
    fn send_stops(&mut self) {
        // Read before the orders: a change in between is sent twice, and not never.
        let version = self.calls.stops().version();
        if version == self.known_stops {
            return;
        }
        self.known_stops = version;
        let stops = self.calls.stops().notices();
        let line = to_line(&PublisherMessage::Stops(stops.clone()));
        for console in &mut self.consoles {
            console.unsent.extend_from_slice(&line);
        }
        if let Some(own) = &self.own {
            own.hub.set_stops(own.source, stops);
        }
    }

    /// Sends reports to all consoles, and carries out their orders.
    fn send(&mut self, reports: Vec<CallReport>, dropped: u64) {
        if self.own.is_none() && self.consoles.is_empty() {
            return;
        }
        let events = self.render(reports);
        if !self.consoles.is_empty() {
            for (line, count) in event_lines(&events) {
                for console in &mut self.consoles {
                    console.push(&line, count);
                }
            }
            let calls = &self.calls;
            self.consoles.retain_mut(|console| {
                console.dropped = console.dropped.saturating_add(dropped);
                console.send().and_then(|()| console.receive(calls)).is_ok()
            });
        }
        if let Some(own) = &self.own {
            if !events.is_empty() {
                own.hub.apply(own.source, events);
            }
            own.hub.add_dropped(dropped);
        }
        self.send_stops();
        if self.own.is_none() && self.consoles.is_empty() {
            self.state.is_watched.store(false, Ordering::Relaxed);
            let mut work = self.state.work.lock();
            work.queue.clear();
            self.state.note_queue(&work);
        }
    }
}
