//! Encryption of private keys as cosign and go-securesystemslib do it: a JSON document with the parameters of scrypt, and
//! the ciphertext of NaCl's secretbox.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use crypto_secretbox::{Key, Nonce, XSalsa20Poly1305};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

use super::SignatureError;

/// Binary logarithm of the cost that new keys get: 64 MiB of memory, as cosign uses.
const LOG_COST: u8 = 16;
/// Block size and parallelism of new keys.
const BLOCK_SIZE: u32 = 8;
const PARALLELISM: u32 = 1;
/// Maximum memory, in bytes, that a key from a file may require; `parallelism` multiplies the time.
const MAX_MEMORY: u64 = 256 << 20;
const MAX_PARALLELISM: u32 = 8;
const SALT: usize = 32;
const NONCE: usize = 24;
const KEY: usize = 32;

#[derive(Serialize, Deserialize)]
struct EncryptedKeyFile {
    kdf: KeyDerivation,
    cipher: KeyCipher,
    ciphertext: String,
}

#[derive(Serialize, Deserialize)]
struct KeyDerivation {
    name: String,
    params: ScryptParameters,
    salt: String,
}

#[derive(Serialize, Deserialize)]
struct ScryptParameters {
    #[serde(rename = "N")]
    cost: u64,
    r: u32,
    p: u32,
}

#[derive(Serialize, Deserialize)]
struct KeyCipher {
    name: String,
    nonce: String,
}

/// Encrypts a PKCS #8 document.
pub(super) fn encrypt(pkcs8: &[u8], password: &[u8]) -> Result<Vec<u8>, SignatureError> {
    let mut salt = [0; SALT];
    let mut nonce = [0; NONCE];
    let random = SystemRandom::new();
    random
        .fill(&mut salt)
        .and_then(|()| random.fill(&mut nonce))
        .map_err(|_| {
            SignatureError::Key("the operating system returned no random numbers".to_owned())
        })?;
    let params = ScryptParameters {
        cost: 1 << LOG_COST,
        r: BLOCK_SIZE,
        p: PARALLELISM,
    };
    let cipher = cipher(password, &salt, &params)?;
    let ciphertext = cipher
        .encrypt(&Nonce::from(nonce), pkcs8)
        .map_err(|_| SignatureError::Key("the private key cannot be encrypted".to_owned()))?;
    let file = EncryptedKeyFile {
        kdf: KeyDerivation {
            name: "scrypt".to_owned(),
            params,
            salt: STANDARD.encode(salt),
        },
        cipher: KeyCipher {
            name: "nacl/secretbox".to_owned(),
            nonce: STANDARD.encode(nonce),
        },
        ciphertext: STANDARD.encode(ciphertext),
    };
    serde_json::to_vec(&file).map_err(|error| SignatureError::Key(error.to_string()))
}

/// Decrypts a document that [`encrypt`] or cosign has written, and returns the PKCS #8 document.
pub(super) fn decrypt(content: &[u8], password: &[u8]) -> Result<Vec<u8>, SignatureError> {
    let malformed = |why: &str| SignatureError::malformed("encrypted private key", why);
    let file: EncryptedKeyFile =
        serde_json::from_slice(content).map_err(|error| malformed(&error.to_string()))?;
    if file.kdf.name != "scrypt" {
        return Err(malformed("only the key derivation `scrypt` is supported"));
    }
    if file.cipher.name != "nacl/secretbox" {
        return Err(malformed("only the cipher `nacl/secretbox` is supported"));
    }
    let decode = |text: &str| {
        let decoded = STANDARD.decode(text);
        decoded.map_err(|_| malformed("its Base64 is not valid"))
    };
    let nonce: [u8; NONCE] = decode(&file.cipher.nonce)?
        .try_into()
        .map_err(|_| malformed("its nonce has the wrong length"))?;
    let cipher = cipher(password, &decode(&file.kdf.salt)?, &file.kdf.params)?;
    let ciphertext = decode(&file.ciphertext)?;
    let decrypted = cipher.decrypt(&Nonce::from(nonce), ciphertext.as_slice());
    decrypted.map_err(|_| SignatureError::WrongPassword)
}

fn cipher(
    password: &[u8],
    salt: &[u8],
    params: &ScryptParameters,
) -> Result<XSalsa20Poly1305, SignatureError> {
    let malformed = || {
        SignatureError::malformed(
            "encrypted private key",
            "the parameters of scrypt are out of range",
        )
    };
    let memory = params.cost.checked_mul(128 * u64::from(params.r));
    let is_bounded = memory.is_some_and(|memory| memory <= MAX_MEMORY)
        && (1..=MAX_PARALLELISM).contains(&params.p)
        && params.r > 0
        && params.cost > 1
        && params.cost.is_power_of_two();
    if !is_bounded {
        return Err(malformed());
    }
    // Below 64, since the cost is a power of two of 64 bits.
    let log_cost = params.cost.trailing_zeros() as u8;
    let params = scrypt::Params::new(log_cost, params.r, params.p, KEY).map_err(|_| malformed())?;
    let mut key = [0; KEY];
    scrypt::scrypt(password, salt, &params, &mut key).map_err(|_| malformed())?;
    Ok(XSalsa20Poly1305::new(&Key::from(key)))
}
