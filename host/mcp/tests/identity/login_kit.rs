//! A shared mimir with an identity provider and browsers, for tests of logins.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use mimir_mcp::{HttpOptions, IdentityOptions, UserLogin};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower_service::Service as _;

use super::provider::{Key, at};
use super::roles::Member;
use super::{ProtectedServer, RESOURCE};
use crate::logins::{Answer, LoginFixture, Site, fields, reach};
use crate::upstream::Upstream;

/// URL under which the pages are served.
pub(super) const BASE: &str = "https://tools.example/team";

/// A code for which the identity provider says that it does not know the client.
pub(super) const OF_DELETED_CLIENT: &str = "of-a-deleted-client";

/// The identity provider, at which users log in, too.
pub(super) struct LoginProvider {
    pub(super) site: Site,
    pub(super) key: Arc<Key>,
    /// Unused codes, with their challenge and the claims of the token.
    pub(super) codes: Arc<Mutex<HashMap<String, (String, Value)>>>,
}

impl LoginProvider {
    pub(super) async fn new(registers: bool) -> Self {
        let key = Arc::new(Key::ed());
        let codes = Arc::<Mutex<HashMap<String, (String, Value)>>>::default();
        let (signs, issued) = (Arc::clone(&key), Arc::clone(&codes));
        let site = Site::open(move |own_url, request| match request.path.as_str() {
            "/.well-known/openid-configuration" => {
                let mut about = json!({
                    "issuer": own_url, "jwks_uri": format!("{own_url}/keys"),
                    "authorization_endpoint": format!("{own_url}/authorize"),
                    "token_endpoint": format!("{own_url}/token"),
                    "code_challenge_methods_supported": ["S256"],
                });
                if registers {
                    about["registration_endpoint"] = format!("{own_url}/register").into();
                }
                Answer::json(200, &about)
            }
            "/keys" => Answer::json(200, &json!({"keys": [signs.jwk("k")]})),
            "/register" => Answer::json(201, &json!({"client_id": "mimir-in-browsers"})),
            "/token" => {
                let form = request.form();
                if form["code"] == OF_DELETED_CLIENT {
                    return Answer::json(401, &json!({"error": "invalid_client"}));
                }
                let code = issued.lock().remove(&form["code"]);
                match code {
                    Some((challenge, claims)) if challenge == hash(&form["code_verifier"]) => {
                        let token = signs.token("k", &claims);
                        Answer::json(200, &json!({"access_token": token, "token_type": "Bearer"}))
                    }
                    _ => Answer::json(400, &json!({"error": "invalid_grant"})),
                }
            }
            _ => Answer::empty(404),
        })
        .await;
        Self { site, key, codes }
    }

    pub(super) fn claims(&self, sub: &str) -> Value {
        json!({"iss": self.site.url, "sub": sub, "aud": RESOURCE, "exp": at(600), "scope": "mimir"})
    }

    pub(super) fn token(&self, sub: &str) -> String {
        self.key.token("k", &self.claims(sub))
    }

    /// Returns the callback for a browser in which the user with these claims is logged in.
    pub(super) fn approve(&self, url: &str, claims: Value) -> String {
        let fields = fields(url);
        let code = format!("code-for-{}", fields["state"]);
        let challenge = fields["code_challenge"].clone();
        self.codes.lock().insert(code.clone(), (challenge, claims));
        format!(
            "{}?code={code}&state={}",
            fields["redirect_uri"], fields["state"]
        )
    }
}

fn hash(verifier: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(verifier);
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(hash)
}

/// A shared mimir in front of a server with logins, where the owner is logged in.
pub(super) struct Shared {
    pub(super) provider: LoginProvider,
    pub(super) fixture: LoginFixture,
    pub(super) gate: ProtectedServer,
    pub(super) recorded: Arc<Mutex<Vec<UserLogin>>>,
}

impl Shared {
    pub(super) async fn new() -> Self {
        Self::with(true, None).await
    }

    pub(super) async fn with(registers: bool, client: Option<&str>) -> Self {
        Self::at(RESOURCE, registers, client).await
    }

    /// Creates the server with this resource identifier.
    pub(super) async fn at(resource: &str, registers: bool, client: Option<&str>) -> Self {
        let provider = LoginProvider::new(registers).await;
        let fixture = LoginFixture::new().await;
        fixture.log_in().await.unwrap();
        let upstream = Upstream::over(Arc::clone(&fixture.servers)).open().await;
        let test_server = upstream.test_server;
        let recorded = Arc::<Mutex<Vec<UserLogin>>>::default();
        let records = Arc::clone(&recorded);
        let options = HttpOptions {
            identity: Some(IdentityOptions {
                issuer: provider.site.url.clone(),
                resource: resource.to_owned(),
                // The audience of the tokens in these tests.
                audiences: vec![RESOURCE.to_owned()],
                scopes: vec!["mimir".to_owned()],
                client_id: client.map(str::to_owned),
                client_secret: client.map(|_| "${KEY}".to_owned()),
                groups_claim: "groups".to_owned(),
                clients: Arc::new(reach),
            }),
            login_recorder: Some(Arc::new(move |login| records.lock().push(login.clone()))),
            ..HttpOptions::default()
        };
        let http = test_server.server.http(options).unwrap();
        Self {
            provider,
            fixture,
            gate: ProtectedServer { http, test_server },
            recorded,
        }
    }

    pub(super) async fn member(&self, sub: &str) -> Member<'_> {
        Member::connect(&self.gate, self.provider.token(sub)).await
    }

    /// Calls the tool as a user without a login, and returns the link in the error.
    pub(super) async fn link(&self, sub: &str) -> String {
        let texts = self.member(sub).await.call_for_texts("mcp_s_go").await;
        let message = &texts[0];
        assert!(message.contains("UNAVAILABLE"), "{message}");
        assert!(message.contains("a login of your own"), "{message}");
        assert!(!message.contains("/login/"), "{message}");
        // The step is mimir's text, and not one of the server, which is between marks.
        let step = texts[1].strip_prefix("mimir: open ").unwrap();
        let (link, rest) = step.split_once(' ').unwrap();
        assert_eq!(rest, "in a browser to log in, then repeat the call");
        let all = texts.join("\n");
        assert!(!all.contains("The mimir log"), "{all}");
        link.to_owned()
    }

    /// Returns the number of stored logins.
    pub(super) fn logins(&self) -> usize {
        self.fixture.logins.all.lock().len()
    }
}

/// A browser with its cookies.
#[derive(Default)]
pub(super) struct Browser(pub(super) HashMap<String, String>);

/// A page, or the redirect to another one.
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) location: String,
    pub(super) cookie: String,
    pub(super) body: String,
}

impl Browser {
    pub(super) async fn open(&mut self, shared: &Shared, url: &str) -> Page {
        let path = url.strip_prefix(BASE).unwrap();
        let mut request = Request::builder().uri(path).header("host", "tools.example");
        for (name, value) in &self.0 {
            request = request.header("cookie", format!("other=1; {name}={value}"));
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let mut http = shared.gate.http.clone();
        let response = http.call(request).await.unwrap();
        let header = |name: &str| {
            let value = response.headers().get(name);
            value.map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("referrer-policy"), "no-referrer");
        let (status, location, cookie) = (
            response.status().as_u16(),
            header("location"),
            header("set-cookie"),
        );
        if let Some((pair, _)) = cookie.split_once(';') {
            let (name, value) = pair.split_once('=').unwrap();
            self.0.insert(name.to_owned(), value.to_owned());
        }
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Page {
            status,
            location,
            cookie,
            body: String::from_utf8(body.into()).unwrap(),
        }
    }

    /// Opens a link in a browser in which this user is logged in. Returns the page after the identity provider's.
    pub(super) async fn identify(&mut self, shared: &Shared, link: &str, sub: &str) -> Page {
        let page = self.open(shared, link).await;
        assert_eq!(page.status, 303, "{}", page.body);
        let claims = shared.provider.claims(sub);
        let callback = shared.provider.approve(&page.location, claims);
        self.open(shared, &callback).await
    }

    /// Performs the login with a link up to the last callback, which is returned.
    pub(super) async fn approve(&mut self, shared: &Shared, link: &str, sub: &str) -> String {
        let page = self.identify(shared, link, sub).await;
        assert_eq!(page.status, 303, "{}", page.body);
        shared.fixture.approve_login(&page.location)
    }
}

/// Returns true if a text is the marked result of the tool.
pub(super) fn is_result(text: &str) -> bool {
    text.starts_with("[untrusted ") && text.lines().nth(1) == Some("done")
}

/// Checks that a call of the user succeeds.
pub(super) async fn assert_calls(shared: &Shared, sub: &str) {
    let text = shared.member(sub).await.call("mcp_s_go").await;
    assert!(is_result(&text), "{sub}: {text}");
}
