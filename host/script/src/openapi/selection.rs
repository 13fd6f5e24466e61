//! Selection of operations by id, tag or path.

use mimir_core::ToolError;

/// Patterns that choose operations. Without patterns to include, all operations are included.
#[derive(Debug, Default)]
pub(crate) struct OperationSelection<'a> {
    pub(crate) include: &'a [String],
    pub(crate) exclude: &'a [String],
}

/// The properties of an operation that patterns match.
#[derive(Debug)]
pub(crate) struct OperationLabels<'a> {
    pub(crate) id: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) tags: Vec<&'a str>,
}

impl OperationSelection<'_> {
    /// Returns true if the operation is selected.
    pub(crate) fn selects(&self, labels: &OperationLabels<'_>) -> bool {
        let is_included =
            self.include.is_empty() || self.include.iter().any(|p| labels.match_pattern(p));
        is_included
            && !self
                .exclude
                .iter()
                .any(|pattern| labels.match_pattern(pattern))
    }

    /// Fails if a pattern matches none of the operations, because a misspelled pattern would exclude nothing.
    pub(crate) fn check_use(&self, all: &[OperationLabels<'_>]) -> Result<(), ToolError> {
        let unused = |pattern: &&String| !all.iter().any(|labels| labels.match_pattern(pattern));
        for (option, patterns) in [("--include", self.include), ("--exclude", self.exclude)] {
            if let Some(pattern) = patterns.iter().find(unused) {
                let pattern = mimir_core::text::visible(pattern);
                return Err(ToolError::invalid_input(format!(
                    "`{option} {pattern}` matches no operation: expected an operation id, a tag as `tag:NAME`, or a path such as `/users/*`"
                )));
            }
        }
        Ok(())
    }
}

impl OperationLabels<'_> {
    fn match_pattern(&self, pattern: &str) -> bool {
        if let Some(tag) = pattern.strip_prefix("tag:") {
            return self.tags.iter().any(|name| matches_glob(tag, name));
        }
        if pattern.starts_with('/') {
            return matches_glob(pattern, self.path);
        }
        match pattern.split_once(' ') {
            Some((method, path)) if path.starts_with('/') => {
                method.eq_ignore_ascii_case(self.method) && matches_glob(path, self.path)
            }
            _ => matches_glob(pattern, self.id),
        }
    }
}

/// Returns true if a text matches a pattern in which `*` stands for any characters. Letters match in either case.
fn matches_glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openapi_selection_matches_ids_tags_and_paths() {
        let labels = OperationLabels {
            id: "repos/get",
            method: "GET",
            path: "/repos/{owner}",
            tags: vec!["repos"],
        };
        for pattern in [
            "repos/get",
            "repos/*",
            "*get",
            "tag:repos",
            "tag:REP*",
            "/repos/*",
            "get /repos/*",
            "*",
        ] {
            assert!(labels.match_pattern(pattern), "{pattern}");
        }
        for pattern in [
            "repos",
            "tag:rep",
            "/repos",
            "post /repos/*",
            "*gets",
            "repos/get/*",
        ] {
            assert!(!labels.match_pattern(pattern), "{pattern}");
        }
        let [include, exclude] = [["tag:repos".to_owned()], ["repos/get".to_owned()]];
        let selection = |include, exclude| OperationSelection { include, exclude };
        assert!(selection(&include, &[]).selects(&labels));
        assert!(!selection(&include, &exclude).selects(&labels));
        let misspelled = ["tag:repo".to_owned()];
        assert!(selection(&[], &misspelled).check_use(&[labels]).is_err());
    }
}
