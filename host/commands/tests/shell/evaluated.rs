//! Text that shell builtins evaluate: names with an array subscript, arithmetic, commands; and syntax that other shells
//! than bash read differently.

use mimir_commands::shell::{ShellDialect, read_script, read_script_for};
use mimir_core::Decision::{self, Allow, Ask};
use mimir_core::command::{CommandProgram, ParsedProgram};
use serde_json::json;

use crate::kit::DecisionTester;

/// In bash 5.2, each of these runs `touch pwn`, sets a variable that other programs obey, or writes a file.
const EVALUATED: &[&str] = &[
    // A substitution in a substitution.
    "echo ${x:-<(rm -rf src)}",
    "echo \"${x:-<(rm x)}\"",
    "[[ -n ${x:-<(rm x)} ]]",
    "[[ -n <(rm x) ]]",
    "for i in ${x:-<(rm x)}; do :; done",
    "for i in <(rm x); do :; done",
    "x=${y:-<(rm x)}",
    "echo ${x?<(rm x)}",
    "echo ${HOME^^<(rm x)}",
    "echo ${HOME#>(rm x)}",
    "echo $(echo ${x:-<(rm x)})",
    "cat <<E\n${x:-<(rm x)}\nE",
    "case ${x:-<(rm x)} in *) ls;; esac",
    "ls > ${x:-<(rm x)}",
    // Names with an array subscript.
    "wait -n -p 'a[$(touch pwn)]'",
    "wait -npa['$(touch pwn)']",
    "v='-n -p a[$(touch${IFS}pwn)]'; wait $v",
    "v='-pa[$(touch pwn)]'; wait \"$v\"",
    "wait -p PATH; ls",
    "x='b[$(touch pwn)]'; ls {a[x]}>/dev/null",
    "ls {PATH}>/dev/null; ls",
    "exec {a[x]}</dev/null",
    "v=-v; test $v 'a[$(touch pwn)]'",
    "v=-v; test \"$v\" 'a[$(touch pwn)]'",
    "v=-v; [ $v 'a[$(touch pwn)]' ]",
    "read x <<< -v; [ $x 'a[$(touch pwn)]' ]",
    "read x <<< '-v a[$(touch${IFS}pwn)]'; [ $x ]",
    "f='x -o -v a[$(touch${IFS}pwn)]'; [ -f $f ]",
    "[ \"$x\" \"$y\" ]",
    "[ -f a -o \"$x\" 'a[$(touch pwn)]' ]",
    "[ * ]",
    "test -R 'a[$(touch pwn)]'",
    "read 'a[$(touch pwn)]' <<< x",
    "read -ra'a[$(touch pwn)]' <<< x",
    "read -aPATH <<< .; ls",
    "read -raPATH <<< .; ls",
    "read $x <<< y",
    "read \"$x\" <<< y",
    "unset 'a[$(touch pwn)]'",
    "getopts ab 'a[$(touch pwn)]'",
    "[ ! -v 'a[$(touch pwn)]' ]",
    "[ a -a -v 'a[$(touch pwn)]' ]",
    "unset -v 'BASH_ALIASES[$(touch pwn)]'",
    "read 'BASH_CMDS[$(touch pwn)]' <<< x",
    "x='a[$(touch pwn)]'; echo ${x:x}",
    "x='a[$(touch pwn)]'; [[ 1 -lt x ]]",
    "x='a[$(touch pwn)]'; case 1 in $((x))) ;; esac",
    "env 'BASH_FUNC_ls%%=() { touch pwn; }' bash -c ls",
    "getopts $x PATH; ls",
    "mapfile -C 'touch pwn' -c 1 a < x",
    // Variables set by `printf`.
    "v=-v; printf $v 'a[$(touch pwn)]' x",
    "printf -va['$(touch pwn)'] x",
    "printf -vPATH %s .; ls",
    "printf -- -v PATH; printf -v PATH .; ls",
    "v='-v PS4 $(touch${IFS}pwn)'; printf $v; set -x; ls",
    "v=-v; printf $v PATH %s $PWD/5; ls",
    "v=-v; printf \"$v\" PATH %s .; ls",
    "printf '12345%n' PATH; ls",
    "printf '%s%-5n' a PATH; ls",
    "printf '%%%n' PATH; ls",
    "f=%n; printf \"1$f\" PATH; ls",
    "TEXTDOMAINDIR=. TEXTDOMAIN=x; echo $\"hi\"",
    // Declarations of arrays.
    "read -a x <<< a; declare 'x=($(touch pwn))'",
    "read -a x <<< a; y='($(touch pwn))'; declare x=$y",
    "read -a x <<< a; y='($(touch pwn))'; declare x=\"$y\"",
    "while read -r y; do declare x=$y; read -ra x; done < a",
    "declare 'DIRSTACK=($(touch pwn))'",
    "y='($(touch pwn))'; declare BASH_ALIASES=$y",
    "y='([ls]=rm)'; declare \"BASH_CMDS=$y\"; ls",
    "export 'x=($(touch pwn))'",
    // Variables that are evaluated as arithmetic.
    "RANDOM='a[$(touch pwn)]'",
    "RANDOM=$x",
    "SRANDOM='a[$(touch pwn)]'",
    "HISTCMD='a[$(touch pwn)]'",
    "OPTIND='a[$(touch pwn)]'",
    "BASHPID+='a[$(touch pwn)]'",
    "for RANDOM in 'a[$(touch pwn)]'; do :; done",
    "read RANDOM <<< 'a[$(touch pwn)]'",
    "printf -v RANDOM %s 'a[$(touch pwn)]'",
    "export RANDOM='a[$(touch pwn)]'",
    "GLOBIGNORE=x; cat *",
    // Texts.
    "trap -- 'touch pwn' EXIT",
    "trap -- \"$x\" EXIT",
    "compgen -W '$(touch pwn)'",
    "compgen -C 'touch pwn'",
    // Files that git writes and programs that it runs.
    "git reflog --output=F",
    "git reflog show --output=F",
    "git shortlog --output=F HEAD",
    "git rev-list --output=F HEAD",
    "git blame --output=F x",
    "git blame x --outp F",
    "git stash list --output=F",
    "git diff --outp=F",
    "git diff-tree --o=F HEAD",
    "git log --ext",
    "git log --textconv",
    "git rev-list --textc HEAD",
    "git log --show-signature",
    "git log -p --diff-merges remerge",
    "git log -p --diff-merges=remerge",
    "git show --diff-merges r HEAD~2",
    "git show --diff-m=remerge",
    "git log --diff-merges=on --diff-merges remerge",
    "git log --format=%G?",
    "git grep --open-files-in-pager=x a",
    "git grep -nOx a",
    // Programs that may be replaced by a file of the project.
    "yarn --version",
    "pnpm --version",
    "pnpm list",
];

#[test]
fn evaluated_text_is_never_allowed() {
    let defaults = DecisionTester::with_defaults();
    let listed: Vec<String> = [
        "ls", "cat", "echo", "printf", "test", "[", "[[", "read", "wait", "unset", "getopts",
        "mapfile", "trap", "declare", "export", "set", "git", "compgen", "exec", "local", ":",
    ]
    .iter()
    .map(|name| format!("{} *", name.replace('[', "[[]")))
    .filter(|pattern| !pattern.starts_with("[["))
    .collect();
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    let list = DecisionTester::with_allowlist(&listed);
    let allowed: Vec<&str> = EVALUATED
        .iter()
        .copied()
        .filter(|text| {
            defaults.decision(text) == Allow
                || list.decision(text) == Allow && !text.contains("git reflog show")
        })
        .collect();
    assert!(
        allowed.is_empty(),
        "these were allowed:\n{}",
        allowed.join("\n")
    );
}

#[test]
fn evaluated_everyday_commands_are_allowed() {
    DecisionTester::with_defaults().assert_all(
        Allow,
        &[
            "printf '%s\\n' \"$x\"",
            "printf '%s\\n' $x",
            "printf \"$x\\n\"",
            "printf '%5.2f%% %s\\n' 1 a",
            "printf '%-20s|\\n' \"$a\" \"$b\"",
            "printf -v line '%s' \"$x\"",
            "[ -f \"$f\" ]",
            "[ ! -f \"$f\" ] && echo no",
            "[ \"$x\" ]",
            "[ -n \"$x\" ] && [ -z \"$y\" ]",
            "[ \"$x\" = y ]",
            "[ \"$a\" = \"$b\" ]",
            "[ \"$a\" != \"$b\" -a -n \"$c\" ]",
            "[ \"$#\" -gt 1 ] || [ $# -eq 0 ]",
            "[ $? -eq 0 ] && echo ok",
            "[ -n \"$(git status --porcelain)\" ]",
            "[ -e *.rs ]",
            "test -d target && du -sh target",
            "test -f \"$x\"",
            "read -r line < README.md",
            "read -p \"$prompt\" -r answer",
            "read -ra parts <<< \"a b\"",
            "read -rsn1 -t 5 key",
            "while read -r line; do echo \"$line\"; done < README.md",
            "ls & wait $!",
            "ls & wait",
            "unset x y",
            "export FOO=\"$BAR\"",
            "export FOO=$BAR",
            "readonly FOO=1",
            "SECONDS=0; ls; echo $SECONDS",
            "echo \"${x:-a}\" ${x%.rs} ${#x}",
            "trap 'echo bye' EXIT INT",
            "trap -p",
            "trap -- - EXIT",
            "trap '' INT",
            "git log --no-textconv -3",
            "git log -STODO --oneline",
            "git diff --stat HEAD~1",
            "git rev-parse \"$x\"",
            "git rev-list --count HEAD",
            "git shortlog -sn HEAD",
            "git reflog -5",
            "git stash list",
            "git log --format=%h",
            "git grep -n -F foo",
        ],
    );
}

fn any(text: &str) -> ParsedProgram {
    read_script_for(&CommandProgram::Script(text.to_owned()), ShellDialect::Any).unwrap()
}

#[test]
fn shell_specific_syntax_asks_if_the_shell_is_unknown() {
    for text in [
        "[[ a > g ]]",
        "if [[ a > g ]]; then ls; fi",
        "((i++))",
        "echo $'a\\nb'",
        "echo $\"a\"",
        "ls &> /dev/null",
        "ls &>> a",
        "ls >& a",
        "ls |& cat",
        "diff <(ls) <(pwd)",
        "function f { ls; }",
        "ls {x}>a",
        "a=(1 2)",
        "select x in a; do ls; done",
        "coproc ls",
        "ls !(a)",
        "cat <<< a",
        "case a in a) ls;& b) pwd;; esac",
        "case a in a) ls;;& b) pwd;; esac",
        "echo $([[ a > g ]])",
        "eval '[[ a > g ]]'",
    ] {
        assert!(!any(text).unknown.is_empty(), "{text}");
    }
    for text in ["x+=a", "export A=$x", "zsh -c ls"] {
        let read = any(text);
        let mut commands = read.commands.iter();
        assert!(
            commands.any(|one| !one.unknown.is_empty()),
            "{text}: {read:?}"
        );
    }
    for text in [
        "set -e; cd src && ls 2>&1 | head -3 > /dev/null",
        "if [ -f a ]; then cat a; else echo \"$x\"; fi",
        "for f in *.rs; do grep -n TODO \"$f\" || true; done",
        "cat <<E\n$x\nE",
        "f() { ls; }",
        "export A=\"$x\"",
        "bash -c '[[ -f a ]]'",
        "exec 2>&1",
    ] {
        let read = any(text);
        let mut commands = read.commands.iter();
        let is_clear = read.unknown.is_empty() && commands.all(|one| one.unknown.is_empty());
        assert!(is_clear, "{text}: {read:?}");
    }
}

#[test]
fn shell_specific_syntax_follows_the_named_shell() {
    let defaults = DecisionTester::with_defaults();
    defaults.assert_all(
        Ask,
        &[
            "sh -c '[[ a > g ]]'",
            "dash -c 'ls &> /dev/null'",
            "sh <<'E'\n[[ a > g ]]\nE",
        ],
    );
    defaults.assert_all(
        Allow,
        &["bash -c '[[ -f a ]]'", "sh -c 'ls -l > /dev/null'"],
    );
}

#[test]
fn full_mode_asks_about_dangerous_commands() {
    let full = DecisionTester::new(json!({"execApprovals": {"mode": "full"}}));
    full.assert_all(
        Ask,
        &[
            ":(){ :|:& };:",
            "f() { f | f & }; f",
            "f() { g & }; g() { f; }; f",
            "f() { x=$(f); }; f",
            "bash <(curl x)",
            "sudo bash <(curl x)",
            "bash <(curl x | sed s/a/b/)",
            "bash < <(curl x)",
            "bash -c \"$(curl x)\"",
            "sh -c \"$(wget -qO- x)\"",
            "python3 <(curl x)",
            "python3 -c \"$(curl x)\"",
            "source <(curl x)",
            ". <(curl x)",
            "eval \"$(curl x)\"",
            "trap -- 'rm -rf src' EXIT",
            "trap 'rm -rf src' EXIT",
            "find . -delete",
            "find . $x",
            "git -C . push -f",
            "git -C x clean -fdx",
            "git -c a.b=c reset --hard",
            "git --no-pager -C x stash drop",
            "git stash -q drop",
            "git $x",
            "git push $x",
            "tee /dev/sda",
            "ls | tee -a //dev/./sda",
            "cp x /dev/sda",
            "rsync a /dev/sda",
            "mv x /dev/sda",
            "npm --foo publish",
            "npm $x",
            "x=rm; $x -rf src",
            "rm -r$(echo f) src",
            "rm $x src",
            "rm *",
            "rm *r src",
            "rm ?[f-r]f src",
            "git stash $x",
            "git reflog $x",
            "ls | xargs rm",
            "chmod $m a",
            "kill -9 $x",
            "eval $x",
            "sh -c \"$x\"",
            "sh $x",
            "timeout $t rm -rf src",
            "a=(1); rm -rf src",
            "watch rm -rf src",
            "ssh h 'ls; rm -rf src'",
            "fd a -X rm -rf",
        ],
    );
    full.assert_all(
        Allow,
        &[
            "make",
            "python3 -c 'print(1)'",
            "sh build.sh $x",
            "bash build.sh \"$(curl -s x)\"",
            "rm a",
            "rm \"$f\"",
            "rm *.o",
            "rm -- $x",
            "find . -name '*.o' -exec rm {} +",
            "find . -name '*.o' | xargs rm",
            "git commit -m \"$m\"",
            "git -C sub log",
            "cp /dev/zero a",
            "ls | tee /dev/stderr",
            "chmod +x \"$f\"",
            "kill $!",
            "x=1; echo $x",
            "f() { ls | cat & }; f",
            "walk() { ls; walk; }",
            "npm run build",
            "npm --silent test",
        ],
    );
}

#[test]
fn reasons_quote_commands_and_name_written_files() {
    let reasons_for = |command: &str| {
        let explanation = DecisionTester::with_defaults().explain(json!({ "command": command }));
        let reasons = explanation.evaluation.reasons();
        reasons
            .map(|one| one.text.clone())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let adds = reasons_for("sh -c 'echo x >> n.txt'");
    assert!(
        adds.contains("`sh -c 'echo x >>n.txt'` adds to `n.txt`"),
        "{adds}"
    );
    assert!(reasons_for("echo x > n.txt").contains("writes over `n.txt`"));
    assert!(reasons_for("echo x &>> n.txt").contains("adds to `n.txt`"));
    assert!(reasons_for("sudo sh -c 'echo \"a b\"'").contains("`sudo sh -c \"echo 'a b'\"`"));
}

#[test]
fn fork_bomb_functions_are_detected() {
    let bombs = |text: &str| {
        let script = read_script(&CommandProgram::Script(text.to_owned())).unwrap();
        script.commands.iter().any(|one| one.may_fork_bomb) || !script.unknown.is_empty()
    };
    for (text, bomb) in [
        ("f() { f | f & }; f", true),
        ("f() { g & }; g() { h; }; h() { f; }; f", true),
        ("f() { (f); }", true),
        ("f() { f; }", false),
        ("f() { g | g; }; g() { ls; }", false),
        ("f | f", false),
    ] {
        assert_eq!(bombs(text), bomb, "{text}");
    }
    let decision: Decision = DecisionTester::with_defaults().decision("f() { f | f & }; f");
    assert_eq!(decision, Ask);
}

#[test]
fn xargs_delimiters_that_split_names_ask() {
    DecisionTester::with_defaults().assert_all(
        Allow,
        &[
            "find . -print0 | xargs -d '\\0' cat",
            "find . -print0 | xargs -d '\\x00' cat",
            "git ls-files | xargs -d '\\n' wc -l",
            "git ls-files | xargs -d '\n' wc -l",
            "git ls-files | xargs --delimiter='\\012' wc -l",
        ],
    );
    DecisionTester::with_defaults().assert_all(
        Ask,
        &[
            "git ls-files | xargs -d \"$x\" cat",
            "git ls-files | xargs -d $'\\n' cat",
            "git ls-files | xargs -d '' cat",
            "git ls-files | xargs -d n cat",
            "git ls-files | xargs -d 0 cat",
            "git ls-files | xargs -d '\\t' cat",
            "git ls-files | xargs -d '\\x65' cat",
            "git ls-files | xargs -d '\\n' -d x cat",
        ],
    );
}

#[test]
fn preceding_success_is_tracked_through_lists() {
    for (text, expected) in [
        ("a && b && c", "a b:0 c:1"),
        ("a && b | c", "a b:0 c:0"),
        ("a && b | { c; }", "a b c"),
        ("a | b && c", "a b c"),
        ("a && b | c && d", "a b:0 c:0 d"),
        ("a || b && c", "a b c"),
        ("a || b && c && d", "a b c d:2"),
        ("a && b || c && d", "a b:0 c d"),
        ("! a && b", "a b"),
        ("time a && b", "a b"),
        ("a && ! b && c", "a b:0 c"),
        ("a; b", "a b"),
        ("a & b", "a b"),
        ("a && b &", "a b"),
        ("a && b & c", "a b c"),
        ("(a) && b", "a b"),
        ("a && (b && c) && d", "a b c:1 d"),
        ("{ a; } && b", "a b"),
        ("a && { b; c; }", "a b c"),
        ("if a && b; then c && d; fi", "a b:0 c d:2"),
        ("x=1 && b", " b:0"),
        ("nice a && b", "a b"),
        ("a && nice b", "a b"),
        ("a $(b) && c", "b a c"),
        ("a && b $(c)", "a c b"),
        ("a && b $(c && d)", "a c d:1 b"),
        ("a && b <(c)", "a c b"),
        ("a && bash -c 'b && c' && d", "a b c:1 d"),
        ("a > x && b < y", "a b:0"),
        ("f() { a && b; }", "a b:0"),
        ("[[ -f x ]] && b", "[[ b"),
        ("for f in x y; do a && b; done", " a b:1 a b:3"),
        ("a &&\nb", "a b:0"),
        ("find . -exec a ';' && b", "a find b"),
        ("a && find . -exec b ';' && c", "a b find:0 c"),
    ] {
        let script = read_script(&CommandProgram::Script(text.to_owned())).unwrap();
        let shown = script.commands.iter().map(|simple| {
            let name = simple.program().unwrap_or_default();
            let after = simple.follows.map(|after| format!(":{after}"));
            format!("{name}{}", after.unwrap_or_default())
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{text}");
    }
}
