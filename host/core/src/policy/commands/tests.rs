//! Tests of the command rules with parsed commands. The parser has its own tests.

use serde_json::json;

use super::*;
use crate::backend::{Backend, BoxFuture, RawResult, RealPath};
use crate::command::{NoCommandRunner, ShellRedirection, ShellWord};
use crate::config::Config;
use crate::pipeline::Approved;
use crate::pipeline::tests::tool;
use crate::policy::PolicyFile;

/// A workspace with two links.
struct Linked;

impl Backend for Linked {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(std::future::pending())
    }

    fn resolve_path(&self, path: &str) -> RealPath {
        match path {
            "out" => RealPath::Outside,
            "hooks" => RealPath::Other(".git/hooks".to_owned()),
            _ => RealPath::AsWritten,
        }
    }
}

/// A runner for the workspace `/work/here`; a file in the folder `own` selects the version of `cargo`.
struct Here;

impl CommandRunner for Here {
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError> {
        NoCommandRunner.parse_program(program)
    }

    fn root(&self) -> Option<&str> {
        Some("/work/here")
    }

    fn version_file(&self, program: &str, folder: &str) -> Option<String> {
        (program == "cargo" && folder == "own").then(|| "own/rust-toolchain".to_owned())
    }
}

/// Parses words between blanks: `$x` is unknown, `a*` a glob, `>a` and `<a` files that the shell opens, `A=1` a
/// variable.
fn simple(text: &str) -> ParsedCommand {
    let mut simple = ParsedCommand::default();
    for word in text.split(' ') {
        let read = |word: &str| match word {
            word if word.starts_with('$') => ShellWord::Unknown(word.to_owned()),
            word if word.contains('*') => ShellWord::Glob(word.to_owned()),
            word => ShellWord::Known(word.to_owned()),
        };
        match (
            word.strip_prefix('>'),
            word.strip_prefix('<'),
            word.split_once('='),
        ) {
            (Some(target), _, _) => simple.redirections.push(ShellRedirection {
                writes: true,
                appends: false,
                target: read(target),
            }),
            (_, Some(target), _) => simple.redirections.push(ShellRedirection {
                writes: false,
                appends: false,
                target: read(target),
            }),
            (_, _, Some((name, value))) if simple.words.is_empty() => {
                simple.assignments.push((name.to_owned(), read(value)));
            }
            _ => simple.words.push(read(word)),
        }
    }
    simple
}

/// Evaluates these commands in order, without any settings.
fn said(commands: &[&str]) -> PolicyEvaluation {
    let mut sample = tool("exec");
    sample.backend = Arc::new(Linked);
    let policy = Policy::new(&Config::default(), "config.yml").unwrap();
    let links = LinkResolver::for_tool(&sample);
    judged(&policy, &sample, commands, &links, &Here)
}

/// Evaluates these commands under this policy.
fn judged(
    policy: &Policy,
    sample: &Tool,
    commands: &[&str],
    links: &LinkResolver<'_>,
    runner: &dyn CommandRunner,
) -> PolicyEvaluation {
    let script = ParsedProgram {
        commands: commands.iter().map(|one| simple(one)).collect(),
        unknown: Vec::new(),
    };
    let question = CommandCheck {
        tool: sample,
        script: &script,
        directory: None,
        environment: &[],
        has_input: false,
        granted: &[],
        paths: &PathRules::protected(),
        links,
        runner,
    };
    let mut all = PolicyEvaluation::default();
    policy.evaluate_command(&question, &mut all);
    all
}

fn rule(command: &str) -> String {
    let said = said(&[command]);
    said.decisive()
        .map(|reason| reason.rule.clone())
        .unwrap_or_default()
}

#[test]
fn danger_names_dangerous_commands() {
    for (command, name) in [
        ("rm -rf a", "rm -r"),
        ("rm -fr a", "rm -r"),
        ("rm -R a", "rm -r"),
        ("rm --recursive a", "rm -r"),
        ("rm --rec a", "rm -r"),
        ("/bin/rm -r a", "rm -r"),
        ("dd of=/dev/sda if=a", "dd"),
        ("mkfs.ext4 a", "mkfs"),
        ("mkfs a", "mkfs"),
        ("shred a", "mkfs"),
        ("chmod 777 a", "chmod 777"),
        ("chmod 0666 a", "chmod 777"),
        ("chmod o+w a", "chmod 777"),
        ("chmod u+s a", "chmod 777"),
        ("chmod 4755 a", "chmod 777"),
        ("chown -R a b", "chown -R"),
        ("echo >/dev/sda", "> /dev"),
        ("shutdown now", "power"),
        ("kill -9 -1", "power"),
        ("crontab a", "system"),
        ("history", "history"),
        ("cat a/.bash_history", "history"),
        ("cp .ssh/id_rsa a", "credentials"),
        ("git push -f", "git history"),
        ("git push origin +main", "git history"),
        ("git reset --hard", "git history"),
        ("git clean -fdx", "git history"),
        ("git checkout .", "git history"),
        ("npm publish", "publish"),
        ("docker run --privileged a", "docker --privileged"),
        ("docker run -v /:/host a", "docker --privileged"),
        ("cat /proc/1/environ", "credentials"),
    ] {
        let said = said(&[command]);
        let danger = format!("danger: {name}");
        assert!(
            said.reasons().any(|reason| reason.rule == danger),
            "{command}: {:?}",
            said
        );
        assert_ne!(said.decision(), Decision::Allow, "{command}");
    }
    for fine in [
        "rm a",
        "chmod +x a",
        "chmod 644 a",
        "git push",
        "git reset a",
        "git checkout a",
        "kill 1",
        "echo >/dev/null",
    ] {
        assert!(!said(&[fine]).is_dangerous(), "{fine}");
    }
}

#[test]
fn danger_download_piped_into_a_shell_is_found() {
    let mut script = ParsedProgram {
        commands: ["curl x", "tee y", "bash"].map(simple).to_vec(),
        unknown: Vec::new(),
    };
    for at in 1..3 {
        script.commands[at].piped_from = Some(at - 1);
    }
    let rules: Vec<String> = dangers(&script, 2)
        .into_iter()
        .map(|one| danger::danger_reason(&script.commands[2], one).rule)
        .collect();
    assert_eq!(rules, ["danger: curl | sh", "danger: | sh"]);
    // A cycle, which no parser creates, does not loop forever.
    script.commands[0].piped_from = Some(2);
    assert!(!dangers(&script, 2).is_empty());
}

#[test]
fn command_paths_are_resolved_from_its_working_directory() {
    for (commands, expected) in [
        (&["cat a"][..], Decision::Allow),
        (&["cat ../a"], Decision::Ask),
        (&["cd a", "cat ../b"], Decision::Ask),
        (&["cd a", "cat b"], Decision::Allow),
        (&["cd a", "cd b", "cat c"], Decision::Allow),
        (&["cd $x", "cat b"], Decision::Ask),
        (&["cd"], Decision::Ask),
        (&["cd .git", "tee hooks/x"], Decision::Deny),
        (&["cd /work/here/.git", "tee hooks/x"], Decision::Deny),
        (&["cat /work/here/a"], Decision::Allow),
        (&["cat /work/hereafter/a"], Decision::Ask),
        (&["cat /work/here/../x"], Decision::Ask),
        (&["cat out"], Decision::Ask),
        (&["cat hooks"], Decision::Allow),
        (&["tee hooks"], Decision::Deny),
        (&["tee ./hooks"], Decision::Deny),
        (&["cat *.rs"], Decision::Allow),
        (&["cat *"], Decision::Allow),
        (&["cat /etc/*"], Decision::Ask),
        (&["cat */../../x"], Decision::Ask),
        (&["cat *.pem"], Decision::Ask),
        (&["cat .e*"], Decision::Ask),
        (&["tee .git/hooks/*"], Decision::Deny),
        (&["ls >a"], Decision::Ask),
        (&["ls >/dev/null"], Decision::Allow),
        (&["ls >a*"], Decision::Ask),
        // A `..` after a link is resolved from the link's target.
        (&["cat hooks/../a"], Decision::Ask),
        (&["cat hooks/.."], Decision::Ask),
        (&["cat a/../hooks/./../b"], Decision::Ask),
        (&["cat /work/here/hooks/../a"], Decision::Ask),
        (&["cd hooks/.."], Decision::Ask),
        (&["cat a/../b"], Decision::Allow),
        (&["cat a/..b"], Decision::Allow),
        (&["cat /work/here/a/../b"], Decision::Allow),
        (&["ls <a"], Decision::Allow),
        (&["ls <.env"], Decision::Deny),
        (&["git show HEAD:.env"], Decision::Deny),
        (&["git cat-file -p HEAD~1:keys/a.pem"], Decision::Deny),
        (&["git show :.env"], Decision::Deny),
        (&["git show :0:.env"], Decision::Deny),
        (&["git diff -- :(top).env"], Decision::Deny),
        (&["git diff -- :(top,exclude).env :!a.pem"], Decision::Allow),
        // On Windows a `:` could select a stream.
        (
            &["git show HEAD:src/main.rs"],
            if cfg!(windows) {
                Decision::Ask
            } else {
                Decision::Allow
            },
        ),
        (&["git show HEAD@{1}:.env"], Decision::Deny),
        (&["A=1 ls"], Decision::Allow),
        (&["PATH=. ls"], Decision::Ask),
        (&["echo /etc/passwd ~ .env"], Decision::Allow),
        // A file of the workspace selects the program's version.
        (&["cargo --version"], Decision::Allow),
        (&["cd own", "cargo --version"], Decision::Ask),
        (&["cd own", "command -v cargo"], Decision::Allow),
        (&["cd own", "ls"], Decision::Allow),
    ] {
        let said = said(commands);
        assert_eq!(said.decision(), expected, "{commands:?}: {:?}", said);
    }
    let many: Vec<String> = (0..20).map(|at| format!("cd a{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain(["cat b"]).collect();
    assert_eq!(
        said(&many).decision(),
        Decision::Ask,
        "the path of the working directory grows without limit"
    );
}

#[test]
fn command_rules_have_specific_remedies() {
    assert_eq!(rule("make"), DEFAULT_LIST);
    assert_eq!(rule("cat .env"), "the path rules");
    assert_eq!(rule("$x"), DEFAULT_LIST);
    let sample = tool("exec");
    for command in ["make", "cat .env", "rm -r a", "cat /etc/x"] {
        let ways = crate::policy::remedies(&said(&[command]), &sample);
        assert!(
            !ways.is_empty() && ways.iter().all(|way| !way.contains("change or remove")),
            "{command}: {ways:?}"
        );
    }
    for (command, remedy) in [
        ("cat a/../.env", "`tools.exec.reveal: [.env]`"),
        ("cat .mimir/state/x", "no setting lifts this"),
        (
            "cat .claude/skills/evil/SKILL.md",
            "the file is part of a skill that no person has trusted: `mimir skills trust NAME`",
        ),
    ] {
        let remedies = crate::policy::remedies(&said(&[command]), &sample);
        assert_eq!(remedies.len(), 1, "{remedies:?}");
        assert!(remedies[0].starts_with(remedy), "{remedies:?}");
    }
}

#[test]
fn command_reason_of_a_redirection_does_not_say_that_it_only_reads() {
    let evaluation = said(&["echo hi >out.txt"]);
    let texts: Vec<&str> = evaluation
        .reasons()
        .map(|reason| reason.text.as_str())
        .collect();
    assert!(
        texts.contains(&"the program of `echo hi >out.txt` only reads"),
        "{texts:?}"
    );
}

#[test]
fn exec_allowlist_of_a_team_applies_as_team_policy() {
    let config: Config = serde_json::from_value(json!({"execApprovals": {"mode": "allowlist", "approvals": [
        {"pattern": "git status *"}, {"pattern": "ls"}, {"pattern": "make *", "addedBy": "auto", "lastUsed": "2026-01-31T12:00:00Z"},
    ]}})).unwrap();
    let team = PolicyFile::new(&config, "team.yml").unwrap().as_team();
    let policy = Policy::from_files(&Config::default(), vec![team]);
    let sample = tool("exec");
    for (command, expected) in [
        ("git status -s", Decision::Allow),
        ("ls", Decision::Allow),
        ("ls -l", Decision::Deny),
        ("make all", Decision::Ask),
        ("git $x", Decision::Ask),
        ("git push", Decision::Deny),
        ("$x", Decision::Ask),
        ("A=1", Decision::Ask),
    ] {
        let all = judged(
            &policy,
            &sample,
            &[command],
            &LinkResolver::none(),
            &NoCommandRunner,
        );
        assert_eq!(all.decision(), expected, "{command}: {all:?}");
        assert!(
            all.reasons()
                .filter(|one| one.source.starts_with("team.yml"))
                .all(|one| one.layer == PolicyLayer::TeamPolicy)
        );
    }
}

#[test]
fn exec_command_is_read_from_the_call_arguments() {
    let command = command_in_arguments(
        &json!({"command": "ls", "args": ["-l"], "workdir": "a", "env": {"B": "c"}}),
    )
    .unwrap();
    assert_eq!(
        command.program,
        CommandProgram::Vector(vec!["ls".into(), "-l".into()])
    );
    assert_eq!(
        (command.directory.as_deref(), command.environment.len()),
        (Some("a"), 1)
    );
    assert!(command_in_arguments(&json!({"command": ["ls"]})).is_none());
    assert!(command_in_arguments(&json!({"command": "ls", "args": [1]})).is_none());
}
