//! Subscriptions at servers of the newer protocol generation, which send notifications only for a subscription.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::{Peer, RoleClient};
use tokio::time::timeout;

use super::listener::ServerListener;

/// Time limit within which a server has to acknowledge a subscription.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The topic of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SubscriptionTopic {
    /// All lists.
    Lists,
    /// One resource.
    Resource(String),
}

impl SubscriptionTopic {
    fn filter(&self) -> SubscriptionFilter {
        let builder = SubscriptionFilter::builder();
        match self {
            Self::Lists => builder
                .tools_list_changed()
                .prompts_list_changed()
                .resources_list_changed()
                .build(),
            Self::Resource(uri) => builder.resource_subscriptions([uri.clone()]).build(),
        }
    }
}

/// Receives notifications until the server ends the subscription.
pub(super) async fn listen(
    peer: Peer<RoleClient>,
    topic: SubscriptionTopic,
    listener: Arc<ServerListener>,
) {
    let started = timeout(ACKNOWLEDGE_TIMEOUT, peer.listen(topic.filter())).await;
    let Ok(Ok(mut subscription)) = started else {
        tracing::info!("a server without a handshake does not accept subscriptions");
        return;
    };
    loop {
        match subscription.next().await {
            Ok(Some(ServerNotification::ResourceUpdatedNotification(updated))) => {
                listener.handle_resource_update(updated.params.uri);
            }
            Ok(Some(_)) => listener.mark_changed(),
            Ok(None) | Err(_) => return,
        }
    }
}
