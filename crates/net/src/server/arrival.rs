//! A connection that has not been greeted: it says hello, and is told on which terms it may stay, or why it may not.
//!
//! Invariants: nothing is taken from a peer before its hello; whoever comes over a network, where certificates are asked for,
//! is whom his names.

use super::System;
use crate::error::{Error, Lack, Result, Violation};
use crate::input::{bad_frame, fill};
use crate::ring;
use crate::stream::Stream;
use crate::terms::Terms;
use crate::tls::{Certs, Identity};
use dolmen_codec::wire::{
    FEATURE_ALONE, FEATURE_CHANGE, FEATURE_CHARGED, FEATURE_ENDS, FEATURE_FILES, FEATURE_GIFTS,
    FEATURE_LEASES, FEATURE_PARTS, FEATURE_QUOTA, HELLO_BYTES, Hello, Refusal, Version, WELCOME_BYTES,
};
use dolmen_env::{Moved, Peer, SharedMemory, Socket, Waiter, peer_watch};
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How a record of TLS begins that begins a connection; no hello does.
const TLS_HANDSHAKE: u8 = 0x16;

/// Pieces that are taken from who is not welcome before others have their turn.
const READS_A_TURN: usize = 16;

/// Who is at the other end of a connection.
#[derive(Debug, Default)]
pub(super) struct Who {
    /// The process, where the kernel knows it.
    pub(super) peer: Option<Peer>,
    /// Whom its certificate names.
    pub(super) identity: Option<Arc<Identity>>,
    /// What it calls itself.
    pub(super) client: u128,
    /// Tells of the end of the process: a forked child may keep the socket.
    watch: Option<OwnedFd>,
}

impl Who {
    /// For messages: who this is at the other end of `stream`.
    pub(super) fn name(&self, stream: &Stream) -> String {
        let at = || stream.socket().remote().map_or("a network".to_owned(), |at| at.to_string());
        match (self.peer, &self.identity) {
            (Some(Peer { pid, uid, .. }), _) => format!("process {pid} of user {uid}"),
            (None, Some(identity)) => format!("{} at {}", identity.name, at()),
            (None, None) => at(),
        }
    }

    /// Lets `waiter` tell of the socket, and of the end of the process.
    pub(super) fn watch(&self, stream: &Stream, waiter: &Waiter, token: u64, peer_token: u64) -> Result<()> {
        waiter.add(stream.socket(), token, false)?;
        if let Some(watch) = &self.watch {
            waiter.add(watch, peer_token, false)?;
        }
        Ok(())
    }

    /// The contrary.
    pub(super) fn forget(&self, stream: &Stream, waiter: &Waiter) {
        // Ignored, both: what is not there cannot be told of.
        let _removed = waiter.remove(stream.socket());
        if let Some(watch) = &self.watch {
            let _removed = waiter.remove(watch);
        }
    }
}

pub(super) struct Arrival {
    stream: Stream,
    who: Who,
    hello: [u8; HELLO_BYTES],
    heard: usize,
    /// It was told why it is not welcome, and goes when it has heard that.
    is_unwelcome: bool,
    must_flush: bool,
}

/// A connection that has been greeted.
pub(super) struct Greeted {
    pub(super) stream: Stream,
    pub(super) who: Who,
    pub(super) terms: Terms,
    /// It takes answers in parts.
    pub(super) takes_parts: bool,
    /// It knows leases, and takes what is pushed.
    pub(super) takes_leases: bool,
    /// It knows limits, and what is told of them.
    pub(super) knows_quota: bool,
    pub(super) must_flush: bool,
}

/// On what both ends have agreed.
pub(super) struct Agreed {
    version: Version,
    takes_parts: bool,
    takes_leases: bool,
    knows_quota: bool,
}

impl Arrival {
    /// A connection that has just come, over a network with a certificate if there are `certs`.
    pub(super) fn new(socket: Socket, certs: Option<&Certs>) -> Result<Self> {
        let peer = socket.peer()?;
        let stream = match certs.filter(|_| socket.is_network()) {
            Some(certs) => Stream::as_tls_server(socket, certs)?,
            None => Stream::over_socket(socket),
        };
        // Who has ended since is found by reading.
        let watch = peer.and_then(|peer| peer_watch(peer.pid).ok());
        let who = Who { peer, identity: None, client: 0, watch };
        let (hello, heard) = ([0; HELLO_BYTES], 0);
        Ok(Self { stream, who, hello, heard, is_unwelcome: false, must_flush: false })
    }

    /// For messages: who this is.
    pub(super) fn name(&self) -> String {
        self.who.name(&self.stream)
    }

    /// Lets `waiter` tell of it.
    pub(super) fn watch(&self, waiter: &Waiter, token: u64, peer_token: u64) -> Result<()> {
        self.who.watch(&self.stream, waiter, token, peer_token)
    }

    /// The contrary.
    pub(super) fn forget(&self, waiter: &Waiter) {
        self.who.forget(&self.stream, waiter);
    }

    /// What becomes of it once it has been greeted.
    pub(super) fn greeted(self, agreed: &Agreed) -> Greeted {
        let Self { stream, who, must_flush, .. } = self;
        let terms = Terms::of(agreed.version, &stream);
        let Agreed { takes_parts, takes_leases, knows_quota, .. } = *agreed;
        Greeted { stream, who, terms, takes_parts, takes_leases, knows_quota, must_flush }
    }

    /// Takes the hello, and answers it: with rings of at most `ring_bytes_max` each if they are asked for and possible. `None`
    /// until it has come.
    ///
    /// # Errors
    /// Why the connection is at its end.
    pub(super) fn greet(&mut self, system: &dyn System, ring_bytes_max: usize) -> Result<Option<Agreed>> {
        if self.is_unwelcome {
            return self.see_off();
        }
        let hello = match self.hear() {
            Ok(Some(hello)) => hello,
            Ok(None) => return Ok(None),
            Err(error) => return self.turn_away(system, &error),
        };
        self.who.client = hello.client;
        let takes_parts = hello.features & FEATURE_PARTS != 0;
        let knows_quota = hello.features & FEATURE_QUOTA != 0;
        let Some(version) = hello.agreed() else {
            self.say(&Refusal::VERSION.encode(), None)?;
            return Err(Error::Protocol(Violation::Version));
        };
        let takes_leases = hello.features & FEATURE_LEASES != 0 && version >= Version::Two;
        let wanted = usize::try_from(hello.ring_bytes).unwrap_or(usize::MAX);
        let granted = match self.who.peer {
            Some(_) if wanted > 0 => wanted.clamp(ring::RING_BYTES_MIN, ring_bytes_max).next_power_of_two(),
            _ => 0,
        };
        let welcome = |ring_bytes| {
            let mut welcome = system.welcome(version, ring_bytes);
            welcome.features |= FEATURE_ALONE | FEATURE_CHANGE | FEATURE_QUOTA;
            if takes_parts {
                welcome.features |= FEATURE_PARTS;
            }
            if version >= Version::Two {
                welcome.features |= FEATURE_FILES | FEATURE_CHARGED | FEATURE_GIFTS | FEATURE_ENDS;
            }
            if takes_leases {
                welcome.features |= FEATURE_LEASES;
            }
            welcome.encode()
        };
        // Without memory, or descriptors, it goes on over the socket.
        let made = if granted == 0 { None } else { SharedMemory::create(ring::memory_bytes(granted)).ok() };
        if let Some(memory) = made {
            self.say(&welcome(granted as u64), Some(&memory))?;
            self.stream.go_over_to_rings(memory, granted, true)?;
        } else {
            self.say(&welcome(0), None)?;
        }
        Ok(Some(Agreed { version, takes_parts, takes_leases, knows_quota }))
    }

    /// The hello, once it has come.
    fn hear(&mut self) -> Result<Option<Hello>> {
        let is_whole = fill(&mut self.stream, &mut self.hello, &mut self.heard)?;
        let is_clear = !self.stream.is_tls() && self.stream.socket().is_network();
        if is_clear && self.heard > 0 && self.hello[0] == TLS_HANDSHAKE {
            return Err(Error::NoCertificate(Lack::Own));
        }
        if !is_whole {
            return Ok(None);
        }
        let hello = Hello::decode(&self.hello).map_err(bad_frame)?;
        self.who.identity = self.stream.identity()?.map(Arc::new);
        Ok(Some(hello))
    }

    /// Says why there is no welcome to who can hear it: he has begun with a certificate where there is none, or without one
    /// where it needs one. Others were told by TLS, or are not to be told.
    fn turn_away(&mut self, system: &dyn System, error: &Error) -> Result<Option<Agreed>> {
        let told = match error {
            Error::NoCertificate(Lack::Own) if self.stream.is_tls() => Refusal::NeedsCertificate,
            Error::NoCertificate(Lack::Own) => Refusal::HasNoCertificate,
            Error::NoCertificate(_) | Error::BadCertificate { .. } => {
                if self.stream.identity().is_err() {
                    // It is of the authority, and names nobody: TLS has nothing against it.
                    self.say(&Refusal::NoPermission.encode(), None)?;
                }
                return self.go_unheard(system, error);
            }
            other => return Err(other.clone()),
        };
        // In the clear: the other speaks, or expects, something else.
        let bytes = told.encode();
        if self.stream.socket().write(&[IoSlice::new(&bytes)])? != Moved::Bytes(bytes.len()) {
            return Err(Error::Ended);
        }
        self.go_unheard(system, error)
    }

    /// Waits for the other end to go: if it were closed at once, what he has sent and nobody reads would take away what he was
    /// told.
    fn go_unheard(&mut self, system: &dyn System, error: &Error) -> Result<Option<Agreed>> {
        let text = match error {
            Error::NoCertificate(Lack::Own) if self.stream.is_tls() => "it shows no certificate",
            Error::NoCertificate(Lack::Own) => {
                "it asks for a certificate, and there is none: serve with --certs"
            }
            _ => "",
        };
        let why = if text.is_empty() { error.to_string() } else { text.to_owned() };
        system.note(&format!("connection of {} refused: {why}", self.name()));
        self.is_unwelcome = true;
        self.see_off()
    }

    /// Takes what he still sends, which is not looked at.
    fn see_off(&mut self) -> Result<Option<Agreed>> {
        let mut unread = [0; 4096];
        for _ in 0..READS_A_TURN {
            match self.stream.socket().read(&mut unread)? {
                Moved::Bytes(_) => {}
                Moved::Later => break,
                Moved::End => return Err(Error::Ended),
            }
        }
        Ok(None)
    }

    /// Sends the first frame; a socket takes it at once, since nothing was sent before.
    fn say(&mut self, bytes: &[u8; WELCOME_BYTES], memory: Option<&SharedMemory>) -> Result<()> {
        if self.stream.is_tls() {
            let is_taken = self.stream.write(bytes)? == bytes.len();
            self.must_flush = !self.stream.flush()?;
            return if is_taken { Ok(()) } else { Err(Error::Ended) };
        }
        let parts = [IoSlice::new(bytes)];
        let socket = self.stream.socket();
        let moved = match memory {
            Some(memory) => socket.write_with(&parts, memory.fd())?,
            None => socket.write(&parts)?,
        };
        if moved == Moved::Bytes(bytes.len()) { Ok(()) } else { Err(Error::Ended) }
    }
}
