//! The HTTP client of requests.

use crate::date;
use crate::error::{Error, Result};
use crate::list;
use crate::options::{Options, Settings};
use async_trait::async_trait;
use core::error::Error as StdError;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_env::{Clock, RealClock};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(60);

/// The header with the time of an answer.
const DATE: &str = "date";

/// The header with the range of an answer.
const CONTENT_RANGE: &str = "content-range";

/// Whether an answer to a request was lost that was repeated then, so that it may have been carried out all the same.
#[derive(Clone, Default, Debug)]
pub(crate) struct Lost(Arc<AtomicBool>);

impl Lost {
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether an answer tells that its request was carried out, or never will be. Who fails, or stands between here and the store and waits in vain for
/// it, does not know.
fn is_definite<E>(answer: &core::result::Result<HttpResponse, E>) -> bool {
    let status = answer.as_ref().map(HttpResponse::status);
    status.is_ok_and(|status| !status.is_server_error() && status != reqwest::StatusCode::REQUEST_TIMEOUT)
}

/// The client of one endpoint.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// Whether the endpoint has ever answered.
    has_answered: AtomicBool,
    // Guards the date of the last answer that had one, and when it came by the machine's clock that only goes on; taken alone.
    told: Mutex<Option<(u64, u64)>>,
}

impl Client {
    pub(crate) fn new(settings: &Settings, options: &Options) -> Result<Arc<Self>> {
        let is_plain = settings.endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
        let roots = if is_plain { RootCertStore::empty() } else { roots(settings.authorities.as_deref())? };
        let start = |source: Box<dyn StdError + Send + Sync>| Error::Start { source };
        let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| start(Box::new(error)))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .https_only(!is_plain)
            .http1_only()
            .no_proxy()
            // Objects are where the endpoint says, or it is the wrong one: keys are signed for one host.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(options.connect)
            .read_timeout(options.patience)
            .pool_max_idle_per_host(options.requests_max)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .user_agent(concat!("dolmen/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| start(Box::new(error)))?;
        Ok(Arc::new(Self { http, has_answered: AtomicBool::new(false), told: Mutex::default() }))
    }

    /// The time by the endpoint's clock.
    pub(crate) fn now_ns(&self) -> Option<u64> {
        let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.map(|(date_ns, since_ns)| {
            date_ns.saturating_add(RealClock.monotonic_ns().saturating_sub(since_ns))
        })
    }

    /// Notes what time it is there. What stands between here and the store answers for itself as well, but not that something is there, or the same,
    /// or another.
    fn hear(&self, answer: &HttpResponse) {
        let status = answer.status();
        if !(status.is_success() || matches!(status.as_u16(), 304 | 412)) {
            return;
        }
        let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok()).and_then(date::unix_ns);
        if let Some(date_ns) = date {
            let told = Some((date_ns, RealClock.monotonic_ns()));
            *self.told.lock().unwrap_or_else(PoisonError::into_inner) = told;
        }
    }
}

fn roots(authorities: Option<&Path>) -> Result<RootCertStore> {
    let wrong = |source: Box<dyn StdError + Send + Sync>| Error::Certificates { source };
    let mut roots = RootCertStore::empty();
    if let Some(path) = authorities {
        let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(Box::new(error)))?;
        for certificate in read {
            let certificate = certificate.map_err(|error| wrong(Box::new(error)))?;
            roots.add(certificate).map_err(|error| wrong(Box::new(error)))?;
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    // Some of a system's are of a form that nobody can use: they are left out, as all programs do.
    roots.add_parsable_certificates(found.certs);
    if let (true, Some(error)) = (roots.is_empty(), found.errors.into_iter().next()) {
        return Err(wrong(Box::new(error)));
    }
    Ok(roots)
}

/// What a bucket makes its requests with.
#[derive(Clone, Debug)]
pub(crate) struct Connector(pub(crate) Arc<Client>);

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> core::result::Result<HttpResponse, HttpError> {
        let client = &*self.0;
        let is_list = request.extensions().get::<list::Asked>().is_some();
        let lost = request.extensions().get::<Lost>().cloned();
        let answer = HttpService::call(&client.http, request).await;
        if let (Some(lost), false) = (lost, is_definite(&answer)) {
            lost.0.store(true, Ordering::Relaxed);
        }
        match answer {
            Ok(mut answer) => {
                client.has_answered.store(true, Ordering::Relaxed);
                client.hear(&answer);
                if is_range_overflow(&answer) {
                    answer.headers_mut().remove(CONTENT_RANGE);
                }
                if is_list && answer.status().is_success() {
                    return list::numbered(answer).await;
                }
                Ok(answer)
            }
            Err(error) => {
                let kind = repeated_as(error.kind(), client.has_answered.load(Ordering::Relaxed));
                Err(HttpError::new(kind, error))
            }
        }
    }
}

/// Whether the range of an answer has a last byte that no object has, for which the library would count on.
fn is_range_overflow(answer: &HttpResponse) -> bool {
    const LAST: &str = "-18446744073709551615/";
    let range = answer.headers().get(CONTENT_RANGE);
    range.is_some_and(|range| range.to_str().is_ok_and(|range| range.contains(LAST)))
}

/// What a failure is taken for by what repeats requests.
///
/// An endpoint that never answered is the wrong one rather than one that is just starting: it is asked once. All requests can be
/// repeated when a connection breaks; that a conditional one may have happened then is known to who asks for it.
fn repeated_as(kind: HttpErrorKind, has_answered: bool) -> HttpErrorKind {
    match kind {
        HttpErrorKind::Connect | HttpErrorKind::Timeout if !has_answered => HttpErrorKind::Unknown,
        HttpErrorKind::Timeout | HttpErrorKind::Interrupted => HttpErrorKind::Request,
        other => other,
    }
}
