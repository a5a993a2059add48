//! TLS 1.3 on connections of the network, with certificates on both sides.
//!
//! - [`Certs`] the certificate of this process, and the authority that others' have to be of.
//! - [`Identity`] whom a certificate names.
//! - `Session` what goes between a socket and whoever reads and writes plain bytes.
//!
//! Invariants: no byte of a peer reaches a reader before his certificate was verified; what he sends at worst ends his
//! connection.

mod certs;
mod identity;
mod session;

pub use certs::{Certs, Validity, revoked_in, serial_of, validity_of};
pub use identity::{ENGINE_NAME, Identity, Role, Subject, USER_ID_OID};
pub(crate) use session::Session;
