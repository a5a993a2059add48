//! The engines of a system, as one file lists them for all.

use crate::error::{Error, Result, RosterFault};
use crate::settings::UNNAMED;
use core::ops::Range;
use dolmen_codec::wire::RankInfo;
use dolmen_env::Address;
use dolmen_net::client::reach;
use dolmen_types::{Uuid, limits};
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The engines of a system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roster {
    /// The system's name.
    pub name: String,
    /// Its engines, in the order of the file; pools are made at the first.
    pub engines: Vec<RankInfo>,
    /// The directory with the engines' certificate, the same path on every machine.
    pub certs: Option<PathBuf>,
}

impl Roster {
    /// Reads a list in TOML: `name`, `certs` (an absolute path) if engines on a network have certificates, and for each engine a table `[[engine]]` with its `rank` and its `addresses`
    /// (`unix:` and an absolute path, `tcp://HOST:PORT`), the best way first.
    ///
    /// # Errors
    /// `Roster` with what is wrong and where.
    pub fn parse(text: &str) -> Result<Self> {
        let line = |span: Range<usize>| 1 + text[..span.start.min(text.len())].matches('\n').count();
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let (line, message) =
                    (line(error.span().unwrap_or(0..0)), error.message().replace('\n', "; "));
                return wrong(RosterFault::Syntax { line, message });
            }
        };
        if let Some(key) = table.keys().find(|key| !["name", "certs", "engine"].contains(&&**key.get_ref())) {
            let (line, key) = (line(key.span()), key.get_ref().to_string());
            return wrong(RosterFault::Unknown { line, key, known: KEYS });
        }
        let name = match table.get("name") {
            None => UNNAMED,
            Some(name) => match name.get_ref().as_str().filter(|name| reach::is_system_name(name)) {
                Some(name) => name,
                None => {
                    let line = line(name.span());
                    return wrong(RosterFault::Value { line, key: "name", wanted: NAME });
                }
            },
        };
        let certs = match table.get("certs") {
            None => None,
            Some(dir) => match dir.get_ref().as_str().filter(|dir| dir.starts_with('/')) {
                Some(dir) => Some(PathBuf::from(dir)),
                None => {
                    return wrong(RosterFault::Value { line: line(dir.span()), key: "certs", wanted: CERTS });
                }
            },
        };
        let listed = table.get("engine").and_then(|all| all.get_ref().as_array());
        let Some(listed) = listed.filter(|all| (1..=limits::TARGETS_MAX).contains(&all.len())) else {
            return wrong(RosterFault::Count);
        };
        let mut engines: Vec<RankInfo> = Vec::with_capacity(listed.len());
        for engine in listed.iter() {
            let found = engine_of(engine, &line).map_err(Error::Roster)?;
            if engines.iter().any(|other| other.rank == found.rank) {
                return wrong(RosterFault::Twice { line: line(engine.span()), rank: found.rank });
            }
            engines.push(found);
        }
        Ok(Self { name: name.to_owned(), engines, certs })
    }

    /// Where the engine `rank` is to listen.
    ///
    /// # Errors
    /// `Roster` if it is not listed, or a host is not found.
    pub fn addresses(&self, rank: u32) -> Result<Vec<Address>> {
        let engine = self.engines.iter().find(|engine| engine.rank == rank);
        let engine = engine.ok_or(Error::Roster(RosterFault::Unlisted { rank }))?;
        let found = engine.addresses.iter().map(|text| match reach::address(text) {
            Ok(Some(found)) => Ok(found),
            Ok(None) | Err(_) => wrong(RosterFault::Address { text: text.clone() }),
        });
        found.collect()
    }
}

/// What the system may be called.
const NAME: &str = "a text of 1 to 127 of the characters A-Z a-z 0-9 . _ -, the first no dot";

const KEYS: &str = "name, certs and [[engine]]";
const CERTS: &str = "the absolute path of a directory";
const RANK: &str = "a number from 0 on";
const ADDRESSES: &str = "a list of unix:/SOCKET and tcp://HOST:PORT";

fn engine_of(
    engine: &Spanned<DeValue<'_>>,
    line: &impl Fn(Range<usize>) -> usize,
) -> core::result::Result<RankInfo, RosterFault> {
    let begin = line(engine.span());
    let Some(table) = engine.get_ref().as_table() else {
        return Err(RosterFault::Value { line: begin, key: "engine", wanted: "a table [[engine]]" });
    };
    if let Some(key) = table.keys().find(|key| !["rank", "addresses"].contains(&&**key.get_ref())) {
        let (line, key) = (line(key.span()), key.get_ref().to_string());
        return Err(RosterFault::Unknown { line, key, known: "rank and addresses" });
    }
    let value = |key, wanted| {
        table.get(key).ok_or(RosterFault::Missing { line: begin, key, wanted }).map(|value| {
            let fault = RosterFault::Value { line: line(value.span()), key, wanted };
            (value.get_ref(), fault)
        })
    };
    let (rank, fault) = value("rank", RANK)?;
    let rank =
        rank.as_integer().filter(|rank| rank.radix() == 10).and_then(|rank| rank.as_str().parse().ok());
    let rank: u32 = rank.ok_or(fault)?;
    let (listed, fault) = value("addresses", ADDRESSES)?;
    let is_address = |text: &&str| text.starts_with("unix:/") || text.starts_with("tcp://");
    let text = |value: &Spanned<DeValue<'_>>| value.get_ref().as_str().filter(is_address).map(str::to_owned);
    let addresses: Option<Vec<String>> =
        listed.as_array().and_then(|listed| listed.iter().map(text).collect());
    match addresses.filter(|all| (1..=limits::RANK_ADDRESSES_MAX).contains(&all.len())) {
        Some(addresses) => Ok(RankInfo { rank, uuid: Uuid::nil(), addresses }),
        None => Err(fault),
    }
}

fn wrong<T>(fault: RosterFault) -> Result<T> {
    Err(Error::Roster(fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_engines_is_read_in_its_order() {
        let text = "name = \"lab\"\ncerts = \"/etc/dolmen\"\n[[engine]]\nrank = 3\naddresses = [\"unix:/a\"]\n\
                    [[engine]]\nrank = 1\naddresses = [\"tcp://127.0.0.1:7\", \"unix:/b\"]\n";
        let roster = Roster::parse(text).unwrap();
        let ranks: Vec<u32> = roster.engines.iter().map(|engine| engine.rank).collect();
        assert_eq!((roster.name.as_str(), ranks), ("lab", vec![3, 1]));
        assert_eq!(roster.certs, Some(PathBuf::from("/etc/dolmen")));
        assert_eq!(roster.addresses(1).unwrap().len(), 2);
        assert_eq!(roster.addresses(2), Err(Error::Roster(RosterFault::Unlisted { rank: 2 })));
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said() {
        let engine = "[[engine]]\nrank = 0\naddresses = [\"unix:/a\"]\n";
        let value = |line, key, wanted| RosterFault::Value { line, key, wanted };
        let missing = |line, key, wanted| RosterFault::Missing { line, key, wanted };
        let unknown = |line, key: &str, known| RosterFault::Unknown { line, key: key.to_owned(), known };
        for (text, fault) in [
            ("", RosterFault::Count),
            ("[[engine]]\naddresses = [\"unix:/a\"]\n", missing(1, "rank", RANK)),
            ("[[engine]]\nrank = -1\naddresses = [\"unix:/a\"]\n", value(2, "rank", RANK)),
            ("[[engine]]\nrank = 0\naddresses = [\"/a\"]\n", value(3, "addresses", ADDRESSES)),
            ("[[engine]]\nrank = 0\naddresses = [\"unix:a\"]\n", value(3, "addresses", ADDRESSES)),
            ("[[engine]]\nrank = 0\n", missing(1, "addresses", ADDRESSES)),
            (&[engine, engine].concat(), RosterFault::Twice { line: 4, rank: 0 }),
            (&["nam = 1\n", engine].concat(), unknown(1, "nam", KEYS)),
            (&[engine, "adresses = []\n"].concat(), unknown(4, "adresses", "rank and addresses")),
            (&["\nname = \"\"\n", engine].concat(), value(2, "name", NAME)),
            (&["certs = \"here\"\n", engine].concat(), value(1, "certs", CERTS)),
            (&["name = 3\n", engine].concat(), value(1, "name", NAME)),
            (&["name = \"my lab\"\n", engine].concat(), value(1, "name", NAME)),
        ] {
            assert_eq!(Roster::parse(text), Err(Error::Roster(fault)), "{text}");
        }
        let syntax = Roster::parse("\nname = 3 4");
        assert!(matches!(syntax, Err(Error::Roster(RosterFault::Syntax { line: 2, .. }))), "{syntax:?}");
    }
}
