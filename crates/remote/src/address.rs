//! Addresses: `s3://bucket/prefix`.

use crate::error::{Error, Result, Wrong};

/// What addresses begin with.
const SCHEME: &str = "s3://";

/// A bucket, and what keys in it begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) bucket: String,
    /// Without slashes around it; empty for the bucket as a whole.
    pub(crate) prefix: String,
}

/// The address that a path is; none of one of this machine.
#[must_use]
pub fn address(path: &std::path::Path) -> Option<&str> {
    path.to_str().filter(|text| text.starts_with(SCHEME))
}

/// The same; an error for an address of another kind, at which nothing is read or written here.
///
/// # Errors
/// [`Error::Scheme`] of `http://…`, `root://…` and all else that begins so.
pub fn place_of(path: &std::path::Path) -> Result<Option<&str>> {
    let Some((scheme, _)) = path.to_str().and_then(|text| text.split_once("://")) else { return Ok(None) };
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if scheme.len() < 2
        || !scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        || !scheme.chars().all(is_word)
    {
        return Ok(None);
    }
    match address(path) {
        Some(address) => Ok(Some(address)),
        None => Err(Error::Scheme { address: path.to_string_lossy().into() }),
    }
}

impl Address {
    /// The address that is written so; a slash at the end says nothing.
    pub(crate) fn parse(written: &str) -> Result<Self> {
        let wrong = |what| Error::Address { address: written.into(), what };
        let rest = written.strip_prefix(SCHEME).ok_or_else(|| wrong(Wrong::Scheme))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if bucket.is_empty() || !bucket.chars().all(is_known) {
            return Err(wrong(Wrong::Bucket));
        }
        let below = prefix.strip_suffix('/').unwrap_or(prefix);
        if !prefix.is_empty() && !below.split('/').all(is_segment) {
            return Err(wrong(Wrong::Prefix));
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: below.to_owned() })
    }

    /// The address and the key of an object: all behind the last slash is the key.
    pub(crate) fn of_object(written: &str) -> Result<(Self, String)> {
        let Self { bucket, prefix } = Self::parse(written)?;
        let (prefix, key) = prefix.rsplit_once('/').unwrap_or(("", &prefix));
        if key.is_empty() || written.ends_with('/') {
            return Err(Error::Address { address: written.into(), what: Wrong::Object });
        }
        Ok((Self { bucket, prefix: prefix.to_owned() }, key.to_owned()))
    }

    pub(crate) fn written(&self) -> String {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("{SCHEME}{}{slash}{}", self.bucket, self.prefix)
    }

    /// The whole key of an object, or the beginning of such.
    pub(crate) fn key(&self, below: &str) -> String {
        if self.prefix.is_empty() { below.to_owned() } else { format!("{}/{below}", self.prefix) }
    }
}

/// Whether all services take it: some of them think that keys are paths of files.
fn is_segment(segment: &str) -> bool {
    !segment.is_empty() && segment != "." && segment != ".." && !segment.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(written: &str) -> (String, String) {
        let Address { bucket, prefix } = Address::parse(written).unwrap();
        (bucket, prefix)
    }

    fn wrong(result: Result<impl core::fmt::Debug>) -> Wrong {
        let Err(Error::Address { what, .. }) = result else { panic!("an error of the address: {result:?}") };
        what
    }

    #[test]
    fn an_address_is_a_bucket_and_what_keys_begin_with() {
        for written in ["s3://b", "s3://b/"] {
            assert_eq!(parsed(written), ("b".into(), String::new()));
        }
        for written in ["s3://b.c-1/x/y z", "s3://b.c-1/x/y z/"] {
            assert_eq!(parsed(written), ("b.c-1".into(), "x/y z".into()));
        }
        assert_eq!(Address::parse("s3://b/x/").unwrap().written(), "s3://b/x");
        assert_eq!(Address::parse("s3://b/").unwrap().written(), "s3://b");
        assert_eq!(Address::parse("s3://b/x/").unwrap().key("k"), "x/k");
        assert_eq!(Address::parse("s3://b/").unwrap().key("k"), "k");
    }

    #[test]
    fn what_is_no_address_says_what_is_wrong() {
        for written in ["b/x", "http://b", "S3://b", "file:/x", ""] {
            assert_eq!(wrong(Address::parse(written)), Wrong::Scheme, "{written}");
        }
        for written in ["s3://", "s3:///x", "s3://b c/x", "s3://key@host/x"] {
            assert_eq!(wrong(Address::parse(written)), Wrong::Bucket, "{written}");
        }
        for written in ["s3://b//", "s3://b//x", "s3://b/x//y", "s3://b/../x", "s3://b/.", "s3://b/a\nb"] {
            assert_eq!(wrong(Address::parse(written)), Wrong::Prefix, "{written}");
        }
        for written in ["s3://b", "s3://b/", "s3://b/x/"] {
            assert_eq!(wrong(Address::of_object(written)), Wrong::Object, "{written}");
        }
    }

    #[test]
    fn an_address_of_another_kind_is_neither_a_path_nor_one_of_objects() {
        let place = |written: &'static str| place_of(std::path::Path::new(written));
        assert_eq!(place("s3://b/x").unwrap(), Some("s3://b/x"));
        for written in ["x", "/x//y", "C://x", "a b://x", "://x", "x:y/z"] {
            assert_eq!(place(written).unwrap(), None, "{written}");
        }
        let remedies = [
            ("https://h/f.root", "fetch it first (curl -LO 'https://h/f.root') and name the file"),
            ("root://h//f.root", "fetch it first (xrdcp 'root://h//f.root' .) and name the file"),
            ("gs://b/f.root", "fetch it first and name the file"),
            ("file:///f.root", "name the file by its path alone"),
            ("S3://b/f.root", "write s3:// in small letters"),
        ];
        for (written, remedy) in remedies {
            let told = place(written).unwrap_err().to_string();
            assert!(told.ends_with(remedy), "{told}");
        }
    }

    #[test]
    fn the_key_of_an_object_is_behind_the_last_slash() {
        let (address, key) = Address::of_object("s3://b/x/y/f.root").unwrap();
        assert_eq!((address.written().as_str(), key.as_str()), ("s3://b/x/y", "f.root"));
        let (address, key) = Address::of_object("s3://b/f.root").unwrap();
        assert_eq!((address.written().as_str(), key.as_str()), ("s3://b", "f.root"));
    }
}
