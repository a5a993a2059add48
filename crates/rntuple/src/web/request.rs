//! What a request asks for.

use httparse::{EMPTY_HEADER, Request, Status};

/// Lines of a head at most.
const LINES_MAX: usize = 64;

/// Ranges of one request at most: what fits into a head, and more than any reader sends.
const RANGES_MAX: usize = 8192;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    Get,
    Head,
    Other,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    /// Without the slash before it, and decoded.
    pub(super) path: String,
    range: Option<String>,
    if_range: Option<String>,
    if_match: Option<String>,
    if_none_match: Option<String>,
    /// Whether the connection ends with the answer.
    pub(super) is_last: bool,
}

/// Bytes from `first` up to before `end`; there are some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) first: u64,
    pub(super) end: u64,
}

/// What of a file is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    Whole,
    One(Part),
    Several(Vec<Part>),
    Unsatisfiable,
    /// Nothing, as it is another file than the one that is meant.
    OfAnother,
    /// Nothing, as who asks has it.
    Nothing,
}

/// The request that `received` begins with, and how long its head is; none if the head has not come to its end; the status of what is no
/// request.
pub(super) fn parse(received: &[u8], bytes_max: usize) -> Result<Option<(usize, Ask)>, &'static str> {
    let mut headers = [EMPTY_HEADER; LINES_MAX];
    let mut request = Request::new(&mut headers);
    let head_bytes = match request.parse(received) {
        Ok(Status::Complete(bytes)) => bytes,
        Ok(Status::Partial) if received.len() < bytes_max => return Ok(None),
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err("431 Request Header Fields Too Large");
        }
        Err(_other) => return Err("400 Bad Request"),
    };
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => Method::Other,
    };
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| core::str::from_utf8(header.value).ok()).map(str::trim)
    };
    // Lines of one name are one list.
    let list = |name: &str| {
        let lines = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        let lines: Vec<_> = lines.map(|header| String::from_utf8_lossy(header.value)).collect();
        (!lines.is_empty()).then(|| lines.join(","))
    };
    let has_body =
        header("content-length").is_some_and(|length| length != "0") || header("transfer-encoding").is_some();
    let is_old = request.version == Some(0);
    let is_close = |option: &str| option.trim().eq_ignore_ascii_case("close");
    let stays = list("connection").map_or(!is_old, |options| !options.split(',').any(is_close));
    let target = of_server(request.path.unwrap_or("/"));
    let path = target.split(['?', '#']).next().unwrap_or("/");
    let ask = Ask {
        method,
        path: decoded(path.strip_prefix('/').unwrap_or(path)).ok_or("400 Bad Request")?,
        // Of other methods it means nothing.
        range: header("range").filter(|_| method == Method::Get).map(str::to_owned),
        if_range: header("if-range").map(str::to_owned),
        if_match: list("if-match"),
        if_none_match: list("if-none-match"),
        // What follows a body that nobody reads would be taken for a request.
        is_last: !stays || has_body || is_old,
    };
    Ok(Some((head_bytes, ask)))
}

/// What is asked for, without the server that it is asked of: with that ROOT asks, as of a proxy.
///
/// //= rfc:9112 3.2.2: a server accepts the absolute form
fn of_server(target: &str) -> &str {
    let scheme = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let Some(rest) = scheme.and_then(|_| target.get(7..)) else { return target };
    rest.find(['/', '?', '#']).map_or("/", |end| &rest[end..])
}

/// Text without percent signs for its bytes; none if it is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        bytes.push(u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

/// Whether a list of tags has one, or any; `tag` is a strong one.
fn has(tags: &str, tag: &str, weak: bool) -> bool {
    let own = |one: &str| if weak { one.strip_prefix("W/").unwrap_or(one) == tag } else { one == tag };
    tags.split(',').map(str::trim).any(|one| one == "*" || own(one))
}

/// A position: digits and nothing else.
fn position(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// What of a file of that tag and length is asked for. A header that is none, or asks for parts of another file, asks for all.
///
/// //= rfc:9110 13.1.1, 13.1.2, 13.2.2: whether it is the one that is meant is asked first
/// //= rfc:9110 14.1, 14.1.2, 14.2: byte ranges; a range that cannot be understood is as none
pub(super) fn asked(ask: &Ask, tag: &str, length_bytes: u64) -> Asked {
    if ask.if_match.as_deref().is_some_and(|tags| !has(tags, tag, false)) {
        return Asked::OfAnother;
    }
    if ask.if_none_match.as_deref().is_some_and(|tags| has(tags, tag, true)) {
        return Asked::Nothing;
    }
    let is_for_other = ask.if_range.as_deref().is_some_and(|other| other != tag);
    let of_unit = ask.range.as_deref().and_then(|range| range.trim().split_once('='));
    let ranges = of_unit.filter(|(unit, _)| unit.eq_ignore_ascii_case("bytes") && !is_for_other);
    let Some((_, ranges)) = ranges else { return Asked::Whole };
    if ranges.split(',').all(|range| range.trim().is_empty()) {
        return Asked::Whole;
    }
    let mut parts = Vec::new();
    for (nth, range) in ranges.split(',').map(str::trim).filter(|range| !range.is_empty()).enumerate() {
        if nth >= RANGES_MAX {
            return Asked::Whole;
        }
        let Some((first, last)) = range.split_once('-') else { return Asked::Whole };
        let (first, last) = (first.trim(), last.trim());
        let part = if first.is_empty() {
            let Some(count) = position(last) else { return Asked::Whole };
            Part { first: length_bytes.saturating_sub(count), end: length_bytes }
        } else {
            let Some(first) = position(first) else { return Asked::Whole };
            let end = if last.is_empty() {
                length_bytes
            } else {
                let Some(last) = position(last) else { return Asked::Whole };
                if last < first {
                    return Asked::Whole;
                }
                length_bytes.min(last.saturating_add(1))
            };
            Part { first, end }
        };
        if part.first < part.end {
            parts.push(part);
        }
    }
    match parts[..] {
        [] => Asked::Unsatisfiable,
        [one] => Asked::One(one),
        // Who asks for more than there is would have it sent many times.
        _ if parts.iter().map(|part| part.end - part.first).fold(0, u64::saturating_add) > length_bytes => {
            Asked::Whole
        }
        _ => Asked::Several(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Method, Part, asked, parse};

    fn of(range: &str) -> Asked {
        let head = format!("GET /a HTTP/1.1\r\nRange: {range}\r\n\r\n");
        let (_, ask) = parse(head.as_bytes(), 1000).unwrap().unwrap();
        asked(&ask, "\"t\"", 100)
    }

    #[test]
    fn ranges_are_those_of_the_standard() {
        let part = |first, end| Part { first, end };
        assert_eq!(of("bytes=0-0"), Asked::One(part(0, 1)));
        assert_eq!(of("Bytes=0-0"), Asked::One(part(0, 1)));
        assert_eq!(of("bytes=90-"), Asked::One(part(90, 100)));
        assert_eq!(of("bytes=-7"), Asked::One(part(93, 100)));
        assert_eq!(of("bytes=-700"), Asked::One(part(0, 100)));
        assert_eq!(of("bytes=5-1000"), Asked::One(part(5, 100)));
        assert_eq!(of("bytes=1-2, 4-5 ,-1"), Asked::Several(vec![part(1, 3), part(4, 6), part(99, 100)]));
        for none in ["bytes=100-", "bytes=-0", "bytes=200-300"] {
            assert_eq!(of(none), Asked::Unsatisfiable, "{none}");
        }
        let not = [
            "bytes=5-4",
            "bytes=a-b",
            "lines=1-2",
            "bytes=1",
            "bytes=1-x",
            "bytes=",
            "bytes=,",
            "bytes=+0-+1",
        ];
        for whole in not.into_iter().chain(["bytes=0-99,0-99"]) {
            assert_eq!(of(whole), Asked::Whole, "{whole}");
        }
        let (_, head) = parse(b"HEAD /a HTTP/1.1\r\nRange: bytes=0-0\r\n\r\n", 1000).unwrap().unwrap();
        assert_eq!(asked(&head, "\"t\"", 100), Asked::Whole, "of GET alone");
    }

    #[test]
    fn a_path_is_what_comes_behind_one_slash() {
        let path = |target: &str| {
            let head = format!("GET {target} HTTP/1.1\r\nConnection: keep-alive, Close\r\n\r\n");
            parse(head.as_bytes(), 1000).map(|parsed| {
                let (_, ask) = parsed.unwrap();
                assert!(ask.is_last);
                ask.path
            })
        };
        assert_eq!(path("/a%20b").unwrap(), "a b");
        assert_eq!(path("//data/a").unwrap(), "/data/a");
        assert_eq!(path("http://h:1//data/a?x").unwrap(), "/data/a");
        assert_eq!(path("/a%+5").err(), Some("400 Bad Request"));
    }

    #[test]
    fn a_range_of_another_file_is_the_whole_of_this() {
        let head = "GET /a HTTP/1.1\r\nRange: bytes=0-1\r\nIf-Range: \"other\"\r\n\r\n";
        let (_, ask) = parse(head.as_bytes(), 1000).unwrap().unwrap();
        assert_eq!(asked(&ask, "\"t\"", 100), Asked::Whole);
        assert_eq!(asked(&ask, "\"other\"", 100), Asked::One(Part { first: 0, end: 2 }));
    }

    #[test]
    fn who_means_another_file_or_has_this_one_gets_nothing_of_it() {
        let asked = |conditions: &str| {
            let head = format!("GET /a HTTP/1.1\r\nRange: bytes=0-9\r\n{conditions}\r\n");
            let (_, ask) = parse(head.as_bytes(), 1000).unwrap().unwrap();
            asked(&ask, "\"t\"", 100)
        };
        let part = Asked::One(Part { first: 0, end: 10 });
        for own in ["If-Match: \"t\"", "If-Match: \"a\"\r\nif-match: \"b\", \"t\"", "If-Match: *"] {
            assert_eq!(asked(&format!("{own}\r\n")), part, "{own}");
        }
        for other in ["If-Match: \"a\"", "If-Match: W/\"t\"", "If-Match: t", "If-Match:"] {
            assert_eq!(asked(&format!("{other}\r\n")), Asked::OfAnother, "{other}");
        }
        assert_eq!(asked("If-None-Match: \"a\"\r\n"), part);
        for known in ["If-None-Match: \"a\", \"t\"", "If-None-Match: W/\"t\"", "If-None-Match: *"] {
            assert_eq!(asked(&format!("{known}\r\n")), Asked::Nothing, "{known}");
        }
        assert_eq!(asked("If-Match: \"a\"\r\nIf-None-Match: \"t\"\r\n"), Asked::OfAnother);
    }

    #[test]
    fn heads_come_in_parts_and_have_a_limit() {
        let head = b"HEAD /a%20b?x=1 HTTP/1.1\r\nHost: h\r\n\r\nGET";
        for count in 0..head.len() - 3 {
            assert_eq!(parse(&head[..count], 1000), Ok(None), "{count}");
        }
        let (bytes, ask) = parse(head, 1000).unwrap().unwrap();
        assert_eq!(
            (bytes, ask.method, &*ask.path, ask.is_last),
            (head.len() - 3, Method::Head, "a b", false)
        );
        assert_eq!(parse(b"GET /aaaaaaaaaaaa", 10), Err("431 Request Header Fields Too Large"));
        assert_eq!(parse(b"\x00\r\n\r\n", 1000), Err("400 Bad Request"));
        assert_eq!(parse(b"GET /%zz HTTP/1.1\r\n\r\n", 1000), Err("400 Bad Request"));
        let path = |target: &str| {
            parse(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes(), 1000).unwrap().unwrap().1.path
        };
        assert_eq!(path("http://h:80/a/b.root?x"), "a/b.root");
        assert_eq!(path("HTTP://[::1]:80/a%2fb"), "a/b");
        assert_eq!(
            (&*path("http://h"), &*path("http://h?a/b"), &*path("/http://h/a")),
            ("", "", "http://h/a")
        );
        for last in [
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: Close\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
        ] {
            assert!(parse(last.as_bytes(), 1000).unwrap().unwrap().1.is_last, "{last}");
        }
    }
}
