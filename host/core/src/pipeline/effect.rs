//! The effect gate: checks the requests and commands of a tool while its call runs, with the same stages as the call
//! itself: decide, approve, audit.
//!
//! The rights of a call are looked up again for each effect, so a revoked grant or a changed rule applies from the next
//! effect on.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::audit::{AuditEvent, CanaryDirection, EffectKind, EventKind};
use crate::call::{CallContext, CallObserver, ParentCall};
use crate::call_monitor::{CallReport, LiveEffect};
use crate::call_switch::{CallSwitch as _, SessionSwitch};
use crate::command::SessionConnection;
use crate::decision::{Decision, PolicyEvaluation};
use crate::error::{ToolError, ToolErrorCode};
use crate::limits::Limits;
use crate::needs::Needs;
use crate::network::{NetworkPolicy, RequestTarget};
use crate::redact::Redactor;
use crate::tool::Tool;
use crate::trace_context::TraceContext;
use crate::upstream_request::UpstreamRequestKind;

use super::approve::Approved;
use super::call_command::CallCommand;
use super::call_recorder::{CallRecorder, unrecorded_effect};
use super::decide::Ruled;
use super::validate::Checked;
use super::{Pipeline, PipelineSnapshot, StageContext, approve, interrupts, network};

mod command;
mod command_egress;
mod confirmed_command;
mod delayed_observer;
mod judge;
pub(super) mod leak;
mod model;
mod request_card;
mod secret;
mod storage;

pub use command::PermittedCommand;
pub use command_egress::CommandEgress;
pub use confirmed_command::{CommandQuestion, ConfirmedCommand};
pub(super) use judge::question_key;
pub use leak::UploadScanner;
pub use storage::PluginStorage;

use command_egress::RequestSender;
use model::CompletionCounter;
use request_card::summarize_request;
use secret::SecretPlaceholder;

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingRequest<'a> {
    /// The target URL.
    pub target: &'a RequestTarget,
    /// The HTTP method as sent.
    pub method: &'a str,
    /// The header names and values, before secrets are inserted.
    pub headers: &'a [&'a [u8]],
    /// True if the request has a body. For `CONNECT`: true if more than 16 KiB were sent through the tunnel.
    pub body: bool,
}

/// The treatment of a request that needs approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consent {
    /// A person is asked.
    Ask,
    /// The request is refused.
    Refuse,
    /// A person has approved the host before. If there is another reason to ask, a person is asked, or the request is
    /// refused.
    Host { may_ask: bool },
}

/// The permission to send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressPermission {
    /// The request may go to listed hosts only.
    Listed,
    /// The request may go to an unlisted host, too, because a person approved it.
    Unlisted,
}

/// The network access of a call at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAccess {
    /// The granted hosts, within the settings.
    pub policy: NetworkPolicy,
    /// PEM files of CA certificates that are trusted in addition to the platform's.
    pub roots: Vec<String>,
    /// The servers of the session that the call may reach.
    pub served: Option<SessionPorts>,
}

impl NetworkAccess {
    fn ports(&self) -> &[u16] {
        self.served.as_ref().map_or(&[], |served| &served.ports)
    }
}

/// Servers that run as background commands of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPorts {
    /// The id of the session.
    pub session: String,
    /// The declared ports of the servers.
    pub ports: Vec<u16>,
}

/// The gate for the effects of a call outside its sandbox. A backend must submit each request and command to the gate,
/// and may carry it out only if the gate permits it.
#[derive(Clone)]
pub struct EffectGate(Arc<Inner>);

struct Inner {
    pipeline: Pipeline,
    /// The tool and the rights of the call at the time of approval.
    tool: Arc<Tool>,
    /// The fine-grained tool with the same effect, if the call uses the compact form.
    equivalent_tool: Option<Arc<Tool>>,
    rights: Needs,
    limits: Limits,
    arguments: Arc<Value>,
    /// The command in the arguments, if there is one.
    own_command: Option<Arc<CallCommand>>,
    /// The keys of the `ask` reasons that were approved before the call ran.
    answered: Box<[String]>,
    placeholders: Box<[SecretPlaceholder]>,
    /// The redactor of everything that the call returns.
    redactor: Redactor,
    /// The redactor of the responses that servers send to the call.
    response_redactor: OnceLock<Option<Redactor>>,
    /// The number of model requests of the call.
    completions: CompletionCounter,
    parent: ParentCall,
    context: CallContext,
    observer: Arc<dyn CallObserver>,
    /// The last lookup of the call's network access.
    cached_access: CachedNetworkAccess,
}

/// The last lookup of a network access, with the snapshot that it is based on.
#[derive(Default)]
struct CachedNetworkAccess(Mutex<Option<(Arc<PipelineSnapshot>, Arc<NetworkAccess>)>>);

impl CachedNetworkAccess {
    fn current(&self, inner: &Inner, sender: RequestSender<'_>) -> Arc<NetworkAccess> {
        let snapshot = inner.pipeline.snapshot();
        let mut cached = self.0.lock();
        match &*cached {
            Some((cached_snapshot, access))
                if Arc::ptr_eq(cached_snapshot, &snapshot)
                    && access.ports() == inner.served_ports(sender) =>
            {
                Arc::clone(access)
            }
            other => {
                let new = Arc::new(inner.network_access(&snapshot, sender));
                let access = match other {
                    Some((_, old)) if *old == new => Arc::clone(old),
                    _ => new,
                };
                *cached = Some((snapshot, Arc::clone(&access)));
                access
            }
        }
    }
}

impl Approved {
    /// Returns the gate for the effects of this call.
    pub fn effects(&self) -> EffectGate {
        EffectGate(Arc::new(Inner {
            pipeline: self.pipeline().clone(),
            tool: Arc::clone(self.tool()),
            equivalent_tool: self.checked.equivalent_tool.clone(),
            rights: self.rights().clone(),
            limits: *self.limits(),
            arguments: Arc::clone(&self.checked.arguments),
            own_command: self.own_command().cloned(),
            answered: self.answered().into(),
            placeholders: secret::placeholders(self.rights(), self.context()),
            redactor: self.redactor().clone(),
            response_redactor: OnceLock::new(),
            completions: CompletionCounter::default(),
            parent: self.parent(),
            context: self.context().clone(),
            observer: Arc::clone(self.observer()),
            cached_access: CachedNetworkAccess::default(),
        }))
    }
}

impl EffectGate {
    /// Returns the current network access of the call. The `Arc` is the same as in the last lookup if nothing has
    /// changed since.
    pub fn reach(&self) -> Arc<NetworkAccess> {
        self.0.cached_access.current(&self.0, RequestSender::Call)
    }

    /// Connects to a server of the session, at one of the ports of [`NetworkAccess::served`].
    pub async fn connect(&self, port: u16) -> std::io::Result<SessionConnection> {
        let inner = &*self.0;
        let runner = &inner.pipeline.0.ports.runner;
        runner.connect(&inner.context.session_id, port).await
    }

    /// Checks a request, asks a person if needed, and records the result. Fails if the request is denied or cannot be
    /// recorded: it must not be sent then.
    pub async fn request(
        &self,
        egress: OutgoingRequest<'_>,
    ) -> Result<EgressPermission, ToolError> {
        // On the heap: the future contains a card and an answer, and few calls get here.
        Box::pin(
            self.0
                .request(egress, RequestSender::Call, Consent::Ask, None),
        )
        .await
    }

    /// Checks a request of a page like [`Self::request`], and shows its body on the card.
    pub async fn request_with_body(
        &self,
        egress: OutgoingRequest<'_>,
        body: &str,
    ) -> Result<EgressPermission, ToolError> {
        Box::pin(
            self.0
                .request(egress, RequestSender::Call, Consent::Ask, Some(body)),
        )
        .await
    }

    /// Returns the trace context that a request to this target carries: that of the call, if the settings name the host.
    /// To be asked for each hop of a request, so that a redirect to another host does not carry it.
    pub fn trace_context_for(&self, target: &RequestTarget) -> Option<TraceContext> {
        let policy = &self.0.pipeline.snapshot().policy;
        let context = self.0.observer.trace_context()?;
        policy.sends_trace_to(target).then(|| context.clone())
    }

    /// Returns the redactor of everything that the call returns. Patterns from a model must be matched against masked
    /// text only: the result of a match would reveal a masked value.
    pub fn output_redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    /// Checks a request like [`Self::request`], but refuses it if a person would have to approve it. For requests that
    /// nobody waits for, such as the images of a page.
    pub async fn request_without_asking(
        &self,
        egress: OutgoingRequest<'_>,
    ) -> Result<EgressPermission, ToolError> {
        Box::pin(
            self.0
                .request(egress, RequestSender::Call, Consent::Refuse, None),
        )
        .await
    }

    /// Checks a request to a host that a person has approved for the same page: that the host is not listed needs no
    /// further approval. If there is another reason to ask, a person is asked, or without `may_ask`, it is refused.
    pub async fn request_to_approved_host(
        &self,
        egress: OutgoingRequest<'_>,
        may_ask: bool,
    ) -> Result<EgressPermission, ToolError> {
        let consent = Consent::Host { may_ask };
        Box::pin(self.0.request(egress, RequestSender::Call, consent, None)).await
    }

    /// Records a request of the tool's server to the client, before the client receives it. `refused` is the error if
    /// the request is not forwarded. Fails with that error, or if the tool may no longer be called, or if the request
    /// cannot be recorded.
    pub fn record_upstream_request(
        &self,
        kind: UpstreamRequestKind,
        refused: Option<&ToolError>,
    ) -> Result<(), ToolError> {
        let inner = &*self.0;
        let snapshot = inner.pipeline.snapshot();
        let recorder = inner.effect_recorder(kind.method().to_owned(), LiveEffect::Request)?;
        let result = match refused {
            Some(error) => Err(error.clone()),
            None => inner.current_rights(&snapshot).map(|_| ()),
        };
        finish_effect(recorder, result)
    }

    /// Records that an allowed request was not sent because its host resolved to a refused address.
    pub fn refused(&self, egress: OutgoingRequest<'_>, code: ToolErrorCode) {
        self.record_refused(egress, code, None);
    }

    /// Records a refused request. `why` is the reason, in one sentence.
    fn record_refused(&self, egress: OutgoingRequest<'_>, code: ToolErrorCode, why: Option<&str>) {
        let ports = &self.0.pipeline.0.ports;
        let Ok(redactor) = ports.vault.redactor() else {
            return;
        };
        let mut subject = request_name(egress);
        redactor.mask_text(&mut subject);
        let mut event = AuditEvent::new(EventKind::Effect, ports.clock.now())
            .with_context(&self.0.context)
            .with_tool_origin(&self.0.tool)
            .with_subject(&subject)
            .refused(code);
        event.decision = Some(Decision::Deny);
        if let Some(why) = why {
            let mut why = crate::text::visible(why);
            redactor.mask_text(&mut why);
            event = event.with_detail(&why);
        }
        if let Err(error) = ports.audit.record(&event) {
            tracing::error!(%error, "a refused request could not be recorded");
        }
        self.0
            .report_effect(LiveEffect::Request, &subject, Decision::Deny);
    }
}

/// Names a request by its method and origin, without parts that could contain data.
fn request_name(egress: OutgoingRequest<'_>) -> String {
    format!("{} {}", egress.method, egress.target.origin())
}

impl Inner {
    /// Creates the recorder of an effect of the tool. `subject` names the effect, without its content.
    fn effect_recorder(
        &self,
        subject: String,
        effect: LiveEffect,
    ) -> Result<CallRecorder, ToolError> {
        let ports = &self.pipeline.0.ports;
        let mut recorder =
            CallRecorder::for_effect(&self.tool, &self.context, &self.parent, ports, subject)?;
        recorder.start_effect_span(&*self.observer);
        if self.pipeline.0.running.watcher().is_some() {
            let calls = Arc::clone(&self.pipeline.0.running);
            recorder.report_effect_to(calls, self.context.request_id.clone(), effect);
        }
        Ok(recorder)
    }

    /// Reports an effect to consoles. `subject` must be masked.
    fn report_effect(&self, effect: LiveEffect, subject: &str, decision: Decision) {
        if let Some(monitor) = self.pipeline.0.running.watcher() {
            let id = self.context.request_id.clone();
            let now = self.pipeline.0.ports.clock.now();
            let subject = subject.to_owned();
            monitor.report(CallReport::effect(id, now, effect, subject, decision));
        }
    }

    /// Returns the current version of the tool, and the rights that the call still has. Fails if the plugin was removed
    /// or replaced, or if the tool is denied or its grant was revoked.
    fn current_rights(&self, snapshot: &PipelineSnapshot) -> Result<(Arc<Tool>, Needs), ToolError> {
        let connections = self.pipeline.0.connections.get();
        let switch = SessionSwitch {
            all: connections.map(|connections| &*connections.switch),
            sessions: self.pipeline.0.running.stops(),
            session: &self.context.session_id,
        };
        if let Some(notice) = switch.stopped() {
            return Err(interrupts::stopped_error(&notice, false));
        }
        interrupts::current_rights(&self.tool, self.rights.clone(), snapshot).map_err(|lost| {
            let message = format!(
                "`{}` no longer has access: {}",
                self.tool.name(),
                lost.describe()
            );
            ToolError::new(ToolErrorCode::PolicyDenied, message)
                .with_remedies(lost.remedy(&self.tool))
        })
    }

    fn network_access(
        &self,
        snapshot: &PipelineSnapshot,
        sender: RequestSender<'_>,
    ) -> NetworkAccess {
        let current_rights = self.current_rights(snapshot);
        let hosts = current_rights.map_or_else(|_| Vec::new(), |(_, rights)| sender.hosts(rights));
        let granted = network::granted_policy(&hosts);
        let ports = self.served_ports(sender);
        let settings = snapshot
            .policy
            .network(&self.tool, self.equivalent_tool.as_deref(), &hosts)
            .with_served_ports(&ports);
        NetworkAccess {
            policy: granted.capped_by(settings),
            roots: snapshot.policy.roots(Some(&self.tool)),
            served: (!ports.is_empty()).then(|| SessionPorts {
                session: self.context.session_id.clone(),
                ports,
            }),
        }
    }

    async fn request(
        &self,
        egress: OutgoingRequest<'_>,
        sender: RequestSender<'_>,
        consent: Consent,
        body: Option<&str>,
    ) -> Result<EgressPermission, ToolError> {
        let snapshot = self.pipeline.snapshot();
        let stage = self.pipeline.stage_context(&snapshot);
        let mut recorder = self.effect_recorder(request_name(egress), LiveEffect::Request)?;
        recorder.describe_effect(|| EffectKind::Request {
            method: egress.method.to_owned(),
            host: egress.target.host().to_string(),
            port: egress.target.port(),
        });
        let steps = async {
            self.check_request(egress)
                .map_err(|leak| recorder.report_leak(CanaryDirection::Request, leak))?;
            let (tool, rights) = self.current_rights(&snapshot)?;
            let hosts = sender.hosts(rights);
            let checked = self.wrap_effect(tool, request_as_arguments(egress));
            let served = self.served_ports(sender);
            let judgement =
                judge::judge_request(&stage, self, &checked, (&hosts, &served), (egress, sender));
            recorder.record_decision(&judgement.evaluation, stage.sessions);
            if judgement.evaluation.decision() == Decision::Deny {
                return Err(judgement.denied_error(&checked, egress));
            }
            if judgement.evaluation.decision() == Decision::Ask {
                match consent {
                    Consent::Host { .. } if judgement.asks_only_about_host() => {
                        return Ok(EgressPermission::Unlisted);
                    }
                    Consent::Ask | Consent::Host { may_ask: true } => {}
                    Consent::Refuse | Consent::Host { may_ask: false } => {
                        return Err(judgement.unasked_error(&snapshot, &checked, egress));
                    }
                }
            }
            let ruled = Ruled {
                assessment: Some(summarize_request(egress, body, &self.redactor)),
                evaluation: judgement.evaluation,
                checked,
            };
            require_consent(&stage, &ruled, &mut recorder, sender.request_noun()).await?;
            if let RequestSender::Command(command) = sender {
                command.record_consent(egress, &ruled.evaluation);
            }
            Ok(if judgement.network.unlisted {
                EgressPermission::Unlisted
            } else {
                EgressPermission::Listed
            })
        };
        let result = steps.await;
        finish_effect(recorder, result)
    }

    /// Returns the ports of the session's servers that requests may reach. Empty for a command, which reaches the ports
    /// directly.
    fn served_ports(&self, sender: RequestSender<'_>) -> Vec<u16> {
        let runner = &self.pipeline.0.ports.runner;
        match sender {
            RequestSender::Call => runner.served_ports(&self.context.session_id),
            RequestSender::Command(_) => Vec::new(),
        }
    }

    /// Wraps an effect as a checked call, so that it can pass the other stages.
    fn wrap_effect(&self, tool: Arc<Tool>, arguments: Value) -> Box<Checked> {
        let mut checked = Box::new(Checked::for_effect(
            tool,
            arguments,
            self.context.clone(),
            Arc::clone(&self.observer),
            self.parent.clone(),
            self.limits,
            self.redactor.clone(),
        ));
        checked.equivalent_tool = self.equivalent_tool.clone();
        checked
    }
}

/// Asks a person if a rule requires it. `subject` names the effect in the error for a person who edits the arguments.
async fn require_consent(
    stage: &StageContext<'_>,
    ruled: &Ruled,
    recorder: &mut CallRecorder,
    subject: &str,
) -> Result<(), ToolError> {
    if ruled.evaluation.decision() == Decision::Ask
        && approve::ask(stage, ruled, recorder).await?.is_some()
    {
        let message = format!("{subject} cannot be edited; deny it, and change the call");
        return Err(ToolError::new(ToolErrorCode::ApprovalDenied, message));
    }
    Ok(())
}

/// Records the result of an effect. An effect that cannot be recorded is not carried out.
fn finish_effect<T>(recorder: CallRecorder, result: Result<T, ToolError>) -> Result<T, ToolError> {
    let recorded = recorder.finish_effect(result.as_ref().err().map(|error| error.code));
    result.and_then(|value| recorded.map(|()| value))
}

/// Creates the error for an effect that a rule denies. `outcome` is a clause such as "the command was not run".
fn denied_error(outcome: &str, evaluation: &PolicyEvaluation, remedies: Vec<String>) -> ToolError {
    let visible_evaluation = evaluation.without_untrusted_text();
    let message = match visible_evaluation.decisive() {
        Some(reason) => format!("{outcome}: {} ({})", reason.text, reason.rule),
        None => outcome.to_owned(),
    };
    ToolError::new(ToolErrorCode::PolicyDenied, crate::text::visible(&message))
        .with_details(visible_evaluation.error_details())
        .with_remedies(remedies)
}

/// Returns the request as arguments, for rules about `method`, `url` and `host`.
pub(super) fn request_as_arguments(egress: OutgoingRequest<'_>) -> Value {
    json!({
        "method": egress.method,
        "url": egress.target.to_string(),
        "host": egress.target.host().to_string(),
    })
}
