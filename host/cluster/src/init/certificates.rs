//! The authority of a cluster, and the certificates of its servers.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Lifetime of certificates. `mimir cluster init` into a new folder writes new ones.
const LIFETIME_YEARS: i32 = 5;

/// The authority that signs the certificates of servers.
pub(super) struct ClusterAuthority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) certificate: String,
}

/// A certificate and its private key, both in PEM.
pub(super) struct ServerCertificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

fn base_params(
    names: Vec<String>,
    common_name: &str,
    year: i32,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    // The clocks of servers may be behind.
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + LIFETIME_YEARS, 1, 1);
    Ok(params)
}

impl ClusterAuthority {
    /// Creates an authority. Its private key is not stored: new servers need `mimir cluster init` again.
    pub(super) fn new(year: i32) -> Result<Self, rcgen::Error> {
        let mut params = base_params(Vec::new(), "mimir cluster authority", year)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    /// Signs a certificate of a server for these host names and addresses.
    pub(super) fn sign(
        &self,
        names: &[String],
        year: i32,
    ) -> Result<ServerCertificate, rcgen::Error> {
        let common_name = names.first().map_or("nats", String::as_str);
        let mut params = base_params(names.to_vec(), common_name, year)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Servers of a cluster are clients of each other.
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(ServerCertificate {
            certificate,
            key: key.serialize_pem(),
        })
    }
}
