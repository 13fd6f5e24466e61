//! A server that requires a login, its authorization server, and the user's browser.

use std::collections::HashMap;
use std::sync::Arc;

use mimir_core::config::Config;
use mimir_core::launch::{LaunchSpec, LaunchedProgram, ProcessLauncher};
use mimir_core::network::{NetworkPolicy, NetworkRules, RequestTarget};
use mimir_core::redact::{Redactor, Vault, VaultError};
use mimir_core::{BoxFuture, ToolError};
use mimir_mcp::client::{LoginStore, LoginSummary, McpServers, PendingLogin, ServerDeps};
use mimir_net::{HostClient, PolicyGuard, PolicyOnly, RequestLimits, TlsRoots};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::site::{Answer, ReceivedRequest, Site};
use crate::upstream::MemoryDescriptions;

/// Behaviour of the two servers.
pub struct ServerBehavior {
    /// Overrides for the metadata of the two; null removes a key.
    pub resource: Value,
    pub issuer: Value,
    /// Response of the token endpoint, instead of the regular one.
    pub token: Option<Answer>,
    /// Lifetime of a token in seconds.
    pub lasts: Option<u64>,
    /// True if tokens come with a refresh token.
    pub renews: bool,
    /// True if the server rejects all tokens.
    pub rejects_all: bool,
    /// Scope that a tool call needs.
    pub needs: Option<&'static str>,
    /// Metadata URL in the server's challenge; left out if empty.
    pub described: Option<String>,
    /// True if the server fails to handle tool calls.
    pub fails: bool,
    /// True if the server echoes the token that it was sent.
    pub echoes: bool,
    /// Redirect target: of the server's requests, or of those for `/away` if its metadata is there.
    pub away: Option<String>,
}

impl Default for ServerBehavior {
    fn default() -> Self {
        Self {
            resource: json!({}),
            issuer: json!({}),
            token: None,
            lasts: None,
            renews: true,
            rejects_all: false,
            needs: None,
            described: None,
            fails: false,
            echoes: false,
            away: None,
        }
    }
}

/// Issued values.
#[derive(Default)]
struct IssuedTokens {
    count: usize,
    /// Unused codes, with their challenge and scopes.
    codes: HashMap<String, (String, String)>,
    /// Valid tokens, with their scopes.
    access: HashMap<String, String>,
    refresh: HashMap<String, String>,
}

/// A server, its authorization server, and mimir in front of them.
pub struct LoginFixture {
    pub server: Site,
    pub issuer: Site,
    pub behavior: Arc<Mutex<ServerBehavior>>,
    pub servers: Arc<McpServers>,
    pub logins: Arc<Memory>,
    pub notes: Arc<MemoryDescriptions>,
    issued: Arc<Mutex<IssuedTokens>>,
}

/// Logins, in memory.
#[derive(Default)]
pub struct Memory {
    pub all: Mutex<HashMap<String, String>>,
    version: std::sync::atomic::AtomicU64,
    turn: Arc<Mutex<()>>,
}

impl Memory {
    fn changed(&self) {
        self.version
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }

    /// Returns the only login as stored.
    pub fn only(&self) -> Value {
        let all = self.all.lock();
        assert_eq!(all.len(), 1, "{:?}", all.keys());
        serde_json::from_str(all.values().next().unwrap()).unwrap()
    }

    /// Modifies the only login.
    pub fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut login = self.only();
        change(&mut login);
        for text in self.all.lock().values_mut() {
            *text = login.to_string();
        }
        self.changed();
    }
}

impl LoginStore for Memory {
    fn read(&self, key: &str) -> Result<Option<String>, ToolError> {
        Ok(self.all.lock().get(key).cloned())
    }
    fn write(&self, key: &str, text: &str) -> Result<(), ToolError> {
        self.all.lock().insert(key.into(), text.into());
        self.changed();
        Ok(())
    }
    fn remove(&self, key: &str) -> Result<(), ToolError> {
        self.all.lock().remove(key);
        self.changed();
        Ok(())
    }
    fn version(&self) -> u64 {
        self.version.load(std::sync::atomic::Ordering::SeqCst)
    }
    fn lock(&self, _: &str) -> Result<Box<dyn Send>, ToolError> {
        drop(self.turn.lock());
        Ok(Box::new(()))
    }
}

/// A vault with one secret.
struct TestVault;

pub const SECRET: &str = "s3cr3t-of-the-client";

impl Vault for TestVault {
    fn redactor(&self) -> Result<Redactor, VaultError> {
        Ok(Redactor::new().with_values([("KEY", SECRET)]))
    }
    fn secret(&self, name: &str) -> Result<Option<String>, VaultError> {
        Ok((name == "KEY").then(|| SECRET.to_owned()))
    }
}

struct NoPrograms;

impl ProcessLauncher for NoPrograms {
    fn launch(&self, _: LaunchSpec) -> BoxFuture<'_, Result<LaunchedProgram, ToolError>> {
        panic!("no program is started")
    }
}

/// Returns a client that reaches the origin of this URL only.
pub fn reach(url: &str) -> Result<HostClient, ToolError> {
    let target = RequestTarget::parse(url).map_err(mimir_net::Error::from)?;
    let pattern: mimir_core::network::HostPattern = target.origin().to_string().parse().unwrap();
    let rules = NetworkRules {
        allowed: vec![pattern.into()],
        ..NetworkRules::default()
    };
    let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
    let limits = RequestLimits::default();
    Ok(HostClient::new(
        guard,
        Arc::new(PolicyOnly),
        TlsRoots::default(),
        limits,
        None,
    ))
}

/// Returns servers with these settings, and shared stores.
pub fn servers(
    settings: &Value,
    logins: &Arc<Memory>,
    notes: &Arc<MemoryDescriptions>,
) -> Arc<McpServers> {
    let servers = McpServers::new(ServerDeps {
        links: Default::default(),
        observer: Arc::new(()),
        refused: Default::default(),
        launcher: Arc::new(NoPrograms),
        vault: Arc::new(TestVault),
        store: Arc::clone(notes) as Arc<_>,
        client: Arc::new(|_, url| reach(url)),
        logins: Arc::clone(logins) as Arc<_>,
        root: Arc::from(std::path::Path::new("/work")),
    });
    let config: Config = serde_json::from_value(json!({"mcp": {"servers": settings}})).unwrap();
    for (name, server) in &config.mcp.servers {
        server.check(name).unwrap();
    }
    servers.set(&config);
    Arc::new(servers)
}

impl LoginFixture {
    pub async fn new() -> Self {
        Self::with(json!({})).await
    }

    /// Creates one server `s` with these login settings.
    pub async fn with(oauth: Value) -> Self {
        let behavior = Arc::<Mutex<ServerBehavior>>::default();
        let issued = Arc::<Mutex<IssuedTokens>>::default();
        let (says, gives) = (Arc::clone(&behavior), Arc::clone(&issued));
        let issuer = Site::open(move |own_url, request| {
            respond_as_issuer(own_url, request, &says.lock(), &mut gives.lock())
        })
        .await;
        let (says, gives, at) = (
            Arc::clone(&behavior),
            Arc::clone(&issued),
            issuer.url.clone(),
        );
        let server = Site::open(move |own_url, request| {
            respond_as_server(own_url, &at, request, &says.lock(), &gives.lock())
        })
        .await;
        let (logins, notes) = (Arc::default(), Arc::default());
        let mut block = json!({"s": {"url": format!("{}/mcp", server.url)}});
        if oauth != json!({}) {
            let text = oauth.to_string().replace("ISSUER", &issuer.url);
            block["s"]["oauth"] = serde_json::from_str(&text).unwrap();
        }
        Self {
            servers: servers(&block, &logins, &notes),
            server,
            issuer,
            behavior,
            logins,
            notes,
            issued,
        }
    }

    pub fn set(&self, change: impl FnOnce(&mut ServerBehavior)) {
        change(&mut self.behavior.lock());
    }

    /// Starts a login.
    pub async fn begin(&self) -> Result<PendingLogin, ToolError> {
        let plan = self.servers.plan("s").await.unwrap()?;
        plan.begin("http://127.0.0.1:4/callback").await
    }

    /// Returns the callback of the authorization server for an approved login.
    pub fn approve_login(&self, url: &str) -> String {
        let fields = fields(url);
        let mut issued = self.issued.lock();
        issued.count += 1;
        let code = format!("code-number-{}", issued.count);
        let scope = fields.get("scope").cloned().unwrap_or_default();
        let challenge = fields["code_challenge"].clone();
        issued.codes.insert(code.clone(), (challenge, scope));
        let iss = url::form_urlencoded::byte_serialize(self.issuer.url.as_bytes());
        let iss: String = iss.collect();
        format!(
            "{}?code={code}&state={}&iss={iss}",
            fields["redirect_uri"], fields["state"]
        )
    }

    /// Performs a whole login.
    pub async fn log_in(&self) -> Result<LoginSummary, ToolError> {
        let pending = self.begin().await?;
        let answer = self.approve_login(pending.url());
        let code = pending.code(&answer).unwrap();
        pending.finish(&code).await
    }

    /// Invalidates all issued tokens, optionally also the refresh tokens.
    pub fn invalidate_tokens(&self, refresh: bool) {
        let mut issued = self.issued.lock();
        issued.access.clear();
        if refresh {
            issued.refresh.clear();
        }
    }
}

/// Returns the query parameters of a URL.
pub fn fields(url: &str) -> HashMap<String, String> {
    let url = url::Url::parse(url).unwrap();
    let mut all = HashMap::new();
    for (name, value) in url.query_pairs() {
        assert!(
            all.insert(name.to_string(), value.to_string()).is_none(),
            "{name} twice: {url}"
        );
    }
    all
}

fn merge(mut document: Value, overrides: &Value) -> Value {
    for (key, value) in overrides.as_object().unwrap() {
        document[key] = value.clone();
    }
    document
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    document
}

/// The authorization server.
fn respond_as_issuer(
    own_url: &str,
    request: &ReceivedRequest,
    behavior: &ServerBehavior,
    issued: &mut IssuedTokens,
) -> Answer {
    match request.path.as_str() {
        "/.well-known/oauth-authorization-server" => {
            let about = json!({
                "issuer": own_url,
                "authorization_endpoint": format!("{own_url}/authorize?tenant=1"),
                "token_endpoint": format!("{own_url}/token"),
                "registration_endpoint": format!("{own_url}/register"),
                "revocation_endpoint": format!("{own_url}/revoke"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
            });
            Answer::json(200, &merge(about, &behavior.issuer))
        }
        "/register" => {
            issued.count += 1;
            Answer::json(
                201,
                &json!({"client_id": format!("client-{}", issued.count)}),
            )
        }
        "/token" => match &behavior.token {
            Some(answer) => answer.clone(),
            None => tokens(request, behavior, issued),
        },
        "/revoke" => {
            let token = request.form()["token"].clone();
            issued.access.remove(&token);
            issued.refresh.remove(&token);
            Answer::empty(200)
        }
        _ => Answer::empty(404),
    }
}

fn tokens(
    request: &ReceivedRequest,
    behavior: &ServerBehavior,
    issued: &mut IssuedTokens,
) -> Answer {
    use base64::Engine as _;
    use sha2::Digest as _;
    let form = request.form();
    let no = || Answer::json(400, &json!({"error": "invalid_grant"}));
    let scope = match form["grant_type"].as_str() {
        "authorization_code" => {
            let Some((challenge, scope)) = issued.codes.remove(&form["code"]) else {
                return no();
            };
            let hash = sha2::Sha256::digest(&form["code_verifier"]);
            let hash = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(hash);
            if hash != challenge {
                return no();
            }
            scope
        }
        // A refresh token can be used once.
        _ => match issued.refresh.remove(&form["refresh_token"]) {
            Some(scope) => scope,
            None => return no(),
        },
    };
    issued.count += 1;
    let (access, refresh) = (
        format!("access-token-{}", issued.count),
        format!("refresh-token-{}", issued.count),
    );
    issued.access.insert(access.clone(), scope.clone());
    issued.refresh.insert(refresh.clone(), scope.clone());
    let all = json!({"access_token": access, "token_type": "bearer", "scope": scope,
        "expires_in": behavior.lasts, "refresh_token": behavior.renews.then_some(refresh)});
    Answer::json(200, &merge(all, &json!({})))
}

/// The server.
fn respond_as_server(
    own_url: &str,
    issuer: &str,
    request: &ReceivedRequest,
    behavior: &ServerBehavior,
    issued: &IssuedTokens,
) -> Answer {
    let described = "/.well-known/oauth-protected-resource/mcp";
    if request.path == described {
        let about =
            json!({"resource": format!("{own_url}/mcp"), "authorization_servers": [issuer]});
        return Answer::json(200, &merge(about, &behavior.resource));
    }
    let here = match &behavior.described {
        Some(_) => "/away",
        None => "/mcp",
    };
    match &behavior.away {
        Some(away) if request.path == here => {
            return Answer::empty(307).with("location", away.clone());
        }
        _ if request.path != "/mcp" => return Answer::empty(404),
        _ => {}
    }
    let metadata = behavior.described.clone();
    let metadata = metadata.unwrap_or_else(|| format!("{own_url}{described}"));
    let challenge = |more: &str| format!("Bearer resource_metadata=\"{metadata}\"{more}");
    let scopes = request.token().and_then(|token| issued.access.get(token));
    let Some(scopes) = scopes.filter(|_| !behavior.rejects_all) else {
        return Answer::empty(401).with("www-authenticate", challenge(""));
    };
    let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let called = message["method"] == "tools/call";
    if let Some(needs) = behavior.needs.filter(|_| called)
        && !scopes.split(' ').any(|scope| scope == needs)
    {
        let more = format!(", error=\"insufficient_scope\", scope=\"{needs}\"");
        return Answer::empty(403).with("www-authenticate", challenge(&more));
    }
    if called && behavior.fails {
        return Answer {
            status: 500,
            headers: vec![("content-type", "text/plain".to_owned())],
            body: "out of order".to_owned(),
        };
    }
    let result = match message["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}),
        Some("tools/list") => {
            json!({"tools": [{"name": "go", "inputSchema": {"type": "object"}}]})
        }
        Some("tools/call") => {
            let echo = format!("done by {}", request.headers["authorization"]);
            let words = if behavior.echoes { &echo } else { "done" };
            json!({"content": [{"type": "text", "text": words}]})
        }
        Some("server/discover") => return Answer::empty(400),
        _ if request.method == "POST" => return Answer::empty(202),
        _ => return Answer::empty(405),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    if !behavior.echoes {
        return Answer::json(200, &answer);
    }
    // As an event stream, to test that form, too.
    Answer {
        status: 200,
        headers: vec![("content-type", "text/event-stream".to_owned())],
        body: format!("data: {answer}\n\n"),
    }
}
