//! Objects that were begun to be written in parts, and never completed: a list of them, which the library cannot ask for.

use crate::connect::Connector;
use crate::date;
use crate::error::{failed_status, untrue};
use crate::list::{PAGE_BYTES_MAX, unescaped};
use core::fmt::Write;
use dolmen_rntuple::bucket::Upload;
use futures_util::StreamExt;
use object_store::Result as Answer;
use object_store::aws::{AmazonS3, AwsAuthorizer};
use object_store::client::{HttpRequest, HttpRequestBody, HttpService};

/// Pages of a list at most, of a thousand each.
const PAGES_MAX: u32 = 10_000;

const NO_LIST: &str = "the answer is no list of what was not completed";

/// How a bucket is asked for what the library does not ask.
pub(crate) struct Raw {
    /// The bucket's own URL.
    pub(crate) url: String,
    pub(crate) region: String,
    pub(crate) is_signed: bool,
    pub(crate) connector: Connector,
}

/// A page of the list.
#[derive(Default, PartialEq, Eq, Debug)]
struct Page {
    /// Whole keys, what tells uploads apart, and when they were begun.
    found: Vec<Upload>,
    /// The key and the upload behind which the next page begins.
    next: Option<(String, String)>,
}

/// All whose whole keys begin with `prefix`.
pub(crate) async fn list(raw: &Raw, store: &AmazonS3, prefix: &str) -> Answer<Vec<Upload>> {
    let (mut found, mut next) = (Vec::new(), None::<(String, String)>);
    for _ in 0..PAGES_MAX {
        let mut url = format!("{}?prefix={}&uploads=", raw.url, encoded(prefix));
        if let Some((key, id)) = &next {
            // In the order of their names, in which they are signed.
            url = format!(
                "{}?key-marker={}&prefix={}&upload-id-marker={}&uploads=",
                raw.url,
                encoded(key),
                encoded(prefix),
                encoded(id)
            );
        }
        let page = page(&get(raw, store, &url).await?)?;
        if page.found.iter().any(|upload| !upload.key.starts_with(prefix)) {
            return Err(untrue("the list has a key that does not begin with what was asked for"));
        }
        found.extend(page.found);
        if page.next.is_none() {
            return Ok(found);
        }
        if page.next == next {
            break;
        }
        next = page.next;
    }
    Err(untrue("the list goes on where it was, so that it never ends"))
}

async fn get(raw: &Raw, store: &AmazonS3, url: &str) -> Answer<String> {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.uri_mut() = url.parse().map_err(|_other| untrue("the endpoint is no address"))?;
    if raw.is_signed {
        let credential = store.credentials().get_credential().await?;
        AwsAuthorizer::new(&credential, "s3", &raw.region).try_authorize(&mut request, None)?;
    }
    let answer = HttpService::call(&raw.connector, request).await;
    let answer =
        answer.map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })?;
    let (parts, body) = answer.into_parts();
    let (mut bytes, mut stream) = (Vec::new(), body.bytes_stream());
    while let Some(some) = stream.next().await {
        let some =
            some.map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })?;
        bytes.extend_from_slice(&some);
        if bytes.len() > PAGE_BYTES_MAX {
            return Err(untrue("the answer is larger than any page of a list"));
        }
    }
    let body = String::from_utf8(bytes).map_err(|_other| untrue(NO_LIST))?;
    if parts.status.is_success() { Ok(body) } else { Err(failed_status(parts.status.as_u16(), &body)) }
}

fn page(body: &str) -> Answer<Page> {
    let wrong = || untrue(NO_LIST);
    if !body.contains("<ListMultipartUploadsResult") || body.contains("<EncodingType>url") {
        return Err(wrong());
    }
    let mut parts = body.split("<Upload>");
    let mut rest = parts.next().unwrap_or("").to_owned();
    let mut found = Vec::new();
    for part in parts {
        let (upload, behind) = part.split_once("</Upload>").ok_or_else(wrong)?;
        rest.push_str(behind);
        let text = |name| text(upload, name).ok_or_else(wrong);
        let begun_ns = date::iso_ns(&text("Initiated")?).ok_or_else(wrong)?;
        found.push(Upload { key: text("Key")?, id: text("UploadId")?.into(), begun_ns });
    }
    let is_last = text(&rest, "IsTruncated").is_none_or(|truncated| truncated != "true");
    let next = match (text(&rest, "NextKeyMarker"), text(&rest, "NextUploadIdMarker")) {
        _ if is_last => None,
        (Some(key), Some(id)) => Some((key, id)),
        (Some(key), None) => Some((key, String::new())),
        (None, _) => return Err(wrong()),
    };
    Ok(Page { found, next })
}

/// The text of an element.
fn text(body: &str, name: &str) -> Option<String> {
    let (_, behind) = body.split_once(&format!("<{name}>"))?;
    unescaped(behind.split_once(&format!("</{name}>"))?.0)
}

/// A value as it stands in a URL, and is signed.
fn encoded(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a text takes all");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_it_says_and_nothing_else() {
        let upload = "<Upload><Key>x/a&amp;b</Key><UploadId>1+2/3</UploadId><Initiator><ID>me</ID></Initiator>\
                      <Initiated>2026-11-27T12:00:01.5Z</Initiated></Upload>";
        let body = |inside: &str| {
            format!(
                "<ListMultipartUploadsResult xmlns=\"x\"><Bucket>b</Bucket>{inside}</ListMultipartUploadsResult>"
            )
        };
        let found =
            vec![Upload { key: "x/a&b".into(), id: "1+2/3".into(), begun_ns: 1_795_780_801_000_000_000 }];
        assert_eq!(page(&body(upload)).unwrap(), Page { found: found.clone(), next: None });
        let more = "<IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>i</NextUploadIdMarker>";
        let next = Some(("k".to_owned(), "i".to_owned()));
        assert_eq!(page(&body(&format!("{more}{upload}"))).unwrap(), Page { found, next });
        assert_eq!(page(&body("<IsTruncated>false</IsTruncated>")).unwrap(), Page::default());
        for body in [
            "<ListBucketResult></ListBucketResult>".to_owned(),
            body("<IsTruncated>true</IsTruncated>"),
            body("<EncodingType>url</EncodingType>"),
            body("<Upload><Key>a</Key><UploadId>1</UploadId></Upload>"),
            body("<Upload><Key>a</Key><UploadId>1</UploadId><Initiated>now</Initiated></Upload>"),
            body("<Upload><Key>a</Key>"),
        ] {
            page(&body).unwrap_err();
        }
    }

    #[test]
    fn values_stand_in_a_url_as_they_are_signed() {
        assert_eq!(encoded("a/ü +%~-._"), "a%2F%C3%BC%20%2B%25~-._");
    }
}
