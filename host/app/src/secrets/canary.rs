//! Values of canary secrets: random, and in the format of a service, so that they look worth stealing.

use mimir_core::ToolError;

/// The format of a canary's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CanaryShape {
    /// A random token without the format of a service.
    #[default]
    Token,
    /// A personal access token of GitHub, with a valid checksum.
    Github,
    /// An access key id of AWS.
    Aws,
    /// A project key of OpenAI.
    Openai,
    /// A key of Anthropic.
    Anthropic,
    /// A bot token of Slack.
    Slack,
}

const DIGITS: &[u8] = b"0123456789";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// The order is that of the digits of GitHub's checksum.
const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BASE64_URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl CanaryShape {
    /// Every shape.
    pub const ALL: [CanaryShape; 6] = [
        CanaryShape::Token,
        CanaryShape::Github,
        CanaryShape::Aws,
        CanaryShape::Openai,
        CanaryShape::Anthropic,
        CanaryShape::Slack,
    ];

    /// Returns the name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            CanaryShape::Token => "token",
            CanaryShape::Github => "github",
            CanaryShape::Aws => "aws",
            CanaryShape::Openai => "openai",
            CanaryShape::Anthropic => "anthropic",
            CanaryShape::Slack => "slack",
        }
    }

    /// Creates a random value. It opens nothing: no service has issued it.
    ///
    /// # Errors
    ///
    /// Fails if the system has no random numbers.
    pub fn generate(self) -> Result<String, ToolError> {
        Ok(match self {
            CanaryShape::Token => random(BASE62, 40)?,
            CanaryShape::Github => {
                let token = random(BASE62, 30)?;
                format!("ghp_{token}{}", github_checksum(&token))
            }
            CanaryShape::Aws => format!("AKIA{}", random(BASE32, 16)?),
            CanaryShape::Openai => {
                let (first, second) = (random(BASE64_URL, 74)?, random(BASE64_URL, 74)?);
                format!("sk-proj-{first}T3BlbkFJ{second}")
            }
            CanaryShape::Anthropic => format!("sk-ant-api03-{}AA", random(BASE64_URL, 93)?),
            CanaryShape::Slack => format!(
                "xoxb-{}-{}-{}",
                random(DIGITS, 12)?,
                random(DIGITS, 12)?,
                random(BASE62, 24)?
            ),
        })
    }
}

/// Returns random characters of an alphabet, each equally likely.
fn random(alphabet: &[u8], length: usize) -> Result<String, ToolError> {
    let limit = 256 - 256 % alphabet.len();
    let mut text = String::with_capacity(length);
    let mut bytes = [0_u8; 64];
    while text.len() < length {
        getrandom::fill(&mut bytes).map_err(|error| {
            ToolError::unavailable(format!("the system has no random numbers: {error}"))
        })?;
        let usable = bytes.iter().map(|byte| usize::from(*byte));
        let usable = usable.filter(|byte| *byte < limit);
        let letters = usable.map(|byte| char::from(alphabet[byte % alphabet.len()]));
        text.extend(letters.take(length - text.len()));
    }
    Ok(text)
}

/// Returns the last six characters of a token of GitHub: the CRC-32 of the others in base 62.
fn github_checksum(token: &str) -> String {
    let mut crc = flate2::Crc::new();
    crc.update(token.as_bytes());
    let mut rest = crc.sum() as usize;
    let mut digits = [0_u8; 6];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[rest % BASE62.len()];
        rest /= BASE62.len();
    }
    digits.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use mimir_core::redact::Redactor;

    use super::super::tests::secrets;
    use super::*;

    #[test]
    fn canary_values_are_random_and_look_like_secrets_of_their_service() {
        for shape in CanaryShape::ALL {
            let value = shape.generate().unwrap();
            assert_ne!(value, shape.generate().unwrap(), "{shape:?}");
            let found = Redactor::new().find(format!("api_key = \"{value}\"").as_bytes());
            assert!(!found.is_empty(), "{shape:?}: {value}");
        }
    }

    #[test]
    fn canary_never_replaces_a_secret_and_a_secret_that_replaces_it_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = secrets(folder.path());
        secrets.set("REAL", "real-value-1", false).unwrap();
        let error = secrets.add_canary("REAL", "fake-value-1").unwrap_err();
        assert!(error.message.contains("exists already"), "{error}");
        assert_eq!(secrets.value("REAL").unwrap().unwrap(), "real-value-1");
        secrets.add_canary("FAKE", "fake-value-1").unwrap();
        assert!(secrets.canaries().unwrap().contains("FAKE"));
        secrets.set("FAKE", "real-value-2", false).unwrap();
        assert!(secrets.canaries().unwrap().is_empty());
        secrets.add_canary("OTHER", "fake-value-2").unwrap();
        assert!(secrets.remove("OTHER").unwrap());
        assert!(secrets.canaries().unwrap().is_empty());
    }
}
