//! Endpoints that answer what none should.

use dolmen_env::{Address, Bell, Listener, Moved, Socket, Waiter};
use dolmen_remote::{Error, Options, Remote, RemoteFile};
use dolmen_rntuple::bucket::{Bucket, BucketError, BucketResult, Failure, Got, Read, Replaced, Tag};
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::{Source, Want};
use std::io::{IoSlice, Write};
use std::sync::{Arc, Mutex};

/// What is answered to a request, which is its first line and its headers.
type Answers = Box<dyn FnMut(&str) -> Vec<u8> + Send>;

/// What the endpoint waits for: who asks, and its end.
const NEW: u64 = 0;
const STOP: u64 = 1;

/// An endpoint that runs as long as the value lives.
struct Hostile {
    address: Address,
    stop: Arc<Bell>,
}

impl Hostile {
    fn start(mut answers: Answers) -> Self {
        let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listener.address().clone();
        let stop = Arc::new(Bell::new().unwrap());
        let stopped = Arc::clone(&stop);
        dolmen_env::spawn("hostile", move || {
            let waiter = Waiter::new().unwrap();
            waiter.add(&listener, NEW, false).unwrap();
            waiter.add(&*stopped, STOP, false).unwrap();
            let mut ready = Vec::new();
            loop {
                waiter.wait(None, &mut ready).unwrap();
                if ready.iter().any(|ready| ready.token == STOP) {
                    return;
                }
                if let Some(socket) = listener.accept().unwrap() {
                    // Ignored: who asked may have gone.
                    let _served = serve(&socket, &mut answers);
                }
            }
        })
        .unwrap();
        Self { address, stop }
    }

    /// The same answer to all requests.
    fn always(answer: Vec<u8>) -> Self {
        Self::start(Box::new(move |_| answer.clone()))
    }

    fn open(&self, prefix: &str) -> Remote {
        self.open_patient(prefix, 0)
    }

    fn open_patient(&self, prefix: &str, repeats_max: u32) -> Remote {
        let options = Options {
            endpoint: Some(self.address.to_string().replace("tcp://", "http://")),
            is_anonymous: Some(true),
            repeats_max,
            ..Options::default()
        };
        Remote::open(&format!("s3://events/{prefix}"), &options).unwrap()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.stop.ring();
    }
}

fn serve(socket: &Socket, answers: &mut Answers) -> dolmen_env::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        match socket.read(&mut part)? {
            Moved::Bytes(count) => request.extend_from_slice(&part[..count]),
            Moved::Later => {
                socket.wait(true, false, None)?;
            }
            Moved::End => return Ok(()),
        }
    }
    let answer = answers(str::from_utf8(&request).unwrap());
    let mut rest = &answer[..];
    while !rest.is_empty() {
        match socket.write(&[IoSlice::new(rest)])? {
            Moved::Bytes(count) => rest = &rest[count..],
            Moved::Later => {
                socket.wait(false, true, None)?;
            }
            Moved::End => return Ok(()),
        }
    }
    Ok(())
}

/// An answer with a body, of which nothing but the end of the connection says how long it is, if `length` is not what it has.
fn answer(status: &str, headers: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}").into_bytes();
    if length == body.len() {
        write!(answer, "Content-Length: {length}\r\n\r\n").unwrap();
        answer.extend_from_slice(body);
        return answer;
    }
    // The pieces say when the body ends, and not its length.
    write!(answer, "Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    write!(answer, "{:x}\r\n", body.len()).unwrap();
    answer.extend_from_slice(body);
    answer.extend_from_slice(b"\r\n0\r\n\r\n");
    answer
}

const TAG: &str = "ETag: \"one\"\r\n";

/// A part of an object of `whole` bytes that is said to be what was asked for, with so many bytes more or fewer.
fn part(request: &str, whole: &[u8], more: isize, tag: &str) -> Vec<u8> {
    let (from, to) = asked(request);
    let to = to.min(whole.len() - 1);
    let mut body = whole[from..=to].to_vec();
    body.resize(body.len().checked_add_signed(more).unwrap_or(0), b'Z');
    let headers = format!("{tag}Content-Range: bytes {from}-{to}/{}\r\n", whole.len());
    answer("206 Partial Content", &headers, body.len(), &body)
}

/// First and last byte of what is asked for.
fn asked(request: &str) -> (usize, usize) {
    let range = request.lines().find_map(|line| line.strip_prefix("range: bytes=")).unwrap();
    let (from, to) = range.split_once('-').unwrap();
    (from.parse().unwrap(), to.parse().unwrap())
}

fn is_other<T: core::fmt::Debug>(result: BucketResult<T>, why: &str) {
    let error = result.unwrap_err();
    let told = told(&error);
    assert!(error.failure == Failure::Other && told.contains(why), "{error:?}");
}

fn told(error: &BucketError) -> String {
    error.source.to_string()
}

fn read(remote: &Remote, bytes: usize) -> BucketResult<Vec<u64>> {
    remote.read(&mut [Read { key: "a", offset: 10, into: &mut vec![0; bytes] }])
}

#[test]
fn a_part_that_is_longer_or_shorter_than_it_says_is_an_error() {
    for (more, why) in [(1, "more bytes"), (1000, "more bytes"), (-1, "fewer bytes"), (-50, "fewer bytes")] {
        let hostile = Hostile::start(Box::new(move |request| part(request, &[1; 100], more, TAG)));
        let remote = hostile.open("x");
        is_other(read(&remote, 50), why);
        is_other(read(&remote, 1000), why);
    }
    let honest = Hostile::start(Box::new(|request| part(request, &[1; 100], 0, TAG)));
    assert_eq!(read(&honest.open("x"), 50).unwrap(), [50]);
    assert_eq!(read(&honest.open("x"), 1000).unwrap(), [90]);
}

#[test]
fn a_part_of_which_the_last_byte_is_behind_all_numbers_is_an_error() {
    let headers = format!("{TAG}Content-Range: bytes 10-{0}/{0}\r\n", u64::MAX);
    let hostile = Hostile::always(answer("206 Partial Content", &headers, 3, b"abc"));
    read(&hostile.open("x"), 50).unwrap_err();
}

#[test]
fn an_object_that_is_longer_or_shorter_than_it_says_is_an_error() {
    for (length, why) in [(2, "more bytes"), (4, "fewer bytes"), (1 << 60, "fewer bytes")] {
        let hostile = Hostile::always(answer("200 OK", TAG, length, b"abc"));
        is_other(hostile.open("x").get("a", None), why);
    }
    let honest = Hostile::always(answer("200 OK", TAG, 3, b"abc"));
    let Got::Bytes(bytes, _) = honest.open("x").get("a", None).unwrap() else { panic!("it is there") };
    assert_eq!(bytes, b"abc");
}

#[test]
fn an_object_is_not_the_same_if_none_was_known() {
    let hostile = Hostile::always(answer("304 Not Modified", TAG, 0, b""));
    let remote = hostile.open("x");
    assert_eq!(remote.get("a", Some(&Tag("\"one\"".into()))).unwrap(), Got::Same);
    remote.get("a", None).unwrap_err();
}

#[test]
fn an_object_is_not_there_if_the_store_says_so_and_nobody_else() {
    let said = |body: &str| Hostile::always(answer("404 Not Found", "", body.len(), body.as_bytes()));
    let code = |code: &str| said(&format!("<Error><Code>{code}</Code><Message>none</Message></Error>"));
    let absent = code("NoSuchKey");
    assert_eq!(absent.open("x").get("a", None).unwrap(), Got::None);
    assert_eq!(read(&absent.open("x"), 5).unwrap(), [0]);
    let gone = RemoteFile::of(&Arc::new(absent.open("x")), "a");
    assert!(matches!(gone, Err(Error::NoObject { .. })), "{gone:?}");
    let others = [
        (code("NoSuchBucket"), Failure::NoBucket),
        (code("NoSuchUpload"), Failure::Invalid),
        (said("<html>404 page not found</html>"), Failure::Invalid),
        (said(""), Failure::Invalid),
    ];
    for (hostile, failure) in others {
        // The word in a key is none of the store.
        for prefix in ["x", "<Code>NoSuchKey<"] {
            let remote = Arc::new(hostile.open(prefix));
            assert_eq!(remote.get("Code>", None).unwrap_err().failure, failure);
            assert_eq!(read(&remote, 5).unwrap_err().failure, failure);
            let opened = RemoteFile::of(&remote, "a");
            assert!(matches!(&opened, Err(Error::Bucket(error)) if error.failure == failure), "{opened:?}");
        }
    }
}

/// Bytes of a file whose middle is not read when it is opened.
const FILE_BYTES: usize = 1 << 20;

fn middle(file: &RemoteFile) -> dolmen_rntuple::Result<Vec<u8>> {
    let mut into = vec![0; 5000];
    let locator = Locator::File { offset: 400_000, bytes: 5000 };
    file.fetch(&mut [Want { locator, into: &mut into }])?;
    Ok(into)
}

#[test]
fn a_file_whose_parts_are_longer_or_shorter_than_they_say_is_an_error() {
    for more in [1, 1000, -1, -3000] {
        // From the third request on, or from the first.
        for lies_from in [3, 1] {
            let mut nth = 0;
            let hostile = Hostile::start(Box::new(move |request| {
                nth += 1;
                part(request, &vec![7; FILE_BYTES], if nth < lies_from { 0 } else { more }, TAG)
            }));
            let file = RemoteFile::of(&Arc::new(hostile.open("x")), "f.root");
            if lies_from == 1 {
                assert!(
                    matches!(&file, Err(Error::Bucket(error)) if error.failure == Failure::Other),
                    "{file:?}"
                );
            } else {
                middle(&file.unwrap()).unwrap_err();
            }
        }
    }
    let mut nth = 0;
    let honest = Hostile::start(Box::new(move |request| {
        nth += 1;
        assert_eq!(
            request.contains("if-match: \"one\""),
            nth > 1,
            "each asks for what was seen first: {request}"
        );
        part(request, &vec![7; FILE_BYTES], 0, TAG)
    }));
    let file = RemoteFile::of(&Arc::new(honest.open("x")), "f.root").unwrap();
    assert!(middle(&file).unwrap() == [7; 5000]);
}

#[test]
fn a_small_file_that_is_longer_than_it_says_is_an_error() {
    let hostile = Hostile::start(Box::new(|request| part(request, &[7; 1000], 1000, TAG)));
    let file = RemoteFile::of(&Arc::new(hostile.open("x")), "f.root");
    assert!(matches!(&file, Err(Error::Bucket(error)) if told(error).contains("more bytes")), "{file:?}");
}

#[test]
fn a_file_that_is_another_is_an_error_though_the_endpoint_knows_no_conditions() {
    for (tag, bytes) in [("ETag: \"two\"\r\n", FILE_BYTES), ("", FILE_BYTES), (TAG, FILE_BYTES - 1)] {
        let mut nth = 0;
        let hostile = Hostile::start(Box::new(move |request| {
            nth += 1;
            let (tag, bytes) = if nth < 3 { (TAG, FILE_BYTES) } else { (tag, bytes) };
            part(request, &vec![7; bytes], 0, tag)
        }));
        let file = RemoteFile::of(&Arc::new(hostile.open("x")), "f.root").unwrap();
        let error = middle(&file).unwrap_err();
        assert!(format!("{error:?}").contains("another object"), "{error:?}");
    }
}

/// A page of a list.
fn page(keys: &[&str], token: Option<&str>) -> Vec<u8> {
    let mut body =
        "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            .to_owned();
    for key in keys {
        let written = "<LastModified>2026-11-27T12:00:00.000Z</LastModified><Size>5</Size>";
        body += &format!("<Contents><Key>{key}</Key>{written}<ETag>&quot;e&quot;</ETag></Contents>");
    }
    if let Some(token) = token {
        body +=
            &format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>");
    }
    body += "</ListBucketResult>";
    answer("200 OK", "Content-Type: application/xml\r\n", body.len(), body.as_bytes())
}

fn keys(remote: &Remote, prefix: &str) -> Vec<String> {
    remote.list(prefix).unwrap().into_iter().map(|object| object.key).collect()
}

#[test]
fn a_list_that_never_ends_is_an_error() {
    let same_token = Hostile::always(page(&[], Some("t")));
    is_other(same_token.open("x").list(""), "never ends");
    let mut nth = 0;
    let same_keys = Hostile::start(Box::new(move |_| {
        nth += 1;
        page(&["x/a", "x/b"], Some(&nth.to_string()))
    }));
    is_other(same_keys.open("x").list(""), "not in order");
    let downwards = Hostile::always(page(&["x/b", "x/a"], None));
    is_other(downwards.open("x").list(""), "not in order");
}

#[test]
fn foreign_keys_of_a_list_are_left_out() {
    let sorted = ["x/", "x/&#x1;", "x//a", "x/c//x", "x/m/../b", "x/m/./b", "x/m/a//b", "x/m/dir/", "x/n"];
    let hostile = Hostile::always(page(&sorted, None));
    assert_eq!(keys(&hostile.open("x"), ""), ["n"]);
    let alone = Hostile::always(page(&["/a", "a"], None));
    assert_eq!(keys(&alone.open(""), ""), ["a"]);
}

#[test]
fn keys_of_a_list_are_what_they_are() {
    let written = ["x/ a", "x/%2F", "x/a%2Fb", "x/b ", "x/c&amp;amp;&lt;&#228;"];
    let hostile = Hostile::always(page(&written, None));
    let wanted = [" a", "%2F", "a%2Fb", "b ", "c&amp;<ä"];
    assert_eq!(keys(&hostile.open("x"), ""), wanted);
    assert_eq!(hostile.open("x").list("").unwrap()[0].bytes, 5);
}

#[test]
fn a_list_of_what_was_not_asked_for_is_an_error() {
    is_other(Hostile::always(page(&["y/a"], None)).open("x").list(""), "does not begin");
    is_other(Hostile::always(page(&["x/a"], None)).open("x").list("b"), "does not begin");
    let bodies = [
        ("<html></html>", "no list"),
        ("<ListBucketResult><EncodingType>url</EncodingType></ListBucketResult>", "encoded"),
        ("<ListBucketResult><Contents><Key><![CDATA[x/a]]></Key></Contents></ListBucketResult>", "no list"),
        ("<ListBucketResult><!--<Key>x/a</Key>--></ListBucketResult>", "other keys"),
    ];
    for (body, why) in bodies {
        let hostile = Hostile::always(answer("200 OK", "", body.len(), body.as_bytes()));
        is_other(hostile.open("x").list(""), why);
    }
}

#[test]
fn pages_follow_each_other_as_their_tokens_say() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&asked);
    let honest = Hostile::start(Box::new(move |request| {
        let line = request.lines().next().unwrap().to_owned();
        let answer = match (line.contains("token=one"), line.contains("token=two")) {
            (true, _) => page(&[], Some("two")),
            (_, true) => page(&["x/b"], Some("")),
            _ => page(&["x/a"], Some("one")),
        };
        told.lock().unwrap().push(line);
        answer
    }));
    assert_eq!(keys(&honest.open("x"), ""), ["a", "b"]);
    let asked = asked.lock().unwrap();
    assert!(asked.len() == 3 && asked.iter().all(|line| line.contains("prefix=x%2F")), "{asked:?}");
}

#[test]
fn objects_are_deleted_one_by_one_whatever_the_endpoint_says_of_others() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let hostile = Hostile::start(Box::new(move |request| {
        let line = request.lines().next().unwrap();
        noted.lock().unwrap().push(line.to_owned());
        let body = "<DeleteResult><Deleted><Key>another</Key></Deleted></DeleteResult>";
        answer("200 OK", "Content-Type: application/xml\r\n", body.len(), body.as_bytes())
    }));
    let remote = hostile.open("x");
    remote.delete(vec!["a".into(), "b/c".into()]).unwrap();
    let mut asked = asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(asked, ["DELETE /events/x/a HTTP/1.1", "DELETE /events/x/b/c HTTP/1.1"]);
}

#[test]
fn what_is_to_be_replaced_and_is_gone_is_not_replaced_and_any_other_404_names_the_bucket() {
    let said = |body: &str| Hostile::always(answer("404 Not Found", "", body.len(), body.as_bytes()));
    let tag = Tag("\"one\"".into());
    let gone = said("<Error><Code>NoSuchKey</Code></Error>");
    assert_eq!(gone.open("x").replace("root", Some(&tag), Vec::new()).unwrap(), Replaced::Refused);
    for (hostile, known) in [(&gone, None), (&said("<html>not found</html>"), Some(&tag)), (&said(""), None)]
    {
        let error = hostile.open("x").replace("root", known, Vec::new()).unwrap_err();
        assert_eq!(error.failure, Failure::Invalid);
        assert!(told(&error).contains("bucket \"events\""), "{error:?}");
    }
}

#[test]
fn what_is_not_replaced_is_in_doubt_only_if_an_answer_was_lost() {
    let tag = Tag("\"one\"".into());
    let first = |status: &'static str, wanted: Replaced| {
        let mut is_first = true;
        let hostile = Hostile::start(Box::new(move |_| {
            let status = if core::mem::take(&mut is_first) { status } else { "412 Precondition Failed" };
            answer(status, "", 0, b"")
        }));
        let remote = hostile.open_patient("x", 3);
        assert_eq!(remote.replace("root", Some(&tag), Vec::new()).unwrap(), wanted, "{status}");
        assert_eq!(remote.replace("root", Some(&tag), Vec::new()).unwrap(), Replaced::Refused, "{status}");
    };
    first("412 Precondition Failed", Replaced::Refused);
    first("409 Conflict", Replaced::Refused);
    first("500 Internal Server Error", Replaced::Doubtful);
    first("504 Gateway Timeout", Replaced::Doubtful);
}

#[test]
fn the_time_is_that_of_who_answers_for_the_store() {
    let dated = |status: &str, date: &str| {
        let answer = answer(status, &format!("{TAG}Date: {date}\r\n"), 0, b"");
        Hostile::always(answer)
    };
    let now_s = |hostile: &Hostile| {
        let remote = hostile.open("x");
        assert_eq!(remote.now_ns(), None, "nobody has answered");
        drop(remote.get("a", Some(&Tag("\"one\"".into()))));
        remote.now_ns().map(|now_ns| now_ns / 1_000_000_000)
    };
    for status in ["200 OK", "304 Not Modified", "412 Precondition Failed"] {
        let found = now_s(&dated(status, "Sun, 06 Nov 1994 08:49:37 GMT")).unwrap();
        assert!((784_111_777..784_115_000).contains(&found), "{status}: {found}");
    }
    assert_eq!(now_s(&dated("404 Not Found", "Sun, 06 Nov 1994 08:49:37 GMT")), None);
    assert_eq!(now_s(&dated("200 OK", "yesterday")), None);
}
