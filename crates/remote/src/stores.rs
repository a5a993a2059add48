//! Where stores of ntuples are in a bucket, by the roots that they have.

use crate::address::Address;
use crate::error::{Error, Result};
use crate::list;
use crate::options::Options;
use crate::remote::Remote;
use crate::runtime::wait;
use dolmen_rntuple::bucket::{Bucket, BucketResult, Failure, Read};
use dolmen_rntuple::store::{BUCKET_KEYS, BUCKET_ROOT, BUCKET_ROOT_START};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::Result as Answer;
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};

/// Prefixes that are looked at for stores, at most: some seconds of requests side by side.
const PREFIXES_MAX: usize = 1000;

/// Slashes at most between where it is begun and a store: nobody lays them deeper by hand.
const DEPTH_MAX: usize = 4;

/// Pages of the list of what is directly below a prefix, at most: a thousand objects each, among which prefixes are looked for.
const PAGES_MAX: usize = 20;

/// Stores of ntuples below an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stores {
    /// Their addresses, nearer ones first.
    pub addresses: Vec<String>,
    /// Whether all prefixes were looked at: neither were there too many of them, nor too many slashes in them.
    pub is_all: bool,
}

/// Finds stores of ntuples: at an address, or at prefixes below it. Within a store no other is looked for.
///
/// # Errors
/// [`Error`].
pub fn stores(address: &str, options: &Options) -> Result<Stores> {
    let Address { bucket, prefix } = Address::parse(address)?;
    let whole = Address { bucket, prefix: String::new() };
    let remote = Remote::at(whole.clone(), options)?;
    at_or_below(&remote, whole, prefix)
}

/// As [`stores`], by the bucket as a whole, which is at that address.
pub(crate) fn at_or_below(remote: &Remote, whole: Address, prefix: String) -> Result<Stores> {
    let mut stores = Stores { addresses: Vec::new(), is_all: true };
    let (mut level, mut left) = (vec![prefix], PREFIXES_MAX);
    for _ in 0..=DEPTH_MAX {
        stores.is_all &= level.len() <= left;
        level.truncate(left);
        left -= level.len();
        let has_root = with_roots(remote, &level).map_err(Error::Bucket)?;
        let mut others = Vec::new();
        for (prefix, has_root) in level.into_iter().zip(has_root) {
            // Beside a store of the bucket as a whole there may be others.
            if !has_root || prefix.is_empty() {
                others.push(prefix.clone());
            }
            if has_root {
                stores.addresses.push(Address { prefix, ..whole.clone() }.written());
            }
        }
        let (below, is_all) = below(remote, others).map_err(Error::Bucket)?;
        stores.is_all &= is_all;
        let has_whole = stores.addresses.first().is_some_and(|first| *first == whole.written());
        level =
            below.into_iter().filter(|prefix| !has_whole || !is_of_whole(&format!("{prefix}/"))).collect();
    }
    stores.is_all &= level.is_empty();
    Ok(stores)
}

/// Whether a key is one of a store of the bucket as a whole. There is no place in the bucket that is outside of it, so that all else is left to
/// others.
fn is_of_whole(key: &str) -> bool {
    BUCKET_KEYS.iter().any(|of| if of.ends_with('/') { key.starts_with(of) } else { key == *of })
}

/// The prefix of the store, the innermost, that is at a key of the bucket as a whole or that it lies in; none if there is none, or if nobody may
/// know.
pub(crate) fn at_or_above(remote: &Remote, key: &str) -> BucketResult<Option<String>> {
    innermost(remote, core::iter::once(key).chain(around(key)))
}

/// The prefix of the store, the innermost, that a key of the bucket as a whole, or what is below it, lies in; none if there is none, or if nobody
/// may know.
pub(crate) fn above(remote: &Remote, key: &str) -> BucketResult<Option<String>> {
    innermost(remote, around(key))
}

/// Prefixes at which a store would have a key, or what is below it, nearer ones first.
fn around(key: &str) -> impl Iterator<Item = &str> {
    let is_of_whole = is_of_whole(key) || is_of_whole(&format!("{key}/"));
    let ends = key.rmatch_indices('/').map(|(end, _)| end).chain(is_of_whole.then_some(0));
    ends.map(|end| &key[..end])
}

/// The first of prefixes at which there is a store.
fn innermost<'a>(remote: &Remote, prefixes: impl Iterator<Item = &'a str>) -> BucketResult<Option<String>> {
    for prefix in prefixes.map(str::to_owned) {
        match with_roots(remote, core::slice::from_ref(&prefix)) {
            Ok(has_root) if has_root[0] => return Ok(Some(prefix)),
            // Who may write and not read has no store there: that is read before it is changed.
            Err(error) if error.failure != Failure::Denied => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

/// Whether there is an object with bytes at a key; not, if nobody may know.
pub(crate) fn is_object(remote: &Remote, key: &str) -> BucketResult<bool> {
    let mut first = [0];
    match remote.read(&mut [Read { key, offset: 0, into: &mut first }]) {
        Ok(counts) => Ok(counts != [0]),
        Err(error) if error.failure == Failure::Denied => Ok(false),
        Err(error) => Err(error),
    }
}

/// At which prefixes there is the root of a store.
fn with_roots(remote: &Remote, prefixes: &[String]) -> BucketResult<Vec<bool>> {
    let key = |prefix: &String| match &**prefix {
        "" => BUCKET_ROOT.to_owned(),
        prefix => format!("{prefix}/{BUCKET_ROOT}"),
    };
    let keys: Vec<String> = prefixes.iter().map(key).collect();
    let mut starts = vec![BUCKET_ROOT_START.map(|_| 0); keys.len()];
    let mut reads: Vec<_> =
        keys.iter().zip(&mut starts).map(|(key, into)| Read { key, offset: 0, into }).collect();
    remote.read(&mut reads)?;
    Ok(starts.iter().map(|start| *start == BUCKET_ROOT_START).collect())
}

/// Prefixes with a slash more than these, and whether these are all.
fn below(remote: &Remote, prefixes: Vec<String>) -> BucketResult<(Vec<String>, bool)> {
    let store = remote.store("list", "")?;
    let lists = stream::iter(prefixes).map(|prefix| async move {
        let found = directly_below(remote, store, &prefix).await;
        found.map_err(|said| remote.failed("list", &prefix, said))
    });
    let lists = lists.buffered(remote.requests_max());
    let found: Vec<(Vec<String>, bool)> = wait(remote.runtime(), ("list", ""), lists.try_collect())??;
    let is_all = found.iter().all(|(_, is_all)| *is_all);
    Ok((found.into_iter().flat_map(|(prefixes, _)| prefixes).collect(), is_all))
}

async fn directly_below(remote: &Remote, store: &AmazonS3, prefix: &str) -> Answer<(Vec<String>, bool)> {
    let above = Some(format!("{prefix}/")).filter(|_| !prefix.is_empty());
    let (mut found, mut token) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let mut options = PaginatedListOptions {
            delimiter: Some("/".into()),
            page_token: token,
            ..PaginatedListOptions::default()
        };
        options.extensions.insert(list::Asked);
        let _permit = remote.permit().await;
        let page = store.list_paginated(above.as_deref(), options).await?;
        found.extend(page.result.common_prefixes.iter().map(ToString::to_string));
        token = page.page_token.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok((found, true));
        }
        if found.len() > PREFIXES_MAX {
            break;
        }
    }
    Ok((found, false))
}
