//! Every request of a C program tells the daemon its job and tenant.

use crate::killed::process::Served;
use crate::kit::{self, c_tests};
use dolmen_codec::wire::{HELLO_BYTES, Hello, REQUEST_HEADER_BYTES, RequestHeader, Version};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

c_tests!("account": requests_say_for_whom_they_are, a_tenant_that_is_none_is_refused);

/// Hands the one connection that is made at `near` on to a daemon, without rings; what the client has sent, when it is over.
fn listen_in(near: &Path, far: &Path) -> std::thread::JoinHandle<Vec<u8>> {
    let (listener, far) = (UnixListener::bind(near).unwrap(), far.to_owned());
    dolmen_env::spawn("relay", move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut far = UnixStream::connect(far).unwrap();
        let mut hello = [0; HELLO_BYTES];
        near.read_exact(&mut hello).unwrap();
        let hello = Hello { ring_bytes: 0, ..Hello::decode(&hello).unwrap() }.encode();
        far.write_all(&hello).unwrap();
        let (mut answers, mut back) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let down = dolmen_env::spawn("relay", move || std::io::copy(&mut answers, &mut back)).unwrap();
        let (mut all, mut bytes) = (hello.to_vec(), vec![0; 64 << 10]);
        // A client that has ended may reset the connection.
        while let Ok(count @ 1..) = near.read(&mut bytes) {
            all.extend(&bytes[..count]);
            far.write_all(&bytes[..count]).unwrap();
        }
        // Ignored: the daemon may have closed it.
        _ = far.shutdown(Shutdown::Write);
        // Ignored: nobody may hear the last answers.
        _ = down.join().unwrap();
        all
    })
    .unwrap()
}

/// The headers of all requests.
fn headers(sent: &[u8]) -> Vec<RequestHeader> {
    let (hello, mut rest) = sent.split_first_chunk::<HELLO_BYTES>().unwrap();
    let version = Hello::decode(hello).unwrap().agreed().unwrap();
    assert_eq!(version, Version::Two);
    let mut found = Vec::new();
    while let Some((header, behind)) = rest.split_first_chunk::<REQUEST_HEADER_BYTES>() {
        let header = RequestHeader::decode(header, version).unwrap();
        // The checksums of a payload are behind it.
        let payload = usize::try_from(header.payload_bytes).unwrap();
        let sum_bytes = if payload == 0 { 0 } else { 4 };
        rest = &behind[header.body_bytes as usize + payload + sum_bytes..];
        found.push(header);
    }
    assert!(rest.is_empty());
    found
}

/// Job and tenant that a program tells, in an environment.
fn told(dir: &Path, served: &Served, set: impl FnOnce(&mut Command)) -> (u64, u32) {
    let near = dir.join("near.sock");
    let heard = listen_in(&near, &served.socket());
    let mut command = kit::test_of("account", "requests_say_for_whom_they_are");
    command
        .env("DOLMEN_SYSTEM", format!("unix:{}", near.display()))
        .env("XDG_CONFIG_HOME", dir)
        .current_dir(dir);
    for name in ["DAOS_JOBID", "DAOS_JOBID_ENV", "DOLMEN_TENANT"] {
        command.env_remove(name);
    }
    set(&mut command);
    kit::assert_ended(&command.output().unwrap(), "requests_say_for_whom_they_are");
    let headers = headers(&heard.join().unwrap());
    std::fs::remove_file(near).unwrap();
    assert!(headers.len() >= 8, "{headers:?}");
    let first = headers[0].head;
    for header in &headers {
        assert_eq!((header.head.job, header.head.tenant), (first.job, first.tenant), "{header:?}");
    }
    (first.job, first.tenant)
}

#[test]
fn every_request_tells_the_daemon_job_and_tenant() {
    let dir = kit::system("account-told");
    let served = Served::start(&dir);
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&dir).unwrap());
    assert_eq!(told(&dir, &served, |_| ()), (0, user));
    let told_all =
        told(&dir, &served, |command| _ = command.env("DAOS_JOBID", "4711").env("DOLMEN_TENANT", "9"));
    assert_eq!(told_all, (4711, 9));
    std::fs::create_dir(dir.join("dolmen")).unwrap();
    std::fs::write(dir.join("dolmen/client.toml"), "tenant = 12 # of the laboratory\n").unwrap();
    let by_name = told(&dir, &served, |command| {
        command.env("DAOS_JOBID", "1").env("DAOS_JOBID_ENV", "SLURM_JOB_ID").env("SLURM_JOB_ID", "815");
    });
    assert_eq!(by_name, (815, 12));
    let (text, _) = told(&dir, &served, |command| _ = command.env("DAOS_JOBID", "815.head"));
    let (same, _) = told(&dir, &served, |command| _ = command.env("DAOS_JOBID", "815.head"));
    assert_eq!((text >> 63, text), (1, same));
    drop(served);
    std::fs::remove_dir_all(dir).unwrap();
}
