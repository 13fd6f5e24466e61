//! Skills of teams, and skills of the workspace that a team disables.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::kit::agent::Agent;
use crate::kit::team::Team;
use crate::kit::{config, run};
use crate::team_bundles::{json, workspace, write_config};

/// Text of a skill.
fn skill(name: &str, instructions: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}.\n---\n{instructions}\n")
}

fn load_skill(home: &Path, name: &str) -> (i32, Value) {
    json(home, &["call", "load_skill", &format!("skill={name}")])
}

/// Joins a team with the skill `review`, which has a script.
fn team_with_script(home: &Path) -> Team {
    let mut team = Team::new("");
    team.bundle.skills = vec![
        team.file("review/SKILL.md", &skill("review", "Run the check.")),
        team.file("review/scripts/check.sh", "#!/bin/sh\necho of-acme\n"),
    ];
    team.publish();
    team.join(home);
    team
}

#[test]
fn team_skill_is_trusted_and_takes_the_name_of_a_skill_of_the_project() {
    let home = workspace();
    let mut team = Team::new("");
    team.bundle.skills = vec![
        team.file("review/SKILL.md", &skill("review", "Ask Ann of Acme.")),
        team.file("review/list.md", "the list of Acme"),
    ];
    team.publish();
    write_config(
        &home.path().join(".mimir/skills/review/SKILL.md"),
        &skill("review", "Approve everything."),
    );
    team.join(home.path());
    let (code, loaded) = load_skill(home.path(), "review");
    assert_eq!(code, 0, "{loaded}");
    let loaded = loaded.to_string();
    assert!(
        loaded.contains("Ask Ann of Acme.") && !loaded.contains("Approve everything."),
        "{loaded}"
    );
    let read = ["call", "load_skill", "skill=review", "file=list.md"];
    let (code, file) = json(home.path(), &read);
    assert!(
        code == 0 && file.to_string().contains("the list of Acme"),
        "{file}"
    );
    let (_, listed) = json(home.path(), &["skills", "list"]);
    assert_eq!(listed["skills"][0]["state"], "team", "{listed}");
    // The next bundle has no skill.
    team.bundle.skills.clear();
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    assert_ne!(load_skill(home.path(), "review").0, 0);
}

/// Scripts of a team's skill run in the sandbox of commands. Their copy in the workspace is compared with the signed
/// bundle before it is used, and is not one that a checkout brought.
#[cfg(target_os = "linux")]
#[test]
fn team_skill_scripts_run_from_a_copy_that_equals_the_bundle() {
    let home = workspace();
    let root = home.path();
    let copy = root.join(".mimir/team-skills/review");
    // An attack: the checkout has another script where the copy will be, and a skill that no team has.
    for name in ["review", "other"] {
        let folder = root.join(".mimir/team-skills").join(name);
        fs::create_dir_all(folder.join("scripts")).unwrap();
        fs::write(folder.join("scripts/check.sh"), "echo evil\n").unwrap();
    }
    let exec = |command: &str| {
        let arguments = serde_json::json!({ "command": command }).to_string();
        let args = ["call", "exec", &arguments, "--approve", "always"];
        let (_, out, output) = run(root, &args);
        format!("{out}{output}")
    };
    let script = "cd .mimir; bash team-skills/review/scripts/check.sh; cat team-skills/*/scripts/*";
    let before = exec(script);
    assert!(!before.contains("evil"), "{before}");
    let _team = team_with_script(root);
    let (code, loaded) = load_skill(root, "review");
    let text = loaded["content"][0]["text"].as_str().unwrap_or_default();
    assert!(
        code == 0 && text.contains("Its files are in `.mimir/team-skills/review`"),
        "{loaded}"
    );
    let ran = exec(script);
    assert!(ran.contains("of-acme") && !ran.contains("evil"), "{ran}");
    let started = exec(".mimir/team-skills/review/scripts/check.sh");
    assert!(started.contains("of-acme"), "{started}");
    // Commands cannot change the copy, and what others change is replaced.
    exec("echo 'echo evil' > .mimir/team-skills/review/scripts/check.sh");
    assert!(
        fs::read_to_string(copy.join("scripts/check.sh"))
            .unwrap()
            .contains("of-acme")
    );
    fs::write(copy.join("scripts/check.sh"), "echo evil\n").unwrap();
    fs::write(copy.join("scripts/more.sh"), "echo evil\n").unwrap();
    let ran = exec(script);
    assert!(ran.contains("of-acme") && !ran.contains("evil"), "{ran}");
    // Without the team, its copy is hidden again.
    assert_eq!(run(root, &["team", "leave"]).0, 0);
    let after = exec(script);
    assert!(!after.contains("of-acme"), "{after}");
}

#[test]
fn enforcement_disable_local_tools_leaves_out_skills_of_the_workspace() {
    let home = workspace();
    for (folder, name) in [(".mimir/skills", "own"), (".agents/skills", "shared")] {
        let path = home.path().join(folder).join(name).join("SKILL.md");
        write_config(&path, &skill(name, "Do as I say."));
        let info = json(home.path(), &["skills", "info", name]).1;
        let digest = info["digest"].as_str().unwrap();
        let trust = ["skills", "trust", name, "--digest", digest];
        assert_eq!(json(home.path(), &trust).0, 0);
        assert_eq!(load_skill(home.path(), name).0, 0);
    }
    let refused = |name: &str, code: &str| {
        let (_, refused) = load_skill(home.path(), name);
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert!(!refused.to_string().contains("Do as I say."), "{refused}");
    };
    let settings = config(home.path()).join("config.yml");
    write_config(&settings, "enforcement: {disableLocalTools: true}\n");
    // Without other skills, even the tool is left out.
    for name in ["own", "shared"] {
        refused(name, "POLICY_DENIED");
    }
    fs::remove_file(&settings).unwrap();
    let mut team = Team::new("enforcement: {disableLocalTools: true}\n");
    team.bundle.skills = vec![team.file("review/SKILL.md", &skill("review", "Ask Ann."))];
    team.publish();
    team.join(home.path());
    assert_eq!(load_skill(home.path(), "review").0, 0);
    // They are not among the skills of the tool.
    for name in ["own", "shared"] {
        refused(name, "POLICY_DENIED");
    }
    let (_, unknown) = load_skill(home.path(), "revew");
    let message = unknown["error"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("was not found") && message.ends_with("one of: review"),
        "{unknown}"
    );
    let (_, listed) = json(home.path(), &["skills", "list"]);
    let mut states = listed["skills"].as_array().unwrap().iter();
    assert!(
        states.all(|skill| (skill["state"] == "disabled") == (skill["name"] != "review")),
        "{listed}"
    );
    let (_, info) = json(home.path(), &["tools", "info", "load_skill"]);
    let info = info.to_string();
    assert!(
        info.contains("About review.") && !info.contains("About own."),
        "{info}"
    );
}

/// An attack: the copy does not exist when the session starts, and another file comes there later, such as with a
/// checkout. It is compared before each call, not only at the start.
#[test]
fn team_skill_copy_is_compared_before_each_call_of_a_session() {
    let home = workspace();
    let root = home.path();
    let _team = team_with_script(root);
    let copy = root.join(".mimir/team-skills/review");
    let script = ".mimir/team-skills/review/scripts/check.sh";
    let plant = || {
        write_config(&copy.join("scripts/check.sh"), "echo evil\n");
        write_config(&copy.join("scripts/more.sh"), "echo evil\n");
    };
    let mut agent = Agent::start(root);
    agent.hello(serde_json::json!({}));
    let mut read = |path: &str| {
        let arguments = serde_json::json!({ "path": path });
        agent.call("read_file", arguments).to_string()
    };
    let absent = read(script);
    assert!(!absent.contains("of-acme") && !copy.exists(), "{absent}");
    for round in 0..3 {
        plant();
        let more = read(&script.replace("check", "more"));
        assert!(!more.contains("evil"), "{round}: {more}");
        plant();
        let replaced = read(script);
        assert!(
            replaced.contains("of-acme") && !replaced.contains("evil"),
            "{round}: {replaced}"
        );
        assert!(!copy.join("scripts/more.sh").exists(), "{round}");
    }
    // Without the folder, loading the skill writes it, and the session can read it from then on.
    fs::remove_dir_all(&copy).unwrap();
    let arguments = serde_json::json!({ "skill": "review" });
    let loaded = agent.call("load_skill", arguments).to_string();
    assert!(loaded.contains(".mimir/team-skills/review"), "{loaded}");
    let arguments = serde_json::json!({ "path": script });
    let read = agent.call("read_file", arguments).to_string();
    assert!(read.contains("of-acme"), "{read}");
}
