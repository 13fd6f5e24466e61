//! The danger patterns that are always on: what a person wants to see before it happens, however the command is allowed.
//! They look at commands as they were read, and not at text.

use crate::command::{Script, Simple, Word};
use crate::decision::{Decision, Layer, Reason};
use crate::policy::commands::ours;

/// Asks about a command because of what it would do.
pub(in crate::policy) fn of_command(script: &Script, at: usize) -> Vec<Reason> {
    let Some(simple) = script.commands.get(at) else {
        return Vec::new();
    };
    let fed = feeders(script, simple);
    let found = PATTERNS.iter().filter(|(_, _, is)| is(simple, &fed));
    let found = found.map(|(name, what, _)| {
        let text = format!("`{}` {what}", simple.shown());
        ours(
            Layer::Danger,
            Decision::Ask,
            &format!("danger: {name}"),
            text,
        )
    });
    found.collect()
}

/// The programs whose output goes into the command, through however many others.
fn feeders<'a>(script: &'a Script, simple: &Simple) -> Vec<&'a str> {
    let mut all = Vec::new();
    let mut from = simple.fed_by;
    // A pipeline goes one way, so that each is met once.
    while let Some(feeder) = from.and_then(|at| script.commands.get(at)) {
        all.extend(feeder.program().map(name));
        from = feeder.fed_by.filter(|next| Some(*next) < from);
    }
    all
}

type Test = fn(&Simple, &[&str]) -> bool;

/// Name, what the command does, and how it is known.
const PATTERNS: &[(&str, &str, Test)] = &[
    ("rm -r", "removes whole folders", |simple, _| {
        is(simple, &["rm"]) && has(simple, &["--recursive"], "rR")
    }),
    ("dd", "writes blocks wherever it is told to", |simple, _| {
        is(simple, &["dd"])
    }),
    ("mkfs", "makes or removes file systems", |simple, _| {
        simple
            .program()
            .is_some_and(|program| name(program).starts_with("mkfs"))
            || is(
                simple,
                &[
                    "blkdiscard",
                    "fdisk",
                    "mkswap",
                    "parted",
                    "sfdisk",
                    "sgdisk",
                    "shred",
                    "wipefs",
                ],
            )
    }),
    (
        "chmod 777",
        "lets anybody write, or run as somebody else",
        |simple, _| is(simple, &["chmod", "install"]) && arguments(simple).any(is_wide_mode),
    ),
    (
        "chown -R",
        "gives whole folders to somebody else",
        |simple, _| is(simple, &["chown", "chgrp"]) && has(simple, &["--recursive"], "R"),
    ),
    ("> /dev", "writes to a device", |simple, _| {
        let target = |word: &Word| word.text().starts_with("/dev/") && !is_safe_device(word.text());
        simple
            .redirections
            .iter()
            .any(|one| one.writes && target(&one.target))
    }),
    (
        "curl | sh",
        "runs what comes over the network",
        |simple, fed| {
            let fetches = ["curl", "fetch", "ftp", "nc", "ncat", "wget"];
            is(simple, INTERPRETERS) && fed.iter().any(|program| fetches.contains(program))
        },
    ),
    ("| sh", "runs what another program writes", |simple, fed| {
        is(simple, SHELLS) && !fed.is_empty() && arguments(simple).all(|word| word.starts_with('-'))
    }),
    (
        "power",
        "stops the machine, or what runs on it",
        |simple, _| {
            is(
                simple,
                &[
                    "halt", "init", "killall", "pkill", "poweroff", "reboot", "shutdown", "telinit",
                ],
            ) || (is(simple, &["kill"]) && arguments(simple).any(|word| word == "-1"))
        },
    ),
    (
        "system",
        "changes how the machine is set up",
        |simple, _| {
            let programs = [
                "at",
                "batch",
                "chsh",
                "crontab",
                "insmod",
                "iptables",
                "launchctl",
                "modprobe",
                "mount",
                "nft",
                "passwd",
                "rmmod",
                "sysctl",
                "systemctl",
                "umount",
                "update-alternatives",
                "useradd",
                "userdel",
                "usermod",
                "visudo",
            ];
            is(simple, &programs)
        },
    ),
    (
        "history",
        "reads or removes what was typed before",
        |simple, _| {
            is(simple, &["fc", "history"]) || words(simple).any(|word| word.ends_with("_history"))
        },
    ),
    (
        "credentials",
        "is about a file that holds credentials",
        |simple, _| words(simple).any(is_credentials),
    ),
    ("git history", "throws away work or history", |simple, _| {
        is_git_loss(simple)
    }),
    ("publish", "gives something to the public", |simple, _| {
        let second = |programs: &[&str], word: &str| {
            is(simple, programs) && arguments(simple).next() == Some(word)
        };
        second(
            &["cargo", "gem", "npm", "pnpm", "poetry", "uv", "yarn"],
            "publish",
        ) || second(&["twine"], "upload")
    }),
    (
        "docker --privileged",
        "gives a container the machine",
        |simple, _| {
            let wide = |word: &str| {
                word == "--privileged"
                    || word.contains("docker.sock")
                    || word == "--pid=host"
                    || word.starts_with("/:")
            };
            is(simple, &["docker", "podman", "nerdctl"]) && arguments(simple).any(wide)
        },
    ),
];

/// Programs that run a text that they are given.
const INTERPRETERS: &[&str] = &[
    "ash", "bash", "dash", "fish", "ksh", "lua", "node", "perl", "php", "pwsh", "python",
    "python2", "python3", "ruby", "sh", "source", "zsh",
];

const SHELLS: &[&str] = &["ash", "bash", "dash", "fish", "ksh", "pwsh", "sh", "zsh"];

/// Devices that nothing is lost by writing to.
const SAFE_DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
];

/// Whether a path is a device that every program may use.
pub(in crate::policy) fn is_safe_device(path: &str) -> bool {
    SAFE_DEVICES.contains(&path)
}

/// The last part of a path: `/bin/rm` is `rm`.
fn name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is(simple: &Simple, programs: &[&str]) -> bool {
    simple
        .program()
        .is_some_and(|program| programs.contains(&name(program)))
}

fn arguments(simple: &Simple) -> impl Iterator<Item = &str> {
    simple.words.iter().skip(1).filter_map(Word::known)
}

/// All that is written in the command, known or not, and where it sends or takes its data.
fn words(simple: &Simple) -> impl Iterator<Item = &str> {
    let targets = simple.redirections.iter().map(|one| one.target.text());
    simple.words.iter().map(Word::text).chain(targets)
}

/// Whether one of these long options is there, shortened or not, or one of the letters.
fn has(simple: &Simple, long: &[&str], letters: &str) -> bool {
    let mut options = arguments(simple).take_while(|word| *word != "--");
    options.any(|word| match word.strip_prefix("--") {
        Some(name) => !name.is_empty() && long.iter().any(|option| option[2..].starts_with(name)),
        None => word
            .strip_prefix('-')
            .is_some_and(|set| set.contains(|c| letters.contains(c))),
    })
}

/// A mode that lets others write, or that runs the file as its owner.
fn is_wide_mode(word: &str) -> bool {
    if word.len() >= 3 && word.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        let special = word.len() > 3 && !word[..word.len() - 3].bytes().all(|byte| byte == b'0');
        let others = word.as_bytes()[word.len() - 1] - b'0';
        return special || others & 2 != 0;
    }
    word.split(',').any(|part| {
        let Some(at) = part.find(['+', '=']) else {
            return false;
        };
        let (who, what) = part.split_at(at);
        let wide = who.is_empty() || who.contains(['o', 'a']);
        (wide && what.contains('w')) || what.contains('s')
    })
}

fn is_credentials(word: &str) -> bool {
    let parts = [
        ".ssh/",
        ".aws/",
        ".gnupg/",
        ".kube/config",
        ".docker/config.json",
        ".config/gcloud",
        ".config/gh/",
        ".git-credentials",
        "/etc/shadow",
        "/etc/sudoers",
        "/etc/gshadow",
        "Library/Keychains",
        ".password-store",
    ];
    let names = [
        "id_rsa",
        "id_ed25519",
        "id_ecdsa",
        "id_dsa",
        ".netrc",
        "_netrc",
        ".pgpass",
        ".npmrc",
        ".pypirc",
        ".ssh",
        ".aws",
        ".gnupg",
    ];
    let environment = word.starts_with("/proc/") && word.ends_with("/environ");
    environment || parts.iter().any(|part| word.contains(part)) || names.contains(&name(word))
}

fn is_git_loss(simple: &Simple) -> bool {
    if !is(simple, &["git"]) {
        return false;
    }
    let mut rest = arguments(simple);
    let forced = has(
        simple,
        &["--force", "--force-with-lease", "--mirror", "--delete"],
        "f",
    );
    match rest.next() {
        Some("push") => forced || rest.any(|word| word.starts_with('+') || word.starts_with(':')),
        Some("reset") => rest.any(|word| "--hard".starts_with(word) && word.len() > 3),
        Some("clean") => forced,
        Some("branch") => has(simple, &["--delete"], "D"),
        Some("checkout" | "restore" | "switch") => {
            forced || rest.any(|word| matches!(word, "." | "--discard-changes"))
        }
        Some("filter-branch" | "filter-repo" | "update-ref" | "gc" | "prune") => true,
        Some("stash") => matches!(rest.next(), Some("clear" | "drop")),
        Some("reflog") => matches!(rest.next(), Some("expire" | "delete")),
        _ => false,
    }
}
