//! Values of the process's environment.

use crate::error::{Der, Result, der};
use crate::raw::{self, Out, Text};
use core::ffi::{c_char, c_int, c_uint};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What a variable says.
///
/// # Errors
/// `NONEXIST` if it is not set.
fn value(name: Text) -> Result<Vec<u8>> {
    let name = OsStr::from_bytes(name.bytes()?);
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(Der::INVAL);
    }
    std::env::var_os(name).map(OsStringExt::into_vec).ok_or(Der::NONEXIST)
}

/// A number, in decimal, or with `0x` or `0` before it in the base that C has for it.
fn number(name: Text) -> Result<u64> {
    let value = value(name)?;
    let text = core::str::from_utf8(&value).map_err(|_other| Der::INVAL)?.trim();
    let parsed = match (text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")), text) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (None, octal) if octal.len() > 1 && octal.starts_with('0') => u64::from_str_radix(&octal[1..], 8),
        (None, decimal) => decimal.parse(),
    };
    parsed.map_err(|_other| Der::INVAL)
}

fn is_true(value: &[u8]) -> Option<bool> {
    match value.to_ascii_lowercase().as_slice() {
        b"1" | b"y" | b"yes" | b"t" | b"true" | b"on" => Some(true),
        b"0" | b"n" | b"no" | b"f" | b"false" | b"off" => Some(false),
        _ => None,
    }
}

/// Whether a variable says yes; what is not set, or says neither, leaves the value as it is.
#[unsafe(no_mangle)]
extern "C" fn d_getenv_bool(name: Text, out: Out<bool>) -> c_int {
    der(|| out.check()?.set(is_true(&value(name)?).ok_or(Der::INVAL)?))
}

/// The first character of a variable that has one.
#[unsafe(no_mangle)]
extern "C" fn d_getenv_char(name: Text, out: Out<c_char>) -> c_int {
    der(|| match value(name)?[..] {
        [byte] => out.set(byte.cast_signed()),
        _ => Err(Der::INVAL),
    })
}

/// The number that a variable says.
#[unsafe(no_mangle)]
extern "C" fn d_getenv_int(name: Text, out: Out<c_uint>) -> c_int {
    d_getenv_uint(name, out)
}

/// The number that a variable says.
#[unsafe(no_mangle)]
extern "C" fn d_getenv_uint(name: Text, out: Out<c_uint>) -> c_int {
    der(|| out.check()?.set(c_uint::try_from(number(name)?).map_err(|_wide| Der::INVAL)?))
}

/// The number that a variable says.
#[unsafe(no_mangle)]
extern "C" fn d_getenv_uint32_t(name: Text, out: Out<u32>) -> c_int {
    d_getenv_uint(name, out)
}

/// The number that a variable says.
#[unsafe(no_mangle)]
extern "C" fn d_getenv_uint64_t(name: Text, out: Out<u64>) -> c_int {
    der(|| out.check()?.set(number(name)?))
}

/// A copy of what a variable says, which the caller gives back with `d_freeenv_str`.
#[unsafe(no_mangle)]
extern "C" fn d_agetenv_str(out: Out<*mut c_char>, name: Text) -> c_int {
    der(|| {
        let out = out.check()?;
        out.set(core::ptr::null_mut())?;
        out.set(raw::duplicate(&value(name)?)?)
    })
}

/// Gives a copy back.
#[unsafe(no_mangle)]
extern "C" fn d_freeenv_str(text: Out<*mut c_char>) {
    if let Ok(memory) = text.get() {
        raw::release(memory);
        text.set_if_wanted(core::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_yes_and_no() {
        assert_eq!([is_true(b"1"), is_true(b"TRUE"), is_true(b"off")], [Some(true), Some(true), Some(false)]);
        assert_eq!(is_true(b"2"), None);
    }
}
