//! A real server of the S3 protocol: SeaweedFS, as `cargo xtask tools` brings it from PyPI.

use dolmen_remote::{Options, Remote};
use dolmen_rntuple::bucket::{Bucket, Put};
use dolmen_types::IoBuf;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write, copy, sink};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// Keys of who may do all, and of who may read one bucket.
pub(crate) const OWNER: (&str, &str) = ("owner", "owner-secret");
pub(crate) const READER: (&str, &str) = ("reader", "reader-secret");

/// The bucket that is there.
pub(crate) const BUCKET: &str = "events";

/// Who may do what, as the server reads it.
const IDENTITIES: &str = r#"{"identities":[
{"name":"owner","credentials":[{"accessKey":"owner","secretKey":"owner-secret"}],"actions":["Admin","Read","List","Tagging","Write"]},
{"name":"reader","credentials":[{"accessKey":"reader","secretKey":"reader-secret"}],"actions":["Read:events","List:events"]},
{"name":"writer","credentials":[{"accessKey":"writer","secretKey":"writer-secret"}],"actions":["Read","List","Write"]}]}"#;

/// Writers that may not make buckets.
pub(crate) const WRITER: (&str, &str) = ("writer", "writer-secret");

/// What the server says when it listens.
const LISTENS: &str = "Start Seaweed S3 API Server";

/// Ports that somebody else took in the meantime: how often others are tried.
const TRIES: u32 = 5;

/// Starts it, and kills it by its number when standard input has a line, or ends: when the test does, however it does. What it had on disk goes
/// in the second case.
const KEEPER: &str = r#"
place=$1; shift
"$@" </dev/null & pid=$!
read -r _; ended=$?
kill -9 $pid
wait $pid 2>/dev/null
[ $ended = 0 ] || rm -rf "$place"
"#;

/// The server of all tests that do not need one for themselves.
pub(crate) fn weed() -> &'static Weed {
    static WEED: OnceLock<Weed> = OnceLock::new();
    WEED.get_or_init(|| Weed::start("all"))
}

/// A server that runs as long as the value lives, and this process.
pub(crate) struct Weed {
    keeper: Option<(Child, ChildStdin)>,
    place: PathBuf,
    ports: Vec<u16>,
}

impl Weed {
    /// Starts one with nothing in it but the bucket.
    pub(crate) fn start(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("dolmen-weed-{name}-{}", std::process::id()));
        for _ in 0..TRIES {
            if place.exists() {
                fs::remove_dir_all(&place).unwrap();
            }
            fs::create_dir_all(place.join("data")).unwrap();
            fs::write(place.join("identities.json"), IDENTITIES).unwrap();
            let mut weed = Self { keeper: None, place: place.clone(), ports: free_ports() };
            if weed.restart() {
                weed.make_bucket();
                return weed;
            }
        }
        panic!("{} starts", program().display());
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// A connection to it.
    pub(crate) fn connect(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.ports[0]))
    }

    pub(crate) fn options(&self, (access_key, secret_key): (&str, &str)) -> Options {
        Options {
            endpoint: Some(self.endpoint()),
            access_key: Some(access_key.into()),
            secret_key: Some(secret_key.into()),
            is_anonymous: Some(false),
            ..Options::default()
        }
    }

    pub(crate) fn open(&self, prefix: &str) -> Remote {
        Remote::open(&format!("s3://{BUCKET}/{prefix}"), &self.options(OWNER)).unwrap()
    }

    pub(crate) fn kill(&mut self) {
        if let Some((mut keeper, mut input)) = self.keeper.take() {
            writeln!(input).unwrap();
            keeper.wait().unwrap();
        }
    }

    /// Starts it where it was, and waits until it listens; `false` if it ended instead.
    pub(crate) fn restart(&mut self) -> bool {
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "sh"]).arg(&self.place).arg(program());
        command.args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-s3"]);
        command.args([
            "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-volume.max=0",
            "-master.volumeSizeLimitMB=64",
        ]);
        command.arg(format!("-dir={}", self.place.join("data").display()));
        command.arg(format!("-s3.config={}", self.place.join("identities.json").display()));
        let names = ["s3", "s3", "master", "master", "volume", "volume", "filer", "filer"];
        for (nth, (name, port)) in names.iter().zip(&self.ports).enumerate() {
            let which = if nth % 2 == 0 { "port" } else { "port.grpc" };
            command.arg(format!("-{name}.{which}={port}"));
        }
        for name in ["filer", "s3"] {
            command.arg(format!("-{name}.localSocket={}", self.place.join(name).display()));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut keeper = command.current_dir(&self.place).spawn().unwrap();
        let input = keeper.stdin.take().unwrap();
        let mut log = BufReader::new(keeper.stderr.take().unwrap());
        self.keeper = Some((keeper, input));
        let mut line = String::new();
        while !line.contains(LISTENS) {
            line.clear();
            if log.read_line(&mut line).unwrap() == 0 {
                self.kill();
                return false;
            }
        }
        // What it says later is of no interest, and may not stop it.
        dolmen_env::spawn("weed-log", move || copy(&mut log, &mut sink()).unwrap()).unwrap();
        true
    }

    /// Makes the bucket. It listens before all of it is ready: it is asked until it has done what is asked.
    fn make_bucket(&self) {
        let first = || vec![Put { key: "first".into(), bytes: IoBuf::copy_of(b"x") }];
        loop {
            // A bucket is a folder of its files, which have a port of their own.
            let mut files = TcpStream::connect(("127.0.0.1", self.ports[6])).unwrap();
            write!(files, "POST /buckets/{BUCKET}/ HTTP/1.0\r\nContent-Length: 0\r\n\r\n").unwrap();
            let mut answer = String::new();
            files.read_to_string(&mut answer).unwrap();
            match self.open("").put(first()) {
                Ok(()) => return,
                Err(error) => println!("not ready yet: {answer}: {error}: {}", error.source),
            }
        }
    }
}

impl Drop for Weed {
    fn drop(&mut self) {
        self.kill();
        fs::remove_dir_all(&self.place).unwrap();
    }
}

/// Who listens at a port that nobody else has.
pub(crate) fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn free_ports() -> Vec<u16> {
    let listeners: Vec<_> = (0..8).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// An endpoint where nothing listens: its port was just free.
pub(crate) fn nowhere() -> String {
    format!("http://127.0.0.1:{}", free_ports()[0])
}

/// The program, beside the Python for tests: below the target directory, however far above the program that this is.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found =
        own.ancestors().map(|place| place.join("python-tests/bin/weed")).find(|program| program.exists());
    found.expect("there is a server of the S3 protocol for the tests; `cargo xtask tools` brings it")
}
