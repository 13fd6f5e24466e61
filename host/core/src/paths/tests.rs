use super::*;

fn text(rule: Option<&PathRule>) -> Option<&str> {
    rule.map(PathRule::text)
}

fn hidden(rules: &PathRules, path: &str) -> bool {
    matches!(rules.check(path), PathVerdict::Hidden { .. })
}

fn read_only(rules: &PathRules, path: &str) -> bool {
    matches!(rules.check(path), PathVerdict::ReadOnly { .. })
}

fn denied(globs: &[&str]) -> PathRules {
    PathRules::none().deny(globs).expect("valid globs")
}

#[test]
fn path_rules_protected_match_their_own_text() {
    let rules = PathRules::protected();
    assert!(rules.rules().len() > 80, "rules are missing");
    for rule in rules.rules().iter().filter(|rule| !rule.is_exception) {
        let example = rule.text().replace("**/", "some/").replace('*', "x");
        assert!(
            rules.check_file(&example).against_writing().is_some(),
            "{example}"
        );
    }
}

#[test]
fn path_rules_names_match_at_any_depth_and_below() {
    let rules = PathRules::protected();
    for path in [
        ".mimir",
        ".mimir/tools/x.wasm",
        "a/b/.mimir/config.yml",
        ".claude/hooks/x",
        "home/.bashrc",
    ] {
        assert!(read_only(&rules, path), "{path}");
    }
    for path in [
        ".env",
        "a/.env",
        ".env.local",
        "a/b/server.pem",
        ".ssh/config",
        "a/id_rsa",
        "x/id_ed25519.bak",
        "cluster/keys/admin.nk",
        "cluster/keys/serve.token",
        "cluster/env/worker.env",
        "cluster/tls/nats-0.key",
    ] {
        assert!(hidden(&rules, path), "{path}");
    }
    for path in [
        "",
        "src/main.rs",
        "id_map.rs",
        "id_rsa.pub",
        ".env.example",
        "a/.env.sample",
        "env",
        "mimir",
        ".envy",
        "AGENTS.md",
        ".git",
        ".git/HEAD",
        ".git/objects/ab/cd",
        ".config",
        ".vscode",
        ".vscode/extensions.json",
    ] {
        assert_eq!(rules.check(path), PathVerdict::Free, "{path}");
    }
}

#[test]
fn path_rules_protect_git_hooks_and_config() {
    let rules = PathRules::protected();
    for path in [
        ".git/hooks",
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.git/hooks/x",
        ".git/modules/x/hooks/y",
        ".git/modules/x/config",
        ".git/worktrees/w/config.worktree",
        ".git/commondir",
    ] {
        assert!(read_only(&rules, path), "{path}");
    }
    assert_eq!(
        text(rules.check_file("sub/.git").against_writing()),
        Some(".git")
    );
    assert_eq!(rules.check_file(".git/HEAD"), PathVerdict::Free);
}

#[test]
fn path_rules_hide_mimir_state_and_memory() {
    let rules = PathRules::protected();
    assert_eq!(
        text(rules.check(".mimir/state/storage/x").against_reading()),
        Some("**/.mimir/state")
    );
    for memory in [".mimir/memory/notes.md", "a/.MIMIR/Memory"] {
        assert_eq!(
            text(rules.check(memory).against_reading()),
            Some("**/.mimir/memory"),
            "{memory}"
        );
    }
    assert!(
        rules
            .check(".mimir/tools/x.yml")
            .against_reading()
            .is_none()
    );
}

#[test]
fn path_rules_fold_case_and_unicode_spellings() {
    let rules = PathRules::protected();
    for path in [
        ".ENV",
        ".Env",
        ".env.",
        ".env ",
        ".env. .",
        "a/.E\u{200c}NV",
        ".e\u{ad}nv",
        ".\u{feff}env",
        "．env",
        ".ｅｎｖ",
        "\u{2024}env",
        "SERVER.PEM",
        "Id_Rsa",
    ] {
        assert!(hidden(&rules, path), "{path:?}");
    }
    for path in [
        ".Mimir/config.yml",
        ".MIMIR",
        ".m\u{200b}imir/x",
        ".GIT/Hooks/x",
        ".g\u{200c}it/hooks",
        ".git./hooks",
        ".git/hooks ./x",
        ".ba\u{17f}hrc",
        ".\u{212a}shrc",
    ] {
        // Windows hides names that end in a dot or a space.
        let verdict = rules.check(path);
        assert!(verdict.against_writing().is_some(), "{path:?}");
        assert!(read_only(&rules, path) || cfg!(windows), "{path:?}");
    }
    let rules = denied(&["Straße", "caf\u{e9}", "σς"]);
    for path in ["STRASSE", "straße", "STRAẞE", "cafe\u{301}", "CAFÉ", "ΣΣ"] {
        assert!(hidden(&rules, path), "{path:?}");
    }
}

#[test]
fn path_rules_globs_with_a_slash_are_anchored() {
    let rules = denied(&[
        "/top.txt",
        "a/secrets/**",
        "*.sqlite",
        "docs/*/draft.md",
        "x/**/y",
        "deep/",
    ]);
    for path in [
        "top.txt",
        "a/secrets/x",
        "a/secrets/x/y",
        "q/z.sqlite",
        "z.sqlite/inside",
        "docs/v1/draft.md",
        "x/y",
        "x/1/2/y/3",
        "deep",
        "a/deep/b",
    ] {
        assert!(hidden(&rules, path), "{path}");
    }
    for path in [
        "a/top.txt",
        "a/secrets",
        "b/a/secrets/x",
        "docs/draft.md",
        "docs/a/b/draft.md",
        "q/x/y",
    ] {
        assert_eq!(rules.check(path), PathVerdict::Free, "{path}");
    }
}

#[test]
fn path_rules_match_every_glob_form() {
    let rules = denied(&["ab*ba", "x?z", "[qr]*", "{one,two}.t*", "\\[lit", "m*n*o"]);
    for path in [
        "abba", "abXba", "AB.BA", "xyz", "quux", "r", "one.txt", "two.t", "[lit", "mno", "m1n2o",
    ] {
        assert!(hidden(&rules, path), "{path}");
    }
    for path in ["aba", "xz", "s", "three.txt", "xlit", "mo"] {
        assert_eq!(rules.check(path), PathVerdict::Free, "{path}");
    }
    // Windows has no such names, and takes the backslash for a separator.
    #[cfg(not(windows))]
    {
        let rules = denied(&["\\*lit", "\\?"]);
        for path in ["*lit", "?"] {
            assert!(hidden(&rules, path), "{path}");
        }
        for path in ["xlit", "lit", "x"] {
            assert_eq!(rules.check(path), PathVerdict::Free, "{path}");
        }
    }
}

#[test]
fn path_rules_last_glob_wins_except_over_a_parent() {
    let rules = denied(&["*.log", "!keep.log", "logs", "!logs/public.txt"]);
    assert_eq!(rules.check("keep.log"), PathVerdict::Free);
    assert!(hidden(&rules, "other.log"));
    assert!(hidden(&rules, "logs/public.txt"));
    assert!(hidden(&denied(&["!keep.log", "*.log"]), "keep.log"));
}

#[test]
fn path_rules_reveal_secrets_files_by_exact_path_only() {
    let rules = PathRules::protected()
        .reveal([".env", "certs/ca.pem", ".mimir", ".mimir/state"])
        .expect("paths");
    assert_eq!(rules.check(".env"), PathVerdict::Free);
    assert_eq!(rules.check("certs/ca.pem"), PathVerdict::Free);
    assert!(hidden(&rules, "sub/.env"));
    assert!(hidden(&rules, "ca.pem"));
    assert!(read_only(&rules, ".mimir/x"));
    assert!(hidden(&rules, ".mimir/state/x"));
    let rules = rules.deny([".env"]).expect("glob");
    assert!(hidden(&rules, ".env"), "a denied path was revealed");
    let rules = PathRules::protected().reveal(["*"]).expect("a path");
    assert!(hidden(&rules, ".env"), "a wildcard revealed a path");
    assert!(PathRules::protected().reveal(["../x"]).is_err());
}

#[test]
fn path_rules_hide_installed_skills_except_trusted_ones() {
    let rules = PathRules::protected();
    for path in [
        ".mimir/skills/forms/SKILL.md",
        ".mimir/skills/.new-skill-1/SKILL.md",
        ".mimir/team-skills/review/SKILL.md",
        "sub/.mimir/skills/forms",
        ".MIMIR/Skills/forms",
    ] {
        assert!(hidden(&rules, path), "{path}");
    }
    let rules = rules.show_skills([".mimir/skills/forms"]).expect("a path");
    assert!(read_only(&rules, ".mimir/skills/forms/scripts/a.py"));
    assert!(hidden(&rules, ".mimir/skills/forms2/SKILL.md"));
    assert!(hidden(&rules, ".mimir/skills/other"));
    assert!(hidden(&rules, ".mimir/skills/forms/.env"));
    assert!(hidden(&rules, ".mimir/state/x"));
    let denying = rules.deny([".mimir/skills/forms"]).expect("a glob");
    assert!(hidden(&denying, ".mimir/skills/forms/SKILL.md"));
    // Skills that several agents share are files of the project, which no tool replaces.
    for folder in super::SHARED_SKILL_FOLDERS {
        let rules = PathRules::protected();
        let file = format!("{folder}/forms/SKILL.md");
        assert!(hidden(&rules, &file), "{file}");
        assert!(!hidden(&rules, folder), "{folder}");
        let rules = rules.show_skills([format!("{folder}/forms")]);
        let rules = rules.expect("a path");
        assert!(read_only(&rules, &file), "{file}");
        assert!(hidden(&rules, &format!("{folder}/other/SKILL.md")));
    }
    // Other agents find them in folders further down, too.
    for folder in super::SHARED_SKILL_FOLDERS {
        let rules = PathRules::protected();
        assert!(hidden(&rules, &format!("sub/{folder}/new/SKILL.md")));
        assert!(!hidden(&rules, &format!("sub/{folder}")), "{folder}");
    }
}

#[test]
fn path_rules_user_exceptions_cannot_lift_built_in_rules() {
    let rules = PathRules::protected()
        .deny(["!.env", "!.mimir"])
        .expect("globs");
    assert!(hidden(&rules, ".env"));
    assert!(read_only(&rules, ".mimir"));
}

#[test]
fn path_rules_find_folders_with_protected_paths_below() {
    let rules = PathRules::protected()
        .deny(["a/secrets/**", "x/**/y"])
        .expect("globs");
    assert_eq!(text(rules.may_cover_below("a")), Some("a/secrets/**"));
    assert_eq!(text(rules.may_cover_below("A")), Some("a/secrets/**"));
    assert_eq!(
        text(rules.may_cover_below("a/secrets")),
        Some("a/secrets/**")
    );
    assert_eq!(text(rules.may_cover_below("x/1/2")), Some("x/**/y"));
    assert!(rules.may_cover_below("q/.Git").is_some());
    for dir in ["", "b", "src/deep", "a/b", "b/a"] {
        assert_eq!(text(rules.may_cover_below(dir)), None, "{dir}");
    }
}

#[test]
fn path_rules_find_folders_with_user_denials_below() {
    let anchored = PathRules::protected()
        .deny(["target/keys/**", "!a/x"])
        .expect("globs");
    for (dir, expected) in [
        ("target", true),
        ("target/keys", true),
        ("target/debug", false),
        ("a/target", false),
        ("a", false),
    ] {
        assert_eq!(anchored.may_deny_below(dir), expected, "{dir}");
    }
    for floating in ["**/vendor.key", "vendor.key", "**"] {
        let rules = PathRules::protected().deny([floating]).expect("a glob");
        assert!(rules.may_deny_below("node_modules/a"), "{floating}");
    }
    assert!(!PathRules::protected().may_deny_below("node_modules"));
}

#[test]
fn path_rules_refuse_moves_that_change_protection() {
    let rules = PathRules::protected()
        .deny(["a/secrets", "x/**/y"])
        .expect("globs");
    let rules = rules.reveal(["config/.env"]).expect("a path");
    for (from, to) in [
        (".git", "g"),
        ("g", ".git"),
        ("g", "sub/.git"),
        (".git", "sub/.git"),
        ("a", "b"),
        ("b", "a"),
        ("x", "z"),
        ("x/1", "z"),
        ("z", "x/1"),
        ("config", "other"),
        ("other", "config"),
        (".vscode", "v"),
    ] {
        assert!(rules.against_moving(from, to).is_some(), "{from} to {to}");
    }
    for (from, to) in [("b", "c"), ("b/c", "c"), ("x/1", "x/2/3"), ("q/a", "r/a")] {
        assert_eq!(text(rules.against_moving(from, to)), None, "{from} to {to}");
    }
}

#[test]
fn path_rules_scope_agrees_with_the_whole_path() {
    let rules = PathRules::protected()
        .deny(["a/*/c", "b/**"])
        .expect("globs");
    for (dir, name) in [
        ("", ".env"),
        ("a/x", "c"),
        ("a", "c"),
        ("b", "c"),
        (".git", "hooks"),
        (".mimir", "x"),
    ] {
        let whole = if dir.is_empty() {
            name.to_owned()
        } else {
            format!("{dir}/{name}")
        };
        assert_eq!(
            rules.check_in(&rules.scope(dir), name),
            rules.check(&whole),
            "{whole}"
        );
    }
}

#[test]
fn path_rules_invalid_globs_are_rejected_with_their_text() {
    for glob in [
        "", "/", "!", "a//b", "../x", "a/./b", "[z-", "{a", "a/{b/c}", "x*.",
    ] {
        let error = PathRules::none().deny([glob]).expect_err(glob);
        assert!(
            matches!(
                error,
                PathPatternError::Malformed { .. } | PathPatternError::Glob { .. }
            ),
            "{glob}: {error}"
        );
    }
    assert!(hidden(&denied(&["**"]), "anything/at/all"));
    assert!(hidden(&PathRules::hide_everything(), "x"));
}

#[test]
fn path_globs_for_windows_need_slashes_and_no_drive() {
    for glob in [
        "secrets\\*",
        "secrets\\**",
        "a\\b",
        "\\\\server\\share",
        "a\\",
        "C:/x",
        "C:\\x",
    ] {
        assert!(matcher::fault_on_windows(glob).is_some(), "{glob}");
    }
    for glob in ["secrets/*", "a\\[b\\]", "\\{x\\}", "[qr]*"] {
        assert_eq!(matcher::fault_on_windows(glob), None, "{glob}");
    }
    assert_eq!(
        PathRules::none().deny(["secrets\\*"]).is_err(),
        cfg!(windows)
    );
}

#[test]
fn path_rules_combine_caller_and_callee() {
    let callee = PathRules::protected()
        .deny(["build"])
        .unwrap()
        .reveal([".env", "a/.env"])
        .unwrap();
    let caller = PathRules::protected()
        .deny(["private"])
        .unwrap()
        .reveal(["a/.env"])
        .unwrap();
    let both = callee.combined_with(&caller);
    for hidden in ["build/x", "private/x", ".env", "b/.env"] {
        assert!(both.check(hidden).against_reading().is_some(), "{hidden}");
    }
    for shown in ["a/.env", "src", ".env.example"] {
        assert!(both.check(shown).against_reading().is_none(), "{shown}");
    }
    let plain = PathRules::protected();
    assert!(Arc::ptr_eq(
        &plain.combined_with(&plain).inner,
        &plain.inner
    ));
}
