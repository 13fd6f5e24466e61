//! Checks the file accesses of a command against the path rules, as far as the command line shows them.
//!
//! A path outside the workspace needs approval. Access to hidden paths and writes to read-only paths are denied. For
//! known programs the path operands are checked; for other programs, all words that look like paths. A command after
//! `cd` is checked for every working directory that it may run in.

use std::cell::OnceCell;
use std::collections::HashSet;

use mimir_commands::{
    EnclosingCommand, InsertedText, PathOperand, finds_files, is_safe_device,
    runs_on_unnamed_files, subcommands,
};

use crate::backend::RealPath;
use crate::command::{ParsedCommand, ShellWord, display_line};
use crate::decision::{Decision, DecisionReason, PolicyLayer, RuleBasis};
use crate::paths::PathRuleLayer;
use crate::policy::{path_arguments, spelling};

use super::globs::{self, GlobTargets, ProtectedNames};
use super::{CommandCheck, built_in_reason};

/// Maximum number of working directories tracked for a script. With more, relative paths are unknown.
const FOLDERS_MAX: usize = 8;

/// Maximum number of reasons about the files of one command, because each reason quotes the whole command. A reason
/// that is stricter than all others is added nevertheless.
const REASONS_MAX: usize = 32;

/// Maximum length of a path on Linux, in bytes. A working directory with a longer path is unknown.
const PATH_MAX: usize = 4096;

/// Maximum number of `..` components in a path. A path with more counts as outside the workspace.
const PARENT_COMPONENTS_MAX: usize = 32;

/// The location of a path.
enum PathLocation {
    /// Inside the workspace: the normalized path from the workspace root.
    Inside(String),
    /// Outside the workspace.
    Outside,
    /// A device that every program may use, or not a path at all.
    Free,
    /// Not known before the shell runs.
    Unknown,
}

/// A reason about a file of a command, and its basis.
type FileReason = (DecisionReason, RuleBasis);

/// The possible working directories of a script's commands, and the path rules there.
pub(super) struct WorkingDirectories<'a> {
    check: &'a CommandCheck<'a>,
    /// The possible working directories, relative to the workspace root. Empty if unknown.
    folders: Vec<String>,
    /// Possible working directories after a failed `cd`, which skips the rest of its `&&` chain.
    after_failure: Vec<String>,
    /// The index of the previous command. The next command of an `&&` chain runs only if this one succeeded.
    chain: Option<usize>,
    /// True if the script starts outside the workspace.
    outside_workspace: bool,
    /// The names in path rules, computed for the first glob.
    names: OnceCell<ProtectedNames<'a>>,
    /// True if the command reads file names from a command that only finds permitted files.
    reads_found_names: bool,
}

impl<'a> WorkingDirectories<'a> {
    pub(super) fn new(check: &'a CommandCheck<'a>) -> Self {
        let mut directories = Self {
            check,
            folders: vec![String::new()],
            after_failure: Vec::new(),
            chain: None,
            outside_workspace: false,
            names: OnceCell::new(),
            reads_found_names: false,
        };
        if let Some(directory) = check.directory {
            match directories.locate(directory).pop() {
                Some(PathLocation::Inside(folder)) => directories.folders = vec![folder],
                _ => directories.outside_workspace = true,
            }
        }
        directories
    }

    /// Returns the reason to deny a script that starts outside the workspace.
    pub(super) fn outside_reason(&self) -> Option<DecisionReason> {
        let directory = self.check.directory.filter(|_| self.outside_workspace)?;
        let text = format!(
            "`{directory}` is outside the workspace, but commands can only start inside it"
        );
        Some(built_in_reason(
            PolicyLayer::Commands,
            Decision::Deny,
            "the workspace",
            text,
        ))
    }

    /// Enters the command at this index. Unless the command runs only after the previous one succeeded, the working
    /// directories after a failure become possible again.
    pub(super) fn enter_command(&mut self, at: usize, simple: &ParsedCommand) {
        if simple.follows.is_none() || simple.follows != self.chain {
            let after_failure = std::mem::take(&mut self.after_failure);
            self.add_folders(after_failure);
        }
        self.chain = Some(at);
    }

    /// Adds possible working directories, unless the working directory is unknown anyway.
    fn add_folders(&mut self, folders: Vec<String>) {
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

    /// Returns the reasons about the files of one command. Updates the working directories for the next command.
    pub(super) fn evaluate_files(&mut self, simple: &ParsedCommand) -> Vec<FileReason> {
        let mut reasons = Vec::new();
        let finder = simple
            .piped_from
            .and_then(|at| self.check.script.commands.get(at));
        let reads_elsewhere = simple
            .redirections
            .iter()
            .any(|redirection| !redirection.writes);
        self.reads_found_names =
            !reads_elsewhere && finder.is_some_and(|finder| self.finds_permitted_files(finder));
        let opened = simple
            .redirections
            .iter()
            .map(|redirection| PathOperand::certain(&redirection.target, redirection.writes));
        let program = simple.program().unwrap_or_default();
        let is_protected = |path: &str| self.check.paths.blocking_rule(path, false).is_some();
        let operands = mimir_commands::path_operands(&simple.words, program, is_protected);
        let operands: Vec<PathOperand> = opened.chain(operands).collect();
        let mut seen = HashSet::new();
        // Repeated operands would give the same reasons.
        for operand in operands.iter().filter(|operand| seen.insert(*operand)) {
            self.evaluate_operand(simple, operand, &mut reasons);
        }
        if program == "find" && runs_on_unnamed_files(&simple.words) {
            let text = format!(
                "`{}` runs a command on files that its words do not name",
                display_line(simple)
            );
            reasons.push(unknown_reason(text));
        }
        if matches!(program, "cd" | "pushd" | "popd") && !self.change_directory(simple) {
            let text = format!(
                "`{}` leads to a folder that is not known",
                display_line(simple)
            );
            reasons.push(unknown_reason(text));
        }
        reasons
    }

    /// Returns true if a command only finds files, and the names that it searches for give no reason to deny or ask.
    fn finds_permitted_files(&self, finder: &ParsedCommand) -> bool {
        let mut reasons = Vec::new();
        finds_files(finder) && {
            for operand in mimir_commands::searched_names(&finder.words) {
                self.evaluate_operand(finder, &operand, &mut reasons);
            }
            reasons.is_empty()
        }
    }

    /// Returns the paths of workspace files that one command executes. An empty path means an unknown file.
    pub(super) fn executed_files(&self, simple: &ParsedCommand) -> Vec<String> {
        let files = subcommands::executed_files(&simple.words);
        let locations = files.iter().flat_map(|word| match word.known() {
            Some(path) => self.locate(path),
            None => vec![PathLocation::Unknown],
        });
        let files = locations.filter_map(|location| match location {
            PathLocation::Inside(path) => Some(path),
            PathLocation::Unknown => Some(String::new()),
            // Tools cannot change these files.
            PathLocation::Outside | PathLocation::Free => None,
        });
        files.collect()
    }

    /// Returns reasons to ask about workspace files that the shell itself opens for writing.
    pub(super) fn write_reasons(&self, simple: &ParsedCommand) -> Vec<DecisionReason> {
        let redirections = simple.redirections.iter();
        let overwriting =
            redirections.filter(|redirection| redirection.writes && !redirection.appends);
        let overwritten: HashSet<&str> = overwriting
            .map(|redirection| redirection.target.text())
            .collect();
        let mut seen = HashSet::new();
        let targets = simple
            .redirections
            .iter()
            .filter(|redirection| redirection.writes);
        let inside = targets
            .filter(|redirection| seen.insert(redirection.target.text()))
            .filter_map(|redirection| match &redirection.target {
                ShellWord::Known(text) => {
                    let mut locations = self.locate(text).into_iter();
                    locations
                        .any(|location| matches!(location, PathLocation::Inside(_)))
                        .then_some(text)
                }
                // The shell expands the glob to a single matching file.
                ShellWord::Glob(text) | ShellWord::GlobMatch(text) => Some(text),
                // Unknown words are asked about elsewhere.
                ShellWord::Unknown(_) | ShellWord::Inserted { .. } | ShellWord::PipeName => None,
            });
        let reason_for = |text: &String| {
            let effect = if overwritten.contains(text.as_str()) {
                "writes over"
            } else {
                "adds to"
            };
            let text = format!("`{}` {effect} `{text}`", display_line(simple));
            built_in_reason(
                PolicyLayer::Commands,
                Decision::Ask,
                super::DEFAULT_LIST,
                text,
            )
        };
        inside.take(REASONS_MAX).map(reason_for).collect()
    }

    /// Returns the first workspace file that may select the program's version, in any possible working directory or the
    /// root.
    pub(super) fn version_file(&self, simple: &ParsedCommand) -> Option<String> {
        let program = simple.program()?;
        let runner = self.check.runner;
        // If the working directory is unknown, the command that changed it has been asked about.
        let folders = self.folders.iter().map(String::as_str);
        folders
            .chain([""])
            .find_map(|folder| runner.version_file(program, folder))
    }

    /// Follows a change of directory. Returns false if the target is not a literal word, or is too long.
    fn change_directory(&mut self, simple: &ParsedCommand) -> bool {
        let target = simple
            .words
            .iter()
            .skip(1)
            .find(|word| !word.text().starts_with('-'));
        let Some(ShellWord::Known(target)) = target else {
            self.folders.clear();
            return false;
        };
        let mut new_folders = Vec::new();
        for location in self.locate(target) {
            match location {
                PathLocation::Inside(folder) if folder.len() <= PATH_MAX => {
                    new_folders.push(folder)
                }
                PathLocation::Inside(_) => {
                    self.folders.clear();
                    return false;
                }
                PathLocation::Outside | PathLocation::Free | PathLocation::Unknown => {
                    self.folders.clear();
                    return true;
                }
            }
        }
        // A wrapped `cd` changes the directory of another process, not of the next command.
        if simple.wrappers.is_empty() {
            for folder in std::mem::take(&mut self.folders) {
                // One directory beyond the maximum marks the rest as unknown.
                if !self.after_failure.contains(&folder) && self.after_failure.len() <= FOLDERS_MAX
                {
                    self.after_failure.push(folder);
                }
            }
            self.folders.extend(new_folders.pop());
        }
        self.add_folders(new_folders);
        true
    }

    /// Adds the reasons about one path operand.
    fn evaluate_operand(
        &self,
        simple: &ParsedCommand,
        operand: &PathOperand,
        reasons: &mut Vec<FileReason>,
    ) {
        let mut push = |decision, rule: &str, text: String, remedy: Option<String>| {
            let strictest = reasons.iter().map(|(reason, _)| reason.decision).max();
            if reasons.len() >= REASONS_MAX && strictest >= Some(decision) {
                return;
            }
            let text = format!("`{}` {text}", display_line(simple));
            let reason = built_in_reason(PolicyLayer::Commands, decision, rule, text);
            if !reasons.iter().any(|(other, _)| *other == reason) {
                let basis = RuleBasis {
                    remedy: remedy.map(Into::into),
                    ..RuleBasis::default()
                };
                reasons.push((reason, basis));
            }
        };
        let (writes, certain) = (operand.writes, operand.certain);
        let verb = if writes { "writes to" } else { "reads" };
        let locations = match &operand.word {
            ShellWord::Known(text) => self.locate(text),
            ShellWord::Glob(text) | ShellWord::GlobMatch(text) => {
                self.locate_glob(text, operand, &mut push)
            }
            // The commands inside are checked separately.
            ShellWord::PipeName => vec![PathLocation::Free],
            word if word.text().starts_with('~') => vec![PathLocation::Outside],
            ShellWord::Inserted { source, .. } => vec![self.locate_inserted(simple, *source)],
            ShellWord::Unknown(_) => vec![PathLocation::Unknown],
        };
        let word = operand.word.text();
        for location in locations {
            match location {
                PathLocation::Free => {}
                PathLocation::Unknown if certain => {
                    let text = format!(
                        "{verb} `{word}`, a file whose name is known only when the shell runs"
                    );
                    push(Decision::Ask, super::UNKNOWN, text, None);
                }
                PathLocation::Unknown => {}
                PathLocation::Outside => {
                    let text = format!("{verb} `{word}`, which is outside of the workspace");
                    push(Decision::Ask, "the workspace", text, None);
                }
                PathLocation::Inside(path) => {
                    self.evaluate_path_rules(&path, writes, certain, &mut push)
                }
            }
        }
    }

    /// Adds the reasons that the path rules give for one path, and for the targets of its links.
    fn evaluate_path_rules(
        &self,
        path: &str,
        writes: bool,
        certain: bool,
        push: &mut impl FnMut(Decision, &str, String, Option<String>),
    ) {
        let mut spellings = vec![path.to_owned()];
        match self.check.links.resolve(path) {
            RealPath::AsWritten => {}
            RealPath::Other(real) => spellings.push(real),
            RealPath::Outside => {
                let text = format!("uses `{path}`, which leads out of the workspace");
                push(Decision::Ask, "the workspace", text, None);
            }
        }
        for path in &spellings {
            if let Some(rule) = self.check.paths.blocking_rule(path, writes) {
                // If a word only looks like a path, the program may use it in another way.
                let decision = if certain {
                    Decision::Deny
                } else {
                    Decision::Ask
                };
                let verb = if writes { "change" } else { "read" };
                let text = format!("{verb}s `{path}`, which no tool may {verb} (`{rule}`)");
                let is_liftable = rule.layer() != PathRuleLayer::Protected || rule.is_of_skills();
                let remedy = (certain && is_liftable)
                    .then(|| path_arguments::remedy(rule, self.check.tool, path));
                push(decision, "the path rules", text, remedy);
            }
        }
    }

    /// Locates a name that `find` or `xargs` inserts. Names from `find`, directly or piped to `xargs`, are below the
    /// search folders, which are checked as operands.
    fn locate_inserted(&self, simple: &ParsedCommand, source: InsertedText) -> PathLocation {
        match (source, simple.wrappers.last()) {
            (InsertedText::FoundName, Some(EnclosingCommand::Find(_))) => PathLocation::Free,
            (InsertedText::ReadName, Some(EnclosingCommand::Wrapper("xargs")))
                if self.reads_found_names =>
            {
                PathLocation::Free
            }
            _ => PathLocation::Unknown,
        }
    }

    /// Returns the locations of a path for all possible working directories.
    fn locate(&self, path: &str) -> Vec<PathLocation> {
        if is_safe_device(path) || path.is_empty() || path == "-" {
            return vec![PathLocation::Free];
        }
        if let Some(absolute) = path.strip_prefix('/') {
            let inside = self.check.runner.root().and_then(|root| {
                let within = path.strip_prefix(root).unwrap_or_default();
                if self.leaves_link(within.trim_start_matches('/')) {
                    return None;
                }
                let clean = spelling::lexical(absolute)?;
                let rest = clean.strip_prefix(root.trim_start_matches('/'))?;
                (rest.is_empty() || rest.starts_with('/'))
                    .then(|| rest.trim_start_matches('/').to_owned())
            });
            return vec![inside.map_or(PathLocation::Outside, PathLocation::Inside)];
        }
        if path.starts_with('~') {
            return vec![PathLocation::Outside];
        }
        if self.folders.is_empty() {
            return vec![PathLocation::Unknown];
        }
        let locations = self.folders.iter().map(|folder| {
            let whole = if folder.is_empty() {
                path.to_owned()
            } else {
                format!("{folder}/{path}")
            };
            if self.leaves_link(&whole) {
                return PathLocation::Outside;
            }
            spelling::lexical(&whole).map_or(PathLocation::Outside, |path| {
                PathLocation::Inside(path.into_owned())
            })
        });
        locations.collect()
    }

    /// Returns true if a `..` in the path follows a link, and thus leads to the parent of the link's target; or if the
    /// path leaves the workspace or has too many `..`.
    fn leaves_link(&self, path: &str) -> bool {
        let mut folders: Vec<&str> = Vec::new();
        let mut parents = 0;
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parents += 1;
                    let folder = folders.join("/");
                    let is_link = || self.check.links.resolve(&folder) != RealPath::AsWritten;
                    if parents > PARENT_COMPONENTS_MAX || folders.pop().is_none() || is_link() {
                        return true;
                    }
                }
                part => folders.push(part),
            }
        }
        false
    }

    /// Returns the locations of the literal folder of a glob. Adds a reason to ask if the glob may match a path that a
    /// rule blocks, or if its matches are unknown.
    fn locate_glob(
        &self,
        glob: &str,
        operand: &PathOperand,
        push: &mut impl FnMut(Decision, &str, String, Option<String>),
    ) -> Vec<PathLocation> {
        let rules = self.check.paths;
        let names = self.names.get_or_init(|| ProtectedNames::from_rules(rules));
        let paths = match globs::expand_glob(glob, operand.own_wildcards, names) {
            GlobTargets::Climbs => return vec![PathLocation::Outside],
            GlobTargets::Unclear(why) => {
                push(
                    Decision::Ask,
                    super::UNKNOWN,
                    format!("contains the glob `{glob}`, and {why}"),
                    None,
                );
                Vec::new()
            }
            GlobTargets::Any(paths) => paths,
        };
        let is_blocked = |path: &&String| {
            let mut locations = self.locate(path).into_iter();
            locations.any(|location| match location {
                PathLocation::Inside(path) => rules.blocking_rule(&path, operand.writes).is_some(),
                PathLocation::Outside | PathLocation::Free | PathLocation::Unknown => false,
            })
        };
        if let Some(path) = paths.iter().find(is_blocked) {
            let text = format!("contains the glob `{glob}`, which may match `{path}`");
            push(Decision::Ask, "the path rules", text, None);
        }
        match mimir_commands::folder(glob) {
            "" => self.locate("."),
            folder => self.locate(
                folder
                    .strip_suffix('/')
                    .filter(|cut| !cut.is_empty())
                    .unwrap_or(folder),
            ),
        }
    }
}

/// Creates the reason to ask about files that the words of a command do not name.
fn unknown_reason(text: String) -> FileReason {
    let reason = built_in_reason(PolicyLayer::Commands, Decision::Ask, super::UNKNOWN, text);
    (reason, RuleBasis::default())
}
