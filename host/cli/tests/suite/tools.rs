//! `mimir tools`: its output, compared with the screens of the specification.

use std::fs;

use crate::kit::shop::{CONFIG, json, own, stated, text, workspace};
use crate::kit::{mimir, run};
use serde_json::Value;

const BADGES: [(&str, &str); 2] = [("built-in", "[Built-in]"), ("custom", "[Custom]")];

/// The expected screen of `tools list`, computed from its `--json` output.
fn screen(list: &Value, command: &str) -> String {
    let mut screen = "Available Tools:\n\n".to_owned();
    let (mut total, mut unlisted) = (0, Vec::new());
    // Present on machines with a browser.
    let mut browser_tools = 0;
    for row in list["tools"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        if row["group"] == "browser" {
            browser_tools += 1;
            continue;
        }
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
    if browser_tools > 0 {
        screen += &format!(
            "\n\nFound by models through tool search: {browser_tools} browser tools (`mimir help browser`)"
        );
    }
    screen
        + &format!(
            "\n\nUsage:\n  {command} enable <name>   - Enable a tool\n  {command} disable <name>  - Disable a tool\n  {command} info <name>     - Show tool details\n  {command} tokens          - Show token breakdown\n"
        )
}

#[test]
fn tools_list_warns_of_settings_for_unknown_tools() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    fs::write(own(&home), "tools:\n  gti: {enabled: false}\n").unwrap();
    let (code, _, output) = run(home.path(), &["tools", "list"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("names the unknown tool `gti`"), "{output}");
    assert!(output.contains("`git`"), "{output}");
}

#[test]
fn tools_list_matches_the_specified_screen() {
    let home = workspace();
    let list = json(home.path(), &["tools", "list"]);
    let out = text(home.path(), &["tools", "list"]);
    assert_eq!(out, screen(&list, "mimir tools"));
    assert_eq!(out, text(home.path(), &["tools"]), "without a terminal");
    for line in [
        "\n✓ run_suite                [Custom]     ~450 tokens\n",
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
fn token_cost_counts_the_definition_sent_to_clients() {
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
        let stated = rows.iter().find(|row| row["name"] == "run_suite").unwrap();
        assert_eq!(stated["tokenCost"], 450);
    }
}

#[test]
fn token_count_cache_writable_by_others_is_ignored() {
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
    // The cached count is the one shown; an invalid one is counted again.
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
fn tools_tokens_matches_the_specified_screen() {
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
        screen.contains("\nrun_suite                 ███"),
        "{screen}"
    );
    assert!(
        !screen.contains("analyze_dependencies"),
        "what is off costs nothing"
    );
}

#[test]
fn token_price_comes_from_the_config() {
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
fn token_costs_can_be_hidden_by_the_config() {
    let home = workspace();
    let hidden = CONFIG.replace("showTokenCosts: true", "showTokenCosts: false");
    fs::write(own(&home), hidden).unwrap();
    let out = text(home.path(), &["tools", "list"]);
    assert!(!out.contains("tokens\n") && !out.contains("Total"), "{out}");
    assert!(
        out.contains("✓ run_suite                [Custom]     Looks at run_suite.\n"),
        "{out}"
    );
    assert_eq!(
        json(home.path(), &["tools", "list"])["tools"][0]["tokenCostStated"],
        true,
        "who reads JSON sees all"
    );
}

#[test]
fn tools_info_shows_token_cost_and_last_calls() {
    let home = workspace();
    fs::write(home.path().join("a.txt"), "x").unwrap();
    let out = text(home.path(), &["tools", "info", "read_file"]);
    assert!(out.contains("\nLast calls\n  none recorded\n"), "{out}");
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
        calls[1]["ok"] == true
            && calls[1]["receipt"]["bytesOut"].as_u64() > Some(0)
            && calls[1]["receipt"]["tokens"].as_u64() > Some(0),
        "{calls:?}"
    );
    let out = text(home.path(), &["tools", "info", "read_file"]);
    assert!(
        out.starts_with("Tool: read_file — Read file\nDescription: "),
        "{out}"
    );
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
    let out = text(home.path(), &["tools", "info", "run_suite"]);
    assert!(
        out.contains("\nToken Cost: ~450 tokens, declared by its author\n"),
        "{out}"
    );
}

#[test]
fn tools_tokens_advise_names_costly_and_unused_tools() {
    let home = workspace();
    let words = "Reads the plan of the week and says what stands in it for today.";
    for name in ["plan_a", "plan_b"] {
        let tool = stated(name, 300).replace(&format!("Looks at {name}."), words);
        fs::write(home.path().join(format!(".mimir/tools/{name}.yml")), tool).unwrap();
    }
    let out = text(home.path(), &["tools", "tokens", "--advise"]);
    assert!(out.contains("no tool has been called yet"), "{out}");
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
        "\nNear duplicates\n",
        "\nUnused\n",
        "mimir tools disable <name>",
    ] {
        assert!(out.contains(words), "{words:?} in\n{out}");
    }
}

#[test]
fn tools_search_finds_tools_by_description() {
    let home = workspace();
    let out = text(home.path(), &["tools", "search", "run", "suite"]);
    let first = out.lines().next().unwrap();
    assert_eq!(
        first,
        "✓ run_suite                [Custom]     Looks at run_suite."
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
    assert!(out.starts_with("No tool matches: zzqx"), "{out}");
    assert_eq!(run(home.path(), &["tools", "search"]).0, 2);
}

#[test]
fn licences_command_lists_bundled_components() {
    let home = workspace();
    let out = text(home.path(), &["licences"]);
    for name in ["CPython", "PSF", "QuickJS-ng", "bashkit", "Zachary Rice"] {
        assert!(out.contains(name), "{name}");
    }
    assert!(json(home.path(), &["licenses"])[0]["of"].is_string());
}
