//! Roles of users: each role has a view of the server with the role's tools, rules and limits.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::catalogue::ToolCatalogue;

use super::{ToolServer, ToolServerState};

impl ToolServer {
    /// Returns the role of a user with these groups, or `None` if the settings have no role for the user.
    pub(crate) fn role_of(&self, groups: &[String]) -> Option<String> {
        let snapshot = self.0.pipeline.snapshot();
        snapshot.policy.role_of(groups).map(str::to_owned)
    }

    /// Returns the server for users in this role. All views share connections, limits of the whole server, and metrics.
    pub(crate) fn for_role(&self, role: Option<&str>) -> Self {
        let Some(role) = role else {
            return self.clone();
        };
        let mut views = self.0.roles.lock();
        if let Some(view) = views.get(role) {
            return view.clone();
        }
        let view = self.view_for_role(role);
        views.insert(role.to_owned(), view.clone());
        view
    }

    /// Notifies the clients of each role whose lists have changed.
    pub(super) fn refresh_roles(&self) {
        let views: Vec<Self> = self.0.roles.lock().values().cloned().collect();
        for view in views {
            view.catalogue();
        }
    }

    fn view_for_role(&self, role: &str) -> Self {
        let shared = &self.0;
        let name = role.to_owned();
        let pipeline = shared.pipeline.restricted(move |full| full.in_role(&name));
        let catalogue = ToolCatalogue::build(pipeline.snapshot(), shared.servers.as_deref());
        let view = Self(Arc::new(ToolServerState {
            pipeline,
            approval: shared.approval.clone(),
            on_refusal: Arc::clone(&shared.on_refusal),
            // Calls and tasks belong to a user, who has one role.
            pending_calls: Default::default(),
            tasks: Default::default(),
            catalogue: Mutex::new(Arc::new(catalogue)),
            revision: watch::Sender::default(),
            replaced: shared.replaced.clone(),
            servers: shared.servers.clone(),
            skills: shared.skills.clone(),
            described: shared.described.clone(),
            active_calls: shared.active_calls.clone(),
            close_signal: shared.close_signal.clone(),
            metrics: Arc::clone(&shared.metrics),
            replicas: shared.replicas.clone(),
            roles: Mutex::default(),
        }));
        let catalogue = view.build_catalogue(view.0.pipeline.snapshot());
        *view.0.catalogue.lock() = Arc::new(catalogue);
        view
    }
}
