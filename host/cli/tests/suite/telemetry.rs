//! Telemetry of the whole program: OTLP requests, metrics for Prometheus, JSON logs, and alarms of canaries.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::kit::json_site::{self, ReceivedRequest};
use crate::kit::{config, mimir, run, scripts};
use crate::serve_http::{Serving, message};

/// Text in arguments, results and names that must never be exported.
const MARKER: &str = "marker-5d41402abc4b";

/// How long a test waits for a request that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes the user's settings.
fn set(home: &Path, settings: &Value) {
    let folder = config(home);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yml"), settings.to_string()).unwrap();
}

fn store_secret(home: &Path, name: &str, value: &str) {
    let mut command = mimir(home, &["secrets", "set", name, "--file"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(value.as_bytes()).unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

/// Requests to a collector that accepts everything.
struct Collector {
    port: u16,
    requests: Receiver<ReceivedRequest>,
    seen: Vec<ReceivedRequest>,
}

impl Collector {
    fn start() -> Self {
        let (port, requests) = json_site::serve(|_| ("200 OK", "{}".to_owned()));
        Self {
            port,
            requests,
            seen: Vec::new(),
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits until the requests fulfil a condition.
    fn wait(&mut self, is_fulfilled: impl Fn(&Self) -> bool) {
        while !is_fulfilled(self) {
            let request = self.requests.recv_timeout(PATIENCE);
            let seen: Vec<&str> = self.seen.iter().map(ReceivedRequest::path).collect();
            self.seen
                .push(request.unwrap_or_else(|_| panic!("no further request: {seen:?}")));
        }
    }

    /// Takes the requests that have arrived.
    fn drain(&mut self) {
        self.seen.extend(self.requests.try_iter());
    }

    fn bodies(&self, path: &str) -> Vec<Value> {
        let requests = self.seen.iter().filter(|request| request.path() == path);
        requests
            .map(|request| serde_json::from_str(&request.body).unwrap())
            .collect()
    }

    fn spans(&self) -> Vec<Value> {
        items(
            &self.bodies("/v1/traces"),
            "resourceSpans",
            "scopeSpans",
            "spans",
        )
    }

    fn metric_names(&self) -> BTreeSet<String> {
        let bodies = self.bodies("/v1/metrics");
        let metrics = items(&bodies, "resourceMetrics", "scopeMetrics", "metrics");
        let names = metrics.iter().filter_map(|metric| metric["name"].as_str());
        names.map(str::to_owned).collect()
    }
}

fn items(bodies: &[Value], resources: &str, scopes: &str, items: &str) -> Vec<Value> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let resources = bodies.iter().flat_map(|body| list(body, resources));
    let scopes = resources.flat_map(|resource| list(&resource, scopes));
    scopes.flat_map(|scope| list(&scope, items)).collect()
}

fn attribute<'a>(item: &'a Value, name: &str) -> Option<&'a Value> {
    let all = item["attributes"].as_array()?;
    let found = all.iter().find(|attribute| attribute["key"] == name)?;
    let value = found["value"].as_object()?;
    value.values().next()
}

/// Calls a tool by the protocol since 2026-07-28.
fn call(serving: &Serving, id: u64, tool: &str, arguments: Value, trace: Option<&str>) -> Value {
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    if let Some(trace) = trace {
        params["_meta"]["traceparent"] = trace.into();
    }
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    let answer = serving.post(&headers, &message(id, "tools/call", params));
    answer.message(id)
}

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn telemetry_exports_calls_without_content() {
    let mut collector = Collector::start();
    let code = "export async function execute(args, { tools }) {\n  return await tools.call('read_file', { path: 'notes.md' });\n}";
    let outer = scripts::tool("outer_tool", code);
    let home = scripts::workspace(&[("outer_tool.yml", &outer)]);
    fs::write(home.path().join("notes.md"), format!("{MARKER}\n")).unwrap();
    set(
        home.path(),
        &json!({
            "telemetry": {
                "endpoint": collector.url(),
                "headers": {"x-collector-token": "${COLLECTOR_TOKEN}"},
                "signals": ["traces", "metrics", "logs"],
                "intervalMs": 1000,
                "attributes": {"deployment.environment.name": "test"},
            },
        }),
    );
    store_secret(home.path(), "COLLECTOR_TOKEN", "token-0123456789");
    let called = run(
        home.path(),
        &["call", "--json", "--approve", "always", "outer_tool"],
    );
    assert_eq!(called.0, 0, "{}{}", called.1, called.2);
    assert!(called.1.contains(MARKER), "{}", called.1);
    let serving = Serving::start(home.path(), &[]);
    let read = call(
        &serving,
        1,
        "read_file",
        json!({"path": "notes.md"}),
        Some(TRACE),
    );
    assert!(read.to_string().contains(MARKER), "{read}");
    call(
        &serving,
        2,
        &format!("tool_{MARKER}"),
        json!({"x": MARKER}),
        None,
    );
    collector.wait(|collector| {
        let (names, spans) = (collector.metric_names(), collector.spans());
        let has_span = |name: &str| spans.iter().any(|span| span["name"] == name);
        has_span("tools/call read_file")
            && has_span("tools/call")
            && names.contains("mcp.server.operation.duration")
            && !collector.bodies("/v1/logs").is_empty()
    });
    let spans = collector.spans();
    let named = |name: &str| {
        let mut all = spans.iter();
        all.find(|span| span["name"] == name)
            .unwrap_or_else(|| panic!("no span {name}: {spans:#?}"))
    };
    let server = named("tools/call read_file");
    assert_eq!(server["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(server["parentSpanId"], "b7ad6b7169203331");
    for (name, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "read_file"),
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2026-07-28"),
        ("network.transport", "tcp"),
        ("mimir.decision", "allow"),
        ("mimir.tool.source", "built-in"),
    ] {
        assert_eq!(attribute(server, name), Some(&value.into()), "{name}");
    }
    // Calls within a call are part of its trace.
    let (outer, nested) = (
        named("execute_tool outer_tool"),
        named("execute_tool read_file"),
    );
    assert_eq!(nested["traceId"], outer["traceId"]);
    assert_eq!(nested["parentSpanId"], outer["spanId"]);
    let unknown = named("tools/call");
    assert_eq!(attribute(unknown, "error.type"), Some(&"NOT_FOUND".into()));
    for request in &collector.seen {
        assert!(
            !request.body.contains(MARKER) && !request.body.contains("notes.md"),
            "{}: {}",
            request.path(),
            request.body
        );
        assert!(request.has_header("x-collector-token: token-0123456789"));
        assert!(!request.body.contains("token-0123456789"));
        assert!(request.body.contains("deployment.environment.name"));
    }
}

#[test]
fn telemetry_metrics_are_sent_at_the_interval() {
    let mut collector = Collector::start();
    let home = scripts::workspace(&[]);
    let telemetry =
        json!({"endpoint": collector.url(), "signals": ["metrics"], "intervalMs": 1000});
    set(home.path(), &json!({ "telemetry": telemetry }));
    let serving = Serving::start(home.path(), &[]);
    // Not at the end, but while the server runs, and again and again.
    collector.wait(|collector| collector.bodies("/v1/metrics").len() >= 3);
    drop(serving);
    assert!(collector.spans().is_empty());
}

#[test]
fn telemetry_samples_new_traces_only() {
    let mut collector = Collector::start();
    let home = scripts::workspace(&[]);
    fs::write(home.path().join("a.txt"), "a").unwrap();
    let telemetry = json!({"endpoint": collector.url(), "signals": ["traces"], "sampleRatio": 0});
    set(home.path(), &json!({ "telemetry": telemetry }));
    let serving = Serving::start(home.path(), &[]);
    let path = json!({"path": "a.txt"});
    call(&serving, 1, "read_file", path.clone(), None);
    call(
        &serving,
        2,
        "read_file",
        path.clone(),
        Some(&TRACE.replace("-01", "-00")),
    );
    call(&serving, 3, "read_file", path, Some(TRACE));
    // The span of a request ends after those within it, which may be sent before.
    collector.wait(|collector| collector.spans().iter().any(|span| span["kind"] == 2));
    let spans = collector.spans();
    let servers: Vec<_> = spans.iter().filter(|span| span["kind"] == 2).collect();
    assert_eq!(servers.len(), 1, "{spans:#?}");
    assert_eq!(servers[0]["parentSpanId"], "b7ad6b7169203331");
}

#[test]
fn telemetry_of_a_project_waits_for_acceptance() {
    let mut collector = Collector::start();
    let home = scripts::workspace(&[]);
    fs::write(home.path().join("a.txt"), "a").unwrap();
    let settings = json!({
        "telemetry": {"endpoint": collector.url()}, "alerts": {"webhook": collector.url()},
    });
    fs::write(home.path().join(".mimir/config.yml"), settings.to_string()).unwrap();
    let read = ["call", "read_file", "path=a.txt"];
    let (code, _, err) = run(home.path(), &read);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("telemetry"), "{err}");
    collector.drain();
    assert!(collector.seen.is_empty());
    assert_eq!(run(home.path(), &["policy", "accept", "--yes"]).0, 0);
    assert_eq!(run(home.path(), &read).0, 0);
    collector.wait(|collector| !collector.spans().is_empty());
}

#[test]
fn telemetry_variables_of_opentelemetry_count_unless_disabled() {
    let mut collector = Collector::start();
    let home = scripts::workspace(&[]);
    fs::write(home.path().join("a.txt"), "a").unwrap();
    let read = |more: &[(&str, &str)]| {
        let mut command = mimir(home.path(), &["call", "read_file", "path=a.txt"]);
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
            .env("OTEL_SERVICE_NAME", "my-tools")
            .envs(more.iter().copied());
        assert!(command.output().unwrap().status.success());
    };
    read(&[("OTEL_SDK_DISABLED", "true")]);
    read(&[]);
    collector.wait(|collector| !collector.spans().is_empty());
    let services: Vec<_> = collector.bodies("/v1/traces");
    assert_eq!(services.len(), 1, "the disabled call sent nothing");
    let resource = &services[0]["resourceSpans"][0]["resource"];
    assert_eq!(
        attribute(resource, "service.name"),
        Some(&"my-tools".into())
    );
}

#[test]
fn telemetry_collector_that_never_answers_fails_no_call() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let home = scripts::workspace(&[]);
    fs::write(home.path().join("a.txt"), "a").unwrap();
    let signals = ["traces", "metrics", "logs"];
    set(
        home.path(),
        &json!({"telemetry": {"endpoint": endpoint, "signals": signals}}),
    );
    let serving = Serving::start(home.path(), &[]);
    for id in 0..200 {
        let read = call(&serving, id, "read_file", json!({"path": "a.txt"}), None);
        assert_eq!(read["result"]["isError"], false, "{read}");
    }
    drop(serving);
    let (code, out, err) = run(home.path(), &["call", "read_file", "path=a.txt"]);
    assert_eq!((code, out.contains('a')), (0, true), "{err}");
}

#[test]
fn telemetry_dashboard_uses_metrics_that_exist() {
    let home = scripts::workspace(&[]);
    let (code, dashboard, _) = run(home.path(), &["telemetry", "dashboard"]);
    assert_eq!(code, 0);
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let serving = Serving::start(home.path(), &[]);
    let shown = serving.get("/metrics");
    let mut known: BTreeSet<String> = shown
        .lines()
        .filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned()))
        .collect();
    let instruments = mimir_telemetry::Instrument::ALL;
    known.extend(instruments.map(|it| it.definition().prometheus.to_owned()));
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let mut used = 0;
    for expression in expressions {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| {
            ["mimir_", "mcp_", "process_"]
                .iter()
                .any(|it| word.starts_with(it))
        }) {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end));
            let is_known = known.contains(name) || base.is_some_and(|base| known.contains(base));
            assert!(is_known, "{name} in {expression}");
            used += 1;
        }
    }
    assert!(used > 20, "{used}");
}

#[test]
fn serve_metrics_have_histograms_of_calls() {
    let home = scripts::workspace(&[]);
    fs::write(home.path().join("a.txt"), "a").unwrap();
    let serving = Serving::start(home.path(), &[]);
    call(&serving, 1, "read_file", json!({"path": "a.txt"}), None);
    call(&serving, 2, MARKER, json!({}), None);
    let metrics = serving.get("/metrics");
    for line in [
        "# TYPE mcp_server_operation_duration_seconds histogram",
        "mimir_call_duration_seconds_bucket{tool=\"read_file\",le=\"+Inf\"} 1",
        "mimir_call_duration_seconds_count{tool=\"read_file\"} 1",
        "mimir_call_decisions_total{tool=\"read_file\",decision=\"allow\",code=\"OK\"} 1",
        "mimir_call_decisions_total{tool=\"unknown\",decision=\"none\",code=\"NOT_FOUND\"} 1",
        "mimir_audit_record_seconds_count",
        "mimir_calls_active 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(!metrics.contains(MARKER), "{metrics}");
}

#[test]
fn serve_log_format_json_writes_one_object_per_line() {
    let home = scripts::workspace(&[]);
    let arguments = ["serve", "--http", "127.0.0.1:0", "--log-format", "json"];
    let mut child = mimir(home.path(), &arguments)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = loop {
        let line = lines.next().unwrap().unwrap();
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        if line["message"].as_str().unwrap().contains("serves MCP at") {
            break line;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        (&line["level"], &line["target"]),
        (&"INFO".into(), &"mimir".into())
    );
    assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
}

/// Creates a canary and returns its value.
fn canary(home: &Path, name: &str, shape: &str) -> String {
    let (code, out, err) = run(home, &["secrets", "canary", "add", name, "--shape", shape]);
    assert_eq!(code, 0, "{err}");
    out.trim().to_owned()
}

/// Returns the alarms in the audit log.
fn alarms(home: &Path) -> Vec<Value> {
    let (_, out, _) = run(home, &["audit", "show", "--event", "canary", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    shown["events"].as_array().unwrap().clone()
}

#[test]
fn canary_that_leaves_raises_an_alarm() {
    let mut webhook = Collector::start();
    let home = scripts::workspace(&[]);
    set(
        home.path(),
        &json!({
            "alerts": {"webhook": format!("{}/hook", webhook.url()), "headers": {"x-hook": "${HOOK_TOKEN}"}},
            "network": {"allowedHosts": ["127.0.0.1"]},
        }),
    );
    store_secret(home.path(), "HOOK_TOKEN", "hook-0123456789");
    let value = canary(home.path(), "DEPLOY_TOKEN", "github");
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let reversed: String = value.chars().rev().collect();
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("x{value}y"));
    for (at, form) in [&value, &hex, &percent, &reversed, &encoded]
        .into_iter()
        .enumerate()
    {
        let name = format!("planted-{at}.txt");
        fs::write(home.path().join(&name), format!("key = {form}\n")).unwrap();
        let (_, out, err) = run(
            home.path(),
            &["call", "--json", "read_file", &format!("path={name}")],
        );
        assert!(!out.contains(form.as_str()), "{form}: {out}{err}");
        assert_eq!(alarms(home.path()).len(), at + 1, "{form}: {out}{err}");
    }
    webhook.wait(|webhook| !webhook.seen.is_empty());
    let request = &webhook.seen[0];
    assert_eq!(request.path(), "/hook");
    assert!(
        request.has_header("x-hook: hook-0123456789"),
        "{}",
        request.head
    );
    let alarm: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(
        (
            &alarm["event"],
            &alarm["secret"],
            &alarm["direction"],
            &alarm["tool"]
        ),
        (
            &"canary".into(),
            &"DEPLOY_TOKEN".into(),
            &"result".into(),
            &"read_file".into()
        )
    );
    assert!(!request.body.contains(&value), "{}", request.body);

    // A request with the canary is refused before it is sent.
    let known = alarms(home.path()).len();
    let url = format!("url=http://127.0.0.1:{}/?q={value}", webhook.port);
    let (code, out, err) = run(
        home.path(),
        &["call", "--json", "--approve", "always", "web_fetch", &url],
    );
    assert_eq!(code, 3, "{out}{err}");
    let found = alarms(home.path());
    assert_eq!(found.len(), known + 1, "{found:#?}");
    let newest = found
        .iter()
        .find(|alarm| alarm["direction"] == "arguments")
        .unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(newest["subject"], "DEPLOY_TOKEN");
    webhook.drain();
    assert!(webhook.seen.iter().all(|request| request.path() == "/hook"));
}

#[test]
fn canary_is_told_apart_in_the_list_and_can_be_removed() {
    let home = scripts::workspace(&[]);
    let value = canary(home.path(), "AWS_KEY", "aws");
    assert!(value.starts_with("AKIA"), "{value}");
    let (_, listed, _) = run(home.path(), &["secrets", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["secrets"][0]["canary"], true);
    let again = run(home.path(), &["secrets", "canary", "add", "AWS_KEY"]);
    assert_eq!(again.0, 2, "{}", again.2);
    assert_eq!(run(home.path(), &["secrets", "remove", "AWS_KEY"]).0, 0);
    fs::write(home.path().join("a.txt"), &value).unwrap();
    run(home.path(), &["call", "read_file", "path=a.txt"]);
    assert!(alarms(home.path()).is_empty());
}
