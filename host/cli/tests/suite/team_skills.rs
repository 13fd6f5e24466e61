//! Skills of teams, and skills of the workspace that a team disables.

use std::fs;
use std::path::Path;

use serde_json::Value;

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
        refused(name, "NOT_FOUND");
    }
    fs::remove_file(&settings).unwrap();
    let mut team = Team::new("enforcement: {disableLocalTools: true}\n");
    team.bundle.skills = vec![team.file("review/SKILL.md", &skill("review", "Ask Ann."))];
    team.publish();
    team.join(home.path());
    assert_eq!(load_skill(home.path(), "review").0, 0);
    // They are not among the skills of the tool.
    for name in ["own", "shared"] {
        refused(name, "INVALID_INPUT");
    }
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
