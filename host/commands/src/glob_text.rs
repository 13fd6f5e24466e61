//! Text of globs: wildcards and braces. File matching happens elsewhere.

/// Maximum number of alternatives in braces.
const MAX_ALTERNATIVES: usize = 64;

/// Characters that make a text a glob.
const WILDCARDS: [char; 4] = ['*', '?', '[', '\\'];

/// Returns true if a text has a wildcard.
pub fn is_wild(text: &str) -> bool {
    text.contains(WILDCARDS)
}

/// Returns the folder before the first wildcard of a glob, with a trailing slash, or an empty text.
pub fn folder(glob: &str) -> &str {
    let named = glob.split(WILDCARDS).next().unwrap_or_default();
    &named[..named.rfind('/').map_or(0, |at| at + 1)]
}

/// Expands braces to all alternatives. Returns `None` if there are too many, or if braces are nested or unclosed.
pub fn expand_braces(glob: &str) -> Option<Vec<String>> {
    let mut paths = vec![String::new()];
    let mut rest = glob;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) = after.split_once('}')?;
        if inside.contains('{') || paths.len() * inside.split(',').count() > MAX_ALTERNATIVES {
            return None;
        }
        let extended = |path: &String, name: &str| format!("{path}{before}{name}");
        let extended_paths = paths
            .iter()
            .flat_map(|path| inside.split(',').map(move |name| extended(path, name)));
        paths = extended_paths.collect();
        rest = after;
    }
    paths.iter_mut().for_each(|path| path.push_str(rest));
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_braces_expand_to_alternatives() {
        let expanded = |glob: &str| expand_braces(glob).map(|globs| globs.join(" "));
        assert_eq!(expanded("*.{ts,tsx}").as_deref(), Some("*.ts *.tsx"));
        assert_eq!(expanded("{a,b}/{c,d}").as_deref(), Some("a/c a/d b/c b/d"));
        assert_eq!(expanded("a").as_deref(), Some("a"));
        assert_eq!(expanded("{a,{b,c}}"), None);
        assert_eq!(expanded("{a"), None);
    }
}
