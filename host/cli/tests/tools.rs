//! `mimir tools`: what it prints, beside the seeds' screens, and what it changes.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod kit;

use std::fs;
use std::path::Path;

use kit::{config, mimir, run};
use serde_json::Value;
use tempfile::TempDir;

/// A tool of the seeds, with the cost that they say it has.
fn stated(name: &str, tokens: u32) -> String {
    format!(
        "name: {name}\ndescription: Looks at {name}.\ntokenCost: {tokens}\nschema: {{type: object}}\ncode: |\n  export async function execute() {{ return ''; }}\n"
    )
}

/// The seeds' workspace: compact forms, two custom tools, one of them switched off.
fn workspace() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let tools = home.path().join(".mimir/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("run_tests.yml"), stated("run_tests", 450)).unwrap();
    let other = stated("analyze_dependencies", 380);
    fs::write(tools.join("analyze_dependencies.yml"), other).unwrap();
    fs::write(own(&home), CONFIG).unwrap();
    home
}

const CONFIG: &str = "profile: compact\ntools:\n  # Disable if not needed\n  analyze_dependencies:\n    enabled: false # not now\n  showTokenCosts: true\n";

fn own(home: &TempDir) -> std::path::PathBuf {
    home.path().join(".mimir/config.yml")
}

fn text(home: &Path, args: &[&str]) -> String {
    let (code, out, err) = run(home, args);
    assert_eq!(code, 0, "{args:?}: {err}");
    assert!(!out.contains('\u{1b}'), "{out}");
    out
}

fn json(home: &Path, args: &[&str]) -> Value {
    let mut args = args.to_vec();
    args.push("--json");
    serde_json::from_str(&text(home, &args)).unwrap()
}

const BADGES: [(&str, &str); 2] = [("built-in", "[Built-in]"), ("custom", "[Custom]")];

/// The screen `tools list` as the seeds' program would print it for what `--json` says.
fn screen(list: &Value, command: &str) -> String {
    let mut screen = "Available Tools:\n\n".to_owned();
    let (mut total, mut unlisted) = (0, Vec::new());
    for row in list["tools"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        if row["enabled"] == true && row["listed"] == false {
            unlisted.push(name);
            continue;
        }
        let tokens = row["tokenCost"].as_u64().unwrap();
        let badge = BADGES.iter().find(|(source, _)| row["source"] == *source);
        let mark = match row["enabled"] == true {
            true => {
                total += tokens;
                '✓'
            }
            false => '✗',
        };
        screen += &format!(
            "{mark} {name:24} {:12} ~{tokens} tokens\n",
            badge.unwrap().1
        );
    }
    screen += &format!("\nTotal system prompt cost: ~{total} tokens\n\n");
    screen += "Callable, but not shown to models under this profile: ";
    screen += &unlisted.join(", ");
    screen
        + &format!(
            "\n\nUsage:\n  {command} enable <name>   - Enable a tool\n  {command} disable <name>  - Disable a tool\n  {command} info <name>     - Show tool details\n  {command} tokens          - Show token breakdown\n"
        )
}

#[test]
fn the_list_is_the_seeds_screen() {
    let home = workspace();
    let list = json(home.path(), &["tools", "list"]);
    let out = text(home.path(), &["tools", "list"]);
    assert_eq!(out, screen(&list, "mimir tools"));
    assert_eq!(
        out,
        text(home.path(), &["tools"]),
        "where there is no terminal"
    );
    for line in [
        "\n✓ run_tests                [Custom]     ~450 tokens\n",
        "\n✗ analyze_dependencies     [Custom]     ~380 tokens\n",
        "\n✓ file_operations          [Built-in]   ~",
        "\n✓ git                      [Built-in]   ~",
    ] {
        assert!(out.contains(line), "{line:?} in\n{out}");
    }
    let total = list["totalTokens"].as_u64().unwrap();
    assert!(out.contains(&format!("\nTotal system prompt cost: ~{total} tokens\n")));
    // Other formats have other costs.
    let of = |format: &str| {
        json(home.path(), &["tools", "list", "--format", format])["totalTokens"].clone()
    };
    assert_eq!(of("openai"), total);
    assert!(of("mcp").as_u64() > of("openai").as_u64() && of("anthropic") != of("openai"));
}

#[test]
fn a_cost_is_that_of_the_definition_that_a_client_gets() {
    let home = workspace();
    for format in ["openai", "anthropic", "mcp"] {
        let list = json(home.path(), &["tools", "list", "--format", format]);
        let rows = list["tools"].as_array().unwrap();
        for name in ["git", "read_file", "exec"] {
            let given = json(home.path(), &["schema", "--format", format, name]);
            let count = mimir_tokens::count(&given[0].to_string());
            let row = rows.iter().find(|row| row["name"] == name).unwrap();
            assert_eq!(row["tokenCost"], count, "{name} {format}");
            assert_eq!(row["tokenCostStated"], false);
        }
        let stated = rows.iter().find(|row| row["name"] == "run_tests").unwrap();
        assert_eq!(stated["tokenCost"], 450);
    }
}

#[test]
fn counts_are_kept_for_this_user_and_believed_from_nobody_else() {
    let home = workspace();
    let cache = tempfile::tempdir().unwrap();
    let list = || {
        let mut command = mimir(home.path(), &["tools", "list", "--json"]);
        let output = command
            .env("MIMIR_CACHE_DIR", cache.path().join("c"))
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let first = list();
    let book = cache.path().join("c/tokens-o200k-1.txt");
    let kept = fs::read_to_string(&book).unwrap();
    assert!(kept.lines().count() >= 10, "{kept}");
    // What is kept is what is shown: a count that is not is made again.
    let (line, rest) = kept.split_once('\n').unwrap();
    let other = format!("{} 00077777\n{rest}", &line[..32]);
    fs::write(&book, &other).unwrap();
    assert_eq!(list().matches("77777").count(), 1, "the book is read");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |mode| fs::set_permissions(&book, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o666);
        assert_eq!(list(), first, "what others could write is not");
        let mode_now = fs::metadata(&book).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode_now, 0o600);
    }
    for broken in ["", "nonsense", "\u{feff}"] {
        fs::write(&book, broken).unwrap();
        assert_eq!(list(), first);
    }
}

#[test]
fn tokens_are_the_seeds_screen() {
    let home = workspace();
    let spent = json(home.path(), &["tools", "tokens"]);
    let mut screen = "Token Cost Breakdown:\n\n".to_owned();
    let tools = spent["tools"].as_array().unwrap();
    let tokens: Vec<u64> = tools
        .iter()
        .map(|tool| tool["tokenCost"].as_u64().unwrap())
        .collect();
    assert!(tokens.is_sorted_by(|a, b| a >= b), "{tokens:?}");
    let most = tokens[0].max(1000);
    for (tool, tokens) in tools.iter().zip(&tokens) {
        let filled = (*tokens as f64 / most as f64 * 40.0).round() as usize;
        let bar = "█".repeat(filled) + &"░".repeat(40 - filled);
        screen += &format!("{:25} {bar} {tokens}\n", tool["name"].as_str().unwrap());
    }
    let total: u64 = tokens.iter().sum();
    assert_eq!(spent["totalTokens"], total);
    let dollars = total as f64 / 1e6;
    screen += &format!("\nTotal: {total} tokens (~${dollars:.4})\n");
    let built_in = total - 450;
    screen += &format!("[Built-in] {built_in}, [Custom] 450\n");
    assert_eq!(text(home.path(), &["tools", "tokens"]), screen);
    assert!(
        screen.contains("\nrun_tests                 ███"),
        "{screen}"
    );
    assert!(
        !screen.contains("analyze_dependencies"),
        "what is off costs nothing"
    );
}

#[test]
fn the_price_is_the_configs() {
    for (price, dollars) in [
        ("", 450.0 / 1e6),
        ("  tokenPrice: 2500\n", 450.0 * 2500.0 / 1e6),
    ] {
        let home = workspace();
        fs::write(own(&home), format!("{CONFIG}{price}")).unwrap();
        let spent = json(home.path(), &["tools", "tokens"]);
        let total = spent["totalTokens"].as_f64().unwrap();
        let found = spent["dollars"].as_f64().unwrap();
        assert!(
            (found - dollars / 450.0 * total).abs() < 1e-9,
            "{price} {found}"
        );
        let out = text(home.path(), &["tools", "tokens"]);
        assert!(out.contains(&format!("(~${found:.4})")), "{out}");
    }
}

#[test]
fn costs_are_not_shown_where_that_is_set() {
    let home = workspace();
    let hidden = CONFIG.replace("showTokenCosts: true", "showTokenCosts: false");
    fs::write(own(&home), hidden).unwrap();
    let out = text(home.path(), &["tools", "list"]);
    assert!(!out.contains("tokens\n") && !out.contains("Total"), "{out}");
    assert!(
        out.contains("✓ run_tests                [Custom]     Looks at run_tests.\n"),
        "{out}"
    );
    assert_eq!(
        json(home.path(), &["tools", "list"])["tools"][0]["tokenCostStated"],
        true,
        "who reads JSON sees all"
    );
}

#[test]
fn a_switch_says_what_it_saves_and_is_in_the_config() {
    let home = workspace();
    let tokens = |name: &str| {
        let list = json(home.path(), &["tools", "list"]);
        let rows = list["tools"].as_array().unwrap().iter();
        let mut rows = rows.filter(|row| row["name"] == name);
        rows.next().unwrap()["tokenCost"].as_u64().unwrap()
    };
    let git = tokens("git");
    for (args, said) in [
        (
            ["disable", "git"],
            format!("✗ Disabled tool: git (-{git} tokens)\n"),
        ),
        (
            ["disable", "git"],
            "Tool already disabled: git\n".to_owned(),
        ),
        (
            ["enable", "git"],
            format!("✓ Enabled tool: git (+{git} tokens)\n"),
        ),
        (["enable", "git"], "Tool already enabled: git\n".to_owned()),
        (
            ["enable", "analyze_dependencies"],
            "✓ Enabled tool: analyze_dependencies (+380 tokens)\n".to_owned(),
        ),
        // Not among the forms of this profile: models read no less.
        (
            ["disable", "read_file"],
            "✗ Disabled tool: read_file (-0 tokens)\n".to_owned(),
        ),
        // An alias is the tool.
        (
            ["disable", "bash_execution"],
            format!("✗ Disabled tool: exec (-{} tokens)\n", tokens("exec")),
        ),
    ] {
        assert_eq!(text(home.path(), &["tools", args[0], args[1]]), said);
    }
    let now = fs::read_to_string(own(&home)).unwrap();
    let expected = CONFIG.replace("enabled: false # not now", "enabled: true # not now");
    let added = "  git:\n    enabled: true\n  read_file:\n    enabled: false\n  exec:\n    enabled: false\n";
    assert_eq!(now, expected + added);
    let (code, _, err) = run(home.path(), &["call", "exec", "command=true"]);
    assert_eq!(code, 3, "{err}");
    let (code, _, err) = run(home.path(), &["tools", "enable", "gti"]);
    assert!(code == 2 && err.contains("Did you mean `git`?"), "{err}");
    let switched = json(home.path(), &["tools", "disable", "git"]);
    assert_eq!(
        (&switched["tokens"], &switched["changed"]),
        (&(-(git as i64)).into(), &true.into())
    );
}

#[test]
fn a_hundred_switches_leave_all_else_byte_for_byte() {
    let home = workspace();
    let rich = "# top\r\n\r\n\"profile\":   'compact'   # quoted\r\ntools: # all\r\n    # of git\r\n    'git':   {enabled: true, approval: \"ask\"} # flow\r\n\r\n    exec:\r\n        enabled: true    # wide\r\n# end\r\n";
    fs::write(own(&home), rich).unwrap();
    for turn in 0..50 {
        for name in ["git", "exec"] {
            let word = if turn % 2 == 0 { "disable" } else { "enable" };
            text(home.path(), &["tools", word, name]);
        }
        let wanted = match turn % 2 {
            0 => rich.replace("enabled: true", "enabled: false"),
            _ => rich.to_owned(),
        };
        assert_eq!(
            fs::read_to_string(own(&home)).unwrap(),
            wanted,
            "turn {turn}"
        );
    }
}

#[test]
fn many_at_once_lose_nothing() {
    let home = workspace();
    let names = [
        "git",
        "exec",
        "web_fetch",
        "file_search",
        "run_code",
        "web_search",
    ];
    let all: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = mimir(home.path(), &["tools", "disable", name]);
            command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for child in all {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let list = json(home.path(), &["tools", "list"]);
    for row in list["tools"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let off = names.contains(&name) || name == "analyze_dependencies";
        assert_eq!(row["enabled"] == false, off, "{name}");
    }
    assert!(fs::read_to_string(own(&home)).unwrap().starts_with(CONFIG));
}

#[test]
fn what_a_team_or_another_rule_says_is_not_switched() {
    let home = workspace();
    let team = tempfile::tempdir().unwrap();
    let team = team.path().join("team.yml");
    fs::write(
        &team,
        "tools: {git: {enabled: true}, exec: {enabled: false}}\n",
    )
    .unwrap();
    let told = |args: &[&str], code: i32| {
        let output = mimir(home.path(), args)
            .env("MIMIR_TEAM_POLICY", &team)
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{err}");
        err
    };
    let err = told(&["tools", "disable", "git"], 3);
    assert!(
        err.contains("Cannot disable tool: git (enforced by enterprise policy)"),
        "{err}"
    );
    let err = told(&["tools", "enable", "exec"], 3);
    assert!(
        err.contains("Cannot enable tool: exec (enforced by enterprise policy)"),
        "{err}"
    );
    assert_eq!(fs::read_to_string(own(&home)).unwrap(), CONFIG);
    fs::write(own(&home), "policy: {deny: [git]}\n").unwrap();
    let err = told(&["tools", "enable", "git"], 3);
    assert!(
        err.contains(".mimir/config.yml:1"),
        "the rule is named: {err}"
    );
    // Off in both: both are switched, in their own files.
    fs::create_dir_all(config(home.path())).unwrap();
    let user = config(home.path()).join("config.yml");
    fs::write(&user, "tools: {web_fetch: {enabled: false}} # mine\n").unwrap();
    fs::write(own(&home), "tools: {web_fetch: {enabled: false}}\n").unwrap();
    told(&["tools", "enable", "web_fetch"], 0);
    assert_eq!(
        fs::read_to_string(&user).unwrap(),
        "tools: {web_fetch: {enabled: true}} # mine\n"
    );
    told(&["tools", "disable", "web_fetch", "--user"], 0);
    assert_eq!(
        fs::read_to_string(&user).unwrap(),
        "tools: {web_fetch: {enabled: false}} # mine\n"
    );
    assert_eq!(
        fs::read_to_string(own(&home)).unwrap(),
        "tools: {web_fetch: {enabled: true}}\n"
    );
}

#[test]
fn info_has_the_cost_and_the_last_calls() {
    let home = workspace();
    fs::write(home.path().join("a.txt"), "x").unwrap();
    let out = text(home.path(), &["tools", "info", "read_file"]);
    assert!(out.contains("\nLast calls\n  none is on record\n"), "{out}");
    assert_eq!(run(home.path(), &["call", "read_file", "path=a.txt"]).0, 0);
    assert_eq!(run(home.path(), &["call", "read_file", "path=b.txt"]).0, 1);
    let info = json(home.path(), &["tools", "info", "read_file"]);
    let cost = info["tokenCost"].as_u64().unwrap();
    let calls = info["lastCalls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    assert_eq!(
        (&calls[0]["ok"], &calls[0]["code"]),
        (&false.into(), &"FILE_NOT_FOUND".into())
    );
    assert!(
        calls[1]["ok"] == true && calls[1]["receipt"]["bytesOut"].as_u64() > Some(0),
        "{calls:?}"
    );
    let out = text(home.path(), &["tools", "info", "read_file"]);
    assert!(out.starts_with("Tool: read_file\nDescription: "), "{out}");
    for line in [
        "Source: [Built-in]".to_owned(),
        "Enabled: Yes".to_owned(),
        format!("Token Cost: ~{cost} tokens ("),
        "Parameters:".to_owned(),
    ] {
        assert!(
            out.lines().any(|own| own.starts_with(&line)),
            "{line} in\n{out}"
        );
    }
    assert!(out.contains(" ok, bytesIn "), "{out}");
    let out = text(home.path(), &["tools", "info", "run_tests"]);
    assert!(
        out.contains("\nToken Cost: ~450 tokens, as its author says\n"),
        "{out}"
    );
}

#[test]
fn advice_names_what_costs_and_what_nobody_calls() {
    let home = workspace();
    let words = "Reads the plan of the week and says what stands in it for today.";
    for name in ["plan_a", "plan_b"] {
        let tool = stated(name, 300).replace(&format!("Looks at {name}."), words);
        fs::write(home.path().join(format!(".mimir/tools/{name}.yml")), tool).unwrap();
    }
    let out = text(home.path(), &["tools", "tokens", "--advise"]);
    assert!(out.contains("nothing was called yet"), "{out}");
    fs::write(home.path().join("a.txt"), "x").unwrap();
    assert_eq!(
        run(
            home.path(),
            &["call", "file_operations", "operation=read", "path=a.txt"]
        )
        .0,
        0
    );
    let advice = json(home.path(), &["tools", "tokens", "--advise"]);
    assert_eq!(advice["calls"], 1);
    let unused = advice["unused"].as_array().unwrap();
    let is_unused = |name: &str| unused.iter().any(|one| one["name"] == name);
    assert!(
        is_unused("git") && !is_unused("file_operations") && !is_unused("analyze_dependencies")
    );
    let pairs = advice["duplicates"].as_array().unwrap();
    assert_eq!(pairs.len(), 1, "{pairs:?}");
    let pair = [&pairs[0]["name"], &pairs[0]["other"]].map(|name| name.as_str().unwrap());
    assert!(pair.contains(&"plan_a") && pair.contains(&"plan_b"));
    let costly = advice["descriptions"].as_array().unwrap();
    let costs: Vec<_> = costly
        .iter()
        .map(|one| one["descriptionTokens"].as_u64())
        .collect();
    assert!(
        !costs.is_empty() && costs.is_sorted_by(|a, b| a >= b),
        "{costs:?}"
    );
    let out = text(home.path(), &["tools", "tokens", "--advise"]);
    for words in [
        "\nCostliest descriptions\n",
        "\nMuch the same\n",
        "\nUnused\n",
        "mimir tools disable <name>",
    ] {
        assert!(out.contains(words), "{words:?} in\n{out}");
    }
}

#[test]
fn tools_are_found_by_what_they_do() {
    let home = workspace();
    let out = text(home.path(), &["tools", "search", "run", "tests"]);
    let first = out.lines().next().unwrap();
    assert_eq!(
        first,
        "✓ run_tests                [Custom]     Looks at run_tests."
    );
    let found = json(home.path(), &["tools", "search", "REPOSITORY"]);
    assert!(
        found["tools"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tool| tool["name"] == "git"),
        "{found}"
    );
    let out = text(home.path(), &["tools", "search", "zzqx\u{1b}[2J"]);
    assert!(out.starts_with("No tool is about: zzqx"), "{out}");
    assert_eq!(run(home.path(), &["tools", "search"]).0, 2);
}
