//! An endpoint whose answer is lost on its way when it has made an object of parts, and which knows of no such upload afterwards.

use crate::bucket::pattern;
use crate::weed::{OWNER, Weed, listener, weed};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_remote::{Options, Remote, RemoteOutput};
use dolmen_rntuple::bucket::{Bucket, Failure, Got, Put};
use dolmen_rntuple::rootfile::Output;
use dolmen_types::IoBuf;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

const GONE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>NoSuchUpload</Code>\
    <Message>The specified upload does not exist.</Message></Error>";
/// Written in parts.
const LARGE_BYTES: usize = 17 << 20;

/// Passes requests on to the server; of those that make an object of parts the first answer is lost, and others are told that
/// there is no such upload. `is_done` says whether the first is passed on.
fn listen(weed: &'static Weed, is_done: bool) -> Remote {
    let listener = listener();
    let endpoint = Some(format!("http://{}", listener.local_addr().unwrap()));
    let has_lost = Arc::new(AtomicBool::new(false));
    dolmen_env::spawn("lossy", move || {
        for socket in listener.incoming() {
            let (socket, has_lost) = (socket.unwrap(), Arc::clone(&has_lost));
            dolmen_env::spawn("lossy", move || {
                // Ignored: who asks may have gone.
                let _passed = pass(socket, weed, is_done, &has_lost);
            })
            .unwrap();
        }
    })
    .unwrap();
    let repeat = Duration::from_millis(1);
    let options = Options { endpoint, repeats_max: 3, repeat, ..weed.options(OWNER) };
    Remote::open("s3://events/lossy", &options).unwrap()
}

fn pass(mut from: TcpStream, weed: &Weed, is_done: bool, has_lost: &AtomicBool) -> io::Result<()> {
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
    if completes && !(is_lost && is_done) {
        return match is_lost {
            true => Ok(()),
            false => write!(
                from,
                "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{GONE}",
                GONE.len()
            ),
        };
    }
    let mut to = weed.connect()?;
    to.write_all(text.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes())?;
    to.write_all(&body)?;
    let mut answer = Vec::new();
    to.read_to_end(&mut answer)?;
    if is_lost { Ok(()) } else { from.write_all(&answer) }
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
    let remote = listen(weed(), true);
    assert_eq!(put(&remote, "put", &large), Ok(()));
    assert!(is(&remote, "put", &large));
    // Also where one of the same size was before.
    for bytes in [&large, &other] {
        let remote = Arc::new(listen(weed(), true));
        grow(&remote, "grown", bytes).unwrap();
        assert!(is(&remote, "grown", bytes));
    }
}

#[test]
fn an_object_of_parts_that_was_not_made_is_an_error_also_where_another_of_its_size_was_before() {
    let (large, other) = (pattern(LARGE_BYTES), vec![7; LARGE_BYTES]);
    assert!(put(&listen(weed(), false), "unmade", &large).is_err());
    put(&weed().open("lossy"), "regrown", &other).unwrap();
    let remote = Arc::new(listen(weed(), false));
    assert!(grow(&remote, "regrown", &large).is_err());
    assert!(is(&remote, "regrown", &other));
}
