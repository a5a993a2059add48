//! Certificates of a system: one authority, and who it names. Decision 0018 says what is in them.
//!
//! Invariants: nothing here knows a file; what an authority has issued is verified by its certificate alone.

use crate::error::{Error, Result};
use core::time::Duration;
use dolmen_net::tls::{ENGINE_NAME, Identity, Role, USER_ID_OID, Validity};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber, date_time_ymd,
};

/// What the authority of every system is called: which one it is, its key says.
const AUTHORITY_NAME: &str = "dolmen system authority";

/// The end of the year 9999, beyond which a certificate can name no time.
const LATEST: u64 = 253_402_300_799;

/// Who issues the certificates of a system.
pub struct Authority {
    key: KeyPair,
}

/// A certificate and its key, both PEM.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its key, which nobody but its holder may read.
    pub key: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// `NoAuthority` if the machine gives no randomness.
    pub fn generate() -> Result<Self> {
        Ok(Self { key: KeyPair::generate().map_err(|_no_entropy| Error::NoAuthority)? })
    }

    /// The one whose key this is, in PEM.
    ///
    /// # Errors
    /// `NoAuthority` if it is none.
    pub fn of_key(pem: &str) -> Result<Self> {
        Ok(Self { key: KeyPair::from_pem(pem).map_err(|_no_key| Error::NoAuthority)? })
    }

    /// Its key, in PEM: whoever has it is everybody.
    #[must_use]
    pub fn key(&self) -> String {
        self.key.serialize_pem()
    }

    /// Its certificate, in PEM, which all who trust it need.
    ///
    /// # Errors
    /// `NoAuthority` if the key does not sign.
    pub fn certificate(&self, validity: Validity) -> Result<String> {
        let made = params(validity).self_signed(&self.key);
        Ok(made.map_err(|_no_signature| Error::NoAuthority)?.pem())
    }

    /// A new key, and a certificate that names whom it is for.
    ///
    /// # Errors
    /// `Unnamed` if a certificate cannot name him; `NoAuthority`.
    ///
    /// # Panics
    /// Never: what engines are called is a name.
    pub fn issue(&self, whom: &Identity, validity: Validity) -> Result<Issued> {
        let subject = whom.subject().ok_or_else(|| Error::Unnamed { name: whom.name.clone() })?;
        let mut params = lasting(CertificateParams::default(), validity);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject.common_name);
        params.distinguished_name.push(DnType::OrganizationalUnitName, subject.unit);
        if !subject.organization.is_empty() {
            params.distinguished_name.push(DnType::OrganizationName, subject.organization);
        }
        params.distinguished_name.push(DnType::from_oid(&USER_ID_OID), subject.user_id);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if whom.role == Role::Engine {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
            let name = ENGINE_NAME.try_into().expect("it is a name of the domain system");
            params.subject_alt_names = vec![SanType::DnsName(name)];
        }
        let key = KeyPair::generate().map_err(|_no_entropy| Error::NoAuthority)?;
        // What is signed names the authority by name and key alone: its times are of no matter here.
        let issuer = self::params(validity);
        let issuer = Issuer::from_params(&issuer, &self.key);
        let made = params.signed_by(&key, &issuer).map_err(|_no_signature| Error::NoAuthority)?;
        Ok(Issued { certificate: made.pem(), key: key.serialize_pem() })
    }
}

impl Authority {
    /// The list of certificates of this authority that are of no use any more, in PEM; each has what tells it apart, and the
    /// second since 1970 in which it was put there. Whatever was on the list before is on it still.
    ///
    /// # Errors
    /// `NoAuthority` if the key does not sign.
    pub fn revoke(&self, revoked: &[(Vec<u8>, i64)], now: i64) -> Result<String> {
        let entry = |(serial, at): &(Vec<u8>, i64)| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: date_time_ymd(1970, 1, 1) + after_1970(*at),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(1970, 1, 1) + after_1970(now),
            // Engines have the last list that they were given, however old it is.
            next_update: date_time_ymd(9999, 1, 1),
            crl_number: SerialNumber::from(revoked.len() as u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let issuer = params(Validity { from: now, until: now });
        let made = list.signed_by(&Issuer::from_params(&issuer, &self.key));
        let made = made.map_err(|_no_signature| Error::NoAuthority)?;
        made.pem().map_err(|_no_text| Error::NoAuthority)
    }
}

/// The authority's own certificate.
fn params(validity: Validity) -> CertificateParams {
    let mut params = lasting(CertificateParams::default(), validity);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// The same, for so long.
fn lasting(mut params: CertificateParams, validity: Validity) -> CertificateParams {
    params.not_before = date_time_ymd(1970, 1, 1) + after_1970(validity.from);
    params.not_after = date_time_ymd(1970, 1, 1) + after_1970(validity.until);
    params
}

fn after_1970(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(LATEST))
}
