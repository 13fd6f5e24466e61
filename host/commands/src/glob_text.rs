//! The text of globs: wildcards and braces. Their matches are not determined here.

/// Maximum alternatives in braces.
const BRACES_MAX: usize = 64;

/// The characters that make a text a glob.
const WILD: [char; 4] = ['*', '?', '[', '\\'];

/// Returns true if a word has a wildcard.
pub fn is_wild(text: &str) -> bool {
    text.contains(WILD)
}

/// The folder before the first wildcard of a glob, with a trailing slash.
pub fn folder(glob: &str) -> &str {
    let named = glob.split(WILD).next().unwrap_or_default();
    &named[..named.rfind('/').map_or(0, |at| at + 1)]
}

/// Expands braces; `None` if there are too many, or nested ones.
pub fn unbraced(glob: &str) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    let mut rest = glob;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) = after.split_once('}')?;
        if inside.contains('{') || all.len() * inside.split(',').count() > BRACES_MAX {
            return None;
        }
        let one = |path: &String, name: &str| format!("{path}{before}{name}");
        let longer = all
            .iter()
            .flat_map(|path| inside.split(',').map(move |name| one(path, name)));
        all = longer.collect();
        rest = after;
    }
    all.iter_mut().for_each(|path| path.push_str(rest));
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_braces_expand_to_alternatives() {
        let all = |glob: &str| unbraced(glob).map(|all| all.join(" "));
        assert_eq!(all("*.{ts,tsx}").as_deref(), Some("*.ts *.tsx"));
        assert_eq!(all("{a,b}/{c,d}").as_deref(), Some("a/c a/d b/c b/d"));
        assert_eq!(all("a").as_deref(), Some("a"));
        assert_eq!(all("{a,{b,c}}"), None);
        assert_eq!(all("{a"), None);
    }
}
