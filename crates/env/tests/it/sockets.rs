//! Sockets between two ends in one process: bytes, descriptors, who is there, and the end.

use core::time::Duration;
use dolmen_env::{
    Address, Bell, Error, Listener, Moved, SharedMemory, Socket, Waiter, peer_watch, raise_descriptor_limit,
};
use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit};
use std::io::IoSlice;
use std::path::{Path, PathBuf};

const SOON: Option<Duration> = Some(Duration::from_secs(10));

fn pair(address: &Address) -> (Listener, Socket, Socket) {
    let listener = Listener::bind(address).unwrap();
    let near = Socket::connect(listener.address(), Duration::from_secs(10)).unwrap();
    let waiter = Waiter::new().unwrap();
    waiter.add(&listener, 7, false).unwrap();
    let mut ready = Vec::new();
    waiter.wait(SOON, &mut ready).unwrap();
    assert_eq!((ready[0].token, ready[0].readable), (7, true));
    let far = listener.accept().unwrap().expect("one has arrived");
    (listener, near, far)
}

fn name(what: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("dolmen-{what}-{}", std::process::id()));
    drop(std::fs::remove_file(&path));
    path
}

fn read(socket: &Socket) -> Vec<u8> {
    assert!(socket.wait(true, false, SOON).unwrap().readable);
    let mut bytes = [0; 64];
    match socket.read(&mut bytes).unwrap() {
        Moved::Bytes(len) => bytes[..len].to_vec(),
        other => panic!("{other:?} instead of bytes"),
    }
}

fn talk(near: &Socket, far: &Socket) {
    assert_eq!(far.read(&mut [0; 4]).unwrap(), Moved::Later);
    let parts = [IoSlice::new(b"sto"), IoSlice::new(b"ne")];
    assert_eq!(near.write(&parts).unwrap(), Moved::Bytes(5));
    assert_eq!(read(far), b"stone");
}

#[test]
fn a_unix_socket_tells_who_is_there_and_when_he_is_gone() {
    let path = name("unix");
    let (_listener, near, far) = pair(&Address::Unix(path.clone()));
    talk(&near, &far);
    let peer = far.peer().unwrap().expect("the kernel knows");
    assert_eq!(peer.pid, std::process::id());
    drop(near);
    assert!(far.wait(true, false, SOON).unwrap().readable);
    assert_eq!(far.read(&mut [0; 4]).unwrap(), Moved::End);
    assert_eq!(far.write(&[IoSlice::new(b"late")]).unwrap(), Moved::End);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_unix_socket_may_be_in_a_directory_with_a_long_name() {
    let dir = name("deep");
    let path = dir.join("d".repeat(200)).join("s".repeat(80));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (listener, near, far) = pair(&Address::Unix(path.clone()));
    talk(&near, &far);
    assert_eq!(listener.address(), &Address::Unix(path.clone()));
    assert!(path.exists());
    let missing = Address::Unix(path.with_file_name("missing"));
    let error = Socket::connect(&missing, Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_tcp_socket_gets_a_free_port() {
    let (listener, near, far) = pair(&Address::Tcp("127.0.0.1:0".parse().unwrap()));
    talk(&near, &far);
    assert_eq!(far.peer().unwrap(), None);
    assert!(matches!(listener.address(), Address::Tcp(at) if at.port() != 0));
}

#[test]
fn the_system_watches_over_silent_peers_on_the_network() {
    let (_listener, near, far) = pair(&Address::Tcp("127.0.0.1:0".parse().unwrap()));
    for socket in [&near, &far] {
        assert!(sockopt::socket_keepalive(socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(socket).unwrap(), Duration::from_secs(60));
    }
}

#[test]
fn a_process_may_have_as_many_descriptors_as_its_hard_limit_says() {
    let allowed = raise_descriptor_limit().unwrap();
    let limit = getrlimit(Resource::Nofile);
    assert_eq!(limit.current, limit.maximum);
    assert_eq!(limit.maximum.unwrap_or(u64::MAX), allowed);
}

#[test]
fn a_full_socket_says_later_and_is_writable_again() {
    let path = name("full");
    let (_listener, near, far) = pair(&Address::Unix(path.clone()));
    let bytes = vec![7; 1 << 20];
    let mut sent = 0;
    while let Moved::Bytes(len) = near.write(&[IoSlice::new(&bytes)]).unwrap() {
        sent += len;
    }
    assert!(!near.wait(false, true, Some(Duration::ZERO)).unwrap().writable);
    let mut room = vec![0; 1 << 16];
    while sent > 0 {
        match far.read(&mut room).unwrap() {
            Moved::Bytes(len) => sent -= len,
            other => panic!("{other:?} with {sent} bytes to come"),
        }
    }
    assert!(near.wait(false, true, SOON).unwrap().writable);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn memory_travels_beside_the_bytes() {
    let path = name("memory");
    let (_listener, near, far) = pair(&Address::Unix(path.clone()));
    let ours = SharedMemory::create(4096).unwrap();
    ours.copy_in(100, b"menhir");
    assert_eq!(near.write_with(&[IoSlice::new(b"here")], ours.fd()).unwrap(), Moved::Bytes(4));
    let mut bytes = [0; 16];
    let (moved, fd) = far.read_with(&mut bytes).unwrap();
    assert_eq!((moved, &bytes[..4]), (Moved::Bytes(4), &b"here"[..]));
    let theirs = SharedMemory::adopt(fd.expect("it came along"), 4096).unwrap();
    let mut seen = [0; 6];
    theirs.copy_out(100, &mut seen);
    assert_eq!(&seen, b"menhir");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn nobody_there_is_told_with_the_address() {
    let missing = Address::Unix(name("missing"));
    let error = Socket::connect(&missing, Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = listener.address().clone();
    drop(listener);
    let error = Socket::connect(&address, Duration::from_secs(1)).unwrap_err().to_string();
    assert!(error.contains(&address.to_string()), "{error}");
    assert!(Listener::bind(&Address::Unix(Path::new("/").join("x".repeat(200)))).is_err());
}

#[test]
fn the_end_of_a_process_is_an_event() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let watch = peer_watch(child.id()).unwrap();
    let waiter = Waiter::new().unwrap();
    waiter.add(&watch, 3, false).unwrap();
    let mut ready = Vec::new();
    waiter.wait(SOON, &mut ready).unwrap();
    assert_eq!(ready[0].token, 3);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_bell_calls_until_it_is_still() {
    let (bell, waiter) = (Bell::new().unwrap(), Waiter::new().unwrap());
    waiter.add(&bell, 5, false).unwrap();
    let mut ready = Vec::new();
    waiter.wait(Some(Duration::ZERO), &mut ready).unwrap();
    assert!(ready.is_empty());
    bell.ring();
    bell.ring();
    waiter.wait(SOON, &mut ready).unwrap();
    assert_eq!(ready.pop().unwrap().token, 5);
    bell.still();
    waiter.wait(Some(Duration::ZERO), &mut ready).unwrap();
    assert!(ready.is_empty());
}
