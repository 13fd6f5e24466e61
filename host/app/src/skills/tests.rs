use std::path::Path;

use mimir_core::grants::SourceSigner;

use super::*;

const SKILL: &str = "---\nname: forms\ndescription: Fills forms.\nallowed-tools: Write Bash(git:*) Bash(*)\n---\nDo it.\n";

fn library(folder: &Path) -> SkillLibrary {
    let workspace = folder.join("workspace");
    std::fs::create_dir_all(workspace.join(".mimir/state")).unwrap();
    let user_dirs = UserDirs {
        config: Some(folder.join("config")),
        ..UserDirs::default()
    };
    let workspace = WorkspaceFolder::find(Some(&workspace)).unwrap();
    SkillLibrary::for_workspace(&user_dirs, &workspace)
}

fn new_skill() -> NewSkill {
    let mut files = SkillFiles::default();
    files.insert(SKILL_FILE, SKILL.as_bytes().to_vec()).unwrap();
    files.insert("scripts/a.py", b"print(1)".to_vec()).unwrap();
    NewSkill {
        source: "local".to_owned(),
        artifact: None,
        signer: None,
        local_path: None,
        content: SkillContent::new(files, "forms").unwrap(),
    }
}

fn state(library: &SkillLibrary) -> SkillState {
    library.find("forms").unwrap().state
}

#[test]
fn skill_is_used_only_while_its_content_is_the_accepted_one() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    assert!(library.tool().unwrap().is_none());
    library.install(new_skill(), false).unwrap();
    assert_eq!(state(&library), SkillState::Added);
    assert!(library.tool().unwrap().is_some());
    let script = folder
        .path()
        .join("workspace/.mimir/skills/forms/scripts/a.py");
    std::fs::write(&script, "print(2)").unwrap();
    assert_eq!(state(&library), SkillState::Changed);
    let error = library.usable_skill("forms").unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied);
    assert!(library.tool().unwrap().is_none());
    // A new file is a change, too.
    std::fs::write(&script, "print(1)").unwrap();
    assert_eq!(state(&library), SkillState::Added);
    std::fs::write(script.with_file_name("b.py"), "").unwrap();
    assert_eq!(state(&library), SkillState::Changed);
    // The person looks at it and accepts it.
    let skill = library.find("forms").unwrap();
    library.trust(&skill, Vec::new()).unwrap();
    assert_eq!(state(&library), SkillState::Trusted);
    // Invalid content of an accepted skill is a change.
    std::fs::write(script.parent().unwrap().with_file_name(SKILL_FILE), "x").unwrap();
    assert_eq!(state(&library), SkillState::Changed);
}

#[test]
fn skill_of_a_checkout_is_new_whatever_its_lock_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let own = library(folder.path());
    own.install(new_skill(), false).unwrap();
    let skill = own.find("forms").unwrap();
    own.trust(&skill, vec!["Write".to_owned()]).unwrap();
    // Another user, with the same files and the same lock file.
    let other = SkillLibrary {
        user_dirs: UserDirs {
            config: Some(folder.path().join("other")),
            ..UserDirs::default()
        },
        ..own.clone()
    };
    assert_eq!(state(&other), SkillState::New);
    assert!(other.usable_as(|skill| skill.name).is_empty());
    assert!(other.trusted_folders().is_empty());
    // A lock file that grants itself more is not the accepted one.
    let lock = folder.path().join("workspace/.mimir/tools.lock");
    let text = std::fs::read_to_string(&lock).unwrap();
    let more = text.replace("- Write", "- Write\n    - Bash(git:*)");
    assert_ne!(more, text);
    std::fs::write(&lock, more).unwrap();
    assert_eq!(state(&own), SkillState::New);
    std::fs::write(&lock, text).unwrap();
    assert_eq!(state(&own), SkillState::Trusted);
}

#[test]
fn skill_permissions_are_the_granted_ones_of_a_trusted_skill() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    library.install(new_skill(), false).unwrap();
    assert!(
        library
            .usable_skill("forms")
            .unwrap()
            .permissions
            .is_empty()
    );
    let skill = library.find("forms").unwrap();
    library
        .trust(&skill, vec!["Write".to_owned(), "Bash(*)".to_owned()])
        .unwrap();
    let usable = library.usable_skill("forms").unwrap();
    assert_eq!(
        usable.permissions,
        [SkillPermission::Tool("write_file".to_owned())]
    );
    let grant = usable.grant(&library);
    assert!(grant.consent.is_in_force());
    // Another decision of the person replaces the permissions of sessions that have loaded it.
    library.trust(&skill, Vec::new()).unwrap();
    assert!(!grant.consent.is_in_force());
    // New content starts without trust.
    let replaced = library.install(new_skill(), true).unwrap();
    assert!(replaced.has_replaced && !replaced.pin.trusted);
    assert_eq!(state(&library), SkillState::Added);
}

#[test]
fn skill_trust_needs_the_content_that_was_shown() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    library.install(new_skill(), false).unwrap();
    let shown = library.find("forms").unwrap();
    let script = folder
        .path()
        .join("workspace/.mimir/skills/forms/scripts/a.py");
    std::fs::write(script, "print(2)").unwrap();
    let error = library.trust(&shown, Vec::new()).unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied);
    assert_eq!(state(&library), SkillState::Changed);
}

#[test]
fn skill_install_leaves_the_previous_state_after_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    library.install(new_skill(), false).unwrap();
    let skill = library.find("forms").unwrap();
    library.trust(&skill, Vec::new()).unwrap();
    assert!(library.install(new_skill(), false).is_err());
    let lock = folder.path().join("workspace/.mimir/tools.lock");
    let text = std::fs::read_to_string(&lock).unwrap();
    std::fs::write(&lock, "version: 99\n").unwrap();
    assert!(library.install(new_skill(), true).is_err());
    std::fs::write(&lock, text).unwrap();
    assert_eq!(state(&library), SkillState::Trusted);
    let skills = folder.path().join("workspace/.mimir/skills");
    assert_eq!(std::fs::read_dir(skills).unwrap().count(), 1);
    // A folder of the project with this name is not replaced.
    let shared = folder.path().join("workspace/.agents/skills/other");
    std::fs::create_dir_all(&shared).unwrap();
    let mut other = new_skill();
    let text = SKILL.replace("name: forms", "name: other");
    other.content.files = SkillFiles::default();
    other
        .content
        .files
        .insert(SKILL_FILE, text.into_bytes())
        .unwrap();
    other.content = SkillContent::new(other.content.files, "other").unwrap();
    assert!(library.install(other, true).is_err());
}

#[test]
fn skill_in_the_shared_folder_is_pinned_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let shared = folder.path().join("workspace/.agents/skills/forms");
    std::fs::create_dir_all(&shared).unwrap();
    std::fs::write(shared.join(SKILL_FILE), SKILL).unwrap();
    assert_eq!(state(&library), SkillState::New);
    assert!(library.tool().unwrap().is_none());
    let skill = library.find("forms").unwrap();
    library.pin_in_place(&skill).unwrap();
    assert_eq!(state(&library), SkillState::Added);
    assert_eq!(
        library.usable_skill("forms").unwrap().folder,
        ".agents/skills/forms"
    );
    assert!(library.remove("forms").unwrap());
    assert_eq!(state(&library), SkillState::New);
    assert!(shared.join(SKILL_FILE).exists());
}

#[test]
fn skill_remove_takes_consent_pin_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    library.install(new_skill(), false).unwrap();
    assert!(library.remove("forms").unwrap());
    assert!(library.find("forms").is_err());
    assert!(!library.remove("forms").unwrap());
}

#[cfg(unix)]
#[test]
fn skill_folders_that_are_links_are_neither_used_nor_followed() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let outside = folder.path().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join(SKILL_FILE), SKILL).unwrap();
    let skills = folder.path().join("workspace/.mimir/skills");
    std::fs::create_dir_all(&skills).unwrap();
    std::os::unix::fs::symlink(&outside, skills.join("forms")).unwrap();
    assert!(library.find("forms").is_err());
    assert!(library.install(new_skill(), false).is_err());
    library.remove("forms").unwrap();
    assert!(outside.join(SKILL_FILE).exists());
    // The folder of all skills as a link.
    std::fs::remove_dir_all(&skills).unwrap();
    std::os::unix::fs::symlink(&outside, &skills).unwrap();
    assert!(library.install(new_skill(), false).is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn skill_of_the_workspace_is_disabled_by_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    library.install(new_skill(), false).unwrap();
    let source = SkillResourceSource::new(library.clone());
    library
        .trust(&library.find("forms").unwrap(), Vec::new())
        .unwrap();
    assert_eq!(mimir_mcp::SkillSource::skills(&source).len(), 1);
    let disabled = library.disable_local("team Acme");
    assert_eq!(state(&disabled), SkillState::Disabled);
    assert!(!disabled.may_have_skills() && disabled.tool().unwrap().is_none());
    let error = disabled.usable_skill("forms").unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PolicyDenied);
    assert!(error.message.contains("team Acme sets"), "{error}");
    // A running server gets the changed library.
    source.replace(disabled);
    assert!(mimir_mcp::SkillSource::skills(&source).is_empty());
}

#[test]
fn skill_of_an_unaccepted_lock_file_has_no_source_and_no_signer() {
    let folder = tempfile::tempdir().unwrap();
    let own = library(folder.path());
    let mut new = new_skill();
    new.source = "registry.example.com/acme/forms:1".to_owned();
    new.signer = Some(SourceSigner::Key {
        key: "k".to_owned(),
        name: Some("acme".to_owned()),
    });
    own.install(new, false).unwrap();
    let skill = own.find("forms").unwrap();
    assert!(skill.is_accepted);
    let pin = own.trust(&skill, Vec::new()).unwrap();
    assert!(pin.signer.is_some() && pin.source.starts_with("registry."));
    // Another user with this lock file.
    let other = SkillLibrary {
        user_dirs: UserDirs {
            config: Some(folder.path().join("other")),
            ..UserDirs::default()
        },
        ..own
    };
    let skill = other.find("forms").unwrap();
    assert!(!skill.is_accepted);
    let pin = other.trust(&skill, Vec::new()).unwrap();
    assert_eq!(
        (pin.source.as_str(), pin.signer),
        (".mimir/skills/forms", None)
    );
}

#[test]
fn skill_without_trust_is_hidden_and_listed_by_its_name_alone() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    library.install(new_skill(), false).unwrap();
    let description = |library: &SkillLibrary| {
        let tool = library.tool().unwrap().unwrap();
        tool.definition.description.clone()
    };
    assert!(library.trusted_folders().is_empty());
    let text = description(&library);
    assert!(
        text.contains("forms") && !text.contains("Fills forms"),
        "{text}"
    );
    let skill = library.find("forms").unwrap();
    library.trust(&skill, Vec::new()).unwrap();
    assert_eq!(library.trusted_folders(), [".mimir/skills/forms"]);
    assert!(description(&library).contains("- forms: Fills forms."));
}

#[test]
fn skill_that_nobody_accepted_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    library.install(new_skill(), false).unwrap();
    let consents = SkillConsents::read(&library).unwrap();
    let other = folder.path().join("workspace/.mimir/skills/other");
    std::fs::create_dir_all(&other).unwrap();
    let names = |only, accepted| {
        let found = library.find_with(&consents, only, accepted).into_iter();
        found.map(|skill| skill.name).collect::<Vec<_>>()
    };
    assert_eq!(names(None, false), ["forms", "other"]);
    assert_eq!(names(None, true), ["forms"]);
    assert_eq!(names(Some("other"), false), ["other"]);
    assert!(names(Some("other"), true).is_empty());
}

#[cfg(unix)]
#[test]
fn copy_of_a_team_skill_is_repaired_with_its_modes() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let skill = team_skill();
    let copy = library.write_team_skill(&skill).unwrap();
    let script = folder.path().join("workspace").join(copy).join("run.sh");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o644)).unwrap();
    library.write_team_skill(&skill).unwrap();
    let mode = std::fs::metadata(&script).unwrap().permissions().mode();
    assert_ne!(mode & 0o100, 0);
}

/// An attack: several processes find a changed copy at once. None of them may see the changed files after its own
/// comparison, whatever the others do.
#[test]
fn changed_copy_of_a_team_skill_never_returns() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let skill = team_skill();
    let root = folder.path().join("workspace");
    let script = root.join(library.write_team_skill(&skill).unwrap());
    let script = script.join("run.sh");
    for round in 0..60 {
        std::fs::write(&script, "echo evil").unwrap();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    start.wait();
                    library.write_team_skill(&skill).unwrap();
                    for _ in 0..20 {
                        let read = std::fs::read(&script).unwrap();
                        assert_eq!(read, b"#!/bin/sh\n", "round {round}");
                        std::thread::yield_now();
                    }
                });
            }
        });
    }
    let left = std::fs::read_dir(root.join(".mimir/team-skills")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_string_lossy().contains("-skill-"))
    );
}

/// The skill `forms` of a team.
fn team_skill() -> UsableSkill {
    let mut files = SkillFiles::default();
    files.insert(SKILL_FILE, SKILL.as_bytes().to_vec()).unwrap();
    files.insert("run.sh", b"#!/bin/sh\n".to_vec()).unwrap();
    UsableSkill {
        name: "forms".to_owned(),
        folder: "team:acme/skills/forms".to_owned(),
        content: SkillContent::new(files, "forms").unwrap(),
        is_trusted: true,
        permissions: Vec::new(),
        id: String::new(),
        is_copied: true,
    }
}
