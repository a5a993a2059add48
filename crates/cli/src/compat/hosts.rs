//! What `dmg` takes before its verb: where the engines are, and settings of DAOS that say so.

use super::SystemArg;
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::path::shown_outside;
use clap::Args;
use std::path::{Path, PathBuf};

/// Where DAOS's engines listen for administrators, unless somebody says otherwise.
//= daos:src/control/lib/control/config.go default control port
const PORT: u16 = 10_001;

#[derive(Args, Debug)]
pub(super) struct Hosts {
    /// Hosts of the engines, each as HOST or HOST:PORT [default port: 10001]; without a port, localhost is this machine's system
    #[arg(long, short = 'l', value_name = "HOSTS", value_delimiter = ',', conflicts_with = "name")]
    host_list: Vec<String>,
    /// For scripts: it changes nothing; certificates are used where DOLMEN_CERTS names some
    #[arg(long, short = 'i')]
    insecure: bool,
    /// DAOS's file of settings for administrators: name, hostlist and port of it are read
    #[arg(long, short = 'o', value_name = "FILE", conflicts_with_all = ["name", "host_list"])]
    config_path: Option<PathBuf>,
    /// For scripts: says no more than without it
    #[arg(long, short)]
    debug: bool,
    /// For scripts: no proxy is used, with or without it
    #[arg(long, hide = true)]
    allow_proxy: bool,
    /// For scripts: what is said is said on standard output and standard error
    #[arg(long, value_name = "FILE", hide = true)]
    log_file: Option<PathBuf>,
    /// For scripts: there is no log of a command
    #[arg(long, short = 'J', hide = true)]
    json_logging: bool,
}

impl Hosts {
    /// The system that is meant.
    pub(super) fn system(&self, named: &SystemArg) -> Outcome<SystemArg> {
        named.or(|| match &self.config_path {
            Some(file) => of_file(file),
            None => Ok(addresses(&self.host_list, PORT)),
        })
    }
}

/// Hosts as the addresses of a system; `None` for none, or for this machine alone.
fn addresses(hosts: &[String], port: u16) -> Option<String> {
    let is_here = |host: &String| host == "localhost" || host == "127.0.0.1";
    if hosts.iter().all(is_here) {
        return None;
    }
    let with_port = |host: &String| if host.contains(':') { host.clone() } else { format!("{host}:{port}") };
    Some(format!("tcp://{}", hosts.iter().map(with_port).collect::<Vec<_>>().join(",")))
}

/// The system that a file of settings names: by its hosts, else by its name.
fn of_file(file: &Path) -> Outcome<Option<String>> {
    let doing = || format!("read {}", shown_outside(file));
    let text = std::fs::read_to_string(file).map_err(|error| Failure::on_file(file, &error)).doing(doing)?;
    let settings = Settings::of(&text).ok_or_else(|| {
        Failure::new(Exit::Usage, "its port is no number").hint("write port: 10001, or leave it out")
    });
    let settings = settings.doing(doing)?;
    if !settings.is_one {
        let failure =
            Failure::new(Exit::Usage, "it has neither name, hostlist nor port, and so is no such file");
        return Err(failure.hint("write hostlist: ['HOST'], or leave out -o")).doing(doing);
    }
    Ok(addresses(&settings.hosts, settings.port).or(settings.name))
}

/// What such a file has at the beginning of lines.
const KEYS: [&str; 4] = ["name", "hostlist", "port", "transport_config"];

/// What is read of a file of settings.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    name: Option<String>,
    hosts: Vec<String>,
    port: u16,
    /// It has keys of such a file.
    is_one: bool,
}

impl Settings {
    /// Reads what stands at the beginning of lines, and lists in either way of writing them; `None` if a port is none.
    fn of(text: &str) -> Option<Self> {
        let mut settings = Self { name: None, hosts: Vec::new(), port: PORT, is_one: false };
        let mut is_of_hosts = false;
        for line in text.lines().map(|line| line.split(" #").next().unwrap_or(line)) {
            let plain = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
            if let Some(item) = line.trim_start().strip_prefix("- ") {
                if is_of_hosts {
                    settings.hosts.push(plain(item));
                }
                continue;
            }
            let Some((key, value)) = line.split_once(':') else { continue };
            is_of_hosts = key == "hostlist";
            settings.is_one |= KEYS.contains(&key);
            match key {
                "name" => settings.name = Some(plain(value)).filter(|name| !name.is_empty()),
                "port" => settings.port = value.trim().parse().ok()?,
                "hostlist" => {
                    let items = value.trim().trim_matches(['[', ']']).split(',').map(plain);
                    settings.hosts.extend(items.filter(|item| !item.is_empty()));
                }
                _ => {}
            }
        }
        Some(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_but_for_this_machine() {
        let of = |hosts: &[&str]| {
            addresses(&hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>(), PORT)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["localhost"]), None);
        assert_eq!(of(&["a", "b:7"]), Some("tcp://a:10001,b:7".to_owned()));
        assert_eq!(of(&["localhost:7"]), Some("tcp://localhost:7".to_owned()));
    }

    #[test]
    fn settings_of_administrators_are_read_in_both_ways_of_writing_lists() {
        let expected = Settings {
            name: Some("lab".to_owned()),
            hosts: vec!["n1".to_owned(), "n2:77".to_owned()],
            port: 10_002,
            is_one: true,
        };
        for hosts in ["hostlist: ['n1', \"n2:77\"] # two", "hostlist:\n  - n1\n  - n2:77\nother:\n  - n3"] {
            let text = format!("# mine\nname: lab\nport: 10002\n{hosts}\ntransport_config:\n  key: x\n");
            assert_eq!(Settings::of(&text).as_ref(), Some(&expected), "{text}");
        }
        assert_eq!(Settings::of("PK\u{3}:\n").map(|settings| settings.is_one), Some(false));
        assert_eq!(Settings::of("port: many\n"), None);
        assert_eq!(Settings::of("").map(|settings| settings.port), Some(PORT));
    }
}
