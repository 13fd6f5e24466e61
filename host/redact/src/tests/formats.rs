//! Formats without a gitleaks rule, and passwords in plain text.

use super::super::Redactor;

/// Deterministic letters and digits that look random.
fn random(length: usize, alphabet: &str) -> String {
    let alphabet = alphabet.as_bytes();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(alphabet[(state % alphabet.len() as u64) as usize])
    };
    std::iter::repeat_with(next).take(length).collect()
}

const ANY: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const HEX: &str = "0123456789abcdef";

fn tokens() -> Vec<(&'static str, String)> {
    let any = |length| random(length, ANY);
    let hex = |length| random(length, HEX);
    vec![
        ("docker-access-token", format!("dckr_pat_{}", any(27))),
        ("docker-access-token", format!("dckr_oat_{}", any(32))),
        (
            "docker-swarm-key",
            format!("SWMTKN-1-{}-{}", random(50, LOWER), random(25, LOWER)),
        ),
        ("docker-swarm-key", format!("SWMKEY-1-{}", any(43))),
        ("figma-token", format!("figd_{}", any(40))),
        ("groq-api-key", format!("gsk_{}", any(52))),
        (
            "heroku-user-key",
            format!(
                "HRKU-{}-{}-{}-{}-{}",
                hex(8),
                hex(4),
                hex(4),
                hex(4),
                hex(12)
            ),
        ),
        ("llamacloud-api-key", format!("llx-{}", any(48))),
        (
            "openai-project-key",
            format!("sk-proj-{}T3BlbkFJ{}", any(48), any(48)),
        ),
        (
            "nats-seed",
            format!("SUAB{}", random(54, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
        ),
        ("postman-access-key", format!("PMAT-{}", random(26, UPPER))),
        ("supabase-token", format!("sbp_{}", hex(40))),
        ("together-api-key", format!("tgp_v1_{}", any(43))),
        ("vercel-token", format!("vcp_{}", any(56))),
        ("xai-api-key", format!("xai-{}", any(80))),
        ("bitbucket-data-center-token", format!("BBDC-{}", any(44))),
        (
            "buildkite-user-token",
            format!("bkua_{}", random(40, LOWER)),
        ),
        ("circleci-token", format!("CCIPAT_{}_{}", any(22), hex(40))),
        ("cloudflare-token", format!("cfut_{}", any(48))),
        (
            "langsmith-api-key",
            format!("lsv2_pt_{}_{}", hex(32), hex(10)),
        ),
        ("pinecone-api-key", format!("pcsk_{}_{}", any(5), any(63))),
        ("ramp-client-secret", format!("ramp_sec_{}", any(48))),
        ("mimir-proxy-password", format!("mimir_proxy_{}", hex(32))),
        ("rootly-api-key", format!("rootly_{}", hex(64))),
        (
            "salesforce-session",
            format!("00D5e000000abcd!AQ4AQ{}", any(91)),
        ),
    ]
}

#[test]
fn tokens_of_current_services_are_masked_in_context() {
    for (rule, token) in tokens() {
        for (before, behind) in [
            ("", ""),
            ("export TOKEN=", "\n"),
            ("  value: \"", "\","),
            ("Authorization: Bearer ", " "),
        ] {
            let mut text = format!("{before}{token}{behind}");
            Redactor::new().mask_text(&mut text);
            assert_eq!(text, format!("{before}[REDACTED:{rule}]{behind}"));
        }
    }
}

#[test]
fn tokens_prefixes_and_similar_words_are_not_masked() {
    for (_, token) in tokens() {
        let begun = &token[..token.len().min(16)];
        let mut text = format!("{begun} and on");
        Redactor::new().mask_text(&mut text);
        assert_eq!(text, format!("{begun} and on"));
    }
    for text in [
        "figd_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "gsk_buff_alloc_and_some_more_words_of_code",
        "the prefix `rootly_` and 64 hex digits",
        "fn mimir_proxy_password() -> u16 { mimir_proxy_0 }",
        "00D is the beginning of an id!",
    ] {
        let mut out = text.to_owned();
        Redactor::new().mask_text(&mut out);
        assert_eq!(out, text);
    }
}

#[test]
fn passwords_in_config_and_text_are_masked() {
    for (text, secret) in [
        ("password: !Dd5G4s9", "!Dd5G4s9"),
        ("db:\n  password: hunter2x\n  port: 5432\n", "hunter2x"),
        ("my pw: Xy7!abcd, thanks", "Xy7!abcd"),
        ("DB_PASSWORD=hunter22\n", "hunter22"),
        ("passwd = 'tr0ub4dor3'", "tr0ub4dor3"),
        ("pw:s3cretword", "s3cretword"),
        ("CREATE USER a IDENTIFIED BY \"Gj7kLmw2\";", "Gj7kLmw2"),
        (
            "ALTER USER 'a'@'%' IDENTIFIED WITH mysql_native_password BY 'tr0ub4dor';",
            "tr0ub4dor",
        ),
        ("postgres://app:s3cr@db/x", "s3cr"),
    ] {
        let mut out = text.to_owned();
        assert_eq!(Redactor::new().mask_text(&mut out), 1, "{text}: {out}");
        let (before, behind) = text.split_once(secret).unwrap();
        assert!(out.starts_with(before) && out.ends_with(behind), "{out}");
        assert!(!out.contains(secret), "{out}");
        let once = out.clone();
        assert_eq!(Redactor::new().mask_text(&mut out), 0, "{out}");
        assert_eq!(out, once);
    }
}

#[test]
fn passwords_in_code_and_prose_are_not_masked() {
    for text in [
        "let password: String = x;",
        "    password: Utf8PathBuf,",
        "password: String2,",
        "password = args.password1",
        "password: Option<String>",
        "self.password = password2\n",
        "password: ${DB_PASSWORD}",
        "password: {{ .Values.password1 }}",
        "password: <your password>",
        "PASSWORD=$1",
        "password = os.environ['X1']",
        "password: str = 'abc'",
        "Password: at least 8 characters",
        "login(password=password1, user=x)",
        "pw = getpw2(x)",
        "const password = utils$1.getSafeProp(auth, 'password');",
        "IDENTIFIED BY 'password'",
        "IDENTIFIED BY '${PASS}'",
        "a program identified by 'sequence'",
        "pwd: /home/me/work2",
        "password-reset: step-2",
    ] {
        let mut out = text.to_owned();
        Redactor::new().mask_text(&mut out);
        assert_eq!(out, text);
    }
}
