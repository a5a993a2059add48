//! How an endpoint is reached.

use crate::error::{Error, Result};
use core::fmt;
use core::time::Duration;
use std::path::PathBuf;

/// How an endpoint is reached; what is left open here is as the variables say that are named.
#[derive(Clone)]
pub struct Options {
    /// Its URL, of `http` or `https`; without a bucket. `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, else that of the region at Amazon.
    pub endpoint: Option<String>,
    /// `AWS_REGION`, `AWS_DEFAULT_REGION`, else `us-east-1`.
    pub region: Option<String>,
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key: Option<String>,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_key: Option<String>,
    /// `AWS_SESSION_TOKEN`.
    pub session_token: Option<String>,
    /// Whether requests are not signed, for buckets that everybody may read. `AWS_SKIP_SIGNATURE`.
    pub is_anonymous: Option<bool>,
    /// Whether the bucket is part of the host's name, and not of the path. `AWS_VIRTUAL_HOSTED_STYLE_REQUEST`, else not.
    pub is_virtual_host: Option<bool>,
    /// A file with certificates (PEM) of authorities, instead of those of the system. `AWS_CA_BUNDLE`.
    pub authorities: Option<PathBuf>,
    /// How often a request is repeated at most.
    pub repeats_max: u32,
    /// How long a request is repeated at most: one that begins before has [`patience`](Self::patience) more.
    pub repeat: Duration,
    /// How long nothing may come from an endpoint that was asked, before it is asked anew.
    pub patience: Duration,
    /// How long a connection may take to be there.
    pub connect: Duration,
    /// Requests under way at once, of all threads, at most.
    pub requests_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            access_key: None,
            secret_key: None,
            session_token: None,
            is_anonymous: None,
            is_virtual_host: None,
            authorities: None,
            repeats_max: 30,
            repeat: Duration::from_secs(60),
            patience: Duration::from_secs(30),
            connect: Duration::from_secs(5),
            requests_max: 64,
        }
    }
}

impl fmt::Debug for Options {
    /// Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, region, access_key, is_anonymous, repeats_max, repeat, .. } = self;
        f.debug_struct("Options")
            .field("endpoint", endpoint)
            .field("region", region)
            .field("access_key", access_key)
            .field("is_anonymous", is_anonymous)
            .field("repeats_max", repeats_max)
            .field("repeat", repeat)
            .finish_non_exhaustive()
    }
}

/// Who signs.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Signed {
    No,
    With { access_key: String, secret_key: String, session_token: Option<String> },
}

/// Options and variables taken together.
pub(crate) struct Settings {
    /// None for Amazon's of the region.
    pub(crate) endpoint: Option<String>,
    pub(crate) region: String,
    pub(crate) signed: Signed,
    pub(crate) is_virtual_host: bool,
    pub(crate) authorities: Option<PathBuf>,
}

impl Settings {
    /// What `options` say, and where they say nothing `variable` of a name.
    pub(crate) fn of(options: &Options, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let first = |given: &Option<String>, names: &[&str]| {
            given
                .clone()
                .filter(|given| !given.is_empty())
                .or_else(|| names.iter().find_map(|name| variable(name)))
        };
        let is_set = |given: Option<bool>, name: &str| {
            let is_true =
                |set: String| matches!(set.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on");
            given.unwrap_or_else(|| variable(name).is_some_and(is_true))
        };
        let endpoint = first(&options.endpoint, &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
        let signed = if is_set(options.is_anonymous, "AWS_SKIP_SIGNATURE") {
            Signed::No
        } else {
            let access_key = first(&options.access_key, &["AWS_ACCESS_KEY_ID"]).ok_or(Error::NoKeys)?;
            let secret_key = first(&options.secret_key, &["AWS_SECRET_ACCESS_KEY"]).ok_or(Error::NoKeys)?;
            // A token belongs to keys: those that are given do not come with that of others.
            let names: &[&str] = if options.access_key.is_some() { &[] } else { &["AWS_SESSION_TOKEN"] };
            Signed::With { access_key, secret_key, session_token: first(&options.session_token, names) }
        };
        Ok(Self {
            endpoint: endpoint.map(endpoint_of).transpose()?,
            region: first(&options.region, &["AWS_REGION", "AWS_DEFAULT_REGION"])
                .unwrap_or_else(|| "us-east-1".into()),
            signed,
            is_virtual_host: is_set(options.is_virtual_host, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
            authorities: options.authorities.clone().or_else(|| variable("AWS_CA_BUNDLE").map(PathBuf::from)),
        })
    }
}

/// The URL without a slash at its end.
fn endpoint_of(given: String) -> Result<String> {
    let is_url = |scheme: &str| given.strip_prefix(scheme).is_some_and(|host| !host.is_empty());
    let url = given.trim_end_matches('/');
    let parsed = reqwest::Url::parse(url).is_ok_and(|url| url.has_host() && url.query().is_none());
    if !(is_url("http://") || is_url("https://")) || !parsed {
        return Err(Error::Endpoint { endpoint: given.into() });
    }
    Ok(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &Options, set: &[(&str, &str)]) -> Result<Settings> {
        Settings::of(options, |name| {
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into())
        })
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "s")];

    #[test]
    fn variables_say_what_options_leave_open() {
        let set = [
            KEYS[0],
            KEYS[1],
            ("AWS_SESSION_TOKEN", "t"),
            ("AWS_DEFAULT_REGION", "far"),
            ("AWS_ENDPOINT_URL", "http://all"),
            ("AWS_ENDPOINT_URL_S3", "http://one/"),
            ("AWS_CA_BUNDLE", "/ca"),
        ];
        let settings = of(&Options::default(), &set).unwrap();
        assert_eq!(settings.endpoint.as_deref(), Some("http://one"));
        assert_eq!((settings.region.as_str(), settings.is_virtual_host), ("far", false));
        let signed = |access_key: &str, token: Option<&str>| Signed::With {
            access_key: access_key.into(),
            secret_key: "s".into(),
            session_token: token.map(Into::into),
        };
        assert!(settings.signed == signed("a", Some("t")));
        assert_eq!(settings.authorities, Some("/ca".into()));
        let options = Options {
            endpoint: Some("https://mine:1".into()),
            region: Some("near".into()),
            access_key: Some("mine".into()),
            is_virtual_host: Some(true),
            ..Options::default()
        };
        let settings = of(&options, &set).unwrap();
        assert_eq!(settings.endpoint.as_deref(), Some("https://mine:1"));
        assert_eq!((settings.region.as_str(), settings.is_virtual_host), ("near", true));
        assert!(settings.signed == signed("mine", None), "a token of other keys is not taken");
        let settings = of(&Options::default(), &KEYS).unwrap();
        assert_eq!((settings.endpoint, settings.region.as_str()), (None, "us-east-1"));
    }

    #[test]
    fn who_has_no_keys_says_so() {
        let options = Options::default();
        for set in [&[][..], &KEYS[..1], &KEYS[1..]] {
            assert!(matches!(of(&options, set), Err(Error::NoKeys)));
        }
        assert!(of(&options, &[("AWS_SKIP_SIGNATURE", "true")]).unwrap().signed == Signed::No);
        let anonymous = Options { is_anonymous: Some(true), ..Options::default() };
        assert!(of(&anonymous, &[]).unwrap().signed == Signed::No);
        let signed = Options { is_anonymous: Some(false), ..Options::default() };
        assert!(
            of(&signed, &[("AWS_SKIP_SIGNATURE", "true"), KEYS[0], KEYS[1]]).unwrap().signed != Signed::No
        );
    }

    #[test]
    fn an_endpoint_is_a_url_with_a_host() {
        for endpoint in ["localhost:8333", "ftp://x", "http://", "https:///", "http://a b", "http://h?x=1"] {
            let options = Options { endpoint: Some(endpoint.into()), ..Options::default() };
            assert!(matches!(of(&options, &KEYS), Err(Error::Endpoint { .. })), "{endpoint}");
        }
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        let options = Options {
            secret_key: Some("hush".into()),
            session_token: Some("hush".into()),
            ..Options::default()
        };
        assert!(!format!("{options:?}").contains("hush"));
    }
}
