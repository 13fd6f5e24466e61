//! The file accesses of a command, as far as its words show them: checked by the path rules, like a tool's own access.
//!
//! A path that leads out of the workspace asks; access to hidden paths, and writing to read-only ones, is denied. For
//! programs in the table all operands are paths; for others a word is one if it looks like one. A command after `cd`
//! is checked from every folder that it may run in.

use std::cell::OnceCell;
use std::collections::HashSet;

use crate::backend::RealPath;
use crate::command::{Simple, Word};
use crate::decision::{Decision, Layer, Reason};
use crate::policy::{danger, spelling};

use super::globs::{self, Glob, Names};
use super::operands::Operand;
use super::{CommandQuestion, finders, offer, operands, ours};

/// Maximum working directories tracked for a script. With more, all relative paths ask.
const FOLDERS_MAX: usize = 8;

/// Maximum reasons about the files of one command, each of which quotes the whole command. A stricter one is added in
/// any case.
const SAID_MAX: usize = 32;

/// The maximum length of a path on Linux: a folder with a longer path is unknown.
const PATH_MAX: usize = 4096;

/// Maximum `..` components followed in one path. With more, its target is unknown.
const UPS_MAX: usize = 32;

/// The location that a path leads to.
enum Place {
    /// Below the workspace: canonical, from its root.
    Inside(String),
    Outside,
    /// A device that every program may use, or not a path at all.
    Free,
    /// Known only to the shell.
    Unknown,
}

/// The possible working directories of a script's commands, and the path rules there.
pub(super) struct Places<'a> {
    question: &'a CommandQuestion<'a>,
    /// The possible working directories, from the workspace root; empty if unknown.
    folders: Vec<String>,
    /// Working directories after a failure in the chain: the rest of the chain is skipped then.
    aside: Vec<String>,
    /// The command that succeeded if the next one in the chain runs.
    chain: Option<usize>,
    /// True if the script was started outside of the workspace.
    astray: bool,
    /// The names in path rules, computed for the first glob.
    names: OnceCell<Names<'a>>,
    /// True if the command reads file names from a finder that searches permitted folders.
    found: bool,
}

impl<'a> Places<'a> {
    pub(super) fn new(question: &'a CommandQuestion<'a>) -> Self {
        let mut places = Self {
            question,
            folders: vec![String::new()],
            aside: Vec::new(),
            chain: None,
            astray: false,
            names: OnceCell::new(),
            found: false,
        };
        if let Some(directory) = question.directory {
            match places.of(directory).pop() {
                Some(Place::Inside(folder)) => places.folders = vec![folder],
                _ => places.astray = true,
            }
        }
        places
    }

    /// The reason about the script's working directory.
    pub(super) fn directory(&self) -> Option<Reason> {
        let directory = self.question.directory.filter(|_| self.astray)?;
        let text =
            format!("`{directory}` is outside of the workspace, and commands run inside of it");
        Some(ours(Layer::Commands, Decision::Deny, "the workspace", text))
    }

    /// Enters the command at this index: unless it runs only after the success of the previous one, that may not have
    /// run.
    pub(super) fn come_to(&mut self, at: usize, simple: &Simple) {
        if simple.after.is_none() || simple.after != self.chain {
            let aside = std::mem::take(&mut self.aside);
            self.add(aside);
        }
        self.chain = Some(at);
    }

    /// Adds possible working directories, unless they are unknown anyway.
    fn add(&mut self, folders: Vec<String>) {
        if self.folders.is_empty() {
            return;
        }
        for folder in folders {
            if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
        if self.folders.len() > FOLDERS_MAX {
            self.folders.clear();
        }
    }

    /// The reasons about the files of one command. Updates the working directories for the next one.
    pub(super) fn judge(&mut self, simple: &Simple) -> Vec<Reason> {
        let mut said = Vec::new();
        let feeder = simple
            .fed_by
            .and_then(|at| self.question.script.commands.get(at));
        let reads_elsewhere = simple.redirections.iter().any(|one| !one.writes);
        self.found = !reads_elsewhere && feeder.is_some_and(|one| self.finds_any(one));
        let opened = simple
            .redirections
            .iter()
            .map(|one| Operand::sure(&one.target, one.writes));
        let program = simple.program().unwrap_or_default();
        let is_shielded = |path: &str| self.question.paths.against(path, false).is_some();
        let named = operands::paths(&simple.words, program, is_shielded);
        let all: Vec<Operand> = opened.chain(named).collect();
        let mut seen = HashSet::new();
        // Repeated operands would give the same reasons.
        for operand in all.iter().filter(|one| seen.insert(*one)) {
            self.say(simple, operand, &mut said);
        }
        if program == "find" && finders::runs_unseen(&simple.words) {
            let text = format!(
                "`{}` runs a command on files that its words do not name",
                simple.shown()
            );
            said.push(ours(
                Layer::Commands,
                Decision::Ask,
                "what cannot be known",
                text,
            ));
        }
        if matches!(program, "cd" | "pushd" | "popd") && !self.go(simple) {
            let text = format!("`{}` leads to a folder that is not known", simple.shown());
            said.push(ours(
                Layer::Commands,
                Decision::Ask,
                "what cannot be known",
                text,
            ));
        }
        said
    }

    /// Returns true if a command only finds files, and none that it names itself and a path rule matches.
    fn finds_any(&self, feeder: &Simple) -> bool {
        let mut said = Vec::new();
        finders::finds_files(feeder) && {
            for operand in operands::named(&feeder.words) {
                self.say(feeder, &operand, &mut said);
            }
            said.is_empty()
        }
    }

    /// The workspace files that one command executes; an empty path stands for an unknown file.
    pub(super) fn code(&self, simple: &Simple) -> Vec<String> {
        let Some(word) = offer::code(&simple.words) else {
            return Vec::new();
        };
        let Some(path) = word.known() else {
            return vec![String::new()];
        };
        let places = self.of(path).into_iter().filter_map(|place| match place {
            Place::Inside(path) => Some(path),
            Place::Unknown => Some(String::new()),
            // Tools cannot change these files.
            Place::Outside | Place::Free => None,
        });
        places.collect()
    }

    /// Asks about workspace files that the shell itself opens for writing, as for a tool that overwrites them.
    pub(super) fn writes(&self, simple: &Simple) -> Vec<Reason> {
        let over = simple.redirections.iter();
        let over = over.filter(|one| one.writes && !one.appends);
        let over: HashSet<&str> = over.map(|one| one.target.text()).collect();
        let mut seen = HashSet::new();
        let targets = simple.redirections.iter().filter(|one| one.writes);
        let inside = targets
            .filter(|one| seen.insert(one.target.text()))
            .filter_map(|one| match &one.target {
                Word::Known(text) => {
                    let mut places = self.of(text).into_iter();
                    places
                        .any(|place| matches!(place, Place::Inside(_)))
                        .then_some(text)
                }
                // The shell expands it to the one file that it matches.
                Word::Glob(text) | Word::Found(text) => Some(text),
                // Unknown words are asked about elsewhere.
                Word::Unknown(_) => None,
            });
        let say = |text: &String| {
            let how = match over.contains(text.as_str()) {
                true => "writes over",
                false => "adds to",
            };
            let text = format!("`{}` {how} `{text}`", simple.shown());
            ours(Layer::Commands, Decision::Ask, super::DEFAULT, text)
        };
        inside.take(SAID_MAX).map(say).collect()
    }

    /// The workspace file that may select the program's version, for any possible working directory.
    pub(super) fn chooses(&self, simple: &Simple) -> Option<String> {
        let program = simple.program()?;
        let runner = self.question.runner;
        // If that is unknown, the command that led there has been asked about.
        let folders = self.folders.iter().map(String::as_str);
        folders
            .chain([""])
            .find_map(|folder| runner.chooses(program, folder))
    }

    /// Follows a change of directory. Returns false if the target is unknown.
    fn go(&mut self, simple: &Simple) -> bool {
        let target = simple
            .words
            .iter()
            .skip(1)
            .find(|word| !word.text().starts_with('-'));
        let Some(Word::Known(target)) = target else {
            self.folders.clear();
            return false;
        };
        let mut led = Vec::new();
        for place in self.of(target) {
            match place {
                Place::Inside(folder) if folder.len() <= PATH_MAX => led.push(folder),
                Place::Inside(_) => {
                    self.folders.clear();
                    return false;
                }
                Place::Outside | Place::Free | Place::Unknown => {
                    self.folders.clear();
                    return true;
                }
            }
        }
        // A wrapped `cd` changes another shell's directory, not that of the next command.
        if simple.through.is_empty() {
            for folder in std::mem::take(&mut self.folders) {
                // One directory beyond the maximum marks the rest as unknown.
                if !self.aside.contains(&folder) && self.aside.len() <= FOLDERS_MAX {
                    self.aside.push(folder);
                }
            }
            self.folders.extend(led.pop());
        }
        self.add(led);
        true
    }

    /// Checks one operand.
    fn say(&self, simple: &Simple, operand: &Operand, said: &mut Vec<Reason>) {
        let mut push = |decision, rule: &str, text: String| {
            let strictest = said.iter().map(|reason| reason.decision).max();
            if said.len() >= SAID_MAX && strictest >= Some(decision) {
                return;
            }
            let text = format!("`{}` {text}", simple.shown());
            let reason = ours(Layer::Commands, decision, rule, text);
            if !said.contains(&reason) {
                said.push(reason);
            }
        };
        let (writes, sure) = (operand.writes, operand.sure);
        let verb = if writes { "writes to" } else { "reads" };
        let places = match &operand.word {
            Word::Known(text) => self.of(text),
            Word::Glob(text) | Word::Found(text) => self.of_glob(text, operand, &mut push),
            Word::Unknown(text) => vec![self.of_unknown(simple, text)],
        };
        let text = operand.word.text();
        for place in places {
            match place {
                Place::Free => {}
                Place::Unknown if sure => {
                    let what =
                        format!("{verb} `{text}`, and which file that is only the shell will know");
                    push(Decision::Ask, "what cannot be known", what);
                }
                Place::Unknown => {}
                Place::Outside => {
                    let what = format!("{verb} `{text}`, which is outside of the workspace");
                    push(Decision::Ask, "the workspace", what);
                }
                Place::Inside(path) => self.by_rules(&path, writes, sure, &mut push),
            }
        }
    }

    /// The verdict of the path rules on one path, and on the targets of its links.
    fn by_rules(
        &self,
        path: &str,
        writes: bool,
        sure: bool,
        push: &mut impl FnMut(Decision, &str, String),
    ) {
        let mut spellings = vec![path.to_owned()];
        match self.question.links.real(path) {
            RealPath::AsWritten => {}
            RealPath::Other(real) => spellings.push(real),
            RealPath::Outside => {
                let what = format!("uses `{path}`, which leads out of the workspace");
                push(Decision::Ask, "the workspace", what);
            }
        }
        for path in &spellings {
            if let Some(rule) = self.question.paths.against(path, writes) {
                // For a word that only looks like a path, the program's use of it is unknown.
                let decision = if sure { Decision::Deny } else { Decision::Ask };
                let verb = if writes { "changes" } else { "reads" };
                let what = format!("{verb} `{path}`, which no tool may (`{rule}`)");
                push(decision, "the path rules", what);
            }
        }
    }

    /// Locates an unknown word as far as possible. These markers are written by the parser: no shell text has this
    /// form.
    fn of_unknown(&self, simple: &Simple, text: &str) -> Place {
        let through = |how: &str| {
            simple
                .through
                .last()
                .is_some_and(|last| last.starts_with(how))
        };
        match text {
            // Results of `find` are below its search folders; so are names passed to `xargs`.
            "{}" if through("find ") => Place::Free,
            "…" if through("xargs") && self.found => Place::Free,
            // The commands inside are checked separately.
            "<(…)" => Place::Free,
            text if text.starts_with('~') => Place::Outside,
            _ => Place::Unknown,
        }
    }

    /// The locations of a path, from every possible working directory.
    fn of(&self, path: &str) -> Vec<Place> {
        if danger::is_safe_device(path) || path.is_empty() || path == "-" {
            return vec![Place::Free];
        }
        if let Some(absolute) = path.strip_prefix('/') {
            let inside = self.question.runner.root().and_then(|root| {
                let within = path.strip_prefix(root).unwrap_or_default();
                if self.leaves_link(within.trim_start_matches('/')) {
                    return None;
                }
                let clean = spelling::lexical(absolute)?;
                let rest = clean.strip_prefix(root.trim_start_matches('/'))?;
                (rest.is_empty() || rest.starts_with('/'))
                    .then(|| rest.trim_start_matches('/').to_owned())
            });
            return vec![inside.map_or(Place::Outside, Place::Inside)];
        }
        if path.starts_with('~') {
            return vec![Place::Outside];
        }
        if self.folders.is_empty() {
            return vec![Place::Unknown];
        }
        let each = self.folders.iter().map(|folder| {
            let whole = if folder.is_empty() {
                path.to_owned()
            } else {
                format!("{folder}/{path}")
            };
            if self.leaves_link(&whole) {
                return Place::Outside;
            }
            spelling::lexical(&whole)
                .map_or(Place::Outside, |path| Place::Inside(path.into_owned()))
        });
        each.collect()
    }

    /// Returns true if a `..` in the path follows a link: it leads to the parent of the link's target, and not to that
    /// of the link.
    fn leaves_link(&self, path: &str) -> bool {
        let mut folders: Vec<&str> = Vec::new();
        let mut ups = 0;
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    ups += 1;
                    let folder = folders.join("/");
                    let is_link = || self.question.links.real(&folder) != RealPath::AsWritten;
                    if ups > UPS_MAX || folders.pop().is_none() || is_link() {
                        return true;
                    }
                }
                part => folders.push(part),
            }
        }
        false
    }

    /// The possible locations of a glob: below its literal prefix; names that match a path rule are checked.
    fn of_glob(
        &self,
        glob: &str,
        operand: &Operand,
        push: &mut impl FnMut(Decision, &str, String),
    ) -> Vec<Place> {
        let rules = self.question.paths;
        let names = self.names.get_or_init(|| Names::of(rules));
        let all = match globs::read(glob, operand.own, names) {
            Glob::Climbs => return vec![Place::Outside],
            Glob::Unclear(why) => {
                push(
                    Decision::Ask,
                    "what cannot be known",
                    format!("has `{glob}`, and {why}"),
                );
                Vec::new()
            }
            Glob::Any(all) => all,
        };
        let is_meant = |path: &&String| {
            let mut places = self.of(path).into_iter();
            places.any(|place| match place {
                Place::Inside(path) => rules.against(&path, operand.writes).is_some(),
                Place::Outside | Place::Free | Place::Unknown => false,
            })
        };
        if let Some(path) = all.iter().find(is_meant) {
            let what = format!("has `{glob}`, which may be `{path}`");
            push(Decision::Ask, "the path rules", what);
        }
        match globs::folder(glob) {
            "" => self.of("."),
            folder => self.of(folder
                .strip_suffix('/')
                .filter(|cut| !cut.is_empty())
                .unwrap_or(folder)),
        }
    }
}
