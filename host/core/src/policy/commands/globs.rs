//! The possible matches of a glob among the names in path rules, determined without reading the disk.

mod tokens;

use mimir_commands::is_wild;

use crate::paths::PathRules;

use tokens::{GlobToken, can_end_with, lower, match_with_prefix, matches, parse_tokens};

/// Sample names for the wildcards in rules. Globs are tested with these names and the literal names in rules.
const NAMES: &[&str] = &[
    ".env",
    ".env.local",
    ".envrc",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".git",
    ".mimir",
];

/// Ordinary names. A glob that matches one of these does not select a particular kind of file.
const BROAD: &[&str] = &["a", "a.a", "index", "main", "readme", "Z"];

/// A placeholder for a path component with any name.
const ANY: &str = "a";

/// Maximum number of paths tried for one glob. With more, a person is asked.
const PATHS_MAX: usize = 512;

/// The possible matches of a glob.
#[derive(Debug, PartialEq)]
pub(super) enum GlobTargets {
    /// The glob may match `..` and lead out of its starting folder.
    Climbs,
    /// The matches cannot be determined, for this reason.
    Unclear(&'static str),
    /// The glob may match any of these paths, and others with ordinary names.
    Any(Vec<String>),
}

/// The names in path rules.
pub(super) struct ProtectedNames<'a> {
    literal: Vec<&'a str>,
    /// Literal prefixes of rule names.
    beginnings: Vec<Vec<char>>,
    /// Literal suffixes of rule names.
    endings: Vec<Vec<char>>,
}

impl<'a> ProtectedNames<'a> {
    /// Collects the names in these rules, without `!` exceptions, and [`NAMES`].
    pub(super) fn from_rules(rules: &'a PathRules) -> Self {
        let texts = rules.rules().iter().map(|rule| rule.text());
        let texts = texts.filter(|text| !text.starts_with('!'));
        let parts = texts.clone().flat_map(|text| text.split('/'));
        let mut literal: Vec<&str> = parts.filter(|name| !is_wild(name)).collect();
        literal.extend(NAMES);
        literal.sort_unstable();
        literal.dedup();
        literal.retain(|name| !name.is_empty());
        let last = texts.filter_map(|text| text.rsplit('/').next());
        let letters = |text: &str| text.chars().map(lower).collect();
        let plain = |text: &&str| !text.is_empty() && !is_wild(text);
        let beginnings = last.clone().filter_map(|name| name.strip_suffix('*'));
        let endings = last.filter_map(|name| name.strip_prefix('*'));
        Self {
            literal,
            beginnings: beginnings.filter(plain).map(letters).collect(),
            endings: endings.filter(plain).map(letters).collect(),
        }
    }
}

/// Returns the possible matches of a glob. `own_wildcards` is true if the program itself expands the glob, and not a
/// shell: its wildcards then also match a leading dot.
pub(super) fn expand_glob(
    glob: &str,
    own_wildcards: bool,
    rule_names: &ProtectedNames<'_>,
) -> GlobTargets {
    let mut classes = ["[:", "[=", "[."].iter();
    let in_bracket = |class: &&str| {
        let mut hits = glob.match_indices(*class);
        hits.any(|(at, _)| glob[..at].contains('['))
    };
    if classes.any(in_bracket) {
        return GlobTargets::Unclear("its matches depend on the locale of the machine");
    }
    let mut paths = vec![if glob.starts_with('/') { "/" } else { "" }.to_owned()];
    let mut has_wildcard = false;
    for part in glob.split('/').filter(|part| !matches!(*part, "" | ".")) {
        let tokens = is_wild(part).then(|| parse_tokens(part));
        let climbs = match &tokens {
            Some(tokens) => !own_wildcards && part.starts_with('.') && matches(tokens, ".."),
            None => has_wildcard && part == "..",
        };
        if climbs {
            return GlobTargets::Climbs;
        }
        has_wildcard |= tokens.is_some();
        let names = match tokens {
            Some(tokens) => component_names(part, &tokens, own_wildcards, rule_names),
            None => vec![part.to_owned()],
        };
        if paths.len().saturating_mul(names.len()) > PATHS_MAX {
            return GlobTargets::Unclear("it may match more paths than can be checked");
        }
        let join = |path: &String, name: &String| match path.as_str() {
            "" | "/" => format!("{path}{name}"),
            path => format!("{path}/{name}"),
        };
        let longer = paths
            .iter()
            .flat_map(|path| names.iter().map(move |name| join(path, name)));
        paths = longer.collect();
    }
    GlobTargets::Any(paths)
}

/// Returns the possible names of one path component: an ordinary name, and the matching names of rules if the glob
/// selects a particular kind of file. A broad glob does not name the protected files that it may match.
fn component_names(
    part: &str,
    tokens: &[GlobToken],
    own_wildcards: bool,
    rule_names: &ProtectedNames<'_>,
) -> Vec<String> {
    let mut names = vec![ANY.to_owned()];
    if BROAD.iter().any(|name| matches(tokens, name)) {
        return names;
    }
    // A leading wildcard does not match names with a leading dot.
    let matches_dot = own_wildcards || part.starts_with(['.', '\\']);
    let is_matched =
        |name: &&&str| (matches_dot || !name.starts_with('.')) && matches(tokens, name);
    names.extend(
        rule_names
            .literal
            .iter()
            .filter(is_matched)
            .map(|name| (*name).to_owned()),
    );
    for begin in &rule_names.beginnings {
        let is_visible = matches_dot || begin.first() != Some(&'.');
        names.extend(match_with_prefix(tokens, begin).filter(|_| is_visible));
    }
    for end in &rule_names.endings {
        if can_end_with(tokens, end, own_wildcards) {
            names.push(format!("{ANY}{}", end.iter().collect::<String>()));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_be(glob: &str, own_wildcards: bool) -> GlobTargets {
        let rules = PathRules::protected();
        match expand_glob(glob, own_wildcards, &ProtectedNames::from_rules(&rules)) {
            GlobTargets::Any(paths) => {
                let hit =
                    |path: &String| rules.blocking_rule(path.trim_matches('/'), false).is_some();
                GlobTargets::Any(paths.into_iter().filter(hit).collect())
            }
            other => other,
        }
    }

    #[test]
    fn glob_that_may_match_a_protected_name_is_found() {
        for (glob, own) in [
            ("p*.env", false),
            ("pro?.env", false),
            ("prod.e*", false),
            ("prod.[e]nv", false),
            ("*.ENV", false),
            ("*/.env", false),
            ("a/*/.env", false),
            (".e*", false),
            ("*v", false),
            ("?env", true),
            ("[.]env", true),
            ("*env", true),
            (".env*", true),
            ("\\.env", true),
            ("/x/*.pem", false),
            ("id_rs?", false),
            (".env.pro*", false),
            (".env?production", false),
            (".e*production", false),
            (".*.production", false),
            (".env.[a-k]*", false),
            ("id_rsa.*", false),
            ("?d_rsa.bak", false),
            ("*rsa.bak", false),
            ("ID_RSA-*", false),
        ] {
            let found = may_be(glob, own);
            assert!(
                matches!(&found, GlobTargets::Any(paths) if !paths.is_empty()),
                "{glob}: {found:?}"
            );
        }
        for (glob, own) in [
            ("*", true),
            ("*.rs", true),
            ("src/**/*.rs", false),
            ("test_*", false),
            ("log*[0-9]", false),
            ("*.[ch]", false),
            ("?env", false),
            ("??", false),
            ("prod????", false),
            ("[a-m]*", false),
            ("Cargo.*", false),
            ("*.json", false),
            ("README*", false),
            ("id_rsa*.pub", false),
            ("*a.bak", false),
            ("*19.log", false),
            ("build*.log", false),
            ("*.production", false),
        ] {
            assert_eq!(may_be(glob, own), GlobTargets::Any(vec![]), "{glob}");
        }
    }

    #[test]
    fn glob_that_climbs_or_is_unclear_is_reported() {
        let rules = PathRules::protected();
        let rules = ProtectedNames::from_rules(&rules);
        for glob in [".?/a", ".*", ".[.]/a", "a*/../b"] {
            assert_eq!(
                expand_glob(glob, false, &rules),
                GlobTargets::Climbs,
                "{glob}"
            );
        }
        assert_eq!(
            expand_glob("../*.rs", false, &rules),
            GlobTargets::Any(vec!["../a".into()])
        );
        for glob in [".[[:alpha:]]nv", "[[=e=]]", "[[.x.]]"] {
            assert!(
                matches!(expand_glob(glob, false, &rules), GlobTargets::Unclear(_)),
                "{glob}"
            );
        }
    }
}
