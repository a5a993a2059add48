//! An endpoint of https, before the server of the other tests, whose certificate an authority of our own has signed.

use crate::weed::{OWNER, Weed, listener, weed};
use dolmen_remote::{Error, Options, Remote, RemoteFile};
use dolmen_rntuple::bucket::{Bucket, Failure, Got, Put, Replaced};
use dolmen_types::IoBuf;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

/// Who signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let file = std::env::temp_dir().join(format!("dolmen-{}-{name}.pem", std::process::id()));
        std::fs::write(&file, certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), file }
    }

    /// What an endpoint of that name has.
    fn config(&self, name: &str) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = CertificateDer::from(params.signed_by(&key, &self.issuer).unwrap().der().to_vec());
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        // Ignored: it is in the folder of what need not be kept.
        let _gone = std::fs::remove_file(&self.file);
    }
}

/// Listens for as long as this process lives; the URL.
fn listen(config: ServerConfig, weed: &'static Weed) -> String {
    let listener = listener();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let config = Arc::new(config);
    dolmen_env::spawn("tls", move || {
        for socket in listener.incoming() {
            let server = ServerConnection::new(Arc::clone(&config)).unwrap();
            let stream = StreamOwned::new(server, socket.unwrap());
            dolmen_env::spawn("tls", move || {
                // Ignored: who asks may not trust what is here, and goes.
                let _passed = pass(stream, weed);
            })
            .unwrap();
        }
    })
    .unwrap();
    url
}

/// Passes one request on, and the answer back.
fn pass(mut stream: StreamOwned<ServerConnection, TcpStream>, weed: &Weed) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let text = String::from_utf8(head).map_err(io::Error::other)?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().map_err(io::Error::other)?];
    stream.read_exact(&mut body)?;
    let mut to = weed.connect()?;
    to.write_all(text.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes())?;
    to.write_all(&body)?;
    io::copy(&mut to, &mut stream)?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn open(url: &str, authority: &Authority) -> Remote {
    let options = Options {
        endpoint: Some(url.to_owned()),
        authorities: Some(authority.file.clone()),
        repeats_max: 0,
        ..weed().options(OWNER)
    };
    Remote::open("s3://events/tls", &options).unwrap()
}

#[test]
fn over_https_a_bucket_is_as_it_is_without_and_who_is_not_trusted_is_refused() {
    let [ours, other] = ["ours", "other"].map(Authority::new);
    let url = listen(ours.config("127.0.0.1"), weed());
    let remote = Arc::new(open(&url, &ours));
    let large = crate::bucket::pattern(17 << 20);
    let put = |key: &str, bytes: &[u8]| {
        remote.put(vec![Put { key: key.into(), bytes: IoBuf::copy_of(bytes) }]).unwrap();
    };
    put("small", b"small");
    put("large", &large);
    let Got::Bytes(bytes, tag) = remote.get("small", None).unwrap() else { panic!("it is there") };
    assert_eq!(bytes, b"small");
    assert!(remote.replace("small", Some(&tag), b"another".to_vec()).unwrap().tag().is_some());
    assert_eq!(remote.replace("small", Some(&tag), b"third".to_vec()).unwrap(), Replaced::Refused);
    let Got::Bytes(bytes, _) = remote.get("large", None).unwrap() else { panic!("it is there") };
    assert!(bytes == large);
    assert!(RemoteFile::of(&remote, "large").is_ok());
    assert!(remote.uploads("").unwrap().is_empty());
    let keys = || remote.list("").unwrap().into_iter().map(|object| object.key).collect::<Vec<_>>();
    assert_eq!(keys(), ["large", "small"]);
    remote.delete(keys()).unwrap();
    assert_eq!(keys(), [""; 0]);
    // Signed by somebody else, and for another name.
    let elsewhere = listen(ours.config("elsewhere.example"), weed());
    for (url, authority, why) in
        [(&url, &other, "InvalidCertificate"), (&elsewhere, &ours, "NotValidForName")]
    {
        let error = open(url, authority).get("small", None).unwrap_err();
        assert_eq!(error.failure, Failure::Unreachable);
        assert!(format!("{error:?}").contains(why), "{error:?}");
    }
    // Not without what signs, nor with what is no certificate.
    std::fs::write(&other.file, "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").unwrap();
    for file in [other.file.clone(), other.file.with_extension("none")] {
        let options =
            Options { endpoint: Some(url.clone()), authorities: Some(file), ..weed().options(OWNER) };
        let found = Remote::open("s3://events/tls", &options);
        assert!(matches!(found, Err(Error::Certificates { .. })), "{found:?}");
    }
}
