//! What is below a prefix of a bucket.

use crate::address::Address;
use crate::answer;
use crate::connect::{Client, Connector, Lost};
use crate::error::{
    Error, Forked, NoTag, Result, failed_in, is_absent, is_behind_the_end, is_no_upload, is_refused, untrue,
};
use crate::list::{self, Keys, Listing};
use crate::options::{Options, Settings, Signed};
use crate::runtime::{runtime, wait};
use crate::stores;
use crate::upload;
use crate::uploads::{self, Raw};
use core::fmt;
use core::time::Duration;
use dolmen_env::{ForkMark, object_variable};
use dolmen_rntuple::bucket::{
    Bucket, BucketError, BucketResult, Failure, Got, Object, Put, Read, Replaced, Tag, Upload,
};
use dolmen_rntuple::store::BUCKET_ROOT;
use futures_util::{StreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    BackoffConfig, Error as Said, GetOptions, GetRange, ObjectStore, PutMode, PutOptions, PutPayload,
    Result as Answer, RetryConfig, UpdateVersion,
};
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Objects that are written at once, or parts of such: each has time until nothing came for too long, so that many would wait for each other
/// behind a slow line.
const PUTS_MAX: usize = 16;

/// How long is waited before a request is repeated: at random from the first on, twice as long each time on average.
const BACKOFF: BackoffConfig = BackoffConfig {
    init_backoff: Duration::from_millis(100),
    max_backoff: Duration::from_secs(5),
    base: 4.0,
};

/// What is below a prefix of a bucket, `s3://bucket/prefix`.
pub struct Remote {
    address: Address,
    written: String,
    options: Options,
    /// None while it is dropped.
    store: Option<AmazonS3>,
    client: Arc<Client>,
    raw: Raw,
    mark: ForkMark,
    runtime: &'static Runtime,
    requests_max: usize,
    requests: Semaphore,
    puts: Semaphore,
}

impl Remote {
    /// What is at `s3://bucket/prefix`. Nothing is asked: what is wrong with it is seen by the first request.
    ///
    /// # Errors
    /// [`Error`], but for [`Error::Bucket`].
    pub fn open(address: &str, options: &Options) -> Result<Self> {
        Self::at(Address::parse(address)?, options)
    }

    pub(crate) fn at(address: Address, options: &Options) -> Result<Self> {
        let settings = Settings::of(options, object_variable)?;
        let start = |source| Error::Start { source };
        let client = Client::new(&settings, options)?;
        let raw = Raw {
            url: url(&address.bucket, &settings),
            region: settings.region.clone(),
            is_signed: settings.signed != Signed::No,
            connector: Connector(Arc::clone(&client)),
        };
        let mut builder = AmazonS3Builder::new()
            // One by one: the library ends the process where an endpoint says of several that it has deleted another.
            .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
            .with_http_connector(Connector(Arc::clone(&client)))
            .with_bucket_name(&address.bucket)
            .with_region(&settings.region)
            .with_virtual_hosted_style_request(settings.is_virtual_host)
            .with_retry(RetryConfig {
                backoff: BACKOFF,
                max_retries: options.repeats_max as usize,
                retry_timeout: options.repeat,
            });
        if let Some(endpoint) = &settings.endpoint {
            let (scheme, host) = endpoint.split_once("://").expect("it was looked at");
            let bucket =
                if settings.is_virtual_host { format!("{}.", address.bucket) } else { String::new() };
            builder = builder.with_endpoint(format!("{scheme}://{bucket}{host}"));
        }
        match settings.signed {
            Signed::No => builder = builder.with_skip_signature(true),
            Signed::With { access_key, secret_key, session_token } => {
                builder = builder.with_access_key_id(access_key).with_secret_access_key(secret_key);
                if let Some(token) = session_token {
                    builder = builder.with_token(token);
                }
            }
        }
        let requests_max = options.requests_max.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Self {
            written: address.written(),
            address,
            options: options.clone(),
            store: Some(builder.build().map_err(|error| start(Box::new(error)))?),
            client,
            raw,
            mark: ForkMark::new().map_err(|error| start(Box::new(error)))?,
            runtime: runtime()?,
            requests_max,
            requests: Semaphore::new(requests_max),
            puts: Semaphore::new(PUTS_MAX.min(requests_max)),
        })
    }

    /// The bucket, for a request of this process, and what it is called in messages.
    pub(crate) fn store(&self, doing: &'static str, key: &str) -> BucketResult<&AmazonS3> {
        if !self.mark.is_forked() {
            return Ok(self.store.as_ref().expect("it is not being dropped"));
        }
        Err(BucketError { failure: Failure::Refused, doing, key: key.into(), source: Box::new(Forked) })
    }

    /// Where an object is in the bucket.
    pub(crate) fn path(&self, doing: &'static str, key: &str) -> BucketResult<Path> {
        let whole = self.address.key(key);
        // One with a slash before or behind it is not what the library would make of it.
        if let Some(path) = Path::parse(&whole).ok().filter(|path| path.as_ref() == whole && !key.is_empty())
        {
            return Ok(path);
        }
        let source = format!("\"{whole}\" is no key of an object").into();
        Err(BucketError { failure: Failure::Refused, doing, key: key.into(), source })
    }

    /// Refuses a store that would lie within another one or around one, or where there is an object.
    fn refuse_place(&self) -> BucketResult<()> {
        let Address { bucket, prefix } = &self.address;
        if prefix.is_empty() {
            return Ok(());
        }
        let refused = |error: Error| match error {
            Error::Bucket(error) => error,
            error => BucketError {
                failure: Failure::Refused,
                doing: "put",
                key: BUCKET_ROOT.into(),
                source: Box::new(error),
            },
        };
        let whole = Address { bucket: bucket.clone(), prefix: String::new() };
        let remote = Self::at(whole.clone(), &self.options).map_err(refused)?;
        let address: Box<str> = self.written.as_str().into();
        if let Some(prefix) = stores::above(&remote, prefix)? {
            let store = Address { prefix, ..whole }.written().into();
            return Err(refused(Error::WithinStore { address, store }));
        }
        if stores::is_object(&remote, prefix)? {
            return Err(refused(Error::AtObject { address }));
        }
        let below = match stores::at_or_below(&remote, whole, prefix.clone()) {
            // Who may not list is not told what there is.
            Err(Error::Bucket(BucketError { failure: Failure::Denied, .. })) => return Ok(()),
            below => below.map_err(refused)?.addresses.into_iter().next(),
        };
        below.map_or(Ok(()), |store| Err(refused(Error::AroundStore { address, store: store.into() })))
    }

    /// What a request failed with.
    pub(crate) fn failed(&self, doing: &'static str, key: &str, said: Said) -> BucketError {
        failed_in(&self.address.bucket, doing, key, said)
    }

    pub(crate) fn requests_max(&self) -> usize {
        self.requests_max
    }

    pub(crate) fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    /// Waits until one more request may be under way.
    pub(crate) async fn permit(&self) -> SemaphorePermit<'_> {
        self.requests.acquire().await.expect("it is never closed")
    }

    /// The same, for one that brings bytes.
    pub(crate) async fn put_permit(&self) -> (SemaphorePermit<'_>, SemaphorePermit<'_>) {
        // In this order, so that none of a put that waits is taken from who reads.
        let put = self.puts.acquire().await.expect("it is never closed");
        (put, self.permit().await)
    }

    /// Reads `into` from `offset` on; how many bytes there are.
    async fn read_one(&self, store: &AmazonS3, path: &Path, read: &mut Read<'_>) -> Answer<u64> {
        let end = read.offset.saturating_add(read.into.len() as u64);
        let range = Some(GetRange::Bounded(read.offset..end));
        let _permit = self.permit().await;
        let got = match store.get_opts(path, GetOptions { range, ..GetOptions::default() }).await {
            Err(said) if is_absent(&said) || is_behind_the_end(&said) => return Ok(0),
            got => got?,
        };
        let into = &mut *read.into;
        answer::taken(got, |at, some| {
            let at = usize::try_from(at).expect("it is within what is in memory");
            into[at..at + some.len()].copy_from_slice(some);
        })
        .await
    }

    /// Takes one page more of a list; whether another follows.
    async fn list_page(&self, store: &AmazonS3, whole: &str, listing: &mut Listing) -> Answer<bool> {
        let above = self.address.key("").len();
        let mut options =
            PaginatedListOptions { page_token: listing.token(), ..PaginatedListOptions::default() };
        options.extensions.insert(list::Asked);
        let prefix = Some(whole).filter(|whole| !whole.is_empty());
        let _permit = self.permit().await;
        let page = store.list_paginated(prefix, options).await?;
        let keys = page.result.extensions.get::<Keys>().ok_or_else(|| untrue("nobody looked at the list"))?;
        let keys = (*keys.0).as_ref().map_err(|&why| untrue(why))?;
        if keys.len() != page.result.objects.len() {
            return Err(untrue("the list has other keys than objects"));
        }
        for (nth, (object, listed)) in page.result.objects.iter().zip(keys).enumerate() {
            if object.location.as_ref() != nth.to_string() {
                return Err(untrue("the list has other keys than objects"));
            }
            listing.next(listed)?;
            let key = listed.get(above..).unwrap_or("");
            // What this client could not ask for was made by somebody else, and is none of its objects.
            if self.path("list", key).is_err() {
                continue;
            }
            let written_ns = object.last_modified.timestamp_nanos_opt().unwrap_or(0);
            listing.found.push(Object {
                key: key.to_owned(),
                bytes: object.size,
                written_ns: u64::try_from(written_ns).unwrap_or(0),
            });
        }
        listing.turn(page.page_token)
    }
}

/// Where a bucket is.
fn url(bucket: &str, settings: &Settings) -> String {
    let endpoint = match &settings.endpoint {
        Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
        None => format!("https://s3.{}.amazonaws.com", settings.region),
    };
    let (scheme, host) = endpoint.split_once("://").expect("it was looked at");
    if settings.is_virtual_host {
        format!("{scheme}://{bucket}.{host}/")
    } else {
        format!("{scheme}://{host}/{bucket}")
    }
}

impl Bucket for Remote {
    fn address(&self) -> &str {
        &self.written
    }

    fn uploads(&self, prefix: &str) -> BucketResult<Vec<Upload>> {
        let store = self.store("list", prefix)?;
        let above = self.address.key("").len();
        let found = self.runtime.block_on(async {
            let _permit = self.permit().await;
            uploads::list(&self.raw, store, &self.address.key(prefix)).await
        });
        let found = found.map_err(|said| self.failed("list", prefix, said))?.into_iter();
        let below = found.map(|upload| Upload { key: upload.key[above..].to_owned(), ..upload });
        // What this client could not ask for is none of its objects.
        Ok(below.filter(|upload| self.path("list", &upload.key).is_ok()).collect())
    }

    fn abandon(&self, upload: &Upload) -> BucketResult<()> {
        let (store, path) = (self.store("delete", &upload.key)?, self.path("delete", &upload.key)?);
        let done = self.runtime.block_on(async {
            let _permit = self.permit().await;
            store.abort_multipart(&path, &upload.id.to_string()).await
        });
        match done {
            // Somebody else has ended or completed it.
            Err(said) if is_no_upload(&said) => Ok(()),
            done => done.map_err(|said| self.failed("delete", &upload.key, said)),
        }
    }

    fn now_ns(&self) -> Option<u64> {
        self.client.now_ns()
    }

    fn get(&self, key: &str, known: Option<&Tag>) -> BucketResult<Got> {
        let (store, path) = (self.store("get", key)?, self.path("get", key)?);
        let if_none_match = known.map(|tag| tag.0.to_string());
        let got: Answer<Option<(Vec<u8>, Option<String>)>> = wait(self.runtime, ("get", key), async {
            let _permit = self.permit().await;
            let options = GetOptions { if_none_match, ..GetOptions::default() };
            let got = match store.get_opts(&path, options).await {
                Err(said) if is_absent(&said) => return Ok(None),
                got => got?,
            };
            let tag = got.meta.e_tag.clone();
            Ok(Some((answer::all(got).await?, tag)))
        })?;
        match got {
            Ok(None) => Ok(Got::None),
            Ok(Some((bytes, tag))) => Ok(Got::Bytes(bytes, tag_of("get", key, tag)?)),
            Err(Said::NotModified { .. }) if known.is_some() => Ok(Got::Same),
            Err(said) => Err(self.failed("get", key, said)),
        }
    }

    fn read(&self, reads: &mut [Read<'_>]) -> BucketResult<Vec<u64>> {
        let mut counts = vec![0; reads.len()];
        let mut asked = Vec::with_capacity(reads.len());
        for (nth, read) in reads.iter_mut().enumerate() {
            asked.push((nth, self.store("get", read.key)?, self.path("get", read.key)?, read));
        }
        let answers = stream::iter(asked).map(|(nth, store, path, read)| async move {
            let count = self.read_one(store, &path, read).await;
            count.map(|count| (nth, count)).map_err(|said| self.failed("get", read.key, said))
        });
        let mut answers = answers.buffer_unordered(self.requests_max);
        wait(self.runtime, ("get", ""), async {
            while let Some(answer) = answers.next().await {
                let (nth, count) = answer?;
                counts[nth] = count;
            }
            Ok(())
        })??;
        drop(answers);
        Ok(counts)
    }

    fn put(&self, puts: Vec<Put>) -> BucketResult<()> {
        let mut asked = Vec::with_capacity(puts.len());
        for put in puts {
            let store = self.store("put", &put.key)?;
            asked.push((store, self.path("put", &put.key)?, put));
        }
        wait(self.runtime, ("put", ""), upload::put_all(self, asked, PUTS_MAX))?
    }

    fn replace(&self, key: &str, known: Option<&Tag>, bytes: Vec<u8>) -> BucketResult<Replaced> {
        if key == BUCKET_ROOT && known.is_none() {
            self.refuse_place()?;
        }
        let (store, path) = (self.store("put", key)?, self.path("put", key)?);
        let lost = Lost::default();
        let mode = known.map_or(PutMode::Create, |tag| {
            PutMode::Update(UpdateVersion { e_tag: Some(tag.0.to_string()), version: None })
        });
        let put = wait(self.runtime, ("put", key), async {
            let _permits = self.put_permit().await;
            let mut options = PutOptions::from(mode);
            options.extensions.insert(lost.clone());
            store.put_opts(&path, PutPayload::from(bytes), options).await
        })?;
        match put {
            Ok(put) => tag_of("put", key, put.e_tag).map(Replaced::Done),
            Err(said) if is_refused(&said) && lost.is_any() => Ok(Replaced::Doubtful),
            Err(said) if is_refused(&said) => Ok(Replaced::Refused),
            Err(said) => Err(self.failed("put", key, said)),
        }
    }

    fn list(&self, prefix: &str) -> BucketResult<Vec<Object>> {
        let store = self.store("list", prefix)?;
        let whole = self.address.key(prefix);
        let mut listing = Listing::of(whole.clone());
        let listed: Answer<()> = wait(self.runtime, ("list", prefix), async {
            while self.list_page(store, &whole, &mut listing).await? {}
            Ok(())
        })?;
        listed.map_err(|said| self.failed("list", prefix, said))?;
        let mut found = listing.found;
        found.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }

    fn delete(&self, keys: Vec<String>) -> BucketResult<()> {
        let mut asked = Vec::with_capacity(keys.len());
        for key in &keys {
            asked.push((key, self.store("delete", key)?, self.path("delete", key)?));
        }
        let answers = stream::iter(asked).map(|(key, store, path)| async move {
            let _permit = self.permit().await;
            let one = stream::once(core::future::ready(Ok(path))).boxed();
            match store.delete_stream(one).next().await {
                Some(Err(said)) if !is_absent(&said) => Err(self.failed("delete", key, said)),
                _ => Ok(()),
            }
        });
        let mut answers = answers.buffer_unordered(self.requests_max);
        wait(self.runtime, ("delete", keys.first().map_or("", String::as_str)), async {
            while let Some(answer) = answers.next().await {
                answer?;
            }
            Ok(())
        })?
    }
}

/// The tag of an answer.
pub(crate) fn tag_of(doing: &'static str, key: &str, tag: Option<String>) -> BucketResult<Tag> {
    tag.map(|tag| Tag(tag.into())).ok_or_else(|| {
        let source = Box::new(NoTag);
        BucketError { failure: Failure::Invalid, doing, key: key.into(), source }
    })
}

impl Drop for Remote {
    fn drop(&mut self) {
        if self.mark.is_forked() {
            // What it would close is its parent's.
            core::mem::forget(self.store.take());
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remote").field(&self.written).finish()
    }
}
