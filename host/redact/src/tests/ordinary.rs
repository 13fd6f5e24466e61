//! Text that broad rules must leave alone: digests, versions, identifiers, placeholders, public certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::Redactor;

fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    Redactor::new().mask_text(&mut text);
    text
}

#[test]
fn lock_files_are_not_masked() {
    let sha512 = STANDARD.encode([0x5a; 64]);
    let texts = [
        "golang.org/x/oauth2 v0.36.0 h1:peZ/1z27fi9hUOFCAZaHyrpWG5lwe0RJEEEeH0ThlIs=\n\
         golang.org/x/oauth2 v0.36.0/go.mod h1:YDBUJMTkDnJS+A4BP4eZBjCqtokkg1hODuPjwiGPO7Q=\n\
         cloud.google.com/go/auth v0.16.2 h1:QvBAGFPLrDeoiNjyfVunhQ10HKNYuOwZ5noee0M5df4=\n\
         github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys v1.0.0 h1:qLDLZjIRSSkBvwHrLFBTSUPPqNv6XKMOqrQ8yr0AnT8=\n"
            .to_owned(),
        format!(
            "{{\"node_modules/registry-auth-token\": {{\"version\": \"5.0.2\", \"integrity\": \"sha512-{sha512}\"}},\n\
             \"dependencies\": {{\"registry-auth-token\": \"^5.0.1\", \"@x/api-key\": \"~1.2.3-beta.4\"}}}}\n"
        ),
        format!("\"auth-token@^1.0.0\":\n  version \"1.2.3\"\n  integrity sha512-{sha512}\n  checksum: 10/{}\n", "5a".repeat(64)),
        "name = \"secret-service\"\nversion = \"3.0.1\"\nchecksum = \"da1a5ad4d28c03536f82f77d9f36603f5e37d8869ac98f0a750d5b5686d8d95d\"\n"
            .to_owned(),
        "keyring==24.3.0 --hash=sha256:fed23f6ea2b1f5a8a3f2ab7e3cd0fa3e6a2bf6d1d1d6b4d1f2c9d9b4f4a1d6e5\n".to_owned(),
        "/auth-token@5.0.1:\n  resolution: {integrity: sha256-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}\n"
            .to_owned(),
    ];
    for text in texts {
        assert_eq!(masked(&text), text);
    }
}

#[test]
fn code_and_settings_that_name_keys_are_not_masked() {
    for text in [
        "return s.AutoAllocatedIPv4Address == nil",
        "if s.EnableOAuth2Integration2 {",
        "KeyExchange = X25519_MLKEM768",
        r#"{"key": "x86_64-darwin"}"#,
        "pub const NL80211_KEY_MAX: nl80211_key_attributes = 1;",
        "RegEnumKey = win32api.RegEnumKey ",
        "key: default/application",
        "key = \"Europe/Dublin1\"",
        "checksum/session-key: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        r#"{"nextPageToken": "CAUQAA12xYzAbC9qLm3Np"}"#,
        "nextPageToken=CAUQAA12xYzAbC9qLm3Np",
        "STRIPE_KEY = \"pk_live_51Hh3Kq2eZvKYlo2C0a1b2c3d4e5\"",
        r#"{"publishableKey": "pk_test_51Hh3Kq2eZvKYlo2C0a1b2c3d4e5"}"#,
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn placeholders_are_not_masked() {
    for text in [
        r#"{"apiKey": "YOUR-API-KEY", "api_key": "YOUR_API_KEY_HERE", "token": "your-token"}"#,
        r#"{"apiKey": "{env:NAME}", "authToken": "%s", "accessToken": "%(token)s", "password": "<password>"}"#,
        r#"{"access_token": "initial-access-token", "apiKey": "test-key", "password": "${DB_PASSWORD}"}"#,
        r#"{"apiKey": "example-api-key", "clientSecret": "xxxxxxxx", "password": "changeme"}"#,
        "curl -u user:pass http://host",
        "curl -u user:password http://host",
        "https://username:password@host/x",
    ] {
        assert_eq!(masked(text), text);
    }
}

/// The value of a Kubernetes secret.
fn secret(value: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: tls\ndata:\n  ca.crt: {value}\n")
}

#[test]
fn certificates_are_masked_only_with_a_private_key() {
    let body = format!("MIIB{}", "A1b2".repeat(40));
    let certificate = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    let public = secret(&STANDARD.encode(&certificate));
    assert_eq!(masked(&public), public);
    // With its key next to it, it is a secret.
    let both =
        format!("{certificate}-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    let both = STANDARD.encode(both);
    let out = masked(&secret(&both));
    assert!(!out.contains(&both[..40]), "{out}");
}

#[test]
fn secrets_similar_to_ordinary_text_are_found() {
    for (text, wanted) in [
        ("api_key = \"8fk2J9sL0pQ7xZ3vB6nM\"", "generic-api-key"),
        (
            "VAULT_TOKEN=s.8fk2J9sL0pQ7xZ3vB6nMwT4y",
            "vault-service-token",
        ),
        (r#"{"token": "8fk2J9sL0pQ7xZ3vB6nM"}"#, "generic-api-key"),
        (r#"{"apiKey": "sha512-8fk2J9sL0pQ7"}"#, "generic-api-key"),
        (r#"{"password": "my-own-5ecret"}"#, "key:password"),
    ] {
        let findings = Redactor::new().find(text.as_bytes());
        assert!(
            findings.iter().any(|finding| finding.rule == wanted),
            "{text}: {findings:?}"
        );
    }
}
