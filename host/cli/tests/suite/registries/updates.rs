//! `mimir tools update`, and the messages about files, signers and sources that are not as expected.

use std::fs;

use serde_json::json;

use super::{RegistryWorkspace, TOOL, changed_plugin};
use crate::kit::{self, plugin};

/// Returns the ID of a key of the user.
fn key_id(work: &RegistryWorkspace, name: &str) -> String {
    let (code, keys) = work.json(&["keys", "list"]);
    assert_eq!(code, 0, "{keys}");
    let keys = keys["keys"].as_array().unwrap();
    let key = keys.iter().find(|key| key["name"] == name).unwrap();
    key["id"].as_str().unwrap().to_owned()
}

#[test]
fn tools_update_names_both_signers() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    work.key("other");
    work.configure(&work.trust("acme"));
    work.push(&plugin::search(), "1", &["--sign", "acme"]);
    assert_eq!(work.add("1", &[]).0, 0);
    let (old, new) = (key_id(&work, "acme"), key_id(&work, "other"));
    assert_ne!(old, new);
    let (code, out, _) = work.run(&["tools", "update"]);
    assert!(code == 0 && out.contains(&old), "{code}: {out}");
    let (_, out, _) = work.run(&["tools", "verify"]);
    assert!(
        out.contains(&format!("signed by key acme ({old})")),
        "{out}"
    );

    work.push(&changed_plugin(), "1", &["--force", "--sign", "other"]);
    let (code, out, _) = work.run(&["tools", "update", "--yes"]);
    assert_eq!(code, 3, "{out}");
    assert!(out.contains(&old) && out.contains(&new), "{out}");
    let both = work.trust("acme").replace("[acme]", "[acme, other]");
    work.configure(&both);
    let (code, out, err) = work.run(&["tools", "update", "--yes"]);
    assert_eq!(code, 0, "{out}{err}");
    for text in [out, err] {
        assert!(text.contains(&old) && text.contains(&new), "{text}");
    }
}

#[test]
fn tools_verify_and_update_name_the_tag_in_the_signature() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    work.configure(&work.trust("acme"));
    work.push(&plugin::search(), "1", &["--sign", "acme"]);
    let manifest = work.registry.manifest("acme/prob:1");
    work.registry.put_manifest("acme/prob:stable", &manifest);
    assert_eq!(work.add("stable", &[]).0, 0);
    let (code, out, err) = work.run(&["tools", "verify"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.contains("signed as") && out.contains("acme/prob:1"),
        "{out}"
    );
}

#[test]
fn tools_of_a_clone_without_components_name_the_remedy() {
    let work = RegistryWorkspace::new();
    let component = plugin::search();
    work.push(&component, "1", &[]);
    assert_eq!(work.add("1", &[]).0, 0);
    let (_, info) = work.json(&["tools", "info", "prob_search"]);
    let digest = info["digest"].as_str().unwrap().to_owned();
    let (code, _, err) = work.run(&["tools", "trust", "prob_search", "--digest", &digest]);
    assert_eq!(code, 0, "{err}");
    fs::remove_file(work.tool()).unwrap();

    for name in ["prob_search", "prob"] {
        let (code, out, err) = work.run(&["call", name, "query=x"]);
        assert_eq!(code, 2, "{out}{err}");
        assert!(
            err.contains("the file .mimir/tools/prob.wasm is missing"),
            "{err}"
        );
        assert!(err.contains("mimir tools vendor"), "{err}");
    }
    let (code, listed) = work.json(&["tools", "list"]);
    assert_eq!(code, 0, "{listed}");
    assert_eq!(listed["quarantined"][0]["location"], TOOL);
    assert_eq!(listed["quarantined"][0]["code"], "FILE_NOT_FOUND");
    let (code, updates) = work.json(&["tools", "update"]);
    assert_eq!(code, 1, "{updates}");
    assert_eq!(updates["updates"][0]["status"], "failed");
    assert_eq!(updates["updates"][0]["error"]["code"], "FILE_NOT_FOUND");
    // Built-in tools do not mention it.
    let (code, _, err) = work.run(&["call", "file_search", "mode=glob", "query=*.none"]);
    assert!(code == 0 && !err.contains("prob"), "{code}: {err}");

    let (code, out, err) = work.run(&["tools", "vendor"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(fs::read(work.tool()).unwrap(), component);
    let (code, checked) = work.json(&["tools", "verify"]);
    assert_eq!(code, 0, "{checked}");
    assert_eq!(checked["files"][0]["granted"], true);
    fs::write(work.path().join("a.txt"), "needle").unwrap();
    let (code, out, err) = work.run(&[
        "call",
        "--approve",
        "never",
        "prob_search",
        "mode=glob",
        "query=*",
    ]);
    assert!(code == 0 && out.contains("a.txt"), "{out}{err}");
}

#[test]
fn tools_verify_of_a_changed_file_names_ways_that_work() {
    let work = RegistryWorkspace::new();
    let component = plugin::search();
    work.push(&component, "1", &[]);
    assert_eq!(work.add("1", &[]).0, 0);
    let change = || fs::write(work.tool(), changed_plugin()).unwrap();
    change();
    let (code, out, _) = work.run(&["tools", "verify"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("mimir tools vendor"), "{out}");
    assert!(
        out.contains("mimir tools add .mimir/tools/prob.wasm --force"),
        "{out}"
    );
    // To restore it.
    fs::remove_file(work.tool()).unwrap();
    assert_eq!(work.run(&["tools", "vendor"]).0, 0);
    assert_eq!(fs::read(work.tool()).unwrap(), component);
    assert_eq!(work.run(&["tools", "verify"]).0, 0);
    // To accept it.
    change();
    let (code, _, err) = work.run(&["tools", "add", ".mimir/tools/prob.wasm", "--force"]);
    assert_eq!(code, 0, "{err}");
    let accept = || {
        let (_, info) = work.json(&["tools", "info", "prob_search"]);
        let digest = info["digest"].as_str().unwrap().to_owned();
        let (code, _, err) = work.run(&["tools", "trust", "prob_search", "--digest", &digest]);
        assert_eq!(code, 0, "{err}");
    };
    accept();
    assert_eq!(work.run(&["tools", "vendor"]).0, 0);
    assert_eq!(work.run(&["tools", "verify"]).0, 0);

    // A file that was pinned as local.
    fs::write(work.tool(), &component).unwrap();
    let (code, out, _) = work.run(&["tools", "verify"]);
    assert!(code == 1 && out.contains("mimir tools trust prob"), "{out}");
    accept();
    let (code, out, _) = work.run(&["tools", "verify"]);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn registry_on_this_machine_names_the_setting_that_allows_it() {
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    fs::write(kit::config(work.path()).join("config.yml"), "").unwrap();
    let (code, _, err) = work.add("1", &[]);
    assert_ne!(code, 0, "{err}");
    let command = "mimir config set --user network.allowedHosts '[\"127.0.0.1\"]'";
    assert!(err.contains(command), "{err}");
    let set = [
        "config",
        "set",
        "--user",
        "network.allowedHosts",
        "[\"127.0.0.1\"]",
    ];
    assert_eq!(work.run(&set).0, 0);
    let (code, _, err) = work.add("1", &[]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn tools_add_without_a_registry_shows_a_reference() {
    let work = RegistryWorkspace::new();
    let (code, _, err) = work.run(&["tools", "add", "acme/weather:1.0"]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("registry.example.com/acme/weather:1.0"),
        "{err}"
    );
    assert!(work.registry.requests().is_empty());
}

#[test]
fn enforcement_is_told_before_a_component_is_fetched_or_built() {
    let work = RegistryWorkspace::new();
    fs::write(work.path().join("prob.wasm"), plugin::search()).unwrap();
    let policy = work.path().parent().unwrap().join(format!(
        "{}-team.yml",
        work.path().file_name().unwrap().to_str().unwrap()
    ));
    let run = |rule: &str, args: &[&str]| {
        fs::write(&policy, format!("enforcement: {{{rule}: true}}\n")).unwrap();
        work.run_with(args, &[("MIMIR_TEAM_POLICY", policy.to_str().unwrap())])
    };
    let reference = work.reference("1");
    for (rule, source) in [
        ("requireSignature", "prob.wasm"),
        ("requireSignature", "npm:weather"),
        ("disableLocalTools", "prob.wasm"),
        ("disableLocalTools", &reference),
    ] {
        let (code, _, err) = run(rule, &["tools", "add", source]);
        assert_eq!(code, 3, "{err}");
        assert!(err.contains(&format!("enforcement.{rule}")), "{err}");
        assert!(err.contains("team"), "{err}");
    }
    assert!(work.registry.requests().is_empty());
    assert!(!work.tool().exists());
    let (_, events) = work.json(&["audit", "show"]);
    assert!(
        events.to_string().contains("enforcement.requireSignature"),
        "{events}"
    );

    // A build is reported before it starts: the plugin does not exist.
    fs::create_dir(work.path().join("built")).unwrap();
    fs::write(
        work.path().join("built/package.json"),
        json!({"name": "built"}).to_string(),
    )
    .unwrap();
    fs::write(work.path().join("built/tool.js"), "not valid (").unwrap();
    let (code, _, err) = run("requireSignature", &["tools", "build", "built"]);
    assert_eq!(code, 1, "{err}");
    let warning = err.find("enforcement.requireSignature").unwrap();
    assert!(warning < err.find("error:").unwrap(), "{err}");
    fs::remove_file(&policy).unwrap();
}

#[test]
fn missing_file_without_a_source_is_removed_as_the_message_says() {
    let work = RegistryWorkspace::new();
    fs::create_dir_all(work.path().join(".mimir/tools")).unwrap();
    fs::write(work.tool(), plugin::search()).unwrap();
    assert_eq!(work.run(&["tools", "vendor"]).0, 0);
    assert!(work.lock().contains("reference: local"), "{}", work.lock());
    fs::remove_file(work.tool()).unwrap();
    let (code, checked) = work.json(&["tools", "verify"]);
    assert_eq!(code, 1, "{checked}");
    let problem = checked["files"][0]["problems"][0].as_str().unwrap();
    assert!(problem.contains("mimir tools remove prob"), "{problem}");
    assert!(!problem.contains("vendor"), "{problem}");
    let (_, listed) = work.json(&["tools", "list"]);
    let reason = &listed["quarantined"][0]["reason"];
    assert_eq!(reason, problem, "{listed}");
    let (code, out, err) = work.run(&["tools", "remove", "prob", "--yes"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!work.lock().contains("prob"), "{}", work.lock());
    assert_eq!(work.run(&["tools", "verify"]).0, 0);
    // The second time, nothing is left.
    let (code, out, err) = work.run(&["tools", "remove", "prob", "--yes"]);
    assert_ne!(code, 0, "{out}{err}");
}

#[test]
fn unknown_tool_of_a_clone_may_be_in_a_missing_file() {
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    // Without a grant, the lock file does not know the names of its tools.
    assert_eq!(work.add("1", &[]).0, 0);
    fs::remove_file(work.tool()).unwrap();
    let commands: [&[&str]; 4] = [
        &["call", "prob_search", "query=x"],
        &["tools", "update", "prob_search"],
        &["tools", "info", "prob_search"],
        &["tools", "trust", "prob_search"],
    ];
    for command in commands {
        let (code, out, err) = work.run(command);
        assert_eq!(code, 2, "{command:?}: {out}{err}");
        assert!(err.contains(TOOL), "{command:?}: {err}");
        let remedies = err.matches("mimir tools vendor").count();
        assert_eq!(remedies, 1, "{command:?}: {err}");
    }
    // From another folder, the remedies name the workspace.
    let elsewhere = tempfile::tempdir().unwrap();
    let workspace = work.path().display().to_string();
    for format in [&[][..], &["--json"]] {
        let args = [&["-C", &workspace, "tools", "verify"], format].concat();
        let mut command = kit::mimir(elsewhere.path(), &args);
        let output = command
            .env("MIMIR_CONFIG_DIR", kit::config(work.path()))
            .output()
            .unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(
            out.contains("mimir -C ") && out.contains("tools vendor"),
            "{out}"
        );
    }
}

#[test]
fn tools_vendor_and_update_fetch_nothing_that_is_not_loaded() {
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    assert_eq!(work.add("1", &[]).0, 0);
    fs::remove_file(work.tool()).unwrap();
    work.push(&changed_plugin(), "1", &["--force"]);
    work.configure("enforcement: {disableLocalTools: true}");
    let requests = work.registry.requests().len();
    for command in [&["tools", "vendor"][..], &["tools", "update", "--yes"]] {
        let (code, out, err) = work.run(command);
        assert!(code == 3 && err.contains("disableLocalTools"), "{out}{err}");
    }
    assert_eq!(work.registry.requests().len(), requests);
    assert!(!work.tool().exists());
}

#[test]
fn skill_and_component_name_the_command_of_the_other() {
    let work = RegistryWorkspace::new();
    let component = work.reference("1");
    work.push(&plugin::search(), "1", &[]);
    let folder = work.path().join("forms");
    fs::create_dir_all(&folder).unwrap();
    let document = "---\nname: forms\ndescription: d\n---\nDo it.\n";
    fs::write(folder.join("SKILL.md"), document).unwrap();
    fs::write(work.path().join("prob.wasm"), plugin::search()).unwrap();
    let skill = work.registry.reference("acme/forms:1");
    let (code, out, err) = work.run(&["skills", "push", "./forms", &skill]);
    assert_eq!(code, 0, "{out}{err}");
    for (command, source) in [
        (["tools", "add"], skill.as_str()),
        (["tools", "add"], "./forms"),
        (["skills", "add"], &component),
        (["skills", "add"], "./prob.wasm"),
    ] {
        let other = if command[0] == "tools" {
            "skills"
        } else {
            "tools"
        };
        let remedy = format!("mimir {other} add {source}");
        let (code, out, err) = work.run(&[command[0], command[1], source]);
        assert_ne!(code, 0, "{source}: {out}{err}");
        assert!(err.contains(&remedy), "{source}: {err}");
        assert!(!work.tool().exists() && !work.path().join(".mimir/skills/forms").exists());
    }
}
