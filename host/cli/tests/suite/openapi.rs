//! `mimir tools import openapi`: the file, grants, calls with a local server, hostile arguments, updates.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::json_site::{self, ReceivedRequest};
use crate::kit::scripts::{call, text};
use crate::kit::{config, mimir, run};

/// A value of the secret that no other text contains.
const TOKEN: &str = "shop-token-7f3a9c21e5";

/// The password of a login, and `admin:PASSWORD` in base64.
const PASSWORD: &str = "correct-horse-battery";
const LOGIN_IN_BASE64: &str = "YWRtaW46Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5";

/// A server that answers each request by its path, and passes the requests on.
fn serve() -> (u16, Receiver<ReceivedRequest>) {
    json_site::serve(|request| match request.path() {
        "/v1/missing" => ("404 Not Found", r#"{"error": "no such thing"}"#.to_owned()),
        // A server that returns the secret.
        "/v1/echo" => ("200 OK", json!({ "head": request.head }).to_string()),
        // A server that decodes the credentials.
        "/v1/login" if request.has_header(&format!("authorization: Basic {LOGIN_IN_BASE64}")) => (
            "200 OK",
            json!({"user": "admin", "password": PASSWORD, "header": LOGIN_IN_BASE64}).to_string(),
        ),
        "/v1/login" => ("401 Unauthorized", String::new()),
        _ => ("200 OK", r#"{"ok": true, "items": [1, 2]}"#.to_owned()),
    })
}

fn document(server: &str) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Shop API", "version": "1"},
        "servers": [{ "url": server }],
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": {
            "/orders/{id}": {
                "get": {"operationId": "getOrder", "summary": "Returns an order", "tags": ["orders"], "parameters": [
                    {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
                    {"name": "fields", "in": "query", "explode": false, "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}]},
                "put": {"operationId": "putOrder", "parameters": [
                    {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                    "requestBody": {"required": true, "content": {"application/json": {"schema": {
                        "type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}}}}},
            },
            "/missing": {"get": {"operationId": "missing"}},
            "/echo": {"get": {"operationId": "echo"}},
            "/key": {"get": {"operationId": "withKey", "security": [{"undefined": []}]}},
        }
    })
}

/// A workspace with the document `api.json`, whose server is on this port.
fn workspace(port: u16) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    write_document(
        home.path(),
        &document(&format!("http://127.0.0.1:{port}/v1")),
    );
    fs::create_dir_all(config(home.path())).unwrap();
    let settings = format!("network: {{allowedHosts: ['127.0.0.1:{port}']}}\n");
    fs::write(config(home.path()).join("config.yml"), settings).unwrap();
    home
}

fn write_document(home: &Path, document: &Value) {
    fs::write(home.join("api.json"), document.to_string()).unwrap();
}

fn import(home: &Path, words: &[&str]) -> (i32, Value) {
    let (code, out, err) = run(
        home,
        &[&["tools", "import", "openapi", "--json"], words].concat(),
    );
    let value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    (code, value)
}

/// Grants the imported tools to this build of the file, and stores the secret.
fn grant(home: &Path) {
    set_secret(home, "SHOP_TOKEN", TOKEN);
    trust(home, "shop_get_order");
}

fn set_secret(home: &Path, name: &str, value: &str) {
    let mut set = mimir(home, &["secrets", "set", "--file", name]);
    let mut set = set
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    set.stdin
        .take()
        .unwrap()
        .write_all(value.as_bytes())
        .unwrap();
    assert!(set.wait().unwrap().success());
}

/// Grants the tools of the file with this tool.
fn trust(home: &Path, tool: &str) {
    let (_, info, _) = run(home, &["tools", "info", tool, "--json"]);
    let info: Value = serde_json::from_str(&info).unwrap_or_else(|error| panic!("{error}"));
    let digest = info["digest"]
        .as_str()
        .unwrap_or_else(|| panic!("{info:#}"));
    let (code, _, err) = run(home, &["tools", "trust", tool, "--digest", digest]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn openapi_password_is_encoded_and_masked() {
    let (port, requests) = serve();
    let home = workspace(port);
    let home = home.path();
    let mut login = document(&format!("http://127.0.0.1:{port}/v1"));
    login["components"]["securitySchemes"] = json!({"login": {"type": "http", "scheme": "basic"}});
    login["security"] = json!([{"login": []}]);
    login["paths"] = json!({"/login": {"get": {"operationId": "login"}}});
    write_document(home, &login);
    let (_, report) = import(home, &["api.json"]);
    assert_eq!(report["secrets"], json!(["SHOP_LOGIN"]), "{report:#}");
    trust(home, "shop_login");
    // A value in base64 is from an earlier release.
    for value in [format!("admin:{PASSWORD}"), LOGIN_IN_BASE64.to_owned()] {
        set_secret(home, "SHOP_LOGIN", &value);
        let outcome = call(home, &["shop_login"]);
        assert_eq!(outcome["structured"]["user"], "admin", "{outcome:#}");
        let shown = outcome.to_string();
        assert!(
            !shown.contains(PASSWORD) && !shown.contains(LOGIN_IN_BASE64),
            "{outcome:#}"
        );
        assert_eq!(requests.recv().unwrap().path(), "/v1/login");
    }
}

#[test]
fn openapi_import_names_stored_secrets_and_other_servers() {
    let home = workspace(1);
    let home = home.path();
    let mut other = document("https://shop.example/v1");
    other["paths"]["/echo"]["get"]["servers"] = json!([{"url": "https://collect.example"}]);
    write_document(home, &other);
    let file = home.join(".mimir/tools/shop.openapi.yml");
    let import_text = || {
        let _ = fs::remove_file(&file);
        let (code, _, err) = run(home, &["tools", "import", "openapi", "api.json"]);
        assert_eq!(code, 0, "{err}");
        err.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let err = import_text();
    assert!(
        err.contains("`shop_echo` sends its requests to another server, https://collect.example")
            && err.contains("mimir secrets set SHOP_TOKEN"),
        "{err}"
    );
    set_secret(home, "SHOP_TOKEN", TOKEN);
    let err = import_text();
    assert!(
        err.contains("uses your stored secret `SHOP_TOKEN`") && !err.contains("secrets set"),
        "{err}"
    );
    fs::remove_file(&file).unwrap();
    let (_, report) = import(home, &["api.json"]);
    assert_eq!(report["storedSecrets"], json!(["SHOP_TOKEN"]), "{report:#}");
    assert_eq!(
        report["otherServers"],
        json!([{"server": "https://collect.example", "tools": ["shop_echo"]}])
    );
}

#[test]
fn openapi_update_reads_no_document_that_only_the_file_names() {
    let (port, requests) = serve();
    let home = workspace(port);
    let home = home.path();
    assert_eq!(import(home, &["api.json"]).0, 0);
    let file = home.join(".mimir/tools/shop.openapi.yml");
    let good = fs::read_to_string(&file).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("api.json");
    fs::copy(home.join("api.json"), &outside).unwrap();
    let outside = outside.to_str().unwrap().to_owned();
    for (document, code, message) in [
        (
            format!("http://127.0.0.1:{port}/api.json"),
            "APPROVAL_DENIED",
            "was not downloaded",
        ),
        (outside, "INVALID_INPUT", "outside of the workspace"),
    ] {
        let changed = good.replacen("\"api.json\"", &json!(document).to_string(), 1);
        assert_ne!(changed, good);
        fs::write(&file, &changed).unwrap();
        let (_, report) = import(home, &["--update", "--yes", "--name", "shop"]);
        assert_eq!(report["error"]["code"], code, "{report:#}");
        let found = report["error"]["message"].as_str().unwrap();
        assert!(found.contains(message), "{report:#}");
        assert_eq!(fs::read_to_string(&file).unwrap(), changed);
    }
    assert!(requests.try_recv().is_err(), "nothing was requested");
}

#[test]
fn openapi_import_makes_tools_that_call_the_server() {
    let (port, requests) = serve();
    let home = workspace(port);
    let home = home.path();
    let (code, report) = import(home, &["api.json"]);
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(report["file"], ".mimir/tools/shop.openapi.yml");
    assert_eq!(
        report["tools"],
        json!([
            "shop_get_order",
            "shop_put_order",
            "shop_missing",
            "shop_echo"
        ])
    );
    assert_eq!(report["secrets"], json!(["SHOP_TOKEN"]));
    assert!(
        report["skipped"][0]
            .as_str()
            .unwrap()
            .starts_with("withKey: "),
        "{report:#}"
    );

    // The import grants nothing.
    let (code, out, _) = run(home, &["call", "--json", "shop_get_order", "id=1"]);
    assert_eq!(code, 3, "{out}");
    assert!(requests.try_recv().is_err());

    grant(home);
    let outcome = call(
        home,
        &[
            "shop_get_order",
            r#"{"id": "a/b ü", "fields": ["x", "y&z"], "X-Trace": "t"}"#,
        ],
    );
    assert_eq!(
        outcome["structured"],
        json!({"ok": true, "items": [1, 2]}),
        "{outcome:#}"
    );
    let request = requests.recv().unwrap();
    assert_eq!(
        request.line(),
        "GET /v1/orders/a%2Fb%20%C3%BC?fields=x,y%26z HTTP/1.1"
    );
    assert!(request.has_header("x-trace: t"), "{}", request.head);
    assert!(
        request.has_header(&format!("authorization: Bearer {TOKEN}")),
        "{}",
        request.head
    );

    let outcome = call(
        home,
        &["shop_put_order", r#"{"id": "7", "body": {"count": 2}}"#],
    );
    assert_eq!(outcome["ok"], true, "{outcome:#}");
    let request = requests.recv().unwrap();
    assert_eq!(
        (request.line(), request.body.as_str()),
        ("PUT /v1/orders/7 HTTP/1.1", r#"{"count":2}"#)
    );
    assert!(
        request.has_header("content-type: application/json"),
        "{}",
        request.head
    );

    let outcome = call(home, &["shop_missing"]);
    assert_eq!(outcome["error"]["code"], "NOT_FOUND", "{outcome:#}");
    assert_eq!(outcome["error"]["details"]["status"], 404);
    assert_eq!(
        outcome["error"]["details"]["body"]["error"],
        "no such thing"
    );
    let outcome = call(home, &["shop_echo"]);
    assert!(
        text(&outcome).contains("uthorization") && !outcome.to_string().contains(TOKEN),
        "{outcome:#}"
    );
    let (_, log, _) = run(home, &["audit", "show", "--json"]);
    assert!(!log.contains(TOKEN));
    assert!(
        log.contains("secret SHOP_TOKEN for http://127.0.0.1"),
        "{log}"
    );
}

#[test]
fn openapi_calls_refuse_arguments_that_leave_their_place() {
    let (port, requests) = serve();
    let home = workspace(port);
    let home = home.path();
    assert_eq!(import(home, &["api.json"]).0, 0);
    grant(home);
    for arguments in [
        json!({"id": ".."}),
        json!({"id": "../../admin"}),
        json!({"id": "a\\..\\b"}),
        json!({"id": ""}),
        json!({"id": "a\r\nHost: evil.example"}),
        json!({"id": "1", "X-Trace": "a\r\nX-Admin: 1"}),
        json!({"id": "1", "X-Trace": "ü"}),
        json!({"id": "1", "other": 1}),
        json!({"id": 1}),
    ] {
        let outcome = call(home, &["shop_get_order", &arguments.to_string()]);
        assert_eq!(
            outcome["error"]["code"], "INVALID_INPUT",
            "{arguments}: {outcome:#}"
        );
    }
    assert!(requests.try_recv().is_err(), "nothing was sent");
    for (id, path) in [
        ("@evil.example", "%40evil.example"),
        ("x?admin=1#y", "x%3Fadmin%3D1%23y"),
        ("%2e%2e", "%252e%252e"),
        ("//evil.example:80", "%2F%2Fevil.example%3A80"),
    ] {
        let outcome = call(home, &["shop_get_order", &json!({ "id": id }).to_string()]);
        assert_eq!(outcome["ok"], true, "{outcome:#}");
        assert_eq!(
            requests.recv().unwrap().line(),
            format!("GET /v1/orders/{path} HTTP/1.1")
        );
    }
}

#[test]
fn openapi_update_shows_the_difference_and_needs_consent() {
    let (port, _) = serve();
    let home = workspace(port);
    let home = home.path();
    assert_eq!(import(home, &["api.json", "--exclude", "missing"]).0, 0);
    grant(home);
    let update = ["tools", "import", "openapi", "--update", "--name", "shop"];
    let (code, _, err) = run(home, &update);
    assert!(code == 0 && err.contains("is up to date"), "{err}");
    let again = import(home, &["api.json"]);
    assert_eq!(
        (again.0, again.1["error"]["code"].as_str()),
        (1, Some("ALREADY_EXISTS")),
        "{again:?}"
    );

    let mut changed = document(&format!("http://127.0.0.1:{port}/v1"));
    changed["paths"]["/echo"]["get"]["summary"] = "Returns \u{202e}the request".into();
    changed["paths"]["/new"] = json!({"get": {"operationId": "brandNew"}});
    write_document(home, &changed);
    let file = home.join(".mimir/tools/shop.openapi.yml");
    let before = fs::read_to_string(&file).unwrap();
    let (code, out, err) = run(home, &update);
    assert_eq!(code, 3, "{err}");
    assert!(
        out.contains("+  - name: shop_brand_new") && err.contains("--yes"),
        "{out}{err}"
    );
    assert!(!out.contains('\u{202e}'), "{out}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let (code, _, err) = run(home, &[&update[..], &["--yes"]].concat());
    assert_eq!(code, 0, "{err}");
    let after = fs::read_to_string(&file).unwrap();
    assert!(
        after.contains("shop_brand_new") && !after.contains("shop_missing"),
        "{after}"
    );
    // The grant does not cover the new file.
    let (code, out, _) = run(home, &["call", "--json", "--approve", "never", "shop_echo"]);
    assert_eq!(code, 3, "{out}");
}

#[test]
fn openapi_file_with_a_fault_is_left_out_with_a_reason() {
    let (port, _) = serve();
    let home = workspace(port);
    let home = home.path();
    assert_eq!(import(home, &["api.json"]).0, 0);
    let file = home.join(".mimir/tools/shop.openapi.yml");
    let good = fs::read_to_string(&file).unwrap();
    for (from, to, why) in [
        (
            "request: \"GET /missing\"",
            "request: \"TRACE /missing\"",
            "`request`",
        ),
        ("name: shop_missing", "name: shop_echo", "used twice"),
        ("header: Authorization", "header: Host", "cannot be sent"),
        ("\"Bearer {secret}\"", "\"Bearer\"", "{secret}"),
        ("openapi: 1", "openapi: 2", "not supported"),
        (
            "    secrets: [SHOP_TOKEN]",
            "    secrets: [OTHER]",
            "not listed",
        ),
    ] {
        assert!(good.contains(from), "{from}: {good}");
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let (code, out, err) = run(home, &["tools", "check", ".mimir/tools/shop.openapi.yml"]);
        assert!(code == 2 && (out + &err).contains(why), "{to}: {err}");
        let (_, out, err) = run(home, &["tools", "info", "shop.openapi.yml"]);
        assert!((out.clone() + &err).contains(why), "{to}: {out}{err}");
    }
    fs::write(&file, &good).unwrap();
    assert_eq!(
        run(home, &["tools", "check", ".mimir/tools/shop.openapi.yml"]).0,
        0
    );
    let (code, _, err) = run(home, &["tools", "remove", "shop.openapi", "--yes"]);
    assert!(code == 0 && !file.exists(), "{err}");
}

#[test]
fn openapi_import_reports_documents_that_it_refuses() {
    let home = workspace(1);
    let home = home.path();
    let large = fs::File::create(home.join("large.json")).unwrap();
    large.set_len(50 << 20).unwrap();
    for (name, content, code) in [
        (
            "deep.json",
            format!("{{\"openapi\": {}", "[".repeat(1_000_000)),
            "INVALID_INPUT",
        ),
        (
            "deep.yml",
            format!("openapi: {}", "[".repeat(200_000)),
            "INVALID_INPUT",
        ),
        ("other.yml", "a: b\n".to_owned(), "INVALID_INPUT"),
        (
            "relative.yml",
            "openapi: 3.0.0\npaths: {/a: {get: {}}}\ninfo: {title: x}\n".to_owned(),
            "INVALID_INPUT",
        ),
    ] {
        fs::write(home.join(name), content).unwrap();
        let (_, report) = import(home, &[name]);
        assert_eq!(report["error"]["code"], code, "{name}: {report:#}");
    }
    let (_, report) = import(home, &["large.json"]);
    assert_eq!(report["error"]["code"], "LIMIT_EXCEEDED", "{report:#}");
    let (_, report) = import(home, &["absent.json"]);
    assert_eq!(report["error"]["code"], "FILE_NOT_FOUND", "{report:#}");
    // A server of the document cannot be reached without a grant, nor can its secret be named by another tool.
    assert!(!home.join(".mimir/tools").exists());
}
