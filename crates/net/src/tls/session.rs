//! One connection under TLS: plain bytes on one side, a socket on the other. Nothing waits.
//!
//! Invariants: small writes are gathered, so that each makes no record of its own; what is behind `filled`, or in front of
//! `taken`, of the input is of no meaning; plain bytes are handed out in the order in which they came, and only once the
//! peer's certificate was verified.

use super::certs::{Certs, looked_at};
use super::identity::Identity;
use crate::error::{CertFault, Error, Lack, Result, Violation, Whose};
use dolmen_env::{Moved, Socket};
use rustls::{AlertDescription, CertificateError, Connection};
use std::io::{IoSlice, Read, Write};

/// Bytes of a socket that are read at once.
const INPUT_BYTES: usize = 64 << 10;

/// The longest record of TLS, which small writes are gathered up to.
const RECORD_BYTES: usize = 16 << 10;

/// Encrypted bytes that may wait for room in the socket.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// How a hello or a refusal begins that is said in the clear; no record of TLS does.
const CLEAR: u8 = b'D';

/// A connection under TLS, or about to be.
pub(crate) struct Session {
    conn: Connection,
    input: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Plain bytes that have come and were not handed out.
    readable: usize,
    /// Plain bytes that wait for a record to be filled.
    output: Vec<u8>,
    sent: usize,
    has_heard: bool,
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").field("readable", &self.readable).finish_non_exhaustive()
    }
}

impl Session {
    /// The side of whoever has connected.
    pub(crate) fn client(certs: &Certs) -> Result<Self> {
        Ok(Self::over(certs.client()?))
    }

    /// The side of an engine.
    pub(crate) fn server(certs: &Certs) -> Result<Self> {
        Ok(Self::over(certs.server()?))
    }

    fn over(mut conn: Connection) -> Self {
        conn.set_buffer_limit(Some(WAITING_BYTES_MAX));
        Self {
            conn,
            input: Vec::new(),
            taken: 0,
            filled: 0,
            readable: 0,
            output: Vec::new(),
            sent: 0,
            has_heard: false,
        }
    }

    /// Whom the peer's certificate names; `None` before it was verified.
    ///
    /// # Errors
    /// `BadCertificate` if it names nobody.
    pub(crate) fn identity(&self) -> Result<Option<Identity>> {
        if self.conn.is_handshaking() {
            return Ok(None);
        }
        let shown = self.conn.peer_certificates().and_then(|chain| chain.first());
        let named = shown.and_then(|der| looked_at(der));
        named.map(|(identity, _)| Some(identity)).ok_or_else(|| peer_fault(CertFault::Role))
    }

    pub(crate) fn read(&mut self, socket: &Socket, bytes: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        loop {
            while done < bytes.len() && self.readable > 0 {
                let len = self.conn.reader().read(&mut bytes[done..]).map_err(|_closed| Error::Ended)?;
                if len == 0 {
                    return Err(Error::Ended);
                }
                (done, self.readable) = (done + len, self.readable - len);
            }
            if done == bytes.len() {
                return Ok(done);
            }
            match self.take_in(socket) {
                Ok(true) => {}
                Ok(false) => return Ok(done),
                Err(Error::Ended) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes in what has come; whether something has.
    fn take_in(&mut self, socket: &Socket) -> Result<bool> {
        if self.taken == self.filled {
            if self.input.is_empty() {
                self.input = vec![0; INPUT_BYTES];
            }
            (self.taken, self.filled) = match socket.read(&mut self.input)? {
                Moved::Bytes(len) => (0, len),
                Moved::Later => return Ok(false),
                Moved::End => return Err(Error::Ended),
            };
            if !self.has_heard && self.input[0] == CLEAR {
                let lack = if matches!(self.conn, Connection::Client(_)) { Lack::Peer } else { Lack::Own };
                return Err(Error::NoCertificate(lack));
            }
            self.has_heard = true;
        }
        let mut rest = &self.input[self.taken..self.filled];
        let before = rest.len();
        self.conn.read_tls(&mut rest).map_err(|_no_room| Error::Protocol(Violation::Tls))?;
        self.taken += before - rest.len();
        match self.conn.process_new_packets() {
            Ok(state) => self.readable = state.plaintext_bytes_to_read(),
            Err(error) => {
                // Ignored: the peer is told why if there is room; the connection is over in any case.
                let _told = self.push(socket);
                return Err(fault_of(&error));
            }
        }
        if self.conn.wants_write() {
            self.push(socket)?;
        }
        Ok(true)
    }

    pub(crate) fn write(&mut self, socket: &Socket, bytes: &[u8]) -> Result<usize> {
        if bytes.len() < RECORD_BYTES {
            if self.output.len() + bytes.len() > RECORD_BYTES && !self.encrypt(socket)? {
                return Ok(0);
            }
            self.output.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let mut done = 0;
        if !self.encrypt(socket)? {
            return Ok(0);
        }
        while done < bytes.len() {
            done += self.put(&bytes[done..])?;
            if !self.push(socket)? {
                break;
            }
        }
        Ok(done)
    }

    pub(crate) fn flush(&mut self, socket: &Socket) -> Result<bool> {
        Ok(self.encrypt(socket)? && self.push(socket)?)
    }

    /// Makes records of what was gathered; whether of all.
    fn encrypt(&mut self, socket: &Socket) -> Result<bool> {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            let len = self.conn.writer().write(rest).map_err(|_closed| Error::Ended)?;
            self.sent += len;
            if len == 0 && !self.push(socket)? {
                return Ok(false);
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(true)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        self.conn.writer().write(bytes).map_err(|_closed| Error::Ended)
    }

    /// Sends records as far as there is room; whether all.
    fn push(&mut self, socket: &Socket) -> Result<bool> {
        let mut pipe = Pipe { socket, failed: None };
        while self.conn.wants_write() {
            let sent = self.conn.write_tls(&mut pipe);
            match (pipe.failed.take(), sent) {
                (Some(error), _) => return Err(error),
                (None, Ok(_)) => {}
                (None, Err(_later)) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether there is something to read. If not, the memory is given back: there may be thousands who only wait.
    pub(crate) fn rest(&mut self) -> bool {
        if self.readable > 0 || self.taken < self.filled {
            return true;
        }
        (self.input, self.taken, self.filled) = (Vec::new(), 0, 0);
        if self.output.is_empty() {
            self.output = Vec::new();
        }
        false
    }
}

/// The socket as `rustls` writes to it.
struct Pipe<'s> {
    socket: &'s Socket,
    failed: Option<Error>,
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> std::io::Result<usize> {
        self.failed = match self.socket.write(parts) {
            Ok(Moved::Bytes(len)) => return Ok(len),
            Ok(Moved::Later) => None,
            Ok(Moved::End) => Some(Error::Ended),
            Err(error) => Some(error.into()),
        };
        Err(std::io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn peer_fault(fault: CertFault) -> Error {
    Error::BadCertificate { whose: Whose::Peer, fault }
}

/// What it means that a handshake has failed: what is wrong with the other's certificate, or, as he says, with ours.
fn fault_of(error: &rustls::Error) -> Error {
    let own = |fault| Error::BadCertificate { whose: Whose::Own, fault };
    match error {
        rustls::Error::NoCertificatesPresented => Error::NoCertificate(Lack::Peer),
        rustls::Error::InvalidCertificate(what) => peer_fault(match what {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertFault::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => CertFault::NotYet,
            CertificateError::UnknownIssuer | CertificateError::BadSignature => CertFault::Foreign,
            CertificateError::Revoked => CertFault::Revoked,
            _ => CertFault::Role,
        }),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => Error::NoCertificate(Lack::Own),
            AlertDescription::CertificateExpired => own(CertFault::Expired),
            AlertDescription::CertificateRevoked => own(CertFault::Revoked),
            AlertDescription::UnknownCA | AlertDescription::DecryptError => own(CertFault::Foreign),
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied => own(CertFault::Refused),
            _ => Error::Protocol(Violation::Tls),
        },
        _ => Error::Protocol(Violation::Tls),
    }
}
