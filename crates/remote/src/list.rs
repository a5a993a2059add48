//! Lists of objects: each key exactly as the store has it, and an end.
//!
//! The library takes keys for paths: it refuses a page with one that is none, whoever made that object, and strips slashes and blanks of
//! others. So it is given numbers in their place, and the keys are taken from the answer before it sees them.

use crate::error::untrue;
use core::cmp::Ordering;
use dolmen_rntuple::bucket::Object;
use futures_util::StreamExt;
use object_store::Result as Answer;
use object_store::client::{HttpError, HttpResponse, HttpResponseBody};
use std::sync::Arc;

/// Bytes of a page at most: it has a thousand keys of a KiB, of which each byte may be written with six.
pub(crate) const PAGE_BYTES_MAX: usize = 64 << 20;

/// Keys of a list at most.
const KEYS_MAX: u64 = 100_000_000;

/// Pages without a key, one after the other, at most: services look through so many objects at a time, of which some were deleted.
const EMPTY_MAX: u32 = 10_000;

/// What marks a request for a list, for the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked;

/// What the client found: the keys of a page, or why there are none.
#[derive(Clone, Debug)]
pub(crate) struct Keys(pub(crate) Arc<Result<Vec<String>, &'static str>>);

/// The answer with numbers for keys, and the keys beside it.
pub(crate) async fn numbered(answer: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (mut parts, body) = answer.into_parts();
    let mut bytes = Vec::new();
    let mut stream = body.bytes_stream();
    while let Some(some) = stream.next().await {
        bytes.extend_from_slice(&some?);
        if bytes.len() > PAGE_BYTES_MAX {
            break;
        }
    }
    let (body, keys) = match numbers_for_keys(&bytes) {
        Ok((body, keys)) => (body, Ok(keys)),
        // The library need not look at it.
        Err(why) => ("<ListBucketResult></ListBucketResult>".to_owned(), Err(why)),
    };
    parts.extensions.insert(Keys(Arc::new(keys)));
    Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(body)))
}

fn numbers_for_keys(bytes: &[u8]) -> Result<(String, Vec<String>), &'static str> {
    const NONE: &str = "the answer is no list of objects";
    if bytes.len() > PAGE_BYTES_MAX {
        return Err("the answer is larger than any page of a list");
    }
    let body = str::from_utf8(bytes).map_err(|_other| NONE)?;
    if !body.contains("<ListBucketResult") {
        return Err(NONE);
    }
    if body.contains("<EncodingType>url") {
        return Err("keys of the list are encoded, which nobody asked for");
    }
    let mut parts = body.split("<Key>");
    let mut rest = parts.next().unwrap_or("").to_owned();
    let mut keys = Vec::new();
    for part in parts {
        let (key, behind) = part.split_once("</Key>").ok_or(NONE)?;
        rest.push_str(&format!("<Key>{}</Key>{behind}", keys.len()));
        keys.push(unescaped(key).ok_or(NONE)?);
    }
    Ok((rest, keys))
}

/// What a text of XML stands for.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('&');
    let mut whole = parts.next()?.to_owned();
    for part in parts {
        let (name, behind) = part.split_once(';')?;
        whole.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = name.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(number) => u32::from_str_radix(number, 16),
                    None => number.parse(),
                };
                char::from_u32(code.ok()?)?
            }
        });
        whole.push_str(behind);
    }
    (!text.contains('<')).then_some(whole)
}

/// A list that grows page by page.
#[derive(Debug)]
pub(crate) struct Listing {
    /// What all keys begin with.
    prefix: String,
    pub(crate) found: Vec<Object>,
    keys: u64,
    last: String,
    /// Whether all keys so far were in the order of their bytes.
    is_by_bytes: bool,
    /// Whether they were in that of the names between their slashes, as of servers for which keys are paths of files.
    is_by_names: bool,
    /// Pages in a row without a key.
    empty: u32,
    is_empty: bool,
    token: Option<String>,
}

impl Listing {
    pub(crate) fn of(prefix: String) -> Self {
        Self {
            prefix,
            found: Vec::new(),
            keys: 0,
            last: String::new(),
            is_by_bytes: true,
            is_by_names: true,
            empty: 0,
            is_empty: true,
            token: None,
        }
    }

    pub(crate) fn token(&self) -> Option<String> {
        self.token.clone()
    }

    /// Looks at the next whole key; keys that are in one order throughout are never the same again.
    pub(crate) fn next(&mut self, key: &str) -> Answer<()> {
        if !key.starts_with(&self.prefix) {
            return Err(untrue("the list has a key that does not begin with what was asked for"));
        }
        if self.keys == KEYS_MAX {
            return Err(untrue("the list has more keys than can be taken for one"));
        }
        if self.keys > 0 {
            self.is_by_bytes &= *self.last < *key;
            self.is_by_names &= self.last.split('/').cmp(key.split('/')) == Ordering::Less;
        }
        if !self.is_by_bytes && !self.is_by_names {
            return Err(untrue("keys of the list are not in order, so that it may never end"));
        }
        self.keys += 1;
        self.is_empty = false;
        key.clone_into(&mut self.last);
        Ok(())
    }

    /// Whether another page follows the one that has ended.
    pub(crate) fn turn(&mut self, token: Option<String>) -> Answer<bool> {
        let Some(token) = token.filter(|token| !token.is_empty()) else { return Ok(false) };
        if self.token.as_ref() == Some(&token) {
            return Err(untrue("the list goes on where it was, so that it never ends"));
        }
        self.empty = if self.is_empty { self.empty + 1 } else { 0 };
        if self.empty == EMPTY_MAX {
            return Err(untrue("the list goes on without a key"));
        }
        self.is_empty = true;
        self.token = Some(token);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(keys: &[&str]) -> Answer<()> {
        let mut listing = Listing::of(String::new());
        keys.iter().try_for_each(|key| listing.next(key))
    }

    #[test]
    fn keys_are_in_the_order_of_their_bytes_or_of_their_names() {
        listed(&["", "a-b", "a/b", "a/c", "b"]).unwrap();
        listed(&["a", "a/b", "a/c", "a-b", "b"]).unwrap();
        for keys in [&["b", "a"][..], &["a", "a"], &["a-b", "a/b", "a-b"], &["a/b", "a-b", "a/b"]] {
            listed(keys).unwrap_err();
        }
        // Each pair is in one of the orders, but not in the same.
        listed(&["a/b", "a-b", "b-c", "b/c"]).unwrap_err();
    }

    #[test]
    fn a_list_without_keys_ends() {
        let mut listing = Listing::of("a".into());
        let mut tokens = (0..).map(|nth: u32| Some(nth.to_string()));
        for nth in 1..EMPTY_MAX {
            assert!(listing.turn(tokens.next().unwrap()).unwrap(), "{nth}");
        }
        listing.next("a").unwrap();
        for nth in 0..EMPTY_MAX {
            assert!(listing.turn(tokens.next().unwrap()).unwrap(), "{nth}");
        }
        listing.turn(tokens.next().unwrap()).unwrap_err();
        assert!(!listing.turn(Some(String::new())).unwrap(), "an empty token is none");
        assert!(!listing.turn(None).unwrap());
        listing.turn(listing.token()).unwrap_err();
    }

    #[test]
    fn a_list_has_so_many_keys_at_most() {
        let mut listing = Listing::of(String::new());
        listing.keys = KEYS_MAX - 1;
        listing.next("a").unwrap();
        listing.next("b").unwrap_err();
    }

    #[test]
    fn texts_stand_for_keys() {
        let cases = [
            ("", Some("")),
            (" a%2Fb ", Some(" a%2Fb ")),
            ("&lt;q&gt;&quot;&apos;&amp;amp;", Some("<q>\"'&amp;")),
            ("&#228;&#xe4;&#x1;/", Some("\u{e4}\u{e4}\u{1}/")),
            ("&nbsp;", None),
            ("&amp", None),
            ("&#xD800;", None),
            ("&#+;", None),
            ("<![CDATA[a]]>", None),
        ];
        for (text, key) in cases {
            assert_eq!(unescaped(text).as_deref(), key, "{text}");
        }
    }
}
