//! Notifications of list changes and resource updates.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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
use super::resource_requests::fault;
use super::session::lock;

/// Maximum number of resources that a session watches.
const MAX_WATCHED: usize = 256;

/// The resources that a session watches, by the URIs that the client knows.
#[derive(Default)]
pub(super) struct WatchedResources {
    entries: HashMap<String, RemoteEntry>,
    /// Their URIs: updates of other URIs belong to other sessions.
    uris: Arc<Mutex<HashSet<String>>>,
    notifier: Option<AbortHandle>,
}

impl Drop for WatchedResources {
    fn drop(&mut self) {
        if let Some(teller) = self.notifier.take() {
            teller.abort();
        }
        let places = std::mem::take(&mut self.entries);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if places.is_empty() {
            return;
        }
        runtime.spawn(async move {
            for place in places.into_values() {
                // An error means that the server is gone, and the watch with it.
                let _ = place.unwatch().await;
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
        let place = self.watch(&uri, context).await?;
        let mut watched = lock(&self.watched);
        lock(&watched.uris).insert(uri.clone());
        watched.entries.insert(uri, place);
        if watched.notifier.is_none()
            && let Some(servers) = self.server.servers()
        {
            let news = (Arc::clone(servers), servers.subscribe_updates());
            let telling = tell(news, Arc::clone(&watched.uris), context.peer.clone());
            watched.notifier = Some(tokio::spawn(telling).abort_handle());
        }
        Ok(())
    }

    /// Stops watching a resource.
    pub(super) async fn unsubscribe_from(&self, uri: &str) -> Result<(), ErrorData> {
        let place = {
            let mut watched = lock(&self.watched);
            lock(&watched.uris).remove(uri);
            watched.entries.remove(uri)
        };
        match place {
            Some(place) => place.unwatch().await.map_err(|error| fault(&error)),
            None => Ok(()),
        }
    }

    /// Subscribes to a resource at its server, by a tool call, since the URI is sent to the server.
    async fn watch(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<RemoteEntry, ErrorData> {
        let place = self.find_resource(uri)?;
        self.check_readable(&place)?;
        if !place.is_watchable() {
            let message = "the server of this resource does not support update notifications";
            return Err(ErrorData::invalid_request(message, None));
        }
        let watching = self.run_at_once(&place.tool, place.watch_arguments(), context);
        let outcome = watching.await?;
        outcome.result().map_err(fault)?;
        Ok(place)
    }

    /// Serves a subscription until it ends.
    pub(super) async fn serve_subscription(
        &self,
        subscription: &SubscriptionContext,
    ) -> Result<(), ErrorData> {
        let mut changes = self.server.changes();
        let mut known = *changes.borrow_and_update();
        let mut watched = WatchedResources::default();
        let mut news = None;
        let accepted = subscription.accepted();
        for uri in accepted.resource_subscriptions.iter().flatten() {
            // The filter was accepted before the server was asked; if it declines, there are no updates.
            if let Ok(place) = self.watch(uri, subscription.request_context()).await {
                watched.entries.insert(uri.clone(), place);
            }
        }
        if let Some(servers) = self.server.servers()
            && !watched.entries.is_empty()
        {
            news = Some((Arc::clone(servers), servers.subscribe_updates()));
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
                    announce(sink, accepted, before, now).await
                }
                updated = next(&mut news) => match updated {
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
    pub(super) fn supported_filter(&self, wanted: &SubscriptionFilter) -> SubscriptionFilter {
        let mut all = SubscriptionFilter::builder().tools_list_changed();
        let Some(servers) = self
            .server
            .servers()
            .filter(|servers| servers.lists_entries())
        else {
            return all.build();
        };
        let uris = wanted.resource_subscriptions.iter().flatten();
        let uris = uris.take(MAX_WATCHED).filter(|uri| {
            let place = servers.resource(uri);
            place.is_some_and(|place| place.is_watchable() && self.check_readable(&place).is_ok())
        });
        let uris: Vec<String> = uris.cloned().collect();
        all = all.prompts_list_changed().resources_list_changed();
        match uris.is_empty() {
            true => all.build(),
            false => all.resource_subscriptions(uris).build(),
        }
    }
}

/// Notifies the client of changed lists. Returns false if that failed.
async fn announce(
    sink: &SubscriptionSink,
    accepted: &SubscriptionFilter,
    before: ListRevision,
    now: ListRevision,
) -> bool {
    let wants = |wanted: Option<bool>| wanted == Some(true);
    let mut sent = true;
    if before.tools != now.tools && wants(accepted.tools_list_changed) {
        sent &= sink.notify_tool_list_changed().await.is_ok();
    }
    if before.prompts != now.prompts && wants(accepted.prompts_list_changed) {
        sent &= sink.notify_prompt_list_changed().await.is_ok();
    }
    if before.resources != now.resources && wants(accepted.resources_list_changed) {
        sent &= sink.notify_resource_list_changed().await.is_ok();
    }
    sent
}

/// Returns the next updated resource; never completes if none is watched.
async fn next(news: &mut Option<(Arc<McpServers>, Receiver<ResourceUpdate>)>) -> Option<String> {
    match news {
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
async fn tell(
    news: (Arc<McpServers>, Receiver<ResourceUpdate>),
    uris: Arc<Mutex<HashSet<String>>>,
    peer: Peer<RoleServer>,
) {
    let mut news = Some(news);
    loop {
        let Some(uri) = next(&mut news).await else {
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
