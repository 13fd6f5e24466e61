//! Notifications of list changes and resource updates.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mimir_core::ToolError;
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RequestContext, SubscriptionContext, SubscriptionSink};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

use crate::catalogue::ListRevision;
use crate::client::{McpServers, RemoteEntry, ResourceUpdate};

use super::ClientSession;
use super::resource_requests::protocol_error;
use super::session::lock;

/// Maximum number of resources that a session watches.
const MAX_WATCHED: usize = 256;

/// The resources that a session watches.
#[derive(Default)]
pub(super) struct WatchedResources {
    entries: HashMap<String, WatchedEntry>,
    /// URIs of the resources, as the client knows them.
    uris: Arc<Mutex<HashSet<String>>>,
    notifier: Option<AbortHandle>,
}

/// A watched resource, and the user whose connection watches it.
pub(super) struct WatchedEntry {
    entry: RemoteEntry,
    user: Option<Arc<str>>,
}

impl WatchedEntry {
    async fn unwatch(&self) -> Result<(), ToolError> {
        self.entry.unwatch(self.user.as_deref()).await
    }
}

impl Drop for WatchedResources {
    fn drop(&mut self) {
        if let Some(notifier) = self.notifier.take() {
            notifier.abort();
        }
        let entries = std::mem::take(&mut self.entries);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if entries.is_empty() {
            return;
        }
        runtime.spawn(async move {
            for entry in entries.into_values() {
                // An error means that the server has ended, and the subscription with it.
                let _ = entry.unwatch().await;
            }
        });
    }
}

impl ClientSession {
    /// Watches a resource.
    pub(super) async fn subscribe_to(
        &self,
        uri: String,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        {
            let watched = lock(&self.watched);
            if watched.entries.contains_key(&uri) {
                return Ok(());
            }
            if watched.entries.len() >= MAX_WATCHED {
                let message =
                    format!("too many watched resources: the limit is {MAX_WATCHED} per session");
                return Err(ErrorData::invalid_request(message, None));
            }
        }
        let entry = self.watch_resource(&uri, context).await?;
        let mut watched = lock(&self.watched);
        lock(&watched.uris).insert(uri.clone());
        watched.entries.insert(uri, entry);
        if watched.notifier.is_none()
            && let Some(servers) = self.server.servers()
        {
            let updates = (Arc::clone(servers), servers.subscribe_updates());
            let notifying =
                notify_updates(updates, Arc::clone(&watched.uris), context.peer.clone());
            watched.notifier = Some(tokio::spawn(notifying).abort_handle());
        }
        Ok(())
    }

    /// Stops watching a resource.
    pub(super) async fn unsubscribe_from(&self, uri: &str) -> Result<(), ErrorData> {
        let entry = {
            let mut watched = lock(&self.watched);
            lock(&watched.uris).remove(uri);
            watched.entries.remove(uri)
        };
        match entry {
            Some(entry) => entry
                .unwatch()
                .await
                .map_err(|error| protocol_error(&error)),
            None => Ok(()),
        }
    }

    /// Subscribes to a resource at its server by a tool call, because the URI is sent to the server.
    async fn watch_resource(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<WatchedEntry, ErrorData> {
        let entry = self.find_resource(uri)?;
        self.check_readable(&entry)?;
        if !entry.is_watchable() {
            let message = "the server of this resource does not support update notifications";
            return Err(ErrorData::invalid_request(message, None));
        }
        let watching = self.run_without_questions(
            "resources/subscribe",
            &entry.tool,
            entry.watch_arguments(),
            context,
        );
        let outcome = watching.await?;
        outcome.result().map_err(protocol_error)?;
        let user = Self::caller(context);
        Ok(WatchedEntry { entry, user })
    }

    /// Serves a subscription until it ends.
    pub(super) async fn serve_subscription(
        &self,
        subscription: &SubscriptionContext,
    ) -> Result<(), ErrorData> {
        Self::expect_no_response(subscription.request_context());
        let mut changes = self.server.changes();
        let mut known = *changes.borrow_and_update();
        let mut watched = WatchedResources::default();
        let mut updates = None;
        let accepted = subscription.accepted();
        for uri in accepted.resource_subscriptions.iter().flatten() {
            // The filter has been accepted already, so a failure only means that no updates arrive.
            if let Ok(entry) = self
                .watch_resource(uri, subscription.request_context())
                .await
            {
                watched.entries.insert(uri.clone(), entry);
            }
        }
        if let Some(servers) = self.server.servers()
            && !watched.entries.is_empty()
        {
            updates = Some((Arc::clone(servers), servers.subscribe_updates()));
        }
        let sink = subscription.sink();
        loop {
            let sent = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                () = self.closed() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let now = *changes.borrow_and_update();
                    let before = std::mem::replace(&mut known, now);
                    notify_changes(sink, accepted, before, now).await
                }
                updated = next_update(&mut updates) => match updated {
                    Some(uri) if watched.entries.contains_key(&uri) => {
                        sink.notify_resource_updated(uri).await.is_ok()
                    }
                    _ => true,
                },
            };
            if !sent {
                return Ok(());
            }
        }
    }

    /// Returns the part of a subscription that is supported.
    pub(super) fn supported_filter(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::builder().tools_list_changed();
        let Some(servers) = self
            .server
            .servers()
            .filter(|servers| servers.lists_entries())
        else {
            return filter.build();
        };
        let uris = requested.resource_subscriptions.iter().flatten();
        let uris = uris.take(MAX_WATCHED).filter(|uri| {
            let entry = servers.find_resource(uri);
            entry.is_some_and(|entry| entry.is_watchable() && self.check_readable(&entry).is_ok())
        });
        let uris: Vec<String> = uris.cloned().collect();
        filter = filter.prompts_list_changed().resources_list_changed();
        if uris.is_empty() {
            filter.build()
        } else {
            filter.resource_subscriptions(uris).build()
        }
    }
}

/// Notifies the client of changed lists. Returns false if the client is unreachable.
async fn notify_changes(
    sink: &SubscriptionSink,
    accepted: &SubscriptionFilter,
    before: ListRevision,
    now: ListRevision,
) -> bool {
    let is_requested = |flag: Option<bool>| flag == Some(true);
    let mut sent = true;
    if before.tools != now.tools && is_requested(accepted.tools_list_changed) {
        sent &= sink.notify_tool_list_changed().await.is_ok();
    }
    if before.prompts != now.prompts && is_requested(accepted.prompts_list_changed) {
        sent &= sink.notify_prompt_list_changed().await.is_ok();
    }
    if before.resources != now.resources && is_requested(accepted.resources_list_changed) {
        sent &= sink.notify_resource_list_changed().await.is_ok();
    }
    sent
}

/// Waits for the next update. Returns the URI that clients know, or `None` if there is none or updates were lost. Never
/// completes without a receiver.
async fn next_update(
    updates: &mut Option<(Arc<McpServers>, Receiver<ResourceUpdate>)>,
) -> Option<String> {
    match updates {
        Some((servers, receiver)) => match receiver.recv().await {
            Ok(updated) => servers.uri_of(&updated),
            // Updates beyond the capacity of the channel are lost.
            Err(RecvError::Lagged(_)) => None,
            Err(RecvError::Closed) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// Notifies a client of updates of the resources that it watches.
async fn notify_updates(
    updates: (Arc<McpServers>, Receiver<ResourceUpdate>),
    uris: Arc<Mutex<HashSet<String>>>,
    peer: Peer<RoleServer>,
) {
    let mut updates = Some(updates);
    loop {
        let Some(uri) = next_update(&mut updates).await else {
            continue;
        };
        if !lock(&uris).contains(&uri) {
            continue;
        }
        let notified = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri));
        if notified.await.is_err() {
            return;
        }
    }
}
