//! Settings of the browser tools. `.ci/browser` runs tasks with a real browser.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::{Value, json};

use crate::console::RunningConsole;
use crate::kit::agent::Agent;
use crate::kit::person::{Person, Settings};
use crate::kit::{mimir, run};

/// A site whose page shows the cookies that the browser sends, and sets one. Returns its address.
fn start_cookie_site() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 8192];
            let length = stream.read(&mut request).unwrap_or_default();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let cookie = request
                .lines()
                .map(str::to_ascii_lowercase)
                .find_map(|line| Some(line.strip_prefix("cookie: ")?.to_owned()))
                .unwrap_or_else(|| "none".to_owned());
            let page =
                format!("<title>Cookies</title><p>cookies {cookie}</p><input aria-label=Field>");
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nset-cookie: kept=yes; Max-Age=3600\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n",
                page.len()
            );
            let _ = stream.write_all((head + &page).as_bytes());
        }
    });
    format!("http://127.0.0.1:{port}")
}

/// A person with these settings of browsers, and a site that is listed.
fn person(browser: &Value) -> (tempfile::TempDir, Settings, Person, String) {
    let home = tempfile::tempdir().unwrap();
    let site = start_cookie_site();
    let settings = json!({"network": {"allowedHosts": [site]}, "browser": browser});
    let settings = Settings::of(home.path(), &settings);
    let person = Person::start(mimir(home.path(), &["serve"]));
    (home, settings, person, site)
}

/// The tools that a server lists for models, with these settings of browsers.
fn listed_tools(home: &std::path::Path, browser: &Value) -> (Agent, String) {
    let _settings = Settings::of(home, &json!({ "browser": browser }));
    let mut agent = Agent::start(home);
    agent.hello(json!({}));
    let listed = agent.request("tools/list", json!({})).to_string();
    (agent, listed)
}

#[test]
fn browser_tools_are_listed_or_searched() {
    let home = tempfile::tempdir().unwrap();
    // Any file counts as a browser until it is started.
    let (mut agent, listed) = listed_tools(home.path(), &json!({"program": "/bin/sh"}));
    assert!(!listed.contains("\"browser_click\""), "{listed}");
    let found = agent.call("mimir_search_tools", json!({"query": "browser click"}));
    assert!(found.to_string().contains("browser_click"), "{found}");
    let browser = json!({"listTools": true, "program": "/bin/sh"});
    let (_agent, listed) = listed_tools(home.path(), &browser);
    assert!(listed.contains("\"browser_click\""), "{listed}");
    // That is the form of the other profile.
    assert!(!listed.contains("\"name\":\"browser\""), "{listed}");
}

#[test]
fn browser_program_is_started() {
    let home = tempfile::tempdir().unwrap();
    let settings = json!({"browser": {"program": "/no/such/browser"}, "network": {"allowedHosts": ["a.example"]}});
    let _settings = Settings::of(home.path(), &settings);
    let words = ["call", "browser_navigate", "url=https://a.example/"];
    let (code, _, err) = run(home.path(), &words);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("/no/such/browser") && err.contains("UNAVAILABLE"),
        "{err}"
    );
}

#[test]
#[ignore = "needs Chromium, which .ci/browser installs"]
fn browser_profile_keeps_cookies() {
    for (browser, second) in [
        (json!({"profile": "work"}), "cookies kept=yes"),
        (json!({}), "cookies none"),
    ] {
        let (_home, _settings, mut person, site) = person(&browser);
        let mut visit = || person.text("browser_navigate", json!({ "url": site }));
        assert!(visit().contains("cookies none"));
        person.text("browser_close", json!({}));
        let mut visit = || person.text("browser_navigate", json!({ "url": site }));
        let text = visit();
        assert!(text.contains(second), "{browser}: {text}");
    }
}

#[test]
#[ignore = "needs Chromium, which .ci/browser installs"]
fn browser_does_not_reach_a_console() {
    let home = tempfile::tempdir().unwrap();
    let hosts = json!({"mode": "any", "allowedHosts": ["127.0.0.1"], "blockPrivateIPs": false});
    let settings = json!({"network": hosts, "browser": {}});
    let _settings = Settings::of(home.path(), &settings);
    let mut person = Person::start(mimir(home.path(), &["serve"]));
    let console = RunningConsole::of(home.path());
    let page = console.link.split('#').next().unwrap();
    let text = person.text("browser_navigate", json!({ "url": page }));
    assert!(text.contains("is a console of mimir"), "{text}");
    assert!(!text.contains("console.js"), "{text}");
}

#[test]
#[ignore = "needs Chromium, which .ci/browser installs"]
fn browser_profile_serves_one_browser_at_a_time() {
    let (home, _settings, mut first, site) = person(&json!({"profile": "work"}));
    first.text("browser_navigate", json!({ "url": site }));
    let mut second = Person::start(mimir(home.path(), &["serve"]));
    let refused = second.call("browser_navigate", json!({ "url": site }));
    assert_eq!(refused["isError"], true, "{refused}");
    let refused = refused.to_string();
    assert!(
        refused.contains("another browser uses the profile `work`")
            && refused.contains("UNAVAILABLE"),
        "{refused}"
    );
    first.text("browser_close", json!({}));
    second.text("browser_navigate", json!({ "url": site }));
}

#[test]
#[ignore = "needs Chromium, which .ci/browser installs"]
fn browser_is_stopped_when_idle() {
    for (seconds, stays) in [(1, false), (600, true)] {
        let (_home, _settings, mut person, site) = person(&json!({ "idleSeconds": seconds }));
        person.text("browser_navigate", json!({ "url": site }));
        std::thread::sleep(Duration::from_secs(4));
        let result = person.call("browser_snapshot", json!({}));
        assert_eq!(result["isError"] == false, stays, "{result}");
    }
}

#[test]
#[ignore = "needs Chromium, which .ci/browser installs"]
fn browser_window_has_the_size() {
    let (_home, _settings, mut person, site) = person(&json!({"width": 640, "height": 720}));
    person.text("browser_navigate", json!({ "url": site }));
    let text = person.text(
        "browser_evaluate",
        json!({"function": "() => [outerWidth, outerHeight]"}),
    );
    assert!(text.contains("640") && text.contains("720"), "{text}");
}

#[test]
#[ignore = "needs Chromium, which .ci/browser installs"]
fn browser_memory_is_bounded_or_refused() {
    let fill = "() => { window.kept = new Uint8Array(6e8).fill(1); return 'allocated'; }";
    for (browser, is_bounded) in [(json!({"maxMemoryMb": 300}), true), (json!({}), false)] {
        let (_home, _settings, mut person, site) = person(&browser);
        let result = person.call("browser_navigate", json!({ "url": site }));
        if result["isError"] == true {
            // Without control groups, the limit is refused.
            assert!(
                is_bounded && result.to_string().contains("memory limit"),
                "{result}"
            );
            continue;
        }
        let result = person.call("browser_evaluate", json!({ "function": fill }));
        let is_allocated = result["isError"] == false && result.to_string().contains("allocated");
        assert_eq!(is_allocated, !is_bounded, "{result}");
    }
}

#[test]
#[ignore = "needs Chromium, which .ci/browser installs"]
fn browser_secret_is_entered_on_its_host_only() {
    let home = tempfile::tempdir().unwrap();
    let site = start_cookie_site();
    for (host, is_allowed) in [(site.as_str(), true), ("https://a.example", false)] {
        let settings = json!({
            "network": {"allowedHosts": [site]},
            "secrets": {"LOGIN": {"env": "LOGIN"}},
            "browser": {"secrets": {"LOGIN": [host]}}
        });
        let _settings = Settings::of(home.path(), &settings);
        let mut serve = mimir(home.path(), &["serve"]);
        serve.env("LOGIN", "correct-horse-battery");
        let mut person = Person::start(serve);
        person.text("browser_navigate", json!({ "url": site }));
        let result = person.call(
            "browser_type",
            json!({"target": "input", "secret": "LOGIN"}),
        );
        assert_eq!(result["isError"] == false, is_allowed, "{result}");
        assert!(!result.to_string().contains("correct-horse"), "{result}");
        let length = json!({"function": "() => document.querySelector('input').value.length"});
        let length = person.text("browser_evaluate", length);
        let expected = if is_allowed { "21" } else { "0" };
        assert!(length.contains(expected), "{length}");
    }
}

#[test]
fn browser_settings_of_a_project_need_acceptance() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    let settings = json!({"browser": {"program": "/no/such/browser"}});
    fs::write(home.path().join(".mimir/config.yml"), settings.to_string()).unwrap();
    let (_, _, err) = run(home.path(), &["call", "read_file", "path=none.txt"]);
    assert!(
        err.contains("browser") && err.contains("mimir policy accept"),
        "{err}"
    );
}

/// `filename` saves a screenshot by a call of `write_file`, whose rules apply; it is returned in any case.
#[test]
#[ignore = "needs Chromium, which .ci/browser installs"]
fn browser_screenshot_is_saved_under_the_rules_of_write_file() {
    let (home, _settings, mut person, site) = person(&json!({}));
    person.text("browser_navigate", json!({ "url": site }));
    let mut shoot = |file: &str| {
        person
            .call("browser_take_screenshot", json!({ "filename": file }))
            .to_string()
    };
    let saved = shoot("shots/page.png");
    assert!(
        saved.contains("saved in `shots/page.png`") && saved.contains("image/png"),
        "{saved}"
    );
    let bytes = fs::read(home.path().join("shots/page.png")).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));
    // Attacks: files that no tool may write.
    for file in [
        ".mimir/config.yml",
        "../outside.png",
        ".git/hooks/post-commit",
    ] {
        let refused = shoot(file);
        assert!(
            refused.contains("not saved in") && refused.contains("image/png"),
            "{file}: {refused}"
        );
    }
    assert!(!home.path().join("../outside.png").exists());
    assert!(!home.path().join(".git/hooks/post-commit").exists());
    let pdf = person.call("browser_pdf_save", json!({"filename": "page.pdf"}));
    assert!(pdf.to_string().contains("saved in `page.pdf`"), "{pdf}");
    assert!(
        fs::read(home.path().join("page.pdf"))
            .unwrap()
            .starts_with(b"%PDF")
    );
}
