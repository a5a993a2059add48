//! Who ends a system has the answer before it ends: its process is gone a moment later.

use crate::common::Scratch;
use core::time::Duration;
use dolmen_codec::wire::{SystemReply, SystemVerb, Version, Welcome};
use dolmen_env::{Address, Listener};
use dolmen_net::client::{Link, LinkOptions};
use dolmen_net::server::{Attachment, Caller, Options, Server, System};
use dolmen_types::{Error, Head, Uuid, limits};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// How long the end waits for whoever has asked for it to have heard the answer.
const LIMIT: Duration = Duration::from_secs(10);

/// A system that ends no earlier than it is told that its last answer has arrived.
struct Ends {
    /// Guards both; taken by the one thread that ends.
    ends: Mutex<(Receiver<()>, SyncSender<bool>)>,
}

impl System for Ends {
    fn welcome(&self, version: Version, ring_bytes: u64) -> Welcome {
        Welcome {
            version,
            rank: 0,
            engine: Uuid::from_u128(1),
            instance: 1,
            features: 0,
            ring_bytes,
            body_bytes_max: 1 << 20,
            payload_bytes_max: limits::FRAME_PAYLOAD_BYTES_MAX as u64,
            requests_max: dolmen_net::server::REQUESTS_MAX,
            system: "ends".to_owned(),
        }
    }

    fn answer(&self, _head: &Head, _caller: &Caller, ask: SystemVerb) -> Result<Attachment, Error> {
        Ok(Attachment { reply: SystemReply::Done, pool: None, is_last: ask == SystemVerb::Stop })
    }

    fn end(&self) {
        let ends = self.ends.lock().unwrap();
        ends.1.send(ends.0.recv_timeout(LIMIT).is_ok()).unwrap();
    }

    fn note(&self, _text: &str) {}
}

#[test]
fn who_ends_a_daemon_has_the_answer_before_it_ends() {
    let dir = Scratch::new();
    for ring_bytes in [0, 1 << 16] {
        let (tell, told) = sync_channel(1);
        let (ended, end) = sync_channel(1);
        let system: Arc<dyn System> = Arc::new(Ends { ends: Mutex::new((told, ended)) });
        let address = Address::Unix(dir.path().join(ring_bytes.to_string()));
        let listener = Listener::bind(&address).unwrap();
        let server = Server::start(&system, vec![listener], &Options::default()).unwrap();
        let options = LinkOptions { ring_bytes, patience: 3 * LIMIT, ..LinkOptions::default() };
        let link = Link::connect(&address, &options).unwrap();
        assert_eq!(link.ask_system(&Head::default(), &SystemVerb::Ping), Ok(SystemReply::Done));
        assert!(end.try_recv().is_err(), "nobody has asked for the end");
        assert_eq!(link.ask_system(&Head::default(), &SystemVerb::Stop), Ok(SystemReply::Done));
        // Ignored: who has waited in vain says so below.
        let _heard = tell.send(());
        assert_eq!(end.recv_timeout(2 * LIMIT), Ok(true), "it ended before its last answer was heard");
        server.stop();
    }
}
