//! Shell expansions: braces, and loop variables, whose values are assumed only if nothing else can set them.

use mimir_commands::shell::read_script;
use mimir_core::Decision::{Allow, Ask, Deny};
use mimir_core::command::{CommandProgram, ShellWord};

use crate::kit::DecisionTester;

/// Loops with which agents search files.
const ALLOWED_LOOPS: &[&str] = &[
    "for f in *.rs; do grep -n TODO \"$f\"; done",
    "for f in a.rs b.rs; do echo \"== $f\"; head -5 \"$f\"; done",
    "for f in src/*.rs; do echo \"$f: $(wc -l < \"$f\")\"; done",
    "for f in *; do [ -f \"$f\" ] && wc -l \"$f\"; done",
    "for f in src/*; do if [ -d \"${f}\" ]; then ls \"$f\"; fi; done",
    "for d in src tests; do ls $d/; grep -rn fn $d; done",
    "for d in src tests; do for f in \"$d\"/*.rs; do cat \"$f\"; done; done",
    "for f in a b; do cat src/$f.rs \"src/${f}.md\"; done | sort | uniq",
    "for f in a; do cat $f; done; for f in b; do cat $f; done",
    "for c in pwd ls; do $c; done",
    "for n in 1 2 3; do head -n $n README.md; done",
    "bash -c 'for f in a b; do cat $f; done'",
    "for f in \"a b\" 'c;d'; do cat \"$f\"; done",
    "for d in crates/*; do cat \"$d/Cargo.toml\"; done",
    "for d in crates/*; do cat \"${d}_x\" \"${d}/src/lib.rs\" \"$d.md\"; done",
    "for f in *; do cat \"src/$f\" \"src/x-$f.rs\"; done",
];

/// Loops that read or run something other than their values suggest.
const UNSAFE_LOOPS: &[&str] = &[
    // Set by another command.
    "for f in a; do f=/etc/shadow; cat \"$f\"; done",
    "for f in a; do read -r f < list; cat \"$f\"; done",
    "for f in a; do read -r 'f'; cat $f; done",
    "for f in a; do printf -v f %s /etc/shadow; cat \"$f\"; done",
    "for f in a; do printf -vf %s /etc/shadow; cat \"$f\"; done",
    "for f in a; do export f=/etc/shadow; cat \"$f\"; done",
    "for f in a; do unset f; cat \"${f:-/etc/shadow}\"; done",
    "for f in a; do : \"${g:=x}\"; cat \"$f\"; done",
    "for f in a; do eval f=/etc/shadow; cat \"$f\"; done",
    "for f in a; do g() { f=/etc/shadow; }; g; cat \"$f\"; done",
    "g() { f=/etc/shadow; }; for f in a; do g; cat \"$f\"; done",
    "for f in a; do ((f=1)); cat \"$f\"; done",
    "for f in a; do . ./more; cat \"$f\"; done",
    "for f in a; do mapfile f < list; cat \"$f\"; done",
    "for f in a; do read -af < list; cat \"$f\"; done",
    "for f in a; do command read f; cat \"$f\"; done",
    "for f in a; do builtin read f; cat \"$f\"; done",
    "for f in a; do while read -r f; do cat \"$f\"; done < list; done",
    "for f in a; do getopts a f; cat \"$f\"; done",
    "trap 'f=/etc/shadow' DEBUG; for f in a; do cat \"$f\"; done",
    "declare -n f=g; for f in a; do cat \"$f\"; done",
    "f+=x; for f in a; do cat \"$f\"; done",
    "for f in a; do f[0]=/etc/shadow; cat \"$f\"; done",
    "for f in a; do exec {f}< list; cat \"$f\"; done",
    // A nested loop whose variable keeps its value.
    "for f in a; do for f in /etc/shadow; do :; done; cat \"$f\"; done",
    // A loop in a text that the same shell runs, now or after each command.
    "for c in ls; do eval 'for c in touch; do :; done'; $c pwned; done",
    "for f in a.txt; do eval 'for f in /etc/passwd; do :; done'; cat \"$f\"; done",
    "for f in a.txt; do builtin eval 'for f in /etc/passwd; do :; done'; cat \"$f\"; done",
    "for f in a.txt; do trap 'for f in /etc/passwd; do :; done' DEBUG; cat \"$f\"; done",
    "trap 'for f in /etc/passwd; do :; done' DEBUG; for f in a.txt; do cat \"$f\"; done",
    "bash -c 'trap \"for f in /etc/passwd; do :; done\" DEBUG; for f in a; do cat $f; done'",
    // Before and after the loop, and in another shell.
    "cat \"$f\"; for f in a; do :; done",
    "for f in a; do :; done; cat \"$f\"",
    "for f in a; do sh -c 'cat \"$f\"'; done",
    "for f in a; do bash -c 'cat $f'; done",
    // Words that are not known.
    "for f in $(ls); do cat \"$f\"; done",
    "for f in \"$x\"; do cat \"$f\"; done",
    "for f in ~/x; do cat \"$f\"; done",
    "for f in {a,/etc/shadow}; do cat \"$f\"; done",
    "for f; do cat \"$f\"; done",
    "for f in a $x; do cat \"$f\"; done",
    "for _ in a; do ls; cat \"$_\"; done",
    "for RANDOM in 1; do cat \"$RANDOM\"; done",
    // Split into words, or matched against files.
    "for f in 'a /etc/shadow'; do cat $f; done",
    "for f in '/etc/*'; do cat $f; done",
    "for f in *; do cat $f; done",
    "for f in a:/etc/shadow; do IFS=:; cat $f; done",
    "IFS=a; for f in b/etc; do cat $f; done",
    // The values themselves are checked.
    "for f in /etc/shadow; do cat \"$f\"; done",
    "for f in .. ; do cat $f/x; done",
    "for f in /etc/*; do cat \"$f\"; done",
    "for f in *.pem; do cat \"$f\"; done",
    "for c in ls rm; do $c x; done",
    "for c in 'rm x'; do $c; done",
    "for o in -exec; do find . $o rm x ';'; done",
    "for o in -rf; do rm $o x; done",
    "for f in *; do sort \"$f\"; done",
    "for f in x; do echo a > $f; done",
    // With text around the variable.
    "for d in crates/*; do cat \"$d/.env\"; done",
    "for d in crates/*; do cat \"$d/a.pem\"; done",
    "for d in crates/*; do cat \"$dx\"; done",
    "for d in crates/*; do cat \"$d/../../../x\"; done",
    "for d in crates/*; do cat \"$d/$e\"; done",
    "for d in crates/*; do cat \"$d/*\"; done",
    "for d in crates/*; do cat \"${d%x}/a\"; done",
    "for d in crates/*; do cat \"$d\"/a; done",
    "for d in */; do cat \"${d}.env\"; done",
    "for d in *; do cat \"/etc/$d\"; done",
    "for d in *; do cat \"~/$d\"; done",
    "for f in *; do cat \"../$f\"; done",
    "for f in .*; do cat \"$f/x\"; done",
    "for f in .*; do cat \"$f./x\" \".$f/x\"; done",
    "for f in *; do cat \".$f\"; done",
    "for f in e*; do cat \"a/.$f\"; done",
    "for f in *; do cat \"$f\"v; done",
    "for f in *v; do cat \".en$f\"; done",
    "for f in /*; do cat \"$f/a\"; done",
    "for f in *; do sort \"-$f\"; done",
    "for f in *; do sort \"${f}x\"; done",
    "for f in *; do echo a > \"$f.txt\"; done",
    "for f in *; do for g in *; do cat \"$f/$g\"; done; done",
    // More words than are expanded.
    "for f in 1 2 3 4 5 6 7 8 9; do cat $f; done",
];

#[test]
fn loop_variable_is_expanded_if_unambiguous() {
    let defaults = DecisionTester::with_defaults();
    defaults.assert_all(Allow, ALLOWED_LOOPS);
    defaults.assert_none_allowed(UNSAFE_LOOPS);
}

#[test]
fn loop_words_are_checked_one_by_one() {
    let defaults = DecisionTester::with_defaults();
    defaults.assert_all(
        Ask,
        &[
            "for f in a /etc/passwd; do cat \"$f\"; done",
            "for d in src ../other; do ls $d; done",
            "for d in src ..; do for f in a b; do cat $d/$f; done; done",
        ],
    );
    let script = read_script(&CommandProgram::Script(
        "for d in x y; do for f in \"$d\"/*.rs z; do cat \"$f\" $d-$f; done; done".to_owned(),
    ));
    let commands = script.unwrap().commands;
    let words = commands
        .iter()
        .filter(|simple| simple.program() == Some("cat"));
    let words: Vec<_> = words.map(|simple| &simple.words[1..]).collect();
    let known = |text: &str| ShellWord::Known(text.to_owned());
    let glob_match = |text: &str| ShellWord::GlobMatch(text.to_owned());
    let unknown = ShellWord::Unknown("$d-$f".to_owned());
    assert_eq!(
        words,
        [
            [glob_match("x/*.rs"), unknown.clone()],
            [known("z"), known("x-z")],
            [glob_match("y/*.rs"), unknown],
            [known("z"), known("y-z")],
        ]
    );
}

#[test]
fn loop_nesting_does_not_multiply_commands() {
    let mut text = "cat \"$a\"".to_owned();
    for depth in 0..12 {
        text = format!("for v{depth} in 1 2 3 4 5 6 7 8; do {text}; done");
    }
    let read = read_script(&CommandProgram::Script(text)).unwrap();
    assert!(
        read.commands.len() < 100,
        "the body of the loop was repeated"
    );
}

/// Returns the words after the program, if all are known.
fn words_of(text: &str) -> Option<Vec<String>> {
    let script = read_script(&CommandProgram::Script(text.to_owned())).unwrap();
    let [command] = script.commands.as_slice() else {
        return None;
    };
    let words = command.words.iter().skip(1);
    let is_clear = script.unknown.is_empty() && command.unknown.is_empty();
    words
        .map(|word| word.known().map(str::to_owned))
        .collect::<Option<Vec<_>>>()
        .filter(|_| is_clear)
}

/// Braces that are literal, or that expand to a few plain words.
const CLEAR_BRACES: &[&str] = &[
    "@{u}..HEAD",
    "@{upstream}..",
    "HEAD@{1}..HEAD",
    "HEAD@{2}..HEAD@{1}",
    "@{u}...@{push}",
    "stash@{0}",
    "HEAD^{}..a,b",
    "a{b}..c",
    "{a}",
    "{a}..{b}",
    "{a,b",
    "{}",
    "x{},y",
    "src/{main,lib}.rs",
    "--exclude-dir={node_modules,.git}",
    "a{,}",
    "a{,b}",
    "{a,b}",
    "{a,b,c}/x",
    "x{1,2,3}y=z",
    "{a,b..c}",
    "{1,2..4}x",
    "-{a,b}:",
    "{a,,b}x",
];

/// Braces that may expand to several words and are not analyzed.
const UNCLEAR_BRACES: &[&str] = &[
    "x{1..3}",
    "{a..c}",
    "{a}{b,c}",
    "{a,b}{c,d}",
    "{{a,b}}",
    "{a{b,c}}",
    "{a,{b,c}}",
    "{a{b},c}",
    "{a},b}",
    "{a}..b,c}",
    "{,}",
    "{,a}",
    "{a,b}\"c\"",
    "{a,b}$c",
    "{a\\,b,c}",
    "{a\"}\",b}",
    "{a'}',b}",
    "{a\\},b}",
    "{~,a}",
    "{*,a}",
    "${x}{a,b}",
    "{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17}",
    "{a,b}{",
    "{a,b}}",
    "}{a,b}",
];

#[cfg(unix)]
#[test]
fn brace_expansion_matches_bash() {
    use std::fmt::Write as _;
    for text in CLEAR_BRACES {
        assert!(words_of(&format!("cat {text}")).is_some(), "{text}");
    }
    for text in UNCLEAR_BRACES {
        assert!(words_of(&format!("cat {text}")).is_none(), "{text}");
    }
    // All texts up to this length.
    let mut texts: Vec<String> = vec![String::new()];
    for index in 0..TEXT_COUNTS.iter().sum() {
        let extended = LETTERS.chars().map(|c| format!("{}{c}", texts[index]));
        texts.extend(extended.collect::<Vec<_>>());
    }
    texts.remove(0);
    texts.extend(
        CLEAR_BRACES
            .iter()
            .chain(UNCLEAR_BRACES)
            .map(|&text| text.to_owned()),
    );
    let mut script = String::from("set -f\n");
    for text in &texts {
        writeln!(script, "printf '<%s>' {text}; echo").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    std::fs::write(&file, script).unwrap();
    let bash = std::process::Command::new("bash").arg(&file).output();
    let Ok(output) = bash else {
        return;
    };
    let output = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), texts.len());
    for (text, line) in texts.iter().zip(lines) {
        if let Some(words) = words_of(&format!("cat {text}")) {
            let parsed: String = words.iter().map(|word| format!("<{word}>")).collect();
            assert_eq!(parsed, line, "{text}");
        }
    }
}

/// Letters of the texts, and the number of texts of each length except the longest.
const LETTERS: &str = "{},.a";
const TEXT_COUNTS: &[usize] = &[1, 5, 25, 125, 625];

#[test]
fn brace_words_are_checked_one_by_one() {
    let defaults = DecisionTester::with_defaults();
    defaults.assert_all(
        Allow,
        &[
            "git diff @{u}..HEAD",
            "git log --oneline @{upstream}..",
            "git log HEAD@{1}..HEAD",
            "git stash show -p stash@{0}",
            "cat src/{main,lib}.rs",
            "grep -r foo --exclude-dir={node_modules,.git} .",
            "ls {src,tests}/a",
        ],
    );
    defaults.assert_all(
        Ask,
        &[
            "cat {a,../../x}",
            "cat {a,/etc/passwd}",
            "{cat,rm} a",
            "{rm,a}",
            "find . -{name,delete}",
            "sort a -{u,oa}",
            "echo a > {a,b}",
            "env {PATH,A}=. ls",
            "export {PATH,A}=.; ls",
            "eval {rm,a}",
            "sh -c 'cat {a,b}'",
            "bash -c 'rm {a,b}'",
        ],
    );
    defaults.assert_all(Deny, &["cat {a,.env}", "cat .en{v,x}"]);
}
