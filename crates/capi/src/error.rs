//! Errors as C programs see them: negative `DER_*` numbers, positive errno numbers, and their names.

use crate::raw::Name;
use core::ffi::{CStr, c_int};
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

/// The result of what a `daos_*` function does.
pub(crate) type Result<T> = core::result::Result<T, Der>;

/// The result of what a `dfs_*` or `duns_*` function does.
pub(crate) type PosixResult<T> = core::result::Result<T, Errno>;

/// An error of DAOS by its number, which C programs see negated.
//= daos:src/include/daos_errno.h DER_*
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Der(c_int);

/// An error of the system by its number, which C programs see as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) c_int);

impl Der {
    /// The error with a negative number, as `dolmen_types::Error::der` gives it or a callback of the program returned it.
    pub(crate) fn from_code(code: c_int) -> Self {
        Self(code.wrapping_abs())
    }

    /// What a C program gets.
    pub(crate) fn code(self) -> c_int {
        -self.0
    }
}

impl From<dolmen_types::Error> for Der {
    fn from(error: dolmen_types::Error) -> Self {
        Self::from_code(error.der())
    }
}

impl From<dolmen_types::Invalid> for Der {
    fn from(error: dolmen_types::Invalid) -> Self {
        dolmen_types::Error::Invalid(error).into()
    }
}

impl From<Der> for Errno {
    fn from(error: Der) -> Self {
        Self(error.errno())
    }
}

/// Runs the body of a `daos_*` function. A panic ends here.
pub(crate) fn der(body: impl FnOnce() -> Result<()>) -> c_int {
    number(|| body().map(|()| 0))
}

/// As [`der`], for a function that returns a count.
pub(crate) fn number(body: impl FnOnce() -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(number)) => number,
        Ok(Err(error)) => error.code(),
        Err(_panic) => Der::MISC.code(),
    }
}

/// Runs the body of a `dfs_*` or `duns_*` function. A panic ends here.
#[allow(dead_code, reason = "the POSIX interfaces come with their own modules")]
pub(crate) fn errno(body: impl FnOnce() -> PosixResult<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.0,
        Err(_panic) => libc::EIO,
    }
}

/// Runs the body of a function that has no way to report an error. A panic ends here and gives `otherwise`.
#[allow(dead_code, reason = "few functions report nothing")]
pub(crate) fn silent<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// The name of an error number.
#[unsafe(no_mangle)]
extern "C" fn d_errstr(number: c_int) -> Name {
    Name::of(text(number).0)
}

/// What an error number means, as a sentence.
#[unsafe(no_mangle)]
extern "C" fn d_errdesc(number: c_int) -> Name {
    Name::of(text(number).1)
}

fn text(number: c_int) -> (&'static CStr, &'static CStr) {
    match number {
        0 => (c"DER_SUCCESS", c"Success"),
        ..0 => named(number.wrapping_neg()).map_or(UNKNOWN, |(_, name, meaning)| (*name, *meaning)),
        1.. => UNKNOWN,
    }
}

fn named(number: c_int) -> Option<&'static (c_int, &'static CStr, &'static CStr)> {
    TABLE.iter().find(|row| row.0 == number)
}

/// What stands for every number that has no name.
const UNKNOWN: (&CStr, &CStr) = (c"DER_UNKNOWN", c"Unknown error code");

macro_rules! errors {
    ($($name:ident = $number:literal, $errno:ident, $text:literal, $meaning:literal;)*) => {
        #[allow(dead_code, reason = "the table has every number, also those that Dolmen never answers with")]
        impl Der {
            $(pub(crate) const $name: Self = Self($number);)*

            /// The errno that the POSIX interfaces answer with instead.
            pub(crate) fn errno(self) -> c_int {
                match self.0 {
                    $($number => libc::$errno,)*
                    _ => libc::EIO,
                }
            }
        }

        const TABLE: &[(c_int, &CStr, &CStr)] = &[$(($number, $text, $meaning),)*];
    };
}

errors! {
    NO_PERM = 1001, EPERM, c"DER_NO_PERM", c"The caller may not do this";
    NO_HDL = 1002, EINVAL, c"DER_NO_HDL", c"The handle is invalid or of another kind";
    INVAL = 1003, EINVAL, c"DER_INVAL", c"A parameter is invalid";
    EXIST = 1004, EEXIST, c"DER_EXIST", c"It exists already";
    NONEXIST = 1005, ENOENT, c"DER_NONEXIST", c"It does not exist";
    UNREACH = 1006, EHOSTUNREACH, c"DER_UNREACH", c"The other side cannot be reached";
    NOSPACE = 1007, ENOSPC, c"DER_NOSPACE", c"No space is left";
    ALREADY = 1008, EALREADY, c"DER_ALREADY", c"It was done before";
    NOMEM = 1009, ENOMEM, c"DER_NOMEM", c"No memory is left";
    NOSYS = 1010, EIO, c"DER_NOSYS", c"The function does not exist here";
    TIMEDOUT = 1011, ETIMEDOUT, c"DER_TIMEDOUT", c"The time is over";
    BUSY = 1012, EBUSY, c"DER_BUSY", c"It is in use";
    AGAIN = 1013, EAGAIN, c"DER_AGAIN", c"Try again";
    PROTO = 1014, EPROTO, c"DER_PROTO", c"The other side speaks another protocol";
    UNINIT = 1015, EIO, c"DER_UNINIT", c"The library or the object was not initialised";
    TRUNC = 1016, EIO, c"DER_TRUNC", c"The buffer is too short";
    OVERFLOW = 1017, EOVERFLOW, c"DER_OVERFLOW", c"A value is too large for its type";
    CANCELED = 1018, ECANCELED, c"DER_CANCELED", c"It was called off";
    OOG = 1019, EIO, c"DER_OOG", c"The address is outside the group";
    HG = 1020, EIO, c"DER_HG", c"The transport failed";
    UNREG = 1021, EIO, c"DER_UNREG", c"It is not registered";
    ADDRSTR_GEN = 1022, EIO, c"DER_ADDRSTR_GEN", c"No text could be made of the address";
    PMIX = 1023, EIO, c"DER_PMIX", c"The process manager failed";
    IVCB_FORWARD = 1024, EIO, c"DER_IVCB_FORWARD", c"The request is to be forwarded";
    MISC = 1025, EIO, c"DER_MISC", c"Something unexpected happened";
    BADPATH = 1026, ENOTDIR, c"DER_BADPATH", c"The path does not lead there";
    NOTDIR = 1027, ENOTDIR, c"DER_NOTDIR", c"It is no directory";
    CORPC_INCOMPLETE = 1028, EIO, c"DER_CORPC_INCOMPLETE", c"A collective request was not completed";
    NO_RAS_RANK = 1029, EIO, c"DER_NO_RAS_RANK", c"No rank receives the event";
    NOTATTACH = 1030, EIO, c"DER_NOTATTACH", c"The group is not attached";
    MISMATCH = 1031, EIO, c"DER_MISMATCH", c"Versions do not match";
    EXCLUDED = 1032, EIO, c"DER_EXCLUDED", c"The rank is excluded";
    NOREPLY = 1033, EIO, c"DER_NOREPLY", c"There was no answer";
    DOS = 1034, ENOMEM, c"DER_DOS", c"Too much was asked at once";
    BAD_TARGET = 1035, EIO, c"DER_BAD_TARGET", c"The target is not the right one";
    GRPVER = 1036, EIO, c"DER_GRPVER", c"The version of the group is another";
    HLC_SYNC = 1037, EIO, c"DER_HLC_SYNC", c"The clocks differ too much";
    NO_SHMEM = 1038, EIO, c"DER_NO_SHMEM", c"No shared memory is left";
    ADD_METRIC_FAILED = 1039, EIO, c"DER_ADD_METRIC_FAILED", c"The metric could not be added";
    DURATION_MISMATCH = 1040, EIO, c"DER_DURATION_MISMATCH", c"Begin and end of a duration do not match";
    OP_NOT_PERMITTED = 1041, EIO, c"DER_OP_NOT_PERMITTED", c"The operation is not permitted";
    EXCEEDS_PATH_LEN = 1042, EIO, c"DER_EXCEEDS_PATH_LEN", c"The path is too long";
    METRIC_NOT_FOUND = 1043, EIO, c"DER_METRIC_NOT_FOUND", c"There is no such metric";
    SHMEM_PERMS = 1044, EIO, c"DER_SHMEM_PERMS", c"The shared memory belongs to somebody else";
    HG_FATAL = 1045, EIO, c"DER_HG_FATAL", c"The transport cannot go on";
    QUOTA_LIMIT = 1046, EIO, c"DER_QUOTA_LIMIT", c"The quota is used up";
    IO = 2001, EIO, c"DER_IO", c"Reading or writing a device failed";
    FREE_MEM = 2002, EIO, c"DER_FREE_MEM", c"Memory could not be freed";
    ENOENT = 2003, ENOENT, c"DER_ENOENT", c"There is no such entry";
    NOTYPE = 2004, EINVAL, c"DER_NOTYPE", c"The type is unknown";
    NOSCHEMA = 2005, EINVAL, c"DER_NOSCHEMA", c"The schema is unknown";
    NOLOCAL = 2006, EINVAL, c"DER_NOLOCAL", c"It is not local";
    STALE = 2007, ESTALE, c"DER_STALE", c"The pool map is out of date";
    NOTLEADER = 2008, EIO, c"DER_NOTLEADER", c"The service is led elsewhere";
    TGT_CREATE = 2009, EIO, c"DER_TGT_CREATE", c"A target could not be made";
    EP_RO = 2010, EPERM, c"DER_EP_RO", c"The epoch is read-only";
    EP_OLD = 2011, EPERM, c"DER_EP_OLD", c"The epoch is too old, its data are gone";
    KEY2BIG = 2012, E2BIG, c"DER_KEY2BIG", c"The key is too large";
    REC2BIG = 2013, E2BIG, c"DER_REC2BIG", c"The record is too large";
    IO_INVAL = 2014, EINVAL, c"DER_IO_INVAL", c"The data do not fit the request";
    EQ_BUSY = 2015, EBUSY, c"DER_EQ_BUSY", c"The event queue is in use";
    DOMAIN = 2016, EIO, c"DER_DOMAIN", c"The fault domains do not fit";
    SHUTDOWN = 2017, EIO, c"DER_SHUTDOWN", c"The service ends";
    INPROGRESS = 2018, EIO, c"DER_INPROGRESS", c"It is under way";
    NOTAPPLICABLE = 2019, EIO, c"DER_NOTAPPLICABLE", c"It does not apply";
    NOTREPLICA = 2020, EIO, c"DER_NOTREPLICA", c"It is no replica of the service";
    CSUM = 2021, EIO, c"DER_CSUM", c"The checksum does not match";
    DF_INVAL = 2022, EIO, c"DER_DF_INVAL", c"The stored format is invalid";
    DF_INCOMPT = 2023, EIO, c"DER_DF_INCOMPT", c"The stored format is of another version";
    REC_SIZE = 2024, EIO, c"DER_REC_SIZE", c"The record size is another";
    TX_RESTART = 2025, ERESTART, c"DER_TX_RESTART", c"The transaction must be restarted";
    DATA_LOSS = 2026, EIO, c"DER_DATA_LOSS", c"Data were lost";
    OP_CANCELED = 2027, EIO, c"DER_OP_CANCELED", c"The operation was called off";
    TX_BUSY = 2028, EIO, c"DER_TX_BUSY", c"The transaction is under way";
    AGENT_INCOMPAT = 2029, EIO, c"DER_AGENT_INCOMPAT", c"The agent is of another version";
    NEED_TX = 2030, EIO, c"DER_NEED_TX", c"A transaction is needed";
    RF = 2031, EIO, c"DER_RF", c"More has failed than the redundancy covers";
    FETCH_AGAIN = 2032, EIO, c"DER_FETCH_AGAIN", c"Fetch again";
    TX_UNCERTAIN = 2033, EIO, c"DER_TX_UNCERTAIN", c"The outcome of the transaction is not known";
    AGENT_COMM = 2034, EIO, c"DER_AGENT_COMM", c"The agent does not answer";
    ID_MISMATCH = 2035, EIO, c"DER_ID_MISMATCH", c"The ids do not match";
    TGT_RETRY = 2036, EIO, c"DER_TGT_RETRY", c"The target asks to be tried again";
    NOTSUPPORTED = 2037, ENOTSUP, c"DER_NOTSUPPORTED", c"This is not supported";
    CONTROL_INCOMPAT = 2038, EIO, c"DER_CONTROL_INCOMPAT", c"The control plane is of another version";
    NO_SERVICE = 2039, EIO, c"DER_NO_SERVICE", c"There is no such service";
    TX_ID_REUSED = 2040, EIO, c"DER_TX_ID_REUSED", c"The id of the transaction was used before";
    UPDATE_AGAIN = 2041, EIO, c"DER_UPDATE_AGAIN", c"Update again";
    NVME_IO = 2042, EIO, c"DER_NVME_IO", c"A solid state disk failed";
    NO_CERT = 2043, EIO, c"DER_NO_CERT", c"The certificate is missing";
    BAD_CERT = 2044, EIO, c"DER_BAD_CERT", c"The certificate is invalid";
    VOS_PARTIAL_UPDATE = 2045, EIO, c"DER_VOS_PARTIAL_UPDATE", c"Only a part was updated";
    CHKPT_BUSY = 2046, EIO, c"DER_CHKPT_BUSY", c"A checkpoint is under way";
    DIV_BY_ZERO = 2047, EIO, c"DER_DIV_BY_ZERO", c"Division by zero";
    OVERLOAD_RETRY = 2048, EIO, c"DER_OVERLOAD_RETRY", c"Too busy, try again";
    NOT_RESUME = 2049, EIO, c"DER_NOT_RESUME", c"It cannot be resumed";
    CONT_NONEXIST = 2050, EIO, c"DER_CONT_NONEXIST", c"The container does not exist";
    CONT_DESTROYING = 2051, EPERM, c"DER_CONT_DESTROYING", c"The container is being destroyed";
    IGNORE = 2052, EIO, c"DER_IGNORE", c"To be ignored";
    LAST_VALID = 2053, EIO, c"DER_LAST_VALID", c"The last number";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_store_has_a_name() {
        let error = dolmen_types::Error::NotFound;
        assert_eq!(Der::from(error.clone()), Der::NONEXIST);
        assert_eq!((Der::from(error).code(), Der::NONEXIST.errno()), (-1005, libc::ENOENT));
        assert_eq!(text(-1005).0, c"DER_NONEXIST");
        assert_eq!((text(1005).0, text(-3).0, text(c_int::MIN).0), (UNKNOWN.0, UNKNOWN.0, UNKNOWN.0));
    }

    #[test]
    fn a_panic_becomes_a_number() {
        let silent = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let numbers = (der(|| panic!("of this test")), errno(|| panic!("of this test")));
        std::panic::set_hook(silent);
        assert_eq!(numbers, (-1025, libc::EIO));
    }
}
