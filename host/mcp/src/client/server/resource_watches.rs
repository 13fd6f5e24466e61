//! Watched resources of a server: the first watcher of a resource subscribes, and the last one unsubscribes.

use std::sync::Arc;

use mimir_core::ToolError;

use super::{RemoteServer, ServerConnection};

impl RemoteServer {
    /// Adds or removes a watcher of a resource. Subscribes at the server for the first, and unsubscribes for the last.
    pub(in crate::client) async fn watch(
        self: &Arc<Self>,
        uri: &str,
        more: bool,
    ) -> Result<(), ToolError> {
        let (first, last) = {
            let mut watched = self.watched.lock();
            let count = watched.entry(uri.to_owned()).or_default();
            *count = if more {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
            let left = *count;
            if left == 0 {
                watched.remove(uri);
            }
            (more && left == 1, !more && left == 0)
        };
        if !first && !last {
            return Ok(());
        }
        let result = match self.connect().await {
            Ok(connection) => connection.watch_resource(uri, more, self.spec.start).await,
            Err(error) => Err(error),
        };
        if result.is_err() && more {
            let mut watched = self.watched.lock();
            watched.remove(uri);
        }
        result
    }

    /// Subscribes to all watched resources after a restart of the server.
    pub(super) async fn watch_again(&self, connection: &ServerConnection) {
        let watched: Vec<String> = {
            let watched = self.watched.lock();
            watched.keys().cloned().collect()
        };
        for uri in watched {
            if let Err(error) = connection.watch_resource(&uri, true, self.spec.start).await {
                tracing::info!(server = self.spec.name, %error, "stopped watching a resource");
            }
        }
    }
}
