//! What is open in programs that ask little, over the ends of connections.

use crate::altered::Alterer;
use crate::child::ChildDaemon;
use crate::common::{Scratch, Way, create, pool};
use dolmen_codec::pool::ContName;
use dolmen_dfs::{Dfs, FormatOptions, MountOptions, OpenOptions};
use dolmen_net::client::Link;
use dolmen_types::Label;

/// As a program has it that nothing asks for but what it does itself.
fn mount(link: &Link) -> Dfs {
    let cont = pool(link, "p").open_container(&ContName::Label(Label::new("files").unwrap())).unwrap();
    let options = MountOptions { shared: true, tells_opens: true, ..MountOptions::default() };
    Dfs::mount(&cont, &options).unwrap()
}

#[test]
fn who_only_closes_files_after_his_connection_has_ended_makes_another_for_those_that_are_open() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let link = daemon.link(Way::Socket);
    create(&link, "p");
    let label = Label::new("files").unwrap();
    let cont = pool(&link, "p").create_container(Some(label), Dfs::container_props()).unwrap();
    let cont = pool(&link, "p").open_container(&ContName::Uuid(cont.uuid)).unwrap();
    Dfs::format(&cont, &FormatOptions::default()).unwrap();
    let alterer = Alterer::start(daemon.address(Way::Socket), &dir.path().join("way.sock"), |_| ());
    let (one, two) = (mount(&alterer.link()), mount(&link));
    let make = |name: &str| one.open(name, &OpenOptions { read: true, ..OpenOptions::CREATE }).unwrap();
    let [left, closed @ ..] = ["/left", "/a", "/b", "/c"].map(make);
    for file in closed {
        let before = alterer.connections();
        alterer.end_all();
        file.close().unwrap();
        assert_eq!(alterer.connections(), before + 1);
    }
    two.unlink("/left").unwrap();
    left.write_at(0, b"goes on").unwrap();
    assert_eq!(left.stat().unwrap().size_bytes, 7);
    daemon.assert_sound();
}
