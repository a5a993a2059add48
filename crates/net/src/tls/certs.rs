//! The certificate of this process, its key, and the authority of its system, as a directory has them.

use super::identity::{ENGINE_NAME, Identity, Role};
use crate::error::{CertFault, Error, Lack, Result, Whose};
use core::time::Duration;
use dolmen_env::{Clock, RealClock};
use rustls::client::Resumption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The certificate of this process, and what it takes to speak with others of its system. A cheap handle.
#[derive(Clone)]
pub struct Certs {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    identity: Identity,
    validity: Validity,
    sum: u32,
    files: Arc<Files>,
    /// What is on the authority's list, or was since this process began.
    revoked: BTreeSet<Vec<u8>>,
    told: Told,
    client: Arc<ClientConfig>,
    /// None of a certificate that is no engine's.
    server: Option<Arc<ServerConfig>>,
}

/// Guards what was said last of files that cannot be taken into use; of all copies. Taken alone.
type Told = Arc<Mutex<Option<String>>>;

/// From when until when a certificate is of use, in seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// From then on.
    pub from: i64,
    /// Not after that.
    pub until: i64,
}

impl Certs {
    /// The authority's certificate in a directory.
    pub const AUTHORITY: &str = "ca.crt";
    /// The own certificate there.
    pub const OWN: &str = "own.crt";
    /// The key of that.
    pub const KEY: &str = "own.key";
    /// Beside them at an engine: the authority's list of certificates that are of no use any more, if there are any.
    pub const REVOKED: &str = "revoked.pem";

    /// Reads what `dir` has: `ca.crt`, `own.crt` and `own.key`, all PEM. If it has none of its own, but a directory that
    /// `dolmen system certs` has made for engines (`engine`), or for administrators (`admin`), that is meant: whose it is to
    /// be is said by `role`, that of an engine or another.
    ///
    /// # Errors
    /// `NoCertificate` if a file is missing; `BadCertificate` if one cannot be read, can be read by others, or is for something
    /// else.
    pub fn load(dir: &Path, role: Role) -> Result<Self> {
        let below = dir.join(if role == Role::Engine { Role::Engine } else { Role::Admin }.name());
        let dir = if !dir.join(Self::OWN).exists() && below.join(Self::OWN).exists() { &below } else { dir };
        let files = Arc::new(Files::read(dir)?);
        let revoked = revoked_by(dir, &files.authorities)?.into_iter().map(|(serial, _)| serial).collect();
        let certs = Self::of(dir, files, revoked, Arc::default())?;
        if (certs.identity().role == Role::Engine) != (role == Role::Engine) {
            return Err(Error::BadCertificate { whose: Whose::Own, fault: CertFault::Role });
        }
        Ok(certs)
    }

    /// Those of files that `dir` has, or had.
    fn of(dir: &Path, files: Arc<Files>, revoked: BTreeSet<Vec<u8>>, told: Told) -> Result<Self> {
        let wrong = |file: &str| file_fault(&dir.join(file));
        let (identity, validity) = looked_at(&files.own[0]).ok_or_else(|| wrong(Self::OWN))?;
        let mut roots = RootCertStore::empty();
        for authority in &files.authorities {
            roots.add(authority.clone()).map_err(|_no_authority| wrong(Self::AUTHORITY))?;
        }
        let sum = dolmen_types::crc32c(&files.own[0]);
        let (own, key) = (files.own.clone(), files.key.clone_key());
        let parts = Parts { roots: Arc::new(roots), own, key, revoked: revoked.clone() };
        let is_engine = identity.role == Role::Engine;
        let server =
            if is_engine { Some(parts.server().map_err(|_no_pair| wrong(Self::KEY))?) } else { None };
        let client = parts.client().map_err(|_no_pair| wrong(Self::KEY))?;
        let dir = dir.to_owned();
        let inner = Inner { dir, identity, validity, sum, files, revoked, told, client, server };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whom the own certificate names.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// How long the own certificate is of use.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.inner.validity
    }

    /// The same as they are in their directory now, where they may have been renewed; as they were, if they cannot be read. Nothing
    /// that was revoked is of use again, whatever has become of the list.
    pub(crate) fn renewed(&self) -> Self {
        self.looked_after().0
    }

    /// The same, and what keeps them or the list from being taken into use as they are there, once for all copies.
    pub(crate) fn renewed_and_told(&self) -> (Self, Option<String>) {
        let (certs, lack) = self.looked_after();
        let mut told = self.inner.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *told != lack;
        told.clone_from(&lack);
        (certs, lack.filter(|_| is_new))
    }

    /// The list is taken into use whenever it can be read, whatever is wrong with the other files, and these whatever is wrong with
    /// the list. What was revoked before stays so.
    fn looked_after(&self) -> (Self, Option<String>) {
        let Inner { dir, files, revoked, told, .. } = &*self.inner;
        let (found, mut lack) = match Files::read(dir) {
            Ok(found) => (Arc::new(found), None),
            Err(error) => (Arc::clone(files), Some(error.to_string())),
        };
        let mut all = revoked.clone();
        // While the authority changes, the list may be the former one's.
        let authorities: Vec<_> = found.authorities.iter().chain(&files.authorities).cloned().collect();
        let listed = match revoked_by(dir, &authorities) {
            Ok(listed) => {
                let listed: BTreeSet<Vec<u8>> = listed.into_iter().map(|(serial, _)| serial).collect();
                let lacks = revoked.difference(&listed).count();
                all.extend(listed);
                let path = dir.join(Self::REVOKED);
                (lacks > 0).then(|| format!("{} lacks {lacks} that were on it", path.display()))
            }
            Err(error) => Some(error.to_string()),
        };
        let made = Self::of(dir, found, all.clone(), Arc::clone(told)).or_else(|error| {
            lack = lack.take().or(Some(error.to_string()));
            Self::of(dir, Arc::clone(files), all, Arc::clone(told))
        });
        let certs = made.unwrap_or_else(|_never| self.clone());
        let lacks: Vec<String> = lack.into_iter().chain(listed).collect();
        (certs, (!lacks.is_empty()).then(|| lacks.join("; ")))
    }

    /// Tells these from others of this process.
    pub(crate) fn tag(&self) -> String {
        format!("{:08x} {}", self.inner.sum, self.inner.dir.display())
    }

    /// The client's side of a connection.
    pub(super) fn client(&self) -> Result<rustls::Connection> {
        let name = ServerName::try_from(ENGINE_NAME).expect("it is a name of the domain system");
        let made = ClientConnection::new(Arc::clone(&self.inner.client), name);
        made.map(rustls::Connection::Client).map_err(|_none| own_fault(CertFault::Refused))
    }

    /// The engine's side of a connection.
    pub(super) fn server(&self) -> Result<rustls::Connection> {
        let config = self.inner.server.as_ref().ok_or_else(|| own_fault(CertFault::Role))?;
        let made = ServerConnection::new(Arc::clone(config));
        made.map(rustls::Connection::Server).map_err(|_none| own_fault(CertFault::Refused))
    }
}

impl core::fmt::Debug for Certs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Certs").field("identity", self.identity()).finish_non_exhaustive()
    }
}

/// Whom a certificate names, and for how long, of its file.
///
/// # Errors
/// `NoCertificate` if there is no such file; `BadCertificate` if it cannot be read as one. The authority's names nobody.
pub fn validity_of(dir: &Path, file: &'static str) -> Result<(Option<Identity>, Validity)> {
    let text = text_of(dir, file)?;
    let der = CertificateDer::from_pem_slice(&text).map_err(|_no_pem| file_fault(&dir.join(file)))?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&der).map_err(|_none| file_fault(&dir.join(file)))?;
    Ok((Identity::of_name(parsed.subject()), validity(&parsed)))
}

/// What tells a certificate from all others of its authority.
///
/// # Errors
/// As [`validity_of`].
pub fn serial_of(dir: &Path, file: &'static str) -> Result<Vec<u8>> {
    let text = text_of(dir, file)?;
    let wrong = || file_fault(&dir.join(file));
    let der = CertificateDer::from_pem_slice(&text).map_err(|_no_pem| wrong())?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).map_err(|_none| wrong())?;
    Ok(parsed.raw_serial().to_vec())
}

/// The certificates that are on the authority's list in a directory, by what tells them apart, each with the second since 1970
/// of its entry; none if there is no list.
///
/// # Errors
/// `BadCertificate` if it cannot be read as one, or is another authority's.
pub fn revoked_in(dir: &Path) -> Result<Vec<(Vec<u8>, i64)>> {
    if matches!(text_of(dir, Certs::REVOKED), Err(Error::NoCertificate(_))) {
        return Ok(Vec::new());
    }
    let text = text_of(dir, Certs::AUTHORITY)?;
    let authorities: core::result::Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(&text).collect();
    revoked_by(dir, &authorities.map_err(|_no_pem| file_fault(&dir.join(Certs::AUTHORITY)))?)
}

/// The same, of one of these authorities.
fn revoked_by(dir: &Path, authorities: &[CertificateDer<'_>]) -> Result<Vec<(Vec<u8>, i64)>> {
    let lists = match lists_of(dir) {
        Err(Error::NoCertificate(_)) => return Ok(Vec::new()),
        read => read?,
    };
    let wrong = || file_fault(&dir.join(Certs::REVOKED));
    let mut all = Vec::new();
    for der in lists {
        let (_, list) = x509_parser::parse_x509_crl(&der).map_err(|_no_list| wrong())?;
        let has_signed = |authority: &CertificateDer<'_>| {
            x509_parser::parse_x509_certificate(authority)
                .is_ok_and(|(_, parsed)| list.verify_signature(parsed.public_key()).is_ok())
        };
        if !authorities.iter().any(has_signed) {
            return Err(wrong());
        }
        let entry = |one: &x509_parser::revocation_list::RevokedCertificate<'_>| {
            (one.raw_serial().to_vec(), one.revocation_date.timestamp())
        };
        all.extend(list.iter_revoked_certificates().map(entry));
    }
    Ok(all)
}

/// The lists of certificates that are of no use any more in a directory.
fn lists_of(dir: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>> {
    let wrong = || file_fault(&dir.join(Certs::REVOKED));
    let text = text_of(dir, Certs::REVOKED)?;
    let lists: Vec<CertificateRevocationListDer<'static>> =
        CertificateRevocationListDer::pem_slice_iter(&text)
            .collect::<core::result::Result<_, _>>()
            .map_err(|_no_pem| wrong())?;
    // One that is empty, or ends in the middle, revokes nobody, and is not meant so.
    if lists.is_empty() { Err(wrong()) } else { Ok(lists) }
}

/// Whom a certificate names, and for how long.
pub(super) fn looked_at(der: &[u8]) -> Option<(Identity, Validity)> {
    let (_, parsed) = x509_parser::parse_x509_certificate(der).ok()?;
    Some((Identity::of_name(parsed.subject())?, validity(&parsed)))
}

fn validity(parsed: &x509_parser::certificate::X509Certificate<'_>) -> Validity {
    let validity = parsed.validity();
    Validity { from: validity.not_before.timestamp(), until: validity.not_after.timestamp() }
}

fn own_fault(fault: CertFault) -> Error {
    Error::BadCertificate { whose: Whose::Own, fault }
}

fn file_fault(path: &Path) -> Error {
    own_fault(CertFault::File { path: path.to_owned() })
}

fn text_of(dir: &Path, file: &'static str) -> Result<Vec<u8>> {
    dolmen_env::read_small(dir, file).map_err(|error| match error {
        error if error.is_not_found() => Error::NoCertificate(Lack::Directory { path: dir.to_owned(), file }),
        other => other.into(),
    })
}

/// What a directory has beside the list.
struct Files {
    authorities: Vec<CertificateDer<'static>>,
    /// One at least.
    own: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Files {
    fn read(dir: &Path) -> Result<Self> {
        let wrong = |file: &str| file_fault(&dir.join(file));
        let chain = |file| {
            let text = text_of(dir, file)?;
            let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text)
                .collect::<core::result::Result<_, _>>()
                .map_err(|_no_pem| wrong(file))?;
            if chain.is_empty() { Err(wrong(file)) } else { Ok(chain) }
        };
        let (authorities, own) = (chain(Certs::AUTHORITY)?, chain(Certs::OWN)?);
        let path = dir.join(Certs::KEY);
        if dolmen_env::is_open_to_others(&path).is_ok_and(|is_open| is_open) {
            return Err(Error::BadCertificate { whose: Whose::Own, fault: CertFault::Open { path } });
        }
        let key =
            PrivateKeyDer::from_pem_slice(&text_of(dir, Certs::KEY)?).map_err(|_no_pem| wrong(Certs::KEY))?;
        Ok(Self { authorities, own, key })
    }
}

/// What a configuration is made of.
struct Parts {
    roots: Arc<RootCertStore>,
    own: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    revoked: BTreeSet<Vec<u8>>,
}

impl Parts {
    fn client(self) -> core::result::Result<Arc<ClientConfig>, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_details(provider, Arc::new(Time))
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let mut config =
            builder.with_root_certificates(self.roots).with_client_auth_cert(self.own, self.key)?;
        // Whoever comes again shows his certificate again: it may have expired.
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    fn server(&self) -> core::result::Result<Arc<ServerConfig>, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), Arc::clone(&provider))
                .build()
                .map_err(|_no_roots| rustls::Error::NoCertificatesPresented)?;
        let verifier = Arc::new(Unrevoked { verifier, revoked: self.revoked.clone() });
        let mut config = ServerConfig::builder_with_details(provider, Arc::new(Time))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.own.clone(), self.key.clone_key())?;
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// Lets in whom the authority has made a certificate, unless it is on its list. That is looked at here and not by `rustls`, which
/// goes by the authority's name: while a system goes over to another authority there are two of one name, and one may have no list.
#[derive(Debug)]
struct Unrevoked {
    verifier: Arc<dyn ClientCertVerifier>,
    revoked: BTreeSet<Vec<u8>>,
}

impl ClientCertVerifier for Unrevoked {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> core::result::Result<ClientCertVerified, rustls::Error> {
        let verified = self.verifier.verify_client_cert(own, chain, now)?;
        let parsed = x509_parser::parse_x509_certificate(own);
        let (_, parsed) =
            parsed.map_err(|_none| rustls::Error::InvalidCertificate(CertificateError::BadEncoding))?;
        match self.revoked.contains(parsed.raw_serial()) {
            true => Err(rustls::Error::InvalidCertificate(CertificateError::Revoked)),
            false => Ok(verified),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> core::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> core::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// The clock of the machine, for who looks whether a certificate has expired.
#[derive(Debug)]
struct Time;

impl rustls::time_provider::TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_nanos(RealClock.now_ns())))
    }
}
