//! Files that are nowhere, as a reader over HTTP gets them.

use crate::made::file;
use crate::read::{numbers, values_of};
use crate::write::Folder;
use dolmen_env::{Address, Moved, Socket};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::rootfile::{FileOptions, FileTime, VirtualFile};
use dolmen_rntuple::web::{Served, Shown};
use dolmen_rntuple::{Error, Memory, Ntuple};
use std::io::IoSlice;
use std::time::Duration;

const HOW: crate::made::How = crate::made::How {
    compression: Compression::None,
    elements_of_a_page: 100,
    entries_of_a_cluster: 500,
    clusters_of_a_group: 2,
    has_checksums: true,
};

/// What is served, and its bytes.
fn served(folder: &Folder) -> (Served, Vec<u8>) {
    let of = crate::made::Type::Number(ColumnKind::Int64);
    let (bytes, anchor) = file(&of, &values_of(&of, 2000, &mut numbers(7)), HOW);
    let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
    let options = FileOptions { time: FileTime::of_unix(0), compression: Compression::None };
    let file = VirtualFile::new(ntuple, "made.root", options).unwrap();
    let mut all = vec![0; usize::try_from(file.length_bytes()).unwrap()];
    file.read_at(0, &mut all).unwrap();
    let shown = Shown {
        name: "a b/made.root".into(),
        length_bytes: file.length_bytes(),
        read: Box::new(move |offset, into| file.read_at(offset, into)),
    };
    (Served::start(&Address::Unix(folder.0.join("socket")), vec![shown]).unwrap(), all)
}

struct Reader(Socket, Vec<u8>);

impl Reader {
    fn new(served: &Served) -> Self {
        Self(Socket::connect(served.address(), Duration::from_secs(10)).unwrap(), Vec::new())
    }

    fn ask(&self, text: &str) {
        assert_eq!(self.0.write(&[IoSlice::new(text.as_bytes())]).unwrap(), Moved::Bytes(text.len()));
    }

    /// Reads until there are so many bytes; fewer if the other end goes.
    fn until(&mut self, is_enough: impl Fn(&[u8]) -> bool) {
        let mut part = vec![0; 64 << 10];
        while !is_enough(&self.1) {
            match self.0.read(&mut part).unwrap() {
                Moved::Bytes(count) => self.1.extend_from_slice(&part[..count]),
                Moved::Later => {
                    assert!(self.0.wait(true, false, Some(Duration::from_secs(60))).unwrap().readable)
                }
                Moved::End => return,
            }
        }
    }

    /// The head and the body of the next answer, which has one if `has_body`.
    fn answer(&mut self, has_body: bool) -> (String, Vec<u8>) {
        let end = |bytes: &[u8]| bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        self.until(|bytes| end(bytes).is_some());
        let head_bytes = end(&self.1).unwrap();
        let head = String::from_utf8(self.1[..head_bytes].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        let length: usize = if has_body { length.parse().unwrap() } else { 0 };
        self.until(|bytes| bytes.len() >= head_bytes + length);
        let rest = self.1.split_off(self.1.len().min(head_bytes + length));
        let body = self.1.split_off(head_bytes);
        self.1 = rest;
        (head, body)
    }

    fn get(&mut self, path: &str, more: &str) -> (String, Vec<u8>) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n{more}\r\n"));
        self.answer(true)
    }
}

#[test]
fn a_reader_gets_the_whole_file_one_part_and_several_on_one_connection() {
    let folder = Folder::new();
    let (served, all) = served(&folder);
    let mut reader = Reader::new(&served);
    let (head, body) = reader.get("/a%20b/made.root", "");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(body == all);
    let (head, body) = reader.get("/a%20b/made.root", "Range: bytes=100-299\r\n");
    assert!(head.starts_with("HTTP/1.1 206 Partial Content\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Range: bytes 100-299/{}\r\n", all.len())), "{head}");
    assert!(body == all[100..300]);
    let (head, body) = reader.get("/a%20b/made.root", "Range: bytes=3-4,1000-8999,-5\r\n");
    let mark = head.split_once("boundary=").unwrap().1.lines().next().unwrap();
    let mut wanted = Vec::new();
    for (first, end) in [(3, 5), (1000, 9000), (all.len() - 5, all.len())] {
        let range = format!("Content-Range: bytes {first}-{}/{}\r\n\r\n", end - 1, all.len());
        wanted.extend_from_slice(
            format!("\r\n--{mark}\r\nContent-Type: application/octet-stream\r\n{range}").as_bytes(),
        );
        wanted.extend_from_slice(&all[first..end]);
    }
    wanted.extend_from_slice(format!("\r\n--{mark}--\r\n").as_bytes());
    assert!(body == wanted);
    reader.ask("HEAD /a%20b/made.root HTTP/1.1\r\n\r\n");
    let (head, _) = reader.answer(false);
    assert!(head.contains(&format!("Content-Length: {}\r\n", all.len())), "{head}");
    let (_, names) = reader.get("/", "");
    assert_eq!(names, b"a b/made.root\n");
}

#[test]
fn a_part_of_what_was_served_before_is_not_put_to_what_is_served_now() {
    let folders = [Folder::new(), Folder::new()];
    let tags: Vec<String> = folders
        .iter()
        .map(|folder| {
            let (served, all) = served(folder);
            let mut reader = Reader::new(&served);
            let (head, _) = reader.get("/a%20b/made.root", "");
            let tag = head.split_once("ETag: ").unwrap().1.lines().next().unwrap().to_owned();
            for (tag, bytes) in [(&*tag, 10), ("\"0000000000000017\"", all.len())] {
                let more = format!("Range: bytes=0-9\r\nIf-Range: {tag}\r\n");
                assert_eq!(reader.get("/a%20b/made.root", &more).1.len(), bytes, "{tag}");
            }
            // Who means another one gets nothing, and so does who has it.
            let other = "Range: bytes=0-9\r\nIf-Match: \"other\"\r\n";
            let (head, _) = reader.get("/a%20b/made.root", other);
            assert!(head.starts_with("HTTP/1.1 412 Precondition Failed\r\n"), "{head}");
            reader.ask(&format!("GET /a%20b/made.root HTTP/1.1\r\nIf-None-Match: {tag}\r\n\r\n"));
            let (head, _) = reader.answer(false);
            assert!(head.starts_with("HTTP/1.1 304 Not Modified\r\n") && head.contains(&tag), "{head}");
            let same = format!("Range: bytes=0-9\r\nIf-Match: {tag}\r\n");
            assert_eq!(reader.get("/a%20b/made.root", &same).1.len(), 10);
            tag
        })
        .collect();
    assert_ne!(tags[0], tags[1]);
}

#[test]
fn what_is_not_there_any_more_is_no_answer_without_its_bytes() {
    let folder = Folder::new();
    let read = Box::new(|offset: u64, into: &mut [u8]| match offset {
        0 => Ok(into.len()),
        _ => Err(Error::Expired),
    });
    let shown = Shown { name: "a.root".into(), length_bytes: 3 << 20, read };
    let served = Served::start(&Address::Unix(folder.0.join("socket")), vec![shown]).unwrap();
    let mut reader = Reader::new(&served);
    assert_eq!(reader.get("/a.root", "Range: bytes=0-9\r\n").1.len(), 10);
    let (head, body) = reader.get("/a.root", "Range: bytes=10-19\r\n");
    assert!(
        head.starts_with("HTTP/1.1 500 Internal Server Error\r\nServer: dolmen\r\nConnection: close"),
        "{head}"
    );
    assert_eq!(body, b"500 Internal Server Error\n");
    // Where some of it was sent the connection ends before the rest.
    let mut reader = Reader::new(&served);
    let (head, body) = reader.get("/a.root", "");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.len() == 1 << 20, "{head}");
}

#[test]
fn a_url_leads_to_whatever_the_file_is_called() {
    let anywhere = Address::Tcp(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    for name in ["a/b-1_2.root", "100%.root", "a#b?c=%20 \u{e9}.root", "a\r\nX: y"] {
        let read = Box::new(|_, into: &mut [u8]| {
            into.fill(7);
            Ok(into.len())
        });
        let shown = Shown { name: name.into(), length_bytes: 3, read };
        let served = Served::start(&anywhere, vec![shown]).unwrap();
        let url = served.url(name).unwrap();
        let path = url.strip_prefix("http://").unwrap().find('/').unwrap();
        let (head, body) = Reader::new(&served).get(&url["http://".len() + path..], "");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{url}: {head}");
        assert_eq!(body, [7, 7, 7], "{url}");
        assert!(!head.contains("X: y"), "{head}");
    }
    let folder = Folder::new();
    assert_eq!(served(&folder).0.url("made.root"), None);
}

#[test]
fn what_is_not_there_or_not_understood_is_answered_by_its_status() {
    let folder = Folder::new();
    let (served, _) = served(&folder);
    for (request, status) in [
        ("GET /made.root HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("PUT /a%20b/made.root HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405 Method Not Allowed"),
        ("GET /a%20b/made.root HTTP/1.1\r\nRange: bytes=9999999-\r\n\r\n", "416 Range Not Satisfiable"),
        ("nonsense\r\n\r\n", "400 Bad Request"),
    ] {
        let mut reader = Reader::new(&served);
        reader.ask(request);
        let (head, _) = reader.answer(true);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {head}");
    }
}

#[test]
fn many_read_at_once_and_all_end_with_what_serves_them() {
    let folder = Folder::new();
    let (served, all) = served(&folder);
    let mut readers: Vec<_> = (0..20).map(|_| Reader::new(&served)).collect();
    for (at, reader) in readers.iter().enumerate() {
        reader.ask(&format!("GET /a%20b/made.root HTTP/1.1\r\nRange: bytes={at}-\r\n\r\n"));
    }
    for (at, reader) in readers.iter_mut().enumerate() {
        assert!(reader.answer(true).1 == all[at..]);
    }
    drop(served);
    for reader in &mut readers {
        reader.until(|_| false);
    }
}
