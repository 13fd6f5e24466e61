use super::*;
use crate::pipeline::tests::tool;
use crate::tool::ToolName;

fn alias(name: &str) -> ToolName {
    ToolName::new(name).unwrap()
}

#[test]
fn registry_first_tool_to_take_a_name_wins() {
    let mut first = tool("read_file");
    first.aliases = vec![alias("read"), alias("open")];
    let second = tool("read");
    let registry = Registry::new([first, second], vec![]);
    assert_eq!(
        registry.get("read").map(|tool| tool.name().as_str()),
        Some("read_file"),
        "a later tool took the alias"
    );
    assert_eq!(registry.get("open").unwrap().name().as_str(), "read_file");
    assert_eq!(registry.quarantined().len(), 1);
}

#[test]
fn registry_collision_names_both_sources() {
    let mut one = tool("same");
    Arc::make_mut(&mut one.origin).location = "a.wasm".into();
    let mut two = tool("same");
    Arc::make_mut(&mut two.origin).location = "b.wasm".into();
    let registry = Registry::new([one, two], vec![]);
    let [left_out] = registry.quarantined() else {
        panic!("{registry:?}")
    };
    assert!(
        left_out.location.contains("b.wasm") && left_out.reason.contains("a.wasm"),
        "{left_out:?}"
    );
    assert_eq!(registry.get("same").unwrap().origin.location, "a.wasm");
}

#[test]
fn registry_prefers_built_in_then_granted_tools() {
    let newcomer = || from("a.wasm", ToolSource::Custom, "same");
    let mut granted = from("b.wasm", ToolSource::Custom, "same");
    granted.trust = ToolTrust::Trusted;
    let registry = Registry::new([newcomer(), granted.clone()], vec![]);
    assert_eq!(registry.get("same").unwrap().origin.location, "b.wasm");
    let [left_out] = registry.quarantined() else {
        panic!("{registry:?}")
    };
    assert!(left_out.location.contains("a.wasm"), "{left_out:?}");
    assert!(left_out.reason.contains("b.wasm, which was granted"));
    // Built-in tools take precedence.
    let built_in = from("built-in/files", ToolSource::BuiltIn, "same");
    let registry = Registry::new([built_in, granted], vec![]);
    assert_eq!(registry.get("same").unwrap().source, ToolSource::BuiltIn);
}

#[test]
fn registry_unknown_name_suggests_the_nearest_tool() {
    let registry = Registry::new([tool("read_file"), tool("git")], vec![]);
    let error = registry.find("raed_file").unwrap_err();
    assert_eq!(error.code, ToolErrorCode::NotFound);
    assert!(error.message.contains("`read_file`"), "{error}");
}

fn from(location: &str, source: ToolSource, name: &str) -> Tool {
    let mut tool = tool(name);
    Arc::make_mut(&mut tool.origin).location = location.into();
    tool.source = source;
    tool.trust = ToolTrust::Untrusted;
    tool
}

#[test]
fn registry_mcp_name_collision_needs_exactly_one_grant() {
    let script = || from("mcp_x_go.yml", ToolSource::Custom, "mcp_x_go");
    let server = || from("mcp:x", ToolSource::Mcp, "mcp_x_go");
    let registry = Registry::new([script(), server()], vec![]);
    assert!(registry.get("mcp_x_go").is_none(), "{registry:?}");
    assert_eq!(registry.quarantined().len(), 2);
    let mut granted = server();
    granted.trust = ToolTrust::Trusted;
    let registry = Registry::new([script(), granted.clone()], vec![]);
    let winner = registry.get("mcp_x_go").unwrap();
    assert_eq!(winner.origin.location, "mcp:x");
    let mut both = script();
    both.trust = ToolTrust::Trusted;
    let registry = Registry::new([both, granted], vec![]);
    assert!(registry.get("mcp_x_go").is_none(), "{registry:?}");
    // `a` with `b_c` and `a_b` with `c`.
    let one = from("mcp:a", ToolSource::Mcp, "mcp_a_b_c");
    let two = from("mcp:a_b", ToolSource::Mcp, "mcp_a_b_c");
    assert!(Registry::new([one, two], vec![]).tools().is_empty());
}

#[test]
fn reserved_names_of_servers_remove_conflicting_tools() {
    let pair = |server: &str, prefix: &str| (server.to_owned(), prefix.to_owned());
    let reserved = ReservedNames::new([
        pair("mcp:a", "mcp_a_"),
        pair("mcp:a_b", "mcp_a_b_"),
        pair("mcp:f-s", "mcp_f_s_"),
        pair("mcp:f_s", "mcp_f_s_"),
        pair("mcp:bare", ""),
    ]);
    let mut granted = from("mcp:f-s", ToolSource::Mcp, "mcp_f_s_go");
    granted.trust = ToolTrust::Trusted;
    let mut script = from("x.yml", ToolSource::Custom, "mcp_a_go");
    script.trust = ToolTrust::Trusted;
    let mut tools = vec![
        script,
        from("mcp:a", ToolSource::Mcp, "mcp_a_go"),
        from("mcp:a", ToolSource::Mcp, "mcp_a_b_c"),
        from("mcp:a_b", ToolSource::Mcp, "mcp_a_b_d"),
        from("mcp:f_s", ToolSource::Mcp, "mcp_f_s_stay"),
        from("mcp:bare", ToolSource::Mcp, "go"),
        from("y.yml", ToolSource::Custom, "mine"),
        granted,
    ];
    let mut quarantined = Vec::new();
    reserved.remove_conflicts(&mut tools, &mut quarantined);
    let left: Vec<&str> = tools.iter().map(|tool| tool.name().as_str()).collect();
    assert_eq!(
        left,
        ["mcp_a_go", "mcp_a_b_d", "go", "mine", "mcp_f_s_go"],
        "{quarantined:?}"
    );
    assert_eq!(quarantined.len(), 3);
    assert!(quarantined[0].location.contains("x.yml"));
}

#[test]
fn registry_find_explains_an_unavailable_server() {
    let pair = |server: &str, prefix: &str| (server.to_owned(), prefix.to_owned());
    let remedy = "`mimir mcp test bad` tries it again".to_owned();
    let fault =
        ToolError::new(ToolErrorCode::Timeout, "it was not ready").with_remedies([remedy.clone()]);
    let reserved = ReservedNames::new([
        pair("mcp:bad", "mcp_bad_"),
        pair("mcp:bad_one", "mcp_bad_one_"),
        pair("mcp:bare", ""),
    ]);
    let reserved = reserved.with_faults([
        ("mcp_bad_".to_owned(), fault.clone()),
        (String::new(), fault),
    ]);
    let registry = Registry::new([from("mcp:a", ToolSource::Mcp, "mcp_bad_go")], vec![]);
    let registry = registry.with_reserved(reserved);
    let error = registry.find("mcp_bad_echo").unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert!(error.message.contains("it was not ready"), "{error}");
    assert_eq!(error.remedies.to_vec(), [remedy]);
    assert!(registry.find("mcp_bad_go").is_ok());
    let fault = ToolError::permission_denied("no skill can be used");
    let reserved = ReservedNames::new([]).with_tool_fault("load_skill", fault);
    let left_out = Registry::new([], vec![]).with_reserved(reserved);
    let error = left_out.find("load_skill").unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied);
    assert_eq!(
        left_out.find("load_skills").unwrap_err().code,
        ToolErrorCode::NotFound
    );
    // Names outside the failed server's prefix are simply not found.
    for name in ["mcp_bad_one_echo", "mcp_other_echo", "echo"] {
        assert_eq!(
            registry.find(name).unwrap_err().code,
            ToolErrorCode::NotFound,
            "{name}"
        );
    }
}

#[test]
fn registry_find_names_missing_files_for_an_unknown_tool() {
    let missing = |location: String| Quarantined {
        location,
        code: ToolErrorCode::FileNotFound,
        reason: "fetch it again".to_owned(),
    };
    let files = (0..5).map(|number| missing(format!(".mimir/tools/f{number}.wasm")));
    let registry = Registry::new([tool("word_counts")], files.collect());
    let error = registry.find("hello").unwrap_err();
    assert!(error.message.contains("unknown tool `hello`"), "{error}");
    assert!(
        error.message.contains(".mimir/tools/f2.wasm and 2 more"),
        "{error}"
    );
    assert_eq!(error.remedies.to_vec(), ["fetch it again"]);
    assert!(registry.find("word_counts").is_ok());
}

#[test]
fn registry_find_reports_a_quarantined_tool() {
    let left_out = |location: &str| Quarantined {
        location: location.to_owned(),
        code: ToolErrorCode::InvalidInput,
        reason: "its key is misspelt".to_owned(),
    };
    let quarantined = vec![
        left_out(".mimir/tools/word-count.yml"),
        left_out(".mimir/tools/fs.wasm (read_it)"),
    ];
    let registry = Registry::new([tool("word_counts")], quarantined);
    for (name, file) in [("word_count", "word-count.yml"), ("read_it", "fs.wasm")] {
        let error = registry.find(name).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::NotFound);
        assert!(
            error.message.contains("left out") && error.message.contains(file),
            "{error}"
        );
        assert!(!error.message.contains("misspelt"), "{error}");
        assert!(error.remedies.iter().any(|line| line.contains("misspelt")));
        assert!(!registry.is_unknown(name));
    }
    assert!(registry.is_unknown("fs") && !registry.is_unknown("word_counts"));
    let without = registry.only(|_| false);
    assert!(without.get("word_counts").is_none() && !without.is_unknown("word_counts"));
    // Another tool of the file is unknown, and so is its file.
    let error = registry.find("fs").unwrap_err();
    assert!(error.message.contains("unknown tool `fs`"), "{error}");
}

#[test]
fn registry_prefix_resolves_a_name_collision() {
    let mut theirs = tool("sample");
    theirs.source = ToolSource::Custom;
    let mut origin = (*theirs.origin).clone();
    origin.location = ".mimir/tools/filesystem-rs.wasm".to_owned();
    theirs.origin = Arc::new(origin);
    let registry = Registry::new([tool("sample"), theirs.clone()], vec![]);
    let [left_out] = registry.quarantined() else {
        panic!("{:?}", registry.quarantined());
    };
    assert!(
        left_out
            .reason
            .contains("`mimir tools trust filesystem-rs.wasm --prefix filesystem_rs_`"),
        "{left_out:?}"
    );
    let mut lock = crate::grants::ToolsLock::default();
    let location = theirs.origin.location.clone();
    lock.prefixes.insert(location, "fs_".to_owned());
    let (mut tools, mut quarantined) = (vec![tool("sample"), theirs], vec![]);
    // Applying it twice gives the same result.
    crate::grants::apply_prefixes(&lock, &mut tools, &mut quarantined);
    crate::grants::apply_prefixes(&lock, &mut tools, &mut quarantined);
    assert!(quarantined.is_empty());
    let registry = Registry::new(tools, quarantined);
    let names: Vec<_> = registry
        .tools()
        .iter()
        .map(|tool| tool.name().as_str())
        .collect();
    assert_eq!(names, ["fs_sample", "sample"]);
    assert_eq!(registry.get("fs_sample").unwrap().own_name(), "sample");
}

fn built_in(name: &str) -> Tool {
    let mut tool = from("built-in/x", ToolSource::BuiltIn, name);
    tool.trust = ToolTrust::Trusted;
    tool
}

fn built_in_browser(name: &str) -> Tool {
    let mut tool = built_in(name);
    tool.definition.group = crate::tool::ToolGroup::Browser;
    tool
}

#[test]
fn registry_granted_tools_replace_newer_built_in_tools() {
    let mut of_user = from("run_tests.wasm", ToolSource::Custom, "run_tests");
    of_user.trust = ToolTrust::Trusted;
    // The grant is of an earlier build.
    let mut rebuilt = from("search_code.wasm", ToolSource::Custom, "search_code");
    rebuilt.changes = Some(crate::grants::GrantChanges::default());
    let mut of_server = from("mcp:playwright", ToolSource::Mcp, "browser_click");
    of_server.trust = ToolTrust::Trusted;
    let registry = Registry::new(
        [
            built_in("run_tests"),
            built_in("format_code"),
            built_in("search_code"),
            built_in("read_file"),
            from("stranger.yml", ToolSource::Custom, "run_tests"),
            of_user,
            rebuilt,
            of_server,
            built_in_browser("browser_click"),
            built_in_browser("browser_downloads"),
        ],
        vec![],
    );
    let location = |name: &str| registry.get(name).map(|tool| tool.origin.location.as_str());
    assert_eq!(location("run_tests"), Some("run_tests.wasm"));
    assert_eq!(location("search_code"), Some("search_code.wasm"));
    assert_eq!(location("format_code"), Some("built-in/x"));
    assert_eq!(location("browser_click"), Some("mcp:playwright"));
    assert_eq!(location("browser_downloads"), Some("built-in/x"));
    let [stranger] = registry.quarantined() else {
        panic!("{:?}", registry.quarantined())
    };
    assert!(stranger.location.contains("stranger.yml"), "{stranger:?}");
    assert_eq!(registry.replaced().len(), 3, "{:?}", registry.replaced());
    let why = &registry.replaced()[0].reason;
    assert!(why.contains("run_tests.wasm, which was granted"), "{why}");
}

#[test]
fn registry_tools_without_a_grant_never_replace_built_in_tools() {
    let mut harmless = from("format.yml", ToolSource::Custom, "format_code");
    harmless.trust = ToolTrust::Harmless;
    let registry = Registry::new(
        [
            built_in("apply_patch"),
            built_in("format_code"),
            from(
                ".mimir/tools/apply_patch.yml",
                ToolSource::Custom,
                "apply_patch",
            ),
            from(".mimir/tools/apply_patch.yml", ToolSource::Custom, "other"),
            harmless,
            from("mcp:playwright", ToolSource::Mcp, "browser_click"),
            built_in_browser("browser_click"),
            built_in_browser("browser_type"),
        ],
        vec![],
    );
    for name in [
        "apply_patch",
        "format_code",
        "browser_click",
        "browser_type",
    ] {
        let tool = registry.get(name).unwrap();
        assert_eq!(tool.source, ToolSource::BuiltIn, "{name}");
    }
    assert!(registry.replaced().is_empty());
    let reasons: Vec<&str> = registry
        .quarantined()
        .iter()
        .map(|left_out| left_out.reason.as_str())
        .collect();
    let [patch, format, click] = reasons[..] else {
        panic!("{reasons:?}")
    };
    assert!(
        patch.contains("`mimir tools trust apply_patch.yml` lets it replace"),
        "{patch}"
    );
    assert!(format.ends_with("rename the tool"), "{format}");
    assert!(click.contains("`mimir mcp trust playwright`"), "{click}");
    // A grant covers all tools of the plugin.
    let other = registry.get("other").unwrap();
    assert_eq!(registry.plugin(other).len(), 2);
}

#[test]
fn registry_adds_tools_whose_names_are_free() {
    let mut first = tool("read_file");
    first.aliases = vec![alias("read")];
    let registry = Registry::new([first, tool("zip")], vec![]);
    let added =
        ["read", "append", "zip"].map(|name| Arc::new(from("b.wasm", ToolSource::Custom, name)));
    let registry = registry.with_added(added.into());
    let names: Vec<&str> = registry
        .tools()
        .iter()
        .map(|tool| tool.name().as_str())
        .collect();
    assert_eq!(names, ["append", "read_file", "zip"]);
    for (name, found) in [("read", "read_file"), ("append", "append"), ("zip", "zip")] {
        assert_eq!(registry.get(name).unwrap().name().as_str(), found);
    }
    assert_ne!(registry.get("zip").unwrap().origin.location, "b.wasm");
}

#[test]
fn registry_name_of_a_team_tool_is_taken_by_no_other_source() {
    for trust in [ToolTrust::Trusted, ToolTrust::Untrusted] {
        let mut team = from("team:acme/scan.wasm", ToolSource::Teams, "scan");
        team.trust = trust;
        let mut local = from("scan.wasm", ToolSource::Custom, "scan");
        local.trust = ToolTrust::Trusted;
        let mut server = from("mcp:scan", ToolSource::Mcp, "scan");
        server.trust = ToolTrust::Trusted;
        let registry = Registry::new([local, server, team], vec![]);
        let holder = registry.get("scan").unwrap();
        assert_eq!(holder.source, ToolSource::Teams, "{trust:?}");
        assert_eq!(registry.quarantined().len(), 2);
        let reason = &registry.quarantined()[0].reason;
        assert!(
            reason.contains("belongs to team:acme/scan.wasm;"),
            "{reason}"
        );
    }
    // A tool of the user that was granted cannot displace it from the name of a newer built-in tool.
    let built_in = from("built-in/tests", ToolSource::BuiltIn, "run_tests");
    let mut local = from("run.wasm", ToolSource::Custom, "run_tests");
    local.trust = ToolTrust::Trusted;
    let team = from("team:acme/run.wasm", ToolSource::Teams, "run_tests");
    let registry = Registry::new([built_in, local, team], vec![]);
    assert_eq!(registry.get("run_tests").unwrap().source, ToolSource::Teams);
    // A prefix of a server does not reserve it.
    let reserved = ReservedNames::new([("mcp:scan".to_owned(), "sc".to_owned())]);
    let mut tools = vec![
        from("team:acme/scan.wasm", ToolSource::Teams, "scan"),
        from("scan.wasm", ToolSource::Custom, "scan"),
    ];
    reserved.remove_conflicts(&mut tools, &mut Vec::new());
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].source, ToolSource::Teams);
}

#[test]
fn reserved_names_of_teams_remove_tools_of_other_sources() {
    let name = "greeting".to_owned();
    let location = "team:acme/greeting.wasm";
    let reserved = ReservedNames::default().with_team_tools([(name, location.to_owned())].into());
    let mut trusted = from("mcp:x", ToolSource::Mcp, "greeting");
    trusted.trust = ToolTrust::Trusted;
    let mut with_alias = from("other.yml", ToolSource::Custom, "other");
    with_alias.aliases = vec![alias("greeting")];
    let mut tools = vec![
        from("greeting.yml", ToolSource::Custom, "greeting"),
        trusted,
        with_alias,
        from(location, ToolSource::Teams, "greeting"),
        from("greet.yml", ToolSource::Custom, "greet"),
    ];
    let mut quarantined = Vec::new();
    reserved.remove_conflicts(&mut tools, &mut quarantined);
    let kept = tools.iter().map(|tool| tool.origin.location.as_str());
    assert_eq!(kept.collect::<Vec<_>>(), [location, "greet.yml"]);
    assert_eq!(quarantined.len(), 3);
    let reason = &quarantined[0].reason;
    assert!(
        reason.contains("belongs to team:acme/greeting.wasm"),
        "{reason}"
    );
}
