//! `mimir stop` and `mimir start`.

use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::call_switch::StopNotice;
use mimir_core::text::{prefix, visible};
use serde_json::json;

use crate::args::{ClusterOptions, GlobalOptions, StartArgs, StopArgs};
use crate::exit::{CommandFailure, CommandResult};
use crate::output::note;
use crate::terminal;
use mimir::call_switch::{ClusterStop, StopFile};
use mimir::cluster::{self, state_error};
use mimir::process_identity::{machine_name, user_name};
use mimir::setup::{self, HostSetup};

use super::cluster_record::record_in_cluster;

/// Maximum length of a reason in bytes.
const REASON_MAX: usize = 300;

/// The order to refuse all calls: of a cluster, or of the user on this machine.
enum StopOrder {
    Cluster {
        order: ClusterStop,
        connection: mimir_cluster::ClusterConnection,
    },
    Machine(StopFile),
}

impl StopOrder {
    async fn find(options: &ClusterOptions) -> CommandResult<Self> {
        if let Some(connection) = options.connection()? {
            let connection = cluster::connect(connection).await?;
            let state = mimir_cluster::NatsState::new(connection.clone());
            let order = ClusterStop::new(std::sync::Arc::new(state));
            return Ok(Self::Cluster { order, connection });
        }
        let file = StopFile::of_user(&setup::find_user_dirs());
        let file = file.ok_or_else(|| {
            ToolError::unavailable(
                "this platform has no folder for your own settings, where the order is stored; set MIMIR_CONFIG_DIR",
            )
        })?;
        Ok(Self::Machine(file))
    }

    /// Returns the calls that the order is about.
    fn subject(&self) -> String {
        match self {
            Self::Cluster { connection, .. } => {
                format!("all calls of the cluster at {}", connection.servers())
            }
            Self::Machine(_) => "all your calls on this machine".to_owned(),
        }
    }

    async fn read(&self) -> CommandResult<Option<StopNotice>> {
        Ok(match self {
            Self::Cluster { order, .. } => {
                order.read().await.map_err(|error| state_error(&error))?
            }
            Self::Machine(file) => file.read(),
        })
    }

    /// Gives the order. Returns the one that is in force.
    async fn stop(&self, notice: &StopNotice) -> CommandResult<StopNotice> {
        Ok(match self {
            Self::Cluster { order, .. } => {
                let stopped = order.stop(notice).await;
                stopped.map_err(|error| state_error(&error))?
            }
            Self::Machine(file) => file.stop(notice)?,
        })
    }

    async fn start(&self) -> CommandResult<()> {
        match self {
            Self::Cluster { order, .. } => {
                let started = order.start().await;
                started.map_err(|error| state_error(&error))?;
            }
            Self::Machine(file) => {
                file.start()?;
            }
        }
        Ok(())
    }

    /// Records the order in the audit log: that of the cluster, or that of the workspace, if it has one. The order is in
    /// force already, so a failure only causes a warning.
    async fn record(&self, globals: &GlobalOptions, detail: &str) {
        let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now())
            .with_subject("calls")
            .with_detail(detail);
        match self {
            Self::Cluster { connection, .. } => record_in_cluster(connection, &event).await,
            Self::Machine(_) => {
                let setup = HostSetup::find(globals.workspace.as_deref());
                if let Some(setup) = setup.ok().filter(|setup| setup.workspace.has_mimir_dir()) {
                    setup.record_event(&event);
                }
            }
        }
    }
}

/// Refuses all calls from now on.
pub async fn stop(globals: &GlobalOptions, args: &StopArgs) -> CommandResult {
    let order = StopOrder::find(&args.cluster).await?;
    let GivenOrder { notice, is_earlier } =
        give_order(globals, &order, args.reason.as_deref()).await?;
    let (subject, printer) = (order.subject(), globals.printer());
    let value = json!({ "stopped": notice });
    if is_earlier {
        let described = describe(&notice);
        return printer.print_done(
            &value,
            format_args!(
                "{subject} are refused already: {described}; `mimir start` allows them again"
            ),
        );
    }
    printer.print_done(
        &value,
        format_args!(
            "{subject} are refused, and running ones end; `mimir start` allows them again"
        ),
    )
}

/// Refuses all calls of the user on this machine from now on. Returns the order.
pub async fn stop_all_calls(globals: &GlobalOptions) -> CommandResult<StopNotice> {
    let order = StopOrder::find(&ClusterOptions::default()).await?;
    Ok(give_order(globals, &order, None).await?.notice)
}

/// Allows the calls of the user on this machine again.
pub async fn start_all_calls(globals: &GlobalOptions) -> CommandResult<()> {
    let order = StopOrder::find(&ClusterOptions::default()).await?;
    withdraw_order(globals, &order).await
}

async fn withdraw_order(globals: &GlobalOptions, order: &StopOrder) -> CommandResult<()> {
    order.start().await?;
    let detail = format!(
        "calls are allowed again, by {} on {}",
        user_name(),
        machine_name()
    );
    order.record(globals, &detail).await;
    Ok(())
}

/// The order in force after an order was given.
struct GivenOrder {
    notice: StopNotice,
    /// Set if an earlier order stays in force, with its author and its reason.
    is_earlier: bool,
}

async fn give_order(
    globals: &GlobalOptions,
    order: &StopOrder,
    reason: Option<&str>,
) -> CommandResult<GivenOrder> {
    let reason = reason.map(str::trim);
    let reason = reason
        .filter(|reason| !reason.is_empty())
        .map(|reason| visible(prefix(reason, REASON_MAX)));
    let by = format!("{} on {}", user_name(), machine_name());
    let given = StopNotice::new(by, SystemTime::now(), reason);
    let notice = order.stop(&given).await?;
    let is_earlier = notice != given;
    let because = given.reason.as_deref();
    let because = because.map_or(String::new(), |reason| format!(": {reason}"));
    let still = if is_earlier { "still " } else { "" };
    let detail = format!("all calls are {still}refused, by {}{because}", given.by);
    order.record(globals, &detail).await;
    Ok(GivenOrder { notice, is_earlier })
}

/// Allows calls again.
pub async fn start(globals: &GlobalOptions, args: &StartArgs) -> CommandResult {
    let printer = globals.printer();
    let order = StopOrder::find(&args.cluster).await?;
    let Some(notice) = order.read().await? else {
        let subject = order.subject();
        return printer.print_done(
            &json!({ "started": false }),
            format_args!("{subject} are allowed already"),
        );
    };
    if !args.yes {
        note(describe(&notice));
        if !terminal::confirm(&format!("Allow {} again?", order.subject()))? {
            let message = terminal::refusal("calls are still refused", "use `mimir start --yes`");
            return Err(CommandFailure::from(ToolError::approval_denied(message)));
        }
    }
    withdraw_order(globals, &order).await?;
    let subject = order.subject();
    printer.print_done(
        &json!({ "started": true, "was": notice }),
        format_args!("{subject} are allowed again"),
    )
}

/// Describes who has stopped the calls, when and why.
pub fn describe(notice: &StopNotice) -> String {
    let at = i64::try_from(notice.at_ms)
        .ok()
        .and_then(|at| Timestamp::from_millisecond(at).ok());
    let at = at.filter(|at| *at != Timestamp::UNIX_EPOCH);
    let at = at.map_or(String::new(), |at| format!(" at {at:.0}"));
    let reason = notice.reason.as_deref();
    let reason = reason.map_or_else(
        || "no reason was given".to_owned(),
        |reason| format!("reason: {}", visible(reason)),
    );
    format!(
        "all calls were stopped by {}{at}; {reason}",
        visible(&notice.by)
    )
}
