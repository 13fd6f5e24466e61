//! News of a server that speaks without a handshake: it says what is new only on a subscription.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::{Peer, RoleClient};
use tokio::time::timeout;

use super::ears::Ears;

/// How long a server may take to say that it has heard of a subscription.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a subscription is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum About {
    /// All lists.
    Lists,
    /// One resource.
    Resource(String),
}

impl About {
    fn filter(&self) -> SubscriptionFilter {
        let all = SubscriptionFilter::builder();
        match self {
            Self::Lists => all
                .tools_list_changed()
                .prompts_list_changed()
                .resources_list_changed()
                .build(),
            Self::Resource(uri) => all.resource_subscriptions([uri.clone()]).build(),
        }
    }
}

/// Hears news until the server has no more.
pub(super) async fn hear(peer: Peer<RoleClient>, about: About, ears: Arc<Ears>) {
    let begun = timeout(PATIENCE, peer.listen(about.filter())).await;
    let Ok(Ok(mut subscription)) = begun else {
        tracing::info!("a server without a handshake says nothing of what is new");
        return;
    };
    loop {
        match subscription.next().await {
            Ok(Some(ServerNotification::ResourceUpdatedNotification(updated))) => {
                ears.updated(updated.params.uri);
            }
            Ok(Some(_)) => ears.changes(),
            Ok(None) | Err(_) => return,
        }
    }
}
