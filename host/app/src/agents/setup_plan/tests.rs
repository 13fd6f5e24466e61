use super::*;
use serde_json::json;

fn environment(home: &Path) -> AgentEnvironment {
    AgentEnvironment {
        home: Some(home.to_owned()),
        config: Some(home.join(".config")),
        codex_home: Some(home.join(".codex")),
        app_data: Some(home.join("AppData")),
        search_path: Vec::new(),
    }
}

#[test]
fn setup_plan_recognizes_an_entry_with_more_keys() {
    for agent in AgentKind::ALL {
        let wanted = agent.entry(&agent.serve_command("mimir"));
        assert!(is_entry(&wanted, &wanted), "{wanted}");
        let mut more = wanted.clone();
        more["trust"] = json!(true);
        more["env"] = json!({"A": "b"});
        assert!(is_entry(&more, &wanted), "{more}");
        more["disabled"] = json!(true);
        assert!(!is_entry(&more, &wanted), "switched off");
        let other = agent.entry(&agent.serve_command("/other/mimir"));
        assert!(!is_entry(&other, &wanted), "{other}");
        assert!(!is_entry(&json!({"url": "x"}), &wanted));
    }
}

#[test]
fn setup_plan_of_chosen_agents_writes_their_files_once() {
    let dir = tempfile::tempdir().unwrap();
    let (home, project) = (dir.path().join("home"), dir.path().join("project"));
    std::fs::create_dir_all(&project).unwrap();
    std::fs::create_dir_all(&home).unwrap();
    let environment = environment(&home);
    let program = dir.path().join("mimir");
    let make = |chosen: &[AgentKind]| SetupPlan::make(&project, &environment, &program, chosen);
    assert_eq!(make(&[]).pending_changes().count(), 0, "no agent is here");
    let plan = make(&AgentKind::ALL);
    assert_eq!(plan.pending_changes().count(), AgentKind::ALL.len());
    for change in plan.pending_changes() {
        assert!(change.is_new_file(), "{:?}", change.path());
        change.apply().unwrap();
    }
    let again = make(&AgentKind::ALL);
    assert_eq!(again.pending_changes().count(), 0);
    // The first plan is out of date.
    let change = plan.pending_changes().next().unwrap();
    assert!(matches!(
        change.apply(),
        Err(AgentSetupError::Changed { .. })
    ));
}
