//! A proxy between a process and NATS that cuts single network connections of the process.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::nats_server::NatsServer;

/// A network connection of a process, in the order in which it makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    Main,
    Calls,
}

#[derive(Default)]
struct ProxyState {
    open: HashMap<LinkKind, JoinHandle<()>>,
    /// The connection that is cut, with whether it may be made again.
    cut: Option<(LinkKind, bool)>,
}

/// A proxy of one process.
pub struct LinkProxy {
    port: u16,
    state: Arc<Mutex<ProxyState>>,
    accept: JoinHandle<()>,
}

impl Drop for LinkProxy {
    fn drop(&mut self) {
        self.accept.abort();
        let open = std::mem::take(&mut self.state.lock().open);
        open.values().for_each(JoinHandle::abort);
    }
}

impl LinkProxy {
    pub async fn start(server: &NatsServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, target) = (Arc::<Mutex<ProxyState>>::default(), server.url());
        let accept = tokio::spawn(accept(listener, target, Arc::clone(&state)));
        Self {
            port,
            state,
            accept,
        }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends a connection, and refuses it until [`Self::restore`].
    pub fn cut(&self, kind: LinkKind) {
        let mut state = self.state.lock();
        state.cut = Some((kind, false));
        state.open.remove(&kind).unwrap().abort();
    }

    /// Accepts the cut connection again.
    pub fn restore(&self) {
        if let Some((_, may_return)) = &mut self.state.lock().cut {
            *may_return = true;
        }
    }
}

async fn accept(listener: TcpListener, target: String, state: Arc<Mutex<ProxyState>>) {
    let target = target.trim_start_matches("nats://").to_owned();
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let kind = {
            let mut state = state.lock();
            match state.cut {
                // Dropping the stream refuses it.
                Some((_, false)) => continue,
                Some((kind, true)) => {
                    state.cut = None;
                    kind
                }
                None if state.open.is_empty() => LinkKind::Main,
                None => LinkKind::Calls,
            }
        };
        let target = target.clone();
        let copy = tokio::spawn(async move {
            let mut server = TcpStream::connect(target).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
        state.lock().open.insert(kind, copy);
    }
}
