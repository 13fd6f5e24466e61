//! Checks of the pattern of a trust rule. A pattern that no reference matches would leave artifacts without the rule.

use crate::network::NetworkHost;

/// Checks that a reference can match the pattern. Returns the fault with the right form.
pub(super) fn check_pattern(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() || pattern.trim() != pattern {
        return Err(
            "`registry` is empty or has spaces around it: expected a pattern such as registry.example.com/acme/*"
                .to_owned(),
        );
    }
    if pattern.contains("://") {
        return Err("`registry` is written without a scheme".to_owned());
    }
    let fault = |why: &str, right: &str| {
        let shown = crate::text::visible(pattern);
        Err(format!(
            "`registry: {shown}` covers nothing: {why}; write {right}"
        ))
    };
    let is_known = |c: char| c.is_ascii_alphanumeric() || "._-/:*[]".contains(c);
    if !pattern.chars().all(is_known) {
        return fault(
            "it has characters that no repository has",
            "a pattern such as registry.example.com/acme/*, without a digest",
        );
    }
    let Some((host, path)) = pattern.split_once('/') else {
        // `*` at the end also matches the repository.
        return if pattern.ends_with('*') {
            check_host_start(pattern).or_else(|(why, right)| fault(why, &right))
        } else {
            fault("it has no repository", &format!("{pattern}/*"))
        };
    };
    if let Err((why, right)) = check_host(host) {
        return fault(why, &format!("{right}/{path}"));
    }
    if path.is_empty() || path.ends_with('/') {
        return fault("it ends with `/`", &format!("{pattern}*"));
    }
    if let Some((repository, _)) = path.split_once(':') {
        let right = format!("{host}/{repository}");
        return fault("a rule covers all tags of a repository", &right);
    }
    if path.contains(['[', ']']) || !path.split('/').all(is_possible_part) {
        return fault(
            "each part of a repository begins and ends with a letter or digit",
            &format!("a pattern such as {host}/acme/*"),
        );
    }
    Ok(())
}

/// Returns true if a part of a repository can match this part of a pattern.
fn is_possible_part(part: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|it| it == b'*' || it.is_ascii_alphanumeric());
    is_end(part.bytes().next()) && is_end(part.bytes().next_back()) && !part.contains("..")
}

/// Checks the part before the first `/`. Returns the fault and the right form of the part.
fn check_host(host: &str) -> Result<(), (&'static str, String)> {
    let (name, port) = match host.rsplit_once(':') {
        Some((_, after)) if after.ends_with(']') => (host, None),
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    if name.contains('*') {
        // The port is compared with a wildcard before it as it is written.
        return match port {
            Some("443") => Err(("references have no default port", name.to_owned())),
            _ => check_host_start(host),
        };
    }
    let lower = name.to_ascii_lowercase();
    let is_host = host.contains(['.', ':']) || lower == "localhost";
    let parsed = NetworkHost::parse(&lower).ok();
    let parsed = parsed.filter(|parsed| {
        is_host && !lower.contains('_') && !lower.is_empty() && parsed.to_string() == lower
    });
    let Some(parsed) = parsed else {
        return Err((
            "it does not begin with the host of a registry in its usual spelling",
            "registry.example.com".to_owned(),
        ));
    };
    let default = if parsed.is_this_machine() {
        "80"
    } else {
        "443"
    };
    match port {
        Some(port) if port == default => Err(("references have no default port", name.to_owned())),
        Some(port)
            if !port.contains('*')
                && !port.parse::<u16>().is_ok_and(|_| !port.starts_with('0')) =>
        {
            Err((
                "its port is not a number from 1 to 65535",
                format!("{name}:5000"),
            ))
        }
        _ => Ok(()),
    }
}

/// Checks the first character, which is that of a host.
fn check_host_start(host: &str) -> Result<(), (&'static str, String)> {
    let first = host.chars().next();
    if first.is_some_and(|first| first.is_ascii_alphanumeric() || "*[".contains(first)) {
        return Ok(());
    }
    Err((
        "it does not begin with the host of a registry",
        "registry.example.com".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_patterns_that_can_match_are_accepted() {
        for pattern in [
            "*",
            "registry.example.com/*",
            "Registry.example.com/acme/*",
            "registry.example.com/acme",
            "registry.example.com/acme/weather*",
            "registry.example.com*",
            "registry.example.com:5000/acme/**",
            "registry.example.com:*",
            "*.example.com/acme/*",
            "*/acme/x",
            "localhost:5000/*",
            "localhost/*",
            "127.0.0.1:8443/acme/a.b-c__d",
            "127.0.0.1:443/*",
            "[::1]:5000/*",
        ] {
            assert_eq!(check_pattern(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn trust_patterns_that_cannot_match_are_refused_with_the_right_form() {
        let host = "registry.example.com";
        for (pattern, right) in [
            (host.to_owned(), "write registry.example.com/*"),
            (format!("{host}/"), "write registry.example.com/*"),
            (format!("{host}/acme/"), "write registry.example.com/acme/*"),
            (
                format!("{host}/acme/x:1"),
                "write registry.example.com/acme/x",
            ),
            (
                format!("{host}/acme/x:*"),
                "write registry.example.com/acme/x",
            ),
            (
                format!("{host}:443/acme/*"),
                "write registry.example.com/acme/*",
            ),
            (
                "*.example.com:443/acme/*".to_owned(),
                "write *.example.com/acme/*",
            ),
            ("localhost:80/acme/*".to_owned(), "write localhost/acme/*"),
            (format!("{host}:0/*"), "number from 1 to 65535"),
            (format!("{host}:99999/*"), "number from 1 to 65535"),
            (format!("{host}./*"), "usual spelling"),
            ("acme/*".to_owned(), "host of a registry"),
            ("/acme/*".to_owned(), "host of a registry"),
            ("-x*".to_owned(), "host of a registry"),
            ("*.example.com".to_owned(), "write *.example.com/*"),
            (format!("{host}//x"), "letter or digit"),
            (format!("{host}/acme/../x"), "letter or digit"),
            (format!("{host}/acme/-x"), "letter or digit"),
            (format!("{host}/acme/[ab]"), "letter or digit"),
            (
                format!("{host}/acme/x@sha256"),
                "characters that no repository has",
            ),
            (
                format!("{host}/acme/{{a,b}}"),
                "characters that no repository has",
            ),
            (
                format!("{host}/acme x/*"),
                "characters that no repository has",
            ),
            (
                format!("{host}/caf\u{e9}/*"),
                "characters that no repository has",
            ),
        ] {
            let why = check_pattern(&pattern).unwrap_err();
            assert!(why.contains(right), "{pattern}: {why}");
        }
    }
}
