//! Who comes over a network and does not say hello in time is sent away; nobody else notices.

use core::time::Duration;
use dolmen_codec::wire::{SystemReply, SystemVerb, Version, Welcome};
use dolmen_daemon::{Authority, Issued};
use dolmen_env::{Address, Clock, Listener, Moved, RealClock, Socket};
use dolmen_net::client::{CertsFrom, Link, LinkOptions};
use dolmen_net::server::{Attachment, Caller, Options, Server, System};
use dolmen_net::tls::{Certs, Identity, Role, Validity};
use dolmen_types::{Error, Head};
use std::io::{IoSlice, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Answers that it is there.
struct There;

impl System for There {
    fn welcome(&self, version: Version, ring_bytes: u64) -> Welcome {
        crate::double::welcome(version, ring_bytes)
    }

    fn answer(&self, _head: &Head, _caller: &Caller, _ask: SystemVerb) -> Result<Attachment, Error> {
        Ok(Attachment { reply: SystemReply::Done, pool: None, is_last: false })
    }

    fn end(&self) {}

    fn note(&self, text: &str) {
        eprintln!("server: {text}");
    }
}

/// Directories of certificates, removed with the value.
struct Directories(PathBuf);

impl Drop for Directories {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

impl Directories {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("dolmen-net-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn certs(&self, authority: &Authority, role: Role) -> Certs {
        let now_s = i64::try_from(RealClock.now_ns() / 1_000_000_000).unwrap();
        let validity = Validity { from: now_s - 3600, until: now_s + 3600 };
        let whom = Identity { role, name: "somebody".to_owned(), groups: Vec::new(), uid: 1, gid: 1 };
        let Issued { certificate, key } = authority.issue(&whom, validity).unwrap();
        let dir = self.0.join(role.name());
        std::fs::create_dir(&dir).unwrap();
        let files = [
            (Certs::AUTHORITY, authority.certificate(validity).unwrap()),
            (Certs::OWN, certificate),
            (Certs::KEY, key),
        ];
        for (name, text) in files {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(dir.join(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
        Certs::load(&dir, role).unwrap()
    }
}

/// Waits until the other end has closed; what it has said before.
fn heard_until_end(socket: &Socket) -> Vec<u8> {
    let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
    let (mut heard, mut room) = (Vec::new(), [0; 512]);
    loop {
        assert!(RealClock.monotonic_ns() < end_ns, "it is not sent away; it has heard {heard:?}");
        match socket.read(&mut room) {
            Ok(Moved::Bytes(len)) => heard.extend_from_slice(&room[..len]),
            Ok(Moved::End) | Err(_) => return heard,
            Ok(Moved::Later) => drop(socket.wait(true, false, Some(LIMIT)).unwrap()),
        }
    }
}

#[test]
fn who_comes_over_a_network_and_does_not_say_hello_in_time_is_sent_away() {
    let authority = Authority::generate().unwrap();
    let dirs = Directories::new();
    let engine = dirs.certs(&authority, Role::Engine);
    let user = dirs.certs(&authority, Role::User);
    for certs in [None, Some(engine)] {
        let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listener.address().clone();
        let greeting_max = Duration::from_millis(300);
        let from = if certs.is_some() { CertsFrom::These(user.clone()) } else { CertsFrom::Nowhere };
        let options = Options { certs, greeting_max, ..Options::default() };
        let system: Arc<dyn System> = Arc::new(There);
        let server = Server::start(&system, vec![listener], &options).unwrap();
        let connect_as =
            LinkOptions { certs: from, patience: LIMIT, connect_timeout: LIMIT, ..LinkOptions::default() };
        let welcome = Link::connect(&address, &connect_as).unwrap();
        // Nothing; a byte that may begin a record; a byte that may begin a hello.
        let silent: Vec<Socket> = [&[][..], &[0x16], b"D"]
            .iter()
            .map(|begun| {
                let socket = Socket::connect(&address, LIMIT).unwrap();
                if !begun.is_empty() {
                    assert_eq!(socket.write(&[IoSlice::new(begun)]).unwrap(), Moved::Bytes(begun.len()));
                }
                socket
            })
            .collect();
        for socket in &silent {
            let heard = heard_until_end(socket);
            // Who has begun in the wrong way was told; nobody was let in.
            assert!(heard.is_empty() || heard.starts_with(b"DLWE"), "{heard:?}");
        }
        // Who has said hello may be silent for as long as he likes.
        assert_eq!(welcome.ask_system(&Head::default(), &SystemVerb::Ping), Ok(SystemReply::Done));
        // Each is counted for a moment after it was closed.
        let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
        while server.connection_count() != 1 {
            assert!(RealClock.monotonic_ns() < end_ns, "{} are counted", server.connection_count());
            std::thread::yield_now();
        }
        server.stop();
    }
}
