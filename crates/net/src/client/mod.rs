//! The client's side: connections to engines, and pools behind them.

mod door;
mod follow;
mod link;
mod other;
mod pending;
mod pools;
pub mod reach;
mod remote;
mod reopen;
mod session;
mod slot;
mod starter;

pub use door::Door;
pub use link::{Link, Pushes};
pub use remote::Remote;

use crate::error::Result;
use crate::tls::{Certs, Role};
use core::time::Duration;
use dolmen_env::Address;
use pools::PoolRef;

/// An answer of another kind than the question's: the other side speaks another protocol.
fn unexpected() -> dolmen_types::Error {
    /// `EPROTO`.
    const ERRNO_PROTOCOL: i32 = 71;
    dolmen_types::Error::Io { target: dolmen_types::TargetNo(0), errno: ERRNO_PROTOCOL }
}

/// How to connect.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// What the process calls itself, on all connections that are made in place of each other: the engine knows by it who comes
    /// back after it was started anew. 0: drawn from the system's entropy.
    pub client: u128,
    /// Bytes of each of the two rings; 0 goes on over the socket.
    pub ring_bytes: usize,
    /// How long to wait for an answer, and to try to connect again meanwhile.
    pub patience: Duration,
    /// How long to wait for a connection, at first.
    pub connect_timeout: Duration,
    /// Certificates for connections over a network.
    pub certs: CertsFrom,
    /// What is pushed is not acknowledged before somebody says that it is done with ([`Link::handled`]), from the start: for who
    /// tells others of what he reads with leases.
    pub watches: bool,
    /// Told why a request was given up, where its error says less: that connections end under it, one after the other. It is
    /// told by whoever asks or polls, and must not use the link.
    pub note: fn(&str),
}

/// Which certificates to connect with, over a network; without, a connection is made in the clear.
#[derive(Clone, Debug)]
pub enum CertsFrom {
    /// None.
    Nowhere,
    /// Those in the directory that `DOLMEN_CERTS` or the user's settings name, if they do.
    User,
    /// These, as they are in their directory when a connection is made.
    These(Certs),
}

impl CertsFrom {
    /// The certificates for a connection to `address`; `None` if it is made in the clear, or stays on this machine.
    fn certs(&self, address: &Address) -> Result<Option<Certs>> {
        match (address, self) {
            (Address::Unix(_), _) | (_, Self::Nowhere) => Ok(None),
            (Address::Tcp(_), Self::User) => {
                dolmen_env::certs_directory()?.map(|dir| Certs::load(&dir, Role::User)).transpose()
            }
            (Address::Tcp(_), Self::These(certs)) => Ok(Some(certs.renewed())),
        }
    }
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            client: 0,
            ring_bytes: 1 << 20,
            patience: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            certs: CertsFrom::User,
            watches: false,
            note: |_| (),
        }
    }
}
