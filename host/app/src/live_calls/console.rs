//! The socket of a console, to which the other mimir processes of the user connect.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use mimir_core::call_monitor::{LiveCallEvent, LiveProcess};
use mimir_core::call_switch::{SessionStops, StopNotice};
use mimir_core::{RequestId, ToolError};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::hub::{LiveCallHub, LiveCallSource};
use super::messages::{ConsoleOrder, MAX_LINE, PublisherMessage, to_line};
use super::socket_folder::{SocketFolder, other_user};
use crate::file_error::file_error;
use crate::user_dirs::UserDirs;

/// Maximum number of processes that report to a console.
const MAX_PROCESSES: usize = 256;

/// Maximum number of orders that wait until a process reads them.
const MAX_ORDERS: usize = 64;

/// An open console: receives the calls of other processes until it is dropped.
pub struct LiveConsole {
    folder: SocketFolder,
    name: String,
    listening: tokio::task::JoinHandle<()>,
}

impl LiveConsole {
    /// Opens a console. Other processes connect within a second.
    pub fn open(user_dirs: &UserDirs, hub: &LiveCallHub) -> Result<Self, ToolError> {
        let folder = SocketFolder::of_user(user_dirs).ok_or_else(|| {
            ToolError::unavailable("this platform has no folder for your settings")
                .with_remedies(["set MIMIR_CONFIG_DIR to a folder of your own".to_owned()])
        })?;
        let fault = |error: io::Error| file_error("create a socket in", folder.path(), &error);
        let (name, listener) = folder.listen().map_err(fault)?;
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| UnixListener::from_std(listener))
            .map_err(fault)?;
        let listening = tokio::spawn(accept(listener, hub.clone()));
        Ok(Self {
            folder,
            name,
            listening,
        })
    }
}

impl Drop for LiveConsole {
    fn drop(&mut self) {
        self.folder.remove(&self.name);
        self.listening.abort();
    }
}

/// Accepts connections until the future is dropped.
async fn accept(listener: UnixListener, hub: LiveCallHub) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < MAX_PROCESSES && is_own(&stream) => {
                    connections.spawn(serve(stream, hub.clone()));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the console cannot accept a connection");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

fn is_own(stream: &UnixStream) -> bool {
    let uid = rustix::process::getuid().as_raw();
    let is_own = stream.peer_cred().is_ok_and(|peer| peer.uid() == uid);
    if !is_own {
        tracing::warn!(error = %other_user(), "the console refused a connection");
    }
    is_own
}

/// A process that reports its calls to this console.
struct ConnectedProcess {
    process: LiveProcess,
    orders: mpsc::Sender<ConsoleOrder>,
}

impl LiveCallSource for ConnectedProcess {
    fn process(&self) -> LiveProcess {
        self.process.clone()
    }

    fn cancel(&self, id: &RequestId, by: &str) -> bool {
        let order = ConsoleOrder::Cancel {
            id: id.clone(),
            by: by.to_owned(),
        };
        self.orders.try_send(order).is_ok()
    }

    fn stop_session(&self, notice: &StopNotice) -> bool {
        let order = ConsoleOrder::Stop(notice.clone());
        self.orders.try_send(order).is_ok()
    }

    fn start_session(&self, session: &str) -> bool {
        let session = session.to_owned();
        self.orders
            .try_send(ConsoleOrder::Start { session })
            .is_ok()
    }
}

/// Receives the calls of one process until it disconnects.
async fn serve(stream: UnixStream, hub: LiveCallHub) {
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    let hello = read_message(&mut reader, &mut line).await;
    let Ok(PublisherMessage::Hello(process)) = hello else {
        return;
    };
    let process = LiveProcess {
        name: mimir_core::text::visible(mimir_core::text::prefix(&process.name, 32)),
        // From the system: the process could say anything.
        pid: pid
            .and_then(|pid| u32::try_from(pid).ok())
            .unwrap_or(process.pid),
    };
    let (orders, mut received_orders) = mpsc::channel(MAX_ORDERS);
    let source = ConnectedProcess {
        process: process.clone(),
        orders,
    };
    let source = SourceGuard {
        number: hub.add_source(Arc::new(source)),
        hub: &hub,
    };
    let write = async {
        while let Some(order) = received_orders.recv().await {
            if writer.write_all(&to_line(&order)).await.is_err() {
                return;
            }
        }
    };
    let read = async {
        loop {
            match read_message(&mut reader, &mut line).await {
                Ok(PublisherMessage::Events(events)) => {
                    hub.apply(source.number, clean(events, &process));
                }
                Ok(PublisherMessage::Dropped(count)) => hub.add_dropped(count),
                Ok(PublisherMessage::Stops(stops)) => {
                    hub.set_stops(source.number, clean_stops(stops));
                }
                Ok(PublisherMessage::Hello(_)) | Err(_) => return,
            }
        }
    };
    tokio::select! {
        () = write => {}
        () = read => {}
    }
}

/// Removes a process from the hub when it is dropped.
struct SourceGuard<'a> {
    number: u64,
    hub: &'a LiveCallHub,
}

impl Drop for SourceGuard<'_> {
    fn drop(&mut self) {
        self.hub.remove_source(self.number);
    }
}

/// Cuts and cleans the texts of events again, so that the console does not depend on the other process for it. A process
/// reports calls as its own only, and none as lost.
fn clean(events: Vec<LiveCallEvent>, process: &LiveProcess) -> Vec<LiveCallEvent> {
    let events = events.into_iter().map(|event| event.cleaned(process));
    events
        .filter(|event| !matches!(event, LiveCallEvent::Lost { .. }))
        .collect()
}

/// Cuts and cleans the orders to stop sessions that a process reports.
fn clean_stops(mut stops: Vec<StopNotice>) -> Vec<StopNotice> {
    stops.truncate(SessionStops::MAX);
    stops.into_iter().map(StopNotice::cleaned).collect()
}

/// Reads a message of a process. `line` is a buffer. Fails at the end of the connection, and if a line is too long or is
/// not a message.
async fn read_message(
    reader: &mut BufReader<OwnedReadHalf>,
    line: &mut Vec<u8>,
) -> io::Result<PublisherMessage> {
    line.clear();
    let mut bounded = reader.take(MAX_LINE as u64);
    bounded.read_until(b'\n', line).await?;
    if line.last() != Some(&b'\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(line)?)
}
