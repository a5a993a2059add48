//! An endpoint whose answer is lost on its way when it has made an object of parts, and which knows of no such upload afterwards.

use crate::bucket::pattern;
use crate::weed::{OWNER, Weed, listener, weed};
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_remote::{Options, Remote, RemoteOutput};
use dolmen_rntuple::bucket::{Bucket, BucketError, Failure, Got, Put};
use dolmen_rntuple::rootfile::Output;
use dolmen_types::IoBuf;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

const GONE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>NoSuchUpload</Code>\
    <Message>The specified upload does not exist.</Message></Error>";
/// Written in parts.
const LARGE_BYTES: usize = 17 << 20;
/// The key of an object that another writer puts there meanwhile.
const RACED: &str = "raced";

/// What happens to the first request that makes an object of parts, whose answer is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// It is passed on.
    Answer,
    /// It is not.
    Request,
    /// It is not, and another writer puts an object of the same size there.
    Race,
}

/// Passes requests on to the server; of those that make an object of parts the first answer is lost, and others are told that
/// there is no such upload. Whether nothing is there is not told, as it is not to keys that may not list.
fn listen(weed: &'static Weed, lost: Lost) -> Remote {
    let listener = listener();
    let endpoint = Some(format!("http://{}", listener.local_addr().unwrap()));
    let has_lost = Arc::new(AtomicBool::new(false));
    dolmen_env::spawn("lossy", move || {
        for socket in listener.incoming() {
            let (socket, has_lost) = (socket.unwrap(), Arc::clone(&has_lost));
            dolmen_env::spawn("lossy", move || {
                // Ignored: who asks may have gone.
                let _passed = pass(socket, weed, lost, &has_lost);
            })
            .unwrap();
        }
    })
    .unwrap();
    let options = Options { endpoint, repeats_max: 3, ..weed.options(OWNER) };
    Remote::open("s3://events/lossy", &options).unwrap()
}

fn say(to: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    write!(to, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn pass(mut from: TcpStream, weed: &Weed, lost: Lost, has_lost: &AtomicBool) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        from.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let text = String::from_utf8(head).map_err(io::Error::other)?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().map_err(io::Error::other)?];
    from.read_exact(&mut body)?;
    let completes = text.starts_with("POST ") && text.contains("uploadId=");
    let is_lost = completes && !has_lost.swap(true, Ordering::SeqCst);
    if completes && !is_lost {
        return say(&mut from, "404 Not Found", GONE);
    }
    if is_lost && lost != Lost::Answer {
        if lost == Lost::Race {
            put(&weed.open("lossy"), RACED, &[7; LARGE_BYTES]).unwrap();
        }
        return Ok(());
    }
    let mut to = weed.connect()?;
    to.write_all(text.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes())?;
    to.write_all(&body)?;
    let mut answer = Vec::new();
    to.read_to_end(&mut answer)?;
    if is_lost {
        return Ok(());
    }
    if text.starts_with("HEAD ") && answer.starts_with(b"HTTP/1.1 404") {
        return say(&mut from, "403 Forbidden", "");
    }
    from.write_all(&answer)
}

fn put(remote: &Remote, key: &str, bytes: &[u8]) -> Result<(), Failure> {
    let put = Put { key: key.into(), bytes: IoBuf::copy_of(bytes) };
    remote.put(vec![put]).map_err(|error| error.failure)
}

/// Writes an object piece by piece.
fn grow(remote: &Arc<Remote>, key: &str, bytes: &[u8]) -> io::Result<()> {
    let mut output = Box::new(RemoteOutput::create(remote, key).unwrap());
    for (nth, piece) in bytes.chunks(1 << 20).enumerate() {
        output.put_at((nth as u64) << 20, &[IoSlice::new(piece)])?;
    }
    output.finish()
}

fn is(remote: &Remote, key: &str, bytes: &[u8]) -> bool {
    matches!(remote.get(key, None), Ok(Got::Bytes(got, _)) if got == bytes)
}

#[test]
fn an_object_of_parts_of_which_the_answer_is_lost_is_there() {
    let (large, other) = (pattern(LARGE_BYTES), vec![7; LARGE_BYTES]);
    let remote = listen(weed(), Lost::Answer);
    assert_eq!(put(&remote, "put", &large), Ok(()));
    assert!(is(&remote, "put", &large));
    // Also where one of the same size was before.
    for bytes in [&large, &other] {
        let remote = Arc::new(listen(weed(), Lost::Answer));
        grow(&remote, "grown", bytes).unwrap();
        assert!(is(&remote, "grown", bytes));
    }
}

#[test]
fn an_object_of_parts_that_was_not_made_is_in_doubt_also_where_another_of_its_size_is_there() {
    let (large, other) = (pattern(LARGE_BYTES), vec![7; LARGE_BYTES]);
    let direct = weed().open("lossy");
    assert_eq!(put(&listen(weed(), Lost::Request), "unmade", &large), Err(Failure::Doubtful));
    put(&direct, "regrown", &other).unwrap();
    // One that was there before, and one that another writer put there meanwhile.
    for (lost, key) in [(Lost::Request, "regrown"), (Lost::Race, RACED)] {
        let remote = Arc::new(listen(weed(), lost));
        let told = grow(&remote, key, &large).unwrap_err();
        let bucket_error = told.get_ref().unwrap().downcast_ref::<BucketError>().unwrap();
        assert_eq!(bucket_error.failure, Failure::Doubtful);
        assert!(bucket_error.to_string().contains("may have done it"), "{told}");
        assert!(bucket_error.source.to_string().contains("it is not known whether the object was made"));
        assert!(is(&remote, key, &other));
    }
    assert_eq!(put(&listen(weed(), Lost::Race), RACED, &large), Err(Failure::Doubtful));
}
