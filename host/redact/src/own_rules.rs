//! mimir's own rules, in addition to gitleaks'.

use super::REACH;
use super::rules::{ALLOW, AllowEntry, AnchorPosition, AnchorPrefix, RULE, SecretRule};

/// The characters that may precede a line of a key.
macro_rules! line_start {
    () => {
        r#"(?:\s|\\[nrt]|["'>|#*+,]|\d{1,7}(?:[:\t|-]|\xe2\x86\x92))*"#
    };
}

/// Returns a rule for tokens with a known prefix, which match at the prefix.
const fn prefixed(
    id: &'static str,
    anchors: &'static [&'static str],
    width: usize,
    regex: &'static str,
) -> SecretRule {
    SecretRule {
        id,
        anchors,
        position: AnchorPosition::Here(AnchorPrefix::Word),
        width,
        regex,
        entropy: 2.8,
        ..RULE
    }
}

/// The text around a password in plain text.
macro_rules! assigned {
    ($name:literal) => {
        concat!(
            "(?i)",
            $name,
            r#"[ \t]{0,3}[:=][ \t]{0,3}(?:"([^"\s]+)"|'([^'\s]+)'|([^\s"'`,;(){}\[\]<>\\]+))(?:[\s"'`,;]|\\[nr]|$)"#
        )
    };
}

/// mimir's own rules.
pub(super) static OWN: &[SecretRule] = &[
    prefixed(
        "docker-access-token",
        &["dckr_pat_", "dckr_oat_"],
        80,
        r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,60}",
    ),
    prefixed(
        "docker-swarm-key",
        &["swmtkn-", "swmkey-"],
        120,
        r"SWMTKN-1-[a-z0-9]{40,60}-[a-z0-9]{20,30}|SWMKEY-1-[A-Za-z0-9+/]{40,50}",
    ),
    prefixed("figma-token", &["figd_"], 60, r"figd_[A-Za-z0-9_-]{36,48}"),
    prefixed("groq-api-key", &["gsk_"], 70, r"gsk_[A-Za-z0-9]{48,60}"),
    prefixed(
        "heroku-user-key",
        &["hrku-"],
        90,
        r"HRKU-[A-Za-z0-9_-]{36,80}",
    ),
    prefixed(
        "llamacloud-api-key",
        &["llx-"],
        70,
        r"llx-[A-Za-z0-9]{40,60}",
    ),
    // Seeds of users, accounts and operators: base32 of two bytes with the kind, 32 random ones, and two of a checksum.
    prefixed(
        "nats-seed",
        &["sua", "saa", "soa"],
        64,
        r"S[UAO]A[A-P][A-Z2-7]{54}",
    ),
    prefixed(
        "openai-project-key",
        &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-none-"],
        440,
        r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{16,200}T3BlbkFJ[A-Za-z0-9_-]{16,200}",
    ),
    prefixed(
        "postman-access-key",
        &["pmat-"],
        40,
        r"PMAT-[A-Za-z0-9]{24,32}",
    ),
    prefixed(
        "supabase-token",
        &["sbp_", "sb_secret_"],
        60,
        r"sbp_(?:v0_)?[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{28,44}",
    ),
    prefixed(
        "together-api-key",
        &["tgp_v1_"],
        70,
        r"tgp_v1_[A-Za-z0-9_-]{40,56}",
    ),
    prefixed(
        "vercel-token",
        &["vcp_", "vci_", "vca_", "vcr_", "vck_"],
        90,
        r"vc[piark]_[A-Za-z0-9]{24,80}",
    ),
    prefixed("xai-api-key", &["xai-"], 100, r"xai-[A-Za-z0-9]{70,90}"),
    prefixed(
        "bitbucket-data-center-token",
        &["bbdc-"],
        70,
        r"BBDC-[A-Za-z0-9+/@_-]{40,50}={0,2}",
    ),
    prefixed("buildkite-user-token", &["bkua_"], 60, r"bkua_[a-z0-9]{40}"),
    prefixed(
        "circleci-token",
        &["ccipat_", "cciprj_"],
        100,
        r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{20,24}_[a-f0-9]{40}",
    ),
    prefixed(
        "cloudflare-token",
        &["cfut_", "cfat_"],
        70,
        r"cf[ua]t_[A-Za-z0-9_-]{40,60}",
    ),
    prefixed(
        "langsmith-api-key",
        &["lsv2_pt_", "lsv2_sk_"],
        70,
        r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}",
    ),
    prefixed(
        "pinecone-api-key",
        &["pcsk_"],
        110,
        r"pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{50,80}",
    ),
    prefixed(
        "ramp-client-secret",
        &["ramp_sec_"],
        90,
        r"ramp_sec_[A-Za-z0-9]{40,70}",
    ),
    prefixed("rootly-api-key", &["rootly_"], 80, r"rootly_[a-f0-9]{64}"),
    prefixed(
        "salesforce-session",
        &["00d"],
        160,
        r"00D[A-Za-z0-9]{12,15}![A-Za-z0-9._]{60,130}",
    ),
    // A private key without its end, as in truncated output or a partly read file: whole lines of base64 after the
    // header, with optional key headers in between. Lines may be quoted, escaped or numbered.
    SecretRule {
        id: "private-key",
        anchors: &["-----begin"],
        width: REACH,
        regex: concat!(
            r#"(?i)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----(?:"#,
            line_start!(),
            r#"(?:[a-z-]{1,20}: [^\n\\]{0,100}(?:\n|\\n)"#,
            line_start!(),
            r#"){0,4}[a-z0-9+/]{40,}={0,2})+(?:"#,
            line_start!(),
            r#"[a-z0-9+/]+={0,2})?"#
        ),
        ..RULE
    },
    // A private key without its beginning, as in a diff or the last lines of a file.
    SecretRule {
        id: "private-key",
        anchors: &["-----end"],
        position: AnchorPosition::Around {
            before: REACH,
            after: 120,
        },
        regex: concat!(
            r#"(?i)(?:[a-z0-9+/]{40,}={0,2}"#,
            line_start!(),
            r#")+(?:[a-z0-9+/]+={0,2}"#,
            line_start!(),
            r#")?-----END[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"#
        ),
        ..RULE
    },
    // The password of a command's proxy, and its base64 form after the user name. The rules for URLs and headers would
    // exclude some random passwords as ordinary text; these two rules have no exceptions.
    SecretRule {
        id: PROXY_PASSWORD,
        anchors: &["mimir_proxy_"],
        width: 44,
        regex: r"mimir_proxy_[0-9a-f]{32}",
        ..RULE
    },
    SecretRule {
        id: PROXY_PASSWORD,
        // `mimir:mimir_proxy_` in base64: 18 bytes are 24 whole digits.
        anchors: &["bwltaxi6bwltaxjfchjvehlf"],
        width: 68,
        regex: r"bWltaXI6bWltaXJfcHJveHlf[A-Za-z0-9]{43}=?",
        ..RULE
    },
    // A password in a URL.
    SecretRule {
        id: "url-password",
        anchors: &["://", r":\/\/"],
        width: 400,
        regex: r#"://[\w.~%!$&'()*+,;=-]{0,128}:([^\s/?#@"'<>`\[\]{}|\\^]{4,200})@[\w\[]"#,
        allow: &[AllowEntry {
            regex: r"(?i)^(?:\$.*|%[a-z_]+%|\*+|x+|\.+|pass(?:word|wd)?|pwd|secret|token|example)$",
            ..ALLOW
        }],
        ..RULE
    },
    // A password of a database user in SQL.
    SecretRule {
        id: "sql-password",
        anchors: &["identified"],
        position: AnchorPosition::Here(AnchorPrefix::Word),
        width: 300,
        regex: r#"(?i)identified(?:\s{1,8}(?:with|via)\s{1,8}['"`\w]{1,40})?\s{1,8}by\s{1,8}(?:password\s{1,8})?(?:'([^'\n]+)'|"([^"\n]+)")"#,
        ..RULE
    },
    // A password in plain text, YAML or a settings file. `false_positives` filters the false positives.
    SecretRule {
        id: PASSWORD,
        anchors: &["password", "passwd", "passphrase", "pwd"],
        position: AnchorPosition::Here(AnchorPrefix::Identifier),
        width: 160,
        regex: assigned!("(?:password|passwd|passphrase|pwd)"),
        ..RULE
    },
    SecretRule {
        id: PASSWORD,
        anchors: &["pw:", "pw=", "pw ="],
        position: AnchorPosition::Here(AnchorPrefix::Word),
        width: 160,
        regex: assigned!("pw"),
        ..RULE
    },
];

/// The rule for the proxy passwords of commands.
const PROXY_PASSWORD: &str = "mimir-proxy-password";

/// The rule for passwords in plain text, the broadest of all.
pub(super) const PASSWORD: &str = "password-assignment";
