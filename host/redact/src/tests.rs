//! Tests of masking: secrets that are masked, text that is not, and attempts to hide a secret.

mod examples;
mod formats;
mod known;
mod lines;
mod ordinary;
mod restore;
mod rules;
mod split;
mod streams;
mod text;
mod value;
mod window;

/// A token in the format of a rule, without any stop word.
const TOKEN: &str = "ghp_8aZq2WvX7kTyR4nJ6mPcL1sD9fGhB3eU5oKi";

/// A text in the form of a private key.
fn private_key() -> String {
    let lines: Vec<String> = (0..20)
        .map(|n| format!("MIIEpQIBAAKCAQEAn6{n:02}O8li+SX4m98LLYt/PKSzEmQ++ZBD7Loh9P13f4yQ92EF"))
        .collect();
    format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        lines.join("\n")
    )
}
