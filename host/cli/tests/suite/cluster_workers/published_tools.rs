//! Tools and settings that an administrator publishes: tools of each runtime, tools that cannot be used, and settings that
//! were not accepted.

use std::fs;

use serde_json::{Value, json};

use super::settings::Administrator;
use super::{Deployment, SETTINGS, call, eventually, home_in, outcome, text, write_settings};
use crate::kit::{plugin, run};
use crate::serve_http::Serving;

/// The tools from templates, each with its language.
const SCRIPTS: [(&str, &str); 4] = [
    ("hi_ts", "yaml-ts"),
    ("hi_js", "yaml-js"),
    ("hi_python", "yaml-python"),
    ("hi_bash", "yaml-bash"),
];

/// Starts a server that runs its calls itself.
fn serve_without_pool(deployment: &Deployment, settings: &str) -> Serving {
    let home = home_in(&deployment.folder, "own");
    fs::create_dir_all(home.join(".mimir")).unwrap();
    fs::write(home.join("notes.md"), "remember the milk\n").unwrap();
    write_settings(&home, settings);
    let url = deployment.nats.url();
    Serving::start(&home, &["--nats", &url, "--workspace-name", "main"])
}

/// Trusts the current build of a tool, as a person would who has reviewed it.
fn trust(admin: &Administrator, tool: &str) {
    let (_, info) = admin.run(&["tools", "info", tool]);
    let digest = info["digest"].as_str().unwrap();
    let (code, trusted) = admin.run(&["tools", "trust", tool, "--digest", digest]);
    assert_eq!(code, 0, "{trusted}");
}

#[test]
#[ignore = "needs nats-server"]
fn published_tools_of_each_runtime_run_with_and_without_workers() {
    let mut deployment = Deployment::start();
    let admin = Administrator::new(&deployment, "admin");
    for (name, language) in SCRIPTS {
        let (code, out, error) = run(&admin.home, &["tools", "new", name, "--lang", language]);
        assert_eq!(code, 0, "{out}{error}");
    }
    fs::write(admin.home.join(".mimir/tools/prob.wasm"), plugin::search()).unwrap();
    trust(&admin, "hi_bash");
    trust(&admin, "prob_search");
    admin.publish();
    let settings = format!("{SETTINGS}  hi_bash: {{approval: allow}}\n");
    let _worker = deployment.worker_with(&settings, &[]);
    let own = serve_without_pool(&deployment, &settings);
    for serving in [deployment.serve(""), own] {
        let search = json!({"mode": "glob", "query": "*.md"});
        eventually("the component is described", || {
            call(&serving, "prob_search", search.clone())["isError"] == false
        });
        let listed = call(&serving, "prob_search", search.clone());
        assert!(text(&listed).contains("notes.md"), "{listed}");
        for (name, _) in SCRIPTS {
            let result = call(&serving, name, json!({"name": "you"}));
            assert!(text(&result).contains("Hello, you!"), "{name}: {result}");
        }
    }
    // The granted tools are in the lock file of the deployment, and their files are only beside it.
    let status = admin.done(&["cluster", "status"]);
    for node in status["nodes"].as_array().unwrap() {
        assert_eq!(node["deployment"]["leftOut"], Value::Null, "{node}");
    }
}

#[test]
#[ignore = "needs nats-server"]
fn published_tool_that_cannot_be_used_is_reported_with_its_problem() {
    let mut deployment = Deployment::start();
    let admin = Administrator::new(&deployment, "admin");
    let tools = admin.home.join(".mimir/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("broken.yml"), "name: broken\n").unwrap();
    fs::write(tools.join("damaged.wasm"), "no component").unwrap();
    let (published, error) = admin.publish_and_listen();
    assert_eq!(published["leftOut"].as_array().map(Vec::len), Some(2));
    for part in [
        "the nodes cannot use this tool: .mimir/tools/broken.yml: ",
        "missing field `description`",
        "  new: tools/broken.yml",
        "no running node has the workspace main and uses this; no node is running",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let _worker = deployment.worker(&[]);
    let own = serve_without_pool(&deployment, SETTINGS);
    let problem = "missing field `description`";
    let line = "left out: .mimir/tools/broken.yml: ";
    assert!(
        own.said.contains(line) && own.said.contains(problem),
        "{}",
        own.said
    );
    for serving in [deployment.serve(""), own] {
        let refused = call(&serving, "broken", json!({})).to_string();
        assert!(refused.contains(problem), "{refused}");
    }
    eventually("the status names the tools", || {
        let status = admin.done(&["cluster", "status"]);
        let nodes = status["nodes"].as_array().unwrap().iter();
        let left_out = nodes.map(|node| node["deployment"]["leftOut"].to_string());
        let reported =
            left_out.filter(|lines| lines.contains(problem) && lines.contains("damaged.wasm"));
        reported.count() == 2
    });
    let (_, out, error) = run(
        &admin.home,
        &["cluster", "status", "--nats", &deployment.nats.url()],
    );
    let shown = "cannot use a tool: .mimir/tools/broken.yml";
    assert!(out.contains(shown), "{out}{error}");

    fs::remove_file(tools.join("broken.yml")).unwrap();
    fs::remove_file(tools.join("damaged.wasm")).unwrap();
    fs::write(admin.home.join(".mimir/config.yml"), "profile: fine\n").unwrap();
    admin.publish();
    eventually("the status names no tools", || {
        let status = admin.done(&["cluster", "status"]);
        let nodes = status["nodes"].as_array().unwrap().iter();
        nodes
            .map(|node| &node["deployment"]["leftOut"])
            .all(Value::is_null)
    });
}

#[test]
#[ignore = "needs nats-server"]
fn settings_that_are_not_accepted_are_named_when_they_are_published() {
    let mut deployment = Deployment::start();
    let admin = Administrator::new(&deployment, "admin");
    let config = admin.home.join(".mimir/config.yml");
    fs::write(&config, "tools: {write_file: {approval: allow}}\n").unwrap();
    assert_eq!(run(&admin.home, &["policy", "accept", "--yes"]).0, 0);
    let accepted = admin.publish();
    assert_eq!(accepted["withheld"], Value::Null, "{accepted}");
    let _worker = deployment.worker_with("", &[]);
    let serving = deployment.serve("");
    let write = || {
        call(
            &serving,
            "write_file",
            json!({"path": "a.txt", "content": "a"}),
        )
    };
    eventually("the setting counts", || write()["isError"] == false);

    fs::write(&config, "tools: {write_file: {approval: allow}}\n# more\n").unwrap();
    let (published, error) = admin.publish_and_listen();
    let withheld = "tools.write_file.approval: allow";
    assert_eq!(published["withheld"], json!([withheld]));
    assert!(error.contains(withheld), "{error}");
    assert!(
        error.contains("`mimir policy accept` here, then publish again"),
        "{error}"
    );
    eventually("the setting is withdrawn", || write()["isError"] == true);
    assert_eq!(run(&admin.home, &["policy", "accept", "--yes"]).0, 0);
    let accepted = admin.publish();
    assert_eq!(accepted["withheld"], Value::Null, "{accepted}");
    eventually("the setting counts again", || write()["isError"] == false);
    assert_eq!(outcome(&write())["code"], Value::Null);
}

#[test]
#[ignore = "needs nats-server"]
fn worker_that_drains_names_the_background_commands_that_end_with_it() {
    let mut deployment = Deployment::start();
    let worker = deployment.worker(&[]);
    let serving = deployment.serve("");
    let command = json!({"command": "sleep 40", "background": true});
    let started = call(&serving, "exec", command);
    assert_eq!(started["isError"], false, "{started}");
    let messages = std::sync::Arc::clone(&worker.1);
    worker.signal("-TERM");
    assert_eq!(worker.wait(), Some(0));
    eventually("the worker names the command", || {
        let messages = messages.lock().unwrap();
        messages.contains("1 background command ends with the last call: sleep (job 1)")
    });
}
